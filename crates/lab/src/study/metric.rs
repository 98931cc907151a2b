//! The figures of a run that studies compare.

use crate::result::{Latency, LevelResult, Zones};
use crate::run::{PhaseRecord, RunRecord, Second};
use crate::statistics::mean;
use crate::system::{FLUSHES, INDEX_BYTES};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A figure of a run, over some of its phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Bytes written to the store over bytes written by the user.
    WriteAmplification,
    /// Bytes of the store over bytes of live keys and values, when the last phase ended.
    SpaceAmplification,
    /// Largest resident set, bytes; of a server and its children the largest proportional set.
    PeakMemory,
    /// Operations over the time of the phases that have operations.
    OperationsPerSecond,
    /// Operations over the time of all phases, including those that only wait for merges.
    OperationsPerSecondOfAll,
    /// Median of latency, the worst of the phases, nanoseconds.
    P50Latency,
    /// 99th percentile of latency, the worst of the phases, nanoseconds.
    P99Latency,
    /// 99.9th percentile of latency, the worst of the phases, nanoseconds.
    P999Latency,
    /// The mean latency of reads of one key, nanoseconds.
    ReadLatency,
    /// CPU time of all threads, background work included, over operations, nanoseconds.
    CpuPerOperation,
    /// Bytes returned by read calls of the process, over operations.
    ReadPerOperation,
    /// Bytes of all files of the store, when the last phase ended.
    StoreBytes,
    /// Share of block-cache lookups for data that found it uncompressed.
    CacheHits,
    /// Share of block-cache lookups for data that found it compressed.
    CompressedCacheHits,
    /// Seconds of the phases that have operations.
    RunTime,
    /// Tables on the last level of the first family, when the last phase ended.
    LastLevelTables,
    /// Bytes of tables on the last level of the first family, when the last phase ended.
    LastLevelBytes,
    /// Flushes that wrote tables.
    Flushes,
    /// Bytes written by flushes over their number.
    FlushedTableBytes,
    /// Mean size of all tables, when the last phase ended, bytes.
    TableBytes,
    /// Bytes of the indexes in all tables, when the last phase ended.
    IndexBytes,
    /// Bytes read from tables of the last level over all bytes read from tables, reads of compactions included.
    LastLevelByteRatio,
    /// Reads answered above the last level, that is by the fast tier, as a share of the reads that found something. Known for trees of
    /// three levels, because deeper levels are counted together.
    FastReads,
    /// Share of the bytes of tables that lie above the last level: the mean over the ends of the phases.
    FastBytes,
    /// `FastReads` if `FastBytes` is at most [`BUDGET`], else 0.
    FastReadsInBudget,
    /// Age at which data may be demoted (`preclude_last_level_data_seconds`) as a share of the run's time, by the engine's clock. Known
    /// where the whole run is measured.
    AgeShare,
    /// Longest wait of a client that only PINGs the server, milliseconds.
    LongestPing,
    /// Peak of a server's memory over its memory at rest, after the last phase.
    PeakOverRest,
    /// Largest size of a server's data on disk at any moment, bytes.
    PeakDisk,
    /// Share of a core that the client of a server used.
    ClientCore,
    /// Rewrites of a server's log.
    LogRewrites,
    /// Share of the phases that were finished: for a load in equal parts, the part that fitted the medium. Known also for runs that filled
    /// it ([`crate::study::plan::Cell::may_fill`]).
    FinishedShare,
    /// Bytes that the collector of a zoned store moved.
    ZoneMoved,
    /// Tables that the collector of a zoned store moved.
    MovedTables,
    /// Resets of zones for files.
    ZoneResets,
    /// Resets of zones into which a log was written since their last reset.
    LogZoneResets,
    /// Resets of zones that the collector had emptied, part of `ZoneResets`.
    CollectionResets,
    /// Resets of zones of short lifetime: that of the first file in the zone.
    ShortZoneResets,
    /// Resets of zones of medium lifetime: that of the first file in the zone.
    MediumZoneResets,
    /// Resets of zones of long lifetime: that of the first file in the zone.
    LongZoneResets,
    /// Resets of zones of extreme lifetime: that of the first file in the zone.
    ExtremeZoneResets,
    /// Zones of short lifetime that the collector emptied.
    CollectedShortZones,
    /// Zones of medium lifetime that the collector emptied.
    CollectedMediumZones,
    /// Zones of long lifetime that the collector emptied.
    CollectedLongZones,
    /// Zones of extreme lifetime that the collector emptied.
    CollectedExtremeZones,
    /// Dead bytes of files of short lifetime in zones that the collector emptied.
    CollectedShortDead,
    /// Dead bytes of files of medium lifetime in zones that the collector emptied.
    CollectedMediumDead,
    /// Dead bytes of files of long lifetime in zones that the collector emptied.
    CollectedLongDead,
    /// Dead bytes of files of extreme lifetime in zones that the collector emptied.
    CollectedExtremeDead,
    /// Resets over the fewest possible: the bytes that the host wrote and that no longer lie below a write pointer in the end, in full
    /// zones.
    ZoneResetsOverLeast,
    /// Zones finished before they were full.
    ZoneFinishes,
    /// Capacity that the drive filled to finish zones, bytes.
    ZonePadding,
    /// Zones for files that hold any written bytes, in the end.
    ZonesUsed,
    /// `ZonesUsed` over the fewest zones that could hold the live bytes.
    ZonesUsedOverLeast,
    /// Bytes of live files over the capacity for files, in the end.
    ZoneUtilisation,
    /// Bytes of keys and values that the user wrote.
    UserBytes,
}

