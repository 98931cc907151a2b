//! Runs one merge: opens the inputs of a plan, lets [`collapse`] decide which entries survive, and writes these to tables.
//!
//! A large merge is cut into key ranges that are merged in parallel, each with its own cursors and outputs; the outputs are concatenated in
//! key order. A flush runs by the same code with memtables as inputs.
//!
//! A crash or an error anywhere here is fine because nothing refers to an output before the caller publishes the report: an output that is
//! left over is a file that no manifest names.

use super::auto_codecs::Announced;
use super::codec_trials::Sampler;
use super::collapse::{Counts, Rules, collapse};
use super::output::{Limits, TableFactory, TableSink};
use super::output_temperature::{Stretch, Stretches};
use super::split_by_age::{Placed, Routed, Router, Upper};
use super::subcompactions;
use super::throttle::{Pacing, Rests};
use super::young;
use super::{Hot, Plan};
use crate::cache::Cache;
use crate::checksum::DbId;
use crate::clock::Clock;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::key::Seq;
use crate::manifest::{KeyRange, TableInfo};
use crate::memtable::MemtableCursor;
use crate::merge::Merge;
use crate::operator::{CompactionFilter, MergeOperator};
use crate::range_del::RangeTombstones;
use crate::run_cursor::{RunCursor, TableSource};
use crate::settings::{FamilySettings, UntimedData};
use crate::table::{Packers, ScanCursor, Table, TableBuilder, TableOptions};
use crate::tiering::age::{Cut, TimeMap};
use crate::tiering::auto_cutoff::Auto as Placement;
use parking_lot::Mutex;
use sinter_storage::store::{Appender, Cause, FileId, Hint, Lifetime, Reason, Store, Temperature, behind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Builder;

/// Creates a table file.
pub type Create<'a> = dyn Fn(FileId, &Hint) -> Result<Box<dyn Appender>> + Sync + 'a;

/// Everything a job needs from its surroundings.
pub struct Context<'a> {
    /// The store of the tables.
    pub store: &'a dyn Store,
    /// The database.
    pub db: DbId,
    /// The family's number.
    pub family: u32,
    /// The family's settings.
    pub settings: &'a FamilySettings,
    /// The level that level 0 is merged into, for the hints of tables.
    pub base: usize,
    /// The automatic choice of codecs; `None`: the settings name them.
    pub codecs: Option<&'a Announced>,
    /// Creates a table file and accounts for every byte written to it, also if the job fails.
    pub create: &'a Create<'a>,
    /// The cache that new tables will use.
    pub cache: &'a Arc<Cache>,
    /// An open table of the version.
    pub table: &'a (dyn Fn(u64) -> Result<Arc<Table>> + Sync),
    /// A fresh file number.
    pub new_number: &'a (dyn Fn() -> u64 + Sync),
    /// Live snapshots, ascending, the newest visible sequence number last (also if it equals the newest snapshot).
    pub snapshots: &'a [Seq],
    /// The output belongs to a copy of the database as of the last snapshot: newer entries are left out.
    pub is_copy: bool,
    /// The family's merge operator.
    pub merge: Option<&'a dyn MergeOperator>,
    /// The family's compaction filter.
    pub filter: Option<&'a dyn CompactionFilter>,
    /// Write past the page cache.
    pub direct: bool,
    /// Start writing a table to the medium every so many bytes; 0: leave it to the final sync.
    pub bytes_per_sync: u64,
    /// Other threads may append to the job's tables and merge its other key ranges. Without them everything repeats exactly.
    pub threads: bool,
    /// Threads that may compress blocks for the job.
    pub packers: &'a Arc<Packers>,
    /// Largest number of key ranges merged in parallel.
    pub max_subcompactions: usize,
    /// Set to stop the job early.
    pub cancel: &'a AtomicBool,
    /// Clock for statistics and pauses.
    pub clock: &'a dyn Clock,
    /// Pauses of the job under a CPU quota; `None`: no pauses.
    pub pacing: Option<Pacing<'a>>,
    /// Entries as old as this have outlived the family's time to live.
    pub expired: Option<Cut>,
    /// Sequence numbers between which entries may expire at different moments; `None`: nothing expires.
    pub apart: Option<Vec<Seq>>,
    /// Entries as old as this may lose their sequence number; `None`: none may.
    pub zero_up_to: Option<Cut>,
    /// The automatic choice of the age up to which data stays above the last level; `None`: the settings give the age.
    pub placement: Option<Chosen<'a>>,
    /// Times at which sequence numbers were written; empty if the family does not track time.
    pub times: Arc<TimeMap>,
}

