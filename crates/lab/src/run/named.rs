//! Named workloads, as data.

use super::spec::{Distribution, Mix, Order, Phase, PhaseKind, Workload};

/// A part of a workload: name, weight, range, distribution, operations.
type Part = (&'static str, f64, (f64, f64), Distribution, &'static [(&'static str, f64)]);

const ALL: (f64, f64) = (0.0, 1.0);
/// YCSB's constant (core/src/main/java/site/ycsb/generator/ZipfianGenerator.java, `ZIPFIAN_CONSTANT`).
const ZIPF: Distribution = Distribution::Zipf(0.99);

/// The named workloads. YCSB's are those of its paper (Cooper et al., SoCC 2010, table 2) with the parameters of its files
/// `workloads/workload[a-f]`: records of ten fields of 100 bytes, and scans of 1 to 100 records. What differs: keys of 24 bytes are
/// numbers (of YCSB `user` and up to 20 digits), spread by a permutation (of YCSB by a hash); requests other than `latest` ask for
/// loaded keys only; values are written whole.
///
/// `mixed-lifetime`: keys that live short (2 % of them get 60 % of the writes, a tenth of which delete), middle (18 % get 30 %) and long
/// (80 % get 10 %): of n keys a value lives for about n / 30, 0.6 n and 8 n writes until it is overwritten.
///
/// `hot-cold`: a tenth of the keys gets nine tenths of the requests, half of them reads.
pub const NAMED: &[(&str, &[Part])] = &[
    ("ycsb-a", &[("all", 1.0, ALL, ZIPF, &[("get", 0.5), ("put", 0.5)])]),
    ("ycsb-b", &[("all", 1.0, ALL, ZIPF, &[("get", 0.95), ("put", 0.05)])]),
    ("ycsb-c", &[("all", 1.0, ALL, ZIPF, &[("get", 1.0)])]),
    ("ycsb-d", &[("all", 1.0, ALL, Distribution::Latest(0.99), &[("get", 0.95), ("insert", 0.05)])]),
    ("ycsb-e", &[("all", 1.0, ALL, ZIPF, &[("scan", 0.95), ("insert", 0.05)])]),
    ("ycsb-f", &[("all", 1.0, ALL, ZIPF, &[("get", 0.5), ("read_modify_write", 0.5)])]),
    (
        "mixed-lifetime",
        &[
            ("short", 0.6, (0.0, 0.02), Distribution::Uniform, &[("put", 0.9), ("delete", 0.1)]),
            ("middle", 0.3, (0.02, 0.2), Distribution::Uniform, &[("put", 1.0)]),
            ("long", 0.1, (0.2, 1.0), Distribution::Uniform, &[("put", 1.0)]),
        ],
    ),
    (
        "hot-cold",
        &[
            ("hot", 0.9, (0.0, 0.1), Distribution::Uniform, &[("get", 0.5), ("put", 0.5)]),
            ("cold", 0.1, (0.1, 1.0), Distribution::Uniform, &[("get", 0.5), ("put", 0.5)]),
        ],
    ),
];

/// Longest scan of YCSB E.
const SCAN_LENGTH: usize = 100;

/// A named workload over `keys` keys: they are loaded in random order, the store settles, and `operations` run in a closed loop, by
/// `threads` threads. `None` if the name is not in [`NAMED`].
pub fn named(name: &str, keys: u64, operations: u64, threads: usize) -> Option<Workload> {
    let (name, parts) = NAMED.iter().find(|(known, _)| *known == name)?;
    let mix = |&(name, weight, range, distribution, operations): &Part| Mix {
        name: name.into(),
        weight,
        range,
        scan_length: SCAN_LENGTH,
        ..Mix::all(distribution, operations.iter().copied())
    };
    let run = Phase::requests("run", parts.iter().map(mix).collect(), operations, threads);
    let phases = vec![Phase::load("load", Order::Random, threads), Phase::new("settle", PhaseKind::Settle), run];
    Some(Workload::new(*name, keys, (24, 1000), phases))
}
