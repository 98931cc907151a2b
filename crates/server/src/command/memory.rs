//! `MEMORY`. Data is on disk; memory holds what was written or read lately, so a key has no memory of its own. Its usage is estimated as
//! the bytes stored for it.

use super::arguments::is;
use super::spec::{KEEPS_USE, LOADING, READ, STALE};
use super::{Command, Context, Group, Outcome, SYNTAX, help, unknown_subcommand};
use crate::system;
use sinter_storage::store::give_back_free;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new(Group::Server, "memory", -2, memory)
    .subcommands(&["doctor", "help", "malloc-stats", "purge", "stats", "usage"], HELP)
    .flags(READ | LOADING | STALE | KEEPS_USE)
    .since("4.0.0")
    .says("What takes memory", "O(1), O(n) for USAGE, n being the number of samples")];

const HELP: &[&str] = &[
    "DOCTOR",
    "    What there is to say about memory.",
    "MALLOC-STATS",
    "    What the engine's memory holds.",
    "PURGE",
    "    Gives the system the memory that is held for nothing but later use.",
    "STATS",
    "    What takes memory.",
    "USAGE <key> [SAMPLES <count>]",
    "    An estimate of the bytes that a key and its content take, on the",
    "    medium or in memory, before compression.",
];

/// Elements of a collection that are measured by default.
const SAMPLES: u64 = 5;

fn memory(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let sub = arguments[1];
    match (sub, &arguments[2..]) {
        (_, []) if is(sub, "help") => help(context, "MEMORY", HELP)?,
        (_, [key, options @ ..]) if is(sub, "usage") => usage(context, key, options)?,
        (_, []) if is(sub, "stats") => stats(context),
        (_, []) if is(sub, "doctor") => {
            let text = doctor(context);
            context.reply.verbatim(*b"txt", text.as_bytes());
        }
        (_, []) if is(sub, "malloc-stats") => {
            let held = context.keyspace.memory();
            let parts = [("memtables", held.memtables), ("cache", held.cache), ("hot keys", held.hot), ("ranks", held.ranks)];
            let text: String = parts.iter().map(|(name, bytes)| format!("{name}: {bytes} bytes\n")).collect();
            context.reply.verbatim(*b"txt", text.as_bytes());
        }
        (_, []) if is(sub, "purge") => {
            context.keyspace.give_back();
            context.server.feed.give_back();
            give_back_free();
            context.reply.ok();
        }
        _ => return Err(unknown_subcommand(arguments)),
    }
    Ok(())
}

fn usage(context: &mut Context, key: &[u8], options: &[&[u8]]) -> Outcome {
    let mut samples = SAMPLES;
    for option in options.chunks(2) {
        samples = match option {
            [word, count] if is(word, "samples") => match super::arguments::integer(count)? {
                0 => u64::MAX,
                count => u64::try_from(count).map_err(|_| SYNTAX)?,
            },
            _ => return Err(SYNTAX),
        };
    }
    context.keyspace.count_lookups(false);
    match context.keyspace.estimate(context.session.db, key, samples)? {
        Some(bytes) => context.reply.integer(i64::try_from(bytes).unwrap_or(i64::MAX)),
        None => context.reply.null(),
    }
    Ok(())
}

/// Replies with figures under Redis's names, and with those of the engine.
fn stats(context: &mut Context) {
    let stats = context.keyspace.db().stats();
    let keys: u64 = (0..crate::keyspace::DATABASES).map(|db| context.keyspace.size(db)).sum();
    let held = context.keyspace.memory();
    let scripts = context.server.scripts.figures();
    let (resident, peak) = (system::resident_bytes(), system::resident_peak_bytes());
    let integers = [
        ("peak.allocated", peak),
        ("total.allocated", held.used()),
        ("startup.allocated", 0),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("lua.caches", scripts.script_bytes as u64),
        ("functions.caches", scripts.library_bytes as u64),
        ("memtables.bytes", held.memtables),
        ("cache.bytes", held.cache),
        ("hot.bytes", held.hot),
        ("ranks.bytes", held.ranks),
        ("turn.bytes", context.keyspace.uncommitted() as u64),
        ("keys.count", keys),
        ("keys.bytes-per-key", stats.live_table_bytes.checked_div(keys).unwrap_or(0)),
        ("dataset.bytes", stats.live_table_bytes),
        ("allocator.resident", resident),
    ];
    let part = |of: u64, whole: u64| if whole == 0 { 0.0 } else { of as f64 * 100.0 / whole as f64 };
    let reply = &mut context.reply;
    reply.map(integers.len() + 1);
    for (name, number) in integers {
        reply.bulk(name.as_bytes());
        reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }
    reply.bulk(b"peak.percentage");
    reply.double(part(resident, peak));
}

fn doctor(context: &Context) -> String {
    let (stats, held) = (context.keyspace.db().stats(), context.keyspace.memory());
    let (used, machine) = (system::resident_bytes(), system::memory_bytes());
    let mut text = format!(
        "The process occupies {used} bytes of {machine}: {} in memtables, {} in the cache, {} in hot keys. Data take {} bytes \
         on the medium.\n",
        held.memtables, held.cache, held.hot, stats.live_table_bytes,
    );
    if machine > 0 && used > machine / 10 * 9 {
        text.push_str("The machine's memory is nearly full: set `maxmemory` to less, or give the process more.\n");
    }
    if stats.stalls > 0 {
        text.push_str("Writes had to wait for flushes or compactions: more `maxmemory` lets more writes be taken before that.\n");
    }
    text
}
