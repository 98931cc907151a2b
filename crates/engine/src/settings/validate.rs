//! All that is wrong with settings, at once: a user who fixes one complaint should not meet the next.

use super::field::{DB, FAMILY, Field, Kind};
use super::size::format_bytes;
use super::{Budgets, Codecs, CompressedCache, DbSettings, FamilySettings, Preclude};
use crate::codec::{Codec, Compression};

impl DbSettings {
    /// Checks every field.
    ///
    /// # Errors
    /// All complaints, each with the field, its value, the allowed range and the reason.
    pub fn validate(&self) -> Result<(), Vec<String>> {
        let mut complaints = bounds(self, DB);
        if (1..Budgets::MEMORY_LEAST).contains(&self.memory_budget) {
            let budget = format_bytes(self.memory_budget);
            complaints.push(format!("memory_budget = {budget}: allowed 0 and 1MiB to 1024TiB, a smaller one holds no memtable"));
        }
        let packs = self.compressed_cache != CompressedCache::Off;
        complaints.extend(Codec::Lz4.missing().filter(|_| packs).map(|missing| format!("compressed_cache is packed with lz4; {missing}")));
        complaints.extend(self.tiers.complaint());
        finish(complaints)
    }
}

impl FamilySettings {
    /// Checks every field and how they stand to each other.
    ///
    /// # Errors
    /// All complaints, each with the field, its value, the allowed range and the reason.
    pub fn validate(&self) -> Result<(), Vec<String>> {
        let mut complaints = bounds(self, FAMILY);
        self.check_order(&mut complaints);
        self.check_compression(&mut complaints);
        self.check_preclude(&mut complaints);
        finish(complaints)
    }

    /// Leaves out codecs that never had an effect and that older versions accepted: codecs of levels that the tree does not have,
    /// dictionaries too small to be made. A new setting of this kind is refused; a database that has it stored still opens.
    pub(super) fn leave_out_idle_codecs(&mut self) {
        let Codecs::Fixed(list) = &mut self.compression else { return };
        list.truncate(self.num_levels.max(1));
        for entry in list.iter_mut().filter(|entry| entry.dictionary_bytes < DICTIONARY_MIN) {
            entry.dictionary_bytes = 0;
        }
    }

    fn check_preclude(&self, complaints: &mut Vec<String>) {
        let preclude = self.preclude_last_level_data_seconds;
        if preclude.is_on() && self.num_levels < Preclude::LEAST_LEVELS {
            let (age, least) = (preclude.text(), Preclude::LEAST_LEVELS);
            let why = "one level is for flushes, one for what is younger, one for the rest";
            complaints.push(format!("preclude_last_level_data_seconds = {age}: allowed from num_levels = {least} on, {why}"));
        }
    }

    fn check_order(&self, complaints: &mut Vec<String>) {
        let mut ordered = |low: (&str, u64), high: (&str, u64), bytes: bool, why: &str| {
            if low.1 > high.1 {
                let show = |v: u64| if bytes || v == u64::MAX { format_bytes(v) } else { v.to_string() };
                complaints.push(format!("{} = {}: must not be below {} = {}, {why}", high.0, show(high.1), low.0, show(low.1)));
            }
        };
        let trigger = ("level0_file_num_compaction_trigger", self.level0_file_num_compaction_trigger as u64);
        let slowdown = ("level0_slowdown_writes_trigger", self.level0_slowdown_writes_trigger as u64);
        let stop = ("level0_stop_writes_trigger", self.level0_stop_writes_trigger as u64);
        ordered(trigger, slowdown, false, "or writers are slowed down before a compaction could help");
        ordered(slowdown, stop, false, "or writers stop before they are slowed down");
        let soft = ("soft_pending_compaction_bytes_limit", self.soft_pending_compaction_bytes_limit);
        let hard = ("hard_pending_compaction_bytes_limit", self.hard_pending_compaction_bytes_limit);
        ordered(soft, hard, true, "or writers stop before they are slowed down");
        let narrow = ("min_merge_width", self.min_merge_width as u64);
        let wide = ("max_merge_width", self.max_merge_width as u64);
        ordered(narrow, wide, false, "or no merge is allowed");
        let table = ("target_file_size_base", self.target_file_size_base);
        let compaction = ("max_compaction_bytes", self.max_compaction_bytes);
        ordered(table, compaction, true, "or a compaction could not take one table");
    }

