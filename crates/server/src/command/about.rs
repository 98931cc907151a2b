//! `COMMAND`: descriptions of commands.

use super::arguments::is;
use super::keyspecs::{self, Begin, Find, KeySpec};
use super::spec::{LOADING, STALE, flag_names};
use super::syntax::{self, Argument};
use super::units::{Unit, Units, category};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX, Server, help, unknown_subcommand};
use crate::glob;
use crate::resp::Writer;
use std::borrow::Cow;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new(Group::Server, "command", -1, command)
    .subcommands(&["count", "docs", "getkeys", "getkeysandflags", "help", "info", "list"], HELP)
    .flags(LOADING | STALE)
    .since("2.8.13")
    .says("What commands there are", "O(n), n being the number of commands")];

const HELP: &[&str] = &[
    "(no subcommand)",
    "    What is known of all commands.",
    "COUNT",
    "    How many commands there are.",
    "DOCS [<command-name> ...]",
    "    What commands do.",
    "GETKEYS <full-command>",
    "    Which arguments of a command are keys.",
    "GETKEYSANDFLAGS <full-command>",
    "    Which arguments of a command are keys, and what is done to each of them.",
    "INFO [<command-name> ...]",
    "    What is known of commands.",
    "LIST [FILTERBY (ACLCAT <category>|PATTERN <pattern>|MODULE <module>)]",
    "    The names of commands.",
];

/// Commands, without their subcommands.
fn commands(units: &'static Units) -> impl Iterator<Item = &'static Unit> {
    units.all().iter().filter(|unit| unit.parent.is_none())
}

fn command(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let units = context.server.units;
    let Some(sub) = arguments.get(1) else {
        context.reply.array(commands(units).count());
        commands(units).for_each(|unit| describe(units, &mut context.reply, unit));
        return Ok(());
    };
    let rest = &arguments[2..];
    let reply = &mut context.reply;
    let named = |names: &[&[u8]]| names.iter().map(|name| units.find(name).map(|number| units.get(number))).collect::<Vec<_>>();
    match () {
        () if is(sub, "help") => help(context, "COMMAND", HELP)?,
        () if is(sub, "count") => reply.count(commands(units).count()),
        () if is(sub, "info") => {
            let wanted = if rest.is_empty() { commands(units).map(Some).collect() } else { named(rest) };
            reply.array(wanted.len());
            for unit in wanted {
                match unit {
                    Some(unit) => describe(units, reply, unit),
                    None => reply.null(),
                }
            }
        }
        () if is(sub, "docs") => {
            let wanted: Vec<&Unit> = if rest.is_empty() { commands(units).collect() } else { named(rest).into_iter().flatten().collect() };
            reply.map(wanted.len());
            wanted.into_iter().for_each(|unit| document(units, reply, unit));
        }
        () if is(sub, "list") => list(units, reply, rest)?,
        () if is(sub, "getkeys") => keys_of(context.server, reply, rest, false)?,
        () if is(sub, "getkeysandflags") => keys_of(context.server, reply, rest, true)?,
        () => return Err(unknown_subcommand(arguments)),
    }
    Ok(())
}

fn simples<'a>(reply: &mut Writer, names: impl Iterator<Item = &'a str>) {
    let names: Vec<&str> = names.collect();
    reply.set(names.len());
    names.iter().for_each(|name| reply.simple(name));
}

/// An entry of `COMMAND INFO`.
fn describe(units: &Units, reply: &mut Writer, unit: &Unit) {
    reply.array(10);
    reply.bulk(unit.name.as_bytes());
    reply.integer(unit.arity.into());
    simples(reply, flag_names(unit.flags));
    let (first, last, step) = keyspecs::range(unit.specs);
    [first, last, step].iter().for_each(|number| reply.integer((*number).into()));
    let categories: Vec<String> = unit.category_names().collect();
    simples(reply, categories.iter().map(String::as_str));
    // Tips for clients of clusters: there are none.
    reply.set(0);
    reply.set(unit.specs.len());
    unit.specs.iter().for_each(|spec| specify(reply, spec));
    if unit.subcommands.is_empty() {
        reply.set(0);
    } else {
        reply.array(unit.subcommands.len());
        unit.subcommands.clone().for_each(|number| describe(units, reply, units.get(number)));
    }
}

/// Writes a part of a key specification: its kind, words and numbers.
fn part(reply: &mut Writer, name: &str, kind: &str, words: &[(&str, &str)], numbers: &[(&str, i32)]) {
    reply.bulk(name.as_bytes());
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(words.len() + numbers.len());
    for (key, word) in words {
        reply.bulk(key.as_bytes());
        reply.bulk(word.as_bytes());
    }
    for (key, number) in numbers {
        reply.bulk(key.as_bytes());
        reply.integer((*number).into());
    }
}

fn specify(reply: &mut Writer, spec: &KeySpec) {
    reply.map(3);
    reply.bulk(b"flags");
    simples(reply, spec.flag_names());
    match spec.begin {
        Begin::Index(index) => part(reply, "begin_search", "index", &[], &[("index", index)]),
        Begin::Keyword(word, from) => part(reply, "begin_search", "keyword", &[("keyword", word)], &[("startfrom", from)]),
        Begin::Unknown => part(reply, "begin_search", "unknown", &[], &[]),
    }
    match spec.find {
        Find::Range(last, step, limit) => {
            part(reply, "find_keys", "range", &[], &[("lastkey", last), ("keystep", step), ("limit", limit)]);
        }
        Find::Count(number, first, step) => {
            part(reply, "find_keys", "keynum", &[], &[("keynumidx", number), ("firstkey", first), ("keystep", step)]);
        }
        Find::Unknown => part(reply, "find_keys", "unknown", &[], &[]),
    }
}

