//! One client: the requests that it has sent and that have no reply yet, and the output to be sent to it.
//!
//! While more than [`OUTPUT_PAUSE`] bytes wait to be sent to a client, its requests wait and nothing is read from it. Some clients write a
//! whole pipeline before they read the first reply: the requests of a client that takes nothing for some tenths of a second and sends more
//! run on until [`UNREAD_MOST`] bytes wait ([`Connection::run_on`]). So a client can occupy [`UNREAD_MOST`] and one reply. A long string in
//! a reply is read from the keyspace as it is sent (`later`). A long value in a request goes to the keyspace as it arrives, unless its
//! command needs it whole.
//!
//! The output consists, from its start, of bytes that are sent, bytes that may be sent, replies that wait for a sync, and replies of this
//! turn (event-loop iteration).
//!
//! A replica gets no replies: its output is data and replication stream, which `replicas` puts there.

mod input;
mod primary;
#[cfg(test)]
mod tests;

use super::later::{Failed, LaterStrings};
use super::stream::Stream;
use crate::command::{
    Buffers, Ended, Fsync, Intent, Late, Post, Reason, Server, Session, end_steps, execute_in, give_up, request_name, resume, work,
};
use crate::keyspace::{Keyspace, LONG, LONGEST_STRING, Upload};
use crate::log::Level;
use crate::resp::{Limits, Parser, REPLIES_MAX, Writer};
use mio::{Interest, Registry, Token};
use std::collections::VecDeque;
use std::fmt::Display;
use std::io::ErrorKind;

/// Bytes of writes at which a turn is committed before it ends.
pub(super) const TURN_BYTES: usize = 8 << 20;
/// Bytes to be sent at which a client's further requests wait.
const OUTPUT_PAUSE: usize = 64 << 10;
/// Bytes to be sent at which requests wait of a client that sends more requests before it takes replies: at first, and at most.
const UNREAD_FIRST: usize = 4 << 20;
const UNREAD_MOST: usize = 256 << 20;
/// Bytes to be sent at which a client is closed, whatever the configuration says.
const OUTPUT_MAX: usize = 1 << 30;
/// Bytes to be sent at which a client is closed before authentication.
const STRICT_OUTPUT_MAX: usize = 64 << 10;
/// Largest number of bytes that are sent to a client in a turn: a client that takes everything must not keep the others waiting.
const WRITE_SHARE: usize = 1 << 20;
/// Memory of an empty buffer that is kept while its client is busy: enough for a read and the incomplete request before it. With less, each
/// turn of a client that sends much would give pages back and get new ones.
const KEPT: usize = 256 << 10;
/// Arguments before a long value, at most.
const VALUE_MOST: usize = 4;
/// Requests with more arguments than this allocate memory for the list of their arguments.
const FEW: usize = 16;

/// Bytes that are received and kept of a client whose next request cannot run yet.
const INPUT_WAITING: usize = 1 << 20;
/// Bytes of output, sent or not, above which the sent bytes are dropped before more is written.
const SENT_KEPT: usize = 64 << 20;
/// A truncated reply is never sent: with this much in the output, more than [`OUTPUT_MAX`] of it is unsent, and the client is closed.
const _: () = assert!(REPLIES_MAX > OUTPUT_MAX + SENT_KEPT);

/// Replies that may not leave before a sync, up to the next such group or the replies of the turn.
struct Awaiting {
    /// Offset in the output at which the replies begin.
    start: usize,
    /// Number of replies.
    replies: usize,
    /// The commit that has to be synced before the replies may leave.
    needs: u64,
}

