//! Transactions. All commands of one run in one event-loop iteration, so their writes reach the engine in one batch.

use super::acl::{Refused, Request};
use super::blocking;
use super::session::{Multi, Queued, call};
use super::spec::{ALLOW_BUSY, FAST, IMMEDIATE, KEEPS_USE, LOADING, NOSCRIPT, Run, STALE};
use super::{Command, Context, Ended, Failure, Group, Outcome};

const fn transaction(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Transactions, name, arity, run).flags(FAST | IMMEDIATE | LOADING | NOSCRIPT | STALE | ALLOW_BUSY)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    transaction("discard", 1, discard).since("2.0.0").says("Give a transaction up", "O(n), n being the number of commands"),
    transaction("exec", 1, exec)
        .flags(IMMEDIATE | LOADING | NOSCRIPT | STALE)
        .since("1.2.0")
        .says("Run the commands of a transaction", "that of the commands"),
    transaction("multi", 1, multi).since("1.2.0").says("Begin a transaction", "O(1)"),
    transaction("unwatch", 1, unwatch)
        .flags(FAST | LOADING | NOSCRIPT | STALE | ALLOW_BUSY)
        .since("2.2.0")
        .says("Forget all watched keys", "O(n), n being the number of keys"),
    transaction("watch", -2, watch)
        .keys(1, -1, 1)
        .flags(FAST | IMMEDIATE | LOADING | NOSCRIPT | STALE | ALLOW_BUSY | KEEPS_USE)
        .since("2.2.0")
        .says("Run the next transaction only if these keys do not change", "O(n), n being the number of keys"),
];

fn multi(context: &mut Context, _: &[&[u8]]) -> Outcome {
    if context.session.multi.is_some() {
        return Err(Failure::fixed("ERR MULTI calls can not be nested"));
    }
    context.session.multi = Some(Multi::default());
    context.reply.ok();
    Ok(())
}

fn discard(context: &mut Context, _: &[&[u8]]) -> Outcome {
    if context.session.multi.take().is_none() {
        return Err(Failure::fixed("ERR DISCARD without MULTI"));
    }
    context.keyspace.unwatch(context.session.id);
    context.reply.ok();
    Ok(())
}

fn watch(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    if context.session.multi.is_some() {
        return Err(Failure::fixed("ERR WATCH inside MULTI is not allowed"));
    }
    for key in &arguments[1..] {
        context.keyspace.watch(context.session.id, context.session.db, key)?;
    }
    context.reply.ok();
    Ok(())
}

fn unwatch(context: &mut Context, _: &[&[u8]]) -> Outcome {
    context.keyspace.unwatch(context.session.id);
    context.reply.ok();
    Ok(())
}

fn exec(context: &mut Context, _: &[&[u8]]) -> Outcome {
    let id = context.session.id;
    let Some(multi) = context.session.multi.take() else { return Err(Failure::fixed("ERR EXEC without MULTI")) };
    let is_disturbed = context.keyspace.is_disturbed(id)?;
    context.keyspace.unwatch(id);
    if multi.is_refused {
        return Err(Failure::fixed("EXECABORT Transaction discarded because of previous errors."));
    }
    if is_disturbed {
        context.reply.null_array();
        return Ok(());
    }
    context.reply.array(multi.commands.len());
    context.session.is_in_exec = true;
    let outcome = run(context, &multi.commands);
    context.session.is_in_exec = false;
    outcome
}

/// Runs the commands of a transaction. The user's permissions can have changed since they were queued.
fn run(context: &mut Context, commands: &[Queued]) -> Outcome {
    for queued in commands {
        let arguments: Vec<&[u8]> = queued.arguments.iter().map(Vec::as_slice).collect();
        let request = Request::new(context.server.units, queued.number, &arguments);
        if let Err(why) = context.server.allow(context.keyspace, context.session, &request) {
            let why = match why {
                Refused::Command => "no permission to execute the command or subcommand",
                Refused::Key(_) => "no permission to touch the specified keys",
                Refused::Channel(_) => "no permission to access one of the channels used as arguments",
            };
            let text = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no \
                        longer allowed for the following reason:";
            context.refuse(&Failure::new(format!("{text} {why}")));
            continue;
        }
        let ended = call(context, queued.number, &arguments);
        blocking::refuse(context)?;
        if ended == Ended::EngineFailed {
            // The event-loop iteration will be dropped, and with it the writes of the commands before.
            return Err(Failure::Keyspace(crate::keyspace::Error::Engine(sinterdb::Error::Closed(
                "a read failed in the transaction".into(),
            ))));
        }
    }
    Ok(())
}
