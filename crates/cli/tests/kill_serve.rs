//! `sinter serve` that is killed under load: every acknowledged write is there after a restart.
//!
//! `KILLS` says how often it is killed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const CLIENTS: usize = 3;
/// Requests sent together, and bytes of a value: the batch of an event-loop iteration is large enough for the second thread.
const TOGETHER: u64 = 16;
const VALUE: usize = 4000;

fn kills() -> u64 {
    std::env::var("KILLS").map_or(8, |kills| kills.parse().unwrap())
}

fn start(path: &Path) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sinter"))
        .args(["serve", "--port", "0", "--appendfsync", "always", "--dir"])
        .arg(path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().rsplit(' ').next().unwrap().to_owned())
}

fn value(client: usize, n: u64) -> String {
    format!("{client}/{n}/").repeat(VALUE / 4).chars().take(VALUE).collect()
}

/// Sets keys in batches, and counts acknowledgements, until the server has ended.
fn write(address: &str, client: usize, acknowledged: &AtomicU64) {
    let Ok(stream) = TcpStream::connect(address) else { return };
    let mut stream = BufReader::new(stream);
    let mut next = acknowledged.load(Ordering::Relaxed);
    loop {
        let set = |n| format!("*3\r\n$3\r\nSET\r\n$10\r\n{client}/{n:08}\r\n${VALUE}\r\n{}\r\n", value(client, n));
        let batch: String = (next..next + TOGETHER).map(set).collect();
        if stream.get_mut().write_all(batch.as_bytes()).is_err() {
            return;
        }
        for _ in 0..TOGETHER {
            let mut line = String::new();
            if !stream.read_line(&mut line).is_ok_and(|bytes| bytes > 0) || !line.ends_with('\n') {
                return;
            }
            assert_eq!(line, "+OK\r\n");
            next += 1;
            acknowledged.store(next, Ordering::Relaxed);
        }
    }
}

fn check(address: &str, client: usize, count: u64) {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    for n in 0..count {
        stream.get_mut().write_all(format!("GET {client}/{n:08}\r\n").as_bytes()).unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        assert_eq!(line, format!("${VALUE}\r\n"), "key {n} of client {client}, of {count} that were acknowledged");
        line.clear();
        stream.read_line(&mut line).unwrap();
        assert!(line.trim_end() == value(client, n), "key {n} of client {client} has another value");
    }
}

/// Accounts between which scripts move money, and what they have together.
const ACCOUNTS: u64 = 8;
const TOTAL: u64 = 8000;

/// Moves an amount in two writes, with a third that a reader would see alone.
const MOVE: &str = "local n = math.min(tonumber(ARGV[1]), tonumber(redis.call('get', KEYS[1])))
    redis.call('decrby', KEYS[1], n) redis.call('incrby', KEYS[2], n) return redis.call('incr', 'moves')";

fn request(words: &[&str]) -> String {
    let bulks: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{bulks}", words.len())
}

/// Lets scripts move amounts until the server has ended.
fn move_amounts(address: &str, client: u64) {
    let Ok(stream) = TcpStream::connect(address) else { return };
    let mut stream = BufReader::new(stream);
    for n in 0.. {
        let (from, to) = ((client + n) % ACCOUNTS, (client + 3 * n + 1) % ACCOUNTS);
        let names = [format!("account:{from}"), format!("account:{to}"), format!("{}", n % 50)];
        let move_one = request(&["EVAL", MOVE, "2", &names[0], &names[1], &names[2]]);
        if stream.get_mut().write_all(move_one.repeat(4).as_bytes()).is_err() {
            return;
        }
        for _ in 0..4 {
            let mut line = String::new();
            if !stream.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                return;
            }
            assert!(!line.ends_with('\n') || line.starts_with(':'), "{line}");
        }
    }
}

fn ask(address: &str, words: &[&str]) -> String {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    stream.get_mut().write_all(request(words).as_bytes()).unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    if line.starts_with('$') {
        line.clear();
        stream.read_line(&mut line).unwrap();
    }
    line.trim_end().to_owned()
}

#[test]
fn scripts_of_a_killed_server_are_there_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let sum = "local sum = 0 for n = 0, 7 do sum = sum + (redis.call('get', 'account:' .. n) or 0) end return sum";
    let mut moves = 0;
    for round in 0..kills() {
        let (mut child, address) = start(directory.path());
        if round == 0 {
            let each = (TOTAL / ACCOUNTS).to_string();
            (0..ACCOUNTS).for_each(|n| assert_eq!(ask(&address, &["SET", &format!("account:{n}"), &each]), "+OK"));
        }
        assert_eq!(ask(&address, &["EVAL", sum, "0"]), format!(":{TOTAL}"), "round {round}");
        moves = ask(&address, &["INCRBY", "moves", "0"])[1..].parse::<u64>().unwrap();
        std::thread::scope(|scope| {
            for client in 0..CLIENTS as u64 {
                let address = &address;
                scope.spawn(move || move_amounts(address, client));
            }
            std::thread::sleep(Duration::from_millis(60 + 37 * round % 100));
            child.kill().unwrap();
            child.wait().unwrap();
        });
    }
    let (mut child, address) = start(directory.path());
    assert_eq!(ask(&address, &["EVAL", sum, "0"]), format!(":{TOTAL}"));
    assert!(ask(&address, &["INCRBY", "moves", "0"])[1..].parse::<u64>().unwrap() >= moves && moves > 0, "{moves} moves");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_a_killed_server_has_acknowledged_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let acknowledged: [AtomicU64; CLIENTS] = Default::default();
    for round in 0..kills() {
        let (mut child, address) = start(directory.path());
        std::thread::scope(|scope| {
            for (client, acknowledged) in acknowledged.iter().enumerate() {
                let address = &address;
                scope.spawn(move || write(address, client, acknowledged));
            }
            // The kill falls somewhere into a batch, which depends on the machine.
            std::thread::sleep(Duration::from_millis(60 + 37 * round % 100));
            child.kill().unwrap();
            child.wait().unwrap();
        });
    }
    let (mut child, address) = start(directory.path());
    let counts = acknowledged.map(AtomicU64::into_inner);
    for (client, count) in counts.into_iter().enumerate() {
        check(&address, client, count);
    }
    assert!(counts.iter().sum::<u64>() > 0, "no server lived long enough to acknowledge anything");
    child.kill().unwrap();
    child.wait().unwrap();
}
