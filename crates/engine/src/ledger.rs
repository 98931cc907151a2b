//! Counters: the write ledger (where every written byte came from), tickers and histograms.
//!
//! The ledger is the one source of bytes written: whoever appends to a file records it under the file's cause, and the sum must equal
//! what the store was asked to write ([`LedgerSnapshot::balance`]). RocksDB counts some of this twice or not at all: its tools leave the
//! log out of write amplification and count flushes as compactions too.

mod accounted;
mod histogram;
mod report;
mod shard;
pub(crate) mod statistics;

#[cfg(test)]
mod tests;

pub use histogram::HistogramSummary;
pub(crate) use histogram::Latencies;
pub use report::Space;
pub(crate) use statistics::dump;
pub use statistics::{Histogram, Statistics, Ticker};

use accounted::Accounted;
use parking_lot::RwLock;
use sinter_storage::store::{Appender, Cause, Temperature};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One line of the ledger: bytes written for one family and cause to one tier. Logs and manifests are shared: their family is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LedgerLine {
    /// Family whose data was written; `None` for logs and manifests.
    pub family: Option<u32>,
    /// Cause of the writing.
    pub cause: Cause,
    /// Tier written to; [`Temperature::Unknown`] is the primary store.
    pub tier: Temperature,
    /// Bytes written.
    pub bytes: u64,
}

/// A copy of the ledger at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LedgerSnapshot {
    /// Key and value bytes that users wrote, per family id.
    pub user_bytes: Vec<(u32, u64)>,
    /// Entries that users wrote, per family id.
    pub user_keys: Vec<(u32, u64)>,
    /// Bytes of each family's records in the shared log, framing excluded, per family id.
    pub wal_payload: Vec<(u32, u64)>,
    /// Bytes written, by family, cause and tier.
    pub lines: Vec<LedgerLine>,
}

/// Bytes that one family wrote and caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FamilyShare {
    /// The family's id.
    pub family: u32,
    /// Key and value bytes its users wrote.
    pub user_bytes: u64,
    /// Entries its users wrote.
    pub user_keys: u64,
    /// Part of the shared log, by payload; the parts of all families sum up to the log. Bytes.
    pub wal_bytes: u64,
    /// Bytes written for this family alone: flushes, compactions.
    pub own_bytes: u64,
}

impl FamilyShare {
    /// Bytes written per user byte, its part of the log included; 0 before the first write.
    pub fn write_amplification(&self) -> f64 {
        ratio(self.wal_bytes + self.own_bytes, self.user_bytes)
    }
}

/// The counters of one family: those that the write path adds to, on a cache line of their own, and its reads. Only the leader of the write
/// queue counts writes, so these need no locked instruction.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct FamilyCounters {
    keys: AtomicU64,
    bytes: AtomicU64,
    wal_payload: AtomicU64,
}

impl FamilyCounters {
    /// `keys` entries of `bytes` bytes of keys and values were accepted.
    pub fn user(&self, keys: u64, bytes: u64) {
        add(&self.keys, keys);
        add(&self.bytes, bytes);
    }

    /// `bytes` of a log record belong to this family.
    pub fn wal_share(&self, bytes: u64) {
        add(&self.wal_payload, bytes);
    }
}

/// Adds to a counter that only the caller adds to.
#[inline]
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

/// Family, cause and tier.
type LineKey = (Option<u32>, Cause, Temperature);

/// Accounts for every written byte by family, cause and tier.
///
/// Threads: `record` takes a shared lock and adds; `family` and `counter` hand out the counter itself, so that the write path adds to an
/// atomic and nothing else. All adds are relaxed: a snapshot is exact once the writers it asks about are quiet.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    families: RwLock<BTreeMap<u32, Arc<FamilyCounters>>>,
    lines: RwLock<BTreeMap<LineKey, Arc<AtomicU64>>>,
}

impl Ledger {
    /// The counters of a family, made at the first call and kept when the family is dropped: its bytes were written. Keep the handle.
    pub fn family(&self, id: u32) -> Arc<FamilyCounters> {
        counter(&self.families, id)
    }

    /// The counter of one line, in bytes. Keep the handle where many small writes are recorded.
    pub fn counter(&self, family: Option<u32>, cause: Cause, tier: Temperature) -> Arc<AtomicU64> {
        counter(&self.lines, (family, cause, tier))
    }

    /// `bytes` were handed to the primary store for a file of this cause. Logs and manifests have no family.
    pub fn record(&self, family: Option<u32>, cause: Cause, bytes: u64) {
        self.record_on(Temperature::Unknown, family, cause, bytes);
    }

    /// [`Ledger::record`] for the store of a tier.
    pub fn record_on(&self, tier: Temperature, family: Option<u32>, cause: Cause, bytes: u64) {
        self.counter(family, cause, tier).fetch_add(bytes, Relaxed);
    }

    /// Makes a file of a tier book what is appended to it, so that the bytes of a job that fails are not missing.
    pub fn account(&self, tier: Temperature, family: Option<u32>, cause: Cause, file: Box<dyn Appender>) -> Box<dyn Appender> {
        Box::new(Accounted { file, line: self.counter(family, cause, tier) })
    }

