use super::*;
use crate::result::WorkloadResult;
use crate::target::model::{Model, ModelOpener};
use std::sync::atomic::{AtomicBool, Ordering};

fn config() -> BenchConfig {
    BenchConfig { num: 1000, ..BenchConfig::default() }
}

fn run_on(opener: &ModelOpener, config: &BenchConfig, workloads: &str) -> (Vec<WorkloadResult>, Result<(), Failed>) {
    assert_eq!(config.validate(), Vec::<String>::new());
    let (stop, progress) = (AtomicBool::new(false), Progress::new(config.threads));
    let bench = Bench { config, opener, stop: &stop, progress: &progress };
    let mut results = Vec::new();
    let outcome = bench.run(&parse_workloads(workloads).unwrap(), |result| {
        results.push(result.clone());
        Ok(())
    });
    (results, outcome)
}

fn run(config: &BenchConfig, workloads: &str) -> (Vec<WorkloadResult>, ModelOpener) {
    let opener = ModelOpener::default();
    let (results, outcome) = run_on(&opener, config, workloads);
    outcome.unwrap();
    (results, opener)
}

fn keys(model: &Model) -> Vec<u64> {
    model.read().keys().map(|key| u64::from_be_bytes(*key.first_chunk().unwrap())).collect()
}

#[test]
fn fillseq_writes_every_key_once() {
    let (results, opener) = run(&config(), "fillseq");
    assert_eq!(keys(&opener.0), (0..1000).collect::<Vec<_>>());
    let result = &results[0];
    assert_eq!((result.operations, result.bytes, result.threads), (1000, 116_000, 1));
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
    assert_eq!((results[0].threads, results[0].operations), (1, 1000));
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
                let (stop, progress) = (AtomicBool::new(false), Progress::new(threads));
                let bench = Bench { config: &config, opener: &opener, stop: &stop, progress: &progress };
                let outcome = bench.run(&parse_workloads(names).unwrap(), |result| {
                    let there = opener.0.read().len() as u64;
                    assert_eq!(
                        result.space.live_keys,
                        Some(there),
                        "{} threads {threads} batch {batch_size} zipf {zipf_alpha}",
                        result.name
                    );
                    Ok(())
                });
                outcome.unwrap();
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
    run_on(&opener, &config(), "fillseq").1.unwrap();
    let (results, outcome) = run_on(&opener, &BenchConfig { use_existing_db: true, ..config() }, "fillrandom,readrandom");
    outcome.unwrap();
    assert!(results[0].skipped.is_some());
    assert_eq!(results[1].found.unwrap().found, 1000);
    assert_eq!(results[1].space.live_keys, None);
    assert_eq!(results[1].space.space_amplification, None);
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
        assert_eq!((result.threads, result.operations), (2, 2000));
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

/// A limit of 40 KB/s, of which a tenth of a second may be saved up: 100 writes of 116 bytes take at least 0.19 s, however many threads
/// do them.
#[test]
fn the_write_rate_holds_for_all_writers_together() {
    for (threads, batch_size, writes) in [(1, 1, 100), (2, 1, 50), (1, 10, 100)] {
        let config = BenchConfig { threads, batch_size, writes: Some(writes), benchmark_write_rate_limit: 40_000, ..config() };
        let (results, _) = run(&config, "fillrandom,updaterandom,deleterandom");
        assert!(results[0].elapsed_seconds > 0.18, "{threads} threads, batches of {batch_size}: {}", results[0].elapsed_seconds);
    }
    let config = BenchConfig { duration: 1, benchmark_write_rate_limit: 40_000, ..config() };
    let (results, _) = run(&BenchConfig { num: 10, ..config }, "fillseq,readwhilewriting,updaterandom");
    let most = |seconds: f64| (40_000.0 * (seconds + 0.2) / 116.0) as u64;
    let writer = results[1].background_writer.unwrap();
    let seconds = writer.operations as f64 / writer.operations_per_second;
    assert!(writer.operations > 0 && writer.operations <= most(seconds), "{writer:?}");
    assert!(results[2].operations <= most(results[2].elapsed_seconds), "{:?}", results[2]);
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
        assert!(results[1].operations > 1 && results[1].elapsed_seconds >= 0.9, "{:?}", results[1]);
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
        let (results, outcome) = run_on(&opener, &config, workloads);
        let failed = outcome.unwrap_err();
        assert_eq!(failed.failure.to_string(), "the model was told to fail");
        assert_eq!(failed.workload.map(Workload::name), workloads.split(',').nth(1));
        assert_eq!(results.len(), 2, "{workloads}");
        assert!(results[1].interrupted && !results[0].interrupted);
    }
}

#[test]
fn a_stop_ends_everything_soon() {
    let (stop, progress) = (AtomicBool::new(false), Progress::new(2));
    let (config, opener) = (BenchConfig { threads: 2, reads: Some(u64::MAX), ..config() }, ModelOpener::default());
    let bench = Bench { config: &config, opener: &opener, stop: &stop, progress: &progress };
    let mut results = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while progress.now().0 != "readwhilewriting" || progress.now().1 < 100 {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });
        let workloads = parse_workloads("fillseq,readwhilewriting,readseq").unwrap();
        bench
            .run(&workloads, |result| {
                results.push(result.clone());
                Ok(())
            })
            .unwrap();
    });
    assert_eq!(results.len(), 2, "what had not begun does not begin");
    assert!(results[1].interrupted && results[1].operations >= 100);
}

#[test]
fn single_calls_report_what_they_know() {
    let (results, _) = run(&config(), "fillseq,flush,compact,waitforcompaction,levelstats,stats");
    assert_eq!(results[4].levels[0].bytes, 116_000);
    assert_eq!(results[5].counters.tickers["rocksdb.bytes.written"], 116_000);
    assert!(results[1..].iter().all(|r| r.operations == 1 && r.latency.is_none()));
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
