//! Observed lifetimes of files, for estimates of future ones. Time is counted in bytes written by the host, because a table dies once
//! enough has been written above it, however long that takes.

use super::format::{About, KeyRange};
use std::collections::{BTreeMap, VecDeque};

/// Deaths that are remembered per family and level.
const REMEMBERED: usize = 64;

/// An expected life is the mean over this many observed lives, those nearest by key (among equals the latest).
const NEIGHBOURS: usize = 8;

/// Life assumed for a file of level 0 before any has died, bytes; it doubles with each level.
const GUESS: u64 = 256 << 20;

/// The last deaths of each family and level.
#[derive(Debug, Clone, Default)]
pub struct Lives {
    deaths: BTreeMap<(u32, u8), VecDeque<Death>>,
}

#[derive(Debug, Clone, Copy)]
struct Death {
    /// Position of the file's keys on the line of keys.
    key: u64,
    life: u64,
}

/// The place of a key range on a line: the first bytes of its middle.
fn place(keys: Option<&KeyRange>) -> Option<u64> {
    let number = |key: &[u8]| (0..8).fold(0u64, |n, i| n << 8 | u64::from(key.get(i).copied().unwrap_or(0)));
    keys.map(|(smallest, largest)| {
        let (from, to) = (number(smallest), number(largest));
        from / 2 + to / 2
    })
}

impl Lives {
    /// A file has died when the clock showed `now`.
    pub fn observe(&mut self, about: &About, now: u64) {
        let Some(key) = place(about.keys.as_ref()) else { return };
        let deaths = self.deaths.entry((about.family, about.level)).or_default();
        if deaths.len() == REMEMBERED {
            deaths.pop_front();
        }
        deaths.push_back(Death { key, life: now.saturating_sub(about.born) });
    }

    /// Expected life of a file, bytes: the mean of observed lives of files of its family and level with the nearest keys.
    pub fn expect(&self, family: u32, level: u8, keys: Option<&KeyRange>) -> u64 {
        let guess = GUESS << level.min(12);
        let Some(deaths) = self.deaths.get(&(family, level)).filter(|deaths| !deaths.is_empty()) else { return guess };
        let mut near: Vec<Death> = deaths.iter().rev().copied().collect();
        if let Some(key) = place(keys) {
            near.sort_by_key(|death| death.key.abs_diff(key));
            near.truncate(NEIGHBOURS);
        }
        let sum = near.iter().map(|death| death.life).fold(0, u64::saturating_add);
        sum / near.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(level: u8, key: &[u8], born: u64) -> About {
        About { level, born, keys: Some((key.to_vec(), key.to_vec())), ..About::default() }
    }

    #[test]
    fn neighbours_tell_how_long_a_file_lives() {
        let mut lives = Lives::default();
        assert!(lives.expect(0, 1, None) > lives.expect(0, 0, None), "deeper lives longer, before anything is known");
        for n in 0..10 {
            lives.observe(&about(1, b"aaa", n * 1000), n * 1000 + 100);
            lives.observe(&about(1, b"zzz", n * 1000), n * 1000 + 50_000);
        }
        let range = |key: &[u8]| (key.to_vec(), key.to_vec());
        assert_eq!(lives.expect(0, 1, Some(&range(b"aab"))), 100);
        assert_eq!(lives.expect(0, 1, Some(&range(b"zz"))), 50_000);
        assert_eq!(lives.expect(0, 1, None), 25_050, "the average, if the keys are not known");
        for _ in 0..REMEMBERED {
            lives.observe(&about(1, b"mmm", 0), 7);
        }
        assert_eq!(lives.expect(0, 1, Some(&range(b"zz"))), 7, "the past is forgotten");
    }
}
