//! Unions, intersections and differences of sorted sets, and of plain sets among them.

use super::arguments::{Rest, Split, integer, is};
use super::sets::limit;
use super::sorted::{Scored, reply_members, zset};
use super::sorted_ranges::store;
use super::spec::{DENYOOM, MOVABLE, READ, WRITE};
use super::{Command, Context, Failure, Outcome, SYNTAX};
use crate::keyspace::{Collection, Error, Kind};
use crate::number::parse_double;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    zset("zdiff", -3, zdiff)
        .keys(0, 0, 0)
        .flags(READ | MOVABLE)
        .since("6.2.0")
        .says("Members of the first that are in no other", "O(n*log(n)), n being the members of all"),
    zset("zdiffstore", -4, zdiffstore)
        .flags(WRITE | DENYOOM | MOVABLE)
        .since("6.2.0")
        .says("Keep members of the first that are in no other", "O(n*log(n)), n being the members of all"),
    zset("zinter", -3, zinter)
        .keys(0, 0, 0)
        .flags(READ | MOVABLE)
        .since("6.2.0")
        .says("Members of all", "O(n*log(n)), n being the members of all"),
    zset("zintercard", -3, zintercard)
        .keys(0, 0, 0)
        .flags(READ | MOVABLE)
        .since("7.0.0")
        .says("How many members are in all", "O(n), n being the members of all"),
    zset("zinterstore", -4, zinterstore)
        .flags(WRITE | DENYOOM | MOVABLE)
        .since("2.0.0")
        .says("Keep members of all", "O(n*log(n)), n being the members of all"),
    zset("zunion", -3, zunion)
        .keys(0, 0, 0)
        .flags(READ | MOVABLE)
        .since("6.2.0")
        .says("Members of any", "O(n*log(n)), n being the members of all"),
    zset("zunionstore", -4, zunionstore)
        .flags(WRITE | DENYOOM | MOVABLE)
        .since("2.0.0")
        .says("Keep members of any", "O(n*log(n)), n being the members of all"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// Combination of the scores of a member that several sets have.
#[derive(Debug, Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Aggregate::Sum => number_or_zero(a + b),
            Aggregate::Min if b < a => b,
            Aggregate::Max if b > a => b,
            // Of two zeros the first one is taken, with its sign.
            Aggregate::Min | Aggregate::Max => a,
        }
    }
}

/// Replaces NaN (infinity less infinity, or zero times infinity) by zero.
fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

struct Request {
    heads: Vec<Option<Collection>>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
}

/// The keys, after their number, and the arguments behind them.
fn keys<'r, 'a>(arguments: &'r [&'a [u8]], name: &[u8]) -> Result<Split<'r, 'a>, Failure> {
    let (number, rest) = arguments.split_first().ok_or(SYNTAX)?;
    let number = integer(number)?;
    if number < 1 {
        let name = name.to_ascii_lowercase();
        return Err(Failure::new([b"ERR at least 1 input key is needed for '", &name[..], b"' command"].concat()));
    }
    usize::try_from(number).ok().and_then(|number| rest.split_at_checked(number)).ok_or(SYNTAX)
}

impl Request {
    fn new(heads: Vec<Option<Collection>>) -> Self {
        Request { weights: vec![1.0; heads.len()], heads, aggregate: Aggregate::Sum, with_scores: false }
    }

    /// Finds the sets, then parses the options: a key of a wrong type is reported before a wrong option.
    fn parse(context: &mut Context, arguments: &[&[u8]], name: &[u8], operation: Operation, stores: bool) -> Result<Self, Failure> {
        let (keys, options) = keys(arguments, name)?;
        let mut request = Request::new(heads(context, keys)?);
        let mut rest = Rest::new(options);
        let weighs = operation != Operation::Difference;
        while let Some(word) = rest.next() {
            match () {
                () if is(word, "weights") && weighs && rest.len() >= keys.len() => {
                    for weight in &mut request.weights {
                        *weight = parse_double(rest.value()?).ok_or(Failure::fixed("ERR weight value is not a float"))?;
                    }
                }
                () if is(word, "aggregate") && weighs && rest.len() > 0 => {
                    request.aggregate = match rest.value()? {
                        word if is(word, "sum") => Aggregate::Sum,
                        word if is(word, "min") => Aggregate::Min,
                        word if is(word, "max") => Aggregate::Max,
                        _ => return Err(SYNTAX),
                    };
                }
                () if is(word, "withscores") && !stores => request.with_scores = true,
                () => return Err(SYNTAX),
            }
        }
        Ok(request)
    }
}

