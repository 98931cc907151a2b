//! The server's metrics in Prometheus's text format.

use super::acl::REASONS;
use super::{Server, usage};
use crate::keyspace::{DATABASES, Keyspace};
use crate::system;
use std::fmt::Write;

/// A metric without labels: its name, whether it is a counter, its description, and its value.
type Figure = (&'static str, bool, &'static str, f64);

fn write_head(out: &mut String, name: &str, grows: bool, about: &str) {
    let kind = if grows { "counter" } else { "gauge" };
    // Writing to a string cannot fail.
    let _ = write!(out, "# HELP sinterdb_{name} {about}\n# TYPE sinterdb_{name} {kind}\n");
}

/// The page with all metrics.
pub fn metrics(server: &Server, keyspace: &Keyspace) -> String {
    let mut out = String::new();
    for (name, grows, about, value) in figures(server, keyspace) {
        write_head(&mut out, name, grows, about);
        let _ = writeln!(out, "sinterdb_{name} {value}");
    }
    write_head(&mut out, "keys", false, "Keys of a database.");
    for db in (0..DATABASES).filter(|db| keyspace.size(*db) > 0) {
        let _ = writeln!(out, "sinterdb_keys{{db=\"{db}\"}} {}", keyspace.size(db));
    }
    write_head(&mut out, "refused_requests_total", true, "Requests that access rules have refused, by what was refused.");
    for (reason, count) in REASONS.iter().zip(server.statistics.refused_requests) {
        let _ = writeln!(out, "sinterdb_refused_requests_total{{reason=\"{reason}\"}} {count}");
    }
    write_head(&mut out, "errors_total", true, "Error replies, by their first word.");
    for (kind, count) in server.records.usage.errors() {
        let kind: String = kind.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect();
        let _ = writeln!(out, "sinterdb_errors_total{{kind=\"{kind}\"}} {count}");
    }
    commands(&mut out, &server.records.usage);
    out
}

fn figures(server: &Server, keyspace: &Keyspace) -> Vec<Figure> {
    let (statistics, stats, held) = (&server.statistics, keyspace.db().stats(), keyspace.memory());
    let (processor, expired) = (system::processor(), statistics.expired(keyspace));
    let ([full, partial, refused], (lag_bytes, lag_seconds)) = (server.replicas.syncs, lag(server, keyspace));
    let link = server.upstream.session().and_then(|session| server.clients.get(&session));
    let (is_linked, silence) = (link.is_some(), link.map_or(0.0, |client| keyspace.now().saturating_sub(client.active) as f64 / 1000.0));
    let uptime = keyspace.now().saturating_sub(server.started) as f64 / 1000.0;
    vec![
        ("uptime_seconds", false, "Seconds since the start.", uptime),
        ("clients", false, "Clients that are connected.", server.clients.len() as f64),
        ("clients_max", false, "Most clients at the same time.", server.configuration.clients_max as f64),
        ("connections_total", true, "Connections accepted.", statistics.connections as f64),
        ("refused_connections_total", true, "Connections refused because there were too many.", statistics.refused_connections as f64),
        ("requests_total", true, "Requests.", statistics.commands as f64),
        ("received_bytes_total", true, "Bytes received from clients.", statistics.bytes_in as f64),
        ("sent_bytes_total", true, "Bytes sent to clients.", statistics.bytes_out as f64),
        ("expired_keys_total", true, "Keys removed because their time had come.", expired.keys as f64),
        ("expired_fields_total", true, "Fields of hashes removed because their time had come.", expired.fields as f64),
        ("evicted_keys_total", true, "Keys removed because the data were beyond maxdata.", statistics.evicted as f64),
        ("lookup_hits_total", true, "Keys that commands which read have found.", statistics.hits as f64),
        ("lookup_misses_total", true, "Keys that they have not found.", statistics.misses as f64),
        ("slow_commands", false, "Commands that SLOWLOG remembers.", server.records.slowlog.len() as f64),
        ("memory_max_bytes", false, "Most bytes of memtables, cache, hot keys, ranks; 0: not stated.", server.configuration.memory as f64),
        ("memtable_bytes", false, "Bytes of memtables.", held.memtables as f64),
        ("cache_bytes", false, "Bytes of the block cache.", held.cache as f64),
        ("hot_key_bytes", false, "Bytes of keys in front of both that are read often.", held.hot as f64),
        ("rank_bytes", false, "Bytes of what is known of the ranks of sorted sets.", held.ranks as f64),
        ("hot_key_hits_total", true, "Keys that were found there.", held.hot_counts.hits as f64),
        ("hot_key_misses_total", true, "Keys that were not.", held.hot_counts.misses as f64),
        ("data_bytes", false, "Bytes of keys and values.", keyspace.data_bytes().unwrap_or(0) as f64),
        ("data_max_bytes", false, "Most bytes of keys and values; 0: no limit.", server.configuration.data_max as f64),
        ("table_bytes", false, "Bytes of live tables.", stats.live_table_bytes as f64),
        ("disk_bytes", false, "Bytes of all files.", stats.store_bytes as f64),
        ("user_bytes_total", true, "Bytes of keys and values that the engine was given.", stats.ledger.user() as f64),
        ("written_bytes_total", true, "Bytes that it wrote for them, its log included.", stats.ledger.total() as f64),
        ("stalls_total", true, "Times that writes had to wait for the background.", stats.stalls as f64),
        ("stall_seconds_total", true, "Seconds that they waited.", stats.stall_ns as f64 / 1e9),
        ("replicas", false, "Replicas that are connected.", server.replicas.len() as f64),
        ("replica_lag_bytes", false, "Bytes of the stream that the slowest replica has not acknowledged.", lag_bytes),
        ("replica_lag_seconds", false, "Age of the first change that the slowest replica has not acknowledged.", lag_seconds),
        ("full_syncs_total", true, "Replicas that had to get all data.", full as f64),
        ("partial_syncs_total", true, "Replicas that went on with the stream.", partial as f64),
        ("refused_partial_syncs_total", true, "Replicas that asked to go on, and could not.", refused as f64),
        ("replication_bytes_total", true, "Bytes given to replicas.", statistics.bytes_to_replicas as f64),
        ("primary_link_up", false, "1: the server is a replica, and its link to the primary is up.", f64::from(u8::from(is_linked))),
        ("primary_silence_seconds", false, "Seconds since that primary has sent something.", silence),
        ("primary_requests_failed_total", true, "Requests of a primary that have failed here.", server.upstream.failed as f64),
        ("resident_bytes", false, "Memory of the process.", system::resident_bytes() as f64),
        ("processor_user_seconds_total", true, "Processor time in the program.", processor.user),
        ("processor_system_seconds_total", true, "Processor time in the kernel.", processor.system),
    ]
}

