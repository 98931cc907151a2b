//! Tells each family's choice of codecs the contents and reads of its levels: once a second, and before each job.

use super::family::FamilyCore;
use super::view::OpenTree;
use super::{Db, Family, Inner};
use crate::compaction::auto_codecs::{Holding, Observed, Totals};
use crate::settings::Codecs;
use std::cell::OnceCell;
use std::sync::Arc;

/// Bytes of a data block before compression, the mean of a tree's: values that are larger than blocks are to be make larger ones.
fn mean_block(tree: &OpenTree) -> u32 {
    let sum = |(bytes, count): (u64, u64), blocks: (u64, u64)| (bytes.saturating_add(blocks.0), count.saturating_add(blocks.1));
    let (bytes, count) = tree.tables().map(|table| table.blocks()).fold((0, 0), sum);
    bytes.checked_div(count).map_or(0, |mean| u32::try_from(mean).unwrap_or(u32::MAX))
}

impl Inner {
    /// Reviews the codecs of all families, once a second.
    pub(super) fn review_all_codecs(&self) {
        let families: Vec<Arc<FamilyCore>> = self.shared.lock().families.values().cloned().collect();
        // Summed up once for all families: it takes a look at every table.
        let all = OnceCell::new();
        families.iter().for_each(|core| self.review_codecs_among(core, &all));
    }

    /// Starts the choice when codecs chosen by hand are left to the engine. Reads were counted all the while, but not writes, nor the
    /// time that they took: together the counts would say nothing.
    pub(super) fn begin_codecs(&self, core: &FamilyCore) {
        for table in core.view.load().tree.tables() {
            table.take_misses();
        }
        core.auto.begin(self.clock.monotonic_ns());
    }

    /// Reviews the codecs of a family before a job, so that it works with what is known by then.
    pub(super) fn review_codecs(&self, core: &FamilyCore) {
        self.review_codecs_among(core, &OnceCell::new());
    }

    /// `all`: bytes of the tables of all families, once they are known.
    fn review_codecs_among(&self, core: &FamilyCore, all: &OnceCell<u64>) {
        let settings = core.settings.load();
        if settings.compression != Codecs::Auto {
            return;
        }
        let tree = core.view.load().tree.clone();
        let tables = |runs: &Vec<Arc<super::view::OpenRun>>| {
            runs.iter().flat_map(|run| &run.tables).fold(Holding::default(), |sum, table| Holding {
                raw_bytes: sum.raw_bytes.saturating_add(table.info().raw_bytes),
                misses: sum.misses + table.take_misses(),
            })
        };
        let table_bytes = tree.bytes();
        core.auto.review(&Observed {
            now_ns: self.clock.monotonic_ns(),
            unix_seconds: self.clock.unix_seconds(),
            idle: self.cpu.idle(),
            cpus: self.cpu.cpus(),
            table_bytes,
            for_files: self.for_files(table_bytes, *all.get_or_init(|| self.live_table_bytes())),
            block_size: mean_block(&tree).max(settings.block_size),
            levels: tree.levels.iter().map(tables).collect(),
        });
    }

    /// Bytes of a family's files that the kernel can keep, if it has `own` of `all` bytes of tables: families share the page cache.
    fn for_files(&self, own: u64, all: u64) -> Option<u64> {
        let (all, own) = (u128::from(all.max(own)), u128::from(own));
        let share = |bytes: u64| (u128::from(bytes) * own).checked_div(all).map_or(bytes, |share| share as u64);
        self.memory.for_files().map(share)
    }

    /// Cost and effect of choosing codecs, all families, under names of this engine.
    pub(super) fn codec_tickers(&self) -> [(&'static str, u64); 3] {
        let shared = self.shared.lock();
        let sum = shared.families.values().map(|core| core.auto.totals()).fold(Totals::default(), |a, b| Totals {
            samples: a.samples + b.samples,
            sample_ns: a.sample_ns + b.sample_ns,
            changes: a.changes + b.changes,
        });
        [
            ("sinterdb.compression.samples", sum.samples),
            ("sinterdb.compression.sample.micros", sum.sample_ns / 1000),
            ("sinterdb.compression.changes", sum.changes),
        ]
    }
}

impl Db {
    /// Compression of a family's blocks: the settings, or the engine's choice for each level and its reasons.
    pub(super) fn compression_lines(&self, family: &Family) -> String {
        let settings = family.core.settings.load();
        match settings.compression {
            Codecs::Auto => family.core.auto.report(),
            Codecs::Fixed(_) => crate::settings::format_compression(&settings.compression) + "\n",
        }
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
