//! `SHUTDOWN`: the event-loop iteration ends, then the clients are closed, and then the database.

use super::arguments::is;
use super::table::{ADMIN, ALLOW_BUSY, LOADING, NO_MULTI, NOSCRIPT, STALE};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX};
use crate::log::Level;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new(Group::Server, "shutdown", -1, shutdown)
    .flags(ADMIN | LOADING | NOSCRIPT | NO_MULTI | STALE | ALLOW_BUSY)
    .says("End the server", "O(1)")];

/// All data is in the log and there are no replicas to wait for: `SAVE`, `NOSAVE`, `NOW` and `FORCE` change nothing, and there is never a
/// shutdown in progress that `ABORT` could stop. A late script ends with `NOSAVE` only, and without its writes.
fn shutdown(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let has = |word: &str| arguments[1..].iter().any(|given| is(given, word));
    let known = ["nosave", "save", "now", "force", "abort"];
    let is_known = |given: &[u8]| known.iter().any(|word| is(given, word));
    let contradicts = has("save") && has("nosave") || has("abort") && arguments.len() > 2;
    if contradicts || !arguments[1..].iter().all(|given| is_known(given)) {
        return Err(SYNTAX);
    }
    if has("abort") {
        return Err(Failure::fixed("ERR No shutdown in progress."));
    }
    if context.server.scripts.is_busy() {
        if !has("nosave") {
            return Err(context.server.scripts.busy());
        }
        context.server.scripts.drop_running();
    }
    context.server.event(Level::Notice, "shutdown_requested", &[("client", &context.session.id)]);
    context.server.is_ending = true;
    // The closing connection is the reply.
    context.session.closes = true;
    Ok(())
}
