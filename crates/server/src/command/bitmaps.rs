//! Commands for strings as bitmaps.

use super::arguments::{integer, integer_or, is};
use super::spec::{DENYOOM, FAST, READ, Run, WRITE};
use super::steps::{Task, inside};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX};
use crate::bits::{self, Field, Operation, Overflow, TOUCHED};
use crate::keyspace::{self, LONGEST_STRING as LONGEST, StringEdit, StringReader, check_key};
use crate::number::parse_integer;
use std::ops::ControlFlow;

const OFFSET: Failure = Failure::fixed("ERR bit offset is not an integer or out of range");
const BIT: Failure = Failure::fixed("ERR bit is not an integer or out of range");
const FIELD: Failure = Failure::fixed("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.");

const fn bitmap(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Bitmap, name, arity, run).keys(1, 1, 1)
}

/// The bitmap commands.
pub(super) const COMMANDS: &[Command] = &[
    bitmap("bitcount", -2, bitcount).flags(READ).since("2.6.0").says("How many bits are set", "O(n), n being the length of the range"),
    bitmap("bitfield", -2, bitfield).flags(WRITE | DENYOOM).since("3.2.0").says(
        "Numbers of any width among the bits: read, set and increment them",
        "O(1) for each number, and O(n) for the first that is written, n being the length",
    ),
    bitmap("bitfield_ro", -2, bitfield_ro)
        .flags(READ | FAST)
        .since("6.0.0")
        .says("Numbers of any width among the bits", "O(1) for each number"),
    bitmap("bitop", -4, bitop)
        .keys(2, -1, 1)
        .flags(WRITE | DENYOOM)
        .since("2.6.0")
        .says("Keep what comes of the bits of many strings", "O(n), n being the length of all"),
    bitmap("bitpos", -3, bitpos)
        .flags(READ)
        .since("2.8.7")
        .says("The first bit that is set, or clear", "O(n), n being the length of the range"),
    bitmap("getbit", 3, getbit).flags(READ | FAST).since("2.2.0").says("A bit", "O(1)"),
    bitmap("setbit", 4, setbit)
        .flags(WRITE | DENYOOM)
        .since("2.2.0")
        .says("Set or clear a bit", "O(1), and O(n) for the first that changes, n being the length of the string"),
];

/// The offset of a bit. With `bits`, `#n` is the offset of the n-th field of that width.
fn offset(text: &[u8], bits: Option<u32>) -> Result<u64, Failure> {
    let (number, unit) = match (text.strip_prefix(b"#"), bits) {
        (Some(number), Some(bits)) => (number, i64::from(bits)),
        _ => (text, 1),
    };
    let offset = parse_integer(number).and_then(|number| number.checked_mul(unit)).ok_or(OFFSET)?;
    u64::try_from(offset).ok().filter(|offset| offset / 8 < LONGEST).ok_or(OFFSET)
}

fn setbit(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let at = offset(arguments[2], None)?;
    let bit = match integer_or(arguments[3], BIT)? {
        bit @ (0 | 1) => bit,
        _ => return Err(BIT),
    };
    let step = Step { field: bit_at(at), change: Change::Set(bit), overflow: Overflow::Wrap };
    let mut old = None;
    context.keyspace.change_string(context.session.db, arguments[1], |string| {
        let grows = string.grow(step.field.end());
        let (number, changes) = step.run_in(string)?;
        old = number;
        Ok(grows || changes)
    })?;
    context.reply.integer(old.unwrap_or(0));
    Ok(())
}

fn bit_at(offset: u64) -> Field {
    Field { is_signed: false, bits: 1, offset }
}

/// The number in a field of the string whose length was asked for last.
fn number_in(context: &mut Context, field: &Field) -> Result<i64, Failure> {
    let part = context.keyspace.string_part(field.start(), field.end())?;
    Ok(field.in_window().get(&part))
}

