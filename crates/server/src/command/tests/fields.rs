//! Deadlines of fields: replies and errors of Redis 7.4 and 8, events, and what is logged.

use super::{Talk, script};
use crate::command::{Post, Session, Topic, execute};
use crate::rdb::{crc64, open_value};

/// Requests, each with the time before it (seconds after the start) and its reply.
fn timed(lines: &[(u64, &str, &str)]) {
    for (form, entries) in [("inline", "512"), ("engine keys", "0")] {
        let mut talk = Talk::new();
        let mut session = talk.client(1);
        talk.say(&mut session, &format!("CONFIG SET hash-max-listpack-entries {entries}"));
        let start = talk.keyspace.now();
        for (seconds, line, expected) in lines {
            talk.keyspace.set_now(start + seconds * 1000);
            assert_eq!(talk.say(&mut session, line), *expected, "{form}: {line}");
        }
    }
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
const NO_FIELDS: &str = "-ERR Mandatory argument FIELDS is missing or not at the right position|";
const MISMATCH: &str = "-ERR The `numfields` parameter must match the number of arguments|";

#[test]
fn fields_end_one_by_one() {
    timed(&[
        (0, "HSET h a 1 b 2 c 3 d 4", ":4|"),
        (0, "HEXPIRE h 10 FIELDS 2 a b", "*2|:1|:1|"),
        (0, "HPEXPIRE h 20500 FIELDS 2 c none", "*2|:1|:-2|"),
        (0, "HTTL h FIELDS 5 a b c d none", "*5|:10|:10|:21|:-1|:-2|"),
        (0, "HPTTL h FIELDS 2 a c", "*2|:10000|:20500|"),
        (0, "HEXPIRETIME h FIELDS 2 a c", "*2|:1010|:1021|"),
        (0, "HPEXPIRETIME h FIELDS 2 c d", "*2|:1020500|:-1|"),
        (10, "HMGET h a b c", "*3|$1|1|$1|2|$1|3|"),
        (10, "HPERSIST h FIELDS 3 b d none", "*3|:1|:-1|:-2|"),
        (11, "HGET h a", "$-1|"),
        (11, "HLEN h", ":3|"),
        (11, "HEXISTS h a", ":0|"),
        (11, "HSTRLEN h a", ":0|"),
        (11, "HTTL h FIELDS 2 a b", "*2|:-2|:-1|"),
        (11, "HSETNX h a new", ":1|"),
        (11, "HINCRBY h c 5", ":8|"),
        (11, "HINCRBYFLOAT h c 0.5", "$3|8.5|"),
        (11, "HPTTL h FIELDS 1 c", "*1|:9500|"),
        (11, "HSET h c again", ":0|"),
        (11, "HPTTL h FIELDS 1 c", "*1|:-1|"),
        (11, "HDEL h b", ":1|"),
        (11, "HPEXPIREAT h 1030000 FIELDS 3 a c d", "*3|:1|:1|:1|"),
        (11, "COPY h copy", ":1|"),
        (11, "RENAME h h2", "+OK|"),
        (11, "MOVE h2 1", ":1|"),
        (12, "HPTTL copy FIELDS 3 a c d", "*3|:18000|:18000|:18000|"),
        (12, "PERSIST copy", ":0|"),
        (12, "EXPIRE copy 100", ":1|"),
        (31, "HGETALL copy", "*0|"),
        (31, "EXISTS copy", ":0|"),
        (31, "SELECT 1", "+OK|"),
        (31, "DBSIZE", ":1|"),
        (31, "HVALS h2", "*0|"),
        (31, "DBSIZE", ":0|"),
    ]);
}

#[test]
fn conditions_and_times_that_have_passed() {
    timed(&[
        (0, "HSET h a 1 b 2", ":2|"),
        (0, "HEXPIRE h 10 XX FIELDS 1 a", "*1|:0|"),
        (0, "HEXPIRE h 10 GT FIELDS 1 a", "*1|:0|"),
        (0, "HEXPIRE h 10 nx FIELDS 1 a", "*1|:1|"),
        (0, "HEXPIRE h 20 NX FIELDS 2 a none", "*2|:0|:-2|"),
        (0, "HEXPIRE h 10 GT FIELDS 1 a", "*1|:0|"),
        (0, "HEXPIRE h 11 GT FIELDS 1 a", "*1|:1|"),
        (0, "HEXPIRE h 12 LT FIELDS 2 a b", "*2|:0|:1|"),
        (0, "HEXPIRE h 9 LT FIELDS 1 a", "*1|:1|"),
        (0, "HEXPIRE h 9 XX FIELDS 1 a", "*1|:1|"),
        (0, "HEXPIREAT h 1 GT FIELDS 1 a", "*1|:0|"),
        (0, "HEXPIRE h 0 FIELDS 3 a a b", "*3|:2|:-2|:2|"),
        (0, "EXISTS h", ":0|"),
        (0, "HEXPIRE h 10 FIELDS 2 a b", "*2|:-2|:-2|"),
        (0, "HPERSIST h FIELDS 1 a", "*1|:-2|"),
        (0, "HTTL h FIELDS 1 a", "*1|:-2|"),
        (0, "HSET h a 1 b 2", ":2|"),
        (0, "HPEXPIREAT h 1 FIELDS 1 a", "*1|:2|"),
        (0, "HGETALL h", "*2|$1|b|$1|2|"),
    ]);
}

#[test]
fn wrong_requests_are_refused_as_redis_does() {
    script(&[
        ("SET s x", "+OK|"),
        ("HSET h a 1", ":1|"),
        ("HEXPIRE s x FIELDS 1 a", WRONG_TYPE),
        ("HTTL s x 1 a", WRONG_TYPE),
        ("HPERSIST s FIELDS 1 a", WRONG_TYPE),
        ("HGETEX s FIELDS 1 a", WRONG_TYPE),
        ("HGETDEL s FIELDS 1 a", WRONG_TYPE),
        ("HSETEX s FIELDS 1 a b", WRONG_TYPE),
        ("HEXPIRE h 10 FIELDS 1", "-ERR wrong number of arguments for 'hexpire' command|"),
        ("HEXPIRE h x FIELDS 1 a", "-ERR value is not an integer or out of range|"),
        ("HEXPIRE h -1 FIELDS 1 a", "-ERR invalid expire time, must be >= 0|"),
        ("HEXPIRE h 70368744177 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command|"),
        ("HPEXPIRE h 70368744177663 FIELDS 1 a", "-ERR invalid expire time in 'hpexpire' command|"),
        ("HPEXPIREAT h 70368744177664 FIELDS 1 a", "-ERR invalid expire time in 'hpexpireat' command|"),
        ("HPEXPIREAT h 70368744177663 FIELDS 1 a", "*1|:1|"),
        ("HEXPIREAT h 9223372036854775807 FIELDS 1 a", "-ERR invalid expire time in 'hexpireat' command|"),
        ("HEXPIRE h 10 FIELD 1 a", NO_FIELDS),
        ("HEXPIRE h 10 XX GT FIELDS 1 a", NO_FIELDS),
        ("HEXPIRE h 10 FIELDS 0 a", "-ERR Parameter `numFields` should be greater than 0|"),
        ("HEXPIRE h 10 FIELDS x a", "-ERR Parameter `numFields` should be greater than 0|"),
        ("HEXPIRE h 10 FIELDS 2 a", MISMATCH),
        ("HEXPIRE h 10 FIELDS 1 a b", MISMATCH),
        ("HEXPIRE h 10 NX FIELDS 1", MISMATCH),
        ("HEXPIRE none 10 NX FIELDS 1", MISMATCH),
        ("HTTL h FIELDS 0 a", "-ERR Number of fields must be a positive integer|"),
        ("HTTL h FIELDS 2 a", MISMATCH),
        ("HPERSIST none 1 a b", NO_FIELDS),
        ("HPTTL none FIELDS 3 a a b", "*3|:-2|:-2|:-2|"),
        ("HGETEX h EX 10 FIELDS 1", MISMATCH),
        ("HGETEX h EX 10 FIELDS", MISMATCH),
        ("HGETEX h EX x FIELDS 1 a", "-ERR value is not an integer or out of range|"),
        ("HGETEX h EX 10 PX 10 FIELDS 1 a", NO_FIELDS),
        ("HGETEX h FIELDS -1 a", "-ERR Number of fields must be a positive integer|"),
        ("HGETDEL h FIELDS 2 a", MISMATCH),
        ("HSETEX h FIELDS 1 a", "-ERR wrong number of arguments for 'hsetex' command|"),
        ("HSETEX h FIELDS 1 a b c", "-ERR wrong number of arguments for 'hsetex' command|"),
        ("HSETEX h FIELDS 2 a b", "-ERR wrong number of arguments for 'hsetex' command|"),
        ("HSETEX h FIELDS 0 a b", "-ERR invalid number of fields|"),
        ("HSETEX h EX FIELDS 1 a b", "-ERR value is not an integer or out of range|"),
        ("HSETEX h EX 1 PX 1 FIELDS 1 a b", "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified|"),
        ("HSETEX h KEEPTTL EX 1 FIELDS 1 a b", "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified|"),
        ("HSETEX h FXX FNX FIELDS 1 a b", "-ERR Only one of FXX or FNX arguments can be specified|"),
        ("HSETEX h NX XX FIELDS 1 a b", "-ERR syntax error|"),
        ("HSETEX h what FIELDS 1 a b", "-ERR unknown argument: what|"),
        ("HSETEX h FXX FXX a b EX", "-ERR Only one of FXX or FNX arguments can be specified|"),
        ("HSETEX h FXX EX 1 KEEPTTL", "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified|"),
        ("HSETEX h FXX NX KEEPTTL EXAT", "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified|"),
        ("HSETEX h FXX NX EXAT 5", NO_FIELDS),
        ("HGETALL h", "*2|$1|a|$1|1|"),
    ]);
}

#[test]
fn values_with_deadlines() {
    timed(&[
        (0, "HSETEX h EX 10 FIELDS 2 a 1 b 2", ":1|"),
        (0, "HTTL h FIELDS 2 a b", "*2|:10|:10|"),
        (0, "HSETEX h FNX FIELDS 2 c 1 a 2", ":0|"),
        (0, "HSETEX h FXX FIELDS 2 a 3 c 2", ":0|"),
        (0, "HSETEX h FXX KEEPTTL FIELDS 1 a 3", ":1|"),
        (0, "HTTL h FIELDS 1 a", "*1|:10|"),
        (0, "HSETEX h FIELDS 1 a 4", ":1|"),
        (0, "HTTL h FIELDS 1 a", "*1|:-1|"),
        (0, "HSETEX none FXX FIELDS 1 a 1", ":0|"),
        (0, "HSETEX none XX FIELDS 1 a 1", ":0|"),
        (0, "HSETEX h NX FIELDS 1 z 1", ":0|"),
        (0, "HSETEX new NX PXAT 1005000 FIELDS 1 z 1", ":1|"),
        (0, "HPEXPIRETIME new FIELDS 1 z", "*1|:1005000|"),
        (0, "HSETEX new EX 0 FIELDS 2 z 1 y 2", ":1|"),
        (0, "EXISTS new none", ":0|"),
        (0, "HGETEX h FIELDS 2 a none", "*2|$1|4|$-1|"),
        (0, "HGETEX h PX 5000 FIELDS 3 a b none", "*3|$1|4|$1|2|$-1|"),
        (0, "HPTTL h FIELDS 2 a b", "*2|:5000|:5000|"),
        (0, "HGETEX h PERSIST FIELDS 1 a", "*1|$1|4|"),
        (0, "HGETEX h EXAT 1007 FIELDS 1 b", "*1|$1|2|"),
        (0, "HTTL h FIELDS 2 a b", "*2|:-1|:7|"),
        (8, "HGETEX h FIELDS 2 a b", "*2|$1|4|$-1|"),
        (8, "HSET h b 5", ":1|"),
        (8, "HGETDEL h FIELDS 2 b none", "*2|$1|5|$-1|"),
        (8, "HGETEX h PXAT 1 FIELDS 1 a", "*1|$1|4|"),
        (8, "EXISTS h", ":0|"),
        (8, "HGETDEL h FIELDS 1 a", "*1|$-1|"),
        (8, "HGETEX h EX 10 FIELDS 2 a b", "*2|$-1|$-1|"),
        (8, "HSET h a 1", ":1|"),
        (8, "HGETDEL h FIELDS 2 a a", "*2|$1|1|$-1|"),
        (8, "EXISTS h", ":0|"),
    ]);
}

/// Walks, chance, sorting by fields, and dumps.
#[test]
fn no_command_finds_a_field_that_has_ended() {
    timed(&[
        (0, "HSETEX h EX 10 FIELDS 2 a 3 b 1", ":1|"),
        (0, "HSET h c 2", ":1|"),
        (0, "RPUSH l a b", ":2|"),
        (0, "HSET w_a f 2", ":1|"),
        (0, "HSETEX w_b EX 5 FIELDS 1 f 1", ":1|"),
        (0, "SORT l BY w_*->f GET # GET w_*->f", "*4|$1|b|$1|1|$1|a|$1|2|"),
        (6, "SORT l BY w_*->f GET # GET w_*->f", "*4|$1|b|$-1|$1|a|$1|2|"),
        (6, "EXISTS w_b", ":0|"),
        (11, "HRANDFIELD h 3 WITHVALUES", "*2|$1|c|$1|2|"),
        (11, "HRANDFIELD h -2", "*2|$1|c|$1|c|"),
        (11, "HRANDFIELD h", "$1|c|"),
        (11, "HSCAN h 0 COUNT 100", "*2|$1|0|*2|$1|c|$1|2|"),
        (11, "HKEYS h", "*1|$1|c|"),
        (11, "HVALS h", "*1|$1|2|"),
    ]);
}

#[test]
fn encodings_and_dumps() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    let mut say = |line: &str| talk.say(&mut session, line);
    say("HSET h a 1 b 2 c 3");
    assert_eq!(say("OBJECT ENCODING h"), "$8|listpack|");
    say("HEXPIRE h 10 FIELDS 1 c");
    say("HEXPIRE h 5 FIELDS 1 b");
    assert_eq!((say("OBJECT ENCODING h"), say("HKEYS h")), ("$10|listpackex|".into(), "*3|$1|b|$1|c|$1|a|".into()));
    assert!(say("INFO keyspace").contains("keys=1,expires=0,avg_ttl=0,subexpiry=1|"));
    // Among equal deadlines the one that was set last comes first, as in Redis; a loaded value keeps its order.
    say("HPEXPIREAT h 9000000 FIELDS 3 a b c");
    assert_eq!(say("HKEYS h"), "*3|$1|c|$1|b|$1|a|");
    let mut out = Vec::new();
    execute(&mut talk.keyspace, &mut talk.server, &mut session, &[b"DUMP", b"h"], &mut out);
    let (start, end) = (out.iter().position(|byte| *byte == b'\n').unwrap() + 1, out.len() - 2);
    execute(&mut talk.keyspace, &mut talk.server, &mut session, &[b"RESTORE", b"i", b"0", &out[start..end]], &mut Vec::new());
    let mut say = |line: &str| talk.say(&mut session, line);
    assert_eq!(say("HKEYS i"), "*3|$1|c|$1|b|$1|a|");
    say("DEL i");
    say("HPERSIST h FIELDS 3 a b c");
    assert!(say("INFO keyspace").contains("keys=1,expires=0,avg_ttl=0|"));
    assert_eq!(say("OBJECT ENCODING h"), "$8|listpack|");
}

