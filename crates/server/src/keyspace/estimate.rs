//! Estimates of the bytes that a key takes.

use super::Keyspace;
use super::entry::Kind;
use super::error::Result;
use super::layout::{self, Direction, FamilyKind};
use std::ops::ControlFlow;

impl Keyspace {
    /// Bytes of a key and its value before compression: its entry, plus for each element the mean of `samples` elements. `None`: there is
    /// no such key.
    pub fn estimate(&mut self, db: usize, key: &[u8], samples: u64) -> Result<Option<u64>> {
        let Some(head) = self.find(db, key)? else { return Ok(None) };
        self.complete()?;
        let entry = if head.is_in_pieces() { self.string_at } else { self.entry.len() };
        let own = (layout::entry_key(self.seed, self.counters.places.of(db), key).len() + entry) as u64;
        if head.id == 0 {
            return Ok(Some(own));
        }
        let (mut seen, mut bytes) = (0u64, 0u64);
        self.turn.walk(FamilyKind::Elements, &layout::elements(head.id), Direction::Forward, &mut |place, value| {
            if seen >= samples {
                return ControlFlow::Break(());
            }
            seen += 1;
            bytes += (place.len() + value.len()) as u64;
            ControlFlow::Continue(())
        })?;
        let elements = match head.kind {
            // All elements were seen.
            _ if seen < samples => seen,
            // Members are stored twice: by name and by score.
            Kind::SortedSet => head.count.saturating_mul(2),
            Kind::String => head.count.div_ceil(layout::PIECE as u64),
            // A deadline of a field has two engine keys.
            _ => head.count.saturating_add(head.fields.count.saturating_mul(2)),
        };
        let all = u128::from(bytes) * u128::from(elements.max(seen)) / u128::from(seen.max(1));
        Ok(Some(own.saturating_add(u64::try_from(all).unwrap_or(u64::MAX))))
    }
}
