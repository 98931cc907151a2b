//! Encoding of a key's entry in the engine: `head byte | [deadline, 8 bytes] | body`.
//!
//! The head byte has the type in its low four bits, the [`Form`] in the next three, and 0x80 if a deadline follows (unix milliseconds,
//! little-endian). A string's body is the string.
//!
//! An inline collection, of form 1, has three varints: flags, bytes of the changes since the entry was written whole (`delta`), and the
//! number of elements. Flag 1, which only hashes have, says that some fields have deadlines; then two more varints follow, those of
//! [`FieldDeadlines`]. Its body is the elements (`inline`). An ordered set of integers has a type of its own here.
//!
//! In forms 0 and 2, a collection's body is its id and its number of elements, as varints; a list adds the index of its first item, and a
//! stream, which is always of form 0, the fields of [`StreamHead`], as varints. Form 3 is form 2 of a hash some of whose fields have
//! deadlines: the varints of [`FieldDeadlines`] follow. Forms 4, 6 and 7 are forms 0, 2 and 3 with the bytes of the elements as a varint
//! behind their number; the forms without are of earlier versions. A string in pieces has a type of its own here: its body is the id of its
//! pieces and its length, as varints.

use super::entry_id::EntryId;
use super::error::{Error, Result};
use sinterdb::internal::coding::{Decoder, put_varint};

const DEADLINE: u8 = 0x80;
/// Lowest bit of the form.
const FORM: u8 = 0x10;
/// Two types that exist only in entries: a string that lies in pieces, and a set of integers in their order.
const PIECES: u8 = 6;
const INTEGERS: u8 = 7;
/// Longest string, bytes, that a client writes or appends to.
pub const LONGEST_STRING: u64 = 512 << 20;
/// Longest string, bytes, that is stored: a field of 64 bits may begin at the last bit of [`LONGEST_STRING`].
pub(super) const LONGEST_STORED: u64 = LONGEST_STRING + 8;
/// Shortest string that is written in pieces and read in steps, bytes.
pub const LONG: usize = 1 << 20;
/// Index of a list's first item when the list is created: as many indexes before as behind it.
pub(super) const LIST_MIDDLE: u64 = 1 << 63;

/// Form of a hash whose fields are engine keys of their own and have deadlines.
const WITH_DEADLINES: u8 = 3;
/// Flag in the form of a collection whose entry has the bytes of its elements.
const SIZED: u8 = 4;
/// Flag of an inline hash whose fields have deadlines.
const HAS_DEADLINES: u64 = 1;

const UNREADABLE: Error = Error::Damaged("its entry cannot be read");
const NEWER: Error = Error::Damaged("its entry has a flag that this program does not know");

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The first item.
    Left,
    /// The last item.
    Right,
}

/// Type of the value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A string of bytes.
    String = 0,
    /// Strings in the order in which they were pushed.
    List = 1,
    /// Distinct strings.
    Set = 2,
    /// Distinct strings, ordered by a number and then by their bytes.
    SortedSet = 3,
    /// Strings by field.
    Hash = 4,
    /// Entries of fields and values, in the order of the ids that they were added with.
    Stream = 5,
}

/// Encoding of a collection's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Engine keys of their own; a change puts a small collection into its key's entry. Strings and streams always have this form.
    Plain,
    /// In the key's entry.
    Inline,
    /// In the key's entry; all elements are integers, ascending.
    Integers,
    /// Engine keys of their own for as long as the collection exists.
    Elements,
}

/// Bytes before a string, at most.
pub(super) const STRING_START_MOST: usize = 9;

/// The bytes before the string in an entry; `None`: the entry holds no string.
pub(super) fn string_start(entry: &[u8]) -> Option<&[u8]> {
    let first = *entry.first()?;
    let length = if first & DEADLINE == 0 { 1 } else { STRING_START_MOST };
    entry.get(..length).filter(|_| first & !DEADLINE == Kind::String as u8)
}

impl Kind {
    fn from_bits(bits: u8) -> Option<Kind> {
        Some(match bits {
            0 => Kind::String,
            1 => Kind::List,
            2 => Kind::Set,
            3 => Kind::SortedSet,
            4 => Kind::Hash,
            5 => Kind::Stream,
            _ => return None,
        })
    }

