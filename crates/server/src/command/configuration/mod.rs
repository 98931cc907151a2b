//! What the server was told to be, under Redis's names.
//!
//! A name is in one of three tables: [`PARAMETERS`] have effect; [`FIXED`](fixed::FIXED) ones have one value that the server cannot leave,
//! and are accepted with that; [`ABSENT`](fixed::ABSENT) ones are told why they do not exist here. Nothing is accepted and ignored.

mod file;
mod fixed;

pub(super) use file::rewrite;
pub use file::{Complaint, Directive, read, read_text};
pub use fixed::{ABSENT, FIXED, Fixed};

use super::Events;
use crate::log::Level;
use std::net::IpAddr;

/// When a write is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fsync {
    /// Before its reply.
    Always,
    /// Within a second or so.
    #[default]
    EverySecond,
    /// When the system finds the time.
    No,
}

impl Fsync {
    const ALL: [(Fsync, &'static str); 3] = [(Fsync::Always, "always"), (Fsync::EverySecond, "everysec"), (Fsync::No, "no")];

    /// As the configuration has it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(fsync, _)| *fsync == self).map_or("", |(_, name)| name)
    }

    /// Reads what the configuration has.
    pub fn parse(name: &str) -> Option<Fsync> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(fsync, _)| *fsync)
    }
}

/// What the server was told to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// File of users; empty: they are in the configuration.
    pub acl_file: String,
    /// Refusals that are remembered.
    pub acllog_max_len: usize,
    /// Addresses that it listens on, blanks between them; one behind a minus may be missing on the machine.
    pub bind: String,
    /// The port there.
    pub port: u16,
    /// Directory of the data.
    pub directory: String,
    /// Clients authenticate with it; empty: they need not.
    pub password: String,
    /// When a write is durable.
    pub fsync: Fsync,
    /// Clients at the same time.
    pub clients_max: usize,
    /// Seconds after which a client that says nothing is closed; 0: never.
    pub timeout: u64,
    /// Milliseconds from which on a moment is noted; 0: none is.
    pub latency_threshold: u64,
    /// Times of commands are kept.
    pub latency_tracking: bool,
    /// File of the log; empty: standard error.
    pub log_file: String,
    /// Events that are logged.
    pub log_level: Level,
    /// Bytes that all clients' requests and replies may take in memory; beyond that those are closed who take most. 0: no limit.
    pub clients_memory: usize,
    /// Of which changes of keys there are messages.
    pub events: Events,
    /// Bytes for memtables and cache together; 0: the engine decides.
    pub memory: u64,
    /// Address of the metrics.
    pub metrics_bind: String,
    /// Port of the metrics; 0: there are none.
    pub metrics_port: u16,
    /// File that holds the number of the process; empty: none.
    pub pid_file: String,
    /// Microseconds from which on a command is noted; negative: none is.
    pub slowlog_slower_than: i64,
    /// Slow commands that are remembered.
    pub slowlog_max_len: usize,
    /// Users and their rules, as they stood in the file.
    pub users: Vec<Vec<Vec<u8>>>,
    /// The file that this was read from; empty: none.
    pub file: String,
}

impl Default for Configuration {
    fn default() -> Self {
        Configuration {
            acl_file: String::new(),
            acllog_max_len: 128,
            bind: "127.0.0.1".into(),
            port: 6379,
            directory: "sinter-data".into(),
            password: String::new(),
            fsync: Fsync::default(),
            clients_max: 10_000,
            timeout: 0,
            latency_threshold: 0,
            latency_tracking: true,
            log_file: String::new(),
            log_level: Level::default(),
            clients_memory: 2 << 30,
            events: Events::default(),
            memory: 0,
            metrics_bind: "127.0.0.1".into(),
            metrics_port: 0,
            pid_file: String::new(),
            slowlog_slower_than: 10_000,
            slowlog_max_len: 128,
            users: Vec::new(),
            file: String::new(),
        }
    }
}

/// Why a value is refused.
type Why = String;

