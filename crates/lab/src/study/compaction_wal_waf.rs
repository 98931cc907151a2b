//! Study 1, after a study of 2025 on RocksDB 10.2 with db_bench: does the log interact with the compaction style, and can leveled
//! compaction be shaped until its write amplification comes near that of universal compaction? Two ends that were left open there are
//! followed here: repeats with intervals and the bytes by cause, and hot and cold keys in families of different styles.

use super::metric::Metric;
use super::plan::{Bound, Cell, Comparison, DEBTS, Group, Hypothesis, Request, Scale, Study, Term, comparison, each};
use super::settings::{BASE, FAN_OUT, MEMTABLE, Shape, TRIGGER, database, family, owed, puts, putter, settle};
use crate::run::{Distribution, EngineSpec, FamilySpec, Workload};
use crate::statistics::Fold;
use sinterdb::internal::settings::format_bytes;

/// Name of the study on the command line.
pub const NAME: &str = "compaction-wal-waf";

/// Bounds of a change of a figure that matters: 5 %.
const LESS: f64 = 0.95;
const MORE: f64 = 1.05;
/// Bound for two differences that matter: they differ by 5 % of the mean of the four figures. Their sums in pairs then differ by half of
/// that.
const INTERACTION: f64 = 1.0 + (MORE - 1.0) / 2.0;
/// "Near": factor within which one write amplification is near another.
const NEAR: f64 = 1.10;
/// Bytes of a key, db_bench's default.
const KEY: usize = 16;
/// Bytes of a value, the original's.
const VALUES: [usize; 3] = [1 << 10, 4 << 10, 16 << 10];
/// The measured loads, each with the compactions that it leaves.
const LOADS: [&str; 2] = ["fillrandom", "overwrite"];

/// Smallest fan-out of the study.
const LEAST_FAN_OUT: u64 = 4;
const UNIVERSAL: Shape = Shape::Universal { trigger: TRIGGER };
const LEVELED: Shape = Shape::Leveled { base: BASE, fan_out: FAN_OUT };
/// Shapes of leveled trees beside the default one: name, shape.
const SHAPES: [(&str, Shape); 4] = [
    ("leveled base / 4", Shape::Leveled { base: BASE / 4, fan_out: FAN_OUT }),
    ("leveled base * 2", Shape::Leveled { base: BASE * 2, fan_out: FAN_OUT }),
    ("leveled fan-out 4", Shape::Leveled { base: BASE, fan_out: LEAST_FAN_OUT }),
    ("leveled fan-out 20", Shape::Leveled { base: BASE, fan_out: 20 }),
];

/// Sizes of the study at a scale. Memtables, tables and level targets are divided by `divisor`, and the number of keys with them, so that
/// trees keep their number of levels.
struct Sizes {
    divisor: u64,
    keys: u64,
    values: [usize; 3],
    repeats: u32,
    /// Keys of the cells of A with db_bench's memtables; `None` where all cells have these, or none is to take so long.
    full_keys: Option<u64>,
}

impl Sizes {
    fn memtable(&self) -> u64 {
        MEMTABLE / self.divisor
    }

    /// Bytes in tables after a load. Each load puts as many uniform keys as there are, so that the number of puts of a key is nearly
    /// Poisson's. Half of a value compresses away.
    fn tree(&self, value: usize, load: &str) -> u64 {
        let loads = LOADS.iter().position(|other| *other == load).map_or(0, |place| place + 1);
        let there = self.keys as f64 * (1.0 - (-(loads as f64)).exp());
        (there * (KEY + value / 2) as f64) as u64
    }

    /// Bytes that levels 1 and 2 hold under the smallest fan-out. A smaller tree has one shape under every larger fan-out, so that it
    /// cannot compare them.
    fn two_levels(&self) -> u64 {
        BASE * self.memtable() * (1 + LEAST_FAN_OUT)
    }

    fn of(scale: Scale) -> Sizes {
        match scale {
            Scale::Ci => Sizes { divisor: 1024, keys: 2_000, values: VALUES.map(|bytes| bytes / 4), repeats: 2, full_keys: None },
            Scale::Small => Sizes { divisor: 128, keys: 15_625, values: VALUES, repeats: 5, full_keys: Some(1_000_000) },
            Scale::Paper => Sizes { divisor: 1, keys: 2_000_000, values: VALUES, repeats: 3, full_keys: None },
        }
    }
}

