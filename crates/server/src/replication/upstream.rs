//! The primary of a replica, as the rest of the server sees it: the state of the link, and a handover of the primary's role (`FAILOVER`).

use super::address::Address;
use super::wire::Progress;
use std::sync::Arc;

/// Bytes of a request, and of its error, that the log repeats, at most.
const REPEATED: usize = 200;

/// Wait after the second full synchronisation in a row, and the longest one, milliseconds.
const WAIT_MS: u64 = 2000;
const LONGEST_WAIT_MS: u64 = 60_000;
/// Milliseconds that a link carries the stream before full synchronisations count anew.
const GOOD_MS: u64 = 60_000;

/// The link of a replica to its primary.
#[derive(Debug, Default)]
pub enum State {
    /// There is no link, and no attempt to make one runs.
    #[default]
    Down,
    /// The link is being made.
    Making(Arc<Progress>),
    /// The link carries the stream, as the connection of this session.
    Up(u64),
}

/// A replica's side of replication.
#[derive(Debug, Default)]
pub struct Upstream {
    /// State of the link.
    pub state: State,
    /// When the link broke, unix milliseconds; `None`: it is up, or has never been.
    pub down_since: Option<u64>,
    /// The primary has been chosen anew, and the event loop has not noticed yet.
    pub is_changed: bool,
    /// Offset at which the primary's stream has gone on with bytes that are no request.
    pub nonsense_at: Option<u64>,
    /// The stream has gone on like that twice at the same offset: the next link asks for all data, not for the same bytes for ever.
    pub needs_all: bool,
    /// The primary has asked how far the replica is.
    pub is_asked: bool,
    /// Requests of the primary that have failed here, each command of a transaction by itself.
    pub failed: u64,
    /// The first one of which the log was not told yet.
    pub untold: Option<Untold>,
    /// When a failure, and a skipped transaction, was logged last, unix milliseconds.
    pub told_at: [u64; 2],
    /// The handover that runs.
    pub failover: Failover,
}

impl Upstream {
    /// Notes that a request of the primary has failed here. An error of `EXEC` itself belongs to the failure before.
    pub fn note_failure(&mut self, command: &[u8], why: &[u8]) {
        self.failed += 1;
        let cut = |bytes: &[u8]| bytes.get(..bytes.len().min(REPEATED)).unwrap_or_default().to_vec();
        let first = self.untold.get_or_insert_with(|| Untold { command: cut(command), why: cut(why), skips: false });
        first.skips |= why.starts_with(b"EXECABORT ");
    }

    /// Notes that no request comes at this offset of the primary's stream; returns whether the next link asks for all data.
    pub fn note_nonsense(&mut self, offset: u64) -> bool {
        self.needs_all = self.nonsense_at.replace(offset) == Some(offset);
        self.needs_all
    }

    /// Forgets [`Upstream::note_nonsense`]: the data or the primary are others.
    pub fn forget_nonsense(&mut self) {
        (self.nonsense_at, self.needs_all) = (None, false);
    }

    /// The state, under the name that `ROLE` has for it.
    pub fn name(&self) -> &'static str {
        match &self.state {
            State::Down => "connect",
            State::Making(progress) => progress.stage(),
            State::Up(_) => "connected",
        }
    }

    /// Session of the primary's connection; `None`: the link is not up.
    pub fn session(&self) -> Option<u64> {
        if let State::Up(session) = self.state { Some(session) } else { None }
    }

    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        self.session().is_some()
    }

    /// Progress of all data that are being loaded: see [`Progress::data`].
    pub fn data(&self) -> Option<(u64, u64, u64)> {
        if let State::Making(progress) = &self.state { progress.data() } else { None }
    }
}

/// Full synchronisations in a row: each costs the primary a pass over all its data. If they lead to no lasting stream, for example because
/// the primary sends nonsense behind its data, or data that cannot be loaded, the replica waits before it asks again, each time twice as
/// long.
#[derive(Debug, Default)]
pub struct FullSyncs {
    /// Number that the primary has begun since a link carried the stream for [`GOOD_MS`].
    in_row: u32,
    /// When the link came up that carries the stream, and when the last link ended, unix milliseconds.
    up: Option<u64>,
    ended: Option<u64>,
}

