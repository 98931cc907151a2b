//! The identity of a tier: a small file in each store beside the primary one, written when the store is attached to a database. The
//! manifest keeps its checksum, like that of a table, so that no other store is mistaken for it: not one of another database or
//! temperature, nor one attached at another time.
//!
//! ```text
//! 0    8 bytes  magic "SinterTr"
//! 8    u32      format version, 1
//! 12   16 bytes database id
//! 28   u64      file number
//! 36   u8       temperature
//! 37   u64      when it was attached, unix seconds
//! 45   u64      checksum of bytes 0 to 44, at offset 0: the identity
//! ```

use crate::checksum::{DbId, Salt};
use crate::coding::Decoder;
use crate::error::{Error, Result};
use sinter_storage::store::{Cause, FileId, Hint, Store, Temperature};

const MAGIC: &[u8; 8] = b"SinterTr";
const VERSION: u32 = 1;
/// Bytes of the file.
pub const TIER_BYTES: usize = 53;

/// Content of a store's identity file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierIdentity {
    /// Database to which the store belongs.
    pub db: DbId,
    /// Number of the file.
    pub number: u64,
    /// Temperature of the tables that the store holds.
    pub temperature: Temperature,
    /// Time of attachment, unix seconds.
    pub attached: u64,
}

impl TierIdentity {
    /// The file's name.
    pub fn file(&self) -> FileId {
        FileId::tier(self.number)
    }

    /// The bytes of the file and their checksum.
    pub fn encode(&self) -> (Vec<u8>, u64) {
        let mut out = Vec::with_capacity(TIER_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.db.0);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.push(self.temperature as u8);
        out.extend_from_slice(&self.attached.to_le_bytes());
        let checksum = Salt::new(&self.db, self.file()).checksum(0, &out);
        out.extend_from_slice(&checksum.to_le_bytes());
        (out, checksum)
    }

    /// Reads the bytes of file `file`, and their checksum; says what is wrong.
    pub fn decode(bytes: &[u8], file: FileId) -> std::result::Result<(TierIdentity, u64), &'static str> {
        let (body, stored) = bytes.split_last_chunk::<8>().filter(|_| bytes.len() == TIER_BYTES).ok_or("not as long as it should be")?;
        let mut from = Decoder::new(body.strip_prefix(MAGIC).ok_or("not the identity of a tier: the magic is missing")?);
        let version = from.u32();
        let mut read = || Some((DbId::decode(&mut from)?, from.u64()?, from.u8()?, from.u64()?));
        let (db, number, temperature, attached) = read().ok_or("cut off")?;
        let checksum = u64::from_le_bytes(*stored);
        if Salt::new(&db, file).checksum(0, body) != checksum {
            return Err("the checksum does not match: damage, or the file belongs elsewhere");
        }
        if version != Some(VERSION) {
            return Err("another format version than this program reads");
        }
        let temperature = Temperature::from_byte(temperature).ok_or("an unknown temperature")?;
        if number != file.number {
            return Err("the number is not that of the file");
        }
        Ok((TierIdentity { db, number, temperature, attached }, checksum))
    }

    /// Writes the file; durable when this returns, name included. Gives the checksum.
    pub fn write(&self, store: &dyn Store) -> Result<u64> {
        let (bytes, checksum) = self.encode();
        let mut file = store.create(self.file(), &Hint::new(Cause::Manifest))?;
        file.append(&bytes)?;
        file.seal()?;
        store.sync_names()?;
        Ok(checksum)
    }

    /// Reads a file of a store.
    ///
    /// # Errors
    /// `Corrupt` for anything but the bytes that were written.
    pub fn read(store: &dyn Store, file: FileId) -> Result<(TierIdentity, u64)> {
        let reader = store.open(file)?;
        let mut bytes = [0; TIER_BYTES];
        if reader.len() != TIER_BYTES as u64 {
            return Err(Error::corrupt(file, reader.len().min(TIER_BYTES as u64), format!("{} bytes, not {TIER_BYTES}", reader.len())));
        }
        reader.read_at(0, &mut bytes)?;
        TierIdentity::decode(&bytes, file).map_err(|what| Error::corrupt(file, 0, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinter_storage::store::MemoryStore;

    const IDENTITY: TierIdentity = TierIdentity { db: DbId([7; 16]), number: 12, temperature: Temperature::Cold, attached: 1_700_000_000 };

    #[test]
    fn golden_bytes() {
        let (bytes, checksum) = IDENTITY.encode();
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(&hex[..24], "53696e746572547201000000", "magic, version");
        assert_eq!(&hex[24..56], "07".repeat(16));
        assert_eq!(&hex[56..90], "0c000000000000000400f1536500000000", "number 12, cold, when");
        assert_eq!(bytes[45..], checksum.to_le_bytes());
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let (bytes, checksum) = IDENTITY.encode();
        let id = FileId::tier(12);
        assert_eq!(TierIdentity::decode(&bytes, id), Ok((IDENTITY, checksum)));
        for bit in 0..bytes.len() * 8 {
            let mut copy = bytes.clone();
            copy[bit / 8] ^= 1 << (bit % 8);
            assert!(TierIdentity::decode(&copy, id).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(TierIdentity::decode(&bytes[..length], id).is_err(), "{length} bytes");
        }
        assert!(TierIdentity::decode(&[&bytes[..], &[0]].concat(), id).is_err());
        assert!(TierIdentity::decode(&bytes, FileId::tier(13)).is_err(), "under another name");
        assert!(TierIdentity::decode(&bytes, FileId::log(12)).is_err(), "as another kind");
    }

    #[test]
    fn written_and_read() {
        let store = MemoryStore::new();
        let checksum = IDENTITY.write(&store).unwrap();
        assert_eq!(TierIdentity::read(&store.crash_with(0), IDENTITY.file()).unwrap(), (IDENTITY, checksum));
        assert!(matches!(TierIdentity::read(&store, FileId::tier(9)), Err(Error::Io(error)) if error.is_not_found()));
        store.replace(IDENTITY.file(), vec![0; 52]);
        assert!(matches!(TierIdentity::read(&store, IDENTITY.file()), Err(Error::Corrupt { .. })));
    }
}
