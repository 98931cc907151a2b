//! Studies with a fake runner: a shell script that prints a canned record around the spec it reads.

mod workloads;

use super::archive::archive;
use super::conduct::{Conducted, Event, Runner, conduct};
use super::folder::Folder;
use super::judge::{Compared, Finding, Results, State, judge, table};
use super::metric::{Metric, by_cause};
use super::plan::{Bound, Cell, Comparison, Group, Hypothesis, Request, Scale, Study, Term};
use super::testing::{self, request};
use super::{Error, catalogue};
use crate::result::{CauseBytes, Space, Written};
use crate::run::{Answer, PhaseKind, PhaseRecord, RunRecord, RunSpec, Workload};
use crate::statistics::{Fold, Interval, Method};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn study(engines: &[&str], repeats: u32) -> Study {
    catalogue::study("compaction-wal-waf", Scale::Ci, &request(engines, repeats)).unwrap()
}

/// Study 1 cut down to the cells of its first hypothesis.
fn short_study(engines: &[&str], repeats: u32) -> Study {
    let mut short = study(engines, repeats);
    short.cells.retain(|cell| cell.name.starts_with("A "));
    short.hypotheses.truncate(1);
    short
}

/// A record in which every phase wrote `total` bytes for 100 of the user's: half a log where there is one, the rest to level 1.
fn record(spec: RunSpec, total: u64) -> RunRecord {
    let wal = if spec.engine.wal { total / 2 } else { 0 };
    let cause = |cause: &str, bytes| CauseBytes { cause: cause.to_string(), bytes };
    let figures = PhaseRecord {
        operations: 10,
        seconds: 2.0,
        written: Written {
            user_bytes: 100,
            by_cause: vec![cause("wal", wal), cause("compaction to L1, level-size", total - wal)],
            total_bytes: total,
            ..Written::default()
        },
        space: Space { space_amplification: Some(1.5), ..Space::default() },
        ..PhaseRecord::default()
    };
    RunRecord { engine_version: "fake 1".to_string(), ..testing::record(spec, &figures) }
}

/// A runner that prints a record of `total` bytes per phase with the spec that it read, after `before` (shell code).
struct Fake {
    directory: tempfile::TempDir,
}

