//! A client's stream of bytes, encrypted or not, which never blocks.
//!
//! What comes encrypted is decrypted at once, all of it: nothing stays inside that the system has told of and will not tell of again. What
//! is sent encrypted waits inside until the client takes it, at most [`UNSENT_MAX`] bytes and a little more, and so do the bytes of a
//! handshake. [`Stream::flush`] says whether anything does: the client has to be told of as writable then, although no reply waits.
//!
//! The end of the connection is the end of what is sent, whether the client has announced it or not: a request that was cut is not run.

use crate::tls::Tls;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use rustix::net::sockopt;
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

/// Bytes that are encrypted ahead of what the client takes.
const UNSENT_MAX: usize = 64 << 10;

/// Outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// Nothing, and nothing more will come.
    End,
    /// So many bytes for the server, perhaps none, and whether there may be more at once.
    Bytes(usize, bool),
}

/// The longest time of silence that the kernel takes for `TCP_KEEPIDLE`, seconds.
const SILENCE_MAX: u32 = 32_767;
/// Questions without a reply after which the kernel gives a connection up.
const QUESTIONS: u32 = 3;

/// A socket to a client.
#[derive(Debug)]
pub(super) enum Socket {
    /// From any machine.
    Tcp(TcpStream),
    /// From this machine, over a file.
    Unix(UnixStream),
}

impl Socket {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Tcp(socket) => socket,
            Socket::Unix(socket) => socket,
        }
    }

    /// The number that the system has for it.
    pub fn number(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }

    /// Sends small replies at once, and lets the kernel ask after so many seconds of silence whether the other end is still there; 0:
    /// never.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn tune(&self, keep_alive: u32) -> io::Result<()> {
        let Socket::Tcp(socket) = self else { return Ok(()) };
        socket.set_nodelay(true)?;
        if keep_alive > 0 {
            let silence = keep_alive.min(SILENCE_MAX);
            sockopt::set_socket_keepalive(socket, true)?;
            sockopt::set_tcp_keepidle(socket, Duration::from_secs(silence.into()))?;
            sockopt::set_tcp_keepintvl(socket, Duration::from_secs((silence / QUESTIONS).max(1).into()))?;
            sockopt::set_tcp_keepcnt(socket, QUESTIONS)?;
        }
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(buffer),
            Socket::Unix(socket) => socket.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write(bytes),
            Socket::Unix(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream.
pub(super) enum Stream {
    /// Without encryption.
    Plain(Socket),
    /// With TLS.
    Encrypted(Box<Encrypted>),
}

/// A stream with TLS. Who is still there when it ends is told that this is the end, and nothing was cut.
pub(super) struct Encrypted {
    socket: Socket,
    tls: ServerConnection,
    /// The client has announced its end.
    has_ended: bool,
}

impl Stream {
    /// A new one with TLS.
    pub fn encrypted(socket: Socket, tls: &Tls) -> io::Result<Stream> {
        let mut tls = tls.begin()?;
        tls.set_buffer_limit(Some(UNSENT_MAX));
        Ok(Stream::Encrypted(Box::new(Encrypted { socket, tls, has_ended: false })))
    }

    /// The source of events to register with the system.
    pub fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Plain(socket) => socket.source(),
            Stream::Encrypted(stream) => stream.socket.source(),
        }
    }

    /// Whether the TLS handshake is unfinished, so that it is not known who the client is.
    pub fn is_handshaking(&self) -> bool {
        matches!(self, Stream::Encrypted(stream) if stream.tls.is_handshaking())
    }

    /// Bytes that wait inside, about.
    pub fn held(&self) -> usize {
        match self {
            Stream::Encrypted(stream) if stream.tls.wants_write() => UNSENT_MAX,
            _ => 0,
        }
    }

    /// Reads once, through a buffer that all share, and adds to the input what is for the server.
    pub fn read(&mut self, buffer: &mut [u8], input: &mut Vec<u8>) -> io::Result<Came> {
        match self {
            Stream::Plain(socket) => {
                let bytes = socket.read(buffer)?;
                input.extend_from_slice(buffer.get(..bytes).unwrap_or_default());
                // A short read has emptied the socket; what comes later is told of.
                Ok(if bytes == 0 { Came::End } else { Came::Bytes(bytes, bytes == buffer.len()) })
            }
            Stream::Encrypted(stream) => stream.read(buffer, input),
        }
    }

    /// Takes some of the bytes to be sent.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Encrypted(stream) => stream.write(bytes),
        }
    }

    /// Sends what waits inside. [`ErrorKind::WouldBlock`]: the client does not take all of it now.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Encrypted(stream) => stream.flush(),
        }
    }
}

impl Encrypted {
    fn read(&mut self, buffer: &mut [u8], input: &mut Vec<u8>) -> io::Result<Came> {
        if self.has_ended {
            return Ok(Came::End);
        }
        let bytes = self.socket.read(buffer)?;
        if bytes == 0 {
            return Ok(Came::End);
        }
        let (before, was_handshaking) = (input.len(), self.tls.is_handshaking());
        let mut rest = buffer.get(..bytes).unwrap_or_default();
        while !rest.is_empty() && !self.has_ended {
            if self.tls.read_tls(&mut rest)? == 0 {
                return Err(ErrorKind::InvalidData.into());
            }
            match self.tls.process_new_packets() {
                Ok(state) => {
                    let ready = state.plaintext_bytes_to_read();
                    Read::take(self.tls.reader(), ready as u64).read_to_end(input)?;
                    self.has_ended = state.peer_has_closed();
                }
                Err(error) => {
                    // The client is told why, if it listens.
                    let _ = self.flush();
                    return Err(io::Error::new(ErrorKind::InvalidData, error));
                }
            }
        }
        if was_handshaking && !self.tls.is_handshaking() {
            self.acknowledge();
        }
        // The end comes in a read of its own, when what came before it is handled.
        Ok(Came::Bytes(input.len() - before, bytes == buffer.len() || self.has_ended))
    }

    /// Acknowledges at once what ended the handshake, as nothing is answered to it: a client that collects small writes (Nagle) would hold
    /// its first request back until the system does so by itself, after 40 ms.
    fn acknowledge(&self) {
        #[cfg(target_os = "linux")]
        {
            use std::os::{fd::AsFd, linux::net::TcpStreamExt};
            // Where it cannot be done, the client waits.
            let socket = self.socket.as_fd().try_clone_to_owned().map(std::net::TcpStream::from);
            let _ = socket.and_then(|socket| socket.set_quickack(true));
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        if self.tls.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let taken = self.tls.writer().write(bytes)?;
        match self.flush() {
            // What was taken is inside; the next call says that it is still there.
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        self.tls.send_close_notify();
        // It may be gone, or take nothing.
        let _ = self.flush();
    }
}
