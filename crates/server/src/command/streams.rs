//! Commands that add, read and remove entries of streams.

use super::arguments::{Rest, integer, is};
use super::members::size;
use super::spec::{DENYOOM, FAST, READ, WRITE};
use super::streams_ids::{entry_id, entry_ids, open_id, range_end, range_start, reply_id, reply_range, stream};
use super::streams_references::{self, References};
use super::{Command, Context, Failure, NO_SUCH_KEY, Outcome, SYNTAX, Session, wrong_arity};
use crate::keyspace::{Blocks, Change, Edit, EntryId, Keep, Kind, encode_fields};

/// Bytes of all fields and values of an entry, at most.
const ENTRY_MAX: usize = 512 << 20;
/// Blocks that a trim without `LIMIT` removes at most; entries that it removes at most if blocks are unbounded, and in any other case.
const BLOCKS_AT_ONCE: u64 = 100;
const TRIMMED_AT_ONCE: (u64, u64) = (10_000, 1_000_000);

const TWO_STRATEGIES: Failure = Failure::fixed("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    stream("xadd", -5, xadd)
        .flags(WRITE | DENYOOM | FAST)
        .says("Add an entry", "O(1), and O(n) for a trim, n being the entries that it removes"),
    stream("xdel", -3, xdel).flags(WRITE | FAST).says("Remove entries", "O(n), n being the number of ids"),
    stream("xlen", 2, xlen).flags(READ | FAST).says("How many entries there are", "O(1)"),
    stream("xrange", -4, xrange).flags(READ).says("The entries between two ids", "O(n), n being the entries that are returned"),
    stream("xrevrange", -4, xrevrange)
        .flags(READ)
        .says("The entries between two ids, backwards", "O(n), n being the entries that are returned"),
    stream("xsetid", -3, xsetid).flags(WRITE | DENYOOM | FAST).says("Set what is known of a stream beside its entries", "O(1)"),
    stream("xtrim", -4, xtrim).flags(WRITE).says("Remove the first entries", "O(n), n being the entries that are removed"),
];

/// Options of `XADD` and `XTRIM` for trimming.
#[derive(Debug, Default)]
struct Trim {
    keep: Option<Keep>,
    is_rough: bool,
    limit: Option<u64>,
    references: Option<References>,
}

impl Trim {
    /// Parses the option named `word`; false: it is none for trimming.
    fn parse(&mut self, word: &[u8], rest: &mut Rest) -> Result<bool, Failure> {
        if let Some(references) = References::parse(word) {
            let before = self.references.replace(references);
            return if before.is_none() { Ok(true) } else { Err(SYNTAX) };
        }
        let (by_length, by_id) = (is(word, "maxlen"), is(word, "minid"));
        if rest.len() == 0 {
            return Ok(false);
        }
        if is(word, "limit") {
            let limit = u64::try_from(rest.integer()?);
            self.limit = Some(limit.map_err(|_| Failure::fixed("ERR The LIMIT argument must be >= 0."))?);
            return Ok(true);
        }
        if !by_length && !by_id {
            return Ok(false);
        }
        if self.keep.is_some() {
            return Err(TWO_STRATEGIES);
        }
        let mut bound = rest.value()?;
        self.is_rough = false;
        if rest.len() > 0 && (bound == b"~" || bound == b"=") {
            self.is_rough = bound == b"~";
            bound = rest.value()?;
        }
        self.keep = Some(if by_length {
            let kept = u64::try_from(integer(bound)?);
            Keep::Newest(kept.map_err(|_| Failure::fixed("ERR The MAXLEN argument must be >= 0."))?)
        } else {
            Keep::From(entry_id(bound, 0)?)
        });
        Ok(true)
    }

    /// Checks that the options go together. `must`: a strategy is required. A primary, or a log, may have what is left of `~` and `LIMIT`
    /// in a request that Redis made exact: `= bound LIMIT number`.
    fn check(&self, session: &Session, must: bool) -> Outcome {
        let is_exact = !self.is_rough && !session.is_primary && !session.repeats_log;
        let text = match (self.keep, self.limit) {
            (None, Some(limit)) if limit > 0 => "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
            (None, _) if must => "ERR syntax error, XTRIM must be called with a trimming strategy",
            (_, Some(_)) if is_exact => "ERR syntax error, LIMIT cannot be used without the special ~ option",
            _ => return Ok(()),
        };
        Err(Failure::fixed(text))
    }

