use super::*;
use crate::key::MAX_SEQ;
use crate::merge::Merge;
use crate::merge::testing::{Append, Entry, Rng, VecCursor, Write, entries, history, order, replay, time_of};
use crate::visible::VisibleCursor;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

static NO: AtomicBool = AtomicBool::new(false);

fn never() -> Rests<'static> {
    Rests::new(&NO, &NO, None)
}

#[derive(Default)]
struct List {
    entries: Vec<Entry>,
    originals: Vec<Seq>,
}

impl Sink for List {
    fn add(&mut self, key: &[u8], trailer: u64, value: &[u8], original_seq: Seq, first_of_key: bool) -> Result<()> {
        let entry = (key.to_vec(), trailer, value.to_vec());
        if let Some(last) = self.entries.last() {
            assert_eq!(order(last, &entry), Ordering::Less, "output ascends");
            assert_eq!(first_of_key, last.0 != key, "the first of a key is told");
        }
        self.entries.push(entry);
        self.originals.push(original_seq);
        Ok(())
    }
}

/// Removes values that end in 3, changes those that end in 5.
struct Digits;

fn digits(value: &[u8]) -> Decision {
    match value.last() {
        Some(b'3') => Decision::Remove,
        Some(b'5') => Decision::Change(b"changed".to_vec()),
        _ => Decision::Keep,
    }
}

impl CompactionFilter for Digits {
    fn filter(&self, _level: u8, _key: &[u8], value: &[u8]) -> Decision {
        digits(value)
    }
}

type Level = (Vec<Entry>, Arc<RangeTombstones>);
type View = BTreeMap<Vec<u8>, Vec<u8>>;

fn level(history: &[Write], from: usize, to: usize) -> Level {
    let (points, ranges) = entries(history, from, to);
    (points, Arc::new(RangeTombstones::new(ranges)))
}

/// Keys and values that a reader sees, walking forwards and backwards.
fn view(levels: &[Level], snapshot: Seq, operator: &Arc<Append>) -> View {
    let sources = levels.iter().map(|level| VecCursor::new(level.0.clone())).collect();
    let tombstones = levels.iter().map(|level| level.1.clone()).collect();
    let mut cursor = VisibleCursor::new(Merge::new(sources), tombstones, snapshot, Some(operator.clone()), None, None);
    let (mut forward, mut backward) = (View::new(), View::new());
    cursor.seek_first().unwrap();
    while cursor.valid() {
        forward.insert(cursor.key().to_vec(), cursor.value().to_vec());
        cursor.next().unwrap();
    }
    cursor.seek_last().unwrap();
    while cursor.valid() {
        backward.insert(cursor.key().to_vec(), cursor.value().to_vec());
        cursor.prev().unwrap();
    }
    assert_eq!(forward, backward);
    forward
}

/// Compacts writes `from..to` of a history, which lie in several sources, cut into pieces by key.
fn compact(rng: &mut Rng, history: &[Write], (from, to): (usize, usize), rules: &Rules<'_>) -> (Level, List) {
    let mut cuts = vec![from, to];
    cuts.extend((0..rng.below(5)).map(|_| from + rng.below((to - from) as u64 + 1) as usize));
    cuts.sort();
    let sources: Vec<Level> = cuts.windows(2).rev().map(|w| level(history, w[0], w[1])).collect();
    let tombstones = RangeTombstones::union(sources.iter().map(|s| &*s.1));
    let merge = || Merge::new(sources.iter().map(|s| VecCursor::new(s.0.clone())).collect());
    let mut whole = List::default();
    let counts = collapse(merge(), (None, None), &tombstones, rules, never(), &mut whole).unwrap().unwrap();
    assert_eq!(counts.entries_in, sources.iter().map(|s| s.0.len() as u64).sum::<u64>());
    assert_eq!(counts.entries_out, whole.entries.len() as u64);
    assert!(counts.entries_out <= counts.entries_in);
    // Pieces by key range give the same.
    let (mut pieces, mut tombstone_pieces, mut sum) = (List::default(), Vec::new(), Counts::default());
    let mut bounds: Vec<Option<Vec<u8>>> = (0..rng.below(4)).map(|_| Some(rng.key())).collect();
    bounds.push(None);
    bounds.sort();
    bounds.push(None);
    for w in bounds.windows(2) {
        let range = (w[0].as_deref(), w[1].as_deref());
        let clipped = tombstones.clip(range.0, range.1);
        let counts = collapse(merge(), range, &clipped, rules, never(), &mut pieces).unwrap().unwrap();
        tombstone_pieces.push(rules.surviving(&clipped));
        sum = Counts { entries_in: sum.entries_in + counts.entries_in, entries_out: sum.entries_out + counts.entries_out };
    }
    let surviving = rules.surviving(&tombstones);
    assert_eq!((&pieces.entries, sum), (&whole.entries, counts));
    assert_eq!(RangeTombstones::union(&tombstone_pieces), surviving);
    ((whole.entries.clone(), Arc::new(surviving)), whole)
}

