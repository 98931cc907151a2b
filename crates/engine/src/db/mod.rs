//! The database: open, write, read, flush, compact. STUB of the public interface.
#![allow(unused_variables, missing_docs, clippy::allow_attributes)]

use crate::clock::Clock;
use crate::error::Result;
use crate::ledger::LedgerSnapshot;
use crate::manifest::Version;
use crate::operator::{CompactionFilter, MergeOperator};
use crate::settings::{DbSettings, FamilySettings};
use sinter_storage::store::Store;
use std::path::Path;
use std::sync::Arc;

/// The name of the family that always exists.
pub const DEFAULT_FAMILY: &str = "default";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Acknowledged after fdatasync, shared by the group.
    Sync,
    /// In the kernel before the acknowledgement: survives the process, not the machine.
    #[default]
    Buffered,
    /// Not logged: survives only from the next flush on.
    NoWal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    pub durability: Durability,
}

/// A column family of an open database; cheap to clone.
#[derive(Clone)]
pub struct Family;
impl Family {
    pub fn name(&self) -> &str {
        unimplemented!()
    }
    pub fn id(&self) -> u32 {
        unimplemented!()
    }
}

/// Writes that happen together or not at all.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch;
impl WriteBatch {
    pub fn new() -> Self {
        unimplemented!()
    }
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        unimplemented!()
    }
    pub fn delete(&mut self, key: &[u8]) {
        unimplemented!()
    }
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) {
        unimplemented!()
    }
    pub fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        unimplemented!()
    }
    pub fn put_in(&mut self, family: &Family, key: &[u8], value: &[u8]) {
        unimplemented!()
    }
    pub fn delete_in(&mut self, family: &Family, key: &[u8]) {
        unimplemented!()
    }
    pub fn merge_in(&mut self, family: &Family, key: &[u8], operand: &[u8]) {
        unimplemented!()
    }
    pub fn delete_range_in(&mut self, family: &Family, from: &[u8], to: &[u8]) {
        unimplemented!()
    }
    pub fn clear(&mut self) {
        unimplemented!()
    }
    pub fn len(&self) -> usize {
        unimplemented!()
    }
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }
}

/// How to read.
#[derive(Clone)]
pub struct ReadOptions {
    pub snapshot: Option<Snapshot>,
    pub fill_cache: bool,
    pub readahead: usize,
    /// Iterators: first key included.
    pub lower: Option<Vec<u8>>,
    /// Iterators: first key excluded.
    pub upper: Option<Vec<u8>>,
    /// Iterators: only keys that start with it.
    pub prefix: Option<Vec<u8>>,
}
impl Default for ReadOptions {
    fn default() -> Self {
        unimplemented!()
    }
}

/// A moment to read at; released when dropped.
#[derive(Clone)]
pub struct Snapshot;

/// Walks keys. Also an `Iterator` of `Result<(Vec<u8>, Vec<u8>)>` going forward.
pub struct DbIterator;
impl DbIterator {
    pub fn seek_first(&mut self) -> Result<()> {
        unimplemented!()
    }
    pub fn seek_last(&mut self) -> Result<()> {
        unimplemented!()
    }
    /// First key `>= key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        unimplemented!()
    }
    /// Last key `<= key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        unimplemented!()
    }
    pub fn advance(&mut self) -> Result<()> {
        unimplemented!()
    }
    pub fn retreat(&mut self) -> Result<()> {
        unimplemented!()
    }
    pub fn valid(&self) -> bool {
        unimplemented!()
    }
    pub fn key(&self) -> &[u8] {
        unimplemented!()
    }
    pub fn value(&self) -> &[u8] {
        unimplemented!()
    }
}
impl Iterator for DbIterator {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    fn next(&mut self) -> Option<Self::Item> {
        unimplemented!()
    }
}

/// What recovery found.
#[derive(Debug, Clone, Default)]
pub struct RecoveryReport {
    pub logs_replayed: usize,
    pub records_replayed: u64,
    /// Unsynced bytes cut from the end of the log.
    pub cut_bytes: u64,
    pub cut_records: u64,
}

/// Opens a database.
pub struct Builder;
impl Builder {
    pub fn settings(self, settings: DbSettings) -> Self {
        unimplemented!()
    }
    /// Settings for a family; created if missing (see `create_missing_families`).
    pub fn family(self, name: &str, settings: FamilySettings) -> Self {
        unimplemented!()
    }
    pub fn merge_operator(self, family: &str, operator: Arc<dyn MergeOperator>) -> Self {
        unimplemented!()
    }
    pub fn compaction_filter(self, family: &str, filter: Arc<dyn CompactionFilter>) -> Self {
        unimplemented!()
    }
    pub fn read_only(self) -> Self {
        unimplemented!()
    }
    /// Default true.
    pub fn create_if_missing(self, yes: bool) -> Self {
        unimplemented!()
    }
    pub fn error_if_exists(self, yes: bool) -> Self {
        unimplemented!()
    }
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        unimplemented!()
    }
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        unimplemented!()
    }
    pub fn open_store(self, store: Arc<dyn Store>) -> Result<Db> {
        unimplemented!()
    }
}

