//! Cells of the study: drives, policies, workloads.

use super::{
    BASE, COUNTED, FAN_OUT, FULL, KEY, LAWS, LEVEL, LIMITS, OWN, PER_ZONE, POLICIES, PUBLISHED_SLA, Policy, REAL, REAL_PER_ZONE, SINTER,
    SLA, Sizes, TIGHT, USED, ZONE, ZONES, Zone, tight,
};
use crate::run::{Distribution, EngineSpec, Limits, Mix, Phase, ValueSize, Workload, ZonesSpec};
use crate::study::plan::Cell;
use crate::study::settings::{Shape, database, family, puts, putter};
use std::collections::BTreeMap;

/// Measure of all cells.
pub const RUN: &str = "run";
/// Equal parts of the load of experiment A.
const PARTS: u64 = 27;

/// Zones of experiment D, and tables in each.
pub fn shapes(sizes: &Sizes) -> Vec<(Zone, f64)> {
    let of = |zone: Zone| sizes.tables.iter().map(move |per_zone| (zone, *per_zone));
    // Tables larger than level 1 make no tree.
    sizes.zones.iter().copied().flat_map(of).filter(|(zone, per_zone)| zone.capacity as f64 / per_zone <= BASE as f64).collect()
}

/// The name of a cell.
pub fn name(experiment: &str, policy: &str, of: &str) -> String {
    format!("{experiment} {policy}, {of}")
}

/// Name of a limit of active zones.
pub fn active(limit: Option<u32>) -> String {
    limit.map_or("no limit".to_string(), |limit| format!("{limit} active"))
}

/// Name of a distribution with a limit.
pub fn drawn(law: &str, limit: Option<u32>) -> String {
    format!("{law}, {}", active(limit))
}

/// Name of a shape of experiment D.
pub fn shape(zone: Zone, per_zone: f64) -> String {
    format!("{} MiB, {per_zone} tables", zone.capacity >> 20)
}

/// Whether the cell is of the case that runs with each policy at every scale.
pub fn is_first(cell: &Cell) -> bool {
    let factor = |name: &str| cell.factors.get(name).map(String::as_str);
    (factor("experiment"), factor("of")) == (Some("C"), Some(&*drawn(LAWS[0], LIMITS[0])))
}

/// Whether the cell runs at the original's own sizes.
pub fn is_core(cell: &Cell) -> bool {
    let factor = |name: &str| cell.factors.get(name).map_or("", String::as_str);
    let [roomy, tight] = TIGHT.map(|(of, _)| of);
    match (factor("experiment"), factor("policy")) {
        ("A", policy) => ["zenfs", SINTER].contains(&policy) && factor("of") == active(None),
        ("C", policy) => ["zenfs", "wla lzr", PUBLISHED_SLA, SLA, SINTER].contains(&policy) && factor("of") == drawn(LAWS[0], LIMITS[0]),
        ("E", SINTER) => [roomy, tight].contains(&factor("of")),
        ("E", SLA) => factor("of") == tight,
        _ => false,
    }
}

/// All cells of the study.
pub fn cells(sizes: &Sizes) -> Vec<Cell> {
    let mut cells = Vec::new();
    for limit in LIMITS {
        let drive = Drive { zones: ZONES, zone: ZONE, per_zone: PER_ZONE, limit };
        cells.extend(POLICIES.iter().map(|policy| cell(sizes, "A", policy, &drive, &active(limit), filled(sizes))));
        cells.extend(POLICIES.iter().map(|policy| cell(sizes, "B", policy, &drive, &active(limit), load(sizes, COUNTED, LAWS[0]))));
        for law in LAWS {
            cells.extend(POLICIES.iter().map(|policy| cell(sizes, "C", policy, &drive, &drawn(law, limit), load(sizes, USED, law))));
        }
        let drive = Drive { zone: REAL, per_zone: REAL_PER_ZONE, ..drive };
        for law in LAWS {
            cells.extend(POLICIES.iter().map(|policy| cell(sizes, "F", policy, &drive, &drawn(law, limit), load(sizes, USED, law))));
        }
    }
    let some = |names: &'static [&'static str]| POLICIES.iter().filter(move |policy| names.contains(&policy.name));
    for (zone, per_zone) in shapes(sizes) {
        let drive = Drive { zones: ZONES, zone, per_zone, limit: LIMITS[0] };
        let of = shape(zone, per_zone);
        cells.extend(some(&[SLA, LEVEL, SINTER]).map(|policy| cell(sizes, "D", policy, &drive, &of, load(sizes, USED, LAWS[0]))));
    }
    for (of, share) in TIGHT {
        let drive = Drive { zones: tight(share), zone: ZONE, per_zone: PER_ZONE, limit: LIMITS[0] };
        cells.extend(POLICIES.iter().map(|policy| cell(sizes, "E", policy, &drive, of, load(sizes, USED, LAWS[0]))));
    }
    cells
}

