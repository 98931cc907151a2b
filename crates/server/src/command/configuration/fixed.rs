//! Names of Redis's configuration that have one value here, or none, and why.

/// Names with the values that say what the server does anyway; any other is refused.
#[derive(Debug, Clone, Copy)]
pub struct Fixed {
    /// Names, blanks between them.
    pub names: &'static str,
    /// Values that are accepted, bars between them; the first is the one that is shown.
    pub values: &'static str,
    /// Why there are no others.
    pub why: &'static str,
}

impl Fixed {
    /// The value that is shown.
    pub fn value(&self) -> &'static str {
        self.values.split('|').next().unwrap_or_default()
    }

    pub(super) fn check(&self, value: &str) -> Result<(), String> {
        if self.values.split('|').any(|known| known.eq_ignore_ascii_case(value)) {
            return Ok(());
        }
        let values = self.values.split('|').map(|known| if known.is_empty() { "\"\"" } else { known }).collect::<Vec<_>>().join(" or ");
        Err(format!("only {values} is possible: {}", self.why))
    }
}

const fn fixed(names: &'static str, values: &'static str, why: &'static str) -> Fixed {
    Fixed { names, values, why }
}

const MEMORY: &str =
    "no key is ever removed to save memory: all are on the medium, and `maxmemory` says how much of them is kept in memory";
const ALONE: &str = "there is no replication";
const CLUSTER: &str = "there is no cluster";
const SNAPSHOT: &str = "data are durable as they are written; all of them are saved in one file only when a client asks for it";
const PROCESS: &str = "the process is left to what starts it, such as systemd";
const SESSIONS: &str = "each connection shows what its client is; nothing is kept of those that are gone";
const SCRIPTS: &str = "there are no scripts, functions and modules";

/// Names with one value.
pub const FIXED: &[Fixed] = &[
    fixed("acl-pubsub-default", "resetchannels", "a new user has no channels until a rule gives it some"),
    fixed("activedefrag", "no", "memory is in few large pieces and does not fragment"),
    fixed("always-show-logo set-proc-title", "no|yes", "there is no logo, and the process keeps its title"),
    fixed("aof-timestamp-enabled", "no", "the log that `appendonly` keeps has no times"),
    fixed(
        "client-output-buffer-limit",
        "normal 0 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60|normal 0 0 0|replica 256mb 64mb 60|pubsub 32mb 8mb 60",
        "a client that does not read is not read from, so what it can make the server hold is bounded",
    ),
    fixed("cluster-enabled", "no", CLUSTER),
    fixed("daemonize syslog-enabled", "no", PROCESS),
    fixed("databases", "16", "the format of the data knows 16 databases"),
    fixed("disable-thp", "yes|no", "nothing forks, so large pages do no harm"),
    fixed("io-threads", "1", "one thread runs the network and the commands; no request waits for another thread to wake up"),
    fixed("io-threads-do-reads", "no", "one thread runs the network and the commands; no request waits for another thread to wake up"),
    fixed("maxmemory-policy", "noeviction", MEMORY),
    fixed("min-replicas-to-write min-slaves-to-write", "0", ALONE),
    fixed("oom-score-adj", "no", PROCESS),
    fixed("oom-score-adj-values", "0 200 800", PROCESS),
    fixed("proc-title-template", "{title} {listen-addr} {server-mode}", "the process keeps its title"),
    fixed("protected-mode", "yes", "without a password only loopback addresses are served"),
    fixed("proto-max-bulk-len", "536870912|512mb", "a value may have 512 MiB"),
    fixed("rdbchecksum", "yes", "a file that is saved ends in a checksum"),
    fixed(
        "shutdown-on-sigint shutdown-on-sigterm",
        "default",
        "the server ends the turn, closes its clients and the data, in milliseconds",
    ),
    fixed("supervised", "no", "the server needs to tell no supervisor: it serves as soon as it says so in its log"),
    fixed("tcp-backlog", "1024|511|128", "the backlog is 1024, as far as the system's somaxconn allows it"),
    fixed("tcp-keepalive", "0", "connections to machines that are gone are closed by `timeout`"),
    fixed("tls-cluster", "no", CLUSTER),
    fixed("tls-prefer-server-ciphers", "no", "all suites are good, and a client knows best which one is fast for it"),
    fixed("tls-replication", "no", ALONE),
    fixed("tls-session-caching", "no", SESSIONS),
];

/// Names that do not exist here, and why.
pub const ABSENT: &[(&str, &str)] = &[
    (
        "active-defrag-cycle-max active-defrag-cycle-min active-defrag-ignore-bytes active-defrag-max-scan-fields \
         active-defrag-threshold-lower active-defrag-threshold-upper",
        "memory is in few large pieces and does not fragment",
    ),
    ("bgsave_cpulist", SNAPSHOT),
    ("bind-source-addr", "the server opens no connections"),
    (
        "aof_rewrite_cpulist bio_cpulist server_cpulist",
        "which processors a process may use is for taskset, systemd or the container to say",
    ),
    ("client-query-buffer-limit", "a request may have 1 GiB, before authentication 256 KiB"),
    (
        "cluster-announce-bus-port cluster-announce-hostname cluster-announce-ip cluster-announce-port cluster-announce-tls-port \
         cluster-config-file cluster-port cluster-preferred-endpoint-type",
        CLUSTER,
    ),
    ("enable-module-command loadmodule", SCRIPTS),
    ("enable-protected-configs", "what a client could do harm with cannot be changed while the server runs"),
    ("gopher-enabled", "the protocol is gone from Redis, too"),
    ("masterauth masteruser replica-announce-ip replica-announce-port replicaof slave-announce-ip slave-announce-port slaveof", ALONE),
    ("rename-command", "commands are taken away from users by access rules: `ACL SETUSER default -config`"),
    ("socket-mark-id", "connections have no mark"),
    ("syslog-facility syslog-ident", "the log goes to standard error or a file; systemd takes it from there"),
    (
        "tls-ciphers tls-ciphersuites",
        "the suites are those with forward secrecy and authenticated encryption (AES-GCM, ChaCha20-Poly1305); none is weak",
    ),
    ("tls-client-cert-file tls-client-key-file tls-client-key-file-pass", "the server opens no connections"),
    ("tls-dh-params-file", "keys are agreed upon over elliptic curves alone"),
    ("tls-key-file-pass", "a key that is encrypted cannot be read; let only the server read the file"),
    ("tls-session-cache-size tls-session-cache-timeout", SESSIONS),
    ("unixsocket unixsocketperm", "the server listens on TCP alone"),
    ("use-exit-on-panic watchdog-period", "this is for those who look for mistakes in Redis"),
];