struct Case {
    history: Vec<Write>,
    from: usize,
    to: usize,
    snapshots: Vec<Seq>,
    operator: Arc<Append>,
}

impl Case {
    fn random(rng: &mut Rng, merges: bool) -> Case {
        let writes = 20 + rng.below(200);
        let ranges = rng.one_in(2);
        let history = history(rng, writes, merges, ranges);
        let to = if rng.one_in(2) { history.len() } else { rng.below(writes + 1) as usize };
        let from = if rng.one_in(2) { 0 } else { rng.below(to as u64 + 1) as usize };
        // Some of the writes may not be visible to anyone yet.
        let visible = if rng.one_in(4) { rng.below(writes + 1) } else { writes };
        let mut snapshots: Vec<Seq> = (0..rng.below(5)).map(|_| rng.below(visible + 1)).collect();
        snapshots.sort();
        snapshots.push(visible);
        Case { history, from, to, snapshots, operator: Arc::new(Append { partial: rng.one_in(2) }) }
    }

    fn rules(&self) -> Rules<'_> {
        Rules {
            snapshots: &self.snapshots,
            is_copy: false,
            bottommost: self.from == 0,
            zero_up_to: Some(Cut::ALL),
            expired: None,
            apart: None,
            zeroed_seq: 0,
            merge: Some(&*self.operator),
            filter: None,
            level: 3,
            heat: None,
        }
    }

    /// Newer data, the compacted part, older data.
    fn levels(&self, middle: Level) -> Vec<Level> {
        vec![level(&self.history, self.to, self.history.len()), middle, level(&self.history, 0, self.from)]
    }

    fn visible(&self) -> Seq {
        self.snapshots[self.snapshots.len() - 1]
    }
}

#[test]
fn no_reader_can_tell_that_a_merge_took_place() {
    for seed in 0..1500 {
        let mut rng = Rng(seed);
        let merges = rng.one_in(2);
        let case = Case::random(&mut rng, merges);
        let mut rules = case.rules();
        let cut = Cut { seq: rng.below(case.history.len() as u64 + 1), time: rng.below(260) };
        rules.zero_up_to = [None, Some(cut), Some(Cut::ALL)][rng.below(3) as usize];
        if rng.one_in(5) {
            rules.merge = None;
        }
        let (compacted, list) = compact(&mut rng, &case.history, (case.from, case.to), &rules);
        let levels = case.levels(compacted);
        // Live snapshots, and those that may still be taken.
        let later = case.visible()..=case.history.len() as Seq;
        for snapshot in case.snapshots.iter().copied().chain(later).chain([MAX_SEQ]) {
            let expected = replay(&case.history, snapshot.min(case.history.len() as Seq));
            assert_eq!(view(&levels, snapshot, &case.operator), expected, "seed {seed} snapshot {snapshot} of {:?}", case.snapshots);
        }
        for (entry, original) in list.entries.iter().zip(&list.originals) {
            let seq = seq_of(entry.1);
            let zeroed = seq == 0 && case.from == 0 && rules.zero_up_to.is_some_and(|cut| *original <= cut.seq);
            assert!(zeroed || seq == *original && case.from < seq as usize, "seed {seed}");
            assert!(*original as usize <= case.to, "seed {seed}");
        }
    }
}

