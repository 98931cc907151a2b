//! The network when clients misbehave, wait, or come in numbers; and the information that a client gets about others.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{Client, Reply, Served, encode};
use sinter_server::command::configuration::ClientsMemory;
use sinter_server::command::{Allowed, Configuration, Fsync, Server};
use sinter_storage::store::MemoryStore;
use std::io::Write;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

fn one(text: &str) -> Reply {
    Reply::One(text.as_bytes().to_vec())
}

fn with(configuration: Configuration) -> Served {
    Served::with(Server { configuration, ..Server::default() }, Arc::new(MemoryStore::new()))
}

/// A line of `INFO`.
fn info(client: &mut Client, name: &str) -> String {
    let Reply::One(text) = client.ask(&[b"INFO"]) else { panic!("a text") };
    let text = String::from_utf8(text).unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap().trim().into()
}

fn wait_until(mut holds: impl FnMut() -> bool, what: &str) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what}");
}

/// The client gets a reply soon, whatever others do.
fn is_served(client: &mut Client) {
    for _ in 0..100 {
        assert_eq!(client.ask(&[b"PING"]), one("+PONG"));
    }
}

#[test]
fn who_does_not_read_messages_is_closed_and_nobody_else() {
    let served = Served::start();
    let (mut slow, mut good, mut sender) = (served.client(), served.client(), served.client());
    slow.ask(&[b"SUBSCRIBE", b"x"]);
    good.ask(&[b"SUBSCRIBE", b"x"]);
    let message = vec![b'm'; 1 << 20];
    let mut receivers = Vec::new();
    for _ in 0..60 {
        receivers.push(sender.ask(&[b"PUBLISH", b"x", &message]));
        assert!(matches!(good.reply(), Some(Reply::Many(b'*', parts)) if parts.len() == 3));
    }
    assert_eq!((&receivers[0], &receivers[59]), (&one(":2"), &one(":1")));
    assert_eq!(info(&mut sender, "connected_clients"), "2");
    is_served(&mut sender);
}

#[test]
fn who_sends_halves_of_requests_cannot_take_all_memory() {
    let served = with(Configuration { clients_memory: ClientsMemory::Bytes(16 << 20), ..Configuration::default() });
    let mut other = served.client();
    let mut spared = served.client();
    assert_eq!(spared.ask(&[b"CLIENT", b"NO-EVICT", b"ON"]), one("+OK"));
    // Of a `SET` nothing would be held.
    spared.send(&[&b"*3\r\n$5\r\nLPUSH\r\n$1\r\nl\r\n$7000000\r\n"[..], &vec![b'x'; 6_999_000]].concat());
    let many: Vec<Client> = (0..8)
        .map(|_| {
            let client = served.client();
            // It may be closed while it still sends.
            let _ = client.sender().write_all(&[&b"*3\r\n$5\r\nLPUSH\r\n$1\r\nl\r\n$7000000\r\n"[..], &vec![b'x'; 3_000_000]].concat());
            is_served(&mut other);
            client
        })
        .collect();
    wait_until(|| info(&mut other, "evicted_clients") != "0", "nobody was closed");
    spared.send(&vec![b'x'; 1_000]);
    spared.send(b"\r\n");
    assert_eq!(spared.reply(), Some(one(":1")));
    drop(many);
    wait_until(|| info(&mut other, "connected_clients") == "2", "clients stay");
    // What the server holds is counted down again.
    let mut late = served.client();
    assert_eq!(late.ask(&[b"SET", b"k", &vec![b'x'; 3_000_000]]), one("+OK"));
    is_served(&mut late);
}

#[test]
fn idle_clients_and_floods_of_new_ones_keep_nobody_waiting() {
    let served = Served::start();
    let mut other = served.client();
    let idle: Vec<Client> = (0..100).map(|_| served.client()).collect();
    let waiting: Vec<Client> = (0..100)
        .map(|_| {
            let mut client = served.client();
            client.send(&encode(&["BLPOP", "never", "0"]));
            client
        })
        .collect();
    wait_until(|| info(&mut other, "blocked_clients") == "100", "they do not wait");
    std::thread::scope(|scope| {
        scope.spawn(|| (0..300).for_each(|_| drop(served.client())));
        for _ in 0..20 {
            is_served(&mut other);
        }
    });
    drop((idle, waiting));
    wait_until(|| info(&mut other, "connected_clients") == "1", "clients stay");
    assert_eq!(info(&mut other, "blocked_clients"), "0");
}

