//! Picks the tables to merge next. Pickers are pure functions from a version to a choice: they see descriptions, never files.
//!
//! Runs are ordered by the age of their data: the runs of level 0 from newest to oldest, then level 1, and so on. A plan is sound if no
//! entry passes an entry of the same key on its way to the output's run; [`check_plan`] checks that, and [`check_shape`] checks the result.
//! A level >= 1 of a leveled tree has one run; the last level of a universal tree may have several. A family may change its style while
//! open, so every picker accepts every tree and moves it towards its own shape.
//!
//! Reading order: `leveled` (with `targets`, `step` and `push`), `universal` and `manual` pick; `job` runs a merge, `subcompactions` cuts a
//! large one, `collapse` decides which entries survive, `output` where tables end; `codec_choice` judges codecs, `auto_codecs` keeps the
//! observations for it, `codec_trials` tries codecs on samples.
//!
//! Where data is placed by age, a merge into the last level writes to two levels: young data goes to the one above (`young`).
//!
//! Pickers treat a damaged table like one that a running job reads, but permanently: data that would have to be merged with the table waits
//! above it, and all other compactions go on.

mod aging;
pub mod auto_codecs;
pub mod codec_choice;
mod codec_trials;
pub mod collapse;
mod demote;
pub mod job;
mod leveled;
mod limited_space;
mod manual;
pub mod output;
mod output_temperature;
mod push;
pub mod split_by_age;
mod step;
pub mod subcompactions;
pub mod targets;
#[cfg(test)]
mod tests;
pub mod throttle;
mod universal;
mod young;

pub use aging::drop_hidden;
pub use demote::REST_SECONDS;
pub use manual::{ManualRange, manual, manual_up_to};
pub use young::{Hot, Span, Young};

use crate::key::Seq;
use crate::manifest::{KeyRange, Run, TableInfo, Version};
use crate::settings::{FamilySettings, Style};
use crate::tiering::age::Cut;
use sinter_storage::store::Reason;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Inputs of a picker besides the version.
#[derive(Debug)]
pub struct PickEnv<'a> {
    /// The family's settings.
    pub settings: &'a FamilySettings,
    /// Numbers of tables that a running job reads.
    pub busy: &'a HashSet<u64>,
    /// Numbers of tables that were found damaged. No plan has them among its inputs, and none leads past them.
    pub damaged: &'a HashSet<u64>,
    /// Tables that range tombstones hide completely, with the sequence number from which on no reader sees anything of them.
    pub hidden: &'a HashMap<u64, Seq>,
    /// Level and key range that running jobs write.
    pub busy_output: &'a [(usize, KeyRange)],
    /// Unix seconds.
    pub now: u64,
    /// The oldest live snapshot, or else the newest visible number: nobody reads at a smaller one.
    pub oldest_snapshot: Seq,
    /// The newest live snapshot; `None`: there is none, and readers see the newest data.
    pub newest_snapshot: Option<Seq>,
    /// Entries that have outlived the family's time to live, as readers see it.
    pub expired: Cut,
    /// Memtables fill in quick succession: level 0 will soon have more runs.
    pub loading: bool,
    /// Bounds of the data too young for the last level; `None`: age does not place data.
    pub young: Option<Young>,
    /// No data counts as young: the medium above the last level has no free space, and that of the last level has some.
    pub crowded: bool,
    /// The last level lies on another medium than the one above it, so old data above takes up space that is meant for young data.
    pub two_media: bool,
    /// Bytes that a merge may write; `u64::MAX`: unlimited. If limited, pickers also choose merges that are not due otherwise but free
    /// space: in a leveled tree those of all levels above the last, in a universal tree those that drop deletions and outdated values. They
    /// are done in steps that fit (`limited_space`), if there are any.
    pub room: u64,
    /// Bytes that the medium frees only together; 0: it frees tables one by one.
    pub unit: u64,
    /// Entries up to this sequence number were certainly written at least [`REST_SECONDS`] ago; 0: not known of any.
    pub rested: Seq,
}

