//! Cells of the study: drives, policies, workloads.

use super::{
    BASE, COUNTED, FAN_OUT, FULL, JOBS, KEY, LAWS, LIMITS, OWN, PER_ZONE, POLICIES, Policy, REAL, REAL_PER_ZONE, SINTER, SLA, SLA_GREEDY,
    Sizes, TIGHT, USED, ZENFS, ZONE, ZONES, Zone, tight,
};
use crate::run::{Distribution, EngineSpec, Mix, Phase, Workload, ZonesSpec};
use crate::study::plan::Cell;
use crate::study::settings::{Shape, database, family, puts, putter, settle};

/// Measure of all cells.
pub const RUN: &str = "run";
/// Phase that waits until nothing is due.
const REST: &str = "rest";
/// Equal parts of the load of experiment A.
const PARTS: u64 = 27;

/// Policies that the original compared by resets, and ours.
const COUNTED_POLICIES: [&str; 6] = [ZENFS, "wla", "wla lzr", "sla", SLA, SINTER];
/// Policies that the original compared by zones and by bytes moved, and ours.
const COMPARED: [&str; 4] = [ZENFS, "wla lzr", SLA, SINTER];
/// The published policy that ours is compared with, and ours.
const PAIR: [&str; 2] = [SLA, SINTER];
/// [`PAIR`], and the published policy with our collector, where it may find no zone as published.
const WITH_GREEDY: [&str; 3] = [SLA, SLA_GREEDY, SINTER];

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

/// Cases of experiment C in which our policy is compared with the published one: laws of keys with limits.
pub fn cases() -> [String; 4] {
    let [none, some] = LIMITS;
    [drawn(LAWS[0], none), drawn(LAWS[0], some), drawn(LAWS[1], some), drawn(LAWS[2], some)]
}

/// Name of a shape of experiment D.
pub fn shape(zone: Zone, per_zone: f64) -> String {
    format!("{} MiB, {per_zone} tables", zone.capacity >> 20)
}

/// Whether the cell runs at the original's own sizes.
pub fn is_core(cell: &Cell) -> bool {
    let factor = |name: &str| cell.factors.get(name).map_or("", String::as_str);
    let (policy, jobs) = (factor("policy"), factor("jobs"));
    jobs != NONE
        && match factor("experiment") {
            "A" => policy == ZENFS,
            "B" => [ZENFS, "sla", SLA].contains(&policy),
            "C" => COMPARED.contains(&policy) && factor("case") == drawn(LAWS[0], LIMITS[0]),
            _ => false,
        }
}

/// Value of the factor `jobs` of an engine without threads.
const NONE: &str = "none";

/// All cells of the study.
pub fn cells(sizes: &Sizes) -> Vec<Cell> {
    let [none, some] = LIMITS;
    let drive = |limit| Drive { zones: ZONES, zone: ZONE, per_zone: PER_ZONE, limit };
    let mut cells = Vec::new();
    let mut add = |experiment: &str, policies: &[&str], drive: &Drive, of: &str, workload: &dyn Fn() -> Workload, jobs: u32| {
        let chosen = POLICIES.iter().filter(|policy| policies.contains(&policy.name));
        cells.extend(chosen.map(|policy| cell(sizes, experiment, policy, drive, of, workload(), jobs)));
    };
    let used = |law: &'static str| move || load(sizes, USED, law);
    let uniform = used(LAWS[0]);
    let all = POLICIES.each_ref().map(|policy| policy.name);
    add("A", &[ZENFS, SINTER], &drive(none), &active(none), &|| filled(sizes), JOBS);
    add("B", &COUNTED_POLICIES, &drive(none), &active(none), &|| load(sizes, COUNTED, LAWS[0]), JOBS);
    add("C", &all, &drive(none), &drawn(LAWS[0], none), &uniform, JOBS);
    add("C", &COMPARED, &drive(some), &drawn(LAWS[0], some), &uniform, JOBS);
    add("C", &COMPARED, &drive(none), &format!("{}, no threads", drawn(LAWS[0], none)), &uniform, 0);
    for law in [LAWS[1], LAWS[2]] {
        add("C", &PAIR, &drive(some), &drawn(law, some), &used(law), JOBS);
    }
    for (zone, per_zone) in sizes.shapes.iter().copied() {
        add("D", &PAIR, &Drive { zone, per_zone, ..drive(some) }, &shape(zone, per_zone), &uniform, JOBS);
    }
    for (of, share) in TIGHT {
        add("E", &WITH_GREEDY, &Drive { zones: tight(share), ..drive(some) }, of, &uniform, JOBS);
    }
    add("F", &WITH_GREEDY, &Drive { zone: REAL, per_zone: REAL_PER_ZONE, ..drive(some) }, &drawn(LAWS[0], some), &uniform, JOBS);
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

/// `jobs`: background jobs of the engine.
fn cell(sizes: &Sizes, experiment: &str, policy: &Policy, drive: &Drive, of: &str, workload: Workload, jobs: u32) -> Cell {
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
    settings.database.insert("max_background_jobs".to_string(), jobs.to_string());
    let threads = if jobs == 0 { NONE.to_string() } else { jobs.to_string() };
    let factors = [("experiment", experiment), ("policy", policy.name), ("case", of), ("jobs", &threads)];
    let cell = Cell::new(name(experiment, policy.name, of), &factors, settings, workload).measuring(RUN, |_| true);
    Cell { engines: vec![OWN.to_string()], may_fill: true, ..cell }
}

/// Mixes of puts by the distribution `law`.
fn putters(law: &str) -> Vec<Mix> {
    match law {
        "zipf 0.9" => vec![Mix::puts(Distribution::Zipf(0.9))],
        "mixed" => vec![Mix::puts(Distribution::Uniform), putter("hot", 3.0, None, (0.0, 0.125), Distribution::Uniform)],
        _ => vec![Mix::puts(Distribution::Uniform)],
    }
}

/// A load of experiments B to F. Skewed puts hit fewer keys: with twice as many the drive is about as full.
fn load(sizes: &Sizes, tenths: u64, law: &str) -> Workload {
    let keys = sizes.puts(tenths).max(1);
    let often = if law == LAWS[0] { 1 } else { sizes.skewed };
    workload(sizes, law, keys, vec![puts(RUN, often * keys, putters(law)), settle(REST)])
}

/// The load of experiment A. Its parts alone count: the run is judged by how many of them find room.
fn filled(sizes: &Sizes) -> Workload {
    let keys = sizes.puts(FULL).max(PARTS);
    let part = |number: u64| puts(&format!("part {number}"), keys / PARTS, putters(LAWS[0]));
    workload(sizes, "until it is full", keys, (1..=PARTS).map(part).collect())
}

fn workload(sizes: &Sizes, name: &str, keys: u64, phases: Vec<Phase>) -> Workload {
    Workload::new(name, keys, (KEY, sizes.value), phases)
}
