//! Policies that choose the zone for a file, by name; each is a pure function of the open zones and the file. If a choice is not available,
//! `place` proceeds alike for all policies.

/// The policies.
///
/// A zone's lifetime is that of the first file written into it since its reset. The numbers are the kernel's: 0 nothing known, 2 short
/// (logs), 3 medium, 4 long, 5 extreme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Allocation {
    /// Like ZenFS: the zone without a writer whose lifetime is the closest above the file's; otherwise a new zone, in the order of numbers.
    Zenfs {
        /// True: as in ZenFS, when no more zones may become active, a zone of equal lifetime is used. False: the zone that wastes least is
        /// finished to open a new one.
        tokens: bool,
    },
    /// Weakly by lifetime: a zone of equal lifetime without a writer, otherwise like ZenFS.
    Wla {
        /// True: as in ZenFS, when no more zones may become active, the zone that wastes least is finished to open a new one. False: no
        /// zone is finished; if no more may become active, the file is treated as one for which there is no zone.
        tokens: bool,
    },
    /// Strongly by lifetime: a zone of equal lifetime without a writer, otherwise a new zone.
    Sla {
        /// See [`Allocation::Wla`].
        tokens: bool,
    },
    /// A zone of the same level, otherwise a new zone.
    PerLevel,
    /// SinterDB's policy: a zone of the same level whose files are expected to live about as long as this one.
    Sinter,
}

impl Allocation {
    /// Every policy.
    pub const ALL: [Allocation; 8] = [
        Allocation::Zenfs { tokens: true },
        Allocation::Zenfs { tokens: false },
        Allocation::Wla { tokens: true },
        Allocation::Wla { tokens: false },
        Allocation::Sla { tokens: true },
        Allocation::Sla { tokens: false },
        Allocation::PerLevel,
        Allocation::Sinter,
    ];

    /// The name used in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Allocation::Zenfs { tokens: true } => "zenfs",
            Allocation::Zenfs { tokens: false } => "zenfs-without-tokens",
            Allocation::Wla { tokens: true } => "wla",
            Allocation::Wla { tokens: false } => "wla-without-tokens",
            Allocation::Sla { tokens: true } => "sla",
            Allocation::Sla { tokens: false } => "sla-without-tokens",
            Allocation::PerLevel => "per-level",
            Allocation::Sinter => "sinter",
        }
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Allocation::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Returns whether the policy takes the least worn empty zone, not the first.
    pub(super) fn spares_wear(self) -> bool {
        !matches!(self, Allocation::Zenfs { .. })
    }
}

/// A zone that may be written.
#[derive(Debug, Clone, Default)]
pub struct ZoneView {
    /// Number of the zone.
    pub zone: u32,
    /// Lifetime of the first file since the zone's reset.
    pub lifetime: u8,
    /// Level of the first file since the zone's reset.
    pub level: u8,
    /// Bytes that can still be written.
    pub room: u64,
    /// Bytes of living files; 0: everything in the zone is dead.
    pub valid: u64,
    /// Files being written into it.
    pub writers: u32,
    /// The clock at the last write.
    pub touched: u64,
    /// Expected clock at the death of the zone's files, averaged over their bytes.
    pub death: f64,
    /// Expected life of the zone's files, averaged over their bytes.
    pub life: f64,
}

impl ZoneView {
    /// Returns whether the zone has no live bytes and no writer, so that it may take any file.
    pub(super) fn is_free(&self) -> bool {
        self.valid == 0 && self.writers == 0
    }
}

/// A file, or a piece of one, that needs a zone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Want {
    /// Lifetime as in the hint.
    pub lifetime: u8,
    /// Level as in the hint.
    pub level: u8,
    /// A log or a manifest.
    pub log: bool,
    /// The collector moves the file.
    pub moving: bool,
    /// The volume's clock now.
    pub now: u64,
    /// Expected clock at the death of the file.
    pub death: u64,
    /// Expected life of the file from its creation, in units of the clock.
    pub life: u64,
}

