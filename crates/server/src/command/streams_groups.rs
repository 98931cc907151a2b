//! Commands for consumer groups of streams and their pending entries.

use super::arguments::{Rest, integer_or, is};
use super::spec::{DENYOOM, FAST, NEEDS_IDS, READ, WRITE};
use super::streams_ids::{entry_id, entry_ids, id_or_edge, range_end, range_start, reply_entry, reply_id, stream};
use super::subcommand::{Sub, dispatch, wrong_form};
use super::{Command, Context, Failure, Outcome, SYNTAX, help};
use crate::keyspace::{Change, ConsumerGroup, EntryId, GroupEdit, Head, Kind, Pending, check_member};
use crate::resp::Writer;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;

/// Entries that `XAUTOCLAIM` claims without `COUNT`, and pending entries that it looks at for each of them.
const CLAIMED_AT_ONCE: u64 = 100;
const LOOKED_AT: u64 = 10;
/// Pending entries that `XAUTOCLAIM` reads before it claims some of them.
const LOOKED_AT_ONCE: u64 = 1000;
/// The largest `COUNT` of `XAUTOCLAIM`.
const CLAIMED_MAX: u64 = i64::MAX as u64 / 16;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    stream("xack", -4, xack).flags(WRITE | FAST).says("Acknowledge entries", "O(n), n being the number of ids"),
    stream("xautoclaim", -6, xautoclaim)
        .flags(WRITE | FAST | NEEDS_IDS)
        .since("6.2.0")
        .says("Give a consumer what is pending for long", "O(n), n being the pending entries that are looked at"),
    stream("xclaim", -6, xclaim).flags(WRITE | FAST | NEEDS_IDS).says("Give a consumer pending entries", "O(n), n being the number of ids"),
    stream("xgroup", -2, xgroup)
        .subcommands(&["create", "createconsumer", "delconsumer", "destroy", "help", "setid"], HELP)
        .keys(2, 2, 1)
        .flags(WRITE | DENYOOM)
        .says("Make, change and remove groups", "O(1), and O(n) to remove a consumer, n being what it has pending"),
    stream("xpending", -3, xpending)
        .flags(READ)
        .says("What is pending in a group", "O(n), n being the consumers, or the pending entries that are looked at"),
];

/// The error of most commands for a missing group.
fn no_group(key: &[u8], group: &[u8]) -> Failure {
    Failure::new([&b"NOGROUP No such key '"[..], key, b"' or consumer group '", group, b"'"].concat())
}

/// The error for a missing group of an existing stream.
pub(super) fn no_such_group(key: &[u8], group: &[u8]) -> Failure {
    Failure::new([&b"NOGROUP No such consumer group '"[..], group, b"' for key name '", key, b"'"].concat())
}

/// The stream and the group named by the first two arguments; `None`: one of them does not exist.
fn find_group<'a>(context: &mut Context, arguments: &[&'a [u8]]) -> Result<Option<(Head, GroupEdit<'a>)>, Failure> {
    let Some(head) = context.counted(|context| context.find_stream(arguments[1]))? else { return Ok(None) };
    let of = (context.session.db, arguments[1]);
    Ok(context.keyspace.edit_group(of, &head, arguments[2])?.map(|edit| (head, edit)))
}

const HELP: &[&str] = &[
    "CREATE <key> <groupname> <id|$> [MKSTREAM] [ENTRIESREAD entries_read]",
    "    Make a group that is given what comes behind an id, and with MKSTREAM the stream, too.",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Make a consumer.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove a consumer and what it has pending.",
    "DESTROY <key> <groupname>",
    "    Remove a group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Set the id up to which a group was given entries.",
];

const XGROUP: &[Sub] = &[
    Sub("create", -5, create),
    Sub("createconsumer", 5, create_consumer),
    Sub("delconsumer", 5, delete_consumer),
    Sub("destroy", 4, destroy),
    Sub("help", 2, |context, _| help(context, "XGROUP", HELP)),
    Sub("setid", -5, set_id),
];

fn xgroup(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    dispatch(context, arguments, XGROUP)
}

/// Options of `XGROUP CREATE` and `XGROUP SETID`.
#[derive(Debug, Default)]
struct GroupOptions {
    makes_stream: bool,
    read: Option<u64>,
}

