//! Commands for HyperLogLogs, which estimate numbers of distinct elements.

use super::arguments::is;
use super::spec::{ADMIN, DANGEROUS, DENYOOM, FAST, MAY_REPLICATE, READ, Run, WRITE};
use super::{Command, Context, Failure, Group, Outcome};
use crate::hyperloglog::{Corrupt, REGISTERS, RegisterEncoding, Sketch, Union, count, form, known_count, note_count, runs};
use crate::keyspace::Kind;
use std::fmt::Write;

const NONE: Failure = Failure::fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");

/// Elements that the self-test adds.
const TESTED: u64 = 1_000_000;

impl From<Corrupt> for Failure {
    fn from(_: Corrupt) -> Self {
        Failure::fixed("INVALIDOBJ Corrupted HLL object detected")
    }
}

const fn counts(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::HyperLogLog, name, arity, run).keys(1, 1, 1).since("2.8.9")
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    counts("pfadd", -2, pfadd).flags(WRITE | DENYOOM | FAST).says("Count elements", "O(n), n being the number of elements"),
    counts("pfcount", -2, pfcount)
        .keys(1, -1, 1)
        // Redis stores the result in the key.
        .flags(READ | MAY_REPLICATE)
        .says("About how many distinct elements were counted", "O(1) for one key, O(n) for many, n being the number of keys"),
    counts("pfdebug", 3, pfdebug)
        .keys(2, 2, 1)
        .flags(WRITE | DENYOOM | ADMIN | DANGEROUS)
        .says("What stands in a count", "O(1), with a large constant"),
    counts("pfmerge", -2, pfmerge)
        .keys(1, -1, 1)
        .flags(WRITE | DENYOOM)
        .says("Keep what many keys together have counted", "O(n), n being the number of keys"),
    counts("pfselftest", 1, pfselftest)
        .keys(0, 0, 0)
        .flags(ADMIN | DANGEROUS)
        .says("Test how elements are counted", "O(1), with a constant of some hundred milliseconds"),
];

fn sparse_max(context: &Context) -> usize {
    usize::try_from(context.server.configuration.sparse_hyperloglog).unwrap_or(usize::MAX)
}

/// The string of a key, if it exists; it must be a HyperLogLog.
fn find<'c>(context: &'c mut Context, key: &[u8]) -> Result<Option<(&'c [u8], RegisterEncoding)>, Failure> {
    match context.keyspace.string(context.session.db, key)? {
        None => Ok(None),
        Some(string) => Ok(Some((string, form(string).ok_or(NONE)?))),
    }
}

/// A copy of a key's HyperLogLog, to be changed, and whether the key existed.
fn sketch(context: &mut Context, key: &[u8]) -> Result<(Sketch, bool), Failure> {
    let sparse_max = sparse_max(context);
    match find(context, key)? {
        None => Ok((Sketch::new(sparse_max), false)),
        Some((string, _)) => Ok((Sketch::from(string.to_vec(), sparse_max).ok_or(NONE)?, true)),
    }
}

/// Stores a HyperLogLog; the key's deadline stays.
fn keep(context: &mut Context, key: &[u8], sketch: &[u8]) -> Outcome {
    let deadline = context.find(key, Kind::String)?.and_then(|head| head.deadline);
    context.keyspace.set_string(context.session.db, key, sketch, deadline)?;
    Ok(())
}

fn pfadd(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (mut sketch, existed) = sketch(context, arguments[1])?;
    let mut is_changed = !existed;
    for element in &arguments[2..] {
        is_changed |= sketch.add(element)?;
    }
    if is_changed {
        sketch.forget_count();
        keep(context, arguments[1], sketch.bytes())?;
    }
    context.reply.integer(i64::from(is_changed));
    Ok(())
}

/// The union of the HyperLogLogs of these keys, and whether one of them is dense.
fn union(context: &mut Context, keys: &[&[u8]]) -> Result<(Union, bool), Failure> {
    let (mut union, mut is_dense) = (Union::default(), false);
    for key in keys {
        if let Some((string, form)) = find(context, key)? {
            is_dense |= form == RegisterEncoding::Dense;
            union.add(string)?;
        }
    }
    Ok((union, is_dense))
}

