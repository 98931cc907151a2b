//! The input of a connection: bytes that were received, of which the first ones are handled.

use super::{Connection, KEPT, STRICT_OUTPUT_MAX};
use crate::command::Server;
use crate::keyspace::{EXPECTED_MAX, Keyspace};
use crate::log::Level;
use crate::net::stream::Came;
use crate::resp::Coming;
use std::io::ErrorKind;

/// Bytes of one request before authentication, all arguments together.
const STRICT_INPUT_MAX: usize = 64 << 10;

impl Connection {
    /// Bytes of the input that are not handled yet.
    pub(super) fn unhandled(&self) -> &[u8] {
        self.input.get(self.taken..).unwrap_or_default()
    }

    /// Reads once, through a buffer shared by all clients. True: bytes arrived.
    pub fn read(&mut self, buffer: &mut [u8], server: &mut Server, now: u64) -> bool {
        match self.stream.read(buffer, &mut self.input) {
            // Requests that have come whole run, though their client waits for no more than the replies, or not even for these.
            Ok(Came::End) if self.has_waiting && !self.is_waiting() => {
                (self.is_at_end, self.is_readable) = (true, false);
            }
            // A client that has sent all its requests may still read.
            Ok(Came::End) if self.waits_for_sync() || self.is_held => self.is_ending = true,
            Ok(Came::End) => self.is_dead = true,
            Ok(Came::Bytes(bytes, may_have_more)) => {
                server.statistics.reads += 1;
                server.statistics.bytes_in += bytes as u64;
                self.active = now;
                self.is_readable = may_have_more || self.is_shut;
                return true;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                server.event(Level::Verbose, "tls_failed", &[("id", &self.session.id), ("why", &error)]);
                self.is_dead = true;
                return true;
            }
            Err(_) => self.is_dead = true,
        }
        false
    }

    /// Tells the keyspace the keys of the next requests, if there is more than one.
    pub(super) fn expect(&mut self, keyspace: &mut Keyspace) {
        let waiting = self.unhandled();
        let Some((_, first)) = Coming::of(waiting).next().filter(|(_, end)| *end < waiting.len()) else { return };
        let mut end = first;
        let keys = Coming::of(waiting).take(EXPECTED_MAX).map(|(key, request)| {
            end = request;
            key
        });
        keyspace.expect(self.session.db, keys.filter(|key| !key.is_empty()));
        self.expected = self.taken + end;
    }

    /// Drops the handled bytes of the input once they are at least half of it: then no byte is moved more than once on average, however
    /// much has piled up and however little a share of time handles.
    fn drop_handled(&mut self) {
        if self.taken < self.unhandled().len() {
            return;
        }
        self.input.drain(..self.taken);
        self.expected = self.expected.saturating_sub(self.taken);
        self.taken = 0;
        if self.input.is_empty() {
            self.input.shrink_to(KEPT);
        }
    }

    /// Drops what is handled, ends a client whose requests were its last, and closes one of which more is received, or to be sent, than it
    /// may have.
    pub(super) fn check_limits(&mut self, keyspace: &Keyspace, server: &mut Server) {
        self.drop_handled();
        // As in Redis, a pause ends a client that has sent its last.
        self.is_ending |= self.is_at_end && (!self.has_waiting || self.is_postponed);
        self.check_output(server, keyspace.now());
        let bytes = self.unhandled().len();
        if !self.session.is_authenticated {
            self.is_dead |= bytes > STRICT_INPUT_MAX || self.unsent() > STRICT_OUTPUT_MAX;
        } else if !self.session.is_primary && bytes as u64 > server.configuration.query_limit {
            self.is_dead = true;
            server.statistics.query_limited += 1;
            server.event(Level::Warning, "client_query_limit", &[("id", &self.session.id), ("bytes", &bytes)]);
        }
    }
}
