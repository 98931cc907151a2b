//! The bytes on the drive: checksums, edits of the metadata log, and the heads of its frames and of the frames of log files.
//! `docs/engine/format.md` has them one by one.

use crate::store::{FileId, FileKind};
use xxhash_rust::xxh3::xxh3_64;

/// The version of everything here.
pub(super) const VERSION: u16 = 1;

/// Bytes of the head of a frame, of either kind.
pub(super) const HEAD: usize = 64;

/// [`Range::len`] of a log file that is still written there: to the zone's write pointer.
pub(super) const OPEN: u64 = u64::MAX;

/// Bytes of a key that are kept in the metadata, at most: enough to find neighbours by key.
pub(super) const KEY_PREFIX: usize = 16;

const METADATA: [u8; 8] = *b"SINTRZMD";
const DATA: [u8; 8] = *b"SINTRZFR";

/// The identity of a volume, drawn at random when it is formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VolumeId(pub [u8; 16]);

/// The place-dependent part of checksums.
#[derive(Debug, Clone, Copy)]
pub(super) struct Salt(u64);

/// A bijection on 64 bits with good avalanche (the finaliser of SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl Salt {
    /// The salt of one incarnation of a place of a volume: a metadata region and its generation, or a zone and its resets.
    pub(super) fn new(volume: VolumeId, place: u32, incarnation: u64) -> Self {
        let mut bytes = [0; 28];
        bytes[..16].copy_from_slice(&volume.0);
        bytes[16..20].copy_from_slice(&place.to_le_bytes());
        bytes[20..].copy_from_slice(&incarnation.to_le_bytes());
        Salt(xxh3_64(&bytes))
    }

    pub(super) fn checksum(self, at: u64, bytes: &[u8]) -> u64 {
        mix(xxh3_64(bytes) ^ mix(self.0.wrapping_add(at)))
    }
}

/// Reads fixed-width fields; `None` at the end.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (now, later) = self.0.split_at_checked(length)?;
        self.0 = later;
        Some(now)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|b| b[0])
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(*self.bytes(2)?.first_chunk()?))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.bytes(4)?.first_chunk()?))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.bytes(8)?.first_chunk()?))
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        let length = usize::from(self.u8()?);
        self.bytes(length).map(<[u8]>::to_vec)
    }

    fn file(&mut self) -> Option<FileId> {
        let kind = self.u8()?;
        let kind = FileKind::ALL.into_iter().find(|k| *k as u8 == kind)?;
        Some(FileId { kind, number: self.u64()? })
    }
}

/// Smallest and largest user key of a file, each cut to `KEY_PREFIX` bytes.
pub type KeyRange = (Vec<u8>, Vec<u8>);

/// Facts of a file that are known at its creation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// The kernel's write-life number: 0 nothing known, 2 short, 3 medium, 4 long, 5 extreme.
    pub lifetime: u8,
    /// Level of the table.
    pub level: u8,
    /// Column family of the data.
    pub family: u32,
    /// Volume's clock (bytes written by the host) at the file's creation.
    pub born: u64,
    /// Volume's clock when the file is expected to die, as estimated at its creation.
    pub death: u64,
    /// Prefixes of its smallest and largest key, where known.
    pub keys: Option<KeyRange>,
}

/// A part of a zone with bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) zone: u32,
    /// Offset in the zone, whole blocks.
    pub(super) at: u64,
    /// For a table, bytes of the file. For a log file, bytes of the zone in which its frames lie, or [`OPEN`].
    pub(super) len: u64,
}

/// The location of a file, as the metadata has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct FileLocation {
    /// Nothing is appended any more.
    pub(super) sealed: bool,
    /// Length of a sealed log, all of which was durable when the edit was written. Without meaning for other files.
    pub(super) length: u64,
    pub(super) ranges: Vec<Range>,
}

/// Facts kept of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ZoneNote {
    /// Number of resets.
    pub(super) resets: u64,
    /// Lifetime and level of the first file written into the zone; without meaning while it is empty.
    pub(super) lifetime: u8,
    pub(super) level: u8,
    /// Only logs and manifests were written since the reset, so all bytes in the zone have to be whole frames.
    pub(super) framed: bool,
}

/// One step of the metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    Create {
        id: FileId,
        about: About,
    },
    Delete {
        id: FileId,
    },
    /// The location of a file; replaces the one recorded before.
    Lies {
        id: FileId,
        place: FileLocation,
    },
    Zone {
        zone: u32,
        note: ZoneNote,
    },
}

