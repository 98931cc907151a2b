//! A real file system that is full: the engine's threads write, flush and compact on it until nothing fits any more. Writes fail with an
//! error that says so, reads go on, and with room made writing resumes on the same handle; whoever opens the database next finds what was
//! acknowledged, whole batches, and nothing else.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod mount;

use mount::{Mounted, run_where_mounting_is_allowed, say};
use sinterdb::clock::{Clock, SystemClock};
use sinterdb::settings::{DbSettings, FamilySettings};
use sinterdb::{Builder, Db, Durability, Error, Family, ReadOptions, WriteBatch, WriteOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SIZE: u64 = 40 << 20;
const WRITERS: usize = 2;
/// Directories that take space at first; one is deleted each time the medium is full.
const BALLASTS: usize = 3;
/// Content of each ballast directory: files of so many bytes. Enough that flushes find space beside compactions, which may take all there
/// is.
const BALLAST: (usize, usize) = (32, 192 << 10);
/// A writer takes the medium for full after so many refusals in a row: a flush or compaction that fails gives its room back, in which a few
/// batches more fit.
const REFUSALS: usize = 50;
/// Nanoseconds after which writing must have resumed. It takes about a second; this is only so that a hang ends.
const PATIENCE: u64 = 120_000_000_000;

fn settings(direct: bool) -> Builder {
    let database = DbSettings {
        max_background_jobs: 3,
        max_total_wal_size: 2 << 20,
        use_direct_io_for_flush_and_compaction: direct,
        ..DbSettings::default()
    };
    let family = FamilySettings {
        write_buffer_size: 256 << 10,
        target_file_size_base: 256 << 10,
        max_bytes_for_level_base: 1 << 20,
        max_compaction_bytes: 4 << 20,
        ..FamilySettings::default()
    };
    Db::builder().settings(database).family("default", family.clone()).family("twin", family)
}

fn key(writer: usize, n: u64) -> Vec<u8> {
    // Not in order, so that compactions have something to merge.
    format!("{writer}/{:08}", n.wrapping_mul(7919) % 100_000_000).into_bytes()
}

fn counter(writer: usize) -> Vec<u8> {
    format!("counter{writer}").into_bytes()
}

/// Bytes that do not compress.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| byte()).collect()
}

fn value(writer: usize, n: u64) -> Vec<u8> {
    noise(n * WRITERS as u64 + writer as u64, 200 + usize::try_from(n % 1000).unwrap())
}

/// One file system and the writes that were acknowledged on it.
struct Trial {
    name: &'static str,
    direct: bool,
    mounted: Mounted,
    /// Batches acknowledged, by writer.
    written: [AtomicU64; WRITERS],
}

impl Trial {
    fn new(name: &'static str, direct: bool, mounted: Mounted) -> Self {
        Trial { name, direct, mounted, written: [const { AtomicU64::new(0) }; WRITERS] }
    }

    fn database(&self) -> PathBuf {
        self.mounted.path().join("db")
    }

    fn ballast(&self, n: usize) -> PathBuf {
        self.mounted.path().join(format!("ballast{n}"))
    }

    fn acknowledged(&self, writer: usize) -> u64 {
        self.written[writer].load(Ordering::Acquire)
    }

    /// The next batch of a writer: a key in both families, and the counter that says so.
    fn write(&self, db: &Db, twin: &Family, writer: usize) -> Result<(), Error> {
        let n = self.acknowledged(writer);
        let mut batch = WriteBatch::new();
        batch.put(&key(writer, n), &value(writer, n));
        batch.put_in(twin, &key(writer, n), &n.to_le_bytes());
        batch.put(&counter(writer), &(n + 1).to_le_bytes());
        let durability = if n.is_multiple_of(16) { Durability::Sync } else { Durability::Buffered };
        db.write(&mut batch, &WriteOptions::new(durability))?;
        self.written[writer].store(n + 1, Ordering::Release);
        Ok(())
    }

    /// Writes until nothing fits any more. Every refusal says why.
    fn fill(&self, db: &Db, twin: &Family, writer: usize) {
        let mut refusals = 0;
        while refusals < REFUSALS {
            match self.write(db, twin, writer) {
                Ok(()) => refusals = 0,
                Err(error) => {
                    assert_no_space(&error);
                    refusals += 1;
                }
            }
        }
    }