impl PickEnv<'_> {
    /// Returns whether a running job reads the table, or the table is damaged.
    fn is_taken(&self, table: &TableInfo) -> bool {
        self.busy.contains(&table.number) || self.damaged.contains(&table.number)
    }

    /// Returns whether the output of the choice fits into the free space.
    pub fn fits(&self, choice: &Choice) -> bool {
        !matches!(choice, Choice::Merge(plan) if plan.bytes() > self.room)
    }

    /// The first choice that fits into the free space; if none does, the first.
    fn first_that_fits(&self, choices: impl IntoIterator<Item = Choice>) -> Option<Choice> {
        let mut choices = choices.into_iter();
        let first = choices.next()?;
        if self.fits(&first) { Some(first) } else { choices.find(|choice| self.fits(choice)).or(Some(first)) }
    }

    /// Most input bytes of a merge that could also be done in parts.
    fn most(&self) -> u64 {
        self.settings.max_compaction_bytes.min(self.room)
    }

    /// Bounds of the data too young for the last level, if age places data; nothing is young while `crowded`.
    fn young(&self) -> Option<Young> {
        self.by_age().map(|young| if self.crowded { Young::NOTHING } else { young })
    }

    /// Like `young`, but ignores `crowded`.
    fn by_age(&self) -> Option<Young> {
        self.young.filter(|_| self.settings.places_by_age())
    }
}

/// Tables of one run that take part in a compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Level of the tables.
    pub level: usize,
    /// Run of the tables.
    pub run: u64,
    /// Tables in key order.
    pub tables: Vec<Arc<TableInfo>>,
}

/// A merge to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Reason of the merge.
    pub reason: Reason,
    /// Inputs, newest first.
    pub inputs: Vec<Input>,
    /// Level of the result.
    pub output_level: usize,
    /// The run of the result on that level.
    pub output_run: u64,
    /// The part of the result that goes one level higher; `None`: all of it goes to `output_level`.
    pub hot: Option<Hot>,
    /// Nothing older than the inputs exists in their key range: tombstones may be dropped and sequence numbers zeroed.
    pub bottommost: bool,
    /// Tables one level below the output, in key order: an output table ends where it would overlap too many bytes of them.
    pub grandparents: Vec<Arc<TableInfo>>,
    /// Size at which an output table ends, bytes.
    pub target_file_size: u64,
    /// Keys at which new output tables begin in any case and range tombstones are cut; if empty, tables end by size and overlap alone.
    pub cuts: Vec<Vec<u8>>,
}

/// A picker's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Nothing is due, or all tables concerned are busy.
    Nothing,
    /// The tables change level without being rewritten; only the manifest is written.
    Move(Plan),
    /// The tables are merged.
    Merge(Plan),
    /// The tables hold no live data and are dropped; `output_*` are meaningless.
    Drop(Plan),
}

/// A tree shape.
pub trait Picker: Send + Sync {
    /// The most urgent job that does not collide with running ones.
    fn pick(&self, version: &Version, env: &PickEnv<'_>) -> Choice;
    /// Estimated bytes to be rewritten until nothing is due. Determines the pace of writers.
    fn debt(&self, version: &Version, settings: &FamilySettings) -> u64;
}

/// Picks the next job that demotes data, young or not, from a full medium: a merge into the last level, or a move that prepares one.
/// `lies_there` says which tables are on the full medium, `room` how many bytes the medium of the last level can take.
pub fn demote(version: &Version, env: &PickEnv<'_>, lies_there: &dyn Fn(&TableInfo) -> bool, room: u64) -> Choice {
    let env = PickEnv { crowded: true, ..*env };
    let choice = match env.settings.style {
        Style::Leveled => demote::demote(version, &env, lies_there, room),
        Style::Universal => universal::demote(version, &env, lies_there, room),
    };
    match choice {
        // A move would leave the table on its medium; a merge writes it to the other one.
        Some(Choice::Move(plan)) if plan.output_level + 1 == version.levels.len() => Choice::Merge(plan),
        choice => choice.unwrap_or(Choice::Nothing),
    }
}

/// Returns whether the choice brings at most `room` bytes to the last level.
fn demotes_within(version: &Version, choice: &Choice, room: u64) -> bool {
    match choice {
        Choice::Move(plan) | Choice::Merge(plan) => plan.output_level + 1 < version.levels.len() || plan.bytes() <= room,
        Choice::Nothing | Choice::Drop(_) => true,
    }
}

/// The picker of a style.
pub fn picker(style: Style) -> &'static dyn Picker {
    match style {
        Style::Leveled => &leveled::Leveled,
        Style::Universal => &universal::Universal,
    }
}

