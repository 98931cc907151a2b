//! A server with few descriptors: clients must not take those that the engine needs for its files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Descriptors of the server.
const LIMIT: usize = 160;

/// Starts a server under these limits: it, and where it listens.
fn start(limits: &str, directory: &Path) -> (Child, String) {
    let mut child = Command::new("sh")
        .args(["-c", &format!("{limits}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_sinter")])
        .args(["serve", "--port", "0", "--enable-debug-command", "yes", "--dir"])
        .arg(directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().rsplit(' ').next().unwrap().to_owned())
}

fn ask(stream: &mut BufReader<TcpStream>, request: &str) -> String {
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn clients_leave_descriptors_for_files() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, address) = start(&format!("ulimit -n {LIMIT}"), directory.path());
    let mut client = BufReader::new(TcpStream::connect(&address).unwrap());
    assert_eq!(ask(&mut client, "SET a 1\r\n"), "+OK");
    let mut refused = 0;
    let others: Vec<TcpStream> = (0..LIMIT)
        .map(|_| {
            let mut other = TcpStream::connect(&address).unwrap();
            other.write_all(b"PING\r\n").unwrap();
            let mut first = [0; 1];
            // One that was refused may already be closed.
            if other.read(&mut first).unwrap_or(0) == 0 || first == *b"-" {
                refused += 1;
            }
            other
        })
        .collect();
    assert!((LIMIT / 4..LIMIT).contains(&refused), "{refused} were refused");
    // A table is written, and a file of all keys.
    for request in ["SET b 2\r\n", "DEBUG RELOAD\r\n", "SAVE\r\n"] {
        assert_eq!(ask(&mut client, request), "+OK", "{request}");
    }
    drop(others);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What the process was given unasked is no limit if it may have more.
#[test]
fn the_soft_limit_is_raised() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, address) = start(&format!("ulimit -Hn {}; ulimit -Sn {LIMIT}", 4 * LIMIT), directory.path());
    let mut clients: Vec<_> = (0..2 * LIMIT).map(|_| BufReader::new(TcpStream::connect(&address).unwrap())).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(ask(client, "PING\r\n"), "+PONG", "client {at}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
