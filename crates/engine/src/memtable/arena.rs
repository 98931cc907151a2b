//! The memory of a memtable: chunks from a pool, filled from front to back, addressed by 32-bit references, never moved and never
//! reused before the memtable is dropped. All unsafe code of the memtable is here.
//!
//! The argument, once for all blocks below:
//!
//! * *Valid.* An [`EntryRef`] or [`NodeRef`] is made only by [`Arena::push_entry`], [`Arena::push_leaf`] and [`Arena::push_inner`],
//!   after the object was fully written, and leaves this module's hands only through [`EntrySlot`] and [`NodeSlot`]. The fields are
//!   private, so no other number becomes a reference. A tree owns exactly one arena and keeps its references to itself (the types are
//!   private to `memtable`), so a reference always meets the arena it came from.
//! * *Visible.* Slots are stored with release and loaded with acquire order. Whoever got a reference from a slot therefore sees the
//!   bytes behind it, even if the version check of the node later shows that the slot was read amid a change and the result is thrown
//!   away. Version checks are needed for consistent answers, never for memory safety.
//! * *Disjoint and immutable.* [`ArenaFill`] hands out every byte once; it cannot be cloned, and filling needs it mutably, so there is one
//!   writer. Entries never change. Nodes change through atomics only (`Leaf::inner`, the node's kind, is set before the first release).
//! * *Alive.* References to bytes borrow the arena, and chunks go back to the pool only in `Drop`.

use super::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::prefetch;
use memmap2::MmapMut;
use parking_lot::Mutex;
use std::alloc::{Layout, handle_alloc_error};
use std::array;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

/// Slots in a node. Tests that explore schedules need splits soon.
pub(super) const WIDTH: usize = if cfg!(any(shuttle, miri)) { 4 } else { 64 };
/// Bytes in a chunk of the pool. Small enough that a memtable with one entry is cheap, large enough that taking one is rare.
const CHUNK: usize = 1 << 20;
/// Entries above this get a chunk of their own, so that the unused tail of a chunk stays below a quarter.
const LARGE: usize = CHUNK / 4;
/// References count in units of this many bytes.
const UNIT: usize = 8;
/// Bits of a reference for the offset in its chunk, in units; the other bits are the number of the chunk.
const OFFSET_BITS: u32 = (CHUNK / UNIT).trailing_zeros();
/// Chunks are numbered in segments, so that the table of a small memtable is small.
const SEGMENT: usize = 256;
/// Number of segments. With 1 MiB chunks at least three quarters full, a memtable holds 24 GiB or more (8 GiB if all entries are just above
/// `LARGE`).
const SEGMENTS: usize = (1 << (32 - OFFSET_BITS)) / SEGMENT;
/// Entries use chunk numbers below this. The last numbers are for nodes, because splitting a node must not fail half way.
const ENTRY_CHUNKS: u32 = (SEGMENTS * SEGMENT) as u32 - 8;
/// Trailer, key length and value length (`u16` each): the head of nearly all entries.
const SHORT: usize = 12;
/// Head of other entries: a trailer, a value length that is not used, [`LONG_MARK`] for the key length, then both lengths as `u32`.
const LONG: usize = 20;
/// A key length of this value marks a long head; a short key is shorter.
const LONG_MARK: u16 = u16::MAX;

/// Memory that goes back to the system when dropped. It is mapped, not allocated: an allocator keeps freed megabytes that lie between live
/// ones, which doubles the resident memory of a store under load.
#[derive(Debug)]
struct Chunk {
    start: NonNull<u8>,
    size: usize,
    _memory: MmapMut,
}

// SAFETY: a chunk owns its memory and `start` is only an address; what the memory holds is shared as the module comment says.
unsafe impl Send for Chunk {}
// SAFETY: as above; a `&Chunk` gives no access to the memory by itself.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn new(size: usize) -> Chunk {
        let size = size.max(UNIT);
        let mut memory = MmapMut::map_anon(size).unwrap_or_else(|_| {
            handle_alloc_error(Layout::from_size_align(size, 64).expect("sizes are far below isize::MAX"));
        });
        let start = NonNull::new(memory.as_mut_ptr()).expect("a mapping is not at address zero");
        Chunk { start, size, _memory: memory }
    }
}

/// Recycles arena chunks (1 MiB each) between memtables, so that a new memtable costs no page faults.
#[derive(Debug)]
pub struct ChunkPool {
    free: Mutex<Vec<Chunk>>,
    limit: usize,
}

