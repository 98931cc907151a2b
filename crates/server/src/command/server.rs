//! Statistics and the clock of the server, clients that come and go; commands that clear databases.

use super::acl::{self, Users};
use super::arguments::{integer_or, is};
use super::client::Client;
use super::configuration::{Class, OutputLimit};
use super::spec::{DANGEROUS, FAST, LOADING, READ, Run, STALE, WRITE};
#[cfg(test)]
use super::usage::Stopwatch;
use super::{Command, Context, DB_INDEX, Failure, Group, Outcome, SYNTAX, Server, Session};
use crate::keyspace::{DATABASES, Expired, Keyspace};
use crate::log::Level;
use crate::system;
use std::fmt::Display;

const fn server(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Server, name, arity, run)
}

/// The commands of this file.
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
    /// Requests received.
    pub commands: u64,
    /// Error replies sent.
    pub errors: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused, because there were too many.
    pub refused_connections: u64,
    /// Connections closed because all together took too much memory.
    pub evicted_clients: u64,
    /// Connections closed because they had too much unread output.
    pub output_limited: u64,
    /// Connections closed because they had sent too much that could not be run yet.
    pub query_limited: u64,
    /// Requests refused by access rules, by reason: the password, the command, a key, a channel.
    pub refused_requests: [u64; 4],
    /// Keys and fields that had expired when the statistics began.
    pub expired_before: Expired,
    /// Keys that were evicted.
    pub evicted: u64,
    /// Times that the removal of expired keys was interrupted because it took long.
    pub expiry_pauses: u64,
    /// Time spent on removing expired keys that no command had found, nanoseconds.
    pub expiring_ns: u64,
    /// Lookups of keys to be read that found the key, one for each key of a command.
    pub hits: u64,
    /// Lookups of keys to be read that did not find the key.
    pub misses: u64,
    /// Reads from sockets of clients that brought bytes.
    pub reads: u64,
    /// Writes to sockets of clients that took bytes.
    pub writes: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Bytes given to replicas.
    pub bytes_to_replicas: u64,
    /// Rates of some of these counts.
    pub rates: Rates,
}

impl Statistics {
    /// Statistics that begin now.
    pub(super) fn begin(keyspace: &Keyspace) -> Statistics {
        Statistics { expired_before: keyspace.expired(), ..Statistics::default() }
    }

    /// Keys and fields that have expired since the statistics began, whoever removed them.
    pub(super) fn expired(&self, keyspace: &Keyspace) -> Expired {
        let (all, before) = (keyspace.expired(), self.expired_before);
        Expired { keys: all.keys - before.keys, fields: all.fields - before.fields }
    }
}

/// Rates, and the counts and the time (unix milliseconds) from which the next rates are computed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    at: u64,
    counts: [u64; 3],
    /// Requests, bytes received and bytes sent per second.
    pub(super) per_second: [f64; 3],
}

/// Interval over which rates are computed, milliseconds.
const RATE_MS: u64 = 1000;

