//! The commands. Each file has a table of its commands, and `table` joins all tables. `units` looks commands up in the joined table, to
//! which each server has a reference.
//!
//! From the bottom: `spec` (a command as data) and `units`; the families of commands, one file each; `session` (the run of a request);
//! `resuming` (requests that go on after a wait, or in steps), `transactions` and `scripting` (commands that run others); `table`.
//!
//! A command gets its arguments as slices of the received request, the first one being its name, and writes its reply. If it fails, its
//! partial reply is replaced by the error.

mod about;
mod absent;
mod acl;
mod arguments;
mod bitmaps;
mod blocking;
mod client;
mod clients;
mod clients_filter;
mod comparison;
mod conditional;
mod config;
pub mod configuration;
mod connection;
mod debug;
mod digest;
mod dumps;
mod durability;
mod effects;
mod encoding;
mod events;
mod evicting;
mod forms;
mod functions;
mod geo;
mod hash_deadlines;
mod hashes;
mod hub;
mod hyperloglog;
mod info;
mod keys;
mod keyspecs;
mod latency;
mod lcs;
mod lists;
mod members;
mod memory;
mod metrics;
mod migrate;
mod pops;
mod pubsub;
mod replicaof;
mod replicas;
mod replication;
mod resuming;
mod saving;
mod scan;
mod scripting;
mod scripts;
mod server;
mod session;
mod sets;
mod shutdown;
mod slowlog;
mod sort;
mod sorted;
mod sorted_algebra;
mod sorted_ranges;
mod spec;
mod steps;
mod streams;
mod streams_groups;
mod streams_ids;
mod streams_info;
mod streams_read;
mod streams_references;
mod strings;
mod subcommand;
mod syntax;
mod table;
#[cfg(test)]
mod tests;
mod tracking;
mod transactions;
mod transfers;
mod units;
mod usage;

pub use acl::Users;
pub use blocking::{Reason, Wait};
pub use client::{Buffers, Client, request_name};
pub use clients::Pause;
pub use configuration::{Allowed, Configuration, Fsync};
pub use effects::before_commit;
pub use events::{Events, tell_ended};
pub use evicting::Excess;
pub use hub::{Hub, Post, Topic};
pub use metrics::metrics;
pub use migrate::end as end_transfer;
pub use replicas::{Replica, Replicas, Stage, Wish, behind_max};
pub use resuming::{give_up, resume, work};
pub use saving::Saving;
pub use scripting::Scripts;
pub use server::{Rates, Statistics};
pub use session::{Intent, execute, execute_in};
pub use spec::{Command, Group};
pub use steps::end as end_steps;
pub use table::{TABLE, find};
pub use tracking::Tracking;
pub use transfers::Transfers;

use crate::append::AppendLog;
use crate::feed::Feed;
use crate::keyspace::{self, Collection, Head, Keyspace, Kind, StringReader, Upload};
use crate::log::Log;
use crate::persist::LongDump;
use crate::replication::{Replication, Upstream};
use crate::resp::{Protocol, Writer};
use crate::tls::Tls;
use blocking::Waiting;
use configuration::Supervised;
use latency::Monitor;
use session::Multi;
use slowlog::Slowlog;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use steps::Steps;
use units::Units;
use usage::{Stopwatch, Usage};

/// Everything a command works with.
pub struct Context<'a> {
    /// The data.
    pub keyspace: &'a mut Keyspace,
    /// The server and its other clients.
    pub server: &'a mut Server,
    /// The client.
    pub session: &'a mut Session,
    /// The network, which serves other clients while a script is late.
    pub late: &'a mut dyn Late,
    /// Writer of the reply.
    pub reply: Writer<'a>,
}

