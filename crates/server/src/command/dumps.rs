//! Values in Redis's serialization format, for moving a key from one server to another.

use super::arguments::{Rest, integer, is};
use super::spec::{ASKING, DANGEROUS, DENYOOM, READ, Run, WRITE};
use super::{Command, Context, Failure, Group, LaterString, Outcome, SYNTAX};
use crate::keyspace::check_key;
use crate::log::Level;
use crate::persist::{LoadError, LongDump, Pieces, SaveError, dump as dump_value, load};
use crate::rdb::{END_OF_VALUE, Element, Input, StreamElement, long_value, open_value, read_value, value_kind};
use std::fmt::Display;

const fn dumps(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Generic, name, arity, run).keys(1, 1, 1).since("2.6.0")
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    dumps("dump", 2, dump).flags(READ).says("What a key holds, in Redis's format", "O(n), n being the number of elements"),
    dumps("restore", -4, restore)
        .flags(WRITE | DENYOOM | DANGEROUS)
        .says("Make a key of what DUMP gave", "O(n), n being the number of elements"),
    dumps("restore-asking", -4, restore)
        .flags(WRITE | DENYOOM | DANGEROUS | ASKING)
        .since("3.0.0")
        .says("RESTORE under another name, for clusters", "O(n), n being the number of elements"),
];

const WRONG: Failure = Failure::fixed("ERR DUMP payload version or checksum are wrong");
const BAD_FORMAT: Failure = Failure::fixed("ERR Bad data format");

impl From<SaveError> for Failure {
    fn from(error: SaveError) -> Self {
        match error {
            SaveError::Keyspace(error) => Failure::Keyspace(error),
            error => Failure::new(format!("ERR {error}")),
        }
    }
}

fn dump(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (db, key) = (context.db(), arguments[1]);
    let Some(head) = context.keyspace.find(db, key)? else {
        context.reply.null();
        return Ok(());
    };
    if head.is_in_pieces()
        && let Some(reader) = context.keyspace.string_reader(0, head.count)
    {
        let dump = LongDump::new(reader)?;
        let place = context.reply.bulk_later(dump.left());
        context.session.later.push((place, LaterString::Dump(dump)));
        return Ok(());
    }
    let body = context.keyspace.body(&head)?;
    let payload = dump_value(context.keyspace, &head, &body)?;
    context.reply.bulk(&payload);
    Ok(())
}

/// Options of `RESTORE`.
#[derive(Default)]
struct Options {
    replaces: bool,
    /// The time to live is a unix time.
    is_absolute: bool,
}

impl Options {
    /// Parses the options. `IDLETIME` and `FREQ` tell Redis when to evict the key; here they are only checked, and the key counts as new.
    fn parse(words: &[&[u8]]) -> Result<Options, Failure> {
        let mut options = Options::default();
        let (mut idles, mut counts) = (false, false);
        let mut rest = Rest::new(words);
        while let Some(word) = rest.next() {
            match () {
                () if is(word, "replace") => options.replaces = true,
                () if is(word, "absttl") => options.is_absolute = true,
                () if is(word, "idletime") && rest.len() > 0 && !counts => {
                    idles = true;
                    if rest.integer()? < 0 {
                        return Err(Failure::fixed("ERR Invalid IDLETIME value, must be >= 0"));
                    }
                }
                () if is(word, "freq") && rest.len() > 0 && !idles => {
                    counts = true;
                    if !(0..=255).contains(&rest.integer()?) {
                        return Err(Failure::fixed("ERR Invalid FREQ value, must be >= 0 and <= 255"));
                    }
                }
                () => return Err(SYNTAX),
            }
        }
        Ok(options)
    }
}

