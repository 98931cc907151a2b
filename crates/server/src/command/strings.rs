//! Commands for strings.

use super::arguments::{Rest, integer, is, span, wide};
use super::comparison::Comparison;
use super::spec::{DENYOOM, FAST, READ, WRITE};
use super::steps::AT_ONCE;
use super::{
    Command, Context, Failure, Group, LaterString, NOT_FINITE, NOT_FLOAT, NOT_INTEGER, Outcome, SYNTAX, WOULD_OVERFLOW, wrong_arity,
};
use crate::keyspace::{Head, Kind, LONG, LONGEST_STRING as LONGEST, StringReader, Upload, check_key};
use crate::number::{integer_text, parse_integer};
use crate::wide::Wide;

const TOO_LONG: Failure = Failure::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
const OFFSET: Failure = Failure::fixed("ERR offset is out of range");

const fn string(name: &'static str, arity: i32, run: super::spec::Run) -> Command {
    Command::new(Group::String, name, arity, run).keys(1, 1, 1)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    string("append", 3, append)
        .flags(WRITE | DENYOOM | FAST)
        .since("2.0.0")
        .says("Append a value to a key", "O(n), n being the length of the value, and the first time of the string"),
    string("decr", 2, decr).flags(WRITE | DENYOOM | FAST).says("Decrement the number in a key by one", "O(1)"),
    string("decrby", 3, decrby).flags(WRITE | DENYOOM | FAST).says("Decrement the number in a key", "O(1)"),
    string("get", 2, get).flags(READ | FAST).says("The value of a key", "O(1)"),
    string("getdel", 2, getdel).flags(WRITE | FAST).since("6.2.0").says("The value of a key, which is removed", "O(1)"),
    string("getex", -2, getex).flags(WRITE | FAST).since("6.2.0").says("The value of a key, whose deadline is changed", "O(1)"),
    string("getrange", 4, getrange)
        .flags(READ)
        .since("2.4.0")
        .says("A part of the value of a key", "O(n), n being the length of the part, or of a string that was only set"),
    string("getset", 3, getset).flags(WRITE | DENYOOM | FAST).says("Set a key and return its old value", "O(1)"),
    string("incr", 2, incr).flags(WRITE | DENYOOM | FAST).says("Increment the number in a key by one", "O(1)"),
    string("incrby", 3, incrby).flags(WRITE | DENYOOM | FAST).says("Increment the number in a key", "O(1)"),
    string("incrbyfloat", 3, incrbyfloat)
        .flags(WRITE | DENYOOM | FAST)
        .since("2.6.0")
        .says("Increment the floating-point number in a key", "O(1)"),
    string("mget", -2, mget).keys(1, -1, 1).flags(READ | FAST).says("The values of many keys", "O(n), n being the number of keys"),
    string("mset", -3, mset).keys(1, -1, 2).flags(WRITE | DENYOOM).since("1.0.1").says("Set many keys", "O(n), n being the number of keys"),
    string("msetnx", -3, msetnx)
        .keys(1, -1, 2)
        .flags(WRITE | DENYOOM)
        .since("1.0.1")
        .says("Set many keys if none of them exists", "O(n), n being the number of keys"),
    string("psetex", 4, psetex).flags(WRITE | DENYOOM).since("2.6.0").says("Set a key and its time to live in milliseconds", "O(1)"),
    string("set", -3, set).flags(WRITE | DENYOOM).says("Set a key", "O(1)"),
    string("setex", 4, setex).flags(WRITE | DENYOOM).since("2.0.0").says("Set a key and its time to live in seconds", "O(1)"),
    string("setnx", 3, setnx).flags(WRITE | DENYOOM | FAST).says("Set a key if it does not exist", "O(1)"),
    string("setrange", 4, setrange)
        .flags(WRITE | DENYOOM)
        .since("2.2.0")
        .says("Overwrite a part of the value of a key", "O(n), n being the length of the part, and the first time of the string"),
    string("strlen", 2, strlen).flags(READ | FAST).since("2.2.0").says("The length of the value of a key", "O(1)"),
    string("substr", 4, getrange).flags(READ).says("A part of the value of a key", "O(n), n being the length of the string"),
];

