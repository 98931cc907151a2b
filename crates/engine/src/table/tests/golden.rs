//! The bytes of a small table are those that docs/format.md describes.

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

const BODY: &str = "";

const FOOTER: &str = "";
