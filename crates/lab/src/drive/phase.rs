//! One phase: its threads run beside the sampler, and their figures are one part of the record.

use super::alive::Alive;
use super::books::Books;
use super::client::{Client, Meter, Schedule};
use super::gauge::{self, Gauge, Totals};
use super::interrupted::Interrupted;
use super::pacer::Pacer;
use super::replay::{self, Script};
use super::requests::{Length, Plan};
use super::sampler::{Amount, Sampler};
use super::together::{Gate, panicked, together};
use crate::result::{LevelResult, Memory, Process, Space, Stalls, Written, Zones};
use crate::run::{BackgroundWriter, Pace, PhaseKind, PhaseRecord, RunSpec, Second};
use crate::system::{Counters, Failure, Figures, Outcome, System};
use crate::workload::{KeyCoder, ValuePool};
use sinterdb::clock::{Clock, SystemClock};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Builder, Thread};

/// A run between two phases.
pub(super) struct Run<'a> {
    pub spec: &'a RunSpec,
    pub books: Books,
    pub stop: &'a AtomicBool,
    pub clock: SystemClock,
    pub pool: ValuePool,
    pub alive: Alive,
    /// First key number that no insert has taken.
    pub inserts: u64,
    /// Called once a second with the phase, the work done, and all work.
    pub progress: &'a (dyn Fn(&str, u64, u64) + Sync),
}

/// Work of a phase.
enum Work<'a> {
    Requests(Plan),
    Replay {
        script: Script<'a>,
        pace: Pace,
    },
    /// One call to the engine, or none.
    Call(&'a PhaseKind),
}

/// Nanoseconds of a number of seconds.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

impl<'a> Run<'a> {
    /// Runs phase `index`, which must exist. Returns its record and, if the phase was ended early by `stop` or a failure, the failure; the
    /// record then has what was done before.
    ///
    /// # Errors
    /// A trace that cannot be read, threads that cannot be started, and failures of the engine after which it gives no figures.
    pub fn phase<T: System>(&mut self, system: &T, index: usize) -> Outcome<(PhaseRecord, Option<Failure>)> {
        let phase = &self.spec.workload.phases[index];
        let (work, kinds, amount) = self.work(index)?;
        let gauges: Vec<Gauge> = (0..work.threads()).map(|_| Gauge::new(kinds.len())).collect();
        let clients = &gauges[..work.clients()];
        Process::forget_peak();
        let process = Process::now();
        let start_ns = self.clock.monotonic_ns();
        let perform = || (self.perform(system, &work, &gauges), self.clock.monotonic_ns());
        let ((outcome, end_ns), series) = self.observed(system, index, amount, &gauges, perform)?;
        let stopped = self.stop.load(Ordering::Relaxed);
        let after_process = Process::now();
        let read = || Ok((self.books.read(system, &gauges, &after_process)?, self.record(system, &kinds, clients, series)?));
        // Of a failed engine, the first failure says most.
        let (warm_ns, mut failure) = outcome.map_or_else(|failure| (start_ns, Some(failure)), |warm_ns| (warm_ns, None));
        let (after, mut record) = read().map_err(|other| failure.take().unwrap_or(other))?;
        if !self.account(&work, &gauges) {
            self.alive.forget();
        }
        failure = failure.or_else(|| if stopped { Some(Interrupted.into()) } else { work.check(record.operations).err() });
        record.name = phase.name.clone();
        record.interrupted = failure.is_some();
        let last_ns = Totals::of(clients).end_ns;
        let (from, to) = (warm_ns.max(start_ns), if last_ns > 0 { last_ns } else { end_ns });
        let seconds_of = |gauge: &Gauge| gauge.end_ns().saturating_sub(from) as f64 / 1e9;
        let per_second = |operations: u64, seconds: f64| if seconds > 0.0 { operations as f64 / seconds } else { 0.0 };
        record.seconds = to.saturating_sub(from) as f64 / 1e9;
        record.thread_seconds = if clients.is_empty() { record.seconds } else { clients.iter().map(seconds_of).sum() };
        record.operations_per_second = per_second(record.operations, record.seconds);
        record.background_writer = gauges[clients.len()..].first().map(|gauge| BackgroundWriter {
            operations: gauge.operations(),
            operations_per_second: per_second(gauge.operations(), seconds_of(gauge)),
        });
        let none = Figures::default();
        let before = if phase.kind == PhaseKind::Stats { &none } else { &self.books.figures };
        record.written = Written::between(before, &after);
        record.zones = Zones::between(before, &after);
        record.stalls = Stalls::between(before, &after);
        record.process_written_bytes = after_process.written_bytes.saturating_sub(self.books.process_written);
        record.space = Space::of(&after, self.alive.keys(), self.alive.bytes(self.spec.workload.key_size));
        record.memory = Memory::of(&after_process, &after);
        record.proportional_bytes = after_process.proportional_bytes;
        record.cpu_seconds = after_process.cpu_seconds - process.cpu_seconds;
        record.process_read_bytes = Some(after_process.read_bytes.saturating_sub(process.read_bytes));
        record.medium_read_bytes = Some(after_process.medium_read_bytes.saturating_sub(process.medium_read_bytes));
        (self.books.figures, self.books.process_written) = (after, after_process.written_bytes);
        Ok((record, failure))
    }

