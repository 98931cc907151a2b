//! The server's configuration, under Redis's names.
//!
//! Each directive of Redis is in one of four tables: [`PARAMETERS`] have an effect, [`FIXED`] ones are accepted at the one value that
//! describes what the server does, [`FREE`] ones are stored without effect, and [`ABSENT`] ones are rejected with a reason. A directive
//! whose effect somebody would miss is never accepted and ignored.

mod compatible;
mod encryption;
mod ending;
mod file;
mod fixed;
mod following;
mod free;
mod limits;
mod parameter;
mod parameters;
mod renames;
mod replication;
mod values;

pub use compatible::Compatible;
pub use ending::Ending;
pub(super) use file::rewrite;
pub use file::{Complaint, Directive, read, read_text};
pub use fixed::{ABSENT, FIXED, Fixed};
pub use following::Following;
pub use free::{FREE, Free};
pub use limits::{Class, ClientsMemory, OutputLimit, OutputLimits};
pub use parameter::Parameter;
pub use parameters::PARAMETERS;
pub use renames::Renames;
pub use replication::Replication;
pub(super) use values::{bytes, percentile_text};

use super::Events;
use super::acl::NewChannels;
use crate::keyspace::{Counting, Keyspace, MEMORY_MAX, MEMORY_MIN, Policy, Thresholds};
use crate::log::{Facility, Level};
use crate::tls;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// When a write is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fsync {
    /// Before the reply to the write.
    Always,
    /// About once a second.
    #[default]
    EverySecond,
    /// When the operating system writes its cache back.
    No,
}

impl Fsync {
    const ALL: [(Fsync, &'static str); 3] = [(Fsync::Always, "always"), (Fsync::EverySecond, "everysec"), (Fsync::No, "no")];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(fsync, _)| *fsync == self).map_or("", |(_, name)| name)
    }

    /// Reads a name of the configuration.
    pub fn parse(name: &str) -> Option<Fsync> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(fsync, _)| *fsync)
    }
}

/// Clients that may use a dangerous command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Allowed {
    /// Nobody.
    #[default]
    No,
    /// Clients on the same machine.
    Local,
    /// All clients.
    Yes,
}

impl Allowed {
    const ALL: [(Allowed, &'static str); 3] = [(Allowed::No, "no"), (Allowed::Yes, "yes"), (Allowed::Local, "local")];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(allowed, _)| *allowed == self).map_or("", |(_, name)| name)
    }

    /// Reads a name of the configuration.
    pub fn parse(name: &str) -> Option<Allowed> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(allowed, _)| *allowed)
    }
}

/// Process manager that is notified when the server is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Supervised {
    /// Nobody.
    #[default]
    No,
    /// The one that environment variables name.
    Auto,
    /// systemd, by a datagram to the socket of `NOTIFY_SOCKET`.
    Systemd,
    /// upstart, by stopping the process with `SIGSTOP`.
    Upstart,
}

impl Supervised {
    const ALL: [(Supervised, &'static str); 4] =
        [(Supervised::Upstart, "upstart"), (Supervised::Systemd, "systemd"), (Supervised::Auto, "auto"), (Supervised::No, "no")];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(supervised, _)| *supervised == self).map_or("", |(_, name)| name)
    }

    /// Reads a name of the configuration.
    pub fn parse(name: &str) -> Option<Supervised> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(supervised, _)| *supervised)
    }
}

