//! The writer of a file: holds back bytes that do not fill a block, and writes whole blocks to zones.
//!
//! The bytes of tables go to zones unchanged. A sync pads the last block, and later bytes begin in the next one; nothing is ever rewritten.
//! Logs and manifests are written as frames. The head of a frame says which bytes of which file follow, so a sync costs one write and one
//! flush and needs no metadata. Metadata is written only when the file goes on in another zone.
//!
//! Several files may be written into one zone at the same time. Each write holds the lock of the zone's write pointer.

use super::Session;
use super::allocate::Want;
use super::figures::Written;
use super::file::is_framed;
use super::format::{DataHead, FileLocation, HEAD, OPEN, Range, Salt};
use super::volume::{SharedFile, Volume};
use crate::store::{Appender, Cause, HELD_BACK, Result, StoreError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most bytes of a log that are held back. Together with the head of a frame they fill whole blocks of any size up to 64 KiB.
pub(super) const LOG_HELD_BACK: usize = (64 << 10) - HEAD;

/// Number of zones in which a write may fail before the appender fails.
const ATTEMPTS: u32 = 3;

pub(super) struct ZonedAppender {
    volume: Arc<Volume>,
    cell: Arc<SharedFile>,
    cause: Cause,
    /// The zone to which the file is being written.
    zone: Option<u32>,
    framed: bool,
    failed: bool,
    /// Bytes known to be durable.
    synced: u64,
    /// Ranges of a log: the zones in which its frames lie, and the part of each zone; the last range is open.
    ranges: Vec<Range>,
    /// The location of the file has changed since it was last written to the metadata log.
    moved: bool,
    /// Buffer for a frame, or for blocks with a padded end.
    buffer: Vec<u8>,
    /// Keeps the volume open.
    _session: Arc<Session>,
}

/// A successful write.
struct Placed {
    zone: u32,
    /// Offset in the zone of the first byte of data.
    at: u64,
    written: Written,
    /// The zone's write pointer after the write.
    end: u64,
}

impl ZonedAppender {
    pub(super) fn new(session: Arc<Session>, cell: Arc<SharedFile>, cause: Cause) -> Self {
        let volume = Arc::clone(&session.volume);
        let framed = is_framed(cell.id);
        let (ranges, buffer) = (Vec::new(), Vec::new());
        let (zone, failed, synced, moved) = (None, false, 0, true);
        ZonedAppender { volume, cell, cause, zone, framed, failed, synced, ranges, moved, buffer, _session: session }
    }

    fn want(&self) -> Want {
        let about = &self.cell.about;
        let now = self.volume.state.lock().clock;
        Want {
            lifetime: about.lifetime,
            level: about.level,
            log: self.framed,
            moving: false,
            now,
            death: about.death,
            life: about.death.saturating_sub(about.born),
        }
    }

    /// The zone to write to.
    fn zone(&mut self) -> Result<u32> {
        if let Some(zone) = self.zone {
            return Ok(zone);
        }
        // A quarter of the metadata region is kept free for edits that free space.
        if self.volume.state.lock().catalog.snapshot_bytes() > self.volume.snapshot_limit / 4 * 3 {
            return Err(super::place::no_space("append"));
        }
        let zone = self.volume.acquire(&self.want())?;
        self.zone = Some(zone);
        if self.framed {
            let at = self.volume.heads.get(zone as usize).map_or(0, |head| *head.lock());
            self.ranges.push(Range { zone, at, len: OPEN });
            self.note(false);
        }
        Ok(zone)
    }

    /// Queues an edit with the location of the file for the metadata log.
    fn note(&mut self, sealed: bool) {
        let place = {
            let content = self.cell.content.read();
            let ranges = if self.framed { self.ranges.clone() } else { content.ranges() };
            FileLocation { sealed, length: content.written, ranges }
        };
        self.volume.state.lock().lies(self.cell.id, place);
        self.moved = true;
    }

    fn leave_zone(&mut self) {
        let Some(zone) = self.zone.take() else { return };
        if let Some(last) = self.ranges.last_mut().filter(|last| last.len == OPEN) {
            let end = self.volume.heads.get(zone as usize).map_or(0, |head| *head.lock());
            last.len = end.saturating_sub(last.at);
        }
        self.volume.leave(zone, false);
    }

    /// Writes the bytes held back: all of them, or as many as fill blocks.
    fn write_out(&mut self, all: bool) -> Result<()> {
        let mut attempts = 0;
        loop {
            let held = self.cell.content.read().held.len();
            let due = if all || self.framed { held } else { held - held % self.volume.block as usize };
            if due == 0 {
                return Ok(());
            }
            let zone = self.zone()?;
            match self.write(zone, due) {
                Ok(None) => self.leave_zone(),
                Ok(Some(placed)) => self.placed(&placed),
                Err(error) => {
                    // Nothing more is written to this zone. The bytes are still held back, and go to another zone.
                    attempts += 1;
                    self.volume.end_zone(zone);
                    self.leave_zone();
                    if attempts == ATTEMPTS {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Writes up to `due` bytes of those held back. `None`: the zone is full.
    fn write(&mut self, zone: u32, due: usize) -> Result<Option<Placed>> {
        let volume = Arc::clone(&self.volume);
        let block = volume.block;
        let (capacity, salt) = {
            let state = volume.state.lock();
            let capacity = state.zones.get(zone as usize).map_or(0, |slot| slot.capacity);
            let resets = state.catalog.zones.get(zone as usize).map_or(0, |note| note.resets);
            (capacity, Salt::new(volume.id, zone, resets))
        };
        let Some(head) = volume.heads.get(zone as usize) else { return Ok(None) };
        let content = self.cell.content.read();
        let mut head = head.lock();
        let at = *head;
        let room = usize::try_from(capacity.saturating_sub(at)).unwrap_or(usize::MAX);
        let framing = if self.framed { HEAD } else { 0 };
        if room < block as usize {
            return Ok(None);
        }
        let data = due.min(room - framing);
        let bytes = &content.held[..data];
        let whole = ((framing + data) as u64).next_multiple_of(block);
        let out = if self.framed {
            // At most 64 KiB.
            let frame = DataHead { file: self.cell.id, offset: content.written, synced: self.synced, length: data as u32 };
            frame.frame(salt, at, bytes, block as usize, &mut self.buffer);
            &self.buffer[..]
        } else if data as u64 == whole {
            bytes
        } else {
            self.buffer.clear();
            self.buffer.extend_from_slice(bytes);
            self.buffer.resize(whole as usize, 0);
            &self.buffer[..]
        };
        volume.device.write(zone, at, out).map_err(|e| super::failed("append", e))?;
        *head += whole;
        let written = Written { data: data as u64, framing: framing as u64, padding: whole - (framing + data) as u64 };
        Ok(Some(Placed { zone, at: at + framing as u64, written, end: *head }))
    }

    fn placed(&mut self, placed: &Placed) {
        self.volume.wrote(placed.zone, &self.cell, Some(self.cause), placed.written, placed.end);
        let mut content = self.cell.content.write();
        content.push(placed.zone, placed.at, placed.written.data);
        content.held.drain(..placed.written.data as usize);
        self.moved |= !self.framed;
    }

    fn attempt(&mut self, operation: &'static str, run: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.failed {
            return Err(StoreError::dead(operation, self.cell.id));
        }
        run(self).map_err(|error| {
            self.failed = true;
            StoreError { operation, file: Some(self.cell.id), ..error }
        })
    }

    fn take_in(&mut self, mut bytes: &[u8]) -> Result<()> {
        let limit = if self.framed { LOG_HELD_BACK } else { HELD_BACK };
        while !bytes.is_empty() {
            let full = {
                let mut content = self.cell.content.write();
                let (now, later) = bytes.split_at(bytes.len().min(limit.saturating_sub(content.held.len())));
                content.held.extend_from_slice(now);
                bytes = later;
                content.held.len() >= limit
            };
            if full {
                self.write_out(false)?;
            }
        }
        Ok(())
    }

    /// Makes all bytes durable. The location of a table is written to the metadata log, and one flush makes both durable. For a log, the
    /// metadata only needs the zones in which its frames begin.
    fn make_durable(&mut self, seal: bool) -> Result<()> {
        self.write_out(true)?;
        if !self.framed && (seal || self.moved) {
            self.note(seal);
        }
        // Checked after the edit was queued. If the creation is already in the log, the edit has to be committed here. If it is not, the
        // same commit will write both, and until then the file's name is not durable either.
        if self.moved && self.cell.announced.load(Ordering::Acquire) {
            self.volume.commit()?;
            self.moved = false;
        }
        self.volume.flush()?;
        self.synced = self.cell.content.read().len();
        if seal {
            self.leave_zone();
        }
        if seal && self.framed {
            // Queued only after the flush: once the metadata has the length of the log, missing bytes count as damage. After a crash before
            // this edit is durable, recovery finds the end from the frames.
            self.note(true);
        }
        Ok(())
    }
}

impl Appender for ZonedAppender {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.attempt("append", |file| file.take_in(bytes))
    }

    fn sync(&mut self) -> Result<()> {
        self.attempt("sync", |file| file.make_durable(false))
    }

    fn len(&self) -> u64 {
        self.cell.content.read().len()
    }

    fn seal(mut self: Box<Self>) -> Result<()> {
        self.attempt("seal", |file| file.make_durable(true))
    }
}

impl Drop for ZonedAppender {
    /// Writes the bytes held back, so that dropping an appender loses no more than closing a file of a file system would.
    fn drop(&mut self) {
        let named = self.volume.state.lock().names.contains_key(&self.cell.id);
        if named && !self.failed {
            // An error cannot be reported here, and nobody was told that these bytes are durable.
            drop(self.write_out(true));
        }
        self.leave_zone();
    }
}
