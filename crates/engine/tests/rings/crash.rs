//! The crash ring: at every call that changes the store the power goes, and of what was not synced any legal part is left. Whatever that
//! part is, the database must open and show one moment of its history, in all families alike, with everything that was acknowledged as
//! durable. Then the power goes again during that recovery.
//!
//! A failure prints the command that repeats it. `CRASH_SEEDS=n` tries n images per call instead of the usual number.

use crate::check::{self, Found};
use crate::machine::{Front, Hook, Machine, with_tiers};
use crate::model::{Model, Progress};
use crate::runner::{Runner, builder, builder_at, settings};
use crate::times::Moments;
use crate::workloads::{self, Workload};
use parking_lot::Mutex;
use sinter_storage::store::{Calls, Cause, CrashMode, ENOSPC, Fault, FaultStore, FileId, MemoryStore, Operation, Store};
use sinterdb::settings::{DbSettings, FamilySettings};
use sinterdb::{Builder, Durability, WriteOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// States that each workload contributes at least, with and without zeros ahead of the log; 28 of them make more than 25,000.
const STATES: u64 = 450;

/// Zeros ahead of a log end at a multiple of so many bytes: a page, so that most crashes tear several.
const AHEAD: u64 = 4096;

/// One image in so many is also crashed during its recovery.
const AGAIN: u64 = 24;

/// One image in so many is written to after its recovery.
const CONTINUE: u64 = 10;

/// Everything that the hook needs.
struct Ring {
    workload: Arc<Workload>,
    model: Arc<Model>,
    progress: Arc<Mutex<Progress>>,
    moments: Arc<Moments>,
    seeds: u64,
    /// Restricts the run to this call and seed.
    only: Option<(u64, u64)>,
    states: AtomicU64,
    /// Most tables that one recovery wrote for the default family.
    pieces: AtomicU64,
    /// Most samples of the time that were left.
    samples: AtomicUsize,
    failure: Mutex<Option<String>>,
}

/// The first two fates are the extremes.
fn mode(call: u64, seed: u64) -> CrashMode {
    match seed {
        0 => CrashMode::DropUnsynced,
        1 => CrashMode::KeepAll,
        _ => CrashMode::Random(call.wrapping_mul(0x1_0001).wrapping_add(seed)),
    }
}

/// Crash mode of one of several stores; modes without a random fate are equal for all stores.
fn mode_of(call: u64, seed: u64, store: usize) -> CrashMode {
    mode(call.wrapping_add(store as u64 * 0x9e37_79b9), seed)
}

/// A runner over a machine, whose first tier is full at the appends that the workload says.
fn runner(workload: &Arc<Workload>, model: &Arc<Model>, machine: &Machine, hook: Option<&Hook>) -> (Runner, Front) {
    let front = machine.front(hook);
    for at in workload.full {
        front.tiers[0].inject(Fault::once(Calls::Only(Operation::Append), *at, ENOSPC).torn(700));
    }
    let (primary, tiers) = front.stores();
    let mut runner = Runner::new(workload, model, primary);
    runner.tiers = tiers;
    (runner, front)
}

/// A workload without crashes: the number of its mutating calls.
fn rehearse(workload: &Arc<Workload>, model: &Arc<Model>) -> u64 {
    let machine = Machine::new(workload.tiers);
    let (mut runner, front) = runner(workload, model, &machine, None);
    runner.open().expect("nothing fails");
    while runner.step().expect("nothing fails") {}
    let stats = runner.db().stats();
    runner.db().check_ledger().expect("every byte is explained");
    let ledger = stats.ledger;
    let ticker = |name: &str| stats.tickers.iter().find(|t| t.0 == name).map_or(0, |t| t.1);
    let fallen = ticker("sinterdb.tier.fallback.count");
    let side = runner.db().family("side");
    let waiting = side.and_then(|side| runner.db().property(&side, "rocksdb.num-files-at-level0"));
    runner.close().expect("nothing fails");
    assert!(front.primary.count(Operation::Close) > 0, "the last segment of the log ends");
    let compacted = ledger.sum(|cause| matches!(cause, Cause::Compaction { .. }));
    let flushed = ledger.sum(|cause| cause == Cause::Flush);
    println!("{}: {flushed} bytes flushed, {compacted} compacted", workload.name);
    match workload.name {
        "manifest" => assert!(machine.primary.bytes(FileId::manifest(1)).is_err(), "the manifest was never replaced"),
        "tier_full" => assert!(fallen > 0, "no tier was full"),
        "tier_moves" | "tier_attach" => {
            let made: Vec<u64> = front.tiers.iter().map(|store| store.count(Operation::Create)).collect();
            assert!(made.iter().all(|files| *files > 2), "beside the identity: {made:?}");
        }
        "trivial_move" => {
            let waiting: u64 = waiting.and_then(|n| n.parse().ok()).expect("a number");
            assert!(compacted == 0 && waiting < 3, "{compacted} of {flushed} bytes were rewritten, {waiting} tables never moved");
        }
        "leveled" | "universal" | "manual" | "range_deletes" => assert!(compacted > 0, "nothing was compacted"),
        name if name.starts_with("aging") => {
            let last = |to: u8| ledger.sum(|cause| matches!(cause, Cause::Compaction { to: level, .. } if level == to));
            assert!(last(2) > 0 && last(3) > 0, "{} bytes were written above the last level, {} to it", last(2), last(3));
        }
        _ => {}
    }
    front.mutating_calls()
}

/// `CRASH=workload:call:seed` repeats one image.
fn only(name: &str) -> Option<(u64, u64)> {
    let wanted = std::env::var("CRASH").ok()?;
    let mut parts = wanted.split(':');
    let (workload, call, seed) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    (workload == name).then_some((call, seed))
}

fn ring(workload: Workload) {
    let workload = Arc::new(workload);
    let model = Arc::new(Model::new(&workload.steps));
    let calls = rehearse(&workload, &model);
    for ahead in [0, AHEAD] {
        run(&workload, &model, calls, ahead);
    }
}

fn run(workload: &Arc<Workload>, model: &Arc<Model>, calls: u64, ahead: u64) {
    let wanted: Option<u64> = std::env::var("CRASH_SEEDS").ok().and_then(|n| n.parse().ok());
    let seeds = wanted.unwrap_or_else(|| STATES.div_ceil(calls).max(3));
    let ring = Arc::new(Ring {
        only: only(workload.name),
        workload: workload.clone(),
        model: model.clone(),
        progress: Arc::default(),
        moments: Arc::default(),
        seeds,
        states: AtomicU64::new(0),
        pieces: AtomicU64::new(0),
        samples: AtomicUsize::new(0),
        failure: Mutex::default(),
    });
    let machine = Arc::new(Machine::new(workload.tiers).ahead(ahead));
    let (judge, crashing) = (ring.clone(), machine.clone());
    let hook: Hook = Arc::new(move |call, _| judge.power_cut(&crashing, call));
    let (mut runner, _) = runner(workload, model, &machine, Some(&hook));
    (runner.progress, runner.moments) = (ring.progress.clone(), ring.moments.clone());
    let hook = ring.clone();
    runner.on_checkpoint = Some(Arc::new(move |memory, progress| hook.target(memory, progress)));
    runner.run().expect("nothing fails");
    let failure = ring.failure.lock().clone();
    assert!(failure.is_none(), "{}", failure.unwrap_or_default());
    let states = ring.states.load(Ordering::Relaxed);
    println!("{}: {calls} calls, {ahead} bytes ahead, {seeds} images each, {states} crash states", workload.name);
    assert!(ring.only.is_some() || wanted.is_some() || states >= STATES, "only {states} crash states");
    let pieces = ring.pieces.load(Ordering::Relaxed);
    assert!(ring.only.is_some() || workload.recovery_memory.is_none() || pieces > 3, "recoveries wrote {pieces} tables at most");
    let samples = ring.samples.load(Ordering::Relaxed);
    let has_ages = workload.name.starts_with("aging") || workload.name == "tier_moves";
    assert!(ring.only.is_some() || !has_ages || samples > 5, "{samples} samples of the time at most");
}

impl Ring {
    /// Judges images of the store as it is before a call.
    fn power_cut(&self, machine: &Machine, call: u64) {
        let progress = *self.progress.lock();
        for seed in (0..self.seeds).filter(|seed| self.only.is_none_or(|only| only == (call, *seed))) {
            if self.failure.lock().is_some() {
                return;
            }
            let image = machine.crash(|store| mode_of(call, seed, store));
            let number = call * self.seeds + seed;
            let judged = catch_unwind(AssertUnwindSafe(|| self.judge(image, &progress, number)));
            let problem = match judged {
                Ok(Ok(())) => continue,
                Ok(Err(what)) => what,
                Err(_) => "panicked".into(),
            };
            let name = self.workload.name;
            let repeat = format!("CRASH={name}:{call}:{seed} cargo test -p sinterdb --test rings crash::{name}");
            *self.failure.lock() = Some(format!("{name}, before call {call}, seed {seed}: {problem}; {progress:?}\nrepeat: {repeat}"));
        }
    }

    fn judge(&self, image: Machine, progress: &Progress, number: u64) -> Result<(), String> {
        let chosen = self.only.is_some();
        let again = (chosen || number.is_multiple_of(AGAIN)).then(|| image.image());
        let found = self.recover(&image, progress)?;
        if chosen || number % CONTINUE == 1 {
            self.go_on(&image, &found)?;
        }
        again.map_or(Ok(()), |image| self.crash_again(image, &found, number))
    }

    /// Builder with which images are opened.
    fn builder(&self) -> Builder {
        let builder = builder_at(1, self.moments.clock.clone());
        let Some(memory) = self.workload.recovery_memory else { return builder };
        let family = FamilySettings { write_buffer_size: memory, ..self.workload.settings.clone() };
        builder.settings(DbSettings { db_write_buffer_size: 2 * memory, ..settings() }).family("default", family)
    }

    /// Opens an image and finds the moment that it shows.
    fn recover(&self, image: &Machine, progress: &Progress) -> Result<Found, String> {
        self.states.fetch_add(1, Ordering::Relaxed);
        let files = image.files();
        let db = image.open(self.builder()).map_err(|error| format!("does not open: {error}; {files}"))?;
        let written = db.property(&db.default_family(), "rocksdb.num-files-at-level0").and_then(|n| n.parse().ok());
        self.pieces.fetch_max(written.unwrap_or(0), Ordering::Relaxed);
        let found = check::compare(&db, &self.model, progress).map_err(|problem| format!("{problem:?}; {files}"))?;
        let damage = db.verify().map_err(|error| format!("cannot be verified: {error}"))?;
        if !damage.is_empty() {
            return Err(format!("has damage after recovery: {damage:?}"));
        }
        self.samples.fetch_max(self.moments.check(image, &db)?, Ordering::Relaxed);
        Ok(found)
    }

    /// The recovered database takes writes and keeps them.
    fn go_on(&self, image: &Machine, found: &Found) -> Result<(), String> {
        let fail = |what: &str, error: String| format!("after recovery, {what}: {error}");
        let db = image.open(self.builder()).map_err(|e| fail("open", e.to_string()))?;
        let sync = WriteOptions::new(Durability::Sync);
        db.put_with(&db.default_family(), b"zz", b"new", &sync).map_err(|e| fail("put", e.to_string()))?;
        let later = image.crash(|_| CrashMode::DropUnsynced);
        drop(db);
        let db = later.open(self.builder()).map_err(|e| fail("open again", e.to_string()))?;
        let keys: Vec<&[u8]> = self.model.keys.iter().map(Vec::as_slice).collect();
        let mut all = check::read_all(&db, &keys).map_err(|e| fail("read", format!("{e:?}")))?;
        let new = all.get_mut("default").and_then(|contents| contents.remove(&b"zz"[..]));
        if new.as_deref() != Some(b"new") {
            return Err("a synced write after recovery is lost".into());
        }
        self.same(found, &check::moment(&all, &self.model, &exactly(found)).map_err(|e| fail("compare", format!("{e:?}")))?)
    }

    /// Cuts the power at each call of the recovery: the second recovery must find the same as the first.
    fn crash_again(&self, image: Machine, found: &Found, number: u64) -> Result<(), String> {
        let machine = Arc::new(image);
        let images: Arc<Mutex<Vec<Machine>>> = Arc::default();
        let (from, into) = (machine.clone(), images.clone());
        let hook: Hook = Arc::new(move |call, _| into.lock().push(from.crash(|store| mode_of(number, 2 + call, store))));
        let (primary, tiers) = machine.front(Some(&hook)).stores();
        drop(with_tiers(self.builder(), tiers).open_store(primary).map_err(|error| format!("does not open: {error}"))?);
        for (call, image) in std::mem::take(&mut *images.lock()).into_iter().enumerate() {
            let second = self.recover(&image, &exactly(found));
            let label = |what: String| format!("after a second crash before call {call} of the recovery: {what}");
            self.same(found, &second.map_err(label)?).map_err(label)?;
        }
        Ok(())
    }

    fn same(&self, first: &Found, second: &Found) -> Result<(), String> {
        if first == second { Ok(()) } else { Err(format!("first {first:?}, then {second:?}")) }
    }

    /// A checkpoint's target crashes as well: it does not open, or it shows the moment of the checkpoint.
    fn target(self: &Arc<Self>, memory: &Arc<MemoryStore>, now: Progress) -> Arc<dyn Store> {
        let store = FaultStore::new(memory.clone());
        let (ring, memory) = (self.clone(), memory.clone());
        let exact = Progress { floor: now.applied, started: now.applied, families_started: now.families, ..now };
        store.on_call(Some(Arc::new(move |call, _| {
            for seed in 0..ring.seeds {
                ring.states.fetch_add(1, Ordering::Relaxed);
                let image = Arc::new(memory.crash_with(mode(call, seed)));
                let files = format!("{image:?}");
                let Ok(db) = builder(1).create_if_missing(false).open_store(image) else { continue };
                if let Err(problem) = check::compare(&db, &ring.model, &exact) {
                    let what = format!("a half-made checkpoint opens, before its call {call}, seed {seed}: {problem:?}; {files}");
                    *ring.failure.lock() = Some(what);
                }
            }
        })));
        Arc::new(store)
    }
}

/// The progress that allows nothing but `found`.
fn exactly(found: &Found) -> Progress {
    Progress {
        floor: found.batches,
        applied: found.batches,
        started: found.batches,
        families: found.families,
        families_started: found.families,
        dropping: false,
    }
}

macro_rules! rings {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { ring(workloads::$name()); })*
    };
}

rings!(
    creation,
    rotation,
    unlogged,
    flush,
    leveled,
    universal,
    trivial_move,
    manual,
    checkpoint,
    families,
    families_together,
    range_deletes,
    merges,
    across,
    restyle,
    manifest,
    reopen,
    long_log,
    big_values,
    snapshots,
    aging_leveled,
    aging_universal,
    aging_timed_leveled,
    aging_timed_universal,
    aging_auto_leveled,
    aging_auto_universal,
    tier_moves,
    tier_attach,
    tier_full,
);