/// A connected client.
pub(super) struct Connection {
    pub stream: Stream,
    pub session: Session,
    parser: Parser,
    input: Vec<u8>,
    /// Bytes of `input` that are handled.
    taken: usize,
    /// Bytes of `input` whose keys were prefetched.
    expected: usize,
    /// The value of the incoming request, if it goes to the keyspace as it arrives.
    upload: Option<Upload>,
    output: Vec<u8>,
    /// Long strings inserted into `output`.
    later: LaterStrings,
    /// Bytes of `output` that are sent.
    sent: usize,
    /// Bytes to be sent at which further requests wait.
    pause_at: usize,
    /// The client took something since it was last looked at.
    has_taken: bool,
    /// Start of this turn's replies in `output`, and their number.
    turn_start: usize,
    turn_replies: usize,
    /// The commit that has to be synced before further replies may leave. Replies keep their order, so the number falls only if a commit or
    /// a sync fails.
    pub needs: u64,
    /// Replies that wait for a sync, in order.
    awaiting: VecDeque<Awaiting>,
    /// The network knows that replies wait for a sync.
    pub is_awaiting: bool,
    /// There may be more to read than was read.
    pub is_readable: bool,
    /// Requests that are complete were left for later.
    has_waiting: bool,
    /// The client's share of this turn was sent, and more is left.
    takes_more: bool,
    /// The client takes nothing more for now, and more is left.
    is_blocked: bool,
    /// There is more for this replica than its output has.
    pub has_more: bool,
    /// The kernel is asked to report when the client takes more.
    is_told: bool,
    /// The next request waits until a pause is over.
    pub is_postponed: bool,
    /// The client is among those that are served next.
    pub is_active: bool,
    /// The client takes part in this turn.
    pub is_touched: bool,
    /// Whether there may be replies or messages since the last commit.
    pub is_unsettled: bool,
    /// Whether the replies of the iteration are held until the late script ends.
    pub is_held: bool,
    /// The client will send nothing more.
    pub is_shut: bool,
    /// Everything that the client has sent was read, and complete requests are left.
    is_at_end: bool,
    /// Since when more is to be sent than the client's soft limit, unix milliseconds.
    behind_since: Option<u64>,
    /// Memory that the connection held when it was last measured, bytes.
    pub held: usize,
    /// No request is handled any more; closed when all output is sent.
    pub is_ending: bool,
    /// The connection is dead: to be removed.
    pub is_dead: bool,
    /// Requests of the primary's open transaction.
    transaction: Vec<u8>,
    /// When the client last sent or took something, unix milliseconds, as in Redis.
    pub active: u64,
    /// When the client was last seen to be authenticated, or else when it connected, unix milliseconds.
    pub known: u64,
}

/// Outcome of handling a client's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handled {
    /// All requests that can be handled now are handled.
    All,
    /// Before the next request, work for other clients has to be done, or the turn is so long that it has to be committed.
    Others,
    /// The iteration has to be committed before the request is run: it was not run yet.
    Commit,
    /// The engine failed; the turn has to be dropped.
    EngineFailed,
}

impl Connection {
    pub fn new(stream: Stream, mut session: Session, now: u64) -> Self {
        session.can_step = true;
        Connection {
            stream,
            session,
            parser: Parser::default(),
            input: Vec::new(),
            taken: 0,
            expected: 0,
            upload: None,
            output: Vec::new(),
            later: LaterStrings::default(),
            sent: 0,
            pause_at: OUTPUT_PAUSE,
            has_taken: false,
            turn_start: 0,
            turn_replies: 0,
            needs: 0,
            awaiting: VecDeque::new(),
            is_awaiting: false,
            is_readable: true,
            has_waiting: false,
            takes_more: false,
            is_blocked: false,
            has_more: false,
            is_told: false,
            is_postponed: false,
            is_active: false,
            is_touched: false,
            is_unsettled: false,
            is_held: false,
            is_shut: false,
            is_at_end: false,
            behind_since: None,
            held: 0,
            is_ending: false,
            is_dead: false,
            transaction: Vec::new(),
            active: now,
            known: now,
        }
    }

    /// Whether the TLS handshake is over and the client is authenticated.
    pub fn is_known(&self) -> bool {
        self.session.is_authenticated && !self.stream.is_handshaking()
    }

    pub fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Whether requests wait until more output is sent. Those of a replica are acknowledgements, which never wait.
    pub fn is_paused(&self) -> bool {
        (self.unsent() > self.pause_at || !self.later.is_empty()) && !self.session.is_replica
    }

    /// Lets requests of a client run on that has taken nothing since the last call and sends more: it may write all requests before it
    /// reads the first reply, as pipelines of many libraries do, and would wait for ever. True: there is work.
    pub fn run_on(&mut self) -> bool {
        let takes_nothing = self.is_blocked && !std::mem::take(&mut self.has_taken);
        let has_more = self.is_readable || self.has_waiting;
        let goes_on = takes_nothing && has_more && self.is_paused() && self.later.is_empty() && self.pause_at < UNREAD_MOST;
        if goes_on {
            self.pause_at = (2 * self.pause_at).clamp(UNREAD_FIRST, UNREAD_MOST);
        }
        goes_on
    }

