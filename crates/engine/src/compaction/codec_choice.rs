//! Chooses the codec of a level: a pure function of measurements, and the state that keeps the choice from alternating. Model and limits
//! are described in docs/engine/compression.md.

use crate::codec::{Codec, Compression};
use crate::table::SLOW_GUESS_NS;

/// Number of candidates.
pub const COUNT: usize = 3;
/// The candidates: none where processor time is scarce, zstd where space is, LZ4 between them. Other codecs lie between these or gain
/// nothing on blocks of a few KiB, and every candidate makes samples more expensive.
pub const CANDIDATES: [Compression; COUNT] = [plain(Codec::None), plain(Codec::Lz4), plain(Codec::Zstd)];
/// The candidate that does not compress.
const PLAIN: usize = 0;
/// The candidate in use before anything is known, as [`Codec::usual`].
pub const FIRST: usize = if Codec::Lz4.is_built_in() { 1 } else { PLAIN };
/// The candidate in use on level 0 before anything is known, where memory is ample. A memtable that fills so early comes from a load: with
/// random keys no processor is idle and the table is merged soon; with ascending keys writers wait only for flushes.
pub const FIRST_WITH_ROOM: usize = PLAIN;
/// Memory is ample if the page cache can hold files of the size of this many memtables. With the default targets, levels 0 to 2 have about
/// this size, so their merges find the inputs in memory. With less memory, flushed tables are read back from the medium.
pub const ROOMY_MEMTABLES: u64 = 64;

/// Effects of the codecs on half-random values, on one core (lz4_flex and zstd level 1, blocks of 4 KiB). Used in databases without
/// threads, where nothing is timed.
pub const REFERENCE: [Effect; COUNT] = [
    Effect::NONE,
    Effect::of(Codec::Lz4, Effect { ratio: 0.53, compress_ns: 0.58, decompress_ns: 0.08 }),
    Effect::of(Codec::Zstd, Effect { ratio: 0.42, compress_ns: 1.6, decompress_ns: 0.72 }),
];

/// Weight of a nanosecond of an otherwise idle processor: using it still delays the job and takes memory bandwidth.
const FREE: f64 = 0.02;
/// Fewer idle processors than this count as none.
const LEAST_IDLE: f64 = 0.05;
/// The part of the time of reading a block of 4 KiB that is proportional to its length: from the page cache, and from the medium.
const FAST_BY_LENGTH: f64 = 0.37;
const SLOW_BY_LENGTH: f64 = 0.08;
/// Weight of a nanosecond of waiting for the medium while no processor is idle: other threads use the processor meanwhile. How many will
/// be there when the data is read is not known when it is written.
const BUSY_WAIT: f64 = 0.5;
/// A smaller share of slow reads says nothing about the size of the page cache: these are first reads of data.
const LEAST_SLOW: f64 = 0.05;
/// Ratios that differ by less count as equal: then the cheaper codec is chosen.
const SAME_SIZE: f64 = 0.02;
/// A change to a codec for its smaller size has to lower the ratio by this much.
const CLEAR_SIZE: f64 = 0.05;
/// A change to a codec for its lower cost has to gain this part of the difference between the most and the least expensive candidate; the
/// difference is used because most of the cost is often common to all.
const CLEAR_COST: f64 = 0.1;
/// Nanoseconds that a merge costs per byte, without codecs.
pub const MERGE_NS: f64 = 0.7;
/// Number of verdicts in a row that have to ask for the same change, unless a job asked for the verdict.
pub const PATIENCE: u32 = 3;

const fn plain(codec: Codec) -> Compression {
    Compression { codec, level: None, dictionary_bytes: 0 }
}

/// Effect of a codec on a level's data. Times are nanoseconds of one processor per byte before compression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// Size in blocks per size before; 1 if blocks are stored plain because they do not shrink by an eighth.
    pub ratio: f64,
    /// Time of compression.
    pub compress_ns: f64,
    /// Time of decompression.
    pub decompress_ns: f64,
}

/// Result of one candidate on one sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Size after per size before; 1 if it did not shrink by an eighth.
    pub ratio: f64,
    /// Nanoseconds per byte to compress and to decompress; `None` where nothing is timed.
    pub ns: Option<(f64, f64)>,
}