/// All settings of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// File of users, relative to the data directory; empty: users are part of the configuration.
    pub acl_file: String,
    /// Channels that a new user may use.
    pub new_channels: NewChannels,
    /// Entries kept in the ACL log, at most.
    pub acllog_max_len: usize,
    /// Addresses to listen on, blanks between them; one behind a minus may be missing on the machine.
    pub bind: String,
    /// Port for plain connections; 0: a free one, or none if there is a port for TLS.
    pub port: u16,
    /// Port for TLS; 0: none.
    pub tls_port: u16,
    /// Settings of TLS.
    pub tls: tls::Settings,
    /// The version of Redis that clients are told.
    pub compatible: Compatible,
    /// Directory of the data.
    pub directory: String,
    /// Whether a log in Redis's format (AOF) is kept.
    pub append_only: bool,
    /// Prefix of the names of the AOF's files.
    pub append_name: String,
    /// Directory of the AOF, within the data directory.
    pub append_directory: String,
    /// Growth at which the AOF is rewritten, percent; 0: only on a client's request.
    pub rewrite_percentage: u64,
    /// Size below which the AOF is not rewritten for its growth, bytes.
    pub rewrite_min_size: u64,
    /// Name of the RDB file in the data directory in which all keys are saved on a client's request.
    pub dump_name: String,
    /// Clients that may use `DEBUG`.
    pub debug_command: Allowed,
    /// Entries in a block of a stream, which a trim with `~` removes as a whole; 0: a block has all entries.
    pub stream_block: u64,
    /// Sizes up to which collections are stored in their key's entry.
    pub thresholds: Thresholds,
    /// Bytes up to which a HyperLogLog stays sparse.
    pub sparse_hyperloglog: u64,
    /// Milliseconds after which a script is late, and other clients are served; 0: never.
    pub late_ms: u64,
    /// Password of the default user; empty: none is needed.
    pub password: String,
    /// When a write is durable.
    pub fsync: Fsync,
    /// Connected clients, at most.
    pub clients_max: usize,
    /// Seconds of silence after which a client's connection is closed; 0: never.
    pub timeout: u64,
    /// Duration from which on latency events are recorded, milliseconds; 0: none is.
    pub latency_threshold: u64,
    /// Whether histograms of the latency of commands are kept.
    pub latency_tracking: bool,
    /// Percentiles of command latency that `INFO` shows, in thousandths of a percent.
    pub latency_percentiles: Vec<u32>,
    /// File of the log; empty: standard error.
    pub log_file: String,
    /// Least severe level of events that are logged.
    pub log_level: Level,
    /// Memory that all clients' buffers may take; beyond it the connections with the largest are closed.
    pub clients_memory: ClientsMemory,
    /// Unsent bytes at which a client is closed.
    pub output_limits: OutputLimits,
    /// Bytes of a client's requests that have not run yet, at most.
    pub query_limit: u64,
    /// Seconds of silence after which the kernel probes whether a client's machine is still there; 0: never.
    pub keep_alive: u32,
    /// Connections that the kernel keeps waiting to be accepted, at most.
    pub backlog: i32,
    /// Protected mode: without a password, clients on other machines are turned away.
    pub is_protected: bool,
    /// Path of the Unix socket to listen on; empty: none.
    pub unix_socket: String,
    /// Permissions of that socket; 0: the process's default for new files.
    pub unix_permissions: u32,
    /// Group of that socket; empty: the group of the process.
    pub unix_group: String,
    /// Whether the server detaches from the terminal and its parent.
    pub daemonize: bool,
    /// Process manager that is notified when the server is ready.
    pub supervised: Supervised,
    /// Whether events also go to syslog.
    pub syslog: bool,
    /// Name of the server in syslog.
    pub syslog_ident: String,
    /// Facility under which syslog has the events.
    pub syslog_facility: Facility,
    /// Keyspace events that are published.
    pub events: Events,
    /// Bytes for memtables, cache and hot keys together (`maxmemory`); 0: each has its default.
    pub memory: u64,
    /// Bytes of all keys and values, at most (`maxdata`); 0: no limit.
    pub data_max: u64,
    /// Keys that are evicted beyond that, and their order.
    pub policy: Policy,
    /// Keys that are looked at for each one that is evicted.
    pub eviction_samples: usize,
    /// How frequencies of keys are counted, under a policy that goes by them.
    pub counting: Counting,
    /// Address of the metrics page.
    pub metrics_bind: String,
    /// Port of the metrics page; 0: none.
    pub metrics_port: u16,
    /// File that holds the process id; empty: none.
    pub pid_file: String,
    /// Duration from which on a command enters the slow log, microseconds; negative: none does.
    pub slowlog_slower_than: i64,
    /// Entries kept in the slow log, at most.
    pub slowlog_max_len: usize,
    /// Keys in the table of client-side caching, at most; 0: any number.
    pub tracking_keys_max: usize,
    /// How Ctrl-C ends the server.
    pub on_interrupt: Ending,
    /// How SIGTERM ends the server.
    pub on_termination: Ending,
    /// Settings of replication.
    pub replication: Replication,
    /// Settings of a replica.
    pub following: Following,
    /// Users and their rules, as in the configuration file.
    pub users: Vec<Vec<Vec<u8>>>,
    /// Renamed commands.
    pub renames: Renames,
    /// Directives without effect that differ from their defaults, by the first of their names.
    pub without_effect: BTreeMap<&'static str, String>,
    /// The file that the configuration was read from; empty: none.
    pub file: String,
}

