//! A position in a keyspace of fjall, whose iterators begin at a bound and cannot be moved to another one.

use fjall::{Iter, Keyspace, UserKey, UserValue};
use sinter_lab::system::{Outcome, Scan};
use std::ops::Bound;

/// Walks a keyspace.
pub struct FjallScan<'a> {
    keyspace: &'a Keyspace,
    /// An iterator whose last entry is the one below, and whether it gives ascending keys.
    walk: Option<(Iter, bool)>,
    entry: Option<(UserKey, UserValue)>,
}

impl<'a> FjallScan<'a> {
    /// Nowhere yet.
    pub fn new(keyspace: &'a Keyspace) -> Self {
        FjallScan { keyspace, walk: None, entry: None }
    }

    /// To the first entry of an iterator, seen from the end where it begins.
    #[inline]
    fn begin(&mut self, iter: Iter, ascending: bool) -> Outcome<()> {
        self.walk = Some((iter, ascending));
        self.step()
    }

    #[inline]
    fn step(&mut self) -> Outcome<()> {
        let next = self.walk.as_mut().and_then(|(iter, ascending)| if *ascending { iter.next() } else { iter.next_back() });
        self.entry = next.map(|guard| guard.into_inner()).transpose()?;
        Ok(())
    }

    /// One step; where the direction changes, with a new iterator that begins beside the entry.
    #[inline]
    fn move_on(&mut self, ascending: bool) -> Outcome<()> {
        if self.walk.as_ref().is_some_and(|walk| walk.1 == ascending) {
            return self.step();
        }
        let Some((key, _)) = self.entry.take() else { return Ok(()) };
        let key: &[u8] = &key;
        let range = match ascending {
            true => (Bound::Excluded(key), Bound::Unbounded),
            false => (Bound::Unbounded, Bound::Excluded(key)),
        };
        self.begin(self.keyspace.range::<&[u8], _>(range), ascending)
    }
}

impl Scan for FjallScan<'_> {
    fn seek_first(&mut self) -> Outcome<()> {
        self.begin(self.keyspace.iter(), true)
    }

    fn seek_last(&mut self) -> Outcome<()> {
        self.begin(self.keyspace.iter(), false)
    }

    #[inline]
    fn seek(&mut self, key: &[u8]) -> Outcome<()> {
        self.begin(self.keyspace.range::<&[u8], _>(key..), true)
    }

    #[inline]
    fn advance(&mut self) -> Outcome<()> {
        self.move_on(true)
    }

    #[inline]
    fn retreat(&mut self) -> Outcome<()> {
        self.move_on(false)
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.entry.as_ref().map(|(key, value)| (&**key, &**value))
    }
}
