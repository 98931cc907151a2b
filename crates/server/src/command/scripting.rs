//! Execution of scripts and functions: the host of a script ([`ScriptHost`]), and the service of other clients while a script is late.
//!
//! A script runs like a transaction, in one event-loop iteration, with a session of its own. A script that has run longer than
//! `busy-reply-threshold` is late: the network then serves other clients now and then ([`Late`]), tells them that the server is busy, and
//! lets them end the script. Nothing is committed meanwhile.

use super::acl::{Refused, Request};
use super::arguments::{Split, integer_or};
use super::configuration::Compatible;
use super::evicting::{FULL, FULL_FOR_SCRIPT};
use super::replicaof::READ_ONLY;
use super::session::{call, check_writes, identify};
use super::spec::{DENYOOM, MAY_REPLICATE, NOSCRIPT, STALE, WRITE};
use super::units::Unit;
use super::{Context, Ended, Failure, Late, Outcome, Server, Session, blocking, clients};
use crate::feed;
use crate::keyspace::{self, Keyspace};
use crate::log::Level;
use crate::replication::Silent;
use crate::resp::{self, Writer};
use crate::system;
use sinter_script::{Digest, Flags, Host, Known, Machine, Program, Protocol, Settings, Verdict};

/// Memory of all scripts and functions together, bytes.
const MEMORY_MAX: usize = 512 << 20;
/// Longest time for loading a library, nanoseconds.
const LOADING_NS: u64 = 500_000_000;
/// Duration of a run from which on it counts as long, nanoseconds.
const LONG_NS: u64 = 1_000_000;
/// Bytes that `FUNCTION STATS` keeps of each argument of a late script, at most.
const KEPT: usize = 1 << 10;

const NOT_BUSY: Failure = Failure::fixed("NOTBUSY No scripts in execution right now.");
const UNKILLABLE: Failure = Failure::fixed(
    "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill \
     the server in a hard way using the SHUTDOWN NOSAVE command.",
);
const BUSY_SCRIPT: Failure = Failure::fixed("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.");
const BUSY_FUNCTION: Failure = Failure::fixed("BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.");
/// Error for replies that Lua's memory could not hold.
const TOO_LARGE: Failure = Failure::fixed("ERR the reply of the command is too large for a script");
const NESTED: Failure = Failure::fixed("ERR A script is running already");

/// Name and request of a late script.
type LateScript = (Vec<u8>, Vec<Vec<u8>>);

/// The script that runs.
#[derive(Debug, Default)]
struct Running {
    is_eval: bool,
    is_read_only: bool,
    /// Whether earlier commands' writes were uncommitted when the script began.
    is_among_others: bool,
    /// Time at which the script began, nanoseconds of the server's clock.
    begun: u64,
    has_written: bool,
    /// Whether the script's first write must not add data.
    adds_nothing: bool,
    is_killed: bool,
    /// Whether the event-loop iteration is dropped, with the script's writes.
    is_dropped: bool,
    late: Option<LateScript>,
}

impl Running {
    fn verdict(&self) -> Verdict {
        if self.is_killed || self.is_dropped { Verdict::Kill } else { Verdict::Continue }
    }
}

/// Figures about scripts and functions.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ScriptFigures {
    pub scripts: usize,
    /// Bytes of the code of scripts, and of libraries.
    pub script_bytes: usize,
    pub library_bytes: usize,
    pub libraries: usize,
    pub functions: usize,
    /// Bytes that Lua has allocated.
    pub machine: usize,
}

/// The machine, with all scripts and functions, and the script that runs.
#[derive(Default)]
pub struct Scripts {
    /// The machine: made for the first script, and taken out while a script runs.
    machine: Option<Box<Machine>>,
    /// The session of the next script: made anew if there is none.
    session: Option<Box<Session>>,
    /// Value of [`Keyspace::losses`] when the libraries were read.
    losses: u64,
    figures: ScriptFigures,
    running: Option<Running>,
    /// Whether scripts may run commands that are forbidden to them (`DEBUG SET-DISABLE-DENY-SCRIPTS`).
    admits_all: bool,
    /// The version of Redis that scripts see.
    compatible: Compatible,
}

impl std::fmt::Debug for Scripts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scripts({:?}, {:?})", self.figures, self.running)
    }
}

