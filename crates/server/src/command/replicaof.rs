//! A replica's side of replication: choosing a primary (`REPLICAOF`), what a replica refuses, and handing the primary's role over
//! (`FAILOVER`).
//!
//! The commands only decide who the primary is. The event loop sees the change and makes the link (`net/upstream.rs`).

use super::arguments::{integer, integer_or, is};
use super::blocking::Reason;
use super::replicas::{Replica, Stage};
use super::spec::{ADMIN, NOSCRIPT, Run, STALE, WRITE};
use super::units::Unit;
use super::{Command, Context, Failure, Group, Outcome, SYNTAX, Server, Session, before_commit};
use crate::keyspace::{Keyspace, Passed};
use crate::log::Level;
use crate::replication::{Address, Failover, State};
use std::fmt::Write;

const fn role(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Server, name, arity, run).flags(ADMIN | NOSCRIPT | STALE)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    role("failover", -1, failover).since("6.2.0").says("Hand the role of the primary over to a replica", "O(1)"),
    role("replicaof", 3, replicaof).since("5.0.0").says("Follow a primary, or none any more", "O(1)"),
    role("slaveof", 3, replicaof).says("Follow a primary, or none any more", "O(1)"),
];

pub(super) const READ_ONLY: Failure = Failure::fixed("READONLY You can't write against a read only replica.");
const LINK_DOWN: Failure = Failure::fixed("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");

/// Offset of the stream that the server has committed; 0 without a stream.
pub(super) fn offset(keyspace: &Keyspace) -> u64 {
    keyspace.stream().map_or(0, |position| position.offset)
}

impl Server {
    /// Whether the server is a replica.
    pub fn is_replica(&self) -> bool {
        self.configuration.following.primary.is_some()
    }

    /// Whether a replica serves no data, as they may be old.
    pub(super) fn is_stale(&self) -> bool {
        self.is_replica() && !self.configuration.following.serves_stale && !self.upstream.is_up()
    }

    /// Whether a session must not write, as the data are the primary's.
    pub(super) fn is_read_only(&self, session: &Session) -> bool {
        self.is_replica() && self.configuration.following.is_read_only && !session.is_primary
    }

    /// Checks whether a session may write to a replica.
    pub(super) fn check_replica(&self, session: &Session, writes: bool) -> Outcome {
        if writes && self.is_read_only(session) { Err(READ_ONLY) } else { Ok(()) }
    }

    /// Checks whether a replica that has lost its primary serves a request.
    pub(super) fn check_stale(&self, serves: bool) -> Outcome {
        if !serves && self.is_stale() { Err(LINK_DOWN) } else { Ok(()) }
    }

    /// Treatment of keys whose deadline has passed, by a command. A replica removes none by itself, except for the writes of its own
    /// clients; to the primary's commands they exist. While writes are paused, only a write that runs nevertheless removes any, behind
    /// `FAILOVER` in a transaction for example: replicas, to which such keys exist, must remove the key before they repeat the write.
    pub(super) fn passed(&self, session: &Session, unit: &Unit, now: u64) -> Passed {
        if !self.is_replica() {
            let removes = unit.flags & WRITE != 0 || self.pause.is_over(now);
            return if removes { Passed::Removed } else { Passed::Hidden };
        }
        match () {
            () if session.is_primary => Passed::Kept,
            () if unit.flags & WRITE != 0 && !self.configuration.following.is_read_only => Passed::Removed,
            () => Passed::Hidden,
        }
    }

    /// Follows a primary. The event loop makes the link; what was noted before is part of the stream still.
    pub fn follow(&mut self, keyspace: &mut Keyspace, primary: Address) {
        self.event(Level::Notice, "follows", &[("primary", &primary)]);
        self.configuration.following.primary = Some(primary);
        self.leave_primary();
        for id in keyspace.waiters() {
            keyspace.unwait(id);
            self.unblocked.push((id, Reason::Demoted));
        }
    }

