//! What a turn does, counted: for the request of one client it must not matter how many others are connected and say nothing.

use super::*;
use crate::testing::fresh;
use std::io::Read;
use std::net::TcpStream;

/// Clients, if there are descriptors for them: each needs two here.
const IDLE: usize = 3000;

struct Driven {
    net: Net,
    events: Events,
    now: u64,
}

impl Driven {
    fn new() -> Driven {
        let net = Net::bind("127.0.0.1:0".parse().unwrap(), fresh(), Server::default()).unwrap();
        Driven { net, events: Events::with_capacity(EVENTS), now: 1_000_000 }
    }

    /// Waits for something to happen; whom it concerns.
    fn wait(&mut self) -> Vec<u64> {
        self.net.poll.poll(&mut self.events, Some(Duration::from_millis(20))).unwrap();
        self.net.note(&self.events);
        self.net.active.clone()
    }

    fn turn(&mut self) {
        self.net.turn(self.now);
    }

    /// Turns until nobody has anything to do, nor will have.
    fn settle(&mut self, clients: usize) {
        loop {
            let concerned = self.wait();
            self.turn();
            if concerned.is_empty() && !self.net.accepts && self.net.active.is_empty() && self.net.connections.len() >= clients {
                return;
            }
        }
    }

    /// A tick, whose turns go on until all is done.
    fn tick(&mut self) {
        self.now += 100;
        self.turn();
        let clients = self.net.connections.len();
        self.settle(clients);
    }

    fn ask(&mut self, client: &mut TcpStream) -> Vec<u64> {
        client.write_all(b"PING\r\n").unwrap();
        let mut concerned = self.wait();
        // The thread that syncs may have woken the network first.
        while concerned.is_empty() {
            concerned = self.wait();
        }
        self.turn();
        let mut reply = [0; 7];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
        concerned
    }
}

#[test]
fn idle_clients_take_no_part_in_turns_and_hold_no_buffers() {
    let mut driven = Driven::new();
    let address = driven.net.address().unwrap();
    let count = IDLE.min(descriptors::clients_max() / 4);
    let mut clients = Vec::new();
    for n in 0..count {
        let mut client = TcpStream::connect(address).unwrap();
        if n % 2 == 0 {
            client.write_all(b"SET a 1\r\nGET a\r\n").unwrap();
        }
        clients.push(client);
        if clients.len() % 50 == 0 {
            driven.settle(clients.len());
        }
    }
    driven.settle(count);
    let concerned = driven.ask(&mut clients[1]);
    assert_eq!((concerned.len(), driven.net.connections.len()), (1, count), "a request is one client's matter");
    assert_ne!(driven.net.held, 0);
    // All are looked at once in ten ticks, the same number in each.
    let share = (count / ticking::TICKS_PER_ROUND).max(ticking::ROUND_MIN) as u64;
    driven.net.looked_at = FIRST_SESSION;
    driven.tick();
    assert_eq!(driven.net.looked_at, FIRST_SESSION + share);
    driven.now += ticking::IDLE_MS;
    (0..=ticking::TICKS_PER_ROUND + 1).for_each(|_| driven.tick());
    assert_eq!(driven.net.held, 0, "buffers of clients that say nothing are kept");
    assert!(driven.net.server.clients.values().all(|client| client.buffers.held() == 0));
    assert_eq!(driven.ask(&mut clients[count - 1]).len(), 1);
}
