//! fjall as a system. It keeps no account of bytes, so they come from the process (`wchar`), nor of stalls: 0 here stands for "not known".
//!
//! What the laboratory needs and fjall does not promise to keep is behind methods that its documentation hides: sizes of memtables and
//! cache, a flush, a compaction, the shape of the tree.

mod options;
mod scan;

pub use scan::FjallScan;

use crate::asked::{Asked, of_sinter_alone};
use crate::locked_version;
use fjall::{AbstractTree, Database, Keyspace, OwnedWriteBatch, PersistMode};
use sinter_lab::drive::{Engine, Opened};
use sinter_lab::run::{EngineSpec, Source};
use sinter_lab::system::{Counters, Figures, LevelFigures, Outcome, Session, System};
use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Between two looks at whether background work has ended.
const POLL: Duration = Duration::from_millis(5);

/// fjall looks for versions that nobody reads any more when it seals a memtable, and each time that so many snapshots were closed
/// (snapshot_tracker.rs, `close_raw`).
const SNAPSHOTS_PER_LOOK: usize = 10_000;

/// From so many memtables that wait for their flush, or runs in level 0, on a writer waits (`local_backpressure`).
const SEALED_TO_WAIT: usize = 4;
/// See [`SEALED_TO_WAIT`].
const RUNS_TO_WAIT: usize = 30;

/// Longest name of a keyspace, bytes (fjall panics beyond).
const LONGEST_NAME: usize = 255;

/// fjall.
#[derive(Debug, Clone, Copy)]
pub struct Fjall;

impl Engine for Fjall {
    type System = FjallSystem;

    fn open(&self, spec: &EngineSpec, directory: &Path) -> Outcome<Opened<FjallSystem>> {
        let asked = Asked::read(spec)?;
        let database = options::database(&asked, spec.wal, directory).open()?;
        let mut keyspaces = Vec::new();
        for (name, settings) in &asked.families {
            if !(1..=LONGEST_NAME).contains(&name.len()) {
                return Err(format!("family {name:?}: fjall wants names of 1 to {LONGEST_NAME} bytes").into());
            }
            keyspaces.push(database.keyspace(name, || options::keyspace(settings, spec.wal))?);
        }
        Ok(Opened {
            system: FjallSystem { keyspaces, database },
            version: format!("fjall {}", locked_version("fjall")),
            ignored_settings: [options::ignored(&asked, spec.wal), of_sinter_alone(spec)].concat(),
            compression: BTreeMap::new(),
            source: Source::Process,
        })
    }
}

/// An open fjall.
pub struct FjallSystem {
    keyspaces: Vec<Keyspace>,
    database: Database,
}

impl FjallSystem {
    /// A worker that failed has poisoned the database; so has a failed write to the journal.
    fn check(&self) -> Outcome<()> {
        Ok(self.database.persist(PersistMode::Buffer)?)
    }

    fn wait_for_flushes(&self) -> Outcome<()> {
        while self.database.outstanding_flushes() > 0 || self.keyspaces.iter().any(|keyspace| keyspace.sealed_memtable_count() > 0) {
            self.check()?;
            thread::sleep(POLL);
        }
        self.check()
    }

    /// fjall keeps tables that a compaction has replaced until the next memtable is sealed, so behind the last write for good. This is what
    /// it does then; open snapshots keep what they read.
    fn release_replaced_tables(&self) -> Outcome<()> {
        (0..SNAPSHOTS_PER_LOOK).for_each(|_| drop(self.database.snapshot()));
        // Snapshots from this number on may be opened, and of versions the newest below it is kept.
        let oldest = self.database.supervisor.snapshot_tracker.get_seqno_safe_to_gc() + 1;
        let mut each = self.keyspaces.iter();
        Ok(each.try_for_each(|keyspace| keyspace.tree.get_version_history_lock().maintenance(keyspace.path(), oldest))?)
    }

    /// Writers wait for the workers, also if the last of these has failed, on a full disk for example. Then they are let go, to be told
    /// so by their next write: there is nothing to wait for when everything was thrown away.
    fn check_waiting(&self) -> Outcome<()> {
        let waits =
            |keyspace: &Keyspace| keyspace.sealed_memtable_count() >= SEALED_TO_WAIT || keyspace.tree.l0_run_count() >= RUNS_TO_WAIT;
        if !self.keyspaces.iter().any(waits) {
            return Ok(());
        }
        self.check().or_else(|failure| {
            self.keyspaces.iter().try_for_each(|keyspace| keyspace.tree.clear())?;
            Err(failure)
        })
    }

    /// Numbers that change whenever a tree changes its shape.
    fn versions(&self) -> Vec<u64> {
        self.keyspaces.iter().map(|keyspace| keyspace.tree.current_version().id()).collect()
    }
}

impl System for FjallSystem {
    type Session<'a> = FjallSession<'a>;

