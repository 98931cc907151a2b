//! Chooses the codecs of one family's levels from samples of its data, from the writes and reads of each level, and from the costs of the
//! medium. Observations are kept in memory only: after an open, one flush is enough to choose again.
//!
//! A database without threads repeats exactly: nothing is timed, counts do not decay, and reference costs replace measured ones.

use super::codec_choice::{
    CANDIDATES, COUNT, Effect, FIRST, FIRST_WITH_ROOM, MERGE_NS, Medium, PATIENCE, REFERENCE, REFERENCE_MEDIUM, ROOMY_MEMTABLES, Situation,
    Standing, Trial, Verdict, judge,
};
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

/// Shortest time between two reviews of all levels, nanoseconds.
const PERIOD_NS: u64 = 250_000_000;
/// Seconds after which verdicts are given even if little is known.
const SETTLE_SECONDS: f64 = 2.0;
/// Seconds in which a count loses half its weight: after five minutes a third is left, after an hour nothing.
const HALF_LIFE_SECONDS: f64 = 200.0;
/// Seconds in which measured costs of the medium lose half their weight: other programs use the medium, too.
const MEDIUM_HALF_LIFE_SECONDS: f64 = 20.0;
/// Seconds until half of the processors that a new codec takes show as busy: the measured idle time is smoothed over about a second, and
/// tables begun earlier keep their codec.
const NOTICED_SECONDS: f64 = 2.0;
/// Measured costs do not decay below the weight of this many bytes appended or read. Until a merge has read anything, this many bytes
/// count at the costs of [`REFERENCE_MEDIUM`].
const LEAST_MOVED: f64 = 67_108_864.0;
/// Cache misses expected per byte that a level holds, before the level has been watched.
const EXPECTED_MISSES: f64 = 1.0;
/// Seconds of watching a level after which half of [`EXPECTED_MISSES`] is expected.
const WATCHED_SECONDS: f64 = 300.0;
/// A smaller size may cost this part of the total cost of all operations.
const TOLERANCE: f64 = 0.02;
/// Least cost of an operation, nanoseconds: a read or a write in memory.
const OPERATION_NS: f64 = 500.0;
/// Cost of a cache miss besides the read from the medium, nanoseconds.
const MISS_NS: f64 = 1000.0;
/// Minimum recent write volume assumed for a level, bytes.
const LEAST_WRITTEN: f64 = 1_048_576.0;
/// Least weight of a new sample in the mean.
const LEAST_WEIGHT: f64 = 1.0 / 16.0;
/// Number of samples from which on a level can be judged, and from which on a sample that takes far longer than the mean counts as
/// interrupted.
const ENOUGH_SAMPLES: u64 = 4;

/// Observations of one level.
#[derive(Debug, Clone)]
struct Level {
    effects: [Effect; COUNT],
    samples: u64,
    /// Bytes before compression written since the last sample.
    unsampled: u64,
    /// Bytes before compression written to the level, with exponential decay.
    written: f64,
    /// Bytes before compression that running compactions have yet to write.
    coming: u64,
    /// Bytes before compression that running compactions have written or have yet to write.
    under_way: u64,
    /// Bytes before compression by which the level will have grown when running compactions are done.
    growth: i64,
    /// A job that writes most of the level's recent bytes has begun and needs a verdict before its first table.
    is_asked: bool,
    /// Bytes of tables that moved to the next level without being rewritten, with exponential decay.
    moved: f64,
    /// Bytes of blocks that readers did not find in the cache, with exponential decay.
    missed: f64,
    /// Bytes before compression that the level holds.
    holds: u64,
    /// Part of `holds` that stays for now. The rest exceeds the level's target, and the next compactions move it down.
    stays: f64,
    /// Bytes by which the level above exceeds its target, which will come to this level.
    owed: f64,
    /// Seconds for which the level has been known to hold something.
    watched_seconds: f64,
    standing: Standing,
    since_unix: u64,
    why: String,
}

