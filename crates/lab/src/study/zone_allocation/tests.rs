//! Tests of the original's sizes, and of claims about existing cells.

use super::super::metric::Metric;
use super::super::plan::{Cell, Scale, Study};
use super::{NAME, REAL, Sizes, ZONE, Zone};
use crate::result::{CauseBytes, Zones};
use crate::run::PhaseRecord;
use crate::study::{catalogue, testing};
use std::collections::BTreeSet;

fn study(scale: Scale, engines: &[&str]) -> Study {
    catalogue::study(NAME, scale, &testing::request(engines, 2)).unwrap()
}

#[test]
fn paper_has_the_sizes_of_the_original() {
    let study = study(Scale::Paper, &["sinter"]);
    let cell = study.cell("A zenfs, no limit", "sinter").unwrap();
    let zones = cell.settings.zones.as_ref().unwrap();
    assert_eq!((zones.zones, zones.zone_bytes, zones.max_active), (256, 128 << 20, None));
    assert_eq!((zones.allocation.as_str(), zones.reset.as_str()), ("zenfs", "eager"));
    let settings = &cell.settings.options().unwrap().families[0].1;
    assert_eq!((settings.target_file_size_base, settings.write_buffer_size), (64 << 20, 64 << 20));
    assert_eq!((settings.max_bytes_for_level_base, settings.max_bytes_for_level_multiplier), (256 << 20, 2.0));
    assert_eq!(cell.workload.keys * 116 / 100_000_000, 269, "27 GB, rounded down");
    let small = super::study(Scale::Small, &testing::request(&["sinter"], 1));
    let zones = small.cell("C sinter, mixed, 14 active", "sinter").unwrap().settings.zones.clone().unwrap();
    assert_eq!((zones.zones, zones.zone_bytes, zones.max_active), (256, 8 << 20, Some(14)));
}

#[test]
fn every_claim_is_about_cells_that_are_there() {
    for scale in Scale::ALL {
        let study = study(scale, &["sinter", "rocksdb"]);
        let names: BTreeSet<&str> = study.cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names.len(), study.cells.len());
        assert!(study.runs().iter().all(|run| run.engine == "sinter"));
        for hypothesis in &study.hypotheses {
            for comparison in hypothesis.groups.iter().flat_map(|group| &group.any_of) {
                for term in comparison.above.iter().chain(&comparison.below) {
                    assert!(names.contains(term.cell.as_str()), "{}: there is no {}", hypothesis.claim, term.cell);
                }
            }
        }
        assert_eq!(study.left_out.len(), 1);
    }
    assert!(study(Scale::Ci, &["rocksdb"]).cells.is_empty());
    // The original's sizes are for its own comparisons, and ours with them.
    assert_eq!((study(Scale::Paper, &["sinter"]).cells.len(), study(Scale::Paper, &["sinter"]).hypotheses.len()), (8, 12));
}

/// Claims are about engines with threads, as the original's; cells without are a second mode.
#[test]
fn claims_are_judged_with_threads() {
    let study = study(Scale::Small, &["sinter"]);
    let jobs = |cell: &Cell| (cell.settings.database["max_background_jobs"].clone(), cell.factors["jobs"].clone());
    let [two, none] = ["2", "none"].map(|jobs| study.cells.iter().filter(|cell| cell.factors["jobs"] == jobs).count());
    assert_eq!((two + none, none), (study.cells.len(), 4));
    for cell in &study.cells {
        let expected = if cell.name.ends_with("no threads") { ("0", "none") } else { ("2", "2") };
        assert_eq!(jobs(cell), (expected.0.to_string(), expected.1.to_string()), "{}", cell.name);
    }
    let terms = study.hypotheses.iter().flat_map(|hypothesis| &hypothesis.groups).flat_map(|group| &group.any_of);
    let mut terms = terms.flat_map(|comparison| comparison.above.iter().chain(&comparison.below));
    assert!(terms.all(|term| !term.cell.ends_with("no threads")));
}

