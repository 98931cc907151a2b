//! Clients without a network: what they are told, and what is remembered of them. `tests/tracking.rs` compares with a real Redis.

use super::super::tests::Talk;
use super::super::{Alone, Session, end_steps, execute, work};
use super::*;
use crate::keyspace::LONG;
use sinterdb::WriteOptions;

/// Messages that wait for these clients, as each would get them.
fn told(talk: &mut Talk, receivers: &[&Session]) -> String {
    let mut all = Vec::new();
    for post in talk.server.hub.take() {
        let receiver = receivers.iter().find(|session| session.id == post.to).expect("a known client");
        let mut out = format!("{}:", post.to).into_bytes();
        post.write(receiver, &mut out);
        all.push(String::from_utf8_lossy(&out).replace("\r\n", "|"));
    }
    all.join(" ")
}

/// A client with RESP3 that other clients can name.
fn client(talk: &mut Talk, id: u64) -> Session {
    let mut session = talk.client(id);
    session.protocol = Protocol::Resp3;
    talk.server.update(&session, 0);
    session
}

/// A server and two of its clients, of which the first one tracks keys.
fn tracked(options: &str) -> (Talk, Session, Session) {
    let mut talk = Talk::new();
    let (mut reader, writer) = (client(&mut talk, 1), client(&mut talk, 2));
    assert_eq!(talk.say(&mut reader, &format!("CLIENT TRACKING ON{options}")), "+OK|");
    (talk, reader, writer)
}

/// Ends an event-loop iteration.
fn end(talk: &mut Talk) {
    talk.server.end_tracked_iteration(&mut talk.keyspace);
}

/// The push message for these keys.
fn push(id: u64, keys: &[&str]) -> String {
    let each = keys.iter().map(|key| format!("${}|{key}|", key.len()));
    format!("{id}:>2|$10|invalidate|*{}|{}", keys.len(), each.collect::<String>())
}

const FLUSH: &str = "1:>2|$10|invalidate|_|";

#[test]
fn a_reader_is_told_once() {
    let (mut talk, mut reader, mut writer) = tracked("");
    talk.say(&mut reader, "MGET a b a");
    assert_eq!(talk.server.tracking.figures().map(|(_, number)| number), [2, 2, 0]);
    talk.say(&mut writer, "MSET other 1 a 1");
    assert_eq!(told(&mut talk, &[&reader]), push(1, &["a"]));
    talk.say(&mut writer, "SET a 2");
    assert_eq!(told(&mut talk, &[&reader]), "");
    // Databases are not told apart, and own changes count.
    talk.say(&mut reader, "SELECT 3");
    talk.say(&mut reader, "SET b 1");
    assert_eq!(told(&mut talk, &[&reader]), push(1, &["b"]));
    // A command that writes is no read, and neither is one that fails before it runs.
    for line in ["GETEX a", "SET a 1 GET", "GET", "GET a b", "WATCH a", "NOSUCH a"] {
        talk.say(&mut reader, line);
    }
    assert_eq!(talk.server.tracking.table.len(), 0);
}

#[test]
fn commands_of_a_transaction_count_one_by_one() {
    let (mut talk, mut reader, mut writer) = tracked("");
    for line in ["SET k 1", "MULTI", "GET k", "INCR k", "GET k"] {
        talk.say(&mut reader, line);
    }
    assert_eq!(talk.say(&mut reader, "EXEC"), "*3|$1|1|:2|$1|2|");
    assert_eq!(told(&mut talk, &[&reader]), push(1, &["k"]));
    talk.say(&mut writer, "DEL k");
    assert_eq!(told(&mut talk, &[&reader]), push(1, &["k"]));
    // A message to itself and an invalidation come behind the transaction.
    for line in ["SUBSCRIBE news", "GET k", "MULTI", "SET k 1", "PUBLISH news x"] {
        talk.say(&mut reader, line);
    }
    assert_eq!(talk.say(&mut reader, "EXEC"), "*2|+OK|:1|");
    let told = told(&mut talk, &[&reader]);
    assert!(told.contains(">3|$7|message|$4|news|$1|x|") && told.contains(&push(1, &["k"])), "{told}");
}

