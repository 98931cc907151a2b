//! The event loop's side of a replica's link to its primary. The event loop begins links, lends a link a successor of the keyspace into
//! which it loads all data, puts a complete successor in the place of the keys, and serves the primary's connection, which carries the
//! stream. It also takes the steps of a handover (`FAILOVER`).
//!
//! This work is done between two event-loop iterations, when nothing is left to be committed. A link that fails or breaks is begun again,
//! once a second, or later after several full synchronisations in a row; the data stay as they are meanwhile.

use super::connection::Connection;
use super::stream::{Socket, Stream};
use super::{Data, EventLoop, token, unix_ms};
use crate::command::{Client, Server, Session};
use crate::keyspace::{DATABASES, Keyspace, StreamId, StreamPosition};
use crate::log::Level;
use crate::replication::{
    Address, Ending, Established, Failover, Failure, FullSyncs, Link, News, Plan, State, Target, Transport, has_passed, successor,
};
use mio::Interest;
use mio::net::TcpStream;
use rustls::Connection as TlsConnection;
use std::io;
use std::time::Duration;

/// Milliseconds between the beginnings of two attempts, and between two acknowledgements.
const RETRY_MS: u64 = 1000;
const ACKNOWLEDGE_MS: u64 = 1000;

/// The link of a replica to its primary.
#[derive(Debug, Default)]
pub(super) struct PrimaryLink {
    /// The link that is being made.
    link: Option<Link>,
    /// The primary sends all data, and no successor was lent yet.
    needs_successor: bool,
    /// The id of the stream that was asked for.
    asked: Option<StreamId>,
    /// A link that was given up while it had a successor.
    leaving: Option<Link>,
    /// Session of the primary's connection.
    session: Option<u64>,
    /// When the last attempt began, and when the last acknowledgement was sent; unix milliseconds.
    begun: Option<u64>,
    acknowledged: Option<u64>,
    /// Full synchronisations in a row.
    full_syncs: FullSyncs,
    /// A commit and the stream's offset at it, kept until the commit is synced; and the last offset that is known to be durable.
    mark: Option<(u64, u64)>,
    durable: Option<u64>,
}

impl EventLoop {
    /// Does all work of a replica that is due.
    pub(super) fn follow_primary(&mut self, data: &mut Data, now: u64) {
        let is_idle = self.upstream.leaving.is_none() && !data.server.upstream.is_changed && !data.server.upstream.failover.runs();
        if is_idle && !data.server.is_replica() {
            return;
        }
        self.hand_over(data, now);
        if std::mem::take(&mut data.server.upstream.is_changed) {
            self.drop_link(data);
            data.server.upstream.forget_nonsense();
            self.upstream.full_syncs = FullSyncs::default();
            if data.server.is_replica() {
                let server = &mut *data.server;
                server.replication.follow(data.keyspace, &mut server.feed);
            }
        }
        self.end_leaving(data);
        self.take_news(data, now);
        self.look_at_primary(data, now);
        self.begin_link(data, now);
    }

    /// Ends the link for the end of the server: what there is of a successor is removed.
    pub(super) fn end_primary(&mut self, data: &mut Data) {
        for link in [self.upstream.link.take(), self.upstream.leaving.take()].into_iter().flatten() {
            let is_lent = link.is_lent();
            let next = link.end();
            if is_lent {
                abandon(data, next);
            }
        }
    }

    /// Gives up the link, at whatever stage it is.
    fn drop_link(&mut self, data: &mut Data) {
        let own = &mut self.upstream;
        own.needs_successor = false;
        own.begun = None;
        if let Some(mut link) = own.link.take() {
            link.stop();
            if link.is_lent() {
                own.leaving = Some(link);
            }
        }
        if let Some(id) = own.session.take() {
            self.touch(id);
            if let Some(connection) = self.connections.get_mut(id) {
                connection.is_dead = true;
            }
        }
        data.server.upstream.state = State::Down;
    }

    /// Removes the successor of a link that was given up, once its thread has ended.
    fn end_leaving(&mut self, data: &mut Data) {
        while let Some(news) = self.upstream.leaving.as_mut().and_then(Link::news) {
            if let News::Ended(ending) = news {
                self.upstream.leaving = None;
                abandon(data, successor(ending));
            }
        }
    }

