//! Tables whose every checksum is right and whose data block is not: each way to read one gives a typed error, and claimed lengths take no
//! memory.

use super::super::footer::{Footer, Section, fold};
use super::super::frame;
use super::super::index::IndexBuilder;
use super::support::{DB, Memory};
use crate::cache::Cache;
use crate::checksum::Salt;
use crate::codec::{Codec, Compression, Compressor};
use crate::coding::put_varint;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::key::MAX_SEQ;
use crate::manifest::{KeyRange, TableInfo};
use crate::table::{ReadOptions, Table, TableProperties};
use sinter_storage::store::FileId;
use std::ops::ControlFlow;
use std::sync::Arc;

const NUMBER: u64 = 5;

/// Content of a forged table.
struct Forged {
    /// The frame of its one data block, without the checksum.
    frame: Vec<u8>,
    dictionary: Vec<u8>,
    /// Bytes of entries and blocks by manifest and properties.
    raw: u64,
    /// Bytes of blocks by the properties.
    raw_blocks: u64,
    /// Bytes of the largest block by the properties; 0: not noted.
    largest: u64,
    /// Length of the block by the index; `None`: the true one.
    block_length: Option<u64>,
}

impl Forged {
    fn new(codec: u8, payload: &[u8], raw: u32) -> Self {
        let frame = [payload, &raw.to_le_bytes(), &[codec]].concat();
        Forged { frame, dictionary: Vec::new(), raw: 10 << 20, raw_blocks: 10 << 20, largest: 0, block_length: None }
    }

    fn write(&self) -> (Memory, Arc<TableInfo>) {
        let id = FileId::table(NUMBER);
        let salt = Salt::new(&DB, id);
        let mut file = self.frame.clone();
        let checksum = salt.checksum(0, &file);
        file.extend_from_slice(&checksum.to_le_bytes());
        let (data_end, mut digest) = (file.len() as u64, fold(0, checksum));
        let range = KeyRange::closed(b"a".to_vec(), b"z");
        let properties = TableProperties {
            format_version: 2,
            entries: 1,
            raw_key_bytes: 1,
            raw_value_bytes: self.raw - 1,
            range: range.clone(),
            data_blocks: 1,
            raw_block_bytes: self.raw_blocks,
            largest_raw_block: self.largest,
            ..TableProperties::default()
        };
        let mut index = IndexBuilder::default();
        index.add_separator(b"z", None);
        index.add_block(self.block_length.unwrap_or(data_end));
        let (mut index_bytes, mut property_bytes) = (Vec::new(), Vec::new());
        index.finish(&mut index_bytes);
        properties.encode(&mut property_bytes);
        let mut sections = [0; 5];
        for (section, payload) in
            [(Section::Dictionary, &self.dictionary), (Section::Index, &index_bytes), (Section::Properties, &property_bytes)]
        {
            if !payload.is_empty() {
                let start = file.len();
                file.extend_from_slice(payload);
                digest = fold(digest, frame::seal(salt, start as u64, &mut file, start, None));
                sections[section as usize] = (file.len() - start) as u64;
            }
        }
        let footer = Footer { db: DB, number: NUMBER, data_end, sections, digest };
        let (bytes, identity) = footer.encode(salt, file.len() as u64);
        file.extend_from_slice(&bytes);
        let info =
            TableInfo { number: NUMBER, bytes: file.len() as u64, identity, range, entries: 1, raw_bytes: self.raw, ..Default::default() };
        let store = Memory::default();
        store.files.lock().insert(id, Arc::new(file));
        (store, Arc::new(info))
    }

    /// Result of each way to read the table.
    fn read(&self) -> Vec<Result<()>> {
        let (store, info) = self.write();
        let cache = Cache::new(1 << 20);
        let table = match Table::open(&store, DB, info, &cache) {
            Ok(table) => table,
            Err(error) => return vec![Err(error)],
        };
        let get = table.get(b"k", Table::hash(b"k"), MAX_SEQ, ReadOptions::default(), |_, _, _| ControlFlow::Continue(()));
        let results = vec![
            get,
            table.cursor(ReadOptions::default()).seek_first(),
            table.cursor(ReadOptions { fill_cache: false, readahead: 4096 }).seek_last(),
            table.scan().seek_first(),
            table.verify(),
        ];
        table.forget();
        assert_eq!(cache.used(), 0);
        results
    }

