//! The workloads, made from fixed seeds: small enough to cut the power at every call, and with settings so tiny that memtables rotate,
//! tables pile up and every kind of compaction comes by within some hundred batches.

use crate::model::{Batch, Change, Step};
use crate::random::Random;
use sinter_storage::store::Temperature;
use sinterdb::Durability;
use sinterdb::Durability::{Buffered, NoWal, Sync};
use sinterdb::settings::{FamilySettings, Preclude, Style};

pub struct Workload {
    pub name: &'static str,
    pub settings: FamilySettings,
    pub steps: Vec<Step>,
    /// Memory for a memtable in recoveries, bytes, and twice as much for all; `None`: by the settings.
    pub recovery_memory: Option<u64>,
    /// Stores of tiers, and how many of them are attached from the start.
    pub tiers: usize,
    pub attached: usize,
    /// Appends to the first tier that find it full.
    pub full: &'static [u64],
}

/// The smallest tree that has everything.
fn tiny(style: Style) -> FamilySettings {
    FamilySettings {
        write_buffer_size: 8 << 10,
        style,
        block_size: 256,
        num_levels: 4,
        level0_file_num_compaction_trigger: 2,
        max_bytes_for_level_base: 8 << 10,
        max_bytes_for_level_multiplier: 2.0,
        target_file_size_base: 4 << 10,
        max_compaction_bytes: 64 << 10,
        ..FamilySettings::default()
    }
}

/// Bytes of which half compress.
fn bytes(random: &mut Random, length: u64) -> Vec<u8> {
    (0..length).map(|i| if i % 2 == 0 { b'.' } else { b'a' + (random.next() % 26) as u8 }).collect()
}

/// Writes a workload step by step.
struct Script {
    name: &'static str,
    settings: FamilySettings,
    recovery_memory: Option<u64>,
    tiers: usize,
    attached: usize,
    full: &'static [u64],
    steps: Vec<Step>,
    random: Random,
    families: Vec<&'static str>,
    /// Bytes of a value at most.
    value: u64,
    ranges: bool,
    merges: bool,
    /// Some values have times of their own.
    timed: bool,
}

impl Script {
    fn new(name: &'static str, style: Style) -> Self {
        let seed = name.bytes().fold(7u64, |seed, byte| seed.wrapping_mul(31) + u64::from(byte));
        Script {
            name,
            settings: tiny(style),
            recovery_memory: None,
            tiers: 0,
            attached: 0,
            full: &[],
            steps: Vec::new(),
            random: Random(seed),
            families: vec!["default"],
            value: 300,
            ranges: false,
            merges: false,
            timed: false,
        }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("k{:02}", self.random.below(48)).into_bytes()
    }

    /// Only the default family has a merge operator.
    fn change(&mut self, family: &str) -> Change {
        let key = self.key();
        match self.random.below(12) {
            0 | 1 => Change::Delete(key),
            2 if self.ranges => {
                let to = self.key();
                if to == key {
                    return Change::DeleteFrom(key);
                }
                Change::DeleteRange(key.clone().min(to.clone()), key.max(to))
            }
            3..=6 if self.merges && family == "default" => Change::Merge(key, self.random.next().to_string().into_bytes()),
            _ => {
                let length = self.random.below(self.value);
                let value = bytes(&mut self.random, length);
                if self.timed && self.random.one_in(2) { Change::PutAt(key, value, self.time()) } else { Change::Put(key, value) }
            }
        }
    }

    /// Long ago, never, or about when a workload of data that grows old has come to: before it or behind.
    fn time(&mut self) -> u64 {
        match self.random.below(8) {
            0 => 0,
            1 => u64::MAX,
            _ => AGING_START + self.random.below(1000),
        }
    }

    /// A batch of some changes in families drawn at random.
    fn batch(&mut self, durability: Durability) {
        let count = 1 + self.random.below(4);
        let changes = (0..count).map(|_| {
            let family = self.families[self.random.index(self.families.len())];
            (family, self.change(family))
        });
        let changes = changes.collect();
        self.steps.push(Step::Write(Batch { durability, changes }));
    }

    /// Batches of which one in `sync` is synced.
    fn batches(&mut self, count: usize, sync: u64) -> &mut Self {
        for _ in 0..count {
            let durability = if self.random.one_in(sync) { Sync } else { Buffered };
            self.batch(durability);
        }
        self
    }

