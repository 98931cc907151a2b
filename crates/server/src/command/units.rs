//! Units: commands and subcommands as one list, for access rules, statistics and `COMMAND`.
//!
//! Redis counts, describes and permits subcommands like commands of their own (`config|get`). The table of commands names them; their
//! properties are in this file.

use super::forms::{LoggedForm, form_of};
use super::keyspecs::{self, KeySpec};
use super::spec::{
    self, ADMIN, ALLOW_BUSY, BLOCKING, Command, DANGEROUS, DENYOOM, FAST, Group, LOADING, NOSCRIPT, PUBSUB, READ, SKIP_MONITOR, STALE,
    WRITE,
};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Categories of access rules, in the order of listings: bit n stands for the nth.
pub(super) const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// The bit of a category; 0: there is none of this name.
pub(super) fn category(name: &[u8]) -> u32 {
    CATEGORIES.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes())).map_or(0, |at| 1 << at)
}

/// Exceptions to the categories that follow from a command's group and flags: names, additional categories, and whether the group's
/// category applies.
const EXCEPTIONS: &[(&str, &str, bool)] = &[
    ("dbsize", "keyspace", true),
    ("flushall flushdb swapdb", "keyspace dangerous", true),
    ("info keys restore migrate", "dangerous", true),
    ("lastsave role", "admin dangerous", true),
    ("sort sort_ro", "set sortedset list dangerous", false),
    ("wait waitaof", "connection", false),
    ("asking readonly readwrite command", "connection", false),
    // A command that only has subcommands is in no category of a group.
    ("client function object pubsub script xgroup xinfo", "", false),
    ("pubsub|help", "", false),
    ("command|count command|docs command|getkeys command|getkeysandflags command|help command|info command|list", "connection", false),
];

/// A subcommand: its name, the number of its arguments (the command's name included, negative: at least), its flags, and the version of
/// Redis that had it first.
type Sub = (&'static str, i32, u32, &'static str);

const SETUP: u32 = ADMIN | LOADING | NOSCRIPT | STALE;
const ASK: u32 = LOADING | NOSCRIPT | STALE;
const HELP: u32 = LOADING | STALE;

