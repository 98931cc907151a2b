//! Replicas' connections: synchronisations, and the stream.
//!
//! A replica's connection has a position in the stream. While the connection has little unsent output, it gets the next bytes of the
//! stream, and only bytes that the engine's log has. So a slow replica costs disk, where the stream is stored, and no memory.
//!
//! A full synchronisation takes a snapshot of the data between two event-loop iterations. All replicas that wait get one of the same moment
//! and its offset, each read by a thread of its own (`transfer`), and then the stream from that offset on. Nothing is forked, and no file
//! is written.

mod preparation;
mod transfer;

use super::{Data, EventLoop};
use crate::command::configuration::Class;
use crate::command::{Replica, Server, Stage, Wish, behind_max};
use crate::feed::{Reader, Source};
use crate::keyspace::{Keyspace, StreamPosition};
use crate::log::Level;
use crate::persist::Contents;
use crate::rdb::Version;
use crate::replication::Failover;
use preparation::Preparation;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::thread::JoinHandle;
use transfer::{Chunk, Transfer};

/// Bytes of unsent output below which a replica's connection gets more.
const UNSENT: usize = 256 << 10;
/// Most times that a replica gets more in one iteration, if it takes everything: 8 MiB in all, about as much as an iteration commits.
const ROUNDS: usize = 32;
/// Nanoseconds of an iteration after which a replica gets no more: the stream may have to be read from the medium.
const SUPPLY_NS: u64 = 2_000_000;
/// Milliseconds between two checks of all replicas, and between two attempts to begin a stream.
const LOOK_MS: u64 = 1000;

/// Work for replicas beside their connections.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Full synchronisations that run, by session.
    transfers: BTreeMap<u64, Transfer>,
    /// Preparation of the engine for a stream, while it runs.
    preparation: Option<Preparation>,
    /// Threads of full synchronisations that were given up.
    leaving: Vec<JoinHandle<()>>,
    /// A full synchronisation waits until strings are written that were begun in parts.
    is_held_back: bool,
    /// Times of the next check, of the next `PING`, and before which no stream is begun, unix milliseconds.
    next_look: u64,
    next_ping: u64,
    not_before: u64,
    /// Since when this primary has had no replica, unix milliseconds.
    alone_since: Option<u64>,
}

/// Whether a time has come, or was set by a clock that has been set back by more than `interval` since.
fn has_come(at: u64, now: u64, interval: u64) -> bool {
    now >= at || at - now > interval
}

impl Links {
    /// Gives up the full synchronisation of a session, if it has one.
    pub fn end(&mut self, id: u64) {
        self.leaving.extend(self.transfers.remove(&id).map(Transfer::stop));
    }