/// Largest accepted share of the bytes of tables on the fast tier.
pub const BUDGET: f64 = 0.25;

impl Metric {
    /// Metrics of the table over all cells, which compares the cells of a user's own workload.
    pub const TABLE: [Metric; 5] =
        [Metric::WriteAmplification, Metric::SpaceAmplification, Metric::PeakMemory, Metric::OperationsPerSecond, Metric::P99Latency];

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Metric::WriteAmplification => "write amplification",
            Metric::SpaceAmplification => "space amplification",
            Metric::PeakMemory => "peak memory",
            Metric::OperationsPerSecond => "operations per second",
            Metric::OperationsPerSecondOfAll => "operations per second, merges included",
            Metric::P50Latency => "median of latency",
            Metric::P99Latency => "99th percentile of latency",
            Metric::P999Latency => "99.9th percentile of latency",
            Metric::ReadLatency => "mean latency of reads",
            Metric::CpuPerOperation => "CPU time per operation",
            Metric::ReadPerOperation => "bytes read from files per operation",
            Metric::StoreBytes => "size on disk",
            Metric::CacheHits => "block cache hits, uncompressed",
            Metric::CompressedCacheHits => "block cache hits, compressed",
            Metric::RunTime => "run time",
            Metric::LastLevelTables => "tables on the last level",
            Metric::LastLevelBytes => "bytes on the last level",
            Metric::Flushes => "flushes",
            Metric::FlushedTableBytes => "bytes per flush",
            Metric::TableBytes => "mean size of a table",
            Metric::IndexBytes => "size of the indexes",
            Metric::LastLevelByteRatio => "bytes read from the last level",
            Metric::FastReads => "reads answered above the last level",
            Metric::FastBytes => "bytes above the last level",
            Metric::FastReadsInBudget => "reads answered above the last level, 0 if that holds more than a quarter",
            Metric::AgeShare => "age limit, as a share of run time",
            Metric::LongestPing => "longest PING",
            Metric::PeakOverRest => "peak memory over memory at rest",
            Metric::PeakDisk => "largest size on disk",
            Metric::ClientCore => "the client's share of a core",
            Metric::LogRewrites => "rewrites of the log",
            Metric::FinishedShare => "share of the load that was done",
            Metric::ZoneMoved => "bytes moved by the collector",
            Metric::ZoneResets => "resets of zones",
            Metric::LogZoneResets => "resets of zones with logs",
            Metric::MovedTables => "tables moved by the collector",
            Metric::CollectionResets => "resets of zones that the collector emptied",
            Metric::ShortZoneResets => "resets of zones, short lifetime",
            Metric::MediumZoneResets => "resets of zones, medium lifetime",
            Metric::LongZoneResets => "resets of zones, long lifetime",
            Metric::ExtremeZoneResets => "resets of zones, extreme lifetime",
            Metric::CollectedShortZones => "collected zones, short lifetime",
            Metric::CollectedMediumZones => "collected zones, medium lifetime",
            Metric::CollectedLongZones => "collected zones, long lifetime",
            Metric::CollectedExtremeZones => "collected zones, extreme lifetime",
            Metric::CollectedShortDead => "dead bytes in collected zones, short lifetime",
            Metric::CollectedMediumDead => "dead bytes in collected zones, medium lifetime",
            Metric::CollectedLongDead => "dead bytes in collected zones, long lifetime",
            Metric::CollectedExtremeDead => "dead bytes in collected zones, extreme lifetime",
            Metric::ZoneResetsOverLeast => "resets of zones over the least possible",
            Metric::ZoneFinishes => "zones finished early",
            Metric::ZonePadding => "bytes that finishing filled",
            Metric::ZonesUsed => "zones in use",
            Metric::ZonesUsedOverLeast => "zones in use over the least possible",
            Metric::ZoneUtilisation => "share of the zones' capacity that lives",
            Metric::UserBytes => "bytes written by the user",
        }
    }

    /// Whether more is better; `None` for a figure that is neither good nor bad.
    pub fn more_is_better(self) -> Option<bool> {
        match self {
            Metric::OperationsPerSecond
            | Metric::OperationsPerSecondOfAll
            | Metric::CacheHits
            | Metric::CompressedCacheHits
            | Metric::FastReads
            | Metric::FastReadsInBudget
            | Metric::FinishedShare
            | Metric::ZoneUtilisation => Some(true),
            Metric::LastLevelTables
            | Metric::LastLevelByteRatio
            | Metric::FastBytes
            | Metric::AgeShare
            | Metric::ClientCore
            | Metric::LogRewrites => None,
            _ => Some(false),
        }
    }

    /// Unit for people, and its size in units of the figure.
    pub fn unit(self) -> (&'static str, f64) {
        match self {
            Metric::WriteAmplification
            | Metric::SpaceAmplification
            | Metric::OperationsPerSecond
            | Metric::OperationsPerSecondOfAll
            | Metric::LastLevelTables
            | Metric::Flushes
            | Metric::PeakOverRest
            | Metric::LogRewrites
            | Metric::ZoneResets
            | Metric::LogZoneResets
            | Metric::ZoneResetsOverLeast
            | Metric::ZoneFinishes
            | Metric::ZonesUsed
            | Metric::ZonesUsedOverLeast
            | Metric::MovedTables
            | Metric::CollectionResets => ("", 1.0),
            Metric::ShortZoneResets | Metric::MediumZoneResets | Metric::LongZoneResets | Metric::ExtremeZoneResets => ("", 1.0),
            Metric::CollectedShortZones | Metric::CollectedMediumZones | Metric::CollectedLongZones | Metric::CollectedExtremeZones => {
                ("", 1.0)
            }
            Metric::CollectedShortDead | Metric::CollectedMediumDead | Metric::CollectedLongDead | Metric::CollectedExtremeDead => {
                ("MiB", 1_048_576.0)
            }
            Metric::LongestPing => ("ms", 1.0),
            Metric::RunTime => ("s", 1.0),
            Metric::P50Latency | Metric::P99Latency | Metric::P999Latency | Metric::ReadLatency | Metric::CpuPerOperation => ("µs", 1e3),
            Metric::ReadPerOperation => ("B", 1.0),
            Metric::PeakMemory | Metric::StoreBytes | Metric::PeakDisk | Metric::ZoneMoved | Metric::ZonePadding => ("MiB", 1_048_576.0),
            Metric::UserBytes | Metric::LastLevelBytes | Metric::FlushedTableBytes | Metric::TableBytes => ("MiB", 1_048_576.0),
            Metric::IndexBytes => ("KiB", 1024.0),
            Metric::CacheHits | Metric::CompressedCacheHits | Metric::LastLevelByteRatio => ("%", 0.01),
            Metric::FastReads | Metric::FastBytes | Metric::FastReadsInBudget | Metric::AgeShare => ("%", 0.01),
            Metric::ClientCore | Metric::FinishedShare | Metric::ZoneUtilisation => ("%", 0.01),
        }
    }

    /// The figure of the named phases together; `None` where a phase is missing or the figure has no meaning.
    pub fn of(self, record: &RunRecord, phases: &[String]) -> Option<f64> {
        if self == Metric::FinishedShare {
            let done = phases.iter().filter(|name| record.phases.iter().any(|phase| phase.name == **name)).count();
            return per(done as f64, phases.len() as f64);
        }
        let found = find(record, phases)?;
        if let Some(zones) = on_zones(record, &found)
            && let Some(figure) = zones.figure(self)
        {
            return Some(figure);
        }
        match self {
            Metric::WriteAmplification => {
                let total: u64 = found.iter().map(|phase| phase.written.total_bytes).sum();
                per(total as f64, user_bytes(&found))
            }
            Metric::SpaceAmplification => found.last()?.space.space_amplification,
            Metric::PeakMemory => found.iter().map(|phase| phase.memory.peak_resident_bytes as f64).reduce(f64::max),
            Metric::OperationsPerSecond => per(operations(&found), run_time(&found)),
            Metric::OperationsPerSecondOfAll => per(operations(&found), found.iter().map(|phase| phase.seconds).sum()),
            Metric::P50Latency => worst(&found, |latency| latency.p50),
            Metric::P99Latency => worst(&found, |latency| latency.p99),
            Metric::P999Latency => worst(&found, |latency| latency.p999),
            Metric::ReadLatency => {
                let reads = || found.iter().flat_map(|phase| &phase.latency_by_operation).filter(|(name, _)| name.ends_with(" get"));
                let count = |of: &dyn Fn(&Latency) -> f64| reads().map(|(_, latency)| of(latency)).sum::<f64>();
                per(count(&|latency| latency.count as f64 * latency.mean), count(&|latency| latency.count as f64))
            }
            Metric::CpuPerOperation => per(found.iter().map(|phase| phase.cpu_seconds * 1e9).sum(), operations(&found)),
            Metric::ReadPerOperation => {
                let bytes: Option<u64> = found.iter().map(|phase| phase.process_read_bytes).sum();
                per(bytes? as f64, operations(&found))
            }
            Metric::StoreBytes => found.last().map(|phase| phase.space.store_bytes as f64).filter(|bytes| *bytes > 0.0),
            Metric::CacheHits => cache(record, phases).and_then(|cache| cache.share(cache.hits)),
            Metric::CompressedCacheHits => cache(record, phases).and_then(|cache| cache.share(cache.compressed_hits?)),
            Metric::RunTime => Some(run_time(&found)).filter(|seconds| *seconds > 0.0),
            Metric::LastLevelTables
            | Metric::LastLevelBytes
            | Metric::Flushes
            | Metric::FlushedTableBytes
            | Metric::TableBytes
            | Metric::IndexBytes
            | Metric::LastLevelByteRatio
            | Metric::FastReads
            | Metric::FastBytes
            | Metric::FastReadsInBudget => self.of_tables(record, phases, &found),
            Metric::AgeShare => age_share(record, &found),
            Metric::LongestPing => seen(&found).filter_map(|second| second.longest_ping_ns).max().map(|ns| ns as f64 / 1e6),
            Metric::PeakOverRest => {
                record.spec.engine.server.as_ref()?;
                per(Metric::PeakMemory.of(record, phases)?, found.last()?.proportional_bytes as f64)
            }
            Metric::PeakDisk => {
                record.spec.engine.server.as_ref()?;
                seen(&found).map(|second| second.disk_bytes as f64).reduce(f64::max)
            }
            Metric::ClientCore => {
                let asked = || found.iter().filter_map(|phase| Some((phase.client_cpu_seconds?, phase.seconds)));
                per(asked().map(|(cpu, _)| cpu).sum(), asked().map(|(_, seconds)| seconds).sum())
            }
            Metric::LogRewrites => Some(ticked(record, phases, "aof_rewrites")? as f64),
            Metric::UserBytes => Some(user_bytes(&found)),
            // Figures of zones, of a store without them.
            _ => None,
        }
    }
}

