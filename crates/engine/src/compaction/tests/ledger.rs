//! Bytes that loads write, by cause and level: the pickers, the pace of writers and the cuts of tables under a clock that only this file
//! moves. A writer fills memtables, one job flushes them, others merge, each at a stated speed, so that merges lag behind a fast writer
//! as they do under threads. Every figure repeats exactly; `testdata/ledger.txt` states them, so that a change of write amplification
//! shows in the commit that makes it.

use super::super::output::{Limits, Output, TableFactory, TableSink};
use super::super::{Choice, PickEnv, Plan, picker};
use super::apply;
use crate::error::Result;
use crate::key::{Kind, Seq, trailer};
use crate::manifest::{KeyRange, Run, TableInfo, Version};
use crate::merge::testing::Rng;
use crate::pacing::{Pace, PaceInput, pace};
use crate::range_del::RangeTombstones;
use crate::settings::{FamilySettings, Style};
use crate::tiering::age::Cut;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// Bytes of the user that one entry stands for.
const ENTRY: u64 = 256 << 10;

/// Seconds after a memtable filled during which its family counts as being loaded (`db::schedule`).
const LOADING_SECONDS: f64 = 2.0;

/// A load and the machine under it.
#[derive(Clone)]
struct Row {
    name: &'static str,
    /// Entries of one pass over the key space.
    keys: u32,
    /// Passes, each with as many puts as there are keys.
    passes: u32,
    is_sequential: bool,
    /// Entries that a memtable holds.
    memtable: usize,
    /// Bytes in tables per byte of the user.
    stored: f64,
    settings: FamilySettings,
    /// Bytes of the user per second that the writer puts.
    puts: f64,
    /// Bytes of tables per second that a flush writes, and that a merge reads.
    merges: f64,
    /// Merges at once.
    jobs: usize,
}

/// A running merge, its result, and when it ends.
struct Job {
    choice: Choice,
    outputs: Vec<TableInfo>,
    ends: f64,
}

/// Bytes written, and the state of the tree while the load ran.
#[derive(Default)]
struct Ledger {
    flushed: u64,
    by_level: [u64; 7],
    /// Sorted runs times seconds.
    runs: f64,
    /// Most runs on level 0.
    level0: usize,
    /// Most bytes of tables.
    most: u64,
}

struct World {
    row: Row,
    random: Rng,
    version: Version,
    content: HashMap<u64, Vec<u32>>,
    next_number: u64,
    now: f64,
    /// Time when a memtable last filled.
    filled: f64,
    /// Entries put, and the part of the next one that is done.
    puts: u64,
    part: f64,
    active: Vec<u32>,
    full: Vec<u32>,
    /// The end of the running flush.
    flush_ends: Option<f64>,
    jobs: Vec<Job>,
    /// The load is over, and its end waits for compactions.
    settling: bool,
    ledger: Ledger,
}

/// The keys of a table on their way, and the bytes of each.
struct Keys(Vec<u32>, u64);

impl TableSink for Keys {
    type Done = Vec<u32>;
    fn add(&mut self, key: &[u8], _trailer: u64, _value: &[u8], _original: Seq, _own_time: Option<u64>) -> Result<()> {
        self.0.push(u32::from_be_bytes(key.try_into().expect("four bytes")));
        Ok(())
    }
    fn bytes(&self) -> u64 {
        self.0.len() as u64 * self.1
    }
    fn finish(self, _tombstones: &RangeTombstones) -> Result<Vec<u32>> {
        Ok(self.0)
    }
}

/// Starts tables whose entries have so many bytes.
struct Tables(u64);

impl TableFactory for Tables {
    type Table = Keys;
    fn start(&mut self, _first: &[u8]) -> Result<Keys> {
        Ok(Keys(Vec::new(), self.0))
    }
}

fn plan_of(choice: &Choice) -> Option<&Plan> {
    match choice {
        Choice::Nothing => None,
        Choice::Move(plan) | Choice::Merge(plan) | Choice::Drop(plan) => Some(plan),
    }
}

