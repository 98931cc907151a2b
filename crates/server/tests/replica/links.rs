//! Links of a replica to a primary that is started again, is silent, or sends a stream that ends the link.

use super::{False, ID, ask, file, level, linked, of};
use crate::common::contents::ok;
use crate::common::{Client, Served, encode};
use crate::replication::{field, serve, served, until};
use sinter_server::command::{Allowed, Configuration, Server};
use sinter_server::log::{Level, Log};
use sinter_storage::store::MemoryStore;
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// No byte comes by itself that would make offsets differ.
const QUIET: (&str, &str) = ("repl-ping-replica-period", "3600");

/// Lines of a server's log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Number of lines that have a part.
    fn count(&self, part: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().unwrap()).lines().filter(|line| line.contains(part)).count()
    }
}

/// The reply of a primary that sends all data, as of offset 100.
fn all_data() -> Vec<u8> {
    [format!("+FULLRESYNC {ID} 100\r\n$EOF:{ID}\r\n").as_bytes(), &file(), ID.as_bytes()].concat()
}

/// A replica of a false primary, which has got all its data, and its log.
fn replica_of(primary: &False, more: &[(&str, &str)]) -> (Served, Client, TcpStream, Lines) {
    let mut configuration = Configuration { debug_command: Allowed::Yes, ..Configuration::default() };
    configuration.set("replicaof", &of(primary.0.local_addr().unwrap())).unwrap();
    more.iter().for_each(|(name, value)| configuration.set(name, value).unwrap());
    let lines = Lines::default();
    let log = Log::new(Box::new(lines.clone()), None, Level::Notice);
    let served = Served::with(Server { configuration, log, ..Server::default() }, Arc::new(MemoryStore::new()));
    let (stream, _) = primary.serve(&all_data());
    let mut client = served.client();
    linked(&mut client);
    (served, client, stream, lines)
}

fn follow(client: &mut Client, primary: &Served) {
    ok(client, &[b"REPLICAOF", b"127.0.0.1", primary.address.port().to_string().as_bytes()]);
    linked(client);
}

/// A primary is started again and again, and nothing is written meanwhile: its replica, and the replica of that one, go on each time, and
/// take over its new id.
#[test]
fn a_primary_that_is_started_again_and_again_sends_no_data() {
    let store = Arc::new(MemoryStore::new());
    let mut primary = serve(&[QUIET], &store);
    let replica = served(&[("replicaof", &of(primary.address))]);
    let (mut client, below) = (replica.client(), served(&[("replicaof", &of(replica.address))]));
    level(&mut primary.client(), &mut client);
    level(&mut primary.client(), &mut below.client());
    for round in 0..3 {
        let before = field(&mut client, "master_replid");
        drop(primary);
        primary = serve(&[QUIET], &store);
        let mut control = primary.client();
        follow(&mut client, &primary);
        assert_eq!((field(&mut control, "sync_full"), field(&mut control, "sync_partial_ok")), ("0".into(), "1".into()), "round {round}");
        let id = field(&mut control, "master_replid");
        assert_ne!(id, before, "round {round}");
        assert_eq!((field(&mut client, "master_replid"), field(&mut client, "master_replid2")), (id.clone(), before), "round {round}");
        until("the last one has the id, too", || field(&mut below.client(), "master_replid") == id);
    }
    level(&mut primary.client(), &mut client);
    level(&mut primary.client(), &mut below.client());
    assert_eq!(field(&mut client, "sync_full"), "1");
}

/// A primary is started twice while its replica is away, and then follows the promoted replica: nobody sends all data again.
#[test]
fn ids_that_nobody_has_heard_of_are_in_nobodys_way() {
    let stores = [Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new())];
    let primary = serve(&[QUIET], &stores[0]);
    let replica = serve(&[QUIET, ("replicaof", &of(primary.address))], &stores[1]);
    level(&mut primary.client(), &mut replica.client());
    drop(replica);
    ok(&mut primary.client(), &[b"SET", b"later", b"1"]);
    drop(primary);
    drop(serve(&[QUIET], &stores[0]));
    let primary = serve(&[QUIET], &stores[0]);
    let replica = serve(&[QUIET, ("replicaof", &of(primary.address))], &stores[1]);
    let (mut first, mut second) = (primary.client(), replica.client());
    linked(&mut second);
    assert_eq!((ask(&mut second, "GET later"), field(&mut first, "sync_full")), ("$1".into(), "0".into()));
    // The primary fails, and the replica is promoted.
    drop((first, primary));
    ok(&mut second, &[b"REPLICAOF", b"NO", b"ONE"]);
    drop(serve(&[QUIET], &stores[0]));
    let former = serve(&[QUIET], &stores[0]);
    let mut first = former.client();
    follow(&mut first, &replica);
    assert_eq!((field(&mut second, "sync_full"), field(&mut second, "sync_partial_ok")), ("0".into(), "1".into()));
    level(&mut second, &mut first);
    assert_eq!(field(&mut first, "master_replid"), field(&mut second, "master_replid"));
}

