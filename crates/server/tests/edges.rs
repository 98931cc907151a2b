//! Edge cases of arguments, beside a real `redis-server` 7.0. Skipped with a message where there is no such server.

use crate::common::beside::compare;
use crate::common::{Client, Real, Reply, Served};

/// Timeouts; accepted ones end after a millisecond.
const TIMEOUTS: &[&str] = &[
    "a: BLPOP none 1e20",
    "a: BRPOP none 9223372036854775.808",
    "a: BLPOP none 9.3e15",
    "a: BLPOP none inf",
    "a: BLPOP none -inf",
    "a: BLPOP none -1e30",
    "a: BLPOP none 1e400",
    "a: BLPOP none 1e5000",
    "a: BLPOP none nan",
    "a: BLPOP none -1",
    "a: BLPOP none 1e-400",
    "a: BLPOP none 0.001",
    "a: BLPOP none ␣1",
    "a: BLPOP none x",
    "a: BZPOPMIN none 1e20",
    "a: BZPOPMAX none inf",
    "a: BLMOVE none none2 LEFT LEFT 1e20",
    "a: BRPOPLPUSH none none2 1e19",
    "a: BLMPOP 1e20 1 none LEFT",
    "a: BZMPOP 1e20 1 none MIN",
    "a: XREAD BLOCK 9223372036854775808 STREAMS none 0",
    "a: XREAD BLOCK -1 STREAMS none 0",
    "a: XREAD BLOCK 1e3 STREAMS none 0",
    "a: XREADGROUP GROUP g c BLOCK -1 STREAMS none >",
    "a: WAIT 0 -1",
    "a: WAIT -1 0",
    "a: WAIT 0 9223372036854775808",
    "a: WAIT 0 1e3",
    "a: CLIENT PAUSE -1",
    "a: CLIENT PAUSE 9223372036854775808",
];

const FIELDS: &[&str] = &[
    "a: BITFIELD k SET u8 4294967295 1",
    "a: STRLEN k",
    "a: BITFIELD k GET u8 4294967295 INCRBY u8 4294967295 3",
    "a: BITFIELD k SET u8 4294967296 1",
    "a: BITFIELD k GET u8 4294967296",
    "a: BITFIELD_RO k GET u8 4294967295",
    "a: BITFIELD_RO k SET u8 4294967295 1",
    "a: BITFIELD_RO k SET u8 4294967296 1",
    "a: BITFIELD k GET u8 #536870911 GET i64 #67108863",
    "a: BITFIELD k GET u8 #536870912",
    "a: BITFIELD k SET i64 #67108864 1",
    "a: BITFIELD k SET u8 #-1 1",
    "a: BITFIELD k SET u8 #x 1",
    "a: BITFIELD k SET u8 -1 1",
    "a: SETRANGE k 536870911 x",
    "a: SETRANGE k 536870912 x",
    "a: APPEND k x",
    "a: GETRANGE k 536870910 -1",
    "a: SETBIT k 4294967295 1",
    "a: SETBIT k 4294967296 1",
    "a: GETBIT k 4294967296",
    "a: BITPOS k 1",
    "a: BITCOUNT k",
    "a: DEL k",
];

/// Redis keeps the sign of a zero in sorted sets that are large or have a long name, and in no others.
const ZEROS: &[&str] = &[
    "a: ZADD z -0 m",
    "a: ZSCORE z m",
    "a: ZADD z INCR -0 n",
    "a: ZSCORE z n",
    "a: ZADD z -0 L",
    "a: ZSCORE z L",
    "a: ZADD z CH 0 L",
    "a: ZINCRBY z 0 L",
    "a: ZSCORE z L",
    "a: ZINCRBY z -0 L",
    "a: ZRANGE z 0 -1 WITHSCORES",
    "a: ZRANGE z 0 -1 REV WITHSCORES",
    "a: ZRANGEBYSCORE z -0 0 WITHSCORES",
    "a: ZRANGEBYSCORE z 0 -0",
    "a: ZCOUNT z (-0 0",
    "a: ZMSCORE z m L",
    "a: ZRANK z L",
    "a: COPY z y",
    "a: ZSCORE y L",
    "a: ZUNION 1 z WITHSCORES",
    "a: ZUNION 2 z y AGGREGATE MIN WITHSCORES",
    "a: ZINTER 2 z y WEIGHTS -1 1 AGGREGATE MAX WITHSCORES",
    "a: ZADD x 0 L",
    "a: ZUNION 2 z x AGGREGATE MIN WITHSCORES",
    "a: ZUNION 2 x z AGGREGATE MAX WITHSCORES",
    "a: ZADD x -0 L",
    "a: ZSCORE x L",
    "a: ZADD x 1 L",
    "a: ZADD x -0 L",
    "a: ZSCORE x L",
    "a: HELLO 3",
    "a: ZSCORE z L",
    "a: ZRANGE z 0 -1 WITHSCORES",
    "a: ZPOPMAX z 5",
    "a: HELLO 2",
];