    /// Whether the client takes nothing more for now.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Lets `fill` append bytes for a replica to the output, which may leave at once.
    pub fn supply<T>(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let result = fill(&mut self.output);
        self.turn_start = self.output.len();
        result
    }

    /// Whether the next request cannot run yet.
    fn is_held_up(&self) -> bool {
        self.session.is_waiting() || self.is_postponed
    }

    /// Whether nothing more is read for now.
    fn is_full(&self) -> bool {
        let waits = self.is_held_up() || self.session.is_in_steps() || self.session.is_primary && self.has_waiting;
        self.is_paused() || waits && self.unhandled().len() >= INPUT_WAITING
    }

    /// Whether a request of the client waits or is worked on, so that the client is silent for a reason.
    pub fn is_waiting(&self) -> bool {
        self.is_held_up() || self.session.is_in_steps()
    }

    /// Whether there is something to be read now.
    pub fn can_read(&self) -> bool {
        self.is_readable && !self.is_full() && !self.is_ending && !self.is_dead
    }

    /// Whether there is something to be read, handled or sent now.
    pub fn has_work(&self) -> bool {
        let can_handle =
            self.has_waiting && (!self.is_paused() || self.session.is_in_steps()) && !self.is_held_up() && !self.is_ending && !self.is_dead;
        can_handle || self.takes_more || self.has_more && !self.is_blocked || self.can_read()
    }

    /// Marks a client as dead that has disconnected while its request waits and is not read from, so that no read tells of the end. A
    /// `BLPOP` of a dead client must not remove an item.
    pub fn check_shut(&mut self) {
        self.is_dead |= self.is_shut && (self.session.is_waiting() || self.session.is_in_steps()) && self.is_full();
    }

    /// Leaves the requests that have arrived for the next turn.
    pub fn leave(&mut self) {
        self.has_waiting = true;
    }

    /// Handles the complete requests, and begins none once the server's clock has reached `until`, nanoseconds.
    pub fn handle(&mut self, late: &mut dyn Late, keyspace: &mut Keyspace, server: &mut Server, until: u64) -> Handled {
        self.has_waiting = false;
        server.start_stopwatch();
        while !self.is_ending && !self.is_dead && !self.is_held_up() {
            if server.scripts.is_running() && (self.has_begun() || self.session.is_primary) {
                // While a script runs, half-done requests and those of the primary wait: their writes are not part of the script.
                self.has_waiting = true;
                break;
            }
            let is_over = server.last_ended() >= until;
            // Work in steps also goes on for a client that does not read: others may wait for its end.
            if self.session.is_in_steps() && !is_over {
                match self.work(keyspace, server, until) {
                    Some(Handled::All) => break,
                    Some(handled) => return handled,
                    None => continue,
                }
            }
            if is_over || self.is_paused() {
                self.has_waiting = true;
                break;
            }
            if self.taken >= self.expected {
                self.expect(keyspace);
            }
            self.parser.set_limits(self.limits());
            let waiting = self.input.get(self.taken..).unwrap_or_default();
            match self.parser.feed(waiting) {
                Ok(None) if self.takes_upload(keyspace, server) => {
                    if keyspace.uncommitted() > TURN_BYTES {
                        return Handled::Others;
                    }
                }
                Ok(None) => break,
                Ok(Some(_)) if self.session.is_primary && self.is_inline() => self.give_up_primary(None, keyspace, server),
                Ok(Some(_)) if self.has_to_wait(keyspace, server) => {
                    self.is_postponed = true;
                    self.has_waiting = true;
                }
                Ok(Some(used)) => {
                    let ended = self.run(late, keyspace, server);
                    if ended == Ended::CommitsFirst {
                        self.has_waiting = true;
                        return Handled::Commit;
                    }
                    if self.session.is_primary {
                        self.note_applied(used, ended, server, keyspace.now());
                    }
                    self.parser.next_request();
                    self.taken += used;
                    self.is_ending |= ended == Ended::Closes;
                    // More requests may be complete.
                    self.has_waiting = true;
                    if ended == Ended::EngineFailed {
                        return Handled::EngineFailed;
                    }
                    if server.has_orders() || keyspace.has_ready() || keyspace.uncommitted() > TURN_BYTES {
                        return Handled::Others;
                    }
                    self.has_waiting = false;
                }
                Err(error) if self.session.is_primary => self.give_up_primary(error.message(), keyspace, server),
                Err(error) => self.end_for(error.message()),
            }
        }
        self.check_limits(keyspace, server);
        Handled::All
    }

