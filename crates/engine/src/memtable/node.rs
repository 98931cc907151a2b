//! Nodes of the tree: up to 64 slots, ordered by entry. A slot holds eight bytes of a key as a number and a reference to the full
//! entry; in a leaf that entry is the content, in an inner node it is the smallest entry of the slot's child (its separator).
//!
//! *Consistent reads* are by version, as in Leis et al., "The ART of Practical Synchronization" (DaMoN 2016) and Boehm, "Can Seqlocks
//! Get Along With Programming Language Memory Models?" (MSPC 2012). The writer makes the version odd, then changes fields, then
//! makes it even; a reader takes an even version, reads, and starts over if the version has moved. The fields are atomics, so a
//! race is a wrong answer that is thrown away, not undefined. In detail: if a reader saw any field stored by a change, then the release
//! fence after the odd store and the acquire fence before the second load of the version order the odd store before that load: it
//! differs. If it took the version with which a change ended, the acquire load saw all fields of that change.
//!
//! *Prefixes.* The keys of a node that lies between two separators all share the bytes these two share, so the slots leave
//! them out (prefix truncation, Bayer and Unterauer 1977): `skip` bytes, then eight that count. Nodes are searched by these numbers alone;
//! only among equal numbers are entries compared.

use super::arena::{Arena, EntryRef, Node, NodeRef, WIDTH};
use super::sync::{AtomicU64, Ordering, fence};
use crate::key;
use std::cmp;

/// Prefixes in a cache line.
const LINE: usize = if WIDTH < 8 { 2 } else { 8 };
/// Prefixes are computed anew only if this many more shared bytes can be skipped: fewer are not worth the cache misses.
const SKIP_GAIN: usize = 4;

/// Entry that a search looks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchKey<'a> {
    pub(super) key: &'a [u8],
    pub(super) trailer: u64,
}

/// A slot's content. `child` is `Some` in inner nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeEntry {
    pub(super) entry: EntryRef,
    pub(super) child: Option<NodeRef>,
}

/// Methods for readers; the writer may use them, too.
impl<'a> Node<'a> {
    /// The version to pass to `unchanged` after reading; `None` while the node is being changed.
    #[inline]
    pub(super) fn begin(&self) -> Option<u32> {
        let version = self.slots.version.load(Ordering::Acquire);
        version.is_multiple_of(2).then_some(version)
    }

    /// Returns whether the node has not changed since `begin` returned `version`: everything read since then is consistent.
    #[inline]
    pub(super) fn unchanged(&self, version: u32) -> bool {
        fence(Ordering::Acquire);
        self.slots.version.load(Ordering::Relaxed) == version
    }

    /// Slots in use, at most `WIDTH`.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slots.len.load(Ordering::Relaxed) as usize
    }

    /// The leaf to the right.
    #[inline]
    pub(super) fn next(&self) -> Option<NodeRef> {
        self.slots.next.load()
    }

    /// The entry of a slot; any entry if the slot is not in use.
    #[inline]
    pub(super) fn entry(&self, at: usize) -> EntryRef {
        self.slots.entries[at].load()
    }

    /// The number of slots whose entry is before `target`, or equal to it if `inclusive`. At most `len`. The first slot of an inner
    /// node always counts, because its child, the leftmost, also holds entries before the slot's entry.
    #[inline]
    pub(super) fn rank(&self, arena: &Arena, target: &SearchKey<'_>, inclusive: bool) -> usize {
        let (len, prefix) = (self.len(), prefix_after(target.key, self.skip()));
        let lower = self.lower_bound(prefix).max(usize::from(self.slots.inner)).min(len);
        let is_equal = |at: usize| at < len && self.slots.prefixes[at].load(Ordering::Relaxed) == prefix;
        // Among equal prefixes, the first entry is compared alone. A key's newest version comes first, and insertions and most reads look
        // for that position, so this saves a binary search over all versions with a cache miss per step.
        if !is_equal(lower) || !self.is_before(arena, lower, target, inclusive) {
            return lower;
        }
        let mut upper = lower + 1;
        while is_equal(upper) {
            upper += 1;
        }
        self.rank_among(arena, target, inclusive, lower + 1, upper)
    }

    /// The entry at or near the position of `target`, found by prefixes alone.
    #[inline]
    pub(super) fn guess(&self, target: &SearchKey<'_>) -> Option<EntryRef> {
        let at = self.lower_bound(prefix_after(target.key, self.skip()));
        (at < self.len().min(WIDTH)).then(|| self.entry(at))
    }

    /// Returns whether the entry of a slot is before `target`, or equal to it if `inclusive`.
    #[inline]
    fn is_before(&self, arena: &Arena, at: usize, target: &SearchKey<'_>, inclusive: bool) -> bool {
        let entry = arena.entry(self.entry(at));
        match key::compare(entry.key, entry.trailer, target.key, target.trailer) {
            cmp::Ordering::Less => true,
            cmp::Ordering::Equal => inclusive,
            cmp::Ordering::Greater => false,
        }
    }

    /// The number of prefixes smaller than `prefix`. The last of each cache line are compared first: these loads do not depend on each
    /// other, so a node outside the caches costs one round trip, not one per step of a binary search.
    #[inline]
    fn lower_bound(&self, prefix: u64) -> usize {
        let (lines, _) = self.slots.prefixes.as_chunks::<LINE>();
        let smaller = |slot: &AtomicU64| usize::from(slot.load(Ordering::Relaxed) < prefix);
        let line: usize = lines.iter().map(|line| smaller(&line[LINE - 1])).sum();
        line * LINE + lines.get(line).map_or(0, |line| line.iter().map(smaller).sum())
    }

    /// Binary search by whole entries.
    #[inline]
    fn rank_among(&self, arena: &Arena, target: &SearchKey<'_>, inclusive: bool, mut lower: usize, mut upper: usize) -> usize {
        while lower < upper {
            let middle = lower.midpoint(upper);
            if self.is_before(arena, middle, target, inclusive) {
                lower = middle + 1;
            } else {
                upper = middle;
            }
        }
        lower
    }

    /// Bytes left out of the prefixes.
    pub(super) fn skip(&self) -> usize {
        self.slots.skip.load(Ordering::Relaxed) as usize
    }
}

