//! Replicas of this server: real `redis-server`, and `redis-cli`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::append::send;
use crate::common::beside::compare;
use crate::common::commands::Random;
use crate::common::contents::{NOT_IN_LOGS, ok, same};
use crate::common::{Client, Real, Reply, Served, encode};
use crate::replicas::is_closed;
use sinter_server::command::{Allowed, Configuration, Server};
use sinter_server::keyspace::Keyspace;
use sinter_server::net::{EndedBy, unix_ms};
use sinter_server::transfer::{Damage, Found};
use sinter_storage::store::MemoryStore;
use sinterdb::settings::Settings;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

pub fn serve(settings: &[(&str, &str)], store: &Arc<MemoryStore>) -> Served {
    let mut configuration = Configuration { debug_command: Allowed::Yes, ..Configuration::default() };
    settings.iter().for_each(|(name, value)| configuration.set(name, value).unwrap());
    Served::with(Server { configuration, ..Server::default() }, store.clone())
}

pub fn served(settings: &[(&str, &str)]) -> Served {
    serve(settings, &Arc::new(MemoryStore::new()))
}

/// A real server that replicates this one, in a directory of its own.
pub fn follower(served: &Served, more: &[&str]) -> Option<(Real, TempDir)> {
    let (folder, port) = (tempfile::tempdir().unwrap(), served.address.port().to_string());
    let directory = folder.path().to_str().unwrap().to_owned();
    let own = ["--save", "", "--appendonly", "no", "--dir", &directory, "--replicaof", "127.0.0.1", &port];
    let real = Real::with(&[&own[..], more].concat());
    if real.is_none() {
        eprintln!("skipped: there is no redis-server 7.0 here");
    }
    Some((real?, folder))
}

/// The text of `INFO`.
pub fn info(client: &mut Client) -> String {
    let Reply::One(text) = client.ask(&[b"INFO", b"everything"]) else { panic!("no text") };
    String::from_utf8(text).unwrap()
}

/// A line of `INFO`.
pub fn field(client: &mut Client, name: &str) -> String {
    info(client).lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_else(|| panic!("{name}")).to_owned()
}

/// Waits until a condition holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..4000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what}");
}

/// Waits until a replica has acknowledged all that was written.
pub fn settled(client: &mut Client) {
    until("a replica is online", || info(client).contains("state=online"));
    client.ask(&[b"INCR", b"settled"]);
    assert_eq!(client.ask(&[b"WAIT", b"1", b"20000"]).to_string(), ":1");
}

/// Values of all kinds, some of them long.
pub fn fill(client: &mut Client, count: usize) {
    let long = "x".repeat(3000);
    for n in 0..count {
        let key = format!("key:{n}");
        let words: Vec<&[u8]> = match n % 6 {
            0 => vec![b"SET", key.as_bytes(), long.as_bytes()],
            1 => vec![b"RPUSH", key.as_bytes(), b"a", long.as_bytes(), b"c"],
            2 => vec![b"HSET", key.as_bytes(), b"a", b"1", b"b", long.as_bytes()],
            3 => vec![b"ZADD", key.as_bytes(), b"1", b"a", b"2.5", b"b"],
            4 => vec![b"SADD", key.as_bytes(), b"1", b"2", b"x"],
            _ => vec![b"XADD", key.as_bytes(), b"*", b"a", b"b"],
        };
        client.send(&encode(&words));
    }
    (0..count).for_each(|_| assert!(!client.reply().unwrap().to_string().starts_with('-')));
}

/// All shapes of commands, before the replica comes, while it gets the data, and afterwards.
#[test]
fn a_real_redis_follows() {
    for seed in 0..3 {
        let served = served(&[]);
        let (mut random, mut client, mut control) = (Random::new(900 + seed), served.client(), served.client());
        client.ask(&[b"HELLO", if seed % 2 == 0 { b"2" } else { b"3" }]);
        send(&mut client, &mut random, 1500);
        let Some((real, _folder)) = follower(&served, &[]) else { return };
        for step in 0..4 {
            send(&mut client, &mut random, 600);
            // What is about to end has ended when both are asked.
            std::thread::sleep(Duration::from_millis(40));
            settled(&mut control);
            same(&mut control, &mut real.client(), NOT_IN_LOGS, &format!("seed {seed}, step {step}"));
        }
        assert_eq!((field(&mut control, "sync_full"), field(&mut control, "sync_partial_err")), ("1".into(), "0".into()));
    }
}

