//! A tree of runs, each an array of the newest number of every key in it.

use super::super::{Drawing, Holding};

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

/// A table of the keys that have a number.
pub struct Table {
    entries: u64,
    sample: Vec<u8>,
}

impl Table {
    /// Tables of `keys` keys each.
    pub fn all(seqs: &[u64], keys: usize) -> Vec<Table> {
        let numbered: Vec<(u64, u64)> = (0..).zip(seqs.iter().copied()).filter(|(_, seq)| *seq > 0).collect();
        let made = |keys: &[(u64, u64)]| {
            let mut drawing = Drawing::default();
            keys.iter().for_each(|(key, seq)| drawing.add(random(&mut { *key }), *seq, false));
            Table { entries: keys.len() as u64, sample: drawing.encode() }
        };
        numbered.chunks(keys).map(made).collect()
    }

    pub fn holding(&self) -> Holding<'_> {
        Holding { bytes: self.entries * ENTRY, entries: self.entries, seqs: (0, 0), sample: &self.sample }
    }
}

pub struct Run {
    seqs: Vec<u64>,
    tables: Vec<Table>,
}

/// Keys of a table, of which about half are sampled.
const TABLE: usize = 250;

impl Run {
    fn new(seqs: Vec<u64>) -> Self {
        let tables = Table::all(&seqs, TABLE);
        Run { seqs, tables }
    }

    fn bytes(&self) -> u64 {
        self.seqs.iter().filter(|seq| **seq > 0).count() as u64 * ENTRY
    }

    fn merge(runs: &[Run]) -> Run {
        let newest = |key: usize| runs.iter().map(|run| run.seqs[key]).max().unwrap_or(0);
        Run::new((0..runs[0].seqs.len()).map(newest).collect())
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
        self.runs.insert(0, Run::new(std::mem::replace(&mut self.mem, vec![0; keys])));
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

    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.runs.iter().chain(&self.last).flat_map(|run| &run.tables)
    }

    /// Bytes above the last level, and in all.
    pub fn bytes(&self) -> (u64, u64) {
        let fast = self.runs.iter().map(Run::bytes).sum();
        (fast, fast + self.last.as_ref().map_or(0, Run::bytes))
    }

    /// Merges runs of similar size, or everything, which parts at `cold`; true if it was time for that.
    pub fn compact(&mut self, cold: u64) -> bool {
        if !(self.now / MEMTABLE).is_multiple_of(self.flushes) {
            // As the universal style does.
            while self.runs.len() > 1 && self.runs[0].bytes() >= self.runs[1].bytes() {
                let rest = self.runs.split_off(2);
                let one = Run::merge(&std::mem::replace(&mut self.runs, rest));
                self.runs.insert(0, one);
            }
            return false;
        }
        let mut before = std::mem::take(&mut self.runs);
        before.extend(self.last.take());
        let all = Run::merge(&before).seqs;
        let part = |keep: &dyn Fn(u64) -> bool| Run::new(all.iter().map(|seq| if keep(*seq) { *seq } else { 0 }).collect());
        let [hot, last] = [part(&|seq| seq > cold), part(&|seq| seq <= cold)];
        self.runs.extend(Some(hot).filter(|run| run.bytes() > 0));
        self.last = Some(last);
        true
    }
}