fn put_file(out: &mut Vec<u8>, id: FileId) {
    out.push(id.kind as u8);
    out.extend_from_slice(&id.number.to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let text = &text[..text.len().min(KEY_PREFIX)];
    // At most 16.
    out.push(text.len() as u8);
    out.extend_from_slice(text);
}

impl Edit {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Edit::Create { id, about } => {
                out.push(1);
                put_file(out, *id);
                out.extend_from_slice(&[about.lifetime, about.level]);
                out.extend_from_slice(&about.family.to_le_bytes());
                out.extend_from_slice(&about.born.to_le_bytes());
                out.extend_from_slice(&about.death.to_le_bytes());
                out.push(u8::from(about.keys.is_some()));
                if let Some((smallest, largest)) = &about.keys {
                    put_text(out, smallest);
                    put_text(out, largest);
                }
            }
            Edit::Delete { id } => {
                out.push(2);
                put_file(out, *id);
            }
            Edit::Lies { id, place } => {
                out.push(3);
                put_file(out, *id);
                out.push(u8::from(place.sealed));
                out.extend_from_slice(&place.length.to_le_bytes());
                out.extend_from_slice(&u32::try_from(place.ranges.len()).unwrap_or(u32::MAX).to_le_bytes());
                for range in &place.ranges {
                    out.extend_from_slice(&range.zone.to_le_bytes());
                    out.extend_from_slice(&range.at.to_le_bytes());
                    out.extend_from_slice(&range.len.to_le_bytes());
                }
            }
            Edit::Zone { zone, note } => {
                out.push(if note.framed { 5 } else { 4 });
                out.extend_from_slice(&zone.to_le_bytes());
                out.extend_from_slice(&note.resets.to_le_bytes());
                out.extend_from_slice(&[note.lifetime, note.level]);
            }
        }
    }

    /// `None` for anything that [`Edit::encode`] does not make.
    pub(super) fn decode(from: &mut Input<'_>) -> Option<Edit> {
        Some(match from.u8()? {
            1 => {
                let id = from.file()?;
                let (lifetime, level, family) = (from.u8()?, from.u8()?, from.u32()?);
                let (born, death) = (from.u64()?, from.u64()?);
                let keys = match from.u8()? {
                    0 => None,
                    1 => Some((from.text()?, from.text()?)),
                    _ => return None,
                };
                Edit::Create { id, about: About { lifetime, level, family, born, death, keys } }
            }
            2 => Edit::Delete { id: from.file()? },
            3 => {
                let id = from.file()?;
                let sealed = match from.u8()? {
                    sealed @ 0..=1 => sealed == 1,
                    _ => return None,
                };
                let (length, count) = (from.u64()?, from.u32()? as usize);
                // Refuses a count that the remaining bytes cannot hold, before memory is allocated for it.
                if count > from.0.len() / 20 {
                    return None;
                }
                let mut ranges = Vec::with_capacity(count);
                for _ in 0..count {
                    ranges.push(Range { zone: from.u32()?, at: from.u64()?, len: from.u64()? });
                }
                Edit::Lies { id, place: FileLocation { sealed, length, ranges } }
            }
            kind @ 4..=5 => {
                let zone = from.u32()?;
                Edit::Zone { zone, note: ZoneNote { resets: from.u64()?, lifetime: from.u8()?, level: from.u8()?, framed: kind == 5 } }
            }
            _ => return None,
        })
    }
}

/// Content of a frame of the metadata log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Facts of the volume and all of its metadata: the first frame of a region.
    Snapshot = 1,
    /// Edits since the frame before.
    Edits = 2,
}

/// The head of a frame of the metadata log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MetadataHead {
    pub(super) volume: VolumeId,
    /// 0 or 1.
    pub(super) region: u32,
    pub(super) kind: Kind,
    /// Generation of the region: the sequence of the snapshot at its start.
    pub(super) generation: u64,
    /// One more than the sequence of the frame before.
    pub(super) sequence: u64,
    /// Bytes of the region that were known to be durable when this frame was written.
    pub(super) durable: u64,
    pub(super) length: u32,
}

impl MetadataHead {
    fn salt(&self) -> Salt {
        Salt::new(self.volume, self.region, self.generation)
    }

