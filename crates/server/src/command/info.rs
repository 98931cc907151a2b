//! `INFO`: the server's figures, under the names of Redis. Figures of features that do not exist here are 0, so that monitoring tools find
//! them.

use super::arguments::is;
use super::configuration::percentile_text;
use super::spec::{LOADING, Run, STALE};
use super::{Buffers, Command, Context, Fsync, Group, Outcome, Topic, replication};
use crate::keyspace::DATABASES;
use crate::system;
use std::fmt::Write;

const fn about(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Server, name, arity, run).flags(LOADING | STALE)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[about("info", -1, info).says("What the server says of itself", "O(1)")];

/// Writes a part of `INFO`.
type Section = fn(&Context, &mut String) -> std::fmt::Result;

/// Sections in order, and whether they are part of `INFO` without arguments.
const SECTIONS: &[(&str, bool, Section)] = &[
    ("server", true, server),
    ("clients", true, clients),
    ("memory", true, memory),
    ("persistence", true, persistence),
    ("stats", true, stats),
    ("replication", true, replication::info),
    ("cpu", true, cpu),
    ("modules", true, |_, _| Ok(())),
    ("commandstats", false, commandstats),
    ("errorstats", true, errorstats),
    ("latencystats", false, latencystats),
    ("cluster", true, |_, out| out.write_str("cluster_enabled:0\r\n")),
    ("keyspace", true, keyspace),
];

fn info(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let asked = &arguments[1..];
    let has = |names: &[&str]| asked.iter().any(|word| names.iter().any(|known| is(word, known)));
    let is_wanted = |name: &str, unasked: bool| {
        let by_default = unasked && (asked.is_empty() || has(&["default"]));
        by_default || has(&["all", "everything", name])
    };
    let mut text = String::new();
    for (name, _, section) in SECTIONS.iter().filter(|(name, unasked, _)| is_wanted(name, *unasked)) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let title = if *name == "cpu" { "CPU".into() } else { [&name[..1].to_ascii_uppercase(), &name[1..]].concat() };
        // Writing to a string cannot fail.
        let _ = write!(text, "# {title}\r\n").and_then(|()| section(context, &mut text));
    }
    context.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

fn server(context: &Context, out: &mut String) -> std::fmt::Result {
    let now = context.keyspace.now();
    let uptime = now.saturating_sub(context.server.started) / 1000;
    let version = context.server.configuration.compatible.version();
    write!(out, "redis_version:{version}\r\nsinterdb_version:{}\r\nredis_mode:standalone\r\n", env!("CARGO_PKG_VERSION"))?;
    write!(out, "os:{}\r\n", system::name())?;
    write!(out, "arch_bits:{}\r\nmonotonic_clock:POSIX clock_gettime\r\n", usize::BITS)?;
    write!(out, "multiplexing_api:epoll\r\nprocess_id:{}\r\n", std::process::id())?;
    write!(out, "process_supervised:{}\r\nhz:10\r\nconfigured_hz:10\r\nio_threads_active:0\r\n", context.server.supervised.name())?;
    let executable = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
    write!(out, "executable:{executable}\r\nconfig_file:{}\r\n", context.server.configuration.file)?;
    let configuration = &context.server.configuration;
    let port = if configuration.port == 0 { configuration.tls_port } else { configuration.port };
    write!(out, "run_id:{}\r\ntcp_port:{port}\r\n", context.server.run_id)?;
    write!(out, "server_time_usec:{}\r\nuptime_in_seconds:{uptime}\r\nuptime_in_days:{}\r\n", system::unix_us(), uptime / 86_400)?;
    match context.server.ends_at {
        Some((until, _)) => write!(out, "shutdown_in_milliseconds:{}\r\n", until.saturating_sub(now)),
        None => Ok(()),
    }
}

