//! Engine keys of keys, elements and settings (docs/decisions/0020).
//!
//! Family `default` ([`FamilyKind::Keys`]):
//!
//! ```text
//! database 0x00..0x1f | hash of the key, 7 bytes | key      what the key holds: `entry`
//! 0x20 or 0x21 | deadline, 8 bytes | database | key         nothing; keys, and hashes with fields, that have this deadline
//! 0x30 | name                                               settings of the keyspace
//! ```
//!
//! The byte of a database is its [`DatabaseByte`]; the setting `counters` says which number of `SELECT` has which byte. There are two
//! generations of these bytes: 0x00..0x0f with the deadlines of 0x20, and 0x10..0x1f with those of 0x21. A keyspace has its databases in
//! one of them. In the other there is nothing, or a keyspace that is being filled to replace the first one: `successor`.
//!
//! A small collection has its elements in its key's entry. Family `elements` has the elements of all others:
//! `id of the collection, 6 bytes | part | rest`. Numbers are big-endian, so that bytes order as the numbers do.
//!
//! * Part 0, no rest: the collection exists.
//! * Part 1, `hash of the member, 7 bytes | member`: a member of a set (no value), a field of a hash (its value), a member of a sorted
//!   set (its score, 8 bytes, as [`score_number`]).
//! * Part 2, `score, 8 bytes | member`: a sorted set in its order: nothing, or `-` if the score is -0.
//! * Part 3, `index, 8 bytes`: an item of a list.
//! * Part 4, `entry id, 16 bytes`: an entry of a stream: the number of its fields as a varint, then each field and its value, both with
//!   their length as a varint before them. An entry id is milliseconds and sequence number, 8 bytes each.
//! * Part 5, `name`: a group of a stream: its number; the id that was delivered last, 16 bytes; the entries read so far and one, or 0
//!   where that is not known; how many entries are pending; how many consumers there are. Numbers are varints.
//! * Part 6, `number of a group, 6 bytes | kind | rest`: what belongs to a group.
//!   * Kind 0, `name`: the number of the consumer of this name, a varint.
//!   * Kind 1, `number of a consumer, 6 bytes`: a consumer: when it was last seen (unix milliseconds), how many entries it has pending,
//!     both varints, and its name.
//!   * Kind 2, `entry id`: an entry that was delivered and is not acknowledged yet: the number of its consumer, when it was delivered last
//!     (unix milliseconds), how often it was delivered; three varints.
//!   * Kind 3, `number of a consumer, 6 bytes | entry id`: the same entry among those of its consumer; no value.
//! * Part 7, `number, 4 bytes`: a piece of a string: [`PIECE`] bytes of it from its number times as many on, without zeros at the end. One
//!   that is not there is zeros.
//! * Part 8, `deadline, 8 bytes | field`: a field of a hash that has a deadline (unix milliseconds), in the order of deadlines; no value.
//! * Part 9, `hash of the field, 7 bytes | field`: the deadline of the field, 8 bytes.
//!
//! A key has at most one entry among the deadlines of family `default`: the earliest of its own deadline and those of its fields.
//!
//! Numbers of groups and consumers come from the source of the ids of collections, so none is used again: the entries of a group are one
//! range, and a new group or consumer with an old name finds nothing of the old one.
//!
//! Keys and members are ordered by their hashes, which have a secret seed. So a scan's cursor is the start of a hash (`scans`): it needs no
//! memory on the server and stays right whatever is added and removed meanwhile. And the first eight bytes, by which the engine's trees are
//! searched, differ from key to key. Nothing is cut from a key, and a key may contain any byte: parts of fixed length come first.

use super::entry_id::{ENTRY_ID, EntryId};
use super::error::{Error, Result};
use sinterdb::MAX_KEY;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Number of databases that `SELECT` accepts.
pub const DATABASES: usize = 16;
/// Bytes of a hash in a key.
const HASH: usize = 7;
/// Bytes of a collection's id.
const ID: usize = 6;
/// Bytes of a piece of a string: the cost of changing one bit of a long string. Tests have strings of many pieces.
pub(super) const PIECE: usize = if cfg!(test) { 16 } else { 1 << 10 };
/// The largest id.
pub(super) const ID_MAX: u64 = (1 << 48) - 1;
/// The largest hash.
pub(super) const HASH_MAX: u64 = (1 << 56) - 1;
/// Longest key or member, bytes; the bytes before it in the engine's key take the rest.
const NAME_MAX: usize = MAX_KEY - 64;