impl Scripts {
    /// Whether a script runs.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether a late script runs.
    pub fn is_busy(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.late.is_some())
    }

    /// Whether earlier commands' writes were uncommitted when the running script began: their replies leave after the script.
    pub fn is_among_others(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.is_among_others)
    }

    /// Whether a command runs a script or function that may take long, as far as its earlier runs tell. `what`: the second argument.
    pub(super) fn may_take_long(&self, command: &str, what: &[u8]) -> bool {
        let Some(machine) = &self.machine else { return true };
        !program(command, what).and_then(|program| machine.known(&program)).is_some_and(|known| known.is_short)
    }

    /// Notes how long a command that runs a script or function has taken, nanoseconds. `what`: the second argument.
    pub(super) fn took(&mut self, command: &str, what: &[u8], ns: u64) {
        if ns >= LONG_NS
            && let (Some(machine), Some(program)) = (&mut self.machine, program(command, what))
        {
            machine.took_long(&program);
        }
    }

    /// Ends the running script and drops its writes, with the event-loop iteration.
    pub fn drop_running(&mut self) {
        if let Some(running) = &mut self.running {
            running.is_dropped = true;
        }
    }

    /// Sets whether scripts may run commands that are forbidden to them.
    pub(super) fn admit_all(&mut self, admits: bool) {
        self.admits_all = admits;
    }

    /// The error for requests while a late script runs.
    pub(super) fn busy(&self) -> Failure {
        if self.running.as_ref().is_none_or(|running| running.is_eval) { BUSY_SCRIPT } else { BUSY_FUNCTION }
    }

    /// Whether the running script is one of `EVAL`.
    pub(super) fn runs_eval(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.is_eval)
    }

    /// Name and request of the late script, and how long it has run, milliseconds. `None`: no script is late.
    pub(super) fn late(&self, now: u64) -> Option<(&LateScript, u64)> {
        let running = self.running.as_ref()?;
        Some((running.late.as_ref()?, now.saturating_sub(running.begun) / 1_000_000))
    }

    /// Ends the running script for `SCRIPT KILL` (`is_eval`) or `FUNCTION KILL`.
    pub(super) fn kill(&mut self, is_eval: bool) -> Outcome {
        let busy = self.busy();
        let running = self.running.as_mut().ok_or(NOT_BUSY)?;
        if running.has_written {
            return Err(UNKILLABLE);
        }
        if running.is_eval != is_eval {
            return Err(busy);
        }
        running.is_killed = true;
        Ok(())
    }

    /// The machine, with the libraries of the keyspace.
    pub(super) fn machine(&mut self, keyspace: &Keyspace) -> Result<&mut Machine, Failure> {
        if self.running.is_some() {
            return Err(NESTED);
        }
        if self.machine.is_none() || self.losses != keyspace.losses() {
            self.read_libraries(keyspace)?;
        }
        self.machine.as_deref_mut().ok_or(NESTED)
    }

    /// Reads the libraries of the keyspace, if there are any; returns the names of those that do not load, each with the reason.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn start(&mut self, keyspace: &Keyspace, compatible: Compatible) -> keyspace::Result<Vec<(String, String)>> {
        self.compatible = compatible;
        if keyspace.libraries()?.is_empty() { Ok(Vec::new()) } else { self.read_libraries(keyspace) }
    }

    /// Takes the libraries of a keyspace whose data were replaced; returns the names of those that do not load, each with the reason.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn replace_libraries(&mut self, keyspace: &Keyspace) -> keyspace::Result<Vec<(String, String)>> {
        let has_none = self.machine.is_none() && keyspace.libraries()?.is_empty();
        if has_none { Ok(Vec::new()) } else { self.read_libraries(keyspace) }
    }

    /// Replaces the machine's libraries by those of the keyspace; returns the names of those that do not load, each with the reason.
    pub(super) fn read_libraries(&mut self, keyspace: &Keyspace) -> keyspace::Result<Vec<(String, String)>> {
        let compatible = self.compatible;
        let machine = self.machine.get_or_insert_with(|| Box::new(new_machine(compatible)));
        machine.flush_libraries();
        let mut failed = Vec::new();
        for (name, code) in keyspace.libraries()? {
            // The time has no limit, since each library was loaded within the limit before.
            if let Err(failure) = machine.load_library(&code, true, &mut Silent(&|| Ok(()))) {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                failed.push((text(&name), text(&failure.message)));
            }
        }
        self.losses = keyspace.losses();
        self.count();
        Ok(failed)
    }

    /// Counts libraries and functions, after a change.
    pub(super) fn count(&mut self) {
        let Some(machine) = &self.machine else { return };
        self.figures.libraries = machine.libraries().count();
        self.figures.functions = machine.libraries().map(|library| library.functions.len()).sum();
        self.figures.library_bytes = machine.libraries().map(|library| library.code.len()).sum();
    }

    /// Figures about scripts and functions. While a script runs, those of scripts are the last known ones.
    pub(super) fn figures(&self) -> ScriptFigures {
        let Some(machine) = &self.machine else { return self.figures };
        let (scripts, script_bytes) = machine.scripts();
        ScriptFigures { scripts, script_bytes, machine: machine.memory(), ..self.figures }
    }

    /// The machine, if there is one and no script runs.
    pub(super) fn idle_machine(&mut self) -> Option<&mut Machine> {
        self.machine.as_deref_mut()
    }

    /// Flags that the script or function of a request states; `None`: it states none, or is not known.
    fn flags(&self, command: &str, arguments: &[&[u8]]) -> Option<Flags> {
        let what = arguments.get(1)?;
        let machine = self.machine.as_ref();
        match command {
            "eval" | "eval_ro" => Machine::flags_of(what).ok().flatten(),
            "evalsha" | "evalsha_ro" => {
                Digest::parse(what).and_then(|digest| machine.and_then(|machine| machine.script_flags(&digest)).flatten())
            }
            "fcall" | "fcall_ro" => machine.and_then(|machine| machine.function(what)).map(|(_, function)| function.flags),
            _ => None,
        }
    }

    /// Flags of a request: those of its command, and of a script or function that states its own, these instead, as in Redis.
    pub(super) fn flags_of(&self, unit: &Unit, arguments: &[&[u8]]) -> u32 {
        let Some(stated) = unit.runs_scripts().then(|| self.flags(unit.command.name, arguments)).flatten() else { return unit.flags };
        let writes = !stated.has(Flags::NO_WRITES);
        let adds = writes && !stated.has(Flags::ALLOW_OOM);
        let own = [(WRITE, writes), (DENYOOM, adds), (STALE, stated.has(Flags::ALLOW_STALE))];
        let others = unit.flags & !(WRITE | DENYOOM | STALE | MAY_REPLICATE);
        own.iter().filter(|(_, is_set)| *is_set).fold(others, |flags, (flag, _)| flags | flag)
    }
}

