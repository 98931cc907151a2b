use super::*;
use crate::run::{
    Calls, Distribution, FamilySpec, InPlace, Limits, Medium, Mix, Order, Pace, Phase, PhaseKind, RunRecord, RunSpec, SPEC_VERSION,
    ValueSize, ZonesSpec, named,
};
use crate::system::model::{Model, ModelOpener, ModelSystem};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The model as an engine of two families.
struct ModelEngine {
    model: Arc<Model>,
    source: Source,
    panics: bool,
}

impl ModelEngine {
    fn new() -> Self {
        ModelEngine { model: Arc::default(), source: Source::Engine, panics: false }
    }
}

impl Engine for ModelEngine {
    type System = ModelSystem;

    fn open(&self, spec: &EngineSpec, directory: &Path) -> Outcome<Opened<ModelSystem>> {
        for directory in spec.tiers.iter().filter_map(|tier| tier.directory.as_deref()).chain([directory]) {
            assert!(std::fs::read_dir(directory)?.next().is_none(), "the directory is there and empty");
            std::fs::write(directory.join("data"), [1; 1000])?;
        }
        assert!(!self.panics, "told to");
        let system = ModelOpener(Arc::clone(&self.model)).open(true);
        Ok(Opened {
            system,
            version: "model 1".into(),
            ignored_settings: vec!["speed".into()],
            compression: BTreeMap::new(),
            source: self.source,
        })
    }
}

fn spec(workload: crate::run::Workload, directory: &Path) -> RunSpec {
    let family = |name: &str| FamilySpec { name: name.into(), settings: BTreeMap::new() };
    RunSpec {
        version: SPEC_VERSION,
        engine: EngineSpec {
            name: "model".into(),
            database: BTreeMap::new(),
            families: vec![family("default"), family("other")],
            wal: true,
            ..EngineSpec::default()
        },
        medium: Medium { directory: directory.to_owned() },
        workload,
        seed: 1,
        limits: Limits::default(),
    }
}

/// Runs a workload on the model; it must not fail.
fn run(workload: crate::run::Workload) -> (RunRecord, Arc<Model>) {
    run_seed(workload, 1)
}

fn run_seed(workload: crate::run::Workload, seed: u64) -> (RunRecord, Arc<Model>) {
    let (directory, engine) = (tempfile::tempdir().unwrap(), ModelEngine::new());
    let record = execute(&engine, &RunSpec { seed, ..spec(workload, directory.path()) }, &AtomicBool::new(false));
    assert_eq!(record.failure, None);
    assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "nothing is left behind");
    (record, engine.model)
}

fn mix(name: &str, distribution: Distribution, operations: &[(&str, f64)]) -> Mix {
    Mix { name: name.into(), scan_length: 5, ..Mix::all(distribution, operations.iter().copied()) }
}

fn phase(name: &str, mixes: Vec<Mix>, operations: u64, threads: usize) -> Phase {
    Phase::requests(name, mixes, operations, threads)
}

/// A thousand keys of 16 bytes with values of 100, loaded in random order, followed by `phases`.
fn workload(phases: impl IntoIterator<Item = Phase>) -> crate::run::Workload {
    let load = Phase::load("load", Order::Random, 2);
    crate::run::Workload::new("test", 1000, (16, 100), std::iter::once(load).chain(phases).collect())
}

