//! Commands for ranges of sorted sets, by rank, score and name.

use super::arguments::{Rest, integer, is, span};
use super::sorted::{Scored, reply_members, zset};
use super::spec::{DENYOOM, FAST, READ, WRITE};
use super::{Command, Context, Failure, Outcome, SYNTAX};
use crate::keyspace::{Collection, Kind, LexBound, ScoreBound};
use crate::number::parse_bound;
use std::ops::ControlFlow;

const NOT_A_SCORE: Failure = Failure::fixed("ERR min or max is not a float");
const NOT_A_NAME: Failure = Failure::fixed("ERR min or max not valid string range item");

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    zset("zcount", 4, zcount)
        .flags(READ | FAST)
        .since("2.0.0")
        .says("How many members have a score in a range", "O(log(n)), and O(n) at first, n being the members"),
    zset("zlexcount", 4, zlexcount)
        .flags(READ | FAST)
        .since("2.8.9")
        .says("How many members have a name in a range", "O(log(n)), and O(n) at first or if scores differ, n being the members"),
    zset("zrange", -4, zrange)
        .flags(READ)
        .since("1.2.0")
        .says("The members in a range", "O(log(n)+m), m being the members in the range, and O(n) at first by rank"),
    zset("zrangebylex", -4, zrangebylex)
        .flags(READ)
        .since("2.8.9")
        .says("The members whose name is in a range", "O(n), n being the members in the range, or all members if scores differ"),
    zset("zrangebyscore", -4, zrangebyscore)
        .flags(READ)
        .since("1.0.5")
        .says("The members whose score is in a range", "O(n), n being the members in the range"),
    zset("zrangestore", -5, zrangestore)
        .keys(1, 2, 1)
        .flags(WRITE | DENYOOM)
        .since("6.2.0")
        .says("Keep the members in a range", "O(log(n)+m), m being the members in the range, and O(n) at first by rank"),
    zset("zremrangebylex", 4, zremrangebylex)
        .flags(WRITE)
        .since("2.8.9")
        .says("Remove the members whose name is in a range", "O(n), n being the members in the range, or all members if scores differ"),
    zset("zremrangebyrank", 4, zremrangebyrank)
        .flags(WRITE)
        .since("2.0.0")
        .says("Remove the members whose rank is in a range", "O(log(n)+m), m being the members in the range, and O(n) at first"),
    zset("zremrangebyscore", 4, zremrangebyscore)
        .flags(WRITE)
        .since("1.2.0")
        .says("Remove the members whose score is in a range", "O(n), n being the members in the range"),
    zset("zrevrange", -4, zrevrange)
        .flags(READ)
        .since("1.2.0")
        .says("The members whose rank from the end is in a range", "O(log(n)+m), m being the members in the range, and O(n) at first"),
    zset("zrevrangebylex", -4, zrevrangebylex)
        .flags(READ)
        .since("2.8.9")
        .says("The members whose name is in a range, backwards", "O(n), n being the members in the range, or all members if scores differ"),
    zset("zrevrangebyscore", -4, zrevrangebyscore)
        .flags(READ)
        .since("2.2.0")
        .says("The members whose score is in a range, backwards", "O(n), n being the members in the range"),
];

/// Callback for each member of a range and its score.
type Visit<'a> = dyn FnMut(&[u8], f64) -> ControlFlow<()> + 'a;

/// Order that the ends of a range refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// The ends of a range.
#[derive(Debug)]
enum Range {
    Rank(i64, i64),
    Score(ScoreBound, ScoreBound),
    Lex(LexBound, LexBound),
}

fn score_bound(text: &[u8]) -> Result<ScoreBound, Failure> {
    let (is_open, number) = match text.strip_prefix(b"(") {
        Some(number) => (true, number),
        None => (false, text),
    };
    Ok(ScoreBound { score: parse_bound(number).ok_or(NOT_A_SCORE)?, is_open })
}

fn lex_bound(text: &[u8]) -> Result<LexBound, Failure> {
    match text {
        b"-" => Ok(LexBound::Lowest),
        b"+" => Ok(LexBound::Highest),
        [b'[', name @ ..] => Ok(LexBound::Closed(name.to_vec())),
        [b'(', name @ ..] => Ok(LexBound::Open(name.to_vec())),
        _ => Err(NOT_A_NAME),
    }
}

impl Range {
    fn parse(by: By, min: &[u8], max: &[u8]) -> Result<Range, Failure> {
        Ok(match by {
            By::Rank => Range::Rank(integer(min)?, integer(max)?),
            By::Score => Range::Score(score_bound(min)?, score_bound(max)?),
            By::Lex => Range::Lex(lex_bound(min)?, lex_bound(max)?),
        })
    }

    /// Calls `visit` for the members inside, in order or backwards, until it breaks. Skips the first `skip` members, except by rank.
    fn walk(&self, context: &mut Context, head: &Collection, (backward, mut skip): (bool, u64), visit: &mut Visit) -> Outcome {
        match self {
            Range::Score(min, max) => context.keyspace.walk_scores(head, (*min, *max), backward, &mut |member, score| {
                if skip == 0 {
                    return visit(member, score);
                }
                skip -= 1;
                ControlFlow::Continue(())
            })?,
            Range::Lex(min, max) => context.keyspace.walk_lex(head, (min, max), backward, skip, visit)?,
            Range::Rank(start, end) => {
                if let Some((from, to)) = span(*start, *end, head.count) {
                    // Backwards, ranks count from the end.
                    let ranks = if backward { (head.count - to, head.count - from) } else { (from, to) };
                    context.keyspace.walk_ranks(head, ranks, backward, visit)?;
                }
            }
        }
        Ok(())
    }