    /// Every way to read it gives damage of this file, and says `why`.
    fn is_refused(&self, why: &str, what: &str) {
        for result in self.read() {
            match result {
                Err(Error::Corrupt { file, what: said, .. }) if file == FileId::table(NUMBER).to_string() => {
                    assert!(said.contains(why), "{what}: {said}");
                }
                other => panic!("{what}: {other:?}"),
            }
        }
    }
}

fn compress(codec: Codec, raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(Compressor::default().compress(Compression { codec, ..Default::default() }, None, raw, &mut out));
    out
}

/// A data block as the builder makes it: one entry, key `k`.
fn block(value: usize) -> Vec<u8> {
    let mut block = vec![1, 0, 1, 1];
    put_varint(&mut block, value as u64);
    block.push(2);
    block.push(b'k');
    block.resize(block.len() + value, b'v');
    block
}

/// Every codec that compresses and is built in.
fn packing() -> impl Iterator<Item = Codec> {
    Codec::ALL.into_iter().filter(|codec| *codec != Codec::None && codec.is_built_in())
}

#[test]
fn the_forgery_itself_is_readable() {
    let raw = block(20_000);
    for codec in packing() {
        let forged = Forged { raw: 20_001, ..Forged::new(codec as u8, &compress(codec, &raw), raw.len() as u32) };
        let forged = Forged { raw_blocks: raw.len() as u64, largest: raw.len() as u64, ..forged };
        for result in forged.read() {
            result.unwrap();
        }
    }
}

#[test]
#[cfg(feature = "default")]
fn a_wrong_codec_is_damage() {
    let raw = block(20_000);
    for codec in packing() {
        let payload = compress(codec, &raw);
        for other in (1..=255u8).filter(|other| *other != codec as u8) {
            let why = if other > 5 { "unknown codec" } else { "" };
            Forged::new(other, &payload, raw.len() as u32).is_refused(why, &format!("{codec:?} as {other}"));
        }
        // Taken for plain: the length of the payload is part of it then.
        Forged::new(0, &payload, raw.len() as u32).is_refused("damaged", &format!("{codec:?} as plain"));
    }
}

#[test]
fn wrong_lengths_are_damage() {
    let raw = block(20_000);
    let n = raw.len() as u32;
    for codec in packing() {
        let payload = compress(codec, &raw);
        for claimed in [1, n - 1, n + 1, 2 * n] {
            Forged::new(codec as u8, &payload, claimed).is_refused("", &format!("{codec:?} claims {claimed}"));
        }
        for claimed in [0, u32::MAX - 1, u32::MAX, 1 << 31] {
            Forged::new(codec as u8, &payload, claimed).is_refused("impossible length", &format!("{codec:?} claims {claimed}"));
        }
        for cut in [0, 1, payload.len() / 2, payload.len() - 1] {
            Forged::new(codec as u8, &payload[..cut], n).is_refused("", &format!("{codec:?} cut at {cut}"));
        }
        Forged::new(codec as u8, &[&payload[..], &[0; 9]].concat(), n).is_refused("", &format!("{codec:?} and more"));
        for frame in [vec![], vec![codec as u8], vec![0, codec as u8], vec![9, 9, 9, codec as u8]] {
            Forged { frame, ..Forged::new(0, &[], 0) }.is_refused("", &format!("{codec:?} without a payload"));
        }
    }
}

/// A codec that is not built in is no damage: the error names the feature.
#[test]
fn a_codec_that_is_not_built_in_is_named() {
    for codec in Codec::ALL.into_iter().filter(|codec| !codec.is_built_in()) {
        let missing = codec.missing().unwrap();
        for result in Forged::new(codec as u8, &[0; 100], 200).read() {
            let error = result.unwrap_err();
            assert!(
                matches!(&error, Error::Invalid(what) if what.starts_with("000005.sst at offset 0") && what.contains(&missing)),
                "{error}"
            );
        }
    }
}

