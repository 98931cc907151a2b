//! An open table. A get asks the filter, the index, one block: three array accesses and lock-free loads while they are resident, and one
//! read of the medium for each that is not.

use super::block::Block;
use super::counted::{Counted, LONGEST, ReadTimes};
use super::footer::{FOOTER_BYTES, Footer, Section};
use super::frame::{Frames, Lent, lend_packed};
use super::index::Index;
use super::properties::TableProperties;
use super::resident::{FILTER, INDEX, Resident};
use crate::cache::{Cache, CacheSlot, Cached, Packed, Part};
use crate::checksum::{DbId, Salt};
use crate::codec::{Codec, Dictionary};
use crate::coding::Decoder;
use crate::error::{Error, Result};
use crate::filter::{self, Filter};
use crate::key::{Kind, Seq};
use crate::ledger::Latencies;
use crate::manifest::TableInfo;
use crate::prefetch;
use crate::range_del::RangeTombstones;
use crate::tiering::auto_cutoff::Holding;
use arc_swap::Guard;
use sinter_storage::store::{FileId, ReadAt, Store, StoreError};
use std::ops::{ControlFlow, Deref};
use std::sync::{Arc, OnceLock};

/// Use of the cache by a read. Checksums are always verified when bytes come from the medium.
#[derive(Debug, Clone, Copy)]
pub struct ReadOptions {
    /// Keep blocks that had to be read.
    pub fill_cache: bool,
    /// Bytes to read ahead on sequential access; 0: one block at a time.
    pub readahead: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { fill_cache: true, readahead: 0 }
    }
}

/// An open table. Cheap to keep: index and filter are read on first use and live in the cache.
#[derive(Debug)]
pub struct Table {
    info: Arc<TableInfo>,
    pub(super) frames: Frames,
    pub(super) footer: Footer,
    pub(super) properties: TableProperties,
    resident: Arc<Resident>,
    cache: Arc<Cache>,
    pub(super) file: Arc<Counted>,
    tombstones: OnceLock<Arc<RangeTombstones>>,
    dictionary: OnceLock<Option<Dictionary>>,
    /// Reason why nothing of the table can be read: see [`Table::broken`].
    broken: Option<Error>,
}

/// A part of a table in use: borrowed from its slot, or owned.
pub(super) enum Held<T> {
    Lent(Guard<Option<Arc<Cached<T>>>>),
    Own(Arc<Cached<T>>),
}

impl<T> Held<T> {
    /// The part as an `Arc`, to keep it for longer.
    pub fn into_arc(self) -> Arc<Cached<T>> {
        match self {
            Held::Lent(guard) => match Guard::into_inner(guard) {
                Some(part) => part,
                None => unreachable!("only full slots are lent"),
            },
            Held::Own(part) => part,
        }
    }
}

impl<T> Deref for Held<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        match self {
            Held::Lent(guard) => match guard.as_ref() {
                Some(part) => part,
                None => unreachable!("only full slots are lent"),
            },
            Held::Own(part) => part,
        }
    }
}

