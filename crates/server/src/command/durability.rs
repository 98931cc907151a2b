//! `WAIT` and `WAITAOF`: waiting until writes are durable.

use super::arguments::{integer, not_negative};
use super::blocking::{Wait, kept, milliseconds};
use super::table::{BLOCKING, NOSCRIPT, Run};
use super::{Command, Context, Failure, Fsync, Group, Outcome};
use crate::number::parse_integer;

const fn safety(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Generic, name, arity, run).flags(NOSCRIPT)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    safety("wait", 3, wait).since("3.0.0").says("Wait until so many replicas have all writes; there are none", "O(1)"),
    safety("waitaof", 4, waitaof).flags(NOSCRIPT | BLOCKING).since("7.2.0").says("Wait until all writes so far have been synced", "O(1)"),
];

/// Replies with the number of replicas that have the writes: 0, as there are none.
fn no_replicas(context: &mut Context, _: &[&[u8]]) -> Outcome {
    context.reply.integer(0);
    Ok(())
}

fn wait(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let replicas = integer(arguments[1])?;
    let timeout_ms = milliseconds(arguments[2])?;
    if replicas <= 0 {
        return no_replicas(context, arguments);
    }
    context.session.block(Wait { keys: Vec::new(), holding: None, timeout_ms, request: kept(arguments), on_timeout: no_replicas });
    Ok(())
}

/// The commit that has to be synced: the latest one. A blocked request has its number as an extra argument.
fn target(context: &Context, arguments: &[&[u8]]) -> u64 {
    let kept = arguments.get(4).and_then(|number| parse_integer(number)).and_then(|number| u64::try_from(number).ok());
    kept.unwrap_or_else(|| context.keyspace.position())
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
    let target = target(context, arguments);
    let here = is_synced(context, target);
    context.reply.array(2);
    context.reply.integer(i64::from(here));
    context.reply.integer(0);
    Ok(())
}

fn waitaof(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let here = integer(arguments[1])?;
    if !(0..=1).contains(&here) {
        return Err(Failure::fixed("ERR value is out of range, value must between 0 and 1"));
    }
    let replicas = not_negative(arguments[2])?;
    let timeout_ms = milliseconds(arguments[3])?;
    let target = target(context, arguments);
    if replicas == 0 && (here == 0 || is_synced(context, target)) {
        return reply_synced(context, arguments);
    }
    let mut request = kept(&arguments[..4]);
    request.push(target.to_string().into_bytes());
    context.session.block(Wait { keys: Vec::new(), holding: None, timeout_ms, request, on_timeout: reply_synced });
    Ok(())
}
