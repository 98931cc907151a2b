//! Facts about a table that its file stores, as a list of (tag, length, bytes), so that later versions can add to it: unknown tags are
//! skipped, missing ones are 0 or empty.

use super::footer::FORMAT_VERSION;
use crate::codec::Codec;
use crate::coding::{Decoder, put_bytes, put_varint, varint_len};
use crate::key::Seq;
use crate::manifest::{KeyRange, TableInfo};
use crate::tiering::age::TimeMap;
use crate::tiering::auto_cutoff::sample;

/// Facts about a table, stored in its file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableProperties {
    /// Version of the file format.
    pub format_version: u64,
    /// Program and version that wrote the table.
    pub created_by: String,
    /// Point entries, tombstones included.
    pub entries: u64,
    /// Point tombstones.
    pub tombstones: u64,
    /// Merge operands.
    pub merges: u64,
    /// Range tombstones (fragments).
    pub range_tombstones: u64,
    /// User key bytes of the point entries.
    pub raw_key_bytes: u64,
    /// Value bytes of the point entries.
    pub raw_value_bytes: u64,
    /// Oldest sequence number ever in it, range tombstones included.
    pub min_seq: Seq,
    /// Newest sequence number ever in it, range tombstones included.
    pub max_seq: Seq,
    /// Oldest write time, unix seconds; 0 if unknown.
    pub oldest_time: u64,
    /// Newest write time, unix seconds; 0 if unknown.
    pub newest_time: u64,
    /// When the table was written, unix seconds; 0 if unknown.
    pub created: u64,
    /// The newest number that an entry with number 0 may once have had; 0 if there is no such entry. `None`: the table does not say.
    pub zeroed_seq: Option<Seq>,
    /// When its numbers were written; empty where its family did not track time.
    pub times: TimeMap,
    /// All user keys, range tombstones included.
    pub range: KeyRange,
    /// Codec of the data blocks (some may be stored plain).
    pub codec: Codec,
    /// Bytes of the compression dictionary; 0 for none.
    pub dictionary_bytes: u64,
    /// Data blocks.
    pub data_blocks: u64,
    /// Bytes of the data blocks before compression.
    pub raw_block_bytes: u64,
    /// Bytes of the largest of them before compression; 0: the table does not say.
    pub largest_raw_block: u64,
    /// Thousandths of a filter bit per key; 0: no filter.
    pub filter_millibits: u64,
    /// Why the engine chose the codec, in one line for people; empty if it did not choose.
    pub chosen: String,
    /// A sample of its keys ([`crate::tiering::auto_cutoff::Drawing`]); empty if nobody asked.
    pub sample: Vec<u8>,
    /// Why the engine put its entries on this level, in one line for people; empty if it did not choose.
    pub placed: String,
}

/// More than a block of one entry takes beside key and value: six varints.
const MOST_OVERHEAD: u64 = 60;

const CREATED_BY: u64 = 100;
const SMALLEST: u64 = 101;
const LARGEST: u64 = 102;
const CHOSEN: u64 = 103;
const TIMES: u64 = 104;
const ZEROED_SEQ: u64 = 19;
// Tag 110 is retired.
const PLACED: u64 = 111;
const SAMPLE: u64 = 112;

impl TableProperties {
    /// Program and version that write tables now.
    pub(super) fn creator() -> String {
        format!("sinterdb {}", env!("CARGO_PKG_VERSION"))
    }

    /// The numbers with their tags. Tags are never used for something else.
    fn numbers(&mut self) -> [(u64, &mut u64); 17] {
        [
            (1, &mut self.format_version),
            (2, &mut self.entries),
            (3, &mut self.tombstones),
            (4, &mut self.merges),
            (5, &mut self.range_tombstones),
            (6, &mut self.raw_key_bytes),
            (7, &mut self.raw_value_bytes),
            (8, &mut self.min_seq),
            (9, &mut self.max_seq),
            (10, &mut self.oldest_time),
            (11, &mut self.newest_time),
            (12, &mut self.dictionary_bytes),
            (13, &mut self.data_blocks),
            (14, &mut self.raw_block_bytes),
            (15, &mut self.filter_millibits),
            (18, &mut self.created),
            (20, &mut self.largest_raw_block),
        ]
    }

