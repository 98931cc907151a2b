//! `SORT`: sorts the elements of lists, sets and sorted sets, by themselves or by values of other keys.

use super::arguments::{Rest, is};
use super::spec::{DANGEROUS, DENYOOM, MOVABLE, READ, Run, WRITE};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX};
use crate::keyspace::{Collection, Error, Kind, Side, check_key, check_member};
use crate::number::{c_number, parse_double};
use std::cmp::Ordering;
use std::ops::ControlFlow;

const fn sorting(name: &'static str, run: Run) -> Command {
    Command::new(Group::Generic, name, -2, run)
        .keys(1, 1, 1)
        .says("Elements of a list, set or sorted set in order", "O(n+m*log(m)), n being the elements and m those sorted")
}

/// Indices of the key to sort and of the last `STORE` key. Keys read by `BY` and `GET` depend on the elements and are not among the
/// arguments.
fn keys(arguments: &[&[u8]]) -> Option<Vec<usize>> {
    let (mut at, mut stored) = (2, None);
    while let Some(word) = arguments.get(at) {
        at += match () {
            () if is(word, "limit") => 3,
            () if is(word, "get") || is(word, "by") => 2,
            () if is(word, "store") && at + 1 < arguments.len() => {
                stored = Some(at + 1);
                2
            }
            () => 1,
        };
    }
    Some(std::iter::once(1).chain(stored).collect())
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    sorting("sort", sort).finds_keys(keys).flags(WRITE | DENYOOM | MOVABLE | DANGEROUS),
    sorting("sort_ro", sort_ro).flags(READ | MOVABLE | DANGEROUS).since("7.0.0"),
];

/// Source of the value that belongs to an element (a pattern of `BY` or `GET`).
#[derive(Debug, Clone, Copy)]
enum Pattern<'a> {
    /// The element itself.
    Element,
    /// No value: the pattern names one key for all elements.
    Nothing,
    /// A key with the element in its name, or a field of its hash.
    Key { before: &'a [u8], behind: &'a [u8], field: Option<&'a [u8]> },
}

impl<'a> Pattern<'a> {
    fn new(text: &'a [u8]) -> Self {
        if text == b"#" {
            return Pattern::Element;
        }
        let Some(star) = text.iter().position(|byte| *byte == b'*') else { return Pattern::Nothing };
        let (before, behind) = (&text[..star], &text[star + 1..]);
        // An arrow at the end of the pattern is part of the key.
        match behind.windows(2).position(|pair| pair == b"->").filter(|arrow| arrow + 2 < behind.len()) {
            Some(arrow) => Pattern::Key { before, behind: &behind[..arrow], field: Some(&behind[arrow + 2..]) },
            None => Pattern::Key { before, behind, field: None },
        }
    }

    /// The value for an element.
    fn value(&self, context: &mut Context, element: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let (before, behind, field) = match *self {
            Pattern::Element => return Ok(Some(element.to_vec())),
            Pattern::Nothing => return Ok(None),
            Pattern::Key { before, behind, field } => (before, behind, field),
        };
        let key = [before, element, behind].concat();
        // A name that is too long for a key or member cannot exist.
        if check_key(&key).is_err() || field.is_some_and(|field| check_member(field).is_err()) {
            return Ok(None);
        }
        let Some(head) = looked_up(context, &key)? else { return Ok(None) };
        Ok(match (head.kind, field) {
            (Kind::Hash, Some(field)) => context.keyspace.member(&head, field)?,
            (Kind::String, None) => context.keyspace.string(context.session.db, &key)?.map(<[u8]>::to_vec),
            _ => None,
        })
    }
}

/// The value at a key that is read, of any type.
fn looked_up(context: &mut Context, key: &[u8]) -> Result<Option<Collection>, Failure> {
    Ok(context.counted(|context| context.keyspace.find_collection(context.session.db, key))?)
}

