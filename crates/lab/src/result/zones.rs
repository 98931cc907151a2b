//! What a store on a zoned drive did below its files.

use super::CauseBytes;
use crate::target::Figures;
use serde::{Deserialize, Serialize};

/// Of one workload or phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Zones {
    /// Bytes that the drive was written, by cause: files, then what came on top.
    pub by_cause: Vec<CauseBytes>,
    /// Their sum.
    pub device_bytes: u64,
    /// `device_bytes` over key and value bytes of user writes; `None` without such.
    pub device_write_amplification: Option<f64>,
    /// The same since the store was opened.
    pub device_write_amplification_since_open: Option<f64>,
    /// Zones emptied.
    pub resets: u64,
    /// Those of the metadata among them.
    #[serde(default)]
    pub metadata_resets: u64,
    /// Those that were begun with a log.
    #[serde(default)]
    pub log_resets: u64,
    /// Capacity of zones for files that was not written when they were emptied, bytes.
    pub reset_unwritten_bytes: u64,
    /// Zones finished early.
    pub finishes: u64,
    /// Zones that the collector emptied of what lived in them.
    pub collected: u64,
    /// How often a writer waited for room.
    pub waits: u64,
    /// How often a file went where its policy would not have put it.
    pub fallbacks: u64,
    /// Zones in which a write failed.
    pub failed: u64,
    /// Zones for files at the end.
    pub zones: u32,
    /// Those in which anything is written.
    pub used: u32,
    /// What zones for files can hold together, bytes.
    pub capacity_bytes: u64,
    /// What is written in them, bytes.
    pub written_bytes: u64,
    /// Bytes of living files, to whole blocks. What is written beyond is dead.
    pub live_bytes: u64,
    /// Resets of the least worn zone in the volume's life.
    pub wear_least: u64,
    /// Of the most worn one.
    pub wear_most: u64,
    /// Of all together.
    pub wear_total: u64,
}

impl Zones {
    /// What came to pass between two moments; `None` if the store lies elsewhere.
    pub fn between(before: &Figures, after: &Figures) -> Option<Self> {
        let all = after.beneath?;
        let done = all.since(&before.beneath.unwrap_or_default());
        let ratio = |bytes: u64, user: u64| (user > 0).then(|| bytes as f64 / user as f64);
        Some(Zones {
            by_cause: done.lines().into_iter().map(|(cause, bytes)| CauseBytes { cause: cause.into(), bytes }).collect(),
            device_bytes: done.device(),
            device_write_amplification: ratio(done.device(), after.user_bytes.saturating_sub(before.user_bytes)),
            device_write_amplification_since_open: ratio(all.device(), after.user_bytes),
            resets: done.resets,
            metadata_resets: done.metadata_resets,
            log_resets: done.log_resets,
            reset_unwritten_bytes: done.reset_unwritten,
            finishes: done.finishes,
            collected: done.collected,
            waits: done.waits,
            fallbacks: done.fallbacks,
            failed: done.failed,
            zones: all.zones.all,
            used: all.zones.used(),
            capacity_bytes: all.zones.capacity,
            written_bytes: all.zones.written,
            live_bytes: all.zones.live,
            wear_least: all.zones.wear_least,
            wear_most: all.zones.wear_most,
            wear_total: all.zones.wear_total,
        })
    }
}
