//! Compression in other threads changes nothing but the time it takes.

use super::super::pack::{Batch, Packers};
use super::super::window::{BATCH, BatchWindow, WINDOW};
use super::support::{DB, Memory, Random, Row, options, random_rows};
use crate::codec::{Codec, Compression, Dictionary, Trained};
use crate::error::Error;
use crate::key::{Kind, trailer};
use crate::range_del::RangeTombstones;
use crate::table::{TableBuilder, TableOptions};
use sinter_storage::store::{Cause, FileId, Hint, Store};
use std::sync::Arc;
use std::time::Duration;

/// Helpers may work, whatever the machine does.
fn packers(helpers: usize) -> Arc<Packers> {
    let packers = Arc::<Packers>::default();
    packers.look(99.0, helpers as f64 + 1.0, Duration::from_secs(1));
    packers
}

fn every_compression() -> Vec<Compression> {
    let plain = Codec::ALL.map(|codec| Compression { codec, ..Compression::default() });
    let zstd = |level, dictionary_bytes| Compression { codec: Codec::Zstd, level, dictionary_bytes };
    let zlib = Compression { codec: Codec::Zlib, level: Some(1), dictionary_bytes: 0 };
    [&plain[..], &[zstd(None, 2000), zstd(Some(3), 8000), zstd(Some(-3), 0), zlib]].concat()
}

/// Enough for the window to be filled many times; some blocks do not shrink, some are large.
fn many_rows(n: u64, random: &mut Random) -> Vec<Row> {
    let mut value = |i: u64| match i % 97 {
        0 => (0..3000).map(|_| random.next() as u8).collect(),
        1 if i.is_multiple_of(3) => vec![b'x'; 200_000],
        _ => format!("{{\"name\":\"user {}\",\"mail\":\"{:x}@example.org\",\"score\":{}}}", i * 7919 % 10_007, i * i, i % 13)
            .repeat(3)
            .into_bytes(),
    };
    (0..n).map(|i| (format!("key{i:08}").into_bytes(), trailer(i + 1, Kind::Value), value(i))).collect()
}

/// The bytes of a table, and the sizes that it told on the way.
fn table(rows: &[Row], compression: Compression, packers: &Arc<Packers>) -> (Vec<u8>, Vec<u64>) {
    let (store, id) = (Memory::default(), FileId::table(4));
    let out = store.create(id, &Hint::new(Cause::Flush)).unwrap();
    let mut builder = TableBuilder::new(DB, id, out, TableOptions { compression, ..options(4096) }).with_packers(packers);
    let mut estimates = Vec::with_capacity(rows.len());
    for (key, trailer, value) in rows {
        builder.add(key, *trailer, value, trailer >> 8).unwrap();
        estimates.push(builder.estimated_bytes());
    }
    let info = builder.finish(&RangeTombstones::default(), (1, 2)).unwrap();
    let bytes = store.files.lock()[&id].to_vec();
    assert_eq!(bytes.len() as u64, info.bytes);
    (bytes, estimates)
}

#[test]
fn tables_are_the_same_whoever_packs_their_blocks() {
    let rows = many_rows(6000, &mut Random(1));
    let (alone, shared) = (Arc::default(), packers(3));
    for compression in every_compression() {
        let expected = table(&rows, compression, &alone);
        let last = expected.1[rows.len() - 1];
        assert!(last.abs_diff(expected.0.len() as u64) < WINDOW as u64 / 2, "{compression:?}: {last} for {}", expected.0.len());
        // Two tables at a time, as flush and compaction have it.
        std::thread::scope(|scope| {
            let tables = [0, 1].map(|_| scope.spawn(|| table(&rows, compression, &shared)));
            for made in tables {
                assert!(made.join().unwrap() == expected, "{compression:?}");
            }
        });
    }
}

#[test]
fn small_tables_are_the_same() {
    let shared = packers(2);
    for seed in 0..40 {
        let mut random = Random(seed);
        let n = 1 + random.below(300) as usize;
        let rows = random_rows(&mut random, n);
        let compression = every_compression()[random.below(10) as usize];
        assert!(table(&rows, compression, &shared) == table(&rows, compression, &Arc::default()), "seed {seed} {compression:?}");
    }
}

