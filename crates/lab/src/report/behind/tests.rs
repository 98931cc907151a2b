//! Tests of the list on invented records, and on the committed ones.

use super::*;
use crate::report::engines::tests::{folder_of, study};
use crate::study::archive::ARCHIVE;
use std::path::Path;

/// A committed result folder.
fn committed(name: &str) -> Folder {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results").join(name);
    assert!(folder.join(ARCHIVE).exists());
    Folder::read(&folder).unwrap()
}

fn found(folder: &Folder) -> Vec<Difference> {
    let runs = Runs::of(folder).unwrap();
    [runs.groups(&runs.rivals()), runs.groups(&runs.settings())].into_iter().flatten().flat_map(|group| group.found).collect()
}

#[test]
fn differences_are_listed_from_two_percent_on_and_sorted() {
    let study = study("side-by-side", &["sinter", "rocksdb", "fjall"], 3);
    let seconds = |engine: &str, repeat: u32| {
        let noise = f64::from(repeat) / 1000.0;
        Some(match engine {
            "sinter" => 1.0 + noise,
            "rocksdb" => 0.5 + noise,
            _ => 0.99 + noise,
        })
    };
    let (_directory, folder) = folder_of(&study, seconds);
    let all = found(&folder);
    assert!(!all.is_empty() && all.iter().all(|one| one.measure == "operations/s" && one.other == "rocksdb"), "{all:?}");
    assert!(all.iter().all(|one| one.factor > 1.9 && one.interval.is_some_and(|interval| interval.low > 1.9)));
    assert_eq!(differences(&folder).iter().filter(|one| one.is_behind()).count(), all.len());
    let page = behind(&folder);
    let short = format!("operations/s: less than rocksdb in {0} of {0} cells, by factors of 2.00 to 2.00", all.len());
    assert!(page.starts_with("<section id=\"behind\"><h2>Where we are behind</h2>") && page.contains(&short), "{page}");
    assert!(!page.contains("without it</h3>") && !page.contains("rejected</h3>"), "{page}");
    let (_directory, equal) = folder_of(&study, |_, _| Some(1.0));
    assert!(behind(&equal).contains("In nothing that was compared."));
    let (_directory, alone) = folder_of(&self::study("side-by-side", &["rocksdb"], 1), |_, _| Some(1.0));
    assert_eq!(behind(&alone), "");
}

/// Two repeats have no interval, and the place of a rival's missing run is not compared.
#[test]
fn few_repeats_are_told() {
    let study = study("side-by-side", &["sinter", "rocksdb"], 2);
    let (_directory, folder) =
        folder_of(&study, |engine, repeat| if engine == "sinter" { Some(1.0) } else { (repeat == 0).then_some(0.5) });
    assert!(found(&folder).iter().all(|one| one.repeats == 1));
    let (_directory, folder) = folder_of(&study, |engine, _| Some(if engine == "sinter" { 1.0 } else { 0.5 }));
    let text = found(&folder)[0].to_string();
    assert!(text.ends_with(": less than rocksdb by a factor of 2.00 (2 runs), 1,000 to 2,000"), "{text}");
}

/// Kinds of losses that pages told less well than they were measured: loads that no measure has, latencies, memory and speed of one cell,
/// bytes written and puts per second at ages that no claim names.
#[test]
fn what_committed_records_hold_is_found() {
    let is_there = |found: &[Difference], place: &str, measure: &str, other: &str| {
        assert!(
            found.iter().any(|one| one.place == place && one.measure == measure && one.other == other),
            "{place}, {measure}: {found:#?}"
        );
    };
    let side_by_side = found(&committed("side-by-side"));
    is_there(&side_by_side, "YCSB A, B, C, F, D: load", "p99, µs", "rocksdb");
    is_there(&side_by_side, "YCSB E: load", "p99, µs", "rocksdb");
    let servers = found(&committed("aof-rewrite"));
    is_there(&servers, "B 1 kB, from 32MiB", "operations/s", "redis");
    let tiering = found(&committed("time-aware-tiering"));
    is_there(&tiering, "3 alpha 0.5, 20 %", "write amplification", "3 alpha 0.5, 0 %");
    assert!(
        tiering
            .iter()
            .any(|one| one.measure == "operations/s" && ["50", "80", "100"].iter().any(|age| one.place.ends_with(&format!("{age} %")))),
        "{tiering:#?}"
    );
}
