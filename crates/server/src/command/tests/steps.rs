//! Requests whose work takes many event-loop iterations: the outcome equals that of doing the work at once, whatever others do meanwhile.

use super::Talk;
use crate::command::hub::Topic;
use crate::command::{Ended, Session, end_steps, execute, work};
use crate::keyspace::{Error, LONG};
use crate::testing::Random;
use sinterdb::WriteOptions;

/// A string of several steps, with long runs of equal bits.
fn long(more: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut value: Vec<u8> = (0..LONG + more).map(|_| random.below(256) as u8).collect();
    value[..300_000].fill(0);
    value[300_000..600_000].fill(0xff);
    value
}

/// A client's connection, without a network.
struct Peer {
    session: Session,
    out: Vec<u8>,
}

impl Peer {
    fn new(talk: &Talk, id: u64) -> Peer {
        let mut session = talk.client(id);
        session.can_step = true;
        Peer { session, out: Vec::new() }
    }

    fn commit(talk: &mut Talk) {
        talk.keyspace.commit(&WriteOptions::default()).unwrap();
    }

    /// Sends a request; the argument with index `value` was uploaded in parts.
    fn ask(&mut self, talk: &mut Talk, words: &[&[u8]], value: Option<usize>) {
        let mut words = words.to_vec();
        if let Some(value) = value {
            let mut upload = talk.keyspace.begin_upload().unwrap();
            for part in words[value].chunks(300_001) {
                talk.keyspace.upload(&mut upload, part);
                Self::commit(talk);
            }
            words[value] = b"";
            (self.session.uploaded, self.session.is_uploaded) = (Some(upload), true);
        }
        self.out.clear();
        let ended = execute(&mut talk.keyspace, &mut talk.server, &mut self.session, &words, &mut self.out);
        assert_eq!(ended, Ended::Open);
        if self.session.is_in_steps() {
            assert!(self.out.is_empty(), "no reply before the end");
        } else {
            end_steps(&mut talk.keyspace, &mut talk.server, &mut self.session);
        }
        Self::commit(talk);
    }

    fn step(&mut self, talk: &mut Talk) {
        work(&mut talk.keyspace, &mut talk.server, &mut self.session, 0, &mut self.out);
        Self::commit(talk);
    }

    /// The reply, with the long strings in it, and the number of steps.
    fn end(&mut self, talk: &mut Talk) -> (Vec<u8>, usize) {
        let mut steps = 0;
        while self.session.is_in_steps() {
            self.step(talk);
            steps += 1;
        }
        let mut reply = std::mem::take(&mut self.out);
        for (place, mut string) in std::mem::take(&mut self.session.later).into_iter().rev() {
            let mut whole = Vec::new();
            while string.left() > 0 {
                string.read(100_000, &mut whole).unwrap();
            }
            reply.splice(place..place, whole);
        }
        (reply, steps)
    }
}

fn value(talk: &mut Talk, key: &[u8]) -> Option<(Vec<u8>, Option<u64>)> {
    let string = talk.keyspace.string(0, key).unwrap()?.to_vec();
    Some((string, talk.keyspace.find(0, key).unwrap().unwrap().deadline))
}

/// Words, the index of an uploaded argument, and whether the work is done in steps.
type Request<'a> = (Vec<&'a [u8]>, Option<usize>, bool);

/// Two servers with equal keys: one does all work at once.
fn twins() -> [Talk; 2] {
    std::array::from_fn(|_| {
        let mut talk = Talk::new();
        for (key, value, deadline) in [
            (&b"a"[..], long(7, 1), Some(5_000_000)),
            (b"b", long(900_000, 2), None),
            (b"zeros", vec![0; LONG + 100_000], None),
            (b"short", b"abc".to_vec(), Some(6_000_000)),
        ] {
            talk.keyspace.set_string(0, key, &value, deadline).unwrap();
        }
        Peer::commit(&mut talk);
        talk
    })
}