/// The events of a request, in order.
fn told(talk: &mut Talk, line: &str) -> String {
    talk.say(&mut talk.client(1), line);
    let posts = talk.server.hub.take();
    let name = |post: &Post| {
        let mut out = Vec::new();
        post.write(&Session::default(), &mut out);
        String::from_utf8_lossy(&out).trim_end().rsplit("\r\n").next().unwrap_or_default().to_owned()
    };
    posts.iter().map(name).collect::<Vec<_>>().join(" ")
}

#[test]
fn events_are_those_of_redis() {
    let mut talk = Talk::new();
    talk.say(&mut talk.client(3), "CONFIG SET notify-keyspace-events KAn");
    talk.server.hub.add(9, Topic::Pattern, b"*");
    let start = talk.keyspace.now();
    for (seconds, line, expected) in [
        (0, "HSETEX h EX 10 FIELDS 2 a 1 b 2", "new hset hexpire"),
        (0, "HSETEX h FIELDS 1 c 3", "hset"),
        (0, "HSETEX h FNX FIELDS 1 c 3", ""),
        (0, "HEXPIRE h 20 FIELDS 2 c d", "hexpire"),
        (0, "HEXPIRE h 20 NX FIELDS 1 c", ""),
        (0, "HPERSIST h FIELDS 1 c", "hpersist"),
        (0, "HPERSIST h FIELDS 1 c", ""),
        (0, "HGETEX h FIELDS 1 c", ""),
        (0, "HGETEX h EX 20 FIELDS 1 c", "hexpire"),
        (0, "HGETEX h PERSIST FIELDS 1 c", "hpersist"),
        (0, "HSET h d 1 e 2 f 3", "hset"),
        (0, "HGETEX h PX 0 FIELDS 2 d none", "hdel"),
        (0, "HEXPIREAT h 5 FIELDS 2 e none", "hdel"),
        (0, "HSETEX h PXAT 5 FIELDS 1 f 4", "hset hdel"),
        (0, "HSETEX h PXAT 5 FIELDS 1 none 4", "hset hdel"),
        (0, "HSETEX none PXAT 5 FIELDS 1 a 4", ""),
        (11, "HGET h c", "hexpired"),
        (11, "HGETDEL h FIELDS 2 c none", "hdel del"),
        (11, "HSETEX h EX 10 FIELDS 1 a 1", "new hset hexpire"),
        (11, "HEXPIRE h 0 FIELDS 1 a", "hdel del"),
        (11, "HSETEX h EX 10 FIELDS 1 a 1", "new hset hexpire"),
        (22, "HSET h b 1", "hexpired del new hset"),
        (22, "HEXPIRE h 1 FIELDS 1 b", "hexpire"),
        (24, "HLEN h", "hexpired del"),
    ] {
        talk.keyspace.set_now(start + seconds * 1000);
        assert_eq!(told(&mut talk, line), expected, "{line}");
    }
}