/// Costs of the medium.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Medium {
    /// Nanoseconds of a processor per byte written.
    pub write_ns: f64,
    /// Nanoseconds per byte written in which the medium was waited for, syncs included.
    pub write_wait_ns: f64,
    /// Nanoseconds of a processor per byte that a merge reads, which is in order.
    pub ahead_ns: f64,
    /// Nanoseconds per byte in which the medium was waited for by merges.
    pub ahead_wait_ns: f64,
    /// Nanoseconds of a read of one block that the page cache answers.
    pub fast_ns: f64,
    /// Nanoseconds of a read of one block that waits for the medium.
    pub slow_ns: f64,
    /// The part of reads that wait.
    pub slow_share: f64,
}

/// Costs of the medium in databases without threads, where nothing is timed: a page cache that takes 2.5 GB/s and holds all files.
pub const REFERENCE_MEDIUM: Medium = Medium {
    write_ns: 0.4,
    write_wait_ns: 0.0,
    ahead_ns: 0.2,
    ahead_wait_ns: 0.0,
    fast_ns: 700.0,
    slow_ns: SLOW_GUESS_NS as f64,
    slow_share: 0.0,
};

/// Facts about one level over one period. Bytes are counted before compression.
#[derive(Debug, Clone, PartialEq)]
pub struct Situation {
    /// Effect of each candidate on this level's data.
    pub effects: [Effect; COUNT],
    /// The candidate in use.
    pub current: usize,
    /// Bytes that flushes and compactions wrote to the level or are about to write.
    pub written: f64,
    /// Part of `written` that compactions under way have yet to write.
    pub coming: f64,
    /// Most of `written` comes from compactions under way.
    pub is_burst: bool,
    /// Bytes of the level's blocks that readers did not find in the block cache.
    pub missed: f64,
    /// Lower bound of how often a byte is missed before it is rewritten, as long as readers have not been watched for long.
    pub expected_misses: f64,
    /// Bytes of blocks of all levels that readers did not find in the block cache.
    pub missed_anywhere: f64,
    /// Bytes of a block.
    pub block: f64,
    /// The level's part of the family's data, 0 to 1.
    pub share: f64,
    /// The family's data, bytes before compression.
    pub data: f64,
    /// Bytes of the family's files that the page cache can hold.
    pub for_files: f64,
    /// How little is known of the level's readers: 1 at first, towards 0 the longer the level has been watched.
    pub unwatched: f64,
    /// Length of the period, seconds; 0: not known, and no processor counts as idle.
    pub seconds: f64,
    /// Idle processors, without those that other changes of codecs have just taken.
    pub idle: f64,
    /// Processors that there are.
    pub cpus: f64,
    /// Costs of the medium.
    pub medium: Medium,
    /// Nanoseconds that a smaller size may cost more than the least expensive candidate.
    pub allowance: f64,
}

/// Result of judging a situation.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The candidate.
    pub best: usize,
    /// Cost of each candidate, nanoseconds.
    pub costs: [f64; COUNT],
    /// Size with each candidate, per size before compression.
    pub ratios: [f64; COUNT],
    /// Nanoseconds that a smaller size was allowed to cost.
    pub allowance: f64,
}

/// Replaces a measurement that is negative, infinite or not a number by one that is safe to calculate with.
fn sound(number: f64) -> f64 {
    if number.is_finite() { number.clamp(0.0, 1e15) } else { 0.0 }
}

impl Effect {
    /// The effect of not compressing.
    const NONE: Effect = Effect { ratio: 1.0, compress_ns: 0.0, decompress_ns: 0.0 };

    /// The effect of a codec. A codec that is not built in gets the effect of not compressing, so that it is never chosen.
    const fn of(codec: Codec, effect: Effect) -> Effect {
        if codec.is_built_in() { effect } else { Effect::NONE }
    }

    fn sound(self) -> Effect {
        let ratio = if self.ratio.is_finite() { self.ratio.clamp(0.01, 1.0) } else { 1.0 };
        Effect { ratio, compress_ns: sound(self.compress_ns), decompress_ns: sound(self.decompress_ns) }
    }
}

impl Situation {
    /// Processors that compression with a candidate keeps busy. For a burst, this is the share of compression in the time of a merge that
    /// compresses its blocks itself, because the rate of earlier writes says nothing about a burst.
    fn needed(&self, candidate: Effect) -> f64 {
        match self.is_burst {
            true => candidate.compress_ns / (MERGE_NS + sound(self.medium.write_ns) + candidate.compress_ns),
            false => self.processors(sound(self.written), candidate),
        }
    }