#[test]
fn who_wants_no_news_of_itself_gets_none() {
    let (mut talk, mut reader, mut writer) = tracked(" NOLOOP");
    talk.say(&mut reader, "MGET a b");
    talk.say(&mut reader, "MSET a 1 b 1");
    assert_eq!(told(&mut talk, &[&reader]), "");
    talk.say(&mut reader, "GET a");
    talk.say(&mut writer, "SET a 2");
    assert_eq!(told(&mut talk, &[&reader]), push(1, &["a"]));
}

#[test]
fn caching_concerns_one_request_or_transaction() {
    for (mode, word, other) in [("OPTIN", "YES", "NO"), ("OPTOUT", "NO", "YES")] {
        let (mut talk, mut reader, _) = tracked(&format!(" {mode}"));
        let mut remembered = |talk: &mut Talk, lines: &[&str]| {
            lines.iter().for_each(|line| drop(talk.say(&mut reader, line)));
            let table = &mut talk.server.tracking.table;
            let mut keys: Vec<Vec<u8>> = (0..table.len()).filter_map(|at| table.key(at)).map(|key| key.to_vec()).collect();
            keys.sort();
            table.clear();
            String::from_utf8(keys.join(&b' ')).unwrap()
        };
        let caching = format!("CLIENT CACHING {word}");
        let mut check = |lines: &[&str], with_caching: &str, others: &str| {
            let expected = if mode == "OPTIN" { with_caching } else { others };
            assert_eq!(remembered(&mut talk, lines), expected, "{mode}: {lines:?}");
        };
        check(&["GET a", &caching, "GET b", "GET c"], "b", "a c");
        check(&[&caching, "CLIENT ID", "GET a", "GET b"], "a", "b");
        check(&[&caching, "NOSUCH", "GET a"], "", "a");
        check(&[&caching, "GET", "GET a"], "", "a");
        check(&[&caching, "MULTI", "GET a", "GET b", "EXEC", "GET c"], "a b", "c");
        check(&["MULTI", "GET a", &caching, "GET b", "EXEC", "GET c"], "b", "a c");
        check(&[&caching, "MULTI", "DISCARD", "GET a"], "", "a");
        let mut other_client = talk.client(9);
        let wrong = talk.say(&mut other_client, &caching);
        assert!(wrong.starts_with("-ERR CLIENT CACHING can be called only when"), "{wrong}");
        let (mut talk, mut reader, _) = tracked(&format!(" {mode}"));
        let wrong = talk.say(&mut reader, &format!("CLIENT CACHING {other}"));
        assert!(wrong.starts_with(&format!("-ERR CLIENT CACHING {other} is only valid")), "{wrong}");
        assert_eq!(talk.say(&mut reader, "CLIENT CACHING MAYBE"), "-ERR syntax error|");
    }
}

/// The server keeps a blocked request, and with it the client's word on caching.
#[test]
fn caching_lasts_until_a_blocked_request_has_its_reply() {
    let (mut talk, mut reader, mut writer) = tracked(" OPTIN");
    talk.say(&mut reader, "CLIENT CACHING YES");
    assert_eq!(talk.say(&mut reader, "XREAD BLOCK 0 STREAMS s $"), "");
    assert!(reader.caching);
    talk.say(&mut writer, "XADD s 1-1 f v");
    assert_eq!(told(&mut talk, &[&reader]), push(1, &["s"]));
    let mut out = Vec::new();
    super::super::resume(&mut talk.keyspace, &mut talk.server, &mut reader, Some(b"s"), &mut out);
    assert!(out.starts_with(b"%1\r\n") && !reader.caching);
    // The client knows the stream from this reply on.
    talk.say(&mut writer, "XADD s 1-2 f v");
    assert_eq!(told(&mut talk, &[&reader]), push(1, &["s"]));
}