/// A field that ends is a change to whom watches its key.
#[test]
fn watchers_see_fields_end() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    for (step, expected) in [(5000, "*1|$1|1|"), (20_000, "*-1|")] {
        talk.say(&mut session, "HSETEX h EX 10 FIELDS 1 a 1");
        talk.say(&mut session, "HSET h b 1");
        talk.say(&mut session, "WATCH h");
        talk.keyspace.set_now(talk.keyspace.now() + step);
        ["MULTI", "HGET h a"].iter().for_each(|line| _ = talk.say(&mut session, line));
        assert_eq!(talk.say(&mut session, "EXEC"), expected);
    }
}

/// Payloads of Redis 7.4, by its format, and of Valkey 9, and one of this server.
#[test]
fn dumps_have_deadlines() {
    let payload = |version: u16, body: &[&[u8]]| {
        let body = [&body.concat()[..], &version.to_le_bytes()].concat();
        [&body[..], &crc64(0, &body).to_le_bytes()].concat()
    };
    let first = 1_005_000u64.to_le_bytes();
    let of_redis = payload(12, &[b"\x18", &first, b"\x02\x01\x01a\x011\0\x01b\x012"]);
    let of_valkey = payload(80, &[b"\x16\x02\x01a\x011", &first, b"\x01b\x012", &[0xff; 8]]);
    let packed = b"\x18\0\0\0\x06\0\x81a\x02\x01\x01\xf2\xc8\x55\x0f\x04\x81b\x02\x02\x01\0\x01\xff";
    let in_listpack = payload(12, &[b"\x19", &first, &[packed.len() as u8], packed]);
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    for (what, payload) in [("Redis", of_redis), ("Valkey", of_valkey), ("a listpack", in_listpack)] {
        let mut out = Vec::new();
        let words: [&[u8]; 5] = [b"RESTORE", b"h", b"0", &payload, b"REPLACE"];
        execute(&mut talk.keyspace, &mut talk.server, &mut session, &words, &mut out);
        assert_eq!(out, b"+OK\r\n", "{what}");
        assert_eq!(talk.say(&mut session, "HGETALL h"), "*4|$1|a|$1|1|$1|b|$1|2|", "{what}");
        assert_eq!(talk.say(&mut session, "HPTTL h FIELDS 2 a b"), "*2|:5000|:-1|", "{what}");
        // Its dump is that of Redis, with numbers in their short form.
        out.clear();
        execute(&mut talk.keyspace, &mut talk.server, &mut session, &[b"DUMP", b"h"], &mut out);
        let (value, version) = open_value(&out[5..out.len() - 2]).unwrap();
        let expected = [&b"\x18"[..], &first, b"\x02\x01\x01a\xc0\x01\0\x01b\xc0\x02"].concat();
        assert_eq!((value, version), (&expected[..], 12), "{what}");
    }
}