/// A primary from which nothing comes for `repl-timeout` is left, and asked again from where the replica is.
#[test]
fn a_silent_primary_is_left() {
    let primary = False::new();
    let (_served, mut client, mut stream, lines) = replica_of(&primary, &[("repl-timeout", "1")]);
    // It is heard of as long as anything comes.
    let ping = encode(&["PING"]);
    for _ in 0..8 {
        stream.write_all(&ping).unwrap();
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!((field(&mut client, "master_link_status"), lines.count("event=primary_silent")), ("up".into(), 0));
    until("the link is given up", || field(&mut client, "master_link_status") == "down");
    assert_eq!((lines.count("event=primary_silent"), ask(&mut client, "GET theirs")), (1, "$value".into()));
    let (_stream, asked) = primary.serve(b"+CONTINUE\r\n");
    assert!(asked.last().unwrap().contains(&format!("$PSYNC ${ID} ${}", 101 + 8 * ping.len())), "{asked:?}");
    linked(&mut client);
}

/// A database that is not here ends the link: nothing behind it is applied, and nothing of the transaction that it is in.
#[test]
fn a_database_that_is_not_here_ends_the_link() {
    let primary = False::new();
    let (_served, mut client, mut stream, lines) = replica_of(&primary, &[]);
    let set = |key: &str| encode(&["SET", key, "1"]);
    let select = |db: &str| encode(&["select", db]);
    let in_transaction = [encode(&["MULTI"]), set("a"), select("99"), set("b"), encode(&["EXEC"])].concat();
    let tails = [[select("16"), set("b")].concat(), [select("x"), set("b")].concat(), in_transaction];
    let mut end = 100;
    for (round, tail) in tails.iter().enumerate() {
        let good = [select("3"), set(&format!("good{round}"))].concat();
        end += good.len();
        stream.write_all(&[&good[..], tail].concat()).unwrap();
        until("the link is down", || field(&mut client, "master_link_status") == "down");
        assert_eq!(field(&mut client, "slave_repl_offset"), end.to_string(), "round {round}");
        assert_eq!(lines.count("level=warning event=primary_database_missing database="), round + 1);
        let asked;
        (stream, asked) = primary.serve(b"+CONTINUE\r\n");
        assert!(asked.last().unwrap().contains(&format!("$PSYNC ${ID} ${}", end + 1)), "round {round}: {asked:?}");
        linked(&mut client);
    }
    let replies = ["DBSIZE", "SELECT 3", "DBSIZE"].map(|line| ask(&mut client, line));
    assert_eq!(replies, [":1", "+OK", ":3"]);
    // The database is the one that was selected before.
    stream.write_all(&set("c")).unwrap();
    until("it is applied", || ask(&mut client, "GET c") == "$1");
}

/// A stream that goes on with the same nonsense again: the replica asks for all data instead of the same bytes for ever, and afterwards for
/// the rest of the stream again. From the second full synchronisation in a row on, it waits before it asks.
#[test]
fn nonsense_that_comes_again_costs_a_full_synchronisation() {
    let primary = False::new();
    let (_served, mut client, mut stream, lines) = replica_of(&primary, &[]);
    let (rest, all) = (format!("$PSYNC ${ID} $101"), "$PSYNC $? $-1".to_owned());
    for (round, expected) in [&rest, &all, &rest, &all].into_iter().enumerate() {
        stream.write_all(b"*x\r\n").unwrap();
        until("the link is down", || field(&mut client, "master_link_status") == "down");
        assert_eq!(lines.count("level=warning event=primary_sends_nonsense"), round + 1);
        assert_eq!(lines.count("offset=100 next=all_data"), round.div_ceil(2));
        until("the wait is told", || lines.count("event=full_syncs_in_a_row") == round.saturating_sub(1));
        assert_eq!(lines.count("full_syncs=2 waits_seconds=2"), round.saturating_sub(1), "round {round}");
        let reply = if *expected == all { all_data() } else { b"+CONTINUE\r\n".to_vec() };
        let (next, asked) = primary.serve(&reply);
        assert!(asked.last().unwrap().contains(expected), "round {round}: {asked:?}");
        stream = next;
        linked(&mut client);
    }
}

/// While a script keeps the stream waiting, the primary waits, too: what it sends is not gathered in memory. Afterwards all is applied.
#[test]
fn a_stream_that_has_to_wait_is_not_gathered() {
    const MOST: usize = 32 << 20;
    let primary = False::new();
    let (served, mut client, mut stream, _) = replica_of(&primary, &[("lua-time-limit", "20")]);
    let mut script = served.client();
    script.send(&encode(&["EVAL", "while true do end", "0"]));
    until("the script is late", || ask(&mut client, "GET theirs").starts_with("-BUSY "));
    let request = encode(&["APPEND", "long", &"x".repeat(1000)]);
    let all = request.repeat((2 * MOST).div_ceil(request.len()));
    // The kernel takes some megabytes on both sides.
    stream.set_write_timeout(Some(Duration::from_millis(1000))).unwrap();
    let mut sent = 0;
    while let Ok(bytes) = stream.write(&all[sent..]) {
        sent += bytes;
        assert!(sent < MOST, "{sent} bytes were taken while the stream waits");
    }
    assert!(ask(&mut client, "GET theirs").starts_with("-BUSY "));
    ok(&mut client, &[b"SCRIPT", b"KILL"]);
    assert!(script.reply().is_some_and(|reply| reply.to_string().starts_with('-')));
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(&all[sent..]).unwrap();
    let end = (100 + all.len()).to_string();
    until("all of it is applied", || field(&mut client, "slave_repl_offset") == end);
    assert_eq!(ask(&mut client, "STRLEN long"), format!(":{}", all.len() / request.len() * 1000));
}

/// A client's pause holds the stream back: the replica reads on, and applies what it has read when the pause ends.
#[test]
fn a_pause_holds_the_stream_back() {
    let primary = False::new();
    let (_served, mut client, mut stream, _) = replica_of(&primary, &[("repl-timeout", "60")]);
    ok(&mut client, &[b"CLIENT", b"PAUSE", b"100000", b"WRITE"]);
    let set = encode(&["SET", "paused", "1"]);
    stream.write_all(&set).unwrap();
    let end = (100 + set.len()).to_string();
    until("the stream is read", || field(&mut client, "slave_read_repl_offset") == end);
    assert_eq!((field(&mut client, "slave_repl_offset"), ask(&mut client, "EXISTS paused")), ("100".into(), ":0".into()));
    ok(&mut client, &[b"CLIENT", b"UNPAUSE"]);
    until("the stream is applied", || field(&mut client, "slave_repl_offset") == end);
    assert_eq!((field(&mut client, "slave_read_repl_offset"), ask(&mut client, "EXISTS paused")), (end, ":1".into()));
}

/// A writable replica removes keys and fields that end if its own clients have set their deadlines, and leaves others to the primary.
#[test]
fn a_writable_replica_removes_what_its_clients_let_end() {
    let primary = False::new();
    let (served, mut client, mut stream, _) =
        replica_of(&primary, &[("replica-read-only", "no"), ("notify-keyspace-events", "Ex"), ("repl-timeout", "60")]);
    let set = encode(&["SET", "of the primary", "1", "PX", "1"]);
    stream.write_all(&set).unwrap();
    until("it is applied", || field(&mut client, "slave_repl_offset") == (100 + set.len()).to_string());
    let mut listener = served.client();
    listener.ask(&[b"SUBSCRIBE", b"__keyevent@0__:expired"]);
    ok(&mut client, &[b"SET", b"mine", b"1", b"PX", b"400"]);
    for line in ["EVAL return␣redis.call('psetex',KEYS[1],600,'1') 1 scripted", "HSET hash a 1 b 2", "HPEXPIRE hash 800 FIELDS 1 a"] {
        assert!(!ask(&mut client, line).starts_with('-'), "{line}");
    }
    assert_eq!(field(&mut client, "slave_expires_tracked_keys"), "3");
    for key in ["mine", "scripted"] {
        assert_eq!(listener.reply().unwrap().to_string(), format!("*3($message $__keyevent@0__:expired ${key} )"));
    }
    until("the field is gone", || field(&mut client, "expired_subkeys") == "1");
    // That of the primary, "theirs", and the hash.
    assert_eq!((ask(&mut client, "DBSIZE"), ask(&mut client, "HLEN hash")), (":3".into(), ":1".into()));
    assert_eq!((field(&mut client, "expired_keys"), field(&mut client, "slave_expires_tracked_keys")), ("2".into(), "0".into()));
}