impl Default for Level {
    fn default() -> Self {
        Level {
            effects: REFERENCE,
            samples: 0,
            unsampled: 0,
            written: 0.0,
            coming: 0,
            under_way: 0,
            growth: 0,
            is_asked: false,
            moved: 0.0,
            missed: 0.0,
            holds: 0,
            stays: 0.0,
            owed: 0.0,
            watched_seconds: 0.0,
            standing: Standing::default(),
            since_unix: 0,
            why: String::from("nothing is known yet"),
        }
    }
}

#[derive(Debug)]
struct State {
    levels: Vec<Level>,
    /// Seconds that the counts cover, with exponential decay.
    seconds: f64,
    operations: f64,
    operations_seen: u64,
    reviewed_ns: Option<u64>,
    /// Time of the last review that covered all levels, not only those that a job asked for.
    all_reviewed_ns: Option<u64>,
    idle: f64,
    /// Processors that recent changes of codecs have taken and that still look idle.
    taken: f64,
    /// Bytes appended to tables, and the time of the appends.
    appended: Transfer,
    /// Bytes that merges read, and the time of the reads.
    read: Transfer,
    /// At least one table was written, so the cost of writing is known.
    sealed: bool,
    totals: Totals,
}

impl Default for State {
    fn default() -> Self {
        State {
            levels: Vec::new(),
            seconds: 0.0,
            operations: 0.0,
            operations_seen: 0,
            reviewed_ns: None,
            all_reviewed_ns: None,
            idle: 0.0,
            taken: 0.0,
            appended: Transfer::default(),
            read: Transfer::of(LEAST_MOVED, REFERENCE_MEDIUM.ahead_ns, REFERENCE_MEDIUM.ahead_wait_ns),
            sealed: false,
            totals: Totals::default(),
        }
    }
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
    /// `idle` was measured.
    pub idle_is_known: bool,
    /// Reads, seeks and writes of the family since the database was opened.
    pub operations: u64,
    /// Bytes of the family's files that the page cache can hold; `None`: not known.
    pub for_files: Option<u64>,
    /// Size of the page cache for all files, in memtables of the family.
    pub room_in_memtables: Option<u64>,
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
    /// Part of `raw_bytes` that exceeds the level's target.
    pub excess_bytes: u64,
    /// Blocks that readers did not find in the cache since the last review.
    pub misses: u64,
}

impl Holding {
    /// Marks the given part of the level's data as excess over its target.
    pub fn owing(self, part: f64) -> Self {
        Holding { excess_bytes: (self.raw_bytes as f64 * part) as u64, ..self }
    }
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

    /// Forgets all observations except running jobs. `operations`: reads, seeks and writes of the family so far.
    pub fn begin(&self, now_ns: u64, operations: u64) {
        self.reads.take_in_order();
        let mut state = self.state.lock();
        // Running jobs will report to the new state.
        let kept = |level: &Level| {
            let Level { coming, under_way, growth, .. } = *level;
            Level { coming, under_way, growth, ..Level::default() }
        };
        let levels = state.levels.iter().map(kept).collect();
        let totals = state.totals;
        let now = Some(now_ns);
        *state = State { levels, operations_seen: operations, reviewed_ns: now, all_reviewed_ns: now, totals, ..State::default() };
    }

    /// Measured read times, to which the family's tables add.
    pub fn read_times(&self) -> &Arc<ReadTimes> {
        &self.reads
    }

    /// The codec of a level now, and the reason for it, for the table's properties.
    pub fn choice(&self, level: usize) -> (Compression, String) {
        let mut state = self.state.lock();
        let level = state.level(level);
        let chosen = CANDIDATES[level.standing.chosen];
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
        let is_known = level.samples >= ENOUGH_SAMPLES;
        level.samples += 1;
        level.unsampled = 0;
        for (effect, trial) in level.effects.iter_mut().zip(trials) {
            effect.ratio += weight * (trial.ratio - effect.ratio);
            let Some((compress, decompress)) = trial.ns else { continue };
            let toward = |mean: f64, value: f64| {
                let most = if is_known { 4.0 * mean.max(0.01) } else { f64::INFINITY };
                mean + weight * (value.min(most) - mean)
            };
            effect.compress_ns = toward(effect.compress_ns, compress);
            // A block that does not shrink is stored plain and never decompressed.
            if trial.ratio < 1.0 {
                effect.decompress_ns = toward(effect.decompress_ns, decompress);
            }
        }
    }

