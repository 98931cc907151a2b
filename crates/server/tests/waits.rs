//! Clients that wait for random keys while others write to them are served when, and with the reply, that a real `redis-server` gives.

use crate::common::play::Play;
use crate::common::{Real, Served};
use std::net::SocketAddr;
use std::time::Duration;

const STEPS: usize = 600;
const CLIENTS: usize = 5;

/// `k` stands for a random key.
const WAITS: &[&str] = &[
    "BLPOP k k 0",
    "BRPOP k 0",
    "BLMOVE k k LEFT RIGHT 0",
    "BRPOPLPUSH k k 0",
    "BLMPOP 0 2 k k LEFT COUNT 2",
    "BZPOPMIN k k 0",
    "BZPOPMAX k 0",
    "BZMPOP 0 2 k k MAX COUNT 2",
];
/// Bars separate the commands of a transaction. Storing a sorted set over a value of another type is not among them: Redis overlooks that
/// somebody waits for it, this server does not. Nor is `SWAPDB`: it leaves open which of the many swapped keys is first.
const WRITES: &[&str] = &[
    "RPUSH k 1",
    "RPUSH k 1 2 3",
    "LPUSH k 1 2",
    "ZADD k 1 a",
    "ZADD k 1 a 2 b 3 c",
    "SET k v",
    "DEL k",
    "DEL k k",
    "RENAME k k",
    "LMOVE k k LEFT LEFT",
    "COPY k k REPLACE",
    "FLUSHDB",
    "MULTI|RPUSH k 1 2|RPUSH k 3|EXEC",
    "MULTI|RPUSH k 1|DEL k|RPUSH k 2|LPUSH k 3|EXEC",
    "MULTI|ZADD k 1 a|RPUSH k 1|BLPOP k k 0|EXEC",
];

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % n.max(1)
    }

    fn command(&mut self, shapes: &[&str]) -> String {
        let shape = shapes[self.below(shapes.len())];
        let words: Vec<String> = shape
            .split_inclusive([' ', '|'])
            .map(|word| word.replacen('k', &format!("key{}", self.below(4)), usize::from(word.len() < 3)))
            .collect();
        words.concat()
    }
}

fn has_reply(play: &mut Play, name: &str) -> bool {
    !play.client(name).is_silent(Duration::from_millis(1))
}

/// Reads the replies of clients that do not wait any more.
fn served(play: &mut Play, waiting: &mut Vec<String>, transcript: &mut Vec<String>) {
    if play.blocked() == waiting.len() {
        return;
    }
    let names = std::mem::take(waiting);
    for name in names {
        if has_reply(play, &name) {
            transcript.push(format!("    {name} {}", play.read(&name)));
        } else {
            waiting.push(name);
        }
    }
}

fn run(address: SocketAddr, protocol: &'static str, seed: u64) -> Vec<String> {
    let mut play = Play::new(address, protocol);
    let mut random = Random(seed);
    let (mut waiting, mut transcript): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for _ in 0..STEPS {
        let name = format!("client{}", random.below(CLIENTS));
        let (wait, write) = (random.command(WAITS), random.command(WRITES));
        if !waiting.contains(&name) && random.below(2) == 0 {
            transcript.push(format!("{name}: {wait}"));
            let before = play.blocked();
            play.send(&name, &wait);
            waiting.push(name.clone());
            while play.blocked() <= before && !has_reply(&mut play, &name) {}
        } else {
            transcript.push(format!("writer: {write}"));
            for command in write.split('|') {
                play.send("writer", command);
                let reply = play.read("writer");
                transcript.push(format!("    {reply}"));
            }
        }
        served(&mut play, &mut waiting, &mut transcript);
    }
    transcript
}

#[test]
fn whoever_waits_for_whatever_is_served_as_by_redis() {
    let (ours, real) = (Served::start(), Real::start());
    for (protocol, seed) in [("2", 1), ("3", 2)] {
        let ours = run(ours.address, protocol, seed);
        let Some(real) = &real else {
            eprintln!("not compared: there is no redis-server 7.0 here");
            continue;
        };
        let theirs = run(real.address(), protocol, seed);
        for (at, pair) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(pair.0, pair.1, "RESP{protocol}, seed {seed}, after\n{}", ours[at.saturating_sub(60)..at].join("\n"));
        }
        assert_eq!(ours.len(), theirs.len(), "RESP{protocol}, seed {seed}: one of them has more to say");
    }
}
