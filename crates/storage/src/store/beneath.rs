//! Figures of a store's medium below the files: bytes written to a drive in addition to those of files, by cause.

use super::hint::Lifetime;

/// Counts by expected lifetime.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByLifetime([u64; Lifetime::ALL.len()]);

impl ByLifetime {
    /// Adds to the count of a lifetime.
    pub fn add(&mut self, lifetime: Lifetime, count: u64) {
        self.0[lifetime as usize] += count;
    }

    /// The count of a lifetime.
    pub fn of(&self, lifetime: Lifetime) -> u64 {
        self.0[lifetime as usize]
    }

    /// Sum of all counts.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The counts with their lifetimes.
    pub fn lines(&self) -> impl Iterator<Item = (Lifetime, u64)> {
        Lifetime::ALL.into_iter().zip(self.0)
    }

    /// The increase since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &ByLifetime) -> ByLifetime {
        let mut counts = *self;
        counts.0.iter_mut().zip(earlier.0).for_each(|(now, before)| *now = now.saturating_sub(before));
        counts
    }
}

/// Figures of a store on zones since it was opened. Lengths are bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Beneath {
    /// Bytes of files written; without bytes held back in memory, and without files deleted before they were written.
    pub files: u64,
    /// Heads of the frames of logs and manifests.
    pub framing: u64,
    /// Unused ends of blocks.
    pub padding: u64,
    /// Bytes that the collector wrote again, in whole blocks.
    pub moved: u64,
    /// Metadata of the store, in whole blocks.
    pub metadata: u64,
    /// Bytes with which the drive filled zones that were finished early.
    pub finishing: u64,
    /// Number of zones finished early.
    pub finishes: u64,
    /// Zones that were emptied, zones of the metadata included.
    pub resets: u64,
    /// Resets of zones of the metadata.
    pub metadata_resets: u64,
    /// Resets of zones for files, by the lifetime of the zone: that of the first file written into it while nothing in it lived.
    pub resets_by_lifetime: ByLifetime,
    /// Resets of zones into which a log was written since the zone's last reset; logs of an earlier opening count while they live.
    pub log_resets: u64,
    /// Unwritten capacity of zones for files when they were emptied.
    pub reset_unwritten: u64,
    /// Zones that the collector emptied by moving their living files; a reset follows each.
    pub collected: u64,
    /// `collected`, by the lifetime of the zone.
    pub collected_by_lifetime: ByLifetime,
    /// Dead bytes in zones that the collector emptied, by the lifetime of the files that they belonged to; without bytes that were dead
    /// when the store was opened.
    pub collected_dead: ByLifetime,
    /// Tables that the collector moved, whole or the part in the zone that it emptied.
    pub moved_tables: u64,
    /// Number of times that a writer waited for free space.
    pub waits: u64,
    /// Number of times that a file went to a zone that its policy would not have chosen.
    pub fallbacks: u64,
    /// Zones in which a write failed.
    pub failed: u64,
    /// The zones for files, now.
    pub zones: ZonesNow,
}

/// Zones for files at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZonesNow {
    /// Number of zones.
    pub all: u32,
    /// Zones in which nothing is written.
    pub empty: u32,
    /// Offline and read-only zones.
    pub broken: u32,
    /// Bytes that can be written to all zones together between two resets of each.
    pub capacity: u64,
    /// Bytes up to the write pointers, together.
    pub written: u64,
    /// Bytes of live files, in whole blocks. All other written bytes are dead.
    pub live: u64,
    /// Resets of the least worn zone, as far as known.
    pub wear_least: u64,
    /// Resets of the most worn zone.
    pub wear_most: u64,
    /// Resets of all zones together.
    pub wear_total: u64,
    /// Resets of the most worn zone for metadata; the other figures do not count these zones.
    pub wear_metadata: u64,
}

impl ZonesNow {
    /// Zones in which anything is written.
    pub fn used(&self) -> u32 {
        self.all - self.empty.min(self.all)
    }
}

impl Beneath {
    /// Bytes written to the drive by cause. Their sum is [`Beneath::device`].
    pub fn lines(&self) -> [(&'static str, u64); 6] {
        [
            ("files", self.files),
            ("frame heads", self.framing),
            ("block padding", self.padding),
            ("zone collection", self.moved),
            ("zone metadata", self.metadata),
            ("zone finish", self.finishing),
        ]
    }

    /// All bytes written to the drive, including those with which the drive filled finished zones.
    pub fn device(&self) -> u64 {
        self.lines().iter().map(|(_, bytes)| bytes).sum()
    }

    /// The increase since an earlier moment of the same store, with the zones as they are now.
    #[must_use]
    pub fn since(&self, earlier: &Beneath) -> Beneath {
        let minus = |part: fn(&Beneath) -> u64| part(self).saturating_sub(part(earlier));
        Beneath {
            files: minus(|b| b.files),
            framing: minus(|b| b.framing),
            padding: minus(|b| b.padding),
            moved: minus(|b| b.moved),
            metadata: minus(|b| b.metadata),
            finishing: minus(|b| b.finishing),
            finishes: minus(|b| b.finishes),
            resets: minus(|b| b.resets),
            metadata_resets: minus(|b| b.metadata_resets),
            resets_by_lifetime: self.resets_by_lifetime.since(&earlier.resets_by_lifetime),
            log_resets: minus(|b| b.log_resets),
            reset_unwritten: minus(|b| b.reset_unwritten),
            collected: minus(|b| b.collected),
            collected_by_lifetime: self.collected_by_lifetime.since(&earlier.collected_by_lifetime),
            collected_dead: self.collected_dead.since(&earlier.collected_dead),
            moved_tables: minus(|b| b.moved_tables),
            waits: minus(|b| b.waits),
            fallbacks: minus(|b| b.fallbacks),
            failed: minus(|b| b.failed),
            zones: self.zones,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_all_there_is() {
        let zones = ZonesNow { all: 7, empty: 3, ..ZonesNow::default() };
        let now =
            Beneath { files: 1, framing: 2, padding: 4, moved: 8, metadata: 16, finishing: 32, resets: 5, zones, ..Beneath::default() };
        assert_eq!((now.device(), now.zones.used()), (63, 4));
        let earlier = Beneath { files: 1, moved: 3, resets: 5, ..Beneath::default() };
        let since = now.since(&earlier);
        assert_eq!((since.files, since.moved, since.resets, since.device(), since.zones), (0, 5, 0, 59, zones));
        let mut counts = ByLifetime::default();
        counts.add(Lifetime::Short, 2);
        let before = counts;
        counts.add(Lifetime::Extreme, 5);
        let grown = counts.since(&before);
        assert_eq!([counts.of(Lifetime::Short), counts.total(), grown.of(Lifetime::Short), grown.total()], [2, 7, 0, 5]);
        assert_eq!(counts.lines().last(), Some((Lifetime::Extreme, 5)));
    }
}
