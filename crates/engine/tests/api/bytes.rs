//! Bytes that small loads write, by cause and level, without threads: log, formats of tables, and compactions that keep up. Every figure
//! repeats exactly; `testdata/bytes.txt` states them. (Compactions that lag behind writers: `compaction/tests/ledger.rs`.)

use super::*;
use sinter_storage::store::Cause;
use sinterdb::settings::Style;
use std::fmt::Write as _;

/// Order in which a load puts its keys.
#[derive(Clone, Copy)]
enum Order {
    Ascending,
    Random,
    /// Each key once in a mixed order, then updates of few keys often and of many seldom, like YCSB's.
    Skewed,
}

/// A load.
#[derive(Clone)]
struct Row {
    name: &'static str,
    settings: FamilySettings,
    keys: usize,
    /// Bytes of a value.
    value: usize,
    puts: usize,
    order: Order,
    durability: Durability,
}

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
    let small = Row {
        name: "fillrandom-100",
        settings: leveled(false, 10.0),
        keys: 10_000,
        value: 100,
        puts: 10_000,
        order: Order::Random,
        durability: Durability::Buffered,
    };
    let large = Row { name: "fillrandom-25gb", settings: leveled(false, 2.0), keys: 50_000, puts: 50_000, ..small.clone() };
    let over = Row { name: "overwrite-1k", keys: 4_000, value: 1024, puts: 8_000, ..small.clone() };
    vec![
        large.clone(),
        Row { name: "fillrandom-25gb dynamic", settings: leveled(true, 2.0), ..large },
        small.clone(),
        Row { name: "fillrandom-100 sync", durability: Durability::Sync, ..small.clone() },
        Row { name: "overwrite-100", puts: 20_000, ..small.clone() },
        over.clone(),
        Row { name: "overwrite-1k dynamic", settings: leveled(true, 10.0), ..over.clone() },
        Row { name: "overwrite-1k universal", settings: universal, ..over.clone() },
        Row { name: "fillseq-100", order: Order::Ascending, ..small },
        Row { name: "fillseq-1k", puts: 4_000, order: Order::Ascending, ..over.clone() },
        Row { name: "ycsb-a", settings: leveled(true, 10.0), value: 1000, order: Order::Skewed, ..over },
    ]
}

/// A key of a load: of its `n`th put, with random bits.
fn key(row: &Row, n: usize, random: usize) -> usize {
    let mixed = |n: usize| n * 7_919 % row.keys;
    match row.order {
        Order::Ascending => n,
        Order::Random => random % row.keys,
        Order::Skewed if n < row.keys => mixed(n),
        // Any key below a power of two that comes at random, so that the first keys come up most.
        Order::Skewed => {
            let most = row.keys.next_power_of_two() >> ((random >> 24) % 13);
            mixed(random % most)
        }
    }
}

/// Lives through a load and the compactions that are due then; a line of the table.
fn line(row: &Row) -> String {
    let db = try_open(&memory(), builder().settings(inline()).family("default", row.settings.clone())).unwrap();
    let (value, family, options) = (noise(1, row.value), db.default_family(), WriteOptions::new(row.durability));
    let mut state = 42u64;
    for n in 0..row.puts {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = key(row, n, (state >> 33) as usize);
        db.put_with(&family, format!("{key:016}").as_bytes(), &value, &options).unwrap();
    }
    db.flush().unwrap();
    let stats = db.stats();
    let of = |wanted: &dyn Fn(Cause) -> bool| stats.ledger.sum(wanted);
    let mut line = format!("{:<24}", row.name);
    let mut put = |bytes: u64| write!(line, " {bytes:>9}").unwrap();
    put(of(&|cause| cause == Cause::Wal));
    put(of(&|cause| cause == Cause::Flush));
    (0..7).for_each(|level| put(of(&|cause| matches!(cause, Cause::Compaction { to, .. } if to == level))));
    format!("{line} {:>6.3} {:>9}\n", stats.ledger.write_amplification(), stats.store_bytes)
}

#[test]
fn loads_write_the_bytes_that_the_table_states() {
    let columns = ["log", "flush", "L0", "L1", "L2", "L3", "L4", "L5", "L6"].map(|name| format!(" {name:>9}")).concat();
    let found = format!("{:<24}{columns}  ampl.     store\n{}", "", rows().iter().map(line).collect::<String>());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bytes.txt");
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    let stated = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == stated, "bytes changed:\n{stated}became\n{found}If that is meant: REWRITE=1 cargo test -p sinterdb --test api bytes");
}
