//! `CLIENT` and `MONITOR`: asking about connections, closing, pausing and unblocking them.

use super::arguments::{integer, integer_or, is};
use super::blocking::{Reason, milliseconds};
use super::client::Client;
use super::clients_filter::{Filter, is_condition};
use super::connection::check_name;
use super::spec::{ADMIN, LOADING, NOSCRIPT, STALE};
use super::subcommand::{Sub, dispatch, wrong_form};
use super::units::Unit;
use super::{Command, Context, Failure, Group, Outcome, Replies, SYNTAX, help, slowlog, tracking};
use crate::system;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new(Group::Connection, "client", -2, client)
        .subcommands(
            &[
                "caching",
                "capa",
                "getname",
                "getredir",
                "help",
                "id",
                "info",
                "kill",
                "list",
                "no-evict",
                "no-touch",
                "pause",
                "reply",
                "setinfo",
                "setname",
                "tracking",
                "trackinginfo",
                "unblock",
                "unpause",
            ],
            HELP,
        )
        .flags(LOADING | STALE | NOSCRIPT)
        .since("2.4.0")
        .says("Ask about connections, and name, pause, wake or close them", "O(n), n being the number of clients"),
    Command::new(Group::Server, "monitor", 1, monitor).flags(ADMIN | NOSCRIPT | LOADING | STALE).says("Be told of all commands", "O(1)"),
];

/// `CLIENT PAUSE`: which requests wait, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    /// End of the pause that a client has asked for, unix milliseconds.
    until: u64,
    /// All requests wait for that end, not only writes.
    all: bool,
    /// End of the time for which writes wait because the server ends once replicas have everything, unix milliseconds.
    ends_until: u64,
    /// The role of the primary is being handed over: writes wait until it is, whatever the time.
    hands_over: bool,
}

impl Pause {
    /// The end of the pause, unix milliseconds.
    pub fn until(&self) -> u64 {
        if self.hands_over { u64::MAX } else { self.until.max(self.ends_until) }
    }

    /// Whether the pause is over.
    pub fn is_over(&self, now: u64) -> bool {
        !self.hands_over && self.until.max(self.ends_until) <= now
    }

    /// Whether a request has to wait, which writes or does not.
    pub fn concerns(&self, writes: bool, now: u64) -> bool {
        writes && !self.is_over(now) || self.all && self.until > now
    }

    /// Whether the stream of the primary has to wait: a client has asked for the pause. The ends of the server and of its role need no
    /// such wait.
    pub fn holds_primary(&self, writes: bool, now: u64) -> bool {
        (writes || self.all) && self.until > now
    }

    /// Lets writes wait, or go on, because the role of the primary is handed over.
    pub(super) fn hand_over(&mut self, is_on: bool) {
        self.hands_over = is_on;
    }

    /// Lets writes wait because the server is about to end; 0: it is not any more.
    pub fn hold_until_end(&mut self, until: u64) {
        self.ends_until = until;
    }

    fn extend(&mut self, until: u64, all: bool, now: u64) {
        if self.until <= now {
            (self.until, self.all) = (0, false);
        }
        self.until = self.until.max(until);
        self.all |= all;
    }
}

const HELP: &[&str] = &[
    "CACHING (YES|NO)",
    "    Whether the reply to the next request is cached, with tracking by OPTIN or OPTOUT.",
    "CAPA <option> [options...]",
    "    Say what this connection understands; nothing depends on it.",
    "GETNAME",
    "    The name of this connection.",
    "GETREDIR",
    "    The connection that invalidations of this one are sent to.",
    "ID",
    "    The number of this connection.",
    "INFO",
    "    What is known of this connection.",
    "KILL <ip:port>",
    "    Close the connection from an address.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Close the connections that all options describe: ADDR, LADDR, IP, ID <id> [<id> ...], TYPE (NORMAL|MASTER|REPLICA|PUBSUB), USER,",
    "    NAME, LIB-NAME, LIB-VER, DB, MAXAGE <seconds>, IDLE <seconds>, each of them perhaps with NOT- in front, and SKIPME (YES|NO).",
    "LIST [<option> <value> [<option> <value> [...]]]",
    "    What is known of connections, of all or of those that the options of KILL describe.",
    "NO-EVICT (ON|OFF)",
    "    Whether this connection is spared when connections take too much memory.",
    "NO-TOUCH (ON|OFF)",
    "    Whether commands of this connection count as uses of keys.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Let all requests, or those that write, wait for so many milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Which replies this connection wants.",
    "SETINFO (LIB-NAME|LIB-VER) <value>",
    "    Say what this connection speaks with.",
    "SETNAME <name>",
    "    Name this connection.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]] [OPTIN] [OPTOUT] [NOLOOP]",
    "    Whether this connection is told of changes of keys that it has read, or that begin so.",
    "TRACKINGINFO",
    "    How this connection tracks keys.",
    "UNBLOCK <client-id> [TIMEOUT|ERROR]",
    "    End the wait of a connection.",
    "UNPAUSE",
    "    End a pause.",
];