    /// Gives up all full synchronisations, and waits for the end of all threads.
    pub fn stop(&mut self) {
        self.leaving.extend(std::mem::take(&mut self.transfers).into_values().map(Transfer::stop));
        if let Some(preparation) = self.preparation.take() {
            preparation.end();
        }
        for thread in self.leaving.drain(..) {
            // The thread has no result.
            let _ = thread.join();
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The offset from which a replica can go on that asks for a stream from byte `first` on, the first one being 1. `None`: it needs all data.
fn continuation(keyspace: &Keyspace, stream: &[u8], first: i64) -> Option<u64> {
    let position = keyspace.stream()?;
    let from = u64::try_from(first).ok()?.checked_sub(1)?;
    let is_ours = keyspace.same_until(stream).is_some_and(|end| from <= end);
    (is_ours && (keyspace.backlog_start()..=position.offset).contains(&from)).then_some(from)
}

impl EventLoop {
    /// Adds to the stream what replicas are to be told now. Comes before the iteration's commit.
    pub(super) fn note_for_replicas(&mut self, data: &mut Data, now: u64) {
        let server = &mut *data.server;
        let settings = &server.configuration.replication;
        let interval = settings.ping_seconds.saturating_mul(1000);
        server.replication.backlog_size = settings.backlog_size;
        if server.replicas.is_empty() {
            server.replicas.asks = false;
            self.links.next_ping = now.saturating_add(interval);
            return;
        }
        if has_come(self.links.next_ping, now, interval) {
            self.links.next_ping = now.saturating_add(interval);
            // As in Redis, nothing comes in the way of a handover with a time limit. One without a limit may outlast `repl-timeout`.
            if matches!(server.upstream.failover, Failover::None | Failover::Waiting { until: None, .. }) {
                server.feed.ping();
            }
        }
        // While writes are paused, nothing but `PING` is added.
        if server.replicas.asks && server.pause.is_over(now) {
            server.replicas.asks = false;
            server.feed.getack();
        }
    }

    /// Begins synchronisations and gives replicas the stream, which the engine has. Nothing of the iteration is left to be committed.
    pub(super) fn serve_replicas(&mut self, data: &mut Data, now: u64) {
        self.links.leaving.retain(|thread| !thread.is_finished());
        // Closes replicas whose stream has got another id in this iteration: they connect and ask again at once.
        self.end_killed(data);
        let ids: Vec<u64> = data.server.replicas.iter().map(|(id, _)| id).collect();
        ids.iter().for_each(|id| self.grant(data, *id, now));
        self.end_preparation(data, now);
        self.begin_full(data, now);
        ids.iter().for_each(|id| self.supply(data, *id, now));
        if has_come(self.links.next_look, now, LOOK_MS) {
            self.links.next_look = now + LOOK_MS;
            data.server.replicas.sample(now, offset(data.keyspace));
            ids.iter().for_each(|id| self.look_at_replica(data, *id, now));
            self.look_at_stream(data, now);
        }
        let (end, behind) = (offset(data.keyspace), data.server.replica_behind_max());
        data.server.replication.needed = data.server.replicas.oldest_needed(end, behind);
    }

    /// Ends all work for replicas.
    pub(super) fn stop_replicas(&mut self, data: &mut Data, now: u64) {
        self.serve_replicas(data, now);
        self.send(data);
        self.links.stop();
    }

    /// Looks at the request of a replica: it goes on with the stream, or waits for all data.
    fn grant(&mut self, data: &mut Data, id: u64, now: u64) {
        let Some(wish) = data.server.replicas.get_mut(id).and_then(|replica| replica.wish.take()) else { return };
        if data.server.configuration.replication.delays_packets
            && let Some(connection) = self.connections.get(id)
        {
            connection.stream.delay_packets();
        }
        let from = match &wish {
            Wish::Continue(stream, first) => continuation(data.keyspace, stream, *first),
            Wish::All => None,
        };
        let Some(from) = from else {
            let asked = matches!(&wish, Wish::Continue(stream, _) if stream.first() != Some(&b'?'));
            data.server.replicas.syncs[2] += u64::from(asked);
            data.server.replicas.syncs[0] += 1;
            return;
        };
        data.server.replicas.syncs[1] += 1;
        self.tell_stream_id(data);
        let Some(replica) = data.server.replicas.get_mut(id) else { return };
        replica.enter(Stage::Online, now);
        // The replica has all bytes before those that it asks for.
        (replica.sent, replica.acknowledged) = (from, Some(from));
        let stream = data.keyspace.stream().filter(|_| replica.takes_id).map(|position| format!(" {}", position.id));
        let reply = format!("+CONTINUE{}\r\n", stream.unwrap_or_default());
        self.put_for_replica(data, id, reply.as_bytes());
        tell(data.server, id, Level::Notice, "partial_sync", &[("from", &from)]);
    }

    /// Begins the full synchronisations of all replicas that wait, if it is time.
    fn begin_full(&mut self, data: &mut Data, now: u64) {
        let waiting = |replica: &Replica| replica.stage == Stage::Waiting && replica.wish.is_none();
        let all: Vec<(u64, Replica)> =
            data.server.replicas.iter().filter(|(_, replica)| waiting(replica)).map(|(id, replica)| (id, replica.clone())).collect();
        let Some(since) = all.iter().map(|(_, replica)| replica.since).min() else {
            if std::mem::take(&mut self.links.is_held_back) {
                data.server.feed.stop_waiting(Reader::Replica);
            }
            return;
        };
        let settings = &data.server.configuration.replication;
        let delay = settings.sync_delay_seconds.saturating_mul(1000);
        let are_enough = settings.sync_replicas > 0 && all.len() >= settings.sync_replicas;
        if now.saturating_sub(since) < delay && !are_enough {
            return;
        }
        // Clients that want a file and no stream leave no stream behind.
        let wants_stream = all.iter().any(|(_, replica)| !replica.takes_no_stream);
        if wants_stream && data.server.is_replica() && data.keyspace.stream().is_none() {
            return self.close_waiting(data, &all);
        }
        if wants_stream && !self.has_stream(data, now) {
            return;
        }
        if data.keyspace.stream().is_some() {
            self.links.is_held_back = !data.server.feed.may_begin(Reader::Replica);
            if self.links.is_held_back {
                return;
            }
            data.server.feed.begin_reader();
            self.tell_stream_id(data);
        }
        let position = data.keyspace.stream().copied();
        all.iter().for_each(|(id, replica)| self.begin_transfer(data, (*id, replica), position, now));
    }

    /// Notes that a replica is about to hear of the stream's id, so that a restart knows it.
    fn tell_stream_id(&mut self, data: &mut Data) {
        if data.keyspace.tell_stream_id() {
            self.commit_all(data);
        }
    }

    /// Whether there is a stream; if there is none, one is begun, once the engine is prepared for it.
    fn has_stream(&mut self, data: &mut Data, now: u64) -> bool {
        if data.keyspace.stream().is_some() {
            return true;
        }
        if self.links.preparation.is_some() || !has_come(self.links.not_before, now, LOOK_MS) {
            return false;
        }
        let begun = if data.keyspace.has_stream_families() {
            data.server.replication.begin(data.keyspace, &mut data.server.feed).map_err(|error| error.to_string())
        } else {
            let preparation = Preparation::start(data.keyspace.stream_families_maker(), self.stopper.waker());
            preparation.map(|preparation| self.links.preparation = Some(preparation)).map_err(|error| error.to_string())
        };
        if let Err(why) = begun {
            data.keyspace.discard();
            self.delay_stream(data, &why, now);
        }
        data.keyspace.stream().is_some()
    }

    /// Takes the result of the preparation for a stream, whether a replica waits for it still or not.
    fn end_preparation(&mut self, data: &mut Data, now: u64) {
        let Some(result) = self.links.preparation.as_ref().and_then(Preparation::result) else { return };
        if let Some(preparation) = self.links.preparation.take() {
            preparation.end();
        }
        if let Err(why) = result {
            self.delay_stream(data, &why, now);
        }
    }

    /// A stream could not be begun, for this reason: it is tried again later.
    fn delay_stream(&mut self, data: &mut Data, why: &str, now: u64) {
        self.links.not_before = now + LOOK_MS;
        data.server.event(Level::Warning, "stream_not_begun", &[("why", &why)]);
    }

    /// Closes the replicas that wait for a stream of this server, which has become a replica meanwhile: its stream is its primary's.
    fn close_waiting(&mut self, data: &mut Data, all: &[(u64, Replica)]) {
        for (id, _) in all.iter().filter(|(_, replica)| !replica.takes_no_stream) {
            self.close_replica(data, *id, "replica_closed", &[("why", &"this server has become a replica")]);
        }
    }

    /// Begins to send all data to a replica, as of now. `position`: that of the data in the stream, if there is one.
    fn begin_transfer(&mut self, data: &mut Data, (id, replica): (u64, &Replica), position: Option<StreamPosition>, now: u64) {
        let delay_us = u64::try_from(data.server.configuration.replication.key_delay).unwrap_or(0);
        let version = if replica.is_valkey_9 { Version::Eighty } else { Version::Ten };
        let contents = Contents { version, selection: replica.selection, stream: position, delay_us, ..Contents::default() };
        let mark = replica.finds_end.then(|| data.keyspace.new_stream_id());
        let image = data.keyspace.image().with_ended();
        match Transfer::start(image, contents, mark, self.stopper.waker()) {
            Ok(transfer) => self.links.transfers.insert(id, transfer),
            Err(error) => return self.close_replica(data, id, "full_sync_failed", &[("why", &error)]),
        };
        let (stream, at) = match position {
            Some(position) => (position.id.as_str().to_owned(), position.offset),
            // Without a stream, the client gets a new id, under which no stream can be continued.
            None => (data.keyspace.new_stream_id().as_str().to_owned(), 0),
        };
        if let Some(replica) = data.server.replicas.get_mut(id) {
            replica.enter(Stage::Loading, now);
            replica.sent = at;
        }
        if !replica.is_old {
            self.put_for_replica(data, id, format!("+FULLRESYNC {stream} {at}\r\n").as_bytes());
        }
        tell(data.server, id, Level::Notice, "full_sync_begun", &[("offset", &at)]);
    }

    /// Puts bytes into the output of a replica.
    fn put_for_replica(&mut self, data: &mut Data, id: u64, bytes: &[u8]) {
        self.touch(id);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.supply(|out| out.extend_from_slice(bytes));
            data.server.statistics.bytes_to_replicas += bytes.len() as u64;
        }
    }

    /// Fills the output of a replica with data or with the stream, and sends it, as long as the replica takes it.
    fn supply(&mut self, data: &mut Data, id: u64, now: u64) {
        let until = data.server.monotonic_ns().saturating_add(SUPPLY_NS);
        for round in 0..ROUNDS {
            let Some(connection) = self.connections.get_mut(id).filter(|connection| !connection.is_dead && !connection.is_ending) else {
                return;
            };
            // There may be more for it. If the replica takes nothing now, the kernel tells when it does.
            connection.has_more = true;
            let is_late = round > 0 && data.server.monotonic_ns() >= until;
            if is_late || connection.unsent() >= UNSENT && connection.is_blocked() {
                return;
            }
            if connection.unsent() < UNSENT && !self.fill(data, id, now) {
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.has_more = false;
                }
                return;
            }
            if let Some(connection) = self.connections.get_mut(id) {
                connection.write(data.server, now);
            }
        }
    }

    /// Adds the next bytes to the output of a replica; false: there are none now.
    fn fill(&mut self, data: &mut Data, id: u64, now: u64) -> bool {
        let Some(replica) = data.server.replicas.get(id) else { return false };
        let (stage, from, end) = (replica.stage, replica.sent, offset(data.keyspace));
        match stage {
            Stage::Loading => match self.links.transfers.get_mut(&id).and_then(Transfer::next) {
                None => return false,
                Some(Chunk::Bytes(bytes)) => self.put_for_replica(data, id, &bytes),
                Some(Chunk::End(bytes)) => {
                    // An acknowledgement may come as soon as the last bytes are sent.
                    self.put_for_replica(data, id, &bytes);
                    self.end_transfer(data, id, now);
                }
                Some(Chunk::Failed(why)) => self.close_replica(data, id, "full_sync_failed", &[("why", &why)]),
            },
            Stage::Online if from < end => {
                self.touch(id);
                let Some(connection) = self.connections.get_mut(id) else { return false };
                let (keyspace, replication) = (&*data.keyspace, &data.server.replication);
                let (read, bytes) = connection.supply(|out| {
                    let before = out.len();
                    let read = replication.read(from, UNSENT, out, keyspace);
                    (read, (out.len() - before) as u64)
                });
                data.server.statistics.bytes_to_replicas += bytes;
                if let Some(replica) = data.server.replicas.get_mut(id) {
                    replica.sent += bytes;
                }
                match read {
                    Ok(()) if bytes > 0 => {}
                    // The bytes that the replica needs are no longer stored.
                    _ if from < data.keyspace.backlog_start() && self.close_if_behind(data, id, end.saturating_sub(from)) => {}
                    Ok(()) => self.close_replica(data, id, "replica_closed", &[("why", &"the stream ends too early")]),
                    Err(error) => self.close_replica(data, id, "replica_closed", &[("why", &error)]),
                }
            }
            Stage::Greeting | Stage::Waiting | Stage::Loaded | Stage::Online => return false,
        }
        true
    }

    /// A replica was given all data: the stream is next, or the end.
    fn end_transfer(&mut self, data: &mut Data, id: u64, now: u64) {
        self.links.end(id);
        self.touch(id);
        let Some(replica) = data.server.replicas.get_mut(id) else { return };
        let seconds = now.saturating_sub(replica.since) as f64 / 1000.0;
        let (takes_no_stream, finds_end) = (replica.takes_no_stream, replica.finds_end);
        replica.enter(if finds_end { Stage::Loaded } else { Stage::Online }, now);
        if takes_no_stream && let Some(connection) = self.connections.get_mut(id) {
            connection.is_ending = true;
        }
        tell(data.server, id, Level::Notice, "full_sync_sent", &[("seconds", &seconds)]);
    }

    /// Closes a replica's connection, for a reason that the log is told.
    fn close_replica(&mut self, data: &mut Data, id: u64, event: &str, values: &[(&str, &dyn Display)]) {
        self.links.end(id);
        self.touch(id);
        if let Some(connection) = self.connections.get_mut(id).filter(|connection| !connection.is_dead) {
            connection.is_dead = true;
            tell(data.server, id, Level::Warning, event, values);
        }
    }

    /// Keeps a waiting replica's link alive, and closes a replica that is silent, stuck or too far behind; once a second.
    fn look_at_replica(&mut self, data: &mut Data, id: u64, now: u64) {
        let (Some(replica), Some(connection)) = (data.server.replicas.get(id), self.connections.get(id)) else { return };
        let (stage, silence) = (replica.stage, replica.silence(now));
        let timeout = data.server.configuration.replication.timeout_seconds;
        let behind = offset(data.keyspace).saturating_sub(replica.sent);
        let is_idle = now.saturating_sub(connection.active) / 1000 > timeout && connection.unsent() > 0;
        let is_silent = silence > timeout && !replica.is_old;
        let is_read = self.links.transfers.get(&id).is_none_or(Transfer::has_begun);
        let has_stream = stage > Stage::Waiting && !replica.takes_no_stream;
        match stage {
            _ if has_stream && self.close_if_behind(data, id, behind) => {}
            // A line break means nothing before the data, and tells that the link is alive.
            Stage::Waiting => self.put_for_replica(data, id, b"\n"),
            Stage::Loading if !is_read => self.put_for_replica(data, id, b"\n"),
            Stage::Loading if is_idle => self.close_replica(data, id, "replica_stuck", &[("seconds", &timeout)]),
            Stage::Loaded | Stage::Online if is_silent => self.close_replica(data, id, "replica_silent", &[("seconds", &silence)]),
            Stage::Online => self.look_at_soft_limit(data, id, behind, now),
            Stage::Greeting | Stage::Loading | Stage::Loaded => {}
        }
    }

    /// Closes a replica that is so many bytes behind, if that is more than the hard limit.
    fn close_if_behind(&mut self, data: &mut Data, id: u64, behind: u64) -> bool {
        let Some(stage) = data.server.replicas.get(id).map(|replica| replica.stage) else { return false };
        let most = behind_max(stage, data.server.replica_behind_max());
        let is_behind = most > 0 && behind > most;
        if is_behind {
            data.server.statistics.output_limited += 1;
            self.close_replica(data, id, "replica_behind", &[("bytes", &behind), ("limit", &most)]);
        }
        is_behind
    }

    /// Closes a replica that has been further behind than the soft limit for too long.
    fn look_at_soft_limit(&mut self, data: &mut Data, id: u64, behind: u64, now: u64) {
        let limit = data.server.configuration.output_limits.of(Class::Replica);
        let soft = limit.soft.max(data.server.configuration.replication.backlog_size);
        let Some(replica) = data.server.replicas.get_mut(id) else { return };
        let since = (limit.soft > 0 && behind > soft).then(|| replica.behind_since.unwrap_or(now));
        replica.behind_since = since;
        if since.is_some_and(|since| now.saturating_sub(since) / 1000 > limit.seconds) {
            data.server.statistics.output_limited += 1;
            self.close_replica(data, id, "replica_behind", &[("bytes", &behind), ("limit", &soft)]);
        }
    }

    /// Ends the stream if this primary has had no replica for long (`repl-backlog-ttl`). The time of a promoted replica begins at its
    /// promotion: the other replicas of its former primary come a moment later, and go on with the stream.
    fn look_at_stream(&mut self, data: &mut Data, now: u64) {
        if !data.server.replicas.is_empty() || data.server.feed.source() != Source::Effects {
            self.links.alone_since = None;
            return;
        }
        let since = *self.links.alone_since.get_or_insert(now);
        let ttl = data.server.configuration.replication.backlog_seconds;
        let is_over = ttl > 0 && now.saturating_sub(since) / 1000 >= ttl;
        if is_over && data.keyspace.stream().is_some() {
            self.links.alone_since = None;
            data.keyspace.end_stream();
            self.commit_all(data);
            if data.keyspace.stream().is_none() {
                data.server.feed.set_source(Source::None, data.keyspace);
                data.server.event(Level::Notice, "stream_ended", &[("seconds_without_replicas", &ttl)]);
            }
        }
    }
}

/// Offset of the stream; 0 without a stream.
fn offset(keyspace: &Keyspace) -> u64 {
    keyspace.stream().map_or(0, |position| position.offset)
}

/// Writes an event about a replica to the log.
fn tell(server: &Server, id: u64, level: Level, event: &str, values: &[(&str, &dyn Display)]) {
    let name = server.replica_name(id);
    let own: [(&str, &dyn Display); 2] = [("id", &id), ("replica", &name)];
    server.event(level, event, &[&own[..], values].concat());
}
