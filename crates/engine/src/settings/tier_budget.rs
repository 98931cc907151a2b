//! How much of a family's data may be kept on the fast tier.

use super::size::{format_bytes, parse_bytes, shorten};

/// Bytes, or a share of the family's data.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum TierBudget {
    /// Bytes of tables.
    Bytes(u64),
    /// Percent of the bytes of the family's tables, above 0 and up to 100.
    Percent(f64),
}

impl Default for TierBudget {
    fn default() -> Self {
        TierBudget::Percent(25.0)
    }
}

impl TierBudget {
    /// Fewer bytes hold no table: a smaller number lacks its percent sign.
    const LEAST: u64 = 64 << 10;

    /// The bytes that it allows of `data` bytes.
    #[doc(hidden)]
    pub fn of(self, data: f64) -> f64 {
        match self {
            TierBudget::Bytes(u64::MAX) => f64::INFINITY,
            TierBudget::Bytes(bytes) => bytes as f64,
            TierBudget::Percent(percent) => data * (percent / 100.0),
        }
    }

    pub(super) fn is_possible(self) -> bool {
        match self {
            TierBudget::Bytes(bytes) => bytes >= Self::LEAST,
            TierBudget::Percent(percent) => percent > 0.0 && percent <= 100.0,
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{}` is neither a size as in 10GiB nor a share as in 25%", shorten(text));
        match text.trim().strip_suffix('%') {
            Some(percent) => percent.trim().parse().map(TierBudget::Percent).map_err(|_| wrong()),
            None => parse_bytes(text).map(TierBudget::Bytes).map_err(|_| wrong()),
        }
    }

    /// The budget as settings files state it.
    #[doc(hidden)]
    pub fn text(self) -> String {
        match self {
            TierBudget::Bytes(bytes) => format_bytes(bytes),
            TierBudget::Percent(percent) => format!("{percent}%"),
        }
    }
}
