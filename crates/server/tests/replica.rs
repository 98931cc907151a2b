//! This server as a replica: of a real `redis-server`, of itself, in chains, and of primaries that break the protocol.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod failures;
mod handover;
mod links;

use crate::append::send;
use crate::common::beside::compare;
use crate::common::commands::Random;
use crate::common::contents::{NOT_IN_LOGS, NOT_IN_STREAMS, ok, same};
use crate::common::{Client, Real, Reply, encode};
use crate::replication::{field, fill, follower, serve, served, settled, until};
use sinter_storage::store::MemoryStore;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn ask(client: &mut Client, line: &str) -> String {
    let words: Vec<String> = line.split(' ').map(|word| word.replace('␣', " ")).collect();
    client.ask(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>()).to_string()
}

/// `replicaof` of a server.
fn of(address: SocketAddr) -> String {
    format!("{} {}", address.ip(), address.port())
}

/// A real server; `None`: there is none here.
fn real() -> Option<Real> {
    let real = Real::start();
    if real.is_none() {
        eprintln!("skipped: there is no redis-server 7.0 here");
    }
    real
}

/// Refuses `DEBUG`: a real primary does not send keys of `DEBUG POPULATE` to its replicas.
fn without_debug(client: &mut Client) {
    ok(client, &[b"ACL", b"SETUSER", b"default", b"-debug"]);
}

/// Waits until a replica's link is up.
fn linked(replica: &mut Client) {
    until("the link is up", || field(replica, "master_link_status") == "up");
}

/// Waits until a replica has everything that its primary has sent.
fn level(primary: &mut Client, replica: &mut Client) {
    linked(replica);
    ok(primary, &[b"SET", b"level", b"1"]);
    until("the replica has everything", || field(replica, "slave_repl_offset") == field(primary, "master_repl_offset"));
}

/// All shapes of commands, before the replica comes, while it gets the data, and afterwards.
#[test]
fn a_real_redis_is_followed() {
    for seed in 0..3 {
        let Some(real) = real() else { return };
        let (mut random, mut client, mut control) = (Random::new(700 + seed), real.client(), real.client());
        without_debug(&mut control);
        client.ask(&[b"HELLO", if seed % 2 == 0 { b"2" } else { b"3" }]);
        send(&mut client, &mut random, 1500);
        let served = served(&[("replicaof", &of(real.address()))]);
        let mut ours = served.client();
        for step in 0..4 {
            send(&mut client, &mut random, 600);
            // What is about to end has ended when both are asked.
            std::thread::sleep(Duration::from_millis(40));
            settled(&mut control);
            same(&mut ours, &mut control, NOT_IN_STREAMS, &format!("seed {seed}, step {step}"));
        }
        assert_eq!((field(&mut control, "sync_full"), field(&mut control, "sync_partial_err")), ("1".into(), "0".into()));
        assert_eq!((field(&mut ours, "role"), field(&mut ours, "master_replid")), ("slave".into(), field(&mut control, "master_replid")));
    }
}