fn batch(compression: Compression, dictionary: Option<&Arc<Trained>>, rows: &[Row]) -> Batch {
    let mut batch = Batch::new(compression, dictionary.cloned());
    for rows in rows.chunks(30) {
        rows.iter().for_each(|row| batch.raw.extend_from_slice(&row.2));
        batch.end_block();
    }
    batch
}

/// A payload, and codec and raw length if it is compressed.
type Stored = (Vec<u8>, Option<(Codec, u32)>);

fn packed(batch: &Batch) -> Vec<Stored> {
    batch.blocks().map(|(bytes, packed)| (bytes.to_vec(), packed)).collect()
}

#[test]
fn a_helper_gives_what_any_other_thread_gives() {
    let rows = many_rows(1000, &mut Random(2));
    let samples: Vec<&[u8]> = rows[2..60].iter().map(|row| row.2.as_slice()).collect();
    let sizes: Vec<usize> = samples.iter().map(|sample| sample.len()).collect();
    let bytes = Dictionary::train(&samples.concat(), &sizes, 600).unwrap();
    let trained = Arc::new(Trained::new(bytes, None).unwrap());
    let packers = packers(1);
    let mut random = Random(3);
    for round in 0..60 {
        let compression = every_compression()[round % 10];
        let dictionary = (compression.dictionary_bytes > 0).then_some(&trained);
        let from = random.below(900) as usize;
        let rows = &rows[from..from + 1 + random.below(100) as usize];
        let mut mine = batch(compression, dictionary, rows);
        mine.pack().unwrap();
        // Not asked for before a helper had it: there is no one else to pack it.
        let theirs = packers.submit(batch(compression, dictionary, rows)).take().unwrap();
        assert!(packed(&theirs) == packed(&mine), "round {round} {compression:?}");
    }
}

#[test]
fn without_any_helper_the_caller_packs() {
    let rows = many_rows(5000, &mut Random(4));
    let snappy = Compression { codec: Codec::Snappy, ..Compression::default() };
    let packers = packers(2);
    packers.end();
    assert!(packers.may_help(), "batches are handed over");
    assert!(table(&rows, snappy, &packers) == table(&rows, snappy, &Arc::default()));
}

#[test]
fn tables_are_finished_while_helpers_end() {
    let rows = many_rows(3000, &mut Random(5));
    let zlib = Compression { codec: Codec::Zlib, ..Compression::default() };
    let expected = table(&rows, zlib, &Arc::default());
    for pause in 0..5 {
        let packers = packers(2);
        std::thread::scope(|scope| {
            let made = scope.spawn(|| table(&rows, zlib, &packers));
            std::thread::sleep(Duration::from_millis(pause));
            packers.end();
            assert!(made.join().unwrap() == expected);
        });
    }
}

#[test]
fn helpers_may_come_and_go_under_many_tables() {
    let rows = many_rows(1500, &mut Random(8));
    let codecs = every_compression();
    let expected = codecs.iter().map(|compression| table(&rows, *compression, &Arc::default())).collect::<Vec<_>>();
    let packers = packers(3);
    std::thread::scope(|scope| {
        let tables: Vec<_> = codecs.iter().map(|compression| scope.spawn(|| table(&rows, *compression, &packers))).collect();
        let mut helpers = [0.0, 3.0, 1.0, 2.0].into_iter().cycle();
        while !tables.iter().all(|made| made.is_finished()) {
            packers.look(99.0, helpers.next().unwrap() + 1.0, Duration::from_secs(1));
            std::thread::sleep(Duration::from_micros(200));
        }
        for (made, (expected, compression)) in tables.into_iter().zip(expected.iter().zip(&codecs)) {
            assert!(made.join().unwrap() == *expected, "{compression:?}");
        }
    });
    assert!(format!("{packers:?}").contains("waiting: 0"), "{packers:?}");
}