impl GroupOptions {
    fn parse(arguments: &[&[u8]], creates: bool) -> Result<GroupOptions, Failure> {
        let mut options = GroupOptions::default();
        let mut rest = Rest::new(&arguments[5..]);
        while let Some(word) = rest.next() {
            match () {
                () if creates && is(word, "mkstream") => options.makes_stream = true,
                () if is(word, "entriesread") && rest.len() > 0 => {
                    options.read = match rest.integer()? {
                        -1 => None,
                        number => {
                            let wrong = Failure::fixed("ERR value for ENTRIESREAD must be positive or -1");
                            Some(u64::try_from(number).map_err(|_| wrong)?)
                        }
                    }
                }
                () => return Err(wrong_form(arguments)),
            }
        }
        Ok(options)
    }
}

/// The stream of a subcommand, which must exist.
fn stream_of(context: &mut Context, key: &[u8]) -> Result<Head, Failure> {
    let missing = Failure::fixed(concat!(
        "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an ",
        "empty stream automatically."
    ));
    context.find_stream(key)?.ok_or(missing)
}

/// The stream and the group of a subcommand, which must exist.
fn group_of<'a>(context: &mut Context, arguments: &[&'a [u8]]) -> Result<(Head, GroupEdit<'a>), Failure> {
    let head = stream_of(context, arguments[2])?;
    let edit = context.keyspace.edit_group((context.session.db, arguments[2]), &head, arguments[3])?;
    Ok((head, edit.ok_or_else(|| no_such_group(arguments[2], arguments[3]))?))
}

fn create(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let options = GroupOptions::parse(arguments, true)?;
    let (key, name) = (arguments[2], arguments[3]);
    check_member(name)?;
    let head = if options.makes_stream { context.find_stream(key)? } else { Some(stream_of(context, key)?) };
    if arguments.len() > 8 {
        return Err(wrong_form(arguments));
    }
    let last = match arguments[4] {
        b"$" => head.map_or(EntryId::MIN, |head| head.stream.last),
        id => entry_id(id, 0)?,
    };
    let existed = head.is_some();
    let head = match head {
        Some(head) => head,
        None => {
            let edit = context.keyspace.edit(context.session.db, key, Kind::Stream)?;
            context.keyspace.finish(&edit);
            *edit.head
        }
    };
    if context.keyspace.group(&head, name)?.is_some() {
        return Err(Failure::fixed("BUSYGROUP Consumer Group name already exists"));
    }
    context.keyspace.create_group(&head, name, last, options.read)?;
    // A new stream has already been noted as made.
    if existed {
        context.keyspace.note(context.session.db, key, Change::Changed);
    }
    context.reply.ok();
    Ok(())
}

fn set_id(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let options = GroupOptions::parse(arguments, false)?;
    let (head, mut edit) = group_of(context, arguments)?;
    if arguments.len() > 7 {
        return Err(wrong_form(arguments));
    }
    edit.group.last = match arguments[4] {
        b"$" => head.stream.last,
        id => id_or_edge(id, 0)?,
    };
    edit.group.read = options.read;
    context.keyspace.finish_group(edit);
    context.keyspace.note(context.session.db, arguments[2], Change::Changed);
    context.reply.ok();
    Ok(())
}

fn destroy(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = stream_of(context, arguments[2])?;
    let found = context.keyspace.group(&head, arguments[3])?;
    if let Some(group) = &found {
        context.keyspace.remove_group((context.session.db, arguments[2]), arguments[3], group)?;
        context.keyspace.note(context.session.db, arguments[2], Change::Changed);
    }
    context.reply.integer(i64::from(found.is_some()));
    Ok(())
}

fn create_consumer(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (_, mut edit) = group_of(context, arguments)?;
    let is_new = context.keyspace.create_consumer(&mut edit, arguments[4])?;
    context.keyspace.finish_group(edit);
    context.reply.integer(i64::from(is_new));
    Ok(())
}

fn delete_consumer(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (_, mut edit) = group_of(context, arguments)?;
    let pending = context.keyspace.remove_consumer(&mut edit, arguments[4])?;
    context.keyspace.finish_group(edit);
    if pending.is_some() {
        context.keyspace.note(context.session.db, arguments[2], Change::Changed);
    }
    context.reply.integer(i64::try_from(pending.unwrap_or(0)).unwrap_or(i64::MAX));
    Ok(())
}