impl Input {
    /// All tables of a run.
    fn whole(level: usize, run: &Run) -> Input {
        Input { level, run: run.number, tables: run.tables.clone() }
    }
}

impl Plan {
    /// All tables that take part, newest place first.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableInfo>> {
        self.inputs.iter().flat_map(|i| &i.tables)
    }

    /// The smallest range that covers all inputs, and so all outputs.
    pub fn range(&self) -> KeyRange {
        hull(&self.inputs).unwrap_or_default()
    }

    /// Input bytes.
    pub fn bytes(&self) -> u64 {
        self.tables().map(|t| t.bytes).sum()
    }

    /// Input levels, and their bytes before compression.
    pub fn raw_bytes_by_level(&self) -> Vec<(usize, u64)> {
        let sum = |tables: &[Arc<TableInfo>]| tables.iter().fold(0, |sum: u64, table| sum.saturating_add(table.raw_bytes));
        self.inputs.iter().map(|input| (input.level, sum(&input.tables))).collect()
    }
}

/// The smallest range that covers all tables; `None` without tables.
fn hull(inputs: &[Input]) -> Option<KeyRange> {
    inputs.iter().filter_map(|i| span(&i.tables)).reduce(|mut all, range| {
        all.extend(&range);
        all
    })
}

/// The smallest range that covers all tables; `None` without tables.
fn span(tables: &[Arc<TableInfo>]) -> Option<KeyRange> {
    let mut range = tables.first()?.range.clone();
    tables.iter().for_each(|t| range.extend(&t.range));
    Some(range)
}

fn bytes_of(tables: &[Arc<TableInfo>]) -> u64 {
    tables.iter().map(|t| t.bytes).sum()
}

/// Position of a run in the order of age: smaller is newer.
type AgeRank = (usize, Reverse<u64>);

/// Returns whether nothing older than `inputs` (newest first) exists in their key range, so that tombstones in them have nothing to hide.
///
/// Running jobs do not matter: data that a running job brings below these inputs is either newer than them, or was below them when they
/// were picked.
pub fn is_bottommost(version: &Version, inputs: &[Input]) -> bool {
    let (Some(range), Some(first)) = (hull(inputs), inputs.first()) else { return true };
    let newest: AgeRank = (first.level, Reverse(first.run));
    let taken: HashSet<u64> = inputs.iter().flat_map(|i| &i.tables).map(|t| t.number).collect();
    places(version).filter(|(place, _)| *place > newest).all(|(_, run)| run.overlapping(&range).iter().all(|t| taken.contains(&t.number)))
}

fn places(version: &Version) -> impl Iterator<Item = (AgeRank, &Run)> {
    version.levels.iter().enumerate().flat_map(|(level, runs)| runs.iter().map(move |run| ((level, Reverse(run.number)), run)))
}

/// Returns whether a plan has to wait: an input is taken, or the output could overlap that of a running job.
///
/// Outputs on level 0 are not checked: an output there replaces the newest input of its job, which is busy.
fn collides(env: &PickEnv<'_>, inputs: &[Input], output_level: usize) -> bool {
    if inputs.iter().flat_map(|i| &i.tables).any(|t| env.is_taken(t)) {
        return true;
    }
    let (Some(range), Some(top)) = (hull(inputs), inputs.iter().map(|i| i.level).min()) else { return false };
    let top = if young::may_rise(env, inputs, output_level) { top.min(output_level - 1) } else { top };
    env.busy_output.iter().any(|(level, busy)| *level >= 1 && (top..=output_level).contains(level) && busy.overlaps(&range))
}

/// The run number of an output on `level`, so that it joins the one run there.
fn run_number(version: &Version, level: usize) -> u64 {
    if level == 0 { 0 } else { version.levels[level].first().map_or(0, |run| run.number) }
}

