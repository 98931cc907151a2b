//! `sinter serve` as a process: it reports its address, serves, ends cleanly when told to, and has all data again, killed or not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn start(path: &Path) -> (Child, TcpStream) {
    start_with(&["--port", "0", "--dir", path.to_str().unwrap()])
}

fn start_with(arguments: &[&str]) -> (Child, TcpStream) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sinter"))
        .arg("serve")
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
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
    let (code, text) = run(&["--appendfsnyc", "always"]);
    assert!(code == Some(2) && text.contains("did you mean appendfsync?"), "{text}");
    let missing = directory.path().join("missing.pem");
    let missing = missing.to_str().unwrap();
    for (arguments, why) in [
        (&["--tls-port", "7"][..], "TLS needs tls-cert-file, which is not set".into()),
        (&["--tls-port", "7", "--tls-cert-file", missing], format!("tls-cert-file {missing}: No such file or directory (os error 2)")),
        (
            &["--tls-key-file", missing],
            "tls-key-file is set, but the server was given no tls-port: no connection would be encrypted".into(),
        ),
        (&["--tls-port", "7", "--port", "7"], "port and tls-port are both 7".into()),
        (&["--loadmodule", "x.so"], "there is no such parameter here: there are no modules".into()),
    ] {
        let (code, text) = run(arguments);
        assert!(code == Some(2) && text.contains(&why), "{arguments:?}: {text}");
    }
}

/// A server goes on if neither standard output nor standard error can be written: the medium below them is full.
#[test]
fn a_server_needs_no_output() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sinter"))
        .args(["serve", "--port", "0", "--dir", directory.path().join("data").to_str().unwrap(), "--unixsocket", path.to_str().unwrap()])
        .stdout(full())
        .stderr(full())
        .spawn()
        .unwrap();
    let mut stream = loop {
        match UnixStream::connect(&path) {
            Ok(stream) => break stream,
            Err(_) => assert!(child.try_wait().unwrap().is_none(), "the server ended"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    stream.write_all(b"SHUTDOWN NOW\r\n").unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert!(child.wait().unwrap().success());
}

/// A server that starts beside the data of a Redis server refuses: clients would find no key.
#[test]
fn data_of_a_redis_server_are_not_taken_for_an_empty_database() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("dump.rdb"), "REDIS0009").unwrap();
    // The address is not available either, so that a server that ignores the directory ends, too.
    let arguments = ["serve", "--port", "0", "--bind", "192.0.2.1", "--protected-mode", "no", "--dir"];
    let output = Command::new(env!("CARGO_BIN_EXE_sinter")).args(arguments).arg(directory.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && text.contains("dump.rdb --dir "), "{text}");
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn stop(child: &mut Child) -> String {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    text
}

fn get(port: u16, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[test]
fn a_file_with_users_metrics_and_a_log_is_served_and_rewritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (file, port, metrics) = (path("sinter.conf"), free_port(), free_port());
    let text = format!(
        "# mine\nport {port}\ndir {}\nmetrics-port {metrics}\npidfile {}\nloglevel verbose\nuser default on nopass ~* &* +@all\n\
         user alice on >secret ~a* +@read\n",
        path("data"),
        path("pid")
    );
    std::fs::write(&file, text).unwrap();
    let (mut child, mut stream) = start_with(&[&file, "--timeout", "100"]);
    assert_eq!(std::fs::read_to_string(path("pid")).unwrap().trim(), child.id().to_string());
    ask(&mut stream, "SET a 1\r\nCONFIG SET slowlog-max-len 7 appendfsync always\r\n", "+OK\r\n+OK\r\n");
    ask(&mut stream, "ACL SETUSER bob on\r\nCONFIG REWRITE\r\n", "+OK\r\n+OK\r\n");
    ask(&mut stream, "AUTH alice secret\r\nGET a\r\n", "+OK\r\n$1\r\n1\r\n");
    ask(&mut stream, "GET b\r\n", "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n");
    assert_eq!(get(metrics, "/health"), ("HTTP/1.1 200 OK".into(), "ok\n".into()));
    let (status, page) = get(metrics, "/metrics?x=1");
    assert_eq!(status, "HTTP/1.1 200 OK");
    for line in [
        "sinterdb_keys{db=\"0\"} 1",
        "sinterdb_command_calls_total{command=\"set\"} 1",
        "sinterdb_refused_requests_total{reason=\"key\"} 1",
    ] {
        assert!(page.lines().any(|known| known == line), "{line}\n{page}");
    }
    assert_eq!(get(metrics, "/").0, "HTTP/1.1 404 Not Found");
    let log = stop(&mut child);
    let events: Vec<&str> = log.lines().filter_map(|line| line.split(" event=").nth(1)?.split(' ').next()).collect();
    for event in ["serving", "serving_metrics", "client_connected", "config_rewritten", "stopping", "stopped"] {
        assert!(events.contains(&event), "{event}\n{log}");
    }
    assert!(log.lines().all(|line| line.starts_with("time=20") && line.contains(" level=")), "{log}");
    assert!(!Path::new(&path("pid")).exists());
    let rewritten = std::fs::read_to_string(&file).unwrap();
    for line in ["# mine", "slowlog-max-len 7", "appendfsync always", "timeout 100", "user bob on resetchannels -@all"] {
        assert!(rewritten.lines().any(|known| known == line), "{line}\n{rewritten}");
    }
    // The rewritten file can be read again.
    let (mut child, mut stream) = start_with(&[&file]);
    ask(&mut stream, "AUTH alice secret\r\n", "+OK\r\n");
    stop(&mut child);
}

#[test]
fn shutdown_ends_the_server_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, mut stream) = start(directory.path());
    stream.write_all(b"SET a 1\r\nSHUTDOWN\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said, "+OK\r\n");
    assert!(child.wait().unwrap().success());
    let (mut child, mut stream) = start(directory.path());
    ask(&mut stream, "GET a\r\n", "$1\r\n1\r\n");
    stop(&mut child);
}

