//! The bytes of a small table are those that docs/engine/format.md describes.

use super::support::{DB, Memory, options};
use crate::key::{Kind, trailer};
use crate::range_del::RangeTombstones;
use crate::table::TableBuilder;
use sinter_storage::store::{Cause, FileId, Hint, Store};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn golden_bytes() {
    let store = Memory::default();
    let id = FileId::table(9);
    let mut builder = TableBuilder::new(DB, id, store.create(id, &Hint::new(Cause::Flush)).unwrap(), options(4096));
    builder.add(b"key-a", trailer(12, Kind::Value), b"one", 12).unwrap();
    builder.add(b"key-a", trailer(10, Kind::Delete), b"", 10).unwrap();
    builder.add(b"key-b", trailer(0, Kind::Merge), b"+1", 7).unwrap();
    builder.finish(&RangeTombstones::new([(b"k".to_vec(), b"key-b".to_vec(), 11)]), (1000, 2000)).unwrap();
    let bytes = store.files.lock()[&id].clone();
    let footer = &bytes[bytes.len() - 100..];
    let properties = u64::from_le_bytes(footer[76..84].try_into().unwrap()) as usize;
    // The properties name the version of the program, so only what stands before them is compared.
    assert_eq!(hex(&bytes[..bytes.len() - 100 - properties]), BODY);
    assert_eq!(hex(&footer[..76]), FOOTER);
}

/// A block: three entries, prefix of 4 bytes, base 10; the prefix; the entries (a value of number 12, a tombstone of number 10, a merge
/// operand of number 0); codec and checksum. The filter: six probes, one line. One range tombstone: `k` to `key-b`, number 11. The index:
/// one block, common prefix `key-b`, 33 bytes, nothing left to say.
const BODY: &str = concat!(
    "03040a",
    "6b65792d",
    "010306616f6e65",
    "01001161",
    "010205622b31",
    "00a88369e26ce4d5ba",
    "06",
    "00000000000000400000000100000000000000000000000000000400000080000000008000000004000000000822000000000000000000000002000000200000",
    "00ca58b613b3178adb",
    "01016b056b65792d62010b",
    "00896c509fe94cbfec",
    "01056b65792d62210000",
    "00aa38ce3bf0ffc5a6",
);

/// Magic, version, database, number; the lengths of data blocks, filter, range tombstones, dictionary, index.
const FOOTER: &str = concat!(
    "53696e7465725462",
    "02000000",
    "07070707070707070707070707070707",
    "0900000000000000",
    "2100000000000000",
    "4a00000000000000140000000000000000000000000000001300000000000000",
);