fn sorted(mut keys: Vec<u32>) -> Vec<u32> {
    keys.sort_unstable();
    keys.dedup();
    keys
}

impl World {
    fn new(row: Row) -> World {
        World {
            random: Rng(7),
            version: Version::empty(row.settings.num_levels),
            row,
            content: HashMap::new(),
            next_number: 1,
            now: 100.0,
            filled: 0.0,
            puts: 0,
            part: 0.0,
            active: Vec::new(),
            full: Vec::new(),
            flush_ends: None,
            jobs: Vec::new(),
            settling: false,
            ledger: Ledger::default(),
        }
    }

    /// Bytes of an entry in a table.
    fn entry(&self) -> u64 {
        (ENTRY as f64 * self.row.stored) as u64
    }

    fn table(&mut self, keys: Vec<u32>) -> TableInfo {
        let number = self.next_number;
        self.next_number += 1;
        let [smallest, largest] = [keys[0], keys[keys.len() - 1]].map(|key| key.to_be_bytes().to_vec());
        let info = TableInfo {
            number,
            bytes: keys.len() as u64 * self.entry(),
            range: KeyRange::closed(smallest, largest),
            min_seq: number,
            max_seq: number,
            entries: keys.len() as u64,
            newest_time: self.now as u64,
            ..TableInfo::default()
        };
        self.content.insert(number, keys);
        info
    }

    fn pace(&self) -> Pace {
        pace(&PaceInput::of(&self.version, &self.row.settings, usize::from(!self.full.is_empty())))
    }

    fn is_loading(&self) -> bool {
        self.filled > 0.0 && self.now - self.filled < LOADING_SECONDS && !self.settling && self.pace() == Pace::Free
    }

    fn pick(&self) -> Choice {
        let plans = || self.jobs.iter().filter_map(|job| plan_of(&job.choice));
        let busy: HashSet<u64> = plans().flat_map(Plan::tables).map(|t| t.number).collect();
        let busy_output: Vec<(usize, KeyRange)> = plans().map(|p| (p.output_level, p.range())).collect();
        let env = PickEnv {
            settings: &self.row.settings,
            busy: &busy,
            damaged: &HashSet::new(),
            hidden: &HashMap::new(),
            busy_output: &busy_output,
            now: self.now as u64,
            oldest_snapshot: u64::MAX,
            newest_snapshot: None,
            expired: Cut::ALL,
            loading: self.is_loading(),
            young: None,
            crowded: false,
            room: u64::MAX,
            two_media: false,
            unit: 0,
            rested: 0,
        };
        picker(self.row.settings.style).pick(&self.version, &env)
    }

    fn merge(&mut self, plan: &Plan) -> Vec<TableInfo> {
        let keys = sorted(plan.tables().flat_map(|t| self.content[&t.number].iter().copied()).collect());
        let overlap_bytes = self.row.settings.max_compaction_bytes / 2;
        let limits = Limits { table_bytes: plan.target_file_size, overlap_bytes, grandparents: &plan.grandparents, starts: &[] };
        let mut output = Output::new(Tables(self.entry()), limits, RangeTombstones::default());
        for key in &keys {
            output.put(&key.to_be_bytes(), trailer(1, Kind::Value), b"", (1, None), true).expect("keys ascend");
        }
        output.finish().expect("no table fails").into_iter().map(|keys| self.table(keys)).collect()
    }

    fn start_jobs(&mut self) {
        while self.jobs.len() < self.row.jobs {
            let choice = self.pick();
            match &choice {
                Choice::Nothing => break,
                Choice::Move(_) | Choice::Drop(_) => self.version = apply(&self.version, &choice, Vec::new(), Vec::new()),
                Choice::Merge(plan) => {
                    let outputs = self.merge(plan);
                    self.ledger.by_level[plan.output_level] += outputs.iter().map(|t| t.bytes).sum::<u64>();
                    let ends = self.now + plan.bytes() as f64 / self.row.merges;
                    self.jobs.push(Job { choice, outputs, ends });
                }
            }
        }
        if self.flush_ends.is_none() && !self.full.is_empty() {
            self.flush_ends = Some(self.now + (self.full.len() as u64 * self.entry()) as f64 / self.row.merges);
        }
    }