    /// Reads at random among what is acknowledged, until told to end.
    fn read(&self, db: &Db, twin: &Family, end: &AtomicBool) {
        let mut random = 1u64;
        while !end.load(Ordering::Acquire) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let writer = usize::from(random >> 63 == 1);
            let Some(n) = (random >> 20).checked_rem(self.acknowledged(writer)) else { continue };
            assert_eq!(db.get(&key(writer, n)).unwrap(), Some(value(writer, n)), "{}: writer {writer}, batch {n}", self.name);
            assert_eq!(db.get_with(twin, &key(writer, n), &ReadOptions::default()).unwrap(), Some(n.to_le_bytes().to_vec()));
        }
    }

    /// Everything acknowledged is there, in both families, and nothing else.
    fn check(&self, db: &Db, when: &str) {
        let twin = db.family("twin").unwrap();
        let (mut entries, mut twins) = (Vec::new(), Vec::new());
        for writer in 0..WRITERS {
            let end = self.acknowledged(writer);
            entries.extend((0..end).map(|n| (key(writer, n), value(writer, n))));
            twins.extend((0..end).map(|n| (key(writer, n), n.to_le_bytes().to_vec())));
            entries.extend((end > 0).then(|| (counter(writer), end.to_le_bytes().to_vec())));
        }
        for (family, mut expected) in [(db.default_family(), entries), (twin, twins)] {
            expected.sort_unstable();
            let found: Vec<_> = db.iter_with(&family, ReadOptions::default()).unwrap().map(Result::unwrap).collect();
            let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
            let (has, wants, name) = (found.len(), expected.len(), family.name());
            assert!(
                found == expected,
                "{}, {when}: family {name} has {has} entries of {wants}; the first other one is {differs:?}",
                self.name
            );
        }
    }

    /// Checks that writing works again without further ado once there is free space.
    fn resumes(&self, db: &Db, twin: &Family) {
        let clock = SystemClock::default();
        let deadline = clock.monotonic_ns() + PATIENCE;
        while let Err(error) = self.write(db, twin, 0).and_then(|()| db.sync()).and_then(|()| db.flush()) {
            assert_no_space(&error);
            assert!(clock.monotonic_ns() < deadline, "{}: writing does not resume: {error}", self.name);
        }
    }

    fn run(&self) {
        for n in 0..BALLASTS {
            std::fs::create_dir(self.ballast(n)).unwrap();
            for file in 0..BALLAST.0 {
                std::fs::write(self.ballast(n).join(file.to_string()), vec![1; BALLAST.1]).unwrap();
            }
        }
        let db = settings(self.direct).open(self.database()).unwrap();
        let twin = db.family("twin").unwrap();
        for n in 1..BALLASTS {
            self.fill_up(&db, &twin);
            self.check(&db, "full");
            // A flush may still fit into what a failed compaction gave back.
            db.flush().unwrap_or_else(|error| assert_no_space(&error));
            std::fs::remove_dir_all(self.ballast(n)).unwrap();
            self.resumes(&db, &twin);
            self.check(&db, "with room again");
        }
        self.fill_up(&db, &twin);
        // Whoever is on a full medium may give up.
        drop(twin);
        db.close().unwrap_or_else(|error| assert_no_space(&error));
        self.reopen();
    }

    /// Runs all writers at once, and a reader, until the medium is full.
    fn fill_up(&self, db: &Db, twin: &Family) {
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| self.read(db, twin, &end));
            let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || self.fill(db, twin, writer))).collect();
            let ended: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
            end.store(true, Ordering::Release);
            reader.join().unwrap();
            ended.into_iter().for_each(Result::unwrap);
        });
    }

    fn reopen(&self) {
        // To look at it needs no room.
        let db = Db::builder().read_only().open(self.database()).unwrap();
        self.check(&db, "read only, full");
        db.close().unwrap();
        // To write needs some. What an attempt without it leaves behind must do no harm.
        match settings(self.direct).open(self.database()) {
            Ok(db) => self.check(&db, "opened, full"),
            Err(error) => assert_no_space(&error),
        }
        std::fs::remove_dir_all(self.ballast(0)).unwrap();
        let db = settings(self.direct).open(self.database()).unwrap();
        self.check(&db, "opened, with room");
        assert_eq!(db.verify().unwrap(), [], "{}", self.name);
        self.resumes(&db, &db.family("twin").unwrap());
        self.check(&db, "opened, with room, and written to");
        db.close().unwrap();
    }
}

fn assert_no_space(error: &Error) {
    assert!(matches!(error, Error::NoSpace(_)) && error.to_string().starts_with("no space: "), "not what a full medium gives: {error:?}");
}

const NAMESPACE: &str = "SINTERDB_MOUNT_NAMESPACE";

