//! A leveled tree over keys without values, whose tables and logs are real files on zones: the cost of the policies under the engine's own
//! pattern of births and deaths.

use super::support::*;
use sinter_storage::store::{Appender, Cause, FileId, Hint, Lifetime, Reason, Store, StoreError};
use sinter_storage::zoned::Geometry;
use sinter_storage::zoned_store::{Allocation, Figures, Options, Reset, ZoneMap, ZonedStore};
use std::collections::BTreeSet;

/// Bytes that stand for an entry.
const ENTRY: usize = 1 << 10;

/// Entries of a memtable and of a table: half a zone.
const TABLE: usize = 64;

/// Tables of level 1; each deeper level has twice as many.
const BASE: usize = 4;

struct Table {
    id: FileId,
    /// Ascending.
    keys: Vec<u32>,
}

struct Tree {
    store: ZonedStore,
    levels: Vec<Vec<Table>>,
    /// First key of the next compaction of each level.
    cursors: Vec<u32>,
    log: Option<(FileId, Box<dyn Appender>)>,
    memtable: BTreeSet<u32>,
    number: u64,
}

impl Tree {
    fn new(store: ZonedStore) -> Self {
        let levels = (0..12).map(|_| Vec::new()).collect();
        Tree { store, levels, cursors: vec![0; 12], log: None, memtable: BTreeSet::new(), number: 0 }
    }

