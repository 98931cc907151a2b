//! Prefixes of keys whose changes are broadcast to clients (`BCAST`), and the keys with these prefixes that have changed in the event-loop
//! iteration.

use std::collections::{BTreeMap, BTreeSet};

/// Changed keys, each with the client that has changed it last. `None`: the change came from no client.
pub(super) type ChangedKeys = BTreeMap<Vec<u8>, Option<u64>>;

/// Prefixes with their clients and changed keys.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    clients: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    /// Number of prefixes by length: a key is compared with one prefix of each length, however many there are.
    lengths: BTreeMap<usize, usize>,
    /// Changed keys by prefix.
    changed: BTreeMap<Vec<u8>, ChangedKeys>,
}

impl Prefixes {
    /// Adds a client to a prefix.
    pub fn add(&mut self, prefix: &[u8], id: u64) {
        let clients = self.clients.entry(prefix.to_vec()).or_default();
        if clients.is_empty() {
            *self.lengths.entry(prefix.len()).or_default() += 1;
        }
        clients.insert(id);
    }

    /// Removes a client from a prefix.
    pub fn remove(&mut self, prefix: &[u8], id: u64) {
        let Some(clients) = self.clients.get_mut(prefix) else { return };
        clients.remove(&id);
        if !clients.is_empty() {
            return;
        }
        self.clients.remove(prefix);
        self.changed.remove(prefix);
        if let Some(number) = self.lengths.get_mut(&prefix.len()) {
            *number -= 1;
            if *number == 0 {
                self.lengths.remove(&prefix.len());
            }
        }
    }

    /// Notes a change of a key by a client. `None`: by no client.
    pub fn change(&mut self, key: &[u8], by: Option<u64>) {
        for prefix in self.lengths.range(..=key.len()).filter_map(|(length, _)| key.get(..*length)) {
            if self.clients.contains_key(prefix) {
                self.changed.entry(prefix.to_vec()).or_default().insert(key.to_vec(), by);
            }
        }
    }

    /// Takes the keys that have changed since the last call, by prefix, each prefix with its clients.
    pub fn take_changed(&mut self) -> Vec<(Vec<u64>, ChangedKeys)> {
        let all = std::mem::take(&mut self.changed).into_iter();
        all.map(|(prefix, keys)| (self.clients.get(&prefix).into_iter().flatten().copied().collect(), keys)).collect()
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.clients.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_concerns_all_prefixes_of_the_key() {
        let mut prefixes = Prefixes::default();
        for (prefix, id) in [("", 1), ("us", 2), ("user:", 3), ("user:", 4), ("other", 5)] {
            prefixes.add(prefix.as_bytes(), id);
            prefixes.add(prefix.as_bytes(), id);
        }
        prefixes.change(b"user:1", Some(3));
        prefixes.change(b"u", None);
        prefixes.change(b"user:1", Some(4));
        let keys = |all: &[(&str, Option<u64>)]| all.iter().map(|(key, by)| (key.as_bytes().to_vec(), *by)).collect::<ChangedKeys>();
        let one = keys(&[("user:1", Some(4))]);
        let expected = vec![(vec![1], keys(&[("u", None), ("user:1", Some(4))])), (vec![2], one.clone()), (vec![3, 4], one)];
        assert_eq!(prefixes.take_changed(), expected);
        assert_eq!(prefixes.take_changed(), []);
    }

    #[test]
    fn a_prefix_ends_with_its_last_client() {
        let mut prefixes = Prefixes::default();
        for (prefix, id) in [("ab", 1), ("ab", 2), ("cd", 2)] {
            prefixes.add(prefix.as_bytes(), id);
        }
        prefixes.change(b"abc", None);
        prefixes.remove(b"ab", 2);
        prefixes.remove(b"none", 2);
        assert_eq!(prefixes.len(), 2);
        prefixes.remove(b"ab", 1);
        assert_eq!((prefixes.len(), prefixes.take_changed()), (1, Vec::new()));
        prefixes.change(b"abc", None);
        prefixes.change(b"cde", None);
        assert_eq!(prefixes.take_changed().len(), 1);
        prefixes.remove(b"cd", 2);
        assert!(prefixes.lengths.is_empty() && prefixes.clients.is_empty());
    }
}
