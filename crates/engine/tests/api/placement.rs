//! Placement of data by age: data that stays above the last level, data that is demoted, and the temperature that it gets there.

mod untimed;

use super::*;
use sinter_storage::store::{Cause, Reason, Temperature};
use sinterdb::internal::manifest::TableInfo;
use sinterdb::settings::{Preclude, Style};
use std::collections::BTreeSet;

const STYLES: [Style; 2] = [Style::Leveled, Style::Universal];
const START: u64 = 1_000_000;
const LAST: usize = 3;

/// Data younger than so many seconds stays above the last of four levels.
fn aged(style: Style, seconds: u64) -> FamilySettings {
    FamilySettings {
        style,
        num_levels: LAST + 1,
        preclude_last_level_data_seconds: Preclude::Seconds(seconds),
        last_level_temperature: Temperature::Cold,
        default_write_temperature: Temperature::Hot,
        ..small()
    }
}

struct World {
    db: Db,
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
}

impl World {
    fn new(settings: FamilySettings) -> World {
        World::with(settings, |builder| builder)
    }

    fn with(settings: FamilySettings, more: impl FnOnce(Builder) -> Builder) -> World {
        let clock = Arc::new(ManualClock::default());
        clock.set_unix_seconds(START);
        let store = memory();
        let builder = more(builder().settings(inline()).clock(clock.clone()).family("default", settings));
        World { db: try_open(&store, builder).unwrap(), clock, store }
    }

    /// Keys `from..to`, in tables, `at` seconds after the start.
    fn write(&self, at: u64, from: usize, to: usize) {
        self.clock.advance_to(START + at);
        (from..to).for_each(|n| self.db.put(&key(n), &noise(n + at as usize, 100)).unwrap());
        self.db.flush().unwrap();
    }

    fn compact(&self, at: u64) {
        self.clock.advance_to(START + at);
        self.db.compact_range(&self.db.default_family(), None, None).unwrap();
    }

    fn tables(&self, level: usize) -> Vec<Arc<TableInfo>> {
        let version = self.db.version(&self.db.default_family()).unwrap();
        version.levels[level].iter().flat_map(|run| run.tables.iter().cloned()).collect()
    }

    fn entries(&self, level: usize) -> u64 {
        self.tables(level).iter().map(|t| t.entries).sum()
    }

    /// Entries by level.
    fn levels(&self) -> [u64; LAST + 1] {
        std::array::from_fn(|level| self.entries(level))
    }

    fn ticker(&self, name: &str) -> u64 {
        self.db.stats().tickers.iter().find(|(ticker, _)| *ticker == name).unwrap().1
    }

    fn change(&self, change: impl FnOnce(&mut FamilySettings)) {
        let family = self.db.default_family();
        let mut settings = self.db.family_settings(&family).unwrap();
        change(&mut settings);
        self.db.change_family_settings(&family, settings).unwrap();
    }

    fn reopen(self) -> World {
        let World { db, clock, store } = self;
        db.close().unwrap();
        let db = try_open(&store, builder().settings(inline()).clock(clock.clone())).unwrap();
        World { db, clock, store }
    }

    /// The value that the write `at` seconds gave a key.
    fn check(&self, n: usize, at: u64) {
        assert_eq!(self.db.get(&key(n)).unwrap().unwrap(), noise(n + at as usize, 100), "key {n}");
    }
}

#[test]
fn young_data_stays_above_the_last_level_and_old_data_sinks() {
    for style in STYLES {
        let world = World::new(aged(style, 1000));
        world.write(0, 0, 500);
        world.compact(100);
        assert_eq!(world.levels(), [0, 0, 500, 0], "{style:?}: nothing is old");
        world.write(900, 300, 600);
        world.compact(1100);
        assert_eq!(world.levels(), [0, 0, 300, 300], "{style:?}: keys that were not written again are old");
        (0..300).for_each(|n| world.check(n, 0));
        (300..600).for_each(|n| world.check(n, 900));
        let placed = ["hot", "cold", "sunk"].map(|what| world.ticker(&format!("sinterdb.placed.{what}.entries")));
        assert!(placed[0] >= 300 && placed[1] > 0 && placed[2] == 0, "{style:?}: {placed:?}");
        world.compact(5000);
        assert_eq!(world.levels(), [0, 0, 0, 600], "{style:?}");
        assert!(world.db.verify().unwrap().is_empty());
        world.db.check_ledger().unwrap();
    }
}

