use super::super::block_builder::BlockBuilder;
use super::super::index::shared_prefix;
use super::*;
use crate::coding::varint_len;
use crate::key::trailer;

type Row = (Vec<u8>, u64, Vec<u8>);

fn build(rows: &[Row]) -> Vec<u8> {
    let mut builder = BlockBuilder::default();
    let mut out = Vec::new();
    let mut last: &[u8] = &[];
    for (key, trailer, value) in rows {
        builder.add(key, shared_prefix(last, key), *trailer, value);
        last = key;
    }
    builder.finish(&mut out);
    out
}

fn check(rows: &[Row]) {
    let stored = build(rows);
    let block = Block::parse(&stored).unwrap();
    let (layout, bytes) = (block.layout(), block.data());
    let in_place = Layout::parse(&stored).unwrap();
    assert_eq!((block.count(), in_place.count()), (rows.len(), rows.len()));
    let (mut position, mut scan) = (Position::default(), Position::default());
    for (i, (key, trailer, value)) in rows.iter().enumerate() {
        if i == 0 {
            position.enter(&block, 0).unwrap();
            scan.start(&in_place, &stored).unwrap();
        } else {
            position.advance(layout, bytes).unwrap();
            scan.advance(&in_place, &stored).unwrap();
        }
        assert_eq!((position.key(), position.trailer(), position.value(bytes)), (key.as_slice(), *trailer, value.as_slice()));
        assert_eq!((scan.key(), scan.trailer(), scan.value(&stored)), (key.as_slice(), *trailer, value.as_slice()));
        assert_eq!(block.lower_bound(key, *trailer), Some(i));
        let first = rows.partition_point(|r| r.0 < *key);
        assert_eq!(block.lower_bound(key, u64::MAX), Some(first));
        let snapshot = key::seq_of(*trailer);
        let mut seen = Vec::new();
        let flow = block.get(key, snapshot, |seq, kind, value| {
            seen.push((seq << 8 | kind as u64, value.to_vec()));
            ControlFlow::Continue(())
        });
        let versions: Vec<_> = rows.iter().filter(|r| r.0 == *key && key::seq_of(r.1) <= snapshot).map(|r| (r.1, r.2.clone())).collect();
        assert_eq!(seen, versions);
        assert_eq!(flow.unwrap().is_continue(), rows.last().unwrap().0 == *key);
    }
    for probe in [&b""[..], b"\0", b"k", b"key", b"\xff\xff\xff\xff", b"key\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"] {
        assert_eq!(block.lower_bound(probe, u64::MAX), Some(rows.partition_point(|r| r.0.as_slice() < probe)), "{probe:?}");
    }
    assert_eq!((position.end(), scan.end()), (bytes.len(), stored.len()));
    position.enter(&block, rows.len() - 1).unwrap();
    for i in (0..rows.len()).rev() {
        position.go(&block, i).unwrap();
        assert_eq!(position.key(), rows[i].0);
    }
    assert!(block.entry(rows.len()).is_none());
}

fn rows(keys: impl IntoIterator<Item = Vec<u8>>, seq: impl Fn(usize) -> u64, value: impl Fn(usize) -> Vec<u8>) -> Vec<Row> {
    keys.into_iter().enumerate().map(|(i, key)| (key, trailer(seq(i), Kind::Value), value(i))).collect()
}

#[test]
fn shapes_round_trip() {
    check(&rows([vec![]], |_| 0, |_| vec![]));
    check(&rows([vec![], vec![0], vec![0, 0], vec![0, 0, 0]], |_| 0, |_| vec![]));
    check(&rows([b"key".to_vec()], |_| MAX_SEQ, |_| vec![9; 3 << 20]));
    check(&rows((0..200u32).map(|i| format!("key{i:05}").into_bytes()), |i| i as u64 * 1000, |i| vec![1; i]));
    check(&rows((0..40u8).map(|i| vec![0xff; usize::from(i)]), |i| [0, MAX_SEQ, 1][i % 3], |i| vec![2; i * 7]));
    check(&rows((0..17u8).map(|i| vec![i]), |i| 1 << (i * 3), |_| vec![3; 200]));
    // Wide offsets, and just around the border.
    for n in [600, 640, 648, 650, 655, 700, 3000] {
        check(&rows((0..n as u32).map(|i| i.to_be_bytes().to_vec()), |i| 5 + i as u64 % 3, |_| vec![4; 89]));
    }
    // A long common prefix, and a key that is that prefix.
    let prefix = vec![b'p'; 70_000];
    check(&rows((0..20u8).map(|i| [prefix.clone(), vec![i; usize::from(i)]].concat()), |_| 3, |_| b"v".to_vec()));
}

