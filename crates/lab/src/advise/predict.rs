//! Predicts the bytes that a run writes, without running it: the requests of its workload, drawn as the driver draws them, go into trees of
//! keys.

use super::tree::{Entry, Tree};
use crate::drive::requests::{Key, Operation, Plan};
use crate::run::{Pace, Phase, PhaseKind, RunSpec, ValueSize, Workload};
use sinterdb::settings::{Codec, FamilySettings, OptionsFile};
use std::collections::BTreeMap;

/// Memory of an entry beyond key and value: trailer, lengths, its share of a tree's node.
const MEMTABLE_ENTRY: u64 = 36;
/// Log bytes of a write beyond key and value: a record's header, a batch's, an entry's.
const LOG_ENTRY: u64 = 36;
/// Table bytes of an entry beyond key and value: trailer, offset, tag, filter, its share of the index, minus what shared prefixes and
/// compression save.
const TABLE_ENTRY: f64 = 2.0;
/// Most writes that are simulated one by one. Larger workloads are scaled down, which keeps the shape of trees.
const WRITES: u64 = 2_000_000;
/// Fewest entries of a memtable in a scaled-down tree.
const MEMTABLE_LEAST: u64 = 64;

/// Predicted figures of a phase.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prediction {
    /// Name of the phase.
    pub name: String,
    /// Key and value bytes written by the user.
    pub user_bytes: u64,
    /// Bytes written by cause: `wal`, `flush`, `compaction to LN`.
    pub written: BTreeMap<String, u64>,
    /// Bytes of tables at the end of the phase over the bytes that live keys and values need in them, as the space budget counts.
    pub space_amplification: f64,
    /// Largest space amplification, reached when a merge has written all its outputs and deleted no input.
    pub peak_space_amplification: f64,
    /// Sorted runs that a read had to search, on average since the store was opened.
    pub runs: f64,
}

/// Write amplification of the named phases together; `None` if they write nothing.
pub fn write_amplification(predictions: &[Prediction], phases: &[String]) -> Option<f64> {
    let named = || predictions.iter().filter(|prediction| phases.contains(&prediction.name));
    let user: u64 = named().map(|prediction| prediction.user_bytes).sum();
    let total: u64 = named().flat_map(|prediction| prediction.written.values()).sum();
    (user > 0).then(|| total as f64 / user as f64)
}

/// Simulates a run on SinterDB, phase by phase.
///
/// # Errors
/// Settings that cannot be read, and phases that no count of operations ends (seconds, replays).
pub fn predict(spec: &RunSpec) -> Result<Vec<Prediction>, String> {
    let shrink = shrink(spec)?;
    let options = OptionsFile::parse(&spec.engine.options_text()).map_err(|list| list.join("; "))?;
    let families = spec.engine.families.iter().filter_map(|family| options.families.iter().find(|(name, _)| *name == family.name));
    let trees = families.map(|(_, settings)| Family::new(scaled(settings, shrink))).collect();
    let workload = Workload { keys: (spec.workload.keys / shrink).max(1), ..spec.workload.clone() };
    let mut model = Model { spec, workload, shrink, families: trees, wal: 0, user: 0, first_insert: 0 };
    spec.workload.phases.iter().enumerate().map(|(i, phase)| model.phase(i, phase)).collect()
}

/// Divisor by which keys, memtables, tables and levels are scaled down.
fn shrink(spec: &RunSpec) -> Result<u64, String> {
    let mut writes = 0u64;
    for phase in &spec.workload.phases {
        writes = writes.saturating_add(match &phase.kind {
            PhaseKind::Load { .. } => spec.workload.keys,
            PhaseKind::Run { operations: Some(operations), calls, .. } if calls.is_default() => *operations,
            PhaseKind::Run { operations: Some(_), .. } => return Err(format!("phase {:?} has calls, which are not predicted", phase.name)),
            PhaseKind::Run { .. } => return Err(format!("phase {:?} is ended by seconds: how much it writes is not known", phase.name)),
            PhaseKind::Replay { .. } => return Err(format!("phase {:?} is a replay, which is not predicted", phase.name)),
            PhaseKind::Change { .. } => return Err(format!("phase {:?} changes settings, which is not predicted", phase.name)),
            PhaseKind::Empty => return Err(format!("phase {:?} empties the database, which is not predicted", phase.name)),
            _ => 0,
        });
    }
    let entry = (spec.workload.key_size + mean_value(spec)) as u64 + MEMTABLE_ENTRY;
    let options = OptionsFile::parse(&spec.engine.options_text()).map_err(|list| list.join("; "))?;
    let memtable = options.families.iter().map(|(_, settings)| settings.write_buffer_size).min().unwrap_or(0);
    Ok(writes.div_ceil(WRITES).min(memtable / entry / MEMTABLE_LEAST).max(1))
}

fn mean_value(spec: &RunSpec) -> usize {
    match spec.workload.value_size {
        ValueSize::Fixed(size) => size,
        ValueSize::Uniform(least, most) => usize::midpoint(least, most),
        ValueSize::Pareto { scale, shape, most } => ((scale / (1.0 - shape).max(0.1)) as usize).min(most),
    }
}

