//! Commands over a session, without a network. Replies are compared with a real Redis in `tests/differential.rs`; tests here are for
//! behavior specific to this server, and for what has to hold even where no Redis is installed.

mod algebra;
mod edges;
mod fields;
mod hot;
mod ids;
mod lookups;
mod newer;
mod replica;
mod replication;
mod sizes;
mod steps;
mod streams;
mod uses;

use super::{Client, Ended, Server, Session, execute};
use crate::keyspace::Keyspace;
use crate::testing::fresh;
use sinterdb::WriteOptions;

/// A server and its clients, which send requests in turns.
pub(super) struct Talk {
    pub keyspace: Keyspace,
    pub server: Server,
}

impl Talk {
    pub fn new() -> Self {
        Talk { keyspace: fresh(), server: Server::default() }
    }

    pub fn client(&self, id: u64) -> Session {
        Session::new(id, &self.server)
    }

    /// Sends a request, split at blanks, and returns the reply.
    pub fn say(&mut self, session: &mut Session, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut out = Vec::new();
        let ended = execute(&mut self.keyspace, &mut self.server, session, &words, &mut out);
        assert_ne!(ended, Ended::EngineFailed);
        if self.keyspace.uncommitted() > 1 << 10 {
            self.keyspace.commit(&WriteOptions::default()).unwrap();
        }
        String::from_utf8_lossy(&out).replace("\r\n", "|")
    }
}

fn script(lines: &[(&str, &str)]) {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    for (line, expected) in lines {
        assert_eq!(talk.say(&mut session, line), *expected, "{line}");
    }
}

#[test]
fn strings() {
    script(&[
        ("SET a 1", "+OK|"),
        ("get a", "$1|1|"),
        ("INCRBY a 41", ":42|"),
        ("APPEND a x", ":3|"),
        ("INCR a", "-ERR value is not an integer or out of range|"),
        ("SET a b NX", "$-1|"),
        ("SET a b XX GET", "$3|42x|"),
        ("SET a b EX 0", "-ERR invalid expire time in 'set' command|"),
        ("SET a b EX 10 PX 10", "-ERR syntax error|"),
        ("SET f 10.5", "+OK|"),
        ("INCRBYFLOAT f 0.1", "$4|10.6|"),
        ("GETRANGE a 0 -1", "$1|b|"),
        ("SETRANGE a 2 xy", ":4|"),
        ("STRLEN a", ":4|"),
        ("MSET x 1 y 2", "+OK|"),
        ("MGET x none y", "*3|$1|1|$-1|$1|2|"),
        ("MSETNX z 1 x 2", ":0|"),
        ("GETDEL x", "$1|1|"),
        ("EXISTS x y y", ":2|"),
        ("DBSIZE", ":3|"),
        ("nosuch a b", "-ERR unknown command 'nosuch', with args beginning with: 'a' 'b' |"),
        ("get", "-ERR wrong number of arguments for 'get' command|"),
        ("LPUSH a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value|"),
    ]);
}

#[test]
fn collections() {
    script(&[
        ("RPUSH l a b c", ":3|"),
        ("LRANGE l 0 -1", "*3|$1|a|$1|b|$1|c|"),
        ("LPOS l c", ":2|"),
        ("LMOVE l m LEFT RIGHT", "$1|a|"),
        ("LPOP l 5", "*2|$1|b|$1|c|"),
        ("LPOP l 5", "*-1|"),
        ("LPOP l", "$-1|"),
        ("HSET h f 1 g 2", ":2|"),
        ("HINCRBY h f 5", ":6|"),
        ("HGET h f", "$1|6|"),
        ("HDEL h f g", ":2|"),
        ("EXISTS h", ":0|"),
        ("SADD s a b", ":2|"),
        ("SADD t b c", ":2|"),
        ("SINTER s t", "*1|$1|b|"),
        ("SINTERCARD 2 s t", ":1|"),
        ("SMOVE s t a", ":1|"),
        ("SCARD t", ":3|"),
        ("ZADD z 1 a 2 b 3 c", ":3|"),
        ("ZRANGE z 0 -1 WITHSCORES", "*6|$1|a|$1|1|$1|b|$1|2|$1|c|$1|3|"),
        ("ZRANGE z (1 3 BYSCORE LIMIT 1 1", "*1|$1|c|"),
        ("ZRANK z b", ":1|"),
        ("ZADD z GT CH 1 b 9 c", ":1|"),
        ("ZINCRBY z 0.5 a", "$3|1.5|"),
        ("ZPOPMAX z", "*2|$1|c|$1|9|"),
        ("ZUNIONSTORE u 2 z t WEIGHTS 2 1", ":3|"),
        ("ZRANGE u 0 -1 WITHSCORES", "*6|$1|c|$1|1|$1|a|$1|4|$1|b|$1|5|"),
        ("TYPE u", "+zset|"),
    ]);
}

