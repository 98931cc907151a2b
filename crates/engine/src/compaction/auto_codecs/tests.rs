//! Tests of the verdicts that follow from samples and observations.

use super::super::codec_trials::Sampler;
use super::*;
use crate::clock::ManualClock;
use crate::codec::Codec;
use sinter_storage::store::{Appender, Result};

const LAST: usize = 6;

/// An engine that measures, by a clock that stands still unless told otherwise.
fn measuring() -> (Arc<ManualClock>, Arc<Auto>) {
    let clock = Arc::new(ManualClock::default());
    (clock.clone(), Auto::new(clock, true))
}

fn trials(lz4: f64, zstd: f64) -> [Trial; COUNT] {
    let trial = |ratio, ns| Trial { ratio, ns };
    [trial(1.0, None), trial(lz4, Some((0.58, 0.08))), trial(zstd, Some((1.6, 0.72)))]
}

/// Takes as many samples as a verdict needs.
fn learn(auto: &Auto, level: usize, trials: [Trial; COUNT]) {
    (0..ENOUGH_SAMPLES).for_each(|_| auto.learn(level, trials, 10_000));
}

/// Observations of a family whose last level alone holds something: 1 GB.
fn observed(now_seconds: u64, idle: f64, misses: u64) -> Observed {
    let mut levels = vec![Holding::default(); 7];
    levels[LAST] = Holding { raw_bytes: 1_000_000_000, misses, excess_bytes: 0 };
    let (now_ns, unix_seconds) = (now_seconds * 1_000_000_000, 5000 + now_seconds);
    Observed {
        now_ns,
        unix_seconds,
        idle,
        cpus: 2.0,
        idle_is_known: true,
        operations: 0,
        for_files: None,
        room_in_memtables: None,
        block_size: 4096,
        levels,
    }
}

fn codec(auto: &Auto, level: usize) -> Codec {
    auto.choice(level).0.codec
}

/// A table is written by a job that said nothing before, as a flush.
fn wrote(auto: &Arc<Auto>, level: usize, raw_bytes: u64) {
    auto.announce(0, &[]).wrote(level, raw_bytes);
}

/// Passes seconds one by one, in which `written` bytes reach the last level each and `misses` blocks of it are missed.
fn pass(auto: &Arc<Auto>, seconds: std::ops::Range<u64>, idle: f64, written: u64, misses: u64) {
    for now in seconds {
        wrote(auto, LAST, written);
        auto.review(&observed(now, idle, misses));
    }
}

#[test]
fn it_starts_with_lz4_and_says_that_it_knows_nothing() {
    let (_, auto) = measuring();
    for level in [3, 0, LAST] {
        let (compression, reason) = auto.choice(level);
        assert_eq!((compression.codec, reason), (Codec::Lz4, "auto lz4: nothing is known yet".to_string()));
    }
    pass(&auto, 0..100, 2.0, 100_000_000, 0);
    assert_eq!(codec(&auto, LAST), Codec::Lz4, "without samples there is nothing to choose by");
}

#[test]
fn level_0_starts_without_compression_where_the_kernel_can_keep_the_upper_levels() {
    let first = |room_in_memtables, measures| {
        let auto = Auto::new(Arc::new(ManualClock::default()), measures);
        auto.review(&Observed { room_in_memtables, ..observed(0, 0.0, 0) });
        assert_eq!(codec(&auto, 1), Codec::Lz4);
        codec(&auto, 0)
    };
    assert_eq!(first(None, true), Codec::None);
    assert_eq!(first(Some(64), true), Codec::None);
    assert_eq!(first(Some(63), true), Codec::Lz4);
    assert_eq!(first(Some(63), false), Codec::None, "what repeats exactly does not ask the machine");
}

