//! Values and files exchanged with a real `redis-server`, in both directions. Needs version 7.0 on the path, and says so where there is
//! none. A failure prints the seed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::contents::{FROM_NINE, NOT_IN_LOGS, NOT_IN_NINE, OF_REDIS, content, field, names, ok, same};
use crate::common::{self, Client, Real, Reply, Served};
use sinter_server::command::{Configuration, Server};
use sinter_server::keyspace::Keyspace;
use sinter_server::net::unix_ms;
use sinter_server::rdb::{
    Element, Input, Nodes, Output, StreamElement, StreamEntryId, StreamState, Version, open_value, read_value, stream_kind,
};
use sinter_server::transfer::{Damage, Found, Report, export_log, export_rdb};
use sinter_storage::store::MemoryStore;
use sinterdb::settings::Settings;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % n.max(1)
    }

    fn text(&mut self) -> Vec<u8> {
        match self.below(12) {
            0 => Vec::new(),
            1 => b"\0\xff\r\n".to_vec(),
            2 => (self.below(300) as i64 - 150).to_string().into_bytes(),
            3 => (self.below(1 << 17) as i64 - (1 << 16)).to_string().into_bytes(),
            4 => i64::MIN.to_string().into_bytes(),
            5 => (self.below(usize::MAX)).to_string().into_bytes(),
            // Redis compresses it.
            6 => vec![b'a' + self.below(3) as u8; 30 + self.below(5000)],
            7 => (0..self.below(300)).map(|_| self.below(256) as u8).collect(),
            _ => format!("member:{}", self.below(100_000)).into_bytes(),
        }
    }

    fn score(&mut self) -> Vec<u8> {
        let scores = ["0", "1", "-1", "0.1", "3.25", "inf", "-inf", "1e300", "-1e-300", "123456789", "17179869184.5"];
        scores[self.below(scores.len())].into()
    }

    /// Commands that create a stream with so many entries added, and groups of it.
    fn stream(&mut self, name: &str, entries: usize) -> Vec<Vec<Vec<u8>>> {
        let id = |n: usize| format!("{}-{}", 1000 + n / 3, n % 3);
        let mut lines = Vec::new();
        let mut commands = Vec::new();
        for n in 0..entries {
            let mut words: Vec<Vec<u8>> = ["XADD", name, &id(n), "field"].map(|word| word.as_bytes().to_vec()).into();
            words.push(self.text());
            if self.below(5) == 0 {
                words.extend([self.text(), self.text()]);
            }
            commands.push(words);
        }
        for _ in 0..self.below(4) {
            let group = ["g", "h", ""][self.below(3)];
            let last = [id(self.below(entries)), "0".to_owned(), "$".to_owned()][self.below(3)].clone();
            lines.push(["XGROUP", "CREATE", name, group, &last].map(String::from).to_vec());
            for _ in 0..self.below(4) {
                let (consumer, count) = (["alice", "bob", ""][self.below(3)], 1 + self.below(entries));
                lines.push(
                    ["XREADGROUP", "GROUP", group, consumer, "COUNT", &count.to_string(), "STREAMS", name, ">"].map(String::from).to_vec(),
                );
                lines.push(["XACK", name, group, &id(self.below(entries))].map(String::from).to_vec());
            }
            lines.push(
                ["XCLAIM", name, group, "carol", "0", &id(self.below(entries)), "TIME", "1234567", "RETRYCOUNT", "7"]
                    .map(String::from)
                    .to_vec(),
            );
            lines.push(["XGROUP", "CREATECONSUMER", name, group, "idle"].map(String::from).to_vec());
        }
        match self.below(6) {
            0 => lines.push(["XDEL", name, &id(0), &id(entries / 2)].map(String::from).to_vec()),
            1 => lines.push(["XTRIM", name, "MAXLEN", &(entries / 3).to_string()].map(String::from).to_vec()),
            2 => lines.push(
                ["XSETID", name, "18446744073709551615-3", "ENTRIESADDED", "123456789012", "MAXDELETEDID", "7-7"]
                    .map(String::from)
                    .to_vec(),
            ),
            _ => {}
        }
        commands.extend(lines.into_iter().map(|words| words.into_iter().map(String::into_bytes).collect()));
        commands
    }

    /// Commands that create a key with so many elements.
    fn key(&mut self, name: &str, elements: usize) -> Vec<Vec<Vec<u8>>> {
        let key = name.as_bytes().to_vec();
        if self.below(6) == 0 {
            return self.stream(name, elements);
        }
        let (command, parts): (&[u8], u8) = match self.below(6) {
            0 => (b"SET", 0),
            1 => (b"RPUSH", 1),
            2 => (b"SADD", 1),
            3 => (b"SADD", 0),
            4 => (b"ZADD", 2),
            _ => (b"HSET", 2),
        };
        let mut commands = Vec::new();
        let count = if command == b"SET" { 1 } else { elements };
        for _ in 0..count {
            let mut words = vec![command.to_vec(), key.clone()];
            match (command, parts) {
                (b"ZADD", _) => words.extend([self.score(), self.text()]),
                (b"HSET", _) => words.extend([self.text(), self.text()]),
                // A set of integers.
                (b"SADD", 0) => words.push((self.below(1 << 20) as i64 * [1, 70_000][elements % 2]).to_string().into_bytes()),
                _ => words.push(self.text()),
            }
            commands.push(words);
        }
        if self.below(4) == 0 {
            commands.push(vec![b"PEXPIREAT".to_vec(), key, (unix_ms() + 100_000_000 + self.below(1000) as u64).to_string().into_bytes()]);
        }
        commands
    }
}