#[test]
fn a_copy_shows_its_moment_and_holds_nothing_later() {
    for seed in 0..500 {
        let mut rng = Rng(seed);
        let mut case = Case::random(&mut rng, seed % 2 == 0);
        let (all, moment) = (case.history.len(), case.visible());
        (case.from, case.to) = (0, all);
        let rules = Rules { is_copy: true, bottommost: false, ..case.rules() };
        let (copy, list) = compact(&mut rng, &case.history, (0, all), &rules);
        assert!(list.originals.iter().all(|seq| *seq <= moment), "seed {seed}");
        assert!(copy.1.fragments().iter().flat_map(|fragment| &fragment.seqs).all(|seq| *seq <= moment), "seed {seed}");
        for snapshot in case.snapshots.iter().copied().chain([MAX_SEQ]) {
            let expected = replay(&case.history, snapshot.min(moment));
            assert_eq!(view(std::slice::from_ref(&copy), snapshot, &case.operator), expected, "seed {seed} snapshot {snapshot}");
        }
    }
}

#[test]
fn at_the_bottom_without_snapshots_exactly_the_visible_values_are_left() {
    for seed in 0..500 {
        let mut rng = Rng(seed);
        let mut case = Case::random(&mut rng, seed % 2 == 0);
        let all = case.history.len();
        (case.from, case.to, case.snapshots) = (0, all, vec![all as Seq]);
        let ((entries, tombstones), _) = compact(&mut rng, &case.history, (0, all), &case.rules());
        let zero = trailer(0, Kind::Value);
        let expected: Vec<Entry> = replay(&case.history, all as Seq).into_iter().map(|(k, v)| (k, zero, v)).collect();
        assert_eq!(entries, expected, "seed {seed}");
        assert!(tombstones.is_empty(), "seed {seed}");
    }
}

#[test]
fn per_key_and_stripe_one_version_is_left() {
    for seed in 0..500 {
        let mut rng = Rng(seed);
        let case = Case::random(&mut rng, false);
        let rules = case.rules();
        let ((entries, tombstones), _) = compact(&mut rng, &case.history, (case.from, case.to), &rules);
        let mut seen = std::collections::HashSet::new();
        for (key, trailer, _) in entries {
            let stripe = rules.stripe(seq_of(trailer));
            assert!(stripe == case.snapshots.len() || seen.insert((key.clone(), stripe)), "seed {seed} key {key:?}");
        }
        for fragment in tombstones.fragments() {
            let stripes: Vec<usize> = fragment.seqs.iter().map(|&seq| rules.stripe(seq)).filter(|&s| s < case.snapshots.len()).collect();
            assert!(stripes.is_sorted_by(|a, b| a > b), "seed {seed}");
        }
    }
}

/// The newest visible write to a key, if it is a plain value.
fn newest_value(history: &[Write], key: &[u8], visible: Seq) -> Option<Seq> {
    let i = history[..visible as usize].iter().rposition(|write| match write {
        Write::Put(k, _) | Write::Delete(k) | Write::Merge(k, _) => k == key,
        Write::DeleteRange(a, b) => a.as_slice() <= key && key < b.as_slice(),
    })?;
    matches!(history[i], Write::Put(..)).then_some(i as Seq + 1)
}

