//! A connection without a network.

use super::*;
use crate::command::Alone;
use crate::net::stream::Socket;
use crate::testing::fresh;
use sinterdb::clock::Clock;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock of which each reading takes a nanosecond.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Clock for Counting {
    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn unix_seconds(&self) -> u64 {
        1_000
    }
}

/// A stream whose other end is gone.
fn connected() -> Stream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    Stream::Plain(Socket::Tcp(mio::net::TcpStream::from_std(socket)))
}

/// Input that has piled up is handled in shares, and the rest of it is not moved again for each of them.
#[test]
fn input_that_has_piled_up_is_not_moved_for_each_share() {
    const REQUEST: &[u8] = b"*1\r\n$4\r\nPING\r\n";
    const REQUESTS: usize = 4000;
    let (mut keyspace, mut server) = (fresh(), Server::default());
    server.set_clock(Arc::new(Counting::default()));
    let session = Session::new(7, &server);
    let mut connection = Connection::new(connected(), session, 0);
    connection.input = REQUEST.repeat(REQUESTS);
    let all = connection.input.len();
    let (mut shares, mut moved) = (0, 0);
    while !connection.unhandled().is_empty() {
        let (left, before) = (connection.unhandled().len(), connection.input.len());
        let until = server.monotonic_ns() + 50;
        assert_eq!(connection.handle(&mut Alone, &mut keyspace, &mut server, until), Handled::All);
        assert!(connection.unhandled().len() < left, "a share handles something");
        assert_eq!(connection.buffers().input, connection.unhandled().len());
        if connection.input.len() < before {
            moved += connection.input.len();
        }
        shares += 1;
    }
    assert!(connection.input.is_empty() && connection.output == b"+PONG\r\n".repeat(REQUESTS));
    assert!(shares > 50 && moved <= all, "{moved} bytes were moved in {shares} shares of {all} bytes");
}

/// A primary sends as many arguments as Redis takes from its clients; clients here send fewer.
#[test]
fn a_primary_sends_requests_with_more_arguments_than_clients() {
    let (mut keyspace, mut server) = (fresh(), Server::default());
    for is_primary in [false, true] {
        let mut session = Session::new(7, &server);
        (session.is_authenticated, session.is_primary) = (true, is_primary);
        let mut connection = Connection::new(connected(), session, 0);
        connection.input = b"*1048577\r\n".to_vec();
        assert_eq!(connection.handle(&mut Alone, &mut keyspace, &mut server, u64::MAX), Handled::All);
        assert_eq!(connection.is_ending || connection.is_dead, !is_primary);
    }
}