impl Fake {
    fn new() -> Self {
        Fake { directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn runner(&self, name: &str, before: &str, failure: Option<&str>) -> Runner {
        let any = study(&["sinter"], 1);
        let spec = any.spec(&any.runs()[0]).unwrap();
        let record = RunRecord { failure: failure.map(str::to_string), ..record(spec, 200) };
        let mut value = serde_json::to_value(&record).unwrap();
        value["spec"] = "SPEC".into();
        let text = serde_json::to_string(&value).unwrap();
        let (head, tail) = text.split_once("\"SPEC\"").unwrap();
        let parts = [("head", head), ("tail", tail), ("script", before)].map(|(part, text)| {
            let file = self.file(&format!("{name}-{part}"));
            std::fs::write(&file, text).unwrap();
            file
        });
        let script = format!(
            "spec=$(cat); echo 'phase fillrandom debts 1/2' >&2; . {}; cat {}; printf %s \"$spec\"; cat {}",
            parts[2].display(),
            parts[0].display(),
            parts[1].display()
        );
        Runner { program: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()] }
    }

    fn folder(&self, study: &Study) -> Folder {
        Folder::create(&self.file("results"), study).unwrap()
    }
}

fn go(study: &Study, folder: &Folder, runner: &Runner) -> Conducted {
    conduct(study, folder, &|_| runner.clone(), &AtomicBool::new(false), &mut |_| {}).unwrap()
}

fn files(folder: &Folder) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder.path().join("runs")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn runs_are_blocks_in_random_order() {
    let study = study(&["sinter", "rocksdb"], 3);
    let runs = study.runs();
    let size = study.cells.len() * 2;
    assert_eq!(runs.len(), 3 * size);
    let mut orders = BTreeSet::new();
    for (repeat, block) in runs.chunks(size).enumerate() {
        assert!(block.iter().all(|run| run.repeat as usize == repeat));
        let distinct: BTreeSet<_> = block.iter().map(|run| (run.cell, run.engine)).collect();
        assert_eq!(distinct.len(), size, "each cell once on each engine");
        orders.insert(block.iter().map(|run| (run.cell, run.engine)).collect::<Vec<_>>());
    }
    assert_eq!(orders.len(), 3, "each block has an order of its own");
    assert_eq!(study.runs(), runs, "the order follows from the seed");
    assert!(runs.iter().enumerate().all(|(i, run)| run.number == i));
    let other = Study { seed: 8, ..study.clone() };
    assert_ne!(other.runs(), runs);
    let mut longer = study.clone();
    longer.cells[1].more = 2;
    let (first, more) = (&longer.runs()[..runs.len()], &longer.runs()[runs.len()..]);
    assert!(first == runs && more.iter().all(|run| run.cell == longer.cells[1].name));
    assert_eq!(more.iter().map(|run| run.repeat).collect::<Vec<_>>(), [3, 3, 4, 4], "on both engines");
}

#[test]
fn specs_differ_only_in_what_they_should() {
    let study = study(&["sinter", "rocksdb"], 2);
    for run in study.runs() {
        let spec = study.spec(&run).unwrap();
        assert_eq!(spec.engine.name, run.engine);
        assert_eq!(spec.seed, 7 + u64::from(run.repeat), "all cells of a repeat see the same keys");
    }
}

/// Every name in a hypothesis refers to an existing cell, measure and phases, and names of cells are unique.
#[test]
fn studies_are_whole() {
    for (scale, entry) in Scale::ALL.into_iter().flat_map(|scale| catalogue::STUDIES.iter().map(move |entry| (scale, entry))) {
        let study = catalogue::study(entry.name, scale, &request(&catalogue::engines(entry.name)[..2], 1)).unwrap();
        for engine in &study.engines {
            let mine = || study.cells.iter().filter(|cell| cell.is_for(engine)).map(|cell| cell.name.as_str());
            assert_eq!(mine().collect::<BTreeSet<_>>().len(), mine().count(), "{engine}");
        }
        for cell in &study.cells {
            assert!(!cell.measures.is_empty(), "{}", cell.name);
            let phases: BTreeSet<&String> = cell.workload.phases.iter().map(|phase| &phase.name).collect();
            assert!(cell.measures.values().flatten().all(|phase| phases.contains(phase)), "{}", cell.name);
        }
        for hypothesis in &study.hypotheses {
            let engines: Vec<&str> = study.engines.iter().map(String::as_str).filter(|e| hypothesis.is_for(e)).collect();
            let comparisons = || hypothesis.groups.iter().flat_map(|group| &group.any_of);
            for term in comparisons().flat_map(|c| c.above.iter().chain(&c.below)) {
                for engine in term.engine.as_deref().map_or(engines.clone(), |engine| vec![engine]) {
                    let cell = study.cell(&term.cell, engine).unwrap_or_else(|| panic!("no cell {} of {engine}", term.cell));
                    assert!(cell.measures.contains_key(&term.measure), "{term:?}");
                }
            }
        }
        assert!(study.hypotheses.iter().all(|h| !h.groups.is_empty()), "an empty claim would be accepted");
        let json = serde_json::to_string(&study).unwrap();
        assert_eq!(serde_json::from_str::<Study>(&json).unwrap(), study, "a study is data");
    }
}

/// Every workload has a row, its runs differ in the engine only, and compactions left by a load count with it.
#[test]
fn engines_stand_side_by_side() {
    let side_by_side = catalogue::study("side-by-side", Scale::Small, &request(&["sinter", "rocksdb", "fjall"], 1)).unwrap();
    assert!(side_by_side.compares_engines());
    assert!(!study(&["sinter"], 1).compares_engines());
    let measures: Vec<(&str, usize)> =
        side_by_side.cells.iter().flat_map(|cell| &cell.measures).map(|(name, phases)| (name.as_str(), phases.len())).collect();
    let expected = [
        ("fillseq", 2),
        ("fillrandom", 2),
        ("overwrite", 2),
        ("readmissing", 1),
        ("readrandom", 1),
        ("readwhilewriting", 2),
        ("seekrandom", 1),
        ("ycsb-a", 2),
        ("ycsb-b", 2),
        ("ycsb-c", 2),
        ("ycsb-d", 2),
        ("ycsb-f", 2),
        ("ycsb-e", 2),
    ];
    assert_eq!(measures, expected);
    assert!(side_by_side.cells.iter().all(|cell| cell.settings.wal && !cell.settings.sync));
}

/// The large load has a row of its own, with 25 GB at full scale.
#[test]
fn a_large_load_is_a_row() {
    let study = catalogue::study("large-load", Scale::Paper, &request(&["sinter", "rocksdb"], 1)).unwrap();
    assert!(study.compares_engines());
    let [cell] = &study.cells[..] else { panic!("one cell: {:?}", study.cells) };
    assert_eq!(cell.measures["large load"], ["large load", "large load debts"]);
    assert_eq!(cell.workload.keys * 116, 22_388_000_000);
    assert_eq!(cell.settings.families[0].settings["compression"], "kNoCompression");
}

/// The sizes that the original study names.
#[test]
fn paper_has_the_sizes_of_the_original() {
    let study = catalogue::study("compaction-wal-waf", Scale::Paper, &request(&["sinter"], 1)).unwrap();
    let of = |name: &str| -> BTreeSet<&str> {
        study.cells.iter().flat_map(|cell| &cell.settings.families).map(|family| family.settings[name].as_str()).collect()
    };
    assert_eq!(of("max_bytes_for_level_base"), BTreeSet::from(["268435456", "536870912", "67108864"]));
    assert_eq!(of("max_bytes_for_level_multiplier"), BTreeSet::from(["10", "20", "4"]));
    assert_eq!(of("compaction_style"), BTreeSet::from(["kCompactionStyleLevel", "kCompactionStyleUniversal"]));
    let perf: Vec<_> = study.cells.iter().filter(|cell| cell.name.ends_with("perf")).collect();
    assert!(perf.len() == 2 && perf.iter().all(|cell| !cell.settings.wal && !cell.settings.sync));
    assert!(perf.iter().all(|cell| cell.settings.database["use_direct_io_for_flush_and_compaction"] == "true"));
}

/// A tree that does not outgrow level 2 has one shape under every fan-out: 2,000,000 keys with 512 bytes of compressed value are 1.06 GB at
/// most, and 256 MiB and its four-fold hold 1.34 GB.
#[test]
fn fan_outs_are_compared_where_they_make_a_difference() {
    for scale in Scale::ALL {
        let study = catalogue::study("compaction-wal-waf", scale, &request(&["sinter"], 1)).unwrap();
        let fan_out = study.hypotheses.iter().find(|hypothesis| hypothesis.needs == ["max_bytes_for_level_multiplier"]).unwrap();
        let names: Vec<&str> = fan_out.groups.iter().map(|group| group.name.as_str()).collect();
        let values: &[usize] = if scale == Scale::Ci { &[4096] } else { &[4096, 16384] };
        assert_eq!(names.len(), 2 * values.len(), "{names:?}");
        assert!(names.iter().all(|name| values.iter().any(|value| name.contains(&format!(", {value} B: ")))), "{names:?}");
    }
}

/// Two families have no more memory for memtables than one.
#[test]
fn families_share_the_memory_of_one() {
    let study = study(&["sinter"], 1);
    let memory =
        |cell: &Cell| -> u64 { cell.settings.families.iter().map(|f| f.settings["write_buffer_size"].parse::<u64>().unwrap()).sum() };
    let found: BTreeSet<u64> = study.cells.iter().map(memory).collect();
    assert_eq!(found, BTreeSet::from([64 << 10]));
    assert_eq!(study.cells.iter().filter(|cell| cell.settings.families.len() == 2).count(), 4);
}

/// A log that adds equally many bytes to both styles is no interaction, though its shares of the written bytes differ.
#[test]
fn equal_differences_are_no_interaction() {
    let mut study = study(&["sinter"], 3);
    study.cells.retain(|cell| cell.name.starts_with("A "));
    study.hypotheses.truncate(3);
    let verdicts = |universal_stable: u64| {
        let findings = judged(&study, |cell, repeat| {
            let total = match cell {
                "A leveled stable" => 5000,
                "A leveled perf" => 4000,
                "A universal stable" => universal_stable,
                _ => 2000,
            };
            total + u64::from(repeat)
        });
        findings.iter().map(|finding| finding.verdict.verdict).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(3000), [Answer::Accepted, Answer::Rejected, Answer::Rejected]);
    // Universal compaction saves 500 more than leveled does: more than 5 % of the mean of the four, 3625.
    assert_eq!(verdicts(3500), [Answer::Accepted, Answer::Rejected, Answer::Accepted]);
    assert_eq!(verdicts(2300), [Answer::Accepted, Answer::Accepted, Answer::Accepted]);
}

#[test]
fn wrong_requests_are_told() {
    let refused = |request: &Request, name: &str| match catalogue::study(name, Scale::Ci, request) {
        Err(Error::Request(what)) => what,
        other => panic!("{other:?}"),
    };
    let good = request(&["sinter"], 1);
    assert!(refused(&good, "compaction").contains("there are: compaction-wal-waf"));
    assert!(refused(&request(&["leveldb"], 1), "compaction-wal-waf").contains("no \"leveldb\""));
    assert!(refused(&request(&["sinter", "sinter"], 1), "compaction-wal-waf").contains("twice"));
    assert!(refused(&request(&[], 1), "compaction-wal-waf").contains("none"));
    assert!(refused(&request(&["sinter"], 0), "compaction-wal-waf").contains("repeats"));
}

#[test]
fn a_part_of_a_study_has_its_cells_and_the_claims_about_them() {
    let whole = || catalogue::study("compaction-wal-waf", Scale::Ci, &request(&["sinter"], 1)).unwrap();
    let only = |choices: &[&str]| whole().only(&choices.iter().map(|choice| choice.to_string()).collect::<Vec<_>>());
    assert_eq!(only(&[]), Ok(whole()));
    let part = only(&["part=A", "part=B", "style=leveled"]).unwrap();
    assert!(part.cells.len() < whole().cells.len() && part.cells.iter().all(|cell| cell.factors["part"] == "A"), "B has no styles");
    assert!(part.left_out.iter().any(|what| what.contains("part=A, part=B, style=leveled")));
    let part = only(&["part=A"]).unwrap();
    let name = |hypothesis: &Hypothesis| hypothesis.claim.clone();
    let about_a = whole().hypotheses.iter().map(name).filter(|claim| claim.starts_with("A:")).collect::<Vec<_>>();
    assert_eq!(part.hypotheses.iter().map(name).collect::<Vec<_>>(), about_a);
    let what = |answer: Result<Study, Error>| match answer {
        Err(Error::Request(what)) => what,
        other => panic!("{other:?}"),
    };
    let refused = |choices: &[&str]| what(only(choices));
    assert!(refused(&["part"]).contains("FACTOR=VALUE") && refused(&["colour=red"]).contains("there are: families, part"));
    assert!(refused(&["part=D"]).contains("there are: A, B"));
    assert!(refused(&["part=C", "style=leveled"]).contains("all of"));
    let of = |name, engine, choice: &str| catalogue::study(name, Scale::Ci, &request(&[engine], 1)).unwrap().only(&[choice.to_owned()]);
    assert!(what(of("adaptive-compression", "rocksdb", "strategy=auto")).contains("no cell has this strategy"), "RocksDB has no auto");
    assert!(what(of("side-by-side", "sinter", "part=A")).contains("side-by-side has no factors"));
    let auto = of("adaptive-compression", "sinter", "strategy=auto").unwrap();
    assert!(!auto.compares_engines(), "rooms differ, and workloads");
    let (mixes, part) = ("auto beats the best", of("adaptive-compression", "sinter", "part=B").unwrap());
    assert!(!part.hypotheses.iter().any(|hypothesis| hypothesis.claim.contains(mixes)), "mixes of C could decide it");
}

#[test]
fn a_study_runs_and_keeps_its_records() {
    let (fake, study) = (Fake::new(), short_study(&["sinter", "rocksdb"], 2));
    let (folder, runner) = (fake.folder(&study), fake.runner("good", ":", None));
    let mut events = (0, 0, 0);
    let conducted = conduct(&study, &folder, &|_| runner.clone(), &AtomicBool::new(false), &mut |event| match event {
        Event::Begins(_) => events.0 += 1,
        Event::Progress { phase, done, total } => {
            assert_eq!((phase, done, total), ("fillrandom debts", 1, 2));
            events.1 += 1;
        }
        Event::Ended(run, record) => {
            assert_eq!(record.spec, study.spec(run).unwrap(), "the spec reached the runner whole");
            events.2 += 1;
        }
        Event::Lost(..) => panic!("nothing fails"),
    });
    assert_eq!(conducted, Ok(Conducted { finished: 16, failed: 0, interrupted: false }));
    assert_eq!(events, (16, 16, 16));
    assert_eq!(files(&folder).len(), 16);
    let (again, stored) = Folder::open(folder.path()).unwrap();
    assert_eq!(stored, study);
    // Nothing is left to do: a runner that cannot exist is never called.
    assert_eq!(go(&stored, &again, &Runner::of("/nowhere".into())).finished, 16);
    assert!(matches!(Folder::create(folder.path(), &study), Err(Error::Request(_))), "results are not overwritten");
}

/// The third run is interrupted: two are kept, nothing else, and a second call makes the rest.
#[test]
fn an_interrupted_study_goes_on() {
    let (fake, study) = (Fake::new(), short_study(&["sinter"], 2));
    let folder = fake.folder(&study);
    let begun = fake.file("begun");
    let good = fake.runner("good", ":", None);
    // Ends only at the interrupt, and then with a partial record.
    let wait = format!("trap 'stop=1' INT; : > {}; while [ -z \"$stop\" ]; do sleep 0.01; done", begun.display());
    let endless = fake.runner("endless", &wait, Some("interrupted"));
    let stop = AtomicBool::new(false);
    let count = std::cell::Cell::new(0);
    let runner = |_: &str| if count.get() < 3 { good.clone() } else { endless.clone() };
    let conducted = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !begun.exists() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
        });
        conduct(&study, &folder, &runner, &stop, &mut |event| count.set(count.get() + u32::from(matches!(event, Event::Begins(_)))))
    });
    assert_eq!(conducted, Ok(Conducted { finished: 2, failed: 0, interrupted: true }));
    assert_eq!(files(&folder), BTreeSet::from(["0000.json".to_string(), "0001.json".to_string()]));
    let before = std::fs::read(folder.path().join("runs/0000.json")).unwrap();
    assert_eq!(go(&study, &folder, &good), Conducted { finished: 8, failed: 0, interrupted: false });
    assert_eq!(std::fs::read(folder.path().join("runs/0000.json")).unwrap(), before, "what is finished is not run again");
}

