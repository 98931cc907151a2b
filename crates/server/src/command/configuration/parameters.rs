//! The table of names that have effect: what each does, what it is, and how it is read.

use super::{Allowed, Configuration, Events, Fsync, Level, Parameter, Why, addresses};
use crate::keyspace::{MEMORY_MAX, MEMORY_MIN};
use crate::tls;
use std::net::IpAddr;

pub(super) const INTEGER: &str = "argument couldn't be parsed into an integer";
pub(super) const LOG_NAME: &str = "must begin with a small letter and have only letters, digits, '.', '-' and '_'";

/// A number between two others.
pub(super) fn number<N: TryFrom<i64> + Copy>(value: &str, low: i64, high: i64) -> Result<N, Why> {
    let number = crate::number::parse_integer(value.as_bytes()).ok_or(INTEGER)?;
    let out = || format!("argument must be between {low} and {high} inclusive");
    if (low..=high).contains(&number) { N::try_from(number).map_err(|_| out()) } else { Err(out()) }
}

pub(super) fn yes_or_no(value: &str) -> Result<bool, Why> {
    match value.to_ascii_lowercase().as_str() {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("argument must be 'yes' or 'no'".into()),
    }
}

fn name_of(yes: bool) -> String {
    if yes { "yes" } else { "no" }.into()
}

/// Bytes, in Redis's units, `k` being 1000 and `kb` 1024, and in those that leave no doubt: `KiB`.
pub(in crate::command) fn bytes(value: &str) -> Result<u64, Why> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let factor = match value[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" | "kib" => 1 << 10,
        "m" => 1_000_000,
        "mb" | "mib" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" | "gib" => 1 << 30,
        _ => 0,
    };
    let number: Option<u64> = value[..digits].parse().ok().filter(|_| factor > 0);
    number.and_then(|number| number.checked_mul(factor)).ok_or_else(|| "argument must be a memory value".into())
}

/// A budget of memory; 0: none.
fn budget(value: &str) -> Result<u64, Why> {
    let bytes = bytes(value)?;
    let is_one = bytes == 0 || (MEMORY_MIN..=MEMORY_MAX).contains(&bytes);
    if is_one { Ok(bytes) } else { Err(format!("argument must be 0 or between {MEMORY_MIN} and {MEMORY_MAX} bytes")) }
}

/// A name that no file of the engine has.
fn dump_name(value: &str) -> Result<String, Why> {
    let is_name = value.len() > ".rdb".len() && value.ends_with(".rdb") && !value.contains(['/', '\\', '\0']);
    if is_name { Ok(value.into()) } else { Err("must be a file name that ends in .rdb, without a directory".into()) }
}

/// A name that no file of the engine has, and that needs no quotes.
fn log_name(value: &str) -> Result<String, Why> {
    let is_name = value.starts_with(|first: char| first.is_ascii_lowercase())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    if is_name && value.len() <= 200 { Ok(value.into()) } else { Err(LOG_NAME.into()) }
}

/// Thousandths of a percent.
fn percentile(word: &str) -> Result<u32, Why> {
    let number: f64 = word.parse().map_err(|_| "Invalid latency-tracking-info-percentiles parameters")?;
    if !(0.0..=100.0).contains(&number) {
        return Err("latency-tracking-info-percentiles parameters should be between 0.0 and 100.0".into());
    }
    Ok((number * 1000.0).round() as u32)
}

/// Without zeros at its end.
pub(in crate::command) fn percentile_text(thousandths: u32) -> String {
    (f64::from(thousandths) / 1000.0).to_string()
}

const fn parameter(
    name: &'static str,
    changes: bool,
    about: &'static str,
    get: fn(&Configuration) -> String,
    set: fn(&mut Configuration, &str) -> Result<(), Why>,
) -> Parameter {
    Parameter { name, also: "", changes, about, get, set }
}

impl Parameter {
    /// It has another name, too.
    const fn also(mut self, name: &'static str) -> Self {
        self.also = name;
        self
    }
}

