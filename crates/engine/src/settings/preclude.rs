//! The age up to which data stays above the last level, and the age of data that has none.

use super::size::{format_seconds, parse_seconds};

/// The age up to which data stays above the last level: given by the user or chosen by the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preclude {
    /// The user; 0: age does not place data.
    Seconds(u64),
    /// The engine, from the workload.
    Auto,
}

/// Age of data whose sequence number a compaction dropped while ages were not tracked, for a fixed age that places data. The engine's own
/// choice ([`Preclude::Auto`]) takes such data for old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum UntimedData {
    /// As young as the newest entry that it may be: no data is demoted too early.
    #[default]
    Young,
    /// Older than any age: it stays on the last level.
    Old,
}

impl Default for Preclude {
    fn default() -> Self {
        Preclude::Seconds(0)
    }
}

impl Preclude {
    /// A century is for ever.
    pub const MOST: u64 = 100 * 365 * 86_400;

    /// Levels that a tree needs: one for flushes, one for what is young, one for what is old.
    pub const LEAST_LEVELS: usize = 3;

    /// Age places data.
    #[doc(hidden)]
    pub fn is_on(self) -> bool {
        self != Preclude::Seconds(0)
    }

    pub(super) fn is_possible(self) -> bool {
        !matches!(self, Preclude::Seconds(seconds) if seconds > Self::MOST)
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "auto" => Ok(Preclude::Auto),
            text => match parse_seconds(text) {
                Ok(seconds) => Ok(Preclude::Seconds(seconds)),
                Err(what) => Err(format!("{what}, and not `auto`")),
            },
        }
    }

    pub(super) fn text(self) -> String {
        match self {
            Preclude::Seconds(seconds) => format_seconds(seconds),
            Preclude::Auto => "auto".into(),
        }
    }
}
