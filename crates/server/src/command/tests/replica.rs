//! A replica without a network: what it refuses, what its primary may do, and how it changes its role.

use super::Talk;
use crate::command::{Reason, Session};
use crate::feed::Source;
use crate::keyspace::{StreamId, StreamPosition};
use crate::replication::{Address, Failover};

const ID: &str = "0123456789abcdef0123456789abcdef01234567";

fn primary(talk: &Talk) -> Session {
    let mut session = talk.client(100);
    session.is_primary = true;
    session
}

/// A replica at offset 7 of a stream.
fn replica() -> Talk {
    let mut talk = Talk::new();
    let position = StreamPosition::new(StreamId::parse(ID.as_bytes()).unwrap(), 7);
    talk.keyspace.begin_stream(position).unwrap();
    talk.keyspace.commit(&Default::default()).unwrap();
    talk.server.feed.set_source(Source::Primary, &mut talk.keyspace);
    talk.server.configuration.following.primary = Some(Address { host: "here".into(), port: 1 });
    talk
}

#[test]
fn the_primary_may_change_data_and_nothing_else() {
    let mut talk = replica();
    let (mut client, mut primary) = (talk.client(1), primary(&talk));
    talk.server.users.define(&[b"default", b"on", b"nopass", b"-@all", b"+get", b"~*"]).unwrap();
    const FOREIGN: &str = "-ERR this command is none of a replication stream|";
    for (line, reply) in [
        ("SELECT 3", "+OK|"),
        ("SET a 1", "+OK|"),
        ("MULTI", "+OK|"),
        ("INCR a", "+QUEUED|"),
        ("EXEC", "*1|:2|"),
        ("SHUTDOWN NOSAVE", FOREIGN),
        ("CONFIG SET timeout 1", FOREIGN),
        ("CLIENT PAUSE 1000", FOREIGN),
        ("REPLICAOF NO ONE", FOREIGN),
        ("ACL SETUSER x on", FOREIGN),
        ("DEBUG SLEEP 1", FOREIGN),
        ("RESET", "-ERR can only reset normal client connections|"),
        ("REPLCONF GETACK *", ""),
        ("BLPOP none 0", ""),
    ] {
        assert_eq!(talk.say(&mut primary, line), reply, "{line}");
    }
    assert!(talk.server.upstream.is_asked && primary.is_primary && !primary.is_waiting() && talk.server.is_replica());
    client.db = 3;
    assert_eq!(talk.say(&mut client, "GET a"), "$1|2|");
}

#[test]
fn deadlines_are_the_primarys() {
    let mut talk = replica();
    let (mut client, mut primary) = (talk.client(1), primary(&talk));
    let past = talk.keyspace.now() - 1000;
    // A clock that is behind or ahead changes nothing.
    assert_eq!(talk.say(&mut primary, &format!("SET a 1 PXAT {past}")), "+OK|");
    assert_eq!((talk.say(&mut client, "GET a"), talk.say(&mut client, "DBSIZE")), ("$-1|".into(), ":1|".into()));
    assert_eq!(talk.say(&mut primary, "APPEND a 2"), ":2|");
    assert_eq!(talk.say(&mut primary, "GET a"), "$2|12|");
    // A writable replica removes what is in the way of its own writes.
    talk.server.configuration.following.is_read_only = false;
    assert_eq!(talk.say(&mut client, "APPEND a x"), ":1|");
    assert_eq!(talk.say(&mut client, "PTTL a"), ":-1|");
}

/// The primary ends while it sends a long string in parts.
#[test]
fn parts_of_strings_go_with_their_primary() {
    let mut talk = replica();
    let (mut client, mut primary) = (talk.client(1), primary(&talk));
    for line in ["SET \0sinterdb:parts:1 a", "APPEND \0sinterdb:parts:1 b", "SET \0sinterdb:parts:2 c", "RENAME \0sinterdb:parts:1 k"] {
        talk.say(&mut primary, line);
    }
    assert_eq!(talk.say(&mut client, "DBSIZE"), ":2|");
    talk.keyspace.commit(&Default::default()).unwrap();
    assert_eq!(talk.say(&mut client, "REPLICAOF NO ONE"), "+OK|");
    assert_eq!((talk.say(&mut client, "DBSIZE"), talk.say(&mut client, "GET k")), (":1|".into(), "$2|ab|".into()));
    let removed = b"$3\r\nDEL\r\n$17\r\n\0sinterdb:parts:0\r\n";
    let stream = talk.server.feed.stream_bytes();
    assert!(stream.windows(removed.len()).any(|some| some == removed), "{}", stream.escape_ascii());
}

