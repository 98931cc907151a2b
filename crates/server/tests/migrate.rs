//! `MIGRATE`: keys go to a real `redis-server`, come from one, and nobody else waits meanwhile.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::contents::ok;
use crate::common::{Client, Real, Reply, Served, encode};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Commands that make a key of each type, and each key.
const KEYS: &[&str] = &["text", "long", "list", "set", "zset", "hash", "stream"];

fn fill(client: &mut Client) {
    let long = "x".repeat(2_000_000);
    let many: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    for line in [
        "SET text hello PX 600000".to_owned(),
        format!("SET long {long}"),
        format!("RPUSH list a 1 bc {}", many.join(" ")),
        format!("SADD set a b {}", many.join(" ")),
        "ZADD zset 1 a 2.5 bb inf cc".into(),
        format!("HSET hash a 1 {}", many.join(" ")),
        "XADD stream 1-1 a 1 b 2".into(),
        "XADD stream 1-2 a 3 b 4".into(),
        "XGROUP CREATE stream g 0".into(),
        "XREADGROUP GROUP g alice COUNT 1 STREAMS stream >".into(),
    ] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let reply = client.ask(&words).to_string();
        assert!(!reply.starts_with('-'), "{}: {reply}", line.get(..50).unwrap_or(&line));
    }
}

/// The digests of all keys.
fn digests(client: &mut Client) -> Vec<String> {
    let words: Vec<&[u8]> = [&b"DEBUG"[..], b"DIGEST-VALUE"].into_iter().chain(KEYS.iter().map(|key| key.as_bytes())).collect();
    let Reply::Many(_, all) = client.ask(&words) else { panic!("no digests") };
    all.iter().map(ToString::to_string).collect()
}

fn say(client: &mut Client, line: &str) -> String {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    client.ask(&words).to_string()
}

fn served() -> Served {
    let mut server = sinter_server::command::Server::default();
    server.configuration.debug_command = sinter_server::command::Allowed::Yes;
    Served::with(server, std::sync::Arc::new(sinter_storage::store::MemoryStore::new()))
}

/// Moves all keys from one server to another.
fn move_all(from: &mut Client, to: &mut Client, address: SocketAddr) {
    fill(from);
    let before = digests(from);
    let (port, exists) = (address.port(), format!("EXISTS {}", KEYS.join(" ")));
    assert_eq!(say(from, &format!("MIGRATE 127.0.0.1 {port}  0 5000 COPY KEYS {} none", KEYS.join(" "))), "+OK");
    assert_eq!((say(from, &exists), digests(to)), (format!(":{}", KEYS.len()), before.clone()), "copied");
    let busy = say(from, &format!("MIGRATE 127.0.0.1 {port} text 0 5000"));
    assert_eq!(busy, "-ERR Target instance replied with error: BUSYKEY Target key name already exists.");
    assert_eq!(say(from, "GET text"), "$hello");
    assert_eq!(say(from, &format!("MIGRATE 127.0.0.1 {port}  0 5000 REPLACE KEYS {}", KEYS.join(" "))), "+OK");
    assert_eq!((say(from, &exists), digests(to)), (":0".into(), before), "moved");
    let ttl: i64 = say(to, "PTTL text")[1..].parse().unwrap();
    assert!((500_000..=600_000).contains(&ttl), "{ttl}");
    assert_eq!(say(to, "XPENDING stream g - + 10")[..10], *"*1(*4($1-1");
    // Another database, and a key without a group of options.
    say(from, "SET other 1");
    assert_eq!(say(from, &format!("MIGRATE 127.0.0.1 {port} other 3 0")), "+OK");
    assert_eq!((say(to, "SELECT 3"), say(to, "GET other"), say(to, "SELECT 0")), ("+OK".into(), "$1".into(), "+OK".into()));
    assert_eq!(say(from, "SET other 1"), "+OK");
    let error = say(from, &format!("MIGRATE 127.0.0.1 {port} other 99 5000"));
    assert_eq!(error, "-ERR Target instance replied with error: ERR DB index is out of range");
    assert_eq!(say(from, &format!("MIGRATE 127.0.0.1 {port} none 0 5000")), "+NOKEY");
    for (key, there) in [("x", ""), ("y", "taken"), ("z", "")] {
        say(from, &format!("SET {key} here"));
        if !there.is_empty() {
            say(to, &format!("SET {key} {there}"));
        }
    }
    // Keys that were taken are gone, the other one is not.
    assert!(
        say(from, &format!("MIGRATE 127.0.0.1 {port}  0 5000 KEYS x y z")).starts_with("-ERR Target instance replied with error: BUSYKEY")
    );
    assert_eq!((say(from, "MGET x y z"), say(to, "MGET x y z")), ("*3($-1 $here $-1 )".into(), "*3($here $taken $here )".into()));
}

