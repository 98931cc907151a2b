//! Very many families: the cost of a single one must not grow with their number. Timings are printed, never judged.

use super::*;
use sinterdb::clock::{Clock, SystemClock};

/// `cargo test --release -p sinterdb --test api -- --ignored --nocapture many` prints the seconds.
#[test]
#[ignore = "a measurement, run by hand"]
fn seconds_for_very_many_families() {
    let most: usize = std::env::var("FAMILIES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    for count in [most / 4, most / 2, most] {
        let directory = tempfile::tempdir().unwrap();
        let settings = DbSettings { max_background_jobs: 2, ..DbSettings::default() };
        let clock = SystemClock::default();
        let time = |what: &str, start: u64| println!("{count} families: {what} {:.2} s", (clock.monotonic_ns() - start) as f64 / 1e9);
        let start = clock.monotonic_ns();
        let db = Db::builder().settings(settings.clone()).open(directory.path()).unwrap();
        let families: Vec<Family> = (0..count).map(|n| db.create_family(&format!("f{n}"), FamilySettings::default()).unwrap()).collect();
        time("create", start);
        let start = clock.monotonic_ns();
        families.iter().for_each(|family| put(&db, family, b"k", b"v"));
        time("one write each", start);
        let start = clock.monotonic_ns();
        db.close().unwrap();
        drop(families);
        time("close", start);
        let start = clock.monotonic_ns();
        let db = Db::builder().settings(settings.clone()).open(directory.path()).unwrap();
        time("open with data in the log", start);
        let start = clock.monotonic_ns();
        db.families().iter().for_each(|family| put(&db, family, b"k", b"w"));
        db.flush().unwrap();
        time("write and flush all", start);
        db.close().unwrap();
        let start = clock.monotonic_ns();
        let db = Db::builder().settings(settings).open(directory.path()).unwrap();
        time("open with data in tables", start);
        assert!(db.families().iter().skip(1).all(|family| db.get_with(family, b"k", &ReadOptions::default()).unwrap().unwrap() == b"w"));
    }
}

fn put(db: &Db, family: &Family, key: &[u8], value: &[u8]) {
    db.put_with(family, key, value, &WriteOptions::default()).unwrap();
}
