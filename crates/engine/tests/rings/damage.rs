//! The damage ring: bits flip, files are cut, zeroed, swapped, replaced and lost. Each time, opening, reading everything and `verify`
//! together either name the damaged file or find exactly what was there before. Only where the process had died without closing, and so the
//! end of the log was never synced, may the end be missing, and then recovery says so.
//!
//! `DAMAGE=n` flips n bits per image instead of the usual number.

use crate::check::{self, Problem};
use crate::model::{Contents, Model, Progress};
use crate::random::Random;
use crate::runner::{Runner, builder};
use crate::workloads::{self, Workload};
use sinter_storage::store::{FileId, FileKind, MemoryStore, Store};
use sinterdb::clock::{Clock, SystemClock};
use sinterdb::{Db, Error, RecoveryReport};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Bits flipped in each of the images; four of them make more than 20,000.
const FLIPS: u64 = 5_200;

/// No trial may take longer, nanoseconds.
const LIMIT_NS: u64 = 2_000_000_000;

type All = BTreeMap<String, Contents>;

/// A database to damage, and what is in it.
struct Image {
    store: MemoryStore,
    model: Model,
    progress: Progress,
    all: All,
    /// The database was closed: only its last marker is unsynced.
    closed: bool,
}

/// Verdict on a damaged copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// An error, or `verify`, named the file.
    Named,
    /// Exactly what was there.
    Identical,
    /// The unsynced end is missing, and recovery reports it.
    Cut,
    /// The end of the newest segment is missing together with every later record that could have vouched for it: an older moment.
    End,
}

#[derive(Debug, Default)]
struct Tally {
    named: u64,
    identical: u64,
    cut: u64,
    end: u64,
}

impl Tally {
    fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Named => self.named += 1,
            Verdict::Identical => self.identical += 1,
            Verdict::Cut => self.cut += 1,
            Verdict::End => self.end += 1,
        }
    }
}

impl Image {
    fn new(workload: Workload, closed: bool, identity: u8) -> Self {
        let workload = Arc::new(workload);
        let model = Arc::new(Model::new(&workload.steps));
        let memory = Arc::new(MemoryStore::new());
        // As in a directory, but few.
        memory.set_ahead(256);
        let mut runner = Runner::new(&workload, &model, memory.clone());
        runner.identity = identity;
        runner.open().expect("open");
        while runner.step().expect("nothing fails") {}
        if closed {
            runner.close().expect("close");
        }
        let store = memory.clone_image();
        let progress = *runner.progress.lock();
        // Nothing that was begun is missing in an undamaged copy.
        let exact = Progress { floor: progress.applied, ..progress };
        let db = builder(identity).open_store(Arc::new(store.clone_image())).expect("open");
        let all = read(&db).expect("read");
        check::moment(&all, &model, &exact).expect("undamaged");
        drop(runner);
        let model = Arc::try_unwrap(model).unwrap_or_else(|_| panic!("the runner is gone"));
        Image { store, model, progress, all, closed }
    }

    fn files(&self) -> Vec<(FileId, u64)> {
        let mut files = self.store.list().expect("list");
        files.sort_unstable();
        files
    }

    /// Judges a damaged copy. `suspects` are the files that may be named.
    fn judge(&self, copy: MemoryStore, suspects: &[FileId]) -> Result<Verdict, String> {
        let clock = SystemClock::default();
        let judged = catch_unwind(AssertUnwindSafe(|| self.look(copy, suspects))).unwrap_or_else(|_| Err("panicked".into()));
        if clock.monotonic_ns() > LIMIT_NS {
            return Err(format!("took {} ms", clock.monotonic_ns() / 1_000_000));
        }
        judged
    }

    fn look(&self, copy: MemoryStore, suspects: &[FileId]) -> Result<Verdict, String> {
        let named = |error: Error| match error {
            Error::Corrupt { file, .. } if suspects.iter().any(|id| id.to_string() == file) => Ok(Verdict::Named),
            // A manifest that lost its end may ask for files that are gone, and one that is gone has no name.
            Error::Corrupt { file, .. } if suspects.len() > 1 || (file == "manifest" && suspects[0].kind == FileKind::Manifest) => {
                Ok(Verdict::Named)
            }
            other => Err(format!("does not name the file: {other}")),
        };
        let db = match builder(1).open_store(Arc::new(copy)) {
            Ok(db) => db,
            Err(error) => return named(error),
        };
        let all = match read(&db) {
            Ok(all) => all,
            Err(Problem::Failed(error)) => return named(error),
            Err(Problem::Wrong(what)) => return Err(what),
        };
        let damage = db.verify().map_err(|error| format!("verify failed: {error}"))?;
        if !damage.is_empty() {
            let known = damage.iter().all(|d| suspects.iter().any(|id| id.to_string() == d.file));
            return if known { Ok(Verdict::Named) } else { Err(format!("verify names others: {damage:?}")) };
        }
        if all == self.all {
            return Ok(Verdict::Identical);
        }
        self.cut(&all, &db.recovery(), suspects)
    }