/// State that all clients share, besides the data.
#[derive(Debug, Default)]
pub struct Server {
    /// The table of commands.
    pub units: &'static Units,
    /// The settings.
    pub configuration: Configuration,
    /// Largest `maxclients` that the process's descriptors allow; `None`: they set no limit.
    pub clients_possible: Option<usize>,
    /// Clients by session.
    pub clients: BTreeMap<u64, Client>,
    /// Clients to be closed, already removed from `clients`.
    pub killed: Vec<u64>,
    /// Clients whose wait has been ended by another, already removed from the keyspace's queues.
    pub unblocked: Vec<(u64, Reason)>,
    /// Subscriptions and monitors, and messages to them.
    pub hub: Hub,
    /// Clients that keep copies of values, and what they have read.
    pub tracking: Tracking,
    /// `CLIENT PAUSE`.
    pub pause: Pause,
    /// Counts since the start.
    pub statistics: Statistics,
    /// Data beyond `maxdata`.
    pub excess: Excess,
    /// State of `SAVE` and `BGSAVE`.
    pub saving: Saving,
    /// Values on their way to other servers.
    pub transfers: Transfers,
    /// Scripts and functions.
    pub scripts: Scripts,
    /// Effects of requests, for the AOF and for replicas.
    pub feed: Feed,
    /// The AOF, if there is one.
    pub append: AppendLog,
    /// The replication stream.
    pub replication: Replication,
    /// The link to the primary, if the server is a replica.
    pub upstream: Upstream,
    /// Replicas of this server.
    pub replicas: Replicas,
    /// When the server started, unix milliseconds.
    pub started: u64,
    /// 40 hexadecimal digits that differ from start to start.
    pub run_id: String,
    /// Expired keys are removed only when they are accessed.
    pub keeps_expired: bool,
    /// Writing requests wait, as the engine could take more writes only after a flush.
    pub is_short_of_room: bool,
    /// Requests that may add data wait, as keys are evicted too slowly.
    pub is_behind_evicting: bool,
    /// Users and their permissions.
    pub users: Users,
    /// Setup of TLS connections; `None`: there is no TLS.
    pub tls: Option<Tls>,
    /// Log of events.
    pub log: Log,
    /// The process manager that was detected.
    pub supervised: Supervised,
    /// The server was told to end, and ends after this event-loop iteration, or when replicas have everything.
    pub is_ending: bool,
    /// The server does not wait for replicas when it ends.
    pub ends_now: bool,
    /// Until when the server waits for replicas before it ends, unix milliseconds, and the offset that they have to acknowledge.
    pub ends_at: Option<(u64, u64)>,
    /// Records of commands: usage, slow log, latency.
    pub records: Records,
}

/// Records of commands: usage, slow log, latency.
#[derive(Debug, Default)]
pub struct Records {
    usage: Usage,
    slowlog: Slowlog,
    latency: Monitor,
    stopwatch: Stopwatch,
    /// Directives without effect that the log has already mentioned.
    told: BTreeSet<&'static str>,
}

/// State of a client's connection.
#[derive(Debug, Default)]
pub struct Session {
    /// Number of the session; never reused for another client.
    pub id: u64,
    /// The database that commands work on.
    pub db: usize,
    /// RESP version of the replies.
    pub protocol: Protocol,
    /// Name given by `CLIENT SETNAME`.
    pub name: Vec<u8>,
    /// Name and version of the client's library, given by `CLIENT SETINFO`.
    pub library: [Vec<u8>; 2],
    /// Whether all commands may be used, not only those for authentication.
    pub is_authenticated: bool,
    /// The number of the client's user.
    user: u64,
    /// The command of the last request, also if it was refused; empty: there is no such command.
    pub last_command: &'static str,
    /// The subcommand of the last request, if it has one.
    pub last_subcommand: &'static str,
    replies: Replies,
    multi: Option<Multi>,
    /// The connection is closed after the reply.
    pub closes: bool,
    /// Whether the client has asked for the end of the server, and waits for it.
    pub awaits_end: bool,
    /// Whether the client subscribes to anything.
    listens: bool,
    /// Whether the client is exempt from being closed when connections take too much memory (`CLIENT NO-EVICT`).
    stays: bool,
    /// Whether commands of the client leave access times of keys unchanged (`CLIENT NO-TOUCH`).
    leaves_no_trace: bool,
    /// Whether `CLIENT CACHING` has been called for the next request or transaction.
    caching: bool,
    /// Number of commands whose keys were remembered because the client tracks keys.
    reads: u64,
    /// Whether the commands of a transaction or of a script are running.
    is_in_exec: bool,
    /// Whether the session is that of a script.
    is_script: bool,
    /// Whether the session is that of this replica's primary, or of a script of it.
    pub is_primary: bool,
    /// Whether the requests are those of a log, which were run before.
    pub repeats_log: bool,
    /// Whether the client is a replica: it gets the stream, and no replies.
    pub is_replica: bool,
    /// Position in a replication stream behind the client's last request, and so behind all its effects: the stream's number
    /// ([`Keyspace::stream_number`]) and the offset.
    written: (u64, u64),
    /// Readers that effects are kept from: bits of `redis.set_repl`.
    kept_from: u8,
    /// The wait that the command that has just run asks for.
    asks: Option<Wait>,
    /// The blocked request.
    waiting: Option<Waiting>,
    /// Whether a blocked request is being run again.
    is_resumed: bool,
    /// The key whose change has led to that run.
    woken: Option<Vec<u8>>,
    /// The value of the running request, if it was stored in the keyspace while it was received.
    pub uploaded: Option<Upload>,
    /// Whether the request's value was in the keyspace when the command began.
    pub is_uploaded: bool,
    /// Long strings in the replies of the request, each with its position in the output.
    pub later: Vec<(usize, LaterString)>,
    /// Whether the caller of the session also works on requests in steps.
    pub can_step: bool,
    /// The request that is worked on in steps.
    steps: Option<Box<Steps>>,
}

