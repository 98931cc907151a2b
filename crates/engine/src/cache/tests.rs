use super::*;
use std::sync::atomic::AtomicBool;

#[cfg(feature = "default")]
mod parts;

static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// A table: the content of its slot `i` starts with `i`.
#[derive(Debug)]
pub(super) struct Home {
    number: u64,
    pub slots: Vec<CacheSlot<Bytes>>,
    closed: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Bytes(pub Vec<u8>);

impl Stored for Bytes {
    fn stored(&self) -> &[u8] {
        &self.0
    }
}

impl Home {
    pub fn new(n: usize) -> Arc<Self> {
        Self::numbered(NUMBERS.fetch_add(1, Relaxed), n)
    }

    pub fn numbered(number: u64, n: usize) -> Arc<Self> {
        Arc::new(Home { number, slots: (0..n).map(|_| CacheSlot::default()).collect(), closed: AtomicBool::new(false) })
    }

    fn put(self: &Arc<Self>, cache: &Cache, slot: usize, part: Part, bytes: usize) {
        cache.keep(self, slot as u32, &self.slots[slot], &Cached::new(part, Bytes(slot.to_string().into_bytes()), bytes));
    }

    fn has(&self, slot: usize) -> bool {
        self.slots[slot].0.load().is_some()
    }
}

impl Slots for Home {
    fn number(&self) -> u64 {
        self.number
    }
    fn take_life(&self, slot: u32) -> bool {
        self.slots[slot as usize].take_life()
    }
    fn take(&self, slot: u32) -> Option<Taken> {
        let cached = self.slots[slot as usize].take()?;
        Some((cached.memory(), (cached.part == Part::Data).then_some(cached as Arc<dyn Stored>)))
    }
    fn clear_all(&self) -> Cleared {
        let mut cleared = Cleared::default();
        self.slots.iter().for_each(|slot| cleared.add(slot.take()));
        cleared
    }
    fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }
    fn close(&self) {
        self.closed.store(true, Relaxed);
    }
}

#[test]
fn the_budget_holds_and_used_blocks_stay() {
    let cache = Cache::new(20_000);
    let home = Home::new(200);
    for i in 0..200 {
        home.put(&cache, i, Part::Data, 1000);
        assert!(cache.used() <= 20_000);
        assert!(home.slots[0].load().is_some(), "block 0 is used all the time: {i}");
        assert!(home.has(i));
    }
    assert!(cache.used() > 17_000);
    assert!((0..200).filter(|i| home.has(*i)).count() >= 17);
    assert!(!home.has(1));
}

#[test]
fn indexes_outlive_blocks() {
    let cache = Cache::new(20_000);
    let home = Home::new(300);
    home.put(&cache, 0, Part::Index, 5000);
    for i in 1..40 {
        home.put(&cache, i, Part::Data, 1000);
        home.slots[i].load();
    }
    assert!(home.has(0));
    for i in 40..300 {
        home.put(&cache, i, Part::Data, 1000);
    }
    assert!(!home.has(0), "an index nobody uses goes in the end");
}

#[test]
fn indexes_outside_of_the_budget_stay_until_their_table_goes() {
    let cache = Cache::with(2000, false, Arc::new(ManualClock::default()));
    let home = Home::new(300);
    home.put(&cache, 0, Part::Index, 5000);
    home.put(&cache, 1, Part::Filter, 300);
    let outside = cache.outside();
    assert!(outside >= 5300 && cache.used() == 0);
    for i in 2..300 {
        home.put(&cache, i, Part::Data, 1000);
        assert!(cache.used() <= 2000);
    }
    cache.set_capacity(0);
    assert!(home.has(0) && home.has(1));
    assert_eq!((cache.used(), cache.outside()), (0, outside));
    home.put(&cache, 0, Part::Index, 5000);
    assert_eq!(cache.outside(), outside, "already there");
    cache.forget(&*home);
    assert!(!home.has(0));
    assert_eq!((cache.used(), cache.outside()), (0, 0));
    home.put(&cache, 0, Part::Index, 5000);
    assert_eq!(cache.outside(), 0, "its table is gone");
}

#[test]
fn too_large_zero_capacity_and_shrinking() {
    let cache = Cache::new(1000);
    let home = Home::new(10);
    home.put(&cache, 0, Part::Data, 1001);
    assert!(!home.has(0));
    assert_eq!(cache.used(), 0);
    home.put(&cache, 1, Part::Data, 500);
    let used = cache.used();
    home.put(&cache, 1, Part::Data, 500);
    assert_eq!(cache.used(), used, "already there");
    cache.set_capacity(0);
    assert_eq!((cache.used(), home.has(1)), (0, false));
    home.put(&cache, 2, Part::Data, 1);
    assert!(!home.has(2));
}

#[test]
fn forgotten_tables_leave_nothing() {
    let cache = Cache::new(1 << 20);
    let kept = Home::new(10);
    for i in 0..10 {
        kept.put(&cache, i, Part::Data, 100);
    }
    let used = cache.used();
    for _ in 0..100 {
        let home = Home::new(10);
        for i in 0..10 {
            home.put(&cache, i, Part::Data, 100);
        }
        cache.forget(&*home);
        assert_eq!(cache.used(), used);
        home.put(&cache, 0, Part::Data, 100);
        assert_eq!(cache.used(), used, "closed");
        assert!(cache.clock.lock().list.len() <= 40);
    }
    assert!((0..10).all(|i| kept.has(i)));
}

#[test]
fn threads_keep_the_books_balanced() {
    let cache = Cache::new(30_000);
    std::thread::scope(|s| {
        for t in 0..4u64 {
            let cache = &cache;
            s.spawn(move || {
                for round in 0..50 {
                    let home = Home::new(64);
                    let mut x = t * 77 + round + 1;
                    for _ in 0..200 {
                        x = x.wrapping_mul(6364136223846793005).wrapping_add(99);
                        let i = (x >> 40) as usize % 64;
                        if let Some(found) = home.slots[i].load().as_ref() {
                            assert_eq!(found.0, i.to_string().into_bytes());
                            continue;
                        }
                        home.put(cache, i, [Part::Data, Part::Index][i % 2], 100 + i * 10);
                        assert!(cache.used() <= 30_000);
                    }
                    cache.forget(&*home);
                }
            });
        }
    });
    assert_eq!(cache.used(), 0);
}