    /// Begins a link, if there is to be one and there is none.
    fn begin_link(&mut self, data: &mut Data, now: u64) {
        let Some(primary) = data.server.configuration.following.primary.clone() else { return };
        let own = &mut self.upstream;
        if own.link.is_some() || own.session.is_some() || !has_passed(own.begun, RETRY_MS, now) || !own.full_syncs.may_ask(now) {
            return;
        }
        own.begun = Some(now);
        let promotes = matches!(data.server.upstream.failover, Failover::Handing { .. });
        let plan = plan(data.server, data.keyspace, primary, promotes);
        own.asked = plan.wants.map(|(id, _)| id);
        let name = plan.primary.clone();
        match Link::begin(plan, self.stopper.waker()) {
            Ok(link) => {
                data.server.upstream.state = State::Making(link.progress().clone());
                own.link = Some(link);
                data.server.event(Level::Verbose, "connects_to_primary", &[("primary", &name)]);
            }
            Err(error) => data.server.event(Level::Warning, "primary_not_reached", &[("primary", &name), ("why", &error)]),
        }
    }

    fn take_news(&mut self, data: &mut Data, now: u64) {
        while let Some(news) = self.upstream.link.as_mut().and_then(Link::news) {
            match news {
                News::Needs => {
                    // The new primary has taken over.
                    data.server.end_failover();
                    self.upstream.needs_successor = true;
                    self.upstream.full_syncs.begin();
                }
                News::Ended(ending) => {
                    let is_lent = self.upstream.link.take().is_some_and(|link| link.is_lent());
                    self.upstream.needs_successor = false;
                    data.server.upstream.state = State::Down;
                    self.end_link(data, ending, is_lent, now);
                    if is_lent && self.upstream.session.is_none() {
                        self.wait_after_end(data, now);
                    }
                }
            }
        }
        if self.upstream.needs_successor && self.upstream.leaving.is_none() {
            self.upstream.needs_successor = false;
            self.lend(data, now);
        }
    }

    /// Notes the end of a link that carried the stream or all data, after which the next one may have to wait.
    fn wait_after_end(&mut self, data: &mut Data, now: u64) {
        if let Some((in_row, wait_ms)) = self.upstream.full_syncs.end(now) {
            let seconds = wait_ms / 1000;
            data.server.event(Level::Warning, "full_syncs_in_a_row", &[("full_syncs", &in_row), ("waits_seconds", &seconds)]);
        }
    }

    /// Lends the link a successor, into which it loads all data.
    fn lend(&mut self, data: &mut Data, now: u64) {
        let Some(link) = &mut self.upstream.link else { return };
        match data.keyspace.begin_copy() {
            Ok(next) => {
                link.lend(next);
                data.server.event(Level::Notice, "loads_from_primary", &[]);
            }
            Err(error) => {
                data.server.event(Level::Warning, "not_loaded", &[("why", &error)]);
                link.stop();
                self.upstream.link = None;
                data.server.upstream.state = State::Down;
                self.wait_after_end(data, now);
            }
        }
    }

    /// Goes on where a link's thread has ended, which had a successor if it `is_lent`.
    fn end_link(&mut self, data: &mut Data, ending: Ending, is_lent: bool, now: u64) {
        let attached = match ending {
            Ending::Failed(Failure { why, target, next }) => {
                let primary = data.server.configuration.following.primary.as_ref().map_or_else(String::new, ToString::to_string);
                data.server.event(Level::Warning, "no_link_to_primary", &[("primary", &primary), ("why", &why)]);
                if is_lent {
                    abandon(data, next);
                }
                self.end_attempt(data, target);
                return;
            }
            Ending::Continues(id, established) => {
                data.server.end_failover();
                if !self.go_on(data, id) {
                    return;
                }
                self.attach(data, *established, now)
            }
            Ending::Loaded(next, position, established) => {
                if !self.switch(data, *next, position) {
                    return;
                }
                let attached = self.attach(data, *established, now);
                self.serve_others(data);
                self.end_tracked_iteration(data);
                self.commit(data);
                attached
            }
        };
        if let Err(error) = attached {
            data.server.event(Level::Warning, "no_link_to_primary", &[("why", &error)]);
        }
    }

    /// Goes on with a handover after an attempt that has made no link. Two servers would accept writes if this one became a primary again
    /// behind a target that has taken over. Therefore, once the target's reply was lost, only its word on its role ends the handover. If
    /// this server cannot be promoted, the handover goes on, and the next attempt meets the refusal again.
    pub(super) fn end_attempt(&mut self, data: &mut Data, target: Target) {
        let Failover::Handing { may_lead, .. } = &mut data.server.upstream.failover else { return };
        match target {
            Target::Untold => {}
            Target::Unknown => *may_lead = true,
            Target::Refuses if *may_lead => {}
            Target::Leads if *may_lead => {
                // The next attempt asks for its stream, as that of any primary.
                data.server.event(Level::Notice, "failover_was_done", &[]);
                data.server.end_failover();
            }
            Target::Refuses | Target::Follows | Target::Leads => {
                if let Err(failure) = data.server.abort_failover(data.keyspace, "the target has refused to take over") {
                    data.server.event(Level::Warning, "not_promoted", &[("why", &String::from_utf8_lossy(&failure.text()))]);
                    self.drop_turn(data);
                }
            }
        }
    }