impl Table {
    /// Opens a table and checks footer and properties against what the manifest says of it.
    pub fn open(store: &dyn Store, db: DbId, info: Arc<TableInfo>, cache: &Arc<Cache>) -> Result<Arc<Table>> {
        let id = FileId::table(info.number);
        let file = Arc::new(Counted::new(store.open(id)?, Arc::clone(cache), info.temperature));
        let mut frames = Frames { id, file: file.clone(), salt: Salt::new(&db, id), most_raw: 0 };
        let bytes = frames.file.len();
        if bytes != info.bytes {
            return Err(frames.corrupt(bytes.min(info.bytes), &format!("the file has {bytes} bytes, not {}", info.bytes)));
        }
        let Some(footer_at) = bytes.checked_sub(FOOTER_BYTES as u64) else {
            return Err(frames.corrupt(0, "the file is shorter than a footer"));
        };
        let tail = frames.read(footer_at, FOOTER_BYTES)?;
        let (footer, identity) = Footer::decode(&tail, frames.salt, footer_at).map_err(|what| frames.corrupt(footer_at, what))?;
        if identity != info.identity || footer.number != info.number || footer.db != db {
            return Err(frames.corrupt(footer_at, "the file is another table than the manifest names"));
        }
        let at = footer_at - footer.sections[Section::Properties as usize];
        let payload = frames.plain(at, read_section(&frames, &footer, Section::Properties)?)?;
        let properties = TableProperties::decode(&payload).ok_or_else(|| frames.corrupt(at, "damaged properties"))?;
        let blocks = usize::try_from(properties.data_blocks).ok().filter(|n| *n < u32::MAX as usize / 2 && *n as u64 <= footer.data_end);
        let (Some(blocks), true) = (blocks, properties.agrees(&info)) else {
            return Err(frames.corrupt(at, "the properties contradict the manifest"));
        };
        frames.most_raw = properties.most_raw();
        let number = info.number;
        Ok(Arc::new(Table {
            info,
            frames,
            footer,
            properties,
            resident: Arc::new(Resident::new(number, blocks)),
            cache: Arc::clone(cache),
            file,
            tombstones: OnceLock::new(),
            dictionary: OnceLock::new(),
            broken: None,
        }))
    }

    /// Sets whether the table lies on the last level of the tree, for counts of its reads.
    pub fn set_last_level(&self, yes: bool) {
        self.file.set_last_level(yes);
    }

    /// Sets the collector of read times, once.
    pub fn set_read_times(&self, times: &Arc<ReadTimes>) {
        self.file.set_times(times);
    }

    /// Sets the collector of read times that all tables of its tier share, once.
    pub(crate) fn set_latencies(&self, latencies: &Arc<Latencies>) {
        self.file.set_latencies(latencies);
    }

    /// How many data blocks readers did not find in the cache since the last call.
    pub fn take_misses(&self) -> u64 {
        self.file.take_misses()
    }

    /// Bytes of the data blocks before compression, and their number.
    pub fn blocks(&self) -> (u64, u64) {
        (self.properties.raw_block_bytes, self.properties.data_blocks)
    }

    /// A stand-in for a damaged or missing table, so that other tables can be read: reads of its contents return `error`.
    pub fn broken(db: DbId, info: Arc<TableInfo>, cache: &Arc<Cache>, error: Error) -> Arc<Table> {
        let number = info.number;
        let id = FileId::table(number);
        let file = Arc::new(Counted::new(Arc::new(NoFile), Arc::clone(cache), info.temperature));
        Arc::new(Table {
            frames: Frames { id, file: file.clone(), salt: Salt::new(&db, id), most_raw: 0 },
            footer: Footer { db, number, data_end: 0, sections: [0; 5], digest: 0 },
            properties: TableProperties::default(),
            info,
            resident: Arc::new(Resident::new(number, 0)),
            cache: Arc::clone(cache),
            file,
            tombstones: OnceLock::new(),
            dictionary: OnceLock::new(),
            broken: Some(error),
        })
    }

    /// Returns whether the table is a stand-in for one that is damaged or missing.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Returns the error of a broken table. Checked only before reads from the medium, because the cache never holds parts of such a table.
    fn check_intact(&self) -> Result<()> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// [`Error::Invalid`] if this build lacks the codec of the table's data blocks.
    pub fn check_codec(&self) -> Result<()> {
        let missing = self.properties.codec.missing();
        missing.map_or(Ok(()), |missing| Err(Error::invalid(format!("{}: {missing}", self.frames.id))))
    }

    /// The manifest's entry of the table.
    pub fn info(&self) -> &Arc<TableInfo> {
        &self.info
    }

    /// The hash of a key, computed once per get and used by the filters of all tables.
    #[inline]
    pub fn hash(key: &[u8]) -> u64 {
        filter::hash(key)
    }

