//! A cache of entries of keys that are read often, uncompressed in memory, in front of the engine.
//!
//! Keys are ordered by their hashes, so a popular key has random neighbours: in a cached block, only its own entry is of use. Here an entry
//! takes its own bytes and little more, and one lookup finds it where the engine has to ask memtables, filters, indexes and blocks.
//!
//! **A ring of segments.** Entries are written one behind the other. When a segment is full, the next one, the oldest by then, is swept:
//! entries read since the last sweep move to its start and stay, the others are removed. That is a CLOCK (Corbató 1968) whose hand moves a
//! segment at a time. Nothing is allocated for an entry.
//!
//! **Admission.** While there is free space, every entry that is read or written is admitted. After that, an entry is admitted at its
//! second miss: the first miss leaves a mark that others overwrite in time, like the doorkeeper of TinyLFU (Einziger, Friedman and Manes,
//! ACM Transactions on Storage 2017), so reading everything once displaces nothing. Where keys are evicted by their uses, a write leaves
//! such a mark, too: a key is admitted at its first use after the write. Of strings larger than a block only type and deadline are cached:
//! they fill blocks of their own, which the engine's cache holds as well.
//!
//! **The index** is a table of open addressing for each of several shards, which the first bits of a hash choose. Each grows by itself, so
//! memory follows the number of entries, and no growth takes long.
//!
//! A batch of requests is looked up in three steps ([`Hot::expect`], [`Hot::expect_entry`], [`Hot::get`]), of which the first two only
//! prefetch: the cache misses of one key overlap with those of the others, as in Kocberber, Falsafi and Grot, "Asynchronous Memory Access
//! Chaining" (PVLDB 2015).
//!
//! **Cached entries equal the engine's**: each commit reports its writes ([`Hot::wrote`]), and the cache is emptied where they are not
//! known ([`Hot::clear`]). Absent keys are not cached: the engine's filters tell as fast that a key is absent.
//!
//! Layout of an entry: time of its key's last use (4 bytes); its size in units, bytes of its key, bytes of its value (2 each); its state;
//! frequency of its key's use (1 each, see [`Use`]); key; value.

mod shard;
mod uses;

pub use uses::Counting;
pub(super) use uses::Use;

use super::{entry, layout};
use shard::{IndexSlot, Shard, mark_of, place, unit_of};
use sinterdb::internal::prefetch;
use uses::Clock;

/// Bytes of a segment.
const SEGMENT: usize = 64 << 10;
/// Entries begin at multiples of this.
const UNIT: usize = 16;
const SEGMENT_UNITS: u32 = (SEGMENT / UNIT) as u32;
const HEAD: usize = 12;
/// Largest entry with its head, bytes, and largest one with a whole string.
const LARGEST: usize = 16 << 10;
const LARGEST_STRING: usize = 4096;
/// Bytes of the ring for each slot of the index, when the index has its full size.
const PER_PLACE: usize = 64;
/// Largest number of shards of the index, and smallest number of slots of each when it has its full size.
const SHARDS: usize = 256;
const SHARD_PLACES: usize = 4096;
/// Initial slots of a shard.
const FIRST_PLACES: usize = 64;
/// Bytes of an entry that are prefetched.
const EXPECTED: usize = 256;
/// A value that outgrows its entry gets 1 / `GROWTH` of its length as spare space.
const GROWTH: usize = 8;
/// Number of writes whose entries are prefetched ahead.
const AHEAD: usize = 8;
/// Number of segments swept for one entry before read entries are removed, too.
const MERCY: usize = 4;

const DEAD: u8 = 0;
const LIVES: u8 = 1;
const WAS_READ: u8 = 2;

/// The head of an entry.
#[derive(Debug, Clone, Copy)]
struct Entry {
    used: Use,
    units: u16,
    key: u16,
    value: u16,
    state: u8,
}

impl Entry {
    fn read(at: &[u8]) -> Option<Entry> {
        let [a, b, c, d, e, f, g, h, i, j, state, frequency] = *at.first_chunk::<HEAD>()?;
        let [units, key, value] = [[e, f], [g, h], [i, j]].map(u16::from_le_bytes);
        let used = Use { time: u32::from_le_bytes([a, b, c, d]), frequency };
        Some(Entry { used, units, key, value, state })
    }

