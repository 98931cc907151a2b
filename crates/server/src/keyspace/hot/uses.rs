//! When keys were used last, and how often: five bytes for each entry in memory.
//!
//! Four bytes are the time of the last use, which repeats after 6.8 years. The fifth is the frequency, a logarithmic counter as in Redis
//! (Morris, "Counting Large Numbers of Events in Small Registers", CACM 1978): a new key has [`FIRST`], each use adds one with a
//! probability that falls as the counter grows, and minutes without use take from it.

/// Frequency of a new key.
const FIRST: u8 = 5;
/// Unit of the time of a use, milliseconds.
const TICK_MS: u64 = 50;

/// How uses are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counting {
    /// Whether uses change the frequency.
    pub is_on: bool,
    /// Slowness of the counter: with 10, it is full after about a million uses.
    pub log_factor: u64,
    /// Minutes without use that take one from the frequency; 0: none do.
    pub decay_minutes: u64,
    /// Whether the write of a key whose entry is not in memory counts for its admission, as keys are evicted by their uses.
    pub counts_writes: bool,
}

impl Default for Counting {
    fn default() -> Self {
        Counting { is_on: false, log_factor: 10, decay_minutes: 1, counts_writes: false }
    }
}

/// The present time, the way of counting, and a source of chance.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    /// Unix milliseconds.
    now: u64,
    pub counting: Counting,
    random: u64,
}

impl Clock {
    pub fn set(&mut self, unix_ms: u64) {
        self.now = unix_ms;
    }

    fn ticks(&self) -> u32 {
        // The lower half of the number.
        (self.now / TICK_MS) as u32
    }

    /// True once in `n` times.
    fn is_once_in(&mut self, n: u64) -> bool {
        // An LCG of Knuth's, whose upper bits are good enough.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (u128::from(self.random) * u128::from(n)) >> 64 == 0
    }
}

/// Last use and frequency of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Use {
    /// Time of the last use, in ticks.
    pub time: u32,
    /// Frequency at that time.
    pub frequency: u8,
}

impl Use {
    /// An entry that was not used since it is in memory.
    pub const NEVER: Use = Use { time: 0, frequency: 0 };

    /// Milliseconds since the last use, in steps of [`TICK_MS`]; `None`: there was none.
    pub fn idle_ms(self, clock: &Clock) -> Option<u64> {
        let passed = clock.ticks().wrapping_sub(self.time);
        // A clock that was set back shows a time before the last use.
        let idle = if passed > u32::MAX / 2 { 0 } else { passed };
        (self != Use::NEVER).then_some(u64::from(idle) * TICK_MS)
    }

    /// The frequency now.
    pub fn frequency_at(self, clock: &Clock) -> u8 {
        let Some(idle) = self.idle_ms(clock) else { return 0 };
        let minutes = (clock.now / 60_000).saturating_sub(clock.now.saturating_sub(idle) / 60_000);
        let lost = minutes.checked_div(clock.counting.decay_minutes).unwrap_or(0);
        self.frequency.saturating_sub(u8::try_from(lost).unwrap_or(u8::MAX))
    }

    /// The entry is used now.
    pub fn again(self, clock: &mut Clock) -> Use {
        let time = clock.ticks();
        if self == Use::NEVER {
            return Use { time, frequency: FIRST };
        }
        if !clock.counting.is_on {
            return Use { time, ..self };
        }
        let frequency = self.frequency_at(clock);
        let above = u64::from(frequency.saturating_sub(FIRST));
        let grows = clock.is_once_in(above.saturating_mul(clock.counting.log_factor).saturating_add(1));
        Use { time, frequency: frequency.saturating_add(u8::from(grows)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(seconds: u64) -> Clock {
        Clock { now: seconds * 1000, counting: Counting { is_on: true, ..Counting::default() }, random: 7 }
    }

    #[test]
    fn idle_times_are_those_since_the_last_use() {
        let start = 1_700_000_000;
        let used = Use::NEVER.again(&mut clock(start));
        let idle = |seconds| used.idle_ms(&clock(seconds));
        assert_eq!((idle(start), idle(start + 7), idle(start - 3)), (Some(0), Some(7_000), Some(0)));
        assert_eq!(idle(start + 100_000_000), Some(100_000_000_000));
        assert_eq!((Use::NEVER.idle_ms(&clock(start)), Use::NEVER.frequency_at(&clock(start))), (None, 0));
    }

    #[test]
    fn frequencies_grow_slower_and_slower_and_fade() {
        let mut clock = clock(600);
        let mut used = Use::NEVER.again(&mut clock);
        let mut seen = vec![used.frequency_at(&clock)];
        for upto in [1, 10, 100, 1000, 100_000] {
            (0..upto).for_each(|_| used = used.again(&mut clock));
            seen.push(used.frequency_at(&clock));
        }
        assert_eq!(seen[0], FIRST);
        assert!(seen.is_sorted() && (6..20).contains(&seen[3]) && (15..30).contains(&seen[4]) && (120..170).contains(&seen[5]), "{seen:?}");
        let full = seen[5];
        for (seconds, lost) in [(659, 0), (660, 1), (719, 1), (1200, 10)] {
            clock.now = seconds * 1000;
            assert_eq!(used.frequency_at(&clock), full - lost, "{seconds}");
        }
        clock.now = (600 + 60 * 1000) * 1000;
        assert_eq!(used.frequency_at(&clock), 0);
        clock.counting.decay_minutes = 0;
        assert_eq!(used.frequency_at(&clock), full);
        clock.counting.is_on = false;
        let later = used.again(&mut clock);
        assert_eq!((later.frequency_at(&clock), later.idle_ms(&clock)), (full, Some(0)));
    }
}
