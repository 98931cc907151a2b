//! Simulates an engine's load on a zoned drive without the engine: a tree of keys without values, kept in shape by SinterDB's own pickers
//! ([`crate::advise::tree`]), whose tables, logs and manifest are real files of a [`ZonedStore`] on an emulated drive. Their bytes are
//! zeros, which take no space in the emulator, so that a load of the size of a drive takes seconds; and it repeats exactly.
//!
//! Not simulated: merges that run beside each other and beside flushes (each is done when it is due), and time.

use crate::advise::tree::{Entry, Files, Tree};
use crate::workload::{Distribution, KeyStream, Permutation, Xoshiro256PlusPlus, Zipf};
use sinter_storage::store::{Appender, Cause, FileId, Hint, Lifetime, Reason, Store};
use sinter_storage::zoned::{Emulator, Geometry};
use sinter_storage::zoned_store::{Condition, Figures, Options, VolumeId, ZoneMap, ZonedStore};
use sinterdb::internal::compaction::job::lifetime;
use sinterdb::internal::manifest::TableInfo;
use sinterdb::settings::FamilySettings;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Distribution of the keys that are put.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Law {
    /// Each key equally often.
    Uniform,
    /// Keys by Zipf's law with this exponent; popular keys are spread over the key space.
    Zipf(f64),
    /// Three of four puts go to an eighth of the keys, which lie together: short and long lives side by side.
    Mixed,
}

impl Law {
    /// Name in printed tables.
    pub fn name(self) -> String {
        match self {
            Law::Uniform => "uniform".into(),
            Law::Zipf(exponent) => format!("zipf {exponent}"),
            Law::Mixed => "mixed".into(),
        }
    }
}

/// A load on a zoned drive.
#[derive(Debug, Clone)]
pub struct Churn {
    /// Settings of the tree.
    pub settings: FamilySettings,
    /// Geometry of the drive.
    pub geometry: Geometry,
    /// Number of keys.
    pub keys: u64,
    /// Number of puts.
    pub puts: u64,
    /// Bytes of an entry, in a log and in a table.
    pub entry: u32,
    /// Distribution of the puts over the keys.
    pub law: Law,
    /// Seed of all draws.
    pub seed: u64,
}

/// Result of a [`Churn`].
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Puts that were done: all, unless space ran out.
    pub puts: u64,
    /// Reason why the puts ended early.
    pub failure: Option<String>,
    /// Figures of the volume.
    pub figures: Figures,
    /// Zones of the volume in the end.
    pub map: ZoneMap,
    /// Bytes written to tables and logs over the bytes of all puts.
    pub write_amplification: f64,
    /// Zones in use over the fewest that could hold the live bytes, averaged over the second half of the puts (one moment is partly luck).
    pub mean_use: f64,
    /// Size of a zone, bytes.
    capacity: u64,
}

impl Outcome {
    /// Live bytes in the end as a share of the capacity.
    pub fn utilisation(&self) -> f64 {
        self.map.live() as f64 / self.map.capacity().max(1) as f64
    }

    /// Bytes of used zones that are not live in the end, as numbers of zones: bytes that are not written yet; dead bytes in zones that have
    /// live ones, too; dead bytes in zones that have none.
    pub fn waste(&self) -> [f64; 3] {
        let files = self.map.zones.iter().skip(self.map.metadata.end as usize).filter(|zone| zone.condition != Condition::Empty);
        let mut waste = [0; 3];
        for zone in files {
            let written = if zone.condition == Condition::Open { zone.written } else { zone.capacity };
            waste[0] += zone.capacity - written;
            waste[if zone.live > 0 { 1 } else { 2 }] += written.saturating_sub(zone.live);
        }
        waste.map(|bytes| bytes as f64 / self.capacity as f64)
    }

    /// Fewest resets that the bytes written by the host could have cost: all bytes but those that still lie below a write pointer, in zones
    /// written to their ends.
    pub fn least_resets(&self) -> f64 {
        let lies: u64 = self.map.zones.iter().skip(self.map.metadata.end as usize).map(|zone| zone.written).sum();
        self.figures.host_total().saturating_sub(lies) as f64 / self.capacity as f64
    }
}

/// The files of a tree.
struct Zones {
    store: Arc<ZonedStore>,
    manifest: Box<dyn Appender>,
}

/// Bytes of a manifest's record, about.
const RECORD: usize = 300;

/// Bytes per append.
const PIECE: usize = 1 << 20;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Files for Zones {
    fn write(&mut self, table: &TableInfo, level: usize, reason: Option<Reason>) -> Result<(), String> {
        let to = u8::try_from(level).unwrap_or(u8::MAX);
        let cause = reason.map_or(Cause::Flush, |reason| Cause::Compaction { to, reason });
        let key_range = Some((table.range.smallest.clone(), table.range.largest.clone()));
        // Level targets are static in all simulated trees.
        let hint = Hint { level: to, lifetime: lifetime(level, 1), key_range, expected_bytes: table.bytes, ..Hint::new(cause) };
        let mut file = self.store.create(FileId::table(table.number), &hint).map_err(text)?;
        let mut left = usize::try_from(table.bytes).unwrap_or(usize::MAX);
        let zeros = vec![0; PIECE.min(left)];
        while left > 0 {
            let now = left.min(PIECE);
            file.append(&zeros[..now]).map_err(text)?;
            left -= now;
        }
        file.seal().map_err(text)
    }

    fn publish(&mut self, gone: &[u64]) -> Result<(), String> {
        self.store.sync_names().map_err(text)?;
        self.manifest.append(&[0; RECORD]).map_err(text)?;
        self.manifest.sync().map_err(text)?;
        gone.iter().try_for_each(|table| self.store.delete(FileId::table(*table)).map_err(text))?;
        self.store.sync_names().map_err(text)
    }

    fn unit(&self) -> u64 {
        self.store.unit()
    }
}

