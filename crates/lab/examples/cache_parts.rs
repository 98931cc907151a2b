//! Measures the worth of a compressed part of the block cache by share, cache size and skew; prints Markdown tables:
//! `cargo run --release -p sinter-lab --example cache_parts [directory]`.
//!
//! A hundred thousand keys of 1 KB that compress to half, in a tree of one level; one reader. The first table counts, so that it does not
//! depend on the machine: blocks read from the medium and blocks decompressed, per hundred reads, once the cache is warm. The second lets
//! `auto` find its share over the same files behind a model of a medium that takes 100 us for each read, and over the page cache.

use sinter_lab::workload::{Distribution, KeyCoder, KeyStream, Permutation, ValuePool, Zipf};
use sinter_storage::store::{DirStore, Medium, Store, Throttle};
use sinterdb::settings::{CompressedCache, DbSettings, FamilySettings};
use sinterdb::{DEFAULT_FAMILY, Db};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KEYS: u64 = 100_000;
const VALUE: usize = 1000;
/// Reads until the cache is warm, and reads that are counted.
const WARM: u32 = 400_000;
const READS: u32 = 100_000;
/// Seconds that `auto` gets to find its share; each second it moves a thirty-second of the cache.
const AUTO_SECONDS: f64 = 25.0;

fn open(directory: &Path, slow: bool, cache_size: u64, compressed_cache: CompressedCache) -> Result<Db, Box<dyn Error>> {
    let settings = DbSettings { cache_size, compressed_cache, ..DbSettings::default() };
    let mut store: Arc<dyn Store> = Arc::new(DirStore::open(directory, true)?);
    if slow {
        store = Arc::new(Throttle::new(store, Medium { read_mb_per_s: 0.0, write_mb_per_s: 0.0, seek: Duration::from_micros(100) }));
    }
    Ok(Db::builder().settings(settings).family(DEFAULT_FAMILY, FamilySettings::default()).open_store(store)?)
}

fn fill(directory: &Path) -> Result<(), Box<dyn Error>> {
    let db = open(directory, false, 1 << 20, CompressedCache::Off)?;
    let (coder, pool) = (KeyCoder::new(16), ValuePool::new(VALUE, 0.5));
    let (mut key, mut values) = (coder.buffer(), pool.values());
    for number in 0..KEYS {
        coder.write(number, &mut key);
        db.put(&key, values.next_value())?;
    }
    db.compact_range(&db.default_family(), None, None)?;
    Ok(db.close()?)
}

/// Makes `reads` reads. Returns blocks read from the medium and blocks decompressed, per hundred reads.
fn read(db: &Db, keys: &mut KeyStream, reads: u32) -> Result<(f64, f64), Box<dyn Error>> {
    let coder = KeyCoder::new(16);
    let mut key = coder.buffer();
    let count = |name| db.stats().tickers.iter().find(|(ticker, _)| *ticker == name).map_or(0, |(_, n)| *n);
    let counts = || (count("rocksdb.block.cache.data.miss"), count("rocksdb.compressed.secondary.cache.hits"));
    let before = counts();
    for _ in 0..reads {
        coder.write(keys.next_key(), &mut key);
        db.get(&key)?.ok_or("a key is missing")?;
    }
    let after = counts();
    let per_hundred = |now: u64, then: u64| (now - then) as f64 * 100.0 / f64::from(reads);
    Ok((per_hundred(after.0, before.0), per_hundred(after.1, before.1)))
}

#[expect(clippy::disallowed_methods, reason = "the medium of the second table takes real time")]
fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).map_or_else(|| std::env::temp_dir().join("sinter-cache-parts"), Into::into);
    if !directory.exists() {
        fill(&directory)?;
    }
    let skews = [
        ("exp 10", Distribution::Exponential(10.0)),
        ("Zipf 0.9", Distribution::Zipf(Zipf::new(KEYS, 0.9), Permutation::new(KEYS, 1))),
        ("uniform", Distribution::Uniform),
    ];
    let keys = |distribution: &Distribution| KeyStream::new(KEYS, distribution.clone(), 1, 1);
    let data = KEYS * (VALUE as u64 + 16);
    let parts = [("1/16", data / 16), ("1/4", data / 4), ("1/2", data / 2), ("2", data * 2)];
    println!("| reads | cache / data | 0 | 25 % | 50 % | 75 % |\n|---|---|---|---|---|---|");
    for (skew, distribution) in &skews {
        for (part, cache) in parts {
            print!("| {skew} | {part} |");
            for share in [CompressedCache::Off, CompressedCache::Share(0.25), CompressedCache::Share(0.5), CompressedCache::Share(0.75)] {
                let db = open(&directory, false, cache, share)?;
                let mut keys = keys(distribution);
                read(&db, &mut keys, WARM)?;
                let (misses, unpacked) = read(&db, &mut keys, READS)?;
                print!(" {misses:.1} + {unpacked:.1} |");
                db.close()?;
            }
            println!();
        }
    }
    println!("\n| medium | reads | cache / data | auto | its share |\n|---|---|---|---|---|");
    for (medium, slow) in [("100 us", true), ("page cache", false)] {
        for (skew, distribution) in &skews {
            for (part, cache) in parts {
                let db = open(&directory, slow, cache, CompressedCache::Auto)?;
                let mut keys = keys(distribution);
                let start = Instant::now();
                while start.elapsed().as_secs_f64() < AUTO_SECONDS {
                    read(&db, &mut keys, 1000)?;
                }
                let (misses, unpacked) = read(&db, &mut keys, READS / 5)?;
                let packed = db.property(&db.default_family(), "sinterdb.compressed-cache-capacity").unwrap_or_default();
                let share = packed.parse::<f64>()? * 100.0 / cache as f64;
                println!("| {medium} | {skew} | {part} | {misses:.1} + {unpacked:.1} | {share:.0} % |");
                db.close()?;
            }
        }
    }
    Ok(())
}
