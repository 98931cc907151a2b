//! Tests of the original's sizes, of limits that machines do not permit, and of claims that compare engines.

use super::super::folder::Folder;
use super::super::judge::{Results, judge};
use super::super::metric::Metric;
use super::super::plan::{Permits, Request, Scale, Study};
use super::NAME;
use crate::result::Space;
use crate::run::{Answer, Limits, PhaseKind, PhaseRecord, RunRecord, RunSpec};
use crate::study::{catalogue, testing};
use std::collections::{BTreeMap, BTreeSet};

fn study(scale: Scale, engines: &[&str], permits: Permits) -> Study {
    let limits = Limits { memory_bytes: Some(1 << 40), ..Limits::default() };
    let request = Request { limits, permits, ..testing::request(engines, 3) };
    catalogue::study(NAME, scale, &request).unwrap()
}

fn claim<'a>(study: &'a Study, start: &str) -> &'a super::super::plan::Hypothesis {
    study.hypotheses.iter().find(|hypothesis| hypothesis.claim.starts_with(start)).unwrap()
}

#[test]
fn paper_has_the_sizes_of_the_original() {
    let study = study(Scale::Paper, &["sinter", "rocksdb"], Permits { cpus: 2, memory: Ok(4 << 30), quota: Ok(()) });
    let cell = |name: &str| study.cell(name, "sinter").unwrap_or_else(|| panic!("no cell {name}"));
    let a = cell("A adaptive, 2 CPUs, 1GiB");
    assert_eq!((a.workload.keys, a.limits), (2_000_000, Limits { cpus: Some(2), memory_bytes: Some(1 << 30), cpu_percent: None }));
    let settings = &a.settings.families[0].settings;
    assert_eq!((settings["block_cache"].as_str(), settings["block_size"].as_str()), ("134217728", "4096"));
    let expected = "kNoCompression:kNoCompression:kLZ4Compression:kLZ4Compression:kZSTD:kZSTD:kZSTD";
    assert_eq!(settings["compression_per_level"], expected);
    let b = cell("B none x2, lz4 x3, zstd x2");
    assert_eq!((b.workload.keys, b.settings.families[0].settings["block_cache"].as_str()), (1_000_000, "268435456"));
    let threads = b.workload.phases.iter().filter_map(|phase| match phase.kind {
        PhaseKind::Load { threads, .. } | PhaseKind::Run { threads, .. } => Some(threads),
        _ => None,
    });
    assert!(threads.into_iter().all(|threads| threads == 1));
    assert_eq!(
        study.cells.len(),
        5 * 2 * 3 + 6 + 6 * 2 + 6 + 9,
        "strategies by processors and memory, B's, C's by processors, D's and E's"
    );
    assert_eq!(study.left_out.len(), 3, "{:?}", study.left_out);
    assert!(study.left_out[0].contains("4, 6 processors: a run may use 2") && study.left_out[1].contains("8GiB of memory"));
}

/// The OPTIONS text of a cell means its strategy on both engines, on every level, with equal effort.
#[test]
fn strategies_mean_what_they_say() {
    let study = study(Scale::Small, &["sinter"], Permits::all());
    let lists: BTreeMap<&str, String> = study
        .cells
        .iter()
        .filter(|cell| cell.engines.is_empty() && cell.factors.contains_key("strategy"))
        .map(|cell| {
            let file = cell.settings.options().unwrap();
            assert_eq!(file.report().len(), 0, "{:?}", file.report());
            let settings = &file.families[0].1;
            assert_eq!((settings.bloom_bits_per_key, settings.level_compaction_dynamic_level_bytes), (0.0, false));
            let levels = (0..7).map(|level| {
                let compression = settings.compression_at(level);
                let effort = compression.level.map_or(String::new(), |level| format!(":{level}"));
                compression.codec.name().to_string() + &effort
            });
            (cell.factors["strategy"].as_str(), levels.collect::<Vec<_>>().join(" "))
        })
        .collect();
    assert_eq!(lists["adaptive"], "none none lz4 lz4 zstd:3 zstd:3 zstd:3");
    assert_eq!(lists["all_zstd"], ["zstd:3"; 7].join(" "));
    assert_eq!(lists["none x2, lz4 x3, zstd x2"], "none none lz4 lz4 lz4 zstd:3 zstd:3");
    assert_eq!(lists["none x2, zstd x5"], "none none zstd:3 zstd:3 zstd:3 zstd:3 zstd:3");
    assert_eq!(lists["no_comp"], ["none"; 7].join(" "));
    assert_eq!(lists.len(), 9);
}

