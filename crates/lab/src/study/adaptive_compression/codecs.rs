//! D: all codecs by ratio and speed. E: sizes of blocks and indexes against the size of memtables.

use super::cells::{COMPACT, READ, VALUE_B, WHOLE, requests, settings, workload};
use super::{CHOOSER, LZ4, Levels, NONE, ORIGINAL, Size, ZSTD};
use crate::run::{Distribution, EngineSpec, Order, Phase, PhaseKind, Workload};
use crate::study::metric::Metric;
use crate::study::plan::{Bound, Cell, Hypothesis, Term, comparison, each};
use crate::study::settings::owed;
use sinterdb::internal::settings::format_bytes;

/// A codec: its name, its name in settings, and whether the rivals program has it in RocksDB.
struct OneCodec {
    name: &'static str,
    setting: &'static str,
    in_rocksdb: bool,
}

const CODECS: [OneCodec; 6] = [
    OneCodec { name: "none", setting: NONE, in_rocksdb: true },
    OneCodec { name: "snappy", setting: "kSnappyCompression", in_rocksdb: true },
    OneCodec { name: "lz4", setting: LZ4, in_rocksdb: true },
    OneCodec { name: "zstd", setting: ZSTD, in_rocksdb: true },
    OneCodec { name: "zlib", setting: "kZlibCompression", in_rocksdb: false },
    OneCodec { name: "bzip2", setting: "kBZip2Compression", in_rocksdb: false },
];
/// Codecs that are made for speed, and those that are made for size.
const FAST: [&str; 2] = ["snappy", "lz4"];
const SMALL: [&str; 3] = ["zstd", "zlib", "bzip2"];
/// Codec of E.
const OF_E: Levels = [LZ4; 7];
/// Sizes of blocks, bytes.
const BLOCKS: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];
/// Sizes of memtables, quarters of the usual one.
const BUFFERS: [u64; 3] = [1, 4, 16];
/// Data over the block cache: most reads decompress a block.
const OVER_CACHE: u64 = 16;
/// Keys per read.
const KEYS_PER_READ: u64 = 4;
/// Phase and measure of the load, in random order, so that compactions compress again.
const LOAD: &str = "fillrandom";

/// Smallest change of a figure that matters.
const LESS: f64 = 0.95;
/// A sixteenth of the blocks has at most an eighth of the index.
const SMALL_INDEX: f64 = 1.0 / 8.0;

/// Cells of D.
pub fn of_codecs(size: Size) -> Vec<Cell> {
    let workload = loaded(size, "D: one codec on all levels");
    let made = |codec: &OneCodec| {
        let engines: &[&str] = if codec.in_rocksdb { &[CHOOSER, ORIGINAL] } else { &[CHOOSER] };
        let levels = [codec.setting; 7];
        cell(format!("D {}", codec.name), &[("part", "D"), ("codec", codec.name)], plain(&levels, size), &workload, engines)
    };
    CODECS.iter().map(made).collect()
}

/// Cells of E.
pub fn of_blocks(size: Size) -> Vec<Cell> {
    let workload = loaded(size, "E: block size and write buffer");
    let made = |(block, quarters): (u64, u64)| {
        let buffer = size.memtable() * quarters / 4;
        let mut settings = plain(&OF_E, size);
        let family = &mut settings.families[0].settings;
        family.extend([("block_size", block), ("write_buffer_size", buffer)].map(|(name, bytes)| (name.to_string(), bytes.to_string())));
        let (block_name, buffer_name) = (format_bytes(block), format_bytes(buffer));
        let factors = [("part", "E"), ("block size", block_name.as_str()), ("write buffer", buffer_name.as_str())];
        cell(name_of_e(size, block, quarters), &factors, settings, &workload, &[CHOOSER, ORIGINAL])
    };
    BLOCKS.iter().flat_map(|block| BUFFERS.map(|quarters| (*block, quarters))).map(made).collect()
}

fn name_of_e(size: Size, block: u64, quarters: u64) -> String {
    format!("E blocks of {}, write buffer of {}", format_bytes(block), format_bytes(size.memtable() * quarters / 4))
}

/// Codecs and engines that are not measured, and why.
pub fn left_out(engines: &[String]) -> Option<String> {
    let absent: Vec<&str> = CODECS.iter().filter(|codec| !codec.in_rocksdb).map(|codec| codec.name).collect();
    let there = engines.iter().any(|engine| engine == ORIGINAL);
    there.then(|| format!("D on RocksDB with {}: not built, the rivals program has snappy, lz4 and zstd in RocksDB", absent.join(" and ")))
}