    /// The frame that stands at byte `at` of its region, padded to whole blocks.
    pub(super) fn frame(&self, at: u64, payload: &[u8], block: usize) -> Vec<u8> {
        let mut frame = Vec::with_capacity((HEAD + payload.len()).next_multiple_of(block));
        frame.extend_from_slice(&METADATA);
        frame.extend_from_slice(&[0; 8]);
        frame.extend_from_slice(&self.length.to_le_bytes());
        frame.extend_from_slice(&[self.kind as u8, self.region as u8]);
        frame.extend_from_slice(&VERSION.to_le_bytes());
        frame.extend_from_slice(&self.sequence.to_le_bytes());
        frame.extend_from_slice(&self.durable.to_le_bytes());
        frame.extend_from_slice(&self.volume.0);
        frame.extend_from_slice(&self.generation.to_le_bytes());
        frame.extend_from_slice(payload);
        let check = self.salt().checksum(at, &frame[16..]);
        frame[8..16].copy_from_slice(&check.to_le_bytes());
        frame.resize(frame.len().next_multiple_of(block), 0);
        frame
    }

    /// The head at the start of `bytes` (at least [`HEAD`] long), not verified: the checksum covers the payload, too.
    pub(super) fn peek(bytes: &[u8]) -> Option<MetadataHead> {
        let mut from = Input(bytes);
        if from.bytes(8)? != METADATA {
            return None;
        }
        from.u64()?;
        let length = from.u32()?;
        let kind = match from.u8()? {
            1 => Kind::Snapshot,
            2 => Kind::Edits,
            _ => return None,
        };
        let region = u32::from(from.u8()?);
        if from.u16()? != VERSION {
            return None;
        }
        let (sequence, durable) = (from.u64()?, from.u64()?);
        let volume = VolumeId(*from.bytes(16)?.first_chunk()?);
        Some(MetadataHead { volume, region, kind, generation: from.u64()?, sequence, durable, length })
    }

    /// Returns whether `bytes`, head and payload without padding, are the frame that was written at `at`.
    pub(super) fn verify(&self, at: u64, bytes: &[u8]) -> bool {
        let Some(check) = bytes.get(8..16).and_then(|b| b.first_chunk()) else { return false };
        u64::from_le_bytes(*check) == self.salt().checksum(at, &bytes[16..])
    }

    /// Returns whether `bytes`, whole blocks, are a frame that ends in the last block and whose length field alone is damaged.
    pub(super) fn verify_shorter(&self, at: u64, mut bytes: Vec<u8>, block: usize) -> bool {
        // Frames are padded with zeros.
        let data = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        (data.max(HEAD).max(bytes.len() - block + 1)..=bytes.len()).any(|length| {
            // The cast loses nothing: the length is smaller than the one in the head, a `u32`.
            bytes[16..20].copy_from_slice(&((length - HEAD) as u32).to_le_bytes());
            self.verify(at, &bytes[..length])
        })
    }
}

/// The head of a frame of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataHead {
    pub(super) file: FileId,
    /// Offset of the data in the file.
    pub(super) offset: u64,
    /// Bytes of the file that were known to be durable when this frame was written.
    pub(super) synced: u64,
    pub(super) length: u32,
}

impl DataHead {
    /// Writes the frame of `data` at `at` of a zone into `out`, padded to whole blocks. `salt` is that of the zone and its resets.
    pub(super) fn frame(&self, salt: Salt, at: u64, data: &[u8], block: usize, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&DATA);
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&salt.checksum(at.wrapping_add(HEAD as u64), data).to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&[0; 3]);
        put_file(out, self.file);
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.synced.to_le_bytes());
        out.resize(HEAD, 0);
        let check = salt.checksum(at, &out[16..]);
        out[8..16].copy_from_slice(&check.to_le_bytes());
        out.extend_from_slice(data);
        out.resize(out.len().next_multiple_of(block), 0);
    }

    /// The head that `bytes` begin with and the checksum of the data behind it, if such a frame was written at `at`.
    pub(super) fn decode(salt: Salt, at: u64, bytes: &[u8]) -> Option<(DataHead, u64)> {
        let head = bytes.first_chunk::<HEAD>()?;
        let mut from = Input(head);
        if from.bytes(8)? != DATA || from.u64()? != salt.checksum(at, &head[16..]) {
            return None;
        }
        let (check, length) = (from.u64()?, from.u32()?);
        from.bytes(3)?;
        let file = from.file()?;
        Some((DataHead { file, offset: from.u64()?, synced: from.u64()?, length }, check))
    }
}

#[cfg(test)]
mod tests;
