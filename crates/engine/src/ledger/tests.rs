//! Sums, shares and counts under threads.

use super::*;
use sinter_storage::store::Reason;
use std::sync::Barrier;

fn sample() -> Ledger {
    let ledger = Ledger::default();
    ledger.family(0).user(10, 1000);
    ledger.family(7).user(1, 500);
    ledger.family(0).wal_share(1100);
    ledger.family(7).wal_share(501);
    ledger.record(None, Cause::Wal, 1700);
    ledger.record(None, Cause::Manifest, 90);
    ledger.record(Some(0), Cause::Flush, 900);
    ledger.record(Some(7), Cause::Flush, 450);
    ledger.record(Some(0), Cause::Compaction { to: 6, reason: Reason::LevelSize }, 2000);
    ledger.record(Some(7), Cause::Compaction { to: 6, reason: Reason::LevelSize }, 30);
    ledger.record(Some(0), Cause::Compaction { to: 1, reason: Reason::RunCount }, 11);
    ledger.record(Some(0), Cause::Compaction { to: 1, reason: Reason::TimeToLive }, 5);
    ledger
}

#[test]
fn sums_of_all_views_agree() {
    let ledger = sample();
    let snapshot = ledger.snapshot();
    let total = 1700 + 90 + 900 + 450 + 2000 + 30 + 11 + 5;
    assert_eq!(snapshot.total(), total);
    assert_eq!(snapshot.by_cause().iter().map(|(_, bytes)| bytes).sum::<u64>(), total);
    assert_eq!(snapshot.user(), 1500);
    assert!((snapshot.write_amplification() - total as f64 / 1500.0).abs() < 1e-12);
    let families = snapshot.by_family();
    assert_eq!(families.iter().map(|f| f.wal_bytes).sum::<u64>(), 1700);
    assert_eq!(families.iter().map(|f| f.own_bytes + f.wal_bytes).sum::<u64>() + 90, total);
    assert_eq!((families[0].user_keys, families[1].own_bytes), (10, 480));
    assert_eq!(ledger.snapshot().balance(total), Ok(()));
    let off = ledger.snapshot().balance(total + 3).unwrap_err();
    assert!(off.contains("store has 3 more"), "{off}");
    assert!(ledger.snapshot().balance(total - 4).unwrap_err().contains("ledger has 4 more"));
}

#[test]
fn wal_shares_sum_up_to_the_log_whatever_the_payloads() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    for round in 0..500 {
        let ledger = Ledger::default();
        let mut random = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let wal = random() >> (random() % 60 + 4);
        ledger.record(None, Cause::Wal, wal);
        let families = random() % 9 + 1;
        (0..families).for_each(|id| ledger.family(id as u32).wal_share((random() >> (random() % 50 + 10)) + 1));
        let parts: u64 = ledger.snapshot().by_family().iter().map(|f| f.wal_bytes).sum();
        assert_eq!(parts, wal, "round {round}");
    }
}

#[test]
fn an_empty_ledger_divides_by_nothing() {
    let snapshot = Ledger::default().snapshot();
    assert_eq!(snapshot.write_amplification(), 0.0);
    assert_eq!(snapshot.balance(0), Ok(()));
    assert!(snapshot.by_family().is_empty());
    assert_eq!(snapshot.table(Space { stored_bytes: 0, live_bytes: 0 }).len(), 3);
}

#[test]
fn a_difference_is_what_happened_between() {
    let ledger = sample();
    let before = ledger.snapshot();
    ledger.family(9).user(2, 64);
    ledger.record(Some(9), Cause::Flush, 50);
    ledger.record(None, Cause::Wal, 70);
    let between = ledger.snapshot().since(&before);
    assert_eq!((between.total(), between.user()), (120, 64));
    assert_eq!(before.since(&before).total(), 0);
}

#[test]
fn the_table_shows_write_and_space_amplification_on_one_line() {
    let table = sample().snapshot().table(Space { stored_bytes: 1650, live_bytes: 1500 });
    let expected = [
        "cause      level  reason                           bytes   share  x user",
        "manifest                                              90    1.7%    0.06",
        "wal                                                 1700   32.8%    1.13",
        "flush          0                                    1350   26.0%    0.90",
        "compaction     1  run-count                           11    0.2%    0.01",
        "compaction     1  ttl                                  5    0.1%    0.00",
        "compaction     6  level-size                        2030   39.1%    1.35",
        "total                                               5186  100.0%    3.46",
        "user 1500 bytes: write amplification 3.46 (log included), space amplification 1.10",
        "family 0: user 1000 bytes, log 1168, tables 2916: write amplification 4.08",
        "family 7: user 500 bytes, log 532, tables 480: write amplification 2.02",
    ];
    assert_eq!(table, expected);
    let unknown = sample().snapshot().table(Space { stored_bytes: 1, live_bytes: 0 });
    assert!(unknown[8].ends_with("space amplification unknown"));
}

