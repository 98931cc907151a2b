//! The counted bytes of each database are those of its keys and values, whatever commands have run: random ones of all families, with
//! commits, dropped event-loop iterations, restarts, crashes and evictions between them.

use super::Talk;
use crate::command::{Ended, Server, Session, execute};
use crate::keyspace::{Policy, Rank};
use crate::testing::{Random, commands, open};
use sinter_storage::store::{CrashMode, MemoryStore};
use sinterdb::WriteOptions;
use std::sync::Arc;

/// Small collections, so that some of each type lie in their key's entry and others do not.
const SMALL: &str = "CONFIG SET hash-max-listpack-entries 2 set-max-intset-entries 2 set-max-listpack-entries 2 \
                     zset-max-listpack-entries 2 list-max-listpack-size 2";

/// Shapes of commands, like those in `commands`, whose results depend on time or chance, and larger collections and strings.
const MORE: &[&str] = &[
    "SPOP k",
    "SPOP k 2",
    "HEXPIRE k 100 FIELDS 2 a b",
    "HPEXPIRE k 5 FIELDS 1 a",
    "HSETEX k PX 5 FIELDS 2 a xyz c w",
    "HSET k a 1 b longer-value c 3 d 4",
    "LTRIM k 1 3",
    "LTRIM k -2 -1",
    "LSET k 0 another",
    "LREM k 0 a",
    "LINSERT k BEFORE a b",
    "RPUSH k a b a c a d e f g h",
    "XADD st * a b c d",
    "XADD st MAXLEN = 3 * a longer-value",
    "XTRIM st MAXLEN 1",
    "XDEL st id",
    "SETRANGE k 90 y",
    "SETRANGE k 3000 y",
    "APPEND k xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "SETBIT k 4000 1",
    "SET k v PX 5",
    "PEXPIRE k 5",
    "SWAPDB 0 1",
    "SELECT 0",
    "SELECT 1",
    "COPY k k REPLACE",
    "RENAME k k",
    "SORT k ALPHA STORE k",
];

struct Tried {
    talk: Talk,
    session: Session,
    store: Arc<MemoryStore>,
    random: Random,
}

impl Tried {
    fn new(seed: u64) -> Tried {
        let store = Arc::new(MemoryStore::new());
        let talk = Talk { keyspace: open(&store, seed), server: Server::default() };
        let mut tried = Tried { session: talk.client(1), talk, store, random: Random(seed) };
        tried.talk.keyspace.set_now(1_000_000);
        assert_eq!(tried.talk.say(&mut tried.session, SMALL), "+OK|");
        tried
    }

    fn run(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        let ended = execute(&mut self.talk.keyspace, &mut self.talk.server, &mut self.session, words, &mut out);
        assert_ne!(ended, Ended::EngineFailed);
        out
    }

    /// Copies a key by way of its serialization.
    fn restore(&mut self) {
        let payload = self.run(&[b"DUMP", b"key1"]);
        let from = payload.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        if payload.len() > from + 2 {
            self.run(&[b"RESTORE", b"key2", b"0", &payload[from..payload.len() - 2], b"REPLACE"]);
        }
    }

    /// Takes another store, or the same one, as after a start.
    fn start(&mut self, store: Arc<MemoryStore>) {
        let mut keyspace = open(&store, 5);
        keyspace.set_now(self.talk.keyspace.now());
        self.talk.server.configuration.apply_to(&mut keyspace);
        (self.talk.keyspace, self.store) = (keyspace, store);
        self.session = self.talk.client(1);
    }

    fn step(&mut self, known: &mut commands::Random) {
        match self.random.below(300) {
            0..180 => {
                let words = commands::command(known);
                self.run(&words.iter().map(String::as_bytes).collect::<Vec<_>>());
            }
            180..260 => {
                let words = commands::filled(MORE[self.random.below(MORE.len())], known);
                self.run(&words.iter().map(String::as_bytes).collect::<Vec<_>>());
            }
            260..265 => self.restore(),
            265..290 => self.talk.keyspace.commit(&WriteOptions::default()).unwrap(),
            290 => self.talk.keyspace.discard(),
            291 => {
                let large = vec![b'x'; 1 << 20];
                self.run(&[b"SET", b"large", &large]);
                self.run(&[b"APPEND", b"large", b"more"]);
            }
            292 => {
                self.talk.keyspace.set_now(self.talk.keyspace.now() + 10);
                self.talk.keyspace.remove_expired(3).unwrap();
            }
            293 | 294 => {
                let policy = [Policy::All(Rank::Idle), Policy::Volatile(Rank::Deadline)][self.random.below(2)];
                let most = self.talk.keyspace.data_bytes().unwrap() / 2;
                self.talk.keyspace.evict(policy, 3, most).unwrap();
            }
            295 if self.random.below(4) == 0 => _ = self.run(&[b"FLUSHDB"]),
            296 if self.random.below(8) == 0 => _ = self.run(&[b"FLUSHALL"]),
            297 => {
                self.talk.keyspace.commit(&WriteOptions::default()).unwrap();
                let left = self.store.crash_with(CrashMode::DropUnsynced);
                self.start(Arc::new(left));
            }
            _ => {}
        }
    }
}