#[test]
fn cold_data_that_shrink_end_as_zstd_where_processors_are_free() {
    let (_, auto) = measuring();
    learn(&auto, LAST, trials(0.53, 0.42));
    pass(&auto, 0..10, 1.5, 50_000_000, 0);
    assert_ne!(codec(&auto, LAST), Codec::Zstd, "readers may be yet to come");
    pass(&auto, 10..20_000, 1.5, 50_000_000, 0);
    assert_eq!(codec(&auto, LAST), Codec::Zstd);
    let report = auto.report();
    assert!(report.starts_with("level 6: zstd since "), "{report}");
    assert!(report.contains("zstd is best of none ") && report.contains("4 samples took 0.040 ms"), "{report}");
    // Readers come: 400 MB/s of blocks that are not in the cache, for five minutes.
    pass(&auto, 20_000..20_300, 0.5, 50_000_000, 100_000);
    assert_ne!(codec(&auto, LAST), Codec::Zstd, "{}", auto.report());
    assert!(auto.report().contains("misses per byte seen"), "{}", auto.report());
}

/// A load is over soon, and its first data stays on the level that it ended on. After two seconds the verdict rests on what is known.
#[test]
fn a_verdict_comes_as_soon_as_enough_is_known() {
    let settles = |samples: u64, has_written: bool, idle_is_known: bool, seconds: u64| {
        let (_, auto) = measuring();
        (0..samples).for_each(|_| auto.learn(LAST, trials(0.53, 0.42), 10_000));
        let work = auto.announce(LAST, &[(LAST, 50_000_000)]);
        if has_written {
            work.wrote(LAST, 50_000_000);
        }
        for now in [0, seconds] {
            auto.review(&Observed { idle_is_known, ..observed(now, 0.0, 0) });
        }
        !auto.choice(LAST).1.ends_with("nothing is known yet")
    };
    assert!(settles(ENOUGH_SAMPLES, true, true, 0));
    for (samples, wrote, idle_is_known, why) in [
        (ENOUGH_SAMPLES - 1, true, true, "too few samples"),
        (ENOUGH_SAMPLES, false, true, "nothing was written, which may cost anything"),
        (ENOUGH_SAMPLES, true, false, "processors may be free or not"),
    ] {
        assert!(!settles(samples, wrote, idle_is_known, 1), "{why}");
        assert!(settles(samples, wrote, idle_is_known, 2), "{why}, and that may never be otherwise");
    }
}

/// A level that tables only moved to has no use for a verdict, and a free one (the smallest size) would not suit a later load.
#[test]
fn a_job_has_the_codec_that_suits_it_from_its_first_table() {
    let (_, auto) = measuring();
    learn(&auto, 0, trials(0.53, 0.42));
    for now in 0..10 {
        wrote(&auto, 0, 50_000_000);
        auto.review(&Observed { operations: 10_000_000, ..observed(now, 0.0, 0) });
    }
    assert!(auto.choice(LAST).1.ends_with("nothing is known yet"), "{}", auto.report());
    assert!(auto.report().contains("level 6: lz4 not judged yet; "), "{}", auto.report());
    assert!(!auto.is_due(9_100_000_000));
    let small = auto.announce(LAST, &[(LAST, 2_000_000)]);
    assert!(auto.is_due(9_100_000_000), "before its first table");
    auto.review(&Observed { operations: 10_000_000, ..observed(9, 0.0, 0) });
    assert_eq!(codec(&auto, LAST), Codec::Zstd, "the operations are worth more than it costs: {}", auto.report());
    drop(small);
    let large = auto.announce(LAST, &[(LAST, 1_000_000_000)]);
    assert!(auto.is_due(9_100_000_000), "it brings most of what was ever written to the level");
    auto.review(&Observed { operations: 10_000_000, ..observed(9, 0.0, 0) });
    assert_eq!(codec(&auto, LAST), Codec::None, "{}", auto.report());
    large.wrote(LAST, 1_000_000_000);
    drop(large);
    // What a level was written with for a while it keeps until something else was better for a while.
    let _again = auto.announce(LAST, &[(LAST, 500_000_000)]);
    assert!(!auto.is_due(9_100_000_000));
    let readers_wait = |second| Observed { for_files: Some(1_000_000), ..observed(second, 2.0, 0) };
    for second in 10..13 {
        // Jobs at other levels ask for reviews out of turn.
        for level in [4, 5] {
            let _job = auto.announce(level, &[(level, 100_000_000)]);
            auto.review(&readers_wait(second - 1));
        }
        assert_eq!(codec(&auto, LAST), Codec::None, "{second}: {}", auto.report());
        auto.review(&readers_wait(second));
    }
    assert_ne!(codec(&auto, LAST), Codec::None, "{}", auto.report());
}

