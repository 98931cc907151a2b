//! Moves whole tables to the tier where they belong, because they grew old, because that tier had no space before, or because that tier was
//! attached later.
//!
//! Moves have the lowest priority of all jobs, and one runs at a time, on a thread of its own, so that a slow medium delays no flush and no
//! compaction. A move begins when writers are not held back and no compaction is due, with two exceptions. If the primary store is full,
//! moves begin at once, because they free space there. And under a load that never ends, a move begins after a minute at the latest, the
//! next one after four times the duration of the move before it. A move copies the table's frames unchanged to a file with a new number
//! ([`crate::table::Table::copy`]); one edit of the manifest replaces the table by the copy.
//!
//! On the last level, a table may lie on the tier of old data although there is young data in it: a demotion from a full medium
//! (`compaction::young`) writes young data there, too. Such a table does not move to a hotter tier. A merge promotes its young data key by
//! key, or the data grows old where it is.
//!
//! * A crash before the edit leaves the copy, a file that nothing names; a crash after it leaves the old table as such a file.
//! * If the tier has no space, the table stays on its hotter tier, and the move is tried again later. This is not a failure.
//! * A table that cannot be read is set aside, as by a compaction.

use super::Inner;
use super::Shared;
use super::family::FamilyCore;
use super::jobs::{Job, Work};
use crate::compaction::base_level;
use crate::compaction::job::lifetime;
use crate::compaction::{Input, Plan};
use crate::error::{Error, Result};
use crate::manifest::TableInfo;
use parking_lot::Mutex;
use sinter_storage::store::{Cause, FileId, Hint, Reason, Temperature, Tiers};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest time that a move waits for other jobs, nanoseconds.
const LONGEST_WAIT_NS: u64 = 60_000_000_000;
/// Factor from the duration of a move to the longest wait of the next: under a load, moves run for a fifth of the time.
const WAIT_FACTOR: u64 = 4;
/// A tier takes a table if this many tables of its size fit, because flushes and compactions write to the tier as well.
const ROOM: u64 = 2;

/// Counts of moves, and the time until which the next one waits.
#[derive(Debug, Default)]
pub(super) struct Moves {
    tables: AtomicU64,
    bytes: AtomicU64,
    turn: Mutex<Turn>,
}

/// How long the next move waits for other jobs.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// End of the last move, or of the last look that found nothing to move.
    since_ns: u64,
    wait_ns: u64,
}

impl Default for Turn {
    fn default() -> Self {
        Turn { since_ns: 0, wait_ns: LONGEST_WAIT_NS }
    }
}

