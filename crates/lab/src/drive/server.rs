//! A run of a server: it is started as a child process (`child`), loaded by one light client (`client`, which sends `commands` and reads
//! `replies`) or by redis-benchmark (`benchmark`), and watched from outside (`watch`), so that all servers are measured with the same
//! instruments whatever they report. `line` is a connection for one request at a time.

mod benchmark;
mod child;
mod client;
mod commands;
mod line;
mod replies;
#[cfg(test)]
mod tests;
mod watch;

pub(super) use child::end_left;

use super::alive::Alive;
use super::directory::Directory;
use super::gauge::{Gauge, Totals, counted};
use super::limits::confine;
use super::requests::{Plan, sizes};
use super::sampler::Amount;
use crate::result::{Machine, Memory, Process, Space, Written};
use crate::run::{Killed, PROCESS, PhaseKind, PhaseRecord, REDIS, RunRecord, RunSpec, Second, ServerSpec, Source};
use crate::system::{Figures, Outcome};
use crate::workload::ValuePool;
use benchmark::Said;
use child::Server;
use client::{Client, Ran};
use line::{LOOKS, Line};
use sinterdb::clock::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use watch::Watch;

/// A server is at rest if for so many nanoseconds it has no children and uses less than so many seconds of a processor, a tenth. (The PINGs
/// of the watch cost it a hundredth.)
const REST_NS: u64 = 500_000_000;
const REST_CPU_SECONDS: f64 = 0.05;
/// Time in which a server must come to rest, nanoseconds.
const PATIENCE_NS: u64 = 600_000_000_000;
/// Interval between looks at a server that comes to rest; each costs it the time in which the kernel walks its page tables.
const POLL: Duration = Duration::from_millis(100);

/// Fields of INFO that are kept if they are numbers: rewrites, forks, sizes of log and tables.
const KEPT: [&str; 12] = [
    "aof_base_size",
    "aof_current_size",
    "aof_delayed_fsync",
    REWRITTEN,
    "aof_rewrites",
    "disk_bytes",
    "latest_fork_usec",
    "rdb_saves",
    "total_forks",
    "used_memory",
    "used_memory_peak",
    TABLES,
];
/// Field with the seconds of Redis's last rewrite; -1 before the first, which is no count.
const REWRITTEN: &str = "aof_last_rewrite_time_sec";
/// Bytes of SinterDB's tables, which were flushed out of the log.
const TABLES: &str = "table_bytes";

/// Executes a spec of a server, as [`execute`](super::execute()) does for engines.
pub(super) fn run(spec: &RunSpec, server: &ServerSpec, stop: &AtomicBool, clock: SystemClock, record: &mut RunRecord) -> Outcome<()> {
    let directory = Directory::below("medium", &spec.medium.directory)?;
    record.machine = Machine::here(&directory.path);
    record.written_source = Source::Medium;
    let confined = confine(&spec.limits);
    record.confinement = confined.confinement.clone();
    let kills = confined.kills();
    let server = Server::start(&spec.engine, server, &directory.path, &clock, stop)?;
    // The client takes no part in the server's memory.
    confined.step_out();
    record.engine_version = version(&spec.engine.name, &Line::connect(server.address(), stop)?.info()?);
    let mut run = Run {
        spec,
        server: &server,
        stop,
        clock,
        pool: ValuePool::new(sizes(spec.workload.value_size).most(), spec.workload.compression_ratio),
        alive: Alive::new(spec.engine.families.len(), spec.workload.keys),
        before: Process::of(server.process()),
        figures: Figures::default(),
        last: PhaseRecord::default(),
    };
    for (index, phase) in spec.workload.phases.iter().enumerate() {
        let done = if stop.load(Ordering::Relaxed) { Ok(None) } else { run.phase(index) };
        let killed = confined.kills().saturating_sub(kills);
        if done.is_err() && killed > 0 && server.was_killed() {
            record.killed = Some(killed_in(&record.phases, run.last, record.confinement.memory_bytes));
            return Err(format!(
                "phase {}: the server was {}",
                phase.name,
                record.killed.as_ref().map_or_else(String::new, Killed::to_string)
            )
            .into());
        }
        let mut done = done.map_err(|failure| format!("phase {}: {failure}", phase.name))?.ok_or("interrupted")?;
        if killed > 0 {
            done.tickers.insert(KILLS.to_string(), killed);
        }
        record.phases.push(done);
    }
    Ok(())
}

/// Ticker of the processes that the kernel killed since the run began, because the memory of the server and its children was full.
const KILLS: &str = "oom_kills";

