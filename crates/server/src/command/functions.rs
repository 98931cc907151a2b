//! `FUNCTION`: libraries of code that Redis keeps and runs. This server cannot run any, so it has none, and the commands that list or
//! remove them say so.

use super::arguments::{Rest, is};
use super::subcommand::{Sub, dispatch, help};
use super::table::{LOADING, NOSCRIPT, STALE};
use super::{Command, Context, Failure, Group, Outcome};

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new(Group::Scripting, "function", -2, function)
    .subcommands(&["delete", "flush", "help", "kill", "list", "load", "stats"])
    .flags(NOSCRIPT | LOADING | STALE)
    .since("7.0.0")
    .says("Ask for functions and remove them: there are none", "O(1)")];

const FUNCTION: &[Sub] = &[
    Sub("delete", 3, delete),
    Sub("flush", -2, flush),
    Sub("help", 2, |context, _| help(context, HELP)),
    Sub("kill", 2, kill),
    Sub("list", -2, list),
    Sub("load", -3, load),
    Sub("stats", 2, stats),
];

const HELP: &[&str] = &[
    "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DELETE <library-name>",
    "    Remove a library.",
    "FLUSH [ASYNC|SYNC]",
    "    Remove all libraries.",
    "KILL",
    "    End the function that is running.",
    "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
    "    The libraries.",
    "LOAD [REPLACE] <code>",
    "    Refused: there is nothing here that could run a function.",
    "STATS",
    "    Which function is running, and what can run one.",
    "HELP",
    "    Print this help.",
];

fn function(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    dispatch(context, arguments, FUNCTION)
}

fn delete(_: &mut Context, _: &[&[u8]]) -> Outcome {
    Err(Failure::fixed("ERR Library not found"))
}

fn flush(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    match arguments {
        [_, _] => {}
        [_, _, word] if is(word, "sync") || is(word, "async") => {}
        _ => return Err(Failure::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
    }
    context.reply.ok();
    Ok(())
}

fn kill(_: &mut Context, _: &[&[u8]]) -> Outcome {
    Err(Failure::fixed("NOTBUSY No scripts in execution right now."))
}

fn list(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let mut rest = Rest::new(&arguments[2..]);
    while let Some(word) = rest.next() {
        match () {
            () if is(word, "withcode") => {}
            () if is(word, "libraryname") => {
                rest.next().ok_or(Failure::fixed("ERR library name argument was not given"))?;
            }
            () => return Err(Failure::new([b"ERR Unknown argument ", word].concat())),
        }
    }
    context.reply.array(0);
    Ok(())
}

fn load(_: &mut Context, _: &[&[u8]]) -> Outcome {
    Err(Failure::fixed("ERR functions are not supported: there is nothing here that could run one"))
}

fn stats(context: &mut Context, _: &[&[u8]]) -> Outcome {
    context.reply.map(2);
    context.reply.bulk(b"running_script");
    context.reply.null();
    context.reply.bulk(b"engines");
    context.reply.map(0);
    Ok(())
}