impl Metric {
    /// The figure of a metric of flushes, tables and levels; `None` for other metrics.
    fn of_tables(self, record: &RunRecord, phases: &[String], found: &[&PhaseRecord]) -> Option<f64> {
        match self {
            Metric::LastLevelTables => Some(last_level(record, found.last()?).0.files as f64),
            Metric::LastLevelBytes => Some(last_level(record, found.last()?).0.bytes as f64),
            Metric::Flushes => ticked(record, phases, FLUSHES).map(|flushes| flushes as f64),
            Metric::FlushedTableBytes => per(flushed_bytes(found), ticked(record, phases, FLUSHES)? as f64),
            Metric::TableBytes => table_bytes(found.last()?),
            Metric::IndexBytes => found.last()?.tickers.get(INDEX_BYTES).map(|bytes| *bytes as f64),
            Metric::LastLevelByteRatio => {
                let [last, others] = LEVEL_READS.map(|name| counted(record, phases, name));
                per(last, last + others)
            }
            Metric::FastReads => fast_reads(record, phases),
            Metric::FastBytes => mean(&found.iter().filter_map(|phase| fast_bytes(record, phase)).collect::<Vec<_>>()),
            Metric::FastReadsInBudget => {
                let within = Metric::FastBytes.of(record, phases)? <= BUDGET;
                Some(if within { fast_reads(record, phases)? } else { 0.0 })
            }
            _ => None,
        }
    }
}

