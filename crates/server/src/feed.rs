//! The feed of effects: commands that repeat what requests have changed, in order, for two readers: the append log ([`crate::append`]) and
//! the replication stream ([`crate::replication`]).
//!
//! Requests note their effects while they run. At the end of a turn, before its commit, the stream's bytes go into the batch
//! ([`Feed::give`]), so data and offset are in one record of the engine's log. After the commit the readers get the bytes
//! ([`Feed::log_bytes`], [`Feed::stream_bytes`]). A turn that fails leaves nothing behind ([`Feed::discard`]).
//!
//! A primary's stream is made of effects. A replica's stream is what its primary has sent, byte for byte ([`Feed::raw`]), while the effects
//! of that go to its append log alone, as do the effects of a writable replica's own clients.

mod journal;

pub use journal::ALL;

use crate::keyspace::{self, DATABASES, Keyspace};
use crate::resp::request;
use journal::{Journal, STREAM};
use std::collections::BTreeMap;

/// Prefix of the reserved keys that hold a long string while readers get it in parts, until `RENAME` gives it to its key. Readers of a log
/// remove reserved keys that are left at its end.
pub const PARTS: &[u8] = b"\0sinterdb:parts:";

/// Most strings that are written in parts at the same time. A new primary removes the reserved keys of all of them, so they are few.
const PARTS_AT_ONCE: usize = 8;

/// Name of a reserved key for parts.
fn parts_key(number: usize) -> Vec<u8> {
    [PARTS, number.to_string().as_bytes()].concat()
}

/// Source of the replication stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Source {
    /// There is no stream.
    #[default]
    None,
    /// The effects of this server's requests.
    Effects,
    /// The bytes of a primary.
    Primary,
}

/// A reader that is about to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// A new file of the append log.
    Log,
    /// A full synchronisation of replicas.
    Replica,
}

/// Effects for the append log and for replicas.
#[derive(Debug, Default)]
pub struct Feed {
    journal: Journal,
    source: Source,
    /// Readers that the current effects are kept from.
    kept_from: u8,
    /// The database that is selected at the end of the bytes of a primary.
    primary_db: Option<usize>,
    epoch: u64,
    /// Sessions that write strings in parts, with the numbers of their keys: a reader that began now would lack the parts so far. And which
    /// [`Reader`]s wait until there are none.
    in_parts: BTreeMap<u64, usize>,
    waiting: [bool; 2],
}

/// Effects, as requests note them.
impl Feed {
    /// Whether effects have to be noted with [`Feed::put`].
    pub fn is_on(&self) -> bool {
        self.journal.log.wants || self.journal.stream.wants
    }

    /// Notes an effect of the current request: a command that repeats it.
    pub fn put(&mut self, db: usize, words: &[&[u8]]) {
        let readers = ALL & !self.kept_from;
        if self.is_on() && readers != 0 {
            self.journal.put(Some(db), words, readers);
        }
    }

    /// Keeps the effects that follow from some readers: bits as in `redis.set_repl`.
    pub fn keep_from(&mut self, readers: u8) {
        self.kept_from = readers;
    }

    /// Notes a command of the current request that changes no data and that replicas get, such as `PUBLISH`. It is not in the append log.
    pub fn tell_replicas(&mut self, words: &[&[u8]]) {
        if self.journal.stream.wants && self.kept_from & STREAM == 0 {
            self.journal.put(None, words, STREAM);
        }
    }

    /// Ends the current request.
    pub fn end_request(&mut self) {
        if self.is_on() {
            self.journal.end_request();
        }
    }

    /// Counts moments after which earlier effects cannot be built upon: a reader begins that lacks them, the source of the stream or whole
    /// databases change.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Notes that whole databases have changed.
    pub fn begin_epoch(&mut self) {
        self.epoch += 1;
    }

    /// Notes that a session begins to write a string in parts: no reader begins until [`Feed::end_parts`]. False: others come first, such
    /// as a reader that is to begin.
    pub fn begin_parts(&mut self, session: u64) -> bool {
        let is_free = |number: &usize| self.in_parts.values().all(|other| other != number);
        if self.waiting == [false; 2]
            && !self.in_parts.contains_key(&session)
            && let Some(number) = (0..PARTS_AT_ONCE).find(is_free)
        {
            self.in_parts.insert(session, number);
        }
        self.in_parts.contains_key(&session)
    }

    /// The reserved key for the parts of a session; `None`: it writes none.
    pub fn parts_key(&self, session: u64) -> Option<Vec<u8>> {
        self.in_parts.get(&session).map(|number| parts_key(*number))
    }

    /// Notes that the string of a session is written, or given up.
    pub fn end_parts(&mut self, session: u64) {
        self.in_parts.remove(&session);
    }
}

/// Readers.
impl Feed {
    /// Whether a reader that wants to begin may do so: false while strings are written in parts; then no more of them begin. The caller
    /// asks again in each turn, and says once that it does not wait any more ([`Feed::stop_waiting`]) if it gives up.
    pub fn may_begin(&mut self, reader: Reader) -> bool {
        self.waiting[reader as usize] = !self.in_parts.is_empty();
        self.in_parts.is_empty()
    }

