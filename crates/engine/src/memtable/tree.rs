//! Reading the tree: a B+tree whose readers take no lock and write nothing.
//!
//! Readers descend by optimistic lock coupling (Leis et al., "The ART of Practical Synchronization", DaMoN 2016): take the child's version,
//! then check that the parent has not changed since the child was chosen. A writer that splits a node makes the versions of all nodes it
//! changes odd before it changes any. So a reader that reached a split child through the parent's old content finds the parent's version
//! changed and starts over: no entry is ever missed. Leaves are linked to the right (Lehman and Yao 1981): an entry stays in its leaf or
//! moves to the right neighbour, so a walk that copies a leaf's entries together with its link misses nothing either.

use super::arena::{Arena, Entry, EntryRef, Node, NodeRef, NodeSlot, WIDTH};
use super::node::SearchKey;
use super::sync::{self, AtomicU32, Ordering};

/// Position that a search looks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Goal<'a> {
    /// The first entry.
    First,
    /// The end, behind the last entry.
    End,
    /// The first entry at or after the target. If it is the first of its leaf, the search may end behind the last entry of the leaf before.
    AtOrAfter(SearchKey<'a>),
    /// The position behind the last entry before the target, in the leaf of that entry if there is one.
    Before(SearchKey<'a>),
}

/// Entries of a leaf and its link to the right, as they were at one moment.
#[derive(Debug)]
pub(super) struct LeafCopy {
    entries: [Option<EntryRef>; WIDTH],
    next: Option<NodeRef>,
}

impl LeafCopy {
    /// No entries.
    pub(super) const EMPTY: LeafCopy = LeafCopy { entries: [None; WIDTH], next: None };

    /// The entry at an index; `None` behind the last.
    #[inline]
    pub(super) fn entry(&self, at: usize) -> Option<EntryRef> {
        self.entries.get(at).copied().flatten()
    }

    fn of(node: Node<'_>) -> LeafCopy {
        let mut copy = LeafCopy { next: node.next(), ..LeafCopy::EMPTY };
        for (at, entry) in copy.entries.iter_mut().enumerate().take(node.len()) {
            *entry = Some(node.entry(at));
        }
        copy
    }
}

/// A node was changed while it was read.
#[derive(Debug)]
struct Changed;

/// The tree. Inserting is in `insert.rs`.
#[derive(Debug)]
pub(super) struct BPlusTree {
    pub(super) arena: Arena,
    pub(super) root: NodeSlot,
    /// Inner nodes above each leaf.
    pub(super) height: AtomicU32,
}

impl BPlusTree {
    pub(super) fn new(arena: Arena) -> BPlusTree {
        BPlusTree { arena, root: NodeSlot::new(None), height: AtomicU32::new(0) }
    }

    /// The entry of a reference from this tree.
    #[inline]
    pub(super) fn entry(&self, entry: EntryRef) -> Entry<'_> {
        self.arena.entry(entry)
    }

    /// Prefetches the leaf in which `target` would be, and returns it.
    pub(super) fn expect(&self, target: SearchKey<'_>) -> Option<NodeRef> {
        let leaf = self.about(target)?;
        self.arena.prefetch_node(leaf);
        Some(leaf)
    }

    /// Prefetches the first entry at or after `target`, some time after [`BPlusTree::expect`].
    pub(super) fn expect_entry(&self, target: SearchKey<'_>) {
        if let Some(leaf) = self.about(target) {
            self.expect_entry_in(leaf, target);
        }
    }

    /// Prefetches the entry where `target` is expected in a leaf that [`BPlusTree::expect`] has given.
    pub(super) fn expect_entry_in(&self, leaf: NodeRef, target: SearchKey<'_>) {
        if let Some(entry) = self.arena.node(leaf).guess(&target) {
            self.arena.prefetch(entry);
        }
    }

    /// The leaf in which `target` would be. If the tree changes meanwhile, the result may be any node: good enough for a prefetch.
    fn about(&self, target: SearchKey<'_>) -> Option<NodeRef> {
        let mut at = self.root.load()?;
        for _ in 0..self.height.load(Ordering::Relaxed) {
            let node = self.arena.node(at);
            at = node.children?[Goal::AtOrAfter(target).child(node, &self.arena)].load()?;
        }
        Some(at)
    }

    /// The first entry at or after `target`.
    pub(super) fn first_at_or_after(&self, target: SearchKey<'_>) -> Option<EntryRef> {
        let first = |node: Node<'_>, at: usize| if at < node.len() { (Some(node.entry(at)), None) } else { (None, node.next()) };
        let (entry, next) = self.locate(Goal::AtOrAfter(target), first)?;
        // The first entry of the next leaf never changes, because it is the separator in the parent.
        entry.or_else(|| self.read(next?, |node| node.entry(0)).into())
    }

    /// A copy of the leaf in which a search ends, and the index in the leaf.
    pub(super) fn leaf(&self, goal: Goal<'_>) -> Option<(LeafCopy, usize)> {
        self.locate(goal, |node, at| (LeafCopy::of(node), at))
    }

    /// The leaf to the right of an earlier copy.
    pub(super) fn leaf_after(&self, leaf: &LeafCopy) -> Option<LeafCopy> {
        Some(self.read(leaf.next?, LeafCopy::of))
    }

    /// Applies `take` to the leaf in which the search ends and the index in the leaf; `None` if the tree is empty. `take` may see a leaf
    /// that is being changed; then its result is discarded and the search repeated.
    fn locate<T>(&self, goal: Goal<'_>, take: impl Fn(Node<'_>, usize) -> T) -> Option<T> {
        let mut attempt = 0;
        loop {
            match self.try_locate(goal, &take) {
                Ok(found) => return found,
                Err(Changed) => sync::relax(attempt),
            }
            attempt += 1;
        }
    }

    fn try_locate<T>(&self, goal: Goal<'_>, take: impl Fn(Node<'_>, usize) -> T) -> Result<Option<T>, Changed> {
        let Some(root) = self.root.load() else { return Ok(None) };
        let mut node = self.arena.node(root);
        let mut version = node.begin().ok_or(Changed)?;
        // The reference to the root has no version, so it is read again: a writer changes it before the old root's version becomes even.
        check(self.root.load() == Some(root))?;
        while let Some(children) = node.children {
            let child = children[goal.child(node, &self.arena)].load().ok_or(Changed)?;
            self.arena.prefetch_node(child);
            let child = self.arena.node(child);
            let child_version = child.begin().ok_or(Changed)?;
            check(node.unchanged(version))?;
            (node, version) = (child, child_version);
        }
        let found = take(node, goal.place(node, &self.arena));
        check(node.unchanged(version))?;
        Ok(Some(found))
    }

    fn read<T>(&self, node: NodeRef, take: impl Fn(Node<'_>) -> T) -> T {
        let node = self.arena.node(node);
        let mut attempt = 0;
        loop {
            if let Some(version) = node.begin() {
                let taken = take(node);
                if node.unchanged(version) {
                    return taken;
                }
            }
            sync::relax(attempt);
            attempt += 1;
        }
    }
}

fn check(holds: bool) -> Result<(), Changed> {
    if holds { Ok(()) } else { Err(Changed) }
}

impl Goal<'_> {
    /// The slot of an inner node to descend to.
    #[inline]
    pub(super) fn child(&self, node: Node<'_>, arena: &Arena) -> usize {
        let rank = match self {
            Goal::First => 0,
            Goal::End => node.len(),
            Goal::AtOrAfter(target) => node.rank(arena, target, true),
            Goal::Before(target) => node.rank(arena, target, false),
        };
        rank.saturating_sub(1)
    }

    /// The index in a leaf at which the search ends.
    #[inline]
    pub(super) fn place(&self, node: Node<'_>, arena: &Arena) -> usize {
        match self {
            Goal::First => 0,
            Goal::End => node.len(),
            Goal::AtOrAfter(target) | Goal::Before(target) => node.rank(arena, target, false),
        }
    }
}
