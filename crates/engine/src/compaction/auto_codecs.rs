//! Chooses the codecs of one family's levels from samples of its data, from the writes and reads of each level, and from the costs of the
//! medium. Observations are kept in memory only: after an open, one table is enough to choose again.
//!
//! A database without threads repeats exactly: nothing is timed, counts do not decay, and reference costs replace measured ones.

use super::codec_choice::{CANDIDATES, COUNT, Effect, FIRST, Medium, PLAIN, REFERENCE, REFERENCE_MEDIUM, Situation, Trial, Verdict};
use crate::clock::Clock;
use crate::codec::Compression;
use crate::cpu::Transfer;
use crate::table::ReadTimes;
use parking_lot::Mutex;
use std::fmt::Write as _;
use std::sync::Arc;

mod announced;

pub use announced::Announced;
pub(super) use announced::timed;

/// Seconds in which counts, and costs of the medium, lose half their weight. A level that has been watched for this long is expected to be
/// read half as much as one that is new.
const HALF_LIFE_SECONDS: f64 = 120.0;
/// Seconds over which the processors that compress are averaged, as the idle ones are.
const SMOOTHING_SECONDS: f64 = 1.0;
/// Bytes that count at the costs of [`REFERENCE_MEDIUM`] beside measured ones: of a few bytes, an interrupted read would decide the cost.
const REFERENCE_BYTES: f64 = 16_777_216.0;
/// Least weight of a new sample in the mean.
const LEAST_WEIGHT: f64 = 1.0 / 16.0;
/// A sample that takes longer than so many times the mean was interrupted, and counts for no more.
const INTERRUPTED: f64 = 4.0;

/// Observations of one level. Bytes are counted before compression.
#[derive(Debug, Clone)]
struct Level {
    effects: [Effect; COUNT],
    samples: u64,
    /// Bytes written since the last sample.
    unsampled: u64,
    /// Bytes written to the level, with exponential decay.
    written: f64,
    /// Bytes that running compactions have yet to write.
    coming: u64,
    /// Bytes of tables that moved to the next level without being rewritten, with exponential decay.
    moved: f64,
    /// Bytes of blocks that readers did not find in the cache, with exponential decay.
    missed: f64,
    /// Bytes that the level holds.
    holds: u64,
    /// Seconds for which the level has been known to hold something.
    watched_seconds: f64,
    /// The candidate in use.
    chosen: usize,
    /// The codec was judged at least once.
    is_judged: bool,
    since_unix: u64,
    why: String,
}

impl Level {
    /// A level of which nothing is known. Level 0 starts without compression: its tables are merged soon.
    fn new(number: usize) -> Self {
        Level {
            effects: REFERENCE,
            samples: 0,
            unsampled: 0,
            written: 0.0,
            coming: 0,
            moved: 0.0,
            missed: 0.0,
            holds: 0,
            watched_seconds: 0.0,
            chosen: if number == 0 { PLAIN } else { FIRST },
            is_judged: false,
            since_unix: 0,
            why: String::from("nothing is known yet"),
        }
    }

    /// Bytes written lately or by running compactions.
    fn all_written(&self) -> f64 {
        self.written + self.coming as f64
    }

    fn is_live(&self) -> bool {
        self.holds > 0 || self.all_written() > 0.0
    }

    /// Bytes that readers will miss in the cache, per byte written: as seen, or, weighted by `unwatched`, each byte once that stays on the
    /// level or moved on as it was. Nothing stays on level 0.
    fn reads(&self, number: usize, unwatched: f64) -> f64 {
        let stays = if number == 0 { 0 } else { self.holds.saturating_add(self.coming) };
        let expected = ((stays as f64 + self.moved) / self.all_written()).min(1.0);
        (self.missed / self.all_written()).max(unwatched * expected)
    }
}

#[derive(Debug, Default)]
struct State {
    levels: Vec<Level>,
    /// Seconds that the counts cover, with exponential decay.
    seconds: f64,
    reviewed_ns: Option<u64>,
    /// Processor time of compression since the last review, nanoseconds.
    compress_ns: f64,
    /// Processors that compressed lately.
    compressing: f64,
    /// Bytes appended to tables, and the time of the appends.
    appended: Transfer,
    /// Bytes that merges read, and the time of the reads.
    read: Transfer,
    totals: Totals,
}