    /// Notes that a reader does not want to begin any more.
    pub fn stop_waiting(&mut self, reader: Reader) {
        self.waiting[reader as usize] = false;
    }

    /// Notes that a reader begins here, between two turns: no database is selected for it yet, and it lacks the parts of strings so far.
    /// Where the stream is a primary's, the reader has to be told the selected database instead
    /// ([`StreamPosition::db`](crate::keyspace::StreamPosition)).
    pub fn begin_reader(&mut self) {
        self.journal.begin_reader();
        self.begin_epoch();
    }

    /// Says whether the append log wants effects.
    pub fn set_log(&mut self, wants: bool, keyspace: &mut Keyspace) {
        self.set(keyspace, |feed| feed.journal.log.want(wants));
    }

    /// Says of what the replication stream is made. Nothing waits to be written. Strings that are being written in parts begin anew: the
    /// stream lacks their parts so far, or a new primary has removed them.
    pub fn set_source(&mut self, source: Source, keyspace: &mut Keyspace) {
        self.set(keyspace, |feed| {
            (feed.source, feed.primary_db) = (source, None);
            feed.journal.stream.want(source == Source::Effects);
            feed.journal.begin_reader();
        });
        self.begin_epoch();
    }

    /// Removes parts of strings that a former primary or a killed server has left unfinished, here and, by `DEL`, at all readers.
    /// `are_elsewhere`: the stream ended within a string, so that replicas may have parts although there are none here.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn remove_parts(&mut self, keyspace: &mut Keyspace, are_elsewhere: bool) -> keyspace::Result<()> {
        let keys: Vec<Vec<u8>> = (0..PARTS_AT_ONCE).map(parts_key).collect();
        for db in 0..DATABASES {
            let mut are_here = false;
            for key in &keys {
                are_here |= keyspace.remove(db, key)?;
            }
            if are_here || are_elsewhere {
                let words: Vec<&[u8]> = [&b"DEL"[..]].into_iter().chain(keys.iter().map(Vec::as_slice)).collect();
                self.put(db, &words);
                self.end_request();
            }
        }
        // All of it is noted.
        keyspace.forget_traces();
        Ok(())
    }

    /// The source of the replication stream.
    pub fn source(&self) -> Source {
        self.source
    }

    fn set(&mut self, keyspace: &mut Keyspace, change: impl FnOnce(&mut Feed)) {
        let was_on = self.is_on();
        change(self);
        if self.is_on() != was_on {
            keyspace.trace(self.is_on());
        }
    }
}

/// The replication stream, besides effects.
impl Feed {
    /// Adds bytes of the primary that this replica has applied, in whole requests or transactions; `db`: the database that is selected
    /// behind them.
    pub fn raw(&mut self, bytes: &[u8], db: usize) {
        if self.source == Source::Primary {
            self.journal.stream.add(bytes);
            self.primary_db = Some(db);
        }
    }

    /// Adds `PING` to the stream of a primary.
    pub fn ping(&mut self) {
        self.add(&[b"PING"]);
    }

    /// Asks replicas how far they are.
    pub fn getack(&mut self) {
        self.add(&[b"REPLCONF", b"GETACK", b"*"]);
    }

    fn add(&mut self, words: &[&[u8]]) {
        if self.source == Source::Effects {
            self.journal.stream.add(&request(words));
        }
    }
}

/// The end of a turn.
impl Feed {
    /// Puts the stream's bytes into the turn's batch. Comes before each commit.
    pub fn give(&mut self, keyspace: &mut Keyspace) {
        let db = match self.source {
            Source::None => return,
            Source::Effects => self.journal.selected(),
            Source::Primary => self.primary_db,
        };
        keyspace.feed(self.journal.stream.fresh(), db);
        self.journal.stream.give();
        if self.source == Source::Effects {
            keyspace.note_amid(!self.in_parts.is_empty());
        }
    }

    /// Bytes of the stream that were noted in this turn, and that [`Keyspace::stream`] does not count yet.
    pub fn unfed(&self) -> u64 {
        self.journal.stream.fresh().len() as u64
    }

    /// Notes that the engine has all effects noted so far.
    pub fn keep(&mut self) {
        self.journal.keep();
    }

    /// Drops the effects noted since the last [`Feed::keep`], which the engine has not got.
    pub fn discard(&mut self) {
        self.journal.discard();
    }

    /// Bytes of the turn for the append log.
    pub fn log_bytes(&self) -> &[u8] {
        self.journal.log.bytes()
    }

    /// Bytes of the turn for replicas.
    pub fn stream_bytes(&self) -> &[u8] {
        self.journal.stream.bytes()
    }

    /// Empties the feed: its readers have the turn's bytes.
    pub fn clear(&mut self) {
        self.journal.clear();
    }

    /// Frees the memory that is kept for the next requests.
    pub fn give_back(&mut self) {
        self.journal.give_back();
    }
}
