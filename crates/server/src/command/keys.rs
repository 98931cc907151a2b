//! Commands for keys of any type.

use super::arguments::{Rest, integer, is};
use super::encoding::encoding;
use super::spec::{DENYOOM, FAST, KEEPS_USE, READ, Run, WRITE};
use super::{Command, Context, DB_INDEX, Failure, Group, NO_SUCH_KEY, Outcome, SYNTAX, help, unknown_subcommand, wrong_arity};
use crate::keyspace::{DATABASES, Head, check_key};

const NO_FREQUENCY: Failure = Failure::fixed(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at \
     runtime LRU and LFU data will take some time to adjust.",
);
const NO_IDLE_TIME: Failure = Failure::fixed(
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and \
     LFU data will take some time to adjust.",
);
const SAME_OBJECT: Failure = Failure::fixed("ERR source and destination objects are the same");

const fn key(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Generic, name, arity, run).keys(1, 1, 1)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    key("copy", -3, copy).keys(1, 2, 1).flags(WRITE | DENYOOM).since("6.2.0").says("Copy a key", "O(n), n being the number of elements"),
    key("del", -2, del).keys(1, -1, 1).flags(WRITE).says("Remove keys", "O(n), n being the number of keys"),
    key("exists", -2, exists)
        .keys(1, -1, 1)
        .flags(READ | FAST | KEEPS_USE)
        .says("How many of the keys exist", "O(n), n being the number of keys"),
    key("expire", -3, expire).flags(WRITE | FAST).says("Set a key's time to live in seconds", "O(1)"),
    key("expireat", -3, expireat).flags(WRITE | FAST).since("1.2.0").says("Set the second at which a key ends", "O(1)"),
    key("expiretime", 2, expiretime).flags(READ | FAST | KEEPS_USE).since("7.0.0").says("The second at which a key ends", "O(1)"),
    key("move", 3, move_key).flags(WRITE | FAST).says("Move a key to another database", "O(1)"),
    key("object", -2, object)
        .subcommands(&["encoding", "freq", "help", "idletime", "refcount"], OBJECT_HELP)
        .keys(2, 2, 1)
        .flags(READ | KEEPS_USE)
        .since("2.2.3")
        .says("What is known of how a key is kept", "O(1)"),
    key("persist", 2, persist).flags(WRITE | FAST).since("2.2.0").says("Take a key's time to live away", "O(1)"),
    key("pexpire", -3, pexpire).flags(WRITE | FAST).since("2.6.0").says("Set a key's time to live in milliseconds", "O(1)"),
    key("pexpireat", -3, pexpireat).flags(WRITE | FAST).since("2.6.0").says("Set the millisecond at which a key ends", "O(1)"),
    key("pexpiretime", 2, pexpiretime).flags(READ | FAST | KEEPS_USE).since("7.0.0").says("The millisecond at which a key ends", "O(1)"),
    key("pttl", 2, pttl).flags(READ | FAST | KEEPS_USE).since("2.6.0").says("A key's time to live in milliseconds", "O(1)"),
    key("rename", 3, rename).keys(1, 2, 1).flags(WRITE).says("Rename a key, and replace the one that has the name", "O(1)"),
    key("renamenx", 3, renamenx).keys(1, 2, 1).flags(WRITE | FAST).says("Rename a key if none has the name", "O(1)"),
    key("touch", -2, exists)
        .keys(1, -1, 1)
        .flags(READ | FAST)
        .since("3.2.1")
        .says("How many of the keys exist", "O(n), n being the number of keys"),
    key("ttl", 2, ttl).flags(READ | FAST | KEEPS_USE).says("A key's time to live in seconds", "O(1)"),
    key("type", 2, type_of).flags(READ | FAST | KEEPS_USE).says("The type of what a key holds", "O(1)"),
    key("unlink", -2, del).keys(1, -1, 1).flags(WRITE | FAST).since("4.0.0").says("Remove keys", "O(n), n being the number of keys"),
];

fn del(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    arguments[1..].iter().try_for_each(|key| check_key(key))?;
    let mut removed = 0;
    for key in &arguments[1..] {
        removed += i64::from(context.keyspace.remove(context.session.db, key)?);
    }
    context.reply.integer(removed);
    Ok(())
}

fn exists(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let mut found = 0;
    for key in &arguments[1..] {
        found += i64::from(context.keyspace.exists(context.session.db, key)?);
    }
    context.reply.integer(found);
    Ok(())
}

fn type_of(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let found = context.keyspace.find(context.db(), arguments[1])?;
    context.reply.simple(found.map_or("none", |head| head.kind.name()));
    Ok(())
}

