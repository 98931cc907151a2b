//! Effects of commands, noted as commands that repeat them: for the AOF and for replicas (`feed`).
//!
//! The keyspace traces which keys a command changes. A command that changed nothing is not logged. Most are logged as received; `forms`
//! has those that wait, or whose effect depends on more than the data and the request (the time, chance, defaults of options).
//! A command has its own name, whatever clients call it here. Deadlines are logged as absolute times, and an expired key or field is logged
//! as removed before the command that found it expired: replaying the log expires nothing by itself.

use super::arguments::{is, numbered_keys};
use super::forms::LoggedForm;
use super::spec::WRITE;
use super::units::Unit;
use super::{Context, Failure, SYNTAX, Server, hash_deadlines, steps};
use crate::keyspace::{self, Collection, ConsumerGroup, EntryId, GroupTrace, Keyspace, Kind, Trace};
use crate::persist::{SaveError, dump};
use std::borrow::Cow;

/// Ids or members in one logged command, at most.
pub(super) const MANY: usize = 1024;

fn form(unit: &Unit, arguments: &[&[u8]]) -> LoggedForm {
    match unit.form {
        // `SET` without options depends on nothing but the request.
        Some(LoggedForm::String) if unit.command.name == "set" && arguments.len() == 3 => LoggedForm::Same,
        // A trim that keeps entries to which groups refer logs the removed entries itself.
        Some(LoggedForm::Entry) if entry_options(arguments).2 => LoggedForm::ByItself,
        Some(LoggedForm::Trim) if arguments.iter().skip(2).any(|word| is(word, "acked")) => LoggedForm::ByItself,
        Some(form) => form,
        None if unit.command.has(WRITE) => LoggedForm::Same,
        // A command that changes keys although its flags do not say so.
        None => LoggedForm::Values,
    }
}

