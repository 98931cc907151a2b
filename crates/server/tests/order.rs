//! Small collections have the order of a real `redis-server` 7.0 after any changes, and change to another form where its collections do.
//! Sets of strings are left out: 7.0 gives them no order.

use crate::common::commands::Random;
use crate::common::{Client, Real, Reply, Served, encode};

/// Number of commands in all, and between two comparisons of everything.
const COMMANDS: usize = 12_000;
const BETWEEN: usize = 15;
/// Sizes up to which a collection is small.
const SIZES: [usize; 4] = [12, 30, 40, 128];

/// Commands; the first 51 come more often than those behind them.
const LINES: &[&str] = &[
    "HSET h f v",
    "HSET h f v f v f v",
    "HSET h f long",
    "HSETNX h f v",
    "HINCRBY n f i",
    "HDEL h f",
    "HDEL h f f f",
    "HDEL n f",
    "SADD s i",
    "SADD s i i i i",
    "SADD other i i",
    "SREM s i",
    "SREM s i i",
    "SMOVE s other i",
    "SUNIONSTORE other s other",
    "SDIFFSTORE other s other",
    "ZADD z i f",
    "ZADD z i f i f i f",
    "ZINCRBY z 1 f",
    "ZREM z f",
    "ZREM z f f",
    "ZPOPMIN z",
    "ZPOPMAX z 2",
    "ZREMRANGEBYRANK z 1 1",
    "ZREMRANGEBYSCORE z i i",
    "ZADD z i long",
    "ZUNIONSTORE z 2 z s",
    "ZRANGEBYSCORE z i i LIMIT 1 3",
    "ZREVRANGEBYSCORE z i i",
    "ZCOUNT z i i",
    "ZRANK z f",
    "ZREVRANK z f",
    "LPUSH l v v",
    "RPUSH l v",
    "RPUSH l v v v",
    "LPOP l",
    "LPOP l 2",
    "RPOP l",
    "RPOP l 3",
    "LINSERT l BEFORE v v",
    "LINSERT l AFTER v v",
    "LREM l 1 v",
    "LREM l -2 v",
    "LREM l 0 v",
    "LSET l 0 v",
    "LSET l -1 long",
    "LTRIM l 1 -2",
    "LINDEX l -2",
    "LPOS l v COUNT 0",
    "RPOPLPUSH l l",
    "LMOVE l l LEFT RIGHT",
    "COPY h copy REPLACE",
    "RENAME copy h",
    "PEXPIRE h 10000000",
    "PERSIST h",
    "DEL h",
    "DEL s",
    "DEL z",
    "DEL l",
    "CONFIG SET hash-max-listpack-entries size",
    "CONFIG SET set-max-intset-entries size",
    "CONFIG SET zset-max-listpack-entries size",
    "CONFIG SET hash-max-listpack-value 64",
];

/// A command; some change the sizes up to which collections are small.
fn command(random: &mut Random) -> Vec<String> {
    let most = if random.below(20) == 0 { LINES.len() } else { 51 };
    let line = LINES[random.below(most)];
    let words = line.split(' ').map(|word| match word {
        "f" => format!("f{}", random.below(40)),
        "v" => ["a", "b", "cc", "", "-17", "90000000000"][random.below(6)].to_owned(),
        "i" => (random.below(50) as i64 - 20).to_string(),
        "long" => "x".repeat([64, 64, 64, 64, 64, 65][random.below(6)]),
        "size" => SIZES[random.below(SIZES.len())].to_string(),
        word => word.to_owned(),
    });
    words.collect()
}

/// Replies of both servers to a command.
fn ask(clients: &mut [Client; 2], line: &str) -> [Reply; 2] {
    let request = encode(&line.split(' ').collect::<Vec<_>>());
    clients.each_mut().map(|client| {
        client.send(&request);
        client.reply().unwrap_or_else(|| panic!("{line}: the connection was closed"))
    })
}

/// Compares the values of all keys. Where Redis has a hash table, elements are in no order.
fn compare_all(clients: &mut [Client; 2], shown: &[String]) -> usize {
    let what = || shown.join("\n");
    let mut in_order = 0;
    for (key, looks) in [
        ("h", &["HGETALL", "HKEYS", "HVALS"][..]),
        ("n", &["HGETALL"]),
        ("s", &["SMEMBERS"]),
        ("other", &["SMEMBERS"]),
        ("z", &["ZRANGE"]),
        ("l", &["LRANGE"]),
    ] {
        let [ours, theirs] = ask(clients, &format!("OBJECT ENCODING {key}")).map(|reply| reply.to_string());
        let has_order = !theirs.contains("hashtable");
        // Lists are of one form in Redis 7.0.
        assert!(ours == theirs || key == "l", "{key}: {ours}, not {theirs}\n{}", what());
        for look in looks {
            let all = if key == "z" || key == "l" { " 0 -1" } else { "" };
            let [ours, theirs] = ask(clients, &format!("{look} {key}{all}"));
            let [ours, theirs] = if has_order { [ours, theirs] } else { [ours, theirs].map(|reply| reply.sorted(*look == "HGETALL")) };
            assert!(ours == theirs, "{look} {key}\nours:   {ours}\ntheirs: {theirs}\n{}", what());
        }
        in_order += usize::from(has_order);
    }
    for line in ["HSCAN h 0 COUNT 1", "SSCAN s 0 COUNT 1", "ZSCAN z 0 COUNT 1", "SORT s BY nosort", "SUNION s other", "SINTER s other"] {
        // As the sets are.
        let key = line.split(' ').nth(1).unwrap_or_default();
        let has_table = |reply: &Reply| reply.to_string().contains("table") || reply.to_string().contains("skiplist");
        if ask(clients, &format!("OBJECT ENCODING {key}")).iter().chain(&ask(clients, "OBJECT ENCODING other")).any(has_table) {
            continue;
        }
        let [ours, theirs] = ask(clients, line);
        // More integers than any set of them may have come in no order.
        if matches!(&theirs, Reply::Many(_, members) if members.len() > SIZES[0] && line.starts_with("SUNION")) {
            continue;
        }
        assert!(ours == theirs, "{line}\nours:   {ours}\ntheirs: {theirs}\n{}", what());
    }
    in_order
}

#[test]
fn small_collections_have_the_order_of_redis() {
    let Some(real) = Real::start() else { return };
    let served = Served::start();
    let mut clients = [served.client(), real.client()];
    let (mut random, mut shown, mut in_order) = (Random::new(35), Vec::new(), 0);
    for number in 0..COMMANDS {
        let words = command(&mut random);
        shown.push(words.join(" "));
        let request = encode(&words);
        let [ours, theirs] = clients.each_mut().map(|client| {
            client.send(&request);
            client.reply().expect("an open connection")
        });
        assert!(ours == theirs, "ours:   {ours}\ntheirs: {theirs}\n{}", shown.join("\n"));
        if number % BETWEEN == 0 {
            shown.drain(..shown.len().saturating_sub(60));
            in_order += compare_all(&mut clients, &shown);
        }
    }
    assert!(in_order > COMMANDS / BETWEEN * 3, "{in_order} looks at collections that have an order");
}
