//! Merges with two outputs against the history of writes: no reader can tell where entries went.

use super::super::collapse::{Rules, collapse};
use super::super::throttle::Rests;
use super::super::young::{Young, keep};
use super::*;
use crate::key::{Kind, kind_of, put_timed, trailer};
use crate::manifest::{OwnTimes, TableInfo};
use crate::merge::Merge;
use crate::merge::testing::{Append, Entry, Rng, VecCursor, Write, entries, history, order, replay};
use crate::tiering::age::Cut;
use crate::visible::{Resolver, VisibleCursor};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

static NO: AtomicBool = AtomicBool::new(false);

/// A finished table of the test.
#[derive(Debug, Default)]
struct Made {
    entries: Vec<(Entry, Seq)>,
    /// Times of the entries of their own.
    own_times: Vec<Option<u64>>,
    tombstones: RangeTombstones,
}

impl TableSink for Made {
    type Done = Made;
    fn add(&mut self, key: &[u8], trailer: u64, value: &[u8], original_seq: Seq, own_time: Option<u64>) -> Result<()> {
        self.own_times.push(own_time);
        self.entries.push(((key.to_vec(), trailer, value.to_vec()), original_seq));
        Ok(())
    }
    fn bytes(&self) -> u64 {
        self.entries.len() as u64 * 10
    }
    fn finish(mut self, tombstones: &RangeTombstones) -> Result<Made> {
        self.tombstones = tombstones.clone();
        Ok(self)
    }
}

#[derive(Clone)]
struct Maker;

impl TableFactory for Maker {
    type Table = Made;
    fn start(&mut self, _first: &[u8]) -> Result<Made> {
        Ok(Made::default())
    }
}

impl Made {
    /// Description of the table as the manifest would have it.
    fn info(&self) -> TableInfo {
        let ends = |of: Vec<u64>| (of.iter().copied().min().unwrap_or(u64::MAX), of.iter().copied().max().unwrap_or(0));
        let times: Vec<u64> = self.own_times.iter().copied().flatten().collect();
        let numbered = self.entries.iter().zip(&self.own_times).filter(|(_, time)| time.is_none()).map(|(entry, _)| entry.1);
        let others = numbered.chain(self.tombstones.fragments().iter().flat_map(|f| f.seqs.clone())).collect();
        let timed = Some(OwnTimes { entries: times.len() as u64, times: ends(times), others: ends(others) });
        TableInfo { bytes: 1000, entries: self.entries.len() as u64, timed, ..TableInfo::default() }
    }
}

type Level = (Vec<Entry>, Arc<RangeTombstones>);

fn level(tables: &[Made]) -> Level {
    let entries = tables.iter().flat_map(|t| t.entries.iter().map(|e| e.0.clone())).collect();
    (entries, Arc::new(RangeTombstones::union(tables.iter().map(|t| &t.tombstones))))
}

fn written(history: &[Write], from: usize, to: usize) -> Level {
    let (points, ranges) = entries(history, from, to);
    (points, Arc::new(RangeTombstones::new(ranges)))
}

fn view(levels: &[Level], snapshot: Seq, operator: &Arc<Append>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let sources = levels.iter().map(|level| VecCursor::new(level.0.clone())).collect();
    let tombstones = levels.iter().map(|level| level.1.clone()).collect();
    let mut cursor = VisibleCursor::new(Merge::new(sources), tombstones, snapshot, Some(operator.clone()), None, None);
    let mut view = BTreeMap::new();
    cursor.seek_first().unwrap();
    while cursor.valid() {
        view.insert(cursor.key().to_vec(), cursor.value().to_vec());
        cursor.next().unwrap();
    }
    view
}

/// Result of a point read: level by level, and no further than it has to.
fn get(levels: &[Level], key: &[u8], snapshot: Seq, operator: &Append) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut resolver = Resolver::new(key, snapshot, Some(operator), &mut out);
    for (entries, tombstones) in levels {
        if let Some(covering) = tombstones.covering(key, snapshot) {
            resolver.covered(covering);
        }
        let mut versions: Vec<&Entry> = entries.iter().filter(|e| e.0 == key).collect();
        versions.sort_by_key(|entry| std::cmp::Reverse(entry.1));
        for (_, trailer, value) in versions {
            if resolver.version(seq_of(*trailer), kind_of(*trailer).unwrap(), value).is_break() {
                break;
            }
        }
        if resolver.done() {
            break;
        }
    }
    resolver.finish().unwrap().then_some(out)
}

