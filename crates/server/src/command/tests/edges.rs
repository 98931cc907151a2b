//! Edge cases of arguments, as in Redis 7.0.15.

use super::{Talk, execute, script};
use crate::keyspace::Change;

#[test]
fn ranges_of_names_go_by_scores() {
    script(&[
        ("ZADD z 1 one 2 two 3 three", ":3|"),
        ("ZLEXCOUNT z - +", ":3|"),
        ("ZLEXCOUNT z [o (p", ":1|"),
        ("ZRANGE z - + BYLEX", "*3|$3|one|$3|two|$5|three|"),
        ("ZRANGE z [p + BYLEX", "*2|$3|two|$5|three|"),
        ("ZRANGE z [a [tk BYLEX", "*1|$3|one|"),
        ("ZRANGE z + - BYLEX REV LIMIT 1 1", "*1|$3|two|"),
        ("ZREVRANGEBYLEX z [tm [a", "*3|$5|three|$3|two|$3|one|"),
        ("ZRANGEBYLEX z [x +", "*0|"),
        ("ZRANGEBYLEX z - [a", "*0|"),
        ("ZRANGEBYLEX z [tx +", "*0|"),
        ("ZADD w 1 c 2 z 3 a 4 b", ":4|"),
        ("ZRANGEBYLEX w [a [c LIMIT 1 1", "*0|"),
        ("ZRANGEBYLEX w [a [c LIMIT 2 1", "*1|$1|a|"),
        ("ZREVRANGEBYLEX w [c [a", "*4|$1|b|$1|a|$1|z|$1|c|"),
        ("ZREVRANGEBYLEX w [y [a LIMIT 2 5", "*2|$1|z|$1|c|"),
        ("ZRANGESTORE s w [c + BYLEX", ":0|"),
        ("ZRANGE s 0 -1", "*0|"),
        ("ZREMRANGEBYLEX w [b [z", ":4|"),
        ("ZRANGE w 0 -1", "*0|"),
        ("ZLEXCOUNT w + -", ":0|"),
    ]);
}

#[test]
fn ends_of_ranges_are_read_as_strtod_does() {
    const NO_RANKS: &str = "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX|";
    script(&[
        ("ZADD z 0 a 1 b 2 c", ":3|"),
        ("ZRANGEBYSCORE z -1e400 (1e400 LIMIT 1 1", "*1|$1|b|"),
        ("ZCOUNT z ( 1e999", ":2|"),
        ("ZREVRANGEBYSCORE z (2 (0x0p0", "*1|$1|b|"),
        ("ZCOUNT z nan 1", "-ERR min or max is not a float|"),
        ("ZRANGE z 0 -1 LIMIT 1 -1", "*3|$1|a|$1|b|$1|c|"),
        ("ZRANGE z x -1 LIMIT 1 -1", "-ERR value is not an integer or out of range|"),
        ("ZRANGE z 0 -1 LIMIT 0 1", NO_RANKS),
        ("ZRANGE z 0 -1 LIMIT 1 -1 LIMIT 0 0", NO_RANKS),
        ("SLOWLOG GET 1 2", "-ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.|"),
    ]);
}

#[test]
fn indices_of_databases_have_32_bits() {
    const NO_INDEX: &str = "-ERR value is out of range, value must between -2147483648 and 2147483647|";
    script(&[
        ("SELECT 2147483647", "-ERR DB index is out of range|"),
        ("SELECT 2147483648", NO_INDEX),
        ("MOVE k -2147483649", NO_INDEX),
        ("COPY k l DB 9223372036854775807", NO_INDEX),
        ("SELECT 9223372036854775808", "-ERR value is not an integer or out of range|"),
    ]);
}

#[test]
fn small_sets_are_added_first() {
    script(&[
        ("ZADD A 0.1 x 1 a1 1 a2", ":3|"),
        ("ZADD B 0.2 x", ":1|"),
        ("ZADD C 0.3 x 1 c1", ":2|"),
        ("ZUNION 3 A B C WITHSCORES", "*8|$1|x|$19|0.59999999999999998|$2|a1|$1|1|$2|a2|$1|1|$2|c1|$1|1|"),
        ("ZINTER 3 A B C WITHSCORES", "*2|$1|x|$19|0.59999999999999998|"),
        ("ZINTERSTORE d 3 C B A", ":1|"),
        ("ZSCORE d x", "$19|0.59999999999999998|"),
        ("ZADD P inf x 1 y", ":2|"),
        ("ZADD Q -inf x", ":1|"),
        ("ZADD R 5 x 1 y 1 z", ":3|"),
        ("ZUNION 3 P Q R WITHSCORES", "*6|$1|z|$1|1|$1|y|$1|2|$1|x|$1|5|"),
        ("ZUNION 3 R Q P WITHSCORES", "*6|$1|z|$1|1|$1|y|$1|2|$1|x|$1|5|"),
        ("ZINTER 2 P P WEIGHTS 1 0 WITHSCORES", "*4|$1|x|$1|0|$1|y|$1|1|"),
        ("ZINTER 2 P P WEIGHTS 0 1 WITHSCORES", "*4|$1|y|$1|1|$1|x|$3|inf|"),
        ("ZINTER 2 Q R WEIGHTS 1 0 AGGREGATE MIN WITHSCORES", "*2|$1|x|$4|-inf|"),
        ("SADD S x", ":1|"),
        ("ZINTER 2 S Q WEIGHTS 2 0 AGGREGATE MIN WITHSCORES", "*2|$1|x|$1|2|"),
        ("ZUNION 3 none P S WEIGHTS 1 0 2 WITHSCORES", "*4|$1|y|$1|0|$1|x|$1|2|"),
        ("ZDIFF 2 R B WITHSCORES", "*4|$1|y|$1|1|$1|z|$1|1|"),
    ]);
}