/// A name that has effect.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// In small letters.
    pub name: &'static str,
    /// It may change while the server runs.
    pub changes: bool,
    /// What it does, for people.
    pub about: &'static str,
    get: fn(&Configuration) -> String,
    set: fn(&mut Configuration, &str) -> Result<(), Why>,
}

const INTEGER: &str = "argument couldn't be parsed into an integer";

/// A number between two others.
fn number<N: TryFrom<i64> + Copy>(value: &str, low: i64, high: i64) -> Result<N, Why> {
    let number = crate::number::parse_integer(value.as_bytes()).ok_or(INTEGER)?;
    let out = || format!("argument must be between {low} and {high} inclusive");
    if (low..=high).contains(&number) { N::try_from(number).map_err(|_| out()) } else { Err(out()) }
}

fn yes_or_no(value: &str) -> Result<bool, Why> {
    match value.to_ascii_lowercase().as_str() {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("argument must be 'yes' or 'no'".into()),
    }
}

fn name_of(yes: bool) -> String {
    if yes { "yes" } else { "no" }.into()
}

/// Bytes, in Redis's units: `k` is 1000, `kb` is 1024.
fn bytes(value: &str) -> Result<u64, Why> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let factor = match value[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => 0,
    };
    let number: Option<u64> = value[..digits].parse().ok().filter(|_| factor > 0);
    number.and_then(|number| number.checked_mul(factor)).ok_or_else(|| "argument must be a memory value".into())
}

/// Addresses, each perhaps behind a minus. Says which, and whether each may be missing.
///
/// # Errors
/// The first word that is no address.
pub fn addresses(bind: &str) -> Result<Vec<(IpAddr, bool)>, String> {
    let read = |word: &str| {
        let (word, may_miss) = word.strip_prefix('-').map_or((word, false), |rest| (rest, true));
        match word {
            "*" => Ok((IpAddr::from([0, 0, 0, 0]), may_miss)),
            _ => word.parse().map(|address| (address, may_miss)).map_err(|_| format!("'{word}' is no IP address")),
        }
    };
    let all: Vec<_> = bind.split_ascii_whitespace().map(read).collect::<Result<_, _>>()?;
    if all.is_empty() { Err("no address to listen on".into()) } else { Ok(all) }
}

const fn parameter(
    name: &'static str,
    changes: bool,
    about: &'static str,
    get: fn(&Configuration) -> String,
    set: fn(&mut Configuration, &str) -> Result<(), Why>,
) -> Parameter {
    Parameter { name, changes, about, get, set }
}