/// Questions of D and E.
pub fn questions(size: Size) -> [String; 2] {
    [
        format!(
            "D: what do codecs save and cost? One on all levels: {}; {} keys with values of {} bytes in random order, a merge of \
             everything, uniform reads with a cache of a sixteenth of the data, one client. Half of a value compresses away whatever the \
             codec, as in db_bench, so that ratios differ less than on text.",
            CODECS.map(|codec| codec.name).join(", "),
            size.keys,
            VALUE_B,
        ),
        format!(
            "E: how large are blocks, indexes and memtables to be? Blocks of {}, write buffers of {}, all else as in D with lz4; tables \
             and levels have the same targets throughout.",
            BLOCKS.map(format_bytes).join(", "),
            BUFFERS.map(|quarters| format_bytes(size.memtable() * quarters / 4)).join(", "),
        ),
    ]
}

/// Claims about D and E.
pub fn claims(size: Size, engines: &[String]) -> Vec<Hypothesis> {
    let there = |engine: &str| engines.iter().any(|name| name == engine);
    let claim = |text: &str, metric, groups| {
        let needs = ["compression", "block_size"].map(str::to_string).to_vec();
        Hypothesis { needs, ..Hypothesis::new(text, metric, groups) }
    };
    let pairs = |measure: &'static str, bound: Bound| {
        let of = move |small: &'static str| {
            FAST.map(|fast| {
                let term = |codec: &str| Term::new(format!("D {codec}"), measure);
                comparison(format!("{small} to {fast}"), term(small), term(fast), bound)
            })
        };
        each(SMALL.into_iter().flat_map(of))
    };
    let of_blocks = |measure: &'static str, bound: Bound| {
        let term = move |block, quarters| Term::new(name_of_e(size, block, quarters), measure);
        let named = |quarters: u64| format!("write buffer of {}: blocks of 64KiB to 4KiB", format_bytes(size.memtable() * quarters / 4));
        each(BUFFERS.into_iter().map(|quarters| comparison(named(quarters), term(BLOCKS[2], quarters), term(BLOCKS[0], quarters), bound)))
    };
    let of_buffers = each(BLOCKS.into_iter().map(|block| {
        let term = |quarters| Term::new(name_of_e(size, block, quarters), LOAD);
        let name = format!("blocks of {}: largest to smallest write buffer", format_bytes(block));
        comparison(name, term(BUFFERS[2]), term(BUFFERS[0]), Bound::Below(LESS))
    }));
    let mut claims = Vec::new();
    if there(CHOOSER) {
        let own = |claim: Hypothesis| Hypothesis { engine: Some(CHOOSER.to_string()), ..claim };
        let smaller = pairs(COMPACT, Bound::Below(LESS));
        claims.push(own(claim("D: zstd, zlib and bzip2 take less space than snappy and lz4 (by 5 %)", Metric::StoreBytes, smaller)));
        let slower = pairs(READ, Bound::Below(LESS));
        claims.push(own(claim("D: and reads are slower with them (by 5 %)", Metric::OperationsPerSecond, slower)));
    }
    if there(CHOOSER) || there(ORIGINAL) {
        let (index, reads) = (of_blocks(COMPACT, Bound::Below(SMALL_INDEX)), of_blocks(READ, Bound::Below(LESS)));
        claims.push(claim("E: blocks of 64 KiB have an eighth of the index of blocks of 4 KiB at most", Metric::IndexBytes, index));
        claims.push(claim("E: and are read more slowly beyond the cache (by 5 %)", Metric::OperationsPerSecond, reads));
        claims.push(claim("E: a write buffer of 16 times the size writes less (by 5 %)", Metric::WriteAmplification, of_buffers));
        let space = of_blocks(COMPACT, Bound::Below(1.0));
        claims.push(claim("E: larger blocks take less space", Metric::StoreBytes, space));
    }
    claims
}

fn plain(levels: &Levels, size: Size) -> EngineSpec {
    let mut settings = settings(Some(levels), size, 0);
    let cache = (size.keys * VALUE_B as u64 / OVER_CACHE).to_string();
    settings.families[0].settings.insert("block_cache".to_string(), cache);
    settings
}

fn loaded(size: Size, name: &str) -> Workload {
    let (load, merge) = (Phase::load(LOAD, Order::Random, 1), Phase::new(COMPACT, PhaseKind::Compact));
    let reads = requests(READ, size.keys / KEYS_PER_READ, 1, Distribution::Uniform, 1.0);
    workload(name, size.keys, VALUE_B, vec![load, owed(LOAD), merge, reads])
}

fn cell(name: String, factors: &[(&str, &str)], settings: EngineSpec, workload: &Workload, engines: &[&str]) -> Cell {
    let engines = engines.iter().map(|engine| engine.to_string()).collect();
    let cell = Cell { engines, ..Cell::new(name, factors, settings, workload.clone()) };
    cell.measuring_each([LOAD, COMPACT, READ]).measuring(WHOLE, |_| true)
}
