//! Full volumes, resets and the collector: space comes back, figures are those of the drive, and nobody waits for ever.

use super::support::*;
use sinter_storage::store::{Cause, FileId, FileKind, Hint, Meter, Store, StoreError};
use sinter_storage::zoned::{Call, Emulator, Geometry, ZoneErrorKind, ZoneFault, ZoneState};
use sinter_storage::zoned_store::{Allocation, Collection, Condition, Options, Reset, ZonedStore};
use std::collections::VecDeque;
use std::sync::Arc;

const SMALL: Geometry = Geometry { block: 512, zones: 40, zone_size: 64 << 10, max_open: Some(12), max_active: Some(12), conventional: 0 };

fn try_put(store: &ZonedStore, id: FileId, level: u8, length: usize) -> Result<(), StoreError> {
    let outcome = store.create(id, &table_hint(level)).and_then(|mut file| {
        file.append(&pattern(id, length))?;
        file.seal()
    });
    if outcome.is_err() {
        drop(store.delete(id));
    }
    outcome
}

/// The engine is told what a zone holds, through its wrapper, unless it is not to be told.
#[test]
fn a_unit_is_a_zone() {
    let store = format(&drive(&SMALL, SMALL.zone_size - 4096), stepped(Allocation::Sla { tokens: true }, Reset::Eager));
    assert_eq!(Meter::new(Arc::new(store)).unit(), SMALL.zone_size - 4096);
    let silent = Options { tells: false, ..stepped(Allocation::Sla { tokens: true }, Reset::Eager) };
    assert_eq!(format(&drive(&SMALL, SMALL.zone_size), silent).unit(), 0);
}

/// Checks that the volume and the drive counted the same.
fn assert_counted(store: &ZonedStore, drive: &Emulator, before: &sinter_storage::zoned::Activity) {
    let (figures, activity) = (store.figures(), drive.activity());
    assert_eq!(figures.device_total(), activity.written - before.written, "{figures:?}");
    assert_eq!(figures.resets.total() + figures.journal.resets, activity.resets - before.resets);
    assert_eq!((figures.finishes, figures.finish_padding), (activity.finishes - before.finishes, activity.padded - before.padded));
    let (beneath, map) = (store.beneath().unwrap(), store.map().unwrap());
    assert_eq!(beneath.device(), activity.written + activity.padded - before.written - before.padded, "{beneath:?}");
    assert_eq!(beneath.resets, activity.resets - before.resets);
    assert_eq!(beneath.resets_by_lifetime.total(), beneath.resets - beneath.metadata_resets);
    assert_eq!(beneath.collected_by_lifetime.total(), beneath.collected);
    assert!(beneath.log_resets <= beneath.resets - beneath.metadata_resets && beneath.moved_tables >= beneath.collected, "{beneath:?}");
    let now = beneath.zones;
    assert_eq!((now.used(), now.live, now.capacity), (map.used(), map.live(), map.capacity()));
    let unwritten = figures.reset_unwritten + figures.journal.resets * SMALL.zone_size - figures.journal.reset_bytes;
    assert_eq!(unwritten, activity.unwritten_at_reset - before.unwritten_at_reset);
}

/// Files come and go while `share` percent of the capacity live, until `times` the capacity was written.
fn churn(drive: &Arc<Emulator>, options: Options, share: u64, times: u64) -> Result<ZonedStore, StoreError> {
    let store = format(drive, options);
    // Made anew, so that counting starts after the formatting.
    drop(store);
    let before = drive.activity();
    let store = open(drive, options);
    let capacity = store.map().unwrap().capacity();
    let mut random = Random::new(11);
    let mut levels: [VecDeque<(FileId, usize)>; 4] = Default::default();
    let (mut live, mut written, mut number) = (0, 0, 0);
    while written < capacity * times {
        number += 1;
        let (level, length) = ([0, 1, 1, 2, 2, 2, 3, 3, 3, 3][random.below(10) as usize], 3000 + random.below(20_000) as usize);
        let id = FileId::table(number);
        try_put(&store, id, level as u8, length)?;
        levels[level].push_back((id, length));
        (live, written) = (live + length as u64, written + length as u64);
        while live > capacity * share / 100 {
            // The shallow ones die in order, of the deep ones any.
            let from = [0, 0, 1, 1, 2, 3][random.below(6) as usize];
            let any = if from == 3 { random.below(levels[3].len().max(1) as u64) as usize } else { 0 };
            if let Some((id, length)) = levels[from].remove(any) {
                store.delete(id).unwrap();
                live -= length as u64;
            }
        }
        store.sync_names().unwrap();
    }
    for (id, length) in levels.iter().flatten() {
        assert_holds(&store, *id, *length);
    }
    assert_sound(&store);
    assert_counted(&store, drive, &before);
    assert_eq!(store.figures().failed_zones, 0);
    Ok(store)
}