#[test]
fn tables_have_the_temperature_of_the_level_they_were_written_to() {
    for style in STYLES {
        let world = World::new(aged(style, 1000));
        world.write(0, 0, 500);
        assert!((0..LAST).flat_map(|level| world.tables(level)).all(|t| t.temperature == Temperature::Hot), "{style:?}: flushed");
        world.compact(1100);
        world.write(1200, 0, 100);
        world.compact(1200);
        let temperatures = |level| world.tables(level).iter().map(|t| t.temperature).collect::<Vec<_>>();
        assert!(!temperatures(LAST).is_empty() && temperatures(LAST).iter().all(|t| *t == Temperature::Cold), "{style:?}");
        assert!(!temperatures(LAST - 1).is_empty() && temperatures(LAST - 1).iter().all(|t| *t == Temperature::Hot), "{style:?}");
        let world = world.reopen();
        assert!(world.tables(LAST).iter().all(|t| t.temperature == Temperature::Cold), "{style:?}: the manifest keeps it");
    }
}

#[test]
fn what_is_on_the_last_level_is_known_to_be_old() {
    for style in STYLES {
        let world = World::new(aged(style, 1000));
        world.write(0, 0, 500);
        world.write(1500, 400, 600);
        world.compact(2000);
        assert!(!world.tables(LAST).is_empty());
        for table in world.tables(LAST) {
            assert!(table.newest_time <= START + 1000, "{style:?}: {table:?}");
        }
    }
}

#[test]
fn a_snapshot_sees_the_same_across_both_levels() {
    for style in STYLES {
        let world = World::new(FamilySettings { preclude_last_level_data_seconds: Preclude::Seconds(1000), ..aged(style, 0) });
        world.write(0, 0, 200);
        let at = ReadOptions { snapshot: Some(world.db.snapshot()), ..ReadOptions::default() };
        world.clock.advance_to(START + 1500);
        world.db.delete_range(&key(50), &key(100)).unwrap();
        world.db.delete(&key(10)).unwrap();
        world.write(1500, 20, 30);
        world.compact(1600);
        let [.., hot, cold] = world.levels();
        assert_eq!(cold, 200, "{style:?}: the snapshot keeps all old versions, and they are old");
        assert_eq!(hot, 11, "{style:?}: ten values and a tombstone");
        assert_eq!(world.tables(LAST - 1).iter().map(|t| t.range_tombstones).sum::<u64>(), 1, "{style:?}");
        for n in 0..200 {
            assert_eq!(world.db.get_with(&world.db.default_family(), &key(n), &at).unwrap().unwrap(), noise(n, 100));
            let expected = match n {
                10 | 50..100 => None,
                20..30 => Some(noise(n + 1500, 100)),
                _ => Some(noise(n, 100)),
            };
            assert_eq!(world.db.get(&key(n)).unwrap(), expected, "{style:?}: key {n}");
        }
        drop(at);
        world.compact(1700);
        assert_eq!(world.levels(), [0, 0, 10, 139], "{style:?}: what nobody sees is gone from both");
        assert_eq!(world.tables(LAST - 1).iter().map(|t| t.range_tombstones).sum::<u64>(), 0, "{style:?}");
    }
}

#[test]
fn a_value_of_merge_operands_is_as_young_as_the_newest() {
    for style in STYLES {
        let clock = Arc::new(ManualClock::default());
        clock.set_unix_seconds(START);
        let builder = builder().settings(inline()).clock(clock.clone()).family("default", aged(style, 1000));
        let db = try_open(&new_store(), builder.merge_operator("default", Arc::new(Join))).unwrap();
        let family = db.default_family();
        for key in [b"old", b"new", b"bad"] {
            db.put(key, b"a").unwrap();
        }
        db.merge(b"old", b"b").unwrap();
        db.flush().unwrap();
        clock.advance_to(START + 1500);
        db.merge(b"new", b"b").unwrap();
        db.merge(b"bad", b"bad").unwrap();
        db.compact_range(&family, None, None).unwrap();
        let version = db.version(&family).unwrap();
        let entries = |level: usize| version.levels[level].iter().flat_map(|run| &run.tables).map(|t| t.entries).sum::<u64>();
        // The operand that the operator refuses stays young above its old value.
        assert_eq!((entries(LAST - 1), entries(LAST)), (2, 2), "{style:?}");
        assert_eq!(db.get(b"old").unwrap().unwrap(), b"a,b");
        assert_eq!(db.get(b"new").unwrap().unwrap(), b"a,b");
        assert!(db.get(b"bad").is_err());
    }
}

