//! Reading: memtables newest first, then runs by level. No lock on the way: one load of the family's view.

use super::family::{Family, FamilyCore};
use super::snapshot::Snapshot;
use super::view::View;
use super::{Db, Inner};
use crate::error::{Error, Result};
use crate::key::{self, Seq};
use crate::ledger::Ticker;
use crate::table::{self, Table};
use crate::tiering::age::Expiry;
use crate::tiering::auto_cutoff::heat;
use crate::visible::Resolver;
use std::sync::Arc;

/// Keys whose cache misses `multi_get` overlaps.
const BATCH: usize = 16;

/// Options of a read. Checksums are always verified when bytes come from the medium.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Read at this moment; `None`: now.
    pub snapshot: Option<Snapshot>,
    /// Keep blocks that had to be read in the cache. Off for scans that would push out everything else.
    pub fill_cache: bool,
    /// Iterators: fetch so many bytes with one read on sequential access; 0: block by block, and once an iterator has gone through three
    /// blocks in order the medium is asked ahead of it, 8 KiB at first and 256 KiB at most.
    pub readahead: usize,
    /// Iterators: first key included.
    pub lower: Option<Vec<u8>>,
    /// Iterators: first key excluded.
    pub upper: Option<Vec<u8>>,
    /// Iterators: only keys that start with it.
    pub prefix: Option<Vec<u8>>,
    /// Iterators: dead keys that going forward may pass over, in all. At the next one it stops and stands nowhere;
    /// [`DbIterator::stopped_at`](super::DbIterator::stopped_at) tells that from the end.
    pub patience: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { snapshot: None, fill_cache: true, readahead: 0, lower: None, upper: None, prefix: None, patience: usize::MAX }
    }
}

impl ReadOptions {
    pub(crate) fn table(&self) -> table::ReadOptions {
        table::ReadOptions { fill_cache: self.fill_cache, readahead: self.readahead }
    }
}

/// The versions that a reader sees.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Versions up to this number.
    pub seq: Seq,
    /// Cut by which expired entries are left out.
    pub expiry: Option<Expiry>,
}

impl Inner {
    /// The moment to read at. The view must have been loaded before: a compaction that finished later may have dropped versions that only
    /// older numbers see.
    #[inline]
    pub(super) fn moment(&self, core: &FamilyCore, view: &View, options: &ReadOptions) -> Result<Moment> {
        let seq = match &options.snapshot {
            None => self.visible(),
            Some(snapshot) if snapshot.belongs_to(&self.snapshots) => snapshot.seq(),
            Some(_) => return Err(Error::invalid("the snapshot was taken from another database")),
        };
        Ok(Moment { seq, expiry: self.expiry(core, view, options.snapshot.as_ref()) })
    }

    fn get_at(
        &self,
        core: &FamilyCore,
        view: &View,
        user_key: &[u8],
        at: (Moment, u64),
        options: &ReadOptions,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let (Moment { seq, expiry }, hash) = at;
        let mut resolver = Resolver::new(user_key, seq, core.merge.as_deref(), out).with_expiry(expiry);
        for mem in view.mems() {
            if mem.has_tombstones()
                && let Some(covering) = mem.covering(user_key, seq)
            {
                resolver.covered(covering);
            }
            mem.points.get(user_key, seq, |s, kind, value| resolver.version(s, kind, value));
            if resolver.done() {
                self.statistics.add(Ticker::MemtableHit, 1);
                return resolver.finish();
            }
        }
        self.statistics.add(Ticker::MemtableMiss, 1);
        let prefix = key::prefix(user_key);
        let table_options = options.table();
        for (level, runs) in view.tree.levels.iter().enumerate() {
            for run in runs {
                let Some(table) = run.table_for(user_key, prefix) else { continue };
                if table.info().range_tombstones != 0
                    && let Some(covering) = table.range_tombstones()?.covering(user_key, seq)
                {
                    resolver.covered(covering);
                }
                let mut answered = 0;
                table.get(user_key, hash, seq, table_options, |s, kind, value| {
                    answered = s;
                    resolver.version(s, kind, value)
                })?;
                if resolver.done() {
                    let nth = self.statistics.count([Ticker::L0Hit, Ticker::L1Hit, Ticker::L2AndUpHit][level.min(2)]);
                    if level + 1 == view.tree.levels.len() {
                        self.statistics.add(Ticker::LastLevelHit, 1);
                    }
                    if heat::is_sampled(nth) {
                        core.placement.heat().read(answered, core.newest());
                        self.media.answered(table.info().number);
                    }
                    return resolver.finish();
                }
            }
        }
        resolver.finish()
    }
}