    /// Stops following a primary: the server is a primary from here on, under a new id of its stream. Everything of the old primary is in
    /// the engine.
    ///
    /// # Errors
    /// Errors of the engine: the server is a replica still, and the turn is to be dropped.
    pub fn promote(&mut self, keyspace: &mut Keyspace) -> Outcome {
        before_commit(keyspace, self);
        self.replication.lead(keyspace, &mut self.feed)?;
        self.configuration.following.primary = None;
        self.leave_primary();
        keyspace.treat_passed(Passed::Removed);
        keyspace.forget_own_deadlines();
        // They learn the new id when they come back, and go on where they were.
        self.close_replicas();
        let stream = keyspace.stream().map_or_else(|| "none".to_owned(), |position| position.id.to_string());
        self.event(Level::Notice, "promoted", &[("stream", &stream)]);
        Ok(())
    }

    /// Takes nothing more of the primary that was followed so far; the event loop gives the link up.
    fn leave_primary(&mut self) {
        if let Some(id) = self.upstream.session() {
            self.kill(id);
        }
        self.upstream.state = State::Down;
        self.upstream.down_since = None;
        self.upstream.is_changed = true;
    }

    /// Closes the connections of all replicas.
    pub fn close_replicas(&mut self) {
        for id in self.replicas.iter().map(|(id, _)| id).collect::<Vec<_>>() {
            self.kill(id);
        }
    }

    /// Address of a replica that has all of the stream: of the given one, or of any.
    pub fn replica_with_all(&self, keyspace: &Keyspace, at: Option<&Address>) -> Option<Address> {
        let end = offset(keyspace);
        let online = self.replicas.iter().filter(|(_, replica)| {
            let has_all = replica.stage == Stage::Online && replica.acknowledged == Some(end);
            has_all && (1..=i64::from(u16::MAX)).contains(&replica.port)
        });
        online.map(|(id, replica)| self.address_of(id, replica)).find(|address| at.is_none_or(|at| at == address))
    }

    /// Address under which a replica can be reached.
    fn address_of(&self, id: u64, replica: &Replica) -> Address {
        Address { host: self.replica_ip(id), port: u16::try_from(replica.port).unwrap_or(0) }
    }

    /// The replica at an address. A replica that has not said its port, or said one that no server has, is at none.
    fn replica_at(&self, at: &Address) -> Option<&Replica> {
        if at.port == 0 {
            return None;
        }
        let mut all = self.replicas.iter();
        all.find(|(id, replica)| self.address_of(*id, replica) == *at).map(|(_, replica)| replica)
    }

    /// Ends a handover that runs.
    pub fn end_failover(&mut self) {
        self.upstream.failover = Failover::None;
        self.pause.hand_over(false);
    }

    /// Gives a handover up. A server that follows the chosen replica already is a primary again.
    ///
    /// # Errors
    /// Errors of [`Server::promote`]: the handover goes on, and the turn is to be dropped.
    pub fn abort_failover(&mut self, keyspace: &mut Keyspace, why: &str) -> Outcome {
        if matches!(self.upstream.failover, Failover::Handing { .. }) {
            self.promote(keyspace)?;
        }
        self.event(Level::Warning, "failover_aborted", &[("state", &self.upstream.failover.name()), ("why", &why)]);
        self.end_failover();
        Ok(())
    }
}

fn replicaof(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let Context { keyspace, server, session, reply, .. } = context;
    if server.upstream.failover.runs() {
        return Err(Failure::fixed("ERR REPLICAOF not allowed while failing over."));
    }
    if is(arguments[1], "no") && is(arguments[2], "one") {
        if server.is_replica() {
            server.promote(keyspace)?;
        }
        reply.ok();
        return Ok(());
    }
    if server.replicas.has(session.id) {
        return Err(Failure::fixed("ERR Command is not valid when client is a replica."));
    }
    const PORT: Failure = Failure::fixed("ERR Invalid master port");
    let port = u16::try_from(integer_or(arguments[2], PORT)?).map_err(|_| PORT)?;
    let primary = Address { host: String::from_utf8_lossy(arguments[1]).into_owned(), port };
    let is_same = |known: &Address| known.port == port && known.host.eq_ignore_ascii_case(&primary.host);
    if server.configuration.following.primary.as_ref().is_some_and(is_same) {
        reply.simple("OK Already connected to specified master");
        return Ok(());
    }
    server.follow(keyspace, primary);
    reply.ok();
    Ok(())
}

