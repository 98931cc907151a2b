//! The server over TCP: cases that only a network can cause.

use crate::common::{Client, Reply, Served, encode};
use sinter_server::command::{Configuration, Fsync, Server};
use sinter_storage::store::MemoryStore;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

fn one(text: &str) -> Option<Reply> {
    Some(Reply::One(text.as_bytes().to_vec()))
}

fn with(configuration: Configuration) -> Served {
    Served::with(Server { configuration, ..Server::default() }, Arc::new(MemoryStore::new()))
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let served = Served::start();
    let mut client = served.client();
    let mut request = Vec::new();
    for n in 0..20_000 {
        request.extend_from_slice(
            format!("*3\r\n$3\r\nSET\r\n$5\r\nk{:04}\r\n$5\r\n{n:05}\r\n*2\r\n$3\r\nGET\r\n$5\r\nk{:04}\r\n", n % 100, n % 100).as_bytes(),
        );
    }
    std::thread::scope(|scope| {
        let mut sender = client.sender();
        scope.spawn(move || sender.write_all(&request).unwrap());
        for n in 0..20_000 {
            assert_eq!(client.reply(), one("+OK"));
            assert_eq!(client.reply(), one(&format!("${n:05}")));
        }
    });
    assert_eq!(client.ask(&[b"DBSIZE"]), Reply::One(b":100".to_vec()));
}

#[test]
fn who_asks_first_is_served_first() {
    let served = Served::start();
    let (mut older, mut newer) = (served.client(), served.client());
    assert_eq!(newer.ask(&[b"SET", b"k", b"0"]), Reply::One(b"+OK".to_vec()));
    for n in 1..500 {
        let (reads, writes) = (encode(&["GET", "k"]), encode(&["SET", "k", &n.to_string()]));
        newer.send(&reads);
        older.send(&writes);
        assert_eq!((newer.reply(), older.reply()), (one(&format!("${}", n - 1)), one("+OK")));
    }
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let served = Served::start();
    let mut client = served.client();
    for byte in b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\nPING\r\n" {
        client.send(&[*byte]);
    }
    assert_eq!((client.reply(), client.reply()), (one("$hi"), one("+PONG")));
}

#[test]
fn what_cannot_be_understood_ends_the_connection() {
    let served = Served::start();
    for (bytes, reply) in [
        (&b"*1\r\n$-5\r\n"[..], one("-ERR Protocol error: invalid bulk length")),
        (b"PING\r\n*x\r\nPING\r\n", one("+PONG")),
        (b"*1\r\n:1\r\n", one("-ERR Protocol error: expected '$', got ':'")),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", None),
        (b"*1\r\n$4\r\nPOST\r\n", None),
        (b"\x16\x03\x01\x02\x00\x01\x00", None),
    ] {
        let mut client = served.client();
        client.send(bytes);
        assert_eq!(client.reply(), reply, "{:?}", String::from_utf8_lossy(bytes));
        while let Some(reply) = client.reply() {
            assert_eq!(Some(reply), one("-ERR Protocol error: invalid multibulk length"));
        }
    }
    assert_eq!(served.client().ask(&[b"PING"]), Reply::One(b"+PONG".to_vec()));
}

#[test]
fn strangers_get_little() {
    let served = with(Configuration { password: "secret".into(), ..Configuration::default() });
    let mut client = served.client();
    assert_eq!(client.ask(&[b"GET", b"a"]), Reply::One(b"-NOAUTH Authentication required.".to_vec()));
    client.send(b"*1\r\n$16385\r\n");
    assert_eq!(client.reply(), one("-ERR Protocol error: unauthenticated bulk length"));
    assert_eq!(client.reply(), None);
    let mut client = served.client();
    assert_eq!(client.ask(&[b"AUTH", b"secret"]), Reply::One(b"+OK".to_vec()));
    assert_eq!(client.ask(&[b"SET", b"a", &vec![b'x'; 20_000]]), Reply::One(b"+OK".to_vec()));
}

