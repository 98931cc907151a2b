//! Runs one merge. STUB

use super::Plan;
use crate::cache::Cache;
use crate::checksum::DbId;
use crate::clock::Clock;
use crate::error::Result;
use crate::key::Seq;
use crate::manifest::TableInfo;
use crate::operator::{CompactionFilter, MergeOperator};
use crate::settings::FamilySettings;
use crate::table::Table;
use sinter_storage::store::Store;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Everything a job needs from its surroundings.
pub struct Context<'a> {
    /// Where tables live.
    pub store: &'a dyn Store,
    /// The database.
    pub db: DbId,
    /// The family's number.
    pub family: u32,
    /// The family's settings.
    pub settings: &'a FamilySettings,
    /// The cache that new tables will use.
    pub cache: &'a Arc<Cache>,
    /// An open table of the version.
    pub table: &'a (dyn Fn(u64) -> Result<Arc<Table>> + Sync),
    /// A fresh file number.
    pub new_number: &'a (dyn Fn() -> u64 + Sync),
    /// Live snapshots, ascending, the newest visible sequence number last.
    pub snapshots: &'a [Seq],
    /// The family's merge operator.
    pub merge: Option<&'a dyn MergeOperator>,
    /// The family's compaction filter.
    pub filter: Option<&'a dyn CompactionFilter>,
    /// Write past the page cache.
    pub direct: bool,
    /// Most key ranges worked on at once.
    pub max_subcompactions: usize,
    /// Set to stop the job early.
    pub cancel: &'a AtomicBool,
    /// For times in statistics.
    pub clock: &'a dyn Clock,
    /// Entries with an original sequence number at or below this are older than the family's time to live.
    pub expired_seq: Option<Seq>,
}

/// What a finished job did.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// New tables in key order; sealed, names not yet synced.
    pub outputs: Vec<TableInfo>,
    /// Entries read and dropped.
    pub entries_in: u64,
    /// Entries written.
    pub entries_out: u64,
    /// Bytes of input tables.
    pub bytes_in: u64,
    /// Bytes of output tables.
    pub bytes_out: u64,
    /// Nanoseconds.
    pub elapsed_ns: u64,
}

/// How a job ended. Only `Done` may be published.
#[derive(Debug)]
pub enum Outcome {
    /// All outputs are complete and durable.
    Done(Report),
    /// Stopped by `cancel`; outputs written so far are listed for deletion.
    Cancelled(Vec<u64>),
}

/// Merges the inputs of a plan. On an error the outputs written so far have been deleted where possible.
pub fn run(_plan: &Plan, _context: &Context<'_>) -> Result<Outcome> {
    unimplemented!()
}
