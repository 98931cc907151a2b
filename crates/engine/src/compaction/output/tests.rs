use super::*;
use crate::key::{Kind, trailer};
use crate::manifest::KeyRange;
use crate::merge::testing::{Rng, history};
use std::cell::RefCell;
use std::rc::Rc;

/// A finished table of the test: its smallest key as promised at the start, its keys, its tombstones.
#[derive(Debug)]
struct Table {
    first: Vec<u8>,
    entries: Vec<(Vec<u8>, u64)>,
    tombstones: RangeTombstones,
}

impl TableSink for Table {
    type Done = Table;
    fn add(&mut self, key: &[u8], trailer: u64, _value: &[u8], _original_seq: Seq, _own_time: Option<u64>) -> Result<()> {
        self.entries.push((key.to_vec(), trailer));
        Ok(())
    }
    fn bytes(&self) -> u64 {
        self.entries.len() as u64 * 10
    }
    fn finish(mut self, tombstones: &RangeTombstones) -> Result<Table> {
        self.tombstones = tombstones.clone();
        Ok(self)
    }
}

struct Tables(Rc<RefCell<usize>>);

impl TableFactory for Tables {
    type Table = Table;
    fn start(&mut self, first: &[u8]) -> Result<Table> {
        *self.0.borrow_mut() += 1;
        Ok(Table { first: first.to_vec(), entries: Vec::new(), tombstones: RangeTombstones::default() })
    }
}

fn grandparents(list: &[(u8, u8, u64)]) -> Vec<Arc<TableInfo>> {
    list.iter()
        .map(|&(from, to, bytes)| Arc::new(TableInfo { range: KeyRange::closed(vec![from], vec![to]), bytes, ..TableInfo::default() }))
        .collect()
}

/// Writes one version of each key; gives the first and last key and number of entries of each table.
fn cut(keys: impl Iterator<Item = u8>, table_bytes: u64, overlap_bytes: u64, below: &[(u8, u8, u64)]) -> Vec<(u8, u8, usize)> {
    let grandparents = grandparents(below);
    let limits = Limits { table_bytes, overlap_bytes, grandparents: &grandparents, starts: &[] };
    let mut output = Output::new(Tables(Rc::default()), limits, RangeTombstones::default());
    keys.for_each(|k| output.add(&[k], trailer(1, Kind::Value), b"", 1, true).unwrap());
    let tables = output.finish().unwrap();
    tables.iter().map(|t| (t.entries[0].0[0], t.entries[t.entries.len() - 1].0[0], t.entries.len())).collect()
}

#[test]
fn tables_end_at_their_size() {
    assert_eq!(cut(0..10, 40, 1 << 40, &[]), [(0, 3, 4), (4, 7, 4), (8, 9, 2)]);
    assert_eq!(cut(0..0, 40, 1 << 40, &[]), []);
}

#[test]
fn half_full_tables_end_where_those_below_do() {
    // 24 ends one below, when the table holds 5 of 8; 31 is too early for the next.
    assert_eq!(cut(20..40, 80, 1 << 40, &[(10, 24, 1), (26, 27, 1), (31, 50, 1)]), [(20, 24, 5), (25, 30, 6), (31, 38, 8), (39, 39, 1)]);
    // Less than half full: not cut.
    assert_eq!(cut(20..28, 80, 1 << 40, &[(10, 22, 1), (23, 50, 1)]), [(20, 27, 8)]);
}

#[test]
fn a_table_overlaps_few_bytes_below() {
    let below: Vec<(u8, u8, u64)> = (0..20).map(|i| (i * 10, i * 10 + 9, 100)).collect();
    let tables = cut((0..200).step_by(5), 1 << 40, 350, &below);
    let three: Vec<(u8, u8, usize)> = (0..6).map(|i| (i * 30, i * 30 + 25, 6)).collect();
    assert_eq!(tables, [three, vec![(180, 195, 4)]].concat());
    // Those between two keys of a table count too: it spans them.
    assert_eq!(cut([0, 39, 40, 41].into_iter(), 1 << 40, 350, &below), [(0, 0, 1), (39, 41, 3)]);
    // One that is too large alone is no reason for tables of one key.
    assert_eq!(cut(0..10, 1 << 40, 50, &below), [(0, 9, 10)]);
}

#[test]
fn versions_of_a_key_stay_together_and_tombstones_are_covered() {
    for seed in 0..800 {
        let mut rng = Rng(seed);
        let history = history(&mut rng, 120, true, true);
        let (mut points, ranges) = crate::merge::testing::entries(&history, 0, history.len());
        points.sort_by(crate::merge::testing::order);
        if rng.one_in(4) {
            let keep = rng.below(4) as usize;
            points.truncate(keep);
        }
        let set = RangeTombstones::new(ranges);
        let below: Vec<(u8, u8, u64)> = (b'a'..=b'z').step_by(3).map(|k| (k, k + 1, rng.below(50))).collect();
        let grandparents = grandparents(&below);
        let limits = Limits { table_bytes: 10 + rng.below(300), overlap_bytes: rng.below(200), grandparents: &grandparents, starts: &[] };
        let mut output = Output::new(Tables(Rc::default()), limits, set.clone());
        for (i, (key, trailer, value)) in points.iter().enumerate() {
            let first = i == 0 || points[i - 1].0 != *key;
            output.add(key, *trailer, value, 1, first).unwrap();
        }
        let tables = output.finish().unwrap();
        let all: Vec<_> = tables.iter().flat_map(|t| t.entries.clone()).collect();
        assert_eq!(all, points.iter().map(|e| (e.0.clone(), e.1)).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(RangeTombstones::union(tables.iter().map(|t| &t.tombstones)), set, "seed {seed}");
        let ends: Vec<(Vec<u8>, KeyRange)> = tables.iter().map(|t| (t.first.clone(), range(t))).collect();
        for (first, range) in &ends {
            assert_eq!(first, &range.smallest, "seed {seed}");
        }
        for w in ends.windows(2) {
            assert!(w[0].1.ends_before(&w[1].1.smallest), "tables share a key: seed {seed}");
        }
    }
}

/// The keys of a table, tombstones included.
fn range(table: &Table) -> KeyRange {
    let points = table.entries.first().zip(table.entries.last()).map(|(a, b)| KeyRange::closed(a.0.clone(), b.0.clone()));
    let fragments = table.tombstones.fragments();
    let tombstones = fragments.first().zip(fragments.last()).map(|(a, b)| KeyRange {
        smallest: a.start.clone(),
        largest: b.end.clone(),
        end_exclusive: true,
    });
    match (points, tombstones) {
        (Some(mut a), Some(b)) => {
            a.extend(&b);
            a
        }
        (a, b) => a.or(b).expect("no empty tables"),
    }
}

#[test]
fn disorder_is_refused() {
    let limits = || Limits { table_bytes: 100, overlap_bytes: 100, grandparents: &[], starts: &[] };
    for (second, first_of_key) in [((b"a", 9), true), ((b"b", 5), false), ((b"b", 6), false)] {
        let mut output = Output::new(Tables(Rc::default()), limits(), RangeTombstones::default());
        output.add(b"b", 5, b"", 1, true).unwrap();
        assert!(output.add(second.0, second.1, b"", 1, first_of_key).is_err());
    }
}
