//! The connection of a link while a thread works with it: reads wait, but not for ever, and end when the link is given up.

use super::address::Address;
use crate::system::unix_ms;
use crate::tls;
use rustls::{ClientConnection, StreamOwned};
use sinterdb::clock::{Clock, SystemClock};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// Longest wait of a read between two checks whether the link was given up.
const GLANCE: Duration = Duration::from_millis(100);
/// Nanoseconds between two newlines to a primary that sends its data: they tell it that the replica is alive.
const BEAT_NS: u64 = 1_000_000_000;

/// Stages of a link.
const CONNECTING: u8 = 0;
const GREETING: u8 = 1;
const TRANSFERRING: u8 = 2;
const LOADED: u8 = 3;

/// Progress of a link, as others see it.
#[derive(Debug, Default)]
pub struct Progress {
    stops: AtomicBool,
    stage: AtomicU8,
    /// Bytes of the data: announced (0: not known), and read.
    total: AtomicU64,
    read: AtomicU64,
    /// When something was read last, unix milliseconds.
    heard: AtomicU64,
}

impl Progress {
    /// The stage, under the name that `ROLE` has for it.
    pub fn stage(&self) -> &'static str {
        match self.stage.load(Ordering::Relaxed) {
            CONNECTING => "connecting",
            GREETING => "handshake",
            _ => "sync",
        }
    }

    /// Whether data are on their way: bytes that were announced (0: not known) and read, and when something was read last, unix
    /// milliseconds.
    pub fn data(&self) -> Option<(u64, u64, u64)> {
        let loads = matches!(self.stage.load(Ordering::Acquire), TRANSFERRING | LOADED);
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        loads.then(|| (load(&self.total), load(&self.read), load(&self.heard)))
    }

    pub(super) fn stop(&self) {
        self.stops.store(true, Ordering::Release);
    }

    pub(super) fn shake_hands(&self) {
        self.stage.store(GREETING, Ordering::Release);
    }

    pub(super) fn transfer(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
        self.read.store(0, Ordering::Relaxed);
        self.stage.store(TRANSFERRING, Ordering::Release);
    }

    pub(super) fn loaded(&self) {
        self.stage.store(LOADED, Ordering::Release);
    }

    /// Fails if the link was given up.
    pub(super) fn check(&self) -> io::Result<()> {
        let told = || io::Error::new(ErrorKind::ConnectionAborted, "the link was given up");
        if self.stops.load(Ordering::Acquire) { Err(told()) } else { Ok(()) }
    }
}

/// Bytes to and from the primary, encrypted or not.
pub enum Transport {
    /// Without encryption.
    Plain(TcpStream),
    /// With TLS.
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection whose reads end after a time of silence.
pub struct Wire {
    transport: Transport,
    patience: Duration,
    progress: Arc<Progress>,
    clock: SystemClock,
    /// When the last newline was sent, nanoseconds of the clock.
    beat: u64,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wire({:?})", self.socket())
    }
}

