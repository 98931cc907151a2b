//! Replication as a primary: `PSYNC`, `SYNC` and `REPLCONF` of replicas, `ROLE`, and the section of `INFO`.
//!
//! A request for a synchronisation only says what the replica asks for. The network looks at it when the event-loop iteration is committed:
//! then it knows the offset that the data have.

use super::arguments::{integer, is};
use super::configuration::Class;
use super::replicaof::{self, offset};
use super::replicas::{Stage, Wish};
use super::spec::{ADMIN, ALLOW_BUSY, FAST, LOADING, NO_MULTI, NOSCRIPT, Run, STALE};
use super::{Command, Context, Failure, Group, Outcome, Replies, SYNTAX, Server};
use crate::log::Level;
use crate::number::parse_integer;
use crate::persist::Selection;
use crate::system;
use std::fmt::Write;

/// Bytes of an address that a replica may say, as in Redis.
const ADDRESS_MAX: usize = 255;

/// Too few replicas acknowledge in time.
const NO_REPLICAS: Failure = Failure::fixed("NOREPLICAS Not enough good replicas to write.");

const fn command(name: &'static str, arity: i32, flags: u32, run: Run) -> Command {
    Command::new(Group::Server, name, arity, run).flags(flags)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    command("psync", -3, ADMIN | NO_MULTI | NOSCRIPT, psync)
        .since("2.8.0")
        .says("Become a replica: get the stream from an offset on, or all data and the stream", "O(1)"),
    command("replconf", -1, ADMIN | NOSCRIPT | LOADING | STALE | ALLOW_BUSY, replconf)
        .since("3.0.0")
        .says("Say something of oneself as a replica, and acknowledge offsets of the stream", "O(1)"),
    command("role", 1, FAST | LOADING | NOSCRIPT | STALE, role)
        .since("2.8.12")
        .says("The server's role in replication, and its replicas with their offsets", "O(n), n being the number of replicas"),
    command("sync", 1, ADMIN | NO_MULTI | NOSCRIPT, sync).says("Become a replica: get all data and the stream", "O(1)"),
];

fn psync(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    if is_replica_or_monitor(context) {
        return Ok(());
    }
    if arguments.get(3).is_some_and(|word| is(word, "failover")) {
        replicaof::take_over(context.keyspace, context.server, arguments[1])?;
    }
    check_sync(context)?;
    let id = context.session.id;
    let offset = integer(arguments[2]).inspect_err(|_| context.server.event(Level::Warning, "replica_offset_wrong", &[("id", &id)]))?;
    begin(context, Wish::Continue(arguments[1].to_vec(), offset));
    Ok(())
}

fn sync(context: &mut Context, _: &[&[u8]]) -> Outcome {
    if is_replica_or_monitor(context) {
        return Ok(());
    }
    check_sync(context)?;
    begin(context, Wish::All);
    Ok(())
}

/// Whether the client is a replica already, or a monitor: as in Redis, its request for a synchronisation has no reply.
fn is_replica_or_monitor(context: &Context) -> bool {
    context.session.is_replica || context.server.hub.is_monitor(context.session.id)
}

fn check_sync(context: &mut Context) -> Outcome {
    replicaof::check_source(context.server)?;
    if context.reply.position() > 0 {
        // The stream could not be told from the replies.
        return Err(Failure::fixed("ERR SYNC and PSYNC are invalid with pending output"));
    }
    let replica = context.server.replicas.greet(context.session.id);
    if replica.selection != Selection::default() && !replica.finds_end {
        return Err(Failure::fixed("ERR Filtered replica requires EOF capability"));
    }
    Ok(())
}

/// Makes the client a replica, whose request the network looks at.
fn begin(context: &mut Context, wish: Wish) {
    let now = context.keyspace.now();
    context.session.is_replica = true;
    context.session.replies = Replies::On;
    let replica = context.server.replicas.greet(context.session.id);
    replica.is_old = wish == Wish::All;
    replica.wish = Some(wish);
    replica.enter(Stage::Waiting, now);
    let (name, id) = (context.server.replica_name(context.session.id), context.session.id);
    context.server.event(Level::Notice, "replica_asks", &[("id", &id), ("replica", &name)]);
}