/// The study.
pub fn study(scale: Scale, request: &Request) -> Study {
    let sizes = Sizes::of(scale);
    let mut cells = profiles(A, sizes.memtable(), sizes.values[0], sizes.keys);
    cells.extend(sizes.full_keys.into_iter().flat_map(|keys| profiles(FULL, MEMTABLE, VALUES[0], keys)));
    cells.extend(shapes(&sizes));
    cells.extend(families(&sizes));
    let mut hypotheses = hypotheses_on_profiles();
    let parts = std::iter::once(A).chain(sizes.full_keys.map(|_| FULL));
    hypotheses.extend(parts.flat_map(explanations));
    hypotheses.extend(hypotheses_on_shapes(&sizes));
    hypotheses.extend(hypotheses_on_families());
    let title = "Compaction style, write-ahead log and write amplification";
    let drawn = vec![Metric::Flushes, Metric::FlushedTableBytes, Metric::TableBytes];
    Study { questions: questions(&sizes), cells, hypotheses, drawn, ..request.study(NAME, title, Some(scale), sizes.repeats) }
}

fn questions(sizes: &Sizes) -> Vec<String> {
    let (divisor, keys) = (sizes.divisor, sizes.keys);
    let kib = sizes.memtable() / 1024;
    vec![
        "A: does the write-ahead log's setting interact with the compaction style enough to change write amplification? Of two profiles, \
         `stable` has the log on and no direct I/O, `perf` has the log off and direct I/O for flushes and compactions; neither syncs. A \
         log adds about one byte per byte of the user to either style, which is a larger share of whatever writes less: shares that \
         differ are no interaction. It is one where the bytes that `perf` saves differ between styles by more than 5 % of what is written."
            .to_string(),
        match sizes.full_keys {
            Some(keys) => format!(
                "A at db_bench's sizes: the four cells of A with memtables and tables of 64 MiB, a base level of 256 MiB and {keys} keys, \
                 db_bench's default number."
            ),
            None => "The authors explain A by flushes: without the log fewer of them, into larger tables. Both are counted.".to_string(),
        },
        "B: on random writes and overwrites, can leveled compaction be shaped by its base level's size and its fan-out until its write \
         amplification comes near (within 10 %) universal compaction's? Profile `stable`."
            .to_string(),
        "C: hot keys (a tenth, with nine tenths of the updates) and cold keys in families of their own, hot on leveled and cold on \
         universal compaction: does that write less than one family for both, and than two families of one style? Two families have \
         memtables of half the size, so that all use the same memory."
            .to_string(),
        format!(
            "Write amplification is (log + flushes + compactions) / (keys + values written), with the compactions that the writes made \
             necessary, even if they ran after them. {keys} keys of {KEY} bytes, values of {:?} bytes ({}) of which half compress away, \
             Snappy, memtables and tables of {kib} KiB, base level of {} KiB (a quarter, double), fan-out {FAN_OUT} ({LEAST_FAN_OUT}, 20); \
             memtables, tables and levels are the original's divided by {divisor}. The number of keys is ours, the original's is not \
             known; it is the same for all value sizes, as in db_bench, so that large values make larger databases. A control has the \
             smallest values and 16 times the keys. Fan-outs are compared only where keys and compressed values come to more than levels \
             1 and 2 hold under the smallest fan-out, {} KiB: below that every fan-out makes the same tree.",
            sizes.values,
            if sizes.values == VALUES { "the original's" } else { "smaller than the original's" },
            BASE * kib,
            sizes.two_levels() / 1024,
        ),
    ]
}

fn fill_and_overwrite(value: usize, keys: u64, suffix: &str) -> Workload {
    let mut phases = Vec::new();
    for load in LOADS {
        phases.push(puts(load, keys, vec![putter("put", 1.0, None, (0.0, 1.0), Distribution::Uniform)]));
        phases.push(owed(load));
    }
    Workload::new(format!("fillrandom, overwrite, {value} B{suffix}"), keys, (KEY, value), phases)
}

