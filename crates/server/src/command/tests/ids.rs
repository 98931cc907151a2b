//! Commands once nearly all ids of collections are used up.

use super::{Session, Talk};

/// Small collections are as spread out as large ones, so that each new collection takes an id.
const SPREAD: &str = "CONFIG SET hash-max-listpack-entries 0 set-max-listpack-entries 0 set-max-intset-entries 0 \
                      zset-max-listpack-entries 0 list-max-listpack-size 1";

/// Data of all kinds.
const DATA: &[&str] = &[
    "RPUSH list a b c",
    "RPUSH short a",
    "SADD set a b c",
    "SADD other x y",
    "ZADD sorted 1 a 2 b",
    "HSET hash a 1 b 2",
    "GEOADD places 13.4 52.5 berlin",
    "XADD stream 1-1 a b",
    "XGROUP CREATE stream group 0",
    "XREADGROUP GROUP group reader STREAMS stream >",
    "SET string value",
    "SET old value",
];

/// Requests that remove something before they add something, or change more than one thing, some of which need an id.
const REQUESTS: &[&str] = &[
    "LMOVE list new LEFT RIGHT",
    "RPOPLPUSH list new",
    "BLMOVE list new LEFT RIGHT 0",
    "BRPOPLPUSH list new 0",
    "RPOPLPUSH list short",
    "SMOVE set new a",
    "SORT list ALPHA STORE old",
    "SUNIONSTORE old set other",
    "SDIFFSTORE set set other",
    "SINTERSTORE old set set",
    "ZUNIONSTORE old 1 sorted",
    "ZINTERSTORE old 1 sorted",
    "ZDIFFSTORE old 1 sorted",
    "ZRANGESTORE old sorted 0 -1",
    "GEOSEARCHSTORE old places FROMLONLAT 13 52 BYRADIUS 1000 km",
    "GEORADIUS places 13 52 1000 km STORE old",
    "COPY set old REPLACE",
    "HSET new a 1 b 2",
    "HSETEX new EX 100 FIELDS 1 a 1",
    "XREADGROUP GROUP group another STREAMS stream >",
    "XCLAIM stream group another 0 1-1",
    "XAUTOCLAIM stream group another 0 0",
    "XGROUP CREATE stream group2 0",
    "XADD new 1-1 a b",
    "SETRANGE string 100 x",
];

fn contents(talk: &mut Talk, session: &mut Session) -> Vec<String> {
    let keys = ["list", "short", "set", "other", "sorted", "hash", "places", "stream", "string", "old", "new"];
    keys.iter().map(|key| talk.say(session, &format!("DUMP {key}"))).collect()
}

/// A command that could find no id in the middle of its work is refused before it changes anything, also in transactions and scripts. Reads
/// and removals run.
#[test]
fn nothing_is_lost_when_ids_run_out() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    assert_eq!(talk.say(&mut session, SPREAD), "+OK|");
    for line in DATA {
        let reply = talk.say(&mut session, line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    for left in [0, 1, 1000] {
        talk.keyspace.use_up_ids(left);
        let before = contents(&mut talk, &mut session);
        for line in REQUESTS {
            assert!(talk.say(&mut session, line).starts_with("-ERR all ids of collections and long strings are used up"), "{line}");
            assert!(contents(&mut talk, &mut session) == before, "{left} ids left: {line}");
        }
        talk.say(&mut session, "MULTI");
        talk.say(&mut session, "RPOPLPUSH list new");
        assert!(talk.say(&mut session, "EXEC").starts_with("*1|-ERR all ids"));
        assert!(talk.say(&mut session, "EVAL return(redis.call('rpoplpush','list','new')) 0").starts_with("-ERR all ids"));
        assert!(contents(&mut talk, &mut session) == before);
    }
    for (line, expected) in [
        ("LRANGE list 0 -1", "*3|$1|a|$1|b|$1|c|"),
        ("SREM set a", ":1|"),
        ("HEXPIRE hash 100 FIELDS 2 a b", "*2|:1|:1|"),
        ("RENAME hash new", "+OK|"),
        ("DEL old", ":1|"),
    ] {
        assert_eq!(talk.say(&mut session, line), expected, "{line}");
    }
}
