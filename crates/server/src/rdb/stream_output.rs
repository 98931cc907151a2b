//! Writing of streams. Entries are packed into nodes, and the number of nodes stands before them: a writer goes through the entries twice,
//! first to count nodes and then to write them ([`Nodes`] divides equal entries in the same way).

use super::kind;
use super::output::{Output, Version};
use super::streams::StreamEntryId;
use std::io::{self, Write};

/// Largest number of entries of a node, and size at which it is full, bytes: defaults of a Redis server.
const ENTRIES: u64 = 100;
const BYTES: usize = 4096;
/// Flag of an entry that has the fields of its node.
const SAME_FIELDS: i64 = 2;

/// Type under which a stream is written.
pub fn stream_kind(version: Version) -> u8 {
    match version {
        Version::Nine => kind::STREAM,
        Version::Ten => kind::STREAM_2,
        Version::Eleven | Version::Twelve | Version::Eighty => kind::STREAM_3,
    }
}

/// Some consecutive entries, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    first: StreamEntryId,
    pack: Vec<u8>,
}

/// A node that is being filled.
#[derive(Debug)]
struct Open {
    first: StreamEntryId,
    /// Fields of the first entry, which others with these fields need not repeat.
    fields: Vec<Vec<u8>>,
    entries: u64,
    /// Parts of the listpack behind its head.
    parts: Vec<u8>,
    count: u64,
}

/// Divides entries, which come in the order of their ids, into nodes.
#[derive(Debug, Default)]
pub struct Nodes {
    open: Option<Open>,
}

impl Nodes {
    /// Adds an entry; returns the node before it if that is full.
    pub fn add<T: AsRef<[u8]>>(&mut self, id: StreamEntryId, fields: &[(T, T)]) -> Option<Node> {
        let is_full = self.open.as_ref().is_some_and(|open| open.entries >= ENTRIES || open.parts.len() >= BYTES);
        let full = if is_full { self.end() } else { None };
        self.open.get_or_insert_with(|| Open::new(id, fields)).add(id, fields);
        full
    }

    /// The last node.
    pub fn end(&mut self) -> Option<Node> {
        self.open.take().map(Open::close)
    }
}

impl Open {
    fn new<T: AsRef<[u8]>>(first: StreamEntryId, fields: &[(T, T)]) -> Self {
        let fields = fields.iter().map(|(name, _)| name.as_ref().to_vec()).collect();
        Open { first, fields, entries: 0, parts: Vec::new(), count: 0 }
    }

    fn add<T: AsRef<[u8]>>(&mut self, id: StreamEntryId, fields: &[(T, T)]) {
        let names = fields.iter().map(|(name, _)| name.as_ref());
        let is_same = names.eq(self.fields.iter().map(Vec::as_slice));
        let before = self.count;
        self.integer(if is_same { SAME_FIELDS } else { 0 });
        self.integer(id.ms.wrapping_sub(self.first.ms).cast_signed());
        self.integer(id.seq.wrapping_sub(self.first.seq).cast_signed());
        if !is_same {
            self.number(fields.len() as u64);
        }
        for (name, value) in fields {
            if !is_same {
                self.text(name.as_ref());
            }
            self.text(value.as_ref());
        }
        self.number(self.count - before);
        self.entries += 1;
    }

    fn number(&mut self, number: u64) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    fn integer(&mut self, number: i64) {
        self.count += 1;
        put_integer(&mut self.parts, number);
    }

    fn text(&mut self, text: &[u8]) {
        self.count += 1;
        put_text(&mut self.parts, text);
    }

    fn close(mut self) -> Node {
        let parts = std::mem::take(&mut self.parts);
        // The entry before all others: the number of entries, the number of deleted ones, and the fields.
        self.number(self.entries);
        self.number(0);
        let fields = std::mem::take(&mut self.fields);
        self.number(fields.len() as u64);
        fields.iter().for_each(|name| self.text(name));
        self.number(0);
        // Bytes, parts, parts.., end. Entries of the size that requests may have never exceed these counts.
        let bytes = u32::try_from(6 + self.parts.len() + parts.len() + 1).unwrap_or(u32::MAX);
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        let pack = [&bytes.to_le_bytes()[..], &count.to_le_bytes(), &self.parts, &parts, b"\xff"].concat();
        Node { first: self.first, pack }
    }
}

