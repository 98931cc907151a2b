//! The speed limit of writers. Compaction has to keep up in the long run: as the tree falls behind, writers are slowed smoothly, from a
//! rate that is hardly felt to a floor, and stopped only at hard limits. RocksDB multiplies its rate down to 16 KB/s, where writers wait
//! for minutes; the floor here is a rate at which compaction gains on the writers anyway.

use crate::compaction::picker;
use crate::manifest::Version;
use crate::settings::{FamilySettings, Style};
use std::cmp::Ordering;

/// The rate at the beginning of a delay, bytes per second.
pub const FASTEST_DELAY: u64 = 256 << 20;
/// The rate just before the stop, bytes per second.
pub const SLOWEST_DELAY: u64 = 16 << 20;

/// Input for the pace of a family's writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaceInput {
    /// Leveled: runs on level 0. Universal: runs in all; where data is placed by age, the runs of the last two levels count as one, because
    /// the others are merged into them and no compaction makes them fewer.
    pub runs: usize,
    /// Runs at which writers are slowed.
    pub slowdown_runs: usize,
    /// Runs at which writers wait.
    pub stop_runs: usize,
    /// Compaction debt, bytes.
    pub debt: u64,
    /// Debt at which writers are slowed, bytes.
    pub soft_debt: u64,
    /// Debt at which writers wait, bytes.
    pub hard_debt: u64,
    /// Memtables that wait for their flush. They do not count here: a writer that needs a new memtable waits for a slot by itself.
    pub full_memtables: usize,
}

impl PaceInput {
    /// The figures of a family.
    pub fn of(version: &Version, settings: &FamilySettings, full_memtables: usize) -> PaceInput {
        let runs = match settings.style {
            Style::Leveled => version.levels.first().map_or(0, Vec::len),
            Style::Universal => {
                let merged_into = if settings.places_by_age() { 2 } else { 0 };
                let (above, below) = version.levels.split_at(version.levels.len().saturating_sub(merged_into));
                above.iter().map(Vec::len).sum::<usize>() + usize::from(below.iter().any(|runs| !runs.is_empty()))
            }
        };
        PaceInput {
            runs,
            slowdown_runs: settings.level0_slowdown_writes_trigger,
            stop_runs: settings.level0_stop_writes_trigger,
            debt: picker(settings.style).debt(version, settings),
            soft_debt: settings.soft_pending_compaction_bytes_limit,
            hard_debt: settings.hard_pending_compaction_bytes_limit,
            full_memtables,
        }
    }
}

/// Reason why writers wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Too many runs.
    Runs,
    /// Too much compaction debt.
    Debt,
}

/// Speed limit of writers. Ordered by strictness, so that `max` of several families is the pace of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// No limit.
    Free,
    /// At most at this rate.
    Delay {
        /// Key and value bytes per second.
        bytes_per_second: u64,
    },
    /// Not at all.
    Stop(StopReason),
}

