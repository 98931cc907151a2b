//! Commands for deadlines of the fields of hashes: those of Redis 7.4, and those that Redis 8 and Valkey 9 have added. Where Redis 8 and
//! Valkey 9 differ, the server accepts requests of both, and its replies, errors and events are those of Redis.

use super::arguments::{integer, integer_or, is};
use super::spec::{DENYOOM, FAST, READ, Run, WRITE};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX, wrong_arity};
use crate::keyspace::{Change, Collection, Edit, FIELD_DEADLINE_MAX, Kind, check_member};
use std::collections::BTreeMap;

const fn hash(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Hash, name, arity, run).keys(1, 1, 1).since("7.4.0")
}

const EACH: &str = "O(n), n being the number of fields";

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    hash("hexpire", -6, hexpire).flags(WRITE | FAST).says("Set the time to live of fields in seconds", EACH),
    hash("hexpireat", -6, hexpireat).flags(WRITE | FAST).says("Set the second at which fields end", EACH),
    hash("hexpiretime", -5, hexpiretime).flags(READ | FAST).says("The seconds at which fields end", EACH),
    hash("hgetdel", -5, hgetdel).flags(WRITE | FAST).since("8.0.0").says("The values of fields, which are removed", EACH),
    hash("hgetex", -5, hgetex).flags(WRITE | FAST).since("8.0.0").says("The values of fields, whose deadlines are changed", EACH),
    hash("hpersist", -5, hpersist).flags(WRITE | FAST).says("Remove the deadlines of fields", EACH),
    hash("hpexpire", -6, hpexpire).flags(WRITE | FAST).says("Set the time to live of fields in milliseconds", EACH),
    hash("hpexpireat", -6, hpexpireat).flags(WRITE | FAST).says("Set the millisecond at which fields end", EACH),
    hash("hpexpiretime", -5, hpexpiretime).flags(READ | FAST).says("The milliseconds at which fields end", EACH),
    hash("hpttl", -5, hpttl).flags(READ | FAST).says("The times to live of fields in milliseconds", EACH),
    hash("hsetex", -6, hsetex).flags(WRITE | DENYOOM | FAST).since("8.0.0").says("Set fields and their deadline", EACH),
    hash("httl", -5, httl).flags(READ | FAST).says("The times to live of fields in seconds", EACH),
];

const NO_FIELDS: Failure = Failure::fixed("ERR Mandatory argument FIELDS is missing or not at the right position");
const MISMATCH: Failure = Failure::fixed("ERR The `numfields` parameter must match the number of arguments");
const NOT_POSITIVE: Failure = Failure::fixed("ERR Number of fields must be a positive integer");

/// Replies for a field that does not exist, that has no deadline, for which a condition is not met, that was changed, and that was removed
/// because its new deadline had passed.
const NO_FIELD: i64 = -2;
const NO_DEADLINE: i64 = -1;
const NOT_MET: i64 = 0;
const DONE: i64 = 1;
const REMOVED: i64 = 2;

/// Unit and origin of a time in a request.
#[derive(Debug, Clone, Copy)]
struct Unit {
    /// Milliseconds in the unit.
    ms: u64,
    is_from_now: bool,
}

const EX: Unit = Unit { ms: 1000, is_from_now: true };
const PX: Unit = Unit { ms: 1, is_from_now: true };
const EXAT: Unit = Unit { ms: 1000, is_from_now: false };
const PXAT: Unit = Unit { ms: 1, is_from_now: false };
const UNITS: [(&str, Unit); 4] = [("ex", EX), ("px", PX), ("exat", EXAT), ("pxat", PXAT)];

impl Unit {
    fn named(word: &[u8]) -> Option<Unit> {
        UNITS.iter().find(|(name, _)| is(word, name)).map(|(_, unit)| *unit)
    }

    /// Parses a time into a deadline. `name`: name of the command, for the error.
    fn deadline(self, context: &Context, text: &[u8], name: &str) -> Result<u64, Failure> {
        let number = integer(text)?;
        let number = u64::try_from(number).map_err(|_| Failure::fixed("ERR invalid expire time, must be >= 0"))?;
        let base = if self.is_from_now { context.keyspace.now() } else { 0 };
        let deadline = number.checked_mul(self.ms).and_then(|ms| ms.checked_add(base)).filter(|deadline| *deadline <= FIELD_DEADLINE_MAX);
        deadline.ok_or_else(|| Failure::new(format!("ERR invalid expire time in '{name}' command")))
    }

    /// Number for a deadline in a reply, rounded up.
    fn number(self, deadline: u64, now: u64) -> i64 {
        let ms = if self.is_from_now { deadline.saturating_sub(now) } else { deadline };
        i64::try_from(ms.div_ceil(self.ms)).unwrap_or(i64::MAX)
    }
}

