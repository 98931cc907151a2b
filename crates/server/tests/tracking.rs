//! Client-side caching, here and at a real `redis-server`: scripts of several clients (`common/play.rs` describes them), and random
//! commands with clients that track keys in every way. Invalidations must be equal, and come at the same places among the replies.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::commands::{Random, command};
use crate::common::play::{play, play_in};
use crate::common::{Client, Real, Reply, Served, encode};
use std::net::SocketAddr;

#[test]
fn readers_are_told_of_changes() {
    play_in(
        &["3"],
        "a: CLIENT TRACKING ON
         a: MGET x y z
         p: MSET x 1 y 2
         a?
         a?
         p: DEL x y z
         a.
         -- Own changes: behind the reply.
         a: GET x
         a: SET x 1
         a?
         a: HSET h f 1
         a: HGET h f
         a: HDEL h f
         a?
         a: PFADD c a b
         a: PFCOUNT c
         p: PFADD c z
         a?
         a: PFCOUNT c
         a: PFADD c y
         a?
         a: PFCOUNT c
         a: PFCOUNT c
         -- Behind the reply of a whole transaction.
         a: MGET x y
         a: MULTI
         a: GET x
         a: INCR x
         a: GET x
         a: INCR y
         a: EXEC
         a?
         a?
         p: SET x 9
         a?
         a: GET x
         a: MULTI
         a: FLUSHDB
         a: EXEC
         a?",
    );
}

#[test]
fn what_counts_as_a_read() {
    play_in(
        &["3"],
        "a: CLIENT TRACKING ON
         -- Databases are not told apart.
         p: SELECT 1
         a: GET x
         p: SET x 9
         a?
         p: SELECT 0
         -- A write that reads, and a read that fails.
         p: SET e 1
         a: GETEX e
         a: SET e 2 GET
         p: SET e 3
         a.
         a: LLEN e
         p: SET e 4
         a?
         -- Without a word of the value.
         a: EXISTS e e2
         a: TYPE e3
         a: OBJECT ENCODING e4
         a: TTL e5
         a: STRLEN e6
         p: MSET e 1 e2 1 e3 1 e4 1 e5 1 e6 1
         a?
         a?
         a?
         a?
         a?
         a?
         a: CLIENT TRACKING OFF
         a: GET x
         p: SET x 10
         a.",
    );
}

#[test]
fn each_kind_of_change_counts() {
    play_in(
        &["3"],
        "a: CLIENT TRACKING ON
         b: CLIENT TRACKING ON
         -- One client for each key: the order of invalidations of one command is nobody's concern.
         p: MSET s 1 t 2
         a: MGET s t
         b: GET u
         p: RENAME s u
         a?
         b?
         p: COPY t u REPLACE
         a: MGET t u
         p: COPY t u REPLACE
         a?
         p: MOVE t 1
         a?
         a: GET u
         p: EXPIRE u 100
         a?
         a: GET u
         p: PERSIST u
         a?
         a: GET u
         p: EXPIRE u -1
         a?",
    );
}

#[test]
fn changes_of_collections_count() {
    play_in(
        &["3"],
        "a: CLIENT TRACKING ON
         b: CLIENT TRACKING ON
         p: RPUSH l 2 1
         a: LRANGE m 0 -1
         p: SORT l STORE m
         a?
         a: LLEN l
         b: LLEN m
         p: LMOVE l m LEFT RIGHT
         a?
         b?
         p: SADD set a b
         a: SCARD set
         b: SCARD set2
         p: SMOVE set set2 a
         a?
         b?
         a: SMEMBERS set
         p: SINTERSTORE set none
         a?
         p: XADD st 1-1 f v
         a: XLEN st
         p: XGROUP CREATE st g 0
         p: XREADGROUP GROUP g c STREAMS st >
         p: XACK st g 1-1
         p: XSETID st 9-9
         a.
         p: XDEL st 1-1
         a?
         a: XLEN st2
         p: XGROUP CREATE st2 g 0 MKSTREAM
         a?
         a: GEOPOS geo x
         p: GEOADD geo 1 1 x
         a?
         a: GETBIT bits 7
         p: SETBIT bits 7 1
         a?
         p: SET d v
         a: GET d
         p: GETDEL d
         a?
         p: RPUSH list x
         a: LRANGE list 0 -1
         p: BLPOP list 0
         a?
         p: FLUSHALL
         a?
         b?
         a: FLUSHDB
         a?
         b?",
    );
}