/// Figures of one level of one family.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    pub ledger: LedgerSnapshot,
    /// (rocksdb name, value)
    pub tickers: Vec<(&'static str, u64)>,
    /// Writers were slowed or stopped for so long in all.
    pub stall_ns: u64,
    pub longest_stall_ns: u64,
    pub stalls: u64,
    /// Bytes of live tables, all families.
    pub live_table_bytes: u64,
    /// Bytes of all files in the store.
    pub store_bytes: u64,
    pub memtable_bytes: u64,
    pub cache_bytes: u64,
}

#[derive(Clone)]
pub struct Db;
impl Db {
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        unimplemented!()
    }
    pub fn builder() -> Builder {
        unimplemented!()
    }
    pub fn recovery(&self) -> RecoveryReport {
        unimplemented!()
    }
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        unimplemented!()
    }
    pub fn put_with(&self, family: &Family, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<()> {
        unimplemented!()
    }
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        unimplemented!()
    }
    pub fn delete_with(&self, family: &Family, key: &[u8], options: &WriteOptions) -> Result<()> {
        unimplemented!()
    }
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        unimplemented!()
    }
    pub fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        unimplemented!()
    }
    /// The batch is emptied on success, so that its memory can be used again.
    pub fn write(&self, batch: &mut WriteBatch, options: &WriteOptions) -> Result<()> {
        unimplemented!()
    }
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        unimplemented!()
    }
    /// Reuses `out`; true if the key exists.
    pub fn get_into(&self, family: &Family, key: &[u8], options: &ReadOptions, out: &mut Vec<u8>) -> Result<bool> {
        unimplemented!()
    }
    pub fn get_with(&self, family: &Family, key: &[u8], options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        unimplemented!()
    }
    pub fn multi_get(&self, family: &Family, keys: &[&[u8]], options: &ReadOptions) -> Result<Vec<Option<Vec<u8>>>> {
        unimplemented!()
    }
    pub fn iter(&self) -> DbIterator {
        unimplemented!()
    }
    pub fn iter_with(&self, family: &Family, options: ReadOptions) -> Result<DbIterator> {
        unimplemented!()
    }
    pub fn snapshot(&self) -> Snapshot {
        unimplemented!()
    }
    pub fn default_family(&self) -> Family {
        unimplemented!()
    }
    pub fn family(&self, name: &str) -> Option<Family> {
        unimplemented!()
    }
    pub fn families(&self) -> Vec<Family> {
        unimplemented!()
    }
    pub fn create_family(&self, name: &str, settings: FamilySettings) -> Result<Family> {
        unimplemented!()
    }
    pub fn drop_family(&self, family: &Family) -> Result<()> {
        unimplemented!()
    }
    pub fn family_settings(&self, family: &Family) -> Result<FamilySettings> {
        unimplemented!()
    }
    pub fn change_family_settings(&self, family: &Family, settings: FamilySettings) -> Result<()> {
        unimplemented!()
    }
    /// Returns when everything written before the call is in tables.
    pub fn flush(&self) -> Result<()> {
        unimplemented!()
    }
    pub fn compact_range(&self, family: &Family, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        unimplemented!()
    }
    /// Returns when no flush or compaction runs or is needed.
    pub fn wait_for_compactions(&self) -> Result<()> {
        unimplemented!()
    }
    /// Syncs the log: everything acknowledged so far is durable.
    pub fn sync(&self) -> Result<()> {
        unimplemented!()
    }
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        unimplemented!()
    }
    /// RocksDB's names, such as `rocksdb.estimate-num-keys`.
    pub fn property(&self, family: &Family, name: &str) -> Option<String> {
        unimplemented!()
    }
    pub fn version(&self, family: &Family) -> Result<Arc<Version>> {
        unimplemented!()
    }
    pub fn stats(&self) -> Stats {
        unimplemented!()
    }
    /// Reads and verifies everything; one entry per damage found.
    pub fn verify(&self) -> Result<Vec<String>> {
        unimplemented!()
    }
    /// Flushes nothing, syncs the log, stops the threads; a failed background job is reported here.
    pub fn close(self) -> Result<()> {
        unimplemented!()
    }
}
