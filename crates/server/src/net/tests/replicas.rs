//! Replicas under a clock that is moved, and under faults.

use super::steps::ask;
use super::*;
use crate::command::Stage;
use crate::keyspace::StreamPosition;
use crate::replication::{Address, Failover, State, Target};
use sinter_storage::store::{Calls, EIO, Fault, Operation};
use std::net::TcpListener;

/// Turns until a client has got as much as it expects, or was closed; returns all of it.
#[track_caller]
pub(super) fn receive(driven: &mut Driven, client: &mut TcpStream, what: &str, is_whole: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    client.set_nonblocking(true).unwrap();
    let mut all = Vec::new();
    driven.turn_until(what, |_| {
        let mut some = [0; 4096];
        loop {
            match client.read(&mut some) {
                Ok(0) => return true,
                Ok(bytes) => all.extend_from_slice(&some[..bytes]),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    return is_whole(&all);
                }
            }
        }
    });
    client.set_nonblocking(false).unwrap();
    all
}

/// Turns until a client has got bytes that end like this, or was closed; returns all of them.
#[track_caller]
pub(super) fn read(driven: &mut Driven, client: &mut TcpStream, end: &str) -> String {
    let all = receive(driven, client, end, |all| all.ends_with(end.as_bytes()));
    String::from_utf8_lossy(&all).replace("\r\n", "|")
}

/// The reply to `PSYNC`, and the data behind it, if they are whole, with what has come of the stream. Line breaks before each say only that
/// the link is alive.
fn full(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let line = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n');
    let bytes = bytes.trim_ascii_start();
    let (reply, rest) = bytes.split_at(line(bytes)?);
    let rest = rest.trim_ascii_start();
    let (size, data) = rest.split_at(line(rest)? + 1);
    let length: usize = std::str::from_utf8(size).unwrap().trim_ascii_end().strip_prefix('$')?.parse().unwrap();
    (data.len() >= length).then_some((std::str::from_utf8(reply).unwrap().trim_ascii_end(), data))
}

/// Turns until a client that has sent `PSYNC` has all data; returns the reply, and the data with what has come of the stream.
#[track_caller]
pub(super) fn receive_all(driven: &mut Driven, client: &mut TcpStream) -> (String, Vec<u8>) {
    let all = receive(driven, client, "a full synchronisation", |all| full(all).is_some());
    let (reply, data) = full(&all).unwrap_or_else(|| panic!("closed behind {:?}", String::from_utf8_lossy(&all)));
    assert!(reply.starts_with("+FULLRESYNC "), "{reply}");
    (reply.to_owned(), data.to_vec())
}

/// A replica that has all data.
#[track_caller]
pub(super) fn replica(driven: &mut Driven) -> TcpStream {
    let online = |driven: &Driven| driven.net.server.replicas.iter().filter(|(_, replica)| replica.stage == Stage::Online).count();
    let before = online(driven);
    let mut client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
    client.write_all(b"PSYNC ? -1\r\n").unwrap();
    receive_all(driven, &mut client);
    driven.turn_until("a replica that is online", |driven| online(driven) > before);
    client
}

#[test]
fn a_replica_gets_what_the_engine_has() {
    let faulty = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let keyspace = Keyspace::open(faulty.clone(), &small_settings(), 7).unwrap();
    let mut driven = Driven::over(keyspace, &[false], Server::default());
    let mut follower = replica(&mut driven);
    let mut client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
    ask(&mut driven, &mut client, "SET a 1", "+OK\r\n");
    assert_eq!(read(&mut driven, &mut follower, "1\r\n"), "*2|$6|SELECT|$1|0|*3|$3|SET|$1|a|$1|1|");
    faulty.inject(Fault::from(Calls::Only(Operation::Append), 0, EIO));
    client.write_all(b"SET b 1\r\n").unwrap();
    assert!(read(&mut driven, &mut client, "\r\n").starts_with("-MISCONF"));
    faulty.clear();
    let offset = driven.net.keyspace.stream().unwrap().offset;
    ask(&mut driven, &mut client, "PING", "+PONG\r\n");
    let (_, seen) = driven.net.server.replicas.iter().next().unwrap();
    assert_eq!((seen.sent, seen.stage), (offset, Stage::Online));
}

