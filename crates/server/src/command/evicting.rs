//! The limit of all data (`maxdata`): when it counts, and which requests are refused beyond it.

use super::acl::Request;
use super::spec::DENYOOM;
use super::{Failure, Outcome, Server, Session};
use crate::keyspace::{self, Keyspace};
use crate::log::Level;

/// The error for requests that may add data. Clients know Redis's words.
pub(super) const FULL: Failure = Failure::fixed("OOM command not allowed when used memory > 'maxmemory'.");
/// The error for a script that may add data by what it states, and was not known when its request was checked.
pub(super) const FULL_FOR_SCRIPT: Failure =
    Failure::fixed("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'");

/// Commands beside `EXEC` that are not queued in a transaction. Others are refused while data are beyond the limit: a queue takes memory.
const NEVER_QUEUED: &[&str] = &["discard", "quit", "reset"];

/// Data beyond the limit.
#[derive(Debug, Default)]
pub struct Excess {
    /// When the last request was checked, data were beyond the limit and no key could be evicted.
    pub(super) refuses: bool,
    /// When data went beyond the limit, unix milliseconds.
    since: Option<u64>,
    /// Milliseconds for which data were beyond the limit before that.
    total_ms: u64,
}

impl Excess {
    /// Notes whether data are beyond the limit now.
    fn note(&mut self, is_beyond: bool, now: u64) {
        match self.since {
            None if is_beyond => self.since = Some(now),
            Some(since) if !is_beyond => {
                self.total_ms = self.total_ms.saturating_add(now.saturating_sub(since));
                self.since = None;
            }
            _ => {}
        }
    }

    /// Milliseconds for which data have been beyond the limit, this time and altogether.
    pub(super) fn times(&self, now: u64) -> (u64, u64) {
        let current = self.since.map_or(0, |since| now.saturating_sub(since));
        (current, self.total_ms.saturating_add(current))
    }
}

impl Server {
    /// Whether the limit of the data counts now: if not, no key is evicted and no request is refused. It does not on a replica, during a
    /// pause, in which data stay as they are, nor while a late script runs.
    pub fn limits_data(&self, now: u64) -> bool {
        self.configuration.data_max > 0 && !self.is_replica() && self.pause.is_over(now) && !self.scripts.is_busy()
    }

    /// Whether data are beyond the limit.
    pub fn has_excess(&self, keyspace: &Keyspace) -> bool {
        let bytes = keyspace.data_bytes().filter(|_| self.limits_data(keyspace.now()));
        bytes.is_some_and(|bytes| bytes > self.configuration.data_max)
    }

    /// Whether a script of the request that runs must not add data. The state of the data is that at the start of the request, also in a
    /// transaction; the limit may have ceased to count since, as for the requests of a primary, which are not checked.
    pub(super) fn refuses_data(&self, keyspace: &Keyspace) -> bool {
        self.excess.refuses && self.limits_data(keyspace.now())
    }

    /// Counts the data, if they are limited and an earlier version has written them: that takes as long as reading them.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn count_data(&self, keyspace: &mut Keyspace) -> keyspace::Result<()> {
        let begun = self.monotonic_ns();
        if self.configuration.data_max > 0 && keyspace.count_all_bytes()? {
            let (bytes, ns) = (keyspace.data_bytes().unwrap_or(0), self.monotonic_ns().saturating_sub(begun));
            self.event(Level::Notice, "data_counted", &[("bytes", &bytes), ("ms", &(ns / 1_000_000))]);
        }
        Ok(())
    }

    /// Notes whether data are beyond the limit, for statistics.
    pub fn note_excess(&mut self, is_beyond: bool, now: u64) {
        self.excess.note(is_beyond, now);
    }
}

/// Fails for a request that may add data, if data are beyond the limit and no key can be evicted.
pub(super) fn check(keyspace: &Keyspace, server: &mut Server, session: &Session, request: &Request) -> Outcome {
    server.excess.refuses = server.has_excess(keyspace) && !keyspace.can_evict(server.configuration.policy);
    if !server.excess.refuses {
        return Ok(());
    }
    let unit = request.unit;
    let is_refused = if session.is_in_transaction() && unit.command.name != "exec" {
        !NEVER_QUEUED.contains(&unit.command.name)
    } else {
        session.has((unit, server.scripts.flags_of(unit, request.arguments)), |flags| flags & DENYOOM != 0)
    };
    if is_refused { Err(FULL) } else { Ok(()) }
}