/// Names that have effect, in order.
pub const PARAMETERS: &[Parameter] = &[
    parameter(
        "aclfile",
        false,
        "file of users, a line for each; without it they are `user` lines of the configuration",
        |c| c.acl_file.clone(),
        |c, value| {
            c.acl_file = value.into();
            Ok(())
        },
    ),
    parameter(
        "acllog-max-len",
        true,
        "refusals that `ACL LOG` remembers",
        |c| c.acllog_max_len.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.acllog_max_len = number),
    ),
    parameter(
        "appendfsync",
        true,
        "when a write survives the machine: `always` (before its reply), `everysec`, `no` (when the system finds the time)",
        |c| c.fsync.name().into(),
        |c, value| {
            c.fsync = Fsync::parse(value).ok_or("argument(s) must be one of the following: everysec, always, no")?;
            Ok(())
        },
    ),
    parameter(
        "bind",
        false,
        "IP addresses to listen on, several with blanks between them; one behind `-` may be missing on the machine",
        |c| c.bind.clone(),
        |c, value| {
            addresses(value)?;
            c.bind = value.into();
            Ok(())
        },
    ),
    parameter(
        "dir",
        false,
        "directory of the data, created if it is missing",
        |c| c.directory.clone(),
        |c, value| {
            c.directory = value.into();
            Ok(())
        },
    ),
    parameter(
        "latency-monitor-threshold",
        true,
        "milliseconds from which on `LATENCY` notes a moment; 0: none",
        |c| c.latency_threshold.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.latency_threshold = number),
    ),
    parameter(
        "latency-tracking",
        true,
        "whether times of commands are kept for `LATENCY HISTOGRAM` and `INFO latencystats`",
        |c| name_of(c.latency_tracking),
        |c, value| yes_or_no(value).map(|yes| c.latency_tracking = yes),
    ),
    parameter(
        "logfile",
        false,
        "file of the log; empty: standard error",
        |c| c.log_file.clone(),
        |c, value| {
            c.log_file = value.into();
            Ok(())
        },
    ),
    parameter(
        "loglevel",
        true,
        "events that are logged: `debug`, `verbose` (clients that come and go), `notice`, `warning`",
        |c| c.log_level.name().into(),
        |c, value| {
            c.log_level = Level::parse(value).ok_or("argument(s) must be one of the following: debug, verbose, notice, warning")?;
            Ok(())
        },
    ),
    parameter(
        "maxclients",
        true,
        "most clients at the same time",
        |c| c.clients_max.to_string(),
        |c, value| number(value, 1, u32::MAX.into()).map(|number| c.clients_max = number),
    ),
    parameter(
        "maxmemory-clients",
        true,
        "bytes that all clients' requests and replies may take; beyond that those who take most are closed. 0: no limit",
        |c| c.clients_memory.to_string(),
        |c, value| {
            c.clients_memory = usize::try_from(bytes(value)?).map_err(|_| "argument must be a memory value")?;
            Ok(())
        },
    ),
    parameter(
        "memory",
        false,
        "memory for memtables and cache together, such as `512mb`; 0: the engine decides. Data may be larger",
        |c| c.memory.to_string(),
        |c, value| bytes(value).map(|bytes| c.memory = bytes),
    ),
    parameter(
        "metrics-bind",
        false,
        "IP address of the metrics",
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
        "port of the metrics and the health check over HTTP; 0: there are none",
        |c| c.metrics_port.to_string(),
        |c, value| number(value, 0, 65_535).map(|number| c.metrics_port = number),
    ),
    parameter(
        "notify-keyspace-events",
        true,
        "of which changes of keys there are messages, in Redis's letters (`KEA`, say); empty: of none",
        |c| c.events.text(),
        |c, value| {
            c.events = Events::parse(value).ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?;
            Ok(())
        },
    ),
    parameter(
        "pidfile",
        false,
        "file that holds the number of the process while it runs; empty: none",
        |c| c.pid_file.clone(),
        |c, value| {
            c.pid_file = value.into();
            Ok(())
        },
    ),
    parameter(
        "port",
        false,
        "port to listen on; 0: a free one, which is printed",
        |c| c.port.to_string(),
        |c, value| number(value, 0, 65_535).map(|number| c.port = number),
    ),
    parameter(
        "requirepass",
        true,
        "password of the user `default`; empty: none is needed",
        |c| c.password.clone(),
        |c, value| {
            c.password = value.into();
            Ok(())
        },
    ),
    parameter(
        "slowlog-log-slower-than",
        true,
        "microseconds from which on `SLOWLOG` notes a command; -1: none",
        |c| c.slowlog_slower_than.to_string(),
        |c, value| number(value, -1, i64::MAX).map(|number| c.slowlog_slower_than = number),
    ),
    parameter(
        "slowlog-max-len",
        true,
        "commands that `SLOWLOG` remembers",
        |c| c.slowlog_max_len.to_string(),
        |c, value| number(value, 0, i64::MAX).map(|number| c.slowlog_max_len = number),
    ),
    parameter(
        "timeout",
        true,
        "seconds after which a client that says nothing is closed; 0: never",
        |c| c.timeout.to_string(),
        |c, value| number(value, 0, i32::MAX.into()).map(|number| c.timeout = number),
    ),
];

impl Parameter {
    /// Its value.
    pub fn value(&self, configuration: &Configuration) -> String {
        (self.get)(configuration)
    }
}

