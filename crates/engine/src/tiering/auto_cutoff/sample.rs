//! Estimates how much of a family's data is alive and how old that is, from a sample of the keys of each table, which is stored with the
//! table so that the content of a budget is known once the database is open.
//!
//! A table keeps those of its keys whose hashes are smallest, each with the number of its newest version there. All tables hash alike. So
//! the keys below the smallest of the tables' limits are a sample of the keys of all tables, and the newest version of each is known,
//! wherever it lies: versions that it hides are dead, in whatever table. A sum of the bytes of each table could not tell that, and a share
//! of it would be a share of the dead as well.

use super::ages::Ages;
use crate::coding::{Decoder, put_varint};
use crate::key::Seq;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bits of hashes. With so many, two keys of a sample hardly ever have the same.
const HASH_BITS: u32 = 48;
/// Upper bound of all hashes.
const ALL: u64 = 1 << HASH_BITS;
/// A table keeps one key in so many, within these bounds: less than a hundredth of a table of usual size.
const SHARE: usize = 32;
const LEAST: usize = 128;
const MOST: usize = 512;
/// So many keys of all tables are looked at, about: enough for a share that is off by half a percent.
const LOOKED_AT: usize = 1 << 16;

/// A key of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    hash: u64,
    /// The number of its newest version there; 0 if it was zeroed.
    seq: Seq,
    /// The newest version there is a tombstone.
    deleted: bool,
}

/// Draws the sample of a table that is being written.
#[derive(Debug, Default)]
pub struct Drawing {
    /// The keys with the smallest hashes, one more than are ever kept; the largest is on top.
    keys: BinaryHeap<Key>,
    /// Keys that were added.
    added: usize,
}

/// The sample of a table.
struct Sample {
    /// Keys of the table with smaller hashes are all in the sample.
    limit: u64,
    /// The sampled keys by hash, ascending.
    keys: Vec<Key>,
}

/// Facts about the data in one table.
#[derive(Debug, Clone, Copy)]
pub struct Holding<'a> {
    /// Bytes of its file.
    pub bytes: u64,
    /// Number of entries.
    pub entries: u64,
    /// Oldest and newest sequence number of the table.
    pub seqs: (Seq, Seq),
    /// The table's sample by [`Drawing::encode`]; empty if it has none.
    pub sample: &'a [u8],
}

impl Drawing {
    /// A key with a 64-bit hash, by its newest version in the table.
    #[inline]
    pub fn add(&mut self, hash: u64, seq: Seq, deleted: bool) {
        let key = Key { hash: hash >> (u64::BITS - HASH_BITS), seq, deleted };
        self.added += 1;
        if self.keys.len() <= MOST {
            self.keys.push(key);
        } else if let Some(mut largest) = self.keys.peek_mut()
            && key < *largest
        {
            *largest = key;
        }
    }

    /// The format, as varints: the limit, the number of keys, and of each how much larger its hash is than the last one, and twice its
    /// number, one more if the version is a tombstone. Empty without keys.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.added == 0 {
            return out;
        }
        let mut keys = self.keys.clone().into_sorted_vec();
        let kept = (self.added / SHARE).clamp(LEAST, MOST);
        put_varint(&mut out, keys.get(kept).map_or(ALL, |key| key.hash));
        keys.truncate(kept);
        put_varint(&mut out, keys.len() as u64);
        let mut last = 0;
        for key in keys {
            put_varint(&mut out, key.hash - last);
            put_varint(&mut out, (key.seq << 1) | u64::from(key.deleted));
            last = key.hash;
        }
        out
    }
}

/// The bytes are a sample.
pub fn is_sample(bytes: &[u8]) -> bool {
    Sample::decode(bytes).is_some()
}

impl Sample {
    /// `None`: there is none, or it is damaged.
    fn decode(bytes: &[u8]) -> Option<Sample> {
        let mut from = Decoder::new(bytes);
        let limit = from.varint()?;
        let count = from.length()?;
        let mut keys = Vec::with_capacity(count);
        let mut hash = 0u64;
        for _ in 0..count {
            hash = hash.checked_add(from.varint()?)?;
            let seq = from.varint()?;
            keys.push(Key { hash, seq: seq >> 1, deleted: seq & 1 == 1 });
        }
        (from.is_empty() && (1..=ALL).contains(&limit)).then_some(Sample { limit, keys })
    }

    /// The sample's keys with hashes below a limit.
    fn below(&self, limit: u64) -> &[Key] {
        &self.keys[..self.keys.partition_point(|key| key.hash < limit)]
    }
}

/// The bytes of tables that are alive, by the ages that they have at `now`. Of a table without a sample all are taken to be, and to be
/// written evenly between its oldest and its newest number.
pub fn alive(tables: &[Holding<'_>], now: Seq) -> Ages {
    let mut ages = Ages::default();
    let mut samples = Vec::new();
    for table in tables {
        match Sample::decode(table.sample) {
            Some(sample) => samples.push((sample, table.bytes as f64 / table.entries.max(1) as f64)),
            None => {
                let (oldest, newest) = table.seqs;
                ages.spread(now.saturating_sub(newest) as f64, now.saturating_sub(oldest) as f64 + 1.0, table.bytes as f64);
            }
        }
    }
    let limit = limit(&samples);
    let mut keys: Vec<(&Key, f64)> = Vec::new();
    for (sample, bytes) in &samples {
        keys.extend(sample.below(limit).iter().map(|key| (key, *bytes)));
    }
    // By key, the newest version first.
    keys.sort_by_key(|(key, _)| (key.hash, Reverse(key.seq)));
    keys.dedup_by_key(|(key, _)| key.hash);
    let each = ALL as f64 / limit as f64;
    for (key, bytes) in keys.into_iter().filter(|(key, _)| !key.deleted) {
        ages.add(now.saturating_sub(key.seq), bytes * each);
    }
    ages
}

/// The hash below which all samples are whole, or a smaller one, so that not too many keys lie below.
fn limit(samples: &[(Sample, f64)]) -> u64 {
    let limit = samples.iter().map(|(sample, _)| sample.limit).min().unwrap_or(ALL);
    let below: usize = samples.iter().map(|(sample, _)| sample.below(limit).len()).sum();
    let looked_at = if below <= LOOKED_AT { limit } else { (limit as f64 * (LOOKED_AT as f64 / below as f64)) as u64 };
    looked_at.max(1)
}

#[cfg(test)]
mod tests;
