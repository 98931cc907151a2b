//! The limit of all data: which requests it refuses, beside a real `redis-server`; which keys are evicted, and who is told.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::contents::{field, ok};
use crate::common::{Client, Real, Reply, Served, encode};
use sinter_server::command::{Configuration, Server};
use sinter_storage::store::MemoryStore;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

fn one(text: &str) -> Reply {
    Reply::One(text.as_bytes().to_vec())
}

fn set(client: &mut Client, name: &str, value: &str) {
    ok(client, &[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()]);
}

/// A number in `INFO`.
fn info(client: &mut Client, name: &str) -> u64 {
    let Reply::One(text) = client.ask(&[b"INFO", b"everything"]) else { panic!("no text") };
    let text = String::from_utf8(text).unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap().trim().parse().unwrap()
}

/// Waits until the data are within the limit.
fn until_within(client: &mut Client, limit: u64) {
    while info(client, "used_data") > limit {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Lines of clients `CLIENT: COMMAND ..` before the limit is set, and behind it. `␣` is a blank in a word, `␊` the end of a line, `LIMIT`
/// the name of the limit.
const BEFORE: &[&str] = &[
    "a: SET k v",
    "a: SET n 1",
    "a: SET gone 1",
    "a: RPUSH l a b c",
    "a: HSET h f 1",
    "a: XADD x 1-1 f v",
    "a: FUNCTION LOAD #!lua␣name=lib␊redis.register_function('plain',function()␣return␣redis.call('set','k','f')␣end)␊\
     redis.register_function{function_name='reads',callback=function()␣return␣redis.call('get','k')␣end,flags={'no-writes'}}␊\
     redis.register_function{function_name='adds',callback=function()␣return␣redis.call('set','k','f')␣end,flags={'allow-oom'}}",
    "adds: MULTI",
    "adds: SET k queued",
    "adds: GET k",
    "reads: MULTI",
    "reads: GET k",
    "reads: DEL none",
    "limit: MULTI",
    "limit: CONFIG SET LIMIT 0",
    "limit: EVAL return␣redis.call('set','k','6') 0",
    "limit: CONFIG SET LIMIT 1",
    "limit: EVAL return␣redis.call('set','k','7') 0",
    "flush: MULTI",
    "flush: FLUSHALL",
    "flush: EVAL return␣redis.call('set','k','8') 0",
    "unknown: MULTI",
    "unknown: SCRIPT LOAD #!lua␊return␣redis.call('set','k','5')",
    "unknown: EVALSHA 55b6c7c38fdd11684c31f38f96b912e56b4676d0 0",
];
const BEYOND: &[&str] = &[
    "adds: EXEC",
    "adds: EXEC",
    "reads: EXEC",
    "a: SET k w",
    "a: GET k",
    "a: SET k",
    "a: NOSUCH",
    "a: APPEND k x",
    "a: INCR n",
    "a: GETSET k x",
    "a: SETRANGE k 1 x",
    "a: SETBIT k 1 1",
    "a: GETEX k",
    "a: EXPIRE k 100",
    "a: PERSIST k",
    "a: RENAME n m",
    "a: COPY k c",
    "a: LPUSH l a",
    "a: LPOP l",
    "a: LREM l 0 b",
    "a: LTRIM l 0 0",
    "a: LMOVE l l LEFT LEFT",
    "a: BLMOVE l l LEFT LEFT 0",
    "a: BLPOP l 0",
    "a: SADD s a",
    "a: HSET h f 2",
    "a: HDEL h none",
    "a: ZADD z 1 a",
    "a: GEOADD g 1 2 a",
    "a: PFADD p a",
    "a: PFCOUNT p",
    "a: XADD x 2-1 f v",
    "a: XDEL x 9-9",
    "a: XGROUP CREATE x g $",
    "a: XGROUP DESTROY x g",
    "a: SORT l STORE d",
    "a: RESTORE r 0 x",
    "a: PUBLISH c x",
    "a: EXISTS k",
    "a: DEL gone",
    "a: MULTI",
    "a: GET k",
    "a: PING",
    "a: EXEC",
    "a: MULTI",
    "a: EXEC",
    "a: MULTI",
    "a: DISCARD",
    "a: MULTI",
    "a: RESET",
    "a: WATCH k",
    "a: UNWATCH",
    "a: EVAL return␣redis.call('get','k') 0",
    "a: EVAL return␣redis.call('set','k','2') 0",
    "a: EVAL return␣redis.pcall('set','k','2')['err'] 0",
    "a: EVAL redis.call('del','k2')␣return␣redis.call('set','k','3') 0",
    "a: EVAL redis.pcall('set','k','2')␣redis.call('del','k2')␣return␣redis.call('set','k','4') 0",
    "a: EVAL_RO return␣redis.call('get','k') 0",
    "a: EVAL #!lua␊return␣redis.call('get','k') 0",
    "a: EVAL #!lua␣flags=no-writes␊return␣redis.call('get','k') 0",
    "a: EVAL_RO #!lua␣flags=no-writes␊return␣redis.call('get','k') 0",
    "a: EVAL_RO #!lua␊return␣redis.call('get','k') 0",
    "a: EVAL #!lua␣flags=allow-oom␊return␣redis.call('set','k','5') 0",
    "a: EVAL #!lua␣flags=allow-oom,no-writes␊return␣redis.call('set','k','5') 0",
    "a: FCALL plain 0",
    "a: FCALL reads 0",
    "a: FCALL_RO reads 0",
    "a: FCALL adds 0",
    "a: FUNCTION LOAD REPLACE #!lua␣name=lib␊redis.register_function('f',function()␣end)",
    "a: SCRIPT LOAD return␣1",
    "unknown: EXEC",
    "limit: EXEC",
    "a: GET k",
    "a: DBSIZE",
    "a: OBJECT FREQ k",
    "flush: EXEC",
    "a: DBSIZE",
];

/// Replies of a server to all lines.
fn transcript(address: std::net::SocketAddr, limit: &str) -> Vec<String> {
    let mut clients = std::collections::BTreeMap::new();
    let mut ask = |line: &str| {
        let (name, command) = line.split_once(": ").unwrap();
        let client = clients.entry(name.to_owned()).or_insert_with(|| Client::new(address));
        let plain = |word: &str| word.replace('␣', " ").replace('␊', "\n").replace("LIMIT", limit);
        let words: Vec<String> = command.split(' ').map(plain).collect();
        let reply = client.ask(&words.iter().map(String::as_bytes).collect::<Vec<_>>());
        format!("{line}\n  {reply}")
    };
    let mut all: Vec<String> = BEFORE.iter().map(|line| ask(line)).collect();
    ask(&format!("control: CONFIG SET {limit} 1"));
    all.extend(BEYOND.iter().map(|line| ask(line)));
    ask(&format!("control: CONFIG SET {limit} 0"));
    all.extend(["a: SET k free", "a: GET k"].map(&mut ask));
    all
}

#[test]
fn requests_beyond_the_limit_are_refused_as_in_redis() {
    let served = Served::start();
    let ours = transcript(served.address, "maxdata");
    let told = |line: &str| ours.iter().find_map(|said| said.strip_prefix(line)).unwrap().trim();
    assert_eq!(told("a: SET k w"), "-OOM command not allowed when used memory > \\'maxmemory\\'.");
    assert_eq!(told("a: FCALL plain 0"), told("a: SET k w"));
    let Some(real) = Real::start() else {
        eprintln!("not compared: there is no redis-server 7.0 here");
        return;
    };
    let theirs = transcript(real.address(), "maxmemory");
    let different: Vec<String> =
        ours.iter().zip(&theirs).filter(|(a, b)| a != b).map(|(ours, theirs)| format!("ours: {ours}\ntheirs: {theirs}")).collect();
    assert!(different.is_empty(), "{} differences:\n{}", different.len(), different.join("\n"));
}

/// With a policy that finds no key, requests are refused, too, and none is while keys can be evicted.
#[test]
fn what_cannot_be_evicted_is_refused() {
    let served = Served::start();
    let mut client = served.client();
    set(&mut client, "maxdata-policy", "volatile-lru");
    ok(&mut client, &[b"SET", b"k", &[b'x'; 1000]]);
    set(&mut client, "maxdata", "1000");
    let full = one("-OOM command not allowed when used memory > 'maxmemory'.");
    assert_eq!(client.ask(&[b"SET", b"other", b"1"]), full);
    set(&mut client, "maxdata-policy", "allkeys-lru");
    until_within(&mut client, 1000);
    ok(&mut client, &[b"SET", b"other", b"1"]);
    assert_eq!((client.ask(&[b"EXISTS", b"k"]), info(&mut client, "evicted_keys")), (one(":0"), 1));
    set(&mut client, "maxdata-policy", "volatile-ttl");
    ok(&mut client, &[b"SET", b"k", &[b'x'; 1000], b"EX", b"1000"]);
    until_within(&mut client, 1000);
    assert_eq!(client.ask(&[b"KEYS", b"*"]).to_string(), "*1($other )");
    assert!(info(&mut client, "current_eviction_exceeded_time") == 0 && info(&mut client, "maxdata") == 1000);
}

/// Each evicted key is an event, an invalidation for who has read it, and a `DEL` in the log, from which a real server knows what is left.
#[test]
fn evictions_are_told_to_everybody() {
    const KEYS: usize = 3_000;
    let directory = tempfile::tempdir().unwrap();
    let append = directory.path().to_str().unwrap().to_owned();
    let configuration = Configuration { directory: append, append_only: true, ..Configuration::default() };
    let served = Served::with(Server { configuration, ..Server::default() }, Arc::new(MemoryStore::new()));
    let (mut client, mut listener, mut reader) = (served.client(), served.client(), served.client());
    set(&mut client, "notify-keyspace-events", "Ee");
    while field(&mut client, "aof_rewrite_in_progress") == "1" {
        std::thread::sleep(Duration::from_millis(5));
    }
    listener.ask(&[b"SUBSCRIBE", b"__keyevent@0__:evicted"]);
    reader.ask(&[b"HELLO", b"3"]);
    reader.ask(&[b"CLIENT", b"TRACKING", b"ON"]);
    let names: Vec<String> = (0..KEYS).map(|n| format!("key{n:04}")).collect();
    for name in &names {
        client.send(&encode(&["SET", name, &"x".repeat(93)]));
    }
    for _ in &names {
        assert_eq!(client.reply(), Some(one("+OK")));
    }
    for name in &names {
        reader.ask(&[b"GET", name.as_bytes()]);
    }
    set(&mut client, "maxdata-policy", "allkeys-random");
    set(&mut client, "maxdata", "100000");
    until_within(&mut client, 100_000);
    let left: BTreeSet<String> = names.iter().filter(|name| client.ask(&[b"EXISTS", name.as_bytes()]) == one(":1")).cloned().collect();
    assert_eq!((left.len(), info(&mut client, "evicted_keys"), info(&mut client, "used_data")), (1_000, 2_000, 100_000));
    let (mut events, mut invalidated) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..2_000 {
        let Some(Reply::Many(_, message)) = listener.reply() else { panic!("no event") };
        events.insert(message[2].to_string()[1..].to_owned());
    }
    while invalidated.len() < 2_000 {
        let told = reader.reply().unwrap().to_string();
        let key = told.strip_prefix(">2($invalidate *1($").and_then(|rest| rest.strip_suffix(" ) )"));
        invalidated.insert(key.unwrap_or_else(|| panic!("{told}")).to_owned());
    }
    let gone: BTreeSet<String> = names.iter().filter(|name| !left.contains(*name)).cloned().collect();
    assert_eq!((&events, &invalidated), (&gone, &gone));
    drop(served);
    let Some(real) = Real::with(&["--save", "", "--dir", directory.path().to_str().unwrap(), "--appendonly", "yes"]) else { return };
    let mut real = real.client();
    assert!(names.iter().all(|name| (real.ask(&[b"EXISTS", name.as_bytes()]) == one(":1")) == left.contains(name)));
}

/// Whatever clients write at once, data are hardly larger than the limit, and the number is right at the next start.
#[test]
fn data_stay_within_the_limit_under_a_load() {
    const LIMIT: u64 = 4 << 20;
    let store = Arc::new(MemoryStore::new());
    let served = Served::with(Server::default(), store.clone());
    let mut control = served.client();
    set(&mut control, "maxdata-policy", "allkeys-lru");
    set(&mut control, "maxdata", &LIMIT.to_string());
    let mut writers = [served.client(), served.client(), served.client()];
    for round in 0..40 {
        for (at, writer) in writers.iter_mut().enumerate() {
            let batch = (0..100).flat_map(|n| encode(&["SET", &format!("{at}:{round}:{n}"), &"x".repeat(500 + n)])).collect::<Vec<_>>();
            writer.send(&batch);
        }
        let used = info(&mut control, "used_data");
        // Beside the permitted growth, what one event-loop iteration has read from three clients.
        assert!(used <= LIMIT + LIMIT / 16 + 3 * (64 << 10), "{used} in round {round}");
        for writer in &mut writers {
            (0..100).for_each(|_| assert_eq!(writer.reply(), Some(one("+OK"))));
        }
    }
    until_within(&mut control, LIMIT);
    let used = info(&mut control, "used_data");
    assert!(used > LIMIT / 10 * 9 && info(&mut control, "evicted_keys") > 1_000, "{used}");
    // Less is evicted in steps, while others are served.
    set(&mut control, "maxdata", &(LIMIT / 4).to_string());
    until_within(&mut control, LIMIT / 4);
    let used = info(&mut control, "used_data");
    drop(served);
    let served = Served::with(Server::default(), store);
    assert_eq!(info(&mut served.client(), "used_data"), used);
}

/// Reads keys in batches, and writes those that are missing; returns the number of hits.
fn hits(client: &mut Client, requests: &[Vec<usize>], value: &str) -> usize {
    let mut hits = 0;
    for batch in requests {
        let name = |n: &usize| format!("key{n:05}");
        client.send(&batch.iter().flat_map(|n| encode(&["GET", &name(n)])).collect::<Vec<_>>());
        let missing: Vec<&usize> = batch.iter().filter(|_| client.reply() == Some(one("$-1"))).collect();
        hits += batch.len() - missing.len();
        client.send(&missing.iter().flat_map(|n| encode(&["SET", &name(n), value])).collect::<Vec<_>>());
        missing.iter().for_each(|_| assert_eq!(client.reply(), Some(one("+OK"))));
    }
    hits
}

/// As a cache of as many keys as Redis holds within its limit, the server has about as many hits.
#[test]
fn as_a_cache_it_hits_about_as_often_as_redis() {
    const KEYS: usize = 3_000;
    let value = "x".repeat(1_000);
    let mut random = crate::common::commands::Random::new(5);
    let mut skewed = || random.below(KEYS) * random.below(KEYS) / KEYS * random.below(KEYS) / KEYS;
    let requests: Vec<Vec<usize>> = (0..1_000).map(|_| (0..20).map(|_| skewed()).collect()).collect();
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        let Some(real) = Real::with(&["--save", "", "--maxmemory", "2mb", "--maxmemory-policy", policy]) else {
            eprintln!("skipped: there is no redis-server 7.0 here to compare with");
            return;
        };
        let mut real = real.client();
        let theirs = hits(&mut real, &requests, &value);
        let Reply::One(kept) = real.ask(&[b"DBSIZE"]) else { panic!("no number") };
        let kept: u64 = std::str::from_utf8(&kept[1..]).unwrap().parse().unwrap();
        let served = Served::start();
        let mut client = served.client();
        set(&mut client, "maxdata-policy", policy);
        set(&mut client, "maxdata", &(kept * 1_008).to_string());
        let ours = hits(&mut client, &requests, &value);
        assert!(info(&mut client, "evicted_keys") > 0 && kept > 100, "{policy}, {kept}");
        // In 20,000 requests.
        assert!(ours + 600 >= theirs, "{policy}: {ours} beside {theirs}, {kept} keys");
    }
}
