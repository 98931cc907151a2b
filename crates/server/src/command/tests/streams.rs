//! Streams: behavior that has to hold where no Redis is installed, and requests that wait.

use super::{Talk, script};
use crate::command::Session;

#[test]
fn entries() {
    script(&[
        ("XADD s 1-1 a 1", "$3|1-1|"),
        ("XADD s 1-* b 2", "$3|1-2|"),
        ("XADD s 5 c 3", "$3|5-0|"),
        ("XADD s * now x", "$9|1000000-0|"),
        ("XADD s * now y", "$9|1000000-1|"),
        ("XADD s 5 c 3", "-ERR The ID specified in XADD is equal or smaller than the target stream top item|"),
        ("XADD s 0-0 c 3", "-ERR The ID specified in XADD must be greater than 0-0|"),
        ("XADD s - c 3", "-ERR Invalid stream ID specified as stream command argument|"),
        ("XADD s * c", "-ERR wrong number of arguments for 'xadd' command|"),
        ("XADD none NOMKSTREAM * c 3", "$-1|"),
        ("XLEN s", ":5|"),
        ("XRANGE s - (5-0", "*2|*2|$3|1-1|*2|$1|a|$1|1|*2|$3|1-2|*2|$1|b|$1|2|"),
        ("XREVRANGE s 5 - COUNT 1", "*1|*2|$3|5-0|*2|$1|c|$1|3|"),
        ("XRANGE s - + COUNT 0", "*-1|"),
        ("XRANGE none - + COUNT 0", "*0|"),
        ("XRANGE s (18446744073709551615-18446744073709551615 +", "-ERR invalid start ID for the interval|"),
        ("XDEL s 1-1 1-1 9-9", ":1|"),
        ("XTRIM s MAXLEN = 3", ":1|"),
        ("XTRIM s MAXLEN 1 LIMIT 5", "-ERR syntax error, LIMIT cannot be used without the special ~ option|"),
        ("XTRIM s LIMIT 0", "-ERR syntax error, XTRIM must be called with a trimming strategy|"),
        ("XTRIM s MINID 1000000", ":1|"),
        ("XADD s MAXLEN 1 2000000-0 d 4", "$9|2000000-0|"),
        ("XLEN s", ":1|"),
        ("XSETID s 1-1", "-ERR The ID specified in XSETID is smaller than the target stream top item|"),
        ("XSETID s 3000000-0 ENTRIESADDED 9 MAXDELETEDID 5-0", "+OK|"),
        ("XDEL s 2000000-0", ":1|"),
        ("EXISTS s", ":1|"),
        ("TYPE s", "+stream|"),
        ("OBJECT ENCODING s", "$6|stream|"),
        ("XADD s 2500000-0 e 5", "-ERR The ID specified in XADD is equal or smaller than the target stream top item|"),
        ("LPUSH s a", "-WRONGTYPE Operation against a key holding the wrong kind of value|"),
        ("XGROUP CREATE s", "-ERR wrong number of arguments for 'xgroup|create' command|"),
        ("XGROUP CREATE s g 0 BAD", "-ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.|"),
        ("DEL s", ":1|"),
    ]);
}

