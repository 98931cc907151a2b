//! Opening: things that are created, refused, remembered.

use super::*;
use sinter_storage::store::Store;
use std::path::Path;
use std::process::Command;

#[test]
fn a_program_needs_three_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    {
        let db = Db::open(&path).unwrap();
        db.put(b"k", b"v").unwrap();
        assert_eq!(db.get(b"k").unwrap().unwrap(), b"v");
    }
    let db = Db::open(&path).unwrap();
    let entries: Vec<_> = db.iter().map(Result::unwrap).collect();
    assert_eq!(entries, [(b"k".to_vec(), b"v".to_vec())]);
    db.close().unwrap();
}

#[test]
fn a_missing_database_is_created_only_if_wanted() {
    assert!(invalid(try_open(&new_store(), builder().create_if_missing(false))).contains("no database"));
    assert!(invalid(try_open(&new_store(), builder().read_only())).contains("no database"));
    let nowhere = Path::new("/nonexistent/sinterdb");
    assert!(invalid(builder().create_if_missing(false).open(nowhere)).contains("/nonexistent/sinterdb"));
    // A directory that cannot be made is no missing database.
    for path in ["", "/proc/sinterdb"] {
        let error = builder().open(path).map(drop).unwrap_err();
        assert!(!matches!(error, Error::Invalid(_)) && error.to_string().contains("open directory"), "{error}");
    }
    let store = new_store();
    drop(open(&store));
    assert!(invalid(try_open(&store, builder().error_if_exists(true))).contains("exists already"));
    try_open(&store, builder().create_if_missing(false)).unwrap();
}

#[test]
fn a_second_open_is_refused() {
    let store = new_store();
    let db = open(&store);
    let clone = db.clone();
    drop(db);
    assert!(matches!(try_open(&store, builder()), Err(Error::Busy(_))), "a clone keeps it open");
    drop(clone);
    open(&store);
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path()).unwrap();
    assert!(matches!(Db::open(directory.path()), Err(Error::Busy(_))));
    drop(db);
    Db::open(directory.path()).unwrap();
}

/// The test starts itself again as the second process.
#[test]
fn a_second_process_is_refused() {
    const CHILD: &str = "SINTERDB_TEST_SECOND_OPEN";
    if let Some(path) = std::env::var_os(CHILD) {
        let outcome = match Db::open(path) {
            Ok(_) => "opened".to_owned(),
            Err(Error::Busy(_)) => "busy".to_owned(),
            Err(other) => other.to_string(),
        };
        println!("outcome: {outcome}.");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let child = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "open::a_second_process_is_refused", "--nocapture"]).env(CHILD, directory.path());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let db = Db::open(directory.path()).unwrap();
    assert!(child().contains("outcome: busy."));
    drop(db);
    assert!(child().contains("outcome: opened."));
}

#[test]
fn a_read_only_handle_opens_beside_a_writer_and_changes_nothing() {
    let store = new_store();
    let db = open(&store);
    db.put(b"table", b"1").unwrap();
    db.flush().unwrap();
    db.put(b"log", b"2").unwrap();
    let files = store.list().unwrap();
    let reader = try_open(&store, builder().read_only()).unwrap();
    assert_eq!(keys(&reader), ["log", "table"]);
    assert_eq!(reader.get(b"log").unwrap().unwrap(), b"2");
    db.put(b"later", b"3").unwrap();
    assert_eq!(reader.get(b"later").unwrap(), None);
    drop(reader);
    assert_eq!(store.list().unwrap().len(), files.len());
    assert_eq!(db.get(b"later").unwrap().unwrap(), b"3");
}