#[test]
fn a_record_has_what_was_done() {
    let (record, model) = run(named("ycsb-a", 1000, 601, 3).unwrap());
    assert_eq!((record.engine_version.as_str(), record.ignored_settings.as_slice()), ("model 1", &["speed".to_owned()][..]));
    assert_eq!(record.phases.iter().map(|phase| phase.name.as_str()).collect::<Vec<_>>(), ["load", "settle", "run"]);
    assert_eq!(model.read().len(), 1000);
    let [load, settle, run] = &record.phases[..] else { panic!() };
    assert_eq!((load.operations, load.bytes, load.found), (1000, 1_024_000, None));
    assert_eq!((load.written.user_bytes, load.written.write_amplification), (1_024_000, Some(2.0)));
    assert_eq!((load.space.live_keys, load.space.live_user_bytes), (Some(1000), Some(1_024_000)));
    assert_eq!((settle.operations, settle.latency.as_ref(), settle.written.user_bytes), (0, None, 0));
    assert!(settle.series.iter().all(|second| second.latency_ns == [None; 4]), "a second without operations has no percentile");
    let found = run.found.unwrap();
    assert_eq!((run.operations, found.found), (601, found.asked));
    let counts: BTreeMap<&str, u64> = run.latency_by_operation.iter().map(|(name, latency)| (name.as_str(), latency.count)).collect();
    assert_eq!(counts["all get"], found.asked);
    assert_eq!(counts["all put"] * 1024, run.written.user_bytes);
    assert_eq!((counts.values().sum::<u64>(), run.latency.as_ref().unwrap().count), (601, 601));
    for phase in [load, run] {
        assert_eq!(phase.series.iter().map(|second| second.operations).sum::<u64>(), phase.operations);
        assert_eq!(phase.series.iter().flat_map(|second| second.written.values()).sum::<u64>(), phase.written.total_bytes);
        assert!(phase.seconds > 0.0 && phase.operations_per_second > 0.0);
        assert!(phase.memory.resident_bytes > 0 && phase.proportional_bytes > 0);
        assert_eq!(phase.levels["default"][0].bytes, 1_024_000);
        assert_eq!(phase.levels["other"][0].bytes, 0);
    }
    let json = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<RunRecord>(&json).unwrap().phases.len(), 3);
}

#[test]
fn live_keys_are_counted_without_being_watched() {
    let everything = [("get", 1.0), ("put", 1.0), ("insert", 1.0), ("delete", 2.0), ("read_modify_write", 1.0), ("scan", 0.1)];
    use Distribution::*;
    for distribution in [Uniform, Zipf(0.99), Sequential, Exponential(10.0), Latest(0.9), Unique] {
        let phases = ["one", "two"].map(|name| phase(name, vec![mix("all", distribution, &everything)], 3000, 1));
        let (record, model) = run(workload(phases));
        let there = model.read().len() as u64;
        assert_eq!(record.phases[2].space.live_keys, Some(there), "{distribution:?}");
        assert_eq!(record.phases[2].space.live_user_bytes, Some(there * 116), "{distribution:?}");
    }
    // With several threads the count is exact as long as nothing is deleted.
    let grow = mix("all", Distribution::Latest(0.9), &[("insert", 1.0), ("put", 1.0)]);
    let (record, model) = run(workload([phase("grow", vec![grow], 3000, 3)]));
    assert_eq!(record.phases[1].space.live_keys, Some(model.read().len() as u64));
}

#[test]
fn families_are_loaded_one_by_one() {
    let part = |name: &str, family: Option<&str>, range| {
        let mix = mix(name, Distribution::Unique, &[("put", 1.0)]);
        Mix { family: family.map(str::to_owned), range, ..mix }
    };
    let mut workload = workload([
        phase("hot", vec![part("hot", None, (0.0, 0.1))], 100, 2),
        phase("cold", vec![part("cold", Some("other"), (0.1, 1.0))], 900, 2),
    ]);
    workload.phases.remove(0);
    let (record, model) = run(workload);
    let numbers = |family| model.family(family).keys().map(|key| u64::from_be_bytes(*key.first_chunk().unwrap())).collect::<Vec<_>>();
    assert_eq!((numbers(0), numbers(1)), ((0..100).collect(), (100..1000).collect()));
    assert_eq!(record.phases[1].space.live_keys, Some(1000));
    assert_eq!(record.phases[1].levels["other"][0].bytes, 900 * 116);
}

#[test]
fn what_is_asked_for_is_there_or_not() {
    let latest = mix("new", Distribution::Latest(0.99), &[("get", 0.5), ("insert", 0.5)]);
    let missing = mix("all", Distribution::Uniform, &[("get_missing", 1.0)]);
    let (record, _) = run(workload([phase("latest", vec![latest], 2000, 3), phase("missing", vec![missing], 500, 2)]));
    let found = record.phases[1].found.unwrap();
    assert!(found.asked > 800 && found.found == found.asked, "{found:?}");
    let found = record.phases[2].found.unwrap();
    assert_eq!((found.asked, found.found, record.phases[2].bytes), (500, 0, 0));
}

#[test]
fn scans_read_as_far_as_they_are_told() {
    let scan = mix("all", Distribution::Sequential, &[("scan", 1.0)]);
    let (record, _) = run(workload([phase("scan", vec![Mix { scan_length: 1, ..scan }], 1000, 1)]));
    assert_eq!((record.phases[1].bytes, record.phases[1].operations), (116_000, 1000));
}