#[test]
fn a_blocked_client_has_its_reply_before_the_invalidation() {
    play_in(
        &["3"],
        "p: RPUSH two a
         a: CLIENT TRACKING ON
         a: LRANGE two 0 -1
         a: BLMOVE one two LEFT LEFT 0 &
         p: RPUSH one x
         a? => $x
         a?
         a: XREAD BLOCK 0 STREAMS s $ &
         p: XADD s 1-1 f v
         a?
         a?
         a: BLPOP k 0.01
         p: RPUSH k x
         a.",
    );
}

#[test]
fn changes_are_broadcast() {
    play_in(
        &["3"],
        "a: CLIENT TRACKING ON BCAST PREFIX a: PREFIX b:
         b: CLIENT TRACKING ON BCAST NOLOOP
         a: CLIENT TRACKINGINFO
         b: CLIENT TRACKINGINFO
         p: MSET a:2 1 a:1 2 b:1 3 c 4
         a?
         a?
         b?
         p: MULTI
         p: INCR a:1
         p: DEL b:1
         p: INCR c
         p: EXEC
         a?
         a?
         b?
         b: SET a:1 5
         a?
         b.
         a: SET a:9 1
         a?
         b?
         a: GET a:1
         p: SET a:1 7
         a?
         b?
         -- More prefixes.
         a: CLIENT TRACKING ON BCAST PREFIX c
         p: SET c 1
         a?
         b?
         p: FLUSHALL
         a?
         b?
         a: CLIENT TRACKING OFF
         p: SET a:1 1
         b?
         a.
         -- From one mode into the other, what was read before is forgotten.
         a: CLIENT TRACKING ON
         a: GET a:1
         a: CLIENT TRACKING OFF
         a: CLIENT TRACKING ON BCAST PREFIX x
         p: SET a:1 2
         b?
         a.",
    );
}

#[test]
fn clients_say_what_they_cache() {
    play_in(
        &["3"],
        "a: CLIENT CACHING YES
         a: CLIENT TRACKING ON OPTIN
         a: CLIENT CACHING NO
         a: CLIENT CACHING MAYBE
         a: CLIENT CACHING YES
         a: CLIENT TRACKINGINFO
         a: GET x
         a: GET y
         a: CLIENT TRACKINGINFO
         p: MSET x 1 y 1
         a?
         a.
         a: CLIENT CACHING YES
         a: MULTI
         a: GET x
         a: GET y
         a: EXEC
         a: GET z
         p: MSET x 1 y 1 z 1
         a?
         a?
         a.
         a: CLIENT CACHING YES
         a: NOSUCH
         a: GET x
         p: SET x 1
         a.
         a: CLIENT TRACKING ON OPTOUT
         a: CLIENT TRACKING OFF
         a: CLIENT TRACKING ON OPTOUT NOLOOP
         a: CLIENT CACHING YES
         a: CLIENT CACHING NO
         a: CLIENT TRACKINGINFO
         a: GET x
         a: GET y
         a: SET y 2
         p: MSET x 1 y 1
         a.
         a: GET y
         p: SET y 3
         a?",
    );
}

#[test]
fn invalidations_are_redirected() {
    play(
        "l: SUBSCRIBE __redis__:invalidate
         a: CLIENT TRACKING ON REDIRECT #l
         a: GET k
         p: SET k 1
         l?
         p: SET k 2
         l.
         a: GET k
         a: SET k 3
         l?
         a.
         b: CLIENT TRACKING ON BCAST REDIRECT #l PREFIX x
         p: MSET x1 1 x2 2 y 3
         l?
         a: MULTI
         a: GET k
         a: SET k 3
         a: EXEC
         l?
         l: UNSUBSCRIBE __redis__:invalidate
         l: SUBSCRIBE other
         a: GET k
         p: SET k 1
         l?
         p: FLUSHALL
         l?
         l?",
    );
    play_in(
        &["2"],
        "a: CLIENT TRACKING ON
         a: GET k
         p: SET k 1
         a: GET k
         p: FLUSHALL
         a: PING
         l: PING
         a: CLIENT TRACKING ON REDIRECT #l
         a: GET k
         p: SET k 1
         l: PING",
    );
}