#[test]
fn every_policy_lives_with_every_reset() {
    for allocation in Allocation::ALL {
        for reset in Reset::ALL {
            let store = churn(&drive(&SMALL, SMALL.zone_size), stepped(allocation, reset), 60, 4);
            let store = store.unwrap_or_else(|error| panic!("{} with {}: {error}", allocation.name(), reset.name()));
            let (figures, map) = (store.figures(), store.map().unwrap());
            println!(
                "{} {}: {} moved, {} resets, {} unwritten, {} finishes, {} of {} zones",
                allocation.name(),
                reset.name(),
                figures.moved.data,
                figures.resets.total(),
                figures.reset_unwritten,
                figures.finishes,
                map.used(),
                map.least()
            );
        }
    }
}

#[test]
fn every_collector_keeps_a_crowded_volume_going() {
    // ZenFS's leaves zones alone that are less than two fifths dead, however crowded a volume is.
    for collection in Collection::ALL.into_iter().filter(|rule| *rule != Collection::Zenfs) {
        let options = Options { collection, ..stepped(Allocation::Sinter, Reset::Sinter) };
        let store = churn(&drive(&SMALL, SMALL.zone_size), options, 80, 4);
        let store = store.unwrap_or_else(|error| panic!("{}: {error}", collection.name()));
        assert!(store.figures().collected.total() > 0, "{}: {:?}", collection.name(), store.figures());
    }
}

#[test]
fn unlimited_drives_and_other_shapes() {
    for geometry in [
        Geometry { max_open: None, max_active: None, ..SMALL },
        Geometry { max_open: Some(4), max_active: Some(4), ..SMALL },
        Geometry { max_open: Some(3), max_active: Some(3), ..SMALL },
        Geometry { conventional: 3, ..SMALL },
        Geometry { block: 4096, ..SMALL },
    ] {
        let store = churn(&drive(&geometry, geometry.zone_size), stepped(Allocation::Sinter, Reset::Lazy), 50, 2);
        store.unwrap_or_else(|error| panic!("{geometry:?}: {error}"));
    }
}

/// Nothing comes to lie beside a manifest: it cannot be moved, and what is dead in its zones would be lost for as long as it lives.
#[test]
fn a_manifest_has_its_zones_to_itself() {
    for allocation in [Allocation::Sla { tokens: true }, Allocation::PerLevel, Allocation::Sinter] {
        let store = format(&drive(&SMALL, SMALL.zone_size), stepped(allocation, Reset::Sinter));
        let mut manifest = store.create(FileId::manifest(1), &Hint::new(Cause::Manifest)).unwrap();
        let capacity = store.map().unwrap().capacity();
        let mut random = Random::new(5);
        let mut tables: Vec<(FileId, u64)> = Vec::new();
        for number in 1..2000 {
            let (id, length) = (FileId::table(number), 5000 + random.below(10_000));
            try_put(&store, id, (number % 4) as u8, length as usize).unwrap_or_else(|error| panic!("{}: {error}", allocation.name()));
            tables.push((id, length));
            if number % 5 == 0 {
                manifest.append(&[7; 100]).unwrap();
                manifest.sync().unwrap();
            }
            while tables.iter().map(|(_, length)| length).sum::<u64>() > capacity * 4 / 5 {
                let gone = random.below(tables.len() as u64) as usize;
                store.delete(tables.swap_remove(gone).0).unwrap();
            }
            store.sync_names().unwrap();
        }
        assert!(store.figures().collected.total() > 0, "{}: the volume was never full", allocation.name());
        let map = store.map().unwrap();
        let shares = |files: &[(FileId, u64)]| files.len() > 1 && files.iter().any(|(id, _)| id.kind == FileKind::Manifest);
        let shared = map.zones.iter().filter(|zone| shares(&zone.files)).count();
        assert_eq!(shared, 0, "{}: zones with a manifest and something else", allocation.name());
        drop(manifest);
        assert_sound(&store);
    }
}