impl Default for Configuration {
    fn default() -> Self {
        Configuration {
            acl_file: String::new(),
            new_channels: NewChannels::default(),
            acllog_max_len: 128,
            bind: "127.0.0.1".into(),
            port: 6379,
            tls_port: 0,
            tls: tls::Settings::default(),
            compatible: Compatible::default(),
            directory: "sinter-data".into(),
            append_only: false,
            append_name: "appendonly.aof".into(),
            append_directory: "appendonlydir".into(),
            rewrite_percentage: 100,
            rewrite_min_size: 64 << 20,
            dump_name: "dump.rdb".into(),
            debug_command: Allowed::default(),
            stream_block: 100,
            thresholds: Thresholds::default(),
            sparse_hyperloglog: 3000,
            late_ms: 5000,
            password: String::new(),
            fsync: Fsync::default(),
            clients_max: 10_000,
            timeout: 0,
            latency_threshold: 0,
            latency_tracking: true,
            latency_percentiles: vec![50_000, 99_000, 99_900],
            log_file: String::new(),
            log_level: Level::default(),
            clients_memory: ClientsMemory::Bytes(2 << 30),
            output_limits: OutputLimits::default(),
            query_limit: 1 << 30,
            keep_alive: 300,
            backlog: 511,
            is_protected: true,
            unix_socket: String::new(),
            unix_permissions: 0,
            unix_group: String::new(),
            daemonize: false,
            supervised: Supervised::default(),
            syslog: false,
            syslog_ident: "sinterdb".into(),
            syslog_facility: Facility::default(),
            events: Events::default(),
            memory: 0,
            data_max: 0,
            policy: Policy::default(),
            eviction_samples: 5,
            counting: Counting::default(),
            metrics_bind: "127.0.0.1".into(),
            metrics_port: 0,
            pid_file: String::new(),
            slowlog_slower_than: 10_000,
            slowlog_max_len: 128,
            tracking_keys_max: 1_000_000,
            on_interrupt: Ending::default(),
            on_termination: Ending::default(),
            replication: Replication::default(),
            following: Following::default(),
            users: Vec::new(),
            renames: Renames::default(),
            without_effect: BTreeMap::new(),
            file: String::new(),
        }
    }
}

/// Directives that decide which files are written. Redis can be told to let clients change them; here only whoever starts the server can.
const PROTECTED: [&str; 2] = ["dbfilename", "dir"];

/// Parses addresses, each perhaps behind a minus. Returns each with whether it may be missing on the machine.
///
/// # Errors
/// No address, or a word that is none.
pub fn addresses(bind: &str) -> Result<Vec<(IpAddr, bool)>, String> {
    let read = |word: &str| {
        let (word, may_miss) = word.strip_prefix('-').map_or((word, false), |rest| (rest, true));
        match word {
            "*" => Ok((IpAddr::from([0, 0, 0, 0]), may_miss)),
            "::*" => Ok((IpAddr::from([0; 16]), may_miss)),
            _ => word.parse().map(|address| (address, may_miss)).map_err(|_| format!("'{word}' is no IP address")),
        }
    };
    let all: Vec<_> = bind.split_ascii_whitespace().map(read).collect::<Result<_, _>>()?;
    if all.is_empty() { Err("no address to listen on".into()) } else { Ok(all) }
}

/// A socket address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening {
    /// Address and port.
    pub address: SocketAddr,
    /// The address may be missing on the machine.
    pub may_miss: bool,
    /// Connections use TLS.
    pub is_encrypted: bool,
}

/// Why a value is refused.
type Why = String;