fn restore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (db, key) = (context.db(), arguments[1]);
    let options = Options::parse(&arguments[4..])?;
    if !options.replaces && context.keyspace.exists(db, key)? {
        return Err(Failure::fixed("BUSYKEY Target key name already exists."));
    }
    let ttl = u64::try_from(integer(arguments[2])?).map_err(|_| Failure::fixed("ERR Invalid TTL value, must be >= 0"))?;
    let base = if options.is_absolute { 0 } else { context.keyspace.now() };
    // Replies have deadlines as signed numbers.
    let deadline = ttl.checked_add(base).filter(|deadline| i64::try_from(*deadline).is_ok());
    let deadline = deadline.ok_or(Failure::fixed("ERR invalid expire time in 'restore' command"))?;
    let deadline = (ttl > 0).then_some(deadline);
    // As in Redis, a key whose deadline has passed is not made: the payload is checked, and the old value removed.
    let has_ended = deadline.is_some_and(|deadline| context.keyspace.is_over(deadline));
    if restore_string(context, key, deadline, has_ended)? {
        return finish(context, key, has_ended);
    }
    let uploaded = match &context.session.uploaded {
        Some(upload) => context.keyspace.read_upload(upload)?,
        None => Vec::new(),
    };
    let payload = if uploaded.is_empty() { arguments[3] } else { &uploaded };
    let (payload, version) = open_value(payload).ok_or(WRONG)?;
    let pieces = if has_ended { Pieces::Checked } else { Pieces::Whole };
    let loaded = load(context.keyspace, (db, key), deadline, pieces, |visit| {
        let mut input = Input::new(payload);
        let of = value_kind(input.byte()?, version);
        read_value(&mut input, of, &mut |element| {
            if let Element::Stream(StreamElement::Corrected(what)) = element {
                let values: [(&str, &dyn Display); 3] = [("db", &db), ("key", &key.escape_ascii()), ("what", &what)];
                context.server.event(Level::Debug, "stream_corrected", &values);
            }
            visit(element)
        })
    });
    match loaded {
        Ok(true) => {}
        Err(LoadError::Keyspace(error)) => return Err(error.into()),
        Err(error @ LoadError::TooLarge) => return Err(Failure::new(format!("ERR {error}"))),
        Ok(false) | Err(LoadError::Format(_) | LoadError::Twice | LoadError::Unowned) => return Err(BAD_FORMAT),
    }
    finish(context, key, has_ended)
}

/// Replies after the key got its value; `has_ended`: removes its old value, as the deadline of the new one has passed.
fn finish(context: &mut Context, key: &[u8], has_ended: bool) -> Outcome {
    if has_ended {
        context.keyspace.remove(context.session.db, key)?;
    }
    context.reply.ok();
    Ok(())
}

/// Sets a key, in steps, to a long string whose payload is already stored in the keyspace; false: the payload is no such string. With
/// `has_ended`, the payload is only checked.
fn restore_string(context: &mut Context, key: &[u8], deadline: Option<u64>, has_ended: bool) -> Result<bool, Failure> {
    check_key(key)?;
    let Some(upload) = &context.session.uploaded else { return Ok(false) };
    let (length, mut start, mut end) = (upload.length(), Vec::new(), Vec::new());
    context.keyspace.upload_reader(upload, 0, END_OF_VALUE)?.read(usize::MAX, &mut start)?;
    context.keyspace.upload_reader(upload, length.saturating_sub(END_OF_VALUE), length)?.read(usize::MAX, &mut end)?;
    let Some(value) = long_value(length, &start, &end) else { return Ok(false) };
    if let Some((_, crc)) = context.built()? {
        if !value.is_whole(crc) {
            return Err(WRONG);
        }
        let place = (context.db(), key);
        return if has_ended { Ok(true) } else { context.set_prepared(place, deadline, true) };
    }
    let (from, to) = value.string;
    if !context.is_long(to - from) {
        return Ok(false);
    }
    let Some(upload) = &context.session.uploaded else { return Ok(false) };
    let string = context.keyspace.upload_reader(upload, from, to)?;
    Err(context.join_behind(value.crc, vec![string], &[]))
}
