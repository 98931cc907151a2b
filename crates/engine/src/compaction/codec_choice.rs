//! Chooses the codec of a level: a pure function of measurements, and the memory that keeps the choice from swinging to and fro. The model
//! and its limits are written down in docs/engine/compression.md.

use crate::codec::{Codec, Compression};
use crate::table::SLOW_GUESS_NS;

/// How many codecs are weighed against each other.
pub const COUNT: usize = 3;
/// The codecs that are weighed: one for each thing that can be scarce (processors for writing, both, space). Others lie between these or
/// gain nothing on blocks of a few KiB, and every candidate costs samples.
pub const CANDIDATES: [Compression; COUNT] = [plain(Codec::None), plain(Codec::Lz4), plain(Codec::Zstd)];
/// The candidate that leaves blocks as they are.
const PLAIN: usize = 0;
/// The candidate in use before anything is known: that of [`Codec::usual`].
pub const FIRST: usize = if Codec::Lz4.is_built_in() { 1 } else { PLAIN };
/// The first candidate on level 0 where memory is ample. A memtable that is full before anything is known comes from a load that leaves no
/// processor idle, and its table is merged soon, or from a load in key order, which waits for nothing but flushes.
pub const FIRST_WITH_ROOM: usize = PLAIN;
/// Memory is ample where the kernel can cache this many memtables' worth of files. That is about what levels 0 to 2 hold under the default
/// targets: their merges find the inputs in memory. With less, flushed tables have to come back from the medium.
pub const ROOMY_MEMTABLES: u64 = 64;

/// Effects of the codecs on half-random values, on one core (lz4_flex and zstd 1, blocks of 4 KiB): used where nothing may be timed.
pub const REFERENCE: [Effect; COUNT] = [
    Effect::NONE,
    Effect::of(Codec::Lz4, Effect { ratio: 0.53, compress_ns: 0.58, decompress_ns: 0.08 }),
    Effect::of(Codec::Zstd, Effect { ratio: 0.42, compress_ns: 1.6, decompress_ns: 0.72 }),
];

/// Cost of a processor's nanosecond that would be idle otherwise: its use delays the job and takes memory bandwidth.
const FREE: f64 = 0.02;
/// Less idle time than this is none.
const LEAST_IDLE: f64 = 0.05;
/// The part of a read's time that its length decides, of a read of a block of 4 KiB: from the page cache, and from the medium.
const FAST_BY_LENGTH: f64 = 0.37;
const SLOW_BY_LENGTH: f64 = 0.08;
/// Cost of a wait while no processor is idle, as a part of its time: other threads work meanwhile. Their number at the time of reading is
/// not known when the data are written.
const BUSY_WAIT: f64 = 0.5;
/// A smaller share of slow reads says nothing about the page cache's size: they are first reads of data.
const LEAST_SLOW: f64 = 0.05;
/// Sizes that differ by less are the same: then the cheaper codec is taken.
const SAME_SIZE: f64 = 0.02;
/// A change of codec for its size has to gain this much of the size before compression.
const CLEAR_SIZE: f64 = 0.05;
/// A change for its cost has to gain this part of the difference between the dearest and the cheapest: most of a cost is often common to
/// all.
const CLEAR_COST: f64 = 0.1;
/// Nanoseconds that a merge costs per byte, without codecs.
pub const MERGE_NS: f64 = 0.7;
/// Verdicts in a row that have to ask for the same change, unless the facts behind them are new.
pub const PATIENCE: u32 = 3;

const fn plain(codec: Codec) -> Compression {
    Compression { codec, level: None, dictionary_bytes: 0 }
}

/// Effect of a codec on a level's data. Times are nanoseconds of one processor per byte before compression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// Size in blocks per size before; 1 if blocks are stored plain because they do not shrink by an eighth.
    pub ratio: f64,
    /// Compression.
    pub compress_ns: f64,
    /// Decompression.
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

