//! Writes a table: entries in, blocks out, about 256 KiB per call to the store.
//!
//! ```text
//! data blocks | filter | range tombstones | dictionary | index | properties | footer
//! ```
//!
//! With a zstd dictionary the first blocks wait in memory as samples until the dictionary has been trained from them. Blocks that are to be
//! compressed go through a [`BatchWindow`], in which other threads may work on them; without a codec each block is written at once.

use super::block_builder::BlockBuilder;
use super::footer::{FORMAT_VERSION, Footer, Section, fold};
use super::frame;
use super::index::{IndexBuilder, shared_prefix};
use super::pack::Packers;
use super::properties::TableProperties;
use super::window::BatchWindow;
use crate::checksum::{DbId, Salt};
use crate::codec::{Codec, Compression, Dictionary, Trained};
use crate::error::{Error, Result};
use crate::filter::{Filter, Hashes, hash};
use crate::key::{self, Kind, Seq};
use crate::manifest::{KeyRange, OwnTimes, TableInfo};
use crate::range_del::RangeTombstones;
use crate::tiering::age::TimeMap;
use crate::tiering::auto_cutoff::Drawing;
use sinter_storage::store::{Appender, FileId};
use std::sync::Arc;

/// Bytes per append. A store call (and its system call) per block would cost more than the block; a buffer that leaves the core's cache
/// before it is copied out costs as well, and allocators keep large ones.
const PIECE: usize = 256 << 10;
/// Bytes of a frame behind the payload, codec and checksum.
const FRAME_END: usize = 1 + size_of::<u64>();
/// A block, which may have one entry more than its size asks for, stays below 4 GiB.
const LARGEST_ENTRY: usize = 3 << 30;
/// Bytes of samples per byte of dictionary, as zstd recommends.
const SAMPLES_PER_DICTIONARY: usize = 100;
/// Most bytes of samples that wait in memory.
const MOST_SAMPLES: usize = 16 << 20;
/// A dictionary larger than this part of a small table's data would cost more than it saves.
const DICTIONARY_SHARE: usize = 16;

/// Options for building a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableOptions {
    /// Uncompressed size of a data block, bytes. A block that has one entry may be larger.
    pub block_size: u32,
    /// Filter bits per key; 0 for none.
    pub bloom_bits_per_key: f64,
    /// Compression of data blocks.
    pub compression: Compression,
}

/// Raw blocks that wait for the dictionary to be trained from them.
#[derive(Default)]
struct Samples {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
}

/// Writes one table, entries in order.
pub struct TableBuilder {
    out: Out,
    options: TableOptions,
    id: FileId,
    block: BlockBuilder,
    index: IndexBuilder,
    window: BatchWindow,
    samples: Option<Samples>,
    /// Hash of each user key, for the filter.
    hashes: Hashes,
    last_trailer: u64,
    /// Last key of the last finished block, whose separator waits for the next key.
    last_key: Vec<u8>,
    smallest: Vec<u8>,
    properties: TableProperties,
    /// When numbers were written, those of other tables too.
    times: Arc<TimeMap>,
    ages: Ages,
    /// The sample of its keys, if somebody wants one.
    sample: Option<Drawing>,
}

/// Ages of the table's entries.
struct Ages {
    /// Oldest and newest number of entries that are as old as their number. The first is larger if there are none.
    seqs: (Seq, Seq),
    /// Oldest and newest time that the others carry themselves.
    own: Option<(u64, u64)>,
    /// Number of entries with a time of their own.
    timed: u64,
}

/// The file and what has not been appended to it yet.
struct Out {
    file: Box<dyn Appender>,
    db: DbId,
    salt: Salt,
    buffer: Vec<u8>,
    /// Offset in the file of the start of `buffer`.
    offset: u64,
    digest: u64,
}

impl Out {
    /// Ends the frame that starts at `start` of the buffer; its length in the file.
    fn seal(&mut self, start: usize, packed: Option<(Codec, u32)>) -> Result<u64> {
        let checksum = frame::seal(self.salt, self.offset + start as u64, &mut self.buffer, start, packed);
        self.digest = fold(self.digest, checksum);
        let length = (self.buffer.len() - start) as u64;
        if self.buffer.len() >= PIECE {
            self.flush()?;
        }
        Ok(length)
    }

