//! What a store gives its medium below the files: what a drive is written beside their bytes, and why.

/// Of a store on zones, since it was opened. Lengths are bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Beneath {
    /// Of files. What is held back until a sync is not in it, nor what was deleted before it was written.
    pub files: u64,
    /// Heads of the frames in which logs and manifests lie.
    pub framing: u64,
    /// Ends of blocks that hold nothing.
    pub padding: u64,
    /// What the collector wrote again, in whole blocks.
    pub moved: u64,
    /// The store's own metadata, in whole blocks.
    pub metadata: u64,
    /// With what the drive filled zones that were finished early.
    pub finishing: u64,
    /// How many zones that were.
    pub finishes: u64,
    /// Zones that were emptied, those of the metadata among them.
    pub resets: u64,
    /// Those of the metadata.
    pub metadata_resets: u64,
    /// Those that were begun with a log.
    pub log_resets: u64,
    /// Capacity of zones for files that was not written when they were emptied.
    pub reset_unwritten: u64,
    /// Zones that the collector emptied of what lived in them.
    pub collected: u64,
    /// How often a writer waited for room.
    pub waits: u64,
    /// How often a file went where its policy would not have put it.
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
    /// All of them.
    pub all: u32,
    /// Those in which nothing is written.
    pub empty: u32,
    /// Those that the drive does not let us write, or lost.
    pub broken: u32,
    /// Bytes that can be written between two resets of each, together.
    pub capacity: u64,
    /// Bytes up to the write pointers, together.
    pub written: u64,
    /// Bytes of files that live, to whole blocks. What is written beyond is dead.
    pub live: u64,
    /// Resets of the least worn zone, as far as they are known.
    pub wear_least: u64,
    /// Of the most worn one.
    pub wear_most: u64,
    /// Of all together.
    pub wear_total: u64,
    /// Of the most worn zone for metadata, which is none of the others.
    pub wear_metadata: u64,
}

impl ZonesNow {
    /// Zones in which anything is written.
    pub fn used(&self) -> u32 {
        self.all - self.empty.min(self.all)
    }
}

impl Beneath {
    /// Everything that the drive was written, by cause: their sum is [`Beneath::device`].
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

    /// Bytes that the drive was written, what it wrote by itself to finish zones included.
    pub fn device(&self) -> u64 {
        self.lines().iter().map(|(_, bytes)| bytes).sum()
    }

    /// What came since an earlier moment of the same store, with its zones as they are now.
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
            log_resets: minus(|b| b.log_resets),
            reset_unwritten: minus(|b| b.reset_unwritten),
            collected: minus(|b| b.collected),
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
    }
}
