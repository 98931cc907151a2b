//! Metrics and a health check over HTTP, for monitoring systems.
//!
//! A thread of its own accepts one request at a time: the reply to `GET /metrics` is in Prometheus's text format, that to `GET /health` is
//! `ok`. The thread has no figures of its own: it wakes the network's thread, which writes them down at the end of its turn. So a server
//! that hangs fails its health check. A request has at most a few kilobytes and two seconds to arrive; each part of the reply may take two
//! seconds.

use crate::command::{Configuration, Server, metrics};
use crate::keyspace::Keyspace;
use mio::Waker;
use parking_lot::Mutex;
use sinterdb::clock::{Clock, SystemClock};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest time for a client to send its request or take a part of the reply, and for a reply to wait for the figures.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request.
const REQUEST_MAX: usize = 8 << 10;

/// Channel into which the network's thread is to send the figures, while a request waits for them.
type Wanted = Arc<Mutex<Option<SyncSender<String>>>>;

/// Thread that answers requests for metrics.
pub(super) struct Metrics {
    address: SocketAddr,
    wanted: Wanted,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// State of the thread.
struct Responder {
    listener: TcpListener,
    waker: Arc<Waker>,
    wanted: Wanted,
    ends: Arc<AtomicBool>,
}

impl Metrics {
    /// Listens at the configured address; `None`: metrics are not configured.
    pub fn start(configuration: &Configuration, waker: Arc<Waker>) -> io::Result<Option<Metrics>> {
        if configuration.metrics_port == 0 {
            return Ok(None);
        }
        let invalid = |error: std::net::AddrParseError| io::Error::new(io::ErrorKind::InvalidInput, error);
        let bind = configuration.metrics_bind.parse::<IpAddr>().map_err(invalid)?;
        let address = SocketAddr::new(bind, configuration.metrics_port);
        let listener =
            TcpListener::bind(address).map_err(|error| io::Error::new(error.kind(), format!("metrics at {address}: {error}")))?;
        Self::with(listener, waker).map(Some)
    }

    fn with(listener: TcpListener, waker: Arc<Waker>) -> io::Result<Metrics> {
        let (address, wanted, ends) = (listener.local_addr()?, Wanted::default(), Arc::<AtomicBool>::default());
        let responder = Responder { listener, waker, wanted: wanted.clone(), ends: ends.clone() };
        let thread = std::thread::Builder::new().name("sinter-metrics".into()).spawn(move || responder.run())?;
        Ok(Metrics { address, wanted, ends, thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gives the thread the figures, if it waits for them.
    pub fn answer(&self, server: &Server, keyspace: &Keyspace) {
        // The check costs a turn next to nothing; the figures are only made on request.
        let wanted = self.wanted.lock().take();
        if let Some(wanted) = wanted {
            // The thread may have given up.
            let _ = wanted.try_send(metrics(server, keyspace));
        }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        self.wanted.lock().take();
        // The thread waits for a connection.
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() { IpAddr::from([127, 0, 0, 1]) } else { IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1u16]) });
        }
        let _ = TcpStream::connect_timeout(&address, PATIENCE);
        if let Some(thread) = self.thread.take() {
            // The thread has no result.
            let _ = thread.join();
        }
    }
}

impl Responder {
    fn run(self) {
        for stream in self.listener.incoming() {
            if self.ends.load(Ordering::Acquire) {
                return;
            }
            match stream {
                // A client that failed has disconnected, or will ask again.
                Ok(stream) => drop(self.serve(stream)),
                // No descriptors, perhaps: the clients of the server need them more.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let request = read_request(&mut stream)?;
        let (status, kind, body) = self.respond(&request);
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        stream.write_all(head.as_bytes())?;
        if !request.starts_with(b"HEAD ") {
            stream.write_all(body.as_bytes())?;
        }
        stream.flush()
    }

    /// Status, content type and content.
    fn respond(&self, request: &[u8]) -> (&'static str, &'static str, String) {
        const TEXT: &str = "text/plain; charset=utf-8";
        let line = request.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
        let mut words = line.split(|byte| *byte == b' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
        if !matches!(method, b"GET" | b"HEAD") {
            return ("405 Method Not Allowed", TEXT, "only GET\n".into());
        }
        if !matches!(path, b"/metrics" | b"/health") {
            return ("404 Not Found", TEXT, "/metrics or /health\n".into());
        }
        match self.ask() {
            None => ("503 Service Unavailable", TEXT, "the server does not answer\n".into()),
            Some(_) if path == b"/health" => ("200 OK", TEXT, "ok\n".into()),
            Some(figures) => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", figures),
        }
    }

    /// Asks the network's thread for the figures; `None`: it has not written them down in time.
    fn ask(&self) -> Option<String> {
        let (sender, receiver) = sync_channel(1);
        *self.wanted.lock() = Some(sender);
        self.waker.wake().ok()?;
        receiver.recv_timeout(PATIENCE).ok()
    }
}

/// Reads up to the empty line that ends a request without content. A client may send it byte by byte, but not for ever.
fn read_request(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
    let clock = SystemClock::default();
    let begun = clock.monotonic_ns();
    // A timeout of zero is refused.
    while let Some(left) = PATIENCE.checked_sub(Duration::from_nanos(clock.monotonic_ns() - begun)).filter(|left| !left.is_zero()) {
        stream.set_read_timeout(Some(left))?;
        let bytes = stream.read(&mut buffer)?;
        request.extend_from_slice(&buffer[..bytes]);
        let has_ended = request.windows(4).any(|end| end == b"\r\n\r\n") || request.windows(2).any(|end| end == b"\n\n");
        if bytes == 0 || has_ended {
            return Ok(request);
        }
        if request.len() > REQUEST_MAX {
            break;
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "not a request"))
}
