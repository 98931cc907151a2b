//! `SHUTDOWN`: the event-loop iteration ends, replicas get everything, then the clients are closed, and then the database.

use super::arguments::is;
use super::blocking::{Wait, kept};
use super::spec::{ADMIN, ALLOW_BUSY, LOADING, NO_MULTI, NOSCRIPT, STALE};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX};
use crate::log::Level;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new(Group::Server, "shutdown", -1, shutdown)
    .flags(ADMIN | LOADING | NOSCRIPT | NO_MULTI | STALE | ALLOW_BUSY)
    .says("End the server", "O(1)")];

/// All data is in the log: `SAVE`, `NOSAVE` and `FORCE` change nothing. A late script ends with `NOSAVE` only, and without its writes.
/// The client waits until the data are closed, and its closing connection is the reply: the next server can open them then. While replicas
/// lack something, the request is run again now and then.
fn shutdown(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let has = |word: &str| arguments[1..].iter().any(|given| is(given, word));
    let known = ["nosave", "save", "now", "force", "abort"];
    let is_known = |given: &[u8]| known.iter().any(|word| is(given, word));
    let contradicts = has("save") && has("nosave") || has("abort") && arguments.len() > 2;
    if contradicts || !arguments[1..].iter().all(|given| is_known(given)) {
        return Err(SYNTAX);
    }
    if has("abort") {
        if !context.server.is_ending {
            return Err(Failure::fixed("ERR No shutdown in progress."));
        }
        (context.server.is_ending, context.server.ends_now, context.server.ends_at) = (false, false, None);
        context.server.pause.hold_until_end(0);
        context.reply.ok();
        return Ok(());
    }
    if context.session.is_resumed && !context.server.is_ending {
        context.session.awaits_end = false;
        return Err(Failure::fixed("ERR Errors trying to SHUTDOWN. Check logs."));
    }
    if context.server.scripts.is_busy() {
        if !has("nosave") {
            return Err(context.server.scripts.busy());
        }
        context.server.scripts.drop_running();
    }
    if !context.session.is_resumed {
        context.server.event(Level::Notice, "shutdown_requested", &[("client", &context.session.id)]);
    }
    context.server.is_ending = true;
    context.server.ends_now |= has("now") || context.server.configuration.replication.shutdown_seconds == 0;
    context.session.awaits_end = true;
    let request = kept(arguments);
    context.session.block(Wait { keys: Vec::new(), holding: None, timeout_ms: 0, request, on_timeout: |_, _| Ok(()) });
    Ok(())
}
