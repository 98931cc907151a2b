//! Writes of a turn to one family, until they become a batch of the engine.
//!
//! Keys and values lie one behind the other in one piece of memory and are found by a hash table, so that a write of a key costs no
//! allocation. Most turns need no more. A walk needs the keys in order: the first walk of a turn builds a tree of them, which later writes
//! keep up to date.

use sinterdb::internal::key;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Initial slots of the hash table, which is never more than half full.
const FIRST_PLACES: usize = 64;
/// Memory kept from one turn to the next, enough for nearly all turns: slots, which is also the number of entries, and bytes.
const KEPT_PLACES: usize = 1 << 14;
const KEPT_BYTES: usize = 8 << 20;
/// Bytes of overwritten values that are tolerated, however few other bytes there are. Beyond that they are removed once they are more than
/// half of all.
const GARBAGE: usize = 1 << 20;

/// A key with its first bytes in front, so that the tree reads the memory of a key only where these are equal.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PrefixedKey<'k> {
    prefix: u64,
    pub bytes: Cow<'k, [u8]>,
}

impl<'k> PrefixedKey<'k> {
    pub fn new(bytes: impl Into<Cow<'k, [u8]>>) -> Self {
        let bytes = bytes.into();
        PrefixedKey { prefix: key::prefix(&bytes), bytes }
    }
}

/// Keys in order, and the numbers of their entries.
pub(super) type Order<'k> = BTreeMap<PrefixedKey<'k>, usize>;

/// A range of the bytes of a [`Written`].
#[derive(Debug, Clone, Copy)]
struct Span {
    at: usize,
    len: usize,
}

impl Span {
    const NONE: Span = Span { at: 0, len: 0 };

    /// The bytes from `at` to the end of `bytes`. An empty span starts at 0, so that it stays inside when `bytes` are truncated.
    fn since(at: usize, bytes: &[u8]) -> Span {
        let len = bytes.len() - at;
        Span { at: if len > 0 { at } else { 0 }, len }
    }

    fn range(self) -> Range<usize> {
        self.at..self.at + self.len
    }
}

#[derive(Debug, Clone, Copy)]
enum Value {
    Put(Span),
    Deleted,
    /// The write was withdrawn: the key counts as not written.
    TakenBack,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    hash: u64,
    key: Span,
    value: Value,
    /// For a value that was changed in part: the steps (`delta`) that turn the engine's value into the written one. Empty: the value was
    /// written whole.
    steps: Span,
}

/// Keys that were written, and their values.
#[derive(Debug)]
pub(super) struct Written {
    /// Seed of the hash: clients that choose the keys do not know which of them collide.
    seed: u64,
    bytes: Vec<u8>,
    /// Bytes of overwritten values.
    garbage: usize,
    /// Entries in the order in which their keys were first written.
    entries: Vec<Entry>,
    /// Slots of the hash table: the number of an entry plus one; 0: empty. Open addressing: an entry is in the slot of its hash, or behind
    /// it without a gap.
    places: Vec<usize>,
    /// Number of entries that were not withdrawn.
    len: usize,
    order: OnceCell<Order<'static>>,
}