#[test]
fn groups() {
    script(&[
        ("XGROUP CREATE s g $ MKSTREAM", "+OK|"),
        ("XGROUP CREATE s g $", "-BUSYGROUP Consumer Group name already exists|"),
        ("XADD s 1-0 a 1", "$3|1-0|"),
        ("XADD s 2-0 b 2", "$3|2-0|"),
        ("XREADGROUP GROUP g me COUNT 1 STREAMS s >", "*1|*2|$1|s|*1|*2|$3|1-0|*2|$1|a|$1|1|"),
        ("XREADGROUP GROUP g you STREAMS s >", "*1|*2|$1|s|*1|*2|$3|2-0|*2|$1|b|$1|2|"),
        ("XREADGROUP GROUP g you STREAMS s >", "*-1|"),
        ("XPENDING s g", "*4|:2|$3|1-0|$3|2-0|*2|*2|$2|me|$1|1|*2|$3|you|$1|1|"),
        ("XPENDING s g - + 10 me", "*1|*4|$3|1-0|$2|me|:0|:1|"),
        ("XINFO GROUPS s", "*1|*12|$4|name|$1|g|$9|consumers|:2|$7|pending|:2|$17|last-delivered-id|$3|2-0|$12|entries-read|:2|$3|lag|:0|"),
        ("XCLAIM s g you 0 1-0 JUSTID", "*1|$3|1-0|"),
        ("XCLAIM s g you 1 1-0", "*0|"),
        ("XDEL s 1-0", ":1|"),
        ("XREADGROUP GROUP g you STREAMS s 0", "*1|*2|$1|s|*2|*2|$3|1-0|*-1|*2|$3|2-0|*2|$1|b|$1|2|"),
        ("XAUTOCLAIM s g me 0 - COUNT 1", "*3|$3|2-0|*0|*1|$3|1-0|"),
        ("XAUTOCLAIM s g me 0 2-0", "*3|$3|0-0|*1|*2|$3|2-0|*2|$1|b|$1|2|*0|"),
        ("XPENDING s g - + 10", "*1|*4|$3|2-0|$2|me|:0|:3|"),
        ("XACK s g 2-0 7-7", ":1|"),
        ("XINFO CONSUMERS s g", "*2|*6|$4|name|$2|me|$7|pending|:0|$4|idle|:0|*6|$4|name|$3|you|$7|pending|:0|$4|idle|:0|"),
        ("XGROUP DELCONSUMER s g you", ":0|"),
        ("XGROUP CREATECONSUMER s g me", ":0|"),
        ("XGROUP SETID s g 0", "+OK|"),
        ("XREADGROUP GROUP g me NOACK STREAMS s >", "*1|*2|$1|s|*1|*2|$3|2-0|*2|$1|b|$1|2|"),
        ("XPENDING s g", "*4|:0|$-1|$-1|*-1|"),
        ("XGROUP DESTROY s g", ":1|"),
        ("XGROUP DESTROY s g", ":0|"),
        ("XREADGROUP GROUP g me STREAMS s >", "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option|"),
        ("XACK s g 2-0", ":0|"),
    ]);
}

#[test]
fn replies_have_maps_in_resp3() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    talk.say(&mut session, "XADD s 1-0 a 1");
    assert_eq!(talk.say(&mut session, "XREAD STREAMS s 0"), "*1|*2|$1|s|*1|*2|$3|1-0|*2|$1|a|$1|1|");
    talk.say(&mut session, "HELLO 3");
    assert_eq!(talk.say(&mut session, "XREAD STREAMS s 0"), "%1|$1|s|*1|*2|$3|1-0|*2|$1|a|$1|1|");
    assert_eq!(
        talk.say(&mut session, "XINFO STREAM s"),
        "%10|$6|length|:1|$15|radix-tree-keys|:1|$16|radix-tree-nodes|:2|$17|last-generated-id|$3|1-0|$20|max-deleted-entry-id|$3|0-0|\
         $13|entries-added|:1|$23|recorded-first-entry-id|$3|1-0|$6|groups|:0|$11|first-entry|*2|$3|1-0|*2|$1|a|$1|1|\
         $10|last-entry|*2|$3|1-0|*2|$1|a|$1|1|"
    );
}

/// The block size of rough trims can be configured, like Redis's nodes.
#[test]
fn rough_trims_go_by_the_configuration() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    talk.say(&mut session, "CONFIG SET stream-node-max-entries 10");
    for n in 1..=100 {
        talk.say(&mut session, &format!("XADD s {n} a b"));
    }
    talk.say(&mut session, "XADD s MAXLEN ~ 55 LIMIT 30 * a b");
    assert_eq!(talk.say(&mut session, "XLEN s"), ":71|");
    talk.say(&mut session, "XADD s MAXLEN ~ 55 LIMIT 30 * a b");
    assert_eq!(talk.say(&mut session, "XLEN s"), ":62|");
    talk.say(&mut session, "CONFIG SET stream-node-max-entries 1");
    assert_eq!(talk.say(&mut session, "XTRIM s MAXLEN ~ 1"), ":61|");
}

/// The blocked request, as it would be run again; ends its wait.
fn waited(talk: &mut Talk, session: &mut Session) -> Option<String> {
    let waiting = session.waiting.take()?;
    talk.keyspace.unwait(session.id);
    Some(waiting.request.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join(" "))
}