#[test]
fn values_have_the_sizes_they_should() {
    let workload = crate::run::Workload { value_size: ValueSize::Uniform(50, 150), ..workload([]) };
    let (record, model) = run(workload);
    let model = model.read();
    assert!(model.values().all(|value| (50..=150).contains(&value.len())) && model.values().any(|value| value.len() != 100));
    let bytes: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert_eq!(record.phases[0].bytes, bytes as u64);
    assert_eq!(record.phases[0].space.live_user_bytes, Some(bytes as u64), "of keys written once the mean is exact");
}

#[test]
fn the_same_seed_does_the_same() {
    let contents = |seed| {
        let mixes = vec![mix("all", Distribution::Zipf(0.9), &[("put", 1.0), ("delete", 1.0), ("insert", 0.1)])];
        let sized = crate::run::Workload { value_size: ValueSize::Uniform(0, 50), ..workload([phase("run", mixes, 5000, 1)]) };
        run_seed(sized, seed).1.read().clone()
    };
    assert!(contents(3) == contents(3));
    assert!(contents(3) != contents(4));
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let open = phase("open", vec![mix("all", Distribution::Uniform, &[("get", 1.0)])], 200, 2).at(Pace::Open(1000.0));
    let (record, _) = run(workload([open]));
    // The last of 200 operations begins 199 ms after the first.
    assert!(record.phases[1].operations == 200 && record.phases[1].seconds >= 0.199, "{:?}", record.phases[1].seconds);
}

/// An open loop that lasts for some seconds.
fn open(name: &str, operation: &str, rate: f64, seconds: f64, warm_up_seconds: f64) -> Phase {
    let mixes = vec![mix("all", Distribution::Uniform, &[(operation, 1.0)])];
    Phase::timed(name, mixes, seconds, warm_up_seconds, 2).at(Pace::Open(rate))
}

#[test]
fn an_engine_that_is_too_slow_does_not_hide_it() {
    // A scan copies the model, which takes longer than a microsecond.
    let (record, _) = run(workload([open("late", "scan", 1e6, 0.3, 0.1)]));
    let late = &record.phases[1];
    let begun: u64 = late.series.iter().map(|second| second.operations).sum();
    assert_eq!(begun + late.not_started, 300_000, "each start is known");
    // Every operation that began was due in the first third, and most of them began after it.
    assert!(late.operations > 0 && late.operations < begun && begun < 100_000, "{} of {begun}", late.operations);
    let latency = late.latency.as_ref().unwrap();
    assert_eq!(latency.count, late.operations + late.not_started);
    assert_eq!(late.latency_by_operation["all scan"].count, latency.count);
    // Of the starts that were missed, half were due more than 100 ms before the end.
    assert!(latency.p50 > 100_000_000, "{}", latency.p50);
}

#[test]
fn an_open_loop_lasts_until_its_end() {
    // Two starts, at 0 and at 250 ms.
    let (record, _) = run(workload([open("few", "get", 4.0, 0.4, 0.0)]));
    let few = &record.phases[1];
    assert_eq!((few.operations, few.not_started), (2, 0));
    assert!(few.seconds >= 0.4 && few.operations_per_second <= 5.0, "{}", few.seconds);
}

#[test]
fn seconds_end_a_phase_and_its_warm_up_does_not_count() {
    let gets = vec![mix("all", Distribution::Uniform, &[("get", 1.0)])];
    let (record, _) = run(workload([Phase::timed("timed", gets, 0.4, 0.2, 2)]));
    let timed = &record.phases[1];
    let everything: u64 = timed.series.iter().map(|second| second.operations).sum();
    assert!(timed.operations > 0 && timed.operations < everything, "{} of {everything}", timed.operations);
    assert_eq!(timed.latency.as_ref().unwrap().count, timed.operations);
    // From the end of the warm-up to the end of the last operation.
    assert!(timed.seconds > 0.1999, "{}", timed.seconds);
}

