//! Checks a spec and reports all complaints at once, each with the path of its field.

use super::served;
use super::spec::{
    Calls, Distribution, EngineSpec, MediumModel, Mix, Pace, PhaseKind, RunSpec, SPEC_VERSION, TierSpec, ValueSize, Workload, ZonesSpec,
};
use super::template::Template;
use sinter_storage::zoned_store::{Allocation, Collection, Reset};
use std::collections::BTreeSet;
use std::fmt::Display;

/// The operations that a mix can name.
pub const OPERATIONS: [&str; 10] =
    ["get", "get_missing", "put", "insert", "delete", "read_modify_write", "scan", "seek", "walk", "walk_back"];
/// Operations of which several can be one call.
const BATCHED: [&str; 4] = ["get", "get_missing", "put", "delete"];
/// Operations that keep an iterator open, so that a phase has no others.
const WALKS: [&str; 2] = ["walk", "walk_back"];

/// Temperatures that a tier can serve.
const TEMPERATURES: [&str; 5] = ["hot", "warm", "cool", "cold", "ice"];

/// Largest number of threads; more is taken for a typing error.
const MAX_THREADS: usize = 1024;
/// Largest value, bytes: the engines' limits lie below 4 GiB.
const MAX_VALUE: usize = 1 << 30;
/// Longest key, bytes: fjall has 16 bits for its length.
const MAX_KEY: usize = 65_535;
/// Largest weight: sums and products of weights stay far below infinity.
const MAX_WEIGHT: f64 = 1e9;
/// Most entries of a call.
const MAX_BATCH: u64 = 1 << 20;
/// Largest processor time, percent: a thousand processors.
const MAX_PERCENT: u32 = 100_000;
/// Bytes of a block of an emulated drive of zones.
pub const ZONE_BLOCK: u64 = 512;
/// Largest zone, bytes, and most zones: a drive with both is larger than any real one.
const MAX_ZONE: u64 = 1 << 36;
const MAX_ZONES: u32 = 1 << 20;
/// Most operations of a phase: a thread keeps a histogram for each.
const MAX_OPERATIONS: usize = 64;

impl RunSpec {
    /// Returns all complaints about the spec; empty if it can be run. Paths and engine settings are not checked.
    pub fn validate(&self) -> Vec<String> {
        let mut check = Check { list: Vec::new() };
        check.that(self.version == SPEC_VERSION, "version", format_args!("must be {SPEC_VERSION}, not {}", self.version));
        check.engine(&self.engine);
        check.workload(&self.workload);
        let families: BTreeSet<&str> = self.engine.families.iter().map(|family| family.name.as_str()).collect();
        for (i, phase) in self.workload.phases.iter().enumerate() {
            check.phase(&format!("workload.phases[{i}] ({})", phase.name), &phase.kind, &self.workload, &families);
        }
        check.that(self.limits.cpus != Some(0), "limits.cpus", "must be at least 1");
        let percent = self.limits.cpu_percent.is_none_or(|percent| (1..=MAX_PERCENT).contains(&percent));
        check.that(percent, "limits.cpu_percent", format_args!("must be 1 to {MAX_PERCENT}"));
        check.that(self.limits.memory_bytes.is_none_or(|bytes| bytes >= 1 << 20), "limits.memory_bytes", "must be at least 1048576");
        check.list.extend(served::complaints(self));
        check.list
    }
}

struct Check {
    list: Vec<String>,
}

impl Check {
    fn that(&mut self, good: bool, field: &str, what: impl Display) {
        if !good {
            self.list.push(format!("{field}: {what}"));
        }
    }

    fn within(&mut self, value: usize, least: usize, most: usize, field: &str) {
        self.that((least..=most).contains(&value), field, format_args!("must be {least} to {most}, not {value}"));
    }