    /// Trims a stream; returns the number of removed entries, and their ids if they need not be the first ones.
    fn run(&self, context: &mut Context, edit: &mut Edit, key: &[u8]) -> Result<(u64, Vec<EntryId>), Failure> {
        let Some(keep) = self.keep else { return Ok((0, Vec::new())) };
        let size = context.server.configuration.stream_block;
        let usual = match size.saturating_mul(BLOCKS_AT_ONCE) {
            0 => TRIMMED_AT_ONCE.0,
            entries => entries.min(TRIMMED_AT_ONCE.1),
        };
        let limit = match self.limit {
            None => usual,
            Some(0) => u64::MAX,
            Some(limit) => limit,
        };
        let blocks = self.is_rough.then_some(Blocks { size, limit });
        let trimmed = streams_references::trim(context, (edit, key), self.references.unwrap_or_default(), (keep, blocks))?;
        match trimmed {
            Some(trimmed) => Ok(trimmed),
            None => Ok((context.keyspace.trim_entries(edit, keep, blocks)?, Vec::new())),
        }
    }
}

/// Id of a new entry.
#[derive(Debug, Clone, Copy)]
enum NewId {
    /// `*`: milliseconds from the clock.
    Time,
    /// `ms-*`: only the milliseconds are given.
    Millisecond(u64),
    /// `ms-seq`: all is given.
    Given(EntryId),
}

impl NewId {
    fn parse(text: &[u8]) -> Result<NewId, Failure> {
        let (ms, seq) = open_id(text, 0)?;
        Ok(seq.map_or(NewId::Millisecond(ms), |seq| NewId::Given(EntryId::new(ms, seq))))
    }

    /// The id of an entry behind `last`.
    fn resolve(self, last: EntryId, now: u64) -> Result<EntryId, Failure> {
        if last == EntryId::MAX {
            return Err(Failure::fixed("ERR The stream has exhausted the last possible ID, unable to add more items"));
        }
        let id = match self {
            NewId::Time if now > last.ms() => Some(EntryId::new(now, 0)),
            NewId::Time => last.after(),
            NewId::Millisecond(ms) if ms == last.ms() => last.after().filter(|id| id.ms() == ms),
            NewId::Millisecond(ms) => Some(EntryId::new(ms, 0)),
            NewId::Given(id) => Some(id),
        };
        let too_small = Failure::fixed("ERR The ID specified in XADD is equal or smaller than the target stream top item");
        id.filter(|id| *id > last).ok_or(too_small)
    }
}

