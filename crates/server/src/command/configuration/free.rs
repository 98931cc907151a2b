//! Names of Redis's configuration that have no effect here, whatever they say. They are accepted with every value that Redis accepts and
//! remembered, so that what sets them and asks for them again goes on: tools, and Redis's own tests. A name is here only if nobody loses
//! anything that it promises; where that is not so, it has one value (`FIXED`) or is refused (`ABSENT`).

use super::Why;
use super::parameters::{bytes, number, yes_or_no};

/// What Redis accepts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Values {
    YesNo,
    Integer(i64, i64),
    Memory(u64, u64),
    /// One of these words, blanks between them.
    Word(&'static str),
    /// Pairs of seconds and changes.
    Saves,
    Text,
}

/// A name without effect.
#[derive(Debug, Clone, Copy)]
pub struct Free {
    /// Names, blanks between them, which are the same one: what is set under one is shown under all.
    pub names: &'static str,
    /// What is shown until it is set.
    pub default: &'static str,
    values: Values,
    /// Why it has none.
    pub why: &'static str,
}

impl Free {
    /// The first of its names.
    pub(super) fn name(&self) -> &'static str {
        self.names.split(' ').next().unwrap_or_default()
    }

    /// What is accepted, for people.
    pub fn accepts(&self) -> String {
        match self.values {
            Values::YesNo => "`no` or `yes`".into(),
            Values::Integer(low, high) => format!("{low} to {high}"),
            Values::Memory(low, high) => format!("{low} to {high} bytes"),
            Values::Word(words) => words.split(' ').map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
            Values::Saves => "pairs of seconds and changes, or empty".into(),
            Values::Text => "any text".into(),
        }
    }

    /// The value as Redis shows it.
    pub(super) fn read(&self, value: &str) -> Result<String, Why> {
        match self.values {
            Values::YesNo => yes_or_no(value).map(|yes| if yes { "yes".into() } else { "no".into() }),
            Values::Integer(low, high) => number::<i64>(value, low, high).map(|number| number.to_string()),
            Values::Memory(low, high) => match bytes(value)? {
                bytes if (low..=high).contains(&bytes) => Ok(bytes.to_string()),
                _ => Err(format!("argument must be between {low} and {high} inclusive")),
            },
            Values::Word(words) => {
                let known = words.split(' ').find(|word| word.eq_ignore_ascii_case(value));
                let all = || format!("argument(s) must be one of the following: {}", words.replace(' ', ", "));
                known.map(str::to_owned).ok_or_else(all)
            }
            Values::Saves => saves(value),
            Values::Text => Ok(value.to_owned()),
        }
    }
}

/// At least one second, and no negative number of changes.
fn saves(value: &str) -> Result<String, Why> {
    let words: Vec<&str> = value.split_ascii_whitespace().collect();
    let at_least = |word: &str, low: i64| number::<i64>(word, low, i32::MAX.into()).is_ok();
    let is_good = |pair: &[&str]| matches!(pair, [seconds, changes] if at_least(seconds, 1) && at_least(changes, 0));
    if words.chunks(2).all(is_good) { Ok(words.join(" ")) } else { Err("Invalid save parameters".into()) }
}

const fn free(names: &'static str, default: &'static str, values: Values, why: &'static str) -> Free {
    Free { names, default, values, why }
}

const fn whether(names: &'static str, default: &'static str, why: &'static str) -> Free {
    free(names, default, Values::YesNo, why)
}

/// As far as an `int` of C goes.
const fn count(names: &'static str, default: &'static str, low: i64, why: &'static str) -> Free {
    free(names, default, Values::Integer(low, i32::MAX as i64), why)
}

const fn memory(names: &'static str, default: &'static str, low: u64, why: &'static str) -> Free {
    free(names, default, Values::Memory(low, i64::MAX as u64), why)
}

const LOGGED: &str = "there is one way to write and read the log that `appendonly` keeps";
const LISTS: &str = "list elements are stored one by one, and `OBJECT ENCODING` reports `quicklist` for every list";
const SETS: &str = "`OBJECT ENCODING` reports `hashtable` for every set but small sets of integers";
const LAZY: &str = "removing a key costs the same whatever it holds";
const EVICTION: &str = "no key is evicted";
const ALONE: &str = "there is no replication";
const CLUSTER: &str = "there is no cluster";
const SNAPSHOT: &str = "changes are durable without it; the server saves all data in one file only on request";
const SCRIPTS: &str = "there are no scripts, functions or modules";
const CLOCK: &str = "timed work is looked up ten times a second, not searched for";
const CRASHES: &str = "the server writes no crash reports";
const INT_MIN: i64 = i32::MIN as i64;