    /// Visits the point versions of `key` with sequence number `<= snapshot`, newest first, until `visit` breaks.
    #[inline]
    pub fn get(
        &self,
        key: &[u8],
        hash: u64,
        snapshot: Seq,
        options: ReadOptions,
        mut visit: impl FnMut(Seq, Kind, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        if let Some(filter) = self.filter()?
            && !filter.may_contain(hash)
        {
            return Ok(());
        }
        let index = self.index()?;
        for number in index.find(key)..index.len() {
            let block = self.block(&index, number, options)?;
            // Prefix, tags and offsets are needed one after another; prefetching them makes their cache misses overlap.
            block.prefetch();
            match block.get(key, snapshot, &mut visit) {
                Some(ControlFlow::Break(())) => break,
                Some(ControlFlow::Continue(())) => {}
                None => return Err(self.damaged_block(&index, number)),
            }
        }
        Ok(())
    }

    /// Prefetches what `get` touches first, a line of the filter and the index, into the processor's cache: for batches of gets. Never
    /// reads the medium.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(line) = self.resident.filter.load().as_ref().and_then(|filter| filter.line(hash)) {
            prefetch::address(line);
        }
        if let Some(index) = self.resident.index.load().as_ref() {
            index.prefetch();
        }
    }

    /// The second step of a batch of gets, some time after [`Table::prefetch`]: prefetches the head of the block where `key` would be. If
    /// the block is not in memory and reads often wait for the medium, starts to read it, so that the reads of a batch overlap. Does not
    /// wait for the block. False if the table certainly has no version of the key, so that `get` need not be called.
    #[inline]
    pub fn prefetch_block(&self, key: &[u8], hash: u64) -> bool {
        let filter = self.resident.filter.load();
        if filter.as_ref().is_some_and(|filter| !filter.may_contain(hash)) {
            return false;
        }
        let guard = self.resident.index.load();
        if let Some(index) = guard.as_ref() {
            let number = index.find(key);
            match self.resident.block(number).map(CacheSlot::load).as_deref().and_then(Option::as_ref) {
                Some(block) => block.prefetch(),
                // Without the filter in memory no read is started: the filter may show that the block need not be read.
                None if self.file.is_slow() && (filter.is_some() || self.has_no_filter()) => self.announce_block(index, number),
                None => {}
            }
        }
        true
    }

    fn has_no_filter(&self) -> bool {
        self.footer.sections[Section::Filter as usize] == 0
    }

    /// Asks the store to read a block ahead, if the block exists and is not in the cache. Skips blocks with long values, which could push
    /// other blocks of the batch out of a small page cache.
    #[cold]
    fn announce_block(&self, index: &Index, number: usize) {
        if number < index.len() && !self.holds_block(number) {
            let (offset, length) = index.extent(number);
            if length <= LONGEST {
                self.file.will_need(offset, length);
            }
        }
    }

    /// The table's range tombstones. Most tables have none and return a shared empty set without reading the medium.
    pub fn range_tombstones(&self) -> Result<Arc<RangeTombstones>> {
        static NONE: OnceLock<Arc<RangeTombstones>> = OnceLock::new();
        let Some(range) = self.footer.section(Section::RangeTombstones) else {
            self.check_intact()?;
            return Ok(Arc::clone(NONE.get_or_init(Arc::default)));
        };
        if let Some(known) = self.tombstones.get() {
            return Ok(Arc::clone(known));
        }
        let payload = self.section(Section::RangeTombstones)?;
        let tombstones =
            RangeTombstones::decode(Decoder::new(&payload)).ok_or_else(|| self.frames.corrupt(range.start, "damaged range tombstones"))?;
        Ok(Arc::clone(self.tombstones.get_or_init(|| Arc::new(tombstones))))
    }

    /// The table's range tombstones, if there are any and they were read before.
    pub fn known_tombstones(&self) -> Option<&RangeTombstones> {
        self.tombstones.get().map(|known| &**known)
    }

    /// User keys, from the index, that divide the table into about `pieces` parts of equal size, for splitting compactions. Ascending,
    /// fewer than `pieces`.
    pub fn split_points(&self, pieces: usize) -> Result<Vec<Vec<u8>>> {
        let index = self.index()?;
        let mut points: Vec<Vec<u8>> = Vec::new();
        let mut block = 0;
        for piece in 1..pieces {
            let target = (u128::from(self.footer.data_end) * piece as u128 / pieces as u128) as u64;
            while block < index.len() && index.extent(block).0 + index.extent(block).1 < target {
                block += 1;
            }
            // The last separator is the end of the table and divides nothing.
            if block + 1 >= index.len() {
                break;
            }
            let mut point = Vec::new();
            index.separator(block, &mut point);
            if points.last().is_none_or(|last| *last < point) {
                points.push(point);
            }
        }
        Ok(points)
    }

    /// Approximate file offset of a key: for sizes of ranges.
    pub fn approximate_offset(&self, key: &[u8]) -> Result<u64> {
        let index = self.index()?;
        let block = index.find(key);
        Ok(if block < index.len() { index.extent(block).0 } else { self.footer.data_end })
    }

    /// The properties stored in the file.
    pub fn properties(&self) -> Result<TableProperties> {
        self.check_intact()?;
        Ok(self.properties.clone())
    }

    /// Bytes of the index in the file.
    pub fn index_bytes(&self) -> u64 {
        self.footer.section(Section::Index).map_or(0, |index| index.end - index.start)
    }

    /// The newest sequence number that an entry may have had before it was zeroed. In a table without this property, any number may have
    /// been zeroed.
    pub fn zeroed_seq(&self) -> Seq {
        self.properties.zeroed_seq.unwrap_or(self.info.max_seq)
    }

    /// Facts of the table for estimates of its live bytes by age. Entries with a zeroed number may be of any age.
    pub fn holding(&self) -> Holding<'_> {
        let oldest = if self.zeroed_seq() > 0 { 0 } else { self.info.min_seq };
        Holding { bytes: self.info.bytes, entries: self.info.entries, seqs: (oldest, self.info.max_seq), sample: &self.properties.sample }
    }

    /// Removes the table's blocks from the cache: the table was deleted.
    pub fn forget(&self) {
        self.cache.forget(&*self.resident);
    }

    /// The filter, if the table has one.
    #[inline]
    fn filter(&self) -> Result<Option<Held<Filter>>> {
        if self.has_no_filter() {
            return Ok(None);
        }
        let guard = self.resident.filter.load();
        if guard.is_some() {
            return Ok(Some(Held::Lent(guard)));
        }
        self.load_filter().map(|filter| Some(Held::Own(filter)))
    }

    /// The index.
    #[inline]
    pub(super) fn index(&self) -> Result<Held<Index>> {
        let guard = self.resident.index.load();
        if guard.is_some() {
            return Ok(Held::Lent(guard));
        }
        self.load_index().map(Held::Own)
    }

    /// A data block. Only for `number < index.len()`.
    #[inline]
    fn block(&self, index: &Index, number: usize, options: ReadOptions) -> Result<Held<Block>> {
        match self.resident_block(number) {
            Some(block) => Ok(block),
            None => self.load_block(index, number, options).map(Held::Own),
        }
    }

    /// A data block if it is in its slot.
    #[inline]
    pub(super) fn resident_block(&self, number: usize) -> Option<Held<Block>> {
        let guard = self.resident.block(number)?.load();
        guard.is_some().then_some(Held::Lent(guard))
    }

    /// Returns whether the cache has a data block, compressed or not.
    pub(super) fn holds_block(&self, number: usize) -> bool {
        self.resident_block(number).is_some() || self.cache.holds_packed(&*self.resident, Resident::slot_of(number))
    }

    #[cold]
    fn load_filter(&self) -> Result<Arc<Cached<Filter>>> {
        self.cache.missed(Part::Filter, &*self.resident, FILTER);
        let filter = self.read_filter()?;
        let bytes = filter.bytes();
        let part = Cached::new(Part::Filter, filter, bytes);
        self.cache.keep(&self.resident, FILTER, &self.resident.filter, &part);
        Ok(part)
    }

    /// The filter from the medium.
    pub(super) fn read_filter(&self) -> Result<Filter> {
        Filter::decode(&self.section(Section::Filter)?).ok_or_else(|| self.frames.corrupt(self.footer.data_end, "damaged filter"))
    }

    #[cold]
    fn load_index(&self) -> Result<Arc<Cached<Index>>> {
        self.cache.missed(Part::Index, &*self.resident, INDEX);
        let index = self.read_index()?;
        let bytes = index.bytes();
        let part = Cached::new(Part::Index, index, bytes);
        self.cache.keep(&self.resident, INDEX, &self.resident.index, &part);
        Ok(part)
    }

    /// The index for a scan. If it has to be read, the cache does not keep it.
    pub(super) fn index_for_scan(&self) -> Result<Arc<Cached<Index>>> {
        let guard = self.resident.index.load();
        if guard.is_some() {
            return Ok(Held::Lent(guard).into_arc());
        }
        let index = self.read_index()?;
        let bytes = index.bytes();
        Ok(Cached::new(Part::Index, index, bytes))
    }

    /// The index from the medium.
    pub(super) fn read_index(&self) -> Result<Index> {
        self.check_intact()?;
        let at = self.footer.section(Section::Index).map_or(0, |range| range.start);
        Index::decode(&self.section(Section::Index)?, self.footer.data_end, self.properties.raw_key_bytes)
            .filter(|index| index.len() as u64 == self.properties.data_blocks)
            .ok_or_else(|| self.frames.corrupt(at, "damaged index"))
    }

    /// Loads a data block that is not in its slot: from the compressed share of the cache, or else from the medium.
    #[cold]
    pub(super) fn load_block(&self, index: &Index, number: usize, options: ReadOptions) -> Result<Arc<Cached<Block>>> {
        if let Some(block) = self.unpack_block(number)? {
            return Ok(block);
        }
        let slot = Resident::slot_of(number);
        let timer = self.cache.timer(&*self.resident, slot);
        self.cache.missed(Part::Data, &*self.resident, slot);
        let (offset, length) = index.extent(number);
        self.file.count_miss();
        let length = self.length(offset, length)?;
        let packs = options.fill_cache && self.cache.packs();
        let (block, packed) = self.frames.read_and_lend(offset, length, self.dictionary()?, |lent| fresh(lent, packs))?;
        let block = self.cacheable(offset, block)?;
        timer.into_iter().for_each(|start| self.cache.time_miss(start, block.memory(), length as u64));
        if options.fill_cache {
            self.keep_block(number, &block, packed);
        }
        Ok(block)
    }

    /// Moves a data block that the cache holds compressed back into its slot, decompressed. Its bytes were verified before they were kept.
    pub(super) fn unpack_block(&self, number: usize) -> Result<Option<Arc<Cached<Block>>>> {
        let timer = self.cache.timer(&*self.resident, Resident::slot_of(number));
        let Some(packed) = self.cache.take_packed(&*self.resident, Resident::slot_of(number)) else { return Ok(None) };
        let block = lend_packed(&packed, self.dictionary()?, Block::parse).flatten();
        Ok(block.map(|block| {
            let bytes = block.bytes();
            let block = Cached::new(Part::Data, block, bytes);
            self.keep_block(number, &block, None);
            timer.into_iter().for_each(|start| self.cache.time_unpacked(start));
            block
        }))
    }

    /// Verifies and decompresses a block that was read.
    pub(super) fn parse_block(&self, number: usize, offset: u64, frame: &[u8], options: ReadOptions) -> Result<Fresh> {
        self.cache.missed(Part::Data, &*self.resident, Resident::slot_of(number));
        self.file.count_miss();
        let packs = options.fill_cache && self.cache.packs();
        let (block, packed) = self.frames.lend(offset, frame, self.dictionary()?, |lent| fresh(lent, packs))?;
        Ok((self.cacheable(offset, block)?, packed))
    }

    fn cacheable(&self, offset: u64, block: Option<Block>) -> Result<Arc<Cached<Block>>> {
        let block = block.ok_or_else(|| self.frames.corrupt(offset, "a damaged data block"))?;
        let bytes = block.bytes();
        Ok(Cached::new(Part::Data, block, bytes))
    }

    /// Keeps a block in the cache, in compressed form if that is given.
    pub(super) fn keep_block(&self, number: usize, block: &Arc<Cached<Block>>, packed: Option<Packed>) {
        let Some(place) = self.resident.block(number) else { return };
        let slot = Resident::slot_of(number);
        match packed {
            Some(packed) if packed.memory() <= self.cache.packed_capacity() => self.cache.keep_packed(&*self.resident, slot, place, packed),
            // A block that does not fit into the compressed share may still fit into the other one.
            _ => self.cache.keep(&self.resident, slot, place, block),
        }
    }

    /// The compression dictionary, if the table has one. Read on first use and kept as long as the table is open.
    pub(super) fn dictionary(&self) -> Result<Option<&Dictionary>> {
        let Some(range) = self.footer.section(Section::Dictionary) else { return Ok(None) };
        if let Some(known) = self.dictionary.get() {
            return Ok(known.as_ref());
        }
        if let Some(missing) = Codec::Zstd.missing() {
            return Err(Error::invalid(format!("{} at offset {}: {missing}", self.frames.id, range.start)));
        }
        let bytes = self.section(Section::Dictionary)?;
        let dictionary = Dictionary::new(&bytes).ok_or_else(|| self.frames.corrupt(range.start, "a damaged dictionary"))?;
        Ok(self.dictionary.get_or_init(|| Some(dictionary)).as_ref())
    }

    /// The payload of a section, empty if the table has none.
    pub(super) fn section(&self, section: Section) -> Result<Vec<u8>> {
        match self.footer.section(section) {
            Some(range) => self.frames.plain(range.start, read_section(&self.frames, &self.footer, section)?),
            None => Ok(Vec::new()),
        }
    }

    /// Converts a length to `usize`.
    pub(super) fn length(&self, offset: u64, length: u64) -> Result<usize> {
        usize::try_from(length).map_err(|_| self.frames.corrupt(offset, "a block is larger than memory"))
    }

    /// The error of a block with a valid checksum and invalid entries.
    #[cold]
    pub(super) fn damaged_block(&self, index: &Index, number: usize) -> Error {
        self.frames.corrupt(index.extent(number).0, "a damaged entry in a data block")
    }
}

