//! Divides memory while the database works: once a second, bytes move between memtables and cache, and between the two parts of the cache.

use super::family::FamilyCore;
use super::space::reserve;
use super::{Db, Inner};
use crate::cache::{Signals, split::Splitter};
use crate::error::{Error, Result};
use crate::ledger::Histogram;
use crate::manifest::ManifestState;
use crate::memory_split::{MemorySplit, Seen};
use crate::settings::{Budgets, CompressedCache, DbSettings, FamilySettings, Settings, format_bytes};
use parking_lot::Mutex;
use sinter_storage::store::{Cause, Temperature};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds per byte that a compaction writes, assumed until one has ended.
const MERGE_NS_PER_BYTE: f64 = 3.0;

/// Divides the memory of one database.
#[derive(Debug)]
pub(super) struct Division {
    /// Bytes that all memtables together may hold, if the medium has space for them.
    memtables: AtomicU64,
    /// Bytes of the largest memtable or table for which the medium has space.
    largest: AtomicU64,
    tuner: Mutex<Tuner>,
}

#[derive(Debug)]
struct Tuner {
    /// `None`: sizes stay as they were set.
    split: Option<MemorySplit>,
    /// `None`: the compressed part of the cache stays as it was set.
    parts: Option<Splitter>,
    before: Signals,
    merged_bytes: u64,
    stall_ns: u64,
    miss_ns: f64,
}

/// The division of memory at the start, and the bytes that memtables get.
fn start(settings: &DbSettings, moves: bool) -> (Option<MemorySplit>, u64) {
    let budget = settings.memory_budget;
    let most = MemorySplit::most_at_first(budget);
    let stated = Some(settings.db_write_buffer_size).filter(|bytes| *bytes < u64::MAX);
    let first = || stated.unwrap_or_else(|| Budgets { memory: Some(budget), ..Budgets::default() }.db().db_write_buffer_size);
    let split = (moves && budget > 0).then(|| MemorySplit::new(budget, first().min(most)));
    let memtables = split.as_ref().map_or(settings.db_write_buffer_size, MemorySplit::memtables);
    (split, memtables)
}

impl Division {
    /// Divides memory as the settings say. Without background threads sizes stay as they are.
    pub fn new(settings: &DbSettings) -> Self {
        let moves = settings.max_background_jobs > 0;
        let (split, memtables) = start(settings, moves);
        let parts = (moves && settings.compressed_cache == CompressedCache::Auto).then(Splitter::default);
        let tuner = Tuner { split, parts, before: Signals::default(), merged_bytes: 0, stall_ns: 0, miss_ns: 0.0 };
        Division { memtables: AtomicU64::new(memtables), largest: AtomicU64::new(u64::MAX), tuner: Mutex::new(tuner) }
    }

    /// Bytes that all memtables together may hold now; `u64::MAX`: no limit.
    #[inline]
    pub fn memtables(&self) -> u64 {
        self.memtables.load(Ordering::Relaxed).min(self.largest().saturating_mul(reserve::MEMTABLES))
    }

    /// Bytes of the largest memtable or table for which the medium has space; `u64::MAX`: of any.
    #[inline]
    pub fn largest(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }

    /// Bytes of the log from which on the memtables of the oldest segment are written to tables.
    #[inline]
    pub fn log(&self, settings: &DbSettings) -> u64 {
        reserve::log_limit(settings, self.largest())
    }
}

impl Db {
    /// Memtables and cache share so many bytes from now on, as in a database that is opened with this budget and no sizes beside it. Holds
    /// as long as the database is open. The cache is cut at once; memtables that are too large are flushed, and the cache has what they
    /// hold the less until then. Indexes and filters stay beside the cache if they were when the database was opened.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what no budget may be; those of a write.
    pub fn change_memory_budget(&self, bytes: u64) -> Result<()> {
        self.change_memory(&Settings::new(Budgets { memory: Some(bytes), ..Budgets::default() }))
    }

    /// The cache has so many bytes from now on, and there is no budget any more: memtables have the sizes of their families, which are
    /// those that a budget gave them if the database was opened with one. Holds as long as the database is open. Indexes and filters stay
    /// in the cache, or beside it, as when the database was opened.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more than a pebibyte; those of a write.
    pub fn change_cache_size(&self, bytes: u64) -> Result<()> {
        let mut settings = Settings::default();
        settings.db.cache_size = bytes;
        let opened = &self.inner.settings;
        if opened.memory_budget == 0 {
            settings.db.db_write_buffer_size = opened.db_write_buffer_size;
        }
        self.change_memory(&settings)
    }

    fn change_memory(&self, settings: &Settings) -> Result<()> {
        settings.validate().map_err(|complaints| Error::Invalid(complaints.join("; ")))?;
        let inner = &self.inner;
        inner.lead_in_turn(|state| {
            inner.check_writable()?;
            inner.divide_anew(settings.db.clone());
            for writer in state.families.iter_mut().flatten() {
                writer.limit = inner.memtable_limit(&writer.core);
            }
            // Each family's memtable may have to go.
            (0..state.families.len()).try_for_each(|_| inner.switch_largest(state, 0))
        })?;
        inner.divide_memory();
        inner.watch_memory();
        Ok(())
    }
}

impl Inner {
    /// Starts again from other sizes.
    fn divide_anew(&self, mut settings: DbSettings) {
        self.memory.change(&mut settings, &self.family_settings());
        let mut tuner = self.division.tuner.lock();
        let (split, memtables) = start(&settings, !self.inline());
        tuner.split = split;
        self.division.memtables.store(memtables, Ordering::Relaxed);
    }

