//! The work of a client thread: one request after another against its session, each at its time. Buffers are made before the first; from
//! then on nothing here allocates, prints or locks. Calls are counted and timed by a `Meter`.

use super::gauge::{Done, Gauge};
use super::pacer::Pacer;
use super::requests::{Key, Only, Operation, Request, Requests};
use crate::run::Pace;
use crate::system::{Outcome, Scan, Session};
use crate::workload::{KeyCoder, ValuePool, Values};
use sinterdb::clock::{Clock, SystemClock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Waits of at most so many nanoseconds yield instead of sleeping, because a sleep may end this much too late.
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
    /// In an open loop, the starts of all threads together are equally spaced. A start that has passed is not moved: the delay counts as
    /// latency.
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

/// Number of calls between two looks at the clock where nothing is timed, as a power of two.
const CALLS_PER_LOOK_LOG2: u32 = 10;

/// Counts, times and ends the calls of a thread.
pub(super) struct Meter<'a> {
    schedule: &'a Schedule<'a>,
    gauge: &'a Gauge,
    /// Holds puts to a rate.
    pacer: Option<&'a Pacer>,
    timed: bool,
    /// Operations to do, and operations done.
    count: u64,
    nth: u64,
    /// Start of the current call, and end of the last one (or the last look at the clock).
    begin_ns: u64,
    last_ns: u64,
}

impl<'a> Meter<'a> {
    pub fn new(schedule: &'a Schedule<'a>, gauge: &'a Gauge, count: u64, timed: bool, pacer: Option<&'a Pacer>) -> Self {
        Meter { schedule, gauge, pacer, timed, count, nth: 0, begin_ns: schedule.start_ns, last_ns: schedule.start_ns }
    }

    /// Whether there is another call to make; waits for its start.
    #[inline(always)]
    fn more(&mut self) -> bool {
        let begin = if self.nth < self.count { self.schedule.begin(self.nth, self.last_ns) } else { None };
        self.begin_ns = begin.unwrap_or(self.begin_ns);
        begin.is_some()
    }

    /// Size of the next batch: at most `wanted`, and not beyond the count.
    #[inline]
    fn batch(&self, wanted: u64) -> u64 {
        wanted.min(self.count - self.nth)
    }

    /// Waits until the rate allows `bytes` more, or the phase ends. The call starts behind the wait.
    #[inline]
    fn pace(&mut self, bytes: u64) {
        let Some(pacer) = self.pacer else { return };
        self.last_ns = pacer.wait(bytes, self.schedule.clock, |now| self.schedule.is_over(now));
        self.begin_ns = self.last_ns;
    }

    /// Counts a call of `operations`. In a closed loop, its end is the start of the next call: making the request, some tens of
    /// nanoseconds, is part of its latency.
    #[inline(always)]
    fn done(&mut self, kind: usize, operations: u64, done: &Done) {
        // A late operation counts from its intended start, and is warm-up if it really started in the warm-up.
        let warming = self.begin_ns.max(self.last_ns) < self.schedule.warm_until_ns;
        let before = self.nth;
        self.nth += operations;
        if self.timed {
            self.last_ns = self.schedule.clock.monotonic_ns();
            self.gauge.time(kind, warming, self.last_ns.saturating_sub(self.begin_ns));
        } else if before >> CALLS_PER_LOOK_LOG2 != self.nth >> CALLS_PER_LOOK_LOG2 {
            self.last_ns = self.schedule.clock.monotonic_ns();
        }
        self.gauge.count(warming, operations, done);
    }

