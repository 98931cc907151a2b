//! `XREAD` and `XREADGROUP`: reading new entries, alone or in a group, and waiting for them.

use super::arguments::{Rest, is};
use super::blocking::{Wait, kept, milliseconds, null_array};
use super::spec::{BLOCKING, MOVABLE, NEEDS_IDS, READ, WRITE};
use super::streams_ids::{entry_id, reply_entry, reply_id, reply_range, stream};
use super::{Command, Context, Failure, Outcome, SYNTAX};
use crate::keyspace::{self, EntryId, GroupEdit, Head, Kind, Pending, check_member};
use crate::resp::{Protocol, Writer};
use std::ops::ControlFlow;

/// Entries that a request without `COUNT` gets at most after it has waited.
const AFTER_WAIT: u64 = 1000;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    stream("xread", -4, xread)
        .finds_keys(keys)
        .keys(0, 0, 0)
        .flags(READ | MOVABLE | BLOCKING)
        .says("The entries behind an id of each stream", "O(n), n being the entries that are returned"),
    stream("xreadgroup", -7, xreadgroup)
        .finds_keys(keys)
        .keys(0, 0, 0)
        .flags(WRITE | MOVABLE | BLOCKING | NEEDS_IDS)
        .says("The next entries of streams for a consumer of a group", "O(n), n being the entries that are returned"),
];

/// Indices of the keys among the arguments; `None`: the arguments are malformed.
fn keys(arguments: &[&[u8]]) -> Option<Vec<usize>> {
    let mut at = 1;
    while !is(arguments.get(at)?, "streams") {
        at += match arguments.get(at)? {
            word if is(word, "block") || is(word, "count") => 2,
            word if is(word, "group") => 3,
            word if is(word, "noack") => 1,
            _ => return None,
        };
    }
    let pairs = arguments.len() - at - 1;
    (pairs > 0 && pairs.is_multiple_of(2)).then(|| (at + 1..=at + pairs / 2).collect())
}

/// Arguments for all streams of a request.
#[derive(Debug, Default)]
struct Request<'r, 'a> {
    /// Milliseconds to wait; 0: for ever; `None`: no waiting.
    block: Option<u64>,
    /// Entries of each stream, at most; 0: all.
    count: u64,
    /// Group and consumer.
    group: Option<(&'a [u8], &'a [u8])>,
    /// `NOACK`: delivered entries do not become pending.
    without_pending: bool,
    keys: &'r [&'a [u8]],
    ids: &'r [&'a [u8]],
    /// The key whose change has ended the wait, if the request has waited.
    woken: Option<Vec<u8>>,
}

/// Start of reading a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Entries behind this id, without a group.
    Behind(EntryId),
    /// Entries not yet delivered to the group.
    New,
    /// Entries behind this id that are pending for the consumer.
    Pending(EntryId),
}

