//! The server in the background, and the message to its supervisor that it is ready.
//!
//! For a background server, the command starts itself once more, before it has threads or open data files. The first process waits until
//! the second one serves; if the second one fails, the first ends with its exit code. So a script finds a running server after the command,
//! and a systemd service of type `forking` counts as started when the server serves.

use crate::ended::Ended;
use nix::sys::signal::{Signal, raise};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, getppid, setsid};
use sinter_server::command::configuration::Supervised;
use std::env::{args_os, current_exe, var_os};
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

/// Environment variable with the id of the process that started a background server; other processes that inherit it ignore it.
const STARTED_BY: &str = "SINTER_STARTED_BY";
/// Environment variable with the socket of systemd.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
/// Environment variable with the job of upstart.
const UPSTART_JOB: &str = "UPSTART_JOB";

/// Whether this process is the one in the background.
pub fn is_started() -> bool {
    var_os(STARTED_BY).is_some_and(|process| process.to_str() == Some(&getppid().to_string()))
}

/// Starts the command in the background and waits until it serves or has ended.
///
/// # Errors
/// The program cannot be started.
pub fn start() -> Result<ExitCode, Ended> {
    let mut words = args_os();
    let mut command = Command::new(current_exe()?);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words).env(STARTED_BY, std::process::id().to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = command.spawn()?;
    let mut line = String::new();
    if let Some(output) = server.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    if line.ends_with('\n') {
        // The server serves, whether or not the line reaches anybody.
        let _ = io::stdout().write_all(line.as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    let status = server.wait()?;
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => Ok(ExitCode::from(code)),
        None => Err(Ended::Failed(anyhow::anyhow!("the server in the background ended: {status}"))),
    }
}

/// Leaves the session of the terminal, whose signals are not for a server in the background.
///
/// # Errors
/// Errors of the system.
pub fn leave_session() -> Result<(), Ended> {
    setsid().map(|_| ()).map_err(|error| Ended::Failed(error.into()))
}

/// Leaves the terminal: later output to standard output or standard error is dropped.
///
/// # Errors
/// Errors of the system.
pub fn leave_terminal() -> Result<(), Ended> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let all = dup2_stdin(&null).and_then(|()| dup2_stdout(&null)).and_then(|()| dup2_stderr(&null));
    all.map_err(|error| Ended::Failed(error.into()))
}

/// The supervisor of the process: the configured one, if the environment confirms it.
pub fn supervised(configured: Supervised) -> Supervised {
    let is_set = |name| var_os(name).is_some_and(|value| !value.is_empty());
    match configured {
        Supervised::Upstart | Supervised::Auto if is_set(UPSTART_JOB) => Supervised::Upstart,
        Supervised::Systemd | Supervised::Auto if is_set(NOTIFY_SOCKET) => Supervised::Systemd,
        _ => Supervised::No,
    }
}

/// Tells the supervisor that the server serves.
///
/// # Errors
/// Errors of the system.
pub fn tell_ready(supervised: Supervised) -> io::Result<()> {
    match supervised {
        Supervised::Systemd => notify("READY=1\nSTATUS=serving\n"),
        Supervised::Upstart => Ok(raise(Signal::SIGSTOP)?),
        Supervised::No | Supervised::Auto => Ok(()),
    }
}

/// Sends systemd a message: a datagram to a socket with a path, or to one without a file (`@NAME`).
fn notify(message: &str) -> io::Result<()> {
    let name = var_os(NOTIFY_SOCKET).unwrap_or_default();
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(|_| ())
}