/// Cost and effect of choosing codecs since the database was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Samples taken.
    pub samples: u64,
    /// Time spent on samples, nanoseconds.
    pub sample_ns: u64,
    /// Number of changes of a level's codec.
    pub changes: u64,
}

/// Input of a review.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Time by the monotonic clock, nanoseconds.
    pub now_ns: u64,
    /// Seconds since 1970.
    pub unix_seconds: u64,
    /// Number of idle processors.
    pub idle: f64,
    /// Number of processors.
    pub cpus: f64,
    /// Bytes of the family's tables.
    pub table_bytes: u64,
    /// Bytes of the family's files that the page cache can hold; `None`: not known.
    pub for_files: Option<u64>,
    /// Bytes of a block before compression.
    pub block_size: u32,
    /// Data and reads by level.
    pub levels: Vec<Holding>,
}

/// Data that a level holds, and reads of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Holding {
    /// Bytes of keys and values.
    pub raw_bytes: u64,
    /// Blocks that readers did not find in the cache since the last review.
    pub misses: u64,
}

/// The engine's choice of codecs for one family.
#[derive(Debug)]
pub struct Auto {
    clock: Arc<dyn Clock>,
    /// Operations are timed.
    measures: bool,
    reads: Arc<ReadTimes>,
    state: Mutex<State>,
}

impl Auto {
    /// `measures`: costs are measured with the clock; otherwise reference costs are used, so that everything repeats exactly.
    pub fn new(clock: Arc<dyn Clock>, measures: bool) -> Arc<Auto> {
        let reads = Arc::new(ReadTimes::new(measures.then(|| clock.clone())));
        Arc::new(Auto { clock, measures, reads, state: Mutex::default() })
    }

    /// Forgets all observations except running jobs, which will report to the new state.
    pub fn begin(&self, now_ns: u64) {
        self.reads.take_in_order();
        let mut state = self.state.lock();
        let levels = state.levels.iter().enumerate().map(|(number, level)| Level { coming: level.coming, ..Level::new(number) }).collect();
        *state = State { levels, reviewed_ns: Some(now_ns), totals: state.totals, ..State::default() };
    }

    /// Measured read times, to which the family's tables add.
    pub fn read_times(&self) -> &Arc<ReadTimes> {
        &self.reads
    }

    /// The codec of a level now, and the reason for it, for the table's properties.
    pub fn choice(&self, level: usize) -> (Compression, String) {
        let mut state = self.state.lock();
        let level = state.level(level);
        let chosen = CANDIDATES[level.chosen];
        (chosen, format!("auto {}: {}", chosen.codec.name(), level.why))
    }

    /// Bytes written to the level since its last sample, to within one table; `None`: the level has no sample.
    pub(super) fn unsampled(&self, level: usize) -> Option<u64> {
        let mut state = self.state.lock();
        let level = state.level(level);
        (level.samples > 0).then_some(level.unsampled)
    }

    /// The monotonic time, nanoseconds; always 0 if nothing is timed.
    pub(super) fn now(&self) -> u64 {
        if self.measures { self.clock.monotonic_ns() } else { 0 }
    }

    /// Adds a sample of a level's data, which took `spent` nanoseconds.
    pub(super) fn learn(&self, level: usize, trials: [Trial; COUNT], spent: u64) {
        let mut state = self.state.lock();
        state.totals.samples += 1;
        state.totals.sample_ns += spent;
        let level = state.level(level);
        let weight = (1.0 / (level.samples + 1) as f64).max(LEAST_WEIGHT);
        let is_first = level.samples == 0;
        level.samples += 1;
        level.unsampled = 0;
        let toward = |mean: f64, value: f64| {
            let most = if is_first { f64::INFINITY } else { INTERRUPTED * mean.max(0.01) };
            mean + weight * (value.min(most) - mean)
        };
        for (effect, trial) in level.effects.iter_mut().zip(trials) {
            effect.ratio += weight * (trial.ratio - effect.ratio);
            let Some((compress, decompress)) = trial.ns else { continue };
            effect.compress_ns = toward(effect.compress_ns, compress);
            // A block that does not shrink is stored plain and never decompressed.
            if trial.ratio < 1.0 {
                effect.decompress_ns = toward(effect.decompress_ns, decompress);
            }
        }
    }

