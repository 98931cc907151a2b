//! Which tables to merge next. Pickers are pure functions from a version to a choice: they see descriptions, never files.

pub mod collapse;
pub mod job;
pub mod output;
pub mod split;

use crate::key::Seq;
use crate::manifest::{KeyRange, TableInfo, Version};
use crate::settings::FamilySettings;
use sinter_storage::store::Reason;
use std::collections::HashSet;
use std::sync::Arc;

/// What a picker may know besides the version.
#[derive(Debug)]
pub struct PickEnv<'a> {
    /// The family's settings.
    pub settings: &'a FamilySettings,
    /// Numbers of tables that a running job reads.
    pub busy: &'a HashSet<u64>,
    /// Level and key range that running jobs write.
    pub busy_output: &'a [(usize, KeyRange)],
    /// Unix seconds.
    pub now: u64,
    /// No snapshot needs anything older than the newest version at this number.
    pub oldest_snapshot: Seq,
}

/// Tables of one run that take part in a compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Their level.
    pub level: usize,
    /// Their run.
    pub run: u64,
    /// In key order.
    pub tables: Vec<Arc<TableInfo>>,
}

/// A merge to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Why.
    pub reason: Reason,
    /// Newest first.
    pub inputs: Vec<Input>,
    /// Where the result goes.
    pub output_level: usize,
    /// The run of the result on that level.
    pub output_run: u64,
    /// Nothing older than the inputs exists in their key range: tombstones may go and sequence numbers may become zero.
    pub bottommost: bool,
    /// Tables one level below the output, in key order: the output is cut where it would overlap too many bytes of them.
    pub grandparents: Vec<Arc<TableInfo>>,
    /// Size at which an output table ends, bytes.
    pub target_file_size: u64,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Nothing needs doing, or all that does is busy.
    Nothing,
    /// The tables change level as they are; nothing is written but the manifest.
    Move(Plan),
    /// Merge.
    Merge(Plan),
    /// The tables hold nothing that is still alive; `output_*` are meaningless.
    Drop(Plan),
}

/// A tree shape.
pub trait Picker: Send + Sync {
    /// The most urgent job that does not collide with running ones.
    fn pick(&self, version: &Version, env: &PickEnv<'_>) -> Choice;
    /// Bytes that have to be rewritten before nothing is left to do, estimated: paces writers.
    fn debt(&self, version: &Version, settings: &FamilySettings) -> u64;
}
