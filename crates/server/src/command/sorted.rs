//! Commands for members of sorted sets.

use super::arguments::{Rest, double, is, not_negative, numbered_keys};
use super::members::{self, size};
use super::scan;
use super::spec::{DENYOOM, FAST, MOVABLE, READ, Run, WRITE};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX, wrong_arity};
use crate::keyspace::{Kind, check_member, decode_score};
use crate::number::format_double;
use crate::resp::{Protocol, Writer};
use std::ops::ControlFlow;

const NAN: Failure = Failure::fixed("ERR resulting score is not a number (NaN)");

/// A member and its score.
pub(super) type Scored = (Vec<u8>, f64);

pub(super) const fn zset(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::SortedSet, name, arity, run).keys(1, 1, 1)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    zset("zadd", -4, zadd)
        .flags(WRITE | DENYOOM | FAST)
        .since("1.2.0")
        .says("Add members, or change their scores", "O(n), n being the number of members"),
    zset("zcard", 2, zcard).flags(READ | FAST).since("1.2.0").says("How many members there are", "O(1)"),
    zset("zincrby", 4, zincrby).flags(WRITE | DENYOOM | FAST).since("1.2.0").says("Increment a member's score", "O(1)"),
    zset("zmpop", -4, zmpop)
        .keys(0, 0, 0)
        .flags(WRITE | MOVABLE)
        .since("7.0.0")
        .says("Remove the lowest or highest members of the first sorted set that has any", "O(n+m), n being the keys and m the members"),
    zset("zmscore", -3, zmscore)
        .flags(READ | FAST)
        .since("6.2.0")
        .says("The scores of many members", "O(n), n being the number of members"),
    zset("zpopmax", -2, zpopmax)
        .flags(WRITE | FAST)
        .since("5.0.0")
        .says("Remove the members with the highest scores", "O(n), n being the number of members"),
    zset("zpopmin", -2, zpopmin)
        .flags(WRITE | FAST)
        .since("5.0.0")
        .says("Remove the members with the lowest scores", "O(n), n being the number of members"),
    zset("zrandmember", -2, zrandmember).flags(READ).since("6.2.0").says("Some members", "O(n), n being the number of members"),
    zset("zrank", -3, zrank)
        .flags(READ | FAST)
        .since("2.0.0")
        .says("How many members come before", "O(log(n)), and O(n) at first, n being the members"),
    zset("zrem", -3, zrem).flags(WRITE | FAST).since("1.2.0").says("Remove members", "O(n), n being the number of members"),
    zset("zrevrank", -3, zrevrank)
        .flags(READ | FAST)
        .since("2.0.0")
        .says("How many members come behind", "O(log(n)), and O(n) at first, n being the members"),
    zset("zscan", -3, zscan).flags(READ).since("2.8.0").says("Members and scores from a cursor on", "O(1) for each call"),
    zset("zscore", 3, zscore).flags(READ | FAST).since("1.2.0").says("A member's score", "O(1)"),
];

/// Options of `ZADD`.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub only_new: bool,
    pub only_existing: bool,
    greater: bool,
    less: bool,
    pub counts_changes: bool,
    increments: bool,
}

impl Options {
    /// Parses options up to the first score; returns the arguments from there on.
    fn parse<'r, 'a>(arguments: &'r [&'a [u8]]) -> Result<(Options, &'r [&'a [u8]]), Failure> {
        let mut options = Options::default();
        let mut rest = arguments;
        while let Some((word, behind)) = rest.split_first() {
            let flag = match () {
                () if is(word, "nx") => &mut options.only_new,
                () if is(word, "xx") => &mut options.only_existing,
                () if is(word, "gt") => &mut options.greater,
                () if is(word, "lt") => &mut options.less,
                () if is(word, "ch") => &mut options.counts_changes,
                () if is(word, "incr") => &mut options.increments,
                () => break,
            };
            *flag = true;
            rest = behind;
        }
        if rest.is_empty() || rest.len() % 2 == 1 {
            return Err(SYNTAX);
        }
        let text = match () {
            () if options.only_new && options.only_existing => "ERR XX and NX options at the same time are not compatible",
            () if options.only_new && (options.greater || options.less) || options.greater && options.less => {
                "ERR GT, LT, and/or NX options at the same time are not compatible"
            }
            () if options.increments && rest.len() > 2 => "ERR INCR option supports a single increment-element pair",
            () => return Ok((options, rest)),
        };
        Err(Failure::fixed(text))
    }

    /// The new score of a member; `None`: it stays as it is.
    fn wanted(&self, old: Option<f64>, given: f64) -> Result<Option<f64>, Failure> {
        let Some(old) = old else { return Ok((!self.only_existing).then_some(given)) };
        if self.only_new {
            return Ok(None);
        }
        let new = if self.increments { old + given } else { given };
        if new.is_nan() {
            return Err(NAN);
        }
        let is_refused = self.less && new >= old || self.greater && new <= old;
        Ok((!is_refused).then_some(new))
    }
}