    /// Chooses the codecs of the levels that are written to. Deeper levels are first to use idle processors, because they keep their data
    /// longest.
    pub fn review(&self, seen: &Observed) {
        let mut state = self.state.lock();
        state.read.add(self.reads.take_in_order());
        state.observe(seen, self.measures);
        let medium = if self.measures { state.medium(&self.reads) } else { REFERENCE_MEDIUM };
        let data = state.levels.iter().map(|level| level.holds as f64).sum::<f64>();
        let mut spare = if self.measures { (seen.idle + state.compressing).min(seen.cpus) } else { 0.0 };
        for number in (0..state.levels.len()).rev() {
            let Some((effects, samples)) = state.effects(number) else { continue };
            let (seconds, level) = (state.seconds, &mut state.levels[number]);
            if level.all_written() <= 0.0 {
                continue;
            }
            let unwatched = HALF_LIFE_SECONDS / (HALF_LIFE_SECONDS + level.watched_seconds);
            let situation = Situation {
                effects,
                current: level.chosen,
                rate: if seconds > 0.0 { level.all_written() / seconds / 1e9 } else { 0.0 },
                is_merging: level.coming > 0,
                reads: level.reads(number, unwatched),
                block: f64::from(seen.block_size),
                spare,
                cpus: seen.cpus,
                medium,
                data,
                present: if data > 0.0 { seen.table_bytes as f64 / data } else { 1.0 },
                for_files: seen.for_files.filter(|_| self.measures).map_or(f64::INFINITY, |bytes| bytes as f64),
                unwatched,
            };
            let verdict = situation.judge();
            let has_changed = verdict.chosen != level.chosen;
            level.why = why(&situation, &verdict, samples);
            level.chosen = verdict.chosen;
            if has_changed || !level.is_judged {
                level.since_unix = seen.unix_seconds;
            }
            let was_judged = std::mem::replace(&mut level.is_judged, true);
            state.totals.changes += u64::from(has_changed && was_judged);
            spare = (spare - situation.needed(verdict.chosen)).max(0.0);
        }
    }

    /// Notes that tables moved down from these levels without being rewritten: levels, and bytes before compression.
    pub fn moved(&self, from: &[(usize, u64)]) {
        let mut state = self.state.lock();
        from.iter().for_each(|&(level, bytes)| state.level(level).moved += bytes as f64);
    }

    /// Cost and effect of choosing codecs so far.
    pub fn totals(&self) -> Totals {
        self.state.lock().totals
    }

    /// A line for each level that holds data or is written to: its codec and since when, the effects of the candidates, the rates of writes
    /// and misses, the bytes held, and the reason for the codec.
    pub fn report(&self) -> String {
        let state = self.state.lock();
        let mut out = String::new();
        let per_second = |bytes: f64| if state.seconds > 0.0 { bytes / state.seconds / 1e6 } else { 0.0 };
        for (number, level) in state.levels.iter().enumerate().filter(|(_, level)| level.is_live()) {
            let name = |candidate: usize| CANDIDATES[candidate].codec.name();
            let _ = write!(out, "level {number}: {}", name(level.chosen));
            let _ = match level.is_judged {
                true => write!(out, " since {}", level.since_unix),
                false => write!(out, " not judged yet"),
            };
            for (candidate, effect) in level.effects.iter().enumerate().skip(1) {
                let Effect { ratio, compress_ns, decompress_ns } = effect;
                let _ = write!(out, "; {} {ratio:.3} at {compress_ns:.2} and {decompress_ns:.2} ns/B", name(candidate));
            }
            let (written, missed, holds) = (per_second(level.written), per_second(level.missed), level.holds as f64 / 1e6);
            let lifetime = if written > 0.0 { format!("{:.0} s", holds / written) } else { "unknown".into() };
            let _ = write!(out, "; {} samples; {written:.1} MB/s written, {missed:.1} missed, {holds:.1} MB held", level.samples);
            let _ = writeln!(out, ", lifetime {lifetime}; {}", level.why);
        }
        let Totals { samples, sample_ns, changes } = state.totals;
        let _ = writeln!(out, "{samples} samples took {:.3} ms; {changes} changes", sample_ns as f64 / 1e6);
        out
    }
}

impl State {
    fn level(&mut self, number: usize) -> &mut Level {
        while self.levels.len() <= number {
            self.levels.push(Level::new(self.levels.len()));
        }
        &mut self.levels[number]
    }