/// Classification of a directive.
#[derive(Debug, Clone, Copy)]
pub enum Known {
    /// A directive with an effect.
    Parameter(&'static Parameter),
    /// A directive with one value.
    Fixed(&'static Fixed),
    /// A directive without effect.
    Free(&'static Free),
    /// A directive that does not exist here, with the reason.
    Absent(&'static str),
}

/// Looks a directive up by name, in capitals or not.
pub fn known(name: &str) -> Option<Known> {
    let name = name.to_ascii_lowercase();
    let names = |names: &str| names.split(' ').any(|known| known == name);
    let parameter = PARAMETERS.iter().find(|parameter| parameter.names().any(|known| known == name)).map(Known::Parameter);
    let fixed = || FIXED.iter().find(|fixed| names(fixed.names)).map(Known::Fixed);
    let free = || FREE.iter().find(|free| names(free.names)).map(Known::Free);
    let absent = || ABSENT.iter().find(|(known, _)| names(known)).map(|(_, why)| Known::Absent(why));
    parameter.or_else(fixed).or_else(free).or_else(absent)
}

/// All names that may stand in a file, from which a suggestion for a misspelled one is chosen.
pub fn all_names() -> impl Iterator<Item = &'static str> {
    let fixed = FIXED.iter().flat_map(|fixed| fixed.names.split(' '));
    let free = FREE.iter().flat_map(|free| free.names.split(' '));
    let absent = ABSENT.iter().flat_map(|(names, _)| names.split(' '));
    PARAMETERS.iter().flat_map(Parameter::names).chain(fixed).chain(free).chain(absent).chain(["include", "rename-command", "user"])
}

/// Why a directive cannot be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no directive of this name.
    Unknown,
    /// The value is wrong, or there is nothing to set.
    Wrong(String),
}

impl Configuration {
    pub(super) fn needs_password(&self) -> bool {
        !self.password.is_empty()
    }

    pub(super) fn password(&self) -> Option<&[u8]> {
        self.needs_password().then_some(self.password.as_bytes())
    }

    /// Bytes for memtables, cache and hot keys together: `maxmemory`, within the bounds of the engine; 0: each has its default.
    pub fn budget(&self) -> u64 {
        if self.memory == 0 { 0 } else { self.memory.clamp(MEMORY_MIN, MEMORY_MAX) }
    }

    /// Directives without effect whose values differ from their defaults, each with the reason.
    pub(super) fn without_effect_now(&self) -> Vec<(&'static str, &'static str)> {
        let set = |free: &&Free| self.without_effect.contains_key(free.name());
        FREE.iter().filter(set).map(|free| (free.name(), free.why)).collect()
    }

    /// Gives a keyspace the settings that concern it and cannot fail.
    pub fn apply_to(&self, keyspace: &mut Keyspace) {
        keyspace.set_thresholds(self.thresholds);
        let counts_writes = self.data_max > 0 && self.policy.is_by_use();
        keyspace.set_counting(Counting { is_on: self.policy.is_by_frequency(), counts_writes, ..self.counting });
    }

    /// All socket addresses to listen on: each address with each port.
    ///
    /// # Errors
    /// An address is malformed, or both ports are equal.
    pub fn listening(&self) -> Result<Vec<Listening>, String> {
        let addresses = addresses(&self.bind)?;
        if self.port == 0 && self.tls_port == 0 && !self.unix_socket.is_empty() {
            return Ok(Vec::new());
        }
        let ports = match (self.port, self.tls_port) {
            (port, 0) => vec![(port, false)],
            (0, tls_port) => vec![(tls_port, true)],
            (port, tls_port) if port == tls_port => return Err(format!("port and tls-port are both {port}")),
            (port, tls_port) => vec![(port, false), (tls_port, true)],
        };
        let at = |(port, is_encrypted): (u16, bool)| {
            let each = addresses.iter().map(move |(ip, may_miss)| (SocketAddr::new(*ip, port), *may_miss));
            each.map(move |(address, may_miss)| Listening { address, may_miss, is_encrypted })
        };
        Ok(ports.into_iter().flat_map(at).collect())
    }

    /// The value of a directive without effect.
    fn without_effect(&self, free: &Free) -> &str {
        self.without_effect.get(free.name()).map_or(free.default, String::as_str)
    }

    fn remember(&mut self, free: &Free, value: &str) -> Result<(), Why> {
        let value = free.read(value)?;
        if value == free.default {
            self.without_effect.remove(free.name());
        } else {
            self.without_effect.insert(free.name(), value);
        }
        Ok(())
    }

    /// All names and values in order, directives with one value and without effect included.
    pub(super) fn all(&self) -> Vec<(&'static str, String)> {
        let parameters = PARAMETERS.iter().flat_map(|parameter| parameter.names().map(|name| (name, parameter.value(self))));
        let fixed = FIXED.iter().flat_map(|fixed| fixed.names.split(' ').map(|name| (name, fixed.value().to_owned())));
        let of_free = |free: &'static Free| free.names.split(' ').map(|name| (name, self.without_effect(free).to_owned()));
        let mut all: Vec<_> = parameters.chain(fixed).chain(FREE.iter().flat_map(of_free)).collect();
        all.sort_unstable();
        all
    }

    /// Sets a directive before the server starts.
    ///
    /// # Errors
    /// There is no such directive, or the value is not accepted.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        match known(name).ok_or(Refusal::Unknown)? {
            Known::Parameter(parameter) => (parameter.set)(self, value).map_err(Refusal::Wrong),
            Known::Fixed(fixed) => fixed.check(value).map_err(Refusal::Wrong),
            // Each of several `save` lines adds to those before it, as in Redis.
            Known::Free(free) if free.name() == "save" && !value.is_empty() => {
                let all = format!("{} {value}", self.without_effect(free));
                self.remember(free, &all).map_err(Refusal::Wrong)
            }
            Known::Free(free) => self.remember(free, value).map_err(Refusal::Wrong),
            Known::Absent(why) => Err(Refusal::Wrong(format!("there is no such parameter here: {why}"))),
        }
    }

