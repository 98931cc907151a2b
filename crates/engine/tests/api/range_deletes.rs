//! Range deletes over many keys: what scans see, and how far they walk.

use super::*;
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % end as u64) as usize
    }
}

fn check(db: &Db, options: &ReadOptions, model: &Model, what: &str) {
    let family = db.default_family();
    let forward: Model = db.iter_with(&family, options.clone()).unwrap().map(Result::unwrap).collect();
    assert_eq!(&forward, model, "{what}");
    let mut iterator = db.iter_with(&family, options.clone()).unwrap();
    iterator.seek_last().unwrap();
    for (key, value) in model.iter().rev() {
        assert_eq!((iterator.key(), iterator.value()), (key.as_slice(), value.as_slice()), "{what}, backward");
        iterator.retreat().unwrap();
    }
    assert!(!iterator.valid(), "{what}");
}

#[test]
fn scans_over_wide_range_deletes_agree_with_a_model() {
    for seed in 0..12 {
        let (db, mut random, mut model) = (small_db(), Random(seed), Model::new());
        let mut held = Vec::new();
        for step in 0..60 {
            match random.below(8) {
                0..=2 => {
                    let (from, count) = (random.below(900), 1 + random.below(300));
                    for n in from..from + count {
                        let value = format!("{step} {n}").into_bytes();
                        db.put(&key(n), &value).unwrap();
                        model.insert(key(n), value);
                    }
                }
                3 | 4 => {
                    let (from, to) = (key(random.below(600)), key(600 + random.below(600)));
                    db.delete_range(&from, &to).unwrap();
                    model.retain(|key, _| *key < from || *key >= to);
                }
                5 => db.flush().unwrap(),
                6 => db.wait_for_compactions().unwrap(),
                _ => held.push((db.snapshot(), model.clone())),
            }
            let what = format!("seed {seed}, step {step}");
            check(&db, &ReadOptions::default(), &model, &what);
            let (lower, upper) = (key(random.below(600)), key(600 + random.below(600)));
            let within: Model = model.range(lower.clone()..upper.clone()).map(|(key, value)| (key.clone(), value.clone())).collect();
            check(&db, &ReadOptions { lower: Some(lower), upper: Some(upper), ..ReadOptions::default() }, &within, &what);
        }
        for (n, (snapshot, model)) in held.into_iter().enumerate() {
            check(&db, &ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() }, &model, &format!("seed {seed}, snapshot {n}"));
        }
    }
}

#[test]
fn a_scan_seeks_over_the_keys_of_a_range_delete() {
    let db = small_db();
    for n in 0..20_000 {
        db.put(&key(n), b"v").unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    db.delete_range(&key(3), &key(19_990)).unwrap();
    // Newer than the tombstone, among the deleted keys.
    db.put(&key(10_000), b"new").unwrap();
    for is_flushed in [false, true] {
        if is_flushed {
            db.flush().unwrap();
        }
        let mut iterator = db.iter();
        iterator.seek(&key(3)).unwrap();
        assert_eq!((iterator.key(), iterator.value()), (&key(10_000)[..], &b"new"[..]));
        iterator.advance().unwrap();
        assert_eq!(iterator.key(), key(19_990));
        assert!(iterator.passed() <= 100, "{} keys", iterator.passed());
    }
}

#[test]
fn a_log_full_of_range_deletes_over_each_other_is_recovered() {
    let store = new_store();
    let db = open(&store);
    for n in 0..3000 {
        db.put(&key(n), b"v").unwrap();
        db.delete_range(b"", &key(n)).unwrap();
        if n % 500 == 0 {
            assert_eq!(db.get(&key(n)).unwrap().as_deref(), Some(&b"v"[..]));
        }
    }
    drop(db);
    let db = open(&store);
    assert_eq!(db.iter().map(|entry| entry.unwrap().0).collect::<Vec<_>>(), [key(2999)]);
    db.flush().unwrap();
    assert_eq!(db.iter().map(|entry| entry.unwrap().0).collect::<Vec<_>>(), [key(2999)]);
}