#[test]
fn old_data_sinks_by_itself_when_nobody_writes() {
    for style in STYLES {
        let world = World::new(aged(style, 1000));
        (0..6).for_each(|n| world.write(200 * n, 100 * n as usize, 100 * n as usize + 150));
        world.clock.advance_to(START + 1300);
        world.db.wait_for_compactions().unwrap();
        if style == Style::Leveled {
            assert!(world.levels()[LAST] < 650, "not yet: more may come");
        }
        world.clock.advance_to(START + 2100);
        world.db.wait_for_compactions().unwrap();
        assert_eq!(world.levels()[LAST], 650, "{style:?}: {:?}", world.levels());
        let written = world.db.stats().ledger.total();
        world.clock.advance_to(START + 9000);
        world.db.wait_for_compactions().unwrap();
        assert_eq!(world.db.stats().ledger.total(), written, "{style:?}: and then nothing is left to do");
    }
}

/// Values that are old when they are put are no sign that nobody writes.
#[test]
fn a_backfill_of_old_values_is_not_taken_for_rest() {
    let world = World::new(aged(Style::Leveled, 1000));
    (0..100).for_each(|n| world.db.put_at(&key(n), &noise(n, 100), START - 5000).unwrap());
    world.db.flush().unwrap();
    let after = |seconds| {
        world.clock.advance_to(START + seconds);
        world.db.wait_for_compactions().unwrap();
        world.levels()
    };
    assert_eq!(after(300), [100, 0, 0, 0], "more may come");
    assert_eq!(after(700), [0, 0, 0, 100]);
    (0..100).for_each(|n| world.check(n, 0));
}

#[test]
fn the_age_changes_while_open_and_survives_reopening() {
    for style in STYLES {
        let world = World::new(aged(style, 1000));
        world.write(0, 0, 400);
        world.compact(100);
        assert_eq!(world.levels(), [0, 0, 400, 0], "{style:?}");
        world.change(|s| s.preclude_last_level_data_seconds = Preclude::Seconds(50));
        let world = world.reopen();
        world.compact(200);
        assert_eq!(world.levels(), [0, 0, 0, 400], "{style:?}: 200 seconds are old now");
        world.change(|s| s.preclude_last_level_data_seconds = Preclude::Seconds(10_000));
        world.write(300, 300, 500);
        world.compact(300);
        assert_eq!(world.levels()[LAST - 1] + world.levels()[LAST], 500, "{style:?}");
        world.change(|s| s.preclude_last_level_data_seconds = Preclude::Seconds(0));
        world.write(400, 500, 600);
        world.compact(400);
        assert_eq!(world.levels(), [0, 0, 0, 600], "{style:?}: off");
        (0..300).for_each(|n| world.check(n, 0));
        (300..500).for_each(|n| world.check(n, 300));
    }
}

/// Numbers outlive the age, so that a larger one finds what it is about, and nothing else.
#[test]
fn a_larger_age_fetches_up_what_is_young_by_it_and_no_more() {
    for style in STYLES {
        let world = World::new(aged(style, 1000));
        world.write(0, 0, 200);
        world.write(600, 200, 400);
        world.compact(1700);
        assert_eq!(world.levels(), [0, 0, 0, 400], "{style:?}");
        for (age, expected) in [(1200, [0, 0, 200, 200]), (2000, [0, 0, 400, 0]), (1000, [0, 0, 0, 400])] {
            world.change(|s| s.preclude_last_level_data_seconds = Preclude::Seconds(age));
            world.compact(1700);
            assert_eq!(world.levels(), expected, "{style:?}: {age} seconds");
        }
        (0..200).for_each(|n| world.check(n, 0));
        (200..400).for_each(|n| world.check(n, 600));
    }
}