#[test]
fn bombs_do_not_go_off() {
    let zeros = vec![0; 4 << 20];
    for codec in packing() {
        let payload = compress(codec, &zeros);
        let what = format!("{codec:?}, {} bytes", payload.len());
        let bomb = |raw: u32, known: u64| Forged { raw: known, raw_blocks: known, ..Forged::new(codec as u8, &payload, raw) };
        // It says what it is, but the table has no room for that.
        bomb(4 << 20, 10_000).is_refused("impossible length", &what);
        // It says something else.
        bomb(10_000, 10_000).is_refused("does not decompress", &what);
        bomb(10_000, 1 << 40).is_refused("does not decompress", &what);
        // The table as a whole would have room for it.
        Forged { largest: 10_000, ..bomb(4 << 20, 4 << 20) }.is_refused("impossible length", &what);
        Forged { largest: 1 << 40, ..bomb(4 << 20, 4 << 20) }.is_refused("contradict the manifest", &what);
        // The properties make room, and the manifest knows better.
        let forged = Forged { raw: 10_000, ..bomb(4 << 20, 4 << 20) };
        forged.is_refused("contradict the manifest", &what);
    }
}

#[test]
#[cfg(feature = "default")]
fn sizes_up_to_two_to_the_63rd_are_refused() {
    let raw = block(20_000);
    let payload = compress(Codec::Zstd, &raw);
    for size in [1 << 32, 1 << 40, 1 << 62, 1 << 63, u64::MAX] {
        let forged = || Forged::new(Codec::Zstd as u8, &payload, raw.len() as u32);
        Forged { block_length: Some(size), ..forged() }.is_refused("damaged index", &format!("index: {size}"));
        Forged { raw_blocks: size, ..forged() }.is_refused("contradict the manifest", &format!("properties: {size}"));
        // A zstd frame of one segment that says its content has this size: magic, descriptor, size, one empty last block.
        let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &size.to_le_bytes(), &[1, 0, 0]].concat();
        Forged::new(Codec::Zstd as u8, &frame, 1000).is_refused("does not decompress", &format!("zstd: {size}"));
        let mut snappy = Vec::new();
        put_varint(&mut snappy, size);
        snappy.extend_from_slice(&[0; 100]);
        Forged::new(Codec::Snappy as u8, &snappy, 1000).is_refused("does not decompress", &format!("snappy: {size}"));
    }
    // LZ4: one literal, then a match whose length goes on for as long as there are bytes.
    let endless = [&[0x1f, b'a', 1, 0][..], &[0xff; 200]].concat();
    Forged::new(Codec::Lz4 as u8, &endless, 1000).is_refused("does not decompress", "lz4");
}

#[test]
#[cfg(feature = "default")]
fn a_wrong_dictionary_is_damage() {
    use crate::codec::{Dictionary, Trained};
    let texts = |salt: u64| -> (Vec<u8>, Vec<usize>) {
        let texts: Vec<String> =
            (0..600u64).map(|i| format!("{{\"{salt} name\":{i},\"city of {salt}\":\"{:x}\"}}", i * i * salt)).collect();
        (texts.concat().into_bytes(), texts.iter().map(String::len).collect())
    };
    let train = |salt| {
        let (samples, sizes) = texts(salt);
        Dictionary::train(&samples, &sizes, 2000).unwrap()
    };
    let (right, wrong) = (train(7), train(8_191));
    let mut value = block(0);
    value[4] = 120;
    value.extend_from_slice(&texts(7).0[3000..3120]);
    let how = Compression { codec: Codec::Zstd, level: None, dictionary_bytes: 2000 };
    let mut payload = Vec::new();
    let trained = Trained::new(right.clone(), None).unwrap();
    assert!(Compressor::default().compress(how, Some(&trained), &value, &mut payload));
    let with = |dictionary: Vec<u8>| Forged { dictionary, ..Forged::new(Codec::Zstd as u8, &payload, value.len() as u32) };
    let forged = Forged { raw: 121, raw_blocks: value.len() as u64, ..with(right.clone()) };
    forged.read().into_iter().for_each(|result| result.unwrap());
    with(wrong).is_refused("does not decompress", "another dictionary");
    with(Vec::new()).is_refused("does not decompress", "no dictionary");
    // Begins as a dictionary does, and is none.
    with(right[..12].to_vec()).is_refused("", "a piece of a dictionary");
}

#[test]
fn any_payload_is_read_or_refused() {
    let raw = block(3000);
    for codec in packing() {
        let payload = compress(codec, &raw);
        for at in 0..payload.len() {
            for flip in [1, 0x55, 0x80, 0xff] {
                let mut payload = payload.clone();
                payload[at] ^= flip;
                for result in Forged::new(codec as u8, &payload, raw.len() as u32).read() {
                    assert!(matches!(result, Ok(()) | Err(Error::Corrupt { .. })), "{codec:?} byte {at}: {result:?}");
                }
            }
        }
    }
}
