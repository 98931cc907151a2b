//! The fault ring: every call of the store fails once, in every way that a medium fails. The answer is success or a typed error, never a
//! panic; reads go on; a failed sync ends the handle for writing, a full medium does not; and what was acknowledged is there afterwards, in
//! the process that comes next and after a power cut.
//!
//! A failure names the workload, the fault and the step; `FAULTS=workload` runs one workload only, `FAULTS=workload:index` one fault.

use crate::check;
use crate::model::{Model, Progress};
use crate::random::Random;
use crate::runner::{Runner, builder};
use crate::workloads::{self, Workload};
use parking_lot::Mutex;
use sinter_storage::store::{Calls, EIO, EMFILE, ENOSPC, Fault, FaultStore, MemoryStore, Operation};
use sinterdb::clock::{Clock, SystemClock};
use sinterdb::settings::DbSettings;
use sinterdb::{Durability, Error, WriteBatch, WriteOptions};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Tries of a step on a medium that works again.
const TRIES: usize = 3;

/// A planned fault.
#[derive(Debug, Clone, Copy)]
enum Plan {
    /// One mutating call fails; if it is an append, part of it arrives.
    Once { errno: i32, torn: u64 },
    /// From one mutating call on the medium is full, until the first error was seen.
    Full,
    /// One reading call fails.
    Read,
    /// From one mutating call on there are no descriptors, until the first error was seen.
    Descriptors,
}

const PLANS: [Plan; 7] = [
    Plan::Once { errno: EIO, torn: 0 },
    Plan::Once { errno: EIO, torn: 11 },
    Plan::Once { errno: ENOSPC, torn: 0 },
    Plan::Once { errno: ENOSPC, torn: u64::MAX },
    Plan::Full,
    Plan::Read,
    Plan::Descriptors,
];

/// One run with one fault.
struct Trial {
    memory: Arc<MemoryStore>,
    store: Arc<FaultStore>,
    runner: Runner,
    plan: Plan,
    /// The call that was hit.
    hit: Arc<Mutex<Option<Operation>>>,
    errors: usize,
}

/// Whether the handle can go on.
#[derive(PartialEq)]
enum Handle {
    Alive,
    Ended,
}

impl Trial {
    fn new(workload: &Arc<Workload>, model: &Arc<Model>, plan: Plan, at: u64) -> Self {
        let memory = Arc::new(MemoryStore::new());
        // As in a directory.
        memory.set_ahead(4096);
        let store = Arc::new(FaultStore::new(memory.clone()));
        let hit: Arc<Mutex<Option<Operation>>> = Arc::default();
        match plan {
            Plan::Once { errno, torn } => store.inject(Fault::once(Calls::Mutating, at, errno).torn(torn)),
            Plan::Read => store.inject(Fault::once(Calls::Reading, at, EIO)),
            Plan::Full | Plan::Descriptors => {}
        }
        let (seen, weak) = (hit.clone(), Arc::downgrade(&store));
        store.on_call(Some(Arc::new(move |call, operation| {
            if call == at && !matches!(plan, Plan::Read) {
                *seen.lock() = Some(operation);
            }
            if let (Plan::Full, true, Some(store)) = (plan, call == at, weak.upgrade()) {
                store.inject(Fault::from(Calls::Only(Operation::Append), 0, ENOSPC).torn(5));
                store.inject(Fault::from(Calls::Only(Operation::Create), 0, ENOSPC));
            }
            if let (Plan::Descriptors, true, Some(store)) = (plan, call == at, weak.upgrade()) {
                let takes_one = [Operation::Create, Operation::Open, Operation::List, Operation::Share];
                takes_one.iter().for_each(|operation| store.inject(Fault::from(Calls::Only(*operation), 0, EMFILE)));
            }
        })));
        let runner = Runner::new(workload, model, store.clone());
        Trial { memory, store, runner, plan, hit, errors: 0 }
    }

