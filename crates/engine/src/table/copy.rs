//! Writes a table again under another number, as it is: a move to another medium needs no merge. Checksums are bound to number and offset,
//! so each frame is verified under the old number and sealed again under the new one; nothing is decompressed. The copy is, byte for byte,
//! what a builder would have written under that number.

use super::footer::{Footer, Section, fold};
use super::reader::{Table, read_section};
use crate::checksum::Salt;
use crate::error::Result;
use crate::manifest::TableInfo;
use sinter_storage::store::{Appender, FileId};

/// A copy on its way.
struct Copying<'a> {
    table: &'a Table,
    salt: Salt,
    out: Box<dyn Appender>,
    /// Digests of the frames as read, and as written.
    digests: (u64, u64),
}

impl Copying<'_> {
    /// Verifies the frame that was read from `offset` and seals it again.
    fn seal(&mut self, offset: u64, frame: &mut [u8]) -> Result<()> {
        let verified = self.table.frames.verify(offset, frame)?;
        let Some((body, stored)) = frame.split_last_chunk_mut::<8>() else {
            return Err(self.table.frames.corrupt(offset, "a block is shorter than its trailer"));
        };
        let checksum = self.salt.checksum(offset, body);
        *stored = checksum.to_le_bytes();
        self.digests = (fold(self.digests.0, verified.checksum), fold(self.digests.1, checksum));
        Ok(())
    }

    /// The data blocks; false if told to stop.
    fn blocks(&mut self, goes_on: &dyn Fn() -> bool) -> Result<bool> {
        let table = self.table;
        table.pieces(goes_on, &mut |blocks, start, piece| {
            for (offset, length) in blocks {
                let at = (offset - start) as usize;
                self.seal(*offset, &mut piece[at..at + *length as usize])?;
            }
            Ok(self.out.append(piece)?)
        })
    }

    fn sections(&mut self) -> Result<()> {
        use Section::{Dictionary, Filter, Index, Properties, RangeTombstones};
        for section in [Filter, RangeTombstones, Dictionary, Index, Properties] {
            if let Some(range) = self.table.footer.section(section) {
                let mut frame = read_section(&self.table.frames, &self.table.footer, section)?;
                self.seal(range.start, &mut frame)?;
                self.out.append(&frame)?;
            }
        }
        Ok(())
    }
}

impl Table {
    /// Writes it again as table `to` of the same database, into an empty file, which is sealed (durable; its name is not yet). What the
    /// manifest is to say of the copy; `None` if `goes_on` said no.
    ///
    /// # Errors
    /// `Corrupt` for any damage of this table, and then the copy is not whole.
    pub fn copy(&self, to: FileId, out: Box<dyn Appender>, goes_on: &dyn Fn() -> bool) -> Result<Option<TableInfo>> {
        let mut copy = Copying { table: self, salt: Salt::new(&self.footer.db, to), out, digests: (0, 0) };
        if !copy.blocks(goes_on)? {
            return Ok(None);
        }
        copy.sections()?;
        let Copying { salt, mut out, digests, .. } = copy;
        let end = out.len();
        if digests.0 != self.footer.digest {
            return Err(self.frames.corrupt(end, "the blocks are not the ones the footer was written for"));
        }
        let footer = Footer { number: to.number, digest: digests.1, ..self.footer.clone() };
        let (bytes, identity) = footer.encode(salt, end);
        out.append(&bytes)?;
        out.seal()?;
        Ok(Some(TableInfo { number: to.number, identity, ..TableInfo::clone(self.info()) }))
    }
}
