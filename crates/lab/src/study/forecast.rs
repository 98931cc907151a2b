//! Rough figures of a study, before it begins and while it runs: how long it takes, and how much disk. Before the first run they follow
//! from the plan's amounts of data and from speeds of one machine; the runs that have ended replace these speeds.

use super::Error;
use super::folder::Folder;
use super::plan::{PlannedRun, Study};
use crate::run::{Mix, Pace, Phase, PhaseKind, RunRecord, RunSpec, ValueSize};
use std::collections::BTreeMap;

/// Key and value bytes that clients write per second, merges included, on two virtual processors (docs/results, compaction-wal-waf).
const BYTES_PER_SECOND: f64 = 60e6;
/// Seconds of an operation beside those for its bytes.
const PER_OPERATION: f64 = 4e-6;
/// Seconds to start and end a run.
const PER_RUN: f64 = 0.5;
/// Bytes on disk over those of live keys and compressed values: dead versions, and a merge of everything beside its inputs.
const SPACE: f64 = 2.5;
/// Number of write buffers whose bytes lie in logs and new tables at a time.
const BUFFERS: f64 = 4.0;
/// Size of a write buffer that a cell does not name, bytes.
const BUFFER: f64 = 64.0 * 1024.0 * 1024.0;

/// Amount of work of a run, as far as its spec tells it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Amount {
    /// Writes of clients. Phases that end by seconds, and replays, count none.
    pub puts: u64,
    /// Time, seconds; rough.
    pub seconds: f64,
    /// Largest size on disk, bytes; rough.
    pub disk_bytes: f64,
}

impl Amount {
    /// The amount of work of a run.
    pub fn of(spec: &RunSpec) -> Amount {
        let entry = spec.workload.key_size as f64 + value_bytes(spec.workload.value_size);
        let stored = spec.workload.key_size as f64 + value_bytes(spec.workload.value_size) * spec.workload.compression_ratio;
        let live = spec.workload.keys as f64 * if spec.engine.server.is_some() { entry } else { stored };
        let buffer = |settings: &BTreeMap<String, String>| settings.get("write_buffer_size").and_then(|bytes| bytes.parse().ok());
        let buffers: f64 = spec.engine.families.iter().map(|family| buffer(&family.settings).unwrap_or(BUFFER)).sum();
        let drive = spec.engine.zones.as_ref().map_or(0.0, |zones| f64::from(zones.zones) * zones.zone_bytes as f64);
        let disk_bytes = if drive > 0.0 { drive } else { SPACE * live + BUFFERS * buffers };
        let mut amount = Amount { puts: 0, seconds: PER_RUN, disk_bytes };
        for phase in &spec.workload.phases {
            let (puts, seconds) = of_phase(phase, spec.workload.keys, entry, live);
            amount.puts = amount.puts.saturating_add(puts);
            amount.seconds += seconds;
        }
        amount
    }
}

fn value_bytes(size: ValueSize) -> f64 {
    match size {
        ValueSize::Fixed(bytes) => bytes as f64,
        ValueSize::Uniform(least, most) => (least as f64 + most as f64) / 2.0,
        // The mean of the law without its cut; an infinite one is cut.
        ValueSize::Pareto { scale, shape, most } if shape < 1.0 => (scale / (1.0 - shape)).min(most as f64),
        ValueSize::Pareto { most, .. } => most as f64,
    }
}

/// Puts and seconds of a phase. `entry`: bytes of a key and a value; `live`: bytes of the store.
fn of_phase(phase: &Phase, keys: u64, entry: f64, live: f64) -> (u64, f64) {
    let closed = |operations: f64, puts: f64| operations * PER_OPERATION + puts * entry / BYTES_PER_SECOND;
    match &phase.kind {
        PhaseKind::Load { .. } => (keys, closed(keys as f64, keys as f64)),
        PhaseKind::Compact => (0, live / BYTES_PER_SECOND),
        PhaseKind::Run { mixes, operations, seconds, pace, .. } => {
            let count = operations.unwrap_or(0) as f64;
            let puts = count * writing(mixes);
            let time = match (seconds, pace) {
                (Some(seconds), _) => *seconds,
                (None, Pace::Open(rate)) => (count / rate).max(closed(count, puts)),
                (None, _) => closed(count, puts),
            };
            (puts as u64, time)
        }
        _ => (0, 0.0),
    }
}