    fn bytes(self) -> [u8; HEAD] {
        let [a, b, c, d] = self.used.time.to_le_bytes();
        let [[e, f], [g, h], [i, j]] = [self.units, self.key, self.value].map(u16::to_le_bytes);
        [a, b, c, d, e, f, g, h, i, j, self.state, self.used.frequency]
    }

    fn key(self, at: &[u8]) -> Option<&[u8]> {
        at.get(HEAD..HEAD + usize::from(self.key))
    }

    fn value(self, at: &[u8]) -> Option<&[u8]> {
        let from = HEAD + usize::from(self.key);
        at.get(from..from + usize::from(self.value))
    }
}

/// Numbers of lookups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HotCounts {
    /// Lookups that found their entry here.
    pub hits: u64,
    /// Lookups for which the engine had to be asked.
    pub misses: u64,
}

/// Location of an entry in the index: the shard, and the slot in it.
type Spot = (usize, usize);

/// Purpose of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A command uses the key.
    Use,
    /// A look at the key, which is no use of it.
    Look,
    /// The removal of the key: its entry is not admitted.
    Removal,
}

/// The part of an entry that is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The whole entry.
    Whole,
    /// The bytes before a long string of this length: its type and deadline.
    Start(u64),
}

/// First byte of a stub, the cached start of an entry that is too long, behind the length of its string (8 bytes). No entry begins with
/// this byte.
const STUB: u8 = u8::MAX;
const STUB_HEAD: usize = 1 + size_of::<u64>();
/// Largest stub, bytes.
const STUB_MOST: usize = STUB_HEAD + entry::STRING_START_MOST;

/// Bytes of an entry to cache: the whole entry, or the start of a long string. With the start, the string need not be read to replace or
/// remove it, or to tell its type or deadline.
fn kept<'v>(key: &[u8], value: &'v [u8], room: &'v mut [u8; STUB_MOST]) -> &'v [u8] {
    let is_long = HEAD + key.len() + value.len() > LARGEST_STRING;
    let Some(start) = is_long.then(|| entry::string_start(value)).flatten() else { return value };
    let length = (value.len() - start.len()) as u64;
    room[0] = STUB;
    room[1..STUB_HEAD].copy_from_slice(&length.to_le_bytes());
    match room.get_mut(STUB_HEAD..STUB_HEAD + start.len()) {
        Some(to) => to.copy_from_slice(start),
        None => return value,
    }
    &room[..STUB_HEAD + start.len()]
}

/// Whether a cached value is a whole entry or a stub, and its bytes.
fn part(value: &[u8]) -> (Part, &[u8]) {
    match value.split_first() {
        Some((&STUB, stub)) => match stub.split_first_chunk() {
            Some((length, start)) => (Part::Start(u64::from_le_bytes(*length)), start),
            None => (Part::Start(0), stub),
        },
        _ => (Part::Whole, value),
    }
}

/// A cache of entries of limited size, by the keys of [`layout::entry_key`].
#[derive(Debug, Default)]
pub(super) struct Hot {
    capacity: u64,
    /// Segments begun so far.
    segments: Vec<Box<[u8]>>,
    /// Largest number of segments.
    most: usize,
    /// The segment that is being written to, and the end of its written part.
    segment: usize,
    end: usize,
    /// Ends of the written part of each other segment.
    ends: Vec<usize>,
    /// The index: a power of two of shards, chosen by the first `bits` bits of a mark.
    shards: Vec<Shard>,
    bits: u32,
    /// Largest number of slots of a shard.
    shard_most: usize,
    /// Number of slots of all shards.
    places: usize,
    len: usize,
    /// Keys that were missed lately; empty until the segments are full. A key's first mark gives the position of its second mark here.
    missed: Vec<u32>,
    pub counts: HotCounts,
    pub clock: Clock,
}