/// Draws key numbers by a [`Law`].
struct Keys {
    all: KeyStream,
    /// Stream of the hot keys of [`Law::Mixed`], to which three of four puts go.
    hot: Option<KeyStream>,
    which: Xoshiro256PlusPlus,
}

impl Keys {
    fn new(churn: &Churn) -> Keys {
        let stream = |keys, distribution, number| KeyStream::new(keys, distribution, churn.seed, number);
        let all = match churn.law {
            Law::Zipf(exponent) => Distribution::Zipf(Zipf::new(churn.keys, exponent), Permutation::new(churn.keys, churn.seed)),
            Law::Uniform | Law::Mixed => Distribution::Uniform,
        };
        let hot = (churn.law == Law::Mixed).then(|| stream(churn.keys / 8, Distribution::Uniform, 1));
        Keys { all: stream(churn.keys, all, 0), hot, which: Xoshiro256PlusPlus::stream(churn.seed, 2) }
    }

    fn draw(&mut self) -> u64 {
        match &mut self.hot {
            Some(hot) if self.which.below(4) > 0 => hot.next_key(),
            _ => self.all.next_key(),
        }
    }
}

/// The log of a memtable.
struct Log {
    id: FileId,
    file: Box<dyn Appender>,
}

impl Log {
    fn new(store: &ZonedStore, number: u64) -> Result<Log, String> {
        let id = FileId::log(number);
        let file = store.create(id, &Hint { lifetime: Lifetime::Short, ..Hint::new(Cause::Wal) }).map_err(text)?;
        Ok(Log { id, file })
    }
}

/// Runs the simulation. Merges are done when they are due, before the next put.
///
/// # Errors
/// Impossible shapes; later failures are in the outcome.
pub fn run(churn: &Churn, options: Options) -> Result<Outcome, String> {
    let drive = Arc::new(Emulator::memory(churn.geometry.clone(), churn.geometry.zone_size).map_err(text)?);
    let options = Options { background: false, ..options };
    let store = Arc::new(ZonedStore::format(drive, VolumeId([1; 16]), options).map_err(text)?);
    let manifest = store.create(FileId::manifest(1), &Hint::new(Cause::Manifest)).map_err(text)?;
    let files = Zones { store: Arc::clone(&store), manifest };
    let mut tree = Tree::over(Box::new(files), churn.settings.clone());
    let mut course = Course::default();
    let failure = fill(churn, &store, &mut tree, &mut course).err();
    let Course { puts, uses } = course;
    let written: u64 = tree.written.values().sum();
    let user = (puts * u64::from(churn.entry)).max(1);
    Ok(Outcome {
        puts,
        failure,
        figures: store.figures(),
        map: store.map().map_err(text)?,
        write_amplification: (written + user) as f64 / user as f64,
        mean_use: uses.iter().sum::<f64>() / uses.len().max(1) as f64,
        capacity: churn.geometry.zone_size,
    })
}

/// Progress of the puts.
#[derive(Default)]
struct Course {
    puts: u64,
    /// Zones in use over the fewest possible, after each memtable of the second half.
    uses: Vec<f64>,
}

fn fill(churn: &Churn, store: &ZonedStore, tree: &mut Tree, course: &mut Course) -> Result<(), String> {
    let mut keys = Keys::new(churn);
    let spread = u128::MAX / u128::from(churn.keys.max(1));
    let entry = vec![0; churn.entry as usize];
    let most = (churn.settings.write_buffer_size / u64::from(churn.entry.max(1))).max(1);
    let mut logs = 1;
    let mut log = Log::new(store, logs)?;
    while course.puts < churn.puts {
        let mut memtable = BTreeSet::new();
        for _ in 0..most.min(churn.puts - course.puts) {
            memtable.insert(keys.draw());
            log.file.append(&entry).map_err(text)?;
            course.puts += 1;
        }
        logs += 1;
        let full = std::mem::replace(&mut log, Log::new(store, logs)?);
        full.file.seal().map_err(text)?;
        let size = churn.entry;
        tree.flush(memtable.into_iter().map(|key| Entry { key: u128::from(key) * spread, stored: size, raw: size }).collect())?;
        store.delete(full.id).map_err(text)?;
        store.sync_names().map_err(text)?;
        tree.settle()?;
        if course.puts * 2 > churn.puts {
            let map = store.map().map_err(text)?;
            course.uses.push(f64::from(map.used()) / f64::from(map.least().max(1)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
