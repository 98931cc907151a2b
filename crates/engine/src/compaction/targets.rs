//! Target sizes of the levels of a leveled tree.

use crate::manifest::Version;
use crate::settings::FamilySettings;

/// Target sizes of the levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    /// The level that level 0 is merged into.
    pub base: usize,
    /// Bytes by level; those of level 0 and of levels above the base are not used.
    pub bytes: Vec<u64>,
    /// Levels from the base to this one are not needed for the amount of data: they are emptied.
    pub drained: Option<usize>,
    /// The level at which growing ends: it has no target.
    pub last: usize,
}

impl Targets {
    /// Bytes that a level below level 0 and above the last may hold before it is compacted.
    pub fn target(&self, level: usize) -> u64 {
        if self.drained.is_some_and(|drained| level <= drained) { 0 } else { self.bytes[level] }
    }

    /// The targets of a tree.
    pub fn of(version: &Version, settings: &FamilySettings) -> Targets {
        // Placement by age has the last level to itself.
        let levels = version.levels.len() - usize::from(settings.places_by_age());
        let last = levels - 1;
        let factor = settings.max_bytes_for_level_multiplier.max(1.0);
        let most = settings.max_bytes_for_level_base.max(1);
        if !settings.level_compaction_dynamic_level_bytes || levels < 3 {
            let base = usize::from(levels > 1);
            return Targets { base, bytes: grow(most, factor, base, levels, 0), drained: None, last };
        }
        let largest = (1..levels).map(|l| version.level_bytes(l)).max().unwrap_or(0);
        let Some(first) = (1..levels).find(|l| !version.levels[*l].is_empty()).filter(|_| largest > 0) else {
            return Targets { base: last, bytes: grow(most, factor, last, levels, most), drained: None, last };
        };
        let least = most as f64 / factor;
        let mut size = largest as f64;
        let mut drained = None;
        for level in (first..last).rev() {
            size /= factor;
            if drained.is_none() && size <= least {
                drained = Some(level);
            }
        }
        let mut base = first;
        if size <= least {
            size = least + 1.0;
        } else {
            while base > 1 && size > most as f64 {
                base -= 1;
                size /= factor;
            }
        }
        Targets { base, bytes: grow(size.min(most as f64) as u64, factor, base, levels, most), drained, last }
    }
}

/// Targets from `base` on: `size`, growing by `factor`, but at least `floor`, or levels would narrow towards the middle.
fn grow(size: u64, factor: f64, base: usize, levels: usize, floor: u64) -> Vec<u64> {
    let mut size = size as f64;
    let mut bytes = vec![u64::MAX; levels];
    for target in &mut bytes[base..] {
        *target = (size as u64).max(floor).max(1);
        size *= factor;
    }
    bytes
}