    /// The name that `TYPE` gives.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
        }
    }
}

/// Properties of a stream besides the number of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamHead {
    /// Id of the first entry; [`EntryId::MIN`] if there is none.
    pub first: EntryId,
    /// The largest id that was given to an entry, or that was set.
    pub last: EntryId,
    /// The largest id of an entry that was deleted, not counting trims.
    pub max_deleted: EntryId,
    /// Number of entries that were ever added.
    pub added: u64,
}

impl StreamHead {
    fn encode(&self, out: &mut Vec<u8>) {
        for id in [self.first, self.last, self.max_deleted] {
            put_varint(out, id.ms());
            put_varint(out, id.seq());
        }
        put_varint(out, self.added);
    }

    fn decode(from: &mut Decoder) -> Option<StreamHead> {
        let mut id = || Some(EntryId::new(from.varint()?, from.varint()?));
        let (first, last, max_deleted) = (id()?, id()?, id()?);
        Some(StreamHead { first, last, max_deleted, added: from.varint()? })
    }
}

/// Deadlines of the fields of a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldDeadlines {
    /// Number of fields that have a deadline.
    pub count: u64,
    /// The earliest of these deadlines, unix milliseconds; 0 if there is none.
    pub first: u64,
}

impl FieldDeadlines {
    fn put(self, out: &mut Vec<u8>) {
        put_varint(out, self.count);
        put_varint(out, self.first);
    }

    /// Reads the deadlines of some of `fields` fields.
    fn read(from: &mut Decoder, fields: u64) -> Option<FieldDeadlines> {
        let deadlines = FieldDeadlines { count: from.varint()?, first: from.varint()? };
        (deadlines.first > 0 && (1..=fields).contains(&deadlines.count)).then_some(deadlines)
    }
}

/// Everything known of a key except its elements, or the value of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Type of the value.
    pub kind: Kind,
    /// Encoding of the elements.
    pub form: Form,
    /// Deadline of the key, unix milliseconds.
    pub deadline: Option<u64>,
    /// Id of the collection or of the pieces of a string, never used again; 0 for an inline collection and for a string in its entry.
    pub(super) id: u64,
    /// Bytes of the changes to an inline collection since its entry was written whole.
    pub(super) deltas: u64,
    /// Number of elements of a collection, length of a string that lies in pieces, else 0.
    pub count: u64,
    /// Bytes of the value: length of a string, encoded elements of an inline collection, names and values of other elements (`sizes`).
    /// `None`: unknown, as an earlier version has written the collection.
    pub(super) size: Option<u64>,
    /// Index of a list's first item.
    pub(super) first: u64,
    /// Properties of a stream.
    pub stream: StreamHead,
    /// Deadlines of the fields of a hash.
    pub fields: FieldDeadlines,
}

impl Head {
    pub(super) fn string(deadline: Option<u64>) -> Self {
        Head { first: 0, deadline, ..Head::collection(Kind::String, 0) }
    }

    /// A collection without elements, of the plain form.
    pub(super) fn collection(kind: Kind, id: u64) -> Self {
        let (stream, fields) = (StreamHead::default(), FieldDeadlines::default());
        Head { kind, form: Form::Plain, deadline: None, id, deltas: 0, count: 0, size: Some(0), first: LIST_MIDDLE, stream, fields }
    }

    /// Whether the elements lie in the entry.
    pub fn is_inline(&self) -> bool {
        matches!(self.form, Form::Inline | Form::Integers)
    }

    /// Whether the value is a string in pieces.
    pub fn is_in_pieces(&self) -> bool {
        self.kind == Kind::String && self.id != 0
    }

    /// Whether `id` is the id of its elements or pieces.
    pub fn has_id(&self, id: u64) -> bool {
        self.id == id
    }

    /// The head with the size of the value, of which `body` is a string or the elements of an inline collection.
    pub(super) fn with_body(self, body: &[u8]) -> Self {
        let size = match () {
            () if self.is_in_pieces() => Some(self.count),
            () if self.id == 0 => Some(body.len() as u64),
            () => self.size,
        };
        Head { size, ..self }
    }