/// Several errors in one request, and several options, have the precedence of Redis 7.0.15.
#[test]
fn what_comes_first_is_what_redis_looks_at_first() {
    const RANGE: &str = "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807|";
    const TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
    script(&[
        ("HSET h f 1", ":1|"),
        ("HSCAN h 0 x", "-ERR syntax error|"),
        ("HSCAN none 0 x", "*2|$1|0|*0|"),
        ("SSCAN h 0 x", TYPE),
        ("ZSCAN h x 1", "-ERR invalid cursor|"),
        ("HRANDFIELD none x x", "-ERR value is not an integer or out of range|"),
        ("ZRANDMEMBER none x x", "-ERR value is not an integer or out of range|"),
        ("HRANDFIELD none -9223372036854775808", RANGE),
        ("SET k v EX x EX 20", "+OK|"),
        ("TTL k", ":20|"),
        ("SET k v PX 10 EX 20", "-ERR syntax error|"),
        ("SET k v KEEPTTL KEEPTTL", "+OK|"),
        ("TTL k", ":20|"),
        ("GETEX k PERSIST EX 5", "-ERR syntax error|"),
        ("GETEX k PERSIST PERSIST", "$1|v|"),
        ("ZINTERCARD 1 k x", TYPE),
        ("ZADD z 1 a 1 b", ":2|"),
        ("ZRANGE z 0 1 REV REV", "-ERR syntax error|"),
        ("ZRANGE z 0 1 BYSCORE BYLEX", "-ERR syntax error|"),
    ]);
}

#[test]
fn bits_and_counts() {
    script(&[
        ("SETBIT b 7 1", ":0|"),
        ("GET b", "$1|\u{1}|"),
        ("SETBIT b 7 0", ":1|"),
        ("SETBIT b 4294967296 1", "-ERR bit offset is not an integer or out of range|"),
        ("SET b foobar", "+OK|"),
        ("BITCOUNT b", ":26|"),
        ("BITCOUNT b 5 30 BIT", ":17|"),
        ("BITPOS b 1 2", ":17|"),
        ("BITFIELD u INCRBY i5 100 1 GET u4 0", "*2|:1|:0|"),
        ("BITFIELD v SET u8 0 255 OVERFLOW FAIL INCRBY u8 0 1 OVERFLOW SAT INCRBY u8 0 9", "*3|:0|$-1|:255|"),
        ("BITFIELD_RO v SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand|"),
        ("SET c ABC", "+OK|"),
        ("BITOP OR d b c", ":6|"),
        ("GET d", "$6|goobar|"),
        ("BITOP AND d none none", ":0|"),
        ("EXISTS d", ":0|"),
        ("PFADD p a b c d e f g", ":1|"),
        ("PFADD p a g", ":0|"),
        ("PFCOUNT p", ":7|"),
        ("PFCOUNT p", ":7|"),
        ("PFADD q x a", ":1|"),
        ("PFMERGE r p q", "+OK|"),
        ("PFCOUNT p q", ":8|"),
        ("PFCOUNT r", ":8|"),
        ("PFDEBUG ENCODING r", "+sparse|"),
        ("PFDEBUG TODENSE r", ":1|"),
        ("PFADD c x", "-WRONGTYPE Key is not a valid HyperLogLog string value.|"),
        ("APPEND q hello", ":28|"),
        ("PFCOUNT q", "-INVALIDOBJ Corrupted HLL object detected|"),
        ("PFMERGE r q", "-INVALIDOBJ Corrupted HLL object detected|"),
        ("PFSELFTEST", "+OK|"),
    ]);
}