fn put_integer(out: &mut Vec<u8>, number: i64) {
    let start = out.len();
    match (u8::try_from(number), i16::try_from(number)) {
        (Ok(small), _) if small < 0x80 => out.push(small),
        (_, Ok(short)) => {
            out.push(0xf1);
            out.extend(short.to_le_bytes());
        }
        _ => {
            out.push(0xf4);
            out.extend(number.to_le_bytes());
        }
    }
    put_back(out, start);
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let start = out.len();
    match u8::try_from(text.len()) {
        Ok(short) if short < 64 => out.push(0x80 | short),
        _ => {
            out.push(0xf0);
            out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
    }
    out.extend_from_slice(text);
    put_back(out, start);
}

/// Appends the length of a part behind it: groups of seven bits, the most significant one first.
fn put_back(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    let groups = match length {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    };
    for group in (0..groups).rev() {
        let bits = (length >> (7 * group)) as u8 & 0x7f;
        out.push(if group + 1 == groups { bits } else { bits | 0x80 });
    }
}

/// Properties of a stream as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamState {
    /// Number of entries.
    pub length: u64,
    /// Id of the first entry; 0-0 without any.
    pub first: StreamEntryId,
    /// Largest id ever given.
    pub last: StreamEntryId,
    /// Largest id removed; 0-0 without any.
    pub max_deleted: StreamEntryId,
    /// Number of entries ever added.
    pub added: u64,
}

/// Parts of a stream, in the order of writing: `length` nodes, the state, `length` groups, each with `length` pending entries and `length`
/// consumers, each of these with `length` entries that it owns.
impl<W: Write> Output<W> {
    fn id(&mut self, id: StreamEntryId) -> io::Result<()> {
        self.length(id.ms)?;
        self.length(id.seq)
    }

    fn raw_id(&mut self, id: StreamEntryId) -> io::Result<()> {
        self.bytes(&id.ms.to_be_bytes())?;
        self.bytes(&id.seq.to_be_bytes())
    }

    /// Writes a node.
    pub fn stream_node(&mut self, node: &Node) -> io::Result<()> {
        self.length(16)?;
        self.raw_id(node.first)?;
        self.length(node.pack.len() as u64)?;
        self.bytes(&node.pack)
    }

    /// Writes the properties of the stream as a whole.
    pub fn stream_state(&mut self, version: Version, state: &StreamState) -> io::Result<()> {
        self.length(state.length)?;
        self.id(state.last)?;
        if version == Version::Nine {
            return Ok(());
        }
        self.id(state.first)?;
        self.id(state.max_deleted)?;
        self.length(state.added)
    }

    /// Writes a group: its name, the last id delivered to it, and the number of entries delivered to it, if known.
    pub fn stream_group(&mut self, version: Version, name: &[u8], last: StreamEntryId, read: Option<u64>) -> io::Result<()> {
        self.string(name)?;
        self.id(last)?;
        // An unknown number is -1.
        if version == Version::Nine { Ok(()) } else { self.length(read.unwrap_or(u64::MAX)) }
    }

    /// Writes a pending entry of a group: when it was delivered last (unix milliseconds), and how often.
    pub fn stream_pending(&mut self, id: StreamEntryId, delivered: u64, deliveries: u64) -> io::Result<()> {
        self.raw_id(id)?;
        self.bytes(&delivered.to_le_bytes())?;
        self.length(deliveries)
    }

    /// Writes a consumer: its name, when it was last seen, and when it was last given something (unix milliseconds).
    pub fn stream_consumer(&mut self, version: Version, name: &[u8], seen: u64, active: Option<u64>) -> io::Result<()> {
        self.string(name)?;
        self.bytes(&seen.to_le_bytes())?;
        if version >= Version::Eleven { self.bytes(&active.unwrap_or(u64::MAX).to_le_bytes()) } else { Ok(()) }
    }

    /// Writes a pending entry that a consumer owns.
    pub fn stream_owned(&mut self, id: StreamEntryId) -> io::Result<()> {
        self.raw_id(id)
    }
}
