//! Chains of three servers, Redis's and this one in turns: after every shape of commands, and after writers that go on while the chain is
//! made, all three hold equal data. Needs `redis-server` 7.0 on the path, and says so where there is none. A failure prints the seed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::append::any;
use crate::common::commands::Random;
use crate::common::contents::{NOT_IN_STREAMS, ok, same};
use crate::common::{Client, Real, Reply, Served, encode};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Rounds of commands per chain, and commands per round.
const ROUNDS: usize = 6;
const COMMANDS: usize = 700;

/// The servers of a chain, from the primary on.
const ORDERS: [[Kind; 3]; 2] = [[Kind::Redis, Kind::Ours, Kind::Redis], [Kind::Ours, Kind::Redis, Kind::Ours]];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ours,
    Redis,
}

/// A server of a chain.
enum Link {
    Ours(Served),
    Redis(Real),
}

impl Link {
    /// Starts a server; `None`: there is no Redis.
    fn start(kind: Kind) -> Option<Link> {
        Some(match kind {
            Kind::Ours => Link::Ours(Served::start()),
            Kind::Redis => Link::Redis(Real::with(&[
                "--save",
                "",
                "--appendonly",
                "no",
                "--repl-diskless-sync-delay",
                "0",
                "--repl-backlog-size",
                "64mb",
            ])?),
        })
    }

    fn address(&self) -> SocketAddr {
        match self {
            Link::Ours(served) => served.address,
            Link::Redis(real) => real.address(),
        }
    }

    fn client(&self) -> Client {
        Client::new(self.address())
    }

    /// Makes the server a replica of another one, without waiting for it.
    fn follow(&self, primary: &Link) {
        ok(&mut self.client(), &[b"REPLICAOF", b"127.0.0.1", primary.address().port().to_string().as_bytes()]);
    }

    /// A field of `INFO`.
    fn field(&self, section: &str, name: &str) -> String {
        let Reply::One(text) = self.client().ask(&[b"INFO", section.as_bytes()]) else { panic!("no text") };
        let text = String::from_utf8(text).unwrap();
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().to_owned()
    }
}

fn started(order: [Kind; 3]) -> Option<[Link; 3]> {
    let [first, second, third] = order.map(Link::start);
    let all = first.zip(second).zip(third).map(|((first, second), third)| [first, second, third]);
    if all.is_none() {
        eprintln!("skipped: there is no redis-server 7.0 here");
    }
    all
}

