//! Commands that set or remove strings on a condition: `SET` with `IFEQ`, `IFNE`, `IFDEQ` or `IFDNE`, `DELIFEQ`, `DELEX`, `MSETEX`.
//! `DIGEST` gives the digest that `IFDEQ` and `IFDNE` compare.

use super::arguments::{Rest, Split, integer_or, is};
use super::spec::{DENYOOM, FAST, MOVABLE, READ, Run, WRITE};
use super::strings::{Ends, set_value};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX, wrong_arity};
use crate::keyspace::{Collection, Kind, check_key};
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a long string that are read at once.
const PART: usize = 256 << 10;
/// Hexadecimal digits of a digest.
const DIGITS: usize = 16;

const DIGEST_LENGTH: Failure = Failure::fixed("ERR must be exactly 16 hexadecimal characters");

const fn string(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::String, name, arity, run).keys(1, 1, 1)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    string("delex", -2, delex)
        .flags(WRITE | FAST)
        .since("8.4.0")
        .says("Remove a key, if its value or digest is as wanted", "O(n), n being the length of the value, and O(1) without a condition"),
    string("delifeq", 3, delifeq)
        .flags(WRITE)
        .since("9.0.0")
        .says("Remove a key if its value is the given one", "O(n), n being the length of the value"),
    string("digest", 2, digest).flags(READ | FAST).since("8.4.0").says("The XXH3 of the value of a key", "O(n), n being its length"),
    string("msetex", -4, msetex)
        .keys(0, 0, 0)
        .flags(WRITE | DENYOOM | MOVABLE)
        .since("8.4.0")
        .says("Set many keys with one deadline, if all or none of them exist", "O(n), n being the number of keys"),
];

/// A condition on the value of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Comparison<'a> {
    /// Position in [`COMPARISONS`].
    kind: usize,
    operand: &'a [u8],
}

/// Conditions: the word, whether it compares the digest instead of the value, and whether it holds if they differ.
const COMPARISONS: [(&str, bool, bool); 4] = [("ifeq", false, false), ("ifne", false, true), ("ifdeq", true, false), ("ifdne", true, true)];

/// Whether a word is a condition that has an operand.
pub(super) fn is_comparison(word: &[u8]) -> bool {
    COMPARISONS.iter().any(|(known, ..)| is(word, known))
}

impl<'a> Comparison<'a> {
    /// Parses a condition and its operand; `None`: `word` is none, or the operand is missing.
    pub fn option(word: &[u8], rest: &mut Rest<'_, 'a>) -> Option<Comparison<'a>> {
        let kind = COMPARISONS.iter().position(|(known, ..)| is(word, known))?;
        Some(Comparison { kind, operand: rest.next()? })
    }

    /// Whether two conditions have the same word.
    pub fn is_like(&self, other: &Comparison) -> bool {
        self.kind == other.kind
    }

    /// Whether the condition is fulfilled by a key that does not exist.
    pub fn allows_absence(&self) -> bool {
        COMPARISONS[self.kind].2
    }

    /// Whether the string at the key that was found last fulfils the condition.
    pub fn holds(&self, context: &mut Context, string: &Collection) -> Result<bool, Failure> {
        let (_, by_digest, differs) = COMPARISONS[self.kind];
        if by_digest && self.operand.len() != DIGITS {
            return Err(DIGEST_LENGTH);
        }
        let is_equal = if by_digest {
            digest_of(context, string)?.as_bytes().eq_ignore_ascii_case(self.operand)
        } else {
            is_value(context, string, self.operand)?
        };
        Ok(is_equal != differs)
    }
}