/// A study goes on over sessions that end in an archive, are killed, and end in an archive again.
#[test]
fn an_archived_study_goes_on() {
    let (fake, study) = (Fake::new(), short_study(&["sinter"], 2));
    let folder = fake.folder(&study);
    let (good, bad) = (fake.runner("good", ":", None), fake.runner("bad", ":", Some("the disk is full")));
    let session = |folder: &Folder, first: u32, last: u32| {
        // Runs of these places in the session are good, the others say that they failed.
        let count = std::cell::Cell::new(0);
        let runner = |_: &str| if (first..=last).contains(&count.get()) { good.clone() } else { bad.clone() };
        conduct(&study, folder, &runner, &AtomicBool::new(false), &mut |event| {
            count.set(count.get() + u32::from(matches!(event, Event::Begins(_))));
        })
    };
    assert_eq!(session(&folder, 1, 3), Ok(Conducted { finished: 3, failed: 5, interrupted: false }));
    archive(folder.path()).unwrap();
    let (folder, read) = Folder::open(folder.path()).unwrap();
    assert!(read == study && !folder.path().join("runs").exists() && !folder.path().join("study.json").exists());
    // Killed afterwards: repeated runs are loose, good ones are still in the archive.
    assert_eq!(session(&folder, 2, 3), Ok(Conducted { finished: 5, failed: 3, interrupted: false }));
    assert_eq!(files(&folder).len(), 5);
    std::fs::write(folder.path().join("runs/0007.unfinished"), "{").unwrap();
    let (folder, _) = Folder::open(folder.path()).unwrap();
    assert_eq!(go(&study, &folder, &good), Conducted { finished: 8, failed: 0, interrupted: false });
    let records = |folder: &Folder| study.runs().iter().map(|run| folder.record(&study, run).unwrap()).collect::<Vec<_>>();
    let before = records(&folder);
    archive(folder.path()).unwrap();
    assert!(before == records(&Folder::open(folder.path()).unwrap().0) && before.iter().all(Option::is_some));
    assert_eq!(go(&study, &Folder::open(folder.path()).unwrap().0, &bad), Conducted { finished: 8, failed: 0, interrupted: false });
    assert!(matches!(Folder::create(folder.path(), &study), Err(Error::Request(_))), "an archive is results");
}