fn pfcount(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let number = match &arguments[1..] {
        [key] => match find(context, key)? {
            None => 0,
            Some((string, _)) => match known_count(string) {
                Some(number) => number,
                None => {
                    let (number, mut noted) = (count(string)?, string.to_vec());
                    note_count(&mut noted, number);
                    context.keyspace.count_lookups(false);
                    keep(context, key, &noted)?;
                    number
                }
            },
        },
        keys => union(context, keys)?.0.count(),
    };
    context.reply.integer(number);
    Ok(())
}

fn pfmerge(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    // The target is part of the union.
    let (union, is_dense) = context.counted(|context| union(context, &arguments[1..]))?;
    let (mut sketch, _) = sketch(context, arguments[1])?;
    if is_dense {
        sketch.make_dense()?;
    }
    for (index, register) in union.registers().iter().enumerate().filter(|(_, register)| **register > 0) {
        sketch.raise(index, *register)?;
    }
    sketch.forget_count();
    keep(context, arguments[1], sketch.bytes())?;
    context.reply.ok();
    Ok(())
}

/// The runs of a sparse HyperLogLog as text: zeros, many zeros, or a value.
fn decoded(string: &[u8]) -> String {
    let mut text = String::new();
    for run in runs(string) {
        let blank = if text.is_empty() { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = match (run.value, run.bytes) {
            (0, 1) => write!(text, "{blank}z:{}", run.length),
            (0, _) => write!(text, "{blank}Z:{}", run.length),
            (value, _) => write!(text, "{blank}v:{value},{}", run.length),
        };
    }
    text
}

fn pfdebug(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (word, key) = (arguments[1], arguments[2]);
    let (string, form) = find(context, key)?.ok_or(Failure::fixed("ERR The specified key does not exist"))?;
    match () {
        () if is(word, "encoding") => context.reply.simple(if form == RegisterEncoding::Dense { "dense" } else { "sparse" }),
        () if is(word, "decode") && form == RegisterEncoding::Dense => return Err(Failure::fixed("ERR HLL encoding is not sparse")),
        () if is(word, "decode") => {
            let text = decoded(string);
            context.reply.bulk(text.as_bytes());
        }
        () if is(word, "getreg") || is(word, "todense") => {
            let (mut sketch, _) = sketch(context, key)?;
            let is_changed = sketch.make_dense()?;
            if is_changed {
                keep(context, key, sketch.bytes())?;
            }
            if is(word, "todense") {
                context.reply.integer(i64::from(is_changed));
                return Ok(());
            }
            let mut registers = Union::default();
            registers.add(sketch.bytes())?;
            context.reply.array(REGISTERS);
            registers.registers().iter().for_each(|register| context.reply.integer(i64::from(*register)));
        }
        () => return Err(Failure::new([b"ERR Unknown PFDEBUG subcommand '", word, b"'"].concat())),
    }
    Ok(())
}

/// Checks that both forms have equal estimates, and precise enough ones, at each power of ten.
fn pfselftest(context: &mut Context, _: &[&[u8]]) -> Outcome {
    let failed = |what: String| Failure::new(format!("ERR TESTFAILED {what}"));
    let (seed, sparse_max) = (context.keyspace.random(), sparse_max(context));
    let (mut sparse, mut dense) = (Sketch::new(sparse_max), Sketch::new(sparse_max));
    dense.make_dense()?;
    let mut next = 1;
    for number in 1..=TESTED {
        let element = (number ^ seed).to_le_bytes();
        if sparse.add(&element)? != dense.add(&element)? {
            return Err(failed(format!("the forms disagree about element {number}")));
        }
        if number < next {
            continue;
        }
        next *= 10;
        let (estimate, other) = (count(dense.bytes())?, count(sparse.bytes())?);
        if estimate != other {
            return Err(failed(format!("the forms disagree: {estimate} and {other}")));
        }
        // Six standard errors; a few elements may meet by chance.
        let most = (6.0 * 1.04 / (REGISTERS as f64).sqrt() * number as f64).ceil().max(1.0);
        if estimate.abs_diff(number.cast_signed()) as f64 > most {
            return Err(failed(format!("{number} elements are counted as {estimate}")));
        }
    }
    context.reply.ok();
    Ok(())
}
