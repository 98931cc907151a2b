//! Logs and manifests out of which bytes were taken, into which some were put, whose parts were swapped, doubled, zeroed or cut off. Each
//! time a database opens with all writes whose sync was acknowledged, or is called damaged. Fewer are there only where nothing behind the
//! damage was left to vouch for them: then recovery says what it cut, unless the file ends where a record did.
//!
//! `RESHAPED=n` tries n places in each file instead of the usual number.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::random::Random;
use crate::runner::settings;
use sinter_storage::store::{Cause, FileId, FileKind, Hint, MemoryStore, Store};
use sinter_storage::zoned::{Emulator, Geometry};
use sinter_storage::zoned_store::{Options, VolumeId, ZonedStore};
use sinterdb::internal::wal::parse_log;
use sinterdb::settings::FamilySettings;
use sinterdb::{Builder, Db, Durability, Error, ReadOptions, WriteOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Places that are tried in each file.
const PLACES: u64 = 12;

/// Bytes of a marker.
const MARKER: usize = 13;

/// Most bytes that are put in or taken out.
const MOST: u64 = 64 << 10;

const FAMILIES: [&str; 3] = ["default", "slow", "still"];

/// A database of a process that was killed.
struct Image {
    store: MemoryStore,
    /// Writes; those before `synced` were acknowledged as synced.
    written: usize,
    synced: usize,
}

/// The kind of step for write `n`.
type Plan = fn(usize) -> Step;

#[derive(Clone, Copy, PartialEq)]
enum Step {
    Synced,
    Buffered,
    /// Buffered, and then everything is synced.
    SyncedAfter,
}

fn builder() -> Builder {
    let mut builder = Db::builder().settings(settings()).identity([1; 16]);
    for (name, write_buffer_size) in FAMILIES.into_iter().zip([6 << 10, 40 << 10, 1 << 20]) {
        builder = builder.family(name, FamilySettings { write_buffer_size, ..FamilySettings::default() });
    }
    builder
}

/// The family of write `n`, if there are several.
fn family_of(n: usize, families: usize) -> &'static str {
    FAMILIES[[0, 0, 0, 1, 2][n % 5] % families]
}

fn image(writes: usize, families: usize, longest: u64, plan: Plan) -> Image {
    let (store, mut random) = (Arc::new(MemoryStore::new()), Random(3));
    let db = builder().open_store(store.clone()).unwrap();
    let mut synced = 0;
    for n in 0..writes {
        let family = db.family(family_of(n, families)).unwrap();
        let value = vec![n as u8; 1 + random.below(longest) as usize];
        let durability = if plan(n) == Step::Synced { Durability::Sync } else { Durability::Buffered };
        db.put_with(&family, format!("{n:05}").as_bytes(), &value, &WriteOptions::new(durability)).unwrap();
        if plan(n) == Step::SyncedAfter {
            db.sync().unwrap();
        }
        if plan(n) != Step::Buffered {
            synced = n + 1;
        }
    }
    Image { store: store.clone_image(), written: writes, synced }
}

/// How many writes a database shows, which must be the first ones, whether it says that it cut something, and
/// whether later ones are there as well.
fn look(db: &Db, families: usize, written: usize) -> (usize, bool, bool) {
    let handles: BTreeMap<_, _> = FAMILIES.into_iter().map(|name| (name, db.family(name).unwrap())).collect();
    let has =
        |n: usize| db.get_with(&handles[family_of(n, families)], format!("{n:05}").as_bytes(), &ReadOptions::default()).unwrap().is_some();
    let there: Vec<bool> = (0..written).map(has).collect();
    let first = there.iter().position(|there| !there).unwrap_or(written);
    let has_hole = there[first..].contains(&true);
    let report = db.recovery();
    assert_eq!(report.cuts.iter().map(|cut| cut.bytes).sum::<u64>(), report.cut_bytes);
    (first, !report.cuts.is_empty(), has_hole)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Insert,
    Remove,
    Swap,
    Double,
    Zero,
    Truncate,
    Empty,
}

/// A changed file. `vouched`: the last word on what was synced stands in it as it was, moved perhaps.
struct Change {
    kind: Kind,
    what: String,
    bytes: Vec<u8>,
    vouched: bool,
}

