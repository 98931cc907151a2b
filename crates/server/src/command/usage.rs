//! Statistics of commands: calls, durations and errors.

use super::units::Units;
use sinterdb::clock::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Slots of a histogram per power of two, as a logarithm: a reported duration is within 6 % of the true one.
const PARTS_LOG2: u32 = 4;
const PARTS: usize = 1 << PARTS_LOG2;
/// Powers of two with slots of their own, from 1 ns to 17 minutes; longer durations are counted in the last slots.
const POWERS: usize = 40;
/// Kinds of errors counted separately: text from the network must not take unbounded memory.
const ERRORS: usize = 128;
/// Bytes of a kind's name, at most.
const ERROR_BYTES: usize = 32;

/// Histogram of durations, nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; POWERS * PARTS], total: 0 }
    }
}

fn slot(ns: u64) -> usize {
    let ns = ns.max(1);
    let power = ns.ilog2();
    // The bits behind the highest one are the index of the slot within the power.
    let part = if power >= PARTS_LOG2 { ns >> (power - PARTS_LOG2) } else { ns << (PARTS_LOG2 - power) };
    let place = usize::try_from(power).unwrap_or(POWERS) * PARTS + usize::try_from(part).unwrap_or(0) % PARTS;
    place.min(POWERS * PARTS - 1)
}

/// The largest duration that is counted in a slot, nanoseconds.
fn highest(slot: usize) -> u64 {
    let (power, part) = (slot / PARTS, (slot % PARTS) as u64);
    let whole = 1u64 << power;
    whole + ((whole * part) >> PARTS_LOG2) + (whole >> PARTS_LOG2).max(1) - 1
}

impl Histogram {
    fn add(&mut self, ns: u64) {
        self.counts[slot(ns)] += 1;
        self.total += 1;
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// The duration that `thousandths` of a percent of all did not exceed, nanoseconds.
    pub fn percentile(&self, thousandths: u64) -> u64 {
        let wanted = (self.total.saturating_mul(thousandths)).div_ceil(100_000).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, highest)
    }

    /// Cumulative counts: pairs of a duration in microseconds, about doubling, and the number of calls that took no longer. Pairs without a
    /// new call are left out.
    pub fn by_powers(&self) -> Vec<(u64, u64)> {
        let mut seen = 0;
        let mut all = Vec::new();
        for (power, parts) in self.counts.chunks(PARTS).enumerate() {
            let before = seen;
            seen += parts.iter().sum::<u64>();
            // The first pair covers everything below a microsecond, and each other one the durations below the next power.
            let end = 1u64 << (power + 1).max(10);
            let micros = (end + (end >> 7) - 1) / 1000;
            match all.last_mut() {
                Some((last, count)) if *last == micros => *count = seen,
                _ if seen > before => all.push((micros, seen)),
                _ => {}
            }
        }
        all
    }
}

/// Statistics of a command or subcommand since the start.
#[derive(Debug, Clone, Default)]
pub(super) struct Used {
    pub calls: u64,
    pub ns: u64,
    /// Calls that were refused and not run.
    pub rejected: u64,
    /// Calls that replied with an error.
    pub failed: u64,
    pub histogram: Option<Box<Histogram>>,
}

/// Counts of commands and errors.
#[derive(Debug)]
pub(super) struct Usage {
    units: &'static Units,
    /// Indexed by number of the unit.
    used: Vec<Used>,
    errors: BTreeMap<String, u64>,
}

impl Default for Usage {
    fn default() -> Self {
        let units = <&Units>::default();
        Usage { units, used: vec![Used::default(); units.all().len()], errors: BTreeMap::new() }
    }
}

impl Usage {
    /// Counts a call that has begun.
    pub fn called(&mut self, number: usize) {
        self.used[number].calls += 1;
    }

    /// Counts the duration and the outcome of a call. `tracks`: the duration also goes into the histogram.
    pub fn ended(&mut self, number: usize, ns: u64, failed: bool, tracks: bool) {
        let used = &mut self.used[number];
        used.ns += ns;
        used.failed += u64::from(failed);
        if tracks {
            used.histogram.get_or_insert_default().add(ns);
        }
    }

