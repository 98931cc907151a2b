//! Counters by which the cache is split between compressed and uncompressed blocks. Hits are not counted, so that they cost nothing.

use super::packed::WATCHED;
use super::{Cache, Part};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of timed events, and their total nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Timings {
    count: AtomicU64,
    ns: AtomicU64,
}

impl Timings {
    pub fn add(&self, ns: u64) {
        self.count.fetch_add(1, Relaxed);
        self.ns.fetch_add(ns, Relaxed);
    }

    fn sum(&self) -> Cost {
        Cost { count: self.count.load(Relaxed), ns: self.ns.load(Relaxed) }
    }
}

#[derive(Debug, Default)]
pub(super) struct Watch {
    pub ghost_hits: AtomicU64,
    pub unpacked: AtomicU64,
    pub spared: AtomicU64,
    pub miss: Timings,
    pub unpack: Timings,
    plain_bytes: AtomicU64,
    packed_bytes: AtomicU64,
}

impl Watch {
    pub fn add(&self, counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }

    /// Notes that a block of `plain` bytes takes `packed` bytes compressed.
    pub fn shrunk(&self, plain: u64, packed: u64) {
        self.plain_bytes.fetch_add(plain, Relaxed);
        self.packed_bytes.fetch_add(packed, Relaxed);
    }

    pub fn signals(&self, cache: &Cache, at_ns: u64, ghosts: u64) -> Signals {
        Signals {
            at_ns,
            ghost_hits: self.ghost_hits.load(Relaxed) * WATCHED,
            ghost_bytes: ghosts * WATCHED,
            misses: cache.misses(Part::Data),
            other_misses: cache.misses(Part::Index) + cache.misses(Part::Filter),
            unpacked: self.unpacked.load(Relaxed),
            spared: self.spared.load(Relaxed),
            miss: self.miss.sum(),
            unpack: self.unpack.sum(),
            plain_bytes: self.plain_bytes.load(Relaxed),
            packed_bytes: self.packed_bytes.load(Relaxed),
        }
    }
}

/// Number of measured events, and the time that they took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Number of events.
    pub count: u64,
    /// Nanoseconds, all together.
    pub ns: u64,
}

impl Cost {
    /// Mean nanoseconds of an event; `None` with too few events.
    pub fn mean(&self) -> Option<f64> {
        (self.count >= 16).then(|| self.ns as f64 / self.count as f64)
    }
}

/// Counters of a cache since it began, or between two moments ([`Signals::since`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signals {
    /// Time of the reading, nanoseconds; between two moments: the time that passed.
    pub at_ns: u64,
    /// Misses of blocks that had left the cache recently, extrapolated from the watched blocks.
    pub ghost_hits: u64,
    /// Uncompressed bytes of all blocks that left recently and are remembered; between two moments, as of the later one.
    pub ghost_bytes: u64,
    /// Data blocks read from the medium.
    pub misses: u64,
    /// Indexes and filters read from the medium.
    pub other_misses: u64,
    /// Data blocks found compressed.
    pub unpacked: u64,
    /// Parts that eviction spared because they had been used since it last came to them.
    pub spared: u64,
    /// Cost of misses: reading, verifying, decompressing.
    pub miss: Cost,
    /// Cost of hits of compressed blocks: decompressing, and compressing the blocks evicted for them.
    pub unpack: Cost,
    /// Uncompressed bytes of blocks whose compressed size is known.
    pub plain_bytes: u64,
    /// Compressed bytes of blocks counted in `plain_bytes`.
    pub packed_bytes: u64,
}

impl Signals {
    /// The increase since an earlier moment.
    #[must_use]
    pub fn since(&self, before: &Signals) -> Signals {
        let less = |now: u64, then: u64| now.saturating_sub(then);
        let cost = |now: Cost, then: Cost| Cost { count: less(now.count, then.count), ns: less(now.ns, then.ns) };
        Signals {
            at_ns: less(self.at_ns, before.at_ns),
            ghost_hits: less(self.ghost_hits, before.ghost_hits),
            ghost_bytes: self.ghost_bytes,
            misses: less(self.misses, before.misses),
            other_misses: less(self.other_misses, before.other_misses),
            unpacked: less(self.unpacked, before.unpacked),
            spared: less(self.spared, before.spared),
            miss: cost(self.miss, before.miss),
            unpack: cost(self.unpack, before.unpack),
            plain_bytes: less(self.plain_bytes, before.plain_bytes),
            packed_bytes: less(self.packed_bytes, before.packed_bytes),
        }
    }
}