fn clients(context: &Context, out: &mut String) -> std::fmt::Result {
    let server = &context.server;
    let clients = server.clients.len().saturating_sub(server.replicas.len());
    write!(out, "connected_clients:{clients}\r\nmaxclients:{}\r\n", server.configuration.clients_max)?;
    let postponed = server.clients.values().filter(|client| client.is_postponed).count();
    write!(out, "blocked_clients:{}\r\n", context.keyspace.waiting() + postponed)?;
    let largest = |size: fn(&Buffers) -> usize| server.clients.values().map(|client| size(&client.buffers)).max().unwrap_or(0);
    write!(out, "client_recent_max_input_buffer:{}\r\n", largest(|buffers| buffers.input_memory))?;
    write!(out, "client_recent_max_output_buffer:{}\r\n", largest(|buffers| buffers.output_memory))?;
    write!(out, "tracking_clients:{}\r\n", server.tracking.len())?;
    write!(out, "clients_in_timeout_table:{}\r\n", context.keyspace.waiting_in_time())?;
    none(out, "cluster_connections")
}

/// Writes figures of absent features as 0.
fn none(out: &mut String, names: &str) -> std::fmt::Result {
    names.split_ascii_whitespace().try_for_each(|name| write!(out, "{name}:0\r\n"))
}

/// Bytes with a unit, for people.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "K", "M", "G", "T"];
    let (mut amount, mut unit) = (bytes as f64, 0);
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes}B") } else { format!("{amount:.2}{}", UNITS[unit]) }
}

/// `used_memory` is the memory for data, which `maxmemory` bounds; the rest of the process shows only in `used_memory_rss`.
fn memory(context: &Context, out: &mut String) -> std::fmt::Result {
    let held = context.keyspace.memory();
    let scripts = context.server.scripts.figures();
    let used = held.used();
    let (resident, peak, machine) = (system::resident_bytes(), system::resident_peak_bytes(), system::memory_bytes());
    for (name, bytes) in [
        ("used_memory", used),
        ("used_memory_rss", resident),
        ("used_memory_peak", peak),
        ("total_system_memory", machine),
        ("used_memory_lua", scripts.machine as u64),
        ("used_memory_vm_total", scripts.machine as u64),
        ("used_memory_scripts", (scripts.script_bytes + scripts.library_bytes) as u64),
        ("maxmemory", context.server.configuration.memory),
        ("used_data", context.keyspace.data_bytes().unwrap_or(0)),
        ("maxdata", context.server.configuration.data_max),
    ] {
        write!(out, "{name}:{bytes}\r\n{name}_human:{}\r\n", human(bytes))?;
    }
    let part = |of: u64, whole: u64| if whole == 0 { 0.0 } else { of as f64 / whole as f64 };
    write!(out, "used_memory_memtables:{}\r\nused_memory_cache:{}\r\n", held.memtables, held.cache)?;
    write!(out, "used_memory_hot:{}\r\nused_memory_ranks:{}\r\n", held.hot, held.ranks)?;
    write!(out, "hot_keys:{}\r\nhot_key_hits:{}\r\n", held.hot_entries, held.hot_counts.hits)?;
    write!(out, "hot_key_misses:{}\r\n", held.hot_counts.misses)?;
    write!(out, "used_memory_peak_perc:{:.2}%\r\nused_memory_overhead:0\r\nused_memory_startup:0\r\n", part(resident, peak) * 100.0)?;
    write!(out, "used_memory_dataset:{used}\r\nused_memory_dataset_perc:{:.2}%\r\n", part(used, resident) * 100.0)?;
    write!(out, "number_of_cached_scripts:{}\r\nnumber_of_functions:{}\r\n", scripts.scripts, scripts.functions)?;
    write!(out, "number_of_libraries:{}\r\n", scripts.libraries)?;
    // One machine runs scripts and functions.
    write!(out, "used_memory_scripts_eval:{}\r\nused_memory_functions:{}\r\n", scripts.script_bytes, scripts.library_bytes)?;
    write!(out, "used_memory_vm_eval:{}\r\n", scripts.machine)?;
    let policy = context.server.configuration.policy.name();
    write!(out, "maxmemory_policy:{policy}\r\nmaxdata_policy:{policy}\r\n")?;
    write!(out, "mem_fragmentation_ratio:{:.2}\r\n", part(resident, used))?;
    write!(out, "mem_fragmentation_bytes:{}\r\nmem_not_counted_for_evict:0\r\n", resident.saturating_sub(used))?;
    let ([clients, replicas], tail) = (clients_memory(context), context.server.replication.tail.held());
    write!(out, "mem_clients_normal:{clients}\r\nmem_clients_slaves:{replicas}\r\nmem_replication_backlog:{tail}\r\n")?;
    write!(out, "mem_total_replication_buffers:{}\r\n", replicas + tail)?;
    none(out, "mem_aof_buffer mem_cluster_links")?;
    none(out, "used_memory_vm_functions")?;
    write!(out, "mem_allocator:libc\r\nactive_defrag_running:0\r\nlazyfree_pending_objects:0\r\nlazyfreed_objects:0\r\n")
}

