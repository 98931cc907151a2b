//! Requests on long strings that take many turns, with others served in each of them, and with a log beside.

use super::*;
use crate::command::{Session, execute};
use crate::resp::Parser;
use crate::transfer::{Damage, Found};

const HUGE: usize = 3 << 20;

/// A clock that goes on by 4 ms whenever it is read: each turn of one or two clients does one step.
#[derive(Debug, Default)]
struct LongSteps(AtomicU64);

impl Clock for LongSteps {
    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(4_000_000, Ordering::Relaxed)
    }

    fn unix_seconds(&self) -> u64 {
        1_000
    }
}

fn one_step_a_turn(mut driven: Driven) -> Driven {
    driven.net.server.set_clock(Arc::new(LongSteps::default()));
    driven
}

fn huge(seed: usize) -> Vec<u8> {
    (0..HUGE).map(|n| ((n + seed) % 251) as u8).collect()
}

/// Turns until the peer's request is worked on in steps.
fn begin(driven: &mut Driven, peer: &mut Peer, request: Vec<u8>) {
    peer.to_send = request;
    peer.received.clear();
    while !driven.net.event_loop.connections.values().any(|connection| connection.session.is_in_steps()) {
        peer.send();
        driven.wait();
        driven.turn();
    }
}

pub(super) fn ask(driven: &mut Driven, client: &mut TcpStream, line: &str, expected: &str) {
    client.write_all(line.as_bytes()).unwrap();
    client.write_all(b"\r\n").unwrap();
    client.set_nonblocking(true).unwrap();
    let mut reply = Vec::new();
    driven.turn_until(line, |_| {
        let mut some = [0; 100];
        let bytes = client.read(&mut some).unwrap_or(0);
        reply.extend_from_slice(&some[..bytes]);
        reply.len() >= expected.len()
    });
    client.set_nonblocking(false).unwrap();
    assert_eq!(String::from_utf8_lossy(&reply), expected, "{line}");
}

fn string(driven: &mut Driven, key: &[u8]) -> Option<Vec<u8>> {
    driven.net.keyspace.string(0, key).unwrap().map(<[u8]>::to_vec)
}

#[test]
fn a_huge_copy_keeps_nobody_waiting() {
    let mut driven = one_step_a_turn(Driven::new());
    let (mut peer, mut other) = (Peer::connect(&driven), TcpStream::connect(driven.net.address().unwrap()).unwrap());
    driven.settle(2);
    driven.net.keyspace.set_string(0, b"a", &huge(1), None).unwrap();
    driven.turn();
    begin(&mut driven, &mut peer, b"COPY a b\r\nECHO next\r\nBITCOUNT b\r\nPING\r\n".to_vec());
    let mut turns = 0;
    while peer.received.is_empty() {
        assert_eq!((driven.net.keyspace.size(0), driven.patience()), (1, Duration::ZERO));
        driven.ask(&mut other);
        assert!(driven.net.keyspace.is_committed());
        peer.receive();
        turns += 1;
    }
    // A turn before the first of these has done a step, too.
    assert!(turns + 1 >= HUGE >> 18, "{turns}");
    driven.settle(2);
    peer.receive();
    let count = crate::bits::count(&huge(1));
    assert_eq!(String::from_utf8_lossy(&peer.received), format!(":1\r\n$4\r\nnext\r\n:{count}\r\n+PONG\r\n"));
    assert!(string(&mut driven, b"b") == Some(huge(1)) && !driven.net.keyspace.has_uploads());
}

/// A client that goes away or is killed in the midst leaves everything as it was.
#[test]
fn half_a_copy_is_none() {
    let mut driven = one_step_a_turn(Driven::new());
    let mut other = TcpStream::connect(driven.net.address().unwrap()).unwrap();
    driven.settle(1);
    driven.net.keyspace.set_string(0, b"a", &huge(1), None).unwrap();
    for is_killed in [false, true] {
        let mut peer = Peer::connect(&driven);
        driven.settle(2);
        begin(&mut driven, &mut peer, b"COPY a b\r\n".to_vec());
        assert!(driven.net.keyspace.has_uploads());
        if is_killed {
            let address = peer.stream.local_addr().unwrap();
            other.write_all(format!("CLIENT KILL ADDR {address}\r\n").as_bytes()).unwrap();
        } else {
            drop(peer);
        }
        while driven.net.event_loop.connections.len() > 1 {
            driven.wait();
            driven.turn();
        }
        assert!(!driven.net.keyspace.has_uploads() && driven.net.keyspace.size(0) == 1, "killed: {is_killed}");
    }
}

