//! Commands that set or remove strings on a condition: `SET` with `IFEQ`, `IFNE`, `IFDEQ` or `IFDNE`, `DELIFEQ`, `DELEX`, `MSETEX`.
//! `DIGEST` gives the digest that `IFDEQ` and `IFDNE` compare.

use super::arguments::{Rest, Split, integer_or, is};
use super::comparison::{Comparison, digest_of};
use super::spec::{DENYOOM, FAST, MOVABLE, READ, Run, WRITE};
use super::strings::{Ends, set_value};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX, wrong_arity};
use crate::keyspace::{Collection, Kind, check_key};

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

/// Removes the string at a key if a condition holds, and replies with the number of removed keys.
fn remove_if(context: &mut Context, key: &[u8], string: Option<&Collection>, comparison: &Comparison) -> Outcome {
    let holds = string.map_or(Ok(false), |string| comparison.holds(context, string))?;
    let removed = holds && context.keyspace.remove(context.session.db, key)?;
    context.reply.integer(i64::from(removed));
    Ok(())
}

fn delifeq(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let found = context.counted(|context| context.find(arguments[1], Kind::String))?;
    remove_if(context, arguments[1], found.as_ref(), &Comparison::equals(arguments[2]))
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
    let Some(found) = context.counted(|context| context.keyspace.find_collection(db, key))? else {
        context.reply.integer(0);
        return Ok(());
    };
    if found.kind != Kind::String {
        return Err(STRING);
    }
    let comparison = Comparison::option(word, &mut Rest::new(&[*operand])).ok_or(WORD)?;
    remove_if(context, key, Some(&found), &comparison)
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
