//! A part of a study: the cells with chosen values of its factors, and the claims about them.

use super::Error;
use super::plan::{Cell, Comparison, Study};
use std::collections::{BTreeMap, BTreeSet};

/// Wanted values by factor: a cell needs one of each.
type Wanted<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

impl Study {
    /// The study reduced to the cells that match `FACTOR=VALUE` choices: several values of a factor are alternatives, several factors must
    /// all match. Claims about cells that are left out are not judged. Without choices the study stays whole.
    ///
    /// # Errors
    /// Factors and values that no cell has that runs on the study's engines, and choices that no cell has all of.
    pub fn only(mut self, choices: &[String]) -> Result<Study, Error> {
        if choices.is_empty() {
            return Ok(self);
        }
        let wanted = self.wanted(choices)?;
        let keeps = |cell: &Cell| {
            wanted.iter().all(|(factor, values)| cell.factors.get(*factor).is_some_and(|value| values.contains(value.as_str())))
        };
        let all = self.that_run().count();
        let cells: Vec<Cell> = self.that_run().filter(|cell| keeps(cell)).cloned().collect();
        if cells.is_empty() {
            return Err(Error::Request(format!("--only: no cell of the study has all of {}", choices.join(", "))));
        }
        let there: BTreeSet<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
        let can = |comparison: &Comparison| comparison.above.iter().chain(&comparison.below).all(|term| there.contains(term.cell.as_str()));
        for hypothesis in &mut self.hypotheses {
            // All alternatives of a group must be there: without some of them it would claim more.
            hypothesis.groups.retain(|group| group.any_of.iter().all(can));
        }
        self.hypotheses.retain(|hypothesis| !hypothesis.groups.is_empty());
        self.left_out.push(format!("{} of {all} cells: only those with {} were asked for", all - cells.len(), choices.join(", ")));
        self.cells = cells;
        self.chosen = choices.to_vec();
        Ok(self)
    }

    /// Cells that run on some engine of the study.
    fn that_run(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| self.engines.iter().any(|engine| cell.is_for(engine)))
    }

    fn wanted<'a>(&self, choices: &'a [String]) -> Result<Wanted<'a>, Error> {
        let list = |values: BTreeSet<&str>| values.into_iter().collect::<Vec<_>>().join(", ");
        let left_out = if self.left_out.is_empty() { String::new() } else { format!("; left out here: {}", self.left_out.join("; ")) };
        let mut wanted = Wanted::new();
        let factors = || self.that_run().flat_map(|cell| cell.factors.keys()).map(String::as_str).collect::<BTreeSet<_>>();
        if self.cells.iter().all(|cell| cell.factors.is_empty()) {
            return Err(Error::Request(format!("--only: {} has no factors to choose by", self.name)));
        }
        for choice in choices {
            let refused = |there: &str, known: BTreeSet<&str>| {
                Err(Error::Request(format!("--only: {choice:?}: {there}; there are: {}{left_out}", list(known))))
            };
            let Some((factor, value)) = choice.split_once('=').filter(|(factor, _)| factors().contains(factor)) else {
                return refused("FACTOR=VALUE is expected, with a factor of the study", factors());
            };
            let values: BTreeSet<&str> = self.that_run().filter_map(|cell| cell.factors.get(factor)).map(String::as_str).collect();
            if !values.contains(value) {
                return refused(&format!("no cell has this {factor}"), values);
            }
            wanted.entry(factor).or_default().insert(value);
        }
        Ok(wanted)
    }
}
