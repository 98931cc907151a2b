//! Commands as data: what clients may ask about them, and what the server checks before it runs one.

use super::{Context, Outcome, keyspecs, units};
use super::{about, absent, acl, config, latency, memory, replicaof, shutdown, slowlog};
use super::{bitmaps, conditional, debug, geo, hyperloglog, lcs, sort};
use super::{clients, durability, pops, pubsub};
use super::{
    connection, hash_deadlines, hashes, info, keys, lists, scan, server, sets, sorted, sorted_algebra, sorted_ranges, strings, transactions,
};
use super::{dumps, functions, migrate, replication, saving, scripts};
use super::{streams, streams_groups, streams_info, streams_read, streams_references};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::LazyLock;

/// Group of commands, by type of data or by subject.
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
    /// Strings as bitmaps.
    Bitmap,
    /// HyperLogLogs.
    HyperLogLog,
    /// Positions on earth.
    Geo,
    /// Publishing messages and subscriptions.
    PubSub,
    /// The connection.
    Connection,
    /// The server.
    Server,
    /// Transactions.
    Transactions,
    /// Scripts that run in the server.
    Scripting,
    /// Clusters of servers.
    Cluster,
}

impl Group {
    /// The name in `COMMAND DOCS`.
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

    /// The ACL category of the group.
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
/// Takes memory, and is refused when there is none.
pub(super) const DENYOOM: u32 = 1 << 2;
/// For administrators.
pub(super) const ADMIN: u32 = 1 << 3;
/// Takes a time that does not depend on the data.
pub(super) const FAST: u32 = 1 << 4;
/// Allowed while data is loaded.
pub(super) const LOADING: u32 = 1 << 5;
/// Allowed on a replica that has lost its master.
pub(super) const STALE: u32 = 1 << 6;
/// Allowed before authentication.
pub(super) const NO_AUTH: u32 = 1 << 7;
/// Not for scripts.
pub(super) const NOSCRIPT: u32 = 1 << 8;
/// Not inside a transaction.
pub(super) const NO_MULTI: u32 = 1 << 9;
/// Keys have to be found by parsing the arguments.
pub(super) const MOVABLE: u32 = 1 << 10;
/// Runs inside a transaction instead of being queued.
pub(super) const IMMEDIATE: u32 = 1 << 11;
/// More dangerous than other commands of its group.
pub(super) const DANGEROUS: u32 = 1 << 12;
/// Flag of commands for keys that are being moved to a server of a cluster (`ASKING`).
pub(super) const ASKING: u32 = 1 << 13;
/// May block the client.
pub(super) const BLOCKING: u32 = 1 << 20;
/// About publishing messages and subscriptions.
pub(super) const PUBSUB: u32 = 1 << 21;
/// May concern other servers, so `CLIENT PAUSE WRITE` delays it.
pub(super) const MAY_REPLICATE: u32 = 1 << 22;

/// Flag of commands that monitors see before they run, rather than after.
pub(super) const SKIP_MONITOR: u32 = 1 << 23;
/// Flag of commands that may be called without keys, although they take keys.
pub(super) const NO_MANDATORY_KEYS: u32 = 1 << 24;
/// Flag of commands that are allowed while a late script runs.
pub(super) const ALLOW_BUSY: u32 = 1 << 25;

/// Flag of commands that do not count as uses of their keys.
pub(super) const KEEPS_USE: u32 = 1 << 26;

/// Names of the flags, as `COMMAND` shows them.
const FLAG_NAMES: &[(u32, &str)] = &[
    (WRITE, "write"),
    (READ, "readonly"),
    (DENYOOM, "denyoom"),
    (ADMIN, "admin"),
    (NOSCRIPT, "noscript"),
    (LOADING, "loading"),
    (STALE, "stale"),
    (SKIP_MONITOR, "skip_monitor"),
    (ASKING, "asking"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (NO_MULTI, "no_multi"),
    (NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (MOVABLE, "movablekeys"),
    (BLOCKING, "blocking"),
    (PUBSUB, "pubsub"),
    (ALLOW_BUSY, "allow_busy"),
];

/// A function that runs a command; the first argument is the command's name.
pub type Run = fn(&mut Context, &[&[u8]]) -> Outcome;

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// The name, in lower case.
    pub name: &'static str,
    /// Number of arguments, the name included; negative: at least so many.
    pub arity: i32,
    flags: u32,
    /// First key, last key (negative: counted from the end), step between keys; zeros: no keys.
    pub keys: (i32, i32, i32),
    /// Subcommands; empty: any word is an argument.
    pub subcommands: &'static [&'static str],
    /// The group of the command.
    pub group: Group,
    /// The first version of Redis that has the command.
    pub since: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// Complexity.
    pub complexity: &'static str,
    /// The function that runs it.
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

    /// Whether the command has a flag.
    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn all_flags(&self) -> u32 {
        self.flags
    }

    /// Whether this number of arguments, the name included, is right.
    pub fn takes(&self, arguments: usize) -> bool {
        takes(self.arity, arguments)
    }

    /// Whether the command concerns this server or another one rather than data. A log of commands never has it: an import of such a log
    /// fails.
    pub fn is_for_admins(&self) -> bool {
        self.has(ADMIN) && !self.has(WRITE) || self.name == "migrate"
    }

    /// Whether the command runs scripts or functions.
    pub fn runs_scripts(&self) -> bool {
        self.has(SKIP_MONITOR)
    }

    /// The subcommand of a request; empty: the command has none.
    pub fn subcommand(&self, arguments: &[&[u8]]) -> &'static str {
        let Some(word) = arguments.get(1).filter(|_| !self.subcommands.is_empty()) else { return "" };
        self.subcommands.iter().copied().find(|known| word.eq_ignore_ascii_case(known.as_bytes())).unwrap_or_default()
    }