/// Waits until all links are up and all servers are at one offset.
fn at_rest(chain: &[Link], what: &str) {
    let mut seen = String::new();
    for _ in 0..3000 {
        let states: Vec<String> = chain[1..].iter().map(|link| link.field("replication", "master_link_status")).collect();
        let offsets: Vec<String> = chain.iter().map(|link| link.field("replication", "master_repl_offset")).collect();
        if states.iter().all(|state| state == "up") && offsets.iter().all(|offset| *offset == offsets[0]) {
            return;
        }
        seen = format!("links {states:?}, offsets {offsets:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}: not at rest: {seen}");
}

/// Checks that all servers have the data and the functions of the first one.
fn equal(chain: &[Link], what: &str) {
    at_rest(chain, what);
    let functions = |link: &Link| link.client().ask(&[b"FUNCTION", b"LIST", b"WITHCODE"]);
    for (n, link) in chain.iter().enumerate().skip(1) {
        same(&mut link.client(), &mut chain[0].client(), NOT_IN_STREAMS, &format!("{what}, server {n}"));
        assert_eq!(functions(link), functions(&chain[0]), "{what}, server {n}");
    }
}

/// Requests that no shape has: scripts, functions, strings that go in parts. `long` stands for 5 MiB.
const MORE: &[&[&str]] = &[
    &["EVAL", "redis.call('SET', KEYS[1], ARGV[1]) redis.call('APPEND', KEYS[1], 'x') return redis.call('TIME')[1]", "1", "scripted", "v"],
    &["EVAL", "for n = 1, 3 do redis.call('SADD', KEYS[1], n) end redis.call('SPOP', KEYS[1])", "1", "popped"],
    &["EVAL", "redis.call('SELECT', 5) redis.call('INCR', KEYS[1])", "1", "elsewhere"],
    &["EVAL", "redis.call('SET', KEYS[1], 1) return redis.call('LPUSH', KEYS[1], 1)", "1", "half"],
    &["FUNCTION", "LOAD", "REPLACE", "#!lua name=l\nredis.register_function('f', function(k, a) return redis.call('SET', k[1], a[1]) end)"],
    &["FCALL", "f", "1", "called", "value"],
    &["FUNCTION", "FLUSH"],
    &["SET", "parts", "long"],
    &["APPEND", "parts", "long"],
    &["SETRANGE", "parts", "100", "long"],
    &["COPY", "parts", "parts of another", "REPLACE"],
    &["GETDEL", "parts"],
    &["PUBLISH", "channel", "message"],
];

/// Sends so many commands, some at once, and reads all replies. `DEBUG` is left out: Redis does not replicate what it does.
fn send(client: &mut Client, random: &mut Random, count: usize) {
    let long = "x".repeat(5 << 20);
    let mut sent = 0;
    while sent < count {
        let mut commands: Vec<Vec<String>> = (0..=random.below(30)).map(|_| any(random)).filter(|command| command[0] != "DEBUG").collect();
        if random.below(8) == 0 {
            let more = MORE[random.below(MORE.len())].iter().map(|word| if *word == "long" { long.clone() } else { (*word).to_owned() });
            commands.push(more.collect());
        }
        client.send(&commands.iter().flat_map(|command| encode(command)).collect::<Vec<u8>>());
        commands.iter().for_each(|command| assert!(client.reply().is_some(), "{:?}", command[0]));
        sent += commands.len();
    }
    client.ask(&[b"DISCARD"]);
}

/// The second server follows from the start, the third one after two rounds; later each link is cut once, and goes on where it was.
#[test]
fn every_shape_goes_through_chains() {
    for (seed, order) in (600..).zip(ORDERS) {
        let Some(chain) = started(order) else { return };
        chain[1].follow(&chain[0]);
        let (mut random, mut client) = (Random::new(seed), chain[0].client());
        for round in 0..ROUNDS {
            let what = format!("{order:?}, seed {seed}, round {round}");
            if round == 2 {
                chain[2].follow(&chain[1]);
            }
            let full_syncs = || [&chain[0], &chain[1]].map(|link| link.field("stats", "sync_full"));
            let fulls = full_syncs();
            if round >= 3 {
                at_rest(&chain, &what);
                chain[round % 2].client().ask(&[b"CLIENT", b"KILL", b"TYPE", b"replica"]);
            }
            send(&mut client, &mut random, COMMANDS);
            // What is about to end has ended on each server that is asked.
            std::thread::sleep(Duration::from_millis(40));
            equal(if round < 2 { &chain[..2] } else { &chain }, &what);
            if round >= 3 {
                assert_eq!(full_syncs(), fulls, "{what}: full synchronisations");
            }
        }
    }
}

/// Two clients write while the chain is made, turned round its middle, and cut.
#[test]
fn chains_are_made_while_clients_write() {
    for (seed, order) in (700..).zip(ORDERS) {
        let Some(chain) = started(order) else { return };
        let goes_on = AtomicBool::new(true);
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (goes_on, primary) = (&goes_on, &chain[0]);
                scope.spawn(move || {
                    let (mut random, mut client) = (Random::new(seed + 50 * writer), primary.client());
                    while goes_on.load(Ordering::Relaxed) {
                        send(&mut client, &mut random, 100);
                    }
                });
            }
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let up = |link: &Link, what: &str| {
                    let is_up = (0..3000).any(|_| {
                        std::thread::sleep(Duration::from_millis(20));
                        link.field("replication", "master_link_status") == "up"
                    });
                    assert!(is_up, "{order:?}, seed {seed}: {what}");
                };
                chain[1].follow(&chain[0]);
                chain[2].follow(&chain[1]);
                up(&chain[1], "the second server");
                up(&chain[2], "the third server");
                // The last server goes to the primary and back: its offset is known at both.
                chain[2].follow(&chain[0]);
                up(&chain[2], "the third server at the primary");
                chain[2].follow(&chain[1]);
                up(&chain[2], "the third server, back");
                chain[0].client().ask(&[b"CLIENT", b"KILL", b"TYPE", b"replica"]);
                up(&chain[1], "the second server after a cut");
            }));
            goes_on.store(false, Ordering::Relaxed);
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        std::thread::sleep(Duration::from_millis(40));
        equal(&chain, &format!("{order:?}, seed {seed}"));
    }
}
