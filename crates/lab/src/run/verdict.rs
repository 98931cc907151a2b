//! Verdicts of a study: kept beside the records (`verdicts.json`, a list), so that a report can show them without judging again.

use serde::{Deserialize, Serialize};

/// A hypothesis and the verdict of one engine's runs on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The hypothesis, a sentence.
    pub hypothesis: String,
    /// Engine on which the hypothesis was tested.
    pub engine: String,
    /// Answer to the hypothesis.
    pub verdict: Answer,
    /// Rule of the verdict, a sentence, stated before the runs.
    pub rule: String,
    /// Figures to which the rule was applied, as text for people, a line for each comparison: ratio, interval, effect size.
    pub statistics: String,
}

/// The answer to a hypothesis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The hypothesis holds.
    Accepted,
    /// The hypothesis does not hold.
    Rejected,
    /// The runs do not decide.
    Undecided,
}

impl Answer {
    /// The answer as a word.
    pub fn name(self) -> &'static str {
        match self {
            Answer::Accepted => "accepted",
            Answer::Rejected => "rejected",
            Answer::Undecided => "undecided",
        }
    }
}