/// A line of `INFO persistence`.
fn persistence(stream: &mut TcpStream, name: &str) -> String {
    stream.write_all(b"INFO persistence\r\n").unwrap();
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let bytes = stream.read(&mut buffer).unwrap();
        assert!(bytes > 0, "the connection was closed");
        text.extend_from_slice(&buffer[..bytes]);
        let whole = String::from_utf8_lossy(&text).into_owned();
        let Some((length, rest)) = whole.strip_prefix('$').and_then(|rest| rest.split_once("\r\n")) else { continue };
        if rest.len() == length.parse::<usize>().unwrap() + 2 {
            let line = rest.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            return line.unwrap_or_else(|| panic!("{name} in {whole}")).to_owned();
        }
    }
}

/// A process that is killed at the end of its test.
struct Started(Child);

/// A Redis server that has loaded the AOF.
struct Redis {
    stream: TcpStream,
    _process: Started,
}

/// The connection, once the server has loaded its data: it accepts connections earlier.
fn loaded(mut stream: TcpStream) -> Option<TcpStream> {
    stream.write_all(b"PING\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    (line == "+PONG\r\n").then_some(stream)
}

impl Redis {
    /// Starts a Redis server on the AOF in a directory; `None`: it is not installed.
    fn on(directory: &Path) -> Option<Redis> {
        let version = Command::new("redis-server").arg("--version").output().ok()?;
        if !String::from_utf8_lossy(&version.stdout).contains("v=7.0.") {
            return None;
        }
        let port = free_port();
        let arguments = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"];
        let child = Command::new("redis-server").args(arguments).arg("--dir").arg(directory).stdout(Stdio::null()).spawn().unwrap();
        let mut started = Started(child);
        for _ in 0..500 {
            assert!(started.0.try_wait().unwrap().is_none(), "redis-server does not load {}", directory.display());
            if let Some(stream) = TcpStream::connect(("127.0.0.1", port)).ok().and_then(loaded) {
                return Some(Redis { stream, _process: started });
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("redis-server does not listen");
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn number(stream: &mut TcpStream, key: &str) -> u64 {
    stream.write_all(format!("INCRBY {key} 0\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim().trim_start_matches(':').parse().unwrap_or_else(|_| panic!("{line}"))
}

/// After a kill at any moment, also during a rewrite of the AOF, a Redis server that loads it has every acknowledged write.
#[test]
fn a_killed_server_leaves_a_log_that_redis_loads() {
    use std::sync::atomic::{AtomicU64, Ordering};
    const WRITERS: usize = 3;
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    for round in 0..6u64 {
        let arguments = ["--port", "0", "--appendonly", "yes", "--appendfsync", if round % 2 == 0 { "always" } else { "everysec" }];
        let (mut child, mut stream) = start_with(&[&arguments[..], &["--dir", data.to_str().unwrap()]].concat());
        // Writes before the first base file of a start are in the log only with that file.
        while persistence(&mut stream, "aof_rewrite_in_progress") == "1" {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let known: Vec<AtomicU64> = (0..WRITERS).map(|n| AtomicU64::new(number(&mut stream, &format!("n{n}")))).collect();
        let address = stream.peer_addr().unwrap();
        std::thread::scope(|scope| {
            for (n, known) in known.iter().enumerate() {
                scope.spawn(move || {
                    let mut lines = BufReader::new(TcpStream::connect(address).unwrap());
                    // Until the server has ended.
                    loop {
                        let request = format!("INCR n{n}\r\n");
                        let mut line = String::new();
                        if lines.get_mut().write_all(request.as_bytes()).is_err() || lines.read_line(&mut line).is_err() || line.is_empty()
                        {
                            return;
                        }
                        known.store(line.trim().trim_start_matches(':').parse().unwrap(), Ordering::Release);
                    }
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(30 + 17 * round));
            if round % 3 != 0 {
                stream.write_all(b"BGREWRITEAOF\r\n").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(4 * round));
            }
            child.kill().unwrap();
            child.wait().unwrap();
        });
        let logs = tempfile::tempdir().unwrap();
        std::fs::create_dir(logs.path().join("appendonlydir")).unwrap();
        for entry in std::fs::read_dir(data.join("appendonlydir")).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), logs.path().join("appendonlydir").join(entry.file_name())).unwrap();
        }
        let Some(mut redis) = Redis::on(logs.path()) else {
            eprintln!("skipped: there is no redis-server 7.0 here");
            return;
        };
        for (n, known) in known.iter().enumerate() {
            let (found, known) = (number(&mut redis.stream, &format!("n{n}")), known.load(Ordering::Acquire));
            assert!(known > 0 && (known..=known + 1).contains(&found), "round {round}, n{n}: {found}, and {known} was acknowledged");
        }
    }
}

/// Anonymous memory of a process, bytes.
#[cfg(target_os = "linux")]
fn anonymous(child: &Child) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Neither buffers, nor memtables, nor the allocator keep the memory that a huge value took.
#[cfg(target_os = "linux")]
#[test]
fn a_server_at_rest_has_the_memory_of_its_start() {
    const VALUE: usize = 64 << 20;
    let directory = tempfile::tempdir().unwrap();
    let (mut child, mut stream) = start(directory.path());
    ask(&mut stream, "PING\r\n", "+PONG\r\n");
    let before = anonymous(&child);
    ask(&mut stream, "MULTI\r\n", "+OK\r\n");
    stream.write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${VALUE}\r\n").as_bytes()).unwrap();
    (0..VALUE >> 20).for_each(|n| stream.write_all(&vec![n as u8 | 1; 1 << 20]).unwrap());
    ask(&mut stream, "\r\n", "+QUEUED\r\n");
    ask(&mut stream, "EXEC\r\nAPPEND k x\r\nDEL k\r\n", &format!("*1\r\n+OK\r\n:{}\r\n:1\r\n", VALUE + 1));
    // About six seconds.
    for _ in 0..1200 {
        if anonymous(&child) < before + (6 << 20) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let after = anonymous(&child);
    assert!(after < before + (6 << 20), "{before} bytes, then {after}");
    stop(&mut child);
}