/// The two orders of the migration: data written before times were asked for may be young, and counts as old only where its tables say that
/// nothing younger can be in them.
#[test]
fn data_from_before_is_old_only_if_nothing_younger_can_be_in_its_file() {
    for style in STYLES {
        for tracked in [false, true] {
            let world = World::new(FamilySettings { num_levels: LAST + 1, style, ..small() });
            world.write(0, 0, 300);
            world.compact(10);
            world.write(900, 200, 400);
            if tracked {
                world.change(|s| s.preclude_last_level_data_seconds = Preclude::Seconds(1000));
            }
            // Without an age to keep, this takes the numbers away from all of it.
            world.compact(950);
            if !tracked {
                world.change(|s| s.preclude_last_level_data_seconds = Preclude::Seconds(1000));
            }
            world.write(1000, 400, 500);
            world.compact(1200);
            let [.., hot, cold] = world.levels();
            assert_eq!(hot + cold, 500, "{style:?}");
            if tracked {
                assert_eq!((hot, cold), (300, 200), "{style:?}: exact, key by key");
            } else {
                assert!(hot >= 300, "{style:?}: {hot} entries above: young data is never taken for old");
            }
            // All of it is old in the end.
            world.compact(3000);
            assert_eq!(world.levels(), [0, 0, 0, 500], "{style:?}, tracked: {tracked}");
            (0..200).for_each(|n| world.check(n, 0));
            (200..400).for_each(|n| world.check(n, 900));
        }
    }
}

/// Values whose numbers are old and whose times are not stay above, and are not merged for their numbers over and over.
#[test]
fn values_stay_as_long_as_their_own_time_is_young() {
    for style in STYLES {
        let world = World::new(aged(style, 1000));
        let put = |n: usize, time: u64| world.db.put_at(&key(n), &noise(n, 100), time).unwrap();
        (0..300).for_each(|n| put(n, if n % 2 == 0 { START + 5000 } else { 0 }));
        world.write(0, 300, 600);
        world.write(1500, 600, 700);
        world.compact(2000);
        assert_eq!(world.levels(), [0, 0, 250, 450], "{style:?}");
        world.clock.advance_to(START + 2600);
        world.db.wait_for_compactions().unwrap();
        let written = world.db.stats().ledger.total();
        for second in 1..10 {
            world.clock.advance_to(START + 2600 + second);
            world.db.wait_for_compactions().unwrap();
        }
        assert_eq!(world.db.stats().ledger.total(), written, "{style:?}: merged for nothing");
        let world = world.reopen();
        assert!(world.tables(LAST - 1).iter().any(|t| t.by_time().is_some()), "{style:?}: the manifest keeps it");
        world.compact(5000);
        assert_eq!(world.levels(), [0, 0, 150, 550], "{style:?}");
        world.compact(7000);
        assert_eq!(world.levels(), [0, 0, 0, 700], "{style:?}");
        (0..600).for_each(|n| world.check(n, 0));
        (600..700).for_each(|n| world.check(n, 1500));
    }
}

/// Data that has outlived its time to live and is still there for a snapshot is not kept above, however large the age.
#[test]
fn what_has_outlived_its_time_to_live_is_not_young() {
    for style in STYLES {
        let world = World::new(FamilySettings { ttl_seconds: 500, write_buffer_size: 1 << 20, ..aged(style, 10_000) });
        (0..300).for_each(|n| world.db.put(&key(n), &noise(n, 100)).unwrap());
        world.clock.advance_to(START + 200);
        // Takes a sample of the time.
        world.db.put(&key(300), b"").unwrap();
        let snapshot = world.db.snapshot();
        // One table with those above: it does not expire as a whole.
        world.write(900, 301, 400);
        world.compact(1000);
        // A table of the last level may vanish as a whole meanwhile.
        assert!((99..=100).contains(&world.entries(LAST - 1)), "{style:?}: {:?}", world.levels());
        drop(snapshot);
        world.compact(1001);
        let [.., hot, cold] = world.levels();
        assert!((99..=100).contains(&hot) && cold == 0, "{style:?}: {:?}", world.levels());
    }
}

