//! Requests whose work on long strings takes many event-loop iterations.
//!
//! A handler that finds such work begins a [`Task`] and returns [`Failure::InSteps`]: nothing is written to the keyspace by then, and the
//! reply is taken back. From then on the client's further requests wait, and each iteration does a part of the task. When the task is done,
//! the request is run again (`resuming`), and its handler finds the result: a number, or a string that no key names yet. The second run
//! makes all decisions that depend on keys, so the change of a key, and the messages about it, belong to one iteration. A string is made of
//! the values that its source keys hold when the task begins. If one of them changes meanwhile, the task begins again; after [`ATTEMPTS`]
//! attempts the work is done at once. A number describes the moment when the request came.
//!
//! The AOF (`append`) also takes a long string in parts, before the key gets it: `SET` and `APPEND` of a reserved key, and at last
//! `RENAME`, which has the effect of the request. If the parts turn out to be useless, `DEL` follows.
//!
//! Transactions, and sessions without a network, do all work at once.

use super::{Context, Failure, Server, Session};
use crate::bits::{self, Operation};
use crate::feed::Feed;
use crate::keyspace::{self, DATABASES, Keyspace, StringReader, Trace, Upload};
use crate::rdb::crc64;

/// Strings up to this size are worked on at once, bytes. Tests use a smaller limit.
pub(super) const AT_ONCE: u64 = if cfg!(test) { 1 << 20 } else { 4 << 20 };
/// Bytes of a step, and of all steps of a request in an event-loop iteration.
const STEP: usize = 256 << 10;
const STEPS: usize = 2 << 20;
/// Attempts to make a string in steps while its source keys change.
const ATTEMPTS: u32 = 3;
/// Offset from a session's number to the number that watches the keys its task reads.
const WATCHERS: u64 = 1 << 63;

/// Work that is done in steps.
#[derive(Debug)]
pub(super) enum Task {
    /// Concatenates strings. `crc`: the checksum of the bytes before them, and at the end of all.
    Join { sources: Vec<StringReader>, to: Upload, crc: u64 },
    /// Combines the bits of strings; `None`: inverts the bits of a single one.
    Combine { sources: Vec<StringReader>, operation: Option<Operation>, to: Upload },
    /// Counts the set bits of a range. The reader begins at byte `at`.
    Count { reader: StringReader, at: u64, bits: (u64, u64), number: u64 },
    /// Finds the first bit that is set, or clear; if there is none, the result is `behind`.
    Find { reader: StringReader, at: u64, bits: (u64, u64), bit: bool, found: Option<u64>, behind: Option<u64> },
    /// Writes a string to the AOF, within epoch `epoch` of it.
    Log { reader: StringReader, epoch: u64, is_first: bool },
}

/// The result of a task.
#[derive(Debug)]
enum Done {
    String(Upload, u64),
    Number(Option<u64>),
    Logged(u64),
}

/// A request that is worked on in steps.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// The task; `None`: the request can be run again.
    task: Option<Task>,
    /// The number of the command in `units`.
    pub number: usize,
    pub request: Vec<Vec<u8>>,
    /// The client wants no reply.
    pub is_silent: bool,
    /// The finished string and its checksum.
    built: Option<(Upload, u64)>,
    /// The finished number.
    found: Option<Option<u64>>,
    /// The AOF may have parts of the string.
    has_parts: bool,
    /// The epoch of the AOF that has all parts of the string.
    logged: Option<u64>,
    /// The id of a string that a key has been set to and of which the AOF has all parts.
    named: Option<u64>,
    attempts: u32,
    /// Time spent in steps and runs so far, nanoseconds.
    pub spent: u64,
}

/// Clips a range of bits to a part of the string that begins at byte `at`; the positions count from there.
pub(super) fn inside(at: u64, part: &[u8], (from, to): (u64, u64)) -> (u64, u64) {
    let bits = part.len() as u64 * 8;
    (from.saturating_sub(at * 8).min(bits), to.saturating_sub(at * 8).min(bits))
}

