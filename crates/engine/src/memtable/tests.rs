//! The memtable against a model, under concurrent readers, and under explored schedules.

use super::*;
use crate::key::MAX_SEQ;
use std::cmp::Reverse;
use std::collections::BTreeMap;

mod concurrent;

type Model = BTreeMap<(Vec<u8>, Reverse<u64>), Vec<u8>>;
type Row = (Vec<u8>, u64, Vec<u8>);

/// splitmix64
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Kinds of keys; each stresses another part of the search.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Random16,
    LongShared,
    Numbered,
    Ascending,
    Descending,
    Runs,
    PrefixesOfEachOther,
    TinyAlphabet,
    Ones,
    FewKeys,
}

const SHAPES: [Shape; 10] = [
    Shape::Random16,
    Shape::LongShared,
    Shape::Numbered,
    Shape::Ascending,
    Shape::Descending,
    Shape::Runs,
    Shape::PrefixesOfEachOther,
    Shape::TinyAlphabet,
    Shape::Ones,
    Shape::FewKeys,
];

impl Shape {
    fn key(self, random: &mut Random, step: u64) -> Vec<u8> {
        let len = |random: &mut Random, most: u64| random.below(most + 1) as usize;
        match self {
            Shape::Random16 => random.bytes(16),
            Shape::LongShared => [vec![b's'; 40 + 20 * random.below(2) as usize], random.bytes(3)].concat(),
            Shape::Numbered => format!("user{:012}", random.below(100_000)).into_bytes(),
            Shape::Ascending => format!("order{step:012}").into_bytes(),
            Shape::Descending => format!("order{:012}", u64::MAX - step).into_bytes(),
            Shape::Runs => format!("table{}/{step:08}", step / 100 * 7 % 5).into_bytes(),
            Shape::PrefixesOfEachOther => b"abcdefghabcdefghabcdefgh\0\0\0\0\0\0\0\0\0\0\0"[..len(random, 35)].to_vec(),
            Shape::TinyAlphabet => (0..len(random, 11)).map(|_| b"\0a\xff"[random.below(3) as usize]).collect(),
            Shape::Ones => [vec![0xff; len(random, 20)], vec![random.next() as u8; len(random, 1)]].concat(),
            Shape::FewKeys => vec![b'k'; random.below(3) as usize * 9],
        }
    }
}

/// Inserts in groups, as the engine does: places for the newest versions of keys are asked for before the first of the group goes in.
fn insert_group(writer: &mut MemtableWriter, model: &mut Model, group: &mut Vec<(Row, bool)>) {
    let places: Vec<_> = group.iter().map(|((key, ..), is_newest)| writer.expect(key).filter(|_| *is_newest)).collect();
    for (place, ((key, ..), _)) in places.iter().zip(&*group) {
        place.iter().for_each(|place| writer.expect_entry(*place, key));
    }
    for (place, ((key, trailer, value), _)) in places.into_iter().zip(group.drain(..)) {
        writer.insert_at(place, &key, key::seq_of(trailer), key::kind_of(trailer).unwrap(), &value);
        model.insert((key, Reverse(trailer)), value);
    }
}

fn fill(shape: Shape, seed: u64, count: u64) -> (Arc<Memtable>, Model) {
    let (mut random, mut model) = (Random(seed), Model::new());
    let memtable = Memtable::new(Arc::new(ChunkPool::default()));
    let mut writer = memtable.writer();
    let (mut group, mut newest) = (Vec::new(), BTreeMap::new());
    for step in 0..count {
        let key = shape.key(&mut random, step);
        let kind = [Kind::Delete, Kind::Value, Kind::Merge][random.below(3) as usize];
        // Mostly in commit order, as the engine does it, but any order must do.
        let seq = if random.below(4) == 0 { random.below(MAX_SEQ) } else { step };
        let len = random.below(20) as usize;
        let value = random.bytes(len);
        let trailer = key::trailer(seq, kind);
        let is_there = |((k, t, _), _): &(Row, bool)| (k, *t) == (&key, trailer);
        if model.contains_key(&(key.clone(), Reverse(trailer))) || group.iter().any(is_there) {
            continue;
        }
        let before = newest.entry(key.clone()).or_insert(0);
        let is_newest = trailer > *before;
        *before = trailer.max(*before);
        group.push(((key, trailer, value), is_newest));
        if random.below(10) == 0 {
            insert_group(&mut writer, &mut model, &mut group);
        }
        if random.below(1000) == 0 {
            drop(writer);
            writer = memtable.writer();
        }
    }
    insert_group(&mut writer, &mut model, &mut group);
    assert_eq!(memtable.len(), model.len() as u64);
    (memtable, model)
}

#[test]
fn a_place_is_good_for_one_memtable_only() {
    let mut writers = [Memtable::new(Arc::default()), Memtable::new(Arc::default())].map(|memtable| (memtable.writer(), memtable));
    for n in 0..200u64 {
        let place = writers[0].0.expect(&n.to_be_bytes());
        for (writer, _) in &mut writers {
            writer.insert_at(place, &n.to_be_bytes(), n, Kind::Value, b"");
            writer.insert_at(place, &(1000 - n).to_be_bytes(), n, Kind::Value, b"");
        }
    }
    for (_, memtable) in &writers {
        let mut cursor = memtable.cursor();
        cursor.seek_first().unwrap();
        for key in (0..200).chain(801..=1000u64) {
            assert_eq!(cursor.key(), key.to_be_bytes());
            cursor.next().unwrap();
        }
    }
}