#[test]
fn filter_and_time_to_live_change_only_what_no_snapshot_sees() {
    for seed in 0..1500 {
        let mut rng = Rng(seed);
        let case = Case::random(&mut rng, false);
        let mut rules = case.rules();
        if seed % 3 != 0 {
            rules.filter = Some(&Digits);
        }
        if seed % 3 != 1 {
            rules.expired = Some(Cut { seq: rng.below(case.history.len() as u64), time: rng.below(260) });
            rules.zero_up_to = None;
        }
        let (compacted, _) = compact(&mut rng, &case.history, (case.from, case.to), &rules);
        let levels = case.levels(compacted);
        let (now, older) = case.snapshots.split_last().unwrap();
        for &snapshot in older {
            if snapshot < *now {
                assert_eq!(view(&levels, snapshot, &case.operator), replay(&case.history, snapshot), "seed {seed} {snapshot}");
            }
        }
        // Values that are the newest, in the compacted part, and seen by no snapshot but the last are judged, no others.
        let mut expected = replay(&case.history, *now);
        expected.retain(|key, value| {
            let Some(seq) = newest_value(&case.history, key, *now) else { return true };
            if seq <= older.last().copied().unwrap_or(0) || seq as usize <= case.from || seq as usize > case.to {
                return true;
            }
            if rules.expired.is_some_and(|cut| cut.covers(seq, time_of(seq))) {
                return false;
            }
            match rules.filter.map_or(Decision::Keep, |_| digits(value)) {
                Decision::Keep => true,
                Decision::Remove => false,
                Decision::Change(new) => {
                    *value = new;
                    true
                }
            }
        });
        if case.snapshots.len() < 2 || older.last() < Some(now) {
            assert_eq!(view(&levels, *now, &case.operator), expected, "seed {seed} {:?}", case.snapshots);
        } else {
            assert_eq!(view(&levels, *now, &case.operator), replay(&case.history, *now), "a snapshot at the newest number, seed {seed}");
        }
    }
}

fn run(entries: &[(&str, Seq, Kind, &str)], change: impl FnOnce(&mut Rules<'_>)) -> Vec<(String, Seq, Kind, String)> {
    let operator = Append { partial: true };
    let mut rules = Rules {
        snapshots: &[100],
        is_copy: false,
        bottommost: true,
        zero_up_to: None,
        expired: None,
        apart: None,
        zeroed_seq: 50,
        merge: Some(&operator),
        filter: None,
        level: 1,
        heat: None,
    };
    change(&mut rules);
    let input = entries.iter().map(|(k, s, kind, v)| (k.as_bytes().to_vec(), trailer(*s, *kind), v.as_bytes().to_vec())).collect();
    let mut list = List::default();
    collapse(VecCursor::new(input), (None, None), &RangeTombstones::default(), &rules, never(), &mut list).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    list.entries.into_iter().map(|(k, t, v)| (text(k), seq_of(t), kind_of(t).unwrap(), text(v))).collect()
}

fn entry(key: &str, seq: Seq, kind: Kind, value: &str) -> (String, Seq, Kind, String) {
    (key.into(), seq, kind, value.into())
}

#[test]
fn operands_are_folded_as_far_as_is_known() {
    use Kind::{Delete, Merge, Value};
    let ops = [("k", 9, Merge, "c"), ("k", 8, Merge, "b"), ("k", 7, Merge, "a")];
    assert_eq!(run(&ops, |_| ()), [entry("k", 9, Value, "-abc")], "history ends at the bottom");
    assert_eq!(run(&ops, |r| r.bottommost = false), [entry("k", 9, Merge, "abc")], "a base may lie deeper");
    assert_eq!(run(&ops, |r| r.snapshots = &[]).len(), 3, "not visible yet");
    assert_eq!(run(&ops, |r| r.merge = None).len(), 3, "no operator");
    let split = run(&ops, |r| r.snapshots = &[7, 100]);
    assert_eq!(split, [entry("k", 9, Merge, "bc"), entry("k", 7, Value, "-a")], "a snapshot between them");
    let deleted = [ops[0], ("k", 8, Delete, ""), ("k", 7, Value, "x")];
    assert_eq!(run(&deleted, |r| r.bottommost = false), [entry("k", 9, Value, "-c")]);
    let refused = [("k", 9, Merge, "!"), ("k", 8, Merge, "b"), ("k", 7, Value, "a3"), ("k", 6, Value, "old")];
    let kept = run(&refused, |r| r.filter = Some(&Digits));
    assert_eq!(kept, refused[..3].iter().map(|e| entry(e.0, e.1, e.2, e.3)).collect::<Vec<_>>(), "the value below is not the newest");
    let filtered = [("k", 9, Merge, "3"), ("k", 8, Value, "a")];
    assert_eq!(run(&filtered, |r| r.filter = Some(&Digits)), [], "a folded value is filtered as any other");
    let reference = [ops[0], ("k", 8, Kind::ValueReference, "r"), ("k", 7, Value, "x")];
    assert_eq!(run(&reference, |_| ()), [entry("k", 9, Merge, "c"), entry("k", 8, Kind::ValueReference, "r")]);
}

#[test]
fn a_zeroed_value_expires_no_earlier_than_the_newest_that_it_can_be() {
    let value = [("k", 0, Kind::Value, "v")];
    let through = |seq| Some(Cut { seq, time: 1000 });
    assert_eq!(run(&value, |r| r.expired = through(49)).len(), 1);
    assert_eq!(run(&value, |r| r.expired = through(50)).len(), 0);
    let operands = [("k", 9, Kind::Merge, "b"), ("k", 8, Kind::Merge, "a"), ("k", 7, Kind::Value, "v")];
    assert_eq!(run(&operands, |r| r.expired = through(8)), [entry("k", 9, Kind::Value, "-b")], "what has expired is as good as deleted");
    let gone = run(&operands, |r| (r.expired, r.bottommost) = (through(9), false));
    assert_eq!(gone, [entry("k", 9, Kind::Delete, "")]);
}

#[test]
fn only_what_expires_together_is_folded() {
    use Kind::{Merge, TimedValue, Value};
    let entries = [("k", 9, Merge, "d"), ("k", 8, Merge, "c"), ("k", 7, Merge, "b"), ("k", 6, Value, "a")];
    let folds = |apart: &'static [Seq]| run(&entries, |r| r.apart = Some(apart));
    assert_eq!(folds(&[5, 9]), [entry("k", 9, Value, "abcd")]);
    assert_eq!(folds(&[7]), [entry("k", 9, Merge, "cd"), entry("k", 7, Value, "ab")]);
    assert_eq!(folds(&[6]), [entry("k", 9, Merge, "bcd"), entry("k", 6, Value, "a")]);
    let over = |cut: Seq, snapshots: &'static [Seq]| {
        run(&entries, |r| {
            r.apart = Some(&[6, 7]);
            (r.expired, r.snapshots) = (Some(Cut { seq: cut, time: 0 }), snapshots);
        })
    };
    assert_eq!(over(7, &[100]), [entry("k", 9, Value, "-cd")], "onto nothing");
    assert_eq!(over(6, &[100]), [entry("k", 9, Merge, "cd"), entry("k", 7, Value, "-b")]);
    assert_eq!(over(7, &[50, 100]).len(), 3, "a snapshot sees all of it");
    let timed = [("k", 9, Merge, "b"), ("k", 8, TimedValue, "\u{5}a")];
    assert_eq!(run(&timed, |r| r.apart = Some(&[])).len(), 2, "a time of its own is never that of another");
    let zeroed = [("k", 9, Merge, "b"), ("k", 0, Value, "a")];
    assert_eq!(run(&zeroed, |r| r.apart = Some(&[])).len(), 2, "what has lost its number may be of any age");
}