impl Hot {
    /// A cache that takes at most so many bytes of memory in all. With less than a segment and its index need, it holds nothing.
    pub fn new(capacity: u64) -> Hot {
        let per_segment = SEGMENT + SEGMENT / PER_PLACE * (size_of::<IndexSlot>() + size_of::<u32>());
        // Units have 32 bits.
        let most = (capacity / per_segment as u64).min(u64::from(u32::MAX / SEGMENT_UNITS));
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let places = most * (SEGMENT / PER_PLACE);
        let bits = (places / SHARD_PLACES).clamp(1, SHARDS).ilog2();
        let count = if most == 0 { 0 } else { 1 << bits };
        let shards = (0..count).map(|_| Shard::default()).collect();
        Hot { capacity, most, shards, bits, shard_most: places >> bits, ..Hot::default() }
    }

    /// Limit of its memory, bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Memory in use, bytes.
    pub fn used(&self) -> u64 {
        (self.segments.len() * SEGMENT + self.places * size_of::<IndexSlot>() + self.missed.len() * size_of::<u32>()) as u64
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// First step of a batch of lookups: prefetches the slot of a key in the index.
    pub fn expect(&self, key: &[u8]) {
        if let Some((mark, _)) = layout::marks(key)
            && let Some(shard) = self.shards.get(self.shard(mark))
        {
            prefetch::item(&shard.places, shard.home(mark, self.bits));
        }
    }

    /// Second step: prefetches the entry. False: there is none.
    pub fn expect_entry(&self, key: &[u8]) -> bool {
        let Some((mark, _)) = layout::marks(key) else { return false };
        let found = self.search(mark, |_| true);
        if let Some(at) = found.and_then(|(_, unit)| self.at(unit)) {
            prefetch::bytes(at.get(..EXPECTED).unwrap_or(at));
        }
        found.is_some()
    }

    /// Copies the cached value of a key, or its start, to `out`; `None`, and `out` unchanged: it is not cached.
    pub fn get(&mut self, key: &[u8], out: &mut Vec<u8>, purpose: Purpose) -> Option<Part> {
        let mut clock = self.clock;
        if self.len > 0
            && let Some((_, unit)) = self.find(key)
            && let Some(at) = self.at_mut(unit)
            && let Some(entry) = Entry::read(at)
            && let Some(value) = entry.value(at)
        {
            let (part, value) = part(value);
            out.clear();
            out.extend_from_slice(value);
            let used = if purpose == Purpose::Use { entry.used.again(&mut clock) } else { entry.used };
            if entry.state != WAS_READ || entry.used != used {
                write(at, Entry { state: WAS_READ, used, ..entry });
            }
            self.counts.hits += 1;
            self.clock = clock;
            return Some(part);
        }
        self.counts.misses += 1;
        None
    }

    /// Notes the use of a key, if its entry is cached.
    pub fn use_entry(&mut self, key: &[u8]) {
        let mut clock = self.clock;
        if let Some((_, unit)) = self.find(key)
            && let Some(at) = self.at_mut(unit)
            && let Some(entry) = Entry::read(at)
        {
            let used = entry.used.again(&mut clock);
            if entry.used != used {
                write(at, Entry { used, ..entry });
            }
            self.clock = clock;
        }
    }

    /// Use of a key; [`Use::NEVER`] if its entry is not cached.
    pub fn use_of(&self, key: &[u8]) -> Use {
        let found = self.find(key).and_then(|(_, unit)| self.at(unit)).and_then(Entry::read);
        found.map_or(Use::NEVER, |entry| entry.used)
    }

    /// Notes a miss: the entry is cached if there is free space, or else from its second miss on.
    pub fn missed(&mut self, key: &[u8], value: &[u8], purpose: Purpose) {
        let Some(marks) = layout::marks(key).filter(|_| purpose != Purpose::Removal) else { return };
        if self.has_room() || self.mark(marks) {
            let used = if purpose == Purpose::Use { Use::NEVER.again(&mut self.clock) } else { Use::NEVER };
            let mut room = [0; STUB_MOST];
            self.insert((marks.0, used), key, kept(key, value, &mut room), 0);
        }
    }

    /// Marks a key as missed; returns whether it was marked already.
    fn mark(&mut self, (mark, other): (u32, u32)) -> bool {
        if self.missed.is_empty() {
            self.missed = vec![0; self.shard_most << self.bits];
        }
        let home = ((u64::from(mark) * self.missed.len() as u64) >> 32) as usize;
        self.missed.get_mut(home).is_some_and(|before| std::mem::replace(before, other) == other)
    }

    /// Whether a new entry displaces none.
    fn has_room(&self) -> bool {
        self.segments.len() < self.most
    }

    /// [`Hot::wrote`] for many entries, whose cache misses overlap.
    pub fn wrote_all<'w>(&mut self, written: impl Iterator<Item = (&'w [u8], Option<&'w [u8]>)> + Clone) {
        let (mut places, mut entries) = (written.clone(), written.clone());
        places.by_ref().take(2 * AHEAD).for_each(|(key, _)| self.expect(key));
        entries.by_ref().take(AHEAD).for_each(|(key, _)| _ = self.expect_entry(key));
        for (key, value) in written {
            places.next().into_iter().for_each(|(key, _)| self.expect(key));
            entries.next().into_iter().for_each(|(key, _)| _ = self.expect_entry(key));
            self.wrote(key, value);
        }
    }