    /// Sets a directive while the server runs.
    pub(super) fn change(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        match known(name) {
            None | Some(Known::Absent(_)) => Err(Refusal::Unknown),
            Some(Known::Parameter(parameter)) if PROTECTED.contains(&parameter.name) => {
                Err(Refusal::Wrong("can't set protected config".into()))
            }
            Some(Known::Parameter(parameter)) if !parameter.changes => Err(Refusal::Wrong("can't set immutable config".into())),
            Some(Known::Free(free)) => self.remember(free, value).map_err(Refusal::Wrong),
            Some(_) => self.set(name, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::values::{INTEGER, LOG_NAME};
    use super::*;

    #[test]
    fn names_are_in_one_table() {
        let mut all: Vec<&str> = all_names().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(PARAMETERS.is_sorted_by_key(|parameter| parameter.name));
        for name in &all {
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte)), "{name}");
        }
    }

    #[test]
    fn every_value_can_be_set_again() {
        let configuration = Configuration::default();
        let mut again = configuration.clone();
        for (name, value) in configuration.all() {
            assert_eq!(again.set(name, &value), Ok(()), "{name} {value}");
        }
        assert_eq!(again, configuration);
    }

    #[test]
    fn names_without_effect_are_remembered() {
        let mut configuration = Configuration::default();
        let shown = |configuration: &Configuration, name| configuration.all().into_iter().find(|(known, _)| *known == name).unwrap().1;
        for (name, value, also, becomes) in [
            ("list-max-ziplist-size", "1", "list-max-listpack-size", "1"),
            ("list-compress-depth", "2", "list-compress-depth", "2"),
            ("aof-use-rdb-preamble", "NO", "aof-use-rdb-preamble", "no"),
            ("repl-ping-replica-period", "3600", "repl-ping-slave-period", "3600"),
            ("lua-time-limit", "10", "busy-reply-threshold", "10"),
            ("save", "900 1  300 10", "save", "900 1 300 10"),
            ("save", "", "save", ""),
            ("repl-backlog-size", "10kb", "repl-backlog-size", "10240"),
            ("set-max-listpack-value", "32", "set-max-listpack-value", "32"),
            ("sanitize-dump-payload", "no", "sanitize-dump-payload", "no"),
            ("rdb-key-save-delay", "-200", "rdb-key-save-delay", "-200"),
            ("latency-tracking-info-percentiles", "0.0 50.0 100.0", "latency-tracking-info-percentiles", "0 50 100"),
            ("latency-tracking-info-percentiles", "", "latency-tracking-info-percentiles", ""),
        ] {
            assert_eq!(configuration.change(name, value), Ok(()), "{name} {value}");
            assert_eq!(shown(&configuration, also), becomes, "{name} {value}");
        }
        for (name, value, why) in [
            ("list-compress-depth", "-1", "argument must be between 0 and 2147483647 inclusive"),
            ("list-compress-depth", "x", INTEGER),
            ("hz", "1.5", INTEGER),
            ("repl-timeout", "0", "argument must be between 1 and 2147483647 inclusive"),
            ("repl-backlog-size", "0", "argument must be between 1 and 9223372036854775807 inclusive"),
            ("stream-node-max-bytes", "-1", "argument must be a memory value"),
            ("activerehashing", "maybe", "argument must be 'yes' or 'no'"),
            ("repl-diskless-load", "on", "argument(s) must be one of the following: disabled, on-empty-db, swapdb"),
            ("save", "900", "Invalid save parameters"),
            ("save", "0 1", "Invalid save parameters"),
            ("latency-tracking-info-percentiles", "10.0 50.0 a", "Invalid latency-tracking-info-percentiles parameters"),
            ("latency-tracking-info-percentiles", "101", "latency-tracking-info-percentiles parameters should be between 0.0 and 100.0"),
        ] {
            assert_eq!(configuration.change(name, value), Err(Refusal::Wrong(why.into())), "{name} {value}");
        }
        // Directives whose effect would be missed are still refused.
        for (name, value) in [("cluster-enabled", "yes"), ("databases", "17")] {
            assert!(matches!(configuration.change(name, value), Err(Refusal::Wrong(_))), "{name}");
        }
    }

