//! The settings of a spec as the text of an OPTIONS file, the common language of all engines.

use super::spec::EngineSpec;
use crate::system::Outcome;
use sinterdb::settings::OptionsFile;
use std::fmt::Write;

/// Options in the section of tables, not of families (include/rocksdb/table.h, `BlockBasedTableOptions`).
const TABLE_OPTIONS: &[&str] = &[
    "block_align",
    "block_cache",
    "block_restart_interval",
    "block_size",
    "block_size_deviation",
    "cache_index_and_filter_blocks",
    "cache_index_and_filter_blocks_with_high_priority",
    "checksum",
    "data_block_hash_table_util_ratio",
    "data_block_index_type",
    "decouple_partitioned_filters",
    "enable_index_compression",
    "filter_policy",
    "format_version",
    "index_block_restart_interval",
    "index_shortening",
    "index_type",
    "initial_auto_readahead_size",
    "max_auto_readahead_size",
    "metadata_block_size",
    "no_block_cache",
    "num_file_reads_for_auto_readahead",
    "optimize_filters_for_memory",
    "partition_filters",
    "pin_l0_filter_and_index_blocks_in_cache",
    "pin_top_level_index_and_filter",
    "prepopulate_block_cache",
    "read_amp_bytes_per_bit",
    "use_delta_encoding",
    "verify_compression",
    "whole_key_filtering",
];

/// Whether a family's setting belongs to the section of its tables.
pub fn is_table_option(name: &str) -> bool {
    TABLE_OPTIONS.contains(&name)
}

impl EngineSpec {
    /// Text of an OPTIONS file (RocksDB's format) with the database's settings and, for each family, those of its `CFOptions` and
    /// `BlockBasedTable` sections. There is always a family `default`, because every such file has one.
    pub fn options_text(&self) -> String {
        let mut text = String::from("[Version]\n  rocksdb_version=10.0.0\n  options_file_version=1.1\n\n[DBOptions]\n");
        let line = |text: &mut String, (name, value): (&String, &String)| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {name}={value}");
        };
        self.database.iter().for_each(|entry| line(&mut text, entry));
        if !self.families.iter().any(|family| family.name == "default") {
            text.push_str("\n[CFOptions \"default\"]\n\n[TableOptions/BlockBasedTable \"default\"]\n");
        }
        for family in &self.families {
            let _ = writeln!(text, "\n[CFOptions \"{}\"]", family.name);
            family.settings.iter().filter(|(name, _)| !is_table_option(name)).for_each(|entry| line(&mut text, entry));
            let _ = writeln!(text, "\n[TableOptions/BlockBasedTable \"{}\"]", family.name);
            family.settings.iter().filter(|(name, _)| is_table_option(name)).for_each(|entry| line(&mut text, entry));
        }
        text
    }

    /// Parses the text of `options_text` with SinterDB's reader of OPTIONS files. The families are those of the spec, in the spec's order.
    ///
    /// # Errors
    /// Everything that cannot be read, in one line.
    pub fn options(&self) -> Outcome<OptionsFile> {
        let mut file =
            OptionsFile::parse(&self.options_text()).map_err(|complaints| format!("engine: {}", without_lines(complaints).join("; ")))?;
        let settings = |name: &str| file.families.iter().find(|(known, _)| known == name).map(|(_, settings)| settings.clone());
        let families: Option<Vec<_>> = self.families.iter().map(|f| Some((f.name.clone(), settings(&f.name)?))).collect();
        file.families = families.ok_or("engine.families: a name that no OPTIONS file can hold")?;
        Ok(file)
    }
}

/// Removes the line numbers from complaints about a file that no user has seen.
pub(crate) fn without_lines(mut complaints: Vec<String>) -> Vec<String> {
    for complaint in &mut complaints {
        let rest = complaint.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
        if let Some((_, what)) = rest.filter(|(numbers, _)| numbers.bytes().all(|byte| byte.is_ascii_digit() || b", ".contains(&byte))) {
            *complaint = what.to_owned();
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::spec::FamilySpec;
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn complaints_lose_their_lines() {
        let complaints = ["line 9: a: b", "line 9, 10: a: b", "line of: b", "a: b"].map(String::from).to_vec();
        assert_eq!(without_lines(complaints), ["a: b", "a: b", "line of: b", "a: b"]);
    }

    #[test]
    fn settings_stand_in_their_sections() {
        let settings = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect::<BTreeMap<String, String>>();
        let spec = EngineSpec {
            name: "sinter".into(),
            database: settings(&[("max_background_jobs", "3")]),
            families: vec![FamilySpec { name: "hot".into(), settings: settings(&[("block_size", "8192"), ("num_levels", "5")]) }],
            wal: true,
            ..EngineSpec::default()
        };
        let expected = "[Version]\n  rocksdb_version=10.0.0\n  options_file_version=1.1\n\n[DBOptions]\n  max_background_jobs=3\n\n\
            [CFOptions \"default\"]\n\n[TableOptions/BlockBasedTable \"default\"]\n\n\
            [CFOptions \"hot\"]\n  num_levels=5\n\n[TableOptions/BlockBasedTable \"hot\"]\n  block_size=8192\n";
        assert_eq!(spec.options_text(), expected);
    }
}
