//! Tells each family's choice of the age that merges keep from the last level the contents of its tables: once a second, and before each
//! job. `tiering::auto_cutoff` has the rule; here are the tables, the clock, and the words for users.

use super::family::FamilyCore;
use super::{Db, Family, Inner, Shared};
use crate::compaction::Young;
use crate::compaction::job::Chosen;
use crate::key::Seq;
use crate::settings::{FamilySettings, Preclude, format_seconds};
use crate::table::Table;
use crate::tiering::age::{Cut, TimeMap};
use crate::tiering::auto_cutoff::Observed;
use std::cmp::Reverse;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Tables whose review takes a few milliseconds: each as many of them delay the next review by a second.
const TABLES_PER_SECOND: u64 = 1000;
/// Nanoseconds between two reviews, at least.
const PERIOD_NS: u64 = 250_000_000;

/// The engine chooses the age.
fn chooses(settings: &FamilySettings) -> bool {
    settings.preclude_last_level_data_seconds == Preclude::Auto && settings.places_by_age()
}

/// The cut of a number, surely not too late: values with times of their own go by these.
fn moment(times: &TimeMap, seq: Seq) -> Cut {
    Cut { seq, time: times.not_before(seq).map_or(0, |time| time.saturating_sub(1)) }
}

impl Inner {
    /// Reviews the choices of all families, once a second.
    pub(super) fn review_all_placements(&self) {
        let families: Vec<Arc<FamilyCore>> = self.shared.lock().families.values().cloned().collect();
        families.iter().for_each(|core| self.review_placement(core));
    }

    /// Reviews the choice before a job, so that it works with what is known by then; often enough in between. A database without threads
    /// asks no clock.
    pub(super) fn review_placement(&self, core: &FamilyCore) {
        let settings = core.settings.load();
        let is_chosen = chooses(&settings);
        core.placement.heat().watch(is_chosen);
        if !is_chosen {
            return;
        }
        let tree = core.view.load().tree.clone();
        let tables: Vec<_> = tree.tables().map(|table| table.holding()).collect();
        let pause = PERIOD_NS + 1_000_000_000 * (tables.len() as u64 / TABLES_PER_SECOND);
        if self.inline() || core.placement.is_due(self.clock.monotonic_ns(), pause) {
            let (budget, unix_seconds) = (settings.fast_tier_budget, self.clock.unix_seconds());
            let now = tables.iter().map(|table| table.seqs.1).max().unwrap_or(0);
            core.newest.fetch_max(now, Ordering::Relaxed);
            core.placement.review(&Observed { now, budget, tables: &tables, unix_seconds });
        }
    }

    /// Bounds of the data that the engine's choice keeps from the last level now; `None` if it is not to choose.
    pub(super) fn chosen_young(&self, shared: &Shared, core: &FamilyCore, settings: &FamilySettings) -> Option<Young> {
        chooses(settings).then(|| {
            let Cut { seq, time } = moment(&shared.state.times, core.placement.borders(core.newest()).cold);
            Young { after: seq, since: time }
        })
    }

    /// Limits `cut`, up to which no other setting needs sequence numbers, to entries that no later choice of the age could be about.
    pub(super) fn unless_chosen(&self, core: &FamilyCore, settings: &FamilySettings, cut: Cut) -> Cut {
        if !chooses(settings) {
            return cut;
        }
        let old = moment(&self.shared.lock().state.times, core.placement.borders(core.newest()).zeroed);
        Cut { seq: cut.seq.min(old.seq), time: cut.time.min(old.time) }
    }

    /// The choice to which a merge reports ages, with the reasons why it places as it does.
    pub(super) fn placement<'a>(&self, core: &'a FamilyCore, settings: &FamilySettings) -> Option<Chosen<'a>> {
        chooses(settings).then(|| Chosen { by: &core.placement, why: core.placement.why(&self.seconds_for(core)) })
    }

    /// Maps an age to about how many seconds ago its write was made, as of now: takes no lock later.
    fn seconds_for(&self, core: &FamilyCore) -> impl Fn(u64) -> Option<u64> + use<> {
        let (newest, now) = (core.newest(), self.clock.unix_seconds());
        let times = self.shared.lock().state.times.clone();
        move |age| Some(now.saturating_sub(times.not_after(newest.checked_sub(age)?)?))
    }
}

/// The choice as a read-only handle knows it, which chooses nothing: the words of the newest table that has some.
fn told_by_tables(core: &FamilyCore) -> String {
    let tree = core.view.load().tree.clone();
    let mut tables: Vec<_> = tree.tables().collect();
    tables.sort_unstable_by_key(|table| Reverse(table.info().number));
    let words = |table: &&Arc<Table>| table.properties().ok().map(|properties| properties.placed).filter(|why| !why.is_empty());
    match tables.iter().find_map(words) {
        Some(why) => format!("{why}\nas the newest table says: to read only, nothing is chosen\n"),
        None => "auto: no table says what was chosen, and to read only, nothing is\n".into(),
    }
}

impl Db {
    /// The age up to which a family's data is kept from the last level: the setting, or the engine's choice and its reasons; on a read-only
    /// handle, the choice of the handle that wrote.
    pub(super) fn tiering_lines(&self, family: &Family) -> String {
        let settings = family.core.settings.load();
        let mut lines = match settings.preclude_last_level_data_seconds {
            Preclude::Auto if self.inner.shared.lock().manifest.is_none() => told_by_tables(&family.core),
            Preclude::Auto => family.core.placement.report(&self.inner.seconds_for(&family.core)),
            Preclude::Seconds(0) => "age does not place data\n".into(),
            Preclude::Seconds(age) => format!("keeps what is younger than {} seconds ({})\n", age, format_seconds(age)),
        };
        if let Some(coldest) = settings.last_level_by(self.inner.media.temperatures()) {
            let _ = writeln!(lines, "the last level is {}, as the coldest tier: last_level_temperature is not set", coldest.name());
        }
        lines
    }
}