fn getbit(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let field = bit_at(offset(arguments[2], None)?);
    context.keyspace.string_length(context.session.db, arguments[1])?;
    let number = number_in(context, &field)?;
    context.reply.integer(number);
    Ok(())
}

/// Whether positions count bits, not bytes.
fn is_in_bits(unit: Option<&&[u8]>) -> Result<bool, Failure> {
    match unit {
        Some(word) if is(word, "bit") => Ok(true),
        Some(word) if !is(word, "byte") => Err(SYNTAX),
        _ => Ok(false),
    }
}

/// Turns `start` up to `end` (included), negative ones counted from the end, into a range of bits whose end is excluded.
fn range(start: i64, end: i64, length: u64, in_bits: bool) -> (u64, u64) {
    let unit = if in_bits { 1 } else { 8 };
    let total = (length * 8 / unit).cast_signed();
    let from_start = |position: i64| if position < 0 { position.saturating_add(total).max(0) } else { position };
    let (start, end) = (from_start(start), from_start(end).min(total - 1));
    // In an empty string the end lies before the start.
    let bits = |position: i64| u64::try_from(position).unwrap_or(0).saturating_mul(unit);
    (bits(start), bits(end + 1))
}

/// A reader of the bytes that hold a range of bits of the string whose length was asked for last, and the offset of its first byte; `None`:
/// the range is short enough to be read at once.
fn reader_of_many(context: &mut Context, (from, to): (u64, u64)) -> Result<Option<(StringReader, u64)>, Failure> {
    let (from, to) = (from / 8, to.div_ceil(8));
    if !context.is_long(to.saturating_sub(from)) {
        return Ok(None);
    }
    Ok(Some((context.keyspace.part_reader(from, to)?, from)))
}

fn bitcount(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    if let Some(number) = context.found_in_steps() {
        context.reply.integer(number.unwrap_or(0).cast_signed());
        return Ok(());
    }
    let (db, key) = (context.db(), arguments[1]);
    let found = context.keyspace.string_length(db, key)?;
    let (from, to) = match (found, &arguments[2..]) {
        (None, _) => (0, 0),
        (Some(length), []) => (0, length * 8),
        (Some(length), [start, end, unit @ ..]) if unit.len() < 2 => {
            let (start, end) = (integer(start)?, integer(end)?);
            if start < 0 && end < 0 && start > end { (0, 0) } else { range(start, end, length, is_in_bits(unit.first())?) }
        }
        _ => return Err(SYNTAX),
    };
    if let Some((reader, at)) = reader_of_many(context, (from, to))? {
        return Err(context.begin(Task::Count { reader, at, bits: (from, to), number: 0 }, &[]));
    }
    let mut number = 0;
    if from < to {
        context.keyspace.walk_string(from / 8, to.div_ceil(8), &mut |at, part| {
            let (from, to) = inside(at, part, (from, to));
            number += bits::count_between(part, from, to);
            ControlFlow::Continue(())
        })?;
    }
    context.reply.integer(number.cast_signed());
    Ok(())
}