/// Conditions for changing a deadline.
#[derive(Debug, Default)]
struct Only {
    none_before: bool,
    some_before: bool,
    later: bool,
    sooner: bool,
}

impl Only {
    fn parse(options: &[&[u8]]) -> Result<Only, Failure> {
        let mut only = Only::default();
        for option in options {
            match () {
                () if is(option, "nx") => only.none_before = true,
                () if is(option, "xx") => only.some_before = true,
                () if is(option, "gt") => only.later = true,
                () if is(option, "lt") => only.sooner = true,
                () => return Err(Failure::new([b"ERR Unsupported option ", *option].concat())),
            }
        }
        if only.none_before && (only.some_before || only.later || only.sooner) {
            return Err(Failure::fixed("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if only.later && only.sooner {
            return Err(Failure::fixed("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(only)
    }

    /// Whether a deadline may change from `old` to `new`. A key without a deadline counts as expiring after all others.
    fn allows(&self, old: Option<u64>, new: i64) -> bool {
        let old = old.map(|old| i64::try_from(old).unwrap_or(i64::MAX));
        !(self.none_before && old.is_some()
            || self.some_before && old.is_none()
            || self.later && old.is_none_or(|old| new <= old)
            || self.sooner && old.is_some_and(|old| new >= old))
    }
}

fn set_deadline(context: &mut Context, arguments: &[&[u8]], seconds: bool, from_now: bool, name: &str) -> Outcome {
    let only = Only::parse(&arguments[3..])?;
    let number = integer(arguments[2])?;
    let wrong = || Failure::new(format!("ERR invalid expire time in '{name}' command"));
    let now = i64::try_from(context.keyspace.now()).unwrap_or(i64::MAX);
    let base = if from_now { now } else { 0 };
    let deadline = number.checked_mul(if seconds { 1000 } else { 1 }).and_then(|ms| ms.checked_add(base)).ok_or_else(wrong)?;
    let (db, key) = (context.db(), arguments[1]);
    let allowed = context.keyspace.find(db, key)?.is_some_and(|head| only.allows(head.deadline, deadline));
    if allowed {
        let deadline = u64::try_from(deadline).unwrap_or(0);
        if context.keyspace.is_over(deadline) {
            context.keyspace.remove(db, key)?;
        } else {
            context.keyspace.set_deadline(db, key, Some(deadline))?;
        }
    }
    context.reply.integer(i64::from(allowed));
    Ok(())
}

fn expire(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    set_deadline(context, arguments, true, true, "expire")
}

fn pexpire(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    set_deadline(context, arguments, false, true, "pexpire")
}

fn expireat(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    set_deadline(context, arguments, true, false, "expireat")
}

fn pexpireat(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    set_deadline(context, arguments, false, false, "pexpireat")
}

fn persist(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (db, key) = (context.db(), arguments[1]);
    let has_deadline = context.keyspace.find(db, key)?.is_some_and(|head| head.deadline.is_some());
    if has_deadline {
        context.keyspace.set_deadline(db, key, None)?;
    }
    context.reply.integer(i64::from(has_deadline));
    Ok(())
}

/// Replies with the result of `of` for a key's deadline; -2: no key, -1: no deadline.
fn deadline_of(context: &mut Context, key: &[u8], of: impl Fn(u64, u64) -> u64) -> Outcome {
    let now = context.keyspace.now();
    let number = match context.keyspace.find(context.session.db, key)? {
        None => -2,
        Some(Head { deadline: None, .. }) => -1,
        Some(Head { deadline: Some(deadline), .. }) => i64::try_from(of(deadline, now)).unwrap_or(i64::MAX),
    };
    context.reply.integer(number);
    Ok(())
}

fn in_seconds(ms: u64) -> u64 {
    ms.saturating_add(500) / 1000
}

fn ttl(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    deadline_of(context, arguments[1], |deadline, now| in_seconds(deadline.saturating_sub(now)))
}

fn pttl(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    deadline_of(context, arguments[1], u64::saturating_sub)
}

fn expiretime(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    deadline_of(context, arguments[1], |deadline, _| in_seconds(deadline))
}

fn pexpiretime(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    deadline_of(context, arguments[1], |deadline, _| deadline)
}

fn rename(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let db = context.db();
    if !context.keyspace.rename((db, arguments[1]), (db, arguments[2]))? {
        return Err(NO_SUCH_KEY);
    }
    context.reply.ok();
    Ok(())
}

fn renamenx(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let db = context.db();
    if !context.keyspace.exists(db, arguments[1])? {
        return Err(NO_SUCH_KEY);
    }
    let is_free = !context.keyspace.exists(db, arguments[2])?;
    if is_free {
        context.keyspace.rename((db, arguments[1]), (db, arguments[2]))?;
    }
    context.reply.integer(i64::from(is_free));
    Ok(())
}

/// An index of a database.
pub(super) fn database(text: &[u8]) -> Result<usize, Failure> {
    const NO_INDEX: Failure = Failure::fixed("ERR value is out of range, value must between -2147483648 and 2147483647");
    let number = i32::try_from(integer(text)?).map_err(|_| NO_INDEX)?;
    usize::try_from(number).ok().filter(|db| *db < DATABASES).ok_or(DB_INDEX)
}

fn move_key(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (db, other) = (context.db(), database(arguments[2])?);
    if db == other {
        return Err(SAME_OBJECT);
    }
    let key = arguments[1];
    let moves = context.keyspace.exists(db, key)? && !context.keyspace.exists(other, key)?;
    if moves {
        context.keyspace.rename((db, key), (other, key))?;
    }
    context.reply.integer(i64::from(moves));
    Ok(())
}

fn copy(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (mut db, mut replaces) = (context.db(), false);
    let mut rest = Rest::new(&arguments[3..]);
    while let Some(word) = rest.next() {
        match () {
            () if is(word, "replace") => replaces = true,
            () if is(word, "db") => db = database(rest.value()?)?,
            () => return Err(SYNTAX),
        }
    }
    let (from, to) = ((context.db(), arguments[1]), (db, arguments[2]));
    if from == to {
        return Err(SAME_OBJECT);
    }
    let is_there = context.counted(|context| context.keyspace.exists(from.0, from.1))?;
    let is_free = replaces || !context.keyspace.exists(to.0, to.1)?;
    let copied = is_there && is_free && copy_key(context, from, to)?;
    context.reply.integer(i64::from(copied));
    Ok(())
}

/// Copies the value of a key to another key, a long string in steps.
fn copy_key(context: &mut Context, from: (usize, &[u8]), to: (usize, &[u8])) -> Result<bool, Failure> {
    let Some(head) = context.keyspace.find(from.0, from.1)? else { return Ok(false) };
    check_key(to.1)?;
    if context.built()?.is_some() && context.set_prepared(to, head.deadline, false)? {
        return Ok(true);
    }
    if head.is_in_pieces() && context.is_long(head.count) {
        context.keyspace.string_length(from.0, from.1)?;
        let all = context.keyspace.part_reader(0, head.count)?;
        return Err(context.join(vec![all], &[from]));
    }
    Ok(context.keyspace.copy(from, to)?)
}

const OBJECT_HELP: &[&str] = &[
    "ENCODING <key>",
    "    The name of the encoding that Redis would have for what the key holds.",
    "FREQ <key>",
    "    How often the key is used, from 0 to 255, under an LFU policy.",
    "IDLETIME <key>",
    "    Seconds since the key was used, as far as that is in memory.",
    "REFCOUNT <key>",
    "    1.",
];

/// Subcommands of `OBJECT`.
const OBJECT_WORDS: [&str; 4] = ["encoding", "freq", "idletime", "refcount"];

fn object(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    match arguments {
        [_, word] if is(word, "help") => help(context, "OBJECT", OBJECT_HELP)?,
        [_, word, key] if OBJECT_WORDS.iter().any(|known| is(word, known)) => {
            let Some(head) = context.counted(|context| context.keyspace.find(context.session.db, key))? else {
                context.reply.null();
                return Ok(());
            };
            match () {
                () if is(word, "refcount") => context.reply.integer(1),
                () if is(word, "idletime") => {
                    if context.server.configuration.policy.is_by_frequency() {
                        return Err(NO_IDLE_TIME);
                    }
                    let unknown = context.keyspace.now().saturating_sub(context.server.started) / 1000;
                    let idle = context.keyspace.idle_seconds(context.session.db, key).unwrap_or(unknown);
                    context.reply.integer(i64::try_from(idle).unwrap_or(i64::MAX));
                }
                () if is(word, "freq") => {
                    if !context.server.configuration.policy.is_by_frequency() {
                        return Err(NO_FREQUENCY);
                    }
                    context.reply.integer(context.keyspace.frequency(context.session.db, key).into());
                }
                () => {
                    let name = encoding(context, key, &head)?;
                    context.reply.bulk(name.as_bytes());
                }
            }
        }
        [_, word, ..] if is(word, "help") || OBJECT_WORDS.iter().any(|known| is(word, known)) => {
            return Err(wrong_arity(&[b"object|", *word].concat()));
        }
        _ => return Err(unknown_subcommand(arguments)),
    }
    Ok(())
}
