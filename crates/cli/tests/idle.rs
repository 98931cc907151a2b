//! Ten thousand idle clients: how much of the server's memory each takes, and that others are still served.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

const CLIENTS: u64 = 10_000;
/// Memory that an idle client may take in the server, bytes.
const EACH_MAX: u64 = 4 << 10;

/// A figure of `INFO`.
fn figure(stream: &mut BufReader<TcpStream>, name: &str) -> u64 {
    stream.get_mut().write_all(b"INFO\r\n").unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let mut text = vec![0; line.trim()[1..].parse::<usize>().unwrap() + 2];
    stream.read_exact(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
}

fn ping(stream: &mut impl Write, reader: &mut impl Read) {
    stream.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    reader.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}

#[test]
fn ten_thousand_clients_that_say_nothing_take_little() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    // A quarter of the server's descriptors is not available to clients.
    let count = CLIENTS.min(most / 4 * 3 - 64);
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sinter"))
        .args(["serve", "--port", "0", "--maxclients", "10100", "--dir"])
        .arg(directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap().to_owned();
    let mut other = BufReader::new(TcpStream::connect(&address).unwrap());
    let before = figure(&mut other, "used_memory_rss");
    let idle: Vec<TcpStream> = (0..count)
        .map(|_| {
            let stream = TcpStream::connect(&address).unwrap();
            ping(&mut &stream, &mut &stream);
            stream
        })
        .collect();
    assert_eq!(figure(&mut other, "connected_clients"), count + 1);
    // Idle clients give up their buffers within a second or so. The client that sends `INFO` has some.
    let own = 1 << 20;
    let mut looks = 0;
    while figure(&mut other, "mem_clients_normal") > own {
        assert!(looks < 2000, "buffers are kept");
        looks += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    let each = figure(&mut other, "used_memory_rss").saturating_sub(before) / count;
    eprintln!("{count} idle clients take {each} bytes of the server's memory each");
    assert!(each < EACH_MAX, "{each}");
    for _ in 0..1000 {
        other.get_mut().write_all(b"PING\r\n").unwrap();
        line.clear();
        other.read_line(&mut line).unwrap();
        assert_eq!(line, "+PONG\r\n");
    }
    drop(idle);
    looks = 0;
    while figure(&mut other, "connected_clients") > 1 {
        assert!(looks < 2000, "clients stay");
        looks += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