#[test]
fn a_huge_reply_is_sent_in_shares() {
    let served = Served::start();
    let (mut greedy, mut other) = (served.client(), served.client());
    let value = vec![b'x'; 64 << 20];
    assert_eq!(other.ask(&[b"SET", b"big", &value]), one("+OK"));
    let mut sender = greedy.sender();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..4 {
                assert_eq!(greedy.reply(), Some(Reply::One([b"$", &value[..]].concat())));
            }
        });
        sender.write_all(&encode(&["GET", "big"]).repeat(4)).unwrap();
        is_served(&mut other);
    });
}

/// A few bytes can ask for long strings. Each is in the engine before the next one is made, although all come at once.
#[test]
fn long_values_of_one_turn_are_not_held_together() {
    let served = Served::start();
    let mut client = served.client();
    // A string that is nearly all zeros costs what is written to it; what is made of it is whole.
    let long = |key: &str| encode(&["BITOP", "NOT", key, "zeros"]);
    client.send(&[encode(&["SETRANGE", "zeros", "9000000", "x"]), long("a"), long("b"), encode(&["INFO", "memory"])].concat());
    assert!((0..3).all(|_| client.reply() == Some(one(":9000001"))));
    let Some(Reply::One(text)) = client.reply() else { panic!("a text") };
    let text = String::from_utf8(text).unwrap();
    let held = text.lines().find_map(|line| line.strip_prefix("used_memory_memtables:")).unwrap();
    // The last one may still be on its way from the log into the memtable.
    assert!(held.trim().parse::<u64>().unwrap() > 9_000_000, "{held}");
}

/// Memory follows its budget, and data that do not fit are on the medium.
#[test]
fn a_budget_of_memory_holds_and_costs_no_key() {
    let served = with(Configuration { memory: 64 << 20, ..Configuration::default() });
    let mut client = served.client();
    assert_eq!(info(&mut client, "maxmemory"), (64 << 20).to_string());
    let key = |n: usize| format!("key:{n}");
    for n in 0..40_000 {
        client.send(&encode(&["SET", &key(n), &"value".repeat(200)]));
        client.send(&encode(&["GET", &key(n / 7 % 5000)]));
        assert_eq!(client.reply(), Some(one("+OK")));
        assert!(client.reply().is_some());
    }
    let used = |client: &mut Client| -> u64 { info(client, "used_memory").parse().unwrap() };
    let parts = ["used_memory_memtables", "used_memory_cache", "used_memory_hot"];
    assert!(parts.iter().all(|name| info(&mut client, name) != "0"));
    assert_ne!(info(&mut client, "hot_key_hits"), "0");
    for (budget, bytes) in [("16mb", 16 << 20), ("4mb", 4 << 20)] {
        assert_eq!(client.ask(&[b"CONFIG", b"SET", b"maxmemory", budget.as_bytes()]), one("+OK"));
        wait_until(|| used(&mut client) <= bytes, "more memory is used than may be");
        assert_eq!(info(&mut client, "maxmemory"), bytes.to_string());
    }
    // Less than the engine needs means as much as it needs.
    assert_eq!(client.ask(&[b"CONFIG", b"SET", b"maxmemory", b"1mb"]), one("+OK"));
    assert_eq!((client.ask(&[b"DBSIZE"]), info(&mut client, "evicted_keys")), (one(":40000"), "0".into()));
    for n in (0..40_000).step_by(97) {
        assert_eq!(client.ask(&[b"STRLEN", key(n).as_bytes()]), one(":1000"));
    }
    assert!(used(&mut client) <= 4 << 20);
}