/// The link breaks, and the replica is started again, while clients write: it goes on where it was.
#[test]
fn a_restarted_replica_goes_on_where_it_was() {
    let Some(real) = real() else { return };
    let mut control = real.client();
    // More than the writer sends while the replica is away.
    ok(&mut control, &[b"CONFIG", b"SET", b"repl-backlog-size", b"256mb"]);
    fill(&mut control, 2000);
    let (stops, store) = (AtomicBool::new(false), Arc::new(MemoryStore::new()));
    let replicaof = of(real.address());
    std::thread::scope(|scope| {
        let (mut client, stops) = (real.client(), &stops);
        scope.spawn(move || {
            let mut random = Random::new(5);
            while !stops.load(Ordering::Acquire) {
                let n = random.below(3000);
                ask(&mut client, &format!("SELECT {}", n % 3));
                client.send(&[encode(&["MULTI"]), encode(&["INCR", "n"]), encode(&["LPUSH", "l", &"v".repeat(n)])].concat());
                client.send(&[encode(&["LTRIM", "l", "0", "30"]), encode(&["EXEC"])].concat());
                (0..5).for_each(|_| assert!(client.reply().is_some()));
            }
        });
        let stop = Stop(stops);
        for round in 0..5 {
            let served = serve(&[("replicaof", &replicaof)], &store);
            let mut ours = served.client();
            // Each start but the first one goes on, and so does each broken link.
            until("it has gone on", || field(&mut control, "sync_partial_ok") == (2 * round).to_string());
            linked(&mut ours);
            std::thread::sleep(Duration::from_millis(30));
            if round == 4 {
                drop(stop);
                std::thread::sleep(Duration::from_millis(50));
                settled(&mut control);
                same(&mut ours, &mut control, NOT_IN_STREAMS, "at the end");
                break;
            }
            assert_eq!(ask(&mut ours, "CLIENT KILL TYPE master"), ":1");
            until("the link is back", || field(&mut control, "sync_partial_ok") == (2 * round + 1).to_string());
            linked(&mut ours);
        }
        assert_eq!((field(&mut control, "sync_full"), field(&mut control, "sync_partial_err")), ("1".into(), "0".into()));
    });
}

/// Ends a writer, also when a check fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Chains in which each server has the data and the stream of the one before.
#[test]
fn chains_have_equal_data() {
    let Some(first) = real() else { return };
    let mut top = first.client();
    without_debug(&mut top);
    fill(&mut top, 500);
    let middle = served(&[("replicaof", &of(first.address()))]);
    linked(&mut middle.client());
    let Some((last, _folder)) = follower(&middle, &[]) else { return };
    let end = served(&[("replicaof", &of(last.address()))]);
    let mut bottom = end.client();
    linked(&mut bottom);
    let mut random = Random::new(11);
    let mut client = first.client();
    send(&mut client, &mut random, 500);
    std::thread::sleep(Duration::from_millis(40));
    level(&mut top, &mut bottom);
    for (name, mut client) in [("ours", middle.client()), ("real", last.client()), ("ours at the end", end.client())] {
        same(&mut client, &mut top, NOT_IN_STREAMS, name);
        assert_eq!(field(&mut client, "master_replid"), field(&mut top, "master_replid"), "{name}");
    }
    // A break in the middle is mended from the backlog of a replica, which has the primary's bytes.
    assert_eq!(ask(&mut middle.client(), "CLIENT KILL TYPE replica"), ":1");
    fill(&mut top, 100);
    level(&mut top, &mut bottom);
    same(&mut bottom, &mut top, NOT_IN_STREAMS, "after a break");
    assert_eq!((field(&mut middle.client(), "sync_full"), field(&mut middle.client(), "sync_partial_ok")), ("1".into(), "1".into()));
    // The middle is promoted: whoever follows it goes on without all data.
    ok(&mut middle.client(), &[b"REPLICAOF", b"NO", b"ONE"]);
    let mut top = middle.client();
    fill(&mut top, 300);
    level(&mut top, &mut bottom);
    same(&mut bottom, &mut top, NOT_IN_STREAMS, "after a promotion");
    assert_eq!(field(&mut top, "sync_full"), "1");
    // The former primary follows it, from where it was.
    let port = middle.address.port().to_string();
    ok(&mut first.client(), &[b"REPLICAOF", b"127.0.0.1", port.as_bytes()]);
    level(&mut top, &mut first.client());
    same(&mut first.client(), &mut top, NOT_IN_STREAMS, "the former primary");
    assert_eq!(field(&mut top, "sync_full"), "1");
}

