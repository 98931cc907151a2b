//! The server of a run: a child process in a group of its own, so that all its processes end with the run.

use super::field;
use super::line::Line;
use crate::run::{EngineSpec, REDIS, ServerSpec};
use crate::system::{Failure, Outcome};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use sinterdb::clock::{Clock, SystemClock};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The program of Redis.
const REDIS_SERVER: &str = "redis-server";
/// Interval between checks whether a new server answers.
const POLL: Duration = Duration::from_millis(10);
/// Checks whether a server that does not answer has ended.
const ENDING: usize = 100;
/// Time in which a new server must answer, nanoseconds.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Names in the directory of a run: the data, the server's output, and the number of its process group.
const DATA: &str = "data";
const LOG: &str = "server.log";
const GROUP: &str = "server.group";

/// A running server that answers. Dropping it ends the server.
pub(super) struct Server {
    child: Child,
    address: SocketAddr,
    directory: PathBuf,
}

impl Server {
    /// Starts the server of a spec in a directory and waits until it answers.
    ///
    /// # Errors
    /// A program that cannot be started, or ends, or does not answer; `stop` was raised.
    pub fn start(spec: &EngineSpec, server: &ServerSpec, directory: &Path, clock: &SystemClock, stop: &AtomicBool) -> Outcome<Server> {
        Self::start_at(free_address()?, spec, server, directory, clock, stop)
    }

    fn start_at(
        address: SocketAddr,
        spec: &EngineSpec,
        server: &ServerSpec,
        directory: &Path,
        clock: &SystemClock,
        stop: &AtomicBool,
    ) -> Outcome<Server> {
        // The server is started in this directory, where a relative path would lead elsewhere.
        let directory = std::path::absolute(directory)?;
        fs::create_dir(directory.join(DATA))?;
        let log = File::create(directory.join(LOG))?;
        let program = program(spec, server)?;
        let mut command = Command::new(&program);
        command.args(arguments(spec, address, &directory.join(DATA))).current_dir(&directory);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        let child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let mut server = Server { child, address, directory };
        fs::write(server.directory.join(GROUP), server.process().to_string())?;
        let until = clock.monotonic_ns() + PATIENCE_NS;
        while !server.answers(stop)? {
            if let Some(status) = server.child.try_wait()? {
                return Err(server.blamed(format!("ended with {status}")));
            }
            if stop.load(Ordering::Relaxed) {
                return Err("interrupted".into());
            }
            if clock.monotonic_ns() > until {
                return Err(server.blamed("does not answer"));
            }
            thread::sleep(POLL);
        }
        Ok(server)
    }

    /// Whether the server answers. Another server may listen at the address, if it was faster.
    fn answers(&self, stop: &AtomicBool) -> Outcome<bool> {
        let said = Line::connect(self.address, stop).and_then(|mut line| {
            line.ping()?;
            line.info()
        });
        let Ok(said) = said else { return Ok(false) };
        match field(&said, "process_id") {
            Some(other) if other != self.process().to_string() => {
                Err(self.blamed(format!("process {other} answers at {} in its place", self.address)))
            }
            _ => Ok(true),
        }
    }

    /// Whether the server was killed by SIGKILL, as the kernel does when memory is full. Called when the server no longer answers: it may
    /// still be ending.
    pub fn was_killed(&self) -> bool {
        let Ok(process) = i32::try_from(self.process()) else { return false };
        // With `WNOWAIT` the process remains, for the `wait` of `drop`.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        for _ in 0..ENDING {
            match waitid(Id::Pid(Pid::from_raw(process)), flags) {
                Ok(WaitStatus::StillAlive) => thread::sleep(POLL),
                ended => return matches!(ended, Ok(WaitStatus::Signaled(_, Signal::SIGKILL, _))),
            }
        }
        false
    }

    /// Address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Process id of the server.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// The directory of the run.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Directory of the server's data.
    pub fn data(&self) -> PathBuf {
        self.directory.join(DATA)
    }

    /// Adds the last line of the server's output to a failure.
    pub fn blamed(&self, failure: impl std::fmt::Display) -> Failure {
        format!("the server: {failure}{}", last_said(&self.directory.join(LOG))).into()
    }
}

/// The last line of a program's output, to follow its failure.
pub(super) fn last_said(log: &Path) -> String {
    let said = fs::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    last.map_or_else(String::new, |line| format!("; the last that it said: {line}"))
}

impl Drop for Server {
    fn drop(&mut self) {
        end(self.process());
        // The server was killed, so this returns.
        let _ = self.child.wait();
    }
}

/// Ends the server that a killed runner has left: the process group noted in the directory of its run. A process of this number that works
/// outside that directory is another one, and is left alone.
pub fn end_left(directory: &Path) {
    let noted = fs::read_to_string(directory.join(GROUP)).ok();
    let home = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let is_others = |process: &u32| fs::read_link(format!("/proc/{process}/cwd")).is_ok_and(|works| !works.starts_with(&home));
    if let Some(process) = noted.and_then(|text| text.parse().ok()).filter(|process| !is_others(process)) {
        end(process);
    }
}

