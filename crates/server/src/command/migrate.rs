//! `MIGRATE`: moving keys to another server.
//!
//! A thread sends the values (`transfers`), and the keys are removed when the other server has taken them. If keys were changed meanwhile,
//! they are sent again. The last of [`ATTEMPTS`] attempts runs in the event loop, where nobody else is served, as in Redis.

use super::arguments::{integer, is};
use super::blocking::{Wait, kept};
use super::spec::{DANGEROUS, MOVABLE, WRITE};
use super::transfers::{NOT_READ, Parcel};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX, Server};
use crate::keyspace::{Keyspace, check_key};
use crate::persist::{dump, dump_for_valkey};
use std::sync::Arc;
use std::time::Duration;

/// Attempts to transfer keys while they change.
const ATTEMPTS: u32 = 3;
/// Timeout if the request names none above 0, milliseconds.
const USUAL_TIMEOUT: u64 = 1000;
/// Offset from a session's number to the number that watches the keys of its transfer.
const WATCHERS: u64 = 1 << 62;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new(Group::Generic, "migrate", -6, migrate)
    .finds_keys(keys)
    .keys(3, 3, 1)
    .flags(WRITE | MOVABLE | DANGEROUS)
    .since("2.6.0")
    .says("Move keys to another server", "O(n), n being the number of elements of all keys")];

/// Words of options, and the number of operands of each.
const OPTIONS: [(&str, usize); 4] = [("copy", 0), ("replace", 0), ("auth", 1), ("auth2", 2)];

/// Indices of the keys of a request, and of the arguments that are secrets.
struct Places {
    keys: Vec<usize>,
    secrets: Vec<usize>,
}

/// Finds keys and secrets of a request, which may be malformed.
fn places(arguments: &[&[u8]]) -> Places {
    let mut places = Places { keys: vec![3], secrets: Vec::new() };
    let mut at = 6;
    while let Some(word) = arguments.get(at) {
        if is(word, "keys") && arguments[3].is_empty() {
            places.keys = (at + 1..arguments.len()).collect();
            break;
        }
        let operands = OPTIONS.iter().find(|(known, _)| is(word, known)).map_or(0, |(_, operands)| *operands);
        places.secrets.extend((at + 1..=at + operands).filter(|at| *at < arguments.len()));
        at += 1 + operands;
    }
    places
}

/// Indices of the arguments that are keys.
fn keys(arguments: &[&[u8]]) -> Option<Vec<usize>> {
    arguments.get(3).map(|_| places(arguments).keys)
}

/// Indices of the arguments that are secrets.
pub(super) fn secrets(arguments: &[&[u8]]) -> Vec<usize> {
    if arguments.len() > 6 { places(arguments).secrets } else { Vec::new() }
}

/// A parsed request.
#[derive(Debug, Clone)]
struct Request<'a> {
    host: &'a [u8],
    port: &'a [u8],
    db: i64,
    patience: Duration,
    /// Whether the keys also stay here (`COPY`).
    copies: bool,
    /// Whether keys of the other server are replaced (`REPLACE`).
    replaces: bool,
    /// Arguments of `AUTH`.
    credentials: Vec<&'a [u8]>,
    keys: Vec<&'a [u8]>,
}

