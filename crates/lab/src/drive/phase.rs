//! One phase: its threads run beside the sampler, and their figures are one part of the record.

use super::alive::Alive;
use super::books::Books;
use super::client::{Client, Schedule};
use super::gauge::{Gauge, Latencies, Totals};
use super::replay::{self, Script};
use super::requests::Plan;
use super::sampler::{Amount, Sampler};
use super::together::{Gate, panicked, together};
use crate::result::{Found, LevelResult, Memory, Process, Space, Stalls, Written, Zones};
use crate::run::{Pace, PhaseKind, PhaseRecord, RunSpec, Second};
use crate::target::{Outcome, Target};
use crate::workload::{KeyCoder, ValuePool};
use sinterdb::clock::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Builder, Thread};

/// A run between two phases.
pub(super) struct Run<'a, T> {
    pub spec: &'a RunSpec,
    pub target: &'a T,
    pub books: Books,
    pub stop: &'a AtomicBool,
    pub clock: SystemClock,
    pub pool: ValuePool,
    pub alive: Alive,
    /// First key number that no insert has taken.
    pub inserts: u64,
}

/// Work of a phase.
enum Work<'a> {
    Requests { plan: Plan, count: u64, seconds: f64, warm_up: f64, pace: Pace },
    Replay { script: Script<'a>, pace: Pace },
    Settle,
    Compact,
    Change(&'a BTreeMap<String, String>),
}

/// Nanoseconds of a number of seconds.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

impl<'a, T: Target> Run<'a, T> {
    /// Runs phase `index`, which must exist; `None` if it was stopped.
    ///
    /// # Errors
    /// The first failure of the target, a trace that cannot be read, threads that cannot be started or panic, and a phase of which
    /// nothing is left to measure after its warm-up.
    pub fn phase(&mut self, index: usize) -> Outcome<Option<PhaseRecord>> {
        let (work, kinds, amount) = self.work(index)?;
        let gauges: Vec<Gauge> = (0..work.threads()).map(|_| Gauge::new(kinds.len())).collect();
        let clients = &gauges[..work.clients()];
        Process::forget_peak();
        let process = Process::now();
        let start_ns = self.clock.monotonic_ns();
        let perform = || (self.perform(&work, &gauges), self.clock.monotonic_ns());
        let ((outcome, end_ns), series) = self.observed(index, amount, &gauges, perform)?;
        let warm_ns = outcome?;
        let after_process = Process::now();
        let after = self.books.read(self.target, &gauges, &after_process)?;
        if self.stop.load(Ordering::Relaxed) || !self.account(&work, &gauges) {
            return Ok(None);
        }
        let mut record = self.record(&kinds, clients, series)?;
        record.name = self.spec.workload.phases[index].name.clone();
        work.check(record.operations)?;
        let last_ns = Totals::of(clients).end_ns;
        let (from, to) = (warm_ns.max(start_ns), if last_ns > 0 { last_ns } else { end_ns });
        record.seconds = to.saturating_sub(from) as f64 / 1e9;
        record.operations_per_second = if record.seconds > 0.0 { record.operations as f64 / record.seconds } else { 0.0 };
        record.written = Written::between(&self.books.figures, &after);
        record.zones = Zones::between(&self.books.figures, &after);
        record.process_written_bytes = after_process.written_bytes.saturating_sub(self.books.process_written);
        record.space = Space::of(&after, self.alive.keys(), self.alive.bytes(self.spec.workload.key_size));
        record.stalls = Stalls::between(&self.books.figures, &after);
        record.memory = Memory::of(&after_process, &after);
        record.proportional_bytes = after_process.proportional_bytes;
        record.cpu_seconds = after_process.cpu_seconds - process.cpu_seconds;
        record.process_read_bytes = Some(after_process.read_bytes.saturating_sub(process.read_bytes));
        record.medium_read_bytes = Some(after_process.medium_read_bytes.saturating_sub(process.medium_read_bytes));
        (self.books.figures, self.books.process_written) = (after, after_process.written_bytes);
        Ok(Some(record))
    }

    /// The work of phase `index`, the names of its kinds of requests, and its amount.
    fn work(&self, index: usize) -> Outcome<(Work<'a>, Vec<String>, Amount)> {
        let spec: &'a RunSpec = self.spec;
        let RunSpec { workload, engine, seed, .. } = spec;
        let kind = &workload.phases[index].kind;
        if let Some(plan) = Plan::of(kind, workload, engine, *seed, index, self.inserts) {
            let kinds = plan.kinds().map(str::to_owned).collect();
            let (count, seconds, warm_up, pace) = match *kind {
                PhaseKind::Run { operations, seconds, pace, warm_up_seconds, .. } => (operations, seconds, warm_up_seconds, pace),
                _ => (Some(workload.keys), None, 0.0, Pace::Closed),
            };
            let amount = seconds.map_or(Amount::Operations(count.unwrap_or(u64::MAX)), Amount::Seconds);
            let (count, seconds) = (count.unwrap_or(u64::MAX), seconds.unwrap_or(f64::INFINITY));
            return Ok((Work::Requests { plan, count, seconds, warm_up, pace }, kinds, amount));
        }
        Ok(match kind {
            PhaseKind::Replay { trace, pace } => {
                let contents = replay::contents(trace, *pace, engine.families.len())?;
                let pool = ValuePool::new(contents.largest_value, workload.compression_ratio);
                let kinds = replay::KINDS.map(str::to_owned).to_vec();
                (
                    Work::Replay { script: Script { path: trace, contents, pool }, pace: *pace },
                    kinds,
                    Amount::Operations(contents.operations),
                )
            }
            PhaseKind::Compact => (Work::Compact, Vec::new(), Amount::Call),
            PhaseKind::Change { settings } => (Work::Change(settings), Vec::new(), Amount::Call),
            _ => (Work::Settle, Vec::new(), Amount::Call),
        })
    }

    /// Calls `work` while the sampler looks on.
    fn observed<R>(&self, index: usize, amount: Amount, gauges: &[Gauge], work: impl FnOnce() -> R) -> Outcome<(R, Vec<Second>)> {
        let (target, books, clock) = (self.target, &self.books, &self.clock);
        let sampler = Sampler { phase: &self.spec.workload.phases[index].name, amount, target, books, gauges, clock };
        let ended = AtomicBool::new(false);
        let start = sampler.begin();
        thread::scope(|scope| {
            let sampling = Builder::new().spawn_scoped(scope, || sampler.run(start, &ended));
            let sampling = sampling.map_err(|error| format!("the sampler cannot be started: {error}"))?;
            let ending = Ending { ended: &ended, sampling: sampling.thread().clone() };
            let result = work();
            drop(ending);
            Ok((result, sampling.join().map_err(|panic| panicked(&*panic))?))
        })
    }

    /// Does the work and returns the moment at which its warm-up ended.
    fn perform(&self, work: &Work<'_>, gauges: &[Gauge]) -> Outcome<u64> {
        match work {
            Work::Settle => self.target.flush().and_then(|()| self.target.wait_for_compactions()).map(|()| 0),
            Work::Compact => self.target.compact().map(|()| 0),
            Work::Change(settings) => self.target.change(settings).map(|()| 0),
            Work::Requests { plan, count, seconds, warm_up, pace } => self.requests(plan, *count, *seconds, *warm_up, *pace, gauges),
            Work::Replay { script, pace } => {
                let halt = AtomicBool::new(false);
                let start_ns = self.clock.monotonic_ns();
                let schedule = Schedule {
                    clock: &self.clock,
                    flags: [self.stop, &halt],
                    start_ns,
                    warm_until_ns: start_ns,
                    deadline_ns: u64::MAX,
                    pace: *pace,
                    thread: 0,
                    threads: 1,
                };
                replay::replay(script, self.target.session(self.spec.engine.sync), &schedule, &gauges[0]).map(|()| start_ns)
            }
        }
    }

    /// Runs the clients: all start together.
    fn requests(&self, plan: &Plan, count: u64, seconds: f64, warm_up: f64, pace: Pace, gauges: &[Gauge]) -> Outcome<u64> {
        let (clients, halt) = (plan.clients() as u64, AtomicBool::new(false));
        let working = AtomicUsize::new(plan.clients());
        let client = |thread: usize, gate: Gate<'_>| {
            let client = Client::new(self.target.session(self.spec.engine.sync), &self.pool);
            let requests = plan.requests(thread);
            let coder = KeyCoder::new(self.spec.workload.key_size);
            let share = count / clients + u64::from((thread as u64) < count % clients);
            let _working = (thread < plan.clients()).then(|| Working { left: &working, halt: &halt });
            let Some(start_ns) = gate.pass() else { return Ok(0) };
            let mut schedule = Schedule {
                clock: &self.clock,
                flags: [self.stop, &halt],
                start_ns,
                warm_until_ns: start_ns.saturating_add(nanoseconds(warm_up)),
                deadline_ns: start_ns.saturating_add(nanoseconds(seconds)),
                pace,
                thread: thread as u64,
                threads: clients,
            };
            let warm_ns = schedule.warm_until_ns;
            let outcome = match plan.writer().filter(|_| thread == plan.clients()) {
                None => client.run(requests, coder, share, &schedule, &gauges[thread]),
                Some(writer) => {
                    // As warm-up, the puts count in the series and in the bytes written.
                    (schedule.warm_until_ns, schedule.pace) = (u64::MAX, Pace::Open(writer.per_second));
                    (schedule.thread, schedule.threads) = (0, 1);
                    client.run(requests, coder, u64::MAX, &schedule, &gauges[thread])
                }
            };
            outcome.map(|()| warm_ns)
        };
        let builders = gauges.iter().map(|_| Builder::new());
        let warm = together(builders, || self.clock.monotonic_ns(), &halt, client)?;
        Ok(warm.into_iter().max().unwrap_or(0))
    }

    /// Carries the key counts over to later phases; false if it was stopped meanwhile.
    fn account(&mut self, work: &Work<'_>, gauges: &[Gauge]) -> bool {
        match work {
            Work::Requests { plan, .. } => {
                let operations: Vec<u64> = gauges.iter().map(Gauge::operations).collect();
                self.inserts = plan.next_insert(operations.iter().copied().max().unwrap_or(0));
                return self.alive.replay(plan, &operations, self.stop);
            }
            Work::Replay { .. } => self.alive.forget(),
            Work::Settle | Work::Compact | Work::Change(_) => {}
        }
        true
    }

    /// Record of the phase from the figures of the clients and of the target.
    fn record(&self, kinds: &[String], gauges: &[Gauge], series: Vec<Second>) -> Outcome<PhaseRecord> {
        let totals = Totals::of(gauges);
        let by_kind: Vec<Latencies> = (0..kinds.len()).map(|kind| Latencies::of_kind(gauges, kind)).collect();
        let levels = self.spec.engine.families.iter().enumerate().map(|(index, family)| -> Outcome<_> {
            let figures = self.target.levels(index)?;
            Ok((family.name.clone(), LevelResult::list(&figures)))
        });
        let families = self.spec.engine.families.iter().enumerate();
        let chosen = families.filter_map(|(index, family)| Some((family.name.clone(), self.target.chosen_codecs(index)?)));
        Ok(PhaseRecord {
            operations: totals.operations,
            not_started: totals.not_started,
            bytes: totals.done.bytes,
            found: (totals.done.asked > 0).then_some(Found { found: totals.done.found, asked: totals.done.asked }),
            latency: Latencies::sum(&by_kind).result(),
            latency_by_operation: kinds.iter().cloned().zip(&by_kind).filter_map(|(name, one)| Some((name, one.result()?))).collect(),
            levels: levels.collect::<Outcome<_>>()?,
            chosen_codecs: chosen.collect(),
            series,
            tickers: self.target.counters()?.tickers,
            ..PhaseRecord::default()
        })
    }
}