#[test]
fn who_is_gone_gets_nothing() {
    let served = Served::start();
    let (mut gone, mut half, mut stays, mut other) = (served.client(), served.client(), served.client(), served.client());
    gone.send(&encode(&["BLPOP", "k", "0"]));
    wait_until(|| info(&mut other, "blocked_clients") == "1", "it does not wait");
    half.send(&encode(&["BLPOP", "k", "0"]));
    // More behind it than is read of a client that waits, but so little more that the kernel takes it, and the end behind it.
    half.send(&b"PING\r\n".repeat(178_000));
    drop((gone, half));
    wait_until(|| info(&mut other, "blocked_clients") == "0", "they still wait");
    stays.send(&encode(&["BLPOP", "k", "0"]));
    wait_until(|| info(&mut other, "blocked_clients") == "1", "it does not wait");
    assert_eq!(other.ask(&[b"RPUSH", b"k", b"1"]), one(":1"));
    assert_eq!(stays.reply(), Some(Reply::Many(b'*', vec![one("$k"), one("$1")])));
}

/// Each of the first requests takes longer than a client's share of a turn, so that the end of the stream is seen before the rest has run.
#[test]
fn requests_that_have_come_whole_run_although_their_client_is_gone() {
    let served = with(Configuration { debug_command: Allowed::Yes, ..Configuration::default() });
    let (mut client, mut other) = (served.client(), served.client());
    let requests = [encode(&["DEBUG", "SLEEP", "0.03"]), encode(&["INCR", "n"])].concat().repeat(5);
    client.send(&[requests, b"*1\r\n$8\r\nFLUSHALL".to_vec()].concat());
    client.sender().shutdown(Shutdown::Write).unwrap();
    for n in 1..=5 {
        assert_eq!((client.reply(), client.reply()), (Some(one("+OK")), Some(one(&format!(":{n}")))));
    }
    assert_eq!(client.reply(), None);
    // Behind a request that waits, nothing runs for a client that is gone.
    let mut client = served.client();
    let requests: [&[&str]; 4] = [&["DEBUG", "SLEEP", "0.03"], &["GET", "n"], &["BLPOP", "list", "0"], &["INCR", "n"]];
    client.send(&requests.map(encode).concat());
    client.sender().shutdown(Shutdown::Write).unwrap();
    assert_eq!((client.reply(), client.reply(), client.reply()), (Some(one("+OK")), Some(one("$5")), None));
    assert_eq!((other.ask(&[b"RPUSH", b"list", b"1"]), other.ask(&[b"GET", b"n"])), (one(":1"), one("$5")));
}

#[test]
fn a_client_that_waits_may_send_much() {
    let served = Served::start();
    let (mut client, mut other) = (served.client(), served.client());
    client.send(&encode(&["BLPOP", "k", "0"]));
    let requests = encode(&["ECHO", "something"]).repeat(100_000);
    std::thread::scope(|scope| {
        let mut sender = client.sender();
        scope.spawn(move || sender.write_all(&requests).unwrap());
        wait_until(|| info(&mut other, "blocked_clients") == "1", "it does not wait");
        std::thread::sleep(Duration::from_millis(50));
        assert!(client.is_silent(Duration::from_millis(20)));
        other.ask(&[b"RPUSH", b"k", b"1"]);
        assert_eq!(client.reply(), Some(Reply::Many(b'*', vec![one("$k"), one("$1")])));
        for _ in 0..100_000 {
            assert_eq!(client.reply(), Some(one("$something")));
        }
    });
}

#[test]
fn writes_are_waited_for_until_they_are_safe() {
    let pair = |here: &str| Reply::Many(b'*', vec![one(here), one(":0")]);
    let served = Served::start();
    let mut client = served.client();
    client.ask(&[b"SET", b"a", b"1"]);
    assert_eq!(client.ask(&[b"WAITAOF", b"0", b"0", b"0"]), pair(":0"));
    assert_eq!(client.ask(&[b"WAITAOF", b"1", b"0", b"0"]), pair(":1"));
    assert_eq!(client.ask(&[b"WAITAOF", b"1", b"1", b"10"]), pair(":1"));
    for (words, text) in [
        (["2", "0", "0"], "-ERR value is out of range, value must between 0 and 1"),
        (["x", "0", "0"], "-ERR value is not an integer or out of range"),
        (["1", "-1", "0"], "-ERR value is out of range, must be positive"),
        (["1", "0", "-1"], "-ERR timeout is negative"),
        (["1", "0", "x"], "-ERR timeout is not an integer or out of range"),
    ] {
        let words: Vec<&[u8]> = [b"WAITAOF".as_slice()].into_iter().chain(words.iter().map(|word| word.as_bytes())).collect();
        assert_eq!(client.ask(&words), one(text));
    }
    for (fsync, here) in [(Fsync::Always, ":1"), (Fsync::No, ":0")] {
        let served = with(Configuration { fsync, ..Configuration::default() });
        let mut client = served.client();
        client.send(&[encode(&["SET", "a", "2"]), encode(&["WAITAOF", "1", "0", "1"])].concat());
        assert_eq!((client.reply(), client.reply()), (Some(one("+OK")), Some(pair(here))));
        assert_eq!(client.ask(&[b"WAITAOF", b"1", b"0", b"1"]), pair(here));
    }
}