/// Resources of the volume besides open zones.
#[derive(Debug, Clone, Copy, Default)]
pub struct Resources {
    /// One more zone may become active.
    pub token: bool,
    /// Zones that are empty, or could be after a reset.
    pub empty: u32,
    /// Number of zones for files.
    pub zones: u32,
}

/// Decision of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Write into that zone.
    Use(u32),
    /// Take an empty zone.
    Open,
    /// Finish that zone, so that another may become active; then ask the policy again.
    Finish(u32),
    /// The policy has no zone for the file.
    Nothing,
}

const NOT_GOOD: u32 = 100;
const COULD_BE_WORSE: u32 = 50;

/// ZenFS's distance from a file's lifetime to a zone's.
fn distance(zone: u8, file: u8) -> u32 {
    match (zone, file) {
        (zone, file @ (0 | 1)) if zone == file => 0,
        (_, 0 | 1) => NOT_GOOD,
        (zone, file) if zone > file => u32::from(zone - file),
        (zone, file) if zone == file => COULD_BE_WORSE,
        _ => NOT_GOOD,
    }
}

/// The zone with the smallest of ZenFS's distances, and that distance; among equals the last zone.
fn best_match<'z>(lifetime: u8, zones: impl Iterator<Item = &'z ZoneView>) -> Option<(u32, u32)> {
    let mut best = None;
    for view in zones {
        let distance = distance(view.lifetime, lifetime);
        if best.is_none_or(|(_, least)| distance <= least) {
            best = Some((view.zone, distance));
        }
    }
    best
}

/// The zone that wastes the least when it is finished.
fn cheapest(zones: &[ZoneView]) -> Choice {
    let idle = zones.iter().filter(|view| view.writers == 0);
    idle.min_by_key(|view| view.room).map_or(Choice::Nothing, |view| Choice::Finish(view.zone))
}

fn open_or_finish(zones: &[ZoneView], resources: Resources) -> Choice {
    if resources.token { Choice::Open } else { cheapest(zones) }
}

/// A zone of equal lifetime, preferably without a writer.
fn equal<'z>(want: &Want, zones: &'z [ZoneView]) -> Option<&'z ZoneView> {
    zones.iter().filter(|view| view.lifetime == want.lifetime).max_by_key(|view| (view.writers == 0, view.zone))
}

/// A zone of equal lifetime without a writer. ZenFS, of which WLA and SLA are variants, has one writer per zone.
fn alone<'z>(want: &Want, zones: &'z [ZoneView]) -> Option<&'z ZoneView> {
    equal(want, zones).filter(|view| view.writers == 0)
}

impl Allocation {
    /// The choice for `want`. All `zones` can be written; zones being reset or finished are not among them.
    pub fn choose(self, want: &Want, zones: &[ZoneView], resources: Resources) -> Choice {
        match self {
            Allocation::Zenfs { tokens } => zenfs(want, zones, resources, tokens),
            Allocation::Sinter => sinter(want, zones, resources),
            _ if want.moving => moving(want, zones, resources),
            Allocation::Wla { tokens } => match alone(want, zones) {
                Some(view) => Choice::Use(view.zone),
                None => zenfs(want, zones, Resources { token: resources.token || !tokens, ..resources }, true),
            },
            Allocation::Sla { tokens } => match alone(want, zones) {
                Some(view) => Choice::Use(view.zone),
                None => open_or_finish(zones, Resources { token: resources.token || !tokens, ..resources }),
            },
            Allocation::PerLevel => {
                let same = |view: &&ZoneView| view.level == want.level && (view.lifetime <= 2) == (want.lifetime <= 2);
                let same = zones.iter().filter(same).filter(|view| want.lifetime > 2 || view.lifetime == want.lifetime);
                same.max_by_key(|view| view.writers == 0).map_or_else(|| open_or_finish(zones, resources), |view| Choice::Use(view.zone))
            }
        }
    }
}

