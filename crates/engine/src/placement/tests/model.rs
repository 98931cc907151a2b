//! A tree of runs, each an array of the newest number of every key in it.

use super::super::Held;
use super::super::held::Holding;

/// Writes that a memtable holds.
const MEMTABLE: u64 = 1000;
/// Runs that start a merge.
const TRIGGER: usize = 4;
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

/// The universal style: runs newest first, the last of them on the last level once there was a full merge.
pub struct Tree {
    mem: Vec<u64>,
    mem_writes: u64,
    runs: Vec<Run>,
    /// The oldest run is the cold one.
    last: Option<Run>,
    amplification: u64,
    pub now: u64,
    pub full_merges: u64,
}

impl Tree {
    pub fn new(keys: usize, amplification: u64) -> Self {
        Tree { mem: vec![0; keys], mem_writes: 0, runs: Vec::new(), last: None, amplification, now: 0, full_merges: 0 }
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

    /// The number of the version that a table answers with, and whether it is on the fast tier; `None`: no table answers.
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

    /// Bytes on the fast tier, and in all.
    pub fn bytes(&self) -> (u64, u64) {
        let fast = self.runs.iter().map(Run::bytes).sum();
        (fast, fast + self.last.as_ref().map_or(0, Run::bytes))
    }

    /// Merges what the style asks for; a merge of everything parts at `cold` and is reported.
    pub fn compact(&mut self, cold: u64, merged: impl FnOnce(&[Run], &[Run])) {
        if self.runs.len() + usize::from(self.last.is_some()) < TRIGGER {
            return;
        }
        let (fast, all) = self.bytes();
        let (above, oldest) = match self.last {
            Some(_) => (fast, all - fast),
            None => (fast - self.runs[self.runs.len() - 1].bytes(), self.runs[self.runs.len() - 1].bytes()),
        };
        if above * 100 >= self.amplification * oldest {
            let mut before = std::mem::take(&mut self.runs);
            before.extend(self.last.take());
            let all = Run::merge(&before, self.now).seqs;
            let part = |keep: &dyn Fn(u64) -> bool| Run::new(all.iter().map(|seq| if keep(*seq) { *seq } else { 0 }).collect(), self.now);
            let parts = [part(&|seq| seq > cold), part(&|seq| seq <= cold)];
            merged(&before, &parts);
            let [hot, last] = parts;
            self.runs.extend(Some(hot).filter(|run| run.bytes() > 0));
            self.last = Some(last);
            self.full_merges += 1;
            return;
        }
        // The newest runs of similar size, or as many as are too many.
        let mut group = 1;
        let mut bytes = self.runs[0].bytes();
        while group < self.runs.len() && bytes * 101 >= self.runs[group].bytes() * 100 {
            bytes += self.runs[group].bytes();
            group += 1;
        }
        let group = if group >= 2 { group } else { (self.runs.len() + 1 - TRIGGER.min(self.runs.len())).max(2).min(self.runs.len()) };
        let rest = self.runs.split_off(group);
        let one = Run::merge(&std::mem::replace(&mut self.runs, rest), self.now);
        self.runs.insert(0, one);
    }
}
