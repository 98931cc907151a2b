use super::*;
use crate::clock::ManualClock;
use crate::compaction::{Hot, Plan};
use crate::db::jobs::Work;
use crate::db::mem::Mem;
use crate::db::view::View;
use crate::db::{Db, WriteOptions};
use crate::pacing::{Pace, StopReason};
use crate::settings::Budgets;
use crate::tiering::age::Cut;
use sinter_storage::store::{MemoryStore, Reason};
use std::fs;

const MIB: u64 = 1 << 20;

/// A control group of version 2 in made-up files, with processors 0 to 3.
struct Made(tempfile::TempDir);

impl Made {
    fn new(memory: &str) -> Self {
        let made = Made(tempfile::tempdir().unwrap());
        made.put("proc/self/mountinfo", "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
        made.put("proc/self/cgroup", "0::/box\n");
        made.put("proc/thread-self/status", "Cpus_allowed_list:\t0-3\n");
        made.put("cg/box/cpu.max", "max 100000\n");
        made.memory(memory, 0);
        made
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn memory(&self, limit: &str, used: u64) {
        self.put("cg/box/memory.max", limit);
        self.put("cg/box/memory.current", &(used + 7 * MIB).to_string());
        self.put("cg/box/memory.stat", &format!("inactive_file {}\nactive_file {}\n", 3 * MIB, 4 * MIB));
    }

    /// Opens a database whose clock stands still, so that only the test looks at the limits.
    fn open(&self, settings: DbSettings) -> Db {
        let builder = Db::builder().settings(settings).system_root(self.0.path()).clock(Arc::new(ManualClock::default()));
        builder.open_store(Arc::new(MemoryStore::new())).unwrap()
    }
}

fn mib(bytes: u64) -> String {
    (bytes * MIB).to_string()
}

fn capacity(db: &Db) -> u64 {
    db.inner.cache.capacity() / MIB
}

#[test]
fn the_cache_follows_a_limit_that_changes_while_open() {
    let made = Made::new("max");
    let db = made.open(DbSettings { cache_size: 1024 * MIB, ..DbSettings::default() });
    assert_eq!((capacity(&db), db.memory_note()), (1024, None));
    made.memory(&mib(512), 100 * MIB);
    db.inner.watch_limits(1);
    assert_eq!(capacity(&db), 256);
    assert!(db.memory_note().unwrap().starts_with("memory is limited to 512MiB"));
    let text = db.property(&db.default_family(), "sinterdb.limits").unwrap();
    assert!(text.contains("/cg/box), 100 MiB used without files\ncache: 256 MiB of 1024 MiB asked for\nmemory is limited to"), "{text}");
    made.memory("max", 0);
    db.inner.watch_limits(2);
    assert_eq!((capacity(&db), db.memory_note()), (1024, None));
    assert_eq!(db.settings().cache_size, 1024 * MIB, "what was asked for is not forgotten");
}

#[test]
fn a_limit_that_cannot_be_read_holds_and_is_told() {
    let made = Made::new(&mib(512));
    let db = made.open(DbSettings { cache_size: 1024 * MIB, ..DbSettings::default() });
    made.memory("garbage", 100 * MIB);
    db.inner.watch_limits(1);
    assert_eq!(capacity(&db), 256);
    let text = db.property(&db.default_family(), "sinterdb.limits").unwrap();
    assert!(text.contains("memory limit: 512MiB (") && text.contains("cg/box/memory.max cannot be read, or not understood"), "{text}");
    assert!(db.stats().tickers.iter().any(|(name, count)| *name == "sinterdb.limits.unknown.count" && *count > 0));
    made.memory("max", 0);
    db.inner.watch_limits(2);
    assert_eq!(capacity(&db), 1024);
    assert!(!db.property(&db.default_family(), "sinterdb.limits").unwrap().contains("not known"));
}

#[test]
fn a_limit_is_found_at_the_start_and_holds_without_threads_too() {
    for jobs in [0, 2] {
        let made = Made::new(&mib(128));
        let db = made.open(DbSettings { cache_size: 64 * MIB, max_background_jobs: jobs, ..DbSettings::default() });
        assert_eq!((capacity(&db), db.settings().db_write_buffer_size), (48, 48 * MIB), "{jobs} jobs");
        assert!(db.memory_note().is_some());
        db.put(b"k", b"v").unwrap();
        assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
        db.close().unwrap();
    }
}

#[test]
fn memory_near_the_limit_shrinks_the_cache_and_gives_it_back() {
    let made = Made::new(&mib(1000));
    let db = made.open(DbSettings { cache_size: 320 * MIB, ..DbSettings::default() });
    let mut at = 0;
    let mut step = |used: u64| {
        made.memory(&mib(1000), used * MIB);
        at += 1;
        db.inner.watch_limits(at);
        capacity(&db)
    };
    assert_eq!([step(500), step(899)], [320, 320]);
    assert_eq!(step(980), 20, "nothing is cached, so there is nothing to give up but the permission");
    assert_eq!([step(850), step(801)], [20, 20], "neither near nor far");
    assert_eq!([step(790), step(700), step(700)], [30, 50, 70]);
    for _ in 0..20 {
        step(100);
    }
    assert_eq!(step(100), 320);
}

/// The process is far from its own limit, but others fill the group around it.
#[test]
fn a_group_around_near_its_limit_shrinks_the_cache_too() {
    let made = Made::new(&mib(1000));
    let outer = |used: u64| {
        made.put("cg/memory.max", &mib(4000));
        made.put("cg/memory.current", &mib(used));
        made.put("cg/memory.stat", "inactive_file 0\nactive_file 0\n");
    };
    outer(0);
    made.put("proc/meminfo", "MemAvailable: 9000000 kB\n");
    let db = made.open(DbSettings { cache_size: 320 * MIB, ..DbSettings::default() });
    assert_eq!(db.inner.memory.for_files().unwrap() / MIB, 680, "what the cache may take is not for files from the start");
    let mut at = 0;
    let mut step = |inner: u64, around: u64| {
        made.memory(&mib(1000), inner * MIB);
        outer(around);
        at += 1;
        db.inner.watch_limits(at);
        (capacity(&db), db.inner.memory.for_files().unwrap() / MIB)
    };
    assert_eq!(step(500, 500), (320, 180), "500 are left in the inner group, of which the cache may take 320");
    assert_eq!(step(500, 3800), (20, 180), "200 are left in the outer one, of which the cache may take 20");
    assert_eq!(step(100, 3500), (20, 480), "neither near nor far in the outer one");
    assert_eq!(step(950, 1000), (20, 30), "now the inner one is near");
    assert_eq!(step(100, 1000).0, 40);
    let text = db.property(&db.default_family(), "sinterdb.limits").unwrap();
    assert!(text.contains("memory limit: 1000MiB (") && text.contains("memory limit: 4000MiB ("), "{text}");
    assert!(text.contains("/cg/box), 100 MiB used without files\n") && text.contains("/cg), 1000 MiB used without files\n"), "{text}");
}

#[test]
fn a_valve_gives_up_what_the_use_grows_by() {
    let mut valve = Valve::default();
    // The cache is full: 600 of 600.
    let first = valve.withhold(0, 600, 600, 900, 1000);
    assert_eq!(first, 50, "what is above 850");
    assert_eq!(valve.withhold(first, 600, 550, 900, 1000), 50, "freed memory need not go back to the kernel");
    assert_eq!(valve.withhold(50, 600, 550, 920, 1000), 70);
    assert_eq!(valve.withhold(70, 600, 530, 5000, 1000), 563, "a sixteenth stays");
    assert_eq!(valve.withhold(563, 600, 37, u64::MAX, 1000), 563);
    assert_eq!(valve.withhold(563, 600, 37, 850, 1000), 563);
    assert_eq!(valve.withhold(563, 600, 37, 0, 1000), 526);
    assert_eq!(valve.withhold(563, 100, 37, 0, 1000), 94, "the size was reduced");
    assert_eq!(Valve::default().withhold(0, 0, 0, 900, 1000), 0);
    let mut lowered = Valve::default();
    assert_eq!(lowered.withhold(0, 600, 600, 900, 1000), 50);
    assert_eq!(lowered.withhold(50, 600, 550, 900, 800), 270, "220 are above 85 % of the new limit");
    assert_eq!(lowered.withhold(270, 600, 330, 900, 990), 270, "a larger one asks for nothing more");
    let mut valve = Valve::default();
    for used in [0, 5, 1000, 3, 900, 2000, u64::MAX] {
        for (size, held) in [(0, 0), (10, 5), (600, 900)] {
            for limit in [0, 1, 1000, u64::MAX] {
                assert!(valve.withhold(3, size, held, used, limit) <= size);
            }
        }
    }
}

#[test]
fn as_many_compactions_run_as_there_are_processors() {
    assert_eq!([0.05, 0.5, 1.0, 1.5, 2.0, 64.0].map(|cpus| compactions_at_once(cpus, false)), [1, 1, 1, 2, 2, 64]);
    assert_eq!(compactions_at_once(0.5, true), usize::MAX, "writers are held back");
    let made = Made::new("max");
    let db = made.open(DbSettings { max_background_jobs: 8, max_subcompactions: 3, ..DbSettings::default() });
    let now = |at: u64| {
        db.inner.watch_limits(at);
        (db.inner.compactions_at_once(), db.inner.subcompactions())
    };
    assert_eq!(now(1), (4, 3));
    made.put("cg/box/cpu.max", "150000 100000\n");
    assert_eq!(now(1_000_000_000), (2, 2));
    made.put("cg/box/cpu.max", "20000 100000\n");
    assert_eq!(now(2_000_000_000), (1, 1));
    made.put("cg/box/cpu.max", "max\n");
    made.put("proc/thread-self/status", "Cpus_allowed_list:\t0-63\n");
    assert_eq!(now(3_000_000_000), (7, 3), "the settings are the upper bound");
    // One that runs keeps a second from starting, and flushes go on all the same.
    made.put("cg/box/cpu.max", "100000 100000\n");
    db.inner.watch_limits(4_000_000_000);
    let mut shared = db.inner.shared.lock();
    assert!(db.inner.may_compact(&shared));
    shared.jobs.running = 1;
    assert!(!db.inner.may_compact(&shared));
    shared.jobs.running = 0;
    drop(shared);
    // A compaction by hand may take hours, and runs on its caller's thread: it must not keep writers of other families waiting.
    let db2 = made.open(DbSettings { max_background_jobs: 2, ..DbSettings::default() });
    let mut shared = db2.inner.shared.lock();
    shared.jobs.running = 1;
    assert!(!db2.inner.may_compact(&shared));
    db2.inner.pressure.set(&Pace::Stop(StopReason::Runs));
    assert!(db2.inner.may_compact(&shared));
    db2.inner.pressure.set(&Pace::Free);
    shared.jobs.running = 0;
    drop(shared);
    db.put(b"k", b"v").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
}

#[test]
fn a_merge_counts_once_however_many_levels_it_writes_to() {
    let made = Made::new("max");
    made.put("cg/box/cpu.max", "150000 100000\n");
    let db = made.open(DbSettings { max_background_jobs: 8, ..DbSettings::default() });
    db.inner.watch_limits(1);
    let core = db.default_family().core;
    let hot = Hot { run: 0, old: Cut::ALL, spans: Vec::new(), grandparents: Vec::new(), target_file_size: 1 };
    let plan = Plan {
        reason: Reason::Age,
        inputs: Vec::new(),
        output_level: 3,
        output_run: 0,
        hot: Some(hot),
        bottommost: false,
        grandparents: Vec::new(),
        target_file_size: 1,
        cuts: Vec::new(),
    };
    let mut shared = db.inner.shared.lock();
    db.inner.mark(&mut shared, &core, Work::Merge, &plan);
    assert_eq!((shared.jobs.outputs.len(), shared.jobs.compactions()), (2, 1));
    assert!(db.inner.may_compact(&shared), "two may run");
    db.inner.unmark(&mut shared, &core, &plan);
    assert_eq!((shared.jobs.outputs.len(), shared.jobs.compactions()), (0, 0));
    drop(shared);
    db.close().unwrap();
}

#[test]
fn without_threads_nothing_is_bounded_by_processors() {
    let made = Made::new("max");
    made.put("cg/box/cpu.max", "10000 100000\n");
    let db = made.open(DbSettings { max_background_jobs: 0, max_subcompactions: 5, ..DbSettings::default() });
    assert_eq!((db.inner.cpu.cpus(), db.inner.cpu.idle(), db.inner.subcompactions()), (1.0, 0.0, 5));
    assert!(db.inner.may_compact(&db.inner.shared.lock()));
}

#[test]
fn work_that_somebody_waits_for_is_urgent() {
    let made = Made::new("max");
    let db = made.open(DbSettings::default());
    let core = &db.default_family().core;
    assert_eq!(db.inner.urgency(core), 0.0);
    db.inner.shared.lock().jobs.settling = 1;
    assert_eq!(db.inner.urgency(core), 1.0);
    db.inner.shared.lock().jobs.settling = 0;
    db.inner.shared.lock().jobs.manual.push(0);
    assert_eq!(db.inner.urgency(core), 1.0);
    db.inner.shared.lock().jobs.manual.clear();
    assert_eq!(db.inner.urgency(core), 0.0);
}

#[test]
fn a_compaction_in_the_way_of_a_flush_is_urgent() {
    for jobs in [1, 2] {
        let made = Made::new("max");
        let db = made.open(DbSettings { max_background_jobs: jobs, ..DbSettings::default() });
        let core = &db.default_family().core;
        db.inner.shared.lock().jobs.flushing.insert(core.id);
        let before = core.view.load_full();
        let mem = Mem::new(&db.inner.pool, 0, 0);
        core.view.store(Arc::new(View { mem, full: vec![before.mem.clone()], tree: before.tree.clone() }));
        assert_eq!(db.inner.urgency(core), if jobs == 1 { 1.0 } else { 0.0 }, "{jobs} threads");
        core.view.store(before);
        db.inner.shared.lock().jobs.flushing.clear();
    }
}

#[test]
fn a_flush_may_pause_while_there_is_room_for_what_is_written() {
    let made = Made::new("max");
    let db = made.open(DbSettings::default());
    let core = &db.default_family().core;
    let quarter = vec![0; db.inner.memtable_limit(core) / 4];
    assert_eq!(db.inner.urgency_of_flush(core), 0.0);
    db.inner.shared.lock().jobs.awaited += 1;
    assert_eq!(db.inner.urgency_of_flush(core), 1.0, "somebody waits");
    db.inner.shared.lock().jobs.awaited -= 1;
    db.put(b"a", &quarter).unwrap();
    let urgency = db.inner.urgency_of_flush(core);
    assert!((0.5..0.51).contains(&urgency), "{urgency}");
    db.put(b"b", &quarter).unwrap();
    assert_eq!(db.inner.urgency_of_flush(core), 1.0);
    let before = core.view.load_full();
    let mem = || Mem::new(&db.inner.pool, 0, 0);
    core.view.store(Arc::new(View { mem: mem(), full: vec![mem()], tree: before.tree.clone() }));
    assert_eq!(db.inner.urgency_of_flush(core), 0.0);
    core.view.store(Arc::new(View { mem: mem(), full: vec![mem(), mem()], tree: before.tree.clone() }));
    assert_eq!(db.inner.urgency_of_flush(core), 1.0, "the next one waits");
    core.view.store(before);
    // What another family has written counts, too.
    let other = db.create_family("other", FamilySettings::default()).unwrap();
    db.flush().unwrap();
    assert_eq!(db.inner.urgency_of_flush(core), 0.0);
    db.put_with(&other, b"a", &quarter, &WriteOptions::default()).unwrap();
    assert!((0.5..0.51).contains(&db.inner.urgency_of_flush(core)));
    db.drop_family(&other).unwrap();
    assert_eq!((db.inner.urgency_of_flush(core), db.inner.urgency_of_flush(&other.core)), (0.0, 1.0));
}

#[test]
fn a_budget_that_moves_stays_within_the_limit_and_loses_nothing() {
    for (limit, memory, expected) in [(512, 400, 384), (64, 160, 48)] {
        let made = Made::new(&mib(limit));
        let budgets = Budgets { memory: Some(memory * MIB), ..Budgets::default() };
        let builder = Db::builder().settings(budgets.db()).family("default", budgets.family()).system_root(made.0.path());
        let db = builder.clock(Arc::new(ManualClock::default())).open_store(Arc::new(MemoryStore::new())).unwrap();
        assert!(db.memory_note().is_some());
        for (at, memtables) in [128, 30, 200, 10].into_iter().enumerate() {
            let memtables = memtables * MIB * expected / 384;
            db.inner.memory.ask(memtables, db.settings().memory_budget - memtables);
            db.inner.watch_limits(at as u64 + 1);
            assert_eq!((memtables + db.inner.cache.capacity()) / MIB, expected, "{memtables} bytes of memtables");
        }
        db.inner.divide_memory();
        assert!(db.inner.division.memtables() < expected * MIB);
    }
}

#[test]
fn memtables_fit_the_limit_from_the_first_on_and_in_a_recovery() {
    let budgets = Budgets { memory: Some(64 * MIB), ..Budgets::default() };
    let family = FamilySettings { level0_file_num_compaction_trigger: 19, ..budgets.family() };
    let memory = Arc::new(MemoryStore::new());
    let open = |limit: &str| {
        let made = Made::new(limit);
        let builder = Db::builder().settings(budgets.db()).family("default", family.clone()).system_root(made.0.path());
        builder.clock(Arc::new(ManualClock::default())).open_store(memory.clone()).unwrap()
    };
    let db = open("max");
    (0..8192u64).for_each(|n| db.put(&n.to_be_bytes(), &[n as u8; 1024]).unwrap());
    db.close().unwrap();
    let db = open(&mib(8));
    let core = db.default_family().core;
    let limit = db.inner.memtable_limit(&core);
    assert!(limit as u64 <= 6 * MIB / 5 * 2, "{limit}");
    assert_eq!(db.inner.write_state.lock().family(core.id).unwrap().limit, limit);
    let recovered = db.version(&db.default_family()).unwrap().tables().count();
    assert!(recovered >= 3, "{recovered} memtables for 8 MiB");
}

#[test]
fn a_budget_that_does_not_move_fits_the_limit_too() {
    let budget = Budgets { memory: Some(1024 * MIB), ..Budgets::default() };
    let db = Made::new(&mib(256)).open(DbSettings { max_background_jobs: 0, ..budget.db() });
    assert_eq!((db.inner.division.memtables() / MIB, db.inner.cache.capacity() / MIB), (153, 38), "four fifths of 192, and the rest");
}

/// Indexes and filters may not grow as the data do in a process whose memory is limited, or with a budget.
#[test]
fn indexes_and_filters_count_where_memory_is_bounded() {
    let beside = |limit: &str, settings: DbSettings| {
        let db = Made::new(limit).open(settings);
        (0..5000u64).for_each(|n| db.put(&n.to_be_bytes(), &[n as u8; 100]).unwrap());
        db.flush().unwrap();
        (0..5000u64).for_each(|n| assert!(db.get(&n.to_be_bytes()).unwrap().is_some()));
        db.inner.cache.outside() > 0
    };
    assert!(beside("max", DbSettings::default()));
    assert!(!beside(&mib(512), DbSettings::default()));
    // As a database of an older version has it stored: a budget, and not a word of indexes.
    let stored = DbSettings { memory_budget: 64 * MIB, cache_index_and_filter_blocks: false, ..DbSettings::default() };
    assert!(!beside("max", stored));
}

#[test]
fn a_budget_follows_a_limit_that_changes_while_open() {
    let made = Made::new("max");
    let db = made.open(Budgets { memory: Some(1024 * MIB), ..Budgets::default() }.db());
    let step = |limit: &str| {
        made.memory(limit, 0);
        // What is divided follows what was seen of the limit at the last look.
        for _ in 0..2 {
            db.inner.divide_memory();
            db.inner.watch_limits(1);
        }
        (db.inner.division.memtables() / MIB, capacity(&db), db.memory_note())
    };
    let note = |limit, ours| {
        Some(format!("memory is limited to {limit}MiB, of which memtables and cache may take {ours}MiB: the settings ask for 1GiB"))
    };
    assert_eq!(step("max"), (819, 204, None), "four fifths and a fifth");
    assert_eq!(step(&mib(512)), (307, 76, note(512, 384)), "memtables leave a fifth");
    assert_eq!(step(&mib(128)), (76, 19, note(128, 96)));
    assert_eq!(step(&mib(512)), (76, 307, note(512, 384)));
    assert_eq!(step("max"), (76, 947, None));
}
