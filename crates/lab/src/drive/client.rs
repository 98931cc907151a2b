//! The work of a client thread: one request after another against its session, each at its time. Buffers are made before the first; from
//! then on nothing here allocates, prints or locks.

use super::gauge::{Done, Gauge};
use super::requests::{Key, Operation, Request, Requests};
use crate::run::Pace;
use crate::target::{Outcome, Scan, Session};
use crate::workload::{KeyCoder, ValuePool, Values};
use sinterdb::clock::{Clock, SystemClock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest wait without a sleep, nanoseconds: shorter waits yield, because a sleep may end this much too late.
const SLEEP_SLACK_NS: u64 = 100_000;
/// Longest sleep, nanoseconds, so that the end of the phase is noticed.
const LONGEST_SLEEP_NS: u64 = 100_000_000;

/// Start and end of a thread's operations.
pub(super) struct Schedule<'a> {
    pub clock: &'a SystemClock,
    /// Flags that end the thread when raised: the user's, and that of a failed thread.
    pub flags: [&'a AtomicBool; 2],
    pub start_ns: u64,
    /// Operations that start earlier are warm-up.
    pub warm_until_ns: u64,
    pub deadline_ns: u64,
    pub pace: Pace,
    /// Number of this thread among the `threads` of the phase.
    pub thread: u64,
    pub threads: u64,
}

impl Schedule<'_> {
    /// Returns the moment at which operation `nth` of this thread begins, if the last one ended at `last_ns`; `None` if the phase is over.
    /// In an open loop all threads together start at equal distances, and a start that has passed is not moved: the wait counts as latency.
    /// If the next start lies behind the end of the phase, waits for that end: the time without a request belongs to the phase.
    #[inline]
    pub fn begin(&self, nth: u64, last_ns: u64) -> Option<u64> {
        let begin = match self.pace {
            Pace::Closed | Pace::Trace => last_ns,
            Pace::Open(rate) => self.intended(nth, rate),
        };
        if begin > last_ns && !self.wait(begin.min(self.deadline_ns)) {
            return None;
        }
        (!self.is_over(begin.max(last_ns))).then_some(begin)
    }

    /// Intended start of operation `nth` of this thread, at `rate` operations per second of all threads.
    #[inline]
    fn intended(&self, nth: u64, rate: f64) -> u64 {
        self.start_ns.saturating_add((nth.saturating_mul(self.threads).saturating_add(self.thread) as f64 * 1e9 / rate) as u64)
    }

    /// Waiting times at `now_ns` of the operations of an open loop, from `nth` to `count`, that should have begun before the end of the
    /// phase. Empty for a phase that a flag ended, which nobody measures.
    fn waiting(&self, nth: u64, count: u64, now_ns: u64) -> impl Iterator<Item = u64> {
        let rate = if let Pace::Open(rate) = self.pace { Some(rate) } else { None };
        let begins = rate.into_iter().flat_map(move |rate| (nth..count).map(move |nth| self.intended(nth, rate)));
        begins.take_while(|begin| *begin < self.deadline_ns && !self.is_stopped()).map(move |begin| now_ns.saturating_sub(begin))
    }

    #[inline]
    fn is_over(&self, at_ns: u64) -> bool {
        at_ns >= self.deadline_ns || self.is_stopped()
    }

    #[inline]
    fn is_stopped(&self) -> bool {
        self.flags.iter().any(|flag| flag.load(Ordering::Relaxed))
    }

    /// Waits for a moment; false if the phase was ended meanwhile.
    pub fn wait(&self, until_ns: u64) -> bool {
        loop {
            let now = self.clock.monotonic_ns();
            if now >= until_ns {
                return true;
            }
            if self.is_over(now) {
                return false;
            }
            let left = until_ns - now;
            if left > SLEEP_SLACK_NS {
                std::thread::sleep(Duration::from_nanos((left - SLEEP_SLACK_NS).min(LONGEST_SLEEP_NS)));
            } else {
                std::thread::yield_now();
            }
        }
    }
}

/// A thread's session and buffers.
pub(super) struct Client<'a, S> {
    session: S,
    family: usize,
    values: Values<'a>,
    out: Vec<u8>,
}

