//! The server: its configuration, its clients, its clock; clearing databases.

use super::arguments::{integer_or, is};
use super::blocking::Reason;
use super::clients::{Client, Pause};
use super::events::Events;
use super::hub::Hub;
use super::table::{ADMIN, DANGEROUS, FAST, LOADING, NOSCRIPT, READ, Run, STALE, WRITE};
use super::thresholds::Thresholds;
use super::{Command, Context, DB_INDEX, Failure, Group, Outcome, SYNTAX, Session, unknown_subcommand, wrong_arity};
use crate::glob;
use crate::keyspace::DATABASES;
use std::collections::BTreeMap;

const fn server(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Server, name, arity, run)
}

/// The commands of this family.
pub(super) const COMMANDS: &[Command] = &[
    server("config", -2, config)
        .subcommands(&["get", "help", "resetstat", "set"])
        .flags(ADMIN | LOADING | NOSCRIPT | STALE)
        .since("2.0.0")
        .says("Read and change the configuration", "O(n), n being the number of parameters"),
    server("dbsize", 1, dbsize).flags(READ | FAST).says("How many keys the database has", "O(1)"),
    server("flushall", -1, flushall).flags(WRITE | DANGEROUS).says("Remove all keys of all databases", "O(1)"),
    server("flushdb", -1, flushdb)
        .flags(WRITE | DANGEROUS)
        .says("Remove all keys of the database", "O(1) if the other databases are empty, else O(n), n being the number of keys"),
    server("swapdb", 3, swapdb)
        .flags(WRITE | FAST | DANGEROUS)
        .since("4.0.0")
        .says("Give the keys of two databases to each other", "O(n), n being the keys watched or waited for in them"),
    server("time", 1, time).flags(LOADING | STALE | FAST).since("2.6.0").says("The server's time", "O(1)"),
];

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

/// Who may use a command that can do harm.
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

    /// As the configuration has it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(allowed, _)| *allowed == self).map_or("", |(_, name)| name)
    }

    /// Reads what the configuration has.
    pub fn parse(name: &str) -> Option<Allowed> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(allowed, _)| *allowed)
    }
}

/// What the server was told to be, under Redis's names.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// Addresses that it listens on.
    pub bind: String,
    /// The port there.
    pub port: u16,
    /// Directory of the data.
    pub directory: String,
    /// Name of the file there in which all keys are saved when a client asks for it.
    pub dump_name: String,
    /// Clients authenticate with it; empty: they need not.
    pub password: String,
    /// When a write is durable.
    pub fsync: Fsync,
    /// Clients at the same time.
    pub clients_max: usize,
    /// Seconds after which a client that says nothing is closed; 0: never.
    pub timeout: u64,
    /// Entries of a stream that a trim with `~` removes together; 0: only all.
    pub stream_block: u64,
    /// Who may use `DEBUG`.
    pub debug_command: Allowed,
    /// Sizes at which values change their form.
    pub thresholds: Thresholds,
    /// Bytes that all clients' requests and replies may take in memory; beyond that those are closed who take most. 0: no limit.
    pub clients_memory: usize,
    /// Of which changes of keys there are messages.
    pub events: Events,
}

impl Default for Configuration {
    fn default() -> Self {
        Configuration {
            bind: "127.0.0.1".into(),
            port: 6379,
            directory: "sinter-data".into(),
            dump_name: "dump.rdb".into(),
            password: String::new(),
            fsync: Fsync::default(),
            clients_max: 10_000,
            timeout: 0,
            stream_block: 100,
            debug_command: Allowed::default(),
            thresholds: Thresholds::default(),
            clients_memory: 2 << 30,
            events: Events::default(),
        }
    }
}

/// Parameters by name. Those that follow from what the server is cannot be changed.
const PARAMETERS: &[&str] = &[
    "appendfsync",
    "appendonly",
    "bind",
    "databases",
    "dbfilename",
    "dir",
    "enable-debug-command",
    "maxclients",
    "maxmemory-clients",
    "notify-keyspace-events",
    "port",
    "requirepass",
    "save",
    "stream-node-max-entries",
    "timeout",
];

/// All parameters.
fn parameters() -> impl Iterator<Item = &'static str> {
    PARAMETERS.iter().copied().chain(Thresholds::names())
}