/// Time series of some phases.
fn seen<'a>(phases: &'a [&PhaseRecord]) -> impl Iterator<Item = &'a Second> {
    phases.iter().flat_map(|phase| &phase.series)
}

/// Zone activity of a run: at the end of the last of some phases, in all phases up to it (the drive was new when the run began), and in the
/// requested phases.
struct OnZones<'a> {
    now: &'a Zones,
    whole: Vec<&'a Zones>,
    asked: Vec<&'a Zones>,
}

/// Collects the zone activity of a run; `None` if the store does not lie on zones.
fn on_zones<'a>(record: &'a RunRecord, phases: &[&'a PhaseRecord]) -> Option<OnZones<'a>> {
    let last = phases.last()?;
    let until = record.phases.iter().position(|phase| phase.name == last.name)?;
    let of = |phase: &'a PhaseRecord| phase.zones.as_ref();
    Some(OnZones {
        now: of(last)?,
        whole: record.phases[..=until].iter().filter_map(of).collect(),
        asked: phases.iter().copied().filter_map(of).collect(),
    })
}

/// Causes of bytes written by the host, by the names of [`sinter_storage::store::Beneath::lines`].
const OF_HOST: [&str; 3] = ["files", "frame heads", "block padding"];

impl OnZones<'_> {
    /// The figure of a zone metric; `None` for other metrics, for figures without a meaning, and for counts that the record does not have.
    fn figure(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::ZoneMoved => Some(OnZones::bytes(&self.asked, &["zone collection"])),
            Metric::ZoneResets => Some(OnZones::count(&self.asked, file_resets)),
            Metric::LogZoneResets => self.asked.iter().map(|zones| zones.resets_of_logs.map(|count| count as f64)).sum(),
            Metric::CollectionResets => Some(OnZones::count(&self.asked, |zones| zones.collected)),
            Metric::MovedTables => self.asked.iter().map(|zones| zones.moved_tables.map(|count| count as f64)).sum(),
            Metric::ZoneResetsOverLeast => self.resets_over_least(),
            Metric::ZoneFinishes => Some(OnZones::count(&self.asked, |zones| zones.finishes)),
            Metric::ZonePadding => Some(OnZones::bytes(&self.asked, &["zone finish"])),
            Metric::ZonesUsed => Some(f64::from(self.now.used)),
            // Fewest zones that could hold the live bytes.
            Metric::ZonesUsedOverLeast => per(f64::from(self.now.used), (self.now.live_bytes as f64 / self.zone_bytes()).ceil()),
            Metric::ZoneUtilisation => per(self.now.live_bytes as f64, self.now.capacity_bytes as f64),
            _ => self.of_lifetime(metric),
        }
    }

    /// A count by lifetime.
    fn of_lifetime(&self, metric: Metric) -> Option<f64> {
        type Counts = fn(&Zones) -> &BTreeMap<String, u64>;
        let (counts, lifetime): (Counts, &str) = match metric {
            Metric::ShortZoneResets => (|zones| &zones.resets_by_lifetime, "short"),
            Metric::MediumZoneResets => (|zones| &zones.resets_by_lifetime, "medium"),
            Metric::LongZoneResets => (|zones| &zones.resets_by_lifetime, "long"),
            Metric::ExtremeZoneResets => (|zones| &zones.resets_by_lifetime, "extreme"),
            Metric::CollectedShortZones => (|zones| &zones.collected_by_lifetime, "short"),
            Metric::CollectedMediumZones => (|zones| &zones.collected_by_lifetime, "medium"),
            Metric::CollectedLongZones => (|zones| &zones.collected_by_lifetime, "long"),
            Metric::CollectedExtremeZones => (|zones| &zones.collected_by_lifetime, "extreme"),
            Metric::CollectedShortDead => (|zones| &zones.collected_dead_bytes, "short"),
            Metric::CollectedMediumDead => (|zones| &zones.collected_dead_bytes, "medium"),
            Metric::CollectedLongDead => (|zones| &zones.collected_dead_bytes, "long"),
            Metric::CollectedExtremeDead => (|zones| &zones.collected_dead_bytes, "extreme"),
            _ => return None,
        };
        self.asked.iter().map(|zones| counts(zones).get(lifetime).map(|count| *count as f64)).sum()
    }

    /// Bytes of some causes, in some of the phases.
    fn bytes(phases: &[&Zones], causes: &[&str]) -> f64 {
        let lines = phases.iter().flat_map(|zones| &zones.by_cause);
        lines.filter(|line| causes.contains(&line.cause.as_str())).map(|line| line.bytes as f64).sum()
    }

    fn count(phases: &[&Zones], of: impl Fn(&Zones) -> u64) -> f64 {
        phases.iter().map(|zones| of(zones) as f64).sum()
    }

    fn zone_bytes(&self) -> f64 {
        self.now.capacity_bytes as f64 / f64::from(self.now.zones.max(1))
    }

    /// File-zone resets over the fewest possible; bytes that still lie below write pointers needed no reset yet.
    fn resets_over_least(&self) -> Option<f64> {
        let least = (OnZones::bytes(&self.whole, &OF_HOST) - self.now.written_bytes as f64) / self.zone_bytes();
        // For a drive that was hardly written no ratio makes sense.
        (least >= 1.0).then(|| OnZones::count(&self.whole, file_resets) / least)
    }
}

