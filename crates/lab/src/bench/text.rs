//! Prints results in the manner of db_bench, so that both can be read side by side.

use super::workloads::Workload;
use crate::result::{Latency, LevelResult, Machine, Zones, codecs_in_short};
use crate::run::{PhaseKind, PhaseRecord, RunSpec, ValueSize};
use crate::system::{FLUSHES, INDEX_BYTES};
use sinterdb::internal::ledger::dump;
use std::io::{Result, Write};

const MIB: f64 = 1_048_576.0;

/// Cause of the bytes of files among the bytes written to a drive.
const FILES: &str = "files";

/// Writes engine, machine and parameters: one block before the first workload. `path`: location of the database.
pub fn header(spec: &RunSpec, machine: &Machine, path: &str, out: &mut dyn Write) -> Result<()> {
    let RunSpec { workload, engine, seed, .. } = spec;
    let ValueSize::Fixed(value_size) = workload.value_size else { return Ok(()) };
    let (key_size, value_size) = (workload.key_size as f64, value_size as f64);
    let compressed = value_size * workload.compression_ratio;
    let megabytes = |entry: f64| entry * workload.keys as f64 / MIB;
    let commit = option_env!("SINTER_COMMIT").unwrap_or("commit unknown");
    writeln!(out, "{:<12}sinterdb {} ({commit})", "Engine:", env!("CARGO_PKG_VERSION"))?;
    writeln!(
        out,
        "{:<12}{} * {}, {:.1} GB, Linux {}",
        "Machine:",
        machine.cpus,
        machine.cpu_model,
        machine.memory_bytes as f64 / 1e9,
        machine.kernel
    )?;
    writeln!(out, "{:<12}{path} ({} on {})", "Database:", machine.file_system, machine.device)?;
    writeln!(out, "{:<12}{key_size} bytes each", "Keys:")?;
    writeln!(out, "{:<12}{value_size} bytes each ({} bytes after compression)", "Values:", compressed as u64)?;
    writeln!(
        out,
        "{:<12}{} (raw {:.1} MB, compressed {:.1} MB)",
        "Entries:",
        workload.keys,
        megabytes(key_size + value_size),
        megabytes(key_size + compressed)
    )?;
    let compression = engine.families.first().and_then(|family| family.settings.get("compression")).map_or("", String::as_str);
    let threads = workload.phases.iter().map(|phase| if let PhaseKind::Run { threads, .. } = phase.kind { threads } else { 1 });
    writeln!(out, "{:<12}{} threads, seed {seed}, compression {compression}", "Run:", threads.max().unwrap_or(1))?;
    writeln!(out, "------------------------------------------------")
}

/// Prints one workload: db_bench's line, latencies, the write ledger with both amplifications, and the cost. `distribution`: the latency
/// histogram too. Without a record the workload was skipped.
pub fn print_workload(workload: Workload, result: Option<&PhaseRecord>, distribution: bool, out: &mut dyn Write) -> Result<()> {
    let name = workload.name();
    let Some(result) = result else { return writeln!(out, "{name:<12} : skipped (--use_existing_db is true)") };
    let rate = if result.bytes > 0 && result.seconds > 0.0 {
        format!(" {:6.1} MB/s", result.bytes as f64 / MIB / result.seconds)
    } else {
        String::new()
    };
    let found = result.found.map(|f| format!(" ({} of {} found)", f.found, f.asked)).unwrap_or_default();
    let early = if result.interrupted { " (ended early)" } else { "" };
    // A single call to the engine is one operation.
    let operations = if workload.is_single_call() { 1 } else { result.operations };
    let per_second = if result.seconds > 0.0 { operations as f64 / result.seconds } else { 0.0 };
    writeln!(
        out,
        "{name:<12} : {:11.3} micros/op {} ops/sec {:.3} seconds {operations} operations;{rate}{found}{early}",
        result.thread_seconds * 1e6 / operations.max(1) as f64,
        per_second as u64,
        result.seconds,
    )?;
    if let Some(latency) = &result.latency {
        print_latency(latency, distribution, out)?;
    }
    if let Some(writer) = &result.background_writer {
        writeln!(out, "  background writer: {} operations, {:.0} ops/sec", writer.operations, writer.operations_per_second)?;
    }
    print_ledger(result, out)?;
    print_cost(result, out)?;
    match workload {
        Workload::Stats | Workload::LevelStats => print_levels(result.levels.values().flatten(), out),
        _ => Ok(()),
    }
}

