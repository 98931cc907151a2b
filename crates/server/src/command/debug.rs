//! `DEBUG`: a look into values, and what tests of clients and servers need; refused unless the configuration allows it. And `LOLWUT`.

use super::arguments::{integer, integer_or, is};
use super::config;
use super::configuration::{self, Allowed};
use super::digest;
use super::encoding::encoding;
use super::session::check_writes;
use super::spec::{ADMIN, FAST, KEEPS_USE, LOADING, NOSCRIPT, READ, STALE};
use super::{Command, Context, Failure, Group, NO_SUCH_KEY, NOT_POSITIVE, Outcome};
use crate::keyspace::{Collection, EntryId, Error, Kind, StreamPosition};
use crate::number::parse_double;
use crate::resp::{Protocol, Writer};
use std::ops::{ControlFlow, RangeInclusive};
use std::time::Duration;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new(Group::Server, "debug", -2, debug)
        .flags(ADMIN | NOSCRIPT | LOADING | STALE | KEEPS_USE)
        .says("Look into values, and test clients and servers", "That of what is asked for"),
    Command::new(Group::Server, "lolwut", -1, lolwut)
        .flags(READ | FAST)
        .since("5.0.0")
        .says("The version of Redis that this server is like", "O(1)"),
];

/// Bytes that one `POPULATE` writes at most: the writes of a command stay in memory until it ends.
const POPULATED_MAX: u64 = 512 << 20;

/// The number in Redis's reply to `DEBUG PROTOCOL double`.
#[expect(clippy::approx_constant, reason = "it is no approximation of pi")]
const DOUBLE: f64 = 3.141;

/// A subcommand of `DEBUG`.
struct Action {
    name: &'static str,
    /// Arguments behind the subcommand, for people, and how many they may be.
    arguments: &'static str,
    count: RangeInclusive<usize>,
    run: fn(&mut Context, &[&[u8]]) -> Outcome,
    says: &'static str,
}

const fn action(
    name: &'static str,
    arguments: &'static str,
    count: RangeInclusive<usize>,
    run: fn(&mut Context, &[&[u8]]) -> Outcome,
    says: &'static str,
) -> Action {
    Action { name, arguments, count, run, says }
}

const ACTIONS: &[Action] = &[
    action("change-repl-id", "", 0..=0, change_stream, "Go on with the replication stream under an id that no replica knows."),
    action("config-rewrite-force-all", "", 0..=0, rewrite_all, "Like CONFIG REWRITE, with all names, also those with default values."),
    action("digest", "", 0..=0, digest_all, "A digest of all keys of all databases."),
    action("digest-value", "[<key> ...]", 0..=usize::MAX, digest_values, "Digests of what keys hold."),
    action("error", "<text>", 1..=1, error, "An error with this text."),
    action("loadaof", "", 0..=0, reload, "As RELOAD."),
    action("object", "<key>", 1..=1, object, "How a key is kept."),
    action("populate", "<count> [<prefix>] [<size>]", 1..=3, populate, "Make so many keys that hold strings."),
    action("protocol", "<type>", 1..=1, protocol, "A reply of a type."),
    action(
        "quicklist-packed-threshold",
        "<size>",
        1..=1,
        packed_threshold,
        "Check the size: items of every size are kept in the same way.",
    ),
    action("reload", "", 0..=0, reload, "Write what is in memory into tables, from which it is read then."),
    action("set-active-expire", "<0|1>", 1..=1, set_active_expire, "0: leave keys whose time has come until somebody looks at them."),
    action("set-disable-deny-scripts", "<0|1>", 1..=1, set_admission, "1: let scripts run commands that are not for them."),
    action("sleep", "<seconds>", 1..=1, sleep, "Stop the server for so long."),
];

fn is_allowed(context: &Context) -> bool {
    match context.server.configuration.debug_command {
        Allowed::No => false,
        Allowed::Yes => true,
        Allowed::Local => context.server.clients.get(&context.session.id).is_some_and(|client| client.is_local),
    }
}

fn debug(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    if !is_allowed(context) {
        return Err(Failure::fixed(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local \
             connection, otherwise you need to set this option in the configuration file, and then restart the server.",
        ));
    }
    let (word, rest) = (arguments[1], &arguments[2..]);
    if is(word, "help") && rest.is_empty() {
        help(&mut context.reply);
        return Ok(());
    }
    let Some(action) = ACTIONS.iter().find(|action| is(word, action.name) && action.count.contains(&rest.len())) else {
        let word = word.get(..word.len().min(128)).unwrap_or_default();
        return Err(Failure::new([b"ERR unknown subcommand or wrong number of arguments for '", word, b"'. Try DEBUG HELP."].concat()));
    };
    (action.run)(context, rest)
}

fn help(reply: &mut Writer) {
    reply.array(2 * ACTIONS.len() + 3);
    reply.simple("DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    for action in ACTIONS {
        reply.simple(format!("{} {}", action.name.to_ascii_uppercase(), action.arguments).trim_end());
        reply.simple(&format!("    {}", action.says));
    }
    reply.simple("HELP");
    reply.simple("    Print this help.");
}

fn digest_all(context: &mut Context, _: &[&[u8]]) -> Outcome {
    let digest = digest::of_everything(context)?;
    context.reply.simple(&digest.text());
    Ok(())
}

fn digest_values(context: &mut Context, keys: &[&[u8]]) -> Outcome {
    context.reply.array(keys.len());
    for key in keys {
        let digest = digest::of_value(context, key)?;
        context.reply.simple(&digest.text());
    }
    Ok(())
}

fn error(_: &mut Context, arguments: &[&[u8]]) -> Outcome {
    Err(Failure::new(arguments[0]))
}

