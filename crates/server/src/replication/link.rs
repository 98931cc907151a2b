//! A replica's link to its primary, up to the moment from which on it carries the stream: a thread connects, introduces the replica, asks
//! for the stream and, if it has to, loads all data.
//!
//! The thread works beside the event loop, which goes on serving the old data. All data are loaded into a successor of the keyspace, which
//! the event loop lends to the thread and gets back ([`Ending`]), whole or not. Once the primary has agreed to go on, or all data are
//! there, the connection is the event loop's.

use super::address::Address;
use super::load::load;
use super::wire::{Progress, Wire};
use crate::keyspace::{Keyspace, StreamId};
use crate::resp::request;
use crate::system::give_way;
use crate::tls;
use mio::Waker;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Bytes of a line that are read, and that an error repeats, at most.
const LINE_MAX: u64 = 64 << 10;
const REPEATED: usize = 200;
/// Bytes that are read at once.
const BUFFER: usize = 256 << 10;
/// Version that the replica reports to its primary. A Valkey writes an older format for a replica that reports none, and that format
/// cannot hold all of its keys. Other primaries do not know the option, and their error is ignored.
const LIKE_VALKEY: &[u8] = b"9.0.0";
/// Length of the mark at the end of data whose length is not known before.
const MARK: usize = 40;
/// Largest offset at which a stream may begin. Redis counts in signed numbers, and the stream goes on for a while.
const OFFSET_MAX: u64 = 1 << 62;

/// Properties of a link, fixed when it begins.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The primary.
    pub primary: Address,
    /// Arguments of `AUTH`; empty: the primary is not asked for permission.
    pub credentials: Vec<String>,
    /// Port under which the replica can be reached, and its address; empty: the one from which it connects.
    pub announced: (u16, String),
    /// Silence of the primary after which the link is given up.
    pub patience: Duration,
    /// Settings of TLS; `None`: the link is not encrypted.
    pub tls: Option<tls::Settings>,
    /// The stream and the offset up to which the replica has it; `None`: it has nothing.
    pub wants: Option<(StreamId, u64)>,
    /// The primary is a replica that is to take over from this server (`FAILOVER`).
    pub promotes: bool,
    /// The version of Redis that libraries of functions see.
    pub version: &'static str,
    /// Time that the thread sleeps after each key that it loads.
    pub delay: Duration,
}

/// Reply of the primary to the request for its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grant {
    /// All data come first, and the stream begins at this offset.
    All(StreamId, u64),
    /// The stream goes on, perhaps under another id.
    Rest(Option<StreamId>),
}

/// Result of the thread.
#[derive(Debug)]
pub enum Ending {
    /// The stream goes on where the replica has it, perhaps under another id.
    Continues(Option<StreamId>, Box<Established>),
    /// All data are loaded, as of an offset of a stream, with the database that is selected there.
    Loaded(Box<Keyspace>, (StreamId, u64, usize), Box<Established>),
    /// The link failed, or was told to end.
    Failed(Failure),
}

/// Why there is no link.
#[derive(Debug)]
pub struct Failure {
    /// Reason, for people.
    pub why: String,
    /// Part of the primary in a handover, as far as its reply tells.
    pub target: Target,
    /// The unfinished successor, which is to be abandoned.
    pub next: Option<Box<Keyspace>>,
}

/// Part in a handover of a target that did not become the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The target was not told to take over.
    Untold,
    /// The target was told to take over, and its reply is missing or makes no sense: it may have done so.
    Unknown,
    /// The target has refused, for a reason that says nothing of its role.
    Refuses,
    /// The target has refused as the replica of another stream: it has not taken over.
    Follows,
    /// The target has refused as a primary: perhaps it has taken over before.
    Leads,
}

impl Target {
    /// Reads the reply to `PSYNC .. FAILOVER`. The texts are those of Redis, which has no codes for them.
    fn of(reply: &[u8]) -> Target {
        match () {
            () if reply.starts_with(b"-ERR PSYNC FAILOVER can't be sent to a master") => Target::Leads,
            () if reply.starts_with(b"-ERR PSYNC FAILOVER replid must match my replid") => Target::Follows,
            () if reply.starts_with(b"-") => Target::Refuses,
            () => Target::Unknown,
        }
    }
}

/// Message of the thread.
#[derive(Debug)]
enum Message {
    /// All data will come: a successor is needed.
    Needs,
    Ended(Ending),
}

