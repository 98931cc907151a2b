//! The replication stream: how it begins, goes on and is read.
//!
//! The keyspace has the position and the stored bytes ([`StreamPosition`]), [`crate::feed`] makes the bytes, and here are the latest ones
//! in memory. A reader is an offset: it asks for the bytes behind it, and gets only bytes that the engine's log has.

mod address;
mod link;
mod load;
mod tail;
mod upstream;
mod wire;

pub use address::Address;
#[cfg(fuzzing)]
pub use link::parse;
pub use link::{Ending, Established, Failure, Link, News, Plan, Target, successor};
pub use load::{Silent, load};
pub use tail::Tail;
pub use upstream::{Failover, FullSyncs, State, Untold, Upstream, has_passed};
pub use wire::{Progress, Transport, Wire};

use crate::feed::{Feed, Source};
use crate::keyspace::{self, Keyspace, StreamPosition};
use sinterdb::{Durability, WriteOptions};

/// Stored bytes that are kept, unless the configuration says another number.
const BACKLOG: u64 = 256 << 20;

/// The replication stream's state beside the data.
#[derive(Debug)]
pub struct Replication {
    /// Latest bytes of the stream.
    pub tail: Tail,
    /// Stored bytes of the stream that are kept for readers that are away (`repl-backlog-size`).
    pub backlog_size: u64,
    /// Smallest offset that a connected reader still needs.
    pub needed: Option<u64>,
}

impl Default for Replication {
    fn default() -> Self {
        Replication { tail: Tail::default(), backlog_size: BACKLOG, needed: None }
    }
}

impl Replication {
    /// Begins the work of a server, before it accepts anything. A primary's stream goes on under a new id: after a power cut, a replica may
    /// have what the primary has lost.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn start(&mut self, keyspace: &mut Keyspace, feed: &mut Feed, is_replica: bool) -> keyspace::Result<()> {
        match keyspace.stream() {
            None if is_replica => feed.set_source(Source::Primary, keyspace),
            None => {}
            Some(_) if is_replica => self.follow(keyspace, feed),
            Some(_) => return self.lead(keyspace, feed),
        }
        Ok(())
    }

    /// Begins a stream of this server's effects if there is none, because the first replica has come. Nothing of the turn waits to be
    /// committed. After a power cut that takes the beginning there is no stream, and replicas synchronise fully: no sync is waited for.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn begin(&mut self, keyspace: &mut Keyspace, feed: &mut Feed) -> keyspace::Result<()> {
        if keyspace.stream().is_some() {
            return Ok(());
        }
        let id = keyspace.new_stream_id();
        keyspace.begin_stream(StreamPosition::new(id, 0))?;
        keyspace.commit(&WriteOptions::new(Durability::Buffered))?;
        self.tail.restart(0);
        feed.set_source(Source::Effects, keyspace);
        Ok(())
    }

    /// Goes on with the stream as a primary, under a new id; durable when it returns, with the turn so far. Parts of strings that an
    /// earlier primary has left are removed.
    ///
    /// # Errors
    /// Errors of the engine: the turn is to be dropped.
    pub fn lead(&mut self, keyspace: &mut Keyspace, feed: &mut Feed) -> keyspace::Result<()> {
        feed.give(keyspace);
        let (id, source) = (keyspace.new_stream_id(), feed.source());
        keyspace.change_stream_id(id);
        keyspace.hide_stream_id();
        feed.set_source(if keyspace.stream().is_some() { Source::Effects } else { Source::None }, keyspace);
        let led = feed.remove_parts(keyspace, keyspace.is_amid()).and_then(|()| {
            feed.give(keyspace);
            keyspace.commit(&WriteOptions::new(Durability::Sync))
        });
        if led.is_err() {
            feed.set_source(source, keyspace);
            return led;
        }
        feed.keep();
        Ok(())
    }

    /// Goes on with the stream as the replica of a primary. Nothing of the turn waits to be committed.
    pub fn follow(&mut self, keyspace: &mut Keyspace, feed: &mut Feed) {
        // The bytes in memory may be of another stream.
        self.tail.restart(keyspace.stream().map_or(0, |position| position.offset));
        feed.set_source(Source::Primary, keyspace);
    }

    /// Notes bytes of the stream, up to offset `end`, that the engine's log has.
    pub fn committed(&mut self, end: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.tail.add(end, bytes);
        }
    }

    /// Reads the stream behind `from`, at most `most` bytes.
    ///
    /// # Errors
    /// [`keyspace::Error::Damaged`]: bytes from there are not stored any more ([`Keyspace::backlog_start`]). Errors of the engine.
    pub fn read(&self, from: u64, most: usize, out: &mut Vec<u8>, keyspace: &Keyspace) -> keyspace::Result<()> {
        if self.tail.read(from, most, out) { Ok(()) } else { keyspace.read_backlog(from, most, out) }
    }

    /// Removes stored bytes that nobody needs, in the turn's batch, before the turn's bytes are fed. Two parts of three have all bytes that
    /// are to be kept, and the last one grows meanwhile: so much more is stored.
    pub fn trim(&self, keyspace: &mut Keyspace) {
        let Some(end) = keyspace.stream().map(|position| position.offset) else { return };
        let kept = end.saturating_sub(self.backlog_size);
        // An engine that cannot be written has told so elsewhere, and the bytes stay.
        let _ = keyspace.turn_backlog(self.backlog_size.div_ceil(2), self.needed.unwrap_or(end).min(kept));
    }
}
