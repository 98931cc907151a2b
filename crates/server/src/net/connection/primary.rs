//! The connection of a replica's primary: its requests are the replication stream.
//!
//! Requests run like those of a client, without replies. The bytes of applied requests go to the replica's own stream, a transaction at
//! once, so that data and offset are in one batch. A request that fails here is logged, and the stream goes on.

use super::Connection;
use crate::command::{Ended, Server, Session};
use crate::log::Level;
use crate::net::stream::Stream;
use std::fmt::Display;

/// Milliseconds between two lines of the log about requests that fail.
const TOLD_EVERY_MS: u64 = 1000;
/// Bytes of a reply that the log repeats, at most.
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
        if reply.starts_with(b"-") {
            let line = reply.split(|byte| *byte == b'\r').next().unwrap_or_default();
            let why = line.get(..line.len().min(REPEATED)).unwrap_or_default().escape_ascii().to_string();
            tell_failed(server, self.session.last_command, &why, now);
            // What follows is about a database that is not here. The link begins anew, and fails again, until there is none of that.
            if self.session.last_command == "select" {
                self.is_dead = true;
                return;
            }
        }
        self.output.truncate(self.turn_start);
        self.later.truncate(self.turn_start);
        self.turn_replies = 0;
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

    /// Gives the link up, as the primary sends something that is no request.
    pub(super) fn give_up_primary(&mut self, why: Option<Vec<u8>>, server: &Server) {
        let why = why.map_or_else(|| "no request".into(), |why| String::from_utf8_lossy(&why).into_owned());
        server.event(Level::Warning, "primary_sends_nonsense", &[("why", &why)]);
        self.is_dead = true;
    }

    /// Tells the primary the offsets up to which the engine has its stream, and up to which that is on the medium, if that is known.
    pub fn acknowledge(&mut self, offset: u64, durable: Option<u64>) {
        let mut words = vec!["REPLCONF".to_owned(), "ACK".to_owned(), offset.to_string()];
        words.extend(durable.into_iter().flat_map(|durable| ["FACK".to_owned(), durable.to_string()]));
        self.output.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        words.iter().for_each(|word| self.output.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes()));
        // It reports what is committed, and waits for nothing.
        self.end_turn(0);
    }
}

/// Logs that a request of the primary has failed here, which may mean that the data differ.
fn tell_failed(server: &mut Server, command: &str, why: &str, now: u64) {
    server.upstream.failed += 1;
    if now.saturating_sub(server.upstream.told_at) < TOLD_EVERY_MS {
        return;
    }
    server.upstream.told_at = now;
    let values: [(&str, &dyn Display); 3] = [("command", &command), ("why", &why), ("all", &server.upstream.failed)];
    server.event(Level::Warning, "primary_request_failed", &values);
}