/// Number of generations of database bytes.
const GENERATIONS: usize = 2;
/// Prefix of deadlines of the first generation; the prefix of the second follows.
const EXPIRY: u8 = 0x20;
const SETTING: u8 = 0x30;

/// Parts of a collection.
const EXISTS: u8 = 0;
const MEMBER: u8 = 1;
const SCORE: u8 = 2;
const ITEM: u8 = 3;
const ENTRY: u8 = 4;
const GROUP: u8 = 5;
const GROUPED: u8 = 6;
const PIECE_OF_STRING: u8 = 7;
const DUE: u8 = 8;
const FIELD_DEADLINE: u8 = 9;

/// Kinds of entries of a group of a stream.
const CONSUMER_NAME: u8 = 0;
const CONSUMER: u8 = 1;
const PENDING: u8 = 2;
const OWNED: u8 = 3;

/// One of the two column families of a keyspace in the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FamilyKind {
    /// Keys, deadlines, settings.
    Keys,
    /// Elements of collections.
    Elements,
}

/// Direction of a walk over a range of engine keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

/// A range of engine keys: the first one, and the first one behind it.
pub(super) type Bounds = (Vec<u8>, Vec<u8>);

/// The hash by which keys and members are ordered.
pub(super) fn hash(seed: u64, name: &[u8]) -> u64 {
    xxh3_64_with_seed(name, seed) >> 8
}

/// Refuses a key that the engine could not keep.
///
/// # Errors
/// [`Error::TooLong`].
pub fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > NAME_MAX { Err(Error::TooLong("a key")) } else { Ok(()) }
}

/// Refuses a member or field that the engine could not keep. Commands that add many members check all of them first.
///
/// # Errors
/// [`Error::TooLong`].
pub fn check_member(member: &[u8]) -> Result<()> {
    if member.len() > NAME_MAX { Err(Error::TooLong("a member of a collection")) } else { Ok(()) }
}

/// Byte of a database in engine keys. [`DatabaseBytes`] maps the numbers of `SELECT` to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DatabaseByte(u8);

impl DatabaseByte {
    fn read(byte: u8) -> Option<DatabaseByte> {
        (usize::from(byte) < DATABASES * GENERATIONS).then_some(DatabaseByte(byte))
    }

    fn generation(self) -> Generation {
        Generation(self.0 / DATABASES as u8)
    }
}

/// One of the two sets of sixteen database bytes, with a prefix of its own for deadlines. A keyspace uses one; a successor that is being
/// filled uses the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation(u8);

impl Generation {
    fn first(self) -> u8 {
        self.0 * DATABASES as u8
    }

    /// The generation that a successor of this one uses.
    pub fn other(self) -> Generation {
        Generation(1 - self.0)
    }

    /// Entries of keys of all databases.
    pub fn entries(self) -> Bounds {
        (vec![self.first()], vec![self.first() + DATABASES as u8])
    }

    /// All deadlines.
    pub fn deadlines(self) -> Bounds {
        below(vec![EXPIRY + self.0])
    }

    /// The deadlines from one time up to and including another.
    pub fn deadlines_within(self, from: u64, to: u64) -> Bounds {
        let at = |time: u64| [&[EXPIRY + self.0][..], &time.to_be_bytes()].concat();
        (at(from), behind(&at(to)))
    }
}

/// Byte of each database in the engine. Two databases change bytes without a key being moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DatabaseBytes([u8; DATABASES]);

impl DatabaseBytes {
    /// Bytes of a new keyspace: each database at its own number.
    pub const START: DatabaseBytes = DatabaseBytes::of_generation(Generation(0));

    /// Bytes of a generation: each database at its own number.
    pub const fn of_generation(generation: Generation) -> DatabaseBytes {
        let mut places = [0; DATABASES];
        let mut db = 0;
        while db < DATABASES {
            places[db] = generation.0 * DATABASES as u8 + db as u8;
            db += 1;
        }
        DatabaseBytes(places)
    }