/// What a name is.
#[derive(Debug, Clone, Copy)]
pub enum Known {
    /// It has effect.
    Parameter(&'static Parameter),
    /// It has one value.
    Fixed(&'static Fixed),
    /// It does not exist here; this is why.
    Absent(&'static str),
}

/// Looks a name up, in capitals or not.
pub fn known(name: &str) -> Option<Known> {
    let name = name.to_ascii_lowercase();
    let names = |names: &str| names.split(' ').any(|known| known == name);
    let parameter = PARAMETERS.iter().find(|parameter| parameter.name == name).map(Known::Parameter);
    let fixed = || FIXED.iter().find(|fixed| names(fixed.names)).map(Known::Fixed);
    let absent = || ABSENT.iter().find(|(known, _)| names(known)).map(|(_, why)| Known::Absent(why));
    parameter.or_else(fixed).or_else(absent)
}

/// All names that may stand in a file: for a suggestion.
pub fn all_names() -> impl Iterator<Item = &'static str> {
    let fixed = FIXED.iter().flat_map(|fixed| fixed.names.split(' '));
    let absent = ABSENT.iter().flat_map(|(names, _)| names.split(' '));
    PARAMETERS.iter().map(|parameter| parameter.name).chain(fixed).chain(absent).chain(["include", "user"])
}

/// Why something cannot be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such name.
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

    /// Names and values, those with one value included, in order.
    pub(super) fn all(&self) -> Vec<(&'static str, String)> {
        let parameters = PARAMETERS.iter().map(|parameter| (parameter.name, (parameter.get)(self)));
        let fixed = FIXED.iter().flat_map(|fixed| fixed.names.split(' ').map(|name| (name, fixed.value().to_owned())));
        let mut all: Vec<_> = parameters.chain(fixed).collect();
        all.sort_unstable();
        all
    }

    /// Sets a name before the server starts.
    ///
    /// # Errors
    /// There is no such name, or it cannot have this value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        match known(name).ok_or(Refusal::Unknown)? {
            Known::Parameter(parameter) => (parameter.set)(self, value).map_err(Refusal::Wrong),
            Known::Fixed(fixed) => fixed.check(value).map_err(Refusal::Wrong),
            Known::Absent(why) => Err(Refusal::Wrong(format!("there is no such parameter here: {why}"))),
        }
    }

    /// Sets a name while the server runs.
    pub(super) fn change(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        match known(name) {
            None | Some(Known::Absent(_)) => Err(Refusal::Unknown),
            Some(Known::Parameter(parameter)) if !parameter.changes => Err(Refusal::Wrong("can't set immutable config".into())),
            Some(_) => self.set(name, value),
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn wrong_values_are_told() {
        let mut configuration = Configuration::default();
        for (name, value, why) in [
            ("maxclients", "x", INTEGER),
            ("maxclients", "0", "argument must be between 1 and 4294967295 inclusive"),
            ("port", "65536", "argument must be between 0 and 65535 inclusive"),
            ("memory", "5x", "argument must be a memory value"),
            ("memory", "99999999999gb", "argument must be a memory value"),
            ("memory", "", "argument must be a memory value"),
            ("latency-tracking", "maybe", "argument must be 'yes' or 'no'"),
            ("bind", "localhost", "'localhost' is no IP address"),
            ("bind", "", "no address to listen on"),
        ] {
            assert_eq!(configuration.set(name, value), Err(Refusal::Wrong(why.into())), "{name} {value}");
        }
        assert_eq!(configuration.set("no-such", "1"), Err(Refusal::Unknown));
        assert_eq!(configuration, Configuration::default());
        assert_eq!((bytes("2kb"), bytes("2k"), bytes("1GB")), (Ok(2048), Ok(2000), Ok(1 << 30)));
        assert_eq!(addresses("127.0.0.1 -::1").unwrap().len(), 2);
        assert_eq!(configuration.change("port", "1"), Err(Refusal::Wrong("can't set immutable config".into())));
        assert_eq!(configuration.change("TIMEOUT", "7"), Ok(()));
        assert_eq!(configuration.timeout, 7);
    }
}
