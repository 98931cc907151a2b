//! Directives of Redis without effect here. Every value that Redis accepts is accepted and remembered, so that programs that set them and
//! read them back keep working: tools, and Redis's own tests. A directive is here only if nobody relies on its effect; otherwise it has one
//! value (`FIXED`) or is refused (`ABSENT`).

use super::Why;
use super::values::{bytes, number, yes_or_no};

/// Values that Redis accepts for a directive.
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

/// A directive without effect.
#[derive(Debug, Clone, Copy)]
pub struct Free {
    /// Names of the directive, blanks between them: a value set under one is shown under all.
    pub names: &'static str,
    /// Value shown until another is set.
    pub default: &'static str,
    values: Values,
    /// Why the directive has no effect.
    pub why: &'static str,
}

impl Free {
    /// The first of the names.
    pub(super) fn name(&self) -> &'static str {
        self.names.split(' ').next().unwrap_or_default()
    }

    /// The accepted values, for people.
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

    /// Checks a value, and returns it as Redis shows it.
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

/// Checks pairs of seconds (at least one) and changes (not negative).
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

const fn text(names: &'static str, why: &'static str) -> Free {
    free(names, "", Values::Text, why)
}

/// A directive with an integer from `low` up to the largest `int` of C.
const fn count(names: &'static str, default: &'static str, low: i64, why: &'static str) -> Free {
    free(names, default, Values::Integer(low, i32::MAX as i64), why)
}

const fn memory(names: &'static str, default: &'static str, low: u64, why: &'static str) -> Free {
    free(names, default, Values::Memory(low, i64::MAX as u64), why)
}

const LISTS: &str = "`list-max-listpack-size` says which lists are small";
const LOGGED: &str = "there is one way to write and read the log that `appendonly` keeps";
const LAZY: &str = "removing a key costs the same whatever it holds";
const EVICTION: &str = "evicting takes at most 5 ms at a time";
const CLUSTER: &str = "there is no cluster";
const SNAPSHOT: &str = "changes are durable without it; the server saves all data in one file only on request";
const MODULES: &str = "there are no modules";
const CLOCK: &str = "timed work is looked up ten times a second, not searched for";
const DEFRAG: &str = "memory is allocated in few large pieces and does not fragment";
const PROCESSORS: &str = "taskset, systemd or the container decides which processors the process uses";
const ONE_THREAD: &str = "one thread runs the network and the commands";
const TITLE: &str = "the process title is never changed";
const SESSIONS: &str = "TLS sessions are not resumed";
const CIPHERS: &str = "only suites with forward secrecy and authenticated encryption (AES-GCM, ChaCha20-Poly1305) are supported";
const CRASHES: &str = "the server writes no crash reports";