/// Share of the operations of some mixes that write. Commands of servers are told by their names.
fn writing(mixes: &[Mix]) -> f64 {
    let reads = |name: &str| {
        let command = name.to_lowercase();
        let command = command.split(' ').next().unwrap_or_default();
        ["get", "scan", "range", "members"].iter().any(|part| command.contains(part))
    };
    let all: f64 = mixes.iter().map(|mix| mix.weight).sum();
    let of = |mix: &Mix| {
        let sum: f64 = mix.operations.values().sum();
        let writes: f64 = mix.operations.iter().filter(|(name, _)| !reads(name)).map(|(_, weight)| weight).sum();
        if sum > 0.0 { mix.weight * writes / sum } else { 0.0 }
    };
    if all > 0.0 { mixes.iter().map(of).sum::<f64>() / all } else { 0.0 }
}

/// Time of the runs of a cell on an engine.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    runs: u32,
    seconds: f64,
}

/// The runs of a study that are done and that are left.
#[derive(Debug)]
pub struct Forecast {
    /// Amounts of all runs, by number; `true`: done.
    runs: Vec<(String, Amount, bool)>,
    measured: BTreeMap<String, Measured>,
}

/// A cell on an engine, as a key.
fn pair(run: &PlannedRun<'_>) -> String {
    format!("{} {}", run.engine, run.cell)
}

impl Forecast {
    /// The forecast for a study of which a folder may have records.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub fn of(study: &Study, folder: &Folder) -> Result<Forecast, Error> {
        let runs = study.runs();
        let amounts = runs.iter().map(|run| (pair(run), study.spec(run).as_ref().map(Amount::of).unwrap_or_default(), false));
        let mut forecast = Forecast { runs: amounts.collect(), measured: BTreeMap::new() };
        for run in &runs {
            if let Some(record) = folder.record(study, run)?.filter(|record| study.accepts(run, record)) {
                forecast.note(run, &record);
            }
        }
        Ok(forecast)
    }

    /// Notes that a run has ended.
    pub fn note(&mut self, run: &PlannedRun<'_>, record: &RunRecord) {
        let seconds: f64 = record.phases.iter().map(|phase| phase.seconds).sum();
        let measured = self.measured.entry(pair(run)).or_default();
        measured.runs += 1;
        measured.seconds += seconds + PER_RUN;
        if let Some((_, _, done)) = self.runs.get_mut(run.number) {
            *done = true;
        }
    }

    /// Seconds that the runs which are left take: as those of their cell did, else by their amounts and the speed seen so far.
    pub fn seconds_left(&self) -> f64 {
        let expected: f64 = self.runs.iter().filter(|(_, _, done)| *done).map(|(_, amount, _)| amount.seconds).sum();
        let taken: f64 = self.measured.values().map(|measured| measured.seconds).sum();
        let pace = if expected > 0.0 { taken / expected } else { 1.0 };
        let left = self.runs.iter().filter(|(_, _, done)| !done);
        left.map(|(pair, amount, _)| match self.measured.get(pair) {
            Some(measured) if measured.runs > 0 => measured.seconds / f64::from(measured.runs),
            _ => amount.seconds * pace,
        })
        .sum()
    }

    /// Largest size on disk of a run that is left, bytes.
    pub fn disk_bytes(&self) -> f64 {
        self.runs.iter().filter(|(_, _, done)| !done).map(|(_, amount, _)| amount.disk_bytes).fold(0.0, f64::max)
    }

    /// Sentence for people before the first run. `free`: free bytes of the medium, where known.
    pub fn statement(&self, free: Option<u64>) -> String {
        let (all, left) = (self.runs.len(), self.runs.iter().filter(|(_, _, done)| !done).count());
        let runs = if left == all { format!("{all} runs") } else { format!("{left} of {all} runs are left") };
        let puts: u64 = self.runs.iter().filter(|(_, _, done)| !done).map(|(_, amount, _)| amount.puts).sum();
        let (time, disk) = (about(self.seconds_left()), self.disk_bytes());
        let room = match free {
            Some(free) if (free as f64) < disk => format!("; only {} are free", size(free as f64)),
            _ => String::new(),
        };
        format!("{runs} with {} puts, about {time}, about {} of disk at a time{room}", count(puts), size(disk))
    }

    /// Sentence for people after a run: the share of the puts that is done, and the time that is left.
    pub fn progress(&self) -> String {
        let puts = |only_done: bool| {
            let counted = self.runs.iter().filter(|(_, _, done)| *done || !only_done);
            counted.map(|(_, amount, _)| amount.puts as f64).sum::<f64>()
        };
        let share = if puts(false) > 0.0 { format!("{:.0} % of the puts, ", 100.0 * puts(true) / puts(false)) } else { String::new() };
        if self.runs.iter().all(|(_, _, done)| *done) {
            return "all done".to_string();
        }
        format!("{share}about {} left", about(self.seconds_left()))
    }
}