#[test]
fn broadcasts_are_one_message_for_each_prefix_and_iteration() {
    let (mut talk, mut reader, mut writer) = tracked(" BCAST PREFIX a PREFIX b:");
    let mut alone = client(&mut talk, 3);
    talk.say(&mut alone, "CLIENT TRACKING ON BCAST NOLOOP");
    assert_eq!(talk.server.tracking.figures()[2].1, 3);
    for line in ["MSET b:2 1 a1 1 c 1", "SET a1 2", "SET a0 1"] {
        talk.say(&mut writer, line);
    }
    talk.say(&mut alone, "MSET a1 3 d 1");
    assert_eq!(told(&mut talk, &[]), "", "nothing comes before the end");
    end(&mut talk);
    let expected = [push(3, &["a0", "b:2", "c"]), push(1, &["a0", "a1"]), push(1, &["b:2"])];
    assert_eq!(told(&mut talk, &[&reader, &alone]), expected.join(" "));
    end(&mut talk);
    talk.say(&mut alone, "DEL d");
    end(&mut talk);
    assert_eq!(told(&mut talk, &[&reader, &alone]), "");
    // A deadline is nobody's doing, whoever has set it.
    talk.say(&mut alone, "SET a1 4 PX 5");
    end(&mut talk);
    assert_eq!(told(&mut talk, &[&reader, &alone]), push(1, &["a1"]));
    talk.keyspace.set_now(talk.keyspace.now() + 10);
    assert_eq!(talk.say(&mut alone, "GET a1"), "_|");
    end(&mut talk);
    assert_eq!(told(&mut talk, &[&reader, &alone]), [push(3, &["a1"]), push(1, &["a1"])].join(" "));
    // Reads are not remembered.
    talk.say(&mut reader, "GET a0");
    assert_eq!(talk.server.tracking.table.len(), 0);
    talk.say(&mut reader, "RESET");
    talk.say(&mut alone, "CLIENT TRACKING OFF");
    assert_eq!(talk.server.tracking.figures()[2].1, 0);
}

#[test]
fn keys_that_end_without_a_request_are_told_at_the_end_of_the_iteration() {
    let (mut talk, mut reader, mut writer) = tracked("");
    talk.say(&mut writer, "SET k v PX 5");
    talk.say(&mut reader, "GET k");
    talk.keyspace.set_now(talk.keyspace.now() + 10);
    assert_eq!(talk.keyspace.remove_expired(10).unwrap(), 1);
    end(&mut talk);
    assert_eq!(told(&mut talk, &[&reader]), push(1, &["k"]));
}

#[test]
fn a_flush_and_a_swap_are_told_to_all() {
    for line in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"] {
        let (mut talk, mut reader, mut writer) = tracked(" OPTOUT NOLOOP");
        let mut other = client(&mut talk, 3);
        talk.say(&mut other, "CLIENT TRACKING ON BCAST PREFIX x");
        talk.say(&mut reader, "GET k");
        talk.say(&mut reader, line);
        assert_eq!(told(&mut talk, &[&reader, &other]), format!("{FLUSH} {}", FLUSH.replace("1:", "3:")), "{line}");
        talk.say(&mut writer, "SET k 1");
        assert_eq!((told(&mut talk, &[&reader, &other]).as_str(), talk.server.tracking.table.len()), ("", 0), "{line}");
    }
}

#[test]
fn a_redirection_needs_its_target() {
    let mut talk = Talk::new();
    let (mut reader, mut writer) = (client(&mut talk, 1), client(&mut talk, 2));
    let mut target = talk.client(3);
    talk.server.update(&target, 0);
    assert_eq!(talk.say(&mut reader, "CLIENT GETREDIR"), ":-1|");
    assert_eq!(talk.say(&mut reader, "CLIENT TRACKING ON REDIRECT 3"), "+OK|");
    assert_eq!(talk.say(&mut reader, "CLIENT GETREDIR"), ":3|");
    let mut change = |talk: &mut Talk, reader: &mut Session, target: &Session| {
        talk.say(reader, "GET k");
        talk.say(&mut writer, "INCR k");
        told(talk, &[reader, target])
    };
    assert_eq!(change(&mut talk, &mut reader, &target), "3:", "a client that does not listen hears nothing");
    talk.say(&mut target, "SUBSCRIBE any");
    let message = "3:*3|$7|message|$20|__redis__:invalidate|*1|$1|k|";
    assert_eq!(change(&mut talk, &mut reader, &target), message);
    target.protocol = Protocol::Resp3;
    assert_eq!(change(&mut talk, &mut reader, &target), push(3, &["k"]));
    talk.server.kill(3);
    assert_eq!(talk.server.tracking.flags(1), [true, false, false]);
    assert_eq!(change(&mut talk, &mut reader, &target), "1:>2|$21|tracking-redir-broken|:3|");
    assert_eq!(talk.server.tracking.flags(1), [true, true, false]);
    let info = talk.say(&mut reader, "CLIENT TRACKINGINFO");
    assert_eq!(info, "%3|$5|flags|~2|$2|on|$15|broken_redirect|$8|redirect|:3|$8|prefixes|*0|");
    let line = talk.say(&mut reader, "CLIENT INFO");
    assert!(line.contains(" flags=tR ") && line.contains(" redir=3 "), "{line}");
    talk.say(&mut reader, "CLIENT TRACKING ON");
    assert_eq!(talk.server.tracking.flags(1), [true, false, false]);
    assert_eq!(change(&mut talk, &mut reader, &target), push(1, &["k"]));
}

