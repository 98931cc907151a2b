//! The slow medium of a database: the coldest tier, unless something else is said, and a zoned drive as well as a directory.

use super::tiers::{HOUR, TierFolders, aged, places};
use super::*;
use sinter_storage::place::ZonedPlace;
use sinter_storage::store::Temperature;
use sinter_storage::zoned::{Emulator, Geometry};
use sinterdb::settings::{Preclude, Style};
use std::path::PathBuf;

/// A slow directory and an age are all that has to be said: the last level lay on the fast one, silently, unless its temperature was named.
#[test]
fn old_data_sinks_to_the_slow_directory_by_one_line() {
    for style in [Style::Leveled, Style::Universal] {
        let place = TierFolders::new();
        let family = FamilySettings { style, num_levels: 4, preclude_last_level_data_seconds: Preclude::Seconds(HOUR), ..small() };
        let open = |tiers: &[&str], family: FamilySettings| {
            place.builder().settings(place.settings(tiers)).family("default", family).open(place.path("db")).unwrap()
        };
        let on_last = |db: &Db| {
            db.compact_range(&db.default_family(), None, None).unwrap();
            db.wait_for_compactions().unwrap();
            let version = db.version(&db.default_family()).unwrap();
            version.tables().filter(|(level, ..)| *level == 3).map(|(_, _, table)| db.tier_of(table.number).unwrap()).collect::<Vec<_>>()
        };
        let told = |db: &Db| db.property(&db.default_family(), "sinterdb.tiering").unwrap();
        let db = open(&["warm=tape", "cold=slow"], family.clone());
        fill(&db, 1000, 60);
        db.flush().unwrap();
        assert!(on_last(&db).is_empty() && places(&db) == ["unknown"], "{style:?}: it is young");
        place.clock.advance_seconds(2 * HOUR);
        let places = on_last(&db);
        assert!(!places.is_empty() && places.iter().all(|place| *place == Temperature::Cold), "{style:?}: {places:?}");
        assert!(told(&db).contains("the last level is cold, as the coldest tier"), "{}", told(&db));
        db.close().unwrap();
        // What is said goes before it.
        let db = open(&["warm=tape", "cold=slow"], FamilySettings { last_level_temperature: Temperature::Warm, ..family.clone() });
        assert!(on_last(&db).iter().all(|place| *place == Temperature::Warm) && !told(&db).contains("coldest"), "{style:?}");
        db.close().unwrap();
        let db = open(&["warm=tape", "cold=slow"], FamilySettings { temperature_ages: "hot".parse().unwrap(), ..family.clone() });
        assert!(on_last(&db).iter().all(|place| *place == Temperature::Unknown) && !told(&db).contains("coldest"), "{style:?}");
        db.close().unwrap();
        // A medium that is faster than the database's own is not for what is old.
        let db = open(&["hot=tape"], family);
        assert!(on_last(&db).iter().all(|place| *place == Temperature::Unknown) && !told(&db).contains("coldest"), "{style:?}");
        db.check_ledger().unwrap();
    }
}

/// The slow medium may be a zoned drive. It is as little taken for another as a directory.
#[test]
fn a_tier_is_a_volume_on_a_zoned_drive() {
    let place = TierFolders::new();
    let image = place.path("zones.img");
    let geometry = Geometry { block: 4096, zones: 48, zone_size: 256 << 10, max_open: None, max_active: None, conventional: 0 };
    drop(Emulator::create(&image, geometry, 256 << 10).unwrap());
    let drive = ZonedPlace::new(&image);
    let text = format!("cold={drive},reserve=4");
    let open = |name: &str, tiers: &str, ages: &str| {
        let settings = DbSettings { tiers: tiers.parse().unwrap(), ..inline() };
        place.builder().settings(settings).family("default", aged(ages)).open(place.path(name))
    };
    let refused = |opened: Result<Db, Error>, part: &str| {
        let said = opened.err().unwrap_or_else(|| panic!("{part:?} was not said")).to_string();
        assert!(said.contains(part), "{part:?} is not in: {said}");
    };
    let holds_all = |db: &Db| (0..3000).for_each(|n| assert_eq!(db.get(&key(n)).unwrap().unwrap(), noise(n, 60)));
    refused(open("db", &text, "cold"), "there is no volume");
    drop(drive.format(false).unwrap());
    let db = open("db", &text, "cold").unwrap();
    fill(&db, 3000, 60);
    db.flush().unwrap();
    assert_eq!(places(&db), ["cold"]);
    assert_eq!(db.tiers()[1].directory.as_deref(), Some(PathBuf::from(format!("{drive},reserve=4")).as_path()));
    db.check_ledger().unwrap();
    refused(open("tape", &text, "cold"), "in use");
    db.close().unwrap();
    // By what is stored, to write and to read.
    let db = place.reopen().unwrap();
    holds_all(&db);
    assert_eq!((places(&db), db.verify().unwrap().len()), (vec!["cold"], 0));
    db.close().unwrap();
    let reader = place.builder().read_only().open(place.path("db")).unwrap();
    holds_all(&reader);
    drop(reader);
    refused(open("tape", &text, "cold"), "cannot be attached");
    std::fs::rename(&image, place.path("away.img")).unwrap();
    refused(place.reopen(), "zones.img");
    std::fs::rename(place.path("away.img"), &image).unwrap();
    // It is detached when it is empty, and can then be attached by another database, whose it is from then on.
    refused(open("db", "none", "hot"), "cannot be detached");
    let db = open("db", &text, "hot").unwrap();
    db.wait_for_compactions().unwrap();
    assert_eq!(places(&db), ["unknown"]);
    db.close().unwrap();
    let db = open("db", "none", "hot").unwrap();
    holds_all(&db);
    db.close().unwrap();
    open("tape", &text, "cold").unwrap().close().unwrap();
    refused(open("db", &text, "cold"), "belongs to database");
    drop(drive.format(true).unwrap());
    refused(open("tape", &text, "cold"), "is empty: is its medium mounted?");
}