/// Directives without effect.
pub const FREE: &[Free] = &[
    count("active-defrag-cycle-max", "25", 1, DEFRAG),
    count("active-defrag-cycle-min", "1", 1, DEFRAG),
    memory("active-defrag-ignore-bytes", "104857600", 1, DEFRAG),
    count("active-defrag-max-scan-fields", "1000", 1, DEFRAG),
    count("active-defrag-threshold-lower", "10", 0, DEFRAG),
    count("active-defrag-threshold-upper", "100", 0, DEFRAG),
    free("active-expire-effort", "1", Values::Integer(1, 10), "an index of deadlines finds expired keys without a search"),
    whether("activerehashing", "yes", "there are no hash tables to rehash"),
    whether("always-show-logo", "no", "there is no logo"),
    whether("aof-disable-auto-gc", "no", "replaced files of the log are always removed"),
    whether("aof-load-truncated", "yes", LOGGED),
    text("aof_rewrite_cpulist aof-rewrite-cpulist", PROCESSORS),
    whether("aof-rewrite-incremental-fsync", "yes", LOGGED),
    whether("aof-use-rdb-preamble", "yes", LOGGED),
    text("availability-zone", "no command tells it"),
    text("bgsave_cpulist bgsave-cpulist", PROCESSORS),
    text("bind-source-addr", "the system chooses the address from which a replica connects to its primary"),
    text("bio_cpulist bio-cpulist", PROCESSORS),
    whether("cluster-allow-pubsubshard-when-down", "yes", CLUSTER),
    whether("cluster-allow-reads-when-down", "no", CLUSTER),
    whether("cluster-allow-replica-migration", "yes", CLUSTER),
    count("cluster-announce-bus-port", "0", 0, CLUSTER),
    text("cluster-announce-client-ipv4", CLUSTER),
    text("cluster-announce-client-ipv6", CLUSTER),
    text("cluster-announce-hostname", CLUSTER),
    text("cluster-announce-human-nodename", CLUSTER),
    text("cluster-announce-ip", CLUSTER),
    count("cluster-announce-port", "0", 0, CLUSTER),
    count("cluster-announce-tls-port", "0", 0, CLUSTER),
    count("cluster-blacklist-ttl", "60", 0, CLUSTER),
    free("cluster-config-file", "nodes.conf", Values::Text, CLUSTER),
    memory("cluster-link-sendbuf-limit", "0", 0, CLUSTER),
    count("cluster-migration-barrier", "1", 0, CLUSTER),
    free("cluster-node-timeout", "15000", Values::Integer(0, i64::MAX), CLUSTER),
    count("cluster-port", "0", 0, CLUSTER),
    free("cluster-preferred-endpoint-type", "ip", Values::Word("ip hostname unknown-endpoint"), CLUSTER),
    whether("cluster-replica-no-failover cluster-slave-no-failover", "no", CLUSTER),
    count("cluster-replica-validity-factor cluster-slave-validity-factor", "10", 0, CLUSTER),
    whether("cluster-require-full-coverage", "yes", CLUSTER),
    whether("cluster-slot-stats-enabled", "no", CLUSTER),
    whether("crash-log-enabled", "no", CRASHES),
    whether("crash-memcheck-enabled", "no", CRASHES),
    whether("disable-thp", "yes", "the server runs no copy of itself, so large pages do no harm"),
    whether("dual-channel-replication-enabled", "no", "the stream waits on disk for replicas that load"),
    whether("dynamic-hz", "yes", CLOCK),
    free("enable-module-command", "no", Values::Word("no yes local"), MODULES),
    whether("extended-redis-compatibility", "no", "replies follow Redis in any case"),
    whether("hide-user-data-from-log", "yes", "the log has no keys and no values"),
    count("hz", "10", 0, CLOCK),
    free("ignore-warnings", "", Values::Text, "the server prints no such warnings"),
    free("io-threads", "1", Values::Integer(1, 256), ONE_THREAD),
    whether("io-threads-do-reads", "no", ONE_THREAD),
    whether("jemalloc-bg-thread", "no", "the allocator is the system's"),
    whether("lazyfree-lazy-eviction", "no", LAZY),
    whether("lazyfree-lazy-expire", "no", LAZY),
    whether("lazyfree-lazy-server-del", "no", LAZY),
    whether("lazyfree-lazy-user-del", "no", LAZY),
    whether("lazyfree-lazy-user-flush", "no", LAZY),
    count("list-compress-depth", "0", 0, "the engine compresses all data alike"),
    free("list-max-ziplist-entries", "512", Values::Integer(0, i64::MAX), LISTS),
    memory("list-max-ziplist-value", "64", 0, LISTS),
    free("loading-process-events-interval-bytes", "2097152", Values::Memory(1024, i32::MAX as u64), SNAPSHOT),
    text("locale-collate", "strings are compared byte by byte"),
    whether("lua-enable-deprecated-api", "no", "scripts have the functions of Redis 7.0"),
    whether("lua-replicate-commands", "yes", "the log has what scripts have done, never the scripts"),
    count("max-new-connections-per-cycle", "10", 1, "an event-loop iteration accepts 64 clients"),
    count("max-new-tls-connections-per-cycle", "1", 1, "an event-loop iteration takes four steps of handshakes"),
    free("maxmemory-eviction-tenacity", "10", Values::Integer(0, 100), EVICTION),
    whether("no-appendfsync-on-rewrite", "no", LOGGED),
    free("prefetch-batch-max-size", "16", Values::Integer(0, 128), ONE_THREAD),
    free("proc-title-template", "{title} {listen-addr} {server-mode}", Values::Text, TITLE),
    free(
        "propagation-error-behavior",
        "ignore",
        Values::Word("ignore panic panic-on-replicas"),
        "a replica logs requests of its primary that fail, and goes on",
    ),
    whether("rdb-del-sync-files", "no", "full synchronisations write no files"),
    whether("rdb-save-incremental-fsync", "no", "saved files are synced once they are complete"),
    whether("rdbchecksum", "yes", "saved files always end in a checksum"),
    whether("rdbcompression", "no", "saved files are not compressed; imported ones may be"),
    free("repl-diskless-load", "disabled", Values::Word("disabled on-empty-db swapdb"), "all data are always loaded beside the old ones"),
    whether("repl-diskless-sync", "yes", "full synchronisations are always streamed from a snapshot"),
    whether("replica-ignore-disk-write-errors", "no", "a replica goes on, and begins the log that `appendonly` keeps anew"),
    whether("replica-ignore-maxmemory slave-ignore-maxmemory", "yes", "a replica evicts nothing: its primary does"),
    whether("replica-lazy-flush slave-lazy-flush", "no", LAZY),
    free("sanitize-dump-payload", "yes", Values::Word("no yes clients"), "`RESTORE` always checks its input"),
    free("save", "", Values::Saves, SNAPSHOT),
    text("server_cpulist server-cpulist", PROCESSORS),
    whether("set-proc-title", "yes", TITLE),
    whether("stop-writes-on-bgsave-error", "yes", "it concerns periodic saves, of which there are none"),
    memory("stream-node-max-bytes", "4096", 0, "stream entries are stored one by one"),
    text("tls-ciphers", CIPHERS),
    text("tls-ciphersuites", CIPHERS),
    text("tls-client-key-file-pass", "keys that are encrypted are not read; restrict the file's permissions"),
    whether("tls-cluster", "no", CLUSTER),
    text("tls-dh-params-file", "key exchange uses elliptic curves only"),
    text("tls-key-file-pass", "keys that are encrypted are not read; restrict the file's permissions"),
    whether("tls-prefer-server-ciphers", "no", "every supported suite is strong, and the client knows which is fast for it"),
    count("tls-session-cache-size", "20480", 0, SESSIONS),
    count("tls-session-cache-timeout", "300", 0, SESSIONS),
    whether("tls-session-caching", "yes", SESSIONS),
    whether("use-exit-on-panic", "no", CRASHES),
    count("watchdog-period", "0", 0, CRASHES),
];