/// Requests to a replica (`a`), some of them when it has lost its primary.
const REFUSED: [&str; 90] = [
    "a: SET k v",
    "a: FAILOVER",
    "a: FAILOVER x",
    "a: FAILOVER TO a",
    "a: FAILOVER TO a b",
    "a: FAILOVER TO a 1 TO b 2",
    "a: FAILOVER TO a 1 FORCE",
    "a: FAILOVER FORCE",
    "a: FAILOVER TIMEOUT 0",
    "a: FAILOVER TIMEOUT x",
    "a: FAILOVER TIMEOUT",
    "a: FAILOVER ABORT",
    "a: REPLICAOF NO ONE",
    "a: REPLICAOF x y",
    "a: REPLICAOF x",
    "a: REPLICAOF 127.0.0.1 65536",
    "a: REPLICAOF 127.0.0.1 -1",
    "a: CONFIG GET replicaof",
    "a: CONFIG SET replicaof x",
    "a: REPLICAOF 127.0.0.1 1",
    "a: REPLICAOF 127.0.0.1 1",
    "a: SLAVEOF 127.0.0.1 1",
    "a: CONFIG GET slaveof",
    "a: FAILOVER",
    "a: SET k w",
    "a: GET k",
    "a: DEL k",
    "a: EXPIRE k 10",
    "a: MULTI",
    "a: GET k",
    "a: EXEC",
    "a: MULTI",
    "a: SET k 1",
    "a: GET k",
    "a: EXEC",
    "a: FLUSHALL",
    "a: SWAPDB 0 1",
    "a: SORT k STORE d",
    "a: GEORADIUS k 1 2 3 m",
    "a: GEORADIUS_RO k 1 2 3 m",
    "a: XREADGROUP GROUP g c STREAMS s >",
    "a: PFADD k a",
    "a: PUBLISH x y",
    "a: RESTORE k 0 x",
    "a: MIGRATE 127.0.0.1 1 k 0 10",
    "a: COPY k l",
    "a: WAIT 0 0",
    "a: EVAL return␣redis.call('set','k','1') 0",
    "a: EVAL return␣redis.pcall('set','k','1') 0",
    "a: EVAL return␣redis.pcall('set','k','1').err 0",
    "a: EVAL return␣redis.call('get',KEYS[1]) 1 k",
    "a: EVAL_RO return␣redis.call('set',KEYS[1],'1') 1 k",
    "a: EVAL #!lua\nreturn␣redis.call('get',KEYS[1]) 1 k",
    "a: EVAL #!lua␣flags=no-writes\nreturn␣redis.call('get',KEYS[1]) 1 k",
    "a: EVAL #!lua␣flags=no-writes\nreturn␣redis.call('set',KEYS[1],'1') 1 k",
    "a: FUNCTION LOAD #!lua␣name=l\nredis.register_function('f',function()␣return␣1␣end)",
    "a: FUNCTION FLUSH",
    "a: FUNCTION LIST",
    "a: FCALL f 0",
    "a: PSYNC ? -1",
    "b: SYNC",
    "a: CLIENT KILL TYPE master",
    "a: CONFIG SET replica-announced maybe",
    "a: CONFIG SET replica-serve-stale-data no",
    "a: GET k",
    "a: SET k w",
    "a: PING",
    "a: MULTI",
    "a: GET k",
    "a: EXEC",
    "a: MULTI",
    "a: SELECT 0",
    "a: EXEC",
    "a: EVAL return␣1 0",
    "a: EVAL #!lua\nreturn␣1 0",
    "a: EVAL #!lua␣flags=allow-stale,no-writes\nreturn␣1 0",
    "a: EVAL #!lua␣flags=allow-stale,no-writes\nreturn␣redis.call('get','k') 0",
    "a: EVAL #!lua␣flags=allow-stale,no-writes\nreturn␣redis.call('echo','k') 0",
    "a: PUBLISH x y",
    "a: SUBSCRIBE x",
    "a: UNSUBSCRIBE x",
    "a: CONFIG SET replica-serve-stale-data yes",
    "a: CONFIG SET slave-read-only no",
    "a: SET k local",
    "a: GET k",
    "a: REPLICAOF NO ONE",
    "a: SET k z",
    "a: GET k",
    "a: CONFIG GET replicaof",
    "a: WAIT 0 0",
];

