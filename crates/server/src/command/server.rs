//! The server: its clients, its counts, its clock; clearing databases.

use super::acl::{self, Users};
use super::arguments::{integer_or, is};
use super::blocking::Reason;
use super::clients::{Client, Pause};
use super::configuration::{Class, OutputLimit, Supervised};
use super::hub::Hub;
use super::latency::Monitor;
use super::slowlog::Slowlog;
use super::table::{DANGEROUS, FAST, LOADING, READ, Run, STALE, WRITE};
use super::usage::{Stopwatch, Usage};
use super::{Command, Configuration, Context, DB_INDEX, Failure, Group, Outcome, SYNTAX, Session};
use crate::append::AppendLog;
use crate::keyspace::DATABASES;
use crate::log::{Level, Log};
use crate::system;
use crate::tls::Tls;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

const fn server(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Server, name, arity, run)
}

/// The commands of this family.
pub(super) const COMMANDS: &[Command] = &[
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
    /// Connections closed because they had not read too much of their output.
    pub output_limited: u64,
    /// Connections closed because they had sent too much that could not be run.
    pub query_limited: u64,
    /// Requests that were refused, by reason: the password, the command, a key, a channel.
    pub refused_requests: [u64; 4],
    /// Keys removed because their time had come.
    pub expired: u64,
    /// Keys that commands which read have found.
    pub hits: u64,
    /// Keys that they have not found.
    pub misses: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Of the counts above.
    pub rates: Rates,
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
    /// The log in Redis's format, if there is one.
    pub append: AppendLog,
    /// When it started, unix milliseconds.
    pub started: u64,
    /// 40 hexadecimal digits that differ from start to start.
    pub run_id: String,
    /// Keys whose time has come stay until somebody looks at them.
    pub keeps_expired: bool,
    /// Requests that write wait until the engine can take more.
    pub is_short_of_room: bool,
    /// Who may do what.
    pub users: Users,
    /// What encrypted connections begin with; `None`: there are none.
    pub tls: Option<Tls>,
    /// Where events are told.
    pub log: Log,
    /// Who was found to watch the process.
    pub supervised: Supervised,
    /// It was told to end, and does when the turn has ended.
    pub is_ending: bool,
    /// What was done, and how long it took.
    pub records: Records,
}

/// What was done, and how long it took.
#[derive(Debug, Default)]
pub struct Records {
    pub(super) usage: Usage,
    pub(super) slowlog: Slowlog,
    pub(super) latency: Monitor,
    pub(super) stopwatch: Stopwatch,
    /// Names without effect that the log has told of.
    told: BTreeSet<&'static str>,
}

/// Where counts stood, and when, unix milliseconds: what has come since is a rate.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    at: u64,
    counts: [u64; 3],
    /// Requests, bytes received and bytes sent in a second.
    pub(super) per_second: [f64; 3],
}

/// Milliseconds over which rates are taken.
const RATE_MS: u64 = 1000;

impl Rates {
    /// Looks at the counts, several times a second.
    fn look(&mut self, now: u64, counts: [u64; 3]) {
        let passed = now.saturating_sub(self.at);
        if passed < RATE_MS {
            // A clock that goes back does not stop them.
            self.at = self.at.min(now);
            return;
        }
        for (rate, (new, old)) in self.per_second.iter_mut().zip(counts.iter().zip(self.counts)) {
            *rate = if self.at == 0 { 0.0 } else { new.saturating_sub(old) as f64 * 1000.0 / passed as f64 };
        }
        (self.at, self.counts) = (now, counts);
    }
}

