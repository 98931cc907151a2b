//! Derives the next version of a tree: a pure function that checks the changes it is given, because a wrong version loses data.

use super::version::{Run, TableInfo, Version};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// Location of a table in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunLocation {
    /// The level.
    pub level: usize,
    /// The run on that level ([`Run::number`]).
    pub run: u64,
}

impl fmt::Display for RunLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "level {} run {}", self.level, self.run)
    }
}

/// Change of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new table. Its number was never used before.
    Add {
        /// Destination; the run is made if there is none.
        to: RunLocation,
        /// The table.
        table: Arc<TableInfo>,
    },
    /// The table is no longer part of the tree.
    Remove {
        /// Location that the table leaves.
        from: RunLocation,
        /// Number of the table.
        number: u64,
    },
    /// The table moves to another run and is not rewritten.
    Move {
        /// Location that the table leaves.
        from: RunLocation,
        /// Destination.
        to: RunLocation,
        /// Number of the table.
        number: u64,
    },
}

impl Version {
    /// The version after all of `changes`: removals are done first, then additions. An error with the reason if a table to be removed is
    /// not in the given run, an added number is not new, a level does not exist, or tables of a run would overlap.
    pub fn apply<'a>(&self, changes: impl IntoIterator<Item = &'a Change>) -> Result<Version, String> {
        let mut leaving: HashMap<u64, (RunLocation, Option<RunLocation>)> = HashMap::new();
        let mut coming: BTreeMap<RunLocation, Vec<Arc<TableInfo>>> = BTreeMap::new();
        let mut known: Option<HashSet<u64>> = None;
        for change in changes {
            let twice = match change {
                Change::Add { to, table } => {
                    check_table(table)?;
                    coming.entry(*to).or_default().push(Arc::clone(table));
                    let known = known.get_or_insert_with(|| self.tables().map(|(_, _, t)| t.number).collect());
                    !known.insert(table.number)
                }
                Change::Remove { from, number } => leaving.insert(*number, (*from, None)).is_some(),
                Change::Move { from, to, number } => leaving.insert(*number, (*from, Some(*to))).is_some(),
            };
            if twice {
                return Err(format!("{change:?} repeats a table number that the tree or this edit has already"));
            }
        }
        let mut next = self.clone();
        next.take_out(leaving, &mut coming)?;
        for (place, tables) in coming {
            next.put_in(place, tables)?;
        }
        next.levels.iter_mut().for_each(|runs| runs.retain(|run| !run.tables.is_empty()));
        Ok(next)
    }

    /// Takes tables out of their runs; tables that move elsewhere are added to `coming`.
    fn take_out(
        &mut self,
        mut leaving: HashMap<u64, (RunLocation, Option<RunLocation>)>,
        coming: &mut BTreeMap<RunLocation, Vec<Arc<TableInfo>>>,
    ) -> Result<(), String> {
        for (level, runs) in self.levels.iter_mut().enumerate() {
            for run in runs {
                let here = RunLocation { level, run: run.number };
                run.tables.retain(|table| {
                    let goes = leaving.get(&table.number).is_some_and(|(from, _)| *from == here);
                    if goes && let Some((_, Some(to))) = leaving.remove(&table.number) {
                        coming.entry(to).or_default().push(Arc::clone(table));
                    }
                    !goes
                });
            }
        }
        match leaving.iter().min_by_key(|(number, _)| **number) {
            Some((number, (from, _))) => Err(format!("table {number} is not on {from}")),
            None => Ok(()),
        }
    }

    /// Puts tables into one run, and checks that the tables of the run do not overlap.
    fn put_in(&mut self, place: RunLocation, tables: Vec<Arc<TableInfo>>) -> Result<(), String> {
        let levels = self.levels.len();
        let runs = self.levels.get_mut(place.level).ok_or_else(|| format!("{place} in a tree of {levels} levels"))?;
        // Newest first: larger numbers stand before smaller ones.
        let index = runs.partition_point(|run| run.number > place.run);
        if runs.get(index).is_none_or(|run| run.number != place.run) {
            runs.insert(index, Run { number: place.run, tables: Vec::new() });
        }
        let run = &mut runs[index];
        run.tables.extend(tables);
        run.tables.sort_by(|a, b| a.range.smallest.cmp(&b.range.smallest));
        for pair in run.tables.windows(2) {
            if let [a, b] = pair
                && !a.range.ends_before(&b.range.smallest)
            {
                return Err(format!("tables {} and {} overlap on {place}", a.number, b.number));
            }
        }
        Ok(())
    }
}

/// Checks the ranges of keys and sequence numbers of a table.
fn check_table(table: &TableInfo) -> Result<(), String> {
    if !table.range.contains(&table.range.smallest) {
        return Err(format!("table {} ends before it starts", table.number));
    }
    if table.min_seq > table.max_seq {
        return Err(format!("table {} has sequence numbers {} to {}", table.number, table.min_seq, table.max_seq));
    }
    Ok(())
}
