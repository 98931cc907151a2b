//! Unions, intersections and differences of sorted sets, and of plain sets among them.

use super::arguments::{Rest, Split, integer, is};
use super::sets::limit;
use super::sorted::{Scored, reply_members, zset};
use super::sorted_ranges::store;
use super::spec::{DENYOOM, MOVABLE, READ, WRITE};
use super::{Command, Context, Failure, Outcome, SYNTAX};
use crate::keyspace::{self, Collection, Error, Keyspace, Kind};
use crate::number::parse_double;
use std::collections::{HashMap, HashSet};
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
        .says("Members of all", "O(n*m), n being the smallest set and m the number of sets"),
    zset("zintercard", -3, zintercard)
        .keys(0, 0, 0)
        .flags(READ | MOVABLE)
        .since("7.0.0")
        .says("How many members are in all", "O(n*m), n being the smallest set and m the number of sets"),
    zset("zinterstore", -4, zinterstore)
        .flags(WRITE | DENYOOM | MOVABLE)
        .since("2.0.0")
        .says("Keep members of all", "O(n*m), n being the smallest set and m the number of sets"),
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

/// A set or sorted set, if there is one at the key, and its weight.
type Input<'h> = (Option<&'h Collection>, f64);

impl Request {
    /// The inputs. As in Redis, small sets come first: the order decides how sums of floating-point numbers are rounded.
    fn inputs(&self) -> Vec<Input<'_>> {
        let mut inputs: Vec<Input<'_>> = self.heads.iter().map(Option::as_ref).zip(self.weights.iter().copied()).collect();
        inputs.sort_by_key(|(head, _)| head.map_or(0, |head| head.count));
        inputs
    }
}

fn union(keyspace: &Keyspace, request: &Request) -> keyspace::Result<Vec<Scored>> {
    let mut all: HashMap<Vec<u8>, f64> = HashMap::new();
    for (head, weight) in request.inputs() {
        let Some(head) = head else { continue };
        keyspace.walk_scored_or_set(head, &mut |member, score| {
            let score = number_or_zero(score * weight);
            match all.get_mut(member) {
                Some(found) => *found = request.aggregate.of(*found, score),
                None => drop(all.insert(member.to_vec(), score)),
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(all.into_iter().collect())
}

/// The aggregated score of a member that all of these inputs have; `None`: one of them does not have it. `score` is its score in an input
/// before them.
fn score_in_all(
    keyspace: &Keyspace,
    inputs: &[(&Collection, f64)],
    member: &[u8],
    mut score: f64,
    aggregate: Aggregate,
) -> keyspace::Result<Option<f64>> {
    for (head, weight) in inputs {
        let Some(other) = keyspace.score_or_set(head, member)? else { return Ok(None) };
        // As in Redis, a NaN product is aggregated; it is replaced by zero only in the first set.
        score = aggregate.of(score, other * weight);
    }
    Ok(Some(score))
}

/// Shows `visit` the members that all inputs have, with their scores, until it breaks: looks up each member of the smallest input in the
/// others.
fn intersect(keyspace: &Keyspace, request: &Request, visit: &mut dyn FnMut(&[u8], f64) -> ControlFlow<()>) -> keyspace::Result<()> {
    let inputs = request.inputs().into_iter().map(|(head, weight)| Some((head?, weight)));
    let Some(inputs) = inputs.collect::<Option<Vec<_>>>() else { return Ok(()) };
    let Some(((smallest, weight), others)) = inputs.split_first() else { return Ok(()) };
    let mut failed = Ok(());
    keyspace.walk_scored_or_set(smallest, &mut |member, score| match score_in_all(
        keyspace,
        others,
        member,
        number_or_zero(score * weight),
        request.aggregate,
    ) {
        Ok(Some(score)) => visit(member, score),
        Ok(None) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Err(error);
            ControlFlow::Break(())
        }
    })?;
    failed
}

fn intersection(keyspace: &Keyspace, request: &Request) -> keyspace::Result<Vec<Scored>> {
    let mut found = Vec::new();
    intersect(keyspace, request, &mut |member, score| {
        found.push((member.to_vec(), score));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Looks up members of the first input in the others if there are fewer of them than in all others; else reads the others first.
fn difference(keyspace: &Keyspace, request: &Request) -> keyspace::Result<Vec<Scored>> {
    let Some((Some(first), others)) = request.heads.split_first() else { return Ok(Vec::new()) };
    let others: Vec<&Collection> = others.iter().flatten().collect();
    let looks_up = first.count < others.iter().map(|other| other.count).sum::<u64>();
    let mut excluded = HashSet::new();
    for other in others.iter().filter(|_| !looks_up) {
        keyspace.walk_scored_or_set(other, &mut |member, _| {
            excluded.insert(member.to_vec());
            ControlFlow::Continue(())
        })?;
    }
    let is_excluded = |member: &[u8]| -> keyspace::Result<bool> {
        if !looks_up {
            return Ok(excluded.contains(member));
        }
        for other in &others {
            if keyspace.has_member(other, member)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let (mut found, mut failed) = (Vec::new(), Ok(()));
    keyspace.walk_scored_or_set(first, &mut |member, score| {
        match is_excluded(member) {
            Ok(true) => {}
            Ok(false) => found.push((member.to_vec(), score)),
            Err(error) => {
                failed = Err(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    failed.map(|()| found)
}

/// Members of the result and their scores, in order.
fn compute(keyspace: &Keyspace, request: &Request, operation: Operation) -> Result<Vec<Scored>, Failure> {
    let mut found = match operation {
        Operation::Union => union(keyspace, request),
        Operation::Intersection => intersection(keyspace, request),
        Operation::Difference => difference(keyspace, request),
    }?;
    // Adding 0.0 makes both zeros equal for the order.
    found.sort_by(|a, b| (a.1 + 0.0).total_cmp(&(b.1 + 0.0)).then_with(|| a.0.cmp(&b.0)));
    Ok(found)
}

fn reply(context: &mut Context, arguments: &[&[u8]], operation: Operation) -> Outcome {
    let request = Request::parse(context, &arguments[1..], arguments[0], operation, false)?;
    let found = compute(context.keyspace, &request, operation)?;
    reply_members(&mut context.reply, &found, request.with_scores);
    Ok(())
}

fn keep(context: &mut Context, arguments: &[&[u8]], operation: Operation) -> Outcome {
    let request = Request::parse(context, &arguments[2..], arguments[0], operation, true)?;
    let found = compute(context.keyspace, &request, operation)?;
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
    let mut found = 0;
    intersect(context.keyspace, &request, &mut |_, _| {
        found += 1;
        if found == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    context.reply.count(found);
    Ok(())
}