impl Task {
    /// Runs a step for a session and a database; true: the task is done.
    fn step(&mut self, keyspace: &mut Keyspace, feed: &mut Feed, (db, session): (usize, u64)) -> keyspace::Result<bool> {
        let mut part = Vec::with_capacity(STEP);
        match self {
            Task::Join { sources, to, crc } => {
                let Some(first) = sources.first_mut() else { return Ok(true) };
                first.read(STEP, &mut part)?;
                if first.left() == 0 {
                    sources.remove(0);
                }
                *crc = crc64(*crc, &part);
                keyspace.upload(to, &part);
                Ok(sources.is_empty())
            }
            Task::Combine { sources, operation, to } => {
                let length = sources.iter().map(StringReader::left).max().unwrap_or(0).min(STEP as u64);
                for (number, source) in sources.iter_mut().enumerate() {
                    let mut other = Vec::with_capacity(STEP);
                    source.read(STEP, &mut other)?;
                    other.resize(usize::try_from(length).unwrap_or(STEP), 0);
                    match operation {
                        Some(operation) if number > 0 => bits::combine(&mut part, &other, *operation),
                        _ => part = other,
                    }
                }
                if operation.is_none() {
                    part.iter_mut().for_each(|byte| *byte = !*byte);
                }
                keyspace.upload(to, &part);
                Ok(sources.iter().all(|source| source.left() == 0))
            }
            Task::Count { reader, at, bits, number } => {
                reader.read(STEP, &mut part)?;
                let (from, to) = inside(*at, &part, *bits);
                *number += bits::count_between(&part, from, to);
                *at += part.len() as u64;
                Ok(reader.left() == 0)
            }
            Task::Find { reader, at, bits, bit, found, .. } => {
                reader.read(STEP, &mut part)?;
                let (from, to) = inside(*at, &part, *bits);
                *found = bits::find(&part, *bit, from, to).map(|place| *at * 8 + place);
                *at += part.len() as u64;
                Ok(found.is_some() || reader.left() == 0)
            }
            Task::Log { reader, epoch, is_first } => {
                if feed.epoch() != *epoch {
                    // A new epoch of the AOF has begun, so the parts written are useless. The request is run again, and begins anew.
                    return Ok(true);
                }
                let key = feed.begin_parts(session).then(|| feed.parts_key(session)).flatten();
                let Some(key) = key else { return Ok(false) };
                reader.read(STEP, &mut part)?;
                let name: &[u8] = if std::mem::take(is_first) { b"SET" } else { b"APPEND" };
                feed.put(db, &[name, &key, &part]);
                feed.end_request();
                Ok(reader.left() == 0)
            }
        }
    }

    fn done(self) -> Done {
        match self {
            Task::Join { to, crc, .. } => Done::String(to, crc),
            Task::Combine { to, .. } => Done::String(to, 0),
            Task::Count { number, .. } => Done::Number(Some(number)),
            Task::Find { found, behind, .. } => Done::Number(found.or(behind)),
            Task::Log { epoch, .. } => Done::Logged(epoch),
        }
    }

    fn upload(self) -> Option<Upload> {
        match self {
            Task::Join { to, .. } | Task::Combine { to, .. } => Some(to),
            Task::Count { .. } | Task::Find { .. } | Task::Log { .. } => None,
        }
    }
}

impl Session {
    /// Whether a request is worked on in steps; no other may be run before it has its reply.
    pub fn is_in_steps(&self) -> bool {
        self.steps.as_ref().is_some_and(|steps| !steps.request.is_empty())
    }

    /// The command name, as sent, of the request that is worked on in steps.
    pub fn stepped(&self) -> Option<&[u8]> {
        self.steps.as_ref().and_then(|steps| steps.request.first()).map(Vec::as_slice)
    }

    fn watcher(&self) -> u64 {
        self.id | WATCHERS
    }
}

impl Context<'_> {
    /// Whether work on so many bytes has to be done in steps.
    pub(super) fn is_long(&self, bytes: u64) -> bool {
        let attempts = self.session.steps.as_ref().map_or(0, |steps| steps.attempts);
        bytes > AT_ONCE && self.session.can_step && !self.session.is_in_exec && attempts < ATTEMPTS
    }

    /// Begins a task that reads these keys; the caller returns the result as its failure.
    pub(super) fn begin(&mut self, task: Task, keys: &[(usize, &[u8])]) -> Failure {
        let watcher = self.session.watcher();
        let watched = keys.iter().try_for_each(|(db, key)| self.keyspace.watch(watcher, *db, key));
        let steps = self.session.steps.get_or_insert_default();
        steps.task = Some(task);
        watched.map_or_else(Failure::from, |()| Failure::InSteps)
    }

    /// Begins to concatenate strings of these keys.
    pub(super) fn join(&mut self, sources: Vec<StringReader>, keys: &[(usize, &[u8])]) -> Failure {
        self.join_behind(0, sources, keys)
    }

    /// Like [`Context::join`], with a checksum that continues the one of preceding bytes.
    pub(super) fn join_behind(&mut self, crc: u64, mut sources: Vec<StringReader>, keys: &[(usize, &[u8])]) -> Failure {
        sources.retain(|source| source.left() > 0);
        match self.keyspace.begin_upload() {
            Ok(to) => self.begin(Task::Join { sources, to, crc }, keys),
            Err(error) => error.into(),
        }
    }

    /// Length and checksum of the string made for the request; `None`: there is none, or its sources have changed since.
    pub(super) fn built(&mut self) -> Result<Option<(u64, u64)>, Failure> {
        let watcher = self.session.watcher();
        let Some(steps) = &mut self.session.steps else { return Ok(None) };
        let Some((upload, crc)) = &steps.built else { return Ok(None) };
        if !self.keyspace.is_disturbed(watcher)? {
            return Ok(Some((upload.length(), *crc)));
        }
        self.keyspace.unwatch(watcher);
        steps.attempts += 1;
        steps.logged = None;
        if let Some((upload, _)) = steps.built.take() {
            self.keyspace.drop_upload(&upload);
        }
        Ok(None)
    }

    /// The number counted or found for the request.
    pub(super) fn found_in_steps(&mut self) -> Option<Option<u64>> {
        self.session.steps.as_mut().and_then(|steps| steps.found.take())
    }

    /// Sets a key to the string made for the request, or else to the request's uploaded value; false: there is neither. `is_noted`: the AOF
    /// needs the string itself, as the request does not contain it.
    pub(super) fn set_prepared(&mut self, (db, key): (usize, &[u8]), deadline: Option<u64>, is_noted: bool) -> Result<bool, Failure> {
        let built = self.session.steps.as_ref().and_then(|steps| steps.built.as_ref()).map(|(upload, _)| upload);
        let Some(upload) = built.or(self.session.uploaded.as_ref()) else { return Ok(false) };
        let is_built = built.is_some();
        let epoch = self.server.feed.epoch();
        let logged = self.session.steps.as_ref().and_then(|steps| steps.logged);
        if is_noted && self.server.feed.is_on() && logged != Some(epoch) {
            let reader = self.keyspace.upload_reader(upload, 0, u64::MAX)?;
            let had_parts = std::mem::replace(&mut self.session.steps.get_or_insert_default().has_parts, true);
            if let Some(parts) = self.server.feed.parts_key(self.session.id).filter(|_| had_parts) {
                // The parts may belong to another database.
                (0..DATABASES).for_each(|db| self.server.feed.put(db, &[b"DEL", &parts]));
            }
            return Err(self.begin(Task::Log { reader, epoch, is_first: true }, &[]));
        }
        self.keyspace.set_uploaded(db, key, upload, deadline)?;
        let id = upload.id();
        if let Some(steps) = &mut self.session.steps {
            steps.named = steps.logged.is_some().then_some(id);
            if is_built {
                steps.built = None;
            }
        }
        if !is_built {
            self.session.uploaded = None;
        }
        Ok(true)
    }
}