/// Names without effect.
pub const FREE: &[Free] = &[
    free("active-expire-effort", "1", Values::Integer(1, 10), "an index of deadlines finds expired keys without a search"),
    whether("activerehashing", "yes", "there are no hash tables to rehash"),
    whether("aof-disable-auto-gc", "no", "replaced files of the log are always removed"),
    whether("aof-load-truncated", "yes", LOGGED),
    whether("aof-rewrite-incremental-fsync", "yes", LOGGED),
    whether("aof-use-rdb-preamble", "yes", LOGGED),
    free("busy-reply-threshold lua-time-limit", "5000", Values::Integer(0, i64::MAX), SCRIPTS),
    whether("cluster-allow-pubsubshard-when-down", "yes", CLUSTER),
    whether("cluster-allow-reads-when-down", "no", CLUSTER),
    whether("cluster-allow-replica-migration", "yes", CLUSTER),
    memory("cluster-link-sendbuf-limit", "0", 0, CLUSTER),
    count("cluster-migration-barrier", "1", 0, CLUSTER),
    free("cluster-node-timeout", "15000", Values::Integer(0, i64::MAX), CLUSTER),
    whether("cluster-replica-no-failover cluster-slave-no-failover", "no", CLUSTER),
    count("cluster-replica-validity-factor cluster-slave-validity-factor", "10", 0, CLUSTER),
    whether("cluster-require-full-coverage", "yes", CLUSTER),
    whether("crash-log-enabled", "no", CRASHES),
    whether("crash-memcheck-enabled", "no", CRASHES),
    whether("dynamic-hz", "yes", CLOCK),
    count("hz", "10", 0, CLOCK),
    free("ignore-warnings", "", Values::Text, "the server prints no such warnings"),
    whether("jemalloc-bg-thread", "no", "the allocator is the system's"),
    free("key-load-delay", "0", Values::Integer(INT_MIN, i32::MAX as i64), SNAPSHOT),
    whether("lazyfree-lazy-eviction", "no", LAZY),
    whether("lazyfree-lazy-expire", "no", LAZY),
    whether("lazyfree-lazy-server-del", "no", LAZY),
    whether("lazyfree-lazy-user-del", "no", LAZY),
    whether("lazyfree-lazy-user-flush", "no", LAZY),
    count("lfu-decay-time", "1", 0, EVICTION),
    count("lfu-log-factor", "10", 0, EVICTION),
    count("list-compress-depth", "0", 0, LISTS),
    count("list-max-listpack-size list-max-ziplist-size", "-2", INT_MIN, LISTS),
    free("loading-process-events-interval-bytes", "2097152", Values::Memory(1024, i32::MAX as u64), SNAPSHOT),
    whether("lua-enable-deprecated-api", "no", SCRIPTS),
    free("maxmemory-eviction-tenacity", "10", Values::Integer(0, 100), EVICTION),
    count("maxmemory-samples", "5", 1, EVICTION),
    count("min-replicas-max-lag min-slaves-max-lag", "10", 0, ALONE),
    whether("no-appendfsync-on-rewrite", "no", LOGGED),
    free("propagation-error-behavior", "ignore", Values::Word("ignore panic panic-on-replicas"), ALONE),
    whether("rdb-del-sync-files", "no", ALONE),
    free("rdb-key-save-delay", "0", Values::Integer(INT_MIN, i32::MAX as i64), SNAPSHOT),
    whether("rdb-save-incremental-fsync", "no", "saved files are synced once they are complete"),
    whether("rdbcompression", "no", "saved files are not compressed; imported ones may be"),
    memory("repl-backlog-size", "1048576", 1, ALONE),
    free("repl-backlog-ttl", "3600", Values::Integer(0, i64::MAX), ALONE),
    whether("repl-disable-tcp-nodelay", "no", ALONE),
    free("repl-diskless-load", "disabled", Values::Word("disabled on-empty-db swapdb"), ALONE),
    whether("repl-diskless-sync", "yes", ALONE),
    count("repl-diskless-sync-delay", "5", 0, ALONE),
    count("repl-diskless-sync-max-replicas", "0", 0, ALONE),
    count("repl-ping-replica-period repl-ping-slave-period", "10", 1, ALONE),
    count("repl-timeout", "60", 1, ALONE),
    whether("replica-announced", "yes", ALONE),
    whether("replica-ignore-disk-write-errors", "no", ALONE),
    whether("replica-ignore-maxmemory slave-ignore-maxmemory", "yes", ALONE),
    whether("replica-lazy-flush slave-lazy-flush", "no", LAZY),
    count("replica-priority slave-priority", "100", 0, ALONE),
    whether("replica-read-only slave-read-only", "yes", ALONE),
    whether("replica-serve-stale-data slave-serve-stale-data", "yes", ALONE),
    free("sanitize-dump-payload", "yes", Values::Word("no yes clients"), "`RESTORE` always checks its input"),
    free("save", "", Values::Saves, SNAPSHOT),
    free("set-max-listpack-entries", "128", Values::Integer(0, i64::MAX), SETS),
    memory("set-max-listpack-value", "64", 0, SETS),
    count("shutdown-timeout", "10", 0, ALONE),
    whether("stop-writes-on-bgsave-error", "yes", "it concerns periodic saves, of which there are none"),
    memory("stream-node-max-bytes", "4096", 0, "stream entries are stored one by one"),
    free("tracking-table-max-keys", "1000000", Values::Integer(0, i64::MAX), "there is no client-side caching"),
];