#[test]
fn no_record_is_lost_between_threads() {
    let ledger = Ledger::default();
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let ledger = &ledger;
            scope.spawn(move || {
                let mine = ledger.family(thread as u32);
                for i in 0..1000 {
                    mine.user(1, 3);
                    ledger.record(Some((i % 5) as u32), Cause::Flush, thread);
                }
            });
        }
    });
    let snapshot = ledger.snapshot();
    assert_eq!(snapshot.total(), 1000 * 28);
    assert_eq!((snapshot.user(), snapshot.user_keys[0].1), (24_000, 1000));
}

#[test]
fn tickers_are_exact_with_more_threads_than_slots_and_with_slots_reused() {
    let statistics = Statistics::default();
    for threads in [100usize, 3, 80] {
        // The barrier makes all of them alive at once, so that some must share the last slot.
        let barrier = Barrier::new(threads);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    statistics.add(Ticker::NumberKeysRead, 1);
                    barrier.wait();
                    for i in 0..500 {
                        statistics.add_all(&[(Ticker::BytesRead, 10), (Ticker::L0Hit, 1)]);
                        statistics.record(Histogram::FlushTime, i);
                    }
                });
            }
        });
    }
    let all = 183u64;
    assert_eq!(statistics.ticker(Ticker::NumberKeysRead), all);
    assert_eq!(statistics.ticker(Ticker::BytesRead), all * 5000);
    assert_eq!(statistics.ticker(Ticker::L0Hit), all * 500);
    let get = statistics.histogram(Histogram::FlushTime);
    assert_eq!((get.count, get.max, get.sum), (all * 500, 0.499, (all * 124_750) as f64 / 1000.0));
}

#[test]
fn names_are_rocksdbs_and_stand_once() {
    let statistics = Statistics::default();
    let mut names: Vec<&str> = statistics.tickers().chain(LedgerSnapshot::default().tickers()).map(|t| t.0).collect();
    names.extend(statistics.histograms().map(|h| h.0));
    // RocksDB counts nothing about where merges put things, and nothing about the last level that caches answer.
    assert!(names.iter().all(|name| name.starts_with("rocksdb.") || name.starts_with("sinterdb.")));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn the_dump_has_rocksdbs_form() {
    let statistics = Statistics::default();
    statistics.add(Ticker::MemtableHit, 12);
    (0..4).for_each(|_| statistics.record(Histogram::FlushTime, 2000));
    statistics.record(Histogram::NumFilesInSingleCompaction, 5);
    let dump = dump(statistics.tickers().chain(sample().snapshot().tickers()), statistics.histograms());
    let lines: Vec<&str> = dump.lines().collect();
    for expected in [
        "rocksdb.memtable.hit COUNT : 12",
        "rocksdb.bytes.written COUNT : 1500",
        "rocksdb.number.keys.written COUNT : 11",
        "rocksdb.wal.bytes COUNT : 1700",
        "rocksdb.flush.write.bytes COUNT : 1350",
        "rocksdb.compact.write.bytes COUNT : 2046",
        "rocksdb.compact.write.ttl.bytes COUNT : 5",
        "rocksdb.numfiles.in.singlecompaction P50 : 5.000000 P95 : 5.000000 P99 : 5.000000 P100 : 5.000000 COUNT : 1 SUM : 5",
        "rocksdb.wal.file.sync.micros P50 : 0.000000 P95 : 0.000000 P99 : 0.000000 P100 : 0.000000 COUNT : 0 SUM : 0",
    ] {
        assert!(lines.contains(&expected), "{expected} not in\n{dump}");
    }
    let get = lines.iter().find(|l| l.starts_with("rocksdb.db.flush.micros")).unwrap();
    assert!(get.ends_with("P100 : 2.000000 COUNT : 4 SUM : 8"), "{get}");
}