impl From<sinter_script::Failure> for Failure {
    fn from(failure: sinter_script::Failure) -> Self {
        if failure.counted { Failure::Counted(failure.message) } else { Failure::new(failure.message) }
    }
}

/// The script or function that a command runs. `what`: the command's second argument.
fn program<'a>(command: &str, what: &'a [u8]) -> Option<Program<'a>> {
    match command {
        "eval" | "eval_ro" => Some(Program::Script(Digest::of(what))),
        "evalsha" | "evalsha_ro" => Digest::parse(what).map(Program::Script),
        "fcall" | "fcall_ro" => Some(Program::Function(what)),
        _ => None,
    }
}

/// Shows a request that runs a script to monitors, before they see the commands of the script.
pub(super) fn announce(context: &mut Context, arguments: &[&[u8]]) {
    if context.server.hub.has_monitors()
        && let Ok((_, unit)) = identify(context.server, context.session, arguments)
    {
        clients::tell(context, unit, arguments);
    }
}

/// Splits the arguments of a request that runs a script into keys and others. `wrong`: the error if the number of keys is not a number.
pub(super) fn split<'r, 'a>(request: &'r [&'a [u8]], wrong: Failure) -> Result<Split<'r, 'a>, Failure> {
    let number = integer_or(request.get(2).copied().unwrap_or_default(), wrong)?;
    let rest = request.get(3..).unwrap_or_default();
    let number = usize::try_from(number).map_err(|_| Failure::fixed("ERR Number of keys can't be negative"))?;
    rest.split_at_checked(number).ok_or(Failure::fixed("ERR Number of keys can't be greater than number of args"))
}

