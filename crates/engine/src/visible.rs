//! Visibility: finds the version of a key that a reader sees, for single keys ([`Resolver`]) and for scans ([`VisibleCursor`]).
//!
//! A reader at snapshot S sees of each key the newest version with a sequence number `<= S`; it is as good as deleted if a range
//! tombstone with a greater number `<= S` covers the key. Merge operands are folded onto the first older version that is not one.

mod cursor;
mod resolver;

pub use cursor::VisibleCursor;
pub use resolver::Resolver;

use crate::error::{Error, Result};
use crate::key::{Kind, split_timed};
use crate::operator::MergeOperator;

/// Merge operands of one key, in the order in which they were met. One buffer for all bytes, reused from key to key.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Operands {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn push(&mut self, operand: &[u8]) {
        self.bytes.extend_from_slice(operand);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The operands in the order of the pushes.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        (0..self.ends.len()).map(|i| &self.bytes[if i == 0 { 0 } else { self.ends[i - 1] }..self.ends[i]])
    }
}

/// Applies operands (oldest first) to a base, or says why that is not possible.
fn fold(merge: Option<&dyn MergeOperator>, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
    let Some(merge) = merge else {
        return Err(Error::invalid(format!("key {} has merge operands, but its family has no merge operator", shown(key))));
    };
    merge.full_merge(key, base, operands).ok_or_else(|| {
        Error::invalid(format!("merge operator '{}' refuses the {} operands of key {}", merge.name(), operands.len(), shown(key)))
    })
}

/// The part of a stored value that a user gets: everything, or the bytes behind the entry's own time.
#[inline]
pub(crate) fn user_value<'a>(kind: Kind, key: &[u8], stored: &'a [u8]) -> Result<&'a [u8]> {
    if kind == Kind::TimedValue { untimed(key, stored) } else { Ok(stored) }
}

fn untimed<'a>(key: &[u8], stored: &'a [u8]) -> Result<&'a [u8]> {
    let what = || Error::corrupt("entries", 0, format!("the time of a version of key {} is damaged", shown(key)));
    Ok(split_timed(stored).ok_or_else(what)?.1)
}

/// A kind that has no meaning here.
fn unreadable(key: &[u8], trailer: u64) -> Error {
    match crate::key::kind_of(trailer) {
        Some(kind) => Error::invalid(format!("key {} has a version of kind {kind:?}, which this build cannot read", shown(key))),
        None => Error::corrupt("entries", 0, format!("version of unknown kind {} of key {}", trailer as u8, shown(key))),
    }
}

/// The beginning of a key, for messages.
pub(crate) fn shown(key: &[u8]) -> String {
    format!("'{}'", key[..key.len().min(64)].escape_ascii())
}

#[cfg(test)]
mod tests;
