//! The verdict of a hypothesis, and the comparisons behind it, as data.

use super::plan::Bound;
use crate::run::Verdict;
use crate::statistics::Ratio;
use serde::{Deserialize, Serialize};

/// A verdict and the comparisons behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Result of the original study.
    pub original: Option<String>,
    /// All comparisons, in the order of the hypothesis.
    pub comparisons: Vec<Compared>,
}

/// Result of one comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Group of the comparison.
    pub group: String,
    /// Name of the comparison.
    pub name: String,
    /// Bound of the ratio.
    pub bound: Bound,
    /// The ratio, or the mean where nothing stands below the line; `None` without runs.
    pub ratio: Option<Ratio>,
    /// Repeats that all sides have.
    #[serde(default)]
    pub runs: usize,
    /// Cliff's delta of one sample against another; `None` where products are compared.
    pub cliffs_delta: Option<f64>,
    /// Whether the ratio keeps the bound.
    pub state: State,
    /// Causes of the difference between one sample and another: write amplification by cause, largest change first.
    pub causes: Vec<CauseChange>,
}

/// Whether a comparison holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The whole interval keeps the bound.
    Holds,
    /// No part of the interval keeps the bound.
    Refuted,
    /// The interval lies on both sides of the bound, or there is no interval.
    Open,
}

/// Mean bytes written for one cause over bytes written by the user, on both sides of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CauseChange {
    /// The cause.
    pub cause: String,
    /// Above the line.
    pub above: f64,
    /// Below the line.
    pub below: f64,
}
