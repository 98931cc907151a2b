//! The log in Redis's format: a real `redis-server` that starts on it has this server's data, whenever the log was left. Needs version 7.0
//! on the path for that, and says so where there is none. A failure prints the seed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::commands::{Random, command, filled};
use crate::common::contents::{NOT_IN_LOGS, content, field, names, ok, same};
use crate::common::{Client, Real, Reply, Served, encode};
use sinter_server::command::{Allowed, Configuration, Server};
use sinter_server::keyspace::Keyspace;
use sinter_server::net::{Error, Net, unix_ms};
use sinter_server::transfer::{Damage, Found};
use sinter_storage::store::MemoryStore;
use sinterdb::settings::Settings;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const MANIFEST: &str = "appendonly.aof.manifest";

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn configured(directory: &Path) -> Configuration {
    Configuration { directory: path(directory).into(), append_only: true, debug_command: Allowed::Yes, ..Configuration::default() }
}

fn serve(configuration: Configuration, store: &Arc<MemoryStore>) -> Served {
    Served::with(Server { configuration, ..Server::default() }, store.clone())
}

/// A server that keeps the log, and has its first base.
fn logging(directory: &Path) -> Served {
    let served = serve(configured(directory), &Arc::new(MemoryStore::new()));
    rewritten(&mut served.client());
    served
}

