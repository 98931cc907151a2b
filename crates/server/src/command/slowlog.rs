//! The log of slow commands, and `SLOWLOG`.

use super::arguments::{integer_or, is};
use super::spec::{ADMIN, LOADING, STALE};
use super::subcommand::wrong_form;
use super::{Command, Context, Failure, Group, Outcome, help, migrate, unknown_subcommand};
use std::collections::VecDeque;

/// Arguments kept of a command; if there are more, the last one says how many.
const ARGUMENTS: usize = 32;
/// Bytes kept of an argument.
const ARGUMENT_BYTES: usize = 128;
/// Replacement for an argument that is secret.
pub(super) const REDACTED: &[u8] = b"(redacted)";

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new(Group::Server, "slowlog", -2, slowlog)
    .subcommands(&["get", "help", "len", "reset"], HELP)
    .flags(ADMIN | LOADING | STALE)
    .since("2.2.12")
    .says("Commands that took long", "O(n), n being the number of entries")];

/// A slow command.
#[derive(Debug)]
struct Entry {
    id: u64,
    /// When the command ran, unix seconds.
    at: u64,
    micros: u64,
    arguments: Vec<Vec<u8>>,
    client: String,
    name: Vec<u8>,
}

/// Slow commands, newest first.
#[derive(Debug, Default)]
pub(super) struct Slowlog {
    entries: VecDeque<Entry>,
    next: u64,
}

impl Slowlog {
    /// Adds a command, and keeps at most `most`.
    pub fn add(&mut self, (at, micros): (u64, u64), arguments: Vec<Vec<u8>>, (client, name): (String, Vec<u8>), most: usize) {
        self.entries.push_front(Entry { id: self.next, at, micros, arguments, client, name });
        self.next += 1;
        self.entries.truncate(most);
    }

    fn clear(&mut self) {
        self.entries.clear();
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

/// Parameters whose values are secrets.
const SECRETS: [&str; 5] = ["masterauth", "masteruser", "requirepass", "tls-client-key-file-pass", "tls-key-file-pass"];

/// Indices of the arguments of a request that are secrets.
pub(super) fn secrets(unit: &str, arguments: &[&[u8]]) -> Vec<usize> {
    let all = 0..arguments.len();
    match unit {
        "auth" => all.skip(1).collect(),
        "acl|setuser" => all.skip(2).collect(),
        "hello" => {
            // A client name may be `auth`, too, so all arguments behind the first `auth` are hidden.
            let auth = arguments.iter().position(|word| is(word, "auth"));
            auth.map(|at| all.skip(at + 1).collect()).unwrap_or_default()
        }
        "migrate" => migrate::secrets(arguments),
        "config|set" => all.skip(2).step_by(2).filter(|at| SECRETS.iter().any(|name| is(arguments[*at], name))).map(|at| at + 1).collect(),
        _ => Vec::new(),
    }
}

/// Copies the arguments for the log: secrets replaced, at most [`ARGUMENTS`], each cut to [`ARGUMENT_BYTES`].
pub(super) fn kept(unit: &str, arguments: &[&[u8]]) -> Vec<Vec<u8>> {
    let secrets = secrets(unit, arguments);
    let whole = if arguments.len() > ARGUMENTS { ARGUMENTS - 1 } else { arguments.len() };
    let keep = |(at, argument): (usize, &&[u8])| match argument.split_at_checked(ARGUMENT_BYTES) {
        _ if secrets.contains(&at) => REDACTED.to_vec(),
        Some((start, rest)) if !rest.is_empty() => [start, format!("... ({} more bytes)", rest.len()).as_bytes()].concat(),
        _ => argument.to_vec(),
    };
    let mut all: Vec<Vec<u8>> = arguments.iter().take(whole).enumerate().map(keep).collect();
    if whole < arguments.len() {
        all.push(format!("... ({} more arguments)", arguments.len() - whole).into_bytes());
    }
    all
}

const HELP: &[&str] = &[
    "GET [<count>]",
    "    The newest entries (10 unless told otherwise; -1: all): number, unix",
    "    seconds, microseconds, arguments, address and name of the client.",
    "LEN",
    "    How many entries there are.",
    "RESET",
    "    Forget all entries.",
];

fn slowlog(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let sub = arguments[1];
    match (sub, &arguments[2..]) {
        (_, []) if is(sub, "help") => help(context, "SLOWLOG", HELP)?,
        (_, []) if is(sub, "len") => context.reply.count(context.server.records.slowlog.len()),
        (_, []) if is(sub, "reset") => {
            context.server.records.slowlog.clear();
            context.reply.ok();
        }
        (_, [] | [_]) if is(sub, "get") => get(context, arguments.get(2).copied())?,
        _ if is(sub, "get") => return Err(wrong_form(arguments)),
        _ => return Err(unknown_subcommand(arguments)),
    }
    Ok(())
}

fn get(context: &mut Context, count: Option<&[u8]>) -> Outcome {
    const RANGE: Failure = Failure::fixed("ERR count should be greater than or equal to -1");
    let count = match count {
        None => 10,
        Some(text) => match integer_or(text, RANGE)? {
            -1 => usize::MAX,
            count => usize::try_from(count).map_err(|_| RANGE)?,
        },
    };
    let entries = &context.server.records.slowlog.entries;
    context.reply.array(entries.len().min(count));
    for entry in entries.iter().take(count) {
        context.reply.array(6);
        for number in [entry.id, entry.at, entry.micros] {
            context.reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
        }
        context.reply.array(entry.arguments.len());
        entry.arguments.iter().for_each(|argument| context.reply.bulk(argument));
        context.reply.bulk(entry.client.as_bytes());
        context.reply.bulk(&entry.name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_cut_and_secrets_left_out() {
        let text = |unit: &str, words: &[&[u8]]| {
            kept(unit, words).iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text("auth", &[b"AUTH", b"u", b"secret"]), "AUTH (redacted) (redacted)");
        assert_eq!(
            text("hello", &[b"HELLO", b"3", b"AUTH", b"u", b"p", b"SETNAME", b"n"]),
            "HELLO 3 AUTH (redacted) (redacted) (redacted) (redacted)"
        );
        assert_eq!(
            text("config|set", &[b"config", b"set", b"timeout", b"1", b"RequirePass", b"x"]),
            "config set timeout 1 RequirePass (redacted)"
        );
        assert_eq!(text("acl|setuser", &[b"acl", b"setuser", b"u", b">p"]), "acl setuser (redacted) (redacted)");
        let long = vec![b'x'; 130];
        assert_eq!(text("get", &[b"get", &long]), format!("get {}... (2 more bytes)", "x".repeat(128)));
        let many: Vec<&[u8]> = vec![b"a"; 33];
        let kept = kept("del", &many);
        assert_eq!((kept.len(), kept[31].as_slice()), (32, &b"... (2 more arguments)"[..]));
        assert_eq!(super::kept("del", &many[..32]).len(), 32);
    }
}