/// Logs that a key has got the string whose parts are in the AOF; returns that key.
pub(super) fn note_parts(context: &mut Context, changes: &[Trace]) -> Result<Option<(usize, Vec<u8>)>, Failure> {
    let Some(id) = context.session.steps.as_ref().and_then(|steps| steps.named) else { return Ok(None) };
    for change in changes {
        let Trace::Key(db, key) = change else { continue };
        let Some(head) = context.keyspace.peek(*db, key)?.map(|(head, _)| head).filter(|head| head.has_id(id)) else { continue };
        let feed = &mut context.server.feed;
        let Some(parts) = feed.parts_key(context.session.id) else { continue };
        feed.put(*db, &[b"RENAME", &parts, key]);
        if let Some(deadline) = head.deadline {
            feed.put(*db, &[b"PEXPIREAT", key, deadline.to_string().as_bytes()]);
        }
        if let Some(steps) = &mut context.session.steps {
            steps.has_parts = false;
        }
        return Ok(Some((*db, key.clone())));
    }
    Ok(None)
}

/// Adds the duration of a run of the request, nanoseconds.
pub(super) fn took(session: &mut Session, ns: u64) {
    if let Some(steps) = &mut session.steps {
        steps.spent += ns;
    }
}

/// Works on the task of the session's request until the server's clock reaches `until`, nanoseconds; true: the task is done, or there is
/// none.
pub(super) fn advance(keyspace: &mut Keyspace, server: &mut Server, session: &mut Session, until: u64) -> keyspace::Result<bool> {
    let begun = server.monotonic_ns();
    let place = (session.db, session.id);
    let Some(steps) = &mut session.steps else { return Ok(true) };
    let mut outcome = Ok(());
    for _ in 0..STEPS / STEP {
        let Some(task) = &mut steps.task else { break };
        match task.step(keyspace, &mut server.feed, place) {
            Ok(false) => {}
            Ok(true) => match steps.task.take().map(Task::done) {
                Some(Done::String(upload, crc)) => steps.built = Some((upload, crc)),
                Some(Done::Number(number)) => steps.found = Some(number),
                Some(Done::Logged(epoch)) => steps.logged = Some(epoch),
                None => {}
            },
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
        if server.monotonic_ns() >= until {
            break;
        }
    }
    steps.spent += server.monotonic_ns().saturating_sub(begun);
    outcome.map(|()| steps.task.is_none())
}

/// Ends a request that has its reply or will get none: drops its strings that no key has.
pub fn end(keyspace: &mut Keyspace, server: &mut Server, session: &mut Session) {
    if let Some(unused) = session.uploaded.take() {
        keyspace.drop_upload(&unused);
    }
    session.is_uploaded = false;
    let Some(steps) = session.steps.take() else { return };
    let (of_task, built) = (steps.task.and_then(Task::upload), steps.built.map(|(upload, _)| upload));
    of_task.iter().chain(&built).for_each(|unused| keyspace.drop_upload(unused));
    keyspace.unwatch(session.watcher());
    if let Some(parts) = server.feed.parts_key(session.id).filter(|_| steps.has_parts) {
        server.feed.put(session.db, &[b"DEL", &parts]);
        server.feed.end_request();
    }
    server.feed.end_parts(session.id);
}
