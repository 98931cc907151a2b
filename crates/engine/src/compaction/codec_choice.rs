//! Chooses the codec of a level by cost per byte written: a pure function of measurements. docs/engine/compression.md describes the model
//! and its limits.

use crate::codec::{Codec, Compression};
use crate::table::SLOW_GUESS_NS;

/// Number of candidates.
pub const COUNT: usize = 3;
/// The candidates: none where processor time is scarce, zstd where space is, LZ4 between them. Other codecs lie between these or gain
/// nothing on blocks of a few KiB, and every candidate makes samples more expensive.
pub const CANDIDATES: [Compression; COUNT] = [plain(Codec::None), plain(Codec::Lz4), plain(Codec::Zstd)];
/// The candidate that does not compress.
pub const PLAIN: usize = 0;
/// The candidate in use below level 0 before anything is known, as [`Codec::usual`].
pub const FIRST: usize = if Codec::Lz4.is_built_in() { 1 } else { PLAIN };

/// Effects of the codecs on half-random values, on one core (lz4_flex and zstd level 1, blocks of 4 KiB). Used in databases without
/// threads, where nothing is timed.
pub const REFERENCE: [Effect; COUNT] = [
    Effect::NONE,
    Effect::of(Codec::Lz4, Effect { ratio: 0.53, compress_ns: 0.58, decompress_ns: 0.08 }),
    Effect::of(Codec::Zstd, Effect { ratio: 0.42, compress_ns: 1.6, decompress_ns: 0.72 }),
];

/// The part of its cost that a change of codec has to save. A codec that makes the data smaller by less is no candidate.
const MARGIN: f64 = 0.05;
/// Price of a processor that would be idle: using it still delays the job and takes memory bandwidth.
const FREE: f64 = 0.02;
/// The part of a wait for the medium that does not count while all processors are busy: other threads use the processor meanwhile.
const USED_BY_OTHERS: f64 = 0.5;
/// The part of the time of reading a block of 4 KiB from the page cache that is proportional to its length.
const FAST_BY_LENGTH: f64 = 0.37;
/// Nanoseconds that a merge takes per byte, without codecs and writing.
const MERGE_NS: f64 = 0.7;

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
    /// Nanoseconds of a processor, and of waiting for the medium, per byte written, syncs included.
    pub write_ns: (f64, f64),
    /// Nanoseconds of a processor, and of waiting for the medium, per byte that a merge reads.
    pub merge_ns: (f64, f64),
    /// Nanoseconds of a read of one block that the page cache answers.
    pub fast_ns: f64,
    /// Nanoseconds of a read of one block that waits for the medium.
    pub slow_ns: f64,
    /// The part of reads that wait.
    pub slow_share: f64,
}

/// Costs of the medium in databases without threads, where nothing is timed: a page cache that takes 2.5 GB/s and holds all files.
pub const REFERENCE_MEDIUM: Medium =
    Medium { write_ns: (0.4, 0.0), merge_ns: (0.2, 0.0), fast_ns: 700.0, slow_ns: SLOW_GUESS_NS as f64, slow_share: 0.0 };

/// Facts about one level. Bytes are counted before compression.
#[derive(Debug, Clone, PartialEq)]
pub struct Situation {
    /// Effect of each candidate on this level's data.
    pub effects: [Effect; COUNT],
    /// The candidate in use.
    pub current: usize,
    /// Bytes per nanosecond that jobs write to the level.
    pub rate: f64,
    /// A compaction into the level is under way.
    pub is_merging: bool,
    /// Bytes of blocks that readers do not find in the block cache, per byte written.
    pub reads: f64,
    /// Bytes of a block.
    pub block: f64,
    /// Processors that are idle, or compress for this level or one that is judged later.
    pub spare: f64,
    /// Processors that there are.
    pub cpus: f64,
    /// Costs of the medium.
    pub medium: Medium,
    /// The family's data.
    pub data: f64,
    /// Size in tables per size before compression of the family's present data.
    pub present: f64,
    /// Bytes of the family's files that the page cache can hold.
    pub for_files: f64,
    /// Weight of what is expected of readers: 1 at first, towards 0 the longer the level has been watched.
    pub unwatched: f64,
}

