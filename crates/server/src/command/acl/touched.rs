//! No command touches a key that the table of key specifications does not name: that table decides what rules allow.
//!
//! Requests of every command that has keys are changed at random, so that options stand where keys do and the other way round, and are run
//! by a user who may do everything. The keyspace reports which keys were looked up in vain or changed. Each must be a key found among the
//! arguments, and each changed one must be a key that the request was said to write.

use crate::command::tests::Talk;
use crate::command::units::{Unit, Units};
use crate::command::{Ended, execute, keyspecs};
use crate::keyspace::Change;
use crate::testing::Random;

/// At least one request of every command that has keys.
const REQUESTS: &[&str] = &[
    "append a x",
    "bitcount a 0 1 byte",
    "bitfield a set u8 0 1 get u8 0 incrby u8 0 1",
    "bitfield_ro a get u8 0",
    "bitop and a b c",
    "bitpos a 1 0 1 bit",
    "blmove a b left right 1",
    "blmpop 1 2 a b left count 1",
    "blpop a b 1",
    "brpop a b 1",
    "brpoplpush a b 1",
    "bzmpop 1 2 a b min count 1",
    "bzpopmax a b 1",
    "bzpopmin a b 1",
    "copy a b db 1 replace",
    "decr a",
    "decrby a 1",
    "del a b",
    "delex a ifeq b",
    "delifeq a b",
    "digest a",
    "dump a",
    "exists a b",
    "expire a 10 nx",
    "expireat a 5000 gt",
    "expiretime a",
    "geoadd a nx 1 2 b",
    "geodist a b c km",
    "geohash a b",
    "geopos a b",
    "georadius a 1 2 3 km withdist count 1 any asc store b storedist c",
    "georadius_ro a 1 2 3 km withcoord",
    "georadiusbymember a b 3 km count 1 store c storedist d",
    "georadiusbymember_ro a b 3 km",
    "geosearch a fromlonlat 1 2 bybox 3 4 km asc",
    "geosearchstore a b frommember c byradius 1 m storedist",
    "get a",
    "getbit a 1",
    "getdel a",
    "getex a ex 10",
    "getrange a 0 1",
    "getset a b",
    "hdel a b",
    "hexists a b",
    "hexpire a 10 nx fields 1 b",
    "hexpireat a 5000 fields 2 b c",
    "hexpiretime a fields 1 b",
    "hget a b",
    "hgetall a",
    "hgetdel a fields 1 b",
    "hgetex a ex 10 fields 1 b",
    "hincrby a b 1",
    "hincrbyfloat a b 1",
    "hkeys a",
    "hlen a",
    "hmget a b c",
    "hmset a b c",
    "hpersist a fields 1 b",
    "hpexpire a 10 gt fields 1 b",
    "hpexpireat a 5000000 fields 1 b",
    "hpexpiretime a fields 1 b",
    "hpttl a fields 1 b",
    "hrandfield a 1 withvalues",
    "hscan a 0 match b count 1",
    "hset a b c",
    "hsetex a fnx px 10 fields 1 b c",
    "hsetnx a b c",
    "hstrlen a b",
    "httl a fields 1 b",
    "hvals a",
    "incr a",
    "incrby a 1",
    "incrbyfloat a 1",
    "lcs a b idx len",
    "lindex a 0",
    "linsert a before b c",
    "llen a",
    "lmove a b left right",
    "lmpop 2 a b left count 1",
    "lpop a 1",
    "lpos a b rank 1 count 2",
    "lpush a b",
    "lpushx a b",
    "lrange a 0 -1",
    "lrem a 1 b",
    "lset a 0 b",
    "ltrim a 0 1",
    "memory usage a samples 1",
    "mget a b",
    "move a 1",
    "mset a b c d",
    "msetex 2 a 1 b 2 nx ex 10",
    "msetnx a b c d",
    "object encoding a",
    "object freq a",
    "object idletime a",
    "object refcount a",
    "persist a",
    "pexpire a 1000 xx",
    "pexpireat a 5000000 lt",
    "pexpiretime a",
    "pfadd a b",
    "pfcount a b",
    "pfdebug getreg a",
    "pfmerge a b c",
    "psetex a 1000 b",
    "pttl a",
    "rename a b",
    "renamenx a b",
    "restore a 0 b replace",
    "restore-asking a 0 b replace",
    "rpop a 1",
    "rpoplpush a b",
    "rpush a b",
    "rpushx a b",
    "sadd a b",
    "scard a",
    "sdiff a b",
    "sdiffstore a b c",
    "set a b nx get ex 10",
    "set a b ifeq c get",
    "setbit a 1 1",
    "setex a 10 b",
    "setnx a b",
    "setrange a 1 b",
    "sinter a b",
    "sintercard 2 a b limit 1",
    "sinterstore a b c",
    "sismember a b",
    "smembers a",
    "smismember a b",
    "smove a b c",
    "sort a limit 0 1 alpha desc store b",
    "sort_ro a limit 0 1 alpha",
    "spop a 1",
    "srandmember a 1",
    "srem a b",
    "sscan a 0 match b",
    "strlen a",
    "substr a 0 1",
    "sunion a b",
    "sunionstore a b c",
    "touch a b",
    "ttl a",
    "type a",
    "unlink a b",
    "watch a b",
    "xack a b 0-1",
    "xackdel a b delref ids 1 1-1",
    "xadd a nomkstream maxlen 5 limit 1 * b c",
    "xautoclaim a b c 0 0 count 1 justid",
    "xclaim a b c 0 0-1 idle 1 force",
    "xdel a 0-1",
    "xdelex a acked ids 1 1-1",
    "xgroup create a b 0 mkstream",
    "xgroup createconsumer a b c",
    "xgroup delconsumer a b c",
    "xgroup destroy a b",
    "xgroup setid a b 0",
    "xinfo consumers a b",
    "xinfo groups a",
    "xinfo stream a full count 1",
    "xlen a",
    "xpending a b idle 1 - + 1 c",
    "xrange a - + count 1",
    "xread count 1 block 1 streams a b 0 0",
    "xreadgroup group b c count 1 noack streams a b > 0",
    "xreadgroup count 1 group streams streams streams a >",
    "xrevrange a + - count 1",
    "xsetid a 5-5 entriesadded 1",
    "xtrim a maxlen 1",
    "zadd a nx ch 1 b",
    "zcard a",
    "zcount a 0 1",
    "zdiff 2 a b withscores",
    "zdiffstore a 2 b c",
    "zincrby a 1 b",
    "zinter 2 a b weights 1 2 aggregate max",
    "zintercard 2 a b limit 1",
    "zinterstore a 2 b c weights 1 2 aggregate max",
    "zlexcount a - +",
    "zmpop 2 a b min count 1",
    "zmscore a b",
    "zpopmax a 1",
    "zpopmin a 1",
    "zrandmember a 1 withscores",
    "zrange a 0 1 byscore limit 0 1",
    "zrangebylex a - +",
    "zrangebyscore a 0 1",
    "zrangestore a b 0 1 byscore limit 0 1",
    "zrank a b",
    "zrem a b",
    "zremrangebylex a - +",
    "zremrangebyrank a 0 1",
    "zremrangebyscore a 0 1",
    "zrevrange a 0 1",
    "zrevrangebylex a + -",
    "zrevrangebyscore a 1 0",
    "zrevrank a b",
    "zscan a 0 match b",
    "zscore a b",
    "zunion 2 a b weights 1 2 aggregate max",
    "zunionstore a 2 b c weights 1 2 aggregate max",
];

