//! The memory of blocks in the cache: mapped slabs of equal slots (Bonwick, USENIX 1994), one list of slabs per size.
//!
//! Blocks are read in by many threads and evicted by others. An allocator with arenas per thread keeps what they free for each thread
//! apart, between living blocks: with a cache of 64 MiB, two threads and some rounds of eviction a process had 230 MiB instead of 130.
//! Here any thread reuses any slot, the slabs with low addresses first so that others empty, and an empty one goes back to the system.
//! A cache that becomes smaller keeps what is used most, wherever it lies, so that hardly a slab empties: [`trim`] gives the system the
//! pages between.
//!
//! The argument for the unsafe code, once:
//!
//! * *Valid.* A [`Bytes`] is made by [`Bytes::new`] only, with a slot that lies in a living mapping (or an allocation of its own) of at
//!   least its length. Mappings are filled with zeros by the system, so all of it is initialised memory.
//! * *Alive.* A slab is unmapped only when none of its slots is in use, and a slot is in use until its `Bytes` is dropped.
//! * *Disjoint.* A slot is handed out only if it is free, under the lock of its class, and has one owner, which cannot be cloned. Access
//!   borrows the owner, so the usual rules hold. [`trim`] takes the contents of pages that lie in free slots alone, under the same lock:
//!   nobody has these, and they are zeros when they are used again.

use memmap2::{MmapMut, UncheckedAdvice};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The smallest page there is. Where pages are larger, the system refuses a range that is none of them, and it stays.
const PAGE: usize = 4096;
/// Bytes of a slab. Mappings of a process are limited to some ten thousand, though the system joins neighbours.
const SLAB: usize = 1 << 20;
/// Smaller blocks are no concern: small ends of tables.
const LEAST: usize = 1 << 10;
/// Larger ones would leave much of a slab unused; they are allocated one by one.
const MOST: usize = 1 << 17;
/// Sizes per doubling: a slot is at most a sixteenth larger than asked for.
const STEPS: usize = 16;
const CLASSES: usize = (MOST.ilog2() - LEAST.ilog2()) as usize * STEPS;
/// Says that the bytes are an allocation of their own.
const ALONE: u8 = u8::MAX;

static SLABS: [Mutex<Class>; CLASSES] = [const { Mutex::new(Class::new()) }; CLASSES];

/// Bytes of a fixed number, with any contents at first.
#[derive(Debug)]
pub struct Bytes {
    start: NonNull<u8>,
    len: u32,
    class: u8,
}

// SAFETY: it owns its bytes, as a box does.
unsafe impl Send for Bytes {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// `len` bytes.
    pub fn new(len: u32) -> Bytes {
        let slot = class_of(len as usize).and_then(|class| Some((class, SLABS.get(class)?.lock().take(slot_size(class))?)));
        let (start, class) = match slot {
            Some((class, start)) => (start, class as u8),
            None => {
                let alone = Box::leak(vec![0; len as usize].into_boxed_slice());
                (NonNull::from(alone).cast(), ALONE)
            }
        };
        Bytes { start, len, class }
    }

    /// Bytes of memory that it takes.
    pub fn footprint(&self) -> usize {
        if self.class == ALONE { self.len as usize } else { slot_size(usize::from(self.class)) }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: valid, alive and disjoint as the module says; `len` does not change.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the owner is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len as usize) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if self.class == ALONE {
            let alone = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len as usize);
            // SAFETY: leaked by `new` with this length, and nobody else has it.
            drop(unsafe { Box::from_raw(alone) });
        } else if let Some(class) = SLABS.get(usize::from(self.class)) {
            let empty = class.lock().give(self.start, slot_size(usize::from(self.class)));
            // Unmapped without the lock.
            drop(empty);
        }
    }
}

/// Gives the system the memory between slots in use, where slots were given back since the last time. Using it again costs new pages, so
/// this is for a cache that has become smaller.
pub fn trim() {
    for (number, class) in SLABS.iter().enumerate() {
        let size = slot_size(number);
        let loose: Vec<usize> = class.lock().slabs.iter().filter(|(_, slab)| slab.is_loose).map(|(address, _)| *address).collect();
        // The lock for one at a time: readers wait for it.
        for address in loose {
            if let Some(slab) = class.lock().slabs.get_mut(&address) {
                slab.trim(size);
            }
        }
    }
}

/// The class for `len` bytes; `None` if it is too large or too small for slabs.
fn class_of(len: usize) -> Option<usize> {
    if !(LEAST + 1..=MOST).contains(&len) {
        return None;
    }
    let doubling = (len - 1).ilog2();
    let step = (1 << doubling) / STEPS;
    Some((doubling - LEAST.ilog2()) as usize * STEPS + (len - 1 - (1 << doubling)) / step)
}