#[test]
fn what_a_job_brings_counts_once() {
    let (_, auto) = measuring();
    let known = || {
        let written = auto.state.lock().levels.iter().map(|level| level.written as u64).collect::<Vec<_>>();
        written.into_iter().zip(auto.under_way()).map(|(a, (b, c, d))| (a, b, c, d)).collect::<Vec<_>>()
    };
    let (first, second) = (auto.announce(1, &[(0, 60), (1, 40)]), auto.announce(1, &[(1, 100)]));
    assert_eq!(known(), [(0, 0, 0, -60), (0, 200, 200, 60)]);
    first.wrote(0, 30);
    assert_eq!(known(), [(30, 0, 0, -60), (0, 170, 200, 60)], "what a job leaves above was expected below");
    first.wrote(1, 40);
    first.wrote(1, 60);
    assert_eq!(known()[1], (100, 100, 200, 60), "more than expected is not taken from another job");
    auto.begin(0, 0);
    assert_eq!(known(), [(0, 0, 0, -60), (0, 100, 200, 60)], "jobs go on where counts begin anew");
    second.wrote(1, 70);
    drop(first);
    assert_eq!(known(), [(0, 0, 0, 0), (70, 30, 100, 0)]);
    drop(second);
    assert_eq!(known()[1], (70, 0, 0, 0), "the rest was merged away");
}

/// A burst is one to the end of the job, however much of it is written.
#[test]
fn a_burst_is_one_until_it_is_over() {
    let (_, auto) = measuring();
    learn(&auto, 0, trials(0.53, 0.42));
    wrote(&auto, LAST, 100_000_000);
    let is_burst = || auto.state.lock().level(LAST).is_burst();
    drop(auto.announce(LAST, &[(LAST, 90_000_000)]));
    assert!(!auto.state.lock().level(LAST).is_asked, "no more than was written before");
    let job = auto.announce(LAST, &[(5, 1_000_000_000)]);
    assert!(is_burst());
    (0..9).for_each(|_| job.wrote(LAST, 100_000_000));
    assert!(is_burst());
    drop(job);
    assert!(!is_burst());
    let _small = auto.announce(4, &[(4, 500_000)]);
    assert!(!auto.state.lock().level(4).is_burst(), "half a megabyte takes no processor from anyone");
}

/// Jobs that are asked for by the dozen, each the first to write much to its level, keep nobody else from being judged.
#[test]
fn reviews_that_jobs_ask_for_do_not_put_off_the_others() {
    let (_, auto) = measuring();
    learn(&auto, 0, trials(0.53, 0.42));
    wrote(&auto, 0, 50_000_000);
    auto.review(&observed(3, 0.0, 0));
    assert_eq!(codec(&auto, 0), Codec::None);
    let readers_wait = |now_ns| {
        let mut seen = Observed { now_ns, for_files: Some(1_000_000), ..observed(0, 2.0, 0) };
        seen.levels[0].raw_bytes = 100_000_000;
        seen
    };
    for tenth in 0..20 {
        let job = auto.announce(LAST, &[(LAST, 2_000_000)]);
        let now_ns = 3_000_000_000 + tenth * 100_000_000;
        assert!(auto.is_due(now_ns));
        auto.review(&readers_wait(now_ns));
        // It merges everything away.
        drop(job);
    }
    assert_ne!(codec(&auto, 0), Codec::None, "{}", auto.report());
}

