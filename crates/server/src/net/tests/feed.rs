//! The replication stream of a server: each byte is counted together with the data that it changes.

use super::steps::ask;
use super::*;
use crate::command::before_commit;
use crate::feed::{Reader, Source};
use crate::keyspace::StreamPosition;
use sinter_storage::store::{Calls, EIO, Fault, Operation};

/// Begins a stream, as the first replica does.
fn begin(driven: &mut Driven) {
    let Net { keyspace, server, .. } = &mut driven.net;
    server.replication.begin(keyspace, &mut server.feed).unwrap();
}

/// The stream from an offset on.
fn stream_from(driven: &Driven, from: u64) -> String {
    let Net { keyspace, server, .. } = &driven.net;
    let mut bytes = Vec::new();
    while from + (bytes.len() as u64) < keyspace.stream().unwrap().offset {
        server.replication.read(from + bytes.len() as u64, usize::MAX, &mut bytes, keyspace).unwrap();
    }
    String::from_utf8_lossy(&bytes).replace("\r\n", "|")
}

/// All bytes of the stream, which are alike in memory and in the engine.
fn stream(driven: &mut Driven) -> String {
    let latest = stream_from(driven, 0);
    let Net { keyspace, server, .. } = &mut driven.net;
    assert_eq!(server.replication.tail.end(), keyspace.stream().unwrap().offset);
    let tail = std::mem::take(&mut server.replication.tail);
    server.replication.tail.restart(u64::MAX);
    let stored = stream_from(driven, 0);
    driven.net.server.replication.tail = tail;
    assert_eq!(latest, stored);
    stored
}

/// Commands as the stream has them.
fn commands(lines: &[&str]) -> String {
    let words = |line: &str| line.split(' ').map(|word| format!("${}|{word}|", word.len())).collect::<String>();
    lines.iter().map(|line| format!("*{}|{}", line.split(' ').count(), words(line))).collect()
}

#[test]
fn the_stream_is_what_requests_have_changed() {
    let mut driven = Driven::new();
    let mut client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
    driven.settle(1);
    ask(&mut driven, &mut client, "SET before 1", "+OK\r\n");
    assert!(!driven.net.server.feed.is_on() && driven.net.keyspace.stream().is_none());
    begin(&mut driven);
    begin(&mut driven);
    ask(&mut driven, &mut client, "SET a 1", "+OK\r\n");
    ask(&mut driven, &mut client, "GET a", "$1\r\n1\r\n");
    ask(&mut driven, &mut client, "SET e 1 PX 500", "+OK\r\n");
    ask(&mut driven, &mut client, "PUBLISH news 1", ":0\r\n");
    ask(
        &mut driven,
        &mut client,
        "MULTI\r\nINCR a\r\nPUBLISH news 2\r\nSELECT 3\r\nSET b 2\r\nEXEC",
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n:2\r\n:0\r\n+OK\r\n+OK\r\n",
    );
    driven.net.server.feed.ping();
    driven.now += 600;
    driven.turn();
    ask(&mut driven, &mut client, "FLUSHALL", "+OK\r\n");
    driven.net.server.feed.getack();
    driven.turn();
    let expected = commands(&[
        "SELECT 0",
        "SET a 1",
        "SET e 1 PXAT 1000500",
        "PUBLISH news 1",
        "MULTI",
        "INCR a",
        "PUBLISH news 2",
        "SELECT 3",
        "SET b 2",
        "EXEC",
        "PING",
        "SELECT 0",
        "DEL e",
        "SELECT 3",
        "FLUSHALL",
        "REPLCONF GETACK *",
    ]);
    assert_eq!(stream(&mut driven), expected);
    assert_eq!(driven.net.keyspace.stream().unwrap().db, Some(3));
}

/// `SAVE` commits amid an iteration; what it has committed stays counted when the rest of the iteration fails, and the rest is not.
#[test]
fn what_fails_is_not_counted() {
    let (memory, folder) = (Arc::new(MemoryStore::new()), tempfile::tempdir().unwrap());
    let faulty = Arc::new(FaultStore::new(memory.clone()));
    let keyspace = Keyspace::open(faulty.clone(), &small_settings(), 7).unwrap();
    let configuration = Configuration { directory: folder.path().display().to_string(), ..Configuration::default() };
    let mut driven = Driven::over(keyspace, &[false], Server { configuration, ..Server::default() });
    let mut client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
    driven.settle(1);
    begin(&mut driven);
    ask(&mut driven, &mut client, "SET a 1\r\nSAVE\r\nSET b 1", "+OK\r\n+OK\r\n+OK\r\n");
    let before = stream(&mut driven);
    assert_eq!(before, commands(&["SELECT 0", "SET a 1", "SET b 1"]));
    faulty.inject(Fault::from(Calls::Only(Operation::Append), 0, EIO));
    driven.net.server.feed.ping();
    client.write_all(b"SET c 1\r\n").unwrap();
    driven.settle(1);
    let mut reply = [0; 8];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"-MISCONF");
    assert_eq!((driven.net.server.feed.unfed(), driven.net.keyspace.stream().unwrap().offset), (0, before.replace('|', "--").len() as u64));
    drop(driven);
    // The next start finds all that, and goes on under another id.
    let image: Arc<dyn sinter_storage::store::Store> = Arc::new(memory.clone_image());
    let keyspace = Keyspace::open(image, &small_settings(), 8).unwrap();
    let old = *keyspace.stream().unwrap();
    let mut driven = Driven::over(keyspace, &[false], Server::default());
    let new = *driven.net.keyspace.stream().unwrap();
    assert_eq!(new, StreamPosition { id: new.id, second: Some((old.id, old.offset)), ..old });
    assert!(new.id != old.id && driven.net.server.feed.source() == Source::Effects);
    let mut client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
    driven.settle(1);
    ask(&mut driven, &mut client, "GET b\r\nSET c 2", "$1\r\n1\r\n+OK\r\n");
    assert_eq!(driven.net.server.replication.tail.start(), old.offset);
    assert_eq!(stream_from(&driven, old.offset), commands(&["SELECT 0", "SET c 2"]));
    assert_eq!(stream_from(&driven, 0), before + &commands(&["SELECT 0", "SET c 2"]));
}

