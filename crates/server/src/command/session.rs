//! Requests: the search for the command, the checks before it runs, the run, and records of it.

use super::acl::{DEFAULT, Request};
use super::keys::database;
use super::spec::{
    ADMIN, ALLOW_BUSY, DENYOOM, FAST, IMMEDIATE, KEEPS_USE, MAY_REPLICATE, NEEDS_IDS, NO_AUTH, NO_MULTI, READ, SKIP_MONITOR, STALE, WRITE,
};
use super::units::Unit;
use super::{
    Alone, Command, Context, Ended, Failure, Group, Late, Outcome, Replies, Server, Session, blocking, clients, effects, events, evicting,
    replicaof, slowlog, steps, strings, tracking, unknown_subcommand, wrong_arity,
};
use crate::keyspace::{Keyspace, Passed};
use crate::resp::{Protocol, Writer};

/// Bytes of a name or of arguments that an error message repeats, at most.
const REPEATED: usize = 128;

/// A command of a transaction that waits for `EXEC`.
#[derive(Debug)]
pub(super) struct Queued {
    /// The number of the command or subcommand in `units`.
    pub number: usize,
    /// Flags of the request when it was queued.
    pub flags: u32,
    pub arguments: Vec<Vec<u8>>,
}

/// An open transaction (`MULTI`).
#[derive(Debug, Default)]
pub(super) struct Multi {
    pub commands: Vec<Queued>,
    /// Memory of the arguments, bytes.
    pub bytes: usize,
    /// A command was refused when it was queued: `EXEC` will run nothing.
    pub is_refused: bool,
}

impl Multi {
    /// Appends a command.
    fn queue(&mut self, (number, flags): (usize, u32), arguments: &[&[u8]]) {
        self.bytes += arguments.iter().map(|argument| argument.len() + size_of::<Vec<u8>>()).sum::<usize>();
        self.commands.push(Queued { number, flags, arguments: blocking::kept(arguments) });
    }
}

impl Session {
    /// A client that has just connected.
    pub fn new(id: u64, server: &Server) -> Self {
        Session { id, user: DEFAULT, is_authenticated: server.users.is_open(), ..Session::default() }
    }

    /// Makes a new session, or the one of an earlier script, that of a script which a client runs. Commands that change other fields are
    /// not for scripts.
    pub(super) fn begin_script(&mut self, caller: &Session) {
        (self.id, self.user, self.db, self.caching) = (caller.id, caller.user, caller.db, caller.caching);
        (self.is_authenticated, self.is_in_exec, self.is_script) = (true, true, true);
        (self.is_primary, self.leaves_no_trace) = (caller.is_primary, caller.leaves_no_trace);
        (self.kept_from, self.reads) = (0, 0);
        self.later.clear();
    }

    /// Whether a request of the client runs a script that may take long, or makes the server a primary or a replica: everything before it
    /// is committed first.
    fn begins_anew(&self, server: &Server, unit: &Unit, arguments: &[&[u8]]) -> bool {
        let begins_anew = |unit: &Unit, what: Option<&[u8]>| {
            let name = unit.command.name;
            unit.runs_scripts() && server.scripts.may_take_long(name, what.unwrap_or_default())
                || ["failover", "psync", "replicaof", "slaveof"].contains(&name)
        };
        let Some(multi) = &self.multi else { return begins_anew(unit, arguments.get(1).copied()) };
        let queued = |queued: &Queued| begins_anew(server.units.get(queued.number), queued.arguments.get(1).map(Vec::as_slice));
        unit.command.name == "exec" && multi.commands.iter().any(queued)
    }

    /// Whether a request with these flags, or a command of the transaction that it ends, has a property.
    pub(super) fn has(&self, (unit, flags): (&Unit, u32), property: fn(u32) -> bool) -> bool {
        let has = |queued: &Queued| property(queued.flags);
        property(flags) || unit.command.name == "exec" && self.multi.as_ref().is_some_and(|multi| multi.commands.iter().any(has))
    }