    /// Names which error may come.
    fn expect_typed(&self, error: &Error) {
        let fitting = match self.plan {
            Plan::Once { errno: EIO, .. } | Plan::Read => matches!(error, Error::Io(_) | Error::Closed(_)),
            Plan::Once { .. } | Plan::Full => matches!(error, Error::NoSpace(_) | Error::Closed(_)),
            Plan::Descriptors => matches!(error, Error::NoDescriptors(_)),
        };
        assert!(fitting, "the error does not fit: {error:?}");
    }

    /// A sync that fails says nothing of what the medium holds, whatever the reason.
    fn hit_a_sync(&self) -> bool {
        matches!(*self.hit.lock(), Some(Operation::Sync | Operation::Seal | Operation::SyncNames))
    }

    fn run(&mut self) {
        if let Err(error) = self.runner.open() {
            self.errors += 1;
            self.expect_typed(&error);
            self.store.clear();
            self.runner.open().expect("the medium works again");
        }
        loop {
            match self.runner.step() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    if self.failed(&error) == Handle::Ended {
                        return;
                    }
                }
            }
        }
        if let Err(error) = self.runner.close() {
            self.errors += 1;
            self.expect_typed(&error);
        }
        let silent = self.errors == 0 && self.hit_a_sync() && !matches!(self.plan, Plan::Full | Plan::Read | Plan::Descriptors);
        assert!(!silent, "nobody was told of the failed {:?}", self.hit.lock());
    }

    /// A step failed: reads go on; then writing ends for good, or works again with the medium.
    fn failed(&mut self, error: &Error) -> Handle {
        self.errors += 1;
        self.expect_typed(error);
        if let Plan::Descriptors = self.plan {
            // Reads may need some as well.
            self.store.clear();
        }
        self.check_reads();
        if let Plan::Full = self.plan {
            for _ in 0..2 {
                if let Err(error) = self.runner.step() {
                    assert!(matches!(error, Error::NoSpace(_)), "on a full medium: {error:?}");
                }
            }
            self.check_reads();
            self.store.clear();
        }
        for _ in 0..TRIES {
            match self.runner.step() {
                Ok(_) => {
                    assert!(!error.to_string().contains(": sync 0") || !is_log(error), "a write after a failed sync: {error}");
                    return Handle::Alive;
                }
                Err(Error::NoSpace(_)) => {}
                Err(error) => self.expect_typed(&error),
            }
        }
        assert!(!matches!(self.plan, Plan::Descriptors), "the lack of descriptors has not passed: {error}");
        let full = matches!(self.plan, Plan::Full | Plan::Once { errno: ENOSPC, .. });
        assert!(!full || self.hit_a_sync(), "writing does not resume; first {error}, then {:?}", self.runner.step());
        assert!(!matches!(self.plan, Plan::Read) || matches!(self.runner.step(), Err(Error::Closed(_))), "first {error}");
        self.check_reads();
        Handle::Ended
    }

    fn check_reads(&self) {
        if self.runner.is_open() {
            self.runner.read().expect("reads go on");
        }
    }

    /// Checks the content for the next process, and after a power cut.
    fn afterwards(&mut self) {
        self.runner.abandon();
        let progress = *self.runner.progress.lock();
        // The kernel has what was acknowledged, synced or not; unlogged writes die with the process.
        let process = Progress { floor: [progress.applied[0], progress.floor[1]], ..progress };
        self.recovers("in the next process", self.memory.clone_image(), &process);
        for seed in 0..3u64 {
            let image = self.memory.crash_with(seed);
            self.recovers(&format!("after a power cut, seed {seed}"), image, &progress);
        }
    }

    fn recovers(&self, when: &str, image: MemoryStore, progress: &Progress) {
        let files = format!("{image:?}");
        let db = builder(1).open_store(Arc::new(image)).unwrap_or_else(|e| panic!("{when}: does not open: {e}; {files}"));
        if let Err(problem) = check::compare(&db, &self.runner.model, progress) {
            panic!("{when}: {problem:?}; {progress:?}; {files}");
        }
        assert_eq!(db.verify().expect("verify"), [], "{when}");
    }
}