/// Bytes of a slot.
fn slot_size(class: usize) -> usize {
    let base = LEAST << (class / STEPS);
    base + (class % STEPS + 1) * base / STEPS
}

/// The slabs of one size of slots.
#[derive(Debug)]
struct Class {
    /// All slabs by address.
    slabs: BTreeMap<usize, Slab>,
    /// Addresses of slabs with a free slot. The lowest is used first, so that the others may become empty.
    open: BTreeSet<usize>,
}

#[derive(Debug)]
struct Slab {
    start: NonNull<u8>,
    /// Slots that were given back.
    free: Vec<u16>,
    /// Slots from here on were never used.
    fresh: u16,
    slots: u16,
    /// Slots were given back since the free pages went to the system.
    is_loose: bool,
    memory: MmapMut,
}

// SAFETY: a slab owns its memory, and `start` is only an address.
unsafe impl Send for Slab {}

impl Slab {
    /// `None` if the system has no memory left.
    fn new(size: usize) -> Option<Slab> {
        let mut memory = MmapMut::map_anon(SLAB).ok()?;
        let start = NonNull::new(memory.as_mut_ptr())?;
        Some(Slab { start, free: Vec::new(), fresh: 0, slots: u16::try_from(SLAB / size).ok()?, is_loose: false, memory })
    }

    fn take(&mut self) -> Option<u16> {
        self.free.pop().or_else(|| {
            let fresh = (self.fresh < self.slots).then_some(self.fresh)?;
            self.fresh += 1;
            Some(fresh)
        })
    }

    /// Gives the system the pages that lie in free slots alone.
    fn trim(&mut self, size: usize) {
        self.is_loose = false;
        self.free.sort_unstable_by(|one, other| other.cmp(one));
        for run in self.free.chunk_by(|one, next| one - next == 1) {
            let (Some(last), Some(first)) = (run.first(), run.last()) else { continue };
            let start = (usize::from(*first) * size).next_multiple_of(PAGE);
            let end = (usize::from(*last) + 1) * size / PAGE * PAGE;
            if start < end {
                // SAFETY: disjoint as the module says: the range is in free slots, and the slab is borrowed for writing. If the system
                // refuses, the pages stay.
                let _ = unsafe { self.memory.unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start) };
            }
        }
    }

    fn is_full(&self) -> bool {
        self.free.is_empty() && self.fresh == self.slots
    }

    fn is_empty(&self) -> bool {
        self.free.len() == usize::from(self.fresh)
    }
}

impl Class {
    const fn new() -> Class {
        Class { slabs: BTreeMap::new(), open: BTreeSet::new() }
    }

    /// A free slot of `size` bytes; `None` if there is no memory left.
    fn take(&mut self, size: usize) -> Option<NonNull<u8>> {
        let address = match self.open.first() {
            Some(address) => *address,
            None => {
                let slab = Slab::new(size)?;
                let address = slab.start.as_ptr().addr();
                self.slabs.insert(address, slab);
                self.open.insert(address);
                address
            }
        };
        let slab = self.slabs.get_mut(&address)?;
        let slot = slab.take()?;
        if slab.is_full() {
            self.open.remove(&address);
        }
        // SAFETY: the slot is one of `SLAB / size`, so it ends inside the mapping.
        Some(unsafe { slab.start.add(usize::from(slot) * size) })
    }

    /// Takes a slot back. The caller is to drop a slab that became empty, unless it is the only one with a free slot: a cache that keeps
    /// nothing would map and unmap one for each block.
    fn give(&mut self, slot: NonNull<u8>, size: usize) -> Option<Slab> {
        let (&address, slab) = self.slabs.range_mut(..=slot.as_ptr().addr()).next_back()?;
        let number = (slot.as_ptr().addr() - address) / size;
        debug_assert!(number < usize::from(slab.fresh), "a slot of another slab");
        slab.free.push(number as u16);
        slab.is_loose = true;
        self.open.insert(address);
        (slab.is_empty() && self.open.len() > 1).then(|| {
            self.open.remove(&address);
            self.slabs.remove(&address)
        })?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(state: &mut u64) -> usize {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27) as usize >> 8
    }

    #[test]
    fn slots_hold_what_is_asked_for_and_little_more() {
        for len in 0..=MOST + 1 {
            match class_of(len) {
                Some(class) => {
                    let size = slot_size(class);
                    assert!(size >= len && size <= len + len / STEPS + 1, "{len} bytes in a slot of {size}");
                    assert!(class == 0 || slot_size(class - 1) < len, "{len} bytes fit a smaller slot than {size}");
                }
                None => assert!(len <= LEAST || len > MOST, "{len}"),
            }
        }
        assert_eq!(slot_size(CLASSES - 1), MOST);
    }

