//! Reads the value of a key element by element, whatever form it has in the file.

use super::input::Input;
use super::packed::{Damage, Entry, Pack, Zipmap, integers};
use super::streams::{StreamElement, read_stream};
use super::{Error, kind};
use crate::number::parse_double;
use std::io::Read;

/// A part of a value. All parts of a value are of one variant.
#[derive(Debug, Clone, PartialEq)]
pub enum Element<'a> {
    /// A string.
    Text(&'a [u8]),
    /// The next item of a list.
    Item(&'a [u8]),
    /// A member of a set.
    Member(&'a [u8]),
    /// A member of a sorted set and its score, which is not NaN.
    Scored(&'a [u8], f64),
    /// A field of a hash, its value, and its deadline (unix milliseconds) if it has one.
    Field(&'a [u8], &'a [u8], Option<u64>),
    /// A part of a stream.
    Stream(StreamElement<'a>),
}

type Outcome<E> = std::result::Result<(), E>;
type Visit<'v, E> = dyn FnMut(Element<'_>) -> Outcome<E> + 'v;

/// Kinds of nodes of a list of the second form: one plain item, or a listpack of items.
const PLAIN: u64 = 1;
const PACKED: u64 = 2;

/// Reads a value of a type, and calls `visit` for each of its elements. An empty collection has none. The caller checks that members of a
/// set and fields of a hash differ.
pub fn read_value<R: Read, E: From<Error>>(input: &mut Input<R>, of: u8, visit: &mut Visit<E>) -> Outcome<E> {
    let mut text = Vec::new();
    match of {
        kind::STRING => {
            input.string(&mut text)?;
            visit(Element::Text(&text))
        }
        kind::LIST => each(input, &mut |text| visit(Element::Item(text))),
        kind::SET => each(input, &mut |text| visit(Element::Member(text))),
        kind::HASH => fields(input, visit),
        kind::SORTED_SET_TEXT | kind::SORTED_SET => scores(input, of, visit),
        kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2 => quicklist(input, of, visit),
        kind::STREAM | kind::STREAM_2 | kind::STREAM_3 | kind::STREAM_4 => {
            read_stream(input, of, &mut |element| visit(Element::Stream(element)))
        }
        kind::SET_INTSET => {
            input.string(&mut text)?;
            for number in integers(&text).map_err(|what| input.damaged(what))? {
                visit(Element::Member(&Entry::Integer(number).text()))?;
            }
            Ok(())
        }
        kind::HASH_ZIPMAP => {
            input.string(&mut text)?;
            zipmap(&text, &mut |what| input.damaged(what).into(), visit)
        }
        kind::LIST_ZIPLIST | kind::SORTED_SET_ZIPLIST | kind::HASH_ZIPLIST => {
            input.string(&mut text)?;
            let pack = Pack::ziplist(&text).map_err(|what| input.damaged(what))?;
            pack_of(input, of, pack, visit)
        }
        kind::HASH_LISTPACK | kind::SORTED_SET_LISTPACK | kind::SET_LISTPACK => {
            input.string(&mut text)?;
            let pack = Pack::listpack(&text).map_err(|what| input.damaged(what))?;
            pack_of(input, of, pack, visit)
        }
        kind::MODULE | kind::MODULE_2 => {
            let module = module_name(input.length()?);
            Err(input.unsupported(format!("a value of the module type {module}")).into())
        }
        kind::HASH_DEADLINES | kind::HASH_DEADLINES_EARLY | kind::HASH_VALKEY => fields_with_deadlines(input, of, visit),
        kind::HASH_LISTPACK_DEADLINES | kind::HASH_LISTPACK_DEADLINES_EARLY => {
            if of == kind::HASH_LISTPACK_DEADLINES {
                // The earliest one, which the fields have as well.
                input.array::<8>("a deadline")?;
            }
            input.string(&mut text)?;
            let pack = Pack::listpack(&text).map_err(|what| input.damaged(what))?;
            pack_of(input, kind::HASH_LISTPACK_DEADLINES, pack, visit)
        }
        other => Err(input.unsupported(format!("a value of type {other}")).into()),
    }
}

/// Reads strings, as many as the number before them says.
fn each<R: Read, E: From<Error>>(input: &mut Input<R>, visit: &mut dyn FnMut(&[u8]) -> Outcome<E>) -> Outcome<E> {
    let mut text = Vec::new();
    for _ in 0..input.length()? {
        input.string(&mut text)?;
        visit(&text)?;
    }
    Ok(())
}

fn fields<R: Read, E: From<Error>>(input: &mut Input<R>, visit: &mut Visit<E>) -> Outcome<E> {
    let (mut field, mut value) = (Vec::new(), Vec::new());
    for _ in 0..input.length()? {
        input.string(&mut field)?;
        input.string(&mut value)?;
        visit(Element::Field(&field, &value, None))?;
    }
    Ok(())
}

/// Reads a hash whose fields have deadlines: before each field, as a distance from the earliest one, which stands first and which
/// pre-releases did not write; in files of Valkey behind each field.
fn fields_with_deadlines<R: Read, E: From<Error>>(input: &mut Input<R>, of: u8, visit: &mut Visit<E>) -> Outcome<E> {
    const WRONG: &str = "a deadline of a field that is no time";
    let (mut field, mut value) = (Vec::new(), Vec::new());
    let first = if of == kind::HASH_DEADLINES { u64::from_le_bytes(input.array("a deadline")?) } else { 1 };
    for _ in 0..input.length()? {
        let mut deadline = match of {
            kind::HASH_VALKEY => None,
            _ => match input.length()? {
                0 => None,
                distance => Some(first.checked_add(distance - 1).ok_or_else(|| input.damaged(WRONG))?),
            },
        };
        input.string(&mut field)?;
        input.string(&mut value)?;
        if of == kind::HASH_VALKEY {
            deadline = match i64::from_le_bytes(input.array("a deadline")?) {
                -1 => None,
                time => Some(u64::try_from(time).map_err(|_| input.damaged(WRONG))?),
            };
        }
        visit(Element::Field(&field, &value, deadline))?;
    }
    Ok(())
}

fn scores<R: Read, E: From<Error>>(input: &mut Input<R>, of: u8, visit: &mut Visit<E>) -> Outcome<E> {
    let mut member = Vec::new();
    for _ in 0..input.length()? {
        input.string(&mut member)?;
        let score = if of == kind::SORTED_SET { f64::from_le_bytes(input.array("a score")?) } else { score_text(input)? };
        if score.is_nan() {
            return Err(input.damaged("a score that is no number").into());
        }
        visit(Element::Scored(&member, score))?;
    }
    Ok(())
}

/// Reads a score in decimal, with its length in a byte; the last three lengths stand for special values without digits.
fn score_text<R: Read>(input: &mut Input<R>) -> super::Result<f64> {
    let length = input.byte()?;
    let digits = match length {
        253 => return Ok(f64::NAN),
        254 => return Ok(f64::INFINITY),
        255 => return Ok(f64::NEG_INFINITY),
        length => length,
    };
    let mut text = [0u8; 253];
    let text = text.get_mut(..usize::from(digits)).unwrap_or_default();
    for byte in text.iter_mut() {
        *byte = input.byte()?;
    }
    parse_double(text).ok_or_else(|| input.damaged("a score that is no number"))
}

fn quicklist<R: Read, E: From<Error>>(input: &mut Input<R>, of: u8, visit: &mut Visit<E>) -> Outcome<E> {
    let mut text = Vec::new();
    for _ in 0..input.length()? {
        let container = if of == kind::LIST_QUICKLIST { PACKED } else { input.length()? };
        input.string(&mut text)?;
        if container == PLAIN {
            visit(Element::Item(&text))?;
            continue;
        }
        let pack = match of {
            _ if container != PACKED => Err("a node of a list of no known form"),
            kind::LIST_QUICKLIST => Pack::ziplist(&text),
            _ => Pack::listpack(&text),
        };
        let pack = pack.map_err(|what| input.damaged(what))?;
        pack_of(input, kind::LIST_ZIPLIST, pack, visit)?;
    }
    Ok(())
}

/// Reads the elements of a collection that is one string.
fn pack_of<R: Read, E: From<Error>>(input: &Input<R>, of: u8, mut pack: Pack, visit: &mut Visit<E>) -> Outcome<E> {
    let damaged = |what| input.damaged(what);
    match of {
        kind::LIST_ZIPLIST => {
            while let Some(item) = pack.next().map_err(damaged)? {
                visit(Element::Item(&item.text()))?;
            }
        }
        kind::SET_LISTPACK => {
            while let Some(member) = pack.next().map_err(damaged)? {
                visit(Element::Member(&member.text()))?;
            }
        }
        kind::HASH_ZIPLIST | kind::HASH_LISTPACK => {
            while let Some((field, value)) = pack.next_pair().map_err(damaged)? {
                visit(Element::Field(&field.text(), &value.text(), None))?;
            }
        }
        kind::HASH_LISTPACK_DEADLINES => {
            while let Some((field, value)) = pack.next_pair().map_err(damaged)? {
                let time = pack.next().map_err(damaged)?.and_then(Entry::integer).and_then(|time| u64::try_from(time).ok());
                let time = time.ok_or_else(|| damaged("a field without a deadline"))?;
                visit(Element::Field(&field.text(), &value.text(), Some(time).filter(|time| *time > 0)))?;
            }
        }
        _ => {
            while let Some((member, score)) = pack.next_pair().map_err(damaged)? {
                let score = score.score().ok_or_else(|| damaged("a score that is no number"))?;
                visit(Element::Scored(&member.text(), score))?;
            }
        }
    }
    Ok(())
}

fn zipmap<E>(bytes: &[u8], damaged: &mut dyn FnMut(Damage) -> E, visit: &mut Visit<E>) -> Outcome<E> {
    let mut map = Zipmap::new(bytes).map_err(&mut *damaged)?;
    while let Some((field, value)) = map.next().map_err(&mut *damaged)? {
        visit(Element::Field(field, value, None))?;
    }
    Ok(())
}

/// Name of a module, from the upper 54 bits of the number of its type: nine letters of six bits.
pub(super) fn module_name(number: u64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..9).rev().map(|n| char::from(LETTERS[usize::from((number >> (10 + 6 * n)) as u8 & 63)])).collect()
}