    /// Ends the measured time. In an open loop, requests that were due and could not start in time would have had the longest latencies:
    /// their wait until the end counts as latency. `kind` gives the kind of the next request.
    fn end(self, mut kind: impl FnMut() -> usize) {
        let now = self.schedule.clock.monotonic_ns();
        self.gauge.end(now);
        self.schedule.waiting(self.nth, self.count, now).for_each(|waited| self.gauge.miss(kind(), waited));
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

    #[inline]
    fn choose(&mut self, family: usize) {
        if family != self.family {
            self.session.choose(family);
            self.family = family;
        }
    }

    /// Does `operation`; `size` is that of the value, or the number of entries to read.
    #[inline]
    pub fn act(&mut self, operation: Operation, family: usize, key: &[u8], size: usize) -> Outcome<Done> {
        self.choose(family);
        match operation {
            Operation::Get | Operation::GetMissing => self.get(key),
            Operation::Put | Operation::Insert => self.put(key, size),
            Operation::ReadModifyWrite => self.update(key, size),
            Operation::Delete => self.delete(key),
            Operation::Scan => self.scan(key, size, false),
            Operation::Seek => self.scan(key, size, true),
            Operation::Walk | Operation::WalkBack => Err("a walk is the only operation of a phase".into()),
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
        self.session.put(key, self.values.of_size(size))?;
        let bytes = (key.len() + size) as u64;
        Ok(Done { bytes, written: bytes, ..Done::default() })
    }

    #[inline]
    fn update(&mut self, key: &[u8], size: usize) -> Outcome<Done> {
        let read = self.get(key)?;
        let put = self.put(key, size)?;
        Ok(Done { bytes: read.bytes + put.bytes, written: put.written, ..read })
    }

    #[inline]
    fn delete(&mut self, key: &[u8]) -> Outcome<Done> {
        self.session.delete(key)?;
        let bytes = key.len() as u64;
        Ok(Done { bytes, written: bytes, ..Done::default() })
    }

    /// A new iterator, a seek, and up to `length` entries whose values are copied out. `asks`: counts whether the key exists.
    #[inline]
    fn scan(&mut self, key: &[u8], length: usize, asks: bool) -> Outcome<Done> {
        let mut scan = self.session.scan()?;
        scan.seek(key)?;
        let found = asks && scan.entry().is_some_and(|(there, _)| there == key);
        let mut bytes = 0;
        for _ in 0..length {
            let Some((key, value)) = scan.entry() else { break };
            bytes += (key.len() + value.len()) as u64;
            self.out.clear();
            self.out.extend_from_slice(value);
            scan.advance()?;
        }
        Ok(Done { bytes, written: 0, asked: asks.into(), found: found.into() })
    }

    /// Makes the requests until the meter ends, `batch` of them in a call.
    pub fn run(mut self, mut requests: Requests<'_>, coder: KeyCoder, batch: u64, mut meter: Meter<'_>) -> Outcome<()> {
        let key = KeyBuffer::new(coder);
        let outcome = match requests.only() {
            Some(only) => self.only(only, key, batch, &mut meter),
            None => self.mixed(&mut requests, key, &mut meter),
        };
        meter.end(|| requests.next_request().kind);
        outcome
    }

    /// Requests of several kinds.
    fn mixed(&mut self, requests: &mut Requests<'_>, mut key: KeyBuffer, meter: &mut Meter<'_>) -> Outcome<()> {
        while meter.more() {
            let request = requests.next_request();
            let bytes = key.of(&request);
            if request.operation.writes_value() {
                meter.pace((bytes.len() + request.size) as u64);
            }
            let done = self.act(request.operation, request.family, bytes, request.size)?;
            meter.done(request.kind, 1, &done);
        }
        Ok(())
    }

    /// Requests of one kind. Each kind has a loop of its own, so that nothing about the kind is decided for each request.
    fn only(&mut self, only: Only<'_>, mut key: KeyBuffer, batch: u64, meter: &mut Meter<'_>) -> Outcome<()> {
        self.choose(only.family);
        let key = key.buffer(only.operation);
        match only.operation {
            Operation::Get | Operation::GetMissing if batch > 1 => self.multi_get(only, key, batch, meter),
            Operation::Put | Operation::Delete if batch > 1 => self.batches(only, key, batch, meter),
            Operation::Get | Operation::GetMissing => self.each(only, key, meter, |client, key, _, _| client.get(key)),
            Operation::Put => self.each(only, key, meter, |client, key, only, meter| {
                let size = only.value_size();
                meter.pace((key.len() + size) as u64);
                client.put(key, size)
            }),
            Operation::ReadModifyWrite => self.each(only, key, meter, |client, key, only, meter| {
                let size = only.value_size();
                meter.pace((key.len() + size) as u64);
                client.update(key, size)
            }),
            Operation::Delete => self.each(only, key, meter, |client, key, _, _| client.delete(key)),
            Operation::Scan | Operation::Seek => {
                let asks = only.operation == Operation::Seek;
                self.each(only, key, meter, |client, key, only, _| client.scan(key, only.length(), asks))
            }
            Operation::Walk | Operation::WalkBack => self.walk(&only, meter),
            other @ (Operation::Insert | Operation::Command) => self.act(other, only.family, key.1, 0).map(|_| ()),
        }
    }

    /// Calls `act` at one key after the other.
    #[inline]
    fn each(
        &mut self,
        mut only: Only<'_>,
        (coder, key): (KeyCoder, &mut [u8]),
        meter: &mut Meter<'_>,
        act: impl Fn(&mut Self, &[u8], &mut Only<'_>, &mut Meter<'_>) -> Outcome<Done>,
    ) -> Outcome<()> {
        while meter.more() {
            coder.write(only.number(), key);
            let done = act(self, key, &mut only, meter)?;
            meter.done(only.kind, 1, &done);
        }
        Ok(())
    }

    /// Write batches of puts or deletes.
    fn batches(&mut self, mut only: Only<'_>, (coder, key): (KeyCoder, &mut [u8]), batch: u64, meter: &mut Meter<'_>) -> Outcome<()> {
        let puts = only.operation == Operation::Put;
        while meter.more() {
            let (count, mut bytes) = (meter.batch(batch), 0);
            for _ in 0..count {
                coder.write(only.number(), key);
                bytes += key.len() as u64;
                if puts {
                    let value = self.values.of_size(only.value_size());
                    bytes += value.len() as u64;
                    self.session.stage_put(key, value);
                } else {
                    self.session.stage_delete(key);
                }
            }
            if puts {
                meter.pace(bytes);
            }
            self.session.commit()?;
            meter.done(only.kind, count, &Done { bytes, written: bytes, ..Done::default() });
        }
        Ok(())
    }

    fn multi_get(&mut self, mut only: Only<'_>, (coder, key): (KeyCoder, &mut [u8]), batch: u64, meter: &mut Meter<'_>) -> Outcome<()> {
        let size = key.len();
        let mut buffers = key.repeat(batch as usize);
        let mut spare: Vec<&[u8]> = Vec::with_capacity(batch as usize);
        while meter.more() {
            let count = meter.batch(batch);
            buffers.chunks_exact_mut(size).take(count as usize).for_each(|key| coder.write(only.number(), key));
            let mut keys = recycle(spare);
            keys.extend(buffers.chunks_exact(size).take(count as usize));
            let mut done = Done { asked: count, ..Done::default() };
            self.session.multi_get(&keys, |value| {
                done.found += 1;
                done.bytes += (size + value.len()) as u64;
            })?;
            spare = recycle(keys);
            meter.done(only.kind, count, &done);
        }
        Ok(())
    }

    /// Steps of one iterator, until the data ends.
    fn walk(&mut self, only: &Only<'_>, meter: &mut Meter<'_>) -> Outcome<()> {
        let forward = only.operation == Operation::Walk;
        let mut scan = self.session.scan()?;
        if forward {
            scan.seek_first()?
        } else {
            scan.seek_last()?
        }
        while meter.more() {
            let Some((key, value)) = scan.entry() else { break };
            let bytes = (key.len() + value.len()) as u64;
            if forward {
                scan.advance()?
            } else {
                scan.retreat()?
            }
            meter.done(only.kind, 1, &Done { bytes, ..Done::default() });
        }
        Ok(())
    }
}

/// Empties a list of borrowed keys and keeps its memory for keys with another lifetime: collecting in place allocates nothing.
fn recycle<'b>(mut keys: Vec<&[u8]>) -> Vec<&'b [u8]> {
    keys.clear();
    keys.into_iter().map(|_| -> &'b [u8] { &[] }).collect()
}

/// The bytes of a request's key.
struct KeyBuffer {
    coder: KeyCoder,
    /// The key, and the character that makes a missing key of it.
    bytes: Vec<u8>,
    /// Whether the last key was an inserted one, which has overwritten the padding.
    inserted: bool,
}

impl KeyBuffer {
    fn new(coder: KeyCoder) -> Self {
        let mut bytes = coder.buffer();
        bytes.push(b'0');
        KeyBuffer { coder, bytes, inserted: false }
    }

    /// The coder, and the buffer for keys of one operation.
    fn buffer(&mut self, operation: Operation) -> (KeyCoder, &mut [u8]) {
        let length = self.bytes.len() - usize::from(operation != Operation::GetMissing);
        (self.coder, &mut self.bytes[..length])
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