/// Writes the key `arguments` of a map, and its value.
fn describe_arguments(reply: &mut Writer, arguments: &[Argument]) {
    reply.bulk(b"arguments");
    reply.array(arguments.len());
    for argument in arguments {
        let flags: Vec<&str> = argument.flag_names().collect();
        reply.map(3 + usize::from(argument.token.is_some()) + usize::from(!flags.is_empty()));
        let text = (!argument.kind.has_parts()).then_some(("display_text", argument.name.as_str()));
        let texts = [("name", argument.name.as_str()), ("type", argument.kind.name())];
        for (key, value) in texts.into_iter().chain(text).chain(argument.token.map(|token| ("token", token))) {
            reply.bulk(key.as_bytes());
            reply.bulk(value.as_bytes());
        }
        if !flags.is_empty() {
            reply.bulk(b"flags");
            simples(reply, flags.into_iter());
        }
        if argument.kind.has_parts() {
            describe_arguments(reply, &argument.parts);
        }
    }
}

/// The description of a command or subcommand in one line. The help of a command describes its subcommands.
fn summary(unit: &Unit) -> Cow<'static, str> {
    let Some((_, word)) = unit.name.split_once('|') else { return unit.command.summary.into() };
    if word == "help" {
        return "Print the subcommands".into();
    }
    let is_its_line = |line: &&str| line.split(' ').next().is_some_and(|first| first.eq_ignore_ascii_case(word));
    let lines = unit.command.help.iter().copied().skip_while(|line| !is_its_line(line)).skip(1);
    let text: Vec<&str> = lines.map_while(|line| line.strip_prefix("    ")).collect();
    if text.is_empty() { unit.command.summary.into() } else { text.join(" ").into() }
}

/// An entry of `COMMAND DOCS`.
fn document(units: &Units, reply: &mut Writer, unit: &Unit) {
    let command = unit.command;
    reply.bulk(unit.name.as_bytes());
    let summary = summary(unit);
    let mut pairs = vec![("summary", &*summary), ("since", unit.since), ("group", command.group.name())];
    if unit.parent.is_none() {
        pairs.push(("complexity", command.complexity));
    }
    let arguments = syntax::arguments(&unit.name);
    reply.map(pairs.len() + usize::from(!arguments.is_empty()) + usize::from(!unit.subcommands.is_empty()));
    for (key, value) in pairs {
        reply.bulk(key.as_bytes());
        reply.bulk(value.as_bytes());
    }
    if !arguments.is_empty() {
        describe_arguments(reply, arguments);
    }
    if !unit.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(unit.subcommands.len());
        unit.subcommands.clone().for_each(|number| document(units, reply, units.get(number)));
    }
}

/// Replies with the names of commands and subcommands, all or those that a filter accepts.
fn list(units: &Units, reply: &mut Writer, rest: &[&[u8]]) -> Outcome {
    let all = units.all().iter();
    let names: Vec<&str> = match rest {
        [] => all.map(|unit| unit.name.as_str()).collect(),
        [word, by, what] if is(word, "filterby") && is(by, "pattern") => {
            let what = what.to_ascii_lowercase();
            all.map(|unit| unit.name.as_str()).filter(|name| glob::matches(&what, name.as_bytes())).collect()
        }
        [word, by, what] if is(word, "filterby") && is(by, "aclcat") => {
            let category = category(what);
            all.filter(|unit| unit.categories & category != 0).map(|unit| unit.name.as_str()).collect()
        }
        [word, by, _] if is(word, "filterby") && is(by, "module") => Vec::new(),
        _ => return Err(SYNTAX),
    };
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

/// Replies with the keys of a request, which names its command as clients do.
fn keys_of(server: &Server, reply: &mut Writer, rest: &[&[u8]], with_flags: bool) -> Outcome {
    let number = server.configuration.renames.find(rest[0]).and_then(|(number, _)| server.units.resolve(number, rest));
    let unit = number.map(|number| server.units.get(number)).ok_or(Failure::fixed("ERR Invalid command specified"))?;
    if !unit.specs.iter().any(KeySpec::is_of_keys) {
        return Err(Failure::fixed("ERR The command has no key arguments"));
    }
    if !unit.takes(rest.len()) {
        return Err(Failure::fixed("ERR Invalid number of arguments specified for command"));
    }
    let keys = keyspecs::keys(unit.command, unit.specs, rest).filter(|keys| !keys.is_empty());
    // Commands that run scripts need no keys.
    let keys = keys.or_else(|| (unit.command.group == Group::Scripting).then(Vec::new));
    let keys = keys.ok_or(Failure::fixed("ERR Invalid arguments specified for command"))?;
    reply.array(keys.len());
    for key in keys {
        if with_flags {
            reply.array(2);
        }
        reply.bulk(rest[key.position]);
        if with_flags {
            simples(reply, key.flag_names());
        }
    }
    Ok(())
}
