//! Names of Redis's configuration that are fixed or rejected here, with the reason.

/// Names that are accepted at the values that describe what the server does.
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

const MEMORY: &str = "no key is evicted: all data are on the medium, and `maxmemory` limits caches only";
const ALONE: &str = "there is no replication";
const CLUSTER: &str = "there is no cluster";
const SNAPSHOT: &str = "changes are durable without it; the server saves all data in one file only on request";
const PROCESS: &str = "the service manager (systemd, a container) controls the process";
const SESSIONS: &str = "TLS sessions are not resumed";
const SCRIPTS: &str = "there are no scripts, functions or modules";

/// Names with one value.
pub const FIXED: &[Fixed] = &[
    fixed("acl-pubsub-default", "resetchannels", "a new user has no channels until a rule grants some"),
    fixed("activedefrag", "no", "memory is allocated in few large pieces and does not fragment"),
    fixed("always-show-logo set-proc-title", "no|yes", "there is no logo, and the process title is never changed"),
    fixed("aof-timestamp-enabled", "no", "the log that `appendonly` keeps has no timestamps"),
    fixed(
        "client-output-buffer-limit",
        "normal 0 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60|normal 0 0 0|replica 256mb 64mb 60|pubsub 32mb 8mb 60",
        "a client that does not read its replies is not read from, so its buffer is bounded",
    ),
    fixed("cluster-enabled", "no", CLUSTER),
    fixed("daemonize syslog-enabled", "no", PROCESS),
    fixed("databases", "16", "the data format has 16 databases"),
    fixed("disable-thp", "yes|no", "the server never forks, so large pages do no harm"),
    fixed("io-threads", "1", "one thread runs the network and the commands"),
    fixed("io-threads-do-reads", "no", "one thread runs the network and the commands"),
    fixed("maxmemory-policy", "noeviction", MEMORY),
    fixed("min-replicas-to-write min-slaves-to-write", "0", ALONE),
    fixed("oom-score-adj", "no", PROCESS),
    fixed("oom-score-adj-values", "0 200 800", PROCESS),
    fixed("proc-title-template", "{title} {listen-addr} {server-mode}", "the process title is never changed"),
    fixed("protected-mode", "yes", "without a password the server serves loopback addresses only"),
    fixed("proto-max-bulk-len", "536870912|512mb", "a string may have 512 MiB"),
    fixed("rdbchecksum", "yes", "saved files end in a checksum"),
    fixed("shutdown-on-sigint shutdown-on-sigterm", "default", "the server stops cleanly within milliseconds"),
    fixed("supervised", "no", "the server does not notify a supervisor"),
    fixed("tcp-backlog", "1024|511|128", "the backlog is 1024, or the system's `somaxconn` if that is less"),
    fixed("tcp-keepalive", "0", "`timeout` closes connections to machines that are gone"),
    fixed("tls-cluster", "no", CLUSTER),
    fixed("tls-prefer-server-ciphers", "no", "every supported suite is strong, and the client knows which is fast for it"),
    fixed("tls-replication", "no", ALONE),
    fixed("tls-session-caching", "no", SESSIONS),
];

/// Names that do not exist here, and why.
pub const ABSENT: &[(&str, &str)] = &[
    (
        "active-defrag-cycle-max active-defrag-cycle-min active-defrag-ignore-bytes active-defrag-max-scan-fields \
         active-defrag-threshold-lower active-defrag-threshold-upper",
        "memory is allocated in few large pieces and does not fragment",
    ),
    ("bgsave_cpulist", SNAPSHOT),
    ("bind-source-addr", "the server opens no connections"),
    ("aof_rewrite_cpulist bio_cpulist server_cpulist", "taskset, systemd or the container decides which processors the process uses"),
    ("client-query-buffer-limit", "a request may have 1 GiB, before authentication 64 KiB"),
    (
        "cluster-announce-bus-port cluster-announce-hostname cluster-announce-ip cluster-announce-port cluster-announce-tls-port \
         cluster-config-file cluster-port cluster-preferred-endpoint-type",
        CLUSTER,
    ),
    ("enable-module-command loadmodule", SCRIPTS),
    ("enable-protected-configs", "names that could do harm cannot be changed while the server runs"),
    ("gopher-enabled", "Redis has removed the protocol, too"),
    ("masterauth masteruser replica-announce-ip replica-announce-port replicaof slave-announce-ip slave-announce-port slaveof", ALONE),
    ("rename-command", "access rules take commands away from users: `ACL SETUSER default -config`"),
    ("socket-mark-id", "connections have no mark"),
    ("syslog-facility syslog-ident", "the log goes to standard error or to a file"),
    (
        "tls-ciphers tls-ciphersuites",
        "only suites with forward secrecy and authenticated encryption (AES-GCM, ChaCha20-Poly1305) are supported",
    ),
    ("tls-client-cert-file tls-client-key-file tls-client-key-file-pass", "the server opens no connections"),
    ("tls-dh-params-file", "key exchange uses elliptic curves only"),
    ("tls-key-file-pass", "encrypted keys are not supported; restrict the file's permissions"),
    ("tls-session-cache-size tls-session-cache-timeout", SESSIONS),
    ("unixsocket unixsocketperm", "the server listens on TCP only"),
    ("use-exit-on-panic watchdog-period", "these are for debugging Redis"),
];
