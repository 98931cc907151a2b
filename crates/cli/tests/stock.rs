//! The server starts with the configuration files of Redis and Valkey: `stock/` has all their directives, active ones and, behind `#?`,
//! commented examples.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const FILES: [&str; 6] = ["redis-6.0", "redis-6.2", "redis-7.0", "redis-7.2", "valkey-7.2", "valkey-8"];

/// Examples that ask for features that do not exist here and that a user would miss.
const REFUSED: &[&str] = &["loadmodule", "cluster-enabled yes", "rename-command CONFIG \"\""];

/// The new name of `CONFIG` after the first example of `rename-command`.
const CONFIG: &str = "b840fc02d524045429941cc15f59e41cb7be6c52";

/// Names that `CONFIG GET` does not show, as in Redis.
const NOT_SHOWN: &[&str] = &["include", "loadmodule", "rename-command", "user"];

struct Stock {
    folder: tempfile::TempDir,
    file: PathBuf,
    /// Lines of the file.
    lines: Vec<String>,
}

impl Stock {
    /// The file with its examples active; without `with_refused`, those that are refused stay comments.
    fn new(name: &str, with_refused: bool) -> Stock {
        let folder = tempfile::tempdir().unwrap();
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/stock/{name}.conf"))).unwrap();
        let parts = folder.path().display().to_string();
        let is_wanted = |line: &&str| with_refused || !REFUSED.iter().any(|refused| line.starts_with(refused));
        let lines = text.lines().map(|line| line.strip_prefix("#? ").unwrap_or(line)).filter(is_wanted);
        let lines: Vec<String> = lines.map(|line| line.replace("/path/to", &parts)).collect();
        std::fs::create_dir(folder.path().join("fragments")).unwrap();
        for part in ["local.conf", "other.conf", "fragments/one.conf"] {
            std::fs::write(folder.path().join(part), "# nothing\n").unwrap();
        }
        std::fs::write(folder.path().join("users.acl"), "user default on >foobared ~* &* +@all\n").unwrap();
        let file = folder.path().join("stock.conf");
        std::fs::write(&file, lines.join("\n") + "\n").unwrap();
        Stock { folder, file, lines }
    }

    /// Paths, ports and addresses for the machine that the test runs on.
    fn overrides(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let mut all = vec![("dir", path("data")), ("pidfile", path("pid")), ("unixsocket", path("socket")), ("aclfile", path("users.acl"))];
        all.extend([("port", "0"), ("tls-port", "0"), ("bind", "127.0.0.1")].map(|(name, value)| (name, value.to_owned())));
        let files = ["tls-cert-file", "tls-key-file", "tls-ca-cert-file", "tls-ca-cert-dir"];
        all.extend(files.map(|name| (name, String::new())));
        all.extend([("unixsocketgroup", ""), ("tls-replication", "no")].map(|(name, value)| (name, value.to_owned())));
        all
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinter"));
        command.arg("serve").arg(&self.file).current_dir(self.folder.path()).env_remove("NOTIFY_SOCKET").env_remove("UPSTART_JOB");
        for (name, value) in self.overrides() {
            command.arg(format!("--{name}")).arg(value);
        }
        command
    }

    fn start(&self) -> Server {
        let mut process = self.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut text = String::new();
            process.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            panic!("{text}");
        }
        let client = BufReader::new(UnixStream::connect(self.folder.path().join("socket")).unwrap());
        let mut server = Server { process, client };
        assert_eq!(server.ask(&["AUTH", "foobared"]), ["OK"]);
        server
    }
}

struct Server {
    process: Child,
    client: BufReader<UnixStream>,
}