    /// Limits of the next request: narrow before the client has authenticated, wide for a primary.
    fn limits(&self) -> Limits {
        let limits = Limits { strict: !self.session.is_authenticated, ..Limits::default() };
        if self.session.is_primary { Limits { count_max: primary::COUNT_MAX, ..limits } } else { limits }
    }

    /// Ends the connection of a client that sends no requests, and tells it why.
    fn end_for(&mut self, why: Option<Vec<u8>>) {
        if let Some(text) = why {
            Writer::new(&mut self.output, self.session.protocol).error(&[b"ERR ", &text[..]].concat());
        }
        self.is_ending = true;
    }

    /// Gives the keyspace the bytes of a long value that have arrived, if the incoming request has one; false: there are none.
    fn takes_upload(&mut self, keyspace: &mut Keyspace, server: &Server) -> bool {
        if server.scripts.is_running() || self.session.is_primary {
            return false;
        }
        let waiting = self.input.get(self.taken..).unwrap_or_default();
        if self.upload.is_none()
            && let Some((number, length)) = self.parser.incoming()
            && (LONG..=LONGEST_STRING as usize).contains(&length)
        {
            let mut before: [&[u8]; VALUE_MOST] = [&[]; VALUE_MOST];
            before.iter_mut().zip(self.parser.arguments(waiting)).for_each(|(slot, argument)| *slot = argument);
            // If no id is left, the whole request is read, and the command replies with the error.
            if before.get(..number).is_some_and(|before| self.session.takes_value(server, before, length))
                && let Ok(upload) = keyspace.begin_upload()
            {
                self.parser.divert();
                self.upload = Some(upload);
            }
        }
        let Some(upload) = &mut self.upload else { return false };
        if server.is_short_of_room || server.is_behind_evicting {
            (self.is_postponed, self.has_waiting) = (true, true);
            return false;
        }
        let Some(come) = self.parser.diverted(waiting.len()).filter(|come| !come.is_empty()) else { return false };
        keyspace.upload(upload, waiting.get(come.clone()).unwrap_or_default());
        self.input.drain(self.taken + come.start..self.taken + come.end);
        true
    }

    /// Whether a request is half done: worked on in steps, or its value in the keyspace.
    pub fn has_begun(&self) -> bool {
        self.session.is_in_steps() || self.upload.is_some()
    }

    /// Does a share of the work on a request that is done in steps; `None`: the next request may run.
    fn work(&mut self, keyspace: &mut Keyspace, server: &mut Server, until: u64) -> Option<Handled> {
        self.has_waiting = true;
        if self.session.stepped().is_some_and(|name| self.is_held_back(keyspace, server, &[name])) {
            self.is_postponed = true;
            return Some(Handled::All);
        }
        self.drop_sent_of_many();
        let before = self.output.len();
        keyspace.note_unsynced(server.configuration.fsync == Fsync::Always);
        keyspace.take_needs();
        let ended = work(keyspace, server, &mut self.session, until, &mut self.output);
        self.later.add(self.session.later.drain(..), self.output.len());
        self.needs = self.needs.max(keyspace.take_needs());
        self.turn_replies += usize::from(self.output.len() > before);
        self.is_ending |= ended == Ended::Closes;
        if ended == Ended::EngineFailed {
            return Some(Handled::EngineFailed);
        }
        self.check_output(server, keyspace.now());
        if server.has_orders() || keyspace.has_ready() || keyspace.uncommitted() > TURN_BYTES {
            return Some(Handled::Others);
        }
        // The next steps are for the next turn.
        self.session.is_in_steps().then_some(Handled::All)
    }

    /// Drops the unfinished work of a client that disconnects.
    pub fn abandon(&mut self, keyspace: &mut Keyspace, server: &mut Server) {
        if let Some(upload) = self.upload.take() {
            keyspace.drop_upload(&upload);
        }
        end_steps(keyspace, server, &mut self.session);
    }