/// A level that is empty yet is judged by what it will hold, or nothing would be expected to be read there.
#[test]
fn a_job_is_judged_by_what_its_level_will_hold() {
    let merged = |for_files| {
        let (_, auto) = measuring();
        learn(&auto, 0, trials(0.53, 0.42));
        let mut seen = Observed { for_files, ..observed(0, 0.0, 0) };
        for level in [4, 5] {
            seen.levels[level].raw_bytes = 1_500_000_000;
        }
        seen.levels[LAST].raw_bytes = 0;
        auto.review(&seen);
        let _job = auto.announce(LAST, &[(4, 1_500_000_000), (5, 1_500_000_000)]);
        auto.review(&Observed { now_ns: 3_000_000_000, ..seen });
        assert_eq!(said(&auto.report(), LAST, " misses per byte expected"), 1.0);
        codec(&auto, LAST)
    };
    assert_eq!([merged(None), merged(Some(1_000_000_000))], [Codec::None, Codec::Lz4]);
}

/// A load in key order moves its tables down as they are: they keep the codec of the level that they were written to.
#[test]
fn what_moved_on_is_read_as_it_was_written() {
    for (level, stays) in [(0, 0.0), (3, 0.1)] {
        let (_, auto) = measuring();
        learn(&auto, level, trials(0.53, 0.42));
        wrote(&auto, level, 1_000_000_000);
        let mut seen = observed(0, 0.0, 0);
        seen.levels[level].raw_bytes = 100_000_000;
        auto.review(&seen);
        let expected = || said(&auto.report(), level, " misses per byte expected");
        auto.moved(&[(level, 500_000_000)]);
        auto.review(&Observed { now_ns: 1_000_000_000, ..seen.clone() });
        assert_eq!(expected(), 0.5 + stays);
        auto.moved(&[(level, 5_000_000_000)]);
        auto.review(&Observed { now_ns: 2_000_000_000, ..seen });
        assert_eq!(expected(), 0.99, "of what was written, no more than all");
    }
}

/// Data beyond a level's target goes down unread: its readers are expected on the level below.
#[test]
fn debt_has_no_readers_of_its_own() {
    let (_, auto) = measuring();
    learn(&auto, LAST, trials(0.53, 0.42));
    for level in [5, LAST] {
        wrote(&auto, level, 2_000_000_000);
    }
    let mut seen = observed(0, 0.0, 0);
    seen.levels[5] = Holding { raw_bytes: 1_000_000_000, ..Holding::default() }.owing(0.75);
    auto.review(&seen);
    let expected = || [5, LAST].map(|level| said(&auto.report(), level, " misses per byte expected"));
    assert_eq!(expected(), [0.12, 0.88], "of 2 GB written each, 250 MB and 1750 MB are there to stay");
    let _job = auto.announce(5, &[(4, 20_000_000)]);
    let _debt = auto.announce(LAST, &[(5, 750_000_000), (LAST, 250_000_000)]);
    auto.review(&Observed { now_ns: 1_000_000_000, ..seen });
    assert_eq!(expected(), [0.12, 0.58], "1750 MB of 3 GB: what is owed does not come twice");
}