/// Merges `sources` (newest first) into two outputs.
fn route(sources: &[Level], rules: &Rules<'_>, upper: Option<(Cut, &[Span])>, table_bytes: u64) -> Routed<Made> {
    let tombstones = RangeTombstones::union(sources.iter().map(|s| &*s.1));
    let limits = Limits { table_bytes, overlap_bytes: 1 << 40, grandparents: &[], starts: &[] };
    let upper = upper.map(|(old, spans)| Upper { old, zeroed_is_old: false, spans, factory: Maker, limits });
    let mut router = Router::new(Maker, limits, rules.surviving(&tombstones), upper);
    let merge = Merge::new(sources.iter().map(|s| VecCursor::new(s.0.clone())).collect());
    collapse(merge, (None, None), &tombstones, rules, Rests::new(&NO, &NO, None), &mut router).unwrap().unwrap();
    router.finish().unwrap()
}

/// Makes up to three spans, in order, some of them without a beginning or an end.
fn spans(rng: &mut Rng) -> Vec<Span> {
    let mut bounds: Vec<Vec<u8>> = (0..2 * rng.below(4)).map(|_| rng.key()).collect();
    bounds.sort();
    bounds.dedup();
    let mut spans: Vec<Span> = bounds.chunks_exact(2).map(|pair| Span { from: Some(pair[0].clone()), to: Some(pair[1].clone()) }).collect();
    if rng.one_in(2)
        && let Some(first) = spans.first_mut()
    {
        first.from = None;
    }
    if rng.one_in(2)
        && let Some(last) = spans.last_mut()
    {
        last.to = None;
    }
    if rng.one_in(3) { vec![Span::default()] } else { spans }
}

struct Case {
    history: Vec<Write>,
    /// Numbers of writes: those up to the first are in the last level, those up to the second are merged with them; the rest is above.
    parts: (usize, usize),
    snapshots: Vec<Seq>,
    operator: Arc<Append>,
}

impl Case {
    fn random(rng: &mut Rng) -> Case {
        let writes = 20 + rng.below(200);
        let (merges, ranges) = (rng.one_in(2), rng.one_in(2));
        let history = history(rng, writes, merges, ranges);
        let to = if rng.one_in(2) { writes } else { rng.below(writes + 1) };
        let base = rng.below(to + 1);
        let visible = if rng.one_in(4) { rng.below(writes + 1) } else { writes };
        let mut snapshots: Vec<Seq> = (0..rng.below(5)).map(|_| rng.below(visible + 1)).collect();
        snapshots.sort();
        snapshots.push(visible);
        Case { history, parts: (base as usize, to as usize), snapshots, operator: Arc::new(Append { partial: rng.one_in(2) }) }
    }

    fn rules(&self, zero_up_to: Option<Cut>, zeroed_seq: Seq) -> Rules<'_> {
        Rules {
            snapshots: &self.snapshots,
            is_copy: false,
            bottommost: true,
            zero_up_to,
            expired: None,
            apart: None,
            zeroed_seq,
            merge: Some(&*self.operator),
            filter: None,
            level: 6,
            heat: None,
        }
    }
}