impl<'r, 'a> Request<'r, 'a> {
    fn parse(arguments: &'r [&'a [u8]], in_group: bool, in_script: bool) -> Result<Self, Failure> {
        let mut request = Request::default();
        let mut rest = Rest::new(&arguments[1..]);
        let mut streams = None;
        while let Some(word) = rest.next() {
            let only_in_group = |name: &str| {
                if in_group {
                    return Ok(());
                }
                Err(Failure::new(format!("ERR The {name} option is only supported by XREADGROUP. You called XREAD instead.")))
            };
            match () {
                () if is(word, "block") && rest.len() > 0 && in_script => {
                    let name = String::from_utf8_lossy(arguments[0]);
                    return Err(Failure::new(format!("ERR {name} command is not allowed with BLOCK option from scripts")));
                }
                () if is(word, "block") && rest.len() > 0 => request.block = Some(milliseconds(rest.value()?)?),
                () if is(word, "count") && rest.len() > 0 => request.count = u64::try_from(rest.integer()?).unwrap_or(0),
                () if is(word, "streams") && rest.len() > 0 => {
                    streams = Some(&arguments[arguments.len() - rest.len()..]);
                    break;
                }
                () if is(word, "group") && rest.len() > 1 => {
                    only_in_group("GROUP")?;
                    request.group = Some((rest.value()?, rest.value()?));
                }
                () if is(word, "noack") => {
                    only_in_group("NOACK")?;
                    request.without_pending = true;
                }
                () => return Err(SYNTAX),
            }
        }
        let streams = streams.ok_or(SYNTAX)?;
        if !streams.len().is_multiple_of(2) {
            let text = "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.";
            return Err(Failure::fixed(text));
        }
        if in_group && request.group.is_none() {
            return Err(Failure::fixed("ERR Missing GROUP option for XREADGROUP"));
        }
        (request.keys, request.ids) = streams.split_at(streams.len() / 2);
        Ok(request)
    }

    /// The stream at a key.
    fn find(&self, context: &mut Context, key: &[u8]) -> Result<Option<Head>, Failure> {
        match context.find_stream(key) {
            Ok(None) | Err(Failure::Keyspace(keyspace::Error::WrongType)) if self.woken.is_some() && self.group.is_some() => {
                Err(Failure::fixed("UNBLOCKED the stream key no longer exists"))
            }
            found => found,
        }
    }

    /// Opens a group of a stream for changes.
    fn open_group<'n>(&self, context: &Context, key: &'n [u8], head: Option<&Head>, name: &'n [u8]) -> Result<GroupEdit<'n>, Failure> {
        let of = (context.session.db, key);
        let found = head.map(|head| context.keyspace.edit_group(of, head, name)).transpose()?.flatten();
        if self.woken.is_some() {
            return found.ok_or(Failure::fixed("NOGROUP the consumer group this client was blocked on no longer exists"));
        }
        let text = [&b"NOGROUP No such key '"[..], key, b"' or consumer group '", name, b"' in XREADGROUP with GROUP option"];
        found.ok_or_else(|| Failure::new(text.concat()))
    }

    /// Pairs of keys and ids to read. After a wait, only the key that has changed.
    fn asked(&self) -> Vec<(&'a [u8], &'a [u8])> {
        let all = self.keys.iter().copied().zip(self.ids.iter().copied());
        match &self.woken {
            None => all.collect(),
            Some(woken) => all.filter(|(key, _)| key == woken).take(1).collect(),
        }
    }

    /// The start for a stream, from the id in the request.
    fn start(&self, context: &mut Context, key: &[u8], id: &[u8]) -> Result<Start, Failure> {
        let head = self.find(context, key)?;
        if let Some((group, _)) = self.group {
            // There has to be one before anything is read.
            let _: GroupEdit = self.open_group(context, key, head.as_ref(), group)?;
        }
        match (id, self.group) {
            (b"$", Some(_)) => Err(Failure::fixed(concat!(
                "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a ",
                "proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set."
            ))),
            (b"$", None) => Ok(Start::Behind(head.map_or(EntryId::MIN, |head| head.stream.last))),
            (b">", None) => {
                Err(Failure::fixed("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."))
            }
            (b">", Some(_)) => Ok(Start::New),
            (id, None) => Ok(Start::Behind(entry_id(id, 0)?)),
            (id, Some(_)) => match entry_id(id, 0)? {
                // No entry can be behind this id; Redis takes it as another form of `>`.
                EntryId::MAX => Ok(Start::New),
                id => Ok(Start::Pending(id)),
            },
        }
    }

    /// The request to run after the wait, with `$` and `>` replaced by the ids found now.
    fn again(&self, name: &[u8], block: u64, starts: &[Start]) -> Vec<Vec<u8>> {
        let count = if self.count == 0 { AFTER_WAIT } else { self.count };
        let mut words = vec![name.to_vec()];
        if let Some((group, consumer)) = self.group {
            words.extend([&b"GROUP"[..], group, consumer].map(<[u8]>::to_vec));
        }
        if self.without_pending {
            words.push(b"NOACK".to_vec());
        }
        let numbers = [("COUNT", count), ("BLOCK", block)];
        words.extend(numbers.iter().flat_map(|(word, number)| [word.as_bytes().to_vec(), number.to_string().into_bytes()]));
        words.push(b"STREAMS".to_vec());
        words.extend(self.keys.iter().map(|key| key.to_vec()));
        words.extend(starts.iter().map(|start| match start {
            Start::Behind(id) | Start::Pending(id) => id.to_string().into_bytes(),
            Start::New => b">".to_vec(),
        }));
        words
    }
}

/// Replies with the entries for a reader of a stream; false: there are none, and nothing was written.
fn serve(context: &mut Context, reply: &mut Writer, request: &Request, key: &[u8], start: Start) -> Result<bool, Failure> {
    let Some(head) = context.find_stream(key)? else { return Ok(false) };
    let position = reply.position();
    if reply.protocol() == Protocol::Resp2 {
        reply.array(2);
    }
    reply.bulk(key);
    let is_served = match (start, request.group) {
        (Start::Behind(id), _) => !fresh(context, reply, &head, id, request.count)?.is_empty(),
        (Start::New, Some((group, consumer))) => {
            let mut edit = request.open_group(context, key, Some(&head), group)?;
            let ids = fresh(context, reply, &head, edit.group.last, request.count)?;
            if !ids.is_empty() {
                deliver(context, &head, &mut edit, consumer, &ids, request.without_pending)?;
                context.keyspace.finish_group(edit);
            }
            !ids.is_empty()
        }
        (Start::Pending(id), Some((group, consumer))) => {
            let mut edit = request.open_group(context, key, Some(&head), group)?;
            deliver_again(context, reply, &head, &mut edit, consumer, (id, request.count))?;
            context.keyspace.finish_group(edit);
            true
        }
        (Start::New | Start::Pending(_), None) => false,
    };
    if !is_served {
        reply.truncate(position);
    }
    Ok(is_served)
}