/// Makes keys of all types in some databases, small ones and large ones.
fn fill(client: &mut Client, random: &mut Random, keys: usize) {
    for db in ["0", "3", "15"] {
        ok(client, &[b"SELECT", db.as_bytes()]);
        for n in 0..keys {
            let elements = [1, 5, 40, 700][random.below(4)];
            for command in random.key(&format!("key{n}"), elements) {
                let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
                client.ask(&words);
            }
        }
    }
    ok(client, &[b"SELECT", b"0"]);
}

/// Settings that force one form or another.
const FORMS: &[&[(&str, &str)]] = &[
    &[],
    // Everything in one string.
    &[
        ("hash-max-listpack-entries", "100000"),
        ("hash-max-listpack-value", "100000"),
        ("zset-max-listpack-entries", "100000"),
        ("zset-max-listpack-value", "100000"),
        ("set-max-intset-entries", "100000"),
        ("list-max-listpack-size", "-5"),
        ("stream-node-max-bytes", "0"),
        ("stream-node-max-entries", "0"),
    ],
    // Nothing.
    &[
        ("hash-max-listpack-entries", "0"),
        ("zset-max-listpack-entries", "0"),
        ("set-max-intset-entries", "0"),
        ("list-max-listpack-size", "1"),
        ("stream-node-max-entries", "1"),
    ],
    // Lists of many nodes, compressed inside.
    &[("list-max-listpack-size", "4"), ("list-compress-depth", "1")],
    &[("rdbcompression", "no"), ("list-max-listpack-size", "-1")],
];

fn configure(client: &mut Client, form: &[(&str, &str)]) {
    for (name, value) in form {
        ok(client, &[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()]);
    }
}