#[test]
fn what_is_not_permitted_is_left_out_and_named() {
    let refused = Permits { cpus: 1, memory: Err("no cgroup".into()), quota: Ok(()) };
    let study = study(Scale::Small, &["sinter"], refused);
    assert_eq!(study.left_out.len(), 2, "{:?}", study.left_out);
    assert!(study.left_out[1].contains("64MiB, 128MiB, 256MiB of memory are not permitted (no cgroup)"), "{:?}", study.left_out);
    assert_eq!(study.cells.len(), 5 + 6 + 6 + 6 + 9);
    let spec = |cell: &str| study.spec(study.runs().iter().find(|run| run.cell == cell).unwrap()).unwrap();
    let expected = Limits { cpus: Some(1), memory_bytes: Some(1 << 40), cpu_percent: None };
    assert_eq!(spec("A no_comp, 1 CPU").limits, expected, "the rest is the request's");
    let claims: Vec<&str> = study.hypotheses.iter().map(|hypothesis| hypothesis.claim.as_str()).collect();
    assert!(claims.iter().all(|claim| !claim.contains("processors")), "one number of processors says nothing of more: {claims:?}");
    let least = self::study(Scale::Ci, &["sinter"], Permits { cpus: 2, memory: Err("no cgroup".into()), quota: Ok(()) });
    assert!(least.left_out.is_empty(), "it asks for no memory");
}

#[test]
fn only_sinterdb_chooses_itself() {
    let both = study(Scale::Ci, &["sinter", "rocksdb"], Permits::all());
    let runs = both.runs();
    assert!(runs.iter().filter(|run| run.engine == "rocksdb").all(|run| !run.cell.contains("auto")));
    assert_eq!(runs.len(), 3 * (28 + 23 + 6 + 4 + 2 * 9));
    let numbers: BTreeSet<usize> = runs.iter().map(|run| run.number).collect();
    assert_eq!(numbers.len(), runs.len());
    let alone = study(Scale::Ci, &["rocksdb"], Permits::all());
    assert!(alone.runs().iter().all(|run| !run.cell.contains("auto")));
    assert!(alone.hypotheses.iter().all(|hypothesis| hypothesis.engine.is_none()), "claims about an engine need that engine");
    assert_eq!(claim(&both, "B: SinterDB reads faster").engine.as_deref(), Some("sinter"));
}

/// An invented record. `rate`: operations per second.
fn record(spec: RunSpec, rate: f64) -> RunRecord {
    let store_bytes = if spec.engine.name == "sinter" { 900 } else { 1000 };
    let space = Space { store_bytes, ..Space::default() };
    testing::record(spec, &PhaseRecord { operations: 1000, seconds: 1000.0 / rate, space, ..PhaseRecord::default() })
}