#[test]
fn the_outcome_is_that_of_work_at_once() {
    let [mut stepping, mut whole] = twins();
    let (mut peer, mut plain) = (Peer::new(&stepping, 1), Peer::new(&whole, 1));
    plain.session.can_step = false;
    let more = long(50_000, 3);
    plain.ask(&mut whole, &[b"DUMP", b"b"], None);
    let dumped = plain.end(&mut whole).0;
    let start = dumped.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut payload = dumped[start..dumped.len() - 2].to_vec();
    let good = payload.clone();
    payload[700_000] ^= 1;
    let requests: Vec<Request> = vec![
        (vec![b"COPY", b"a", b"c"], None, true),
        (vec![b"COPY", b"b", b"c"], None, false),
        (vec![b"COPY", b"b", b"c", b"REPLACE"], None, true),
        (vec![b"COPY", b"a", b"c", b"DB", b"1"], None, true),
        (vec![b"BITCOUNT", b"a"], None, true),
        (vec![b"BITCOUNT", b"b", b"-1900000", b"-3"], None, true),
        (vec![b"BITCOUNT", b"b", b"13", b"-5", b"BIT"], None, true),
        (vec![b"BITPOS", b"a", b"1"], None, true),
        (vec![b"BITPOS", b"zeros", b"1"], None, true),
        (vec![b"BITPOS", b"zeros", b"0"], None, true),
        (vec![b"BITPOS", b"zeros", b"1", b"3", b"-1"], None, true),
        (vec![b"BITPOS", b"b", b"0", b"5", b"15000000", b"BIT"], None, true),
        (vec![b"BITOP", b"AND", b"d", b"a", b"b"], None, true),
        (vec![b"BITOP", b"OR", b"d", b"short", b"a", b"none"], None, true),
        (vec![b"BITOP", b"XOR", b"a", b"a", b"b", b"zeros"], None, true),
        (vec![b"BITOP", b"NOT", b"e", b"b"], None, true),
        (vec![b"APPEND", b"a", &more], Some(2), true),
        (vec![b"APPEND", b"short", &more], Some(2), true),
        (vec![b"APPEND", b"new", &more], Some(2), false),
        (vec![b"SETRANGE", b"b", b"77", &more], Some(3), true),
        (vec![b"SETRANGE", b"b", b"2000001", &more], Some(3), true),
        (vec![b"SETRANGE", b"f", b"5", &more], Some(3), true),
        (vec![b"SETRANGE", b"f", b"0", &more], Some(3), true),
        (vec![b"RESTORE", b"g", b"0", &good], Some(3), true),
        (vec![b"RESTORE", b"g", b"0", &good], Some(3), false),
        (vec![b"RESTORE", b"h", b"9000000", &payload], Some(3), true),
        (vec![b"RESTORE", b"h", b"9000000", &good], Some(3), true),
        (vec![b"RESTORE", b"h", b"1", &good, b"REPLACE", b"ABSTTL"], Some(3), true),
        (vec![b"DUMP", b"b"], None, false),
        (vec![b"GETSET", b"b", &more], Some(2), false),
        (vec![b"MGET", b"a", b"b", b"short"], None, false),
    ];
    for (words, uploaded, is_stepped) in requests {
        let name = words.iter().take(3).map(|word| String::from_utf8_lossy(&word[..word.len().min(9)])).collect::<Vec<_>>().join(" ");
        peer.ask(&mut stepping, &words, uploaded);
        let (reply, steps) = peer.end(&mut stepping);
        plain.ask(&mut whole, &words, None);
        let expected = plain.end(&mut whole).0;
        assert!(reply == expected, "{name}: {:?}", String::from_utf8_lossy(&reply[..reply.len().min(100)]));
        assert_eq!(steps > 0, is_stepped, "{name}: {steps} steps");
        for key in [&b"a"[..], b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"short", b"new"] {
            assert!(value(&mut stepping, key) == value(&mut whole, key), "{name}: {}", key.escape_ascii());
        }
        assert_eq!((stepping.keyspace.size(0), stepping.keyspace.size(1)), (whole.keyspace.size(0), whole.keyspace.size(1)), "{name}");
        assert!(!stepping.keyspace.has_uploads(), "{name}");
    }
}