/// The request with its command's own name, which readers of the effects know; `rename-command` changes names for clients of this server.
pub(super) fn by_own_name<'r, 'a>(name: &'static str, arguments: &'r [&'a [u8]]) -> Cow<'r, [&'a [u8]]> {
    if arguments.first().is_none_or(|sent| is(sent, name)) {
        return Cow::Borrowed(arguments);
    }
    let rest = arguments.iter().skip(1).copied();
    Cow::Owned([name.as_bytes()].into_iter().chain(rest).collect())
}

/// Logs the effect of a command that has just run.
pub(super) fn note(context: &mut Context, unit: &Unit, arguments: &[&[u8]], failed: bool) -> Result<(), Failure> {
    let traces = context.keyspace.traces();
    if traces.is_empty() && (failed || !unit.command.has(WRITE)) {
        return Ok(());
    }
    let arguments = &*by_own_name(unit.command.name, arguments);
    let is_plain = !failed && !context.session.is_uploaded && context.session.steps.is_none() && context.session.kept_from == 0;
    if is_plain && matches!(traces, [Trace::Key(..)]) && form(unit, arguments) == LoggedForm::Same {
        // Nearly all requests.
        context.keyspace.forget_traces();
        context.server.feed.put(context.session.db, arguments);
        return Ok(());
    }
    let traces = context.keyspace.take_traces();
    let changes = note_expired(context.server, traces);
    context.server.feed.keep_from(context.session.kept_from);
    let noted = note_changes(context, unit, (arguments, failed), changes);
    context.server.feed.keep_from(0);
    noted
}

fn note_changes(context: &mut Context, unit: &Unit, (arguments, failed): (&[&[u8]], bool), mut changes: Vec<Trace>) -> Result<(), Failure> {
    if !failed && let Some((db, key)) = steps::note_parts(context, &changes)? {
        changes.retain(|change| !matches!(change, Trace::Key(of, other) if *of == db && *other == key));
        return note_values(context, &changes, arguments);
    }
    // A value that was uploaded before the request ran is not among the arguments.
    let form = if context.session.is_uploaded { LoggedForm::Values } else { form(unit, arguments) };
    if failed || changes.is_empty() && form != LoggedForm::Always {
        return Ok(());
    }
    let db = context.session.db;
    match form {
        LoggedForm::Same => context.server.feed.put(db, arguments),
        LoggedForm::Always => {
            context.server.feed.put(db, arguments);
            context.server.feed.begin_epoch();
        }
        LoggedForm::As(name) => {
            let rest = arguments.get(1..arguments.len().saturating_sub(1)).unwrap_or_default();
            let words: Vec<&[u8]> = [name.as_bytes()].into_iter().chain(rest.iter().copied()).collect();
            context.server.feed.put(db, &words);
        }
        LoggedForm::ByItself => {}
        LoggedForm::Values => return note_values(context, &changes, arguments),
        LoggedForm::Strings => {
            for change in &changes {
                if let Trace::Key(db, key) = change {
                    note_key(context, LoggedForm::String, (*db, key), arguments)?;
                }
            }
        }
        _ => {
            // The remaining forms change one key, or groups of streams.
            let key = changes.iter().find_map(|change| if let Trace::Key(db, key) = change { Some((*db, key.as_slice())) } else { None });
            if let Some(key) = key {
                note_key(context, form, key, arguments)?;
            }
            for change in &changes {
                if let Trace::Group(group) = change {
                    note_group(context, group)?;
                }
            }
        }
    }
    Ok(())
}

/// Logs the removal of keys and fields that have expired or were evicted; returns the other changes.
fn note_expired(server: &mut Server, mut traces: Vec<Trace>) -> Vec<Trace> {
    traces.retain(|trace| {
        match trace {
            Trace::Expired(db, key) => server.feed.put(*db, &[b"DEL", key]),
            Trace::Fields(db, key, fields) => fields.chunks(MANY).for_each(|some| {
                let words = [&b"HDEL"[..], key].into_iter().chain(some.iter().map(Vec::as_slice));
                server.feed.put(*db, &words.collect::<Vec<_>>());
            }),
            Trace::Key(..) | Trace::Group(_) => return true,
        }
        false
    });
    traces
}

/// Logs the removal of keys that expired or were evicted while no command ran.
fn note_ended(keyspace: &mut Keyspace, server: &mut Server) {
    for trace in keyspace.take_traces() {
        note_expired(server, vec![trace]);
        // Each removal may be replayed by itself.
        server.feed.end_request();
    }
}

/// Readies the turn so far for a commit: what has expired meanwhile is noted, and the replication stream's bytes are in the batch.
pub fn before_commit(keyspace: &mut Keyspace, server: &mut Server) {
    if server.feed.is_on() {
        note_ended(keyspace, server);
    }
    server.replication.trim(keyspace);
    server.feed.give(keyspace);
}

/// Logs the current state of a changed key.
fn note_key(context: &mut Context, form: LoggedForm, (db, key): (usize, &[u8]), arguments: &[&[u8]]) -> Result<(), Failure> {
    let feed = &mut context.server.feed;
    if let LoggedForm::Pop(name) = form {
        feed.put(db, &[name.as_bytes(), key]);
        return Ok(());
    }
    if let LoggedForm::PopSome(name) = form {
        let (_, rest) = numbered_keys(arguments.get(2..).unwrap_or_default(), SYNTAX)?;
        let words: Vec<&[u8]> = [name.as_bytes(), b"1", key].into_iter().chain(rest.iter().copied()).collect();
        feed.put(db, &words);
        return Ok(());
    }
    let Some((head, text)) = context.keyspace.peek(db, key)? else {
        feed.put(db, &[b"DEL", key]);
        return Ok(());
    };
    if form == LoggedForm::String && head.is_in_pieces() {
        return note_values(context, &[Trace::Key(db, key.to_vec())], arguments);
    }
    let deadline = head.deadline.map(|deadline| deadline.to_string());
    match form {
        LoggedForm::String if head.kind == Kind::String => match &deadline {
            Some(deadline) => feed.put(db, &[b"SET", key, text, b"PXAT", deadline.as_bytes()]),
            None => feed.put(db, &[b"SET", key, text]),
        },
        LoggedForm::Deadline => match &deadline {
            Some(deadline) => feed.put(db, &[b"PEXPIREAT", key, deadline.as_bytes()]),
            None => feed.put(db, &[b"PERSIST", key]),
        },
        LoggedForm::Field => {
            let field = arguments.get(2).copied().unwrap_or_default();
            let hash = Collection::found(&head, text);
            if let Some(value) = context.keyspace.member(&hash, field)? {
                feed.put(db, &[b"HSET", key, field, &value]);
            }
            if let Some(Some(deadline)) = context.keyspace.field_deadline(&hash, field)? {
                feed.put(db, &[b"HPEXPIREAT", key, deadline.to_string().as_bytes(), b"FIELDS", b"1", field]);
            }
        }
        LoggedForm::Fields(step) => {
            let hash = Collection::found(&head, text);
            return hash_deadlines::note(context, (db, key), &hash, (arguments, step));
        }
        LoggedForm::Entry => {
            let (trims, at, _) = entry_options(arguments);
            let (id, count) = (head.stream.last.to_string(), head.count.to_string());
            let mut words = vec![&b"XADD"[..], key];
            if trims {
                words.extend([&b"MAXLEN"[..], b"=", count.as_bytes()]);
            }
            words.push(id.as_bytes());
            words.extend(arguments.get(at + 1..).unwrap_or_default());
            feed.put(db, &words);
        }
        LoggedForm::Trim => feed.put(db, &[b"XTRIM", key, b"MAXLEN", b"=", head.count.to_string().as_bytes()]),
        _ => {}
    }
    Ok(())
}

/// Whether an `XADD` that has run trims, the index of the id among its arguments, and whether it trims only what all groups acknowledged.
fn entry_options(arguments: &[&[u8]]) -> (bool, usize, bool) {
    let (mut trims, mut at, mut obeys) = (false, 2, false);
    while let Some(word) = arguments.get(at) {
        at += match () {
            () if is(word, "nomkstream") || is(word, "keepref") || is(word, "delref") => 1,
            () if is(word, "acked") => {
                obeys = true;
                1
            }
            () if is(word, "limit") => 2,
            () if is(word, "maxlen") || is(word, "minid") => {
                trims = true;
                let is_marked = arguments.get(at + 1).is_some_and(|mark| *mark == b"~" || *mark == b"=");
                if is_marked { 3 } else { 2 }
            }
            () => break,
        };
    }
    (trims, at, obeys)
}

/// Logs the whole values of the changed keys. If one is too large, the request is logged as received.
fn note_values(context: &mut Context, changes: &[Trace], arguments: &[&[u8]]) -> Result<(), Failure> {
    let mut keys: Vec<(usize, &[u8])> = Vec::new();
    for change in changes {
        match change {
            Trace::Key(db, key) => keys.push((*db, key.as_slice())),
            Trace::Group(group) => keys.push((group.db, group.key.as_slice())),
            Trace::Expired(..) | Trace::Fields(..) => {}
        }
    }
    keys.sort_unstable();
    keys.dedup();
    for (db, key) in keys {
        let Some((head, text)) = context.keyspace.peek(db, key)?.map(|(head, text)| (head, text.to_vec())) else {
            context.server.feed.put(db, &[b"DEL", key]);
            continue;
        };
        let deadline = head.deadline.unwrap_or(0).to_string();
        let feed = &mut context.server.feed;
        match dump(context.keyspace, &head, &text) {
            Ok(payload) => feed.put(db, &[b"RESTORE", key, deadline.as_bytes(), &payload, b"REPLACE", b"ABSTTL"]),
            Err(SaveError::Keyspace(error)) => return Err(error.into()),
            Err(SaveError::Output(_)) => {
                feed.put(context.session.db, arguments);
                if head.deadline.is_some() {
                    feed.put(db, &[b"PEXPIREAT", key, deadline.as_bytes()]);
                }
            }
        }
    }
    Ok(())
}

/// A pending entry's consumer, the time of its delivery, and the number of deliveries.
type Delivery = (Vec<u8>, u64, u64);

/// The delivery of an entry; `None`: it is not pending.
fn delivery(keyspace: &Keyspace, group: &ConsumerGroup, id: EntryId) -> keyspace::Result<Option<Delivery>> {
    let Some(pending) = keyspace.pending(group, id)? else { return Ok(None) };
    Ok(Some((keyspace.consumer(group, pending.consumer)?.name, pending.delivered, pending.deliveries)))
}

/// Logs the changes of a group: new consumers, then changed pending entries, then its last delivered id.
fn note_group(context: &mut Context, trace: &GroupTrace) -> Result<(), Failure> {
    let GroupTrace { db, key, name, .. } = trace;
    let feed = &mut context.server.feed;
    let Some((head, _)) = context.keyspace.peek(*db, key)? else { return Ok(()) };
    let Some(group) = context.keyspace.group(&head, name)? else { return Ok(()) };
    for consumer in &trace.made {
        feed.put(*db, &[b"XGROUP", b"CREATECONSUMER", key, name, consumer]);
    }
    let mut ids = trace.pending.as_slice();
    while let Some(first) = ids.first() {
        let how = delivery(context.keyspace, &group, *first)?;
        let mut alike = vec![first.to_string()];
        for id in ids.iter().skip(1).take(MANY - 1) {
            if delivery(context.keyspace, &group, *id)? != how {
                break;
            }
            alike.push(id.to_string());
        }
        ids = ids.get(alike.len()..).unwrap_or_default();
        let alike = alike.iter().map(String::as_bytes);
        match how {
            None => feed.put(*db, &[&b"XACK"[..], key.as_slice(), name.as_slice()].into_iter().chain(alike).collect::<Vec<_>>()),
            Some((consumer, delivered, deliveries)) => {
                let (delivered, deliveries) = (delivered.to_string(), deliveries.to_string());
                let how = [&b"TIME"[..], delivered.as_bytes(), b"RETRYCOUNT", deliveries.as_bytes(), b"FORCE", b"JUSTID"];
                let words =
                    [&b"XCLAIM"[..], key.as_slice(), name.as_slice(), consumer.as_slice(), b"0"].into_iter().chain(alike).chain(how);
                feed.put(*db, &words.collect::<Vec<_>>());
            }
        }
    }
    if trace.is_moved {
        let (last, read) = (group.last.to_string(), group.read.map_or("-1".to_owned(), |read| read.to_string()));
        feed.put(*db, &[b"XGROUP", b"SETID", key, name, last.as_bytes(), b"ENTRIESREAD", read.as_bytes()]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_stands_behind_the_options() {
        let of = |line: &str| entry_options(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        assert_eq!(of("XADD s * a b"), (false, 2, false));
        assert_eq!(of("XADD s NOMKSTREAM 1-1 maxlen 3"), (false, 3, false));
        assert_eq!(of("XADD s MAXLEN ~ 5 LIMIT 7 nomkstream 1-* limit x"), (true, 8, false));
        assert_eq!(of("XADD s minid 5 * a b"), (true, 4, false));
        assert_eq!(of("XADD s MAXLEN = 5 1 a b"), (true, 5, false));
        assert_eq!(of("XADD s delref minid 5 * acked b"), (true, 5, false));
        assert_eq!(of("XADD s MAXLEN 5 Acked 1 a b"), (true, 5, true));
    }
}