    /// Appends the format.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut copy = self.clone();
        let flags = [(16, u64::from(self.range.end_exclusive)), (17, self.codec as u64)];
        let zeroed = self.zeroed_seq.map(|seq| (ZEROED_SEQ, seq));
        for (tag, number) in copy.numbers().map(|(tag, number)| (tag, *number)).into_iter().chain(flags).chain(zeroed) {
            put_varint(out, tag);
            put_varint(out, varint_len(number) as u64);
            put_varint(out, number);
        }
        let texts = [(CREATED_BY, self.created_by.as_bytes()), (SMALLEST, &self.range.smallest), (LARGEST, &self.range.largest)];
        let mut map = Vec::new();
        if !self.times.samples().is_empty() {
            self.times.encode(&mut map);
        }
        let optional = [(CHOSEN, self.chosen.as_bytes()), (TIMES, &map), (PLACED, self.placed.as_bytes()), (SAMPLE, &self.sample)];
        for (tag, bytes) in texts.into_iter().chain(optional.into_iter().filter(|(_, bytes)| !bytes.is_empty())) {
            put_varint(out, tag);
            put_bytes(out, bytes);
        }
    }

    /// Reads the format; `None` if it is damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Decoder::new(bytes);
        let mut read = TableProperties::default();
        while !from.is_empty() {
            let tag = from.varint()?;
            let bytes = from.prefixed()?;
            let mut field = Decoder::new(bytes);
            match tag {
                CREATED_BY => read.created_by = String::from_utf8(bytes.to_vec()).ok()?,
                CHOSEN => read.chosen = String::from_utf8_lossy(bytes).into_owned(),
                SAMPLE => read.sample = Some(bytes).filter(|bytes| sample::is_sample(bytes))?.to_vec(),
                PLACED => read.placed = String::from_utf8_lossy(bytes).into_owned(),
                SMALLEST => read.range.smallest = bytes.to_vec(),
                LARGEST => read.range.largest = bytes.to_vec(),
                TIMES => read.times = TimeMap::decode(bytes)?,
                ZEROED_SEQ => read.zeroed_seq = Some(field.varint()?),
                16 => read.range.end_exclusive = field.varint()? != 0,
                17 => read.codec = Codec::from_byte(u8::try_from(field.varint()?).ok()?)?,
                _ => {
                    if let Some((_, number)) = read.numbers().into_iter().find(|(known, _)| *known == tag) {
                        *number = field.varint()?;
                    }
                }
            }
        }
        (read.format_version == u64::from(FORMAT_VERSION)).then_some(read)
    }

    /// Upper bound of the length that a block may claim before compression. Old tables did not note the largest block; there it is the
    /// length of all blocks together.
    pub(super) fn most_raw(&self) -> u64 {
        if self.largest_raw_block == 0 { self.raw_block_bytes } else { self.largest_raw_block }
    }

    /// The manifest's entry for a table, as far as the table itself knows it.
    pub(super) fn info(&self) -> TableInfo {
        TableInfo {
            range: self.range.clone(),
            min_seq: self.min_seq,
            max_seq: self.max_seq,
            entries: self.entries,
            tombstones: self.tombstones,
            range_tombstones: self.range_tombstones,
            merges: self.merges,
            raw_bytes: self.raw_key_bytes.saturating_add(self.raw_value_bytes),
            oldest_time: self.oldest_time,
            newest_time: self.newest_time,
            ..TableInfo::default()
        }
    }

    /// The manifest's entry of a table agrees with the table's properties.
    pub(super) fn agrees(&self, info: &TableInfo) -> bool {
        self.entries == info.entries
            && self.tombstones == info.tombstones
            && self.merges == info.merges
            && self.range_tombstones == info.range_tombstones
            // The bytes that an entry takes in a block beside key and value, its share of the block's head included.
            && self.raw_block_bytes <= info.raw_bytes.saturating_add(info.entries.saturating_mul(MOST_OVERHEAD))
            && self.largest_raw_block <= self.raw_block_bytes
            && self.raw_key_bytes.checked_add(self.raw_value_bytes) == Some(info.raw_bytes)
            && (self.min_seq, self.max_seq) == (info.min_seq, info.max_seq)
            && self.range == info.range
            && self.zeroed_seq.is_none_or(|seq| seq <= self.max_seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_unknown_tags() {
        let mut properties = TableProperties {
            format_version: FORMAT_VERSION.into(),
            created_by: TableProperties::creator(),
            codec: Codec::Zstd,
            chosen: "auto zstd: it is cold".into(),
            sample: vec![9, 1, 5, 14],
            placed: "auto: it is old".into(),
            range: KeyRange { smallest: b"a".to_vec(), largest: b"zz".to_vec(), end_exclusive: true },
            zeroed_seq: Some(0),
            ..Default::default()
        };
        properties.times.add(7, 1_700_000_000);
        properties.times.add(9, 1_700_000_100);
        for (tag, number) in properties.numbers().into_iter().skip(1) {
            *number = tag << (tag * 3);
        }
        let mut bytes = Vec::new();
        properties.encode(&mut bytes);
        put_varint(&mut bytes, 999);
        put_bytes(&mut bytes, b"from the future");
        assert_eq!(TableProperties::decode(&bytes), Some(properties));
        let mut old = Vec::new();
        TableProperties { format_version: FORMAT_VERSION.into(), ..Default::default() }.encode(&mut old);
        assert_eq!(TableProperties::decode(&old).and_then(|old| old.zeroed_seq), None, "a table from before does not say");
        for n in 0..bytes.len() {
            let _ = TableProperties::decode(&bytes[..n]);
        }
        assert_eq!(TableProperties::decode(&[]), None);
        let hostile = TableProperties { format_version: FORMAT_VERSION.into(), sample: vec![9, 250, 1, 1], ..Default::default() };
        bytes.clear();
        hostile.encode(&mut bytes);
        assert_eq!(TableProperties::decode(&bytes), None, "a sample that cannot be");
    }
}
