//! Ids and entries of streams in requests and replies.

use super::spec::Run;
use super::{Command, Failure, Group, Outcome};
use crate::keyspace::{EntryId, Head, Keyspace, fields};
use crate::number::parse_integer;
use crate::resp::Writer;
use std::ops::ControlFlow;

const NOT_AN_ID: Failure = Failure::fixed("ERR Invalid stream ID specified as stream command argument");

/// A command about streams, whose key is its first argument.
pub(super) const fn stream(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Stream, name, arity, run).keys(1, 1, 1).since("5.0.0")
}

/// A number as C's `strtoull` reads it, except that a plain negative number is refused.
fn unsigned(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_integer(text) {
        return u64::try_from(number).ok();
    }
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// An id as `ms` (with `missing` for its sequence number), `ms-seq`, or `ms-*` (`None` for its sequence number).
pub(super) fn open_id(text: &[u8], missing: u64) -> Result<(u64, Option<u64>), Failure> {
    let (ms, seq) = match text.iter().position(|byte| *byte == b'-') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let ms = unsigned(ms).filter(|_| text.len() < 128).ok_or(NOT_AN_ID)?;
    match seq {
        None => Ok((ms, Some(missing))),
        Some(b"*") => Ok((ms, None)),
        Some(seq) => Ok((ms, Some(unsigned(seq).ok_or(NOT_AN_ID)?))),
    }
}

/// An id; `missing` is the sequence number if the text has none.
pub(super) fn entry_id(text: &[u8], missing: u64) -> Result<EntryId, Failure> {
    let (ms, seq) = open_id(text, missing)?;
    Ok(EntryId::new(ms, seq.ok_or(NOT_AN_ID)?))
}

/// Complete ids.
pub(super) fn entry_ids(texts: &[&[u8]]) -> Result<Vec<EntryId>, Failure> {
    texts.iter().map(|text| entry_id(text, 0)).collect()
}

/// An id, or `-` or `+` for the smallest and the largest possible one.
pub(super) fn id_or_edge(text: &[u8], missing: u64) -> Result<EntryId, Failure> {
    match text {
        b"-" => Ok(EntryId::MIN),
        b"+" => Ok(EntryId::MAX),
        text => entry_id(text, missing),
    }
}

/// The first id of a range; a bracket in front excludes it.
pub(super) fn range_start(text: &[u8]) -> Result<EntryId, Failure> {
    match text {
        [b'(', open @ ..] if !open.is_empty() => entry_id(open, 0)?.after().ok_or(Failure::fixed("ERR invalid start ID for the interval")),
        text => id_or_edge(text, 0),
    }
}

/// The last id of a range; a bracket in front excludes it.
pub(super) fn range_end(text: &[u8]) -> Result<EntryId, Failure> {
    match text {
        [b'(', open @ ..] if !open.is_empty() => {
            entry_id(open, u64::MAX)?.before().ok_or(Failure::fixed("ERR invalid end ID for the interval"))
        }
        text => id_or_edge(text, u64::MAX),
    }
}

/// Replies with an id.
pub(super) fn reply_id(reply: &mut Writer, id: EntryId) {
    reply.bulk(id.to_string().as_bytes());
}

/// Replies with an entry.
pub(super) fn reply_entry(reply: &mut Writer, id: EntryId, entry: &[u8]) -> Outcome {
    let fields = fields(entry)?;
    reply.array(2);
    reply_id(reply, id);
    reply.array(fields.len());
    fields.iter().for_each(|text| reply.bulk(text));
    Ok(())
}

/// Replies with the entries between two ids (both included), `most` at most (0: all); returns their ids.
pub(super) fn reply_range(
    reply: &mut Writer,
    keyspace: &Keyspace,
    head: &Head,
    range: (EntryId, EntryId),
    backward: bool,
    most: u64,
) -> Result<Vec<EntryId>, Failure> {
    let (mut ids, mut out, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
    let mut writer = Writer::new(&mut out, reply.protocol());
    keyspace.walk_entries(head, range, backward, &mut |id, entry| {
        outcome = reply_entry(&mut writer, id, entry);
        ids.push(id);
        if outcome.is_err() || ids.len() as u64 == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    outcome?;
    reply.array(ids.len());
    reply.raw(&out);
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_does() {
        let id = |text: &str| entry_id(text.as_bytes(), 7).ok().map(|id| id.to_string());
        for (text, expected) in [
            ("5", "5-7"),
            ("5-3", "5-3"),
            ("05-+3", "5-3"),
            (" 5-3", "5-3"),
            ("18446744073709551615-18446744073709551615", "18446744073709551615-18446744073709551615"),
            // Numbers with a minus that the strict parser refuses are read as in C.
            ("1--01", "1-18446744073709551615"),
            ("1--0", "1-0"),
        ] {
            assert_eq!(id(text).as_deref(), Some(expected), "{text:?}");
        }
        for wrong in ["", "-", "+", "-5", "5-", "5-x", "5-*", "x", "5-3-1", "18446744073709551616", "5 ", "1--1", "$", "*", "5-++1"] {
            assert_eq!(id(wrong), None, "{wrong:?}");
        }
        assert_eq!(id(&"0".repeat(127)).as_deref(), Some("0-7"));
        assert_eq!(id(&"0".repeat(128)), None);
    }
}