/// Payloads that Redis 8.2.3 and Valkey 9.1.2 gave.
#[test]
fn dumps_of_other_servers_are_taken() {
    let packed = b"\x19\x88S\x94R\xa3\x03\x00\x0000\x00\x00\x00\t\x00\x81a\x02\x01\x01\xf4\x88S\x94R\xa3\x03\x00\x00\t\x81c\x02\x81x\x02\
        \xf4(c\x94R\xa3\x03\x00\x00\t\x81b\x02\x83two\x04\x00\x01\xff\x0c\x00\x15\xa1\xed\x82\x98\t\xfeO";
    let table = b"\x18\x88S\x94R\xa3\x03\x00\x00\x03O\xa1\x01c\x01x\x00\x01b\x03two\x01\x01a\xc0\x01\x0c\x00~!450\xc0\x04\xbb";
    let of_valkey =
        b"\x16\x02\x01a\xc0\x01\x88S\x94R\xa3\x03\x00\x00\x01b\x03two\xff\xff\xff\xff\xff\xff\xff\xffP\x00q\x16\xb5\xa4\xe8\x82\x9cI";
    let until = ":4000000005000|:-1";
    for (what, payload, values, deadlines) in [
        ("a listpack", &packed[..], "$1|1|$3|two|$1|x|", format!("*3|{until}|:4000000009000|")),
        ("a table", table, "$1|1|$3|two|$1|x|", format!("*3|{until}|:4000000009000|")),
        ("Valkey", of_valkey, "$1|1|$3|two|$-1|", format!("*3|{until}|:-2|")),
    ] {
        let mut talk = Talk::new();
        let (mut session, mut out) = (talk.client(1), Vec::new());
        execute(&mut talk.keyspace, &mut talk.server, &mut session, &[b"RESTORE", b"h", b"0", payload], &mut out);
        assert_eq!(out, b"+OK\r\n", "{what}");
        assert_eq!(talk.say(&mut session, "HMGET h a b c"), format!("*3|{values}"), "{what}");
        assert_eq!(talk.say(&mut session, "HPEXPIRETIME h FIELDS 3 a b c"), deadlines, "{what}");
    }
}

