//! What the server says of itself and of its commands.

use super::arguments::is;
use super::connection::REDIS_VERSION;
use super::server::Fsync;
use super::table::{LOADING, Run, STALE};
use super::{Command, Context, Failure, Group, Outcome, TABLE, Topic, find, unknown_subcommand, wrong_arity};
use crate::glob;
use crate::keyspace::DATABASES;
use crate::resp::Writer;
use std::fmt::Write;

const fn about(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Server, name, arity, run).flags(LOADING | STALE)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    about("command", -1, command)
        .subcommands(&["count", "docs", "getkeys", "help", "info", "list"])
        .since("2.8.13")
        .says("What commands there are", "O(n), n being the number of commands"),
    about("info", -1, info).says("What the server says of itself", "O(1)"),
];

/// Writes a part of `INFO`.
type Section = fn(&Context, &mut String) -> std::fmt::Result;

const SECTIONS: &[(&str, Section)] = &[
    ("server", server),
    ("clients", clients),
    ("memory", memory),
    ("persistence", persistence),
    ("stats", stats),
    ("replication", replication),
    ("keyspace", keyspace),
];

fn info(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let asked = &arguments[1..];
    let is_wanted = |name: &str| {
        asked.is_empty() || asked.iter().any(|word| ["all", "default", "everything", name].iter().any(|known| is(word, known)))
    };
    let mut text = String::new();
    for (name, section) in SECTIONS.iter().filter(|(name, _)| is_wanted(name)) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let title = [&name[..1].to_ascii_uppercase(), &name[1..]].concat();
        // Writing to a string cannot fail.
        let _ = write!(text, "# {title}\r\n").and_then(|()| section(context, &mut text));
    }
    context.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

fn server(context: &Context, out: &mut String) -> std::fmt::Result {
    let now = context.keyspace.now();
    let uptime = now.saturating_sub(context.server.started) / 1000;
    write!(out, "redis_version:{REDIS_VERSION}\r\nsinterdb_version:{}\r\nredis_mode:standalone\r\n", env!("CARGO_PKG_VERSION"))?;
    write!(out, "arch_bits:{}\r\nmultiplexing_api:epoll\r\nprocess_id:{}\r\n", usize::BITS, std::process::id())?;
    write!(out, "run_id:{}\r\ntcp_port:{}\r\n", context.server.run_id, context.server.configuration.port)?;
    write!(out, "server_time_usec:{}\r\nuptime_in_seconds:{uptime}\r\nuptime_in_days:{}\r\n", now.saturating_mul(1000), uptime / 86_400)
}

fn clients(context: &Context, out: &mut String) -> std::fmt::Result {
    let server = &context.server;
    write!(out, "connected_clients:{}\r\nmaxclients:{}\r\n", server.clients.len(), server.configuration.clients_max)?;
    let postponed = server.clients.values().filter(|client| client.is_postponed).count();
    write!(out, "blocked_clients:{}\r\n", context.keyspace.waiting() + postponed)
}

fn memory(context: &Context, out: &mut String) -> std::fmt::Result {
    let stats = context.keyspace.db().stats();
    let used = stats.memtable_bytes.saturating_add(stats.cache_bytes);
    write!(out, "used_memory:{used}\r\nused_memory_memtables:{}\r\nused_memory_cache:{}\r\n", stats.memtable_bytes, stats.cache_bytes)?;
    write!(out, "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n")
}

fn persistence(context: &Context, out: &mut String) -> std::fmt::Result {
    let stats = context.keyspace.db().stats();
    let fsync = context.server.configuration.fsync;
    write!(out, "loading:0\r\n")?;
    super::saving::info(context, out)?;
    // The log is always on and there is nothing to rewrite, so that is never in progress.
    write!(out, "aof_enabled:1\r\naof_rewrite_in_progress:0\r\n")?;
    write!(out, "aof_last_bgrewrite_status:ok\r\naof_last_write_status:ok\r\nappendfsync:{}\r\n", fsync.name())?;
    write!(out, "durable_before_reply:{}\r\n", u8::from(fsync == Fsync::Always))?;
    write!(out, "disk_bytes:{}\r\ntable_bytes:{}\r\n", stats.store_bytes, stats.live_table_bytes)
}

fn stats(context: &Context, out: &mut String) -> std::fmt::Result {
    let statistics = &context.server.statistics;
    write!(out, "total_connections_received:{}\r\ntotal_commands_processed:{}\r\n", statistics.connections, statistics.commands)?;
    write!(out, "total_net_input_bytes:{}\r\ntotal_net_output_bytes:{}\r\n", statistics.bytes_in, statistics.bytes_out)?;
    let hub = &context.server.hub;
    let topics = [Topic::Channel, Topic::Pattern, Topic::Shard].map(|topic| hub.all(topic).len());
    write!(out, "pubsub_channels:{}\r\npubsub_patterns:{}\r\npubsubshard_channels:{}\r\n", topics[0], topics[1], topics[2])?;
    write!(out, "evicted_clients:{}\r\n", statistics.evicted_clients)?;
    write!(out, "rejected_connections:{}\r\nexpired_keys:{}\r\n", statistics.refused_connections, statistics.expired)?;
    write!(out, "total_error_replies:{}\r\nacl_access_denied_auth:{}\r\n", statistics.errors, statistics.refused_passwords)
}

