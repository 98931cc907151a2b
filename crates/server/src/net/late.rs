//! Service of other clients while a late script runs: the server tells them that it is busy, and they may end the script.
//!
//! Nothing is committed, expired or delivered before the script has ended. If everything was committed when the script began, all
//! uncommitted writes are the script's, and replies to earlier requests leave. Otherwise the replies of the iteration so far, and those to
//! later requests of their clients, are held until the iteration is committed, or dropped, as a whole.

use super::{Data, EventLoop};
use crate::command::{Late, Server};
use crate::keyspace::Keyspace;
use crate::net::unix_ms;
use mio::Events;
use std::time::Duration;

/// Network events taken at once, at most.
const EVENTS: usize = 256;

impl Late for EventLoop {
    fn serve(&mut self, keyspace: &mut Keyspace, server: &mut Server) {
        // Requests of other clients need commits of their own; the script's needs are put back at the end.
        let needs = keyspace.take_needs();
        let (data, now) = (&mut Data { keyspace, server }, unix_ms());
        if data.server.scripts.is_among_others() {
            self.hold();
        }
        self.release_replies(data);
        self.end_syncs(data);
        let mut events = Events::with_capacity(EVENTS);
        if self.poll.poll(&mut events, Some(Duration::ZERO)).is_ok() {
            self.note(&events);
        }
        self.accept(data, now);
        // Each call is a turn of its own: replies to others while a script is late must not add up until nobody is served.
        self.produced = 0;
        self.serve_active(data, now);
        self.release_replies(data);
        self.send(data);
        if let Some(metrics) = &self.metrics {
            metrics.answer(data.server, data.keyspace);
        }
        data.server.is_ending |= self.stopper.has_order();
        if data.server.is_ending {
            // The server ends without waiting for the script.
            data.server.scripts.drop_running();
        }
        data.keyspace.take_needs();
        data.keyspace.need_commit(needs);
        self.was_late = true;
    }

    fn commits_first(&self) -> bool {
        true
    }
}

impl EventLoop {
    /// Holds the replies since the last commit. Later calls for the same script find the same clients, as all others are settled by then.
    fn hold(&mut self) {
        for id in &self.unsettled {
            if let Some(connection) = self.connections.get_mut(*id) {
                connection.is_held = true;
            }
        }
    }
}
