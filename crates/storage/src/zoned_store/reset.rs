//! Policies for resetting dead zones (zones without live bytes), by name; each is a pure function. A dead zone that is not reset can still
//! be written to its end, and is reset when a zone is needed and none is empty.

/// The policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reset {
    /// A dead zone is reset at once.
    Eager,
    /// Zones of logs are reset once they are full, others at once.
    Lzr,
    /// A zone is reset once it is full.
    Lazy,
    /// The fuller the volume, the earlier: a zone is reset once its unwritten share is at most the occupied share of the volume.
    Far,
    /// SinterDB's policy: a zone is reset once at most 1/64 of it is unwritten. Until then, the allocation policy `sinter` writes on in the
    /// zone before it opens an empty one; other allocation policies do so when no other zone is available.
    Sinter,
}

/// One in this many bytes of a zone may be unwritten for the policy `sinter`.
const HARDLY: u64 = 64;

/// A zone in which everything is dead. Lengths are bytes.
#[derive(Debug, Clone, Copy)]
pub struct Dead {
    /// Lifetime of the first file since the zone's reset, as in the hint: 2 is short.
    pub lifetime: u8,
    /// Bytes that could be written.
    pub capacity: u64,
    /// Bytes that are written.
    pub written: u64,
}

/// The whole volume.
#[derive(Debug, Clone, Copy)]
pub struct Space {
    /// Zones that are empty.
    pub empty: u32,
    /// Number of zones for files.
    pub zones: u32,
}

impl Reset {
    /// Every policy.
    pub const ALL: [Reset; 5] = [Reset::Eager, Reset::Lzr, Reset::Lazy, Reset::Far, Reset::Sinter];

    /// The name used in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Reset::Eager => "eager",
            Reset::Lzr => "lzr",
            Reset::Lazy => "lazy",
            Reset::Far => "far",
            Reset::Sinter => "sinter",
        }
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Reset::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Whether the zone is to be reset now.
    pub fn is_due(self, zone: Dead, space: Space) -> bool {
        let unwritten = zone.capacity.saturating_sub(zone.written);
        let taken = space.zones.saturating_sub(space.empty);
        match self {
            _ if unwritten == 0 => true,
            Reset::Eager => true,
            Reset::Lzr => zone.lifetime != 2,
            Reset::Lazy => false,
            Reset::Far => u128::from(unwritten) * u128::from(space.zones) <= u128::from(zone.capacity) * u128::from(taken),
            Reset::Sinter => unwritten <= zone.capacity / HARDLY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_its_own_moment() {
        let half = Dead { lifetime: 4, capacity: 1000, written: 500 };
        let (roomy, tight) = (Space { empty: 90, zones: 100 }, Space { empty: 4, zones: 100 });
        let table: [(Reset, [bool; 5]); 5] = [
            // half written and roomy, the same and tight, a log's and roomy, a log's and tight, full
            (Reset::Eager, [true, true, true, true, true]),
            (Reset::Lzr, [true, true, false, false, true]),
            (Reset::Lazy, [false, false, false, false, true]),
            (Reset::Far, [false, true, false, true, true]),
            (Reset::Sinter, [false, false, false, false, true]),
        ];
        let log = Dead { lifetime: 2, ..half };
        for (policy, due) in table {
            let found = [(half, roomy), (half, tight), (log, roomy), (log, tight), (Dead { written: 1000, ..half }, roomy)];
            assert_eq!(found.map(|(zone, space)| policy.is_due(zone, space)), due, "{}", policy.name());
            assert_eq!(Reset::from_name(policy.name()), Some(policy));
        }
        assert!(Reset::Sinter.is_due(Dead { written: 990, ..half }, roomy) && !Reset::Lazy.is_due(Dead { written: 990, ..half }, tight));
        assert_eq!(Reset::from_name("never"), None);
    }
}