/// News of a link.
#[derive(Debug)]
pub enum News {
    /// A successor is needed: [`Link::lend`].
    Needs,
    /// The thread has ended, or is about to.
    Ended(Ending),
}

/// A link that is being made.
#[derive(Debug)]
pub struct Link {
    progress: Arc<Progress>,
    messages: Receiver<Message>,
    successors: Option<Sender<Box<Keyspace>>>,
    thread: Option<JoinHandle<()>>,
    is_lent: bool,
}

/// A connection that carries the stream from here on.
#[derive(Debug)]
pub struct Established {
    /// The connection.
    pub wire: Wire,
    /// Bytes of the stream that were read.
    pub input: Vec<u8>,
}

impl Link {
    /// Begins a link. `waker` is called for each piece of news.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn begin(plan: Plan, waker: Arc<Waker>) -> io::Result<Link> {
        let progress = Arc::new(Progress::default());
        let (sender, messages) = channel();
        let (successors, lent) = channel();
        let theirs = progress.clone();
        let work = move || {
            let tell = |message| {
                // The receiver may be gone; the data of a successor that is lost with the message are removed later.
                let _ = sender.send(message);
                let _ = waker.wake();
            };
            let ending = run(&plan, &theirs, &tell, &lent);
            tell(Message::Ended(ending));
        };
        let thread = Builder::new().name("sinter-link".into()).spawn(work)?;
        Ok(Link { progress, messages, successors: Some(successors), thread: Some(thread), is_lent: false })
    }

    /// How far the link is.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Lends the thread a successor into which it loads all data.
    pub fn lend(&mut self, next: Keyspace) {
        self.is_lent = true;
        if let Some(successors) = self.successors.take() {
            // If the thread has ended, the successor is dropped here, and its data are removed later.
            let _ = successors.send(Box::new(next));
        }
    }

    /// Whether the thread has, or had, a successor.
    pub fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Tells the thread to end. It does so within a moment, unless it is still connecting.
    pub fn stop(&mut self) {
        self.progress.stop();
        self.successors = None;
    }

    /// The next news, if there are any.
    pub fn news(&mut self) -> Option<News> {
        match self.messages.try_recv() {
            Ok(Message::Needs) => Some(News::Needs),
            Ok(Message::Ended(ending)) => Some(News::Ended(ending)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                // The end of the panicked thread has dropped what it had.
                let _ = self.thread.take().map(JoinHandle::join);
                Some(News::Ended(Ending::Failed(failure("the thread of the link has panicked"))))
            }
        }
    }

    /// Tells the thread to end, and waits for that; returns the successor, if it has one. For the end of the server.
    pub fn end(mut self) -> Option<Box<Keyspace>> {
        self.stop();
        if !self.is_lent {
            // The thread may be waiting for a name server, and has no successor.
            return None;
        }
        let _ = self.thread.take().map(JoinHandle::join);
        let messages = std::iter::from_fn(|| self.messages.try_recv().ok());
        messages.filter_map(|message| if let Message::Ended(ending) = message { successor(ending) } else { None }).last()
    }
}

/// The successor of an ending, whole or not.
pub fn successor(ending: Ending) -> Option<Box<Keyspace>> {
    match ending {
        Ending::Continues(..) => None,
        Ending::Loaded(next, ..) => Some(next),
        Ending::Failed(failure) => failure.next,
    }
}

fn failure(why: impl Into<String>) -> Failure {
    Failure { why: why.into(), target: Target::Untold, next: None }
}

/// Text of an error of the connection.
fn text(error: &io::Error) -> String {
    if error.kind() == ErrorKind::UnexpectedEof { "the primary has closed the connection".into() } else { error.to_string() }
}

fn run(plan: &Plan, progress: &Arc<Progress>, tell: &dyn Fn(Message), lent: &Receiver<Box<Keyspace>>) -> Ending {
    let wire = match Wire::connect(&plan.primary, plan.tls.as_ref(), plan.patience, progress) {
        Ok(wire) => wire,
        Err(why) => return Ending::Failed(failure(format!("not connected: {why}"))),
    };
    let mut link = Handshake { from: BufReader::with_capacity(BUFFER, wire) };
    let (id, offset) = match link.greet(plan) {
        Ok(Grant::Rest(_)) if plan.wants.is_none() => return Ending::Failed(failure("the primary continues a stream, and none is here")),
        Ok(Grant::Rest(id)) => return Ending::Continues(id, Box::new(establish(link.from))),
        Ok(Grant::All(id, offset)) => (id, offset),
        Err(failure) => return Ending::Failed(failure),
    };
    tell(Message::Needs);
    let Ok(mut next) = lent.recv() else { return Ending::Failed(failure("the link was given up")) };
    match link.receive(&mut next, plan) {
        Ok(db) => Ending::Loaded(next, (id, offset, db), Box::new(establish(link.from))),
        Err(why) => {
            // Uncommitted writes are dropped here; the successor's other writes are removed when it is abandoned.
            next.discard();
            Ending::Failed(Failure { next: Some(next), ..failure(why) })
        }
    }
}

