//! Commands and options of versions of Redis and Valkey later than the one that `tests/differential.rs` compares with.

use super::{Talk, script};

const TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
const SYNTAX: &str = "-ERR syntax error|";
const DIGITS: &str = "-ERR must be exactly 16 hexadecimal characters|";

#[test]
fn strings_are_set_if_their_value_or_digest_is_as_wanted() {
    script(&[
        ("SET k old", "+OK|"),
        ("SET k new IFEQ x", "$-1|"),
        ("SET k new IFEQ old", "+OK|"),
        ("SET k third IFNE new", "$-1|"),
        ("SET k third ifne old EX 100", "+OK|"),
        ("TTL k", ":100|"),
        ("SET k fourth IFEQ third KEEPTTL GET", "$5|third|"),
        ("TTL k", ":100|"),
        ("SET k fifth IFEQ third GET", "$6|fourth|"),
        ("GET k", "$6|fourth|"),
        ("SET none v IFEQ v", "$-1|"),
        ("SET none v IFDEQ short", "$-1|"),
        ("SET none v IFNE v GET", "$-1|"),
        ("GET none", "$1|v|"),
        ("SET absent v IFDNE short", "+OK|"),
        ("SET empty  IFNE x", "+OK|"),
        ("SET empty x IFEQ ", "+OK|"),
        ("SET k v IFEQ", SYNTAX),
        ("SET k v IFEQ a NX", SYNTAX),
        ("SET k v XX IFNE a", SYNTAX),
        ("SET k v IFEQ a IFNE a", SYNTAX),
        ("SET k v IFEQ x IFEQ fourth", "+OK|"),
        ("SET k v IFDEQ 123", DIGITS),
        ("DEL l", ":0|"),
        ("LPUSH l a", ":1|"),
        ("SET l v IFEQ a", TYPE),
        ("SET l v IFNE a GET", TYPE),
        ("LLEN l", ":1|"),
    ]);
}

#[test]
fn digests_are_those_of_xxh3() {
    script(&[
        ("SET foo v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd", "+OK|"),
        ("DIGEST foo", "$16|00006c38adf31777|"),
        ("SET foo x IFDNE 00006C38ADF31777", "$-1|"),
        ("SET foo x IFDEQ 00006C38ADF31777", "+OK|"),
        ("GET foo", "$1|x|"),
        ("SET empty ", "+OK|"),
        ("DIGEST empty", "$16|2d06800538d394c2|"),
        ("DIGEST none", "$-1|"),
        ("LPUSH l a", ":1|"),
        ("DIGEST l", TYPE),
        ("DIGEST", "-ERR wrong number of arguments for 'digest' command|"),
    ]);
}

#[test]
fn keys_are_removed_if_their_value_or_digest_is_as_wanted() {
    script(&[
        ("SET k v", "+OK|"),
        ("DELIFEQ k x", ":0|"),
        ("DELIFEQ k v", ":1|"),
        ("DELIFEQ k v", ":0|"),
        ("LPUSH l a", ":1|"),
        ("DELIFEQ l a", TYPE),
        ("DELEX l IFEQ a", "-ERR Key should be of string type if conditions are specified|"),
        ("DELEX l", ":1|"),
        ("DELEX l", ":0|"),
        ("DELEX l IFEQ", "-ERR wrong number of arguments for 'delex' command|"),
        ("DELEX l IFEQ a b", "-ERR wrong number of arguments for 'delex' command|"),
        ("DELEX l IFEQ a", ":0|"),
        ("SET k v", "+OK|"),
        ("DELEX k NX v", "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE|"),
        ("DELEX k IFNE v", ":0|"),
        ("DELEX k ifne w", ":1|"),
        ("SET k x", "+OK|"),
        ("DELEX k IFDEQ 123", DIGITS),
        ("DIGEST k", "$16|eaf06c6480b2cd11|"),
        ("DELEX k IFDNE EAF06C6480B2CD11", ":0|"),
        ("DELEX k IFDEQ EAF06C6480B2CD11", ":1|"),
        ("EXISTS k", ":0|"),
    ]);
}

