//! Addresses and the Unix socket at which the server listens, served in turns.

use super::stream::Socket;
use crate::command::Configuration;
use crate::command::configuration::Listening;
use mio::net::{TcpListener, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Tokens of listeners count down from here; no session number gets so high.
const LAST: usize = usize::MAX - 1;
/// Tokens of listeners: one of the Unix socket, the others of addresses.
const MOST: usize = 64;

/// A client that has connected.
#[derive(Debug)]
pub(super) struct Visitor {
    pub socket: Socket,
    /// Address of the client: an address with a port, or the path of the socket with port 0.
    pub address: String,
    /// Address at which the client has arrived.
    pub local_address: String,
    /// The client is on this machine.
    pub is_local: bool,
    /// The client uses TLS.
    pub is_encrypted: bool,
}

/// Sockets that accept clients.
#[derive(Debug)]
pub(super) struct Listeners {
    /// TCP listeners, each with whether its clients use TLS.
    all: Vec<(TcpListener, bool)>,
    unix: Option<(UnixListener, SocketFile)>,
    /// Index of the listener that is asked first next time, so that one does not keep the others waiting.
    next: usize,
}

impl Listeners {
    /// Listens at all addresses, except optional ones that the machine lacks. Port 0 is chosen at the first address and holds for all; the
    /// port of TLS is chosen separately. The Unix socket is that of the configuration.
    pub fn bind(addresses: &[Listening], configuration: &Configuration, registry: &Registry) -> io::Result<Listeners> {
        let mut unix = bind_unix(configuration)?;
        if let Some((listener, _)) = &mut unix {
            registry.register(listener, Token(LAST - MOST + 1), Interest::READABLE)?;
        }
        if addresses.len() >= MOST {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("{MOST} addresses or more")));
        }
        let mut all: Vec<(TcpListener, bool)> = Vec::new();
        for Listening { address, may_miss, is_encrypted } in addresses {
            let mut address = *address;
            let same = all.iter().find(|(_, encrypted)| encrypted == is_encrypted);
            if let Some((first, _)) = same.filter(|_| address.port() == 0) {
                address.set_port(first.local_addr()?.port());
            }
            match listen(address, configuration.backlog) {
                Ok(mut listener) => {
                    registry.register(&mut listener, Token(LAST - all.len()), Interest::READABLE)?;
                    all.push((listener, *is_encrypted));
                }
                Err(error) if *may_miss && is_missing(&error) => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("{address}: {error}"))),
            }
        }
        if all.is_empty() && unix.is_none() {
            return Err(io::Error::new(ErrorKind::AddrNotAvailable, "none of the addresses can be had"));
        }
        Ok(Listeners { all, unix, next: 0 })
    }

    /// Whether the token is that of a listener.
    pub fn has(token: Token) -> bool {
        token.0 > LAST - MOST && token.0 <= LAST
    }

    /// The first address, of those for clients with TLS or of the others.
    pub fn address(&self, is_encrypted: bool) -> io::Result<Option<SocketAddr>> {
        self.all.iter().find(|(_, encrypted)| *encrypted == is_encrypted).map(|(listener, _)| listener.local_addr()).transpose()
    }

    /// Accepts a waiting client. [`ErrorKind::WouldBlock`]: none waits at any listener.
    pub fn accept(&mut self) -> io::Result<Visitor> {
        let mut failure = None;
        let count = self.all.len() + usize::from(self.unix.is_some());
        for _ in 0..count {
            let at = self.next % count;
            self.next = at + 1;
            match self.accept_at(at) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => failure = Some(error),
                Ok(visitor) => return Ok(visitor),
            }
        }
        Err(failure.unwrap_or_else(|| ErrorKind::WouldBlock.into()))
    }

    fn accept_at(&self, at: usize) -> io::Result<Visitor> {
        if let Some((listener, is_encrypted)) = self.all.get(at) {
            let (socket, address) = listener.accept()?;
            let local_address = socket.local_addr().map_or_else(|_| String::new(), |address| address.to_string());
            let is_local = address.ip().to_canonical().is_loopback();
            let (socket, address) = (Socket::Tcp(socket), address.to_string());
            return Ok(Visitor { socket, address, local_address, is_local, is_encrypted: *is_encrypted });
        }
        let (listener, file) = self.unix.as_ref().ok_or(ErrorKind::WouldBlock)?;
        let (socket, _) = listener.accept()?;
        let address = format!("{}:0", file.path.display());
        let socket = Socket::Unix(socket);
        Ok(Visitor { socket, address: address.clone(), local_address: address, is_local: true, is_encrypted: false })
    }

    /// The path of the Unix socket.
    pub fn path(&self) -> Option<&Path> {
        self.unix.as_ref().map(|(_, file)| file.path.as_path())
    }
}