/// A former primary that cannot be promoted again is a replica still, with nothing of it written, and the handover goes on until it can.
#[test]
fn a_promotion_that_fails_is_tried_again() {
    let memory = Arc::new(MemoryStore::new());
    let mut keyspace = Keyspace::open(memory.clone(), &small_settings(), 7).unwrap();
    let id = keyspace.new_stream_id();
    keyspace.begin_stream(StreamPosition::new(id, 0)).unwrap();
    for n in 0..100 {
        keyspace.set_string(4 + n / 50, format!("key:{n}").as_bytes(), &[b'v'; 1000], None).unwrap();
    }
    keyspace.set_string(5, b"\0sinterdb:parts:0", b"parts of an earlier primary", None).unwrap();
    keyspace.commit(&WriteOptions::default()).unwrap();
    keyspace.db().flush().unwrap();
    keyspace.close().unwrap();
    let faulty = Arc::new(FaultStore::new(memory));
    let keyspace = Keyspace::open(faulty.clone(), &small_settings(), 7).unwrap();
    let to = Address { host: "127.0.0.1".into(), port: 1 };
    let mut server = Server::default();
    server.configuration.following.primary = Some(to.clone());
    let mut driven = Driven::over(keyspace, &[false], server);
    let Net { event_loop, keyspace, server } = &mut driven.net;
    server.upstream.failover = Failover::Handing { to, may_lead: false };
    faulty.inject(Fault::from(Calls::Only(Operation::Read), 0, EIO));
    event_loop.end_attempt(&mut Data { keyspace, server }, Target::Refuses);
    assert!(server.is_replica() && server.upstream.failover.runs());
    assert_eq!((keyspace.is_committed(), keyspace.stream().unwrap().id, server.feed.unfed()), (true, id, 0));
    faulty.clear();
    event_loop.end_attempt(&mut Data { keyspace, server }, Target::Refuses);
    assert!(!server.is_replica() && !server.upstream.failover.runs());
    assert_eq!(keyspace.stream().unwrap().second.map(|(id, _)| id), Some(id));
    assert!(!keyspace.exists(5, b"\0sinterdb:parts:0").unwrap());
}

/// The wait for replicas at the end of the server holds back clients, and not the stream of a primary that has waited for the engine.
#[test]
fn the_end_of_the_server_holds_back_no_primary() {
    let mut driven = Driven::new();
    let address = driven.net.address().unwrap();
    let _clients = [(); 2].map(|()| TcpStream::connect(address).unwrap());
    driven.settle(2);
    let Net { event_loop, keyspace, server } = &mut driven.net;
    let ids: Vec<u64> = event_loop.connections.iter().map(|(id, _)| id).collect();
    for id in &ids {
        event_loop.connections.get_mut(*id).unwrap().is_postponed = true;
        event_loop.postponed.push(*id);
    }
    event_loop.connections.get_mut(ids[1]).unwrap().session.is_primary = true;
    server.upstream.state = State::Up(ids[1]);
    server.pause.hold_until_end(driven.now + 1000);
    event_loop.is_short_of_room = true;
    event_loop.end_pause(&mut Data { keyspace, server }, driven.now);
    assert_eq!(event_loop.postponed, ids, "the engine is short of free space");
    event_loop.is_short_of_room = false;
    event_loop.end_pause(&mut Data { keyspace, server }, driven.now);
    assert_eq!((&event_loop.postponed[..], &event_loop.active[..]), (&ids[..1], &ids[1..]));
    assert!(!event_loop.connections.get(ids[1]).unwrap().is_postponed);
    event_loop.end_pause(&mut Data { keyspace, server }, driven.now + 1000);
    assert!(event_loop.postponed.is_empty() && event_loop.active == [ids[1], ids[0]]);
}

/// Data that cannot be read close the replica, and nobody else.
#[test]
fn a_full_synchronisation_that_fails_closes_its_replica() {
    let memory = Arc::new(MemoryStore::new());
    let mut keyspace = Keyspace::open(memory.clone(), &small_settings(), 7).unwrap();
    for n in 0..500 {
        keyspace.set_string(0, format!("key:{n}").as_bytes(), &[b'v'; 1000], None).unwrap();
        keyspace.commit(&WriteOptions::default()).unwrap();
    }
    keyspace.close().unwrap();
    let faulty = Arc::new(FaultStore::new(memory));
    let keyspace = Keyspace::open(faulty.clone(), &small_settings(), 7).unwrap();
    let mut driven = Driven::over(keyspace, &[false], Server::default());
    let good = replica(&mut driven);
    let mut client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
    driven.settle(2);
    faulty.inject(Fault::from(Calls::Only(Operation::Read), 3, EIO));
    let mut follower = TcpStream::connect(driven.net.address().unwrap()).unwrap();
    follower.write_all(b"REPLCONF capa eof\r\n").unwrap();
    assert_eq!(read(&mut driven, &mut follower, "\r\n"), "+OK|");
    follower.write_all(b"PSYNC ? -1\r\n").unwrap();
    let got = read(&mut driven, &mut follower, "never");
    assert!(got.starts_with("+FULLRESYNC ") && got.contains("|$EOF:"), "{got}");
    faulty.clear();
    assert_eq!(driven.net.server.replicas.len(), 1);
    ask(&mut driven, &mut client, "PING", "+PONG\r\n");
    drop(good);
}