/// The sets and sorted sets at keys, up to the first key with another type.
fn heads(context: &mut Context, keys: &[&[u8]]) -> Result<Vec<Option<Collection>>, Failure> {
    let find = |context: &mut Context, key| match context.keyspace.find_collection(context.session.db, key)? {
        Some(head) if !matches!(head.kind, Kind::Set | Kind::SortedSet) => Err(Error::WrongType.into()),
        found => Ok(found),
    };
    context.counted(|context| keys.iter().map(|key| find(context, key)).collect())
}

fn compute(context: &mut Context, request: &Request, operation: Operation) -> Result<Vec<Scored>, Failure> {
    let mut inputs: Vec<_> = request.heads.iter().map(Option::as_ref).zip(request.weights.iter().copied()).collect();
    // As in Redis, small sets come first: the order decides how sums of floating-point numbers are rounded.
    if operation != Operation::Difference {
        inputs.sort_by_key(|(head, _)| head.map_or(0, |head| head.count));
    }
    // By member: the score so far, and the number of sets that have it.
    let mut all: HashMap<Vec<u8>, (f64, usize)> = HashMap::new();
    for (nth, (head, weight)) in inputs.iter().enumerate() {
        let Some(head) = head else { continue };
        context.keyspace.walk_scored_or_set(head, &mut |member, score| {
            let product = score * weight;
            // As in Redis, an intersection replaces a NaN product by zero only in the first set: in later ones NaN is aggregated.
            let is_raw = operation == Operation::Intersection && nth > 0;
            let score = if is_raw { product } else { number_or_zero(product) };
            match (all.get_mut(member), operation) {
                (Some(_), Operation::Difference) => drop(all.remove(member)),
                (Some(found), _) => *found = (request.aggregate.of(found.0, score), found.1 + 1),
                (None, Operation::Union) => drop(all.insert(member.to_vec(), (score, 1))),
                (None, _) if nth == 0 => drop(all.insert(member.to_vec(), (score, 1))),
                (None, _) => {}
            }
            ControlFlow::Continue(())
        })?;
    }
    let is_in = |sets: usize| operation != Operation::Intersection || sets == inputs.len();
    let mut found: Vec<Scored> =
        all.into_iter().filter(|(_, (_, sets))| is_in(*sets)).map(|(member, (score, _))| (member, score)).collect();
    // Adding 0.0 makes both zeros equal for the order.
    found.sort_by(|a, b| (a.1 + 0.0).total_cmp(&(b.1 + 0.0)).then_with(|| a.0.cmp(&b.0)));
    Ok(found)
}

fn reply(context: &mut Context, arguments: &[&[u8]], operation: Operation) -> Outcome {
    let request = Request::parse(context, &arguments[1..], arguments[0], operation, false)?;
    let found = compute(context, &request, operation)?;
    reply_members(&mut context.reply, &found, request.with_scores);
    Ok(())
}

fn keep(context: &mut Context, arguments: &[&[u8]], operation: Operation) -> Outcome {
    let request = Request::parse(context, &arguments[2..], arguments[0], operation, true)?;
    let found = compute(context, &request, operation)?;
    store(context, arguments[1], &found)
}

fn zunion(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    reply(context, arguments, Operation::Union)
}

fn zinter(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    reply(context, arguments, Operation::Intersection)
}

fn zdiff(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    reply(context, arguments, Operation::Difference)
}

fn zunionstore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    keep(context, arguments, Operation::Union)
}

fn zinterstore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    keep(context, arguments, Operation::Intersection)
}

fn zdiffstore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    keep(context, arguments, Operation::Difference)
}

fn zintercard(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (keys, options) = keys(&arguments[1..], arguments[0])?;
    let request = Request::new(heads(context, keys)?);
    let limit = limit(options)?;
    let found = compute(context, &request, Operation::Intersection)?;
    context.reply.count(found.len().min(limit));
    Ok(())
}
