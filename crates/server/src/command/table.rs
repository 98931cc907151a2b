//! Commands as data: what a client may ask about them, and what the server checks before it runs one.

use super::{Context, Outcome, keyspecs, units};
use super::{about, absent, acl, config, latency, memory, shutdown, slowlog};
use super::{bitmaps, debug, geo, hyperloglog, lcs, sort};
use super::{clients, durability, pops, pubsub};
use super::{connection, hashes, info, keys, lists, scan, server, sets, sorted, sorted_algebra, sorted_ranges, strings, transactions};
use super::{dumps, functions, saving};
use super::{streams, streams_groups, streams_info, streams_read};
use std::collections::HashMap;
use std::sync::LazyLock;

/// What a command is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Strings.
    String,
    /// Keys of any type.
    Generic,
    /// Hashes.
    Hash,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Streams.
    Stream,
    /// Strings as bits.
    Bitmap,
    /// Counts of distinct elements.
    HyperLogLog,
    /// Positions on earth.
    Geo,
    /// Messages to those who listen.
    PubSub,
    /// The connection.
    Connection,
    /// The server.
    Server,
    /// Transactions.
    Transactions,
    /// Programs that run in the server.
    Scripting,
    /// Many servers together.
    Cluster,
}

impl Group {
    /// As `COMMAND DOCS` has it.
    pub fn name(self) -> &'static str {
        match self {
            Group::String => "string",
            Group::Generic => "generic",
            Group::Hash => "hash",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Stream => "stream",
            Group::Bitmap => "bitmap",
            Group::HyperLogLog => "hyperloglog",
            Group::Geo => "geo",
            Group::PubSub => "pubsub",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Transactions => "transactions",
            Group::Scripting => "scripting",
            Group::Cluster => "cluster",
        }
    }

    /// The category of access rules that goes with it.
    pub(super) fn category(self) -> Option<&'static str> {
        Some(match self {
            Group::String => "string",
            Group::Generic => "keyspace",
            Group::Hash => "hash",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sortedset",
            Group::Stream => "stream",
            Group::Bitmap => "bitmap",
            Group::HyperLogLog => "hyperloglog",
            Group::Geo => "geo",
            Group::PubSub => "pubsub",
            Group::Connection => "connection",
            Group::Transactions => "transaction",
            Group::Scripting => "scripting",
            Group::Server | Group::Cluster => return None,
        })
    }
}

/// Changes data.
pub(super) const WRITE: u32 = 1;
/// Reads data.
pub(super) const READ: u32 = 1 << 1;
/// Takes memory, so refused when there is none.
pub(super) const DENYOOM: u32 = 1 << 2;
/// For those who run the server.
pub(super) const ADMIN: u32 = 1 << 3;
/// Takes a time that does not depend on the data.
pub(super) const FAST: u32 = 1 << 4;
/// Allowed while data are loaded.
pub(super) const LOADING: u32 = 1 << 5;
/// Allowed on a replica that has lost its master.
pub(super) const STALE: u32 = 1 << 6;
/// Allowed before authentication.
pub(super) const NO_AUTH: u32 = 1 << 7;
/// Not for scripts.
pub(super) const NOSCRIPT: u32 = 1 << 8;
/// Not inside a transaction.
pub(super) const NO_MULTI: u32 = 1 << 9;
/// Where the keys are has to be read from the arguments.
pub(super) const MOVABLE: u32 = 1 << 10;
/// Runs inside a transaction instead of being queued.
pub(super) const IMMEDIATE: u32 = 1 << 11;
/// Can do harm that the others of its kind cannot.
pub(super) const DANGEROUS: u32 = 1 << 12;
/// May keep the client waiting.
pub(super) const BLOCKING: u32 = 1 << 20;
/// About messages.
pub(super) const PUBSUB: u32 = 1 << 21;
/// Others than this server may be concerned, so it waits while writes do.
pub(super) const MAY_REPLICATE: u32 = 1 << 22;