/// Whatever happens to a key between two steps, the outcome is as if the request had come afterwards.
#[test]
fn keys_that_change_meanwhile() {
    let more = long(3, 9);
    let requests: Vec<(Vec<&[u8]>, Option<usize>)> = vec![
        (vec![b"COPY", b"a", b"c", b"REPLACE"], None),
        (vec![b"BITOP", b"OR", b"c", b"a", b"zeros"], None),
        (vec![b"APPEND", b"a", &more], Some(2)),
        (vec![b"SETRANGE", b"a", b"9", &more], Some(3)),
    ];
    let meanwhile: &[&str] = &[
        "SETBIT a 8000000 1",
        "SETRANGE a 5 other",
        "SET a other",
        "DEL a",
        "LPUSH c x",
        "SET c x",
        "RENAME a elsewhere",
        "RENAME b a",
        "FLUSHALL",
        "FLUSHDB",
        "SWAPDB 0 1",
        "EXPIRE a 100",
        "PEXPIREAT a 1",
        "later",
    ];
    for (words, uploaded) in &requests {
        for line in meanwhile {
            let [mut stepping, mut whole] = twins();
            let (mut peer, mut plain) = (Peer::new(&stepping, 1), Peer::new(&whole, 1));
            plain.session.can_step = false;
            let mut other = stepping.client(2);
            peer.ask(&mut stepping, words, *uploaded);
            (0..2).for_each(|_| peer.step(&mut stepping));
            assert!(peer.session.is_in_steps());
            for talk in [&mut stepping, &mut whole] {
                if *line == "later" {
                    talk.keyspace.set_now(5_500_000);
                } else {
                    talk.say(&mut other, line);
                }
            }
            let (reply, _) = peer.end(&mut stepping);
            plain.ask(&mut whole, words, None);
            assert!(reply == plain.end(&mut whole).0, "{:?} {line}: {}", words[0].escape_ascii(), reply.escape_ascii());
            for key in [&b"a"[..], b"c", b"elsewhere"] {
                let what = |talk: &mut Talk| talk.keyspace.string(0, key).map(|found| found.map(<[u8]>::to_vec)).ok();
                assert!(what(&mut stepping) == what(&mut whole), "{} {line}: {}", words[0].escape_ascii(), key.escape_ascii());
            }
            assert!(!stepping.keyspace.has_uploads());
        }
    }
}

/// A key that changes again and again is still copied.
#[test]
fn a_key_that_never_rests() {
    let mut talk = Talk::new();
    talk.keyspace.set_string(0, b"a", &long(5, 1), None).unwrap();
    let (mut peer, mut other) = (Peer::new(&talk, 1), talk.client(2));
    peer.ask(&mut talk, &[b"COPY", b"a", b"b"], None);
    let mut steps = 0;
    while peer.session.is_in_steps() {
        talk.say(&mut other, &format!("SETRANGE a 700000 {steps}"));
        peer.step(&mut talk);
        steps += 1;
    }
    assert!((9..40).contains(&steps), "{steps}");
    assert_eq!(peer.out, b":1\r\n");
    assert!(value(&mut talk, b"b") == value(&mut talk, b"a") && !talk.keyspace.has_uploads());
}

/// Commands that only read see the string as it was when the request came.
#[test]
fn readers_see_one_moment() {
    let mut talk = Talk::new();
    let (mut peer, mut other) = (Peer::new(&talk, 1), talk.client(2));
    for line in ["SET a other", "DEL a", "LPUSH b x"] {
        talk.keyspace.set_string(0, b"a", &vec![1; LONG + 9], None).unwrap();
        peer.ask(&mut talk, &[b"BITCOUNT", b"a"], None);
        peer.step(&mut talk);
        talk.say(&mut other, line);
        let expected = format!(":{}\r\n", LONG + 9);
        assert_eq!(peer.end(&mut talk).0, expected.as_bytes(), "{line}");
    }
}

#[test]
fn a_request_that_is_given_up_leaves_nothing() {
    let mut talk = Talk::new();
    let more = long(1, 2);
    talk.keyspace.set_string(0, b"a", &long(5, 1), None).unwrap();
    talk.say(&mut talk.client(3), "SET c old");
    for (words, uploaded) in [
        (vec![&b"COPY"[..], b"a", b"c", b"REPLACE"], None),
        (vec![b"BITOP", b"NOT", b"c", b"a"], None),
        (vec![b"APPEND", b"c", &more], Some(2)),
    ] {
        for steps in [0, 1, 3] {
            let mut peer = Peer::new(&talk, 1);
            peer.ask(&mut talk, &words, uploaded);
            (0..steps).for_each(|_| peer.step(&mut talk));
            assert!(peer.session.is_in_steps() && talk.keyspace.has_uploads());
            end_steps(&mut talk.keyspace, &mut talk.server, &mut peer.session);
            assert!(!peer.session.is_in_steps() && !talk.keyspace.has_uploads());
            assert_eq!(value(&mut talk, b"c"), Some((b"old".to_vec(), None)));
        }
        // A batch that contains a part fails.
        let mut peer = Peer::new(&talk, 1);
        peer.ask(&mut talk, &words, uploaded);
        work(&mut talk.keyspace, &mut talk.server, &mut peer.session, 0, &mut peer.out);
        talk.keyspace.discard();
        let reply = peer.end(&mut talk).0;
        assert_eq!(reply, format!("-{}\r\n", Error::Lost).as_bytes());
        assert!(value(&mut talk, b"c") == Some((b"old".to_vec(), None)) && !talk.keyspace.has_uploads());
    }
}