    fn put(&mut self, durability: Durability, key: &[u8], length: u64) {
        let value = bytes(&mut self.random, length);
        self.steps.push(Step::Write(Batch { durability, changes: vec![("default", Change::Put(key.to_vec(), value))] }));
    }

    fn then(&mut self, step: Step) -> &mut Self {
        self.steps.push(step);
        self
    }

    fn create(&mut self, name: &'static str, style: Style) -> &mut Self {
        self.create_all([(name, style)])
    }

    fn create_all<const N: usize>(&mut self, families: [(&'static str, Style); N]) -> &mut Self {
        self.families.extend(families.map(|(name, _)| name));
        self.then(Step::Create(families.into()))
    }

    fn drop(&mut self, name: &'static str) -> &mut Self {
        self.families.retain(|family| *family != name);
        self.then(Step::Drop(name))
    }

    fn done(&mut self) -> Workload {
        self.then(Step::Read);
        let (settings, steps) = (self.settings.clone(), std::mem::take(&mut self.steps));
        let Script { name, recovery_memory, tiers, attached, full, .. } = *self;
        Workload { name, settings, steps, recovery_memory, tiers, attached, full }
    }
}

use Style::{Leveled, Universal};

pub fn creation() -> Workload {
    Script::new("creation", Leveled).batches(4, 2).then(Step::Reopen).batches(2, 2).done()
}

pub fn rotation() -> Workload {
    Script::new("rotation", Leveled).batches(90, 4).then(Step::Sync).batches(40, 12).done()
}

/// Unlogged writes have keys of their own, and their history is a second one: each of both must be whole.
pub fn unlogged() -> Workload {
    let mut script = Script::new("unlogged", Leveled);
    for round in 0..140 {
        match script.random.below(10) {
            0..=4 => {
                let key = format!("n{:02}", script.random.below(30));
                script.put(NoWal, key.as_bytes(), 200);
            }
            _ => drop(script.batches(1, 4)),
        }
        if round % 45 == 44 {
            script.then(Step::Flush);
        }
    }
    script.done()
}

pub fn flush() -> Workload {
    let mut script = Script::new("flush", Leveled);
    script.settings.level0_file_num_compaction_trigger = 20;
    for _ in 0..8 {
        script.batches(9, 5).then(Step::Flush);
    }
    script.done()
}

pub fn leveled() -> Workload {
    Script::new("leveled", Leveled).batches(150, 10).done()
}

pub fn universal() -> Workload {
    Script::new("universal", Universal).batches(150, 10).done()
}

/// Keys that only rise: tables that overlap nothing below move down as they are. Not in the default family, where every batch sets its
/// marker.
pub fn trivial_move() -> Workload {
    let mut script = Script::new("trivial_move", Leveled);
    script.create("side", Leveled);
    for n in 0..150 {
        let change = Change::Put(format!("m{n:05}").into_bytes(), bytes(&mut script.random, 200));
        let durability = if n % 9 == 0 { Sync } else { Buffered };
        script.then(Step::Write(Batch { durability, changes: vec![("side", change)] }));
    }
    script.done()
}

pub fn manual() -> Workload {
    let mut script = Script::new("manual", Leveled);
    for _ in 0..4 {
        script.batches(25, 8).then(Step::Compact("default"));
    }
    script.done()
}

pub fn checkpoint() -> Workload {
    let mut script = Script::new("checkpoint", Leveled);
    script.create("side", Universal);
    for _ in 0..4 {
        script.batches(20, 6).then(Step::Checkpoint);
    }
    script.done()
}

pub fn families() -> Workload {
    let mut script = Script::new("families", Leveled);
    script.batches(8, 3).create("one", Leveled).batches(20, 4).create("two", Universal).batches(25, 4);
    script.drop("one").batches(10, 6).create("one", Universal).batches(25, 6).then(Step::Flush).drop("two").batches(10, 4);
    script.drop("one").create("two", Leveled).batches(10, 4).then(Step::Reopen).batches(6, 3).done()
}

pub fn range_deletes() -> Workload {
    let mut script = Script::new("range_deletes", Leveled);
    script.ranges = true;
    script.batches(90, 6).then(Step::Compact("default")).batches(40, 6).done()
}

pub fn merges() -> Workload {
    let mut script = Script::new("merges", Leveled);
    script.merges = true;
    script.ranges = true;
    script.batches(110, 6).then(Step::Reopen).batches(30, 6).done()
}

/// Families that are created together: all of them or none, also if one of them was there before.
pub fn families_together() -> Workload {
    let mut script = Script::new("families_together", Leveled);
    script.batches(8, 3).create_all([("one", Leveled), ("two", Universal), ("three", Leveled)]).batches(25, 4);
    script.drop("one").drop("three").batches(6, 4).create_all([("three", Universal), ("one", Leveled)]).batches(20, 4).done()
}

/// Batches over three families, only one of which is ever full.
pub fn across() -> Workload {
    let mut script = Script::new("across", Leveled);
    script.create("one", Leveled).create("two", Universal).batches(50, 5);
    for n in 0..60 {
        let changes = ["default", "one", "two"].map(|family| {
            let length = if family == "one" { 400 } else { 4 };
            (family, Change::Put(script.key(), bytes(&mut script.random, length)))
        });
        let durability = if n % 7 == 0 { Sync } else { Buffered };
        script.then(Step::Write(Batch { durability, changes: changes.into() }));
    }
    script.done()
}

pub fn restyle() -> Workload {
    let mut script = Script::new("restyle", Leveled);
    script.batches(45, 6).then(Step::Restyle("default", Universal)).batches(45, 6);
    script.then(Step::Restyle("default", Leveled)).batches(45, 6).then(Step::Compact("default")).done()
}

/// Keys of hundreds of kilobytes, which the manifest copies: it outgrows its limit within a few flushes and is replaced.
pub fn manifest() -> Workload {
    let mut script = Script::new("manifest", Leveled);
    for n in 0..5u8 {
        script.put(Buffered, &[&[b'a' + n][..], &vec![n; 150 << 10]].concat(), 30);
        script.put(Buffered, &[&[b'a' + n][..], &vec![n + 1; 150 << 10]].concat(), 30);
        script.batches(2, 2).then(Step::Flush);
    }
    script.done()
}

pub fn reopen() -> Workload {
    let mut script = Script::new("reopen", Leveled);
    for _ in 0..6 {
        script.batches(16, 5).then(Step::Reopen);
    }
    script.done()
}

/// Memtables that hold most of the workload, and recoveries that have room for a small part of the log: they flush on the way.
pub fn long_log() -> Workload {
    let mut script = Script::new("long_log", Leveled);
    script.settings.write_buffer_size = 64 << 10;
    script.recovery_memory = Some(4 << 10);
    script.merges = true;
    script.ranges = true;
    script.batches(40, 8).create("one", Leveled).create("two", Universal).batches(90, 6).then(Step::Sync).batches(40, 30);
    script.drop("one").batches(30, 30).done()
}

pub fn big_values() -> Workload {
    let mut script = Script::new("big_values", Leveled);
    script.value = 20_000;
    script.batches(16, 4).done()
}

pub fn snapshots() -> Workload {
    let mut script = Script::new("snapshots", Leveled);
    script.ranges = true;
    for _ in 0..3 {
        script.batches(20, 6).then(Step::Snapshot).batches(20, 6).then(Step::Snapshot).batches(15, 6).then(Step::Release);
    }
    script.done()
}

/// Time at which data begins to grow old, unix seconds: a time of 0 is not known.
const AGING_START: u64 = 1_000_000;

/// Old data sinks to the last level while new data comes, and while nothing comes. `kept` is what is young, at first and later.
fn aging(mut script: Script, kept: [Preclude; 2]) -> Workload {
    (script.merges, script.ranges) = (true, true);
    script.settings.preclude_last_level_data_seconds = kept[0];
    script.then(Step::Pass(AGING_START));
    for round in 0..5 {
        script.batches(18, 8).then(Step::Pass(40)).batches(12, 8).then(Step::Snapshot).then(Step::Pass(90));
        match round {
            1 => script.then(Step::Compact("default")),
            2 => script.then(Step::Reopen),
            3 => script.then(Step::Preclude("default", Preclude::Seconds(0))).batches(12, 8).then(Step::Preclude("default", kept[1])),
            _ => script.batches(6, 8).then(Step::Release),
        };
    }
    script.then(Step::Pass(5000)).then(Step::Compact("default")).then(Step::Read).batches(4, 4).done()
}

/// Younger than so many seconds.
const BY_HAND: [Preclude; 2] = [Preclude::Seconds(100), Preclude::Seconds(60)];

pub fn aging_leveled() -> Workload {
    aging(Script::new("aging_leveled", Leveled), BY_HAND)
}

pub fn aging_universal() -> Workload {
    aging(Script::new("aging_universal", Universal), BY_HAND)
}

/// Ages data whose values have times of their own, with the last level on a tier.
fn aging_timed(name: &'static str, style: Style) -> Workload {
    let mut script = Script::new(name, style);
    script.timed = true;
    last_level_on_tier(&mut script);
    aging(script, BY_HAND)
}

pub fn aging_timed_leveled() -> Workload {
    aging_timed("aging_timed_leveled", Leveled)
}

pub fn aging_timed_universal() -> Workload {
    aging_timed("aging_timed_universal", Universal)
}

/// Ages data while the engine chooses the age.
pub fn aging_auto_leveled() -> Workload {
    aging(Script::new("aging_auto_leveled", Leveled), [Preclude::Auto; 2])
}

pub fn aging_auto_universal() -> Workload {
    let mut script = Script::new("aging_auto_universal", Universal);
    last_level_on_tier(&mut script);
    aging(script, [Preclude::Auto; 2])
}

fn last_level_on_tier(script: &mut Script) {
    (script.tiers, script.attached) = (1, 1);
    script.settings.last_level_temperature = Temperature::Cold;
}

/// Data grows cold: tables move as they are, and merges write to tiers.
pub fn tier_moves() -> Workload {
    let mut script = Script::new("tier_moves", Leveled);
    (script.tiers, script.attached) = (2, 2);
    script.settings.temperature_ages = "hot 100, cold 1000, ice".parse().expect("ages");
    // A time of 0 is not known.
    script.ranges = true;
    script.then(Step::Age(5000));
    for _ in 0..3 {
        script.batches(22, 6).then(Step::Flush).then(Step::Age(60)).batches(10, 6).then(Step::Flush).then(Step::Age(500));
    }
    script.then(Step::Age(2000)).batches(20, 6).then(Step::Compact("default")).then(Step::Reopen).then(Step::Age(150)).batches(6, 3).done()
}

/// A tree that grew without tiers gets one, and later another.
pub fn tier_attach() -> Workload {
    let mut script = Script::new("tier_attach", Universal);
    script.tiers = 2;
    script.settings.temperature_ages = "hot 100, cold 1000, ice".parse().expect("ages");
    script.then(Step::Age(5000)).batches(30, 6).then(Step::Flush).then(Step::Age(150)).then(Step::Attach);
    script.batches(25, 6).then(Step::Flush).then(Step::Age(200)).batches(10, 3).then(Step::Attach).then(Step::Age(1200));
    script.create("side", Leveled).batches(20, 5).then(Step::Flush).then(Step::Age(3000)).batches(8, 3).then(Step::Reopen);
    script.batches(6, 3).done()
}

/// Everything is to be cold, and the cold tier is full now and then.
pub fn tier_full() -> Workload {
    let mut script = Script::new("tier_full", Leveled);
    (script.tiers, script.attached) = (1, 1);
    script.full = &[1, 4, 5, 9, 15, 16, 17, 30];
    script.settings.temperature_ages = "cold".parse().expect("ages");
    script.then(Step::Age(5000)).batches(60, 6).then(Step::Flush).batches(40, 6).then(Step::Compact("default")).then(Step::Age(10));
    script.batches(40, 6).then(Step::Flush).then(Step::Age(10)).batches(10, 4).done()
}

/// A little of everything, short: for rings whose cost grows with the square of the length.
pub fn medley() -> Workload {
    let mut script = Script::new("medley", Leveled);
    script.merges = true;
    script.ranges = true;
    script
        .batches(14, 4)
        .create("side", Universal)
        .batches(20, 4)
        .then(Step::Read)
        .then(Step::Flush)
        .then(Step::Restyle("default", Universal));
    script.batches(10, 4).then(Step::Checkpoint).drop("side").batches(8, 4).then(Step::Read).then(Step::Reopen);
    script.create("side", Leveled).batches(12, 4).then(Step::Compact("default")).batches(3, 4).done()
}

/// Only background work: rotation, flushes and compactions.
pub fn churn() -> Workload {
    let mut script = Script::new("churn", Leveled);
    script.batches(35, 5).then(Step::Read).batches(35, 5).done()
}

/// Ends with range tombstones in tables and in the log.
pub fn ranges_left() -> Workload {
    let mut script = Script::new("ranges_left", Universal);
    script.ranges = true;
    script.batches(60, 5).then(Step::Flush).batches(12, 5).done()
}

/// Two families with tables of their own.
pub fn two_families() -> Workload {
    let mut script = Script::new("two_families", Leveled);
    script.create("side", Leveled).batches(70, 5).then(Step::Flush).done()
}
