//! The interface of sorted sources: memtables, tables, runs and their merge all are cursors. Used with static dispatch: no virtual call per
//! entry.

use crate::error::Result;
use crate::key::Seq;

/// A position among entries ordered by (user key ascending, trailer descending). New cursors stand nowhere (`valid()` is false) until
/// the first seek. After an error the cursor stands nowhere.
pub trait Cursor {
    /// Moves to the first entry.
    fn seek_first(&mut self) -> Result<()>;
    /// Moves to the last entry.
    fn seek_last(&mut self) -> Result<()>;
    /// Moves to the first entry at or after `(key, trailer)`; `key::upper(snapshot)` finds the newest visible version.
    fn seek(&mut self, key: &[u8], trailer: u64) -> Result<()>;
    /// To the last entry whose user key is strictly smaller than `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;
    /// To the next entry. Only on a valid cursor.
    fn next(&mut self) -> Result<()>;
    /// To the previous entry. Only on a valid cursor.
    fn prev(&mut self) -> Result<()>;
    /// Seeks forward to `to` if all entries on the way have sequence numbers below `newest`, as far as the cursor knows without reading
    /// them. Returns whether it moved. Only on a valid cursor before `to`.
    fn pass(&mut self, _to: &[u8], _newest: Seq) -> Result<bool> {
        Ok(false)
    }
    /// Stands on an entry.
    fn valid(&self) -> bool;
    /// The user key. Only on a valid cursor.
    fn key(&self) -> &[u8];
    /// Sequence number and kind. Only on a valid cursor.
    fn trailer(&self) -> u64;
    /// The value. Only on a valid cursor.
    fn value(&self) -> &[u8];
}
