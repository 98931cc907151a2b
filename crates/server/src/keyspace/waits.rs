//! Clients that wait for a key to change, or for a sync, in the order in which they began to wait, and for how long.
//!
//! A change puts the key on a list; the network takes it from there when the command or transaction is over, and lets the clients that wait
//! for the key try again, one after the other. The caller removes a client that finds something; a client that finds nothing keeps its
//! position in the queue.

use super::Keyspace;
use super::entry::Kind;
use super::error::Result;
use super::layout::DATABASES;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// A key that somebody waits for.
#[derive(Debug, Default)]
struct Queue {
    /// Clients by ticket, and the type that the key has to hold to be of use to the client; `None`: any change is of use.
    waiters: BTreeMap<u64, (u64, Option<Kind>)>,
    /// The key is in the list of changed keys.
    is_ready: bool,
}

/// The wait of one client.
#[derive(Debug)]
struct Wait {
    /// Ascending: the client with the lower ticket is served first.
    ticket: u64,
    db: usize,
    /// Keys that the client waits for; none: it waits for a sync.
    keys: Vec<Vec<u8>>,
    /// End of the wait, unix milliseconds; `None`: never.
    deadline: Option<u64>,
}

/// All waiting clients.
#[derive(Debug, Default)]
pub(super) struct Waits {
    queues: [HashMap<Vec<u8>, Queue>; DATABASES],
    by_waiter: HashMap<u64, Wait>,
    /// Clients that wait for a sync, by ticket.
    syncs: BTreeMap<u64, u64>,
    /// Changed keys that somebody waits for.
    ready: VecDeque<(usize, Vec<u8>)>,
    deadlines: BTreeSet<(u64, u64)>,
    last_ticket: u64,
}

impl Waits {
    fn add(&mut self, waiter: u64, db: usize, keys: &[Vec<u8>], kind: Option<Kind>, deadline: Option<u64>) {
        self.remove(waiter);
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        for key in keys {
            if let Some(queues) = self.queues.get_mut(db) {
                queues.entry(key.clone()).or_default().waiters.insert(ticket, (waiter, kind));
            }
        }
        if keys.is_empty() {
            self.syncs.insert(ticket, waiter);
        }
        self.deadlines.extend(deadline.map(|deadline| (deadline, waiter)));
        self.by_waiter.insert(waiter, Wait { ticket, db, keys: keys.to_vec(), deadline });
    }

    fn remove(&mut self, waiter: u64) -> bool {
        let Some(wait) = self.by_waiter.remove(&waiter) else { return false };
        for key in &wait.keys {
            let Some(queues) = self.queues.get_mut(wait.db) else { continue };
            if let Some(queue) = queues.get_mut(key) {
                queue.waiters.remove(&wait.ticket);
                if queue.waiters.is_empty() {
                    queues.remove(key);
                }
            }
        }
        self.syncs.remove(&wait.ticket);
        if let Some(deadline) = wait.deadline {
            self.deadlines.remove(&(deadline, waiter));
        }
        true
    }

    /// Puts a key that was changed on the list of changed keys, if somebody waits for it.
    pub fn touch(&mut self, db: usize, key: &[u8]) {
        if self.by_waiter.is_empty() {
            return;
        }
        if let Some(queue) = self.queues.get_mut(db).and_then(|queues| queues.get_mut(key))
            && !queue.is_ready
        {
            queue.is_ready = true;
            self.ready.push_back((db, key.to_vec()));
        }
    }

    fn queue(&self, db: usize, key: &[u8]) -> Option<&Queue> {
        self.queues.get(db)?.get(key)
    }

    /// Keys that anyone waits for.
    pub fn all(&self) -> Vec<(usize, Vec<u8>)> {
        let of = |(db, queues): (usize, &HashMap<Vec<u8>, Queue>)| queues.keys().map(|key| (db, key.clone())).collect::<Vec<_>>();
        self.queues.iter().enumerate().flat_map(of).collect()
    }
}

