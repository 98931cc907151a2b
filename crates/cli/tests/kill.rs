//! Processes that are killed under load: the test starts itself again as a writer, kills it at a random moment, and checks the database. A
//! kill ends the process, not the machine: every acknowledged write must survive, buffered ones too.
//!
//! `KILLS` says how many there are.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use sinterdb::settings::{DbSettings, FamilySettings};
use sinterdb::{Db, Durability, Family, ReadOptions, WriteBatch, WriteOptions};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const TEST: &str = "kill::killed_writers_lose_nothing";
/// Environment variable that makes the process the writer, in this directory.
const DIRECTORY: &str = "SINTERDB_KILL_DIRECTORY";
const WRITERS: usize = 2;
/// Batches of a writer, at most, so that it ends even if its parent has ended.
const MOST: u64 = 100_000;

fn open(path: &Path) -> Db {
    let settings = DbSettings { max_background_jobs: 2, max_total_wal_size: 1 << 20, ..DbSettings::default() };
    let family = FamilySettings {
        write_buffer_size: 64 << 10,
        target_file_size_base: 64 << 10,
        max_bytes_for_level_base: 256 << 10,
        max_compaction_bytes: 4 << 20,
        ..FamilySettings::default()
    };
    Db::builder().settings(settings).family("default", family.clone()).family("twin", family).open(path).unwrap()
}

fn key(writer: usize, n: u64) -> Vec<u8> {
    format!("{writer}/{n:08}").into_bytes()
}

fn value(writer: usize, n: u64) -> Vec<u8> {
    let mut state = n * 8 + writer as u64 + 1;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let length = usize::from(byte());
    (0..length).map(|_| byte()).collect()
}

/// The number of the writer's next batch, from its counter.
fn next(db: &Db, writer: usize) -> u64 {
    let counter = db.get(format!("counter{writer}").as_bytes()).unwrap();
    counter.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

/// Writes batches to two families and reports each acknowledgement, until it is killed.
fn write(db: &Db, twin: &Family, writer: usize) {
    let from = next(db, writer);
    for n in from..from + MOST {
        let mut batch = WriteBatch::new();
        batch.put(&key(writer, n), &value(writer, n));
        batch.put_in(twin, &key(writer, n), b"twin");
        batch.put(format!("counter{writer}").as_bytes(), &(n + 1).to_le_bytes());
        let durability = if n % 16 == 0 { Durability::Sync } else { Durability::Buffered };
        db.write(&mut batch, &WriteOptions::new(durability)).unwrap();
        std::io::stdout().lock().write_all(format!("acknowledged {writer} {n}\n").as_bytes()).unwrap();
    }
}

fn run_writers(path: &Path) {
    let db = open(path);
    let twin = db.family("twin").unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, twin) = (&db, &twin);
            scope.spawn(move || write(db, twin, writer));
        }
    });
}

fn start(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(DIRECTORY, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Kills the process after a while; returns the last acknowledged number of each writer, from complete lines.
fn kill(mut child: Child, after: Duration) -> BTreeMap<usize, u64> {
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut last = BTreeMap::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut line = String::new();
            while lines.read_line(&mut line).unwrap() > 0 {
                if let Some(numbers) = line.strip_prefix("acknowledged ").and_then(|rest| rest.strip_suffix('\n')) {
                    let (writer, n) = numbers.split_once(' ').unwrap();
                    last.insert(writer.parse().unwrap(), n.parse().unwrap());
                }
                line.clear();
            }
        });
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    });
    last
}

/// Checks that all batches from `from` up to the counter are there, and none after it. Returns the counter.
fn check(db: &Db, writer: usize, from: u64, acknowledged: Option<u64>) -> u64 {
    let end = next(db, writer);
    let promised = acknowledged.map_or(from, |n| n + 1);
    assert!(end >= promised, "writer {writer}: {promised} batches were acknowledged, {end} are left");
    assert!(end <= promised + 1, "writer {writer}: {end} batches, although only {} were begun", promised + 1);
    let twin = db.family("twin").unwrap();
    let rest = ReadOptions { lower: Some(key(writer, from)), prefix: Some(format!("{writer}/").into_bytes()), ..ReadOptions::default() };
    let entries: Vec<_> = db.iter_with(&db.default_family(), rest.clone()).unwrap().map(Result::unwrap).collect();
    let twins: Vec<_> = db.iter_with(&twin, rest).unwrap().map(Result::unwrap).collect();
    let expected: Vec<_> = (from..end).map(|n| (key(writer, n), value(writer, n))).collect();
    assert!(entries == expected, "writer {writer}: {} entries instead of {}, or others", entries.len(), expected.len());
    assert!(twins.iter().map(|t| &t.0).eq(expected.iter().map(|e| &e.0)), "writer {writer}: a torn batch");
    end
}

#[test]
fn killed_writers_lose_nothing() {
    if let Some(path) = std::env::var_os(DIRECTORY) {
        return run_writers(Path::new(&path));
    }
    let directory = tempfile::tempdir().unwrap();
    let mut counters = [0; WRITERS];
    let mut acknowledged = 0;
    let kills = std::env::var("KILLS").map_or(20, |kills| kills.parse().unwrap());
    for round in 0..kills {
        // One in five dies while it starts or recovers.
        let after = if round % 5 == 4 { round * 3 % 40 } else { 30 + round * 7919 % 400 };
        let last = kill(start(directory.path()), Duration::from_millis(after));
        let db = open(directory.path());
        for (writer, counter) in counters.iter_mut().enumerate() {
            let end = check(&db, writer, *counter, last.get(&writer).copied());
            acknowledged += end - *counter;
            *counter = end;
        }
        let damage = db.verify().unwrap();
        assert!(damage.is_empty(), "round {round}: {damage:?}");
    }
    let db = open(directory.path());
    (0..WRITERS).for_each(|writer| {
        let last = counters[writer].checked_sub(1);
        check(&db, writer, 0, last);
    });
    assert!(acknowledged > 1000, "only {acknowledged} batches in all: no load");
    println!("{kills} kills, {acknowledged} batches");
}