/// Passes the string that was found last to `visit`, part by part, until `visit` returns false.
fn walk(context: &mut Context, string: &Collection, visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Failure> {
    let reader = if string.is_in_pieces() { context.keyspace.string_reader(0, string.count) } else { None };
    let Some(mut reader) = reader else {
        visit(context.keyspace.found_value()?);
        return Ok(());
    };
    let mut part = Vec::with_capacity(PART);
    while reader.left() > 0 {
        part.clear();
        reader.read(PART, &mut part)?;
        if !visit(&part) {
            break;
        }
    }
    Ok(())
}

/// Whether the string that was found last is equal to a text.
fn is_value(context: &mut Context, string: &Collection, value: &[u8]) -> Result<bool, Failure> {
    let (mut rest, mut is_equal) = (value, true);
    walk(context, string, &mut |part| {
        match rest.split_at_checked(part.len()) {
            Some((start, behind)) if start == part => rest = behind,
            _ => is_equal = false,
        }
        is_equal
    })?;
    Ok(is_equal && rest.is_empty())
}

/// The digest of the string that was found last: XXH3 of 64 bits in hexadecimal digits.
fn digest_of(context: &mut Context, string: &Collection) -> Result<String, Failure> {
    let mut hash = Xxh3::new();
    walk(context, string, &mut |part| {
        hash.update(part);
        true
    })?;
    Ok(format!("{:016x}", hash.digest()))
}

fn digest(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    match context.find(arguments[1], Kind::String)? {
        Some(string) => {
            let text = digest_of(context, &string)?;
            context.reply.bulk(text.as_bytes());
        }
        None => context.reply.null(),
    }
    Ok(())
}

/// Removes a key if a condition holds, and replies with the number of removed keys.
fn remove_if(context: &mut Context, key: &[u8], comparison: &Comparison) -> Outcome {
    check_key(key)?;
    let holds = match context.find(key, Kind::String)? {
        Some(string) => comparison.holds(context, &string)?,
        None => false,
    };
    let removed = holds && context.keyspace.remove(context.session.db, key)?;
    context.reply.integer(i64::from(removed));
    Ok(())
}

fn delifeq(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    remove_if(context, arguments[1], &Comparison { kind: 0, operand: arguments[2] })
}

fn delex(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    const WORD: Failure = Failure::fixed("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");
    const STRING: Failure = Failure::fixed("ERR Key should be of string type if conditions are specified");
    let (db, key) = (context.db(), arguments[1]);
    check_key(key)?;
    let [_, _, word, operand] = arguments else {
        if arguments.len() > 2 {
            return Err(wrong_arity(arguments[0]));
        }
        let removed = context.keyspace.remove(db, key)?;
        context.reply.integer(i64::from(removed));
        return Ok(());
    };
    match context.keyspace.find(db, key)? {
        None => {
            context.reply.integer(0);
            return Ok(());
        }
        Some(head) if head.kind != Kind::String => return Err(STRING),
        Some(_) => {}
    }
    let comparison = Comparison::option(word, &mut Rest::new(&[*operand])).ok_or(WORD)?;
    remove_if(context, key, &comparison)
}

/// The pairs of `MSETEX`, and the options behind them.
fn pairs<'r, 'a>(arguments: &'r [&'a [u8]]) -> Result<Split<'r, 'a>, Failure> {
    const NUMBER: Failure = Failure::fixed("ERR invalid numkeys value");
    const PAIRS: Failure = Failure::fixed("ERR wrong number of key-value pairs");
    let number = i32::try_from(integer_or(arguments[1], NUMBER)?).ok().filter(|number| *number > 0).ok_or(NUMBER)?;
    let words = usize::try_from(number).ok().and_then(|number| number.checked_mul(2)).ok_or(NUMBER)?;
    arguments[2..].split_at_checked(words).ok_or(PAIRS)
}

/// The options of `MSETEX`; the key specification finds its keys.
pub(super) fn msetex_options<'r, 'a>(arguments: &'r [&'a [u8]]) -> &'r [&'a [u8]] {
    pairs(arguments).map(|(_, options)| options).unwrap_or_default()
}

fn msetex(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (pairs, options) = pairs(arguments)?;
    let (mut only, mut ends) = (None, Ends::Unsaid);
    let mut rest = Rest::new(options);
    while let Some(word) = rest.next() {
        match () {
            () if is(word, "nx") && only != Some(true) => only = Some(false),
            () if is(word, "xx") && only != Some(false) => only = Some(true),
            () if is(word, "keepttl") => ends = ends.followed_by(Ends::Keep)?,
            () => ends = ends.followed_by(Ends::option(word, &mut rest)?.ok_or(SYNTAX)?)?,
        }
    }
    let (db, deadline) = (context.db(), ends.deadline(None, context.keyspace.now(), "msetex")?);
    pairs.chunks_exact(2).try_for_each(|pair| check_key(pair[0]))?;
    if let Some(present) = only {
        for pair in pairs.chunks_exact(2) {
            if context.keyspace.exists(db, pair[0])? != present {
                context.reply.integer(0);
                return Ok(());
            }
        }
    }
    for pair in pairs.chunks_exact(2) {
        let deadline = match ends {
            Ends::Keep => context.keyspace.find(db, pair[0])?.and_then(|head| head.deadline),
            _ => deadline,
        };
        set_value(context, pair[0], pair[1], deadline)?;
    }
    context.reply.integer(1);
    Ok(())
}