/// The automatic choice of the age up to which data stays above the last level.
pub struct Chosen<'a> {
    /// The family's choice, which also counts replaced values.
    pub by: &'a Placement,
    /// The reason in one line for people.
    pub why: String,
}

/// Results of a finished job.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// New tables in key order; sealed, names not yet synced.
    pub outputs: Vec<TableInfo>,
    /// New tables of the level above, if the plan has an upper output; in key order, sealed, names not yet synced.
    pub hot: Vec<TableInfo>,
    /// Entries written, by destination, if the plan has an upper output.
    pub placed: Placed,
    /// Entries read.
    pub entries_in: u64,
    /// Entries written.
    pub entries_out: u64,
    /// Bytes of input tables.
    pub bytes_in: u64,
    /// Nanoseconds.
    pub elapsed_ns: u64,
    /// Key ranges that waited for the first one, because no thread could be started for them.
    pub without_thread: u64,
}

/// End of a job. Only `Done` may be published.
#[derive(Debug)]
pub enum Outcome {
    /// All outputs are complete and durable.
    Done(Report),
    /// Stopped by `cancel`; outputs written so far are listed for deletion.
    Cancelled(Vec<u64>),
}

/// Merges the inputs of a plan. On an error the outputs written so far have been deleted where possible.
///
/// # Errors
/// [`Error::Corrupt`] also if the inputs gave fewer or more entries than the manifest says they hold: a merge must not lose what it
/// could not read.
pub fn run(plan: &Plan, context: &Context<'_>) -> Result<Outcome> {
    let started = context.clock.monotonic_ns();
    let infos = || plan.inputs.iter().flat_map(|input| &input.tables);
    let bytes_in: u64 = infos().map(|table| table.bytes).sum();
    let rules = Rules {
        snapshots: context.snapshots,
        is_copy: context.is_copy,
        bottommost: plan.bottommost,
        zero_up_to: zero_up_to(plan, context),
        expired: context.expired,
        apart: context.apart.as_deref(),
        zeroed_seq: zeroed_seq(plan, context)?,
        merge: context.merge,
        filter: context.filter,
        level: u8::try_from(plan.output_level).unwrap_or(u8::MAX),
        heat: context.placement.as_ref().map(|chosen| chosen.by.heat()),
    };
    // Data that does not go to the upper output is old.
    let to_last = stretches(plan, context, plan.output_level, plan.hot.as_ref().map(|hot| hot.old.time));
    let hot = plan.hot.as_ref().map(|hot| (hot, stretches(plan, context, plan.output_level - 1, None)));
    let job = Job {
        context,
        rules,
        tombstones: input_tombstones(plan, context)?,
        grandparents: &plan.grandparents,
        table_bytes: plan.target_file_size.max(1),
        level: plan.output_level,
        stretches: to_last,
        hot,
        reason: Some(plan.reason),
        expected_bytes: plan.target_file_size.min(bytes_in),
        largest: hull(plan).map(|hull| hull.largest),
        created: Mutex::new(Vec::new()),
        failed: AtomicBool::new(false),
        without_thread: AtomicU64::new(0),
    };
    let cuts = if plan.cuts.is_empty() { subcompactions(plan, context, bytes_in)? } else { plan.cuts.clone() };
    let shared = hull(plan).map_or(0, |hull| hull.smallest.iter().zip(&hull.largest).take_while(|(a, b)| a == b).count());
    let source = || {
        let runs = plan.inputs.iter().map(|input| RunCursor::new(ScanRun { tables: &input.tables, open: context.table }));
        Merge::sharing(runs.collect(), shared)
    };
    let outcome = job.finish(started, bytes_in, job.pieces(&cuts, source));
    let expected: u64 = infos().map(|table| table.entries).sum();
    match outcome {
        Ok(Outcome::Done(report)) if report.entries_in != expected => {
            job.delete_outputs();
            let files: Vec<String> = infos().map(|table| FileId::table(table.number).to_string()).collect();
            let what = format!("{} entries read where the manifest knows of {expected}", report.entries_in);
            Err(Error::corrupt(files.join(", "), 0, what))
        }
        Ok(Outcome::Done(mut report)) if context.settings.places_by_age() => {
            young::set_settled_bytes(infos(), plan.bottommost, &mut report.hot, &mut report.outputs);
            if let Some(hot) = &plan.hot {
                let told = report.hot.iter_mut().map(|table| young::keep(table, hot.old)).filter(|kept| !kept).count();
                debug_assert_eq!(told, 0, "the router put up what is old");
            }
            Ok(Outcome::Done(report))
        }
        outcome => outcome,
    }
}

