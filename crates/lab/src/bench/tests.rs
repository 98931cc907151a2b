use super::*;
use crate::drive::{Failed, Interrupted, Opened};
use crate::run::Source;
use crate::system::model::{Model, ModelOpener, ModelSystem};
use crate::system::{FLUSHES, INDEX_BYTES, SinterOpener, SinterSystem};
use sinterdb::DEFAULT_FAMILY;
use sinterdb::settings::{DbSettings, FamilySettings};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

impl Engine for ModelOpener {
    type System = ModelSystem;

    fn open(&self, spec: &EngineSpec, _: &Path) -> Outcome<Opened<ModelSystem>> {
        let system = self.open(spec.in_place == Some(InPlace::New));
        let (version, compression) = ("model 1".to_string(), BTreeMap::new());
        Ok(Opened { system, version, ignored_settings: Vec::new(), compression, source: Source::Engine })
    }
}

fn config() -> BenchConfig {
    BenchConfig { num: 1000, ..BenchConfig::default() }
}

/// The run of a list of workloads.
fn bench(config: &BenchConfig, workloads: &str) -> Bench {
    assert_eq!(config.validate(), Vec::<String>::new());
    let families = vec![crate::run::FamilySpec { name: DEFAULT_FAMILY.into(), settings: BTreeMap::new() }];
    let engine = EngineSpec { name: "sinter".into(), families, wal: true, ..EngineSpec::default() };
    let bench = Bench::new(config, &parse_workloads(workloads).unwrap(), engine, "/tmp".into());
    assert_eq!(bench.spec.validate(), Vec::<String>::new());
    bench
}

/// Results of workloads by name, without the skipped ones, and the failure.
fn run_on<E: Engine>(engine: &E, config: &BenchConfig, workloads: &str) -> (Vec<PhaseRecord>, Option<Failed>) {
    let mut results = Vec::new();
    let (record, failed) = bench(config, workloads).run(engine, &AtomicBool::new(false), &|_, _, _| {}, |_, result| {
        results.extend(result.cloned());
        Ok(())
    });
    assert_eq!(record.failure.is_some(), failed.is_some());
    (results, failed)
}

fn run(config: &BenchConfig, workloads: &str) -> (Vec<PhaseRecord>, ModelOpener) {
    let opener = ModelOpener::default();
    let (results, failed) = run_on(&opener, config, workloads);
    assert!(failed.is_none(), "{failed:?}");
    (results, opener)
}

/// Threads of the first phase.
fn threads(config: &BenchConfig, workload: &str) -> usize {
    let PhaseKind::Run { threads, .. } = bench(config, workload).spec.workload.phases[0].kind else { panic!() };
    threads
}

fn keys(model: &Model) -> Vec<u64> {
    model.read().keys().map(|key| u64::from_be_bytes(*key.first_chunk().unwrap())).collect()
}

#[test]
fn fillseq_writes_every_key_once() {
    let (results, opener) = run(&config(), "fillseq");
    assert_eq!(keys(&opener.0), (0..1000).collect::<Vec<_>>());
    let result = &results[0];
    assert_eq!((result.operations, result.bytes), (1000, 116_000));
    assert_eq!(result.space.live_keys, Some(1000));
    assert_eq!(result.latency.as_ref().map(|l| l.count), Some(1000));
    assert_eq!(result.latency.as_ref().map(|l| l.buckets.iter().map(|b| b.1).sum()), Some(1000));
    // The model reports two written bytes and three bytes of space for each user byte.
    assert_eq!(result.written.write_amplification, Some(2.0));
    assert_eq!(result.space.space_amplification, Some(3.0));
    assert_eq!(result.space.table_space_amplification, Some(1.0));
}

#[test]
fn filluniquerandom_writes_every_key_once_in_another_order() {
    let (results, opener) = run(&BenchConfig { threads: 4, ..config() }, "filluniquerandom");
    assert_eq!(keys(&opener.0).len(), 1000);
    assert_eq!((threads(&BenchConfig { threads: 4, ..config() }, "filluniquerandom"), results[0].operations), (1, 1000));
}

#[test]
fn every_thread_does_the_whole_count() {
    let (results, _) = run(&BenchConfig { threads: 3, reads: Some(50), ..config() }, "fillrandom,readrandom");
    assert_eq!((results[0].operations, results[1].operations), (3000, 150));
    assert_eq!(results[1].found.unwrap().asked, 150);
}