    /// Notes a committed write of a value, or of a deletion (`None`).
    pub fn wrote(&mut self, key: &[u8], value: Option<&[u8]>) {
        let mut room = [0; STUB_MOST];
        let value = value.map(|value| kept(key, value, &mut room));
        let Some((spot, unit)) = self.find(key) else {
            match value.zip(layout::marks(key)) {
                Some((value, (mark, _))) if self.has_room() => {
                    let used = Use::NEVER.again(&mut self.clock);
                    self.insert((mark, used), key, value, 0);
                }
                Some((_, marks)) if self.clock.counting.counts_writes => _ = self.mark(marks),
                _ => {}
            }
            return;
        };
        let Some(at) = self.at_mut(unit) else { return };
        let Some(entry) = Entry::read(at) else { return };
        let from = HEAD + key.len();
        let room = usize::from(entry.units) * UNIT;
        if let Some(value) = value
            && let Some(to) = at.get_mut(from..room).and_then(|rest| rest.get_mut(..value.len()))
            && let Ok(bytes) = u16::try_from(value.len())
        {
            to.copy_from_slice(value);
            write(at, Entry { value: bytes, ..entry });
            return;
        }
        write(at, Entry { state: DEAD, ..entry });
        self.unlink(spot);
        if let Some(value) = value
            && let Some((mark, _)) = layout::marks(key)
        {
            // A value that has grown will probably grow again.
            self.insert((mark, entry.used), key, value, value.len() / GROWTH);
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        if !self.segments.is_empty() {
            // A new index costs the memory that is touched; emptying the old one would touch all of it.
            self.begin_anew(self.capacity);
        }
    }

    /// Forgets everything, and changes the limit.
    pub fn begin_anew(&mut self, capacity: u64) {
        *self = Hot { counts: self.counts, clock: self.clock, ..Hot::new(capacity) };
    }

    /// Location of a key's entry in the index, and the unit at which the entry lies.
    fn find(&self, key: &[u8]) -> Option<(Spot, u32)> {
        let (mark, _) = layout::marks(key)?;
        self.search(mark, |unit| self.at(unit).is_some_and(|at| Entry::read(at).and_then(|entry| entry.key(at)) == Some(key)))
    }

    /// The first slot with such a mark whose entry `is_it` accepts.
    fn search(&self, mark: u32, is_it: impl Fn(u32) -> bool) -> Option<(Spot, u32)> {
        let number = self.shard(mark);
        let shard = self.shards.get(number)?;
        let mut at = shard.home(mark, self.bits);
        loop {
            let place = *shard.places.get(at).filter(|place| **place != 0)?;
            if mark_of(place) == mark && is_it(unit_of(place)) {
                return Some(((number, at), unit_of(place)));
            }
            at = shard.behind(at);
        }
    }

    /// The shard that a mark chooses.
    fn shard(&self, mark: u32) -> usize {
        (u64::from(mark) << self.bits >> 32) as usize
    }

    /// The bytes from an entry to the end of its segment.
    fn at(&self, unit: u32) -> Option<&[u8]> {
        self.segments.get((unit / SEGMENT_UNITS) as usize)?.get((unit % SEGMENT_UNITS) as usize * UNIT..)
    }

    fn at_mut(&mut self, unit: u32) -> Option<&mut [u8]> {
        self.segments.get_mut((unit / SEGMENT_UNITS) as usize)?.get_mut((unit % SEGMENT_UNITS) as usize * UNIT..)
    }

    fn unlink(&mut self, (shard, place): Spot) {
        self.shards[shard].unlink(place, self.bits);
        self.len -= 1;
    }

    /// Adds an entry that is not cached, with `spare` bytes for a longer value.
    fn insert(&mut self, (mark, used): (u32, Use), key: &[u8], value: &[u8], spare: usize) {
        let bytes = HEAD + key.len() + value.len();
        let units = (bytes + spare).div_ceil(UNIT);
        let (Ok(key_bytes), Ok(value_bytes), Ok(units)) = (u16::try_from(key.len()), u16::try_from(value.len()), u16::try_from(units))
        else {
            return;
        };
        if bytes > LARGEST || !self.make_room(self.shard(mark), usize::from(units) * UNIT) {
            return;
        }
        let unit = self.segment as u32 * SEGMENT_UNITS + (self.end / UNIT) as u32;
        let Some(at) = self.at_mut(unit) else { return };
        write(at, Entry { used, units, key: key_bytes, value: value_bytes, state: LIVES });
        at[HEAD..HEAD + key.len()].copy_from_slice(key);
        at[HEAD + key.len()..bytes].copy_from_slice(value);
        self.end += usize::from(units) * UNIT;
        let shard = self.shard(mark);
        self.shards[shard].add(place(mark, unit), self.bits);
        self.len += 1;
    }

    /// Frees space for so many bytes behind the last entry, and for a slot in a shard of the index, which is never full.
    fn make_room(&mut self, shard: usize, bytes: usize) -> bool {
        if self.most == 0 {
            return false;
        }
        self.grow(shard);
        if self.segments.is_empty() {
            self.begin();
        }
        let mut passed = 0;
        while self.end + bytes > SEGMENT || self.shards[shard].is_full() {
            self.ends[self.segment] = self.end;
            if self.segments.len() < self.most && self.end + bytes > SEGMENT {
                self.begin();
                continue;
            }
            self.segment = (self.segment + 1) % self.segments.len();
            self.go_through(passed < MERCY);
            passed += 1;
        }
        true
    }

    /// Enlarges a shard if it is full and below its limit.
    fn grow(&mut self, shard: usize) {
        let (now, bits) = (self.shards[shard].places.len(), self.bits);
        if self.shards[shard].is_full() && now < self.shard_most {
            let next = (now * 2).clamp(FIRST_PLACES, self.shard_most);
            self.shards[shard].grow(next, bits);
            self.places += next - now;
        }
    }

    fn begin(&mut self) {
        self.segment = self.segments.len();
        self.segments.push(vec![0; SEGMENT].into());
        self.ends.push(0);
        self.end = 0;
    }

    /// Sweeps this segment, keeping the read entries if `spares` is set.
    fn go_through(&mut self, spares: bool) {
        let first = self.segment as u32 * SEGMENT_UNITS;
        let (mut from, mut to) = (0, 0);
        while from < self.ends[self.segment] {
            let unit = first + (from / UNIT) as u32;
            let Some(at) = self.at(unit) else { break };
            let Some(entry) = Entry::read(at).filter(|entry| entry.units > 0) else { break };
            let bytes = usize::from(entry.units) * UNIT;
            let mark = if entry.state == DEAD { None } else { entry.key(at).and_then(layout::marks).map(|(mark, _)| mark) };
            if let Some(mark) = mark
                && let Some((at, _)) = self.search(mark, |other| other == unit)
            {
                if spares && entry.state == WAS_READ {
                    let segment = &mut self.segments[self.segment];
                    write(&mut segment[from..], Entry { state: LIVES, ..entry });
                    segment.copy_within(from..from + bytes, to);
                    self.shards[at.0].places[at.1] = place(mark, first + (to / UNIT) as u32);
                    to += bytes;
                } else {
                    self.unlink(at);
                }
            }
            from += bytes;
        }
        self.ends[self.segment] = to;
        self.end = to;
    }

    /// Checks that every entry is in the index once, and nothing else is.
    #[cfg(test)]
    pub fn check(&self) {
        let mut found = 0;
        for (number, segment) in self.segments.iter().enumerate() {
            let end = if number == self.segment { self.end } else { self.ends[number] };
            let mut from = 0;
            while from < end {
                let entry = Entry::read(&segment[from..]).unwrap();
                if entry.state != DEAD {
                    let unit = number as u32 * SEGMENT_UNITS + (from / UNIT) as u32;
                    let key = entry.key(&segment[from..]).unwrap();
                    assert_eq!(self.find(key).unwrap().1, unit);
                    found += 1;
                }
                from += usize::from(entry.units) * UNIT;
            }
        }
        let indexed: usize = self.shards.iter().map(|shard| shard.places.iter().filter(|place| **place != 0).count()).sum();
        assert_eq!((found, indexed, self.shards.iter().map(|shard| shard.len).sum()), (self.len, self.len, self.len));
        assert!(self.used() <= self.capacity);
    }
}

fn write(at: &mut [u8], entry: Entry) {
    if let Some(head) = at.first_chunk_mut::<HEAD>() {
        *head = entry.bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use std::collections::HashMap;

    fn key(n: usize) -> Vec<u8> {
        layout::entry_key(7, layout::DatabaseBytes::START.of(n % 3), format!("key{n}").as_bytes())
    }

    fn get(hot: &mut Hot, key: &[u8]) -> Option<Vec<u8>> {
        let mut out = b"before".to_vec();
        let found = hot.get(key, &mut out, Purpose::Use);
        assert!(found.is_some() || out == b"before");
        found.map(|_| out)
    }

    /// Misses an entry as often as it takes to be cached.
    fn keep(hot: &mut Hot, key: &[u8], value: &[u8]) {
        (0..2).for_each(|_| {
            if hot.find(key).is_none() {
                hot.missed(key, value, Purpose::Use);
            }
        });
    }

    #[test]
    fn a_value_that_grows_seldom_moves() {
        let mut hot = Hot::new(16 << 20);
        let mut value = vec![7; 2000];
        keep(&mut hot, &key(1), &value);
        for _ in 0..100 {
            value.extend_from_slice(&[7; 20]);
            hot.wrote(&key(1), Some(&value));
            assert_eq!(get(&mut hot, &key(1)).as_ref(), Some(&value));
        }
        hot.check();
        assert_eq!(hot.segments.len(), 1);
    }

    #[test]
    fn the_second_miss_keeps_an_entry_where_there_is_no_more_room() {
        let mut hot = Hot::new(1 << 20);
        let mut n = 1_000_000;
        while hot.has_room() {
            hot.missed(&key(n), &[0; 300], Purpose::Use);
            n += 1;
        }
        hot.missed(&key(1), b"one", Purpose::Use);
        assert_eq!(get(&mut hot, &key(1)), None);
        hot.wrote(&key(1), Some(b"one"));
        assert_eq!(get(&mut hot, &key(1)), None);
        hot.missed(&key(1), b"one", Purpose::Use);
        assert_eq!(get(&mut hot, &key(1)).as_deref(), Some(&b"one"[..]));
        hot.check();
    }

    /// Where writes count, a key is admitted at its first use after its write, and not by writes alone or for its removal.
    #[test]
    fn a_written_key_is_kept_from_its_first_use_on_where_writes_count() {
        let mut hot = Hot::new(1 << 20);
        let mut n = 1_000_000;
        while hot.has_room() {
            hot.wrote(&key(n), Some(&[0; 300]));
            n += 1;
        }
        for (name, counts_writes, expected) in [(1, false, None), (2, true, Some(&b"new"[..]))] {
            hot.clock.counting.counts_writes = counts_writes;
            (0..3).for_each(|_| hot.wrote(&key(name), Some(b"new")));
            assert_eq!(get(&mut hot, &key(name)), None);
            hot.missed(&key(name), b"new", Purpose::Removal);
            assert_eq!(get(&mut hot, &key(name)), None);
            hot.missed(&key(name), b"new", Purpose::Use);
            assert_eq!((get(&mut hot, &key(name)).as_deref(), hot.use_of(&key(name)) == Use::NEVER), (expected, expected.is_none()));
        }
        hot.wrote(&key(3), None);
        hot.missed(&key(3), b"new", Purpose::Use);
        assert_eq!(get(&mut hot, &key(3)), None);
        hot.check();
    }

    #[test]
    fn what_comes_first_is_kept() {
        let mut hot = Hot::new(1 << 20);
        assert_eq!((get(&mut hot, &key(1)), hot.used()), (None, 0));
        hot.missed(&key(1), b"one", Purpose::Use);
        assert_eq!(get(&mut hot, &key(1)).as_deref(), Some(&b"one"[..]));
        assert_eq!((hot.counts, hot.len()), (HotCounts { hits: 1, misses: 1 }, 1));
        // The same name in another database is another key.
        assert_eq!(get(&mut hot, &layout::entry_key(7, layout::DatabaseBytes::START.of(2), b"key1")), None);
        for value in [&b"two"[..], b"", b"longer than before, so that it moves", b"x"] {
            hot.wrote(&key(1), Some(value));
            assert_eq!(get(&mut hot, &key(1)).as_deref(), Some(value));
            hot.check();
        }
        hot.wrote(&key(2), Some(b"nobody has asked for it"));
        assert_eq!(get(&mut hot, &key(2)).as_deref(), Some(&b"nobody has asked for it"[..]));
        hot.wrote(&key(2), None);
        hot.wrote(&key(1), Some(&[7; LARGEST]));
        assert_eq!((get(&mut hot, &key(1)), hot.len()), (None, 0));
        keep(&mut hot, &key(3), &[7; LARGEST]);
        assert_eq!(get(&mut hot, &key(3)), None);
        keep(&mut hot, &key(4), &vec![7; LARGEST - HEAD - key(4).len()]);
        assert_eq!(get(&mut hot, &key(4)).map(|value| value.len()), Some(LARGEST - HEAD - key(4).len()));
        hot.wrote(&key(4), None);
        assert_eq!(get(&mut hot, &key(4)), None);
        hot.check();
    }

    #[test]
    fn one_without_room_keeps_nothing() {
        for capacity in [0, 1, SEGMENT as u64] {
            let mut hot = Hot::new(capacity);
            keep(&mut hot, &key(1), b"one");
            hot.wrote(&key(1), Some(b"two"));
            assert_eq!((get(&mut hot, &key(1)), hot.used()), (None, 0));
            hot.clear();
        }
    }

    /// The use of a key stays with its entry wherever it moves, and a look without use changes nothing.
    #[test]
    fn uses_are_kept_with_their_entries() {
        let mut hot = Hot::new(200 << 10);
        hot.clock.set(50_000);
        hot.wrote(&key(1), Some(b"1"));
        let idle = |hot: &Hot, n| hot.use_of(&key(n)).idle_ms(&hot.clock);
        hot.clock.set(90_000);
        let (mut out, first) = (Vec::new(), hot.use_of(&key(1)));
        let looked = hot.get(&key(1), &mut out, Purpose::Look);
        assert_eq!((looked, hot.use_of(&key(1)), idle(&hot, 1)), (Some(Part::Whole), first, Some(40_000)));
        hot.wrote(&key(1), Some(&[7; 300]));
        assert_eq!((hot.use_of(&key(1)), idle(&hot, 2)), (first, None));
        hot.use_entry(&key(1));
        assert_eq!(idle(&hot, 1), Some(0));
        hot.clock.set(99_000);
        (2..5_000).for_each(|n| {
            let _ = hot.get(&key(1), &mut out, Purpose::Look);
            for _ in 0..2 {
                if hot.find(&key(n)).is_none() {
                    hot.missed(&key(n), &[1; 200], if n % 2 == 0 { Purpose::Use } else { Purpose::Look });
                }
            }
        });
        assert_eq!((idle(&hot, 1), idle(&hot, 4_999), idle(&hot, 4_998)), (Some(9_000), None, Some(0)));
        let long = layout::entry_key(7, layout::DatabaseBytes::START.of(0), b"long");
        let value = [&b"\0"[..], &[7; 5000]].concat();
        keep(&mut hot, &long, &value);
        assert_eq!((hot.get(&long, &mut out, Purpose::Use), out.as_slice()), (Some(Part::Start(5000)), &b"\0"[..]));
        hot.check();
    }

    /// A cached entry is always the last one written; and memory stays within its bounds.
    #[test]
    fn a_map_agrees() {
        for (seed, capacity) in [(1, 80 << 10), (2, 200 << 10), (3, 1 << 20)] {
            let mut random = Random(seed);
            let (mut hot, mut map) = (Hot::new(capacity), HashMap::new());
            for step in 0..60_000 {
                let skewed = random.below(40) * random.below(40);
                let name = key(skewed);
                match random.below(100) {
                    0..65 => {
                        let stored: Option<&Vec<u8>> = map.get(&name);
                        match (get(&mut hot, &name), stored) {
                            (Some(value), stored) => assert_eq!(Some(&value), stored, "step {step}"),
                            (None, Some(value)) => hot.missed(&name, value, Purpose::Use),
                            (None, None) => {}
                        }
                    }
                    65..90 => {
                        let most = [3, 30, 300, 5000][random.below(4)];
                        let value = random.bytes(most, b"abc");
                        hot.wrote(&name, Some(&value));
                        map.insert(name, value);
                    }
                    90..99 => {
                        hot.wrote(&name, None);
                        map.remove(&name);
                    }
                    _ if random.below(50) == 0 => hot.clear(),
                    _ => {}
                }
                if step % 500 == 0 {
                    hot.check();
                }
            }
            assert!(hot.counts.hits > 5_000, "{:?}", hot.counts);
        }
    }

    #[test]
    fn entries_of_the_least_size_do_not_fill_the_index() {
        let (mut hot, mut most) = (Hot::new(80 << 10), 0);
        for n in 0..10_000usize {
            let name = layout::entry_key(7, layout::DatabaseBytes::START.of(0), &(n as u64).to_le_bytes()[..2]);
            keep(&mut hot, &name, b"");
            assert_eq!(get(&mut hot, &name).as_deref(), Some(&b""[..]));
            most = most.max(hot.len());
        }
        hot.check();
        assert!(most > SEGMENT / PER_PLACE / 2 && most < SEGMENT / PER_PLACE, "{most}");
    }

    /// Memory follows the number of entries, whatever the limit; written entries are cached, too, as long as they displace none.
    #[test]
    fn the_index_grows_with_what_is_here() {
        let mut hot = Hot::new(1 << 40);
        assert_eq!(hot.used(), 0);
        let value = [7; 50];
        for n in 0..60_000 {
            if n % 2 == 0 {
                hot.wrote(&key(n), Some(&value));
            } else {
                hot.missed(&key(n), &value, Purpose::Use);
            }
            let least = hot.len() as u64 * 80;
            assert!(hot.used() <= least * 2 + (SHARDS * FIRST_PLACES * size_of::<IndexSlot>() + SEGMENT) as u64, "{} for {n}", hot.used());
        }
        hot.check();
        assert_eq!((0..60_000).filter(|n| hot.expect_entry(&key(*n)) && get(&mut hot, &key(*n)).is_some()).count(), 60_000);
    }

    #[test]
    fn what_is_written_does_not_displace() {
        let mut hot = Hot::new(200 << 10);
        (0..2_000).for_each(|n| hot.wrote(&key(n), Some(&[1; 100])));
        let kept = hot.len();
        (2_000..50_000).for_each(|n| hot.wrote(&key(n), Some(&[1; 100])));
        assert!(kept > 400 && kept < 2_000 && hot.len() >= kept, "{kept} {}", hot.len());
        assert!(get(&mut hot, &key(0)).is_some() && get(&mut hot, &key(49_999)).is_none());
        hot.check();
    }

    #[test]
    fn what_is_read_stays_and_what_passes_by_goes() {
        let mut hot = Hot::new(1 << 20);
        let value = [1; 200];
        (0..500).for_each(|n| keep(&mut hot, &key(n), &value));
        for n in 1000..50_000 {
            // Each of these comes twice and never again.
            keep(&mut hot, &key(n), &value);
            let _ = get(&mut hot, &key(n % 500));
        }
        let kept = (0..500).filter(|n| get(&mut hot, &key(*n)).is_some()).count();
        assert_eq!(kept, 500);
        // An entry that is missed once displaces nothing.
        let before = hot.len();
        (100_000..200_000).for_each(|n| hot.missed(&key(n), &value, Purpose::Use));
        assert!(hot.len() <= before + 10, "{} after {before}", hot.len());
        hot.check();
    }
}
