//! Reads every byte of a table. [`Table::verify`] checks each against every other, for `check` and for tests; [`Table::verify_frames`]
//! checks that the bytes are those that were written, for copies.

use super::footer::{FOOTER_BYTES, Footer, Section, fold};
use super::frame::Frames;
use super::properties::TableProperties;
use super::reader::{Table, read_section};
use crate::cache::Cache;
use crate::checksum::{DbId, Salt};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::filter::hash;
use crate::key::{self, Kind};
use crate::manifest::TableInfo;
use sinter_storage::store::{FileId, Store};
use std::cmp::Ordering;
use std::sync::Arc;

/// Bytes of data blocks that are read at once; larger blocks are read one by one.
const PIECE: u64 = 1 << 20;

/// Sums over the entries.
#[derive(Default)]
struct Sums {
    entries: u64,
    tombstones: u64,
    merges: u64,
    key_bytes: u64,
    value_bytes: u64,
    last: Vec<u8>,
    last_trailer: u64,
}

/// Checks all of a table: see [`Table::verify`].
fn verify(table: &Arc<Table>) -> Result<()> {
    // From the medium, not from the cache.
    let index = table.read_index()?;
    let filter = table.footer.section(Section::Filter).map(|_| table.read_filter()).transpose()?;
    let p = &table.properties;
    let mut sums = Sums::default();
    let mut cursor = table.scan();
    cursor.seek_first()?;
    let mut separator = Vec::new();
    while cursor.valid() {
        let number = cursor.block();
        let at = index.extent(number).0;
        let (entry, key, trailer) = (cursor.entry(), cursor.key(), cursor.trailer());
        let hash = hash(key);
        if sums.entries == 0 && key < p.range.smallest.as_slice() {
            return Err(table.frames.corrupt(at, "a key below the table's smallest"));
        }
        if sums.entries > 0 && key::compare(&sums.last, sums.last_trailer, key, trailer) != Ordering::Less {
            return Err(table.frames.corrupt(at, "entries out of order"));
        }
        if entry == 0 && number > 0 && (separator.as_slice() > key || (separator == key && sums.last != key)) {
            return Err(table.frames.corrupt(at, "a separator above the next block's first key"));
        }
        if entry == 0 {
            separator.clear();
            index.separator(number, &mut separator);
        }
        if key > separator.as_slice() {
            return Err(table.frames.corrupt(at, "a key above its block's separator"));
        }
        if filter.as_ref().is_some_and(|filter| !filter.may_contain(hash)) {
            return Err(table.frames.corrupt(table.footer.data_end, "the filter lacks a key"));
        }
        let kind = key::kind_of(trailer);
        sums.entries += 1;
        sums.tombstones += u64::from(kind == Some(Kind::Delete));
        sums.merges += u64::from(kind == Some(Kind::Merge));
        sums.key_bytes += key.len() as u64;
        sums.value_bytes += cursor.value().len() as u64;
        sums.last.clear();
        sums.last.extend_from_slice(key);
        sums.last_trailer = trailer;
        cursor.next()?;
    }
    check_sums(table, &sums)?;
    check_sections(table, cursor.digest)
}

/// The properties say what the entries are.
fn check_sums(table: &Table, sums: &Sums) -> Result<()> {
    let p = &table.properties;
    let stated = (p.entries, p.tombstones, p.merges, p.raw_key_bytes, p.raw_value_bytes);
    let at = table.footer.section(Section::Properties).map_or(0, |range| range.start);
    if stated != (sums.entries, sums.tombstones, sums.merges, sums.key_bytes, sums.value_bytes) {
        return Err(table.frames.corrupt(at, "the properties do not match the entries"));
    }
    if sums.entries > 0 && p.range.ends_before(&sums.last) {
        return Err(table.frames.corrupt(at, "a key above the table's largest"));
    }
    if table.range_tombstones()?.fragments().len() as u64 != p.range_tombstones {
        return Err(table.frames.corrupt(at, "the properties do not match the range tombstones"));
    }
    table.dictionary().map(drop)
}

