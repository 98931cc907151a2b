//! Commands for sets.

use super::arguments::{Rest, integer_or, is, numbered_keys};
use super::effects::MANY;
use super::members::{self, size};
use super::scan;
use super::spec::{DENYOOM, FAST, MOVABLE, NEEDS_IDS, READ, Run, WRITE};
use super::{Command, Context, Failure, Group, NOT_POSITIVE, Outcome, SYNTAX};
use crate::keyspace::{Collection, Kind, check_member, sort_integers};
use crate::number::parse_integer;
use std::collections::HashSet;
use std::ops::ControlFlow;

const TOO_MANY: Failure = Failure::fixed("ERR Number of keys can't be greater than number of args");

const fn set(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Set, name, arity, run).keys(1, 1, 1)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    set("sadd", -3, sadd).flags(WRITE | DENYOOM | FAST).says("Add members", "O(n), n being the number of members"),
    set("scard", 2, scard).flags(READ | FAST).says("How many members there are", "O(1)"),
    set("sdiff", -2, sdiff)
        .keys(1, -1, 1)
        .flags(READ)
        .says("Members of the first set that are in no other", "O(n), n being the members of all sets"),
    set("sdiffstore", -3, sdiffstore)
        .keys(1, -1, 1)
        .flags(WRITE | DENYOOM)
        .says("Keep members of the first set that are in no other", "O(n), n being the members of all sets"),
    set("sinter", -2, sinter)
        .keys(1, -1, 1)
        .flags(READ)
        .says("Members of all sets", "O(n*m), n being the smallest set and m the number of sets"),
    set("sintercard", -3, sintercard)
        .keys(0, 0, 0)
        .flags(READ | MOVABLE)
        .since("7.0.0")
        .says("How many members are in all sets", "O(n*m), n being the smallest set and m the number of sets"),
    set("sinterstore", -3, sinterstore)
        .keys(1, -1, 1)
        .flags(WRITE | DENYOOM)
        .says("Keep members of all sets", "O(n*m), n being the smallest set and m the number of sets"),
    set("sismember", 3, sismember).flags(READ | FAST).says("Whether it is a member", "O(1)"),
    set("smembers", 2, smembers).flags(READ).says("All members", "O(n), n being the size of the set"),
    set("smismember", -3, smismember)
        .flags(READ | FAST)
        .since("6.2.0")
        .says("Which of them are members", "O(n), n being the number of members"),
    set("smove", 4, smove).keys(1, 2, 1).flags(WRITE | FAST | NEEDS_IDS).says("Move a member to another set", "O(1)"),
    set("spop", -2, spop).flags(WRITE | FAST).says("Remove some members", "O(n), n being the number of members"),
    set("srandmember", -2, srandmember).flags(READ).says("Some members", "O(n), n being the number of members"),
    set("srem", -3, srem).flags(WRITE | FAST).says("Remove members", "O(n), n being the number of members"),
    set("sscan", -3, sscan).flags(READ).since("2.8.0").says("Members from a cursor on", "O(1) for each call"),
    set("sunion", -2, sunion).keys(1, -1, 1).flags(READ).says("Members of any set", "O(n), n being the members of all sets"),
    set("sunionstore", -3, sunionstore)
        .keys(1, -1, 1)
        .flags(WRITE | DENYOOM)
        .says("Keep members of any set", "O(n), n being the members of all sets"),
];

fn sadd(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    arguments[2..].iter().try_for_each(|member| check_member(member))?;
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::Set)?;
    let mut added = 0;
    for member in &arguments[2..] {
        added += i64::from(context.keyspace.add_member(&mut edit, member)?);
    }
    if added > 0 {
        context.keyspace.finish(&edit);
    }
    context.reply.integer(added);
    Ok(())
}

fn srem(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    members::remove(context, arguments, Kind::Set)
}

fn scard(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = context.find(arguments[1], Kind::Set)?;
    context.reply.count(size(head.as_deref()));
    Ok(())
}

fn has(context: &Context, head: Option<&Collection>, member: &[u8]) -> Result<bool, Failure> {
    Ok(match head {
        Some(head) => context.keyspace.has_member(head, member)?,
        None => false,
    })
}