#[test]
fn a_writer_beside_the_readers_counts_only_in_what_is_written() {
    let gets = vec![mix("all", Distribution::Uniform, &[("get", 1.0)])];
    // The readers take 200 ms, in which the writer begins 200 puts; how many it ends is the machine's affair.
    let writer = crate::run::Writer { per_second: Some(1000.0), distribution: Distribution::Unique };
    let beside = phase("beside", gets, 20, 2).at(Pace::Open(100.0)).beside(writer);
    let (record, model) = run(workload([beside]));
    let beside = &record.phases[1];
    assert_eq!((beside.operations, beside.found.unwrap().asked), (20, 20));
    assert_eq!(beside.latency_by_operation.keys().collect::<Vec<_>>(), ["all get"]);
    let puts = beside.written.user_bytes / 116;
    assert!((1..=1000).contains(&puts), "{puts}");
    assert_eq!(beside.series.iter().map(|second| second.operations).sum::<u64>(), 20 + puts);
    assert_eq!(record.phases[1].space.live_keys, Some(model.read().len() as u64));
}

#[test]
fn an_engine_without_an_account_has_that_of_the_process() {
    let (directory, mut engine) = (tempfile::tempdir().unwrap(), ModelEngine::new());
    engine.source = Source::Process;
    let record = execute(&engine, &spec(workload([]), directory.path()), &AtomicBool::new(false));
    assert_eq!((record.failure, record.written_source), (None, Source::Process));
    let written = &record.phases[0].written;
    // Progress lines at least, if nothing else is written.
    assert!(written.by_cause.iter().all(|line| line.cause == "process"), "{written:?}");
}

/// Each tier has a directory of the run's own, which counts as part of the store and is removed at the end.
#[test]
fn tiers_have_directories_that_count() {
    let (fast, slow) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tier = |temperature: &str, directory: Option<&Path>| crate::run::TierSpec {
        temperature: temperature.into(),
        directory: directory.map(Path::to_owned),
        model: None,
    };
    let mut tiered = spec(workload([]), fast.path());
    tiered.engine.tiers = vec![tier("warm", None), tier("cold", Some(slow.path()))];
    let record = execute(&ModelEngine::new(), &tiered, &AtomicBool::new(false));
    assert_eq!((record.failure, record.phases[0].space.store_bytes), (None, 3000));
    assert_eq!(record.spec, tiered, "the record has what was asked");
    assert!([&fast, &slow].iter().all(|parent| std::fs::read_dir(parent.path()).unwrap().next().is_none()));
    tiered.engine.tiers[1].directory = Some("/nonexistent".into());
    let record = execute(&ModelEngine::new(), &tiered, &AtomicBool::new(false));
    assert!(record.failure.unwrap().starts_with("engine.tiers.directory: /nonexistent: "));
    assert!(std::fs::read_dir(fast.path()).unwrap().next().is_none());
}

#[test]
fn failures_are_in_the_record() {
    let directory = tempfile::tempdir().unwrap();
    let good = spec(workload([phase("run", vec![mix("all", Distribution::Uniform, &[("put", 1.0)])], 1000, 2)]), directory.path());
    let mut warm = good.clone();
    let PhaseKind::Run { warm_up_seconds, .. } = &mut warm.workload.phases[1].kind else { panic!() };
    *warm_up_seconds = 1e6;
    let failure = |engine: &ModelEngine, spec: &RunSpec, stop: bool| {
        let record = execute(engine, spec, &AtomicBool::new(stop));
        (record.failure.unwrap_or_default(), record.phases.len())
    };
    let engine = ModelEngine::new();
    engine.model.fail_after.store(1500, Ordering::Relaxed);
    assert_eq!(failure(&engine, &good, false), ("phase run: the model was told to fail".into(), 1));
    let engine = ModelEngine::new();
    engine.model.panic_after.store(1500, Ordering::Relaxed);
    assert_eq!(failure(&engine, &good, false), ("phase run: panicked: the model was told to panic".into(), 1));
    assert_eq!(failure(&ModelEngine { panics: true, ..ModelEngine::new() }, &good, false), ("panicked: told to".into(), 0));
    let swallowed = "phase run: all 1000 operations began within the 1000000 s of warm-up, so nothing was measured";
    assert_eq!(failure(&ModelEngine::new(), &warm, false), (swallowed.into(), 1));
    assert_eq!(failure(&ModelEngine::new(), &good, true), ("interrupted".into(), 0));
    let mut bad = good.clone();
    (bad.version, bad.workload.keys) = (0, 0);
    assert_eq!(failure(&ModelEngine::new(), &bad, false).0.split("; ").count(), 3, "keys, their range, and the version");
    let mut bad = good;
    bad.medium.directory = PathBuf::from("/nonexistent");
    assert!(failure(&ModelEngine::new(), &bad, false).0.starts_with("medium.directory: /nonexistent: "));
    assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none());
}

