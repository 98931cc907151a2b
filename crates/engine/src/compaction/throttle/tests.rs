use super::*;
use std::fs;
use std::path::Path;

/// A control group with a quota of one processor, in made-up files.
struct Made(tempfile::TempDir);

impl Made {
    fn new() -> Self {
        let made = Made(tempfile::tempdir().unwrap());
        made.put("proc/self/mountinfo", "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
        made.put("proc/self/cgroup", "0::/\n");
        made.put("cg/cpu.max", "100000 100000\n");
        made.stat(0, 0);
        made
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    }

    fn stat(&self, usec: u64, throttled: u64) {
        self.put("cg/cpu.stat", &format!("usage_usec {usec}\nnr_throttled {throttled}\n"));
    }
}

/// A group with a quota of one processor, in which others use a changing part and a compaction works as it may: how it went over many
/// periods. `others` gives the part by period.
fn simulate(others: impl Fn(u64) -> f64, urgency: f64) -> Vec<(f64, f64, bool)> {
    let mut share: f64 = 1.0;
    let mut seen = Vec::new();
    for period in 0..400 {
        let wanted = others(period) + share.max(urgency);
        let (used, is_throttled) = (wanted.min(1.0), wanted > 1.0);
        seen.push((share.max(urgency), used, is_throttled));
        share = next_share(share, used, is_throttled);
    }
    seen
}

#[test]
fn what_others_leave_is_used_and_no_more() {
    for load in [0.0, 0.1, 0.3, 0.5, 0.7] {
        let seen = simulate(|_| load, 0.0);
        let settled = &seen[100..];
        assert!(settled.iter().all(|s| !s.2), "others use {load}: it is never stopped again");
        let used = settled.iter().map(|s| s.1).sum::<f64>() / settled.len() as f64;
        assert!(used > 0.8, "others use {load}: {used} used");
        let first = seen.iter().position(|s| !s.2).unwrap();
        assert!(first <= 4, "others use {load}: stopped in {first} periods");
    }
}

#[test]
fn the_share_follows_a_load_that_comes_and_goes() {
    let seen = simulate(|period| if (period / 100) % 2 == 1 { 0.8 } else { 0.1 }, 0.0);
    for start in [100, 300] {
        let stopped = seen[start..start + 100].iter().filter(|s| s.2).count();
        assert!(stopped <= 4, "{stopped} periods were cut short");
    }
    assert!(seen[250].0 > 0.7, "{:?}", seen[250]);
}

#[test]
fn it_never_starves_and_urgent_work_has_its_share() {
    let all = simulate(|_| 2.0, 0.0);
    assert!(all.iter().all(|s| s.0 >= LEAST));
    assert!(simulate(|_| 2.0, 0.6).iter().all(|s| s.0 >= 0.6));
    assert!(simulate(|_| 2.0, 1.0).iter().all(|s| s.0 == 1.0));
}

/// Work and sleep as the budget says, under a clock of its own: the part of the time that was work, and the longest rest.
fn run(share: f64, slice_ns: u64, oversleep_ns: u64) -> (f64, u64) {
    let mut budget = Budget::default();
    let (mut worked, mut rested, mut longest) = (0, 0, 0);
    for _ in 0..5000 {
        budget.work(slice_ns, share);
        worked += slice_ns;
        let mut rest = 0;
        while let Some(nap) = budget.nap(share) {
            assert!((NAP_MIN_NS..=NAP_MAX_NS).contains(&nap));
            rest += nap + oversleep_ns;
            budget.slept(nap + oversleep_ns);
        }
        (rested, longest) = (rested + rest, longest.max(rest));
    }
    (worked as f64 / (worked + rested) as f64, longest)
}

#[test]
fn a_budget_keeps_to_its_share() {
    for share in [LEAST, 0.1, 0.25, 0.5, 0.9] {
        for slice in [100_000, SLICE_NS, 3 * SLICE_NS] {
            let (part, longest) = run(share, slice, 0);
            assert!((part - share).abs() < 0.01, "share {share}, slices of {slice}: {part}");
            assert!(longest <= PERIOD_NS, "share {share}, slices of {slice}: {longest}");
            assert!(run(share, slice, 60_000).0 <= share + 0.01, "sleeping too long is not working more");
        }
    }
    assert_eq!(run(1.0, SLICE_NS, 0), (1.0, 0));
    let mut budget = Budget::default();
    budget.work(3600 * PERIOD_NS, LEAST);
    assert!(budget.owed_ns <= PERIOD_NS, "a process that was stopped for an hour does not sleep for days");
    assert_eq!(budget.nap(1.0), None, "writers wait: what is owed is forgotten");
    assert_eq!(budget.nap(0.1), None);
    budget.work(SLICE_NS, 0.5);
    assert!(budget.nap(0.5).is_some());
}

/// A clock that hardly moves, and gives up after a while.
#[derive(Debug)]
struct Slow {
    looks: AtomicU64,
    cancel: AtomicBool,
}

impl Clock for Slow {
    fn monotonic_ns(&self) -> u64 {
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        if look > 300 {
            self.cancel.store(true, Ordering::Relaxed);
        }
        if look == 0 { 0 } else { PERIOD_NS / 2 + look }
    }

