//! Commands for lists.

use super::arguments::{Rest, integer, integer_or, is, not_negative, numbered_keys, span};
use super::members::size;
use super::spec::{DENYOOM, FAST, MOVABLE, READ, Run, WRITE};
use super::{Command, Context, Failure, Group, NO_SUCH_KEY, Outcome, SYNTAX};
use crate::keyspace::{Head, Kind, Side};
use crate::resp::Writer;
use std::ops::ControlFlow;

const INDEX: Failure = Failure::fixed("ERR index out of range");

const fn list(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::List, name, arity, run).keys(1, 1, 1)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    list("lindex", 3, lindex).flags(READ).says("The item at a position", "O(1)"),
    list("linsert", 5, linsert)
        .flags(WRITE | DENYOOM)
        .since("2.2.0")
        .says("Insert an item before or behind another", "O(n), n being the items up to the other, and those from there to the nearer end"),
    list("llen", 2, llen).flags(READ | FAST).says("How many items there are", "O(1)"),
    list("lmove", 5, lmove)
        .keys(1, 2, 1)
        .flags(WRITE | DENYOOM)
        .since("6.2.0")
        .says("Move an item from an end of a list to one of another", "O(1)"),
    list("lmpop", -4, lmpop)
        .keys(0, 0, 0)
        .flags(WRITE | MOVABLE)
        .since("7.0.0")
        .says("Remove items from the first list that has any", "O(n+m), n being the keys and m the items"),
    list("lpop", -2, lpop).flags(WRITE | FAST).says("Remove the first items", "O(n), n being the number of items"),
    list("lpos", -3, lpos).flags(READ).since("6.0.6").says("The positions of an item", "O(n), n being the size of the list"),
    list("lpush", -3, lpush).flags(WRITE | DENYOOM | FAST).says("Add items in front", "O(n), n being the number of items"),
    list("lpushx", -3, lpushx)
        .flags(WRITE | DENYOOM | FAST)
        .since("2.2.0")
        .says("Add items in front of a list that exists", "O(n), n being the number of items"),
    list("lrange", 4, lrange).flags(READ).says("The items between two positions", "O(n), n being the number of items"),
    list("lrem", 4, lrem).flags(WRITE).says("Remove items that are equal to one", "O(n), n being the size of the list"),
    list("lset", 4, lset).flags(WRITE | DENYOOM).says("Replace the item at a position", "O(1)"),
    list("ltrim", 4, ltrim)
        .flags(WRITE)
        .says("Keep the items between two positions", "O(n), n being the number of items removed, up to a limit"),
    list("rpop", -2, rpop).flags(WRITE | FAST).says("Remove the last items", "O(n), n being the number of items"),
    list("rpoplpush", 3, rpoplpush)
        .keys(1, 2, 1)
        .flags(WRITE | DENYOOM)
        .since("1.2.0")
        .says("Move the last item of a list to the front of another", "O(1)"),
    list("rpush", -3, rpush).flags(WRITE | DENYOOM | FAST).says("Add items behind", "O(n), n being the number of items"),
    list("rpushx", -3, rpushx)
        .flags(WRITE | DENYOOM | FAST)
        .since("2.2.0")
        .says("Add items behind a list that exists", "O(n), n being the number of items"),
];

fn push(context: &mut Context, arguments: &[&[u8]], side: Side, only_existing: bool) -> Outcome {
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::List)?;
    if edit.existed() || !only_existing {
        for value in &arguments[2..] {
            context.keyspace.push(&mut edit, side, value)?;
        }
        context.keyspace.finish(&edit);
    }
    context.reply.count(size(Some(&edit.head)));
    Ok(())
}

fn lpush(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    push(context, arguments, Side::Left, false)
}

fn rpush(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    push(context, arguments, Side::Right, false)
}

fn lpushx(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    push(context, arguments, Side::Left, true)
}

fn rpushx(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    push(context, arguments, Side::Right, true)
}

/// Removes up to `most` items at one end.
pub(super) fn take(context: &mut Context, key: &[u8], side: Side, most: u64) -> Result<Vec<Vec<u8>>, Failure> {
    let mut edit = context.keyspace.edit(context.session.db, key, Kind::List)?;
    let items = context.keyspace.pop(&mut edit, side, most)?;
    if !items.is_empty() {
        context.keyspace.finish(&edit);
    }
    Ok(items)
}

fn reply_items(reply: &mut Writer, items: &[Vec<u8>]) {
    reply.array(items.len());
    items.iter().for_each(|item| reply.bulk(item));
}