/// Writers go on while several replicas get the data, some by length and some by mark.
#[test]
fn replicas_that_come_under_load_have_equal_data() {
    let served = served(&[]);
    let mut control = served.client();
    fill(&mut control, 3000);
    let stops = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for id in 0..2u64 {
            let (mut client, stops) = (served.client(), &stops);
            scope.spawn(move || {
                let mut random = Random::new(id);
                while !stops.load(Ordering::Acquire) {
                    let n = random.below(4000);
                    let (key, value) = (format!("load:{n}"), "v".repeat(n));
                    client.ask(&[b"SET", key.as_bytes(), value.as_bytes()]);
                    client.ask(&[b"LPUSH", format!("list:{}", n % 50).as_bytes(), value.as_bytes()]);
                    client.ask(&[b"LTRIM", format!("list:{}", n % 50).as_bytes(), b"0", b"20"]);
                }
            });
        }
        let all: Vec<_> = (0..3).filter_map(|_| follower(&served, &[])).collect();
        std::thread::sleep(Duration::from_millis(300));
        stops.store(true, Ordering::Release);
        for (number, (real, _)) in all.iter().enumerate() {
            control.ask(&[b"INCR", b"settled"]);
            assert_eq!(control.ask(&[b"WAIT", b"3", b"20000"]).to_string(), ":3");
            same(&mut control, &mut real.client(), NOT_IN_LOGS, &format!("replica {number}"));
        }
    });
}

/// The stream goes on where it broke: after a broken link, and after a restart of the server, which has another id then.
#[test]
fn a_replica_goes_on_where_it_was() {
    let store = Arc::new(MemoryStore::new());
    let first = serve(&[], &store);
    let mut client = first.client();
    fill(&mut client, 100);
    ok(&mut client, &[b"SELECT", b"3"]);
    let Some((real, _folder)) = follower(&first, &[]) else { return };
    settled(&mut client);
    assert_eq!(client.ask(&[b"CLIENT", b"KILL", b"TYPE", b"replica"]).to_string(), ":1");
    fill(&mut client, 200);
    until("the replica is back", || field(&mut client, "sync_partial_ok") == "1");
    settled(&mut client);
    same(&mut client, &mut real.client(), NOT_IN_LOGS, "after a broken link");
    assert_eq!(field(&mut client, "sync_full"), "1");
    let id = field(&mut client, "master_replid");
    drop((client, first));
    let second = serve(&[], &store);
    let mut client = second.client();
    ok(&mut client, &[b"SELECT", b"5"]);
    fill(&mut client, 50);
    assert_eq!(field(&mut client, "master_replid2"), id);
    assert_ne!(field(&mut client, "master_replid"), id);
    ok(&mut real.client(), &[b"REPLICAOF", b"127.0.0.1", second.address.port().to_string().as_bytes()]);
    until("the replica is back", || field(&mut client, "sync_partial_ok") == "1");
    settled(&mut client);
    same(&mut client, &mut real.client(), NOT_IN_LOGS, "after a restart");
    assert_eq!((field(&mut client, "sync_full"), field(&mut client, "sync_partial_err")), ("0".into(), "0".into()));
}

/// Requests that wait for replicas, and writes that need them.
#[test]
fn writes_wait_for_replicas_and_may_need_them() {
    let served = served(&[]);
    let mut client = served.client();
    let ask = |client: &mut Client, line: &str| client.ask(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()).to_string();
    assert_eq!(ask(&mut client, "WAIT 0 0"), ":0");
    assert_eq!(ask(&mut client, "WAIT 1 10"), ":0");
    const NOT_ENOUGH: &str = "-NOREPLICAS Not enough good replicas to write.";
    assert_eq!(ask(&mut client, "CONFIG SET min-replicas-to-write 1"), "+OK");
    for (line, reply) in [
        ("SET a 1", NOT_ENOUGH),
        ("GET a", "$"),
        ("MULTI", "+OK"),
        ("SET a 1", NOT_ENOUGH),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("EVAL return␣redis.call('set',KEYS[1],1) 1 a", NOT_ENOUGH),
    ] {
        let words: Vec<String> = line.split(' ').map(|word| word.replace('␣', " ")).collect();
        let got = client.ask(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>()).to_string();
        assert!(got.starts_with(reply), "{line}: {got}");
    }
    let Some((real, _folder)) = follower(&served, &[]) else { return };
    until("the replica is good", || ask(&mut client, "SET a 1") == "+OK");
    assert_eq!(ask(&mut client, "WAIT 1 20000"), ":1");
    assert_eq!(real.client().ask(&[b"GET", b"a"]).to_string(), "$1");
    assert_eq!(field(&mut client, "min_slaves_good_slaves"), "1");
    assert!(ask(&mut client, "ROLE").contains("$127.0.0.1"), "{}", ask(&mut client, "ROLE"));
    assert!(ask(&mut client, "CLIENT LIST TYPE replica").contains(" flags=S "));
    assert_eq!(ask(&mut client, "WAIT 2 50"), ":1");
    // A replica of Redis 7.0 does not say what it has on its medium.
    assert!(ask(&mut client, "WAITAOF 0 1 50").ends_with(" :0 )"));
    for (line, reply) in [("MULTI", "+OK"), ("SET a 2", "+QUEUED"), ("WAIT 1 0", "+QUEUED"), ("EXEC", "*2(+OK :")] {
        let got = ask(&mut client, line);
        assert!(got.starts_with(reply), "{line}: {got}");
    }
    drop(real);
    until("the replica is gone", || ask(&mut client, "SET a 1").starts_with("-NOREPLICAS"));
    assert_eq!(ask(&mut client, "CONFIG SET min-replicas-max-lag 0"), "+OK");
    assert_eq!(ask(&mut client, "SET a 1"), "+OK");
}

