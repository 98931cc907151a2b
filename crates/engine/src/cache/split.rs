//! Decides from measurements how many bytes of the cache are for compressed blocks: as many as save readers time.
//!
//! Gain: a byte of cache moved to compressed blocks holds `1 / ratio` bytes of data instead of one. The `1 / ratio - 1` additional bytes
//! would hold the blocks that left the cache last. A list of their names (ghosts, as in ARC; Megiddo and Modha, FAST 2003) tells how often
//! one of them was read again; each such read would have decompressed a block instead of missing.
//!
//! Cost: the moved byte no longer holds uncompressed data. The CLOCK spares blocks that were used since it last came by; the rate of that
//! tells how often the blocks of a byte would have to be decompressed. This is the mean over all blocks, although the coldest would be the
//! ones compressed, so the cost is rather overestimated. Both are nanoseconds of readers per second, and bytes move while one is clearly
//! larger.
//!
//! If a miss costs no more than decompression, because the page cache has the data, the compressed share shrinks to nothing.

use super::{Cache, Signals};
use crate::settings::CompressedCache;

/// One step moves the budget divided by this.
const STEPS: u64 = 32;
/// No decision is made before this many events.
const SAMPLES: u64 = 1000;
/// Gain and cost have to differ by this factor.
const CLEARLY: f64 = 1.25;
/// A step has to save at least this many nanoseconds per second: a thousandth of a processor.
const WORTH_NS: f64 = 1e6;
/// Cost of a hit of a compressed block until one is measured: decompressing 4 KB, deriving its tags, compressing another block.
const UNPACK_NS: f64 = 5000.0;
/// Bytes of a block, where only the order of magnitude matters.
const BLOCK: u64 = 4096;

/// The state of a cache, and its signals since the last decision.
#[derive(Debug, Clone, Copy, Default)]
pub struct Observed {
    /// The budget of both parts, bytes.
    pub capacity: u64,
    /// Budget of compressed blocks, out of `capacity`; bytes.
    pub packed: u64,
    /// Bytes that compressed blocks take.
    pub packed_used: u64,
    /// Bytes that uncompressed blocks take.
    pub plain_used: u64,
    /// Signals since the last decision.
    pub seen: Signals,
    /// Nanoseconds of a miss, as last measured.
    pub miss_ns: f64,
    /// Nanoseconds of a hit of a compressed block, as last measured.
    pub unpack_ns: f64,
}

/// The new split of the budget, and its reason.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Bytes for compressed blocks from now on.
    pub packed: u64,
    /// Time that readers would save by one step more, nanoseconds per second.
    pub gain: f64,
    /// Time that one step more would cost, nanoseconds per second.
    pub cost: f64,
    /// The reason in words.
    pub reason: &'static str,
}

/// Decides the new split. A pure function.
pub fn decide(o: &Observed) -> Decision {
    let seconds = o.seen.at_ns as f64 / 1e9;
    let came = (o.seen.misses + o.seen.unpacked).saturating_mul(BLOCK);
    // A step has at most as many bytes as entered the cache since the last decision: the measurements cover no more.
    let step = (o.capacity / STEPS).min(came);
    let ratio = if o.seen.plain_bytes > 0 { o.seen.packed_bytes as f64 / o.seen.plain_bytes as f64 } else { 1.0 };
    let more = step as f64 * (1.0 / ratio.max(0.01) - 1.0).max(0.0);
    let read_again = o.seen.ghost_hits as f64 * (more / (o.seen.ghost_bytes as f64).max(more).max(1.0));
    let gain = read_again * (o.miss_ns - o.unpack_ns).max(0.0) / seconds;
    let of_plain = step as f64 / (o.plain_used as f64).max(step as f64).max(1.0);
    // Misses of indexes and filters count as cost: they mean that the uncompressed share is too small.
    let cost = of_plain * (o.seen.spared as f64 * o.unpack_ns + o.seen.other_misses as f64 * o.miss_ns) / seconds;
    let decision = |packed: u64, reason| Decision { packed, gain, cost, reason };
    let (less, most) = (o.packed.saturating_sub(step), o.capacity as f64 * CompressedCache::MOST);
    if o.packed > 0 && o.miss_ns < o.unpack_ns {
        return decision(less, "less: reading costs no more than unpacking");
    }
    if o.packed_used + 2 * step < o.packed {
        return decision(less, "less: it is not full");
    }
    if gain > CLEARLY * cost && gain - cost > WORTH_NS && (o.packed + step) as f64 <= most {
        return decision(o.packed + step, "more: it saves misses");
    }
    if o.packed > 0 && cost > CLEARLY * gain && cost - gain > WORTH_NS {
        return decision(less, "less: what is unpacked again and again costs more than the misses saved");
    }
    decision(o.packed, "as it is: nothing clear to gain")
}

/// Adjusts the split of one cache.
#[derive(Debug)]
pub struct Splitter {
    before: Signals,
    miss_ns: f64,
    unpack_ns: f64,
    /// The last decision.
    pub last: Decision,
}

impl Default for Splitter {
    fn default() -> Self {
        let last = Decision { packed: 0, gain: 0.0, cost: 0.0, reason: "as it is: too little was read" };
        Splitter { before: Signals::default(), miss_ns: 0.0, unpack_ns: UNPACK_NS, last }
    }
}

impl Splitter {
    /// Adjusts the split by at most one step, if enough was read since the last decision. Called about once a second.
    pub fn tick(&mut self, cache: &Cache) {
        let now = cache.signals();
        let seen = now.since(&self.before);
        if seen.misses + seen.unpacked < SAMPLES || seen.at_ns == 0 {
            return;
        }
        self.before = now;
        self.miss_ns = seen.miss.mean().unwrap_or(self.miss_ns);
        self.unpack_ns = seen.unpack.mean().unwrap_or(self.unpack_ns);
        let (capacity, packed) = (cache.capacity(), cache.packed_capacity());
        let (packed_used, plain_used) = (cache.packed_used(), cache.plain_used());
        let (miss_ns, unpack_ns) = (self.miss_ns, self.unpack_ns);
        self.last = decide(&Observed { capacity, packed, packed_used, plain_used, seen, miss_ns, unpack_ns });
        if self.last.packed != packed {
            cache.resize(capacity, self.last.packed);
        }
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
