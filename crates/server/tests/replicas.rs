//! Replicas of this server that speak the protocol by hand: what they get, byte by byte, and what they must not do.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::contents::ok;
use crate::common::{Client, Real, Served, encode};
use crate::replication::{field, fill, info, serve, served, until};
use sinter_storage::store::MemoryStore;
use std::io::{BufRead, Read};
use std::sync::Arc;
use std::time::Duration;

/// A replica by hand.
fn raw(served: &Served, options: &[&str]) -> Client {
    greeted(served.client(), options)
}

/// A client that has said something of itself.
fn greeted(mut client: Client, options: &[&str]) -> Client {
    for option in options {
        let words: Vec<&[u8]> = ["REPLCONF"].into_iter().chain(option.split(' ')).map(str::as_bytes).collect();
        ok(&mut client, &words);
    }
    client
}

/// The next line that is not empty.
fn line(client: &mut Client) -> String {
    loop {
        let mut line = Vec::new();
        client.stream.read_until(b'\n', &mut line).unwrap();
        assert!(!line.is_empty(), "the connection was closed");
        let line = String::from_utf8(line).unwrap().trim_end().to_owned();
        if !line.is_empty() {
            return line;
        }
    }
}

/// The data of a full synchronisation, in the version that most replicas get.
fn data(client: &mut Client) -> Vec<u8> {
    let bytes = any_data(client);
    assert!(bytes.starts_with(b"REDIS0010"), "{}", bytes[..9].escape_ascii());
    bytes
}

/// The data of a full synchronisation.
fn any_data(client: &mut Client) -> Vec<u8> {
    let head = line(client);
    let mut bytes = Vec::new();
    if let Some(mark) = head.strip_prefix("$EOF:") {
        while !bytes.ends_with(mark.as_bytes()) {
            let some = client.stream.fill_buf().unwrap();
            assert!(!some.is_empty(), "the connection was closed");
            let count = some.len();
            bytes.extend_from_slice(some);
            client.stream.consume(count);
        }
        bytes.truncate(bytes.len() - mark.len());
    } else {
        bytes.resize(head.strip_prefix('$').unwrap().parse().unwrap(), 0);
        client.stream.read_exact(&mut bytes).unwrap();
    }
    bytes
}

/// The next command of the stream that is neither `PING` nor a question.
fn command(client: &mut Client) -> String {
    loop {
        let command = client.reply().unwrap().to_string();
        if !command.contains("$PING") && !command.contains("$GETACK") {
            return command;
        }
    }
}

/// Whether the server closes the connection.
pub fn is_closed(client: &mut Client) -> bool {
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).is_ok()
}

#[test]
fn a_replica_gets_the_version_that_it_reads() {
    let served = served(&[]);
    let mut client = served.client();
    for (field_has_deadline, told, head) in [
        (false, None, "REDIS0010"),
        (false, Some("8.1.4"), "REDIS0010"),
        (false, Some("9.1.2"), "VALKEY080"),
        (true, None, "REDIS0012"),
        (true, Some("8.1.4"), "REDIS0012"),
        (true, Some("9.1.2"), "VALKEY080"),
        (true, Some("10.0.0"), "VALKEY080"),
        (true, Some("unstable"), "REDIS0012"),
    ] {
        client.ask(&[b"HSET", b"h", b"f", b"v"]);
        if field_has_deadline {
            client.ask(&[b"HPEXPIRE", b"h", b"1000000", b"FIELDS", b"1", b"f"]);
        }
        let mut replica = raw(&served, &["capa eof", "capa psync2"]);
        if let Some(version) = told {
            replica.send(&encode(&["REPLCONF", "version", version]));
            assert_eq!(line(&mut replica), "+OK");
        }
        replica.send(b"PSYNC ? -1\r\n");
        assert!(line(&mut replica).starts_with("+FULLRESYNC"));
        assert!(any_data(&mut replica).starts_with(head.as_bytes()), "{told:?}");
    }
}

