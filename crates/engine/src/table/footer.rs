//! The footer: the last bytes of a table file, of fixed length.
//!
//! ```text
//! 0    8 bytes  magic "SinterTb"
//! 8    u32      format version, 2
//! 12   16 bytes database id
//! 28   u64      file number
//! 36   u64      length of the data blocks, which start the file
//! 44   u64 x 5  lengths of filter, range tombstones, dictionary, index, properties, which follow one another; 0: none
//! 84   u64      digest: the checksums of all blocks, folded in file order
//! 92   u64      checksum of bytes 0 to 91, at this offset
//! ```
//!
//! Everything in the file is in a block or here, and the digest ties the blocks to the footer: the footer's checksum, which the manifest
//! keeps as the table's identity, stands for every byte of the file.

use crate::checksum::{DbId, Salt};
use crate::coding::Decoder;
use std::ops::Range;

/// The first bytes of a footer.
const MAGIC: &[u8; 8] = b"SinterTb";
/// The format that this code writes and reads.
pub const FORMAT_VERSION: u32 = 2;
/// Length of a footer, bytes.
pub(super) const FOOTER_BYTES: usize = 100;

/// The parts after the data blocks, in file order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Section {
    Filter,
    RangeTombstones,
    Dictionary,
    Index,
    Properties,
}

/// Positions of all parts of a table file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Footer {
    pub db: DbId,
    pub number: u64,
    /// The data blocks take bytes 0 to here.
    pub data_end: u64,
    /// Length of each section.
    pub sections: [u64; 5],
    pub digest: u64,
}

/// Adds the checksum of the next block to a digest (multiply and rotate, as FxHash: every bit counts, order counts).
pub(super) fn fold(digest: u64, checksum: u64) -> u64 {
    (digest.rotate_left(5) ^ checksum).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Footer {
    /// Position of a section; `None` if the table has none.
    pub fn section(&self, section: Section) -> Option<Range<u64>> {
        let start = self.data_end + self.sections[..section as usize].iter().sum::<u64>();
        let length = self.sections[section as usize];
        (length > 0).then_some(start..start + length)
    }

    /// The database that the bytes of a footer name, before anything is verified.
    pub fn database(bytes: &[u8]) -> Option<DbId> {
        DbId::decode(&mut Decoder::new(bytes.get(MAGIC.len() + 4..)?))
    }

    /// The format, for this offset of the file, and its checksum.
    pub fn encode(&self, salt: Salt, offset: u64) -> (Vec<u8>, u64) {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&self.db.0);
        for number in [self.number, self.data_end].into_iter().chain(self.sections).chain([self.digest]) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let checksum = salt.checksum(offset, &out);
        out.extend_from_slice(&checksum.to_le_bytes());
        (out, checksum)
    }

    /// Reads the format, and its checksum; says what is wrong.
    pub fn decode(bytes: &[u8], salt: Salt, offset: u64) -> Result<(Footer, u64), &'static str> {
        let (body, stored) = bytes.split_last_chunk::<8>().filter(|_| bytes.len() == FOOTER_BYTES).ok_or("the footer is cut off")?;
        if !body.starts_with(MAGIC) {
            return Err("not a table: the footer's magic is missing");
        }
        let checksum = u64::from_le_bytes(*stored);
        if salt.checksum(offset, body) != checksum {
            return Err("the checksum of the footer does not match: damage, or the file belongs elsewhere");
        }
        let mut from = Decoder::new(&body[MAGIC.len()..]);
        if from.u32() != Some(FORMAT_VERSION) {
            return Err("the table has another format version than this program reads");
        }
        let footer = Self::fields(&mut from).ok_or("the footer is cut off")?;
        let total = footer.sections.iter().try_fold(footer.data_end, |end, length| end.checked_add(*length));
        if total != Some(offset) {
            return Err("the sections do not add up to the file");
        }
        Ok((footer, checksum))
    }

    fn fields(from: &mut Decoder<'_>) -> Option<Footer> {
        let (db, number, data_end) = (DbId::decode(from)?, from.u64()?, from.u64()?);
        let mut sections = [0; 5];
        for length in &mut sections {
            *length = from.u64()?;
        }
        Some(Footer { db, number, data_end, sections, digest: from.u64()? })
    }
}