fn bitpos(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let bit = match integer(arguments[2])? {
        0 => false,
        1 => true,
        _ => return Err(Failure::fixed("ERR The bit argument must be 1 or 0.")),
    };
    if let Some(found) = context.found_in_steps() {
        context.reply.integer(found.map_or(-1, u64::cast_signed));
        return Ok(());
    }
    let (db, key) = (context.db(), arguments[1]);
    let Some(length) = context.keyspace.string_length(db, key)? else {
        // A missing key is zeros without end.
        context.reply.integer(if bit { -1 } else { 0 });
        return Ok(());
    };
    let (start, end, unit) = match &arguments[3..] {
        [] => (0, None, None),
        [start] => (integer(start)?, None, None),
        [start, end, unit @ ..] if unit.len() < 2 => (integer(start)?, Some(end), unit.first()),
        _ => return Err(SYNTAX),
    };
    let in_bits = is_in_bits(unit)?;
    let last = end.map(|end| integer(end)).transpose()?;
    let (from, to) = range(start, last.unwrap_or(-1), length, in_bits);
    // Without an explicit end, the string goes on with zeros.
    let behind = (!bit && last.is_none() && from < to).then_some(to);
    if let Some((reader, at)) = reader_of_many(context, (from, to))? {
        return Err(context.begin(Task::Find { reader, at, bits: (from, to), bit, found: None, behind }, &[]));
    }
    let mut found = None;
    if from < to {
        context.keyspace.walk_string(from / 8, to.div_ceil(8), &mut |at, part| {
            let (from, to) = inside(at, part, (from, to));
            found = bits::find(part, bit, from, to).map(|place| at * 8 + place);
            if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    context.reply.integer(found.or(behind).map_or(-1, u64::cast_signed));
    Ok(())
}

fn bitop(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let operation = match arguments[1] {
        word if is(word, "and") => Some(Operation::And),
        word if is(word, "or") => Some(Operation::Or),
        word if is(word, "xor") => Some(Operation::Xor),
        word if is(word, "not") => None,
        _ => return Err(SYNTAX),
    };
    if operation.is_none() && arguments.len() != 4 {
        return Err(Failure::fixed("ERR BITOP NOT must be called with a single source key."));
    }
    let (db, target) = (context.db(), arguments[2]);
    let mut longest = 0;
    for key in &arguments[3..] {
        let length = context.counted(|context| context.keyspace.string_length(db, key))?;
        longest = longest.max(length.unwrap_or(0));
    }
    if let Some((length, _)) = context.built()? {
        context.set_prepared((db, target), None, false)?;
        context.reply.integer(length.cast_signed());
        return Ok(());
    }
    if context.is_long(longest) {
        check_key(target)?;
        return combine_in_steps(context, &arguments[3..], operation);
    }
    let mut result = context.keyspace.string(db, arguments[3])?.unwrap_or_default().to_vec();
    match operation {
        None => result.iter_mut().for_each(|byte| *byte = !*byte),
        Some(operation) => {
            for key in &arguments[4..] {
                bits::combine(&mut result, context.keyspace.string(db, key)?.unwrap_or_default(), operation);
            }
        }
    }
    if result.is_empty() {
        context.keyspace.remove(db, target)?;
    } else {
        context.keyspace.set_string(db, target, &result, None)?;
    }
    context.reply.count(result.len());
    Ok(())
}

fn combine_in_steps(context: &mut Context, keys: &[&[u8]], operation: Option<Operation>) -> Outcome {
    let db = context.db();
    let mut sources = Vec::with_capacity(keys.len());
    for key in keys {
        let length = context.keyspace.string_length(db, key)?.unwrap_or(0);
        sources.push(context.keyspace.part_reader(0, length)?);
    }
    let to = context.keyspace.begin_upload()?;
    let watched: Vec<(usize, &[u8])> = keys.iter().map(|key| (db, *key)).collect();
    Err(context.begin(Task::Combine { sources, operation, to }, &watched))
}

/// Change to a field.
#[derive(Debug, Clone, Copy)]
enum Change {
    None,
    Set(i64),
    Increment(i64),
}

/// One operation of `BITFIELD`: a field and its change.
#[derive(Debug, Clone, Copy)]
struct Step {
    field: Field,
    change: Change,
    overflow: Overflow,
}

impl Step {
    /// Runs the operation on the bytes of a string. Returns the reply (`None`: the number would not fit), and whether the string has
    /// changed.
    fn run(&self, bytes: &mut [u8]) -> (Option<i64>, bool) {
        let old = self.field.get(bytes);
        let wanted = match self.change {
            Change::None => return (Some(old), false),
            Change::Increment(by) => i128::from(old) + i128::from(by),
            Change::Set(number) if self.field.is_signed => i128::from(number),
            Change::Set(number) => i128::from(number.cast_unsigned()),
        };
        let Some(new) = self.field.fit(wanted, self.overflow) else { return (None, false) };
        self.field.set(bytes, new);
        (Some(if matches!(self.change, Change::Set(_)) { old } else { new }), new != old)
    }

    /// Runs the operation on a string that is edited in place: reads the bytes of the field, and writes them if they have changed.
    fn run_in(&self, string: &mut StringEdit) -> keyspace::Result<(Option<i64>, bool)> {
        let mut window = [0; TOUCHED];
        let at = self.field.start();
        let touched = usize::try_from(self.field.end() - at).unwrap_or(TOUCHED).min(TOUCHED);
        let window = &mut window[..touched];
        string.read(at, window)?;
        let done = Step { field: self.field.in_window(), ..*self }.run(window);
        if done.1 {
            string.write(at, window)?;
        }
        Ok(done)
    }
}

fn field(kind: &[u8], at: &[u8]) -> Result<Field, Failure> {
    let (is_signed, widest, digits) = match kind {
        [b'i', digits @ ..] => (true, 64, digits),
        [b'u', digits @ ..] => (false, 63, digits),
        _ => return Err(FIELD),
    };
    let bits = parse_integer(digits).filter(|bits| (1..=widest).contains(bits)).and_then(|bits| u32::try_from(bits).ok()).ok_or(FIELD)?;
    Ok(Field { is_signed, bits, offset: offset(at, Some(bits))? })
}

fn steps(mut rest: &[&[u8]]) -> Result<Vec<Step>, Failure> {
    let (mut steps, mut overflow) = (Vec::new(), Overflow::Wrap);
    loop {
        rest = match rest {
            [] => return Ok(steps),
            [word, kind, at, behind @ ..] if is(word, "get") => {
                steps.push(Step { field: field(kind, at)?, change: Change::None, overflow });
                behind
            }
            [word, kind, at, number, behind @ ..] if is(word, "set") => {
                let field = field(kind, at)?;
                steps.push(Step { field, change: Change::Set(integer(number)?), overflow });
                behind
            }
            [word, kind, at, number, behind @ ..] if is(word, "incrby") => {
                let field = field(kind, at)?;
                steps.push(Step { field, change: Change::Increment(integer(number)?), overflow });
                behind
            }
            [word, how, behind @ ..] if is(word, "overflow") => {
                overflow = match () {
                    () if is(how, "wrap") => Overflow::Wrap,
                    () if is(how, "sat") => Overflow::Saturate,
                    () if is(how, "fail") => Overflow::Fail,
                    () => return Err(Failure::fixed("ERR Invalid OVERFLOW type specified")),
                };
                behind
            }
            _ => return Err(SYNTAX),
        };
    }
}

fn fields(context: &mut Context, arguments: &[&[u8]], may_write: bool) -> Outcome {
    let steps = steps(&arguments[2..])?;
    let needed = steps.iter().filter(|step| !matches!(step.change, Change::None)).map(|step| step.field.end()).max();
    let (db, key) = (context.db(), arguments[1]);
    let mut found: Vec<Option<i64>> = Vec::with_capacity(steps.len());
    match needed {
        None => {
            // Also without any operation: the key must not hold another type.
            context.counted(|context| context.keyspace.string_length(db, key))?;
            for step in &steps {
                found.push(Some(number_in(context, &step.field)?));
            }
        }
        Some(_) if !may_write => return Err(Failure::fixed("ERR BITFIELD_RO only supports the GET subcommand")),
        Some(needed) => context.keyspace.change_string(db, key, |string| {
            let mut is_changed = string.grow(needed);
            for step in &steps {
                let (number, changes) = step.run_in(string)?;
                found.push(number);
                is_changed |= changes;
            }
            Ok(is_changed)
        })?,
    }
    context.reply.array(found.len());
    for number in found {
        match number {
            Some(number) => context.reply.integer(number),
            None => context.reply.null(),
        }
    }
    Ok(())
}

fn bitfield(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    fields(context, arguments, true)
}

fn bitfield_ro(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    fields(context, arguments, false)
}