    /// Whether a transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        self.multi.is_some()
    }

    /// Resets the session to the state of a new connection.
    pub(super) fn reset(&mut self, server: &Server) {
        // The client's library stays the same.
        let library = std::mem::take(&mut self.library);
        let (last_command, stays, can_step) = (self.last_command, self.stays, self.can_step);
        *self = Session { last_command, stays, can_step, library, ..Session::new(self.id, server) };
    }

    /// Whether the client only gets messages: it subscribes with RESP2, where messages cannot be told from replies.
    pub(super) fn gets_only_messages(&self) -> bool {
        self.listens && self.protocol == Protocol::Resp2
    }

    /// Whether the client is exempt from being closed when connections take too much memory.
    pub fn stays(&self) -> bool {
        self.stays || self.is_primary || self.is_replica
    }

    /// Whether the value of `length` bytes that a client has begun to send may be stored in the keyspace while it is received: `arguments`
    /// are those before it. Monitors need whole requests, and readers of effects whole values that are too short for steps.
    pub fn takes_value(&self, server: &Server, arguments: &[&[u8]], length: usize) -> bool {
        let is_noted = server.append.exists() || server.feed.is_on();
        let is_shown = server.hub.has_monitors() || is_noted && length as u64 <= steps::AT_ONCE;
        let name = arguments.first().filter(|_| self.is_authenticated && self.multi.is_none() && !is_shown);
        let found = name.and_then(|name| named(server, self, name));
        found.is_some_and(|(_, command)| strings::takes_value(command, arguments.len(), length))
    }

    /// Memory of the commands of an open transaction, bytes.
    pub fn queued_bytes(&self) -> usize {
        self.multi.as_ref().map_or(0, |multi| multi.bytes)
    }

    /// Ends the effect of `CLIENT CACHING` after the reply to a request or transaction.
    pub(super) fn end_caching(&mut self) {
        self.caching &= self.is_in_transaction() || self.is_waiting() || self.is_in_steps();
    }

    /// Makes `EXEC` of an open transaction fail.
    fn refuse_transaction(&mut self) {
        if let Some(multi) = &mut self.multi {
            multi.is_refused = true;
        }
    }
}

impl Session {
    /// Whether a request has a number of arguments that its command takes.
    pub fn is_well_formed(&self, server: &Server, arguments: &[&[u8]]) -> bool {
        identify(server, self, arguments).is_ok_and(|(_, unit)| unit.takes(arguments.len()))
    }

    /// Intent of a request of this client, or of the transaction that it ends; `None`: there is no such command. Two arguments are enough.
    pub fn intent(&self, server: &Server, arguments: &[&[u8]]) -> Option<Intent> {
        let (_, unit) = identify(server, self, arguments).ok()?;
        let flags = server.scripts.flags_of(unit, arguments);
        let writes = |flags: u32| flags & (WRITE | MAY_REPLICATE) != 0;
        Some(Intent { writes: self.has((unit, flags), writes), adds: self.has((unit, flags), may_add) })
    }
}

/// Whether a request with these flags may add data: also one that runs a script which may write.
fn may_add(flags: u32) -> bool {
    flags & DENYOOM != 0 || flags & SKIP_MONITOR != 0 && flags & (WRITE | MAY_REPLICATE) != 0
}

/// Effects that a request may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intent {
    /// Whether the request changes data, or concerns other servers.
    pub writes: bool,
    /// Whether the request adds data, as `SET` does; `DEL` and `EXPIRE` do not.
    pub adds: bool,
}

fn unknown_command(arguments: &[&[u8]]) -> Failure {
    let cut = |bytes: &[u8], most: usize| bytes.get(..bytes.len().min(most)).unwrap_or_default().to_vec();
    let mut repeated = Vec::new();
    for argument in arguments.get(1..).unwrap_or_default() {
        if repeated.len() >= REPEATED {
            break;
        }
        let argument = cut(argument, REPEATED - repeated.len());
        repeated.extend([b"'", &argument[..], b"' "].concat());
    }
    let name = cut(arguments.first().copied().unwrap_or_default(), REPEATED);
    Failure::new([b"ERR unknown command '", &name[..], b"', with args beginning with: ", &repeated[..]].concat())
}

