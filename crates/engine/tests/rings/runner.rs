//! Runs the steps of a workload against a database without threads and a clock that only steps move, so that every run makes the same
//! calls.

use crate::check::{self, Problem};
use crate::machine::with_tiers;
use crate::model::{Batch, Change, Model, Progress, Step, mark};
use crate::times::Moments;
use crate::workloads::Workload;
use parking_lot::Mutex;
use sinter_storage::store::{MemoryStore, Store};
use sinterdb::clock::ManualClock;
use sinterdb::operator::MergeOperator;
use sinterdb::settings::{DbSettings, FamilySettings};
use sinterdb::{Builder, Db, Durability, Family, Result, Snapshot, WriteBatch, WriteOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Appends operands behind commas.
#[derive(Debug)]
struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn full_merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut value = base.unwrap_or_default().to_vec();
        for operand in operands {
            value.push(b',');
            value.extend_from_slice(operand);
        }
        Some(value)
    }

    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(operands.join(&b','))
    }
}

/// No threads, a small cache.
pub fn settings() -> DbSettings {
    DbSettings { max_background_jobs: 0, cache_size: 4096, ..DbSettings::default() }
}

/// Opens the way all rings do: no threads, a small cache, an identity from outside.
pub fn builder(identity: u8) -> Builder {
    builder_at(identity, Arc::default())
}

pub fn builder_at(identity: u8, clock: Arc<ManualClock>) -> Builder {
    Db::builder().settings(settings()).clock(clock).identity([identity; 16]).merge_operator("default", Arc::new(Append))
}

/// Hook called after a checkpoint's target was made, with the target and the progress; gives the store to write the checkpoint to.
pub type OnCheckpoint = Arc<dyn Fn(&Arc<MemoryStore>, Progress) -> Arc<dyn Store> + Send + Sync>;

/// One run of a workload.
pub struct Runner {
    pub workload: Arc<Workload>,
    pub model: Arc<Model>,
    pub progress: Arc<Mutex<Progress>>,
    pub on_checkpoint: Option<OnCheckpoint>,
    /// The step that comes next.
    pub next: usize,
    pub identity: u8,
    /// Stores of tiers, and how many of them are attached.
    pub tiers: Vec<Arc<dyn Store>>,
    attached: usize,
    /// Times of the run, with its clock.
    pub moments: Arc<Moments>,
    store: Arc<dyn Store>,
    db: Option<Db>,
    families: BTreeMap<&'static str, Family>,
    snapshots: Vec<(Snapshot, Progress)>,
}

impl Runner {
    pub fn new(workload: &Arc<Workload>, model: &Arc<Model>, store: Arc<dyn Store>) -> Self {
        Runner {
            workload: workload.clone(),
            model: model.clone(),
            progress: Arc::default(),
            on_checkpoint: None,
            next: 0,
            identity: 1,
            tiers: Vec::new(),
            attached: workload.attached,
            moments: Arc::default(),
            store,
            db: None,
            families: BTreeMap::new(),
            snapshots: Vec::new(),
        }
    }

    pub fn open(&mut self) -> Result<()> {
        let builder = builder(self.identity).clock(self.moments.clock.clone()).family("default", self.workload.settings.clone());
        let db = with_tiers(builder, self.tiers.iter().take(self.attached).cloned()).open_store(self.store.clone())?;
        self.families = db.families().into_iter().filter_map(|f| Some((self.known(f.name())?, f))).collect();
        self.db = Some(db);
        Ok(())
    }

