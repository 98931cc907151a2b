//! Commands and options of versions of Redis and Valkey later than the one that `tests/differential.rs` compares with.

use super::{Talk, script};
use crate::command::configuration::Compatible;

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

#[test]
fn entries_are_removed_with_and_without_what_groups_know_of_them() {
    script(&[
        ("XADD s 1-0 f v", "$3|1-0|"),
        ("XADD s 2-0 f v", "$3|2-0|"),
        ("XGROUP CREATE s g 0", "+OK|"),
        ("XGROUP CREATE s h 0", "+OK|"),
        ("XREADGROUP GROUP g me COUNT 1 STREAMS s >", "*1|*2|$1|s|*1|*2|$3|1-0|*2|$1|f|$1|v|"),
        ("XREADGROUP GROUP h me STREAMS s >", "*1|*2|$1|s|*2|*2|$3|1-0|*2|$1|f|$1|v|*2|$3|2-0|*2|$1|f|$1|v|"),
        ("XDELEX s ACKED IDS 3 1-0 2-0 9-9", "*3|:2|:2|:2|"),
        ("XACKDEL s g ACKED IDS 2 1-0 2-0", "*2|:2|:-1|"),
        ("XACKDEL s h IDS 1 1-0 ACKED", "*1|:1|"),
        ("XLEN s", ":1|"),
        // Group g has not been given it yet.
        ("XACKDEL s h ACKED IDS 1 2-0", "*1|:2|"),
        ("XREADGROUP GROUP g me STREAMS s >", "*1|*2|$1|s|*1|*2|$3|2-0|*2|$1|f|$1|v|"),
        ("XDELEX s KEEPREF IDS 2 2-0 2-0", "*2|:1|:-1|"),
        ("XPENDING s g", "*4|:1|$3|2-0|$3|2-0|*1|*2|$2|me|$1|1|"),
        ("XDELEX s DELREF IDS 1 2-0", "*1|:-1|"),
        ("XPENDING s g", "*4|:0|$-1|$-1|*-1|"),
        ("XADD s 3-0 f v", "$3|3-0|"),
        ("XREADGROUP GROUP g me NOACK STREAMS s >", "*1|*2|$1|s|*1|*2|$3|3-0|*2|$1|f|$1|v|"),
        ("XREADGROUP GROUP h me STREAMS s >", "*1|*2|$1|s|*1|*2|$3|3-0|*2|$1|f|$1|v|"),
        ("XACKDEL s h DELREF IDS 2 3-0 3-0", "*2|:1|:-1|"),
        ("XLEN s", ":0|"),
    ]);
}

#[test]
fn wrong_removals_of_entries_are_refused() {
    const NUMBER: &str = "-ERR Number of IDs must be a positive integer|";
    const COUNT: &str = "-ERR The `numids` parameter must match the number of arguments|";
    script(&[
        ("XACKDEL s g", "-ERR wrong number of arguments for 'xackdel' command|"),
        ("XACKDEL s g IDS 2 1-1 2-2", "*2|:-1|:-1|"),
        ("XADD s 1-0 f v", "$3|1-0|"),
        ("XACKDEL s g IDS 2 1-1 2-2", "*2|:-1|:-1|"),
        ("XGROUP CREATE s g 0", "+OK|"),
        ("XACKDEL s g IDS abc 1-1", NUMBER),
        ("XACKDEL s g IDS 0 1-1", NUMBER),
        ("XDELEX s IDS -5 1-1", NUMBER),
        ("XDELEX s IDS 3 1-1 2-2", COUNT),
        ("XDELEX s IDS 1 1-1 2-2", SYNTAX),
        ("XDELEX s KEEPREF DELREF IDS 1 1-1", SYNTAX),
        ("XDELEX s ACKED KEEPREF 1-1", SYNTAX),
        ("XDELEX s IDS 1 x", "-ERR Invalid stream ID specified as stream command argument|"),
        ("LPUSH l a", ":1|"),
        ("XDELEX l IDS 1 1-1", TYPE),
    ]);
}

