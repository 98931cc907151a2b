//! Study 4, after a study of 2023 on RocksDB 8 and ZenFS over an emulated drive: which zone should a file be written into, and when should
//! a fully dead zone be reset? The engine flushes and compacts by threads, as in the original, and zones are counted at rest, once no work
//! is due. Beside the original's policies stand others and our own, with a limit of active zones, as on real drives, and without, as in the
//! original; and keys with distinguishable lifetimes, which uniform ones do not have.

mod cells;
mod claims;
#[cfg(test)]
mod tests;

use super::metric::Metric;
use super::plan::{Comparison, Request, Scale, Study};
use crate::run::ZONE_BLOCK;
use sinterdb::internal::settings::format_bytes;
use std::collections::BTreeSet;

/// Name of the study on the command line.
pub const NAME: &str = "zone-allocation";

/// Engine with a zoned store.
const OWN: &str = "sinter";

/// Policies of a zoned store.
struct Policy {
    name: &'static str,
    allocation: &'static str,
    reset: &'static str,
    /// Policy that chooses the next zone of the collector.
    collector: &'static str,
    /// Whether the store takes another zone, or waits, where its policy finds none.
    fallback: bool,
    /// Whether the engine knows the size of zones.
    tells: bool,
}

const fn policy(name: &'static str, allocation: &'static str, reset: &'static str) -> Policy {
    Policy { name, allocation, reset, collector: "greedy", fallback: true, tells: false }
}

/// A policy as the original had it: with ZenFS's collector, and an error where no zone is found.
const fn published(name: &'static str, allocation: &'static str, reset: &'static str) -> Policy {
    Policy { collector: "zenfs", fallback: false, ..policy(name, allocation, reset) }
}

/// The original's policies and those it was compared with; the best of them with a collector that keeps it running; one by level; and our
/// own.
static POLICIES: [Policy; 9] = [
    published(ZENFS, "zenfs", "eager"),
    published("wla", "wla", "eager"),
    published("wla lzr", "wla", "lzr"),
    published("sla", "sla", "eager"),
    published(SLA, "sla", "lzr"),
    policy(SLA_GREEDY, "sla", "lzr"),
    policy("per-level lzr", "per-level", "lzr"),
    policy(UNTOLD, "sinter", "sinter"),
    Policy { tells: true, ..policy(SINTER, "sinter", "sinter") },
];

/// Names of our own policy, of ZenFS, and of the published policy that ours is compared with.
const SINTER: &str = "sinter";
const UNTOLD: &str = "sinter untold";
const ZENFS: &str = "zenfs";
const SLA: &str = "sla lzr";
/// [`SLA`] with our collector and fallback.
const SLA_GREEDY: &str = "sla lzr greedy";

/// Limits of active zones: none, as in the original, and that of a real drive (Ultrastar DC ZN540).
const LIMITS: [Option<u32>; 2] = [None, Some(14)];

/// Background jobs of the engine: RocksDB's default, as in the original.
const JOBS: u32 = 2;

/// Distributions of the keys that are put, by name.
const LAWS: [&str; 3] = ["uniform", "zipf 0.9", "mixed"];

/// A zone before it is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Zone {
    /// Bytes from the start of one zone to the start of the next.
    bytes: u64,
    /// Writable bytes.
    capacity: u64,
}

impl Zone {
    const fn whole(bytes: u64) -> Zone {
        Zone { bytes, capacity: bytes }
    }
}

/// Zones of the original's drive.
const ZONES: u32 = 256;
const ZONE: Zone = Zone::whole(128 << 20);
/// Tables, and memtables, per zone of the original's drive.
const PER_ZONE: f64 = 2.0;
/// Zone of a real drive (Ultrastar DC ZN540).
const REAL: Zone = Zone { bytes: 2048 << 20, capacity: 1077 << 20 };
/// Tables per zone of [`REAL`]: about as large as the original's.
const REAL_PER_ZONE: f64 = 16.0;
/// Target of level 1, bytes, and size of each level over that of the level above.
const BASE: u64 = 256 << 20;
const FAN_OUT: f64 = 2.0;
/// Bytes of a key and a value of the original.
const KEY: usize = 16;
const VALUE: usize = 100;