    #[test]
    fn wrong_values_are_told() {
        let mut configuration = Configuration::default();
        for (name, value, why) in [
            ("maxclients", "x", INTEGER),
            ("maxclients", "0", "argument must be between 1 and 4294967295 inclusive"),
            ("port", "65536", "argument must be between 0 and 65535 inclusive"),
            ("memory", "5x", "argument must be a memory value"),
            ("memory", "99999999999gb", "argument must be a memory value"),
            ("memory", "", "argument must be a memory value"),
            ("maxmemory", "-1", "argument must be a memory value"),
            ("client-query-buffer-limit", "1k", "argument must be between 1048576 and 9223372036854775807 inclusive"),
            ("client-output-buffer-limit", "normal 1", "Wrong number of arguments in buffer limit configuration."),
            ("tcp-keepalive", "-1", "argument must be between 0 and 2147483647 inclusive"),
            ("unixsocketperm", "778", "argument couldn't be parsed as an octal number"),
            ("supervised", "maybe", "argument(s) must be one of the following: upstart, systemd, auto, no"),
            ("dbfilename", "CURRENT", "must be a file name that ends in .rdb, without a directory"),
            ("appendfilename", "../x", LOG_NAME),
            ("appendfilename", "", LOG_NAME),
            ("appenddirname", "a b", LOG_NAME),
            ("appenddirname", "MANIFEST", LOG_NAME),
            ("appenddirname", "x/y", LOG_NAME),
            ("appendonly", "maybe", "argument must be 'yes' or 'no'"),
            ("auto-aof-rewrite-percentage", "-1", "argument must be between 0 and 2147483647 inclusive"),
            ("auto-aof-rewrite-min-size", "x", "argument must be a memory value"),
            ("dbfilename", "../x.rdb", "must be a file name that ends in .rdb, without a directory"),
            ("enable-debug-command", "maybe", "argument(s) must be one of the following: no, yes, local"),
            ("hash-max-listpack-value", "-1", "argument must be a memory value"),
            ("set-max-intset-entries", "-1", "argument must be between 0 and 9223372036854775807 inclusive"),
            ("latency-tracking", "maybe", "argument must be 'yes' or 'no'"),
            ("bind", "localhost", "'localhost' is no IP address"),
            (
                "maxdata-policy",
                "lru",
                "argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, \
                 allkeys-lfu, allkeys-random, noeviction",
            ),
            ("maxdata", "-1", "argument must be a memory value"),
            ("maxmemory-samples", "0", "argument must be between 1 and 2147483647 inclusive"),
            ("bind", "", "no address to listen on"),
            ("replicaof", "127.0.0.1", "wrong number of arguments"),
            ("slaveof", "127.0.0.1 65536", "Invalid master port"),
            ("replica-announce-port", "65536", "argument must be between 0 and 65535 inclusive"),
            ("replica-priority", "-1", "argument must be between 0 and 2147483647 inclusive"),
            ("tls-auth-clients", "maybe", "argument(s) must be one of the following: no, yes, optional"),
            ("tls-protocols", "TLSv1.1 TLSv1.2", "TLSv1.1 is not safe and not spoken; there are TLSv1.2 and TLSv1.3"),
        ] {
            assert_eq!(configuration.set(name, value), Err(Refusal::Wrong(why.into())), "{name} {value}");
        }
        assert_eq!(configuration.set("no-such", "1"), Err(Refusal::Unknown));
        assert_eq!(configuration, Configuration::default());
        assert_eq!((bytes("2kb"), bytes("2k"), bytes("1GB"), bytes("16MiB")), (Ok(2048), Ok(2000), Ok(1 << 30), Ok(16 << 20)));
        assert_eq!(addresses("127.0.0.1 -::1").unwrap().len(), 2);
        assert_eq!(addresses("* -::*").unwrap(), [("0.0.0.0".parse().unwrap(), false), ("::".parse().unwrap(), true)]);
        assert_eq!(configuration.change("tls-port", "7"), Err(Refusal::Wrong("can't set immutable config".into())));
        assert_eq!(bytes("18446744073709551616"), Err("argument must be a memory value".into()));
    }