/// Everything is young and overwritten all the time: the last level, which nothing ever sinks to, must not keep what is dead.
#[test]
fn dead_data_on_the_last_level_is_found_below_data_that_never_sinks() {
    for style in STYLES {
        let world = World::new(FamilySettings { max_size_amplification_percent: 50, ..aged(style, 100_000) });
        world.write(0, 0, 4000);
        world.compact(200_000);
        assert_eq!(world.levels(), [0, 0, 0, 4000], "{style:?}");
        for round in 1..20 {
            world.write(200_000 + round, 0, 4000);
        }
        world.db.wait_for_compactions().unwrap();
        let live: u64 = 4000 * 110;
        let bytes = world.db.stats().live_table_bytes;
        assert!(bytes < live * 2, "{style:?}: {bytes} bytes of tables, {live} live, {:?}", world.levels());
        assert!(world.levels()[LAST] < 2000, "{style:?}: {:?}", world.levels());
        (0..4000).step_by(37).for_each(|n| world.check(n, 200_019));
    }
}

/// Times in the keys: old data moves to the last level without being rewritten.
#[test]
fn data_in_order_of_time_is_not_rewritten_to_sink() {
    let settings = FamilySettings { compression: sinterdb::settings::Compression::default().into(), ..aged(Style::Leveled, 1000) };
    let world = World::new(settings);
    for n in 0..60 {
        world.write(100 * n as u64, 200 * n, 200 * n + 200);
    }
    world.db.wait_for_compactions().unwrap();
    let [a, b, hot, cold] = world.levels();
    assert_eq!(a + b + hot + cold, 12_000);
    assert!(cold > 9000, "{:?}", world.levels());
    let compacted = world.db.stats().ledger.sum(|cause| matches!(cause, Cause::Compaction { .. }));
    let flushed = world.db.stats().ledger.sum(|cause| cause == Cause::Flush);
    assert!(compacted < flushed / 4, "{compacted} of {flushed} bytes were rewritten");
}

/// The last level lies on its medium however tables came there: as they were, or before there was one.
#[test]
fn what_is_on_the_last_level_lies_on_the_slow_medium() {
    let settings = FamilySettings {
        compression: sinterdb::settings::Compression::default().into(),
        default_write_temperature: Temperature::Unknown,
        ..aged(Style::Leveled, 1000)
    };
    let (world, cold) = (World::new(settings), memory());
    let check = |world: &World, what: &str| {
        world.db.wait_for_compactions().unwrap();
        let version = world.db.version(&world.db.default_family()).unwrap();
        assert!(!world.tables(LAST).is_empty(), "{what}: {:?}", world.levels());
        for (level, _, table) in version.tables() {
            let expected = if level == LAST { Temperature::Cold } else { Temperature::Unknown };
            assert_eq!(world.db.tier_of(table.number).unwrap(), expected, "{what}: a table of level {level}");
        }
    };
    let write = |world: &World, from: usize, to: usize| (from..to).for_each(|n| world.write(100 * n as u64, 200 * n, 200 * n + 200));
    write(&world, 0, 30);
    world.db.wait_for_compactions().unwrap();
    assert!(!world.tables(LAST).is_empty());
    let World { db, clock, store } = world;
    db.close().unwrap();
    let builder = builder().settings(inline()).clock(clock.clone()).tier_store(Temperature::Cold, cold);
    let world = World { db: try_open(&store, builder).unwrap(), clock, store };
    check(&world, "attached");
    write(&world, 30, 60);
    check(&world, "moved down");
    (0..60).for_each(|n| world.check(200 * n, 100 * n as u64));
    world.db.check_ledger().unwrap();
}

/// Young data and data that has just become old lie on one medium if the tier between them is missing, whatever colder ones there are: then
/// no compaction is urgent.
#[test]
fn a_tier_that_no_data_is_cold_enough_for_changes_nothing() {
    let settings = FamilySettings {
        temperature_ages: "hot 1000s, warm 30d, cold".parse().unwrap(),
        last_level_temperature: Temperature::Unknown,
        ..aged(Style::Universal, 1000)
    };
    let written = |tier: Option<Temperature>| {
        let attach = |builder: Builder| tier.into_iter().fold(builder, |builder, tier| builder.tier_store(tier, memory()));
        let world = World::with(settings.clone(), attach);
        (0..60).for_each(|n| world.write(100 * n, 50 * (n as usize % 40), 50 * (n as usize % 40) + 200));
        world.db.wait_for_compactions().unwrap();
        let tables = world.db.version(&world.db.default_family()).unwrap();
        let lying: BTreeSet<_> = tables.tables().map(|(_, _, table)| world.db.tier_of(table.number).unwrap()).collect();
        assert_eq!(lying.contains(&Temperature::Warm), tier == Some(Temperature::Warm), "{lying:?}");
        assert!(!lying.contains(&Temperature::Cold));
        let merged = |cause| matches!(cause, sinter_storage::store::Cause::Compaction { .. });
        (world.db.stats().ledger.sum(merged), world.levels())
    };
    let without = written(None);
    assert_eq!(written(Some(Temperature::Cold)), without);
    assert!(written(Some(Temperature::Warm)).0 > without.0, "old data hurries to a tier of its own");
}