/// Resets of zones for files.
fn file_resets(zones: &Zones) -> u64 {
    zones.resets.saturating_sub(zones.metadata_resets)
}

fn run_time(phases: &[&PhaseRecord]) -> f64 {
    phases.iter().filter(|phase| phase.operations > 0).map(|phase| phase.seconds).sum()
}

/// A numeric setting of the first family.
fn setting(record: &RunRecord, name: &str) -> Option<f64> {
    record.spec.engine.families.first()?.settings.get(name)?.parse().ok()
}

/// Default number of levels of all engines.
const LEVELS: f64 = 7.0;

/// The last level of the first family, and the sum of all levels, at the end of a phase. Records may leave out levels without files.
fn last_level(record: &RunRecord, phase: &PhaseRecord) -> (LevelResult, LevelResult) {
    let last = setting(record, "num_levels").unwrap_or(LEVELS) as usize - 1;
    let levels = || record.spec.engine.families.first().and_then(|family| phase.levels.get(&family.name)).into_iter().flatten();
    let sum = |of: &dyn Fn(&LevelResult) -> bool| {
        let chosen = || levels().filter(|level| of(level));
        let (files, bytes) = (chosen().map(|level| level.files).sum(), chosen().map(|level| level.bytes).sum());
        LevelResult { level: last, runs: chosen().map(|level| level.runs).sum(), files, bytes }
    };
    (sum(&|level| level.level == last), sum(&|_| true))
}