#[test]
fn positions_sorting_and_subsequences() {
    script(&[
        ("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2|"),
        ("GEODIST g Palermo Catania km", "$8|166.2742|"),
        ("GEOHASH g Palermo none", "*2|$11|sqc8b49rny0|$-1|"),
        ("GEOPOS g Palermo", "*1|*2|$20|13.36138933897018433|$20|38.11555639549629859|"),
        ("GEORADIUS g 15 37 200 km WITHDIST", "*2|*2|$7|Palermo|$8|190.4424|*2|$7|Catania|$7|56.4413|"),
        ("GEOSEARCH g FROMMEMBER Palermo BYBOX 400 400 km ASC", "*2|$7|Palermo|$7|Catania|"),
        ("GEOSEARCHSTORE h g FROMLONLAT 15 37 BYRADIUS 100 km", ":1|"),
        ("ZRANGE h 0 -1 WITHSCORES", "*2|$7|Catania|$16|3479447370796909|"),
        ("GEOADD g 181 0 x", "-ERR invalid longitude,latitude pair 181.000000,0.000000|"),
        ("RPUSH l 3 1 2", ":3|"),
        ("SORT l", "*3|$1|1|$1|2|$1|3|"),
        ("MSET w_1 30 w_2 20 w_3 10 d_1 one d_3 three", "+OK|"),
        ("SORT l BY w_* GET # GET d_*", "*6|$1|3|$5|three|$1|2|$-1|$1|1|$3|one|"),
        ("SORT l BY nosort LIMIT 1 2 STORE l", ":2|"),
        ("LRANGE l 0 -1", "*2|$1|1|$1|2|"),
        ("SORT_RO l STORE x", "-ERR syntax error|"),
        ("MSET a ohmytext b mynewtext", "+OK|"),
        ("LCS a b", "$6|mytext|"),
        ("LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN", "*4|$7|matches|*1|*3|*2|:4|:7|*2|:5|:8|:4|$3|len|:6|"),
    ]);
}

