//! Removals that cannot read a key, and evictions that are slower than writes, beside requests.

use super::late::Stepping;
use super::steps::ask;
use super::*;

/// Bytes of each key that [`filled`] makes, with its value.
const EACH: usize = 100;

/// A server with so many keys, and a limit for the data of which any key may go.
fn filled(keys: usize, limit: &str) -> Driven {
    let mut driven = Driven::new();
    for n in 0..keys {
        driven.net.keyspace.set_string(0, format!("key{n:07}").as_bytes(), &[b'x'; EACH - 10], None).unwrap();
    }
    driven.net.keyspace.commit(&WriteOptions::default()).unwrap();
    for (name, value) in [("maxdata-policy", "allkeys-random"), ("maxdata", limit)] {
        driven.net.server.configuration.set(name, value).unwrap();
    }
    driven
}

/// All keys but the damaged one are evicted, and the replies of the iterations that meet it are sent.
#[test]
fn a_key_that_cannot_be_read_ends_neither_evictions_nor_requests() {
    const KEYS: usize = 300;
    let mut driven = filled(KEYS, "1");
    driven.net.keyspace.damage(b"key0000100");
    driven.net.keyspace.commit(&WriteOptions::default()).unwrap();
    let mut client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
    driven.settle(1);
    let mut pauses = 0;
    for _ in 0..200 {
        driven.now += 100;
        driven.ask(&mut client);
        pauses += u32::from(driven.patience() > Duration::ZERO);
    }
    assert_eq!((driven.net.keyspace.size(0), driven.net.server.statistics.evicted), (1, KEYS as u64 - 1));
    assert!(pauses > 100, "evicting that fails is tried again and again: {pauses}");
}

/// After the first error, a key that should expire and cannot be read costs no client its reply.
#[test]
fn a_key_that_cannot_be_read_and_should_expire_fails_alone() {
    let mut driven = Driven::new();
    driven.net.keyspace.set_string(0, b"k", b"1", Some(driven.now + 1)).unwrap();
    driven.net.keyspace.commit(&WriteOptions::default()).unwrap();
    driven.net.keyspace.damage(b"k");
    driven.net.keyspace.commit(&WriteOptions::default()).unwrap();
    let mut client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
    driven.settle(1);
    driven.tick();
    for _ in 0..50 {
        driven.now += 100;
        driven.ask(&mut client);
    }
    client.write_all(b"SET a 1\r\n").unwrap();
    driven.now += 1000;
    while driven.wait().is_empty() {}
    driven.turn();
    let mut reply = [0; 5];
    client.read_exact(&mut reply).unwrap();
    assert_eq!((&reply, driven.net.keyspace.size(0)), (b"+OK\r\n", 2));
}

/// The replies that a client has got so far.
fn replies(client: &mut TcpStream) -> String {
    let mut all = [0; 200];
    client.set_nonblocking(true).unwrap();
    let bytes = client.read(&mut all).unwrap_or(0);
    String::from_utf8_lossy(&all[..bytes]).replace("\r\n", "|")
}

/// While evictions are behind, requests that may add data wait, and those that free space or only read do not.
#[test]
fn what_frees_space_does_not_wait_for_evictions() {
    const LARGE: usize = 60_000;
    let mut driven = filled(6_000, "400000");
    // An iteration evicts four times at most.
    let clock = Arc::new(Stepping::default());
    clock.step.store(1_500_000, Ordering::Relaxed);
    driven.net.server.set_clock(clock);
    let address = driven.net.address().unwrap();
    let [mut large, mut transaction, mut script, mut other] = [(); 4].map(|()| TcpStream::connect(address).unwrap());
    driven.settle(4);
    transaction.write_all(b"MULTI\r\nSET a 1\r\n").unwrap();
    driven.settle(4);
    assert_eq!(replies(&mut transaction), "+OK|+QUEUED|");
    large.write_all(&request(&["SET", "large", &"x".repeat(LARGE)])).unwrap();
    while replies(&mut large).is_empty() {
        driven.wait();
        driven.turn();
    }
    let is_behind = |driven: &Driven| driven.net.event_loop.evicting.is_behind;
    assert!(is_behind(&driven));
    transaction.write_all(b"EXEC\r\n").unwrap();
    large.write_all(b"APPEND large x\r\n").unwrap();
    script.write_all(&request(&["EVAL", "redis.call('del', 'a')", "0"])).unwrap();
    for (request, reply) in [
        ("PING", "+PONG|"),
        ("PUBLISH x y", ":0|"),
        ("DEL none", ":0|"),
        ("UNLINK none other", ":0|"),
        ("EXPIRE none 0", ":0|"),
        ("GETDEL none", "$-1|"),
        ("EVAL_RO return(1) 0", ":1|"),
    ] {
        other.write_all(format!("{request}\r\n").as_bytes()).unwrap();
        while driven.wait().is_empty() {}
        driven.turn();
        assert!(is_behind(&driven));
        assert_eq!(replies(&mut other), reply, "{request}");
    }
    for waiting in [&mut large, &mut transaction, &mut script] {
        assert_eq!(replies(waiting), "");
    }
    other.write_all(b"FLUSHALL\r\n").unwrap();
    while driven.wait().is_empty() {}
    (0..5).for_each(|_| driven.turn());
    assert!(!is_behind(&driven));
    assert_eq!([other, large, transaction, script].map(|mut client| replies(&mut client)), ["+OK|", ":1|", "*1|+OK|", "$-1|"]);
}

/// Keys whose deadline passes during a pause are removed after the pause, also if no command comes any more.
#[test]
fn keys_that_end_in_a_pause_are_removed_after_it() {
    for ends_by_itself in [false, true] {
        let mut driven = Driven::new();
        let mut client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
        driven.settle(1);
        ask(&mut driven, &mut client, "SET k 1 PX 500", "+OK\r\n");
        ask(&mut driven, &mut client, "CLIENT PAUSE 5000 WRITE", "+OK\r\n");
        driven.now += 1000;
        ask(&mut driven, &mut client, "GET k", "$-1\r\n");
        driven.tick();
        assert_eq!(driven.net.keyspace.size(0), 1, "nobody removes it during the pause");
        if ends_by_itself {
            driven.now += 5000;
        } else {
            ask(&mut driven, &mut client, "CLIENT UNPAUSE", "+OK\r\n");
        }
        driven.tick();
        assert_eq!(driven.net.keyspace.size(0), 0, "{ends_by_itself}");
    }
}