    /// Whether the complete request has to wait until a pause is over, until the engine can take more, or until enough keys are evicted.
    fn has_to_wait(&self, keyspace: &Keyspace, server: &Server) -> bool {
        let nobody_waits = !server.is_short_of_room && !server.is_behind_evicting && server.pause.is_over(keyspace.now());
        if nobody_waits || server.scripts.is_busy() || self.session.is_replica {
            return false;
        }
        let waiting = self.unhandled();
        let arguments: Vec<&[u8]> = self.parser.arguments(waiting).collect();
        // A malformed request gets its error at once.
        self.session.is_well_formed(server, &arguments) && self.is_held_back(keyspace, server, &arguments)
    }

    /// Whether a pause, an engine that is short of free space, or too slow an eviction holds back a request that begins with these
    /// arguments.
    fn is_held_back(&self, keyspace: &Keyspace, server: &Server, arguments: &[&[u8]]) -> bool {
        self.session.intent(server, arguments).is_some_and(|Intent { writes, adds }| {
            let waits_for_room = server.is_short_of_room && writes || server.is_behind_evicting && adds;
            let (pause, now) = (&server.pause, keyspace.now());
            waits_for_room || if self.session.is_primary { pause.holds_primary(writes, now) } else { pause.concerns(writes, now) }
        })
    }

    /// Retries the waiting request, because this key has changed, or a sync has ended.
    pub fn resume(&mut self, key: Option<&[u8]>, keyspace: &mut Keyspace, server: &mut Server) -> Handled {
        self.drop_sent_of_many();
        let before = self.output.len();
        let ended = resume(keyspace, server, &mut self.session, key, &mut self.output);
        self.needs = self.needs.max(keyspace.take_needs());
        self.goes_on(before, keyspace, server);
        self.is_ending |= ended == Ended::Closes;
        if ended == Ended::EngineFailed { Handled::EngineFailed } else { Handled::All }
    }

    /// Ends the wait of a request without success.
    pub fn give_up(&mut self, reason: Reason, keyspace: &mut Keyspace, server: &mut Server) {
        self.drop_sent_of_many();
        let before = self.output.len();
        give_up(keyspace, server, &mut self.session, reason, &mut self.output);
        self.needs = self.needs.max(keyspace.take_needs());
        self.is_ending |= self.session.closes;
        self.goes_on(before, keyspace, server);
    }

    /// Handles the requests behind one that waited, if it has got its reply.
    fn goes_on(&mut self, before: usize, keyspace: &Keyspace, server: &mut Server) {
        if !self.session.is_waiting() {
            self.has_waiting = true;
            self.turn_replies += usize::from(self.output.len() > before);
            self.check_output(server, keyspace.now());
        }
    }

    /// Sends a message, with the replies of the turn. The change that it reports is in the commit `needs`, or in none.
    pub fn post(&mut self, post: &Post, needs: u64, server: &mut Server, now: u64) {
        // A message among the stream's bytes would break it.
        self.is_dead |= self.session.is_replica;
        if !self.is_ending && !self.is_dead {
            self.needs = self.needs.max(needs);
            self.drop_sent_of_many();
            post.write(&self.session, &mut self.output);
            self.check_output(server, now);
        }
    }

    /// Closes a client with more unsent bytes than the limits of its class allow.
    pub fn check_output(&mut self, server: &mut Server, now: u64) {
        let unsent = self.unsent() as u64;
        if unsent == 0 || self.is_dead || self.session.is_replica {
            self.behind_since = None;
            return;
        }
        let (class, limit) = server.output_limit(self.session.id);
        let is_over = |most: u64| most > 0 && unsent >= most;
        let since = is_over(limit.soft).then(|| self.behind_since.unwrap_or(now));
        self.behind_since = since;
        let is_late = since.is_some_and(|since| now.saturating_sub(since) / 1000 > limit.seconds);
        if is_late || is_over(limit.hard) || unsent > OUTPUT_MAX as u64 {
            self.is_dead = true;
            server.statistics.output_limited += 1;
            let address = server.clients.get(&self.session.id).map_or("", |client| &client.address);
            let values: [(&str, &dyn Display); 4] =
                [("id", &self.session.id), ("address", &address), ("class", &class.name()), ("unsent", &unsent)];
            server.event(Level::Warning, "client_output_limit", &values);
        }
    }

    /// Whether more is to be sent than the soft limit.
    pub fn is_behind(&self) -> bool {
        self.behind_since.is_some()
    }

    /// Sizes of the connection's buffers.
    pub fn buffers(&self) -> Buffers {
        Buffers {
            input: self.unhandled().len(),
            input_memory: self.input.capacity(),
            output: self.unsent(),
            output_memory: self.output.capacity() + self.later.held() + self.stream.held(),
            queued: self.session.queued_bytes(),
        }
    }