impl Ord for Pace {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |pace: &Pace| match pace {
            Pace::Free => (0, 0),
            Pace::Delay { bytes_per_second } => (1, u64::MAX - bytes_per_second),
            Pace::Stop(StopReason::Runs) => (2, 0),
            Pace::Stop(StopReason::Debt) => (2, 1),
        };
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Pace {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The pace that both the number of runs and the debt allow.
pub fn pace(input: &PaceInput) -> Pace {
    let by_runs = between(input.runs as u64, input.slowdown_runs as u64, input.stop_runs as u64, StopReason::Runs);
    by_runs.max(between(input.debt, input.soft_debt, input.hard_debt, StopReason::Debt))
}

/// Urgency of compactions, from 0 (nothing to do) to 1 (writers are about to be slowed down): how near runs or debt are to the limits at
/// which slowing begins.
pub fn urgency(input: &PaceInput) -> f64 {
    let part = |value: u64, soft: u64| if soft == 0 { 0.0 } else { (value as f64 / soft as f64).min(1.0) };
    part(input.runs as u64, input.slowdown_runs as u64).max(part(input.debt, input.soft_debt))
}

/// Free below `soft`, stopped from `hard` on, between them a rate that falls geometrically: each step is the same factor. A limit of zero
/// is off.
fn between(value: u64, soft: u64, hard: u64, reason: StopReason) -> Pace {
    if hard > 0 && value >= hard {
        return Pace::Stop(reason);
    }
    if soft == 0 || value < soft {
        return Pace::Free;
    }
    let part = if hard > soft { (value - soft) as f64 / (hard - soft) as f64 } else { 0.0 };
    let rate = FASTEST_DELAY as f64 * (SLOWEST_DELAY as f64 / FASTEST_DELAY as f64).powf(part);
    Pace::Delay { bytes_per_second: (rate as u64).clamp(SLOWEST_DELAY, FASTEST_DELAY) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Run;
    use crate::settings::Preclude;

    fn at(runs: usize, debt: u64) -> Pace {
        pace(&PaceInput { runs, slowdown_runs: 20, stop_runs: 36, debt, soft_debt: 64, hard_debt: 256, full_memtables: 9 })
    }

    #[test]
    fn more_work_is_never_a_faster_pace() {
        for runs in 0..40 {
            for debt in 0..300 {
                assert!(at(runs + 1, debt) >= at(runs, debt) && at(runs, debt + 1) >= at(runs, debt), "{runs} runs, debt {debt}");
            }
        }
    }

    #[test]
    fn limits_are_exact_and_the_rate_has_a_floor() {
        assert_eq!(at(19, 63), Pace::Free);
        assert_eq!(at(20, 0), Pace::Delay { bytes_per_second: FASTEST_DELAY });
        assert_eq!(at(36, 0), Pace::Stop(StopReason::Runs));
        assert_eq!(at(0, 256), Pace::Stop(StopReason::Debt));
        assert!(matches!(at(35, 255), Pace::Delay { bytes_per_second } if (SLOWEST_DELAY..2 * SLOWEST_DELAY).contains(&bytes_per_second)));
    }

    #[test]
    fn runs_that_stay_hold_nobody_back() {
        let mut version = Version::empty(4);
        for (level, count) in [(0, 2), (1, 1), (2, 1), (3, 8)] {
            version.levels[level] = (0..count).rev().map(|number| Run { number, tables: Vec::new() }).collect();
        }
        let runs = |style, age, levels: usize| {
            let settings = FamilySettings {
                style,
                num_levels: 4,
                preclude_last_level_data_seconds: Preclude::Seconds(age),
                ..FamilySettings::default()
            };
            let mut version = version.clone();
            version.levels[levels..].fill(Vec::new());
            PaceInput::of(&version, &settings, 0).runs
        };
        assert_eq!([runs(Style::Leveled, 0, 4), runs(Style::Universal, 0, 4), runs(Style::Universal, 60, 4)], [2, 12, 4]);
        assert_eq!([4, 3, 2, 1, 0].map(|levels| runs(Style::Universal, 60, levels)), [4, 4, 3, 2, 0]);
    }

    #[test]
    fn urgency_is_whole_where_writers_are_held_back() {
        let urgency = |runs, debt| {
            urgency(&PaceInput { runs, slowdown_runs: 20, stop_runs: 36, debt, soft_debt: 64, hard_debt: 256, full_memtables: 9 })
        };
        assert_eq!((urgency(0, 0), urgency(5, 0), urgency(5, 48), urgency(40, 0)), (0.0, 0.25, 0.75, 1.0));
        for runs in 0..40 {
            for debt in 0..300 {
                assert!(at(runs, debt) == Pace::Free || urgency(runs, debt) == 1.0, "{runs} runs, debt {debt}");
            }
        }
    }

    #[test]
    fn the_stricter_pace_is_the_larger() {
        let delay = |bytes_per_second| Pace::Delay { bytes_per_second };
        let ascending = [Pace::Free, delay(9), delay(8), delay(0), Pace::Stop(StopReason::Runs)];
        assert!(ascending.is_sorted());
        assert_eq!(delay(9).max(delay(8)), delay(8));
    }
}
