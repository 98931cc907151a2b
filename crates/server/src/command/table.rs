//! The table of all commands, and the search by name.

use super::spec::Command;
use super::{about, absent, acl, config, latency, memory, replicaof, shutdown, slowlog};
use super::{bitmaps, conditional, debug, geo, hyperloglog, lcs, sort};
use super::{clients, durability, pops, pubsub};
use super::{
    connection, hash_deadlines, hashes, info, keys, lists, scan, server, sets, sorted, sorted_algebra, sorted_ranges, strings, transactions,
};
use super::{dumps, functions, migrate, replication, saving, scripts};
use super::{keyspecs, units};
use super::{streams, streams_groups, streams_info, streams_read, streams_references};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::LazyLock;

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

impl Command {
    /// Indices of the arguments that are keys; `None`: the arguments are malformed.
    pub fn key_positions(&self, arguments: &[&[u8]]) -> Option<Vec<usize>> {
        let unit = units::get(units::resolve(units::find(self.name.as_bytes())?, arguments)?);
        Some(keyspecs::keys(self, unit.specs, arguments)?.iter().map(|key| key.position).collect())
    }
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
    use super::super::spec::{READ, WRITE};
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