fn row(cursor: &MemtableCursor) -> Option<Row> {
    cursor.valid().then(|| (cursor.key().to_vec(), cursor.trailer(), cursor.value().to_vec()))
}

fn rows<'a>(range: impl Iterator<Item = (&'a (Vec<u8>, Reverse<u64>), &'a Vec<u8>)>) -> impl Iterator<Item = Row> {
    range.map(|((key, Reverse(trailer)), value)| (key.clone(), *trailer, value.clone()))
}

fn check_walks(memtable: &Arc<Memtable>, model: &Model, context: &str) {
    let mut cursor = memtable.cursor();
    assert!(!cursor.valid(), "{context}");
    cursor.seek_first().unwrap();
    for expected in rows(model.iter()) {
        assert_eq!(row(&cursor), Some(expected), "{context}: forward");
        cursor.next().unwrap();
    }
    assert!(!cursor.valid(), "{context}: forward end");
    cursor.seek_last().unwrap();
    for expected in rows(model.iter().rev()) {
        assert_eq!(row(&cursor), Some(expected), "{context}: backward");
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid(), "{context}: backward end");
}

fn check_seeks(memtable: &Arc<Memtable>, model: &Model, (key, trailer): (&[u8], u64), context: &str) {
    let (mut cursor, from) = (memtable.cursor(), (key.to_vec(), Reverse(trailer)));
    cursor.seek(key, trailer).unwrap();
    let mut after = rows(model.range(from.clone()..));
    let first = after.next();
    assert_eq!(row(&cursor), first, "{context}: seek {from:?}");
    if first.is_some() {
        cursor.next().unwrap();
        assert_eq!(row(&cursor), after.next(), "{context}: seek {from:?}, next");
        cursor.seek(key, trailer).unwrap();
        cursor.prev().unwrap();
        assert_eq!(row(&cursor), rows(model.range(..from.clone()).rev()).next(), "{context}: seek {from:?}, prev");
    }
    cursor.seek_before(key).unwrap();
    let mut before = rows(model.range(..(key.to_vec(), Reverse(u64::MAX))).rev());
    let last = before.next();
    assert_eq!(row(&cursor), last, "{context}: seek_before {key:?}");
    if last.is_some() {
        cursor.prev().unwrap();
        assert_eq!(row(&cursor), before.next(), "{context}: seek_before {key:?}, prev");
        cursor.seek_before(key).unwrap();
        cursor.next().unwrap();
        let after = rows(model.range((key.to_vec(), Reverse(u64::MAX))..)).next();
        assert_eq!(row(&cursor), after, "{context}: seek_before {key:?}, next");
    }
}

