//! A queue of blocks, keyed by table and slot, each with the bytes it counts for. The compressed share of the cache is such a queue, and so
//! is the list of blocks that left the cache. A hit removes the block, so first in, first out is the order of least recent use.

use std::collections::{HashMap, VecDeque};

/// The table's number and the slot's.
pub(super) type Key = (u64, u32);

#[derive(Debug)]
struct Item<V> {
    /// Stamp given on arrival, rising.
    stamp: u64,
    bytes: u64,
    value: V,
}

#[derive(Debug)]
pub(super) struct BlockQueue<V> {
    /// Two levels, so that a table is forgotten without visiting the blocks of others.
    tables: HashMap<u64, HashMap<u32, Item<V>>>,
    /// Oldest first. An entry is outdated, and skipped, if its item was removed or has a newer stamp.
    order: VecDeque<(Key, u64)>,
    stamp: u64,
    len: usize,
    bytes: u64,
}

impl<V> Default for BlockQueue<V> {
    fn default() -> Self {
        BlockQueue { tables: HashMap::new(), order: VecDeque::new(), stamp: 0, len: 0, bytes: 0 }
    }
}

impl<V> BlockQueue<V> {
    /// Sum of the bytes of all items.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds an item as the newest; replaces an item with the same key.
    pub fn put(&mut self, key: Key, bytes: u64, value: V) {
        self.take(key);
        self.stamp += 1;
        self.tables.entry(key.0).or_default().insert(key.1, Item { stamp: self.stamp, bytes, value });
        self.order.push_back((key, self.stamp));
        self.len += 1;
        self.bytes += bytes;
        // Amortised: a sweep removes at least as many entries as it keeps.
        if self.order.len() > 2 * self.len + 16 {
            let tables = &self.tables;
            self.order.retain(|(key, stamp)| item(tables, *key).is_some_and(|item| item.stamp == *stamp));
        }
    }

    /// Returns whether there is an item with this key.
    pub fn holds(&self, key: Key) -> bool {
        item(&self.tables, key).is_some()
    }

    /// Removes an item.
    pub fn take(&mut self, key: Key) -> Option<V> {
        let of_table = self.tables.get_mut(&key.0)?;
        let item = of_table.remove(&key.1)?;
        if of_table.is_empty() {
            self.tables.remove(&key.0);
        }
        self.len -= 1;
        self.bytes -= item.bytes;
        Some(item.value)
    }

    /// Removes the oldest item. Returns its key, its bytes and its value.
    pub fn pop(&mut self) -> Option<(Key, u64, V)> {
        loop {
            let (key, stamp) = self.order.pop_front()?;
            if let Some(bytes) = item(&self.tables, key).filter(|item| item.stamp == stamp).map(|item| item.bytes) {
                return self.take(key).map(|value| (key, bytes, value));
            }
        }
    }

    /// Removes all items of a table.
    pub fn forget(&mut self, table: u64) {
        for item in self.tables.remove(&table).into_iter().flat_map(HashMap::into_values) {
            self.len -= 1;
            self.bytes -= item.bytes;
        }
    }
}

fn item<V>(tables: &HashMap<u64, HashMap<u32, Item<V>>>, key: Key) -> Option<&Item<V>> {
    tables.get(&key.0)?.get(&key.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slow reference implementation of the queue.
    #[derive(Default)]
    struct Model(Vec<(Key, u64, u64)>);

    #[test]
    fn a_model_agrees() {
        let mut state = 7u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let (mut queue, mut model) = (BlockQueue::default(), Model::default());
        for round in 0..50_000 {
            let key = (random(5), random(40) as u32);
            match random(20) {
                0..12 => {
                    let bytes = random(1000);
                    model.0.retain(|(k, ..)| *k != key);
                    model.0.push((key, bytes, round));
                    queue.put(key, bytes, round);
                }
                12..16 => {
                    let at = model.0.iter().position(|(k, ..)| *k == key);
                    assert_eq!(queue.take(key), at.map(|at| model.0.remove(at).2));
                }
                16..19 => {
                    let oldest = (!model.0.is_empty()).then(|| model.0.remove(0));
                    assert_eq!(queue.pop(), oldest);
                }
                _ => {
                    queue.forget(key.0);
                    model.0.retain(|(k, ..)| k.0 != key.0);
                }
            }
            assert_eq!((queue.bytes(), queue.len), (model.0.iter().map(|m| m.1).sum(), model.0.len()));
            assert!(queue.order.len() <= 2 * 200 + 16);
        }
    }
}