#[test]
fn a_panic_is_an_error_and_the_helper_goes_on() {
    let rows = many_rows(200, &mut Random(6));
    let lz4 = Compression { codec: Codec::Lz4, ..Compression::default() };
    let packers = packers(1);
    for _ in 0..3 {
        let mut broken = batch(lz4, None, &rows);
        broken.raw.truncate(1000);
        let error = packers.submit(broken).take().err().unwrap();
        assert!(matches!(error, Error::Closed(_)), "{error}");
        // As where no helper is asked.
        let mut broken = batch(lz4, None, &rows);
        broken.raw.truncate(1000);
        assert!(matches!(broken.pack(), Err(Error::Closed(_))));
        assert!(packers.submit(batch(lz4, None, &rows)).take().is_ok());
    }
}

/// The error is the same whether a helper or the thread that wants the batch back compresses it.
#[test]
fn a_panic_is_an_error_of_the_table_whoever_packs() {
    for helpers in [0, 1] {
        let packers = packers(1);
        if helpers == 0 {
            packers.end();
        }
        let mut window = BatchWindow::new(Compression { codec: Codec::Zstd, ..Compression::default() });
        window.share(&packers);
        // What comes first is packed on the spot.
        window.raw().resize(BATCH, b'a');
        window.end_block().unwrap();
        let first = window.take(true).unwrap().unwrap();
        window.written(first, 10);
        // A batch that cannot be packed: its block ends where there is nothing.
        window.raw().resize(1000, b'a');
        window.end_block().unwrap();
        window.raw().truncate(10);
        let error = window.take(true).err();
        assert!(matches!(error, Some(Error::Closed(_))), "{error:?}");
    }
}

#[test]
fn a_table_that_is_given_up_leaves_nothing() {
    let rows = many_rows(3000, &mut Random(7));
    let packers = packers(1);
    packers.end();
    let out = Memory::default().create(FileId::table(4), &Hint::new(Cause::Flush)).unwrap();
    let compression = Compression { codec: Codec::Zstd, ..Compression::default() };
    let mut builder = TableBuilder::new(DB, FileId::table(4), out, TableOptions { compression, ..options(4096) }).with_packers(&packers);
    rows.iter().for_each(|(key, trailer, value)| builder.add(key, *trailer, value, trailer >> 8).unwrap());
    assert!(!format!("{packers:?}").contains("waiting: 0"), "{packers:?}");
    drop(builder);
    assert!(format!("{packers:?}").contains("waiting: 0"), "{packers:?}");
}

#[test]
fn a_window_is_bounded() {
    for block in [100, 4096, 70_000, 3 * WINDOW] {
        let mut window = BatchWindow::new(Compression { codec: Codec::Lz4, ..Compression::default() });
        window.share(&packers(1));
        let (mut inside, mut most) = (0, 0);
        for _ in 0..8 * WINDOW / block + 3 {
            let end = window.raw().len() + block;
            window.raw().resize(end, b'a');
            window.end_block().unwrap();
            inside += block;
            while let Some(batch) = window.take(false).unwrap() {
                inside -= batch.raw.len();
                window.written(batch, 10);
            }
            most = most.max(inside);
        }
        let bound = if block > WINDOW { 0 } else { WINDOW + BATCH };
        assert!(most <= bound, "{most} bytes wait with blocks of {block}");
        assert!(block > WINDOW || most > WINDOW / 2, "there is something to share: {most}");
        while let Some(batch) = window.take(true).unwrap() {
            inside -= batch.raw.len();
            window.written(batch, 10);
        }
        assert_eq!(inside, 0);
    }
}

#[test]
fn helpers_take_what_others_leave() {
    let allowed = |idle: f64, cpus: f64| {
        let packers = Packers::default();
        packers.look(idle, cpus, Duration::from_secs(1));
        format!("{packers:?}").split("allowed: ").nth(1).unwrap().split(',').next().unwrap().parse::<usize>().unwrap()
    };
    for (idle, cpus, expected) in [
        (0.0, 2.0, 0),
        (0.1, 2.0, 0),
        (0.3, 2.0, 1),
        (2.0, 2.0, 1),
        (0.9, 1.0, 0),
        (0.5, 1.5, 1),
        (0.3, 0.5, 0),
        (1.1, 8.0, 1),
        (3.5, 8.0, 4),
        (8.0, 8.0, 7),
        (f64::NAN, 8.0, 0),
    ] {
        assert_eq!(allowed(idle, cpus), expected, "{idle} of {cpus}");
    }
    assert!(!Packers::default().may_help(), "none before anybody looked");
}
