//! Replies do not depend on what is in memory: random commands run with hot keys, under a memory limit that evicts them often, and without.

use super::Talk;
use crate::command::configuration::Allowed;
use crate::testing::Random;
use sinterdb::WriteOptions;

const STEPS: usize = 60_000;

/// Shapes of commands. Words in lower case stand for random arguments: `k` a key, few of them frequent; `v` a value; `n` a number; `m` one
/// of a few words; `t` a time soon.
const SHAPES: &[&str] = &[
    "GET k",
    "GET k",
    "GET k",
    "GET k",
    "GET k",
    "MGET k k k",
    "STRLEN k",
    "GETRANGE k n n",
    "EXISTS k",
    "TYPE k",
    "TTL k",
    "OBJECT ENCODING k",
    "DUMP k",
    "SET k v",
    "SET k v",
    "SET k n",
    "SET k v KEEPTTL",
    "SET k v GET",
    "SET k v NX",
    "SET k v PX t",
    "SETRANGE k n m",
    "APPEND k m",
    "SETBIT k n 1",
    "INCR k",
    "INCRBY k n",
    "GETDEL k",
    "GETSET k v",
    "DEL k",
    "UNLINK k k",
    "EXPIRE k t",
    "PEXPIRE k t",
    "PERSIST k",
    "RENAME k k",
    "COPY k k REPLACE",
    "MOVE k 1",
    "HSET k m v",
    "HGET k m",
    "HDEL k m",
    "HLEN k",
    "RPUSH k v",
    "LPOP k",
    "LLEN k",
    "LRANGE k 0 -1",
    "SADD k m",
    "SREM k m",
    "SCARD k",
    "ZADD k n m",
    "ZREM k m",
    "ZRANGE k 0 -1",
    "XADD k * m v",
    "XLEN k",
    "RANDOMKEY",
    "SCAN 0",
    "DBSIZE",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH k",
    "SWAPDB 0 1",
    "SELECT 0",
    "SELECT 1",
    "PFADD k m",
    "PFCOUNT k",
];

fn line(random: &mut Random, shape: &str) -> String {
    let word = |random: &mut Random, word: &str| match word {
        "k" => format!("k{}", random.below(50) * random.below(50)),
        "v" => {
            let most = if random.below(50) == 0 { 6000 } else { [10, 100, 300][random.below(3)] };
            String::from_utf8(random.bytes(most, b"abc")).unwrap()
        }
        "n" => random.below(60).to_string(),
        "m" => ["a", "b", "c", "longer"][random.below(4)].into(),
        "t" => (1 + random.below(400)).to_string(),
        other => other.to_owned(),
    };
    shape.split(' ').map(|part| word(random, part)).collect::<Vec<_>>().join(" ")
}

#[test]
fn replies_are_the_same_with_hot_keys_and_without() {
    let mut talks = [0, 80 << 10].map(|bytes| {
        let mut talk = Talk::new();
        talk.server.configuration.debug_command = Allowed::Yes;
        talk.keyspace.keep_hot_bytes(bytes);
        talk
    });
    let mut sessions = [0, 1].map(|n: usize| talks[n].client(1));
    let mut random = Random(11);
    for step in 0..STEPS {
        let said = match random.below(2000) {
            0 => "FLUSHDB".to_owned(),
            1 if random.below(5) == 0 => "FLUSHALL".to_owned(),
            2..5 => "DEBUG RELOAD".to_owned(),
            _ => {
                let shape = SHAPES[random.below(SHAPES.len())];
                line(&mut random, shape)
            }
        };
        let replies = [0, 1].map(|n| talks[n].say(&mut sessions[n], &said));
        assert_eq!(replies[0], replies[1], "step {step}: {said}");
        let what = random.below(200);
        let passed = random.below(30) as u64;
        for talk in &mut talks {
            match what {
                // Drops the event-loop iteration.
                0 => talk.keyspace.discard(),
                1..20 => talk.keyspace.commit(&WriteOptions::default()).unwrap(),
                20 => assert!(talk.keyspace.remove_expired(10).unwrap() <= 10),
                _ => {}
            }
            talk.keyspace.set_now(talk.keyspace.now() + passed);
        }
    }
    let digests = [0, 1].map(|n| talks[n].say(&mut sessions[n], "DEBUG DIGEST"));
    assert_eq!(digests[0], digests[1]);
    let [without, with] = [0, 1].map(|n| talks[n].keyspace.memory());
    assert_eq!((without.hot, without.hot_counts.hits), (0, 0));
    assert!(with.hot <= 80 << 10 && with.hot_counts.hits > 3_000 && with.hot_entries > 20, "{with:?}");
}

/// A long string's type and deadline are known, and it can be replaced or removed, without a read from the engine, which would read all of
/// it.
#[test]
fn long_strings_are_known_without_being_read() {
    let mut talk = Talk::new();
    talk.keyspace.keep_hot_bytes(1 << 20);
    let mut session = talk.client(1);
    let (first, second) = ("a".repeat(100_000), "b".repeat(50_000));
    let steps = [
        (format!("SET k {first} EX 1000"), "+OK|".to_owned()),
        ("EXISTS k".into(), ":1|".into()),
        ("TYPE k".into(), "+string|".into()),
        ("TTL k".into(), ":1000|".into()),
        (format!("SET k {second}"), "+OK|".into()),
        ("TTL k".into(), ":-1|".into()),
        ("DEL k".into(), ":1|".into()),
    ];
    for (at, (said, expected)) in steps.iter().enumerate() {
        let before = talk.keyspace.memory().hot_counts;
        assert_eq!(talk.say(&mut session, said), *expected);
        talk.keyspace.commit(&WriteOptions::default()).unwrap();
        let after = talk.keyspace.memory().hot_counts;
        assert_eq!(after.misses - before.misses, u64::from(at == 0), "{}", &said[..said.len().min(20)]);
    }
    for (said, expected) in [
        (format!("SET k {first}"), "+OK|".to_owned()),
        ("STRLEN k".into(), ":100000|".into()),
        ("APPEND k x".into(), ":100001|".into()),
        ("GETRANGE k 99999 -1".into(), "$2|ax|".into()),
        ("EXPIRE k 100".into(), ":1|".into()),
        ("STRLEN k".into(), ":100001|".into()),
        ("RENAME k l".into(), "+OK|".into()),
        ("SETBIT l 0 0".into(), ":0|".into()),
        ("GETRANGE l 99999 -1".into(), "$2|ax|".into()),
    ] {
        assert_eq!(talk.say(&mut session, &said), expected);
        talk.keyspace.commit(&WriteOptions::default()).unwrap();
    }
}