fn judged(study: &Study, rate: impl Fn(&str, &str) -> f64, complaint: impl Fn(&str) -> bool) -> BTreeMap<String, (Answer, String)> {
    let directory = tempfile::tempdir().unwrap();
    let folder = Folder::create(&directory.path().join("results"), study).unwrap();
    for run in study.runs() {
        let mut record = record(study.spec(&run).unwrap(), rate(run.cell, run.engine) + f64::from(run.repeat));
        record.confinement.complaint = complaint(run.cell).then(|| "limits.cpus: not permitted".to_string());
        folder.keep(&run, &record).unwrap();
    }
    let findings = judge(study, &Results::read(study, &folder).unwrap());
    let named = findings.into_iter().map(|finding| {
        let verdict = finding.verdict;
        (format!("{}, {}", verdict.engine, verdict.hypothesis), (verdict.verdict, verdict.statistics))
    });
    named.collect()
}

fn answer<'a>(verdicts: &'a BTreeMap<String, (Answer, String)>, start: &str) -> &'a (Answer, String) {
    verdicts.iter().find(|(name, _)| name.starts_with(start)).unwrap_or_else(|| panic!("no {start}")).1
}

#[test]
fn engines_are_compared_with_each_other_and_auto_with_the_best() {
    let study = study(Scale::Ci, &["sinter", "rocksdb"], Permits::all());
    let rate = |cell: &str, engine: &str| match (engine, cell) {
        ("rocksdb", _) => 50_000.0,
        (_, "B auto") => 99_000.0,
        (_, "B all lz4") => 100_000.0,
        _ if cell.starts_with("A auto") => 90_000.0,
        _ if cell.starts_with("C auto") => 79_000.0,
        _ => 80_000.0,
    };
    let verdicts = judged(&study, rate, |_| false);
    for of in ["of a whole workload", "of a phase"] {
        assert_eq!(answer(&verdicts, &format!("sinter, auto never loses more than 5 % of operations per second {of}")).0, Answer::Accepted);
    }
    assert_eq!(answer(&verdicts, "sinter, auto beats").0, Answer::Rejected);
    let (ahead, statistics) = answer(&verdicts, "sinter, B: SinterDB reads faster than RocksDB with every strategy (");
    assert_eq!(*ahead, Answer::Accepted);
    assert!(!statistics.contains("several versions"), "two engines have two versions: {statistics}");
    assert_eq!(answer(&verdicts, "sinter, B: SinterDB's files are no larger").0, Answer::Accepted);
    assert!(!verdicts.keys().any(|name| name.starts_with("rocksdb, B: SinterDB") || name.starts_with("rocksdb, auto")));
    assert_eq!(answer(&verdicts, "rocksdb, A: throughput").0, Answer::Rejected, "twice the processors, the same rate");
    let slower = judged(&study, |cell, engine| if cell == "B auto" { 70_000.0 } else { rate(cell, engine) }, |_| false);
    for of in ["of a whole workload", "of a phase"] {
        assert_eq!(answer(&slower, &format!("sinter, auto never loses more than 5 % of operations per second {of}")).0, Answer::Rejected);
    }
}

#[test]
fn runs_whose_limits_did_not_hold_decide_nothing() {
    let study = study(Scale::Ci, &["sinter"], Permits::all());
    let rate = |cell: &str, _: &str| if cell.contains("no_comp") { 10_000.0 } else { 90_000.0 };
    assert_eq!(answer(&judged(&study, rate, |_| false), "sinter, A: compressing").0, Answer::Accepted);
    let (verdict, statistics) = answer(&judged(&study, rate, |cell| cell == "A no_comp, 2 CPUs"), "sinter, A: compressing").clone();
    assert_eq!(verdict, Answer::Undecided);
    assert!(statistics.contains("2 CPUs: adaptive to no_comp: not run"), "{statistics}");
}

