//! The encoding of a value, by the names that Redis has for the like: tools that ask for it see what they expect.
//!
//! Of a collection it says where the elements are: one that is inline is a listpack, or a set of integers an intset. A string's encoding is
//! told from what it is; Redis also remembers that a short one was appended to, which is `raw` there.

use super::{Context, Failure};
use crate::keyspace::{Form, Head, Kind};
use crate::number::parse_integer;

/// Longest string in one piece with what describes it, bytes.
const EMBEDDED_MAX: u64 = 44;

/// The encoding of what a key holds.
pub(super) fn encoding(context: &mut Context, key: &[u8], head: &Head) -> Result<&'static str, Failure> {
    Ok(match (head.kind, head.form) {
        (Kind::String, _) if context.keyspace.string_length(context.session.db, key)?.is_some_and(|length| length > EMBEDDED_MAX) => "raw",
        (Kind::String, _) => match context.keyspace.string(context.session.db, key)?.unwrap_or_default() {
            text if parse_integer(text).is_some() => "int",
            _ => "embstr",
        },
        (_, Form::Inline) => "listpack",
        (_, Form::Integers) => "intset",
        (Kind::List, _) => "quicklist",
        (Kind::Hash | Kind::Set, _) => "hashtable",
        (Kind::SortedSet, _) => "skiplist",
        (Kind::Stream, _) => "stream",
    })
}