/// A plan with everything that follows from inputs and output filled in. Input runs without tables are left out.
fn plan(version: &Version, env: &PickEnv<'_>, reason: Reason, mut inputs: Vec<Input>, output: (usize, u64)) -> Plan {
    inputs.retain(|i| !i.tables.is_empty());
    let (output_level, output_run) = output;
    let grandparents = match (hull(&inputs), version.levels.get(output_level + 1)) {
        (Some(range), Some(runs)) if output_level > 0 => runs.iter().flat_map(|run| run.overlapping(&range)).cloned().collect(),
        _ => Vec::new(),
    };
    let bottommost = is_bottommost(version, &inputs);
    let target_file_size = target_file_size(version, env.settings, output_level);
    let hot = young::hot(version, env, &inputs, output_level);
    let plan = Plan { reason, inputs, output_level, output_run, hot, bottommost, grandparents, target_file_size, cuts: Vec::new() };
    debug_assert_eq!(if plan.inputs.is_empty() { Ok(()) } else { check_plan(version, &plan) }, Ok(()));
    plan
}

/// The level that level 0 is merged into; level 1 in the universal style, which has no such level.
pub fn base_level(version: &Version, settings: &FamilySettings) -> usize {
    match settings.style {
        Style::Leveled => targets::Targets::of(version, settings).base,
        Style::Universal => 1,
    }
}

fn target_file_size(version: &Version, settings: &FamilySettings, level: usize) -> u64 {
    let base = match settings.style {
        Style::Leveled => base_level(version, settings),
        Style::Universal => level,
    };
    let steps = u32::try_from(level.saturating_sub(base)).unwrap_or(u32::MAX);
    let factor = u64::from(settings.target_file_size_multiplier.max(1)).saturating_pow(steps);
    settings.target_file_size_base.max(1).saturating_mul(factor)
}

/// The invariants of a tree: runs of a level newest first, their tables in order and without a common key, none empty, no table twice, none
/// more settled than large. An error names the first violation.
pub fn check_shape(version: &Version) -> Result<(), String> {
    let mut seen = HashSet::new();
    for (level, runs) in version.levels.iter().enumerate() {
        if let Some(pair) = runs.windows(2).find(|pair| pair[0].number <= pair[1].number) {
            return Err(format!("level {level}: run {} stands before run {}", pair[0].number, pair[1].number));
        }
        for run in runs {
            let name = format!("level {level} run {}", run.number);
            if run.tables.is_empty() {
                return Err(format!("{name} is empty"));
            }
            if let Some(table) = run.tables.iter().find(|t| !seen.insert(t.number)) {
                return Err(format!("{name}: table {} occurs twice", table.number));
            }
            if let Some(table) = run.tables.iter().find(|t| t.settled > t.bytes) {
                return Err(format!("{name}: table {} has {} bytes, of which {} are settled", table.number, table.bytes, table.settled));
            }
            if let Some(pair) = run.tables.windows(2).find(|pair| !pair[0].range.ends_before(&pair[1].range.smallest)) {
                return Err(format!("{name}: tables {} and {} are out of order or overlap", pair[0].number, pair[1].number));
            }
        }
    }
    Ok(())
}

/// Checks that no entry would pass one of the same key on its way to the output's run (or to the level above, if the plan has an upper
/// output), and that the output overlaps no other table of its run. An error names the first table in the way.
pub fn check_plan(version: &Version, plan: &Plan) -> Result<(), String> {
    let taken: HashSet<u64> = plan.tables().map(|t| t.number).collect();
    let range = plan.range();
    let output: AgeRank = (plan.output_level, Reverse(plan.output_run));
    if plan.output_level >= version.levels.len() {
        return Err(format!("no level {}", plan.output_level));
    }
    for (place, run) in places(version) {
        let blocks = |t: &TableInfo| {
            let passed = plan.inputs.iter().any(|input| {
                let from: AgeRank = (input.level, Reverse(input.run));
                let between = if from <= output { from < place && place <= output } else { output <= place && place < from };
                between && input.tables.iter().any(|i| i.range.overlaps(&t.range))
            });
            passed || place == output
        };
        if let Some(table) = run.overlapping(&range).iter().find(|t| !taken.contains(&t.number) && blocks(t)) {
            return Err(format!("table {} on level {} is in the way", table.number, place.0));
        }
    }
    plan.hot.as_ref().map_or(Ok(()), |hot| young::check_hot(version, plan, hot))
}