    /// Runs the complete request.
    fn run(&mut self, late: &mut dyn Late, keyspace: &mut Keyspace, server: &mut Server) -> Ended {
        if self.parser.is_empty() {
            // A replica that loads says so with line breaks.
            if let Some(replica) = server.replicas.get_mut(self.session.id) {
                replica.heard = keyspace.now();
            }
            return Ended::Open;
        }
        self.drop_sent_of_many();
        let before = self.output.len();
        let waiting = self.input.get(self.taken..).unwrap_or_default();
        let mut few: [&[u8]; FEW] = [&[]; FEW];
        let many: Vec<&[u8]>;
        let count = self.parser.len();
        let arguments: &[&[u8]] = if count <= FEW {
            few.iter_mut().zip(self.parser.arguments(waiting)).for_each(|(slot, argument)| *slot = argument);
            &few[..count]
        } else {
            many = self.parser.arguments(waiting).collect();
            &many
        };
        if is_foreign(arguments) {
            return Ended::Closes;
        }
        keyspace.note_unsynced(server.configuration.fsync == Fsync::Always);
        // Drops what requests of other clients have left there.
        keyspace.take_needs();
        self.session.uploaded = self.upload.take();
        self.session.is_uploaded = self.session.uploaded.is_some();
        let was_replica = self.session.is_replica;
        let ended = execute_in(late, keyspace, server, &mut self.session, arguments, &mut self.output);
        if !self.session.is_in_steps() {
            end_steps(keyspace, server, &mut self.session);
        }
        self.later.add(self.session.later.drain(..), self.output.len());
        self.needs = self.needs.max(keyspace.take_needs());
        if was_replica && self.output.len() > before {
            self.output.truncate(before);
            self.is_dead = true;
            let command = match self.session.last_command {
                "" => "unknown".into(),
                command => request_name((command, self.session.last_subcommand)),
            };
            let values: [(&str, &dyn Display); 2] = [("id", &self.session.id), ("command", &command)];
            server.event(Level::Warning, "replica_wants_reply", &values);
        }
        self.turn_replies += usize::from(self.output.len() > before);
        ended
    }

    /// The turn's writes are in the engine: its replies may leave when the commit that they need is among the synced ones (`None`: at
    /// once).
    pub fn release_replies(&mut self, committed: u64, synced: Option<u64>) {
        // The commit in `needs` was not made if its writes were withdrawn.
        self.needs = self.needs.min(committed);
        let needs = if synced.is_some_and(|synced| self.needs > synced) { self.needs } else { 0 };
        self.end_turn(needs);
    }

    /// Closes the turn's replies, which need this commit to be synced.
    fn end_turn(&mut self, needs: u64) {
        let (start, replies) = (self.turn_start, std::mem::take(&mut self.turn_replies));
        self.turn_start = self.output.len();
        match self.awaiting.back_mut() {
            Some(last) if needs <= last.needs => last.replies += replies,
            _ if needs > 0 && start < self.turn_start => self.awaiting.push_back(Awaiting { start, replies, needs }),
            _ => {}
        }
    }

    /// Whether replies wait for a sync.
    pub fn waits_for_sync(&self) -> bool {
        !self.awaiting.is_empty()
    }

    /// Releases the replies that need commits up to this one, which are synced.
    pub fn release(&mut self, synced: u64) {
        while self.awaiting.front().is_some_and(|first| first.needs <= synced) {
            self.awaiting.pop_front();
        }
    }

    /// Replaces all replies that wait for a sync by an error, since a sync has failed, and with them replies that are held behind them.
    pub fn refuse_awaiting(&mut self, text: &[u8]) {
        if let Some(first) = self.awaiting.front() {
            self.turn_start = first.start;
            self.turn_replies += self.awaiting.iter().map(|awaiting| awaiting.replies).sum::<usize>();
            self.awaiting.clear();
            self.refuse(text);
        }
    }

    /// Offset in the output from which on replies may not leave yet.
    fn awaiting_from(&self) -> usize {
        self.awaiting.front().map_or(self.turn_start, |first| first.start)
    }