/// The cut up to which entries may lose their sequence numbers: entries that are young by the plan keep them.
fn zero_up_to(plan: &Plan, context: &Context<'_>) -> Option<Cut> {
    let cut = context.zero_up_to?;
    Some(plan.hot.as_ref().map_or(cut, |hot| Cut { seq: cut.seq.min(hot.old.seq), time: cut.time.min(hot.old.time) }))
}

/// Writes memtables, newest first, and their range tombstones to level 0. `times` are the oldest and newest write time, unix seconds.
/// Versions that no snapshot needs are dropped. The result is one table, or several in key order if it is much larger than
/// `write_buffer_size`; none if there is nothing to write. Filter and time to live are left to compactions.
///
/// # Errors
/// As [`run`]; outputs written so far have been deleted where possible.
pub fn flush(memtables: Vec<MemtableCursor>, tombstones: &RangeTombstones, times: (u64, u64), context: &Context<'_>) -> Result<Outcome> {
    let started = context.clock.monotonic_ns();
    let rules = Rules {
        snapshots: context.snapshots,
        is_copy: context.is_copy,
        bottommost: false,
        zero_up_to: None,
        expired: None,
        apart: context.apart.as_deref(),
        zeroed_seq: 0,
        merge: context.merge,
        filter: None,
        level: 0,
        heat: None,
    };
    let settings = context.settings;
    let temperature = settings.temperature_ages.at(times.1, context.clock.unix_seconds()).unwrap_or_else(|| settings.temperature_at(0));
    let job = Job {
        context,
        rules,
        tombstones: tombstones.clone(),
        grandparents: &[],
        table_bytes: context.settings.write_buffer_size.saturating_mul(2).max(1),
        level: 0,
        stretches: Stretches::one(temperature, times),
        hot: None,
        reason: None,
        expected_bytes: context.settings.write_buffer_size,
        largest: None,
        created: Mutex::new(Vec::new()),
        failed: AtomicBool::new(false),
        without_thread: AtomicU64::new(0),
    };
    let piece = job.piece(None, None, Merge::new(memtables));
    job.finish(started, 0, vec![piece])
}

/// The tables of a run as inputs.
struct ScanRun<'a> {
    tables: &'a [Arc<TableInfo>],
    open: &'a (dyn Fn(u64) -> Result<Arc<Table>> + Sync),
}

impl TableSource for ScanRun<'_> {
    type Cursor = ScanCursor;
    fn len(&self) -> usize {
        self.tables.len()
    }
    fn range(&self, i: usize) -> &KeyRange {
        &self.tables[i].range
    }
    fn open(&self, i: usize) -> Result<ScanCursor> {
        Ok((self.open)(self.tables[i].number)?.scan())
    }
}

/// The smallest range that holds all keys of the inputs.
fn hull(plan: &Plan) -> Option<KeyRange> {
    let mut ranges = plan.inputs.iter().flat_map(|input| &input.tables).map(|table| &table.range);
    let mut hull = ranges.next()?.clone();
    ranges.for_each(|range| hull.extend(range));
    Some(hull)
}

