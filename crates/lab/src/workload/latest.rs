//! YCSB's `latest`: the newest inserts are requested most.

use super::random::Xoshiro256PlusPlus;
use super::zipf::Zipf;

/// Draws by age, with probability proportional to `1 / (age + 1)^alpha`: age 0 is the newest insert of this stream, and the loaded keys
/// are older than all inserts, the last one the youngest of them. (YCSB's `SkewedLatestGenerator` asks for inserts of all threads. Here
/// a thread knows only its own, so that its requests do not depend on the progress of others, and their keys always exist.)
#[derive(Debug, Clone)]
pub struct Latest {
    zipf: Zipf,
    loaded: u64,
    inserted: u64,
}

/// A drawn key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recent {
    /// The stream's own insert of this number, from 0.
    Inserted(u64),
    /// The loaded key of this number.
    Loaded(u64),
}

impl Latest {
    /// A distribution over `loaded` keys (at least 1), none inserted yet.
    pub fn new(loaded: u64, alpha: f64) -> Self {
        Latest { zipf: Zipf::new(loaded, alpha), loaded: loaded.max(1), inserted: 0 }
    }

    /// Counts another insert of the stream.
    #[inline]
    pub fn insert(&mut self) {
        self.inserted += 1;
        self.zipf.resize(self.loaded + self.inserted);
    }

    /// The next key.
    #[inline]
    pub fn draw(&self, random: &mut Xoshiro256PlusPlus) -> Recent {
        let age = self.zipf.draw(random);
        match self.inserted.checked_sub(age + 1) {
            Some(number) => Recent::Inserted(number),
            None => Recent::Loaded(self.loaded - 1 - (age - self.inserted)),
        }
    }
}