/// Keys and values that are put, in tenths of 10^9 bytes: more than ZenFS found space for; for the count of its resets; for its zones and
/// its collector.
const FULL: u64 = 270;
const COUNTED: u64 = 210;
const USED: u64 = 224;

/// Smaller drives for the data of C: name, and about the live share of their capacity in the end.
const TIGHT: [(&str, f64); 2] = [("60 %", 0.60), ("85 %", 0.85)];

/// Zones that the live data of C fill in the end, with keys drawn uniformly (131.6 at the original's geometry).
const LIVES: u32 = 132;

/// Number of zones for metadata.
const METADATA: u32 = 2;

/// Zones of a drive whose live share is `share`.
fn tight(share: f64) -> u32 {
    (f64::from(LIVES) / share).round() as u32 + METADATA
}

/// Sizes of the experiments at a scale. The drive has the same number of zones at each scale, so that the space of running merges, of open
/// zones and of the collector's reserve is as large a share of it as in the original.
struct Sizes {
    /// Divisor of all lengths.
    divisor: u64,
    /// Bytes of a value. Larger values reach the amount of data with fewer puts.
    value: usize,
    /// Zones of experiment D, and tables in each; a drive has as many zones as the original's capacity needs.
    shapes: &'static [(Zone, f64)],
    /// Puts of skewed loads over puts of the uniform one.
    skewed: u64,
    /// Whether only the cells run whose results need the original's own sizes.
    core: bool,
    repeats: u32,
}

impl Sizes {
    fn of(scale: Scale) -> Sizes {
        const SHAPES: [(Zone, f64); 3] = [(Zone::whole(64 << 20), PER_ZONE), (ZONE, 8.0), (Zone::whole(512 << 20), PER_ZONE)];
        let paper = Sizes { divisor: 1, value: VALUE, shapes: &SHAPES, skewed: 2, core: true, repeats: 3 };
        match scale {
            Scale::Ci => {
                let shapes = &[(ZONE, 0.5), (ZONE, 1.0)];
                Sizes { divisor: 1024, value: 10 * VALUE, shapes, skewed: 1, core: false, repeats: 2 }
            }
            // A fourth of the original's pairs, four times as large: as many puts as at 1/64 for as many bytes as at 1/16.
            Scale::Small => Sizes { divisor: 16, value: 4 * (KEY + VALUE) - KEY, core: false, repeats: 5, ..paper },
            Scale::Paper => paper,
        }
    }

    /// Number of puts for `tenths` of 10^9 bytes.
    fn puts(&self, tenths: u64) -> u64 {
        tenths * 100_000_000 / (KEY + self.value) as u64 / self.divisor
    }

    /// Number and size of zones at this scale that together have the capacity of `zones` of the original's.
    fn drive(&self, zones: u32, zone: Zone) -> (u32, Zone) {
        let all = u64::from(zones) * ZONE.capacity;
        let divided = |bytes: u64| (bytes / self.divisor).next_multiple_of(ZONE_BLOCK);
        let zones = u32::try_from(all.div_ceil(zone.capacity)).unwrap_or(u32::MAX);
        (zones, Zone { bytes: divided(zone.bytes), capacity: divided(zone.capacity) })
    }
}

/// The study.
pub fn study(scale: Scale, request: &Request) -> Study {
    let sizes = Sizes::of(scale);
    let own = request.engines.iter().any(|engine| engine == OWN);
    let (mut cells, mut hypotheses) = if own { (cells::cells(&sizes), claims::claims(&sizes)) } else { (Vec::new(), Vec::new()) };
    if sizes.core {
        cells.retain(cells::is_core);
        let there: BTreeSet<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
        for hypothesis in &mut hypotheses {
            hypothesis.groups.retain(|group| group.any_of.iter().flat_map(about).all(|cell| there.contains(cell)));
        }
        hypotheses.retain(|hypothesis| !hypothesis.groups.is_empty());
    }
    Study {
        questions: questions(&sizes),
        cells,
        hypotheses,
        drawn: SWEPT.into_iter().chain(DRAWN).collect(),
        swept: SWEPT.into(),
        left_out: left_out(&request.engines),
        ..request.study(NAME, "Allocation and reset of zones", Some(scale), sizes.repeats)
    }
}