#[test]
fn a_read_only_handle_refuses_writes() {
    let store = new_store();
    open(&store).put(b"k", b"v").unwrap();
    let reader = try_open(&store, builder().read_only()).unwrap();
    let family = reader.default_family();
    let refusals = [
        reader.put(b"k", b"w"),
        reader.delete(b"k"),
        reader.sync(),
        reader.flush(),
        reader.compact_range(&family, None, None),
        reader.create_family("x", FamilySettings::default()).map(drop),
        reader.create_families(&[("x", FamilySettings::default())]).map(drop),
        reader.change_family_settings(&family, FamilySettings::default()),
        reader.checkpoint_to(&MemoryStore::new()),
    ];
    for (n, refusal) in refusals.into_iter().enumerate() {
        assert!(matches!(&refusal, Err(Error::Closed(why)) if why.contains("read-only")), "call {n}: {refusal:?}");
    }
    assert_eq!(reader.get(b"k").unwrap().unwrap(), b"v");
    reader.close().unwrap();
}

#[test]
fn settings_are_stored_and_used_when_none_are_given() {
    let store = new_store();
    let given = DbSettings { cache_size: 5 << 20, max_total_wal_size: 77 << 20, ..inline() };
    let family = FamilySettings { block_size: 777, num_levels: 3, ..small() };
    drop(try_open(&store, builder().settings(given.clone()).family("default", family.clone())).unwrap());
    let db = try_open(&store, builder()).unwrap();
    assert_eq!(*db.settings(), given);
    assert_eq!(db.family_settings(&db.default_family()).unwrap(), family);
    assert_eq!(db.property(&db.default_family(), "rocksdb.block-cache-capacity").unwrap(), (5 << 20).to_string());
    drop(db);
    let other = DbSettings { cache_size: 6 << 20, ..inline() };
    drop(try_open(&store, builder().settings(other.clone())).unwrap());
    assert_eq!(*try_open(&store, builder()).unwrap().settings(), other, "given settings win and are stored");
}

#[test]
fn bad_settings_list_every_complaint() {
    let db = DbSettings { max_background_jobs: 10_000, max_subcompactions: 0, ..DbSettings::default() };
    let family = FamilySettings { block_size: 1, num_levels: 1, ..FamilySettings::default() };
    let store = new_store();
    let complaints = invalid(try_open(&store, builder().settings(db).family("default", family)));
    for field in ["max_background_jobs", "max_subcompactions", "block_size", "num_levels", "default"] {
        assert!(complaints.contains(field), "{field} is missing in: {complaints}");
    }
    assert!(store.list().unwrap().is_empty(), "nothing is created");
}

#[test]
fn num_levels_is_fixed() {
    let store = new_store();
    drop(try_open(&store, builder().family("default", FamilySettings { num_levels: 4, ..small() })).unwrap());
    let other = FamilySettings { num_levels: 5, ..small() };
    assert!(invalid(try_open(&store, builder().family("default", other))).contains("num_levels cannot be changed"));
}

#[test]
fn families_can_be_created_by_the_builder() {
    let store = new_store();
    let db = try_open(&store, builder().settings(inline()).family("extra", small())).unwrap();
    let extra = db.family("extra").unwrap();
    db.put_with(&extra, b"k", b"v", &SYNC).unwrap();
    assert_eq!(db.default_family().id(), 0);
    drop((db, extra));
    let db = open(&store);
    assert_eq!(all(&db, &db.family("extra").unwrap()).len(), 1);
}

struct Other;

impl MergeOperator for Other {
    fn name(&self) -> &'static str {
        "other"
    }

    fn full_merge(&self, _key: &[u8], _base: Option<&[u8]>, _operands: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
}

#[test]
fn the_merge_operator_is_remembered_by_name() {
    let store = new_store();
    let db = try_open(&store, builder().settings(inline()).merge_operator("default", Arc::new(Join))).unwrap();
    db.merge(b"k", b"1").unwrap();
    drop(db);
    assert!(invalid(try_open(&store, builder())).contains("needs its merge operator \"join\""));
    let wrong = invalid(try_open(&store, builder().merge_operator("default", Arc::new(Other))));
    assert!(wrong.contains("\"join\"") && wrong.contains("\"other\""), "{wrong}");
    assert!(invalid(try_open(&store, builder().merge_operator("absent", Arc::new(Join)))).contains("\"absent\""));
    let reader = try_open(&store, builder().read_only()).unwrap();
    assert!(invalid(reader.get(b"k")).contains("no merge operator"), "readable without, but for merged keys");
    drop(reader);
    let db = try_open(&store, builder().merge_operator("default", Arc::new(Join))).unwrap();
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"1");
}

