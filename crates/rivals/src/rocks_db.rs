//! RocksDB as a system, by the crate `rocksdb`. The account of bytes is RocksDB's own:
//!
//! * `wal`: `rocksdb.wal.bytes`, the payload of log records. Their frames (7 bytes each, more where a record is cut at a block of 32 KiB)
//!   are not in it.
//! * `flush`: `rocksdb.flush.write.bytes`, and `compaction`: `rocksdb.compact.write.bytes`, what their threads handed to write calls. Blob
//!   files are written by the same threads and are in these two; `rocksdb.blobdb.blob.file.bytes.written` would count them again, as the
//!   "cumulative compaction" of RocksDB's log would count flushes again. By output level, as the log tells.

mod events;
pub(crate) mod options;
mod session;

pub use session::RocksSession;

use crate::asked::{Asked, of_sinter_alone};
use crate::locked_version;
use events::Events;
use rocksdb::statistics::Ticker;
use rocksdb::{
    BottommostLevelCompaction, Cache, ColumnFamily, ColumnFamilyDescriptor, CompactOptions, DB, InfoLogger, LogLevel, Options,
    WaitForCompactOptions, WriteBufferManager,
};
use sinter_lab::drive::{Engine, Opened};
use sinter_lab::run::{EngineSpec, Source};
use sinter_lab::system::{Counters, FLUSHES, Figures, INDEX_BYTES, LevelFigures, Outcome, System};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// RocksDB.
#[derive(Debug, Clone, Copy)]
pub struct Rocks;

impl Engine for Rocks {
    type System = RocksSystem;

    fn open(&self, spec: &EngineSpec, directory: &Path) -> Outcome<Opened<RocksSystem>> {
        let asked = Asked::read(spec)?;
        // RocksDB recommends the clock cache over its default, the LRU cache (include/rocksdb/cache.h); 0: its table grows as needed.
        // A budget of memory is one cache that memtables are charged to.
        let budget = asked.database.memory_budget;
        let size = if budget > 0 { budget } else { asked.database.cache_size };
        let cache = usize::try_from(size).ok().filter(|size| *size > 0);
        let cache = cache.map(|size| Cache::new_hyper_clock_cache(size, 0));
        let mut chosen = options::choose(&asked, cache.as_ref())?;
        if let Some(cache) = cache.as_ref().filter(|_| budget > 0) {
            let memtables = usize::try_from(asked.database.db_write_buffer_size.min(budget))?;
            let manager = WriteBufferManager::new_write_buffer_manager_with_cache(memtables, false, cache.clone());
            chosen.database.set_write_buffer_manager(&manager);
        }
        let events = Arc::new(Events::default());
        let listener = Arc::clone(&events);
        chosen.database.set_info_logger(InfoLogger::new_callback_logger(LogLevel::Info, move |_, line| listener.listen(line)));
        let families: Vec<String> = chosen.families.iter().map(|(name, _)| name.clone()).collect();
        let descriptors = chosen.families.into_iter().map(|(name, options)| ColumnFamilyDescriptor::new(name, options));
        let db = DB::open_cf_descriptors(&chosen.database, directory, descriptors)?;
        let kept = options::kept(directory)?;
        let strayed = asked.stated.iter().filter(|stated| !stated.understood && !kept.has(stated));
        chosen.ignored.extend(of_sinter_alone(spec));
        chosen.ignored.extend(strayed.map(|stated| format!("{stated}: RocksDB keeps no such option in this section")));
        let (_, version) = locked_version("librocksdb-sys").split_once('+').unwrap_or_default();
        let compression = families.iter().map(|name| (name.clone(), kept.compression(name))).collect();
        Ok(Opened {
            compression,
            system: RocksSystem { db, options: chosen.database, families, cache, events, disable_wal: !spec.wal },
            version: format!("rocksdb {version}"),
            ignored_settings: chosen.ignored,
            source: Source::Engine,
        })
    }
}

/// An open RocksDB. Fields are dropped in order: the database goes first.
pub struct RocksSystem {
    db: DB,
    /// Holds the statistics.
    options: Options,
    families: Vec<String>,
    cache: Option<Cache>,
    events: Arc<Events>,
    disable_wal: bool,
}

impl RocksSystem {
    fn handles(&self) -> Vec<&ColumnFamily> {
        self.families.iter().filter_map(|name| self.db.cf_handle(name)).collect()
    }

    /// The sum of a property over all families.
    fn sum(&self, property: &str) -> Outcome<u64> {
        let each = self.handles().into_iter().map(|family| self.db.property_int_value_cf(family, property));
        Ok(each.map(|value| value.map(Option::unwrap_or_default)).sum::<Result<u64, _>>()?)
    }

    /// Failures of background work, which calls that wait for it do not all report.
    fn check_background(&self) -> Outcome<()> {
        match self.sum("rocksdb.background-errors")? {
            0 => Ok(()),
            errors => Err(format!("RocksDB counts {errors} background errors").into()),
        }
    }

    /// How often writers were slowed or stopped, as RocksDB counts: each time that it looked and found a reason.
    fn stalls(&self) -> Outcome<u64> {
        let mut stalls = 0;
        for family in self.handles() {
            let text = self.db.property_value_cf(family, "rocksdb.cf-write-stall-stats")?.unwrap_or_default();
            stalls += ["total-delays", "total-stops"].iter().map(|name| number_behind(&text, name)).sum::<u64>();
        }
        Ok(stalls)
    }
}