impl Wire {
    /// Connects to a server.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn connect(to: &Address, tls: Option<&tls::Settings>, patience: Duration, progress: &Arc<Progress>) -> Result<Wire, String> {
        let outgoing = tls.map(tls::Settings::load_outgoing).transpose()?;
        let socket = connect(to, patience, progress).map_err(|error| error.to_string())?;
        let transport = match outgoing {
            Some(outgoing) => {
                let connection = outgoing.begin(&to.host).map_err(|error| error.to_string())?;
                Transport::Encrypted(Box::new(StreamOwned::new(connection, socket)))
            }
            None => Transport::Plain(socket),
        };
        Ok(Wire { transport, patience, progress: progress.clone(), clock: SystemClock::default(), beat: 0 })
    }

    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    fn socket(&self) -> &TcpStream {
        match &self.transport {
            Transport::Plain(socket) => socket,
            Transport::Encrypted(stream) => &stream.sock,
        }
    }

    /// Appends the bytes that have been decrypted already.
    pub(super) fn drain(&mut self, out: &mut Vec<u8>) {
        if let Transport::Encrypted(stream) = &mut self.transport {
            // Once all decrypted bytes are appended, this ends in an error, as the connection is still open.
            let _ = stream.conn.reader().read_to_end(out);
        }
    }

    /// The transport, whose reads and writes do not wait any more.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn into_transport(self) -> io::Result<Transport> {
        self.socket().set_nonblocking(true)?;
        Ok(self.transport)
    }

    /// Fails if nothing has come for too long since a time, nanoseconds of the clock.
    fn check_silence(&self, since: u64) -> io::Result<()> {
        if Duration::from_nanos(self.clock.monotonic_ns().saturating_sub(since)) < self.patience {
            return Ok(());
        }
        let why = format!("the primary was silent for {} seconds", self.patience.as_secs());
        Err(io::Error::new(ErrorKind::TimedOut, why))
    }

    /// Ends the handshake of an encrypted connection. A distant or busy primary takes longer for its part than one read waits.
    fn end_handshake(&mut self) -> io::Result<()> {
        let begun = self.clock.monotonic_ns();
        loop {
            let Transport::Encrypted(stream) = &mut self.transport else { return Ok(()) };
            if !stream.conn.is_handshaking() {
                return Ok(());
            }
            self.progress.check()?;
            match stream.conn.complete_io(&mut stream.sock) {
                // The primary has ended the connection in the midst of the handshake.
                Ok((0, 0)) if stream.conn.is_handshaking() => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => self.check_silence(begun)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Shows a primary that sends its data that the replica is there, once in a while.
    fn beat(&mut self) -> io::Result<()> {
        let now = self.clock.monotonic_ns();
        if self.progress.data().is_some() && now.saturating_sub(self.beat) >= BEAT_NS {
            self.beat = now;
            self.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// Connects to the first of a server's addresses that takes the connection.
fn connect(to: &Address, patience: Duration, progress: &Progress) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in (to.host.as_str(), to.port).to_socket_addrs()? {
        progress.check()?;
        match TcpStream::connect_timeout(&address, patience) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(GLANCE))?;
                socket.set_write_timeout(Some(patience))?;
                return Ok(socket);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let begun = self.clock.monotonic_ns();
        loop {
            self.progress.check()?;
            self.beat()?;
            let read = match &mut self.transport {
                Transport::Plain(socket) => socket.read(buffer),
                Transport::Encrypted(stream) => stream.read(buffer),
            };
            match read {
                Ok(bytes) => {
                    self.progress.read.fetch_add(bytes as u64, Ordering::Relaxed);
                    self.progress.heard.store(unix_ms(), Ordering::Relaxed);
                    return Ok(bytes);
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => self.check_silence(begun)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.end_handshake()?;
        match &mut self.transport {
            Transport::Plain(socket) => socket.write(bytes),
            Transport::Encrypted(stream) => {
                let written = stream.write(bytes)?;
                stream.flush()?;
                Ok(written)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::certificates::Authority;
    use std::net::TcpListener;

    fn wired(patience: Duration) -> (Wire, TcpStream, Arc<Progress>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = Address { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
        let progress = Arc::new(Progress::default());
        let wire = Wire::connect(&to, None, patience, &progress).unwrap();
        (wire, listener.accept().unwrap().0, progress)
    }

    #[test]
    fn silence_and_the_end_of_a_link_end_a_read() {
        let (mut wire, mut other, progress) = wired(Duration::from_millis(300));
        other.write_all(b"ab").unwrap();
        let mut buffer = [0; 8];
        assert_eq!(wire.read(&mut buffer).unwrap(), 2);
        let silent = wire.read(&mut buffer).unwrap_err();
        assert_eq!(silent.kind(), ErrorKind::TimedOut);
        progress.stop();
        assert_eq!(wire.read(&mut buffer).unwrap_err().kind(), ErrorKind::ConnectionAborted);
    }

    /// A distant or busy primary takes longer for its part of the handshake than one read waits.
    #[test]
    fn a_slow_handshake_is_waited_for() {
        let (authority, folder) = (Authority::new("authority"), tempfile::tempdir().unwrap());
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name).display().to_string();
            std::fs::write(&path, text).unwrap();
            path
        };
        let (certificate, key) = authority.certify();
        let settings = tls::Settings {
            certificate: file("certificate", &certificate),
            key: file("key", &key),
            authorities: file("authority", &authority.certificate()),
            clients: tls::Clients::NotAsked,
            ..tls::Settings::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = Address { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
        let theirs = settings.load().unwrap().begin().unwrap();
        let primary = std::thread::Builder::new().spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            std::thread::sleep(3 * GLANCE);
            let mut stream = StreamOwned::new(theirs, socket);
            let mut request = [0; 4];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(&request).unwrap();
        });
        let mut wire = Wire::connect(&to, Some(&settings), Duration::from_secs(20), &Arc::default()).unwrap();
        wire.write_all(b"PING").unwrap();
        let mut reply = [0; 4];
        wire.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"PING");
        primary.unwrap().join().unwrap();
    }

    #[test]
    fn a_primary_that_sends_data_is_shown_that_the_replica_is_there() {
        let (mut wire, mut other, progress) = wired(Duration::from_secs(20));
        progress.transfer(5);
        wire.clock = SystemClock::default();
        let reader = std::thread::Builder::new().spawn(move || {
            let mut buffer = [0; 8];
            let read = wire.read(&mut buffer);
            (read, wire)
        });
        let mut line = [0; 1];
        other.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"\n");
        other.write_all(b"x").unwrap();
        assert_eq!(reader.unwrap().join().unwrap().0.unwrap(), 1);
        assert_eq!(progress.data().map(|(total, read, _)| (total, read)), Some((5, 1)));
    }
}
