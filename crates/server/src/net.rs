//! The network: one thread, which runs the commands, and the engine itself but for large batches (`keyspace/committer.rs`).
//!
//! A turn, one iteration of the event loop, again and again:
//!
//! 1. Wait until there is something to do.
//! 2. Read once from each client that has sent something, from some of them together, and run their requests. Replies are kept back. After
//!    each request, before the next one, its messages are delivered and the clients are served that waited for its changes (`others`).
//! 3. Commit: one batch, one record of the log, for all writes of all clients. If that fails, errors replace the replies. The committed
//!    commands go to the log in Redis's format, if one is kept, in one write (`appending`).
//! 4. Send all replies, except those that have to wait for a sync.
//!
//! So a reply is never sent before its write is where the configuration wants it, and all requests of a turn share the cost of a log
//! record. A client gets one read per turn, and a share of its time: none can keep the others waiting.
//!
//! Clients may come with TLS (`stream`). A handshake costs far more than a request, so only some are worked on in a turn.
//!
//! With `appendfsync always` a thread of its own syncs, as often as it can, and turns go on meanwhile. Each client's output knows which of
//! its replies needs which commit to be synced (`keyspace/unsynced.rs`); replies that need no unsynced commit leave at once. All commits
//! made while a sync was running share the next one. If a sync fails, errors replace all replies that have waited for it.

mod appending;
mod connection;
mod descriptors;
mod later;
mod listeners;
mod metrics;
mod others;
mod resting;
mod saving;
mod stream;
#[cfg(test)]
mod tests;
mod ticking;

pub use crate::system::unix_ms;
pub use descriptors::files_max;

use crate::command::configuration::Listening;
use crate::command::{Client, Fsync, Server, Session, end_transfer, tell_expired};
use crate::keyspace::{self, Keyspace};
use crate::log::Level;
use connection::{Connection, Handled};
use listeners::{Listeners, Visitor};
use metrics::Metrics;
use mio::{Events, Interest, Poll, Token, Waker};
use resting::Rest;
use saving::SaveThread;
use sinterdb::{Durability, WriteOptions};
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stream::{Socket, Stream};
use ticking::{SyncThread, Ticks};

const WAKER: Token = Token(1);
/// Tokens of clients start behind those of the network itself, as session numbers do.
const FIRST_SESSION: u64 = 2;
const EVENTS: usize = 1024;
/// Bytes that are read at once: one client's share of a turn.
const READ: usize = 64 << 10;
/// Number of clients that are read from before the first of them is served: their requests lie in memory meanwhile.
const TOGETHER: usize = 64;
/// Clients that are accepted in a turn: a flood of them must not keep the others waiting.
const ACCEPTS: usize = 64;
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

/// Reply to clients on other machines while there is no password.
const DENIED: &[u8] =
    b"-DENIED without a password only clients on the server's machine are served: set requirepass, or protected-mode no\r\n";

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

/// Stops a server from another thread.
#[derive(Debug, Clone)]
pub struct Stopper {
    waker: Arc<Waker>,
    stops: Arc<AtomicBool>,
}

impl Stopper {
    /// Ends the server after the current turn: closes the clients and then the data.
    pub fn stop(&self) {
        self.stops.store(true, Ordering::Release);
        // The server looks at the flag at least ten times a second anyway.
        let _ = self.waker.wake();
    }
}