/// Properties of subcommands, by command.
const SUBCOMMANDS: &[(&str, &[Sub])] = &[
    (
        "acl",
        &[
            ("cat", -2, ASK, "6.0.0"),
            ("deluser", -3, SETUP, "6.0.0"),
            ("dryrun", -4, SETUP, "7.0.0"),
            ("genpass", -2, ASK, "6.0.0"),
            ("getuser", 3, SETUP, "6.0.0"),
            ("help", 2, HELP, "6.0.0"),
            ("list", 2, SETUP, "6.0.0"),
            ("load", 2, SETUP, "6.0.0"),
            ("log", -2, SETUP, "6.0.0"),
            ("save", 2, SETUP, "6.0.0"),
            ("setuser", -3, SETUP, "6.0.0"),
            ("users", 2, SETUP, "6.0.0"),
            ("whoami", 2, ASK, "6.0.0"),
        ],
    ),
    (
        "client",
        &[
            ("caching", 3, ASK, "6.0.0"),
            ("capa", -3, ASK, "8.0.0"),
            ("getname", 2, ASK, "2.6.9"),
            ("getredir", 2, ASK, "6.0.0"),
            ("help", 2, HELP, "5.0.0"),
            ("id", 2, ASK, "5.0.0"),
            ("info", 2, ASK, "6.2.0"),
            ("kill", -3, SETUP, "2.4.0"),
            ("list", -2, SETUP, "2.4.0"),
            ("no-evict", 3, SETUP, "7.0.0"),
            ("no-touch", 3, ASK, "7.2.0"),
            ("pause", -3, SETUP, "2.9.50"),
            ("reply", 3, ASK, "3.2.0"),
            ("setinfo", 4, ASK, "7.2.0"),
            ("setname", 3, ASK, "2.6.9"),
            ("tracking", -3, ASK, "6.0.0"),
            ("trackinginfo", 2, ASK, "6.2.0"),
            ("unblock", -3, SETUP, "5.0.0"),
            ("unpause", 2, SETUP, "6.2.0"),
        ],
    ),
    (
        "cluster",
        &[
            ("addslots", -3, ADMIN | STALE, "3.0.0"),
            ("addslotsrange", -4, ADMIN | STALE, "7.0.0"),
            ("bumpepoch", 2, ADMIN | STALE, "3.0.0"),
            ("count-failure-reports", 3, ADMIN | STALE, "3.0.0"),
            ("countkeysinslot", 3, STALE, "3.0.0"),
            ("delslots", -3, ADMIN | STALE, "3.0.0"),
            ("delslotsrange", -4, ADMIN | STALE, "7.0.0"),
            ("failover", -2, ADMIN | STALE, "3.0.0"),
            ("flushslots", 2, ADMIN | STALE, "3.0.0"),
            ("forget", 3, ADMIN | STALE, "3.0.0"),
            ("getkeysinslot", 4, STALE, "3.0.0"),
            ("help", 2, HELP, "5.0.0"),
            ("info", 2, STALE, "3.0.0"),
            ("keyslot", 3, STALE, "3.0.0"),
            ("links", 2, STALE, "7.0.0"),
            ("meet", -4, ADMIN | STALE, "3.0.0"),
            ("myid", 2, STALE, "3.0.0"),
            ("myshardid", 2, STALE, "7.2.0"),
            ("nodes", 2, STALE, "3.0.0"),
            ("replicas", 3, ADMIN | STALE, "5.0.0"),
            ("replicate", 3, ADMIN | STALE, "3.0.0"),
            ("reset", -2, ADMIN | NOSCRIPT | STALE, "3.0.0"),
            ("saveconfig", 2, ADMIN | STALE, "3.0.0"),
            ("set-config-epoch", 3, ADMIN | STALE, "3.0.0"),
            ("setslot", -4, ADMIN | STALE, "3.0.0"),
            ("shards", 2, STALE, "7.0.0"),
            ("slaves", 3, ADMIN | STALE, "3.0.0"),
            ("slots", 2, STALE, "3.0.0"),
        ],
    ),
    (
        "command",
        &[
            ("count", 2, HELP, "2.8.13"),
            ("docs", -2, HELP, "7.0.0"),
            ("getkeys", -4, HELP, "2.8.13"),
            ("getkeysandflags", -4, HELP, "7.0.0"),
            ("help", 2, HELP, "5.0.0"),
            ("info", -2, HELP, "2.8.13"),
            ("list", -2, HELP, "7.0.0"),
        ],
    ),
    (
        "config",
        &[
            ("get", -3, SETUP, "2.0.0"),
            ("help", 2, HELP, "5.0.0"),
            ("resetstat", 2, SETUP, "2.0.0"),
            ("rewrite", 2, SETUP, "2.8.0"),
            ("set", -4, SETUP, "2.0.0"),
        ],
    ),
    (
        "function",
        &[
            ("delete", 3, WRITE | NOSCRIPT, "7.0.0"),
            ("dump", 2, NOSCRIPT, "7.0.0"),
            ("flush", -2, WRITE | NOSCRIPT, "7.0.0"),
            ("help", 2, HELP, "7.0.0"),
            ("kill", 2, NOSCRIPT | ALLOW_BUSY, "7.0.0"),
            ("list", -2, NOSCRIPT, "7.0.0"),
            ("load", -3, WRITE | DENYOOM | NOSCRIPT, "7.0.0"),
            ("restore", -3, WRITE | DENYOOM | NOSCRIPT, "7.0.0"),
            ("stats", 2, NOSCRIPT | ALLOW_BUSY, "7.0.0"),
        ],
    ),
    (
        "latency",
        &[
            ("doctor", 2, SETUP, "2.8.13"),
            ("graph", 3, SETUP, "2.8.13"),
            ("help", 2, HELP, "2.8.13"),
            ("histogram", -2, SETUP, "7.0.0"),
            ("history", 3, SETUP, "2.8.13"),
            ("latest", 2, SETUP, "2.8.13"),
            ("reset", -2, SETUP, "2.8.13"),
        ],
    ),
    (
        "memory",
        &[
            ("doctor", 2, 0, "4.0.0"),
            ("help", 2, HELP, "4.0.0"),
            ("malloc-stats", 2, 0, "4.0.0"),
            ("purge", 2, 0, "4.0.0"),
            ("stats", 2, 0, "4.0.0"),
            ("usage", -3, READ, "4.0.0"),
        ],
    ),
    (
        "module",
        &[
            ("help", 2, HELP, "5.0.0"),
            ("list", 2, ADMIN | NOSCRIPT, "4.0.0"),
            ("load", -3, ADMIN | NOSCRIPT, "4.0.0"),
            ("loadex", -3, ADMIN | NOSCRIPT, "7.0.0"),
            ("unload", 3, ADMIN | NOSCRIPT, "4.0.0"),
        ],
    ),
    (
        "object",
        &[
            ("encoding", 3, READ, "2.2.3"),
            ("freq", 3, READ, "4.0.0"),
            ("help", 2, HELP, "6.2.0"),
            ("idletime", 3, READ, "2.2.3"),
            ("refcount", 3, READ, "2.2.3"),
        ],
    ),
    (
        "pubsub",
        &[
            ("channels", -2, PUBSUB | HELP, "2.8.0"),
            ("help", 2, HELP, "6.2.0"),
            ("numpat", 2, PUBSUB | HELP, "2.8.0"),
            ("numsub", -2, PUBSUB | HELP, "2.8.0"),
            ("shardchannels", -2, PUBSUB | HELP, "7.0.0"),
            ("shardnumsub", -2, PUBSUB | HELP, "7.0.0"),
        ],
    ),
    (
        "script",
        &[
            ("debug", 3, NOSCRIPT, "3.2.0"),
            ("exists", -3, NOSCRIPT, "2.6.0"),
            ("flush", -2, NOSCRIPT, "2.6.0"),
            ("help", 2, HELP, "5.0.0"),
            ("kill", 2, NOSCRIPT | ALLOW_BUSY, "2.6.0"),
            ("load", 3, NOSCRIPT | STALE, "2.6.0"),
        ],
    ),
    (
        "slowlog",
        &[
            ("get", -2, ADMIN | HELP, "2.2.12"),
            ("help", 2, HELP, "6.2.0"),
            ("len", 2, ADMIN | HELP, "2.2.12"),
            ("reset", 2, ADMIN | HELP, "2.2.12"),
        ],
    ),
    (
        "xgroup",
        &[
            ("create", -5, WRITE | DENYOOM, "5.0.0"),
            ("createconsumer", 5, WRITE | DENYOOM, "6.2.0"),
            ("delconsumer", 5, WRITE, "5.0.0"),
            ("destroy", 4, WRITE, "5.0.0"),
            ("help", 2, HELP, "5.0.0"),
            ("setid", -5, WRITE, "5.0.0"),
        ],
    ),
    ("xinfo", &[("consumers", 4, READ, "5.0.0"), ("groups", 3, READ, "5.0.0"), ("help", 2, HELP, "5.0.0"), ("stream", -3, READ, "5.0.0")]),
];

