//! Hints: facts that the writer of a file knows about it. The hint travels with every creation down to the medium, which turns it into a
//! directory, a write-life hint, a tier or a zone; the meter turns it into a line of the write ledger.

/// Why a compaction ran. Part of the write ledger, so the list only grows at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Reason {
    /// Level 0 (or the run count of a universal tree) reached its trigger.
    RunCount = 0,
    /// A level outgrew its target size.
    LevelSize = 1,
    /// Universal: neighbouring runs of similar size.
    SizeRatio = 2,
    /// Data that may be dead below newer data exceeds the budget.
    SpaceAmplification = 3,
    /// Entries outlived the family's time to live.
    TimeToLive = 4,
    /// Tombstones are dropped early.
    Tombstones = 5,
    /// The user asked (`compact_range`).
    Manual = 6,
    /// The shape of the tree changed with the family's style.
    StyleChange = 7,
    /// A table was copied unchanged to another tier.
    Temperature = 8,
    /// Data has become old enough for the last level.
    Age = 9,
    /// Data of any age was demoted towards the last level, because the medium above had no free space.
    Room = 10,
}

impl Reason {
    /// Every reason, in order.
    pub const ALL: [Reason; 11] = [
        Reason::RunCount,
        Reason::LevelSize,
        Reason::SizeRatio,
        Reason::SpaceAmplification,
        Reason::TimeToLive,
        Reason::Tombstones,
        Reason::Manual,
        Reason::StyleChange,
        Reason::Temperature,
        Reason::Age,
        Reason::Room,
    ];

    /// The name used in statistics and reports.
    pub fn name(self) -> &'static str {
        match self {
            Reason::RunCount => "run-count",
            Reason::LevelSize => "level-size",
            Reason::SizeRatio => "size-ratio",
            Reason::SpaceAmplification => "space-amplification",
            Reason::TimeToLive => "ttl",
            Reason::Tombstones => "tombstones",
            Reason::Manual => "manual",
            Reason::StyleChange => "style-change",
            Reason::Temperature => "temperature",
            Reason::Age => "age",
            Reason::Room => "room",
        }
    }
}

/// Writer of a file: the key of the write ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// Version edits.
    Manifest,
    /// The write-ahead log, shared by all families.
    Wal,
    /// A memtable became a table.
    Flush,
    /// A compaction wrote a table on level `to`.
    Compaction {
        /// The level written to.
        to: u8,
        /// Reason of the compaction.
        reason: Reason,
    },
    /// A copy for a checkpoint on another medium.
    Checkpoint,
}

/// Expected lifetime of a file, relative to others: the kernel's write-life classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Lifetime {
    /// Nothing is known.
    #[default]
    Unknown,
    /// Dies within one memtable: logs.
    Short,
    /// Level 0 and the base level.
    Medium,
    /// The level below the base level.
    Long,
    /// All deeper levels.
    Extreme,
}

impl Lifetime {
    /// Every lifetime: unknown, then the shortest first.
    pub const ALL: [Lifetime; 5] = [Lifetime::Unknown, Lifetime::Short, Lifetime::Medium, Lifetime::Long, Lifetime::Extreme];

    /// The name used in statistics and reports.
    pub fn name(self) -> &'static str {
        match self {
            Lifetime::Unknown => "unknown",
            Lifetime::Short => "short",
            Lifetime::Medium => "medium",
            Lifetime::Long => "long",
            Lifetime::Extreme => "extreme",
        }
    }
}

/// Temperature of a file's contents, by which it gets a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Temperature {
    /// Nothing is known.
    #[default]
    Unknown,
    /// Read and written now.
    Hot,
    /// Read often.
    Warm,
    /// Read seldom.
    Cool,
    /// Hardly read.
    Cold,
    /// Kept for the record.
    Ice,
}

impl Temperature {
    /// Every temperature: unknown, then the hottest first.
    pub const ALL: [Temperature; 6] =
        [Temperature::Unknown, Temperature::Hot, Temperature::Warm, Temperature::Cool, Temperature::Cold, Temperature::Ice];

    /// The name used in settings and statistics.
    pub fn name(self) -> &'static str {
        match self {
            Temperature::Unknown => "unknown",
            Temperature::Hot => "hot",
            Temperature::Warm => "warm",
            Temperature::Cool => "cool",
            Temperature::Cold => "cold",
            Temperature::Ice => "ice",
        }
    }

    /// The temperature of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Temperature::ALL.into_iter().find(|temperature| temperature.name() == name)
    }

    /// The temperature of a format byte: its place in the enumeration, which only grows at the end.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Temperature::ALL.into_iter().find(|temperature| *temperature as u8 == byte)
    }
}

/// The placement hint of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// Writer of the file.
    pub cause: Cause,
    /// Column family of the data; 0 for files that all families share.
    pub family: u32,
    /// Level of the table; 0 for logs and manifests.
    pub level: u8,
    /// Expected lifetime of the file.
    pub lifetime: Lifetime,
    /// Temperature of the contents.
    pub temperature: Temperature,
    /// Smallest and largest user key, where known in advance.
    pub key_range: Option<(Vec<u8>, Vec<u8>)>,
    /// Bytes the writer expects to append; 0 if unknown.
    pub expected_bytes: u64,
    /// Write past the page cache, where the medium can.
    pub direct: bool,
    /// For tables written through the page cache: write-back starts each time this many bytes were appended; 0: only with the final sync.
    pub writeback_bytes: u64,
}

impl Hint {
    /// A hint that says who writes and nothing else.
    pub fn new(cause: Cause) -> Self {
        Hint {
            cause,
            family: 0,
            level: 0,
            lifetime: Lifetime::Unknown,
            temperature: Temperature::Unknown,
            key_range: None,
            expected_bytes: 0,
            direct: false,
            writeback_bytes: 1 << 20,
        }
    }
}
