//! Column families: creation, removal, settings of their own.

use super::*;
use sinter_storage::store::{Calls, ENOSPC, Fault, FaultStore, Operation};
use sinterdb::WriteBatch;
use sinterdb::ledger::Histogram;
use sinterdb::settings::Style;

fn put(db: &Db, family: &Family, key: &[u8], value: &[u8]) {
    db.put_with(family, key, value, &WriteOptions::default()).unwrap();
}

#[test]
fn families_are_separate_key_spaces() {
    let db = open(&new_store());
    let other = db.create_family("other", FamilySettings::default()).unwrap();
    db.put(b"k", b"1").unwrap();
    put(&db, &other, b"k", b"2");
    put(&db, &other, b"only", b"here");
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"1");
    assert_eq!(db.get(b"only").unwrap(), None);
    assert_eq!(all(&db, &other).len(), 2);
    assert_eq!(db.families().iter().map(Family::name).collect::<Vec<_>>(), ["default", "other"]);
    assert_eq!(db.family("other").unwrap().id(), other.id());
    assert!(db.family("absent").is_none());
}

#[test]
fn families_survive_a_reopen_with_data_in_log_and_tables() {
    let store = new_store();
    let db = open(&store);
    let other = db.create_family("other", small()).unwrap();
    put(&db, &other, b"table", b"1");
    db.flush().unwrap();
    put(&db, &other, b"log", b"2");
    drop(db);
    let db = open(&store);
    let other = db.family("other").unwrap();
    assert_eq!(all(&db, &other).len(), 2);
    assert_eq!(db.family_settings(&other).unwrap(), small());
}

#[test]
fn names_are_unique_and_readable() {
    let db = open(&new_store());
    db.create_family("one", FamilySettings::default()).unwrap();
    for (name, why) in [("one", "exists already"), ("default", "exists already"), ("", "no name"), ("a\nb", "control characters")] {
        assert!(invalid(db.create_family(name, FamilySettings::default())).contains(why), "{name:?}");
    }
    invalid(db.create_family(&"x".repeat(256), FamilySettings::default()));
    db.create_family(&"x".repeat(255), FamilySettings::default()).unwrap();
}

#[test]
fn families_are_created_together_with_one_sync_or_not_at_all() {
    let (below, options) = (memory(), FamilySettings::default());
    let store = Arc::new(FaultStore::new(below.clone()));
    let db = Db::builder().settings(inline()).open_store(store.clone()).unwrap();
    let names = |db: &Db| db.families().iter().map(|family| family.name().to_owned()).collect::<Vec<_>>();
    let create = |all: &[&str]| db.create_families(&all.iter().map(|name| (*name, options.clone())).collect::<Vec<_>>());
    for (all, why) in [
        (&["one", "default"][..], "exists already"),
        (&["one", "two", "one"], "\"one\" is named twice"),
        (&["one", ""], "no name"),
        (&["one", "a\nb"], "control characters"),
    ] {
        assert!(invalid(create(all)).contains(why), "{all:?}");
    }
    let invalid_settings = FamilySettings { num_levels: 0, ..options.clone() };
    invalid(db.create_families(&[("one", options.clone()), ("two", invalid_settings)]));
    store.inject(Fault::once(Calls::Only(Operation::Append), store.count(Operation::Append), ENOSPC));
    assert!(matches!(create(&["one", "two"]), Err(Error::NoSpace(_))));
    assert_eq!(names(&db), ["default"]);
    store.clear();
    db.put(b"k", b"replaces the manifest").unwrap();
    assert_eq!(names(&open_memory(&below)), ["default"]);
    let syncs = || (store.count(Operation::Sync), store.count(Operation::SyncNames));
    let (before, names_before) = syncs();
    assert!(create(&[]).unwrap().is_empty());
    assert_eq!(syncs(), (before, names_before));
    let created = create(&["b", "c", "a"]).unwrap();
    assert_eq!(syncs(), (before + 1, names_before));
    assert_eq!(created.iter().map(Family::name).collect::<Vec<_>>(), ["b", "c", "a"]);
    created.iter().for_each(|family| put(&db, family, b"k", family.name().as_bytes()));
    db.sync().unwrap();
    let again = open_memory(&below);
    assert_eq!(names(&again), ["default", "b", "c", "a"]);
    again.families().iter().skip(1).for_each(|family| assert_eq!(all(&again, family), [(b"k".into(), family.name().into())]));
}

/// Opens what a power cut leaves of a store.
fn open_memory(memory: &MemoryStore) -> Db {
    Db::builder().settings(inline()).open_store(Arc::new(memory.crash_with(0))).unwrap()
}