#[test]
fn runs_that_fail_are_tried_again() {
    let (fake, study) = (Fake::new(), short_study(&["sinter"], 1));
    let folder = fake.folder(&study);
    // One dies, one reports a failure, one prints nonsense, one does not exist.
    let runners = [
        fake.runner("dies", "echo 'engine: there is no such setting' >&2; exit 2", None),
        fake.runner("fails", ":", Some("the disk is full")),
        Runner { program: "/bin/sh".into(), arguments: vec!["-c".into(), "cat > /dev/null; echo nonsense".into()] },
        Runner::of("/nowhere/sinter-rivals".into()),
    ];
    let count = std::cell::Cell::new(0);
    let mut lost = Vec::new();
    let conducted = conduct(&study, &folder, &|_| runners[count.get() - 1].clone(), &AtomicBool::new(false), &mut |event| match event {
        Event::Begins(_) => count.set(count.get() + 1),
        Event::Lost(_, why) => lost.push(why.to_string()),
        Event::Ended(_, record) => assert_eq!(record.failure.as_deref(), Some("the disk is full")),
        Event::Progress { .. } => {}
    });
    assert_eq!(conducted, Ok(Conducted { finished: 0, failed: 4, interrupted: false }));
    assert_eq!(lost.len(), 3, "{lost:?}");
    assert!(lost[0].ends_with("there is no such setting"), "{lost:?}");
    assert!(lost[1].contains("printed no record"), "{lost:?}");
    assert!(lost[2].contains("/nowhere/sinter-rivals"), "{lost:?}");
    assert_eq!(files(&folder), BTreeSet::from(["0001.json".to_string()]));
    let results = Results::read(&study, &folder).unwrap();
    assert_eq!(judge(&study, &results)[0].verdict.verdict, Answer::Undecided, "failed runs are no results");
    assert_eq!(go(&study, &folder, &fake.runner("good", ":", None)), Conducted { finished: 4, failed: 0, interrupted: false });
}