impl Configuration {
    pub(super) fn needs_password(&self) -> bool {
        !self.password.is_empty()
    }

    pub(super) fn password(&self) -> Option<&[u8]> {
        self.needs_password().then_some(self.password.as_bytes())
    }

    fn get(&self, name: &str) -> Option<String> {
        Some(match name {
            "appendfsync" => self.fsync.name().into(),
            // Every write is logged.
            "appendonly" => "yes".into(),
            "bind" => self.bind.clone(),
            "databases" => DATABASES.to_string(),
            "dbfilename" => self.dump_name.clone(),
            "dir" => self.directory.clone(),
            "maxclients" => self.clients_max.to_string(),
            "maxmemory-clients" => self.clients_memory.to_string(),
            "notify-keyspace-events" => self.events.text(),
            "port" => self.port.to_string(),
            "requirepass" => self.password.clone(),
            // None is made unless a client asks for it.
            "save" => String::new(),
            "stream-node-max-entries" => self.stream_block.to_string(),
            "timeout" => self.timeout.to_string(),
            "enable-debug-command" => self.debug_command.name().into(),
            _ => return self.thresholds.get(name),
        })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "appendfsync" => self.fsync = Fsync::parse(value).ok_or("argument(s) must be one of the following: everysec, always, no")?,
            // What cannot be otherwise may be set to what it is.
            "appendonly" if value == "yes" => {}
            "appendonly" => return Err("every write is logged"),
            "save" if value.is_empty() => {}
            "save" => return Err("all keys are saved in a file when a client asks for it"),
            // Clients do not say which files are written.
            "dbfilename" => return Err("can't set protected config"),
            "maxclients" => self.clients_max = value.parse().map_err(|_| "argument couldn't be parsed into an integer")?,
            "maxmemory-clients" => self.clients_memory = value.parse().map_err(|_| "argument must be a memory value")?,
            "notify-keyspace-events" => {
                self.events = Events::parse(value).ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?;
            }
            "requirepass" => self.password = value.into(),
            "stream-node-max-entries" => {
                self.stream_block = value.parse().map_err(|_| "argument couldn't be parsed into an integer")?;
            }
            "timeout" => self.timeout = value.parse().map_err(|_| "argument couldn't be parsed into an integer")?,
            _ => return self.thresholds.set(name, value).unwrap_or(Err("can't set immutable config")),
        }
        Ok(())
    }
}

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Requests.
    pub commands: u64,
    /// Error replies.
    pub errors: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused, because there were too many.
    pub refused_connections: u64,
    /// Connections closed because all took too much memory.
    pub evicted_clients: u64,
    /// Wrong passwords.
    pub refused_passwords: u64,
    /// Keys removed because their time had come.
    pub expired: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

/// What all clients share beside the data.
#[derive(Debug, Default)]
pub struct Server {
    /// What it was told to be.
    pub configuration: Configuration,
    /// By session.
    pub clients: BTreeMap<u64, Client>,
    /// Clients that are to be closed. They are not among the others any more.
    pub killed: Vec<u64>,
    /// Clients whose wait somebody has ended. They are not in the keyspace's queues any more.
    pub unblocked: Vec<(u64, Reason)>,
    /// Who listens to what.
    pub hub: Hub,
    /// Whether requests wait.
    pub pause: Pause,
    /// Counts since the start.
    pub statistics: Statistics,
    /// Of saving all keys in a file.
    pub saving: super::Saving,
    /// When it started, unix milliseconds.
    pub started: u64,
    /// 40 hexadecimal digits that differ from start to start.
    pub run_id: String,
    /// Keys whose time has come stay until somebody looks at them.
    pub keeps_expired: bool,
}

impl Server {
    /// Notes what others may ask about a client.
    pub fn update(&mut self, session: &Session, active: u64) -> &mut Client {
        let client = self.clients.entry(session.id).or_default();
        client.update(session, active);
        client
    }

    /// A client is to be closed, and does not take part in anything until it is.
    pub fn kill(&mut self, id: u64) {
        self.clients.remove(&id);
        self.hub.leave(id);
        self.killed.push(id);
    }

    /// A request has left something to do for the network before the next one is run.
    pub fn has_orders(&self) -> bool {
        self.hub.has_posts() || !self.unblocked.is_empty() || !self.killed.is_empty()
    }
}

