//! The possible operations, and a generator that draws them from a seed alone: the list does not depend on settings or on results. Every
//! sublist of a list makes sense, so that failures can be shrunk.

use super::{Random, Text};
use sinterdb::Durability;

/// Family slots: the default family, and three that come and go.
pub const SLOTS: usize = 4;
/// Snapshots, and iterators, that are held at the same time.
pub const HELD: usize = 6;

/// A change of one family.
#[derive(Debug, Clone)]
pub enum Write {
    Put(usize, Text, Text),
    Delete(usize, Text),
    DeleteRange(usize, Text, Text),
    DeleteFrom(usize, Text),
    Merge(usize, Text, Text),
}

/// Scope of a read.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// A held snapshot to read at, if it is there.
    pub snapshot: Option<usize>,
    pub lower: Option<Text>,
    pub upper: Option<Text>,
    pub prefix: Option<Text>,
    pub readahead: usize,
    pub no_fill: bool,
}

/// A step of an iterator.
#[derive(Debug, Clone)]
pub enum Step {
    First,
    Last,
    Seek(Text),
    SeekForPrev(Text),
    Next,
    Prev,
}

/// One operation.
#[derive(Debug, Clone)]
pub enum Operation {
    Write(Write, Durability),
    Batch(Vec<Write>, Durability),
    Get(usize, Text, Option<usize>),
    MultiGet(usize, Vec<Text>, Option<usize>),
    Scan {
        slot: usize,
        scope: Scope,
        backward: bool,
    },
    Walk {
        slot: usize,
        scope: Scope,
        steps: Vec<Step>,
    },
    /// Starts an iterator that is read from later.
    Hold {
        place: usize,
        slot: usize,
        scope: Scope,
    },
    Resume {
        place: usize,
        entries: usize,
    },
    TakeSnapshot(usize),
    DropSnapshot(usize),
    /// Compares everything at a held snapshot.
    CheckSnapshot(usize),
    CheckAll,
    Verify,
    Sync,
    Flush,
    Compact {
        slot: usize,
        from: Option<Text>,
        to: Option<Text>,
    },
    Settle,
    Create(usize),
    Drop(usize),
    Change {
        slot: usize,
        what: u64,
    },
    Reopen,
    Crash(u64),
    ReadOnly,
    Checkpoint,
    Tick(u64),
}

/// Draws keys that collide, share long prefixes, are prefixes of each other, or stand at the ends of the order.
pub fn key(random: &mut Random) -> Text {
    Text(match random.below(20) {
        0..=4 => format!("h{}", random.below(8)).into_bytes(),
        5..=10 => format!("user/000000/{:04}", random.below(200)).into_bytes(),
        11 | 12 => format!("prefix88{:02}", random.below(60)).into_bytes(),
        13 => vec![b'a'; random.index(12) + 1],
        14 => [vec![b'a'; random.index(3) + 1], vec![0; random.index(3)]].concat(),
        15 => Vec::new(),
        16 => vec![0xff; random.index(4) + 1],
        17 => [vec![0xff; random.index(9)], vec![(random.next() & 0xff) as u8]].concat(),
        18 if random.one_in(4) => [vec![b'L'; 1500], format!("{:02}", random.below(20)).into_bytes()].concat(),
        _ => (0..random.index(4)).map(|_| [0, 1, b'a', 0x80, 0xff][random.index(5)]).collect(),
    })
}

pub fn value(random: &mut Random) -> Text {
    let noise = |random: &mut Random, n: usize| (0..n).map(|_| (random.next() & 0xff) as u8).collect();
    Text(match random.below(16) {
        0 => Vec::new(),
        1..=3 => random.below(1000).to_le_bytes().to_vec(),
        4..=9 => format!("value {} ", random.below(50)).into_bytes().repeat(random.index(12) + 1),
        10..=14 => {
            let n = random.index(120);
            noise(random, n)
        }
        _ if random.one_in(8) => {
            let n = 3000 + random.index(9000);
            noise(random, n)
        }
        _ => vec![b'x'; random.index(2500)],
    })
}

pub fn range(random: &mut Random) -> (Text, Text) {
    let from = key(random);
    let to = match random.below(8) {
        // Mostly short ranges: a tree that is always empty tests little.
        0 => key(random),
        1 => from.clone(),
        _ => Text([&from, &[random.below(4) as u8][..]].concat()),
    };
    (from, to)
}

fn slot(random: &mut Random) -> usize {
    if random.one_in(2) { 0 } else { random.index(SLOTS) }
}