#[test]
fn cursors_are_read_as_strtoul_does() {
    script(&[
        ("HSET h a 1", ":1|"),
        ("SCAN 18446744073709551616", "-ERR invalid cursor|"),
        ("SCAN -18446744073709551616", "-ERR invalid cursor|"),
        ("SCAN abc", "-ERR invalid cursor|"),
        ("SCAN -", "-ERR invalid cursor|"),
        ("SCAN 1a", "-ERR invalid cursor|"),
        ("SCAN +-1", "-ERR invalid cursor|"),
        ("HSCAN h -", "-ERR invalid cursor|"),
        ("HSCAN none -1", "*2|$1|0|*0|"),
        ("HSCAN none +1", "*2|$1|0|*0|"),
        ("SSCAN none 01", "*2|$1|0|*0|"),
        ("ZSCAN none -0", "*2|$1|0|*0|"),
        ("HSCAN none 0x1", "-ERR invalid cursor|"),
    ]);
}

#[test]
fn a_field_may_begin_at_the_last_bit() {
    script(&[
        ("BITFIELD k SET u8 4294967295 1", "*1|:0|"),
        ("STRLEN k", ":536870913|"),
        ("BITFIELD k GET u8 4294967295", "*1|:1|"),
        ("BITFIELD_RO k GET u8 4294967295", "*1|:1|"),
        ("GETBIT k 4294967295", ":0|"),
        ("APPEND k x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)|"),
        ("SETRANGE k 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)|"),
        ("BITFIELD k SET u8 4294967296 1", "-ERR bit offset is not an integer or out of range|"),
        ("BITFIELD k SET u8 #536870912 1", "-ERR bit offset is not an integer or out of range|"),
        ("BITFIELD k SET i64 4294967295 -1", "*1|:72057594037927936|"),
        ("STRLEN k", ":536870920|"),
        ("BITFIELD k INCRBY i64 4294967295 2", "*1|:1|"),
        ("GETRANGE k 536870910 -1", "$10|\0\0\0\0\0\0\0\0\0\u{2}|"),
        ("SETBIT k 4294967296 1", "-ERR bit offset is not an integer or out of range|"),
    ]);
}

#[test]
fn zeros_keep_their_sign_in_large_sorted_sets() {
    let long = "l".repeat(65);
    let lines = [
        ("ZADD z -0 m", ":1|"),
        ("ZSCORE z m", "$1|0|"),
        ("ZADD z -0 L", ":1|"),
        ("ZSCORE z L", "$2|-0|"),
        ("ZADD z CH 0 L", ":0|"),
        ("ZINCRBY z 0 L", "$1|0|"),
        ("ZMSCORE z m L", "*2|$1|0|$2|-0|"),
        ("ZCOUNT z 0 0", ":2|"),
        ("ZRANK z L", ":0|"),
        ("COPY z y", ":1|"),
        ("ZINCRBY y -0 L", "$2|-0|"),
        ("ZADD y 1 L", ":0|"),
        ("ZADD y 0 L", ":0|"),
        ("ZSCORE y L", "$1|0|"),
        ("ZREM z L", ":1|"),
        ("ZRANGE z 0 -1", "*1|$1|m|"),
    ];
    let lines = lines.map(|(line, expected)| (line.replace('L', &long), expected));
    script(&lines.each_ref().map(|(line, expected)| (line.as_str(), *expected)));
}

/// A list of one item is not replaced when the item moves within it.
#[test]
fn an_item_that_moves_within_its_list_keeps_the_deadline() {
    script(&[
        ("RPUSH l a", ":1|"),
        ("EXPIRE l 100", ":1|"),
        ("LMOVE l l LEFT RIGHT", "$1|a|"),
        ("RPOPLPUSH l l", "$1|a|"),
        ("BLMOVE l l LEFT LEFT 0", "$1|a|"),
        ("TTL l", ":100|"),
        ("LRANGE l 0 -1", "*1|$1|a|"),
    ]);
}

