//! The time that a drive takes: published figures of one, and sleeps that let it pass.

use super::rules::ZoneRecord;
use crate::store::Sleep;
use crate::zoned::ZoneState;
use parking_lot::Mutex;
use std::time::Duration;

/// Sleeps shorter than this are saved up: the kernel rounds them up by about 50 us each.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

const MIB: f64 = 1_048_576.0;

/// Times of the commands of a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    /// The least time of a write.
    pub write: Duration,
    /// The least time of an append.
    pub append: Duration,
    /// The least time that a write or append keeps all others of the drive waiting, whichever zone they go to.
    pub write_interval: Duration,
    /// Bytes per second of all writes together.
    pub write_rate: f64,
    /// Additional time of the first write of a zone that is not open.
    pub opening_write: Duration,
    /// Time of a read of one block. Reads do not wait for each other.
    pub read: Duration,
    /// Bytes per second of one read, beyond its first block.
    pub read_rate: f64,
    /// Explicit opening.
    pub open: Duration,
    /// Closing.
    pub close: Duration,
    /// Finishing a zone that holds nothing.
    pub finish_empty: Duration,
    /// Finishing any other zone, beside filling it.
    pub finish: Duration,
    /// Bytes per second at which finishing fills the rest of a zone.
    pub finish_rate: f64,
    /// Time of resetting a zone by bytes written in it: points of a curve, ascending.
    pub reset: Vec<(u64, Duration)>,
    /// Resetting a zone that was finished, in the same way.
    pub reset_finished: Vec<(u64, Duration)>,
    /// Making everything durable.
    pub flush: Duration,
}

impl Latency {
    /// The Western Digital Ultrastar DC ZN540 of 1 TB, as measured with SPDK at queue depth 1 (Doekemeijer and others, IEEE CLUSTER 2023;
    /// their raw data): writes of 4 to 128 KiB in 11.4 to 107 us and never more than 1,146 MiB/s, 182,000 of them per second over several
    /// zones, reads of 4 KiB in 72.6 us and 274,000 per second. A zone there holds 1,077 MiB. The cost of finish and reset goes by
    /// bytes, so that zones of another capacity cost in proportion; that is our inference. Not published, and free here: a flush, since the
    /// drive's cache outlives a power cut, and what a reset or finish does to the other zones.
    pub fn zn540() -> Self {
        let us = |us: f64| Duration::from_secs_f64(us / 1e6);
        let capacity = 1077.0 * MIB;
        let part = |share: f64| (share * capacity) as u64;
        Latency {
            write: us(11.4),
            append: us(14.0),
            write_interval: us(5.5),
            write_rate: 1146.0 * MIB,
            opening_write: us(2.0),
            read: us(72.6),
            read_rate: 274_000.0 * 4096.0,
            open: us(9.7),
            close: us(11.0),
            finish_empty: us(13.5),
            finish: us(2_600.0),
            finish_rate: capacity / 0.905,
            reset: vec![
                (0, us(1_690.0)),
                (part(0.0625), us(5_150.0)),
                (part(0.125), us(6_320.0)),
                (part(0.25), us(8_140.0)),
                (part(0.5), us(11_600.0)),
                (part(1.0), us(16_190.0)),
            ],
            reset_finished: vec![(0, us(1_600.0)), (part(1.0), us(15_400.0))],
            flush: Duration::ZERO,
        }
    }

    /// Finishing a zone that was like this.
    pub(super) fn finish_of(&self, before: &ZoneRecord) -> Duration {
        match before.state {
            ZoneState::Full => Duration::ZERO,
            _ if before.data == 0 => self.finish_empty,
            _ => self.finish + at_rate(before.capacity - before.data, self.finish_rate),
        }
    }

    /// Resetting a zone that was like this.
    pub(super) fn reset_of(&self, before: &ZoneRecord) -> Duration {
        let finished = before.state == ZoneState::Full && before.data < before.capacity;
        curve(if finished { &self.reset_finished } else { &self.reset }, before.data)
    }

    fn read_of(&self, bytes: u64, block: u64) -> Duration {
        self.read + at_rate(bytes.saturating_sub(block), self.read_rate)
    }

    /// The time that a write takes from all writers, and the time that it takes from its own zone on top.
    fn write_of(&self, append: bool, opening: bool, bytes: u64) -> (Duration, Duration) {
        let shared = self.write_interval.max(at_rate(bytes, self.write_rate));
        let least = if append { self.append } else { self.write };
        let opening = if opening { self.opening_write } else { Duration::ZERO };
        (shared, least.saturating_sub(shared) + opening)
    }
}

/// 0 means no limit.
fn at_rate(bytes: u64, rate: f64) -> Duration {
    if rate > 0.0 { Duration::from_secs_f64(bytes as f64 / rate) } else { Duration::ZERO }
}