/// The end of a server that was killed in phase `last`, behind the phases `before`, with at most `limit` bytes of memory. Without a reading
/// of its memory, the server counts as having used all of them.
fn killed_in(before: &[PhaseRecord], last: PhaseRecord, limit: Option<u64>) -> Killed {
    let all = || before.iter().chain([&last]);
    let seen = all().map(|phase| phase.memory.peak_resident_bytes).max().filter(|bytes| *bytes > 0);
    Killed {
        operations: all().map(|phase| phase.operations).sum(),
        seconds: all().map(|phase| phase.seconds).sum(),
        memory_bytes: seen.or(limit).unwrap_or(0),
        phase: last,
    }
}

/// Name and version of the server, from its INFO.
fn version(engine: &str, info: &str) -> String {
    let known = [("sinterdb_version", "sinterdb"), ("valkey_version", "valkey"), ("redis_version", REDIS)];
    let found = known.into_iter().find_map(|(name, product)| Some(format!("{product} {}", field(info, name)?)));
    found.unwrap_or_else(|| format!("{engine} of an unknown version"))
}

/// Value of a field of INFO.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// Fields of [`KEPT`] that are numbers.
fn kept(info: &str) -> BTreeMap<String, u64> {
    let fields = info.lines().filter_map(|line| line.trim().split_once(':'));
    let kept = fields.filter(|(name, _)| KEPT.contains(name));
    kept.filter_map(|(name, value)| Some((name.to_string(), value.parse().ok()?))).collect()
}

/// Whether the log no longer holds everything that was ever written.
fn is_shortened(kept: &BTreeMap<String, u64>) -> bool {
    kept.contains_key(REWRITTEN) || kept.get(TABLES).is_some_and(|bytes| *bytes > 0)
}

/// A run between two phases.
struct Run<'a> {
    spec: &'a RunSpec,
    server: &'a Server,
    stop: &'a AtomicBool,
    clock: SystemClock,
    pool: ValuePool,
    alive: Alive,
    /// Figures at the end of the last phase: work of the server between two phases counts for the second.
    before: Process,
    figures: Figures,
    /// The phase that failed, as far as it was seen.
    last: PhaseRecord,
}

/// Outcome of the work of a phase.
#[derive(Clone, Copy)]
enum Done {
    Asked(Ran),
    /// redis-benchmark made the requests.
    Benchmark(Said),
    Rested,
    Stopped,
}