#[test]
fn debugging_is_allowed_by_the_configuration_alone() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    talk.say(&mut session, "PFADD k a b c");
    assert!(talk.say(&mut session, "DEBUG SLEEP 0").starts_with("-ERR DEBUG command not allowed."));
    talk.server.configuration.debug_command = super::Allowed::Local;
    assert!(talk.say(&mut session, "DEBUG SLEEP 0").starts_with("-ERR DEBUG command not allowed."));
    let mut local = super::Client::new(1, "[::1]:5".into(), String::new(), 0, 0);
    local.is_local = true;
    talk.server.clients.insert(1, local);
    assert_eq!(talk.say(&mut session, "DEBUG SLEEP 0"), "+OK|");
    talk.server.configuration.debug_command = super::Allowed::Yes;
    for (line, expected) in [
        ("PFCOUNT k", ":3|"),
        ("DEBUG DIGEST-VALUE k none", "*2|+145cfd7f960b7f24d04b5c1c0bf94a85eab91d90|+0000000000000000000000000000000000000000|"),
        ("DEBUG OBJECT none", "-ERR no such key|"),
        ("DEBUG OBJECT k", "+Value at:0x0 refcount:1 encoding:embstr serializedlength:27|"),
        ("XADD s 1-1 field value", "$3|1-1|"),
        ("DEBUG OBJECT s", "+Value at:0x0 refcount:1 encoding:stream serializedlength:13|"),
        ("DEBUG RELOAD", "+OK|"),
        ("DEBUG SET-ACTIVE-EXPIRE 0", "+OK|"),
        ("DEBUG POPULATE 99999999999", "-ERR that is more than 512 MiB|"),
        ("DEBUG NOSUCH", "-ERR unknown subcommand or wrong number of arguments for 'NOSUCH'. Try DEBUG HELP.|"),
        ("CONFIG GET enable-debug-command", "*2|$20|enable-debug-command|$3|yes|"),
        ("CONFIG SET hll-sparse-max-bytes 1kb", "+OK|"),
        ("CONFIG GET hll-sparse-max-bytes", "*2|$20|hll-sparse-max-bytes|$4|1024|"),
    ] {
        assert_eq!(talk.say(&mut session, line), expected, "{line}");
    }
    assert!(talk.server.keeps_expired);
    let help = talk.say(&mut session, "DEBUG HELP");
    assert_eq!(help.matches("|+").count(), help[1..help.find('|').unwrap()].parse::<usize>().unwrap());
    talk.say(&mut session, "HELLO 3");
    let attribute = "|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n$39\r\nSome real reply following the attribute\r\n";
    assert_eq!(talk.say(&mut session, "DEBUG PROTOCOL attrib"), attribute.replace("\r\n", "|"));
}

/// Keys that a command finds ended count like those that the server removes, from the start of the statistics on.
#[test]
fn ended_keys_are_counted_whoever_finds_them() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    for key in ["a", "b", "c"] {
        assert_eq!(talk.say(&mut session, &format!("SET {key} 1 PX 10")), "+OK|");
    }
    assert_eq!(talk.say(&mut session, "HSET h f 1 g 2"), ":2|");
    assert_eq!(talk.say(&mut session, "HPEXPIRE h 10 FIELDS 1 f"), "*1|:1|");
    talk.keyspace.set_now(talk.keyspace.now() + 1000);
    let counted = |talk: &mut Talk, session: &mut Session| {
        let stats = talk.say(session, "INFO stats");
        let field = |name: &str| stats.split('|').find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap().to_owned();
        (field("expired_keys"), field("expired_subkeys"))
    };
    assert_eq!(talk.say(&mut session, "EXISTS a h"), ":1|");
    assert_eq!(counted(&mut talk, &mut session), ("1".into(), "1".into()));
    assert_eq!(talk.keyspace.remove_expired(1).unwrap(), 1);
    assert_eq!(counted(&mut talk, &mut session), ("2".into(), "1".into()));
    assert_eq!(talk.say(&mut session, "CONFIG RESETSTAT"), "+OK|");
    assert_eq!(counted(&mut talk, &mut session), ("0".into(), "0".into()));
    assert_eq!(talk.say(&mut session, "EXISTS b c"), ":0|");
    assert_eq!(counted(&mut talk, &mut session), ("1".into(), "0".into()));
}

#[test]
fn clients_that_wait_until_a_deadline_are_counted() {
    let mut talk = Talk::new();
    let mut clients: Vec<_> = (1..4).map(|id| talk.client(id)).collect();
    for (client, line) in clients.iter_mut().zip(["BLPOP none 5", "BLPOP none 0"]) {
        assert_eq!(talk.say(client, line), "");
    }
    let said = talk.say(&mut clients[2], "INFO clients");
    assert!(said.contains("|blocked_clients:2|") && said.contains("|clients_in_timeout_table:1|"), "{said}");
}

