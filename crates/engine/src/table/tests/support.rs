use crate::cache::Cache;
use crate::checksum::DbId;
use crate::codec::Compression;
use crate::error::Result;
use crate::key::{Kind, Seq, trailer};
use crate::manifest::TableInfo;
use crate::range_del::RangeTombstones;
use crate::table::{Table, TableBuilder, TableOptions};
use parking_lot::Mutex;
use sinter_storage::store::{self, Appender, FileId, Hint, ReadAt, Store, StoreError, StoreLock};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

pub const DB: DbId = DbId([7; 16]);

type Files = Arc<Mutex<BTreeMap<FileId, Arc<Vec<u8>>>>>;

/// Files in a map.
#[derive(Debug, Default, Clone)]
pub struct Memory {
    pub files: Files,
    /// Prefetches of readers: offsets and lengths.
    pub announced: Arc<Mutex<Vec<(u64, u64)>>>,
    /// Reads of readers: offsets and lengths.
    pub read: Arc<Mutex<Vec<(u64, u64)>>>,
}

#[derive(Debug)]
struct Reader(FileId, Arc<Vec<u8>>, Memory);

impl ReadAt for Reader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> store::Result<()> {
        self.2.read.lock().push((offset, buffer.len() as u64));
        let bytes = self.1.get(offset as usize..).and_then(|rest| rest.get(..buffer.len()));
        let bytes = bytes.ok_or_else(|| StoreError::file("read", self.0, io::ErrorKind::UnexpectedEof.into()))?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
    fn len(&self) -> u64 {
        self.1.len() as u64
    }
    fn will_need(&self, offset: u64, length: u64) {
        self.2.announced.lock().push((offset, length));
    }
}

struct Writer(FileId, Vec<u8>, Files);

impl Appender for Writer {
    fn append(&mut self, bytes: &[u8]) -> store::Result<()> {
        self.1.extend_from_slice(bytes);
        Ok(())
    }
    fn sync(&mut self) -> store::Result<()> {
        Ok(())
    }
    fn len(&self) -> u64 {
        self.1.len() as u64
    }
    fn seal(self: Box<Self>) -> store::Result<()> {
        self.2.lock().insert(self.0, Arc::new(self.1));
        Ok(())
    }
}

impl Store for Memory {
    fn create(&self, id: FileId, _hint: &Hint) -> store::Result<Box<dyn Appender>> {
        Ok(Box::new(Writer(id, Vec::new(), Arc::clone(&self.files))))
    }
    fn open(&self, id: FileId) -> store::Result<Arc<dyn ReadAt>> {
        let bytes = self.files.lock().get(&id).cloned();
        let bytes = bytes.ok_or_else(|| StoreError::file("open", id, io::ErrorKind::NotFound.into()))?;
        Ok(Arc::new(Reader(id, bytes, self.clone())))
    }
    fn delete(&self, id: FileId) -> store::Result<()> {
        self.files.lock().remove(&id);
        Ok(())
    }
    fn list(&self) -> store::Result<Vec<(FileId, u64)>> {
        Ok(self.files.lock().iter().map(|(id, bytes)| (*id, bytes.len() as u64)).collect())
    }
    fn sync_names(&self) -> store::Result<()> {
        Ok(())
    }
    fn free_bytes(&self) -> store::Result<Option<u64>> {
        Ok(None)
    }
    fn lock(&self) -> store::Result<Box<dyn StoreLock>> {
        Err(StoreError::store("lock", io::ErrorKind::Unsupported.into()))
    }
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

pub type Row = (Vec<u8>, u64, Vec<u8>);

pub fn options(block_size: u32) -> TableOptions {
    TableOptions { block_size, bloom_bits_per_key: 10.0, compression: Compression::default() }
}

/// Rows with random keys of one of several shapes, some with several versions.
pub fn random_rows(random: &mut Random, n: usize) -> Vec<Row> {
    let shape = random.below(7);
    let longest_value = [0, 10, 100, 1000, 5000][random.below(5) as usize];
    let versions = [1, 1, 3, 40][random.below(4) as usize];
    let mut keys: Vec<Vec<u8>> = (0..n)
        .map(|i| match shape {
            0 => (i as u64).to_be_bytes().to_vec(),
            1 => [&random.next().to_be_bytes()[..], b"00000000"].concat(),
            2 => format!("user:{:08}:field", random.below(n as u64 * 2)).into_bytes(),
            3 => vec![[0, 0xff][i % 2]; random.below(30) as usize],
            4 => (0..random.below(12)).map(|_| [0, 1, 0xff][random.below(3) as usize]).collect(),
            5 => [vec![b'x'; 300], random.next().to_le_bytes()[..random.below(9) as usize].to_vec()].concat(),
            _ => (0..random.below(60)).map(|_| random.next() as u8).collect(),
        })
        .collect();
    keys.sort();
    keys.dedup();
    let mut rows = Vec::new();
    for key in keys {
        let mut seqs: Vec<Seq> = (0..1 + random.below(versions)).map(|_| random.below(1 << 30)).collect();
        seqs.sort_by(|a, b| b.cmp(a));
        seqs.dedup();
        if random.below(3) == 0
            && let Some(last) = seqs.last_mut()
        {
            *last = 0;
        }
        for seq in seqs {
            let kind = [Kind::Value, Kind::Value, Kind::Value, Kind::Delete, Kind::Merge][random.below(5) as usize];
            let length = if kind == Kind::Delete { 0 } else { random.below(longest_value + 1) as usize };
            // Half noise, so that codecs have something to do.
            let mut value: Vec<u8> = (0..length).map(|i| if i < length / 2 { random.next() as u8 } else { b'z' }).collect();
            let timed = kind == Kind::Value && seq % 5 == 1;
            if timed {
                value.insert(0, (seq % 128) as u8);
            }
            rows.push((key.clone(), trailer(seq, if timed { Kind::TimedValue } else { kind }), value));
        }
    }
    rows
}

/// Writes rows as a table.
pub fn build(store: &Memory, number: u64, rows: &[Row], options: TableOptions, tombstones: &RangeTombstones) -> Result<TableInfo> {
    let id = FileId::table(number);
    let out = store.create(id, &Hint::new(store::Cause::Flush))?;
    let mut builder = TableBuilder::new(DB, id, out, options);
    for (key, trailer, value) in rows {
        builder.add(key, *trailer, value, trailer >> 8)?;
    }
    assert_eq!(builder.entries(), rows.len() as u64);
    let estimate = builder.estimated_bytes();
    let info = builder.finish(tombstones, (11, 22))?;
    let spread = 1000 + info.bytes / 2 + options.compression.dictionary_bytes as u64;
    if options.compression.codec == Default::default() && options.block_size >= 1000 {
        assert!(estimate.abs_diff(info.bytes) < spread, "estimated {estimate}, written {}", info.bytes);
    }
    Ok(info)
}

/// Builds and opens.
pub fn table(rows: &[Row], options: TableOptions, cache: &Arc<Cache>) -> Arc<Table> {
    let store = Memory::default();
    let info = build(&store, 3, rows, options, &RangeTombstones::default()).unwrap();
    Table::open(&store, DB, Arc::new(info), cache).unwrap()
}