impl Keyspace {
    /// Notes that a client waits for any of these keys of a database; without keys, for a sync. `kind` is the type that a key has to hold
    /// to be of use, `deadline` the unix millisecond from which on [`Keyspace::next_overdue`] gives the client.
    pub fn wait(&mut self, waiter: u64, db: usize, keys: &[Vec<u8>], kind: Option<Kind>, deadline: Option<u64>) {
        self.waits.add(waiter, db, keys, kind, deadline);
    }

    /// Ends the wait of a client; false: it did not wait.
    pub fn unwait(&mut self, waiter: u64) -> bool {
        self.waits.remove(waiter)
    }

    /// Number of waiting clients.
    pub fn waiting(&self) -> usize {
        self.waits.by_waiter.len()
    }

    /// Number of clients that wait until a deadline.
    pub fn waiting_in_time(&self) -> usize {
        self.waits.deadlines.len()
    }

    /// All waiting clients, longest wait first.
    pub fn waiters(&self) -> Vec<u64> {
        let mut all: Vec<(u64, u64)> = self.waits.by_waiter.iter().map(|(waiter, wait)| (wait.ticket, *waiter)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, waiter)| waiter).collect()
    }

    /// Whether a key has changed that somebody waits for.
    pub fn has_ready(&self) -> bool {
        !self.waits.ready.is_empty()
    }

    /// The next changed key that somebody waited for when it changed.
    pub fn next_ready(&mut self) -> Option<(usize, Vec<u8>)> {
        let (db, key) = self.waits.ready.pop_front()?;
        if let Some(queue) = self.waits.queues.get_mut(db).and_then(|queues| queues.get_mut(&key)) {
            queue.is_ready = false;
        }
        Some((db, key))
    }

    /// The first client, from a ticket on, to which the present value of a key is of use: its ticket and number.
    ///
    /// # Errors
    /// Errors of reading the key.
    pub fn next_waiter(&mut self, db: usize, key: &[u8], from: u64) -> Result<Option<(u64, u64)>> {
        if self.waits.queue(db, key).is_none() {
            return Ok(None);
        }
        let held = self.find(db, key)?.map(|head| head.kind);
        let Some(queue) = self.waits.queue(db, key) else { return Ok(None) };
        let mut rest = queue.waiters.range(from..);
        let found = rest.find(|(_, (_, wanted))| wanted.is_none() || *wanted == held);
        Ok(found.map(|(ticket, (waiter, _))| (*ticket, *waiter)))
    }

    /// Clients that wait for a sync, longest wait first.
    pub fn sync_waiters(&self) -> Vec<u64> {
        self.waits.syncs.values().copied().collect()
    }

    /// End of the wait that ends first, unix milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        self.waits.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// A client whose wait is over by now; the wait is removed.
    pub fn next_overdue(&mut self) -> Option<u64> {
        let (_, waiter) = self.waits.deadlines.first().copied().filter(|(deadline, _)| *deadline <= self.now)?;
        self.waits.remove(waiter);
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fresh;

    fn keys(names: &[&str]) -> Vec<Vec<u8>> {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    fn push(keyspace: &mut Keyspace, db: usize, key: &str) {
        let mut edit = keyspace.edit(db, key.as_bytes(), Kind::List).unwrap();
        keyspace.push(&mut edit, super::super::Side::Left, b"x").unwrap();
        keyspace.finish(&edit);
    }

    #[test]
    fn who_waited_first_comes_first_and_only_if_it_is_of_use() {
        let mut keyspace = fresh();
        keyspace.wait(7, 0, &keys(&["a", "b"]), Some(Kind::List), None);
        keyspace.wait(5, 0, &keys(&["a"]), Some(Kind::SortedSet), None);
        keyspace.wait(9, 0, &keys(&["a", "a"]), None, None);
        keyspace.wait(1, 1, &keys(&["a"]), Some(Kind::List), None);
        assert_eq!((keyspace.waiting(), keyspace.has_ready()), (4, false));
        assert_eq!(keyspace.waiters(), [7, 5, 9, 1]);
        push(&mut keyspace, 0, "a");
        push(&mut keyspace, 0, "a");
        push(&mut keyspace, 0, "c");
        assert_eq!(keyspace.next_ready(), Some((0, b"a".to_vec())));
        assert_eq!(keyspace.next_ready(), None);
        let (ticket, first) = keyspace.next_waiter(0, b"a", 0).unwrap().unwrap();
        let (_, second) = keyspace.next_waiter(0, b"a", ticket + 1).unwrap().unwrap();
        assert_eq!((first, second), (7, 9));
        assert!(keyspace.unwait(7) && !keyspace.unwait(7));
        assert_eq!(keyspace.next_waiter(0, b"b", 0).unwrap(), None);
        assert_eq!(keyspace.next_waiter(0, b"a", 0).unwrap().map(|found| found.1), Some(9));
        // Removed again: only clients that wait for any change are concerned.
        keyspace.remove(0, b"a").unwrap();
        assert_eq!(keyspace.next_ready(), Some((0, b"a".to_vec())));
        assert_eq!(keyspace.next_waiter(0, b"a", 0).unwrap().map(|found| found.1), Some(9));
    }

    #[test]
    fn waits_end_in_time() {
        let mut keyspace = fresh();
        let now = keyspace.now();
        keyspace.wait(1, 0, &keys(&["a"]), None, Some(now + 20));
        keyspace.wait(2, 0, &[], None, Some(now + 10));
        keyspace.wait(3, 0, &[], None, None);
        assert_eq!((keyspace.next_deadline(), keyspace.next_overdue()), (Some(now + 10), None));
        assert_eq!(keyspace.sync_waiters(), [2, 3]);
        keyspace.set_now(now + 20);
        assert_eq!((keyspace.next_overdue(), keyspace.next_overdue(), keyspace.next_overdue()), (Some(2), Some(1), None));
        assert_eq!((keyspace.waiting(), keyspace.sync_waiters()), (1, vec![3]));
        push(&mut keyspace, 0, "a");
        assert!(!keyspace.has_ready());
    }

    #[test]
    fn databases_are_swapped_with_their_sizes_and_deadlines() {
        let mut keyspace = fresh();
        let now = keyspace.now();
        keyspace.set_string(0, b"only", b"0", None).unwrap();
        keyspace.set_string(3, b"ends", b"3", Some(now + 5)).unwrap();
        keyspace.watch(1, 0, b"ends").unwrap();
        keyspace.watch(2, 0, b"other").unwrap();
        keyspace.wait(3, 0, &keys(&["list"]), Some(Kind::List), None);
        push(&mut keyspace, 3, "list");
        keyspace.commit(&Default::default()).unwrap();
        keyspace.swap(0, 3).unwrap();
        assert!(!keyspace.is_committed());
        assert!(keyspace.is_disturbed(1).unwrap() && !keyspace.is_disturbed(2).unwrap());
        assert_eq!(keyspace.next_ready(), Some((0, b"list".to_vec())));
        assert_eq!((keyspace.size(0), keyspace.size(3), keyspace.deadlines(0)), (2, 1, 1));
        assert_eq!(keyspace.string(0, b"ends").unwrap(), Some(&b"3"[..]));
        assert_eq!(keyspace.string(3, b"only").unwrap(), Some(&b"0"[..]));
        keyspace.discard();
        assert_eq!((keyspace.size(0), keyspace.string(0, b"only").unwrap()), (1, Some(&b"0"[..])));
        keyspace.swap(3, 0).unwrap();
        keyspace.set_now(now + 10);
        assert_eq!(keyspace.remove_expired(10).unwrap(), 1);
        assert_eq!((keyspace.size(0), keyspace.deadlines(0)), (1, 0));
        keyspace.clear(0).unwrap();
        assert_eq!((keyspace.size(0), keyspace.size(3)), (0, 1));
        assert_eq!(keyspace.random_key(3).unwrap().as_deref(), Some(&b"only"[..]));
    }
}