#[test]
fn a_replica_gets_the_data_then_the_stream() {
    let served = served(&[]);
    let mut client = served.client();
    fill(&mut client, 500);
    for (options, request) in
        [(&["capa eof", "capa psync2"][..], "PSYNC ? -1"), (&[][..], "PSYNC ? -1"), (&["capa eof"][..], "SYNC"), (&[][..], "SYNC")]
    {
        let mut replica = raw(&served, options);
        replica.send(format!("{request}\r\n").as_bytes());
        let mut at = 0;
        if request != "SYNC" {
            let reply = line(&mut replica);
            let words: Vec<&str> = reply.split(' ').collect();
            assert_eq!((words[0], words[1].len()), ("+FULLRESYNC", 40), "{reply}");
            at = words[2].parse::<u64>().unwrap();
        }
        assert!(data(&mut replica).len() > 500);
        client.ask(&[b"SET", b"a", b"1"]);
        if options.contains(&"capa eof") {
            assert!(replica.is_silent(Duration::from_millis(100)), "the stream begins with the first acknowledgement");
            replica.send(&encode(&["REPLCONF", "ACK", &at.to_string()]));
        }
        assert_eq!(command(&mut replica), "*2($SELECT $0 )", "{request}");
        assert_eq!(command(&mut replica), "*3($SET $a $1 )", "{request}");
        client.ask(&[b"PUBLISH", b"channel", b"hello"]);
        assert_eq!(command(&mut replica), "*3($PUBLISH $channel $hello )");
        client.send(&[encode(&["MULTI"]), encode(&["SET", "x", "1"]), encode(&["INCR", "n"]), encode(&["EXEC"])].concat());
        (0..4).for_each(|_| assert!(client.reply().is_some()));
        for expected in ["*1($MULTI )", "*3($SET $x $1 )", "*2($INCR $n )", "*1($EXEC )"] {
            assert_eq!(command(&mut replica), expected);
        }
        client.ask(&[b"SET", b"ends", b"1", b"PX", b"30"]);
        assert!(command(&mut replica).starts_with("*5($SET $ends $1 $PXAT "));
        assert_eq!(command(&mut replica), "*2($DEL $ends )");
    }
    until("all replicas are gone", || field(&mut client, "connected_slaves") == "0");
}

