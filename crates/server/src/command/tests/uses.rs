//! Which commands count as uses of their keys, and what is told of uses.

use super::{Session, Talk};
use sinterdb::WriteOptions;

struct Used {
    talk: Talk,
    session: Session,
}

impl Used {
    fn new(policy: &str) -> Used {
        let talk = Talk::new();
        let mut used = Used { session: talk.client(1), talk };
        used.say(&format!("CONFIG SET maxdata-policy {policy}"));
        used
    }

    fn say(&mut self, line: &str) -> String {
        let reply = self.talk.say(&mut self.session, line);
        self.talk.keyspace.commit(&WriteOptions::default()).unwrap();
        reply
    }

    /// Seconds since the use of a key, if ten seconds pass before this command.
    fn idle_after(&mut self, line: &str) -> String {
        self.say("SET k 1");
        self.talk.keyspace.set_now(self.talk.keyspace.now() + 10_000);
        self.say(line);
        self.say("OBJECT IDLETIME k")
    }
}

#[test]
fn commands_that_only_look_at_keys_are_no_uses() {
    let mut used = Used::new("allkeys-lru");
    used.say("SET other 1");
    for line in ["EXISTS k", "TTL k", "PTTL k", "EXPIRETIME k", "TYPE k", "OBJECT ENCODING k", "SCAN 0", "SCAN 0 TYPE string"] {
        assert_eq!(used.idle_after(line), ":10|", "{line}");
    }
    for line in ["KEYS *", "MEMORY USAGE k", "WATCH k", "GET other", "PING"] {
        assert_eq!(used.idle_after(line), ":10|", "{line}");
    }
    for line in ["GET k", "MGET other k", "TOUCH k", "STRLEN k", "SET k 2", "APPEND k 3", "EXPIRE k 100", "DUMP k"] {
        assert_eq!(used.idle_after(line), ":0|", "{line}");
    }
    used.say("CLIENT NO-TOUCH on");
    assert_eq!((used.idle_after("GET k"), used.idle_after("TOUCH k")), (":10|".into(), ":0|".into()));
    assert_eq!(used.idle_after("EVAL return(redis.call('get','k')) 0"), ":10|");
    used.say("CLIENT NO-TOUCH off");
    assert_eq!(used.idle_after("EVAL return(redis.call('get','k')) 0"), ":0|");
    assert_eq!(used.say("OBJECT IDLETIME none"), "$-1|");
    assert_eq!(
        used.say("OBJECT FREQ k"),
        "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at \
         runtime LRU and LFU data will take some time to adjust.|"
    );
}

/// Where keys are evicted by their uses, the use of a new key is known although the memory for hot keys is full.
#[test]
fn uses_of_new_keys_are_known_when_hot_keys_are_full() {
    for (policy, limit, is_known) in [("allkeys-lru", "1gb", true), ("allkeys-lru", "0", false), ("allkeys-random", "1gb", false)] {
        let mut used = Used::new(policy);
        used.say(&format!("CONFIG SET maxdata {limit}"));
        used.talk.keyspace.keep_hot_bytes(200 << 10);
        (0..2_000).for_each(|n| _ = used.talk.say(&mut used.session, &format!("SET key{n} {}", "x".repeat(200))));
        assert_eq!((used.say("SET new 1"), used.say("GET new")), ("+OK|".into(), "$1|1|".into()));
        used.talk.keyspace.set_now(used.talk.keyspace.now() + 10_000);
        assert_eq!(used.say("OBJECT IDLETIME new") == ":10|", is_known, "{policy} {limit}");
    }
}

#[test]
fn uses_are_counted_under_a_policy_that_goes_by_them() {
    let mut used = Used::new("volatile-lfu");
    assert_eq!((used.say("CONFIG SET lfu-log-factor 0"), used.say("SET k 1")), ("+OK|".into(), "+OK|".into()));
    assert_eq!(used.say("OBJECT FREQ k"), ":5|");
    // One after the other, without another key between.
    (0..7).for_each(|_| _ = used.say("GET k"));
    (0..3).for_each(|_| _ = used.say("TTL k"));
    assert_eq!(used.say("OBJECT FREQ k"), ":12|");
    used.talk.keyspace.set_now(used.talk.keyspace.now() + 4 * 60_000);
    assert_eq!(used.say("OBJECT FREQ k"), ":8|");
    (0..500).for_each(|_| _ = used.say("GET k"));
    assert_eq!(used.say("OBJECT FREQ k"), ":255|");
    assert_eq!(
        used.say("OBJECT IDLETIME k"),
        "-ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU \
         and LFU data will take some time to adjust.|"
    );
    // Before the commit as well.
    assert_eq!(
        (used.talk.say(&mut used.session, "SET new 1"), used.talk.say(&mut used.session, "OBJECT FREQ new")),
        ("+OK|".into(), ":5|".into())
    );
    used.talk.keyspace.keep_hot_bytes(0);
    assert_eq!(used.say("OBJECT FREQ k"), ":0|");
    used.say("CONFIG SET maxdata-policy allkeys-lru");
    assert_eq!(used.say("OBJECT IDLETIME k"), format!(":{}|", used.talk.keyspace.now() / 1000));
}