    /// The work of phase `index`, the names of its kinds of requests, and its amount.
    fn work(&self, index: usize) -> Outcome<(Work<'a>, Vec<String>, Amount)> {
        let spec: &'a RunSpec = self.spec;
        let RunSpec { workload, engine, seed, .. } = spec;
        let kind = &workload.phases[index].kind;
        if let Some(plan) = Plan::of(kind, workload, engine, *seed, index, self.inserts) {
            let (kinds, amount) = (plan.kinds().map(str::to_owned).collect(), Amount::of(&plan));
            return Ok((Work::Requests(plan), kinds, amount));
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
            call => (Work::Call(call), Vec::new(), Amount::Call),
        })
    }

    /// Calls `work` while the sampler looks on.
    fn observed<T: System, R>(
        &self,
        system: &T,
        index: usize,
        amount: Amount,
        gauges: &[Gauge],
        work: impl FnOnce() -> R,
    ) -> Outcome<(R, Vec<Second>)> {
        let (phase, books, clock, progress) = (&self.spec.workload.phases[index].name, &self.books, &self.clock, self.progress);
        let sampler = Sampler { phase, amount, system, books, gauges, clock, progress };
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
    fn perform<T: System>(&self, system: &T, work: &Work<'_>, gauges: &[Gauge]) -> Outcome<u64> {
        match work {
            Work::Call(kind) => match kind {
                PhaseKind::Settle => system.flush().and_then(|()| system.wait_for_compactions()),
                PhaseKind::Compact => system.compact(),
                PhaseKind::Change { settings } => system.change(settings),
                PhaseKind::Flush => system.flush(),
                PhaseKind::Wait => system.wait_for_compactions(),
                _ => Ok(()),
            }
            .map(|()| 0),
            Work::Requests(plan) => self.requests(system, plan, gauges),
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
                replay::replay(script, system.session(self.spec.engine.sync), &schedule, &gauges[0]).map(|()| start_ns)
            }
        }
    }

    /// Runs the clients: all start together.
    fn requests<T: System>(&self, system: &T, plan: &Plan, gauges: &[Gauge]) -> Outcome<u64> {
        let Length { seconds, warm_up, pace, .. } = plan.length;
        let (clients, calls, halt) = (plan.clients(), plan.calls, AtomicBool::new(false));
        let pacer = calls.bytes_per_second.map(Pacer::new);
        let working = AtomicUsize::new(clients);
        let client = |thread: usize, gate: Gate<'_>| {
            let client = Client::new(system.session(self.spec.engine.sync || calls.sync), &self.pool);
            let requests = plan.requests(thread);
            let coder = KeyCoder::new(self.spec.workload.key_size);
            let _working = (thread < clients).then(|| Working { left: &working, halt: &halt });
            let Some(start_ns) = gate.pass() else { return Ok(0) };
            let warm_ns = start_ns.saturating_add(nanoseconds(warm_up));
            let mut schedule = Schedule {
                clock: &self.clock,
                flags: [self.stop, &halt],
                start_ns,
                warm_until_ns: warm_ns,
                deadline_ns: start_ns.saturating_add(nanoseconds(seconds)),
                pace,
                thread: thread as u64,
                threads: clients as u64,
            };
            let mut share = plan.share(thread);
            if let Some(writer) = plan.writer.filter(|_| thread == clients) {
                // As warm-up, the puts count in the series and in the bytes written.
                (schedule.warm_until_ns, schedule.pace) = (u64::MAX, writer.per_second.map_or(Pace::Closed, Pace::Open));
                (schedule.thread, schedule.threads, share) = (0, 1, u64::MAX);
            }
            let meter = Meter::new(&schedule, &gauges[thread], share, !calls.untimed, pacer.as_ref());
            client.run(requests, coder, calls.batch, meter).map(|()| warm_ns)
        };
        let builders = gauges.iter().map(|_| Builder::new());
        let warm = together(builders, || self.clock.monotonic_ns(), &halt, client)?;
        Ok(warm.into_iter().max().unwrap_or(0))
    }

    /// Carries the key counts over to later phases; false if it was stopped meanwhile.
    fn account(&mut self, work: &Work<'_>, gauges: &[Gauge]) -> bool {
        match work {
            Work::Requests(plan) => {
                let operations: Vec<u64> = gauges.iter().map(Gauge::operations).collect();
                self.inserts = plan.next_insert(operations.iter().copied().max().unwrap_or(0));
                return self.alive.replay(plan, &operations, self.stop);
            }
            Work::Replay { .. } => self.alive.forget(),
            Work::Call(_) => {}
        }
        true
    }

    /// Record of the phase from the figures of the clients and of the system.
    fn record<T: System>(&self, system: &T, kinds: &[String], gauges: &[Gauge], series: Vec<Second>) -> Outcome<PhaseRecord> {
        let levels = self.spec.engine.families.iter().enumerate().map(|(index, family)| -> Outcome<_> {
            let figures = system.levels(index)?;
            Ok((family.name.clone(), LevelResult::list(&figures)))
        });
        let families = self.spec.engine.families.iter().enumerate();
        let chosen = families.filter_map(|(index, family)| Some((family.name.clone(), system.chosen_codecs(index)?)));
        let Counters { tickers, histograms } = system.counters()?;
        Ok(PhaseRecord {
            levels: levels.collect::<Outcome<_>>()?,
            chosen_codecs: chosen.collect(),
            series,
            tickers,
            histograms,
            ..gauge::counted(kinds, gauges)
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
            Work::Requests(plan) => plan.clients(),
            _ => self.threads(),
        }
    }

    /// Fails if all operations began in the warm-up: a mistake in the spec that would look like an idle engine.
    fn check(&self, measured: u64) -> Outcome<()> {
        match self {
            Work::Requests(Plan { length: Length { count, seconds, warm_up, .. }, .. })
                if *warm_up > 0.0 && seconds.is_infinite() && measured == 0 =>
            {
                Err(format!("all {count} operations began within the {warm_up} s of warm-up, so nothing was measured").into())
            }
            _ => Ok(()),
        }
    }

    fn threads(&self) -> usize {
        match self {
            Work::Requests(plan) => plan.threads(),
            Work::Replay { .. } => 1,
            Work::Call(_) => 0,
        }
    }
}