impl Server {
    /// Sends a request; returns the texts of the reply.
    fn ask(&mut self, words: &[&str]) -> Vec<String> {
        let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        let count = words.matches("\r\n").count() / 2;
        self.client.get_mut().write_all(format!("*{count}\r\n{words}").as_bytes()).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> Vec<String> {
        let mut line = String::new();
        self.client.read_line(&mut line).unwrap();
        let (kind, rest) = line.trim_end().split_at_checked(1).unwrap_or_else(|| panic!("no reply: {line:?}"));
        match kind {
            "*" => (0..rest.parse().unwrap()).flat_map(|_| self.reply()).collect(),
            "$" => {
                let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.client.read_exact(&mut text).unwrap();
                text.truncate(text.len() - 2);
                vec![String::from_utf8(text).unwrap()]
            }
            _ => vec![rest.to_owned()],
        }
    }

    /// All that `CONFIG GET *` shows.
    fn shown(&mut self, config: &str) -> BTreeMap<String, String> {
        let words = self.ask(&[config, "GET", "*"]);
        words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
    }

    fn stop(mut self) {
        self.client.get_mut().write_all(b"SHUTDOWN\r\n").unwrap();
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Kills the server of a failed test; otherwise it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A number of bytes, whatever its unit.
fn bytes(value: &str) -> Option<u64> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let factor = match &value[digits..] {
        "" => 1,
        "gb" => 1 << 30,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        _ => return None,
    };
    value[..digits].parse::<u64>().ok().map(|number| number * factor)
}

#[test]
fn every_directive_of_the_stock_files_is_shown_and_kept() {
    for name in FILES {
        let stock = Stock::new(name, false);
        let renames = stock.lines.iter().any(|line| line.starts_with("rename-command"));
        let config = if renames { CONFIG } else { "CONFIG" };
        let mut server = stock.start();
        assert_eq!(server.ask(&["PING"]), ["PONG"]);
        let shown = server.shown(config);
        let overrides = stock.overrides();
        let mut last = BTreeMap::new();
        for line in stock.lines.iter().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (directive, value) = line.split_once(' ').unwrap();
            last.insert(directive, value.trim_matches('"'));
        }
        for (directive, value) in last {
            let Some(now) = shown.get(directive) else {
                assert!(NOT_SHOWN.contains(&directive), "{name}: {directive} is not shown");
                continue;
            };
            // Each line of these directives adds to those before it.
            let is_sum = ["client-output-buffer-limit", "save"].contains(&directive);
            let is_same = now == value || bytes(value).is_some_and(|bytes| now.parse() == Ok(bytes));
            assert!(is_same || is_sum || overrides.iter().any(|(name, _)| *name == directive), "{name}: {directive} {value} is {now}");
        }
        assert_eq!(shown["client-output-buffer-limit"], "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60");
        assert_eq!(server.ask(&[config, "REWRITE"]), ["OK"], "{name}");
        server.stop();
        // The socket and the pid file are removed when the server ends.
        assert!(!stock.folder.path().join("socket").exists() && !stock.folder.path().join("pid").exists());
        let mut server = stock.start();
        let mut again = server.shown(config);
        // Port 0 stands for a different free port each time.
        again.insert("port".into(), shown["port"].clone());
        assert_eq!(again, shown, "{name}");
        server.stop();
    }
}

/// Directives for missing features that a user would miss are refused with their lines, all at once.
#[test]
fn examples_that_ask_for_what_is_missing_are_refused_by_line() {
    for name in FILES {
        let stock = Stock::new(name, true);
        let output = stock.command().output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}: {told}");
        let is_refused = |line: &str| REFUSED.iter().any(|refused| line.starts_with(refused));
        let expected: Vec<usize> = (1..).zip(&stock.lines).filter(|(_, line)| is_refused(line)).map(|(at, _)| at).collect();
        let start = format!("sinter: {}:", stock.file.display());
        let number = |line: &str| line.strip_prefix(&start).and_then(|rest| rest.split(':').next()?.parse().ok());
        let lines: Vec<usize> = told.lines().map(|line| number(line).unwrap_or_else(|| panic!("{name}: {line}"))).collect();
        assert_eq!(lines, expected, "{name}: {told}");
    }
}
