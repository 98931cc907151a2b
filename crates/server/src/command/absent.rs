//! Commands of Redis that this server does not have, each refused with a reason: clusters, modules.

use super::arguments::is;
use super::spec::{ADMIN, FAST, LOADING, NOSCRIPT, Run, STALE};
use super::{Command, Context, Failure, Group, Outcome, help};

const NO_CLUSTER: Failure = Failure::fixed("ERR This instance has cluster support disabled");
const NO_MODULES: Failure = Failure::fixed("ERR This server loads no modules");
const MODULE_HELP: &[&str] = &["LIST", "    The modules: none."];

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
    cluster("cluster", -2, 0).subcommands(CLUSTER, &[]),
    cluster("readonly", 1, FAST | LOADING | STALE),
    cluster("readwrite", 1, FAST | LOADING | STALE),
    command(Group::Server, "module", -2, ADMIN | NOSCRIPT, module)
        .subcommands(&["help", "list", "load", "loadex", "unload"], MODULE_HELP)
        .since("4.0.0")
        .says("There are no modules", "O(1)"),
];

fn module(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    match arguments[1] {
        sub if is(sub, "list") => context.reply.array(0),
        sub if is(sub, "help") => help(context, "MODULE", MODULE_HELP)?,
        _ => return Err(NO_MODULES),
    }
    Ok(())
}