/// Nobody removes fields while writes are paused. The length of a reply counts what is in it: otherwise the client would take its next
/// reply for the rest.
#[test]
fn replies_announce_no_field_that_is_hidden() {
    // The first hash lies in its key's entry; the second does not.
    for value in ["1".to_owned(), "1".repeat(100)] {
        let mut talk = Talk::new();
        let mut client = talk.client(1);
        let now = talk.keyspace.now();
        talk.say(&mut client, &format!("HSET h f {value} g 1 h 2"));
        talk.say(&mut client, &format!("HPEXPIREAT h {} FIELDS 2 g h", now + 10));
        talk.say(&mut client, "CLIENT PAUSE 5000 WRITE");
        talk.keyspace.set_now(now + 20);
        let length = value.len();
        for (line, reply) in [
            ("HLEN h", ":1|".to_owned()),
            ("HGETALL h", format!("*2|$1|f|${length}|{value}|")),
            ("HKEYS h", "*1|$1|f|".to_owned()),
            ("HVALS h", format!("*1|${length}|{value}|")),
            ("HRANDFIELD h", "$1|f|".to_owned()),
            ("HRANDFIELD h 3", "*1|$1|f|".to_owned()),
            ("HRANDFIELD h -2", "*2|$1|f|$1|f|".to_owned()),
            ("HGET h g", "$-1|".to_owned()),
        ] {
            assert_eq!(talk.say(&mut client, line), reply, "{line}");
        }
        let mut dump = Vec::new();
        execute(&mut talk.keyspace, &mut talk.server, &mut client, &[b"DUMP", b"h"], &mut dump);
        let start = dump.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        talk.say(&mut client, "CLIENT UNPAUSE");
        let mut out = Vec::new();
        let restore: [&[u8]; 4] = [b"RESTORE", b"copy", b"0", &dump[start..dump.len() - 2]];
        execute(&mut talk.keyspace, &mut talk.server, &mut client, &restore, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "+OK\r\n");
        for key in ["copy", "h"] {
            assert_eq!(talk.say(&mut client, &format!("HGETALL {key}")), format!("*2|$1|f|${length}|{value}|"), "{key}");
        }
    }
}
