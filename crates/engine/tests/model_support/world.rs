//! A database beside the model of it: sorted maps. Every answer is compared, and goes into the history, which must not depend on settings.

use super::operations::{HELD, Operation, SLOTS, Scope, Step, Write};
use super::variants::{StoreKind, Variant, changed};
use super::{Text, operator, shown};
use sinter_storage::store::{DirStore, MemoryStore, Store, Temperature};
use sinter_storage::zoned::{Emulator, Geometry};
use sinter_storage::zoned_store::{Allocation, Collection, Options, Reset, VolumeId, ZonedStore};
use sinterdb::clock::{Clock, ManualClock};
use sinterdb::internal::compaction::check_shape;
use sinterdb::{Builder, Db, DbIterator, Durability, Error, Family, ReadOptions, Snapshot, WriteBatch, WriteOptions};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
/// Result of a check; the error tells what is wrong.
type Outcome = Result<(), String>;

const NAMES: [&str; SLOTS] = ["default", "one", "two", "three"];

enum Medium {
    Memory(Arc<MemoryStore>),
    /// Memory with a cold tier.
    Tiers(Arc<MemoryStore>, Arc<MemoryStore>),
    Directory(tempfile::TempDir),
    /// The volume is opened anew with the database.
    Zones(Arc<Emulator>, Arc<ZonedStore>),
}

/// Sixteen megabytes in zones so small that every table lies in several.
fn volume() -> Medium {
    let geometry = Geometry { block: 512, zones: 256, zone_size: 64 << 10, max_open: Some(14), max_active: Some(14), conventional: 0 };
    let drive = Arc::new(Emulator::memory(geometry, 60 << 10).unwrap());
    let store = ZonedStore::format(drive.clone(), VolumeId(*b"a model's volume"), STEPPED).unwrap();
    Medium::Zones(drive, Arc::new(store))
}

const STEPPED: Options = Options {
    allocation: Allocation::Sinter,
    reset: Reset::Sinter,
    collection: Collection::Greedy,
    reserve: 2,
    pace: 1.0,
    fallback: true,
    tells: true,
    background: false,
};

impl Medium {
    fn new(place: StoreKind) -> Self {
        match place {
            StoreKind::Memory => Medium::Memory(Arc::new(MemoryStore::new())),
            StoreKind::Tiers => Medium::Tiers(Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new())),
            StoreKind::Directory => Medium::Directory(tempfile::tempdir().unwrap()),
            StoreKind::Zones => volume(),
        }
    }

    fn open(&self, builder: Builder) -> Result<Db, Error> {
        match self {
            Medium::Tiers(_, cold) => builder.tier_store(Temperature::Cold, cold.clone()).open_store(self.primary()),
            _ => builder.open_store(self.primary()),
        }
    }

    /// Opens the volume again after the database was closed, or on the drive that a power cut left.
    fn reopen_volume(&mut self, crashed: Option<Arc<Emulator>>) {
        let Medium::Zones(drive, _) = self else { return };
        let drive = crashed.unwrap_or_else(|| drive.clone());
        // One volume at a time is open on a drive.
        drop(std::mem::replace(self, Medium::Memory(Arc::default())));
        let store = ZonedStore::open(drive.clone(), STEPPED).unwrap();
        *self = Medium::Zones(drive, Arc::new(store));
    }

    fn primary(&self) -> Arc<dyn Store> {
        match self {
            Medium::Memory(store) | Medium::Tiers(store, _) => store.clone(),
            Medium::Directory(directory) => Arc::new(DirStore::open(directory.path(), true).unwrap()),
            Medium::Zones(_, store) => store.clone(),
        }
    }
}

struct Slot {
    family: Family,
    map: Rc<Map>,
}

/// A snapshot and, by family id, what it must see. A family that came later looks empty.
struct Moment {
    snapshot: Snapshot,
    maps: BTreeMap<u32, Rc<Map>>,
}

/// An iterator in use and what it has still to give.
struct Held {
    iterator: DbIterator,
    rest: std::vec::IntoIter<(Vec<u8>, Vec<u8>)>,
}

pub struct World {
    variant: Variant,
    medium: Medium,
    clock: Arc<ManualClock>,
    /// `None` only while it is being reopened.
    db: Option<Db>,
    slots: [Option<Slot>; SLOTS],
    /// A handle to a family of the slot that was dropped.
    stale: [Option<Family>; SLOTS],
    moments: [Option<Moment>; HELD],
    held: [Option<Held>; HELD],
    /// Something was written past the log and not flushed since.
    unlogged: bool,
    history: u64,
}