    pub fn generation(&self) -> Generation {
        self.of(0).generation()
    }

    /// The byte of a database, whose number is below [`DATABASES`].
    pub fn of(&self, db: usize) -> DatabaseByte {
        DatabaseByte(self.0[db.min(DATABASES - 1)])
    }

    /// Number of the database that has this byte.
    pub fn database(&self, place: DatabaseByte) -> usize {
        self.0.iter().position(|other| *other == place.0).unwrap_or(0)
    }

    pub fn swap(&mut self, a: usize, b: usize) {
        self.0.swap(a.min(DATABASES - 1), b.min(DATABASES - 1));
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Decodes [`DatabaseBytes::bytes`]: each byte of a generation once.
    pub fn read(bytes: &[u8]) -> Option<DatabaseBytes> {
        let places = DatabaseBytes(bytes.try_into().ok()?);
        let generation = DatabaseByte::read(*places.0.first()?)?.generation();
        let is_whole = DatabaseBytes::of_generation(generation).0.iter().all(|place| places.0.contains(place));
        is_whole.then_some(places)
    }
}

fn put_hash(out: &mut Vec<u8>, hash: u64) {
    // The lower seven of eight bytes.
    out.extend_from_slice(&hash.min(HASH_MAX).to_be_bytes()[1..]);
}

/// The smallest byte string larger than every one that starts with `prefix`. A prefix here does not consist of 0xff alone.
fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// Range of all engine keys that start with `prefix`.
fn below(prefix: Vec<u8>) -> Bounds {
    let end = behind(&prefix);
    (prefix, end)
}

/// Engine key of a key's entry.
pub(super) fn entry_key(seed: u64, place: DatabaseByte, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + HASH + key.len());
    put_entry_key(&mut out, seed, place, key);
    out
}

/// Appends an [`entry_key`] to `out`.
pub(super) fn put_entry_key(out: &mut Vec<u8>, seed: u64, place: DatabaseByte, key: &[u8]) {
    // Byte and hash are eight bytes.
    let mut start = hash(seed, key).to_be_bytes();
    start[0] = place.0;
    out.reserve(start.len() + key.len());
    out.extend_from_slice(&start);
    out.extend_from_slice(key);
}

/// The hash and the key of an [`entry_key`].
pub(super) fn split_entry_key(entry: &[u8]) -> Option<(u64, &[u8])> {
    split_hashed(entry.get(1..)?)
}

/// Byte of the database and the key of an [`entry_key`].
pub(super) fn split_place(entry: &[u8]) -> Option<(DatabaseByte, &[u8])> {
    let (_, key) = split_entry_key(entry)?;
    Some((DatabaseByte::read(*entry.first()?)?, key))
}

/// Two fingerprints of an [`entry_key`], as evenly spread as its hash; `None`: this is no such key. The index of `hot` has the first one,
/// and the second one is never 0.
pub(super) fn marks(entry: &[u8]) -> Option<(u32, u32)> {
    let [place, a, b, c, d, e, f, g] = *entry.first_chunk::<8>()?;
    let of_place = u32::from(place).wrapping_mul(0x9e37_79b9);
    DatabaseByte::read(place).map(|_| (u32::from_be_bytes([a, b, c, d]) ^ of_place, u32::from_be_bytes([d, e, f, g]).max(1)))
}

fn split_hashed(hashed: &[u8]) -> Option<(u64, &[u8])> {
    let (hash, name) = hashed.split_at_checked(HASH)?;
    let mut bytes = [0u8; 8];
    bytes[1..].copy_from_slice(hash);
    Some((u64::from_be_bytes(bytes), name))
}

/// The entries of a database whose hash is at least `from`.
pub(super) fn entries(place: DatabaseByte, from: u64) -> Bounds {
    let mut lower = vec![place.0];
    put_hash(&mut lower, from);
    (lower, vec![place.0 + 1])
}

/// Engine key of a deadline, unix milliseconds; deadlines order by time.
pub(super) fn expiry_key(deadline: u64, place: DatabaseByte, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(10 + key.len());
    out.push(EXPIRY + place.generation().0);
    out.extend_from_slice(&deadline.to_be_bytes());
    out.push(place.0);
    out.extend_from_slice(key);
    out
}

