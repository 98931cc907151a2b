//! The stores of an open database: a primary one, and tiers if there are any. Each is wrapped in a meter, which counts reads and writes
//! independently of the ledger.

use super::{Db, Inner, callback};
use crate::error::{Error, Result};
use crate::ledger::{HistogramSummary, Latencies, LedgerSnapshot};
use crate::manifest::TierHeat;
use crate::tiering::auto_cutoff::heat;
use crate::tiering::tier_name;
use sinter_storage::store::{Cause, FileId, FileKind, Meter, MeterSnapshot, OpenFiles, Store, Temperature, Tiers};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// One store of the database.
struct Member {
    temperature: Temperature,
    meter: Arc<Meter>,
    /// Durations of reads of single blocks from the store.
    latencies: Arc<Latencies>,
    /// Approximate number of gets that tables of the store answered.
    answered: AtomicU64,
}

/// The stores of a database.
pub(crate) struct Media {
    /// All stores as one.
    pub store: Arc<dyn Store>,
    /// `None`: there is only one.
    pub tiers: Option<Arc<Tiers>>,
    /// The open files of all members.
    pub files: Arc<OpenFiles>,
    /// The primary one first.
    members: Vec<Member>,
    /// Time when the counts of the members began, unix seconds.
    since: OnceLock<u64>,
}

impl Media {
    /// A primary store, and further ones for tables.
    pub fn new(files: &Arc<OpenFiles>, primary: Arc<Meter>, tiers: Vec<(Temperature, Arc<Meter>)>) -> Result<Media> {
        let member = |(temperature, meter)| Member { temperature, meter, latencies: Arc::default(), answered: AtomicU64::default() };
        let below = || tiers.iter().map(|(temperature, meter)| (*temperature, Arc::clone(meter) as Arc<dyn Store>));
        let composed = if tiers.is_empty() { None } else { Some(Arc::new(Tiers::new(primary.clone(), below())?)) };
        let store = composed.clone().map_or_else(|| primary.clone() as Arc<dyn Store>, |tiers| tiers as Arc<dyn Store>);
        let members = std::iter::once((Temperature::Unknown, primary)).chain(tiers).map(member).collect();
        Ok(Media { store, tiers: composed, files: Arc::clone(files), members, since: OnceLock::new() })
    }

    /// Temperature of the store in which a file lies; [`Temperature::Unknown`]: the primary store.
    pub fn place(&self, id: FileId) -> Temperature {
        self.tiers.as_ref().and_then(|tiers| tiers.place(id)).unwrap_or(Temperature::Unknown)
    }

    /// Temperature of the store to which files of this temperature go; [`Temperature::Unknown`]: the primary store.
    pub fn serving(&self, temperature: Temperature) -> Temperature {
        self.tiers.as_ref().map_or(Temperature::Unknown, |tiers| tiers.serving(temperature))
    }

    /// Temperatures that have a store of their own.
    pub fn temperatures(&self) -> impl Iterator<Item = Temperature> {
        self.members.iter().map(|member| member.temperature).filter(|temperature| *temperature != Temperature::Unknown)
    }

    /// The primary store alone. A caller that created files only there can sync its names without waiting for slower tiers.
    pub fn primary(&self) -> &dyn Store {
        self.store_of(Temperature::Unknown).unwrap_or(&*self.store)
    }

    /// Free bytes of a store; [`Temperature::Unknown`] is the primary one. `None`: not known. 0 for a tier that fails to tell.
    pub fn free(&self, place: Temperature) -> Option<u64> {
        let is_primary = place == Temperature::Unknown;
        self.store_of(place).and_then(|store| store.free_bytes().unwrap_or((!is_primary).then_some(0)))
    }

    /// The store of one tier.
    pub fn store_of(&self, temperature: Temperature) -> Option<&dyn Store> {
        self.members.iter().find(|member| member.temperature == temperature).map(|member| &*member.meter as &dyn Store)
    }

