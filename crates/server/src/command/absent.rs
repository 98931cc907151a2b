//! Commands of Redis that this server does not have, each refused with a reason: replication, clusters, modules.

use super::arguments::is;
use super::table::{ADMIN, FAST, LOADING, NO_MULTI, NOSCRIPT, Run, STALE};
use super::{Command, Context, Failure, Group, Outcome, help};

const NO_CLUSTER: Failure = Failure::fixed("ERR This instance has cluster support disabled");
const NO_REPLICATION: Failure = Failure::fixed("ERR This server has no replication");
const NO_MODULES: Failure = Failure::fixed("ERR This server loads no modules");

const fn command(group: Group, name: &'static str, arity: i32, flags: u32, run: Run) -> Command {
    Command::new(group, name, arity, run).flags(flags)
}

const fn cluster(name: &'static str, arity: i32, flags: u32) -> Command {
    command(Group::Cluster, name, arity, flags, |_, _| Err(NO_CLUSTER)).since("3.0.0").says("Refused: there is no cluster", "O(1)")
}

/// Subcommands of `CLUSTER`.
const CLUSTER: &[&str] = &[
    "addslots",
    "addslotsrange",
    "bumpepoch",
    "count-failure-reports",
    "countkeysinslot",
    "delslots",
    "delslotsrange",
    "failover",
    "flushslots",
    "forget",
    "getkeysinslot",
    "help",
    "info",
    "keyslot",
    "links",
    "meet",
    "myid",
    "myshardid",
    "nodes",
    "replicas",
    "replicate",
    "reset",
    "saveconfig",
    "set-config-epoch",
    "setslot",
    "shards",
    "slaves",
    "slots",
];

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    cluster("asking", 1, FAST),
    cluster("cluster", -2, 0).subcommands(CLUSTER),
    cluster("readonly", 1, FAST | LOADING | STALE),
    cluster("readwrite", 1, FAST | LOADING | STALE),
    command(Group::Server, "failover", -1, ADMIN | NOSCRIPT | STALE, |_, _| Err(NO_REPLICATION))
        .since("6.2.0")
        .says("Refused: there is no replication", "O(1)"),
    command(Group::Server, "module", -2, ADMIN | NOSCRIPT, module)
        .subcommands(&["help", "list", "load", "loadex", "unload"])
        .since("4.0.0")
        .says("There are no modules", "O(1)"),
    command(Group::Server, "replicaof", 3, ADMIN | NOSCRIPT | STALE, replicaof)
        .since("5.0.0")
        .says("Refused but for NO ONE: there is no replication", "O(1)"),
    command(Group::Server, "role", 1, FAST | LOADING | NOSCRIPT | STALE, role)
        .since("2.8.12")
        .says("That of a master without replicas", "O(1)"),
    command(Group::Server, "slaveof", 3, ADMIN | NOSCRIPT | STALE, replicaof)
        .says("Refused but for NO ONE: there is no replication", "O(1)"),
    command(Group::Server, "psync", -3, ADMIN | NO_MULTI | NOSCRIPT, |_, _| Err(NO_REPLICATION))
        .since("2.8.0")
        .says("Refused: there is no replication", "O(1)"),
    command(Group::Server, "sync", 1, ADMIN | NO_MULTI | NOSCRIPT, |_, _| Err(NO_REPLICATION))
        .says("Refused: there is no replication", "O(1)"),
];

fn role(context: &mut Context, _: &[&[u8]]) -> Outcome {
    context.reply.array(3);
    context.reply.bulk(b"master");
    context.reply.integer(0);
    context.reply.array(0);
    Ok(())
}

/// `REPLICAOF`: accepts `NO ONE`, as the server never has a master, and refuses everything else.
fn replicaof(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    if !(is(arguments[1], "no") && is(arguments[2], "one")) {
        return Err(NO_REPLICATION);
    }
    context.reply.ok();
    Ok(())
}

fn module(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    match arguments[1] {
        sub if is(sub, "list") => context.reply.array(0),
        sub if is(sub, "help") => help(context, "MODULE", &["LIST", "    The modules: none."]),
        _ => return Err(NO_MODULES),
    }
    Ok(())
}