/// Figures drawn over two factors.
const SWEPT: [Metric; 4] = [Metric::ZoneMoved, Metric::ZonesUsed, Metric::ZonesUsedOverLeast, Metric::ZoneResetsOverLeast];

/// Figures drawn by cell.
const DRAWN: [Metric; 21] = [
    Metric::ZoneResets,
    Metric::CollectionResets,
    Metric::LogZoneResets,
    Metric::ShortZoneResets,
    Metric::MediumZoneResets,
    Metric::LongZoneResets,
    Metric::ExtremeZoneResets,
    Metric::MovedTables,
    Metric::CollectedShortZones,
    Metric::CollectedMediumZones,
    Metric::CollectedLongZones,
    Metric::CollectedExtremeZones,
    Metric::CollectedShortDead,
    Metric::CollectedMediumDead,
    Metric::CollectedLongDead,
    Metric::CollectedExtremeDead,
    Metric::ZoneFinishes,
    Metric::ZonePadding,
    Metric::ZoneUtilisation,
    Metric::FinishedShare,
    Metric::RunTime,
];

/// Names of the cells of a comparison.
fn about(comparison: &Comparison) -> impl Iterator<Item = &str> {
    comparison.above.iter().chain(&comparison.below).map(|term| term.cell.as_str())
}

fn questions(sizes: &Sizes) -> Vec<String> {
    let (zones, zone) = sizes.drive(ZONES, ZONE);
    let (real_zones, real) = sizes.drive(ZONES, REAL);
    let gigabytes = |tenths: u64| format!("{} puts, for {:.1} GB", sizes.puts(tenths), tenths as f64 / 10.0);
    vec![
        format!(
            "Files of a leveled tree with fan-out {FAN_OUT} on an emulated drive of {zones} zones of {}, memtables and tables of half a \
             zone, pairs of {KEY} + {} bytes, log on, no compression, {JOBS} background jobs. Zones are counted once no flush, compaction, \
             reset or collection is due any more. The drive takes no time. ZenFS is the policy of its sources, on our store.",
            format_bytes(zone.capacity),
            sizes.value,
        ),
        format!(
            "A: how much of {} finds room on the drive? B: how many resets do {} cost, and how many of them are of zones of logs? \
             C: how many zones are in use after {}, and how much did the collector move?",
            gigabytes(FULL),
            gigabytes(COUNTED),
            gigabytes(USED),
        ),
        format!(
            "C without a limit of active zones, as in the original, and with 14; at 14 also with keys by Zipf's law (0.9) and mixed: three \
             of four puts go to an eighth of the keys, which lie together. D: the same by size of zones and tables per zone. E: the same \
             data on drives of {} and {} zones, of which then about {} and {} live. F: C with the zones of a real drive, {} of {} each, {} \
             of which can be written, and {REAL_PER_ZONE} tables in each.",
            tight(TIGHT[0].1),
            tight(TIGHT[1].1),
            TIGHT[0].0,
            TIGHT[1].0,
            real_zones,
            format_bytes(real.bytes),
            format_bytes(real.capacity),
        ),
        "Cells of 'no threads' flush and compact in the writer's thread: runs repeat exactly, the writer waits for every merge, and no two \
         merges run at once. No claim is about them."
            .to_string(),
        "The least resets are what the host wrote, less what lies below write pointers in the end, in full zones; the least zones are \
         what lives, in full zones. ZenFS, WLA and SLA have ZenFS's collector and fail where they find no zone, as the original's do; all \
         others have one that empties whatever has the fewest living bytes, and take another zone or wait for it ('sla lzr greedy' is \
         SLA and LZR with that). Only 'sinter' tells the engine how large a zone is, so that merges go by the order of keys, and 'sinter \
         untold' is the same without that."
            .to_string(),
    ]
}

fn left_out(engines: &[String]) -> Vec<String> {
    engines.iter().filter(|engine| *engine != OWN).map(|engine| format!("{engine}: it has no store on zones here")).collect()
}
