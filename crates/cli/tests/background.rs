//! The server in the background, and under process supervisors.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn serve(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinter"));
    let paths = [("--dir", "data"), ("--pidfile", "pid"), ("--unixsocket", "socket")];
    command.arg("serve").args(arguments).args(["--port", "0"]).args(paths.iter().flat_map(|(name, path)| [name, path]));
    command.current_dir(folder).env_remove("NOTIFY_SOCKET").env_remove("UPSTART_JOB");
    command
}

/// Sends a request and reads until a reply's end.
fn ask(folder: &Path, request: &str, end: &str) -> String {
    let mut client = UnixStream::connect(folder.join("socket")).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    while !text.ends_with(end) {
        let bytes = client.read(&mut buffer).unwrap();
        assert!(bytes > 0, "the connection was closed after {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
    }
    text
}

#[test]
fn the_command_ends_when_the_server_in_the_background_serves() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("redis.conf"), "daemonize yes\nlogfile log\nunixsocketperm 700\n").unwrap();
    // The output ends, too: no other process holds the pipes.
    let output = serve(folder, &["redis.conf"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("serving data at socket"), "{output:?}");
    let process: u32 = std::fs::read_to_string(folder.join("pid")).unwrap().trim().parse().unwrap();
    assert_eq!(std::fs::metadata(folder.join("socket")).unwrap().permissions().mode() & 0o777, 0o700);
    let said = ask(folder, "PING\r\nINFO server\r\n", "\r\n\r\n");
    assert!(said.starts_with("+PONG\r\n") && said.contains(&format!("process_id:{process}\r\n")), "{said}");
    // Field 6 is the session: the server has its own.
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    assert_eq!(stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(3), Some(process.to_string().as_str()));
    let said = ask(folder, "CLIENT INFO\r\n", "\n\r\n");
    assert!(said.contains(" addr=socket:0 laddr=socket:0 ") && said.contains(" flags=U "), "{said}");
    UnixStream::connect(folder.join("socket")).unwrap().write_all(b"SHUTDOWN\r\n").unwrap();
    while folder.join("pid").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!folder.join("socket").exists());
    let log = std::fs::read_to_string(folder.join("log")).unwrap();
    assert!(log.contains(" event=serving ") && log.contains(" event=stopped"), "{log}");
}

/// If a background server cannot start, the command ends with the server's exit code and message.
#[test]
fn the_command_fails_as_the_server_in_the_background_does() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("data"), "no directory").unwrap();
    let outputs = ["yes", "no"].map(|daemonize| serve(folder, &["--daemonize", daemonize]).output().unwrap());
    let [told, expected] = outputs.map(|output| (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()));
    assert!(told.0 == Some(2) && !told.1.is_empty(), "{told:?}");
    assert_eq!(told, expected);
}

/// A process that ends with its test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server supervised by systemd stays its child even with `daemonize`, and notifies it when it serves.
#[test]
fn systemd_is_told_that_the_server_serves() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let socket = UnixDatagram::bind(folder.join("notify")).unwrap();
    let mut command = serve(folder, &["--supervised", "auto", "--daemonize", "yes"]);
    command.env("NOTIFY_SOCKET", folder.join("notify")).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Started(command.spawn().unwrap());
    let mut text = [0; 100];
    let bytes = socket.recv(&mut text).unwrap();
    assert!(text[..bytes].starts_with(b"READY=1\n"));
    let said = ask(folder, "INFO server\r\n", "\r\n\r\n");
    assert!(said.contains("process_supervised:systemd\r\n") && said.contains(&format!("process_id:{}\r\n", server.0.id())), "{said}");
}
