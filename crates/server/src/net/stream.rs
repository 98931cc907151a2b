//! A client's stream of bytes, encrypted or not, which never blocks.
//!
//! Encrypted input is decrypted at once and completely: no input stays inside of which the system has told and will not tell again.
//! Encrypted output waits inside until the client takes it, at most [`UNSENT_MAX`] bytes and a little more, and so do the bytes of a
//! handshake. [`Stream::flush`] says whether any wait: then the network has to be told when the client is writable, although no reply
//! waits.
//!
//! The end of the connection ends the input, whether the client has announced it or not: an incomplete request is not run.

use crate::tls::Tls;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use rustix::net::sockopt;
use rustls::Connection as TlsConnection;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

/// Largest amount of output that is encrypted before the client takes it, bytes.
const UNSENT_MAX: usize = 64 << 10;

/// Outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// Nothing, and nothing more will come.
    End,
    /// So many bytes for the server, perhaps none, and whether there may be more right now.
    Bytes(usize, bool),
}

/// Largest value that the kernel accepts for `TCP_KEEPIDLE`, seconds.
const SILENCE_MAX: u32 = 32_767;
/// Keep-alive probes without a reply after which the kernel gives a connection up.
const QUESTIONS: u32 = 3;

/// A socket to a client.
#[derive(Debug)]
pub(super) enum Socket {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A connection to the Unix socket.
    Unix(UnixStream),
}

impl Socket {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Tcp(socket) => socket,
            Socket::Unix(socket) => socket,
        }
    }

    /// Descriptor of the socket.
    pub fn number(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }

    /// Switches off delays of small replies, and lets the kernel probe the other end after so many seconds of silence; 0: never.
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

/// A stream of bytes to and from a client.
pub(super) enum Stream {
    /// Without encryption.
    Plain(Socket),
    /// With TLS.
    Encrypted(Box<Encrypted>),
}

/// A stream with TLS. At its end the client, if it is still there, is told that nothing was cut.
pub(super) struct Encrypted {
    socket: Socket,
    tls: TlsConnection,
    /// The client has announced its end.
    has_ended: bool,
}

impl Stream {
    /// A new stream with TLS.
    pub fn encrypted(socket: Socket, tls: &Tls) -> io::Result<Stream> {
        Ok(Stream::of_tls(socket, TlsConnection::Server(tls.begin()?)))
    }

    /// A stream of which all input so far was read.
    pub fn of_tls(socket: Socket, mut tls: TlsConnection) -> Stream {
        tls.set_buffer_limit(Some(UNSENT_MAX));
        Stream::Encrypted(Box::new(Encrypted { socket, tls, has_ended: false }))
    }

    /// The source of events to register with the system.
    pub fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Plain(socket) => socket.source(),
            Stream::Encrypted(stream) => stream.socket.source(),
        }
    }

    /// Lets the kernel collect small packets before it sends them. A socket that cannot stays as it is.
    pub fn delay_packets(&self) {
        let socket = match self {
            Stream::Plain(socket) => socket,
            Stream::Encrypted(stream) => &stream.socket,
        };
        if let Socket::Tcp(socket) = socket {
            let _ = socket.set_nodelay(false);
        }
    }

    /// Whether the TLS handshake is unfinished, so that it is not known who the client is.
    pub fn is_handshaking(&self) -> bool {
        matches!(self, Stream::Encrypted(stream) if stream.tls.is_handshaking())
    }

    /// Bytes that wait inside, roughly.
    pub fn held(&self) -> usize {
        match self {
            Stream::Encrypted(stream) if stream.tls.wants_write() => UNSENT_MAX,
            _ => 0,
        }
    }

    /// Reads once, through a buffer shared by all clients, and appends the bytes for the server to the input.
    pub fn read(&mut self, buffer: &mut [u8], input: &mut Vec<u8>) -> io::Result<Came> {
        match self {
            Stream::Plain(socket) => {
                let bytes = socket.read(buffer)?;
                input.extend_from_slice(buffer.get(..bytes).unwrap_or_default());
                // A short read has emptied the socket; the system tells of later bytes.
                Ok(if bytes == 0 { Came::End } else { Came::Bytes(bytes, bytes == buffer.len()) })
            }
            Stream::Encrypted(stream) => stream.read(buffer, input),
        }
    }

    /// Takes some of the bytes to be sent; returns their number.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Encrypted(stream) => stream.write(bytes),
        }
    }

    /// Sends the bytes that wait inside. [`ErrorKind::WouldBlock`]: the client does not take all of them now.
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

    /// Acknowledges the end of the handshake at once, as no reply follows it: a client that collects small writes (Nagle) would hold its
    /// first request back until the system does so by itself, after 40 ms.
    fn acknowledge(&self) {
        #[cfg(target_os = "linux")]
        {
            use std::os::{fd::AsFd, linux::net::TcpStreamExt};
            // If this fails, the client waits.
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
            // The bytes that were taken are inside; the next call says that they are still there.
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
        // The client may have disconnected, or take nothing.
        let _ = self.flush();
    }
}