fn sismember(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = context.find(arguments[1], Kind::Set)?;
    let is_member = has(context, head.as_ref(), arguments[2])?;
    context.reply.integer(i64::from(is_member));
    Ok(())
}

fn smismember(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = context.find(arguments[1], Kind::Set)?;
    context.reply.array(arguments.len() - 2);
    for member in &arguments[2..] {
        let is_member = has(context, head.as_ref(), member)?;
        context.reply.integer(i64::from(is_member));
    }
    Ok(())
}

fn smembers(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = context.find(arguments[1], Kind::Set)?;
    context.reply.set(size(head.as_deref()));
    let Some(head) = head else { return Ok(()) };
    let Context { keyspace, reply, .. } = context;
    keyspace.walk_members(&head, &mut |member, _| {
        reply.bulk(member);
        ControlFlow::Continue(())
    })?;
    Ok(())
}

fn smove(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (db, from, to, member) = (context.db(), arguments[1], arguments[2], arguments[3]);
    let source = context.find(from, Kind::Set)?;
    if source.is_none() {
        context.reply.integer(0);
        return Ok(());
    }
    context.find(to, Kind::Set)?;
    let is_member = has(context, source.as_ref(), member)?;
    if is_member && from != to {
        let mut edit = context.keyspace.edit(db, from, Kind::Set)?;
        context.keyspace.remove_member(&mut edit, member)?;
        context.keyspace.finish(&edit);
        let mut edit = context.keyspace.edit(db, to, Kind::Set)?;
        if context.keyspace.add_member(&mut edit, member)? {
            context.keyspace.finish(&edit);
        }
    }
    context.reply.integer(i64::from(is_member));
    Ok(())
}

fn spop(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    if arguments.len() > 3 {
        return Err(SYNTAX);
    }
    let most = match arguments.get(2) {
        None => None,
        Some(text) => Some(u64::try_from(integer_or(text, NOT_POSITIVE)?).map_err(|_| NOT_POSITIVE)?),
    };
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::Set)?;
    let picked = context.keyspace.random_members(&edit.head, most.unwrap_or(1))?;
    for (member, _) in &picked {
        context.keyspace.remove_member(&mut edit, member)?;
    }
    if !picked.is_empty() {
        context.keyspace.finish(&edit);
    }
    if context.server.feed.is_on() {
        // The log gets the members, as replaying a random choice would pick others.
        for some in picked.chunks(MANY) {
            let members = some.iter().map(|(member, _)| member.as_slice());
            let words: Vec<&[u8]> = [&b"SREM"[..], arguments[1]].into_iter().chain(members).collect();
            context.server.feed.put(context.session.db, &words);
        }
    }
    match most {
        None => context.reply.bulk_or_null(picked.first().map(|member| &member.0[..])),
        Some(_) => {
            context.reply.set(picked.len());
            picked.iter().for_each(|member| context.reply.bulk(&member.0));
        }
    }
    Ok(())
}

fn srandmember(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    if arguments.len() > 3 {
        return Err(SYNTAX);
    }
    let Some((picked, _)) = members::random(context, arguments, Kind::Set, None)? else { return Ok(()) };
    context.reply.array(picked.len());
    picked.iter().for_each(|member| context.reply.bulk(&member.0));
    Ok(())
}

fn sscan(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    scan::members(context, arguments, Kind::Set, |writer, member, _| {
        writer.bulk(member);
        Ok(1)
    })
}

/// The sets at keys. All keys are looked at, so that a wrong type anywhere is an error.
fn heads(context: &mut Context, keys: &[&[u8]]) -> Result<Vec<Option<Collection>>, Failure> {
    context.counted(|context| keys.iter().map(|key| context.find(key, Kind::Set)).collect())
}