fn print_latency(latency: &Latency, distribution: bool, out: &mut dyn Write) -> Result<()> {
    let us = |ns: u64| ns as f64 / 1000.0;
    writeln!(
        out,
        "  micros: P50: {:.2} P75: {:.2} P99: {:.2} P99.9: {:.2} P99.99: {:.2} max: {:.2}",
        us(latency.p50),
        us(latency.p75),
        us(latency.p99),
        us(latency.p999),
        us(latency.p9999),
        us(latency.max)
    )?;
    if !distribution {
        return Ok(());
    }
    writeln!(
        out,
        "  Count: {} Average: {:.4} StdDev: {:.2} Min: {:.3} Max: {:.3}",
        latency.count,
        latency.mean / 1000.0,
        latency.deviation / 1000.0,
        us(latency.min),
        us(latency.max)
    )?;
    let mut below = 0;
    for &(upper, count) in &latency.buckets {
        below += count;
        let percent = |n: u64| 100.0 * n as f64 / latency.count.max(1) as f64;
        let marks = "#".repeat((percent(count) / 5.0).round() as usize);
        writeln!(out, "  <= {:>12.3} {count:>10} {:7.3}% {:7.3}% {marks}", us(upper), percent(count), percent(below))?;
    }
    Ok(())
}

fn amplification(value: Option<f64>) -> String {
    value.map_or("-".into(), |x| format!("{x:.2}"))
}

fn print_ledger(result: &PhaseRecord, out: &mut dyn Write) -> Result<()> {
    let (written, space) = (&result.written, &result.space);
    if written.user_bytes > 0 || !written.by_cause.is_empty() {
        let per_user = |bytes: u64| match written.user_bytes {
            0 => "-".to_string(),
            user => format!("{:.3}", bytes as f64 / user as f64),
        };
        writeln!(out, "  {:<36} {:>12} {:>10}", "bytes written", "MB", "per user")?;
        writeln!(out, "  {:<36} {:>12.2} {:>10}", "user", written.user_bytes as f64 / MIB, per_user(written.user_bytes))?;
        for line in &written.by_cause {
            writeln!(out, "  {:<36} {:>12.2} {:>10}", line.cause, line.bytes as f64 / MIB, per_user(line.bytes))?;
        }
        let all: u64 = written.by_cause.iter().map(|line| line.bytes).sum();
        writeln!(out, "  {:<36} {:>12.2} {:>10}", "all but user", all as f64 / MIB, per_user(all))?;
        if let Some(zones) = &result.zones {
            print_device(zones, all, &per_user, out)?;
        }
    }
    writeln!(
        out,
        "  write amplification {} (since open {})  space amplification {} (tables {})  store {:.1} MB",
        amplification(written.write_amplification),
        amplification(written.write_amplification_since_open),
        amplification(space.space_amplification),
        amplification(space.table_space_amplification),
        space.store_bytes as f64 / MIB
    )?;
    result.zones.as_ref().map_or(Ok(()), |zones| print_zones(zones, out))
}

