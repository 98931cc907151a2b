//! What a study decided: kept beside the records (`verdicts.json`, a list), so that a report can say it without judging again.

use serde::{Deserialize, Serialize};

/// A hypothesis and what the runs of one engine say to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What was claimed, a sentence.
    pub hypothesis: String,
    /// The engine it was asked of.
    pub engine: String,
    /// The answer.
    pub verdict: Answer,
    /// The rule that gave it, a sentence, stated before the runs.
    pub rule: String,
    /// The figures that the rule was applied to, as text for people, a line for each comparison: ratio, interval, effect size.
    pub statistics: String,
}

/// The answer to a hypothesis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It holds.
    Accepted,
    /// It does not hold.
    Rejected,
    /// The runs do not say.
    Undecided,
}

impl Answer {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            Answer::Accepted => "accepted",
            Answer::Rejected => "rejected",
            Answer::Undecided => "undecided",
        }
    }
}