/// Options of `SORT`.
#[derive(Debug)]
struct Request<'a> {
    backward: bool,
    alphabetic: bool,
    /// Elements to skip, and elements to take at most; negative: all.
    limit: (i64, i64),
    by: Option<Pattern<'a>>,
    get: Vec<Pattern<'a>>,
    store: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// `may_read_all`: the user may read every key, as `BY` and `GET` with patterns need.
    fn parse(options: &[&'a [u8]], may_store: bool, may_read_all: bool) -> Result<Self, Failure> {
        let mut request = Request { backward: false, alphabetic: false, limit: (0, -1), by: None, get: Vec::new(), store: None };
        let mut rest = Rest::new(options);
        while let Some(word) = rest.next() {
            match () {
                () if is(word, "asc") => request.backward = false,
                () if is(word, "desc") => request.backward = true,
                () if is(word, "alpha") => request.alphabetic = true,
                () if is(word, "limit") && rest.len() >= 2 => request.limit = (rest.integer()?, rest.integer()?),
                () if is(word, "store") && may_store => request.store = Some(rest.value()?),
                () if is(word, "by") => {
                    let pattern = rest.value()?;
                    request.by = Some(if pattern.contains(&b'*') { Pattern::new(pattern) } else { Pattern::Nothing });
                    if pattern.contains(&b'*') && !may_read_all {
                        return Err(Failure::fixed("ERR BY option of SORT denied due to insufficient ACL permissions."));
                    }
                }
                () if is(word, "get") && !may_read_all => {
                    return Err(Failure::fixed("ERR GET option of SORT denied due to insufficient ACL permissions."));
                }
                () if is(word, "get") => request.get.push(Pattern::new(rest.value()?)),
                () => return Err(SYNTAX),
            }
        }
        Ok(request)
    }

    /// Whether the elements are left in their order.
    fn is_unsorted(&self) -> bool {
        matches!(self.by, Some(Pattern::Nothing))
    }

    /// Range of positions in the result to take (end excluded), out of `count` elements.
    fn span(&self, count: u64) -> (u64, u64) {
        let (skip, most) = self.limit;
        let from = u64::try_from(skip).unwrap_or(0).min(count);
        (from, from.saturating_add(u64::try_from(most).unwrap_or(u64::MAX)).min(count))
    }
}

/// An element and its sort key.
struct Item {
    element: Vec<u8>,
    number: f64,
    text: Option<Vec<u8>>,
}

/// A number as `strtod` reads it: leading blanks are skipped, a zero byte ends it, and empty text is zero.
fn weight(text: &[u8]) -> Option<f64> {
    parse_double(c_number(text))
}