/// Finds a command by the name that a request has, with its number among all units.
fn named(server: &Server, session: &Session, name: &[u8]) -> Option<(usize, &'static Command)> {
    // A primary sends commands' own names; one that is a Redis sends the names that its clients use, which may be those of clients here.
    let own = if session.is_primary { server.units.command(name) } else { None };
    own.or_else(|| server.configuration.renames.find(name))
}

/// Finds the command or subcommand that a request names.
pub(super) fn identify(server: &Server, session: &Session, arguments: &[&[u8]]) -> Result<(usize, &'static Unit), Failure> {
    let found = arguments.first().and_then(|name| named(server, session, name));
    let (number, command) = found.ok_or_else(|| unknown_command(arguments))?;
    if arguments.get(1).is_some_and(|word| !command.knows(word)) {
        return Err(unknown_subcommand(arguments));
    }
    let number = server.units.resolve(number, arguments).ok_or_else(|| unknown_subcommand(arguments))?;
    Ok((number, server.units.get(number)))
}

/// Checks whether a request may be run.
fn check(keyspace: &Keyspace, server: &mut Server, session: &Session, request: &Request) -> Result<(), Failure> {
    let unit = request.unit;
    if !unit.takes(request.arguments.len()) {
        return Err(wrong_arity(unit.name.as_bytes()));
    }
    if session.is_primary {
        return check_primary(unit, request.arguments);
    }
    if !session.is_authenticated && !unit.command.has(NO_AUTH) && !server.users.is_open() {
        return Err(Failure::fixed("NOAUTH Authentication required."));
    }
    if session.multi.is_some() && unit.command.has(NO_MULTI) {
        return Err(Failure::fixed("ERR Command not allowed inside a transaction"));
    }
    server.allow(keyspace, session, request).map_err(|refused| refused.failure(unit))?;
    evicting::check(keyspace, server, session, request)?;
    if session.has((unit, unit.flags), |flags| flags & WRITE != 0) {
        check_writes(server)?;
    }
    if session.is_replica && unit.flags & (READ | WRITE | MAY_REPLICATE) != 0 {
        return Err(Failure::fixed("ERR Replica can't interact with the keyspace"));
    }
    if server.is_replica() {
        let flags = server.scripts.flags_of(unit, request.arguments);
        server.check_replica(session, session.has((unit, flags), |flags| flags & WRITE != 0))?;
    }
    if session.gets_only_messages() && !WITH_MESSAGES.contains(&unit.name.as_str()) {
        return Err(not_with_messages(unit));
    }
    if server.is_replica() {
        let flags = server.scripts.flags_of(unit, request.arguments);
        server.check_stale(!session.has((unit, flags), |flags| flags & STALE == 0))?;
    }
    if unit.flags & ALLOW_BUSY == 0 && server.scripts.is_busy() {
        return Err(server.scripts.busy());
    }
    Ok(())
}

/// Checks a request of the primary, which may run every command that belongs into a stream of changes. `SELECT` of a database that is not
/// here is refused even before a transaction queues it: the transaction's other commands would change the wrong database.
fn check_primary(unit: &Unit, arguments: &[&[u8]]) -> Outcome {
    if unit.command.name == "select" {
        database(arguments[1])?;
    }
    let is_for_admins = unit.command.is_for_admins() || unit.flags & ADMIN != 0 && unit.flags & WRITE == 0;
    let is_foreign = is_for_admins && unit.command.name != "replconf";
    if is_foreign { Err(Failure::fixed("ERR this command is none of a replication stream")) } else { Ok(()) }
}

