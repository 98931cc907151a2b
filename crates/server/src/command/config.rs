//! `CONFIG`: reading and changing the configuration.

use super::arguments::is;
use super::configuration::{self, Refusal};
use super::server::Statistics;
use super::spec::{ADMIN, LOADING, NOSCRIPT, STALE};
use super::{Command, Configuration, Context, Failure, Group, Outcome, SYNTAX, Server, help, unknown_subcommand, wrong_arity};
use crate::glob;
use crate::log::Level;
use crate::system;
use crate::tls::Tls;
use std::fmt::Display;
use std::path::Path;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new(Group::Server, "config", -2, config)
    .subcommands(&["get", "help", "resetstat", "rewrite", "set"], HELP)
    .flags(ADMIN | LOADING | NOSCRIPT | STALE)
    .since("2.0.0")
    .says("Read and change the configuration", "O(n), n being the number of parameters")];

const HELP: &[&str] = &[
    "GET <pattern> [<pattern> ...]",
    "    The parameters that match, and their values.",
    "RESETSTAT",
    "    Count from zero again.",
    "REWRITE",
    "    Write the configuration to the file it was read from.",
    "SET <parameter> <value> [<parameter> <value> ...]",
    "    Change parameters: all of them, or none.",
];

fn config(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let sub = arguments[1];
    match () {
        () if is(sub, "help") => help(context, "CONFIG", HELP)?,
        () if is(sub, "get") && arguments.len() > 2 => get(context, &arguments[2..]),
        () if is(sub, "set") && arguments.len() > 3 => {
            set(context, &arguments[2..])?;
            context.reply.ok();
        }
        () if is(sub, "resetstat") => {
            context.server.statistics = Statistics::begin(context.keyspace);
            context.server.records.usage = Default::default();
            context.reply.ok();
        }
        () if is(sub, "rewrite") => {
            rewrite(context, false)?;
            context.reply.ok();
        }
        () if ["get", "set"].iter().any(|known| is(sub, known)) => {
            return Err(wrong_arity(&[b"config|", &sub.to_ascii_lowercase()[..]].concat()));
        }
        () => return Err(unknown_subcommand(arguments)),
    }
    Ok(())
}

/// Names that `CONFIG GET` shows only by their full name, as in Redis: they are for tests.
const HIDDEN: [&str; 6] = [
    "key-load-delay",
    "loading-process-events-interval-bytes",
    "lua-enable-deprecated-api",
    "rdb-key-save-delay",
    "use-exit-on-panic",
    "watchdog-period",
];

/// Replies with the parameters that match. One that several patterns match is listed once; one requested by name keeps the case of the
/// request.
fn get(context: &mut Context, patterns: &[&[u8]]) {
    let matches = |pattern: &&&[u8], name: &str| {
        if HIDDEN.contains(&name) { is(pattern, name) } else { glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()) }
    };
    let shown = |name: &'static str| patterns.iter().find(|pattern| matches(pattern, name)).map(|pattern| (name, *pattern));
    let all = context.server.configuration.all().into_iter();
    let found: Vec<_> = all.filter_map(|(name, value)| shown(name).map(|shown| (shown, value))).collect();
    context.reply.map(found.len());
    for ((name, pattern), value) in found {
        context.reply.bulk(if is(pattern, name) { pattern } else { name.as_bytes() });
        context.reply.bulk(value.as_bytes());
    }
}

fn not_set(name: &str, why: impl Display) -> Failure {
    Failure::new(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"))
}

/// Reads the files of TLS of a changed configuration.
fn load_tls(changed: &Configuration, server: &Server) -> Result<Option<Tls>, String> {
    changed.tls.load_if(server.tls.is_some(), changed.following.is_encrypted)
}

/// Sets all pairs, or none.
fn set(context: &mut Context, pairs: &[&[u8]]) -> Outcome {
    if !pairs.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    let mut changed = context.server.configuration.clone();
    let mut seen: Vec<String> = Vec::new();
    for pair in pairs.chunks_exact(2) {
        let name = String::from_utf8_lossy(pair[0]).to_ascii_lowercase();
        if seen.contains(&name) {
            return Err(not_set(&name, "duplicate parameter"));
        }
        let value = std::str::from_utf8(pair[1]).map_err(|_| not_set(&name, "the value is not UTF-8"))?;
        match changed.change(&name, value) {
            Ok(()) => seen.push(name),
            Err(Refusal::Unknown) => {
                return Err(Failure::new([b"ERR Unknown option or number of arguments for CONFIG SET - '", pair[0], b"'"].concat()));
            }
            Err(Refusal::Wrong(why)) => return Err(not_set(&name, why)),
        }
    }
    // TLS files are loaded again even if their names are unchanged, as their contents may be new.
    let tls = match seen.iter().find(|name| name.starts_with("tls-")) {
        Some(name) => Some(load_tls(&changed, context.server).map_err(|why| not_set(name, why))?),
        None => None,
    };
    if changed.data_max > 0 && context.keyspace.data_bytes().is_none() {
        return Err(not_set("maxdata", "keys of an earlier version are counted only at a start with maxdata"));
    }
    if let Some(possible) = context.server.clients_possible.filter(|possible| changed.clients_max > *possible) {
        let why = format!("The operating system is not able to handle the specified number of clients, try with {possible}");
        return Err(not_set("maxclients", why));
    }
    let (had_log, has_log) = (context.server.configuration.append_only, changed.append_only);
    if has_log && !had_log {
        context.server.append.open(changed.logs(context.keyspace)).map_err(|why| not_set("appendonly", why))?;
    }
    if changed.budget() != context.server.configuration.budget()
        && let Err(error) = context.keyspace.set_memory(changed.budget())
    {
        if has_log && !had_log {
            context.server.append.close();
        }
        return Err(not_set("maxmemory", error));
    }
    if had_log && !has_log {
        context.server.append.close();
    }
    let server = &mut context.server;
    if seen.iter().any(|name| name == "requirepass") {
        server.users.set_default_password(changed.password());
    }
    if let Some(tls) = tls {
        server.tls = tls;
        server.event(Level::Notice, "tls_changed", &[("certificate", &changed.tls.certificate)]);
    }
    server.users.new_channels = changed.new_channels;
    server.log.set_level(changed.log_level);
    changed.apply_to(context.keyspace);
    server.configuration = changed;
    server.tell_without_effect();
    Ok(())
}

/// Writes the configuration to its file. `with_defaults`: all of it.
pub(super) fn rewrite(context: &mut Context, with_defaults: bool) -> Outcome {
    let server = &context.server;
    let file = server.configuration.file.clone();
    if file.is_empty() {
        return Err(Failure::fixed("ERR The server is running without a config file"));
    }
    let in_file = server.configuration.acl_file.is_empty();
    let users: Vec<String> = server.users.lines().map(|line| String::from_utf8_lossy(&line).into_owned()).collect();
    let written = std::fs::read_to_string(&file).and_then(|old| {
        let new = configuration::rewrite(&old, &server.configuration, in_file.then_some(&users[..]), with_defaults);
        system::replace_file(Path::new(&file), new.as_bytes())
    });
    written.map_err(|error| {
        server.event(Level::Warning, "config_not_rewritten", &[("file", &file), ("error", &error)]);
        Failure::new(format!("ERR Rewriting config file: {error}"))
    })?;
    server.event(Level::Notice, "config_rewritten", &[("file", &file)]);
    Ok(())
}