fn xack(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let mut acknowledged = 0;
    if let Some((_, mut edit)) = find_group(context, arguments)? {
        for id in entry_ids(&arguments[3..])? {
            if let Some(pending) = context.keyspace.pending(&edit.group, id)? {
                context.keyspace.remove_pending(&mut edit, id, pending)?;
                acknowledged += 1;
            }
        }
        context.keyspace.finish_group(edit);
    }
    context.reply.integer(acknowledged);
    Ok(())
}

/// Arguments of `XPENDING` for single entries.
struct PendingRequest<'a> {
    range: (EntryId, EntryId),
    count: u64,
    /// Milliseconds since the last delivery, at least; 0: any.
    idle: i64,
    consumer: Option<&'a [u8]>,
}

impl<'a> PendingRequest<'a> {
    fn parse(options: &[&'a [u8]]) -> Result<Self, Failure> {
        let mut rest = Rest::new(options);
        let mut idle = 0;
        let mut start = rest.value()?;
        if is(start, "idle") {
            idle = rest.integer()?;
            // Start, end and count.
            if rest.len() < 3 {
                return Err(SYNTAX);
            }
            start = rest.value()?;
        }
        let end = rest.value()?;
        let count = u64::try_from(rest.integer()?).unwrap_or(0);
        Ok(PendingRequest { range: (range_start(start)?, range_end(end)?), count, idle, consumer: rest.next() })
    }
}

/// Milliseconds since the last delivery of an entry.
fn idle_ms(context: &Context, pending: &Pending) -> i64 {
    let number = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    number(context.keyspace.now()).saturating_sub(number(pending.delivered))
}

fn xpending(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let request = match arguments.len() {
        3 => None,
        6..=9 => Some(PendingRequest::parse(&arguments[3..])?),
        _ => return Err(SYNTAX),
    };
    let Some((_, edit)) = find_group(context, arguments)? else { return Err(no_group(arguments[1], arguments[2])) };
    match request {
        None => summary(context, &edit.group),
        Some(request) => list(context, &edit.group, &request),
    }
}

fn summary(context: &mut Context, group: &ConsumerGroup) -> Outcome {
    let edges = context.keyspace.pending_edges(group)?;
    context.reply.array(4);
    context.reply.integer(i64::try_from(group.pending).unwrap_or(i64::MAX));
    let Some((first, last)) = edges else {
        context.reply.null();
        context.reply.null();
        context.reply.null_array();
        return Ok(());
    };
    reply_id(&mut context.reply, first);
    reply_id(&mut context.reply, last);
    let mut consumers = context.keyspace.consumers(group)?;
    consumers.retain(|(_, consumer)| consumer.pending > 0);
    context.reply.array(consumers.len());
    for (_, consumer) in consumers {
        context.reply.array(2);
        context.reply.bulk(&consumer.name);
        context.reply.bulk_integer(i64::try_from(consumer.pending).unwrap_or(i64::MAX));
    }
    Ok(())
}

fn list(context: &mut Context, group: &ConsumerGroup, request: &PendingRequest) -> Outcome {
    let owner = match request.consumer {
        None => None,
        Some(name) => match context.keyspace.consumer_number(group, name)? {
            None => {
                context.reply.array(0);
                return Ok(());
            }
            number => number,
        },
    };
    let mut found = Vec::new();
    if request.count > 0 {
        context.keyspace.walk_pending(group, owner, request.range, &mut |id, pending| {
            if request.idle == 0 || idle_ms(context, &pending) >= request.idle {
                found.push((id, pending));
            }
            if found.len() as u64 == request.count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    let mut names: HashMap<u64, Vec<u8>> = HashMap::new();
    context.reply.array(found.len());
    for (id, pending) in found {
        let number = pending.consumer;
        if let Entry::Vacant(unknown) = names.entry(number) {
            unknown.insert(context.keyspace.consumer(group, number)?.name);
        }
        context.reply.array(4);
        reply_id(&mut context.reply, id);
        context.reply.bulk(names.get(&number).map(Vec::as_slice).unwrap_or_default());
        let idle = idle_ms(context, &pending).max(0);
        context.reply.integer(idle);
        context.reply.integer(pending.deliveries as i64);
    }
    Ok(())
}

/// Options for claiming entries.
#[derive(Debug, Default)]
struct Claim {
    /// Milliseconds since the last delivery, at least; 0: any.
    idle: i64,
    /// New time of delivery; `None`: now.
    delivered: Option<i64>,
    /// New number of deliveries; `None`: one more.
    deliveries: Option<u64>,
    /// Entries that are not pending become pending.
    forces: bool,
    /// The reply has only ids, and the number of deliveries stays.
    only_ids: bool,
    last: EntryId,
}

impl Claim {
    /// Parses the options behind the ids of `XCLAIM`.
    fn parse(options: &[&[u8]], now: u64) -> Result<Claim, Failure> {
        let mut claim = Claim::default();
        let mut rest = Rest::new(options);
        while let Some(word) = rest.next() {
            let has_value = rest.len() > 0;
            let number = |rest: &mut Rest, wrong| integer_or(rest.value()?, Failure::fixed(wrong));
            match () {
                () if is(word, "force") => claim.forces = true,
                () if is(word, "justid") => claim.only_ids = true,
                () if is(word, "idle") && has_value => {
                    let idle = number(&mut rest, "ERR Invalid IDLE option argument for XCLAIM")?;
                    claim.delivered = Some(i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(idle));
                }
                () if is(word, "time") && has_value => {
                    claim.delivered = Some(number(&mut rest, "ERR Invalid TIME option argument for XCLAIM")?);
                }
                () if is(word, "retrycount") && has_value => {
                    let count = number(&mut rest, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                    claim.deliveries = u64::try_from(count).ok();
                }
                () if is(word, "lastid") && has_value => claim.last = entry_id(rest.value()?, 0)?,
                () => return Err(Failure::new([b"ERR Unrecognized XCLAIM option '", word, b"'"].concat())),
            }
        }
        Ok(claim)
    }

    /// Whether to claim an entry, given its pending state (`None`: it is not pending).
    fn wants(&self, context: &Context, old: Option<&Pending>) -> bool {
        match old {
            Some(old) => self.idle == 0 || idle_ms(context, old) >= self.idle,
            None => self.forces,
        }
    }

    /// The new pending state of a claimed entry.
    fn pending(&self, consumer: u64, old: Option<&Pending>, now: u64) -> Pending {
        let delivered = self.delivered.and_then(|time| u64::try_from(time).ok()).filter(|time| *time <= now).unwrap_or(now);
        // An entry that was not pending counts as delivered once already.
        let before = old.map_or(1, |old| old.deliveries);
        let deliveries = self.deliveries.unwrap_or(if self.only_ids { before } else { before.wrapping_add(1) });
        Pending { consumer, delivered, deliveries }
    }
}

/// A consumer that claims entries.
struct Claiming<'a> {
    claim: Claim,
    head: Head,
    edit: GroupEdit<'a>,
    name: &'a [u8],
    /// Number of the consumer, which is created when it claims its first entry.
    consumer: Option<u64>,
    /// Number of claimed entries, and their replies.
    count: u64,
    out: Vec<u8>,
}

impl<'a> Claiming<'a> {
    fn new(context: &mut Context, arguments: &[&'a [u8]], claim: Claim) -> Result<Self, Failure> {
        let name = arguments[3];
        check_member(name)?;
        let found = find_group(context, arguments)?;
        let (head, edit) = found.ok_or_else(|| no_group(arguments[1], arguments[2]))?;
        Ok(Claiming { claim, head, edit, name, consumer: None, count: 0, out: Vec::new() })
    }

    /// Claims an entry if the options allow it; false: it was deleted, and is no longer pending.
    fn claim(&mut self, context: &mut Context, id: EntryId, old: Option<Pending>) -> Result<bool, Failure> {
        let Some(entry) = context.keyspace.entry(&self.head, id)? else {
            if let Some(old) = old {
                context.keyspace.remove_pending(&mut self.edit, id, old)?;
            }
            return Ok(false);
        };
        if !self.claim.wants(context, old.as_ref()) {
            return Ok(true);
        }
        let consumer = match self.consumer {
            Some(number) => number,
            None => *self.consumer.insert(context.keyspace.see_consumer(&mut self.edit, self.name)?),
        };
        let new = self.claim.pending(consumer, old.as_ref(), context.keyspace.now());
        context.keyspace.set_pending(&mut self.edit, id, old, new)?;
        self.count += 1;
        let mut reply = Writer::new(&mut self.out, context.reply.protocol());
        if self.claim.only_ids {
            reply_id(&mut reply, id);
            return Ok(true);
        }
        reply_entry(&mut reply, id, &entry).map(|()| true)
    }

    /// Finishes the changes, and replies with the claimed entries.
    fn finish(self, context: &mut Context) {
        context.keyspace.finish_group(self.edit);
        context.reply.array(usize::try_from(self.count).unwrap_or(usize::MAX));
        context.reply.raw(&self.out);
    }
}

fn xclaim(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let mut claiming = Claiming::new(context, arguments, Claim::default())?;
    let idle = integer_or(arguments[4], Failure::fixed("ERR Invalid min-idle-time argument for XCLAIM"))?.max(0);
    let ids: Vec<EntryId> = arguments[5..].iter().map_while(|text| entry_id(text, 0).ok()).collect();
    claiming.claim = Claim { idle, ..Claim::parse(&arguments[5 + ids.len()..], context.keyspace.now())? };
    let group = &mut claiming.edit.group;
    group.last = group.last.max(claiming.claim.last);
    for id in ids {
        let old = context.keyspace.pending(&claiming.edit.group, id)?;
        claiming.claim(context, id, old)?;
    }
    claiming.finish(context);
    Ok(())
}

fn xautoclaim(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    const COUNT: Failure = Failure::fixed("ERR COUNT must be > 0");
    let idle = integer_or(arguments[4], Failure::fixed("ERR Invalid min-idle-time argument for XAUTOCLAIM"))?.max(0);
    let start = range_start(arguments[5])?;
    let (mut most, mut claim) = (CLAIMED_AT_ONCE, Claim { idle, ..Claim::default() });
    let mut rest = Rest::new(&arguments[6..]);
    while let Some(word) = rest.next() {
        match () {
            () if is(word, "count") && rest.len() > 0 => {
                let number = integer_or(rest.value()?, COUNT)?;
                most = u64::try_from(number).ok().filter(|number| (1..=CLAIMED_MAX).contains(number)).ok_or(COUNT)?;
            }
            () if is(word, "justid") => claim.only_ids = true,
            () => return Err(SYNTAX),
        }
    }
    let mut claiming = Claiming::new(context, arguments, claim)?;
    let (next, gone) = claim_from(context, &mut claiming, start, most)?;
    context.reply.array(3);
    reply_id(&mut context.reply, next.unwrap_or(EntryId::MIN));
    claiming.finish(context);
    context.reply.array(gone.len());
    gone.into_iter().for_each(|id| reply_id(&mut context.reply, id));
    Ok(())
}

/// Claims pending entries from an id on until `most` were claimed or found deleted. Returns the id at which the next call goes on, and the
/// deleted ones.
fn claim_from(
    context: &mut Context,
    claiming: &mut Claiming,
    start: EntryId,
    most: u64,
) -> Result<(Option<EntryId>, Vec<EntryId>), Failure> {
    let (mut next, mut gone) = (Some(start), Vec::new());
    let mut left = most.saturating_mul(LOOKED_AT);
    while let Some(from) = next.filter(|_| left > 0) {
        let mut found: Vec<(EntryId, Pending)> = Vec::new();
        next = None;
        context.keyspace.walk_pending(&claiming.edit.group, None, (from, EntryId::MAX), &mut |id, pending| {
            if found.len() as u64 == left.min(LOOKED_AT_ONCE) {
                next = Some(id);
                return ControlFlow::Break(());
            }
            found.push((id, pending));
            ControlFlow::Continue(())
        })?;
        for (id, old) in found {
            if claiming.count + gone.len() as u64 == most {
                return Ok((Some(id), gone));
            }
            left -= 1;
            if !claiming.claim(context, id, Some(old))? {
                gone.push(id);
            }
        }
    }
    Ok((next, gone))
}