/// Fails if the AOF cannot take writes, or if too few replicas would get them.
pub(super) fn check_writes(server: &Server) -> Result<(), Failure> {
    let refused = |why: &str| Failure::new(format!("MISCONF Errors writing to the AOF file: {why}"));
    server.append.refusal().map_or(Ok(()), |why| Err(refused(why)))?;
    server.check_replicas()
}

/// A request that is not run: the number of its command, if that is known, and its words.
type Rejected<'a> = (Option<usize>, &'a [&'a [u8]]);

/// Replies with an error to a request that is not run.
fn reject(server: &mut Server, session: &mut Session, (number, words): Rejected<'_>, failure: &Failure, out: &mut Vec<u8>) -> Ended {
    session.refuse_transaction();
    let text = failure.text();
    if session.is_primary {
        server.upstream.note_failure(words.first().copied().unwrap_or_default(), &text);
    }
    Writer::new(out, session.protocol).error(&text);
    server.statistics.errors += 1;
    server.records.usage.error(&text);
    if let Some(number) = number {
        server.records.usage.rejected(number);
    }
    Ended::Open
}

/// Commands that a client may send while it only gets messages.
const WITH_MESSAGES: &[&str] =
    &["ping", "psubscribe", "punsubscribe", "quit", "reset", "ssubscribe", "subscribe", "sunsubscribe", "unsubscribe"];

fn not_with_messages(unit: &Unit) -> Failure {
    Failure::new(format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        unit.name
    ))
}

/// Runs a request and appends the reply to `out`. The writes belong to the keyspace's event-loop iteration, which the caller commits.
pub fn execute(keyspace: &mut Keyspace, server: &mut Server, session: &mut Session, arguments: &[&[u8]], out: &mut Vec<u8>) -> Ended {
    execute_in(&mut Alone, keyspace, server, session, arguments, out)
}

/// Like [`execute`], with a network that serves other clients while a late script runs.
pub fn execute_in(
    late: &mut dyn Late,
    keyspace: &mut Keyspace,
    server: &mut Server,
    session: &mut Session,
    arguments: &[&[u8]],
    out: &mut Vec<u8>,
) -> Ended {
    let start = out.len();
    server.statistics.commands += 1;
    let mut confirms = false;
    let identified = identify(server, session, arguments);
    let (number, name) = identified.as_ref().map_or((None, ""), |(number, unit)| (Some(*number), unit.command.name));
    let last = identified.as_ref().map(|(_, unit)| (unit.command.name, unit.command.subcommand(arguments)));
    (session.last_command, session.last_subcommand) = last.unwrap_or_default();
    let ended = match identified {
        Err(failure) => reject(server, session, (None, arguments), &failure, out),
        Ok((number, unit)) => match check(keyspace, server, session, &Request::new(server.units, number, arguments)) {
            Err(failure) if unit.command.name == "exec" => {
                session.multi = None;
                keyspace.unwatch(session.id);
                let why = failure.text();
                let text = [b"EXECABORT Transaction discarded because of: ", why.strip_prefix(b"ERR ").unwrap_or(&why)].concat();
                reject(server, session, (Some(number), arguments), &Failure::new(text), out)
            }
            Err(failure) => reject(server, session, (Some(number), arguments), &failure, out),
            Ok(()) if has_uncommitted(keyspace, server) && late.commits_first() && session.begins_anew(server, unit, arguments) => {
                server.statistics.commands -= 1;
                return Ended::CommitsFirst;
            }
            Ok(()) => match &mut session.multi {
                Some(multi) if !unit.command.has(IMMEDIATE) => {
                    multi.queue((number, server.scripts.flags_of(unit, arguments)), arguments);
                    Writer::new(out, session.protocol).simple("QUEUED");
                    Ended::Open
                }
                _ => {
                    confirms = unit.command.name.ends_with("subscribe");
                    let reply = Writer::new(out, session.protocol);
                    call(&mut Context { keyspace, server, session, late, reply }, number, arguments)
                }
            },
        },
    };
    if let Some(number) = number.filter(|_| session.asks.is_some()) {
        begin_to_wait(keyspace, session, number);
    }
    // As in Redis, other subcommands of `CLIENT` do not end the effect either.
    if session.caching && name != "client" {
        session.end_caching();
    }
    session.replies = match session.replies {
        Replies::On => return ended,
        Replies::SkipNext => Replies::Skip,
        Replies::Skip => Replies::On,
        Replies::Off => Replies::Off,
    };
    if !confirms {
        // Confirmations of subscriptions are messages, which are sent even if replies are off.
        out.truncate(start);
    }
    ended
}

