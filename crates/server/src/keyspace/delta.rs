//! Changes of entries, written instead of the entries: changing a field of a hash of 8 KiB costs a few bytes.
//!
//! An operand of the engine's merge operator is a series of steps. A step has two parts, each behind its length as a varint: the new head
//! of the entry, and the splices of its body. A splice is an offset, the number of removed bytes, the number of inserted bytes (three
//! varints), and the inserted bytes.

use super::entry::Head;
use sinterdb::internal::coding::{Decoder, put_bytes, put_varint};
use sinterdb::operator::MergeOperator;
use std::ops::Range;

/// Entries of fewer bytes are written whole. Tests have both sorts.
pub(super) const DELTAS_FROM: usize = if cfg!(test) { 64 } else { 128 };
/// An entry is written whole again once its changes would take more than so many times its bytes. A changed byte then costs one and a half
/// bytes of writes, in entries of up to `MOST / TIMES` bytes.
const TIMES: u64 = 2;
/// Bytes of the changes of an entry, at most: a read merges all of them.
const MOST: u64 = 16 << 10;
/// Bytes of the numbers of a splice, nearly always at most.
const SPLICE: usize = 8;
/// Bytes of a step without its splices, at most.
const STEP: usize = 40;

/// Bytes of all changes since the entry was written whole: `before` plus the new `splices`. `None`: the entry has to be written whole now.
pub(super) fn deltas(before: u64, body: &[u8], splices: &[u8]) -> Option<u64> {
    let deltas = before.saturating_add((splices.len() + STEP) as u64);
    let most = (body.len() as u64).saturating_mul(TIMES).min(MOST);
    (body.len() >= DELTAS_FROM && deltas <= most).then_some(deltas)
}

/// Replaces a range of bytes.
pub(super) fn replace(bytes: &mut Vec<u8>, range: Range<usize>, new: &[u8]) {
    let (length, end) = (bytes.len(), range.start + new.len());
    let new_length = length - range.len() + new.len();
    if new_length > length {
        bytes.resize(new_length, 0);
    }
    bytes.copy_within(range.end..length, end);
    bytes.truncate(new_length);
    bytes[range.start..end].copy_from_slice(new);
}

/// Appends a splice.
pub(super) fn put_splice(out: &mut Vec<u8>, range: Range<usize>, new: &[u8]) {
    out.reserve(SPLICE + new.len());
    put_varint(out, range.start as u64);
    put_varint(out, range.len() as u64);
    put_bytes(out, new);
}

/// Encodes a step, which may be appended to others.
pub(super) fn step(head: &[u8], splices: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(STEP + splices.len());
    put_bytes(&mut out, head);
    put_bytes(&mut out, splices);
    out
}

/// Applies splices to a body; `None`: they do not fit it.
fn apply(body: &mut Vec<u8>, splices: &[u8]) -> Option<()> {
    let mut from = Decoder::new(splices);
    while !from.is_empty() {
        let (at, removed) = (usize::try_from(from.varint()?).ok()?, usize::try_from(from.varint()?).ok()?);
        let new = from.prefixed()?;
        let end = at.checked_add(removed).filter(|end| *end <= body.len())?;
        replace(body, at..end, new);
    }
    Some(())
}

/// The merge operator, which applies changes to entries.
#[derive(Debug)]
pub(super) struct Deltas;

impl MergeOperator for Deltas {
    fn name(&self) -> &str {
        "sinter-entries"
    }

    fn full_merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let base = base?;
        let (mut head, body) = base.split_at_checked(Head::decode(base).ok()?.1)?;
        let mut body = body.to_vec();
        for operand in operands {
            let mut from = Decoder::new(operand);
            while !from.is_empty() {
                head = from.prefixed()?;
                apply(&mut body, from.prefixed()?)?;
            }
        }
        Some([head, &body].concat())
    }

    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(operands.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Kind;
    use super::*;

    fn splices(all: &[(Range<usize>, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        all.iter().for_each(|(range, new)| put_splice(&mut out, range.clone(), new));
        out
    }

    #[test]
    fn golden_bytes() {
        let operand = step(b"head", &splices(&[(300..301, b"ab"), (0..0, b"")]));
        assert_eq!(operand, b"\x04head\x09\xac\x02\x01\x02ab\0\0\0");
    }

    /// The body of a string stands behind one byte.
    #[test]
    fn steps_are_done_one_after_the_other() {
        let one = step(b"\0", &splices(&[(1..3, b"XYZ"), (0..1, b""), (4..4, b"end")]));
        let two = step(b"\x80\x01\0\0\0\0\0\0\0", &splices(&[(0..7, b"")]));
        let merge = |operands: &[&[u8]]| Deltas.full_merge(b"k", Some(b"\0abcd"), operands);
        assert_eq!(merge(&[&one]).unwrap(), b"\0XYZdend");
        assert_eq!(merge(&[&one, &two]).unwrap(), b"\x80\x01\0\0\0\0\0\0\0");
        let both = Deltas.partial_merge(b"k", &[&one, &two]).unwrap();
        assert_eq!(merge(&[&both]), merge(&[&one, &two]));
        assert_eq!(merge(&[]).unwrap(), b"\0abcd");
    }

    #[test]
    fn operands_that_make_no_sense_are_refused() {
        let good = step(b"\0", &splices(&[(1..3, b"x")]));
        for base in [None, Some(&b""[..]), Some(b"\0ab"), Some(&[Kind::Set as u8, 1])] {
            assert_eq!(Deltas.full_merge(b"k", base, &[&good]), None, "{base:?}");
        }
        for end in 1..good.len() {
            assert_eq!(Deltas.full_merge(b"k", Some(b"\0abcd"), &[&good[..end]]), None, "cut at {end}");
        }
        let mut far = Vec::new();
        put_varint(&mut far, u64::MAX);
        put_varint(&mut far, u64::MAX);
        put_bytes(&mut far, b"");
        assert_eq!(Deltas.full_merge(b"k", Some(b"\0abcd"), &[&step(b"\0", &far)]), None);
    }
}