/// Condition on the present deadline of a field.
#[derive(Debug, Clone, Copy)]
enum Condition {
    /// The field has no deadline.
    Nx,
    /// The field has a deadline.
    Xx,
    /// The field has a deadline before the new one.
    Gt,
    /// The field has no deadline, or one after the new one.
    Lt,
}

impl Condition {
    fn parse(word: &[u8]) -> Option<Condition> {
        let all = [("nx", Condition::Nx), ("xx", Condition::Xx), ("gt", Condition::Gt), ("lt", Condition::Lt)];
        all.into_iter().find(|(name, _)| is(word, name)).map(|(_, condition)| condition)
    }

    fn allows(self, old: Option<u64>, new: u64) -> bool {
        match self {
            Condition::Nx => old.is_none(),
            Condition::Xx => old.is_some(),
            Condition::Gt => old.is_some_and(|old| old < new),
            Condition::Lt => old.is_none_or(|old| old > new),
        }
    }
}

/// The fields of a request that ends with `FIELDS n field ..`; `at`: index of `FIELDS`. `wrong`: the error if `n` is not positive.
fn named<'r, 'a>(arguments: &'r [&'a [u8]], at: usize, wrong: Failure) -> Result<&'r [&'a [u8]], Failure> {
    if !arguments.get(at).is_some_and(|word| is(word, "fields")) {
        return Err(NO_FIELDS);
    }
    let (number, fields) = arguments.get(at + 1..).and_then(<[&[u8]]>::split_first).ok_or(MISMATCH)?;
    let number = parse_count(number, wrong)?;
    if number != fields.len() as u64 {
        return Err(MISMATCH);
    }
    fields.iter().try_for_each(|field| check_member(field))?;
    Ok(fields)
}

/// Parses a positive number.
fn parse_count(text: &[u8], wrong: Failure) -> Result<u64, Failure> {
    match integer_or(text, NOT_POSITIVE).map(u64::try_from) {
        Ok(Ok(number)) if number > 0 => Ok(number),
        _ => Err(wrong),
    }
}

/// Gives a field that exists a deadline, or removes it if the deadline has passed.
fn give(context: &mut Context, edit: &mut Edit, field: &[u8], deadline: u64) -> Result<i64, Failure> {
    if context.keyspace.is_over(deadline) {
        context.keyspace.remove_member(edit, field)?;
        return Ok(REMOVED);
    }
    context.keyspace.set_field_deadline(edit, field, Some(deadline))?;
    Ok(DONE)
}

/// Ends an edit; `has_removed`: fields were removed because their new deadline had passed.
fn finish(context: &mut Context, edit: &Edit, key: &[u8], has_removed: bool) {
    if has_removed {
        context.keyspace.note(context.session.db, key, Change::FieldsRemoved);
    }
    context.keyspace.finish(edit);
}

fn reply_numbers(context: &mut Context, numbers: &[i64]) {
    context.reply.array(numbers.len());
    numbers.iter().for_each(|number| context.reply.integer(*number));
}

fn expire(context: &mut Context, arguments: &[&[u8]], unit: Unit, name: &str) -> Outcome {
    const WRONG: Failure = Failure::fixed("ERR Parameter `numFields` should be greater than 0");
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::Hash)?;
    let deadline = unit.deadline(context, arguments[2], name)?;
    let condition = Condition::parse(arguments[3]);
    let fields = named(arguments, if condition.is_some() { 4 } else { 3 }, WRONG)?;
    let mut replies = Vec::with_capacity(fields.len());
    for field in fields {
        replies.push(match context.keyspace.field_deadline(&edit.head, field)? {
            None => NO_FIELD,
            Some(old) if condition.is_some_and(|condition| !condition.allows(old, deadline)) => NOT_MET,
            Some(_) => give(context, &mut edit, field, deadline)?,
        });
    }
    if replies.iter().any(|reply| *reply > 0) {
        finish(context, &edit, arguments[1], replies.contains(&REMOVED));
    }
    reply_numbers(context, &replies);
    Ok(())
}

fn hexpire(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    expire(context, arguments, EX, "hexpire")
}

fn hpexpire(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    expire(context, arguments, PX, "hpexpire")
}

fn hexpireat(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    expire(context, arguments, EXAT, "hexpireat")
}

fn hpexpireat(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    expire(context, arguments, PXAT, "hpexpireat")
}

