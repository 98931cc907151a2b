//! Moves of whole tables to the tier where they belong: data that grew old, that found no room before, or whose tier was attached later.
//!
//! A move is the last of all jobs, and there is one at a time. It has a thread of its own, so that a slow medium keeps nobody waiting who
//! merges or flushes; it begins while writers are free and no compaction could be done. It does not wait for that where the primary store
//! is full: compactions fail for want of room, and what moves away makes some. Nor does it wait for ever: under a load that never ends,
//! the first begins after a minute, and each further one after four times as long as the one before took. The table is written again under
//! a new number, frame by frame as it is ([`crate::table::Table::copy`]), and one edit puts the copy in its place.
//!
//! Young data that was demoted all the same (`compaction::young`) was written as cold as the old data around it. On the last level a
//! table may therefore be as cold as data that the age no longer keeps above: it does not move to a hotter tier for the young data in it. A
//! merge promotes that, key by key, or it grows as old as it lies.
//!
//! * A crash before the edit is fine: the copy is a file that nothing names. After it: the old table is.
//! * A tier without room is no failure: the table stays where it is, which is a hotter one, and is tried again later.
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

/// Longest wait of a move for other jobs.
const LONGEST_WAIT_NS: u64 = 60_000_000_000;
/// Factor between the time that a move took and the longest wait after it: under a load, moves get a fifth of the time.
const WAIT_FACTOR: u64 = 4;
/// Tables of its size that have to fit into a tier before it takes a table: tables of flushes and other moves may come there, too.
const ROOM: u64 = 2;

/// Moves done and refused.
#[derive(Debug, Default)]
pub(super) struct Moves {
    tables: AtomicU64,
    bytes: AtomicU64,
    turn: Mutex<Turn>,
}

/// Time from which on the next move need not wait any longer.
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

/// A table that lies elsewhere than it should.
struct Candidate {
    core: Arc<FamilyCore>,
    level: usize,
    run: u64,
    table: Arc<TableInfo>,
    wanted: Temperature,
}

impl Inner {
    /// The table that has been in the wrong place for longest, marked as being moved.
    pub(super) fn next_move(&self, shared: &mut Shared) -> Option<Job> {
        let tiers = self.media.tiers.as_ref()?;
        let now_ns = self.clock.monotonic_ns();
        // Without threads, nothing else is due when a move is asked for.
        let is_full = matches!(shared.blocked, Some(Error::NoSpace(_))) || self.is_scarce();
        let is_urgent = is_full || (!self.inline() && self.moves.has_waited(now_ns));
        if shared.moving || !(is_urgent || self.pressure.is_free()) {
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
        shared.moving = true;
        self.mark(shared, &core, Work::Relocate(wanted), &plan);
        Some(Job::Compact { core, work: Work::Relocate(wanted), plan })
    }

    /// Returns whether a table moves, or could.
    pub(super) fn may_move(&self, shared: &Shared) -> bool {
        shared.moving || self.media.tiers.as_ref().is_some_and(|tiers| self.pick_move(shared, tiers).is_some())
    }

    fn pick_move(&self, shared: &Shared, tiers: &Tiers) -> Option<Candidate> {
        let now = self.clock.unix_seconds();
        let mut found = Vec::new();
        for core in shared.families.values().filter(|core| !shared.manual.contains(&core.id)) {
            let settings = self.settings_of(core);
            let version = core.view.load().tree.version.clone();
            let since = self.young(shared, core, &settings).map(|young| young.since);
            for (level, run, table) in version.tables() {
                let as_of = |newest| settings.temperature_of(level, newest, table.temperature, now);
                let wanted = as_of(table.newest_time);
                let sunk = since.filter(|_| level + 1 == version.levels.len()).map(|since| as_of(table.newest_time.min(since)));
                let may_lie = |place| [Some(wanted), sunk].into_iter().flatten().any(|right| tiers.serving(right) == place);
                let lies = tiers.place(FileId::table(table.number));
                let taken = shared.busy.contains(&table.number) || shared.damaged.contains_key(&table.number);
                if lies.is_some_and(|lies| !may_lie(lies)) && !taken {
                    found.push(Candidate { core: core.clone(), level, run, table: table.clone(), wanted });
                }
            }
        }
        found.sort_by_key(|candidate| candidate.table.newest_time);
        found.into_iter().find(|candidate| self.available(tiers.serving(candidate.wanted)) >= candidate.table.bytes.saturating_mul(ROOM))
    }

    /// Writes the one table of a plan again in the store for a temperature.
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
