//! Conditions on the value of a string: `IFEQ`, `IFNE`, `IFDEQ` and `IFDNE`.

use super::arguments::{Rest, is};
use super::{Context, Failure};
use crate::keyspace::Collection;
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a long string that are read at once.
const PART: usize = 256 << 10;
/// Hexadecimal digits of a digest.
const DIGITS: usize = 16;

const DIGEST_LENGTH: Failure = Failure::fixed("ERR must be exactly 16 hexadecimal characters");

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

    /// The condition that the value is `operand`.
    pub fn equals(operand: &'a [u8]) -> Comparison<'a> {
        Comparison { kind: 0, operand }
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
pub(super) fn digest_of(context: &mut Context, string: &Collection) -> Result<String, Failure> {
    let mut hash = Xxh3::new();
    walk(context, string, &mut |part| {
        hash.update(part);
        true
    })?;
    Ok(format!("{:016x}", hash.digest()))
}