/// Runs a script or function, and replies.
pub(super) fn run(
    context: &mut Context,
    request: &[&[u8]],
    (keys, rest): (&[&[u8]], &[&[u8]]),
    program: &Program,
    Known { flags, is_short }: Known,
    is_read_only: bool,
) -> Outcome {
    check_replica(context, flags)?;
    if flags.is_some_and(|flags| !flags.has(Flags::NO_WRITES)) {
        if let Some(why) = context.server.append.refusal() {
            let text = "MISCONF Redis is configured to persist data to AOF, but it's currently unable to persist to disk. Writable scripts \
                        are blocked. Use 'no-writes' flag for read only scripts. AOF error: ";
            return Err(Failure::new(format!("{text}{why}")));
        }
        if is_read_only {
            return Err(Failure::fixed("ERR Can not execute a script with write flag using *_ro command."));
        }
        context.server.check_replicas()?;
    }
    let is_full = context.server.refuses_data(context.keyspace);
    let runs_anyway = flags.is_some_and(|flags| flags.has(Flags::ALLOW_OOM));
    if is_full && !runs_anyway && flags.is_some_and(|flags| !flags.has(Flags::NO_WRITES)) {
        return Err(FULL_FOR_SCRIPT);
    }
    let is_read_only = is_read_only || flags.is_some_and(|flags| flags.has(Flags::NO_WRITES));
    let is_eval = matches!(program, Program::Script(_));
    let Context { keyspace, server, session, late, reply } = context;
    let mut machine = server.scripts.machine.take().ok_or(NESTED)?;
    let (begun, is_among_others) = (server.last_ended(), !keyspace.is_committed());
    let adds_nothing = is_full && !runs_anyway;
    server.scripts.running = Some(Running { is_eval, is_read_only, is_among_others, begun, adds_nothing, ..Running::default() });
    let client = match reply.protocol() {
        resp::Protocol::Resp2 => Protocol::Resp2,
        resp::Protocol::Resp3 => Protocol::Resp3,
    };
    let mut of_script = server.scripts.session.take().unwrap_or_default();
    of_script.begin_script(session);
    let mut host = ScriptHost { keyspace, server, session: &mut of_script, late: &mut **late, program, request, is_short };
    let result = match program {
        Program::Script(digest) => machine.eval(digest, keys, rest, &mut host, client, reply.buffer()),
        Program::Function(name) => machine.call(name, keys, rest, &mut host, client, reply.buffer()),
    };
    session.reads += of_script.reads;
    server.scripts.machine = Some(machine);
    if !server.scripts.admits_all {
        server.scripts.session = Some(of_script);
    }
    if server.scripts.running.take().is_some_and(|running| running.is_dropped) {
        return Err(Failure::Keyspace(keyspace::Error::Engine(sinterdb::Error::Closed("the script was dropped".into()))));
    }
    match result {
        Some(result) => result.map_err(Failure::from),
        None => Err(Failure::fixed("ERR Function not found")),
    }
}

/// Checks whether a replica may run a script that states these flags, if it states any.
fn check_replica(context: &Context, flags: Option<Flags>) -> Outcome {
    const STALE: Failure = Failure::fixed(
        "MASTERDOWN Link with MASTER is down, replica-serve-stale-data is set to 'no' and 'allow-stale' flag is not set on the script.",
    );
    let Some(flags) = flags else { return context.server.check_stale(false) };
    if context.server.is_stale() && !flags.has(Flags::ALLOW_STALE) {
        return Err(STALE);
    }
    if !flags.has(Flags::NO_WRITES) && context.server.is_read_only(context.session) {
        return Err(Failure::fixed("READONLY Can not run script with write flag on readonly replica"));
    }
    Ok(())
}

/// Loads a library into the server's machine; returns its name.
pub(super) fn load_library(context: &mut Context, code: &[u8], replaces: bool) -> Result<Vec<u8>, Failure> {
    context.server.scripts.machine(context.keyspace)?;
    let mut machine = context.server.scripts.machine.take().ok_or(NESTED)?;
    let result = load(context.server, &mut machine, code, replaces);
    context.server.scripts.machine = Some(machine);
    context.server.scripts.count();
    result
}

/// Loads a library into a given machine; returns its name.
pub(super) fn load(server: &Server, machine: &mut Machine, code: &[u8], replaces: bool) -> Result<Vec<u8>, Failure> {
    let until = server.monotonic_ns().saturating_add(LOADING_NS);
    Ok(machine.load_library(code, replaces, &mut LibraryHost { server, until })?)
}

