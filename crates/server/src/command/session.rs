//! A client's state, and the way of a request through the checks to the command.

use super::blocking::{self, Wait, Waiting};
use super::table::{IMMEDIATE, NO_AUTH, NO_MULTI};
use super::{Command, Context, Failure, Server, clients, events, find, unknown_subcommand, wrong_arity};
use crate::keyspace::Keyspace;
use crate::resp::{Protocol, Writer};

/// Bytes of a name or of arguments that an error repeats.
const REPEATED: usize = 128;

/// Which replies a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Replies {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// None to this command, then none to the next one.
    SkipNext,
    /// None to this command, then all.
    Skip,
}

/// A command that waits for `EXEC`.
#[derive(Debug)]
pub(super) struct Queued {
    pub command: &'static Command,
    pub arguments: Vec<Vec<u8>>,
}

/// A transaction that is being put together.
#[derive(Debug, Default)]
pub(super) struct Multi {
    pub commands: Vec<Queued>,
    /// Memory of their arguments.
    pub bytes: usize,
    /// A command was refused: nothing will be done.
    pub is_refused: bool,
}

impl Multi {
    /// Puts a command behind the others.
    fn queue(&mut self, command: &'static Command, arguments: &[&[u8]]) {
        self.bytes += arguments.iter().map(|argument| argument.len() + size_of::<Vec<u8>>()).sum::<usize>();
        self.commands.push(Queued { command, arguments: blocking::kept(arguments) });
    }
}

/// What the server keeps for a client.
#[derive(Debug, Default)]
pub struct Session {
    /// Never used again for another client.
    pub id: u64,
    /// The database that commands work on.
    pub db: usize,
    /// How replies look.
    pub protocol: Protocol,
    /// As `CLIENT SETNAME` has it.
    pub name: Vec<u8>,
    /// May use more than the commands that authenticate.
    pub is_authenticated: bool,
    /// The command that ran last.
    pub last_command: &'static str,
    /// And what its second word said, if that is a part of its name.
    pub last_subcommand: &'static str,
    pub(super) replies: Replies,
    pub(super) multi: Option<Multi>,
    pub(super) closes: bool,
    /// It listens to something.
    pub(super) listens: bool,
    /// It is spared when connections take too much memory.
    pub(super) stays: bool,
    /// The commands of a transaction are being run.
    pub(super) is_in_exec: bool,
    /// What the command that has just run wants to wait for.
    pub(super) asks: Option<Wait>,
    /// The request that waits.
    pub(super) waiting: Option<Waiting>,
    /// A request that waited is being run again.
    pub(super) is_resumed: bool,
    /// Because of this key.
    pub(super) woken: Option<Vec<u8>>,
}

/// What the connection has to do after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Go on.
    Open,
    /// Send what is there and close.
    Closes,
    /// The engine failed: drop the turn.
    EngineFailed,
}

impl Session {
    /// A client that has just connected.
    pub fn new(id: u64, server: &Server) -> Self {
        Session { id, is_authenticated: !server.configuration.needs_password(), ..Session::default() }
    }

    /// A transaction is being put together.
    pub fn is_in_transaction(&self) -> bool {
        self.multi.is_some()
    }

    /// As just connected.
    pub(super) fn reset(&mut self, server: &Server) {
        *self = Session { last_command: self.last_command, stays: self.stays, ..Session::new(self.id, server) };
    }

    /// It listens, in a protocol in which messages cannot be told from replies.
    pub(super) fn gets_only_messages(&self) -> bool {
        self.listens && self.protocol == Protocol::Resp2
    }

    /// It is spared when connections take too much memory.
    pub fn stays(&self) -> bool {
        self.stays
    }

    /// Memory of a transaction that is being put together, bytes.
    pub fn queued_bytes(&self) -> usize {
        self.multi.as_ref().map_or(0, |multi| multi.bytes)
    }