    /// The primary goes on with its stream where this replica has it, perhaps under another id than the one that was asked for. False: the
    /// engine did not take the new id, and the stream must not be stored under the old one.
    fn go_on(&mut self, data: &mut Data, id: Option<StreamId>) -> bool {
        let Some(position) = data.keyspace.stream().copied() else { return true };
        let (asked, offset) = (self.upstream.asked.unwrap_or(position.id), position.offset);
        let new = id.unwrap_or(asked);
        if new != position.id {
            data.keyspace.change_stream_id(new);
            self.commit_all(data);
            if data.keyspace.stream().is_none_or(|position| position.id != new) {
                data.server.event(Level::Warning, "no_link_to_primary", &[("why", &"the new id of its stream could not be written")]);
                return false;
            }
            // Replicas of this server learn the new id when they come back.
            data.server.close_replicas();
            self.serve_others(data);
        }
        data.server.event(Level::Notice, "partial_sync_with_primary", &[("stream", &new), ("offset", &offset)]);
        true
    }

    /// Puts the data of the primary in the place of all keys; false: they stay as they are.
    fn switch(&mut self, data: &mut Data, next: Keyspace, (id, offset, db): (StreamId, u64, usize)) -> bool {
        let position = StreamPosition { id, offset, second: None, db: Some(db) };
        if let Err(error) = data.keyspace.adopt(next, Some(position)) {
            data.server.event(Level::Warning, "not_switched", &[("why", &error)]);
            return false;
        }
        let server = &mut *data.server;
        server.upstream.forget_nonsense();
        server.feed.begin_epoch();
        server.replication.follow(data.keyspace, &mut server.feed);
        server.append.begin_anew();
        match server.scripts.replace_libraries(data.keyspace) {
            Ok(failed) => {
                for (name, why) in failed {
                    server.event(Level::Warning, "library_not_loaded", &[("name", &name), ("why", &why)]);
                }
            }
            Err(error) => server.event(Level::Warning, "library_not_loaded", &[("why", &error)]),
        }
        // Replicas of this server have another stream, or the old data.
        server.close_replicas();
        let keys: u64 = (0..DATABASES).map(|db| data.keyspace.size(db)).sum();
        server.event(Level::Notice, "loaded_from_primary", &[("keys", &keys), ("stream", &id), ("offset", &offset)]);
        true
    }

    /// Makes a link's connection that of a client, which is the primary.
    fn attach(&mut self, data: &mut Data, established: Established, now: u64) -> io::Result<()> {
        let Established { wire, input } = established;
        let (socket, tls) = match wire.into_transport()? {
            Transport::Plain(socket) => (socket, None),
            Transport::Encrypted(stream) => (stream.sock, Some(stream.conn)),
        };
        let (address, local_address) = (socket.peer_addr()?.to_string(), socket.local_addr()?.to_string());
        let socket = Socket::Tcp(TcpStream::from_std(socket));
        socket.tune(data.server.configuration.keep_alive)?;
        let descriptor = socket.number();
        let mut stream = match tls {
            Some(tls) => Stream::of_tls(socket, TlsConnection::Client(tls)),
            None => Stream::Plain(socket),
        };
        let id = self.next_session;
        self.next_session += 1;
        self.poll.registry().register(stream.source(), token(id), Interest::READABLE)?;
        let mut session = Session::new(id, data.server);
        session.is_primary = true;
        session.is_authenticated = true;
        session.db = data.keyspace.stream().and_then(|position| position.db).unwrap_or(0);
        data.server.clients.insert(id, Client::new(id, address.clone(), local_address, descriptor, now));
        data.server.update(&session, now);
        self.connections.put(id, Box::new(Connection::of_primary(stream, session, input, now)));
        let own = &mut self.upstream;
        (own.session, own.acknowledged, own.mark, own.durable) = (Some(id), None, None, None);
        own.full_syncs.link_up(now);
        data.server.upstream.state = State::Up(id);
        data.server.upstream.down_since = None;
        data.server.event(Level::Notice, "linked_to_primary", &[("id", &id), ("address", &address)]);
        self.activate(id);
        Ok(())
    }

