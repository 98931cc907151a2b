//! Rules for the zone that the collector empties first: pure functions of what each zone holds.

/// A zone is worth emptying if at least one byte in this many is dead.
pub(super) const WORTH: u64 = 32;

/// Rule for the zone that is emptied first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Collection {
    /// The zone with the fewest live bytes.
    Greedy,
    /// The zone with the largest product of dead bytes per live byte and time since its last write.
    CostBenefit,
    /// The zone with the largest product of dead bytes per live byte and expected remaining life of its live bytes, because bytes that die
    /// soon are not worth moving.
    Lifetime,
    /// Like ZenFS: once less than a fifth of the space is free, the full zone with the fewest live bytes, if its dead share is large
    /// enough; the less is free, the smaller a dead share suffices (`fs_zenfs.cc`, `GCWorker`). Waiting writers do not lower the bar.
    Zenfs,
}

/// Free share below which ZenFS collects, and the slope with which the dead share that it asks for falls below that.
pub(super) const ZENFS_START: f64 = 0.2;
const ZENFS_SLOPE: f64 = 3.0;

/// A zone that can be emptied. Lengths are bytes.
#[derive(Debug, Clone, Copy)]
pub struct Victim {
    /// Number of the zone.
    pub zone: u32,
    /// Bytes that a reset would free.
    pub capacity: u64,
    /// Live bytes that would have to be moved, not 0.
    pub valid: u64,
    /// The zone is full.
    pub full: bool,
    /// Bytes that the host has written since the last write to the zone.
    pub age: u64,
    /// Bytes that the host is expected to write until the files in the zone die, on average.
    pub left: u64,
}

impl Collection {
    /// Every rule.
    pub const ALL: [Collection; 4] = [Collection::Greedy, Collection::CostBenefit, Collection::Lifetime, Collection::Zenfs];

    /// The name used in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Collection::Greedy => "greedy",
            Collection::CostBenefit => "cost-benefit",
            Collection::Lifetime => "lifetime",
            Collection::Zenfs => "zenfs",
        }
    }

    /// The rule of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Collection::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// The zone to empty if the share `free` of the space is free; `None` if no zone is worth it.
    pub fn victim(self, zones: &[Victim], free: f64) -> Option<u32> {
        let gain = |zone: &Victim| (zone.capacity - zone.valid.min(zone.capacity)) as f64 / zone.valid.max(1) as f64;
        let score = |zone: &Victim| match self {
            Collection::Greedy | Collection::Zenfs => -(zone.valid as f64),
            Collection::CostBenefit => gain(zone) * (zone.age.max(1) as f64),
            Collection::Lifetime => gain(zone) * (zone.left.max(1) as f64),
        };
        let dead = |zone: &Victim| zone.capacity.saturating_sub(zone.valid);
        let asked = 1.0 - ZENFS_SLOPE * (ZENFS_START - free);
        let worth = zones.iter().filter(|zone| match self {
            Collection::Zenfs => zone.full && free <= ZENFS_START && dead(zone) as f64 > asked * zone.capacity as f64,
            _ => dead(zone) >= zone.capacity / WORTH,
        });
        worth.max_by(|a, b| score(a).total_cmp(&score(b)).then(b.zone.cmp(&a.zone))).map(|zone| zone.zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_its_own_victim() {
        let zone = |zone, valid, age, left| Victim { zone, capacity: 1000, valid, full: true, age, left };
        // Nearly empty and fresh; half empty, old, about to die; half empty, of middle age, to live on; nothing to gain.
        let zones = [zone(1, 100, 10, 500), zone(2, 500, 900, 2), zone(3, 500, 500, 90_000), zone(4, 990, 90_000, 90_000)];
        let table = [(Collection::Greedy, 1), (Collection::CostBenefit, 2), (Collection::Lifetime, 3), (Collection::Zenfs, 1)];
        for (rule, victim) in table {
            assert_eq!(rule.victim(&zones, 0.1), Some(victim), "{}", rule.name());
            assert_eq!(rule.victim(&zones[3..], 0.1), None, "{}: nothing to gain", rule.name());
            assert_eq!(Collection::from_name(rule.name()), Some(rule));
        }
    }

    #[test]
    fn the_rule_of_zenfs_asks_for_less_the_less_is_free() {
        let zone = |zone, valid, full| Victim { zone, capacity: 1000, valid, full, age: 0, left: 0 };
        let victim = |free, valid, full| Collection::Zenfs.victim(&[zone(7, valid, full)], free);
        // A fifth free: only what is dead as a whole, which needs no collector. A tenth: 70 %. None: 40 %.
        for (free, valid, taken) in
            [(0.21, 1, false), (0.19, 20, true), (0.1, 299, true), (0.1, 301, false), (0.0, 599, true), (0.0, 601, false)]
        {
            assert_eq!(victim(free, valid, true), taken.then_some(7), "{free} free, {valid} live");
        }
        assert_eq!(victim(0.0, 1, false), None, "a zone that can still be written");
    }
}