fn dbsize(context: &mut Context, _: &[&[u8]]) -> Outcome {
    context.keyspace.need_all();
    let size = context.keyspace.size(context.session.db);
    context.reply.integer(i64::try_from(size).unwrap_or(i64::MAX));
    Ok(())
}

/// `SYNC` and `ASYNC` are the same: nothing is freed in the caller's time.
fn check_flush(arguments: &[&[u8]]) -> Outcome {
    match arguments {
        [_] => Ok(()),
        [_, word] if is(word, "sync") || is(word, "async") => Ok(()),
        _ => Err(SYNTAX),
    }
}

fn flushall(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    check_flush(arguments)?;
    context.keyspace.clear_all()?;
    context.reply.ok();
    Ok(())
}

fn flushdb(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    check_flush(arguments)?;
    context.keyspace.clear(context.session.db)?;
    context.reply.ok();
    Ok(())
}

fn swapdb(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    // Numbers of 32 bits are read; of these few are databases.
    let number = |text, wrong| integer_or(text, Failure::fixed(wrong)).and_then(|n| i32::try_from(n).map_err(|_| Failure::fixed(wrong)));
    let first = number(arguments[1], "ERR invalid first DB index")?;
    let second = number(arguments[2], "ERR invalid second DB index")?;
    let database = |number: i32| usize::try_from(number).ok().filter(|db| *db < DATABASES).ok_or(DB_INDEX);
    context.keyspace.swap(database(first)?, database(second)?)?;
    context.reply.ok();
    Ok(())
}

fn time(context: &mut Context, _: &[&[u8]]) -> Outcome {
    let now = context.keyspace.now();
    context.reply.array(2);
    context.reply.bulk((now / 1000).to_string().as_bytes());
    context.reply.bulk((now % 1000 * 1000).to_string().as_bytes());
    Ok(())
}

const CONFIG_HELP: &[&str] = &[
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern> [<pattern> ...]",
    "    The parameters that match, and their values.",
    "RESETSTAT",
    "    Count from zero again.",
    "SET <parameter> <value> [<parameter> <value> ...]",
    "    Change parameters until the server ends.",
    "HELP",
    "    Print this help.",
];

fn config(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let sub = arguments[1];
    match () {
        () if is(sub, "help") => {
            context.reply.array(CONFIG_HELP.len());
            CONFIG_HELP.iter().for_each(|line| context.reply.simple(line));
        }
        () if is(sub, "get") && arguments.len() > 2 => {
            let wanted = |name: &&str| arguments[2..].iter().any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()));
            let found: Vec<&str> = parameters().filter(wanted).collect();
            context.reply.map(found.len());
            for name in found {
                context.reply.bulk(name.as_bytes());
                context.reply.bulk(context.server.configuration.get(name).unwrap_or_default().as_bytes());
            }
        }
        () if is(sub, "set") && arguments.len() > 3 && arguments.len().is_multiple_of(2) => {
            let mut changed = context.server.configuration.clone();
            for pair in arguments[2..].chunks_exact(2) {
                set_parameter(&mut changed, pair[0], pair[1])?;
            }
            context.server.configuration = changed;
            context.reply.ok();
        }
        () if is(sub, "resetstat") && arguments.len() == 2 => {
            context.server.statistics = Statistics::default();
            context.reply.ok();
        }
        () if ["get", "set", "resetstat"].iter().any(|known| is(sub, known)) => {
            return Err(wrong_arity(&[b"config|", &sub.to_ascii_lowercase()[..]].concat()));
        }
        () => return Err(unknown_subcommand(arguments)),
    }
    Ok(())
}

fn set_parameter(configuration: &mut Configuration, name: &[u8], value: &[u8]) -> Outcome {
    let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
    if !parameters().any(|known| known == lower) {
        return Err(Failure::new([b"ERR Unknown option or number of arguments for CONFIG SET - '", name, b"'"].concat()));
    }
    let value = String::from_utf8_lossy(value);
    let failed = |why| Failure::new(format!("ERR CONFIG SET failed (possibly related to argument '{lower}') - {why}"));
    configuration.set(&lower, &value).map_err(failed)
}