#[test]
fn readers_that_find_nothing_wait() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    talk.say(&mut session, "XADD s 5-5 a b");
    assert_eq!(talk.say(&mut session, "XREAD BLOCK 20 STREAMS s t $ $"), "");
    assert_eq!(talk.keyspace.next_deadline(), Some(talk.keyspace.now() + 20));
    assert_eq!(waited(&mut talk, &mut session).as_deref(), Some("XREAD COUNT 1000 BLOCK 20 STREAMS s t 5-5 0-0"));
    assert_eq!(talk.say(&mut session, "XREAD BLOCK 0 COUNT 2 STREAMS s 4"), "*1|*2|$1|s|*1|*2|$3|5-5|*2|$1|a|$1|b|");
    assert_eq!(waited(&mut talk, &mut session), None);
    assert_eq!(talk.say(&mut session, "XREAD BLOCK -1 STREAMS s 4"), "-ERR timeout is negative|");
    assert_eq!(talk.say(&mut session, "XREAD BLOCK x STREAMS s 4"), "-ERR timeout is not an integer or out of range|");
    talk.say(&mut session, "XGROUP CREATE s g $");
    assert_eq!(talk.say(&mut session, "xreadgroup GROUP g me COUNT 7 NOACK BLOCK 0 STREAMS s >"), "");
    assert_eq!(talk.keyspace.next_deadline(), None);
    assert_eq!(waited(&mut talk, &mut session).as_deref(), Some("xreadgroup GROUP g me NOACK COUNT 7 BLOCK 0 STREAMS s >"));
    // A consumer is created only when it gets an entry.
    assert!(talk.say(&mut session, "XINFO CONSUMERS s g") == "*0|");
    // No request waits in a transaction.
    talk.say(&mut session, "MULTI");
    talk.say(&mut session, "XREAD BLOCK 0 STREAMS s $");
    talk.say(&mut session, "XLEN s");
    assert_eq!(talk.say(&mut session, "EXEC"), "*2|*-1|:1|");
    assert_eq!(waited(&mut talk, &mut session), None);
}

#[test]
fn those_who_have_waited_get_what_has_changed() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    talk.say(&mut session, "XADD s 5-5 a b");
    talk.say(&mut session, "XADD t 5-5 a b");
    talk.say(&mut session, "XGROUP CREATE s g $");
    session.woken = Some(b"t".to_vec());
    assert_eq!(talk.say(&mut session, "XREAD COUNT 1000 BLOCK 0 STREAMS s t 0-0 0-0"), "*1|*2|$1|t|*1|*2|$3|5-5|*2|$1|a|$1|b|");
    session.woken = Some(b"s".to_vec());
    let line = "XREADGROUP GROUP g me COUNT 1000 BLOCK 0 STREAMS s >";
    assert_eq!(talk.say(&mut session, line), "");
    assert_eq!(waited(&mut talk, &mut session).as_deref(), Some(line));
    let mut other = talk.client(2);
    talk.say(&mut other, "XGROUP DESTROY s g");
    assert_eq!(talk.say(&mut session, line), "-NOGROUP the consumer group this client was blocked on no longer exists|");
    for line_of_other in ["DEL s", "SET s x"] {
        talk.say(&mut other, line_of_other);
        assert_eq!(talk.say(&mut session, line), "-UNBLOCKED the stream key no longer exists|");
    }
}

/// Redis does not notify watchers when a group ends (docs/decisions/0020).
#[test]
fn who_watches_a_stream_hears_of_all_that_is_done_to_it() {
    for (change, is_heard) in [("XSETID s 9-0", false), ("XGROUP DESTROY s g", true), ("XGROUP DESTROY s none", false), ("XLEN s", false)] {
        let mut talk = Talk::new();
        let (mut session, mut other) = (talk.client(1), talk.client(2));
        for line in ["XADD s 1-0 a b", "XGROUP CREATE s g 0", "WATCH s", "MULTI", "PING"] {
            talk.say(&mut session, line);
        }
        talk.say(&mut other, change);
        assert_eq!(talk.say(&mut session, "EXEC"), if is_heard { "*-1|" } else { "*1|+PONG|" }, "{change}");
    }
}