/// RocksDB counts hits; SinterDB counts nothing on a hit, so they follow from reads and misses.
#[test]
fn cache_hits_follow_from_what_engines_count() {
    let study = study(Scale::Ci, &["sinter"], Permits::all());
    let mut record = record(study.spec(&study.runs()[0]).unwrap(), 10.0);
    let tickers = |pairs: &[(&str, u64)]| pairs.iter().map(|(name, count)| (format!("rocksdb.{name}"), *count)).collect();
    record.phases[0].tickers = tickers(&[("block.cache.data.miss", 10), ("number.keys.read", 100), ("memtable.hit", 50)]);
    record.phases[1].tickers = tickers(&[("block.cache.data.miss", 30), ("number.keys.read", 200), ("memtable.hit", 70)]);
    let name = [record.phases[1].name.clone()];
    assert_eq!(Metric::CacheHits.of(&record, &name), Some(0.75), "80 looks, 20 misses");
    assert_eq!(Metric::CompressedCacheHits.of(&record, &name), None);
    record.phases[1].tickers.extend::<BTreeMap<_, _>>(tickers(&[("compressed.secondary.cache.hits", 16)]));
    record.phases[0].tickers.extend::<BTreeMap<_, _>>(tickers(&[("compressed.secondary.cache.hits", 0)]));
    assert_eq!(Metric::CompressedCacheHits.of(&record, &name), Some(0.2));
    record.phases[0].tickers = tickers(&[("block.cache.data.miss", 1), ("block.cache.data.hit", 1)]);
    record.phases[1].tickers = tickers(&[("block.cache.data.miss", 2), ("block.cache.data.hit", 10)]);
    assert_eq!(Metric::CacheHits.of(&record, &name), Some(0.9));
    record.phases[1].cpu_seconds = 2.0;
    assert_eq!(Metric::CpuPerOperation.of(&record, &name), Some(2e6));
    assert_eq!(Metric::ReadPerOperation.of(&record, &name), None, "a record of an older version");
    record.phases[1].process_read_bytes = Some(4_000_000);
    assert_eq!(Metric::ReadPerOperation.of(&record, &name), Some(4000.0));
    assert_eq!(Metric::StoreBytes.of(&record, &name), Some(900.0));
}

/// A figure is absent if the engine did not count it and it does not follow from other counters.
#[test]
fn cache_hits_that_nobody_counted_are_no_figure() {
    let study = study(Scale::Ci, &["sinter"], Permits::all());
    let mut record = record(study.spec(&study.runs()[0]).unwrap(), 10.0);
    let name = [record.phases[1].name.clone()];
    let mut of = |pairs: &[(&str, u64)]| {
        record.phases[0].tickers = BTreeMap::new();
        record.phases[1].tickers = pairs.iter().map(|(name, count)| (format!("rocksdb.{name}"), *count)).collect();
        [Metric::CacheHits, Metric::CompressedCacheHits].map(|metric| metric.of(&record, &name))
    };
    let packed = ("compressed.secondary.cache.hits", 5);
    assert_eq!(of(&[("block.cache.data.miss", 20), ("number.keys.read", 100), packed]), [Some(0.8), Some(0.05)]);
    assert_eq!(of(&[("block.cache.data.miss", 20), ("number.multiget.keys.read", 100), packed]), [Some(0.8), Some(0.05)]);
    assert_eq!(of(&[("block.cache.data.miss", 20), ("number.keys.read", 0), ("number.db.seek", 9), packed]), [None, None], "scans");
    assert_eq!(of(&[("block.cache.data.miss", 20), ("number.keys.read", 100), ("number.db.seek", 9), packed]), [None, None], "and gets");
    assert_eq!(of(&[("block.cache.data.miss", 20), ("number.keys.read", 10), packed]), [None, None], "reads of somebody else");
    assert_eq!(of(&[("number.keys.read", 100)]), [None, None], "a cache that is off, or misses that nobody counted");
    assert_eq!(of(&[]), [None, None]);
    // RocksDB's tickers that are 0 are left out.
    assert_eq!(of(&[("block.cache.data.hit", 100), ("number.db.seek", 9), packed]), [Some(1.0), Some(0.05)]);
    let both = [record.phases[0].name.clone(), name[0].clone()];
    assert_eq!(Metric::CacheHits.of(&record, &both), Some(1.0), "none in the first phase, all in the second");
}