/// `PING` comes at its times; a replica that does not acknowledge is closed, and the stream ends when there has been none for long.
#[test]
fn links_live_as_long_as_they_are_heard_of() {
    let mut driven = Driven::new();
    let mut silent = replica(&mut driven);
    let mut good = replica(&mut driven);
    for second in 1..=70 {
        driven.now += 1000;
        if second % 20 == 0 {
            good.write_all(b"REPLCONF ACK 1\r\n").unwrap();
            let now = driven.now;
            driven.turn_until("an acknowledgement", |driven| driven.net.server.replicas.iter().any(|(_, replica)| replica.heard == now));
        }
        driven.turn();
    }
    let pings = |text: String| text.matches("*1|$4|PING|").count();
    assert_eq!(pings(read(&mut driven, &mut silent, "never")), 6, "closed after 60 seconds");
    assert_eq!((driven.net.server.replicas.len(), driven.net.server.replicas.syncs), (1, [2, 0, 0]));
    drop(good);
    driven.turn_until("the end of the last replica", |driven| driven.net.server.replicas.is_empty());
    driven.now += 1000;
    driven.turn();
    driven.now += 3_598_000;
    driven.turn();
    assert!(driven.net.keyspace.stream().is_some());
    driven.now += 3000;
    driven.turn();
    assert!(driven.net.keyspace.stream().is_none() && !driven.net.server.feed.is_on());
}

/// A promoted replica keeps the stream for the other replicas of its former primary, however long it had no replica of its own.
#[test]
fn a_promoted_replica_waits_for_others() {
    let mut keyspace = fresh();
    let id = keyspace.new_stream_id();
    keyspace.begin_stream(StreamPosition::new(id, 0)).unwrap();
    keyspace.commit(&WriteOptions::default()).unwrap();
    let mut server = Server::default();
    server.configuration.following.primary = Some(Address { host: "127.0.0.1".into(), port: 1 });
    let mut driven = Driven::over(keyspace, &[false], server);
    let has_stream = |driven: &mut Driven, ms: u64| {
        driven.now += ms;
        driven.turn();
        driven.net.keyspace.stream().is_some()
    };
    assert!(has_stream(&mut driven, 1000) && has_stream(&mut driven, 7_200_000));
    let Net { keyspace, server, .. } = &mut driven.net;
    server.promote(keyspace).unwrap();
    assert!(has_stream(&mut driven, 1000) && has_stream(&mut driven, 3_599_000));
    assert!(!has_stream(&mut driven, 1000));
}

/// A handover waits for a replica that does not acknowledge: without a time limit the others are told that the primary is there.
#[test]
fn a_handover_without_a_limit_keeps_links_alive() {
    for (line, pings) in [("FAILOVER", 1), ("FAILOVER TIMEOUT 100000", 0)] {
        let mut driven = Driven::new();
        let mut follower = replica(&mut driven);
        let mut client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
        driven.settle(2);
        ask(&mut driven, &mut client, line, "+OK\r\n");
        driven.now += 10_000;
        driven.turn();
        ask(&mut driven, &mut client, "FAILOVER ABORT", "+OK\r\n");
        ask(&mut driven, &mut client, "SET a 1", "+OK\r\n");
        let stream = read(&mut driven, &mut follower, "$1\r\na\r\n$1\r\n1\r\n");
        assert_eq!(stream.matches("*1|$4|PING|").count(), pings, "{line}: {stream}");
    }
}

/// A key that is on its way to another server when the role is handed over stays: the new primary would not learn of its removal.
#[test]
fn a_handover_ends_transfers() {
    let mut driven = Driven::new();
    let address = driven.net.address().unwrap();
    let [mut follower, mut client, mut mover] = [(); 3].map(|()| TcpStream::connect(address).unwrap());
    follower.write_all(b"REPLCONF listening-port 7\r\n").unwrap();
    assert_eq!(read(&mut driven, &mut follower, "\r\n"), "+OK|");
    follower.write_all(b"PSYNC ? -1\r\n").unwrap();
    receive_all(&mut driven, &mut follower);
    ask(&mut driven, &mut client, "SET k 1", "+OK\r\n");
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    mover.write_all(format!("MIGRATE 127.0.0.1 {} k 0 60000\r\n", target.local_addr().unwrap().port()).as_bytes()).unwrap();
    driven.turn_until("a transfer", |driven| driven.net.keyspace.waiting() == 1);
    let (mut there, _) = target.accept().unwrap();
    ask(&mut driven, &mut client, "FAILOVER", "+OK\r\n");
    let offset = driven.net.keyspace.stream().unwrap().offset;
    follower.write_all(format!("REPLCONF ACK {offset}\r\n").as_bytes()).unwrap();
    driven.turn_until("a handover", |driven| matches!(driven.net.server.upstream.failover, Failover::Handing { .. }));
    there.write_all(b"+OK\r\n+OK\r\n").unwrap();
    // The thread of the transfer reads that.
    std::thread::sleep(Duration::from_millis(200));
    driven.turn();
    assert_eq!(driven.net.keyspace.size(0), 1);
}