    /// Returns whether a review is due. Always true if nothing is timed.
    pub fn is_due(&self, now_ns: u64) -> bool {
        let state = self.state.lock();
        !self.measures || state.is_in_turn(now_ns) || state.levels.iter().any(|level| level.is_asked)
    }

    /// Reviews the codecs of the levels. If `PERIOD_NS` has not passed, reviews only levels that a job asked for or that have no verdict
    /// yet: for other levels, the three verdicts that a change takes shall lie some time apart.
    pub fn review(&self, seen: &Observed) {
        let mut state = self.state.lock();
        let is_in_turn = !self.measures || state.is_in_turn(seen.now_ns);
        if is_in_turn {
            state.all_reviewed_ns = Some(seen.now_ns);
        }
        state.read.add(self.reads.take_in_order());
        let medium = if self.measures { state.medium(&self.reads) } else { REFERENCE_MEDIUM };
        state.observe(seen, self.measures);
        let has_room = !self.measures || seen.room_in_memtables.is_none_or(|room| room >= ROOMY_MEMTABLES);
        state.level(0).standing.begin(if has_room { FIRST_WITH_ROOM } else { FIRST });
        let sum = |of: fn(&Level) -> f64| state.levels.iter().filter(|level| level.is_live()).map(of).sum::<f64>();
        let (written, missed, holds) = (sum(Level::judged_written), sum(|l| l.missed), sum(Level::will_hold));
        let block = f64::from(seen.block_size).max(1.0);
        let miss_ns = MISS_NS + medium.fast_ns + medium.slow_share * medium.slow_ns;
        let work = state.operations * OPERATION_NS + missed / block * miss_ns + written * MERGE_NS;
        let (seconds, idle) = (state.seconds, state.idle);
        let is_early = self.measures && seconds < SETTLE_SECONDS;
        if is_early && !(state.sealed && seen.idle_is_known) {
            return;
        }
        let mut changes = 0;
        // Deeper levels are first to use idle processors, because they keep their data longest.
        let mut taken = state.taken;
        for number in (0..state.levels.len()).rev() {
            let is_asked = std::mem::take(&mut state.levels[number].is_asked);
            let Some((effects, samples)) = state.effects(number) else { continue };
            if is_early && samples < ENOUGH_SAMPLES {
                continue;
            }
            let level = &mut state.levels[number];
            let is_due = is_in_turn || is_asked || !level.standing.settled;
            if !is_due || !level.is_written() {
                continue;
            }
            let unwatched = WATCHED_SECONDS / (WATCHED_SECONDS + level.watched_seconds);
            let part = |of: f64, all: f64| if all > 0.0 { of / all } else { 0.0 };
            let situation = Situation {
                effects,
                current: level.standing.chosen,
                written: level.judged_written(),
                coming: level.coming as f64,
                is_burst: level.is_burst(),
                missed: level.missed,
                expected_misses: EXPECTED_MISSES * unwatched * level.held_per_written(number),
                missed_anywhere: missed,
                block,
                share: part(level.will_hold(), holds),
                data: holds,
                for_files: seen.for_files.filter(|_| self.measures).map_or(f64::INFINITY, |bytes| bytes as f64),
                unwatched,
                seconds,
                idle: (idle - taken).max(0.0),
                cpus: seen.cpus,
                medium,
                allowance: TOLERANCE * work * part(level.will_hold(), holds),
            };
            let patience = if is_asked { 1 } else { PATIENCE };
            let grounds = Grounds { samples, seconds, idle, holds: level.holds as f64 };
            changes += u64::from(level.hear(&situation, patience, seen.unix_seconds, &grounds));
            if level.standing.chosen != situation.current {
                taken += situation.takes(level.standing.chosen);
            }
        }
        state.taken = taken;
        state.totals.changes += changes;
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
            let _ = write!(out, "level {number}: {}", name(level.standing.chosen));
            let _ = match level.standing.settled {
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

impl Level {
    /// Judges the level and notes the reasons; true if it changes its codec.
    fn hear(&mut self, situation: &Situation, patience: u32, unix_seconds: u64, grounds: &Grounds) -> bool {
        let verdict = judge(situation);
        let was_settled = self.standing.settled;
        let has_changed = self.standing.hear(&verdict, patience);
        if has_changed || !was_settled {
            self.since_unix = unix_seconds;
        }
        self.why = why(situation, &verdict, grounds);
        if self.standing.chosen != verdict.best {
            let chosen = CANDIDATES[self.standing.chosen].codec.name();
            self.why.insert_str(0, &format!("{chosen} stays until another one is clearly better; "));
        }
        has_changed && was_settled
    }

    /// Written bytes that verdicts use, those that running compactions have yet to write included.
    fn judged_written(&self) -> f64 {
        (self.written + self.coming as f64).max(LEAST_WRITTEN)
    }

    /// Returns whether the level was written to or will be soon. A level that only receives moved tables needs no codec, and a verdict for
    /// it would be misled by costs of zero.
    fn is_written(&self) -> bool {
        self.written > 0.0 || self.coming > 0
    }

    /// Bytes that the level will hold once running compactions are done.
    fn will_hold(&self) -> f64 {
        (self.holds as f64 + self.growth as f64).max(0.0)
    }

    /// Bytes of `will_hold` that stay for now. Growth and the excess of the level above may be the same bytes, so the larger counts.
    fn will_stay(&self) -> f64 {
        match self.growth {
            0.. => self.stays + self.owed.max(self.growth as f64),
            _ => (self.stays + self.owed).min(self.will_hold()),
        }
    }

    /// The part of the written bytes that is still read: bytes that stay on the level, or moved down without being rewritten; at most 1.
    /// Bytes that stay on level 0 count as 0, because they are rewritten soon.
    fn held_per_written(&self, number: usize) -> f64 {
        let stays = if number == 0 { 0.0 } else { self.will_stay() };
        ((stays + self.moved) / self.judged_written()).min(1.0)
    }

    /// Returns whether running compactions write more than was written lately, so that earlier verdicts say little about the level.
    fn is_burst(&self) -> bool {
        let by_them = self.under_way.saturating_sub(self.coming) as f64;
        self.under_way as f64 > (self.written - by_them).max(LEAST_WRITTEN)
    }

    fn is_live(&self) -> bool {
        self.holds > 0 || self.is_written()
    }
}

impl State {
    /// Returns whether [`PERIOD_NS`] has passed since the last review of all levels.
    fn is_in_turn(&self, now_ns: u64) -> bool {
        self.all_reviewed_ns.is_none_or(|reviewed| now_ns.saturating_sub(reviewed) >= PERIOD_NS)
    }

    fn level(&mut self, number: usize) -> &mut Level {
        while self.levels.len() <= number {
            self.levels.push(Level::default());
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
        let mut medium = REFERENCE_MEDIUM;
        (medium.write_ns, medium.write_wait_ns) = self.appended.per_byte().unwrap_or((medium.write_ns, medium.write_wait_ns));
        (medium.ahead_ns, medium.ahead_wait_ns) = self.read.per_byte().unwrap_or((medium.ahead_ns, medium.ahead_wait_ns));
        let times = reads.summary();
        medium.slow_share = times.slow_share;
        medium.fast_ns = times.fast_ns.unwrap_or(medium.fast_ns);
        medium.slow_ns = times.slow_ns;
        medium
    }

    /// Adds observations since the last review; older ones lose weight exponentially.
    fn observe(&mut self, seen: &Observed, measures: bool) {
        let elapsed = self.reviewed_ns.map_or(0, |reviewed| seen.now_ns.saturating_sub(reviewed));
        let seconds = if measures { elapsed as f64 / 1e9 } else { 0.0 };
        let kept = 0.5f64.powf(seconds / HALF_LIFE_SECONDS);
        self.reviewed_ns = Some(seen.now_ns);
        self.idle = if measures { seen.idle } else { 0.0 };
        self.taken *= 0.5f64.powf(seconds / NOTICED_SECONDS);
        self.seconds = self.seconds * kept + seconds;
        self.operations = self.operations * kept + seen.operations.saturating_sub(self.operations_seen) as f64;
        self.operations_seen = seen.operations;
        let medium_kept = 0.5f64.powf(seconds / MEDIUM_HALF_LIFE_SECONDS);
        for transfer in [&mut self.appended, &mut self.read] {
            // The weight stays above `LEAST_MOVED`: with few bytes left, a single interrupted read would decide the cost.
            let kept = medium_kept.max(LEAST_MOVED / transfer.bytes).min(1.0);
            let Transfer { bytes, busy_ns, wait_ns } = *transfer;
            *transfer = Transfer { bytes: bytes * kept, busy_ns: busy_ns * kept, wait_ns: wait_ns * kept };
        }
        let mut owed = 0.0;
        for (number, holding) in seen.levels.iter().enumerate() {
            let level = self.level(number);
            level.written *= kept;
            level.moved *= kept;
            level.missed = level.missed * kept + holding.misses as f64 * f64::from(seen.block_size);
            if level.holds > 0 && holding.raw_bytes > 0 {
                level.watched_seconds += seconds;
            }
            level.holds = holding.raw_bytes;
            let excess = holding.excess_bytes.min(holding.raw_bytes);
            level.stays = (holding.raw_bytes - excess) as f64;
            level.owed = std::mem::replace(&mut owed, excess as f64);
        }
    }
}

/// Facts that appear in the reason of a verdict, besides the situation.
struct Grounds {
    samples: u64,
    seconds: f64,
    /// Idle processors, including those that recent changes of codecs took.
    idle: f64,
    holds: f64,
}

/// The reason of a verdict in one line: all inputs of the costs.
fn why(situation: &Situation, verdict: &Verdict, grounds: &Grounds) -> String {
    let Verdict { best, costs, ratios, allowance } = verdict;
    let Grounds { samples, seconds, idle, holds } = grounds;
    let cpus = situation.cpus;
    let mut out = format!("{} is best of", CANDIDATES.get(*best).unwrap_or(&CANDIDATES[FIRST]).codec.name());
    for (number, candidate) in CANDIDATES.iter().enumerate() {
        let Effect { compress_ns, decompress_ns, .. } = situation.effects[number];
        let _ = write!(out, " {} {:.1} ms for {:.2}", candidate.codec.name(), costs[number] / 1e6, ratios[number]);
        if number > 0 {
            let _ = write!(out, " ({compress_ns:.2} and {decompress_ns:.2} ns/B, x {:.2})", situation.price(number));
        }
        out.push(',');
    }
    let observed = situation.missed / situation.written;
    let misses = observed.max(situation.expected_misses);
    let kind = if observed >= situation.expected_misses { "seen" } else { "expected" };
    let _ = write!(out, " {:.1} ms allowed; {misses:.2} misses per byte {kind}; ", allowance / 1e6);
    let Medium { write_ns, write_wait_ns, ahead_ns, ahead_wait_ns, fast_ns, slow_ns, slow_share } = situation.medium;
    let waiting = situation.waiting();
    let _ = write!(out, "writing {write_ns:.2} ns/B and {write_wait_ns:.2} of waiting, reading for merges {ahead_ns:.2} and ");
    let _ = write!(out, "{ahead_wait_ns:.2}, single reads {fast_ns:.0} ns or {slow_ns:.0} ns ");
    let _ = write!(out, "({:.1} % of them), waiting x {waiting:.2}; ", slow_share * 100.0);
    if situation.for_files.is_finite() {
        let _ = write!(out, "room for {:.1} MB of files; ", situation.for_files / 1e6);
    }
    if situation.coming > 0.0 {
        let _ = write!(out, "{:.1} of {:.1} MB written are still to come; ", situation.coming / 1e6, situation.written / 1e6);
    }
    let done = situation.written - situation.coming;
    let lives = if *seconds > 0.0 && done > 0.0 { format!("{:.0} s", holds / done * seconds) } else { "unknown".into() };
    let _ = write!(out, "a byte lives {lives}; {idle:.2} of {cpus:.2} processors idle; {samples} samples; {seconds:.0} s");
    out
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