/// A command or a subcommand, described for access rules, statistics and `COMMAND`.
#[derive(Debug)]
pub(super) struct Unit {
    /// The name in lower case; of a subcommand `COMMAND|SUBCOMMAND`.
    pub name: String,
    /// The command, or the command of the subcommand.
    pub command: &'static Command,
    /// Number of arguments, the command's name included; negative: at least so many.
    pub arity: i32,
    pub flags: u32,
    pub since: &'static str,
    /// Bits of [`CATEGORIES`].
    pub categories: u32,
    pub specs: &'static [KeySpec],
    /// Numbers of the subcommands; empty: there are none.
    pub subcommands: std::ops::Range<usize>,
    /// Number of the subcommand's command; `None`: the unit is a command.
    pub parent: Option<usize>,
    /// Form in which effects are noted, if not by the flags.
    pub form: Option<LoggedForm>,
}

impl Unit {
    /// Whether this number of arguments, the name included, is right.
    pub fn takes(&self, arguments: usize) -> bool {
        spec::takes(self.arity, arguments)
    }

    /// Whether the unit is a command that runs scripts or functions.
    pub fn runs_scripts(&self) -> bool {
        self.flags & SKIP_MONITOR != 0
    }

    /// The names of the categories, each with an `@`.
    pub fn category_names(&self) -> impl Iterator<Item = String> {
        CATEGORIES.iter().enumerate().filter(|(at, _)| self.categories & (1 << at) != 0).map(|(_, name)| format!("@{name}"))
    }
}