/// Bytes of the requests and replies of all clients but replicas, and of replicas.
fn clients_memory(context: &Context) -> [usize; 2] {
    let mut held = [0, 0];
    for (id, client) in &context.server.clients {
        held[usize::from(context.server.replicas.has(*id))] += client.buffers.held();
    }
    held
}

fn persistence(context: &Context, out: &mut String) -> std::fmt::Result {
    let stats = context.keyspace.db().stats();
    let fsync = context.server.configuration.fsync;
    write!(out, "loading:0\r\n")?;
    super::saving::info(context, out)?;
    super::saving::append_info(context, out)?;
    none(out, "aof_rewrite_scheduled aof_rewrites_consecutive_failures aof_last_cow_size")?;
    write!(out, "async_loading:{}\r\n", u8::from(context.server.upstream.data().is_some()))?;
    none(out, "current_cow_peak current_cow_size current_cow_size_age current_fork_perc rdb_last_cow_size")?;
    none(out, "rdb_last_load_keys_expired rdb_last_load_keys_loaded module_fork_in_progress module_fork_last_cow_size")?;
    write!(out, "appendfsync:{}\r\n", fsync.name())?;
    write!(out, "durable_before_reply:{}\r\n", u8::from(fsync == Fsync::Always))?;
    write!(out, "disk_bytes:{}\r\ntable_bytes:{}\r\n", stats.store_bytes, stats.live_table_bytes)
}

fn stats(context: &Context, out: &mut String) -> std::fmt::Result {
    let statistics = &context.server.statistics;
    let expired = statistics.expired(context.keyspace);
    let [operations, received, sent] = statistics.rates.per_second;
    write!(out, "total_connections_received:{}\r\ntotal_commands_processed:{}\r\n", statistics.connections, statistics.commands)?;
    write!(out, "instantaneous_ops_per_sec:{operations:.0}\r\n")?;
    write!(out, "total_net_input_bytes:{}\r\ntotal_net_output_bytes:{}\r\n", statistics.bytes_in, statistics.bytes_out)?;
    write!(out, "instantaneous_input_kbps:{:.2}\r\ninstantaneous_output_kbps:{:.2}\r\n", received / 1024.0, sent / 1024.0)?;
    let hub = &context.server.hub;
    let topics = [Topic::Channel, Topic::Pattern, Topic::Shard].map(|topic| hub.all(topic).len());
    write!(out, "pubsub_channels:{}\r\npubsub_patterns:{}\r\npubsubshard_channels:{}\r\n", topics[0], topics[1], topics[2])?;
    write!(out, "evicted_clients:{}\r\n", statistics.evicted_clients)?;
    write!(out, "client_query_buffer_limit_disconnections:{}\r\n", statistics.query_limited)?;
    write!(out, "client_output_buffer_limit_disconnections:{}\r\n", statistics.output_limited)?;
    write!(out, "rejected_connections:{}\r\nexpired_keys:{}\r\n", statistics.refused_connections, expired.keys)?;
    let [full, partial, refused] = context.server.replicas.syncs;
    write!(out, "sync_full:{full}\r\nsync_partial_ok:{partial}\r\nsync_partial_err:{refused}\r\nexpired_stale_perc:0.00\r\n")?;
    write!(out, "expired_subkeys:{}\r\nevicted_keys:{}\r\n", expired.fields, statistics.evicted)?;
    let (current, total) = context.server.excess.times(context.keyspace.now());
    write!(out, "current_eviction_exceeded_time:{current}\r\ntotal_eviction_exceeded_time:{total}\r\n")?;
    write!(out, "keyspace_hits:{}\r\nkeyspace_misses:{}\r\n", statistics.hits, statistics.misses)?;
    write!(out, "latest_fork_usec:0\r\ntotal_forks:0\r\nmigrate_cached_sockets:0\r\n")?;
    write!(out, "slave_expires_tracked_keys:{}\r\n", context.keyspace.own_deadlines())?;
    write!(out, "active_defrag_hits:0\r\nactive_defrag_misses:0\r\nactive_defrag_key_hits:0\r\nactive_defrag_key_misses:0\r\n")?;
    none(out, "current_active_defrag_time total_active_defrag_time")?;
    write!(out, "expired_time_cap_reached_count:{}\r\n", statistics.expiry_pauses)?;
    write!(out, "expire_cycle_cpu_milliseconds:{}\r\n", statistics.expiring_ns / 1_000_000)?;
    none(out, "instantaneous_input_repl_kbps instantaneous_output_repl_kbps")?;
    write!(out, "total_net_repl_output_bytes:{}\r\n", statistics.bytes_to_replicas)?;
    write!(out, "total_reads_processed:{}\r\ntotal_writes_processed:{}\r\n", statistics.reads, statistics.writes)?;
    none(out, "total_net_repl_input_bytes io_threaded_reads_processed io_threaded_writes_processed dump_payload_sanitizations")?;
    context.server.tracking.figures().iter().try_for_each(|(name, number)| write!(out, "{name}:{number}\r\n"))?;
    write!(out, "unexpected_error_replies:{}\r\n", context.server.upstream.failed)?;
    write!(out, "total_error_replies:{}\r\n", statistics.errors)?;
    for (name, count) in super::acl::REASONS.iter().zip(statistics.refused_requests) {
        let name = if *name == "command" { "cmd" } else { name };
        write!(out, "acl_access_denied_{name}:{count}\r\n")?;
    }
    Ok(())
}