/// Replies that a client wants (`CLIENT REPLY`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Replies {
    /// All replies.
    #[default]
    On,
    /// No replies.
    Off,
    /// No reply to this command, nor to the next one.
    SkipNext,
    /// No reply to this command, then all.
    Skip,
}

/// A long string in a reply, read while the reply is sent.
#[derive(Debug)]
pub enum LaterString {
    /// The string itself.
    Plain(StringReader),
    /// The string serialized by `DUMP`.
    Dump(LongDump),
}

impl LaterString {
    /// Bytes that are still to be read.
    pub fn left(&self) -> u64 {
        match self {
            LaterString::Plain(reader) => reader.left(),
            LaterString::Dump(dump) => dump.left(),
        }
    }

    /// Appends the next bytes to `out`, about `most` at most.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn read(&mut self, most: usize, out: &mut Vec<u8>) -> keyspace::Result<()> {
        match self {
            LaterString::Plain(reader) => reader.read(most, out),
            LaterString::Dump(dump) => dump.read(most, out),
        }
    }
}

/// The network, which serves other clients while a script is late.
pub trait Late {
    /// Serves other clients while the late script waits.
    fn serve(&mut self, keyspace: &mut Keyspace, server: &mut Server);

    /// Whether a request that runs a script which may take long returns [`Ended::CommitsFirst`] while there are uncommitted writes.
    fn commits_first(&self) -> bool;
}

/// Implementation of [`Late`] without a network: no other client waits for the end of a script.
#[derive(Debug)]
pub struct Alone;

impl Late for Alone {
    fn serve(&mut self, _: &mut Keyspace, _: &mut Server) {}

    fn commits_first(&self) -> bool {
        false
    }
}

/// Action for the connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Go on with the next request.
    Open,
    /// Send the replies and close.
    Closes,
    /// The engine failed: drop the event-loop iteration.
    EngineFailed,
    /// The request runs a script that may take long, and was not run: the caller commits earlier writes, whose replies can leave then, and
    /// runs it again.
    CommitsFirst,
}

/// Why a command has not written its reply.
#[derive(Debug)]
pub enum Failure {
    /// The request is wrong; the text starts with its code.
    Reply(Cow<'static, [u8]>),
    /// The keyspace refused, or the engine failed.
    Keyspace(keyspace::Error),
    /// An error of a command within a script, which has counted the error already.
    Counted(Vec<u8>),
    /// No error: the request goes on in steps, and has no reply yet.
    InSteps,
}

/// Result of a command that writes its own reply.
pub type Outcome = Result<(), Failure>;

impl From<keyspace::Error> for Failure {
    fn from(error: keyspace::Error) -> Self {
        Failure::Keyspace(error)
    }
}

impl Failure {
    /// An error with a text of its own.
    pub(crate) fn new(text: impl Into<Vec<u8>>) -> Self {
        Failure::Reply(Cow::Owned(text.into()))
    }