    /// Counts a call that was refused and not run.
    pub fn rejected(&mut self, number: usize) {
        self.used[number].rejected += 1;
    }

    /// Counts an error reply.
    pub fn error(&mut self, text: &[u8]) {
        let kind = text.split(|byte| *byte == b' ').next().filter(|kind| kind.len() < ERROR_BYTES && kind.len() < text.len());
        let kind = String::from_utf8_lossy(kind.unwrap_or(b"ERR"));
        if let Some(count) = self.errors.get_mut(&*kind) {
            *count += 1;
        } else if self.errors.len() < ERRORS {
            self.errors.insert(kind.into_owned(), 1);
        }
    }

    /// Units that were called, with name and statistics.
    pub fn used(&self) -> impl Iterator<Item = (&'static str, &Used)> {
        let names = self.units.all().iter().map(|unit| unit.name.as_str());
        names.zip(&self.used).filter(|(_, used)| used.calls + used.rejected + used.failed > 0)
    }

    pub fn of(&self, number: usize) -> &Used {
        &self.used[number]
    }

    pub fn errors(&self) -> impl Iterator<Item = (&str, u64)> {
        self.errors.iter().map(|(kind, count)| (kind.as_str(), *count))
    }
}

/// Measures commands with one reading of the clock for each: the end of one is the start of the client's next one. So the duration includes
/// reading the request.
#[derive(Debug)]
pub(super) struct Stopwatch {
    clock: Arc<dyn Clock>,
    last: u64,
}

impl Default for Stopwatch {
    fn default() -> Self {
        Stopwatch { clock: Arc::new(SystemClock::default()), last: 0 }
    }
}

impl Stopwatch {
    /// Starts anew, when no command ran just before; returns the time.
    pub fn start(&mut self) -> u64 {
        self.last = self.now();
        self.last
    }

    /// Uses another clock than the system's.
    #[cfg(test)]
    pub fn with(clock: Arc<dyn Clock>) -> Stopwatch {
        Stopwatch { clock, last: 0 }
    }

    /// Nanoseconds since some fixed point.
    pub fn now(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    /// Start of the running command, nanoseconds.
    pub fn begun(&self) -> u64 {
        self.last
    }

    /// Nanoseconds since `begun`; starts the next command.
    pub fn since(&mut self, begun: u64) -> u64 {
        self.last = self.now();
        self.last.saturating_sub(begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_near_where_they_are() {
        for ns in [1, 2, 3, 15, 16, 17, 999, 1000, 1024, 123_456, 999_999_999, 1 << 39] {
            let highest = highest(slot(ns));
            assert!(highest >= ns && highest - ns <= ns / 16, "{ns} {highest}");
        }
        assert_eq!(slot(0), slot(1));
        assert_eq!(slot(u64::MAX), POWERS * PARTS - 1);
    }

    #[test]
    fn percentiles_and_powers() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.percentile(50_000), histogram.by_powers()), (0, Vec::new()));
        for _ in 0..99 {
            histogram.add(500);
        }
        histogram.add(3_000_000);
        assert!(histogram.percentile(50_000) < 520 && histogram.percentile(99_000) < 520);
        assert!((3_000_000..3_200_000).contains(&histogram.percentile(99_900)));
        assert_eq!(histogram.by_powers(), [(1, 99), (4227, 100)]);
    }

    #[test]
    fn errors_are_counted_by_kind() {
        let mut usage = Usage::default();
        for text in ["ERR no", "WRONGTYPE x", "ERR again", "noblank"] {
            usage.error(text.as_bytes());
        }
        (0..1000).for_each(|n| usage.error(format!("E{n} x").as_bytes()));
        assert_eq!(usage.errors().find(|(kind, _)| *kind == "ERR"), Some(("ERR", 3)));
        assert_eq!(usage.errors().count(), ERRORS);
    }
}