/// Calls `visit` for the members that all sets have, until it breaks.
fn intersect(context: &mut Context, keys: &[&[u8]], visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Outcome {
    let Some(mut heads) = heads(context, keys)?.into_iter().collect::<Option<Vec<Collection>>>() else { return Ok(()) };
    heads.sort_by_key(|head| head.count);
    let Some((smallest, others)) = heads.split_first() else { return Ok(()) };
    let keyspace = &*context.keyspace;
    let mut failed = None;
    keyspace.walk_members(smallest, &mut |member, _| {
        for other in others {
            match keyspace.has_member(other, member) {
                Ok(true) => {}
                Ok(false) => return ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
        }
        visit(member)
    })?;
    failed.map_or(Ok(()), |error| Err(error.into()))
}

fn intersection(context: &mut Context, keys: &[&[u8]]) -> Result<Vec<Vec<u8>>, Failure> {
    let mut found = Vec::new();
    intersect(context, keys, &mut |member| {
        found.push(member.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

fn union(context: &mut Context, keys: &[&[u8]]) -> Result<Vec<Vec<u8>>, Failure> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for head in heads(context, keys)?.into_iter().flatten() {
        context.keyspace.walk_members(&head, &mut |member, _| {
            if seen.insert(member.to_vec()) {
                found.push(member.to_vec());
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(in_order(context, found))
}

fn difference(context: &mut Context, keys: &[&[u8]]) -> Result<Vec<Vec<u8>>, Failure> {
    let heads = heads(context, keys)?;
    let Some((Some(first), others)) = heads.split_first() else { return Ok(Vec::new()) };
    let keyspace = &*context.keyspace;
    let (mut found, mut failed) = (Vec::new(), None);
    keyspace.walk_members(first, &mut |member, _| {
        for other in others.iter().flatten() {
            match keyspace.has_member(other, member) {
                Ok(false) => {}
                Ok(true) => return ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
        }
        found.push(member.to_vec());
        ControlFlow::Continue(())
    })?;
    failed.map_or_else(|| Ok(in_order(context, found)), |error| Err(error.into()))
}

/// Members in the order of a set of them: integers ascend if they are few.
fn in_order(context: &Context, mut members: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let is_few = members.len() as u64 <= context.server.configuration.thresholds.integers;
    if is_few && members.iter().all(|member| parse_integer(member).is_some()) {
        sort_integers(&mut members);
    }
    members
}

fn reply_set(context: &mut Context, members: &[Vec<u8>]) -> Outcome {
    context.reply.set(members.len());
    members.iter().for_each(|member| context.reply.bulk(member));
    Ok(())
}

/// Replaces the value of a key by these members.
fn store(context: &mut Context, key: &[u8], members: &[Vec<u8>]) -> Outcome {
    context.keyspace.remove(context.session.db, key)?;
    let mut edit = context.keyspace.edit(context.session.db, key, Kind::Set)?;
    for member in members {
        context.keyspace.add_member(&mut edit, member)?;
    }
    context.keyspace.finish(&edit);
    context.reply.count(members.len());
    Ok(())
}

fn sinter(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let members = intersection(context, &arguments[1..])?;
    reply_set(context, &members)
}

fn sunion(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let members = union(context, &arguments[1..])?;
    reply_set(context, &members)
}

fn sdiff(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let members = difference(context, &arguments[1..])?;
    reply_set(context, &members)
}

fn sinterstore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let members = intersection(context, &arguments[2..])?;
    store(context, arguments[1], &members)
}

fn sunionstore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let members = union(context, &arguments[2..])?;
    store(context, arguments[1], &members)
}

fn sdiffstore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let members = difference(context, &arguments[2..])?;
    store(context, arguments[1], &members)
}

/// The argument of `LIMIT` of commands that count members; 0: no limit.
pub(super) fn limit(rest: &[&[u8]]) -> Result<usize, Failure> {
    const NEGATIVE: Failure = Failure::fixed("ERR LIMIT can't be negative");
    let mut rest = Rest::new(rest);
    let mut limit = 0;
    while let Some(word) = rest.next() {
        if !is(word, "limit") {
            return Err(SYNTAX);
        }
        limit = usize::try_from(integer_or(rest.value()?, NEGATIVE)?).map_err(|_| NEGATIVE)?;
    }
    Ok(if limit == 0 { usize::MAX } else { limit })
}

fn sintercard(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (keys, rest) = numbered_keys(&arguments[1..], TOO_MANY)?;
    let limit = limit(rest)?;
    let mut found = 0;
    intersect(context, keys, &mut |_| {
        found += 1;
        if found == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    context.reply.count(found);
    Ok(())
}