fn ring(name: &str, workload: Workload) {
    let only = std::env::var("FAULTS").unwrap_or_default();
    let (wanted, index) = only.split_once(':').unwrap_or((&only, ""));
    if !wanted.is_empty() && wanted != name {
        return;
    }
    let workload = Arc::new(workload);
    let model = Arc::new(Model::new(&workload.steps));
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    Runner::new(&workload, &model, store.clone()).run().expect("nothing fails");
    assert!(store.count(Operation::Close) > 0, "the last segment of the log ends at the close");
    let (mut trials, mut failures) = (0u64, Vec::new());
    for plan in PLANS {
        let calls = if matches!(plan, Plan::Read) { store.reading_calls() } else { store.mutating_calls() };
        for at in (0..calls).filter(|at| index.is_empty() || index == at.to_string()) {
            trials += 1;
            let mut trial = Trial::new(&workload, &model, plan, at);
            let judged = catch_unwind(AssertUnwindSafe(|| {
                trial.run();
                trial.afterwards();
            }));
            if let Err(panic) = judged {
                let hit = *trial.hit.lock();
                failures.push(format!("{name}: {plan:?} at {at} ({hit:?}), step {}: {}", trial.runner.next, message(&panic)));
                if failures.len() > 30 {
                    resume_unwind(Box::new(failures.join("\n")));
                }
            }
        }
    }
    println!("{name}: {trials} faults");
    assert!(failures.is_empty(), "{} of {trials}:\n{}", failures.len(), failures.join("\n"));
    assert!(!index.is_empty() || trials >= 900, "only {trials} faults");
}

/// An error of a log segment. Manifests and tables are begun anew.
fn is_log(error: &Error) -> bool {
    error.to_string().contains(".log: ")
}

fn message(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

#[test]
fn medley() {
    ring("medley", workloads::medley());
}

#[test]
fn churn() {
    ring("churn", workloads::churn());
}

/// With threads: the medium fills up, gets room again, and fills up again. Nothing acknowledged is lost, and nobody reopens.
#[test]
fn a_full_medium_gets_room_again() {
    let memory = Arc::new(MemoryStore::new());
    let settings = DbSettings { max_background_jobs: 2, ..DbSettings::default() };
    let db = builder(1).settings(settings).family("default", workloads::churn().settings).open_store(memory.clone()).expect("open");
    let side = db.create_family("side", workloads::churn().settings).expect("create");
    let clock = SystemClock::default();
    let mut written = BTreeMap::new();
    let mut random = Random(3);
    for round in 1..=3u64 {
        memory.set_capacity(Some(round * 150_000));
        let mut full = 0;
        while full < 40 {
            let (key, value) = (random.below(3_000 * round).to_be_bytes(), random.next().to_be_bytes().repeat(20));
            let mut batch = WriteBatch::new();
            batch.put(&key, &value);
            batch.put_in(&side, &key, &value);
            let durability = if random.one_in(4) { Durability::Sync } else { Durability::Buffered };
            match db.write(&mut batch, &WriteOptions::new(durability)) {
                Ok(()) => drop(written.insert(key, value)),
                Err(Error::NoSpace(_)) => full += 1,
                Err(error) => panic!("round {round}: {error}"),
            }
        }
        for (key, value) in &written {
            assert_eq!(db.get(key).expect("reads go on").as_ref(), Some(value), "round {round}");
        }
        memory.set_capacity(None);
        let deadline = clock.monotonic_ns() + 60_000_000_000;
        while let Err(error) = db.sync().and_then(|()| db.flush()) {
            assert!(matches!(error, Error::NoSpace(_)), "round {round}: {error}");
            assert!(clock.monotonic_ns() < deadline, "round {round}: writing does not resume: {error}");
        }
    }
    db.close().expect("close");
    let db = builder(1).open_store(Arc::new(memory.crash_with(0))).expect("reopen");
    for family in db.families() {
        let contents = check::scan(&db, &family, None).expect("scan");
        assert!(contents.iter().map(|(k, v)| (k.as_slice(), v)).eq(written.iter().map(|(k, v)| (&k[..], v))), "{}", family.name());
    }
}