/// Deadline, byte of the database, and key of an [`expiry_key`].
pub(super) fn split_expiry_key(entry: &[u8]) -> Option<(u64, DatabaseByte, &[u8])> {
    let (deadline, rest) = entry.get(1..)?.split_first_chunk::<8>()?;
    let (place, key) = rest.split_first()?;
    Some((u64::from_be_bytes(*deadline), DatabaseByte::read(*place)?, key))
}

/// Engine key of a setting of the keyspace.
pub(super) fn setting_key(name: &[u8]) -> Vec<u8> {
    [&[SETTING], name].concat()
}

fn put_id(out: &mut Vec<u8>, id: u64) {
    // The lower six of eight bytes.
    out.extend_from_slice(&id.min(ID_MAX).to_be_bytes()[2..]);
}

fn part(id: u64, part: u8, more: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(ID + 1 + more);
    put_id(&mut out, id);
    out.push(part);
    out
}

/// Engine key of the entry that says that a collection exists.
pub(super) fn exists_key(id: u64) -> Vec<u8> {
    part(id, EXISTS, 0)
}

/// Id of the collection that an element belongs to, and whether the element is the entry that says that the collection exists.
pub(super) fn owner(element: &[u8]) -> Option<(u64, bool)> {
    let (id, rest) = element.split_at_checked(ID)?;
    let mut bytes = [0u8; 8];
    bytes[2..].copy_from_slice(id);
    Some((u64::from_be_bytes(bytes), *rest.first()? == EXISTS))
}

/// Ids of collections: the first one, and the first one behind them.
pub(super) type Ids = std::ops::Range<u64>;

/// All elements of the collections with these ids.
pub(super) fn elements_of(ids: &Ids) -> Bounds {
    let at = |id: u64| {
        let mut bytes = Vec::with_capacity(ID + 1);
        put_id(&mut bytes, id);
        bytes
    };
    // An element is longer than the id alone.
    (at(ids.start), if ids.end > ID_MAX { vec![u8::MAX; ID + 1] } else { at(ids.end) })
}

/// Whether a range lies within the elements of one collection.
pub(super) fn is_of_one_collection(bounds: &Bounds) -> bool {
    bounds.0.get(..ID).is_some_and(|id| bounds.1.get(..ID) == Some(id))
}

/// The elements of a collection, without the entry that says that it exists.
pub(super) fn elements(id: u64) -> Bounds {
    (part(id, MEMBER, 0), part(id, u8::MAX, 0))
}

/// Engine key of the corresponding element in the collection `id`.
pub(super) fn with_owner(element: &[u8], id: u64) -> Vec<u8> {
    let mut out = part(id, 0, element.len());
    out.truncate(ID);
    out.extend_from_slice(element.get(ID..).unwrap_or_default());
    out
}

/// Engine key of a member of a set, field of a hash, or member of a sorted set.
pub(super) fn member_key(id: u64, seed: u64, member: &[u8]) -> Vec<u8> {
    hashed_key(id, hash(seed, member), member)
}

/// A [`member_key`] for a member whose hash is known.
pub(super) fn hashed_key(id: u64, hash: u64, member: &[u8]) -> Vec<u8> {
    hashed_part(id, MEMBER, hash, member)
}

fn hashed_part(id: u64, of: u8, hash: u64, member: &[u8]) -> Vec<u8> {
    let mut out = part(id, of, HASH + member.len());
    put_hash(&mut out, hash);
    out.extend_from_slice(member);
    out
}

/// Engine key of the deadline of a field.
pub(super) fn field_deadline_key(id: u64, seed: u64, field: &[u8]) -> Vec<u8> {
    hashed_part(id, FIELD_DEADLINE, hash(seed, field), field)
}

/// Engine key of a field in the order of deadlines.
pub(super) fn due_key(id: u64, deadline: u64, field: &[u8]) -> Vec<u8> {
    numbered_part(id, DUE, deadline, field)
}

/// Deadline and name of a [`due_key`].
pub(super) fn split_due_key(element: &[u8]) -> Option<(u64, &[u8])> {
    split_score_key(element)
}

