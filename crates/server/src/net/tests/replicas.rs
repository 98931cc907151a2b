//! Replicas under a clock that is moved, and under faults.

use super::steps::ask;
use super::*;
use crate::command::Stage;
use sinter_storage::store::{Calls, EIO, Fault, Operation};

/// Turns until a client has got bytes that end like this, or was closed; returns all of them.
fn read(driven: &mut Driven, client: &mut TcpStream, end: &str) -> String {
    client.set_nonblocking(true).unwrap();
    let mut all = Vec::new();
    loop {
        driven.wait();
        driven.turn();
        let mut some = [0; 4096];
        match client.read(&mut some) {
            Ok(0) => break,
            Ok(bytes) => all.extend_from_slice(&some[..bytes]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        if all.ends_with(end.as_bytes()) {
            break;
        }
    }
    client.set_nonblocking(false).unwrap();
    String::from_utf8_lossy(&all).replace("\r\n", "|")
}

/// A replica that has all data.
fn replica(driven: &mut Driven) -> TcpStream {
    let online = |driven: &Driven| driven.net.server.replicas.iter().filter(|(_, replica)| replica.stage == Stage::Online).count();
    let before = online(driven);
    let mut client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
    client.write_all(b"PSYNC ? -1\r\n").unwrap();
    while online(driven) == before {
        driven.wait();
        driven.turn();
    }
    let data = read(driven, &mut client, "");
    assert!(data.starts_with("+FULLRESYNC "), "{data}");
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
    (0..3).for_each(|_| driven.turn());
    let (_, seen) = driven.net.server.replicas.iter().next().unwrap();
    assert_eq!((seen.sent, seen.stage), (offset, Stage::Online));
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
            driven.wait();
        }
        driven.turn();
    }
    let pings = |text: String| text.matches("*1|$4|PING|").count();
    assert_eq!(pings(read(&mut driven, &mut silent, "never")), 6, "closed after 60 seconds");
    assert_eq!((driven.net.server.replicas.len(), driven.net.server.replicas.syncs), (1, [2, 0, 0]));
    drop(good);
    driven.settle(0);
    while !driven.net.server.replicas.is_empty() {
        driven.wait();
        driven.turn();
    }
    driven.now += 1000;
    driven.turn();
    driven.now += 3_598_000;
    driven.turn();
    assert!(driven.net.keyspace.stream().is_some());
    driven.now += 3000;
    driven.turn();
    assert!(driven.net.keyspace.stream().is_none() && !driven.net.server.feed.is_on());
}
