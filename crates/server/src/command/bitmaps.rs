//! Strings as bits.

use super::arguments::{integer, integer_or, is};
use super::strings::LONGEST;
use super::table::{DENYOOM, FAST, READ, Run, WRITE};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX};
use crate::bits::{self, Field, Operation, Overflow};
use crate::number::parse_integer;

const OFFSET: Failure = Failure::fixed("ERR bit offset is not an integer or out of range");
const BIT: Failure = Failure::fixed("ERR bit is not an integer or out of range");
const FIELD: Failure = Failure::fixed("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.");

const fn bitmap(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Bitmap, name, arity, run).keys(1, 1, 1)
}

/// The commands of this family.
pub(super) const COMMANDS: &[Command] = &[
    bitmap("bitcount", -2, bitcount).flags(READ).since("2.6.0").says("How many bits are set", "O(n), n being the length of the range"),
    bitmap("bitfield", -2, bitfield).flags(WRITE | DENYOOM).since("3.2.0").says(
        "Numbers of any width among the bits: read, set and increment them",
        "O(1) for each number, and O(n) to write, n being the length",
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
        .says("Set or clear a bit", "O(n), n being the length of the string, if the bit changes"),
];

/// The position of a bit. `#n` is that of the n-th field of so many bits, if there are any.
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
    let field = Field { is_signed: false, bits: 1, offset: at };
    let mut old = 0;
    context.keyspace.change_string(context.session.db, arguments[1], |string| {
        let grows = string.grow(field.end());
        old = field.get(string.bytes());
        field.set(string.bytes_mut(), bit);
        grows || old != bit
    })?;
    context.reply.integer(old);
    Ok(())
}

fn getbit(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let field = Field { is_signed: false, bits: 1, offset: offset(arguments[2], None)? };
    let value = context.keyspace.string(context.session.db, arguments[1])?.unwrap_or_default();
    context.reply.integer(field.get(value));
    Ok(())
}

/// Positions are those of bits, not of bytes.
fn is_in_bits(unit: Option<&&[u8]>) -> Result<bool, Failure> {
    match unit {
        Some(word) if is(word, "bit") => Ok(true),
        Some(word) if !is(word, "byte") => Err(SYNTAX),
        _ => Ok(false),
    }
}

/// The bits from `start` up to `end` (included), which count from the end if they are negative, as bits up to another (excluded).
fn range(start: i64, end: i64, length: usize, in_bits: bool) -> (u64, u64) {
    let unit = if in_bits { 1 } else { 8 };
    let total = (length as u64 * 8 / unit).cast_signed();
    let from_start = |position: i64| if position < 0 { position.saturating_add(total).max(0) } else { position };
    let (start, end) = (from_start(start), from_start(end).min(total - 1));
    // A string without a byte has an end before its start.
    let bits = |position: i64| u64::try_from(position).unwrap_or(0).saturating_mul(unit);
    (bits(start), bits(end + 1))
}

fn bitcount(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let found = context.keyspace.string(context.session.db, arguments[1])?;
    let number = match (found, &arguments[2..]) {
        (None, _) => 0,
        (Some(value), []) => bits::count(value),
        (Some(value), [start, end, unit @ ..]) if unit.len() < 2 => {
            let (start, end) = (integer(start)?, integer(end)?);
            if start < 0 && end < 0 && start > end {
                0
            } else {
                let (from, to) = range(start, end, value.len(), is_in_bits(unit.first())?);
                bits::count_between(value, from, to)
            }
        }
        _ => return Err(SYNTAX),
    };
    context.reply.integer(number.cast_signed());
    Ok(())
}

fn bitpos(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let bit = match integer(arguments[2])? {
        0 => false,
        1 => true,
        _ => return Err(Failure::fixed("ERR The bit argument must be 1 or 0.")),
    };
    let Some(value) = context.keyspace.string(context.session.db, arguments[1])? else {
        // Zeros without end.
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
    let (from, to) = range(start, last.unwrap_or(-1), value.len(), in_bits);
    let found = bits::find(value, bit, from, to);
    // Where no end was asked for, the string goes on with zeros.
    let behind = (!bit && last.is_none() && from < to).then_some(to);
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

/// What is done to a field.
#[derive(Debug, Clone, Copy)]
enum Change {
    None,
    Set(i64),
    Increment(i64),
}

/// One of the things that a client wants of the fields of a string.
#[derive(Debug, Clone, Copy)]
struct Step {
    field: Field,
    change: Change,
    overflow: Overflow,
}

impl Step {
    /// Does it; `None`: the number would not fit. What comes with it: the string is another.
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
            let value = context.keyspace.string(db, key)?.unwrap_or_default();
            found.extend(steps.iter().map(|step| Some(step.field.get(value))));
        }
        Some(_) if !may_write => return Err(Failure::fixed("ERR BITFIELD_RO only supports the GET subcommand")),
        Some(needed) => context.keyspace.change_string(db, key, |string| {
            let mut is_changed = string.grow(needed);
            for step in &steps {
                let (number, changes) = step.run(string.bytes_mut());
                found.push(number);
                is_changed |= changes;
            }
            is_changed
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