impl ChunkPool {
    /// A pool that keeps at most `bytes` of free chunks (rounded down to whole chunks) and gives the rest back to the system.
    pub fn with_capacity(bytes: usize) -> ChunkPool {
        ChunkPool { free: Mutex::new(Vec::new()), limit: bytes / CHUNK }
    }

    /// Bytes of free chunks kept now.
    pub fn free_bytes(&self) -> usize {
        self.free.lock().len() * CHUNK
    }

    /// Gives all free chunks back to the system. Called when the database is idle.
    pub fn release(&self) {
        let free = std::mem::take(&mut *self.free.lock());
        drop(free);
    }

    fn take(&self) -> Chunk {
        let recycled = self.free.lock().pop();
        recycled.unwrap_or_else(|| Chunk::new(CHUNK))
    }

    fn give(&self, chunk: Chunk) {
        let mut free = self.free.lock();
        if chunk.size == CHUNK && free.len() < self.limit {
            free.push(chunk);
        }
    }
}

impl Default for ChunkPool {
    /// Keeps 64 MiB.
    fn default() -> Self {
        ChunkPool::with_capacity(64 << 20)
    }
}

/// Reference to an entry in an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryRef(NonZeroU32);

/// Reference to a node in an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeRef(NonZeroU32);

/// An atomic reference to an entry, in a node.
#[derive(Debug)]
pub(super) struct EntrySlot(AtomicU32);

impl EntrySlot {
    pub(super) fn new(entry: EntryRef) -> EntrySlot {
        EntrySlot(AtomicU32::new(entry.0.get()))
    }

    #[inline]
    pub(super) fn load(&self) -> EntryRef {
        EntryRef(NonZeroU32::new(self.0.load(Ordering::Acquire)).expect("a slot never holds zero"))
    }

    #[inline]
    pub(super) fn store(&self, entry: EntryRef) {
        self.0.store(entry.0.get(), Ordering::Release);
    }
}

/// An atomic reference to a node, or none.
#[derive(Debug)]
pub(super) struct NodeSlot(AtomicU32);

impl NodeSlot {
    pub(super) fn new(node: Option<NodeRef>) -> NodeSlot {
        NodeSlot(AtomicU32::new(node.map_or(0, |node| node.0.get())))
    }

    #[inline]
    pub(super) fn load(&self) -> Option<NodeRef> {
        NonZeroU32::new(self.0.load(Ordering::Acquire)).map(NodeRef)
    }

    #[inline]
    pub(super) fn store(&self, node: Option<NodeRef>) {
        self.0.store(node.map_or(0, |node| node.0.get()), Ordering::Release);
    }
}

/// An inserted entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) key: &'a [u8],
    pub(super) trailer: u64,
    pub(super) value: &'a [u8],
}

/// A leaf, and the first part of an inner node.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Leaf {
    /// Ascending. Unused ones are `u64::MAX`, so that none is smaller than the prefix searched for.
    pub(super) prefixes: [AtomicU64; WIDTH],
    /// Unused ones refer to any entry.
    pub(super) entries: [EntrySlot; WIDTH],
    pub(super) version: AtomicU32,
    pub(super) len: AtomicU32,
    pub(super) skip: AtomicU32,
    pub(super) next: NodeSlot,
    pub(super) inner: bool,
}

/// An inner node.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Inner {
    pub(super) slots: Leaf,
    pub(super) children: Children,
}

pub(super) type Children = [NodeSlot; WIDTH];

/// A node in its arena.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) slots: &'a Leaf,
    pub(super) children: Option<&'a Children>,
}

impl Leaf {
    /// A node without slots in use. Unused slots refer to `entry`.
    pub(super) fn new(inner: bool, entry: EntryRef, skip: usize, next: Option<NodeRef>) -> Leaf {
        Leaf {
            prefixes: array::from_fn(|_| AtomicU64::new(u64::MAX)),
            entries: array::from_fn(|_| EntrySlot::new(entry)),
            version: AtomicU32::new(0),
            len: AtomicU32::new(0),
            skip: AtomicU32::new(skip as u32),
            next: NodeSlot::new(next),
            inner,
        }
    }

    #[inline]
    pub(super) fn is_inner(&self) -> bool {
        self.inner
    }
}

