use super::super::{Input, Span};
use super::*;
use crate::clock::ManualClock;
use crate::key::MAX_SEQ;
use crate::memtable::{ChunkPool, Memtable};
use crate::merge::testing::{Append, Rng, Write, entries, replay};
use crate::settings::Preclude;
use crate::table::{ReadOptions, TableCursor};
use crate::visible::VisibleCursor;
use sinter_storage::store::{Calls, EIO, Fault, FaultStore, MemoryStore, Reason};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;

/// A store with open tables, and what a job needs around it.
struct World {
    store: FaultStore,
    settings: FamilySettings,
    cache: Arc<Cache>,
    tables: Mutex<HashMap<u64, Arc<Table>>>,
    next: AtomicU64,
    cancel: AtomicBool,
    operator: Append,
    packers: Arc<Packers>,
}

const DB: DbId = DbId([7; 16]);

impl World {
    fn new() -> World {
        let settings = FamilySettings { write_buffer_size: 1 << 20, max_compaction_bytes: 40 << 10, ..FamilySettings::default() };
        World {
            store: FaultStore::new(Arc::new(MemoryStore::new())),
            settings,
            cache: Cache::new(4 << 20),
            tables: Mutex::default(),
            next: AtomicU64::new(1),
            cancel: AtomicBool::new(false),
            operator: Append { partial: true },
            packers: Arc::default(),
        }
    }

    fn with<T>(&self, snapshots: &[Seq], pieces: usize, work: impl FnOnce(&Context<'_>) -> T) -> T {
        work(&Context {
            store: &self.store,
            db: DB,
            family: 3,
            settings: &self.settings,
            base: 1,
            codecs: None,
            create: &|id, hint| Ok(self.store.create(id, hint)?),
            cache: &self.cache,
            table: &|number| Ok(self.tables.lock()[&number].clone()),
            new_number: &|| self.next.fetch_add(1, Ordering::Relaxed),
            snapshots,
            is_copy: false,
            merge: Some(&self.operator),
            filter: None,
            direct: false,
            bytes_per_sync: 0,
            threads: pieces > 1,
            packers: &self.packers,
            max_subcompactions: pieces,
            cancel: &self.cancel,
            clock: &ManualClock::default(),
            pacing: None,
            expired: None,
            apart: None,
            placement: None,
            zero_up_to: Some(Cut::ALL),
            times: Arc::default(),
        })
    }

    fn open(&self, infos: Vec<TableInfo>) -> Vec<Arc<TableInfo>> {
        let infos: Vec<_> = infos.into_iter().map(Arc::new).collect();
        for info in &infos {
            let table = Table::open(&self.store, DB, info.clone(), &self.cache).unwrap();
            self.tables.lock().insert(info.number, table);
        }
        infos
    }

    /// Opens the tables afresh: nothing of them is in memory.
    fn forget(&self) {
        let infos: Vec<_> = self.tables.lock().values().map(|table| (**table.info()).clone()).collect();
        self.tables.lock().values().for_each(|table| table.forget());
        self.open(infos);
    }

    fn flush(&self, history: &[Write], from: usize, to: usize, snapshots: &[Seq]) -> Vec<Arc<TableInfo>> {
        let memtable = Memtable::new(Arc::new(ChunkPool::default()));
        let (points, ranges) = entries(history, from, to);
        let mut writer = memtable.writer();
        for (key, trailer, value) in points {
            writer.insert(&key, crate::key::seq_of(trailer), crate::key::kind_of(trailer).unwrap(), &value);
        }
        let outcome = self.with(snapshots, 1, |context| flush(vec![memtable.cursor()], &RangeTombstones::new(ranges), (5, 6), context));
        let report = done(outcome);
        assert!(report.outputs.len() <= 1);
        self.open(report.outputs)
    }

    /// Keys and values that a reader sees in runs of tables, newest first.
    fn view(&self, runs: &[Vec<Arc<TableInfo>>], snapshot: Seq) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let tombstones = runs.iter().flatten().map(|info| self.tables.lock()[&info.number].range_tombstones().unwrap()).collect();
        let sources = runs.iter().map(|run| RunCursor::new(ReadRun { world: self, run })).collect();
        let operator = Arc::new(Append { partial: true });
        let mut cursor = VisibleCursor::new(Merge::new(sources), tombstones, snapshot, Some(operator), None, None);
        let mut view = BTreeMap::new();
        cursor.seek_first().unwrap();
        while cursor.valid() {
            view.insert(cursor.key().to_vec(), cursor.value().to_vec());
            cursor.next().unwrap();
        }
        view
    }

    fn files(&self) -> usize {
        self.store.list().unwrap().len()
    }
}

struct ReadRun<'a> {
    world: &'a World,
    run: &'a [Arc<TableInfo>],
}

impl TableSource for ReadRun<'_> {
    type Cursor = TableCursor;
    fn len(&self) -> usize {
        self.run.len()
    }
    fn range(&self, i: usize) -> &KeyRange {
        &self.run[i].range
    }
    fn open(&self, i: usize) -> Result<TableCursor> {
        Ok(self.world.tables.lock()[&self.run[i].number].cursor(ReadOptions::default()))
    }
}

