//! The two parts together.

use super::*;
use crate::codec;

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

/// Contents of a block: its name, then what packs to about a third, or, every fifth, to nothing less.
fn contents(table: u64, slot: u64, length: usize) -> Vec<u8> {
    let mut random = Random(table << 32 | slot);
    let mut bytes = format!("{table}/{slot}/").into_bytes();
    let noise = if slot % 5 == 4 { length } else { length / 3 };
    bytes.extend((bytes.len()..length).map(|i| if i < noise { random.below(256) as u8 } else { b'z' }));
    bytes
}

/// Reads a block like a reader: from the slot, the compressed part or the medium. Returns where it was found.
fn read(cache: &Cache, home: &Arc<Home>, slot: usize, length: usize) -> &'static str {
    let expected = contents(home.number, slot as u64, length);
    if let Some(found) = home.slots[slot].load().as_ref() {
        assert_eq!(found.0, expected);
        return "plain";
    }
    let number = slot as u32;
    if let Some(packed) = cache.take_packed(&**home, number) {
        let mut raw = vec![0; packed.raw as usize];
        codec::decompress(packed.codec, None, &packed.bytes, &mut raw).unwrap();
        assert_eq!(raw, expected, "another block, or one of another table");
        cache.keep(home, number, &home.slots[slot], &Cached::new(Part::Data, Bytes(raw), length));
        return "packed";
    }
    cache.missed(Part::Data, &**home, number);
    match Packed::pack(&expected).filter(|_| cache.packs()) {
        Some(packed) => cache.keep_packed(&**home, number, &home.slots[slot], packed),
        None => cache.keep(home, number, &home.slots[slot], &Cached::new(Part::Data, Bytes(expected), length)),
    }
    "medium"
}

/// Bytes of both parts, counted one by one.
fn counted(cache: &Cache, homes: &[Arc<Home>]) -> (u64, u64) {
    let plain = homes.iter().flat_map(|home| &home.slots).filter_map(|slot| slot.0.load().as_ref().map(|cached| cached.memory())).sum();
    (plain, cache.below.lock().packed.bytes())
}

#[test]
fn the_second_use_unpacks_and_what_is_evicted_is_packed_again() {
    let cache = Cache::new(0);
    cache.resize(20_000, 8000);
    let home = Home::new(100);
    let ask = |slot| read(&cache, &home, slot, 1000);
    assert_eq!([ask(0), ask(0), ask(0)], ["medium", "packed", "plain"]);
    assert_eq!(cache.packed_used(), 0, "not in both parts");
    assert_eq!([ask(4), ask(4)], ["medium", "plain"], "what does not shrink is kept as it is");
    for slot in 5..9 {
        ask(slot);
    }
    assert!(cache.packed_used() > 0 && cache.packed_used() < 4 * 600, "{}", cache.packed_used());
    // A scan goes through the compressed part and leaves the other alone.
    for slot in 10..100 {
        if slot % 5 != 4 {
            ask(slot);
        }
        assert!(cache.packed_used() <= 8000);
    }
    assert_eq!([ask(0), ask(4)], ["plain", "plain"]);
    // Used twice each: they fill the uncompressed part, and what was there is packed.
    for slot in (20..50).filter(|slot| slot % 5 != 4) {
        let first = ask(slot);
        assert_eq!([first, ask(slot)], if first == "medium" { ["medium", "packed"] } else { ["packed", "plain"] });
    }
    let again: Vec<_> = (30..50).filter(|slot| slot % 5 != 4).map(ask).collect();
    assert!(again.contains(&"packed") && !again.contains(&"medium"), "{again:?}");
}

#[test]
fn nothing_is_packed_where_no_bytes_are_for_it() {
    let cache = Cache::new(20_000);
    let home = Home::new(100);
    for slot in (0..100).chain(0..100) {
        assert_ne!(read(&cache, &home, slot, 1000), "packed");
        assert_eq!(cache.packed_used(), 0);
    }
    assert!(cache.signals().ghost_bytes > 0, "what left is remembered all the same");
}