impl Rates {
    /// Recomputes the rates if the interval has passed; called several times a second.
    fn look(&mut self, now: u64, counts: [u64; 3]) {
        let passed = now.saturating_sub(self.at);
        if passed < RATE_MS {
            // If the clock is set back, the interval begins at the new time.
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
    /// Loads the users from the file or the configuration.
    ///
    /// # Errors
    /// Errors in the file of users, or in the users of the configuration.
    pub fn take_users(&mut self) -> Result<(), String> {
        self.users = Users::default();
        self.users.set_default_password(self.configuration.password());
        self.users.new_channels = self.configuration.new_channels;
        let file = self.configuration.acl_path();
        if file.is_some() && !self.configuration.users.is_empty() {
            return Err("users are in the configuration and in aclfile; they can be in one of them".into());
        }
        if let Some(file) = file {
            self.users.replace(acl::load(&file, self.users.new_channels)?);
        }
        for words in self.configuration.users.clone() {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            self.users.define(&words).map_err(|error| String::from_utf8_lossy(&error).into_owned())?;
        }
        Ok(())
    }

    /// Whether every client may use the server without authentication.
    pub fn is_open(&self) -> bool {
        self.users.is_open()
    }

    /// Whether clients on other machines are turned away.
    pub fn turns_away(&self) -> bool {
        self.is_open() && self.configuration.is_protected
    }

    /// The class of a client, and its limit for unread output.
    pub fn output_limit(&self, id: u64) -> (Class, OutputLimit) {
        let listens = self.hub.is_listening(id) || self.hub.is_monitor(id);
        let class = match () {
            () if self.replicas.has(id) => Class::Replica,
            () if listens => Class::PubSub,
            () => Class::Normal,
        };
        (class, self.configuration.output_limits.of(class))
    }

    /// Logs, once for each directive, that a configured one has no effect.
    pub fn tell_without_effect(&mut self) {
        for (name, why) in self.configuration.without_effect_now() {
            if self.records.told.insert(name) {
                self.event(Level::Notice, "without_effect", &[("name", &name), ("why", &why)]);
            }
        }
        let (asked, used) = (self.configuration.memory, self.configuration.budget());
        if asked > 0 && self.records.told.insert("maxmemory") {
            let why = "data beyond the memory go to disk; maxdata limits the data";
            self.event(Level::Notice, "maxmemory_bounds_caches", &[("maxmemory", &asked), ("used", &used), ("why", &why)]);
        }
    }

    /// Lowers `maxclients` to the number of clients that the process's descriptors allow.
    pub fn limit_clients(&mut self, possible: Option<usize>) {
        self.clients_possible = possible;
        let asked = self.configuration.clients_max;
        if let Some(possible) = possible.filter(|possible| *possible < asked) {
            self.configuration.clients_max = possible;
            let why = "some descriptors are kept for files; raise the limit of open files (ulimit -Hn)";
            self.event(Level::Warning, "maxclients_lowered", &[("from", &asked), ("to", &possible), ("why", &why)]);
        }
    }

    /// Writes an event to the server's log.
    pub fn event(&self, level: Level, event: &str, values: &[(&str, &dyn Display)]) {
        self.log.event(system::unix_ms(), level, event, values);
    }

    /// Nanoseconds since some fixed point.
    pub fn monotonic_ns(&self) -> u64 {
        self.records.stopwatch.now()
    }

    /// Starts the time of the next command now, rather than at the end of the previous one; returns the time, nanoseconds.
    pub fn start_stopwatch(&mut self) -> u64 {
        self.records.stopwatch.start()
    }

    /// End of the last command, nanoseconds, without reading the clock again.
    pub fn last_ended(&self) -> u64 {
        self.records.stopwatch.begun()
    }

    /// Replaces the system's clock.
    #[cfg(test)]
    pub fn set_clock(&mut self, clock: std::sync::Arc<dyn sinterdb::clock::Clock>) {
        self.records.stopwatch = Stopwatch::with(clock);
    }

    /// Adds a latency sample of kind `event` if the duration reaches the threshold.
    pub fn took(&mut self, event: &'static str, now: u64, ns: u64) {
        let (threshold, ms) = (self.configuration.latency_threshold, ns / 1_000_000);
        if threshold > 0 && ms >= threshold {
            self.records.latency.add(event, now / 1000, ms);
        }
    }

    /// Updates the rates; called several times a second.
    pub fn look_at_rates(&mut self, now: u64) {
        let statistics = &mut self.statistics;
        statistics.rates.look(now, [statistics.commands, statistics.bytes_in, statistics.bytes_out]);
    }

    /// Updates the properties of a client that others can ask for.
    pub fn update(&mut self, session: &Session, active: u64) -> &mut Client {
        let client = self.clients.entry(session.id).or_default();
        client.update(session, active);
        if client.user != session.user || client.user_name.is_empty() {
            client.user = session.user;
            client.user_name = self.users.name_of(session.user).unwrap_or_default().to_vec();
        }
        client
    }

    /// Forgets a client that has ended.
    pub fn leave(&mut self, id: u64) {
        self.clients.remove(&id);
        self.hub.leave(id);
        self.tracking.leave(id);
        self.replicas.remove(id);
    }

    /// Marks a client to be closed. Until then it takes part in nothing.
    pub fn kill(&mut self, id: u64) {
        self.leave(id);
        self.killed.push(id);
    }

    /// Whether a request has left something that the network has to do before the next request.
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

/// Checks the arguments. `SYNC` and `ASYNC` make no difference: nothing is freed while the client waits.
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
    // Redis parses 32-bit integers first, and then checks that they name a database.
    let number = |text, wrong| integer_or(text, Failure::fixed(wrong)).and_then(|n| i32::try_from(n).map_err(|_| Failure::fixed(wrong)));
    let first = number(arguments[1], "ERR invalid first DB index")?;
    let second = number(arguments[2], "ERR invalid second DB index")?;
    let database = |number: i32| usize::try_from(number).ok().filter(|db| *db < DATABASES).ok_or(DB_INDEX);
    context.keyspace.swap(database(first)?, database(second)?)?;
    context.reply.ok();
    Ok(())
}

fn time(context: &mut Context, _: &[&[u8]]) -> Outcome {
    // Finer than the time of the event-loop iteration.
    let now = system::unix_us();
    context.reply.array(2);
    context.reply.bulk((now / 1_000_000).to_string().as_bytes());
    context.reply.bulk((now % 1_000_000).to_string().as_bytes());
    Ok(())
}