impl Moves {
    /// Tables moved, and their bytes.
    pub fn done(&self) -> (u64, u64) {
        (self.tables.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    fn has_waited(&self, now_ns: u64) -> bool {
        let turn = *self.turn.lock();
        now_ns.saturating_sub(turn.since_ns) >= turn.wait_ns
    }

    fn found_none(&self, now_ns: u64) {
        *self.turn.lock() = Turn { since_ns: now_ns, ..Turn::default() };
    }

    fn had_turn(&self, began_ns: u64, now_ns: u64) {
        let took = now_ns.saturating_sub(began_ns);
        *self.turn.lock() = Turn { since_ns: now_ns, wait_ns: took.saturating_mul(WAIT_FACTOR).min(LONGEST_WAIT_NS) };
    }

    pub fn count(&self, bytes: u64) {
        self.tables.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Outcome of a table's move.
pub(super) enum Moved {
    /// The copy of the table.
    To(Box<TableInfo>),
    /// The tier had no free space.
    NoRoom,
    /// The database closes.
    Stopped,
}

/// A table on another tier than the one where it belongs.
struct Candidate {
    core: Arc<FamilyCore>,
    level: usize,
    run: u64,
    table: Arc<TableInfo>,
    wanted: Temperature,
}

impl Inner {
    /// The next move, marked as running: of the table with the oldest data among those on the wrong tier.
    pub(super) fn next_move(&self, shared: &mut Shared) -> Option<Job> {
        let tiers = self.media.tiers.as_ref()?;
        let now_ns = self.clock.monotonic_ns();
        // Without threads a move is never urgent: it is asked for only when no other job is due.
        let is_full = matches!(shared.blocked, Some(Error::NoSpace(_))) || self.is_scarce();
        let is_urgent = is_full || (!self.inline() && self.moves.has_waited(now_ns));
        if shared.jobs.moving || !(is_urgent || self.pressure.is_free()) {
            return None;
        }
        let Some(Candidate { core, level, run, table, wanted }) = self.pick_move(shared, tiers) else {
            self.moves.found_none(now_ns);
            return None;
        };
        if !is_urgent && self.is_compaction_due(shared) {
            return None;
        }
        let plan = Plan {
            reason: Reason::Temperature,
            inputs: vec![Input { level, run, tables: vec![table] }],
            output_level: level,
            output_run: run,
            hot: None,
            bottommost: false,
            grandparents: Vec::new(),
            target_file_size: u64::MAX,
            cuts: Vec::new(),
        };
        shared.jobs.moving = true;
        self.mark(shared, &core, Work::Relocate(wanted), &plan);
        Some(Job::Compact { core, work: Work::Relocate(wanted), plan })
    }

    /// Returns whether a move runs or is possible.
    pub(super) fn may_move(&self, shared: &Shared) -> bool {
        shared.jobs.moving || self.media.tiers.as_ref().is_some_and(|tiers| self.pick_move(shared, tiers).is_some())
    }

    fn pick_move(&self, shared: &Shared, tiers: &Tiers) -> Option<Candidate> {
        let now = self.clock.unix_seconds();
        let mut found = Vec::new();
        for core in shared.families.values().filter(|core| !shared.jobs.manual.contains(&core.id)) {
            let settings = self.settings_of(core);
            let version = core.view.load().tree.version.clone();
            let since = self.young(shared, core, &settings).map(|young| young.since);
            for (level, run, table) in version.tables() {
                let as_of = |newest| settings.temperature_of(level, newest, table.temperature, now);
                let wanted = as_of(table.newest_time);
                let sunk = since.filter(|_| level + 1 == version.levels.len()).map(|since| as_of(table.newest_time.min(since)));
                let may_lie = |place| [Some(wanted), sunk].into_iter().flatten().any(|right| tiers.serving(right) == place);
                let lies = tiers.place(FileId::table(table.number));
                let taken = shared.jobs.tables.contains(&table.number) || shared.damaged.contains_key(&table.number);
                if lies.is_some_and(|lies| !may_lie(lies)) && !taken {
                    found.push(Candidate { core: core.clone(), level, run, table: table.clone(), wanted });
                }
            }
        }
        found.sort_by_key(|candidate| candidate.table.newest_time);
        found.into_iter().find(|candidate| self.available(tiers.serving(candidate.wanted)) >= candidate.table.bytes.saturating_mul(ROOM))
    }

    /// Copies the one table of a plan to the store of temperature `wanted`.
    pub(super) fn move_table(&self, core: &Arc<FamilyCore>, plan: &Plan, wanted: Temperature) -> Result<Moved> {
        let began_ns = self.clock.monotonic_ns();
        let moved = self.copy_table(core, plan, wanted);
        self.moves.had_turn(began_ns, self.clock.monotonic_ns());
        moved
    }

    fn copy_table(&self, core: &Arc<FamilyCore>, plan: &Plan, wanted: Temperature) -> Result<Moved> {
        let Some(info) = plan.tables().next() else { return Err(Error::invalid("a move without a table")) };
        let tree = core.view.load().tree.clone();
        let table = tree.table(info.number).ok_or_else(|| Error::invalid(format!("table {} is not in the tree", info.number)))?;
        let id = FileId::table(self.new_number());
        let level = u8::try_from(plan.output_level).unwrap_or(u8::MAX);
        let hint = Hint {
            cause: Cause::Compaction { to: level, reason: plan.reason },
            family: core.id,
            level,
            lifetime: lifetime(plan.output_level, base_level(&tree.version, &core.settings.load())),
            temperature: wanted,
            key_range: Some((info.range.smallest.clone(), info.range.largest.clone())),
            expected_bytes: info.bytes,
            direct: self.settings.use_direct_io_for_flush_and_compaction,
            writeback_bytes: self.settings.bytes_per_sync,
        };
        let goes_on = || !self.end.stop_jobs.load(Ordering::Relaxed);
        let copied = self.placer.create_there(id, &hint).and_then(|out| table.copy(id, out, &goes_on));
        if let Ok(Some(copy)) = copied {
            return Ok(Moved::To(Box::new(TableInfo { temperature: wanted, ..copy })));
        }
        let _ = self.store.delete(id);
        match copied {
            Err(Error::NoSpace(_)) => {
                self.refuse(self.media.serving(wanted), plan.bytes());
                Ok(Moved::NoRoom)
            }
            Err(error) => Err(error),
            Ok(_) => Ok(Moved::Stopped),
        }
    }
}
