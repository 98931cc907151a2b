//! Outcomes that a power cut may have for one file and one name, and a seeded driver that picks among them.

use super::content::FileState;
use crate::random::Xorshift;
use crate::store::FileId;
use std::ops::Range;

/// The block in which the page cache is written back.
const BLOCK: u64 = 4096;

/// The unit that a device writes in one go.
const SECTOR: u64 = 512;

/// The bytes of a file that a crash may take.
#[derive(Debug, Clone, Copy)]
pub struct Unsynced<'a> {
    /// The file.
    pub file: FileId,
    /// Bytes that were synced and stay.
    pub synced: u64,
    /// Offsets in the file at which the appends since then ended, ascending; never empty.
    pub ends: &'a [u64],
    /// Zeros that were written behind the last append, bytes.
    pub ahead: u64,
}

impl Unsynced<'_> {
    /// Number of bytes that are not synced.
    pub fn length(&self) -> u64 {
        self.ends.last().map_or(0, |end| end - self.synced)
    }
}

/// Unsynced bytes of a file that a crash left. Offsets count from the first unsynced byte.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tail {
    /// Bytes that the file is longer than its synced part. May be more than was appended: a direct write is padded to a block, and zeros
    /// are written ahead of a log. A file does not become shorter than it was when it was synced, with its zeros.
    pub length: u64,
    /// Ranges whose bytes did not arrive.
    pub lost: Vec<Range<u64>>,
    /// Content of the lost ranges and of the file past the appended bytes: zeros (a hole, ext4's delayed allocation), or with a seed the
    /// junk that was on the medium before.
    pub junk: Option<u64>,
}

impl Tail {
    /// The first `length` bytes and nothing else; 0 for nothing.
    pub fn prefix(length: u64) -> Self {
        Tail { length, ..Tail::default() }
    }
}

/// Decides the outcome of one crash. Called once for each name and file that has a choice.
pub trait Fate {
    /// Chooses which of the `states` (at least 2) that a name went through since the last `sync_names` survives: 0 is the durable one,
    /// `states - 1` the present one. A state is "the name is there" or "it is not". Operations on different names survive independently.
    fn name(&mut self, file: FileId, states: usize) -> usize;

    /// Chooses how much is left of the unsynced bytes of a file whose name survived.
    fn tail(&mut self, unsynced: &Unsynced<'_>) -> Tail;
}

/// Ready-made fates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashMode {
    /// Only what was synced is left, of names and bytes.
    DropUnsynced,
    /// Everything made it to the medium.
    KeepAll,
    /// Anything legal, drawn from a seed. A third of the seeds keep or drop all names (or all bytes) alike, since many faults show
    /// only when one side is whole.
    Random(u64),
}

impl From<u64> for CrashMode {
    fn from(seed: u64) -> Self {
        CrashMode::Random(seed)
    }
}

impl CrashMode {
    pub(super) fn fate(self) -> Box<dyn Fate> {
        match self {
            CrashMode::DropUnsynced => Box::new(Uniform { keep: false }),
            CrashMode::KeepAll => Box::new(Uniform { keep: true }),
            CrashMode::Random(seed) => Box::new(Drawn::new(seed)),
        }
    }
}

struct Uniform {
    keep: bool,
}

impl Fate for Uniform {
    fn name(&mut self, _file: FileId, states: usize) -> usize {
        if self.keep { states - 1 } else { 0 }
    }