impl<'a, S: Session> Client<'a, S> {
    pub fn new(session: S, pool: &'a ValuePool) -> Self {
        let values = pool.values();
        Client { session, family: 0, out: Vec::with_capacity(pool.value_size()), values }
    }

    /// Does `operation`; `size` is that of the value, or the number of entries to scan.
    #[inline]
    pub fn act(&mut self, operation: Operation, family: usize, key: &[u8], size: usize) -> Outcome<Done> {
        if family != self.family {
            self.session.choose(family);
            self.family = family;
        }
        match operation {
            Operation::Get | Operation::GetMissing => self.get(key),
            Operation::Put | Operation::Insert => self.put(key, size),
            Operation::ReadModifyWrite => {
                let read = self.get(key)?;
                let put = self.put(key, size)?;
                Ok(Done { bytes: read.bytes + put.bytes, written: put.written, ..read })
            }
            Operation::Delete => {
                self.session.delete(key)?;
                let bytes = key.len() as u64;
                Ok(Done { bytes, written: bytes, ..Done::default() })
            }
            Operation::Scan => self.scan(key, size),
            Operation::Command => Err("only servers are sent commands".into()),
        }
    }

    #[inline]
    fn get(&mut self, key: &[u8]) -> Outcome<Done> {
        let found = self.session.get(key, &mut self.out)?;
        let bytes = if found { (key.len() + self.out.len()) as u64 } else { 0 };
        Ok(Done { bytes, written: 0, asked: 1, found: found.into() })
    }

    #[inline]
    fn put(&mut self, key: &[u8], size: usize) -> Outcome<Done> {
        let value = self.values.of_size(size);
        self.session.put(key, value)?;
        let bytes = (key.len() + value.len()) as u64;
        Ok(Done { bytes, written: bytes, ..Done::default() })
    }

    /// A new iterator, a seek, and up to `length` entries whose values are copied out.
    fn scan(&mut self, key: &[u8], length: usize) -> Outcome<Done> {
        let mut scan = self.session.scan()?;
        scan.seek(key)?;
        let mut bytes = 0;
        for _ in 0..length {
            let Some((key, value)) = scan.entry() else { break };
            bytes += (key.len() + value.len()) as u64;
            self.out.clear();
            self.out.extend_from_slice(value);
            scan.advance()?;
        }
        Ok(Done { bytes, ..Done::default() })
    }

    /// Makes `count` requests, or fewer if the schedule ends before. As in `bench`, the end of one is the start of the next in a closed
    /// loop: making the request, some tens of nanoseconds, is part of its latency. Requests of an open loop that the engine left no time
    /// for would have had the longest latencies: their wait until the end counts as latency.
    pub fn run(mut self, mut requests: Requests<'_>, coder: KeyCoder, count: u64, schedule: &Schedule<'_>, gauge: &Gauge) -> Outcome<()> {
        let mut key = KeyBuffer::new(coder);
        let (mut nth, mut last) = (0, schedule.start_ns);
        while nth < count {
            let Some(begin) = schedule.begin(nth, last) else { break };
            // A late operation counts from its intended start, and is warm-up if it really started in the warm-up.
            let warming = begin.max(last) < schedule.warm_until_ns;
            let request = requests.next_request();
            let done = self.act(request.operation, request.family, key.of(&request), request.size)?;
            last = schedule.clock.monotonic_ns();
            gauge.record(request.kind, warming, last.saturating_sub(begin), &done);
            nth += 1;
        }
        let now = schedule.clock.monotonic_ns();
        gauge.end(now);
        schedule.waiting(nth, count, now).for_each(|waited| gauge.miss(requests.next_request().kind, waited));
        Ok(())
    }
}

/// The bytes of a request's key.
struct KeyBuffer {
    coder: KeyCoder,
    /// The key, and the character that makes a missing key of it.
    bytes: Vec<u8>,
    /// Whether the padding was overwritten.
    inserted: bool,
}

impl KeyBuffer {
    fn new(coder: KeyCoder) -> Self {
        let mut bytes = coder.buffer();
        bytes.push(b'0');
        KeyBuffer { coder, bytes, inserted: false }
    }