/// `L` stands for a long name.
#[test]
fn zeros_have_the_signs_that_they_have_in_redis() {
    let long = "l".repeat(65);
    let lines: Vec<String> =
        ZEROS.iter().map(|line| line.strip_suffix(" L").map_or((*line).into(), |line| format!("{line} {long}"))).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    compare(&lines, |command, reply| reply.filter(|_| !command.starts_with("HELLO")));
}

#[test]
fn limits_are_those_of_redis() {
    compare(&[TIMEOUTS, FIELDS].concat(), |_, reply| reply);
}

/// Cursors are accepted as in Redis; where they lead depends on the server.
#[test]
fn cursors_are_those_of_redis() {
    let words = ["-1", "+1", "␣1", "18446744073709551615", "18446744073709551616", "-18446744073709551615", "-18446744073709551616"];
    let others = ["abc", "-", "+", "", "1a", "0x1", "--1", "+-1", "01", "1␣", "1\0x", "-0", "\t1", "\u{b}1"];
    let mut lines: Vec<String> = ["SET k v", "HSET h a 1", "SADD s a", "ZADD z 1 a"].map(|line| format!("a: {line}")).into();
    for cursor in words.iter().chain(&others) {
        lines.extend(["SCAN", "HSCAN h", "SSCAN s", "ZSCAN z", "HSCAN none", "ZSCAN k"].map(|scan| format!("a: {scan} {cursor}")));
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    compare(&lines, |command, reply| match reply {
        Some(Reply::Many(..)) if command.contains("SCAN") => None,
        reply => reply,
    });
}

/// Every name in Redis's list of commands that is known here is in this server's list, too, subcommands included.
#[test]
fn commands_are_listed_as_in_redis() {
    let Some(real) = Real::start() else { return };
    let served = Served::start();
    let (mut ours, mut theirs) = (served.client(), real.client());
    let mut compare = |filter: &[&[u8]]| {
        let words: Vec<&[u8]> = [&b"COMMAND"[..], b"LIST"].iter().chain(filter).copied().collect();
        let list = |client: &mut Client| match client.ask(&words) {
            Reply::Many(_, names) => names,
            one => panic!("{one}"),
        };
        let (ours_listed, theirs_listed) = (list(&mut ours), list(&mut theirs));
        let is_known = |name: &Reply| {
            let Reply::One(name) = name else { panic!("{name}") };
            matches!(ours.ask(&[b"COMMAND", b"INFO", &name[1..]]), Reply::Many(_, found) if matches!(found[..], [Reply::Many(..)]))
        };
        let mut wanted: Vec<Reply> = theirs_listed.into_iter().filter(is_known).collect();
        let is_theirs = |name: &Reply| {
            let Reply::One(name) = name else { panic!("{name}") };
            matches!(theirs.ask(&[b"COMMAND", b"INFO", &name[1..]]), Reply::Many(_, found) if matches!(found[..], [Reply::Many(..)]))
        };
        let mut found: Vec<Reply> = ours_listed.into_iter().filter(is_theirs).collect();
        wanted.sort();
        found.sort();
        assert_eq!(found, wanted, "{words:?}");
        found.len()
    };
    assert!(compare(&[]) > 250);
    assert!(compare(&[b"FILTERBY", b"PATTERN", b"ac*"]) > 10);
    assert!(compare(&[b"FILTERBY", b"PATTERN", b"*|C*"]) > 5);
    assert_eq!(compare(&[b"FILTERBY", b"PATTERN", b"GET"]), 1);
    assert!(compare(&[b"FILTERBY", b"ACLCAT", b"SortedSet"]) > 20);
    assert_eq!(compare(&[b"FILTERBY", b"MODULE", b"none"]), 0);
}