    /// The model's own spelling of a family's name.
    fn known(&self, name: &str) -> Option<&'static str> {
        self.model.alive.iter().flat_map(|alive| alive.keys()).find(|known| **known == name).copied()
    }

    pub fn is_open(&self) -> bool {
        self.db.is_some()
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("the database is open")
    }

    /// Runs the next step; false after the last one. A step that failed is the next one again.
    pub fn step(&mut self) -> Result<bool> {
        let workload = self.workload.clone();
        let Some(step) = workload.steps.get(self.next) else { return Ok(false) };
        self.perform(step)?;
        if let Some(db) = &self.db {
            self.moments.note(db);
        }
        self.next += 1;
        Ok(true)
    }

    /// Opens, runs everything that is left, closes.
    pub fn run(&mut self) -> Result<()> {
        self.open()?;
        while self.step()? {}
        self.close()
    }

    pub fn close(&mut self) -> Result<()> {
        self.forget();
        let result = self.db.take().map_or(Ok(()), Db::close);
        if result.is_ok() {
            self.all_durable();
        }
        result
    }

    /// Lets go of the database without asking how that went.
    pub fn abandon(&mut self) {
        self.forget();
        self.db = None;
    }

    fn forget(&mut self) {
        self.snapshots.clear();
        self.families.clear();
    }

    fn perform(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Write(batch) => self.write(batch),
            Step::Create(families) => {
                self.begin_family_change();
                let settings = |style| FamilySettings { style, ..self.workload.settings.clone() };
                let asked: Vec<_> = families.iter().map(|(name, style)| (*name, settings(*style))).collect();
                let created = self.db().create_families(&asked)?;
                self.families.extend(families.iter().map(|(name, _)| *name).zip(created));
                self.progress.lock().families += 1;
                Ok(())
            }
            Step::Drop(name) => {
                self.begin_family_change();
                self.progress.lock().dropping = true;
                self.db().drop_family(&self.families[name])?;
                let mut progress = self.progress.lock();
                progress.families += 1;
                progress.dropping = false;
                progress.floor[0] = progress.applied[0];
                self.families.remove(name);
                Ok(())
            }
            Step::Restyle(name, style) => self.change(name, |settings| settings.style = *style),
            Step::Flush => self.db().flush().map(|()| self.all_durable()),
            Step::Compact(name) => {
                let (from, to) = (&b"k05"[..], &b"k3"[..]);
                self.db().compact_range(&self.families[name], None, Some(to)).map(|()| self.all_durable())?;
                self.db().compact_range(&self.families[name], Some(from), None)
            }
            Step::Sync => self.db().sync().map(|()| {
                let mut progress = self.progress.lock();
                progress.floor[0] = progress.applied[0];
            }),
            Step::Read => self.read(),
            Step::Checkpoint => self.checkpoint(),
            Step::Reopen => {
                self.close()?;
                self.open()
            }
            Step::Snapshot => {
                let taken = (self.db().snapshot(), *self.progress.lock());
                self.snapshots.push(taken);
                Ok(())
            }
            Step::Release => self.release(),
            Step::Pass(seconds) => {
                self.moments.clock.advance_seconds(*seconds);
                Ok(())
            }
            Step::Preclude(name, preclude) => self.change(name, |settings| settings.preclude_last_level_data_seconds = *preclude),
            Step::Age(seconds) => {
                self.moments.clock.advance_seconds(*seconds);
                self.db().wait_for_compactions()
            }
            Step::Attach => {
                // A step that failed is taken again.
                if self.is_open() {
                    self.close()?;
                    self.attached += 1;
                }
                self.open()
            }
        }
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut FamilySettings)) -> Result<()> {
        let family = &self.families[name];
        let mut settings = self.db().family_settings(family)?;
        change(&mut settings);
        self.db().change_family_settings(family, settings)
    }

    /// A change that failed is tried again as the same one; until then a crash may show it or not.
    fn begin_family_change(&self) {
        let mut progress = self.progress.lock();
        progress.families_started = progress.families + 1;
    }

    fn all_durable(&self) {
        let mut progress = self.progress.lock();
        progress.floor = progress.applied;
    }

    fn write(&self, batch: &Batch) -> Result<()> {
        let stream = batch.stream();
        let index = {
            let mut progress = self.progress.lock();
            progress.started[stream] = progress.applied[stream] + 1;
            progress.started[stream]
        };
        let mut out = WriteBatch::new();
        let marked = mark(stream, index);
        for (name, change) in batch.changes.iter().map(|(name, change)| (*name, change)).chain([("default", &marked)]) {
            let family = &self.families[name];
            match change {
                Change::Put(key, value) => out.put_in(family, key, value),
                Change::PutAt(key, value, time) => out.put_at_in(family, key, value, *time),
                Change::Delete(key) => out.delete_in(family, key),
                Change::Merge(key, operand) => out.merge_in(family, key, operand),
                Change::DeleteRange(from, to) => out.delete_range_in(family, from, to),
                Change::DeleteFrom(from) => out.delete_range_from_in(family, from),
            }
        }
        self.db().write(&mut out, &WriteOptions::new(batch.durability))?;
        let mut progress = self.progress.lock();
        progress.applied[stream] = index;
        if batch.durability == Durability::Sync {
            progress.floor[0] = index;
        }
        Ok(())
    }

    /// Checks that the open database shows exactly the acknowledged writes.
    pub fn read(&self) -> Result<()> {
        let now = *self.progress.lock();
        let exact = Progress { floor: now.applied, started: now.applied, families_started: now.families, ..now };
        match check::compare(self.db(), &self.model, &exact) {
            Ok(_) => Ok(()),
            Err(Problem::Failed(error)) => Err(error),
            Err(Problem::Wrong(what)) => panic!("{} before step {}: {what}", self.workload.name, self.next),
        }
    }

    fn release(&mut self) -> Result<()> {
        for (snapshot, then) in self.snapshots.drain(..) {
            let Some(db) = &self.db else { break };
            let seen = check::scan(db, &db.default_family(), Some(&snapshot)).map_err(Problem::into_error)?;
            let due = self.model.contents(0, then.applied);
            assert!(seen == due, "{} step {}: a snapshot after {:?} batches changed", self.workload.name, self.next, then.applied);
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<()> {
        let memory = Arc::new(MemoryStore::new());
        let now = *self.progress.lock();
        let target: Arc<dyn Store> = match &self.on_checkpoint {
            Some(hook) => hook(&memory, now),
            None => memory.clone(),
        };
        self.db().checkpoint_to(&*target)?;
        self.all_durable();
        let copy = builder(9).create_if_missing(false).open_store(Arc::new(memory.crash_with(0)))?;
        let exact = Progress { floor: now.applied, started: now.applied, families_started: now.families, ..now };
        if let Err(problem) = check::compare(&copy, &self.model, &exact) {
            panic!("{} step {}: a finished checkpoint differs: {problem:?}", self.workload.name, self.next);
        }
        Ok(())
    }
}
