//! The stored end of the replication stream: the bytes of each batch, in pieces of at most [`PIECE`] bytes, under the offset of their first
//! byte, 8 bytes, big-endian. There is no hole between pieces.
//!
//! The pieces lie in three families in turn, each of which has one *part* of the stored bytes. A new part begins in the family of the
//! oldest one, and a range tombstone removes the old part: exactly its range, which is before all keys that follow. So the tables of a
//! family never overlap: the engine moves them down as they are, drops those that the tombstone covers, and merges none of them. If the
//! oldest and the newest bytes shared a family, each flush would overlap all stored tables.

use super::error::{Error, Result};
use sinterdb::settings::{Codec, FamilySettings};
use sinterdb::{Db, Family, ReadOptions, WriteBatch};

/// Names of the families.
pub(super) const BACKLOG: [&str; PARTS] = ["backlog-0", "backlog-1", "backlog-2"];
/// Number of parts.
const PARTS: usize = 3;
/// Most bytes of a piece. A reader may have to skip the beginning of one.
const PIECE: usize = if cfg!(test) { 100 } else { 64 << 10 };
/// Largest memtable of a family, bytes: new bytes of the stream are read from `replication::Tail`, not from here. And fewest memtables
/// before writers wait.
const MEMTABLE: u64 = 16 << 20;
const MEMTABLES: usize = 4;
/// Start of a part that has no bytes.
const EMPTY: u64 = u64::MAX;

const HOLE: Error = Error::Damaged("a part of the replication stream is missing");

/// Settings of the families, made from those of another family of the database.
pub(super) fn settings(other: FamilySettings) -> FamilySettings {
    FamilySettings {
        write_buffer_size: other.write_buffer_size.min(MEMTABLE),
        max_write_buffer_number: other.max_write_buffer_number.max(MEMTABLES),
        block_size: 32 << 10,
        bloom_bits_per_key: 0.0,
        bloom_bits_last_level: 0.0,
        compression: Codec::None.into(),
        ..other
    }
}

