//! Data that was written before write times were tracked, as young or old as `untimed_data` says.

use super::*;
use sinterdb::settings::UntimedData;

/// Data without numbers stays on the last level as long as the setting takes it for old, and not a merge longer.
#[test]
fn untimed_data_is_as_old_as_its_setting_says() {
    for style in STYLES {
        let world = World::new(FamilySettings { num_levels: LAST + 1, style, ..small() });
        world.write(0, 0, 200);
        world.write(900, 200, 400);
        world.compact(950);
        assert_eq!(world.levels(), [0, 0, 0, 400], "{style:?}: all numbers are gone");
        let turn_on = |untimed_data| {
            world.change(|s| (s.preclude_last_level_data_seconds, s.untimed_data) = (Preclude::Seconds(1000), untimed_data));
        };
        turn_on(UntimedData::Old);
        world.write(1000, 300, 500);
        world.compact(1200);
        assert_eq!(world.levels(), [0, 0, 200, 300], "{style:?}: what has a number is young, all else is old");
        world.compact(1300);
        assert_eq!(world.levels(), [0, 0, 200, 300], "{style:?}: and remains so");
        turn_on(UntimedData::Young);
        world.compact(1400);
        assert_eq!(world.levels(), [0, 0, 500, 0], "{style:?}: it may be as young as the newest write from before");
        turn_on(UntimedData::Old);
        let world = world.reopen();
        world.compact(1500);
        assert_eq!(world.levels(), [0, 0, 200, 300], "{style:?}: the setting is stored");
        (0..300).for_each(|n| world.check(n, if n < 200 { 0 } else { 900 }));
        (300..500).for_each(|n| world.check(n, 1000));
        assert!(world.db.verify().unwrap().is_empty());
    }
}