/// `DEBUG RELOAD`: flushes committed data from the log and the memtables to tables. Uncommitted writes of this event-loop iteration stay.
fn reload(context: &mut Context, _: &[&[u8]]) -> Outcome {
    context.keyspace.db().flush().map_err(Error::from)?;
    context.reply.ok();
    Ok(())
}

/// Bytes of a key's value: names and values of elements, entries of a stream, or a string.
fn bytes(context: &mut Context, key: &[u8], head: &Collection) -> Result<usize, Failure> {
    let mut bytes = 0;
    match head.kind {
        Kind::String => {
            bytes = usize::try_from(context.keyspace.string_length(context.session.db, key)?.unwrap_or(0)).unwrap_or(usize::MAX)
        }
        Kind::List => context.keyspace.walk_items(head, (0, head.count), false, &mut |item| {
            bytes += item.len();
            ControlFlow::Continue(())
        })?,
        Kind::Stream => context.keyspace.walk_entries(head, (EntryId::MIN, EntryId::MAX), false, &mut |_, entry| {
            bytes += entry.len();
            ControlFlow::Continue(())
        })?,
        Kind::Set | Kind::SortedSet | Kind::Hash => context.keyspace.walk_members(head, &mut |name, value| {
            bytes += name.len() + value.len();
            ControlFlow::Continue(())
        })?,
    }
    Ok(bytes)
}

fn object(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let key = arguments[0];
    let head = context.keyspace.find_collection(context.session.db, key)?.ok_or(NO_SUCH_KEY)?;
    let (encoding, bytes) = (encoding(context, key, &head)?, bytes(context, key, &head)?);
    // Address and time of last use are not known.
    context.reply.simple(&format!("Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{bytes}"));
    Ok(())
}

fn populate(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    // The only action of `DEBUG` that writes.
    check_writes(context.server)?;
    let positive = |text: &[u8]| u64::try_from(integer_or(text, NOT_POSITIVE)?).map_err(|_| NOT_POSITIVE);
    let count = positive(arguments[0])?;
    let prefix = arguments.get(1).copied().unwrap_or(b"key");
    let size = arguments.get(2).map_or(Ok(0), |text| positive(text))?;
    // A key has at most twenty digits; the rest of the 100 bytes is for the entry's overhead.
    if size.saturating_add(prefix.len() as u64 + 100).saturating_mul(count) > POPULATED_MAX {
        return Err(Failure::fixed("ERR that is more than 512 MiB"));
    }
    for number in 0..count {
        let key = [prefix, b":", number.to_string().as_bytes()].concat();
        if context.keyspace.exists(context.session.db, &key)? {
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        if size > 0 {
            value.resize(usize::try_from(size).unwrap_or(0), 0);
        }
        context.keyspace.set_string(context.session.db, &key, &value, None)?;
    }
    context.reply.ok();
    Ok(())
}

fn rewrite_all(context: &mut Context, _: &[&[u8]]) -> Outcome {
    config::rewrite(context, true)?;
    context.reply.ok();
    Ok(())
}

fn change_stream(context: &mut Context, _: &[&[u8]]) -> Outcome {
    if let Some(offset) = context.keyspace.stream().map(|position| position.offset) {
        let id = context.keyspace.new_stream_id();
        context.keyspace.begin_stream(StreamPosition::new(id, offset))?;
    }
    context.reply.ok();
    Ok(())
}

fn protocol(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let reply = &mut context.reply;
    match () {
        () if is(arguments[0], "string") => reply.bulk(b"Hello World"),
        () if is(arguments[0], "integer") => reply.integer(12345),
        () if is(arguments[0], "double") => reply.double(DOUBLE),
        () if is(arguments[0], "bignum") => reply.big_number("1234567999999999999999999999999999999"),
        () if is(arguments[0], "null") => reply.null(),
        () if is(arguments[0], "array") => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        () if is(arguments[0], "set") => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        () if is(arguments[0], "map") => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        () if is(arguments[0], "attrib") => {
            if reply.protocol() == Protocol::Resp3 {
                reply.attribute(1);
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        () if is(arguments[0], "push") => {
            if reply.protocol() != Protocol::Resp3 {
                return Err(Failure::fixed("ERR RESP2 is not supported by this command"));
            }
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        () if is(arguments[0], "true") => reply.boolean(true),
        () if is(arguments[0], "false") => reply.boolean(false),
        () if is(arguments[0], "verbatim") => reply.verbatim(*b"txt", b"This is a verbatim\nstring"),
        () => {
            return Err(Failure::fixed(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

fn packed_threshold(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    /// A little less than 4 GiB.
    const MOST: u64 = (1 << 32) - (1 << 20);
    let size = std::str::from_utf8(arguments[0]).ok().and_then(|text| configuration::bytes(text).ok()).filter(|size| *size <= MOST);
    size.ok_or(Failure::fixed("ERR argument must be a memory value bigger than 1 and smaller than 4gb"))?;
    context.reply.ok();
    Ok(())
}

fn set_admission(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    context.server.scripts.admit_all(integer(arguments[0])? != 0);
    context.reply.ok();
    Ok(())
}

fn set_active_expire(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    context.server.keeps_expired = integer(arguments[0])? == 0;
    context.reply.ok();
    Ok(())
}

fn sleep(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let seconds = parse_double(arguments[0]).unwrap_or(0.0).max(0.0);
    std::thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    context.reply.ok();
    Ok(())
}

/// The version of Redis, without the picture that some versions add.
fn lolwut(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    if let [_, word, version, ..] = arguments
        && is(word, "version")
    {
        integer(version)?;
    }
    context.reply.verbatim(*b"txt", format!("Redis ver. {}\n", context.server.configuration.compatible.version()).as_bytes());
    Ok(())
}
