//! Watches of transactions: clients that want to know whether a key was changed.

use std::collections::{HashMap, HashSet};

/// Watched keys, and the watchers that were disturbed.
#[derive(Debug, Default)]
pub(super) struct Watches {
    /// Watchers by database and key.
    watchers: HashMap<(usize, Vec<u8>), Vec<u64>>,
    /// Database and key of everything that each watcher watches.
    watched: HashMap<u64, Vec<(usize, Vec<u8>)>>,
    disturbed: HashSet<u64>,
}

impl Watches {
    pub fn add(&mut self, watcher: u64, db: usize, key: &[u8]) {
        let place = (db, key.to_vec());
        let watchers = self.watchers.entry(place.clone()).or_default();
        if !watchers.contains(&watcher) {
            watchers.push(watcher);
            self.watched.entry(watcher).or_default().push(place);
        }
    }

    pub fn remove(&mut self, watcher: u64) {
        self.disturbed.remove(&watcher);
        for place in self.watched.remove(&watcher).unwrap_or_default() {
            if let Some(watchers) = self.watchers.get_mut(&place) {
                watchers.retain(|other| *other != watcher);
                if watchers.is_empty() {
                    self.watchers.remove(&place);
                }
            }
        }
    }

    /// Disturbs the watchers of a key that was changed.
    pub fn touch(&mut self, db: usize, key: &[u8]) {
        if self.watchers.is_empty() {
            return;
        }
        if let Some(watchers) = self.watchers.get(&(db, key.to_vec())) {
            self.disturbed.extend(watchers);
        }
    }

    pub fn is_disturbed(&self, watcher: u64) -> bool {
        self.disturbed.contains(&watcher)
    }

    /// Keys that `watcher` watches.
    pub fn of(&self, watcher: u64) -> Vec<(usize, Vec<u8>)> {
        self.watched.get(&watcher).cloned().unwrap_or_default()
    }

    /// Keys that anyone watches.
    pub fn all(&self) -> Vec<(usize, Vec<u8>)> {
        self.watchers.keys().cloned().collect()
    }
}