/// The names of flags as `COMMAND` gives them.
const FLAG_NAMES: &[(u32, &str)] = &[
    (WRITE, "write"),
    (READ, "readonly"),
    (DENYOOM, "denyoom"),
    (ADMIN, "admin"),
    (NOSCRIPT, "noscript"),
    (LOADING, "loading"),
    (STALE, "stale"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (NO_MULTI, "no_multi"),
    (MOVABLE, "movablekeys"),
    (BLOCKING, "blocking"),
    (PUBSUB, "pubsub"),
    (MAY_REPLICATE, "may_replicate"),
];

/// What runs a command; the first argument is its name.
pub type Run = fn(&mut Context, &[&[u8]]) -> Outcome;

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// In small letters.
    pub name: &'static str,
    /// Arguments, the name included; negative: at least so many.
    pub arity: i32,
    flags: u32,
    /// First key, last key (negative: counted from the end), distance between keys; zeros: no keys.
    pub keys: (i32, i32, i32),
    /// Words that it takes behind its name; none: anything.
    pub subcommands: &'static [&'static str],
    /// What it is about.
    pub group: Group,
    /// The version of Redis that had it first.
    pub since: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// What it costs.
    pub complexity: &'static str,
    /// Does it.
    pub run: Run,
}

impl Command {
    pub(super) const fn new(group: Group, name: &'static str, arity: i32, run: Run) -> Self {
        Command { name, arity, flags: 0, keys: (0, 0, 0), subcommands: &[], group, since: "1.0.0", summary: "", complexity: "O(1)", run }
    }

    pub(super) const fn flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }

    pub(super) const fn keys(mut self, first: i32, last: i32, step: i32) -> Self {
        self.keys = (first, last, step);
        self
    }

    pub(super) const fn subcommands(mut self, words: &'static [&'static str]) -> Self {
        self.subcommands = words;
        self
    }

    pub(super) const fn since(mut self, version: &'static str) -> Self {
        self.since = version;
        self
    }

    pub(super) const fn says(mut self, summary: &'static str, complexity: &'static str) -> Self {
        self.summary = summary;
        self.complexity = complexity;
        self
    }

    /// It has a flag.
    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn all_flags(&self) -> u32 {
        self.flags
    }

    /// So many arguments, the name included, are right.
    pub fn takes(&self, arguments: usize) -> bool {
        takes(self.arity, arguments)
    }

    /// It is about the server, not about data: no log of commands has it, and one that has is not to be obeyed.
    pub fn is_for_admins(&self) -> bool {
        self.has(ADMIN) && !self.has(WRITE)
    }

    /// The second word of a request, if it is a part of the command's name.
    pub fn subcommand(&self, arguments: &[&[u8]]) -> &'static str {
        let Some(word) = arguments.get(1).filter(|_| !self.subcommands.is_empty()) else { return "" };
        self.subcommands.iter().copied().find(|known| word.eq_ignore_ascii_case(known.as_bytes())).unwrap_or_default()
    }

    /// It knows this subcommand, or takes anything.
    pub fn knows(&self, word: &[u8]) -> bool {
        self.subcommands.is_empty() || self.subcommands.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
    }

    /// Which of the arguments are keys; `None` if it cannot be said from these arguments.
    pub fn key_positions(&self, arguments: &[&[u8]]) -> Option<Vec<usize>> {
        let unit = units::get(units::resolve(units::find(self.name.as_bytes())?, arguments)?);
        Some(keyspecs::keys(self, unit.specs, arguments)?.iter().map(|key| key.position).collect())
    }
}

/// The names of flags as `COMMAND` gives them.
pub(super) fn flag_names(flags: u32) -> impl Iterator<Item = &'static str> {
    FLAG_NAMES.iter().filter(move |(flag, _)| flags & flag != 0).map(|(_, name)| *name)
}

/// So many arguments are right; a negative number means at least as many as it says.
pub(super) fn takes(arity: i32, arguments: usize) -> bool {
    let least = usize::try_from(arity.unsigned_abs()).unwrap_or(usize::MAX);
    if arity < 0 { arguments >= least } else { arguments == least }
}

/// All commands, family by family.
pub const TABLE: &[&[Command]] = &[
    strings::COMMANDS,
    lcs::COMMANDS,
    bitmaps::COMMANDS,
    hyperloglog::COMMANDS,
    keys::COMMANDS,
    sort::COMMANDS,
    scan::COMMANDS,
    hashes::COMMANDS,
    lists::COMMANDS,
    sets::COMMANDS,
    sorted::COMMANDS,
    sorted_ranges::COMMANDS,
    sorted_algebra::COMMANDS,
    streams::COMMANDS,
    streams_read::COMMANDS,
    streams_groups::COMMANDS,
    streams_info::COMMANDS,
    geo::COMMANDS,
    connection::COMMANDS,
    server::COMMANDS,
    debug::COMMANDS,
    info::COMMANDS,
    transactions::COMMANDS,
    about::COMMANDS,
    absent::COMMANDS,
    acl::COMMANDS,
    config::COMMANDS,
    latency::COMMANDS,
    memory::COMMANDS,
    shutdown::COMMANDS,
    slowlog::COMMANDS,
    pops::COMMANDS,
    pubsub::COMMANDS,
    clients::COMMANDS,
    durability::COMMANDS,
    dumps::COMMANDS,
    saving::COMMANDS,
    functions::COMMANDS,
];