impl Inner {
    /// An inner node without slots in use.
    pub(super) fn new(entry: EntryRef, skip: usize) -> Inner {
        Inner { slots: Leaf::new(true, entry, skip, None), children: array::from_fn(|_| NodeSlot::new(None)) }
    }
}

/// The unfilled rest of a chunk.
#[derive(Debug, Default)]
struct Bump {
    chunk: u32,
    filled: usize,
    size: usize,
}

/// The right to fill an arena, and how far it is filled. Nodes and entries lie in different chunks, so that the nodes lie close together.
#[derive(Debug)]
pub(super) struct ArenaFill {
    next_chunk: u32,
    entries: Bump,
    nodes: Bump,
}

type Segment = [OnceLock<Chunk>; SEGMENT];

/// Chunks by number.
#[derive(Debug)]
pub(super) struct Arena {
    pool: Arc<ChunkPool>,
    segments: [OnceLock<Box<Segment>>; SEGMENTS],
    used: AtomicUsize,
}

impl Arena {
    /// An arena without memory, and the one right to fill it.
    pub(super) fn new(pool: Arc<ChunkPool>) -> (Arena, ArenaFill) {
        let arena = Arena { pool, segments: [const { OnceLock::new() }; SEGMENTS], used: AtomicUsize::new(0) };
        // Chunk 0 is never used, so that no reference is 0.
        (arena, ArenaFill { next_chunk: 1, entries: Bump::default(), nodes: Bump::default() })
    }

    /// Bytes filled, unused ends of finished chunks included.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Copies an entry into the arena. Panics if a length needs more than 32 bits, or if the references are used up (8 GiB or more).
    pub(super) fn push_entry(&self, fill: &mut ArenaFill, key: &[u8], trailer: u64, value: &[u8]) -> EntryRef {
        assert!(fill.next_chunk < ENTRY_CHUNKS, "a memtable is flushed long before its references are used up");
        let lengths = (u32::try_from(key.len()).expect("keys are smaller than 4 GiB"), u32::try_from(value.len()).expect("so are values"));
        let short = match (u16::try_from(key.len()), u16::try_from(value.len())) {
            (Ok(key), Ok(value)) if key != LONG_MARK => Some((key, value)),
            _ => None,
        };
        let head = if short.is_some() { SHORT } else { LONG };
        let size = head + key.len() + value.len();
        let reference = if size > LARGE {
            self.count(size);
            self.add_chunk(&mut fill.next_chunk, Chunk::new(size)) << OFFSET_BITS
        } else {
            self.reserve(&mut fill.next_chunk, &mut fill.entries, size.next_multiple_of(UNIT))
        };
        let reference = NonZeroU32::new(reference).expect("chunk 0 is not used");
        let at = self.address(reference);
        let (short_key, short_value) = short.unwrap_or((LONG_MARK, 0));
        // SAFETY: disjoint: `size` bytes at `at`, aligned to 8, were reserved for this entry, and nobody has the reference yet. All
        // fields are aligned to their sizes.
        unsafe {
            at.cast::<u64>().write(trailer);
            at.add(8).cast::<u16>().write(short_key);
            at.add(10).cast::<u16>().write(short_value);
            if short.is_none() {
                at.add(12).cast::<u32>().write(lengths.0);
                at.add(16).cast::<u32>().write(lengths.1);
            }
            at.add(head).copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
            at.add(head + key.len()).copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        }
        EntryRef(reference)
    }

    /// Moves a leaf into the arena.
    pub(super) fn push_leaf(&self, fill: &mut ArenaFill, leaf: Leaf) -> NodeRef {
        assert!(!leaf.is_inner());
        self.push_node(fill, leaf)
    }

    /// Moves an inner node into the arena.
    pub(super) fn push_inner(&self, fill: &mut ArenaFill, inner: Inner) -> NodeRef {
        assert!(inner.slots.is_inner());
        self.push_node(fill, inner)
    }

    fn push_node<T>(&self, fill: &mut ArenaFill, node: T) -> NodeRef {
        // Nodes need no drop (shuttle's atomics do, but leaking them in a test is no harm).
        const { assert!(cfg!(shuttle) || !std::mem::needs_drop::<T>()) };
        const { assert!(align_of::<T>() == 64 && size_of::<T>() < LARGE && size_of::<T>().is_multiple_of(64)) };
        let reference = self.reserve(&mut fill.next_chunk, &mut fill.nodes, size_of::<T>());
        let reference = NonZeroU32::new(reference).expect("chunk 0 is not used");
        // SAFETY: disjoint: reserved for this node alone. Aligned: chunks are aligned to 64, and those of nodes are filled in steps of 64.
        unsafe { self.address(reference).cast::<T>().write(node) };
        NodeRef(reference)
    }