/// Arguments of `FAILOVER`.
#[derive(Default)]
struct Wanted {
    to: Option<Address>,
    timeout: Option<u64>,
    forces: bool,
}

impl Wanted {
    fn parse(arguments: &[&[u8]]) -> Result<Wanted, Failure> {
        let mut wanted = Wanted::default();
        let mut rest = arguments;
        while let Some((word, behind)) = rest.split_first() {
            rest = match behind {
                [timeout, behind @ ..] if is(word, "timeout") && wanted.timeout.is_none() => {
                    let ms = u64::try_from(integer(timeout)?).ok().filter(|ms| *ms > 0);
                    wanted.timeout = Some(ms.ok_or(Failure::fixed("ERR FAILOVER timeout must be greater than 0"))?);
                    behind
                }
                [host, port, behind @ ..] if is(word, "to") && wanted.to.is_none() => {
                    // A port that no server has is that of no replica.
                    let port = u16::try_from(integer(port)?).unwrap_or(0);
                    wanted.to = Some(Address { host: String::from_utf8_lossy(host).into_owned(), port });
                    behind
                }
                behind if is(word, "force") && !wanted.forces => {
                    wanted.forces = true;
                    behind
                }
                _ => return Err(SYNTAX),
            };
        }
        Ok(wanted)
    }
}

fn failover(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let Context { keyspace, server, reply, .. } = context;
    if arguments.len() == 2 && is(arguments[1], "abort") {
        if !server.upstream.failover.runs() {
            return Err(Failure::fixed("ERR No failover in progress."));
        }
        server.abort_failover(keyspace, "Failover manually aborted")?;
        reply.ok();
        return Ok(());
    }
    let Wanted { to, timeout, forces } = Wanted::parse(&arguments[1..])?;
    let fail = |text| Err(Failure::fixed(text));
    if server.upstream.failover.runs() {
        return fail("ERR FAILOVER already in progress.");
    }
    if server.is_replica() {
        return fail("ERR FAILOVER is not valid when server is a replica.");
    }
    if server.replicas.is_empty() {
        return fail("ERR FAILOVER requires connected replicas.");
    }
    if forces && (timeout.is_none() || to.is_none()) {
        return fail("ERR FAILOVER with force option requires both a timeout and target HOST and IP.");
    }
    if let Some(to) = &to {
        let Some(replica) = server.replica_at(to) else { return fail("ERR FAILOVER target HOST and PORT is not a replica.") };
        if !replica.is_online() {
            return fail("ERR FAILOVER target replica is not online.");
        }
    }
    let until = timeout.map(|ms| keyspace.now().saturating_add(ms));
    server.event(Level::Notice, "failover_requested", &[("timeout_ms", &timeout.unwrap_or(0)), ("forces", &forces)]);
    server.upstream.failover = Failover::Waiting { to, until, forces };
    server.pause.hand_over(true);
    server.replicas.asks = true;
    reply.ok();
    Ok(())
}