/// Cursors that were never returned lie behind the last one. A small collection, as in Redis, is returned whole for any cursor.
#[test]
fn a_scan_from_behind_the_end_ends() {
    script(&[
        ("SET k v", "+OK|"),
        ("SADD small a b", ":2|"),
        ("CONFIG SET set-max-listpack-entries 1", "+OK|"),
        ("SADD s a b", ":2|"),
        ("SCAN -1", "*2|$1|0|*0|"),
        ("SCAN 18446744073709551615 COUNT 100", "*2|$1|0|*0|"),
        ("SSCAN s -1", "*2|$1|0|*0|"),
        ("SSCAN small -1", "*2|$1|0|*2|$1|a|$1|b|"),
        ("SSCAN s -18446744073709551616", "-ERR invalid cursor|"),
    ]);
}

/// A deadline beyond 63 bits is refused before anything changes.
#[test]
fn restore_refuses_a_time_that_overflows() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    for line in ["SET k old", "SET source new"] {
        assert_eq!(talk.say(&mut session, line), "+OK|");
    }
    let mut out = Vec::new();
    execute(&mut talk.keyspace, &mut talk.server, &mut session, &[b"DUMP", b"source"], &mut out);
    let (start, end) = (out.iter().position(|byte| *byte == b'\n').unwrap() + 1, out.len() - 2);
    let payload = out[start..end].to_vec();
    let last = i64::MAX.unsigned_abs() - talk.keyspace.now();
    let mut restore = |talk: &mut Talk, ttl: u64, options: &[&[u8]]| {
        let (ttl, mut out) = (ttl.to_string(), Vec::new());
        let words = [&[&b"RESTORE"[..], b"k", ttl.as_bytes(), &payload][..], options].concat();
        execute(&mut talk.keyspace, &mut talk.server, &mut session, &words, &mut out);
        let value = talk.say(&mut session, "GET k");
        (String::from_utf8_lossy(&out).replace("\r\n", "|"), value, talk.say(&mut session, "PEXPIRETIME k"))
    };
    let refused = ("-ERR invalid expire time in 'restore' command|".to_owned(), "$3|old|".to_owned(), ":-1|".to_owned());
    for ttl in [i64::MAX.unsigned_abs(), last + 1] {
        assert_eq!(restore(&mut talk, ttl, &[b"REPLACE"]), refused, "{ttl}");
    }
    let taken = ("+OK|".to_owned(), "$3|new|".to_owned(), format!(":{}|", i64::MAX));
    assert_eq!(restore(&mut talk, last, &[b"REPLACE"]), taken);
    assert_eq!(restore(&mut talk, i64::MAX.unsigned_abs(), &[b"REPLACE", b"ABSTTL"]), taken);
    assert_eq!(restore(&mut talk, 0, &[b"REPLACE"]).2, ":-1|");
}

#[test]
fn a_value_restored_with_a_time_in_the_past_is_checked_and_not_stored() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    let many: Vec<String> = (0..600).map(|n| format!("m{n}")).collect();
    for line in [
        "SET from-text 1",
        "RPUSH from-list a b",
        "HSET from-hash f 1",
        "ZADD from-zset 1 a",
        "XADD from-stream 1-1 f v",
        "XGROUP CREATE from-stream g 0",
        "XREADGROUP GROUP g c STREAMS from-stream >",
        &format!("SADD from-many {}", many.join(" ")),
    ] {
        assert!(!talk.say(&mut session, line).starts_with('-'), "{line}");
    }
    let mut run = |talk: &mut Talk, words: &[&[u8]]| {
        let mut out = Vec::new();
        talk.keyspace.note_changes(false);
        execute(&mut talk.keyspace, &mut talk.server, &mut session, words, &mut out);
        let changes: Vec<Change> = talk.keyspace.take_changes().into_iter().map(|(_, _, change)| change).collect();
        (out, changes)
    };
    for kind in ["text", "list", "hash", "zset", "stream", "many"] {
        let (dumped, _) = run(&mut talk, &[b"DUMP", format!("from-{kind}").as_bytes()]);
        let start = dumped.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let payload = &dumped[start..dumped.len() - 2];
        for old in ["SET k 1", "SADD k a", "DEL k"] {
            let words: Vec<&[u8]> = old.split(' ').map(str::as_bytes).collect();
            run(&mut talk, &words);
            let mut damaged = payload.to_vec();
            *damaged.last_mut().unwrap() ^= 1;
            let (reply, changes) = run(&mut talk, &[b"RESTORE", b"k", b"5", &damaged, b"REPLACE", b"ABSTTL"]);
            assert!(reply.starts_with(b"-ERR DUMP payload") && changes.is_empty(), "{kind} {old}: {changes:?}");
            let removed: &[Change] = if old == "DEL k" { &[] } else { &[Change::Removed] };
            let (reply, changes) = run(&mut talk, &[b"RESTORE", b"k", b"5", payload, b"REPLACE", b"ABSTTL"]);
            assert_eq!((&reply[..], &changes[..]), (&b"+OK\r\n"[..], removed), "{kind} {old}");
            assert_eq!((run(&mut talk, &[b"EXISTS", b"k"]).0, talk.keyspace.expired().keys), (b":0\r\n".to_vec(), 0), "{kind} {old}");
        }
    }
    assert_eq!(run(&mut talk, &[b"DBSIZE"]).0, b":6\r\n");
}