    fn end_jobs(&mut self) {
        if self.flush_ends.is_some_and(|ends| ends <= self.now) {
            self.flush_ends = None;
            let keys = sorted(std::mem::take(&mut self.full));
            let info = self.table(keys);
            self.ledger.flushed += info.bytes;
            self.version.levels[0].insert(0, Run { number: info.number, tables: vec![Arc::new(info)] });
        }
        while let Some(at) = self.jobs.iter().position(|job| job.ends <= self.now) {
            let job = self.jobs.swap_remove(at);
            self.version = apply(&self.version, &job.choice, job.outputs, Vec::new());
            plan_of(&job.choice).into_iter().flat_map(Plan::tables).for_each(|t| drop(self.content.remove(&t.number)));
        }
    }

    fn wanted(&self) -> u64 {
        u64::from(self.row.keys) * u64::from(self.row.passes)
    }

    /// Entries that still fit the memtable and belong to the load.
    fn left(&self) -> u64 {
        (self.row.memtable.saturating_sub(self.active.len()) as u64).min(self.wanted() - self.puts)
    }

    /// Entries per second that the writer puts now.
    fn rate(&self) -> f64 {
        let bytes = match self.pace() {
            _ if self.left() == 0 => 0.0,
            Pace::Free => self.row.puts,
            Pace::Delay { bytes_per_second } => self.row.puts.min(bytes_per_second as f64),
            Pace::Stop(_) => 0.0,
        };
        bytes / ENTRY as f64
    }

    fn put(&mut self, entries: f64) {
        self.part += entries;
        while self.part > 1.0 - 1e-6 {
            self.part = (self.part - 1.0).max(0.0);
            let keys = u64::from(self.row.keys);
            self.active.push(if self.row.is_sequential { self.puts % keys } else { self.random.below(keys) } as u32);
            self.puts += 1;
        }
    }

    /// A full memtable, or the last one, waits for its flush unless another one does.
    fn switch(&mut self) {
        if self.full.is_empty() && self.left() == 0 && !self.active.is_empty() {
            self.full = std::mem::take(&mut self.active);
            self.filled = self.now;
        }
    }

    /// Goes on to the next moment at which something ends; false: nothing is left to do.
    fn advance(&mut self) -> bool {
        self.switch();
        self.start_jobs();
        let rate = self.rate();
        let entries = (self.left() as f64 - self.part).max(0.0);
        let fills = (rate > 0.0).then(|| self.now + entries / rate);
        // Idle threads look again every second.
        let looks = self.is_loading().then_some(self.now + 1.0);
        let ends = self.jobs.iter().map(|job| job.ends).chain(self.flush_ends).chain(fills).chain(looks);
        let Some(next) = ends.min_by(f64::total_cmp) else { return false };
        self.observe(next - self.now);
        self.put(if fills == Some(next) { entries } else { rate * (next - self.now) });
        self.now = next;
        self.end_jobs();
        true
    }

    fn observe(&mut self, seconds: f64) {
        let (level0, below) = (self.version.levels[0].len(), self.version.levels[1..].iter().map(Vec::len).sum::<usize>());
        self.ledger.runs += seconds * (level0 + below) as f64;
        self.ledger.level0 = self.ledger.level0.max(level0);
        self.ledger.most = self.ledger.most.max(self.version.tables().map(|(_, _, t)| t.bytes).sum());
    }