/// The other blocks are whole, and all together are the ones the footer was written for.
fn check_sections(table: &Table, mut digest: u64) -> Result<()> {
    use Section::{Dictionary, Filter, Index, Properties, RangeTombstones};
    for section in [Filter, RangeTombstones, Dictionary, Index, Properties] {
        if let Some(range) = table.footer.section(section) {
            let bytes = read_section(&table.frames, &table.footer, section)?;
            digest = fold(digest, table.frames.verify(range.start, &bytes)?.checksum);
        }
    }
    if digest != table.footer.digest {
        return Err(table.frames.corrupt(table.frames.file.len(), "the blocks are not the ones the footer was written for"));
    }
    Ok(())
}

/// Data blocks that were read together: where each lies in the file, offset and length; the offset of the first; all their bytes.
type EachPiece<'a> = dyn FnMut(&[(u64, u64)], u64, &mut [u8]) -> Result<()> + 'a;

impl Table {
    /// Reads everything and verifies every checksum, the order of keys, and the properties against the contents.
    pub fn verify(self: &Arc<Self>) -> Result<()> {
        verify(self)
    }

    /// Reads the data blocks in file order, a piece at a time. Hands each piece to `each`. False if `goes_on` said no.
    pub(super) fn pieces(&self, goes_on: &dyn Fn() -> bool, each: &mut EachPiece<'_>) -> Result<bool> {
        let index = self.index_for_scan()?;
        let (mut piece, mut blocks): (Vec<u8>, Vec<(u64, u64)>) = (Vec::new(), Vec::new());
        let mut first = 0;
        while first < index.len() {
            if !goes_on() {
                return Ok(false);
            }
            let (start, length) = index.extent(first);
            let mut end = start + length;
            blocks.clear();
            blocks.push((start, length));
            blocks
                .extend((first + 1..index.len()).map(|block| index.extent(block)).take_while(|(at, length)| at + length - start <= PIECE));
            if let Some((at, length)) = blocks.last() {
                end = at + length;
            }
            first += blocks.len();
            piece.resize(self.length(start, end - start)?, 0);
            self.frames.file.read_at(start, &mut piece)?;
            each(&blocks, start, &mut piece)?;
        }
        Ok(true)
    }

    /// Checks that each byte of the file is the one that was written: all checksums, and the digest of these in the footer. Decompresses
    /// nothing. Costs one read of the file and about 0.1 s of a processor per GiB.
    ///
    /// # Errors
    /// `Corrupt` with the offset of the first damaged block.
    pub fn verify_frames(&self) -> Result<()> {
        let mut digest = 0;
        self.pieces(&|| true, &mut |blocks, start, piece| {
            for (offset, length) in blocks {
                let at = (offset - start) as usize;
                digest = fold(digest, self.frames.verify(*offset, &piece[at..at + *length as usize])?.checksum);
            }
            Ok(())
        })?;
        check_sections(self, digest)
    }
}

/// [`Table::verify_frames`] for a table that no manifest at hand describes, such as one on a tier without its database. The table's own
/// footer and properties stand for the manifest.
///
/// # Errors
/// `Corrupt` for damage, `Io` if the file cannot be read.
pub fn verify_alone(store: &dyn Store, id: FileId) -> Result<()> {
    let file = store.open(id)?;
    let at = file.len().saturating_sub(FOOTER_BYTES as u64);
    let mut frames = Frames { id, file, salt: Salt::new(&DbId([0; 16]), id), most_raw: 0 };
    if frames.file.len() < FOOTER_BYTES as u64 {
        return Err(frames.corrupt(0, "the file is shorter than a footer"));
    }
    let tail = frames.read(at, FOOTER_BYTES)?;
    let db = Footer::database(&tail).ok_or_else(|| frames.corrupt(at, "the footer is cut off"))?;
    frames.salt = Salt::new(&db, id);
    let (footer, identity) = Footer::decode(&tail, frames.salt, at).map_err(|what| frames.corrupt(at, what))?;
    let start = at - footer.sections[Section::Properties as usize];
    let payload = frames.plain(start, read_section(&frames, &footer, Section::Properties)?)?;
    let properties = TableProperties::decode(&payload).ok_or_else(|| frames.corrupt(start, "damaged properties"))?;
    let info = TableInfo { number: id.number, bytes: frames.file.len(), identity, ..properties.info() };
    Table::open(store, db, Arc::new(info), &Cache::new(0))?.verify_frames()
}
