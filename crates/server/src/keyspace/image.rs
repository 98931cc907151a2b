//! Loading whole values, and reading whole keyspaces at one moment.
//!
//! An [`Image`] is a keyspace over a snapshot of the engine: it is read-only, and any thread may read it while the original keyspace goes
//! on. It must be dropped before the original is closed.

use super::entry::{Head, Kind};
use super::error::Result;
use super::layout::{self, Direction, FamilyKind};
use super::{Cleaner, Edit, Keyspace};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Callback of a walk over keys, called for each with its name, head, and the value of a string that does not lie in pieces, or the
/// elements of an inline collection ([`Collection::found`](super::Collection::found)).
type VisitKey<'a> = dyn FnMut(&[u8], &Head, &[u8]) -> ControlFlow<()> + 'a;

/// Read-only view of everything that a keyspace held at one moment.
#[derive(Debug)]
pub struct Image {
    keyspace: Keyspace,
}

impl Image {
    /// The keyspace, for reading.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Includes keys whose deadline has passed and that were not removed, for readers that remove them by name later.
    pub fn with_ended(mut self) -> Image {
        self.keyspace.keep_ended(true);
        self
    }
}

impl Keyspace {
    /// Takes an image of everything committed so far.
    pub fn image(&self) -> Image {
        let mut keyspace = Keyspace::new(self.turn.at(self.db().snapshot()), Arc::new(Cleaner::default()), self.random);
        keyspace.seed = self.seed;
        keyspace.now = self.now;
        keyspace.counters = self.committed.clone();
        keyspace.committed = self.committed.clone();
        Image { keyspace }
    }

    /// Shows `visit` all keys of a database whose deadline has not passed, in no order, until it breaks.
    pub fn walk_keys(&self, db: usize, visit: &mut VisitKey) -> Result<()> {
        let mut damage = Ok(());
        self.turn.walk(FamilyKind::Keys, &layout::entries(self.counters.places.of(db), 0), Direction::Forward, &mut |place, entry| {
            let Some((_, key)) = layout::split_entry_key(place) else { return ControlFlow::Continue(()) };
            match Head::decode(entry) {
                Ok((head, _)) if self.has_ended(&head) => ControlFlow::Continue(()),
                Ok((head, string_at)) => visit(key, &head, entry.get(string_at..).unwrap_or_default()),
                Err(error) => {
                    damage = Err(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        damage
    }

    /// Begins a new collection, which replaces the value of the key when the edit is finished.
    pub fn replace<'k>(&mut self, db: usize, key: &'k [u8], kind: Kind, deadline: Option<u64>) -> Result<Edit<'k>> {
        let old = self.find(db, key)?;
        let mut head = self.begin(kind)?;
        head.deadline = deadline;
        Ok(Edit { db, key, old, head })
    }

    /// Writes the collection as it is so far: it can be committed, and the edit goes on.
    pub fn keep(&mut self, edit: &mut Edit) {
        self.finish(edit);
        edit.head.size = edit.head.with_body(edit.head.parts().0).size;
        edit.old = Some(*edit.head);
        if let Some(inline) = &mut edit.head.inline {
            inline.was_written();
        }
    }

    /// Withdraws all writes of this turn to a collection that [`Keyspace::replace`] has begun: the key keeps its old value.
    pub fn abandon(&mut self, edit: &Edit) {
        if edit.head.id != 0 {
            self.turn.forget(FamilyKind::Elements, &layout::elements(edit.head.id));
            self.ranks.forget(edit.head.id);
        }
    }
}