/// Deadline of a key that a command's options ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends<'a> {
    /// No option was given.
    Unsaid,
    /// The key keeps its deadline.
    Keep,
    /// The key has no deadline.
    Never,
    /// A number, whether it counts seconds (else milliseconds), and whether it counts from now (else it is a unix time).
    At { number: &'a [u8], seconds: bool, from_now: bool },
}

impl<'a> Ends<'a> {
    /// Parses an option with a deadline and its argument; `None`: `word` is no such option.
    pub fn option(word: &[u8], rest: &mut Rest<'_, 'a>) -> Result<Option<Ends<'a>>, Failure> {
        let (seconds, from_now) = match () {
            () if is(word, "ex") => (true, true),
            () if is(word, "px") => (false, true),
            () if is(word, "exat") => (true, false),
            () if is(word, "pxat") => (false, false),
            () => return Ok(None),
        };
        Ok(Some(Ends::At { number: rest.value()?, seconds, from_now }))
    }

    /// The options of a command so far, after another one: repeating an option replaces its number, a different option is an error.
    pub fn followed_by(self, next: Ends<'a>) -> Result<Ends<'a>, Failure> {
        let is_same = match (self, next) {
            (Ends::At { seconds, from_now, .. }, Ends::At { seconds: next_seconds, from_now: next_from_now, .. }) => {
                (seconds, from_now) == (next_seconds, next_from_now)
            }
            (before, next) => before == Ends::Unsaid || before == next,
        };
        if is_same { Ok(next) } else { Err(SYNTAX) }
    }

    /// The deadline, unix milliseconds. `old`: the key's present one. `name`: the command, for errors.
    pub fn deadline(self, old: Option<u64>, now: u64, name: &str) -> Result<Option<u64>, Failure> {
        let Ends::At { number, seconds, from_now } = self else {
            return Ok(if self == Ends::Keep { old } else { None });
        };
        let wrong = || Failure::new(format!("ERR invalid expire time in '{name}' command"));
        let number = integer(number)?;
        if number <= 0 {
            return Err(wrong());
        }
        let unit = if seconds { 1000 } else { 1 };
        let base = if from_now { i64::try_from(now).unwrap_or(i64::MAX) } else { 0 };
        let deadline = number.checked_mul(unit).and_then(|ms| ms.checked_add(base)).ok_or_else(wrong)?;
        Ok(u64::try_from(deadline).ok())
    }
}

/// Commands whose value may be stored in the keyspace while it is received, and the index of that argument.
const VALUES: &[(&str, usize)] = &[
    ("append", 2),
    ("getset", 2),
    ("mset", 2),
    ("msetnx", 2),
    ("psetex", 3),
    ("restore", 3),
    ("restore-asking", 3),
    ("set", 2),
    ("setex", 3),
    ("setnx", 2),
    ("setrange", 3),
];

/// Whether an argument of a command may be stored in the keyspace while it is received. A value that becomes a part of another string has
/// to be long enough for work in steps.
pub(super) fn takes_value(command: &Command, number: usize, length: usize) -> bool {
    let changes_part = ["append", "setrange"].contains(&command.name);
    VALUES.contains(&(command.name, number)) && (!changes_part || length as u64 > AT_ONCE)
}

/// Length of the request's value, which may have been stored in the keyspace already.
fn value_length(context: &Context, value: &[u8]) -> u64 {
    context.session.uploaded.as_ref().map_or(value.len() as u64, Upload::length)
}

/// Sets a key to the request's value, which may have been stored in the keyspace already.
pub(super) fn set_value(context: &mut Context, key: &[u8], value: &[u8], deadline: Option<u64>) -> Outcome {
    let db = context.db();
    if !context.set_prepared((db, key), deadline, true)? {
        context.keyspace.set_string(db, key, value, deadline)?;
    }
    Ok(())
}

fn get(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    reply_string(context, arguments[1])?;
    Ok(())
}

/// Replies like `GET`, for other commands; false: there is no key.
fn reply_string(context: &mut Context, key: &[u8]) -> Result<bool, Failure> {
    let Some(head) = context.keyspace.find_kind(context.session.db, key, Kind::String)? else {
        context.reply.null();
        return Ok(false);
    };
    reply_found(context, &head)?;
    Ok(true)
}