    fn session(&self, sync: bool) -> FjallSession<'_> {
        let (database, keyspaces) = (&self.database, &self.keyspaces);
        FjallSession { database, keyspaces, family: &keyspaces[0], sync, batch: batch(database, sync) }
    }

    fn flush(&self) -> Outcome<()> {
        for keyspace in &self.keyspaces {
            keyspace.rotate_memtable()?;
        }
        self.wait_for_flushes()
    }

    fn compact(&self) -> Outcome<()> {
        self.flush()?;
        self.keyspaces.iter().try_for_each(Keyspace::major_compact)?;
        self.release_replaced_tables()
    }

    /// fjall's workers look for compactions after flushes only, and then stop, with levels that may still be too large. The others work
    /// until none is, so the caller does here what a worker does, until there is nothing to do.
    fn wait_for_compactions(&self) -> Outcome<()> {
        loop {
            self.wait_for_flushes()?;
            let before = self.versions();
            for keyspace in &self.keyspaces {
                let droppable = self.database.supervisor.snapshot_tracker.get_seqno_safe_to_gc();
                keyspace.tree.compact(keyspace.config.compaction_strategy.clone(), droppable)?;
            }
            if self.versions() != before {
                continue;
            }
            if self.database.active_compactions() == 0 && self.versions() == before {
                self.release_replaced_tables()?;
                return self.check();
            }
            thread::sleep(POLL);
        }
    }

    /// The driver knows the bytes of its clients, of the process and of the directory.
    fn figures(&self) -> Outcome<Figures> {
        self.check_waiting()?;
        Ok(Figures {
            live_table_bytes: self.keyspaces.iter().map(Keyspace::disk_space).sum(),
            memtable_bytes: self.database.write_buffer_size(),
            cache_bytes: self.database.cache_size(),
            ..Figures::default()
        })
    }

    fn levels(&self, family: usize) -> Outcome<Vec<LevelFigures>> {
        let version = self.keyspaces[family].tree.current_version();
        let levels = version.iter_levels();
        Ok(levels.map(|level| LevelFigures { runs: level.run_count(), files: level.table_count(), bytes: level.size() }).collect())
    }

    fn counters(&self) -> Outcome<Counters> {
        let database = &self.database;
        let micros = u64::try_from(database.time_compacting().as_micros()).unwrap_or(u64::MAX);
        let tickers = [
            ("fjall.compactions.completed", database.compactions_completed() as u64),
            ("fjall.compacting.micros", micros),
            ("fjall.journals", database.journal_count() as u64),
        ];
        Ok(Counters { tickers: tickers.map(|(name, value)| (name.to_string(), value)).into(), ..Counters::default() })
    }

    fn close(self) -> Outcome<()> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }
}

/// A new batch, as durable as single writes.
fn batch(database: &Database, sync: bool) -> OwnedWriteBatch {
    let batch = database.batch();
    if sync { batch.durability(Some(PersistMode::SyncData)) } else { batch }
}

/// A thread's handle to fjall.
pub struct FjallSession<'a> {
    database: &'a Database,
    keyspaces: &'a [Keyspace],
    family: &'a Keyspace,
    sync: bool,
    batch: OwnedWriteBatch,
}

impl FjallSession<'_> {
    /// After a write, which has reached the kernel: to the medium, with `fdatasync` as the others.
    #[inline]
    fn persist(&self) -> Outcome<()> {
        if self.sync {
            self.database.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }
}

impl Session for FjallSession<'_> {
    type Scan<'a>
        = FjallScan<'a>
    where
        Self: 'a;

    #[inline]
    fn choose(&mut self, family: usize) {
        self.family = &self.keyspaces[family];
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.family.insert(key, value)?;
        self.persist()
    }

    #[inline]
    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        self.family.remove(key)?;
        self.persist()
    }

    #[inline]
    fn stage_put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.insert(self.family, key, value);
    }

    #[inline]
    fn stage_delete(&mut self, key: &[u8]) {
        self.batch.remove(self.family, key);
    }

    #[inline]
    fn commit(&mut self) -> Outcome<()> {
        let batch = std::mem::replace(&mut self.batch, batch(self.database, self.sync));
        Ok(batch.commit()?)
    }

    #[inline]
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Outcome<bool> {
        let value = self.family.get(key)?;
        if let Some(value) = &value {
            out.clear();
            out.extend_from_slice(value);
        }
        Ok(value.is_some())
    }

    /// fjall reads one key at a time.
    fn multi_get(&mut self, keys: &[&[u8]], mut found: impl FnMut(&[u8])) -> Outcome<()> {
        for key in keys {
            if let Some(value) = self.family.get(key)? {
                found(&value);
            }
        }
        Ok(())
    }

    fn scan(&mut self) -> Outcome<FjallScan<'_>> {
        Ok(FjallScan::new(self.family))
    }
}