/// Replies with the deadlines of fields in a unit.
fn deadlines(context: &mut Context, arguments: &[&[u8]], unit: Unit) -> Outcome {
    let head = context.find(arguments[1], Kind::Hash)?;
    let fields = named(arguments, 2, NOT_POSITIVE)?;
    let (mut replies, now) = (Vec::with_capacity(fields.len()), context.keyspace.now());
    for field in fields {
        let found = head.as_ref().map(|head| context.keyspace.field_deadline(head, field)).transpose()?.flatten();
        replies.push(match found {
            None => NO_FIELD,
            Some(None) => NO_DEADLINE,
            Some(Some(deadline)) => unit.number(deadline, now),
        });
    }
    reply_numbers(context, &replies);
    Ok(())
}

fn httl(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    deadlines(context, arguments, EX)
}

fn hpttl(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    deadlines(context, arguments, PX)
}

fn hexpiretime(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    deadlines(context, arguments, EXAT)
}

fn hpexpiretime(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    deadlines(context, arguments, PXAT)
}

fn hpersist(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::Hash)?;
    let fields = named(arguments, 2, NOT_POSITIVE)?;
    let mut replies = Vec::with_capacity(fields.len());
    for field in fields {
        replies.push(match context.keyspace.field_deadline(&edit.head, field)? {
            None => NO_FIELD,
            Some(None) => NO_DEADLINE,
            Some(Some(_)) => {
                context.keyspace.set_field_deadline(&mut edit, field, None)?;
                DONE
            }
        });
    }
    if replies.contains(&DONE) {
        context.keyspace.finish(&edit);
    }
    reply_numbers(context, &replies);
    Ok(())
}

fn hgetex(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::Hash)?;
    let (unit, persists) = (Unit::named(arguments[2]), is(arguments[2], "persist"));
    let deadline = unit.map(|unit| unit.deadline(context, arguments[3], "hgetex")).transpose()?;
    let fields = named(arguments, if unit.is_some() { 4 } else { 2 + usize::from(persists) }, NOT_POSITIVE)?;
    let (mut value, mut is_changed, mut has_removed) = (Vec::new(), false, false);
    context.reply.array(fields.len());
    for field in fields {
        let found = context.keyspace.member_into(&edit.head, field, &mut value)?;
        context.reply.bulk_or_null(found.then_some(&value[..]));
        if let Some(deadline) = deadline.filter(|_| found) {
            has_removed |= give(context, &mut edit, field, deadline)? == REMOVED;
            is_changed = true;
        } else if persists && matches!(context.keyspace.field_deadline(&edit.head, field)?, Some(Some(_))) {
            context.keyspace.set_field_deadline(&mut edit, field, None)?;
            is_changed = true;
        }
    }
    if is_changed {
        finish(context, &edit, arguments[1], has_removed);
    }
    Ok(())
}

fn hgetdel(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::Hash)?;
    let fields = named(arguments, 2, NOT_POSITIVE)?;
    let (mut value, mut is_changed) = (Vec::new(), false);
    context.reply.array(fields.len());
    for field in fields {
        let found = context.keyspace.member_into(&edit.head, field, &mut value)?;
        context.reply.bulk_or_null(found.then_some(&value[..]));
        if found {
            is_changed |= context.keyspace.remove_member(&mut edit, field)?;
        }
    }
    if is_changed {
        context.keyspace.finish(&edit);
    }
    Ok(())
}

/// The request of an `HSETEX`.
#[derive(Default)]
struct SetRequest<'r, 'a> {
    /// Condition on the key: it exists (`XX`), or it does not (`NX`; both only in Valkey).
    key: Option<bool>,
    /// Condition on the fields: all exist (`FXX`), or none does (`FNX`).
    fields: Option<bool>,
    deadline: Option<u64>,
    keeps_deadlines: bool,
    /// Fields and values.
    pairs: &'r [&'a [u8]],
}