/// Parses pairs of scores and members.
fn given<'a>(pairs: &[&'a [u8]]) -> Result<Vec<(f64, &'a [u8])>, Failure> {
    pairs.chunks_exact(2).map(|pair| Ok((double(pair[0])?, pair[1]))).collect()
}

/// Sets scores of members, and replies as `ZADD` does.
pub(super) fn add(context: &mut Context, key: &[u8], options: &Options, members: &[(f64, &[u8])]) -> Outcome {
    members.iter().try_for_each(|(_, member)| check_member(member))?;
    let mut edit = context.keyspace.edit(context.session.db, key, Kind::SortedSet)?;
    let (mut added, mut changed, mut last) = (0, 0, None);
    for (given, member) in members {
        let old = context.keyspace.score(&edit.head, member)?;
        last = options.wanted(old, *given)?;
        let Some(score) = last else { continue };
        context.keyspace.set_score(&mut edit, member, score)?;
        added += i64::from(old.is_none());
        changed += i64::from(old.is_some_and(|old| old != score));
    }
    if added + changed > 0 {
        context.keyspace.finish(&edit);
    }
    match last {
        _ if !options.increments => context.reply.integer(if options.counts_changes { added + changed } else { added }),
        Some(score) => context.reply.double(score),
        None => context.reply.null(),
    }
    Ok(())
}

fn zadd(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (options, pairs) = Options::parse(&arguments[2..])?;
    add(context, arguments[1], &options, &given(pairs)?)
}

fn zincrby(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let options = Options { increments: true, ..Options::default() };
    add(context, arguments[1], &options, &given(&arguments[2..])?)
}

fn zrem(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    members::remove(context, arguments, Kind::SortedSet)
}

fn zcard(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = context.find(arguments[1], Kind::SortedSet)?;
    context.reply.count(size(head.as_deref()));
    Ok(())
}

fn reply_score(reply: &mut Writer, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

fn zscore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let score = match context.find(arguments[1], Kind::SortedSet)? {
        Some(head) => context.keyspace.score(&head, arguments[2])?,
        None => None,
    };
    reply_score(&mut context.reply, score);
    Ok(())
}

fn zmscore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = context.find(arguments[1], Kind::SortedSet)?;
    context.reply.array(arguments.len() - 2);
    for member in &arguments[2..] {
        let score = match &head {
            Some(head) => context.keyspace.score(head, member)?,
            None => None,
        };
        reply_score(&mut context.reply, score);
    }
    Ok(())
}

fn rank(context: &mut Context, arguments: &[&[u8]], backward: bool) -> Outcome {
    let with_score = match arguments {
        [_, _, _] => false,
        [_, _, _, word] if is(word, "withscore") => true,
        [_, _, _, _] => return Err(SYNTAX),
        _ => return Err(wrong_arity(arguments[0])),
    };
    let found = match context.find(arguments[1], Kind::SortedSet)? {
        Some(head) => {
            let from_end = |rank| if backward { (head.count - 1).saturating_sub(rank) } else { rank };
            context.keyspace.rank(&head, arguments[2])?.map(|(rank, score)| (from_end(rank), score))
        }
        None => None,
    };
    let Some((rank, score)) = found else {
        if with_score {
            context.reply.null_array();
        } else {
            context.reply.null();
        }
        return Ok(());
    };
    if with_score {
        context.reply.array(2);
    }
    context.reply.integer(i64::try_from(rank).unwrap_or(i64::MAX));
    if with_score {
        context.reply.double(score);
    }
    Ok(())
}

