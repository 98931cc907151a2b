//! Tests of the choices that follow from samples and observations.

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

fn learn(auto: &Auto, level: usize, trials: [Trial; COUNT]) {
    auto.learn(level, trials, 10_000);
}

/// Observations of a family whose last level alone holds something: 1 GB.
fn observed(now_seconds: u64, idle: f64, misses: u64) -> Observed {
    let mut levels = vec![Holding::default(); 7];
    levels[LAST] = Holding { raw_bytes: 1_000_000_000, misses };
    let (now_ns, unix_seconds) = (now_seconds * 1_000_000_000, 5000 + now_seconds);
    Observed { now_ns, unix_seconds, idle, cpus: 2.0, table_bytes: 1_000_000_000, for_files: None, block_size: 4096, levels }
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

/// The figure before `unit` in the report's line of a level.
fn said(report: &str, level: usize, unit: &str) -> f64 {
    let line = report.lines().find(|line| line.starts_with(&format!("level {level}:"))).unwrap();
    line.split(unit).next().unwrap().split(' ').next_back().unwrap().parse().unwrap()
}

#[test]
fn it_starts_with_lz4_below_level_0_and_says_that_it_knows_nothing() {
    let (_, auto) = measuring();
    let first = |level| auto.choice(level);
    assert_eq!((first(0).0.codec, first(0).1.as_str()), (Codec::None, "auto none: nothing is known yet"));
    assert_eq!((first(3).0.codec, first(3).1.as_str()), (Codec::Lz4, "auto lz4: nothing is known yet"));
    pass(&auto, 0..100, 2.0, 100_000_000, 0);
    assert_eq!(codec(&auto, LAST), Codec::Lz4, "without samples there is nothing to choose by");
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
    assert!(report.contains("zstd is best of none ") && report.contains("1 samples took 0.010 ms; 1 changes"), "{report}");
    // Readers come: 400 MB/s of blocks that are not in the cache, for five minutes.
    pass(&auto, 20_000..20_300, 0.5, 50_000_000, 100_000);
    assert_ne!(codec(&auto, LAST), Codec::Zstd, "{}", auto.report());
}

/// A load is over soon, and its first data stays on the level that it ended on.
#[test]
fn a_job_has_the_codec_that_suits_it_from_its_first_table() {
    let (_, auto) = measuring();
    learn(&auto, 0, trials(0.53, 0.42));
    wrote(&auto, 0, 50_000_000);
    auto.review(&observed(0, 0.0, 0));
    assert!(auto.report().contains("level 6: lz4 not judged yet; "), "nothing was written there: {}", auto.report());
    let _job = auto.announce(LAST, &[(LAST, 1_000_000_000)]);
    auto.review(&observed(0, 0.0, 0));
    assert_eq!(codec(&auto, LAST), Codec::None, "{}", auto.report());
}

#[test]
fn what_a_job_brings_counts_once() {
    let (_, auto) = measuring();
    let known = || {
        let written = auto.state.lock().levels.iter().map(|level| level.written as u64).collect::<Vec<_>>();
        written.into_iter().zip(auto.coming()).collect::<Vec<_>>()
    };
    let (first, second) = (auto.announce(1, &[(0, 60), (1, 40)]), auto.announce(1, &[(1, 100)]));
    assert_eq!(known(), [(0, 0), (0, 200)]);
    first.wrote(0, 30);
    assert_eq!(known(), [(30, 0), (0, 170)], "what a job leaves above was expected below");
    first.wrote(1, 40);
    first.wrote(1, 60);
    assert_eq!(known()[1], (100, 100), "more than expected is not taken from another job");
    auto.begin(0);
    assert_eq!(known(), [(0, 0), (0, 100)], "jobs go on where counts begin anew");
    second.wrote(1, 70);
    drop((first, second));
    assert_eq!(known()[1], (70, 0), "the rest was merged away");
}

/// A load in key order moves its tables down as they are: they keep the codec of the level that they were written to. Other data on level 0
/// is rewritten before it is read.
#[test]
fn readers_are_expected_of_what_stays_or_moves_on_as_it_is() {
    let (_, auto) = measuring();
    learn(&auto, 0, trials(0.53, 0.42));
    for level in [0, LAST] {
        wrote(&auto, level, 2_000_000_000);
    }
    let reads = |now| {
        let mut seen = observed(now, 0.0, 0);
        seen.levels[0].raw_bytes = 500_000_000;
        auto.review(&seen);
        [0, LAST].map(|level| said(&auto.report(), level, " reads per byte"))
    };
    assert_eq!(reads(0), [0.0, 0.5], "of 2 GB, 1 GB is there");
    auto.moved(&[(0, 1_000_000_000)]);
    assert_eq!(reads(0), [0.5, 0.5]);
    auto.moved(&[(0, 5_000_000_000)]);
    assert_eq!(reads(0), [1.0, 0.5], "of what was written, no more than all");
    let later = reads(120);
    assert!(later[1] < 0.6, "nobody came: {later:?}");
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
    pass(&auto, 0..5, 0.5, 50_000_000, 0);
    auto.review(&Observed { for_files: Some(3_000_000_000), ..observed(5, 0.5, 0) });
    let (_, why) = auto.choice(LAST);
    for part in [
        " of none ",
        " ns/B for 1.00, lz4 ",
        "(0.58 and 0.08 ns/B, x ",
        "(1.60 and 0.72 ns/B, x ",
        " reads per byte of 49.5 MB/s; writing ",
        " of waiting, reading for merges 0.20 and 0.00, single reads 700 ns or 50000 ns (",
        " % of them), waiting x 0.",
        "; room for 3000.0 MB of files; 0.5",
        " of 2.00 processors to spare; 1 samples",
    ] {
        assert!(why.contains(part), "{part} is not in {why}");
    }
    let waited: f64 = why.split(" of waiting").next().unwrap().split(' ').next_back().unwrap().parse().unwrap();
    assert!((30.0..=60.0).contains(&waited), "a second for a kilobyte, beside 16 MiB at the usual cost: {why}");
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

/// Costs of the medium go by what was moved lately; without any they are the usual ones.
#[test]
fn the_medium_costs_what_it_did_lately() {
    let (_, auto) = measuring();
    let write = || auto.state.lock().medium(&auto.reads).write_ns;
    assert_eq!(write(), REFERENCE_MEDIUM.write_ns);
    auto.review(&observed(0, 0.0, 0));
    auto.state.lock().appended.add(Transfer::of(1e9, 0.5, 2.0));
    assert!((write().0 - 0.5).abs() < 0.01 && (write().1 - 2.0).abs() < 0.05, "{:?}", write());
    auto.review(&observed(600, 0.0, 0));
    auto.state.lock().appended.add(Transfer::of(1e9, 0.05, 0.2));
    assert!(write().0 < 0.08 && write().1 < 0.3, "{:?}", write());
    auto.review(&observed(1_000_000, 0.0, 0));
    assert_eq!(write(), REFERENCE_MEDIUM.write_ns);
}

#[test]
fn a_load_that_outgrows_memory_is_compressed_below_level_0() {
    let loaded = |for_files, idle| {
        let (_, auto) = measuring();
        learn(&auto, 0, trials(0.53, 0.42));
        for now in 0..4 {
            wrote(&auto, 0, 200_000_000);
            wrote(&auto, LAST, 200_000_000);
            auto.review(&Observed { for_files, ..observed(now, idle, 0) });
        }
        [codec(&auto, 0), codec(&auto, LAST)]
    };
    assert_eq!(loaded(None, 0.0), [Codec::None, Codec::None]);
    assert_eq!(loaded(Some(2_500_000_000), 0.0), [Codec::None, Codec::None]);
    assert_eq!(loaded(Some(1_000_000_000), 0.0), [Codec::None, Codec::Lz4], "others work while a reader waits");
    assert_eq!(loaded(Some(800_000_000), 2.0)[1], Codec::Zstd, "nobody does, and compressing takes nothing from writers");
}

#[test]
fn data_that_do_not_shrink_are_left_alone() {
    let (_, auto) = measuring();
    learn(&auto, LAST, trials(1.0, 1.0));
    pass(&auto, 0..1000, 2.0, 50_000_000, 0);
    assert_eq!(codec(&auto, LAST), Codec::None);
    assert_eq!(auto.totals(), Totals { samples: 1, sample_ns: 10_000, changes: 0 });
}

#[test]
fn no_processor_is_taken_from_writers() {
    let (_, auto) = measuring();
    learn(&auto, LAST, trials(0.53, 0.42));
    pass(&auto, 0..2000, 0.0, 500_000_000, 0);
    assert_eq!(codec(&auto, LAST), Codec::None, "{}", auto.report());
}

/// Deeper levels keep their data longest, so they get idle processors first. A processor that one takes is not given to another, and the
/// level that has it keeps it although it is idle no more.
#[test]
fn deeper_levels_take_first_what_is_idle() {
    let codecs = |idle: f64| {
        let (_, auto) = measuring();
        learn(&auto, LAST, trials(0.53, 0.42));
        let mut taken = 0.0;
        for now in 0..60 {
            for level in [4, LAST] {
                wrote(&auto, level, 600_000_000);
            }
            auto.review(&Observed { idle: (idle - taken).max(0.0), ..observed(now, 0.0, 0) });
            taken = [4, LAST].map(|level| 0.6 * REFERENCE[auto.state.lock().level(level).chosen].compress_ns).iter().sum();
        }
        [4, LAST].map(|level| codec(&auto, level))
    };
    assert_eq!(codecs(0.0), [Codec::None; 2]);
    assert_eq!(codecs(1.0), [Codec::None, Codec::Lz4]);
    assert!(codecs(2.0).iter().all(|codec| *codec != Codec::None));
}

#[test]
fn one_interrupted_sample_does_not_spoil_what_is_known() {
    let (_, auto) = measuring();
    (0..5).for_each(|_| learn(&auto, LAST, trials(0.53, 0.42)));
    let mut late = trials(0.53, 0.42);
    late[1].ns = Some((5000.0, 0.08));
    auto.learn(LAST, late, 10_000_000);
    let effect = auto.state.lock().levels[LAST].effects[1];
    assert!(effect.compress_ns < 0.9 && (effect.decompress_ns - 0.08).abs() < 1e-9, "{effect:?}");
}

#[test]
fn a_level_without_samples_goes_by_those_of_the_nearest() {
    let (_, auto) = measuring();
    learn(&auto, 0, trials(1.0, 1.0));
    pass(&auto, 0..10, 2.0, 50_000_000, 0);
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
