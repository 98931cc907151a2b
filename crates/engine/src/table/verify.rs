//! Reads every byte of a table and checks it against every other: for `check`, and for tests.

use super::block::hash;
use super::footer::{Section, fold};
use super::reader::{Table, read_section};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::key::{self, Kind};
use std::cmp::Ordering;
use std::sync::Arc;

/// What the entries add up to.
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
pub(super) fn verify(table: &Arc<Table>) -> Result<()> {
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
