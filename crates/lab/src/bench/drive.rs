//! The driver: opens the target, starts the threads of one workload after the other, and turns their tallies into results.

use super::config::BenchConfig;
use super::operations::Worker;
use super::pacer::Pacer;
use super::probe::{Limit, Probe, Progress, Tally};
use super::workloads::Workload;
use crate::result::{BackgroundWriter, Found, Latency, LevelResult, Memory, Process, Space, Stalls, WorkloadResult, Written, Zones};
use crate::target::{Failure, Figures, Opener, Outcome, Target};
use crate::workload::{KeyCoder, KeyStream, LiveKeys, ValuePool};
use sinterdb::clock::{Clock, SystemClock};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A bench run over a target.
pub struct Bench<'a, O> {
    /// Parameters, valid ones (see [`BenchConfig::validate`]).
    pub config: &'a BenchConfig,
    /// Opens the target.
    pub opener: &'a O,
    /// Raised by the user: each thread ends at its next operation.
    pub stop: &'a AtomicBool,
    /// Displays progress; needs one place per thread.
    pub progress: &'a Progress,
}

/// Failure that ended a run early.
#[derive(Debug)]
pub struct Failed {
    /// Workload that was running; `None` while opening or closing.
    pub workload: Option<Workload>,
    /// The reason.
    pub failure: Failure,
}

impl Failed {
    fn outside(failure: Failure) -> Self {
        Failed { workload: None, failure }
    }
}

impl<O: Opener + Sync> Bench<'_, O> {
    /// Runs the workloads in order and hands each result to `each` at once. The target is opened first and closed at the end, also after a
    /// failure. Loads close it and open an empty one, as in db_bench.
    ///
    /// # Errors
    /// The first failure of the target or of `each`. The result of the workload that failed was handed out before, marked as interrupted.
    pub fn run(&self, workloads: &[Workload], mut each: impl FnMut(&WorkloadResult) -> Outcome<()>) -> Result<(), Failed> {
        let pool = ValuePool::new(self.config.value_size, self.config.compression_ratio);
        let clock = SystemClock::default();
        let mut target = self.opener.open(!self.config.use_existing_db).map_err(Failed::outside)?;
        let mut live = (!self.config.use_existing_db).then(|| LiveKeys::new(self.config.num)).flatten();
        let mut streams = 0;
        let mut failed = None;
        for &workload in workloads {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let in_workload = |failure| Failed { workload: Some(workload), failure };
            if workload.is_load() && self.config.use_existing_db {
                let skipped = WorkloadResult {
                    name: workload.name().into(),
                    skipped: Some("--use_existing_db is true".into()),
                    ..WorkloadResult::default()
                };
                each(&skipped).map_err(in_workload)?;
                continue;
            }
            if workload.is_load() {
                target.close().map_err(Failed::outside)?;
                target = self.opener.open(true).map_err(Failed::outside)?;
                live = LiveKeys::new(self.config.num);
            }
            let one = One { bench: self, workload, pool: &pool, clock: &clock, first_stream: streams };
            streams += one.threads() as u64 + 1;
            let outcome = one.run(&target, &mut live).and_then(|(result, outcome)| each(&result).and(outcome));
            if let Err(failure) = outcome {
                failed = Some(in_workload(failure));
                break;
            }
        }
        let closed = target.close().map_err(Failed::outside);
        failed.map_or(closed, Err)
    }
}

/// One workload of a run.
struct One<'a, O> {
    bench: &'a Bench<'a, O>,
    workload: Workload,
    pool: &'a ValuePool,
    clock: &'a SystemClock,
    /// Streams used by earlier workloads: no two threads of a run draw the same keys.
    first_stream: u64,
}

/// Tallies of the threads of a workload.
#[derive(Default)]
struct Threads {
    workers: Vec<Tally>,
    writer: Option<Tally>,
    failure: Option<Failure>,
}