#[test]
fn keys_move_to_redis_and_back() {
    let Some(real) = Real::start() else {
        eprintln!("skipped: there is no redis-server 7.0 here to compare with");
        return;
    };
    let ours = served();
    move_all(&mut ours.client(), &mut real.client(), real.address());
    let again = served();
    let theirs = Real::start().unwrap();
    move_all(&mut theirs.client(), &mut again.client(), again.address);
}

#[test]
fn keys_move_between_two_of_ours() {
    let (from, to) = (served(), served());
    move_all(&mut from.client(), &mut to.client(), to.address);
}

#[test]
fn a_server_may_send_to_itself() {
    let server = served();
    let mut client = server.client();
    say(&mut client, "SET k v");
    let port = server.address.port();
    assert_eq!(say(&mut client, &format!("MIGRATE 127.0.0.1 {port} k 1 5000")), "+OK");
    assert_eq!(say(&mut client, "GET k"), "$-1");
    assert_eq!((say(&mut client, "SELECT 1"), say(&mut client, "GET k")), ("+OK".into(), "$v".into()));
}

#[test]
fn passwords_are_sent() {
    let (from, to) = (served(), served());
    let (mut ours, mut theirs) = (from.client(), to.client());
    assert_eq!(say(&mut theirs, "ACL SETUSER alice on >secret ~* +@all"), "+OK");
    assert_eq!(say(&mut theirs, "CONFIG SET requirepass open"), "+OK");
    let port = to.address.port();
    say(&mut ours, "SET k v");
    say(&mut ours, "CONFIG SET slowlog-log-slower-than 0");
    for (options, expected) in [
        ("", "-ERR Target instance replied with error: NOAUTH Authentication required."),
        (" AUTH wrong", "-ERR Target instance replied with error: WRONGPASS invalid username-password pair or user is disabled."),
        (" COPY AUTH open", "+OK"),
        (" COPY REPLACE AUTH2 alice secret", "+OK"),
    ] {
        assert_eq!(say(&mut ours, &format!("MIGRATE 127.0.0.1 {port} k 0 5000{options}")), expected, "{options}");
    }
    let log = say(&mut ours, "SLOWLOG GET -1");
    assert!(log.contains("$MIGRATE") && log.contains("$(redacted)") && !log.contains("secret") && !log.contains("$open"), "{log}");
}

/// A server that takes any request, and replies when it is told to.
struct Slow {
    address: SocketAddr,
    /// Names of the requests that have come, and whether each of them replaces.
    came: Receiver<(String, bool)>,
    replies: Option<Sender<&'static str>>,
    thread: Option<JoinHandle<()>>,
}

impl Slow {
    fn start() -> Slow {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (came_in, came) = channel();
        let (replies, to_send) = channel::<&'static str>();
        let thread = std::thread::Builder::new().spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                while let Some(words) = request(&mut stream) {
                    let name = String::from_utf8(words[0].clone()).unwrap();
                    let replaces = words.last().is_some_and(|word| word == b"REPLACE");
                    if name != "SELECT" {
                        let _ = came_in.send((name.clone(), replaces));
                    }
                    let reply = if name == "SELECT" { Ok("+OK") } else { to_send.recv() };
                    let Ok(reply) = reply else { return };
                    let _ = stream.get_mut().write_all(format!("{reply}\r\n").as_bytes());
                }
            }
        });
        let thread = thread.unwrap();
        Slow { address, came, replies: Some(replies), thread: Some(thread) }
    }

    fn reply(&self, text: &'static str) {
        self.replies.as_ref().unwrap().send(text).unwrap();
    }

    fn next(&self) -> (String, bool) {
        self.came.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        drop(self.replies.take());
        // The thread may wait for a connection, or for a request of one.
        if let Ok(mut stream) = TcpStream::connect(self.address) {
            let _ = stream.write_all(&encode(&["END"]));
        }
        let _ = self.thread.take().unwrap().join();
    }
}