#[test]
fn functions_are_asked_for_where_there_are_none() {
    script(&[
        ("FUNCTION FLUSH", "+OK|"),
        ("FUNCTION FLUSH async", "+OK|"),
        ("FUNCTION FLUSH now", "-ERR FUNCTION FLUSH only supports SYNC|ASYNC option|"),
        ("FUNCTION LIST", "*0|"),
        ("FUNCTION LIST WITHCODE LIBRARYNAME x", "*0|"),
        ("FUNCTION LIST LIBRARYNAME", "-ERR library name argument was not given|"),
        ("FUNCTION LIST x", "-ERR Unknown argument x|"),
        ("FUNCTION STATS", "*4|$14|running_script|$-1|$7|engines|*2|$3|LUA|*4|$15|libraries_count|:0|$15|functions_count|:0|"),
        ("FUNCTION DELETE x", "-ERR Library not found|"),
        ("FUNCTION KILL", "-NOTBUSY No scripts in execution right now.|"),
        ("FUNCTION LOAD x", "-ERR Missing library metadata|"),
        ("FUNCTION LOAD", "-ERR wrong number of arguments for 'function|load' command|"),
        ("FCALL x 0", "-ERR Function not found|"),
        // A fixed parameter may be set to its one value.
        ("CONFIG SET activedefrag no", "+OK|"),
        (
            "CONFIG SET activedefrag yes",
            "-ERR CONFIG SET failed (possibly related to argument 'activedefrag') - only no is possible: memory is allocated in few large \
             pieces and does not fragment|",
        ),
    ]);
}

/// A name that is too long for the engine comes after valid ones.
#[test]
fn a_refused_command_leaves_nothing() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    talk.say(&mut session, "SADD s a");
    talk.say(&mut session, "SET k v");
    let long = "x".repeat(1 << 20);
    for line in ["SADD s b", "SADD t b", "SREM s a", "HSET h f v", "ZADD z 1 b 2", "MSET b 1", "DEL k"] {
        let line = if line.starts_with("HSET") || line.starts_with("MSET") { format!("{line} {long} v") } else { format!("{line} {long}") };
        let reply = talk.say(&mut session, &line);
        assert!(reply.starts_with("-ERR a ") && reply.ends_with("is longer than 1 MiB|"), "{reply}");
    }
    assert_eq!(talk.say(&mut session, "SMEMBERS s"), "*1|$1|a|");
    assert_eq!(talk.say(&mut session, "EXISTS k b t h z"), ":1|");
    assert_eq!(talk.say(&mut session, "DBSIZE"), ":2|");
}

#[test]
fn replies_follow_the_protocol() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    talk.say(&mut session, "HSET h f v");
    talk.say(&mut session, "ZADD z 1.5 a");
    assert_eq!(talk.say(&mut session, "HGETALL h"), "*2|$1|f|$1|v|");
    let greeting = talk.say(&mut session, "HELLO 3");
    assert!(greeting.starts_with("%7|$6|server|$5|redis|"), "{greeting}");
    assert_eq!(talk.say(&mut session, "HGETALL h"), "%1|$1|f|$1|v|");
    assert_eq!(talk.say(&mut session, "ZRANGE z 0 -1 WITHSCORES"), "*1|*2|$1|a|,1.5|");
    assert_eq!(talk.say(&mut session, "GET none"), "_|");
    assert_eq!(talk.say(&mut session, "HELLO 4"), "-NOPROTO unsupported protocol version|");
    assert_eq!(talk.say(&mut session, "RESET"), "+RESET|");
    assert_eq!(talk.say(&mut session, "GET none"), "$-1|");
}

