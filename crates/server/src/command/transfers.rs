//! Transfers of values to another server: a connection, a `RESTORE` of each value, and the replies.
//!
//! A transfer runs in a thread of its own, so that a distant or silent server delays only the client that asked for the transfer.

use crate::resp::request;
use mio::Waker;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// Bytes of a reply's line that are read, and that an error repeats, at most.
const LINE_MAX: u64 = 64 << 10;
const LINE_KEPT: usize = 1023;

const NOT_CONNECTED: &str = "IOERR error or timeout connecting to the client";
const NOT_WRITTEN: &str = "IOERR error or timeout writing to target instance";
pub(super) const NOT_READ: &str = "IOERR error or timeout reading to target instance";
/// Errors of a server that cannot read a value, of its version or of its type.
const NOT_UNDERSTOOD: [&str; 2] = ["ERR DUMP payload version or checksum are wrong", "ERR Bad data format"];

/// Requests with values for another server.
#[derive(Debug)]
pub(super) struct Parcel {
    pub host: String,
    pub port: u16,
    /// Timeout of each step: to connect, to send, to wait for a reply.
    pub patience: Duration,
    /// Requests before the values: `AUTH`, `SELECT`.
    opening: Vec<Vec<u8>>,
    /// A `RESTORE` for each value.
    restores: Vec<Vec<u8>>,
    /// By number of a value, its `RESTORE` in another form, for a server that does not understand the first one.
    other_forms: BTreeMap<usize, Vec<u8>>,
}

/// Outcome of a transfer.
#[derive(Debug, Default)]
pub(super) struct Receipt {
    /// For each value, whether the other server took it.
    pub taken: Vec<bool>,
    /// Text of the error if the other server did not take all values.
    pub failure: Option<String>,
}

impl Receipt {
    /// Notes the reply for a value: that the other server took it, or an error.
    fn note(&mut self, at: usize, error: Option<String>) {
        match error {
            None => self.taken[at] = true,
            Some(error) => {
                self.failure.get_or_insert_with(|| format!("ERR Target instance replied with error: {error}"));
            }
        }
    }
}

impl Parcel {
    pub fn new(host: String, port: u16, patience: Duration) -> Parcel {
        Parcel { host, port, patience, opening: Vec::new(), restores: Vec::new(), other_forms: BTreeMap::new() }
    }

    /// Adds a request that comes before the values.
    pub fn open(&mut self, words: &[&[u8]]) {
        self.opening.push(request(words));
    }

    /// Adds a value.
    pub fn add(&mut self, words: &[&[u8]]) {
        self.restores.push(request(words));
    }

    /// Adds another form of the value that was added last.
    pub fn add_other_form(&mut self, words: &[&[u8]]) {
        self.other_forms.insert(self.restores.len().saturating_sub(1), request(words));
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut failed = io::Error::from(ErrorKind::AddrNotAvailable);
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, self.patience) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(self.patience))?;
                    stream.set_write_timeout(Some(self.patience))?;
                    return Ok(stream);
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Sends the values and waits for the replies.
    pub fn send(&self) -> Receipt {
        let mut receipt = Receipt { taken: vec![false; self.restores.len()], failure: None };
        let stream = match self.connect() {
            Ok(stream) => stream,
            Err(_) => return Receipt { failure: Some(NOT_CONNECTED.into()), ..receipt },
        };
        let sent = self.opening.iter().chain(&self.restores).try_for_each(|request| (&stream).write_all(request));
        if sent.is_err() {
            return Receipt { failure: Some(NOT_WRITTEN.into()), ..receipt };
        }
        if self.receive(&stream, &mut receipt).is_err() {
            receipt.failure.get_or_insert_with(|| NOT_READ.into());
        }
        receipt
    }

    /// Reads the replies, and sends the other form of each value whose first one the other server does not understand.
    fn receive(&self, stream: &TcpStream, receipt: &mut Receipt) -> io::Result<()> {
        let mut from = BufReader::new(stream);
        let mut refused = None;
        for _ in &self.opening {
            let error = error_of(&line(&mut from)?);
            refused = refused.or(error);
        }
        let mut not_understood = Vec::new();
        for at in 0..receipt.taken.len() {
            let error = error_of(&line(&mut from)?);
            match refused.clone().or(error) {
                Some(error) if NOT_UNDERSTOOD.iter().any(|known| error.starts_with(known)) => not_understood.push((at, error)),
                error => receipt.note(at, error),
            }
        }
        for (at, error) in not_understood {
            let mut reply = Some(error);
            if let Some(other) = self.other_forms.get(&at) {
                let mut to = stream;
                to.write_all(other)?;
                // The first error says why.
                reply = error_of(&line(&mut from)?).and(reply);
            }
            receipt.note(at, reply);
        }
        Ok(())
    }
}

/// Reads a reply of one line: a status or an error. Anything else is no reply to what is sent: the other side may be no Redis server, and
/// has not taken the value.
fn line(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(LINE_MAX).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    line.truncate(LINE_KEPT);
    if matches!(line.first(), Some(b'+' | b'-')) { Ok(line) } else { Err(ErrorKind::InvalidData.into()) }
}