#[test]
fn without_fallback_zenfs_fails_where_others_go_on() {
    let unlimited = Geometry { max_open: None, max_active: None, ..SMALL };
    let strict = Options { fallback: false, ..stepped(Allocation::Zenfs { tokens: true }, Reset::Eager) };
    let error = churn(&drive(&unlimited, SMALL.zone_size), strict, 75, 4).unwrap_err();
    assert!(error.is_no_space(), "{error}");
    churn(&drive(&unlimited, SMALL.zone_size), stepped(Allocation::Zenfs { tokens: true }, Reset::Eager), 75, 4).unwrap();
}

/// Fills the volume: the files that found room.
fn fill(store: &ZonedStore, from: u64) -> Vec<FileId> {
    let mut files = Vec::new();
    for number in from.. {
        assert!(number < from + 10_000, "there is no end");
        let id = FileId::table(number);
        match try_put(store, id, 2, 10_000) {
            Ok(()) => files.push(id),
            Err(error) => {
                assert!(error.is_no_space() && error.file == Some(id), "{error}");
                break;
            }
        }
        store.sync_names().unwrap();
    }
    files
}

#[test]
fn a_full_volume_says_so_and_goes_on_when_there_is_room() {
    for background in [false, true] {
        let options = Options { background, ..stepped(Allocation::Sinter, Reset::Sinter) };
        let drive = drive(&SMALL, SMALL.zone_size);
        let store = format(&drive, options);
        let files = fill(&store, 1);
        let capacity = store.map().unwrap().capacity();
        assert!(files.len() as u64 * 10_000 > capacity * 8 / 10, "only {} files fit {capacity} bytes", files.len());
        files.iter().for_each(|id| assert_holds(&store, *id, 10_000));
        // Every other one: no zone is dead, the collector has to work.
        files.iter().step_by(2).for_each(|id| store.delete(*id).unwrap());
        let more = fill(&store, 100_000);
        assert!(more.len() * 3 > files.len(), "{} files after {} were deleted", more.len(), files.len() / 2);
        assert!(store.figures().collected.total() > 0);
        let left: Vec<&FileId> = files.iter().skip(1).step_by(2).chain(&more).collect();
        left.iter().for_each(|id| assert_holds(&store, **id, 10_000));
        store.sync_names().unwrap();
        drop(store);
        let store = open(&drive, Options { background: false, ..options });
        left.iter().for_each(|id| assert_holds(&store, **id, 10_000));
        assert_sound(&store);
    }
}

