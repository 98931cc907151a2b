//! The table of directives that have an effect: description, current value, and parser of each.

use super::parameter::{Parameter, parameter};
use super::values::{bytes, dump_name, log_name, memory, name_of, number, percentile, percentile_text, permissions, yes_or_no};
use super::{Allowed, ClientsMemory, Compatible, Events, Facility, Fsync, Level, NewChannels, Policy, Supervised, addresses};
use super::{encryption, ending, following, replication};
use std::net::IpAddr;
use std::sync::LazyLock;

/// Directives that have an effect, in order.
pub static PARAMETERS: LazyLock<Vec<Parameter>> = LazyLock::new(|| {
    let mut all = [GENERAL, encryption::PARAMETERS, ending::PARAMETERS, replication::PARAMETERS, following::PARAMETERS].concat();
    all.sort_unstable_by_key(|parameter| parameter.name);
    all
});

/// Directives of one server, in order.
const GENERAL: &[Parameter] = &[
    parameter(
        "acl-pubsub-default",
        true,
        "channels of a new user: `resetchannels` (none until a rule grants some) or `allchannels`",
        |c| c.new_channels.name().into(),
        |c, value| {
            c.new_channels = NewChannels::parse(value).ok_or("argument(s) must be one of the following: allchannels, resetchannels")?;
            Ok(())
        },
    ),
    parameter(
        "aclfile",
        false,
        "file of users, one user a line, a relative name is looked up in `dir`; empty: users are `user` lines of the configuration",
        |c| c.acl_file.clone(),
        |c, value| {
            c.acl_file = value.into();
            Ok(())
        },
    ),
    parameter(
        "acllog-max-len",
        true,
        "rejections that `ACL LOG` keeps",
        |c| c.acllog_max_len.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.acllog_max_len = number),
    ),
    parameter(
        "appenddirname",
        false,
        "directory of the log that `appendonly` keeps, inside that of the data",
        |c| c.append_directory.clone(),
        |c, value| {
            c.append_directory = log_name(value)?;
            Ok(())
        },
    ),
    parameter(
        "appendfilename",
        false,
        "how the names of that log's files begin",
        |c| c.append_name.clone(),
        |c, value| {
            c.append_name = log_name(value)?;
            Ok(())
        },
    ),
    parameter(
        "appendfsync",
        true,
        "when a write is synced to the medium: `always` (before its reply), `everysec` (within a second), `no` (when the system decides)",
        |c| c.fsync.name().into(),
        |c, value| {
            c.fsync = Fsync::parse(value).ok_or("argument(s) must be one of the following: everysec, always, no")?;
            Ok(())
        },
    ),
    parameter(
        "appendonly",
        true,
        "whether to keep a log in Redis's format beside the server's own log",
        |c| name_of(c.append_only),
        |c, value| yes_or_no(value).map(|yes| c.append_only = yes),
    ),
    parameter(
        "auto-aof-rewrite-min-size",
        true,
        "bytes up to which that log is rewritten on request only",
        |c| c.rewrite_min_size.to_string(),
        |c, value| bytes(value).map(|bytes| c.rewrite_min_size = bytes),
    ),
    parameter(
        "auto-aof-rewrite-percentage",
        true,
        "growth in percent at which that log is rewritten; 0: on request only",
        |c| c.rewrite_percentage.to_string(),
        |c, value| number(value, 0, i32::MAX.into()).map(|number| c.rewrite_percentage = number),
    ),
    parameter(
        "bind",
        false,
        "IP addresses to listen on, separated by blanks; an address behind `-` may be missing on the machine",
        |c| c.bind.clone(),
        |c, value| {
            addresses(value)?;
            c.bind = value.into();
            Ok(())
        },
    ),
    parameter(
        "busy-reply-threshold",
        true,
        "milliseconds after which other clients are told that a script runs, and may end it; 0: never",
        |c| c.late_ms.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.late_ms = number),
    )
    .also("lua-time-limit"),
    parameter(
        "client-output-buffer-limit",
        true,
        "unsent bytes at which a client is closed: `CLASS HARD SOFT SECONDS`, of the classes `normal`, `replica` and `pubsub`; 0: no \
         such limit, but 1 GiB is the most",
        |c| c.output_limits.lines().collect::<Vec<_>>().join(" "),
        |c, value| c.output_limits.set(value),
    ),
    parameter(
        "client-query-buffer-limit",
        true,
        "bytes of requests that a client may have sent and that are not run yet",
        |c| c.query_limit.to_string(),
        |c, value| memory(value, 1 << 20).map(|bytes| c.query_limit = bytes),
    ),
    parameter(
        "compatible",
        false,
        "version of Redis that `INFO`, `HELLO`, `LOLWUT` and scripts (`redis.REDIS_VERSION`) show: `7.0` (7.0.15) or `8` (8.4.0). All \
         commands work with both, but some clients send newer ones only to a server that names a new version",
        |c| c.compatible.name().into(),
        |c, value| {
            c.compatible = Compatible::parse(value).ok_or("argument(s) must be one of the following: 7.0, 8")?;
            Ok(())
        },
    ),
    parameter(
        "daemonize",
        false,
        "whether the server goes into the background; the command ends when the server serves, or has failed",
        |c| name_of(c.daemonize),
        |c, value| yes_or_no(value).map(|yes| c.daemonize = yes),
    ),
    parameter(
        "dbfilename",
        false,
        "file that `SAVE` and `BGSAVE` write, in the directory of the data",
        |c| c.dump_name.clone(),
        |c, value| {
            c.dump_name = dump_name(value)?;
            Ok(())
        },
    ),
    parameter(
        "dir",
        false,
        "directory of the data, created if missing, or `zoned:DRIVE` for a volume on a zoned drive",
        |c| c.directory.clone(),
        |c, value| {
            c.directory = value.into();
            Ok(())
        },
    )
    .also("store"),
    parameter(
        "enable-debug-command",
        false,
        "who may use `DEBUG`, which can do harm: `no` (nobody), `local` (clients on this machine), `yes` (every client)",
        |c| c.debug_command.name().into(),
        |c, value| {
            c.debug_command = Allowed::parse(value).ok_or("argument(s) must be one of the following: no, yes, local")?;
            Ok(())
        },
    ),
    parameter(
        "hash-max-listpack-entries",
        true,
        "fields up to which a hash lies in its key's entry, in the order in which they were added",
        |c| c.thresholds.hash.elements.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.thresholds.hash.elements = number),
    )
    .also("hash-max-ziplist-entries"),
    parameter(
        "hash-max-listpack-value",
        true,
        "bytes of the longest field or value of such a hash",
        |c| c.thresholds.hash.bytes.to_string(),
        |c, value| bytes(value).map(|bytes| c.thresholds.hash.bytes = bytes),
    )
    .also("hash-max-ziplist-value"),
    parameter(
        "hll-sparse-max-bytes",
        true,
        "bytes up to which a HyperLogLog stays sparse",
        |c| c.sparse_hyperloglog.to_string(),
        |c, value| bytes(value).map(|bytes| c.sparse_hyperloglog = bytes),
    ),
    parameter(
        "latency-monitor-threshold",
        true,
        "milliseconds from which `LATENCY` records an event; 0: none",
        |c| c.latency_threshold.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.latency_threshold = number),
    ),
    parameter(
        "latency-tracking",
        true,
        "whether command times are kept for `LATENCY HISTOGRAM` and `INFO latencystats`",
        |c| name_of(c.latency_tracking),
        |c, value| yes_or_no(value).map(|yes| c.latency_tracking = yes),
    ),
    parameter(
        "latency-tracking-info-percentiles",
        true,
        "percentiles of command times in `INFO latencystats`; empty: none",
        |c| c.latency_percentiles.iter().map(|one| percentile_text(*one)).collect::<Vec<_>>().join(" "),
        |c, value| {
            c.latency_percentiles = value.split_ascii_whitespace().map(percentile).collect::<Result<_, _>>()?;
            Ok(())
        },
    ),
    parameter(
        "lfu-decay-time",
        true,
        "minutes without use that take one from the frequency of a key; 0: none do",
        |c| c.counting.decay_minutes.to_string(),
        |c, value| number(value, 0, i32::MAX.into()).map(|number| c.counting.decay_minutes = number),
    ),
    parameter(
        "lfu-log-factor",
        true,
        "how slowly the frequency of a key grows with its uses: with 10 it reaches its end, 255, after about a million",
        |c| c.counting.log_factor.to_string(),
        |c, value| number(value, 0, i32::MAX.into()).map(|number| c.counting.log_factor = number),
    ),
    parameter(
        "list-max-listpack-size",
        true,
        "items up to which a list lies in its key's entry, if they take no more than 8 KiB; -1 to -5: 4, 8, 16, 32, 64 KiB of them",
        |c| c.thresholds.list.to_string(),
        |c, value| number(value, i32::MIN.into(), i32::MAX.into()).map(|number| c.thresholds.list = number),
    )
    .also("list-max-ziplist-size"),
    parameter(
        "logfile",
        false,
        "file of the server's event log; empty: standard error",
        |c| c.log_file.clone(),
        |c, value| {
            c.log_file = value.into();
            Ok(())
        },
    ),
    parameter(
        "loglevel",
        true,
        "lowest level that is logged: `debug`, `verbose` (clients that come and go), `notice`, `warning`",
        |c| c.log_level.name().into(),
        |c, value| {
            c.log_level = Level::parse(value).ok_or("argument(s) must be one of the following: debug, verbose, notice, warning")?;
            Ok(())
        },
    ),
    parameter(
        "maxclients",
        true,
        "clients at the same time, at most",
        |c| c.clients_max.to_string(),
        |c, value| number(value, 1, u32::MAX.into()).map(|number| c.clients_max = number),
    ),
    parameter(
        "maxdata",
        true,
        "bytes of all keys and values, such as `10gb`, beyond which keys are evicted or requests that add data refused, as \
         `maxdata-policy` says; 0: no limit",
        |c| c.data_max.to_string(),
        |c, value| bytes(value).map(|bytes| c.data_max = bytes),
    ),
    parameter(
        "maxdata-policy",
        true,
        "keys that are evicted beyond `maxdata`: of all keys or of those with a deadline (`volatile`) the longest idle (`lru`), the least \
         used (`lfu`), any, or the first to expire (`ttl`); `noeviction`: none",
        |c| c.policy.name().into(),
        |c, value| {
            c.policy = Policy::parse(value).ok_or_else(|| format!("argument(s) must be one of the following: {}", Policy::names()))?;
            Ok(())
        },
    )
    .also("maxmemory-policy"),
    parameter(
        "maxmemory",
        true,
        "memory for memtables, block cache and hot keys together, such as `512mb`; less than 2 MiB means 2 MiB, 0 that each has its \
         default. It does not limit the data: those beyond it are on disk (`maxdata` limits them)",
        |c| c.memory.to_string(),
        |c, value| bytes(value).map(|bytes| c.memory = bytes),
    )
    .also("memory"),
    parameter(
        "maxmemory-clients",
        true,
        "bytes that all client buffers may take together, or a share of `maxmemory` such as `5%`; beyond that the largest clients are \
         closed. 0: no limit",
        |c| c.clients_memory.text(),
        |c, value| ClientsMemory::parse(value).map(|memory| c.clients_memory = memory),
    ),
    parameter(
        "maxmemory-samples",
        true,
        "keys that are looked at for each one that is evicted: more choose better, and take longer",
        |c| c.eviction_samples.to_string(),
        |c, value| number(value, 1, i32::MAX.into()).map(|number| c.eviction_samples = number),
    ),
    parameter(
        "metrics-bind",
        false,
        "IP address of the metrics port",
        |c| c.metrics_bind.clone(),
        |c, value| {
            value.parse::<IpAddr>().map_err(|_| format!("'{value}' is no IP address"))?;
            c.metrics_bind = value.into();
            Ok(())
        },
    ),
    parameter(
        "metrics-port",
        false,
        "port of the metrics and the health check over HTTP; 0: none",
        |c| c.metrics_port.to_string(),
        |c, value| number(value, 0, 65_535).map(|number| c.metrics_port = number),
    ),
    parameter(
        "notify-keyspace-events",
        true,
        "key events that are published, in Redis's letters (such as `KEA`); empty: none",
        |c| c.events.text(),
        |c, value| {
            c.events = Events::parse(value).ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?;
            Ok(())
        },
    ),
    parameter(
        "pidfile",
        false,
        "file that holds the process id while the server runs; empty: none",
        |c| c.pid_file.clone(),
        |c, value| {
            c.pid_file = value.into();
            Ok(())
        },
    ),
    parameter(
        "port",
        false,
        "port to listen on; 0: none if `tls-port` or `unixsocket` is set, else a free port, which is printed",
        |c| c.port.to_string(),
        |c, value| number(value, 0, 65_535).map(|number| c.port = number),
    ),
    parameter(
        "protected-mode",
        true,
        "whether clients on other machines are turned away while there is no password",
        |c| name_of(c.is_protected),
        |c, value| yes_or_no(value).map(|yes| c.is_protected = yes),
    ),
    parameter(
        "requirepass",
        true,
        "password of the user `default`; empty: none",
        |c| c.password.clone(),
        |c, value| {
            c.password = value.into();
            Ok(())
        },
    ),
    parameter(
        "set-max-intset-entries",
        true,
        "members up to which a set of integers lies in its key's entry, in ascending order",
        |c| c.thresholds.integers.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.thresholds.integers = number),
    ),
    parameter(
        "set-max-listpack-entries",
        true,
        "members up to which a set that is not of integers only lies in its key's entry, in the order in which they were added",
        |c| c.thresholds.set.elements.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.thresholds.set.elements = number),
    ),
    parameter(
        "set-max-listpack-value",
        true,
        "bytes of the longest member of such a set",
        |c| c.thresholds.set.bytes.to_string(),
        |c, value| bytes(value).map(|bytes| c.thresholds.set.bytes = bytes),
    ),
    parameter(
        "slowlog-log-slower-than",
        true,
        "microseconds from which `SLOWLOG` records a command; -1: none",
        |c| c.slowlog_slower_than.to_string(),
        |c, value| number(value, -1, i64::MAX).map(|number| c.slowlog_slower_than = number),
    ),
    parameter(
        "slowlog-max-len",
        true,
        "commands that `SLOWLOG` keeps",
        |c| c.slowlog_max_len.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.slowlog_max_len = number),
    ),
    parameter(
        "stream-node-max-entries",
        true,
        "entries of a stream that a trim with `~` removes at a time; 0: only all of them",
        |c| c.stream_block.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.stream_block = number),
    ),
    parameter(
        "supervised",
        false,
        "who is told when the server serves: `systemd` (`READY=1` to `NOTIFY_SOCKET`), `upstart` (`SIGSTOP`), `auto` (either, by the \
         environment), `no`",
        |c| c.supervised.name().into(),
        |c, value| {
            c.supervised = Supervised::parse(value).ok_or("argument(s) must be one of the following: upstart, systemd, auto, no")?;
            Ok(())
        },
    ),
    parameter(
        "syslog-enabled",
        false,
        "whether events also go to the system's log, at `/dev/log`",
        |c| name_of(c.syslog),
        |c, value| yes_or_no(value).map(|yes| c.syslog = yes),
    ),
    parameter(
        "syslog-facility",
        false,
        "facility there: `user`, or `local0` to `local7`",
        |c| c.syslog_facility.name().into(),
        |c, value| {
            c.syslog_facility =
                Facility::parse(value).ok_or_else(|| format!("argument(s) must be one of the following: {}", Facility::names()))?;
            Ok(())
        },
    ),
    parameter(
        "syslog-ident",
        false,
        "name of the server there",
        |c| c.syslog_ident.clone(),
        |c, value| {
            c.syslog_ident = value.into();
            Ok(())
        },
    ),
    parameter(
        "tcp-backlog",
        false,
        "connections that the kernel keeps until they are accepted, up to its `somaxconn`",
        |c| c.backlog.to_string(),
        |c, value| number(value, 0, i32::MAX.into()).map(|number| c.backlog = number),
    ),
    parameter(
        "tcp-keepalive",
        true,
        "seconds of silence after which the kernel asks whether a client is still there; after three questions without a reply it closes \
         the connection. 0: never. A change concerns new clients",
        |c| c.keep_alive.to_string(),
        |c, value| number(value, 0, i32::MAX.into()).map(|number| c.keep_alive = number),
    ),
    parameter(
        "timeout",
        true,
        "seconds after which an idle client is closed; 0: never",
        |c| c.timeout.to_string(),
        |c, value| number(value, 0, i32::MAX.into()).map(|number| c.timeout = number),
    ),
    parameter(
        "tracking-table-max-keys",
        true,
        "keys that the table of `CLIENT TRACKING` holds; more are evicted at random, and their readers told to forget them; 0: any number",
        |c| c.tracking_keys_max.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.tracking_keys_max = number),
    ),
    parameter(
        "unixsocket",
        false,
        "path of a Unix socket to listen on; empty: none",
        |c| c.unix_socket.clone(),
        |c, value| {
            c.unix_socket = value.into();
            Ok(())
        },
    ),
    parameter(
        "unixsocketgroup",
        false,
        "group of that socket, by name or number; empty: that of the process",
        |c| c.unix_group.clone(),
        |c, value| {
            c.unix_group = value.into();
            Ok(())
        },
    ),
    parameter(
        "unixsocketperm",
        false,
        "permissions of that socket, in octal; 0: those that the process gives its files",
        |c| format!("{:o}", c.unix_permissions),
        |c, value| permissions(value).map(|mode| c.unix_permissions = mode),
    ),
    parameter(
        "zset-max-listpack-entries",
        true,
        "members up to which a sorted set lies in its key's entry",
        |c| c.thresholds.sorted_set.elements.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.thresholds.sorted_set.elements = number),
    )
    .also("zset-max-ziplist-entries"),
    parameter(
        "zset-max-listpack-value",
        true,
        "bytes of the longest member of such a sorted set",
        |c| c.thresholds.sorted_set.bytes.to_string(),
        |c, value| bytes(value).map(|bytes| c.thresholds.sorted_set.bytes = bytes),
    )
    .also("zset-max-ziplist-value"),
];