/// All kinds of changes at about so many places. `marker` is where the last marker stands.
fn changes(bytes: &[u8], marker: usize, places: u64) -> Vec<Change> {
    let (len, mut random) = (bytes.len(), Random(bytes.len() as u64));
    let is_apart = |at: usize| at <= marker || at >= marker + MARKER;
    let join = |parts: &[&[u8]]| parts.concat();
    let mut all = vec![Change { kind: Kind::Empty, what: "emptied".into(), bytes: Vec::new(), vouched: false }];
    for place in 0..places {
        let at = (place * len as u64 / places + random.below(len as u64 / places + 1)) as usize % len;
        let mut add = |kind, what, bytes, vouched| all.push(Change { kind, what, bytes, vouched });
        for n in [1, 1 + random.below(300) as usize, 1 + random.below(MOST) as usize, MOST as usize] {
            let junk: Vec<u8> = (0..n).map(|_| random.below(256) as u8).collect();
            add(Kind::Insert, format!("{n} bytes put in at {at}"), join(&[&bytes[..at], &junk, &bytes[at..]]), is_apart(at));
            let end = (at + n).min(len);
            let vouched = end <= marker || at >= marker + MARKER;
            add(Kind::Remove, format!("{at}..{end} taken out"), join(&[&bytes[..at], &bytes[end..]]), vouched);
        }
        let mut cuts = [at, random.below(len as u64) as usize, random.below(len as u64) as usize];
        cuts.sort_unstable();
        let [a, b, c] = cuts;
        let near = b - a <= MOST as usize && c - b <= MOST as usize;
        let swapped = join(&[&bytes[..a], &bytes[b..c], &bytes[a..b], &bytes[c..]]);
        add(Kind::Swap, format!("{a}..{b}..{c} swapped"), swapped, near && cuts.into_iter().all(is_apart));
        let doubled = join(&[&bytes[..b], &bytes[a..b], &bytes[b..]]);
        add(Kind::Double, format!("{a}..{b} twice"), doubled, near && is_apart(b));
        add(Kind::Zero, format!("zeros from {at} on"), join(&[&bytes[..at], &vec![0; len - at]]), false);
        add(Kind::Truncate, format!("cut off at {at}"), bytes[..at].to_vec(), false);
    }
    all
}

#[derive(Debug, Default)]
struct Tally {
    whole: u64,
    corrupt: u64,
    fewer: u64,
}

struct Trial<'a> {
    image: &'a Image,
    families: usize,
    /// The file that was changed, and whether it is the newest log.
    id: FileId,
    newest: bool,
}

impl Trial<'_> {
    /// Judges the outcome of a change; an error says why the outcome is wrong.
    fn judge(&self, change: &Change, store: Arc<dyn Store>, tally: &mut Tally) -> Result<(), String> {
        let opened = Db::builder().read_only().open_store(store.clone());
        let seen = opened.map(|db| look(&db, self.families, self.image.written));
        // Opening to write finds the same.
        match (&seen, builder().open_store(store)) {
            (Ok(seen), Ok(db)) if look(&db, self.families, self.image.written) == *seen => {}
            (Err(Error::Corrupt { .. }), Err(Error::Corrupt { .. })) => {}
            (seen, other) => {
                return Err(format!("read-only {seen:?}, to write {:?}", other.map(|db| look(&db, self.families, self.image.written))));
            }
        }
        let Ok((found, said, has_hole)) = seen else {
            tally.corrupt += 1;
            return Ok(());
        };
        if has_hole {
            return Err(format!("a hole at write {found}"));
        }
        if found >= self.image.synced {
            tally.whole += 1;
            return Ok(());
        }
        tally.fewer += 1;
        let lost = format!("{found} of {}", self.image.synced);
        if change.vouched || change.kind == Kind::Empty || !self.newest {
            return Err(format!("{lost}, and nobody calls it damage"));
        }
        let is_prefix = parse_log(change.bytes.clone(), None, self.id).is_ok_and(|log| log.end.cut_bytes == 0);
        if said || (is_prefix && matches!(change.kind, Kind::Truncate | Kind::Remove | Kind::Zero)) {
            Ok(())
        } else {
            Err(format!("{lost}, silently"))
        }
    }
}