fn cpu(_: &Context, out: &mut String) -> std::fmt::Result {
    let (all, main) = (system::processor(), system::processor_of_thread());
    write!(out, "used_cpu_sys:{:.6}\r\nused_cpu_user:{:.6}\r\n", all.system, all.user)?;
    write!(out, "used_cpu_sys_children:{:.6}\r\nused_cpu_user_children:{:.6}\r\n", all.children_system, all.children_user)?;
    write!(out, "used_cpu_sys_main_thread:{:.6}\r\nused_cpu_user_main_thread:{:.6}\r\n", main.system, main.user)
}

fn commandstats(context: &Context, out: &mut String) -> std::fmt::Result {
    for (name, used) in context.server.records.usage.used() {
        let micros = used.ns / 1000;
        let each = if used.calls == 0 { 0.0 } else { used.ns as f64 / 1000.0 / used.calls as f64 };
        write!(out, "cmdstat_{name}:calls={},usec={micros},usec_per_call={each:.2}", used.calls)?;
        write!(out, ",rejected_calls={},failed_calls={}\r\n", used.rejected, used.failed)?;
    }
    Ok(())
}

fn errorstats(context: &Context, out: &mut String) -> std::fmt::Result {
    // Separators of the output must not stand in an error code, which may come from a client.
    let safe = |kind: &str| kind.replace(['#', ':', '\n', '\r', '='], "_");
    context.server.records.usage.errors().try_for_each(|(kind, count)| write!(out, "errorstat_{}:count={count}\r\n", safe(kind)))
}

fn latencystats(context: &Context, out: &mut String) -> std::fmt::Result {
    for (name, used) in context.server.records.usage.used() {
        let Some(histogram) = &used.histogram else { continue };
        write!(out, "latency_percentiles_usec_{name}:")?;
        for (at, percentile) in context.server.configuration.latency_percentiles.iter().enumerate() {
            let micros = histogram.percentile(u64::from(*percentile)) as f64 / 1000.0;
            write!(out, "{}p{}={micros:.3}", if at > 0 { "," } else { "" }, percentile_text(*percentile))?;
        }
        out.write_str("\r\n")?;
    }
    Ok(())
}

fn keyspace(context: &Context, out: &mut String) -> std::fmt::Result {
    for db in (0..DATABASES).filter(|db| context.keyspace.size(*db) > 0) {
        write!(out, "db{db}:keys={},expires={},avg_ttl=0", context.keyspace.size(db), context.keyspace.deadlines(db))?;
        // Redis 7.0 has no such hashes.
        match context.keyspace.expiring(db) {
            0 => out.write_str("\r\n")?,
            expiring => write!(out, ",subexpiry={expiring}\r\n")?,
        }
    }
    Ok(())
}