/// Replies with the entries behind an id; returns their ids.
fn fresh(context: &Context, reply: &mut Writer, head: &Head, id: EntryId, most: u64) -> Result<Vec<EntryId>, Failure> {
    match id.after() {
        Some(from) => reply_range(reply, context.keyspace, head, (from, EntryId::MAX), false, most),
        None => Ok(Vec::new()),
    }
}

/// Delivers entries to a consumer. It takes over those that are pending already, after `XGROUP SETID` to an older id.
fn deliver(context: &mut Context, head: &Head, edit: &mut GroupEdit, consumer: &[u8], ids: &[EntryId], without_pending: bool) -> Outcome {
    let consumer = context.keyspace.see_consumer(edit, consumer)?;
    for id in ids {
        edit.group.advance(head, *id);
        if !without_pending {
            let old = context.keyspace.pending(&edit.group, *id)?;
            let new = Pending { consumer, delivered: context.keyspace.now(), deliveries: 1 };
            context.keyspace.set_pending(edit, *id, old, new)?;
        }
    }
    Ok(())
}

/// Replies with a consumer's pending entries behind an id. Deleted entries have only their id.
fn deliver_again(
    context: &mut Context,
    reply: &mut Writer,
    head: &Head,
    edit: &mut GroupEdit,
    consumer: &[u8],
    (behind, most): (EntryId, u64),
) -> Outcome {
    let consumer = context.keyspace.see_consumer(edit, consumer)?;
    let mut found = Vec::new();
    if let Some(from) = behind.after() {
        context.keyspace.walk_pending(&edit.group, Some(consumer), (from, EntryId::MAX), &mut |id, pending| {
            found.push((id, pending));
            if found.len() as u64 == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    reply.array(found.len());
    for (id, old) in found {
        match context.keyspace.entry(head, id)? {
            Some(entry) => {
                reply_entry(reply, id, &entry)?;
                let new = Pending { delivered: context.keyspace.now(), deliveries: old.deliveries.wrapping_add(1), ..old };
                context.keyspace.set_pending(edit, id, Some(old), new)?;
            }
            None => {
                reply.array(2);
                reply_id(reply, id);
                reply.null_array();
            }
        }
    }
    Ok(())
}

fn read(context: &mut Context, arguments: &[&[u8]], in_group: bool) -> Outcome {
    let woken = context.session.woken_by().map(<[u8]>::to_vec);
    let request = Request { woken, ..Request::parse(arguments, in_group, context.session.is_script)? };
    if let Some((_, consumer)) = request.group {
        check_member(consumer)?;
    }
    // As in Redis 7.0, a run after a wait is not counted.
    context.keyspace.count_lookups(request.woken.is_none());
    let asked = request.asked();
    let starts: Vec<Start> = asked.iter().map(|(key, id)| request.start(context, key, id)).collect::<Result<_, _>>()?;
    let (mut served, mut out) = (0, Vec::new());
    let mut writer = Writer::new(&mut out, context.reply.protocol());
    for ((key, _), start) in asked.iter().zip(&starts) {
        served += usize::from(serve(context, &mut writer, &request, key, *start)?);
    }
    match request.block {
        _ if served > 0 => {
            // In RESP3 the streams are the keys of a map.
            if context.reply.protocol() == Protocol::Resp2 {
                context.reply.array(served)
            } else {
                context.reply.map(served)
            }
            context.reply.raw(&out);
        }
        Some(timeout_ms) => {
            let again = if request.woken.is_some() { kept(arguments) } else { request.again(arguments[0], timeout_ms, &starts) };
            // The wait also ends if the group, or the stream with it, is removed.
            let holding = if in_group { None } else { Some(Kind::Stream) };
            context.session.block(Wait { keys: kept(request.keys), holding, timeout_ms, request: again, on_timeout: null_array });
        }
        None => context.reply.null_array(),
    }
    Ok(())
}

fn xread(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    read(context, arguments, false)
}

fn xreadgroup(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    read(context, arguments, true)
}
