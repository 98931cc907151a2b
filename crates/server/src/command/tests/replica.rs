//! A replica without a network: what it refuses, what its primary may do, and how it changes its role.

use super::Talk;
use crate::command::{Reason, Session};
use crate::feed::Source;
use crate::keyspace::{StreamId, StreamPosition};
use crate::replication::{Address, Failover, Untold};

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

/// Each failure counts once, also inside a transaction, whose reply is no error; a script's own failures are the script's.
#[test]
fn failures_of_the_primarys_requests_are_counted() {
    let mut talk = replica();
    let mut primary = primary(&talk);
    let untold = |command: &str, why: &str, skips| Some(Untold { command: command.into(), why: why.into(), skips });
    const WRONG: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
    const UNKNOWN: &str = "ERR unknown command 'nosuch', with args beginning with: ";
    for (lines, failed, first) in [
        (&["SET a 1", "LPUSH a 1"][..], 1, untold("lpush", WRONG, false)),
        (&["MULTI", "LPUSH a 1", "SET b 1", "INCRBY b x", "EXEC"][..], 2, untold("lpush", WRONG, false)),
        (&["MULTI", "SET c 1", "nosuch", "EXEC"][..], 2, untold("nosuch", UNKNOWN, true)),
        (&["MULTI", "SET c 1", "GET", "EXEC"][..], 2, untold("GET", "ERR wrong number of arguments for 'get' command", true)),
        (&["EVAL return{redis.pcall('lpush','a',1).err} 0"][..], 0, None),
        (&["SET d 1"][..], 0, None),
    ] {
        let before = talk.server.upstream.failed;
        lines.iter().for_each(|line| drop(talk.say(&mut primary, line)));
        assert_eq!((talk.server.upstream.failed - before, talk.server.upstream.untold.take()), (failed, first), "{lines:?}");
    }
    let mut client = talk.client(1);
    assert_eq!(talk.say(&mut client, "EXISTS b c d"), ":2|");
    talk.say(&mut client, "LPUSH a 1");
    let info = talk.say(&mut client, "INFO stats");
    assert!(info.contains("|unexpected_error_replies:7|"), "{info}");
}

/// Scripts in the primary's stream add data, although the last request before was refused for the limit of the data.
#[test]
fn the_limit_of_the_data_does_not_count_for_the_primary() {
    let mut talk = Talk::new();
    let mut client = talk.client(1);
    const FULL: &str = "-OOM command not allowed when used memory > 'maxmemory'.|";
    for (line, reply) in [("SET k 1", "+OK|"), ("CONFIG SET maxdata 1", "+OK|"), ("SET k 2", FULL)] {
        assert_eq!(talk.say(&mut client, line), reply, "{line}");
    }
    talk.server.configuration.following.primary = Some(Address { host: "here".into(), port: 1 });
    let mut primary = primary(&talk);
    for (line, reply) in [
        ("EVAL return(redis.call('set','k','2')) 0", "+OK|"),
        ("EVAL #!lua\nreturn(redis.call('append','k','3')) 0", ":2|"),
        ("SET k 4", "+OK|"),
    ] {
        assert_eq!(talk.say(&mut primary, line), reply, "{line}");
    }
}

/// Names that clients have for commands are none of a stream's.
#[test]
fn the_primary_calls_commands_by_their_own_names() {
    let mut talk = replica();
    for (old, new) in [(&b"SET"[..], &b"put"[..]), (b"APPEND", b""), (b"GET", b"append")] {
        talk.server.configuration.renames.rename(old, new).unwrap();
    }
    let (mut client, mut primary) = (talk.client(1), primary(&talk));
    for line in ["SET a 1", "put b 1", "APPEND a 2"] {
        assert!(!talk.say(&mut primary, line).starts_with('-'), "{line}");
    }
    assert_eq!([talk.say(&mut client, "append a"), talk.say(&mut client, "append b")], ["$2|12|", "$1|1|"]);
    assert!(talk.say(&mut client, "SET a 1").starts_with("-ERR unknown command 'SET'"));
}

#[test]
fn hello_tells_the_role() {
    let (mut replica, mut primary) = (replica(), Talk::new());
    for (talk, role) in [(&mut replica, "|$4|role|$7|replica|"), (&mut primary, "|$4|role|$6|master|")] {
        let mut client = talk.client(1);
        let greeting = talk.say(&mut client, "HELLO 3");
        assert!(greeting.contains(role), "{greeting}");
    }
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
    // The former primary asks again; of another stream, a primary takes nothing over.
    let (mut again, mut foreign) = (talk.client(4), talk.client(5));
    assert_eq!(talk.say(&mut again, &format!("PSYNC {id} 1 FAILOVER")), "");
    assert!(again.is_replica && talk.keyspace.stream().unwrap().second.map(|(id, _)| id) == Some(id));
    let refused = "-ERR PSYNC FAILOVER can't be sent to a master.|";
    assert_eq!(talk.say(&mut foreign, &format!("PSYNC {} 1 FAILOVER", "f".repeat(40))), refused);
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
    // A shutdown holds writes as well, and ends with its own hold only.
    let shutdown = |talk: &mut Talk| {
        (talk.server.is_ending, talk.server.ends_at) = (true, Some((now + 1000, 0)));
        talk.server.pause.hold_until_end(now + 1000);
    };
    shutdown(&mut talk);
    assert_eq!(talk.say(&mut client, "SHUTDOWN ABORT"), "+OK|");
    assert_eq!(waits(&talk), (true, false), "it is the handover's");
    assert!(talk.say(&mut client, "INFO replication").contains("master_failover_state:waiting-for-sync|"));
    talk.server.is_ending = true;
    assert_eq!(talk.say(&mut client, "SHUTDOWN ABORT"), "+OK|", "in the turn that asks for the end");
    assert_eq!(talk.say(&mut client, "SHUTDOWN ABORT"), "-ERR No shutdown in progress.|");
    assert_eq!(talk.say(&mut client, "FAILOVER ABORT"), "+OK|");
    assert_eq!((waits(&talk), talk.server.upstream.failover.clone()), ((false, false), Failover::None));
    for (pause, during) in [("CLIENT PAUSE 5000 WRITE", (true, false)), ("CLIENT PAUSE 5000", (true, true))] {
        assert_eq!(talk.say(&mut client, pause), "+OK|");
        shutdown(&mut talk);
        assert_eq!(talk.say(&mut client, "SHUTDOWN ABORT"), "+OK|");
        assert_eq!(waits(&talk), during, "{pause}");
    }
    shutdown(&mut talk);
    assert_eq!(talk.say(&mut client, "CLIENT UNPAUSE"), "+OK|");
    assert_eq!((waits(&talk), talk.server.pause.until()), ((true, false), now + 1000), "it is the shutdown's");
    assert_eq!(talk.say(&mut client, "SHUTDOWN ABORT"), "+OK|");
    assert_eq!(waits(&talk), (false, false));
}

