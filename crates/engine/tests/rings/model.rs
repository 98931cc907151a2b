//! The steps of a workload, and its history as seen from outside: one state after each batch and each change of families.

use sinterdb::Durability;
use sinterdb::settings::{Preclude, Style};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Keys and values of one family.
pub type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// Contents by incarnation of a family: one that is dropped and created again is another one.
pub type State = BTreeMap<usize, Arc<Contents>>;

#[derive(Debug, Clone)]
pub enum Change {
    Put(Vec<u8>, Vec<u8>),
    /// Key, value and the time at which it counts as written, unix seconds.
    PutAt(Vec<u8>, Vec<u8>, u64),
    Delete(Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    DeleteFrom(Vec<u8>),
}

#[derive(Debug, Clone)]
pub struct Batch {
    pub durability: Durability,
    pub changes: Vec<(&'static str, Change)>,
}

impl Batch {
    pub fn stream(&self) -> usize {
        usize::from(self.durability == Durability::NoWal)
    }
}

#[derive(Debug, Clone)]
pub enum Step {
    Write(Batch),
    /// Creates families in one step.
    Create(Vec<(&'static str, Style)>),
    Drop(&'static str),
    Restyle(&'static str, Style),
    Flush,
    Compact(&'static str),
    Sync,
    /// Reads everything and compares it with the model.
    Read,
    Checkpoint,
    Reopen,
    Snapshot,
    /// Compares what the snapshots see with the model and lets them go.
    Release,
    /// Lets so many seconds pass.
    Pass(u64),
    /// Changes the age up to which data stays above the last level.
    Preclude(&'static str, Preclude),
    /// Lets so many seconds pass, and moves tables to other tiers.
    Age(u64),
    /// The database is opened again with one tier more.
    Attach,
}

/// The key that every batch sets to its own index, so that a recovered state says which moment it claims to be.
pub fn marker(stream: usize) -> Vec<u8> {
    format!("!{stream}").into_bytes()
}

/// How far a run has come. Logged and unlogged writes (streams 0 and 1) promise different things and use different keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Batches that a power cut must not take.
    pub floor: [usize; 2],
    /// Batches acknowledged.
    pub applied: [usize; 2],
    /// Batches begun.
    pub started: [usize; 2],
    /// Changes of families that returned.
    pub families: usize,
    /// Changes of families begun.
    pub families_started: usize,
    /// The one that was begun drops a family: it must not be seen without the logged batches before it.
    pub dropping: bool,
}

/// The history of a workload.
pub struct Model {
    /// The states of each stream after each number of batches.
    pub states: [Vec<State>; 2],
    /// Names and incarnations after so many changes of families.
    pub alive: Vec<BTreeMap<&'static str, usize>>,
    /// Every key that is ever named.
    pub keys: BTreeSet<Vec<u8>>,
}

impl Model {
    pub fn new(steps: &[Step]) -> Self {
        let alive = vec![BTreeMap::from([("default", 0)])];
        let mut model = Model { states: [vec![State::new()], vec![State::new()]], alive, keys: BTreeSet::new() };
        let mut incarnations = 1;
        for step in steps {
            let mut alive = model.alive[model.alive.len() - 1].clone();
            match step {
                Step::Write(batch) => model.write(batch, &alive),
                Step::Create(families) => {
                    for (name, _) in families {
                        alive.insert(name, incarnations);
                        incarnations += 1;
                    }
                    model.alive.push(alive);
                }
                Step::Drop(name) => {
                    alive.remove(name);
                    model.alive.push(alive);
                }
                _ => {}
            }
        }
        model
    }

    fn write(&mut self, batch: &Batch, alive: &BTreeMap<&'static str, usize>) {
        let stream = batch.stream();
        let index = self.states[stream].len();
        let mut state = self.states[stream][index - 1].clone();
        for (family, change) in &batch.changes {
            let contents = Arc::make_mut(state.entry(alive[family]).or_default());
            apply(contents, change, &mut self.keys);
        }
        let contents = Arc::make_mut(state.entry(0).or_default());
        apply(contents, &mark(stream, index), &mut self.keys);
        self.states[stream].push(state);
    }

    /// Content of incarnation `family` after so many batches of each stream.
    pub fn contents(&self, family: usize, batches: [usize; 2]) -> Contents {
        let mut all = Contents::new();
        for (states, at) in self.states.iter().zip(batches) {
            all.extend(states[at].get(&family).into_iter().flat_map(|c| c.iter().map(|(k, v)| (k.clone(), v.clone()))));
        }
        all
    }
}

/// The change that marks a batch.
pub fn mark(stream: usize, index: usize) -> Change {
    Change::Put(marker(stream), index.to_string().into_bytes())
}

fn apply(contents: &mut Contents, change: &Change, keys: &mut BTreeSet<Vec<u8>>) {
    match change {
        Change::Put(key, value) | Change::PutAt(key, value, _) => {
            keys.insert(key.clone());
            contents.insert(key.clone(), value.clone());
        }
        Change::Delete(key) => {
            keys.insert(key.clone());
            contents.remove(key);
        }
        Change::Merge(key, operand) => {
            keys.insert(key.clone());
            let value = contents.entry(key.clone()).or_default();
            value.push(b',');
            value.extend_from_slice(operand);
        }
        Change::DeleteRange(from, to) => contents.retain(|key, _| !(from <= key && key < to)),
        Change::DeleteFrom(from) => contents.retain(|key, _| key < from),
    }
}