/// Bytes that the engine's account names as those of flushes.
fn flushed_bytes(phases: &[&PhaseRecord]) -> f64 {
    let lines = phases.iter().flat_map(|phase| &phase.written.by_cause);
    lines.filter(|line| line.cause == FLUSH).map(|line| line.bytes as f64).sum()
}

/// Cause of bytes written by flushes, on all engines that keep an account.
const FLUSH: &str = "flush";

fn table_bytes(phase: &PhaseRecord) -> Option<f64> {
    let sum = |of: &dyn Fn(&LevelResult) -> f64| phase.levels.values().flatten().map(of).sum::<f64>();
    per(sum(&|level| level.bytes as f64), sum(&|level| level.files as f64))
}

fn fast_bytes(record: &RunRecord, phase: &PhaseRecord) -> Option<f64> {
    let (last, all) = last_level(record, phase);
    per((all.bytes - last.bytes) as f64, all.bytes as f64)
}

/// Number of levels whose answers are counted apart: 0, 1, and all deeper ones together.
const COUNTED_LEVELS: f64 = 3.0;

fn fast_reads(record: &RunRecord, phases: &[String]) -> Option<f64> {
    if setting(record, "num_levels") != Some(COUNTED_LEVELS) {
        return None;
    }
    let upper: f64 = UPPER_HITS.iter().map(|name| counted(record, phases, name)).sum();
    per(upper, upper + counted(record, phases, LAST_HITS))
}