/// Writes of the transaction that begins a handover, or a pause, remove keys that have ended, here and on replicas; reads remove none.
#[test]
fn writes_behind_a_handover_remove_what_has_ended() {
    for line in ["FAILOVER", "CLIENT PAUSE 5000 WRITE"] {
        let mut talk = Talk::new();
        let (mut client, mut other) = (talk.client(1), talk.client(2));
        talk.server.feed.set_source(Source::Effects, &mut talk.keyspace);
        talk.say(&mut other, "PSYNC ? -1");
        let now = talk.keyspace.now();
        for key in ["a", "b"] {
            talk.say(&mut client, &format!("SET {key} 5 PXAT {}", now + 10));
        }
        talk.keyspace.set_now(now + 20);
        for line in ["MULTI", line, "GET b", "INCR a"] {
            talk.say(&mut client, line);
        }
        assert_eq!(talk.say(&mut client, "EXEC"), "*3|+OK|$-1|:1|", "{line}");
        assert_eq!(talk.say(&mut client, "DBSIZE"), ":2|", "{line}");
        let stream = String::from_utf8(talk.server.feed.stream_bytes().to_vec()).unwrap().replace("\r\n", "|");
        assert!(stream.ends_with("*2|$3|DEL|$1|a|*2|$4|INCR|$1|a|*1|$4|EXEC|"), "{line}: {stream}");
    }
}

/// A replica that has not said its port, or a wrong one, is not the target that an impossible port names.
#[test]
fn a_handover_names_a_port() {
    let mut talk = Talk::new();
    let mut client = talk.client(1);
    for (id, port) in [(2, "0"), (3, "70000"), (4, "-5"), (5, "7000")] {
        let mut replica = talk.client(id);
        talk.say(&mut replica, &format!("REPLCONF ip-address here listening-port {port}"));
        talk.say(&mut replica, "PSYNC ? -1");
    }
    for (port, reply) in [
        ("0", "-ERR FAILOVER target HOST and PORT is not a replica.|"),
        ("-5", "-ERR FAILOVER target HOST and PORT is not a replica.|"),
        ("65536", "-ERR FAILOVER target HOST and PORT is not a replica.|"),
        ("72536", "-ERR FAILOVER target HOST and PORT is not a replica.|"),
        ("70000", "-ERR FAILOVER target HOST and PORT is not a replica.|"),
        ("x", "-ERR value is not an integer or out of range|"),
        ("99999999999999999999", "-ERR value is not an integer or out of range|"),
        ("7000", "-ERR FAILOVER target replica is not online.|"),
    ] {
        assert_eq!(talk.say(&mut client, &format!("FAILOVER TO here {port}")), reply, "{port}");
    }
}

/// A request that waited takes from the key that woke it, though a key before it has elements by now, or another type.
#[test]
fn replicas_take_from_the_key_that_was_served() {
    let mut talk = Talk::new();
    let (mut client, mut other) = (talk.client(1), talk.client(2));
    talk.server.feed.set_source(Source::Effects, &mut talk.keyspace);
    talk.say(&mut other, "PSYNC ? -1");
    for line in ["RPUSH b 1 2 3", "RPUSH a 4", "SET s 5", "ZADD y 1 m", "ZADD x 1 n"] {
        talk.say(&mut client, line);
    }
    for (woken, line, reply, logged) in [
        ("b", "BLMPOP 0 2 a b LEFT", "*2|$1|b|*1|$1|1|", "*4|$5|LMPOP|$1|1|$1|b|$4|LEFT|"),
        ("b", "BLMPOP 0 2 s b RIGHT COUNT 2", "*2|$1|b|*2|$1|3|$1|2|", "*6|$5|LMPOP|$1|1|$1|b|$5|RIGHT|$5|COUNT|$1|2|"),
        ("y", "BZMPOP 0 2 x y MIN", "*2|$1|y|*1|*2|$1|m|$1|1|", "*4|$5|ZMPOP|$1|1|$1|y|$3|MIN|"),
    ] {
        client.woken = Some(woken.as_bytes().to_vec());
        assert_eq!(talk.say(&mut client, line), reply, "{line}");
        let stream = String::from_utf8(talk.server.feed.stream_bytes().to_vec()).unwrap().replace("\r\n", "|");
        assert!(stream.ends_with(logged), "{line}: {stream}");
    }
}