const SUBCOMMANDS: &[Sub] = &[
    Sub("caching", 3, tracking::caching),
    Sub("capa", -3, |context, _| {
        context.reply.ok();
        Ok(())
    }),
    Sub("getname", 2, |context, _| {
        let name = &context.session.name;
        context.reply.bulk_or_null((!name.is_empty()).then_some(&name[..]));
        Ok(())
    }),
    Sub("getredir", 2, tracking::get_redirect),
    Sub("help", 2, |context, _| help(context, "CLIENT", HELP)),
    Sub("id", 2, |context, _| {
        context.reply.integer(i64::try_from(context.session.id).unwrap_or(i64::MAX));
        Ok(())
    }),
    Sub("info", 2, info),
    Sub("kill", -3, kill),
    Sub("list", -2, list),
    Sub("no-evict", 3, no_evict),
    Sub("no-touch", 3, no_touch),
    Sub("pause", -3, pause),
    Sub("reply", 3, reply_mode),
    Sub("setinfo", 4, set_info),
    Sub("setname", 3, set_name),
    Sub("tracking", -3, tracking::switch),
    Sub("trackinginfo", 2, tracking::info),
    Sub("unblock", -3, unblock),
    Sub("unpause", 2, |context, _| {
        let pause = &mut context.server.pause;
        (pause.until, pause.all) = (0, false);
        context.reply.ok();
        Ok(())
    }),
];

fn client(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    dispatch(context, arguments, SUBCOMMANDS)
}

fn set_name(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    check_name(arguments[2])?;
    context.session.name = arguments[2].to_vec();
    context.reply.ok();
    Ok(())
}

fn set_info(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    const ATTRIBUTES: [&str; 2] = ["lib-name", "lib-ver"];
    let (word, value) = (arguments[2], arguments[3]);
    let Some(at) = ATTRIBUTES.iter().position(|name| is(word, name)) else {
        return Err(Failure::new([b"ERR Unrecognized option '", word, b"'"].concat()));
    };
    let why = || Failure::new(format!("ERR {} cannot contain spaces, newlines or special characters.", ATTRIBUTES[at]));
    check_name(value).map_err(|_| why())?;
    context.session.library[at] = value.to_vec();
    context.reply.ok();
    Ok(())
}

/// Updates what is known of the own connection. The running request counts as received and not handled, as in Redis.
fn update_own(context: &mut Context, arguments: &[&[u8]]) {
    // `*2\r\n`, then `$4\r\nlist\r\n` for each argument.
    let with_header = |bytes: usize, count: usize| bytes + 3 + usize::try_from(count.checked_ilog10().unwrap_or(0)).unwrap_or(0) + 1;
    let request = arguments.iter().fold(with_header(0, arguments.len()), |sum, text| with_header(sum + text.len() + 2, text.len()));
    context.server.update(context.session, context.keyspace.now()).buffers.input = request;
}

fn info(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    update_own(context, arguments);
    let line = context.server.clients.get(&context.session.id).map(|client| client.line(context.keyspace, context.server));
    context.reply.verbatim(*b"txt", line.unwrap_or_default().as_bytes());
    Ok(())
}

fn list(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    update_own(context, arguments);
    let all = &context.server.clients;
    let wanted: Vec<&Client> = match &arguments[2..] {
        [] => all.values().collect(),
        [word, ids @ ..] if is(word, "id") && !ids.is_empty() && !ids.iter().any(|id| is_condition(id)) => {
            let number = |id: &&[u8]| integer_or(id, Failure::fixed("ERR Invalid client ID"));
            let ids: Vec<i64> = ids.iter().map(number).collect::<Result<_, _>>()?;
            ids.iter().filter_map(|id| all.get(&u64::try_from(*id).ok()?)).collect()
        }
        options => {
            let filter = Filter::parse(options, &context.server.users)?;
            all.values().filter(|client| filter.takes(context, client, true)).collect()
        }
    };
    let lines: String = wanted.into_iter().map(|client| client.line(context.keyspace, context.server)).collect();
    context.reply.verbatim(*b"txt", lines.as_bytes());
    Ok(())
}