#[test]
fn live_keys_are_counted_without_being_watched() {
    let names = "fillrandom,overwrite,deleterandom,updaterandom,deleterandom,readwhilewriting,readrandomwriterandom,fillseq,deleteseq[X2]";
    for threads in [1, 3] {
        for batch_size in [1, 7] {
            for zipf_alpha in [0.0, 1.1] {
                let opener = ModelOpener::default();
                let config = BenchConfig { threads, batch_size, zipf_alpha, deletes: Some(300), ..config() };
                let check = |_: Workload, result: Option<&PhaseRecord>| {
                    let (there, result) = (opener.0.read().len() as u64, result.unwrap());
                    let name = &result.name;
                    assert_eq!(result.space.live_keys, Some(there), "{name} threads {threads} batch {batch_size} zipf {zipf_alpha}");
                    Ok(())
                };
                let (_, failed) = bench(&config, names).run(&opener, &AtomicBool::new(false), &|_, _, _| {}, check);
                assert!(failed.is_none(), "{failed:?}");
            }
        }
    }
}

#[test]
fn loads_begin_with_nothing() {
    let (_, opener) = run(&BenchConfig { writes: Some(10), ..config() }, "fillseq,overwrite,fillseq");
    assert_eq!(keys(&opener.0), (0..10).collect::<Vec<_>>());
}

#[test]
fn an_existing_database_is_kept_and_loads_are_skipped() {
    let opener = ModelOpener::default();
    assert!(run_on(&opener, &config(), "fillseq").1.is_none());
    let kept = BenchConfig { use_existing_db: true, ..config() };
    let mut printed = Vec::new();
    let (record, failed) =
        bench(&kept, "fillrandom,readrandom,fillseq").run(&opener, &AtomicBool::new(false), &|_, _, _| {}, |workload, result| {
            Ok(print_workload(workload, result, false, &mut printed)?)
        });
    assert!(failed.is_none(), "{failed:?}");
    let found = record.phases[0].found.unwrap();
    assert_eq!((record.phases.len(), found.found), (1, 1000));
    assert_eq!((record.phases[0].space.live_keys, record.phases[0].space.space_amplification), (None, None));
    let text = String::from_utf8(printed).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    assert!(lines[0].starts_with("fillrandom   : skipped (") && lines[1].starts_with("readrandom   : "), "{text}");
    assert!(lines[2].starts_with("fillseq      : skipped ("), "{text}");
    assert!(run_on(&opener, &kept, "fillrandom").0.is_empty(), "nothing but skipped workloads");
}

/// Reading an existing database does not repeat the order in which it was filled.
#[test]
fn workloads_of_two_runs_draw_differently() {
    let salts = |workload: &str| match &bench(&config(), workload).spec.workload.phases[0].kind {
        PhaseKind::Run { calls, .. } => calls.salt,
        other => panic!("{other:?}"),
    };
    assert!(salts("fillrandom") > 0 && salts("fillrandom") != salts("readrandom"));
}

#[test]
fn reads_find_what_is_there_and_nothing_else() {
    for batch_size in [1, 16] {
        let config = BenchConfig { batch_size, seek_nexts: 3, ..config() };
        let (results, _) = run(&config, "fillseq,readrandom,multireadrandom,seekrandom,readmissing,readseq,readreverse");
        for result in &results[1..4] {
            let found = result.found.unwrap();
            assert_eq!((found.found, found.asked, result.operations), (1000, 1000, 1000), "{}", result.name);
        }
        assert_eq!(results[1].bytes, 116_000);
        assert_eq!(results[2].bytes, 116_000);
        assert!(results[3].bytes > 2 * 116_000, "seeks step on");
        assert_eq!((results[4].found.unwrap().found, results[4].bytes), (0, 0));
        assert_eq!((results[5].operations, results[5].bytes), (1000, 116_000));
        assert_eq!((results[6].operations, results[6].bytes), (1000, 116_000));
    }
}

#[test]
fn walks_end_with_the_data() {
    let (results, _) = run(&BenchConfig { writes: Some(10), ..config() }, "fillseq,readseq,readreverse");
    assert_eq!((results[1].operations, results[2].operations), (10, 10));
}

#[test]
fn readwhilewriting_has_one_writer_more() {
    let config = BenchConfig { threads: 2, ..config() };
    let (results, _) = run(&config, "fillseq,readwhilewriting,seekrandomwhilewriting");
    for result in &results[1..] {
        assert_eq!(result.operations, 2000);
        let writer = result.background_writer.unwrap();
        assert_eq!(result.written.user_bytes, writer.operations * 116);
    }
}

#[test]
fn batches_are_committed_together() {
    let (results, opener) = run(&BenchConfig { batch_size: 300, ..config() }, "fillseq");
    assert_eq!((results[0].operations, opener.0.commits.load(Ordering::Relaxed)), (1000, 4));
    assert_eq!(results[0].latency.as_ref().unwrap().count, 4);
}

