//! `XINFO`: properties of streams, groups and consumers.

use super::arguments::{Rest, is};
use super::spec::READ;
use super::streams_groups::no_such_group;
use super::streams_ids::{reply_entry, reply_id, reply_range, stream};
use super::subcommand::{Sub, dispatch, wrong_form};
use super::{Command, Context, Failure, NO_SUCH_KEY, Outcome, help};
use crate::keyspace::{Consumer, ConsumerGroup, EntryId, Head, Pending};
use crate::resp::Writer;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Entries, and pending entries of each group and consumer, that `FULL` shows without `COUNT`.
const SHOWN: u64 = 10;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[stream("xinfo", -2, xinfo)
    .subcommands(&["consumers", "groups", "help", "stream"], HELP)
    .keys(2, 2, 1)
    .flags(READ)
    .says("What is known of a stream", "O(n), n being the groups, the consumers, or what is shown of the entries")];

const HELP: &[&str] = &[
    "CONSUMERS <key> <groupname>",
    "    The consumers of a group.",
    "GROUPS <key>",
    "    The groups of a stream.",
    "STREAM <key> [FULL [COUNT <count>]]",
    "    What is known of a stream, and with FULL also its entries and groups.",
];

const XINFO: &[Sub] = &[
    Sub("consumers", 4, consumers),
    Sub("groups", 3, groups),
    Sub("help", 2, |context, _| help(context, "XINFO", HELP)),
    Sub("stream", -3, stream_info),
];

fn xinfo(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    dispatch(context, arguments, XINFO)
}

fn find(context: &mut Context, key: &[u8]) -> Result<Head, Failure> {
    context.find_stream(key)?.ok_or(NO_SUCH_KEY)
}

fn label(reply: &mut Writer, name: &str) {
    reply.bulk(name.as_bytes());
}

fn number(reply: &mut Writer, name: &str, number: u64) {
    label(reply, name);
    // Redis replies with signed numbers here, too.
    reply.integer(number as i64);
}