    /// Notices that the link has broken, or is silent, and acknowledges the stream.
    fn look_at_primary(&mut self, data: &mut Data, now: u64) {
        let Some(id) = self.upstream.session else { return };
        let Some(connection) = self.connections.get_mut(id) else {
            self.upstream.session = None;
            data.server.upstream.state = State::Down;
            data.server.upstream.down_since = Some(now);
            data.server.event(Level::Warning, "primary_lost", &[("id", &id)]);
            return self.wait_after_end(data, now);
        };
        // A clock that is set back hides no silence. The turn's time is older than what came while a script ran.
        connection.active = connection.active.min(unix_ms());
        let (silence, most) = (now.saturating_sub(connection.active) / 1000, data.server.configuration.replication.timeout_seconds);
        // While a pause holds the stream back, not all of it is read.
        if silence > most && !connection.is_dead && !connection.is_postponed {
            connection.is_dead = true;
            self.touch(id);
            return data.server.event(Level::Warning, "primary_silent", &[("id", &id), ("seconds", &silence)]);
        }
        let is_asked = std::mem::take(&mut data.server.upstream.is_asked);
        if is_asked || has_passed(self.upstream.acknowledged, ACKNOWLEDGE_MS, now) {
            self.upstream.acknowledged = Some(now);
            self.acknowledge(data, id);
        }
    }

    /// Tells the primary how far the engine is.
    fn acknowledge(&mut self, data: &mut Data, id: u64) {
        let Some(offset) = data.keyspace.stream().map(|position| position.offset) else { return };
        let (committed, synced) = (data.keyspace.committed(), data.keyspace.synced());
        let own = &mut self.upstream;
        // 0: no sync since the start, so nothing is known of the commits before it.
        let is_synced = |commit: u64| synced > 0 && commit <= synced;
        if let Some((_, durable)) = own.mark.filter(|(commit, _)| is_synced(*commit)) {
            own.durable = Some(durable);
            own.mark = None;
        }
        own.mark = own.mark.or(Some((committed, offset)));
        let durable = if is_synced(committed) { Some(offset) } else { own.durable };
        self.touch(id);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.acknowledge(offset, durable);
        }
    }

    /// Goes on with a handover: once a replica has everything, or the time is over, this server follows it.
    fn hand_over(&mut self, data: &mut Data, now: u64) {
        let Failover::Waiting { to, until, forces } = &data.server.upstream.failover else { return };
        let is_late = until.is_some_and(|until| now >= until);
        let chosen = match to {
            Some(to) if is_late && *forces => {
                data.server.event(Level::Notice, "failover_forced", &[("to", to)]);
                Some(to.clone())
            }
            _ if is_late => {
                // While a handover waits, it can be given up without an error.
                let _ = data.server.abort_failover(data.keyspace, "Replica never caught up before timeout");
                return;
            }
            to => data.server.replica_with_all(data.keyspace, to.as_ref()),
        };
        if let Some(to) = chosen {
            data.server.event(Level::Notice, "failover_begun", &[("to", &to)]);
            data.server.upstream.failover = Failover::Handing { to: to.clone(), may_lead: false };
            data.server.follow(data.keyspace, to);
            // Blocked clients are told now: a `MIGRATE` that ends in the next turn would remove its keys on this server alone.
            self.serve_others(data);
        }
    }
}

/// Removes what there is of a successor; `None`: its thread has dropped it.
fn abandon(data: &mut Data, next: Option<Box<Keyspace>>) {
    let removed = match next {
        Some(next) => data.keyspace.abandon_successor(*next),
        None => data.keyspace.abandon_lost(),
    };
    if let Err(error) = removed {
        // The next start, or the next attempt, removes it.
        data.server.event(Level::Warning, "copy_not_removed", &[("why", &error)]);
    }
}

/// Properties of a link to a primary.
fn plan(server: &Server, keyspace: &Keyspace, primary: Address, promotes: bool) -> Plan {
    let configuration = &server.configuration;
    let following = &configuration.following;
    let listens = if following.is_encrypted && configuration.tls_port > 0 { configuration.tls_port } else { configuration.port };
    let port = if following.announced_port > 0 { following.announced_port } else { listens };
    // The target of a handover knows this server's stream by its present id.
    let own = || keyspace.stream().map(|position| (position.id, position.offset));
    Plan {
        primary,
        credentials: following.credentials(),
        announced: (port, following.announced_address.clone()),
        patience: Duration::from_secs(configuration.replication.timeout_seconds),
        tls: following.is_encrypted.then(|| configuration.tls.clone()),
        wants: if promotes { own() } else { keyspace.stream_elsewhere().filter(|_| !server.upstream.needs_all) },
        promotes,
        version: configuration.compatible.version(),
        delay: Duration::from_micros(u64::try_from(following.load_delay_us).unwrap_or(0)),
    }
}