    fn unix_seconds(&self) -> u64 {
        0
    }
}

#[test]
fn a_clock_that_hardly_moves_does_not_stop_the_work() {
    let made = Made::new();
    let (room, throttle, failed) = (CpuRoom::new(made.0.path()), Throttle::default(), AtomicBool::new(false));
    let clock = Slow { looks: AtomicU64::new(0), cancel: AtomicBool::new(false) };
    throttle.share.store(0.5f64.to_bits(), Ordering::Relaxed);
    let pacing = Pacing { throttle: &throttle, room: &room, urgency: &|| 0.0, tick: &|| () };
    let mut rests = Rests::new(&clock.cancel, &failed, Some((pacing, &clock)));
    assert!(rests.look().is_some());
    assert_eq!(throttle.pauses().0, 1);
}

#[test]
fn the_share_follows_the_quota_that_is_read() {
    let made = Made::new();
    let (room, throttle) = (CpuRoom::new(made.0.path()), Throttle::default());
    let mut now = STALE_NS;
    let mut step = |usec: u64, throttled: u64, expected: f64| {
        made.stat(usec, throttled);
        now += PERIOD_NS;
        throttle.adjust(now, &room);
        assert_eq!(throttle.share(), expected, "{usec} {throttled}");
        throttle.adjust(now + PERIOD_NS - 1, &room);
        assert_eq!(throttle.share(), expected, "too soon");
    };
    step(1_000_000, 7, 1.0);
    step(1_099_000, 7, 0.5);
    step(1_140_000, 8, 0.25);
    step(1_180_000, 8, 0.25 + STEP);
    step(1_270_000, 8, 0.25 + STEP);
    step(1_369_000, 8, (0.25 + STEP) / 2.0);
    made.put("cg/cpu.max", "200000 100000");
    step(1_469_000, 8, (0.25 + STEP) / 2.0 + STEP);
    made.put("cg/cpu.max", "garbage");
    step(1_569_000, 9, ((0.25 + STEP) / 2.0 + STEP) / 2.0);
    made.put("cg/cpu.max", "max 100000");
    step(1_669_000, 10, 1.0);
}

#[test]
fn a_merge_pauses_unless_its_work_is_urgent_and_ends_when_told() {
    use crate::clock::SystemClock;
    let made = Made::new();
    let (room, throttle, clock) = (CpuRoom::new(made.0.path()), Throttle::default(), SystemClock::default());
    let (cancel, failed) = (AtomicBool::new(false), AtomicBool::new(false));
    throttle.share.store(0.5f64.to_bits(), Ordering::Relaxed);
    let work = |urgency: f64| {
        let urgency = move || urgency;
        let pacing = Pacing { throttle: &throttle, room: &room, urgency: &urgency, tick: &|| () };
        let mut rests = Rests::new(&cancel, &failed, Some((pacing, &clock)));
        rests.look();
        std::thread::sleep(Duration::from_millis(5));
        let before = throttle.pauses().0;
        let next = rests.look();
        (next.is_some(), throttle.pauses().0 - before)
    };
    assert_eq!(work(1.0), (true, 0));
    assert_eq!(work(0.1), (true, 1));
    assert!(throttle.pauses().1 >= NAP_MIN_NS);
    cancel.store(true, Ordering::Relaxed);
    assert_eq!(work(0.1), (false, 0));
    assert_eq!(Rests::new(&cancel, &failed, None).look(), None);
    cancel.store(false, Ordering::Relaxed);
    assert_eq!(Rests::new(&cancel, &failed, None).look(), Some(MOST_ENTRIES));
    failed.store(true, Ordering::Relaxed);
    assert_eq!(Rests::new(&cancel, &failed, None).look(), None);
}

#[test]
fn looks_come_closer_where_entries_are_slow() {
    use crate::clock::ManualClock;
    let (room, throttle, clock) = (CpuRoom::fixed(1.0, 0.0), Throttle::default(), ManualClock::default());
    let (cancel, failed) = (AtomicBool::new(false), AtomicBool::new(false));
    let pacing = Pacing { throttle: &throttle, room: &room, urgency: &|| 0.0, tick: &|| () };
    let mut rests = Rests::new(&cancel, &failed, Some((pacing, &clock)));
    let mut settle = |ns_per_entry: u64| {
        let mut entries = 1;
        for _ in 0..30 {
            clock.advance_ns(entries * ns_per_entry);
            entries = rests.look().unwrap();
        }
        entries
    };
    assert_eq!(settle(10), MOST_ENTRIES);
    let slow = settle(100_000) * 100_000;
    assert!((SLICE_NS / 2..=2 * SLICE_NS).contains(&slow), "{slow}");
    assert_eq!(settle(1_000_000_000), 1);
    assert_eq!(throttle.pauses(), (0, 0), "there is no quota");
}