/// The fast medium is full of what belongs on the slow one by now. Moving that makes room, and nothing else could.
#[test]
fn a_full_fast_medium_is_relieved_by_what_belongs_elsewhere() {
    let clock = Arc::new(ManualClock::default());
    clock.set_unix_seconds(START);
    let (store, cold) = (memory(), memory());
    let settings = FamilySettings { temperature_ages: "hot 1h, cold".parse().unwrap(), ..small() };
    let builder = builder().settings(inline()).clock(clock.clone()).family("default", settings);
    let db = try_open(&store, builder.tier_store(Temperature::Cold, cold)).unwrap();
    // Fewer than a compaction takes.
    for round in 0..2 {
        (0..100).for_each(|n| db.put(&key(n), &noise(n + round, 100)).unwrap());
        db.flush().unwrap();
    }
    clock.advance_seconds(7200);
    (0..100).for_each(|n| db.put(&key(n), &noise(n + 7, 100)).unwrap());
    let used: u64 = store.list().unwrap().iter().map(|(_, bytes)| bytes).sum();
    // Enough for an edit of the manifest, and not for a table.
    store.set_capacity(Some(used + 4096));
    assert!(matches!(db.flush(), Err(Error::NoSpace(_))));
    db.flush().unwrap();
    let version = db.version(&db.default_family()).unwrap();
    let moved = version.tables().filter(|(_, _, table)| db.tier_of(table.number).unwrap() == Temperature::Cold).count();
    assert!(moved > 0, "{version:?}");
    (0..100).for_each(|n| assert_eq!(db.get(&key(n)).unwrap().unwrap(), noise(n + 7, 100)));
    db.check_ledger().unwrap();
}

/// Old and young data in the same tables above the last level, which lies on a slow medium; then the fast one is full.
fn with_full_fast_medium(settings: FamilySettings) -> World {
    let world = World::with(settings, |builder| builder.tier_store(Temperature::Cold, memory()));
    let write = |at: u64, first: usize| {
        world.clock.advance_to(START + at);
        (first..600).step_by(2).for_each(|n| world.db.put(&key(n), &noise(n + at as usize, 100)).unwrap());
        world.db.flush().unwrap();
    };
    write(0, 0);
    write(900, 1);
    world.compact(900);
    assert_eq!(world.levels(), [0, 0, 600, 0]);
    let used: u64 = world.store.list().unwrap().iter().map(|(_, bytes)| bytes).sum();
    // Enough for edits of the manifest, and not for what is young of one table.
    world.store.set_capacity(Some(used + 4096));
    world
}

/// A merge that finds no room for what is young would be tried again for ever, and nothing that is old would ever leave the fast medium.
#[test]
fn young_data_sinks_where_the_fast_medium_has_no_room_for_it() {
    for style in STYLES {
        let world = with_full_fast_medium(aged(style, 1000));
        world.clock.advance_to(START + 1100);
        world.db.wait_for_compactions().unwrap();
        let [.., hot, cold] = world.levels();
        let sunk = world.ticker("sinterdb.placed.sunk.entries");
        assert!(hot + cold == 600 && sunk > 0 && cold > sunk, "{style:?}: {hot} and {cold}, {sunk} sank");
        assert!(world.tables(LAST).iter().all(|t| world.db.tier_of(t.number).unwrap() == Temperature::Cold), "{style:?}");
        assert!(world.ticker("sinterdb.tier.sunk.count") > 0 && world.ticker("sinterdb.tier.sunk.bytes") > 50 * sunk, "{style:?}");
        let told = world.db.property(&world.db.default_family(), "sinterdb.tiers").unwrap();
        assert!(told.contains(&format!("there was no space above the last level (unix time {})", START + 1100)), "{style:?}: {told}");
        world.db.check_ledger().unwrap();
        // With room, a merge finds them as young as they are.
        world.store.set_capacity(None);
        world.compact(1100);
        assert_eq!(world.levels(), [0, 0, 300, 300], "{style:?}");
        (0..600).for_each(|n| world.check(n, if n % 2 == 0 { 0 } else { 900 }));
        assert_eq!(world.db.verify().unwrap(), []);
    }
}

