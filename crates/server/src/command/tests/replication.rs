//! Replicas without a network: what they say, and what other clients see of that.

use super::Talk;
use crate::command::{Allowed, Session, Stage, Wish, execute};
use crate::feed::Source;
use crate::keyspace::StreamPosition;
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
        ("REPLCONF ACK x", (Stage::Loaded, None, None)),
        ("REPLCONF ACK 7", (Stage::Online, Some(7), None)),
        ("REPLCONF ACK 9 FACK 8", (Stage::Online, Some(9), Some(8))),
        ("REPLCONF ACK 5 FACK 6", (Stage::Online, Some(9), Some(8))),
        ("REPLCONF ACK -5", (Stage::Online, Some(9), Some(8))),
        ("REPLCONF ACK 10 FACK x", (Stage::Online, Some(9), Some(8))),
        ("PSYNC ? -1", (Stage::Online, Some(9), Some(8))),
        ("SYNC", (Stage::Online, Some(9), Some(8))),
        ("MONITOR", (Stage::Online, Some(9), Some(8))),
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

/// Readers of effects, an import for one, know commands by their own names.
#[test]
fn effects_have_the_names_of_commands() {
    let mut talk = Talk::new();
    talk.server.feed.set_log(true, &mut talk.keyspace);
    talk.server.feed.set_source(Source::Effects, &mut talk.keyspace);
    for (old, new) in [
        ("SET", "put"),
        ("FLUSHALL", "wipe"),
        ("PUBLISH", "tell"),
        ("FUNCTION", "lib"),
        ("GET", ""),
        ("APPEND", "get"),
        ("BLMOVE", "shift"),
    ] {
        talk.server.configuration.renames.rename(old.as_bytes(), new.as_bytes()).unwrap();
    }
    let mut client = talk.client(1);
    for line in ["put a 1", "wipe", "tell c x", "lib FLUSH", "get a 2", "RPUSH l x", "shift l l LEFT LEFT 0"] {
        assert!(!talk.say(&mut client, line).starts_with('-'), "{line}");
    }
    let log = String::from_utf8(talk.server.feed.log_bytes().to_vec()).unwrap().replace("\r\n", "|");
    let stream = String::from_utf8(talk.server.feed.stream_bytes().to_vec()).unwrap().replace("\r\n", "|");
    let common = ["*3|$3|set|$1|a|$1|1|", "*1|$8|flushall|", "*2|$8|function|$5|FLUSH|", "*3|$6|append|$1|a|$1|2|", "*3|$5|RPUSH|"];
    assert!(common.iter().all(|words| log.contains(words) && stream.contains(words)), "{log} {stream}");
    assert!(stream.contains("*3|$7|publish|$1|c|$1|x|") && stream.contains("*5|$5|LMOVE|"), "{stream}");
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

/// A client cannot put fields and lines of its own into `INFO`.
#[test]
fn an_address_is_one_word() {
    let mut talk = Talk::new();
    let mut session = replica(&mut talk, 1, Stage::Online);
    for address in ["a,state=online", "a\r\nslave9:ip=b", "a\tb", "\u{e4}"] {
        let reply = talk.say(&mut session, &format!("REPLCONF ip-address {address}"));
        assert_eq!(reply, "-ERR REPLCONF ip-address provided by replica instance is no address|", "{address}");
    }
    assert_eq!(talk.say(&mut session, "REPLCONF ip-address fe80::1%eth0"), "+OK|");
    let mut other = talk.client(9);
    let info = talk.say(&mut other, "INFO replication");
    assert!(info.contains("|slave0:ip=fe80::1%eth0,port=7000,state=online,"), "{info}");
}

/// A script that has written goes on when there are too few replicas: it would end half-way.
#[test]
fn a_script_that_has_written_is_not_refused() {
    let mut talk = Talk::new();
    let mut client = talk.client(9);
    talk.server.configuration.debug_command = Allowed::Yes;
    assert_eq!(talk.say(&mut client, "DEBUG SET-DISABLE-DENY-SCRIPTS 1"), "+OK|");
    let mut eval = |code: &str| {
        talk.server.configuration.set("min-replicas-to-write", "0").unwrap();
        let code = code.replace("LACK", "redis.call('config','set','min-replicas-to-write','1')");
        let mut out = Vec::new();
        execute(&mut talk.keyspace, &mut talk.server, &mut client, &[b"EVAL", code.as_bytes(), b"0"], &mut out);
        String::from_utf8_lossy(&out).replace("\r\n", "|")
    };
    assert_eq!(eval("redis.call('set','a','1') LACK redis.call('incr','a') return redis.call('get','a')"), "$1|2|");
    assert!(eval("LACK return redis.call('incr','a')").starts_with("-NOREPLICAS"));
}

#[test]
fn writes_need_replicas_that_speak() {
    let mut talk = Talk::new();
    talk.keyspace.set_now(unix_ms());
    let mut client = talk.client(9);
    talk.server.configuration.set("min-slaves-to-write", "2").unwrap();
    const NOT_ENOUGH: &str = "-NOREPLICAS Not enough good replicas to write.|";
    let mut all = [Stage::Online, Stage::Online, Stage::Loading, Stage::Loaded, Stage::Online].map(|stage| {
        let id = talk.server.replicas.len() as u64 + 1;
        replica(&mut talk, id, stage)
    });
    talk.server.replicas.get_mut(5).unwrap().takes_no_stream = true;
    for (number, reply) in [(2, NOT_ENOUGH), (4, NOT_ENOUGH), (0, NOT_ENOUGH), (1, "+OK|")] {
        talk.say(&mut all[number], "REPLCONF ACK 1");
        assert_eq!(talk.say(&mut client, "SET a 1"), reply, "number {number}");
    }
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
    assert_eq!(talk.say(&mut client, "WAIT 0 0"), ":0|", "nobody has acknowledged anything, not even the data of the start");
    // Offset 10 stands for the client's last write.
    client.written = (0, 10);
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
    client.written = (0, 20);
    talk.say(&mut second, "REPLCONF ACK 10");
    assert_eq!(again(&mut talk, &mut client), ":2\r\n");
    assert!(!talk.server.replicas.asks, "a request asks once");
    client.written = (0, 10);
    assert_eq!(talk.say(&mut client, "WAITAOF 0 1 0"), "");
    talk.say(&mut second, "REPLCONF ACK 10 FACK 10");
    let reply = again(&mut talk, &mut client);
    assert!(reply.starts_with("*2\r\n:") && reply.ends_with(":1\r\n"), "{reply}");
    assert_eq!(
        ["MULTI", "WAIT 3 0", "EXEC"].map(|line| talk.say(&mut client, line)),
        ["+OK|".to_owned(), "+QUEUED|".into(), "*1|:2|".into()]
    );
    // The stream ends, and another one begins, which has the client's writes from its start.
    client.written = (0, 1000);
    assert_eq!(talk.say(&mut client, "WAIT 1 0"), "");
    let id = talk.keyspace.new_stream_id();
    talk.keyspace.begin_stream(StreamPosition::new(id, 0)).unwrap();
    assert_eq!(again(&mut talk, &mut client), ":2\r\n");
    assert_eq!(talk.say(&mut client, "WAIT 1 0"), ":2|");
    talk.keyspace.discard();
    assert_eq!(talk.say(&mut client, "WAIT 1 0"), "", "nothing of it was committed");
}
