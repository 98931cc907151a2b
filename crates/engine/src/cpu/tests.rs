use super::*;
use crate::clock::SystemClock;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A made-up system in which files can be changed.
struct Made(tempfile::TempDir);

impl Made {
    /// Two processors, one unified tree, the process in `/box`.
    fn new() -> Self {
        let made = Made(tempfile::tempdir().unwrap());
        made.put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        made.put("proc/self/cgroup", "0::/box\n");
        made.put("proc/thread-self/status", "Name:\tx\nCpus_allowed_list:\t0-1\n");
        made.put("sys/fs/cgroup/box/cpu.max", "max 100000\n");
        made.used(0);
        made.ticks([0, 0]);
        made
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn used(&self, usec: u64) {
        self.put("sys/fs/cgroup/box/cpu.stat", &format!("usage_usec {usec}\nnr_throttled 3\n"));
    }

    /// Busy ticks of two processors that the process may use; of each tick that is not busy in a second, one is idle.
    fn ticks(&self, seconds_and_busy: [u64; 2]) {
        let [seconds, busy] = seconds_and_busy;
        let line = |cpu: u64| format!("cpu{cpu} {busy} 0 0 {} 0 0 0 0 0 0\n", seconds * 100 - busy);
        self.put("proc/stat", &format!("cpu 1 2 3 4\n{}{}cpu2 0 0 0 {}\nintr 1\n", line(0), line(1), seconds * 100));
    }

    fn room(&self) -> CpuRoom {
        CpuRoom::new(self.0.path())
    }
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn room_is_what_the_machine_or_the_quota_leaves() {
    let made = Made::new();
    let room = made.room();
    assert_eq!((room.cpus(), room.idle()), (2.0, 0.0));
    room.sample(SECOND);
    assert_eq!(room.idle(), 0.0, "one sample says nothing");
    made.ticks([1, 25]);
    room.sample(2 * SECOND);
    assert_eq!(room.idle(), 1.5, "the third processor is not ours");
    // The quota leaves less than the machine has.
    made.put("sys/fs/cgroup/box/cpu.max", "50000 100000\n");
    made.ticks([2, 25]);
    room.sample(3 * SECOND);
    assert_eq!((room.cpus(), room.idle()), (0.5, 0.5), "a limit that came while it was open");
    let before = room.idle();
    made.used(400_000);
    made.ticks([3, 25]);
    room.sample(4 * SECOND);
    let expected = before + 0.5 * (0.1 - before);
    assert!((room.idle() - expected).abs() < 1e-9, "{} is not {expected}", room.idle());
    made.put("sys/fs/cgroup/box/cpu.max", "max 100000\n");
    room.sample(5 * SECOND);
    assert_eq!(room.cpus(), 2.0, "and that went");
}

#[test]
fn what_is_not_known_is_no_room() {
    let nothing = tempfile::tempdir().unwrap();
    let room = CpuRoom::new(nothing.path());
    for second in 1..5 {
        room.sample(second * SECOND);
        assert_eq!(room.idle(), 0.0);
    }
    assert!(room.cpus() >= 1.0, "std's number of processors stands in");
    let made = Made::new();
    let room = made.room();
    room.sample(SECOND);
    made.ticks([1, 0]);
    room.sample(2 * SECOND);
    assert_eq!(room.idle(), 2.0);
    // Counters that go back, and files that turn into garbage.
    made.ticks([0, 0]);
    room.sample(3 * SECOND);
    assert_eq!(room.idle(), 0.0);
    made.put("proc/stat", "cpu0 \u{1}\ncpu1 99999999999999999999 0 0 0\ncpu\n");
    made.put("proc/thread-self/status", "Cpus_allowed_list:\t9-2\n");
    made.put("sys/fs/cgroup/box/cpu.max", "-5 x");
    room.sample(4 * SECOND);
    assert_eq!(room.idle(), 0.0);
}

#[test]
fn samples_that_come_too_soon_are_not_taken() {
    let made = Made::new();
    let room = made.room();
    room.sample(SECOND);
    made.ticks([1, 50]);
    room.sample(SECOND + CLOSEST_NS - 1);
    assert_eq!(room.idle(), 0.0);
    room.sample(SECOND + CLOSEST_NS);
    assert_eq!(room.idle(), 1.0);
    room.sample(0);
    assert_eq!(room.idle(), 1.0, "nor those from the past");
    let fixed = CpuRoom::fixed(4.0, 2.5);
    fixed.sample(SECOND);
    assert_eq!((fixed.cpus(), fixed.idle()), (4.0, 2.5));
}

/// Threads that only compute wait for each other, never for the medium; who sleeps waits for no processor.
#[test]
fn the_wait_for_a_processor_is_not_one_for_the_medium() {
    let clock = SystemClock::default();
    let stop = AtomicBool::new(false);
    let (busy, wait, queued, passed) = std::thread::scope(|scope| {
        let others = std::thread::available_parallelism().map_or(1, usize::from) * 4;
        let spin = || {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        (0..others).for_each(|_| drop(scope.spawn(spin)));
        let (start, before) = (clock.monotonic_ns(), clock.queued_ns());
        let end = thread_ns() + 50_000_000;
        let ((), busy, wait) = timed(&clock, || while thread_ns() < end {});
        let (queued, passed) = (clock.queued_ns() - before, clock.monotonic_ns() - start);
        stop.store(true, Ordering::Relaxed);
        (busy, wait, queued, passed)
    });
    // Where the kernel does not say, nothing can be told apart.
    let told = format!("{busy} busy, {wait} of waiting and {queued} in the queue of {passed}");
    assert!(busy > 49_000_000 && busy + wait + queued <= passed + 1_000_000, "{told}");
    let ((), busy, wait) = timed(&clock, || std::thread::sleep(Duration::from_millis(20)));
    assert!(wait >= 19_000_000, "{wait} of waiting and {busy} busy in 20 ms of sleep");
}