/// All range tombstones of the inputs.
fn input_tombstones(plan: &Plan, context: &Context<'_>) -> Result<RangeTombstones> {
    let tables = plan.inputs.iter().flat_map(|input| &input.tables).filter(|table| table.range_tombstones > 0);
    let sets = tables.map(|table| (context.table)(table.number)?.range_tombstones()).collect::<Result<Vec<_>>>()?;
    Ok(RangeTombstones::union(sets.iter().map(|set| &**set)))
}

/// The newest sequence number that any entry of the inputs may have had before it was zeroed.
fn zeroed_seq(plan: &Plan, context: &Context<'_>) -> Result<Seq> {
    let tables = plan.inputs.iter().flat_map(|input| &input.tables);
    let seqs = tables.map(|table| Ok((context.table)(table.number)?.zeroed_seq())).collect::<Result<Vec<_>>>()?;
    Ok(seqs.into_iter().max().unwrap_or(0))
}

/// Temperatures of a merge's outputs on a level. `old`: upper bound of the write times there, unix seconds, if there is one.
fn stretches(plan: &Plan, context: &Context<'_>, level: usize, old: Option<u64>) -> Stretches {
    let (settings, now) = (context.settings, context.clock.unix_seconds());
    let of = |newest: u64| settings.temperature_ages.at(newest, now).unwrap_or_else(|| settings.temperature_at(level));
    let left = |newest: u64, old: u64| if newest == 0 { old } else { newest.min(old) };
    Stretches::of(&plan.inputs, |newest| of(old.map_or(newest, |old| left(newest, old))))
}

/// Keys at which a large merge is cut into ranges; none if cutting is not worth it.
fn subcompactions(plan: &Plan, context: &Context<'_>, bytes_in: u64) -> Result<Vec<Vec<u8>>> {
    let target = plan.target_file_size.max(1);
    let pieces = context.max_subcompactions.min(usize::try_from(bytes_in / target).unwrap_or(usize::MAX));
    if pieces < 2 || bytes_in <= 2 * target {
        return Ok(Vec::new());
    }
    let mut segments = Vec::new();
    for table in plan.inputs.iter().flat_map(|input| &input.tables) {
        // A small table counts at its first key. A large one is divided by its index.
        let points = if table.bytes > bytes_in / (4 * pieces as u64) {
            (context.table)(table.number)?.split_points(4 * pieces)?
        } else {
            Vec::new()
        };
        let share = table.bytes / (points.len() as u64 + 1);
        segments.push((table.range.smallest.clone(), share));
        segments.extend(points.into_iter().map(|key| (key, share)));
    }
    Ok(subcompactions::cuts(segments, pieces))
}

/// A running merge.
struct Job<'a> {
    context: &'a Context<'a>,
    rules: Rules<'a>,
    /// Range tombstones of all inputs.
    tombstones: RangeTombstones,
    grandparents: &'a [Arc<TableInfo>],
    table_bytes: u64,
    level: usize,
    stretches: Stretches,
    hot: Option<(&'a Hot, Stretches)>,
    /// The reason of the compaction; `None`: it is a flush.
    reason: Option<Reason>,
    expected_bytes: u64,
    /// Largest key of all inputs, where known.
    largest: Option<Vec<u8>>,
    /// Numbers of all outputs, finished or not.
    created: Mutex<Vec<u64>>,
    /// A piece failed: the others give up.
    failed: AtomicBool,
    /// Number of pieces for which no thread could be started.
    without_thread: AtomicU64,
}

/// Results of `work(0)` to `work(count - 1)`: the first runs on this thread, the others on threads of their own. Parts for which no thread
/// can be started run on this thread after the first one; the second result is the number of such parts.
fn in_parallel<T: Send>(count: usize, builder: impl Fn() -> Builder, work: impl Fn(usize) -> T + Sync) -> (Vec<T>, u64) {
    let work = &work;
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..count).map(|i| builder().spawn_scoped(scope, move || work(i))).collect();
        let mut results = vec![work(0)];
        let run_here: Vec<Option<T>> = (1..).zip(&others).map(|(i, thread)| thread.is_err().then(|| work(i))).collect();
        let without_thread = run_here.iter().flatten().count() as u64;
        for (thread, result) in others.into_iter().zip(run_here) {
            let joined = thread.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            results.extend(result.or(joined.ok()));
        }
        (results, without_thread)
    })
}