/// `PSYNC .. FAILOVER`: the primary hands its role over to this replica. A primary that has taken over serves the former one, which asks
/// again if it has not got the reply.
///
/// # Errors
/// The server is a primary with another stream, or follows another stream.
pub(super) fn take_over(keyspace: &mut Keyspace, server: &mut Server, stream: &[u8]) -> Outcome {
    if !server.is_replica() {
        let is_ours = keyspace.same_until(stream).is_some();
        return if is_ours { Ok(()) } else { Err(Failure::fixed("ERR PSYNC FAILOVER can't be sent to a master.")) };
    }
    if keyspace.stream().is_none_or(|position| !position.id.as_bytes().eq_ignore_ascii_case(stream)) {
        return Err(Failure::fixed("ERR PSYNC FAILOVER replid must match my replid."));
    }
    keyspace.tell_stream_id();
    server.promote(keyspace)
}

/// Whether a server in this state has no stream to give to replicas of its own.
///
/// # Errors
/// Says so.
pub(super) fn check_source(server: &Server) -> Outcome {
    if server.upstream.failover.runs() {
        return Err(Failure::fixed("NOMASTERLINK Can't SYNC while failing over"));
    }
    if server.is_replica() && !server.upstream.is_up() {
        return Err(Failure::fixed("NOMASTERLINK Can't SYNC while not connected with my master"));
    }
    Ok(())
}

/// The lines of `INFO replication` that a replica has behind its role.
pub(super) fn info(context: &Context, out: &mut String) -> std::fmt::Result {
    let Context { keyspace, server, .. } = context;
    let settings = &server.configuration.following;
    let Some(primary) = &settings.primary else { return Ok(()) };
    let seconds = |since: u64| i64::try_from(keyspace.now().saturating_sub(since) / 1000).unwrap_or(i64::MAX);
    let upstream = &server.upstream;
    let client = upstream.session().and_then(|session| server.clients.get(&session));
    let heard = client.map_or(-1, |client| seconds(client.active));
    let (link, data, applied) = (if upstream.is_up() { "up" } else { "down" }, upstream.data(), offset(keyspace));
    write!(out, "master_host:{}\r\nmaster_port:{}\r\n", primary.host, primary.port)?;
    write!(out, "master_link_status:{link}\r\nmaster_last_io_seconds_ago:{heard}\r\n")?;
    write!(out, "master_sync_in_progress:{}\r\n", u8::from(data.is_some()))?;
    let read = applied + client.map_or(0, |client| client.buffers.input as u64);
    write!(out, "slave_read_repl_offset:{read}\r\nslave_repl_offset:{applied}\r\n")?;
    if let Some((total, read, at)) = data {
        let percent = if total == 0 { 0.0 } else { read as f64 / total as f64 * 100.0 };
        write!(out, "master_sync_total_bytes:{total}\r\nmaster_sync_read_bytes:{read}\r\n")?;
        // Redis counts what it does not know as negative.
        let left = i64::try_from(total).unwrap_or(i64::MAX).saturating_sub(i64::try_from(read).unwrap_or(i64::MAX));
        write!(out, "master_sync_left_bytes:{left}\r\n")?;
        write!(out, "master_sync_perc:{percent:.2}\r\nmaster_sync_last_io_seconds_ago:{}\r\n", seconds(at))?;
    }
    if !upstream.is_up() {
        write!(out, "master_link_down_since_seconds:{}\r\n", upstream.down_since.map_or(-1, seconds))?;
    }
    write!(out, "slave_priority:{}\r\nslave_read_only:{}\r\n", settings.priority, u8::from(settings.is_read_only))?;
    write!(out, "replica_announced:{}\r\n", u8::from(settings.is_announced))
}

/// The reply to `ROLE` of a replica; false: the server is none.
pub(super) fn role_of_replica(context: &mut Context) -> bool {
    let Some(primary) = &context.server.configuration.following.primary else { return false };
    let upstream = &context.server.upstream;
    let applied = if upstream.is_up() { i64::try_from(offset(context.keyspace)).unwrap_or(i64::MAX) } else { -1 };
    let reply = &mut context.reply;
    reply.array(5);
    reply.bulk(b"slave");
    reply.bulk(primary.host.as_bytes());
    reply.integer(primary.port.into());
    reply.bulk(upstream.name().as_bytes());
    reply.integer(applied);
    true
}
