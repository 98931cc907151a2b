use super::*;
use crate::cursor::Cursor;
use crate::key::{Kind, MAX_SEQ, Seq, kind_of, seq_of, trailer};
use crate::merge::Merge;
use crate::merge::testing::{Append, Entry, Rng, VecCursor, Write, entries, history, replay};
use crate::range_del::RangeTombstones;
use std::collections::BTreeMap;
use std::sync::Arc;

type Source = (Vec<Entry>, Arc<RangeTombstones>);

/// A history cut into sources, newest first.
fn sources(rng: &mut Rng, history: &[Write]) -> Vec<Source> {
    let mut cuts: Vec<usize> = (0..rng.below(6)).map(|_| rng.below(history.len() as u64 + 1) as usize).collect();
    cuts.extend([0, history.len()]);
    cuts.sort();
    let mut list: Vec<Source> = cuts
        .windows(2)
        .map(|w| {
            let (points, ranges) = entries(history, w[0], w[1]);
            (points, Arc::new(RangeTombstones::new(ranges)))
        })
        .collect();
    list.reverse();
    list
}

fn cursor(sources: &[Source], snapshot: Seq, lower: Option<Vec<u8>>, upper: Option<Vec<u8>>) -> VisibleCursor<Merge<VecCursor>> {
    let merge = Merge::new(sources.iter().map(|s| VecCursor::new(s.0.clone())).collect());
    let operator = Arc::new(Append { partial: false });
    VisibleCursor::new(merge, sources.iter().map(|s| s.1.clone()).collect(), snapshot, Some(operator), lower, upper)
}

#[test]
fn a_scan_sees_what_replaying_the_history_gives() {
    for seed in 0..500 {
        let mut rng = Rng(seed);
        // Few keys and many writes make long chains of versions, which take the seeking paths.
        let writes = if seed % 5 == 0 { 1500 } else { 150 };
        let (merges, ranges) = (rng.one_in(2), rng.one_in(2));
        let history = history(&mut rng, writes, merges, ranges);
        let sources = sources(&mut rng, &history);
        let snapshot = if rng.one_in(3) { MAX_SEQ } else { rng.below(writes + 1) };
        let lower = rng.one_in(3).then(|| rng.key());
        let upper = rng.one_in(3).then(|| rng.key());
        let all = replay(&history, snapshot.min(writes));
        let inside = |k: &Vec<u8>| lower.as_ref().is_none_or(|l| l <= k) && upper.as_ref().is_none_or(|u| k < u);
        let model: Vec<(Vec<u8>, Vec<u8>)> = all.into_iter().filter(|(k, _)| inside(k)).collect();
        let mut cursor = cursor(&sources, snapshot, lower.clone(), upper.clone());
        let mut at: Option<usize> = None;
        for step in 0..150 {
            match rng.below(24) {
                0 => {
                    cursor.seek_first().unwrap();
                    at = Some(0);
                }
                1 => {
                    cursor.seek_last().unwrap();
                    at = model.len().checked_sub(1);
                }
                2 | 3 => {
                    let key = rng.key();
                    cursor.seek(&key).unwrap();
                    at = Some(model.partition_point(|e| e.0 < key));
                }
                4 | 5 => {
                    let key = rng.key();
                    cursor.seek_for_prev(&key).unwrap();
                    at = model.partition_point(|e| e.0 <= key).checked_sub(1);
                }
                n => {
                    let valid = at.is_some_and(|i| i < model.len());
                    let back = if seed % 2 == 0 { n % 2 == 0 } else { step / 9 % 2 == 0 };
                    if back {
                        cursor.prev().unwrap()
                    } else {
                        cursor.next().unwrap()
                    };
                    at = match (valid, back) {
                        (false, _) => None,
                        (true, true) => at.and_then(|i| i.checked_sub(1)),
                        (true, false) => at.map(|i| i + 1),
                    };
                }
            }
            let expected = at.and_then(|i| model.get(i));
            assert_eq!(cursor.valid(), expected.is_some(), "seed {seed} step {step}");
            if let Some((key, value)) = expected {
                assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]), "seed {seed} step {step}");
            }
        }
    }
}

/// A point read the way a database does it.
fn get(sources: &[Source], key: &[u8], snapshot: Seq, out: &mut Vec<u8>) -> Result<bool> {
    let operator = Append { partial: false };
    let mut resolver = Resolver::new(key, snapshot, Some(&operator), out);
    for (points, tombstones) in sources {
        if let Some(seq) = tombstones.covering(key, snapshot) {
            resolver.covered(seq);
        }
        let mut cursor = VecCursor::new(points.clone());
        cursor.seek(key, crate::key::upper(snapshot))?;
        while cursor.valid() && cursor.key() == key {
            let kind = kind_of(cursor.trailer()).unwrap();
            if resolver.version(seq_of(cursor.trailer()), kind, cursor.value()).is_break() {
                break;
            }
            cursor.next()?;
        }
        if resolver.done() {
            break;
        }
    }
    resolver.finish()
}

#[test]
fn a_point_read_sees_what_replaying_the_history_gives() {
    let mut out = b"left over".to_vec();
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let history = history(&mut rng, 120, true, seed % 2 == 0);
        let sources = sources(&mut rng, &history);
        for _ in 0..30 {
            let (key, snapshot) = (rng.key(), rng.below(121));
            let expected = replay(&history, snapshot).remove(&key);
            let found = get(&sources, &key, snapshot, &mut out).unwrap();
            assert_eq!(found.then(|| out.clone()), expected, "seed {seed} key {key:?} at {snapshot}");
        }
    }
}