#[test]
fn transactions_are_done_at_once_and_watches_see_the_change() {
    let mut talk = Talk::new();
    talk.keyspace.set_string(0, b"a", &long(5, 1), None).unwrap();
    let (mut peer, mut other) = (Peer::new(&talk, 1), talk.client(2));
    for words in [vec![&b"MULTI"[..]], vec![b"COPY", b"a", b"b"], vec![b"BITCOUNT", b"b"]] {
        peer.ask(&mut talk, &words, None);
    }
    peer.ask(&mut talk, &[b"EXEC"], None);
    let count = crate::bits::count(&long(5, 1));
    assert_eq!(String::from_utf8_lossy(&peer.out), format!("*2\r\n:1\r\n:{count}\r\n"));
    peer.ask(&mut talk, &[b"COPY", b"a", b"b", b"REPLACE"], None);
    for (steps, expected) in [(1, "*1|+PONG|"), (usize::MAX, "*-1|")] {
        talk.say(&mut other, "WATCH b");
        for _ in 0..steps {
            if peer.session.is_in_steps() {
                peer.step(&mut talk);
            } else {
                break;
            }
        }
        for line in ["MULTI", "PING"] {
            talk.say(&mut other, line);
        }
        assert_eq!(talk.say(&mut other, "EXEC"), expected);
    }
}

#[test]
fn a_key_is_told_of_once_and_a_silent_client_of_nothing() {
    let mut talk = Talk::new();
    talk.say(&mut talk.client(3), "CONFIG SET notify-keyspace-events KA");
    talk.keyspace.set_string(0, b"a", &long(5, 1), None).unwrap();
    talk.keyspace.set_string(0, b"over", b"x", Some(2_000_000)).unwrap();
    let (mut peer, mut other) = (Peer::new(&talk, 1), talk.client(2));
    talk.server.hub.add(9, Topic::Pattern, b"*");
    talk.keyspace.set_now(3_000_000);
    for line in ["CLIENT REPLY SKIP", "BITOP OR c a over"] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        peer.ask(&mut talk, &words, None);
    }
    assert_eq!(talk.server.hub.take().len(), 1, "a key has ended");
    talk.say(&mut other, "SETBIT a 0 1");
    talk.server.hub.take();
    let (reply, steps) = peer.end(&mut talk);
    assert!(reply.is_empty() && steps > 9, "{steps}");
    assert_eq!(talk.server.hub.take().len(), 1, "the key is set");
    assert_eq!(talk.keyspace.string_length(0, b"c").unwrap(), Some(LONG as u64 + 5));
    let usage = talk.say(&mut other, "INFO commandstats");
    assert!(usage.contains("cmdstat_bitop:calls=1,"), "{usage}");
}

#[test]
fn who_may_not_do_it_any_more_gets_an_error() {
    let mut talk = Talk::new();
    talk.keyspace.set_string(0, b"a", &long(5, 1), None).unwrap();
    let (mut peer, mut admin) = (Peer::new(&talk, 1), talk.client(2));
    talk.say(&mut admin, "ACL SETUSER alice on nopass ~* +@all");
    peer.ask(&mut talk, &[b"AUTH", b"alice", b"x"], None);
    peer.ask(&mut talk, &[b"COPY", b"a", b"b"], None);
    talk.say(&mut admin, "ACL SETUSER alice -copy");
    assert_eq!(peer.end(&mut talk).0, b"-NOPERM this user has no permissions to run the 'copy' command\r\n");
    assert!(!talk.keyspace.has_uploads() && talk.keyspace.size(0) == 1);
}

/// An iteration does no more than its share of steps, whatever the clock says.
#[test]
fn steps_are_bounded() {
    let mut talk = Talk::new();
    talk.keyspace.set_string(0, b"a", &long(2 << 20, 1), None).unwrap();
    Peer::commit(&mut talk);
    let mut peer = Peer::new(&talk, 1);
    for (until, most) in [(0, 512 << 10), (u64::MAX, 3 << 20)] {
        peer.ask(&mut talk, &[b"COPY", b"a", b"b", b"REPLACE"], None);
        while peer.session.is_in_steps() {
            work(&mut talk.keyspace, &mut talk.server, &mut peer.session, until, &mut peer.out);
            assert!(talk.keyspace.uncommitted() < 2 * most, "{}", talk.keyspace.uncommitted());
            Peer::commit(&mut talk);
        }
    }
}