fn number_or_null(reply: &mut Writer, name: &str, number: Option<i64>) {
    label(reply, name);
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

fn text(reply: &mut Writer, name: &str, text: &[u8]) {
    label(reply, name);
    reply.bulk(text);
}

fn id(reply: &mut Writer, name: &str, id: EntryId) {
    label(reply, name);
    reply_id(reply, id);
}

/// Replies with a group's last delivered id and number of entries read.
fn progress(reply: &mut Writer, head: &Head, group: &ConsumerGroup) {
    id(reply, "last-delivered-id", group.last);
    number_or_null(reply, "entries-read", group.read.map(|read| read as i64));
    number_or_null(reply, "lag", head.lag(group));
}

fn consumers(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = find(context, arguments[2])?;
    let group = context.keyspace.group(&head, arguments[3])?.ok_or_else(|| no_such_group(arguments[2], arguments[3]))?;
    let all = context.keyspace.consumers(&group)?;
    let now = context.keyspace.now();
    context.reply.array(all.len());
    for (_, consumer) in all {
        context.reply.map(3);
        text(&mut context.reply, "name", &consumer.name);
        number(&mut context.reply, "pending", consumer.pending);
        number(&mut context.reply, "idle", now.saturating_sub(consumer.seen));
    }
    Ok(())
}

fn groups(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = find(context, arguments[2])?;
    let all = context.keyspace.groups(&head)?;
    context.reply.array(all.len());
    for (name, group) in all {
        context.reply.map(6);
        text(&mut context.reply, "name", &name);
        number(&mut context.reply, "consumers", group.consumers);
        number(&mut context.reply, "pending", group.pending);
        progress(&mut context.reply, &head, &group);
    }
    Ok(())
}

/// The number of entries that `FULL` shows (0: all); `None`: the request has no `FULL`.
fn shown(arguments: &[&[u8]]) -> Result<Option<u64>, Failure> {
    let mut rest = Rest::new(&arguments[3..]);
    match (rest.next(), rest.next()) {
        (None, _) => Ok(None),
        (Some(full), None) if is(full, "full") => Ok(Some(SHOWN)),
        (Some(full), Some(count)) if is(full, "full") && is(count, "count") && rest.len() == 1 => {
            Ok(Some(u64::try_from(rest.integer()?).unwrap_or(SHOWN)))
        }
        _ => Err(wrong_form(arguments)),
    }
}

fn stream_info(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = find(context, arguments[2])?;
    let full = shown(arguments)?;
    context.reply.map(if full.is_some() { 9 } else { 10 });
    number(&mut context.reply, "length", head.count);
    // There is no radix tree. The figures count the blocks of a rough trim, which correspond to Redis's nodes, and one root.
    let blocks = match context.server.configuration.stream_block {
        0 => head.count.min(1),
        size => head.count.div_ceil(size),
    };
    number(&mut context.reply, "radix-tree-keys", blocks);
    number(&mut context.reply, "radix-tree-nodes", blocks + 1);
    id(&mut context.reply, "last-generated-id", head.stream.last);
    id(&mut context.reply, "max-deleted-entry-id", head.stream.max_deleted);
    number(&mut context.reply, "entries-added", head.stream.added);
    id(&mut context.reply, "recorded-first-entry-id", head.stream.first);
    if let Some(most) = full {
        label(&mut context.reply, "entries");
        reply_range(&mut context.reply, context.keyspace, &head, (EntryId::MIN, EntryId::MAX), false, most)?;
        return full_groups(context, &head, most);
    }
    let groups = context.keyspace.groups(&head)?.len();
    number(&mut context.reply, "groups", groups as u64);
    edge_entry(context, "first-entry", &head, false)?;
    edge_entry(context, "last-entry", &head, true)
}

/// Replies with the first or the last entry.
fn edge_entry(context: &mut Context, name: &str, head: &Head, backward: bool) -> Outcome {
    label(&mut context.reply, name);
    let mut found = None;
    context.keyspace.walk_entries(head, (EntryId::MIN, EntryId::MAX), backward, &mut |id, entry| {
        found = Some((id, entry.to_vec()));
        ControlFlow::Break(())
    })?;
    match found {
        Some((id, entry)) => reply_entry(&mut context.reply, id, &entry)?,
        None => context.reply.null(),
    }
    Ok(())
}

fn full_groups(context: &mut Context, head: &Head, most: u64) -> Outcome {
    let all = context.keyspace.groups(head)?;
    label(&mut context.reply, "groups");
    context.reply.array(all.len());
    for (name, group) in all {
        context.reply.map(7);
        text(&mut context.reply, "name", &name);
        progress(&mut context.reply, head, &group);
        number(&mut context.reply, "pel-count", group.pending);
        let consumers = context.keyspace.consumers(&group)?;
        let names: HashMap<u64, &[u8]> = consumers.iter().map(|(number, consumer)| (*number, &consumer.name[..])).collect();
        pending(context, &group, None, most, &names)?;
        label(&mut context.reply, "consumers");
        context.reply.array(consumers.len());
        for (number, consumer) in &consumers {
            full_consumer(context, &group, (*number, consumer), most)?;
        }
    }
    Ok(())
}

fn full_consumer(context: &mut Context, group: &ConsumerGroup, (owner, consumer): (u64, &Consumer), most: u64) -> Outcome {
    context.reply.map(4);
    text(&mut context.reply, "name", &consumer.name);
    number(&mut context.reply, "seen-time", consumer.seen);
    number(&mut context.reply, "pel-count", consumer.pending);
    pending(context, group, Some(owner), most, &HashMap::new())
}

/// Replies with the pending entries of a group, with names of consumers, or of one consumer.
fn pending(context: &mut Context, group: &ConsumerGroup, owner: Option<u64>, most: u64, names: &HashMap<u64, &[u8]>) -> Outcome {
    let mut found: Vec<(EntryId, Pending)> = Vec::new();
    context.keyspace.walk_pending(group, owner, (EntryId::MIN, EntryId::MAX), &mut |id, pending| {
        found.push((id, pending));
        if found.len() as u64 == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    label(&mut context.reply, "pending");
    context.reply.array(found.len());
    for (id, pending) in found {
        context.reply.array(if owner.is_none() { 4 } else { 3 });
        reply_id(&mut context.reply, id);
        if owner.is_none() {
            context.reply.bulk(names.get(&pending.consumer).copied().unwrap_or_default());
        }
        context.reply.integer(pending.delivered as i64);
        context.reply.integer(pending.deliveries as i64);
    }
    Ok(())
}
