//! Finds the end of a value by its lengths alone.
//!
//! Collections that are one string may be damaged inside of it, and the contents of modules are not known here, but each says how long it
//! is. A damaged length leads astray: the bytes taken for the next record are nonsense then, or end too
//! early.

use super::input::Input;
use super::{Result, kind};
use std::io::Read;

/// Bytes of an id, and of a time or a score in binary.
const RAW_ID: u64 = 16;
const EIGHT: u64 = 8;

/// Skips a value of a type.
///
/// # Errors
/// The end of the value is not known.
pub(super) fn skip_value<R: Read>(input: &mut Input<R>, of: u8) -> Result<()> {
    match of {
        kind::STRING | kind::HASH_ZIPMAP..=kind::HASH_ZIPLIST | kind::HASH_LISTPACK | kind::SORTED_SET_LISTPACK | kind::SET_LISTPACK => {
            input.skip_string()
        }
        kind::LIST | kind::SET | kind::LIST_QUICKLIST => each(input, Input::skip_string),
        kind::HASH => each(input, |input| strings(input, 2)),
        kind::SORTED_SET_TEXT => each(input, |input| {
            input.skip_string()?;
            let length = input.byte()?;
            // The last three lengths stand for special values without digits.
            if length < 253 { input.skip(length.into()) } else { Ok(()) }
        }),
        kind::SORTED_SET => each(input, |input| {
            input.skip_string()?;
            input.skip(EIGHT)
        }),
        kind::LIST_QUICKLIST_2 => each(input, |input| {
            input.length()?;
            input.skip_string()
        }),
        kind::STREAM | kind::STREAM_2 | kind::STREAM_3 | kind::STREAM_4 => stream(input, of),
        kind::MODULE_2 => {
            input.length()?;
            module_parts(input)
        }
        // The first of their deadlines, which pre-releases did not write.
        kind::HASH_DEADLINES | kind::HASH_DEADLINES_EARLY => {
            input.skip(if of == kind::HASH_DEADLINES { EIGHT } else { 0 })?;
            each(input, |input| {
                input.length()?;
                strings(input, 2)
            })
        }
        kind::HASH_VALKEY => each(input, |input| {
            strings(input, 2)?;
            input.skip(EIGHT)
        }),
        kind::HASH_LISTPACK_DEADLINES | kind::HASH_LISTPACK_DEADLINES_EARLY => {
            input.skip(if of == kind::HASH_LISTPACK_DEADLINES { EIGHT } else { 0 })?;
            input.skip_string()
        }
        other => Err(input.unsupported(format!("a value of type {other}, whose end is not known"))),
    }
}

/// Skips the value of a module: parts that say what they are, up to an end mark.
pub(super) fn module_parts<R: Read>(input: &mut Input<R>) -> Result<()> {
    loop {
        match input.length()? {
            0 => return Ok(()),
            1 | 2 => {
                input.length()?;
            }
            3 => input.skip(4)?,
            4 => input.skip(EIGHT)?,
            5 => input.skip_string()?,
            _ => return Err(input.damaged("a module's value of no known form")),
        }
    }
}

fn each<R: Read>(input: &mut Input<R>, mut skip: impl FnMut(&mut Input<R>) -> Result<()>) -> Result<()> {
    for _ in 0..input.length()? {
        skip(input)?;
    }
    Ok(())
}

fn strings<R: Read>(input: &mut Input<R>, count: usize) -> Result<()> {
    (0..count).try_for_each(|_| input.skip_string())
}

fn lengths<R: Read>(input: &mut Input<R>, count: usize) -> Result<()> {
    (0..count).try_for_each(|_| input.length().map(drop))
}

fn stream<R: Read>(input: &mut Input<R>, of: u8) -> Result<()> {
    each(input, |input| strings(input, 2))?;
    // Its length and the last id; then the first id, the largest that was deleted, and how many were added.
    lengths(input, if of == kind::STREAM { 3 } else { 8 })?;
    each(input, |input| {
        input.skip_string()?;
        lengths(input, if of == kind::STREAM { 2 } else { 3 })?;
        each(input, |input| {
            input.skip(RAW_ID + EIGHT)?;
            input.length().map(drop)
        })?;
        each(input, |input| {
            input.skip_string()?;
            input.skip(if of >= kind::STREAM_3 { 2 * EIGHT } else { EIGHT })?;
            each(input, |input| input.skip(RAW_ID))
        })
    })?;
    if of == kind::STREAM_4 { producers(input) } else { Ok(()) }
}

/// Skips the data of a stream on producers (Redis 8.6): how long and how many of their ids it keeps, these ids with their entries, and the
/// numbers of entries that were added and of those that were refused as duplicates.
pub(super) fn producers<R: Read>(input: &mut Input<R>) -> Result<()> {
    lengths(input, 2)?;
    each(input, |input| {
        input.skip_string()?;
        each(input, |input| {
            input.skip_string()?;
            lengths(input, 2)
        })
    })?;
    lengths(input, 2)
}
