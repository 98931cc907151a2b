//! Divides one memory budget between memtables and the block cache: the next byte goes where it saves more time.
//!
//! **A byte more for memtables.** A tree of `D` bytes over memtables of `x` has about `ln(D / x) / ln T` levels, and every byte written is
//! rewritten on each of them, so that the time `C` that merges take per second is proportional to `ln(D / x)`. Then
//! `dC/dx = -C / (x ln(D / x))`: with `C` measured, neither `T` nor the style of the tree is needed. (Luo and Carey, "Breaking Down Memory
//! Walls: Adaptive Memory Management in LSM-based Storage Systems", VLDB 2020, section 5, where `C` is pages written; here it is the time
//! of merges and of writers who wait for them, so that it can be compared with that of readers.) Two memtables share `W = 2x` bytes:
//! `dC/dW = -C / (W ln(2D / W))`.
//!
//! **A byte more for the cache.** Blocks that left the cache last are remembered by name; reading one again is a miss that a larger cache
//! had saved. `hits of these per second x time of a miss / bytes of these` is the derivative of what readers wait.
//!
//! Both are nanoseconds per second and byte, averaged over some tens of seconds because merges come in bursts. Each second a small step
//! goes to the larger one, if it is clearly larger and the step saves something worth having. A write load that ended leaves its bytes
//! to the readers and the other way round.

use crate::settings::Budgets;

/// One step moves the budget divided by this, but at most this part of the largest size of memtables, or one step would be all that they
/// have.
const STEPS: u64 = 64;
/// The cache gets at least the budget divided by this, memtables at least that or their largest size divided by it.
const FLOOR: u64 = 16;
/// Memtables get no more than this, because they are replayed after a crash.
const MOST_MEMTABLES: u64 = 2 * Budgets::MEMTABLE_MOST;
/// One side has to save so many times more than the other before a step is taken.
const CLEARLY: f64 = 1.5;
/// A step has to save at least so many nanoseconds per second: a fraction of a thousandth of a processor.
const WORTH_NS: f64 = 2.5e5;
/// Seconds after which an observation has lost two thirds of its weight.
const MEMORY_S: f64 = 20.0;

/// Observations since the last look.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// Time since the last look, seconds.
    pub seconds: f64,
    /// Nanoseconds of merges, and of writers that waited.
    pub merge_ns: f64,
    /// Bytes of all tables now.
    pub tree_bytes: u64,
    /// Misses of blocks that had left the cache only lately.
    pub ghost_hits: u64,
    /// Bytes now of blocks that had left the cache only lately.
    pub ghost_bytes: u64,
    /// Nanoseconds of a miss.
    pub miss_ns: f64,
}

/// Divides a budget.
#[derive(Debug)]
pub struct MemorySplit {
    budget: u64,
    memtables: u64,
    /// Means of nanoseconds per second: merging, and reading again what had left the cache.
    merging: f64,
    rereading: f64,
    ghost_bytes: u64,
    tree_bytes: u64,
    /// Reason of the last step, or of taking none.
    pub reason: &'static str,
}

impl MemorySplit {
    /// Divides `budget` bytes, at first with `memtables` bytes for memtables.
    pub fn new(budget: u64, memtables: u64) -> Self {
        let (merging, rereading, ghost_bytes, tree_bytes) = (0.0, 0.0, 0, 0);
        MemorySplit { budget, memtables, merging, rereading, ghost_bytes, tree_bytes, reason: "as it is: nothing seen yet" }
    }

    /// The budget that is divided, bytes.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// There is more or less to divide than before. Memtables keep their bytes as far as they leave the cache a fifth.
    pub fn fit(&mut self, budget: u64) {
        self.budget = budget;
        self.memtables = self.memtables.min(Self::most_at_first(budget));
    }

    /// Bytes of a budget that memtables may begin with.
    pub fn most_at_first(budget: u64) -> u64 {
        budget / 5 * 4
    }

    /// Bytes for all memtables together. The rest is the cache's.
    pub fn memtables(&self) -> u64 {
        self.memtables
    }

    /// Bytes for the cache while memtables hold so many. Memtables larger than planned keep their bytes until they are flushed, but indexes
    /// and filters need their share meanwhile.
    pub fn cache(&self, held: u64) -> u64 {
        self.budget.saturating_sub(self.memtables.max(held)).max(self.budget / FLOOR)
    }

    /// Nanoseconds per second that a step would save: given to memtables, given to the cache.
    pub fn marginal(&self) -> (f64, f64) {
        let (step, memtables) = (self.step() as f64, (self.memtables as f64).max(1.0));
        // A tree not larger than its memtables has no levels to save.
        let levels = (2.0 * self.tree_bytes as f64 / memtables).ln().max(1.0);
        let write = if self.tree_bytes * 2 > self.memtables { self.merging * step / (memtables * levels) } else { 0.0 };
        let read = self.rereading * step / (self.ghost_bytes as f64).max(step);
        (write, read)
    }

    fn step(&self) -> u64 {
        (self.budget.min(MOST_MEMTABLES) / STEPS).max(1)
    }

    /// Takes in what was seen; gives the bytes for memtables from now on.
    pub fn observe(&mut self, seen: &Seen) -> u64 {
        if seen.seconds <= 0.0 {
            return self.memtables;
        }
        let keep = (-seen.seconds / MEMORY_S).exp();
        self.merging = self.merging * keep + seen.merge_ns / seen.seconds * (1.0 - keep);
        self.rereading = self.rereading * keep + seen.ghost_hits as f64 * seen.miss_ns / seen.seconds * (1.0 - keep);
        (self.ghost_bytes, self.tree_bytes) = (seen.ghost_bytes, seen.tree_bytes);
        let (write, read) = self.marginal();
        let most = MOST_MEMTABLES.min(self.budget - self.budget / FLOOR);
        let floor = (self.budget / FLOOR).min(MOST_MEMTABLES / FLOOR);
        let (up, down) = ((self.memtables + self.step()).min(most), self.memtables.saturating_sub(self.step()).max(floor));
        (self.memtables, self.reason) = if write > CLEARLY * read && write - read > WORTH_NS {
            (up.max(self.memtables), "to memtables: merges cost more than misses")
        } else if read > CLEARLY * write && read - write > WORTH_NS {
            (down.min(self.memtables), "to the cache: misses cost more than merges")
        } else {
            (self.memtables, "as it is: nothing clear to gain")
        };
        self.memtables
    }
}

#[cfg(test)]
mod tests;
