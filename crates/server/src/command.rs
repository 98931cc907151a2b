//! The commands. Each file ends in a table of its commands, and `table` joins all tables.
//!
//! A command gets its arguments as slices of the received request, the first one being its name, and writes its reply. If it fails, its
//! partial reply is replaced by the error.

mod about;
mod absent;
mod acl;
mod arguments;
mod bitmaps;
mod blocking;
mod clients;
mod clients_filter;
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
mod memory;
mod metrics;
mod migrate;
mod pops;
mod pubsub;
mod replicaof;
mod replicas;
mod replication;
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
mod streams_info;
mod streams_read;
mod streams_references;
mod strings;
mod subcommand;
mod table;
#[cfg(test)]
mod tests;
mod tracking;
mod transactions;
mod transfers;
mod units;
mod usage;

pub use acl::Users;
pub use blocking::{Reason, Wait, give_up, resume};
pub use clients::{Buffers, Client, Intent, Pause};
pub use configuration::{Allowed, Configuration, Fsync};
pub use effects::before_commit;
pub use events::{Events, tell_ended};
pub use evicting::Excess;
pub use hub::{Hub, Post, Topic};
pub use metrics::metrics;
pub use migrate::end as end_transfer;
pub use replicas::{Replica, Replicas, Stage, Wish, behind_max};
pub use saving::Saving;
pub use scripting::{Alone, Late, Scripts};
pub use server::{Rates, Records, Server, Statistics};
pub use session::{Ended, LaterString, Session, execute, execute_in};
pub use spec::{Command, Group};
pub use steps::{end as end_steps, work};
pub use table::{TABLE, find};
pub use tracking::Tracking;
pub use transfers::Transfers;

use crate::keyspace::{self, Collection, Head, Keyspace, Kind};
use crate::resp::Writer;
use std::borrow::Cow;

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
fn help(context: &mut Context, name: &str, lines: &[&str]) {
    context.reply.array(lines.len() + 3);
    context.reply.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().chain(&["HELP", "    Print this help."]).for_each(|line| context.reply.simple(line));
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
}