/// Words put among the arguments: keys, numbers, and options of commands whose keys have no fixed place.
const WORDS: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "a",
    "b",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "+2",
    "02",
    " 1",
    "1.5",
    "nan",
    "*",
    "$",
    ">",
    "-",
    "+",
    "5-5",
    "(1",
    "[a",
    "",
    "store",
    "STORE",
    "storedist",
    "STREAMS",
    "streams",
    "group",
    "count",
    "COUNT",
    "limit",
    "block",
    "noack",
    "weights",
    "aggregate",
    "withscores",
    "left",
    "right",
    "min",
    "max",
    "km",
    "m",
    "any",
    "asc",
    "nx",
    "xx",
    "get",
    "ex",
    "replace",
    "db",
    "not",
    "alpha",
];

/// Random changes tried for each request.
const CHANGES: usize = 150;

fn change(random: &mut Random, words: &mut Vec<&str>) {
    let from = if matches!(words[0], "memory" | "object" | "xgroup" | "xinfo") { 2 } else { 1 };
    for _ in 0..random.below(4) {
        let word = WORDS[random.below(WORDS.len())];
        let (at, behind) = (from + random.below(words.len() - from), from + random.below(words.len() + 1 - from));
        match random.below(4) {
            _ if words.len() == from => words.push(word),
            0 => words.insert(behind, word),
            1 => drop(words.remove(at)),
            2 => words.insert(behind, words[at]),
            _ => words[at] = word,
        }
    }
}