/// Everything is young, and there is more of it than the fast medium holds: as long as the slow one has room, writers are not refused.
#[test]
fn a_full_fast_medium_uses_the_room_of_the_slow_one() {
    for (style, background) in STYLES.into_iter().flat_map(|style| [0, 1, 2].map(|jobs| (style, jobs))) {
        let (store, cold, clock) = (memory(), memory(), Arc::new(ManualClock::default()));
        clock.set_unix_seconds(START);
        // Level 0 may take a quarter of the medium.
        let settings = FamilySettings {
            write_buffer_size: 64 << 10,
            target_file_size_base: 64 << 10,
            max_bytes_for_level_base: 256 << 10,
            level0_slowdown_writes_trigger: 8,
            level0_stop_writes_trigger: 12,
            ..aged(style, 100_000)
        };
        let jobs = DbSettings { max_background_jobs: background, ..inline() };
        let builder = builder().settings(jobs).clock(clock.clone()).family("default", settings);
        let db = try_open(&store, builder.tier_store(Temperature::Cold, cold.clone())).unwrap();
        store.set_capacity(Some(2_400_000));
        cold.set_capacity(Some(10_000_000));
        let what = format!("{style:?}, {background} jobs");
        for n in 0..10_000 {
            clock.advance_ns(100_000_000);
            db.put(&key(n * 7919 % 10_000), &noise(n, 500)).unwrap_or_else(|error| panic!("{what}: write {n}: {error}"));
        }
        db.wait_for_compactions().unwrap_or_else(|error| panic!("{what}: {error}"));
        let version = db.version(&db.default_family()).unwrap();
        for (level, _, table) in version.tables() {
            let expected = if level == LAST { Temperature::Cold } else { Temperature::Unknown };
            assert_eq!(db.tier_of(table.number).unwrap(), expected, "{what}: a table of level {level}");
        }
        // As much as fits stays (a run sinks as a whole), and it is told why the rest does not.
        let fast: u64 = version.tables().filter(|(level, ..)| *level < LAST).map(|(_, _, table)| table.bytes).sum();
        assert!(style == Style::Universal || fast > 500_000, "{what}: {fast} bytes are on the fast medium");
        let ticker = |name: &str| db.stats().tickers.iter().find(|(ticker, _)| *ticker == name).unwrap().1;
        assert!(ticker("sinterdb.tier.sunk.count") > 0 && ticker("sinterdb.tier.sunk.bytes") > 1_000_000, "{what}");
        let ledger = db.stats().ledger.on(Temperature::Cold);
        let reason = |wanted: Reason| ledger.sum(|cause| matches!(cause, Cause::Compaction { reason, .. } if reason == wanted));
        // With threads, how much of it other jobs take down before depends on which comes first.
        let least = if background == 0 { 1_000_000 } else { 1 };
        assert!(reason(Reason::Room) >= least, "{what}: {:?}", ledger.by_cause());
        (0..10_000).step_by(41).for_each(|n| assert_eq!(db.get(&key(n * 7919 % 10_000)).unwrap().unwrap(), noise(n, 500), "{what}"));
        db.check_ledger().unwrap();
        // It is no other room than there is: in the end both are full.
        let full = (10_000..60_000).find_map(|n| db.put(&key(n), &noise(n, 500)).err());
        assert!(matches!(full, Some(Error::NoSpace(_))), "{what}: {full:?}");
        // And with room it goes on, and what sank is as young as it was.
        store.set_capacity(None);
        cold.set_capacity(None);
        db.compact_range(&db.default_family(), None, None).unwrap();
        let version = db.version(&db.default_family()).unwrap();
        assert!(version.tables().all(|(level, ..)| level == LAST - 1), "{what}");
        assert_eq!(db.verify().unwrap(), [], "{what}");
    }
}