/// Ends the thread's part in a connection: all bytes that have arrived are handed over with it.
fn establish(from: BufReader<Wire>) -> Established {
    let mut input = from.buffer().to_vec();
    let mut wire = from.into_inner();
    wire.drain(&mut input);
    Established { wire, input }
}

/// The first steps on a connection.
struct Handshake {
    from: BufReader<Wire>,
}

impl Handshake {
    /// Sends a request and reads the reply's line, without its end.
    fn ask(&mut self, words: &[&[u8]]) -> Result<Vec<u8>, Failure> {
        let sent = self.from.get_mut().write_all(&request(words));
        let name = String::from_utf8_lossy(words.first().copied().unwrap_or_default()).into_owned();
        let reply = sent.and_then(|()| self.line());
        reply.map_err(|error| failure(format!("{name} had no reply: {}", text(&error))))
    }

    /// Reads a line, without its end. Empty lines before it only show that the primary is there.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let mut line = Vec::new();
            self.from.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)?;
            if line.pop() != Some(b'\n') {
                let kind = if line.len() as u64 >= LINE_MAX { ErrorKind::InvalidData } else { ErrorKind::UnexpectedEof };
                return Err(kind.into());
            }
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            if !line.is_empty() {
                return Ok(line);
            }
        }
    }

    /// Introduces the replica, and asks for the stream.
    fn greet(&mut self, plan: &Plan) -> Result<Grant, Failure> {
        self.from.get_mut().progress().shake_hands();
        let reply = self.ask(&[b"PING"])?;
        // A primary that wants a password before `PING` can be reached as well.
        let is_there = [&b"+"[..], b"-NOAUTH", b"-NOPERM", b"-ERR operation not permitted"].iter().any(|start| reply.starts_with(start));
        if !is_there {
            return Err(refused("PING", &reply));
        }
        if !plan.credentials.is_empty() {
            let words: Vec<&[u8]> = [&b"AUTH"[..]].into_iter().chain(plan.credentials.iter().map(String::as_bytes)).collect();
            let reply = self.ask(&words)?;
            if reply.starts_with(b"-") {
                return Err(refused("AUTH", &reply));
            }
        }
        // Errors are ignored: they come from a primary that does not know the option.
        let (port, address) = (plan.announced.0.to_string(), plan.announced.1.as_bytes());
        self.ask(&[b"REPLCONF", b"listening-port", port.as_bytes()])?;
        if !address.is_empty() {
            self.ask(&[b"REPLCONF", b"ip-address", address])?;
        }
        self.ask(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"])?;
        self.ask(&[b"REPLCONF", b"version", LIKE_VALKEY])?;
        let (id, next) = plan.wants.as_ref().map_or((&b"?"[..], "-1".into()), |(id, offset)| (id.as_bytes(), (offset + 1).to_string()));
        let mut words = vec![&b"PSYNC"[..], id, next.as_bytes()];
        if plan.promotes {
            words.push(b"FAILOVER");
        }
        let of = |target| if plan.promotes { target } else { Target::Untold };
        let reply = self.ask(&words).map_err(|failure| Failure { target: of(Target::Unknown), ..failure })?;
        grant(&reply).ok_or_else(|| Failure { target: of(Target::of(&reply)), ..refused("PSYNC", &reply) })
    }

    /// Loads all data into a successor; returns the database that is selected behind them.
    fn receive(&mut self, next: &mut Keyspace, plan: &Plan) -> Result<usize, String> {
        let head = self.line().map_err(|error| format!("the primary sent no data: {}", text(&error)))?;
        let size = size(&head).ok_or_else(|| format!("the primary sent no length of its data, but {}", shown(&head)))?;
        let total = if let Size::Bytes(total) = size { total } else { 0 };
        let progress = self.from.get_ref().progress().clone();
        progress.transfer(total);
        // The thread stays at low priority until it ends: clients read the old data meanwhile.
        give_way();
        let each = || {
            if !plan.delay.is_zero() {
                std::thread::sleep(plan.delay);
            }
            progress.check().map_err(|error| error.to_string())
        };
        let read = |error: io::Error| format!("the data end early: {}", text(&error));
        let db = match size {
            Size::Bytes(total) => {
                let (loaded, length) = load(self.from.by_ref().take(total), next, plan.version, &each)?;
                if length != total {
                    return Err(format!("the data have {length} bytes, and {total} were announced"));
                }
                loaded
            }
            Size::Mark(mark) => {
                let (loaded, _) = load(&mut self.from, next, plan.version, &each)?;
                let mut end = [0; MARK];
                self.from.read_exact(&mut end).map_err(read)?;
                if end != mark {
                    return Err("the data do not end in the mark that was announced".into());
                }
                loaded
            }
        };
        progress.loaded();
        Ok(db)
    }
}

