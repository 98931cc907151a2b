//! Programs that were run on Redis 7.0.15, with replies that are equal byte for byte. `data/redis-7.0.15` has what that server answered;
//! with REWRITE=1 in the environment it is made anew from an installed `redis-server`.

use crate::common::Server;
use crate::programs::{by_hand, programs, unescape};
use sinter_script::Protocol;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/redis-7.0.15");

struct Redis {
    process: Child,
    directory: std::path::PathBuf,
}

impl Drop for Redis {
    fn drop(&mut self) {
        // The server of a test that failed may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn start() -> (Redis, UnixStream) {
    let directory = std::env::temp_dir().join(format!("sinter-script-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the socket");
    let socket = directory.join("s");
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket).stdout(Stdio::null());
    let process = command.spawn().expect("redis-server starts");
    let redis = Redis { process, directory };
    loop {
        if let Ok(stream) = UnixStream::connect(&socket) {
            return (redis, stream);
        }
        std::thread::yield_now();
    }
}

/// One reply as it is on the wire.
fn read_reply(from: &mut impl BufRead, out: &mut Vec<u8>) {
    let start = out.len();
    from.read_until(b'\n', out).expect("a line");
    assert!(out.len() > start + 2, "the server is gone");
    let line = String::from_utf8_lossy(&out[start + 1..out.len() - 2]).into_owned();
    match (out[start], line.parse::<i64>()) {
        (b'$' | b'=', Ok(length @ 0..)) => {
            let mut text = vec![0; length as usize + 2];
            from.read_exact(&mut text).expect("a bulk string");
            out.extend(text);
        }
        (b'*' | b'~', Ok(length)) => (0..length).for_each(|_| read_reply(from, out)),
        (b'%', Ok(length)) => (0..2 * length).for_each(|_| read_reply(from, out)),
        _ => {}
    }
}

fn ask(stream: &mut BufReader<UnixStream>, request: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
    for argument in request {
        bytes.extend(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend([argument, &b"\r\n"[..]].concat());
    }
    stream.get_mut().write_all(&bytes).expect("the server reads");
    let mut reply = Vec::new();
    read_reply(stream, &mut reply);
    reply
}

/// Programs, protocol of the client, and what the file of replies has behind its name; in the order in which they are run.
fn parts() -> [(Vec<Vec<u8>>, Protocol, String); 2] {
    [(programs(), Protocol::Resp2, DATA.to_owned()), (by_hand(), Protocol::Resp3, format!("{DATA}-resp3"))]
}

fn rewrite() {
    let (_redis, stream) = start();
    let mut stream = BufReader::new(stream);
    for (programs, protocol, file) in parts() {
        ask(&mut stream, &[b"HELLO", if protocol == Protocol::Resp3 { b"3" } else { b"2" }]);
        let mut data = String::new();
        for program in programs {
            let reply = ask(&mut stream, &[b"EVAL", &program, b"0"]);
            data += &format!("{}\t{}\n", program.escape_ascii(), reply.escape_ascii());
        }
        std::fs::write(file, data).expect("the data can be written");
    }
}

#[test]
fn replies_are_those_of_redis() {
    if std::env::var_os("REWRITE").is_some() {
        rewrite();
    }
    let mut server = Server::new();
    let mut different = Vec::new();
    for (programs, protocol, file) in parts() {
        server.client = protocol;
        let data = std::fs::read_to_string(file).expect("the data is there");
        assert_eq!(data.lines().count(), programs.len(), "the data is of other programs; make it anew with REWRITE=1");
        for (line, program) in data.lines().zip(programs) {
            let (text, expected) = line.split_once('\t').expect("a program and a reply");
            assert_eq!(unescape(text), program, "the data is of other programs; make it anew with REWRITE=1");
            let reply = match server.eval_with(&program, &[], &[]) {
                Ok(reply) => reply,
                Err(failure) => [b"-", &failure.message[..], b"\r\n"].concat(),
            };
            if reply != unescape(expected) {
                different.push(format!("{text}\n  redis: {expected}\n  here:  {}", reply.escape_ascii()));
            }
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}