    fn engine(&mut self, engine: &EngineSpec) {
        self.that(!engine.families.is_empty(), "engine.families", "must name at least one");
        self.that(engine.wal || !engine.sync, "engine.sync", "needs the write-ahead log (wal)");
        let mut names = BTreeSet::new();
        for (i, family) in engine.families.iter().enumerate() {
            let field = format!("engine.families[{i}].name");
            let plain = !family.name.is_empty() && family.name.chars().all(|c| c.is_ascii_graphic() && !"\"[]".contains(c));
            self.that(plain, &field, format_args!("{:?} must be printable, without blanks, quotes and brackets", family.name));
            self.that(names.insert(&family.name), &field, format_args!("{:?} is there twice", family.name));
        }
        if let Some(rate) = engine.operations_per_clock_second {
            self.rate("engine.operations_per_clock_second", rate);
        }
        let mut temperatures = BTreeSet::new();
        for TierSpec { temperature, model, .. } in &engine.tiers {
            let at = format!("engine.tiers ({temperature})");
            self.that(TEMPERATURES.contains(&temperature.as_str()), &at, format_args!("is none of {}", TEMPERATURES.join(", ")));
            self.that(temperatures.insert(temperature), &at, "is there twice");
            if let Some(MediumModel { read_mb_per_s, write_mb_per_s, seek_ms }) = *model {
                self.rate(&format!("{at}.model.read_mb_per_s"), read_mb_per_s);
                self.rate(&format!("{at}.model.write_mb_per_s"), write_mb_per_s);
                self.that((0.0..=1e6).contains(&seek_ms), &format!("{at}.model.seek_ms"), "must be 0 to 1000000");
            }
        }
        if let Some(zones) = &engine.zones {
            self.zones(zones);
            self.that(engine.tiers.is_empty(), "engine.zones", "and tiers cannot be combined");
        }
        let alone = engine.name == "sinter" && engine.server.is_none() && engine.tiers.is_empty() && engine.zones.is_none();
        self.that(engine.in_place.is_none() || alone, "engine.in_place", "is for sinter alone, without server, tiers and zones");
        // Settings become lines of an OPTIONS file.
        for (name, value) in engine.database.iter().chain(engine.families.iter().flat_map(|family| &family.settings)) {
            let plain = !name.is_empty() && !name.contains(['=', '[']) && !(name.clone() + value).contains(['\n', '\r', '#']);
            self.that(plain, "engine", format_args!("setting {name:?} must be a name and a value of one line, without #"));
        }
    }

    fn zones(&mut self, zones: &ZonesSpec) {
        let ZonesSpec { zone_bytes, zone_capacity, max_active, allocation, reset, collector, .. } = zones;
        let whole = zone_bytes.is_multiple_of(ZONE_BLOCK) && (ZONE_BLOCK..=MAX_ZONE).contains(zone_bytes);
        self.that(whole, "engine.zones.zone_bytes", format_args!("must be a multiple of {ZONE_BLOCK}, at most {MAX_ZONE}"));
        let usable = zone_capacity.is_none_or(|bytes| bytes.is_multiple_of(ZONE_BLOCK) && (ZONE_BLOCK..=*zone_bytes).contains(&bytes));
        self.that(usable, "engine.zones.zone_capacity", format_args!("must be a multiple of {ZONE_BLOCK}, at most zone_bytes"));
        self.that((8..=MAX_ZONES).contains(&zones.zones), "engine.zones.zones", format_args!("must be 8 to {MAX_ZONES}"));
        self.that(max_active.is_none_or(|active| active >= 3), "engine.zones.max_active", "must be at least 3");
        let names = |all: &[&str]| all.join(", ");
        let known = Allocation::ALL.map(Allocation::name);
        self.that(known.contains(&allocation.as_str()), "engine.zones.allocation", format_args!("is none of {}", names(&known)));
        let known = Reset::ALL.map(Reset::name);
        self.that(known.contains(&reset.as_str()), "engine.zones.reset", format_args!("is none of {}", names(&known)));
        let known = Collection::ALL.map(Collection::name);
        let there = collector.as_ref().is_none_or(|name| known.contains(&name.as_str()));
        self.that(there, "engine.zones.collector", format_args!("is none of {}", names(&known)));
    }