impl Run<'_> {
    /// Runs phase `index`, which must exist; `None` if it was stopped.
    fn phase(&mut self, index: usize) -> Outcome<Option<PhaseRecord>> {
        let phase = &self.spec.workload.phases[index];
        let RunSpec { workload, engine, seed, .. } = self.spec;
        let plan = Plan::of(&phase.kind, workload, engine, *seed, index, 0);
        let kinds: Vec<String> = plan.iter().flat_map(|plan| plan.kinds()).map(str::to_owned).collect();
        let gauges = [Gauge::new(kinds.len())];
        let data = self.server.data();
        let watch = Watch {
            phase: &phase.name,
            amount: plan.as_ref().map_or(Amount::Call, Amount::of),
            gauges: &gauges,
            process: self.server.process(),
            address: self.server.address(),
            data: &data,
            clock: &self.clock,
            stop: self.stop,
        };
        let start_ns = self.clock.monotonic_ns();
        let watched = watch.during(|| self.work(&phase.kind, plan.as_ref(), &gauges[0]));
        let (done, series) = match watched {
            _ if self.stop.load(Ordering::Relaxed) => return Ok(None),
            Ok((Ok(done), series)) => (done, series),
            Ok((Err(failure), series)) => {
                self.last = unfinished(&phase.name, counted(&kinds, &gauges), series);
                return Err(self.server.blamed(failure));
            }
            Err(failure) => return Err(self.server.blamed(failure)),
        };
        let mut record = counted(&kinds, &gauges);
        let (from, to) = match done {
            Done::Asked(ran) => {
                record.client_cpu_seconds = Some(ran.cpu_seconds);
                (ran.warm_ns.max(start_ns), Totals::of(&gauges).end_ns)
            }
            _ => (start_ns, self.clock.monotonic_ns()),
        };
        record.seconds = to.saturating_sub(from) as f64 / 1e9;
        let mut written = Totals::of(&gauges).done.written;
        match (done, plan) {
            (Done::Stopped, _) => return Ok(None),
            (Done::Benchmark(said), _) => {
                written = self.benchmarked(said, &phase.kind, &mut record);
                self.alive.forget();
            }
            (_, Some(plan)) if !self.alive.replay(&plan, &[gauges[0].operations()], self.stop) => return Ok(None),
            _ => {}
        }
        if record.operations == 0 && matches!(phase.kind, PhaseKind::Run { .. }) {
            return Err("no operation began behind the warm-up, so nothing was measured".into());
        }
        record.name = phase.name.clone();
        record.operations_per_second = if record.seconds > 0.0 { record.operations as f64 / record.seconds } else { 0.0 };
        record.tickers = kept(&Line::connect(self.server.address(), self.stop)?.info()?);
        if engine.server.as_ref().is_some_and(|server| server.keeps_log) && is_shortened(&record.tickers) {
            return Err("the log was shortened in a run that was to keep it".into());
        }
        self.close(&mut record, written, series);
        Ok(Some(record))
    }

    fn work(&self, kind: &PhaseKind, plan: Option<&Plan>, gauge: &Gauge) -> Outcome<Done> {
        let (Some(plan), Some(server)) = (plan, &self.spec.engine.server) else { return self.rest() };
        if let Some(program) = &server.benchmark {
            let said = benchmark::ask(program, self.spec, kind, self.server, self.stop)?;
            return Ok(said.map_or(Done::Stopped, Done::Benchmark));
        }
        let client = Client {
            address: self.server.address(),
            connections: server.connections,
            pipeline: server.pipeline,
            plan,
            key_size: self.spec.workload.key_size,
            pool: &self.pool,
            gauge,
            clock: &self.clock,
            stop: self.stop,
            looks: LOOKS,
        };
        client.run().map(Done::Asked)
    }

    /// Waits until the server is at rest: no rewrite, no merge. The watch goes on, so that its last readings are at rest.
    fn rest(&self) -> Outcome<Done> {
        let look = || (self.clock.monotonic_ns(), Process::of(self.server.process()));
        let (start_ns, mut process) = look();
        let mut quiet_ns = start_ns;
        while !self.stop.load(Ordering::Relaxed) {
            thread::sleep(POLL);
            let (now, after) = look();
            match after.count {
                0 => return Err("its process has ended".into()),
                1 if after.cpu_seconds - process.cpu_seconds < REST_CPU_SECONDS => {
                    if now - quiet_ns >= REST_NS {
                        return Ok(Done::Rested);
                    }
                }
                _ => (quiet_ns, process) = (now, after),
            }
            if now - start_ns > PATIENCE_NS {
                return Err("it does not come to rest".into());
            }
        }
        Ok(Done::Stopped)
    }

    /// Puts the result of redis-benchmark into the record. Returns the bytes that it wrote; all its values have one size.
    fn benchmarked(&self, said: Said, kind: &PhaseKind, record: &mut PhaseRecord) -> u64 {
        (record.operations, record.seconds) = (said.operations, said.operations as f64 / said.per_second);
        let puts = matches!(kind, PhaseKind::Run { mixes, .. } if mixes.iter().any(|mix| mix.operations.contains_key("put")));
        let each = self.spec.workload.key_size + sizes(self.spec.workload.value_size).most();
        record.bytes = said.operations.saturating_mul(each as u64);
        if puts { record.bytes } else { 0 }
    }

    /// Completes the record with the resources that the server used and the state at the end of the phase.
    fn close(&mut self, record: &mut PhaseRecord, written: u64, series: Vec<Second>) {
        let process = Process::of(self.server.process());
        let before = std::mem::replace(&mut self.before, process);
        let store_bytes = series.last().map_or(0, |second| second.disk_bytes);
        let figures = Figures {
            user_bytes: self.figures.user_bytes + written,
            written: vec![(PROCESS.to_string(), process.medium_written_bytes)],
            store_bytes,
            ..Figures::default()
        };
        record.written = Written::between(&self.figures, &figures);
        record.process_written_bytes = process.written_bytes.saturating_sub(before.written_bytes);
        record.process_read_bytes = Some(process.read_bytes.saturating_sub(before.read_bytes));
        record.medium_read_bytes = Some(process.medium_read_bytes.saturating_sub(before.medium_read_bytes));
        record.space = Space::of(&figures, self.alive.keys(), self.alive.bytes(self.spec.workload.key_size));
        let peak = series.iter().map(|second| second.proportional_bytes).fold(process.proportional_bytes, u64::max);
        // Memory shared by a parent and its fork counts once.
        record.memory = Memory { peak_resident_bytes: peak, resident_bytes: process.resident_bytes, ..Memory::default() };
        record.proportional_bytes = process.proportional_bytes;
        record.cpu_seconds = (process.cpu_seconds - before.cpu_seconds).max(0.0);
        record.series = series;
        self.figures = figures;
    }
}

/// Record of a phase that failed, from what the client counted and the watch saw.
fn unfinished(name: &str, counted: PhaseRecord, series: Vec<Second>) -> PhaseRecord {
    let seconds = series.last().map_or(0.0, |second| second.at);
    let peak = series.iter().map(|second| second.proportional_bytes).max().unwrap_or(0);
    PhaseRecord {
        name: name.to_string(),
        seconds,
        operations_per_second: if seconds > 0.0 { counted.operations as f64 / seconds } else { 0.0 },
        memory: Memory { peak_resident_bytes: peak, ..Memory::default() },
        series,
        ..counted
    }
}
