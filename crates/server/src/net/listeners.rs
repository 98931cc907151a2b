//! Where the server listens: several addresses, taken in turns.

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
    all: Vec<TcpListener>,
    /// Which is asked first next time, so that one does not keep the others waiting.
    next: usize,
}

impl Listeners {
    /// Listens at all addresses but those that may be missing, and are. A port of 0 is chosen at the first address and holds for all.
    pub fn bind(addresses: &[(SocketAddr, bool)], registry: &Registry) -> io::Result<Listeners> {
        if addresses.len() > MOST {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("more than {MOST} addresses")));
        }
        let mut all: Vec<TcpListener> = Vec::new();
        for (address, may_miss) in addresses {
            let mut address = *address;
            if let Some(first) = all.first().filter(|_| address.port() == 0) {
                address.set_port(first.local_addr()?.port());
            }
            match TcpListener::bind(address) {
                Ok(mut listener) => {
                    registry.register(&mut listener, Token(LAST - all.len()), Interest::READABLE)?;
                    all.push(listener);
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

    /// The first address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.all[0].local_addr()
    }

    /// A client that waits. [`ErrorKind::WouldBlock`]: none does, anywhere.
    pub fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let mut failure = None;
        for _ in 0..self.all.len() {
            let at = self.next % self.all.len();
            self.next = at + 1;
            match self.all[at].accept() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => failure = Some(error),
                Ok(accepted) => return Ok(accepted),
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
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        // 192.0.2.0/24 is given to nobody.
        let both = [(address("127.0.0.1:0"), false), (address("192.0.2.1:0"), true), (address("127.0.0.2:0"), false)];
        let mut listeners = Listeners::bind(&both, poll.registry()).unwrap();
        assert_eq!(listeners.all.len(), 2);
        let port = listeners.address().unwrap().port();
        assert!(port != 0 && listeners.all[1].local_addr().unwrap().port() == port);
        assert_eq!(listeners.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let client = std::net::TcpStream::connect(listeners.all[1].local_addr().unwrap()).unwrap();
        while listeners.accept().is_err() {
            std::thread::yield_now();
        }
        drop(client);
        assert!(Listeners::bind(&[(address("192.0.2.1:0"), true)], poll.registry()).is_err());
        assert!(Listeners::bind(&[(address("192.0.2.1:0"), false)], poll.registry()).is_err());
        assert!(Listeners::has(Token(LAST)) && !Listeners::has(Token(usize::MAX)) && !Listeners::has(Token(5)));
    }
}
