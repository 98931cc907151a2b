//! The network: one thread reads, runs the commands, calls the engine, and replies. A second thread only gives the engine large batches
//! (`keyspace/committer.rs`).
//!
//! A *turn* is one iteration of the event loop:
//!
//! 1. Wait until there is something to do.
//! 2. Read once from each client that has sent something, 64 clients at a time, and run their requests. Replies are kept back. After each
//!    request, before the next one, its messages are delivered and the clients are served that waited for its changes (`others`).
//! 3. Commit: one batch, one record of the log, for all writes of all clients. If that fails, errors replace the replies. The committed
//!    commands go to the log in Redis's format, if one is kept, in one write (`appending`).
//! 4. Send all replies, except those that have to wait for a sync.
//!
//! So a reply is never sent before its write is as durable as the configuration asks, and all requests of a turn share the cost of a log
//! record. A client gets one read per turn, and a share of the turn's time: none can keep the others waiting.
//!
//! Clients may come with TLS (`stream`). A handshake costs far more than a request, so only some are worked on in a turn.
//!
//! `replicas` serves replicas, `upstream` follows a primary, and `late` serves other clients while a script runs too long.
//!
//! With `appendfsync always` a thread of its own syncs, as often as it can, and turns go on meanwhile. Each client's output knows which of
//! its replies needs which commit to be synced (`keyspace/unsynced.rs`); replies that need no unsynced commit leave at once. All commits
//! made while a sync was running share the next one. If a sync fails, errors replace all replies that have waited for it.

mod appending;
mod connection;
mod connections;
mod descriptors;
mod ending;
mod late;
mod later;
mod listeners;
mod metrics;
mod others;
mod removing;
mod replicas;
mod resting;
mod saving;
mod stopper;
mod stream;
#[cfg(test)]
mod tests;
mod ticking;
mod upstream;
mod visitors;

pub use crate::system::unix_ms;
pub use descriptors::files_max;
pub use stopper::{EndedBy, Stopper};

use crate::command::configuration::Listening;
use crate::command::{Fsync, Server, before_commit};
use crate::keyspace::{self, Keyspace};
use crate::log::Level;
use connection::{Connection, Handled};
use connections::Connections;
use listeners::Listeners;
use metrics::Metrics;
use mio::{Events, Poll, Token, Waker};
use removing::Evicting;
use replicas::Links;
use resting::Rest;
use saving::SaveThread;
use sinterdb::{Durability, WriteOptions};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use ticking::{SyncThread, Ticks};
use upstream::PrimaryLink;

const WAKER: Token = Token(1);
/// Smallest number of a session. A client's token is its session number; the waker has a smaller token, listeners have the largest.
const FIRST_SESSION: u64 = 2;
const EVENTS: usize = 1024;
/// Bytes of one read: a client's share of a turn.
const READ: usize = 64 << 10;
/// Number of clients that are read from before the first of them is served: their requests lie in memory meanwhile.
const TOGETHER: usize = 64;
/// Steps of handshakes in a turn; a client's first step costs most.
const HANDSHAKES: usize = 4;

/// Bytes of replies after which a turn serves no more clients: the replies are sent, and clients that hold too much are closed, before
/// there are more.
const TURN_OUTPUT: usize = 64 << 20;
/// Nanoseconds of a turn that its clients share equally. A client with more work, because its data come from the medium, goes on in the
/// next turn, when the others have had their replies.
const TURN_NS: u64 = 10_000_000;
/// Smallest share of a client, nanoseconds, unless a request takes longer: more turns cost more, too.
const SHARE_NS: u64 = 500_000;

/// Milliseconds between two checks whether the engine can take more writes, while clients wait for that.
const ROOM_MS: u64 = 2;

/// Why the server could not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The network failed.
    #[error("{0}")]
    Network(#[from] io::Error),
    /// The data failed.
    #[error("{0}")]
    Keyspace(#[from] keyspace::Error),
    /// The server would be open to everybody.
    #[error("{0} is no loopback address, and without a password anybody could use the server: set requirepass, or protected-mode no")]
    Open(SocketAddr),
    /// The users could not be loaded.
    #[error("{0}")]
    Users(String),
    /// There is no certificate for clients with TLS.
    #[error("{0} is for clients with TLS, and the server has no certificate")]
    NoCertificate(SocketAddr),
    /// The log in Redis's format cannot be kept.
    #[error("appendonly: {0}")]
    Append(String),
}

/// A server that listens.
pub struct Net {
    event_loop: EventLoop,
    keyspace: Keyspace,
    server: Server,
}

/// Keyspace and server, which requests work with. They are passed through the event loop, because a running script may enter it again.
struct Data<'a> {
    keyspace: &'a mut Keyspace,
    server: &'a mut Server,
}

