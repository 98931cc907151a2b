//! The table of all commands.

use super::spec::Command;
use super::units::Units;
use super::{about, absent, acl, config, latency, memory, replicaof, shutdown, slowlog};
use super::{bitmaps, conditional, debug, geo, hyperloglog, lcs, sort};
use super::{clients, durability, pops, pubsub};
use super::{
    connection, hash_deadlines, hashes, info, keys, lists, scan, server, sets, sorted, sorted_algebra, sorted_ranges, strings, transactions,
};
use super::{dumps, functions, migrate, replication, saving, scripts};
use super::{streams, streams_groups, streams_info, streams_read, streams_references};
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

static UNITS: LazyLock<Units> = LazyLock::new(|| Units::new(TABLE));

/// The units of [`TABLE`], to which a new server, its users, its statistics and its configuration refer.
impl Default for &Units {
    fn default() -> Self {
        &UNITS
    }
}

/// Finds a command by name, in capitals or not.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    UNITS.command(name).map(|(_, command)| command)
}

#[cfg(test)]
mod tests {
    use super::super::keyspecs;
    use super::super::spec::{READ, WRITE};
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_is_whole() {
        let all: Vec<&Command> = TABLE.iter().flat_map(|family| family.iter()).collect();
        let names: BTreeSet<&str> = all.iter().map(|command| command.name).collect();
        assert_eq!(names.len(), all.len(), "two commands of one name");
        for command in all {
            let name = command.name;
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_-".contains(&byte)), "{name}");
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
            let unit = UNITS.get(UNITS.resolve(UNITS.find(words[0])?, &words)?);
            let keys = keyspecs::keys(unit.command, unit.specs, &words)?;
            Some(keys.iter().map(|key| key.position).collect::<Vec<_>>())
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