/// Requests of clients that are no replicas yet have Redis's replies.
#[test]
fn what_is_no_synchronisation_is_refused_as_in_redis() {
    let lines = [
        "a: REPLCONF",
        "a: REPLCONF listening-port",
        "a: REPLCONF listening-port x",
        "a: REPLCONF listening-port 7 ip-address here",
        "a: REPLCONF capa eof capa psync2 capa other",
        "a: REPLCONF nothing 1",
        "a: REPLCONF rdb-only 2",
        "a: REPLCONF rdb-only x",
        "a: REPLCONF rdb-only 1",
        "a: REPLCONF rdb-filter-only keys",
        "a: REPLCONF rdb-filter-only functions",
        "a: REPLCONF rdb-only 0",
        "a: PSYNC x y",
        "a: PSYNC x",
        "a: PSYNC x 1 failover",
        "a: SYNC x",
        "b: REPLCONF rdb-filter-only functions",
        "b: SYNC",
        "b: PSYNC ? -1",
        "b: MULTI",
        "b: PSYNC ? -1",
        "b: DISCARD",
        "b: EVAL redis.call('psync','?',-1) 0",
        "b: ROLE",
        "b: WAIT 1 1",
        "b: CLIENT KILL TYPE replica",
        "b: CLIENT KILL TYPE master",
        "b: CLIENT LIST TYPE slave",
        "b: ACL SETUSER u on nopass ~* +@all -psync -replconf",
        "b: AUTH u x",
        "b: PSYNC ? -1",
        "b: REPLCONF capa eof",
    ];
    compare(&lines, |_, reply| reply);
}