/// The number in `name: number`; 0 if it is not there.
fn number_behind(text: &str, name: &str) -> u64 {
    let behind = text.split_once(name).map_or("", |(_, rest)| rest).trim_start_matches([':', ' ']);
    behind.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Bytes of indexes in RocksDB's text of table properties: `index block size (user-key? 1, delta-value? 1)=117; `
/// (table/table_properties.cc). 0 if it is not there.
fn index_bytes_in(text: &str) -> u64 {
    let behind = text.split_once("index block size").and_then(|(_, rest)| rest.split_once('=')).map_or("", |(_, rest)| rest);
    behind.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

impl System for RocksSystem {
    type Session<'a> = RocksSession<'a>;

    fn session(&self, sync: bool) -> RocksSession<'_> {
        RocksSession::new(&self.db, self.handles(), sync, self.disable_wal)
    }

    fn flush(&self) -> Outcome<()> {
        Ok(self.handles().into_iter().try_for_each(|family| self.db.flush_cf(family))?)
    }

    /// The last level too, which RocksDB leaves alone unless it is told: the others rewrite all there is.
    fn compact(&self) -> Outcome<()> {
        let mut everything = CompactOptions::default();
        everything.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
        let (start, end) = (None::<&[u8]>, None::<&[u8]>);
        self.handles().into_iter().for_each(|family| self.db.compact_range_cf_opt(family, start, end, &everything));
        self.check_background()
    }

    fn wait_for_compactions(&self) -> Outcome<()> {
        self.db.wait_for_compact(&WaitForCompactOptions::default())?;
        self.check_background()
    }

    fn change(&self, settings: &BTreeMap<String, String>) -> Outcome<()> {
        let family = self.db.cf_handle(&self.families[0]).ok_or("the first family is gone")?;
        let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Ok(self.db.set_options_cf(family, &settings)?)
    }

    /// The driver knows the bytes of its clients and of the directory. (`rocksdb.bytes.written` would not do for the former: it has the
    /// headers of batches in it, 15 bytes for a small entry.) RocksDB keeps no longest stall.
    fn figures(&self) -> Outcome<Figures> {
        let ticker = |ticker| self.options.get_ticker_count(ticker);
        let written = [("wal", Ticker::WalFileBytes), ("flush", Ticker::FlushWriteBytes)];
        let written = written.into_iter().map(|(cause, which)| (cause.to_string(), ticker(which)));
        Ok(Figures {
            written: written.chain(self.events.causes(|| ticker(Ticker::CompactWriteBytes))).collect(),
            stall_ns: ticker(Ticker::StallMicros).saturating_mul(1000),
            stalls: self.stalls()?,
            live_table_bytes: self.sum("rocksdb.live-sst-files-size")? + self.sum("rocksdb.live-blob-file-size")?,
            memtable_bytes: self.sum("rocksdb.size-all-mem-tables")?,
            cache_bytes: self.cache.as_ref().map_or(0, |cache| cache.get_usage() as u64),
            ..Figures::default()
        })
    }

    /// Every file of level 0 is a run, and so is every other level.
    fn levels(&self, family: usize) -> Outcome<Vec<LevelFigures>> {
        let mut levels: Vec<LevelFigures> = Vec::new();
        for file in self.db.live_files()?.iter().filter(|file| file.column_family_name == self.families[family]) {
            let index = usize::try_from(file.level)?;
            levels.resize(levels.len().max(index + 1), LevelFigures::default());
            let level = &mut levels[index];
            level.files += 1;
            level.bytes += file.size as u64;
            level.runs = if index == 0 { level.files } else { 1 };
        }
        Ok(levels)
    }

    /// RocksDB's tickers that are not 0, and what its event log says of compactions by level.
    fn counters(&self) -> Outcome<Counters> {
        let tickers = Ticker::iter().map(|ticker| (ticker.name().to_string(), self.options.get_ticker_count(*ticker)));
        let index_bytes = self.handles().into_iter().map(|family| self.db.property_value_cf(family, "rocksdb.aggregated-table-properties"));
        let index_bytes: Vec<String> = index_bytes.map(|text| Ok(text?.unwrap_or_default())).collect::<Outcome<_>>()?;
        let index_bytes = index_bytes.iter().map(|text| index_bytes_in(text)).sum();
        let own = [(FLUSHES.to_string(), self.events.flushes()), (INDEX_BYTES.to_string(), index_bytes)];
        let tickers = tickers.filter(|(_, count)| *count > 0).chain(self.events.compacted()).chain(own);
        Ok(Counters { tickers: tickers.collect(), ..Counters::default() })
    }

    fn close(self) -> Outcome<()> {
        let outcome = self.check_background();
        self.db.cancel_all_background_work(true);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::{index_bytes_in, number_behind};

    #[test]
    fn numbers_are_found_in_text() {
        let text = "Write Stall (count): memtable-limit-stops: 7, total-delays: 12, total-stops: 3, interval: 0 total count\n";
        let properties = "# data blocks=3; data block size=9; index block size (user-key? 1, delta-value? 1)=117; filter block size=8; ";
        assert_eq!((index_bytes_in(properties), index_bytes_in("")), (117, 0));
        assert_eq!((number_behind(text, "total-delays"), number_behind(text, "total-stops"), number_behind(text, "absent")), (12, 3, 0));
    }
}