fn replconf(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let options = arguments.get(1..).unwrap_or_default();
    if options.len() % 2 == 1 {
        return Err(SYNTAX);
    }
    let id = context.session.id;
    for (at, pair) in options.chunks_exact(2).enumerate() {
        let (word, value) = (pair[0], pair[1]);
        match () {
            () if is(word, "listening-port") => context.server.replicas.greet(id).port = integer(value)?,
            () if is(word, "ip-address") => {
                if value.len() > ADDRESS_MAX {
                    let length = value.len();
                    let why = format!("ERR REPLCONF ip-address provided by replica instance is too long: {length} bytes");
                    return Err(Failure::new(why));
                }
                // `INFO` has it between commas, in a line.
                if !value.iter().all(|byte| byte.is_ascii_graphic() && *byte != b',') {
                    return Err(Failure::fixed("ERR REPLCONF ip-address provided by replica instance is no address"));
                }
                context.server.replicas.greet(id).address = value.to_vec();
            }
            () if is(word, "capa") => {
                let replica = context.server.replicas.greet(id);
                replica.finds_end |= is(value, "eof");
                replica.takes_id |= is(value, "psync2");
            }
            () if is(word, "version") => context.server.replicas.greet(id).is_valkey_9 = is_valkey_9(value),
            () if is(word, "ack") => {
                acknowledge(context, options.get(2 * at..).unwrap_or_default());
                return Ok(());
            }
            () if is(word, "getack") => {
                // The reply to the primary goes out when everything before is committed.
                context.server.upstream.is_asked |= context.session.is_primary;
                return Ok(());
            }
            () if is(word, "rdb-only") => {
                let number = integer(value)?;
                if !(0..=1).contains(&number) {
                    return Err(Failure::fixed("ERR value is out of range, value must between 0 and 1"));
                }
                context.server.replicas.greet(id).takes_no_stream = number == 1;
            }
            () if is(word, "rdb-filter-only") => {
                let replica = context.server.replicas.greet(id);
                replica.selection = Selection { leaves_out_keys: true, leaves_out_functions: true };
                for part in value.split(u8::is_ascii_whitespace).filter(|part| !part.is_empty()) {
                    if !is(part, "functions") {
                        return Err(Failure::new([b"ERR Unsupported rdb-filter-only option: ", part].concat()));
                    }
                    replica.selection.leaves_out_functions = false;
                }
            }
            () => return Err(Failure::new([b"ERR Unrecognized REPLCONF option: ", word].concat())),
        }
    }
    context.reply.ok();
    Ok(())
}

/// Whether a replica that says this version of itself is a Valkey 9 or newer: no other says any, but this server, which says 9 as well.
fn is_valkey_9(version: &[u8]) -> bool {
    let major = version.split(|byte| *byte == b'.').next().unwrap_or_default();
    parse_integer(major).is_some_and(|major| major >= 9)
}

/// Takes `ACK offset`, perhaps with `FACK offset`, of a replica. There is no reply, also if the numbers are wrong.
fn acknowledge(context: &mut Context, options: &[&[u8]]) {
    let now = context.keyspace.now();
    if !context.session.is_replica {
        return;
    }
    let Some(replica) = context.server.replicas.get_mut(context.session.id) else { return };
    let number = |text: &[u8]| parse_integer(text).map(|number| u64::try_from(number).unwrap_or(0));
    let (offset, durable) = match options {
        [_, offset, word, durable, ..] if is(word, "fack") => (number(offset), number(durable).map(Some)),
        [_, offset, ..] => (number(offset), Some(None)),
        _ => return,
    };
    let (Some(offset), Some(durable)) = (offset, durable) else { return };
    replica.heard = now;
    if replica.stage < Stage::Loaded {
        // It cannot have the data that it has not been sent.
        return;
    }
    let has_news = Some(offset) > replica.acknowledged || durable > replica.durable;
    replica.acknowledged = replica.acknowledged.max(Some(offset));
    replica.durable = replica.durable.max(durable);
    if replica.stage == Stage::Loaded {
        replica.enter(Stage::Online, now);
    }
    context.server.replicas.has_news |= has_news;
}

impl Server {
    /// Address of a replica: the one that it says, or else that of its connection.
    pub(super) fn replica_ip(&self, id: u64) -> String {
        if let Some(replica) = self.replicas.get(id).filter(|replica| !replica.address.is_empty()) {
            return String::from_utf8_lossy(&replica.address).into_owned();
        }
        let address = self.clients.get(&id).map_or("", |client| client.address.as_str());
        let ip = address.rsplit_once(':').map_or(address, |(ip, _)| ip);
        ip.trim_start_matches('[').trim_end_matches(']').to_owned()
    }