/// Names that have effect, in order.
pub const PARAMETERS: &[Parameter] = &[
    parameter(
        "aclfile",
        false,
        "file of users, one line each; empty: users are `user` lines of the configuration",
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
        "fields up to which `OBJECT ENCODING` reports `listpack` for a hash",
        |c| c.thresholds.hash.elements.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.thresholds.hash.elements = number),
    )
    .also("hash-max-ziplist-entries"),
    parameter(
        "hash-max-listpack-value",
        true,
        "bytes of the longest field or value up to which it reports that",
        |c| c.thresholds.hash.bytes.to_string(),
        |c, value| bytes(value).map(|bytes| c.thresholds.hash.bytes = bytes),
    )
    .also("hash-max-ziplist-value"),
    parameter(
        "hll-sparse-max-bytes",
        true,
        "bytes up to which a HyperLogLog stays sparse",
        |c| c.thresholds.sparse_hyperloglog.to_string(),
        |c, value| bytes(value).map(|bytes| c.thresholds.sparse_hyperloglog = bytes),
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
        "maxmemory",
        true,
        "memory for memtables, block cache and hot keys together, such as `512mb`, from 2 MiB; 0: each has its default. It does not limit \
         the data",
        |c| c.memory.to_string(),
        |c, value| budget(value).map(|bytes| c.memory = bytes),
    )
    .also("memory"),
    parameter(
        "maxmemory-clients",
        true,
        "bytes that all client buffers may take together; beyond that the largest clients are closed. 0: no limit",
        |c| c.clients_memory.to_string(),
        |c, value| {
            c.clients_memory = usize::try_from(bytes(value)?).map_err(|_| "argument must be a memory value")?;
            Ok(())
        },
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
        "port to listen on; 0: none if `tls-port` is set, else a free port, which is printed",
        |c| c.port.to_string(),
        |c, value| number(value, 0, 65_535).map(|number| c.port = number),
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
        "members up to which `OBJECT ENCODING` reports `intset` for a set of integers",
        |c| c.thresholds.integers.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.thresholds.integers = number),
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
        "timeout",
        true,
        "seconds after which an idle client is closed; 0: never",
        |c| c.timeout.to_string(),
        |c, value| number(value, 0, i32::MAX.into()).map(|number| c.timeout = number),
    ),
    parameter(
        "tls-auth-clients",
        true,
        "whether TLS clients must show a certificate: `yes`, `optional` (one that is shown must be valid), `no` (not requested)",
        |c| c.tls.clients.name().into(),
        |c, value| {
            c.tls.clients = tls::Clients::parse(value).ok_or("argument(s) must be one of the following: no, yes, optional")?;
            Ok(())
        },
    ),
    parameter(
        "tls-ca-cert-dir",
        true,
        "directory of more files like `tls-ca-cert-file`, whatever their names; empty: none",
        |c| c.tls.authorities_directory.clone(),
        |c, value| {
            c.tls.authorities_directory = value.into();
            Ok(())
        },
    ),
    parameter(
        "tls-ca-cert-file",
        true,
        "PEM file of the authorities that sign client certificates; empty: none",
        |c| c.tls.authorities.clone(),
        |c, value| {
            c.tls.authorities = value.into();
            Ok(())
        },
    ),
    parameter(
        "tls-cert-file",
        true,
        "PEM file of the server's certificate chain. `CONFIG SET` reads it again, also under the same name",
        |c| c.tls.certificate.clone(),
        |c, value| {
            c.tls.certificate = value.into();
            Ok(())
        },
    ),
    parameter(
        "tls-key-file",
        true,
        "PEM file of the certificate's key",
        |c| c.tls.key.clone(),
        |c, value| {
            c.tls.key = value.into();
            Ok(())
        },
    ),
    parameter(
        "tls-port",
        false,
        "port for TLS clients, on the same addresses; 0: none",
        |c| c.tls_port.to_string(),
        |c, value| number(value, 0, 65_535).map(|number| c.tls_port = number),
    ),
    parameter(
        "tls-protocols",
        true,
        "allowed versions, of `TLSv1.2` and `TLSv1.3`; empty: both",
        |c| c.tls.protocols.clone(),
        |c, value| {
            tls::versions(value)?;
            c.tls.protocols = value.into();
            Ok(())
        },
    ),
    parameter(
        "zset-max-listpack-entries",
        true,
        "members up to which `OBJECT ENCODING` reports `listpack` for a sorted set",
        |c| c.thresholds.sorted_set.elements.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.thresholds.sorted_set.elements = number),
    )
    .also("zset-max-ziplist-entries"),
    parameter(
        "zset-max-listpack-value",
        true,
        "bytes of the longest member up to which it reports that",
        |c| c.thresholds.sorted_set.bytes.to_string(),
        |c, value| bytes(value).map(|bytes| c.thresholds.sorted_set.bytes = bytes),
    )
    .also("zset-max-ziplist-value"),
];
