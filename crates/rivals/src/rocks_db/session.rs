//! Operations of one thread on RocksDB.

use rocksdb::{ColumnFamily, DB, DBRawIterator, ReadOptions, WriteBatch, WriteOptions};
use sinter_lab::system::{Outcome, Scan, Session};

/// A thread's handle to RocksDB.
pub struct RocksSession<'a> {
    db: &'a DB,
    families: Vec<&'a ColumnFamily>,
    family: &'a ColumnFamily,
    write: WriteOptions,
    read: ReadOptions,
    batch: WriteBatch,
}

impl<'a> RocksSession<'a> {
    /// A session over families, the first of which it begins with. A write that has to be durable goes to the log in any case.
    pub(super) fn new(db: &'a DB, families: Vec<&'a ColumnFamily>, sync: bool, disable_wal: bool) -> Self {
        let mut write = WriteOptions::default();
        write.set_sync(sync);
        write.disable_wal(disable_wal && !sync);
        let family = families[0];
        RocksSession { db, families, family, write, read: ReadOptions::default(), batch: WriteBatch::default() }
    }
}

impl Session for RocksSession<'_> {
    type Scan<'a>
        = RocksScan<'a>
    where
        Self: 'a;

    #[inline]
    fn choose(&mut self, family: usize) {
        self.family = self.families[family];
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        Ok(self.db.put_cf_opt(self.family, key, value, &self.write)?)
    }

    #[inline]
    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        Ok(self.db.delete_cf_opt(self.family, key, &self.write)?)
    }

    #[inline]
    fn stage_put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put_cf(self.family, key, value);
    }

    #[inline]
    fn stage_delete(&mut self, key: &[u8]) {
        self.batch.delete_cf(self.family, key);
    }

    #[inline]
    fn commit(&mut self) -> Outcome<()> {
        Ok(self.db.write_opt(std::mem::take(&mut self.batch), &self.write)?)
    }

    #[inline]
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Outcome<bool> {
        let value = self.db.get_pinned_cf_opt(self.family, key, &self.read)?;
        if let Some(value) = &value {
            out.clear();
            out.extend_from_slice(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&mut self, keys: &[&[u8]], mut found: impl FnMut(&[u8])) -> Outcome<()> {
        for value in self.db.batched_multi_get_cf_opt(self.family, keys.iter().copied(), false, &self.read) {
            if let Some(value) = value? {
                found(&value);
            }
        }
        Ok(())
    }

    fn scan(&mut self) -> Outcome<RocksScan<'_>> {
        Ok(RocksScan(self.db.raw_iterator_cf(self.family)))
    }
}

/// A position in a family.
pub struct RocksScan<'a>(DBRawIterator<'a>);

impl RocksScan<'_> {
    /// An iterator that is not valid has ended or failed.
    #[inline]
    fn check(&self) -> Outcome<()> {
        if self.0.valid() { Ok(()) } else { Ok(self.0.status()?) }
    }
}

impl Scan for RocksScan<'_> {
    fn seek_first(&mut self) -> Outcome<()> {
        self.0.seek_to_first();
        self.check()
    }

    fn seek_last(&mut self) -> Outcome<()> {
        self.0.seek_to_last();
        self.check()
    }

    #[inline]
    fn seek(&mut self, key: &[u8]) -> Outcome<()> {
        self.0.seek(key);
        self.check()
    }

    #[inline]
    fn advance(&mut self) -> Outcome<()> {
        self.0.next();
        self.check()
    }

    #[inline]
    fn retreat(&mut self) -> Outcome<()> {
        self.0.prev();
        self.check()
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.0.item()
    }
}