fn scaled(settings: &FamilySettings, shrink: u64) -> FamilySettings {
    FamilySettings {
        write_buffer_size: settings.write_buffer_size / shrink,
        target_file_size_base: settings.target_file_size_base / shrink,
        max_bytes_for_level_base: settings.max_bytes_for_level_base / shrink,
        max_compaction_bytes: settings.max_compaction_bytes / shrink,
        ..settings.clone()
    }
}

/// A family: its memtable and its tree.
struct Family {
    memtable: BTreeMap<u128, Entry>,
    memtable_bytes: u64,
    tree: Tree,
}

impl Family {
    fn new(settings: FamilySettings) -> Self {
        Family { memtable: BTreeMap::new(), memtable_bytes: 0, tree: Tree::new(settings) }
    }

    fn flush(&mut self) -> Result<(), String> {
        self.memtable_bytes = 0;
        self.tree.flush(std::mem::take(&mut self.memtable).into_values().collect())
    }
}

struct Model<'a> {
    spec: &'a RunSpec,
    workload: Workload,
    shrink: u64,
    families: Vec<Family>,
    wal: u64,
    user: u64,
    first_insert: u64,
}

impl Model<'_> {
    fn phase(&mut self, index: usize, phase: &Phase) -> Result<Prediction, String> {
        let before = self.written();
        let user = self.user;
        self.families.iter_mut().for_each(|family| family.tree.peak_bytes = family.tree.bytes());
        match &phase.kind {
            PhaseKind::Settle => self.families.iter_mut().try_for_each(|family| family.flush().and_then(|()| family.tree.settle()))?,
            PhaseKind::Compact => self.families.iter_mut().try_for_each(|family| family.flush().and_then(|()| family.tree.compact()))?,
            kind => self.requests(index, kind)?,
        }
        let mut written = self.written();
        written.iter_mut().for_each(|(cause, bytes)| *bytes -= before.get(cause).copied().unwrap_or(0));
        let sum = |figure: fn(&Tree) -> u64| self.families.iter().map(|family| figure(&family.tree)).sum::<u64>() as f64;
        let live = sum(Tree::live_bytes).max(1.0);
        Ok(Prediction {
            name: phase.name.clone(),
            user_bytes: self.user - user,
            written,
            space_amplification: sum(Tree::bytes) / live,
            peak_space_amplification: sum(|tree| tree.peak_bytes) / live,
            runs: self.families.iter().map(|family| family.tree.mean_runs()).fold(0.0, f64::max),
        })
    }

    fn written(&self) -> BTreeMap<String, u64> {
        let mut written = BTreeMap::from([("wal".to_string(), self.wal)]);
        for (cause, bytes) in self.families.iter().flat_map(|family| &family.tree.written) {
            *written.entry(cause.clone()).or_insert(0) += bytes;
        }
        written
    }

    fn requests(&mut self, index: usize, kind: &PhaseKind) -> Result<(), String> {
        let spec = self.spec;
        let Some(plan) = Plan::of(kind, &self.workload, &spec.engine, spec.seed, index, self.first_insert) else { return Ok(()) };
        let waits = matches!(plan.length.pace, Pace::Open(_));
        let operations = if let PhaseKind::Load { .. } = kind { plan.length.count } else { plan.length.count / self.shrink };
        let threads = plan.threads();
        let mut streams: Vec<_> = (0..threads).map(|thread| plan.requests(thread)).collect();
        for i in 0..operations {
            let request = streams[i as usize % threads].next_request();
            let value = match request.operation {
                Operation::Delete => None,
                operation if operation.writes_value() => Some(request.size),
                _ => continue,
            };
            self.write(request.family, request.key, value, waits)?;
        }
        self.first_insert = plan.next_insert(operations);
        Ok(())
    }

    /// Writes a key. `value`: bytes of the value; `None` deletes the key. `waits`: writes are so slow that merges keep up.
    fn write(&mut self, family: usize, key: Key, value: Option<usize>, waits: bool) -> Result<(), String> {
        let raw = (self.workload.key_size + value.unwrap_or(0)) as u64;
        self.user += raw;
        self.wal += if self.spec.engine.wal { raw + LOG_ENTRY } else { 0 };
        let Some(family) = self.families.get_mut(family) else { return Err("a mix is about a family that there is not".to_string()) };
        let ratio = if family.tree.settings().compression_at(0).codec == Codec::None { 1.0 } else { self.workload.compression_ratio };
        let stored = self.workload.key_size as f64 + TABLE_ENTRY + value.unwrap_or(0) as f64 * ratio;
        let key = match key {
            Key::Loaded(number) => u128::from(number) << 64,
            Key::Inserted { neighbour, number } => u128::from(neighbour) << 64 | (u128::from(number) + 1),
        };
        let live = value.map_or(0, |_| raw);
        family.memtable.insert(key, Entry { key, stored: stored as u32, raw: u32::try_from(live).unwrap_or(u32::MAX) });
        family.memtable_bytes += raw + MEMTABLE_ENTRY;
        if family.memtable_bytes >= family.tree.settings().write_buffer_size {
            family.flush()?;
            if waits { family.tree.settle()? } else { family.tree.keep_behind()? }
        }
        Ok(())
    }
}