/// An empty machine.
pub(super) fn new_machine(compatible: Compatible) -> Machine {
    Machine::new(Settings { memory_max: MEMORY_MAX, version: compatible.version().to_owned() })
}

fn write_log(server: &Server, level: u8, line: &[u8]) {
    let level = match level {
        0 => Level::Debug,
        1 => Level::Verbose,
        2 => Level::Notice,
        _ => Level::Warning,
    };
    server.event(level, "script", &[("line", &String::from_utf8_lossy(line))]);
}

/// Host of a running script.
struct ScriptHost<'a> {
    keyspace: &'a mut Keyspace,
    server: &'a mut Server,
    session: &'a mut Session,
    late: &'a mut dyn Late,
    program: &'a Program<'a>,
    request: &'a [&'a [u8]],
    /// Whether the script's latest runs were short: Lua's own time then counts for the command that comes next, which saves a reading of
    /// the clock.
    is_short: bool,
}

impl ScriptHost<'_> {
    /// Checks whether the script may run a command; returns the command's number. An error comes with that number, if the command exists.
    fn admit(&mut self, arguments: &[&[u8]]) -> Result<usize, (Option<usize>, Failure)> {
        const UNKNOWN: Failure = Failure::fixed("ERR Unknown Redis command called from script");
        let (number, unit) = identify(self.server, self.session, arguments).map_err(|_| (None, UNKNOWN))?;
        self.check(unit, &Request::new(self.server.units, number, arguments)).map(|()| number).map_err(|failure| (Some(number), failure))
    }

    fn check(&mut self, unit: &Unit, request: &Request) -> Outcome {
        if !unit.takes(request.arguments.len()) {
            return Err(Failure::fixed("ERR Wrong number of args calling Redis command from script"));
        }
        if unit.flags & NOSCRIPT != 0 && !self.server.scripts.admits_all {
            return Err(Failure::fixed("ERR This Redis command is not allowed from script"));
        }
        self.server.allow(self.keyspace, self.session, request).map_err(|refused| {
            Failure::fixed(match refused {
                Refused::Command => "ERR The user executing the script can't run this command or subcommand",
                Refused::Key(_) => {
                    "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
                }
                Refused::Channel(_) => "ERR The user executing the script can't publish to the channel mentioned in the command",
            })
        })?;
        let (is_stale, is_read_only) = (self.server.is_stale(), self.server.is_read_only(self.session));
        let Some(running) = &mut self.server.scripts.running else { return Err(NOT_BUSY) };
        if running.is_read_only && unit.flags & (WRITE | MAY_REPLICATE) != 0 {
            return Err(Failure::fixed("ERR Write commands are not allowed from read-only scripts."));
        }
        if running.is_dropped {
            return Err(Failure::fixed("ERR the data could not be read"));
        }
        if is_stale && unit.flags & STALE == 0 {
            return Err(Failure::fixed("ERR Can not execute the command on a stale replica"));
        }
        // A script that has written does not fail half-way.
        if unit.flags & WRITE == 0 || running.has_written {
            return Ok(());
        }
        if is_read_only {
            return Err(READ_ONLY);
        }
        let is_refused = running.adds_nothing && unit.flags & DENYOOM != 0;
        check_writes(self.server)?;
        if is_refused {
            return Err(FULL);
        }
        if let Some(running) = &mut self.server.scripts.running {
            running.has_written = true;
        }
        Ok(())
    }

    /// Replaces the reply to the script by an error, and counts the error.
    fn refuse(&mut self, reply: &mut Vec<u8>, failure: &Failure) {
        let text = failure.text();
        reply.clear();
        Writer::new(reply, self.session.protocol).error(&text);
        self.server.statistics.errors += 1;
        self.server.records.usage.error(&text);
    }

    /// Inserts long strings, which replies to clients read later, into a reply to the script.
    fn read_later(&mut self, reply: &mut Vec<u8>) -> keyspace::Result<()> {
        let mut whole = Vec::new();
        let mut from = 0;
        for (place, mut string) in std::mem::take(&mut self.session.later) {
            whole.extend_from_slice(reply.get(from..place).unwrap_or_default());
            while string.left() > 0 {
                string.read(1 << 20, &mut whole)?;
            }
            from = place;
        }
        whole.extend_from_slice(reply.get(from..).unwrap_or_default());
        *reply = whole;
        Ok(())
    }

    /// Notes that the script is late.
    fn note_late(&mut self, ms: u64) {
        let name = match self.program {
            Program::Script(digest) => digest.bytes().to_vec(),
            Program::Function(name) => name.to_vec(),
        };
        let shown = String::from_utf8_lossy(&name).into_owned();
        self.server.event(Level::Warning, "slow_script", &[("name", &shown), ("ms", &ms)]);
        let request = self.request.iter().map(|argument| argument.get(..KEPT).unwrap_or(argument).to_vec()).collect();
        if let Some(running) = &mut self.server.scripts.running {
            running.late = Some((name, request));
        }
    }
}