/// Costs of the medium where nothing may be timed: a page cache that writes 2.5 GB/s through to a local disk, and holds everything.
pub const REFERENCE_MEDIUM: Medium = Medium {
    write_ns: 0.4,
    write_wait_ns: 0.0,
    ahead_ns: 0.2,
    ahead_wait_ns: 0.0,
    fast_ns: 700.0,
    slow_ns: SLOW_GUESS_NS as f64,
    slow_share: 0.0,
};

/// Facts about one level, all over one period. Bytes are counted before compression.
#[derive(Debug, Clone, PartialEq)]
pub struct Situation {
    /// Effect of each candidate on this level's data.
    pub effects: [Effect; COUNT],
    /// The candidate in use.
    pub current: usize,
    /// Bytes that flushes and compactions wrote to the level, or are about to.
    pub written: f64,
    /// Part of `written` that compactions under way have yet to write.
    pub coming: f64,
    /// Most of `written` comes from compactions under way.
    pub is_burst: bool,
    /// Bytes of its blocks that readers did not find in the cache.
    pub missed: f64,
    /// How often a byte is expected to be missed before it is rewritten, at least.
    pub expected_misses: f64,
    /// Bytes of blocks of all levels that readers did not find in the cache.
    pub missed_anywhere: f64,
    /// Bytes of a block.
    pub block: f64,
    /// The level's part of the family's data, 0 to 1.
    pub share: f64,
    /// The family's data, bytes before compression.
    pub data: f64,
    /// Bytes of the family's files that the page cache can hold.
    pub for_files: f64,
    /// Part of the time needed to know a level's readers that is still to come, 1 to 0.
    pub unwatched: f64,
    /// Length of the period, seconds; 0: it is not known, and no processor is free.
    pub seconds: f64,
    /// Processors that are idle and that no other change of codec was just given.
    pub idle: f64,
    /// Processors that there are.
    pub cpus: f64,
    /// Costs of the medium.
    pub medium: Medium,
    /// Nanoseconds that a smaller size may cost.
    pub allowance: f64,
}

/// Result of judging a situation.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The candidate.
    pub best: usize,
    /// Nanoseconds that each would cost.
    pub costs: [f64; COUNT],
    /// The size with each, per size before.
    pub ratios: [f64; COUNT],
    /// Nanoseconds that a smaller size was allowed to cost.
    pub allowance: f64,
}

/// A measured number made safe to calculate with.
fn sound(number: f64) -> f64 {
    if number.is_finite() { number.clamp(0.0, 1e15) } else { 0.0 }
}

impl Effect {
    /// Blocks are left as they are.
    const NONE: Effect = Effect { ratio: 1.0, compress_ns: 0.0, decompress_ns: 0.0 };

    /// The effect of a codec. One that is not built in has none, and therefore no advantage that could get it chosen.
    const fn of(codec: Codec, effect: Effect) -> Effect {
        if codec.is_built_in() { effect } else { Effect::NONE }
    }

    fn sound(self) -> Effect {
        let ratio = if self.ratio.is_finite() { self.ratio.clamp(0.01, 1.0) } else { 1.0 };
        Effect { ratio, compress_ns: sound(self.compress_ns), decompress_ns: sound(self.decompress_ns) }
    }
}

impl Situation {
    /// Processors that writing with a candidate keeps busy. A burst comes as fast as a merge can that compresses its blocks itself: the
    /// time over which earlier data was written says nothing about it.
    fn needed(&self, candidate: Effect) -> f64 {
        match self.is_burst {
            true => candidate.compress_ns / (MERGE_NS + sound(self.medium.write_ns) + candidate.compress_ns),
            false => self.processors(sound(self.written), candidate),
        }
    }

    /// Processors that the codec in use has kept busy.
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

