//! Common settings and workloads of studies, by RocksDB's option names and in its spelling.

use super::plan::DEBTS;
use crate::run::{Distribution, EngineSpec, FamilySpec, Mix, Phase, PhaseKind};

/// Size of memtables and tables in db_bench 10, bytes. Its other defaults: base level of 256 MB, fan-out 10, Snappy, static level targets.
pub const MEMTABLE: u64 = 64 << 20;
/// Target of the base level, memtables.
pub const BASE: u64 = 4;
/// Size of each level over that of the level above.
pub const FAN_OUT: u64 = 10;
/// Runs that start a compaction.
pub const TRIGGER: u64 = 4;

/// The shape of a family's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Leveled; targets do not follow the amount of data.
    Leveled {
        /// Target of the base level, in memtables.
        base: u64,
        /// Fan-out.
        fan_out: u64,
    },
    /// Leveled with [`BASE`] and [`FAN_OUT`]; targets follow the amount of data (`level_compaction_dynamic_level_bytes`).
    Dynamic,
    /// Universal.
    Universal {
        /// Number of runs that starts a compaction.
        trigger: u64,
    },
}

/// A family of a shape; tables are as large as memtables. `memtable`: bytes.
pub fn family(name: &str, shape: Shape, memtable: u64) -> FamilySpec {
    let (style, base, fan_out, trigger) = match shape {
        Shape::Leveled { base, fan_out } => ("kCompactionStyleLevel", base, fan_out, TRIGGER),
        Shape::Dynamic => ("kCompactionStyleLevel", BASE, FAN_OUT, TRIGGER),
        Shape::Universal { trigger } => ("kCompactionStyleUniversal", BASE, FAN_OUT, trigger),
    };
    let settings = [
        ("compaction_style", style.to_string()),
        ("compression", "kSnappyCompression".to_string()),
        ("write_buffer_size", memtable.to_string()),
        ("target_file_size_base", memtable.to_string()),
        // RocksDB's default, but SinterDB's does not follow the size of tables.
        ("max_compaction_bytes", (25 * memtable).to_string()),
        ("max_bytes_for_level_base", (base * memtable).to_string()),
        ("max_bytes_for_level_multiplier", fan_out.to_string()),
        ("level_compaction_dynamic_level_bytes", (shape == Shape::Dynamic).to_string()),
        ("level0_file_num_compaction_trigger", trigger.to_string()),
    ];
    FamilySpec { name: name.to_string(), settings: settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect() }
}

/// A database of some families. The engine is filled in per run.
pub fn database(families: Vec<FamilySpec>, memtable: u64, wal: bool, direct_io: bool) -> EngineSpec {
    let settings = [
        ("use_direct_io_for_flush_and_compaction", direct_io.to_string()),
        // RocksDB's own choice for two families.
        ("max_total_wal_size", (16 * memtable).to_string()),
    ];
    let database = settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
    EngineSpec { database, families, wal, ..EngineSpec::default() }
}

/// One thread puts values at keys of the mixes, as fast as it can.
pub fn puts(name: &str, operations: u64, mixes: Vec<Mix>) -> Phase {
    Phase::requests(name, mixes, operations, 1)
}

/// A mix of puts only.
pub fn putter(name: &str, weight: f64, family: Option<&str>, range: (f64, f64), distribution: Distribution) -> Mix {
    Mix { name: name.to_string(), weight, family: family.map(str::to_string), range, ..Mix::puts(distribution) }
}

/// A phase that finishes the compactions left by another.
pub fn owed(name: &str) -> Phase {
    settle(&format!("{name}{DEBTS}"))
}

/// A phase that flushes and finishes due compactions, so that no shape looks better by deferring work.
pub fn settle(name: &str) -> Phase {
    Phase::new(name, PhaseKind::Settle)
}
