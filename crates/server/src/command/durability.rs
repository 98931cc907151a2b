//! `WAIT` and `WAITAOF`: waiting until replicas have the client's writes, and until writes are durable.
//!
//! A blocked request is run again whenever a sync has ended or a replica has acknowledged something. It keeps the numbers that it waits for
//! as extra arguments.

use super::arguments::{integer, not_negative};
use super::blocking::{Wait, kept, milliseconds};
use super::spec::{BLOCKING, NOSCRIPT, Run};
use super::{Command, Context, Failure, Fsync, Group, Outcome};
use crate::number::parse_integer;

const fn safety(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Generic, name, arity, run).flags(NOSCRIPT)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    safety("wait", 3, wait).since("3.0.0").says("Wait until so many replicas have the client's writes", "O(1)"),
    safety("waitaof", 4, waitaof).flags(NOSCRIPT | BLOCKING).since("7.2.0").says("Wait until all writes so far have been synced", "O(1)"),
];

/// A number that a blocked request keeps as an extra argument.
fn kept_number(arguments: &[&[u8]], at: usize) -> Option<u64> {
    arguments.get(at).and_then(|number| parse_integer(number)).and_then(|number| u64::try_from(number).ok())
}

/// Position in the stream behind the client's effects: the one that a blocked request keeps as extra arguments, or else that of now.
fn written(context: &Context, arguments: &[&[u8]], at: usize) -> (u64, u64) {
    kept_number(arguments, at).zip(kept_number(arguments, at + 1)).unwrap_or(context.session.written)
}

/// Number of replicas that have the stream up to a position. `is_durable`: on their media. A stream that has begun since then has the
/// effects from its start.
fn replicas_with(context: &Context, (stream, offset): (u64, u64), is_durable: bool) -> i64 {
    let offset = if stream == context.keyspace.stream_number() { offset } else { 0 };
    i64::try_from(context.server.replicas.that_have(offset, is_durable)).unwrap_or(i64::MAX)
}

/// Blocks the request, which keeps these numbers. `asks`: replicas are asked for acknowledgements.
fn block(context: &mut Context, (request, numbers): (&[&[u8]], &[u64]), timeout_ms: u64, on_timeout: Run, asks: bool) {
    let mut request = kept(request);
    request.extend(numbers.iter().map(|number| number.to_string().into_bytes()));
    context.session.block(Wait { keys: Vec::new(), holding: None, timeout_ms, request, on_timeout });
    context.server.replicas.asks |= asks && !context.session.is_resumed;
}

/// Replies with the number of replicas that have the writes.
fn reply_replicas(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let count = replicas_with(context, written(context, arguments, 3), false);
    context.reply.integer(count);
    Ok(())
}

fn wait(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    if context.server.is_replica() {
        return Err(Failure::fixed(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be \
             writable (which is not the default) writes to replicas are just local and are not propagated.",
        ));
    }
    let replicas = integer(arguments[1])?;
    let timeout_ms = milliseconds(arguments[2])?;
    let written = written(context, arguments, 3);
    if replicas_with(context, written, false) >= replicas {
        return reply_replicas(context, arguments);
    }
    block(context, (&arguments[..3], &[written.0, written.1]), timeout_ms, reply_replicas, true);
    Ok(())
}

/// The commit that has to be synced: the latest one when the client asked; and the position that replicas have to have.
fn targets(context: &Context, arguments: &[&[u8]]) -> (u64, (u64, u64)) {
    let commit = kept_number(arguments, 4).unwrap_or_else(|| context.keyspace.position());
    (commit, written(context, arguments, 5))
}

/// Whether a commit is synced. With `always` a reply is held until all writes before it are durable, so this is true when it arrives.
fn is_synced(context: &mut Context, target: u64) -> bool {
    let is_always = context.server.configuration.fsync == Fsync::Always;
    if is_always {
        context.keyspace.need_all();
    }
    is_always || context.keyspace.synced() >= target
}

/// Replies with whether the writes are synced here (0 or 1), and the number of replicas that have synced them.
fn reply_synced(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (commit, written) = targets(context, arguments);
    let here = is_synced(context, commit);
    let replicas = replicas_with(context, written, true);
    context.reply.array(2);
    context.reply.integer(i64::from(here));
    context.reply.integer(replicas);
    Ok(())
}

fn waitaof(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    if context.server.is_replica() {
        return Err(Failure::fixed(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are not \
             propagated.",
        ));
    }
    let here = integer(arguments[1])?;
    if !(0..=1).contains(&here) {
        return Err(Failure::fixed("ERR value is out of range, value must between 0 and 1"));
    }
    let replicas = not_negative(arguments[2])?;
    let timeout_ms = milliseconds(arguments[3])?;
    let (commit, written) = targets(context, arguments);
    let are_enough = u64::try_from(replicas_with(context, written, true)).is_ok_and(|count| count >= replicas);
    if are_enough && (here == 0 || is_synced(context, commit)) {
        return reply_synced(context, arguments);
    }
    block(context, (&arguments[..4], &[commit, written.0, written.1]), timeout_ms, reply_synced, replicas > 0);
    Ok(())
}