impl<'a> Request<'a> {
    fn parse(arguments: &[&'a [u8]]) -> Result<Request<'a>, Failure> {
        const KEY: Failure = Failure::fixed("ERR When using MIGRATE KEYS option, the key argument must be set to the empty string");
        let mut request = Request {
            host: arguments[1],
            port: arguments[2],
            db: 0,
            patience: Duration::ZERO,
            copies: false,
            replaces: false,
            credentials: Vec::new(),
            keys: vec![arguments[3]],
        };
        let mut rest = &arguments[6..];
        while let Some((word, behind)) = rest.split_first() {
            rest = behind;
            if is(word, "keys") {
                if !arguments[3].is_empty() {
                    return Err(KEY);
                }
                request.keys = rest.to_vec();
                break;
            }
            let (_, operands) = OPTIONS.iter().find(|(known, _)| is(word, known)).ok_or(SYNTAX)?;
            let (given, behind) = rest.split_at_checked(*operands).ok_or(SYNTAX)?;
            rest = behind;
            match given {
                [] if is(word, "copy") => request.copies = true,
                [] => request.replaces = true,
                credentials => request.credentials = credentials.to_vec(),
            }
        }
        let timeout = u64::try_from(integer(arguments[5])?).ok().filter(|ms| *ms > 0).unwrap_or(USUAL_TIMEOUT);
        request.patience = Duration::from_millis(timeout);
        request.db = integer(arguments[4])?;
        Ok(request)
    }

    /// The requests for the other server, and the keys that they transfer: those that exist.
    fn pack(&self, context: &mut Context, keys: &[Vec<u8>]) -> Result<(Parcel, Vec<Vec<u8>>), Failure> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let port = text(self.port).parse().unwrap_or(0);
        let mut parcel = Parcel::new(text(self.host), port, self.patience);
        if !self.credentials.is_empty() {
            let words: Vec<&[u8]> = [&b"AUTH"[..]].into_iter().chain(self.credentials.iter().copied()).collect();
            parcel.open(&words);
        }
        parcel.open(&[b"SELECT", self.db.to_string().as_bytes()]);
        let (db, mut packed) = (context.db(), Vec::new());
        for key in keys {
            let Some(head) = context.counted(|context| context.keyspace.find(db, key))? else { continue };
            let body = context.keyspace.body(&head)?;
            let payload = dump(context.keyspace, &head, &body)?;
            let ttl = head.deadline.map_or(0, |deadline| deadline.saturating_sub(context.keyspace.now()).max(1)).to_string();
            let restore = |payload| {
                let words = [&b"RESTORE"[..], key, ttl.as_bytes(), payload, b"REPLACE"];
                if self.replaces { words.to_vec() } else { words[..4].to_vec() }
            };
            parcel.add(&restore(&payload));
            if let Some(payload) = dump_for_valkey(context.keyspace, &head, &body)? {
                parcel.add_other_form(&restore(&payload));
            }
            packed.push(key.clone());
        }
        Ok((parcel, packed))
    }
}

fn migrate(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let request = Request::parse(arguments)?;
    let (id, watcher) = (context.session.id, context.session.id | WATCHERS);
    if context.session.is_resumed {
        if context.server.transfers.is_running(id) {
            wait(context, arguments);
            return Ok(());
        }
        let is_changed = context.keyspace.is_disturbed(watcher)?;
        context.keyspace.unwatch(watcher);
        let Some(done) = context.server.transfers.take(id) else { return Err(Failure::fixed(NOT_READ)) };
        let taken = taken(done.keys, &done.receipt.taken);
        return finish(context, (arguments, request), (taken, is_changed), (done.attempt, done.failure.or(done.receipt.failure)));
    }
    // The client may have given up an earlier request, whose transfer still runs.
    context.server.transfers.forget(id);
    context.keyspace.unwatch(watcher);
    request.keys.iter().try_for_each(|key| check_key(key))?;
    let keys = kept(&request.keys);
    transfer(context, (arguments, request), &keys, (1, None))
}

/// The keys whose values the other server has taken.
fn taken(keys: Vec<Vec<u8>>, taken: &[bool]) -> Vec<Vec<u8>> {
    keys.into_iter().zip(taken).filter(|(_, taken)| **taken).map(|(key, _)| key).collect()
}

/// Transfers keys. `failure`: the error of an earlier attempt that did not transfer all keys.
fn transfer(
    context: &mut Context,
    (arguments, request): (&[&[u8]], Request),
    keys: &[Vec<u8>],
    (attempt, failure): (u32, Option<String>),
) -> Outcome {
    let (parcel, keys) = request.pack(context, keys)?;
    if keys.is_empty() {
        if attempt == 1 {
            context.reply.simple("NOKEY");
            return Ok(());
        }
        return finish(context, (arguments, request), (keys, false), (attempt, failure));
    }
    let parcel = Arc::new(parcel);
    if context.session.can_step && !context.session.is_in_exec && attempt < ATTEMPTS {
        let (id, db) = (context.session.id, context.session.db);
        let watched = if request.copies { &[][..] } else { &keys[..] };
        watched.iter().try_for_each(|key| context.keyspace.watch(id | WATCHERS, db, key))?;
        if context.server.transfers.start(id, parcel.clone(), keys.clone(), (attempt, failure.clone())).is_ok() {
            wait(context, arguments);
            return Ok(());
        }
        context.keyspace.unwatch(id | WATCHERS);
    }
    let receipt = parcel.send();
    finish(context, (arguments, request), (taken(keys, &receipt.taken), false), (ATTEMPTS, failure.or(receipt.failure)))
}

/// Removes the keys that the other server has taken, and replies; or transfers these keys again if any was changed meanwhile.
fn finish(
    context: &mut Context,
    (arguments, mut request): (&[&[u8]], Request),
    (keys, is_changed): (Vec<Vec<u8>>, bool),
    (attempt, failure): (u32, Option<String>),
) -> Outcome {
    if !request.copies && is_changed && !keys.is_empty() {
        // The other server has an older value.
        request.replaces = true;
        return transfer(context, (arguments, request), &keys, (attempt + 1, failure));
    }
    let db = context.db();
    if !request.copies {
        for key in &keys {
            context.keyspace.remove(db, key)?;
        }
    }
    match failure {
        None => context.reply.ok(),
        // The outcome is a success, since keys may have been removed, and the effects of a failed command are not logged.
        Some(text) => context.refuse(&Failure::new(text)),
    }
    Ok(())
}

/// Lets the client wait for the end of its transfer.
fn wait(context: &mut Context, arguments: &[&[u8]]) {
    let request = kept(arguments);
    context.session.block(Wait { keys: Vec::new(), holding: None, timeout_ms: 0, request, on_timeout: given_up });
}

/// Ends the wait of a client that another one unblocks.
fn given_up(context: &mut Context, _: &[&[u8]]) -> Outcome {
    end(context.keyspace, context.server, context.session.id);
    Err(Failure::fixed(NOT_READ))
}

/// Forgets the transfer of a session.
pub fn end(keyspace: &mut Keyspace, server: &mut Server, session: u64) {
    if server.transfers.forget(session) {
        keyspace.unwatch(session | WATCHERS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<&[u8]> {
        line.split(' ').map(str::as_bytes).collect()
    }

    #[test]
    fn keys_and_secrets_are_found_among_the_options() {
        for (line, at, hidden) in [
            ("migrate h 1 k 0 5", vec![3], vec![]),
            ("migrate h 1 k 0 5 copy replace auth keys", vec![3], vec![9]),
            ("migrate h 1  0 5 auth2 user secret keys a b", vec![10, 11], vec![7, 8]),
            ("migrate h 1  0 5 copy keys keys keys", vec![8, 9], vec![]),
            ("migrate h 1  0 5 auth keys keys a", vec![9], vec![7]),
            ("migrate h 1 k 0 5 auth2 user", vec![3], vec![7]),
            ("migrate h 1  0 5 keys", vec![], vec![]),
        ] {
            let words = words(line);
            assert_eq!((keys(&words), secrets(&words)), (Some(at), hidden), "{line}");
        }
        assert_eq!((keys(&words("migrate h 1")), secrets(&words("migrate"))), (None, vec![]));
    }
}
