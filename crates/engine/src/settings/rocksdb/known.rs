//! Options that RocksDB knows and that change nothing here, by the reason. Names and defaults from RocksDB 7.8's own OPTIONS file,
//! later names from include/rocksdb/{options,advanced_options,table}.h up to version 10 and from the OPTIONS file of 11.8.

/// A reason and the options it holds for, each with RocksDB's default; `*` where the default varies between versions or machines.
type Group = (&'static str, &'static [(&'static str, &'static str)]);

/// The reason why an option has no effect; `None`: not one of RocksDB's.
pub(super) fn why(key: &str) -> Option<&'static str> {
    GROUPS.iter().find(|(_, options)| options.iter().any(|(name, _)| *name == key)).map(|(why, _)| *why).or_else(|| {
        let member = key.strip_prefix("compaction_options_universal.")?;
        UNIVERSAL.1.iter().any(|(name, _)| *name == member).then_some(UNIVERSAL.0)
    })
}

/// The reason why a member of compression options has no effect; `None`: not one of RocksDB's.
pub(super) fn why_member(member: &str) -> Option<&'static str> {
    COMPRESSION.1.iter().any(|(name, _)| *name == member).then_some(COMPRESSION.0)
}

/// Whether the value is RocksDB's default, so that nobody asked for anything.
pub(super) fn is_default(key: &str, value: &str) -> bool {
    let name = key.rsplit('.').next().unwrap_or(key);
    let all = GROUPS.iter().chain([&UNIVERSAL, &COMPRESSION]);
    let mut found = all.flat_map(|(_, options)| options.iter()).filter(|(known, _)| *known == name);
    found.any(|(_, default)| *default == "*" || *default == value || repeated(default, value))
}

/// A default written `1*` stands for any number of ones, `1:1:1`.
fn repeated(default: &str, value: &str) -> bool {
    default.strip_suffix('*').is_some_and(|one| !one.is_empty() && value.split(':').all(|part| part == one))
}

const UNIVERSAL: Group = (
    "full runs are merged, and when is decided by ratio, width and size amplification",
    &[
        ("incremental", "false"),
        ("compression_size_percent", "-1"),
        ("allow_trivial_move", "false"),
        ("stop_style", "kCompactionStopStyleTotalSize"),
        ("max_read_amp", "-1"),
        ("reduce_file_locking", "*"),
    ],
);

const COMPRESSION: Group = (
    "only the codec, its level and the size of a dictionary can be set",
    &[
        ("max_dict_buffer_bytes", "0"),
        ("parallel_threads", "1"),
        ("zstd_max_train_bytes", "0"),
        ("use_zstd_dict_trainer", "true"),
        ("strategy", "0"),
        ("window_bits", "-14"),
        ("max_compressed_bytes_per_kb", "896"),
        ("checksum", "false"),
    ],
);