#[test]
fn a_value_with_its_own_time_is_as_old_as_that() {
    use Kind::{Delete, Merge, TimedValue, Value};
    let timed = [("k", 9, TimedValue, "\u{5}a5")];
    let as_it_is = [entry("k", 9, TimedValue, "\u{5}a5")];
    let through = |seq, time| Some(Cut { seq, time });
    for (cut, is_old) in [(through(100, 4), false), (through(9, 5), true), (through(0, 5), true), (None, false)] {
        let left = if is_old { vec![] } else { as_it_is.to_vec() };
        assert_eq!(run(&timed, |r| r.expired = cut), left, "{cut:?}: its number does not matter");
        let left = if is_old { vec![entry("k", 0, Value, "a5")] } else { as_it_is.to_vec() };
        assert_eq!(run(&timed, |r| r.zero_up_to = cut), left, "{cut:?}");
        let above = run(&timed, |r| (r.zero_up_to, r.bottommost) = (cut, false));
        assert_eq!(above, as_it_is, "{cut:?}: not where something older may lie below");
    }
    let above = run(&timed, |r| (r.expired, r.bottommost) = (through(0, 5), false));
    assert_eq!(above, [entry("k", 9, Delete, "")]);
    let changed = run(&timed, |r| r.filter = Some(&Digits));
    assert_eq!(changed, [entry("k", 9, TimedValue, "\u{5}changed")], "a filter sees and changes what the user has");
    let folded = run(&[("k", 9, Merge, "b"), ("k", 8, TimedValue, "\u{5}a")], |_| ());
    assert_eq!(folded, [entry("k", 9, Value, "ab")], "a fold is as old as its operands");
    // What counts as the number that was zeroed.
    for (cut, original) in [(through(3, 5), 3), (through(0, 7), 0), (through(50, 7), 9), (Some(Cut::ALL), 9)] {
        let case = Case::random(&mut Rng(1), false);
        let rules = Rules { snapshots: &[100], bottommost: true, zero_up_to: cut, ..case.rules() };
        let input = VecCursor::new(vec![(b"k".to_vec(), trailer(9, TimedValue), b"\x05a".to_vec())]);
        let mut list = List::default();
        collapse(input, (None, None), &RangeTombstones::default(), &rules, never(), &mut list).unwrap();
        assert_eq!((list.entries, list.originals), (vec![(b"k".to_vec(), trailer(0, Value), b"a".to_vec())], vec![original]), "{cut:?}");
    }
    let input = VecCursor::new(vec![(b"k".to_vec(), trailer(9, TimedValue), vec![])]);
    let case = Case::random(&mut Rng(1), false);
    let rules = Rules { snapshots: &[100], bottommost: false, ..case.rules() };
    let result = collapse(input, (None, None), &RangeTombstones::default(), &rules, never(), &mut List::default());
    assert!(matches!(result, Err(Error::Corrupt { .. })));
}

