//! A tree of runs, each an array of the newest number of every key in it.

use super::super::held::Holding;
use super::super::{Ages, Held};

/// Writes that a memtable holds.
const MEMTABLE: u64 = 1000;
/// Bytes of an entry.
const ENTRY: u64 = 100;

/// SplitMix64.
pub fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Ranks with weights 1 / (rank + 1)^alpha.
pub struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    pub fn new(keys: usize, alpha: f64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=keys).map(|rank| {
            sum += (rank as f64).powf(-alpha);
            sum
        });
        Zipf { sums: sums.collect() }
    }

    pub fn draw(&self, random: u64) -> usize {
        let at = (random >> 11) as f64 / (1u64 << 53) as f64 * self.sums[self.sums.len() - 1];
        self.sums.partition_point(|sum| *sum <= at).min(self.sums.len() - 1)
    }
}

pub struct Run {
    seqs: Vec<u64>,
    held: Vec<u8>,
}

impl Run {
    fn new(seqs: Vec<u64>, now: u64) -> Self {
        let mut held = Held::new(now);
        seqs.iter().filter(|seq| **seq > 0).for_each(|seq| held.add(*seq, ENTRY));
        let mut bytes = Vec::new();
        held.encode(&mut bytes);
        Run { seqs, held: bytes }
    }

    fn bytes(&self) -> u64 {
        self.seqs.iter().filter(|seq| **seq > 0).count() as u64 * ENTRY
    }

    pub fn holding(&self) -> Holding<'_> {
        let seqs = || self.seqs.iter().copied().filter(|seq| *seq > 0);
        Holding { bytes: self.bytes(), seqs: (seqs().min().unwrap_or(0), seqs().max().unwrap_or(0)), held: &self.held }
    }

    fn merge(runs: &[Run], now: u64) -> Run {
        let newest = |key: usize| runs.iter().map(|run| run.seqs[key]).max().unwrap_or(0);
        Run::new((0..runs[0].seqs.len()).map(newest).collect(), now)
    }
}

/// Runs newest first; everything is merged after a number of flushes.
pub struct Tree {
    mem: Vec<u64>,
    mem_writes: u64,
    runs: Vec<Run>,
    /// The last level.
    last: Option<Run>,
    flushes: u64,
    pub now: u64,
}

impl Tree {
    pub fn new(keys: usize, flushes: u64) -> Self {
        Tree { mem: vec![0; keys], mem_writes: 0, runs: Vec::new(), last: None, flushes, now: 0 }
    }

    /// True if the memtable was flushed.
    pub fn write(&mut self, key: usize) -> bool {
        self.now += 1;
        self.mem[key] = self.now;
        self.mem_writes += 1;
        if self.mem_writes < MEMTABLE {
            return false;
        }
        self.mem_writes = 0;
        let keys = self.mem.len();
        self.runs.insert(0, Run::new(std::mem::replace(&mut self.mem, vec![0; keys]), self.now));
        true
    }

    /// The number of the version that a table answers with, and whether it is above the last level; `None`: no table answers.
    pub fn read(&self, key: usize) -> Option<(u64, bool)> {
        if self.mem[key] > 0 {
            return None;
        }
        let upper = self.runs.iter().map(|run| run.seqs[key]).find(|seq| *seq > 0);
        let last = || self.last.as_ref().map(|run| run.seqs[key]).filter(|seq| *seq > 0);
        upper.map(|seq| (seq, true)).or_else(|| last().map(|seq| (seq, false)))
    }

    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().chain(&self.last)
    }

    /// Bytes above the last level, and in all.
    pub fn bytes(&self) -> (u64, u64) {
        let fast = self.runs.iter().map(Run::bytes).sum();
        (fast, fast + self.last.as_ref().map_or(0, Run::bytes))
    }

    /// Merges all newer runs into one, or everything, which parts at `cold`, if it is time for that: then how old the bytes were that went
    /// in and came out.
    pub fn compact(&mut self, cold: u64) -> Option<(Ages, Ages)> {
        let ages = |runs: &[Run], now| {
            let mut ages = Ages::default();
            runs.iter().for_each(|run| run.holding().add_to(&mut ages, now));
            ages
        };
        if !(self.now / MEMTABLE).is_multiple_of(self.flushes) {
            // As the universal style does: of similar size.
            while self.runs.len() > 1 && self.runs[0].bytes() >= self.runs[1].bytes() {
                let rest = self.runs.split_off(2);
                let one = Run::merge(&std::mem::replace(&mut self.runs, rest), self.now);
                self.runs.insert(0, one);
            }
            return None;
        }
        let mut before = std::mem::take(&mut self.runs);
        before.extend(self.last.take());
        let all = Run::merge(&before, self.now).seqs;
        let part = |keep: &dyn Fn(u64) -> bool| Run::new(all.iter().map(|seq| if keep(*seq) { *seq } else { 0 }).collect(), self.now);
        let after = [part(&|seq| seq > cold), part(&|seq| seq <= cold)];
        let ages = (ages(&before, self.now), ages(&after, self.now));
        let [hot, last] = after;
        self.runs.extend(Some(hot).filter(|run| run.bytes() > 0));
        self.last = Some(last);
        Some(ages)
    }
}