#[test]
fn roles_change() {
    let mut talk = replica();
    let (mut client, mut waiting) = (talk.client(1), talk.client(2));
    let write = "-READONLY You can't write against a read only replica.|";
    assert_eq!(talk.say(&mut client, "SET a 1"), write);
    assert_eq!(talk.say(&mut client, "REPLICAOF NO ONE"), "+OK|");
    let position = *talk.keyspace.stream().unwrap();
    assert_eq!(position.second.map(|(id, offset)| (id.to_string(), offset)), Some((ID.to_owned(), 7)));
    assert_ne!(position.id.to_string(), ID);
    assert_eq!((talk.server.feed.source(), talk.server.upstream.is_changed), (Source::Effects, true));
    assert_eq!(talk.say(&mut client, "SET a 1"), "+OK|");
    talk.say(&mut waiting, "BLPOP none 0");
    assert_eq!(talk.say(&mut client, "REPLICAOF there 2"), "+OK|");
    assert_eq!(talk.say(&mut client, "REPLICAOF THERE 2"), "+OK Already connected to specified master|");
    assert_eq!(talk.server.unblocked, [(2, Reason::Demoted)]);
    assert_eq!(talk.say(&mut client, "SET a 1"), write);
    assert_eq!(talk.say(&mut client, "ROLE"), "*5|$5|slave|$5|there|:2|$7|connect|:-1|");
    // Of this stream: the server takes over. Of another: it does not.
    let mut other = talk.client(3);
    let refused = "-ERR PSYNC FAILOVER replid must match my replid.|";
    assert_eq!(talk.say(&mut other, &format!("PSYNC {ID} 1 FAILOVER")), refused);
    let id = talk.keyspace.stream().unwrap().id;
    talk.say(&mut other, &format!("PSYNC {id} 1 FAILOVER"));
    assert!(!talk.server.is_replica());
    assert_eq!(talk.keyspace.stream().unwrap().second.map(|(id, _)| id), Some(id));
}

#[test]
fn a_handover_holds_writes_until_it_ends() {
    let mut talk = Talk::new();
    let mut client = talk.client(1);
    assert_eq!(talk.say(&mut client, "FAILOVER"), "-ERR FAILOVER requires connected replicas.|");
    let mut other = talk.client(2);
    talk.say(&mut other, "REPLCONF listening-port 7000 ip-address here");
    talk.say(&mut other, "PSYNC ? -1");
    assert_eq!(talk.say(&mut client, "FAILOVER TO here 7001"), "-ERR FAILOVER target HOST and PORT is not a replica.|");
    assert_eq!(talk.say(&mut client, "FAILOVER TO here 7000"), "-ERR FAILOVER target replica is not online.|");
    assert_eq!(talk.say(&mut client, "FAILOVER TIMEOUT 5"), "+OK|");
    let now = talk.keyspace.now();
    let waits = |talk: &Talk| (talk.server.pause.concerns(true, now), talk.server.pause.concerns(false, now));
    assert_eq!(waits(&talk), (true, false));
    assert_eq!(talk.say(&mut client, "CLIENT UNPAUSE"), "+OK|");
    assert_eq!(waits(&talk), (true, false), "it is the handover's");
    for (line, reply) in [
        ("FAILOVER", "-ERR FAILOVER already in progress.|"),
        ("REPLICAOF here 1", "-ERR REPLICAOF not allowed while failing over.|"),
        ("REPLICAOF NO ONE", "-ERR REPLICAOF not allowed while failing over.|"),
    ] {
        assert_eq!(talk.say(&mut client, line), reply, "{line}");
    }
    let mut third = talk.client(3);
    assert_eq!(talk.say(&mut third, "PSYNC ? -1"), "-NOMASTERLINK Can't SYNC while failing over|");
    assert!(talk.say(&mut client, "INFO replication").contains("master_failover_state:waiting-for-sync|"));
    assert_eq!(talk.say(&mut client, "FAILOVER ABORT"), "+OK|");
    assert_eq!((waits(&talk), talk.server.upstream.failover.clone()), ((false, false), Failover::None));
}
