//! Time and space per entry of the memtable: `cargo run --release -p sinterdb --example memtable_bench`.

use sinterdb::internal::cursor::Cursor;
use sinterdb::internal::key::{Kind, MAX_SEQ, Seq};
use sinterdb::internal::memtable::{ChunkPool, Memtable};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;

const ENTRIES: u64 = 600_000;
const VALUE: [u8; 100] = [7; 100];
/// The first round pays for page faults; later ones reuse the chunks.
const ROUNDS: usize = 4;

/// A bijection of 64-bit numbers (the finalizer of splitmix64).
fn scatter(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn random(number: u64) -> Vec<u8> {
    [scatter(number).to_be_bytes(), scatter(!number).to_be_bytes()].concat()
}

/// Numbered keys in scattered order.
fn user(number: u64) -> Vec<u8> {
    format!("user{:012}", number * 7_919 % ENTRIES).into_bytes()
}

fn sequential(number: u64) -> Vec<u8> {
    format!("user{number:012}").into_bytes()
}

fn ten_keys(number: u64) -> Vec<u8> {
    format!("counter{}", number % 10).into_bytes()
}

/// Nanoseconds this thread ran on a processor (Linux), so that other work on the machine counts less.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with scheduler statistics");
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("the first field is a number")
}

fn per_entry(work: impl FnOnce()) -> u64 {
    let start = cpu_ns();
    work();
    (cpu_ns() - start) / ENTRIES
}

fn fill(memtable: &Arc<Memtable>, keys: &[Vec<u8>]) {
    let mut writer = memtable.writer();
    (0..).zip(keys).for_each(|(seq, key)| writer.insert(key, seq, Kind::Value, &VALUE));
}

fn look_up(memtable: &Memtable, key: &[u8], snapshot: Seq) -> bool {
    let mut found = false;
    memtable.get(key, snapshot, |_, _, value| {
        found = black_box(value[0]) == 7;
        ControlFlow::Break(())
    });
    found
}

fn measure(name: &str, key: fn(u64) -> Vec<u8>, pool: &Arc<ChunkPool>) {
    let keys: Vec<_> = (0..ENTRIES).map(key).collect();
    // In the order of looking up, so that reading the list costs no cache misses.
    let probes: Vec<_> = (0..ENTRIES).map(|number| key(scatter(number) % ENTRIES)).collect();
    let data: usize = keys.iter().map(|key| key.len() + VALUE.len()).sum();
    for _ in 0..ROUNDS {
        let memtable = Memtable::new(Arc::clone(pool));
        let insert = per_entry(|| fill(&memtable, &keys));
        let get = per_entry(|| {
            let found = probes.iter().filter(|key| look_up(&memtable, key, MAX_SEQ)).count();
            assert_eq!(found as u64, ENTRIES);
        });
        let mut cursor = memtable.cursor();
        let mut walk = |forward: bool| {
            let (mut steps, mut sum) = (0, 0);
            let start = if forward { cursor.seek_first() } else { cursor.seek_last() };
            start.expect("memory does not fail");
            while cursor.valid() {
                sum += u64::from(cursor.value()[0]) + u64::from(cursor.key()[0]);
                steps += 1;
                let step = if forward { cursor.next() } else { cursor.prev() };
                step.expect("memory does not fail");
            }
            black_box(sum);
            assert_eq!(steps, ENTRIES);
        };
        let (next, prev) = (per_entry(|| walk(true)), per_entry(|| walk(false)));
        let overhead = (memtable.memory() - data) as f64 / ENTRIES as f64;
        println!("{name:<12} insert {insert:>4} ns  get {get:>4}  next {next:>3}  prev {prev:>3}  overhead {overhead:.1} B/entry");
    }
    let memtable = Memtable::new(Arc::clone(pool));
    thread::scope(|scope| {
        let (reading, keys) = (&memtable, &keys);
        let reader = scope.spawn(move || {
            let mut gets = 0;
            let mut start = None;
            loop {
                let published = reading.len();
                if published == 0 {
                    continue;
                }
                start.get_or_insert_with(cpu_ns);
                assert!(look_up(reading, &keys[(scatter(gets) % published) as usize], MAX_SEQ));
                gets += 1;
                if published == ENTRIES {
                    return (cpu_ns() - start.unwrap_or_default()) / gets;
                }
            }
        });
        let insert = per_entry(|| fill(&memtable, keys));
        let get = reader.join().expect("the reader does not panic");
        println!("{name:<12} insert {insert:>4} ns  get {get:>4}  at the same time");
    });
}

fn main() {
    let pool = Arc::new(ChunkPool::with_capacity(256 << 20));
    measure("random 16 B", random, &pool);
    measure("user%012d", user, &pool);
    measure("sequential", sequential, &pool);
    measure("ten keys", ten_keys, &pool);
}
