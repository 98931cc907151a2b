//! The connection of a replica's primary: its requests are the replication stream.
//!
//! Requests run like those of a client, without replies. The bytes of applied requests go to the replica's own stream, a transaction at
//! once, so that data and offset are in one batch. A request that fails here, also inside a transaction, is logged, and the stream goes on.

use super::Connection;
use crate::command::{Ended, Server, Session};
use crate::keyspace::Keyspace;
use crate::log::Level;
use crate::net::stream::Stream;
use crate::replication::Untold;
use crate::resp::put_request;
use std::fmt::Display;

/// Most arguments of a request. Redis 7.0 takes so many from its clients, and passes them on.
pub(super) const COUNT_MAX: usize = i32::MAX as usize;
/// Milliseconds between two lines of the log about requests that fail.
const TOLD_EVERY_MS: u64 = 1000;
/// Bytes of a reply, or of a word of a request, that the log repeats, at most.
const REPEATED: usize = 200;
/// Memory that the bytes of a transaction keep for the next one.
const KEPT: usize = 64 << 10;

impl Connection {
    /// The connection of the primary, which has sent some bytes already.
    pub fn of_primary(stream: Stream, session: Session, input: Vec<u8>, now: u64) -> Connection {
        let mut connection = Connection::new(stream, session, now);
        // A request is done when its bytes are part of the stream.
        connection.session.can_step = false;
        connection.has_waiting = !input.is_empty();
        connection.input = input;
        connection
    }

    /// Notes that the primary's request, of `used` bytes, was run: drops its reply, and adds its bytes to the stream.
    pub(super) fn note_applied(&mut self, used: usize, ended: Ended, server: &mut Server, now: u64) {
        let reply = self.output.get(self.turn_start..).unwrap_or_default();
        let why = reply.starts_with(b"-").then(|| shown(reply.split(|byte| *byte == b'\r').next().unwrap_or_default()));
        self.output.truncate(self.turn_start);
        self.later.truncate(self.turn_start);
        self.turn_replies = 0;
        if let Some(why) = why {
            let mut arguments = self.parser.arguments(self.input.get(self.taken..).unwrap_or_default());
            if arguments.next().is_some_and(|name| name.eq_ignore_ascii_case(b"select")) {
                // The requests behind it are about a database that is not here. The link begins anew, and ends here again.
                let database = shown(arguments.next().unwrap_or_default());
                server.event(Level::Warning, "primary_database_missing", &[("database", &database), ("why", &why)]);
                server.upstream.untold = None;
                self.is_dead = true;
                return;
            }
        }
        if !self.session.is_in_transaction() {
            tell_failed(server, now);
        }
        if ended == Ended::EngineFailed {
            return;
        }
        let request = self.input.get(self.taken..self.taken + used).unwrap_or_default();
        if self.session.is_in_transaction() {
            self.transaction.extend_from_slice(request);
        } else if self.transaction.is_empty() {
            server.feed.raw(request, self.session.db);
        } else {
            self.transaction.extend_from_slice(request);
            server.feed.raw(&self.transaction, self.session.db);
            self.transaction.clear();
            self.transaction.shrink_to(KEPT);
        }
    }

    /// Whether the complete request is a line of words, which no primary sends: its stream is not where it should be.
    pub(super) fn is_inline(&self) -> bool {
        !self.parser.is_empty() && self.input.get(self.taken) != Some(&b'*')
    }

    /// Gives the link up, as the primary sends something that is no request. The next link goes on behind the last request; if the primary
    /// sends no request there again, the link after it asks for all data.
    pub(super) fn give_up_primary(&mut self, why: Option<Vec<u8>>, keyspace: &Keyspace, server: &mut Server) {
        let why = why.map_or_else(|| "no request".into(), |why| String::from_utf8_lossy(&why).into_owned());
        let offset = keyspace.stream().map_or(0, |position| position.offset) + server.feed.unfed();
        let next = if server.upstream.note_nonsense(offset) { "all_data" } else { "from_offset" };
        server.event(Level::Warning, "primary_sends_nonsense", &[("why", &why), ("offset", &offset), ("next", &next)]);
        self.is_dead = true;
    }

    /// Tells the primary the offsets up to which the engine has its stream, and up to which that is on the medium, if that is known.
    pub fn acknowledge(&mut self, offset: u64, durable: Option<u64>) {
        let mut words = vec!["REPLCONF".to_owned(), "ACK".to_owned(), offset.to_string()];
        words.extend(durable.into_iter().flat_map(|durable| ["FACK".to_owned(), durable.to_string()]));
        put_request(&mut self.output, &words);
        // It reports what is committed, and waits for nothing.
        self.end_turn(0);
    }
}

/// The beginning of some bytes, for people.
fn shown(bytes: &[u8]) -> String {
    bytes.get(..bytes.len().min(REPEATED)).unwrap_or_default().escape_ascii().to_string()
}

/// Logs that a request or a transaction of the primary has failed here, which may mean that the data differ.
fn tell_failed(server: &mut Server, now: u64) {
    let Some(Untold { command, why, skips }) = server.upstream.untold.take() else { return };
    let told_at = &mut server.upstream.told_at[usize::from(skips)];
    if now.saturating_sub(*told_at) < TOLD_EVERY_MS {
        return;
    }
    *told_at = now;
    let values: [(&str, &dyn Display); 3] =
        [("command", &command.escape_ascii()), ("why", &why.escape_ascii()), ("all", &server.upstream.failed)];
    server.event(Level::Warning, if skips { "primary_transaction_skipped" } else { "primary_request_failed" }, &values);
}