#[test]
fn the_reasons_name_all_that_the_costs_are_made_of() {
    let (clock, auto) = measuring();
    learn(&auto, LAST, trials(0.53, 0.42));
    auto.reads.note(700);
    auto.reads.note(50_000);
    let mut file = auto.announce(0, &[]).timed(Box::new(Waiting(clock)));
    file.append(&[0; 1000]).unwrap();
    file.seal().unwrap();
    for now in 0..5 {
        wrote(&auto, LAST, 50_000_000);
        auto.review(&Observed { for_files: Some(3_000_000_000), ..observed(now, 0.5, 0) });
    }
    let (_, why) = auto.choice(LAST);
    for part in [
        "(0.58 and 0.08 ns/B, x ",
        "(1.60 and 0.72 ns/B, x ",
        " of waiting, reading for merges 0.20 and 0.00, single reads 700 ns or 50000 ns (",
        " % of them), waiting x 0.75; room for 3000.0 MB of files; a byte lives 16 s; 0.50 of 2.00 processors idle; 4 samples; 4 s",
    ] {
        assert!(why.contains(part), "{part} is not in {why}");
    }
    let waited: f64 = why.split(" of waiting").next().unwrap().split(' ').next_back().unwrap().parse().unwrap();
    assert!((900_000.0..=1_000_000.0).contains(&waited), "all but what this thread did: {why}");
}

/// Costs of the medium go by what was moved lately; what is moved no more costs as it did.
#[test]
fn the_medium_costs_what_it_did_lately() {
    let (_, auto) = measuring();
    let medium = || auto.state.lock().medium(&auto.reads);
    assert_eq!(medium(), REFERENCE_MEDIUM);
    auto.state.lock().appended.add(Transfer::of(1e9, 0.5, 2.0));
    auto.state.lock().read.add(Transfer::of(1e9, 0.6, 3.0));
    auto.review(&observed(0, 0.0, 0));
    let first = medium();
    assert_eq!((first.write_ns, first.write_wait_ns), (0.5, 2.0));
    assert!((0.55..0.6).contains(&first.ahead_ns) && (2.8..3.0).contains(&first.ahead_wait_ns), "{first:?}");
    // As much again after a minute, at a tenth of it.
    auto.review(&observed(60, 0.0, 0));
    auto.state.lock().appended.add(Transfer::of(1e9, 0.05, 0.2));
    auto.state.lock().read.add(Transfer::of(1e9, 0.06, 0.3));
    let second = medium();
    assert!((0.05..0.11).contains(&second.write_ns) && (0.2..0.41).contains(&second.write_wait_ns), "{second:?}");
    assert!((0.06..0.13).contains(&second.ahead_ns) && (0.3..0.62).contains(&second.ahead_wait_ns), "{second:?}");
    for day in 1..1000 {
        auto.review(&observed(day * 86_400, 0.0, 0));
        let later = medium();
        for (now, then) in [(later.write_ns, second.write_ns), (later.ahead_wait_ns, second.ahead_wait_ns)] {
            assert!((now - then).abs() < 1e-9, "day {day}: {later:?}");
        }
    }
}

/// A file on a medium that takes its time.
struct Waiting(Arc<ManualClock>);

