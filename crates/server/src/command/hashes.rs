//! Commands for hashes.

use super::arguments::{integer, wide};
use super::members::{self, size};
use super::scan;
use super::spec::{DENYOOM, FAST, READ, Run, WRITE};
use super::{Command, Context, Failure, Group, NOT_FINITE, NOT_FLOAT, Outcome, WOULD_OVERFLOW, wrong_arity};
use crate::keyspace::{Collection, Kind, check_member};
use crate::number::{integer_text, parse_integer};
use crate::resp::Protocol;
use crate::wide::Wide;
use std::ops::ControlFlow;

const NOT_INTEGER: Failure = Failure::fixed("ERR hash value is not an integer");
const NOT_A_FLOAT: Failure = Failure::fixed("ERR hash value is not a float");

const fn hash(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Hash, name, arity, run).keys(1, 1, 1).since("2.0.0")
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    hash("hdel", -3, hdel).flags(WRITE | FAST).says("Remove fields", "O(n), n being the number of fields"),
    hash("hexists", 3, hexists).flags(READ | FAST).says("Whether a field exists", "O(1)"),
    hash("hget", 3, hget).flags(READ | FAST).says("The value of a field", "O(1)"),
    hash("hgetall", 2, hgetall).flags(READ).says("All fields and values", "O(n), n being the size of the hash"),
    hash("hincrby", 4, hincrby).flags(WRITE | DENYOOM | FAST).says("Increment the number in a field", "O(1)"),
    hash("hincrbyfloat", 4, hincrbyfloat)
        .flags(WRITE | DENYOOM | FAST)
        .since("2.6.0")
        .says("Increment the floating-point number in a field", "O(1)"),
    hash("hkeys", 2, hkeys).flags(READ).says("All fields", "O(n), n being the size of the hash"),
    hash("hlen", 2, hlen).flags(READ | FAST).says("How many fields there are", "O(1)"),
    hash("hmget", -3, hmget).flags(READ | FAST).says("The values of many fields", "O(n), n being the number of fields"),
    hash("hmset", -4, hmset).flags(WRITE | DENYOOM | FAST).says("Set many fields", "O(n), n being the number of fields"),
    hash("hrandfield", -2, hrandfield).flags(READ).since("6.2.0").says("Some fields", "O(n), n being the number of fields"),
    hash("hscan", -3, hscan).flags(READ).since("2.8.0").says("Fields and values from a cursor on", "O(1) for each call"),
    hash("hset", -4, hset).flags(WRITE | DENYOOM | FAST).says("Set fields", "O(n), n being the number of fields"),
    hash("hsetnx", 4, hsetnx).flags(WRITE | DENYOOM | FAST).says("Set a field if it does not exist", "O(1)"),
    hash("hstrlen", 3, hstrlen).flags(READ | FAST).since("3.2.0").says("The length of the value of a field", "O(1)"),
    hash("hvals", 2, hvals).flags(READ).says("All values", "O(n), n being the size of the hash"),
];

fn set_fields(context: &mut Context, arguments: &[&[u8]]) -> Result<i64, Failure> {
    if arguments.len() % 2 == 1 {
        return Err(wrong_arity(arguments[0]));
    }
    arguments[2..].chunks_exact(2).try_for_each(|pair| check_member(pair[0]))?;
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::Hash)?;
    let mut new = 0;
    for pair in arguments[2..].chunks_exact(2) {
        new += i64::from(context.keyspace.set_field(&mut edit, pair[0], pair[1])?);
    }
    context.keyspace.finish(&edit);
    Ok(new)
}

fn hset(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let new = set_fields(context, arguments)?;
    context.reply.integer(new);
    Ok(())
}

fn hmset(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    set_fields(context, arguments)?;
    context.reply.ok();
    Ok(())
}

fn hsetnx(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::Hash)?;
    let is_new = !context.keyspace.has_member(&edit.head, arguments[2])?;
    if is_new {
        context.keyspace.set_field(&mut edit, arguments[2], arguments[3])?;
        context.keyspace.finish(&edit);
    }
    context.reply.integer(i64::from(is_new));
    Ok(())
}

/// The value of a field, if there is one.
fn field(context: &mut Context, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    match context.find(key, Kind::Hash)? {
        Some(head) => Ok(context.keyspace.member(&head, field)?),
        None => Ok(None),
    }
}