/// The fields of a hash whose deadline is at or behind a time and before another.
pub(super) fn dues(id: u64, from: u64, to: u64) -> Bounds {
    (due_key(id, from, b""), due_key(id, to, b""))
}

/// Range of all fields of a hash with a deadline, from a given deadline on.
pub(super) fn all_dues(id: u64, from: u64) -> Bounds {
    (due_key(id, from, b""), part(id, DUE + 1, 0))
}

fn numbered_part(id: u64, of: u8, number: u64, name: &[u8]) -> Vec<u8> {
    let mut out = part(id, of, 8 + name.len());
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(name);
    out
}

/// The hash and the name of a [`member_key`].
pub(super) fn split_member_key(element: &[u8]) -> Option<(u64, &[u8])> {
    split_hashed(element.get(ID + 1..)?)
}

/// The members whose hash is at least `from`.
pub(super) fn members(id: u64, from: u64) -> Bounds {
    let prefix = part(id, MEMBER, HASH);
    let end = behind(&prefix);
    let mut lower = prefix;
    put_hash(&mut lower, from);
    (lower, end)
}

/// Engine key of an item of a list.
pub(super) fn item_key(id: u64, index: u64) -> Vec<u8> {
    let mut out = part(id, ITEM, 8);
    out.extend_from_slice(&index.to_be_bytes());
    out
}

/// The items of a list from one index up to another.
pub(super) fn items(id: u64, from: u64, to: u64) -> Bounds {
    (item_key(id, from), item_key(id, to))
}

/// Engine key of a piece of a string.
pub(super) fn piece_key(id: u64, index: u64) -> Vec<u8> {
    let mut out = part(id, PIECE_OF_STRING, 4);
    out.extend_from_slice(&u32::try_from(index).unwrap_or(u32::MAX).to_be_bytes());
    out
}

/// Offset in the string at which the piece of a [`piece_key`] begins.
pub(super) fn piece_start(element: &[u8]) -> Option<u64> {
    let index = element.get(ID + 1..)?.try_into().ok()?;
    Some(u64::from(u32::from_be_bytes(index)) * PIECE as u64)
}

/// The pieces that hold the bytes of a string from one offset up to another.
pub(super) fn pieces(id: u64, from: u64, to: u64) -> Bounds {
    (piece_key(id, from / PIECE as u64), piece_key(id, to.div_ceil(PIECE as u64)))
}

/// A number that orders as scores do; negative zero is zero.
pub(super) fn score_order(score: f64) -> u64 {
    score_number(score + 0.0)
}

/// A number that orders as scores do and has the sign of zero.
pub(super) fn score_number(score: f64) -> u64 {
    let bits = score.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The score of a [`score_order`] or a [`score_number`].
pub(super) fn score_of(order: u64) -> f64 {
    f64::from_bits(if order >> 63 == 1 { order & !(1 << 63) } else { !order })
}

/// Engine key of a member of a sorted set in the order of scores.
pub(super) fn score_key(id: u64, score: u64, member: &[u8]) -> Vec<u8> {
    numbered_part(id, SCORE, score, member)
}

/// Score order and member of a [`score_key`].
pub(super) fn split_score_key(element: &[u8]) -> Option<(u64, &[u8])> {
    let (order, member) = element.get(ID + 1..)?.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*order), member))
}

/// A whole sorted set in its order.
pub(super) fn scores(id: u64) -> Bounds {
    below(part(id, SCORE, 0))
}

/// Engine key of an entry of a stream.
pub(super) fn stream_key(id: u64, entry: EntryId) -> Vec<u8> {
    let mut out = part(id, ENTRY, ENTRY_ID + 1);
    out.extend_from_slice(&entry.bytes());
    out
}

/// The entry id at the end of a key.
pub(super) fn split_entry_id(element: &[u8]) -> Option<EntryId> {
    EntryId::from_bytes(element.get(element.len().checked_sub(ENTRY_ID)?..)?)
}

/// The range of keys that end in an entry id, from one id up to and including another.
fn up_to_entry(prefix: &[u8], from: EntryId, to: EntryId) -> Bounds {
    ([prefix, &from.bytes()].concat(), [prefix, &to.bytes(), b"\0"].concat())
}

