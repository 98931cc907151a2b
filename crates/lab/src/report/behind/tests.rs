//! Tests of the list on invented records, and on the committed ones.

use super::*;
use crate::report::engines::tests::{folder_of, study};
use crate::result::{CauseBytes, Zones};
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
    let groups = [runs.groups(&runs.rivals(), &of_rivals()), runs.groups(&runs.settings(), &of_settings(runs.plan))];
    groups.into_iter().flatten().flat_map(|group| group.found).collect()
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
    let short = format!("operations/s: less than RocksDB in {0} of {0} cells, by factors of 2.00 to 2.00", all.len());
    assert!(page.starts_with("<section id=\"behind\"><h2>Where we are behind</h2>") && page.contains(&short), "{page}");
    assert!(!page.contains("compared with</h3>") && !page.contains("rejected</h3>"), "{page}");
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
    assert!(text.ends_with(": less than RocksDB by a factor of 2.00 (2 runs), 1,000 against 2,000"), "{text}");
}

/// Kinds of losses that pages told less well than they were measured: loads that no measure has, memory and speed of one cell,
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
    is_there(&side_by_side, "reads: load", "peak memory, MiB", "rocksdb");
    is_there(&side_by_side, "reads: load", "space amplification", "fjall");
    is_there(&side_by_side, "overwrite", "peak memory, MiB", "rocksdb");
    let servers = found(&committed("aof-rewrite"));
    is_there(&servers, "the log rewritten from a length on: 1 kB, from 32 MiB on", "operations/s", "redis");
    let tiering = found(&committed("time-aware-tiering"));
    let [age, none] =
        ["age of 20 % of a run", "universal compaction alone"].map(|age| format!("last level on a slow medium: alpha 0.5, {age}"));
    is_there(&tiering, &age, "write amplification", &none);
    let is_longer = |one: &Difference| ["50 % of a run", "80 % of a run", "(100 %)"].iter().any(|age| one.place.ends_with(age));
    assert!(tiering.iter().any(|one| one.measure == "operations per second" && is_longer(one)), "{tiering:#?}");
}

/// Policies of zones are compared by zones and moved bytes, which their study measures, and not by speed; published ones are not ours.
#[test]
fn policies_of_zones_are_compared_by_what_their_study_measures() {
    let study = study("zone-allocation", &["sinter"], 3);
    let (_directory, mut folder) = folder_of(&study, |_, _| Some(1.0));
    for record in folder.runs.iter_mut().map(|run| &mut run.record) {
        let is_ours = record.spec.engine.zones.as_ref().unwrap().allocation == OURS;
        let moved = CauseBytes { cause: "zone collection".to_string(), bytes: if is_ours { 5 << 20 } else { 0 } };
        let used = if is_ours { 150 } else { 100 };
        let zones = Zones { used, by_cause: vec![moved], zones: 256, capacity_bytes: 256 << 20, live_bytes: 90 << 20, ..Zones::default() };
        for phase in &mut record.phases {
            phase.zones = Some(zones.clone());
            phase.operations_per_second = if is_ours { 1.0 } else { 1000.0 };
        }
    }
    let all = found(&folder);
    let case = "uniform keys, no limit of active zones";
    let place = format!("22.4 GB put: SinterDB's policy, {case}");
    let of = |measure: &str| all.iter().find(|one| one.measure == measure && one.place == place).unwrap();
    let used = of("zones in use");
    assert_eq!((used.other.as_str(), used.factor), (format!("22.4 GB put: SLA with lazy resets, {case}").as_str(), 1.5));
    let moved = of("bytes moved by the collector, MiB");
    assert!(moved.factor.is_infinite(), "{moved}");
    assert!(
        moved.to_string().ends_with(&format!(": more than 22.4 GB put: SLA with lazy resets, {case} (3 runs), 10.0 against 0")),
        "{moved}"
    );
    assert!(all.iter().all(|one| one.place.contains(": SinterDB's policy, ") && !one.measure.contains("per second")), "{all:#?}");
    let page = behind(&folder);
    assert!(page.contains(", against 0 in 8 of them") && page.contains("compared with</h3>"), "{page}");
}