#[test]
fn trims_obey_groups_or_make_them_forget() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    let mut say = |line: &str| talk.say(&mut session, line);
    for n in 1..=6 {
        say(&format!("XADD s {n}-0 f v"));
    }
    // Without groups all options do the same.
    assert_eq!(say("XTRIM s MAXLEN 5 ACKED"), ":1|");
    say("XGROUP CREATE s g 0");
    say("XREADGROUP GROUP g me COUNT 4 STREAMS s >");
    say("XACK s g 3-0 4-0");
    for (line, expected) in [
        ("XTRIM s MAXLEN 4 ACKED", ":1|"),
        ("XRANGE s - + COUNT 2", "*2|*2|$3|2-0|*2|$1|f|$1|v|*2|$3|4-0|*2|$1|f|$1|v|"),
        // The last entry is yet to be delivered.
        ("XTRIM s MAXLEN 0 ACKED", ":1|"),
        ("XLEN s", ":3|"),
        ("XADD s ACKED MINID 9 7-0 f v", "$3|7-0|"),
        ("XLEN s", ":4|"),
        ("XTRIM s MINID 5-0 DELREF", ":1|"),
        ("XPENDING s g", "*4|:1|$3|5-0|$3|5-0|*1|*2|$2|me|$1|1|"),
        ("XADD s MAXLEN 1 DELREF 8-0 f v", "$3|8-0|"),
        ("XPENDING s g", "*4|:0|$-1|$-1|*-1|"),
        ("XLEN s", ":1|"),
        ("XADD s MAXLEN 1 KEEPREF 9-0 f v", "$3|9-0|"),
        ("XTRIM s MAXLEN 1 KEEPREF ACKED", SYNTAX),
        ("XTRIM s ACKED LIMIT 0", "-ERR syntax error, XTRIM must be called with a trimming strategy|"),
        ("XADD s ACKED", "-ERR wrong number of arguments for 'xadd' command|"),
    ] {
        assert_eq!(say(line), expected, "{line}");
    }
}

#[test]
fn rough_trims_obey_groups_too() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    let mut say = |line: &str| talk.say(&mut session, line);
    say("CONFIG SET stream-node-max-entries 2");
    for n in 1..=4 {
        say(&format!("XADD s {n}-0 f v"));
    }
    say("XGROUP CREATE s g 0");
    say("XREADGROUP GROUP g me STREAMS s >");
    say("XACK s g 1-0 2-0");
    assert_eq!(say("XTRIM s MINID ~ 5-0 ACKED"), ":2|");
    assert_eq!(say("XTRIM s MINID ~ 4-0 DELREF"), ":0|");
    assert_eq!(say("XTRIM s MINID ~ 5-0 DELREF"), ":2|");
    assert_eq!(say("XPENDING s g"), "*4|:0|$-1|$-1|*-1|");
}

#[test]
fn clients_say_what_they_understand() {
    script(&[
        ("CLIENT CAPA redirect other", "+OK|"),
        ("CLIENT CAPA", "-ERR wrong number of arguments for 'client|capa' command|"),
        ("CLIENT NO-TOUCH ON", "+OK|"),
        ("CLIENT NO-TOUCH maybe", SYNTAX),
        ("CLIENT KILL MAXAGE x", "-ERR maxage is not an integer or out of range|"),
        ("CLIENT KILL MAXAGE 0", "-ERR maxage should be greater than 0|"),
        ("CLIENT KILL MAXAGE 100000 SKIPME no", ":0|"),
        ("CLIENT KILL ID 7 8 9 TYPE normal", ":0|"),
        ("CLIENT KILL ID x", "-ERR client-id should be greater than 0|"),
        ("CLIENT KILL ID 7 0", "-ERR client-id should be greater than 0|"),
        ("CLIENT KILL ID 7 x", SYNTAX),
        ("CLIENT KILL ID 7 x y", SYNTAX),
        ("CLIENT KILL NOT-ID 1 SKIPME no", ":0|"),
        ("CLIENT KILL NOT-FLAG 1 SKIPME no", SYNTAX),
        ("CLIENT LIST ID 1 x", "-ERR Invalid client ID|"),
        ("CLIENT LIST TYPE", SYNTAX),
        ("CLIENT LIST NOT-ID 1", "$0||"),
    ]);
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    talk.say(&mut session, "CLIENT NO-TOUCH ON");
    talk.say(&mut session, "CLIENT SETNAME me");
    assert!(talk.say(&mut session, "CLIENT INFO").contains(" flags=T "));
    for (line, is_found) in [
        ("CLIENT LIST NAME me", true),
        ("CLIENT LIST NAME me DB 1", false),
        ("CLIENT LIST NOT-NAME you DB 0", true),
        ("CLIENT LIST ID 1 NAME you", false),
        ("CLIENT LIST ID 2 1 SKIPME no", true),
    ] {
        assert_eq!(talk.say(&mut session, line).contains("name=me"), is_found, "{line}");
    }
    assert_eq!(talk.say(&mut session, "CLIENT KILL NAME me DB 0 SKIPME no"), ":1|");
}

