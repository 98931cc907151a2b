//! Tables on several directories: where they lie, when they move, what is refused, and what is told of it.

use super::figures::ticker;
use super::*;
use sinter_storage::store::{
    Calls, Cause, DirStore, ENOSPC, Fault, FaultStore, FileId, FileKind, Medium, Operation, Reason, Temperature, Throttle, Tiers,
};
use sinterdb::clock::SystemClock;
use sinterdb::settings::{Style, TierPaths};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

pub(super) const HOUR: u64 = 3600;
const NOW: u64 = 1_700_000_000;

/// A directory with `db`, `slow`, `tape` in it, and a clock.
pub(super) struct TierFolders {
    home: TempDir,
    pub(super) clock: Arc<ManualClock>,
}

impl TierFolders {
    pub(super) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        ["db", "slow", "tape"].iter().for_each(|name| std::fs::create_dir(home.path().join(name)).unwrap());
        let clock = Arc::new(ManualClock::default());
        clock.set_unix_seconds(NOW);
        TierFolders { home, clock }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Settings with these tiers, as `cold=slow`.
    pub(super) fn settings(&self, tiers: &[&str]) -> DbSettings {
        let full = |entry: &&str| {
            let (temperature, name) = entry.split_once('=').unwrap();
            format!("{temperature}={}", self.path(name).display())
        };
        let text = tiers.iter().map(full).collect::<Vec<_>>().join(", ");
        DbSettings { tiers: if text.is_empty() { "none".parse().unwrap() } else { text.parse().unwrap() }, ..inline() }
    }

    pub(super) fn builder(&self) -> Builder {
        Db::builder().clock(self.clock.clone())
    }

    fn open(&self, tiers: &[&str], ages: &str) -> Result<Db, Error> {
        self.builder().settings(self.settings(tiers)).family("default", aged(ages)).open(self.path("db"))
    }

    /// Opens without naming anything.
    pub(super) fn reopen(&self) -> Result<Db, Error> {
        self.builder().open(self.path("db"))
    }

    /// Time passes, and tables move.
    fn later(&self, db: &Db, seconds: u64) {
        self.clock.advance_seconds(seconds);
        db.wait_for_compactions().unwrap();
    }

    fn files(&self, name: &str, ending: &str) -> usize {
        listing(&self.path(name)).iter().filter(|file| file.ends_with(ending)).count()
    }
}