    fn cut(&self, all: &All, report: &RecoveryReport, suspects: &[FileId]) -> Result<Verdict, String> {
        let older = Progress { floor: [0; 2], ..self.progress };
        let found = check::moment(all, &self.model, &older).map_err(|problem| format!("silent: {problem:?}"))?;
        if !self.closed && report.cut_bytes > 0 && found.batches[0] >= self.progress.floor[0] {
            return Ok(Verdict::Cut);
        }
        let newest = self.files().into_iter().map(|(id, _)| id).filter(|id| id.kind == FileKind::Log).max();
        if newest.is_some_and(|id| suspects == [id]) {
            return Ok(Verdict::End);
        }
        Err(format!("silent: only {found:?} of {:?}; {report:?}", self.progress))
    }

    /// Files that may be named when `id` is damaged. A manifest that lost its end is right in itself, and then other files are out of
    /// place.
    fn suspects(&self, id: FileId) -> Vec<FileId> {
        let all = || self.files().into_iter().map(|file| file.0).collect();
        if id.kind == FileKind::Manifest { all() } else { vec![id] }
    }
}

fn read(db: &Db) -> Result<All, Problem> {
    check::read_all(db, &[b"k01", b"k17", b"none"])
}

/// The images: styles, families, range tombstones and merges; closed and killed.
fn images() -> Vec<(&'static str, Image)> {
    vec![
        ("medley, closed", Image::new(workloads::medley(), true, 1)),
        ("medley, killed", Image::new(workloads::medley(), false, 1)),
        ("ranges, closed", Image::new(workloads::ranges_left(), true, 1)),
        ("churn, killed", Image::new(workloads::churn(), false, 1)),
    ]
}

/// Offsets over the whole image: each file gets a third of its kind's share, so that small files are not passed over.
fn places(image: &Image, count: u64) -> Vec<(FileId, u64)> {
    let files = image.files();
    let mut places = Vec::new();
    for kind in FileKind::ALL {
        let mine: Vec<_> = files.iter().filter(|(id, len)| id.kind == kind && *len > 0).collect();
        let total: u64 = mine.iter().map(|(_, len)| len).sum();
        if total == 0 {
            continue;
        }
        let share = count / 3 + 1;
        let mut random = Random(share);
        for n in 0..share {
            // Evenly spaced if there are fewer places than bytes, else every byte more than once.
            let mut at = if total > share { n * total / share + random.below(total / share) } else { n % total };
            for (id, len) in &mine {
                if at < *len {
                    places.push((*id, at));
                    break;
                }
                at -= len;
            }
        }
    }
    places
}

#[test]
fn flipped_bits() {
    let wanted = std::env::var("DAMAGE").ok().and_then(|n| n.parse().ok()).unwrap_or(FLIPS);
    let (mut total, mut failures) = (0u64, Vec::new());
    for (name, image) in images() {
        let mut tallies: BTreeMap<FileKind, Tally> = BTreeMap::new();
        let mut random = Random(7);
        for (id, offset) in places(&image, wanted) {
            let bit = random.below(8);
            let copy = image.store.clone_image();
            copy.corrupt(id, offset, |byte| *byte ^= 1 << bit).expect("the byte is there");
            total += 1;
            match image.judge(copy, &[id]) {
                Ok(Verdict::End) => failures.push(format!("{name}: bit {bit} of byte {offset} of {id} took acknowledged writes")),
                Ok(verdict) if id.kind == FileKind::Table && verdict != Verdict::Named => {
                    failures.push(format!("{name}: bit {bit} of byte {offset} of {id}: nobody noticed"));
                }
                Ok(verdict) => tallies.entry(id.kind).or_default().count(verdict),
                Err(what) => failures.push(format!("{name}: bit {bit} of byte {offset} of {id}: {what}")),
            }
        }
        println!("{name}: {tallies:?}");
    }
    finish(total, &failures);
    assert!(wanted != FLIPS || total >= 20_000, "only {total} flips");
}

fn finish(total: u64, failures: &[String]) {
    let first = failures.iter().take(25).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {total}:\n{first}", failures.len());
}

/// Files that are shorter than they were: every length around their ends and blocks. A log or manifest whose last records are gone without
/// a trace is a moment of the history; missing records can be noticed only where something behind them says that they had been there.
#[test]
fn truncated_files() {
    let (mut total, mut failures, mut tally) = (0u64, Vec::new(), Tally::default());
    for (name, image) in images() {
        for (id, len) in image.files() {
            let bytes = image.store.bytes(id).expect("bytes");
            let classes = [0, 1, 15, 16, 17, 50, 51, 67, len / 3, len / 2, len - len.min(17), len - len.min(16), len - 1];
            let mut random = Random(len);
            let lengths = classes.into_iter().chain((0..24).map(|_| random.below(len)));
            for length in lengths.filter(|length| *length < len) {
                let copy = image.store.clone_image();
                copy.replace(id, bytes[..length as usize].to_vec());
                total += 1;
                match image.judge(copy, &image.suspects(id)) {
                    Ok(verdict) => tally.count(verdict),
                    Err(what) => failures.push(format!("{name}: {id} cut from {len} to {length}: {what}")),
                }
            }
        }
    }
    println!("{total} truncations: {tally:?}");
    finish(total, &failures);
}