    /// Processors that compression with the codec in use has kept busy, and that a change of codec would free.
    fn given_back(&self) -> f64 {
        let written = sound(self.written);
        self.processors(written - sound(self.coming).min(written), self.effects[self.current].sound())
    }

    fn processors(&self, bytes: f64, effect: Effect) -> f64 {
        if self.seconds > 0.0 { sound(bytes / self.seconds * effect.compress_ns / 1e9) } else { 0.0 }
    }

    /// Additional idle processors that the level uses once it switches to a candidate from the codec in use.
    pub(super) fn takes(&self, candidate: usize) -> f64 {
        (self.needed(self.effects[candidate].sound()) - self.given_back()).max(0.0)
    }

    /// The weight of processor time for compression with a candidate: 1 where the time is taken from other threads, [`FREE`] where the
    /// processor would be idle. Processors that the codec in use keeps busy count as idle, because a change frees them.
    ///
    /// Two estimates are made, and the larger counts. The first compares idle processors with twice the need. The second is the probability
    /// that all processors are busy at a moment, although some are idle on average: it is 0 while at most half of all processor time is
    /// busy, grows from there to 1, and grows later the more processors there are. Its mean is taken over the load that compression adds.
    fn scarcity(&self, candidate: Effect) -> f64 {
        let idle = sound(self.idle);
        if sound(self.seconds) <= 0.0 || idle < LEAST_IDLE {
            return 1.0;
        }
        let needed = self.needed(candidate);
        if needed <= 0.0 {
            return FREE;
        }
        let free = idle + self.given_back();
        // Twice the need: load comes in bursts, and other threads want some of the idle processors, too.
        let room = free / (2.0 * needed);
        let cpus = sound(self.cpus).max(0.01);
        let before = (1.0 - free / cpus).max(0.0);
        let after = before + needed / cpus;
        let power = cpus.max(1.0) / 2.0;
        // Integral of the probability that all processors are busy, from 0 to the busy part `busy`.
        let sum = |busy: f64| (2.0 * busy - 1.0).clamp(0.0, 1.0).powf(power + 1.0) / (2.0 * (power + 1.0)) + (busy - 1.0).max(0.0);
        let all_busy = ((sum(after) - sum(before)) / (after - before)).clamp(0.0, 1.0);
        FREE + (1.0 - FREE) * (1.0 - room.min(1.0)).max(all_busy)
    }

    /// The weight of time in which a reader or a job waits for the medium: 1 if a processor is idle, [`BUSY_WAIT`] if none is.
    pub(super) fn waiting(&self) -> f64 {
        let idle = if sound(self.seconds) > 0.0 { sound(self.idle).min(1.0) } else { 0.0 };
        BUSY_WAIT + (1.0 - BUSY_WAIT) * idle
    }

    /// [`Situation::scarcity`] of a candidate by its number.
    pub(super) fn price(&self, candidate: usize) -> f64 {
        let current = self.current.min(COUNT - 1);
        Situation { current, ..self.clone() }.scarcity(self.effects[candidate].sound())
    }

    /// The part of reads that would wait for the medium with a candidate: the smaller the data, the more of it the page cache holds.
    /// Assumes that all data outside the block cache is read equally often.
    ///
    /// As long as readers have not been watched for long, the part of the data that will not fit into the page cache is assumed, for up
    /// to twice the present data: a load is probably half done, and slow reads would show too late that the data should have been smaller.
    fn slow_share(&self, candidate: Effect) -> f64 {
        let now = sound(self.medium.slow_share).min(1.0);
        let share = sound(self.share).min(1.0);
        let present = self.effects[self.current].sound().ratio;
        let size = sound(self.data) * (present * (1.0 - share) + candidate.ratio * share);
        let unwatched = sound(self.unwatched).min(1.0);
        let (room, size) = (self.for_files.max(0.0), size * (1.0 + unwatched));
        let fits = if room < size { room / size } else { 1.0 };
        let expected = (1.0 - fits) * unwatched;
        let seen = if now < LEAST_SLOW { now } else { 1.0 - ((1.0 - now) / (1.0 - share + share * candidate.ratio / present)).min(1.0) };
        seen.max(expected)
    }

