//! Edits as bytes, and states made of edits.

use super::*;
use crate::coding::put_bytes;
use crate::key::MAX_SEQ;

fn encoded(edit: &Edit) -> Vec<u8> {
    let mut out = Vec::new();
    edit.encode(&mut out);
    out
}

/// An edit with every kind of item.
fn full_edit() -> Edit {
    let from = RunLocation { level: 1, run: 0 };
    Edit {
        dropped_families: vec![300],
        new_families: vec![NewFamily { operator: "counter".into(), ..new_family(3, "users") }],
        family_settings: vec![(1, "a = 1".into())],
        db_settings: Some("b = 2".into()),
        tiers: vec![KnownTier { temperature: Temperature::Cold, number: 7, identity: 0x55 }],
        tables: in_family(
            3,
            [
                add(0, 12, table(12, "apple", "pear")),
                Change::Remove { from, number: 9 },
                Change::Move { from, to: RunLocation { level: 2, run: 0 }, number: 10 },
            ],
        ),
        flushed_logs: vec![(3, 11)],
        new_logs: vec![13],
        log_lengths: vec![(13, 5000)],
        next_number: Some(14),
        last_seq: Some(1 << 40),
        next_family: Some(4),
        time_samples: vec![(100, 1_700_000_000)],
        tier_heat: vec![TierHeat { temperature: Temperature::Cold, answered: 640, since: 1_700_000_000, until: 1_700_000_100 }],
    }
}

#[test]
fn golden_bytes() {
    let hex: String = encoded(&full_edit()).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, GOLDEN);
    assert_eq!(Edit::decode(&encoded(&full_edit())), Some(full_edit()));
}

/// Item by item, in the order of [`full_edit`].
const GOLDEN: &str = concat!(
    "0102ac02",
    "02230305757365727312",
    "7374796c65203d20226c6576656c6564220a",
    "07636f756e74657207",
    "0307010561203d2031",
    "040605",
    "62203d2032",
    "100a04075500000000000000",
    "052403000c0cf4079c03000000000000056170706c6504706561720001050000000000000000",
    "060403010009",
    "070603010002000a",
    "0802030b",
    "09010d",
    "0e030d8827",
    "0a010e",
    "0b06808080808020",
    "0c0104",
    "8d066480e2cfaa06",
    "960d04800580e2cfaa06e4e2cfaa06",
);

#[test]
fn settled_bytes_stand_behind_their_table() {
    let with = |settled| {
        let info = TableInfo { settled, ..(*table(12, "apple", "pear")).clone() };
        Edit { tables: in_family(3, [add(0, 12, Arc::new(info))]), ..Edit::default() }
    };
    let (without, bytes) = (encoded(&with(0)), encoded(&with(300)));
    assert_eq!(bytes[without.len()..], [0x94, 3, 12, 0xac, 0x02]);
    assert_eq!(Edit::decode(&bytes), Some(with(300)));
    // Of a table that the item before does not add.
    assert_eq!(Edit::decode(&bytes[without.len()..]), None);
    assert_eq!(Edit::decode(&[&without[..], &[0x94, 3, 13, 0xac, 0x02]].concat()), None);
}

#[test]
fn times_of_their_own_stand_behind_their_table() {
    let with = |timed| {
        let info = TableInfo { timed, ..(*table(12, "apple", "pear")).clone() };
        Edit { tables: in_family(3, [add(0, 12, Arc::new(info))]), ..Edit::default() }
    };
    let some = Some(OwnTimes { entries: 3, times: (5, 300), others: (1, 9) });
    let (without, bytes) = (encoded(&with(None)), encoded(&with(some)));
    assert_eq!(bytes[without.len()..], [0x95, 7, 12, 5, 0xac, 0x02, 1, 9, 3]);
    assert_eq!(Edit::decode(&bytes), Some(with(some)));
    assert_eq!(Edit::decode(&bytes[without.len()..]), None);
}

#[test]
fn random_edits_round_trip() {
    for seed in 0..100 {
        let random = &mut Random(seed);
        let mut state = ManifestState::new(DB);
        for _ in 0..100 {
            let edit = random_step(random, &state);
            assert_eq!(Edit::decode(&encoded(&edit)).as_ref(), Some(&edit), "seed {seed}");
            state.apply(&edit).unwrap_or_else(|why| panic!("seed {seed}: {why}: {edit:?}"));
        }
        let snapshot = state.snapshot_edit();
        assert_eq!(Edit::decode(&encoded(&snapshot)).as_ref(), Some(&snapshot), "seed {seed}");
        let mut again = ManifestState::new(DB);
        again.apply(&snapshot).unwrap();
        assert_eq!(again, state, "seed {seed}: the snapshot says everything");
    }
}