/// Costs of the candidates, and the choice among them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Nanoseconds per byte written; infinite where a codec does not make the data smaller.
    pub costs: [f64; COUNT],
    /// The candidate of the least cost.
    pub best: usize,
    /// The candidate to use: `best` if it is clearly better than the one in use.
    pub chosen: usize,
}

impl Effect {
    /// The effect of not compressing.
    const NONE: Effect = Effect { ratio: 1.0, compress_ns: 0.0, decompress_ns: 0.0 };

    /// The effect of a codec. A codec that is not built in gets the effect of not compressing, so that it is never chosen.
    const fn of(codec: Codec, effect: Effect) -> Effect {
        if codec.is_built_in() { effect } else { Effect::NONE }
    }
}

impl Situation {
    /// Processors that compression with a candidate keeps busy: by the rate of writes, or while a compaction runs its share in the time of
    /// a merge that compresses its blocks itself.
    pub fn needed(&self, candidate: usize) -> f64 {
        let compress = self.effects[candidate].compress_ns;
        let by_merge = if self.is_merging { compress / (MERGE_NS + compress) } else { 0.0 };
        (self.rate * compress).max(by_merge)
    }

    /// Price of processor time, the mean over a load that takes `needed` processors: [`FREE`] while one processor (half of them if there is
    /// but one) stays idle, 1 once none does, and linear in between. Clients that wait for the medium leave idle time that they need again.
    pub fn price(&self, needed: f64) -> f64 {
        let enough = (self.cpus / 2.0).clamp(0.01, 1.0);
        (1.0 - (self.spare - needed / 2.0) / enough).clamp(FREE, 1.0)
    }

    /// Price of waiting for the medium.
    pub fn waiting(&self) -> f64 {
        1.0 - USED_BY_OTHERS * self.price(0.0)
    }

    /// The part of reads that wait for the medium if data has `ratio`: as seen, in proportion to the size, or as expected of the part that
    /// the page cache cannot hold. A load is expected to bring as much again: slow reads would show too late that data should be smaller.
    fn slow_share(&self, ratio: f64) -> f64 {
        let seen = self.medium.slow_share * ratio / self.present.max(0.01);
        let to_come = self.data * (1.0 + self.unwatched) * ratio;
        let expected = if to_come > self.for_files { (1.0 - self.for_files / to_come) * self.unwatched } else { 0.0 };
        seen.min(1.0).max(expected)
    }

    /// Nanoseconds per byte written with a candidate: flushes and merges write it, the next merge reads it, and so do readers.
    fn cost(&self, candidate: usize) -> f64 {
        let Effect { ratio, compress_ns, decompress_ns } = self.effects[candidate];
        if candidate != PLAIN && ratio > 1.0 - MARGIN {
            return f64::INFINITY;
        }
        let Medium { write_ns, merge_ns, fast_ns, slow_ns, .. } = self.medium;
        let (price, waiting) = (self.price(self.needed(candidate)), self.waiting());
        let moving = write_ns.0 + merge_ns.0 + waiting * (write_ns.1 + merge_ns.1);
        let block = FAST_BY_LENGTH * ratio * fast_ns + self.slow_share(ratio) * waiting * slow_ns;
        price * (compress_ns + decompress_ns) + ratio * moving + self.reads * (decompress_ns + block / self.block.max(1.0))
    }

    /// Chooses the codec.
    pub fn judge(&self) -> Verdict {
        let costs: [f64; COUNT] = std::array::from_fn(|candidate| self.cost(candidate));
        let best = (0..COUNT).min_by(|a, b| costs[*a].total_cmp(&costs[*b])).unwrap_or(PLAIN);
        let chosen = if costs[best] < costs[self.current] * (1.0 - MARGIN) { best } else { self.current };
        Verdict { costs, best, chosen }
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