    /// Replaces the turn's replies by errors, since its writes are lost.
    pub fn refuse(&mut self, text: &[u8]) {
        // A link to a primary is closed: the next one begins at the offset that the engine has.
        self.is_dead |= self.session.is_primary;
        self.is_held = false;
        self.output.truncate(self.turn_start);
        self.later.truncate(self.turn_start);
        // The client is told nothing of the lost writes, so later replies need not wait for them.
        self.needs = 0;
        for _ in 0..self.turn_replies {
            Writer::new(&mut self.output, self.session.protocol).error(text);
        }
        self.end_turn(0);
    }

    /// Sends the output that may leave, as far as the client takes it, up to the client's share.
    pub fn write(&mut self, server: &mut Server, now: u64) {
        let mut share = WRITE_SHARE;
        self.takes_more = false;
        self.is_blocked = false;
        let until = self.awaiting_from();
        while self.sent < until && !self.is_dead {
            if share == 0 {
                self.takes_more = true;
                return self.compact();
            }
            match self.write_some(until, share) {
                Ok(0) => self.is_dead = true,
                Ok(bytes) => {
                    share = share.saturating_sub(bytes);
                    self.has_taken = true;
                    // A primary counts as alive only if it sends something, whatever is sent to it.
                    if !self.session.is_primary {
                        self.active = now;
                    }
                    server.statistics.writes += 1;
                    server.statistics.bytes_out += bytes as u64;
                }
                Err(Failed::Stream(error)) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    return self.compact();
                }
                Err(Failed::Stream(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(Failed::Stream(_)) => self.is_dead = true,
                Err(Failed::Keyspace(error)) => {
                    server.event(Level::Warning, "reply_cut", &[("id", &self.session.id), ("why", &error)]);
                    self.is_dead = true;
                }
            }
        }
        self.flush();
        if until < self.output.len() {
            return self.compact();
        }
        self.output.clear();
        self.output.shrink_to(KEPT);
        self.sent = 0;
        self.pause_at = OUTPUT_PAUSE;
        self.turn_start = 0;
        self.is_dead |= self.is_ending && !self.is_blocked;
    }

    /// Sends a part of the output or of a string inserted there, up to `until` in the output and at most `most` bytes.
    fn write_some(&mut self, until: usize, most: usize) -> Result<usize, Failed> {
        let place = self.later.next_place(until);
        if place == Some(self.sent) {
            return self.later.write(&mut self.stream, most);
        }
        let end = place.unwrap_or(until).min(self.sent + most);
        let bytes = self.stream.write(&self.output[self.sent..end]).map_err(Failed::Stream)?;
        self.sent += bytes;
        Ok(bytes)
    }

    /// Sends the bytes that wait inside the stream: the rest of earlier output, or of a handshake.
    fn flush(&mut self) {
        match self.stream.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_blocked = true,
            sent => self.is_dead |= sent.is_err(),
        }
    }

    /// Asks the kernel to tell when the client takes more, while it takes nothing. Not always: the kernel queues a client by its first
    /// event, so a client that also becomes writable would be served before one whose request came earlier.
    pub fn listen(&mut self, registry: &Registry, token: Token) {
        if self.is_blocked != self.is_told {
            self.is_told = self.is_blocked;
            let interest = if self.is_told { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            self.is_dead |= registry.reregister(self.stream.source(), token, interest).is_err();
        }
    }

    /// Frees memory that an idle client does not need; false: it has none.
    pub fn rest(&mut self) -> bool {
        let mut gives = false;
        for buffer in [&mut self.input, &mut self.output] {
            if buffer.is_empty() && buffer.capacity() > 0 {
                *buffer = Vec::new();
                gives = true;
            }
        }
        gives
    }

    /// Frees the memory of sent output, once that is the larger part.
    fn compact(&mut self) {
        if self.sent > self.output.len() / 2 {
            self.drop_sent();
        }
    }

    /// Frees the memory of sent output before more is written behind much output: see [`SENT_KEPT`].
    fn drop_sent_of_many(&mut self) {
        if self.sent > 0 && self.output.len() > SENT_KEPT {
            self.drop_sent();
        }
    }

    fn drop_sent(&mut self) {
        self.output.drain(..self.sent);
        self.turn_start -= self.sent;
        self.later.shift(self.sent);
        self.awaiting.iter_mut().for_each(|awaiting| awaiting.start -= self.sent);
        self.sent = 0;
    }
}

/// Whether the request is `POST` or `Host:`, which only other protocols send.
fn is_foreign(arguments: &[&[u8]]) -> bool {
    arguments.first().is_some_and(|name| name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:"))
}