#[test]
fn a_pause_holds_back_what_would_write() {
    let mut driven = one_step_a_turn(Driven::new());
    let (mut peer, mut other) = (Peer::connect(&driven), TcpStream::connect(driven.net.address().unwrap()).unwrap());
    driven.settle(2);
    driven.net.keyspace.set_string(0, b"a", &huge(1), None).unwrap();
    begin(&mut driven, &mut peer, b"COPY a b\r\n".to_vec());
    ask(&mut driven, &mut other, "CLIENT PAUSE 100000 WRITE", "+OK\r\n");
    for _ in 0..50 {
        driven.turn();
    }
    assert_eq!(driven.net.keyspace.size(0), 1);
    ask(&mut driven, &mut other, "CLIENT UNPAUSE", "+OK\r\n");
    peer.exchange(&mut driven, 4);
    assert!(peer.received == b":1\r\n" && string(&mut driven, b"b") == Some(huge(1)));
}

/// A server that keeps a log in Redis's format and has its first base.
fn logging(directory: &Path) -> Driven {
    let directory = directory.display().to_string();
    let configuration = Configuration { directory, append_only: true, ..Configuration::default() };
    let mut driven = Driven::listen(&[false], Server { configuration, ..Server::default() });
    rewritten(&mut driven);
    one_step_a_turn(driven)
}

fn rewritten(driven: &mut Driven) {
    driven.turn();
    while driven.net.server.append.is_rewriting() {
        driven.wait();
        driven.turn();
    }
}

/// The keys that a load of the log finds, as it lies there.
fn loaded(directory: &Path) -> Keyspace {
    let mut keyspace = fresh();
    let found = Found::look(&directory.join("appendonlydir"), Damage::Refuse).unwrap();
    found.load(&mut keyspace, false, 1_000_000).unwrap();
    keyspace
}

/// Requests with long values, which stand where a word is empty, and replies.
const REQUESTS: &[(&[&[u8]], &str)] = &[
    (&[b"SET", b"k", b"", b"PX", b"5000000"], "+OK\r\n"),
    (&[b"APPEND", b"old", b""], ":3145731\r\n"),
    (&[b"SETRANGE", b"old", b"1", b""], ":3145729\r\n"),
    (&[b"MSET", b"k", b"", b"m", b"1"], "+OK\r\n"),
    (&[b"SETNX", b"old", b""], ":0\r\n"),
];

/// A request of another client meanwhile, its reply, and the reply that `APPEND` gets then.
const MEANWHILE: &[(&str, &str, &str)] = &[
    ("ECHO x", "$1\r\nx\r\n", ":3145731\r\n"),
    ("FLUSHALL", "+OK\r\n", ":3145728\r\n"),
    ("SWAPDB 0 1", "+OK\r\n", ":3145728\r\n"),
    ("BGREWRITEAOF", "+Background append only file rewriting started\r\n", ":3145731\r\n"),
    ("SET k other", "+OK\r\n", ":3145731\r\n"),
    ("APPEND old more", ":7\r\n", ":3145735\r\n"),
];

/// A server with a log, a client whose request is worked on in steps, and another client.
fn begun(folder: &Path, words: &[&[u8]]) -> (Driven, Peer, TcpStream) {
    let mut driven = logging(folder);
    let (mut peer, mut other) = (Peer::connect(&driven), TcpStream::connect(driven.net.address().unwrap()).unwrap());
    driven.settle(2);
    ask(&mut driven, &mut other, "SET old abc", "+OK\r\n");
    let value = huge(7);
    let words: Vec<&[u8]> = words.iter().map(|word| if word.is_empty() { &value[..] } else { word }).collect();
    peer.to_send = request(&words);
    while !driven.net.event_loop.connections.values().any(|connection| connection.session.is_in_steps()) && peer.received.is_empty() {
        peer.send();
        driven.wait();
        driven.turn();
        peer.receive();
    }
    (0..2).for_each(|_| driven.turn());
    (driven, peer, other)
}

