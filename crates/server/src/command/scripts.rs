//! Scripts: `EVAL` and its relatives, and `SCRIPT`.

use super::arguments::is;
use super::scripting;
use super::spec::{MAY_REPLICATE, MOVABLE, NO_MANDATORY_KEYS, NOSCRIPT, READ, Run, SKIP_MONITOR, STALE};
use super::subcommand::{Sub, dispatch};
use super::{Command, Context, Failure, Group, NOT_INTEGER, Outcome, help};
use sinter_script::{Digest, Program};

const NO_SCRIPT: Failure = Failure::fixed("NOSCRIPT No matching script. Please use EVAL.");

/// A command that runs a script or a function.
pub(super) const fn runner(name: &'static str, flags: u32, run: Run) -> Command {
    let common = NOSCRIPT | STALE | SKIP_MONITOR | NO_MANDATORY_KEYS | MOVABLE;
    Command::new(Group::Scripting, name, -3, run).flags(common | flags)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    runner("eval", MAY_REPLICATE, |context, arguments| eval(context, arguments, false))
        .since("2.6.0")
        .says("Run a script", "that of the script"),
    runner("eval_ro", READ, |context, arguments| eval(context, arguments, true))
        .since("7.0.0")
        .says("Run a script that does not write", "that of the script"),
    runner("evalsha", MAY_REPLICATE, |context, arguments| eval_digest(context, arguments, false))
        .since("2.6.0")
        .says("Run a script of the cache", "that of the script"),
    runner("evalsha_ro", READ, |context, arguments| eval_digest(context, arguments, true))
        .since("7.0.0")
        .says("Run a script of the cache that does not write", "that of the script"),
    Command::new(Group::Scripting, "script", -2, script)
        .subcommands(&["debug", "exists", "flush", "help", "kill", "load"], HELP)
        .flags(NOSCRIPT)
        .since("2.6.0")
        .says("Ask for scripts of the cache, load and end them", "O(n), n being the number of scripts"),
];

fn eval(context: &mut Context, arguments: &[&[u8]], is_read_only: bool) -> Outcome {
    scripting::announce(context, arguments);
    let split = scripting::split(arguments, NOT_INTEGER)?;
    let machine = context.server.scripts.machine(context.keyspace)?;
    let program = Program::Script(machine.load_script(arguments[1])?);
    let known = machine.known(&program).ok_or(NO_SCRIPT)?;
    scripting::run(context, arguments, split, &program, known, is_read_only)
}

fn eval_digest(context: &mut Context, arguments: &[&[u8]], is_read_only: bool) -> Outcome {
    scripting::announce(context, arguments);
    let program = Program::Script(Digest::parse(arguments[1]).ok_or(NO_SCRIPT)?);
    let split = scripting::split(arguments, NOT_INTEGER)?;
    let known = context.server.scripts.machine(context.keyspace)?.known(&program).ok_or(NO_SCRIPT)?;
    scripting::run(context, arguments, split, &program, known, is_read_only)
}

const SCRIPT: &[Sub] = &[
    Sub("debug", 3, debug),
    Sub("exists", -3, exists),
    Sub("flush", -2, flush),
    Sub("help", 2, |context, _| help(context, "SCRIPT", HELP)),
    Sub("kill", 2, kill),
    Sub("load", 3, load),
];

const HELP: &[&str] = &[
    "DEBUG (YES|SYNC|NO)",
    "    Refused but for NO: there is no debugger.",
    "EXISTS <sha1> [<sha1> ...]",
    "    Which of these scripts are in the cache.",
    "FLUSH [ASYNC|SYNC]",
    "    Empty the cache of scripts.",
    "KILL",
    "    End the script that is running, unless it has written.",
    "LOAD <script>",
    "    Put a script into the cache.",
];

fn script(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    dispatch(context, arguments, SCRIPT)
}

fn debug(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    match arguments[2] {
        word if is(word, "no") => {
            context.reply.ok();
            Ok(())
        }
        word if is(word, "yes") || is(word, "sync") => Err(Failure::fixed("ERR SCRIPT DEBUG is not supported: there is no debugger")),
        _ => Err(Failure::fixed("ERR Use SCRIPT DEBUG YES/SYNC/NO")),
    }
}

fn exists(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let machine = context.server.scripts.machine(context.keyspace)?;
    context.reply.array(arguments.len() - 2);
    for text in &arguments[2..] {
        let is_there = Digest::parse(text).is_some_and(|digest| machine.has_script(&digest));
        context.reply.integer(i64::from(is_there));
    }
    Ok(())
}

fn flush(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    match arguments {
        [_, _] => {}
        [_, _, word] if is(word, "sync") || is(word, "async") => {}
        _ => return Err(Failure::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
    }
    if let Some(machine) = context.server.scripts.idle_machine() {
        machine.flush_scripts();
    }
    context.reply.ok();
    Ok(())
}

fn kill(context: &mut Context, _: &[&[u8]]) -> Outcome {
    context.server.scripts.kill(true)?;
    context.reply.ok();
    Ok(())
}

fn load(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let digest = context.server.scripts.machine(context.keyspace)?.load_script(arguments[2])?;
    context.reply.bulk(digest.bytes());
    Ok(())
}