/// Waits until no base is being written.
fn rewritten(client: &mut Client) {
    while field(client, "aof_rewrite_in_progress") == "1" {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(field(client, "aof_last_bgrewrite_status"), "ok");
}

/// Copies the files that the manifest lists, as a kill would leave them at this moment, into another directory. Nobody may be writing.
fn left(directory: &Path) -> tempfile::TempDir {
    let (from, copy) = (directory.join("appendonlydir"), tempfile::tempdir().unwrap());
    let to = copy.path().join("appendonlydir");
    fs::create_dir(&to).unwrap();
    loop {
        let manifest = fs::read(from.join(MANIFEST)).unwrap();
        let text = String::from_utf8(manifest.clone()).unwrap();
        let listed = text.lines().filter(|line| line.ends_with(" type b") || line.ends_with(" type i"));
        let files: Vec<&str> = listed.map(|line| line.split(' ').nth(1).unwrap()).collect();
        assert_eq!(files.len(), 2, "{text}");
        let is_copied = files.iter().all(|file| fs::copy(from.join(file), to.join(file)).is_ok());
        // Replaced meanwhile, or about to be.
        if is_copied && fs::read(from.join(MANIFEST)).unwrap() == manifest {
            fs::write(to.join(MANIFEST), manifest).unwrap();
            return copy;
        }
    }
}

/// A real server started on these files.
fn loaded(directory: &Path) -> Option<Real> {
    let real = Real::with(&["--save", "", "--dir", path(directory), "--appendonly", "yes"]);
    if real.is_none() {
        eprintln!("not compared: there is no redis-server 7.0 here");
    }
    real
}

/// A SinterDB server that has imported these files.
fn imported(directory: &Path) -> Served {
    let store = Arc::new(MemoryStore::new());
    let mut keyspace = Keyspace::open(store.clone(), &Settings::default(), 7).unwrap();
    Found::look(&directory.join("appendonlydir"), Damage::Refuse).unwrap().load(&mut keyspace, false, unix_ms()).unwrap();
    keyspace.close().unwrap();
    Served::with(Server::default(), store)
}

/// Commands that only this test can use: they depend on chance, on the clock, or on waiting. `soon` stands for a few milliseconds.
const MORE: &[&str] = &[
    "SADD k m m m m",
    "SPOP k",
    "SPOP k small",
    "SRANDMEMBER k small",
    "XADD auto * m v",
    "XADD auto MAXLEN ~ 7 * m v",
    "XADD auto NOMKSTREAM MINID ~ 1 LIMIT 3 * m v",
    "XTRIM auto MAXLEN ~ small",
    "XTRIM auto MAXLEN small ACKED",
    "XTRIM auto MAXLEN ~ small DELREF",
    "XADD auto ACKED MAXLEN small * m v",
    "XADD auto DELREF MAXLEN small * m v",
    "SET k v IFEQ v",
    "SET k v IFNE v EX 100",
    "MSETEX 2 k v k v EX 100",
    "DELEX k IFNE v",
    "DELIFEQ k v",
    "XDELEX st DELREF IDS 2 id id",
    "XDELEX st ACKED IDS 1 id",
    "XACKDEL st gr ACKED IDS 2 id id",
    "XGROUP CREATE auto gr $ MKSTREAM",
    "XREADGROUP GROUP gr co COUNT small STREAMS auto >",
    "XREADGROUP GROUP gr co NOACK COUNT 1 STREAMS auto >",
    "XREADGROUP GROUP gr co STREAMS auto 0",
    "XAUTOCLAIM auto gr co 0 - COUNT 2",
    "XAUTOCLAIM st gr co 0 - COUNT 3 JUSTID",
    "SET k v PX soon",
    "SET k v EX 100 NX",
    "SETEX k 100 v",
    "PSETEX k soon v",
    "PEXPIRE k soon",
    "EXPIRE k 0",
    "GETEX k PX soon",
    "GETEX k EX 100",
    "PEXPIREAT k 1000",
    "SET k v PXAT 1000",
    "BLPOP k k 0.001",
    "BRPOP k 0.001",
    "BLMOVE k k LEFT RIGHT 0.001",
    "BRPOPLPUSH k k 0.001",
    "BLMPOP 0.001 2 k k LEFT COUNT small",
    "BZPOPMIN k k 0.001",
    "BZPOPMAX k 0.001",
    "BZMPOP 0.001 2 k k MIN COUNT small",
    "SORT k BY nosort STORE k",
    "SORT k ALPHA LIMIT 0 small STORE k",
    "GEOSEARCHSTORE k g FROMLONLAT 12 12 BYRADIUS 3000 km COUNT 3 ANY",
    "GEORADIUS g 12 12 3000 km STOREDIST k",
    "SELECT 3",
    "SELECT 0",
    "SELECT 0",
    "SWAPDB 0 3",
    "COPY k k DB 3 REPLACE",
    "MOVE k 3",
    "DEBUG POPULATE 3 made small",
];

pub fn any(random: &mut Random) -> Vec<String> {
    match random.below(400) {
        0 => vec!["FLUSHDB".into()],
        1 => vec!["FLUSHALL".into()],
        2..120 => {
            let shape = random.of(MORE);
            let soon = (1 + random.below(20)).to_string();
            filled(shape, random).into_iter().map(|word| if word == "soon" { soon.clone() } else { word }).collect()
        }
        _ => command(random),
    }
}

/// Sends so many commands, some at once, and reads all replies.
pub fn send(client: &mut Client, random: &mut Random, count: usize) {
    let mut sent = 0;
    while sent < count {
        let commands: Vec<Vec<String>> = (0..=random.below(30)).map(|_| any(random)).collect();
        client.send(&commands.iter().flat_map(|command| encode(command)).collect::<Vec<u8>>());
        commands.iter().for_each(|command| assert!(client.reply().is_some(), "{command:?}"));
        sent += commands.len();
    }
    client.ask(&[b"DISCARD"]);
}

/// Redis loads the log after random commands of all families, while the log is rewritten now and then.
#[test]
fn what_redis_loads_is_what_the_server_has() {
    for seed in 0..4 {
        let there = tempfile::tempdir().unwrap();
        let served = logging(there.path());
        let (mut random, mut client, mut control) = (Random::new(500 + seed), served.client(), served.client());
        client.ask(&[b"HELLO", if seed % 2 == 0 { b"2" } else { b"3" }]);
        for step in 0..8 {
            send(&mut client, &mut random, 700);
            if step % 3 == 1 {
                assert_eq!(control.ask(&[b"BGREWRITEAOF"]).to_string(), "+Background append only file rewriting started");
                // The next commands come before and after its end.
                send(&mut client, &mut random, 300);
            }
            // What is about to end has ended when both are asked.
            std::thread::sleep(Duration::from_millis(40));
            let (what, copy) = (format!("seed {seed}, step {step}"), left(there.path()));
            let Some(real) = loaded(copy.path()) else { continue };
            same(&mut control, &mut real.client(), NOT_IN_LOGS, &what);
        }
        rewritten(&mut control);
        assert!(field(&mut control, "aof_rewrites").parse::<u64>().unwrap() >= 3);
        let copy = left(there.path());
        same(&mut imported(copy.path()).client(), &mut control, NOT_IN_LOGS, &format!("seed {seed}, imported"));
    }
}

/// Long strings are logged in parts. A Redis given the same requests replies the same, and one that loads the log has the same keys.
#[test]
fn redis_loads_long_strings_from_their_parts() {
    let there = tempfile::tempdir().unwrap();
    let served = logging(there.path());
    let (mut client, real) = (served.client(), Real::start());
    let mut redis = real.as_ref().map(Real::client);
    let mut random = Random::new(5);
    let value: Vec<u8> = (0..5 << 20).map(|_| random.below(256) as u8).collect();
    let requests: &[&[&[u8]]] = &[
        &[b"SET", b"k", &value, b"PX", b"100000000"],
        &[b"SET", b"old", b"abc"],
        &[b"APPEND", b"old", &value],
        &[b"SETRANGE", b"old", b"6000000", &value],
        &[b"COPY", b"k", b"copied"],
        &[b"PERSIST", b"copied"],
        &[b"BITOP", b"XOR", b"bits", b"k", b"old"],
        &[b"BITCOUNT", b"bits"],
        &[b"BITPOS", b"bits", b"0", b"3", b"-1"],
        &[b"SETNX", b"k", &value],
        &[b"GETSET", b"old", &value],
        &[b"MSET", b"a", &value, b"b", b"1"],
        &[b"DUMP", b"a"],
    ];
    for words in requests {
        let reply = client.ask(words);
        if let Some(redis) = &mut redis {
            // The version of the format, and so the checksum, is another one.
            let skips = if words[0] == b"DUMP" { 10 } else { 0 };
            let is_same = match (&reply, redis.ask(words)) {
                (Reply::One(ours), Reply::One(theirs)) => {
                    ours.len() == theirs.len() && ours[..ours.len() - skips] == theirs[..ours.len() - skips]
                }
                (ours, theirs) => *ours == theirs,
            };
            assert!(is_same, "{}", words[0].escape_ascii());
        }
        if let (b"DUMP", Reply::One(payload)) = (words[0], reply) {
            ok(&mut client, &[b"RESTORE", b"restored", b"0", &payload[1..]]);
            ok(&mut client, &[b"RESTORE", b"restored", b"100000000", &payload[1..], b"REPLACE"]);
            if let Some(redis) = &mut redis {
                ok(redis, &[b"RESTORE", b"restored", b"0", &payload[1..]]);
                assert!(client.ask(&[b"GET", b"restored"]) == redis.ask(&[b"GET", b"restored"]));
            }
        }
    }
    let copy = left(there.path());
    assert!(commands(&fs::read(increment(copy.path())).unwrap()).iter().any(|line| line.starts_with("RENAME ")));
    same(&mut client, &mut imported(copy.path()).client(), NOT_IN_LOGS, "imported");
    if let Some(real) = loaded(copy.path()) {
        same(&mut client, &mut real.client(), NOT_IN_LOGS, "loaded");
    }
}

/// The commands of a file, blanks between their words; numbers that are times of today are `TIME`.
fn commands(bytes: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    let mut at = 0;
    let number = |at: &mut usize| {
        let end = *at + bytes[*at..].windows(2).position(|two| two == b"\r\n").unwrap();
        let number: usize = std::str::from_utf8(&bytes[*at + 1..end]).unwrap().parse().unwrap();
        *at = end + 2;
        number
    };
    while at < bytes.len() {
        let words = number(&mut at);
        let words: Vec<String> = (0..words)
            .map(|_| {
                let length = number(&mut at);
                let word = &bytes[at..at + length];
                at += length + 2;
                let text = String::from_utf8_lossy(word).into_owned();
                let milliseconds = text.split('-').next().unwrap_or_default();
                let is_time =
                    milliseconds.len() == 13 && milliseconds.starts_with('1') && milliseconds.bytes().all(|byte| byte.is_ascii_digit());
                match () {
                    () if is_time && text.contains('-') => "ID".into(),
                    () if is_time => "TIME".into(),
                    () if word.len() > 10 && !word.iter().all(u8::is_ascii_graphic) => "PAYLOAD".into(),
                    () => text,
                }
            })
            .collect();
        all.push(words.join(" "));
    }
    all
}

/// The increment that the manifest lists.
fn increment(directory: &Path) -> PathBuf {
    let text = fs::read_to_string(directory.join("appendonlydir").join(MANIFEST)).unwrap();
    let line = text.lines().find(|line| line.ends_with(" type i")).unwrap();
    directory.join("appendonlydir").join(line.split(' ').nth(1).unwrap())
}

/// Requests, and the commands that the log has for each.
const EFFECTS: &[(&str, &[&str])] = &[
    ("SET a 1", &["SELECT 0", "SET a 1"]),
    ("GET a", &[]),
    ("SET a 2 NX", &[]),
    ("SET a 2 XX EX 100", &["SET a 2 PXAT TIME"]),
    ("SET a 3 KEEPTTL GET", &["SET a 3 PXAT TIME"]),
    ("GETEX a", &[]),
    ("GETEX a PERSIST", &["PERSIST a"]),
    ("EXPIRE a 100 GT", &[]),
    ("EXPIRE a 100 NX", &["PEXPIREAT a TIME"]),
    ("GETEX a EXAT 9999999999", &["PEXPIREAT a 9999999999000"]),
    ("EXPIRE a 0", &["DEL a"]),
    ("SETEX a 100 x", &["SET a x PXAT TIME"]),
    ("GETDEL a", &["GETDEL a"]),
    ("DEL a", &[]),
    ("INCRBYFLOAT f 1.5", &["SET f 1.5"]),
    ("INCRBYFLOAT f x", &[]),
    ("HINCRBYFLOAT h f 0.25", &["HSET h f 0.25"]),
    ("HINCRBYFLOAT h f 0.25", &["HSET h f 0.5"]),
    ("HSETEX x EX 100 FIELDS 2 a 1 b 2", &["MULTI", "HSET x a 1 b 2", "HPEXPIREAT x TIME FIELDS 2 a b", "EXEC"]),
    ("HSETEX x FXX EX 100 FIELDS 1 none 1", &[]),
    ("HEXPIRE x 100 NX FIELDS 2 a none", &[]),
    ("HPEXPIREAT x 9999999999000 FIELDS 1 a", &["HPEXPIREAT x 9999999999000 FIELDS 1 a"]),
    ("HINCRBYFLOAT x a 0.5", &["MULTI", "HSET x a 1.5", "HPEXPIREAT x 9999999999000 FIELDS 1 a", "EXEC"]),
    ("HGETEX x FIELDS 1 a", &[]),
    ("HGETEX x PERSIST FIELDS 2 a b", &["HPERSIST x FIELDS 2 a b"]),
    ("HEXPIRE x 0 FIELDS 1 b", &["HDEL x b"]),
    ("HSETEX x PXAT 1 FIELDS 1 a 5", &["DEL x"]),
    ("HSET x a 1 b 2", &["HSET x a 1 b 2"]),
    ("HGETDEL x FIELDS 1 a", &["HDEL x a"]),
    ("SADD s x", &["SADD s x"]),
    ("SADD s x", &[]),
    ("SPOP s 5", &["SREM s x"]),
    ("SPOP s", &[]),
    ("RPUSH l a b c d e f g", &["RPUSH l a b c d e f g"]),
    ("BLPOP none l 0", &["LPOP l"]),
    ("BRPOP l 0", &["RPOP l"]),
    ("BLMOVE l m LEFT RIGHT 0", &["LMOVE l m LEFT RIGHT"]),
    ("BRPOPLPUSH l m 0", &["RPOPLPUSH l m"]),
    ("BLMPOP 0 2 none l LEFT COUNT 2", &["LMPOP 1 l LEFT COUNT 2"]),
    ("BLPOP none 0.01", &[]),
    ("ZADD z 1 a 2 b 3 c", &["ZADD z 1 a 2 b 3 c"]),
    ("BZPOPMIN z 0", &["ZPOPMIN z"]),
    ("BZMPOP 0 1 z MAX", &["ZMPOP 1 z MAX"]),
    ("SORT m ALPHA STORE d", &["RESTORE d 0 PAYLOAD REPLACE ABSTTL"]),
    ("XADD st * f v", &["XADD st ID f v"]),
    ("XADD st MAXLEN ~ 1000 * f v", &["XADD st MAXLEN = 2 ID f v"]),
    ("XADD st NOMKSTREAM MAXLEN 1 * f v", &["XADD st MAXLEN = 1 ID f v"]),
    ("XTRIM st MAXLEN ~ 5", &[]),
    ("XTRIM st MAXLEN 0", &["XTRIM st MAXLEN = 0"]),
    ("XGROUP CREATE st g $", &["XGROUP CREATE st g $"]),
    ("XGROUP CREATECONSUMER st g me", &["XGROUP CREATECONSUMER st g me"]),
    ("XGROUP CREATECONSUMER st g me", &[]),
    ("XADD t 1-1 f v", &["XADD t 1-1 f v"]),
    ("XADD t 1-2 f v", &["XADD t 1-2 f v"]),
    ("XGROUP CREATE t g 0", &["XGROUP CREATE t g 0"]),
    (
        "XREADGROUP GROUP g me STREAMS t >",
        &[
            "MULTI",
            "XGROUP CREATECONSUMER t g me",
            "XCLAIM t g me 0 1-1 1-2 TIME TIME RETRYCOUNT 1 FORCE JUSTID",
            "XGROUP SETID t g 1-2 ENTRIESREAD 2",
            "EXEC",
        ],
    ),
    ("XREADGROUP GROUP g me STREAMS t >", &[]),
    ("XCLAIM t g me 0 1-1 TIME 1000 RETRYCOUNT 7", &["XCLAIM t g me 0 1-1 TIME 1000 RETRYCOUNT 7 FORCE JUSTID"]),
    ("XDEL t 1-2", &["XDEL t 1-2"]),
    ("XAUTOCLAIM t g me 0 1-2", &["XACK t g 1-2"]),
    ("XACK t g 1-1", &["XACK t g 1-1"]),
    ("XACK t g 1-1", &[]),
    ("SET c 1 IFNE x", &["SET c 1"]),
    ("SET c 2 IFEQ x", &[]),
    ("SET c 2 IFEQ 1 EX 100", &["SET c 2 PXAT TIME"]),
    ("MSETEX 2 c 3 d 4", &["MULTI", "SET c 3", "SET d 4", "EXEC"]),
    ("MSETEX 2 c 3 d 4 NX", &[]),
    ("DELIFEQ c x", &[]),
    ("DELEX c IFNE x", &["DEL c"]),
    ("DELIFEQ d 4", &["DEL d"]),
    ("XADD u 1-1 f v", &["XADD u 1-1 f v"]),
    ("XADD u 1-2 f v", &["XADD u 1-2 f v"]),
    ("XGROUP CREATE u g 0", &["XGROUP CREATE u g 0"]),
    ("XGROUP CREATECONSUMER u g me", &["XGROUP CREATECONSUMER u g me"]),
    (
        "XREADGROUP GROUP g me STREAMS u >",
        &["MULTI", "XCLAIM u g me 0 1-1 1-2 TIME TIME RETRYCOUNT 1 FORCE JUSTID", "XGROUP SETID u g 1-2 ENTRIESREAD 2", "EXEC"],
    ),
    ("XDELEX u ACKED IDS 1 1-1", &[]),
    ("XACKDEL u g ACKED IDS 1 1-1", &["MULTI", "XDEL u 1-1", "XACK u g 1-1", "EXEC"]),
    ("XADD u DELREF MAXLEN 1 2-1 f v", &["MULTI", "XADD u MAXLEN = 1 2-1 f v", "XACK u g 1-2", "EXEC"]),
    ("XADD u ACKED MAXLEN 1 2-2 f v", &["XADD u 2-2 f v"]),
    ("XGROUP SETID u g 2-1", &["XGROUP SETID u g 2-1"]),
    ("XADD u ACKED MAXLEN 1 2-3 f v", &["MULTI", "XADD u 2-3 f v", "XDEL u 2-1", "EXEC"]),
    ("XTRIM u MAXLEN 1 ACKED", &[]),
    ("XGROUP DESTROY u g", &["XGROUP DESTROY u g"]),
    ("XTRIM u MAXLEN 1 ACKED", &["XTRIM u MAXLEN = 1"]),
    ("XDELEX u IDS 2 2-3 2-2", &["XDEL u 2-3"]),
    ("MULTI", &[]),
    ("INCR n", &[]),
    ("EXEC", &["INCR n"]),
    ("MULTI", &[]),
    ("SELECT 3", &[]),
    ("INCR n", &[]),
    ("GET n", &[]),
    ("INCR n", &[]),
    ("EXEC", &["SELECT 3", "MULTI", "INCR n", "INCR n", "EXEC"]),
    ("MOVE n 4", &["MOVE n 4"]),
    ("SWAPDB 3 4", &["SWAPDB 3 4"]),
    ("SELECT 0", &[]),
    ("FLUSHDB ASYNC", &["SELECT 0", "FLUSHDB ASYNC"]),
    ("FLUSHALL x", &[]),
    ("DEBUG POPULATE 1 p 1", &["RESTORE p:0 0 PAYLOAD REPLACE ABSTTL"]),
];

#[test]
fn effects_are_logged() {
    let there = tempfile::tempdir().unwrap();
    let served = logging(there.path());
    let (mut client, file) = (served.client(), increment(there.path()));
    let mut known = 0;
    for (line, expected) in EFFECTS {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        client.ask(&words);
        let bytes = fs::read(&file).unwrap();
        assert_eq!(commands(&bytes[known..]), *expected, "{line}");
        known = bytes.len();
    }
    // A key that another server has got, as `DEL`, whether that took all keys or not.
    let other = Served::start();
    other.client().ask(&[b"SET", b"taken", b"1"]);
    client.ask(&[b"MSET", b"moved", b"1", b"taken", b"2"]);
    let port = other.address.port().to_string();
    let reply = client.ask(&[b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"5000", b"KEYS", b"moved", b"taken"]);
    assert!(reply.to_string().contains("BUSYKEY"), "{reply}");
    let bytes = fs::read(&file).unwrap();
    assert_eq!(commands(&bytes[known..]), ["MSET moved 1 taken 2", "DEL moved"]);
    known = bytes.len();
    // Whom somebody else serves, and what ends by the clock.
    let mut waiting = served.client();
    waiting.send(&encode(&["BLPOP", "list", "0"]));
    while !client.ask(&[b"INFO", b"clients"]).to_string().contains("blocked_clients:1") {
        std::thread::sleep(Duration::from_millis(2));
    }
    client.ask(&[b"RPUSH", b"list", b"a", b"b"]);
    assert!(waiting.reply().is_some());
    client.ask(&[b"HSET", b"hash", b"stays", b"1"]);
    client.ask(&[b"HSETEX", b"hash", b"PX", b"1", b"FIELDS", b"1", b"goes", b"1"]);
    client.ask(&[b"SET", b"gone", b"1", b"PX", b"1"]);
    let mut logged = Vec::new();
    while !(logged.contains(&"DEL gone".to_owned()) && logged.contains(&"HDEL hash goes".to_owned())) {
        std::thread::sleep(Duration::from_millis(5));
        logged = commands(&fs::read(&file).unwrap()[known..]);
    }
    assert_eq!(logged[..3], ["RPUSH list a b", "LPOP list", "HSET hash stays 1"]);
    let until = ["MULTI", "HSET hash goes 1", "HPEXPIREAT hash TIME FIELDS 1 goes", "EXEC"];
    assert!(logged[3..].starts_with(&until.map(str::to_owned)) && logged.contains(&"SET gone 1 PXAT TIME".to_owned()), "{logged:?}");
}

/// A file with an incomplete last command counts up to its last complete one.
#[test]
fn a_torn_end_is_left_out() {
    let there = tempfile::tempdir().unwrap();
    let served = logging(there.path());
    let mut client = served.client();
    for line in ["INCR n", "INCR n", "MULTI", "INCR n", "INCR n", "EXEC"] {
        client.ask(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }
    let copy = left(there.path());
    let file = increment(copy.path());
    let whole = fs::read(&file).unwrap();
    let mut last = 4;
    for cut in 1..whole.len() {
        fs::write(&file, &whole[..whole.len() - cut]).unwrap();
        let text = imported(copy.path()).client().ask(&[b"GET", b"n"]).to_string();
        let found: u64 = text.trim_start_matches(['$', '-']).parse().unwrap();
        let found = if text == "$-1" { 0 } else { found };
        assert!(found <= last && found != 3, "cut by {cut}: {found} after {last}");
        last = found;
        if cut % 40 == 7
            && let Some(real) = loaded(copy.path())
        {
            assert_eq!(real.client().ask(&[b"GET", b"n"]).to_string(), text, "cut by {cut}");
        }
    }
    assert_eq!(last, 0);
}

#[test]
fn it_is_turned_on_and_off() {
    let there = tempfile::tempdir().unwrap();
    let configuration = Configuration { append_only: false, ..configured(there.path()) };
    let served = serve(configuration, &Arc::new(MemoryStore::new()));
    let mut client = served.client();
    let appendonly = |client: &mut Client, value: &str| client.ask(&[b"CONFIG", b"SET", b"appendonly", value.as_bytes()]).to_string();
    ok(&mut client, &[b"SET", b"before", b"1"]);
    assert!(client.ask(&[b"BGREWRITEAOF"]).to_string().starts_with("+Nothing to rewrite"));
    assert_eq!(
        (field(&mut client, "aof_enabled"), client.ask(&[b"CONFIG", b"GET", b"appendonly"]).to_string().contains("$no")),
        ("0".into(), true)
    );
    assert!(!there.path().join("appendonlydir").exists());
    // All in one turn: what comes before is in the base, what comes behind in the base or behind it.
    client.send(&[encode(&["SET", "a", "1"]), encode(&["CONFIG", "SET", "appendonly", "yes"]), encode(&["SET", "b", "1"])].concat());
    (0..3).for_each(|_| assert_eq!(client.reply().unwrap().to_string(), "+OK"));
    ok(&mut client, &[b"SET", b"c", b"1"]);
    rewritten(&mut client);
    ok(&mut client, &[b"SET", b"d", b"1"]);
    assert_eq!((field(&mut client, "aof_enabled"), field(&mut client, "aof_last_write_status")), ("1".into(), "ok".into()));
    let file = increment(there.path());
    assert!(commands(&fs::read(&file).unwrap()).ends_with(&["SET d 1".into()]));
    let copy = left(there.path());
    assert_eq!(names(&mut imported(copy.path()).client()).len(), 5);
    if let Some(real) = loaded(copy.path()) {
        same(&mut client, &mut real.client(), NOT_IN_LOGS, "turned on");
        ok(&mut client, &[b"SELECT", b"0"]);
    }

    // What came before is there, and the files stay.
    client.send(&[encode(&["SET", "e", "1"]), encode(&["CONFIG", "SET", "appendonly", "no"])].concat());
    (0..2).for_each(|_| assert_eq!(client.reply().unwrap().to_string(), "+OK"));
    ok(&mut client, &[b"SET", b"f", b"1"]);
    assert!(commands(&fs::read(&file).unwrap()).ends_with(&["SET e 1".into()]));
    assert_eq!(field(&mut client, "aof_enabled"), "0");
    // On again: everything is in a new base.
    assert_eq!(appendonly(&mut client, "yes"), "+OK");
    rewritten(&mut client);
    assert_ne!(increment(there.path()), file);
    assert_eq!(names(&mut imported(left(there.path()).path()).client()).len(), 7);
    let manifest = || fs::read_to_string(there.path().join("appendonlydir").join(MANIFEST)).unwrap();
    // What was replaced is removed, and then not listed any more.
    while manifest().contains(" type h") {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!((manifest().lines().count(), manifest().starts_with("# sinterdb ")), (3, true), "{}", manifest());
    assert_eq!(fs::read_dir(there.path().join("appendonlydir")).unwrap().count(), 3);

    // A log of others is not written over, neither now nor at a start.
    assert_eq!(appendonly(&mut client, "no"), "+OK");
    let others = "file appendonly.aof.1.base.rdb seq 1 type b\n";
    fs::write(there.path().join("appendonlydir").join(MANIFEST), others).unwrap();
    let refused = appendonly(&mut client, "yes");
    assert!(refused.starts_with("-ERR CONFIG SET failed") && refused.contains("this is the log of other data"), "{refused}");
    assert!(client.ask(&[b"CONFIG", b"GET", b"appendonly"]).to_string().contains("$no"));
    let keyspace = Keyspace::open(Arc::new(MemoryStore::new()), &Settings::default(), 7).unwrap();
    let server = Server { configuration: configured(there.path()), ..Server::default() };
    let refused = Net::bind("127.0.0.1:0".parse().unwrap(), keyspace, server);
    assert!(matches!(refused, Err(Error::Append(why)) if why.contains("this is the log of other data")));
    assert_eq!(manifest(), others);
}

/// A restarted server begins a base of its data.
#[test]
fn a_start_begins_a_new_base() {
    let (there, store) = (tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new()));
    let mut files = Vec::new();
    for n in 1..4 {
        let served = serve(configured(there.path()), &store);
        let mut client = served.client();
        ok(&mut client, &[b"SET", format!("early{n}").as_bytes(), b"1"]);
        rewritten(&mut client);
        ok(&mut client, &[b"SET", format!("late{n}").as_bytes(), b"1"]);
        files.push(increment(there.path()));
        drop(served);
        let copy = left(there.path());
        assert_eq!(names(&mut imported(copy.path()).client()).len(), 2 * n);
        if let Some(real) = loaded(copy.path()) {
            assert_eq!(content(&mut real.client(), format!("late{n}").as_bytes(), &[])[1].to_string(), "$1");
        }
    }
    files.dedup();
    assert_eq!(files.len(), 3);
}

#[test]
fn it_is_shortened_when_it_has_grown() {
    let there = tempfile::tempdir().unwrap();
    let configuration = Configuration { rewrite_min_size: 100_000, ..configured(there.path()) };
    let served = serve(configuration, &Arc::new(MemoryStore::new()));
    let mut client = served.client();
    rewritten(&mut client);
    let number = |client: &mut Client, name| field(client, name).parse::<u64>().unwrap();
    let value = [b'x'; 1000];
    let mut sets = 0;
    // The first one came without being needed.
    while number(&mut client, "aof_rewrites") < 4 {
        for n in 0..100 {
            ok(&mut client, &[b"SET", format!("key{}", n % 10).as_bytes(), &value]);
        }
        sets += 100;
        assert!(sets < 1_000_000, "it is never shortened");
    }
    assert!(sets > 200, "it was shortened for less than its minimum");
    ok(&mut client, &[b"CONFIG", b"SET", b"auto-aof-rewrite-percentage", b"0"]);
    rewritten(&mut client);
    client.ask(&[b"BGREWRITEAOF"]);
    rewritten(&mut client);
    let (size, first) = (number(&mut client, "aof_current_size"), number(&mut client, "aof_base_size"));
    assert!(size == first && (10_000..20_000).contains(&size), "{size} and {first}");
    let rewrites = number(&mut client, "aof_rewrites");
    for n in 0..500 {
        ok(&mut client, &[b"SET", format!("key{}", n % 10).as_bytes(), &value]);
    }
    assert_eq!(number(&mut client, "aof_rewrites"), rewrites);
    let copy = left(there.path());
    if let Some(real) = loaded(copy.path()) {
        same(&mut client, &mut real.client(), NOT_IN_LOGS, "grown");
    }
    // One at a time; in a transaction, too.
    client.send(&[encode(&["BGREWRITEAOF"]), encode(&["BGREWRITEAOF"])].concat());
    assert_eq!(client.reply().unwrap().to_string(), "+Background append only file rewriting started");
    assert_eq!(client.reply().unwrap().to_string(), "-ERR Background append only file rewriting already in progress");
    rewritten(&mut client);
    client.send(&[encode(&["MULTI"]), encode(&["BGREWRITEAOF"]), encode(&["EXEC"])].concat());
    let replies: Vec<String> = (0..3).map(|_| client.reply().unwrap().to_string()).collect();
    assert_eq!(replies[2], "*1(+Background append only file rewriting scheduled )");
}

/// A base that cannot be written leaves the log as it is.
#[test]
fn a_base_that_fails_does_no_harm() {
    let there = tempfile::tempdir().unwrap();
    let served = logging(there.path());
    let mut client = served.client();
    ok(&mut client, &[b"SET", b"a", b"1"]);
    // In the way of the next base.
    let in_the_way = there.path().join("appendonlydir/appendonly.aof.2.base.rdb");
    fs::create_dir(&in_the_way).unwrap();
    client.ask(&[b"BGREWRITEAOF"]);
    while field(&mut client, "aof_rewrite_in_progress") == "1" {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!((field(&mut client, "aof_last_bgrewrite_status"), field(&mut client, "aof_last_write_status")), ("err".into(), "ok".into()));
    assert!(field(&mut client, "aof_last_bgrewrite_error").starts_with("appendonly.aof.2.base.rdb: "));
    ok(&mut client, &[b"SET", b"b", b"1"]);
    assert_eq!(names(&mut imported(left(there.path()).path()).client()).len(), 2);
    fs::remove_dir(&in_the_way).unwrap();
    client.ask(&[b"BGREWRITEAOF"]);
    rewritten(&mut client);
    assert_eq!(names(&mut imported(left(there.path()).path()).client()).len(), 2);
    let Reply::Many(..) = client.ask(&[b"CONFIG", b"GET", b"append*"]) else { panic!("parameters") };
}
