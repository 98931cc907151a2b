//! The header of a log file: its kind and its owner. Its layout never changes, whatever the version says, so that an older program refuses
//! a newer log instead of taking it for a torn one.

use crate::checksum::{DbId, Salt};
use crate::coding::Decoder;
use sinter_storage::store::{FileId, FileKind};

/// The version of the record format behind the header, as it is written.
pub const VERSION: u16 = 3;

/// The oldest version that is read. A moved record is recognised from version 2 on, and record headers have a fixed length up to it.
pub(super) const OLDEST: u16 = 1;

/// Most bytes of a header's content.
pub const MAX_EXTRA: usize = 64 << 10;

const MAGIC: &[u8; 8] = b"SINTRLOG";
const CHECKSUM: usize = 8;

/// Bytes of a header beside its `extra`: magic, version, kind, length of `extra`, database, number, checksum.
pub(super) const FIXED: usize = MAGIC.len() + 2 + 2 + 4 + 16 + 8 + CHECKSUM;

/// A header whose checksum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileHeader<'a> {
    pub version: u16,
    pub db: DbId,
    pub id: FileId,
    pub extra: &'a [u8],
    /// Length of the header in the file, bytes.
    pub len: usize,
}

/// Appends the header of file `id`. `extra` has at most [`MAX_EXTRA`] bytes.
pub(super) fn encode(version: u16, db: &DbId, id: FileId, extra: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&u16::from(id.kind as u8).to_le_bytes());
    out.extend_from_slice(&(extra.len() as u32).to_le_bytes());
    out.extend_from_slice(&db.0);
    out.extend_from_slice(&id.number.to_le_bytes());
    out.extend_from_slice(extra);
    let check = Salt::new(db, id).checksum(0, &out[start..]);
    out.extend_from_slice(&check.to_le_bytes());
}

/// Reads a header from the start of a file, checked against the identity that it claims itself.
pub(super) fn decode(bytes: &[u8]) -> Option<FileHeader<'_>> {
    let mut from = Decoder::new(bytes);
    if from.bytes(MAGIC.len())? != MAGIC {
        return None;
    }
    let version = from.u16()?;
    let kind = from.u16()?;
    let kind = FileKind::ALL.into_iter().find(|k| u16::from(*k as u8) == kind)?;
    let extra_len = usize::try_from(from.u32()?).ok().filter(|n| *n <= MAX_EXTRA)?;
    let db = DbId::decode(&mut from)?;
    let id = FileId { kind, number: from.u64()? };
    let extra = from.bytes(extra_len)?;
    let covered = bytes.len() - from.rest().len();
    let good = from.u64()? == Salt::new(&db, id).checksum(0, bytes.get(..covered)?);
    good.then_some(FileHeader { version, db, id, extra, len: covered + CHECKSUM })
}
