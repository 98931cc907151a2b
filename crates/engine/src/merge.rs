//! K-way merge of cursors. STUB

use crate::cursor::Cursor;
use crate::error::Result;

/// Several cursors as one. Sources are given newest first; entries come in (key asc, trailer desc) order; equal (key, trailer) from two
/// sources come in source order.
pub struct Merge<C> {
    _sources: Vec<C>,
}

impl<C: Cursor> Merge<C> {
    /// Merges `sources`, newest first.
    pub fn new(_sources: Vec<C>) -> Self {
        unimplemented!()
    }
}

impl<C: Cursor> Cursor for Merge<C> {
    fn seek_first(&mut self) -> Result<()> {
        unimplemented!()
    }
    fn seek_last(&mut self) -> Result<()> {
        unimplemented!()
    }
    fn seek(&mut self, _key: &[u8], _trailer: u64) -> Result<()> {
        unimplemented!()
    }
    fn seek_before(&mut self, _key: &[u8]) -> Result<()> {
        unimplemented!()
    }
    fn next(&mut self) -> Result<()> {
        unimplemented!()
    }
    fn prev(&mut self) -> Result<()> {
        unimplemented!()
    }
    fn valid(&self) -> bool {
        unimplemented!()
    }
    fn key(&self) -> &[u8] {
        unimplemented!()
    }
    fn trailer(&self) -> u64 {
        unimplemented!()
    }
    fn value(&self) -> &[u8] {
        unimplemented!()
    }
}