impl Written {
    pub fn new() -> Written {
        Written {
            seed: RandomState::new().hash_one(0),
            bytes: Vec::new(),
            garbage: 0,
            entries: Vec::new(),
            places: vec![0; FIRST_PLACES],
            len: 0,
            order: OnceCell::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value written to a key, or `Some(None)` if the key was deleted; `None`: nothing was written.
    pub fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.len == 0 {
            return None;
        }
        let (_, number) = self.find(self.hash(key), key);
        self.value(number?)
    }

    /// The value written by an entry, or `Some(None)` if it deleted its key; `None`: the write was withdrawn.
    pub fn value(&self, number: usize) -> Option<Option<&[u8]>> {
        match self.entries.get(number)?.value {
            Value::Put(span) => Some(Some(&self.bytes[span.range()])),
            Value::Deleted => Some(None),
            Value::TakenBack => None,
        }
    }

    /// Writes the value that `value` appends to the bytes that it gets, which it must not change. Returns the number of bytes, with those
    /// of the key.
    pub fn put(&mut self, key: &[u8], value: impl FnOnce(&mut Vec<u8>)) -> usize {
        if self.garbage > GARBAGE.max(self.bytes.len() / 2) {
            self.compact();
        }
        let (number, _) = self.entry(key);
        self.forget_steps(number);
        self.put_value(number, value)
    }

    /// Like [`Written::put`], for a value of which `step` changes a part. `is_whole`: there is no value of the engine to change.
    pub fn change(&mut self, key: &[u8], step: &[u8], is_whole: bool, value: impl FnOnce(&mut Vec<u8>)) -> usize {
        if self.garbage > GARBAGE.max(self.bytes.len() / 2) {
            self.compact();
        }
        let (number, is_first) = self.entry(key);
        let steps = self.entries[number].steps;
        let is_partial = if is_first { !is_whole } else { steps.len > 0 };
        if is_partial {
            let mut at = steps.at;
            if steps.range().end != self.bytes.len() {
                at = self.bytes.len();
                self.bytes.extend_from_within(steps.range());
                self.garbage += steps.len;
            }
            self.bytes.extend_from_slice(step);
            self.entries[number].steps = Span::since(at, &self.bytes);
        }
        self.put_value(number, value)
    }

    /// Forgets the steps of an entry whose value is written whole or deleted.
    fn forget_steps(&mut self, number: usize) {
        self.garbage += std::mem::replace(&mut self.entries[number].steps, Span::NONE).len;
    }

    fn put_value(&mut self, number: usize, value: impl FnOnce(&mut Vec<u8>)) -> usize {
        let at = self.bytes.len();
        value(&mut self.bytes);
        let span = Span::since(at, &self.bytes);
        let entry = &mut self.entries[number];
        entry.value = Value::Put(span);
        entry.key.len + span.len
    }

    pub fn delete(&mut self, key: &[u8]) {
        let (number, _) = self.entry(key);
        self.forget_steps(number);
        self.entries[number].value = Value::Deleted;
    }

    /// Withdraws the writes to keys from `from` up to (not including) `to`.
    pub fn take_back(&mut self, from: &[u8], to: &[u8]) {
        for entry in &mut self.entries {
            let key = &self.bytes[entry.key.range()];
            if from <= key && key < to {
                self.garbage += entry.value.len();
                self.len -= usize::from(!entry.value.is_taken_back());
                entry.value = Value::TakenBack;
                self.garbage += std::mem::replace(&mut entry.steps, Span::NONE).len;
            }
        }
        if let Some(order) = self.order.get_mut() {
            order.retain(|_, number| !self.entries[*number].value.is_taken_back());
        }
        // Repeated writes and withdrawals must not leave more than the present writes take.
        if self.entries.len() > 2 * self.len {
            self.compact();
        }
    }

    /// Keys and the values written to them, each once, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> + Clone {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(number, entry)| Some((&self.bytes[entry.key.range()], self.value(number)?)))
    }