/// Runs a test on a file system and a directory elsewhere, or says that it cannot be had.
fn with(test: &str, mount: impl FnOnce(&Path) -> Result<Mounted, String>, run: impl FnOnce(Mounted, &Path)) {
    if std::env::var_os(NAMESPACE).is_none() {
        run_where_mounting_is_allowed(test, NAMESPACE);
        return;
    }
    let (scratch, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    match mount(scratch.path()) {
        Ok(mounted) => run(mounted, home.path()),
        Err(reason) => say(&format!("SKIPPED {test}: {reason}")),
    }
}

/// Runs the trial on a file system, or says that it cannot be had.
fn on(test: &str, name: &'static str, direct: bool, mount: impl FnOnce(&Path) -> Result<Mounted, String>) {
    with(test, mount, |mounted, _| Trial::new(name, direct, mounted).run());
}

/// Fills a file system up to so many MiB, whatever it keeps for itself.
fn leave(ballast: &Path, mib: usize) {
    std::fs::create_dir(ballast).unwrap();
    let piece = |n: usize| ballast.join(n.to_string());
    let fitting = (0..).find(|n| std::fs::write(piece(*n), vec![1; 1 << 20]).is_err()).unwrap();
    assert!(fitting > mib, "{fitting} MiB");
    (fitting - mib..=fitting).for_each(|n| std::fs::remove_file(piece(n)).unwrap());
}

/// A cold tier of its own file system that is full: no writer hears of it, and what found no room moves there when there is some.
fn full_tier(mounted: &Mounted, home: &Path, direct: bool) {
    let (tier, ballast) = (mounted.path().join("cold"), mounted.path().join("ballast"));
    std::fs::create_dir(&tier).unwrap();
    leave(&ballast, 8);
    let tiers = format!("cold={}", tier.display()).parse().unwrap();
    let database = DbSettings { max_background_jobs: 3, use_direct_io_for_flush_and_compaction: direct, tiers, ..DbSettings::default() };
    let family = FamilySettings {
        write_buffer_size: 256 << 10,
        target_file_size_base: 256 << 10,
        max_bytes_for_level_base: 1 << 20,
        max_compaction_bytes: 4 << 20,
        temperature_ages: "cold".parse().unwrap(),
        ..FamilySettings::default()
    };
    let db = Db::builder().settings(database).family("default", family).open(home.join("db")).unwrap();
    let written = 16_000;
    (0..written).for_each(|n| db.put(&key(0, n), &value(0, n)).unwrap());
    db.flush().unwrap();
    let ticker = |name: &str| db.stats().tickers.iter().find(|t| t.0 == name).unwrap().1;
    let of = |n: usize| db.tiers()[n].bytes;
    assert!(ticker("sinterdb.tier.fallback.count") > 0 && of(1) > 0, "{:?}", db.tiers());
    std::fs::remove_dir_all(&ballast).unwrap();
    db.wait_for_compactions().unwrap();
    assert!(db.tiers()[0].files < 8, "only logs and manifests are left: {:?}", db.tiers());
    db.check_ledger().unwrap();
    let check = |db: &Db| (0..written).step_by(37).for_each(|n| assert_eq!(db.get(&key(0, n)).unwrap(), Some(value(0, n)), "{n}"));
    check(&db);
    db.close().unwrap();
    let db = Db::open(home.join("db")).unwrap();
    check(&db);
    assert_eq!(db.verify().unwrap(), []);
}

#[test]
fn a_full_tmpfs_as_a_tier() {
    with("a_full_tmpfs_as_a_tier", |scratch| Mounted::tmpfs(scratch, &format!("size={SIZE}")), |m, home| full_tier(&m, home, false));
}

#[test]
fn a_full_ext4_as_a_tier_past_the_page_cache() {
    let test = "a_full_ext4_as_a_tier_past_the_page_cache";
    with(test, |scratch| Mounted::ext4(scratch, SIZE), |m, home| full_tier(&m, home, true));
}

#[test]
fn a_full_tmpfs() {
    on("a_full_tmpfs", "tmpfs", false, |scratch| Mounted::tmpfs(scratch, &format!("size={SIZE}")));
}

/// There is space for bytes, but not for another file.
#[test]
fn a_tmpfs_without_inodes() {
    on("a_tmpfs_without_inodes", "tmpfs, inodes", false, |scratch| Mounted::tmpfs(scratch, &format!("size={},nr_inodes=170", 4 * SIZE)));
}

#[test]
fn a_full_ext4() {
    on("a_full_ext4", "ext4", false, |scratch| Mounted::ext4(scratch, SIZE));
}

#[test]
fn a_full_ext4_past_the_page_cache() {
    on("a_full_ext4_past_the_page_cache", "ext4, direct", true, |scratch| Mounted::ext4(scratch, SIZE));
}
