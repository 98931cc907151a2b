//! Where the server listens: several addresses, taken in turns.

use crate::command::configuration::Listening;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// Tokens of listeners count down from here; no session's number gets so far.
const LAST: usize = usize::MAX - 1;
/// Addresses, at most.
const MOST: usize = 64;

/// Sockets that accept clients.
#[derive(Debug)]
pub(super) struct Listeners {
    /// Each with whether its clients come with TLS.
    all: Vec<(TcpListener, bool)>,
    /// Which is asked first next time, so that one does not keep the others waiting.
    next: usize,
}

impl Listeners {
    /// Listens at all addresses but those that may be missing, and are. A port of 0 is chosen at the first address and holds for all, but
    /// that of TLS is another one.
    pub fn bind(addresses: &[Listening], registry: &Registry) -> io::Result<Listeners> {
        if addresses.len() > MOST {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("more than {MOST} addresses")));
        }
        let mut all: Vec<(TcpListener, bool)> = Vec::new();
        for Listening { address, may_miss, is_encrypted } in addresses {
            let mut address = *address;
            let same = all.iter().find(|(_, encrypted)| encrypted == is_encrypted);
            if let Some((first, _)) = same.filter(|_| address.port() == 0) {
                address.set_port(first.local_addr()?.port());
            }
            match TcpListener::bind(address) {
                Ok(mut listener) => {
                    registry.register(&mut listener, Token(LAST - all.len()), Interest::READABLE)?;
                    all.push((listener, *is_encrypted));
                }
                Err(error) if *may_miss && is_missing(&error) => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("{address}: {error}"))),
            }
        }
        if all.is_empty() {
            return Err(io::Error::new(ErrorKind::AddrNotAvailable, "none of the addresses can be had"));
        }
        Ok(Listeners { all, next: 0 })
    }

    /// The token is one of theirs.
    pub fn has(token: Token) -> bool {
        token.0 > LAST - MOST && token.0 <= LAST
    }

    /// The first address, of those for clients with TLS or of the others.
    pub fn address(&self, is_encrypted: bool) -> io::Result<Option<SocketAddr>> {
        self.all.iter().find(|(_, encrypted)| *encrypted == is_encrypted).map(|(listener, _)| listener.local_addr()).transpose()
    }

    /// A client that waits, and whether it comes with TLS. [`ErrorKind::WouldBlock`]: none does, anywhere.
    pub fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr, bool)> {
        let mut failure = None;
        for _ in 0..self.all.len() {
            let at = self.next % self.all.len();
            self.next = at + 1;
            let (listener, is_encrypted) = &self.all[at];
            match listener.accept() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => failure = Some(error),
                Ok((stream, address)) => return Ok((stream, address, *is_encrypted)),
            }
        }
        Err(failure.unwrap_or_else(|| ErrorKind::WouldBlock.into()))
    }
}

/// The machine does not have the address, or not its family.
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
        let mut listeners = Listeners::bind(&all, poll.registry()).unwrap();
        let addresses: Vec<SocketAddr> = listeners.all.iter().map(|(listener, _)| listener.local_addr().unwrap()).collect();
        assert_eq!(addresses.len(), 3);
        let (plain, encrypted) = (listeners.address(false).unwrap().unwrap(), listeners.address(true).unwrap().unwrap());
        assert!(plain.port() != 0 && addresses[1].port() == plain.port());
        assert!(encrypted == addresses[2] && encrypted.port() != plain.port());
        assert_eq!(listeners.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        for (address, is_encrypted) in [(addresses[1], false), (addresses[2], true)] {
            let client = std::net::TcpStream::connect(address).unwrap();
            let accepted = loop {
                if let Ok((_, _, accepted)) = listeners.accept() {
                    break accepted;
                }
                std::thread::yield_now();
            };
            drop(client);
            assert_eq!(accepted, is_encrypted);
        }
        assert!(Listeners::bind(&[at("192.0.2.1:0", true, false)], poll.registry()).is_err());
        assert!(Listeners::bind(&[at("192.0.2.1:0", false, false)], poll.registry()).is_err());
        assert!(Listeners::has(Token(LAST)) && !Listeners::has(Token(usize::MAX)) && !Listeners::has(Token(5)));
    }
}