/// A replica that finds the end of the data by a mark gets the stream behind its first acknowledgement, also one that has asked with
/// `SYNC`; any other one gets it at once. All of them count as online meanwhile.
#[test]
fn the_stream_begins_when_it_does_in_redis() {
    let served = served(&[]);
    let real = Real::with(&["--save", "", "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]);
    for address in [Some(served.address), real.as_ref().map(Real::address)].into_iter().flatten() {
        let mut client = Client::new(address);
        for (request, finds_end) in [("PSYNC ? -1", true), ("SYNC", true), ("PSYNC ? -1", false), ("SYNC", false)] {
            let about = format!("{address}, {request}, {finds_end}");
            let mut replica = greeted(Client::new(address), if finds_end { &["capa eof"] } else { &[] });
            replica.send(format!("{request}\r\n").as_bytes());
            if request != "SYNC" {
                assert!(line(&mut replica).starts_with("+FULLRESYNC "), "{about}");
            }
            data(&mut replica);
            until("it is online", || info(&mut client).contains("state=online"));
            ok(&mut client, &[b"SET", b"a", b"1"]);
            if finds_end {
                assert!(replica.is_silent(Duration::from_millis(300)), "{about}");
                replica.send(&encode(&["REPLCONF", "ACK", "0"]));
            }
            assert_eq!([command(&mut replica), command(&mut replica)], ["*2($SELECT $0 )", "*3($SET $a $1 )"], "{about}");
            drop(replica);
            until("it is gone", || field(&mut client, "connected_slaves") == "0");
        }
    }
}

#[test]
fn the_stream_goes_on_from_any_stored_offset() {
    let served = served(&[]);
    let mut client = served.client();
    let mut replica = raw(&served, &["capa psync2"]);
    replica.send(b"PSYNC ? -1\r\n");
    let id = line(&mut replica).split(' ').nth(1).unwrap().to_owned();
    data(&mut replica);
    drop(replica);
    (0..50).for_each(|n| drop(client.ask(&[b"SET", format!("k{n}").as_bytes(), b"v"])));
    let end: u64 = field(&mut client, "master_repl_offset").parse().unwrap();
    let mut streams = Vec::new();
    for from in [1, 24, 25, end, end + 1] {
        let mut replica = raw(&served, &["capa psync2"]);
        // Ids are compared as in Redis, whatever their case.
        let asked = if from == 24 { id.to_uppercase() } else { id.clone() };
        replica.send(format!("PSYNC {asked} {from}\r\n").as_bytes());
        assert_eq!(line(&mut replica), format!("+CONTINUE {id}"), "from {from}");
        let mut stream = vec![0; usize::try_from(end + 1 - from).unwrap()];
        replica.stream.read_exact(&mut stream).unwrap();
        streams.push(stream);
    }
    assert!(streams[0].starts_with(b"*2\r\n$6\r\nSELECT\r\n"));
    assert!(streams.iter().all(|stream| streams[0].ends_with(stream)));
    assert_eq!(field(&mut client, "sync_partial_ok"), "5");
    // A replica that does not take over ids is not told one.
    let mut replica = raw(&served, &[]);
    replica.send(format!("PSYNC {id} 1\r\n").as_bytes());
    assert_eq!(line(&mut replica), "+CONTINUE");
    let (at, huge) = (id.as_str(), i64::MAX.to_string());
    let wrong = [("x", "1"), (at, "0"), (at, "-5"), (at, huge.as_str()), (at, "-9223372036854775808"), ("", "1"), ("?", "1")];
    for (stream, from) in wrong {
        let mut replica = raw(&served, &[]);
        replica.send(&encode(&["PSYNC", stream, from]));
        assert!(line(&mut replica).starts_with(&format!("+FULLRESYNC {id} ")), "{stream} {from}");
        data(&mut replica);
    }
    assert_eq!((field(&mut client, "sync_full"), field(&mut client, "sync_partial_err")), ("8".into(), "6".into()));
}

/// Replicas that wait together get the data of one moment.
#[test]
fn replicas_that_come_together_share_a_moment() {
    let served = served(&[("repl-diskless-sync-delay", "3600"), ("repl-diskless-sync-max-replicas", "3")]);
    let mut client = served.client();
    fill(&mut client, 50);
    let mut replicas: Vec<Client> = (0..3).map(|_| raw(&served, &["capa eof"])).collect();
    for replica in &mut replicas {
        replica.send(b"PSYNC ? -1\r\n");
        client.ask(&[b"INCR", b"n"]);
    }
    let replies: Vec<String> = replicas.iter_mut().map(line).collect();
    assert!(replies[0].starts_with("+FULLRESYNC ") && replies.iter().all(|reply| *reply == replies[0]), "{replies:?}");
    let files: Vec<Vec<u8>> = replicas.iter_mut().map(data).collect();
    assert!(files.iter().all(|file| *file == files[0]));
}

/// Requests that a replica must not send close it, and nothing else does harm.
#[test]
fn a_replica_gets_no_replies() {
    let served = served(&[]);
    let mut client = served.client();
    let mut open = Vec::new();
    for request in
        ["PING", "GET a", "SET a 1", "MULTI", "SUBSCRIBE c", "CLIENT REPLY ON", "RESET", "QUIT", "nonsense", "REPLCONF", "HELLO 3"]
    {
        let mut replica = raw(&served, &[]);
        replica.send(b"PSYNC ? -1\r\n");
        line(&mut replica);
        data(&mut replica);
        replica.send(format!("{request}\r\n").as_bytes());
        assert!(is_closed(&mut replica), "{request}");
    }
    // These have no reply.
    for request in ["PSYNC ? -1", "SYNC", "MONITOR", "REPLCONF ACK x", "REPLCONF ACK -7", "REPLCONF GETACK *", "CLIENT REPLY OFF", ""] {
        let mut replica = raw(&served, &[]);
        // Also a client without replies is answered.
        replica.send(b"CLIENT REPLY OFF\r\nPSYNC ? -1\r\n");
        line(&mut replica);
        data(&mut replica);
        replica.send(format!("{request}\r\n").as_bytes());
        client.ask(&[b"SET", b"a", b"1"]);
        while command(&mut replica) != "*3($SET $a $1 )" {}
        open.push(replica);
    }
    assert_eq!(field(&mut client, "connected_slaves"), "8");
    // A monitor's request has no reply, and it stays a monitor.
    let mut monitor = served.client();
    ok(&mut monitor, &[b"MONITOR"]);
    monitor.send(b"PSYNC ? -1\r\n");
    client.ask(&[b"GET", b"a"]);
    let told = monitor.reply().unwrap().to_string();
    assert!(told.ends_with("\\\"GET\\\" \\\"a\\\""), "{told}");
    assert_eq!(field(&mut client, "connected_slaves"), "8");
    // Replies that have not left come before the stream.
    let mut hasty = served.client();
    hasty.send(b"PING\r\nPSYNC ? -1\r\n");
    assert_eq!(hasty.reply().unwrap().to_string(), "+PONG");
    assert_eq!(hasty.reply().unwrap().to_string(), "-ERR SYNC and PSYNC are invalid with pending output");
    // A message of a channel would break the stream.
    let mut listener = served.client();
    listener.ask(&[b"HELLO", b"3"]);
    listener.ask(&[b"SUBSCRIBE", b"channel"]);
    listener.send(b"PSYNC ? -1\r\n");
    line(&mut listener);
    data(&mut listener);
    client.ask(&[b"PUBLISH", b"channel", b"x"]);
    assert!(is_closed(&mut listener));
}

/// A replica that does not read costs disk, not memory, and is closed when it is too far behind; others notice nothing.
#[test]
fn a_replica_that_does_not_read_costs_no_memory() {
    let limits = [("repl-backlog-size", "4mb"), ("client-output-buffer-limit", "replica 24mb 0 0")];
    let served = served(&limits);
    let mut client = served.client();
    let mut slow = raw(&served, &[]);
    slow.send(b"PSYNC ? -1\r\n");
    let id = line(&mut slow).split(' ').nth(1).unwrap().to_owned();
    data(&mut slow);
    let value = vec![b'v'; 100_000];
    // Sockets buffer some megabytes.
    for n in 0..200u32 {
        ok(&mut client, &[b"SET", format!("k{}", n % 10).as_bytes(), &value]);
        let held: u64 = field(&mut client, "mem_clients_slaves").parse().unwrap();
        assert!(held < 3 << 20, "{held}");
    }
    assert_eq!(field(&mut client, "connected_slaves"), "1");
    // It reads all of it after all.
    let mut next = command(&mut slow);
    let mut count = 0;
    while !next.ends_with("$end $1 )") {
        count += usize::from(next.starts_with("*3($SET $k"));
        if count == 200 {
            ok(&mut client, &[b"SET", b"end", b"1"]);
        }
        next = command(&mut slow);
    }
    assert_eq!(count, 200);
    for n in 0..500u32 {
        ok(&mut client, &[b"SET", format!("k{}", n % 10).as_bytes(), &value]);
    }
    until("it is closed", || field(&mut client, "connected_slaves") == "0");
    assert_ne!(field(&mut client, "client_output_buffer_limit_disconnections"), "0");
    // The stream of that time is gone by and by.
    let kept: u64 = field(&mut client, "repl_backlog_histlen").parse().unwrap();
    assert!(kept < 30 << 20, "{kept}");
    let mut late = raw(&served, &[]);
    late.send(format!("PSYNC {id} 1\r\n").as_bytes());
    assert!(line(&mut late).starts_with("+FULLRESYNC"));
}

/// A transaction that is larger than the limit reaches a replica that reads.
#[test]
fn a_transaction_above_the_limit_arrives() {
    let limits = [("repl-backlog-size", "1mb"), ("client-output-buffer-limit", "replica 2mb 0 0")];
    let primary = served(&limits);
    let mut client = primary.client();
    let replica = served(&[("replicaof", &format!("127.0.0.1 {}", primary.address.port()))]);
    until("it follows", || field(&mut client, "connected_slaves") == "1");
    ok(&mut client, &[b"MULTI"]);
    let value = vec![b'v'; 1 << 20];
    for n in 0..10u32 {
        client.ask(&[b"SET", format!("k{n}").as_bytes(), &value]);
    }
    client.ask(&[b"EXEC"]);
    let mut copy = replica.client();
    until("all keys are there", || copy.ask(&[b"DBSIZE"]).to_string() == ":10");
}

/// A replica that goes away in the middle of the data leaves nothing behind, whatever happens to the keys meanwhile.
#[test]
fn a_full_synchronisation_may_end_at_any_time() {
    let served = served(&[]);
    let mut client = served.client();
    fill(&mut client, 12_000);
    for read in [0, 1, 50_000, 3_000_000] {
        let mut replica = raw(&served, &["capa eof"]);
        replica.send(b"PSYNC ? -1\r\n");
        line(&mut replica);
        replica.stream.read_exact(&mut vec![0; read]).unwrap();
    }
    until("all are gone", || field(&mut client, "connected_slaves") == "0" && field(&mut client, "rdb_bgsave_in_progress") == "0");
    let mut replica = raw(&served, &["capa eof"]);
    replica.send(b"PSYNC ? -1\r\n");
    line(&mut replica);
    until("the data are being sent", || info(&mut client).contains("state=send_bulk"));
    ok(&mut client, &[b"FLUSHALL"]);
    fill(&mut client, 10);
    // The data are those of the moment when it began.
    assert!(data(&mut replica).len() > 12_000_000);
    replica.send(&encode(&["REPLCONF", "ACK", "0"]));
    assert_eq!(command(&mut replica), "*2($SELECT $0 )");
    assert_eq!(command(&mut replica), "*1($FLUSHALL )");
    let mut last = raw(&served, &["capa eof"]);
    fill(&mut client, 12_000);
    last.send(b"PSYNC ? -1\r\n");
    line(&mut last);
    // The server ends while the thread waits for the replica.
    drop(served);
    assert!(is_closed(&mut last));
}

/// A replica that neither acknowledges nor says that it loads is closed.
#[test]
fn silent_replicas_are_closed() {
    let served = served(&[("repl-timeout", "1"), ("repl-ping-replica-period", "1")]);
    let mut client = served.client();
    let mut replicas: Vec<Client> = ["capa eof", "capa psync2"].iter().map(|option| raw(&served, &[option])).collect();
    for replica in &mut replicas {
        replica.send(b"PSYNC ? -1\r\n");
        line(replica);
        data(replica);
    }
    // The first one is loading.
    let loading = replicas.swap_remove(0);
    for _ in 0..30 {
        loading.sender().set_nodelay(true).unwrap();
        std::io::Write::write_all(&mut loading.sender(), b"\n").unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(replicas[0].stream.fill_buf().unwrap().starts_with(b"*1\r\n$4\r\nPING\r\n"));
    assert!(is_closed(&mut replicas[0]));
    assert_eq!(field(&mut client, "connected_slaves"), "1");
    drop(loading);
    until("it is gone", || field(&mut client, "connected_slaves") == "0");
}

/// Without replicas for long enough the stream ends.
#[test]
fn the_stream_ends_when_nobody_has_needed_it_for_long() {
    let served = served(&[("repl-backlog-ttl", "1")]);
    let mut client = served.client();
    let mut replica = raw(&served, &[]);
    replica.send(b"PSYNC ? -1\r\n");
    let first = line(&mut replica);
    data(&mut replica);
    client.ask(&[b"SET", b"a", b"1"]);
    assert_eq!(field(&mut client, "repl_backlog_active"), "1");
    drop(replica);
    until("the stream has ended", || field(&mut client, "repl_backlog_active") == "0");
    client.ask(&[b"SET", b"a", b"2"]);
    let mut replica = raw(&served, &[]);
    replica.send(format!("PSYNC {} 1\r\n", first.split(' ').nth(1).unwrap()).as_bytes());
    let second = line(&mut replica);
    assert!(second.starts_with("+FULLRESYNC ") && second.ends_with(" 0") && second != first, "{first} {second}");
}

/// A replica that has been sent all data may still load them: nobody counts on it before its first acknowledgement.
#[test]
fn who_has_acknowledged_nothing_has_nothing() {
    let served = served(&[("repl-backlog-ttl", "1")]);
    let mut client = served.client();
    let wait = |client: &mut Client, ms: &str| client.ask(&[b"WAIT", b"1", ms.as_bytes()]).to_string();
    client.ask(&[b"SET", b"a", b"1"]);
    for options in [&["capa eof"][..], &[]] {
        let mut replica = raw(&served, options);
        replica.send(b"PSYNC ? -1\r\n");
        line(&mut replica);
        data(&mut replica);
        until("it was sent all data", || info(&mut served.client()).contains("state=online"));
        assert_eq!(wait(&mut client, "100"), ":0", "{options:?}");
        replica.send(&encode(&["REPLCONF", "ACK", "1000"]));
        assert_eq!(wait(&mut client, "10000"), ":1", "{options:?}");
        // As in Redis, others' writes up to the client's last request count as well.
        served.client().ask(&[b"SET", b"a", "x".repeat(2000).as_bytes()]);
        client.ask(&[b"PING"]);
        assert_eq!(wait(&mut client, "100"), ":0", "{options:?}");
        // The next stream has the client's writes from its start.
        drop(replica);
        until("the stream has ended", || field(&mut served.client(), "repl_backlog_active") == "0");
    }
}

/// A write that needs a replica needs one that follows the stream: not one that loads, whatever it says meanwhile.
#[test]
fn writes_need_a_replica_that_follows() {
    let served = served(&[("min-replicas-to-write", "1"), ("repl-ping-replica-period", "3600")]);
    let mut client = served.client();
    const NOT_ENOUGH: &str = "-NOREPLICAS Not enough good replicas to write.";
    let set = |client: &mut Client| client.ask(&[b"SET", b"a", b"1"]).to_string();
    for options in [&["capa eof"][..], &[]] {
        let mut replica = raw(&served, options);
        replica.send(b"PSYNC ? -1\r\n");
        let stream = line(&mut replica);
        data(&mut replica);
        until("it was sent all data", || info(&mut client).contains("state=online"));
        replica.send(b"\n");
        assert_eq!(set(&mut client), NOT_ENOUGH, "{options:?}");
        replica.send(&encode(&["REPLCONF", "ACK", "0"]));
        until("it follows", || set(&mut client) == "+OK");
        assert_eq!(field(&mut client, "min_slaves_good_slaves"), "1");
        drop(replica);
        until("it is gone", || set(&mut client) == NOT_ENOUGH);
        // One that goes on where it was has everything before that.
        let mut replica = raw(&served, options);
        replica.send(format!("PSYNC {} 1\r\n", stream.split(' ').nth(1).unwrap()).as_bytes());
        assert!(line(&mut replica).starts_with("+CONTINUE"));
        assert_eq!(set(&mut client), "+OK", "{options:?}");
        drop(replica);
        until("it is gone", || set(&mut client) == NOT_ENOUGH);
    }
}

/// A replica goes on that was away while the server has started several times, and other replicas have learnt of the ids in between.
#[test]
fn a_replica_may_miss_several_starts() {
    let store = Arc::new(MemoryStore::new());
    let mut ids: Vec<String> = Vec::new();
    for start in 0..10 {
        let served = serve(&[], &store);
        let mut client = served.client();
        client.ask(&[b"INCR", b"starts"]);
        for (age, id) in ids.iter().rev().enumerate() {
            let mut replica = raw(&served, &[]);
            replica.send(format!("PSYNC {id} 1\r\n").as_bytes());
            let expected = if age < 8 { "+CONTINUE" } else { "+FULLRESYNC " };
            assert!(line(&mut replica).starts_with(expected), "start {start}, {age} ids before");
        }
        if start == 0 {
            let mut replica = raw(&served, &[]);
            replica.send(b"PSYNC ? -1\r\n");
            assert!(line(&mut replica).starts_with("+FULLRESYNC "));
        }
        ids.push(field(&mut client, "master_replid"));
    }
}