impl Appender for Waiting {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.advance_ns(bytes.len() as u64 * 1_000_000);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        0
    }

    fn seal(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_load_that_outgrows_memory_is_compressed_below_level_0() {
    let loaded = |for_files, idle| {
        let (_, auto) = measuring();
        for level in [0, LAST] {
            learn(&auto, level, trials(0.53, 0.42));
        }
        for now in 0..4 {
            wrote(&auto, 0, 200_000_000);
            wrote(&auto, LAST, 200_000_000);
            let mut seen = Observed { for_files, idle_is_known: now > 1, ..observed(now, idle, 0) };
            seen.levels[0].raw_bytes = 100_000_000;
            auto.review(&seen);
        }
        [codec(&auto, 0), codec(&auto, LAST)]
    };
    assert_eq!(loaded(None, 0.0), [Codec::None, Codec::None]);
    assert_eq!(loaded(Some(2_500_000_000), 0.0), [Codec::None, Codec::None]);
    assert_eq!(loaded(Some(1_000_000_000), 0.0), [Codec::None, Codec::Lz4], "others work while a reader waits");
    assert_eq!(loaded(Some(1_000_000_000), 1.5), [Codec::Lz4, Codec::Zstd], "nobody does, and compressing takes nothing from writers");
}

#[test]
fn data_that_do_not_shrink_are_left_alone() {
    let (_, auto) = measuring();
    learn(&auto, LAST, trials(1.0, 1.0));
    pass(&auto, 0..1000, 2.0, 50_000_000, 0);
    assert_eq!(codec(&auto, LAST), Codec::None);
    assert_eq!(auto.totals(), Totals { samples: 4, sample_ns: 40_000, changes: 0 });
}

#[test]
fn no_processor_is_taken_from_writers() {
    let (_, auto) = measuring();
    learn(&auto, LAST, trials(0.53, 0.42));
    pass(&auto, 0..2000, 0.0, 500_000_000, 0);
    assert_eq!(codec(&auto, LAST), Codec::None, "{}", auto.report());
}

/// The figure before `unit` in the report's line of a level.
fn said(report: &str, level: usize, unit: &str) -> f64 {
    let line = report.lines().find(|line| line.starts_with(&format!("level {level}:"))).unwrap();
    line.split(unit).next().unwrap().split(' ').next_back().unwrap().parse().unwrap()
}

/// Deeper levels keep their data longest, so they get idle processors first. A processor that one takes is not given to another before it
/// shows.
#[test]
fn deeper_levels_take_first_what_is_idle() {
    let codecs = |idle, reviews| {
        let (_, auto) = measuring();
        auto.state.lock().appended.add(Transfer::of(1e9, 0.8, 0.0));
        let review = |now_ns, idle| {
            for level in [4, LAST] {
                learn(&auto, level, trials(0.53, 0.42));
                wrote(&auto, level, 400_000_000);
            }
            auto.review(&Observed { cpus: 8.0, now_ns, ..observed(0, idle, 0) });
        };
        (0..16).for_each(|n| review(n * PERIOD_NS, 0.0));
        assert_eq!([4, LAST].map(|level| codec(&auto, level)), [Codec::None; 2]);
        (16..16 + reviews).for_each(|n| review(n * PERIOD_NS, idle));
        [4, LAST].map(|level| codec(&auto, level))
    };
    // Both have asked for another codec as often as it takes, and go on asking.
    let patience = u64::from(PATIENCE);
    for reviews in patience..3 * patience {
        assert_eq!(codecs(1.0, reviews), [Codec::None, Codec::Lz4], "{reviews}");
    }
    assert!(codecs(6.0, 2 * patience).into_iter().all(|codec| codec != Codec::None));
}

#[test]
fn a_level_may_cost_its_part_of_the_data_more() {
    let (_, auto) = measuring();
    for now in 0..10 {
        for level in [4, LAST] {
            learn(&auto, level, trials(0.53, 0.42));
            wrote(&auto, level, 50_000_000);
        }
        let mut seen = observed(now, 1.0, 0);
        seen.levels[4].raw_bytes = 250_000_000;
        auto.review(&seen);
    }
    let report = auto.report();
    let [small, large] = [4, LAST].map(|level| said(&report, level, " ms allowed"));
    assert!(small > 1.0 && (large / small - 4.0).abs() < 0.1, "{report}");
}

#[test]
fn what_was_rewritten_is_not_expected_to_be_read() {
    let expected = |written| {
        let (_, auto) = measuring();
        learn(&auto, LAST, trials(0.53, 0.42));
        pass(&auto, 0..10, 1.5, written, 0);
        said(&auto.report(), LAST, " misses per byte expected")
    };
    let [once, often] = [100_000_000, 1_000_000_000].map(expected);
    assert!(often > 0.0 && often < once / 5.0, "{once} and {often}");
}

#[test]
fn one_interrupted_sample_does_not_spoil_what_is_known() {
    let (_, auto) = measuring();
    (0..5).for_each(|_| learn(&auto, LAST, trials(0.53, 0.42)));
    let mut late = trials(0.53, 0.42);
    late[1].ns = Some((5000.0, 0.08));
    auto.learn(LAST, late, 10_000_000);
    let state = auto.state.lock();
    let effect = state.levels[LAST].effects[1];
    assert!(effect.compress_ns < 0.7 && (effect.decompress_ns - 0.08).abs() < 1e-9, "{effect:?}");
}

#[test]
fn a_level_without_samples_goes_by_those_of_the_nearest() {
    let (_, auto) = measuring();
    learn(&auto, 0, trials(1.0, 1.0));
    pass(&auto, 0..1000, 2.0, 50_000_000, 0);
    assert_eq!((codec(&auto, LAST), auto.unsampled(LAST)), (Codec::None, None));
}

#[test]
fn without_threads_nothing_depends_on_time() {
    let run = |advance: u64| {
        let clock = Arc::new(ManualClock::default());
        let auto = Auto::new(clock.clone(), false);
        let mut seen = Vec::new();
        for round in 0..50u64 {
            let mut sampler = Sampler::new(&auto, LAST, 4096);
            for n in 0..2000u64 {
                clock.advance_ns(advance);
                sampler.see(format!("key{n:09}").as_bytes(), &[(n % 7) as u8; 100]);
            }
            wrote(&auto, LAST, 200_000);
            auto.review(&Observed { unix_seconds: 0, ..observed(round * advance, advance as f64, round % 3) });
            seen.push(auto.choice(LAST));
        }
        (seen, auto.totals(), auto.report())
    };
    let first = run(0);
    assert!(first.1.samples > 0);
    assert_eq!(first, run(1_234_567));
}

#[test]
fn samples_see_what_data_are_like() {
    let clock = Arc::new(ManualClock::default());
    let auto = Auto::new(clock, false);
    let mut random = 1u64;
    let mut noise = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for (level, is_noise) in [(0, true), (1, false)] {
        let mut sampler = Sampler::new(&auto, level, 4096);
        for n in 0..60_000u64 {
            let value: Vec<u8> = (0..25).flat_map(|_| if is_noise { noise() } else { n }.to_le_bytes()).collect();
            sampler.see(&n.to_be_bytes(), &value);
        }
    }
    let state = auto.state.lock();
    // 12.5 MB each: one sample at once and one every 2 MiB.
    assert_eq!((state.levels[0].samples, state.levels[1].samples), (6, 6));
    assert!(state.levels[0].effects.iter().all(|effect| effect.ratio == 1.0), "{:?}", state.levels[0].effects);
    assert!(state.levels[1].effects[1..].iter().all(|effect| effect.ratio < 0.2), "{:?}", state.levels[1].effects);
    assert_eq!(state.levels[1].effects[2].compress_ns, REFERENCE[2].compress_ns, "nothing was timed");
}

/// Memtables may be so small that no table has bytes enough for a sample of its own.
#[test]
fn small_tables_are_sampled_together() {
    let auto = Auto::new(Arc::new(ManualClock::default()), false);
    for _ in 0..100 {
        let mut sampler = Sampler::new(&auto, 0, 4096);
        (0..1000u64).for_each(|n| sampler.see(&n.to_be_bytes(), &[7; 92]));
        wrote(&auto, 0, 100_000);
    }
    // 10 MB: one at once, and one for each 2 MiB.
    assert_eq!(auto.totals().samples, 5);
}

#[test]
fn a_review_comes_four_times_a_second_at_most() {
    let (_, auto) = measuring();
    assert!(auto.is_due(0));
    auto.review(&observed(1, 0.0, 0));
    assert!(!auto.is_due(1_100_000_000) && auto.is_due(1_250_000_000));
    let inline = Auto::new(Arc::new(ManualClock::default()), false);
    inline.review(&observed(1, 0.0, 0));
    assert!(inline.is_due(1_000_000_000));
}