/// The clients, and the order in which they are served.
struct EventLoop {
    poll: Poll,
    listeners: Listeners,
    /// Clients may be waiting to be accepted.
    accepts: bool,
    connections: Connections,
    /// Clients with something to be handled or sent in the next turn, in the order in which they were added.
    active: Vec<u64>,
    /// Clients of this iteration that are still to be read from, and clients that were read from and are still to be served.
    present: VecDeque<u64>,
    ready: VecDeque<u64>,
    /// Clients that take part in this turn.
    touched: Vec<u64>,
    /// Clients with replies or messages since the last commit.
    unsettled: Vec<u64>,
    /// Clients whose requests wait until a pause is over.
    postponed: Vec<u64>,
    /// Clients with replies that wait for a sync.
    awaiting: Vec<u64>,
    /// Clients whose script ran when a sync ended, so that their replies could not be released yet, and why the sync failed, if it did.
    missed: Vec<(u64, Option<String>)>,
    /// The last commit for which a sync was asked.
    asked: u64,
    /// The commit that has to be synced before a message of the request that was run last may leave.
    cause: u64,
    /// Steps of handshakes that are left in this turn.
    handshakes: usize,
    /// Clients whose handshakes wait for a turn with steps left, in order.
    strangers: VecDeque<u64>,
    /// Memory of all clients' buffers, bytes.
    held: usize,
    /// Requests that write wait until the engine can take more.
    is_short_of_room: bool,
    evicting: Evicting,
    /// Bytes of replies that this turn's requests have produced.
    produced: usize,
    /// Other clients were served while the script of a client that is taken out was late.
    was_late: bool,
    /// The last commit that was known to be synced.
    synced: u64,
    /// Client from which on the next tick looks at clients.
    looked_at: u64,
    next_session: u64,
    /// Buffer into which all clients' bytes are read.
    buffer: Vec<u8>,
    stopper: Stopper,
    ticks: Ticks,
    syncs: SyncThread,
    saves: SaveThread,
    upstream: PrimaryLink,
    links: Links,
    rest: Rest,
    metrics: Option<Metrics>,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Net({:?}, {} clients)", self.event_loop.listeners, self.event_loop.connections.len())
    }
}

/// Checks whether addresses may be listened on.
fn check_addresses(addresses: &[Listening], server: &Server) -> Result<(), Error> {
    let find = |is_wrong: fn(&Listening) -> bool| addresses.iter().find(|at| is_wrong(at)).map(|at| at.address);
    if let Some(address) = find(|at| !at.address.ip().is_loopback())
        && server.turns_away()
    {
        return Err(Error::Open(address));
    }
    if let Some(address) = find(|at| at.is_encrypted)
        && server.tls.is_none()
    {
        return Err(Error::NoCertificate(address));
    }
    Ok(())
}

impl Net {
    /// Listens at one address.
    ///
    /// # Errors
    /// The address cannot be used, or everybody could use the server.
    pub fn bind(address: SocketAddr, keyspace: Keyspace, server: Server) -> Result<Net, Error> {
        Net::listen(&[Listening { address, may_miss: false, is_encrypted: false }], keyspace, server)
    }