fn replication(_: &Context, out: &mut String) -> std::fmt::Result {
    write!(out, "role:master\r\nconnected_slaves:0\r\n")
}

fn keyspace(context: &Context, out: &mut String) -> std::fmt::Result {
    for db in (0..DATABASES).filter(|db| context.keyspace.size(*db) > 0) {
        write!(out, "db{db}:keys={},expires={},avg_ttl=0\r\n", context.keyspace.size(db), context.keyspace.deadlines(db))?;
    }
    Ok(())
}

const HELP: &[&str] = &[
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    What is known of all commands.",
    "COUNT",
    "    How many commands there are.",
    "DOCS [<command-name> ...]",
    "    What commands do.",
    "GETKEYS <full-command>",
    "    Which arguments of a command are keys.",
    "INFO [<command-name> ...]",
    "    What is known of commands.",
    "LIST [FILTERBY (ACLCAT <category>|PATTERN <pattern>)]",
    "    The names of commands.",
    "HELP",
    "    Print this help.",
];

fn all() -> impl Iterator<Item = &'static Command> {
    TABLE.iter().flat_map(|family| family.iter())
}

fn command(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let Some(sub) = arguments.get(1) else {
        context.reply.array(all().count());
        all().for_each(|command| describe(&mut context.reply, command));
        return Ok(());
    };
    let rest = &arguments[2..];
    let reply = &mut context.reply;
    match () {
        () if is(sub, "help") => {
            reply.array(HELP.len());
            HELP.iter().for_each(|line| reply.simple(line));
        }
        () if is(sub, "count") && rest.is_empty() => reply.count(all().count()),
        () if is(sub, "info") => {
            let wanted: Vec<Option<&Command>> =
                if rest.is_empty() { all().map(Some).collect() } else { rest.iter().map(|name| find(name)).collect() };
            reply.array(wanted.len());
            for command in wanted {
                match command {
                    Some(command) => describe(reply, command),
                    None => reply.null_array(),
                }
            }
        }
        () if is(sub, "docs") => {
            let wanted: Vec<&Command> = if rest.is_empty() { all().collect() } else { rest.iter().filter_map(|name| find(name)).collect() };
            reply.map(wanted.len());
            wanted.into_iter().for_each(|command| document(reply, command));
        }
        () if is(sub, "list") => list(reply, rest)?,
        () if is(sub, "getkeys") && !rest.is_empty() => keys_of(reply, rest)?,
        () if ["count", "getkeys"].iter().any(|known| is(sub, known)) => {
            return Err(wrong_arity(&[b"command|", &sub.to_ascii_lowercase()[..]].concat()));
        }
        () => return Err(unknown_subcommand(arguments)),
    }
    Ok(())
}

/// An entry of `COMMAND INFO`.
fn describe(reply: &mut Writer, command: &Command) {
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(command.arity.into());
    reply.set(command.flag_names().count());
    command.flag_names().for_each(|name| reply.simple(name));
    // Without a first key the others say where a number of keys stands.
    let numbers = if command.keys.0 == 0 { (0, 0, 0) } else { command.keys };
    for number in [numbers.0, numbers.1, numbers.2] {
        reply.integer(number.into());
    }
    let categories = command.categories();
    reply.set(categories.len());
    categories.iter().for_each(|name| reply.simple(name));
    // Tips, key specifications, subcommands.
    (0..3).for_each(|_| reply.array(0));
}

/// An entry of `COMMAND DOCS`.
fn document(reply: &mut Writer, command: &Command) {
    reply.bulk(command.name.as_bytes());
    let pairs =
        [("summary", command.summary), ("since", command.since), ("group", command.group.name()), ("complexity", command.complexity)];
    reply.map(pairs.len());
    for (key, value) in pairs {
        reply.bulk(key.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

fn list(reply: &mut Writer, rest: &[&[u8]]) -> Outcome {
    let names: Vec<&str> = match rest {
        [] => all().map(|command| command.name).collect(),
        [word, by, what] if is(word, "filterby") && is(by, "pattern") => {
            all().map(|command| command.name).filter(|name| glob::matches(&what.to_ascii_lowercase(), name.as_bytes())).collect()
        }
        [word, by, what] if is(word, "filterby") && is(by, "aclcat") => all()
            .filter(|command| command.categories().iter().any(|category| is(what, &category[1..])))
            .map(|command| command.name)
            .collect(),
        _ => return Err(super::SYNTAX),
    };
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

fn keys_of(reply: &mut Writer, rest: &[&[u8]]) -> Outcome {
    let command = find(rest[0]).ok_or(Failure::fixed("ERR Invalid command specified"))?;
    if !command.takes(rest.len()) {
        return Err(Failure::fixed("ERR Invalid number of arguments specified for command"));
    }
    let keys = command.key_positions(rest).ok_or(Failure::fixed("ERR Invalid arguments specified for command"))?;
    if keys.is_empty() {
        return Err(Failure::fixed("ERR The command has no key arguments"));
    }
    reply.array(keys.len());
    keys.iter().for_each(|position| reply.bulk(rest[*position]));
    Ok(())
}