impl View {
    /// Prefetches the first cache lines for gets of a few keys, and blocks that are not in memory if reads wait for the medium often, so
    /// that their misses overlap. Does not wait for them. Returns the hashes of the keys, `BATCH` at most.
    fn expect(&self, keys: &[&[u8]]) -> [u64; BATCH] {
        let mut hashes = [0u64; BATCH];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = Table::hash(key);
            self.mems().for_each(|mem| mem.points.expect(key));
            self.tables_for(key).for_each(|table| table.prefetch(*hash));
        }
        for (hash, key) in hashes.iter().zip(keys) {
            self.mems().for_each(|mem| mem.points.expect_entry(key));
            // Most keys are in one table, and filters say in which.
            let _ = self.tables_for(key).find(|table| table.prefetch_block(key, *hash));
        }
        hashes
    }

    /// Tables that may have a key, newest first.
    fn tables_for(&self, key: &[u8]) -> impl Iterator<Item = &Arc<Table>> {
        let prefix = key::prefix(key);
        self.tree.levels.iter().flatten().filter_map(move |run| run.table_for(key, prefix))
    }
}

impl Db {
    /// The value of a key of the default family.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(&self.inner.default_family, key, &ReadOptions::default())
    }

    /// The value of a key.
    pub fn get_with(&self, family: &Family, key: &[u8], options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        Ok(self.get_into(family, key, options, &mut out)?.then_some(out))
    }

    /// The value of a key into `out`, whose memory is used again; false (and `out` empty) if the key does not exist.
    pub fn get_into(&self, family: &Family, key: &[u8], options: &ReadOptions, out: &mut Vec<u8>) -> Result<bool> {
        self.inner.check_family(family)?;
        let view = family.core.view.load();
        let moment = self.inner.moment(&family.core, &view, options)?;
        let found = self.inner.get_at(&family.core, &view, key, (moment, Table::hash(key)), options, out)?;
        let statistics = &self.inner.statistics;
        statistics.add(Ticker::NumberKeysRead, 1);
        if found {
            statistics.add(Ticker::BytesRead, out.len() as u64);
        } else {
            out.clear();
        }
        Ok(found)
    }

    /// Hints that these keys will be read next, one by one: their data is prefetched into the processor's caches or, where it is not in
    /// memory and reads wait often, from the medium, so that their misses overlap. Does not wait for that.
    pub fn expect(&self, family: &Family, keys: &[&[u8]]) {
        if self.inner.check_family(family).is_ok() {
            let view = family.core.view.load();
            for chunk in keys.chunks(BATCH) {
                let _ = view.expect(chunk);
            }
        }
    }

    /// The values of many keys at one moment, in their order. Cheaper than single gets: their cache misses overlap, and so do their reads
    /// of the medium.
    pub fn multi_get(&self, family: &Family, keys: &[&[u8]], options: &ReadOptions) -> Result<Vec<Option<Vec<u8>>>> {
        self.inner.check_family(family)?;
        let view = family.core.view.load();
        let moment = self.inner.moment(&family.core, &view, options)?;
        let mut values = Vec::with_capacity(keys.len());
        let (mut bytes, mut count) = (0, 0);
        for chunk in keys.chunks(BATCH) {
            let hashes = view.expect(chunk);
            for (key, hash) in chunk.iter().zip(hashes) {
                let mut out = Vec::new();
                let found = self.inner.get_at(&family.core, &view, key, (moment, hash), options, &mut out)?;
                bytes += out.len() as u64;
                count += u64::from(found);
                values.push(found.then_some(out));
            }
        }
        let statistics = &self.inner.statistics;
        statistics.add(Ticker::NumberMultigetGet, 1);
        statistics.add(Ticker::NumberMultigetKeysRead, keys.len() as u64);
        statistics.add(Ticker::NumberMultigetKeysFound, count);
        statistics.add(Ticker::NumberMultigetBytesRead, bytes);
        Ok(values)
    }
}
