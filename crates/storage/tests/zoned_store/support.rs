//! Small drives and what tests do with files.

use sinter_storage::store::{Appender, Cause, FileId, Hint, Lifetime, Reason, Store};
use sinter_storage::zoned::{Emulator, Geometry, ZonedDevice};
use sinter_storage::zoned_store::{Allocation, Options, Reset, VolumeId, ZonedStore};
use std::sync::Arc;

/// A drive so small that a few kilobytes fill a zone.
pub const TINY: Geometry = Geometry { block: 512, zones: 24, zone_size: 16 << 10, max_open: Some(8), max_active: Some(8), conventional: 0 };

/// Usable bytes of a zone of [`TINY`].
pub const TINY_CAPACITY: u64 = 14 << 10;

pub const ID: VolumeId = VolumeId([7; 16]);

pub fn drive(geometry: &Geometry, capacity: u64) -> Arc<Emulator> {
    Arc::new(Emulator::memory(geometry.clone(), capacity).unwrap())
}

pub fn tiny() -> Arc<Emulator> {
    drive(&TINY, TINY_CAPACITY)
}

/// Options without a thread: everything repeats exactly.
pub fn stepped(allocation: Allocation, reset: Reset) -> Options {
    Options { allocation, reset, background: false, ..Options::default() }
}

pub fn plain() -> Options {
    stepped(Allocation::Sla { tokens: true }, Reset::Eager)
}

pub fn format(drive: &Arc<Emulator>, options: Options) -> ZonedStore {
    ZonedStore::format(device(drive), ID, options).unwrap()
}

pub fn open(drive: &Arc<Emulator>, options: Options) -> ZonedStore {
    ZonedStore::open(device(drive), options).unwrap()
}

pub fn device(drive: &Arc<Emulator>) -> Arc<dyn ZonedDevice> {
    Arc::clone(drive) as Arc<dyn ZonedDevice>
}

/// Hint like the engine's for tables of a level.
pub fn table_hint(level: u8) -> Hint {
    let lifetime = match level {
        0 | 1 => Lifetime::Medium,
        2 => Lifetime::Long,
        _ => Lifetime::Extreme,
    };
    let cause = if level == 0 { Cause::Flush } else { Cause::Compaction { to: level, reason: Reason::LevelSize } };
    let key = |n: u8| vec![b'k', level, n];
    Hint { level, lifetime, key_range: Some((key(0), key(9))), ..Hint::new(cause) }
}

pub fn log_hint() -> Hint {
    Hint { lifetime: Lifetime::Short, ..Hint::new(Cause::Wal) }
}

/// Bytes whose place can be told from their value; other for each file.
pub fn pattern(id: FileId, length: usize) -> Vec<u8> {
    let seed = id.number.wrapping_mul(31).wrapping_add(id.kind as u64);
    (0..length as u64).map(|i| ((i ^ seed << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

pub fn put(store: &dyn Store, id: FileId, hint: &Hint, length: usize) {
    let mut file = store.create(id, hint).unwrap();
    file.append(&pattern(id, length)).unwrap();
    file.seal().unwrap();
}

pub fn get(store: &dyn Store, id: FileId) -> Vec<u8> {
    let file = store.open(id).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

pub fn assert_holds(store: &dyn Store, id: FileId, length: usize) {
    assert!(get(store, id) == pattern(id, length), "{id} holds other bytes");
}

pub fn assert_sound(store: &ZonedStore) {
    assert_eq!(store.check().unwrap(), [""; 0]);
}

/// A log with a synced start.
pub fn log(store: &dyn Store, number: u64, first: &[u8]) -> Box<dyn Appender> {
    let mut file = store.create(FileId::log(number), &log_hint()).unwrap();
    file.append(first).unwrap();
    file.sync().unwrap();
    file
}

/// Marsaglia's xorshift64*: a stream that a seed repeats.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % bound
    }
}
