//! Counters: the write ledger (where every written byte came from), tickers and histograms. STUB: the owner fills this in and may add.

use sinter_storage::store::Cause;

/// One line of the ledger: bytes written for one family and cause. Logs and manifests are shared: their family is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerLine {
    /// Whose data.
    pub family: Option<u32>,
    /// Who wrote.
    pub cause: Cause,
    /// How much.
    pub bytes: u64,
}

/// A copy of the ledger at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerSnapshot {
    /// Key and value bytes that users wrote, per family id.
    pub user_bytes: Vec<(u32, u64)>,
    /// Bytes written, by family and cause.
    pub lines: Vec<LedgerLine>,
}

impl LedgerSnapshot {
    /// All bytes written.
    pub fn total(&self) -> u64 {
        self.lines.iter().map(|l| l.bytes).sum()
    }
    /// All user bytes.
    pub fn user(&self) -> u64 {
        self.user_bytes.iter().map(|u| u.1).sum()
    }
    /// Bytes written per user byte; 0 before the first write.
    pub fn write_amplification(&self) -> f64 {
        if self.user() == 0 { 0.0 } else { self.total() as f64 / self.user() as f64 }
    }
}