impl FullSyncs {
    /// The primary has begun a full synchronisation.
    pub fn begin(&mut self) {
        self.in_row = self.in_row.saturating_add(1);
    }

    /// The link carries the stream from now on.
    pub fn link_up(&mut self, now: u64) {
        self.up = Some(now);
    }

    /// A full synchronisation has failed, or the link that carried the stream has ended. Returns the number in a row, and the milliseconds
    /// that the replica waits; `None`: it does not wait.
    pub fn end(&mut self, now: u64) -> Option<(u32, u64)> {
        if self.up.take().is_some_and(|up| has_passed(Some(up), GOOD_MS, now)) {
            self.in_row = 0;
        }
        self.ended = Some(now);
        let wait = self.wait_ms();
        (wait > 0).then_some((self.in_row, wait))
    }

    /// Whether the replica may ask its primary.
    pub fn may_ask(&self, now: u64) -> bool {
        has_passed(self.ended, self.wait_ms(), now)
    }

    fn wait_ms(&self) -> u64 {
        match self.in_row.checked_sub(2) {
            Some(doublings) => WAIT_MS.saturating_mul(1 << doublings.min(16)).min(LONGEST_WAIT_MS),
            None => 0,
        }
    }
}

/// Whether so many milliseconds have passed since a moment, if there was one. A clock that goes back does not stop anything.
pub fn has_passed(since: Option<u64>, ms: u64, now: u64) -> bool {
    since.is_none_or(|since| now < since || now - since >= ms)
}

/// A failure of a primary's request of which the log is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    /// The command as it was sent, cut if it is long.
    pub command: Vec<u8>,
    /// The error, cut if it is long.
    pub why: Vec<u8>,
    /// The transaction was skipped as a whole because of it.
    pub skips: bool,
}

/// Handover of the primary's role to one of its replicas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Failover {
    /// None.
    #[default]
    None,
    /// Writes are paused until a replica has all.
    Waiting {
        /// The replica; `None`: the first one that has all.
        to: Option<Address>,
        /// Time after which the handover is given up, unix milliseconds.
        until: Option<u64>,
        /// The replica takes over at that time although it lacks something.
        forces: bool,
    },
    /// A replica was told, or is about to be, to take over.
    Handing {
        /// The replica.
        to: Address,
        /// The replica was told so, and its reply is not known: it may be a primary.
        may_lead: bool,
    },
}

impl Failover {
    /// Whether a handover runs.
    pub fn runs(&self) -> bool {
        *self != Failover::None
    }

    /// The state, under the name that `INFO` has for it.
    pub fn name(&self) -> &'static str {
        match self {
            Failover::None => "no-failover",
            Failover::Waiting { .. } => "waiting-for-sync",
            Failover::Handing { .. } => "failover-in-progress",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_synchronisations_in_a_row_wait_twice_as_long_each_time() {
        let mut syncs = FullSyncs::default();
        assert!(syncs.may_ask(0));
        let mut now = 1000;
        let mut waits = Vec::new();
        for _ in 0..9 {
            syncs.begin();
            syncs.link_up(now);
            now += 10;
            let told = syncs.end(now);
            let wait = told.map_or(0, |(_, wait)| wait);
            assert!(syncs.may_ask(now + wait) && (wait == 0 || !syncs.may_ask(now + wait - 1)));
            // A clock that is set back does not prolong the wait.
            assert!(syncs.may_ask(now - 1));
            now += wait;
            waits.push(told);
        }
        let expected =
            [2, 4, 8, 16, 32, 60, 60, 60].into_iter().enumerate().map(|(at, s)| Some((u32::try_from(at).unwrap() + 2, s * 1000)));
        assert_eq!(waits, [None].into_iter().chain(expected).collect::<Vec<_>>());
        // A link that goes on with the stream and soon ends changes nothing; one that lasts ends the row.
        syncs.link_up(now);
        assert_eq!(syncs.end(now + GOOD_MS - 1), Some((9, 60_000)));
        syncs.link_up(now);
        assert_eq!(syncs.end(now + GOOD_MS), None);
        syncs.begin();
        assert_eq!((syncs.end(now), syncs.may_ask(now)), (None, true));
        // Data that cannot be loaded count as well, without any link.
        syncs.begin();
        assert_eq!(syncs.end(now), Some((2, 2000)));
    }
}