impl Host for ScriptHost<'_> {
    fn call(&mut self, arguments: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>) {
        self.session.protocol = match protocol {
            Protocol::Resp2 => resp::Protocol::Resp2,
            Protocol::Resp3 => resp::Protocol::Resp3,
        };
        let number = match self.admit(arguments) {
            Ok(number) => number,
            Err((number, failure)) => {
                self.refuse(reply, &failure);
                return number.into_iter().for_each(|number| self.server.records.usage.rejected(number));
            }
        };
        self.server.statistics.commands += 1;
        if !self.is_short {
            self.server.start_stopwatch();
        }
        let writer = Writer::new(reply, self.session.protocol);
        let (keyspace, server, session, late) = (&mut *self.keyspace, &mut *self.server, &mut *self.session, &mut *self.late);
        let mut context = Context { keyspace, server, session, late, reply: writer };
        let mut ended = call(&mut context, number, arguments);
        if let Err(failure) = blocking::refuse(&mut context) {
            context.reply.error(&failure.text());
        }
        if !self.session.later.is_empty() {
            let bytes = self.session.later.iter().map(|(_, string)| string.left()).fold(reply.len() as u64, u64::saturating_add);
            if bytes > MEMORY_MAX as u64 {
                self.session.later.clear();
                self.refuse(reply, &TOO_LARGE);
            } else if self.read_later(reply).is_err() {
                ended = Ended::EngineFailed;
            }
        }
        if ended == Ended::EngineFailed {
            self.server.scripts.drop_running();
        }
    }

    fn may_call(&mut self, arguments: &[&[u8]]) -> Option<bool> {
        let (number, _) = identify(self.server, self.session, arguments).ok()?;
        Some(self.server.users.check(self.session.user, &Request::new(self.server.units, number, arguments)).is_ok())
    }

    fn log(&mut self, level: u8, line: &[u8]) {
        write_log(self.server, level, line);
    }

    fn set_replication(&mut self, targets: u8) {
        self.session.kept_from = feed::ALL & !targets;
    }

    fn interrupt(&mut self) -> Verdict {
        let (limit, now) = (self.server.configuration.late_ms, self.server.start_stopwatch());
        let Some(running) = &self.server.scripts.running else { return Verdict::Kill };
        let ms = now.saturating_sub(running.begun) / 1_000_000;
        if running.late.is_none() {
            if limit == 0 || ms < limit {
                return running.verdict();
            }
            self.note_late(ms);
        }
        self.late.serve(self.keyspace, self.server);
        self.server.start_stopwatch();
        self.server.scripts.running.as_ref().map_or(Verdict::Kill, Running::verdict)
    }

    fn clock(&mut self) -> f64 {
        system::processor_seconds()
    }

    fn count_error(&mut self, message: &[u8]) {
        self.server.statistics.errors += 1;
        self.server.records.usage.error(message);
    }
}

/// Host of a library while it is loaded.
struct LibraryHost<'a> {
    server: &'a Server,
    /// End of its time, nanoseconds of the server's clock.
    until: u64,
}

impl Host for LibraryHost<'_> {
    fn call(&mut self, _: &[&[u8]], _: Protocol, _: &mut Vec<u8>) {}

    fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn log(&mut self, level: u8, line: &[u8]) {
        write_log(self.server, level, line);
    }

    fn set_replication(&mut self, _: u8) {}

    fn interrupt(&mut self) -> Verdict {
        if self.server.monotonic_ns() < self.until { Verdict::Continue } else { Verdict::Kill }
    }

    fn clock(&mut self) -> f64 {
        system::processor_seconds()
    }

    fn count_error(&mut self, _: &[u8]) {}
}
