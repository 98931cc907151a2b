//! How often commands ran, how long they took, and which errors there were.

use super::units;
use sinterdb::clock::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Parts of a power of two in a histogram: a count is within 6 % of where it says it is.
const PARTS_LOG2: u32 = 4;
const PARTS: usize = 1 << PARTS_LOG2;
/// Powers of two that are told apart, from 1 ns to 17 minutes; what took longer is counted with the longest.
const POWERS: usize = 40;
/// Kinds of errors that are told apart: text from the network must not take memory without end.
const ERRORS: usize = 128;
/// Bytes of such a kind.
const ERROR_BYTES: usize = 32;

/// How many took how long, nanoseconds.
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
    // The bits behind the first one say which part it is.
    let part = if power >= PARTS_LOG2 { ns >> (power - PARTS_LOG2) } else { ns << (PARTS_LOG2 - power) };
    let place = usize::try_from(power).unwrap_or(POWERS) * PARTS + usize::try_from(part).unwrap_or(0) % PARTS;
    place.min(POWERS * PARTS - 1)
}

/// The largest number that is counted in a slot.
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

    /// The time that so many thousandths of a percent did not exceed, nanoseconds.
    pub fn percentile(&self, thousandths: u64) -> u64 {
        let wanted = (self.total.saturating_mul(thousandths)).div_ceil(100_000).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, highest)
    }

    /// Microseconds, each about twice the one before, and how many took no longer; those alone at which the number grows.
    pub fn by_powers(&self) -> Vec<(u64, u64)> {
        let mut seen = 0;
        let mut all = Vec::new();
        for (power, parts) in self.counts.chunks(PARTS).enumerate() {
            let before = seen;
            seen += parts.iter().sum::<u64>();
            // What is below a microsecond is one line, and every line stands for the numbers below the next power.
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

/// What there is to know of a command or subcommand since the start.
#[derive(Debug, Clone, Default)]
pub(super) struct Used {
    pub calls: u64,
    pub ns: u64,
    /// It was not run.
    pub rejected: u64,
    /// It was run, and answered with an error.
    pub failed: u64,
    pub histogram: Option<Box<Histogram>>,
}

/// Counts of commands and errors.
#[derive(Debug)]
pub(super) struct Usage {
    /// By number of the unit.
    units: Vec<Used>,
    errors: BTreeMap<String, u64>,
}

impl Default for Usage {
    fn default() -> Self {
        Usage { units: vec![Used::default(); units::all().len()], errors: BTreeMap::new() }
    }
}

impl Usage {
    /// It ran for so long. `tracks`: the time goes into its histogram.
    pub fn called(&mut self, number: usize, ns: u64, failed: bool, tracks: bool) {
        let used = &mut self.units[number];
        used.calls += 1;
        used.ns += ns;
        used.failed += u64::from(failed);
        if tracks {
            used.histogram.get_or_insert_default().add(ns);
        }
    }

    /// It was not run.
    pub fn rejected(&mut self, number: usize) {
        self.units[number].rejected += 1;
    }

    /// An error was answered.
    pub fn error(&mut self, text: &[u8]) {
        let kind = text.split(|byte| *byte == b' ').next().filter(|kind| kind.len() < ERROR_BYTES && kind.len() < text.len());
        let kind = String::from_utf8_lossy(kind.unwrap_or(b"ERR"));
        if let Some(count) = self.errors.get_mut(&*kind) {
            *count += 1;
        } else if self.errors.len() < ERRORS {
            self.errors.insert(kind.into_owned(), 1);
        }
    }

    /// Everything that was used, with its name.
    pub fn used(&self) -> impl Iterator<Item = (&'static str, &Used)> {
        units::all().iter().map(|unit| unit.name.as_str()).zip(&self.units).filter(|(_, used)| used.calls + used.rejected + used.failed > 0)
    }

    pub fn of(&self, number: usize) -> &Used {
        &self.units[number]
    }

    pub fn errors(&self) -> impl Iterator<Item = (&str, u64)> {
        self.errors.iter().map(|(kind, count)| (kind.as_str(), *count))
    }
}

/// Takes the time of commands with one look at the clock for each: where one ends, the next one of the same client begins. So a command's
/// time has the reading of its request in it.
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
    /// Nothing ran just before.
    pub fn start(&mut self) {
        self.last = self.now();
    }

    /// Another clock than the system's.
    #[cfg(test)]
    pub fn with(clock: Arc<dyn Clock>) -> Stopwatch {
        Stopwatch { clock, last: 0 }
    }

    /// Nanoseconds since some fixed point.
    pub fn now(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    /// When what runs now began.
    pub fn begun(&self) -> u64 {
        self.last
    }

    /// Nanoseconds since then.
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
