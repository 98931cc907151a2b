//! The limit of idle time (`timeout`), and clients that were silent for a reason.

use super::*;

/// Turns until as many bytes as `expected` has arrived, without a tick; false: the connection was closed.
fn arrives(driven: &mut Driven, client: &mut TcpStream, expected: &str) -> bool {
    client.set_nonblocking(true).unwrap();
    let mut reply = Vec::new();
    loop {
        driven.wait();
        driven.turn();
        let mut some = [0; 100];
        match client.read(&mut some) {
            Ok(0) => return false,
            Ok(bytes) => reply.extend_from_slice(&some[..bytes]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        if reply.len() >= expected.len() {
            assert_eq!(String::from_utf8_lossy(&reply), expected);
            return true;
        }
    }
}

/// A wait that ends in the turn of a tick, long after the client's last byte: the client gets its reply, and has as long as ever for its
/// next request.
#[test]
fn a_client_is_not_idle_while_it_waits_nor_when_it_gets_its_reply() {
    let configuration = Configuration { timeout: 1, ..Configuration::default() };
    let mut driven = Driven::listen(&[false], Server { configuration, ..Server::default() });
    let address = driven.net.address().unwrap();
    let mut waiting = TcpStream::connect(address).unwrap();
    waiting.write_all(b"BLPOP k 0\r\n").unwrap();
    driven.settle(1);
    (0..30).for_each(|_| driven.tick());
    let mut pushing = TcpStream::connect(address).unwrap();
    driven.settle(2);
    pushing.write_all(b"RPUSH k v\r\n").unwrap();
    // The tick is due in the turn that serves both.
    driven.now += 100;
    assert!(arrives(&mut driven, &mut waiting, "*2\r\n$1\r\nk\r\n$1\r\nv\r\n"), "the element is lost");
    assert!(arrives(&mut driven, &mut pushing, ":1\r\n"));
    (0..9).for_each(|_| driven.tick());
    assert_eq!(driven.net.event_loop.connections.len(), 2, "the reply was the last sign of life");
    (0..12).for_each(|_| driven.tick());
    assert_eq!(driven.net.event_loop.connections.len(), 0);
}