    /// Address and port of a replica.
    pub fn replica_name(&self, id: u64) -> String {
        let port = self.replicas.get(id).map_or(0, |replica| replica.port);
        format!("{}:{port}", self.replica_ip(id))
    }

    /// Bytes of the stream that a replica with all data may be behind; 0: any number. It is not closed for bytes that are stored anyway.
    pub fn replica_behind_max(&self) -> u64 {
        match self.configuration.output_limits.of(Class::Replica).hard {
            0 => 0,
            hard => hard.max(self.configuration.replication.backlog_size),
        }
    }

    /// Fails if fewer replicas acknowledge in time than writes need (`min-replicas-to-write`).
    pub(super) fn check_replicas(&self) -> Outcome {
        let settings = &self.configuration.replication;
        let (least, seconds) = (settings.replicas_to_write, settings.lag_max_seconds);
        let is_enough = least == 0 || seconds == 0 || self.is_replica() || self.replicas.in_time(seconds, system::unix_ms()) >= least;
        if is_enough { Ok(()) } else { Err(NO_REPLICAS) }
    }
}

fn role(context: &mut Context, _: &[&[u8]]) -> Outcome {
    if replicaof::role_of_replica(context) {
        return Ok(());
    }
    let online: Vec<u64> = context.server.replicas.iter().filter(|(_, replica)| replica.is_online()).map(|(id, _)| id).collect();
    context.reply.array(3);
    context.reply.bulk(b"master");
    context.reply.integer(i64::try_from(offset(context.keyspace)).unwrap_or(i64::MAX));
    context.reply.array(online.len());
    for id in online {
        let (port, acknowledged) = context.server.replicas.get(id).map_or((0, None), |replica| (replica.port, replica.acknowledged));
        context.reply.array(3);
        context.reply.bulk(context.server.replica_ip(id).as_bytes());
        context.reply.bulk(port.to_string().as_bytes());
        context.reply.bulk(acknowledged.unwrap_or(0).to_string().as_bytes());
    }
    Ok(())
}

/// The section `replication` of `INFO`.
pub(super) fn info(context: &Context, out: &mut String) -> std::fmt::Result {
    let (server, now) = (&*context.server, context.keyspace.now());
    let settings = &server.configuration.replication;
    write!(out, "role:{}\r\n", if server.is_replica() { "slave" } else { "master" })?;
    replicaof::info(context, out)?;
    write!(out, "connected_slaves:{}\r\n", server.replicas.len())?;
    if settings.replicas_to_write > 0 && settings.lag_max_seconds > 0 {
        write!(out, "min_slaves_good_slaves:{}\r\n", server.replicas.in_time(settings.lag_max_seconds, now))?;
    }
    for (number, (id, replica)) in server.replicas.iter().enumerate() {
        let lag = if replica.is_online() { replica.silence(now) } else { 0 };
        let (ip, port, state, offset) = (server.replica_ip(id), replica.port, replica.stage.name(), replica.acknowledged.unwrap_or(0));
        write!(out, "slave{number}:ip={ip},port={port},state={state},offset={offset},lag={lag}\r\n")?;
    }
    write!(out, "master_failover_state:{}\r\n", server.upstream.failover.name())?;
    let (end, start) = (offset(context.keyspace), context.keyspace.backlog_start());
    let second = context.keyspace.stream().and_then(|position| position.second);
    match context.keyspace.stream() {
        Some(position) => write!(out, "master_replid:{}\r\n", position.id)?,
        None => write!(out, "master_replid:{}\r\n", server.run_id)?,
    }
    match second {
        // As in Redis, the offset of the first byte that only the second stream would have.
        Some((id, offset)) => write!(out, "master_replid2:{id}\r\nmaster_repl_offset:{end}\r\nsecond_repl_offset:{}\r\n", offset + 1)?,
        None => write!(out, "master_replid2:{}\r\nmaster_repl_offset:{end}\r\nsecond_repl_offset:-1\r\n", "0".repeat(40))?,
    }
    let has_stream = context.keyspace.stream().is_some();
    write!(out, "repl_backlog_active:{}\r\nrepl_backlog_size:{}\r\n", u8::from(has_stream), settings.backlog_size)?;
    let first = if has_stream { start + 1 } else { 0 };
    write!(out, "repl_backlog_first_byte_offset:{first}\r\nrepl_backlog_histlen:{}\r\n", end.saturating_sub(start))
}