    /// A copy.
    pub fn snapshot(&self) -> LedgerSnapshot {
        let families = self.families.read();
        let each = |read: fn(&FamilyCounters) -> &AtomicU64| families.iter().map(|(id, c)| (*id, read(c).load(Relaxed))).collect();
        LedgerSnapshot {
            user_bytes: each(|c| &c.bytes),
            user_keys: each(|c| &c.keys),
            wal_payload: each(|c| &c.wal_payload),
            lines: self
                .lines
                .read()
                .iter()
                .map(|(&(family, cause, tier), bytes)| LedgerLine { family, cause, tier, bytes: bytes.load(Relaxed) })
                .collect(),
        }
    }
}

fn counter<K: Ord + Copy, C: Default>(map: &RwLock<BTreeMap<K, Arc<C>>>, key: K) -> Arc<C> {
    if let Some(found) = map.read().get(&key) {
        return Arc::clone(found);
    }
    Arc::clone(map.write().entry(key).or_default())
}

impl LedgerSnapshot {
    /// All bytes written, the log included.
    pub fn total(&self) -> u64 {
        self.lines.iter().map(|l| l.bytes).sum()
    }

    /// All user bytes.
    pub fn user(&self) -> u64 {
        self.user_bytes.iter().map(|u| u.1).sum()
    }

    /// Bytes written per user byte, the log included; 0 before the first write.
    pub fn write_amplification(&self) -> f64 {
        ratio(self.total(), self.user())
    }

    /// Bytes of all causes for which `which` holds.
    pub fn sum(&self, which: impl Fn(Cause) -> bool) -> u64 {
        self.lines.iter().filter(|l| which(l.cause)).map(|l| l.bytes).sum()
    }

    /// The lines of one tier; without user bytes, for users do not write to a tier.
    #[must_use]
    pub fn on(&self, tier: Temperature) -> LedgerSnapshot {
        let lines = self.lines.iter().filter(|line| line.tier == tier).copied().collect();
        LedgerSnapshot { lines, ..LedgerSnapshot::default() }
    }

    /// Bytes by cause, all families together, in the order of [`Cause`].
    pub fn by_cause(&self) -> Vec<(Cause, u64)> {
        let mut causes = BTreeMap::new();
        for line in &self.lines {
            *causes.entry(line.cause).or_insert(0) += line.bytes;
        }
        causes.into_iter().collect()
    }

    /// Bytes that each family wrote and caused. The shared log is split by payload, to the byte: the parts sum up to the whole as long as
    /// any payload was recorded.
    pub fn by_family(&self) -> Vec<FamilyShare> {
        let wal = u128::from(self.sum(|cause| cause == Cause::Wal));
        let payload: u128 = self.wal_payload.iter().map(|(_, bytes)| u128::from(*bytes)).sum();
        // Cutting at running sums leaves no remainder to hand out.
        let cut = |before: u128| u64::try_from((wal * before).checked_div(payload).unwrap_or(0)).unwrap_or(u64::MAX);
        let mut before = 0;
        let mut shares = Vec::with_capacity(self.user_bytes.len());
        for (family, user_bytes) in &self.user_bytes {
            let start = cut(before);
            before += u128::from(of(&self.wal_payload, *family));
            let own = self.lines.iter().filter(|l| l.family == Some(*family) && l.cause != Cause::Wal);
            shares.push(FamilyShare {
                family: *family,
                user_bytes: *user_bytes,
                user_keys: of(&self.user_keys, *family),
                wal_bytes: cut(before) - start,
                own_bytes: own.map(|l| l.bytes).sum(),
            });
        }
        shares
    }

    /// Bytes written since an earlier snapshot of the same ledger.
    pub fn since(&self, earlier: &LedgerSnapshot) -> LedgerSnapshot {
        let minus = |now: &[(u32, u64)], then: &[(u32, u64)]| now.iter().map(|(id, n)| (*id, n.saturating_sub(of(then, *id)))).collect();
        let before = |line: &LedgerLine| {
            let same = |l: &&LedgerLine| (l.family, l.cause, l.tier) == (line.family, line.cause, line.tier);
            earlier.lines.iter().find(same).map_or(0, |l| l.bytes)
        };
        LedgerSnapshot {
            user_bytes: minus(&self.user_bytes, &earlier.user_bytes),
            user_keys: minus(&self.user_keys, &earlier.user_keys),
            wal_payload: minus(&self.wal_payload, &earlier.wal_payload),
            lines: self.lines.iter().map(|l| LedgerLine { bytes: l.bytes.saturating_sub(before(l)), ..*l }).collect(),
        }
    }

    /// Compares with what the store counted, in bytes.
    ///
    /// # Errors
    /// A sentence with both sums.
    pub fn balance(&self, store_bytes: u64) -> Result<(), String> {
        let ledger = self.total();
        if ledger == store_bytes {
            return Ok(());
        }
        let (more, less) = if ledger > store_bytes { ("ledger", "store") } else { ("store", "ledger") };
        let gap = ledger.abs_diff(store_bytes);
        Err(format!("the ledger has {ledger} bytes, the store {store_bytes}: the {more} has {gap} more than the {less}"))
    }
}

fn of(list: &[(u32, u64)], family: u32) -> u64 {
    list.iter().find(|(id, _)| *id == family).map_or(0, |(_, value)| *value)
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