    /// Looks at reads and merges, and moves some bytes of memory; once a second, before the limits are looked at.
    pub(super) fn divide_memory(&self) {
        let (memtable_bytes, tree_bytes) = (self.memtable_bytes(), self.live_table_bytes());
        let mut tuner = self.division.tuner.lock();
        if let Some(parts) = &mut tuner.parts {
            parts.tick(&self.cache);
        }
        if tuner.split.is_none() {
            return;
        }
        let seen = self.seen(&mut tuner, tree_bytes);
        let Some(split) = &mut tuner.split else { return };
        let budget = self.memory.budget();
        if budget != split.budget() {
            split.fit(budget);
        }
        let memtables = split.observe(&seen);
        self.division.memtables.store(memtables, Ordering::Relaxed);
        self.memory.ask(memtables, split.cache(memtable_bytes));
    }

    /// Reads, merges and stalls since the last look.
    fn seen(&self, tuner: &mut Tuner, tree_bytes: u64) -> Seen {
        let now = self.cache.signals();
        let read = now.since(&tuner.before);
        let merged = self.ledger.snapshot().sum(|cause| matches!(cause, Cause::Compaction { .. }));
        let stall_ns = self.pressure.stall_ns.load(Ordering::Relaxed);
        // Bytes are counted as they are written, times when a compaction ends: bytes times the usual time are the smoother measure.
        let done = self.statistics.histogram(Histogram::CompactionTime);
        let ns_per_byte = if done.count > 0 && merged > 0 { done.sum * 1000.0 / merged as f64 } else { MERGE_NS_PER_BYTE };
        let seen = Seen {
            seconds: read.at_ns as f64 / 1e9,
            merge_ns: merged.saturating_sub(tuner.merged_bytes) as f64 * ns_per_byte + stall_ns.saturating_sub(tuner.stall_ns) as f64,
            tree_bytes,
            ghost_hits: read.ghost_hits,
            ghost_bytes: read.ghost_bytes,
            miss_ns: read.miss.mean().unwrap_or(tuner.miss_ns),
        };
        (tuner.before, tuner.merged_bytes, tuner.stall_ns, tuner.miss_ns) = (now, merged, stall_ns, seen.miss_ns);
        seen
    }

    /// Bounds the size of memtables and tables, so that the medium holds enough of them: with few large ones, nothing could be merged
    /// before it was full.
    pub(super) fn note_medium(&self, state: &ManifestState) {
        let tables = state.families.values().flat_map(|family| family.version.tables()).map(|(.., table)| table);
        let size = |free: u64| free.saturating_add(self.bytes_on_primary(tables));
        let unit = self.media.primary().unit();
        self.division.largest.store(
            self.media.free(Temperature::Unknown).map(size).map_or(u64::MAX, |size| reserve::largest(size, unit)),
            Ordering::Relaxed,
        );
    }

    /// Size of a memtable or table of `bytes`, cut to the largest for which the medium has space.
    pub(super) fn within_medium(&self, bytes: u64) -> u64 {
        bytes.min(self.division.largest())
    }

    /// Bytes at which a family's next memtable is full. A family that was given its own size keeps it; others get half of the bytes for all
    /// memtables.
    pub(super) fn memtable_limit(&self, core: &FamilyCore) -> usize {
        let settings = core.settings.load();
        let limit = self.moving_limit(&settings).unwrap_or(settings.write_buffer_size);
        usize::try_from(self.within_medium(limit)).unwrap_or(usize::MAX)
    }

    fn moving_limit(&self, settings: &FamilySettings) -> Option<u64> {
        // Families that were given no size follow a budget that came later.
        let followers = self.settings.moving_write_buffer().unwrap_or(FamilySettings::default().write_buffer_size);
        let moves = !self.inline() && self.memory.has_budget() && settings.write_buffer_size == followers;
        moves.then(|| (self.division.memtables() / 2).min(FamilySettings::WRITE_BUFFER_MOST))
    }

    /// The division of memory now and its reasons, a line each: for people.
    pub(super) fn memory_lines(&self) -> String {
        let memtable_bytes = self.memtable_bytes();
        let tuner = self.division.tuner.lock();
        let mut out = String::new();
        let mut line = |name: &str, limit: u64, used: u64| {
            let _ = writeln!(out, "{name}: {}, {} in use", format_bytes(limit), format_bytes(used));
        };
        line("memtables", self.division.memtables(), memtable_bytes);
        line("cache, uncompressed", self.cache.plain_capacity(), self.cache.plain_used());
        line("cache, compressed", self.cache.packed_capacity(), self.cache.packed_used());
        if self.cache.outside() > 0 {
            let _ = writeln!(out, "indexes and filters beside the cache: {}", format_bytes(self.cache.outside()));
        }
        if let Some(split) = &tuner.split {
            let (write, read) = split.marginal();
            let _ = writeln!(out, "a step more: {:.3} ms/s saved in merges, {:.3} ms/s in misses", write / 1e6, read / 1e6);
            let _ = writeln!(out, "memtables and cache: {}", split.reason);
        }
        if let Some(Splitter { last, .. }) = &tuner.parts {
            let _ = writeln!(out, "a step more compressed: saves {:.3} ms/s, costs {:.3} ms/s", last.gain / 1e6, last.cost / 1e6);
            let _ = writeln!(out, "parts of the cache: {}", last.reason);
        }
        out
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
