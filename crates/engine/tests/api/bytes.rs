//! Bytes that small loads write, by cause and level, without threads: log, formats of tables, and compactions that keep up. Every figure
//! repeats exactly; `testdata/bytes.txt` states them. (Compactions that lag behind writers: `compaction/tests/ledger.rs`.)

use super::*;
use sinter_storage::store::Cause;
use sinterdb::settings::Style;
use std::fmt::Write as _;

/// A load: its name, settings, keys, bytes of a value, passes over the keys, and whether they come in order.
type Row = (&'static str, FamilySettings, usize, usize, usize, bool);

fn rows() -> Vec<Row> {
    let leveled = |dynamic: bool, factor: f64| FamilySettings {
        write_buffer_size: 64 << 10,
        target_file_size_base: 64 << 10,
        max_bytes_for_level_base: 256 << 10,
        max_bytes_for_level_multiplier: factor,
        max_compaction_bytes: 25 * (64 << 10),
        level_compaction_dynamic_level_bytes: dynamic,
        compression: sinterdb::settings::Codec::None.into(),
        ..FamilySettings::default()
    };
    let universal = FamilySettings { style: Style::Universal, ..leveled(true, 10.0) };
    vec![
        ("fillrandom-25gb", leveled(false, 2.0), 50_000, 100, 1, false),
        ("fillrandom-25gb dynamic", leveled(true, 2.0), 50_000, 100, 1, false),
        ("fillrandom-100", leveled(false, 10.0), 10_000, 100, 1, false),
        ("overwrite-100", leveled(false, 10.0), 10_000, 100, 2, false),
        ("overwrite-1k", leveled(false, 10.0), 4_000, 1024, 2, false),
        ("overwrite-1k dynamic", leveled(true, 10.0), 4_000, 1024, 2, false),
        ("overwrite-1k universal", universal, 4_000, 1024, 2, false),
        ("fillseq-1k", leveled(false, 10.0), 4_000, 1024, 1, true),
    ]
}

/// Lives through a load and the compactions that are due then; a line of the table.
fn line((name, settings, keys, value, passes, is_sequential): Row) -> String {
    let db = try_open(&memory(), builder().settings(inline()).family("default", settings)).unwrap();
    let value = noise(1, value);
    let mut state = 42u64;
    for n in 0..keys * passes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = if is_sequential { n } else { (state >> 33) as usize % keys };
        db.put(format!("{key:016}").as_bytes(), &value).unwrap();
    }
    db.flush().unwrap();
    let stats = db.stats();
    let of = |wanted: &dyn Fn(Cause) -> bool| stats.ledger.sum(wanted);
    let mut line = format!("{name:<24}");
    let mut put = |bytes: u64| write!(line, " {bytes:>9}").unwrap();
    put(of(&|cause| cause == Cause::Wal));
    put(of(&|cause| cause == Cause::Flush));
    (0..7).for_each(|level| put(of(&|cause| matches!(cause, Cause::Compaction { to, .. } if to == level))));
    format!("{line} {:>6.3} {:>9}\n", stats.ledger.write_amplification(), stats.store_bytes)
}

#[test]
fn loads_write_the_bytes_that_the_table_states() {
    let columns = ["log", "flush", "L0", "L1", "L2", "L3", "L4", "L5", "L6"].map(|name| format!(" {name:>9}")).concat();
    let found = format!("{:<24}{columns}  ampl.     store\n{}", "", rows().into_iter().map(line).collect::<String>());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bytes.txt");
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    let stated = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == stated, "bytes changed:\n{stated}became\n{found}If that is meant: REWRITE=1 cargo test -p sinterdb --test api bytes");
}