fn cell(name: String, factors: &[(&str, &str)], settings: EngineSpec, workload: Workload) -> Cell {
    let owing = workload.phases.iter().filter_map(|phase| phase.name.strip_suffix(DEBTS)).map(str::to_string).collect::<Vec<_>>();
    Cell::new(name, factors, settings, workload).measuring_each(owing.iter().map(String::as_str))
}

/// A, and A with db_bench's memtables, as the factor `part` and in names.
const A: &str = "A";
const FULL: &str = "A at db_bench's sizes,";

fn profiles(part: &str, memtable: u64, value: usize, keys: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (style, shape) in [("leveled", LEVELED), ("universal", UNIVERSAL)] {
        for (profile, wal) in [("stable", true), ("perf", false)] {
            let settings = database(vec![family("default", shape, memtable)], memtable, wal, !wal);
            let factors = [("part", part.trim_end_matches(',')), ("style", style), ("profile", profile)];
            let suffix = if part == FULL { ", db_bench's memtables" } else { "" };
            cells.push(cell(format!("{part} {style} {profile}"), &factors, settings, fill_and_overwrite(value, keys, suffix)));
        }
    }
    cells
}

fn shapes(sizes: &Sizes) -> Vec<Cell> {
    let stable = |shape| database(vec![family("default", shape, sizes.memtable())], sizes.memtable(), true, false);
    let basic = [("universal", UNIVERSAL), ("leveled", LEVELED)];
    let mut cells = Vec::new();
    for value in sizes.values {
        for (name, shape) in basic.into_iter().chain(SHAPES) {
            let bytes = format_bytes(value as u64);
            let factors = [("part", "B"), ("shape", name), ("value", &bytes)];
            cells.push(cell(shaped(name, value), &factors, stable(shape), fill_and_overwrite(value, sizes.keys, "")));
        }
    }
    for (name, shape) in basic {
        let bytes = format_bytes(sizes.values[0] as u64);
        let factors = [("part", "B control"), ("shape", name), ("value", &bytes)];
        let workload = fill_and_overwrite(sizes.values[0], 16 * sizes.keys, ", 16 times the keys");
        cells.push(cell(control(name), &factors, stable(shape), workload));
    }
    cells
}

fn shaped(shape: &str, value: usize) -> String {
    format!("B {shape}, {value} B")
}

fn control(shape: &str) -> String {
    format!("B {shape}, 16 times the keys")
}

/// End of the range of hot keys, as a share of the key space.
const HOT: f64 = 0.1;

/// Two families or one: name, style of hot keys, style of cold keys.
const SPLITS: [(&str, Shape, Option<Shape>); 6] = [
    ("one family, leveled", LEVELED, None),
    ("one family, universal", UNIVERSAL, None),
    ("two families, both leveled", LEVELED, Some(LEVELED)),
    ("two families, both universal", UNIVERSAL, Some(UNIVERSAL)),
    ("hot leveled, cold universal", LEVELED, Some(UNIVERSAL)),
    ("hot universal, cold leveled", UNIVERSAL, Some(LEVELED)),
];

/// One of two families, with half the memtable: both together have the memory of one. Tables and levels stay as they are.
fn half(name: &str, shape: Shape, memtable: u64) -> FamilySpec {
    let mut family = family(name, shape, memtable);
    family.settings.insert("write_buffer_size".to_string(), (memtable / 2).to_string());
    family
}

fn families(sizes: &Sizes) -> Vec<Cell> {
    let keys = 4 * sizes.keys;
    let hot_keys = (keys as f64 * HOT) as u64;
    let mut cells = Vec::new();
    for (name, hot, cold) in SPLITS {
        let list = match cold {
            None => vec![family("default", hot, sizes.memtable())],
            Some(cold) => [("hot", hot), ("cold", cold)].map(|(name, shape)| half(name, shape, sizes.memtable())).to_vec(),
        };
        let cold_family = cold.map(|_| "cold");
        let hot = |weight, distribution| putter("hot", weight, None, (0.0, HOT), distribution);
        let cold = |weight, distribution| putter("cold", weight, cold_family, (HOT, 1.0), distribution);
        let phases = vec![
            puts("load cold", keys - hot_keys, vec![cold(1.0, Distribution::Unique)]),
            puts("load hot", hot_keys, vec![hot(1.0, Distribution::Unique)]),
            settle("loaded"),
            puts("update", 3 * keys, vec![hot(0.9, Distribution::Uniform), cold(0.1, Distribution::Uniform)]),
            owed("update"),
        ];
        let workload = Workload::new("hot and cold keys", keys, (KEY, sizes.values[0]), phases);
        let settings = database(list, sizes.memtable(), true, false);
        cells.push(cell(format!("C {name}"), &[("part", "C"), ("families", name)], settings, workload));
    }
    cells
}

