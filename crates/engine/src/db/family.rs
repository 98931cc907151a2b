//! Column families: separate key spaces with their own settings over one shared log.

use super::view::View;
use crate::compaction::auto_codecs::Auto;
use crate::key::Seq;
use crate::ledger::FamilyCounters;
use crate::operator::{CompactionFilter, MergeOperator};
use crate::settings::FamilySettings;
use crate::tiering::age::Cut;
use crate::tiering::auto_cutoff;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A family while the database is open.
pub(crate) struct FamilyCore {
    pub id: u32,
    pub name: String,
    /// Open database to which the family belongs: [`super::Inner::handle`].
    pub handle: u64,
    pub settings: ArcSwap<FamilySettings>,
    /// Chooses the codecs, if the settings leave it to that.
    pub auto: Arc<Auto>,
    /// Chooses which data merges keep from the last level, if the settings leave it to that.
    pub placement: Arc<auto_cutoff::Auto>,
    pub merge: Option<Arc<dyn MergeOperator>>,
    pub filter: Option<Arc<dyn CompactionFilter>>,
    pub view: ArcSwap<View>,
    pub counters: Arc<FamilyCounters>,
    pub dropped: AtomicBool,
    /// The newest number of the family's entries, as far as its tables and the writes of this handle tell. Ages are counted from it: writes
    /// of other families meanwhile make nothing here older.
    pub newest: AtomicU64,
    /// Time when a memtable of the family was full last, by the monotonic clock, nanoseconds; 0: never.
    pub filled_ns: AtomicU64,
    /// Writes are refused: too much has piled up above a damaged table.
    pub stuck: AtomicBool,
    pub outlived: Outlived,
}

/// The entries that have outlived a family's time to live, as of the last look at the clock.
#[derive(Debug, Default)]
pub(crate) struct Outlived {
    /// The family has a time to live.
    is_on: AtomicBool,
    /// A [`Cut`]. Readers may meet halves of two: either only grows while the settings stay.
    seq: AtomicU64,
    time: AtomicU64,
}

impl Outlived {
    /// `None`: the family has no time to live.
    pub fn set(&self, cut: Option<Cut>) {
        let Cut { seq, time } = cut.unwrap_or(Cut::NONE);
        self.seq.store(seq, Ordering::Relaxed);
        self.time.store(time, Ordering::Relaxed);
        self.is_on.store(cut.is_some(), Ordering::Release);
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    pub fn cut(&self) -> Cut {
        Cut { seq: self.seq.load(Ordering::Relaxed), time: self.time.load(Ordering::Relaxed) }
    }
}

impl FamilyCore {
    /// The newest number of the family's entries; 0: none is known.
    pub fn newest(&self) -> Seq {
        self.newest.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for FamilyCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "family {} ({})", self.name, self.id)
    }
}

/// A column family of an open database; cheap to clone.
#[derive(Debug, Clone)]
pub struct Family {
    pub(crate) core: Arc<FamilyCore>,
}

impl Family {
    /// The family's name, unique among living families.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The family's number, never used again after the family was dropped.
    pub fn id(&self) -> u32 {
        self.core.id
    }
}