fn listing(path: &Path) -> BTreeSet<String> {
    std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

pub(super) fn aged(ages: &str) -> FamilySettings {
    FamilySettings { temperature_ages: ages.parse().unwrap(), ..small() }
}

/// Bytes of live tables by where they lie.
fn lying(db: &Db) -> Vec<(&'static str, u64)> {
    let mut sums = Vec::new();
    for temperature in Temperature::ALL {
        let version = db.version(&db.default_family()).unwrap();
        // A table that was moved meanwhile is found the next time.
        let here = version.tables().filter(|(_, _, table)| db.tier_of(table.number).is_ok_and(|tier| tier == temperature));
        let bytes: u64 = here.map(|(_, _, table)| table.bytes).sum();
        sums.extend((bytes > 0).then_some((temperature.name(), bytes)));
    }
    sums
}

pub(super) fn places(db: &Db) -> Vec<&'static str> {
    lying(db).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn data_moves_to_the_slow_directory_as_it_grows_old_and_is_found_again() {
    let place = TierFolders::new();
    let db = place.open(&["cold=slow"], "hot 1h, warm 7d, cold").unwrap();
    fill(&db, 3000, 60);
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    assert_eq!((places(&db), place.files("slow", ".sst")), (vec!["unknown"], 0), "it is young");
    place.later(&db, 2 * HOUR);
    assert_eq!(places(&db), ["unknown"], "warm has no directory of its own");
    let before: Vec<_> = db.version(&db.default_family()).unwrap().tables().map(|(level, run, t)| (level, run, t.entries)).collect();
    place.later(&db, 8 * 24 * HOUR);
    let version = db.version(&db.default_family()).unwrap();
    let after: Vec<_> = version.tables().map(|(level, run, t)| (level, run, t.entries)).collect();
    assert_eq!((places(&db), after), (vec!["cold"], before), "every table in its place, and nothing merged");
    assert!(version.tables().all(|(_, _, table)| table.temperature == Temperature::Cold));
    assert_eq!((place.files("db", ".sst"), place.files("slow", ".sst")), (0, version.tables().count()));
    fill(&db, 10, 60);
    db.flush().unwrap();
    assert_eq!(places(&db), ["unknown", "cold"]);
    let contents = all(&db, &db.default_family());
    db.close().unwrap();

    let db = place.reopen().unwrap();
    assert_eq!(all(&db, &db.default_family()), contents);
    assert_eq!((places(&db), db.verify().unwrap().len()), (vec!["unknown", "cold"], 0));
    let stored = format!("tiers = \"cold={}\"\n", place.path("slow").display());
    assert!(db.settings().to_toml().contains(&stored), "{}", db.settings().to_toml());
    drop(db);
    let reader = Db::builder().read_only().open(place.path("db")).unwrap();
    assert_eq!(all(&reader, &reader.default_family()), contents);
}

#[test]
fn a_synced_write_does_not_wait_for_a_slow_tier() {
    let (primary, cold) = (Arc::new(FaultStore::new(memory())), Arc::new(FaultStore::new(memory())));
    let builder = builder().settings(inline()).tier_store(Temperature::Cold, cold.clone()).family("default", aged("cold"));
    let db = builder.open_store(primary.clone()).unwrap();
    for round in 0..3 {
        fill(&db, 500, 60 + round);
        db.compact_range(&db.default_family(), None, None).unwrap();
    }
    assert_eq!(places(&db), ["cold"]);
    // Tables were deleted there, which need not be durable, and the log has a segment that is not known to be.
    let syncs = || [&primary, &cold].map(|store| store.count(Operation::SyncNames));
    let [of_primary, of_cold] = syncs();
    db.put_with(&db.default_family(), b"key", b"value", &SYNC).unwrap();
    let [primary, cold] = syncs();
    assert!(primary > of_primary && cold == of_cold, "{of_primary} to {primary}, {of_cold} to {cold}");
}

/// Writers and jobs wait for whoever changes manifests.
#[test]
fn a_change_of_manifests_does_not_wait_for_a_slow_tier() {
    let (primary, cold) = (Arc::new(FaultStore::new(memory())), Arc::new(FaultStore::new(memory())));
    let builder = builder().settings(inline()).tier_store(Temperature::Cold, cold.clone()).family("default", aged("cold"));
    let db = builder.open_store(primary.clone()).unwrap();
    for round in 0..3 {
        fill(&db, 500, 60 + round);
        db.compact_range(&db.default_family(), None, None).unwrap();
    }
    let calls = || [Operation::SyncNames, Operation::List].map(|operation| cold.count(operation));
    let (before, made) = (calls(), primary.count(Operation::Create));
    // The edit may be there in part, so a new manifest comes before the next write.
    primary.inject(Fault::once(Calls::Only(Operation::Append), primary.count(Operation::Append), ENOSPC));
    assert!(matches!(db.create_family("other", small()), Err(Error::NoSpace(_))));
    db.put(b"key", b"value").unwrap();
    assert!(primary.count(Operation::Create) > made, "a new manifest");
    assert_eq!(calls(), before, "names are synced and files listed where manifests lie, and nowhere else");
    db.compact_range(&db.default_family(), None, None).unwrap();
    db.check_ledger().unwrap();
}

#[test]
fn more_than_two_directories_are_a_chain() {
    let place = TierFolders::new();
    let db = place.open(&["cold=slow", "ice=tape"], "hot 1h, cold 1d, ice").unwrap();
    for round in 0..3 {
        (0..500).for_each(|n| db.put(&key(round * 1000 + n), &noise(n, 60)).unwrap());
        db.flush().unwrap();
        place.later(&db, 13 * HOUR);
    }
    assert_eq!(places(&db), ["cold", "ice"]);
    (0..500).for_each(|n| db.put(&key(7000 + n), &noise(n, 60)).unwrap());
    db.flush().unwrap();
    assert_eq!(places(&db), ["unknown", "cold", "ice"]);
    // Everything comes home if that is asked for.
    db.change_family_settings(&db.default_family(), aged("hot")).unwrap();
    db.wait_for_compactions().unwrap();
    assert_eq!(places(&db), ["unknown"]);
    assert_eq!(keys(&db).len(), 2000);
    db.check_ledger().unwrap();
}

#[test]
fn merges_write_where_their_newest_data_belongs() {
    for style in [Style::Leveled, Style::Universal] {
        let place = TierFolders::new();
        let settings = FamilySettings { style, ..aged("hot 1h, cold") };
        let db = place.builder().settings(place.settings(&["cold=slow"])).family("default", settings).open(place.path("db")).unwrap();
        fill(&db, 500, 60);
        place.later(&db, 2 * HOUR);
        db.flush().unwrap();
        place.later(&db, 2 * HOUR);
        assert_eq!(places(&db), ["cold"], "{style:?}");
        // Old and new in one merge: as young as the newest.
        fill(&db, 500, 61);
        db.compact_range(&db.default_family(), None, None).unwrap();
        assert_eq!(places(&db), ["unknown"], "{style:?}");
        place.later(&db, 2 * HOUR);
        db.compact_range(&db.default_family(), None, None).unwrap();
        assert_eq!(places(&db), ["cold"], "{style:?}");
        let reasons = db.stats().ledger.on(Temperature::Cold).by_cause();
        assert!(reasons.iter().any(|(cause, _)| matches!(cause, Cause::Compaction { reason: Reason::Temperature, .. })), "{reasons:?}");
        db.check_ledger().unwrap();
    }
}

/// A little young data among much that is old takes only what it meets to the fast directory, and that not for long.
#[test]
fn young_data_does_not_lift_whole_cold_tables_that_it_does_not_meet() {
    for style in [Style::Leveled, Style::Universal] {
        let place = TierFolders::new();
        let settings = FamilySettings { style, ..aged("hot 1h, cold") };
        let db = place.builder().settings(place.settings(&["cold=slow"])).family("default", settings).open(place.path("db")).unwrap();
        fill(&db, 3000, 60);
        place.later(&db, 2 * HOUR);
        db.flush().unwrap();
        db.compact_range(&db.default_family(), None, None).unwrap();
        place.later(&db, 2 * HOUR);
        assert_eq!(places(&db), ["cold"], "{style:?}");
        let lifted = |keys: [usize; 2]| {
            let before = db.stats().ledger.on(Temperature::Unknown).sum(|cause| matches!(cause, Cause::Compaction { .. }));
            keys.iter().for_each(|n| db.put(&key(*n), b"young").unwrap());
            db.compact_range(&db.default_family(), None, None).unwrap();
            db.wait_for_compactions().unwrap();
            db.stats().ledger.on(Temperature::Unknown).sum(|cause| matches!(cause, Cause::Compaction { .. })) - before
        };
        let all = lying(&db)[0].1;
        // Both in one table of many.
        let written = lifted([1500, 1501]);
        assert!(written > 0 && written < all / 5, "{style:?}: {written} of {all} bytes");
        assert_eq!(places(&db), ["unknown", "cold"], "{style:?}");
        // The level above spans all: what is written hot for that and has nothing young in it goes back at once.
        lifted([0, 2999]);
        let hot = lying(&db)[0].1;
        assert!(hot < all / 5, "{style:?}: {hot} of {all} bytes stay hot");
        assert_eq!((keys(&db).len(), db.verify().unwrap().len()), (3000, 0), "{style:?}");
        db.check_ledger().unwrap();
    }
}

#[test]
fn a_tier_is_opened_as_it_was_attached_or_not_at_all() {
    let place = TierFolders::new();
    let db = place.open(&["cold=slow", "ice=tape"], "hot 1h, cold 1d, ice").unwrap();
    fill(&db, 1000, 60);
    db.flush().unwrap();
    place.later(&db, 2 * HOUR);
    db.close().unwrap();
    let slow = place.path("slow").display().to_string();
    let move_to = |from: &str, to: &str| std::fs::rename(place.path(from), place.path(to)).unwrap();

    move_to("slow", "away");
    let what = invalid(place.reopen());
    assert!(what.contains(&slow) && what.contains("no directory") && what.contains("mounted"), "{what}");
    assert!(!place.path("slow").exists(), "nothing is created in its place");

    std::fs::create_dir(place.path("slow")).unwrap();
    for what in [invalid(place.reopen()), invalid(Db::builder().read_only().open(place.path("db")))] {
        assert!(what.contains(&slow) && what.contains("is empty") && what.contains("mounted"), "{what}");
    }
    assert!(listing(&place.path("slow")).is_empty(), "nothing is created in the wrong place");

    std::fs::remove_dir(place.path("slow")).unwrap();
    move_to("tape", "slow");
    move_to("away", "tape");
    assert!(invalid(place.reopen()).contains("directories were exchanged"));
    // Whoever names them as they are now is right.
    let db = place.open(&["cold=tape", "ice=slow"], "hot 1h, cold 1d, ice").unwrap();
    assert_eq!((keys(&db).len(), places(&db)), (1000, vec!["cold"]));
    drop(db);
    assert_eq!(keys(&place.reopen().unwrap()).len(), 1000, "and that is stored");

    let other = TierFolders::new();
    drop(other.open(&["cold=slow"], "cold").unwrap());
    let text = format!("cold={}, ice={}", other.path("slow").display(), place.path("slow").display());
    let foreign = DbSettings { tiers: text.parse().unwrap(), ..inline() };
    assert!(invalid(place.builder().settings(foreign).open(place.path("db"))).contains("belongs to database"));

    let identity = listing(&place.path("tape")).into_iter().find(|file| file.ends_with(".tier")).unwrap();
    let file = place.path("tape").join(identity);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[30] ^= 4;
    std::fs::write(&file, &bytes).unwrap();
    let error = place.reopen().unwrap_err();
    assert!(matches!(&error, Error::Corrupt { file: named, .. } if *named == file.display().to_string()), "{error}");
    // A tier is no database.
    let what = invalid(Db::open(place.path("slow")));
    assert!(what.contains("this is a tier of a database"), "{what}");
}

#[test]
fn each_store_has_a_directory_of_its_own() {
    let place = TierFolders::new();
    std::fs::create_dir(place.path("db/inside")).unwrap();
    std::fs::create_dir(place.path("slow/deep")).unwrap();
    std::os::unix::fs::symlink(place.path("slow"), place.path("link")).unwrap();
    std::os::unix::fs::symlink(place.path("db/inside"), place.path("hidden")).unwrap();
    for (tiers, part) in [
        (&["cold=slow", "ice=slow"][..], "is the same directory as tier cold"),
        (&["cold=slow", "ice=link"], "is the same directory as tier cold"),
        (&["cold=slow", "ice=slow/deep"], "lies inside tier cold"),
        (&["cold=slow/deep", "ice=link"], "lies inside tier ice"),
        (&["cold=db"], "is the same directory as the database's directory"),
        (&["cold=db/inside"], "lies inside the database's directory"),
        (&["cold=hidden"], "lies inside the database's directory"),
        (&["cold="], "the database's directory lies inside tier cold"),
    ] {
        let what = invalid(place.open(tiers, "cold"));
        assert!(what.contains(part), "{tiers:?}: {what}");
    }
    assert!(listing(&place.path("slow")).iter().eq(["deep"]), "nothing was written: {:?}", listing(&place.path("slow")));
    let db = place.open(&["cold=link"], "cold").unwrap();
    fill(&db, 10, 10);
    db.flush().unwrap();
    assert_eq!(place.files("slow", ".sst"), 1);
}

#[test]
fn all_directories_are_locked() {
    let (place, other) = (TierFolders::new(), TierFolders::new());
    let db = place.open(&["cold=slow"], "cold").unwrap();
    assert!(matches!(place.reopen(), Err(Error::Busy(_))));
    let lock = DirStore::open(place.path("slow"), false).unwrap().lock();
    assert!(lock.is_err(), "the tier is locked, too");
    // Nobody else attaches it meanwhile, and nobody after that.
    let theirs = DbSettings { tiers: format!("cold={}", place.path("slow").display()).parse().unwrap(), ..inline() };
    let steal = || other.builder().settings(theirs.clone()).open(other.path("db"));
    assert!(invalid(steal()).contains("belongs to database"));
    drop(db);
    assert!(invalid(steal()).contains("belongs to database"));
    let held = DirStore::open(place.path("slow"), false).unwrap();
    let held = held.lock().unwrap();
    let busy = place.reopen().unwrap_err();
    assert!(matches!(&busy, Error::Busy(what) if what.contains("tier cold")), "{busy}");
    drop(held);
    // As on a medium that is read-only, a lock that cannot be had says where.
    let lock = place.path("slow/LOCK");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let failed = place.reopen().unwrap_err().to_string();
    assert!(failed.contains(&format!("tier cold ({})", place.path("slow").display())), "{failed}");
    std::fs::remove_dir(&lock).unwrap();
    place.reopen().unwrap();
}

#[test]
fn tiers_are_attached_to_what_is_there_and_detached_when_they_are_empty() {
    let place = TierFolders::new();
    let db = place.open(&[], "hot 1h, cold").unwrap();
    fill(&db, 1000, 60);
    db.flush().unwrap();
    place.later(&db, 2 * HOUR);
    assert_eq!(places(&db), ["unknown"]);
    drop(db);
    std::fs::write(place.path("slow/000123.sst"), "a table of somebody").unwrap();
    assert!(invalid(place.open(&["cold=slow"], "hot 1h, cold")).contains("is not empty, 000123.sst is in it"));
    std::fs::remove_file(place.path("slow/000123.sst")).unwrap();
    std::fs::write(place.path("slow/notes.txt"), "not ours").unwrap();

    let db = place.open(&["cold=slow"], "hot 1h, cold").unwrap();
    place.later(&db, 1);
    assert_eq!(places(&db), ["cold"], "what was there moves");
    drop(db);
    let what = invalid(place.open(&[], "hot 1h, cold"));
    assert!(what.contains("tier cold cannot be detached") && what.contains("tables with"), "{what}");
    let unchanged = place.reopen().unwrap();
    assert_eq!((keys(&unchanged).len(), places(&unchanged)), (1000, vec!["cold"]));
    unchanged.change_family_settings(&unchanged.default_family(), aged("hot")).unwrap();
    unchanged.wait_for_compactions().unwrap();
    assert_eq!(places(&unchanged), ["unknown"]);
    drop(unchanged);

    let db = place.open(&[], "hot 1h, cold").unwrap();
    assert_eq!((keys(&db).len(), db.settings().tiers.clone()), (1000, TierPaths::Stored));
    assert_eq!(listing(&place.path("slow")), BTreeSet::from(["LOCK".into(), "notes.txt".into()]), "what was ours is gone");
    drop(db);
    // It is not needed any more, and may be another one's now, or this one's again.
    std::fs::rename(place.path("slow"), place.path("gone")).unwrap();
    drop(place.reopen().unwrap());
    let db = place.open(&["ice=gone"], "hot 1h, ice").unwrap();
    place.later(&db, 2 * HOUR);
    assert_eq!((keys(&db).len(), places(&db)), (1000, vec!["ice"]));
}

/// A directory that was lost while nothing was in it.
#[test]
fn a_tier_without_tables_is_detached_wherever_it_is() {
    let place = TierFolders::new();
    let db = place.open(&["cold=slow"], "hot 1h, cold").unwrap();
    fill(&db, 100, 60);
    drop(db);
    std::fs::remove_dir_all(place.path("slow")).unwrap();
    assert!(invalid(place.reopen()).contains("no directory"));
    let db = place.open(&[], "off").unwrap();
    assert_eq!(keys(&db).len(), 100);
    drop(db);
    place.reopen().unwrap();
}

#[test]
fn relative_paths_are_stored_as_absolute_ones() {
    let place = TierFolders::new();
    let up = |path: &Path| {
        let here = std::env::current_dir().unwrap();
        let mut relative = PathBuf::new();
        here.components().skip(1).for_each(|_| relative.push(".."));
        relative.join(path.strip_prefix("/").unwrap())
    };
    let text = format!("cold={}", up(&place.path("slow")).display());
    let settings = DbSettings { tiers: text.parse().unwrap(), ..inline() };
    let db = place.builder().settings(settings).open(place.path("db")).unwrap();
    let stored = db.settings().tiers.named().map(|(_, path)| path.to_owned()).collect::<Vec<_>>();
    assert!(stored.len() == 1 && stored[0].is_absolute(), "{stored:?}");
    assert_eq!(db.tiers()[1].directory.as_deref(), Some(stored[0].as_path()));
}

/// Reading attaches nothing.
#[test]
fn a_reader_uses_the_tiers_that_there_are() {
    let place = TierFolders::new();
    drop(place.open(&[], "cold").unwrap());
    let settings = place.settings(&["cold=slow"]);
    let what = invalid(place.builder().settings(settings).read_only().open(place.path("db")));
    assert!(what.contains("has no tier cold"), "{what}");
    let db = place.open(&["cold=slow"], "cold").unwrap();
    fill(&db, 100, 60);
    db.flush().unwrap();
    let reader = place.builder().read_only().open(place.path("db")).unwrap();
    assert_eq!((keys(&reader).len(), places(&reader)), (100, vec!["cold"]));
    // A reader beside a writer finds tables that came later, too.
    fill(&db, 200, 60);
    db.flush().unwrap();
    assert_eq!(keys(&place.builder().read_only().open(place.path("db")).unwrap()).len(), 200);
}

#[test]
fn a_checkpoint_has_no_tiers_or_tiers_of_its_own() {
    let place = TierFolders::new();
    let db = place.open(&["cold=slow"], "hot 1h, cold").unwrap();
    fill(&db, 1000, 60);
    db.flush().unwrap();
    place.later(&db, 2 * HOUR);
    (0..10).for_each(|n| db.put(&key(5000 + n), b"young").unwrap());
    db.flush().unwrap();
    assert_eq!(places(&db), ["unknown", "cold"]);
    let contents = all(&db, &db.default_family());

    db.checkpoint(place.path("one")).unwrap();
    let copy = place.builder().open(place.path("one")).unwrap();
    assert_eq!((all(&copy, &copy.default_family()), copy.tiers().len()), (contents.clone(), 1));
    assert_eq!((copy.settings().tiers.clone(), copy.verify().unwrap().len()), (TierPaths::Stored, 0));
    drop(copy);
    // It cannot take the original's tier for its own.
    drop(db);
    let theirs = place.settings(&["cold=slow"]);
    let what = invalid(place.builder().settings(theirs).open(place.path("one")));
    assert!(what.contains("is not empty"), "{what}");

    let db = place.reopen().unwrap();
    let target = |name: &str| DirStore::open(place.path(name), true).unwrap();
    let (main, cold) = (target("two"), target("two-cold"));
    db.checkpoint_to_tiers(&main, &[(Temperature::Cold, &cold)]).unwrap();
    assert!(invalid(db.checkpoint_to_tiers(&target("three"), &[(Temperature::Cold, &cold)])).contains("has files of a database"));
    let twice = db.checkpoint_to_tiers(&target("three"), &[(Temperature::Cold, &target("a")), (Temperature::Cold, &target("b"))]);
    assert!(invalid(twice).contains("different temperatures"));
    db.check_ledger().unwrap();
    drop(db);
    std::fs::remove_dir_all(place.path("db")).unwrap();
    std::fs::remove_dir_all(place.path("slow")).unwrap();
    let copy = place.builder().open(place.path("two")).unwrap();
    assert_eq!((all(&copy, &copy.default_family()), places(&copy)), (contents.clone(), vec!["unknown", "cold"]));
    fill(&copy, 100, 61);
    copy.compact_range(&copy.default_family(), None, None).unwrap();
    assert_eq!(copy.verify().unwrap(), []);
    drop(copy);
    assert_eq!(keys(&place.builder().open(place.path("one")).unwrap()).len(), contents.len(), "nothing was shared that could be lost");
}

/// Stores in memory with a tier that can be full.
fn with_full_tier(direct: bool) -> (Db, Arc<FaultStore>, Arc<MemoryStore>, TempDir) {
    let home = tempfile::tempdir().unwrap();
    let below = Arc::new(DirStore::open(home.path(), false).unwrap());
    let cold = Arc::new(FaultStore::new(below));
    let primary = memory();
    let settings = DbSettings { use_direct_io_for_flush_and_compaction: direct, ..inline() };
    let family = FamilySettings {
        write_buffer_size: 8 << 20,
        compression: sinterdb::internal::settings::parse_compression("none").unwrap(),
        temperature_ages: "cold".parse().unwrap(),
        ..FamilySettings::default()
    };
    let clock = Arc::new(ManualClock::default());
    clock.set_unix_seconds(NOW);
    let db = Db::builder().clock(clock).settings(settings).family("default", family).tier_store(Temperature::Cold, cold.clone());
    (db.open_store(primary.clone()).unwrap(), cold, primary, home)
}

/// Also past the page cache, where an appender holds back what it cannot write.
#[test]
fn a_table_that_meets_a_full_tier_is_written_again_on_a_hotter_one() {
    for direct in [false, true] {
        let mut fallen = 0;
        for at in [1, 2, 5, 9, 14] {
            let (db, cold, primary, _home) = with_full_tier(direct);
            (0..5000).for_each(|n| db.put(&key(n), &noise(n, 1000)).unwrap());
            // The first append was the identity's. It stays full, or the table would move there at once.
            cold.inject(Fault::from(Calls::Only(Operation::Append), at, ENOSPC).torn(1234));
            db.flush().unwrap();
            let version = db.version(&db.default_family()).unwrap();
            let number = version.tables().next().unwrap().2.number;
            assert!(
                primary.list().unwrap().iter().any(|(id, bytes)| *id == FileId::table(number) && *bytes > 5_000_000),
                "direct {direct} at {at} {number} {:?} {:?}",
                primary.list(),
                cold.list()
            );
            assert_eq!((db.tier_of(number).unwrap(), db.verify().unwrap()), (Temperature::Unknown, vec![]), "direct {direct}, append {at}");
            assert_eq!(ticker(&db, "sinterdb.tier.fallback.count"), 1);
            fallen += ticker(&db, "sinterdb.tier.fallback.bytes");
            let told = db.property(&db.default_family(), "sinterdb.tiers").unwrap();
            assert!(told.contains(&format!("tier cold was full (unix time {NOW}): {} went to primary", FileId::table(number))), "{told}");
            db.check_ledger().unwrap();
            for n in (0..5000).step_by(97) {
                assert_eq!(db.get(&key(n)).unwrap().unwrap(), noise(n, 1000));
            }
            assert!(cold.list().unwrap().iter().all(|(id, _)| id.kind == FileKind::Tier), "the torn one is gone");
        }
        assert!(fallen > 5_000_000, "{fallen}");
    }
}

#[test]
fn what_found_no_room_moves_when_there_is_some() {
    let (primary, cold) = (memory(), memory());
    let clock = Arc::new(ManualClock::default());
    clock.set_unix_seconds(NOW);
    let builder = Db::builder().clock(clock.clone()).settings(inline()).family("default", aged("cold"));
    let db = builder.tier_store(Temperature::Cold, cold.clone()).open_store(primary.clone()).unwrap();
    cold.set_capacity(Some(30_000));
    fill(&db, 3000, 60);
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    assert_eq!(places(&db)[0], "unknown", "it did not all fit: {:?}", lying(&db));
    assert!(ticker(&db, "sinterdb.tier.fallback.count") > 0);
    db.check_ledger().unwrap();
    cold.set_capacity(None);
    db.wait_for_compactions().unwrap();
    assert_eq!((places(&db), keys(&db).len()), (vec!["cold"], 3000));
    assert!(ticker(&db, "sinterdb.tier.move.count") > 0 && ticker(&db, "sinterdb.tier.move.bytes") > 0);
    // A full primary store is what it always was.
    primary.set_capacity(Some(0));
    assert!(matches!(db.put(b"k", b"v"), Err(Error::NoSpace(_))));
    primary.set_capacity(None);
    db.put(b"k", b"v").unwrap();
    db.check_ledger().unwrap();
}

/// A tier that refuses a move is asked again later, not at once and for ever.
#[test]
fn a_refused_move_is_tried_again_after_a_while() {
    let (primary, cold) = (memory(), Arc::new(FaultStore::new(memory())));
    let clock = Arc::new(ManualClock::default());
    clock.set_unix_seconds(NOW);
    let builder = Db::builder().clock(clock.clone()).settings(inline()).family("default", aged("hot 1h, cold"));
    let db = builder.tier_store(Temperature::Cold, cold.clone()).open_store(primary).unwrap();
    fill(&db, 100, 60);
    db.flush().unwrap();
    cold.inject(Fault::once(Calls::Only(Operation::Append), cold.count(Operation::Append), ENOSPC));
    clock.advance_seconds(2 * HOUR);
    db.wait_for_compactions().unwrap();
    assert_eq!(places(&db), ["unknown"]);
    db.wait_for_compactions().unwrap();
    assert_eq!((places(&db), db.put(b"k", b"v").is_ok()), (vec!["unknown"], true));
    clock.advance_ns(61_000_000_000);
    db.wait_for_compactions().unwrap();
    assert_eq!(places(&db), ["cold"]);
    db.check_ledger().unwrap();
}

#[test]
fn every_byte_is_booked_on_the_tier_that_got_it() {
    let place = TierFolders::new();
    let db = place.open(&["cold=slow", "ice=tape"], "hot 1h, cold 1d, ice").unwrap();
    for round in 0..4 {
        fill(&db, 1000, 60 + round);
        place.later(&db, 5 * HOUR);
    }
    db.flush().unwrap();
    place.later(&db, 30 * HOUR);
    (0..1000).step_by(3).for_each(|n| drop(db.get(&key(n)).unwrap()));
    db.check_ledger().unwrap();
    let stats = db.stats();
    assert_eq!(stats.tiers.iter().map(|tier| tier.temperature.name()).collect::<Vec<_>>(), ["unknown", "cold", "ice"]);
    let by_tier: u64 = stats.tiers.iter().flat_map(|tier| &tier.written).map(|(_, bytes)| bytes).sum();
    assert_eq!((by_tier, stats.meter.total_written()), (stats.ledger.total(), stats.ledger.total()));
    for tier in &stats.tiers {
        assert!(tier.written.iter().map(|(_, bytes)| bytes).sum::<u64>() > 0, "{tier:?}");
        let logs = tier.written.iter().any(|(cause, bytes)| matches!(cause, Cause::Wal | Cause::Flush) && *bytes > 0);
        assert_eq!(logs, tier.temperature == Temperature::Unknown, "{tier:?}");
        assert!(tier.directory.is_some() && tier.free.is_some(), "{tier:?}");
    }
    let ice = &stats.tiers[2];
    assert!(ice.files > 0 && ice.reads > 0 && ice.read_bytes > 0 && ice.bytes > 0, "{ice:?}");
    assert_eq!(place.files("tape", ".sst") as u64, ice.files);
    assert!(ticker(&db, "rocksdb.ice.file.read.count") > 0 && ticker(&db, "rocksdb.ice.file.read.bytes") > 0);
    assert!(ticker(&db, "rocksdb.cold.file.read.bytes") > 0, "moves read");
    assert_eq!(ticker(&db, "rocksdb.cool.file.read.bytes"), 0);
    let told = db.property(&db.default_family(), "sinterdb.tiers").unwrap();
    assert!(told.starts_with("primary (") && told.contains("\ncold (") && told.contains("(temperature)"), "{told}");
}

/// With threads and a real clock: a slow tier keeps nobody waiting, and its reads take what they take.
#[test]
fn tables_move_in_the_background() {
    let (primary, below) = (memory(), memory());
    let medium = Medium { read_mb_per_s: 0.0, write_mb_per_s: 0.0, seek: Duration::from_millis(2) };
    let cold = Arc::new(Throttle::new(below.clone(), medium));
    let settings = DbSettings { max_background_jobs: 2, cache_size: 0, ..DbSettings::default() };
    let family = FamilySettings { style: Style::Universal, ..aged("hot 1s, cold") };
    let builder = Db::builder().clock(Arc::new(SystemClock::default())).settings(settings).family("default", family);
    let db = builder.tier_store(Temperature::Cold, cold).open_store(primary).unwrap();
    fill(&db, 3000, 60);
    db.flush().unwrap();
    let deadline = std::time::Duration::from_secs(60);
    let clock = SystemClock::default();
    while places(&db) != ["cold"] {
        use sinterdb::clock::Clock;
        assert!(clock.monotonic_ns() < deadline.as_nanos() as u64, "nothing moves: {:?}", lying(&db));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(below.list().unwrap().len() > 1);
    for n in 0..200 {
        assert_eq!(db.get(&key(n * 13)).unwrap().unwrap(), noise(n * 13, 60));
    }
    let latency = db.tiers()[1].read_latency;
    assert!(latency.count > 0 && latency.p99 >= 1000.0, "a seek takes 2 ms: {latency:?}");
    db.wait_for_compactions().unwrap();
    db.check_ledger().unwrap();
    db.close().unwrap();
}

/// A store of several that knows no directories is a store as any other.
#[test]
fn a_database_in_a_store_of_tiers_works_without_knowing() {
    let (primary, cold) = (memory(), memory());
    let store = || Arc::new(Tiers::new(primary.clone(), [(Temperature::Cold, cold.clone() as Arc<dyn Store>)]).unwrap());
    let db = builder().settings(inline()).family("default", aged("cold")).open_store(store()).unwrap();
    fill(&db, 2000, 60);
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert!(cold.list().unwrap().len() > 2);
    db.check_ledger().unwrap();
    drop(db);
    assert_eq!(keys(&builder().open_store(store()).unwrap()).len(), 2000);
}