#[test]
fn long_strings_are_compared_in_parts() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    talk.say(&mut session, "SETRANGE long 3000000 end");
    let value = format!("{}end", "\0".repeat(3_000_000));
    let digest = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(value.as_bytes()));
    assert_eq!(talk.say(&mut session, "DIGEST long"), format!("$16|{digest}|"));
    assert_eq!(talk.say(&mut session, &format!("DELEX long IFNE {value}")), ":0|");
    assert_eq!(talk.say(&mut session, &format!("DELIFEQ long {value}x")), ":0|");
    assert_eq!(talk.say(&mut session, &format!("DELIFEQ long {}", &value[..3_000_002])), ":0|");
    assert_eq!(talk.say(&mut session, &format!("DELIFEQ long {value}")), ":1|");
}

#[test]
fn many_keys_get_one_deadline() {
    script(&[
        ("MSETEX 2 a 1 b 2 EX 100", ":1|"),
        ("MGET a b", "*2|$1|1|$1|2|"),
        ("TTL a", ":100|"),
        ("TTL b", ":100|"),
        ("MSETEX 2 a 3 c 4 NX", ":0|"),
        ("MSETEX 2 a 3 c 4 XX", ":0|"),
        ("MSETEX 2 a 3 b 4 XX KEEPTTL", ":1|"),
        ("MGET a b c", "*3|$1|3|$1|4|$-1|"),
        ("TTL b", ":100|"),
        ("MSETEX 1 a 5", ":1|"),
        ("TTL a", ":-1|"),
        ("MSETEX 2 d 1 e 1 nx px 5000", ":1|"),
        ("PTTL e", ":5000|"),
        ("MSETEX key1 val1 ex 10", "-ERR invalid numkeys value|"),
        ("MSETEX 0 key1 val1 ex", "-ERR invalid numkeys value|"),
        ("MSETEX 2147483648 key1 val1 ex 10", "-ERR invalid numkeys value|"),
        ("MSETEX 2147483647 key1 val1 ex 10", "-ERR wrong number of key-value pairs|"),
        ("MSETEX 2 key1 val1 key2", "-ERR wrong number of key-value pairs|"),
        ("MSETEX 1 key1 val1 invalid_flag", SYNTAX),
        ("MSETEX 1 a 1 NX XX", SYNTAX),
        ("MSETEX 1 a 1 EX 1 PX 1", SYNTAX),
        ("MSETEX 1 a 1 EX 0", "-ERR invalid expire time in 'msetex' command|"),
        ("MSETEX 1 a", "-ERR wrong number of arguments for 'msetex' command|"),
        ("COMMAND GETKEYS MSETEX 2 key1 val1 key2 val2 keepttl", "*2|$4|key1|$4|key2|"),
        ("COMMAND GETKEYSANDFLAGS SET k v IFEQ w", "*1|*2|$1|k|*3|+RW|+access|+update|"),
        ("COMMAND GETKEYSANDFLAGS DELEX k", "*1|*2|$1|k|*2|+RM|+delete|"),
    ]);
}

#[test]
fn ranks_come_with_scores_and_fields_without_values() {
    script(&[
        ("ZADD z 1 a 2.5 b", ":2|"),
        ("ZRANK z b WITHSCORE", "*2|:1|$3|2.5|"),
        ("ZREVRANK z b withscore", "*2|:0|$3|2.5|"),
        ("ZRANK z c WITHSCORE", "*-1|"),
        ("ZRANK none c WITHSCORE", "*-1|"),
        ("ZRANK z b SCORE", SYNTAX),
        ("ZRANK z b WITHSCORE x", "-ERR wrong number of arguments for 'zrank' command|"),
        ("ZRANK z", "-ERR wrong number of arguments for 'zrank' command|"),
        ("HSET h f 1 g 2", ":2|"),
        ("HSCAN h 0 NOVALUES", "*2|$1|0|*2|$1|f|$1|g|"),
        ("HSCAN h 0 MATCH g NOVALUES COUNT 5", "*2|$1|0|*1|$1|g|"),
        ("HSCAN h 0", "*2|$1|0|*4|$1|f|$1|1|$1|g|$1|2|"),
        ("SADD s a", ":1|"),
        ("SSCAN s 0 NOVALUES", "-ERR NOVALUES option can only be used in HSCAN|"),
        (
            "HELLO 3",
            "%7|$6|server|$5|redis|$7|version|$6|7.0.15|$5|proto|:3|$2|id|:1|$4|mode|$10|standalone|$4|role|$6|master|$7|modules|*0|",
        ),
        ("ZRANK z b WITHSCORE", "*2|:1|,2.5|"),
        ("ZRANK z c WITHSCORE", "_|"),
    ]);
}