    /// Listens at all addresses, except optional ones that the machine lacks.
    ///
    /// # Errors
    /// An address cannot be used, or needs a certificate that is missing; everybody could use the server; or the users are invalid.
    pub fn listen(addresses: &[Listening], mut keyspace: Keyspace, mut server: Server) -> Result<Net, Error> {
        server.take_users().map_err(Error::Users)?;
        server.configuration.apply_to(&mut keyspace);
        server.count_data(&mut keyspace)?;
        if server.configuration.memory > 0 {
            keyspace.set_memory(server.configuration.budget())?;
        }
        check_addresses(addresses, &server)?;
        let poll = Poll::new()?;
        let listeners = Listeners::bind(addresses, &server.configuration, poll.registry())?;
        let port = |address: Option<SocketAddr>| address.map_or(0, |address| address.port());
        server.configuration.port = port(listeners.address(false)?);
        server.configuration.tls_port = port(listeners.address(true)?);
        server.started = unix_ms();
        for (name, why) in server.scripts.start(&keyspace, server.configuration.compatible)? {
            server.event(Level::Warning, "library_not_loaded", &[("name", &name), ("why", &why)]);
        }
        server.tell_without_effect();
        server.limit_clients(descriptors::clients_max());
        if server.configuration.append_only {
            server.append.open(server.configuration.logs(&keyspace)).map_err(Error::Append)?;
        }
        let is_replica = server.is_replica();
        server.replication.start(&mut keyspace, &mut server.feed, is_replica)?;
        keyspace.set_beside(server.append.beside());
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        server.transfers.set_waker(waker.clone());
        let syncs = SyncThread::start(keyspace.syncer(), server.configuration.fsync, waker.clone())?;
        let metrics = Metrics::start(&server.configuration, waker.clone())?;
        let event_loop = EventLoop {
            poll,
            listeners,
            accepts: true,
            connections: Connections::default(),
            active: Vec::new(),
            present: VecDeque::new(),
            ready: VecDeque::new(),
            touched: Vec::new(),
            unsettled: Vec::new(),
            postponed: Vec::new(),
            awaiting: Vec::new(),
            missed: Vec::new(),
            asked: 0,
            cause: 0,
            handshakes: 0,
            strangers: VecDeque::new(),
            held: 0,
            is_short_of_room: false,
            evicting: Evicting::default(),
            produced: 0,
            was_late: false,
            synced: 0,
            looked_at: 0,
            next_session: FIRST_SESSION,
            buffer: vec![0; READ],
            stopper: Stopper::new(waker),
            ticks: Ticks::default(),
            syncs,
            saves: SaveThread::default(),
            upstream: PrimaryLink::default(),
            links: Links::default(),
            rest: Rest::default(),
            metrics,
        };
        Ok(Net { event_loop, keyspace, server })
    }

    /// Address of the metrics; `None`: there are none.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.event_loop.metrics.as_ref().map(Metrics::address)
    }

    /// The first address that is listened on, which is one for clients with TLS if there is no other.
    ///
    /// # Errors
    /// Errors of the system; `AddrNotAvailable` if there is a Unix socket alone.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let plain = self.event_loop.listeners.address(false)?;
        plain.map_or_else(|| self.tls_address(), |address| Ok(Some(address)))?.ok_or_else(|| ErrorKind::AddrNotAvailable.into())
    }

    /// The path of the Unix socket that is listened on.
    pub fn path(&self) -> Option<&Path> {
        self.event_loop.listeners.path()
    }

    /// First address for clients with TLS; `None`: there is none.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn tls_address(&self) -> io::Result<Option<SocketAddr>> {
        self.event_loop.listeners.address(true)
    }

    /// Returns a handle that stops the server.
    pub fn stopper(&self) -> Stopper {
        self.event_loop.stopper.clone()
    }

    /// Serves until it is stopped, then closes the data.
    ///
    /// # Errors
    /// Errors of the system's poll, and of closing.
    pub fn run(self) -> Result<(), Error> {
        let Net { mut event_loop, mut keyspace, mut server } = self;
        let awaiting_end = event_loop.run(&mut Data { keyspace: &mut keyspace, server: &mut server })?;
        drop(event_loop);
        let closed = keyspace.close();
        drop(awaiting_end);
        match &closed {
            Ok(()) => server.event(Level::Notice, "stopped", &[]),
            Err(error) => server.event(Level::Warning, "not_closed", &[("error", error)]),
        }
        Ok(closed?)
    }
}