    /// Number of members inside.
    fn count(&self, context: &mut Context, head: &Collection) -> Result<u64, Failure> {
        Ok(match self {
            Range::Score(min, max) => context.keyspace.count_scores(head, (*min, *max))?,
            Range::Lex(min, max) => context.keyspace.count_lex(head, (min, max))?,
            Range::Rank(start, end) => span(*start, *end, head.count).map_or(0, |(from, to)| to - from),
        })
    }
}

/// Arguments of a range command.
struct Request {
    range: Range,
    backward: bool,
    with_scores: bool,
    /// Members to skip, and members to take at most.
    limit: Option<(i64, i64)>,
}

/// Settings that the name of a command implies.
#[derive(Clone, Copy)]
struct Fixed {
    by: Option<By>,
    backward: Option<bool>,
    stores: bool,
}

impl Request {
    fn parse(min: &[u8], max: &[u8], options: &[&[u8]], fixed: Fixed) -> Result<Request, Failure> {
        let (mut by, mut backward, mut with_scores, mut limit) = (fixed.by, fixed.backward, false, None);
        let mut rest = Rest::new(options);
        while let Some(word) = rest.next() {
            match () {
                () if is(word, "withscores") && !fixed.stores => with_scores = true,
                () if is(word, "limit") && rest.len() >= 2 => limit = Some((rest.integer()?, rest.integer()?)),
                () if is(word, "rev") && backward.is_none() => backward = Some(true),
                () if is(word, "bylex") && by.is_none() => by = Some(By::Lex),
                () if is(word, "byscore") && by.is_none() => by = Some(By::Score),
                () => return Err(SYNTAX),
            }
        }
        let by = by.unwrap_or(By::Rank);
        let backward = backward.unwrap_or(false);
        // Redis tells such a limit by its count, of which -1 also means none.
        if by == By::Rank && limit.take().is_some_and(|(_, most)| most != -1) {
            return Err(Failure::fixed("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"));
        }
        if with_scores && by == By::Lex {
            return Err(Failure::fixed("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        // Backwards, the larger end comes first in the request.
        let (min, max) = if backward && by != By::Rank { (max, min) } else { (min, max) };
        Ok(Request { range: Range::parse(by, min, max)?, backward, with_scores, limit })
    }

    fn collect(&self, context: &mut Context, key: &[u8]) -> Result<Vec<Scored>, Failure> {
        let mut found: Vec<Scored> = Vec::new();
        let Some(head) = context.find(key, Kind::SortedSet)? else { return Ok(found) };
        let (skip, most) = self.limit.unwrap_or((0, -1));
        if skip < 0 || most == 0 {
            return Ok(found);
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.range.walk(context, &head, (self.backward, skip.unsigned_abs()), &mut |member, score| {
            found.push((member.to_vec(), score));
            if found.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(found)
    }
}

fn range(context: &mut Context, arguments: &[&[u8]], fixed: Fixed) -> Outcome {
    let request = Request::parse(arguments[2], arguments[3], &arguments[4..], fixed)?;
    let found = request.collect(context, arguments[1])?;
    reply_members(&mut context.reply, &found, request.with_scores);
    Ok(())
}

fn zrange(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    range(context, arguments, Fixed { by: None, backward: None, stores: false })
}

fn zrevrange(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    range(context, arguments, Fixed { by: Some(By::Rank), backward: Some(true), stores: false })
}

fn zrangebyscore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    range(context, arguments, Fixed { by: Some(By::Score), backward: Some(false), stores: false })
}

fn zrevrangebyscore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    range(context, arguments, Fixed { by: Some(By::Score), backward: Some(true), stores: false })
}

fn zrangebylex(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    range(context, arguments, Fixed { by: Some(By::Lex), backward: Some(false), stores: false })
}

fn zrevrangebylex(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    range(context, arguments, Fixed { by: Some(By::Lex), backward: Some(true), stores: false })
}

/// Replaces the value of a key by these members.
pub(super) fn store(context: &mut Context, key: &[u8], members: &[Scored]) -> Outcome {
    context.keyspace.remove(context.session.db, key)?;
    let mut edit = context.keyspace.edit(context.session.db, key, Kind::SortedSet)?;
    for (member, score) in members {
        context.keyspace.set_score(&mut edit, member, *score)?;
    }
    context.keyspace.finish(&edit);
    context.reply.count(members.len());
    Ok(())
}

fn zrangestore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let request = Request::parse(arguments[3], arguments[4], &arguments[5..], Fixed { by: None, backward: None, stores: true })?;
    let found = context.counted(|context| request.collect(context, arguments[2]))?;
    store(context, arguments[1], &found)
}

fn count(context: &mut Context, arguments: &[&[u8]], by: By) -> Outcome {
    let range = Range::parse(by, arguments[2], arguments[3])?;
    let count = match context.find(arguments[1], Kind::SortedSet)? {
        Some(head) => range.count(context, &head)?,
        None => 0,
    };
    context.reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}

fn zcount(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    count(context, arguments, By::Score)
}

fn zlexcount(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    count(context, arguments, By::Lex)
}

fn remove(context: &mut Context, arguments: &[&[u8]], by: By) -> Outcome {
    let range = Range::parse(by, arguments[2], arguments[3])?;
    let request = Request { range, backward: false, with_scores: false, limit: None };
    let found = request.collect(context, arguments[1])?;
    if !found.is_empty() {
        let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::SortedSet)?;
        for (member, _) in &found {
            context.keyspace.remove_scored(&mut edit, member)?;
        }
        context.keyspace.finish(&edit);
    }
    context.reply.count(found.len());
    Ok(())
}

fn zremrangebyrank(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    remove(context, arguments, By::Rank)
}

fn zremrangebyscore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    remove(context, arguments, By::Score)
}

fn zremrangebylex(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    remove(context, arguments, By::Lex)
}
