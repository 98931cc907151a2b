use super::*;
use sinter_storage::zoned_store::{Allocation, Reset};

/// The original's geometry made 256 times smaller: 256 zones of 512 KiB, each two tables; fan-out 2.
fn small(zones: u32, law: Law) -> Churn {
    let table = 256 << 10;
    let settings = FamilySettings {
        write_buffer_size: table,
        target_file_size_base: table,
        max_bytes_for_level_base: 4 * table,
        max_bytes_for_level_multiplier: 2.0,
        max_compaction_bytes: 25 * table,
        level_compaction_dynamic_level_bytes: false,
        ..FamilySettings::default()
    };
    let geometry = Geometry { block: 4096, zones, zone_size: 2 * table, max_open: Some(14), max_active: Some(14), conventional: 0 };
    Churn { settings, geometry, keys: 90_000, puts: 90_000, entry: 1024, law, seed: 7 }
}

fn policy(allocation: Allocation, reset: Reset, tells: bool) -> Options {
    Options { allocation, reset, tells, ..Options::default() }
}

#[test]
fn it_repeats_exactly_and_its_books_balance() {
    let churn = small(256, Law::Mixed);
    let options = policy(Allocation::Sinter, Reset::Sinter, true);
    let (one, other) = (run(&churn, options).unwrap(), run(&churn, options).unwrap());
    assert_eq!((&one.figures, &one.map, &one.failure), (&other.figures, &other.map, &None));
    assert_eq!(one.puts, churn.puts);
    let resets = one.figures.resets.total() as f64 - one.figures.reset_unwritten as f64 / one.capacity as f64;
    let moved = one.figures.moved.total() as f64 / one.capacity as f64;
    assert!((resets - one.least_resets() - moved).abs() < 1e-6, "{resets} resets of full zones, {}", one.least_resets());
}