/// Gives entries in the order of a list, sorted or not.
struct Unsorted(Vec<Entry>, usize);

impl Cursor for Unsorted {
    fn seek_first(&mut self) -> Result<()> {
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        Ok(())
    }
    fn seek(&mut self, _: &[u8], _: u64) -> Result<()> {
        Ok(())
    }
    fn seek_before(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        self.1 += 1;
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        Ok(())
    }
    fn valid(&self) -> bool {
        self.1 < self.0.len()
    }
    fn key(&self) -> &[u8] {
        &self.0[self.1].0
    }
    fn trailer(&self) -> u64 {
        self.0[self.1].1
    }
    fn value(&self) -> &[u8] {
        &self.0[self.1].2
    }
}

#[test]
fn bad_input_ends_the_merge() {
    let case = Case::random(&mut Rng(1), false);
    let check = |entries: Vec<Entry>, what: &str| {
        let result =
            collapse(Unsorted(entries, 0), (None, None), &RangeTombstones::default(), &case.rules(), never(), &mut List::default());
        assert!(result.unwrap_err().to_string().contains(what), "{what}");
    };
    let value = |key: &[u8]| (key.to_vec(), trailer(1, Kind::Value), vec![]);
    check(vec![value(b"b"), value(b"a")], "key 'a' after 'b'");
    check(vec![(b"a".to_vec(), trailer(1, Kind::RangeDelete), vec![])], "kind 3");
    check(vec![(b"a".to_vec(), 1 << 8 | 9, vec![])], "kind 9");
    // An error of the input at any move is the result, never a shorter output.
    for fail in 0..=9 {
        let mut input = VecCursor::new((0..9u8).map(|k| value(&[k])).collect());
        input.fail_at = Some(fail);
        let result = collapse(input, (None, None), &RangeTombstones::default(), &case.rules(), never(), &mut List::default());
        assert!(result.unwrap_err().to_string().contains("told to fail"), "{fail}");
    }
}

#[test]
fn it_stops_when_told_to() {
    let case = Case::random(&mut Rng(1), false);
    let yes = AtomicBool::new(true);
    for stop in [Rests::new(&yes, &NO, None), Rests::new(&NO, &yes, None)] {
        let input = VecCursor::new(vec![(b"a".to_vec(), trailer(1, Kind::Value), vec![])]);
        let result = collapse(input, (None, None), &RangeTombstones::default(), &case.rules(), stop, &mut List::default());
        assert_eq!(result.unwrap(), None);
    }
}