/// `redis-cli --rdb` gets a file, and leaves no stream behind.
#[test]
fn redis_cli_gets_a_file() {
    let served = served(&[]);
    let mut client = served.client();
    fill(&mut client, 300);
    let folder = tempfile::tempdir().unwrap();
    let (file, port) = (folder.path().join("dump.rdb"), served.address.port().to_string());
    let Ok(output) = Command::new("redis-cli").args(["-p", &port, "--rdb", file.to_str().unwrap()]).output() else {
        eprintln!("skipped: there is no redis-cli here");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let store = Arc::new(MemoryStore::new());
    let mut keyspace = Keyspace::open(store.clone(), &Settings::default(), 7).unwrap();
    Found::look(&file, Damage::Refuse).unwrap().load(&mut keyspace, false, unix_ms()).unwrap();
    keyspace.close().unwrap();
    let copy = serve(&[], &store);
    same(&mut copy.client(), &mut client, NOT_IN_LOGS, "the file");
    until("the client is gone", || field(&mut client, "connected_slaves") == "0");
    assert_eq!(field(&mut client, "repl_backlog_active"), "0");
    // Functions alone.
    client.ask(&[b"FUNCTION", b"LOAD", b"#!lua name=lib\nredis.register_function('f', function() return 1 end)"]);
    let output = Command::new("redis-cli").args(["-p", &port, "--functions-rdb", file.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&file).unwrap();
    assert!(bytes.len() < 500 && bytes.windows(4).any(|some| some == b"#!lu"), "{}", bytes.escape_ascii());
}

/// The end of the server waits for replicas that have not got everything, and can be taken back meanwhile.
#[test]
fn the_end_waits_for_replicas() {
    let served = served(&[]);
    let mut client = served.client();
    let Some((real, _folder)) = follower(&served, &[]) else { return };
    settled(&mut client);
    let mut sleeper = real.client();
    sleeper.send(&encode(&["DEBUG", "SLEEP", "2"]));
    std::thread::sleep(Duration::from_millis(100));
    ok(&mut client, &[b"SET", b"last", b"1"]);
    let (mut ending, mut writer) = (served.client(), served.client());
    ending.send(&encode(&["SHUTDOWN"]));
    until("the end waits", || client.ask(&[b"CLIENT", b"LIST"]).to_string().contains(" cmd=shutdown "));
    writer.send(&encode(&["SET", "b", "1"]));
    assert!(writer.is_silent(Duration::from_millis(50)));
    let left: u64 = field(&mut client, "shutdown_in_milliseconds").parse().unwrap();
    assert!((1..10_000).contains(&left), "{left}");
    ok(&mut client, &[b"SHUTDOWN", b"ABORT"]);
    assert!(!client.ask(&[b"INFO", b"server"]).to_string().contains("shutdown_in_milliseconds"));
    assert_eq!(client.ask(&[b"SHUTDOWN", b"ABORT"]).to_string(), "-ERR No shutdown in progress.");
    assert_eq!(writer.reply().unwrap().to_string(), "+OK");
    assert_eq!(ending.reply().unwrap().to_string(), "-ERR Errors trying to SHUTDOWN. Check logs.");
    assert_eq!(sleeper.reply().unwrap().to_string(), "+OK");
    assert_eq!(client.ask(&[b"WAIT", b"1", b"20000"]).to_string(), ":1");
    sleeper.send(&encode(&["DEBUG", "SLEEP", "2"]));
    std::thread::sleep(Duration::from_millis(100));
    ok(&mut client, &[b"SET", b"last", b"2"]);
    ending.send(&encode(&["SHUTDOWN", "NOW"]));
    assert!(is_closed(&mut ending) && sleeper.is_silent(Duration::from_millis(1)));
}

/// `shutdown-on-sigterm now` ends the server at SIGTERM though a replica lacks something; after Ctrl-C it waits.
#[test]
fn a_signal_ends_the_server_as_configured() {
    let served = served(&[]);
    let mut client = served.client();
    let Some((real, _folder)) = follower(&served, &[]) else { return };
    settled(&mut client);
    let mut sleeper = real.client();
    sleeper.send(&encode(&["DEBUG", "SLEEP", "5"]));
    std::thread::sleep(Duration::from_millis(100));
    ok(&mut client, &[b"CONFIG", b"SET", b"shutdown-on-sigterm", b"nosave now"]);
    ok(&mut client, &[b"SET", b"last", b"1"]);
    let mut writer = served.client();
    served.stopper.stop_by(EndedBy::Interrupt);
    std::thread::sleep(Duration::from_millis(200));
    writer.send(&encode(&["SET", "b", "1"]));
    assert!(writer.is_silent(Duration::from_millis(100)), "the end waits");
    served.stopper.stop_by(EndedBy::Termination);
    assert!(is_closed(&mut client) && sleeper.is_silent(Duration::from_millis(1)));
}

/// Long strings reach replicas in parts, also replicas that come while they are written.
#[test]
fn long_strings_reach_replicas() {
    let served = served(&[]);
    let (mut client, mut control) = (served.client(), served.client());
    let value: Vec<u8> = (0..5u32 << 20).map(|n| (n % 251) as u8).collect();
    ok(&mut client, &[b"SET", b"before", &value]);
    let Some((first, _folder)) = follower(&served, &[]) else { return };
    settled(&mut control);
    let requests: [&[&[u8]]; 6] = [
        &[b"SET", b"k", &value, b"PX", b"100000000"],
        &[b"APPEND", b"before", &value],
        &[b"SETRANGE", b"k", b"7000000", &value],
        &[b"COPY", b"k", b"copied"],
        &[b"BITOP", b"NOT", b"bits", b"k"],
        &[b"GETSET", b"k", &value],
    ];
    for words in requests {
        client.send(&encode(words));
    }
    let Some((second, _folder)) = follower(&served, &[]) else { return };
    for _ in requests {
        assert!(client.reply().is_some_and(|reply| !reply.to_string().starts_with('-')));
    }
    client.ask(&[b"INCR", b"settled"]);
    assert_eq!(client.ask(&[b"WAIT", b"2", b"20000"]).to_string(), ":2");
    for (real, what) in [(&first, "first"), (&second, "second")] {
        same(&mut control, &mut real.client(), NOT_IN_LOGS, what);
    }
}