/// Amount of data that a primary announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Bytes(u64),
    /// The data end in this mark.
    Mark([u8; MARK]),
}

/// Reads the line before the data.
fn size(line: &[u8]) -> Option<Size> {
    let rest = line.strip_prefix(b"$")?;
    match rest.strip_prefix(b"EOF:") {
        Some(mark) => mark.try_into().ok().map(Size::Mark),
        None => std::str::from_utf8(rest).ok()?.parse().ok().map(Size::Bytes),
    }
}

/// Reads the reply to the request for the stream.
fn grant(reply: &[u8]) -> Option<Grant> {
    let words: Vec<&[u8]> = reply.split(|byte| *byte == b' ').collect();
    match words[..] {
        [b"+FULLRESYNC", id, offset] => {
            let offset: u64 = std::str::from_utf8(offset).ok()?.parse().ok()?;
            Some(Grant::All(StreamId::parse(id)?, offset)).filter(|_| offset <= OFFSET_MAX)
        }
        [b"+CONTINUE"] => Some(Grant::Rest(None)),
        [b"+CONTINUE", id] => Some(Grant::Rest(Some(StreamId::parse(id)?))),
        _ => None,
    }
}

fn refused(request: &str, reply: &[u8]) -> Failure {
    failure(format!("the reply to {request} was {}", shown(reply)))
}

/// A line for people.
fn shown(line: &[u8]) -> String {
    line.get(..line.len().min(REPEATED)).unwrap_or_default().escape_ascii().to_string()
}

/// Parses what a primary sends before its data.
#[cfg(fuzzing)]
pub fn parse(line: &[u8]) {
    let _ = (grant(line), size(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn replies_of_a_primary_are_read() {
        let id = StreamId::parse(ID.as_bytes()).unwrap();
        let read = |text: &str| grant(text.as_bytes());
        assert_eq!(read(&format!("+FULLRESYNC {ID} 17")), Some(Grant::All(id, 17)));
        assert_eq!(read("+CONTINUE"), Some(Grant::Rest(None)));
        assert_eq!(read(&format!("+CONTINUE {ID}")), Some(Grant::Rest(Some(id))));
        let too_large = format!("+FULLRESYNC {ID} {}", OFFSET_MAX + 1);
        for nonsense in ["", "+OK", "+FULLRESYNC", "+FULLRESYNC x 1", "-ERR no", "+CONTINUE x", "+CONTINUED", &too_large] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
        assert_eq!(read(&format!("+FULLRESYNC {ID} -1")), None);
        assert_eq!(size(b"$12"), Some(Size::Bytes(12)));
        assert_eq!(size(format!("$EOF:{ID}").as_bytes()), Some(Size::Mark(ID.as_bytes().try_into().unwrap())));
        for nonsense in ["", "$", "$-1", "$EOF:", "$EOF:x", "+OK", "$99999999999999999999"] {
            assert_eq!(size(nonsense.as_bytes()), None, "{nonsense}");
        }
        for (reply, target) in [
            ("-ERR PSYNC FAILOVER can't be sent to a master.", Target::Leads),
            ("-ERR PSYNC FAILOVER replid must match my replid.", Target::Follows),
            ("-NOPERM this user has no permissions", Target::Refuses),
            ("+CONTINUE x", Target::Unknown),
        ] {
            assert_eq!(Target::of(reply.as_bytes()), target, "{reply}");
        }
    }
}