    /// Whether a word is a subcommand of the command, or the command has no subcommands.
    pub fn knows(&self, word: &[u8]) -> bool {
        self.subcommands.is_empty() || self.subcommands.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
    }

    /// Indices of the arguments that are keys; `None`: the arguments are malformed.
    pub fn key_positions(&self, arguments: &[&[u8]]) -> Option<Vec<usize>> {
        let unit = units::get(units::resolve(units::find(self.name.as_bytes())?, arguments)?);
        Some(keyspecs::keys(self, unit.specs, arguments)?.iter().map(|key| key.position).collect())
    }
}

/// Names of flags, as `COMMAND` shows them.
pub(super) fn flag_names(flags: u32) -> impl Iterator<Item = &'static str> {
    FLAG_NAMES.iter().filter(move |(flag, _)| flags & flag != 0).map(|(_, name)| *name)
}

/// Whether a number of arguments is right; a negative `arity` is a minimum.
pub(super) fn takes(arity: i32, arguments: usize) -> bool {
    let least = usize::try_from(arity.unsigned_abs()).unwrap_or(usize::MAX);
    if arity < 0 { arguments >= least } else { arguments == least }
}

/// All commands, family by family.
pub const TABLE: &[&[Command]] = &[
    strings::COMMANDS,
    conditional::COMMANDS,
    lcs::COMMANDS,
    bitmaps::COMMANDS,
    hyperloglog::COMMANDS,
    keys::COMMANDS,
    sort::COMMANDS,
    scan::COMMANDS,
    hashes::COMMANDS,
    hash_deadlines::COMMANDS,
    lists::COMMANDS,
    sets::COMMANDS,
    sorted::COMMANDS,
    sorted_ranges::COMMANDS,
    sorted_algebra::COMMANDS,
    streams::COMMANDS,
    streams_read::COMMANDS,
    streams_groups::COMMANDS,
    streams_references::COMMANDS,
    streams_info::COMMANDS,
    geo::COMMANDS,
    connection::COMMANDS,
    server::COMMANDS,
    debug::COMMANDS,
    info::COMMANDS,
    transactions::COMMANDS,
    about::COMMANDS,
    absent::COMMANDS,
    replicaof::COMMANDS,
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
    migrate::COMMANDS,
    replication::COMMANDS,
    saving::COMMANDS,
    scripts::COMMANDS,
    functions::COMMANDS,
];

/// Length of the longest name, bytes: longer ones are not looked up.
const NAME_MAX: usize = 32;

/// A name of at most [`NAME_MAX`] bytes in lower case, with zeros behind, and its length.
#[derive(PartialEq, Eq)]
struct Name([u64; NAME_MAX / 8], usize);

impl Name {
    fn of(name: &[u8]) -> Option<Name> {
        let mut lower = [0u8; NAME_MAX];
        lower.get_mut(..name.len())?.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let mut words = [0; NAME_MAX / 8];
        words.iter_mut().zip(lower.as_chunks::<8>().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
        Some(Name(words, name.len()))
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.0.iter().fold(0, |mixed: u64, word| mixed.rotate_left(23) ^ word));
    }
}

/// Hasher for names of commands. The table's keys are constants, so that no client can make them collide.
#[derive(Default)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        let mixed = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0.rotate_left(8) ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

/// Commands by name, each with its number in [`units`].
type ByName = HashMap<Name, (usize, &'static Command), BuildHasherDefault<NameHasher>>;

static BY_NAME: LazyLock<ByName> = LazyLock::new(|| {
    let commands = units::all().iter().enumerate().filter(|(_, unit)| unit.parent.is_none());
    commands.filter_map(|(number, unit)| Some((Name::of(unit.command.name.as_bytes())?, (number, unit.command)))).collect()
});

/// Finds a command by name, in capitals or not.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    find_numbered(name).map(|(_, command)| command)
}

/// Like [`find`], with the command's number in [`units`].
pub(super) fn find_numbered(name: &[u8]) -> Option<(usize, &'static Command)> {
    BY_NAME.get(&Name::of(name)?).copied()
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
            assert!(name.len() <= NAME_MAX && name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_-".contains(&byte)), "{name}");
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