#[test]
fn bytes_are_those_of_all_keys() {
    for seed in 0..3 {
        let (mut tried, mut known) = (Tried::new(seed), commands::Random::new(seed));
        for round in 0..8_000 {
            tried.step(&mut known);
            if round % 10 == 0 {
                tried.talk.keyspace.check_bytes();
            }
        }
        assert!(tried.talk.keyspace.data_bytes().unwrap() > 0);
    }
}

/// Data of an earlier version, whose collections do not say how large they are, are counted once.
#[test]
fn bytes_of_an_earlier_version_are_counted_once() {
    let (mut tried, mut known) = (Tried::new(9), commands::Random::new(9));
    (0..1_500).for_each(|_| tried.step(&mut known));
    for line in ["RPUSH l a b c d e", "XADD x * a b", "SADD m a b c d", "ZADD z 1 a 2 b 3 c", "HSET h a 1 b 2 c 3", "SET t text"] {
        tried.run(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }
    let keyspace = &mut tried.talk.keyspace;
    keyspace.forget_bytes();
    keyspace.commit(&WriteOptions::default()).unwrap();
    tried.start(Arc::new(tried.store.crash_with(CrashMode::KeepAll)));
    assert_eq!(tried.talk.keyspace.data_bytes(), None);
    let refused = tried.talk.say(&mut tried.session, "CONFIG SET maxdata 1000");
    assert!(refused.contains("keys of an earlier version are counted only at a start with maxdata"), "{refused}");
    // Changes do not count before everything is counted.
    for line in ["RPUSH l f g", "LTRIM l 1 4", "XADD x * c d", "SREM m a", "ZADD z 9 d", "HSET h a longer", "APPEND t more", "DEL none"] {
        tried.run(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }
    assert_eq!(tried.talk.keyspace.data_bytes(), None);
    assert!(tried.talk.keyspace.count_all_bytes().unwrap());
    tried.talk.keyspace.check_bytes();
    assert!(!tried.talk.keyspace.count_all_bytes().unwrap());
    tried.start(Arc::new(tried.store.crash_with(CrashMode::KeepAll)));
    tried.talk.keyspace.check_bytes();
    (0..1_500).for_each(|_| tried.step(&mut known));
    tried.talk.keyspace.check_bytes();
}

/// A program of an earlier format has changed data that were counted: the count is not believed.
#[test]
fn bytes_that_a_program_of_an_earlier_format_has_left_are_not_believed() {
    let mut tried = Tried::new(11);
    tried.run(&[b"SET", b"k", b"v"]);
    tried.talk.keyspace.commit(&WriteOptions::default()).unwrap();
    assert_eq!(tried.talk.keyspace.data_bytes(), Some(2));
    tried.run(&[b"SET", b"k", b"longer"]);
    tried.talk.keyspace.leave_bytes();
    tried.start(Arc::new(tried.store.crash_with(CrashMode::KeepAll)));
    assert_eq!(tried.talk.keyspace.data_bytes(), None);
    assert!(tried.talk.keyspace.count_all_bytes().unwrap());
    tried.talk.keyspace.check_bytes();
    tried.start(Arc::new(tried.store.crash_with(CrashMode::KeepAll)));
    assert_eq!(tried.talk.keyspace.data_bytes(), Some(7));
}

/// An overwritten string of any size is counted without being read.
#[test]
fn long_strings_are_counted_where_only_their_start_is_in_memory() {
    let mut tried = Tried::new(4);
    let long = vec![b'x'; 100_000];
    for words in [&[&b"SET"[..], b"k", &long], &[b"SET", b"k", b"short"], &[b"SET", b"k", &long], &[b"EXPIRE", b"k", b"100"]] {
        tried.run(words);
        tried.talk.keyspace.commit(&WriteOptions::default()).unwrap();
        tried.talk.keyspace.check_bytes();
    }
    assert_eq!(tried.talk.keyspace.data_bytes(), Some(100_001));
    tried.run(&[b"GETDEL", b"k"]);
    assert_eq!(tried.talk.keyspace.data_bytes(), Some(0));
}