#[test]
fn a_dropped_family_refuses_every_call() {
    let db = open(&new_store());
    let gone = db.create_family("gone", FamilySettings::default()).unwrap();
    put(&db, &gone, b"k", b"v");
    db.drop_family(&gone).unwrap();
    let (read, write) = (ReadOptions::default(), WriteOptions::default());
    let refusals = [
        invalid(db.get_with(&gone, b"k", &read)),
        invalid(db.multi_get(&gone, &[b"k"], &read)),
        invalid(db.iter_with(&gone, read.clone()).map(drop)),
        invalid(db.put_with(&gone, b"k", b"v", &write)),
        invalid(db.delete_with(&gone, b"k", &write)),
        invalid(db.delete_range_with(&gone, b"a", b"z", &write)),
        invalid(db.merge_with(&gone, b"k", b"v", &write)),
        invalid(db.compact_range(&gone, None, None)),
        invalid(db.family_settings(&gone)),
        invalid(db.change_family_settings(&gone, FamilySettings::default())),
        invalid(db.version(&gone)),
        invalid(db.drop_family(&gone)),
    ];
    assert!(refusals.iter().all(|r| r.contains("dropped")), "{refusals:?}");
    assert!(db.family("gone").is_none());
    assert!(invalid(db.drop_family(&db.default_family())).contains("cannot be dropped"));
}

#[test]
fn a_dropped_family_takes_its_files_and_stays_away() {
    let store = new_store();
    let db = open(&store);
    let gone = db.create_family("gone", small()).unwrap();
    (0..500).for_each(|n| put(&db, &gone, &key(n), &noise(n, 200)));
    db.flush().unwrap();
    let before = db.stats().store_bytes;
    let mut iterator = db.iter_with(&gone, ReadOptions::default()).unwrap();
    iterator.seek_first().unwrap();
    db.drop_family(&gone).unwrap();
    assert!(db.stats().store_bytes + 50_000 < before);
    assert_eq!(iterator.count(), 500, "an iterator goes on");
    let again = db.create_family("gone", small()).unwrap();
    assert!(again.id() > gone.id());
    assert!(all(&db, &again).is_empty());
    drop(db);
    let db = open(&store);
    assert!(all(&db, &db.family("gone").unwrap()).is_empty());
}

#[test]
fn changed_settings_hold_and_are_stored() {
    let store = new_store();
    let db = try_open(&store, builder().settings(inline()).family("default", small())).unwrap();
    let family = db.default_family();
    let new = FamilySettings { style: Style::Universal, block_size: 512, write_buffer_size: 32 << 10, ..small() };
    db.change_family_settings(&family, new.clone()).unwrap();
    assert_eq!(db.family_settings(&family).unwrap(), new);
    drop(family);
    drop(db);
    let db = open(&store);
    assert_eq!(db.family_settings(&db.default_family()).unwrap(), new);
}

#[test]
fn bad_changes_are_refused_with_every_complaint() {
    let db = open(&new_store());
    let family = db.default_family();
    let now = db.family_settings(&family).unwrap();
    let levels = FamilySettings { num_levels: 5, ..now.clone() };
    assert!(invalid(db.change_family_settings(&family, levels)).contains("num_levels cannot be changed (7 to 5)"));
    let bad = FamilySettings { block_size: 1, write_buffer_size: 1, compression: Vec::new().into(), ..now.clone() };
    let complaints = invalid(db.change_family_settings(&family, bad));
    assert!(["block_size", "write_buffer_size", "compression"].iter().all(|w| complaints.contains(w)), "{complaints}");
    assert_eq!(db.family_settings(&family).unwrap(), now);
}

#[test]
fn the_style_of_a_full_tree_can_change_back_and_forth() {
    let db = small_db();
    let family = db.default_family();
    let mut expected = Vec::new();
    for round in 0..6 {
        let style = if round % 2 == 0 { Style::Universal } else { Style::Leveled };
        db.change_family_settings(&family, FamilySettings { style, ..small() }).unwrap();
        fill(&db, 1500, 50 + round);
        expected = (0..1500).map(|n| (key(n), noise(n, 50 + round))).collect();
        assert_eq!(all(&db, &family), expected, "round {round}");
    }
    db.compact_range(&family, None, None).unwrap();
    assert_eq!(all(&db, &family), expected);
    sinterdb::internal::compaction::check_shape(&db.version(&family).unwrap()).unwrap();
}