/// Tickers of reads answered by memtables and by levels 0 and 1.
const UPPER_HITS: [&str; 3] = ["rocksdb.memtable.hit", "rocksdb.l0.hit", "rocksdb.l1.hit"];
/// Ticker of reads answered by deeper levels.
const LAST_HITS: &str = "rocksdb.l2andup.hit";

fn age_share(record: &RunRecord, phases: &[&PhaseRecord]) -> Option<f64> {
    let whole = record.phases.iter().all(|phase| phase.operations == 0 || phases.iter().any(|other| other.name == phase.name));
    if !whole {
        return None;
    }
    let seconds = match record.spec.engine.operations_per_clock_second {
        None => run_time(phases),
        Some(rate) => operations(phases) / rate,
    };
    per(setting(record, "preclude_last_level_data_seconds")?, seconds)
}

fn worst(phases: &[&PhaseRecord], of: impl Fn(&Latency) -> u64) -> Option<f64> {
    phases.iter().filter_map(|phase| Some(of(phase.latency.as_ref()?) as f64)).reduce(f64::max)
}

fn operations(phases: &[&PhaseRecord]) -> f64 {
    phases.iter().map(|phase| phase.operations as f64).sum()
}

/// Lookups of the block cache for data, and hits among them.
#[derive(Clone, Copy)]
struct CacheUse {
    looks: u64,
    hits: u64,
    /// Hits of compressed data; `None` if the engine has no compressed part, or does not count.
    compressed_hits: Option<u64>,
}

impl CacheUse {
    fn share(&self, hits: u64) -> Option<f64> {
        per(hits as f64, self.looks as f64)
    }
}

/// Lookups and hits of the block cache in some phases, by the tickers that engines share: RocksDB's. SinterDB counts nothing on a hit; for
/// it, the reads that no memtable answered are the lookups (a read that looks into several tables counts once), and lookups that did not
/// miss are hits. Data found compressed is a miss of the uncompressed part. `None` where the counters do not suffice.
fn cache(record: &RunRecord, phases: &[String]) -> Option<CacheUse> {
    let ticked = |name: &str| ticked(record, phases, name);
    let or_none = |name: &str| ticked(name).unwrap_or(0);
    let compressed_hits = ticked(COMPRESSED_HIT);
    if let Some(hits) = ticked(DATA_HIT) {
        return Some(CacheUse { looks: hits + or_none(DATA_MISS), hits, compressed_hits });
    }
    // Iterators make lookups, too, an unknown number.
    if or_none("rocksdb.number.db.seek") > 0 {
        return None;
    }
    let reads = or_none("rocksdb.number.keys.read") + or_none("rocksdb.number.multiget.keys.read");
    let looks = reads.saturating_sub(or_none("rocksdb.memtable.hit"));
    Some(CacheUse { looks, hits: looks.checked_sub(ticked(DATA_MISS)?)?, compressed_hits })
}

/// Growth of a counter over some phases; `None` where none of them has it.
fn ticked(record: &RunRecord, phases: &[String], name: &str) -> Option<u64> {
    let at = |phase: &PhaseRecord| phase.tickers.get(name).copied();
    let places = record.phases.iter().enumerate().filter(|(_, phase)| phases.contains(&phase.name));
    let grown = |(place, phase): (usize, &PhaseRecord)| {
        let before = place.checked_sub(1).and_then(|before| at(&record.phases[before])).unwrap_or(0);
        at(phase).map(|now| now.saturating_sub(before))
    };
    // A counter that some phases leave out was 0 until then.
    places.filter_map(grown).reduce(|a, b| a + b)
}