    /// Like [`Written::iter`], with the steps of a value that was changed in part.
    pub fn iter_with_steps(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>, Option<&[u8]>)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(number, entry)| {
            let steps = (entry.steps.len > 0).then(|| &self.bytes[entry.steps.range()]);
            Some((&self.bytes[entry.key.range()], self.value(number)?, steps))
        })
    }

    /// The keys in order.
    pub fn order<'k>(&'k self) -> &'k Order<'k> {
        self.order.get_or_init(|| {
            let entries = self.entries.iter().enumerate().filter(|(_, entry)| !entry.value.is_taken_back());
            entries.map(|(number, entry)| (PrefixedKey::new(self.bytes[entry.key.range()].to_vec()), number)).collect()
        })
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        if self.places.len() > KEPT_PLACES {
            self.places = vec![0; FIRST_PLACES];
        } else {
            // Only used slots are emptied: few turns fill the table, and these slots are in the processor's caches. Each loop empties all
            // slots up to the next gap, so no used slot is left behind an emptied one.
            for entry in &self.entries {
                let mut place = self.home(entry.hash);
                while std::mem::take(&mut self.places[place]) != 0 {
                    place = self.behind(place);
                }
            }
        }
        self.entries.clear();
        self.entries.shrink_to(KEPT_PLACES);
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.order.take();
        (self.garbage, self.len) = (0, 0);
    }

    /// Bytes of memory, without the tree.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>() + self.places.capacity() * size_of::<usize>()
    }

    /// The entry of a key that is about to be written, made if there is none, and whether the key was not written before. The bytes of an
    /// earlier value are dropped; the caller gives the entry its value.
    fn entry(&mut self, key: &[u8]) -> (usize, bool) {
        let hash = self.hash(key);
        let (place, found) = self.find(hash, key);
        let number = found.unwrap_or(self.entries.len());
        if found.is_none() {
            let at = self.bytes.len();
            self.bytes.extend_from_slice(key);
            let span = Span::since(at, &self.bytes);
            self.entries.push(Entry { hash, key: span, value: Value::TakenBack, steps: Span::NONE });
            self.places[place] = number + 1;
            if self.entries.len() > self.places.len() / 2 {
                self.grow();
            }
        }
        let old = std::mem::replace(&mut self.entries[number].value, Value::Deleted);
        match old {
            // A value at the end of the bytes is cut off, so a long value that is changed repeatedly is stored once.
            Value::Put(span) if span.range().end == self.bytes.len() => self.bytes.truncate(span.at),
            _ => self.garbage += old.len(),
        }
        if old.is_taken_back() {
            self.len += 1;
            if let Some(order) = self.order.get_mut() {
                order.insert(PrefixedKey::new(key.to_vec()), number);
            }
        }
        (number, old.is_taken_back())
    }

    /// The slot and the number of a key's entry; `None`: there is none, and this would be its slot.
    fn find(&self, hash: u64, key: &[u8]) -> (usize, Option<usize>) {
        let mut place = self.home(hash);
        while let Some(number) = self.places[place].checked_sub(1) {
            let entry = &self.entries[number];
            if entry.hash == hash && &self.bytes[entry.key.range()] == key {
                return (place, Some(number));
            }
            place = self.behind(place);
        }
        (place, None)
    }

    fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }

    /// The slot of a hash. The number of slots is a power of two.
    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.places.len() - 1)
    }

    fn behind(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    fn grow(&mut self) {
        self.places = vec![0; 2 * self.places.len()];
        self.fill_places();
    }

    /// Enters all entries into the table, which is empty.
    fn fill_places(&mut self) {
        for (number, entry) in self.entries.iter().enumerate() {
            let mut place = self.home(entry.hash);
            while self.places[place] != 0 {
                place = self.behind(place);
            }
            self.places[place] = number + 1;
        }
    }

    /// Removes overwritten values and withdrawn writes.
    fn compact(&mut self) {
        let (old, mut entries, len) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.entries), self.len);
        if entries.len() > len {
            // The numbers of the remaining entries change.
            entries.retain(|entry| !entry.value.is_taken_back());
            self.order.take();
            self.places = vec![0; (2 * len).next_power_of_two().max(FIRST_PLACES)];
        }
        let bytes = &mut self.bytes;
        let mut copy = |span: &mut Span| {
            let at = bytes.len();
            bytes.extend_from_slice(&old[span.range()]);
            *span = Span::since(at, bytes);
        };
        for entry in &mut entries {
            copy(&mut entry.key);
            copy(&mut entry.steps);
            if let Value::Put(span) = &mut entry.value {
                copy(span);
            }
        }
        self.places.fill(0);
        self.entries = entries;
        self.fill_places();
        self.garbage = 0;
    }
}

impl Value {
    fn len(self) -> usize {
        if let Value::Put(span) = self { span.len } else { 0 }
    }