/// Writes are synced soon after that was configured, not only at the end of the long interval before.
#[test]
fn syncs_come_as_often_as_the_configuration_says_by_now() {
    let served = with(Configuration { fsync: Fsync::No, ..Configuration::default() });
    let mut client = served.client();
    client.ask(&[b"SET", b"a", b"1"]);
    assert_eq!(client.ask(&[b"CONFIG", b"SET", b"appendfsync", b"everysec"]), one("+OK"));
    let is_safe = |reply: Reply| reply == Reply::Many(b'*', vec![one(":1"), one(":0")]);
    assert!((0..4).any(|_| is_safe(client.ask(&[b"WAITAOF", b"1", b"0", b"5000"]))), "they are not");
}

#[test]
fn swapped_databases_stay_so_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let served = Served::with(Server::default(), store.clone());
    let mut client = served.client();
    client.ask(&[b"SET", b"a", b"zero"]);
    client.ask(&[b"SELECT", b"9"]);
    client.ask(&[b"RPUSH", b"a", b"nine"]);
    client.ask(&[b"EXPIRE", b"a", b"1000"]);
    assert_eq!(client.ask(&[b"SWAPDB", b"9", b"0"]), one("+OK"));
    drop((client, served));
    let served = Served::with(Server::default(), store);
    let mut client = served.client();
    assert_eq!(client.ask(&[b"LRANGE", b"a", b"0", b"-1"]), Reply::Many(b'*', vec![one("$nine")]));
    assert_eq!(client.ask(&[b"TTL", b"a"]), one(":1000"));
    assert_eq!(client.ask(&[b"DBSIZE"]), one(":1"));
    client.ask(&[b"SELECT", b"9"]);
    assert_eq!(client.ask(&[b"GET", b"a"]), one("$zero"));
}