/// A time for people.
fn about(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => "a minute".to_string(),
        s if s < 90.0 * 60.0 => format!("{:.0} min", s / 60.0),
        s if s < 48.0 * 3600.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// A size for people.
fn size(bytes: f64) -> String {
    match bytes {
        b if b < 1e9 => format!("{:.0} MB", (b / 1e6).ceil()),
        b if b < 1e10 => format!("{:.1} GB", b / 1e9),
        b => format!("{:.0} GB", b / 1e9),
    }
}

/// A number for people.
fn count(number: u64) -> String {
    match number {
        n if n < 1_000_000 => format!("{:.0} thousand", (n as f64 / 1e3).ceil()),
        n if n < 10_000_000_000 => format!("{:.0} million", n as f64 / 1e6),
        n => format!("{:.0} billion", n as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Scale;
    use super::super::{catalogue, testing};
    use super::*;
    use crate::run::{Distribution, PhaseRecord};

    fn study(name: &str, scale: Scale) -> Study {
        catalogue::study(name, scale, &testing::request(&["sinter"], 2)).unwrap()
    }

    fn forecast(study: &Study) -> (Forecast, tempfile::TempDir, Folder) {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::create(&directory.path().join("results"), study).unwrap();
        (Forecast::of(study, &folder).unwrap(), directory, folder)
    }

    #[test]
    fn amounts_follow_from_the_plan() {
        let study = study("compaction-wal-waf", Scale::Paper);
        let run = study.runs().into_iter().find(|run| run.cell == "A leveled stable").unwrap();
        let amount = Amount::of(&study.spec(&run).unwrap());
        assert_eq!(amount.puts, 4_000_000);
        let bytes = 4e6 * 1040.0;
        assert!((amount.seconds - PER_RUN - 4e6 * PER_OPERATION - bytes / BYTES_PER_SECOND).abs() < 1e-6, "{amount:?}");
        assert!(amount.disk_bytes > 2e6 * 528.0 && amount.disk_bytes < 4e9, "{amount:?}");
        let (forecast, _directory, _folder) = forecast(&study);
        let told = forecast.statement(Some(1 << 20));
        assert!(told.starts_with("60 runs with ") && told.contains(" h, about ") && told.ends_with("; only 2 MB are free"), "{told}");
    }

    /// Runs that ended replace the assumed speed: of their own cell, and of all others in proportion.
    #[test]
    fn what_was_measured_counts() {
        let study = study("compaction-wal-waf", Scale::Ci);
        let (mut forecast, _directory, folder) = forecast(&study);
        let runs = study.runs();
        let before = forecast.seconds_left();
        let first = &runs[0];
        let record = testing::record(study.spec(first).unwrap(), &PhaseRecord { seconds: 1000.0, ..PhaseRecord::default() });
        forecast.note(first, &record);
        assert!(forecast.seconds_left() > 1000.0 * before, "all seem as slow: {} after {before}", forecast.seconds_left());
        folder.keep(first, &record).unwrap();
        let again = Forecast::of(&study, &folder).unwrap();
        assert!((again.seconds_left() - forecast.seconds_left()).abs() < 1e-6, "a study that goes on knows as much");
        assert!(again.statement(None).starts_with("59 of 60 runs are left with"), "{}", again.statement(None));
        for run in &runs[1..] {
            forecast.note(run, &testing::record(study.spec(run).unwrap(), &PhaseRecord { seconds: 1.0, ..PhaseRecord::default() }));
        }
        assert_eq!((forecast.seconds_left(), forecast.progress().as_str()), (0.0, "all done"));
    }

    #[test]
    fn shares_of_writes() {
        let mix = |weights: &[(&'static str, f64)]| Mix { weight: 2.0, ..Mix::all(Distribution::Uniform, weights.iter().copied()) };
        assert_eq!(writing(&[mix(&[("get", 3.0), ("put", 1.0)]), mix(&[("HSET {key} {member} {value}", 1.0)])]), 0.625);
        assert_eq!(writing(&[mix(&[("HGETALL {key}", 1.0), ("LRANGE {key} 0 99", 1.0), ("scan", 1.0)])]), 0.0);
        assert_eq!([about(5.0), about(600.0), about(7200.0), about(1e6)], ["a minute", "10 min", "2 h", "12 days"]);
    }
}