/// Result of one key range; `None`: the job was stopped.
type Piece = Result<Option<(Counts, Routed<TableInfo>)>>;

impl Job<'_> {
    /// Merges all key ranges: in parallel, the first on this thread, or one after the other on this thread.
    fn pieces<C: Cursor>(&self, cuts: &[Vec<u8>], source: impl Fn() -> Merge<C> + Sync) -> Vec<Piece> {
        let bound = |i: usize| cuts.get(i).map(Vec::as_slice);
        let piece = |i: usize| self.piece(i.checked_sub(1).and_then(bound), bound(i), source());
        // More cuts than threads allowed are not for parallel work: the plan demands them.
        if !self.context.threads || cuts.len() >= self.context.max_subcompactions.max(1) {
            return (0..=cuts.len()).map(piece).collect();
        }
        let (pieces, without_thread) = in_parallel(cuts.len() + 1, || Builder::new().name("sinterdb-piece".into()), piece);
        self.without_thread.store(without_thread, Ordering::Relaxed);
        pieces
    }

    /// Merges the key range `[from, to)`.
    fn piece<C: Cursor>(&self, from: Option<&[u8]>, to: Option<&[u8]>, source: Merge<C>) -> Piece {
        let tombstones = self.tombstones.clip(from, to);
        let overlap_bytes = self.context.settings.max_compaction_bytes / 2;
        let starts = self.stretches.starts();
        let limits = Limits { table_bytes: self.table_bytes, overlap_bytes, grandparents: self.grandparents, starts };
        // Codecs are sampled in the first key range only: that is enough, and repeats exactly.
        let (to_key, samples) = (to.or(self.largest.as_deref()), from.is_none());
        let factory = Factory { job: self, level: self.level, stretches: &self.stretches, to: to_key, samples };
        let upper = self.hot.as_ref().map(|(hot, stretches)| Upper {
            old: hot.old,
            zeroed_is_old: self.context.placement.is_some() || self.context.settings.untimed_data == UntimedData::Old,
            spans: &hot.spans,
            factory: Factory { level: self.level - 1, stretches, ..factory },
            limits: Limits {
                table_bytes: hot.target_file_size.max(1),
                overlap_bytes,
                grandparents: &hot.grandparents,
                starts: stretches.starts(),
            },
        });
        let mut output = Router::new(factory, limits, self.rules.surviving(&tombstones), upper);
        let pacing = self.context.pacing.map(|pacing| (pacing, self.context.clock));
        let rests = Rests::new(self.context.cancel, &self.failed, pacing);
        let piece = collapse(source, (from, to), &tombstones, &self.rules, rests, &mut output).and_then(|counts| match counts {
            Some(counts) => Ok(Some((counts, output.finish()?))),
            None => Ok(None),
        });
        if piece.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        piece
    }

    /// Combines the results of all key ranges to the outcome of the job.
    fn finish(&self, started: u64, bytes_in: u64, pieces: Vec<Piece>) -> Result<Outcome> {
        let without_thread = self.without_thread.load(Ordering::Relaxed);
        let mut report = Report { bytes_in, without_thread, ..Report::default() };
        let mut stopped = false;
        let mut failure = None;
        for piece in pieces {
            match piece {
                Ok(Some((counts, routed))) => {
                    report.entries_in += counts.entries_in;
                    report.entries_out += counts.entries_out;
                    report.outputs.extend(routed.cold);
                    report.hot.extend(routed.hot);
                    report.placed.add(routed.placed);
                }
                Ok(None) => stopped = true,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if let Some(error) = failure {
            self.delete_outputs();
            return Err(error);
        }
        if stopped {
            return Ok(Outcome::Cancelled(self.created.lock().clone()));
        }
        debug_assert!(report.entries_out <= report.entries_in);
        report.elapsed_ns = self.context.clock.monotonic_ns().saturating_sub(started);
        Ok(Outcome::Done(report))
    }

    /// Deletes all outputs. The next open deletes any that cannot be deleted now.
    fn delete_outputs(&self) {
        for &number in self.created.lock().iter() {
            let _ = self.context.store.delete(FileId::table(number));
        }
    }
}

/// Starts output tables.
#[derive(Clone, Copy)]
struct Factory<'a> {
    job: &'a Job<'a>,
    level: usize,
    /// Temperatures and write times of the tables, as far as they are known in advance.
    stretches: &'a Stretches,
    /// The last key that the tables may hold, for the hint.
    to: Option<&'a [u8]>,
    /// Takes samples for the choice of codecs.
    samples: bool,
}