/// Makes a client wait, except a primary: nothing that one sends waits.
fn begin_to_wait(keyspace: &mut Keyspace, session: &mut Session, number: usize) {
    if session.is_primary {
        session.asks = None;
    } else {
        let is_silent = session.replies != Replies::On;
        blocking::begin(keyspace, session, number, is_silent);
    }
}

/// Whether the event-loop iteration has anything that is not committed.
fn has_uncommitted(keyspace: &Keyspace, server: &Server) -> bool {
    !keyspace.is_committed() || server.feed.unfed() > 0
}

/// Runs a command. An error replaces its partial reply.
pub(super) fn call(context: &mut Context, number: usize, arguments: &[&[u8]]) -> Ended {
    let begun = context.server.records.stopwatch.begun();
    let start = context.reply.position();
    let (lookups, waited) = (context.keyspace.lookups(), context.keyspace.waited());
    let reads = context.session.reads;
    let mut ended = Ended::Open;
    let unit = context.server.units.get(number);
    let leaves_no_trace = context.session.leaves_no_trace && unit.name != "touch";
    context.keyspace.begin_command(!leaves_no_trace && !unit.command.has(KEEPS_USE));
    context.keyspace.count_lookups(unit.flags & READ != 0);
    let events = context.server.configuration.events;
    if events.is_on() {
        context.keyspace.note_changes(events.tell_misses());
    }
    let passed = context.server.passed(context.session, unit, context.keyspace.now());
    context.keyspace.treat_passed(passed);
    context.keyspace.note_own_deadlines(passed == Passed::Removed && context.server.is_replica());
    let mut result = check_ids(context, unit).and_then(|()| (unit.command.run)(context, arguments));
    if matches!(result, Err(Failure::InSteps)) {
        result = begin_steps(context, number, arguments, start);
        if result.is_ok() {
            if context.server.tracking.is_on() {
                tracking::ran(context, unit, arguments, reads);
            }
            let ns = context.server.records.stopwatch.since(begun);
            steps::took(context.session, ns);
            return Ended::Open;
        }
    }
    if context.server.feed.is_on() {
        let noted = effects::note(context, unit, arguments, result.is_err());
        result = result.and(noted);
        // While a script runs, no request ends in the log, also none of another client: the writes belong to the request of the script.
        if !context.session.is_in_exec && !context.server.scripts.is_running() {
            context.server.feed.end_request();
            let end = replicaof::offset(context.keyspace) + context.server.feed.unfed();
            context.session.written = (context.keyspace.stream_number(), end);
        }
    }
    if context.server.tracking.is_on() {
        tracking::ran(context, unit, arguments, reads);
    }
    if events.is_on() {
        events::tell(context, unit.command, arguments);
    }
    if context.server.hub.has_monitors() && !unit.runs_scripts() {
        clients::tell(context, unit, arguments);
    }
    // Commands that run others have counted theirs.
    if !matches!(unit.command.group, Group::Scripting | Group::Transactions) {
        let statistics = &mut context.server.statistics;
        statistics.hits += context.keyspace.lookups().hits - lookups.hits;
        statistics.misses += context.keyspace.lookups().misses - lookups.misses;
    }
    let failed = result.is_err();
    if let Err(failure) = result {
        context.reply.truncate(start);
        context.session.later.retain(|(place, _)| *place < start);
        fail(context, unit, &failure);
        if failure.is_engine() {
            ended = Ended::EngineFailed;
        }
    }
    let others = context.keyspace.waited() - waited;
    note(context, number, arguments, (begun, others), failed);
    if context.session.closes && ended == Ended::Open { Ended::Closes } else { ended }
}