fn pop(context: &mut Context, arguments: &[&[u8]], side: Side) -> Outcome {
    if arguments.len() > 3 {
        return Err(super::wrong_arity(arguments[0]));
    }
    let most = arguments.get(2).map(|text| not_negative(text)).transpose()?;
    match most {
        None => {
            let items = take(context, arguments[1], side, 1)?;
            context.reply.bulk_or_null(items.first().map(Vec::as_slice));
        }
        Some(_) if context.keyspace.find_kind(context.session.db, arguments[1], Kind::List)?.is_none() => context.reply.null_array(),
        Some(most) => {
            let items = take(context, arguments[1], side, most)?;
            reply_items(&mut context.reply, &items);
        }
    }
    Ok(())
}

fn lpop(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    pop(context, arguments, Side::Left)
}

fn rpop(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    pop(context, arguments, Side::Right)
}

pub(super) fn side(text: &[u8]) -> Result<Side, Failure> {
    match () {
        () if is(text, "left") => Ok(Side::Left),
        () if is(text, "right") => Ok(Side::Right),
        () => Err(SYNTAX),
    }
}

/// Parses the end to remove from and the number of items, behind the keys.
pub(super) fn side_and_count(rest: &[&[u8]]) -> Result<(Side, u64), Failure> {
    let mut rest = Rest::new(rest);
    let from = side(rest.value()?)?;
    Ok((from, rest.take_count()?))
}

/// Removes items at one end; the reply has the key and the items.
pub(super) fn take_and_reply(context: &mut Context, key: &[u8], from: Side, most: u64) -> Outcome {
    let items = take(context, key, from, most)?;
    context.reply.array(2);
    context.reply.bulk(key);
    reply_items(&mut context.reply, &items);
    Ok(())
}

fn lmpop(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (keys, rest) = numbered_keys(&arguments[1..], SYNTAX)?;
    let (from, most) = side_and_count(rest)?;
    for key in keys {
        if context.find(key, Kind::List)?.is_some() {
            return take_and_reply(context, key, from, most);
        }
    }
    context.reply.null_array();
    Ok(())
}

fn llen(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = context.keyspace.find_kind(context.session.db, arguments[1], Kind::List)?;
    context.reply.count(size(head.as_ref()));
    Ok(())
}

/// The position for an index of the client, negative ones counted from the end; `None`: it is outside.
fn position(number: i64, head: &Head) -> Option<u64> {
    let position = if number < 0 { head.count.checked_sub(number.unsigned_abs())? } else { number.unsigned_abs() };
    (position < head.count).then_some(position)
}

fn lindex(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = context.find(arguments[1], Kind::List)?;
    let number = if head.is_some() { integer(arguments[2])? } else { 0 };
    let item = match head.and_then(|head| position(number, &head).map(|at| (head, at))) {
        Some((head, position)) => context.keyspace.item(&head, position)?,
        None => None,
    };
    context.reply.bulk_or_null(item.as_deref());
    Ok(())
}

fn lset(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::List)?;
    if !edit.existed() {
        return Err(NO_SUCH_KEY);
    }
    let at = position(integer(arguments[2])?, &edit.head).ok_or(INDEX)?;
    context.keyspace.set_item(&mut edit, at, arguments[3])?;
    context.keyspace.finish(&edit);
    context.reply.ok();
    Ok(())
}

fn lrange(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (start, end) = (integer(arguments[2])?, integer(arguments[3])?);
    let found = context.find(arguments[1], Kind::List)?;
    let Some((head, (from, to))) = found.and_then(|head| span(start, end, head.count).map(|span| (head, span))) else {
        context.reply.array(0);
        return Ok(());
    };
    context.reply.array(usize::try_from(to - from).unwrap_or(usize::MAX));
    let Context { keyspace, reply, .. } = context;
    keyspace.walk_items(&head, (from, to), false, &mut |item| {
        reply.bulk(item);
        ControlFlow::Continue(())
    })?;
    Ok(())
}

fn ltrim(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (start, end) = (integer(arguments[2])?, integer(arguments[3])?);
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::List)?;
    if edit.existed() {
        let (from, to) = span(start, end, edit.head.count).unwrap_or((0, 0));
        context.keyspace.trim(&mut edit, from, to)?;
        context.keyspace.finish(&edit);
    }
    context.reply.ok();
    Ok(())
}

fn lrem(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let number = integer(arguments[2])?;
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::List)?;
    let most = if number == 0 { u64::MAX } else { number.unsigned_abs() };
    let removed = context.keyspace.remove_items(&mut edit, arguments[3], most, number < 0)?;
    if removed > 0 {
        context.keyspace.finish(&edit);
    }
    context.reply.integer(i64::try_from(removed).unwrap_or(i64::MAX));
    Ok(())
}