fn kill(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let filter = match &arguments[2..] {
        [address] => Filter::address(address),
        options => Filter::parse(options, &context.server.users)?,
    };
    let all = context.server.clients.values();
    let found: Vec<u64> = all.filter(|client| filter.takes(context, client, false)).map(|client| client.id).collect();
    for id in &found {
        if *id == context.session.id {
            // The client's own connection closes after the reply.
            context.session.closes = true;
        } else {
            // The client takes part in nothing from now on; the network closes it.
            context.keyspace.unwait(*id);
            context.server.kill(*id);
        }
    }
    match (arguments.len(), found.len()) {
        (3, 0) => return Err(Failure::fixed("ERR No such client")),
        (3, _) => context.reply.ok(),
        (_, killed) => context.reply.count(killed),
    }
    Ok(())
}

fn on_or_off(word: &[u8]) -> Result<bool, Failure> {
    match () {
        () if is(word, "on") => Ok(true),
        () if is(word, "off") => Ok(false),
        () => Err(SYNTAX),
    }
}

fn no_evict(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    context.session.stays = on_or_off(arguments[2])?;
    context.reply.ok();
    Ok(())
}

fn no_touch(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    context.session.leaves_no_trace = on_or_off(arguments[2])?;
    context.reply.ok();
    Ok(())
}

fn pause(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let all = match &arguments[3..] {
        [] => true,
        [word] if is(word, "all") => true,
        [word] if is(word, "write") => false,
        [_] => return Err(Failure::fixed("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(wrong_form(arguments)),
    };
    let timeout_ms = milliseconds(arguments[2])?;
    let now = context.keyspace.now();
    if timeout_ms > 0 {
        context.server.pause.extend(now.saturating_add(timeout_ms), all, now);
    }
    context.reply.ok();
    Ok(())
}

fn reply_mode(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let mode = arguments[2];
    match () {
        () if is(mode, "on") => {
            context.session.replies = Replies::On;
            context.reply.ok();
        }
        () if is(mode, "off") => context.session.replies = Replies::Off,
        () if is(mode, "skip") => {
            if context.session.replies != Replies::Off {
                context.session.replies = Replies::SkipNext;
            }
        }
        () => return Err(SYNTAX),
    }
    Ok(())
}

fn unblock(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let reason = match &arguments[3..] {
        [] => Reason::Timeout,
        [word] if is(word, "timeout") => Reason::Timeout,
        [word] if is(word, "error") => Reason::Error,
        [_] => return Err(Failure::fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
        _ => return Err(wrong_form(arguments)),
    };
    let id = integer(arguments[2])?;
    let waits = u64::try_from(id).is_ok_and(|id| {
        let waits = context.keyspace.unwait(id);
        if waits {
            context.server.unblocked.push((id, reason));
        }
        waits
    });
    context.reply.integer(i64::from(waits));
    Ok(())
}

fn monitor(context: &mut Context, _: &[&[u8]]) -> Outcome {
    if context.session.is_in_exec {
        return Err(Failure::fixed("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    if context.session.is_replica {
        // As in Redis, without a reply.
        return Ok(());
    }
    if !context.server.hub.is_monitor(context.session.id) {
        context.server.hub.monitor(context.session.id);
        context.reply.ok();
    }
    Ok(())
}

/// Sends the request to the clients in `MONITOR`.
pub(super) fn tell(context: &mut Context, unit: &Unit, arguments: &[&[u8]]) {
    if unit.flags & ADMIN != 0 || context.session.is_resumed {
        return;
    }
    let now = system::unix_us();
    let address = context.server.clients.get(&context.session.id).map_or("", |client| &client.address);
    let address = if context.session.is_script { "lua" } else { address };
    let mut line = format!("+{}.{:06} [{} {address}]", now / 1_000_000, now % 1_000_000, context.session.db).into_bytes();
    let secrets = slowlog::secrets(&unit.name, arguments);
    for (at, argument) in arguments.iter().enumerate() {
        line.extend_from_slice(b" \"");
        if secrets.contains(&at) {
            line.extend_from_slice(slowlog::REDACTED);
        } else {
            argument.iter().for_each(|byte| put_visible(&mut line, *byte));
        }
        line.push(b'"');
    }
    line.extend_from_slice(b"\r\n");
    context.server.hub.tell(&line);
}

fn put_visible(line: &mut Vec<u8>, byte: u8) {
    match byte {
        b'\\' | b'"' => line.extend_from_slice(&[b'\\', byte]),
        b'\n' => line.extend_from_slice(b"\\n"),
        b'\r' => line.extend_from_slice(b"\\r"),
        b'\t' => line.extend_from_slice(b"\\t"),
        0x07 => line.extend_from_slice(b"\\a"),
        0x08 => line.extend_from_slice(b"\\b"),
        b' '..=b'~' => line.push(byte),
        _ => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
    }
}