/// Fails if a command might find no id for something that it adds, and has perhaps removed something else by then. What a primary sends has
/// been done there: it fails only if it finds no id.
fn check_ids(context: &Context, unit: &Unit) -> Outcome {
    let may_need_ids = unit.flags & (DENYOOM | NEEDS_IDS) != 0 && unit.command.group != Group::Scripting;
    if may_need_ids && !context.session.is_primary { context.keyspace.check_ids().map_err(Failure::from) } else { Ok(()) }
}

/// Suspends a request whose run has begun a task: drops the reply since `start`. Removals of expired keys by the run stay.
fn begin_steps(context: &mut Context, number: usize, arguments: &[&[u8]], start: usize) -> Outcome {
    context.reply.truncate(start);
    context.session.later.retain(|(place, _)| *place < start);
    let unit = context.server.units.get(number);
    let noted = if context.server.feed.is_on() { effects::note(context, unit, arguments, true) } else { Ok(()) };
    context.server.feed.end_request();
    events::tell_ended(context.keyspace, context.server);
    if context.server.hub.has_monitors() {
        clients::tell(context, unit, arguments);
    }
    let is_silent = context.session.replies != Replies::On;
    if let Some(steps) = context.session.steps.as_mut().filter(|_| noted.is_ok()) {
        (steps.number, steps.request) = (number, blocking::kept(arguments));
        steps.is_silent |= is_silent;
    }
    noted
}

/// Replies with the error of a command that has run. Failures of a primary's requests are noted, except those inside a script, which fails
/// itself, and those of the engine, after which the primary sends the request again.
fn fail(context: &mut Context, unit: &Unit, failure: &Failure) {
    context.refuse(failure);
    if context.session.is_primary && !context.session.is_script && !failure.is_engine() {
        context.server.upstream.note_failure(unit.name.as_bytes(), &failure.text());
    }
}

/// Adds a command to the statistics, and to the slow log if it took long. A blocked command is counted as a call when its wait begins, and
/// with its duration when it runs for the last time. `others`: time spent waiting until earlier commits could be read, which counts as
/// latency of commits, nanoseconds.
fn note(context: &mut Context, number: usize, arguments: &[&[u8]], (begun, others): (u64, u64), failed: bool) {
    let server = &mut *context.server;
    let has_waited = context.session.is_resumed && context.session.steps.is_none();
    if !has_waited {
        server.records.usage.called(number);
    }
    if context.session.asks.is_some() && !context.session.is_in_exec {
        return;
    }
    let last = server.records.stopwatch.since(begun).saturating_sub(others);
    let ns = last + context.session.steps.as_ref().map_or(0, |steps| steps.spent);
    let now = context.keyspace.now();
    server.took("commit", now, others);
    let unit = server.units.get(number);
    if unit.runs_scripts() {
        server.scripts.took(unit.command.name, arguments.get(1).copied().unwrap_or_default(), ns);
    }
    server.records.usage.ended(number, ns, failed, server.configuration.latency_tracking);
    server.took(if unit.flags & FAST != 0 { "fast-command" } else { "command" }, now, last);
    let (micros, least) = (ns / 1000, server.configuration.slowlog_slower_than);
    // Commands inside `EXEC` are logged one by one, and commands inside a script as well as the script.
    if u64::try_from(least).is_ok_and(|least| micros >= least) && unit.name != "exec" {
        // A script has no address, which Redis shows like this.
        let known = server.clients.get(&context.session.id).filter(|_| !context.session.is_script);
        let no_client = if context.session.is_script { "?:0" } else { "" };
        let client = known.map_or(no_client, |client| &client.address).to_owned();
        let (kept, most) = (slowlog::kept(&unit.name, arguments), server.configuration.slowlog_max_len);
        server.records.slowlog.add((now / 1000, micros), kept, (client, context.session.name.clone()), most);
    }
}