    /// Times of reads in the store of a table.
    pub fn latencies(&self, table: u64) -> Option<&Arc<Latencies>> {
        let place = self.place(FileId::table(table));
        self.members.iter().find(|member| member.temperature == place).map(|member| &member.latencies)
    }

    /// Counts a sampled get that a table answered. Does nothing in a database without tiers.
    #[cold]
    pub fn answered(&self, table: u64) {
        let place = self.place(FileId::table(table));
        if let Some(member) = self.members.iter().find(|member| self.tiers.is_some() && member.temperature == place) {
            member.answered.fetch_add(heat::SAMPLED, Ordering::Relaxed);
        }
    }

    /// Number of gets that tables of each store answered since the first call, for the manifest; empty if there were none.
    pub fn heat(&self, now: u64) -> Vec<TierHeat> {
        let since = *self.since.get_or_init(|| now);
        let answered = |member: &Member| member.answered.load(Ordering::Relaxed);
        if self.members.iter().all(|member| answered(member) == 0) {
            return Vec::new();
        }
        let heat = |member: &Member| TierHeat { temperature: member.temperature, answered: answered(member), since, until: now };
        self.members.iter().map(heat).collect()
    }

    /// Reads and writes of all stores together.
    pub fn snapshot(&self) -> MeterSnapshot {
        self.members.iter().fold(MeterSnapshot::default(), |sum, member| sum.and(&member.meter.snapshot()))
    }

    /// Compares the ledger with the bytes that the meter of each store counted as written. The error names the first store that differs.
    pub fn balance(&self, ledger: &LedgerSnapshot) -> std::result::Result<(), String> {
        self.members.iter().try_for_each(|member| {
            let on_tier = |what| if self.tiers.is_none() { what } else { format!("{}: {what}", tier_name(member.temperature)) };
            ledger.on(member.temperature).balance(member.meter.total_written()).map_err(on_tier)
        })
    }
}

/// Contents and activity of one store of a database.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TierStats {
    /// Temperature of the tables that belong there; [`Temperature::Unknown`]: the primary store.
    pub temperature: Temperature,
    /// Directory of the store, or `zoned:` and its drive; `None`: a store that the program passed in.
    pub directory: Option<PathBuf>,
    /// Files of the database in it.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Bytes that can still be written; `None`: the medium does not know.
    pub free: Option<u64>,
    /// Bytes written by cause since the database was opened, from the ledger.
    pub written: Vec<(Cause, u64)>,
    /// Reads since then.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Gets that tables of the store answered, from the block cache or the medium, extrapolated from one in 64. 0 in a database with one
    /// store.
    pub answered: u64,
    /// Duration of a read of one block, microseconds. Timed are the first read of each table and one in 64 of the others; none in a
    /// database without threads.
    pub read_latency: HistogramSummary,
}

impl TierStats {
    /// A line for people.
    fn line(&self) -> String {
        let mut out = tier_name(self.temperature).to_owned();
        let _ = self.directory.iter().try_for_each(|path| write!(out, " ({})", path.display()));
        let free = self.free.map_or_else(String::new, |free| format!(", {free} free"));
        let _ = write!(out, ": {} files, {} bytes{free}; {} reads, {} bytes read", self.files, self.bytes, self.reads, self.read_bytes);
        if self.answered > 0 {
            let _ = write!(out, "; answered about {} gets", self.answered);
        }
        let latency = &self.read_latency;
        if latency.count > 0 {
            let _ = write!(out, "; a read takes {:.1} us, p99 {:.1} us ({} timed)", latency.mean(), latency.p99, latency.count);
        }
        let written = self.written.iter().filter(|(_, bytes)| *bytes > 0).map(|(cause, bytes)| format!("{} {bytes}", cause_name(*cause)));
        let written: Vec<String> = written.collect();
        let _ = write!(out, "; written: {}", if written.is_empty() { "nothing".into() } else { written.join(", ") });
        out
    }
}

fn cause_name(cause: Cause) -> String {
    match cause {
        Cause::Manifest => "manifest".into(),
        Cause::Wal => "log".into(),
        Cause::Flush => "flush".into(),
        Cause::Compaction { to, reason } => format!("level {to} ({})", reason.name()),
        Cause::Checkpoint => "checkpoint".into(),
    }
}

