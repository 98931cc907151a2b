use super::testing::{Entry, Rng, VecCursor, order};
use super::*;
use crate::key::{Kind, trailer};

fn random_sources(rng: &mut Rng, ties: bool) -> (Vec<VecCursor>, Vec<Entry>) {
    let k = rng.below(21) as usize;
    let mut lists: Vec<Vec<Entry>> = vec![Vec::new(); k];
    let common = rng.one_in(3);
    for seq in 0..rng.below(120) {
        if k == 0 {
            break;
        }
        let seq = if ties && rng.one_in(2) { 0 } else { seq + 1 };
        let source = rng.below(k as u64) as usize;
        let mut key = rng.key();
        if common {
            key.splice(0..0, *b"common");
        }
        let trailer = trailer(seq, Kind::Value);
        if !lists[source].iter().any(|e| e.0 == key && e.1 == trailer) {
            lists[source].push((key, trailer, format!("{source}").into_bytes()));
        }
    }
    // A stable sort of the lists one after the other keeps source order among equals.
    let mut model: Vec<Entry> = lists.concat();
    model.sort_by(order);
    (lists.into_iter().map(VecCursor::new).collect(), model)
}

fn check(merge: &Merge<VecCursor>, model: &[Entry], at: Option<usize>, what: &str) {
    let expected = at.and_then(|i| model.get(i));
    assert_eq!(merge.valid(), expected.is_some(), "{what}");
    if let Some((key, trailer, value)) = expected {
        assert_eq!((merge.key(), merge.trailer(), merge.value()), (&key[..], *trailer, &value[..]), "{what}");
        assert_eq!(merge.source().to_string().as_bytes(), value, "{what}");
    }
}

#[test]
fn walks_like_one_sorted_list_in_both_directions() {
    for seed in 0..600 {
        let mut rng = Rng(seed);
        let (sources, model) = random_sources(&mut rng, seed % 2 == 0);
        let shared = model.first().zip(model.last()).map_or(0, |(a, b)| a.0.iter().zip(&b.0).take_while(|(a, b)| a == b).count());
        let mut merge = if rng.one_in(2) { Merge::new(sources) } else { Merge::sharing(sources, shared) };
        check(&merge, &model, None, "new");
        let mut at = None;
        for step in 0..80 {
            let what = format!("seed {seed} step {step}");
            let valid = at.is_some_and(|i| i < model.len());
            match rng.below(20) {
                0 => {
                    merge.seek_first().unwrap();
                    at = Some(0);
                }
                1 => {
                    merge.seek_last().unwrap();
                    at = model.len().checked_sub(1);
                }
                2..4 => {
                    let (key, t) = (rng.key(), trailer(rng.below(130), Kind::Value));
                    merge.seek(&key, t).unwrap();
                    at = Some(model.partition_point(|e| compare(&e.0, e.1, &key, t) == Ordering::Less));
                }
                4..6 => {
                    let key = rng.key();
                    merge.seek_before(&key).unwrap();
                    at = model.partition_point(|e| e.0 < key).checked_sub(1);
                }
                n if valid => {
                    // Long stretches in one direction, and turns.
                    let back = if seed % 3 == 0 { n % 2 == 0 } else { step / 7 % 2 == 0 };
                    if back {
                        merge.prev().unwrap();
                        at = at.and_then(|i| i.checked_sub(1));
                    } else {
                        merge.next().unwrap();
                        at = at.map(|i| i + 1);
                    }
                }
                _ => {}
            }
            check(&merge, &model, at, &what);
        }
    }
}

#[test]
fn an_error_of_any_source_leaves_it_nowhere() {
    for fail in 0..12 {
        let list = |n: u8| VecCursor::new((0..4).map(|i| (vec![i * 3 + n], trailer(1, Kind::Value), vec![])).collect());
        let mut sources = vec![list(0), list(1), list(2)];
        sources[1].fail_at = Some(fail);
        let mut merge = Merge::new(sources);
        let mut failed = merge.seek_first().is_err();
        for step in 0..20 {
            if failed || !merge.valid() {
                break;
            }
            let back = step > 0 && step % 5 == 0;
            failed = if back { merge.prev() } else { merge.next() }.is_err();
        }
        assert!(!merge.valid());
        assert!(failed || fail > 4, "{fail}");
    }
}