    /// The weight of a processor's time for writing with a candidate: 1 where it is taken from others, [`FREE`] where it would be idle
    /// otherwise. What the codec in use takes could be given back, so it counts as room.
    ///
    /// Others wait, too, where there is room on the average but no processor is idle at the moment. Clients that wait for the medium leave
    /// idle time that is nobody's to use: they are back before the job is done. Up to half of all processors' time threads are taken to
    /// have each its own; of what is busy beyond that, it is as likely as it is much, and less so with more processors. The codec adds to
    /// what is busy: it costs the mean over all that it adds.
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
        // Twice the room: the load comes in bursts, and others want some of it, too.
        let room = free / (2.0 * needed);
        let cpus = sound(self.cpus).max(0.01);
        let before = (1.0 - free / cpus).max(0.0);
        let after = before + needed / cpus;
        let power = cpus.max(1.0) / 2.0;
        // How often all are busy, summed up from none to so many of them.
        let sum = |busy: f64| (2.0 * busy - 1.0).clamp(0.0, 1.0).powf(power + 1.0) / (2.0 * (power + 1.0)) + (busy - 1.0).max(0.0);
        let all_busy = ((sum(after) - sum(before)) / (after - before)).clamp(0.0, 1.0);
        FREE + (1.0 - FREE) * (1.0 - room.min(1.0)).max(all_busy)
    }

    /// The weight of the time that somebody waits for the medium, a reader or a job: 1 with a processor idle, [`BUSY_WAIT`] with none.
    pub(super) fn waiting(&self) -> f64 {
        let idle = if sound(self.seconds) > 0.0 { sound(self.idle).min(1.0) } else { 0.0 };
        BUSY_WAIT + (1.0 - BUSY_WAIT) * idle
    }

    /// [`Situation::scarcity`] of a candidate by its number.
    pub(super) fn price(&self, candidate: usize) -> f64 {
        let current = self.current.min(COUNT - 1);
        Situation { current, ..self.clone() }.scarcity(self.effects[candidate].sound())
    }

    /// The part of reads that would wait for the medium: the smaller all data, the more of them the page cache holds. As if all that the
    /// block cache does not hold were read equally often.
    ///
    /// Until readers have been watched, it is expected of the data that do not fit, and of as much again, because a load is likely to be
    /// in its midst: who writes more than memory holds should not learn from slow reads that it could have been less.
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

    /// Nanoseconds that the level would have cost with a candidate.
    fn cost(&self, candidate: Effect) -> f64 {
        let Medium { write_ns, write_wait_ns, ahead_ns, ahead_wait_ns, fast_ns, slow_ns, .. } = self.medium;
        let (fast_ns, slow_ns) = (sound(fast_ns), self.slow_share(candidate) * sound(slow_ns) * self.waiting());
        let (written, block) = (sound(self.written), sound(self.block).max(1.0));
        let missed = sound(self.missed).max(written * sound(self.expected_misses));
        let price = self.scarcity(candidate);
        let appending = sound(write_ns) + sound(write_wait_ns) * self.waiting();
        let writing = written * (candidate.compress_ns * price + candidate.ratio * appending);
        // Whatever is written is read once more, by the merge that comes next.
        let ahead = sound(ahead_ns) + sound(ahead_wait_ns) * self.waiting();
        let merging = written * (candidate.decompress_ns * price + candidate.ratio * ahead);
        let fast = fast_ns * (1.0 - FAST_BY_LENGTH + FAST_BY_LENGTH * candidate.ratio);
        let reading = missed * candidate.decompress_ns + missed / block * fast;
        let elsewhere = (sound(self.missed_anywhere) - missed).max(0.0);
        let waits = missed * (1.0 - SLOW_BY_LENGTH + SLOW_BY_LENGTH * candidate.ratio) + elsewhere;
        writing + merging + reading + waits / block * slow_ns
    }
}

/// The candidate that makes the data smallest among those whose cost is within the allowance of the least.
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
    /// There has been a verdict.
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
    /// Sets the codec that is in use until the first verdict.
    pub fn begin(&mut self, candidate: usize) {
        if !self.settled {
            (self.chosen, self.challenger) = (candidate, candidate);
        }
    }

    /// Takes a verdict into account; true if another codec is in use from now on. A change has to gain clearly, and after the first verdict
    /// it has to be asked for `patience` times in a row.
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
    /// The best candidate is clearly better than `chosen`: smaller, or `chosen` costs well more than what is allowed, or does nothing.
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