fn hget(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let value = field(context, arguments[1], arguments[2])?;
    context.reply.bulk_or_null(value.as_deref());
    Ok(())
}

fn hexists(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let is_there = field(context, arguments[1], arguments[2])?.is_some();
    context.reply.integer(i64::from(is_there));
    Ok(())
}

fn hstrlen(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let length = field(context, arguments[1], arguments[2])?.map_or(0, |value| value.len());
    context.reply.count(length);
    Ok(())
}

fn hmget(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = context.find(arguments[1], Kind::Hash)?;
    context.reply.array(arguments.len() - 2);
    let mut value = Vec::new();
    for field in &arguments[2..] {
        let found = match &head {
            Some(head) => context.keyspace.member_into(head, field, &mut value)?,
            None => false,
        };
        context.reply.bulk_or_null(found.then_some(&value[..]));
    }
    Ok(())
}

/// The hash at a key, with the number of fields that readers see.
fn whole(context: &mut Context, key: &[u8]) -> Result<Option<Collection>, Failure> {
    let found = context.find(key, Kind::Hash)?;
    Ok(found.map(|found| context.keyspace.without_hidden(found)).transpose()?)
}

fn hlen(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = whole(context, arguments[1])?;
    context.reply.count(size(head.as_deref()));
    Ok(())
}

fn hdel(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    members::remove(context, arguments, Kind::Hash)
}

/// Replies with fields, values or both of all members.
fn reply_members(context: &mut Context, head: Option<Collection>, fields: bool, values: bool) -> Outcome {
    let Some(head) = head else { return Ok(()) };
    let Context { keyspace, reply, .. } = context;
    keyspace.walk_members(&head, &mut |field, value| {
        if fields {
            reply.bulk(field);
        }
        if values {
            reply.bulk(value);
        }
        ControlFlow::Continue(())
    })?;
    Ok(())
}

fn hgetall(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = whole(context, arguments[1])?;
    context.reply.map(size(head.as_deref()));
    reply_members(context, head, true, true)
}

fn hkeys(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = whole(context, arguments[1])?;
    context.reply.array(size(head.as_deref()));
    reply_members(context, head, true, false)
}

fn hvals(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = whole(context, arguments[1])?;
    context.reply.array(size(head.as_deref()));
    reply_members(context, head, false, true)
}

fn hincrby(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let increment = integer(arguments[3])?;
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::Hash)?;
    let old = match context.keyspace.member(&edit.head, arguments[2])? {
        None => 0,
        Some(text) => parse_integer(&text).ok_or(NOT_INTEGER)?,
    };
    let new = old.checked_add(increment).ok_or(WOULD_OVERFLOW)?;
    context.keyspace.change_field(&mut edit, arguments[2], &integer_text(new))?;
    context.keyspace.finish(&edit);
    context.reply.integer(new);
    Ok(())
}

fn hincrbyfloat(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let increment = wide(arguments[3], NOT_FLOAT)?.ok_or(Failure::fixed("ERR value is NaN or Infinity"))?;
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::Hash)?;
    let old = match context.keyspace.member(&edit.head, arguments[2])? {
        None => Some(Wide::ZERO),
        Some(text) => wide(&text, NOT_A_FLOAT)?,
    };
    let text = old.and_then(|old| old.add(increment)).ok_or(NOT_FINITE)?.text();
    context.keyspace.change_field(&mut edit, arguments[2], text.as_bytes())?;
    context.keyspace.finish(&edit);
    context.reply.bulk(text.as_bytes());
    Ok(())
}

fn hscan(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    scan::members(context, arguments, Kind::Hash, |writer, field, value| {
        writer.bulk(field);
        writer.bulk(value);
        Ok(2)
    })
}

fn hrandfield(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let Some((picked, with_values)) = members::random(context, arguments, Kind::Hash, Some("withvalues"))? else { return Ok(()) };
    let nested = with_values && context.reply.protocol() == Protocol::Resp3;
    context.reply.array(picked.len() * if with_values && !nested { 2 } else { 1 });
    for (field, value) in &picked {
        if nested {
            context.reply.array(2);
        }
        context.reply.bulk(field);
        if with_values {
            context.reply.bulk(value);
        }
    }
    Ok(())
}