/// A full medium is distinguished from every other failure.
#[test]
fn a_medium_can_be_full() {
    let directory = tempfile::tempdir().unwrap();
    let inserts = vec![mix("all", Distribution::Uniform, &[("insert", 1.0)])];
    let mut full = spec(workload([phase("run", inserts, 40_000, 1)]), directory.path());
    let engine = ModelEngine::new();
    engine.model.fail_after.store(1500, Ordering::Relaxed);
    let record = execute(&engine, &full, &AtomicBool::new(false));
    assert!(record.failure.is_some() && !record.out_of_room, "{:?}", record.failure);
    // Less than a megabyte for more than two of new keys: no merge, which the engine may have time for or not, frees space.
    let (allocation, reset) = ("sinter".into(), "sinter".into());
    full.engine.zones = Some(ZonesSpec {
        zones: 20,
        zone_bytes: 48 << 10,
        zone_capacity: None,
        max_active: None,
        allocation,
        reset,
        collector: None,
        fallback: true,
        tells: true,
    });
    let record = execute(&SinterEngine, &full, &AtomicBool::new(false));
    let failure = record.failure.unwrap();
    assert!(record.out_of_room && failure.starts_with("phase run: no space: "), "{failure}");
    assert_eq!(record.phases.len(), 1, "the load found room");
}

/// Codecs chosen by the engine stand in the record of each phase; nothing stands there where the codec was set.
#[test]
fn a_record_has_the_codecs_that_were_chosen() {
    let directory = tempfile::tempdir().unwrap();
    let puts = vec![mix("all", Distribution::Uniform, &[("put", 1.0)])];
    let settle = Phase::new("settle", PhaseKind::Settle);
    let mut spec = spec(workload([phase("run", puts, 2000, 1), settle]), directory.path());
    let told = execute(&SinterEngine, &spec, &AtomicBool::new(false));
    assert!(told.failure.is_none() && told.phases.iter().all(|phase| phase.chosen_codecs.is_empty()), "{:?}", told.failure);
    spec.engine.families[0].settings.insert("compression".into(), "auto".into());
    let record = execute(&SinterEngine, &spec, &AtomicBool::new(false));
    let name = &spec.engine.families[0].name;
    let settled = &record.phases.last().unwrap().chosen_codecs[name];
    assert!(settled.starts_with("level 0: ") && settled.contains(" samples took "), "{settled}");
    // Whether there has been a verdict yet is a matter of time.
    assert!(settled.contains(" since ") || settled.contains(" not judged yet"), "{settled}");
}