/// A replica, and one that has lost its primary, refuse as Redis does.
#[test]
fn a_replica_refuses_as_redis_does() {
    compare(&REFUSED, |_, reply| reply);
}

/// Clients that wait for keys of a primary are closed when it becomes a replica, as in Redis.
#[test]
fn blocked_clients_are_closed() {
    let served = served(&[]);
    let Some(real) = real() else { return };
    for (name, address) in [("ours", served.address), ("real", real.address())] {
        let (mut waiting, mut control) = (Client::new(address), Client::new(address));
        waiting.send(&encode(&["BLPOP", "none", "0"]));
        until("it is blocked", || field(&mut control, "blocked_clients") == "1");
        ok(&mut control, &[b"REPLICAOF", b"127.0.0.1", b"1"]);
        let text = "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
        assert_eq!(waiting.reply().map(|reply| reply.to_string()).as_deref(), Some(text), "{name}");
        assert_eq!(waiting.reply(), None, "{name}");
    }
}

/// Keys that have ended are hidden from clients until the primary removes them.
#[test]
fn ended_keys_wait_for_the_primary() {
    let Some(real) = real() else { return };
    let mut primary = real.client();
    ok(&mut primary, &[b"DEBUG", b"SET-ACTIVE-EXPIRE", b"0"]);
    let served = served(&[("replicaof", &of(real.address())), ("notify-keyspace-events", "KEA")]);
    let mut ours = served.client();
    linked(&mut ours);
    ok(&mut primary, &[b"SET", b"ends", b"1", b"PX", b"30"]);
    ok(&mut primary, &[b"SET", b"stays", b"1"]);
    level(&mut primary, &mut ours);
    std::thread::sleep(Duration::from_millis(60));
    for (line, reply) in [
        ("GET ends", "$-1"),
        ("EXISTS ends", ":0"),
        ("TTL ends", ":-2"),
        ("TYPE ends", "+none"),
        ("KEYS ends", "*0()"),
        ("DBSIZE", ":3"),
        ("MULTI", "+OK"),
        ("GET ends", "+QUEUED"),
        ("EXEC", "*1($-1 )"),
        ("EVAL return␣redis.call('exists',KEYS[1]) 1 ends", ":0"),
    ] {
        assert_eq!(ask(&mut ours, line), reply, "{line}");
    }
    // The primary appends to it, and has not removed it: its command finds the key here, too.
    let mut listener = served.client();
    listener.ask(&[b"SUBSCRIBE", b"__keyevent@0__:del"]);
    assert_eq!(ask(&mut primary, "EXISTS ends"), ":0");
    level(&mut primary, &mut ours);
    assert_eq!((ask(&mut ours, "DBSIZE"), field(&mut ours, "expired_keys")), (":2".into(), "0".into()));
    assert_eq!(listener.reply().unwrap().to_string(), "*3($message $__keyevent@0__:del $ends )");
    // A promoted server removes keys by itself.
    ok(&mut primary, &[b"SET", b"ends", b"1", b"PX", b"30"]);
    level(&mut primary, &mut ours);
    ok(&mut ours, &[b"REPLICAOF", b"NO", b"ONE"]);
    until("it is removed", || ask(&mut ours, "DBSIZE") == ":2");
}