fn done(outcome: Result<Outcome>) -> Report {
    match outcome.unwrap() {
        Outcome::Done(report) => report,
        Outcome::Cancelled(_) => panic!("nobody cancelled"),
    }
}

fn random_history(rng: &mut Rng, writes: usize) -> Vec<Write> {
    let key = |rng: &mut Rng| format!("user{:05}", rng.below(3000)).into_bytes();
    (0..writes)
        .map(|i| match rng.below(60) {
            0..6 => Write::Delete(key(rng)),
            6..12 => Write::Merge(key(rng), format!("+{i}").into_bytes()),
            12 => {
                let start = rng.below(3000);
                Write::DeleteRange(format!("user{start:05}").into_bytes(), format!("user{:05}", start + rng.below(200)).into_bytes())
            }
            _ => Write::Put(key(rng), format!("{i}{:x}{:x}{:x}", rng.next(), rng.next(), rng.next()).into_bytes()),
        })
        .collect()
}

fn plan(runs: &[Vec<Arc<TableInfo>>], bottommost: bool, target_file_size: u64) -> Plan {
    let input = |(i, run): (usize, &Vec<Arc<TableInfo>>)| Input { level: 0, run: 100 - i as u64, tables: run.clone() };
    Plan {
        reason: Reason::RunCount,
        inputs: runs.iter().enumerate().map(input).collect(),
        output_level: if bottommost { 6 } else { 1 },
        output_run: 0,
        hot: None,
        bottommost,
        grandparents: Vec::new(),
        target_file_size,
        cuts: Vec::new(),
    }
}

#[test]
fn flushes_and_merges_of_real_tables_keep_what_readers_see() {
    for seed in 0..12 {
        let mut rng = Rng(seed);
        let world = World::new();
        let history = random_history(&mut rng, 6000);
        let mut snapshots: Vec<Seq> = (0..seed % 4).map(|_| rng.below(6000)).collect();
        snapshots.sort();
        snapshots.push(6000);
        let mut runs: Vec<_> = (0..6).rev().map(|i| world.flush(&history, i * 1000, (i + 1) * 1000, &snapshots)).collect();
        // The oldest four into a bottom run, in one piece or three; then the rest above it; then everything.
        let expected: Vec<_> = snapshots.iter().map(|&s| replay(&history, s)).collect();
        for (from, bottommost, pieces) in [(2, true, 1 + 2 * (seed as usize % 2)), (0, false, 3), (0, true, 2)] {
            let to = if bottommost { runs.len() } else { runs.len() - 1 };
            let plan = plan(&runs[from..to], bottommost, 16 << 10);
            let report = done(world.with(&snapshots, pieces, |context| run(&plan, context)));
            assert!(report.outputs.len() > 1 && report.entries_out <= report.entries_in, "seed {seed}");
            let run = world.open(report.outputs);
            for w in run.windows(2) {
                assert!(w[0].range.ends_before(&w[1].range.smallest), "seed {seed}");
            }
            // Flushed from 5 to 6, with times of their own from 5 to 255.
            assert!(run.iter().all(|t| t.oldest_time == 5 && (6..=255).contains(&t.newest_time)), "seed {seed}");
            run.iter().for_each(|t| world.tables.lock()[&t.number].verify().unwrap());
            runs.splice(from..to, [run]);
            for (snapshot, expected) in snapshots.iter().zip(&expected) {
                assert_eq!(&world.view(&runs, *snapshot), expected, "seed {seed} snapshot {snapshot} of {snapshots:?}");
            }
            assert_eq!(world.view(&runs, MAX_SEQ), expected[expected.len() - 1], "seed {seed}");
        }
        assert_eq!(runs.len(), 1);
        if snapshots.len() == 1 {
            assert!(runs[0].iter().all(|t| t.range_tombstones + t.tombstones + t.merges == 0), "seed {seed}");
        }
    }
}

