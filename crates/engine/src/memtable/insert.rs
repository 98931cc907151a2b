//! Changing the tree: one writer, which needs no version checks of its own.

use super::arena::{ArenaFill, EntryRef, Inner, Leaf, Node, NodeRef, WIDTH};
use super::node::{NodeEntry, SearchKey};
use super::sync::Ordering;
use super::tree::{BPlusTree, Goal};
use crate::key;
use std::cmp;
use std::sync::atomic::{AtomicU64, Ordering as StdOrdering};

/// Leaf into which an entry will be inserted. Valid for its tree until a node is split; with an invalid hint the insertion descends from
/// the root.
#[derive(Debug, Clone, Copy)]
pub struct LeafHint {
    leaf: NodeRef,
    shape: u64,
}

/// A shape number that no tree has had before.
fn new_shape() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, StdOrdering::Relaxed)
}

/// State that the one writer of a tree keeps between insertions.
#[derive(Debug)]
pub(super) struct Writer {
    fill: ArenaFill,
    /// Number of the tree's shape, renewed whenever a node is split.
    shape: u64,
    /// The inner nodes of the last descent, root first, with the slots taken.
    path: Vec<(NodeRef, usize)>,
    /// Nodes being changed.
    locked: Vec<NodeRef>,
    /// Leaf and slot of the last entry.
    last: Option<(NodeRef, usize)>,
    /// The greatest entry; `None` before the first insertion at the end, and after a split.
    tail: Option<Tail>,
}

/// The greatest entry: an entry behind it is appended without a search.
#[derive(Debug, Clone, Copy)]
struct Tail {
    leaf: NodeRef,
    entry: EntryRef,
    prefix: u64,
}

impl Writer {
    pub(super) fn new(fill: ArenaFill) -> Writer {
        Writer { fill, shape: new_shape(), path: Vec::new(), locked: Vec::new(), last: None, tail: None }
    }
}

impl BPlusTree {
    /// [`BPlusTree::expect`] for an insertion.
    pub(super) fn place(&self, writer: &Writer, target: SearchKey<'_>) -> Option<LeafHint> {
        if self.tail_leaf(writer, &target).is_some() {
            // The entry goes behind the greatest one, so the insertion needs no descent.
            return None;
        }
        Some(LeafHint { leaf: self.expect(target)?, shape: writer.shape })
    }

    /// [`BPlusTree::expect_entry`] for an insertion.
    pub(super) fn expect_at(&self, writer: &Writer, place: LeafHint, target: SearchKey<'_>) {
        if place.shape == writer.shape {
            self.expect_entry_in(place.leaf, target);
        }
    }

    /// Adds an entry. `(key, trailer)` must be new.
    pub(super) fn insert(&self, writer: &mut Writer, place: Option<LeafHint>, key: &[u8], trailer: u64, value: &[u8]) {
        let entry = self.arena.push_entry(&mut writer.fill, key, trailer, value);
        let target = SearchKey { key, trailer };
        if let Some(leaf) = self.tail_leaf(writer, &target) {
            let at = self.arena.node(leaf).len();
            self.add(leaf, at, NodeEntry { entry, child: None });
            writer.last = Some((leaf, at));
            writer.tail = Some(Tail { leaf, entry, prefix: key::prefix(key) });
            return;
        }
        let leaf = place.filter(|place| place.shape == writer.shape).map(|place| place.leaf);
        // A split needs the path from the root, so a full leaf is found by a descent.
        let leaf = leaf.filter(|leaf| !self.arena.node(*leaf).is_full()).or_else(|| self.descend(writer, target));
        let Some(leaf) = leaf else { return self.plant(writer, entry) };
        let node = self.arena.node(leaf);
        let at = Goal::Before(target).place(node, &self.arena);
        let behind_all = at == node.len() && node.next().is_none();
        if node.is_full() {
            self.split(writer, leaf, at, entry);
            return;
        }
        self.add(leaf, at, NodeEntry { entry, child: None });
        writer.last = Some((leaf, at));
        if behind_all {
            writer.tail = Some(Tail { leaf, entry, prefix: key::prefix(key) });
        }
    }

    /// The last leaf, if `target` belongs at its end and there is a free slot.
    fn tail_leaf(&self, writer: &Writer, target: &SearchKey<'_>) -> Option<NodeRef> {
        let tail = writer.tail.filter(|tail| key::prefix(target.key) >= tail.prefix)?;
        let greatest = self.arena.entry(tail.entry);
        let behind = key::compare(greatest.key, greatest.trailer, target.key, target.trailer) == cmp::Ordering::Less;
        (behind && !self.arena.node(tail.leaf).is_full()).then_some(tail.leaf)
    }

    /// The leaf for `target`. Leaves the path from the root in `writer.path`.
    fn descend(&self, writer: &mut Writer, target: SearchKey<'_>) -> Option<NodeRef> {
        writer.path.clear();
        let mut at = self.root.load()?;
        loop {
            let node = self.arena.node(at);
            let Some(children) = node.children else { return Some(at) };
            let slot = Goal::AtOrAfter(target).child(node, &self.arena);
            writer.path.push((at, slot));
            at = children[slot].load().expect("slots in use have children");
            self.arena.prefetch_node(at);
        }
    }