/// When all data are replaced, transactions fail, copies become stale, and clients that wait are served.
#[test]
fn a_switch_disturbs_whoever_looks_at_the_data() {
    let (primary, replica) = (served(&[]), served(&[]));
    let (mut source, mut client, mut tracker, mut waiting) = (primary.client(), replica.client(), replica.client(), replica.client());
    ok(&mut source, &[b"SET", b"k", b"new"]);
    let library = "#!lua name=l\nredis.register_function{function_name='f', callback=function() return 7 end, flags={'no-writes'}}";
    assert_eq!(source.ask(&[b"FUNCTION", b"LOAD", library.as_bytes()]).to_string(), "$l");
    source.ask(&[b"XADD", b"stream", b"1-1", b"a", b"b"]);
    ok(&mut client, &[b"SET", b"k", b"old"]);
    ok(&mut client, &[b"WATCH", b"k"]);
    ok(&mut client, &[b"MULTI"]);
    client.ask(&[b"GET", b"k"]);
    tracker.ask(&[b"HELLO", b"3"]);
    ok(&mut tracker, &[b"CLIENT", b"TRACKING", b"ON"]);
    tracker.ask(&[b"GET", b"k"]);
    ok(&mut replica.client(), &[b"REPLICAOF", b"127.0.0.1", primary.address.port().to_string().as_bytes()]);
    waiting.send(&encode(&["XREAD", "BLOCK", "0", "STREAMS", "stream", "0"]));
    linked(&mut replica.client());
    assert_eq!(ask(&mut client, "EXEC"), "*-1");
    assert_eq!(tracker.reply().unwrap().to_string(), ">2($invalidate _ )");
    assert!(waiting.reply().unwrap().to_string().contains("$1-1"));
    assert_eq!((ask(&mut client, "GET k"), ask(&mut client, "FCALL f 0")), ("$new".into(), ":7".into()));
}

/// A primary that is none.
struct False(TcpListener);

