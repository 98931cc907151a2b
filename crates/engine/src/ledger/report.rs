//! The ledger as text. Write amplification never stands alone: a tree can always write less by wasting space.

use super::{FamilyShare, LedgerSnapshot, ratio};
use sinter_storage::store::Cause;

/// Size of the files and of their live data, for space amplification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes of all files.
    pub stored_bytes: u64,
    /// Bytes the live data would take if nothing else were stored; 0 if not known.
    pub live_bytes: u64,
}

impl Space {
    /// Bytes stored per live byte; `None` if the live bytes are not known.
    pub fn amplification(&self) -> Option<f64> {
        (self.live_bytes > 0).then(|| ratio(self.stored_bytes, self.live_bytes))
    }

    /// The amplification as text for a report.
    fn text(&self) -> String {
        self.amplification().map_or_else(|| "unknown".into(), |a| format!("{a:.2}"))
    }
}

impl LedgerSnapshot {
    /// The ledger as a table, a line of text each: cause, level, reason, bytes, share of all, bytes per user byte; then the sum, and write
    /// and space amplification side by side; then the families, if there are several.
    pub fn table(&self, space: Space) -> Vec<String> {
        let (total, user) = (self.total(), self.user());
        let mut out = vec![row("cause", "level", "reason", "bytes", "share", "x user")];
        for (cause, bytes) in self.by_cause().into_iter().filter(|(_, bytes)| *bytes > 0) {
            let (name, level, reason) = parts(cause);
            let share = format!("{:.1}%", 100.0 * ratio(bytes, total));
            out.push(row(name, &level, reason, &bytes.to_string(), &share, &format!("{:.2}", ratio(bytes, user))));
        }
        out.push(row("total", "", "", &total.to_string(), "100.0%", &format!("{:.2}", ratio(total, user))));
        let waf = self.write_amplification();
        out.push(format!("user {user} bytes: write amplification {waf:.2} (log included), space amplification {}", space.text()));
        let families = self.by_family();
        if families.len() > 1 {
            out.extend(families.iter().map(family_line));
        }
        out
    }
}

fn row(cause: &str, level: &str, reason: &str, bytes: &str, share: &str, user: &str) -> String {
    format!("{cause:<11}{level:>5}  {reason:<20}{bytes:>18}{share:>8}{user:>8}")
}

fn family_line(f: &FamilyShare) -> String {
    let (id, user, wal, own) = (f.family, f.user_bytes, f.wal_bytes, f.own_bytes);
    format!("family {id}: user {user} bytes, log {wal}, tables {own}: write amplification {:.2}", f.write_amplification())
}

fn parts(cause: Cause) -> (&'static str, String, &'static str) {
    match cause {
        Cause::Manifest => ("manifest", String::new(), ""),
        Cause::Wal => ("wal", String::new(), ""),
        Cause::Flush => ("flush", "0".into(), ""),
        Cause::Compaction { to, reason } => ("compaction", to.to_string(), reason.name()),
        Cause::Checkpoint => ("checkpoint", String::new(), ""),
    }
}