/// Bytes of the stream that the slowest replica has not acknowledged, and the age of the first of them, seconds.
fn lag(server: &Server, keyspace: &Keyspace) -> (f64, f64) {
    let end = keyspace.stream().map_or(0, |position| position.offset);
    let online = server.replicas.iter().filter(|(_, replica)| replica.is_online());
    let Some(acknowledged) = online.map(|(_, replica)| replica.acknowledged.unwrap_or(0)).min() else { return (0.0, 0.0) };
    (end.saturating_sub(acknowledged) as f64, server.replicas.lag_seconds(acknowledged, keyspace.now()))
}

/// Reads a metric of a command.
type Part = fn(&usage::Used) -> f64;

/// Writes the metrics of each command; the names are the server's own.
fn commands(out: &mut String, usage: &usage::Usage) {
    let parts: [(&str, &str, Part); 4] = [
        ("command_calls_total", "Calls of a command.", |used| used.calls as f64),
        ("command_seconds_total", "Seconds that they took.", |used| used.ns as f64 / 1e9),
        ("command_failures_total", "Calls that were answered with an error.", |used| used.failed as f64),
        ("command_rejections_total", "Requests that were not run.", |used| used.rejected as f64),
    ];
    for (name, about, value) in parts {
        write_head(out, name, true, about);
        for (command, used) in usage.used() {
            let _ = writeln!(out, "sinterdb_{name}{{command=\"{command}\"}} {}", value(used));
        }
    }
    let name = "command_latency_seconds";
    let _ = write!(out, "# HELP sinterdb_{name} Times of a command, to within 6 %.\n# TYPE sinterdb_{name} summary\n");
    for (command, used) in usage.used() {
        let Some(histogram) = &used.histogram else { continue };
        for (quantile, thousandths) in [("0.5", 50_000), ("0.99", 99_000), ("0.999", 99_900)] {
            let seconds = histogram.percentile(thousandths) as f64 / 1e9;
            let _ = writeln!(out, "sinterdb_{name}{{command=\"{command}\",quantile=\"{quantile}\"}} {seconds}");
        }
        let (total, sum) = (histogram.total(), used.ns as f64 / 1e9);
        let _ = writeln!(out, "sinterdb_{name}_sum{{command=\"{command}\"}} {sum}\nsinterdb_{name}_count{{command=\"{command}\"}} {total}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Session, execute};
    use crate::testing::fresh;

    #[test]
    fn every_line_is_a_figure_with_a_head() {
        let (mut keyspace, mut server) = (fresh(), Server::default());
        let mut session = Session::new(1, &server);
        for line in ["SET a 1", "GET a", "GET b", "INCR a x", "LPUSH a 1", "CONFIG GET x"] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            execute(&mut keyspace, &mut server, &mut session, &words, &mut Vec::new());
        }
        let page = metrics(&server, &keyspace);
        let mut known: Vec<&str> = Vec::new();
        for line in page.lines() {
            if let Some(head) = line.strip_prefix("# TYPE ") {
                known.push(head.split(' ').next().unwrap());
            } else if !line.starts_with('#') {
                let (name, value) = line.rsplit_once(' ').unwrap();
                let name = name.split('{').next().unwrap();
                assert!(known.iter().any(|head| name.starts_with(head)), "{line}");
                assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            }
        }
        for line in [
            "sinterdb_requests_total 6",
            "sinterdb_keys{db=\"0\"} 1",
            "sinterdb_lookup_hits_total 1",
            "sinterdb_lookup_misses_total 1",
            "sinterdb_command_calls_total{command=\"get\"} 2",
            "sinterdb_command_calls_total{command=\"config|get\"} 1",
            "sinterdb_command_failures_total{command=\"lpush\"} 1",
            "sinterdb_command_rejections_total{command=\"incr\"} 1",
            "sinterdb_errors_total{kind=\"WRONGTYPE\"} 1",
        ] {
            assert!(page.lines().any(|known| known == line), "{line}\n{page}");
        }
    }
}