/// Parts of a file that were lost or landed elsewhere in it.
#[test]
fn zeroed_and_swapped_pages() {
    let (mut total, mut failures, mut tally) = (0u64, Vec::new(), Tally::default());
    for (name, image) in images() {
        for (id, len) in image.files() {
            let bytes = image.store.bytes(id).expect("bytes");
            let mut random = Random(len);
            for size in [64usize, 512, 4096] {
                let pages = bytes.len().div_ceil(size);
                for page in 0..pages {
                    let mut zeroed = bytes.clone();
                    let end = bytes.len().min((page + 1) * size);
                    zeroed[page * size..end].fill(0);
                    let mut swapped = bytes.clone();
                    let other = random.index(pages);
                    if page < other && (other + 1) * size <= bytes.len() {
                        let (low, high) = swapped.split_at_mut(other * size);
                        low[page * size..][..size].swap_with_slice(&mut high[..size]);
                    }
                    for (what, changed) in [("zeroed", zeroed), ("swapped", swapped)] {
                        if changed == bytes {
                            continue;
                        }
                        let copy = image.store.clone_image();
                        copy.replace(id, changed);
                        total += 1;
                        match image.judge(copy, &image.suspects(id)) {
                            Ok(verdict) => tally.count(verdict),
                            Err(why) => failures.push(format!("{name}: {size} bytes of {id} at page {page} {what}: {why}")),
                        }
                    }
                }
            }
        }
    }
    println!("{total} pages: {tally:?}");
    finish(total, &failures);
}

/// Whole files that are lost, empty, older, or belong elsewhere.
#[test]
fn replaced_files() {
    let (mut total, mut failures, mut tally) = (0u64, Vec::new(), Tally::default());
    let image = Image::new(workloads::medley(), true, 1);
    let twin = Image::new(workloads::medley(), true, 2);
    let files = image.files();
    let mut judge = |what: String, copy: MemoryStore, suspects: &[FileId]| {
        total += 1;
        match image.judge(copy, suspects) {
            Ok(verdict) => tally.count(verdict),
            Err(why) => failures.push(format!("{what}: {why}")),
        }
    };
    for (id, _) in &files {
        let lost = image.store.clone_image();
        lost.remove(*id).expect("remove");
        judge(format!("{id} lost"), lost, &[*id]);
        let empty = image.store.clone_image();
        empty.replace(*id, Vec::new());
        judge(format!("{id} empty"), empty, &[*id]);
        if let Ok(bytes) = twin.store.bytes(*id) {
            let foreign = image.store.clone_image();
            foreign.replace(*id, bytes);
            // A foreign manifest is right in itself; then all the rest is out of place.
            judge(format!("{id} of another database"), foreign, &image.suspects(*id));
        }
        for (other, _) in files.iter().filter(|(other, _)| other != id) {
            let copy = image.store.clone_image();
            copy.replace(*id, image.store.bytes(*other).expect("bytes"));
            judge(format!("{id} replaced by {other}"), copy, &[*id]);
        }
        for number in [1, 1_000] {
            let twice = FileId { number, ..*id };
            let copy = image.store.clone_image();
            copy.replace(twice, image.store.bytes(*id).expect("bytes"));
            judge(format!("{id} is there again as {twice}"), copy, &[*id, twice]);
        }
    }
    println!("{total} replaced: {tally:?}");
    finish(total, &failures);
}

/// Damage to a block of one family leaves the other one readable.
#[test]
fn other_families_stay_readable() {
    let image = Image::new(workloads::two_families(), true, 1);
    let mut both = 0;
    for (id, len) in image.files().into_iter().filter(|(id, _)| id.kind == FileKind::Table) {
        for offset in (0..len).step_by(97) {
            let copy = image.store.clone_image();
            copy.corrupt(id, offset, |byte| *byte ^= 0x10).expect("the byte is there");
            let Ok(db) = builder(1).open_store(Arc::new(copy)) else { continue };
            let damage = db.verify().expect("verify");
            let [only] = damage.as_slice() else { panic!("byte {offset} of {id}: {damage:?}") };
            for family in db.families().into_iter().filter(|family| Some(family.name()) != only.family.as_deref()) {
                let contents = check::scan(&db, &family, None).expect("the other family is readable");
                assert_eq!(contents, image.all[family.name()]);
                both += 1;
            }
        }
    }
    println!("{both} times the other family was readable");
    assert!(both > 100);
}
