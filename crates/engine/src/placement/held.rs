//! How old the bytes of a table are, as it was written: stored with it, so that a database that is opened knows at once what a budget
//! holds.

use super::ages::Ages;
use crate::coding::{Decoder, put_varint};
use crate::key::Seq;

/// The bytes of keys and values of one table by age, seen from one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// The newest sequence number at that moment.
    at: Seq,
    ages: Ages,
}

/// What is known of the ages in one table.
#[derive(Debug, Clone, Copy)]
pub struct Holding<'a> {
    /// Bytes of its file.
    pub bytes: u64,
    /// Its oldest and newest sequence number.
    pub seqs: (Seq, Seq),
    /// Its [`Held`] in its format; empty if it does not tell.
    pub held: &'a [u8],
}

impl Held {
    /// Nothing yet; `at` is the newest sequence number there is.
    pub fn new(at: Seq) -> Self {
        Held { at, ages: Ages::default() }
    }

    /// An entry with so many bytes of key and value.
    #[inline]
    pub fn add(&mut self, seq: Seq, bytes: u64) {
        self.ages.add(self.at.saturating_sub(seq), bytes as f64);
    }

    /// Appends the format: the moment, then the bytes by age ([`Ages::encode`]).
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.at);
        self.ages.encode(out);
    }

    /// Reads the format; `None` if it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Held> {
        let mut from = Decoder::new(bytes);
        let held = Held { at: from.varint()?, ages: Ages::decode(&mut from)? };
        from.is_empty().then_some(held)
    }
}

impl Holding<'_> {
    /// Adds the table's bytes by the ages that they have at `now`. Of a table that does not tell, they are taken to be written evenly
    /// between its oldest and its newest number.
    pub fn add_to(&self, ages: &mut Ages, now: Seq) {
        let held = Held::decode(self.held).map(|held| (held.ages.total(), held)).filter(|(total, _)| *total > 0.0);
        match held {
            Some((total, held)) => ages.add_aged(&held.ages, now.saturating_sub(held.at), self.bytes as f64 / total),
            None => {
                let (oldest, newest) = self.seqs;
                ages.spread(now.saturating_sub(newest) as f64, now.saturating_sub(oldest) as f64 + 1.0, self.bytes as f64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_grow_older() {
        let mut held = Held::new(1000);
        held.add(1000, 10);
        held.add(500, 30);
        let mut bytes = Vec::new();
        held.encode(&mut bytes);
        assert_eq!(Held::decode(&bytes), Some(held.clone()));
        for n in 0..bytes.len() {
            assert_eq!(Held::decode(&bytes[..n]), None, "cut at {n}");
        }
        let at = |now: Seq| {
            let mut ages = Ages::default();
            // The file is half as large as what it holds.
            Holding { bytes: 20, seqs: (500, 1000), held: &bytes }.add_to(&mut ages, now);
            ages
        };
        let (then, later) = (at(1000), at(2000));
        assert!((then.total() - 20.0).abs() < 1e-9 && (later.total() - 20.0).abs() < 1e-9);
        assert_eq!([2, 448, 512].map(|age| then.younger(age)), [5.0, 5.0, 20.0]);
        assert_eq!(later.younger(896), 0.0);
        assert!((later.younger(1281) - 5.0).abs() < 1.0, "{}", later.younger(1281));
        assert!((later.younger(1600) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn a_table_that_does_not_tell_is_even() {
        let mut ages = Ages::default();
        Holding { bytes: 100, seqs: (1001, 2000), held: &[] }.add_to(&mut ages, 2000);
        assert!((ages.total() - 100.0).abs() < 1e-9);
        for age in [100u64, 250, 500, 999] {
            assert!((ages.younger(age) - age as f64 / 10.0).abs() < 3.0, "{age}: {}", ages.younger(age));
        }
        let mut old = Ages::default();
        Holding { bytes: 100, seqs: (0, 0), held: &[] }.add_to(&mut old, 0);
        assert!((old.total() - 100.0).abs() < 1e-9);
    }
}