fn hypothesis(claim: &str, original: Option<&str>, needs: &[&str], groups: Vec<Group>) -> Hypothesis {
    let needs = needs.iter().map(|need| need.to_string()).collect();
    Hypothesis { original: original.map(str::to_string), needs, ..Hypothesis::new(claim, Metric::WriteAmplification, groups) }
}

fn hypotheses_on_profiles() -> Vec<Hypothesis> {
    let lower = |style: &'static str| {
        let compare = move |load: &&'static str| {
            let term = |profile: &str| Term::new(format!("A {style} {profile}"), *load);
            comparison(format!("{style}, {load}: perf to stable"), term("perf"), term("stable"), Bound::Below(LESS))
        };
        each(LOADS.iter().map(compare))
    };
    let four = |load: &str, above: [[&str; 2]; 2], below: [[&str; 2]; 2], name: &str, fold, bound| {
        let terms = |cells: [[&str; 2]; 2]| cells.map(|[style, profile]| Term::new(format!("A {style} {profile}"), load)).to_vec();
        Comparison { name: format!("{load}: {name}"), above: terms(above), below: terms(below), fold, bound }
    };
    let [leveled, universal] = ["leveled", "universal"].map(|style| [[style, "perf"], [style, "stable"]]);
    let shares = LOADS.map(|load| {
        let (above, below) = ([leveled[0], universal[1]], [leveled[1], universal[0]]);
        four(load, above, below, "perf to stable, leveled to universal", Fold::Product, Bound::Below(LESS))
    });
    let differences = LOADS.map(|load| {
        let (above, below) = ([leveled[1], universal[0]], [leveled[0], universal[1]]);
        let name = "stable of leveled + perf of universal, to perf of leveled + stable of universal";
        four(load, above, below, name, Fold::Sum, Bound::Apart(INTERACTION))
    });
    let needs = ["compaction_style"];
    vec![
        hypothesis(
            "A: profile perf (no log) lowers write amplification, of leveled and of universal compaction",
            Some("accepted: by about 35 % (leveled) and about 23 % (universal)"),
            &needs,
            lower("leveled").into_iter().chain(lower("universal")).collect(),
        ),
        hypothesis(
            "A: of its write amplification, leveled compaction saves the larger share by profile perf",
            Some("yes: about 35 % against about 23 %"),
            &needs,
            each(shares.into_iter()),
        ),
        hypothesis(
            "A: the log interacts with the compaction style: what profile perf saves, in bytes written per byte of the user, depends on it",
            None,
            &needs,
            each(differences.into_iter()),
        ),
    ]
}

/// The original's explanation of A: without the log, memtables are flushed less often, into larger tables. With db_bench's memtables also
/// whether less is written, which [`hypotheses_on_profiles`] asks of A.
fn explanations(part: &'static str) -> Vec<Hypothesis> {
    let compare = |bound: Bound| {
        let of = |style: &'static str| {
            LOADS.map(|load| {
                let term = |profile: &str| Term::new(format!("{part} {style} {profile}"), load);
                comparison(format!("{style}, {load}: perf to stable"), term("perf"), term("stable"), bound)
            })
        };
        each(["leveled", "universal"].into_iter().flat_map(of))
    };
    let claims = [
        (
            "without the log, less is written",
            "accepted: by about 35 % (leveled) and about 23 % (universal)",
            Metric::WriteAmplification,
            LESS,
        ),
        ("without the log there are fewer flushes", "the explanation of the authors", Metric::Flushes, LESS),
        ("and each flush writes a larger table", "the explanation of the authors", Metric::FlushedTableBytes, MORE),
    ];
    let asked = claims.into_iter().filter(|(_, _, metric, _)| part == FULL || *metric != Metric::WriteAmplification);
    let made = |(text, original, metric, x): (&str, &str, Metric, f64)| {
        let bound = if x > 1.0 { Bound::Above(x) } else { Bound::Below(x) };
        let claim = format!("{}: {text}", part.trim_end_matches(','));
        Hypothesis { metric, ..hypothesis(&claim, Some(original), &["compaction_style"], compare(bound)) }
    };
    asked.map(made).collect()
}