#[test]
fn a_smaller_scale_has_the_same_shape() {
    let (paper, small, ci) = (Sizes::of(Scale::Paper), Sizes::of(Scale::Small), Sizes::of(Scale::Ci));
    assert_eq!(paper.drive(256, Zone::whole(512 << 20)), (64, Zone::whole(512 << 20)));
    assert_eq!(small.drive(256, Zone::whole(64 << 20)), (512, Zone::whole(4 << 20)));
    assert_eq!(small.drive(256, REAL), (31, Zone { bytes: 128 << 20, capacity: 1077 << 16 }));
    assert_eq!(paper.puts(224) / 64, small.puts(224));
    assert_eq!(ci.drive(204, ZONE), (204, Zone::whole(128 << 10)));
    assert_eq!([super::tight(0.6), super::tight(0.85)], [222, 157]);
    for sizes in [paper, small, ci] {
        let (zones, zone) = sizes.drive(256, ZONE);
        let put = sizes.puts(224) * (16 + sizes.value as u64);
        assert_eq!((zones, put * 1000 / (u64::from(zones) * zone.capacity)), (256, 651), "22.4 GB on 34.4");
    }
}

/// Invented record of a phase on zones of 100 bytes.
fn phase(resets: u64, moved: u64) -> PhaseRecord {
    let line = |cause: &str, bytes| CauseBytes { cause: cause.into(), bytes };
    let zones = Zones {
        by_cause: vec![line("files", 800), line("block padding", 200), line("zone collection", moved), line("zone finish", 40)],
        resets,
        metadata_resets: 1,
        resets_of_logs: Some(2),
        resets_by_lifetime: [("short".to_string(), 5), ("long".to_string(), resets - 6)].into(),
        collected: 4,
        collected_by_lifetime: [("long".to_string(), 4)].into(),
        collected_dead_bytes: [("medium".to_string(), 30), ("long".to_string(), 60)].into(),
        moved_tables: Some(7),
        finishes: 3,
        zones: 10,
        used: 6,
        capacity_bytes: 1000,
        written_bytes: 500,
        live_bytes: 310,
        ..Zones::default()
    };
    PhaseRecord { zones: Some(zones), ..PhaseRecord::default() }
}

/// Activity counts in the requested phases; the fewest possible follow from everything since the drive was new.
#[test]
fn figures_are_those_of_the_zones() {
    let study = study(Scale::Ci, &["sinter"]);
    let run = study.runs().into_iter().find(|run| run.cell.starts_with("A sinter,")).unwrap();
    let mut record = testing::record(study.spec(&run).unwrap(), &phase(12, 70));
    let all: Vec<String> = record.phases.iter().map(|phase| phase.name.clone()).collect();
    record.phases.truncate(2);
    let of = |metric: Metric| metric.of(&record, &all[1..2]).unwrap();
    assert_eq!([of(Metric::ZoneMoved), of(Metric::ZonePadding), of(Metric::ZoneFinishes)], [70.0, 40.0, 3.0]);
    assert_eq!([of(Metric::ZoneResets), of(Metric::LogZoneResets)], [11.0, 2.0]);
    assert_eq!([of(Metric::ShortZoneResets), of(Metric::LongZoneResets), of(Metric::CollectionResets)], [5.0, 6.0, 4.0]);
    assert_eq!([of(Metric::MovedTables), of(Metric::CollectedLongZones), of(Metric::CollectedMediumDead)], [7.0, 4.0, 30.0]);
    assert_eq!(Metric::ExtremeZoneResets.of(&record, &all[1..2]), None, "a record without the count");
    // 2000 bytes by the host, of which 500 still lie below write pointers: 15 zones, and 22 resets in both phases.
    assert_eq!(of(Metric::ZoneResetsOverLeast), 22.0 / 15.0);
    assert_eq!([of(Metric::ZonesUsed), of(Metric::ZonesUsedOverLeast), of(Metric::ZoneUtilisation)], [6.0, 1.5, 0.31]);
    assert_eq!(Metric::FinishedShare.of(&record, &all), Some(2.0 / 27.0));
    assert_eq!(Metric::ZonesUsed.of(&record, &all), None, "not all phases are there");
    let cell = study.cell(run.cell, run.engine).unwrap();
    record.failure = Some("phase part 3: no zone can be written".into());
    assert!(!cell.accepts(&record), "what it says does not count");
    record.out_of_room = true;
    assert!(cell.accepts(&record));
    assert_eq!(Metric::ZonesUsed.of(&testing::record(record.spec.clone(), &PhaseRecord::default()), &all), None, "elsewhere");
}