const GROUPS: &[Group] = &[
    (
        "an argument of opening, not a setting",
        &[
            ("create_if_missing", "*"),
            ("create_missing_column_families", "*"),
            ("error_if_exists", "false"),
            ("best_efforts_recovery", "false"),
        ],
    ),
    (
        "operators and filters are passed to the builder, not named in settings",
        &[("merge_operator", "nullptr"), ("compaction_filter", "nullptr"), ("compaction_filter_factory", "nullptr")],
    ),
    (
        // 2592000 is RocksDB's default of 30 days, the large one means "choose for me".
        "RocksDB's ttl only compacts old files; ttl_seconds here would remove entries, so it is not carried over",
        &[("ttl", "2592000"), ("ttl", "0"), ("ttl", "18446744073709551614")],
    ),
    (
        "there is no info log",
        &[
            ("info_log_level", "*"),
            ("max_log_file_size", "0"),
            ("keep_log_file_num", "1000"),
            ("log_file_time_to_roll", "0"),
            ("stats_dump_period_sec", "600"),
            ("stats_persist_period_sec", "600"),
            ("stats_history_buffer_size", "1048576"),
            ("persist_stats_to_disk", "false"),
            ("dump_malloc_stats", "*"),
            ("enable_thread_tracking", "false"),
            ("report_bg_io_stats", "false"),
            ("db_log_dir", ""),
        ],
    ),
    (
        "verification of everything read and written is always on",
        &[
            ("paranoid_checks", "true"),
            ("paranoid_file_checks", "false"),
            ("force_consistency_checks", "true"),
            ("check_flush_compaction_key_order", "true"),
            ("flush_verify_memtable_count", "true"),
            ("compaction_verify_record_count", "true"),
            ("verify_sst_unique_id_in_manifest", "true"),
            ("track_and_verify_wals_in_manifest", "false"),
            ("track_and_verify_wals", "false"),
            ("skip_checking_sst_file_sizes_on_db_open", "false"),
            ("skip_stats_update_on_db_open", "false"),
            ("file_checksum_gen_factory", "nullptr"),
            ("memtable_protection_bytes_per_key", "0"),
            ("block_protection_bytes_per_key", "0"),
            ("paranoid_memory_checks", "false"),
            ("verify_output_flags", "0"),
            ("checksum", "*"),
            ("verify_compression", "false"),
            ("memtable_verify_per_key_checksum_on_seek", "false"),
            ("detect_filter_construct_corruption", "false"),
            ("enforce_single_del_contracts", "true"),
        ],
    ),
    (
        "the log has one shape: synced by durability class, cut at its last whole batch, retired by flushes",
        &[
            ("wal_recovery_mode", "kPointInTimeRecovery"),
            ("wal_compression", "kNoCompression"),
            ("wal_bytes_per_sync", "0"),
            ("manual_wal_flush", "false"),
            ("recycle_log_file_num", "0"),
            ("wal_filter", "nullptr"),
            ("wal_dir", "*"),
            ("WAL_ttl_seconds", "0"),
            ("WAL_size_limit_MB", "0"),
            ("log_readahead_size", "0"),
            ("avoid_flush_during_recovery", "false"),
            ("avoid_flush_during_shutdown", "false"),
            ("background_close_inactive_wals", "false"),
            ("wal_write_temperature", "kUnknown"),
            ("async_wal_precreate", "false"),
            ("use_fsync", "false"),
            ("atomic_flush", "false"),
        ],
    ),
    (
        "there is one write path: a leader commits the group",
        &[
            ("enable_pipelined_write", "*"),
            ("two_write_queues", "false"),
            ("unordered_write", "false"),
            ("allow_concurrent_memtable_write", "true"),
            ("enable_write_thread_adaptive_yield", "true"),
            ("write_thread_max_yield_usec", "100"),
            ("write_thread_slow_yield_usec", "3"),
            ("max_write_batch_group_size_bytes", "1048576"),
            ("use_adaptive_mutex", "false"),
            ("allow_2pc", "false"),
            ("inplace_update_support", "false"),
            ("inplace_update_num_locks", "10000"),
            ("max_successive_merges", "0"),
            ("strict_max_successive_merges", "false"),
            ("delayed_write_rate", "*"),
        ],
    ),
    (
        "files are handled by the store: read at offsets, deleted when no reader is left",
        &[
            ("max_file_opening_threads", "16"),
            ("table_cache_numshardbits", "*"),
            ("delete_obsolete_files_period_micros", "21600000000"),
            ("allow_fallocate", "true"),
            ("is_fd_close_on_exec", "true"),
            ("allow_mmap_reads", "false"),
            ("allow_mmap_writes", "false"),
            ("use_direct_reads", "false"),
            ("random_access_max_buffer_size", "1048576"),
            ("writable_file_max_buffer_size", "1048576"),
            ("strict_bytes_per_sync", "false"),
            ("advise_random_on_open", "*"),
            ("access_hint_on_compaction_start", "NORMAL"),
            ("avoid_unnecessary_blocking_io", "false"),
            ("open_files_async", "false"),
            ("fast_sst_open", "false"),
            ("read_io_executor_threads", "*"),
            ("use_direct_io_for_compaction_reads", "false"),
            ("rate_limiter", "nullptr"),
            ("db_paths", ""),
            ("cf_paths", ""),
        ],
    ),
    (
        "readahead is a read option (by itself it grows from 8 to 256 KiB), and compactions choose theirs",
        &[
            ("compaction_readahead_size", "*"),
            ("new_table_reader_for_compaction_inputs", "*"),
            ("initial_auto_readahead_size", "8192"),
            ("max_auto_readahead_size", "262144"),
            ("num_file_reads_for_auto_readahead", "2"),
        ],
    ),
    (
        "the manifest has one shape and is rewritten when it has grown",
        &[
            ("max_manifest_file_size", "*"),
            ("max_manifest_space_amp_pct", "*"),
            ("manifest_preallocation_size", "4194304"),
            ("write_dbid_to_manifest", "*"),
            ("write_identity_file", "true"),
            ("db_host_id", "*"),
            ("fail_if_options_file_error", "*"),
            ("metadata_write_temperature", "kUnknown"),
            ("optimize_manifest_for_recovery", "*"),
            ("verify_manifest_content_on_close", "false"),
            ("reuse_manifest_on_open", "false"),
        ],
    ),
    (
        "errors are typed: a full medium resumes by itself, a failed sync ends the handle",
        &[("max_bgerror_resume_count", "2147483647"), ("bgerror_resume_retry_interval", "1000000"), ("allow_data_in_errors", "false")],
    ),
    (
        "no such feature",
        &[
            ("listeners", "*"),
            ("allow_ingest_behind", "false"),
            ("cf_allow_ingest_behind", "false"),
            ("compaction_service", "nullptr"),
            ("daily_offpeak_time_utc", ""),
            ("lowest_used_cache_tier", "*"),
            ("persistent_cache", "nullptr"),
            ("row_cache", "nullptr"),
            ("prefix_seek_opt_in_only", "false"),
            ("follower_refresh_catchup_period_ms", "10000"),
            ("follower_catchup_retry_count", "10"),
            ("follower_catchup_retry_wait_ms", "100"),
            ("calculate_sst_write_lifetime_hint_set", "*"),
            ("prefix_extractor", "nullptr"),
            ("sst_partitioner_factory", "nullptr"),
            ("compression_manager", "nullptr"),
            ("sample_for_compression", "0"),
            ("compaction_options_fifo", "*"),
            ("periodic_compaction_seconds", "*"),
            ("persist_user_defined_timestamps", "true"),
            ("disallow_memtable_writes", "false"),
            ("snap_refresh_nanos", "*"),
        ],
    ),
    ("reads of files without a temperature are counted as such", &[("default_temperature", "kUnknown")]),
    (
        "values are stored with their keys",
        &[
            ("enable_blob_files", "false"),
            ("min_blob_size", "0"),
            ("blob_file_size", "268435456"),
            ("blob_compression_type", "kNoCompression"),
            ("blob_compression_opts", "*"),
            ("enable_blob_direct_write", "false"),
            ("blob_direct_write_partitions", "1"),
            ("enable_blob_garbage_collection", "false"),
            ("blob_garbage_collection_age_cutoff", "0.250000"),
            ("blob_garbage_collection_force_threshold", "1.000000"),
            ("blob_compaction_readahead_size", "0"),
            ("blob_file_starting_level", "0"),
            ("blob_cache", "nullptr"),
            ("prepopulate_blob_cache", "kDisable"),
        ],
    ),
    (
        "there is one memtable, made of reused chunks and flushed by itself",
        &[
            ("memtable_factory", "SkipListFactory"),
            ("memtable", "*"),
            ("memtable_huge_page_size", "0"),
            ("memtable_prefix_bloom_size_ratio", "0.000000"),
            ("memtable_whole_key_filtering", "false"),
            ("memtable_insert_with_hint_prefix_extractor", "nullptr"),
            ("memtable_max_range_deletions", "0"),
            ("memtable_op_scan_flush_trigger", "0"),
            ("memtable_avg_op_scan_flush_trigger", "0"),
            ("memtable_batch_lookup_optimization", "false"),
            ("min_tombstones_for_range_conversion", "0"),
            ("enforce_write_buffer_manager_during_recovery", "true"),
            ("arena_block_size", "*"),
            ("bloom_locality", "0"),
            ("min_write_buffer_number_to_merge", "1"),
            ("max_write_buffer_number_to_maintain", "0"),
            ("max_write_buffer_size_to_maintain", "0"),
            ("experimental_mempurge_threshold", "0.000000"),
            ("max_sequential_skip_in_iterations", "8"),
        ],
    ),
    (
        "the pickers decide: minimum overlap, outputs cut at boundaries below",
        &[
            ("compaction_pri", "kMinOverlappingRatio"),
            ("disable_auto_compactions", "false"),
            ("ignore_max_compaction_bytes_for_input", "true"),
            ("level_compaction_dynamic_file_size", "true"),
            ("max_bytes_for_level_multiplier_additional", "1*"),
            ("bottommost_file_compaction_delay", "0"),
            ("uncache_aggressiveness", "0"),
            ("target_file_size_is_upper_bound", "false"),
            ("read_triggered_compaction_threshold", "0.000000"),
            ("max_compaction_trigger_wakeup_seconds", "*"),
            ("max_grandparent_overlap_factor", "10"),
            ("expanded_compaction_factor", "25"),
            ("source_compaction_factor", "1"),
            ("soft_rate_limit", "0.000000"),
            ("hard_rate_limit", "0.000000"),
            ("rate_limit_delay_max_milliseconds", "100"),
            ("purge_redundant_kvs_while_flush", "true"),
            ("verify_checksums_in_compaction", "true"),
        ],
    ),
    (
        "tables have one format, with whole-key filters and an index made for overlapping misses",
        &[
            ("table_factory", "*"),
            ("format_version", "*"),
            ("index_type", "kBinarySearch"),
            ("index_shortening", "*"),
            ("index_block_restart_interval", "1"),
            ("block_restart_interval", "16"),
            ("block_size_deviation", "10"),
            ("block_align", "false"),
            ("super_block_alignment_size", "0"),
            ("super_block_alignment_space_overhead_ratio", "*"),
            ("data_block_index_type", "kDataBlockBinarySearch"),
            ("data_block_hash_table_util_ratio", "0.750000"),
            ("hash_index_allow_collision", "true"),
            ("whole_key_filtering", "true"),
            ("use_delta_encoding", "true"),
            ("enable_index_compression", "true"),
            ("metadata_block_size", "4096"),
            ("partition_filters", "false"),
            ("decouple_partitioned_filters", "*"),
            ("optimize_filters_for_memory", "*"),
            ("flush_block_policy_factory", "*"),
            ("read_amp_bytes_per_bit", "0"),
            ("user_defined_index_factory", "nullptr"),
            ("fail_if_no_udi_on_open", "false"),
            ("use_udi_as_primary_index", "false"),
            ("index_block_search_type", "kBinary"),
            ("uniform_cv_threshold", "-1.000000"),
            ("separate_key_value_in_data_block", "false"),
            ("skip_table_builder_flush", "false"),
        ],
    ),
    (
        "there is one cache for all families, and cache_size sizes it",
        &[
            ("no_block_cache", "false"),
            ("cache_index_and_filter_blocks_with_high_priority", "*"),
            ("pin_l0_filter_and_index_blocks_in_cache", "false"),
            ("pin_top_level_index_and_filter", "*"),
            ("metadata_cache_options", "*"),
            ("cache_usage_options", "*"),
            ("prepopulate_block_cache", "kDisable"),
            ("block_cache_compressed", "nullptr"),
        ],
    ),
];