#[test]
fn fillsync_writes_a_thousandth_of_the_keys_durably() {
    let (results, opener) = run(&BenchConfig { num: 5000, ..config() }, "fillsync");
    assert_eq!((results[0].operations, opener.0.synced_sessions.load(Ordering::Relaxed)), (5000, 1));
    assert_eq!(keys(&opener.0), (0..5).collect::<Vec<_>>());
}

#[test]
fn no_writes_means_the_default_as_in_db_bench() {
    let (results, _) = run(&BenchConfig { writes: Some(0), reads: Some(0), ..config() }, "fillseq,overwrite,readrandom");
    assert_eq!(results.iter().map(|r| r.operations).collect::<Vec<_>>(), [1000, 1000, 0]);
}

/// A limit of 40 KB/s, of which a tenth of a second may be saved up: however many threads do 100 writes of 116 bytes, the last request
/// waits until all bytes before it have had their time.
#[test]
fn the_write_rate_holds_for_all_writers_together() {
    for (threads, batch_size, writes) in [(1, 1, 100), (2, 1, 50), (1, 10, 100)] {
        let config = BenchConfig { threads, batch_size, writes: Some(writes), benchmark_write_rate_limit: 40_000, ..config() };
        let (results, _) = run(&config, "fillrandom,updaterandom,deleterandom");
        let least = (100 - batch_size) as f64 * 116.0 / 40_000.0 - 0.1;
        assert!(results[0].seconds > least - 0.005, "{threads} threads, batches of {batch_size}: {}", results[0].seconds);
    }
    let config = BenchConfig { duration: 1, benchmark_write_rate_limit: 40_000, ..config() };
    let (results, _) = run(&BenchConfig { num: 10, ..config }, "fillseq,readwhilewriting,updaterandom");
    let most = |seconds: f64| (40_000.0 * (seconds + 0.2) / 116.0) as u64;
    let writer = results[1].background_writer.unwrap();
    let seconds = writer.operations as f64 / writer.operations_per_second;
    assert!(writer.operations > 0 && writer.operations <= most(seconds), "{writer:?}");
    assert!(results[2].operations <= most(results[2].seconds), "{:?}", results[2]);
    // A limit that lets nothing through must not keep the workload from ending.
    run(&BenchConfig { num: 10, benchmark_write_rate_limit: 1, ..config }, "readwhilewriting,overwrite");
}

#[test]
fn more_keys_than_can_be_tracked_are_not_tracked() {
    let (results, _) = run(&BenchConfig { num: 1 << 50, reads: Some(10), writes: Some(10), ..config() }, "fillrandom,readrandom");
    assert_eq!((results[0].operations, results[0].space.live_keys), (10, None));
}

#[test]
fn a_duration_replaces_the_count() {
    for time_operations in [true, false] {
        let (results, _) = run(&BenchConfig { duration: 1, time_operations, reads: Some(1), ..config() }, "fillseq,readrandom");
        assert_eq!(results[0].operations, 1000, "work in key order ends by count");
        assert!(results[1].operations > 1 && results[1].seconds >= 0.9, "{:?}", results[1]);
        assert_eq!(results[1].latency.is_some(), time_operations);
    }
}

#[test]
fn a_failure_ends_the_run_and_keeps_the_results_so_far() {
    for (workloads, at) in [("fillseq,overwrite,readrandom", 1500), ("fillseq,readwhilewriting,readrandom", 1001)] {
        let opener = ModelOpener::default();
        opener.0.fail_after.store(at, Ordering::Relaxed);
        // Far more reads than the writer needs to fail.
        let config = BenchConfig { threads: 1, reads: Some(100_000_000), ..config() };
        let (results, failed) = run_on(&opener, &config, workloads);
        let failed = failed.unwrap();
        assert_eq!((failed.failure.to_string().as_str(), failed.phase), ("the model was told to fail", Some(1)));
        assert_eq!(results.len(), 2, "{workloads}");
        assert!(results[1].interrupted && !results[0].interrupted);
        // What was done before the failure.
        assert_eq!(results[1].written.user_bytes, (at - 1000) * 116, "{workloads}");
    }
}

#[test]
fn a_stop_ends_everything_soon() {
    let stop = AtomicBool::new(false);
    let config = BenchConfig { threads: 2, reads: Some(u64::MAX), ..config() };
    let mut names = Vec::new();
    // The first look at the second workload comes before its threads begin, the next one a second later.
    let looks = std::sync::atomic::AtomicU32::new(0);
    let progress = |phase: &str, _: u64, _: u64| {
        let look = phase == "readwhilewriting" && looks.fetch_add(1, Ordering::Relaxed) > 0;
        stop.fetch_or(look, Ordering::Relaxed);
    };
    let (record, failed) =
        bench(&config, "fillseq,readwhilewriting,readseq").run(&ModelOpener::default(), &stop, &progress, |workload, _| {
            names.push(workload.name());
            Ok(())
        });
    assert!(failed.unwrap().failure.is::<Interrupted>());
    assert_eq!(names, ["fillseq", "readwhilewriting"], "what had not begun does not begin");
    assert!(record.phases[1].interrupted && record.phases[1].operations >= 100);
}