/// The entries of a stream from one id up to and including another.
pub(super) fn stream_entries(id: u64, from: EntryId, to: EntryId) -> Bounds {
    up_to_entry(&part(id, ENTRY, 0), from, to)
}

/// Engine key of a group of a stream.
pub(super) fn group_key(id: u64, name: &[u8]) -> Vec<u8> {
    let mut out = part(id, GROUP, name.len());
    out.extend_from_slice(name);
    out
}

/// The name of a [`group_key`].
pub(super) fn split_group_key(element: &[u8]) -> Option<&[u8]> {
    element.get(ID + 1..)
}

/// All groups of a stream.
pub(super) fn groups(id: u64) -> Bounds {
    below(part(id, GROUP, 0))
}

/// A group: the stream's id and its number.
pub(super) type GroupPlace = (u64, u64);

fn grouped(group: GroupPlace, kind: u8, more: usize) -> Vec<u8> {
    let mut out = part(group.0, GROUPED, ID + 1 + more);
    put_id(&mut out, group.1);
    out.push(kind);
    out
}

/// All entries of a group.
pub(super) fn all_grouped(group: GroupPlace) -> Bounds {
    (grouped(group, CONSUMER_NAME, 0), grouped(group, u8::MAX, 0))
}

/// Engine key of the number of a consumer.
pub(super) fn consumer_name_key(group: GroupPlace, name: &[u8]) -> Vec<u8> {
    let mut out = grouped(group, CONSUMER_NAME, name.len());
    out.extend_from_slice(name);
    out
}

/// The names of all consumers of a group.
pub(super) fn consumer_names(group: GroupPlace) -> Bounds {
    below(grouped(group, CONSUMER_NAME, 0))
}

/// Engine key of a consumer.
pub(super) fn consumer_key(group: GroupPlace, consumer: u64) -> Vec<u8> {
    let mut out = grouped(group, CONSUMER, ID);
    put_id(&mut out, consumer);
    out
}

/// Engine key of a pending entry of a group.
pub(super) fn pending_key(group: GroupPlace, entry: EntryId) -> Vec<u8> {
    let mut out = grouped(group, PENDING, ENTRY_ID);
    out.extend_from_slice(&entry.bytes());
    out
}

/// The pending entries of a group from one id up to and including another.
pub(super) fn pending(group: GroupPlace, from: EntryId, to: EntryId) -> Bounds {
    up_to_entry(&grouped(group, PENDING, 0), from, to)
}

/// Engine key of a pending entry among its consumer's.
pub(super) fn owned_key(group: GroupPlace, consumer: u64, entry: EntryId) -> Vec<u8> {
    let mut out = grouped(group, OWNED, ID + ENTRY_ID);
    put_id(&mut out, consumer);
    out.extend_from_slice(&entry.bytes());
    out
}