/// Methods for the writer.
impl Node<'_> {
    /// Makes readers retry until `unlock`.
    pub(super) fn lock(&self) {
        let version = self.slots.version.load(Ordering::Relaxed);
        debug_assert!(version.is_multiple_of(2));
        self.slots.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
    }

    pub(super) fn unlock(&self) {
        let version = self.slots.version.load(Ordering::Relaxed);
        self.slots.version.store(version.wrapping_add(1), Ordering::Release);
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == WIDTH
    }

    /// Puts a slot at `at`, which must be its rank, and moves the later ones. The node must not be full.
    pub(super) fn insert(&self, arena: &Arena, at: usize, slot: NodeEntry) {
        let len = self.len();
        for from in (at..len).rev() {
            self.slots.prefixes[from + 1].store(self.slots.prefixes[from].load(Ordering::Relaxed), Ordering::Relaxed);
            self.slots.entries[from + 1].store(self.slots.entries[from].load());
        }
        if let Some(children) = self.children {
            (at..len).rev().for_each(|from| children[from + 1].store(children[from].load()));
            children[at].store(slot.child);
        }
        // The first slot of an inner node counts as the smallest, see `rank`.
        let prefix = if self.slots.inner && at == 0 { 0 } else { prefix_after(arena.entry(slot.entry).key, self.skip()) };
        self.slots.prefixes[at].store(prefix, Ordering::Relaxed);
        self.slots.entries[at].store(slot.entry);
        self.slots.len.store(len as u32 + 1, Ordering::Relaxed);
    }

    /// Moves the slots from `cut` on to the empty node `right`, and links `right` as the next node.
    pub(super) fn move_tail(&self, cut: usize, right: Node<'_>, right_ref: NodeRef) {
        let len = self.len();
        for (to, from) in (cut..len).enumerate() {
            right.slots.prefixes[to].store(self.slots.prefixes[from].load(Ordering::Relaxed), Ordering::Relaxed);
            right.slots.entries[to].store(self.slots.entries[from].load());
            if let (Some(children), Some(source)) = (right.children, self.children) {
                children[to].store(source[from].load());
            }
            self.slots.prefixes[from].store(u64::MAX, Ordering::Relaxed);
        }
        right.slots.len.store((len - cut) as u32, Ordering::Relaxed);
        self.slots.len.store(cut as u32, Ordering::Relaxed);
        self.slots.next.store(Some(right_ref));
    }

    /// Leaves the first `shared` bytes out of the prefixes, if that gains enough. All keys searched for in this node share these bytes.
    pub(super) fn narrow(&self, arena: &Arena, shared: usize) {
        if shared < self.skip() + SKIP_GAIN {
            return;
        }
        self.slots.skip.store(shared as u32, Ordering::Relaxed);
        for at in 0..self.len() {
            self.slots.prefixes[at].store(prefix_after(arena.entry(self.entry(at)).key, shared), Ordering::Relaxed);
        }
    }
}

/// Eight bytes of `key` after the first `skip`, as `key::prefix` has them.
#[inline]
pub(super) fn prefix_after(key: &[u8], skip: usize) -> u64 {
    match (key.get(skip..).unwrap_or_default(), key.last_chunk::<8>()) {
        // Fewer than eight bytes are left: shifts the key's last eight bytes, which is cheaper than copying the rest.
        (rest, Some(last)) if (1..8).contains(&rest.len()) => u64::from_be_bytes(*last) << (64 - 8 * rest.len()),
        (rest, _) => key::prefix(rest),
    }
}