    /// Cost of the level over the period with a candidate, nanoseconds.
    fn cost(&self, candidate: Effect) -> f64 {
        let Medium { write_ns, write_wait_ns, ahead_ns, ahead_wait_ns, fast_ns, slow_ns, .. } = self.medium;
        let (fast_ns, slow_ns) = (sound(fast_ns), self.slow_share(candidate) * sound(slow_ns) * self.waiting());
        let (written, block) = (sound(self.written), sound(self.block).max(1.0));
        let missed = sound(self.missed).max(written * sound(self.expected_misses));
        let price = self.scarcity(candidate);
        let appending = sound(write_ns) + sound(write_wait_ns) * self.waiting();
        let writing = written * (candidate.compress_ns * price + candidate.ratio * appending);
        // Everything written is read once more, by the next merge.
        let ahead = sound(ahead_ns) + sound(ahead_wait_ns) * self.waiting();
        let merging = written * (candidate.decompress_ns * price + candidate.ratio * ahead);
        let fast = fast_ns * (1.0 - FAST_BY_LENGTH + FAST_BY_LENGTH * candidate.ratio);
        let reading = missed * candidate.decompress_ns + missed / block * fast;
        let elsewhere = (sound(self.missed_anywhere) - missed).max(0.0);
        let waits = missed * (1.0 - SLOW_BY_LENGTH + SLOW_BY_LENGTH * candidate.ratio) + elsewhere;
        writing + merging + reading + waits / block * slow_ns
    }
}

/// Picks, among the candidates whose cost exceeds the least by no more than the allowance, the one with the smallest data.
pub fn judge(situation: &Situation) -> Verdict {
    let situation = &Situation { current: situation.current.min(COUNT - 1), ..situation.clone() };
    let effects = situation.effects.map(Effect::sound);
    let costs = effects.map(|effect| situation.cost(effect));
    let ratios = effects.map(|effect| effect.ratio);
    let allowance = sound(situation.allowance);
    let mut by_cost: [usize; COUNT] = std::array::from_fn(|i| i);
    by_cost.sort_by(|a, b| costs[*a].total_cmp(&costs[*b]));
    let limit = costs[by_cost[0]] + allowance;
    let allowed = by_cost.into_iter().filter(|i| costs[*i] <= limit);
    let best = allowed.reduce(|best, i| if ratios[i] < ratios[best] - SAME_SIZE { i } else { best }).unwrap_or(FIRST);
    Verdict { best, costs, ratios, allowance }
}

/// The codec of a level over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The candidate in use.
    pub chosen: usize,
    /// At least one verdict was given.
    pub settled: bool,
    challenger: usize,
    streak: u32,
}

impl Default for Standing {
    /// The codec in use before anything is known.
    fn default() -> Self {
        Standing { chosen: FIRST, settled: false, challenger: FIRST, streak: 0 }
    }
}

impl Standing {
    /// Sets the codec in use until the first verdict.
    pub fn begin(&mut self, candidate: usize) {
        if !self.settled {
            (self.chosen, self.challenger) = (candidate, candidate);
        }
    }

    /// Takes a verdict into account. True if the codec in use changes. A change must be a clear gain, and except for the first verdict,
    /// `patience` verdicts in a row have to ask for it.
    pub fn hear(&mut self, verdict: &Verdict, patience: u32) -> bool {
        let (best, chosen) = (verdict.best, self.chosen);
        let patience = if std::mem::replace(&mut self.settled, true) { patience } else { 1 };
        if best == chosen || !verdict.is_clear(chosen) {
            self.streak = 0;
            return false;
        }
        if self.challenger != best {
            (self.challenger, self.streak) = (best, 0);
        }
        self.streak += 1;
        if self.streak < patience {
            return false;
        }
        (self.chosen, self.streak) = (best, 0);
        true
    }
}

impl Verdict {
    /// Returns whether the best candidate is clearly better than `chosen`: its data is clearly smaller, `chosen` costs far more than
    /// allowed, or `chosen` does not make the data smaller.
    fn is_clear(&self, chosen: usize) -> bool {
        let (least, most) = self.costs.iter().fold((f64::INFINITY, 0.0f64), |(least, most), cost| (least.min(*cost), most.max(*cost)));
        let bearable = least + (2.0 * self.allowance).max(CLEAR_COST * (most - least));
        let is_useless = self.best == PLAIN && self.ratios[chosen] > self.ratios[PLAIN] - SAME_SIZE;
        is_useless || self.ratios[chosen] > self.ratios[self.best] + CLEAR_SIZE || self.costs[chosen] > bearable
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