/// The pending entries of a consumer from one id up to and including another.
pub(super) fn owned(group: GroupPlace, consumer: u64, from: EntryId, to: EntryId) -> Bounds {
    let mut prefix = grouped(group, OWNED, ID);
    put_id(&mut prefix, consumer);
    up_to_entry(&prefix, from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(db: usize) -> DatabaseByte {
        DatabaseBytes::START.of(db)
    }

    #[test]
    fn databases_change_places() {
        let mut places = DatabaseBytes::START;
        places.swap(0, 3);
        places.swap(3, 7);
        for db in 0..DATABASES {
            assert_eq!(places.database(places.of(db)), db);
        }
        assert_eq!((places.of(0), places.of(7), places.of(3)), (DatabaseByte(3), DatabaseByte(0), DatabaseByte(7)));
        assert_eq!(DatabaseBytes::read(places.bytes()), Some(places));
        assert_eq!(DatabaseBytes::read(&[0; DATABASES]), None);
        assert_eq!(DatabaseBytes::read(&DatabaseBytes::START.bytes()[1..]), None);
    }

    #[test]
    fn generations_share_nothing() {
        let generations = [Generation(0), Generation(1)];
        let all = |generation: Generation| {
            let mut places = DatabaseBytes::of_generation(generation);
            places.swap(2, 9);
            assert_eq!((DatabaseBytes::read(places.bytes()), places.generation()), (Some(places.clone()), generation));
            let databases = 0..DATABASES;
            let keys = databases.clone().map(|db| entry_key(7, places.of(db), b"\xff")).collect::<Vec<_>>();
            (keys, databases.map(|db| expiry_key(u64::MAX - db as u64, places.of(db), b"x")).collect::<Vec<_>>())
        };
        for one in generations {
            for other in generations {
                let (keys, deadlines) = all(other);
                let has = |(from, to): Bounds, of: Vec<Vec<u8>>| of.iter().filter(|key| from <= **key && **key < to).count();
                let expected = if one == other { DATABASES } else { 0 };
                assert_eq!((has(one.entries(), keys), has(one.deadlines(), deadlines)), (expected, expected));
            }
            assert_eq!((one.other() == one, one.other().other()), (false, one));
        }
        let mut mixed = DatabaseBytes::START;
        mixed.0[3] += DATABASES as u8;
        assert_eq!((DatabaseBytes::read(mixed.bytes()), DatabaseBytes::read(&[32; DATABASES])), (None, None));
        assert_eq!(split_expiry_key(&[&[EXPIRY][..], &[0; 8], b"\x20k"].concat()), None);
    }

    #[test]
    fn scores_order_as_numbers_do() {
        let ascending =
            [f64::NEG_INFINITY, f64::MIN, -1.5, -1.0, -f64::MIN_POSITIVE, -5e-324, 0.0, 5e-324, 1.0, 1.5, f64::MAX, f64::INFINITY];
        for pair in ascending.windows(2) {
            assert!(score_order(pair[0]) < score_order(pair[1]), "{pair:?}");
        }
        for score in ascending {
            assert_eq!(score_of(score_order(score)), score);
            assert_eq!(score_of(score_number(score)), score);
        }
        assert!(score_of(score_number(-0.0)).is_sign_negative() && score_of(score_number(0.0)).is_sign_positive());
        assert_eq!(score_order(-0.0), score_order(0.0));
    }

    #[test]
    fn keys_read_back_whatever_bytes_they_have() {
        for name in [&b""[..], b"a", b"\0", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"a\0b", b"0123456789"] {
            let entry = entry_key(7, place(15), name);
            assert_eq!((entry[0], split_entry_key(&entry)), (15, Some((hash(7, name), name))));
            let (from, to) = entries(place(15), 0);
            assert!(from <= entry && entry < to);
            let (from, to) = entries(place(15), hash(7, name));
            assert!(from <= entry && entry < to);
            assert_eq!(split_expiry_key(&expiry_key(9, place(3), name)), Some((9, place(3), name)));
            let member = member_key(ID_MAX - 1, 7, name);
            assert_eq!(split_member_key(&member), Some((hash(7, name), name)));
            assert_eq!(owner(&member), Some((ID_MAX - 1, false)));
            let (from, to) = members(ID_MAX - 1, 0);
            assert!(from <= member && member < to);
            assert_eq!(split_score_key(&score_key(1, 42, name)), Some((42, name)));
            let (from, to) = scores(0x00ff_ffff);
            let score = score_key(0x00ff_ffff, u64::MAX, name);
            assert!(from <= score && score < to);
            let due = due_key(ID_MAX - 1, 42, name);
            assert_eq!((split_due_key(&due), owner(&due)), (Some((42, name)), Some((ID_MAX - 1, false))));
            for (bounds, is_inside) in [
                (dues(ID_MAX - 1, 42, 43), true),
                (dues(ID_MAX - 1, 0, 42), false),
                (dues(ID_MAX - 1, 43, u64::MAX), false),
                (all_dues(ID_MAX - 1, 42), true),
                (all_dues(ID_MAX - 1, 43), false),
                (elements(ID_MAX - 1), true),
                (members(ID_MAX - 1, 0), false),
            ] {
                assert_eq!(bounds.0 <= due && due < bounds.1, is_inside, "{bounds:?}");
            }
            let deadline = field_deadline_key(ID_MAX - 1, 7, name);
            assert!(split_member_key(&deadline) == Some((hash(7, name), name)) && deadline >= all_dues(ID_MAX - 1, 0).1);
            assert!(elements(ID_MAX - 1).0 <= deadline && deadline < elements(ID_MAX - 1).1);
        }
        assert_eq!(owner(&exists_key(3)), Some((3, true)));
        let (from, to) = Generation(0).deadlines_within(0, u64::MAX);
        assert!(from < to && expiry_key(u64::MAX, place(0), b"x") < to);
        let (from, to) = Generation(0).deadlines_within(3, 8);
        assert!(expiry_key(8, place(15), b"\xff") < to && expiry_key(9, place(0), b"") >= to);
        assert!(expiry_key(2, place(15), b"\xff") < from && from < expiry_key(3, place(0), b""));
    }

    #[test]
    fn what_a_stream_has_lies_in_its_ranges_in_order() {
        let ids = [EntryId::MIN, EntryId::new(0, 1), EntryId::new(1, u64::MAX), EntryId::new(2, 0), EntryId::MAX];
        let group = (5, 9);
        type Entry = fn(GroupPlace, EntryId) -> Vec<u8>;
        type Range = fn(GroupPlace, EntryId, EntryId) -> Bounds;
        let families: [(Entry, Range); 3] = [
            (|group, id| stream_key(group.0, id), |group, from, to| stream_entries(group.0, from, to)),
            (pending_key, pending),
            (|group, id| owned_key(group, 3, id), |group, from, to| owned(group, 3, from, to)),
        ];
        let mut all = Vec::new();
        let (from, to) = pieces(5, PIECE as u64, 4 * PIECE as u64 + 1);
        for (index, is_inside) in [(0, false), (1, true), (4, true), (5, false)] {
            let place = piece_key(5, index);
            assert_eq!((from <= place && place < to, piece_start(&place)), (is_inside, Some(index * PIECE as u64)));
            all.push(place);
        }
        let pieces = all.len();
        for (place, range) in families {
            let places = ids.map(|id| place(group, id));
            assert!(places.is_sorted() && ids.iter().zip(&places).all(|(id, place)| split_entry_id(place) == Some(*id)));
            let (from, to) = range(group, ids[1], ids[3]);
            assert_eq!(places.each_ref().map(|place| from <= *place && *place < to), [false, true, true, true, false]);
            all.extend(places);
        }
        let (from, to) = all_grouped(group);
        for name in [&b""[..], b"\0", b"a", b"\xff\xff"] {
            assert_eq!(split_group_key(&group_key(5, name)), Some(name));
            let (first, last) = groups(5);
            assert!(first <= group_key(5, name) && group_key(5, name) < last);
            let (first, last) = consumer_names(group);
            assert!(first <= consumer_name_key(group, name) && consumer_name_key(group, name) < last);
            assert!(from <= consumer_name_key(group, name) && consumer_name_key(group, name) < to);
        }
        all.push(consumer_key(group, 3));
        assert!(all[pieces + ids.len()..].iter().all(|place| from <= *place && *place < to));
        let (first, last) = elements_of(&(5..6));
        assert!(all.iter().chain([&exists_key(5)]).all(|place| first <= *place && *place < last));
        for (outside, id) in [(1..5, 5), (6..ID_MAX + 1, 5), (1..ID_MAX, ID_MAX)] {
            let (first, last) = elements_of(&outside);
            assert!(exists_key(id) >= last || first > with_owner(&all[0], id), "{outside:?}");
        }
        let (first, last) = elements_of(&(6..ID_MAX + 1));
        assert!(first < exists_key(6) && with_owner(&all[0], ID_MAX - 1) < last);
        let (first, last) = elements(5);
        assert!(all.iter().all(|place| owner(place) == Some((5, false)) && first <= *place && *place < last));
        assert!(all_grouped((5, 8)).1 <= from && all_grouped((5, 10)).0 >= to);
    }

    /// Keys of different names differ, also where one name is the start of another.
    #[test]
    fn keys_are_unambiguous() {
        let names = [&b""[..], b"\0", b"\0\0", b"a", b"a\0", b"ab", b"\xff"];
        let mut all = Vec::new();
        for db in 0..DATABASES {
            all.extend(names.iter().map(|name| entry_key(1, place(db), name)));
        }
        all.extend(names.iter().map(|name| setting_key(name)));
        for deadline in [0, 1, u64::MAX] {
            all.extend(names.iter().map(|name| expiry_key(deadline, place(0), name)));
        }
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
