//! Streams as they are read: one part after the other, in an order in which a stream can be rebuilt.
//!
//! First all entries, then the corrections, then one [`StreamElement::State`], then group by group: the group, its pending entries, and its
//! consumers, each followed by the pending entries that it owns.

use super::input::Input;
use super::packed::{Damage, Entry, Listpack};
use super::skip::producers;
use super::{Error, Result, kind};
use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::io::Read;

/// Id of an entry: milliseconds, and a number among the entries of that millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamEntryId {
    /// Unix milliseconds, as a rule.
    pub ms: u64,
    /// Number among the ids of that millisecond.
    pub seq: u64,
}

impl Display for StreamEntryId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// A field of an entry and its value.
pub type StreamField<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// A part of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamElement<'a> {
    /// An entry; ids ascend from above 0-0.
    Entry {
        /// Id of the entry.
        id: StreamEntryId,
        /// Fields and values of the entry.
        fields: &'a [StreamField<'a>],
    },
    /// Description of a correction: some versions of Redis have written streams whose properties contradict their entries; the entries
    /// count. Comes before the state.
    Corrected(&'a str),
    /// Properties of the stream as a whole; all entries came before.
    State {
        /// Number of entries, always the number that came before.
        length: u64,
        /// Largest id ever given, at least the id of the last entry and the largest removed id.
        last: StreamEntryId,
        /// Largest id removed; 0-0 if unknown.
        max_deleted: StreamEntryId,
        /// Number of entries ever added, at least the present number; `None` in files of Redis 6 and older, which do not store it.
        added: Option<u64>,
    },
    /// A consumer group.
    Group {
        /// Name of the group.
        name: &'a [u8],
        /// Last id delivered to the group.
        last: StreamEntryId,
        /// Number of entries delivered to the group; `None` if unknown.
        read: Option<u64>,
    },
    /// An entry that was delivered to the last group and is not acknowledged; ids ascend.
    Pending {
        /// Id of the entry.
        id: StreamEntryId,
        /// When the entry was last delivered, unix milliseconds.
        delivered: u64,
        /// Number of deliveries of the entry.
        deliveries: u64,
    },
    /// A consumer of the last group.
    Consumer {
        /// Name of the consumer.
        name: &'a [u8],
        /// When the consumer last asked for something, unix milliseconds.
        seen: u64,
        /// When the consumer was last given something, unix milliseconds; `None` if unknown or never.
        active: Option<u64>,
    },
    /// A pending entry that the last consumer owns; ids ascend, and the consumers of a group own as many as it has.
    Owned {
        /// Id of the entry.
        id: StreamEntryId,
    },
}

/// Callback for each part of a stream.
type Visit<'v, E> = dyn FnMut(StreamElement<'_>) -> std::result::Result<(), E> + 'v;

/// Largest number of fields of an entry: a request has no more arguments.
pub(super) const FIELDS_MAX: u64 = 1 << 20;
/// Flags of an entry inside a node.
const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// Reads a stream of one of the four versions.
pub(super) fn read_stream<R: Read, E: From<Error>>(input: &mut Input<R>, version: u8, visit: &mut Visit<E>) -> std::result::Result<(), E> {
    let mut text = Vec::new();
    let (mut entries, mut last_seen) = (0u64, StreamEntryId::default());
    let nodes = input.length()?;
    for _ in 0..nodes {
        input.string(&mut text)?;
        let base = raw_id(&text).ok_or_else(|| input.damaged("the id of a stream's node"))?;
        input.string(&mut text)?;
        node(&text, base, &mut |id, fields| {
            if id <= std::mem::replace(&mut last_seen, id) {
                return Err(Stopped::Damage("ids of a stream that do not ascend"));
            }
            entries += 1;
            visit(StreamElement::Entry { id, fields }).map_err(Stopped::Visit)
        })
        .map_err(|stopped| match stopped {
            Stopped::Damage(what) => input.damaged(what).into(),
            Stopped::Visit(error) => error,
        })?;
    }
    let length = input.length()?;
    if nodes == 0 && length > 0 {
        return Err(input.damaged("a stream that has not as many entries as it says").into());
    }
    state(input, version, (length, entries), last_seen, visit)?;
    for _ in 0..input.length()? {
        group(input, version, &mut text, visit)?;
    }
    if version == kind::STREAM_4 {
        producers(input)?;
    }
    Ok(())
}

/// Reads the state of a stream of so many entries up to this id, and corrects it. The length in the file was read before.
fn state<R: Read, E: From<Error>>(
    input: &mut Input<R>,
    version: u8,
    (said, length): (u64, u64),
    newest: StreamEntryId,
    visit: &mut Visit<E>,
) -> std::result::Result<(), E> {
    correct("the number of entries", said, length, visit)?;
    let said_last = id(input)?;
    let (mut max_deleted, mut added) = (StreamEntryId::default(), None);
    if version != kind::STREAM {
        // The first id is known from the entries.
        id(input)?;
        max_deleted = id(input)?;
        let said = input.length()?;
        added = Some(said.max(length));
        correct("the number of entries that were ever added", said, said.max(length), visit)?;
    }
    let last = said_last.max(newest).max(max_deleted);
    correct("the last id", said_last, last, visit)?;
    visit(StreamElement::State { length, last, max_deleted, added })
}

/// Reports a value that contradicts the entries.
fn correct<T: PartialEq + Display, E>(what: &str, said: T, is: T, visit: &mut Visit<E>) -> std::result::Result<(), E> {
    if said == is { Ok(()) } else { visit(StreamElement::Corrected(&format!("{what} from {said} to {is}"))) }
}