fn write(random: &mut Random) -> Write {
    let slot = slot(random);
    match random.below(32) {
        0..=17 => Write::Put(slot, key(random), value(random)),
        18..=23 => Write::Delete(slot, key(random)),
        24 if random.one_in(8) => Write::DeleteFrom(slot, key(random)),
        24 => {
            let (from, to) = range(random);
            Write::DeleteRange(slot, from, to)
        }
        _ => {
            let operand = if random.one_in(2) { Text(random.below(100).to_le_bytes().to_vec()) } else { Text(vec![b'o'; random.index(9)]) };
            // Without an operator the write is refused; that is worth trying, but not often.
            let slot = if slot == SLOTS - 1 && !random.one_in(8) { 0 } else { slot };
            Write::Merge(slot, key(random), operand)
        }
    }
}

fn durability(random: &mut Random) -> Durability {
    match random.below(60) {
        0 => Durability::Sync,
        1..=4 => Durability::NoWal,
        _ => Durability::Buffered,
    }
}

fn scope(random: &mut Random) -> Scope {
    let mut scope = Scope {
        snapshot: held(random),
        readahead: if random.one_in(4) { 1 << random.below(16) } else { 0 },
        no_fill: random.one_in(4),
        ..Scope::default()
    };
    match random.below(6) {
        0 => scope.lower = Some(key(random)),
        1 => scope.upper = Some(key(random)),
        2 => {
            let (from, to) = range(random);
            (scope.lower, scope.upper) = (Some(from), Some(to));
        }
        3 => {
            let mut prefix = key(random);
            prefix.0.truncate(random.index(12));
            scope.prefix = Some(prefix);
            scope.upper = random.one_in(4).then(|| key(random));
            scope.lower = random.one_in(4).then(|| key(random));
        }
        _ => {}
    }
    scope
}

fn held(random: &mut Random) -> Option<usize> {
    random.one_in(3).then(|| random.index(HELD))
}

fn step(random: &mut Random) -> Step {
    match random.below(16) {
        0 => Step::First,
        1 => Step::Last,
        2 | 3 => Step::Seek(key(random)),
        4 | 5 => Step::SeekForPrev(key(random)),
        6..=10 => Step::Next,
        _ => Step::Prev,
    }
}

/// Work on the whole database: rare, but each list has all of it.
fn upheaval(random: &mut Random) -> Operation {
    match random.below(80) {
        0..=19 => Operation::Flush,
        20..=24 => Operation::Sync,
        25..=32 => {
            let range = |random: &mut Random| (!random.one_in(3)).then(|| key(random));
            Operation::Compact { slot: slot(random), from: range(random), to: range(random) }
        }
        33..=35 => Operation::Settle,
        36..=43 => Operation::TakeSnapshot(random.index(HELD)),
        44..=47 => Operation::DropSnapshot(random.index(HELD)),
        48..=50 => Operation::CheckSnapshot(random.index(HELD)),
        51 | 52 => Operation::CheckAll,
        53 => Operation::Verify,
        54..=57 => Operation::Create(1 + random.index(SLOTS - 1)),
        58 => Operation::Drop(1 + random.index(SLOTS - 1)),
        59..=62 => Operation::Change { slot: slot(random), what: random.next() },
        63 | 64 => Operation::Reopen,
        65..=67 => Operation::Crash(random.next()),
        68 => Operation::ReadOnly,
        69 => Operation::Checkpoint,
        70..=73 => Operation::Tick(random.below(1000)),
        _ => Operation::Hold { place: random.index(HELD), slot: slot(random), scope: scope(random) },
    }
}

fn operation(random: &mut Random) -> Operation {
    match random.below(200) {
        0..=89 => Operation::Write(write(random), durability(random)),
        90..=99 => {
            let writes = (0..random.index(10)).map(|_| write(random)).collect();
            Operation::Batch(writes, durability(random))
        }
        100..=159 => Operation::Get(slot(random), key(random), held(random)),
        160..=166 => {
            let keys = (0..random.index(40)).map(|_| key(random)).collect();
            Operation::MultiGet(slot(random), keys, held(random))
        }
        167..=174 => Operation::Scan { slot: slot(random), scope: scope(random), backward: random.one_in(2) },
        175..=190 => {
            let steps = (0..1 + random.index(24)).map(|_| step(random)).collect();
            Operation::Walk { slot: slot(random), scope: scope(random), steps }
        }
        191..=194 => Operation::Resume { place: random.index(HELD), entries: random.index(30) },
        _ => upheaval(random),
    }
}

/// The operations of a seed.
pub fn generate(seed: u64, count: usize) -> Vec<Operation> {
    let mut random = Random(seed);
    (0..count).map(|_| operation(&mut random)).collect()
}