/// Listens at an address. An address of IPv6 takes no clients of IPv4, so that `0.0.0.0` and `::` can share a port.
fn listen(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    rustix::net::listen(&socket, backlog)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// The file of a Unix socket, removed at the end of the server unless another file has taken its place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and number of the file.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.identity) {
            // A file that stays is removed by the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens on the Unix socket of the configuration. A file that a killed server left there is replaced.
fn bind_unix(configuration: &Configuration) -> io::Result<Option<(UnixListener, SocketFile)>> {
    let path = Path::new(&configuration.unix_socket);
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let bind = || {
        remove_left(path)?;
        let listener = UnixListener::bind(path)?;
        let meta = fs::symlink_metadata(path)?;
        let file = SocketFile { path: path.into(), identity: (meta.dev(), meta.ino()) };
        if !configuration.unix_group.is_empty() {
            chown(path, None, Some(group(&configuration.unix_group)?))?;
        }
        if configuration.unix_permissions > 0 {
            fs::set_permissions(path, Permissions::from_mode(configuration.unix_permissions))?;
        }
        rustix::net::listen(&listener, configuration.backlog)?;
        Ok((listener, file))
    };
    bind().map(Some).map_err(|error: io::Error| io::Error::new(error.kind(), format!("unixsocket {}: {error}", path.display())))
}

/// Removes the socket of a server that is gone.
fn remove_left(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(meta) if !meta.file_type().is_socket() => Err(io::Error::new(ErrorKind::AlreadyExists, "a file is there that is no socket")),
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
            // Also a server whose queue is full, and one that may not be asked.
            _ => Err(io::Error::new(ErrorKind::AddrInUse, "another process listens there")),
        },
    }
}

/// The number of a group of the machine, given its name or number.
fn group(name: &str) -> io::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let groups = fs::read_to_string("/etc/group")?;
    // NAME:PASSWORD:NUMBER:MEMBERS
    let number = groups.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.split(':').nth(1)?.parse().ok());
    number.ok_or_else(|| io::Error::new(ErrorKind::NotFound, format!("there is no group {name}")))
}

/// Whether the machine lacks the address, or its family.
fn is_missing(error: &io::Error) -> bool {
    const FAMILY: i32 = 97;
    error.kind() == ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(FAMILY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::Poll;

    #[test]
    fn addresses_share_a_port_and_may_be_missing() {
        let poll = Poll::new().unwrap();
        let at = |text: &str, may_miss, is_encrypted| Listening { address: text.parse().unwrap(), may_miss, is_encrypted };
        // 192.0.2.0/24 is given to nobody.
        let all = [
            at("127.0.0.1:0", false, false),
            at("192.0.2.1:0", true, false),
            at("127.0.0.2:0", false, false),
            at("127.0.0.1:0", false, true),
        ];
        let mut listeners = Listeners::bind(&all, &Configuration::default(), poll.registry()).unwrap();
        let addresses: Vec<SocketAddr> = listeners.all.iter().map(|(listener, _)| listener.local_addr().unwrap()).collect();
        assert_eq!(addresses.len(), 3);
        let (plain, encrypted) = (listeners.address(false).unwrap().unwrap(), listeners.address(true).unwrap().unwrap());
        assert!(plain.port() != 0 && addresses[1].port() == plain.port());
        assert!(encrypted == addresses[2] && encrypted.port() != plain.port());
        assert_eq!(listeners.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        for (address, is_encrypted) in [(addresses[1], false), (addresses[2], true)] {
            let client = std::net::TcpStream::connect(address).unwrap();
            let accepted = loop {
                if let Ok(visitor) = listeners.accept() {
                    break visitor.is_encrypted;
                }
                std::thread::yield_now();
            };
            drop(client);
            assert_eq!(accepted, is_encrypted);
        }
        assert!(Listeners::bind(&[at("192.0.2.1:0", true, false)], &Configuration::default(), poll.registry()).is_err());
        assert!(Listeners::bind(&[at("192.0.2.1:0", false, false)], &Configuration::default(), poll.registry()).is_err());
        assert!(Listeners::has(Token(LAST)) && !Listeners::has(Token(usize::MAX)) && !Listeners::has(Token(5)));
    }

    #[test]
    fn a_unix_socket_replaces_the_one_that_a_killed_server_left() {
        let (poll, folder) = (Poll::new().unwrap(), tempfile::tempdir().unwrap());
        let path = folder.path().join("socket");
        let unix_socket = path.display().to_string();
        let configuration = Configuration { unix_socket: unix_socket.clone(), unix_permissions: 0o720, ..Configuration::default() };
        let bind = || Listeners::bind(&[], &configuration, poll.registry());
        // A listener of the standard library leaves its file.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let mut listeners = bind().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o720);
        assert_eq!(bind().unwrap_err().to_string(), format!("unixsocket {unix_socket}: another process listens there"));
        // The attempt above has left a connection, which comes first.
        let _client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        for _ in 0..2 {
            let visitor = listeners.accept().unwrap();
            assert!(visitor.is_local && !visitor.is_encrypted);
            assert_eq!((visitor.address, visitor.local_address), (format!("{unix_socket}:0"), format!("{unix_socket}:0")));
        }
        assert_eq!(listeners.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(listeners);
        assert!(!path.exists());
        fs::write(&path, "data").unwrap();
        assert_eq!(bind().unwrap_err().to_string(), format!("unixsocket {unix_socket}: a file is there that is no socket"));
        assert_eq!(fs::read(&path).unwrap(), b"data");
        assert_eq!((group("12").unwrap(), group("root").unwrap(), group("no such").unwrap_err().kind()), (12, 0, ErrorKind::NotFound));
    }
}