impl EventLoop {
    /// Serves until it is stopped, and ends all work for clients. Returns the connections of those who have asked for the end.
    fn run(&mut self, data: &mut Data) -> io::Result<Connections> {
        let mut events = Events::with_capacity(EVENTS);
        while !self.ends(data) {
            match self.poll.poll(&mut events, Some(self.patience(data))) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            self.note(&events);
            self.turn(data, unix_ms());
            if let Some(metrics) = &self.metrics {
                metrics.answer(data.server, data.keyspace);
            }
        }
        data.server.event(Level::Notice, "stopping", &[("clients", &self.connections.len())]);
        self.saves.stop();
        self.end_primary(data);
        // Work in steps ends here, and the log beside gets `DEL` for the parts that it has.
        let unfinished = self.connections.iter().filter(|(_, connection)| connection.session.is_in_steps());
        unfinished.map(|(id, _)| id).collect::<Vec<_>>().into_iter().for_each(|id| self.remove(data, id));
        self.commit(data);
        self.stop_replicas(data, unix_ms());
        data.server.append.stop();
        drop(self.metrics.take());
        self.syncs.stop();
        if !self.awaiting.is_empty() {
            // Clients whose reply waits get it, with the result that the keyspace knows.
            let _ = data.keyspace.syncer().sync();
            self.end_syncs(data);
            self.commit(data);
            self.send(data);
        }
        let mut connections = std::mem::take(&mut self.connections);
        connections.keep(|connection| connection.session.awaits_end);
        Ok(connections)
    }

    /// How long the loop may wait if no client sends anything.
    fn patience(&self, data: &Data) -> Duration {
        if self.accepts
            || self.evicting.goes_on
            || self.produced > TURN_OUTPUT
            || !self.strangers.is_empty()
            || self.active.iter().any(|id| self.connections.get(*id).is_some_and(Connection::has_work))
        {
            return Duration::ZERO;
        }
        let until = if self.is_short_of_room { unix_ms() + ROOM_MS } else { data.server.pause.until() };
        let pause = (!self.postponed.is_empty()).then_some(until);
        match data.keyspace.next_deadline().into_iter().chain(pause).chain(self.ticks.expiry).min() {
            Some(due) => Ticks::INTERVAL.min(Duration::from_millis(due.saturating_sub(unix_ms()))),
            None => Ticks::INTERVAL,
        }
    }

    fn note(&mut self, events: &Events) {
        for event in events {
            match event.token() {
                WAKER => {}
                token if Listeners::has(token) => self.accepts = true,
                Token(token) => {
                    let id = token as u64;
                    if let Some(connection) = self.connections.get_mut(id) {
                        connection.is_readable |= event.is_readable();
                        connection.is_shut |= event.is_read_closed();
                    }
                    self.activate(id);
                }
            }
        }
    }