impl Server {
    /// Takes the users from where the configuration says they are.
    ///
    /// # Errors
    /// What is wrong with the file of users, or with the users in the configuration.
    pub fn take_users(&mut self) -> Result<(), String> {
        self.users = Users::default();
        self.users.set_default_password(self.configuration.password());
        let file = self.configuration.acl_file.clone();
        if !file.is_empty() && !self.configuration.users.is_empty() {
            return Err("users are in the configuration and in aclfile; they can be in one of them".into());
        }
        if !file.is_empty() {
            self.users.replace(acl::load(file.as_ref())?);
        }
        for words in self.configuration.users.clone() {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            self.users.define(&words).map_err(|error| String::from_utf8_lossy(&error).into_owned())?;
        }
        Ok(())
    }

    /// Everybody who connects may use the server.
    pub fn is_open(&self) -> bool {
        self.users.is_open()
    }

    /// Clients on other machines are turned away.
    pub fn turns_away(&self) -> bool {
        self.is_open() && self.configuration.is_protected
    }

    /// A command by the name that clients have for it.
    pub fn command(&self, name: &[u8]) -> Option<&'static Command> {
        self.configuration.renames.find(name).map(|(_, command)| command)
    }

    /// The class of a client, and how much output it may leave unread.
    pub fn output_limit(&self, id: u64) -> (Class, OutputLimit) {
        let listens = self.hub.is_listening(id) || self.hub.is_monitor(id);
        let class = if listens { Class::PubSub } else { Class::Normal };
        (class, self.configuration.output_limits.of(class))
    }

    /// Tells the log, once for each name, what the configuration asks for and has no effect.
    pub fn tell_without_effect(&mut self) {
        for (name, why) in self.configuration.without_effect_now() {
            if self.records.told.insert(name) {
                self.event(Level::Notice, "without_effect", &[("name", &name), ("why", &why)]);
            }
        }
        let (asked, used) = (self.configuration.memory, self.configuration.budget());
        if asked > 0 && self.records.told.insert("maxmemory") {
            let why = "data beyond the memory go to disk, and nothing is evicted";
            self.event(Level::Notice, "maxmemory_bounds_caches", &[("maxmemory", &asked), ("used", &used), ("why", &why)]);
        }
    }

    /// Writes an event to the log.
    pub fn event(&self, level: Level, event: &str, values: &[(&str, &dyn Display)]) {
        self.log.event(system::unix_ms(), level, event, values);
    }

    /// Nanoseconds since some fixed point.
    pub fn monotonic_ns(&self) -> u64 {
        self.records.stopwatch.now()
    }

    /// What runs next begins now: nothing of the same client ran just before.
    pub fn start_stopwatch(&mut self) {
        self.records.stopwatch.start();
    }

    /// When what ran last has ended, nanoseconds: the clock is not read again.
    pub fn last_ended(&self) -> u64 {
        self.records.stopwatch.begun()
    }

    /// Takes time from another clock than the system's.
    #[cfg(test)]
    pub fn set_clock(&mut self, clock: std::sync::Arc<dyn sinterdb::clock::Clock>) {
        self.records.stopwatch = Stopwatch::with(clock);
    }

    /// Notes that something took so long, if that is worth it; `event` says what.
    pub fn took(&mut self, event: &'static str, now: u64, ns: u64) {
        let (threshold, ms) = (self.configuration.latency_threshold, ns / 1_000_000);
        if threshold > 0 && ms >= threshold {
            self.records.latency.add(event, now / 1000, ms);
        }
    }

    /// What is due several times a second.
    pub fn look_at_rates(&mut self, now: u64) {
        let statistics = &mut self.statistics;
        statistics.rates.look(now, [statistics.commands, statistics.bytes_in, statistics.bytes_out]);
    }

    /// Notes what others may ask about a client.
    pub fn update(&mut self, session: &Session, active: u64) -> &mut Client {
        let client = self.clients.entry(session.id).or_default();
        client.update(session, active);
        client.set_user(session.user, &self.users);
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
    // Finer than the time of the turn.
    let now = system::unix_us();
    context.reply.array(2);
    context.reply.bulk((now / 1_000_000).to_string().as_bytes());
    context.reply.bulk((now % 1_000_000).to_string().as_bytes());
    Ok(())
}