#[test]
fn recovery_says_what_it_found() {
    let store = memory();
    let db = open(&store);
    assert_eq!(db.recovery(), Default::default());
    fill(&db, 10, 10);
    let image = Arc::new(store.clone_image());
    let report = open(&image).recovery();
    assert_eq!((report.records_replayed, report.cut_bytes, report.cut_records), (10, 0, 0));
    assert!(report.logs_replayed >= 1);
}

#[test]
fn repeated_opens_do_not_pile_up_files() {
    let store = new_store();
    for n in 0..20 {
        let db = open(&store);
        db.put(b"k", &key(n)).unwrap();
        db.wait_for_compactions().unwrap();
    }
    assert_eq!(open(&store).get(b"k").unwrap().unwrap(), key(19));
    assert!(store.list().unwrap().len() < 12, "{store:?}");
}

#[test]
fn a_file_is_no_database_directory() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    std::fs::write(&path, "mine").unwrap();
    let expected = format!("{} is a file, not a database directory", path.display());
    for builder in [builder(), builder().create_if_missing(false), builder().read_only()] {
        assert_eq!(invalid(builder.open(&path)), expected);
    }
    let db = open(&memory());
    assert_eq!(invalid(db.checkpoint(&path)), expected);
    assert!(invalid(builder().open(path.join("below"))).contains("file/below: "));
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

/// A sync of a file that nobody finds again is no sync. A directory that was renamed is found again.
#[test]
fn a_database_whose_directory_is_removed_acknowledges_no_sync() {
    let home = tempfile::tempdir().unwrap();
    let (path, slow) = (home.path().join("db"), home.path().join("slow"));
    let ended = |db: &Db, what: &str| {
        let error = db.put_with(&db.default_family(), b"k", b"v", &SYNC).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        let closed = db.put(b"k", b"v").unwrap_err();
        assert!(matches!(closed, Error::Closed(_)), "{closed}");
    };
    for removed in ["all", "the log", "the tier", "renamed"] {
        std::fs::create_dir_all(&slow).unwrap();
        let tiers = format!("cold={}", slow.display());
        let settings = DbSettings { tiers: tiers.parse().unwrap(), ..inline() };
        let db = builder().settings(settings).open(&path).unwrap();
        db.put_with(&db.default_family(), b"k", b"v", &SYNC).unwrap();
        match removed {
            "all" => {
                std::fs::remove_dir_all(&path).unwrap();
                db.put(b"k", b"buffered").unwrap();
                ended(&db, "was deleted while it is open");
            }
            "the log" => {
                for file in std::fs::read_dir(&path).unwrap().map(|file| file.unwrap().path()) {
                    if file.extension().is_some_and(|end| end == "log") {
                        std::fs::remove_file(file).unwrap();
                    }
                }
                ended(&db, "was deleted while it is open");
            }
            "the tier" => {
                std::fs::remove_dir_all(&slow).unwrap();
                ended(&db, "slow was removed while it is open");
            }
            _ => {
                std::fs::rename(&path, home.path().join("moved")).unwrap();
                db.put_with(&db.default_family(), b"k", b"v2", &SYNC).unwrap();
                db.sync().unwrap();
                db.close().unwrap();
                let db = builder().open(home.path().join("moved")).unwrap();
                assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"v2"[..]));
            }
        }
        let _ = std::fs::remove_dir_all(&path);
        let _ = std::fs::remove_dir_all(&slow);
    }
}
