//! `sinter serve` as a process: it says where it listens, serves, ends cleanly when told to, and has everything again, killed or not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn start(path: &Path) -> (Child, TcpStream) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sinter"))
        .args(["serve", "--port", "0", "--dir"])
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap().to_owned();
    let stream = TcpStream::connect(&address).unwrap_or_else(|error| panic!("{line:?}: {error}"));
    (child, stream)
}

fn ask(stream: &mut TcpStream, request: &str, reply: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut got = vec![0; reply.len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), reply, "{request}");
}

#[test]
fn what_was_acknowledged_is_there_after_any_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let (mut child, mut stream) = start(&path);
    ask(&mut stream, "SET a 1\r\nRPUSH l x y\r\n", "+OK\r\n:2\r\n");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());

    let (mut child, mut stream) = start(&path);
    ask(&mut stream, "GET a\r\nLLEN l\r\nINCR a\r\n", "$1\r\n1\r\n:2\r\n:2\r\n");
    child.kill().unwrap();
    child.wait().unwrap();

    let (mut child, mut stream) = start(&path);
    ask(&mut stream, "GET a\r\nDBSIZE\r\n", "$1\r\n2\r\n:2\r\n");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_cannot_be_served_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_sinter")).arg("serve").args(arguments).arg("--dir").arg(directory.path()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = run(&["--bind", "0.0.0.0", "--port", "0"]);
    assert!(code == Some(1) && text.contains("set requirepass"), "{text}");
    assert_eq!(run(&["--appendfsync", "sometimes"]).0, Some(2));
}