fn group<R: Read, E: From<Error>>(
    input: &mut Input<R>,
    version: u8,
    text: &mut Vec<u8>,
    visit: &mut Visit<E>,
) -> std::result::Result<(), E> {
    input.string(text)?;
    let last = id(input)?;
    // -1 if it is unknown.
    let read = if version == kind::STREAM { None } else { Some(input.length()?).filter(|read| i64::try_from(*read).is_ok()) };
    visit(StreamElement::Group { name: text, last, read })?;
    let (waiting, mut before) = (input.length()?, None);
    for _ in 0..waiting {
        let id = pending_id(input, &mut before)?;
        let delivered = time(input)?.unwrap_or(0);
        let deliveries = input.length()?;
        visit(StreamElement::Pending { id, delivered, deliveries })?;
    }
    let mut owned = 0u64;
    for _ in 0..input.length()? {
        input.string(text)?;
        let seen = time(input)?.unwrap_or(0);
        let active = if version >= kind::STREAM_3 { time(input)? } else { None };
        visit(StreamElement::Consumer { name: text, seen, active })?;
        let mut before = None;
        for _ in 0..input.length()? {
            visit(StreamElement::Owned { id: pending_id(input, &mut before)? })?;
            owned += 1;
        }
    }
    if owned == waiting { Ok(()) } else { Err(input.damaged("pending entries of a group that are not those of its consumers").into()) }
}

fn id<R: Read>(input: &mut Input<R>) -> Result<StreamEntryId> {
    Ok(StreamEntryId { ms: input.length()?, seq: input.length()? })
}

/// Reads milliseconds, little-endian; `None` if they are negative.
fn time<R: Read>(input: &mut Input<R>) -> Result<Option<u64>> {
    Ok(u64::try_from(i64::from_le_bytes(input.array("a time")?)).ok())
}

/// Reads an id that must be larger than the one before it.
fn pending_id<R: Read>(input: &mut Input<R>, before: &mut Option<StreamEntryId>) -> Result<StreamEntryId> {
    const WHAT: &str = "the id of a pending entry";
    let bytes: [u8; 16] = input.array(WHAT)?;
    let id = raw_id(&bytes).ok_or_else(|| input.damaged(WHAT))?;
    if before.replace(id).is_some_and(|before| before >= id) {
        return Err(input.damaged("ids of pending entries that do not ascend"));
    }
    Ok(id)
}

fn raw_id(bytes: &[u8]) -> Option<StreamEntryId> {
    let (ms, seq) = bytes.split_first_chunk::<8>()?;
    Some(StreamEntryId { ms: u64::from_be_bytes(*ms), seq: u64::from_be_bytes(seq.try_into().ok()?) })
}

/// Why a node was not read to its end.
enum Stopped<E> {
    Damage(Damage),
    Visit(E),
}

impl<E> From<Damage> for Stopped<E> {
    fn from(damage: Damage) -> Self {
        Stopped::Damage(damage)
    }
}

/// Callback for each entry of a node.
type VisitEntry<'v, E> = dyn FnMut(StreamEntryId, &[StreamField<'_>]) -> std::result::Result<(), Stopped<E>> + 'v;

/// Shows all entries of a node.
///
/// A node is a listpack: `entries | deleted ones | fields | field .. | 0`, then per entry `flags | ms and seq less those of the node |
/// [fields, field and value .. ] or [value ..] | how many of these`.
fn node<E>(bytes: &[u8], base: StreamEntryId, visit: &mut VisitEntry<E>) -> std::result::Result<(), Stopped<E>> {
    let mut pack = Listpack::new(bytes)?;
    let (alive, _deleted) = (count(&mut pack)?, count(&mut pack)?);
    let mut names = Vec::new();
    for _ in 0..field_count(&mut pack)? {
        names.push(next(&mut pack)?.text());
    }
    if next(&mut pack)? != Entry::Integer(0) {
        return Err(Stopped::Damage(NODE));
    }
    let mut fields = Vec::new();
    let mut found = 0u64;
    while let Some(flags) = pack.next()? {
        let flags = flags.integer().ok_or(NODE)?;
        let id = StreamEntryId { ms: base.ms.wrapping_add(delta(&mut pack)?), seq: base.seq.wrapping_add(delta(&mut pack)?) };
        fields.clear();
        let mut parts = 3;
        if flags & SAME_FIELDS != 0 {
            for name in &names {
                fields.push((name.clone(), next(&mut pack)?.text()));
            }
            parts += fields.len();
        } else {
            for _ in 0..field_count(&mut pack)? {
                fields.push((next(&mut pack)?.text(), next(&mut pack)?.text()));
            }
            parts += 1 + 2 * fields.len();
        }
        if count(&mut pack)? != parts as u64 {
            return Err(Stopped::Damage(NODE));
        }
        if flags & DELETED == 0 {
            found += 1;
            visit(id, &fields)?;
        }
    }
    if found == alive { Ok(()) } else { Err(Stopped::Damage(NODE)) }
}

const NODE: Damage = "a damaged node of a stream";

fn next<'a>(pack: &mut Listpack<'a>) -> std::result::Result<Entry<'a>, Damage> {
    pack.next()?.ok_or(NODE)
}

fn count(pack: &mut Listpack) -> std::result::Result<u64, Damage> {
    let number = next(pack)?.integer().ok_or(NODE)?;
    u64::try_from(number).map_err(|_| NODE)
}

/// Reads the number of fields. They lie in memory together, and take far more of it than in a node of many small ones.
fn field_count(pack: &mut Listpack) -> std::result::Result<u64, Damage> {
    count(pack).and_then(|fields| if fields > FIELDS_MAX { Err("more fields than a request can have") } else { Ok(fields) })
}

fn delta(pack: &mut Listpack) -> std::result::Result<u64, Damage> {
    Ok(next(pack)?.integer().ok_or(NODE)?.cast_unsigned())
}