/// A run that is killed cannot remove its data.
#[test]
fn data_of_killed_runs_is_removed() {
    let fake = Fake::new();
    let scratch = fake.file("scratch");
    let mut study = short_study(&["sinter"], 1);
    study.medium.directory = scratch.clone();
    std::fs::create_dir_all(scratch.join("sinter-run-0-0")).unwrap();
    let leave = format!("mkdir {0}/sinter-run-$$-0 {0}/sinter-run-$$-1; kill -9 $$", scratch.display());
    let conducted = go(&study, &fake.folder(&study), &fake.runner("killed", &leave, None));
    assert_eq!((conducted.finished, conducted.failed), (0, 4));
    let left: Vec<_> = std::fs::read_dir(&scratch).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["sinter-run-0-0"], "of others nothing");
}

/// Findings of a study whose cells wrote `total` (cell, repeat) bytes.
fn judged(study: &Study, total: impl Fn(&str, u32) -> u64) -> Vec<Finding> {
    let fake = Fake::new();
    let folder = fake.folder(study);
    for run in study.runs() {
        folder.keep(&run, &record(study.spec(&run).unwrap(), total(run.cell, run.repeat))).unwrap();
    }
    let findings = judge(study, &Results::read(study, &folder).unwrap());
    folder.conclude(&findings).unwrap();
    let text = std::fs::read_to_string(folder.path().join("verdicts.json")).unwrap();
    let read: Vec<Finding> = serde_json::from_str(&text).unwrap();
    assert!(read.iter().zip(&findings).all(|(a, b)| a.verdict == b.verdict) && read.len() == findings.len(), "verdicts are data");
    findings
}

