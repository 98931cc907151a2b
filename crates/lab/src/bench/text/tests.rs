use super::*;
use crate::result::{CauseBytes, Space, Written};
use crate::system::Figures;
use sinter_storage::store::{Beneath, Lifetime};

fn result() -> PhaseRecord {
    let mut histogram = Latency::histogram();
    (1..=1000u64).for_each(|i| histogram.record(i * 1000).unwrap());
    PhaseRecord {
        name: "fillrandom".into(),
        operations: 10_000_000,
        seconds: 23.45,
        thread_seconds: 23.45,
        bytes: 1_160_000_000,
        latency: Some(Latency::of(&histogram)),
        written: Written {
            user_bytes: 100 << 20,
            by_cause: vec![
                CauseBytes { cause: "wal".into(), bytes: 110 << 20 },
                CauseBytes { cause: "compaction to L2, level-size".into(), bytes: 90 << 20 },
            ],
            total_bytes: 200 << 20,
            write_amplification: Some(2.0),
            write_amplification_since_open: Some(2.5),
        },
        space: Space { space_amplification: Some(1.25), table_space_amplification: Some(1.125), ..Space::default() },
        ..PhaseRecord::default()
    }
}

fn text(result: &PhaseRecord, distribution: bool) -> String {
    let mut out = Vec::new();
    print_workload(Workload::FillRandom, Some(result), distribution, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_first_line_is_that_of_db_bench() {
    let text = text(&result(), false);
    let line = "fillrandom   :       2.345 micros/op 426439 ops/sec 23.450 seconds 10000000 operations;   47.2 MB/s";
    assert_eq!(text.lines().next(), Some(line));
}

#[test]
fn both_amplifications_stand_on_one_line() {
    let text = text(&result(), false);
    assert!(text.contains("write amplification 2.00 (since open 2.50)  space amplification 1.25 (tables 1.12)"), "{text}");
    assert!(
        text.lines().any(|l| l.split_whitespace().collect::<Vec<_>>() == ["compaction", "to", "L2,", "level-size", "90.00", "0.900"]),
        "{text}"
    );
}

#[test]
fn codecs_that_were_chosen_are_told_in_short() {
    assert!(!text(&result(), false).contains("codecs chosen"));
    let chosen = "level 0: none since 7; lz4 0.5\nlevel 5: lz4 not judged yet; lz4 0.5\nlevel 6: zstd since 9; why\n\
                  4 samples took 0.1 ms; 0 changes\n";
    let text = text(&PhaseRecord { chosen_codecs: [("default".to_string(), chosen.to_string())].into(), ..result() }, false);
    assert!(text.contains("\n  codecs chosen: L0 none, L5 lz4, L6 zstd\n"), "{text}");
}

#[test]
fn bookkeeping_is_told_and_does_not_count() {
    let figures = |user_bytes, written: &[(&str, u64)]| Figures {
        user_bytes,
        written: written.iter().map(|(cause, bytes)| ((*cause).into(), *bytes)).collect(),
        ..Figures::default()
    };
    let before = figures(100, &[("manifest", 50), ("wal", 100)]);
    let after = figures(300, &[("checkpoint", 1000), ("flush", 200), ("manifest", 90), ("wal", 310)]);
    let written = Written::between(&before, &after);
    assert_eq!((written.user_bytes, written.total_bytes, written.by_cause.len()), (200, 410, 4));
    assert_eq!((written.write_amplification, written.write_amplification_since_open), (Some(2.05), Some(1.7)));
    let text = text(&PhaseRecord { written, ..result() }, false);
    let last = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).and_then(|line| line.split(' ').next_back());
    assert_eq!((last("manifest"), last("checkpoint"), last("all but user")), (Some("0.200"), Some("5.000"), Some("7.250")));
}

#[test]
fn latencies_are_microseconds() {
    let short = text(&result(), false);
    assert!(short.contains("P50: 500.") && short.contains("P99.99: 1000."), "{short}");
    let long = text(&result(), true);
    let counts = long.lines().filter(|l| l.starts_with("  <= ")).map(|l| l.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap());
    assert_eq!(counts.sum::<u64>(), 1000);
}

#[test]
fn what_is_unknown_is_a_dash() {
    let unknown = PhaseRecord { written: Written::default(), space: Space::default(), latency: None, ..result() };
    assert!(text(&unknown, true).contains("write amplification - (since open -)  space amplification - (tables -)"));
}

/// The ledger leads from user bytes through files to all bytes written to the drive; bytes held back are neither lost nor counted twice.
#[test]
fn the_ledger_goes_on_to_the_drive() {
    let figures = |times: u64| {
        let mut beneath = Beneath::default();
        (beneath.files, beneath.padding, beneath.metadata) = (180 * times, 15 * times, 5 * times);
        (beneath.resets, beneath.metadata_resets, beneath.log_resets) = (3 * times, times, 2 * times);
        beneath.resets_by_lifetime.add(Lifetime::Short, times);
        let zones = &mut beneath.zones;
        (zones.all, zones.empty, zones.written, zones.live) = (62, 60, 300, 200);
        (zones.wear_least, zones.wear_most) = (1, 4);
        Figures { user_bytes: 100 * times, written: vec![("wal".into(), 200 * times)], beneath: Some(beneath), ..Figures::default() }
    };
    let zones = Zones::between(&figures(1), &figures(3)).unwrap();
    assert_eq!((zones.device_bytes, zones.device_write_amplification, zones.resets, zones.used), (400, Some(2.0), 6, 2));
    assert_eq!(zones.by_cause.iter().map(|line| line.bytes).sum::<u64>(), zones.device_bytes);
    assert_eq!((zones.metadata_resets, zones.resets_of_logs), (2, Some(4)));
    assert_eq!((zones.resets_by_lifetime["short"], zones.resets_by_lifetime["long"], zones.resets_by_lifetime.len()), (2, 0, 5));
    assert_eq!(Zones::between(&figures(1), &Figures::default()), None);
    let written = Written::between(&figures(1), &figures(3));
    let result = PhaseRecord { written, zones: Some(zones), ..result() };
    let text = text(&result, false);
    let last = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).and_then(|line| line.split(' ').next_back());
    assert_eq!((last("all but user"), last("less: held back")), (Some("2.000"), Some("0.200")));
    assert_eq!((last("block padding"), last("zone metadata"), last("device ")), (Some("0.150"), Some("0.050"), Some("2.000")));
    assert!(text.contains("  zones 2 of 62 in use, ") && text.contains("  resets 6 ") && text.contains("wear 1 to 4\n"), "{text}");
    assert_eq!(serde_json::from_str::<PhaseRecord>(&serde_json::to_string(&result).unwrap()).unwrap(), result);
}