/// Like `reply_string`, for commands that also write: the lookup counts.
fn reply_old(context: &mut Context, key: &[u8]) -> Result<bool, Failure> {
    context.counted(|context| reply_string(context, key))
}

/// Replies with the string that was found last.
fn reply_found(context: &mut Context, head: &Head) -> Outcome {
    if head.is_in_pieces() && head.count >= LONG as u64 {
        return reply_part(context, 0, head.count);
    }
    context.reply.bulk(context.keyspace.found_value()?);
    Ok(())
}

/// Replies with a part of the string that was found last. A long part is read while the client takes it.
fn reply_part(context: &mut Context, from: u64, to: u64) -> Outcome {
    if let Some(reader) = context.keyspace.string_reader(from, to) {
        let place = context.reply.bulk_later(reader.left());
        context.session.later.push((place, LaterString::Plain(reader)));
    } else {
        let part = context.keyspace.string_part(from, to)?;
        context.reply.bulk(&part);
    }
    Ok(())
}

/// Condition under which `SET` sets the key.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum If<'a> {
    #[default]
    Always,
    Absent,
    Present,
    Compares(Comparison<'a>),
}

impl<'a> If<'a> {
    /// Adds an option. A repeated condition has its last operand; two different conditions are an error.
    fn and(self, next: If<'a>) -> Result<If<'a>, Failure> {
        match (self, next) {
            (If::Always, next) => Ok(next),
            (If::Compares(before), If::Compares(now)) if before.is_like(&now) => Ok(next),
            (before, next) if before == next => Ok(next),
            _ => Err(SYNTAX),
        }
    }

    /// Whether the condition is fulfilled by the key that was found last.
    fn holds(&self, context: &mut Context, key: &[u8], exists: bool) -> Result<bool, Failure> {
        Ok(match self {
            If::Always => true,
            If::Absent => !exists,
            If::Present => exists,
            If::Compares(comparison) => match context.find(key, Kind::String)? {
                Some(string) => comparison.holds(context, &string)?,
                None => comparison.allows_absence(),
            },
        })
    }
}

fn set(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (key, value) = (arguments[1], arguments[2]);
    let (mut only, mut ends, mut gets) = (If::default(), Ends::Unsaid, false);
    let mut rest = Rest::new(&arguments[3..]);
    while let Some(word) = rest.next() {
        if is(word, "nx") {
            only = only.and(If::Absent)?;
        } else if is(word, "xx") {
            only = only.and(If::Present)?;
        } else if is(word, "get") {
            gets = true;
        } else if is(word, "keepttl") {
            ends = ends.followed_by(Ends::Keep)?;
        } else if let Some(comparison) = Comparison::option(word, &mut rest) {
            only = only.and(If::Compares(comparison))?;
        } else {
            ends = ends.followed_by(Ends::option(word, &mut rest)?.ok_or(SYNTAX)?)?;
        }
    }
    let new_deadline = ends.deadline(None, context.keyspace.now(), "set")?;
    if gets {
        reply_old(context, key)?;
    }
    // Setting looks for the key, too.
    let needs_old = only != If::Always || ends == Ends::Keep;
    let old = if needs_old { context.keyspace.find(context.db(), key)? } else { None };
    if !only.holds(context, key, old.is_some())? {
        if !gets {
            context.reply.null();
        }
        return Ok(());
    }
    let deadline = if ends == Ends::Keep { old.and_then(|head| head.deadline) } else { new_deadline };
    set_value(context, key, value, deadline)?;
    if !gets {
        context.reply.ok();
    }
    Ok(())
}

fn setnx(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let is_new = !context.keyspace.exists(context.db(), arguments[1])?;
    if is_new {
        set_value(context, arguments[1], arguments[2], None)?;
    }
    context.reply.integer(i64::from(is_new));
    Ok(())
}

fn set_ending(context: &mut Context, arguments: &[&[u8]], seconds: bool, name: &str) -> Outcome {
    let ends = Ends::At { number: arguments[2], seconds, from_now: true };
    let deadline = ends.deadline(None, context.keyspace.now(), name)?;
    set_value(context, arguments[1], arguments[3], deadline)?;
    context.reply.ok();
    Ok(())
}

fn setex(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    set_ending(context, arguments, true, "setex")
}

fn psetex(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    set_ending(context, arguments, false, "psetex")
}

fn getset(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    reply_old(context, arguments[1])?;
    set_value(context, arguments[1], arguments[2], None)
}

fn getdel(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    if reply_old(context, arguments[1])? {
        context.keyspace.remove(context.db(), arguments[1])?;
    }
    Ok(())
}

fn getex(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let mut ends = Ends::Unsaid;
    let mut rest = Rest::new(&arguments[2..]);
    while let Some(word) = rest.next() {
        let next = if is(word, "persist") { Ends::Never } else { Ends::option(word, &mut rest)?.ok_or(SYNTAX)? };
        ends = ends.followed_by(next)?;
    }
    let (db, key) = (context.db(), arguments[1]);
    let Some(head) = context.counted(|context| context.keyspace.find_kind(db, key, Kind::String))? else {
        context.reply.null();
        return Ok(());
    };
    let now = context.keyspace.now();
    let deadline = ends.deadline(head.deadline, now, "getex")?;
    reply_found(context, &head)?;
    // Setting an equal deadline counts as a change; removing a missing one does not.
    if ends != Ends::Unsaid && (deadline.is_some() || head.deadline.is_some()) {
        if deadline.is_some_and(|deadline| context.keyspace.is_over(deadline)) {
            context.keyspace.remove(db, key)?;
        } else {
            context.keyspace.set_deadline(db, key, deadline)?;
        }
    }
    Ok(())
}

fn mget(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    context.reply.array(arguments.len() - 1);
    for key in &arguments[1..] {
        match context.keyspace.find(context.session.db, key)? {
            Some(head) if head.kind == Kind::String => reply_found(context, &head)?,
            _ => context.reply.null(),
        }
    }
    Ok(())
}

fn set_pairs(context: &mut Context, pairs: &[&[u8]]) -> Outcome {
    pairs.chunks_exact(2).try_for_each(|pair| check_key(pair[0]))?;
    for pair in pairs.chunks_exact(2) {
        // Only the first value may have been uploaded.
        set_value(context, pair[0], pair[1], None)?;
    }
    Ok(())
}

fn mset(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    if arguments.len().is_multiple_of(2) {
        return Err(wrong_arity(arguments[0]));
    }
    set_pairs(context, &arguments[1..])?;
    context.reply.ok();
    Ok(())
}

fn msetnx(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    if arguments.len().is_multiple_of(2) {
        return Err(wrong_arity(arguments[0]));
    }
    for pair in arguments[1..].chunks_exact(2) {
        if context.keyspace.exists(context.session.db, pair[0])? {
            context.reply.integer(0);
            return Ok(());
        }
    }
    set_pairs(context, &arguments[1..])?;
    context.reply.integer(1);
    Ok(())
}

/// Replaces a string and keeps its deadline.
fn replace(context: &mut Context, key: &[u8], value: &[u8]) -> Outcome {
    let deadline = context.keyspace.find(context.session.db, key)?.and_then(|head| head.deadline);
    context.keyspace.set_string(context.session.db, key, value, deadline)?;
    Ok(())
}

fn append(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (db, key, more) = (context.db(), arguments[1], arguments[2]);
    let length = context.keyspace.string_length(db, key)?.unwrap_or(0);
    let end = length.checked_add(value_length(context, more)).filter(|end| *end <= LONGEST).ok_or(TOO_LONG)?;
    write_part(context, key, length, end, more)
}

fn strlen(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let length = context.keyspace.string_length(context.session.db, arguments[1])?.unwrap_or(0);
    context.reply.integer(length.cast_signed());
    Ok(())
}

fn getrange(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (start, end) = (integer(arguments[2])?, integer(arguments[3])?);
    let (db, key) = (context.db(), arguments[1]);
    let length = context.keyspace.string_length(db, key)?.unwrap_or(0);
    let part = if start < 0 && end < 0 && start > end {
        None
    } else {
        // An end before the start of the string means its first byte.
        let end = if end < 0 { end.saturating_add(length.cast_signed()).max(0) } else { end };
        span(start, end, length)
    };
    let (from, to) = part.unwrap_or((0, 0));
    reply_part(context, from, to)
}

fn setrange(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (key, part) = (arguments[1], arguments[3]);
    let offset = u64::try_from(integer(arguments[2])?).map_err(|_| OFFSET)?;
    let length = context.keyspace.string_length(context.session.db, key)?.unwrap_or(0);
    let part_length = value_length(context, part);
    if part_length == 0 {
        context.reply.integer(length.cast_signed());
        return Ok(());
    }
    let end = offset.checked_add(part_length).filter(|end| *end <= LONGEST).ok_or(TOO_LONG)?;
    write_part(context, key, offset, end, part)
}

/// Overwrites or extends a string from `from` to `to`, and replies with its new length.
fn write_part(context: &mut Context, key: &[u8], from: u64, to: u64, part: &[u8]) -> Outcome {
    let db = context.db();
    let mut uploaded = Vec::new();
    if context.session.uploaded.is_some() {
        let built = context.built()?;
        let old = context.keyspace.string_length(db, key)?.unwrap_or(0);
        let length = to.max(old);
        if built.is_some() || from == 0 && to >= old {
            let deadline = context.keyspace.find(db, key)?.and_then(|head| head.deadline);
            set_value(context, key, part, deadline)?;
            context.reply.integer(length.cast_signed());
            return Ok(());
        }
        if context.is_long(length) {
            return join_parts(context, key, (from, to), old);
        }
        if let Some(upload) = &context.session.uploaded {
            uploaded = context.keyspace.read_upload(upload)?;
        }
    }
    let part = if uploaded.is_empty() { part } else { &uploaded };
    let mut length = 0;
    context.keyspace.change_string(context.session.db, key, |string| {
        string.grow(to);
        string.write(from, part)?;
        length = string.length();
        Ok(true)
    })?;
    context.reply.integer(length.cast_signed());
    Ok(())
}

/// Begins to join the new value of the key in steps: the request's value from `from` to `to`, between the parts that stay of the string
/// whose length was asked for last.
fn join_parts(context: &mut Context, key: &[u8], (from, to): (u64, u64), old: u64) -> Outcome {
    let before = context.keyspace.part_reader(0, from.min(old))?;
    let gap = StringReader::zeros(from.saturating_sub(old));
    let behind = context.keyspace.part_reader(to.min(old), old)?;
    let Some(upload) = &context.session.uploaded else { return Ok(()) };
    let value = context.keyspace.upload_reader(upload, 0, u64::MAX)?;
    let db = context.db();
    Err(context.join(vec![before, gap, value, behind], &[(db, key)]))
}

fn add(context: &mut Context, key: &[u8], increment: i64) -> Outcome {
    let old = match context.keyspace.string(context.session.db, key)? {
        None => 0,
        Some(text) => parse_integer(text).ok_or(NOT_INTEGER)?,
    };
    let new = old.checked_add(increment).ok_or(WOULD_OVERFLOW)?;
    replace(context, key, &integer_text(new))?;
    context.reply.integer(new);
    Ok(())
}

fn incr(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    add(context, arguments[1], 1)
}

fn decr(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    add(context, arguments[1], -1)
}

fn incrby(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let increment = integer(arguments[2])?;
    add(context, arguments[1], increment)
}

fn decrby(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let decrement = integer(arguments[2])?;
    let increment = decrement.checked_neg().ok_or(Failure::fixed("ERR decrement would overflow"))?;
    add(context, arguments[1], increment)
}

fn incrbyfloat(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let old = match context.keyspace.string(context.session.db, arguments[1])? {
        None => Some(Wide::ZERO),
        Some(text) => wide(text, NOT_FLOAT)?,
    };
    let increment = wide(arguments[2], NOT_FLOAT)?;
    let text = old.zip(increment).and_then(|(old, increment)| old.add(increment)).ok_or(NOT_FINITE)?.text();
    replace(context, arguments[1], text.as_bytes())?;
    context.reply.bulk(text.as_bytes());
    Ok(())
}