impl<O: Opener + Sync> One<'_, O> {
    fn threads(&self) -> usize {
        if self.workload == Workload::FillUniqueRandom || self.workload.is_single_call() { 1 } else { self.bench.config.threads }
    }

    fn run<T: Target>(&self, target: &T, live: &mut Option<LiveKeys>) -> Outcome<(WorkloadResult, Outcome<()>)> {
        Process::forget_peak();
        // `stats` shows everything since the database was opened.
        let before = if self.workload == Workload::Stats { Figures::default() } else { target.figures()? };
        let process = Process::now();
        let mut threads = if self.workload.is_single_call() { self.call(target) } else { self.start(target) };
        let after_process = Process::now();
        let after = target.figures()?;
        if let Some(live) = live {
            self.replay(&threads, live);
        }
        let mut result = self.summarise(&threads);
        result.written = Written::between(&before, &after);
        result.zones = Zones::between(&before, &after);
        let live_keys = live.as_ref().map(LiveKeys::count);
        let entry = (self.bench.config.key_size + self.bench.config.value_size) as u64;
        result.space = Space::of(&after, live_keys, live_keys.map(|keys| keys * entry));
        result.stalls = Stalls::between(&before, &after);
        result.memory = Memory::of(&after_process, &after);
        result.cpu_seconds = after_process.cpu_seconds - process.cpu_seconds;
        result.levels = LevelResult::list(&target.levels(0)?);
        result.chosen_codecs = target.chosen_codecs(0);
        result.counters = target.counters()?;
        let outcome = threads.failure.take().map_or(Ok(()), Err);
        result.interrupted = outcome.is_err() || self.bench.stop.load(Ordering::Relaxed);
        Ok((result, outcome))
    }

    /// Runs a workload that is one call to the target.
    fn call<T: Target>(&self, target: &T) -> Threads {
        self.bench.progress.begin(self.workload.name(), 1);
        let start_ns = self.clock.monotonic_ns();
        let outcome = match self.workload {
            Workload::Compact => target.compact(),
            Workload::Flush => target.flush(),
            Workload::WaitForCompaction => target.wait_for_compactions(),
            _ => Ok(()),
        };
        let end_ns = self.clock.monotonic_ns();
        let operations = u64::from(outcome.is_ok());
        let tally = Tally { operations, bytes: 0, found: 0, asked: 0, start_ns, end_ns, latency: Latency::histogram() };
        Threads { workers: vec![tally], writer: None, failure: outcome.err() }
    }

    /// Runs the threads of a workload: all start together, and the writer beside readers ends with the last reader.
    fn start<T: Target>(&self, target: &T) -> Threads {
        let config = self.bench.config;
        let readers = self.threads();
        let operations = self.workload.operations(config);
        let by_time = config.duration > 0 && self.workload.obeys_duration();
        let total = if by_time { 0 } else { operations.saturating_mul(readers as u64) };
        self.bench.progress.begin(self.workload.name(), total);
        let limit = if by_time {
            Limit { operations: u64::MAX, nanoseconds: config.duration.saturating_mul(1_000_000_000) }
        } else {
            Limit { operations, nanoseconds: u64::MAX }
        };
        let with_writer = self.workload.has_background_writer();
        let pacer = Pacer::new(config.benchmark_write_rate_limit);
        let barrier = Barrier::new(readers + usize::from(with_writer));
        let (halt, writer_end, running) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(readers));
        let work = |index: usize| {
            let is_writer = index == readers;
            let workload = if is_writer { Workload::Overwrite } else { self.workload };
            let (flag, limit) = if is_writer { (&writer_end, Limit::NONE) } else { (&halt, limit) };
            let pacer = Some(&pacer).filter(|_| config.benchmark_write_rate_limit > 0 && workload.obeys_write_rate());
            let probe = Probe::new(config, self.clock, [self.bench.stop, flag], limit).pace_with(pacer);
            // The writer beside readers does no operations of the workload: it shows no progress.
            let probe = if is_writer { probe } else { probe.show(self.bench.progress, index) };
            let worker =
                Worker::new(target.session(self.synced()), self.keys(index), self.pool.values(), self.coder(is_writer), config, probe);
            barrier.wait();
            let (tally, outcome) = worker.run(workload);
            if outcome.is_err() {
                halt.store(true, Ordering::Relaxed);
            }
            if outcome.is_err() || (!is_writer && running.fetch_sub(1, Ordering::Relaxed) == 1) {
                writer_end.store(true, Ordering::Relaxed);
            }
            (tally, outcome)
        };
        std::thread::scope(|scope| {
            let work = &work;
            let handles: Vec<_> = (0..readers + usize::from(with_writer)).map(|index| scope.spawn(move || work(index))).collect();
            let mut threads = Threads::default();
            for (index, handle) in handles.into_iter().enumerate() {
                let (tally, outcome) = handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                threads.failure = threads.failure.or(outcome.err());
                if index == readers { threads.writer = Some(tally) } else { threads.workers.push(tally) }
            }
            threads
        })
    }

    fn synced(&self) -> bool {
        self.bench.config.sync || self.workload == Workload::FillSync
    }

    /// Key coder of a thread. Missing keys are existing ones with one more character.
    fn coder(&self, is_writer: bool) -> KeyCoder {
        let longer = usize::from(self.workload == Workload::ReadMissing && !is_writer);
        KeyCoder::new(self.bench.config.key_size + longer)
    }

    /// Key stream of one thread. The writer beside readers has the next index after theirs, and draws as `overwrite` does.
    fn keys(&self, index: usize) -> KeyStream {
        let config = self.bench.config;
        let workload = if index == self.threads() { Workload::Overwrite } else { self.workload };
        // Each workload draws from streams of its own: reading an existing database must not repeat the order in which it was filled.
        let stream = (workload as u64) << 32 | (self.first_stream + index as u64);
        KeyStream::new(workload.key_space(config), workload.distribution(config), config.seed, stream)
    }

    /// Draws the keys of all threads again, to update the set of live keys.
    fn replay(&self, threads: &Threads, live: &mut LiveKeys) {
        for (index, tally) in threads.workers.iter().enumerate() {
            let keys = || self.keys(index);
            match self.workload {
                Workload::DeleteSeq | Workload::DeleteRandom => live.replay(keys(), tally.operations, false),
                Workload::ReadRandomWriteRandom => live.replay_mix(keys(), tally.operations, self.bench.config.readwritepercent),
                Workload::Overwrite | Workload::UpdateRandom => live.replay(keys(), tally.operations, true),
                load if load.is_load() => live.replay(keys(), tally.operations, true),
                _ => {}
            }
        }
        if let Some(tally) = &threads.writer {
            live.replay(self.keys(self.threads()), tally.operations, true);
        }
    }

    fn summarise(&self, threads: &Threads) -> WorkloadResult {
        let workers = &threads.workers;
        let sum = |part: fn(&Tally) -> u64| workers.iter().map(part).sum::<u64>();
        let start = workers.iter().map(|t| t.start_ns).min().unwrap_or(0);
        let end = workers.iter().map(|t| t.end_ns).max().unwrap_or(0);
        let elapsed_seconds = (end - start) as f64 / 1e9;
        let operations = sum(|t| t.operations);
        let mut latency = Latency::histogram();
        for tally in workers {
            // Same bounds everywhere, so nothing can fail to fit.
            let _ = latency.add(&tally.latency);
        }
        let per_second = |count: u64, seconds: f64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        WorkloadResult {
            name: self.workload.name().into(),
            threads: workers.len(),
            operations,
            elapsed_seconds,
            operations_per_second: per_second(operations, elapsed_seconds),
            micros_per_operation: sum(|t| t.end_ns - t.start_ns) as f64 / 1e3 / operations.max(1) as f64,
            bytes: sum(|t| t.bytes),
            found: self.workload.counts_found().then(|| Found { found: sum(|t| t.found), asked: sum(|t| t.asked) }),
            latency: (!latency.is_empty()).then(|| Latency::of(&latency)),
            background_writer: threads.writer.as_ref().map(|t| BackgroundWriter {
                operations: t.operations,
                operations_per_second: per_second(t.operations, (t.end_ns - t.start_ns) as f64 / 1e9),
            }),
            ..WorkloadResult::default()
        }
    }
}
