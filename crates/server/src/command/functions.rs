//! Functions: `FCALL`, `FCALL_RO` and `FUNCTION`. The code of libraries lies in the keyspace, outside of the databases; the machine that
//! runs scripts has the libraries compiled.

use super::arguments::{Rest, is};
use super::scripting;
use super::scripts::runner;
use super::spec::{LOADING, MAY_REPLICATE, NOSCRIPT, READ, STALE};
use super::subcommand::{Sub, dispatch, wrong_form};
use super::{Command, Context, Failure, Group, Outcome, effects, help};
use crate::glob;
use crate::rdb::{self, Output, Version, open_value};
use crate::resp::Writer;
use sinter_script::{Library, Program};

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    runner("fcall", MAY_REPLICATE, |context, arguments| fcall(context, arguments, false))
        .since("7.0.0")
        .says("Run a function", "that of the function"),
    runner("fcall_ro", READ, |context, arguments| fcall(context, arguments, true))
        .since("7.0.0")
        .says("Run a function that does not write", "that of the function"),
    Command::new(Group::Scripting, "function", -2, function)
        .subcommands(&["delete", "dump", "flush", "help", "kill", "list", "load", "restore", "stats"], HELP)
        .flags(NOSCRIPT | LOADING | STALE)
        .since("7.0.0")
        .says("Load, list, save and remove libraries of functions", "O(n), n being the number of libraries"),
];

const FUNCTION: &[Sub] = &[
    Sub("delete", 3, delete),
    Sub("dump", 2, dump),
    Sub("flush", -2, flush),
    Sub("help", 2, |context, _| help(context, "FUNCTION", HELP)),
    Sub("kill", 2, kill),
    Sub("list", -2, list),
    Sub("load", -3, load),
    Sub("restore", -3, restore),
    Sub("stats", 2, stats),
];

const HELP: &[&str] = &[
    "DELETE <library-name>",
    "    Remove a library.",
    "DUMP",
    "    All libraries as a value for RESTORE.",
    "FLUSH [ASYNC|SYNC]",
    "    Remove all libraries.",
    "KILL",
    "    End the function that is running, unless it has written.",
    "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
    "    The libraries and their functions.",
    "LOAD [REPLACE] <code>",
    "    Add a library, whose name is in the first line of its code.",
    "RESTORE <value> [FLUSH|APPEND|REPLACE]",
    "    Add the libraries of a value from DUMP: instead of all others, only if they are new, or in place of those of their names.",
    "STATS",
    "    Which function is running, and what can run one.",
];

fn fcall(context: &mut Context, arguments: &[&[u8]], is_read_only: bool) -> Outcome {
    scripting::announce(context, arguments);
    let program = Program::Function(arguments[1]);
    let machine = context.server.scripts.machine(context.keyspace)?;
    let known = machine.known(&program).ok_or(Failure::fixed("ERR Function not found"))?;
    let split = scripting::split(arguments, Failure::fixed("ERR Bad number of keys provided"))?;
    scripting::run(context, arguments, split, &program, known, is_read_only)
}

fn function(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    dispatch(context, arguments, FUNCTION)
}

/// Logs a request that has changed the libraries.
fn note(context: &mut Context, request: &[&[u8]]) {
    context.server.scripts.count();
    context.server.feed.put(context.session.db, &effects::by_own_name("function", request));
}

fn load(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (code, options) = arguments.split_last().ok_or(Failure::fixed("ERR Function code is missing"))?;
    let options = options.get(2..).unwrap_or_default();
    if let Some(option) = options.iter().find(|option| !is(option, "replace")) {
        return Err(Failure::new([b"ERR Unknown option given: ", *option].concat()));
    }
    let name = scripting::load_library(context, code, !options.is_empty())?;
    context.keyspace.put_library(&name, code);
    note(context, arguments);
    context.reply.bulk(&name);
    Ok(())
}

fn delete(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let name = arguments[2];
    if !context.server.scripts.machine(context.keyspace)?.delete_library(name) {
        return Err(Failure::fixed("ERR Library not found"));
    }
    context.keyspace.remove_library(name);
    note(context, arguments);
    context.reply.ok();
    Ok(())
}

fn flush(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    match arguments {
        [_, _] => {}
        [_, _, word] if is(word, "sync") || is(word, "async") => {}
        [_, _, _] => return Err(Failure::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
        _ => return Err(wrong_form(arguments)),
    }
    context.server.scripts.machine(context.keyspace)?.flush_libraries();
    context.keyspace.clear_libraries()?;
    note(context, arguments);
    context.reply.ok();
    Ok(())
}

fn kill(context: &mut Context, _: &[&[u8]]) -> Outcome {
    context.server.scripts.kill(false)?;
    context.reply.ok();
    Ok(())
}

fn list(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (mut pattern, mut with_code) = (None, false);
    let mut rest = Rest::new(&arguments[2..]);
    while let Some(word) = rest.next() {
        match () {
            () if is(word, "withcode") && !with_code => with_code = true,
            () if is(word, "libraryname") && pattern.is_none() => {
                let name = rest.next().ok_or(Failure::fixed("ERR library name argument was not given"))?;
                pattern = Some(name.to_ascii_lowercase());
            }
            () => return Err(Failure::new([b"ERR Unknown argument ", word].concat())),
        }
    }
    let is_meant = |library: &&Library| pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, &library.name.to_ascii_lowercase()));
    let machine = context.server.scripts.machine(context.keyspace)?;
    let libraries: Vec<&Library> = machine.libraries().filter(is_meant).collect();
    context.reply.array(libraries.len());
    libraries.into_iter().for_each(|library| describe(&mut context.reply, library, with_code));
    Ok(())
}