impl False {
    fn new() -> False {
        False(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// Takes the replica's connection, answers its handshake, and sends these bytes in the place of the reply to `PSYNC`. Returns the
    /// connection, and what the replica had asked.
    fn serve(&self, bytes: &[u8]) -> (TcpStream, Vec<String>) {
        let (stream, _) = self.0.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut client = Client { stream: BufReader::new(stream) };
        let mut asked = Vec::new();
        loop {
            let request = client.reply().unwrap().to_string();
            let is_last = request.contains("$PSYNC");
            asked.push(request);
            client.send(if is_last { bytes } else { b"+OK\r\n" });
            if is_last {
                return (client.stream.into_inner(), asked);
            }
        }
    }
}

const ID: &str = "0123456789abcdef0123456789abcdef01234567";

/// An RDB file with a key.
fn file() -> Vec<u8> {
    use sinter_server::rdb::{Output, Version, kind};
    let mut out = Output::new(Vec::new());
    out.head(Version::Ten).unwrap();
    out.database(0, 1, 0).unwrap();
    out.key(kind::STRING, b"theirs", None).unwrap();
    out.string(b"value").unwrap();
    out.end().unwrap()
}

/// A primary that breaks the protocol leaves the old data as they are, and the replica comes back.
#[test]
fn nonsense_leaves_the_old_data() {
    let mut primary = False::new();
    let served = served(&[("repl-timeout", "1")]);
    let mut client = served.client();
    ok(&mut client, &[b"SET", b"mine", b"1"]);
    let whole = file();
    let full = format!("+FULLRESYNC {ID} 100\r\n");
    let with = |rest: &[u8]| [full.as_bytes(), rest].concat();
    let by_length = |length: usize, bytes: &[u8]| with(&[format!("${length}\r\n").as_bytes(), bytes].concat());
    let mut damaged = whole.clone();
    damaged[30] ^= 1;
    let of_module = [&b"REDIS0010\xfe\x00\x07\x01m\x81\0\0\0\0\0\0\0\0\0"[..], &[0; 30]].concat();
    let nonsense: [(&str, Vec<u8>); 12] = [
        ("no reply", b"hello\r\n".to_vec()),
        ("an error", b"-ERR no\r\n".to_vec()),
        ("a stream that nobody has asked for", b"+CONTINUE\r\n".to_vec()),
        ("a stream of that id", format!("+CONTINUE {ID}\r\n").into_bytes()),
        ("an id that is none", b"+FULLRESYNC x 1\r\n".to_vec()),
        ("no data", with(b"hello\r\n")),
        ("no file", by_length(10, b"0123456789")),
        ("a file that is cut", by_length(whole.len(), &whole[..whole.len() - 5])),
        ("a damaged file", by_length(damaged.len(), &damaged)),
        ("a length that is wrong", by_length(whole.len() + 3, &[&whole[..], b"abc"].concat())),
        ("another mark", with(&[format!("$EOF:{ID}\r\n").as_bytes(), &whole, &[b'x'; 40]].concat())),
        ("a value of a module", by_length(of_module.len(), &of_module)),
    ];
    for (what, bytes) in &nonsense {
        // Another primary each time: the same one would be asked after ever longer waits.
        primary = False::new();
        let port = primary.0.local_addr().unwrap().port().to_string();
        ok(&mut client, &[b"REPLICAOF", b"127.0.0.1", port.as_bytes()]);
        let (stream, asked) = primary.serve(bytes);
        assert!(asked.last().unwrap().contains("$PSYNC $? $-1"), "{what}: {asked:?}");
        // The link ends, or the replica waits in vain, which also ends it.
        let mut rest = BufReader::new(stream);
        while rest.fill_buf().is_ok_and(|some| !some.is_empty()) {
            let count = rest.buffer().len();
            rest.consume(count);
        }
        assert_eq!((ask(&mut client, "GET mine"), ask(&mut client, "DBSIZE")), ("$1".into(), ":1".into()), "{what}");
        assert_eq!((field(&mut client, "master_link_status"), field(&mut client, "role")), ("down".into(), "slave".into()), "{what}");
    }
    // Data that are whole, by mark, with empty lines before; then a stream with requests that fail, and at last nonsense.
    let (mut stream, _) = primary.serve(&with(&[b"\n\n", format!("$EOF:{ID}\r\n").as_bytes(), &whole, ID.as_bytes()].concat()));
    linked(&mut client);
    assert_eq!((ask(&mut client, "GET mine"), ask(&mut client, "GET theirs")), ("$-1".into(), "$value".into()));
    let good = [encode(&["SELECT", "2"]), encode(&["SET", "a", "1"]), encode(&["LPUSH", "a", "1"]), encode(&["SHUTDOWN"])].concat();
    let open = [encode(&["MULTI"]), encode(&["SET", "b", "1"])].concat();
    stream.write_all(&[&good[..], &open].concat()).unwrap();
    let expected = (100 + good.len()).to_string();
    until("the stream is applied", || field(&mut client, "slave_repl_offset") == expected);
    ok(&mut client, &[b"SELECT", b"2"]);
    assert_eq!((ask(&mut client, "GET a"), ask(&mut client, "EXISTS b")), ("$1".into(), ":0".into()));
    stream.write_all(b"*x\r\n").unwrap();
    until("the link is down", || field(&mut client, "master_link_status") == "down");
    // It goes on behind the last whole transaction, in the database that was selected there.
    let (mut stream, asked) = primary.serve(b"+CONTINUE\r\n");
    assert!(asked.last().unwrap().contains(&format!("$PSYNC ${ID} ${}", 101 + good.len())), "{asked:?}");
    stream.write_all(&[&open[..], &encode(&["EXEC"]), &encode(&["REPLCONF", "GETACK", "*"])].concat()).unwrap();
    until("the transaction is applied", || ask(&mut client, "GET b") == "$1");
    let mut replies = Client { stream: BufReader::new(stream) };
    let all = 100 + good.len() + open.len() + encode(&["EXEC"]).len() + encode(&["REPLCONF", "GETACK", "*"]).len();
    until("it is acknowledged", || replies.reply().unwrap().to_string().contains(&format!("$REPLCONF $ACK ${all} ")));
}

/// A server is not its own primary, and neither are two servers each other's.
#[test]
fn circles_lead_nowhere_and_lose_nothing() {
    let (one, two) = (served(&[]), served(&[]));
    let (mut first, mut second) = (one.client(), two.client());
    ok(&mut first, &[b"SET", b"a", b"1"]);
    ok(&mut second, &[b"SET", b"b", b"2"]);
    let follow = |client: &mut Client, port: u16| ok(client, &[b"REPLICAOF", b"127.0.0.1", port.to_string().as_bytes()]);
    follow(&mut first, one.address.port());
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!((ask(&mut first, "GET a"), field(&mut first, "master_link_status")), ("$1".into(), "down".into()));
    ok(&mut first, &[b"REPLICAOF", b"NO", b"ONE"]);
    follow(&mut second, one.address.port());
    linked(&mut second);
    follow(&mut first, two.address.port());
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!((ask(&mut first, "GET a"), ask(&mut second, "GET a")), ("$1".into(), "$1".into()));
    ok(&mut second, &[b"REPLICAOF", b"NO", b"ONE"]);
    linked(&mut first);
    ok(&mut second, &[b"SET", b"c", b"3"]);
    level(&mut second, &mut first);
    assert_eq!((ask(&mut first, "GET a"), ask(&mut first, "GET c")), ("$1".into(), "$3".into()));
}

/// `REPLICAOF` again and again while data are loaded, and the end of the server meanwhile.
#[test]
fn a_load_can_be_given_up_at_any_time() {
    let primaries = [served(&[]), served(&[])];
    for (number, primary) in primaries.iter().enumerate() {
        let mut client = primary.client();
        fill(&mut client, 4000);
        ok(&mut client, &[b"SET", b"number", number.to_string().as_bytes()]);
    }
    let store = Arc::new(MemoryStore::new());
    let replica = serve(&[], &store);
    let mut client = replica.client();
    ok(&mut client, &[b"SET", b"mine", b"1"]);
    for round in 0..12u64 {
        let port = primaries[usize::from(round % 2 == 1)].address.port().to_string();
        ok(&mut client, &[b"REPLICAOF", b"127.0.0.1", port.as_bytes()]);
        std::thread::sleep(Duration::from_millis(round * 3));
        if round % 5 == 4 {
            ok(&mut client, &[b"REPLICAOF", b"NO", b"ONE"]);
        }
    }
    linked(&mut client);
    assert_eq!((ask(&mut client, "GET number"), ask(&mut client, "GET mine")), ("$1".into(), "$-1".into()));
    let port = primaries[0].address.port().to_string();
    ok(&mut client, &[b"REPLICAOF", b"127.0.0.1", port.as_bytes()]);
    drop((client, replica));
    let replica = serve(&[], &store);
    let mut client = replica.client();
    let found = ask(&mut client, "GET number");
    assert!(found == "$1" || found == "$0", "{found}");
    ok(&mut client, &[b"REPLICAOF", b"127.0.0.1", port.as_bytes()]);
    level(&mut primaries[0].client(), &mut client);
    same(&mut client, &mut primaries[0].client(), NOT_IN_STREAMS, "at last");
}

/// A primary wants a password.
#[test]
fn a_password_is_given_to_the_primary() {
    let primary = served(&[("requirepass", "secret")]);
    let mut source = primary.client();
    ok(&mut source, &[b"AUTH", b"secret"]);
    source.ask(&[b"ACL", b"SETUSER", b"link", b"on", b">other", b"+psync", b"+replconf", b"+ping"]);
    let replica = served(&[("replicaof", &of(primary.address))]);
    let mut client = replica.client();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(field(&mut client, "master_link_status"), "down");
    ok(&mut client, &[b"CONFIG", b"SET", b"masteruser", b"link", b"masterauth", b"other"]);
    level(&mut source, &mut client);
    ok(&mut client, &[b"CONFIG", b"SET", b"masteruser", b"", b"masterauth", b"secret"]);
    assert_eq!(ask(&mut client, "CLIENT KILL TYPE master"), ":1");
    level(&mut source, &mut client);
}

/// A huge value, a huge transaction and scripts come through the stream at once.
#[test]
fn large_requests_come_through_the_stream() {
    let Some(real) = real() else { return };
    let served = served(&[("replicaof", &of(real.address()))]);
    let (mut primary, mut ours) = (real.client(), served.client());
    linked(&mut ours);
    let huge = vec![b'x'; 40 << 20];
    ok(&mut primary, &[b"SET", b"huge", &huge]);
    primary.ask(&[b"APPEND", b"huge", &huge]);
    primary.ask(&[b"SETRANGE", b"huge", b"70000000", b"y"]);
    primary.ask(&[b"BITOP", b"NOT", b"other", b"huge"]);
    primary.send(&encode(&["MULTI"]));
    (0..20_000).for_each(|n| primary.send(&encode(&["RPUSH", &format!("list{}", n % 7), &"v".repeat(n % 900)])));
    primary.send(&encode(&["EXEC"]));
    (0..20_002).for_each(|_| assert!(primary.reply().is_some()));
    let script = "for i = 1, 5000 do redis.call('SADD', KEYS[1], i) redis.call('HSET', KEYS[2], i, i) end";
    primary.ask(&[b"EVAL", script.as_bytes(), b"2", b"set", b"hash"]);
    level(&mut primary, &mut ours);
    for key in ["huge", "other", "list0", "list6", "set", "hash"] {
        let digest = |client: &mut Client| ask(client, &format!("DEBUG DIGEST-VALUE {key}"));
        assert_eq!(digest(&mut ours), digest(&mut primary), "{key}");
    }
}

/// A log in Redis's format, which a replica keeps beside, has the primary's data.
#[test]
fn a_replica_keeps_a_log_beside() {
    let primary = served(&[]);
    let mut source = primary.client();
    fill(&mut source, 300);
    let there = tempfile::tempdir().unwrap();
    let directory = there.path().to_str().unwrap();
    let replica = served(&[("dir", directory), ("appendonly", "yes"), ("replicaof", &of(primary.address))]);
    let mut client = replica.client();
    level(&mut source, &mut client);
    until("the log begins anew", || field(&mut client, "aof_rewrites") != "0" && field(&mut client, "aof_rewrite_in_progress") == "0");
    let mut random = Random::new(17);
    send(&mut primary.client(), &mut random, 800);
    std::thread::sleep(Duration::from_millis(40));
    level(&mut source, &mut client);
    let Some(loaded) = Real::with(&["--appendonly", "yes", "--save", "", "--dir", directory]) else { return };
    same(&mut loaded.client(), &mut source, NOT_IN_LOGS, "the log");
}

/// The reply of a server to `ROLE`.
#[test]
fn roles_are_told_as_in_redis() {
    let Some(real) = real() else { return };
    let Some(other) = Real::with(&["--save", "", "--replicaof", "127.0.0.1", &real.address().port().to_string()]) else { return };
    let served = served(&[("replicaof", &of(real.address())), ("repl-ping-replica-period", "3600")]);
    let mut primary = real.client();
    ok(&mut primary, &[b"CONFIG", b"SET", b"repl-ping-replica-period", b"3600"]);
    let (mut ours, mut theirs) = (served.client(), other.client());
    level(&mut primary, &mut ours);
    level(&mut primary, &mut theirs);
    until("both have everything", || ask(&mut ours, "ROLE") == ask(&mut theirs, "ROLE"));
    let of_replica = |client: &mut Client| -> Vec<String> {
        let text = client.ask(&[b"INFO", b"replication"]);
        let Reply::One(text) = text else { panic!("no text") };
        let text = String::from_utf8(text).unwrap();
        text.lines().skip(1).filter_map(|line| line.split(':').next()).map(str::to_owned).collect()
    };
    assert_eq!(of_replica(&mut ours), of_replica(&mut theirs));
    assert!(ask(&mut ours, "CLIENT LIST TYPE master").contains(" flags=M "));
}