    fn check_compression(&self, complaints: &mut Vec<String>) {
        let Some(list) = self.compression.fixed() else { return };
        if list.is_empty() {
            complaints
                .push("compression is empty: name at least one codec, which then serves all levels (`none` for no compression)".into());
        }
        let (count, levels) = (list.len(), self.num_levels);
        if count > super::size::LIST_MAX {
            complaints.push(format!("compression has {count} entries: allowed 1 to {}, a tree has no more levels", super::size::LIST_MAX));
        } else if count > levels {
            complaints.push(format!("compression has {count} entries: allowed 1 to num_levels = {levels}, this tree has no more levels"));
        }
        for (level, entry) in list.iter().enumerate().take(super::size::LIST_MAX) {
            complaints.extend(compression_complaints(level, *entry));
        }
    }
}

/// The largest dictionary: as large as zstd's trainer still makes good use of.
const DICTIONARY_MAX: u32 = 1 << 20;
/// The smallest that zstd's trainer makes (`ZDICT_DICTSIZE_MIN`).
const DICTIONARY_MIN: u32 = 256;

fn compression_complaints(level: usize, entry: Compression) -> Vec<String> {
    let mut complaints = Vec::new();
    let name = entry.codec.name();
    complaints.extend(entry.codec.missing().map(|missing| format!("compression of level {level}: {missing}")));
    match (entry.level, entry.codec.levels()) {
        (Some(effort), None) => {
            complaints.push(format!("compression of level {level}: {name}:{effort}, but {name} has no effort levels; write {name}"));
        }
        (Some(effort), Some(range)) if !range.contains(&effort) => {
            let (low, high) = (range.start(), range.end());
            complaints.push(format!("compression of level {level}: {name}:{effort}: allowed {low} to {high}, the range of {name}"));
        }
        _ => {}
    }
    if entry.dictionary_bytes > 0 && entry.codec != Codec::Zstd {
        complaints.push(format!("compression of level {level}: {name} with a dictionary: only zstd uses dictionaries"));
    } else if (1..DICTIONARY_MIN).contains(&entry.dictionary_bytes) {
        let size = entry.dictionary_bytes;
        complaints.push(format!("compression of level {level}: dict={size}: allowed from {DICTIONARY_MIN} on, zstd makes no smaller ones"));
    } else if entry.dictionary_bytes > DICTIONARY_MAX {
        let size = format_bytes(entry.dictionary_bytes.into());
        complaints.push(format!("compression of level {level}: dict={size}: allowed up to 1MiB, each table carries its dictionary"));
    }
    complaints
}

fn bounds<S>(settings: &S, fields: &[Field<S>]) -> Vec<String> {
    let outside = |field: &&Field<S>| match &field.kind {
        Kind::Whole { min, max, get, .. } => !(*min..=*max).contains(&get(settings)),
        Kind::Real { min, max, get, .. } => !(*min..=*max).contains(&get(settings)),
        Kind::CompressedCache { get, .. } => !get(settings).is_possible(),
        Kind::TierBudget { get, .. } => !get(settings).is_possible(),
        Kind::Preclude { get, .. } => !get(settings).is_possible(),
        Kind::Flag { .. } | Kind::Word { .. } | Kind::Compression { .. } | Kind::Temperature { .. } | Kind::List { .. } => false,
    };
    fields
        .iter()
        .filter(outside)
        .map(|field| format!("{} = {}: allowed {}, because {}", field.name, field.text(settings), field.range(), field.limit))
        .collect()
}

pub(super) fn finish(complaints: Vec<String>) -> Result<(), Vec<String>> {
    if complaints.is_empty() { Ok(()) } else { Err(complaints) }
}
