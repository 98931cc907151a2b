//! The encoding of a value, named as the corresponding one of Redis: tools that ask for it see what they expect.
//!
//! For a collection it says how the elements are stored: inline ones are a listpack, or an intset for a set of integers. For a string it
//! follows from the value; in Redis also a short string that was appended to is `raw`.

use super::{Context, Failure};
use crate::keyspace::{Form, Head, Kind};
use crate::number::parse_integer;

/// Length of the longest string that Redis stores in one allocation with its header, bytes.
const EMBEDDED_MAX: u64 = 44;

/// The encoding of a key's value.
pub(super) fn encoding(context: &mut Context, key: &[u8], head: &Head) -> Result<&'static str, Failure> {
    Ok(match (head.kind, head.form) {
        (Kind::String, _) if context.keyspace.string_length(context.session.db, key)?.is_some_and(|length| length > EMBEDDED_MAX) => "raw",
        (Kind::String, _) => match context.keyspace.string(context.session.db, key)?.unwrap_or_default() {
            text if parse_integer(text).is_some() => "int",
            _ => "embstr",
        },
        (_, Form::Inline) if head.has_field_deadlines() => "listpackex",
        (_, Form::Inline) => "listpack",
        (_, Form::Integers) => "intset",
        (Kind::List, _) => "quicklist",
        (Kind::Hash | Kind::Set, _) => "hashtable",
        (Kind::SortedSet, _) => "skiplist",
        (Kind::Stream, _) => "stream",
    })
}