#[test]
fn verdicts_follow_the_rule() {
    let study = short_study(&["sinter", "rocksdb"], 3);
    let verdict = |perf: u64| {
        let findings = judged(&study, |cell, repeat| if cell.ends_with("perf") { perf } else { 400 } + u64::from(repeat));
        assert_eq!(findings.len(), 2, "one for each engine");
        findings[0].clone()
    };
    let accepted = verdict(200);
    assert_eq!(accepted.verdict.verdict, Answer::Accepted);
    assert!(accepted.verdict.statistics.contains("leveled, fillrandom: perf to stable: 0.50"), "{}", accepted.verdict.statistics);
    assert!(accepted.verdict.statistics.contains("Cliff's delta -1.00"), "{}", accepted.verdict.statistics);
    assert!(accepted.verdict.rule.contains("below 0.95"), "{}", accepted.verdict.rule);
    // The log is gone completely, and the rest is unchanged.
    let first = &accepted.comparisons[0];
    assert_eq!((first.causes[0].cause.as_str(), first.causes[0].above), ("wal", 0.0));
    assert!((first.causes[0].below - 2.005).abs() < 0.02, "{first:?}");
    assert_eq!(verdict(400).verdict.verdict, Answer::Rejected);
    assert_eq!(verdict(380).verdict.verdict, Answer::Undecided, "the interval reaches over the bound");
}