#[test]
fn a_forgotten_table_takes_its_packed_blocks_along() {
    let cache = Cache::new(0);
    cache.resize(1 << 20, 1 << 19);
    let (one, two) = (Home::new(20), Home::new(20));
    for slot in 0..20 {
        read(&cache, &one, slot, 1000);
        read(&cache, &two, slot, 1000);
    }
    let half = cache.used() / 2;
    assert!(cache.packed_used() > 0);
    cache.forget(&*one);
    assert!(cache.used().abs_diff(half) < 100, "{} {half}", cache.used());
    assert_eq!([read(&cache, &one, 3, 1000), read(&cache, &one, 3, 1000)], ["medium"; 2], "nothing is kept for it any more");
    assert_eq!(read(&cache, &two, 3, 1000), "packed");
    cache.forget(&*two);
    assert_eq!((cache.used(), cache.packed_used()), (0, 0));
}

#[test]
fn at_random() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut capacity = 30_000;
        let cache = Cache::new(capacity);
        // Numbers are never used again; a table of another number must not see the blocks of one that is gone.
        let mut next = 4;
        let mut homes: Vec<Arc<Home>> = (0..4).map(|number| Home::numbered(number, 40)).collect();
        for _ in 0..2000 {
            let at = random.below(4) as usize;
            match random.below(200) {
                0 => {
                    capacity = random.below(60_000);
                    cache.resize(capacity, capacity * random.below(95) / 100);
                }
                1..4 => cache.resize(capacity, capacity * random.below(95) / 100),
                4 => {
                    cache.forget(&*homes[at]);
                    homes[at] = Home::numbered(next, 40);
                    next += 1;
                }
                n => {
                    let slot = random.below(40) * random.below(40) / 40;
                    read(&cache, &homes[at], slot as usize, 500 + slot as usize * 20);
                    if n % 50 == 0 {
                        homes[at].slots[slot as usize].load();
                    }
                }
            }
            let (plain, packed) = counted(&cache, &homes);
            assert_eq!((cache.used(), cache.packed_used()), (plain + packed, packed), "seed {seed}");
            assert!(cache.used() <= capacity && packed <= cache.packed_capacity(), "seed {seed}");
            assert_eq!(cache.capacity(), capacity);
        }
        for home in homes {
            cache.forget(&*home);
        }
        assert_eq!(cache.used(), 0);
        assert_eq!(cache.signals().ghost_bytes, 0, "seed {seed}");
    }
}

#[test]
fn threads_share_both_parts() {
    let cache = Cache::new(40_000);
    let homes: Vec<Arc<Home>> = (0..3).map(|number| Home::numbered(number, 60)).collect();
    std::thread::scope(|s| {
        for t in 0..3u64 {
            let (cache, homes) = (&cache, &homes);
            s.spawn(move || {
                let mut random = Random(t);
                let own = Home::numbered(100 + t, 60);
                for i in 0..4000 {
                    let home = if random.below(3) == 0 { &own } else { &homes[random.below(3) as usize] };
                    let slot = random.below(60) * random.below(60) / 60;
                    read(cache, home, slot as usize, 700);
                    if t == 0 && i % 100 == 0 {
                        cache.resize(40_000, random.below(36_000));
                    }
                    // One block a thread more, and what is on its way from one part to the other.
                    assert!(cache.used() <= 40_000 + 3 * 1000, "{}", cache.used());
                }
                cache.forget(&*own);
            });
        }
    });
    let (plain, packed) = counted(&cache, &homes);
    assert_eq!((cache.used(), cache.packed_used()), (plain + packed, packed));
    assert!(cache.used() <= 40_000);
    homes.iter().for_each(|home| cache.forget(&**home));
    assert_eq!(cache.used(), 0);
}

#[test]
fn a_share_outlives_a_capacity_of_nothing() {
    let cache = Cache::new(20_000);
    cache.resize(20_000, 5000);
    for capacity in [3, 0, 7, 20_000] {
        cache.set_capacity(capacity);
        assert_eq!((cache.capacity(), cache.packed_capacity()), (capacity, capacity / 4));
    }
}

#[test]
fn a_reader_does_not_evict_for_whoever_makes_the_budget_smaller() {
    let cache = Cache::new(1 << 20);
    let home = Home::new(801);
    for slot in 0..800 {
        read(&cache, &home, slot, 1000);
    }
    let before = cache.used();
    // As in the middle of a resize.
    cache.plain_capacity.store(100_000, Relaxed);
    home.put(&cache, 800, Part::Index, 50_000);
    assert!(home.has(800));
    assert!(cache.used() <= before && cache.used() > before - 5000, "{} of {before}", cache.used());
    cache.resize(100_000, 30_000);
    assert!(cache.used() <= 100_000);
    assert_eq!(counted(&cache, &[home]), (cache.used() - cache.packed_used(), cache.packed_used()));
}