/// Creates the families that a database lacks, in one step. Waits for the medium.
pub(super) fn create_families(db: &Db) -> Result<()> {
    let settings = settings(db.family_settings(&db.default_family())?);
    let lacks = || BACKLOG.into_iter().filter(|name| db.family(name).is_none());
    let families: Vec<_> = lacks().map(|name| (name, settings.clone())).collect();
    match db.create_families(&families) {
        // Another thread may have made them meanwhile.
        Err(error) if lacks().next().is_some() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Division of the stored bytes into parts: the offset at which each family's part starts. A part ends where the next one starts, and the
/// last one with the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts([u64; PARTS]);

impl Default for Parts {
    fn default() -> Self {
        Parts::from(0)
    }
}

impl Parts {
    /// One part, which starts at an offset.
    pub fn from(offset: u64) -> Parts {
        Parts([offset, EMPTY, EMPTY])
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|start| out.extend_from_slice(&start.to_le_bytes()));
    }

    /// Decodes [`Parts::encode`] for a stream of `end` bytes; `None`: the bytes are no such division.
    pub fn decode(bytes: &[u8], end: u64) -> Option<Parts> {
        let mut parts = [EMPTY; PARTS];
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        if words.len() != PARTS {
            return None;
        }
        parts.iter_mut().zip(words).for_each(|(start, word)| *start = u64::from_le_bytes(*word));
        let starts: Vec<u64> = parts.iter().copied().filter(|start| *start != EMPTY).collect();
        let are_distinct = starts.iter().enumerate().all(|(at, start)| !starts[..at].contains(start));
        (!starts.is_empty() && are_distinct && starts.iter().all(|start| *start <= end)).then_some(Parts(parts))
    }

    /// Offset of the first stored byte.
    pub fn start(&self) -> u64 {
        self.0.iter().copied().min().unwrap_or(EMPTY)
    }

    /// The part that has the byte at an offset, or would have it; `None`: it was removed.
    fn of(&self, offset: u64) -> Option<usize> {
        let begun = self.0.iter().enumerate().filter(|(_, start)| **start <= offset && **start != EMPTY);
        begun.max_by_key(|(_, start)| **start).map(|(part, _)| part)
    }

    /// The last part, and where it starts.
    pub fn last(&self) -> (usize, u64) {
        let part = self.of(EMPTY).unwrap_or(0);
        (part, self.0[part])
    }

    /// End of a part of a stream of `end` bytes.
    fn end_of(&self, part: usize, end: u64) -> u64 {
        self.0.iter().copied().filter(|start| *start > self.0[part] && *start != EMPTY).fold(end, u64::min)
    }

    /// The part that makes way for a new one, and its range in a stream of `end` bytes; an empty range, if it has no bytes.
    pub fn oldest(&self, end: u64) -> (usize, u64, u64) {
        if let Some(free) = self.0.iter().position(|start| *start == EMPTY) {
            return (free, end, end);
        }
        let part = self.of(self.start()).unwrap_or(0);
        (part, self.0[part], self.end_of(part, end))
    }

    /// A part starts at an offset, behind all others.
    pub fn begin(&mut self, part: usize, offset: u64) {
        self.0[part] = offset;
    }
}

fn offset(key: &[u8]) -> Result<u64> {
    key.try_into().map(u64::from_be_bytes).map_err(|_| Error::Damaged("an offset of the replication stream"))
}

/// The families, and the writes to them in a turn.
#[derive(Default)]
pub(super) struct Backlog {
    families: Option<[Family; PARTS]>,
    /// Range of offsets, by family, whose pieces the turn removes before it adds the new bytes.
    cleared: [Option<(u64, u64)>; PARTS],
    /// Part of the new bytes, offset of the first of them, and the bytes.
    part: usize,
    at: u64,
    fresh: Vec<u8>,
}

impl Backlog {
    /// Takes the families of a database, if it has them; false: it has not.
    pub fn find_families(&mut self, db: &Db) -> bool {
        if self.families.is_none()
            && let [Some(a), Some(b), Some(c)] = BACKLOG.map(|name| db.family(name))
        {
            self.families = Some([a, b, c]);
        }
        self.families.is_some()
    }

    pub fn families(&self) -> &[Family] {
        self.families.as_ref().map_or(&[], |families| &families[..])
    }

    fn family(&self, part: usize) -> Result<&Family> {
        self.families().get(part).ok_or(HOLE)
    }

    /// Offset of the first new byte; `None`: there is none.
    pub fn first_fresh(&self) -> Option<u64> {
        (!self.fresh.is_empty()).then_some(self.at)
    }

    pub fn is_untouched(&self) -> bool {
        self.fresh.is_empty() && self.cleared == [None; PARTS]
    }

    /// Adds bytes to a part, at an offset, which is the one behind earlier bytes of the turn.
    pub fn feed(&mut self, part: usize, at: u64, bytes: &[u8]) {
        if self.fresh.is_empty() {
            (self.part, self.at) = (part, at);
        }
        self.fresh.extend_from_slice(bytes);
    }

    /// Removes the stored pieces of a part from one offset up to another.
    pub fn clear(&mut self, part: usize, from: u64, to: u64) {
        self.cleared[part] = (from < to).then_some((from, to));
    }

    /// Removes everything, new bytes as well, of a stream that the engine has with `end` bytes.
    pub fn begin_anew(&mut self, parts: &Parts, end: u64) {
        self.fresh.clear();
        for (part, start) in parts.0.iter().enumerate().filter(|(_, start)| **start != EMPTY) {
            self.clear(part, *start, parts.end_of(part, end));
        }
    }

    /// Adds the writes to a batch.
    pub fn write(&self, batch: &mut WriteBatch) {
        for (family, cleared) in self.families().iter().zip(self.cleared) {
            if let Some((from, to)) = cleared {
                batch.delete_range_in(family, &from.to_be_bytes(), &to.to_be_bytes());
            }
        }
        let Some(family) = self.families().get(self.part) else { return };
        let mut at = self.at;
        for piece in self.fresh.chunks(PIECE) {
            batch.put_in(family, &at.to_be_bytes(), piece);
            at += piece.len() as u64;
        }
    }

    /// The turn is over.
    pub fn reset(&mut self, kept: usize) {
        self.cleared = [None; PARTS];
        self.fresh.clear();
        self.fresh.shrink_to(kept);
    }

    pub fn give_back(&mut self) {
        self.fresh.shrink_to_fit();
    }

    /// Offset behind the last stored piece of a part; `None`: there is none.
    pub fn end(&self, part: usize, db: &Db) -> Result<Option<u64>> {
        let mut pieces = db.iter_with(self.family(part)?, ReadOptions::default())?;
        pieces.seek_last()?;
        if !pieces.valid() {
            return Ok(None);
        }
        offset(pieces.key())?.checked_add(pieces.value().len() as u64).ok_or(HOLE).map(Some)
    }

    /// Reads the stored bytes of a stream of `end` bytes, divided into `parts`, from one offset up to another.
    pub fn read(&self, db: &Db, (parts, end): (&Parts, u64), (from, to): (u64, u64), out: &mut Vec<u8>) -> Result<()> {
        let mut at = from;
        while at < to {
            let part = parts.of(at).ok_or(HOLE)?;
            let until = parts.end_of(part, end).min(to);
            self.read_part(db, part, (at, until), out)?;
            at = until;
        }
        Ok(())
    }

    fn read_part(&self, db: &Db, part: usize, (from, to): (u64, u64), out: &mut Vec<u8>) -> Result<()> {
        let options = ReadOptions { fill_cache: false, ..ReadOptions::default() };
        let mut pieces = db.iter_with(self.family(part)?, options)?;
        pieces.seek_for_prev(&from.to_be_bytes())?;
        let mut at = from;
        while at < to {
            if !pieces.valid() {
                return Err(HOLE);
            }
            let (start, piece) = (offset(pieces.key())?, pieces.value());
            let skipped = at.checked_sub(start).and_then(|bytes| usize::try_from(bytes).ok()).ok_or(HOLE)?;
            let wanted = usize::try_from(to - at).unwrap_or(usize::MAX);
            let some = piece.get(skipped..).filter(|some| !some.is_empty()).ok_or(HOLE)?;
            let some = some.get(..wanted).unwrap_or(some);
            out.extend_from_slice(some);
            at += some.len() as u64;
            pieces.advance()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other() {
        let mut parts = Parts::from(100);
        assert_eq!((parts.start(), parts.last(), parts.oldest(150)), (100, (0, 100), (1, 150, 150)));
        parts.begin(1, 150);
        parts.begin(2, 220);
        assert_eq!((parts.start(), parts.last(), parts.oldest(300)), (100, (2, 220), (0, 100, 150)));
        assert_eq!(
            [99, 100, 149, 150, 219, 220, 900].map(|offset| parts.of(offset)),
            [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(2)]
        );
        assert_eq!([0, 1, 2].map(|part| parts.end_of(part, 300)), [150, 220, 300]);
        parts.begin(0, 300);
        assert_eq!((parts.start(), parts.last(), parts.oldest(310)), (150, (0, 300), (1, 150, 220)));
        let mut bytes = Vec::new();
        parts.encode(&mut bytes);
        assert_eq!(Parts::decode(&bytes, 300), Some(parts));
        assert_eq!((Parts::decode(&bytes, 299), Parts::decode(&bytes[1..], 300), Parts::decode(&[0; 24], 300)), (None, None, None));
        assert_eq!((Parts::decode(&[255; 24], 300), Parts::decode(&[&bytes[..], &[0; 8]].concat(), 300)), (None, None));
    }
}
