//! Compressed blocks: hostile ones give errors, never a panic, a hang or more memory than their table has; what the codecs pack comes out
//! again. Three ways in: any bytes to a codec; a round trip; and a table whose one data block is any bytes under a good checksum.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sinter_storage::store::{Cause, FileId, Hint, MemoryStore, Store};
use sinterdb::internal::cache::Cache;
use sinterdb::internal::checksum::{DbId, Salt};
use sinterdb::internal::codec::{Compressor, Dictionary, Trained, decompress};
use sinterdb::internal::cursor::Cursor;
use sinterdb::internal::key::{Kind, MAX_SEQ, trailer};
use sinterdb::internal::range_del::RangeTombstones;
use sinterdb::internal::table::{ReadOptions, Table, TableBuilder, TableOptions};
use sinterdb::settings::{Codec, Compression};
use sinterdb_fuzz::{Input, seed};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

const DB: DbId = DbId([7; 16]);

fn text(n: usize) -> Vec<u8> {
    (0..n).map(|i| b"some text that comes again "[(i + i / 100) % 27]).collect()
}

/// A dictionary, digested for both directions.
fn dictionary() -> &'static (Trained, Dictionary) {
    static ONCE: OnceLock<(Trained, Dictionary)> = OnceLock::new();
    ONCE.get_or_init(|| {
        let samples: Vec<String> = (0..500u64).map(|i| format!("{{\"name\":{i},\"place\":\"{:x}\"}}", i * i)).collect();
        let sizes: Vec<usize> = samples.iter().map(String::len).collect();
        let bytes = Dictionary::train(samples.concat().as_bytes(), &sizes, 1000).expect("enough samples");
        let digested = Dictionary::new(&bytes).expect("a dictionary");
        (Trained::new(bytes, None).expect("a dictionary"), digested)
    })
}

fn codec(input: &mut Input) -> Codec {
    Codec::ALL[input.below(Codec::ALL.len())]
}

fn any_bytes(mut input: Input) {
    let codec = codec(&mut input);
    let with_dictionary = input.byte() % 2 == 1;
    let mut out = vec![0; 1 + input.below(1 << 16) * (1 + input.below(8))];
    let _ = decompress(codec, with_dictionary.then_some(&dictionary().1), input.0, &mut out);
}

fn round_trip(mut input: Input) {
    let codec = codec(&mut input);
    let level = codec.levels().map(|levels| (*levels.start()).max(-7) + input.below(12) as i32).filter(|level| *level <= 9);
    let dictionary = (codec == Codec::Zstd && input.byte() % 2 == 1).then(dictionary);
    let raw = input.0.repeat(1 + input.below(3));
    let mut packed = Vec::new();
    let how = Compression { codec, level, dictionary_bytes: 0 };
    if Compressor::default().compress(how, dictionary.map(|d| &d.0), &raw, &mut packed) {
        assert!(packed.len() <= raw.len() - raw.len() / 8 && codec.plausible(packed.len(), raw.len()));
        let mut out = vec![0; raw.len()];
        decompress(codec, dictionary.map(|d| &d.1), &packed, &mut out).expect("what was packed comes out");
        assert!(out == raw);
    }
}

/// A table of one entry, whose block is then replaced.
fn hostile_block(mut input: Input) {
    let codec = codec(&mut input);
    let (store, id) = (MemoryStore::new(), FileId::table(4));
    let compression = Compression { codec, ..Compression::default() };
    let options = TableOptions { block_size: 4096, bloom_bits_per_key: 0.0, compression };
    let mut builder = TableBuilder::new(DB, id, store.create(id, &Hint::new(Cause::Flush)).expect("a file"), options);
    builder.add(b"key", trailer(3, Kind::Value), &text(1 + input.below(1 << 16)), 3).expect("an entry");
    let info = builder.finish(&RangeTombstones::default(), (1, 2)).expect("a table");
    let mut bytes = store.bytes(id).expect("its bytes");
    let end = bytes.len() - 100 + 36;
    let end = bytes[end..].first_chunk().map_or(0, |length| u64::from_le_bytes(*length)) as usize;
    let (other, keep) = (input.byte(), input.byte());
    let claimed = [input.byte(), input.byte(), input.byte(), input.byte()];
    let frame = &mut bytes[..end - 8];
    let trailer_at = frame.len().saturating_sub(5);
    if keep & 1 == 0 {
        let n = input.0.len().min(trailer_at);
        frame[..n].copy_from_slice(&input.0[..n]);
    } else {
        // Single bytes of the good block.
        for change in input.0.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % frame.len();
            frame[at] ^= change[2];
        }
    }
    if keep & 2 == 0 {
        frame[trailer_at..trailer_at + 4].copy_from_slice(&claimed);
    }
    if keep & 4 == 0
        && let Some(last) = frame.last_mut()
    {
        *last = other;
    }
    let checksum = Salt::new(&DB, id).checksum(0, frame);
    bytes[end - 8..end].copy_from_slice(&checksum.to_le_bytes());
    store.replace(id, bytes);
    let cache = Cache::new(1 << 20);
    cache.resize(1 << 20, u64::from(keep & 8) << 16);
    let table = Table::open(&store, DB, Arc::new(info), &cache).expect("all else is as it was");
    for _ in 0..2 {
        let _ = table.get(b"key", Table::hash(b"key"), MAX_SEQ, ReadOptions::default(), |_, _, _| ControlFlow::Continue(()));
    }
    let _ = table.cursor(ReadOptions { fill_cache: false, readahead: 4096 }).seek_first();
    let _ = table.scan().seek_first();
    let _ = table.verify();
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (n, codec) in Codec::ALL.into_iter().enumerate() {
        let mut packed = Vec::new();
        Compressor::default().compress(Compression { codec, ..Compression::default() }, None, &text(3000), &mut packed);
        // Codec, no dictionary, a length of 3,000 (1 + 2,999), once.
        seeds.push([&[0, 0, n as u8, 0, 0x0b, 0xb7, 0, 0][..], &packed].concat());
        seeds.push([&[1, 0, n as u8, 0, 3][..], &text(3000)].concat());
        // Codec, length of the value, codec byte and what is kept, claimed length.
        for keep in [0, 1, 3, 5, 6, 7, 8, 9, 15] {
            seeds.push([&[2, 0, n as u8, 0x0b, 0xb7, n as u8, keep, 0xb8, 0x0b, 0, 0][..], &packed].concat());
        }
    }
    seeds
}

fuzz_target!(init: seed(seeds), |data: &[u8]| {
    let mut input = Input(data);
    match input.byte() % 3 {
        0 => any_bytes(input),
        1 => round_trip(input),
        _ => hostile_block(input),
    }
});