    /// Changes the size after elements of so many bytes were added, and elements of so many bytes were removed.
    pub(super) fn resize(&mut self, added: usize, removed: usize) {
        if let Some(size) = &mut self.size {
            *size = size.saturating_add(added as u64).saturating_sub(removed as u64);
        }
    }

    /// Whether the entry has the bytes of the elements.
    fn is_sized(&self) -> bool {
        self.size.is_some() && self.kind != Kind::String && !self.is_inline()
    }

    /// Whether the collection has lost its last element and so is to be removed: a stream stays, with its last id and its groups.
    pub(super) fn is_gone(&self) -> bool {
        self.count == 0 && self.kind != Kind::Stream
    }

    /// Whether some fields have deadlines.
    pub fn has_field_deadlines(&self) -> bool {
        self.fields.count > 0
    }

    /// The earliest of the key's own deadline and the deadlines of its fields.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let of_fields = self.has_field_deadlines().then_some(self.fields.first);
        self.deadline.into_iter().chain(of_fields).min()
    }

    /// Encodes an entry; `body` is the value of a string, or the elements of an inline collection.
    pub(super) fn encode(&self, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(24 + body.len());
        self.put(&mut out, body);
        out
    }

    /// Appends [`Head::encode`] to `out`.
    pub(super) fn put(&self, out: &mut Vec<u8>, body: &[u8]) {
        let (kind, form) = match self.form {
            Form::Plain if self.is_in_pieces() => (PIECES, 0),
            Form::Plain => (self.kind as u8, 0),
            Form::Inline => (self.kind as u8, 1),
            Form::Integers => (INTEGERS, 1),
            Form::Elements if self.has_field_deadlines() => (self.kind as u8, WITH_DEADLINES),
            Form::Elements => (self.kind as u8, 2),
        };
        let sized = if self.is_sized() { SIZED } else { 0 };
        out.push(kind | ((form | sized) * FORM) | if self.deadline.is_some() { DEADLINE } else { 0 });
        if let Some(deadline) = self.deadline {
            out.extend_from_slice(&deadline.to_le_bytes());
        }
        if kind == Kind::String as u8 {
            out.extend_from_slice(body);
        } else if self.is_inline() {
            put_varint(out, if self.has_field_deadlines() { HAS_DEADLINES } else { 0 });
            put_varint(out, self.deltas);
            put_varint(out, self.count);
            if self.has_field_deadlines() {
                self.fields.put(out);
            }
            out.extend_from_slice(body);
        } else {
            put_varint(out, self.id);
            put_varint(out, self.count);
            self.size.filter(|_| self.is_sized()).into_iter().for_each(|size| put_varint(out, size));
            if form == WITH_DEADLINES {
                self.fields.put(out);
            }
            if self.kind == Kind::List {
                put_varint(out, self.first);
            }
            if self.kind == Kind::Stream {
                self.stream.encode(out);
            }
        }
    }

    /// Decodes an entry; also returns the offset at which the string or the elements of an inline collection start.
    pub(super) fn decode(entry: &[u8]) -> Result<(Head, usize)> {
        Self::read(entry).ok_or(UNREADABLE)?
    }

    fn read(entry: &[u8]) -> Option<Result<(Head, usize)>> {
        let mut from = Decoder::new(entry);
        let byte = from.u8()?;
        let bits = byte & (FORM - 1);
        let (number, is_sized) = (((byte & !DEADLINE) / FORM) & !SIZED, byte & (SIZED * FORM) != 0);
        let form = match number {
            0 => Form::Plain,
            1 if bits == INTEGERS => Form::Integers,
            1 => Form::Inline,
            2 => Form::Elements,
            WITH_DEADLINES if bits == Kind::Hash as u8 => Form::Elements,
            _ => return None,
        };
        let kind = match bits {
            PIECES => Kind::String,
            INTEGERS if form == Form::Integers => Kind::Set,
            bits => Kind::from_bits(bits)?,
        };
        let is_string = kind == Kind::String;
        if form != Form::Plain && (is_string || kind == Kind::Stream) || is_sized && (is_string || number == 1) {
            return None;
        }
        let deadline = if byte & DEADLINE == 0 { None } else { Some(from.u64()?) };
        if bits == Kind::String as u8 {
            return Some(Ok((Head::string(deadline).with_body(from.rest()), entry.len() - from.rest().len())));
        }
        let mut head = Head { form, deadline, ..Head::collection(kind, 0) };
        if head.is_inline() {
            let has_deadlines = match from.varint()? {
                0 => false,
                HAS_DEADLINES if kind == Kind::Hash => true,
                _ => return Some(Err(NEWER)),
            };
            (head.deltas, head.count) = (from.varint()?, from.varint()?);
            if has_deadlines {
                head.fields = FieldDeadlines::read(&mut from, head.count)?;
            }
            // An element takes a byte at least.
            return (head.count <= from.rest().len() as u64).then(|| Ok((head.with_body(from.rest()), entry.len() - from.rest().len())));
        }
        (head.id, head.count) = (from.varint()?, from.varint()?);
        head.size = if is_sized { Some(from.varint()?) } else { None };
        if is_string && (head.id == 0 || head.count > LONGEST_STORED) {
            return None;
        }
        if number == WITH_DEADLINES {
            head.fields = FieldDeadlines::read(&mut from, head.count)?;
        }
        if kind == Kind::List {
            head.first = from.varint()?;
        }
        head.first.checked_add(head.count)?;
        if kind == Kind::Stream {
            head.stream = StreamHead::decode(&mut from)?;
        }
        from.is_empty().then_some(Ok((head.with_body(b""), entry.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        assert_eq!(Head::string(None).encode(b"ab"), b"\0ab");
        assert_eq!(Head::string(Some(0x0102)).encode(b""), b"\x80\x02\x01\0\0\0\0\0\0");
        let set = Head { count: 3, size: None, ..Head::collection(Kind::Set, 300) };
        assert_eq!(set.encode(b"ignored"), b"\x02\xac\x02\x03");
        let list = Head { count: 1, first: 5, size: None, deadline: Some(1), ..Head::collection(Kind::List, 1) };
        assert_eq!(list.encode(b""), b"\x81\x01\0\0\0\0\0\0\0\x01\x01\x05");
        let head = StreamHead { first: EntryId::new(1, 0), last: EntryId::new(300, 2), max_deleted: EntryId::new(3, 4), added: 9 };
        let stream = Head { count: 2, size: None, stream: head, ..Head::collection(Kind::Stream, 1) };
        let pieces = Head { id: 300, count: 4097, ..Head::string(None) };
        assert_eq!(pieces.encode(b"ignored"), b"\x06\xac\x02\x81\x20");
        let inline = Head { form: Form::Inline, count: 2, deltas: 300, deadline: Some(1), ..Head::collection(Kind::Hash, 0) };
        assert_eq!(inline.encode(b"\x01a\x01b"), b"\x94\x01\0\0\0\0\0\0\0\0\xac\x02\x02\x01a\x01b");
        let integers = Head { form: Form::Integers, count: 1, ..Head::collection(Kind::Set, 0) };
        assert_eq!(integers.encode(b"\x017"), b"\x17\0\0\x01\x017");
        assert_eq!(Head { form: Form::Elements, ..set }.encode(b""), b"\x22\xac\x02\x03");
        let fields = FieldDeadlines { count: 1, first: 300 };
        assert_eq!(Head { fields, ..inline }.encode(b"x"), b"\x94\x01\0\0\0\0\0\0\0\x01\xac\x02\x02\x01\xac\x02x");
        let hash = Head { form: Form::Elements, count: 3, size: None, fields, ..Head::collection(Kind::Hash, 7) };
        assert_eq!(hash.encode(b""), b"\x34\x07\x03\x01\xac\x02");
        assert_eq!(stream.encode(b""), b"\x05\x01\x02\x01\0\xac\x02\x02\x03\x04\x09");
        // With the bytes of the elements.
        let sized = |head: Head| Head { size: Some(300), ..head }.encode(b"");
        assert_eq!(sized(set), b"\x42\xac\x02\x03\xac\x02");
        assert_eq!(sized(Head { form: Form::Elements, ..list }), b"\xe1\x01\0\0\0\0\0\0\0\x01\x01\xac\x02\x05");
        assert_eq!(sized(hash), b"\x74\x07\x03\xac\x02\x01\xac\x02");
        assert_eq!(sized(stream), b"\x45\x01\x02\xac\x02\x01\0\xac\x02\x02\x03\x04\x09");
    }

    #[test]
    fn entries_read_back_and_damage_is_noticed() {
        let heads = [Kind::String, Kind::List, Kind::Set, Kind::SortedSet, Kind::Hash, Kind::Stream].map(|kind| Head {
            count: 7,
            size: Some(7),
            deadline: Some(9),
            ..Head::collection(kind, 1 << 40)
        });
        for head in heads {
            let bytes = head.encode(b"");
            assert_eq!(Head::decode(&bytes).unwrap(), (head, bytes.len()));
            for end in 0..bytes.len() {
                assert!(Head::decode(&bytes[..end]).is_err(), "{head:?} cut at {end}");
            }
            assert!(Head::decode(&[&bytes[..], b"\0"].concat()).is_err());
            let earlier = Head { size: None, ..head };
            let known = if head.kind == Kind::String { head } else { earlier };
            assert_eq!(Head::decode(&earlier.encode(b"")).unwrap().0, known);
        }
        for head in [(Kind::Hash, Form::Inline), (Kind::Set, Form::Integers)] {
            let head = Head { form: head.1, count: 2, deltas: 5, deadline: Some(9), ..Head::collection(head.0, 0) };
            let bytes = head.encode(b"abc");
            assert_eq!(Head::decode(&bytes).unwrap(), (head.with_body(b"abc"), bytes.len() - 3));
        }
        for (form, id) in [(Form::Inline, 0), (Form::Elements, 9)] {
            let good = FieldDeadlines { count: 2, first: 1 << 41 };
            let head = Head { form, count: 2, fields: good, ..Head::collection(Kind::Hash, id) };
            let body = &b"abc"[..if id == 0 { 3 } else { 0 }];
            let bytes = head.encode(body);
            assert_eq!(Head::decode(&bytes).unwrap(), (head.with_body(body), bytes.len() - body.len()));
            for end in 0..bytes.len() - body.len() {
                assert!(Head::decode(&bytes[..end]).is_err(), "{head:?} cut at {end}");
            }
            // Damage: more deadlines than fields, or no earliest one.
            for fields in [FieldDeadlines { count: 3, ..good }, FieldDeadlines { first: 0, ..good }] {
                assert!(Head::decode(&Head { fields, ..head }.encode(body)).is_err(), "{fields:?}");
            }
        }
        let bytes = Head::string(Some(4)).encode(b"value");
        assert_eq!(Head::decode(&bytes).unwrap(), (Head::string(Some(4)).with_body(b"value"), 9));
        // An unknown type or form, a string or a stream of another form, an inline collection with fewer bytes than elements, and an inline
        // collection or a string with the bytes of its elements.
        for wrong in
            [&b""[..], b"\x0f", b"\x32\x01\x01", b"\x10x", b"\x15\0\0\0", b"\x80\0\0\0", b"\x07\x01\x01", b"\x12\0\0\x02x", b"\x42\x01\x01"]
                .into_iter()
                .chain([&b"\x52\0\0\x01\0"[..], b"\x46\x01\x01\x01", b"\x40x", b"\x65\x01\x01\x01"])
        {
            assert!(Head::decode(wrong).is_err(), "{wrong:?}");
        }
        // A flag that only hashes have, and one that nothing has.
        for flags in [&b"\x12\x01\0\x01\x01x"[..], b"\x14\x02\0\x01\x01x"] {
            let newer = Head::decode(flags).unwrap_err();
            assert!(newer.to_string().contains("a flag that this program does not know"), "{newer}");
        }
        // A string longer than any, and one of no pieces.
        for (id, count) in [(1, LONGEST_STORED + 1), (0, 1)] {
            let mut wrong = vec![PIECES];
            put_varint(&mut wrong, id);
            put_varint(&mut wrong, count);
            assert!(Head::decode(&wrong).is_err(), "{id} {count}");
        }
        // A list whose end is behind the last index.
        let list = Head { count: 2, first: u64::MAX, ..Head::collection(Kind::List, 1) };
        assert!(Head::decode(&list.encode(b"")).is_err());
    }
}
