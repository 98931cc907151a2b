//! A command as data: its group, its flags, and what the server checks before it runs it.

use super::{Context, Outcome};

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
        match self {
            Group::Generic => Some("keyspace"),
            Group::SortedSet => Some("sortedset"),
            Group::Transactions => Some("transaction"),
            Group::Server | Group::Cluster => None,
            other => Some(other.name()),
        }
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

/// Flag of commands that may need a new id of a collection or consumer, as all commands with `DENYOOM` may.
pub(super) const NEEDS_IDS: u32 = 1 << 27;

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

/// A function that finds the positions of the keys among a request's arguments; `None`: the arguments are malformed.
pub(super) type FindKeys = fn(&[&[u8]]) -> Option<Vec<usize>>;

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// The name, in lower case.
    pub name: &'static str,
    /// Number of arguments, the name included; negative: at least so many.
    pub arity: i32,
    flags: u32,
    /// Finds the positions of keys that stand among options, by parsing the arguments as the command does: a search for a word such as
    /// `STREAMS` could find it where it is no option (a group named `streams`).
    pub(super) finds_keys: Option<FindKeys>,
    /// First key, last key (negative: counted from the end), step between keys; zeros: no keys.
    pub keys: (i32, i32, i32),
    /// Subcommands; empty: any word is an argument.
    pub subcommands: &'static [&'static str],
    /// Descriptions of subcommands: lines of their arguments, such as `GET <pattern>`, and under each of them indented text.
    pub(super) help: &'static [&'static str],
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
        let (keys, since) = ((0, 0, 0), "1.0.0");
        Command {
            name,
            arity,
            flags: 0,
            finds_keys: None,
            keys,
            subcommands: &[],
            help: &[],
            group,
            since,
            summary: "",
            complexity: "O(1)",
            run,
        }
    }

    pub(super) const fn flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }

    pub(super) const fn keys(mut self, first: i32, last: i32, step: i32) -> Self {
        self.keys = (first, last, step);
        self
    }

    pub(super) const fn finds_keys(mut self, find: FindKeys) -> Self {
        self.finds_keys = Some(find);
        self
    }

    pub(super) const fn subcommands(mut self, words: &'static [&'static str], help: &'static [&'static str]) -> Self {
        (self.subcommands, self.help) = (words, help);
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