/// Two repeats tell hardly how far apart repeats lie.
#[test]
fn fewer_than_three_repeats_decide_nothing() {
    for (repeats, said) in [(1, "not decided, 1 run,"), (2, "not decided, 2 runs,")] {
        let study = short_study(&["sinter"], repeats);
        let finding = judged(&study, |cell, _| if cell.ends_with("perf") { 1 } else { 400 }).swap_remove(0);
        assert_eq!(finding.verdict.verdict, Answer::Undecided);
        assert!(finding.verdict.statistics.contains(said), "{}", finding.verdict.statistics);
        assert!(finding.comparisons.iter().all(|compared| compared.ratio.unwrap().interval.is_none()));
    }
}

/// A ratio of 1.003 against a bound of 1 is not printed as 1.00.
#[test]
fn ratios_have_the_digits_that_tell_them_from_the_bound() {
    let compared = Compared {
        group: String::new(),
        name: String::new(),
        bound: Bound::Below(1.0),
        ratio: None,
        runs: 3,
        cliffs_delta: None,
        state: State::Refuted,
        causes: Vec::new(),
    };
    let between = |low, high| Some(Interval { low, high, confidence: 0.95, method: Method::Student });
    assert_eq!(compared.figure(1.003, between(1.002, 1.0042)), "1.003 (1.002 to 1.004)");
    assert_eq!(compared.figure(0.5, between(0.4, 0.6)), "0.50 (0.40 to 0.60)");
    assert_eq!(compared.figure(2.0, between(0.0, 1e16)), "2.00 (repeats differ too much)");
    assert_eq!(Bound::Apart(1.025).to_string(), "outside 0.976 to 1.025");
    assert_eq!(Bound::Below(0.999).to_string(), "below 0.999");
}

#[test]
fn settings_that_an_engine_ignores_decide_nothing() {
    let study = short_study(&["fjall"], 3);
    let told = |line: &str| {
        let fake = Fake::new();
        let folder = fake.folder(&study);
        for run in study.runs() {
            let total = if run.cell.ends_with("perf") { 100 } else { 400 } + u64::from(run.repeat);
            let ignored_settings = vec![line.to_string()];
            folder.keep(&run, &RunRecord { ignored_settings, ..record(study.spec(&run).unwrap(), total) }).unwrap();
        }
        judge(&study, &Results::read(&study, &folder).unwrap())[0].verdict.clone()
    };
    for line in ["compaction_style: there is one", "[CFOptions \"default\"] compaction_style = kCompactionStyleLevel: there is one"] {
        let verdict = told(line);
        assert_eq!(verdict.verdict, Answer::Undecided);
        assert!(verdict.statistics.contains("fjall has no counterpart for compaction_style"));
    }
    assert_eq!(told("[CFOptions \"default\"] num_levels = 9: not with this compaction_style").verdict, Answer::Accepted);
}

/// The number of a file is not trusted: the spec in the record decides.
#[test]
fn records_of_other_runs_are_refused() {
    let (study, fake) = (short_study(&["sinter"], 1), Fake::new());
    let folder = fake.folder(&study);
    let runs = study.runs();
    folder.keep(&runs[0], &record(study.spec(&runs[1]).unwrap(), 200)).unwrap();
    let conducted = conduct(&study, &folder, &|_| fake.runner("good", ":", None), &AtomicBool::new(false), &mut |_| {});
    for refused in [conducted.err(), Results::read(&study, &folder).err()] {
        let Some(Error::Request(what)) = refused else { panic!("{refused:?}") };
        assert!(what.contains("0000.json: is of another run"), "{what}");
    }
}