/// The log has what the keyspace has.
fn check_log(driven: &mut Driven, folder: &Path, name: &str) {
    rewritten(driven);
    driven.turn();
    let mut from_log = loaded(folder);
    for (db, key) in [(0, &b"k"[..]), (0, b"old"), (0, b"m"), (1, b"old"), (1, b"k")] {
        let what = |keyspace: &mut Keyspace| {
            let value = keyspace.string(db, key).unwrap().map(<[u8]>::to_vec)?;
            Some((value, keyspace.find(db, key).unwrap()?.deadline))
        };
        assert!(what(&mut from_log) == what(&mut driven.net.keyspace), "{name}: {db} {}", key.escape_ascii());
    }
    (0..2).for_each(|db| assert_eq!(from_log.size(db), driven.net.keyspace.size(db), "{name}"));
    assert!(!driven.net.keyspace.has_uploads());
}

/// Whatever comes into the log between two parts of a long string, it has what the keyspace has.
#[test]
fn the_log_takes_long_strings_in_parts() {
    for (number, (words, reply)) in REQUESTS.iter().enumerate() {
        for (line, said, appended) in &MEANWHILE[..if number < 2 { MEANWHILE.len() } else { 1 }] {
            let folder = tempfile::tempdir().unwrap();
            let (mut driven, mut peer, mut other) = begun(folder.path(), words);
            ask(&mut driven, &mut other, line, said);
            let reply = if words[0] == b"APPEND" { appended } else { reply };
            peer.exchange(&mut driven, reply.len());
            let name = format!("{} {line}", words[0].escape_ascii());
            assert_eq!(String::from_utf8_lossy(&peer.received), *reply, "{name}");
            driven.settle(2);
            check_log(&mut driven, folder.path(), &name);
        }
    }
}

#[test]
fn the_log_of_a_client_that_is_gone() {
    for (words, _) in &REQUESTS[..3] {
        let folder = tempfile::tempdir().unwrap();
        let (mut driven, peer, _other) = begun(folder.path(), words);
        drop(peer);
        driven.settle(1);
        check_log(&mut driven, folder.path(), &words[0].escape_ascii().to_string());
    }
}

/// A log that ends between two parts has no key for them.
#[test]
fn a_log_that_ends_in_the_midst() {
    let folder = tempfile::tempdir().unwrap();
    let mut driven = logging(folder.path());
    let mut peer = Peer::connect(&driven);
    driven.settle(1);
    begin(&mut driven, &mut peer, request::<&[u8]>(&[b"SET", b"k", &huge(3)]));
    (0..2).for_each(|_| driven.turn());
    let size = driven.net.server.append.sizes().0;
    assert!(driven.net.keyspace.size(0) == 0 && (500_000..HUGE as u64).contains(&size), "{size}");
    assert_eq!(loaded(folder.path()).size(0), 0);
    peer.exchange(&mut driven, 5);
    assert_eq!(loaded(folder.path()).size(0), 1);
}

/// The keys of a replica that has got the whole stream.
fn replicated(driven: &Driven) -> Keyspace {
    let Net { keyspace, server, .. } = &driven.net;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < keyspace.stream().unwrap().offset {
        server.replication.read(bytes.len() as u64, usize::MAX, &mut bytes, keyspace).unwrap();
    }
    let (mut copy, mut other, mut parser) = (fresh(), Server::default(), Parser::default());
    let mut primary = Session::new(1, &other);
    primary.is_primary = true;
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let used = parser.feed(rest).unwrap().unwrap();
        let words: Vec<&[u8]> = parser.arguments(rest).collect();
        execute(&mut copy, &mut other, &mut primary, &words, &mut Vec::new());
        parser.next_request();
        rest = &rest[used..];
    }
    copy
}

/// A server becomes a replica and a primary again, as in a handover that is given up, while a client writes a long string: other replicas
/// get all of the string.
#[test]
fn a_string_is_whole_although_roles_change_meanwhile() {
    let mut driven = one_step_a_turn(Driven::new());
    let Net { keyspace, server, .. } = &mut driven.net;
    server.replication.begin(keyspace, &mut server.feed).unwrap();
    let mut peer = Peer::connect(&driven);
    driven.settle(1);
    begin(&mut driven, &mut peer, request::<&[u8]>(&[b"SET", b"k", &huge(7)]));
    (0..2).for_each(|_| driven.turn());
    let Net { keyspace, server, .. } = &mut driven.net;
    assert!(keyspace.is_amid());
    server.replication.follow(keyspace, &mut server.feed);
    server.replication.lead(keyspace, &mut server.feed).unwrap();
    peer.exchange(&mut driven, 5);
    assert_eq!(peer.received, b"+OK\r\n");
    assert!(replicated(&driven).string(0, b"k").unwrap() == Some(&huge(7)[..]));
}