/// A replica's stream is what its primary has sent; what it changes itself is in no stream.
#[test]
fn a_replica_passes_on_what_it_gets() {
    let mut driven = Driven::new();
    let mut client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
    driven.settle(1);
    let Net { keyspace, server, .. } = &mut driven.net;
    let id = keyspace.new_stream_id();
    let next = keyspace.begin_copy().unwrap();
    keyspace.adopt(next, Some(StreamPosition::new(id, 0))).unwrap();
    server.replication.follow(keyspace, &mut server.feed);
    assert!(!server.feed.is_on());
    server.feed.raw(b"*1\r\n$4\r\nPING\r\n", 7);
    server.feed.ping();
    server.feed.tell_replicas(&[b"PUBLISH", b"a", b"b"]);
    server.feed.end_request();
    ask(&mut driven, &mut client, "SET own 1", "+OK\r\n");
    assert_eq!((stream(&mut driven), driven.net.keyspace.stream().unwrap().db), (commands(&["PING"]), Some(7)));
    // Promoted in the midst of an iteration: the stream goes on with its own changes.
    let Net { keyspace, server, .. } = &mut driven.net;
    server.feed.raw(b"*1\r\n$4\r\nPING\r\n", 7);
    server.replication.lead(keyspace, &mut server.feed).unwrap();
    let position = keyspace.stream().unwrap();
    assert_eq!((position.second, position.id == id), (Some((id, 28)), false));
    ask(&mut driven, &mut client, "SELECT 7\r\nSET own 2", "+OK\r\n+OK\r\n");
    assert_eq!(stream(&mut driven), commands(&["PING", "PING", "SELECT 7", "SET own 2"]));
}

/// A full synchronisation begins between strings that are written in parts, and a stream that ends among parts says so.
#[test]
fn a_full_synchronisation_waits_for_strings_in_parts() {
    let mut driven = Driven::new();
    begin(&mut driven);
    let Net { keyspace, server, .. } = &mut driven.net;
    assert!(server.feed.may_begin(Reader::Replica));
    assert!(server.feed.begin_parts(1));
    server.feed.put(0, &[b"SET", b"part", b"1"]);
    server.feed.end_request();
    before_commit(keyspace, server);
    keyspace.commit(&WriteOptions::default()).unwrap();
    server.feed.keep();
    assert!(!server.feed.may_begin(Reader::Replica) && !server.feed.begin_parts(2), "what has not begun waits");
    server.feed.stop_waiting(Reader::Replica);
    assert!(server.feed.begin_parts(2));
    server.feed.end_parts(2);
    assert!(!server.feed.may_begin(Reader::Replica));
    assert!(keyspace.is_amid());
    server.feed.end_parts(1);
    assert!(server.feed.may_begin(Reader::Replica));
    let epoch = server.feed.epoch();
    server.feed.begin_reader();
    assert_eq!(server.feed.epoch(), epoch + 1);
    server.feed.put(0, &[b"DEL", b"part"]);
    server.feed.end_request();
    before_commit(keyspace, server);
    keyspace.commit(&WriteOptions::default()).unwrap();
    assert!(!keyspace.is_amid());
}

/// A primary that was killed amid a string, or a replica that is promoted, leaves no parts of it behind, neither here nor on replicas.
#[test]
fn a_new_primary_removes_parts_of_strings() {
    let mut keyspace = fresh();
    let old = StreamPosition::new(keyspace.new_stream_id(), 0);
    keyspace.begin_stream(old).unwrap();
    keyspace.feed(b"*1\r\n$4\r\nPING\r\n", None);
    keyspace.note_amid(true);
    keyspace.commit(&WriteOptions::default()).unwrap();
    let mut driven = Driven::over(keyspace, &[false], Server::default());
    driven.turn();
    let second = driven.net.keyspace.stream().unwrap().second;
    assert_eq!((second, driven.net.keyspace.is_amid()), (Some((old.id, 14)), false));
    let names: String = (0..8).map(|number| format!(" \0sinterdb:parts:{number}")).collect();
    let removals: Vec<String> = (0..16).flat_map(|db| [format!("SELECT {db}"), format!("DEL{names}")]).collect();
    let lines: Vec<&str> = std::iter::once("PING").chain(removals.iter().map(String::as_str)).collect();
    assert_eq!(stream(&mut driven), commands(&lines));
    let before = driven.net.keyspace.stream().unwrap().offset;
    let Net { keyspace, server, .. } = &mut driven.net;
    server.replication.follow(keyspace, &mut server.feed);
    keyspace.set_string(2, b"\0sinterdb:parts:3", b"part", None).unwrap();
    server.replication.lead(keyspace, &mut server.feed).unwrap();
    assert_eq!(keyspace.size(2), 0);
    driven.turn();
    assert_eq!(stream_from(&driven, before), commands(&["SELECT 2", &removals[5]]));
}
