//! Activity of a store on a zoned drive below its files.

use super::CauseBytes;
use crate::system::Figures;
use serde::{Deserialize, Serialize};
use sinter_storage::store::ByLifetime;
use std::collections::BTreeMap;

/// Zone activity during one workload or phase, and the state of the zones at its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Zones {
    /// Bytes written to the drive, by cause: files, then what came on top.
    pub by_cause: Vec<CauseBytes>,
    /// Sum over the causes.
    pub device_bytes: u64,
    /// `device_bytes` over key and value bytes of user writes; `None` without user writes.
    pub device_write_amplification: Option<f64>,
    /// Device write amplification since the store was opened.
    pub device_write_amplification_since_open: Option<f64>,
    /// Zone resets.
    pub resets: u64,
    /// Resets of metadata zones, part of `resets`.
    #[serde(default)]
    pub metadata_resets: u64,
    /// Resets of zones for files, by the lifetime of the zone: that of the first file written into it while nothing in it lived. Empty
    /// in records that do not have it, like the other counts by lifetime.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resets_by_lifetime: BTreeMap<String, u64>,
    /// Resets of zones into which a log was written since their last reset. `None` in records that do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_of_logs: Option<u64>,
    /// Capacity of zones for files that was still unwritten when they were reset, bytes.
    pub reset_unwritten_bytes: u64,
    /// Zones finished before they were full.
    pub finishes: u64,
    /// Zones whose live data the collector moved away; a reset follows each.
    pub collected: u64,
    /// `collected`, by the lifetime of the zone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub collected_by_lifetime: BTreeMap<String, u64>,
    /// Dead bytes in collected zones, by the lifetime of the files that they belonged to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub collected_dead_bytes: BTreeMap<String, u64>,
    /// Tables that the collector moved. `None` in records that do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_tables: Option<u64>,
    /// How often a writer waited for free space.
    pub waits: u64,
    /// Files put into a zone that their policy would not have chosen.
    pub fallbacks: u64,
    /// Zones in which a write failed.
    pub failed: u64,
    /// Zones for files at the end.
    pub zones: u32,
    /// Zones for files that hold any written bytes.
    pub used: u32,
    /// Capacity of all zones for files, bytes.
    pub capacity_bytes: u64,
    /// Bytes written in zones for files.
    pub written_bytes: u64,
    /// Bytes of live files, in whole blocks. All other written bytes are dead.
    pub live_bytes: u64,
    /// Resets of the least worn zone in the volume's life.
    pub wear_least: u64,
    /// Resets of the most worn zone in the volume's life.
    pub wear_most: u64,
    /// Resets of all zones in the volume's life.
    pub wear_total: u64,
}

fn by_lifetime(counts: &ByLifetime) -> BTreeMap<String, u64> {
    counts.lines().map(|(lifetime, count)| (lifetime.name().to_string(), count)).collect()
}

impl Zones {
    /// Activity between two moments; `None` if the store does not lie on zones.
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
            resets_by_lifetime: by_lifetime(&done.resets_by_lifetime),
            resets_of_logs: Some(done.log_resets),
            reset_unwritten_bytes: done.reset_unwritten,
            finishes: done.finishes,
            collected: done.collected,
            collected_by_lifetime: by_lifetime(&done.collected_by_lifetime),
            collected_dead_bytes: by_lifetime(&done.collected_dead),
            moved_tables: Some(done.moved_tables),
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