/// Changes every log and manifest of an image.
fn reshape(name: &str, families: usize, image: &Image, places: u64, make: &dyn Fn(&MemoryStore) -> Arc<dyn Store>) {
    let files: Vec<FileId> = image.store.list().unwrap().into_iter().map(|file| file.0).collect();
    let newest = files.iter().filter(|id| id.kind == FileKind::Log).max().copied();
    let mut tallies: BTreeMap<(FileKind, Kind), Tally> = BTreeMap::new();
    let (mut failures, mut total) = (Vec::new(), 0);
    for id in files.into_iter().filter(|id| matches!(id.kind, FileKind::Log | FileKind::Manifest)) {
        let bytes = image.store.bytes(id).unwrap();
        let marker = parse_log(bytes.clone(), None, id).unwrap().end.synced as usize;
        let trial = Trial { image, families, id, newest: newest == Some(id) };
        for change in changes(&bytes, marker, places) {
            let changed = image.store.clone_image();
            changed.replace(id, change.bytes.clone());
            let tally = tallies.entry((id.kind, change.kind)).or_default();
            total += 1;
            if let Err(why) = trial.judge(&change, make(&changed), tally) {
                failures.push(format!("{name}: {id} ({} bytes, marker at {marker}), {}: {why}", bytes.len(), change.what));
            }
        }
    }
    println!("{name}: {total} changes");
    tallies.iter().for_each(|((file, kind), tally)| println!("  {file:?} {kind:?}: {tally:?}"));
    let first = failures.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {total}:\n{first}", failures.len());
}

fn places() -> u64 {
    std::env::var("RESHAPED").ok().and_then(|n| n.parse().ok()).unwrap_or(PLACES)
}

fn in_memory(store: &MemoryStore) -> Arc<dyn Store> {
    Arc::new(store.clone_image())
}

#[test]
fn a_log_of_synced_puts() {
    let image = image(200, 1, 20, |_| Step::Synced);
    reshape("200 synced puts", 1, &image, 5 * places(), &in_memory);
}

#[test]
fn segments_that_several_families_keep() {
    let image = image(300, 3, 200, |_| Step::Synced);
    let logs = image.store.list().unwrap().iter().filter(|(id, _)| id.kind == FileKind::Log).count();
    assert!(logs >= 4, "{logs} segments");
    reshape("segments of three families", 3, &image, places(), &in_memory);
}

/// Records that were not synced may go, with whatever hits them: no false alarm.
#[test]
fn an_end_that_was_not_synced() {
    let plan: Plan = |n| if n < 150 { Step::Synced } else { Step::Buffered };
    let image = image(300, 3, 200, plan);
    assert_eq!((image.synced, image.written), (150, 300));
    reshape("150 synced, 150 not", 3, &image, places(), &in_memory);
    let newest = image.store.list().unwrap().into_iter().map(|file| file.0).filter(|id| id.kind == FileKind::Log).max().unwrap();
    let bytes = image.store.bytes(newest).unwrap();
    assert_eq!(parse_log(bytes.clone(), None, newest).unwrap().end.synced, 0, "nothing of the newest segment is synced");
    for change in changes(&bytes, 0, 3 * places()) {
        let store = image.store.clone_image();
        store.replace(newest, change.bytes);
        let db = builder().open_store(Arc::new(store)).unwrap_or_else(|error| panic!("{}: {error}", change.what));
        assert!(look(&db, 3, image.written).0 >= image.synced, "{}", change.what);
    }
}

/// Syncs that stand for many writes, whose watermarks are mostly in records.
#[test]
fn a_log_that_is_synced_now_and_then() {
    let image = image(300, 3, 100, |n| if n % 10 == 9 { Step::SyncedAfter } else { Step::Buffered });
    reshape("every tenth synced", 3, &image, places(), &in_memory);
}

/// The changes of files on a zoned drive, where logs are frames in zones.
#[test]
fn files_on_zones() {
    let image = image(120, 3, 100, |_| Step::Synced);
    let on_zones = |files: &MemoryStore| -> Arc<dyn Store> {
        let geometry = Geometry { block: 512, zones: 64, zone_size: 64 << 10, max_open: Some(10), max_active: Some(10), conventional: 0 };
        let drive = Arc::new(Emulator::memory(geometry, 64 << 10).unwrap());
        let options = Options { background: false, ..Options::default() };
        let store = ZonedStore::format(drive, VolumeId([5; 16]), options).unwrap();
        for (id, _) in files.list().unwrap() {
            let hint = Hint::new(if id.kind == FileKind::Manifest { Cause::Manifest } else { Cause::Wal });
            let mut file = store.create(id, &hint).unwrap();
            file.append(&files.bytes(id).unwrap()).unwrap();
            file.seal().unwrap();
        }
        store.sync_names().unwrap();
        Arc::new(store)
    };
    reshape("on zones", 3, &image, places() / 4, &on_zones);
}