/// The value at `x` of the line through the points, flat beyond them.
fn curve(points: &[(u64, Duration)], x: u64) -> Duration {
    let after = points.partition_point(|(at, _)| *at <= x);
    match (after.checked_sub(1).map(|before| points[before]), points.get(after)) {
        (Some((_, value)), None) => value,
        (None, Some(&(_, value))) => value,
        (None, None) => Duration::ZERO,
        (Some((x0, y0)), Some(&(x1, y1))) => {
            let share = (x - x0) as f64 / (x1 - x0) as f64;
            y0 + y1.saturating_sub(y0).mul_f64(share)
        }
    }
}

/// Time used up and not yet slept.
#[derive(Debug, Default)]
pub(super) struct Owed(Duration);

impl Owed {
    /// Adds time; returns the time to sleep now.
    fn add(&mut self, time: Duration) -> Duration {
        self.0 += time;
        if self.0 >= SHORTEST_SLEEP { std::mem::take(&mut self.0) } else { Duration::ZERO }
    }
}

/// Lets the time of a drive pass in the calling thread.
pub(super) struct Pace {
    pub(super) latency: Latency,
    sleep: Sleep,
    /// Kept taken while its time passes: all writes share the drive's bandwidth.
    writes: Mutex<Owed>,
    reads: Mutex<Owed>,
}

impl Pace {
    pub(super) fn new(latency: Latency, sleep: Sleep) -> Self {
        Pace { latency, sleep, writes: Mutex::default(), reads: Mutex::default() }
    }

    /// `zone` is what the zone owes, which the caller keeps locked.
    pub(super) fn write(&self, zone: &mut Owed, append: bool, opening: bool, bytes: u64) {
        let (shared, own) = self.latency.write_of(append, opening, bytes);
        {
            let mut writes = self.writes.lock();
            let now = writes.add(shared);
            self.pass(now);
        }
        self.pass(zone.add(own));
    }

    pub(super) fn read(&self, bytes: u64, block: u64) {
        let now = self.reads.lock().add(self.latency.read_of(bytes, block));
        self.pass(now);
    }

    pub(super) fn zone(&self, zone: &mut Owed, time: Duration) {
        self.pass(zone.add(time));
    }

    pub(super) fn pass(&self, time: Duration) {
        if !time.is_zero() {
            (self.sleep)(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(state: ZoneState, data: u64) -> ZoneRecord {
        ZoneRecord { state, capacity: 1077 << 20, data, opened: 0, resets: 0 }
    }

    fn millis(time: Duration) -> f64 {
        (time.as_secs_f64() * 1e5).round() / 100.0
    }

    #[test]
    fn the_published_figures_come_out() {
        let drive = Latency::zn540();
        let full = 1077u64 << 20;
        let finish = |share: f64| millis(drive.finish_of(&record(ZoneState::Closed, (share * full as f64) as u64)));
        assert_eq!(finish(0.0), 0.01, "nothing written: 13.5 us");
        for (share, published) in [(0.0001, 907.5), (0.0625, 848.0), (0.125, 793.0), (0.25, 681.0), (0.5, 457.0)] {
            let ours = finish(share);
            assert!((ours - published).abs() / published < 0.01, "finish at {share}: {ours} ms, published {published}");
        }
        assert_eq!(drive.finish_of(&record(ZoneState::Full, full)), Duration::ZERO);
        let reset = |state, share: f64| millis(drive.reset_of(&record(state, (share * full as f64) as u64)));
        for (share, published) in [(0.0, 1.69), (0.0625, 5.15), (0.25, 8.14), (0.375, 9.87), (0.5, 11.6), (1.0, 16.19)] {
            assert_eq!(reset(if share < 1.0 { ZoneState::Closed } else { ZoneState::Full }, share), published);
        }
        for (share, published) in [(0.0625, 2.51), (0.125, 3.36), (0.25, 5.07), (0.5, 8.52)] {
            assert!((reset(ZoneState::Full, share) - published).abs() < 0.1, "reset after finish at {share}");
        }
        for (kib, published) in [(4, 11.4), (8, 11.2), (16, 16.3), (32, 26.4), (128, 107.0)] {
            let (shared, own) = drive.write_of(false, false, kib << 10);
            let ours = (shared + own).as_secs_f64() * 1e6;
            assert!((ours - published).abs() / published < 0.17, "write of {kib} KiB: {ours} us, published {published}");
        }
    }

    #[test]
    fn short_times_are_saved_up_and_none_is_lost() {
        let slept = std::sync::Arc::new(Mutex::new(Vec::new()));
        let log = std::sync::Arc::clone(&slept);
        let pace = Pace::new(Latency::zn540(), std::sync::Arc::new(move |time| log.lock().push(time)));
        let mut zone = Owed::default();
        for i in 0..1000 {
            pace.write(&mut zone, false, i == 0, 4096);
        }
        let all: Duration = slept.lock().iter().sum();
        assert!(slept.lock().iter().all(|time| *time >= SHORTEST_SLEEP));
        assert!((9.4..11.5).contains(&(all.as_secs_f64() * 1e3)), "1,000 writes of 11.4 us, less than 1 ms owed twice: {all:?}");
        pace.read(4096, 4096);
        pace.zone(&mut zone, Duration::from_millis(3));
        assert!(slept.lock().last().is_some_and(|time| *time >= Duration::from_millis(3)));
    }
}