#[test]
fn invalidations_come_although_replies_are_off() {
    play_in(
        &["3"],
        "a: CLIENT TRACKING ON
         a: GET k
         a: CLIENT REPLY OFF ~
         p: SET k 1
         a?
         a: GET k ~
         a: CLIENT REPLY ON
         p: SET k 2
         a?
         a: GET k
         a: CLIENT REPLY SKIP ~
         a: SET k 3 ~
         a?
         a: PING",
    );
}

#[test]
fn options_are_checked_as_redis_does() {
    play(
        "a: CLIENT TRACKING
         a: CLIENT TRACKING MAYBE
         a: CLIENT TRACKING ON NOSUCH
         a: CLIENT TRACKING OFF NOSUCH
         a: CLIENT TRACKING ON REDIRECT
         a: CLIENT TRACKING ON REDIRECT x
         a: CLIENT TRACKING ON REDIRECT 0
         a: CLIENT TRACKING ON REDIRECT -1
         a: CLIENT TRACKING ON REDIRECT 99999999999
         a: CLIENT TRACKING OFF REDIRECT 99999999999
         b: PING
         a: CLIENT TRACKING ON REDIRECT #b REDIRECT #b
         a: CLIENT TRACKING ON PREFIX
         a: CLIENT TRACKING ON PREFIX x
         a: CLIENT TRACKING ON BCAST OPTIN
         a: CLIENT TRACKING ON BCAST OPTOUT
         a: CLIENT TRACKING ON OPTIN OPTOUT
         a: CLIENT TRACKING ON BCAST PREFIX FOOBAR PREFIX FOO
         a: CLIENT TRACKING ON BCAST PREFIX FOO PREFIX FOOBAR
         a: CLIENT TRACKING ON BCAST PREFIX FOO PREFIX FOO
         a: CLIENT TRACKINGINFO
         a: CLIENT GETREDIR
         a: CLIENT TRACKING ON BCAST PREFIX FOO PREFIX BAR
         a: CLIENT TRACKING ON BCAST PREFIX FO
         a: CLIENT TRACKING ON BCAST PREFIX BARB
         a: CLIENT TRACKING ON BCAST PREFIX FOO
         a: CLIENT TRACKING ON BCAST
         a: CLIENT TRACKINGINFO
         a: CLIENT TRACKING ON
         a: CLIENT TRACKING OFF
         a: CLIENT TRACKING OFF
         a: CLIENT TRACKING ON NOLOOP OPTIN
         a: CLIENT TRACKINGINFO
         a: CLIENT TRACKING ON OPTOUT
         a: CLIENT TRACKING ON BCAST
         a: CLIENT TRACKING ON
         a: CLIENT TRACKING ON OPTOUT
         a: CLIENT TRACKINGINFO
         a: CLIENT GETREDIR
         a: CLIENT CACHING
         a: CLIENT GETREDIR x
         a: CLIENT TRACKINGINFO x
         a: RESET
         a: CLIENT TRACKINGINFO
         p: CONFIG SET tracking-table-max-keys -1
         p: CONFIG SET tracking-table-max-keys x
         p: CONFIG SET tracking-table-max-keys 0
         p: CONFIG GET tracking-table-max-keys
         p: CONFIG SET tracking-table-max-keys 1000000",
    );
}

/// Redis replies with the error and switches tracking on with all prefixes, and says `OK`, too.
#[test]
fn overlapping_prefixes_are_refused_wherever_they_stand() {
    let served = Served::start();
    let mut client = served.client();
    let reply = client.ask(&[b"CLIENT", b"TRACKING", b"ON", b"BCAST", b"PREFIX", b"x", b"PREFIX", b"a", b"PREFIX", b"ab"]);
    assert!(reply.to_string().starts_with("-ERR Prefix \\'a\\' overlaps with another provided prefix \\'ab\\'."), "{reply}");
    assert_eq!(client.ask(&[b"CLIENT", b"GETREDIR"]), Reply::One(b":-1".to_vec()));
}