#[test]
fn no_reader_can_tell_where_a_merge_put_things() {
    let (mut hot, mut sunk, mut zeroed_hot) = (0, 0, 0);
    for seed in 0..3000 {
        let mut rng = Rng(seed);
        let case = Case::random(&mut rng);
        let (base, to) = case.parts;
        // Some of the last level lost its numbers before anybody asked for ages.
        let zero = if rng.one_in(3) { Cut { seq: rng.below(base as u64 + 1), time: rng.below(260) } } else { Cut::ALL };
        let old = route(&[written(&case.history, 0, base)], &case.rules(Some(zero), 0), None, 100);
        let zeroed = || old.cold.iter().flat_map(|t| &t.entries).filter(|e| seq_of(e.0.1) == 0).map(|e| e.1);
        let bound = zeroed().max().unwrap_or(0);
        let (cut, spans) = (Cut { seq: rng.below(to as u64 + 1), time: rng.below(260) }, spans(&mut rng));
        let rules = case.rules(Some(cut), bound);
        let sources = [written(&case.history, base, to), level(&old.cold)];
        let made = route(&sources, &rules, Some((cut, &spans)), 10 + rng.below(100));
        let levels = [written(&case.history, to, case.history.len()), level(&made.hot), level(&made.cold)];
        let visible = case.snapshots[case.snapshots.len() - 1];
        let later = visible..=case.history.len() as Seq;
        for snapshot in case.snapshots.iter().copied().chain(later).chain([MAX_SEQ]) {
            let expected = replay(&case.history, snapshot.min(case.history.len() as Seq));
            assert_eq!(view(&levels, snapshot, &case.operator), expected, "seed {seed} snapshot {snapshot} of {:?}", case.snapshots);
            for key in sources.iter().flat_map(|s| &s.0).map(|e| &e.0) {
                assert_eq!(get(&levels, key, snapshot, &case.operator).as_ref(), expected.get(key), "seed {seed} {snapshot} {key:?}");
            }
        }
        check_places(seed, &made, cut, &spans, &sources, &rules);
        hot += made.placed.hot;
        sunk += made.placed.sunk;
        zeroed_hot += level(&made.hot).0.iter().filter(|e| seq_of(e.1) == 0).count();
    }
    assert!(hot > 10_000 && sunk > 10_000 && zeroed_hot > 1000, "{hot} {sunk} {zeroed_hot}");
}

/// Everything is where its number says, unless it must not be; and nothing was lost or made on the way.
fn check_places(seed: u64, made: &Routed<Made>, cut: Cut, spans: &[Span], sources: &[Level], rules: &Rules<'_>) {
    let free = |key: &[u8]| spans.iter().any(|span| span.contains(key));
    let is_young = |entry: &Entry, original: Seq| !cut.covers(original, own_time(entry.1, &entry.2));
    let (hot, cold) = (level(&made.hot), level(&made.cold));
    for (entry, original) in made.hot.iter().flat_map(|t| &t.entries) {
        let waits = *original > cut.seq && hot.1.covering(&entry.0, seq_of(entry.1)).is_some();
        assert!(free(&entry.0) && (is_young(entry, *original) || waits), "seed {seed}: {entry:?} of {original} went up");
    }
    let mut sunk = 0;
    for (entry, original) in made.cold.iter().flat_map(|t| &t.entries) {
        let young = is_young(entry, *original);
        sunk += u64::from(young);
        let follows = || cold.0.iter().any(|other| other.0 == entry.0 && other.1 > entry.1);
        let is_odd = seq_of(entry.1) == 0 || *original <= cut.seq;
        let meets = || is_odd && cold.1.covering(&entry.0, MAX_SEQ).is_some();
        assert!(!young || !free(&entry.0) || follows() || meets(), "seed {seed}: {entry:?} of {original} went down");
    }
    assert_eq!(made.placed, Placed { hot: hot.0.len() as u64, cold: cold.0.len() as u64 - sunk, sunk }, "seed {seed}");
    for fragment in hot.1.fragments() {
        assert!(fragment.seqs.iter().all(|seq| *seq > cut.seq) && free(&fragment.start), "seed {seed}: {fragment:?}");
    }
    let young = Young { after: cut.seq, since: cut.time };
    for table in &made.hot {
        let mut info = table.info();
        assert!(young.due(&info) == 0 && keep(&mut info, cut), "seed {seed}: {info:?} would be merged again under {cut:?}");
    }
    let tombstones = RangeTombstones::union(sources.iter().map(|s| &*s.1));
    assert_eq!(RangeTombstones::union([&*hot.1, &*cold.1]), rules.surviving(&tombstones), "seed {seed}");
    let one = route(sources, rules, None, 1 << 40);
    let mut all = [hot.0, cold.0].concat();
    all.sort_by(order);
    assert_eq!(all, level(&one.cold).0, "seed {seed}: the same entries as with one output");
    for tables in [&made.hot, &made.cold] {
        let firsts = |t: &Made| t.entries.first().map(|e| e.0.0.clone());
        assert!(tables.windows(2).all(|w| firsts(&w[0]) < firsts(&w[1]) || w.iter().any(|t| t.entries.is_empty())), "seed {seed}");
    }
}