/// The declared keys of a script are remembered if a command of the script has read anything.
#[test]
fn a_script_that_reads_has_read_what_it_declares() {
    let (mut talk, mut session, _) = tracked("");
    for (is_read, name) in [(false, "EVAL"), (true, "EVAL"), (false, "EVAL_RO"), (true, "FCALL_RO")] {
        let reads = session.reads;
        if is_read {
            talk.say(&mut session, "GET inner");
        }
        let arguments: [&[u8]; 6] = [name.as_bytes(), b"text", b"2", b"a", b"b", b"no key"];
        let units = talk.server.units;
        let unit = units.get(units.find(name.as_bytes()).unwrap());
        let mut out = Vec::new();
        let reply = Writer::new(&mut out, Protocol::Resp3);
        let mut context =
            Context { keyspace: &mut talk.keyspace, server: &mut talk.server, session: &mut session, late: &mut Alone, reply };
        ran(&mut context, unit, &arguments, reads);
        let table = &mut talk.server.tracking.table;
        let known = ["inner", "a", "b", "no key"].map(|key| table.has(key.as_bytes(), 1));
        assert_eq!(known, [is_read, is_read, is_read, false], "{name}");
        table.clear();
    }
}

/// The table is brought below its limit with growing effort; each evicted key is told to its readers.
#[test]
fn the_table_has_a_limit() {
    let (mut talk, mut reader, mut writer) = tracked(" NOLOOP");
    (0..250).for_each(|n| drop(talk.say(&mut reader, &format!("GET k{n}"))));
    assert_eq!(told(&mut talk, &[&reader]), "");
    talk.server.configuration.tracking_keys_max = 3;
    let mut evict = |talk: &mut Talk| {
        talk.say(&mut writer, "PING");
        (told(talk, &[&reader]).matches("invalidate|*1|").count(), talk.server.tracking.table.len())
    };
    assert_eq!([evict(&mut talk), evict(&mut talk), evict(&mut talk)], [(100, 150), (147, 3), (0, 3)]);
    talk.server.configuration.tracking_keys_max = 0;
    assert_eq!(evict(&mut talk), (0, 3));
    assert_eq!(talk.server.tracking.attempts, 0);
}

#[test]
fn nothing_is_kept_when_nobody_tracks() {
    let (mut talk, mut reader, mut writer) = tracked("");
    talk.say(&mut reader, "MGET a b");
    talk.say(&mut reader, "RESET");
    assert!(!talk.server.tracking.is_on() && talk.server.tracking.table.len() == 0);
    end(&mut talk);
    talk.say(&mut writer, "SET a 1");
    assert_eq!((talk.keyspace.take_stale().len(), told(&mut talk, &[])), (0, String::new()));
    // A client that ends leaves its number to others who track.
    let (mut third, mut fourth) = (client(&mut talk, 3), client(&mut talk, 4));
    for session in [&mut third, &mut fourth] {
        talk.say(session, "CLIENT TRACKING ON");
        talk.say(session, "GET a");
    }
    talk.server.leave(3);
    assert_eq!(talk.server.tracking.figures().map(|(_, number)| number), [1, 2, 0]);
    talk.say(&mut writer, "SET a 2");
    assert_eq!(told(&mut talk, &[&fourth]), push(4, &["a"]));
    assert_eq!(talk.server.tracking.table.items(), 0);
}