fn server_figures(client: &mut Client) -> Vec<String> {
    let mut text = [&b"stats"[..], b"clients"].map(|section| client.ask(&[b"INFO", section]).to_string()).concat();
    text = text.replace("\\r\\n", "\n");
    let mut lines: Vec<String> = text.lines().filter(|line| line.starts_with("tracking_")).map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Checks that a client learns that the one to which it redirects is gone.
fn check_broken(address: SocketAddr) {
    let [mut reader, mut target, mut writer] = [(); 3].map(|()| Client::new(address));
    reader.ask(&[b"HELLO", b"3"]);
    let Reply::One(id) = target.ask(&[b"CLIENT", b"ID"]) else { panic!("a number") };
    assert_eq!(reader.ask(&[b"CLIENT", b"TRACKING", b"ON", b"REDIRECT", &id[1..]]), Reply::One(b"+OK".to_vec()));
    reader.ask(&[b"GET", b"k"]);
    let line = |client: &mut Client| client.ask(&[b"CLIENT", b"INFO"]).to_string();
    let redirects = format!(" redir={} ", &String::from_utf8_lossy(&id[1..]));
    let before = line(&mut reader);
    assert!(before.contains(" flags=t ") && before.contains(&redirects), "{before}");
    assert_eq!(target.ask(&[b"QUIT"]), Reply::One(b"+OK".to_vec()));
    assert_eq!(target.reply(), None);
    writer.ask(&[b"SET", b"k", b"1"]);
    let broken = Reply::Many(b'>', vec![Reply::One(b"$tracking-redir-broken".to_vec()), Reply::One(id.clone())]);
    assert_eq!(reader.reply(), Some(broken));
    let after = line(&mut reader);
    assert!(after.contains(" flags=tR ") && after.contains(&redirects), "{after}");
    let info = reader.ask(&[b"CLIENT", b"TRACKINGINFO"]).to_string();
    assert!(info.contains("$on $broken_redirect"), "{info}");
    reader.ask(&[b"CLIENT", b"TRACKING", b"OFF"]);
    reader.ask(&[b"CLIENT", b"TRACKING", b"ON", b"BCAST"]);
    let line = line(&mut reader);
    assert!(line.contains(" flags=tB ") && line.contains(" redir=0 "), "{line}");
}

#[test]
fn a_client_that_redirects_to_nobody_is_told_so() {
    let served = Served::start();
    check_broken(served.address);
    let Some(real) = Real::start() else { return };
    check_broken(real.address());
}

/// The table is small: each read evicts another key, and its reader is told. The client that reads knows no more keys than the table.
#[test]
fn keys_beyond_the_limit_are_evicted() {
    let served = Served::start();
    let (mut reader, mut control) = (served.client(), served.client());
    reader.ask(&[b"HELLO", b"3"]);
    reader.ask(&[b"CLIENT", b"TRACKING", b"ON"]);
    control.ask(&[b"CONFIG", b"SET", b"tracking-table-max-keys", b"10"]);
    let mut cached = std::collections::BTreeSet::new();
    for n in 0..100 {
        let key = format!("key{n}");
        assert_eq!(reader.ask(&[b"GET", key.as_bytes()]), Reply::One(b"_".to_vec()));
        cached.insert(key);
        if n >= 10 {
            let told = reader.reply().unwrap().to_string();
            let evicted = told.strip_prefix(">2($invalidate *1($").and_then(|rest| rest.strip_suffix(" ) )")).unwrap_or_default();
            assert!(cached.remove(evicted), "{told}");
        }
    }
    assert_eq!(cached.len(), 10);
    assert!(server_figures(&mut control).contains(&"tracking_total_keys:10".to_owned()));
    // A server at rest does it as well.
    for n in 0..9 {
        control.ask(&[b"CONFIG", b"SET", b"tracking-table-max-keys", format!("{}", 9 - n).as_bytes()]);
        assert!(reader.reply().unwrap().to_string().starts_with(">2($invalidate *1("));
    }
}

/// Clients of one server.
struct Group {
    clients: Vec<Client>,
}

/// The way in which each client of a group tracks keys; the last one only listens, in RESP2.
const WAYS: &[&str] = &[
    "CLIENT TRACKING ON",
    "CLIENT TRACKING ON NOLOOP",
    "CLIENT TRACKING ON OPTIN",
    "CLIENT TRACKING ON OPTOUT NOLOOP",
    "CLIENT TRACKING ON BCAST PREFIX key1 PREFIX key2 PREFIX stream NOLOOP",
    "CLIENT TRACKING ON BCAST",
    "PING",
];

impl Group {
    fn new(address: SocketAddr) -> Group {
        let mut group = Group { clients: WAYS.iter().map(|_| Client::new(address)).collect() };
        for (client, way) in group.clients.iter_mut().zip(WAYS) {
            client.ask(&[b"HELLO", b"3"]);
            let reply = client.ask(&way.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            assert!(matches!(&reply, Reply::One(text) if text.starts_with(b"+")), "{way}: {reply}");
        }
        // One with RESP2 that listens, and one that redirects to it.
        let (mut listener, mut reader) = (Client::new(address), Client::new(address));
        let Reply::One(id) = listener.ask(&[b"CLIENT", b"ID"]) else { panic!("a number") };
        listener.ask(&[b"SUBSCRIBE", b"__redis__:invalidate"]);
        assert_eq!(reader.ask(&[b"CLIENT", b"TRACKING", b"ON", b"REDIRECT", &id[1..]]), Reply::One(b"+OK".to_vec()));
        group.clients.extend([reader, listener]);
        group
    }

    /// Sends a request from one of the clients. Returns the messages before the reply, and behind it those of all clients, sorted by client
    /// and text.
    fn act(&mut self, who: usize, words: &[String]) -> [Vec<String>; 2] {
        self.clients[who].send(&encode(words));
        let is_message = |reply: &Reply| matches!(reply, Reply::Many(b'>', _));
        let next = |client: &mut Client| Some(client.reply().unwrap()).filter(is_message);
        let before: Vec<String> = std::iter::from_fn(|| next(&mut self.clients[who])).map(|message| message.to_string()).collect();
        let mut behind = Vec::new();
        for (n, client) in self.clients.iter_mut().enumerate() {
            client.send(&encode(&["PING"]));
            let is_pong = |text: &str| text == "+PONG" || text.starts_with("*2($pong");
            let messages = std::iter::from_fn(|| Some(client.reply().unwrap().to_string()).filter(|text| !is_pong(text)));
            behind.extend(messages.map(|text| format!("{n}: {text}")));
        }
        behind.sort();
        [before, behind]
    }
}

/// A command for one of the clients; `None`: one that is left out. Transactions change what a client may send. Redis does not tell of
/// swapped databases, of groups of a stream that are removed, of another form of a HyperLogLog, and of a string that `BITFIELD` lengthens
/// without changing a number. It remembers one key if a command with 1.5 keys is refused.
fn drawn(random: &mut Random) -> Option<Vec<String>> {
    let words = match random.below(20) {
        0 => "CLIENT CACHING YES".split(' ').map(str::to_owned).collect(),
        1 => "CLIENT CACHING NO".split(' ').map(str::to_owned).collect(),
        2 if random.below(30) == 0 => vec!["FLUSHALL".into()],
        _ => command(random),
    };
    let left_out =
        ["MULTI", "EXEC", "DISCARD", "WATCH", "SWAPDB", "DEBUG", "PFDEBUG", "BITFIELD", "MONITOR", "RESET", "QUIT", "WAIT", "CLIENT"];
    let second = words.get(1).map(String::as_str);
    let is_left_out =
        left_out.contains(&words[0].as_str()) && second != Some("CACHING") || [Some("DESTROY"), Some("1.5")].contains(&second);
    (!is_left_out).then_some(words)
}

#[test]
fn invalidations_are_those_of_redis() {
    const COMMANDS: usize = 10_000;
    let Some(real) = Real::start() else {
        eprintln!("skipped: there is no redis-server 7.0 here to compare with");
        return;
    };
    let served = Served::start();
    let (mut ours, mut theirs) = (Group::new(served.address), Group::new(real.address()));
    let mut random = Random::new(5);
    let mut messages = 0;
    let mut shown = Vec::new();
    for n in 0..COMMANDS {
        let Some(words) = drawn(&mut random) else { continue };
        // The last client only listens.
        let who = random.below(ours.clients.len() - 1);
        shown.push(format!("{who}: {words:?}"));
        let (heard, expected) = (ours.act(who, &words), theirs.act(who, &words));
        assert_eq!(heard, expected, "ours, then theirs, {n}, after\n{}", shown[shown.len().saturating_sub(15)..].join("\n"));
        messages += heard.iter().map(Vec::len).sum::<usize>();
        if n % 4 == 0 {
            let [ours, theirs] = [&mut ours, &mut theirs].map(|group| server_figures(&mut group.clients[0]));
            assert_eq!((ours.len(), &ours), (4, &theirs), "{n}, after\n{}", shown[shown.len().saturating_sub(8)..].join("\n"));
        }
    }
    assert!(messages > COMMANDS / 5, "{messages} messages prove little");
}
