//! What a compressed part of the block cache is worth, by share, size of the cache, skew and medium; a Markdown table:
//! `cargo run --release -p sinter-lab --example cache_parts [seconds per cell [directory]]`.
//!
//! A hundred thousand keys of 1 KB that compress to half, in a tree of one level; one reader. The slow medium is the same files behind a
//! model that takes 100 us for each read. Cells are thousands of reads per second after a warm-up; `auto` starts with nothing packed and has
//! thirty seconds.

use sinter_lab::workload::{Distribution, KeyCoder, KeyStream, Permutation, ValuePool, Zipf};
use sinter_storage::store::{DirStore, Medium, Store, Throttle};
use sinterdb::db::{DEFAULT_FAMILY, Db};
use sinterdb::settings::{CompressedCache, DbSettings, FamilySettings};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KEYS: u64 = 100_000;
const VALUE: usize = 1000;
const AUTO_SECONDS: f64 = 30.0;

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

/// Reads for so long; thousands of reads per second.
#[expect(clippy::disallowed_methods, reason = "a measurement in real time")]
fn read(db: &Db, keys: &mut KeyStream, seconds: f64) -> Result<f64, Box<dyn Error>> {
    let coder = KeyCoder::new(16);
    let mut key = coder.buffer();
    let (start, mut reads) = (Instant::now(), 0u32);
    while start.elapsed().as_secs_f64() < seconds {
        for _ in 0..100 {
            coder.write(keys.next_key(), &mut key);
            db.get(&key)?.ok_or("a key is missing")?;
        }
        reads += 100;
    }
    Ok(f64::from(reads) / start.elapsed().as_secs_f64() / 1000.0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().map_or(Ok(3.0), |text| text.parse())?;
    let directory = arguments.next().map_or_else(|| std::env::temp_dir().join("sinter-cache-parts"), Into::into);
    if !directory.exists() {
        fill(&directory)?;
    }
    let spread = Permutation::new(KEYS, 1);
    let skews = [
        ("exp 10", Distribution::Exponential(10.0)),
        ("Zipf 0.9", Distribution::Zipf(Zipf::new(KEYS, 0.9), spread)),
        ("uniform", Distribution::Uniform),
    ];
    println!("| medium | reads | cache / data | 0 | 25 % | 50 % | 75 % | auto | its share |\n|---|---|---|---|---|---|---|---|---|");
    for (medium, slow) in [("page cache", false), ("100 us", true)] {
        for (skew, distribution) in &skews {
            for (part, divisor) in [("1/16", 16), ("1/4", 4), ("1/2", 2), ("2", 0)] {
                let data = KEYS * (VALUE as u64 + 16);
                let cache = if divisor == 0 { 2 * data } else { data / divisor };
                print!("| {medium} | {skew} | {part} |");
                let shares =
                    [CompressedCache::Off, CompressedCache::Share(0.25), CompressedCache::Share(0.5), CompressedCache::Share(0.75)];
                let mut last = String::new();
                for share in shares.into_iter().chain([CompressedCache::Auto]) {
                    let db = open(&directory, slow, cache, share)?;
                    let mut keys = KeyStream::new(KEYS, distribution.clone(), 1, 1);
                    let is_auto = share == CompressedCache::Auto;
                    read(&db, &mut keys, if is_auto && divisor != 0 { AUTO_SECONDS } else { seconds })?;
                    print!(" {:.1} |", read(&db, &mut keys, seconds)?);
                    let packed = db.property(&db.default_family(), "sinterdb.compressed-cache-capacity").unwrap_or_default();
                    last = format!("{:.0} %", packed.parse::<f64>()? * 100.0 / cache as f64);
                    db.close()?;
                }
                println!(" {last} |");
            }
        }
    }
    Ok(())
}