    #[inline]
    fn of(&mut self, request: &Request) -> &[u8] {
        if self.inserted {
            self.coder.pad(&mut self.bytes);
            self.inserted = false;
        }
        match request.key {
            Key::Loaded(number) => self.coder.write(number, &mut self.bytes),
            Key::Inserted { neighbour, number } => {
                self.coder.write_inserted(neighbour, number, &mut self.bytes);
                self.inserted = true;
            }
        }
        if request.operation == Operation::GetMissing { &self.bytes } else { &self.bytes[..self.bytes.len() - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule<'a>(clock: &'a SystemClock, flag: &'a AtomicBool, pace: Pace) -> Schedule<'a> {
        Schedule { clock, flags: [flag, flag], start_ns: 0, warm_until_ns: 0, deadline_ns: u64::MAX, pace, thread: 1, threads: 2 }
    }

    #[test]
    fn an_open_loop_does_not_wait_for_the_engine() {
        let (clock, flag) = (SystemClock::default(), AtomicBool::new(false));
        let open = schedule(&clock, &flag, Pace::Open(1000.0));
        // Far behind schedule: operations keep their intended starts, every second one of 1000 per second.
        let late = 60_000_000_000;
        let begin = [0, 1, 500].map(|nth| open.begin(nth, late));
        assert_eq!(begin, [Some(1_000_000), Some(3_000_000), Some(1_001_000_000)]);
        let closed = schedule(&clock, &flag, Pace::Closed);
        assert_eq!(closed.begin(500, late), Some(late));
    }

    #[test]
    fn what_never_began_has_waited() {
        let (clock, flag) = (SystemClock::default(), AtomicBool::new(false));
        let mut open = schedule(&clock, &flag, Pace::Open(1000.0));
        open.deadline_ns = 6_000_000;
        // Meant for 1, 3 and 5 ms.
        let waiting = |open: &Schedule<'_>, nth, count| open.waiting(nth, count, 9_000_000).collect::<Vec<_>>();
        assert_eq!(waiting(&open, 0, u64::MAX), [8_000_000, 6_000_000, 4_000_000]);
        assert_eq!(waiting(&open, 1, 2), [6_000_000]);
        assert_eq!(waiting(&open, 3, u64::MAX), [0_u64; 0]);
        open.pace = Pace::Closed;
        assert_eq!(waiting(&open, 0, u64::MAX), [0_u64; 0]);
        open.pace = Pace::Open(1000.0);
        flag.store(true, Ordering::Relaxed);
        assert_eq!(waiting(&open, 0, u64::MAX), [0_u64; 0], "stopped");
    }

    #[test]
    fn a_phase_ends_while_it_waits() {
        let (clock, flag) = (SystemClock::default(), AtomicBool::new(true));
        assert_eq!(schedule(&clock, &flag, Pace::Open(0.001)).begin(1, 0), None, "stopped");
        let running = AtomicBool::new(false);
        let mut open = schedule(&clock, &running, Pace::Open(1000.0));
        open.deadline_ns = 2_000_000;
        assert!(open.begin(0, 0).is_some(), "a wait of a millisecond");
        assert_eq!(open.begin(1, 0), None, "it would begin behind the end");
        assert!(clock.monotonic_ns() >= 2_000_000, "and the end is waited for");
        assert_eq!(open.begin(0, 2_000_000), None, "the engine was too slow");
    }

    #[test]
    fn keys_of_all_kinds_take_turns() {
        let mut key = KeyBuffer::new(KeyCoder::new(16));
        let mut of = |operation, which| key.of(&Request { kind: 0, operation, family: 0, key: which, size: 0 }).to_vec();
        assert_eq!(of(Operation::Get, Key::Loaded(7)), b"\0\0\0\0\0\0\0\x0700000000");
        assert_eq!(of(Operation::Insert, Key::Inserted { neighbour: 7, number: 1 }), b"\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x01");
        assert_eq!(of(Operation::GetMissing, Key::Loaded(7)), b"\0\0\0\0\0\0\0\x07000000000");
        assert_eq!(of(Operation::Put, Key::Loaded(8)), b"\0\0\0\0\0\0\0\x0800000000");
    }
}