fn builder(clock: &Arc<ManualClock>, live: impl Iterator<Item = usize>) -> Builder {
    let builder = Db::builder().clock(clock.clone()).identity(*b"a model database");
    live.filter_map(|slot| Some((slot, operator(slot)?))).fold(builder, |b, (slot, operator)| b.merge_operator(NAMES[slot], operator))
}

fn failed(what: &str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

/// The entries of a map that a scope lets through.
fn within<'a>(map: &'a Map, scope: &Scope) -> Vec<(&'a [u8], &'a [u8])> {
    let prefix: &[u8] = scope.prefix.as_deref().unwrap_or_default();
    let lower: &[u8] = scope.lower.as_deref().unwrap_or_default();
    let from = map.range(lower.max(prefix).to_vec()..);
    let inside = |key: &&[u8]| key.starts_with(prefix) && scope.upper.as_deref().is_none_or(|upper| *key < upper);
    from.map(|(k, v)| (k.as_slice(), v.as_slice())).take_while(|(k, _)| inside(k)).collect()
}

impl World {
    pub fn new(variant: &Variant) -> Result<Self, String> {
        let medium = Medium::new(variant.place);
        let clock = Arc::new(ManualClock::default());
        clock.set_unix_seconds(1_000_000);
        let builder = builder(&clock, 0..1).settings(variant.db.clone()).family(NAMES[0], variant.family.clone());
        let db = medium.open(builder).map_err(failed("create"))?;
        let first = Slot { family: db.default_family(), map: Rc::default() };
        Ok(World {
            variant: variant.clone(),
            medium,
            clock,
            db: Some(db),
            slots: [Some(first), None, None, None],
            stale: [const { None }; SLOTS],
            moments: [const { None }; HELD],
            held: [const { None }; HELD],
            unlogged: false,
            history: 0,
        })
    }