fn check_get(memtable: &Memtable, model: &Model, key: &[u8], snapshot: Seq, most: usize, context: &str) {
    // Hints change nothing.
    memtable.expect(key);
    memtable.expect_entry(key);
    let mut seen = Vec::new();
    memtable.get(key, snapshot, |seq, kind, value| {
        seen.push((seq, kind, value.to_vec()));
        if seen.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let range = (key.to_vec(), Reverse(key::upper(snapshot)))..=(key.to_vec(), Reverse(0));
    let expected = rows(model.range(range)).map(|(_, trailer, value)| (key::seq_of(trailer), kind(trailer), value));
    assert_eq!(seen, expected.take(most).collect::<Vec<_>>(), "{context}: get {key:?} at {snapshot}");
}

fn check_all(shape: Shape, seed: u64, count: u64, probes: u64) {
    let context = format!("{shape:?}, seed {seed}, {count} entries");
    let (memtable, model) = fill(shape, seed, count);
    check_walks(&memtable, &model, &context);
    let mut random = Random(!seed);
    let entries: Vec<_> = model.keys().collect();
    for _ in 0..probes {
        let step = random.below(count + 1);
        let mut key = shape.key(&mut random, step);
        let mut trailer = random.next();
        if !entries.is_empty() && random.below(2) == 0 {
            let (some, Reverse(its)) = entries[random.below(entries.len() as u64) as usize];
            (key, trailer) = (some.clone(), its.wrapping_add(random.below(3)).wrapping_sub(1));
        }
        match random.below(8) {
            0 => key.push(0),
            1 => drop(key.pop()),
            _ => {}
        }
        check_seeks(&memtable, &model, (&key, trailer), &context);
        for snapshot in [key::seq_of(trailer), random.below(count + 1), MAX_SEQ] {
            check_get(&memtable, &model, &key, snapshot, [1, 2, usize::MAX][random.below(3) as usize], &context);
        }
    }
}

#[test]
fn agrees_with_the_model() {
    let counts: &[u64] = if cfg!(miri) { &[0, 1, 40] } else { &[0, 1, 2, 63, 64, 65, 129, 300, 3000] };
    for shape in SHAPES {
        for &count in counts {
            for seed in 0..if cfg!(miri) { 1 } else { 6 } {
                check_all(shape, seed * 1000 + count, count, if cfg!(miri) { 10 } else { 300 });
            }
        }
    }
}

#[test]
fn agrees_with_the_model_in_a_deep_tree() {
    if !cfg!(miri) {
        SHAPES.into_iter().for_each(|shape| check_all(shape, 7, 20_000, 1000));
    }
}

#[test]
fn an_empty_memtable_has_nothing() {
    let memtable = Memtable::new(Arc::default());
    assert!(memtable.is_empty());
    assert_eq!(memtable.memory(), 0);
    check_walks(&memtable, &Model::new(), "empty");
    check_get(&memtable, &Model::new(), b"", MAX_SEQ, 1, "empty");
    check_seeks(&memtable, &Model::new(), (b"k", 0), "empty");
}

#[test]
fn large_values_get_their_own_memory() {
    let memtable = Memtable::new(Arc::default());
    let mut writer = memtable.writer();
    let sizes = if cfg!(miri) { [0, 1 << 18, 100] } else { [0, (1 << 18) - 17, 5 << 20] };
    let mut total = 0;
    for (seq, size) in (1..).zip(sizes.repeat(3)) {
        writer.insert(format!("k{seq}").as_bytes(), seq, Kind::Value, &vec![seq as u8; size]);
        total += size;
    }
    for (seq, size) in (1..).zip(sizes.repeat(3)) {
        let mut seen = 0;
        memtable.get(format!("k{seq}").as_bytes(), MAX_SEQ, |_, _, value| {
            seen += 1;
            assert!(value.len() == size && value.iter().all(|&byte| byte == seq as u8), "{seq}");
            ControlFlow::Continue(())
        });
        assert_eq!(seen, 1);
    }
    assert!((total..total + (4 << 20)).contains(&memtable.memory()), "{} of {total}", memtable.memory());
}

#[test]
fn lengths_around_the_short_form_survive() {
    let memtable = Memtable::new(Arc::default());
    let mut writer = memtable.writer();
    let lengths: &[usize] = if cfg!(miri) { &[1, 65_535] } else { &[0, 1, 65_534, 65_535, 65_536, 65_537] };
    let all = || (1..).zip(lengths.iter().flat_map(|&key| lengths.iter().map(move |&value| (key, value))));
    for (seq, (key, value)) in all() {
        writer.insert(&vec![b'k'; key], seq, Kind::Value, &vec![seq as u8; value]);
    }
    for (seq, (key, value)) in all() {
        let mut newest = None;
        memtable.get(&vec![b'k'; key], seq, |seen, _, found| {
            newest = Some((seen, found.len(), found.iter().all(|&byte| byte == seq as u8)));
            ControlFlow::Break(())
        });
        assert_eq!(newest, Some((seq, value, true)), "key of {key}");
    }
}

#[test]
fn memory_counts_bytes_and_returns_to_the_pool() {
    let pool = Arc::new(ChunkPool::with_capacity(3 << 20));
    let (count, mut last) = (if cfg!(miri) { 3 } else { 5_000 }, 0);
    for round in 0..3 {
        let memtable = Memtable::new(Arc::clone(&pool));
        let mut writer = memtable.writer();
        for seq in 0..count {
            writer.insert(&u64::to_be_bytes(seq), seq, Kind::Value, &[round; 1000]);
            assert!(memtable.memory() > last);
            last = memtable.memory();
        }
        assert!(last > count as usize * 1000 && last < count as usize * 1100 + 2000, "{last}");
        drop(writer);
        let cursor = memtable.cursor();
        drop(memtable);
        assert!(round == 0 || pool.free_bytes() <= 1 << 20, "a cursor keeps the memory");
        drop(cursor);
        assert_eq!(pool.free_bytes(), if cfg!(miri) { 2 << 20 } else { 3 << 20 }, "bounded");
        last = 0;
    }
}

#[test]
fn ascending_keys_fill_leaves() {
    let count = if cfg!(miri) { 50 } else { 50_000 };
    let memory = |key: &dyn Fn(u64) -> Vec<u8>| {
        let memtable = Memtable::new(Arc::default());
        let mut writer = memtable.writer();
        (0..count).for_each(|seq| writer.insert(&key(seq), seq, Kind::Value, b""));
        memtable.memory() as u64 / count
    };
    // 16 for the header, 16 for the key, 13 of a full leaf, its share of inner nodes, and the tails of chunks.
    if !cfg!(miri) {
        assert!(memory(&|seq| format!("k{seq:015}").into_bytes()) < 50);
        assert!(memory(&|seq| format!("k{}{:014}", seq % 3, seq).into_bytes()) < 65);
    }
    assert!(memory(&|seq| format!("k{:015}", seq.reverse_bits()).into_bytes()) > 40);
}

#[test]
#[should_panic(expected = "one writer at a time")]
fn a_second_writer_is_refused() {
    let memtable = Memtable::new(Arc::default());
    let _first = memtable.writer();
    memtable.writer();
}