/// Growth of a counter that records leave out while it is 0.
fn counted(record: &RunRecord, phases: &[String], name: &str) -> f64 {
    let at = |phase: &PhaseRecord| phase.tickers.get(name).copied().unwrap_or(0);
    let places = record.phases.iter().enumerate().filter(|(_, phase)| phases.contains(&phase.name));
    places.map(|(place, phase)| at(phase).saturating_sub(place.checked_sub(1).map_or(0, |before| at(&record.phases[before]))) as f64).sum()
}

/// Tickers of bytes read from tables of the last level, and of all other levels.
const LEVEL_READS: [&str; 2] = ["rocksdb.last.level.read.bytes", "rocksdb.non.last.level.read.bytes"];

/// Tickers of the block cache, by RocksDB's names. Records leave out those that are 0.
const DATA_MISS: &str = "rocksdb.block.cache.data.miss";
const DATA_HIT: &str = "rocksdb.block.cache.data.hit";
const COMPRESSED_HIT: &str = "rocksdb.compressed.secondary.cache.hits";

/// Write amplification by cause: bytes of each over bytes written by the user. Compactions are grouped by level, whatever their reason, so
/// that few enough causes remain to be compared.
pub fn by_cause(record: &RunRecord, phases: &[String]) -> Option<BTreeMap<String, f64>> {
    let found = find(record, phases)?;
    let user = user_bytes(&found);
    let mut causes = BTreeMap::new();
    for line in found.iter().flat_map(|phase| &phase.written.by_cause) {
        let cause = line.cause.split(',').next().unwrap_or_default().to_string();
        *causes.entry(cause).or_insert(0.0) += per(line.bytes as f64, user)?;
    }
    Some(causes)
}

fn find<'a>(record: &'a RunRecord, phases: &[String]) -> Option<Vec<&'a PhaseRecord>> {
    phases.iter().map(|name| record.phases.iter().find(|phase| phase.name == *name)).collect()
}

fn user_bytes(phases: &[&PhaseRecord]) -> f64 {
    phases.iter().map(|phase| phase.written.user_bytes as f64).sum()
}

fn per(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

#[cfg(test)]
mod tests {
    use super::super::plan::Scale;
    use super::super::{catalogue, testing};
    use super::*;
    use crate::result::{CauseBytes, Written};

    /// Counters stand for everything since the store was opened; sizes are those of the moment.
    #[test]
    fn flushes_and_tables_are_counted_by_phase() {
        let study = catalogue::study("compaction-wal-waf", Scale::Ci, &testing::request(&["sinter"], 1)).unwrap();
        let level = |level, files, bytes| LevelResult { level, runs: 1, files, bytes };
        let by_cause = ["wal", "flush", "compaction to L1, level-size"].map(|cause| CauseBytes { cause: cause.to_string(), bytes: 600 });
        let figures = PhaseRecord {
            levels: BTreeMap::from([("default".to_string(), vec![level(0, 1, 100), level(1, 3, 500)])]),
            written: Written { by_cause: by_cause.to_vec(), ..Written::default() },
            ..PhaseRecord::default()
        };
        let mut record = testing::record(study.spec(&study.runs()[0]).unwrap(), &figures);
        let names: Vec<String> = record.phases.iter().map(|phase| phase.name.clone()).collect();
        for (nth, phase) in (1..).zip(&mut record.phases) {
            phase.tickers = BTreeMap::from([(FLUSHES.to_string(), 4 * nth), (INDEX_BYTES.to_string(), 70 + nth)]);
        }
        let of = |metric: Metric| metric.of(&record, &names[1..3]);
        assert_eq!([of(Metric::Flushes), of(Metric::FlushedTableBytes)], [Some(8.0), Some(150.0)]);
        assert_eq!([of(Metric::TableBytes), of(Metric::IndexBytes)], [Some(150.0), Some(73.0)]);
        record.phases.iter_mut().for_each(|phase| phase.tickers.clear());
        let unknown = [Metric::Flushes, Metric::FlushedTableBytes, Metric::IndexBytes].map(|metric| metric.of(&record, &names[1..3]));
        assert_eq!(unknown, [None; 3], "fjall counts none");
    }
}