#[test]
fn a_mixture_of_builds_is_told() {
    let (study, fake) = (short_study(&["sinter"], 3), Fake::new());
    let folder = fake.folder(&study);
    for run in study.runs() {
        let mut record = record(study.spec(&run).unwrap(), 200 + u64::from(run.repeat));
        if run.repeat == 1 {
            (record.commit, record.engine_version) = (Some("abc".to_string()), "fake 2".to_string());
        }
        folder.keep(&run, &record).unwrap();
    }
    let statistics = judge(&study, &Results::read(&study, &folder).unwrap())[0].verdict.statistics.clone();
    assert!(statistics.contains("several versions of the engine: fake 1, fake 2"), "{statistics}");
    assert!(statistics.contains("several commits: abc, unknown") && !statistics.contains("several machines"), "{statistics}");
    assert!(statistics.contains("Intervals at 98.75 %: Welch's"), "{statistics}");
}

/// One alternative is enough, and a claim falls only when all of them do.
#[test]
fn groups_hold_by_one_of_their_comparisons() {
    let mut study = short_study(&["sinter"], 3);
    let way = |cell: &str, bound| Comparison {
        name: cell.to_string(),
        above: vec![Term::new(cell, "overwrite")],
        below: vec![Term::new("A leveled stable", "overwrite")],
        fold: Fold::Product,
        bound,
    };
    let ask = |study: &mut Study, bounds: [Bound; 2]| {
        let any_of = vec![way("A leveled perf", bounds[0]), way("A universal perf", bounds[1])];
        let groups = vec![Group { name: "either".to_string(), any_of }];
        study.hypotheses = vec![Hypothesis::new("one is", Metric::WriteAmplification, groups)];
        judged(study, |cell, repeat| if cell == "A leveled perf" { 200 } else { 400 } + u64::from(repeat))[0].clone()
    };
    let found = ask(&mut study, [Bound::Below(0.9), Bound::Below(0.9)]);
    assert_eq!(found.verdict.verdict, Answer::Accepted);
    assert_eq!([found.comparisons[0].state, found.comparisons[1].state], [State::Holds, State::Refuted]);
    assert_eq!(ask(&mut study, [Bound::Above(0.9), Bound::Below(0.9)]).verdict.verdict, Answer::Rejected);
    assert_eq!(ask(&mut study, [Bound::Apart(1.5), Bound::Apart(1.5)]).verdict.verdict, Answer::Accepted);
}

#[test]
fn metrics_are_of_phases_together() {
    let study = study(&["sinter"], 1);
    let mut record = record(study.spec(&study.runs()[0]).unwrap(), 300);
    record.phases[1].written.user_bytes = 0;
    record.phases[1].operations = 0;
    let names: Vec<String> = record.phases[..2].iter().map(|phase| phase.name.clone()).collect();
    assert_eq!(Metric::WriteAmplification.of(&record, &names), Some(6.0), "debts count, with the bytes that they are for");
    assert_eq!(Metric::OperationsPerSecond.of(&record, &names), Some(5.0));
    record.phases[1].seconds = record.phases[0].seconds / 4.0;
    assert_eq!(Metric::OperationsPerSecondOfAll.of(&record, &names), Some(4.0), "who waits waits");
    assert_eq!(Metric::SpaceAmplification.of(&record, &names), Some(1.5));
    assert_eq!(Metric::WriteAmplification.of(&record, &names[1..]), None);
    assert_eq!(Metric::P99Latency.of(&record, &names), None);
    assert_eq!(Metric::PeakMemory.of(&record, &["none".to_string()]), None);
    let causes = by_cause(&record, &names).unwrap();
    assert_eq!(causes.keys().collect::<Vec<_>>(), ["compaction to L1", "wal"]);
    assert!((causes.values().sum::<f64>() - 6.0).abs() < 1e-9);
}

#[test]
fn folders_of_other_versions_are_refused() {
    let (fake, study) = (Fake::new(), short_study(&["sinter"], 1));
    assert!(matches!(Folder::open(Path::new("/nowhere")), Err(Error::Request(_))));
    let folder = fake.folder(&study);
    let file = folder.path().join("study.json");
    let mut written: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    written["version"] = 9.into();
    std::fs::write(&file, written.to_string()).unwrap();
    let Err(Error::Request(what)) = Folder::open(folder.path()) else { panic!("accepted") };
    assert!(what.contains("version 9"), "{what}");
}