/// Space that one family frees lets the writers of all families on that medium go on.
#[test]
fn room_that_one_family_makes_lets_the_writers_of_another_go_on() {
    for style in STYLES {
        let world = World::with(aged(style, 100_000), |builder| builder.tier_store(Temperature::Cold, memory()));
        let other = world.db.create_family("other", aged(style, 100_000)).unwrap();
        world.write(0, 0, 3000);
        world.compact(10);
        assert_eq!(world.levels(), [0, 0, 3000, 0], "{style:?}: all is young");
        let used: u64 = world.store.list().unwrap().iter().map(|(_, bytes)| bytes).sum();
        // Less than two memtables take.
        world.store.set_capacity(Some(used + (24 << 10)));
        world.db.put_with(&other, b"key", b"value", &WriteOptions::default()).unwrap();
        world.db.flush().unwrap();
        world.db.wait_for_compactions().unwrap();
        assert!(world.entries(LAST) > 0, "{style:?}: some of the first family sank: {:?}", world.levels());
        assert_eq!(world.db.property(&other, "rocksdb.is-write-stopped").unwrap(), "0", "{style:?}");
        world.check(0, 0);
        assert_eq!(world.db.get_with(&other, b"key", &ReadOptions::default()).unwrap().unwrap(), b"value");
    }
}

/// Ages say how warm data is, and what sank is young: it would be moved up, merged down and moved up again.
#[test]
fn what_sank_is_raised_by_merges_and_not_moved() {
    for style in STYLES {
        let settings = FamilySettings { temperature_ages: "hot 1000, cold".parse().unwrap(), ..aged(style, 1000) };
        let world = with_full_fast_medium(settings);
        world.clock.advance_to(START + 1100);
        world.db.wait_for_compactions().unwrap();
        world.store.set_capacity(None);
        world.db.wait_for_compactions().unwrap();
        let places = |level: usize| world.tables(level).iter().map(|t| world.db.tier_of(t.number).unwrap()).collect::<Vec<_>>();
        assert!(world.ticker("sinterdb.placed.sunk.entries") > 0 && !places(LAST).is_empty(), "{style:?}");
        assert!(places(LAST).iter().all(|place| *place == Temperature::Cold), "{style:?}: {:?}", places(LAST));
        assert_eq!(world.ticker("sinterdb.tier.move.count"), 0, "{style:?}");
        world.compact(1100);
        assert_eq!(world.levels(), [0, 0, 300, 300], "{style:?}");
        assert!(places(LAST - 1).iter().all(|place| *place == Temperature::Unknown), "{style:?}");
        assert_eq!(world.ticker("sinterdb.tier.move.count"), 0, "{style:?}");
        // Asked to be hot, all of it is.
        world.change(|s| s.temperature_ages = "hot".parse().unwrap());
        world.db.wait_for_compactions().unwrap();
        assert!(places(LAST).iter().all(|place| *place == Temperature::Unknown), "{style:?}");
    }
}

/// The engine chooses in numbers; the times of these numbers go with the tables, or demoted data would be taken for young.
#[test]
fn what_the_engine_sends_to_the_last_level_is_known_to_be_old() {
    for style in STYLES {
        let world = World::new(FamilySettings { preclude_last_level_data_seconds: Preclude::Auto, ..aged(style, 0) });
        (0..20).for_each(|n| world.write(100 * n as u64, 100 * n, 100 * n + 100));
        world.compact(2000);
        assert!(!world.tables(LAST).is_empty(), "{style:?}: {:?}", world.levels());
        for table in world.tables(LAST) {
            assert!(table.newest_time <= START + 1700, "{style:?}: {table:?}");
        }
    }
}

#[test]
fn reads_are_counted_by_where_data_lies() {
    let world = World::new(aged(Style::Universal, 1000));
    world.write(0, 0, 400);
    world.write(1500, 400, 800);
    world.compact(2000);
    assert_eq!(world.levels(), [0, 0, 400, 400]);
    let world = world.reopen();
    let counts = |world: &World| ["rocksdb.last.level.read.count", "rocksdb.non.last.level.read.count"].map(|name| world.ticker(name));
    let before = counts(&world);
    world.check(700, 1500);
    let hot = counts(&world);
    assert!(hot[0] == before[0] && hot[1] > before[1], "{before:?} {hot:?}");
    world.check(100, 0);
    let cold = counts(&world);
    assert!(cold[0] > hot[0], "{hot:?} {cold:?}");
}