/// Kills a process group: a server, and its forks that write its data. The data need no clean end: the directory is removed.
fn end(process: u32) {
    // Group 0 would be this process's own, and 1 means every process.
    if let Some(group) = i32::try_from(process).ok().filter(|group| *group > 1) {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
}

/// A free address. Another process may take it before the server does, which then fails to start.
fn free_address() -> Outcome<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn program(spec: &EngineSpec, server: &ServerSpec) -> Outcome<PathBuf> {
    match &server.program {
        // The server is started in another directory.
        Some(program) if program.components().count() > 1 => Ok(std::path::absolute(program)?),
        Some(program) => Ok(program.clone()),
        None if spec.name == REDIS => Ok(REDIS_SERVER.into()),
        None => Ok(std::env::current_exe()?),
    }
}

/// Command-line arguments of a server: address, directory, and the settings of the spec. Defaults are not passed, so that they stay what
/// users have; only Redis's automatic snapshots are off, because its log is measured.
fn arguments(spec: &EngineSpec, address: SocketAddr, data: &Path) -> Vec<String> {
    let (ip, port, data) = (address.ip().to_string(), address.port().to_string(), data.display().to_string());
    let own = ["--bind", &ip, "--port", &port, "--dir", &data];
    let before: &[&str] = if spec.name == REDIS { &["--save", "", "--daemonize", "no"] } else { &["serve"] };
    let settings = spec.database.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]);
    before.iter().chain(&own).map(|text| (*text).to_owned()).chain(settings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::{BufRead, BufReader, Read, Write};

    #[test]
    fn servers_are_told_where_and_the_settings() {
        let settings = BTreeMap::from([("appendfsync".to_string(), "everysec".to_string())]);
        let spec = |name: &str| EngineSpec { name: name.into(), database: settings.clone(), ..EngineSpec::default() };
        let told = |name: &str| arguments(&spec(name), "127.0.0.1:7".parse().unwrap(), Path::new("/d")).join(" ");
        assert_eq!(told("sinter"), "serve --bind 127.0.0.1 --port 7 --dir /d --appendfsync everysec");
        assert_eq!(told("redis"), "--save  --daemonize no --bind 127.0.0.1 --port 7 --dir /d --appendfsync everysec");
    }

    #[test]
    fn a_server_that_ends_says_why() {
        let directory = tempfile::tempdir().unwrap();
        // The shell takes the first argument for its script.
        fs::write(directory.path().join("serve"), "echo no such flag: $1\nexit 3\n").unwrap();
        let spec = EngineSpec { name: "sinter".into(), ..EngineSpec::default() };
        let server = ServerSpec { program: Some("/bin/sh".into()), ..ServerSpec::new(1, 1) };
        let start = |stop: bool| {
            let _ = fs::remove_dir(directory.path().join(DATA));
            Server::start(&spec, &server, directory.path(), &SystemClock::default(), &AtomicBool::new(stop)).err().unwrap().to_string()
        };
        assert_eq!(start(false), "the server: ended with exit status: 3; the last that it said: no such flag: --bind");
        fs::write(directory.path().join("serve"), "sleep 100\n").unwrap();
        assert_eq!(start(true), "interrupted");
        let nowhere = ServerSpec { program: Some("/nowhere/server".into()), ..ServerSpec::new(1, 1) };
        fs::remove_dir(directory.path().join(DATA)).unwrap();
        let said = Server::start(&spec, &nowhere, directory.path(), &SystemClock::default(), &AtomicBool::new(false)).err().unwrap();
        assert!(said.to_string().starts_with("/nowhere/server: "), "{said}");
    }

    /// Another server that took the address first must not be measured.
    #[test]
    fn another_server_at_the_address_is_a_failure() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let answer = move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut request = [0; 14];
                while stream.read_exact(&mut request).is_ok() {
                    let reply: &[u8] = if request.ends_with(b"PING\r\n") { b"+PONG\r\n" } else { b"$14\r\nprocess_id:1\r\n\r\n" };
                    stream.write_all(reply).unwrap();
                }
            }
        };
        thread::Builder::new().spawn(answer).unwrap();
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("serve"), "sleep 100\n").unwrap();
        let spec = EngineSpec { name: "sinter".into(), ..EngineSpec::default() };
        let server = ServerSpec { program: Some("/bin/sh".into()), ..ServerSpec::new(1, 1) };
        let (clock, stop) = (SystemClock::default(), AtomicBool::new(false));
        let started = Server::start_at(address, &spec, &server, directory.path(), &clock, &stop);
        assert_eq!(started.err().unwrap().to_string(), format!("the server: process 1 answers at {address} in its place"));
    }

    #[test]
    fn a_number_that_is_another_process_s_by_now_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let mut other = Command::new("sleep").arg("100").process_group(0).spawn().unwrap();
        fs::write(directory.path().join(GROUP), other.id().to_string()).unwrap();
        end_left(directory.path());
        thread::sleep(POLL);
        let is_alive = other.try_wait().unwrap().is_none();
        let _ = other.kill();
        other.wait().unwrap();
        assert!(is_alive);
    }

    #[test]
    fn what_a_server_started_ends_with_it() {
        let directory = tempfile::tempdir().unwrap();
        for left_behind in [false, true] {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "sleep 100 & echo $!; wait"]).current_dir(directory.path()).stdout(Stdio::piped()).process_group(0);
            let mut child = command.spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            let address = "127.0.0.1:1".parse().unwrap();
            let server = Server { child, address, directory: directory.path().to_owned() };
            if left_behind {
                fs::write(directory.path().join(GROUP), server.process().to_string()).unwrap();
                end_left(directory.path());
            }
            drop(server);
            let stat = || fs::read_to_string(format!("/proc/{}/stat", line.trim())).unwrap_or_default();
            // The server is an orphan, which another process waits for, or none.
            let gone = || stat().is_empty() || stat().contains(") Z ");
            (0..1000).take_while(|_| !gone()).for_each(|_| thread::sleep(POLL));
            assert!(gone(), "{}", stat());
        }
    }
}
