//! Elements that are found by name: members of sets, fields of hashes. Members of sorted sets use these entries for their scores.
//!
//! Functions here, in `lists` and in `sorted` first handle inline collections (`inline`); the rest of each is about engine keys.

use super::collection::Collection;
use super::error::Result;
use super::layout::{self, Bounds, Direction, FamilyKind};
use super::ranks::Order;
use super::scans::DEAD_MIN;
use super::turn::Visit;
use super::{Edit, Keyspace};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Up to so many elements, a random one is picked by counting, so that all are equally likely.
const COUNTED: u64 = 512;
/// In larger collections, a random one is picked among so many behind a random hash, to even out the different sizes of gaps between
/// hashes.
const PICK_AMONG: u64 = 16;
/// Number of random hashes that are tried; if all fail, the element is picked by counting, too.
const LOOKS: u32 = 100;

/// A member and its value.
pub type Member = (Vec<u8>, Vec<u8>);

impl Keyspace {
    /// The value of a field; `None`: there is no such member.
    pub fn member(&self, head: &Collection, member: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        Ok(self.member_into(head, member, &mut out)?.then_some(out))
    }

    /// Reads the value of a field into `out`; false: there is no such member.
    pub fn member_into(&self, head: &Collection, member: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        layout::check_member(member)?;
        if let Some(inline) = &head.inline {
            let found = inline.find(member)?;
            out.clear();
            out.extend_from_slice(found.map_or(b"", |element| element.value));
            return Ok(found.is_some());
        }
        let is_there = self.turn.get(FamilyKind::Elements, &layout::member_key(head.id, self.seed, member), out)?;
        Ok(is_there && !self.is_hidden(head, member)?)
    }

    /// Whether the collection has this member.
    pub fn has_member(&self, head: &Collection, member: &[u8]) -> Result<bool> {
        self.member_into(head, member, &mut Vec::new())
    }

    /// Adds a member without a value; false: it was there.
    pub fn add_member(&mut self, edit: &mut Edit, member: &[u8]) -> Result<bool> {
        layout::check_member(member)?;
        if let Some(is_new) = self.put_inline(edit, member, b"")? {
            return Ok(is_new);
        }
        if self.has_member(&edit.head, member)? {
            return Ok(false);
        }
        self.set_member(edit, member, b"", None);
        Ok(true)
    }

    /// Sets a field and removes its deadline; false if the field existed, and now has another value.
    pub fn set_field(&mut self, edit: &mut Edit, field: &[u8], value: &[u8]) -> Result<bool> {
        layout::check_member(field)?;
        if edit.head.has_field_deadlines() {
            self.set_field_deadline(edit, field, None)?;
        }
        self.change_field(edit, field, value)
    }

    /// Sets a field and keeps its deadline; false if the field existed, and now has another value.
    pub fn change_field(&mut self, edit: &mut Edit, field: &[u8], value: &[u8]) -> Result<bool> {
        layout::check_member(field)?;
        if let Some(is_new) = self.put_inline(edit, field, value)? {
            return Ok(is_new);
        }
        let old = self.member(&edit.head, field)?.map(|old| old.len());
        self.set_member(edit, field, value, old);
        Ok(old.is_none())
    }

    /// Writes a member of a collection that is not inline; `old`: bytes of its old value, if there is one.
    pub(super) fn set_member(&mut self, edit: &mut Edit, member: &[u8], value: &[u8], old: Option<usize>) {
        let hash = layout::hash(self.seed, member);
        self.turn.put(FamilyKind::Elements, layout::hashed_key(edit.head.id, hash, member), value);
        if old.is_none() {
            self.ranks.added(edit.head.id, Order::Hashes, (hash, member));
            edit.head.count += 1;
        }
        edit.head.resize(value.len() + old.map_or(member.len(), |_| 0), old.unwrap_or(0));
    }

    /// Removes a member or field; false: there was none.
    pub fn remove_member(&mut self, edit: &mut Edit, member: &[u8]) -> Result<bool> {
        layout::check_member(member)?;
        let has_deadlines = edit.head.has_field_deadlines();
        if let Some(inline) = &mut edit.head.inline {
            let deadline = if has_deadlines { inline.deadline(member)?.unwrap_or(0) } else { 0 };
            let is_gone = inline.remove(member)?;
            edit.head.count = edit.head.count.saturating_sub(u64::from(is_gone));
            self.count_field_deadline(edit, deadline, 0)?;
            return Ok(is_gone);
        }
        let Some(value) = self.member(&edit.head, member)? else { return Ok(false) };
        if has_deadlines {
            self.set_field_deadline(edit, member, None)?;
        }
        self.delete_member(edit, member, value.len());
        Ok(true)
    }