fn hypotheses_on_shapes(sizes: &Sizes) -> Vec<Hypothesis> {
    let cases: Vec<(usize, &str)> = sizes.values.iter().flat_map(|value| LOADS.map(|load| (*value, load))).collect();
    let compare = |(value, load): (usize, &str), above: &str, below: &str, bound| {
        let term = |shape: &str| Term::new(shaped(shape, value), load);
        comparison(format!("{load}, {value} B: {above} to {below}"), term(above), term(below), bound)
    };
    let deep = cases.iter().filter(|(value, load)| sizes.tree(*value, load) > sizes.two_levels());
    let over_all = |above: &str, below: &str, bound| each(cases.iter().map(|case| compare(*case, above, below, bound)));
    let near = cases.iter().map(|case| Group {
        name: format!("{}, {} B, to universal", case.1, case.0),
        any_of: [("leveled", LEVELED)]
            .iter()
            .chain(&SHAPES)
            .map(|(name, _)| compare(*case, name, "universal", Bound::Below(NEAR)))
            .collect(),
    });
    let growth = |small: &dyn Fn(&str) -> String, what: &str| {
        let large = sizes.values[2];
        each(LOADS.iter().map(|load| Comparison {
            name: format!("{load}: distance at {large} B to that at {} B{what}", sizes.values[0]),
            above: vec![Term::new(shaped("leveled", large), *load), Term::new(small("universal"), *load)],
            below: vec![Term::new(shaped("universal", large), *load), Term::new(small("leveled"), *load)],
            fold: Fold::Product,
            bound: Bound::Above(MORE),
        }))
    };
    let (style, base, fan_out) = ("compaction_style", "max_bytes_for_level_base", "max_bytes_for_level_multiplier");
    let bound = Bound::Above(MORE);
    vec![
        hypothesis(
            "B: leveled compaction can be shaped until its write amplification is within 10 % of universal compaction's",
            Some("undecided: a smaller base and fan-out come nearer, a distance remains"),
            &[style, base, fan_out],
            near.collect(),
        ),
        hypothesis("B: leveled compaction writes more than universal", Some("yes"), &[style], over_all("leveled", "universal", bound)),
        hypothesis(
            "B: the distance of leveled to universal grows with the value size",
            Some("yes"),
            &[style],
            growth(&|shape: &str| shaped(shape, sizes.values[0]), ""),
        ),
        hypothesis(
            "B control: the distance grows with the value size also where the database is as large",
            None,
            &[style],
            growth(&control, " with 16 times the keys"),
        ),
        hypothesis(
            "B: a smaller base lowers it",
            Some("yes"),
            &[base],
            over_all("leveled base / 4", "leveled base * 2", Bound::Below(LESS)),
        ),
        hypothesis(
            "B: a smaller fan-out lowers it, where the tree outgrows level 2 under the smallest",
            Some("yes"),
            &[fan_out],
            each(deep.map(|case| compare(*case, "leveled fan-out 4", "leveled fan-out 20", Bound::Below(LESS)))),
        ),
    ]
}

fn hypotheses_on_families() -> Vec<Hypothesis> {
    let than = |others: [&'static str; 2]| {
        each(others.into_iter().map(|other| {
            let term = |name: &str| Term::new(format!("C {name}"), "update");
            let mixed = "hot leveled, cold universal";
            comparison(format!("{mixed}, to {other}"), term(mixed), term(other), Bound::Below(LESS))
        }))
    };
    vec![
        hypothesis(
            "C: hot keys on leveled and cold keys on universal compaction write less than one family for both",
            None,
            &["compaction_style"],
            than(["one family, leveled", "one family, universal"]),
        ),
        hypothesis(
            "C: hot keys on leveled and cold keys on universal compaction write less than two families of one style",
            None,
            &["compaction_style"],
            than(["two families, both leveled", "two families, both universal"]),
        ),
    ]
}