/// The pick of tables and their division agree: under a later cut, something goes down (or is found to wait for its number) if and only if
/// a table says so.
#[test]
fn a_table_is_due_if_a_merge_would_take_something_down() {
    let all = [Span::default()];
    let (mut due, mut not, mut waits) = (0, 0, 0);
    for seed in 0..4000 {
        let mut rng = Rng(seed);
        let case = Case::random(&mut rng);
        let to = case.parts.1;
        let old = Cut { seq: rng.below(to as u64 + 1), time: rng.below(260) };
        let hot = route(&[written(&case.history, 0, to)], &case.rules(Some(old), 0), Some((old, &all)), 1 << 20).hot;
        let [table] = hot.as_slice() else { continue };
        let later = Cut { seq: old.seq + rng.below(20), time: old.time + rng.below(20) };
        let bound = table.entries.iter().filter(|e| seq_of(e.0.1) == 0).map(|e| e.1).max().unwrap_or(0);
        let is_due = |table: &Made, old: Cut| Young { after: old.seq, since: old.time }.due(&table.info()) > 0;
        let again = route(&[level(&hot)], &case.rules(None, bound), Some((later, &all)), 1 << 20);
        let sinks = !again.cold.is_empty();
        if !is_due(table, later) {
            not += 1;
            assert!(!sinks, "seed {seed}: {later:?}");
        } else if sinks {
            due += 1;
        } else {
            waits += 1;
            assert!(again.hot.iter().all(|table| !is_due(table, later)), "seed {seed}: {later:?}");
        }
    }
    assert!(due > 500 && not > 500 && waits > 10, "{due} {not} {waits}");
}

#[test]
fn a_merge_that_changed_nothing_is_not_done_again_under_the_same_cut() {
    let old = Cut { seq: 50, time: 100 };
    let young = Young { after: old.seq, since: old.time };
    // It says of itself what cannot be, as the merge put it up.
    let timed = Some(OwnTimes { entries: 5, times: (90, 300), others: (40, 80) });
    for (timed, kept) in [(None, (51, 80)), (timed, (51, 80))] {
        let mut table = TableInfo { bytes: 1000, entries: 10, min_seq: 40, max_seq: 80, timed, ..TableInfo::default() };
        assert!(young.due(&table) > 0);
        assert!(!keep(&mut table, old));
        assert_eq!((young.due(&table), table.by_number(), table.min_seq), (0, Some(kept), 40));
        assert_eq!(table.by_time(), timed.map(|_| (101, 300)));
        assert!(keep(&mut table, old), "it is told once");
        let later = Young { after: 60, since: 100 };
        assert!(later.due(&table) > 0, "time goes on");
    }
}

#[test]
fn a_zeroed_version_does_not_rise_over_what_stays_below() {
    let all = [Span::default()];
    let operator = Append { partial: true };
    let rules = Rules {
        snapshots: &[40, 100],
        is_copy: false,
        bottommost: true,
        zero_up_to: None,
        expired: None,
        apart: None,
        zeroed_seq: 60,
        merge: Some(&operator),
        filter: None,
        level: 6,
        heat: None,
    };
    let entry = |key: &str, seq: Seq, kind: Kind| (key.as_bytes().to_vec(), trailer(seq, kind), b"v".to_vec());
    // `a`: a newer version goes down. `b`: an older range tombstone that a snapshot needs. `c`: nothing.
    let entries = vec![entry("a", 50, Kind::Value), entry("a", 0, Kind::Value), entry("b", 0, Kind::Value), entry("c", 0, Kind::Value)];
    let tombstones = Arc::new(RangeTombstones::new([(b"b".to_vec(), b"bb".to_vec(), 50)]));
    let made = route(&[(entries, tombstones)], &rules, Some((Cut { seq: 55, time: 0 }, &all)), 1 << 20);
    let keys = |tables: &[Made]| -> Vec<(Vec<u8>, Seq)> {
        tables.iter().flat_map(|t| t.entries.iter().map(|e| (e.0.0.clone(), seq_of(e.0.1)))).collect()
    };
    assert_eq!(keys(&made.hot), [(b"c".to_vec(), 0)]);
    assert_eq!(keys(&made.cold), [(b"a".to_vec(), 50), (b"a".to_vec(), 0), (b"b".to_vec(), 0)]);
    assert_eq!(made.placed, Placed { hot: 1, cold: 1, sunk: 2 });
}

