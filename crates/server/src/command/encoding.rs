//! The encoding that Redis would have for a value: tools that ask for it see what they expect.
//!
//! It is told from what is there. Redis also remembers how a value came to be, which is not known here: a packed collection that once was
//! larger is not packed again there, and a short string that was appended to is `raw`.

use super::thresholds::Packed;
use super::{Context, Failure};
use crate::keyspace::{Head, Kind};
use crate::number::parse_integer;
use std::ops::ControlFlow;

/// Longest string in one piece with what describes it, bytes.
const EMBEDDED_MAX: u64 = 44;

/// The encoding of what a key holds.
pub(super) fn encoding(context: &mut Context, key: &[u8], head: &Head) -> Result<&'static str, Failure> {
    let thresholds = context.server.configuration.thresholds;
    Ok(match head.kind {
        Kind::String if context.keyspace.string_length(context.session.db, key)?.is_some_and(|length| length > EMBEDDED_MAX) => "raw",
        Kind::String => match context.keyspace.string(context.session.db, key)?.unwrap_or_default() {
            text if parse_integer(text).is_some() => "int",
            _ => "embstr",
        },
        Kind::List => "quicklist",
        Kind::Hash if is_packed(context, head, thresholds.hash)? => "listpack",
        Kind::SortedSet if is_packed(context, head, thresholds.sorted_set)? => "listpack",
        Kind::Set if head.count <= thresholds.integers && all(context, head, |member, _| parse_integer(member).is_some())? => "intset",
        Kind::Hash | Kind::Set => "hashtable",
        Kind::SortedSet => "skiplist",
        Kind::Stream => "stream",
    })
}

/// Looks at the elements only if they are few.
fn is_packed(context: &Context, head: &Head, packed: Packed) -> Result<bool, Failure> {
    let is_short = |bytes: &[u8]| bytes.len() as u64 <= packed.bytes;
    // The value of a member of a sorted set is its score, which Redis has as a number.
    let has_values = head.kind == Kind::Hash;
    Ok(head.count <= packed.elements && all(context, head, |name, value| is_short(name) && (!has_values || is_short(value)))?)
}

fn all(context: &Context, head: &Head, is_so: impl Fn(&[u8], &[u8]) -> bool) -> Result<bool, Failure> {
    let mut is_all = true;
    context.keyspace.walk_members(head, &mut |name, value| {
        is_all = is_so(name, value);
        if is_all { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(is_all)
}