fn describe(reply: &mut Writer, library: &Library, with_code: bool) {
    reply.map(if with_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(&library.name);
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(&function.name);
        reply.bulk(b"description");
        reply.bulk_or_null(function.description.as_deref());
        reply.bulk(b"flags");
        reply.set(function.flags.names().count());
        function.flags.names().for_each(|flag| reply.simple(flag));
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.code);
    }
}

fn stats(context: &mut Context, _: &[&[u8]]) -> Outcome {
    let scripts = &context.server.scripts;
    if scripts.runs_eval() {
        return Err(scripts.busy());
    }
    let (figures, now) = (scripts.figures(), context.server.monotonic_ns());
    let reply = &mut context.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    match scripts.late(now) {
        None => reply.null(),
        Some(((name, request), ms)) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(name);
            reply.bulk(b"command");
            reply.array(request.len());
            request.iter().for_each(|argument| reply.bulk(argument));
            reply.bulk(b"duration_ms");
            reply.integer(i64::try_from(ms).unwrap_or(i64::MAX));
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.count(figures.libraries);
    reply.bulk(b"functions_count");
    reply.count(figures.functions);
    Ok(())
}

fn dump(context: &mut Context, _: &[&[u8]]) -> Outcome {
    let mut out = Output::new(Vec::new());
    let failed = |error: std::io::Error| Failure::new(format!("ERR {error}"));
    for library in context.server.scripts.machine(context.keyspace)?.libraries() {
        out.function(&library.code).map_err(failed)?;
    }
    context.reply.bulk(&out.end_of_value(Version::Ten).map_err(failed)?);
    Ok(())
}

/// Treatment of present libraries by `FUNCTION RESTORE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Flush,
    Append,
    Replace,
}

fn policy(arguments: &[&[u8]]) -> Result<Policy, Failure> {
    const WRONG: Failure = Failure::fixed("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.");
    match arguments {
        [_, _, _] => Ok(Policy::Append),
        [_, _, _, word] if is(word, "flush") => Ok(Policy::Flush),
        [_, _, _, word] if is(word, "append") => Ok(Policy::Append),
        [_, _, _, word] if is(word, "replace") => Ok(Policy::Replace),
        [_, _, _, _] => Err(WRONG),
        _ => Err(wrong_form(arguments)),
    }
}

fn restore(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let policy = policy(arguments)?;
    let (value, _) = open_value(arguments[2]).ok_or(Failure::fixed("ERR DUMP payload version or checksum are wrong"))?;
    // An empty machine loads all of them first: none is restored unless all load and their names do not collide.
    let mut staged = scripting::new_machine(context.server.configuration.compatible);
    for code in codes(value)? {
        scripting::load(context.server, &mut staged, &code, false)?;
    }
    let staged: Vec<Library> = staged.libraries().cloned().collect();
    let machine = context.server.scripts.machine(context.keyspace)?;
    if policy != Policy::Flush {
        for library in &staged {
            if policy == Policy::Append && machine.libraries().any(|other| other.name == library.name) {
                return Err(Failure::new([b"ERR Library ", &library.name[..], b" already exists"].concat()));
            }
        }
        let goes = |name: &[u8]| staged.iter().any(|library| library.name == name);
        for function in staged.iter().flat_map(|library| &library.functions) {
            if machine.function(&function.name).is_some_and(|(other, _)| !goes(&other.name)) {
                return Err(Failure::new([b"ERR Function ", &function.name[..], b" already exists"].concat()));
            }
        }
    }
    if let Err(failure) = load_all(context, &staged, policy) {
        // The keyspace still has the libraries of before.
        context.server.scripts.read_libraries(context.keyspace)?;
        return Err(failure);
    }
    if policy == Policy::Flush {
        context.keyspace.clear_libraries()?;
    }
    staged.iter().for_each(|library| context.keyspace.put_library(&library.name, &library.code));
    note(context, arguments);
    context.reply.ok();
    Ok(())
}

/// Loads libraries into the machine in place of others. When one fails, those before it are there and the others are not.
fn load_all(context: &mut Context, staged: &[Library], policy: Policy) -> Outcome {
    let machine = context.server.scripts.machine(context.keyspace)?;
    if policy == Policy::Flush {
        machine.flush_libraries();
    }
    for library in staged {
        machine.delete_library(&library.name);
    }
    for library in staged {
        scripting::load_library(context, &library.code, true)?;
    }
    Ok(())
}

/// Codes of the libraries in a value of `FUNCTION DUMP`.
fn codes(value: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
    match rdb::functions(value) {
        Ok(Some(codes)) => Ok(codes),
        Ok(None) => Err(Failure::fixed("ERR given type is not a function")),
        Err(_) => Err(Failure::fixed("ERR Failed loading library payload")),
    }
}