    /// Lives through the load and the compactions that are due then; a line of the table.
    fn live(mut self) -> String {
        while self.puts < self.wanted() {
            assert!(self.advance(), "{}: writers wait for ever", self.row.name);
        }
        let seconds = self.now - 100.0;
        let (runs, level0) = (self.ledger.runs / seconds, self.ledger.level0);
        self.settling = true;
        while self.advance() {}
        let keys: HashSet<u32> = self.version.tables().flat_map(|(_, _, t)| self.content[&t.number].iter().copied()).collect();
        let (user, live) = ((self.wanted() * ENTRY) as f64, (keys.len() as u64 * self.entry()) as f64);
        let Ledger { flushed, by_level, most, .. } = self.ledger;
        let bytes: u64 = self.version.tables().map(|(_, _, t)| t.bytes).sum();
        let written = flushed + by_level.iter().sum::<u64>();
        let mut line = format!("{:<22}", self.row.name);
        [flushed].iter().chain(&by_level).for_each(|bytes| write!(line, " {:>6}", bytes >> 20).expect("a string"));
        let space = format!("{:>6.3} {:>6.3}", bytes as f64 / live, most as f64 / live);
        line + &format!(" {:>6.3} {space} {runs:>5.1} {level0:>6} {:>5.0}", written as f64 / user, user / seconds / 1e6)
    }
}

/// The rows: db_bench's loads as `scripts/compare` has them, and what they are on faster and slower machines.
fn rows() -> Vec<Row> {
    let leveled = |factor: f64| FamilySettings {
        level_compaction_dynamic_level_bytes: false,
        max_bytes_for_level_multiplier: factor,
        ..FamilySettings::default()
    };
    let dynamic = |factor: f64| FamilySettings { level_compaction_dynamic_level_bytes: true, ..leveled(factor) };
    let large = Row {
        name: "fillrandom-25gb",
        keys: 85_000,
        passes: 1,
        is_sequential: false,
        memtable: 220,
        stored: 1.0,
        settings: leveled(2.0),
        puts: 85e6,
        merges: 450e6,
        jobs: 1,
    };
    let small = Row { name: "fillrandom-100", keys: 4_400, stored: 0.6, merges: 200e6, settings: leveled(10.0), ..large.clone() };
    let kib = Row { name: "fillrandom-1k", keys: 16_000, memtable: 245, stored: 0.55, puts: 350e6, merges: 150e6, ..small.clone() };
    let over = |row: &Row| Row { name: "overwrite-1k", passes: 2, ..row.clone() };
    vec![
        Row { name: "fillrandom-25gb slow", puts: 40e6, ..large.clone() },
        Row { name: "fillrandom-25gb fast", puts: 170e6, ..large.clone() },
        Row { name: "fillrandom-25gb dyn", settings: dynamic(2.0), ..large.clone() },
        large,
        Row { name: "overwrite-100", ..over(&small) },
        Row { name: "overwrite-100 dyn", settings: dynamic(10.0), ..over(&small) },
        Row { name: "fillseq-100", is_sequential: true, ..small.clone() },
        // One put waits for a sync after the other.
        Row { name: "fillrandom-100 sync", puts: 1e6, ..small.clone() },
        small,
        Row { name: "overwrite-1k slow", puts: 60e6, ..over(&kib) },
        Row { name: "overwrite-1k dyn", settings: dynamic(10.0), ..over(&kib) },
        Row { name: "overwrite-1k long", passes: 8, ..kib.clone() },
        Row { name: "overwrite-1k 3 jobs", passes: 8, jobs: 3, ..kib.clone() },
        Row { name: "overwrite-1k universal", settings: FamilySettings { style: Style::Universal, ..dynamic(10.0) }, ..over(&kib) },
        over(&kib),
        Row { name: "fillseq-1k", is_sequential: true, ..kib.clone() },
        kib,
    ]
}

#[test]
fn loads_write_what_the_table_states() {
    let columns = ["flush", "L0", "L1", "L2", "L3", "L4", "L5", "L6", "ampl.", "space", "peak"].map(|name| format!("{name:>6}")).join(" ");
    let mut found = format!(
        "# MiB by cause and level, per byte of the user and alive, mean runs, most on level 0, MB/s\n{:<22} {columns}  runs level0  MB/s\n",
        ""
    );
    rows().into_iter().for_each(|row| writeln!(found, "{}", World::new(row).live()).expect("a string"));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/ledger.txt");
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(path, &found).expect("testdata can be written");
    }
    let stated = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == stated,
        "bytes written changed:\n{stated}became\n{found}If that is meant: REWRITE=1 cargo test -p sinterdb --lib ledger"
    );
}