#[test]
fn single_calls_report_what_they_know() {
    let (results, _) = run(&config(), "fillseq,flush,compact,waitforcompaction,levelstats,stats");
    assert_eq!(results[4].levels[DEFAULT_FAMILY][0].bytes, 116_000);
    assert_eq!(results[5].tickers["rocksdb.bytes.written"], 116_000);
    assert!(results[1..].iter().all(|r| r.operations == 0 && r.latency.is_none()));
    // `stats` accounts for everything since the database was opened, the others for their own time.
    assert_eq!(results[1..].iter().map(|r| r.written.user_bytes).collect::<Vec<_>>(), [0, 0, 0, 116_000, 116_000]);
    let mut printed = Vec::new();
    print_workload(Workload::LevelStats, Some(&results[4]), false, &mut printed).unwrap();
    let text = String::from_utf8(printed).unwrap();
    assert!(text.starts_with("levelstats   : ") && text.contains(" seconds 1 operations;"), "{text}");
    assert!(text.ends_with("    0    1     1      0.1\n"), "{text}");
}

#[test]
fn the_same_seed_does_the_same() {
    let contents = |seed| {
        let (_, opener) = run(&BenchConfig { seed, threads: 1, ..config() }, "fillrandom,overwrite,deleterandom");
        keys(&opener.0)
    };
    assert_eq!(contents(3), contents(3));
    assert_ne!(contents(3), contents(4));
}

#[test]
fn workload_lists() {
    let names = |list| parse_workloads(list).map(|w| w.iter().map(|w| w.name()).collect::<Vec<_>>());
    assert_eq!(names("fillseq, readrandom[X2],"), Ok(vec!["fillseq", "readrandom", "readrandom"]));
    assert!(names("fillsequ").unwrap_err().starts_with("unknown workload \"fillsequ\""));
    for bad in ["", ",", "readrandom[", "readrandom[X]", "readrandom[X0]", "readrandom[W2]", "readrandom[X99999]"] {
        assert!(names(bad).is_err(), "{bad}");
    }
    assert!(Workload::ALL.iter().all(|(name, workload)| workload.name() == *name));
}

#[test]
fn wrong_parameters_are_all_named() {
    let wrong = BenchConfig { num: 0, threads: 0, batch_size: 0, zipf_alpha: 1.0, read_random_exp_range: 1.0, ..config() };
    assert_eq!(wrong.validate().len(), 4);
    assert_eq!(BenchConfig { key_size: 1, num: 257, ..config() }.validate().len(), 1);
    assert_eq!(BenchConfig { key_size: 1, num: 256, ..config() }.validate(), Vec::<String>::new());
    assert_eq!(BenchConfig { zipf_alpha: f64::NAN, ..config() }.validate().len(), 1);
}

#[test]
fn a_result_has_the_counters_that_the_database_has() {
    let directory = tempfile::tempdir().unwrap();
    let opener = SinterOpener {
        path: directory.path().join("db"),
        zones: None,
        database: DbSettings::default(),
        families: vec![(DEFAULT_FAMILY.into(), FamilySettings::default())],
        disable_wal: false,
        clock: None,
        hide_limits: false,
        slow: BTreeMap::new(),
    };
    let (results, failed) = run_on(&opener, &config(), "fillrandom,flush,readrandom,stats");
    assert!(failed.is_none(), "{failed:?}");
    let last = &results[3];
    assert_eq!((last.tickers["rocksdb.number.keys.written"], last.tickers["rocksdb.number.keys.read"]), (1000, 1000));
    let system: SinterSystem = opener.open(false).unwrap();
    let stats = system.db().stats();
    let own = stats.tickers.iter().map(|t| t.0).chain([FLUSHES, INDEX_BYTES]).collect::<BTreeSet<_>>();
    assert!(own.into_iter().eq(last.tickers.keys()));
    assert!(stats.histograms.iter().map(|h| h.0).collect::<BTreeSet<_>>().into_iter().eq(last.histograms.keys()));
    let mut printed = Vec::new();
    print_statistics(last, &mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    let names = |text: &str| text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(names(printed.strip_prefix("STATISTICS:\n").unwrap()), names(&stats.dump()));
}