#[test]
fn a_stop_ends_a_run_soon() {
    let directory = tempfile::tempdir().unwrap();
    let endless = phase("endless", vec![mix("all", Distribution::Uniform, &[("get", 1.0)])], u64::MAX, 2);
    let (spec, stop, engine) = (spec(workload([endless]), directory.path()), AtomicBool::new(false), ModelEngine::new());
    let record = std::thread::scope(|scope| {
        let running = scope.spawn(|| execute(&engine, &spec, &stop));
        while engine.model.read().len() < 1000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    assert_eq!(record.failure.as_deref(), Some("interrupted"));
    assert!(record.phases.len() <= 1, "what is not finished is not in it");
}

#[test]
fn a_trace_is_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace.txt");
    std::fs::write(&trace, "@0 put a 10\n@1000 put b 20\n@100000 get a\n0x61 0 0 0 100000\n@100000 delete b\nget c\nscan a 5\n").unwrap();
    let medium = tempfile::tempdir().unwrap();
    let replay = |pace, trace: &Path| {
        let kind = PhaseKind::Replay { trace: trace.to_owned(), pace };
        let workload = crate::run::Workload { phases: vec![Phase::new("replay", kind)], ..workload([]) };
        let engine = ModelEngine::new();
        (execute(&engine, &spec(workload, medium.path()), &AtomicBool::new(false)), engine.model)
    };
    let (record, model) = replay(Pace::Closed, &trace);
    assert_eq!(record.failure, None);
    let phase = &record.phases[0];
    assert_eq!((phase.operations, phase.found), (7, Some(crate::result::Found { found: 2, asked: 3 })));
    assert_eq!((phase.written.user_bytes, phase.space.live_keys), (11 + 21 + 1, None));
    assert_eq!(model.read().iter().map(|(key, value)| (key.as_slice(), value.len())).collect::<Vec<_>>(), [(&b"a"[..], 10)]);
    let counts: Vec<_> = phase.latency_by_operation.iter().map(|(name, latency)| (name.as_str(), latency.count)).collect();
    assert_eq!(counts, [("replay delete", 1), ("replay get", 3), ("replay put", 2), ("replay scan", 1)]);
    let failure = |pace, trace: &Path| replay(pace, trace).0.failure.unwrap();
    assert!(failure(Pace::Trace, &trace).ends_with("trace.txt: line 6: it has no time, which the pace asks for"));
    std::fs::write(&trace, "@0 put a 10\n@100000 get a\n").unwrap();
    let (record, _) = replay(Pace::Trace, &trace);
    assert!(record.phases[0].seconds >= 0.1, "{}", record.phases[0].seconds);
    std::fs::write(&trace, "put a 10\nget\n").unwrap();
    assert!(failure(Pace::Closed, &trace).ends_with("trace.txt: line 2: the key is missing"));
    std::fs::write(&trace, "0x61 0 2 0 1\n").unwrap();
    assert!(failure(Pace::Closed, &trace).ends_with("it uses family 2, and the engine has 2"));
    assert!(failure(Pace::Closed, Path::new("/nonexistent")).starts_with("phase replay: /nonexistent: "));
    // Nobody writes into this pipe.
    let pipe = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(failure(Pace::Closed, &pipe).ends_with("pipe: not a regular file, and a trace is read twice"));
}

#[test]
fn sinterdb_accounts_for_what_it_writes() {
    let directory = tempfile::tempdir().unwrap();
    let mixes = vec![mix("all", Distribution::Zipf(0.99), &[("get", 0.5), ("put", 0.5)])];
    let settle = Phase::new("settle", PhaseKind::Settle);
    let compact = Phase::new("compact", PhaseKind::Compact);
    let mut spec = spec(workload([settle, phase("run", mixes, 5000, 2), compact]), directory.path());
    spec.workload.keys = 20_000;
    spec.engine.families[0].settings = BTreeMap::from([("write_buffer_size".into(), "131072".into())]);
    let record = execute(&SinterEngine, &spec, &AtomicBool::new(false));
    assert_eq!(record.failure, None);
    for phase in &record.phases {
        let user = if phase.name == "load" { 20_000 * 116 } else { phase.latency_by_operation.get("all put").map_or(0, |l| l.count * 116) };
        assert_eq!(phase.written.user_bytes, user, "{}", phase.name);
        assert_eq!(phase.found.map(|found| found.found), phase.found.map(|found| found.asked), "{}", phase.name);
        assert_eq!(phase.space.live_keys, Some(20_000));
    }
    assert!(record.phases[0].written.write_amplification.unwrap() > 1.2, "log and flushes");
    assert!(record.phases[3].space.store_bytes >= record.phases[3].space.live_table_bytes);
    assert!(record.phases[3].tickers["rocksdb.number.keys.written"] >= 22_000);
}

/// A phase of one operation, called in a way of its own.
fn called(name: &str, mix: Mix, operations: u64, threads: usize, calls: Calls) -> Phase {
    let mut phase = phase(name, vec![mix], operations, threads);
    let PhaseKind::Run { calls: there, .. } = &mut phase.kind else { panic!() };
    *there = calls;
    phase
}

#[test]
fn several_entries_are_one_call() {
    let calls = Calls { batch: 300, ..Calls::default() };
    let one = |name: &str, distribution| mix("all", distribution, &[(name, 1.0)]);
    let phases = [
        called("put", one("put", Distribution::Unique), 1000, 1, calls),
        called("get", one("get", Distribution::Unique), 1000, 1, calls),
        called("miss", one("get_missing", Distribution::Unique), 1000, 1, calls),
        called("delete", one("delete", Distribution::Sequential), 700, 1, calls),
    ];
    let (record, model) = run(workload(phases));
    let [_, put, get, miss, delete] = &record.phases[..] else { panic!() };
    for phase in [put, get, miss] {
        assert_eq!((phase.operations, phase.latency.as_ref().unwrap().count), (1000, 4), "{}", phase.name);
    }
    assert_eq!(model.commits.load(Ordering::Relaxed), 4 + 3);
    assert_eq!((get.bytes, get.found.unwrap().found, miss.bytes, miss.found.unwrap().found), (116_000, 1000, 0, 0));
    assert_eq!((delete.operations, delete.bytes, model.read().len()), (700, 700 * 16, 300));
    assert_eq!(delete.space.live_keys, Some(300));
}

#[test]
fn seeks_and_walks_read_what_is_there() {
    let one = |name: &str| Mix { scan_length: 2, ..mix("all", Distribution::Sequential, &[(name, 1.0)]) };
    let all = Calls { per_thread: true, ..Calls::default() };
    let phases = [
        phase("seek", vec![one("seek")], 1000, 1),
        called("walk", one("walk"), 5000, 2, all),
        phase("back", vec![one("walk_back")], 10, 1),
    ];
    let (record, _) = run(workload(phases));
    let [_, seek, walk, back] = &record.phases[..] else { panic!() };
    // Behind the last key there is no second entry.
    assert_eq!((seek.found.unwrap().found, seek.bytes), (1000, 1999 * 116));
    assert_eq!((walk.operations, walk.bytes), (2000, 232_000), "each thread walks to the end");
    assert_eq!((back.operations, back.bytes), (10, 1160));
}

#[test]
fn each_thread_can_do_all() {
    let puts = mix("all", Distribution::Sequential, &[("put", 1.0)]);
    let mut all = workload([called("fill", puts, 10, 3, Calls { per_thread: true, ..Calls::default() })]);
    all.phases.remove(0);
    let (record, model) = run(all);
    assert_eq!((record.phases[0].operations, model.read().len()), (30, 10));
    assert_eq!(record.phases[0].space.live_keys, Some(10));
}

#[test]
fn nothing_is_timed_that_should_not_be() {
    let gets = mix("all", Distribution::Uniform, &[("get", 1.0)]);
    let calls = Calls { untimed: true, sync: true, ..Calls::default() };
    let (record, model) = run(workload([called("gets", gets, 5000, 2, calls)]));
    let gets = &record.phases[1];
    assert_eq!((gets.operations, gets.latency.as_ref(), gets.found.unwrap().asked), (5000, None, 5000));
    assert!(gets.seconds > 0.0 && gets.thread_seconds >= gets.seconds, "{} {}", gets.thread_seconds, gets.seconds);
    assert_eq!(model.synced_sessions.load(Ordering::Relaxed), 2, "those of this phase");
}

#[test]
fn a_database_is_emptied_and_accounted_for() {
    let puts = || vec![mix("all", Distribution::Sequential, &[("put", 1.0)])];
    let phases = [
        Phase::new("flush", PhaseKind::Flush),
        Phase::new("wait", PhaseKind::Wait),
        Phase::new("empty", PhaseKind::Empty),
        phase("few", puts(), 10, 1),
        Phase::new("stats", PhaseKind::Stats),
    ];
    let (record, model) = run(workload(phases));
    assert_eq!(model.read().len(), 10);
    let empty = &record.phases[3];
    assert_eq!((empty.space.live_keys, empty.written.user_bytes, empty.operations), (Some(0), 0, 0));
    assert_eq!(record.phases[4].space.live_keys, Some(10));
    assert_eq!(record.phases[5].written.user_bytes, 1160, "since it was opened");
}

/// A database of the user's stays where it is, and is kept if the spec says so.
#[test]
fn a_database_can_stay_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let mut spec = spec(workload([]), directory.path());
    spec.engine.name = "sinter".into();
    let gets = vec![mix("all", Distribution::Uniform, &[("get", 1.0)])];
    for (in_place, phases, live_keys) in [
        (InPlace::New, workload([]).phases, Some(1000)),
        (InPlace::Existing, vec![phase("gets", gets, 100, 1)], None),
        (InPlace::New, vec![Phase::new("stats", PhaseKind::Stats)], Some(0)),
    ] {
        spec.engine.in_place = Some(in_place);
        spec.workload.phases = phases;
        let record = execute(&SinterEngine, &spec, &AtomicBool::new(false));
        assert_eq!(record.failure, None);
        let phase = &record.phases[0];
        assert_eq!(phase.space.live_keys, live_keys, "{in_place:?}");
        assert!(phase.found.is_none_or(|found| (found.found, found.asked) == (100, 100)), "{:?}", phase.found);
        assert!(phase.space.store_bytes > 0, "the engine's own figure");
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_some(), "it is still there");
    }
}