#[test]
fn transactions_are_whole_and_watch_keys() {
    let mut talk = Talk::new();
    let (mut one, mut two) = (talk.client(1), talk.client(2));
    for (line, expected) in [
        ("MULTI", "+OK|"),
        ("SET a 1", "+QUEUED|"),
        ("LPUSH a x", "+QUEUED|"),
        ("INCR a", "+QUEUED|"),
        ("EXEC", "*3|+OK|-WRONGTYPE Operation against a key holding the wrong kind of value|:2|"),
        ("MULTI", "+OK|"),
        ("MULTI", "-ERR MULTI calls can not be nested|"),
        ("nosuch", "-ERR unknown command 'nosuch', with args beginning with: |"),
        ("SET a 5", "+QUEUED|"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.|"),
        ("GET a", "$1|2|"),
        ("EXEC", "-ERR EXEC without MULTI|"),
        ("MULTI", "+OK|"),
        ("BGSAVE", "+QUEUED|"),
        ("EXEC", "*1|+Background saving scheduled|"),
        ("WATCH a", "+OK|"),
    ] {
        assert_eq!(talk.say(&mut one, line), expected, "{line}");
    }
    talk.say(&mut two, "SET a 7");
    talk.say(&mut one, "MULTI");
    talk.say(&mut one, "SET a 8");
    assert_eq!(talk.say(&mut one, "EXEC"), "*-1|");
    // `EXEC` has ended the watch.
    talk.say(&mut two, "SET a 9");
    talk.say(&mut one, "MULTI");
    talk.say(&mut one, "GET a");
    assert_eq!(talk.say(&mut one, "EXEC"), "*1|$1|9|");
}

#[test]
fn nothing_but_greetings_before_authentication() {
    let mut talk = Talk::new();
    talk.server.configuration.password = "secret".into();
    talk.server.take_users().unwrap();
    for unit in talk.server.units.all().iter().filter(|unit| unit.subcommands.is_empty()) {
        let mut session = talk.client(1);
        let mut words: Vec<&str> = unit.name.split('|').collect();
        words.extend(unit.command.subcommands.first().filter(|_| unit.parent.is_none()));
        words.resize(words.len().max(usize::try_from(unit.arity.unsigned_abs()).unwrap()), "a");
        let reply = talk.say(&mut session, &words.join(" "));
        let is_open = ["auth", "hello", "quit", "reset"].contains(&unit.command.name);
        let refused = match unit.command.name {
            "exec" => "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.|",
            _ => "-NOAUTH Authentication required.|",
        };
        assert_eq!(reply != refused, is_open, "{}: {reply}", unit.name);
    }
    let mut session = talk.client(2);
    assert_eq!(talk.say(&mut session, "AUTH wrong"), "-WRONGPASS invalid username-password pair or user is disabled.|");
    assert_eq!(talk.say(&mut session, "AUTH default secret"), "+OK|");
    assert_eq!(talk.say(&mut session, "PING"), "+PONG|");
    let mut session = talk.client(3);
    assert!(talk.say(&mut session, "HELLO 3").starts_with("-NOAUTH HELLO"));
    assert!(talk.say(&mut session, "HELLO 3 AUTH default secret SETNAME me").starts_with("%7"));
    assert_eq!(talk.say(&mut session, "CLIENT GETNAME"), "$2|me|");
}

#[test]
fn replies_can_be_switched_off() {
    script(&[
        ("CLIENT REPLY OFF", ""),
        ("SET a 1", ""),
        ("CLIENT REPLY ON", "+OK|"),
        ("CLIENT REPLY SKIP", ""),
        ("GET a", ""),
        ("GET a", "$1|1|"),
    ]);
}

#[test]
fn what_clients_and_monitors_ask_for() {
    script(&[
        ("CLIENT SETINFO LIB-NAME redis-py", "+OK|"),
        ("CLIENT SETINFO lib-ver 5.1.0", "+OK|"),
        ("CLIENT SETINFO lib-foo x", "-ERR Unrecognized option 'lib-foo'|"),
        ("CLIENT SETINFO lib-name \u{e9}", "-ERR lib-name cannot contain spaces, newlines or special characters.|"),
        ("CLIENT SETINFO lib-name", "-ERR wrong number of arguments for 'client|setinfo' command|"),
        ("OBJECT IDLETIME a", "$-1|"),
        ("SET a 1", "+OK|"),
        ("OBJECT IDLETIME a", ":0|"),
    ]);
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    talk.server.clients.insert(1, Client::new(1, String::new(), String::new(), 0, 0));
    talk.say(&mut session, "CLIENT SETINFO lib-name redis-py");
    talk.say(&mut session, "RESET");
    let line = talk.say(&mut session, "CLIENT INFO");
    assert!(line.contains(" resp=2 lib-name=redis-py lib-ver=\n"), "{line}");
    let changes = |talk: &mut Talk, session: &mut Session| -> u64 {
        let text = talk.say(session, "INFO persistence");
        text.split('|').find_map(|line| line.strip_prefix("rdb_changes_since_last_save:")).unwrap().parse().unwrap()
    };
    let before = changes(&mut talk, &mut session);
    for (said, count) in [("SET a 1", 1), ("SETBIT a 0 0", 1), ("GET a", 1), ("SETBIT a 0 1", 2), ("MSET a 1 b 2", 4), ("DEL a b c", 6)] {
        talk.say(&mut session, said);
        assert_eq!(changes(&mut talk, &mut session) - before, count, "{said}");
    }
}

/// Each command with numbers at the limits of arithmetic in each argument replies, and does not panic.
#[test]
fn extreme_numbers_break_nothing() {
    let mut talk = Talk::new();
    let numbers = [
        "-9223372036854775808",
        "-9223372036854775807",
        "-4294967297",
        "-2147483649",
        "-1",
        "0",
        "1",
        "2147483648",
        "4294967296",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "99999999999999999999",
        "+1",
        "01",
        "1e308",
        "-1e308",
        "inf",
        "-inf",
        "nan",
        "0.1",
        "",
        "x",
        "*",
        "(1",
        "[a",
        "-",
        "+",
    ];
    let seeds = ["SET a 1", "RPUSH a x y", "SADD a x y", "ZADD a 1 x 2 y", "HSET a x 1 y 2", "XADD a 1-1 x 1"];
    for command in super::TABLE.iter().flat_map(|family| family.iter()) {
        for number in numbers {
            for (extra, seed) in seeds.iter().enumerate() {
                let mut session = talk.client(1);
                talk.say(&mut session, "DEL a");
                talk.say(&mut session, seed);
                let mut words = vec![command.name, "a"];
                words.resize(2 + extra, number);
                let reply = talk.say(&mut session, &words.join(" "));
                assert!(!reply.is_empty() || command.name == "client", "{words:?}");
            }
        }
    }
}

/// A request among the arguments names its command as clients do.
#[test]
fn requests_among_arguments_have_the_names_of_clients() {
    let mut talk = Talk::new();
    for (old, new) in [(&b"MSET"[..], &b"put"[..]), (b"GEORADIUS", b""), (b"GEORADIUSBYMEMBER", b"GEORADIUS")] {
        talk.server.configuration.renames.rename(old, new).unwrap();
    }
    let mut session = talk.client(1);
    for (line, reply) in [
        ("COMMAND GETKEYS put a 1 b 2", "*2|$1|a|$1|b|"),
        ("COMMAND GETKEYS MSET a 1", "-ERR Invalid command specified|"),
        ("COMMAND GETKEYS GEORADIUS g m 1 km STORE d", "*2|$1|g|$1|d|"),
        ("ACL DRYRUN default put a 1", "+OK|"),
        ("ACL DRYRUN default MSET a 1", "-ERR Command 'MSET' not found|"),
        // What a user may do is decided by the keys of the request.
        ("ACL SETUSER alice on nopass +@all ~g", "+OK|"),
        ("AUTH alice x", "+OK|"),
        ("GEORADIUS g m 1 km STORE d", "-NOPERM this user has no permissions to access one of the keys used as arguments|"),
    ] {
        assert_eq!(talk.say(&mut session, line), reply, "{line}");
    }
}

/// Long strings are not read for a script whose memory cannot hold them.
#[test]
fn long_replies_to_scripts_are_refused_unread() {
    script(&[
        ("SETRANGE big 314572800 x", ":314572801|"),
        ("EVAL return{pcall(redis.call,'mget','big','big')} 0", "*2|$-1|$54|ERR the reply of the command is too large for a script|"),
    ]);
}
