//! Tests of the requests to both servers, and of the judging of claims.

use super::super::folder::Folder;
use super::super::judge::{Results, judge};
use super::super::plan::{Request, Scale, Study};
use super::NAME;
use crate::run::{Answer, PhaseRecord};
use crate::study::servers::Servers;
use crate::study::{catalogue, testing};

fn study(engines: &[&str], servers: Servers) -> Study {
    catalogue::study(NAME, Scale::Small, &Request { servers, ..testing::request(engines, 3) }).unwrap()
}

#[test]
fn both_are_asked_the_same_and_checked_by_another_client() {
    let study = study(&["sinter", "redis"], Servers::all());
    for name in ["pipeline 1", "pipeline 16", "pipeline 64", "pipeline 16, redis-benchmark"] {
        let [ours, theirs] = ["sinter", "redis"].map(|engine| study.cell(name, engine).unwrap());
        assert_eq!(ours.workload, theirs.workload);
        let servers = [ours, theirs].map(|cell| cell.settings.server.clone().unwrap());
        assert_eq!(servers[0].pipeline, servers[1].pipeline);
        assert_eq!(servers[0].benchmark.is_some(), name.ends_with("benchmark"));
        assert!([ours, theirs].iter().all(|cell| cell.settings.database["appendfsync"] == "everysec"));
    }
    let alone = self::study(&["redis"], Servers { benchmark: None, ..Servers::all() });
    assert_eq!((alone.cells.len(), alone.hypotheses.len()), (11, 0));
    assert!(alone.left_out[0].contains("redis-benchmark"), "{:?}", alone.left_out);
}

/// Each measure of a collection has a claim, and counts the work that its commands left behind.
#[test]
fn collections_are_asked_alike_and_claimed() {
    let study = study(&["sinter", "redis"], Servers::all());
    let collections = || study.cells.iter().filter(|cell| !cell.name.starts_with("pipeline "));
    assert_eq!(collections().count(), 16);
    let mut claimed = 0;
    for cell in collections() {
        let engine = if cell.is_for("sinter") { "redis" } else { "sinter" };
        assert_eq!(cell.workload, study.cell(&cell.name, engine).unwrap().workload);
        assert_eq!(cell.settings.server.as_ref().unwrap().pipeline, 16);
        let phases: Vec<&String> = cell.measures.values().flatten().collect();
        assert_eq!(phases.len(), cell.workload.phases.len(), "each phase counts once: {phases:?}");
        for measure in cell.measures.keys() {
            let claim = format!("{}: {measure}", cell.name);
            assert!(study.hypotheses.iter().any(|hypothesis| hypothesis.groups[0].name == claim), "{claim}");
            claimed += 1;
        }
    }
    assert_eq!(claimed, 2 * (study.hypotheses.len() - 4));
    let hashes = study.cell("hashes of 10", "sinter").unwrap();
    assert_eq!(
        (hashes.workload.keys, hashes.measures["HSET of 10"].as_slice()),
        (100_000, ["HSET of 10", "filled"].map(String::from).as_slice())
    );
}

#[test]
fn times_as_many_are_as_many() {
    let study = study(&["sinter", "redis"], Servers::all());
    let verdicts = |of_64: f64| {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::create(&directory.path().join("results"), &study).unwrap();
        for run in study.runs() {
            let rate = match (run.engine, run.cell) {
                ("sinter", "pipeline 16") => 1_700_000.0,
                ("sinter", "pipeline 64") => of_64,
                _ => 1_000_000.0,
            };
            let seconds = 1e6 / rate * (1.0 + 0.0001 * f64::from(run.repeat));
            let figures = PhaseRecord { operations: 1_000_000, seconds, ..PhaseRecord::default() };
            folder.keep(&run, &testing::record(study.spec(&run).unwrap(), &figures)).unwrap();
        }
        let findings = judge(&study, &Results::read(&study, &folder).unwrap());
        // Collections are as fast on both.
        findings.iter().map(|finding| finding.verdict.verdict).take(4).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(2_300_000.0), [Answer::Accepted; 4]);
    assert_eq!(verdicts(1_900_000.0), [Answer::Accepted, Answer::Rejected, Answer::Accepted, Answer::Accepted]);
}