fn zrank(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    rank(context, arguments, false)
}

fn zrevrank(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    rank(context, arguments, true)
}

/// Removes up to `most` members at one end.
pub(super) fn take(context: &mut Context, key: &[u8], highest: bool, most: u64) -> Result<Vec<Scored>, Failure> {
    let mut edit = context.keyspace.edit(context.session.db, key, Kind::SortedSet)?;
    let count = edit.head.count;
    let most = most.min(count);
    let ranks = if highest { (count - most, count) } else { (0, most) };
    let mut taken: Vec<Scored> = Vec::new();
    context.keyspace.walk_ranks(&edit.head, ranks, highest, &mut |member, score| {
        taken.push((member.to_vec(), score));
        ControlFlow::Continue(())
    })?;
    for (member, _) in &taken {
        context.keyspace.remove_scored(&mut edit, member)?;
    }
    if !taken.is_empty() {
        context.keyspace.finish(&edit);
    }
    Ok(taken)
}

/// Replies with members and scores, as nested pairs or as a flat array.
fn reply_scored(reply: &mut Writer, members: &[Scored], nested: bool) {
    reply.array(members.len() * if nested { 1 } else { 2 });
    for (member, score) in members {
        if nested {
            reply.array(2);
        }
        reply.bulk(member);
        reply.double(*score);
    }
}

/// Replies with members, and with their scores if asked.
pub(super) fn reply_members(reply: &mut Writer, members: &[Scored], with_scores: bool) {
    if with_scores {
        let nested = reply.protocol() == Protocol::Resp3;
        return reply_scored(reply, members, nested);
    }
    reply.array(members.len());
    members.iter().for_each(|member| reply.bulk(&member.0));
}

fn pop(context: &mut Context, arguments: &[&[u8]], highest: bool) -> Outcome {
    if arguments.len() > 3 {
        return Err(SYNTAX);
    }
    let most = arguments.get(2).map(|text| not_negative(text)).transpose()?;
    let taken = take(context, arguments[1], highest, most.unwrap_or(1))?;
    let nested = most.is_some() && context.reply.protocol() == Protocol::Resp3;
    reply_scored(&mut context.reply, &taken, nested);
    Ok(())
}

fn zpopmin(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    pop(context, arguments, false)
}

fn zpopmax(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    pop(context, arguments, true)
}

/// Parses the end to remove from (true: the highest scores) and the number of members, behind the keys.
pub(super) fn end_and_count(rest: &[&[u8]]) -> Result<(bool, u64), Failure> {
    let mut rest = Rest::new(rest);
    let highest = match rest.value()? {
        word if is(word, "min") => false,
        word if is(word, "max") => true,
        _ => return Err(SYNTAX),
    };
    Ok((highest, rest.take_count()?))
}

/// Removes members at one end; the reply has the key and the members.
pub(super) fn take_and_reply(context: &mut Context, key: &[u8], highest: bool, most: u64) -> Outcome {
    let taken = take(context, key, highest, most)?;
    context.reply.array(2);
    context.reply.bulk(key);
    reply_scored(&mut context.reply, &taken, true);
    Ok(())
}

fn zmpop(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (keys, rest) = numbered_keys(&arguments[1..], SYNTAX)?;
    let (highest, most) = end_and_count(rest)?;
    for key in keys {
        if context.find(key, Kind::SortedSet)?.is_some() {
            return take_and_reply(context, key, highest, most);
        }
    }
    context.reply.null_array();
    Ok(())
}

fn zrandmember(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let Some((picked, with_scores)) = members::random(context, arguments, Kind::SortedSet, Some("withscores"))? else { return Ok(()) };
    let scored = picked.into_iter().map(|(member, score)| Ok((member, decode_score(&score)?))).collect::<Result<Vec<_>, Failure>>()?;
    reply_members(&mut context.reply, &scored, with_scores);
    Ok(())
}

fn zscan(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    scan::members(context, arguments, Kind::SortedSet, |writer, member, score| {
        let score = decode_score(score)?;
        writer.bulk(member);
        writer.bulk(format_double(score).as_bytes());
        Ok(2)
    })
}