/// Loads the elements of a range of positions (end excluded), backwards if asked; of a set always all, in no order.
fn load(context: &mut Context, head: &Collection, (from, to): (u64, u64), backward: bool) -> Result<Vec<Vec<u8>>, Failure> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    // Backwards, positions count from the end.
    let span = if backward { (head.count - to, head.count - from) } else { (from, to) };
    match head.kind {
        Kind::List => context.keyspace.walk_items(head, span, backward, &mut |item| {
            found.push(item.to_vec());
            ControlFlow::Continue(())
        })?,
        Kind::SortedSet => context.keyspace.walk_ranks(head, span, backward, &mut |member, _| {
            found.push(member.to_vec());
            ControlFlow::Continue(())
        })?,
        _ => {
            let mut passed = 0;
            context.keyspace.walk_members(head, &mut |member, _| {
                if passed >= from && passed < to {
                    found.push(member.to_vec());
                }
                passed += 1;
                if passed >= to { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
    }
    Ok(found)
}

/// All elements, sorted.
fn sorted(context: &mut Context, head: &Collection, request: &Request) -> Result<Vec<Vec<u8>>, Failure> {
    let by = request.by.filter(|_| !request.is_unsorted());
    let mut items = Vec::new();
    for element in load(context, head, (0, head.count), false)? {
        let mut item = Item { element, number: 0.0, text: None };
        if let Some(by) = by {
            item.text = by.value(context, &item.element)?;
        }
        if !request.alphabetic {
            const WRONG: Failure = Failure::fixed("ERR One or more scores can't be converted into double");
            item.number = match (by, item.text.take()) {
                (None, _) => weight(&item.element).ok_or(WRONG)?,
                (Some(_), None) => 0.0,
                (Some(_), Some(text)) => weight(&text).ok_or(WRONG)?,
            };
        }
        items.push(item);
    }
    // With `STORE` all bytes are compared. Otherwise the elements are compared as C strings, which end at a zero byte.
    let end = |text: &Vec<u8>| text.iter().position(|byte| *byte == 0 && request.store.is_none()).unwrap_or(text.len());
    let alphabetic = |a: &Vec<u8>, b: &Vec<u8>| a[..end(a)].cmp(&b[..end(b)]);
    let order = |a: &Item, b: &Item| match (request.alphabetic, by) {
        // Elements with equal numbers are ordered by their bytes, so that the order is unique.
        (false, _) => a.number.partial_cmp(&b.number).unwrap_or(Ordering::Equal).then_with(|| a.element.cmp(&b.element)),
        (true, None) => alphabetic(&a.element, &b.element),
        (true, Some(_)) => match (&a.text, &b.text) {
            (Some(a), Some(b)) => alphabetic(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        },
    };
    items.sort_by(|a, b| if request.backward { order(b, a) } else { order(a, b) });
    Ok(items.into_iter().map(|item| item.element).collect())
}

/// The elements of the result, in order.
fn wanted(context: &mut Context, head: &Collection, request: &mut Request) -> Result<Vec<Vec<u8>>, Failure> {
    let (from, to) = request.span(head.count);
    if request.is_unsorted() && head.kind == Kind::Set && (request.store.is_some() || context.session.is_script) {
        // Sorted, so that the stored list, or what a script does, does not depend on the internal order of the set.
        (request.by, request.alphabetic) = (None, true);
    }
    if request.is_unsorted() {
        let backward = request.backward && head.kind != Kind::Set;
        return load(context, head, (from, to), backward);
    }
    let mut all = sorted(context, head, request)?;
    all.truncate(usize::try_from(to).unwrap_or(usize::MAX));
    drop(all.drain(..usize::try_from(from).unwrap_or(usize::MAX).min(all.len())));
    Ok(all)
}

fn run(context: &mut Context, arguments: &[&[u8]], may_store: bool) -> Outcome {
    let name = if may_store { "sort" } else { "sort_ro" };
    let may_read_all = context.server.may_read_all(context.session, name, arguments);
    let mut request = Request::parse(&arguments[2..], may_store, may_read_all)?;
    let head = looked_up(context, arguments[1])?;
    let elements = match head {
        None => Vec::new(),
        Some(head) if !matches!(head.kind, Kind::List | Kind::Set | Kind::SortedSet) => return Err(Error::WrongType.into()),
        Some(head) => wanted(context, &head, &mut request)?,
    };
    if request.get.is_empty() {
        request.get.push(Pattern::Element);
    }
    let Some(target) = request.store else {
        // Values are read and written one by one: together they could be too large for memory, as the elements may name one large value
        // many times.
        context.reply.array(elements.len() * request.get.len());
        for element in elements {
            for pattern in &request.get {
                let value = pattern.value(context, &element)?;
                context.reply.bulk_or_null(value.as_deref());
            }
        }
        return Ok(());
    };
    check_key(target)?;
    let mut values: Vec<Option<Vec<u8>>> = Vec::with_capacity(elements.len());
    for element in elements {
        for pattern in &request.get {
            values.push(pattern.value(context, &element)?);
        }
    }
    context.keyspace.remove(context.session.db, target)?;
    let mut edit = context.keyspace.edit(context.session.db, target, Kind::List)?;
    for value in &values {
        context.keyspace.push(&mut edit, Side::Right, value.as_deref().unwrap_or_default())?;
    }
    context.keyspace.finish(&edit);
    context.reply.count(values.len());
    Ok(())
}

fn sort(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    run(context, arguments, true)
}

fn sort_ro(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    run(context, arguments, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_as_c_does() {
        for (text, number) in
            [(&b"1.5"[..], Some(1.5)), (b"", Some(0.0)), (b" \t7", Some(7.0)), (b"1\0x", Some(1.0)), (b"-inf", Some(f64::NEG_INFINITY))]
        {
            assert_eq!(weight(text), number, "{text:?}");
        }
        for text in [&b"x"[..], b" ", b"1 ", b"nan", b"1e999"] {
            assert_eq!(weight(text), None, "{text:?}");
        }
    }

    #[test]
    fn patterns_have_a_star_and_perhaps_a_field() {
        let parts = |text: &'static str| match Pattern::new(text.as_bytes()) {
            Pattern::Key { before, behind, field } => [before, b"|", behind, b"|", field.unwrap_or(b"none")].concat(),
            Pattern::Element => b"element".to_vec(),
            Pattern::Nothing => b"nothing".to_vec(),
        };
        for (text, expected) in [
            ("#", "element"),
            ("a", "nothing"),
            ("", "nothing"),
            ("a*b", "a|b|none"),
            ("*", "||none"),
            ("a->*b*->f->g", "a->|b*|f->g"),
            ("a*->", "a|->|none"),
            ("##", "nothing"),
        ] {
            assert_eq!(parts(text), expected.as_bytes(), "{text}");
        }
    }
}