#[test]
fn tags_of_similar_suffixes_are_as_different_as_chance_makes_them() {
    type Suffix = fn(u64) -> Vec<u8>;
    let kinds: [(&str, Suffix); 7] = [
        ("one byte", |i| vec![(i % 256) as u8]),
        ("big-endian", |i| i.to_be_bytes()[6..].to_vec()),
        ("big-endian, in steps", |i| (i << 20).to_be_bytes().to_vec()),
        ("decimal", |i| format!("{i:05}").into_bytes()),
        ("decimal, random, of 16 digits", |i| format!("{:016}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 10u64.pow(16)).into_bytes()),
        ("a number between words", |i| format!("1:{i}:name").into_bytes()),
        ("a number behind a long word", |i| format!("the-same-for-all-of-them:{i:x}").into_bytes()),
    ];
    for (name, suffix) in kinds {
        let n = if name == "one byte" { 256 } else { 1000u64 };
        let mut by_tag = [0u64; 256];
        (0..n).for_each(|i| by_tag[usize::from(tag(&suffix(i)))] += 1);
        let equal: u64 = by_tag.iter().map(|count| count * count.saturating_sub(1) / 2).sum();
        assert!(equal <= n * n / 512 * 3 / 2, "{name}: {equal} of {n} suffixes in pairs of one tag");
    }
}

#[test]
fn versions_and_kinds() {
    let kinds = [Kind::Value, Kind::Delete, Kind::Merge, Kind::ValueReference];
    let rows: Vec<Row> = (0..6u8)
        .flat_map(|k| (0..20u64).rev().map(move |s| (vec![b'k', k], trailer(s * 77, kinds[(s % 4) as usize]), vec![k; s as usize])))
        .collect();
    check(&rows);
}

#[test]
fn zeroed_sequence_numbers_cost_one_byte() {
    let keys = || (0..30u8).map(|i| vec![i; 8]);
    let zeroed = build(&rows(keys(), |_| 0, |_| vec![1; 10])).len();
    let mixed = build(&rows(keys(), |i| if i == 7 { 1 << 48 } else { 0 }, |_| vec![1; 10])).len();
    assert_eq!(zeroed + varint_len(1 << 48) - 1, mixed);
    assert_eq!(zeroed, 3 + 30 * (3 + 8 + 10));
}

#[test]
fn damaged_blocks_never_panic() {
    let good = build(&rows((0..40u8).map(|i| vec![1, 1, i, i]), |i| i as u64, |i| vec![4; i]));
    let poke = |bytes: Vec<u8>| {
        let mut position = Position::default();
        if let Some(layout) = Layout::parse(&bytes)
            && position.start(&layout, &bytes).is_some()
        {
            for _ in 1..layout.count().min(50) {
                if position.advance(&layout, &bytes).is_none() {
                    break;
                }
                assert!(position.value(&bytes).len() <= bytes.len());
            }
        }
        let Some(block) = Block::parse(&bytes) else { return };
        for i in [0, block.count() / 2, block.count() - 1] {
            assert!(block.lower_bound(&[1, 1, i as u8, i as u8], 0).is_some());
            assert!(block.get(&[1, 1, 2, 2], MAX_SEQ, |_, _, _| ControlFlow::Continue(())).is_some());
            assert!(position.enter(&block, i).is_some());
        }
        assert!(position.enter(&block, block.count()).is_none() && position.enter(&block, usize::MAX).is_none());
    };
    let mut seed = 3u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        seed >> 33
    };
    for n in 0..good.len() {
        poke(good[..n].to_vec());
        for flip in [1, 2, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[n] ^= flip;
            poke(bytes);
        }
    }
    for _ in 0..50_000 {
        let mut bytes: Vec<u8> = (0..random() % 100).map(|_| random() as u8).collect();
        // Small numbers in the head, so that more than the head is reached.
        for byte in bytes.iter_mut().take(3) {
            *byte %= 8;
        }
        poke(bytes);
    }
}

#[test]
fn short_and_long_heads_agree() {
    let mut seed = 5u64;
    for _ in 0..200_000 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let word = (seed ^ seed >> 29) & [u64::MAX, 0xffff_ffff_ffff_7f7f, 0xffff_007f_ff7f_7f7f][(seed >> 62) as usize % 3];
        let mut bytes = word.to_le_bytes().to_vec();
        bytes.resize(400, 0);
        if let Some(head) = short_head(word) {
            assert_eq!(long_head(&bytes), Some(head), "{word:x}");
        }
    }
}