#[test]
fn an_idle_family_does_not_keep_the_log_for_ever() {
    let store = new_store();
    let settings = DbSettings { max_total_wal_size: 64 << 10, ..inline() };
    let db = try_open(&store, builder().settings(settings).family("default", small())).unwrap();
    let idle = db.create_family("idle", FamilySettings::default()).unwrap();
    put(&db, &idle, b"k", b"v");
    fill(&db, 5000, 100);
    let logs: u64 = store.list().unwrap().iter().filter(|f| f.0.to_string().ends_with("log")).map(|f| f.1).sum();
    assert!(logs < 128 << 10, "{logs} bytes of log");
    assert_eq!(db.get_with(&idle, b"k", &ReadOptions::default()).unwrap().unwrap(), b"v");
}

#[test]
fn the_memtables_of_all_families_share_a_budget() {
    let settings = DbSettings { db_write_buffer_size: 256 << 10, ..inline() };
    let db = try_open(&new_store(), builder().settings(settings)).unwrap();
    let families: Vec<Family> = (0..8).map(|n| db.create_family(&n.to_string(), FamilySettings::default()).unwrap()).collect();
    for n in 0..8000 {
        put(&db, &families[n % 8], &key(n), &noise(n, 100));
    }
    let held = db.stats().memtable_bytes;
    assert!(held <= 256 << 10, "{held} bytes of memtables");
    assert!(families.iter().all(|f| all(&db, f).len() == 1000));
}

/// The markers of syncs are bytes of the log: were they counted only where a segment goes, the log would soon be taken for too long, and
/// every write would end a memtable.
#[test]
fn syncs_do_not_make_flushes_more_frequent() {
    let flushes = |options: WriteOptions| {
        let db = try_open(&new_store(), builder().settings(inline()).family("default", small()).family("side", small())).unwrap();
        let side = db.family("side").unwrap();
        for n in 0..3000 {
            let family = if n % 2 == 0 { db.default_family() } else { side.clone() };
            db.put_with(&family, &key(n), &noise(n, 50), &options).unwrap();
        }
        db.statistics().histogram(Histogram::FlushTime).count
    };
    assert_eq!(flushes(SYNC), flushes(WriteOptions::default()));
}

/// A family of another database, or of an earlier handle of the same one, has a number that means something else here.
#[test]
fn families_of_other_handles_are_refused() {
    let (store, settings) = (new_store(), FamilySettings::default());
    let before = open(&store);
    let earlier = before.create_family("theirs", settings.clone()).unwrap();
    put(&before, &earlier, b"k", b"theirs");
    before.close().unwrap();
    let another = open(&new_store());
    let foreign = another.create_family("theirs", settings.clone()).unwrap();
    put(&another, &foreign, b"k", b"theirs");

    let db = open(&store);
    let own = db.family("theirs").unwrap();
    let (options, reads) = (WriteOptions::default(), ReadOptions::default);
    for family in [&foreign, &earlier] {
        assert_eq!(family.id(), own.id());
        let named = |what: String| assert!(what.contains("theirs") && what.contains("another"), "{what}");
        named(invalid(db.get_with(family, b"k", &reads())));
        named(invalid(db.multi_get(family, &[b"k"], &reads())));
        named(invalid(db.iter_with(family, reads())));
        named(invalid(db.put_with(family, b"k", b"v", &options)));
        named(invalid(db.delete_with(family, b"k", &options)));
        named(invalid(db.merge_with(family, b"k", b"v", &options)));
        named(invalid(db.delete_range_with(family, b"a", b"z", &options)));
        named(invalid(db.drop_family(family)));
        named(invalid(db.compact_range(family, None, None)));
        named(invalid(db.family_settings(family)));
        named(invalid(db.change_family_settings(family, settings.clone())));
        named(invalid(db.version(family)));
        assert_eq!(db.property(family, "rocksdb.estimate-num-keys"), None);

        let mut batch = WriteBatch::new();
        batch.put_in(family, b"k", b"v");
        assert!(invalid(db.write(&mut batch, &options)).contains("another"));
        batch.clear();
        batch.put_in(&own, b"k", b"theirs");
        batch.put(b"k", b"default");
        batch.delete_in(family, b"k");
        assert!(invalid(db.write(&mut batch, &options)).contains("two open databases"));
        batch.clear();
        batch.put_in(&own, b"k", b"theirs");
        db.write(&mut batch, &options).unwrap();
        // The batch is empty again, and belongs to nobody.
        batch.put_in(&foreign, b"k", b"theirs");
        another.write(&mut batch, &options).unwrap();
    }
    assert_eq!((all(&db, &own).len(), all(&another, &foreign).len(), keys(&db).len()), (1, 1, 0));
}
