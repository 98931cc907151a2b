//! What the medium frees only as a whole ([`Unit`]), as pickers see it. A merge deletes its inputs; what of their units goes on living
//! keeps the rest of these from being used, until somebody moves it. So among merges that cost about the same, the better one empties
//! units.

use crate::manifest::TableInfo;
use sinter_storage::store::Unit;
use std::collections::HashMap;

/// The units that a tree's tables lie in; without any, all merges are alike.
#[derive(Debug, Default)]
pub struct Units {
    units: Vec<Whole>,
    /// Where a table lies: units, and bytes in each.
    places: HashMap<u64, Vec<(usize, u64)>>,
    /// The largest of the units.
    largest: u64,
}

#[derive(Debug)]
struct Whole {
    tables: usize,
    dead: u64,
}

impl Units {
    /// Of a store's word.
    pub fn new(all: Vec<Unit>) -> Self {
        let mut units = Units::default();
        for (i, unit) in all.into_iter().enumerate() {
            let live: u64 = unit.tables.iter().map(|(_, bytes)| bytes).sum();
            units.largest = units.largest.max(live.saturating_add(unit.dead));
            units.units.push(Whole { tables: unit.tables.len(), dead: unit.dead });
            for (table, bytes) in unit.tables {
                units.places.entry(table).or_default().push((i, bytes));
            }
        }
        units
    }

    /// Bytes of the largest unit, as far as it is written; 0: the medium frees tables one by one.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// By how many bytes that nobody can use become fewer when these tables are deleted: those of units that they empty, less what is left
    /// of them in units that they do not.
    pub fn gain<'a>(&self, tables: impl Iterator<Item = &'a TableInfo>) -> i64 {
        let mut left: HashMap<usize, (usize, u64)> = HashMap::new();
        for (unit, bytes) in tables.filter_map(|table| self.places.get(&table.number)).flatten() {
            let (tables, leaving) = left.entry(*unit).or_default();
            (*tables, *leaving) = (*tables + 1, leaving.saturating_add(*bytes));
        }
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let gains = left.into_iter().filter_map(|(unit, (tables, leaving))| {
            let unit = self.units.get(unit)?;
            Some(if tables == unit.tables { signed(unit.dead) } else { -signed(leaving) })
        });
        gains.fold(0, i64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(number: u64) -> TableInfo {
        TableInfo { number, ..TableInfo::default() }
    }

    #[test]
    fn what_empties_a_unit_gains_what_was_dead_there() {
        // 1 and 2 share a unit, 2 and 3 another one with 50 dead bytes, 4 is alone beside 30.
        let unit = |tables: &[(u64, u64)], dead| Unit { tables: tables.to_vec(), dead };
        let units = Units::new(vec![unit(&[(1, 100), (2, 10)], 0), unit(&[(2, 90), (3, 20)], 50), unit(&[(4, 70)], 30)]);
        assert_eq!(units.largest(), 160);
        let gain = |numbers: &[u64]| units.gain(numbers.iter().map(|number| table(*number)).collect::<Vec<_>>().iter());
        assert_eq!([gain(&[]), gain(&[9])], [0, 0]);
        assert_eq!([gain(&[1]), gain(&[2]), gain(&[3]), gain(&[4])], [-100, -100, -20, 30]);
        assert_eq!([gain(&[1, 2]), gain(&[2, 3]), gain(&[1, 2, 3, 4])], [-90, 40, 80]);
        assert_eq!(Units::default().gain([table(1)].iter()), 0);
    }
}