/// A block from the medium, with its compressed form if the cache keeps compressed blocks.
pub(super) type Fresh = (Arc<Cached<Block>>, Option<Packed>);

/// The block in a verified frame, and its compressed form if `packs` is set and the frame is compressed.
fn fresh(lent: Lent<'_>, packs: bool) -> (Option<Block>, Option<Packed>) {
    let packed = lent.packed.filter(|_| packs).and_then(|(codec, payload)| Packed::of(codec, lent.raw.len(), payload));
    (Block::parse(lent.raw), packed)
}

/// The file of a broken table; never asked for anything.
#[derive(Debug)]
struct NoFile;

impl ReadAt for NoFile {
    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> sinter_storage::store::Result<()> {
        Err(StoreError::store("read", std::io::ErrorKind::NotFound.into()))
    }

    fn len(&self) -> u64 {
        0
    }
}

impl Drop for Table {
    /// Removes the table's parts from the cache.
    fn drop(&mut self) {
        self.forget();
    }
}

/// The frame of a section. The footer has been checked against the file's length.
pub(super) fn read_section(frames: &Frames, footer: &Footer, section: Section) -> Result<Vec<u8>> {
    let Some(range) = footer.section(section) else {
        return Err(frames.corrupt(footer.data_end, "a section is missing"));
    };
    let length = usize::try_from(range.end - range.start).map_err(|_| frames.corrupt(range.start, "a section is larger than memory"))?;
    frames.read(range.start, length)
}