fn skipped() {
    eprintln!("skipped: there is no redis-server 7.0 here to exchange with");
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn values_are_exchanged() {
    for (seed, form) in FORMS.iter().enumerate() {
        let Some(real) = Real::start() else { return skipped() };
        let (served, mut theirs) = (Served::start(), real.client());
        let mut ours = served.client();
        configure(&mut theirs, form);
        // It looks at all of what it is given.
        ok(&mut theirs, &[b"CONFIG", b"SET", b"sanitize-dump-payload", b"yes"]);
        fill(&mut theirs, &mut Random(seed as u64), 60);
        for key in names(&mut theirs) {
            let what = format!("form {seed}, {}", key.escape_ascii());
            let Reply::One(payload) = theirs.ask(&[b"DUMP", &key]) else { panic!("{what}") };
            let ends = theirs.ask(&[b"PEXPIRETIME", &key]).to_string();
            let ttl = ends.trim_start_matches([':', '-']).to_owned();
            let ttl = if ends.starts_with(":-") { b"0".to_vec() } else { ttl.into_bytes() };
            ok(&mut ours, &[b"RESTORE", &key, &ttl, &payload[1..], b"ABSTTL"]);
            let expected = content(&mut theirs, &key, OF_REDIS);
            assert_eq!(content(&mut ours, &key, OF_REDIS), expected, "{what}: ours of theirs");
            // And back, in the place of what is there.
            let Reply::One(payload) = ours.ask(&[b"DUMP", &key]) else { panic!("{what}") };
            ok(&mut theirs, &[b"RESTORE", &key, &ttl, &payload[1..], b"ABSTTL", b"REPLACE"]);
            assert_eq!(content(&mut theirs, &key, OF_REDIS), expected, "{what}: theirs of ours");
        }
    }
}

/// Requests with equal payloads get equal replies.
#[test]
fn restore_answers_as_redis_does() {
    let Some(real) = Real::start() else { return skipped() };
    let served = Served::start();
    let (mut ours, mut theirs) = (served.client(), real.client());
    ok(&mut theirs, &[b"SET", b"source", b"bar"]);
    let Reply::One(payload) = theirs.ask(&[b"DUMP", b"source"]) else { panic!("no payload") };
    let payload = &payload[1..];
    let empty_set = {
        let mut bytes = b"\x02\x00\x0a\x00".to_vec();
        bytes.extend(sinter_server::rdb::crc64(0, &bytes).to_le_bytes());
        bytes
    };
    let twice = {
        let mut bytes = b"\x02\x02\x01a\x01a\x0a\x00".to_vec();
        bytes.extend(sinter_server::rdb::crc64(0, &bytes).to_le_bytes());
        bytes
    };
    let cases: &[&[&[u8]]] = &[
        &[b"DUMP", b"none"],
        &[b"RESTORE", b"a", b"0", payload],
        &[b"GET", b"a"],
        &[b"RESTORE", b"a", b"0", payload],
        &[b"RESTORE", b"a", b"0", b"..."],
        &[b"RESTORE", b"a", b"0", b"...", b"REPLACE"],
        &[b"RESTORE", b"b", b"0", b"0123456789abcdef"],
        &[b"RESTORE", b"b", b"-1", payload],
        &[b"RESTORE", b"b", b"x", payload],
        &[b"RESTORE", b"b", b"0", payload, b"nonsense"],
        &[b"RESTORE", b"b", b"0", payload, b"idletime"],
        &[b"RESTORE", b"b", b"0", payload, b"idletime", b"-1"],
        &[b"RESTORE", b"b", b"0", payload, b"idletime", b"x"],
        &[b"RESTORE", b"b", b"0", payload, b"freq", b"256"],
        &[b"RESTORE", b"b", b"0", payload, b"freq", b"1", b"idletime", b"1"],
        &[b"RESTORE", b"b", b"0", payload, b"idletime", b"10", b"replace"],
        &[b"RESTORE", b"b", b"0", payload, b"freq", b"255", b"replace"],
        &[b"GET", b"b"],
        &[b"TTL", b"b"],
        &[b"RESTORE", b"b", b"100000000", payload, b"REPLACE"],
        &[b"TTL", b"b"],
        &[b"RESTORE", b"b", b"4000000000000", payload, b"ABSTTL", b"REPLACE"],
        &[b"PEXPIRETIME", b"b"],
        &[b"RESTORE", b"b", b"1", payload, b"ABSTTL", b"REPLACE"],
        &[b"EXISTS", b"b"],
        &[b"RESTORE", b"c", b"1", payload, b"ABSTTL"],
        &[b"EXISTS", b"c"],
        &[b"RESTORE", b"e", b"0", &empty_set],
        &[b"RESTORE", b"e", b"0", &twice],
        &[b"EXISTS", b"e"],
        &[b"SADD", b"kept", b"x"],
        &[b"RESTORE", b"kept", b"0", &twice, b"REPLACE"],
        &[b"SMEMBERS", b"kept"],
        &[b"DBSIZE"],
        &[b"RESTORE", b"b", b"0"],
        &[b"BGSAVE", b"x"],
    ];
    ok(&mut ours, &[b"SET", b"source", b"bar"]);
    for case in cases {
        let shown: Vec<String> = case.iter().map(|word| word.escape_ascii().to_string()).collect();
        assert_eq!(ours.ask(case), theirs.ask(case), "{shown:?}");
    }
}

/// Properties of a stream that contradict its entries are corrected, where Redis keeps them.
#[test]
fn streams_that_contradict_their_entries_are_restored() {
    let Some(real) = Real::start() else { return skipped() };
    let served = Served::start();
    let (mut ours, mut theirs) = (served.client(), real.client());
    for id in ["1-0", "2-0", "3-0", "4-0", "5-0"] {
        theirs.ask(&[b"XADD", b"s", id.as_bytes(), b"f", b"v"]);
    }
    theirs.ask(&[b"XDEL", b"s", b"2-0"]);
    let Reply::One(payload) = theirs.ask(&[b"DUMP", b"s"]) else { panic!("no payload") };
    // Without checksum and version, and what is said of it: length, last id, first id, largest deleted one, added, groups.
    let (entries, said) = payload[1..payload.len() - 10].split_at(payload.len() - 20);
    assert_eq!(said, [4, 5, 0, 1, 0, 2, 0, 5, 0]);
    for (at, wrong) in [(0, 4), (0, 9), (0, 2), (0, 0), (1, 3), (3, 4), (5, 9), (7, 2)] {
        for (of, most) in [(19, 9), (15, 3)] {
            let mut said = said.to_vec();
            said[at] = wrong;
            let mut bytes = [&[of][..], &entries[1..], &said[..most], &[0][..usize::from(of == 15)], b"\x0a\0"].concat();
            bytes.extend(sinter_server::rdb::crc64(0, &bytes).to_le_bytes());
            let what = format!("type {of}, {wrong} at {at}");
            for client in [&mut ours, &mut theirs] {
                ok(client, &[b"RESTORE", b"t", b"0", &bytes, b"REPLACE"]);
            }
            let all: &[&[u8]] = &[b"XRANGE", b"t", b"-", b"+"];
            assert_eq!(ours.ask(all), theirs.ask(all), "{what}");
            assert_eq!(ours.ask(&[b"XLEN", b"t"]).to_string(), ":4", "{what}");
            let next = ours.ask(&[b"XADD", b"t", b"MAXLEN", b"3", b"*", b"f", b"v"]).to_string();
            assert!(next.starts_with('$') && ours.ask(&[b"XLEN", b"t"]).to_string() == ":3", "{what}: {next}");
        }
    }
    // Neither takes one that has no node at all.
    let mut none = b"\x13\0\x03\x05\0\x01\0\x02\0\x05\0\x0a\0".to_vec();
    none.extend(sinter_server::rdb::crc64(0, &none).to_le_bytes());
    let restore: &[&[u8]] = &[b"RESTORE", b"u", b"0", &none];
    assert_eq!(ours.ask(restore), theirs.ask(restore));
}

/// A SinterDB server that has imported a file or directory.
pub fn served_from(source: &Path) -> (Served, Report, Arc<MemoryStore>) {
    let store = Arc::new(MemoryStore::new());
    let mut keyspace = Keyspace::open(store.clone(), &Settings::default(), 7).unwrap();
    let report = Found::look(source, Damage::Refuse).unwrap().load(&mut keyspace, false, unix_ms()).unwrap();
    keyspace.close().unwrap();
    (Served::with(Server::default(), store.clone()), report, store)
}

#[test]
fn files_go_to_and_fro() {
    for (seed, form) in FORMS.iter().enumerate() {
        let what = format!("form {seed}");
        let there = tempfile::tempdir().unwrap();
        let Some(real) = Real::with(&["--save", "", "--dir", path(there.path())]) else { return skipped() };
        let mut theirs = real.client();
        configure(&mut theirs, form);
        fill(&mut theirs, &mut Random(100 + seed as u64), 40);
        ok(&mut theirs, &[b"SAVE"]);
        let (served, report, store) = served_from(&there.path().join("dump.rdb"));
        assert_eq!((report.keys, report.expired, report.cut), (120, 0, None), "{what}");
        same(&mut served.client(), &mut theirs, OF_REDIS, &what);
        drop((served, real));

        let keyspace = Keyspace::open(store, &Settings::default(), 7).unwrap();
        let back = tempfile::tempdir().unwrap();
        let never = AtomicBool::new(false);
        // With version 10, nothing of a stream is lost.
        export_rdb(&keyspace, &back.path().join("ten.rdb"), Version::Ten, &never).unwrap();
        let real = Real::with(&["--save", "", "--dir", path(back.path()), "--dbfilename", "ten.rdb"]).unwrap();
        let (again, _, _) = served_from(&there.path().join("dump.rdb"));
        same(&mut again.client(), &mut real.client(), OF_REDIS, &format!("{what}, version 10"));
        drop((again, real));
        export_rdb(&keyspace, &back.path().join("dump.rdb"), Version::Nine, &never).unwrap();
        export_log(&keyspace, &back.path().join("appendonlydir"), Version::Nine, &never).unwrap();
        keyspace.close().unwrap();
        let (served, report, _) = served_from(&back.path().join("appendonlydir"));
        assert_eq!(report.keys, 120, "{what}");
        for logs in ["no", "yes"] {
            let real = Real::with(&["--save", "", "--dir", path(back.path()), "--appendonly", logs]).unwrap();
            same(&mut served.client(), &mut real.client(), FROM_NINE, &format!("{what}, appendonly {logs}"));
        }
    }
}

/// Imports a log as a real server leaves it when it is killed.
#[test]
fn logs_are_imported() {
    for (seed, preamble) in ["yes", "no"].into_iter().enumerate() {
        let there = tempfile::tempdir().unwrap();
        let arguments =
            ["--save", "", "--dir", path(there.path()), "--appendonly", "yes", "--appendfsync", "no", "--aof-use-rdb-preamble", preamble];
        let Some(real) = Real::with(&arguments) else { return skipped() };
        let mut theirs = real.client();
        let mut random = Random(200 + seed as u64);
        fill(&mut theirs, &mut random, 10);
        theirs.ask(&[b"BGREWRITEAOF"]);
        // What was there before is in the base, what comes now in the log behind it.
        while !theirs.ask(&[b"INFO", b"persistence"]).to_string().contains("aof_rewrite_in_progress:0") {
            std::thread::sleep(Duration::from_millis(10));
        }
        fill(&mut theirs, &mut random, 20);
        for command in
            ["MULTI", "INCR counter", "RPUSH list a b c", "EXEC", "LMOVE list list LEFT RIGHT", "SPOP none", "EXPIRE counter 100000"]
        {
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            theirs.ask(&words);
        }
        let logs = there.path().join("appendonlydir");
        let (served, report, _) = served_from(&logs);
        assert!(report.commands > 100 && report.cut.is_none(), "{report:?}");
        // Written as commands, an entry that is pending and gone is not told: as it reads its own log.
        ok(&mut theirs, &[b"DEBUG", b"LOADAOF"]);
        same(&mut served.client(), &mut theirs, NOT_IN_LOGS, &format!("preamble {preamble}"));
    }
}

fn saving(directory: &Path) -> Server {
    let configuration = Configuration { directory: path(directory).into(), ..Configuration::default() };
    Server { configuration, ..Server::default() }
}

#[test]
fn saved_files_are_whole_and_as_of_a_moment() {
    let there = tempfile::tempdir().unwrap();
    let served = Served::with(saving(there.path()), Arc::new(MemoryStore::new()));
    let mut ours = served.client();
    fill(&mut ours, &mut Random(300), 40);
    let started = ours.ask(&[b"LASTSAVE"]).to_string();
    assert!(started.len() > 8, "{started}");
    ok(&mut ours, &[b"SAVE"]);
    assert_eq!(field(&mut ours, "rdb_saves"), "1");
    assert_eq!(ours.ask(&[b"CONFIG", b"GET", b"dbfilename"]).to_string(), "*2($dbfilename $dump.rdb )");
    if let Some(real) = Real::with(&["--save", "", "--dir", path(there.path())]) {
        same(&mut ours, &mut real.client(), NOT_IN_NINE, "SAVE");
    }

    // What came before it in the same turn is in it, and what comes while it saves does it no harm.
    ok(&mut ours, &[b"FLUSHALL"]);
    ok(&mut ours, &[b"SELECT", b"0"]);
    let mut requests = Vec::new();
    for n in 0..30_000 {
        requests.extend(common::encode(&["SET".to_owned(), format!("key{n}"), "before".to_owned()]));
    }
    requests.extend(common::encode(&["BGSAVE"]));
    requests.extend(common::encode(&["BGSAVE"]));
    for n in 0..1000 {
        requests.extend(common::encode(&["SET".to_owned(), format!("key{n}"), "after".to_owned()]));
    }
    ours.send(&requests);
    let replies: Vec<String> = (0..31_002).map(|_| ours.reply().unwrap().to_string()).collect();
    assert_eq!(replies[30_000], "+Background saving started");
    assert_eq!(replies[30_001], "-ERR Background save already in progress");
    while field(&mut ours, "rdb_bgsave_in_progress") == "1" {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!((field(&mut ours, "rdb_last_bgsave_status"), field(&mut ours, "rdb_saves")), ("ok".into(), "2".into()));
    let names: Vec<_> = std::fs::read_dir(there.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["dump.rdb"]);
    let (saved, report, _) = served_from(&there.path().join("dump.rdb"));
    assert_eq!(report.keys, 30_000);
    assert_eq!(saved.client().ask(&[b"GET", b"key29999"]).to_string(), "$before");
}

#[test]
fn a_save_that_fails_or_is_given_up_leaves_nothing() {
    let there = tempfile::tempdir().unwrap();
    let missing = there.path().join("missing");
    let served = Served::with(saving(&missing), Arc::new(MemoryStore::new()));
    let mut ours = served.client();
    ok(&mut ours, &[b"SET", b"a", b"1"]);
    assert!(ours.ask(&[b"SAVE"]).to_string().starts_with("-ERR No such file"));
    assert_eq!(ours.ask(&[b"BGSAVE", b"SCHEDULE"]).to_string(), "+Background saving started");
    while field(&mut ours, "rdb_bgsave_in_progress") == "1" {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!((field(&mut ours, "rdb_last_bgsave_status"), field(&mut ours, "rdb_saves")), ("err".into(), "0".into()));
    assert_eq!(ours.ask(&[b"GET", b"a"]).to_string(), "$1");
    assert!(ours.ask(&[b"BGREWRITEAOF"]).to_string().starts_with("+Nothing to rewrite"));
    drop(served);

    // Shut down while it saves.
    let served = Served::with(saving(there.path()), Arc::new(MemoryStore::new()));
    let mut ours = served.client();
    fill(&mut ours, &mut Random(400), 60);
    ours.ask(&[b"BGSAVE"]);
    drop((ours, served));
    for entry in std::fs::read_dir(there.path()).unwrap() {
        let name = entry.unwrap().file_name();
        assert_eq!(name, "dump.rdb", "a whole file or none");
        served_from(&there.path().join(name));
    }
}

/// Streams keep their bytes in both directions.
#[test]
fn streams_are_exchanged_as_bytes() {
    let Some(real) = Real::start() else { return skipped() };
    let mut theirs = real.client();
    let id = |n: u64| StreamEntryId { ms: 1000 + n / 2, seq: n % 2 };
    let mut nodes = Nodes::default();
    let mut done = Vec::new();
    for n in 0..500u64 {
        let more = [("field", n.to_string()), ("more", "x".repeat(n as usize % 90))];
        let fields: Vec<(&[u8], &[u8])> = more.iter().map(|(field, value)| (field.as_bytes(), value.as_bytes())).collect();
        done.extend(nodes.add(id(n), if n % 50 == 7 { &fields[..1] } else { &fields }));
    }
    done.extend(nodes.end());
    let mut out = Output::new(Vec::new());
    out.kind(stream_kind(Version::Nine)).unwrap();
    out.length(done.len() as u64).unwrap();
    done.iter().for_each(|node| out.stream_node(node).unwrap());
    let state = StreamState { length: 500, first: id(0), last: id(600), max_deleted: StreamEntryId::default(), added: 500 };
    out.stream_state(Version::Nine, &state).unwrap();
    out.length(1).unwrap();
    out.stream_group(Version::Nine, b"group", id(9), None).unwrap();
    out.length(1).unwrap();
    out.stream_pending(id(3), 1_700_000_000_000, 2).unwrap();
    out.length(1).unwrap();
    out.stream_consumer(Version::Nine, b"consumer", 1_700_000_000_001, None).unwrap();
    out.length(1).unwrap();
    out.stream_owned(id(3)).unwrap();
    let payload = out.end_of_value(Version::Nine).unwrap();
    ok(&mut theirs, &[b"CONFIG", b"SET", b"sanitize-dump-payload", b"yes"]);
    ok(&mut theirs, &[b"RESTORE", b"s", b"0", &payload]);
    assert_eq!(theirs.ask(&[b"XLEN", b"s"]).to_string(), ":500");
    assert_eq!(theirs.ask(&[b"XRANGE", b"s", b"1003-1", b"1003-1"]).to_string(), "*1(*2($1003-1 *2($field $7 ) ) )");
    let waiting = theirs.ask(&[b"XPENDING", b"s", b"group"]).to_string();
    assert_eq!(waiting, "*4(:1 $1001-1 $1001-1 *1(*2($consumer $1 ) ) )");

    // What it gives of that, and the whole of it again.
    let Reply::One(payload) = theirs.ask(&[b"DUMP", b"s"]) else { panic!("no payload") };
    let (value, _) = open_value(&payload[1..]).unwrap();
    let mut input = Input::new(value);
    let of = input.byte().unwrap();
    let (mut entries, mut others) = (Vec::new(), Vec::new());
    read_value::<_, sinter_server::rdb::Error>(&mut input, of, &mut |element| {
        match element {
            Element::Stream(StreamElement::Entry { id, fields }) => entries.push((id, fields.len())),
            other => others.push(format!("{other:?}")),
        }
        Ok(())
    })
    .unwrap();
    let expected: Vec<(StreamEntryId, usize)> = (0..500).map(|n| (id(n), if n % 50 == 7 { 1 } else { 2 })).collect();
    assert_eq!((entries, others.len(), input.position()), (expected, 5, value.len() as u64));
    let served = Served::start();
    let mut ours = served.client();
    ok(&mut ours, &[b"RESTORE", b"s", b"0", &payload[1..]]);
    assert_eq!(content(&mut ours, b"s", OF_REDIS), content(&mut theirs, b"s", OF_REDIS));
}