/// Categories of a command or subcommand.
fn categories(name: &str, group: Group, flags: u32) -> u32 {
    let exception = EXCEPTIONS.iter().find(|(names, ..)| names.split(' ').any(|known| known == name));
    let (besides, has_group) = exception.map_or(("", true), |(_, besides, has_group)| (*besides, *has_group));
    let by_flag: [(u32, &[&str]); 7] = [
        (WRITE, &["write"]),
        (READ, &["read"]),
        (ADMIN, &["admin", "dangerous"]),
        (DANGEROUS, &["dangerous"]),
        (PUBSUB, &["pubsub"]),
        (BLOCKING, &["blocking"]),
        (FAST, &["fast"]),
    ];
    // The commands inside a script decide what it reads.
    let flags = if group == Group::Scripting { flags & !READ } else { flags };
    let flagged = by_flag.iter().filter(|(flag, _)| flags & flag != 0).flat_map(|(_, names)| names.iter().copied());
    let pace = (flags & FAST == 0).then_some("slow");
    let of_group = group.category().filter(|_| has_group);
    let all = besides.split_ascii_whitespace().chain(flagged).chain(pace).chain(of_group);
    all.fold(0, |bits, name| bits | category(name.as_bytes()))
}

fn unit(command: &'static Command, name: String, (arity, flags, since): (i32, u32, &'static str)) -> Unit {
    let categories = categories(&name, command.group, flags);
    let specs = keyspecs::of(&name);
    Unit { name, command, arity, flags, since, categories, specs, subcommands: 0..0, parent: None, form: form_of(command.name) }
}

/// Adds a command and its subcommands. A command with subcommands has flags of its own only if it can be called without any.
fn add(units: &mut Vec<Unit>, command: &'static Command) {
    let at = units.len();
    let Some((_, known)) = SUBCOMMANDS.iter().find(|(name, _)| *name == command.name) else {
        units.push(unit(command, command.name.to_owned(), (command.arity, command.all_flags(), command.since)));
        return;
    };
    let own = if command.takes(1) { command.all_flags() } else { 0 };
    units.push(unit(command, command.name.to_owned(), (command.arity, own, command.since)));
    for word in command.subcommands {
        // A subcommand without an entry has the properties of its command.
        let (_, arity, flags, since) =
            known.iter().find(|(name, ..)| name == word).copied().unwrap_or((*word, command.arity, command.all_flags(), command.since));
        let mut sub = unit(command, format!("{}|{word}", command.name), (arity, flags, since));
        sub.parent = Some(at);
        units.push(sub);
    }
    units[at].subcommands = at + 1..units.len();
}

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

/// Commands and subcommands of a table, with the lookup by name. A server, its users, its statistics and its configuration refer to the
/// units of all commands, which `table` provides as the default of `&Units`.
pub struct Units {
    /// The number of a unit is its index.
    all: Vec<Unit>,
    /// Numbers of commands and subcommands by name.
    numbers: HashMap<Vec<u8>, usize>,
    /// Commands by name, each with its number.
    commands: HashMap<Name, (usize, &'static Command), BuildHasherDefault<NameHasher>>,
}

impl fmt::Debug for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Units({})", self.all.len())
    }
}

impl PartialEq for Units {
    fn eq(&self, other: &Units) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Units {}

impl Units {
    /// The units of a table of commands.
    pub(super) fn new(table: &'static [&'static [Command]]) -> Units {
        let mut all = Vec::new();
        table.iter().flat_map(|family| family.iter()).for_each(|command| add(&mut all, command));
        let numbers = all.iter().enumerate().map(|(number, unit)| (unit.name.clone().into_bytes(), number)).collect();
        let commands = all.iter().enumerate().filter(|(_, unit)| unit.parent.is_none());
        let commands = commands.filter_map(|(number, unit)| Some((Name::of(unit.name.as_bytes())?, (number, unit.command)))).collect();
        Units { all, numbers, commands }
    }