    fn is_taken_back(self) -> bool {
        matches!(self, Value::TakenBack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

    fn check(written: &Written, model: &Model, random: &mut Random) {
        assert_eq!(written.is_empty(), model.is_empty());
        let mut all: Vec<_> = written.iter().map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))).collect();
        all.sort();
        assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
        for key in model.keys().chain([&random.bytes(12, b"ab")]) {
            assert_eq!(written.get(key).map(|value| value.map(<[u8]>::to_vec)), model.get(key).cloned());
        }
        // Walks are rare, so that both ways are tried: with the tree and without.
        if random.below(3) == 0 {
            let from = random.bytes(3, b"abc");
            let to = [&from[..], &random.bytes(2, b"abc"), b"c"].concat();
            let walked = written.order().range(PrefixedKey::new(from.as_slice())..PrefixedKey::new(to.as_slice()));
            let walked: Vec<_> =
                walked.map(|(key, number)| (key.bytes.to_vec(), written.value(*number).unwrap().map(<[u8]>::to_vec))).collect();
            assert_eq!(walked, model.range(from..to).map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>());
        }
    }

    #[test]
    fn all_that_was_written_is_found() {
        let (mut written, mut random) = (Written::new(), Random(7));
        for round in 0..60 {
            let mut model = Model::new();
            for _ in 0..random.below(if round % 10 == 0 { 3000 } else { 100 }) {
                let key = random.bytes(9, b"abc");
                match random.below(20) {
                    0 => {
                        let to = [&key[..], b"b"].concat();
                        written.take_back(&key, &to);
                        model.retain(|other, _| *other < key || *other >= to);
                    }
                    1..5 => {
                        written.delete(&key);
                        model.insert(key, None);
                    }
                    _ => {
                        let value = random.bytes(40, b"xyz");
                        assert_eq!(written.put(&key, |out| out.extend_from_slice(&value)), key.len() + value.len());
                        model.insert(key, Some(value));
                    }
                }
                if random.below(40) == 0 {
                    check(&written, &model, &mut random);
                }
            }
            check(&written, &model, &mut random);
            written.clear();
            check(&written, &Model::new(), &mut random);
            assert!(written.places.iter().all(|place| *place == 0));
        }
    }

    /// A long value that a transaction changes again and again.
    #[test]
    fn what_is_written_over_takes_no_memory() {
        let mut written = Written::new();
        for n in 0..1000u32 {
            for key in [b"a", b"b"] {
                written.put(key, |out| out.extend(std::iter::repeat_n(n as u8, 100_000)));
            }
            assert!(written.bytes.capacity() < 4 << 20, "{}", written.bytes.capacity());
        }
        assert_eq!(written.get(b"a"), Some(Some(&[999u32 as u8; 100_000][..])));
        (0..100).for_each(|_| _ = written.put(b"c", |out| out.resize(out.len() + (10 << 20), 1)));
        assert!(written.bytes.capacity() < 40 << 20, "{}", written.bytes.capacity());
    }

    /// Values that prove wrong when half of them is written.
    #[test]
    fn what_is_taken_back_takes_no_memory() {
        let mut written = Written::new();
        written.put(b"stays", |out| out.push(b'!'));
        for round in 0..100u8 {
            (0..10_000u32).for_each(|n| _ = written.put(&[&[round][..], &n.to_be_bytes()].concat(), |out| out.push(1)));
            written.take_back(&[round], &[round + 1]);
            assert!(written.entries.len() == 1 && written.bytes.len() == 6 && written.places.len() == FIRST_PLACES);
        }
        assert_eq!((written.get(b"stays"), written.get(&[0, 0, 0, 0, 0])), (Some(Some(&b"!"[..])), None));
    }

    /// Steps of values that are changed again and again, among other writes.
    #[test]
    fn steps_are_of_values_that_were_changed_only_in_part() {
        let (mut written, mut random) = (Written::new(), Random(5));
        for _ in 0..50 {
            // `Err`: the value is no change of the engine's.
            let mut model = BTreeMap::<Vec<u8>, Result<Vec<u8>, ()>>::new();
            for _ in 0..random.below(2000) {
                let key = random.bytes(3, b"abc");
                match random.below(12) {
                    0 => {
                        written.put(&key, |out| out.extend_from_slice(&[1; 900]));
                        model.insert(key, Err(()));
                    }
                    1 => {
                        written.delete(&key);
                        model.insert(key, Err(()));
                    }
                    2 => {
                        let to = [&key[..], b"b"].concat();
                        written.take_back(&key, &to);
                        model.retain(|other, _| *other < key || *other >= to);
                    }
                    n => {
                        let (step, is_whole) = ([&b"step"[..], &random.bytes(9, b"xyz")].concat(), n == 3);
                        written.change(&key, &step, is_whole, |out| out.extend_from_slice(&[2; 3000]));
                        let steps = model.entry(key).or_insert(if is_whole { Err(()) } else { Ok(Vec::new()) });
                        steps.iter_mut().for_each(|steps| steps.extend_from_slice(&step));
                    }
                }
            }
            let mut steps: Vec<_> =
                written.iter_with_steps().map(|(key, _, steps)| (key.to_vec(), steps.map(<[u8]>::to_vec).ok_or(()))).collect();
            steps.sort();
            assert_eq!(steps, model.into_iter().collect::<Vec<_>>());
            written.clear();
        }
    }

    #[test]
    fn a_long_turn_leaves_no_memory_behind() {
        let mut written = Written::new();
        (0..300_000u32).for_each(|n| _ = written.put(&n.to_be_bytes(), |out| out.extend_from_slice(&[0; 100])));
        written.clear();
        assert!(written.bytes.capacity() <= KEPT_BYTES && written.entries.capacity() <= KEPT_PLACES && written.places.len() <= KEPT_PLACES);
        assert!(written.get(&1u32.to_be_bytes()).is_none());
    }
}