    /// Puts a client behind those that have work for the next turn.
    fn activate(&mut self, id: u64) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.is_active
        {
            connection.is_active = true;
            self.active.push(id);
        }
    }

    fn turn(&mut self, data: &mut Data, now: u64) {
        data.keyspace.set_now(now);
        self.end_syncs(data);
        self.end_transfers(data);
        self.accept(data, now);
        self.look_for_room(data);
        self.end_pause(data, now);
        self.produced = 0;
        self.serve_active(data, now);
        self.expire(data, now);
        self.evict(data, now);
        self.tick(data, now);
        self.end_acknowledged(data);
        self.end_waits(data);
        self.serve_others(data);
        self.end_tracked_iteration(data);
        self.note_for_replicas(data, now);
        self.commit(data);
        self.saves.turn(data.keyspace, data.server, now);
        self.turn_log(data, now);
        self.follow_primary(data, now);
        self.serve_replicas(data, now);
        self.send(data);
        self.shed(data);
    }

    /// Reads from all clients with work, and runs their requests.
    fn serve_active(&mut self, data: &mut Data, now: u64) {
        self.handshakes = HANDSHAKES;
        let strangers = self.strangers.len().min(HANDSHAKES);
        self.present.extend(self.strangers.drain(..strangers).chain(self.active.drain(..)));
        let share = (TURN_NS / (self.present.len() as u64).max(1)).max(SHARE_NS);
        // While the first clients are read from, the committer may still insert the batch of the previous turn.
        loop {
            while let Some(id) = self.ready.pop_front() {
                self.serve(data, id, share);
            }
            if self.present.is_empty() {
                return;
            }
            if self.produced > TURN_OUTPUT {
                // These clients are still active, and come first in the next turn.
                self.active.extend(self.present.drain(..));
                return;
            }
            for _ in 0..TOGETHER {
                let Some(id) = self.present.pop_front() else { break };
                if self.receive(data, id, now) {
                    self.ready.push_back(id);
                }
            }
        }
    }

    /// Adds a client to those that take part in this turn.
    fn touch(&mut self, id: u64) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.is_touched
        {
            connection.is_touched = true;
            self.touched.push(id);
        }
    }

    /// Adds a client to those that may have replies or messages since the last commit.
    fn unsettle(&mut self, id: u64) {
        self.touch(id);
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.is_unsettled
        {
            connection.is_unsettled = true;
            self.unsettled.push(id);
        }
    }

    /// Reads from a client. False: the client has to wait.
    fn receive(&mut self, data: &mut Data, id: u64, now: u64) -> bool {
        let Some(connection) = self.connections.get_mut(id) else { return false };
        let can_read = connection.can_read();
        let shakes_hands = can_read && connection.stream.is_handshaking();
        if shakes_hands && self.handshakes == 0 {
            self.strangers.push_back(id);
            return false;
        }
        connection.is_active = false;
        self.touch(id);
        let Some(connection) = self.connections.get_mut(id) else { return false };
        if can_read && connection.read(&mut self.buffer, data.server, now) && shakes_hands {
            self.handshakes -= 1;
        }
        true
    }

    /// Runs the requests of a client, within its share of the turn, nanoseconds.
    fn serve(&mut self, data: &mut Data, id: u64, share: u64) {
        let is_over = self.produced > TURN_OUTPUT;
        let Some(connection) = self.connections.get_mut(id) else { return };
        if is_over {
            return connection.leave();
        }
        let before = connection.unsent();
        let until = data.server.monotonic_ns().saturating_add(share);
        self.serve_requests(data, id, until);
        let after = self.connections.get(id).map_or(0, Connection::unsent);
        self.produced += after.saturating_sub(before);
    }

    /// Ends the wait of a client that has disconnected.
    fn check_shut(&mut self, data: &mut Data, id: u64) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.check_shut();
        if connection.is_dead || connection.is_ending {
            data.keyspace.unwait(id);
        }
    }

    fn serve_requests(&mut self, data: &mut Data, id: u64, until: u64) {
        self.check_shut(data, id);
        // A script that the connection runs may enter the event loop again, so the connection is taken out meanwhile.
        while let Some(mut connection) = self.connections.take(id) {
            let handled = connection.handle(self, data.keyspace, data.server, until);
            self.cause = connection.needs;
            if connection.is_postponed && !self.postponed.contains(&id) {
                self.postponed.push(id);
            }
            if !connection.is_unsettled {
                connection.is_unsettled = true;
                self.unsettled.push(id);
            }
            // While the connection's script was late, network events of the connection found it taken out. They come only once.
            connection.is_readable |= std::mem::take(&mut self.was_late);
            self.connections.put(id, connection);
            match handled {
                // Again, as the last request may have begun to wait with so much input behind it that the client is not read from any more.
                Handled::All => return self.check_shut(data, id),
                // The client's remaining requests wait for the end of the script.
                Handled::Others if data.server.scripts.is_running() => {}
                Handled::Commit => {
                    self.commit_all(data);
                    self.look_for_room(data);
                }
                Handled::Others => {
                    self.serve_others(data);
                    // Between two requests of one client, too: a few bytes can ask for long values.
                    if data.keyspace.uncommitted() > connection::TURN_BYTES {
                        self.commit_all(data);
                        self.look_for_room(data);
                    }
                }
                Handled::EngineFailed if data.server.scripts.is_running() => return data.server.scripts.drop_running(),
                Handled::EngineFailed => return self.drop_turn(data),
            }
        }
    }

    /// Gives the engine the turn's writes.
    fn commit(&mut self, data: &mut Data) {
        before_commit(data.keyspace, data.server);
        if data.keyspace.is_committed() { self.write_log(data) } else { self.commit_batch(data) }
    }

    fn commit_all(&mut self, data: &mut Data) {
        before_commit(data.keyspace, data.server);
        self.commit_batch(data);
    }

    fn commit_batch(&mut self, data: &mut Data) {
        let begun = data.server.monotonic_ns();
        let result = data.keyspace.commit(&WriteOptions::new(Durability::Buffered));
        data.server.took("commit", data.keyspace.now(), data.server.monotonic_ns().saturating_sub(begun));
        match result {
            Ok(()) => self.write_log(data),
            Err(error) => self.refuse(data, &error.to_string()),
        }
    }

    /// The turn's writes are in the engine's log: settles its replies, and asks for a sync if one of them waits for it.
    fn release_replies(&mut self, data: &mut Data) {
        let is_always = data.server.configuration.fsync == Fsync::Always;
        let committed = data.keyspace.committed();
        let synced = is_always.then(|| data.keyspace.synced());
        let is_running = data.server.scripts.is_running();
        let mut unsettled = std::mem::take(&mut self.unsettled);
        unsettled.retain(|id| {
            // The client whose script runs is settled after the script, and so are those whose replies are held.
            let Some(connection) = self.connections.get_mut(*id) else { return self.connections.is_out(*id) };
            connection.is_held &= is_running;
            if connection.is_held {
                return true;
            }
            connection.is_unsettled = false;
            connection.release_replies(committed, synced);
            if connection.waits_for_sync() && !connection.is_awaiting {
                connection.is_awaiting = true;
                self.awaiting.push(*id);
            }
            false
        });
        self.unsettled = unsettled;
        if committed > self.asked && synced.is_some_and(|synced| synced < committed) {
            self.asked = committed;
            self.syncs.ask();
        }
    }

    /// Drops the writes and replies of the iteration: the engine could not be read, so that its requests may have read anything, or the
    /// server ends while a script runs.
    fn drop_turn(&mut self, data: &mut Data) {
        data.keyspace.discard();
        let why = if data.server.is_ending { "the server was told to end" } else { "the data could not be read" };
        self.refuse(data, why);
    }

    fn refuse(&mut self, data: &mut Data, why: &str) {
        data.server.event(Level::Warning, "nothing_written", &[("why", &why)]);
        data.server.feed.discard();
        self.answer_all(data, &format!("MISCONF Nothing was written: {why}"));
    }

    /// Replaces each reply of the turn by an error.
    fn answer_all(&mut self, data: &mut Data, text: &str) {
        for id in &self.touched {
            if let Some(connection) = self.connections.get_mut(*id) {
                connection.refuse(text.as_bytes());
            }
        }
        // Invalidations of the iteration are dropped with its replies, and some of its writes may have been committed before.
        data.server.invalidate_everything();
    }

    /// Sends all replies and messages of the turn.
    fn send(&mut self, data: &mut Data) {
        let mut touched = std::mem::take(&mut self.touched);
        let is_running = data.server.scripts.is_running();
        // The client whose script runs, clients that cannot be removed before it ends, and those with held replies come (again) at the end
        // of the iteration.
        let mut left = Vec::new();
        for id in touched.drain(..) {
            let Some(connection) = self.connections.get_mut(id) else {
                if self.connections.is_out(id) {
                    left.push(id);
                }
                continue;
            };
            connection.is_touched = false;
            connection.write(data.server, data.keyspace.now());
            connection.listen(self.poll.registry(), token(id));
            if connection.is_dead && is_running && connection.has_begun() {
                connection.is_touched = true;
                left.push(id);
                continue;
            }
            if connection.is_dead {
                self.remove(data, id);
                continue;
            }
            if connection.is_held {
                connection.is_touched = true;
                left.push(id);
            }
            let buffers = connection.buffers();
            let client = data.server.update(&connection.session, connection.active);
            client.buffers = buffers;
            client.is_postponed = connection.is_postponed;
            let held = buffers.held();
            self.held = self.held + held - connection.held;
            connection.held = held;
            if connection.has_work() {
                self.activate(id);
            }
        }
        touched.append(&mut left);
        self.touched = touched;
    }

    /// Does the work that is due ten times a second.
    fn tick(&mut self, data: &mut Data, now: u64) {
        if !self.ticks.is_due(now) {
            return;
        }
        self.accepts |= std::mem::take(&mut self.ticks.accept_again);
        data.server.look_at_rates(now);
        data.server.limit_tracking(data.keyspace);
        let fsync = data.server.configuration.fsync;
        self.syncs.set(fsync);
        if fsync == Fsync::Always && data.keyspace.synced() < data.keyspace.committed() {
            // A sync has failed, perhaps because the medium was full, or `appendfsync` was another when the commits were made.
            self.syncs.ask();
        }
        if let Err(error) = data.keyspace.flush_at_rest() {
            data.server.event(Level::Warning, "not_flushed", &[("why", &error)]);
        }
        self.look_at_clients(data, now);
        self.rest(data, now);
    }
}

fn token(id: u64) -> Token {
    Token(usize::try_from(id).unwrap_or(usize::MAX))
}
