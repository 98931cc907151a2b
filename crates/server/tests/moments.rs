//! Files saved while transactions of clients span keys of several kinds: each file shows one moment of all of them.
//!
//! `MOMENT_ROUNDS` is the number of files that are saved.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::contents::field;
use crate::common::{self, Client, Served};
use crate::rdb::served_from;
use sinter_server::command::Server;
use sinter_server::command::configuration::Configuration;
use sinter_storage::store::MemoryStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const CLIENTS: usize = 3;

/// The keys of a client, and the request that finds the number of its last transaction.
const KINDS: [(&str, &str); 6] = [
    ("string", "GET KEY"),
    ("other", "GET KEY"),
    ("hash", "HGET KEY n"),
    ("list", "LINDEX KEY 0"),
    ("sorted", "ZSCORE KEY member"),
    ("many", "SCARD KEY"),
];

/// Writes a number to all keys of a client.
fn transaction(client: &mut Client, id: usize, n: u64) {
    let key = |kind: &str| format!("{kind}:{id}");
    // Some are given to the engine by another thread.
    let padding = "x".repeat(if n.is_multiple_of(5) { 50_000 } else { 10 });
    let number = n.to_string();
    let words: [&[&str]; 8] = [
        &["MULTI"],
        &["MSET", &key("string"), &number, &key("other"), &number, &key("padding"), &padding],
        &["HSET", &key("hash"), "n", &number, "padding", &padding],
        &["DEL", &key("list")],
        &["RPUSH", &key("list"), &number],
        &["ZADD", &key("sorted"), &number, "member"],
        &["SADD", &key("many"), &number],
        &["EXEC"],
    ];
    client.send(&words.iter().flat_map(|words| common::encode(words)).collect::<Vec<u8>>());
    for _ in 0..words.len() {
        let reply = client.reply().unwrap().to_string();
        assert!(!reply.starts_with('-'), "{reply}");
    }
}

/// The last transaction of a client, which is equal in all kinds.
fn last(client: &mut Client, id: usize) -> u64 {
    let found = KINDS.map(|(kind, question)| {
        let key = format!("{kind}:{id}");
        let words: Vec<&[u8]> = question.split(' ').map(|word| if word == "KEY" { key.as_bytes() } else { word.as_bytes() }).collect();
        client.ask(&words).to_string()[1..].parse().unwrap_or(0)
    });
    assert!(found.iter().all(|n| *n == found[0]), "client {id}: {KINDS:?} have {found:?}");
    found[0]
}

#[test]
fn saved_files_beside_transactions_are_one_moment_of_all_keys() {
    let rounds = std::env::var("MOMENT_ROUNDS").map_or(8, |rounds| rounds.parse().unwrap());
    let there = tempfile::tempdir().unwrap();
    let configuration = Configuration { directory: there.path().to_str().unwrap().into(), ..Configuration::default() };
    let served = Served::with(Server { configuration, ..Server::default() }, Arc::new(MemoryStore::new()));
    let (stops, done) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; CLIENTS]);
    std::thread::scope(|scope| {
        let (stops, done) = (&stops, &done);
        for (id, done) in done.iter().enumerate() {
            let mut client = served.client();
            scope.spawn(move || {
                for n in (1..).take_while(|_| !stops.load(Ordering::Acquire)) {
                    transaction(&mut client, id, n);
                    done.store(n, Ordering::SeqCst);
                }
            });
        }
        let stop = Stop(stops);
        let mut client = served.client();
        for round in 0..rounds {
            let before = [0, 1, 2].map(|id| done[id].load(Ordering::SeqCst));
            if round % 4 == 3 {
                assert_eq!(client.ask(&[b"SAVE"]).to_string(), "+OK");
            } else {
                client.ask(&[b"BGSAVE"]);
                while field(&mut client, "rdb_bgsave_in_progress") == "1" {
                    std::thread::sleep(Duration::from_millis(1));
                }
                assert_eq!(field(&mut client, "rdb_last_bgsave_status"), "ok");
            }
            let after = [0, 1, 2].map(|id| done[id].load(Ordering::SeqCst) + 1);
            let (saved, _, _) = served_from(&there.path().join("dump.rdb"));
            let mut reader = saved.client();
            for id in 0..CLIENTS {
                let found = last(&mut reader, id);
                assert!((before[id]..=after[id]).contains(&found), "client {id}: {found} is not between {} and {}", before[id], after[id]);
            }
        }
        drop(stop);
    });
}

/// Ends the clients, also when a check fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