fn number(stream: &mut impl BufRead) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    line.trim_end().get(1..)?.parse().ok()
}

fn request(stream: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let words = number(stream)?;
    (0..words)
        .map(|_| {
            let mut word = vec![0; number(stream)? + 2];
            stream.read_exact(&mut word).ok()?;
            word.truncate(word.len() - 2);
            Some(word)
        })
        .collect()
}

fn begin(client: &mut Client, slow: &Slow, key: &str, options: &str) {
    let line = format!("MIGRATE 127.0.0.1 {} {key} 0 20000{options}", slow.address.port());
    client.send(&encode(&line.split(' ').collect::<Vec<_>>()));
}

#[test]
fn others_are_served_while_a_server_is_silent() {
    let (server, slow) = (served(), Slow::start());
    let (mut moving, mut other) = (server.client(), server.client());
    say(&mut other, "SET k v");
    begin(&mut moving, &slow, "k", "");
    assert_eq!(slow.next(), ("RESTORE".into(), false));
    assert_eq!(say(&mut other, "GET k"), "$v", "the key is there until the other server has it");
    // A sync, and changes of other keys, do not wake the request.
    assert_eq!(say(&mut other, "SET unrelated 1"), "+OK");
    assert!(moving.is_silent(Duration::from_millis(50)));
    slow.reply("+OK");
    assert_eq!(moving.reply().unwrap().to_string(), "+OK");
    assert_eq!(say(&mut other, "EXISTS k"), ":0");
}

#[test]
fn a_server_of_another_kind_gets_no_key() {
    let (server, slow) = (served(), Slow::start());
    let (mut moving, mut other) = (server.client(), server.client());
    say(&mut other, "SET k v");
    begin(&mut moving, &slow, "k", "");
    slow.next();
    slow.reply("HTTP/1.1 400 Bad Request");
    assert_eq!(moving.reply().unwrap().to_string(), "-IOERR error or timeout reading to target instance");
    assert_eq!(say(&mut other, "GET k"), "$v");
}