impl<'r, 'a> SetRequest<'r, 'a> {
    fn parse(context: &Context, arguments: &'r [&'a [u8]]) -> Result<Self, Failure> {
        const TWO_TIMES: Failure = Failure::fixed("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified");
        const TWO_CONDITIONS: Failure = Failure::fixed("ERR Only one of FXX or FNX arguments can be specified");
        let mut request = SetRequest::default();
        let mut at = 2;
        while let Some(word) = arguments.get(at) {
            at += 1;
            let has_time = request.deadline.is_some() || request.keeps_deadlines;
            match () {
                () if is(word, "fields") => {
                    request.pairs = Self::pairs(arguments, at)?;
                    return Ok(request);
                }
                () if is(word, "keepttl") && has_time => return Err(TWO_TIMES),
                () if is(word, "keepttl") => request.keeps_deadlines = true,
                () if is(word, "fxx") || is(word, "fnx") => {
                    if request.fields.replace(is(word, "fxx")).is_some() {
                        return Err(TWO_CONDITIONS);
                    }
                }
                () if is(word, "xx") || is(word, "nx") => {
                    if request.key.replace(is(word, "xx")).is_some() {
                        return Err(SYNTAX);
                    }
                }
                () => {
                    let unit = Unit::named(word).ok_or_else(|| Failure::new([b"ERR unknown argument: ", *word].concat()))?;
                    if has_time {
                        return Err(TWO_TIMES);
                    }
                    let time = arguments.get(at).ok_or(Failure::fixed("ERR missing expire time"))?;
                    request.deadline = Some(unit.deadline(context, time, "hsetex")?);
                    at += 1;
                }
            }
        }
        Err(NO_FIELDS)
    }

    /// The fields and values of a request; `at`: index of their number.
    fn pairs(arguments: &'r [&'a [u8]], at: usize) -> Result<&'r [&'a [u8]], Failure> {
        let wrong = || wrong_arity(arguments.first().copied().unwrap_or_default());
        let (number, pairs) = arguments.get(at..).and_then(<[&[u8]]>::split_first).filter(|(_, rest)| rest.len() > 1).ok_or_else(wrong)?;
        let number = parse_count(number, Failure::fixed("ERR invalid number of fields"))?;
        if number.checked_mul(2) != Some(pairs.len() as u64) {
            return Err(wrong());
        }
        pairs.chunks_exact(2).try_for_each(|pair| check_member(pair[0]))?;
        Ok(pairs)
    }

    /// Whether the conditions on the key and its fields are met.
    fn is_allowed(&self, context: &Context, edit: &Edit) -> Result<bool, Failure> {
        if self.key.is_some_and(|exists| exists != edit.existed()) {
            return Ok(false);
        }
        let Some(exist) = self.fields else { return Ok(true) };
        for pair in self.pairs.chunks_exact(2) {
            if context.keyspace.has_member(&edit.head, pair[0])? != exist {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn hsetex(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let request = SetRequest::parse(context, arguments)?;
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::Hash)?;
    if !request.is_allowed(context, &edit)? {
        context.reply.integer(0);
        return Ok(());
    }
    let is_over = request.deadline.is_some_and(|deadline| context.keyspace.is_over(deadline));
    for pair in request.pairs.chunks_exact(2) {
        match request.deadline {
            Some(_) if is_over => _ = context.keyspace.remove_member(&mut edit, pair[0])?,
            Some(deadline) => {
                context.keyspace.change_field(&mut edit, pair[0], pair[1])?;
                context.keyspace.set_field_deadline(&mut edit, pair[0], Some(deadline))?;
            }
            None if request.keeps_deadlines => _ = context.keyspace.change_field(&mut edit, pair[0], pair[1])?,
            None => _ = context.keyspace.set_field(&mut edit, pair[0], pair[1])?,
        }
    }
    // A request that only removes has no event unless the key existed. In Redis it makes fields, and perhaps a key, for a moment.
    if !is_over || edit.existed() {
        finish(context, &edit, arguments[1], is_over);
    }
    context.reply.integer(1);
    Ok(())
}

/// Logs the present state of the fields that a request names behind `FIELDS n`. `hash`: the hash after the request; `step`: 2 if a value
/// follows each field in the request, so that values are logged, too, else 1.
pub(super) fn note(
    context: &mut Context,
    (db, key): (usize, &[u8]),
    hash: &Collection,
    (arguments, step): (&[&[u8]], usize),
) -> Result<(), Failure> {
    let at = arguments.iter().skip(2).position(|word| is(word, "fields")).map_or(arguments.len(), |at| at + 4);
    let (mut gone, mut set, mut until) = (Vec::new(), Vec::new(), BTreeMap::<Option<u64>, Vec<&[u8]>>::new());
    for field in arguments.get(at..).unwrap_or_default().iter().step_by(step) {
        match context.keyspace.field_deadline(hash, field)? {
            None => gone.push(*field),
            Some(deadline) => {
                until.entry(deadline).or_default().push(*field);
                if step > 1 {
                    set.push(field.to_vec());
                    set.push(context.keyspace.member(hash, field)?.unwrap_or_default());
                }
            }
        }
    }
    let feed = &mut context.server.feed;
    let mut put = |words: &[&[u8]], more: &[&[u8]]| feed.put(db, &[words, more].concat());
    if !gone.is_empty() {
        put(&[b"HDEL", key], &gone);
    }
    if !set.is_empty() {
        put(&[b"HSET", key], &set.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    for (deadline, fields) in until {
        let number = fields.len().to_string();
        match deadline {
            Some(deadline) => put(&[b"HPEXPIREAT", key, deadline.to_string().as_bytes(), b"FIELDS", number.as_bytes()], &fields),
            None if arguments.get(2).is_some_and(|word| is(word, "persist")) => {
                put(&[b"HPERSIST", key, b"FIELDS", number.as_bytes()], &fields);
            }
            None => {}
        }
    }
    Ok(())
}