    /// A hash of all that was read.
    pub fn history(&self) -> u64 {
        self.history
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn note(&mut self, what: &[u8]) {
        self.history = self.history.rotate_left(5) ^ xxhash_rust::xxh3::xxh3_64_with_seed(what, self.history);
    }

    fn live(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.slots.iter().enumerate().filter_map(|(i, slot)| Some((i, slot.as_ref()?)))
    }

    pub fn apply(&mut self, operation: &Operation) -> Outcome {
        match operation {
            Operation::Write(write, durability) => self.write_one(write, *durability),
            Operation::Batch(writes, durability) => self.write_batch(writes, *durability),
            Operation::Get(slot, key, at) => self.multi_get(*slot, std::slice::from_ref(key), *at, true),
            Operation::MultiGet(slot, keys, at) => self.multi_get(*slot, keys, *at, false),
            Operation::Scan { slot, scope, backward } => self.scan(*slot, scope, *backward),
            Operation::Walk { slot, scope, steps } => self.walk(*slot, scope, steps),
            Operation::Hold { place, slot, scope } => self.hold(*place, *slot, scope),
            Operation::Resume { place, entries } => self.resume(*place, *entries),
            Operation::TakeSnapshot(place) => {
                let maps = self.live().map(|(_, slot)| (slot.family.id(), slot.map.clone())).collect();
                self.moments[*place] = Some(Moment { snapshot: self.db().snapshot(), maps });
                Ok(())
            }
            Operation::DropSnapshot(place) => {
                self.moments[*place] = None;
                Ok(())
            }
            Operation::CheckSnapshot(place) => self.check_all(Some(*place)),
            Operation::CheckAll => self.check_all(None),
            Operation::Verify => self.verify(),
            Operation::Sync => self.db().sync().map_err(failed("sync")),
            Operation::Flush => self.flush(),
            Operation::Compact { slot, from, to } => {
                let Some(slot) = &self.slots[*slot] else { return Ok(()) };
                self.db().compact_range(&slot.family, from.as_deref(), to.as_deref()).map_err(failed("compact_range"))?;
                self.unlogged = false;
                Ok(())
            }
            Operation::Settle => self.db().wait_for_compactions().map_err(failed("wait_for_compactions")),
            Operation::Create(slot) => self.create(*slot),
            Operation::Drop(slot) => self.drop_family(*slot),
            Operation::Change { slot, what } => {
                let Some(slot) = &self.slots[*slot] else { return Ok(()) };
                let settings = self.db().family_settings(&slot.family).map_err(failed("family_settings"))?;
                self.db().change_family_settings(&slot.family, changed(&settings, *what)).map_err(failed("change_family_settings"))
            }
            Operation::Reopen => self.reopen(None),
            Operation::Crash(seed) => self.reopen(Some(*seed)),
            Operation::ReadOnly => self.read_only(),
            Operation::Checkpoint => self.checkpoint(),
            Operation::Tick(seconds) => {
                self.clock.advance_seconds(*seconds);
                Ok(())
            }
        }
    }

    /// Checks everything after a list of operations.
    pub fn finish(&mut self) -> Outcome {
        for place in 0..HELD {
            self.resume(place, usize::MAX)?;
            self.check_all(Some(place))?;
        }
        self.check_all(None)?;
        self.verify()
    }

    /// The slot of a write, or the dropped family that it must fail on; `None` if the slot was never used.
    fn target(&self, write: &Write) -> Option<(usize, Family, bool)> {
        let (Write::Put(slot, ..)
        | Write::Delete(slot, ..)
        | Write::DeleteRange(slot, ..)
        | Write::DeleteFrom(slot, ..)
        | Write::Merge(slot, ..)) = write;
        let live = self.slots[*slot].as_ref().map(|s| s.family.clone());
        let is_inverted = matches!(write, Write::DeleteRange(_, from, to) if to.0 < from.0);
        let refused = live.is_none() || is_inverted || (matches!(write, Write::Merge(..)) && operator(*slot).is_none());
        Some((*slot, live.or_else(|| self.stale[*slot].clone())?, refused))
    }

    fn model(&mut self, slot: usize, write: &Write) {
        let Some(Slot { map, .. }) = &mut self.slots[slot] else { return };
        let map = Rc::make_mut(map);
        match write {
            Write::Put(_, key, value) => drop(map.insert(key.0.clone(), value.0.clone())),
            Write::Delete(_, key) => drop(map.remove(&key.0)),
            Write::DeleteRange(_, from, to) => map.retain(|k, _| !(from.0 <= *k && *k < to.0)),
            Write::DeleteFrom(_, from) => map.retain(|k, _| *k < from.0),
            Write::Merge(_, key, operand) => {
                let old = map.get(&key.0).map(Vec::as_slice);
                let new = operator(slot).and_then(|o| o.full_merge(key, old, &[operand])).unwrap();
                map.insert(key.0.clone(), new);
            }
        }
    }

    /// The time of its own that a put has, if the variant has such: now, long ago or in the future.
    fn time_of(&self, key: &[u8], value: &[u8]) -> Option<u64> {
        let hash = xxhash_rust::xxh3::xxh3_64_with_seed(value, key.len() as u64);
        let now = self.clock.unix_seconds();
        let time = [now, now.saturating_sub(hash >> 50), now + (hash >> 54), hash >> (hash % 64), 0];
        (self.variant.timed && !hash.is_multiple_of(7)).then(|| time[(hash % 7 % 5) as usize])
    }

    fn expect(&self, result: Result<(), Error>, refused: bool, what: &str) -> Outcome {
        match (result, refused) {
            (Ok(()), false) | (Err(Error::Invalid(_)), true) => Ok(()),
            (Ok(()), true) => Err(format!("{what} succeeded on a dropped family, without an operator, or on an inverted range")),
            (Err(error), _) => Err(format!("{what}: {error}")),
        }
    }

    fn write_one(&mut self, write: &Write, durability: Durability) -> Outcome {
        let Some((slot, family, refused)) = self.target(write) else { return Ok(()) };
        let options = WriteOptions::new(durability);
        let db = self.db();
        let result = match write {
            Write::Put(_, key, value) => match self.time_of(key, value) {
                Some(time) => db.put_at_with(&family, key, value, time, &options),
                None => db.put_with(&family, key, value, &options),
            },
            Write::Delete(_, key) => db.delete_with(&family, key, &options),
            Write::DeleteRange(_, from, to) => db.delete_range_with(&family, from, to, &options),
            Write::DeleteFrom(_, from) => db.delete_range_from_with(&family, from, &options),
            Write::Merge(_, key, operand) => db.merge_with(&family, key, operand, &options),
        };
        self.expect(result, refused, "write")?;
        if !refused {
            self.unlogged |= durability == Durability::NoWal;
            self.model(slot, write);
        }
        Ok(())
    }

    fn write_batch(&mut self, writes: &[Write], durability: Durability) -> Outcome {
        let mut batch = WriteBatch::new();
        let mut any_refused = false;
        let mut applied = Vec::new();
        for write in writes {
            let Some((slot, family, refused)) = self.target(write) else { continue };
            any_refused |= refused;
            applied.push((slot, write));
            match write {
                Write::Put(_, key, value) => match self.time_of(key, value) {
                    Some(time) => batch.put_at_in(&family, key, value, time),
                    None => batch.put_in(&family, key, value),
                },
                Write::Delete(_, key) => batch.delete_in(&family, key),
                Write::DeleteRange(_, from, to) => batch.delete_range_in(&family, from, to),
                Write::DeleteFrom(_, from) => batch.delete_range_from_in(&family, from),
                Write::Merge(_, key, operand) => batch.merge_in(&family, key, operand),
            }
        }
        let result = self.db().write(&mut batch, &WriteOptions::new(durability));
        self.expect(result, any_refused, "batch")?;
        if !any_refused {
            self.unlogged |= durability == Durability::NoWal && !applied.is_empty();
            applied.into_iter().for_each(|(slot, write)| self.model(slot, write));
        }
        Ok(())
    }

    /// The map that a reader of a slot must see, and the options to read it with.
    fn view(&self, slot: usize, scope: &Scope) -> Option<(Family, Rc<Map>, ReadOptions)> {
        let slot = self.slots[slot].as_ref()?;
        let moment = scope.snapshot.and_then(|place| self.moments[place].as_ref());
        let map = moment.map_or_else(|| slot.map.clone(), |m| m.maps.get(&slot.family.id()).cloned().unwrap_or_default());
        let bytes = |text: &Option<Text>| text.as_ref().map(|t| t.0.clone());
        let options = ReadOptions {
            snapshot: moment.map(|m| m.snapshot.clone()),
            fill_cache: !scope.no_fill,
            readahead: scope.readahead,
            lower: bytes(&scope.lower),
            upper: bytes(&scope.upper),
            prefix: bytes(&scope.prefix),
            ..ReadOptions::default()
        };
        Some((slot.family.clone(), map, options))
    }

    fn multi_get(&mut self, slot: usize, keys: &[Text], at: Option<usize>, single: bool) -> Outcome {
        let Some((family, map, options)) = self.view(slot, &Scope { snapshot: at, ..Scope::default() }) else {
            return match &self.stale[slot] {
                Some(stale) if self.db().get_with(stale, b"k", &ReadOptions::default()).is_ok() => Err("get on a dropped family".into()),
                _ => Ok(()),
            };
        };
        let found = if single {
            self.db().get_with(&family, &keys[0], &options).map(|value| vec![value])
        } else {
            let keys: Vec<&[u8]> = keys.iter().map(|k| &**k).collect();
            self.db().multi_get(&family, &keys, &options)
        };
        let found = found.map_err(failed("get"))?;
        for (key, value) in keys.iter().zip(&found) {
            if value.as_ref() != map.get(&key.0) {
                let show = |v: Option<&Vec<u8>>| v.map_or("nothing".into(), |v| shown(v));
                return Err(format!("get {key:?} in {slot}: {} instead of {}", show(value.as_ref()), show(map.get(&key.0))));
            }
            self.note(value.as_deref().unwrap_or(b"nothing"));
        }
        if found.len() != keys.len() { Err("multi_get: values are missing".into()) } else { Ok(()) }
    }

    fn scan(&mut self, slot: usize, scope: &Scope, backward: bool) -> Outcome {
        let Some((family, map, options)) = self.view(slot, scope) else { return Ok(()) };
        let mut iterator = self.db().iter_with(&family, options).map_err(failed("iterator"))?;
        let expected = within(&map, scope);
        if backward {
            iterator.seek_last().map_err(failed("seek_last"))?;
            for (key, value) in expected.iter().rev() {
                same(&iterator, Some((key, value)), "backward")?;
                self.note(key);
                iterator.retreat().map_err(failed("retreat"))?;
            }
            return same(&iterator, None, "before the first");
        }
        for (key, value) in &expected {
            let (k, v) = iterator.next().ok_or_else(|| format!("scan ends before {}", shown(key)))?.map_err(failed("scan"))?;
            if k != *key || v != *value {
                return Err(format!("scan: {}={} instead of {}={}", shown(&k), shown(&v), shown(key), shown(value)));
            }
            self.note(&v);
        }
        match iterator.next() {
            None => Ok(()),
            Some(entry) => Err(format!("scan goes on after the last: {:?}", entry.map(|e| shown(&e.0)))),
        }
    }

    fn walk(&mut self, slot: usize, scope: &Scope, steps: &[Step]) -> Outcome {
        let Some((family, map, options)) = self.view(slot, scope) else { return Ok(()) };
        let mut iterator = self.db().iter_with(&family, options).map_err(failed("iterator"))?;
        let entries = within(&map, scope);
        let mut at: Option<usize> = None;
        for (n, step) in steps.iter().enumerate() {
            let result = match step {
                Step::First => iterator.seek_first(),
                Step::Last => iterator.seek_last(),
                Step::Seek(key) => iterator.seek(key),
                Step::SeekForPrev(key) => iterator.seek_for_prev(key),
                Step::Next => iterator.advance(),
                Step::Prev => iterator.retreat(),
            };
            result.map_err(failed("step"))?;
            at = match step {
                Step::First => Some(0),
                Step::Last => entries.len().checked_sub(1),
                Step::Seek(key) => Some(entries.partition_point(|e| *e.0 < **key)),
                Step::SeekForPrev(key) => entries.partition_point(|e| *e.0 <= **key).checked_sub(1),
                Step::Next => at.map(|at| at + 1),
                Step::Prev => at.and_then(|at| at.checked_sub(1)),
            };
            at = at.filter(|at| *at < entries.len());
            same(&iterator, at.map(|at| entries[at]), &format!("after step {n}, {step:?},"))?;
            self.note(iterator.key());
        }
        Ok(())
    }

    fn hold(&mut self, place: usize, slot: usize, scope: &Scope) -> Outcome {
        let Some((family, map, options)) = self.view(slot, scope) else { return Ok(()) };
        let iterator = self.db().iter_with(&family, options).map_err(failed("iterator"))?;
        let rest: Vec<_> = within(&map, scope).into_iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
        self.held[place] = Some(Held { iterator, rest: rest.into_iter() });
        Ok(())
    }

    fn resume(&mut self, place: usize, entries: usize) -> Outcome {
        let Some(mut held) = self.held[place].take() else { return Ok(()) };
        for _ in 0..entries {
            let found = held.iterator.next().transpose().map_err(failed("held iterator"))?;
            let expected = held.rest.next();
            if found != expected {
                let show = |e: &Option<(Vec<u8>, Vec<u8>)>| e.as_ref().map_or("the end".into(), |e| shown(&e.0));
                return Err(format!("held iterator: {} instead of {}", show(&found), show(&expected)));
            }
            let Some((key, _)) = found else { return Ok(()) };
            self.note(&key);
        }
        self.held[place] = Some(held);
        Ok(())
    }

    fn check_all(&mut self, snapshot: Option<usize>) -> Outcome {
        for slot in 0..SLOTS {
            let scope = Scope { snapshot, ..Scope::default() };
            self.scan(slot, &scope, false).map_err(|e| format!("slot {slot} forward: {e}"))?;
            self.scan(slot, &scope, true).map_err(|e| format!("slot {slot} backward: {e}"))?;
        }
        Ok(())
    }

    fn verify(&mut self) -> Outcome {
        let db = self.db();
        db.wait_for_compactions().map_err(failed("wait_for_compactions"))?;
        let damage = db.verify().map_err(failed("verify"))?;
        if !damage.is_empty() {
            return Err(format!("verify: {damage:?}"));
        }
        for (_, slot) in self.live() {
            check_shape(&*db.version(&slot.family).map_err(failed("version"))?)?;
        }
        db.check_ledger().map_err(|e| format!("ledger: {e}"))
    }

    fn flush(&mut self) -> Outcome {
        self.unlogged = false;
        self.db().flush().map_err(failed("flush"))
    }

    fn create(&mut self, slot: usize) -> Outcome {
        let settings = self.variant.family.clone();
        let result = self.db().create_family_with(NAMES[slot], settings, operator(slot), None);
        match (result, &self.slots[slot]) {
            (Ok(family), None) => self.slots[slot] = Some(Slot { family, map: Rc::default() }),
            (Err(Error::Invalid(_)), Some(_)) => {}
            (Ok(_), Some(_)) => return Err("a family was created twice".into()),
            (Err(error), _) => return Err(format!("create_family: {error}")),
        }
        Ok(())
    }

    fn drop_family(&mut self, slot: usize) -> Outcome {
        let Some(dropped) = self.slots[slot].take() else { return Ok(()) };
        self.db().drop_family(&dropped.family).map_err(failed("drop_family"))?;
        self.stale[slot] = Some(dropped.family);
        Ok(())
    }

    /// Closes and opens again; with a seed, after a power cut instead of the close. Everything is durable before, by whatever means.
    fn reopen(&mut self, crash: Option<u64>) -> Outcome {
        if self.unlogged {
            self.flush()?;
        }
        if crash.is_some() {
            self.db().sync().map_err(failed("sync"))?;
        }
        // Iterators keep the database open.
        self.held = [const { None }; HELD];
        self.moments = [const { None }; HELD];
        self.stale = [const { None }; SLOTS];
        let db = self.db.take().unwrap();
        match (&self.medium, crash) {
            (Medium::Memory(store), Some(seed)) => {
                let image = store.crash_with(seed);
                drop(db);
                self.medium = Medium::Memory(Arc::new(image));
            }
            (Medium::Tiers(store, cold), Some(seed)) => {
                // Both images are of one moment only if nothing runs between them.
                db.wait_for_compactions().map_err(failed("wait_for_compactions"))?;
                let images = (store.crash_with(seed), cold.crash_with(seed ^ 0x5eed));
                drop(db);
                self.medium = Medium::Tiers(Arc::new(images.0), Arc::new(images.1));
            }
            (Medium::Zones(drive, _), Some(seed)) => {
                let image = drive.crash_with(seed).unwrap();
                drop(db);
                self.medium.reopen_volume(Some(Arc::new(image)));
            }
            (Medium::Directory(_), Some(_)) => drop(db),
            (_, None) => {
                db.close().map_err(failed("close"))?;
                self.medium.reopen_volume(None);
            }
        }
        let live = self.live().map(|(i, _)| i).collect::<Vec<_>>();
        let db = self.medium.open(builder(&self.clock, live.into_iter())).map_err(failed("reopen"))?;
        for (slot, name) in self.slots.iter_mut().zip(NAMES) {
            match (slot, db.family(name)) {
                (Some(slot), Some(family)) => slot.family = family,
                (None, None) => {}
                (slot, _) => return Err(format!("family {name}: {} after reopen", if slot.is_some() { "missing" } else { "back" })),
            }
        }
        self.db = Some(db);
        self.check_all(None)
    }

    /// Compares another handle, which must see the same.
    fn compare(&mut self, other: Db) -> Outcome {
        for (i, name) in NAMES.iter().enumerate() {
            let Some(map) = self.slots[i].as_ref().map(|slot| slot.map.clone()) else { continue };
            let family = other.family(name).ok_or_else(|| format!("family {name} is missing"))?;
            let found = other.iter_with(&family, ReadOptions::default()).map_err(failed("iterator"))?;
            let found: Map = found.collect::<Result<_, _>>().map_err(failed("scan"))?;
            if found != *map {
                return Err(format!("family {name}: {} entries instead of {}, or others", found.len(), map.len()));
            }
        }
        Ok(())
    }

    fn read_only(&mut self) -> Outcome {
        if self.unlogged {
            self.flush()?;
        }
        // Jobs of other threads would delete files below the reader's feet.
        self.db().wait_for_compactions().map_err(failed("wait_for_compactions"))?;
        let live = self.live().map(|(i, _)| i).collect::<Vec<_>>();
        let other = self.medium.open(builder(&self.clock, live.into_iter()).read_only()).map_err(failed("read-only open"))?;
        self.compare(other)
    }

    fn checkpoint(&mut self) -> Outcome {
        let target = Medium::new(self.variant.place);
        self.db().checkpoint_to(&*target.primary()).map_err(failed("checkpoint"))?;
        self.unlogged = false;
        let live = self.live().map(|(i, _)| i).collect::<Vec<_>>();
        let other = target.open(builder(&self.clock, live.into_iter())).map_err(failed("open of the checkpoint"))?;
        self.compare(other)
    }
}

fn same(iterator: &DbIterator, expected: Option<(&[u8], &[u8])>, when: &str) -> Outcome {
    let found = iterator.valid().then(|| (iterator.key(), iterator.value()));
    if found == expected {
        return Ok(());
    }
    let show = |entry: Option<(&[u8], &[u8])>| entry.map_or("nothing".into(), |(k, v)| format!("{}={}", shown(k), shown(v)));
    Err(format!("{when} the iterator stands on {} instead of {}", show(found), show(expected)))
}