fn unit(words: &[&[u8]]) -> Option<&'static Unit> {
    let units = <&Units>::default();
    Some(units.get(units.resolve(units.find(words.first()?)?, words)?))
}

/// Gives some of the keys a value.
fn fill(talk: &mut Talk, random: &mut Random) {
    let mut session = talk.client(1);
    talk.say(&mut session, "FLUSHALL");
    for key in ["a", "b", "c", "d"] {
        let make = ["SET k 1", "RPUSH k a b", "HSET k a b", "SADD k a b c", "ZADD k 1 a 2 b", "XADD k 5-1 a b", "GEOADD k 1 2 b", "PING"];
        let line = make[random.below(make.len())].replace('k', key);
        talk.say(&mut session, &line);
        if line.starts_with("XADD") {
            talk.say(&mut session, &format!("XGROUP CREATE {key} b 0"));
        }
    }
}

#[test]
fn no_command_touches_a_key_that_is_not_named() {
    let mut talk = Talk::new();
    let mut random = Random(7);
    let mut run = 0;
    for request in REQUESTS {
        for _ in 0..CHANGES {
            let mut words: Vec<&str> = request.split(' ').collect();
            change(&mut random, &mut words);
            let line = words.join(" ");
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            // Keys that `SORT` finds in data are not among its arguments; another test covers them.
            let Some(unit) = unit(&words).filter(|_| !line.starts_with("sort") || !line.contains("get")) else { continue };
            let keys = keyspecs::keys(unit.command, unit.specs, &words).unwrap_or_default();
            if run % 8 == 0 {
                fill(&mut talk, &mut random);
            }
            run += 1;
            let mut session = talk.client(1);
            talk.keyspace.note_changes(true);
            let mut out = Vec::new();
            let ended = execute(&mut talk.keyspace, &mut talk.server, &mut session, &words, &mut out);
            assert_ne!(ended, Ended::EngineFailed, "{line}");
            talk.keyspace.unwait(1);
            talk.keyspace.unwatch(1);
            for (_, touched, change) in talk.keyspace.take_changes() {
                let named: Vec<_> = keys.iter().filter(|key| words[key.position] == touched).collect();
                let (name, said) = (String::from_utf8_lossy(&touched).into_owned(), String::from_utf8_lossy(&out).into_owned());
                assert!(!named.is_empty(), "{line}: key {name:?} is not named, {change:?}, {said:?}");
                // Looking up an expired key removes it, which also a reader may do.
                let is_written = matches!(change, Change::Made | Change::Changed | Change::Removed);
                assert!(!is_written || named.iter().any(|key| key.is_written()), "{line}: key {name:?} is changed, {change:?}, {said:?}");
            }
        }
    }
    assert!(run > REQUESTS.len() * CHANGES / 2, "{run}");
}

/// Every command with keys is among the requests above, and its keys are found in the request as written there.
#[test]
fn every_command_with_keys_is_tried() {
    // Commands that run scripts are refused, whatever keys they have, and `MIGRATE` would look for servers of any name.
    let untried = ["eval", "fcall", "migrate"];
    let is_tried = |unit: &&Unit| !unit.specs.is_empty() && !untried.iter().any(|start| unit.name.starts_with(start));
    for unit in <&Units>::default().all().iter().filter(is_tried) {
        if unit.name.starts_with("sp") && unit.name.ends_with("publish") || unit.name.ends_with("subscribe") {
            continue;
        }
        let is_it = |request: &&&str| {
            let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            self::unit(&words).is_some_and(|found| std::ptr::eq(found, unit))
        };
        let request = REQUESTS.iter().find(is_it).unwrap_or_else(|| panic!("{} is not tried", unit.name));
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        assert!(unit.takes(words.len()), "{request}");
        assert!(keyspecs::keys(unit.command, unit.specs, &words).is_some_and(|keys| !keys.is_empty()), "{request}");
    }
}