    /// Removes a member with a value of so many bytes from a collection that is not inline.
    pub(super) fn delete_member(&mut self, edit: &mut Edit, member: &[u8], value: usize) {
        let hash = layout::hash(self.seed, member);
        self.turn.delete(FamilyKind::Elements, layout::hashed_key(edit.head.id, hash, member));
        self.ranks.removed(edit.head.id, Order::Hashes, (hash, member));
        edit.head.count = edit.head.count.saturating_sub(1);
        edit.head.resize(0, member.len() + value);
    }

    /// Shows `visit` all members and their values until it breaks, in no order unless the collection is inline.
    pub fn walk_members(&self, head: &Collection, visit: &mut Visit) -> Result<()> {
        if let Some(inline) = &head.inline {
            return inline.walk(visit);
        }
        let mut damage = Ok(());
        self.turn.walk(FamilyKind::Elements, &layout::members(head.id, 0), Direction::Forward, &mut |place, value| {
            let Some((_, member)) = layout::split_member_key(place) else { return ControlFlow::Continue(()) };
            match self.is_hidden(head, member) {
                Ok(false) => visit(member, value),
                Ok(true) => ControlFlow::Continue(()),
                Err(error) => {
                    damage = Err(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        damage
    }

    /// All members and their values.
    pub fn members(&self, head: &Collection) -> Result<Vec<Member>> {
        let mut all = Vec::new();
        self.walk_members(head, &mut |member, value| {
            all.push((member.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    /// Like `members`, for a collection that has few: behind many removed elements, it looks up each member by its position instead.
    fn few_members(&mut self, head: &Collection) -> Result<Vec<Member>> {
        let mut all = Vec::new();
        let whole = layout::members(head.id, 0);
        let stop = self.turn.walk_some(FamilyKind::Elements, &whole, Direction::Forward, DEAD_MIN, &mut |place, value| {
            all.extend(layout::split_member_key(place).map(|(_, member)| (member.to_vec(), value.to_vec())));
            ControlFlow::Continue(())
        })?;
        if stop.is_some() {
            all.clear();
            for position in 0..head.count {
                all.extend(self.member_at(head, position)?);
            }
        }
        Ok(all)
    }

    /// A random member and its value.
    pub fn random_member(&mut self, head: &Collection) -> Result<Option<Member>> {
        let mut found = None;
        self.pick_members(head, 1, &mut |member| {
            found = Some(member);
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Shows `visit` random members, `times` of them, until it breaks. The same one may come again.
    pub fn pick_members(&mut self, head: &Collection, times: u64, visit: &mut dyn FnMut(Member) -> ControlFlow<()>) -> Result<()> {
        // Once a search among many hidden fields was in vain: all fields but these.
        let mut all: Option<Vec<Member>> = None;
        for _ in 0..times {
            let mut found = if all.is_none() { self.shown_member(head)? } else { None };
            if found.is_none() && self.hides_fields(head) {
                let all = match &mut all {
                    Some(all) => all,
                    None => all.insert(self.members(head)?),
                };
                let position = self.random_below(all.len().max(1) as u64);
                found = usize::try_from(position).ok().and_then(|position| all.get(position)).cloned();
            }
            let Some(member) = found else { break };
            if visit(member).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// A random member that is not hidden. `None`: there is no member, or many looks have met hidden fields alone.
    fn shown_member(&mut self, head: &Collection) -> Result<Option<Member>> {
        for _ in 0..LOOKS {
            let Some(found) = self.any_member(head)? else { return Ok(None) };
            if !self.is_hidden(head, &found.0)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// A random member, which may be hidden.
    fn any_member(&mut self, head: &Collection) -> Result<Option<Member>> {
        if head.count == 0 {
            return Ok(None);
        }
        if head.inline.is_none() && head.count > COUNTED && !self.ranks.has(head.id, Order::Hashes) {
            // Not behind one hash at any distance: the member behind the largest gap would be taken most often, and each removal would make
            // that gap larger until it covers nearly all hashes.
            for _ in 0..LOOKS {
                if let Some(found) = self.look(head)? {
                    return Ok(Some(found));
                }
            }
        }
        let position = self.random_below(head.count);
        match &head.inline {
            Some(inline) => Ok(inline.at(position)?.map(|element| (element.name.to_vec(), element.value.to_vec()))),
            None => self.member_at(head, position),
        }
    }

    /// A member behind a random hash, unless many removed ones come first.
    fn look(&mut self, head: &Collection) -> Result<Option<Member>> {
        let mut left = 1 + self.random_below(PICK_AMONG);
        let (mut found, mut last) = (None, Vec::new());
        // Behind the last member comes the first.
        for from in [self.random() & layout::HASH_MAX, 0] {
            let bounds = layout::members(head.id, from);
            let stop = self.turn.walk_some(FamilyKind::Elements, &bounds, Direction::Forward, DEAD_MIN, &mut |place, value| {
                left -= 1;
                if left > 0 {
                    last.clear();
                    last.extend_from_slice(place);
                    return ControlFlow::Continue(());
                }
                found = layout::split_member_key(place).map(|(_, member)| (member.to_vec(), value.to_vec()));
                ControlFlow::Break(())
            })?;
            if left == 0 || stop.is_some() {
                break;
            }
        }
        if let (None, Some((_, member))) = (&found, layout::split_member_key(&last)) {
            found = self.member(head, member)?.map(|value| (member.to_vec(), value));
        }
        Ok(found)
    }

    /// The member at a position. Many removed members on the way are passed over once: after that, an outline says where members are.
    fn member_at(&mut self, head: &Collection, position: u64) -> Result<Option<Member>> {
        if !self.ranks.has(head.id, Order::Hashes) {
            let (found, stop) = self.nth(&layout::members(head.id, 0), position, DEAD_MIN)?;
            if stop.is_none() {
                return Ok(found);
            }
        }
        let piece = self.piece(head, Order::Hashes, |outline| outline.at(position))?;
        let (found, _) = self.nth(&piece.bounds, position.saturating_sub(piece.before), usize::MAX)?;
        Ok(found)
    }

    /// The member at a position within bounds, or else the place at which the walk was given up because of removed elements.
    pub(super) fn nth(&self, bounds: &Bounds, skip: u64, patience: usize) -> Result<(Option<Member>, Option<Vec<u8>>)> {
        let (mut found, mut left) = (None, skip);
        let stop = self.turn.walk_some(FamilyKind::Elements, bounds, Direction::Forward, patience, &mut |place, value| {
            if left > 0 {
                left -= 1;
                return ControlFlow::Continue(());
            }
            found = layout::split_member_key(place).map(|(_, member)| (member.to_vec(), value.to_vec()));
            ControlFlow::Break(())
        })?;
        Ok((found, stop))
    }

    /// At most `most` different members with their values, in random order; if that is all of them, in their own order.
    pub fn random_members(&mut self, head: &Collection, most: u64) -> Result<Vec<Member>> {
        let hides = head.inline.is_none() && self.hides_fields(head);
        let shown = if hides { self.without_hidden(head.clone())?.count } else { head.count };
        let most = most.min(shown);
        if shown > COUNTED && most < shown / 4 && shown > head.count / 4 {
            let mut names = HashSet::new();
            let mut picked = Vec::new();
            while (picked.len() as u64) < most {
                let Some((member, value)) = self.random_member(head)? else { break };
                if names.insert(member.clone()) {
                    picked.push((member, value));
                }
            }
            return Ok(picked);
        }
        if most == 1 {
            return Ok(self.random_member(head)?.into_iter().collect());
        }
        let is_few = !hides && head.inline.is_none() && head.count <= COUNTED;
        let mut all = if is_few { self.few_members(head)? } else { self.members(head)? };
        if most == shown {
            return Ok(all);
        }
        let wanted = usize::try_from(most).unwrap_or(usize::MAX).min(all.len());
        for n in 0..wanted {
            let rest = (all.len() - n) as u64;
            let other = n + usize::try_from(self.random_below(rest)).unwrap_or(0);
            all.swap(n, other);
        }
        all.truncate(wanted);
        Ok(all)
    }
}