    /// All units; the number of a unit is its index.
    pub(super) fn all(&self) -> &[Unit] {
        &self.all
    }

    /// The unit with this number, which must exist.
    pub(super) fn get(&self, number: usize) -> &Unit {
        &self.all[number]
    }

    /// The number of a command or a subcommand (`config|get`), in capitals or not.
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        self.numbers.get(name.to_ascii_lowercase().as_slice()).copied()
    }

    /// A command by its own name, in capitals or not, with its number.
    pub(super) fn command(&self, name: &[u8]) -> Option<(usize, &'static Command)> {
        self.commands.get(&Name::of(name)?).copied()
    }

    /// The number of the command or subcommand of a request; `None`: the command has no such subcommand.
    pub(super) fn resolve(&self, command: usize, arguments: &[&[u8]]) -> Option<usize> {
        let whole = &self.all[command];
        let Some(word) = arguments.get(1).filter(|_| !whole.subcommands.is_empty()) else { return Some(command) };
        let is_it = |at: &usize| {
            let sub = self.all[*at].name.as_bytes().get(whole.name.len() + 1..);
            sub.is_some_and(|sub| word.eq_ignore_ascii_case(sub))
        };
        whole.subcommands.clone().find(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::super::TABLE;
    use super::*;

    #[test]
    fn every_command_is_a_unit_and_so_are_subcommands() {
        let units = <&Units>::default();
        assert_eq!(units.numbers.len(), units.all.len(), "two of one name");
        for (at, unit) in units.all.iter().enumerate() {
            assert_eq!(units.find(unit.name.to_ascii_uppercase().as_bytes()), Some(at), "{}", unit.name);
            assert!(unit.categories != 0, "{} has no category", unit.name);
        }
        let config = units.find(b"config").unwrap();
        assert_eq!(units.resolve(config, &[b"CONFIG", b"Get", b"*"]), units.find(b"config|get"));
        assert_eq!(units.resolve(config, &[b"CONFIG"]), Some(config));
        assert_eq!(units.resolve(config, &[b"CONFIG", b"no"]), None);
    }

    #[test]
    fn subcommands_of_the_table_are_described() {
        for command in TABLE.iter().flat_map(|family| family.iter()).filter(|command| !command.subcommands.is_empty()) {
            // Words behind `DEBUG` are no commands of their own.
            if command.name == "debug" {
                continue;
            }
            let known = SUBCOMMANDS.iter().find(|(name, _)| *name == command.name);
            let described = |word: &&str| known.is_some_and(|(_, subs)| subs.iter().any(|(name, ..)| name == word));
            let missing: Vec<&str> = command.subcommands.iter().copied().filter(|word| !described(word)).collect();
            assert!(missing.is_empty(), "{}: {missing:?}", command.name);
        }
    }

    #[test]
    fn categories_are_those_of_the_protocol() {
        let units = <&Units>::default();
        for (name, expected) in [
            ("get", "@read @string @fast"),
            ("set", "@write @string @slow"),
            ("flushall", "@keyspace @write @slow @dangerous"),
            ("config", "@slow"),
            ("config|get", "@admin @slow @dangerous"),
            ("config|help", "@slow"),
            ("client|kill", "@admin @slow @dangerous @connection"),
            ("client|id", "@slow @connection"),
            ("command", "@slow @connection"),
            ("multi", "@fast @transaction"),
            ("object|encoding", "@keyspace @read @slow"),
            ("keys", "@keyspace @read @slow @dangerous"),
            ("info", "@slow @dangerous"),
            ("acl", "@slow"),
            ("acl|whoami", "@slow"),
            ("acl|setuser", "@admin @slow @dangerous"),
        ] {
            let unit = units.get(units.find(name.as_bytes()).unwrap());
            assert_eq!(unit.category_names().collect::<Vec<_>>().join(" "), expected, "{name}");
        }
    }
}
