//! Random operations (`operations`), the database beside the model that says what each must return (`world`), the settings under
//! which the same operations must give the same history (`variants`), the search for the fewest operations that still fail (`shrink`), and
//! the same with many threads (`crowd`).

pub mod crowd;
pub mod operations;
mod random;
pub mod shrink;
pub mod variants;
pub mod world;

pub use random::Random;

use sinterdb::operator::MergeOperator;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A key or value that prints as people read it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(pub Vec<u8>);

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

/// The beginning of bytes, and how many there are if that is not all.
pub fn shown(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(40)];
    let rest = if bytes.len() > 40 { format!("..{}", bytes.len()) } else { String::new() };
    format!("b\"{}\"{rest}", start.escape_ascii())
}

/// Bytes that a value of [`Append`] keeps.
const TAIL: usize = 64;

/// Appends operands and keeps the end, which is associative. `partial`: operands can be joined without the base.
pub struct Append {
    pub partial: bool,
}

impl Append {
    fn join(base: &[u8], operands: &[&[u8]]) -> Vec<u8> {
        let mut value = base.to_vec();
        operands.iter().for_each(|o| value.extend_from_slice(o));
        value.split_off(value.len().saturating_sub(TAIL))
    }
}

impl MergeOperator for Append {
    fn name(&self) -> &str {
        if self.partial { "append" } else { "append, full merges only" }
    }

    fn full_merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(Self::join(base.unwrap_or_default(), operands))
    }

    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.partial.then(|| Self::join(b"", operands))
    }
}

/// Adds 64-bit numbers; anything that is none counts as its length.
pub struct Counter;

impl Counter {
    fn number(bytes: &[u8]) -> u64 {
        <[u8; 8]>::try_from(bytes).map_or(bytes.len() as u64, u64::from_le_bytes)
    }
}

impl MergeOperator for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn full_merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let sum = operands.iter().fold(base.map_or(0, Self::number), |sum, o| sum.wrapping_add(Self::number(o)));
        Some(sum.to_le_bytes().to_vec())
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.full_merge(key, None, operands)
    }
}

/// The operator of a family slot; the last slot has none.
pub fn operator(slot: usize) -> Option<Arc<dyn MergeOperator>> {
    match slot {
        0 => Some(Arc::new(Append { partial: true })),
        1 => Some(Arc::new(Counter)),
        2 => Some(Arc::new(Append { partial: false })),
        _ => None,
    }
}