#[test]
fn writers_and_the_thread_work_side_by_side() {
    let drive = drive(&SMALL, SMALL.zone_size);
    let store = format(&drive, Options { background: true, ..Options::default() });
    let left: Vec<Vec<(FileId, usize)>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let store = &store;
                scope.spawn(move || {
                    let mut random = Random::new(writer + 1);
                    let mut mine = VecDeque::new();
                    for number in 0..250 {
                        let (id, length) = (FileId::table(writer << 32 | number), 500 + random.below(30_000) as usize);
                        try_put(store, id, random.below(4) as u8, length).unwrap();
                        mine.push_back((id, length));
                        if mine.len() > 28 {
                            let (id, length) = mine.remove(random.below(28) as usize).unwrap();
                            assert_holds(store, id, length);
                            store.delete(id).unwrap();
                        }
                        store.sync_names().unwrap();
                    }
                    mine.into_iter().collect()
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    left.iter().flatten().for_each(|(id, length)| assert_holds(&store, *id, *length));
    drop(store);
    let store = open(&drive, plain());
    left.iter().flatten().for_each(|(id, length)| assert_holds(&store, *id, *length));
    assert_sound(&store);
}

#[test]
fn the_least_worn_zone_comes_next() {
    let drive = drive(&SMALL, SMALL.zone_size);
    let store = format(&drive, stepped(Allocation::Sla { tokens: true }, Reset::Eager));
    for number in 0..400 {
        put(&store, FileId::table(number), &table_hint(1), 60 << 10);
        store.sync_names().unwrap();
        store.delete(FileId::table(number)).unwrap();
        store.sync_names().unwrap();
    }
    let resets: Vec<u64> = store.map().unwrap().zones.iter().skip(2).map(|zone| zone.resets).collect();
    let (least, most) = (resets.iter().min().unwrap(), resets.iter().max().unwrap());
    assert!(*least > 5 && most - least <= 1, "{resets:?}");
}

#[test]
fn lazily_reset_zones_are_filled_up_first() {
    let measure = |reset| {
        let store = churn(&drive(&SMALL, SMALL.zone_size), stepped(Allocation::Sinter, reset), 40, 5).unwrap();
        let figures = store.figures();
        figures.reset_unwritten as f64 / (figures.resets.total() * SMALL.zone_size) as f64
    };
    let (eager, sinter) = (measure(Reset::Eager), measure(Reset::Sinter));
    assert!(sinter < eager / 2.0, "{sinter} of the capacity is lost at resets, {eager} eagerly");
}

/// Refuses resets of zones for files.
fn refuse_resets(call: &Call) -> Option<ZoneFault> {
    (call.operation == "reset" && call.zone.is_some_and(|zone| zone > 1)).then_some(ZoneFault::Refuse(ZoneErrorKind::Io))
}

fn condition(store: &ZonedStore, zone: u32) -> Condition {
    store.map().unwrap().zones[zone as usize].condition
}

/// A zone that the drive did not reset this time is still there, holds its active place, and is reset later.
#[test]
fn a_failed_reset_is_tried_again() {
    let drive = drive(&SMALL, SMALL.zone_size);
    let store = format(&drive, stepped(Allocation::Sla { tokens: true }, Reset::Eager));
    for (number, length) in [(1, 3000), (2, 64 << 10)] {
        put(&store, FileId::table(number), &table_hint(number as u8), length);
        store.sync_names().unwrap();
        let map = store.map().unwrap();
        let zone = map.zones.iter().find(|zone| !zone.files.is_empty()).unwrap();
        drive.set_hook(Some(Arc::new(refuse_resets)));
        store.delete(FileId::table(number)).unwrap();
        store.sync_names().unwrap();
        store.tidy().unwrap();
        assert_eq!(condition(&store, zone.zone), zone.condition, "what it was before");
        drive.set_hook(None);
        store.tidy().unwrap();
        assert_eq!(condition(&store, zone.zone), Condition::Empty);
        assert_sound(&store);
    }
    put(&store, FileId::table(3), &table_hint(1), 3000);
    store.sync_names().unwrap();
    let zone = store.map().unwrap().zones.iter().find(|zone| !zone.files.is_empty()).unwrap().zone;
    drive.break_zone(zone, ZoneState::ReadOnly).unwrap();
    store.delete(FileId::table(3)).unwrap();
    store.sync_names().unwrap();
    assert_eq!(condition(&store, zone), Condition::ReadOnly);
}

#[test]
fn nobody_waits_for_resets_that_fail() {
    for background in [false, true] {
        let options = Options { background, ..stepped(Allocation::Sinter, Reset::Sinter) };
        let drive = drive(&SMALL, SMALL.zone_size);
        let store = format(&drive, options);
        let files = fill(&store, 1);
        drive.set_hook(Some(Arc::new(refuse_resets)));
        files.iter().for_each(|id| store.delete(*id).unwrap());
        store.sync_names().unwrap();
        let refused = fill(&store, 10_000);
        drive.set_hook(None);
        store.tidy().unwrap();
        let room = fill(&store, 100_000);
        assert!(room.len() > refused.len() + files.len() / 2, "{} files, {} before, {} at first", room.len(), refused.len(), files.len());
    }
}

/// A zone that the drive gives up while a log is written into it frees its active place at once: it was held until the volume was opened
/// anew, and where files have one place only, the rest of an empty drive could not be had.
#[test]
fn a_zone_that_breaks_gives_its_place_back() {
    for state in [ZoneState::ReadOnly, ZoneState::Offline] {
        let few = Geometry { max_open: Some(3), max_active: Some(3), ..SMALL };
        let drive = drive(&few, few.zone_size);
        let store = format(&drive, stepped(Allocation::Sinter, Reset::Sinter));
        let mut file = log(&store, 1, b"before");
        store.sync_names().unwrap();
        let zone = store.map().unwrap().zones.iter().find(|zone| zone.writers > 0).unwrap().zone;
        drive.break_zone(zone, state).unwrap();
        file.append(b" and behind").unwrap();
        file.sync().unwrap();
        let condition = condition(&store, zone);
        assert_eq!(condition, if state == ZoneState::ReadOnly { Condition::ReadOnly } else { Condition::Offline });
        for number in 0..6 {
            put(&store, FileId::table(number), &table_hint(1), 5000);
        }
        drop(file);
        assert_eq!(store.figures().failed_zones, 1);
        if state == ZoneState::ReadOnly {
            assert_eq!(get(&store, FileId::log(1)), b"before and behind");
            assert_sound(&store);
        }
    }
}

/// Every set of files that `fit_on` says will fit does fit, and some sets that it refuses do not.
#[test]
fn what_is_said_to_fit_does() {
    let (mut fitted, mut refused) = (0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let places = Some(3 + random.below(12) as u32);
        let block = [512, 4096][random.below(2) as usize];
        let shape = Geometry { block, max_open: places, max_active: places, ..SMALL };
        let drive = drive(&shape, [shape.zone_size, shape.zone_size - 4096][random.below(2) as usize]);
        let scale = 200 + random.below(250_000);
        let mut files: Vec<(FileId, u64)> = (0..20 + random.below(100)).map(|n| (FileId::table(n), random.below(scale))).collect();
        files.extend((0..random.below(4)).map(|n| (FileId::log(200 + n), random.below(100_000))));
        files.push((FileId::manifest(300), random.below(70_000)));
        let options = stepped(Allocation::Sinter, Reset::Sinter);
        let fits = ZonedStore::fit_on(&device(&drive), options, &files).is_ok_and(|fit| fit.needed <= fit.room);
        let store = format(&drive, options);
        let write = |(id, length): &(FileId, u64)| {
            let hint = match id.kind {
                FileKind::Table => table_hint((id.number % 4) as u8),
                FileKind::Log => log_hint(),
                _ => Hint::new(Cause::Manifest),
            };
            let mut file = store.create(*id, &hint)?;
            file.append(&pattern(*id, *length as usize))?;
            file.seal()
        };
        let written = files.iter().try_for_each(write);
        assert!(written.is_ok() || !fits, "seed {seed}: {written:?}");
        (fitted, refused) = (fitted + u32::from(fits), refused + u32::from(!fits && written.is_err()));
    }
    assert!(fitted > 5 && refused > 5, "{fitted} fit, {refused} do not");
}

/// On a small drive an eighth of the zones is none, and with the last one the manifest had no room any more, for good.
#[test]
fn a_zone_is_always_in_reserve() {
    for (zones, asked, kept) in [(20, 2, 2), (20, 0, 1), (20, 9, 2), (25, 9, 2), (26, 9, 3)] {
        let store = format(&drive(&Geometry { zones, ..TINY }, TINY_CAPACITY), Options { reserve: asked, ..plain() });
        assert_eq!(store.options().reserve, kept, "{asked} of {zones} zones, two of which are for metadata");
    }
}
