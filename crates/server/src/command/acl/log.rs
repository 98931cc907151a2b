//! The ACL log: refused requests, newest first.

use std::collections::VecDeque;

/// Similar refusals within this time share one entry, milliseconds.
const TOGETHER_MS: u64 = 60_000;
/// Newest entries that are searched for a similar one.
const LOOKED_AT: usize = 10;

/// A refusal, or several similar ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::command) struct AclLogEntry {
    pub count: u64,
    /// `auth`, `command`, `key` or `channel`.
    pub reason: &'static str,
    /// `toplevel` or `multi`.
    pub context: &'static str,
    /// The refused command, key, channel, or user name.
    pub object: Vec<u8>,
    pub user: Vec<u8>,
    /// Time of the latest refusal, unix milliseconds.
    pub at: u64,
    /// The client, as `CLIENT LIST` has it.
    pub client: String,
}

impl AclLogEntry {
    fn resembles(&self, other: &AclLogEntry) -> bool {
        let same = (self.reason, self.context, &self.object, &self.user) == (other.reason, other.context, &other.object, &other.user);
        same && self.at.abs_diff(other.at) <= TOGETHER_MS
    }
}

/// Refusals, newest first.
#[derive(Debug, Default)]
pub(in crate::command) struct AclLog {
    entries: VecDeque<AclLogEntry>,
}

impl AclLog {
    /// Notes a refusal, and keeps at most `most` entries.
    pub fn add(&mut self, mut entry: AclLogEntry, most: usize) {
        if let Some(known) = self.entries.iter().take(LOOKED_AT).position(|known| known.resembles(&entry)) {
            entry.count += self.entries.remove(known).map_or(0, |known| known.count);
        }
        self.entries.push_front(entry);
        self.entries.truncate(most);
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &AclLogEntry> {
        self.entries.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_resembles_is_counted() {
        let entry = |object: &str, at| AclLogEntry {
            count: 1,
            reason: "key",
            context: "toplevel",
            object: object.into(),
            user: b"u".to_vec(),
            at,
            client: String::new(),
        };
        let mut log = AclLog::default();
        log.add(entry("a", 0), 3);
        log.add(entry("b", 1), 3);
        log.add(entry("a", 2), 3);
        log.add(entry("a", 2 + TOGETHER_MS + 1), 3);
        let seen: Vec<(&[u8], u64, u64)> = log.iter().map(|entry| (entry.object.as_slice(), entry.count, entry.at)).collect();
        assert_eq!(seen, [(&b"a"[..], 1, 60_003), (b"a", 2, 2), (b"b", 1, 1)]);
        log.add(entry("c", 3), 3);
        assert_eq!(log.iter().len(), 3);
        log.clear();
        assert_eq!(log.iter().len(), 0);
    }
}