/// Ends the sampler when dropped, also while a panic unwinds: the scope would wait for it for ever.
struct Ending<'a> {
    ended: &'a AtomicBool,
    sampling: Thread,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.sampling.unpark();
    }
}

/// A client that has not ended. Dropping the last one stops the writer, also while a panic unwinds.
struct Working<'a> {
    left: &'a AtomicUsize,
    halt: &'a AtomicBool,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.halt.store(true, Ordering::Relaxed);
        }
    }
}

impl Work<'_> {
    /// Number of threads whose operations are those of the phase; they come before all others.
    fn clients(&self) -> usize {
        match self {
            Work::Requests { plan, .. } => plan.clients(),
            _ => self.threads(),
        }
    }

    /// Fails if all operations began in the warm-up: a mistake in the spec that would look like an idle engine.
    fn check(&self, measured: u64) -> Outcome<()> {
        match self {
            Work::Requests { count, seconds, warm_up, .. } if *warm_up > 0.0 && seconds.is_infinite() && measured == 0 => {
                Err(format!("all {count} operations began within the {warm_up} s of warm-up, so nothing was measured").into())
            }
            _ => Ok(()),
        }
    }

    fn threads(&self) -> usize {
        match self {
            Work::Requests { plan, .. } => plan.threads(),
            Work::Replay { .. } => 1,
            Work::Settle | Work::Compact | Work::Change(_) => 0,
        }
    }
}
