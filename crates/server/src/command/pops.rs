//! Removing from the first list or sorted set that has elements, and waiting until there is one.
//!
//! After a wait only the key that has changed is looked at: among several keys, the first one that changed is served.

use super::arguments::numbered_keys;
use super::blocking::{Wait, kept, null_array, seconds};
use super::lists::{self, side};
use super::sorted;
use super::spec::{BLOCKING, DENYOOM, FAST, MOVABLE, NOSCRIPT, Run, WRITE};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX};
use crate::keyspace::{Kind, Side};

const fn pop(group: Group, name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(group, name, arity, run).keys(1, -2, 1).since("2.0.0")
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    pop(Group::List, "blmove", 6, blmove)
        .keys(1, 2, 1)
        .flags(WRITE | DENYOOM | NOSCRIPT | BLOCKING)
        .since("6.2.0")
        .says("LMOVE that waits for an item", "O(1)"),
    pop(Group::List, "blmpop", -5, blmpop)
        .keys(0, 0, 0)
        .flags(WRITE | MOVABLE | BLOCKING)
        .since("7.0.0")
        .says("LMPOP that waits for an item", "O(n+m), n being the keys and m the items"),
    pop(Group::List, "blpop", -3, blpop)
        .flags(WRITE | NOSCRIPT | BLOCKING)
        .says("LPOP from the first list that has an item, or wait for one", "O(n), n being the number of keys"),
    pop(Group::List, "brpop", -3, brpop)
        .flags(WRITE | NOSCRIPT | BLOCKING)
        .says("RPOP from the first list that has an item, or wait for one", "O(n), n being the number of keys"),
    pop(Group::List, "brpoplpush", 4, brpoplpush)
        .keys(1, 2, 1)
        .flags(WRITE | DENYOOM | NOSCRIPT | BLOCKING)
        .since("2.2.0")
        .says("RPOPLPUSH that waits for an item", "O(1)"),
    pop(Group::SortedSet, "bzmpop", -5, bzmpop)
        .keys(0, 0, 0)
        .flags(WRITE | MOVABLE | BLOCKING)
        .since("7.0.0")
        .says("ZMPOP that waits for a member", "O(n+m), n being the keys and m the members"),
    pop(Group::SortedSet, "bzpopmax", -3, bzpopmax)
        .flags(WRITE | NOSCRIPT | FAST | BLOCKING)
        .since("5.0.0")
        .says("ZPOPMAX from the first sorted set that has a member, or wait for one", "O(n), n being the number of keys"),
    pop(Group::SortedSet, "bzpopmin", -3, bzpopmin)
        .flags(WRITE | NOSCRIPT | FAST | BLOCKING)
        .since("5.0.0")
        .says("ZPOPMIN from the first sorted set that has a member, or wait for one", "O(n), n being the number of keys"),
];

/// The first key with elements of this type. After a wait that can only be the key that has changed.
fn first<'a>(context: &mut Context, keys: &[&'a [u8]], kind: Kind) -> Result<Option<&'a [u8]>, Failure> {
    let woken = context.session.woken_by().map(<[u8]>::to_vec);
    for key in keys {
        if woken.as_ref().is_none_or(|woken| woken == key) && context.find(key, kind)?.is_some() {
            return Ok(Some(*key));
        }
    }
    Ok(None)
}

fn wait(context: &mut Context, keys: &[&[u8]], kind: Kind, timeout_ms: u64, arguments: &[&[u8]]) {
    let request = kept(arguments);
    context.session.block(Wait { keys: kept(keys), holding: Some(kind), timeout_ms, request, on_timeout: null_array });
}

/// The keys between the name and the timeout, and the timeout.
fn keys_and_timeout<'r, 'a>(arguments: &'r [&'a [u8]]) -> Result<(&'r [&'a [u8]], u64), Failure> {
    let (timeout, keys) = arguments[1..].split_last().ok_or(SYNTAX)?;
    Ok((keys, seconds(timeout)?))
}

fn pop_item(context: &mut Context, arguments: &[&[u8]], from: Side) -> Outcome {
    let (keys, timeout_ms) = keys_and_timeout(arguments)?;
    let Some(key) = first(context, keys, Kind::List)? else {
        wait(context, keys, Kind::List, timeout_ms, arguments);
        return Ok(());
    };
    let items = lists::take(context, key, from, 1)?;
    context.reply.array(1 + items.len());
    context.reply.bulk(key);
    items.iter().for_each(|item| context.reply.bulk(item));
    Ok(())
}

fn blpop(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    pop_item(context, arguments, Side::Left)
}

fn brpop(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    pop_item(context, arguments, Side::Right)
}

fn blmpop(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (keys, rest) = numbered_keys(&arguments[2..], SYNTAX)?;
    let (from, most) = lists::side_and_count(rest)?;
    let timeout_ms = seconds(arguments[1])?;
    match first(context, keys, Kind::List)? {
        Some(key) => lists::take_and_reply(context, key, from, most)?,
        None => wait(context, keys, Kind::List, timeout_ms, arguments),
    }
    Ok(())
}

fn move_item(context: &mut Context, from: (&[u8], Side), to: (&[u8], Side), timeout_ms: u64, arguments: &[&[u8]]) -> Outcome {
    if context.find(from.0, Kind::List)?.is_some() {
        return lists::move_item(context, from, to);
    }
    if context.session.is_in_exec {
        // A null, although a timeout replies with a null array.
        context.reply.null();
    } else {
        wait(context, &[from.0], Kind::List, timeout_ms, arguments);
    }
    Ok(())
}

fn blmove(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (from, to) = (side(arguments[3])?, side(arguments[4])?);
    let timeout_ms = seconds(arguments[5])?;
    move_item(context, (arguments[1], from), (arguments[2], to), timeout_ms, arguments)
}

fn brpoplpush(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let timeout_ms = seconds(arguments[3])?;
    move_item(context, (arguments[1], Side::Right), (arguments[2], Side::Left), timeout_ms, arguments)
}

fn pop_member(context: &mut Context, arguments: &[&[u8]], highest: bool) -> Outcome {
    let (keys, timeout_ms) = keys_and_timeout(arguments)?;
    let Some(key) = first(context, keys, Kind::SortedSet)? else {
        wait(context, keys, Kind::SortedSet, timeout_ms, arguments);
        return Ok(());
    };
    let members = sorted::take(context, key, highest, 1)?;
    context.reply.array(1 + 2 * members.len());
    context.reply.bulk(key);
    for (member, score) in members {
        context.reply.bulk(&member);
        context.reply.double(score);
    }
    Ok(())
}

fn bzpopmin(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    pop_member(context, arguments, false)
}

fn bzpopmax(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    pop_member(context, arguments, true)
}

fn bzmpop(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (keys, rest) = numbered_keys(&arguments[2..], SYNTAX)?;
    let (highest, most) = sorted::end_and_count(rest)?;
    let timeout_ms = seconds(arguments[1])?;
    match first(context, keys, Kind::SortedSet)? {
        Some(key) => sorted::take_and_reply(context, key, highest, most)?,
        None => wait(context, keys, Kind::SortedSet, timeout_ms, arguments),
    }
    Ok(())
}
