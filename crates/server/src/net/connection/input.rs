//! The input of a connection: bytes that were received, of which the first ones are handled.

use super::{Connection, KEPT, STRICT_OUTPUT_MAX};
use crate::command::Server;
use crate::keyspace::{EXPECTED_MAX, Keyspace};
use crate::log::Level;
use crate::resp::Coming;

/// Bytes of one request before authentication, all arguments together.
const STRICT_INPUT_MAX: usize = 64 << 10;

impl Connection {
    /// Bytes of the input that are not handled yet.
    pub(super) fn unhandled(&self) -> &[u8] {
        self.input.get(self.taken..).unwrap_or_default()
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

    /// Drops what is handled, and closes a client of which more is received, or to be sent, than it may have.
    pub(super) fn check_limits(&mut self, keyspace: &Keyspace, server: &mut Server) {
        self.drop_handled();
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
