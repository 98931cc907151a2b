//! A part of a study: the cells with named values of its factors, and what can be claimed of these.

use super::Error;
use super::plan::{Cell, Comparison, Study};
use std::collections::{BTreeMap, BTreeSet};

/// Values by factor: a cell needs one of each.
type Wanted<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

impl Study {
    /// What is left of it with `FACTOR=VALUE` as often as there are some: several values of a factor are alternatives, several factors have
    /// to come together. Claims keep the comparisons that all their cells are there for. With none it is the whole study.
    ///
    /// # Errors
    /// Factors and values that no cell has, and choices that no cell has all of.
    pub fn only(mut self, choices: &[String]) -> Result<Study, Error> {
        if choices.is_empty() {
            return Ok(self);
        }
        let wanted = self.wanted(choices)?;
        let keeps = |cell: &Cell| {
            wanted.iter().all(|(factor, values)| cell.factors.get(*factor).is_some_and(|value| values.contains(value.as_str())))
        };
        let all = self.cells.len();
        let cells: Vec<Cell> = self.cells.iter().filter(|cell| keeps(cell)).cloned().collect();
        if cells.is_empty() {
            return Err(Error::Request(format!("--only: no cell of the study has all of {}", choices.join(", "))));
        }
        let there: BTreeSet<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
        let can = |comparison: &Comparison| comparison.above.iter().chain(&comparison.below).all(|term| there.contains(term.cell.as_str()));
        for hypothesis in &mut self.hypotheses {
            for group in &mut hypothesis.groups {
                group.any_of.retain(can);
            }
            hypothesis.groups.retain(|group| !group.any_of.is_empty());
        }
        self.hypotheses.retain(|hypothesis| !hypothesis.groups.is_empty());
        self.left_out.push(format!("{} of {all} cells: only those with {} were asked for", all - cells.len(), choices.join(", ")));
        self.cells = cells;
        self.chosen = choices.to_vec();
        Ok(self)
    }

    fn wanted<'a>(&self, choices: &'a [String]) -> Result<Wanted<'a>, Error> {
        let list = |values: BTreeSet<&str>| values.into_iter().collect::<Vec<_>>().join(", ");
        let mut wanted = Wanted::new();
        for choice in choices {
            let refused = |there: &str, known: BTreeSet<&str>| {
                Err(Error::Request(format!("--only: {choice:?}: {there}; there are: {}", list(known))))
            };
            let factors = || self.cells.iter().flat_map(|cell| cell.factors.keys()).map(String::as_str).collect::<BTreeSet<_>>();
            let Some((factor, value)) = choice.split_once('=').filter(|(factor, _)| factors().contains(factor)) else {
                return refused("FACTOR=VALUE is expected, with a factor of the study", factors());
            };
            let values: BTreeSet<&str> = self.cells.iter().filter_map(|cell| cell.factors.get(factor)).map(String::as_str).collect();
            if !values.contains(value) {
                return refused(&format!("no cell has this {factor}"), values);
            }
            wanted.entry(factor).or_default().insert(value);
        }
        Ok(wanted)
    }
}