/// Commands by name, each with its number in [`units`].
static BY_NAME: LazyLock<HashMap<&'static [u8], (usize, &'static Command)>> = LazyLock::new(|| {
    let commands = units::all().iter().enumerate().filter(|(_, unit)| unit.parent.is_none());
    commands.map(|(number, unit)| (unit.command.name.as_bytes(), (number, unit.command))).collect()
});

/// The longest name, bytes, so that others are not looked for.
const NAME_MAX: usize = 32;

/// A command by its name, in capitals or not.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    find_numbered(name).map(|(_, command)| command)
}

/// The same, with its number in [`units`].
pub(super) fn find_numbered(name: &[u8]) -> Option<(usize, &'static Command)> {
    let mut lower = [0u8; NAME_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    BY_NAME.get(&*lower).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let all: Vec<&Command> = TABLE.iter().flat_map(|family| family.iter()).collect();
        assert_eq!(BY_NAME.len(), all.len(), "two commands of one name");
        for command in all {
            let name = command.name;
            assert!(name.len() <= NAME_MAX && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert!(!command.summary.is_empty() && !command.complexity.is_empty(), "{name} says nothing of itself");
            assert!(command.arity != 0 && find(name.to_ascii_uppercase().as_bytes()).is_some(), "{name}");
            assert!(!(command.has(WRITE) && command.has(READ)), "{name} writes or reads");
        }
        assert!(find(b"no such command").is_none() && find(&[b'x'; 1000]).is_none() && find(b"").is_none());
    }

    #[test]
    fn keys_are_found_among_arguments() {
        let keys = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            find(words[0]).and_then(|command| command.key_positions(&words))
        };
        assert_eq!(keys("get a"), Some(vec![1]));
        assert_eq!(keys("mset a 1 b 2"), Some(vec![1, 3]));
        assert_eq!(keys("mget a b c"), Some(vec![1, 2, 3]));
        assert_eq!(keys("ping"), Some(vec![]));
        assert_eq!(keys("rename a b"), Some(vec![1, 2]));
        assert_eq!(keys("sintercard 2 a b limit 1"), Some(vec![2, 3]));
        assert_eq!(keys("zunionstore d 2 a b"), Some(vec![1, 3, 4]));
        assert_eq!(keys("blmpop 0 2 a b left"), Some(vec![3, 4]));
        assert_eq!(keys("blpop a b 0"), Some(vec![1, 2]));
        assert_eq!(keys("zunionstore d 3 a b"), None);
        assert_eq!(keys("zunionstore d x a b"), None);
        assert_eq!(keys("xread count 2 block 0 streams streams b 0 0"), Some(vec![6, 7]));
        assert_eq!(keys("xreadgroup group streams c noack streams a >"), Some(vec![6]));
        assert_eq!(keys("xread count 2 streams a b 0"), None);
        assert_eq!(keys("xread count streams a 0"), None);
        assert_eq!(keys("xgroup create a g 0"), Some(vec![2]));
        assert_eq!(keys("bitop and d a b"), Some(vec![2, 3, 4]));
        assert_eq!(keys("geosearchstore d a fromlonlat 1 2 byradius 1 m"), Some(vec![1, 2]));
        assert_eq!(keys("georadius a 1 2 3 m"), Some(vec![1]));
        assert_eq!(keys("georadius a 1 2 3 m STORE x storedist d"), Some(vec![1, 7, 9]));
        assert_eq!(keys("georadiusbymember a b 3 m store"), Some(vec![1]));
        assert_eq!(keys("sort a"), Some(vec![1]));
        assert_eq!(keys("sort a by store get store limit store 2 STORE d desc"), Some(vec![1, 10]));
        assert_eq!(keys("sort_ro a store d"), Some(vec![1]));
    }
}