    fn workload(&mut self, workload: &Workload) {
        let Workload { keys, key_size, compression_ratio, .. } = *workload;
        self.within(key_size, 1, MAX_KEY, "workload.key_size");
        let room = if key_size >= 8 { u64::MAX } else { 1u64 << (8 * key_size.max(1)) };
        self.that(keys >= 1, "workload.keys", "must be at least 1");
        self.that(keys <= room, "workload.keys", format_args!("keys of {key_size} bytes have room for {room}, not {keys}"));
        let ratio = "workload.compression_ratio";
        self.that((0.0..=1.0).contains(&compression_ratio), ratio, format_args!("must be 0 to 1, not {compression_ratio}"));
        match workload.value_size {
            ValueSize::Fixed(size) => self.within(size, 0, MAX_VALUE, "workload.value_size.fixed"),
            ValueSize::Uniform(least, most) => {
                self.within(most, 0, MAX_VALUE, "workload.value_size.uniform");
                self.that(least <= most, "workload.value_size.uniform", format_args!("{least} is more than {most}"));
            }
            ValueSize::Pareto { scale, shape, most } => {
                self.within(most, 0, MAX_VALUE, "workload.value_size.pareto.most");
                self.that(scale > 0.0 && scale.is_finite(), "workload.value_size.pareto.scale", "must be more than 0");
                self.that((0.0..=10.0).contains(&shape), "workload.value_size.pareto.shape", "must be 0 to 10");
            }
        }
        self.that(!workload.phases.is_empty(), "workload.phases", "must name at least one");
        let mut names = BTreeSet::new();
        for (i, phase) in workload.phases.iter().enumerate() {
            let field = format!("workload.phases[{i}].name");
            self.that(!phase.name.is_empty(), &field, "must not be empty");
            self.that(!phase.name.contains(['\n', '\r']), &field, "must be one line");
            self.that(names.insert(&phase.name), &field, format_args!("{:?} is there twice", phase.name));
        }
    }

    fn phase(&mut self, at: &str, kind: &PhaseKind, workload: &Workload, families: &BTreeSet<&str>) {
        match kind {
            PhaseKind::Load { threads, .. } => self.within(*threads, 1, MAX_THREADS, &format!("{at}.threads")),
            PhaseKind::Settle | PhaseKind::Compact | PhaseKind::Flush | PhaseKind::Wait | PhaseKind::Empty | PhaseKind::Stats => {}
            PhaseKind::Change { settings } => self.that(!settings.is_empty(), &format!("{at}.settings"), "must name at least one"),
            PhaseKind::Run { mixes, operations, seconds, threads, pace, warm_up_seconds, writer, calls } => {
                self.within(*threads, 1, MAX_THREADS, &format!("{at}.threads"));
                let one = operations.is_some() != seconds.is_some();
                self.that(one, at, "one of operations and seconds must be given, and not both");
                let positive = seconds.is_none_or(|seconds| seconds > 0.0 && seconds <= 1e9);
                self.that(positive, &format!("{at}.seconds"), "must be more than 0, and at most 1000000000");
                let warm = (0.0..=1e9).contains(warm_up_seconds) && seconds.is_none_or(|seconds| *warm_up_seconds < seconds);
                self.that(warm, &format!("{at}.warm_up_seconds"), "must be at least 0 and less than seconds");
                self.pace(at, *pace);
                self.that(*pace != Pace::Trace, &format!("{at}.pace"), "trace is for replays");
                self.mixes(at, mixes, workload, families);
                self.calls(at, calls, mixes, *pace);
                if let Some(writer) = writer {
                    writer.per_second.into_iter().for_each(|rate| self.rate(&format!("{at}.writer.per_second"), rate));
                    self.distribution(&format!("{at}.writer.distribution"), writer.distribution);
                }
            }
            PhaseKind::Replay { pace, .. } => self.pace(at, *pace),
        }
    }

    fn calls(&mut self, at: &str, calls: &Calls, mixes: &[Mix], pace: Pace) {
        let Calls { batch, untimed, bytes_per_second, .. } = *calls;
        let names: Vec<&str> = mixes.iter().flat_map(|mix| mix.operations.keys()).map(String::as_str).collect();
        let one_of = |list: &[&str]| matches!(names.as_slice(), [one] if list.contains(one));
        let at_calls = format!("{at}.calls");
        self.that((1..=MAX_BATCH).contains(&batch), &at_calls, format_args!("batch must be 1 to {MAX_BATCH}, not {batch}"));
        self.that(batch <= 1 || one_of(&BATCHED), &at_calls, format_args!("batch needs a phase of one of {}", BATCHED.join(", ")));
        let walks = names.iter().any(|name| WALKS.contains(name));
        self.that(!walks || one_of(&WALKS), &format!("{at}.mixes"), "walk and walk_back are the only operation of a phase");
        let closed = pace == Pace::Closed;
        self.that(closed || (!untimed && bytes_per_second.is_none()), &at_calls, "untimed and bytes_per_second need a closed pace");
        self.that(bytes_per_second != Some(0), &at_calls, "bytes_per_second must be at least 1");
    }

