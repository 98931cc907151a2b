//! Figures about an open database: statistics, and properties under RocksDB's names.

use super::family::Family;
use super::{Db, Inner, TierStats, callback};
use crate::cache::{Cache, Part};
use crate::error::Result;
use crate::ledger::{self, HistogramSummary, LedgerSnapshot, Statistics};
use crate::manifest::Version;
use crate::settings::DbSettings;
use sinter_storage::store::{Beneath, MeterSnapshot};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Figures of a database at one moment.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes written by their cause.
    pub ledger: LedgerSnapshot,
    /// All tickers under RocksDB's names: those of the engine, of the ledger and of the cache.
    pub tickers: Vec<(&'static str, u64)>,
    /// Distributions under RocksDB's names, in the unit that the name says.
    pub histograms: Vec<(&'static str, HistogramSummary)>,
    /// Nanoseconds that writers were slowed or stopped in all.
    pub stall_ns: u64,
    /// The longest stall, nanoseconds.
    pub longest_stall_ns: u64,
    /// Number of stalls.
    pub stalls: u64,
    /// Bytes of live tables, all families.
    pub live_table_bytes: u64,
    /// Bytes of all files in the store.
    pub store_bytes: u64,
    /// Bytes of all memtables.
    pub memtable_bytes: u64,
    /// Bytes of blocks, indexes and filters in the cache, and of those beside it.
    pub cache_bytes: u64,
    /// Reads and writes that the stores counted themselves, together.
    pub meter: MeterSnapshot,
    /// Each store, the primary one first.
    pub tiers: Vec<TierStats>,
    /// Activity of the primary store below the files since it was opened, if it lies on a zoned drive.
    pub beneath: Option<Beneath>,
}

impl Stats {
    /// Tickers and distributions as text, in RocksDB's form ([`ledger::dump`]).
    pub fn dump(&self) -> String {
        ledger::dump(self.tickers.iter().copied(), self.histograms.iter().copied())
    }
}

impl Inner {
    pub(super) fn memtable_bytes(&self) -> u64 {
        let shared = self.shared.lock();
        shared.families.values().map(|c| c.view.load().mems().map(|m| m.memory() as u64).sum::<u64>()).sum()
    }

    pub(super) fn live_table_bytes(&self) -> u64 {
        let shared = self.shared.lock();
        shared.families.values().map(|c| c.view.load().tree.bytes()).sum()
    }
}

impl Db {
    /// Figures of the whole database.
    pub fn stats(&self) -> Stats {
        if !callback::is_readable() {
            return Stats::default();
        }
        let inner = &self.inner;
        let files = inner.store.list().unwrap_or_default();
        let ledger = inner.ledger.snapshot();
        let beneath = inner.media.primary().beneath();
        Stats {
            tickers: inner
                .statistics
                .tickers()
                .chain(ledger.tickers())
                .chain(read_tickers(&inner.cache))
                .chain(inner.temperature_tickers())
                .chain(inner.tier_tickers())
                .chain(inner.codec_tickers())
                .chain(inner.limit_tickers())
                .chain(beneath.iter().flat_map(zone_tickers))
                .collect(),
            histograms: inner.statistics.histograms().collect(),
            stall_ns: inner.pressure.stall_ns.load(Ordering::Relaxed),
            longest_stall_ns: inner.pressure.longest_ns.load(Ordering::Relaxed),
            stalls: inner.pressure.stalls.load(Ordering::Relaxed),
            live_table_bytes: inner.live_table_bytes(),
            store_bytes: files.iter().map(|(_, bytes)| bytes).sum(),
            memtable_bytes: inner.memtable_bytes(),
            cache_bytes: inner.cache.used() + inner.cache.outside(),
            meter: inner.media.snapshot(),
            tiers: inner.tier_stats(),
            beneath,
            ledger,
        }
    }

    /// Statistics that the engine counts itself; [`Db::stats`] has all figures.
    pub fn statistics(&self) -> &Statistics {
        &self.inner.statistics
    }

    /// The ledger's bytes equal those that each store counted; the difference otherwise. Call it when no job runs.
    pub fn check_ledger(&self) -> std::result::Result<(), String> {
        self.inner.media.balance(&self.inner.ledger.snapshot())
    }

    /// Names the settings that do not fit into the memory that this process may use, for people; `None` if all fit, or no limit is known.
    pub fn memory_note(&self) -> Option<String> {
        self.inner.memory.note()
    }

    /// Returns whether the next write to a family would wait until a memtable is flushed, if `underway` more bytes are written by then. For
    /// callers that have something else to do meanwhile.
    #[doc(hidden)]
    pub fn would_wait(&self, family: &Family, underway: usize) -> bool {
        callback::is_readable() && self.inner.would_wait(&family.core, underway)
    }

    /// A flush, a compaction or a move is running, or the tree is being changed: then the medium may have to be waited for, and callers
    /// are not to wait.
    #[doc(hidden)]
    pub fn has_running_jobs(&self) -> bool {
        callback::is_readable() && self.inner.shared.try_lock().is_none_or(|shared| shared.jobs.running > 0)
    }

    /// Bytes that memtables hold, and the cache with the indexes and filters beside it.
    pub fn memory_used(&self) -> (u64, u64) {
        if !callback::is_readable() {
            return (0, 0);
        }
        (self.inner.memtable_bytes(), self.inner.cache.used() + self.inner.cache.outside())
    }

    /// Bytes that memtables and cache may take of the memory that this process may use; `None`: no limit is known.
    pub fn memory_room(&self) -> Option<u64> {
        self.inner.memory.room()
    }

    /// Settings of the database.
    pub fn settings(&self) -> &DbSettings {
        &self.inner.settings
    }

    /// The tree of a family now.
    #[doc(hidden)]
    pub fn version(&self, family: &Family) -> Result<Arc<Version>> {
        self.inner.check_family(family)?;
        Ok(family.core.view.load().tree.version.clone())
    }

    /// A property of a family under RocksDB's name; `None` for a name that is not known, and for another database's family.
    /// `sinterdb.damaged-tables` has a line for each damaged table that compactions have met and leave alone ([`Db::damaged_tables`]);
    /// `rocksdb.background-errors` counts them, of all families, too. `sinterdb.compression` has the list of codecs, or a line for each
    /// level with the codec that the engine chose and why. `sinterdb.memory-split` tells how memory is divided between memtables and the
    /// two parts of the cache, and why; `sinterdb.memtable-capacity` and `sinterdb.compressed-cache-capacity` are bytes of it.
    /// `sinterdb.index-bytes` has the size of the indexes in all tables. `sinterdb.tiering` tells up to which age data is kept from the
    /// last level, and why, if the engine chooses that.
    /// `sinterdb.limits` tells the limits of CPU and memory that were found for this process, and what follows from them, a line each.
    /// `sinterdb.tiers` has a line for each store of the database ([`Db::tiers`]), and one for each of the last tables that found no room
    /// on theirs. `sinterdb.zones` tells what a store on a zoned drive wrote below the files, and how its zones are; elsewhere it is not
    /// known.
    pub fn property(&self, family: &Family, name: &str) -> Option<String> {
        if family.core.handle != self.inner.handle || !callback::is_readable() {
            return None;
        }
        let view = family.core.view.load_full();
        let version = &view.tree.version;
        if let Some(level) = name.strip_prefix("rocksdb.num-files-at-level") {
            let runs = version.levels.get(level.parse::<usize>().ok()?)?;
            return Some(runs.iter().map(|r| r.tables.len()).sum::<usize>().to_string());
        }
        let tables = || version.tables().map(|(_, _, t)| t);
        let settings = family.core.settings.load();
        let number: u64 = match name {
            "rocksdb.levelstats" => return Some(level_stats(version)),
            "rocksdb.num-immutable-mem-table" => view.full.len() as u64,
            "rocksdb.mem-table-flush-pending" => u64::from(!view.full.is_empty()),
            "rocksdb.compaction-pending" | "rocksdb.estimate-pending-compaction-bytes" => {
                let debt = crate::compaction::picker(settings.style).debt(version, &settings);
                if name.ends_with("bytes") { debt } else { u64::from(debt > 0) }
            }
            "rocksdb.cur-size-active-mem-table" => view.mem.memory() as u64,
            "rocksdb.cur-size-all-mem-tables" | "rocksdb.size-all-mem-tables" => view.mems().map(|m| m.memory() as u64).sum(),
            "rocksdb.num-entries-active-mem-table" => view.mem.len(),
            "rocksdb.num-entries-imm-mem-tables" => view.full.iter().map(|m| m.len()).sum(),
            "rocksdb.estimate-num-keys" => {
                let entries: u64 = tables().map(|t| t.entries).sum::<u64>() + view.mems().map(|m| m.len()).sum::<u64>();
                entries.saturating_sub(2 * tables().map(|t| t.tombstones).sum::<u64>())
            }
            "rocksdb.live-sst-files-size" | "rocksdb.total-sst-files-size" => view.tree.bytes(),
            "rocksdb.estimate-live-data-size" => {
                let deepest = version.deepest().unwrap_or(0);
                // Where age divides data, the level above the last has as much of it alive as that one.
                let is_divided = settings.places_by_age() && deepest + 1 == version.levels.len();
                version.level_bytes(deepest) + if is_divided { version.level_bytes(deepest - 1) } else { 0 }
            }
            "rocksdb.num-snapshots" => self.inner.snapshots.count() as u64,
            "rocksdb.block-cache-capacity" => self.inner.cache.capacity(),
            "rocksdb.block-cache-usage" => self.inner.cache.used(),
            "rocksdb.estimate-table-readers-mem" => self.inner.cache.outside(),
            "rocksdb.num-running-compactions" => self.inner.shared.lock().jobs.compactions() as u64,
            "rocksdb.num-running-flushes" => self.inner.shared.lock().jobs.flushing.len() as u64,
            "sinterdb.index-bytes" => view.tree.tables().map(|table| table.index_bytes()).sum(),
            "sinterdb.memory-split" => return Some(self.inner.memory_lines()),
            "sinterdb.compressed-cache-capacity" => self.inner.cache.packed_capacity(),
            "sinterdb.compressed-cache-usage" => self.inner.cache.packed_used(),
            "sinterdb.memtable-capacity" => self.inner.division.memtables(),
            "sinterdb.open-files" => self.inner.media.files.open() as u64,
            "sinterdb.open-files-capacity" => self.inner.media.files.most() as u64,
            "sinterdb.limits" => return Some(self.inner.limits_text()),
            "sinterdb.tiering" => return Some(self.tiering_lines(family)),
            "sinterdb.tiers" => return Some(self.inner.tier_lines()),
            "sinterdb.zones" => return self.inner.media.primary().beneath().map(|beneath| zone_lines(&beneath)),
            "sinterdb.compression" => return Some(self.compression_lines(family)),
            "sinterdb.damaged-tables" => return Some(self.damaged_lines(family)),
            "rocksdb.background-errors" => {
                let shared = self.inner.shared.lock();
                u64::from(shared.failed.is_some()) + shared.damaged.len() as u64
            }
            "rocksdb.is-write-stopped" => u64::from(self.inner.writes_stopped()),
            "rocksdb.actual-delayed-write-rate" => self.inner.delayed_rate(),
            _ => return None,
        };
        Some(number.to_string())
    }
}

/// Counts of the cache, under RocksDB's names.
fn read_tickers(cache: &Cache) -> [(&'static str, u64); 9] {
    let [data, index, filter] = [Part::Data, Part::Index, Part::Filter].map(|part| cache.misses(part));
    let [(count, bytes), (last_count, last_bytes)] = [false, true].map(|last_level| cache.reads(last_level));
    [
        ("rocksdb.block.cache.miss", data + index + filter),
        ("rocksdb.block.cache.data.miss", data),
        ("rocksdb.block.cache.index.miss", index),
        ("rocksdb.block.cache.filter.miss", filter),
        ("rocksdb.compressed.secondary.cache.hits", cache.signals().unpacked),
        ("rocksdb.last.level.read.bytes", last_bytes),
        ("rocksdb.last.level.read.count", last_count),
        ("rocksdb.non.last.level.read.bytes", bytes),
        ("rocksdb.non.last.level.read.count", count),
    ]
}

/// Activity of a store on zones below the files, under names of this engine.
fn zone_tickers(beneath: &Beneath) -> [(&'static str, u64); 12] {
    [
        ("sinterdb.zones.device.bytes", beneath.device()),
        ("sinterdb.zones.framing.bytes", beneath.framing),
        ("sinterdb.zones.padding.bytes", beneath.padding),
        ("sinterdb.zones.moved.bytes", beneath.moved),
        ("sinterdb.zones.metadata.bytes", beneath.metadata),
        ("sinterdb.zones.finish.bytes", beneath.finishing),
        ("sinterdb.zones.finish.count", beneath.finishes),
        ("sinterdb.zones.reset.count", beneath.resets),
        ("sinterdb.zones.reset.unwritten.bytes", beneath.reset_unwritten),
        ("sinterdb.zones.collected.count", beneath.collected),
        ("sinterdb.zones.wait.count", beneath.waits),
        ("sinterdb.zones.fallback.count", beneath.fallbacks),
    ]
}

/// `sinterdb.zones`: a line for each cause of bytes, then what was done to zones, then the zones.
fn zone_lines(beneath: &Beneath) -> String {
    let mut out = String::new();
    for (cause, bytes) in beneath.lines().into_iter().chain([("device", beneath.device())]) {
        let _ = writeln!(out, "{cause}: {bytes} bytes");
    }
    let Beneath { finishes, resets, reset_unwritten, collected, waits, fallbacks, failed, zones, .. } = *beneath;
    let _ = writeln!(out, "{resets} resets ({reset_unwritten} bytes unwritten), {finishes} finishes, {collected} zones collected");
    let _ = writeln!(out, "{waits} waits for room, {fallbacks} files out of their place, {failed} zones in which a write failed");
    let (used, all) = (zones.used(), zones.all);
    let _ = writeln!(out, "{used} of {all} zones in use, {} broken", zones.broken);
    let dead = zones.written.saturating_sub(zones.live);
    let _ = writeln!(out, "{} bytes alive, {dead} dead, {} can be written in all", zones.live, zones.capacity);
    let _ = writeln!(out, "{} to {} resets of a zone, {} in all", zones.wear_least, zones.wear_most, zones.wear_total);
    out
}

/// Files and megabytes of each level, as RocksDB prints them.
fn level_stats(version: &Version) -> String {
    let mut out = String::from("Level Files Size(MB)\n--------------------\n");
    for (level, runs) in version.levels.iter().enumerate() {
        let files: usize = runs.iter().map(|r| r.tables.len()).sum();
        let _ = writeln!(out, "{level:5} {files:5} {:8}", version.level_bytes(level) >> 20);
    }
    out
}