/// Young data goes to tables one level higher, whatever the key ranges that the merge was cut into; and readers see the same.
#[test]
fn a_merge_into_the_last_level_writes_to_two() {
    for seed in 0..12 {
        let mut rng = Rng(seed);
        let mut world = World::new();
        world.settings.preclude_last_level_data_seconds = Preclude::Seconds(100);
        (world.settings.last_level_temperature, world.settings.default_write_temperature) = (Temperature::Cold, Temperature::Warm);
        let history = random_history(&mut rng, 6000);
        let mut snapshots: Vec<Seq> = (0..seed % 3).map(|_| rng.below(6000)).collect();
        snapshots.sort();
        snapshots.push(6000);
        let runs: Vec<_> = (0..6).rev().map(|i| world.flush(&history, i * 1000, (i + 1) * 1000, &snapshots)).collect();
        let middle = |n: u64| Some(format!("user{n:05}").into_bytes());
        let spans = match seed % 3 {
            0 => vec![Span::default()],
            1 => vec![Span { from: None, to: middle(1000) }, Span { from: middle(1500), to: None }],
            _ => vec![Span { from: middle(700), to: middle(1400) }],
        };
        let old = Cut { seq: 3500, time: 100 };
        let hot = Hot { run: 0, old, spans: spans.clone(), grandparents: Vec::new(), target_file_size: 8 << 10 };
        let plan = Plan { hot: Some(hot), ..plan(&runs, true, 16 << 10) };
        let pieces = 1 + seed as usize % 4;
        let report = done(world.with(&snapshots, pieces, |context| run(&plan, context)));
        assert_eq!(report.placed.hot + report.placed.cold + report.placed.sunk, report.entries_out, "seed {seed}");
        assert_eq!(report.placed.sunk > 0, spans != [Span::default()], "seed {seed}");
        assert!(report.placed.hot > 50 && report.placed.cold > 50, "seed {seed}: {:?}", report.placed);
        let levels = [world.open(report.hot), world.open(report.outputs)];
        for table in &levels[0] {
            assert!(spans.iter().any(|span| span.contains(&table.range.smallest)), "seed {seed}: {table:?}");
            assert_eq!((table.temperature, table.settled), (Temperature::Warm, table.bytes), "seed {seed}");
        }
        for table in &levels[1] {
            assert_eq!((table.temperature, table.settled), (Temperature::Cold, 0), "seed {seed}");
        }
        for level in &levels {
            assert!(!level.is_empty() && level.windows(2).all(|w| w[0].range.ends_before(&w[1].range.smallest)), "seed {seed}");
            level.iter().for_each(|t| world.tables.lock()[&t.number].verify().unwrap());
        }
        for &snapshot in &snapshots {
            assert_eq!(world.view(&levels, snapshot), replay(&history, snapshot), "seed {seed} snapshot {snapshot}");
        }
    }
}

#[test]
fn an_error_of_any_call_is_the_result_and_leaves_no_output() {
    let world = World::new();
    let history = random_history(&mut Rng(1), 2000);
    let runs: Vec<_> = (0..2).rev().map(|i| world.flush(&history, i * 1000, (i + 1) * 1000, &[2000])).collect();
    let (plan, before) = (plan(&runs, true, 16 << 10), world.files());
    for calls in [Calls::Reading, Calls::Mutating] {
        let mut failures = 0;
        for n in 0..10_000 {
            world.store.clear();
            world.forget();
            let next = match calls {
                Calls::Reading => world.store.reading_calls(),
                _ => world.store.mutating_calls(),
            };
            world.store.inject(Fault::once(calls, next + n, EIO));
            match world.with(&[2000], 1 + n as usize % 2, |context| run(&plan, context)) {
                Err(error) => assert!(matches!(error, Error::Io(_)), "{n}: {error}"),
                Ok(Outcome::Cancelled(_)) => panic!("{n}: nobody cancelled"),
                Ok(Outcome::Done(report)) => {
                    world.store.clear();
                    report.outputs.iter().for_each(|t| world.store.delete(FileId::table(t.number)).unwrap());
                    break;
                }
            }
            failures += 1;
            world.store.clear();
            assert_eq!(world.files(), before, "{n}");
        }
        assert!(failures > 5, "{failures}");
    }
}

#[test]
fn a_table_that_holds_fewer_entries_than_the_manifest_says_is_damage() {
    let world = World::new();
    let history = random_history(&mut Rng(1), 1000);
    let mut runs = vec![world.flush(&history, 0, 1000, &[1000])];
    let before = world.files();
    Arc::make_mut(&mut runs[0][0]).entries += 1;
    let result = world.with(&[1000], 1, |context| run(&plan(&runs, true, 16 << 10), context));
    assert!(matches!(result, Err(Error::Corrupt { .. })));
    assert_eq!(world.files(), before);
}

#[test]
fn a_cancelled_job_names_its_files() {
    let world = World::new();
    let history = random_history(&mut Rng(1), 1000);
    let runs = vec![world.flush(&history, 0, 1000, &[1000])];
    world.cancel.store(true, Ordering::Relaxed);
    let outcome = world.with(&[1000], 1, |context| run(&plan(&runs, true, 16 << 10), context)).unwrap();
    assert!(matches!(outcome, Outcome::Cancelled(files) if files.is_empty()));
}

/// A thread that cannot be started, here for its stack larger than any address space, costs parallelism and nothing else, and is counted.
#[test]
fn parts_without_a_thread_run_on_the_callers() {
    for stack in [256 << 10, 1 << 60] {
        let caller = std::thread::current().id();
        let (results, without_thread) = in_parallel(4, || Builder::new().stack_size(stack), |i| (i, std::thread::current().id() == caller));
        let expected = [0, 1, 2, 3].map(|i| (i, i == 0 || stack == 1 << 60));
        assert_eq!((results, without_thread), (expected.into(), if stack == 1 << 60 { 3 } else { 0 }));
    }
}