    fn pace(&mut self, at: &str, pace: Pace) {
        if let Pace::Open(rate) = pace {
            self.rate(&format!("{at}.pace.open"), rate);
        }
    }

    fn rate(&mut self, field: &str, rate: f64) {
        self.that(rate > 0.0 && rate <= 1e9, field, "must be more than 0, and at most 1000000000 per second");
    }

    fn distribution(&mut self, field: &str, distribution: Distribution) {
        match distribution {
            Distribution::Zipf(alpha) | Distribution::Latest(alpha) => {
                self.that((0.0..=100.0).contains(&alpha), field, "the exponent must be 0 to 100");
            }
            Distribution::Exponential(range) => self.that((0.0..=1e6).contains(&range), field, "the range must be 0 to 1000000"),
            Distribution::Sequential | Distribution::Uniform | Distribution::Unique => {}
        }
    }

    /// The name of an operation, or a template of a command, which begins with a capital letter.
    fn operation(&mut self, name: &str, field: &str) {
        if name.starts_with(|first: char| first.is_ascii_uppercase()) {
            let what = Template::parse(name).err();
            self.that(what.is_none(), field, what.unwrap_or_default());
        } else {
            self.that(OPERATIONS.contains(&name), field, format_args!("is none of {}", OPERATIONS.join(", ")));
        }
    }

    fn mixes(&mut self, at: &str, mixes: &[Mix], workload: &Workload, families: &BTreeSet<&str>) {
        self.that(!mixes.is_empty(), &format!("{at}.mixes"), "must name at least one");
        let kinds = mixes.iter().map(|mix| mix.operations.len()).sum::<usize>();
        self.that(kinds <= MAX_OPERATIONS, &format!("{at}.mixes"), format_args!("{kinds} operations are more than {MAX_OPERATIONS}"));
        let mut names = BTreeSet::new();
        for mix in mixes {
            let at = format!("{at}.mixes ({})", mix.name);
            self.that(names.insert(&mix.name), &at, "its name is there twice");
            let sensible = |weight: f64| weight > 0.0 && weight <= MAX_WEIGHT;
            self.that(sensible(mix.weight), &format!("{at}.weight"), "must be more than 0, and at most 1000000000");
            if let Some(family) = &mix.family {
                self.that(families.contains(family.as_str()), &format!("{at}.family"), format_args!("there is no family {family:?}"));
            }
            let (from, to) = mix.range;
            self.that(0.0 <= from && from < to && to <= 1.0, &format!("{at}.range"), "must go from a smaller to a larger of 0 to 1");
            self.that(!mix.keys(workload.keys).is_empty(), &format!("{at}.range"), "has no key");
            self.distribution(&format!("{at}.distribution"), mix.distribution);
            self.that(!mix.operations.is_empty(), &format!("{at}.operations"), "must name at least one");
            for (name, weight) in &mix.operations {
                let field = format!("{at}.operations.{name}");
                self.operation(name, &field);
                self.that(sensible(*weight), &field, "the weight must be more than 0, and at most 1000000000");
            }
            let longer = !mix.operations.contains_key("get_missing") || workload.key_size < MAX_KEY;
            self.that(longer, &format!("{at}.operations.get_missing"), "needs a key_size of 65534 or less: its keys are longer by one");
            let inserts = mix.operations.contains_key("insert");
            self.that(!inserts || workload.key_size >= 16, &format!("{at}.operations.insert"), "needs a key_size of 16 or more");
            let scans = mix.operations.contains_key("scan");
            self.that(!scans || mix.scan_length >= 1, &format!("{at}.scan_length"), "must be at least 1");
        }
    }
}

impl Mix {
    /// Key numbers of the mix's range, out of `keys`.
    pub fn keys(&self, keys: u64) -> std::ops::Range<u64> {
        // Fractions of numbers beyond 2^53 are not exact; 1 must mean the whole range.
        let place = |part: f64| if part >= 1.0 { keys } else { ((part * keys as f64).round() as u64).min(keys) };
        place(self.range.0)..place(self.range.1)
    }
}
