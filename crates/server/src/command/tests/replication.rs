//! Replicas without a network: what they say, and what other clients see of that.

use super::Talk;
use crate::command::{Session, Stage, Wish};
use crate::system::unix_ms;

/// A client that has asked for a synchronisation, and is at a stage.
fn replica(talk: &mut Talk, id: u64, stage: Stage) -> Session {
    let mut session = talk.client(id);
    assert_eq!(talk.say(&mut session, "REPLCONF listening-port 7000 ip-address here capa eof capa psync2"), "+OK|");
    assert_eq!(talk.say(&mut session, "PSYNC ? -1"), "");
    let replica = talk.server.replicas.get_mut(id).unwrap();
    assert_eq!((replica.stage, replica.wish.take()), (Stage::Waiting, Some(Wish::Continue(b"?".to_vec(), -1))));
    replica.enter(stage, unix_ms());
    session
}

#[test]
fn a_replica_acknowledges_and_nothing_else() {
    let mut talk = Talk::new();
    let mut session = replica(&mut talk, 1, Stage::Loaded);
    let state = |talk: &Talk| {
        let replica = talk.server.replicas.get(1).unwrap();
        (replica.stage, replica.acknowledged, replica.durable)
    };
    for (line, expected) in [
        ("REPLCONF ACK x", (Stage::Loaded, 0, 0)),
        ("REPLCONF ACK 7", (Stage::Online, 7, 0)),
        ("REPLCONF ACK 9 FACK 8", (Stage::Online, 9, 8)),
        ("REPLCONF ACK 5 FACK 6", (Stage::Online, 9, 8)),
        ("REPLCONF ACK -5", (Stage::Online, 9, 8)),
        ("REPLCONF ACK 10 FACK x", (Stage::Online, 9, 8)),
        ("PSYNC ? -1", (Stage::Online, 9, 8)),
        ("SYNC", (Stage::Online, 9, 8)),
        ("MONITOR", (Stage::Online, 9, 8)),
    ] {
        assert_eq!((talk.say(&mut session, line).as_str(), state(&talk)), ("", expected), "{line}");
    }
    for line in ["GET a", "SET a 1", "PUBLISH a 1", "EVAL x 0"] {
        assert_eq!(talk.say(&mut session, line), "-ERR Replica can't interact with the keyspace|", "{line}");
    }
    assert_eq!(talk.say(&mut session, "RESET"), "-ERR can only reset normal client connections|");
    // A client that is no replica acknowledges nothing.
    let mut other = talk.client(2);
    assert_eq!(talk.say(&mut other, "REPLCONF ACK 7"), "");
    assert!(talk.server.replicas.get(2).is_none());
}

#[test]
fn other_clients_see_replicas() {
    let mut talk = Talk::new();
    let mut other = talk.client(9);
    let mut online = replica(&mut talk, 1, Stage::Online);
    replica(&mut talk, 2, Stage::Waiting);
    talk.say(&mut online, "REPLCONF ACK 5");
    assert_eq!(talk.say(&mut other, "ROLE"), "*3|$6|master|:0|*1|*3|$4|here|$4|7000|$1|5|");
    let info = talk.say(&mut other, "INFO replication");
    for line in ["connected_slaves:2|slave0:ip=here,port=7000,state=online,offset=5,lag=0|slave1:", ",state=wait_bgsave,offset=0,lag=0|"] {
        assert!(info.contains(line), "{info}");
    }
    talk.server.leave(1);
    talk.server.leave(2);
    assert!(talk.say(&mut other, "INFO replication").contains("|connected_slaves:0|master_failover_state:no-failover|"));
}

#[test]
fn writes_need_replicas_that_speak() {
    let mut talk = Talk::new();
    let mut client = talk.client(9);
    talk.server.configuration.set("min-slaves-to-write", "2").unwrap();
    const NOT_ENOUGH: &str = "-NOREPLICAS Not enough good replicas to write.|";
    replica(&mut talk, 1, Stage::Online);
    replica(&mut talk, 2, Stage::Online);
    replica(&mut talk, 3, Stage::Loading);
    assert_eq!(talk.say(&mut client, "SET a 1"), "+OK|");
    assert_eq!((talk.say(&mut client, "MULTI"), talk.say(&mut client, "SET a 2")), ("+OK|".into(), "+QUEUED|".into()));
    talk.server.replicas.get_mut(2).unwrap().heard = unix_ms() - 20_000;
    assert_eq!(
        talk.say(&mut client, "EXEC"),
        "-EXECABORT Transaction discarded because of: NOREPLICAS Not enough good replicas to write.|"
    );
    assert_eq!(talk.say(&mut client, "SET a 2"), NOT_ENOUGH);
    assert_eq!(talk.say(&mut client, "GET a"), "$1|1|");
    talk.server.configuration.set("min-slaves-max-lag", "30").unwrap();
    assert_eq!(talk.say(&mut client, "SET a 2"), "+OK|");
}

#[test]
fn requests_wait_for_acknowledgements() {
    let mut talk = Talk::new();
    let mut client = talk.client(9);
    let mut first = replica(&mut talk, 1, Stage::Online);
    let mut second = replica(&mut talk, 2, Stage::Online);
    // Offset 10 stands for the client's last write.
    client.written = 10;
    assert_eq!(talk.say(&mut client, "WAIT 0 0"), ":0|");
    assert!(!talk.server.replicas.asks);
    talk.say(&mut first, "REPLCONF ACK 10 FACK 9");
    assert_eq!(talk.say(&mut client, "WAIT 1 0"), ":1|");
    assert_eq!(talk.say(&mut client, "WAIT 2 0"), "");
    assert!(talk.server.replicas.asks && client.is_waiting());
    talk.server.replicas.asks = false;
    let again = |talk: &mut Talk, client: &mut Session| {
        let mut out = Vec::new();
        crate::command::resume(&mut talk.keyspace, &mut talk.server, client, None, &mut out);
        String::from_utf8(out).unwrap()
    };
    talk.say(&mut second, "REPLCONF ACK 9");
    assert_eq!(again(&mut talk, &mut client), "");
    // A later write does not matter.
    client.written = 20;
    talk.say(&mut second, "REPLCONF ACK 10");
    assert_eq!(again(&mut talk, &mut client), ":2\r\n");
    assert!(!talk.server.replicas.asks, "a request asks once");
    client.written = 10;
    assert_eq!(talk.say(&mut client, "WAITAOF 0 1 0"), "");
    talk.say(&mut second, "REPLCONF ACK 10 FACK 10");
    let reply = again(&mut talk, &mut client);
    assert!(reply.starts_with("*2\r\n:") && reply.ends_with(":1\r\n"), "{reply}");
    assert_eq!(
        ["MULTI", "WAIT 3 0", "EXEC"].map(|line| talk.say(&mut client, line)),
        ["+OK|".to_owned(), "+QUEUED|".into(), "*1|:2|".into()]
    );
}
