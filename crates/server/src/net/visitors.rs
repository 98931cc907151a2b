//! Clients that connect and disconnect, and clients that are closed because they were idle for too long.

use super::connection::Connection;
use super::listeners::Visitor;
use super::stream::{Socket, Stream};
use super::{Data, EventLoop, ticking, token};
use crate::command::{Client, Server, Session, end_transfer};
use crate::log::Level;
use mio::Interest;
use std::io::{ErrorKind, Write};

/// Clients accepted in an event-loop iteration, at most, so that a flood of new clients does not keep the others waiting.
const ACCEPTS: usize = 64;
/// Reply to clients on other machines while there is no password.
const DENIED: &[u8] =
    b"-DENIED without a password only clients on the server's machine are served: set requirepass, or protected-mode no\r\n";

impl EventLoop {
    /// Accepts clients that wait to connect, at most [`ACCEPTS`].
    pub(super) fn accept(&mut self, data: &mut Data, now: u64) {
        for _ in 0..ACCEPTS {
            if !self.accepts {
                return;
            }
            match self.listeners.accept() {
                Ok(visitor) => self.welcome(data, visitor, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.accepts = false,
                // A client that disconnected again, or no more descriptors: the next tick tries again.
                Err(_) => {
                    self.accepts = false;
                    self.ticks.accept_again = true;
                }
            }
        }
    }

    fn welcome(&mut self, data: &mut Data, visitor: Visitor, now: u64) {
        let Visitor { mut socket, address, local_address, is_local, is_encrypted } = visitor;
        // A client that is refused gets the reason, unless it expects TLS: that would take a handshake.
        let mut refuse = |text: &[u8], server: &mut Server| {
            server.statistics.refused_connections += 1;
            if !is_encrypted {
                let _ = socket.write(text);
            }
        };
        if self.connections.len() >= data.server.configuration.clients_max {
            return refuse(b"-ERR max number of clients reached\r\n", data.server);
        }
        // The start checks this, too, but `CONFIG SET` can remove the password later.
        if !is_local && data.server.turns_away() {
            return refuse(DENIED, data.server);
        }
        let id = self.next_session;
        self.next_session += 1;
        let (descriptor, is_unix) = (socket.number(), matches!(socket, Socket::Unix(_)));
        if socket.tune(data.server.configuration.keep_alive).is_err() {
            return;
        }
        let stream = match &data.server.tls {
            Some(tls) if is_encrypted => Stream::encrypted(socket, tls),
            // No TLS is configured, and a client that expects TLS gets no plain text.
            None if is_encrypted => return,
            _ => Ok(Stream::Plain(socket)),
        };
        let Ok(mut stream) = stream else { return };
        if self.poll.registry().register(stream.source(), token(id), Interest::READABLE).is_err() {
            return;
        }
        data.server.statistics.connections += 1;
        let mut client = Client::new(id, address.clone(), local_address, descriptor, now);
        (client.is_unix, client.is_local) = (is_unix, is_local);
        data.server.clients.insert(id, client);
        let session = Session::new(id, data.server);
        data.server.update(&session, now);
        self.connections.put(id, Box::new(Connection::new(stream, session, now)));
        data.server.event(Level::Verbose, "client_connected", &[("id", &id), ("address", &address), ("tls", &is_encrypted)]);
        self.activate(id);
    }

    /// Removes a client, with its unfinished requests, watched keys, waits and transfers.
    pub(super) fn remove(&mut self, data: &mut Data, id: u64) {
        if let Some(mut connection) = self.connections.remove(id) {
            // Closing the socket deregisters it, too.
            let _ = self.poll.registry().deregister(connection.stream.source());
            self.held -= connection.held;
            self.links.end(id);
            connection.abandon(data.keyspace, data.server);
            data.keyspace.unwatch(id);
            data.keyspace.unwait(id);
            end_transfer(data.keyspace, data.server, id);
            data.server.leave(id);
            data.server.event(Level::Verbose, "client_gone", &[("id", &id)]);
        }
    }

    /// Checks a share of the clients for idleness, unsent output and requests that wait for it, so that each is checked once in a second
    /// and no iteration takes long.
    pub(super) fn look_at_clients(&mut self, data: &mut Data, now: u64) {
        let share = (self.connections.len() / ticking::TICKS_PER_ROUND).max(ticking::ROUND_MIN);
        let ids: Vec<u64> = data.server.clients.range(self.looked_at..).map(|(id, _)| *id).take(share).collect();
        self.looked_at = ids.last().filter(|_| ids.len() == share).map_or(0, |last| last + 1);
        for id in ids {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            let idle = now.saturating_sub(connection.active);
            let gives_back = idle >= ticking::IDLE_MS && connection.rest();
            // Clients of this iteration get their replies at its end, and clients of earlier ones after the sync that they wait for.
            let is_link = connection.session.is_replica || connection.session.is_primary;
            let is_served = connection.is_waiting() || connection.is_touched || connection.waits_for_sync() || is_link;
            let is_silent_for_a_reason = is_served || data.server.hub.is_listening(id) || data.server.hub.is_monitor(id);
            if connection.is_known() {
                connection.known = now;
            }
            let (passed, limit) = match data.server.configuration.timeout {
                // A client that has not authenticated is closed in time, whatever it sends.
                _ if !connection.is_known() => (now.saturating_sub(connection.known), ticking::GREETING_SECONDS),
                _ if is_silent_for_a_reason => (idle, 0),
                timeout => (idle, timeout),
            };
            connection.is_dead |= limit > 0 && passed / 1000 >= limit;
            if connection.is_behind() {
                connection.check_output(data.server, now);
            }
            let runs_on = connection.run_on();
            if connection.is_dead || gives_back {
                self.touch(id);
            }
            if runs_on {
                self.activate(id);
            }
        }
    }
}