impl<'a> TableFactory for Factory<'a> {
    type Table = Building<'a>;

    fn start(&mut self, first: &[u8]) -> Result<Building<'a>> {
        let (context, level) = (self.job.context, self.level);
        let number = (context.new_number)();
        let id = FileId::table(number);
        let to = u8::try_from(level).unwrap_or(u8::MAX);
        let cause = self.job.reason.map_or(Cause::Flush, |reason| Cause::Compaction { to, reason });
        let Stretch { temperature, times } = self.stretches.at(first);
        let hint = Hint {
            cause,
            family: context.family,
            level: to,
            lifetime: lifetime(level, context.base),
            temperature,
            key_range: self.to.map(|to| (first.to_vec(), to.to_vec())),
            expected_bytes: self.job.expected_bytes,
            direct: context.direct,
            writeback_bytes: context.bytes_per_sync,
        };
        let chosen = context.codecs.map(|codecs| codecs.choice(level));
        let options = TableOptions {
            block_size: context.settings.block_size,
            bloom_bits_per_key: if level + 1 >= context.settings.num_levels {
                context.settings.bloom_bits_last_level
            } else {
                context.settings.bloom_bits_per_key
            },
            compression: chosen.as_ref().map_or_else(|| context.settings.compression_at(level), |(compression, _)| *compression),
        };
        // Noted before the creation, so that a file whose creation failed half-way is deleted, too.
        self.job.created.lock().push(number);
        let out = (context.create)(id, &hint)?;
        let out = match context.codecs {
            Some(codecs) => codecs.timed(out),
            None => out,
        };
        let out = if context.threads { behind(out) } else { out };
        let mut builder = TableBuilder::new(context.db, id, out, options).with_packers(context.packers);
        builder.set_chosen(chosen.map(|(_, why)| why).unwrap_or_default());
        builder.set_times(context.clock.unix_seconds(), context.times.clone());
        let codecs = context.codecs.map(|codecs| (codecs, level));
        let sampler = codecs.filter(|_| self.samples).map(|(codecs, level)| Sampler::new(codecs.auto(), level, options.block_size));
        if let Some(chosen) = &context.placement {
            builder.draw_sample();
            builder.set_placed(chosen.why.clone());
        }
        Ok(Building { builder, times, temperature, codecs, sampler })
    }
}

/// Expected lifetime of a table of a level until it is merged again: the deeper below the base level, the longer.
pub fn lifetime(level: usize, base: usize) -> Lifetime {
    match level.saturating_sub(base.max(1)) {
        0 => Lifetime::Medium,
        1 => Lifetime::Long,
        _ => Lifetime::Extreme,
    }
}

/// One output table.
struct Building<'a> {
    builder: TableBuilder,
    times: (u64, u64),
    temperature: Temperature,
    /// The running job to which the finished table is reported, and the table's level.
    codecs: Option<(&'a Announced, usize)>,
    sampler: Option<Sampler<'a>>,
}

impl TableSink for Building<'_> {
    type Done = TableInfo;

    #[inline]
    fn add(&mut self, key: &[u8], trailer: u64, value: &[u8], original_seq: Seq, own_time: Option<u64>) -> Result<()> {
        if let Some(sampler) = &mut self.sampler {
            sampler.see(key, value);
        }
        self.builder.add_aged(key, trailer, value, original_seq, own_time)
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.builder.estimated_bytes()
    }

    fn finish(self, tombstones: &RangeTombstones) -> Result<TableInfo> {
        let info = TableInfo { temperature: self.temperature, ..self.builder.finish(tombstones, self.times)? };
        if let Some((codecs, level)) = self.codecs {
            codecs.wrote(level, info.raw_bytes);
        }
        Ok(info)
    }
}

#[cfg(test)]
mod tests;