    /// An error with a constant text.
    pub(crate) const fn fixed(text: &'static str) -> Self {
        Failure::Reply(Cow::Borrowed(text.as_bytes()))
    }

    /// The text of the error reply.
    pub fn text(&self) -> Cow<'_, [u8]> {
        match self {
            Failure::Reply(text) => Cow::Borrowed(text),
            Failure::Counted(text) => Cow::Borrowed(text),
            Failure::Keyspace(error) => Cow::Owned(error.to_string().into_bytes()),
            Failure::InSteps => Cow::Borrowed(b"ERR the request goes on in steps"),
        }
    }

    /// Whether the event-loop iteration has to be dropped, as data could not be read.
    pub fn is_engine(&self) -> bool {
        matches!(self, Failure::Keyspace(keyspace::Error::Engine(_) | keyspace::Error::Damaged(_)))
    }
}

const SYNTAX: Failure = Failure::fixed("ERR syntax error");
const NOT_INTEGER: Failure = Failure::fixed("ERR value is not an integer or out of range");
const NOT_FLOAT: Failure = Failure::fixed("ERR value is not a valid float");
const OUT_OF_RANGE: Failure = Failure::fixed("ERR value is out of range");
const NOT_POSITIVE: Failure = Failure::fixed("ERR value is out of range, must be positive");
const NO_SUCH_KEY: Failure = Failure::fixed("ERR no such key");
const WOULD_OVERFLOW: Failure = Failure::fixed("ERR increment or decrement would overflow");
const NOT_FINITE: Failure = Failure::fixed("ERR increment would produce NaN or Infinity");
const DB_INDEX: Failure = Failure::fixed("ERR DB index is out of range");

fn wrong_arity(name: &[u8]) -> Failure {
    let name = name.to_ascii_lowercase();
    Failure::new([b"ERR wrong number of arguments for '", &name[..], b"' command"].concat())
}

/// The error for an unknown subcommand.
fn unknown_subcommand(arguments: &[&[u8]]) -> Failure {
    let name = arguments.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
    let sub = arguments.get(1).copied().unwrap_or_default();
    let sub = sub.get(..sub.len().min(128)).unwrap_or_default();
    Failure::new([b"ERR unknown subcommand '", sub, b"'. Try ", &name[..], b" HELP."].concat())
}

/// Replies with the help of a command with subcommands.
fn help(context: &mut Context, name: &str, lines: &[&str]) -> Outcome {
    context.reply.array(lines.len() + 3);
    context.reply.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().chain(&["HELP", "    Print this help."]).for_each(|line| context.reply.simple(line));
    Ok(())
}

impl Context<'_> {
    /// The client's database.
    fn db(&self) -> usize {
        self.session.db
    }

    /// The collection at a key, if it exists; it must have this type.
    fn find(&mut self, key: &[u8], kind: Kind) -> Result<Option<Collection>, Failure> {
        Ok(self.keyspace.collection(self.session.db, key, kind)?)
    }

    /// The head of a stream, if the key exists; it must hold a stream.
    fn find_stream(&mut self, key: &[u8]) -> Result<Option<Head>, Failure> {
        Ok(self.keyspace.find_kind(self.session.db, key, Kind::Stream)?)
    }

    /// Runs the part of a command that reads keys, and counts its lookups (`keyspace_hits`, `keyspace_misses`). Later lookups of the
    /// command do not count: each key that a command reads counts once, however often the command looks it up.
    fn counted<T>(&mut self, part: impl FnOnce(&mut Self) -> T) -> T {
        self.keyspace.count_lookups(true);
        let result = part(self);
        self.keyspace.count_lookups(false);
        result
    }

    /// Replies with an error, and counts it.
    fn refuse(&mut self, failure: &Failure) {
        let text = failure.text();
        self.reply.error(&text);
        if !matches!(failure, Failure::Counted(_)) {
            self.server.statistics.errors += 1;
            self.server.records.usage.error(&text);
        }
    }
}