#[test]
fn a_time_of_its_own_does_not_take_a_value_past_others() {
    let all = [Span::default()];
    let rules = Rules {
        snapshots: &[10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
        is_copy: false,
        bottommost: true,
        zero_up_to: None,
        expired: None,
        apart: None,
        zeroed_seq: 0,
        merge: None,
        filter: None,
        level: 6,
        heat: None,
    };
    let entry = |key: &str, seq: Seq, time: Option<u64>| {
        let mut stored = Vec::new();
        match time {
            Some(time) => put_timed(&mut stored, time, b"v"),
            None => stored.push(b'v'),
        }
        (key.as_bytes().to_vec(), trailer(seq, if time.is_some() { Kind::TimedValue } else { Kind::Value }), stored)
    };
    let (old, young) = (Some(5), Some(500));
    let entries = vec![
        // Older than its number, and what lies below it comes along.
        entry("a", 95, old),
        entry("a", 85, None),
        // The same under a range tombstone that stays above.
        entry("b", 95, old),
        // Younger than its number: it rises over nothing, but not over a newer version that is old, or a newer range tombstone.
        entry("c", 45, young),
        entry("d", 48, None),
        entry("d", 35, young),
        entry("e", 35, young),
        // An older range tombstone may stay below.
        entry("f", 45, young),
    ];
    let range = |from: &str, to: &str, seq| (from.as_bytes().to_vec(), to.as_bytes().to_vec(), seq);
    let tombstones = Arc::new(RangeTombstones::new([range("b", "bb", 85), range("e", "ee", 45), range("f", "ff", 35)]));
    let made = route(&[(entries, tombstones)], &rules, Some((Cut { seq: 50, time: 100 }, &all)), 1 << 20);
    let keys = |tables: &[Made]| -> Vec<String> {
        let text = |e: &Entry| format!("{}{}", String::from_utf8_lossy(&e.0), seq_of(e.1));
        tables.iter().flat_map(|t| t.entries.iter().map(|e| text(&e.0))).collect()
    };
    assert_eq!(keys(&made.hot), ["b95", "c45", "f45"]);
    assert_eq!(keys(&made.cold), ["a95", "a85", "d48", "d35", "e35"]);
}

#[test]
fn tables_end_where_a_span_does_and_tombstones_fill_spans_without_entries() {
    let span = |from: &str, to: &str| Span { from: Some(from.into()), to: Some(to.into()) };
    let spans = [span("b", "c"), span("d", "e"), span("f", "g")];
    let rules = Rules {
        snapshots: &[],
        is_copy: false,
        bottommost: false,
        zero_up_to: None,
        expired: None,
        apart: None,
        zeroed_seq: 0,
        merge: None,
        filter: None,
        level: 6,
        heat: None,
    };
    let value = |key: &str| (key.as_bytes().to_vec(), trailer(9, Kind::Value), b"v".to_vec());
    let tombstones = Arc::new(RangeTombstones::new([(b"a".to_vec(), b"z".to_vec(), 8), (b"c".to_vec(), b"dd".to_vec(), 3)]));
    let made =
        route(&[(["a", "b1", "b2", "c1", "f1"].map(value).to_vec(), tombstones)], &rules, Some((Cut { seq: 5, time: 0 }, &spans)), 1 << 20);
    let shape = |tables: &[Made]| -> Vec<String> {
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let keys = |t: &Made| t.entries.iter().map(|e| text(&e.0.0)).collect::<Vec<_>>().join(" ");
        let ranges = |t: &Made| {
            t.tombstones.fragments().iter().map(|f| format!(" {}-{}:{:?}", text(&f.start), text(&f.end), f.seqs)).collect::<String>()
        };
        tables.iter().map(|t| keys(t) + &ranges(t)).collect()
    };
    assert_eq!(shape(&made.hot), ["b1 b2 b-c:[8]", " d-e:[8]", "f1 f-g:[8]"]);
    assert_eq!(shape(&made.cold), ["a c1 a-b:[8] c-d:[8, 3] d-dd:[3] e-f:[8] g-z:[8]"]);
}