fn xadd(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (mut trim, mut only_existing, mut id) = (Trim::default(), false, None);
    let mut rest = Rest::new(&arguments[2..]);
    while let Some(word) = rest.next() {
        match () {
            () if word == b"*" => id = Some(NewId::Time),
            () if trim.parse(word, &mut rest)? => continue,
            () if is(word, "nomkstream") => {
                only_existing = true;
                continue;
            }
            () => id = Some(NewId::parse(word)?),
        }
        break;
    }
    trim.check(context.session, false)?;
    let pairs = &arguments[arguments.len() - rest.len()..];
    let id = id.filter(|_| pairs.len() >= 2 && pairs.len().is_multiple_of(2)).ok_or_else(|| wrong_arity(b"xadd"))?;
    if matches!(id, NewId::Given(EntryId::MIN)) {
        return Err(Failure::fixed("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let key = arguments[1];
    if only_existing && context.find_stream(key)?.is_none() {
        context.reply.null();
        return Ok(());
    }
    let mut edit = context.keyspace.edit(context.session.db, key, Kind::Stream)?;
    let id = id.resolve(edit.head.stream.last, context.keyspace.now())?;
    if pairs.iter().map(|text| text.len()).sum::<usize>() > ENTRY_MAX {
        return Err(Failure::fixed("ERR Elements are too large to be stored"));
    }
    context.keyspace.append(&mut edit, id, encode_fields(pairs));
    let (trimmed, gone) = trim.run(context, &mut edit, key)?;
    context.keyspace.finish(&edit);
    if trim.references == Some(References::Obey) {
        log_added(context, (key, id), pairs, (edit.head.count, trimmed, &gone));
    }
    if trimmed > 0 {
        context.keyspace.note(context.session.db, key, Change::Trimmed);
    }
    reply_id(&mut context.reply, id);
    Ok(())
}

/// Logs an added entry for the AOF, and the entries trimmed with it: ids, or a number of entries at the start.
fn log_added(context: &mut Context, (key, id): (&[u8], EntryId), pairs: &[&[u8]], (count, trimmed, gone): (u64, u64, &[EntryId])) {
    if !context.server.feed.is_on() {
        return;
    }
    let (id, count) = (id.to_string(), count.to_string());
    let mut words = vec![&b"XADD"[..], key];
    if trimmed > 0 && gone.is_empty() {
        words.extend([&b"MAXLEN"[..], b"=", count.as_bytes()]);
    }
    words.push(id.as_bytes());
    words.extend(pairs);
    context.server.feed.put(context.session.db, &words);
    streams_references::log_removed(context, key, gone);
}

fn xtrim(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let mut trim = Trim::default();
    let mut rest = Rest::new(&arguments[2..]);
    while let Some(word) = rest.next() {
        if !trim.parse(word, &mut rest)? {
            return Err(SYNTAX);
        }
    }
    trim.check(context.session, true)?;
    let key = arguments[1];
    let mut edit = context.keyspace.edit(context.session.db, key, Kind::Stream)?;
    let (removed, gone) = if edit.existed() { trim.run(context, &mut edit, key)? } else { (0, Vec::new()) };
    if !gone.is_empty() {
        streams_references::log_removed(context, key, &gone);
    } else if removed > 0 && trim.references == Some(References::Obey) && context.server.feed.is_on() {
        let count = edit.head.count.to_string();
        context.server.feed.put(context.session.db, &[b"XTRIM", key, b"MAXLEN", b"=", count.as_bytes()]);
    }
    reply_removed(context, &edit, removed)
}

/// Finishes the change, if there was one, and replies with the number of removed entries.
fn reply_removed(context: &mut Context, edit: &Edit, removed: u64) -> Outcome {
    if removed > 0 {
        context.keyspace.finish(edit);
    }
    context.reply.integer(i64::try_from(removed).unwrap_or(i64::MAX));
    Ok(())
}

fn xdel(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::Stream)?;
    let ids = if edit.existed() { entry_ids(&arguments[2..])? } else { Vec::new() };
    let removed = context.keyspace.remove_entries(&mut edit, &ids)?;
    reply_removed(context, &edit, removed)
}

fn xlen(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let head = context.find_stream(arguments[1])?;
    context.reply.count(size(head.as_ref()));
    Ok(())
}

fn range(context: &mut Context, arguments: &[&[u8]], backward: bool) -> Outcome {
    let (start, end) = if backward { (arguments[3], arguments[2]) } else { (arguments[2], arguments[3]) };
    let range = (range_start(start)?, range_end(end)?);
    let mut most = None;
    let mut rest = Rest::new(&arguments[4..]);
    while let Some(word) = rest.next() {
        if !is(word, "count") {
            return Err(SYNTAX);
        }
        most = Some(u64::try_from(rest.integer()?).unwrap_or(0));
    }
    match (context.find_stream(arguments[1])?, most) {
        (None, _) => context.reply.array(0),
        (Some(_), Some(0)) => context.reply.null_array(),
        (Some(head), most) => {
            reply_range(&mut context.reply, context.keyspace, &head, range, backward, most.unwrap_or(0))?;
        }
    }
    Ok(())
}

fn xrange(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    range(context, arguments, false)
}

fn xrevrange(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    range(context, arguments, true)
}

fn xsetid(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let last = entry_id(arguments[2], 0)?;
    let (mut added, mut max_deleted) = (None, EntryId::MIN);
    let mut rest = Rest::new(&arguments[3..]);
    while let Some(word) = rest.next() {
        match () {
            () if is(word, "entriesadded") && rest.len() > 0 => {
                let number = u64::try_from(rest.integer()?);
                added = Some(number.map_err(|_| Failure::fixed("ERR entries_added must be positive"))?);
            }
            () if is(word, "maxdeletedid") && rest.len() > 0 => {
                max_deleted = entry_id(rest.value()?, 0)?;
                if last < max_deleted {
                    return Err(Failure::fixed("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"));
                }
            }
            () => return Err(SYNTAX),
        }
    }
    let mut edit = context.keyspace.edit(context.session.db, arguments[1], Kind::Stream)?;
    if !edit.existed() {
        return Err(NO_SUCH_KEY);
    }
    let head = &mut edit.head;
    if context.keyspace.last_entry(head)?.is_some_and(|top| last < top) {
        return Err(Failure::fixed("ERR The ID specified in XSETID is smaller than the target stream top item"));
    }
    if added.is_some_and(|added| added < head.count) {
        return Err(Failure::fixed("ERR The entries_added specified in XSETID is smaller than the target stream length"));
    }
    head.stream.last = last;
    head.stream.added = added.unwrap_or(head.stream.added);
    if max_deleted != EntryId::MIN {
        head.stream.max_deleted = max_deleted;
    }
    context.keyspace.finish_unwatched(&edit);
    context.reply.ok();
    Ok(())
}
