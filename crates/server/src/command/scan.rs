//! Iteration over keys: `SCAN`, `KEYS`, `RANDOMKEY`, and the parts that `HSCAN`, `SSCAN` and `ZSCAN` share with them.

use super::arguments::{Rest, is};
use super::spec::{DANGEROUS, KEEPS_USE, READ, Run};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX};
use crate::glob;
use crate::keyspace::{self, Head, Kind};
use crate::resp::Writer;

/// Elements that a call looks at without `COUNT`.
const COUNT: usize = 10;

const fn generic(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Generic, name, arity, run)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    generic("keys", 2, keys).flags(READ | DANGEROUS | KEEPS_USE).says("All keys that match a pattern", "O(n), n being the number of keys"),
    generic("randomkey", 1, random_key).flags(READ | KEEPS_USE).says("Some key", "O(1)"),
    generic("scan", -2, scan)
        .flags(READ | KEEPS_USE)
        .since("2.8.0")
        .says("Keys from a cursor on", "O(1) for each call, O(n) for all, n being the number of keys"),
];

/// Arguments of a scan.
struct Request<'a> {
    cursor: u64,
    count: usize,
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
    /// Values of a hash are left out.
    only_names: bool,
}

impl<'a> Request<'a> {
    /// Parses the options behind a cursor, for the members of a collection of this type; `None`: for keys.
    fn parse(cursor: u64, options: &[&'a [u8]], of: Option<Kind>) -> Result<Self, Failure> {
        const HASH: Failure = Failure::fixed("ERR NOVALUES option can only be used in HSCAN");
        let mut request = Request { cursor, count: COUNT, pattern: None, kind: None, only_names: false };
        let mut rest = Rest::new(options);
        while let Some(word) = rest.next() {
            match () {
                () if is(word, "count") => {
                    let count = rest.integer()?;
                    request.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
                }
                () if is(word, "match") => request.pattern = Some(rest.value()?),
                () if is(word, "type") && of.is_none() => request.kind = Some(rest.value()?),
                () if is(word, "novalues") && of == Some(Kind::Hash) => request.only_names = true,
                () if is(word, "novalues") => return Err(HASH),
                () => return Err(SYNTAX),
            }
        }
        Ok(request)
    }

    /// Whether a key or member matches the pattern.
    fn wants(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }

    fn wants_kind(&self, kind: Kind) -> bool {
        self.kind.is_none_or(|name| is(name, kind.name()))
    }
}

/// A cursor as C's `strtoul` reads it: with or without a sign, negative numbers counted down from 2^64, up to a zero byte. Empty text is 0;
/// leading blanks are refused.
fn cursor(text: &[u8]) -> Result<u64, Failure> {
    const WRONG: Failure = Failure::fixed("ERR invalid cursor");
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let (is_negative, digits) = match text {
        [] => return Ok(0),
        [sign @ (b'-' | b'+'), digits @ ..] => (*sign == b'-', digits),
        digits => (false, digits),
    };
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let number: u64 = digits.and_then(|digits| digits.parse().ok()).ok_or(WRONG)?;
    Ok(if is_negative { number.wrapping_neg() } else { number })
}

/// Replies with a cursor and `elements` elements that are already encoded in `replies`.
fn reply(writer: &mut Writer, cursor: u64, elements: usize, replies: &[u8]) {
    writer.array(2);
    writer.bulk(cursor.to_string().as_bytes());
    writer.array(elements);
    writer.raw(replies);
}

fn scan(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let request = Request::parse(cursor(arguments[1])?, &arguments[2..], None)?;
    let (mut found, mut out) = (0, Vec::new());
    let mut writer = Writer::new(&mut out, context.reply.protocol());
    let next = context.keyspace.scan(context.session.db, request.cursor, request.count, &mut |key: &[u8], head: &Head| {
        if request.wants(key) && request.wants_kind(head.kind) {
            writer.bulk(key);
            found += 1;
        }
    })?;
    reply(&mut context.reply, next, found, &out);
    Ok(())
}

/// Scans the members of a collection. `write` writes a member with its value, and returns the number of elements that it wrote.
pub(super) fn members(
    context: &mut Context,
    arguments: &[&[u8]],
    kind: Kind,
    write: fn(&mut Writer, &[u8], &[u8]) -> keyspace::Result<usize>,
) -> Outcome {
    let cursor = cursor(arguments[2])?;
    // The options are not checked if there is no key.
    let Some(head) = context.find(arguments[1], kind)? else {
        reply(&mut context.reply, 0, 0, b"");
        return Ok(());
    };
    let request = Request::parse(cursor, &arguments[3..], Some(kind))?;
    let (mut found, mut out, mut damage) = (0, Vec::new(), Ok(()));
    let mut writer = Writer::new(&mut out, context.reply.protocol());
    let next = context.keyspace.scan_members(&head, request.cursor, request.count, &mut |member: &[u8], value: &[u8]| {
        if request.wants(member) && request.only_names {
            writer.bulk(member);
            found += 1;
        } else if request.wants(member) {
            match write(&mut writer, member, value) {
                Ok(elements) => found += elements,
                Err(error) => damage = Err(error),
            }
        }
    })?;
    damage?;
    reply(&mut context.reply, next, found, &out);
    Ok(())
}

fn keys(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let pattern = arguments[1];
    let (mut found, mut out) = (0, Vec::new());
    let mut writer = Writer::new(&mut out, context.reply.protocol());
    context.keyspace.scan(context.session.db, 0, usize::MAX, &mut |key: &[u8], _: &Head| {
        if glob::matches(pattern, key) {
            writer.bulk(key);
            found += 1;
        }
    })?;
    context.reply.array(found);
    context.reply.raw(&out);
    Ok(())
}

fn random_key(context: &mut Context, _: &[&[u8]]) -> Outcome {
    context.keyspace.count_lookups(false);
    let key = context.keyspace.random_key(context.session.db)?;
    context.reply.bulk_or_null(key.as_deref());
    Ok(())
}