    /// Effects of the codecs on a level's data, and the number of samples. A level without samples uses those of the nearest level above
    /// it, or else below it, that has some.
    fn effects(&self, number: usize) -> Option<([Effect; COUNT], u64)> {
        let (upper, lower) = self.levels.split_at(number + 1);
        let known = upper.iter().rev().chain(lower).find(|level| level.samples > 0)?;
        Some((known.effects, known.samples))
    }

    fn medium(&self, reads: &ReadTimes) -> Medium {
        let per_byte = |measured: Transfer, reference: (f64, f64)| {
            let mut sum = Transfer::of(REFERENCE_BYTES, reference.0, reference.1);
            sum.add(measured);
            sum.per_byte().unwrap_or(reference)
        };
        let times = reads.summary();
        Medium {
            write_ns: per_byte(self.appended, REFERENCE_MEDIUM.write_ns),
            merge_ns: per_byte(self.read, REFERENCE_MEDIUM.merge_ns),
            fast_ns: times.fast_ns.unwrap_or(REFERENCE_MEDIUM.fast_ns),
            slow_ns: times.slow_ns,
            slow_share: times.slow_share,
        }
    }

    /// Adds observations since the last review; older ones lose weight exponentially.
    fn observe(&mut self, seen: &Observed, measures: bool) {
        let elapsed = self.reviewed_ns.map_or(0, |reviewed| seen.now_ns.saturating_sub(reviewed));
        let seconds = if measures { elapsed as f64 / 1e9 } else { 0.0 };
        let kept = 0.5f64.powf(seconds / HALF_LIFE_SECONDS);
        self.reviewed_ns = Some(seen.now_ns);
        self.seconds = self.seconds * kept + seconds;
        if seconds > 0.0 {
            let lately = std::mem::take(&mut self.compress_ns) / 1e9 / seconds;
            self.compressing += seconds / (seconds + SMOOTHING_SECONDS) * (lately - self.compressing);
        }
        self.appended = self.appended.times(kept);
        self.read = self.read.times(kept);
        for (number, holding) in seen.levels.iter().enumerate() {
            let level = self.level(number);
            level.written *= kept;
            level.moved *= kept;
            level.missed = level.missed * kept + holding.misses as f64 * f64::from(seen.block_size);
            if level.holds > 0 && holding.raw_bytes > 0 {
                level.watched_seconds += seconds;
            }
            level.holds = holding.raw_bytes;
        }
    }
}

/// The reason of a verdict in one line: all inputs of the costs.
fn why(situation: &Situation, verdict: &Verdict, samples: u64) -> String {
    let Situation { current, rate, reads, spare, cpus, medium, for_files, .. } = situation;
    let name = |candidate: usize| CANDIDATES[candidate].codec.name();
    let mut out = String::new();
    if verdict.chosen != verdict.best {
        let _ = write!(out, "{} stays until another one is clearly better; ", name(*current));
    }
    let _ = write!(out, "{} is best of", name(verdict.best));
    for (number, effect) in situation.effects.iter().enumerate() {
        let Effect { ratio, compress_ns, decompress_ns } = effect;
        let _ = write!(out, " {} {:.2} ns/B for {ratio:.2}", name(number), verdict.costs[number]);
        if number != PLAIN {
            let price = situation.price(situation.needed(number));
            let _ = write!(out, " ({compress_ns:.2} and {decompress_ns:.2} ns/B, x {price:.2})");
        }
        out.push(',');
    }
    let Medium { write_ns, merge_ns, fast_ns, slow_ns, slow_share } = medium;
    let _ = write!(out, " {reads:.2} reads per byte of {:.1} MB/s; writing {:.2} ns/B ", rate * 1e3, write_ns.0);
    let _ = write!(out, "and {:.2} of waiting, reading for merges {:.2} and {:.2}, ", write_ns.1, merge_ns.0, merge_ns.1);
    let _ = write!(out, "single reads {fast_ns:.0} ns or {slow_ns:.0} ns ({:.1} % of them), ", slow_share * 100.0);
    let _ = write!(out, "waiting x {:.2}; ", situation.waiting());
    if for_files.is_finite() {
        let _ = write!(out, "room for {:.1} MB of files; ", for_files / 1e6);
    }
    let _ = write!(out, "{spare:.2} of {cpus:.2} processors to spare; {samples} samples");
    out
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