    /// Appends the section that `encode` appends to a buffer; returns its length in the file, 0 if it is empty.
    fn section(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<u64> {
        let start = self.buffer.len();
        encode(&mut self.buffer);
        if self.buffer.len() == start { Ok(0) } else { self.seal(start, None) }
    }

    /// Appends what is there if `bytes` more would make the buffer grow: the filter of a large table is as long as a piece.
    fn reserve(&mut self, bytes: usize) -> Result<()> {
        if self.buffer.len() + bytes > self.buffer.capacity() {
            self.flush()?;
            self.buffer.reserve_exact(bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.file.append(&self.buffer)?;
            self.offset += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Offset in the file of the next byte.
    fn position(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }
}

impl Ages {
    #[inline]
    fn numbered(&mut self, seq: Seq) {
        self.seqs = (self.seqs.0.min(seq), self.seqs.1.max(seq));
    }

    fn timed(&mut self, time: u64) {
        let (oldest, newest) = self.own.unwrap_or((time, time));
        self.own = Some((oldest.min(time), newest.max(time)));
        self.timed += 1;
    }

    /// The part of the ages that the manifest keeps.
    fn kept(&self) -> Option<OwnTimes> {
        self.own.map(|times| OwnTimes { entries: self.timed, times, others: self.seqs })
    }

    /// Oldest and newest write time. Of entries without a time of their own they are `known`, or closer by what the table says of numbers.
    fn times(&self, known: (u64, u64), p: &TableProperties) -> (u64, u64) {
        let by_number = (self.seqs.0 <= self.seqs.1).then(|| self.by_number(known, p));
        match (by_number, self.own) {
            (Some((oldest, newest)), Some(own)) => (oldest.min(own.0), if newest == 0 { 0 } else { newest.max(own.1) }),
            (by_number, own) => by_number.or(own).unwrap_or(known),
        }
    }

    fn by_number(&self, (oldest, newest): (u64, u64), p: &TableProperties) -> (u64, u64) {
        // Where entries have lost their numbers, the smallest number says nothing of the oldest.
        let not_before = p.times.not_before(self.seqs.0).filter(|_| p.zeroed_seq == Some(0));
        let not_after = p.times.not_after(self.seqs.1).filter(|time| newest == 0 || *time < newest);
        let (oldest, newest) = (oldest.max(not_before.unwrap_or(0)), not_after.unwrap_or(newest));
        (if newest == 0 { oldest } else { oldest.min(newest) }, newest)
    }
}

impl TableBuilder {
    /// Starts a table on an empty file.
    pub fn new(db: DbId, id: FileId, out: Box<dyn Appender>, options: TableOptions) -> Self {
        let compression = options.compression;
        TableBuilder {
            out: Out { file: out, db, salt: Salt::new(&db, id), buffer: Vec::with_capacity(PIECE + PIECE / 8), offset: 0, digest: 0 },
            options,
            id,
            block: BlockBuilder::default(),
            index: IndexBuilder::default(),
            window: BatchWindow::new(compression),
            samples: (compression.codec == Codec::Zstd && compression.dictionary_bytes > 0).then(Samples::default),
            hashes: Hashes::default(),
            last_trailer: 0,
            last_key: Vec::new(),
            smallest: Vec::new(),
            properties: TableProperties {
                format_version: u64::from(FORMAT_VERSION),
                created_by: TableProperties::creator(),
                codec: compression.codec,
                min_seq: Seq::MAX,
                zeroed_seq: Some(0),
                ..Default::default()
            },
            times: Arc::default(),
            ages: Ages { seqs: (Seq::MAX, 0), own: None, timed: 0 },
            sample: None,
        }
    }

    /// Lets the threads of `packers` compress its blocks. The table is the same, byte for byte.
    pub fn with_packers(mut self, packers: &Arc<Packers>) -> Self {
        self.window.share(packers);
        self
    }

    /// Adds an entry, greater than the last one by (key asc, trailer desc). `original_seq` counts into the table's sequence range, where
    /// `trailer` may have been zeroed. Errors: `Invalid` if the order is wrong, an entry is larger than 3 GiB, or the kind is not one of a
    /// point entry.
    pub fn add(&mut self, key: &[u8], trailer: u64, value: &[u8], original_seq: Seq) -> Result<()> {
        self.add_aged(key, trailer, value, original_seq, key::own_time(trailer, value))
    }

    /// [`TableBuilder::add`] of an entry that is as old as `own_time`, or as its number, even if it carries a time of its own.
    pub fn add_aged(&mut self, key: &[u8], trailer: u64, value: &[u8], original_seq: Seq, own_time: Option<u64>) -> Result<()> {
        let starts_block = self.block.is_empty();
        let last = self.block.last_key().unwrap_or(&self.last_key);
        let shared = shared_prefix(last, key);
        let same_key = shared == key.len() && shared == last.len() && self.properties.entries > 0;
        let ordered = match (key.get(shared), last.get(shared)) {
            (Some(new), Some(old)) => new > old,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => self.properties.entries == 0 || trailer < self.last_trailer,
        };
        if !ordered {
            return Err(Error::invalid("a table's entries must be added in order"));
        }
        self.count(key, trailer, value, (original_seq, own_time))?;
        if !same_key {
            self.note_key(key, trailer, original_seq);
        }
        if starts_block {
            if self.properties.entries == 1 {
                self.smallest.extend_from_slice(key);
            } else {
                self.index.add_separator(&self.last_key, Some(key));
            }
        }
        self.block.add(key, shared, trailer, value);
        self.last_trailer = trailer;
        if self.block.estimate() >= self.options.block_size as usize {
            self.finish_block()?;
        }
        Ok(())
    }

    /// The newest version of a key.
    #[inline]
    fn note_key(&mut self, key: &[u8], trailer: u64, original_seq: Seq) {
        let is_filtered = self.options.bloom_bits_per_key > 0.0;
        if !is_filtered && self.sample.is_none() {
            return;
        }
        let hash = hash(key);
        if is_filtered {
            self.hashes.push(hash);
        }
        if let Some(sample) = &mut self.sample {
            // As old as anything, once it has lost its number.
            let seq = if key::seq_of(trailer) == 0 { 0 } else { original_seq };
            sample.add(hash, seq, key::kind_of(trailer) == Some(Kind::Delete));
        }
    }

    /// Checks an entry by itself and counts it.
    #[inline]
    fn count(&mut self, key: &[u8], trailer: u64, value: &[u8], (original_seq, own_time): (Seq, Option<u64>)) -> Result<()> {
        let p = &mut self.properties;
        match key::kind_of(trailer) {
            Some(Kind::Delete) => p.tombstones += 1,
            Some(Kind::Merge) => p.merges += 1,
            Some(Kind::Value | Kind::ValueReference) => {}
            Some(Kind::TimedValue) if key::own_time(trailer, value).is_some() => {}
            Some(Kind::TimedValue) => return Err(Error::invalid("a timed value without a time")),
            Some(Kind::RangeDelete | Kind::RangeDeleteFrom) | None => return Err(Error::invalid("not a kind of point entries")),
        }
        if key.len().saturating_add(value.len()) > LARGEST_ENTRY {
            return Err(Error::invalid("an entry of more than 3 GiB"));
        }
        p.entries += 1;
        p.raw_key_bytes += key.len() as u64;
        p.raw_value_bytes += value.len() as u64;
        p.min_seq = p.min_seq.min(original_seq);
        p.max_seq = p.max_seq.max(original_seq);
        match own_time {
            Some(time) => self.ages.timed(time),
            None => self.ages.numbered(original_seq),
        }
        if key::seq_of(trailer) == 0 {
            p.zeroed_seq = p.zeroed_seq.max(Some(original_seq));
        }
        Ok(())
    }

    /// Notes why its codec was chosen, in one line for people ([`TableProperties::chosen`]).
    pub fn set_chosen(&mut self, why: String) {
        self.properties.chosen = why;
    }

    /// Notes when it was written, and when the numbers of its entries were.
    pub fn set_times(&mut self, created: u64, times: Arc<TimeMap>) {
        self.properties.created = created;
        self.times = times;
    }

    /// Makes it draw a sample of its keys ([`TableProperties::sample`]).
    pub fn draw_sample(&mut self) {
        self.sample = Some(Drawing::default());
    }

    /// Notes why its entries are on this level, in one line for people ([`TableProperties::placed`]).
    pub fn set_placed(&mut self, why: String) {
        self.properties.placed = why;
    }

    /// Bytes written or about to be. The same at the same entry, however fast blocks are compressed: tables are cut by it.
    pub fn estimated_bytes(&self) -> u64 {
        let samples = self.samples.as_ref().map_or(0, |samples| samples.bytes.len());
        let block = if self.block.is_empty() { 0 } else { self.block.estimate() };
        let filter = if self.hashes.is_empty() { 0 } else { Filter::encoded_len(self.hashes.len(), self.options.bloom_bits_per_key) };
        self.out.position() + self.window.estimate() + (samples + block + filter + self.index.estimate()) as u64
    }

    /// Point entries added.
    pub fn entries(&self) -> u64 {
        self.properties.entries
    }

    /// Counts a block of `bytes` before compression.
    fn count_raw(&mut self, bytes: usize) {
        self.properties.raw_block_bytes += bytes as u64;
        self.properties.largest_raw_block = self.properties.largest_raw_block.max(bytes as u64);
    }

    /// Ends the current block: into the buffer, the window, or to the samples.
    fn finish_block(&mut self) -> Result<()> {
        self.last_key.clear();
        self.last_key.extend_from_slice(self.block.last_key().unwrap_or_default());
        self.properties.data_blocks += 1;
        if self.options.compression.codec == Codec::None {
            let start = self.out.buffer.len();
            self.block.finish(&mut self.out.buffer);
            self.count_raw(self.out.buffer.len() - start);
            self.index.add_block(self.out.seal(start, None)?);
            return Ok(());
        }
        let raw = self.samples.as_mut().map_or(self.window.raw(), |samples| &mut samples.bytes);
        let start = raw.len();
        self.block.finish(raw);
        let size = raw.len() - start;
        self.count_raw(size);
        let Some(samples) = &mut self.samples else { return self.pack_block() };
        samples.sizes.push(size);
        let enough = (self.options.compression.dictionary_bytes as usize).saturating_mul(SAMPLES_PER_DICTIONARY).min(MOST_SAMPLES);
        if samples.bytes.len() >= enough { self.train() } else { Ok(()) }
    }

    /// Ends a block: the bytes that were appended to the window.
    fn pack_block(&mut self) -> Result<()> {
        self.window.end_block()?;
        self.write_packed(false)
    }

    /// Writes the blocks that the window gives: those for which it has no space, or `all`.
    fn write_packed(&mut self, all: bool) -> Result<()> {
        while let Some(batch) = self.window.take(all)? {
            let before = self.out.position();
            for (payload, packed) in batch.blocks() {
                let start = self.out.buffer.len();
                self.out.buffer.extend_from_slice(payload);
                self.index.add_block(self.out.seal(start, packed)?);
            }
            self.window.written(batch, self.out.position() - before);
        }
        Ok(())
    }

    /// Trains the dictionary from the samples and has them compressed. Too few samples: no dictionary.
    fn train(&mut self) -> Result<()> {
        let Some(samples) = self.samples.take() else { return Ok(()) };
        let Compression { dictionary_bytes, level, .. } = self.options.compression;
        let most = (dictionary_bytes as usize).min(samples.bytes.len() / DICTIONARY_SHARE);
        let trained = Dictionary::train(&samples.bytes, &samples.sizes, most).filter(|bytes| Dictionary::new(bytes).is_some());
        self.window.use_dictionary(trained.and_then(|bytes| Trained::new(bytes, level)));
        let mut start = 0;
        for size in samples.sizes {
            self.window.raw().extend_from_slice(&samples.bytes[start..start + size]);
            self.pack_block()?;
            start += size;
        }
        Ok(())
    }

    /// Writes range tombstones, index, filter, properties and footer, and seals the file (durable; its name is not yet). `times` are the
    /// oldest and newest write time, unix seconds, 0 if unknown; they are narrowed by what is known of the entries' numbers. The range of
    /// the result covers the tombstones.
    pub fn finish(mut self, tombstones: &RangeTombstones, times: (u64, u64)) -> Result<TableInfo> {
        if !self.block.is_empty() {
            self.finish_block()?;
        }
        self.train()?;
        self.write_packed(true)?;
        if self.properties.entries > 0 {
            self.index.add_separator(&self.last_key, None);
        }
        let data_end = self.out.position();
        let dictionary = self.window.dictionary();
        let dictionary = dictionary.as_ref().map_or(&[][..], |trained| trained.bytes());
        self.properties.dictionary_bytes = dictionary.len() as u64;
        self.complete_properties(tombstones, times);

        let mut sections = [0; 5];
        let out = &mut self.out;
        if !self.hashes.is_empty() {
            out.reserve(Filter::encoded_len(self.hashes.len(), self.options.bloom_bits_per_key) + FRAME_END)?;
            sections[Section::Filter as usize] = out.section(|to| Filter::build(&self.hashes, self.options.bloom_bits_per_key, to))?;
        }
        if self.properties.range_tombstones > 0 {
            sections[Section::RangeTombstones as usize] = out.section(|to| tombstones.encode(to))?;
        }
        sections[Section::Dictionary as usize] = out.section(|to| to.extend_from_slice(dictionary))?;
        sections[Section::Index as usize] = out.section(|to| self.index.finish(to))?;
        sections[Section::Properties as usize] = out.section(|to| self.properties.encode(to))?;

        let footer = Footer { db: out.db, number: self.id.number, data_end, sections, digest: out.digest };
        let (bytes, identity) = footer.encode(out.salt, out.position());
        out.buffer.extend_from_slice(&bytes);
        out.flush()?;
        let bytes = out.offset;
        self.out.file.seal()?;
        Ok(info(self.id, bytes, identity, self.properties, self.ages.kept()))
    }

    /// Completes the properties that are known only at the end.
    fn complete_properties(&mut self, tombstones: &RangeTombstones, times: (u64, u64)) {
        let p = &mut self.properties;
        p.sample = self.sample.as_ref().map(Drawing::encode).unwrap_or_default();
        if !self.hashes.is_empty() {
            p.filter_millibits = (self.options.bloom_bits_per_key * 1000.0).round() as u64;
        }
        let fragments = tombstones.fragments();
        p.range_tombstones = fragments.len() as u64;
        for seq in fragments.iter().flat_map(|fragment| &fragment.seqs) {
            p.min_seq = p.min_seq.min(*seq);
            p.max_seq = p.max_seq.max(*seq);
            self.ages.numbered(*seq);
        }
        p.min_seq = p.min_seq.min(p.max_seq);
        p.times = self.times.within(p.min_seq, p.max_seq);
        (p.oldest_time, p.newest_time) = self.ages.times(times, p);
        let points = (p.entries > 0).then(|| KeyRange::closed(std::mem::take(&mut self.smallest), self.last_key.as_slice()));
        let deleted = fragments.first().zip(fragments.last()).map(|(first, last)| KeyRange {
            smallest: first.start.clone(),
            largest: last.end.clone(),
            end_exclusive: true,
        });
        p.range = match (points, deleted) {
            (Some(mut points), Some(deleted)) => {
                points.extend(&deleted);
                points
            }
            (points, deleted) => points.or(deleted).unwrap_or_default(),
        };
    }
}

/// The description of a table for the manifest.
fn info(id: FileId, bytes: u64, identity: u64, p: TableProperties, timed: Option<OwnTimes>) -> TableInfo {
    TableInfo {
        number: id.number,
        bytes,
        identity,
        range: p.range,
        min_seq: p.min_seq,
        max_seq: p.max_seq,
        entries: p.entries,
        tombstones: p.tombstones,
        range_tombstones: p.range_tombstones,
        merges: p.merges,
        raw_bytes: p.raw_key_bytes + p.raw_value_bytes,
        oldest_time: p.oldest_time,
        newest_time: p.newest_time,
        temperature: Default::default(),
        settled: 0,
        timed,
    }
}