#[test]
fn clients_are_killed_by_age() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    let now = talk.keyspace.now();
    for (id, age) in [(2, 5_000), (3, 4_999), (4, 100_000)] {
        talk.server.clients.insert(id, crate::command::Client::new(id, format!("127.0.0.1:{id}"), String::new(), 0, now - age));
    }
    assert_eq!(talk.say(&mut session, "CLIENT KILL MAXAGE 5 NOT-ID 4"), ":1|");
    assert_eq!(talk.server.killed, [2]);
    assert_eq!(talk.say(&mut session, "CLIENT KILL IP 127.0.0.1 MAXAGE 1"), ":2|");
}

#[test]
fn the_server_says_which_version_it_is_like() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    assert!(talk.say(&mut session, "INFO server").contains("redis_version:7.0.15|"));
    assert_eq!(
        talk.say(&mut session, "CONFIG SET compatible 8"),
        "-ERR CONFIG SET failed (possibly related to argument 'compatible') - can't set immutable config|"
    );
    assert_eq!(talk.say(&mut session, "LOLWUT VERSION 5"), "$18|Redis ver. 7.0.15\n|");
    talk.server.configuration.compatible = Compatible::parse("8").unwrap();
    assert_eq!(talk.say(&mut session, "CONFIG GET compatible"), "*2|$10|compatible|$1|8|");
    assert!(talk.say(&mut session, "INFO server").contains("redis_version:8.4.0|"));
    assert!(talk.say(&mut session, "HELLO").contains("$7|version|$5|8.4.0|"));
    assert_eq!(talk.say(&mut session, "LOLWUT"), "$17|Redis ver. 8.4.0\n|");
    assert_eq!((Compatible::parse("9"), Compatible::parse("")), (None, None));
}

#[test]
fn there_is_no_cluster() {
    const NONE: &str = "-ERR This instance has cluster support disabled|";
    script(&[
        ("CLUSTER INFO", NONE),
        ("CLUSTER HELP", NONE),
        ("CLUSTER SLOTS x", "-ERR wrong number of arguments for 'cluster|slots' command|"),
        ("CLUSTER NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLUSTER HELP.|"),
        ("ASKING", NONE),
        ("READONLY", NONE),
        ("READWRITE", NONE),
        ("RESTORE-ASKING k 0 x", "-ERR DUMP payload version or checksum are wrong|"),
    ]);
}

#[test]
fn keys_that_are_not_there_are_not_sent() {
    script(&[
        ("MIGRATE 127.0.0.1 1 k 0 10", "+NOKEY|"),
        ("MIGRATE 127.0.0.1 1  0 10 KEYS", "+NOKEY|"),
        ("MIGRATE 127.0.0.1 1 k 0 10 KEYS a", "-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string|"),
        ("MIGRATE 127.0.0.1 1 k x 10", "-ERR value is not an integer or out of range|"),
        ("MIGRATE 127.0.0.1 1 k 0 x", "-ERR value is not an integer or out of range|"),
        ("MIGRATE 127.0.0.1 1 k 0 10 AUTH", SYNTAX),
        ("MIGRATE 127.0.0.1 1 k 0 10 AUTH2 x", SYNTAX),
        ("MIGRATE 127.0.0.1 1 k 0 10 NOSUCH", SYNTAX),
        ("MIGRATE 127.0.0.1 1 k 0", "-ERR wrong number of arguments for 'migrate' command|"),
        ("SET k v", "+OK|"),
        ("MIGRATE 127.0.0.1 0 k 0 10", "-IOERR error or timeout connecting to the client|"),
        ("GET k", "$1|v|"),
        ("COMMAND GETKEYS MIGRATE h 1  0 5 AUTH KEYS KEYS a b", "*2|$1|a|$1|b|"),
    ]);
}