    fn new_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn put(&mut self, key: u32) -> Result<(), StoreError> {
        if self.log.is_none() {
            let id = FileId::log(self.new_number());
            self.log = Some((id, self.store.create(id, &log_hint())?));
        }
        if let Some((_, log)) = &mut self.log {
            log.append(&[7; ENTRY])?;
        }
        self.memtable.insert(key);
        if self.memtable.len() == TABLE {
            let keys: Vec<u32> = std::mem::take(&mut self.memtable).into_iter().collect();
            let table = self.write(0, keys)?;
            self.levels[0].push(table);
            let log = self.log.take().map(|(id, log)| log.seal().map(|()| id)).transpose()?;
            self.store.sync_names()?;
            log.map_or(Ok(()), |id| self.store.delete(id))?;
            while let Some(level) = self.due() {
                self.compact(level)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, level: usize, keys: Vec<u32>) -> Result<Table, StoreError> {
        let id = FileId::table(self.new_number());
        let lifetime = match level {
            0 | 1 => Lifetime::Medium,
            2 => Lifetime::Long,
            _ => Lifetime::Extreme,
        };
        let cause = if level == 0 { Cause::Flush } else { Cause::Compaction { to: level as u8, reason: Reason::LevelSize } };
        let bound = |key: Option<&u32>| key.map_or(Vec::new(), |key| key.to_be_bytes().to_vec());
        let key_range = Some((bound(keys.first()), bound(keys.last())));
        let mut file = self.store.create(id, &Hint { level: level as u8, lifetime, key_range, ..Hint::new(cause) })?;
        file.append(&vec![level as u8; keys.len() * ENTRY])?;
        file.seal()?;
        Ok(Table { id, keys })
    }

    fn due(&self) -> Option<usize> {
        (0..self.levels.len() - 1).find(|level| self.levels[*level].len() > if *level == 0 { 3 } else { BASE << (level - 1) })
    }

    fn compact(&mut self, level: usize) -> Result<(), StoreError> {
        let taken = if level == 0 {
            std::mem::take(&mut self.levels[0])
        } else {
            let tables = &mut self.levels[level];
            let from = tables.iter().position(|table| table.keys[0] >= self.cursors[level]).unwrap_or(0);
            self.cursors[level] = tables[from].keys.last().map_or(0, |key| key.wrapping_add(1));
            vec![tables.remove(from)]
        };
        let smallest = taken.iter().filter_map(|table| table.keys.first()).min().copied().unwrap_or(0);
        let largest = taken.iter().filter_map(|table| table.keys.last()).max().copied().unwrap_or(0);
        let below = std::mem::take(&mut self.levels[level + 1]);
        let apart = |table: &Table| table.keys[table.keys.len() - 1] < smallest || table.keys[0] > largest;
        let (kept, merged): (Vec<Table>, Vec<Table>) = below.into_iter().partition(apart);
        self.levels[level + 1] = kept;
        let keys: BTreeSet<u32> = taken.iter().chain(&merged).flat_map(|table| table.keys.iter().copied()).collect();
        let keys: Vec<u32> = keys.into_iter().collect();
        for part in keys.chunks(TABLE) {
            let table = self.write(level + 1, part.to_vec())?;
            self.levels[level + 1].push(table);
        }
        self.levels[level + 1].sort_by_key(|table| table.keys[0]);
        self.store.sync_names()?;
        for table in taken.iter().chain(&merged) {
            self.store.delete(table.id)?;
        }
        self.store.sync_names()
    }
}

/// Distribution of the keys.
#[derive(Clone, Copy, Debug)]
enum Keys {
    Uniform,
    /// Nine of ten writes go to a tenth of the keys.
    Hot,
}

struct Outcome {
    figures: Figures,
    map: ZoneMap,
    /// The share of the capacity that lives at the end.
    share: f64,
}

/// Loads `entries` twice over into a drive of so many zones.
fn run(options: Options, zones: u32, max_active: Option<u32>, keys: Keys, entries: u32) -> Result<Outcome, StoreError> {
    let geometry = Geometry { block: 4096, zones, zone_size: 128 << 10, max_open: max_active, max_active, conventional: 0 };
    let mut tree = Tree::new(format(&drive(&geometry, 128 << 10), options));
    let mut random = Random::new(5);
    for _ in 0..entries * 2 {
        let any = random.below(u64::from(entries)) as u32;
        let key = match keys {
            Keys::Hot if random.below(10) > 0 => any / 10 * 10,
            _ => any,
        };
        // Spread over all keys that there are.
        tree.put(key * (u32::MAX / entries))?;
    }
    assert_sound(&tree.store);
    let (figures, map) = (tree.store.figures(), tree.store.map().unwrap());
    let share = map.live() as f64 / map.capacity() as f64;
    Ok(Outcome { figures, map, share })
}

/// Prints one line per policy, for people who change a policy.
fn table(zones: u32, max_active: Option<u32>, keys: Keys, entries: u32) {
    println!("{zones} zones, {max_active:?} active, {keys:?}");
    for allocation in Allocation::ALL {
        for reset in [Reset::Eager, Reset::Lzr, Reset::Sinter] {
            let name = format!("{:>20} {:>6}", allocation.name(), reset.name());
            match run(stepped(allocation, reset), zones, max_active, keys, entries) {
                Ok(Outcome { figures, map, share }) => println!(
                    "{name}: {:4.1} % live, host {:5} KiB, moved {:5}, resets {:4} (full {:4.1} %), {:3} finishes, used {:3} of {:3}, {} \
                     fallbacks",
                    share * 100.0,
                    figures.host_total() >> 10,
                    figures.moved.total() >> 10,
                    figures.resets.total(),
                    100.0 - figures.reset_unwritten as f64 * 100.0 / ((figures.resets.total() << 17) as f64),
                    figures.finishes,
                    map.used(),
                    map.least(),
                    figures.fallbacks,
                ),
                Err(error) => println!("{name}: {error}"),
            }
        }
    }
}

#[test]
#[ignore = "a table for eyes"]
fn policies_in_figures() {
    for keys in [Keys::Uniform, Keys::Hot] {
        for zones in [150, 100, 85] {
            for max_active in [Some(14), None] {
                table(zones, max_active, keys, 6000);
            }
        }
    }
}

#[test]
fn our_policies_move_less_and_lose_nothing_at_resets() {
    let ours = stepped(Allocation::Sinter, Reset::Sinter);
    let theirs = stepped(Allocation::Sla { tokens: true }, Reset::Lzr);
    let roomy = run(ours, 150, Some(14), Keys::Uniform, 6000).unwrap();
    assert_eq!(roomy.figures.moved.total(), 0, "at {:.2}", roomy.share);
    let lost = roomy.figures.reset_unwritten as f64 / (roomy.figures.resets.total() << 17) as f64;
    assert!(lost < 0.02, "{lost} of the capacity is lost at resets");
    let (ours, theirs) = (run(ours, 85, Some(14), Keys::Uniform, 6000).unwrap(), run(theirs, 85, Some(14), Keys::Uniform, 6000).unwrap());
    let (moved, by_theirs) = (ours.figures.moved.total(), theirs.figures.moved.total());
    assert!(moved <= by_theirs, "{moved} bytes moved at {:.2}, {by_theirs} by SLA with LZR", ours.share);
}