/// A client that sends requests without authenticating is closed as well.
#[test]
fn who_does_not_authenticate_is_closed() {
    let served = with(Configuration { password: "secret".into(), ..Configuration::default() });
    let (mut stranger, mut known) = (served.client(), served.client());
    assert_eq!(known.ask(&[b"AUTH", b"secret"]), Reply::One(b"+OK".to_vec()));
    for _ in 0..100 {
        // It may be closed while this is under way.
        let _ = stranger.sender().write_all(b"PING\r\n");
        if stranger.reply().is_none() {
            assert_eq!(known.ask(&[b"PING"]), Reply::One(b"+PONG".to_vec()));
            return;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    panic!("it is still there");
}

#[test]
fn who_does_not_read_waits_alone() {
    let served = Served::start();
    let mut slow = served.client();
    slow.ask(&[b"SET", b"big", &vec![b'x'; 1 << 20]]);
    slow.send(&b"GET big\r\n".repeat(64));
    let mut other = served.client();
    for _ in 0..50 {
        assert_eq!(other.ask(&[b"PING"]), Reply::One(b"+PONG".to_vec()));
    }
    for _ in 0..64 {
        assert!(matches!(slow.reply(), Some(Reply::One(bytes)) if bytes.len() == (1 << 20) + 1));
    }
}

/// Pipelines of many libraries write all requests before they read the first reply.
#[test]
fn who_sends_all_before_reading_is_served() {
    const REQUESTS: usize = 40_000;
    let (served, payload) = (Served::start(), vec![b'x'; 1000]);
    let (mut client, mut other) = (served.client(), served.client());
    let sender = client.sender();
    sender.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    (&sender).write_all(&encode(&[&b"ECHO"[..], &payload]).repeat(REQUESTS)).expect("the server reads on");
    assert_eq!(other.ask(&[b"PING"]), Reply::One(b"+PONG".to_vec()));
    for n in 0..REQUESTS {
        assert!(matches!(client.reply(), Some(Reply::One(bytes)) if bytes.len() == payload.len() + 1), "reply {n}");
    }
}

#[test]
fn data_are_there_again_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    for fsync in [Fsync::Always, Fsync::EverySecond, Fsync::No] {
        let configuration = Configuration { fsync, ..Configuration::default() };
        let served = Served::with(Server { configuration, ..Server::default() }, store.clone());
        let mut client = served.client();
        client.ask(&[b"RPUSH", b"list", b"item"]);
        client.ask(&[b"SET", fsync.name().as_bytes(), b"1"]);
    }
    let served = Served::with(Server::default(), store);
    let mut client = served.client();
    assert_eq!(client.ask(&[b"LLEN", b"list"]), Reply::One(b":3".to_vec()));
    assert_eq!(client.ask(&[b"EXISTS", b"always", b"everysec", b"no"]), Reply::One(b":3".to_vec()));
}

#[test]
fn clients_are_counted_and_killed() {
    let served = with(Configuration { clients_max: 2, ..Configuration::default() });
    let (mut one_client, mut two) = (served.client(), served.client());
    let Reply::One(id) = one_client.ask(&[b"CLIENT", b"ID"]) else { panic!("a number") };
    two.ask(&[b"PING"]);
    let mut three = served.client();
    assert_eq!(three.reply(), one("-ERR max number of clients reached"));
    assert_eq!(two.ask(&[b"CLIENT", b"KILL", b"ID", &id[1..]]), Reply::One(b":1".to_vec()));
    assert_eq!(one_client.reply(), None);
    assert_eq!(two.ask(&[b"QUIT"]), Reply::One(b"+OK".to_vec()));
    assert_eq!(two.reply(), None);
}

/// The connection that has asked for the end is closed after the listeners and the data: the next server can begin at once.
#[test]
fn an_end_is_told_when_it_has_come() {
    for _ in 0..5 {
        let served = Served::start();
        let (mut asker, address) = (served.client(), served.address);
        asker.send(&[encode(&["SET", "a", "1"]), encode(&["SHUTDOWN"])].concat());
        assert_eq!((asker.reply(), asker.reply()), (one("+OK"), None));
        let refused = TcpStream::connect(address).map_err(|error| error.kind());
        assert_eq!(refused.map(|_| ()), Err(ErrorKind::ConnectionRefused));
    }
}

#[test]
fn keys_that_have_ended_are_removed_unasked() {
    let served = Served::start();
    let mut client = served.client();
    for n in 0..2_500 {
        client.ask(&[b"SET", format!("key{n}").as_bytes(), b"", b"PX", b"1"]);
    }
    for _ in 0..100 {
        if client.ask(&[b"DBSIZE"]) == Reply::One(b":0".to_vec()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("keys are still counted");
}

#[test]
fn the_world_is_not_served_without_a_password() {
    let keyspace = sinter_server::keyspace::Keyspace::open(Arc::new(MemoryStore::new()), &Default::default(), 1).unwrap();
    let bound = sinter_server::net::Net::bind("0.0.0.0:0".parse().unwrap(), keyspace, Server::default());
    assert!(matches!(bound, Err(sinter_server::net::Error::Open(_))));
}

#[test]
fn reads_and_writes_of_sockets_are_counted() {
    let served = Served::start();
    let mut client = served.client();
    let counts = |client: &mut Client| {
        let Reply::One(text) = client.ask(&[b"INFO", b"stats"]) else { panic!("a text") };
        let text = String::from_utf8(text).unwrap();
        ["total_reads_processed:", "total_writes_processed:"]
            .map(|name| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().parse::<u64>().unwrap())
    };
    let before = counts(&mut client);
    // One read, and one write of all replies, unlike one for each request.
    client.send(&encode(&["PING"]).repeat(5));
    for _ in 0..5 {
        assert_eq!(client.reply(), one("+PONG"));
    }
    assert_eq!(counts(&mut client), before.map(|count| count + 2));
}