    fn tail(&mut self, unsynced: &Unsynced<'_>) -> Tail {
        Tail::prefix(if self.keep { unsynced.length() + unsynced.ahead } else { 0 })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Temper {
    Drop,
    Keep,
    Mixed,
}

struct Drawn {
    random: Xorshift,
    names: Temper,
    bytes: Temper,
}

impl Drawn {
    fn new(seed: u64) -> Self {
        let mut random = Xorshift::new(seed);
        let mut temper = |of: u64| match random.below(of) {
            0 => Temper::Drop,
            1 => Temper::Keep,
            _ => Temper::Mixed,
        };
        let (names, bytes) = (temper(6), temper(6));
        Drawn { random, names, bytes }
    }

    /// The ranges of a partition of the unsynced bytes that a coin takes away.
    fn lose(&mut self, ends: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
        let mut start = 0;
        let mut lost = Vec::new();
        for end in ends {
            if self.random.below(2) == 0 {
                lost.push(start..end);
            }
            start = end;
        }
        lost
    }
}

/// Ends of the aligned units of the file that the unsynced bytes lie in, counted from the first unsynced byte.
fn units(unsynced: &Unsynced<'_>, unit: u64) -> impl Iterator<Item = u64> + use<> {
    let (synced, length) = (unsynced.synced, unsynced.length());
    let first = (synced / unit + 1) * unit - synced;
    (0..).map(move |i| first + i * unit).take_while(move |end| *end < length).chain([length])
}

impl Fate for Drawn {
    fn name(&mut self, _file: FileId, states: usize) -> usize {
        match self.names {
            Temper::Drop => 0,
            Temper::Keep => states - 1,
            Temper::Mixed => self.random.below(states as u64) as usize,
        }
    }

    fn tail(&mut self, unsynced: &Unsynced<'_>) -> Tail {
        let all = unsynced.length();
        let whole = all + unsynced.ahead;
        let kind = match self.bytes {
            Temper::Drop => 0,
            Temper::Keep => 1,
            Temper::Mixed => self.random.below(10),
        };
        let prefix = self.random.below(all + 1);
        let padded = (unsynced.synced + all).next_multiple_of(BLOCK) - unsynced.synced;
        let junk = (self.random.below(2) == 0).then(|| self.random.next());
        match kind {
            0 => Tail::prefix(0),
            1 => Tail::prefix(whole),
            2 => Tail::prefix(prefix),
            3 => Tail::prefix(unsynced.ends[self.random.below(unsynced.ends.len() as u64) as usize] - unsynced.synced),
            4 => Tail::prefix(((unsynced.synced + prefix) / SECTOR * SECTOR).saturating_sub(unsynced.synced)),
            5 => Tail { length: whole, lost: std::iter::once(prefix..all).collect(), junk },
            6 => Tail { length: padded, lost: std::iter::once(prefix..all).collect(), junk },
            7 => Tail { length: whole, lost: self.lose(units(unsynced, BLOCK)), junk },
            8 => Tail { length: whole, lost: self.lose(units(unsynced, SECTOR)), junk },
            _ => Tail { length: whole, lost: self.lose(unsynced.ends.iter().map(|end| end - unsynced.synced)), junk },
        }
    }
}

impl FileState {
    /// The file as found after the crash, all of it durable.
    pub(super) fn after_crash(&self, file: FileId, fate: &mut dyn Fate) -> FileState {
        if self.ends.is_empty() {
            return self.clone();
        }
        let unsynced = Unsynced { file, synced: self.synced, ends: &self.ends, ahead: self.ahead() };
        let tail = fate.tail(&unsynced);
        let arrived = tail.length.min(unsynced.length() + unsynced.ahead);
        let mut content = self.content.prefix(self.synced + arrived);
        let mut filler = Filler { junk: tail.junk.map(Xorshift::new) };
        if !tail.lost.is_empty() {
            let mut bytes = content.suffix(self.synced);
            // Where zeros are durable, nothing else was on the medium before.
            let zeros = self.synced_end.saturating_sub(self.synced).min(arrived) as usize;
            for lost in &tail.lost {
                let (start, end) = (lost.start.min(arrived) as usize, lost.end.min(arrived) as usize);
                if start < end {
                    filler.fill(&mut bytes[start..end]);
                    bytes[start.min(zeros)..end.min(zeros)].fill(0);
                }
            }
            content = self.content.prefix(self.synced);
            content.append(&bytes);
        }
        let mut past = vec![0; (tail.length - arrived) as usize];
        filler.fill(&mut past);
        content.append(&past);
        content.append(&vec![0; self.synced_end.saturating_sub(content.len()) as usize]);
        FileState::durable(content)
    }
}

/// Writes what stands where bytes did not arrive.
struct Filler {
    junk: Option<Xorshift>,
}

impl Filler {
    fn fill(&mut self, bytes: &mut [u8]) {
        match &mut self.junk {
            None => bytes.fill(0),
            Some(random) => bytes.fill_with(|| (random.next() >> 56) as u8),
        }
    }
}