    fn come_and_go(thread: u64) {
        let mut state = thread;
        let mut held: Vec<(Bytes, u8)> = Vec::new();
        for round in 0..if cfg!(miri) { 60 } else { 20_000_usize } {
            if held.len() > 200 || (!held.is_empty() && next(&mut state).is_multiple_of(3)) {
                let (bytes, mark) = held.swap_remove(next(&mut state) % held.len());
                assert!(bytes.iter().all(|byte| *byte == mark), "thread {thread}, round {round}");
            } else {
                let most = if next(&mut state).is_multiple_of(50) { 2 * MOST } else { 9000 };
                let len = next(&mut state) % most;
                let mut bytes = Bytes::new(len as u32);
                assert_eq!(bytes.len(), len);
                assert!(bytes.footprint() >= len);
                bytes.fill(round as u8);
                held.push((bytes, round as u8));
            }
        }
    }

    #[test]
    fn bytes_keep_their_contents_whatever_comes_and_goes() {
        std::thread::scope(|scope| (0..3).for_each(|thread| drop(scope.spawn(move || come_and_go(thread)))));
    }

    #[test]
    fn blocks_beyond_the_largest_slot_are_counted_in_full_and_given_back() {
        for len in [MOST, MOST + 1, SLAB - 1, SLAB, SLAB + 1, 5 * SLAB + 7] {
            let mut bytes = Bytes::new(len as u32);
            assert_eq!((bytes.len(), bytes.footprint(), bytes.class == ALONE), (len, len, len > MOST));
            bytes.fill(7);
            assert!(bytes.iter().all(|byte| *byte == 7));
            drop(bytes);
        }
    }

    /// Pages of the slab that have memory: bit 63 of each word of this file.
    #[cfg(not(miri))]
    fn resident_pages(slab: &Slab) -> usize {
        use std::os::unix::fs::FileExt;
        let mut words = vec![0_u8; SLAB / PAGE * 8];
        let file = std::fs::File::open("/proc/self/pagemap").expect("Linux");
        file.read_exact_at(&mut words, (slab.start.as_ptr().addr() / PAGE * 8) as u64).expect("a word per page");
        words.chunks_exact(8).filter(|word| word[7] & 0x80 != 0).count()
    }

    #[cfg(not(miri))]
    #[test]
    fn what_is_free_between_slots_in_use_goes_to_the_system() {
        let size = slot_size(class_of(4300).expect("a size for slabs"));
        let mut class = Class::new();
        let slots: Vec<_> = (0..SLAB / size).map(|_| class.take(size).expect("memory")).collect();
        for slot in &slots {
            // SAFETY: it is in use, and nobody else's.
            unsafe { slot.write_bytes(7, size) };
        }
        let (kept, given): (Vec<_>, Vec<_>) = slots.iter().enumerate().partition(|(number, _)| number % 6 == 0);
        given.iter().for_each(|(_, slot)| drop(class.give(**slot, size)));
        let slab = class.slabs.values_mut().next().expect("one slab");
        assert!(slab.is_loose);
        let before = resident_pages(slab);
        slab.trim(size);
        let after = resident_pages(slab);
        // Of six slots one stays, with parts of pages on both sides.
        assert!(before >= SLAB / PAGE - 1 && after * 5 < before * 2, "{before} pages, then {after}");
        assert!(!slab.is_loose);
        // SAFETY: these are in use.
        assert!(kept.iter().all(|(_, slot)| unsafe { std::slice::from_raw_parts(slot.as_ptr(), size) }.iter().all(|byte| *byte == 7)));
        let again: BTreeSet<usize> = (0..given.len()).map(|_| class.take(size).expect("memory").as_ptr().addr()).collect();
        assert_eq!((again.len(), class.slabs.len()), (given.len(), 1), "each free slot is used again");
    }

    #[test]
    fn empty_slabs_go_back_but_for_one() {
        let size = slot_size(class_of(5000).expect("a size for slabs"));
        let mut class = Class::new();
        let mut slots: Vec<_> = (0..3 * (SLAB / size)).map(|_| class.take(size).expect("memory")).collect();
        let unlike: BTreeSet<usize> = slots.iter().map(|slot| slot.as_ptr().addr()).collect();
        assert_eq!((unlike.len(), class.slabs.len(), class.open.len()), (slots.len(), 3, 0));
        let given: usize = slots.drain(..).map(|slot| usize::from(class.give(slot, size).is_some())).sum();
        assert_eq!((given, class.slabs.len(), class.open.len()), (2, 1, 1));
        class.take(size).expect("memory");
        assert_eq!(class.slabs.len(), 1, "what is left is used again");
    }
}