/// A count that takes many steps is of the moment when it began: a change meanwhile makes it stale, although the client has no reply yet.
#[test]
fn a_key_that_changes_during_a_long_count_is_stale() {
    let (mut talk, mut reader, mut writer) = tracked(" OPTIN");
    reader.can_step = true;
    talk.keyspace.set_string(0, b"k", &vec![1; 2 * LONG], None).unwrap();
    talk.keyspace.commit(&WriteOptions::default()).unwrap();
    for changes in [true, false] {
        talk.say(&mut reader, "CLIENT CACHING YES");
        let mut out = Vec::new();
        execute(&mut talk.keyspace, &mut talk.server, &mut reader, &[b"BITCOUNT", b"k"], &mut out);
        assert!(reader.is_in_steps());
        if changes {
            talk.say(&mut writer, "SETBIT k 0 1");
            assert_eq!(told(&mut talk, &[&reader]), push(1, &["k"]));
        }
        while reader.is_in_steps() {
            work(&mut talk.keyspace, &mut talk.server, &mut reader, u64::MAX, &mut out);
        }
        end_steps(&mut talk.keyspace, &mut talk.server, &mut reader);
        assert_eq!((out.first(), reader.caching), (Some(&b':'), false));
        assert_eq!(told(&mut talk, &[&reader]), if changes { push(1, &["k"]) } else { String::new() });
        assert_eq!(talk.server.tracking.table.len(), usize::from(!changes));
    }
}

#[test]
fn options_are_refused_as_redis_does() {
    let mut talk = Talk::new();
    let mut session = client(&mut talk, 1);
    const SWITCH: &str = "mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.|";
    const OVERLAP: &str = "Prefixes for a single client must not overlap.|";
    let opt = SWITCH.replace("mode on/off", "mode");
    for (options, reply) in [
        ("MAYBE", "-ERR syntax error|".into()),
        ("ON REDIRECT", "-ERR syntax error|".into()),
        ("ON PREFIX", "-ERR syntax error|".into()),
        ("OFF NOSUCH", "-ERR syntax error|".into()),
        ("ON REDIRECT x", "-ERR value is not an integer or out of range|".into()),
        ("OFF REDIRECT 9", "-ERR The client ID you want redirect to does not exist|".into()),
        ("ON REDIRECT -1", "-ERR The client ID you want redirect to does not exist|".into()),
        ("ON REDIRECT 1 REDIRECT 1", "-ERR A client can only redirect to a single other client|".into()),
        ("ON PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled|".into()),
        ("ON BCAST OPTIN", "-ERR OPTIN and OPTOUT are not compatible with BCAST|".into()),
        ("ON OPTIN OPTOUT", "-ERR You can't specify both OPTIN mode and OPTOUT mode|".into()),
        ("ON BCAST PREFIX ab PREFIX a", format!("-ERR Prefix 'ab' overlaps with another provided prefix 'a'. {OVERLAP}")),
        ("ON BCAST PREFIX x PREFIX a PREFIX ab", format!("-ERR Prefix 'a' overlaps with another provided prefix 'ab'. {OVERLAP}")),
        ("on redirect 1 noloop optin", "+OK|".into()),
        ("ON BCAST", format!("-ERR You can't switch BCAST {SWITCH}")),
        ("ON OPTOUT", format!("-ERR You can't switch OPTIN/OPTOUT {opt}")),
        ("ON", "+OK|".into()),
        ("OFF", "+OK|".into()),
        ("OFF", "+OK|".into()),
        ("ON BCAST PREFIX foo PREFIX bar", "+OK|".into()),
        ("ON BCAST PREFIX fo", format!("-ERR Prefix 'fo' overlaps with an existing prefix 'foo'. {OVERLAP}")),
        ("ON BCAST PREFIX barb", format!("-ERR Prefix 'barb' overlaps with an existing prefix 'bar'. {OVERLAP}")),
        ("ON BCAST PREFIX c", "+OK|".into()),
        ("ON", format!("-ERR You can't switch BCAST {SWITCH}")),
    ] {
        assert_eq!(talk.say(&mut session, &format!("CLIENT TRACKING {options}")), reply, "{options}");
    }
    let info = talk.say(&mut session, "CLIENT TRACKINGINFO");
    assert_eq!(info, "%3|$5|flags|~2|$2|on|$5|bcast|$8|redirect|:0|$8|prefixes|*3|$3|bar|$1|c|$3|foo|");
}
