//! Treatment of keys and fields whose deadline has passed.

use super::Keyspace;
use super::due::Due;

/// Treatment of keys and fields of hashes whose deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Passed {
    /// Ended keys and fields do not exist, and whoever finds one removes it.
    #[default]
    Removed,
    /// Ended keys and fields do not exist, and nobody removes them: a replica waits for its primary to do so.
    Hidden,
    /// Ended keys and fields exist until somebody removes them by name: commands are repeated that ran when the keys were alive.
    Kept,
}

impl Keyspace {
    /// While this is on, keys stay whatever their deadline: commands are repeated that ran when the keys were alive.
    pub fn keep_ended(&mut self, keeps: bool) {
        self.keeps_ended = keeps;
        self.due = Due::default();
    }

    /// Sets the treatment of keys and fields whose deadline has passed, for the commands that follow, unless
    /// [`Keyspace::keep_ended`] is on.
    pub fn treat_passed(&mut self, passed: Passed) {
        self.passed = passed;
    }

    /// Treatment of keys and fields whose deadline has passed.
    pub(super) fn passed(&self) -> Passed {
        if self.keeps_ended { Passed::Kept } else { self.passed }
    }

    /// Whether a key with this deadline would be removed at once.
    pub fn is_over(&self, deadline: u64) -> bool {
        deadline <= self.now && self.passed() != Passed::Kept
    }
}
