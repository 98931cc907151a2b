//! Elements that are found by their name: members of sets, fields of hashes. Members of sorted sets use the same entries for their scores.

use super::entry::Head;
use super::error::Result;
use super::layout::{self, Room};
use super::turn::{Direction, Visit};
use super::{Edit, Keyspace};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Up to so many elements, a random one is picked by counting, so that all are equally likely.
const COUNTED: u64 = 512;
/// Above that, one is picked among so many behind a random hash, which evens out that gaps between hashes differ in size.
const PICK_AMONG: u64 = 16;

/// A member and its value.
pub type Member = (Vec<u8>, Vec<u8>);

impl Keyspace {
    /// The value of a field; `None`: there is no such member.
    pub fn member(&self, head: &Head, member: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        Ok(self.member_into(head, member, &mut out)?.then_some(out))
    }

    /// The value of a field into `out`; false: there is no such member.
    pub fn member_into(&self, head: &Head, member: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        layout::check_member(member)?;
        self.turn.get(Room::Elements, &layout::member_key(head.id, self.seed, member), out)
    }

    /// The collection has this member.
    pub fn has_member(&self, head: &Head, member: &[u8]) -> Result<bool> {
        self.member_into(head, member, &mut Vec::new())
    }

    /// Adds a member without a value; false: it was there.
    pub fn add_member(&mut self, edit: &mut Edit, member: &[u8]) -> Result<bool> {
        if self.has_member(&edit.head, member)? {
            return Ok(false);
        }
        self.set_member(edit, member, b"", true);
        Ok(true)
    }

    /// Sets a field; false: it was there and has another value now.
    pub fn set_field(&mut self, edit: &mut Edit, field: &[u8], value: &[u8]) -> Result<bool> {
        let is_new = !self.has_member(&edit.head, field)?;
        self.set_member(edit, field, value, is_new);
        Ok(is_new)
    }

    pub(super) fn set_member(&mut self, edit: &mut Edit, member: &[u8], value: &[u8], is_new: bool) {
        self.turn.put(Room::Elements, layout::member_key(edit.head.id, self.seed, member), value);
        edit.head.count += u64::from(is_new);
    }

    /// Removes a member or field; false: there was none.
    pub fn remove_member(&mut self, edit: &mut Edit, member: &[u8]) -> Result<bool> {
        if !self.has_member(&edit.head, member)? {
            return Ok(false);
        }
        self.delete_member(edit, member);
        Ok(true)
    }

    pub(super) fn delete_member(&mut self, edit: &mut Edit, member: &[u8]) {
        self.turn.delete(Room::Elements, layout::member_key(edit.head.id, self.seed, member));
        edit.head.count = edit.head.count.saturating_sub(1);
    }

    /// Shows `visit` all members and their values, in no order, until it breaks.
    pub fn walk_members(&self, head: &Head, visit: &mut Visit) -> Result<()> {
        self.turn.walk(
            Room::Elements,
            &layout::members(head.id, 0),
            Direction::Forward,
            &mut |place, value| match layout::split_member_key(place) {
                Some((_, member)) => visit(member, value),
                None => ControlFlow::Continue(()),
            },
        )
    }

    /// All members and their values.
    pub fn members(&self, head: &Head) -> Result<Vec<Member>> {
        let mut all = Vec::new();
        self.walk_members(head, &mut |member, value| {
            all.push((member.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    /// Some member and its value.
    pub fn random_member(&mut self, head: &Head) -> Result<Option<Member>> {
        if head.count == 0 {
            return Ok(None);
        }
        if head.count <= COUNTED {
            let skip = self.random_below(head.count);
            return self.member_behind(head, 0, skip);
        }
        let from = self.random() & layout::HASH_MAX;
        let skip = self.random_below(PICK_AMONG);
        self.member_behind(head, from, skip)
    }

    /// The member that comes so many after the first one from a hash on; behind the last one comes the first.
    fn member_behind(&self, head: &Head, from: u64, skip: u64) -> Result<Option<Member>> {
        let mut found = None;
        let mut passed = 0;
        for from in [from, 0] {
            self.turn.walk(Room::Elements, &layout::members(head.id, from), Direction::Forward, &mut |place, value| {
                if passed < skip {
                    passed += 1;
                    return ControlFlow::Continue(());
                }
                found = layout::split_member_key(place).map(|(_, member)| (member.to_vec(), value.to_vec()));
                ControlFlow::Break(())
            })?;
            if found.is_some() {
                break;
            }
        }
        Ok(found)
    }

    /// So many different members, or all, with their values, in random order.
    pub fn random_members(&mut self, head: &Head, most: u64) -> Result<Vec<Member>> {
        let most = most.min(head.count);
        if head.count > COUNTED && most < head.count / 4 {
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
        let mut all = self.members(head)?;
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