#[test]
fn all_commands_are_shown_to_who_monitors() {
    let served = Served::start();
    let (mut monitor, mut client) = (served.client(), served.client());
    assert_eq!(monitor.ask(&[b"MONITOR"]), one("+OK"));
    client.ask(&[b"SET", b"a b", b"\"\x01\n\\"]);
    client.ask(&[b"CONFIG", b"GET", b"port"]);
    client.ask(&[b"AUTH", b"secret"]);
    client.ask(&[b"HELLO", b"2", b"AUTH", b"default", b"secret"]);
    client.ask(&[b"NOSUCH"]);
    client.ask(&[b"MULTI"]);
    client.ask(&[b"PING"]);
    client.ask(&[b"EXEC"]);
    let mut shown = |expected: &str| {
        let Some(Reply::One(line)) = monitor.reply() else { panic!("a line") };
        let line = String::from_utf8(line).unwrap();
        let (time, rest) = line.split_once(" [0 127.0.0.1:").unwrap();
        assert!(time[1..].split_once('.').is_some_and(|(seconds, micros)| seconds.parse::<u64>().is_ok() && micros.len() == 6), "{line}");
        assert_eq!(rest.split_once("] ").unwrap().1, expected);
    };
    shown(r#""SET" "a b" "\"\x01\n\\""#);
    shown(r#""AUTH" "(redacted)""#);
    shown(r#""HELLO" "2" "AUTH" "(redacted)" "(redacted)""#);
    shown(r#""MULTI""#);
    shown(r#""PING""#);
    shown(r#""EXEC""#);
    assert_eq!(monitor.ask(&[b"RESET"]), one("+RESET"));
    client.ask(&[b"PING"]);
    assert!(monitor.is_silent(Duration::from_millis(30)));
}

#[test]
fn who_has_a_reason_to_be_silent_is_not_closed_for_it() {
    let served = with(Configuration { timeout: 1, ..Configuration::default() });
    let (mut monitor, mut listening, mut waiting) = (served.client(), served.client(), served.client());
    assert_eq!(monitor.ask(&[b"MONITOR"]), one("+OK"));
    listening.ask(&[b"SUBSCRIBE", b"x"]);
    waiting.send(&encode(&["BLPOP", "k", "0"]));
    // Clients are looked at once in a second: when this one came later and is gone, the others have been looked at.
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(served.client().reply(), None);
    let mut client = served.client();
    assert_eq!(client.ask(&[b"RPUSH", b"k", b"1"]), one(":1"));
    assert_eq!(waiting.reply(), Some(Reply::Many(b'*', vec![one("$k"), one("$1")])));
    assert_eq!(client.ask(&[b"PUBLISH", b"x", b"1"]), one(":1"));
    assert!(matches!(listening.reply(), Some(Reply::Many(b'*', _))));
    for shown in [r#""SUBSCRIBE" "x""#, r#""BLPOP" "k" "0""#, r#""RPUSH" "k" "1""#] {
        assert!(matches!(monitor.reply(), Some(Reply::One(line)) if line.ends_with(shown.as_bytes())), "{shown}");
    }
}

#[test]
fn what_is_known_of_clients_is_told() {
    let served = Served::start();
    let (mut asking, mut waiting, mut listening) = (served.client(), served.client(), served.client());
    waiting.ask(&[b"CLIENT", b"SETNAME", b"worker"]);
    waiting.ask(&[b"SELECT", b"3"]);
    waiting.send(&encode(&["BLPOP", "k", "0"]));
    listening.ask(&[b"SUBSCRIBE", b"a"]);
    listening.ask(&[b"PSUBSCRIBE", b"b"]);
    listening.ask(&[b"SSUBSCRIBE", b"c"]);
    wait_until(|| info(&mut asking, "blocked_clients") == "1", "it does not wait");
    asking.ask(&[b"MULTI"]);
    asking.ask(&[b"SET", b"k", b"v"]);
    asking.ask(&[b"CLIENT", b"LIST"]);
    let Reply::Many(_, replies) = asking.ask(&[b"EXEC"]) else { panic!("replies") };
    let Reply::One(list) = &replies[1] else { panic!("a text") };
    let list = String::from_utf8(list[1..].to_vec()).unwrap();
    let lines: Vec<&str> = list.lines().collect();
    let names: Vec<&str> = lines[0].split(' ').map(|field| field.split_once('=').unwrap().0).collect();
    let expected = "id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem rbs rbp obl oll omem \
                    tot-mem events cmd user redir resp lib-name lib-ver";
    assert_eq!(names.join(" "), expected);
    let has = |line: &str, fields: &[&str]| fields.iter().all(|field| line.split(' ').any(|other| other == *field));
    assert!(has(lines[0], &["flags=N", "db=0", "sub=0", "cmd=exec", "resp=2", "redir=-1", "user=default"]), "{}", lines[0]);
    assert!(has(lines[1], &["name=worker", "flags=b", "db=3", "cmd=blpop", "multi=-1", "events=r"]), "{}", lines[1]);
    assert!(has(lines[2], &["flags=P", "sub=1", "psub=1", "ssub=1", "cmd=ssubscribe"]), "{}", lines[2]);
    let Reply::One(alone) = asking.ask(&[b"CLIENT", b"LIST", b"TYPE", b"pubsub"]) else { panic!("a text") };
    assert_eq!(alone.iter().filter(|byte| **byte == b'\n').count(), 1);
    let Reply::One(own) = asking.ask(&[b"CLIENT", b"INFO"]) else { panic!("a text") };
    let own = String::from_utf8(own).unwrap();
    // The bytes of the request itself, as in Redis.
    assert!(own.contains(" cmd=client|info ") && own.contains(" qbuf=26 ") && own.contains(" oll=0 omem=0 "), "{own}");
    // A request that is refused is the last one, too.
    assert!(listening.ask(&[b"XINFO", b"STREAM"]).to_string().starts_with("-ERR "));
    let Reply::One(list) = asking.ask(&[b"CLIENT", b"LIST", b"TYPE", b"pubsub"]) else { panic!("a text") };
    assert!(String::from_utf8(list).unwrap().contains(" cmd=xinfo|stream "));
}