/// Prints the ledger below the files: from all appended bytes to all bytes written to the drive.
fn print_device(zones: &Zones, appended: u64, per_user: &dyn Fn(u64) -> String, out: &mut dyn Write) -> Result<()> {
    let files = zones.by_cause.iter().find(|line| line.cause == FILES).map_or(0, |line| line.bytes);
    let (sign, gap) = if files <= appended { ("less", appended - files) } else { ("more", files - appended) };
    if gap > 0 {
        // Written for an earlier or later workload, or on a tier, or deleted before being written.
        writeln!(out, "  {:<36} {:>12.2} {:>10}", format!("{sign}: held back, or elsewhere"), gap as f64 / MIB, per_user(gap))?;
    }
    for line in zones.by_cause.iter().filter(|line| line.cause != FILES && line.bytes > 0) {
        writeln!(out, "  {:<36} {:>12.2} {:>10}", line.cause, line.bytes as f64 / MIB, per_user(line.bytes))?;
    }
    writeln!(out, "  {:<36} {:>12.2} {:>10}", "device", zones.device_bytes as f64 / MIB, per_user(zones.device_bytes))
}

fn print_zones(zones: &Zones, out: &mut dyn Write) -> Result<()> {
    writeln!(
        out,
        "  device write amplification {} (since open {})",
        amplification(zones.device_write_amplification),
        amplification(zones.device_write_amplification_since_open)
    )?;
    writeln!(
        out,
        "  zones {} of {} in use, {:.1} MB alive, {:.1} MB dead  resets {} ({:.1} MB unwritten)  finishes {}  collected {}  wear {} to {}",
        zones.used,
        zones.zones,
        zones.live_bytes as f64 / MIB,
        zones.written_bytes.saturating_sub(zones.live_bytes) as f64 / MIB,
        zones.resets,
        zones.reset_unwritten_bytes as f64 / MIB,
        zones.finishes,
        zones.collected,
        zones.wear_least,
        zones.wear_most
    )?;
    if zones.waits + zones.fallbacks + zones.failed > 0 {
        writeln!(
            out,
            "  waits for room {}  files out of their place {}  zones in which a write failed {}",
            zones.waits, zones.fallbacks, zones.failed
        )?;
    }
    Ok(())
}

fn print_cost(result: &PhaseRecord, out: &mut dyn Write) -> Result<()> {
    if result.stalls.count > 0 {
        writeln!(
            out,
            "  stalls {} for {:.3} s, longest since open {:.3} s",
            result.stalls.count, result.stalls.seconds, result.stalls.longest_seconds_since_open
        )?;
    }
    let chosen = result.chosen_codecs.values().next().map(|text| codecs_in_short(text)).unwrap_or_default();
    if !chosen.is_empty() {
        writeln!(out, "  codecs chosen: {chosen}")?;
    }
    let memory = &result.memory;
    writeln!(
        out,
        "  cpu {:.2} s  memory peak {:.1} MB, now {:.1} MB (memtables {:.1}, cache {:.1})",
        result.cpu_seconds,
        memory.peak_resident_bytes as f64 / MIB,
        memory.resident_bytes as f64 / MIB,
        memory.memtable_bytes as f64 / MIB,
        memory.cache_bytes as f64 / MIB
    )
}

/// Prints files, bytes and runs per level, like db_bench's `levelstats`.
fn print_levels<'a>(levels: impl Iterator<Item = &'a LevelResult>, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "Level Runs Files Size(MB)")?;
    writeln!(out, "-------------------------")?;
    for level in levels {
        writeln!(out, "{:>5} {:>4} {:>5} {:>8.1}", level.level, level.runs, level.files, level.bytes as f64 / MIB)?;
    }
    Ok(())
}

/// Prints named counters and distributions since the database was opened, like db_bench's `--statistics`.
pub fn print_statistics(result: &PhaseRecord, out: &mut dyn Write) -> Result<()> {
    let of_engine = |name: &&String| ![FLUSHES, INDEX_BYTES].contains(&name.as_str());
    let tickers = result.tickers.iter().filter(|(name, _)| of_engine(name)).map(|(name, value)| (name.as_str(), *value));
    let histograms = result.histograms.iter().map(|(name, summary)| (name.as_str(), *summary));
    write!(out, "STATISTICS:\n{}", dump(tickers, histograms))
}

#[cfg(test)]
mod tests;