    /// The entry of a reference.
    #[inline]
    pub(super) fn entry(&self, entry: EntryRef) -> Entry<'_> {
        let at = self.address(entry.0);
        // SAFETY: valid and visible: the head was written by `push_entry`.
        let (trailer, key_len, value_len) =
            unsafe { (at.cast::<u64>().read(), at.add(8).cast::<u16>().read(), at.add(10).cast::<u16>().read()) };
        let (head, key_len, value_len) = if key_len != LONG_MARK {
            (SHORT, usize::from(key_len), usize::from(value_len))
        } else {
            // SAFETY: as above: behind this mark stand the long lengths.
            unsafe { (LONG, at.add(12).cast::<u32>().read() as usize, at.add(16).cast::<u32>().read() as usize) }
        };
        // SAFETY: `push_entry` wrote that many bytes behind the head; they are immutable and live as long as `self`.
        unsafe {
            let key = NonNull::slice_from_raw_parts(at.add(head), key_len).as_ref();
            let value = NonNull::slice_from_raw_parts(at.add(head + key_len), value_len).as_ref();
            Entry { key, trailer, value }
        }
    }

    /// The node of a reference.
    #[inline]
    pub(super) fn node(&self, node: NodeRef) -> Node<'_> {
        let at = self.address(node.0);
        // SAFETY: valid: every node is a `Leaf`, or an `Inner`, which begins with one (`repr(C)`). It changes through atomics only.
        let slots: &Leaf = unsafe { at.cast().as_ref() };
        // SAFETY: valid: `push_inner` and nothing else pushes nodes that say they are inner ones, and pushes an `Inner`.
        let children = slots.is_inner().then(|| unsafe { &at.cast::<Inner>().as_ref().children });
        Node { slots, children }
    }

    /// Prefetches the head of an entry and the start of its key.
    #[inline]
    pub(super) fn prefetch(&self, entry: EntryRef) {
        prefetch::range(self.address(entry.0).as_ptr(), LONG + 16);
    }

    /// Prefetches all cache lines of a node at once, because in a search each line read decides which one is read next.
    #[inline]
    pub(super) fn prefetch_node(&self, node: NodeRef) {
        prefetch::range(self.address(node.0).as_ptr(), size_of::<Leaf>());
    }

    #[inline]
    fn address(&self, reference: NonZeroU32) -> NonNull<u8> {
        let (chunk, offset) = ((reference.get() >> OFFSET_BITS) as usize, reference.get() as usize % (CHUNK / UNIT) * UNIT);
        let segment = self.segments[chunk / SEGMENT].get().expect("references name chunks that exist");
        let chunk = segment[chunk % SEGMENT].get().expect("references name chunks that exist");
        // SAFETY: valid: references name offsets inside their chunk.
        unsafe { chunk.start.add(offset) }
    }

    /// Reserves `size` bytes, at most `LARGE`.
    fn reserve(&self, next_chunk: &mut u32, bump: &mut Bump, size: usize) -> u32 {
        if bump.size - bump.filled < size {
            self.count(bump.size - bump.filled);
            *bump = Bump { chunk: self.add_chunk(next_chunk, self.pool.take()), filled: 0, size: CHUNK };
        }
        let offset = bump.filled;
        bump.filled += size;
        self.count(size);
        bump.chunk << OFFSET_BITS | (offset / UNIT) as u32
    }

    fn add_chunk(&self, next_chunk: &mut u32, chunk: Chunk) -> u32 {
        let number = *next_chunk;
        let segment = self.segments.get(number as usize / SEGMENT).expect("entries leave numbers to nodes");
        let segment = segment.get_or_init(|| Box::new([const { OnceLock::new() }; SEGMENT]));
        let placed = segment[number as usize % SEGMENT].set(chunk);
        assert!(placed.is_ok(), "chunk numbers are given once");
        *next_chunk += 1;
        number
    }

    fn count(&self, bytes: usize) {
        // Only the writer stores, so no read-modify-write is needed.
        self.used.store(self.used.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for segment in self.segments.iter_mut().filter_map(OnceLock::take) {
            segment.into_iter().filter_map(OnceLock::into_inner).for_each(|chunk| self.pool.give(chunk));
        }
    }
}
