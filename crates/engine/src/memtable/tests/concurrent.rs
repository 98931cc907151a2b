//! One writer against readers: with real threads, and with all threads under a scheduler that tries many orders.

use super::*;

/// The writer's entry number `step`: a key from a permutation of `0..count`, so that insertions hit all leaves.
fn key_of(step: u64, count: u64) -> Vec<u8> {
    format!("user{:08}", step * 7919 % count).into_bytes()
}

fn value_of(key: &[u8], seq: Seq) -> Vec<u8> {
    [key, &seq.to_be_bytes()].concat()
}

/// Checks that all of the first `published` entries are there, and that nothing is torn or out of order.
fn check_scan(memtable: &Arc<Memtable>, published: u64, backward: bool) {
    let mut cursor = memtable.cursor();
    if backward {
        cursor.seek_last().unwrap()
    } else {
        cursor.seek_first().unwrap()
    }
    let (mut last, mut old): (Option<(Vec<u8>, u64)>, u64) = (None, 0);
    while cursor.valid() {
        let (key, trailer) = (cursor.key().to_vec(), cursor.trailer());
        assert_eq!(cursor.value(), value_of(&key, key::seq_of(trailer)));
        if let Some(last) = last {
            let order = key::compare(&last.0, last.1, &key, trailer);
            assert_eq!(order, if backward { std::cmp::Ordering::Greater } else { std::cmp::Ordering::Less });
        }
        old += u64::from(key::seq_of(trailer) < published);
        last = Some((key, trailer));
        if backward { cursor.prev().unwrap() } else { cursor.next().unwrap() }
    }
    assert_eq!(old, published, "backward: {backward}");
}

fn check_lookup(memtable: &Memtable, step: u64, count: u64) {
    let (key, mut seen) = (key_of(step, count), false);
    memtable.expect(&key);
    memtable.expect_entry(&key);
    memtable.get(&key, MAX_SEQ, |seq, kind, value| {
        assert_eq!(kind, Kind::Value);
        assert_eq!(value, value_of(&key, seq));
        seen |= seq == step;
        ControlFlow::Continue(())
    });
    assert!(seen, "entry {step} of {count} is missing");
}

/// `len` is the published count: it grows after the entry is in the tree.
#[cfg(not(shuttle))]
fn read(memtable: &Arc<Memtable>, count: u64, seed: u64, rounds: usize) {
    let mut random = Random(seed);
    for round in 0..rounds {
        let published = memtable.len();
        if published > 0 {
            (0..8).for_each(|_| check_lookup(memtable, random.below(published), count));
            check_lookup(memtable, published - 1, count);
        }
        check_scan(memtable, published, round % 2 == 1);
    }
}

fn write(memtable: &Arc<Memtable>, count: u64, entries: u64) {
    let mut writer = memtable.writer();
    for step in 0..entries {
        let key = key_of(step, count);
        let place = writer.expect(&key);
        writer.insert_at(place, &key, step, Kind::Value, &value_of(&key, step));
    }
}

#[cfg(not(shuttle))]
#[test]
fn readers_see_all_that_is_published() {
    // Twice as many entries as keys: the second half adds versions.
    let count: u64 = if cfg!(miri) { 20 } else { 30_000 };
    let memtable = Memtable::new(Arc::default());
    std::thread::scope(|scope| {
        scope.spawn(|| write(&memtable, count, 2 * count));
        for seed in 0..2 {
            let memtable = &memtable;
            scope.spawn(move || {
                while memtable.len() < 2 * count {
                    read(memtable, count, seed, 2);
                }
                read(memtable, count, seed, 2);
            });
        }
    });
}

#[cfg(shuttle)]
mod memtable_shuttle {
    use super::*;

    /// Nodes have four slots here: 24 insertions divide leaves, the root and an inner node.
    fn race(entries: u64, count: u64, read: fn(&Arc<Memtable>, u64)) -> impl Fn() + Send + Sync + 'static {
        move || {
            let memtable = Memtable::new(Arc::new(ChunkPool::with_capacity(0)));
            let writer = shuttle::thread::spawn({
                let memtable = Arc::clone(&memtable);
                move || write(&memtable, count, entries)
            });
            let reader = shuttle::thread::spawn({
                let memtable = Arc::clone(&memtable);
                move || read(&memtable, count)
            });
            writer.join().unwrap();
            reader.join().unwrap();
            check_scan(&memtable, entries, false);
        }
    }

    fn lookups(memtable: &Arc<Memtable>, count: u64) {
        for _ in 0..4 {
            let published = memtable.len();
            (0..published).for_each(|step| check_lookup(memtable, step, count));
        }
    }

    fn scans(memtable: &Arc<Memtable>, _count: u64) {
        for round in 0..4 {
            check_scan(memtable, memtable.len(), round % 2 == 1);
        }
    }

    /// Few preemptions at any place find what needs the writer to do much between two steps of the reader: a check left out of the
    /// descent is found by this test alone.
    #[test]
    fn rare_preemptions() {
        shuttle::check_pct(race(24, 24, lookups), 4000, 3);
        shuttle::check_pct(race(24, 3, lookups), 4000, 3);
        shuttle::check_pct(race(24, 24, scans), 4000, 3);
        shuttle::check_pct(race(24, 3, scans), 4000, 3);
    }

    #[test]
    fn random_schedules() {
        shuttle::check_random(race(24, 24, lookups), 2000);
        shuttle::check_random(race(24, 3, lookups), 2000);
        shuttle::check_random(race(24, 24, scans), 2000);
        shuttle::check_random(race(24, 3, scans), 2000);
    }
}