impl Inner {
    /// Each store of the database, the primary one first.
    pub(super) fn tier_stats(&self) -> Vec<TierStats> {
        let ledger = self.ledger.snapshot();
        let named = |wanted| self.settings.tiers.named().find(|(temperature, _)| *temperature == wanted).map(|(_, path)| path);
        let figures = |member: &Member| {
            let is_primary = member.temperature == Temperature::Unknown;
            let files = member.meter.list().unwrap_or_default().into_iter().filter(|(id, _)| is_primary || id.kind == FileKind::Table);
            let (files, bytes) = files.fold((0, 0), |(n, sum), (_, bytes)| (n + 1, sum + bytes));
            let meter = member.meter.snapshot();
            TierStats {
                temperature: member.temperature,
                directory: member.meter.directory().or(named(member.temperature)).map(Into::into),
                files,
                bytes,
                free: member.meter.free_bytes().ok().flatten(),
                written: ledger.on(member.temperature).by_cause(),
                reads: meter.reads,
                read_bytes: meter.read_bytes,
                answered: member.answered.load(Ordering::Relaxed),
                read_latency: member.latencies.summary(),
            }
        };
        self.media.members.iter().map(figures).collect()
    }

    /// `sinterdb.tiers`: a line for each store, then the tables that did not fit where they belong.
    pub(super) fn tier_lines(&self) -> String {
        let stats = self.tier_stats();
        let lines = stats.iter().map(TierStats::line).chain(self.placer.notes());
        lines.map(|line| line + "\n").collect()
    }

    /// Counts of moves, fallbacks and demotions between tiers, under names of this engine.
    pub(super) fn tier_tickers(&self) -> [(&'static str, u64); 6] {
        let (tables, bytes) = self.placer.fallen();
        let (sinkings, sunk) = self.placer.sunk();
        let (moves, moved) = self.moves.done();
        [
            ("sinterdb.tier.move.count", moves),
            ("sinterdb.tier.move.bytes", moved),
            ("sinterdb.tier.fallback.count", tables),
            ("sinterdb.tier.fallback.bytes", bytes),
            ("sinterdb.tier.sunk.count", sinkings),
            ("sinterdb.tier.sunk.bytes", sunk),
        ]
    }

    /// Reads of tables by the temperature that they were written as, under RocksDB's names.
    pub(super) fn temperature_tickers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        const NAMES: [(Temperature, &str, &str); 5] = [
            (Temperature::Hot, "rocksdb.hot.file.read.bytes", "rocksdb.hot.file.read.count"),
            (Temperature::Warm, "rocksdb.warm.file.read.bytes", "rocksdb.warm.file.read.count"),
            (Temperature::Cool, "rocksdb.cool.file.read.bytes", "rocksdb.cool.file.read.count"),
            (Temperature::Cold, "rocksdb.cold.file.read.bytes", "rocksdb.cold.file.read.count"),
            (Temperature::Ice, "rocksdb.ice.file.read.bytes", "rocksdb.ice.file.read.count"),
        ];
        NAMES.into_iter().flat_map(|(temperature, bytes_name, count_name)| {
            let (count, bytes) = self.cache.reads_of(temperature);
            [(bytes_name, bytes), (count_name, count)]
        })
    }
}

impl Db {
    /// Contents and activity of each store of the database, the primary one first. A database without tiers has only that one.
    pub fn tiers(&self) -> Vec<TierStats> {
        if callback::is_readable() { self.inner.tier_stats() } else { Vec::new() }
    }

    /// Temperature of the store in which a table lies; an error if there is no table of that number.
    pub fn tier_of(&self, table: u64) -> Result<Temperature> {
        callback::check_readable()?;
        let known = self.families().iter().any(|family| family.core.view.load().tree.table(table).is_some());
        if known { Ok(self.inner.media.place(FileId::table(table))) } else { Err(Error::invalid(format!("there is no table {table}"))) }
    }
}