/// A drive before it is divided.
struct Drive {
    /// Capacity of the drive, in zones of the original's size.
    zones: u32,
    zone: Zone,
    per_zone: f64,
    limit: Option<u32>,
}

fn cell(sizes: &Sizes, experiment: &str, policy: &Policy, drive: &Drive, of: &str, workload: Workload) -> Cell {
    let (zones, Zone { bytes, capacity }) = sizes.drive(drive.zones, drive.zone);
    let zones = ZonesSpec {
        zones,
        zone_bytes: bytes,
        zone_capacity: (capacity < bytes).then_some(capacity),
        max_active: drive.limit,
        allocation: policy.allocation.to_string(),
        reset: policy.reset.to_string(),
        collector: Some(policy.collector.to_string()),
        fallback: policy.fallback,
        tells: policy.tells,
    };
    let memtable = (capacity as f64 / drive.per_zone) as u64;
    let mut family = family("default", Shape::Leveled { base: 1, fan_out: FAN_OUT as u64 }, memtable);
    let own = [("compression", "kNoCompression".to_string()), ("max_bytes_for_level_base", (BASE / sizes.divisor).to_string())];
    family.settings.extend(own.map(|(name, value)| (name.to_string(), value)));
    let mut settings = EngineSpec { zones: Some(zones), ..database(vec![family], memtable, true, false) };
    settings.database.insert("max_background_jobs".to_string(), "0".to_string());
    let factors = [("experiment", experiment), ("policy", policy.name), ("of", of)];
    Cell {
        name: name(experiment, policy.name, of),
        factors: factors.map(|(name, value)| (name.to_string(), value.to_string())).into(),
        settings,
        measures: BTreeMap::from([(RUN.to_string(), workload.phases.iter().map(|phase| phase.name.clone()).collect())]),
        workload,
        limits: Limits::default(),
        engines: vec![OWN.to_string()],
        may_fill: true,
        more: 0,
    }
}

/// Mixes of puts by the distribution `law`.
fn putters(law: &str) -> Vec<Mix> {
    let all = |distribution| putter("all", 1.0, None, (0.0, 1.0), distribution);
    match law {
        "zipf 0.9" => vec![all(Distribution::Zipf(0.9))],
        "mixed" => vec![all(Distribution::Uniform), putter("hot", 3.0, None, (0.0, 0.125), Distribution::Uniform)],
        _ => vec![all(Distribution::Uniform)],
    }
}

/// A load of experiments B to F. Skewed puts hit fewer keys: with twice as many the drive is about as full.
fn load(sizes: &Sizes, tenths: u64, law: &str) -> Workload {
    let keys = sizes.puts(tenths).max(1);
    let often = if law == LAWS[0] { 1 } else { sizes.skewed };
    workload(sizes, law, keys, vec![puts(RUN, often * keys, putters(law))])
}

/// The load of experiment A.
fn filled(sizes: &Sizes) -> Workload {
    let keys = sizes.puts(FULL).max(PARTS);
    let part = |number: u64| puts(&format!("part {number}"), keys / PARTS, putters(LAWS[0]));
    workload(sizes, "until it is full", keys, (1..=PARTS).map(part).collect())
}

fn workload(sizes: &Sizes, name: &str, keys: u64, phases: Vec<Phase>) -> Workload {
    let value_size = ValueSize::Fixed(sizes.value);
    Workload { name: name.to_string(), keys, key_size: KEY, value_size, compression_ratio: 0.5, phases }
}