    /// Makes the first entry the root.
    fn plant(&self, writer: &mut Writer, entry: EntryRef) {
        let root = self.arena.push_leaf(&mut writer.fill, Leaf::new(false, entry, 0, None));
        self.arena.node(root).insert(&self.arena, 0, NodeEntry { entry, child: None });
        self.root.store(Some(root));
    }

    fn add(&self, node: NodeRef, at: usize, slot: NodeEntry) {
        let node = self.arena.node(node);
        node.lock();
        node.insert(&self.arena, at, slot);
        node.unlock();
    }

    /// Adds an entry to a full leaf: splits the leaf, and its full ancestors.
    fn split(&self, writer: &mut Writer, leaf: NodeRef, at: usize, entry: EntryRef) {
        // If keys come in ascending order, only the new entry goes to the right node, so that nodes stay full.
        let ascending = writer.last == at.checked_sub(1).map(|before| (leaf, before));
        writer.shape = new_shape();
        self.lock_full(writer, leaf);
        let (mut node, mut at, mut slot) = (leaf, at, NodeEntry { entry, child: None });
        (writer.last, writer.tail) = (None, None);
        loop {
            if !self.arena.node(node).is_full() {
                self.arena.node(node).insert(&self.arena, at, slot);
                break;
            }
            let (right, into_right) = self.divide(writer, node, at, slot, ascending);
            writer.last.get_or_insert(into_right.map_or((node, at), |at| (right, at)));
            slot = NodeEntry { entry: self.arena.node(right).entry(0), child: Some(right) };
            let Some((parent, taken)) = writer.path.pop() else {
                self.grow(writer, node, slot);
                break;
            };
            (node, at) = (parent, taken + 1);
        }
        writer.locked.drain(..).for_each(|node| self.arena.node(node).unlock());
    }

    /// Locks all nodes that an insertion into `leaf` changes: the leaf and its ancestors up to the first with a free slot. Readers rely on
    /// all of them being locked before any is changed.
    fn lock_full(&self, writer: &mut Writer, leaf: NodeRef) {
        for at in std::iter::once(leaf).chain(writer.path.iter().rev().map(|&(node, _)| node)) {
            let node = self.arena.node(at);
            node.lock();
            writer.locked.push(at);
            if !node.is_full() {
                break;
            }
        }
    }

    /// Splits a full node and adds a slot. Returns the new right node, and the slot's index if the slot went there.
    fn divide(&self, writer: &mut Writer, left: NodeRef, at: usize, slot: NodeEntry, ascending: bool) -> (NodeRef, Option<usize>) {
        let node = self.arena.node(left);
        let right = match node.children {
            Some(_) => self.arena.push_inner(&mut writer.fill, Inner::new(slot.entry, node.skip())),
            None => self.arena.push_leaf(&mut writer.fill, Leaf::new(false, slot.entry, node.skip(), node.next())),
        };
        let sibling = self.arena.node(right);
        let cut = if ascending && at == WIDTH { WIDTH } else { WIDTH / 2 };
        node.move_tail(cut, sibling, right);
        let into_right = (at > cut || at == WIDTH).then(|| at - cut);
        match into_right {
            Some(at) => sibling.insert(&self.arena, at, slot),
            None => node.insert(&self.arena, at, slot),
        }
        let (low, high) = self.bounds(&writer.path);
        let separator = sibling.entry(0);
        self.narrow(node, low, Some(separator));
        self.narrow(sibling, Some(separator), high);
        (right, into_right)
    }

    /// Adds a new root above the old root, `left`, and the node that was split off it.
    fn grow(&self, writer: &mut Writer, left: NodeRef, right: NodeEntry) {
        let entry = self.arena.node(left).entry(0);
        let root = self.arena.push_inner(&mut writer.fill, Inner::new(entry, 0));
        let node = self.arena.node(root);
        node.insert(&self.arena, 0, NodeEntry { entry, child: Some(left) });
        node.insert(&self.arena, 1, right);
        self.root.store(Some(root));
        self.height.store(self.height.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The nearest separators to the left and to the right of the node below the end of `path`.
    fn bounds(&self, path: &[(NodeRef, usize)]) -> (Option<EntryRef>, Option<EntryRef>) {
        let up = || path.iter().rev().map(|&(node, slot)| (self.arena.node(node), slot));
        let low = up().find(|&(_, slot)| slot > 0).map(|(node, slot)| node.entry(slot));
        let high = up().find(|(node, slot)| slot + 1 < node.len()).map(|(node, slot)| node.entry(slot + 1));
        (low, high)
    }

    fn narrow(&self, node: Node<'_>, low: Option<EntryRef>, high: Option<EntryRef>) {
        if let (Some(low), Some(high)) = (low, high) {
            let (low, high) = (self.arena.entry(low).key, self.arena.entry(high).key);
            node.narrow(&self.arena, low.iter().zip(high).take_while(|(low, high)| low == high).count());
        }
    }
}