#[test]
fn the_order_of_table_changes_and_extreme_numbers_survive() {
    let mut edit = full_edit();
    edit.tables.reverse();
    edit.next_number = Some(u64::MAX);
    edit.dropped_families = vec![u32::MAX, 0];
    edit.time_samples = vec![(u64::MAX, 0), (0, u64::MAX)];
    edit.family_settings = vec![(0, String::new())];
    edit.new_families[0].num_levels = 255;
    let wide = TableInfo { number: u64::MAX, entries: u64::MAX, identity: u64::MAX, ..TableInfo::default() };
    edit.tables.extend(in_family(u32::MAX, [add(usize::MAX, u64::MAX, Arc::new(wide))]));
    assert_eq!(Edit::decode(&encoded(&edit)), Some(edit));
}

#[test]
fn damaged_edits_are_refused_without_a_panic() {
    let good = encoded(&full_edit());
    // An edit ends where its bytes end, so a cut at an item's end is an edit; the framed log's checksum is what finds that.
    let whole = (0..good.len()).filter(|len| Edit::decode(&good[..*len]).is_some()).count();
    assert_eq!(whole, 16, "one per item");
    for seed in 0..20_000 {
        let random = &mut Random(seed);
        let mut bytes = good.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next() as u8;
        }
        if let Some(edit) = Edit::decode(&bytes) {
            let mut state = ManifestState::new(DB);
            let _ = state.apply(&edit);
        }
    }
}

#[test]
fn unknown_items_are_skipped_only_if_they_say_so() {
    for (tag, fine) in [(0x00, false), (0x0e, false), (0x7f, false), (0x8e, true), (0xff, true)] {
        let mut bytes = encoded(&full_edit());
        bytes.push(tag);
        put_bytes(&mut bytes, b"from the future");
        assert_eq!(Edit::decode(&bytes), fine.then(full_edit), "{tag:#x}");
    }
    // A known item with more in it than we know, and one that may be there only once.
    assert_eq!(Edit::decode(&[0x0a, 2, 5, 5]), None);
    assert_eq!(Edit::decode(&[0x0a, 1, 5, 0x0a, 1, 6]), None);
    assert_eq!(Edit::decode(&[0x04, 3, 2, 0xff, 0xfe]), None, "not UTF-8");
    assert_eq!(Edit::decode(&[0x05, 0xff, 0xff, 0xff, 0xff, 0x0f]), None, "a length beyond the end");
    assert_eq!(Edit::decode(&[]), Some(Edit::default()));
}

fn small_state() -> ManifestState {
    let mut state = ManifestState::new(DB);
    let edit = Edit {
        new_families: vec![new_family(0, "default"), new_family(1, "users")],
        tables: in_family(0, [add(0, 4, table(4, "a", "m"))]),
        new_logs: vec![2, 3, 5],
        ..Edit::default()
    };
    state.apply(&edit).unwrap();
    state
}

#[test]
fn an_edit_that_makes_no_sense_changes_nothing() {
    let mut state = small_state();
    let before = state.clone();
    let table_5 = || in_family(0, [add(0, 9, table(9, "a", "b"))]);
    let wrong = [
        ("no such family to drop", Edit { dropped_families: vec![2], ..Edit::default() }),
        ("dropped twice", Edit { dropped_families: vec![1, 1], ..Edit::default() }),
        ("an id that was used", Edit { new_families: vec![new_family(1, "third")], ..Edit::default() }),
        ("a name that exists", Edit { new_families: vec![new_family(2, "users")], ..Edit::default() }),
        ("no levels", Edit { new_families: vec![NewFamily { num_levels: 0, ..new_family(2, "third") }], ..Edit::default() }),
        ("ids used up", Edit { new_families: vec![new_family(u32::MAX, "third")], ..Edit::default() }),
        ("settings of nobody", Edit { family_settings: vec![(2, String::new())], ..Edit::default() }),
        ("flushed log of nobody", Edit { flushed_logs: vec![(2, 3)], ..Edit::default() }),
        ("a log that exists", Edit { new_logs: vec![3], ..Edit::default() }),
        ("log numbers used up", Edit { new_logs: vec![u64::MAX], ..Edit::default() }),
        ("a table of a dropped family", Edit { dropped_families: vec![0], tables: table_5(), ..Edit::default() }),
        ("a number that exists", Edit { tables: in_family(0, [add(1, 0, table(4, "x", "y"))]), ..Edit::default() }),
        (
            "a tier of no temperature",
            Edit { tiers: vec![KnownTier { temperature: Temperature::Unknown, number: 9, identity: 1 }], ..Edit::default() },
        ),
        ("sequence numbers used up", Edit { last_seq: Some(MAX_SEQ + 1), ..Edit::default() }),
    ];
    for (what, mut edit) in wrong {
        edit.db_settings = Some("changed".into());
        edit.next_number = Some(1000);
        assert!(state.apply(&edit).is_err(), "{what}");
        assert_eq!(state, before, "{what}");
    }
}

