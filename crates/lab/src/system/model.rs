//! An ordered map in memory as a system: tests see by it that the driver makes the right calls, without an engine.

use super::{Counters, Failure, Figures, LevelFigures, Outcome, Scan, Session, System};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The map, and counts of the calls.
#[derive(Debug, Default)]
pub struct Model {
    families: [RwLock<Map>; 2],
    user_bytes: AtomicU64,
    /// Sessions opened with `sync`.
    pub synced_sessions: AtomicU64,
    /// Batches committed.
    pub commits: AtomicU64,
    /// Writes after which every write fails; 0: never.
    pub fail_after: AtomicU64,
    /// Writes after which every write panics; 0: never.
    pub panic_after: AtomicU64,
    writes: AtomicU64,
}

impl Model {
    /// Contents of the first family.
    pub fn read(&self) -> RwLockReadGuard<'_, Map> {
        self.family(0)
    }

    /// Contents of one of the two families.
    pub fn family(&self, family: usize) -> RwLockReadGuard<'_, Map> {
        self.families[family].read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn write(&self, family: usize) -> RwLockWriteGuard<'_, Map> {
        self.families[family].write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn bytes(&self, family: usize) -> u64 {
        self.family(family).iter().map(|(k, v)| (k.len() + v.len()) as u64).sum()
    }

    fn count(&self, bytes: usize) -> Outcome<()> {
        let writes = self.writes.fetch_add(1, Ordering::Relaxed);
        let is_told = |limit: &AtomicU64| (1..=writes).contains(&limit.load(Ordering::Relaxed));
        assert!(!is_told(&self.panic_after), "the model was told to panic");
        if is_told(&self.fail_after) {
            return Err(Failure::from("the model was told to fail"));
        }
        self.user_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Opens one model again and again.
#[derive(Debug, Clone, Default)]
pub struct ModelOpener(pub Arc<Model>);

impl ModelOpener {
    /// Opens the model, empty if `fresh`.
    pub fn open(&self, fresh: bool) -> ModelSystem {
        if fresh {
            (0..2).for_each(|family| self.0.write(family).clear());
        }
        ModelSystem(Arc::clone(&self.0))
    }
}

/// An open model.
#[derive(Debug)]
pub struct ModelSystem(Arc<Model>);

impl System for ModelSystem {
    type Session<'a> = ModelSession<'a>;

    fn session(&self, sync: bool) -> ModelSession<'_> {
        self.0.synced_sessions.fetch_add(u64::from(sync), Ordering::Relaxed);
        ModelSession { model: &self.0, family: 0, batch: Vec::new() }
    }

    fn flush(&self) -> Outcome<()> {
        Ok(())
    }

    fn compact(&self) -> Outcome<()> {
        Ok(())
    }

    fn wait_for_compactions(&self) -> Outcome<()> {
        Ok(())
    }

    fn figures(&self) -> Outcome<Figures> {
        let user_bytes = self.0.user_bytes.load(Ordering::Relaxed);
        let bytes = self.0.bytes(0) + self.0.bytes(1);
        Ok(Figures {
            user_bytes,
            written: vec![("wal".into(), 2 * user_bytes)],
            live_table_bytes: bytes,
            store_bytes: 3 * bytes,
            ..Figures::default()
        })
    }

    fn levels(&self, family: usize) -> Outcome<Vec<LevelFigures>> {
        Ok(vec![LevelFigures { runs: 1, files: 1, bytes: self.0.bytes(family) }])
    }

    fn counters(&self) -> Outcome<Counters> {
        Ok(Counters { tickers: [("rocksdb.bytes.written".into(), self.figures()?.user_bytes)].into(), ..Counters::default() })
    }

    fn close(self) -> Outcome<()> {
        Ok(())
    }
}

/// A thread's handle to a model.
#[derive(Debug)]
pub struct ModelSession<'a> {
    model: &'a Model,
    family: usize,
    batch: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Session for ModelSession<'_> {
    type Scan<'a>
        = ModelScan
    where
        Self: 'a;

    fn choose(&mut self, family: usize) {
        self.family = family;
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.model.count(key.len() + value.len())?;
        self.model.write(self.family).insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        self.model.count(key.len())?;
        self.model.write(self.family).remove(key);
        Ok(())
    }

    fn stage_put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.push((key.to_vec(), Some(value.to_vec())));
    }

    fn stage_delete(&mut self, key: &[u8]) {
        self.batch.push((key.to_vec(), None));
    }

    fn commit(&mut self) -> Outcome<()> {
        self.model.commits.fetch_add(1, Ordering::Relaxed);
        for (key, value) in std::mem::take(&mut self.batch) {
            match value {
                Some(value) => self.put(&key, &value)?,
                None => self.delete(&key)?,
            }
        }
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Outcome<bool> {
        let map = self.model.family(self.family);
        let value = map.get(key);
        if let Some(value) = value {
            out.clone_from(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&mut self, keys: &[&[u8]], found: impl FnMut(&[u8])) -> Outcome<()> {
        let map = self.model.family(self.family);
        keys.iter().filter_map(|&key| map.get(key)).map(Vec::as_slice).for_each(found);
        Ok(())
    }

    fn scan(&mut self) -> Outcome<ModelScan> {
        let entries = self.model.family(self.family).iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        Ok(ModelScan { entries, position: None })
    }
}

/// A position in a copy of the map.
#[derive(Debug)]
pub struct ModelScan {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    position: Option<usize>,
}

impl Scan for ModelScan {
    fn seek_first(&mut self) -> Outcome<()> {
        self.position = Some(0);
        Ok(())
    }

    fn seek_last(&mut self) -> Outcome<()> {
        self.position = self.entries.len().checked_sub(1);
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Outcome<()> {
        self.position = Some(self.entries.partition_point(|(k, _)| k.as_slice() < key));
        Ok(())
    }

    fn advance(&mut self) -> Outcome<()> {
        self.position = self.position.map(|p| p + 1);
        Ok(())
    }

    fn retreat(&mut self) -> Outcome<()> {
        self.position = self.position.and_then(|p| p.checked_sub(1));
        Ok(())
    }

    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.entries.get(self.position?).map(|(k, v)| (k.as_slice(), v.as_slice()))
    }
}