fn linsert(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let behind = match () {
        () if is(arguments[2], "before") => false,
        () if is(arguments[2], "after") => true,
        () => return Err(SYNTAX),
    };
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::List)?;
    if !edit.existed() {
        context.reply.integer(0);
    } else if context.keyspace.insert_item(&mut edit, arguments[3], behind, arguments[4])? {
        context.keyspace.finish(&edit);
        context.reply.count(size(Some(&edit.head)));
    } else {
        context.reply.integer(-1);
    }
    Ok(())
}

pub(super) fn move_item(context: &mut Context, from: (&[u8], Side), to: (&[u8], Side)) -> Outcome {
    let db = context.db();
    if context.find(from.0, Kind::List)?.is_none() {
        context.reply.null();
        return Ok(());
    }
    context.find(to.0, Kind::List)?;
    if from.0 == to.0 {
        return turn_list(context, from, to.1);
    }
    let Some(item) = take(context, from.0, from.1, 1)?.pop() else {
        context.reply.null();
        return Ok(());
    };
    let mut edit = context.keyspace.edit(db, to.0, Kind::List)?;
    context.keyspace.push(&mut edit, to.1, &item)?;
    context.keyspace.finish(&edit);
    context.reply.bulk(&item);
    Ok(())
}

/// Moves an item within a list. The list is never removed meanwhile, even if this was its only item.
fn turn_list(context: &mut Context, from: (&[u8], Side), to: Side) -> Outcome {
    let mut edit = context.keyspace.edit(context.db(), from.0, Kind::List)?;
    let item = context.keyspace.pop(&mut edit, from.1, 1)?.pop();
    if let Some(item) = &item {
        context.keyspace.push(&mut edit, to, item)?;
    }
    context.keyspace.finish(&edit);
    context.reply.bulk_or_null(item.as_deref());
    Ok(())
}

fn lmove(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (from, to) = (side(arguments[3])?, side(arguments[4])?);
    move_item(context, (arguments[1], from), (arguments[2], to))
}

fn rpoplpush(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    move_item(context, (arguments[1], Side::Right), (arguments[2], Side::Left))
}

/// Options of `LPOS`.
struct Search {
    rank: i64,
    /// `None`: only the first match, and no array.
    count: Option<u64>,
    length_max: u64,
}

impl Search {
    fn parse(options: &[&[u8]]) -> Result<Search, Failure> {
        const RANK: Failure = Failure::fixed(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
             or use negative to start from the end of the list",
        );
        let mut search = Search { rank: 1, count: None, length_max: 0 };
        let mut rest = Rest::new(options);
        while let Some(word) = rest.next() {
            let value = rest.value()?;
            match () {
                () if is(word, "rank") => {
                    // Redis cannot negate the smallest integer, and takes all matches to be of at least that rank.
                    search.rank = Some(integer(value)?).filter(|rank| *rank != i64::MIN).unwrap_or(-1);
                    if search.rank == 0 {
                        return Err(RANK);
                    }
                }
                () if is(word, "count") => {
                    let negative = Failure::fixed("ERR COUNT can't be negative");
                    search.count =
                        Some(u64::try_from(integer_or(value, Failure::fixed("ERR COUNT can't be negative"))?).map_err(|_| negative)?);
                }
                () if is(word, "maxlen") => {
                    let negative = Failure::fixed("ERR MAXLEN can't be negative");
                    search.length_max =
                        u64::try_from(integer_or(value, Failure::fixed("ERR MAXLEN can't be negative"))?).map_err(|_| negative)?;
                }
                () => return Err(SYNTAX),
            }
        }
        Ok(search)
    }
}

fn lpos(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let search = Search::parse(&arguments[3..])?;
    let wanted = arguments[2];
    let mut found = Vec::new();
    if let Some(head) = context.find(arguments[1], Kind::List)? {
        // A count of 0 asks for all matches.
        let most = search.count.map_or(1, |count| if count == 0 { u64::MAX } else { count });
        let backward = search.rank < 0;
        let (mut passed, mut skip) = (0u64, search.rank.unsigned_abs() - 1);
        context.keyspace.walk_items(&head, (0, head.count), backward, &mut |item| {
            if search.length_max > 0 && passed == search.length_max {
                return ControlFlow::Break(());
            }
            if item == wanted {
                if skip == 0 {
                    found.push(if backward { head.count - 1 - passed } else { passed });
                } else {
                    skip -= 1;
                }
            }
            passed += 1;
            if found.len() as u64 == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    let number = |position: u64| i64::try_from(position).unwrap_or(i64::MAX);
    match search.count {
        Some(_) => {
            context.reply.array(found.len());
            found.iter().for_each(|position| context.reply.integer(number(*position)));
        }
        None => match found.first() {
            Some(position) => context.reply.integer(number(*position)),
            None => context.reply.null(),
        },
    }
    Ok(())
}
