//! The table of keys that clients have read.
//!
//! The number of a client that has gone stays in the table until the key changes or is evicted. Numbers are never used again, and removing
//! them at once would take a search of the whole table.

use std::collections::HashMap;
use std::sync::Arc;

/// Number of keys above which a dropped table is freed by a thread of its own.
const FREED_AT_ONCE: usize = 10_000;

/// Clients that have read a key, by session number, sorted.
#[derive(Debug)]
enum Readers {
    One(u64),
    Many(Vec<u64>),
}

impl Readers {
    fn as_slice(&self) -> &[u64] {
        match self {
            Readers::One(id) => std::slice::from_ref(id),
            Readers::Many(ids) => ids,
        }
    }

    /// Adds a client; false: it was there.
    fn add(&mut self, id: u64) -> bool {
        let Err(at) = self.as_slice().binary_search(&id) else { return false };
        match self {
            Readers::One(other) => {
                let mut ids = vec![*other];
                ids.insert(at, id);
                *self = Readers::Many(ids);
            }
            Readers::Many(ids) => ids.insert(at, id),
        }
        true
    }
}

/// A key and its readers.
#[derive(Debug)]
struct Entry {
    key: Arc<[u8]>,
    readers: Readers,
}

/// Keys that clients have read, with these clients.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Keys with their readers, in no order, so that a random one is found at once.
    entries: Vec<Entry>,
    /// Position of each key in `entries`.
    places: HashMap<Arc<[u8]>, usize>,
    /// Number of readers of all keys.
    items: usize,
}

impl Table {
    /// Notes that a client has read a key.
    pub fn add(&mut self, key: &[u8], id: u64) {
        let is_new = match self.places.get(key).and_then(|at| self.entries.get_mut(*at)) {
            Some(entry) => entry.readers.add(id),
            None => {
                let key: Arc<[u8]> = key.into();
                self.places.insert(key.clone(), self.entries.len());
                self.entries.push(Entry { key, readers: Readers::One(id) });
                true
            }
        };
        self.items += usize::from(is_new);
    }

    /// Whether a client is among the readers of a key.
    pub fn has(&self, key: &[u8], id: u64) -> bool {
        let entry = self.places.get(key).and_then(|at| self.entries.get(*at));
        entry.is_some_and(|entry| entry.readers.as_slice().binary_search(&id).is_ok())
    }

    /// Removes a key; returns its readers.
    pub fn remove(&mut self, key: &[u8]) -> Vec<u64> {
        let Some(at) = self.places.remove(key) else { return Vec::new() };
        let removed = self.entries.swap_remove(at);
        if let Some(place) = self.entries.get(at).and_then(|moved| self.places.get_mut(&moved.key)) {
            *place = at;
        }
        let readers = removed.readers.as_slice().to_vec();
        self.items -= readers.len();
        readers
    }

    /// The key at a position below [`Table::len`]. Removals change the positions of other keys.
    pub fn key(&self, at: usize) -> Option<Arc<[u8]>> {
        self.entries.get(at).map(|entry| entry.key.clone())
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Number of readers of all keys.
    pub fn items(&self) -> usize {
        self.items
    }

    /// Removes all keys. A thread frees a large table, since that takes a while.
    pub fn clear(&mut self) {
        let old = std::mem::take(self);
        if old.len() > FREED_AT_ONCE {
            // If the thread cannot start, the table is freed here.
            let _ = std::thread::Builder::new().name("sinter-free".into()).spawn(move || drop(old));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn the_table_is_a_map_of_sets() {
        let (mut table, mut model) = (Table::default(), BTreeMap::<Vec<u8>, BTreeSet<u64>>::new());
        let mut random = Random(7);
        for _ in 0..20_000 {
            let (key, id) = (random.bytes(2, b"abcd"), random.below(5) as u64);
            match random.below(9) {
                0..5 => {
                    table.add(&key, id);
                    model.entry(key).or_default().insert(id);
                }
                5..8 => {
                    let readers: Vec<u64> = model.remove(&key).into_iter().flatten().collect();
                    assert_eq!(table.remove(&key), readers);
                }
                _ => assert_eq!(table.has(&key, id), model.get(&key).is_some_and(|ids| ids.contains(&id))),
            }
            let keys: BTreeSet<Vec<u8>> = (0..table.len()).filter_map(|at| table.key(at)).map(|key| key.to_vec()).collect();
            assert!(keys.iter().eq(model.keys()), "{keys:?}");
            assert_eq!((table.len(), table.items()), (model.len(), model.values().map(BTreeSet::len).sum()));
        }
    }

    #[test]
    fn a_cleared_table_is_empty_however_many_it_had() {
        for count in [3, FREED_AT_ONCE as u64 + 1] {
            let mut table = Table::default();
            (0..count).for_each(|n| table.add(&n.to_be_bytes(), n));
            table.clear();
            assert_eq!((table.len(), table.items(), table.key(0)), (0, 0, None));
            table.add(b"a", 1);
            assert_eq!(table.remove(b"a"), [1]);
        }
    }
}