    /// The transaction, if there is one, will do nothing.
    fn refuse_transaction(&mut self) {
        if let Some(multi) = &mut self.multi {
            multi.is_refused = true;
        }
    }
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

/// Whether a request may be run at all.
fn check(session: &Session, arguments: &[&[u8]]) -> Result<&'static Command, Failure> {
    let command = arguments.first().and_then(|name| find(name)).ok_or_else(|| unknown_command(arguments))?;
    if arguments.get(1).is_some_and(|word| !command.knows(word)) {
        return Err(unknown_subcommand(arguments));
    }
    if !command.takes(arguments.len()) {
        return Err(wrong_arity(command.name.as_bytes()));
    }
    if !session.is_authenticated && !command.has(NO_AUTH) {
        return Err(Failure::fixed("NOAUTH Authentication required."));
    }
    if session.multi.is_some() && command.has(NO_MULTI) {
        return Err(Failure::fixed("ERR Command not allowed inside a transaction"));
    }
    if session.gets_only_messages() && !WITH_MESSAGES.contains(&command.name) {
        return Err(not_with_messages(command, arguments));
    }
    Ok(command)
}

/// What a client may send that gets only messages.
const WITH_MESSAGES: &[&str] =
    &["ping", "psubscribe", "punsubscribe", "quit", "reset", "ssubscribe", "subscribe", "sunsubscribe", "unsubscribe"];

fn not_with_messages(command: &Command, arguments: &[&[u8]]) -> Failure {
    let sub = command.subcommand(arguments);
    let bar = if sub.is_empty() { "" } else { "|" };
    Failure::new(format!(
        "ERR Can't execute '{}{bar}{sub}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        command.name
    ))
}

/// Does what a client asks for, and writes the reply behind what is in `out`. The writes are in the keyspace's turn, for the caller to
/// commit.
pub fn execute(keyspace: &mut Keyspace, server: &mut Server, session: &mut Session, arguments: &[&[u8]], out: &mut Vec<u8>) -> Ended {
    let start = out.len();
    server.statistics.commands += 1;
    let mut confirms = false;
    let ended = match check(session, arguments) {
        Err(failure) => {
            session.refuse_transaction();
            Writer::new(out, session.protocol).error(&failure.text());
            server.statistics.errors += 1;
            Ended::Open
        }
        Ok(command) => {
            session.last_command = command.name;
            session.last_subcommand = command.subcommand(arguments);
            match &mut session.multi {
                Some(multi) if !command.has(IMMEDIATE) => {
                    multi.queue(command, arguments);
                    Writer::new(out, session.protocol).simple("QUEUED");
                    Ended::Open
                }
                _ => {
                    confirms = command.name.ends_with("subscribe");
                    let reply = Writer::new(out, session.protocol);
                    call(&mut Context { keyspace, server, session, reply }, command, arguments)
                }
            }
        }
    };
    if session.asks.is_some() {
        let is_silent = session.replies != Replies::On;
        blocking::begin(keyspace, session, is_silent);
    }
    session.replies = match session.replies {
        Replies::On => return ended,
        Replies::SkipNext => Replies::Skip,
        Replies::Skip => Replies::On,
        Replies::Off => Replies::Off,
    };
    if !confirms {
        // What confirms that a client listens is a message rather than a reply.
        out.truncate(start);
    }
    ended
}

/// Runs a command. An error takes the place of what it had written.
pub(super) fn call(context: &mut Context, command: &Command, arguments: &[&[u8]]) -> Ended {
    let start = context.reply.position();
    let notifies = context.server.configuration.events.is_on();
    if notifies {
        context.keyspace.note_changes();
    }
    let outcome = (command.run)(context, arguments);
    if notifies {
        events::tell(context, command, arguments);
    }
    if context.server.hub.has_monitors() {
        clients::tell(context, command, arguments);
    }
    if let Err(failure) = outcome {
        context.reply.truncate(start);
        context.reply.error(&failure.text());
        context.server.statistics.errors += 1;
        if failure.is_engine() {
            return Ended::EngineFailed;
        }
    }
    if context.session.closes { Ended::Closes } else { Ended::Open }
}