/// Counts moves, to tell linear from quadratic.
struct Counting(VecCursor, std::rc::Rc<std::cell::Cell<u64>>);

macro_rules! counted {
    ($($name:ident($($arg:ident: $t:ty),*)),*) => {
        $(fn $name(&mut self, $($arg: $t),*) -> Result<()> {
            self.1.set(self.1.get() + 1);
            self.0.$name($($arg),*)
        })*
    };
}

impl Cursor for Counting {
    counted!(seek_first(), seek_last(), seek(key: &[u8], trailer: u64), seek_before(key: &[u8]), next(), prev());
    fn valid(&self) -> bool {
        self.0.valid()
    }
    fn key(&self) -> &[u8] {
        self.0.key()
    }
    fn trailer(&self) -> u64 {
        self.0.trailer()
    }
    fn value(&self) -> &[u8] {
        self.0.value()
    }
}

fn moves(points: Vec<Entry>, ranges: Vec<(Vec<u8>, Vec<u8>, Seq)>, snapshot: Seq, back: bool) -> (u64, BTreeMap<Vec<u8>, Vec<u8>>) {
    let count = std::rc::Rc::default();
    let inner = Counting(VecCursor::new(points), std::rc::Rc::clone(&count));
    let mut cursor = VisibleCursor::new(inner, vec![Arc::new(RangeTombstones::new(ranges))], snapshot, None, None, None);
    let mut seen = BTreeMap::new();
    if back {
        cursor.seek_last().unwrap()
    } else {
        cursor.seek_first().unwrap()
    };
    while cursor.valid() {
        seen.insert(cursor.key().to_vec(), cursor.value().to_vec());
        if back {
            cursor.prev().unwrap()
        } else {
            cursor.next().unwrap()
        };
    }
    (count.get(), seen)
}

#[test]
fn dead_keys_cost_a_step_each_and_many_versions_a_seek() {
    let key = |i: u32| i.to_be_bytes().to_vec();
    let n = 5000;
    for back in [false, true] {
        // Deleted one by one.
        let deleted = (0..n).flat_map(|i| [(key(i), trailer(2, Kind::Delete), vec![]), (key(i), trailer(1, Kind::Value), vec![])]);
        let (moves_, seen) = moves(deleted.collect(), vec![], MAX_SEQ, back);
        assert!(seen.is_empty() && moves_ < 3 * u64::from(n), "{moves_}");
        // Deleted by a range.
        let live = (0..n).map(|i| (key(i), trailer(1, Kind::Value), vec![]));
        let (moves_, seen) = moves(live.collect(), vec![(key(10), key(n - 10), 2)], MAX_SEQ, back);
        assert!(seen.len() == 20 && moves_ < 2 * u64::from(n), "{moves_}");
        // One key with many versions, before and after the snapshot, between two others.
        let versions = (1..20_000).map(|seq| (key(1), trailer(seq, Kind::Value), seq.to_string().into_bytes()));
        let others = [(key(0), trailer(1, Kind::Value), vec![]), (key(2), trailer(1, Kind::Value), vec![])];
        let (moves_, seen) = moves(versions.chain(others).collect(), vec![], 10_000, back);
        assert_eq!(seen[&key(1)], b"10000");
        assert!(seen.len() == 3 && moves_ < 120, "{moves_}");
    }
}

#[test]
fn what_cannot_be_read_is_an_error_not_a_panic() {
    let cases = [
        (trailer(5, Kind::Merge), "no merge operator"),
        (trailer(5, Kind::ValueReference), "ValueReference"),
        (trailer(5, Kind::RangeDelete), "RangeDelete"),
        (trailer(5, Kind::TimedValue), "the time of a version of key 'k' is damaged"),
        (5 << 8 | 77, "unknown kind 77"),
    ];
    for (trailer, what) in cases {
        let mut cursor = VisibleCursor::new(VecCursor::new(vec![(b"k".to_vec(), trailer, vec![])]), vec![], 9, None, None, None);
        for error in [cursor.seek_first(), cursor.seek_last(), cursor.seek(b"a"), cursor.seek_for_prev(b"k")] {
            assert!(error.unwrap_err().to_string().contains(what), "{what}");
            assert!(!cursor.valid());
        }
        if let Some(kind) = kind_of(trailer) {
            let mut out = Vec::new();
            let mut resolver = Resolver::new(b"k", 9, None, &mut out);
            let _ = resolver.version(5, kind, b"");
            assert!(resolver.finish().unwrap_err().to_string().contains(what), "{what}");
        }
    }
    let refused = vec![(b"k".to_vec(), trailer(5, Kind::Merge), b"!".to_vec())];
    let mut cursor = cursor(&[(refused, Arc::default())], 9, None, None);
    assert!(cursor.seek_first().unwrap_err().to_string().contains("refuses"));
}

#[test]
fn an_error_below_leaves_the_cursor_nowhere() {
    for fail in 0..30 {
        for back in [false, true] {
            let list = (0..20u8).map(|k| (vec![k / 3], trailer(u64::from(k) + 1, Kind::Value), vec![])).collect();
            let mut inner = VecCursor::new(list);
            inner.fail_at = Some(fail);
            let mut cursor = VisibleCursor::new(inner, vec![], MAX_SEQ, None, None, None);
            let mut result = if back { cursor.seek_last() } else { cursor.seek_first() };
            while result.is_ok() && cursor.valid() {
                result = if back { cursor.prev() } else { cursor.next() };
            }
            assert!(!cursor.valid());
            assert_eq!(result.is_err(), fail <= 20, "{fail} {back}");
        }
    }
}