/// A server that listens.
pub struct Net {
    poll: Poll,
    listeners: Listeners,
    /// Clients may be waiting to be accepted.
    accepts: bool,
    connections: HashMap<u64, Connection>,
    /// Largest number of clients, from the limit on descriptors.
    room: usize,
    /// Clients with something to be handled or sent in the next turn, in the order in which they were added.
    active: Vec<u64>,
    /// Clients that take part in this turn.
    touched: Vec<u64>,
    /// Clients whose requests wait until a pause is over.
    postponed: Vec<u64>,
    /// Clients with replies that wait for a sync.
    awaiting: Vec<u64>,
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
    /// Bytes of replies that this turn's requests have produced.
    produced: usize,
    /// The last commit that was known to be synced.
    synced: u64,
    /// Client from which on the next tick looks at clients.
    looked_at: u64,
    next_session: u64,
    /// Buffer into which all clients' bytes are read.
    buffer: Vec<u8>,
    keyspace: Keyspace,
    server: Server,
    stopper: Stopper,
    ticks: Ticks,
    syncs: SyncThread,
    saves: SaveThread,
    rest: Rest,
    metrics: Option<Metrics>,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Net({:?}, {} clients)", self.listeners, self.connections.len())
    }
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
        keyspace.set_thresholds(server.configuration.thresholds);
        if server.configuration.memory > 0 {
            keyspace.set_memory(server.configuration.budget())?;
        }
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
        let poll = Poll::new()?;
        let listeners = Listeners::bind(addresses, &server.configuration, poll.registry())?;
        let port = |address: Option<SocketAddr>| address.map_or(0, |address| address.port());
        server.configuration.port = port(listeners.address(false)?);
        server.configuration.tls_port = port(listeners.address(true)?);
        server.started = unix_ms();
        server.tell_without_effect();
        if server.configuration.append_only {
            server.append.open(server.configuration.logs(&keyspace)).map_err(Error::Append)?;
        }
        keyspace.set_beside(server.append.beside());
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        server.transfers.set_waker(waker.clone());
        let syncs = SyncThread::start(keyspace.syncer(), server.configuration.fsync, waker.clone())?;
        let metrics = Metrics::start(&server.configuration, waker.clone())?;
        Ok(Net {
            poll,
            listeners,
            accepts: true,
            connections: HashMap::new(),
            room: descriptors::clients_max(),
            active: Vec::new(),
            touched: Vec::new(),
            postponed: Vec::new(),
            awaiting: Vec::new(),
            asked: 0,
            cause: 0,
            handshakes: 0,
            strangers: VecDeque::new(),
            held: 0,
            is_short_of_room: false,
            produced: 0,
            synced: 0,
            looked_at: 0,
            next_session: FIRST_SESSION,
            buffer: vec![0; READ],
            keyspace,
            server,
            stopper: Stopper { waker, stops: Arc::default() },
            ticks: Ticks::default(),
            syncs,
            saves: SaveThread::default(),
            rest: Rest::default(),
            metrics,
        })
    }

    /// Address of the metrics; `None`: there are none.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(Metrics::address)
    }

    /// The first address that is listened on, which is one for clients with TLS if there is no other.
    ///
    /// # Errors
    /// Errors of the system; `AddrNotAvailable` if there is a Unix socket alone.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let plain = self.listeners.address(false)?;
        plain.map_or_else(|| self.tls_address(), |address| Ok(Some(address)))?.ok_or_else(|| ErrorKind::AddrNotAvailable.into())
    }

    /// The path of the Unix socket that is listened on.
    pub fn path(&self) -> Option<&Path> {
        self.listeners.path()
    }

    /// First address for clients with TLS; `None`: there is none.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn tls_address(&self) -> io::Result<Option<SocketAddr>> {
        self.listeners.address(true)
    }

    /// Returns a handle that stops the server.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until it is stopped, then closes the data.
    ///
    /// # Errors
    /// Errors of the system's poll, and of closing.
    pub fn run(mut self) -> Result<(), Error> {
        let mut events = Events::with_capacity(EVENTS);
        while !self.stopper.stops.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, Some(self.patience())) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            self.note(&events);
            self.turn(unix_ms());
            if let Some(metrics) = &self.metrics {
                metrics.answer(&self.server, &self.keyspace);
            }
            if self.server.is_ending {
                self.stopper.stops.store(true, Ordering::Release);
            }
        }
        self.server.event(Level::Notice, "stopping", &[("clients", &self.connections.len())]);
        self.saves.stop();
        // Work in steps ends here, and the log beside gets `DEL` for the parts that it has.
        let unfinished = self.connections.iter().filter(|(_, connection)| connection.session.is_in_steps());
        unfinished.map(|(id, _)| *id).collect::<Vec<_>>().into_iter().for_each(|id| self.remove(id));
        self.commit();
        self.server.append.stop();
        drop(self.metrics.take());
        self.syncs.stop();
        if !self.awaiting.is_empty() {
            // Clients whose reply waits get it, with the result that the keyspace knows.
            let _ = self.keyspace.syncer().sync();
            self.end_syncs();
            self.commit();
            self.send();
        }
        self.connections.clear();
        let closed = self.keyspace.close();
        match &closed {
            Ok(()) => self.server.event(Level::Notice, "stopped", &[]),
            Err(error) => self.server.event(Level::Warning, "not_closed", &[("error", error)]),
        }
        Ok(closed?)
    }

    /// How long the loop may wait if no client sends anything.
    fn patience(&self) -> Duration {
        if self.accepts
            || self.produced > TURN_OUTPUT
            || !self.strangers.is_empty()
            || self.active.iter().any(|id| self.connections.get(id).is_some_and(Connection::has_work))
        {
            return Duration::ZERO;
        }
        let until = if self.is_short_of_room { unix_ms() + ROOM_MS } else { self.server.pause.until() };
        let pause = (!self.postponed.is_empty()).then_some(until);
        match self.keyspace.next_deadline().into_iter().chain(pause).chain(self.ticks.expiry).min() {
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
                    if let Some(connection) = self.connections.get_mut(&id) {
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
        if let Some(connection) = self.connections.get_mut(&id)
            && !connection.is_active
        {
            connection.is_active = true;
            self.active.push(id);
        }
    }

    fn turn(&mut self, now: u64) {
        self.keyspace.set_now(now);
        self.end_syncs();
        self.end_transfers();
        self.accept(now);
        self.look_for_room();
        self.end_pause(now);
        self.handshakes = HANDSHAKES;
        let strangers: Vec<u64> = self.strangers.drain(..self.strangers.len().min(HANDSHAKES)).collect();
        let present: Vec<u64> = strangers.into_iter().chain(std::mem::take(&mut self.active)).collect();
        self.produced = 0;
        let share = (TURN_NS / (present.len() as u64).max(1)).max(SHARE_NS);
        // The engine goes on with the turn before while the first of them are read from.
        for some in present.chunks(TOGETHER) {
            if self.produced > TURN_OUTPUT {
                // These clients are still active, and come first in the next turn.
                self.active.extend_from_slice(some);
                continue;
            }
            let ready: Vec<u64> = some.iter().copied().filter(|id| self.receive(*id, now)).collect();
            ready.into_iter().for_each(|id| self.serve(id, share));
        }
        self.expire(now);
        self.tick(now);
        self.end_waits();
        self.serve_others();
        self.end_tracked_iteration();
        self.commit();
        self.saves.turn(&self.keyspace, &mut self.server, now);
        self.turn_log(now);
        self.send();
        self.shed();
    }

    /// Adds a client to those that take part in this turn.
    fn touch(&mut self, id: u64) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !connection.is_touched
        {
            connection.is_touched = true;
            self.touched.push(id);
        }
    }

    /// Reads from a client. False: the client has to wait.
    fn receive(&mut self, id: u64, now: u64) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        let can_read = connection.can_read();
        let shakes_hands = can_read && connection.stream.is_handshaking();
        if shakes_hands && self.handshakes == 0 {
            self.strangers.push_back(id);
            return false;
        }
        connection.is_active = false;
        self.touch(id);
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        if can_read && connection.read(&mut self.buffer, &mut self.server, now) && shakes_hands {
            self.handshakes -= 1;
        }
        true
    }

    /// Runs the requests of a client, within its share of the turn, nanoseconds.
    fn serve(&mut self, id: u64, share: u64) {
        let is_over = self.produced > TURN_OUTPUT;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if is_over {
            return connection.leave();
        }
        let before = connection.unsent();
        self.serve_requests(id, self.server.monotonic_ns().saturating_add(share));
        let after = self.connections.get(&id).map_or(0, Connection::unsent);
        self.produced += after.saturating_sub(before);
    }

    /// A client that has disconnected waits for nothing any more.
    fn check_shut(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.check_shut();
        if connection.is_dead || connection.is_ending {
            self.keyspace.unwait(id);
        }
    }

    fn serve_requests(&mut self, id: u64, until: u64) {
        self.check_shut(id);
        while let Some(connection) = self.connections.get_mut(&id) {
            let handled = connection.handle(&mut self.keyspace, &mut self.server, until);
            self.cause = connection.needs;
            if connection.is_postponed && !self.postponed.contains(&id) {
                self.postponed.push(id);
            }
            match handled {
                // A request may have begun to wait when as much has already arrived behind it as is read of a waiting client.
                Handled::All => return self.check_shut(id),
                Handled::Others => {
                    self.serve_others();
                    // Between two requests of one client, too: a few bytes can ask for long values.
                    if self.keyspace.uncommitted() > connection::TURN_BYTES {
                        self.commit_all();
                        self.look_for_room();
                    }
                }
                Handled::EngineFailed => return self.drop_turn(),
            }
        }
    }

    /// Gives the engine the turn's writes.
    fn commit(&mut self) {
        if self.keyspace.is_committed() { self.write_log() } else { self.commit_all() }
    }

    fn commit_all(&mut self) {
        let begun = self.server.monotonic_ns();
        let result = self.keyspace.commit(&WriteOptions::new(Durability::Buffered));
        self.server.took("commit", self.keyspace.now(), self.server.monotonic_ns().saturating_sub(begun));
        match result {
            Ok(()) => self.write_log(),
            Err(error) => self.refuse(&error.to_string()),
        }
    }

    /// The turn's writes are in the engine's log: settles its replies, and asks for a sync if one of them waits for it.
    fn settle(&mut self) {
        let is_always = self.server.configuration.fsync == Fsync::Always;
        let committed = self.keyspace.committed();
        let synced = is_always.then(|| self.keyspace.synced());
        for id in &self.touched {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            connection.settle(committed, synced);
            if connection.waits_for_sync() && !connection.is_awaiting {
                connection.is_awaiting = true;
                self.awaiting.push(*id);
            }
        }
        if committed > self.asked && synced.is_some_and(|synced| synced < committed) {
            self.asked = committed;
            self.syncs.ask();
        }
    }

    /// Drops the turn because the engine could not be read: it is not known what its requests have read.
    fn drop_turn(&mut self) {
        self.keyspace.discard();
        self.refuse("the data could not be read");
    }

    fn refuse(&mut self, why: &str) {
        self.server.event(Level::Warning, "nothing_written", &[("why", &why)]);
        self.server.append.discard();
        self.answer_all(&format!("MISCONF Nothing was written: {why}"));
    }

    /// Replaces each reply of the turn by an error.
    fn answer_all(&mut self, text: &str) {
        for id in &self.touched {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.refuse(text.as_bytes());
            }
        }
        // Invalidations of the turn are gone with its replies, and some of its writes may have been committed before.
        self.server.invalidate_everything();
    }

    /// Sends all replies and messages of the turn.
    fn send(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        for id in touched.drain(..) {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.is_touched = false;
            connection.write(&mut self.server, self.keyspace.now());
            connection.listen(self.poll.registry(), token(id));
            if connection.is_dead {
                self.remove(id);
                continue;
            }
            let buffers = connection.buffers();
            let client = self.server.update(&connection.session, connection.active);
            client.buffers = buffers;
            client.is_postponed = connection.is_postponed;
            let held = buffers.held();
            self.held = self.held + held - connection.held;
            connection.held = held;
            if connection.has_work() {
                self.activate(id);
            }
        }
        self.touched = touched;
    }

    fn accept(&mut self, now: u64) {
        for _ in 0..ACCEPTS {
            if !self.accepts {
                return;
            }
            match self.listeners.accept() {
                Ok(visitor) => self.welcome(visitor, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.accepts = false,
                // A client that disconnected again, or no more descriptors: the next tick tries again.
                Err(_) => {
                    self.accepts = false;
                    self.ticks.accept_again = true;
                }
            }
        }
    }

    fn welcome(&mut self, visitor: Visitor, now: u64) {
        let Visitor { mut socket, address, local_address, is_local, is_encrypted } = visitor;
        // The client is told why it is turned away, if it reads, and can be told without a handshake.
        let mut refuse = |text: &[u8], server: &mut Server| {
            server.statistics.refused_connections += 1;
            if !is_encrypted {
                let _ = socket.write(text);
            }
        };
        if self.connections.len() >= self.server.configuration.clients_max.min(self.room) {
            return refuse(b"-ERR max number of clients reached\r\n", &mut self.server);
        }
        // Checked at the start, too; but clients can take the password away.
        if !is_local && self.server.turns_away() {
            return refuse(DENIED, &mut self.server);
        }
        let id = self.next_session;
        self.next_session += 1;
        let (descriptor, is_unix) = (socket.number(), matches!(socket, Socket::Unix(_)));
        if socket.tune(self.server.configuration.keep_alive).is_err() {
            return;
        }
        let stream = match &self.server.tls {
            Some(tls) if is_encrypted => Stream::encrypted(socket, tls),
            // A client that expects TLS gets no plain text.
            None if is_encrypted => return,
            _ => Ok(Stream::Plain(socket)),
        };
        let Ok(mut stream) = stream else { return };
        if self.poll.registry().register(stream.source(), token(id), Interest::READABLE).is_err() {
            return;
        }
        self.server.statistics.connections += 1;
        let mut client = Client::new(id, address.clone(), local_address, descriptor, now);
        (client.is_unix, client.is_local) = (is_unix, is_local);
        self.server.clients.insert(id, client);
        let session = Session::new(id, &self.server);
        self.server.update(&session, now);
        self.connections.insert(id, Connection::new(stream, session, now));
        self.server.event(Level::Verbose, "client_connected", &[("id", &id), ("address", &address), ("tls", &is_encrypted)]);
        self.activate(id);
    }

    fn remove(&mut self, id: u64) {
        if let Some(mut connection) = self.connections.remove(&id) {
            // Closing does it, too.
            let _ = self.poll.registry().deregister(connection.stream.source());
            self.held -= connection.held;
            connection.abandon(&mut self.keyspace, &mut self.server);
            self.keyspace.unwatch(id);
            self.keyspace.unwait(id);
            end_transfer(&mut self.keyspace, &mut self.server, id);
            self.server.leave(id);
            self.server.event(Level::Verbose, "client_gone", &[("id", &id)]);
        }
    }

    /// Does the work that is due ten times a second.
    fn tick(&mut self, now: u64) {
        if !self.ticks.is_due(now) {
            return;
        }
        self.accepts |= std::mem::take(&mut self.ticks.accept_again);
        self.server.look_at_rates(now);
        self.server.limit_tracking(&mut self.keyspace);
        let fsync = self.server.configuration.fsync;
        self.syncs.set(fsync);
        if fsync == Fsync::Always && self.keyspace.synced() < self.keyspace.committed() {
            // One has failed, perhaps because the medium was full; or this was not asked for when it was written.
            self.syncs.ask();
        }
        if let Err(error) = self.keyspace.flush_at_rest() {
            self.server.event(Level::Warning, "not_flushed", &[("why", &error)]);
        }
        self.look_at_clients(now);
        self.rest(now);
    }

    /// Removes keys whose deadline has passed: with each tick, and sooner while there are more than could be removed.
    fn expire(&mut self, now: u64) {
        if !self.ticks.expires(now) || self.server.keeps_expired || self.is_short_of_room {
            return;
        }
        let begun = self.server.monotonic_ns();
        loop {
            let notifies = self.server.configuration.events.is_on();
            if notifies {
                self.keyspace.note_changes();
            }
            let before = self.keyspace.expired();
            let removed = self.keyspace.remove_expired(ticking::EXPIRED_AT_ONCE);
            self.cause = self.keyspace.take_needs();
            if notifies {
                tell_expired(&mut self.keyspace, &mut self.server);
            }
            if self.server.tracking.is_on() {
                self.server.invalidate_stale(&mut self.keyspace, None);
            }
            self.deliver();
            match removed {
                Ok(removed) => {
                    let (expired, statistics) = (self.keyspace.expired(), &mut self.server.statistics);
                    statistics.expired += expired.keys - before.keys;
                    statistics.expired_fields += expired.fields - before.fields;
                    if removed < ticking::EXPIRED_AT_ONCE {
                        return;
                    }
                }
                Err(error) => {
                    self.keyspace.discard();
                    return self.refuse(&error.to_string());
                }
            }
            if self.server.monotonic_ns().saturating_sub(begun) > ticking::EXPIRING_NS {
                self.ticks.expiry = Some(now + ticking::EXPIRING_PAUSE_MS);
                return;
            }
        }
    }

    /// Looks at some of the clients, at each once in a second, so that many clients do not keep the others waiting.
    fn look_at_clients(&mut self, now: u64) {
        let share = (self.connections.len() / ticking::TICKS_PER_ROUND).max(ticking::ROUND_MIN);
        let ids: Vec<u64> = self.server.clients.range(self.looked_at..).map(|(id, _)| *id).take(share).collect();
        self.looked_at = ids.last().filter(|_| ids.len() == share).map_or(0, |last| last + 1);
        for id in ids {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let idle = now.saturating_sub(connection.active);
            let gives_back = idle >= ticking::IDLE_MS && connection.rest();
            // Clients of this turn get their replies at its end, and those of earlier turns that wait for a sync later.
            let is_served = connection.is_waiting() || connection.is_touched || connection.waits_for_sync();
            let is_silent_for_a_reason = is_served || self.server.hub.is_listening(id) || self.server.hub.is_monitor(id);
            if connection.is_known() {
                connection.known = now;
            }
            let (passed, limit) = match self.server.configuration.timeout {
                // Whatever the client sends meanwhile.
                _ if !connection.is_known() => (now.saturating_sub(connection.known), ticking::GREETING_SECONDS),
                _ if is_silent_for_a_reason => (idle, 0),
                timeout => (idle, timeout),
            };
            connection.is_dead |= limit > 0 && passed / 1000 >= limit;
            if connection.is_behind() {
                connection.check_output(&mut self.server, now);
            }
            if connection.is_dead || gives_back {
                self.touch(id);
            }
        }
    }
}

fn token(id: u64) -> Token {
    Token(usize::try_from(id).unwrap_or(usize::MAX))
}