#[test]
fn counters_rise_above_all_that_is_mentioned_and_never_fall() {
    let mut state = small_state();
    assert_eq!((state.next_number, state.last_seq, state.next_family), (6, 5, 2));
    state.apply(&Edit { next_number: Some(3), last_seq: Some(1), next_family: Some(1), ..Edit::default() }).unwrap();
    assert_eq!((state.next_number, state.last_seq, state.next_family), (6, 5, 2));
    state.apply(&Edit { next_number: Some(30), last_seq: Some(40), next_family: Some(50), ..Edit::default() }).unwrap();
    assert_eq!((state.next_number, state.last_seq, state.next_family), (30, 40, 50));
}

#[test]
fn a_log_is_needed_until_every_family_is_past_it() {
    let mut state = small_state();
    let mut flushed = |pairs: &[(u32, u64)]| {
        state.apply(&Edit { flushed_logs: pairs.to_vec(), ..Edit::default() }).unwrap();
        (state.logs.iter().copied().collect::<Vec<_>>(), state.newest_log())
    };
    assert_eq!(flushed(&[(0, 5)]), (vec![2, 3, 5], Some(5)));
    assert_eq!(flushed(&[(1, 3)]), (vec![3, 5], Some(5)));
    assert_eq!(flushed(&[(1, 2)]), (vec![3, 5], Some(5)), "never back");
    assert_eq!(flushed(&[(1, 5)]), (vec![5], Some(5)));
    // A dropped family needs nothing.
    let mut state = small_state();
    let edit = Edit { dropped_families: vec![1], flushed_logs: vec![(0, 5)], ..Edit::default() };
    state.apply(&edit).unwrap();
    assert_eq!(state.newest_log(), Some(5));
    assert_eq!(state.logs.len(), 1);
    // Its name can be used again, its id cannot.
    state.apply(&Edit { new_families: vec![new_family(2, "users")], ..Edit::default() }).unwrap();
    assert_eq!(state.family("users").map(|f| f.id), Some(2));
}

#[test]
fn samples_of_the_time_are_kept_the_denser_the_newer_they_are() {
    let mut state = ManifestState::new(DB);
    for seq in 1..=5000u64 {
        state.apply(&Edit { time_samples: vec![(seq, seq * 10)], ..Edit::default() }).unwrap();
    }
    let samples = state.times.samples();
    assert_eq!((samples.first(), samples.last()), (Some(&(1, 10)), Some(&(5000, 50_000))));
    assert!(samples.len() < 700, "{} samples", samples.len());
    for pair in samples.windows(2) {
        assert!(pair[1].1 - pair[0].1 <= 10.max((50_000 - pair[1].1) / 100), "{pair:?}: a gap is small against its age");
    }
    assert_eq!(state.last_seq, 5000, "the numbers count as used");
    let beyond = Edit { time_samples: vec![(MAX_SEQ + 1, 60_000)], ..Edit::default() };
    let before = state.clone();
    assert!(state.apply(&beyond).unwrap_err().contains("larger than any"));
    assert_eq!(state, before);
}

#[test]
fn samples_of_a_clock_that_went_back_make_nothing_older() {
    let mut state = ManifestState::new(DB);
    let samples = [(100, 1000), (200, 500), (200, 2000), (150, 3000), (300, 1500)];
    samples.iter().for_each(|sample| state.apply(&Edit { time_samples: vec![*sample], ..Edit::default() }).unwrap());
    assert_eq!(state.times.samples(), [(200, 1000), (300, 1500)]);
}