/// A hash with deadlines of fields goes to a Valkey 9 in that server's own form, after it has refused the form of Redis 7.4; a server that
/// understands neither gets no key.
#[test]
fn hashes_with_deadlines_go_to_redis_and_to_valkey() {
    const REFUSED: &str = "-ERR DUMP payload version or checksum are wrong";
    for (reads, versions, expected) in [
        (&[9, 12][..], &[9, 12, 9][..], "+OK"),
        (&[9, 80], &[9, 12, 9, 80], "+OK"),
        (&[9], &[9, 12, 9, 80], "-ERR Target instance replied with error: ERR DUMP payload version or checksum are wrong"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = std::thread::Builder::new()
            .spawn(move || {
                let mut stream = BufReader::new(listener.accept().unwrap().0);
                let (mut came, mut taken) = (Vec::new(), Vec::new());
                while let Some(words) = request(&mut stream) {
                    let mut reply = "+OK";
                    if words[0] == b"RESTORE" {
                        let payload = words[3].clone();
                        let version = u16::from_le_bytes([payload[payload.len() - 10], payload[payload.len() - 9]]);
                        came.push(version);
                        if reads.contains(&version) { taken.push(words) } else { reply = REFUSED }
                    }
                    stream.get_mut().write_all(format!("{reply}\r\n").as_bytes()).unwrap();
                }
                (came, taken)
            })
            .unwrap();
        let (from, to) = (served(), served());
        let (mut moving, mut other) = (from.client(), to.client());
        for line in ["SET a 1", "HSET hash a 1 b 2", "HPEXPIREAT hash 4102444800000 FIELDS 1 a", "PEXPIRE hash 100000000", "SET b 2"] {
            assert!(!say(&mut moving, line).starts_with('-'), "{line}");
        }
        assert_eq!(say(&mut moving, &format!("MIGRATE 127.0.0.1 {port}  0 20000 REPLACE KEYS a hash b")), expected, "{reads:?}");
        let (came, taken) = target.join().unwrap();
        assert_eq!(came, versions);
        let moved = expected == "+OK";
        assert_eq!((taken.len(), say(&mut moving, "EXISTS a hash b")), if moved { (3, ":0".into()) } else { (2, ":1".into()) });
        for words in &taken {
            assert_eq!(words[4], b"REPLACE");
            ok(&mut other, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        if moved {
            assert_eq!(say(&mut other, "HMGET hash a b"), "*2($1 $2 )");
            assert_eq!(say(&mut other, "HPEXPIRETIME hash FIELDS 2 a b"), "*2(:4102444800000 :-1 )");
            assert!(say(&mut other, "PTTL hash")[1..].parse::<u32>().unwrap() > 90_000_000);
        }
    }
}

#[test]
fn a_key_that_changes_meanwhile_is_sent_again() {
    let (server, slow) = (served(), Slow::start());
    let (mut moving, mut other) = (server.client(), server.client());
    say(&mut other, "SET n 1");
    begin(&mut moving, &slow, "n", "");
    assert_eq!(slow.next(), ("RESTORE".into(), false));
    assert_eq!(say(&mut other, "INCR n"), ":2");
    slow.reply("+OK");
    assert_eq!(slow.next(), ("RESTORE".into(), true), "the older value is replaced");
    assert_eq!(say(&mut other, "GET n"), "$2");
    slow.reply("+OK");
    assert_eq!(moving.reply().unwrap().to_string(), "+OK");
    assert_eq!(say(&mut other, "EXISTS n"), ":0");
    // A key that is gone needs not be sent again, and a copy is as of the request.
    for (options, change, exists) in [("", "DEL n", ":0"), (" COPY", "INCR n", ":1")] {
        say(&mut other, "SET n 1");
        begin(&mut moving, &slow, "n", options);
        assert_eq!(slow.next(), ("RESTORE".into(), false), "{options}");
        say(&mut other, change);
        slow.reply("+OK");
        assert_eq!(moving.reply().unwrap().to_string(), "+OK", "{options}");
        assert_eq!(say(&mut other, "EXISTS n"), exists, "{options}");
    }
    // A refused value stays, whatever happens to it.
    begin(&mut moving, &slow, "n", "");
    slow.next();
    say(&mut other, "INCR n");
    slow.reply("-ERR no");
    assert_eq!(moving.reply().unwrap().to_string(), "-ERR Target instance replied with error: ERR no");
    assert_eq!(say(&mut other, "GET n"), "$3");
}

#[test]
fn a_transfer_may_be_given_up() {
    let (server, slow) = (served(), Slow::start());
    let (mut moving, mut other) = (server.client(), server.client());
    say(&mut other, "SET k v");
    let id = say(&mut moving, "CLIENT ID");
    begin(&mut moving, &slow, "k", "");
    slow.next();
    assert_eq!(say(&mut other, &format!("CLIENT UNBLOCK {}", &id[1..])), ":1");
    assert_eq!(moving.reply().unwrap().to_string(), "-IOERR error or timeout reading to target instance");
    slow.reply("+OK");
    assert_eq!((say(&mut moving, "PING"), say(&mut other, "GET k")), ("+PONG".into(), "$v".into()));
    // A client that goes leaves its keys.
    begin(&mut moving, &slow, "k", "");
    slow.next();
    drop(moving);
    // Its end may come behind the other server's reply.
    while say(&mut other, "CLIENT LIST").matches(" laddr=").count() > 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    slow.reply("+OK");
    assert_eq!(say(&mut other, "GET k"), "$v");
}

#[test]
fn silence_is_an_error_after_the_timeout() {
    let (server, slow) = (served(), Slow::start());
    let mut client = server.client();
    say(&mut client, "SET k v");
    let line = format!("MIGRATE 127.0.0.1 {} k 0 50", slow.address.port());
    assert_eq!(say(&mut client, &line), "-IOERR error or timeout reading to target instance");
    // In a transaction everybody waits, as in Redis.
    assert_eq!((say(&mut client, "MULTI"), say(&mut client, &line)), ("+OK".into(), "+QUEUED".into()));
    assert_eq!(say(&mut client, "EXEC"), "*1(-IOERR error or timeout reading to target instance )");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_eq!(say(&mut client, &format!("MIGRATE 127.0.0.1 {free} k 0 1000")), "-IOERR error or timeout connecting to the client");
    assert_eq!(say(&mut client, "GET k"), "$v");
    ok(&mut client, &[b"SET", b"k", b"w"]);
}