/// The text of a reply that is an error.
fn error_of(line: &[u8]) -> Option<String> {
    line.strip_prefix(b"-").map(|text| String::from_utf8_lossy(text).into_owned())
}

/// A transfer that a client waits for.
#[derive(Debug)]
struct Transfer {
    keys: Vec<Vec<u8>>,
    attempt: u32,
    /// Text of the error of an earlier attempt that did not transfer all keys.
    failure: Option<String>,
    receiver: Receiver<Receipt>,
    receipt: Option<Receipt>,
    /// Whether [`Transfers::take_ended`] has returned this transfer.
    is_told: bool,
}

/// A transfer that has ended.
#[derive(Debug)]
pub(super) struct Done {
    pub keys: Vec<Vec<u8>>,
    pub attempt: u32,
    pub failure: Option<String>,
    pub receipt: Receipt,
}

/// The transfers that run, by the session that waits for each.
#[derive(Debug, Default)]
pub struct Transfers {
    all: BTreeMap<u64, Transfer>,
    /// Wakes the event loop.
    waker: Option<Arc<Waker>>,
}

impl Transfers {
    /// Sets the waker of the event loop, which is called when a transfer has ended.
    pub fn set_waker(&mut self, waker: Arc<Waker>) {
        self.waker = Some(waker);
    }

    /// Sessions whose transfers have ended since the last call.
    pub fn take_ended(&mut self) -> Vec<u64> {
        let mut ended = Vec::new();
        for (id, transfer) in self.all.iter_mut().filter(|(_, transfer)| !transfer.is_told) {
            transfer.look();
            if transfer.receipt.is_some() {
                transfer.is_told = true;
                ended.push(*id);
            }
        }
        ended
    }

    /// Forgets a session's transfer; false: there is none. The thread ends by itself.
    pub fn forget(&mut self, id: u64) -> bool {
        self.all.remove(&id).is_some()
    }

    /// Starts the transfer of the values of keys for a session.
    pub(super) fn start(
        &mut self,
        id: u64,
        parcel: Arc<Parcel>,
        keys: Vec<Vec<u8>>,
        (attempt, failure): (u32, Option<String>),
    ) -> io::Result<()> {
        let (sender, receiver) = channel();
        let waker = self.waker.clone();
        let work = move || {
            // Sending fails if the session is gone.
            let _ = sender.send(parcel.send());
            waker.map(|waker| waker.wake())
        };
        std::thread::Builder::new().name("sinter-migrate".into()).spawn(work)?;
        self.all.insert(id, Transfer { keys, attempt, failure, receiver, receipt: None, is_told: false });
        Ok(())
    }

    /// Takes a session's transfer if it has ended.
    pub(super) fn take(&mut self, id: u64) -> Option<Done> {
        self.all.get_mut(&id)?.look();
        let Transfer { keys, attempt, failure, receipt, .. } = self.all.remove(&id)?;
        receipt.map(|receipt| Done { keys, attempt, failure, receipt })
    }

    /// Whether a session's transfer runs.
    pub(super) fn is_running(&mut self, id: u64) -> bool {
        self.all.get_mut(&id).is_some_and(|transfer| {
            transfer.look();
            transfer.receipt.is_none()
        })
    }
}

impl Transfer {
    fn look(&mut self) {
        if self.receipt.is_some() {
            return;
        }
        self.receipt = match self.receiver.try_recv() {
            Ok(receipt) => Some(receipt),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Receipt { taken: vec![false; self.keys.len()], failure: Some(NOT_READ.into()) }),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_line_by_line() {
        let mut from = &b"+OK\r\n-ERR why\r\n+no end"[..];
        assert_eq!(line(&mut from).unwrap(), b"+OK");
        assert_eq!(error_of(&line(&mut from).unwrap()).as_deref(), Some("ERR why"));
        assert!(line(&mut from).is_err() && line(&mut from).is_err());
        let long = [b"-", &vec![b'x'; 5000][..], b"\r\n+OK\r\n"].concat();
        let mut from = &long[..];
        assert_eq!((line(&mut from).unwrap().len(), line(&mut from).unwrap()), (LINE_KEPT, b"+OK".to_vec()));
        for other in ["HTTP/1.1 400 Bad Request\r\n", "ERROR\r\n", ":1\r\n", "$2\r\nOK\r\n", "\r\n"] {
            assert!(line(&mut other.as_bytes()).is_err(), "{other}");
        }
    }

    #[test]
    fn nobody_listens_at_port_0() {
        let mut parcel = Parcel::new("127.0.0.1".into(), 0, Duration::from_millis(100));
        parcel.add(&[b"RESTORE", b"k", b"0", b"x"]);
        let receipt = parcel.send();
        assert_eq!((receipt.taken, receipt.failure.as_deref()), (vec![false], Some(NOT_CONNECTED)));
    }
}