    #[test]
    fn some_values_change_while_the_server_runs() {
        let mut configuration = Configuration::default();
        assert_eq!(configuration.change("DIR", "x"), Err(Refusal::Wrong("can't set protected config".into())));
        assert_eq!(configuration.change("zset-max-ziplist-entries", "7"), Ok(()));
        assert_eq!(configuration.thresholds.sorted_set.elements, 7);
        assert!(configuration.all().contains(&("zset-max-listpack-entries", "7".into())));
        assert_eq!(configuration.change("port", "1"), Err(Refusal::Wrong("can't set immutable config".into())));
        assert_eq!(configuration.change("TIMEOUT", "7"), Ok(()));
        assert_eq!(configuration.timeout, 7);
    }

    #[test]
    fn budgets_are_changed() {
        let mut configuration = Configuration::default();
        assert_eq!((configuration.change("maxmemory", "1GB"), configuration.memory), (Ok(()), 1 << 30));
        assert_eq!((configuration.change("memory", "100m"), configuration.memory), (Ok(()), 100_000_000));
        assert_eq!((configuration.change("maxmemory", "0"), configuration.memory), (Ok(()), 0));
        assert_eq!(configuration.change("maxmemory-policy", "NoEviction"), Ok(()));
        for (name, policy) in [("maxmemory-policy", "allkeys-lru"), ("maxdata-policy", "volatile-ttl")] {
            assert_eq!((configuration.change(name, policy), configuration.policy.name()), (Ok(()), policy));
        }
        assert_eq!((configuration.change("maxdata", "10gb"), configuration.data_max), (Ok(()), 10 << 30));
        assert_eq!((configuration.change("maxmemory", "1mb"), configuration.budget()), (Ok(()), MEMORY_MIN));
        assert_eq!((configuration.change("maxmemory", "18446744073709551615"), configuration.budget()), (Ok(()), MEMORY_MAX));
    }

    #[test]
    fn ports_are_listened_on_at_each_address() {
        let listening = |port, tls_port| {
            let configuration = Configuration { bind: "127.0.0.1 -::1".into(), port, tls_port, ..Configuration::default() };
            let shown = |at: &Listening| {
                format!("{}{}{}", at.address, ["", "?"][usize::from(at.may_miss)], ["", " TLS"][usize::from(at.is_encrypted)])
            };
            configuration.listening().map(|all| all.iter().map(shown).collect::<Vec<_>>().join(", "))
        };
        assert_eq!(listening(1, 0).unwrap(), "127.0.0.1:1, [::1]:1?");
        assert_eq!(listening(0, 0).unwrap(), "127.0.0.1:0, [::1]:0?");
        assert_eq!(listening(0, 2).unwrap(), "127.0.0.1:2 TLS, [::1]:2? TLS");
        assert_eq!(listening(1, 2).unwrap(), "127.0.0.1:1, [::1]:1?, 127.0.0.1:2 TLS, [::1]:2? TLS");
        assert_eq!(listening(2, 2).unwrap_err(), "port and tls-port are both 2");
    }
}