/// The choice for moved data: a zone of equal lifetime, otherwise an empty zone, otherwise the zone of the nearest lifetime.
fn moving(want: &Want, zones: &[ZoneView], resources: Resources) -> Choice {
    let least = || zones.iter().min_by_key(|view| view.lifetime.abs_diff(want.lifetime));
    match equal(want, zones) {
        Some(view) => Choice::Use(view.zone),
        None if resources.token && resources.empty > 0 => Choice::Open,
        None => least().map_or(Choice::Nothing, |view| Choice::Use(view.zone)),
    }
}

/// Chooses as ZenFS does. Dead zones do not match, because ZenFS counts them as neither used nor empty.
fn zenfs(want: &Want, zones: &[ZoneView], resources: Resources, tokens: bool) -> Choice {
    let best = best_match(want.lifetime, zones.iter().filter(|view| view.valid > 0 && view.writers == 0));
    match best {
        // A move goes to the best open zone, however bad the match.
        Some((zone, _)) if want.moving => Choice::Use(zone),
        None if want.moving => Choice::Nothing,
        Some((zone, distance)) if distance < COULD_BE_WORSE => Choice::Use(zone),
        _ if resources.token => Choice::Open,
        Some((zone, COULD_BE_WORSE)) if tokens => Choice::Use(zone),
        _ => cheapest(zones),
    }
}

/// Expected lives of files that share a zone differ at most by this factor.
const ALIKE: f64 = 4.0;

/// Lifetimes of files that die soon: logs, and tables of the first levels.
const SOON: std::ops::RangeInclusive<u8> = 2..=3;

/// The choice of SinterDB's policy, the first available of these:
///
/// 1. A zone of the same level whose files have a similar expected life; of several the one with the nearest expected death. Compactions go
///    through the keys of a level in order, so tables die in the order in which they were written, except that tables of hot keys die
///    sooner; expected lives tell these apart.
/// 2. For a file that dies soon, a dead zone, because filling it up costs no reset and no active zone; then an empty zone. For any other
///    file, an empty zone before a dead one, because dead bytes stay as long as the bytes written behind them live.
/// 3. Of all zones with tables, the one with the nearest expected death.
/// 4. The zone that wastes least is finished.
///
/// A log goes to a zone of equal lifetime, or else as in steps 2 and 4.
fn sinter(want: &Want, zones: &[ZoneView], resources: Resources) -> Choice {
    let all_dead = || zones.iter().filter(|view| view.is_free());
    let dead = || all_dead().max_by_key(|view| view.room).map(|view| Choice::Use(view.zone));
    // `resources.empty` includes dead zones, which would need a reset; without them it counts zones that are empty now.
    let empty = || (resources.token && resources.empty > all_dead().count() as u32).then_some(Choice::Open);
    let fresh = || if SOON.contains(&want.lifetime) { dead().or_else(empty) } else { empty().or_else(dead) };
    if want.log {
        let same = equal(want, zones).map(|view| Choice::Use(view.zone));
        return same.or_else(fresh).unwrap_or_else(|| cheapest(zones));
    }
    let apart = |view: &ZoneView| (view.death - want.death as f64).abs();
    let nearest = |group: &dyn Fn(&ZoneView) -> bool| {
        let tables = zones.iter().filter(|view| view.lifetime > 2 && !view.is_free() && group(view));
        tables.min_by(|a, b| apart(a).total_cmp(&apart(b))).map(|view| Choice::Use(view.zone))
    };
    let (life, unknown) = (want.life as f64, want.life == 0);
    let alike = |view: &ZoneView| unknown || view.life <= life * ALIKE && life <= view.life * ALIKE;
    let same = nearest(&|view| view.level == want.level && alike(view));
    same.or_else(fresh).or_else(|| nearest(&|_| true)).unwrap_or_else(|| cheapest(zones))
}

#[cfg(test)]
mod tests;
