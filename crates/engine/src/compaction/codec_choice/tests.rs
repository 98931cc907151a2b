//! Tests of the choice in made-up situations.

use super::*;

const NONE: usize = 0;
const LZ4: usize = 1;
const ZSTD: usize = 2;

/// A last level that is being written at 100 MB/s, on a machine with nothing else to do, long enough to know its readers: there are none.
fn quiet() -> Situation {
    Situation {
        effects: REFERENCE,
        current: LZ4,
        written: 6e9,
        coming: 0.0,
        is_burst: false,
        missed: 0.0,
        expected_misses: 0.0,
        missed_anywhere: 0.0,
        block: 4096.0,
        share: 0.9,
        data: 6e9,
        for_files: f64::INFINITY,
        unwatched: 0.0,
        seconds: 60.0,
        idle: 1.5,
        cpus: 2.0,
        medium: REFERENCE_MEDIUM,
        allowance: 0.0,
    }
}

fn best(situation: &Situation) -> usize {
    judge(situation).best
}

#[test]
fn cold_data_on_free_processors_is_made_smallest() {
    assert_eq!(best(&quiet()), ZSTD);
}

#[test]
fn hot_data_is_left_as_it_is() {
    assert_eq!(best(&Situation { missed: 600e9, missed_anywhere: 600e9, ..quiet() }), NONE);
}

#[test]
fn without_free_processors_writing_fast_comes_first() {
    assert_eq!(best(&Situation { idle: 0.0, ..quiet() }), NONE);
    assert_eq!(best(&Situation { seconds: 0.0, ..quiet() }), NONE);
    // A medium that is slower than the codec makes up for it.
    let slow = Medium { write_ns: 20.0, ..REFERENCE_MEDIUM };
    assert_eq!(best(&Situation { idle: 0.0, medium: slow, ..quiet() }), ZSTD);
}

/// Clients that wait for the medium leave idle time on the average, but are back before the job is done.
#[test]
fn nearly_busy_processors_are_not_free() {
    let price = |idle, cpus| Situation { idle, cpus, written: 1e9, ..quiet() }.price(ZSTD);
    let near = |a: f64, b: f64| assert!((a - b).abs() < 0.03, "{a} is not {b}");
    near(price(0.4, 2.0), 0.62);
    near(price(1.2, 2.0), FREE);
    near(price(1.6, 8.0), 0.15);
    near(price(0.2, 1.0), 0.8);
    near(price(0.49, 0.5), FREE);
    near(price(0.06, 0.25), 0.75);
}

/// The measurement already includes the processor time of the codec in use.
#[test]
fn a_change_takes_what_the_codec_in_use_does_not_give_back() {
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    let level = Situation { current: NONE, written: 30e9, ..quiet() };
    near(level.takes(NONE), 0.0);
    near(level.takes(LZ4), 0.29);
    near(Situation { current: LZ4, ..level.clone() }.takes(ZSTD), 0.8 - 0.29);
    near(Situation { current: ZSTD, ..level.clone() }.takes(LZ4), 0.0);
    near(Situation { current: LZ4, coming: 15e9, ..level.clone() }.takes(ZSTD), 0.8 - 0.145);
    near(Situation { is_burst: true, ..level.clone() }.takes(LZ4), 0.58 / (MERGE_NS + 0.4 + 0.58));
    near(Situation { seconds: 0.0, ..level }.takes(ZSTD), 0.0);
}

/// A burst is priced by its own duration, however long the level was quiet before.
#[test]
fn a_burst_is_priced_by_the_speed_of_a_merge() {
    let half = Situation { written: 1e9, idle: 0.5, cpus: 0.5, current: NONE, ..quiet() };
    let price = |is_burst, seconds| Situation { is_burst, seconds, ..half.clone() }.price(ZSTD);
    assert_eq!(price(false, 1e4), FREE);
    assert_eq!(price(true, 1e4), price(true, 10.0));
    let lz4_in_use = Situation { current: LZ4, is_burst: true, seconds: 10.0, ..half }.price(ZSTD);
    let price = price(true, 1e4);
    assert!(lz4_in_use < price, "its processors could be given back: {lz4_in_use}");
    assert!((price - (FREE + (1.0 - FREE) * (1.0 - 0.5 / 1.185))).abs() < 0.001, "0.59 of a processor, where 0.5 is idle: {price}");
}

/// A job that waits leaves its processor to others just as a reader does.
#[test]
fn a_wait_has_one_price_whoever_waits() {
    let cost = |idle, write_ns, write_wait_ns| {
        let medium = Medium { write_ns, write_wait_ns, ..REFERENCE_MEDIUM };
        judge(&Situation { idle, medium, ..quiet() }).costs[NONE]
    };
    assert_eq!(cost(0.0, 0.4, 20.0), cost(0.0, 10.4, 0.0), "half, as with no processor idle others work meanwhile");
    assert_eq!(cost(1.0, 0.4, 20.0), cost(1.0, 20.4, 0.0));
}

/// The next merge reads even where nobody else does: it decompresses written blocks, and reads less of them from the medium.
#[test]
fn what_is_written_is_read_by_the_next_merge() {
    let busy = Situation { idle: 0.0, written: 1e9, ..quiet() };
    let difference = |situation: &Situation, a: usize, b: usize| {
        let costs = judge(situation).costs;
        (costs[a] - costs[b]) / situation.written
    };
    let slower = difference(&busy, ZSTD, LZ4);
    assert!((slower - (1.6 - 0.58 + 0.72 - 0.08 - (0.53 - 0.42) * (0.4 + 0.2))).abs() < 1e-9, "{slower}");
    let medium = Medium { ahead_wait_ns: 1.0, ..REFERENCE_MEDIUM };
    let from_medium = difference(&Situation { medium, ..busy }, ZSTD, LZ4);
    assert!((slower - from_medium - (0.53 - 0.42) * 1.0 * BUSY_WAIT).abs() < 1e-9, "{slower} {from_medium}");
}

#[test]
fn what_memory_cannot_hold_is_made_smaller_before_anyone_reads() {
    // Data that were just loaded, with writers that leave no processor.
    let loaded = Situation { idle: 0.0, expected_misses: 1.0, unwatched: 1.0, share: 1.0, data: 5.0e8, written: 5.0e8, ..quiet() };
    assert_eq!(best(&loaded), NONE);
    let with = |bytes: f64| best(&Situation { for_files: bytes, ..loaded.clone() });
    assert_eq!(with(1.1e9), NONE, "they fit, and as much again would");
    assert_eq!(with(6e8), LZ4, "they fit, but a load that has come so far is likely to go on");
    assert_eq!(with(4e8), LZ4, "lz4 makes them fit");
    assert_eq!(with(2.15e8), LZ4, "zstd does, but who waits leaves the processor to others");
    assert_eq!(best(&Situation { for_files: 2.15e8, idle: 1.0, ..loaded.clone() }), ZSTD, "nobody wants it");
    assert_eq!(best(&Situation { for_files: 2.15e8, unwatched: 0.0, expected_misses: 0.0, ..loaded }), NONE, "nobody came to read");
    for bytes in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
        with(bytes);
    }
}

#[test]
fn what_does_not_shrink_is_stored_plain() {
    let useless = REFERENCE.map(|effect| Effect { ratio: 1.0, ..effect });
    for allowance in [0.0, 1e9, 1e14] {
        for idle in [0.0, 8.0] {
            assert_eq!(best(&Situation { effects: useless, allowance, idle, ..quiet() }), NONE);
        }
    }
}

#[test]
fn the_smallest_within_the_allowance_is_taken() {
    let read = Situation { missed: 60e9, missed_anywhere: 60e9, ..quiet() };
    let Verdict { costs, .. } = judge(&read);
    assert!(costs[NONE] < costs[LZ4] && costs[LZ4] < costs[ZSTD], "{costs:?}");
    let with = |allowance| best(&Situation { allowance, ..read.clone() });
    assert_eq!(with(costs[LZ4] - costs[NONE] - 1.0), NONE);
    assert_eq!(with(costs[LZ4] - costs[NONE] + 1.0), LZ4);
    assert_eq!(with(costs[ZSTD] - costs[NONE] - 1.0), LZ4);
    assert_eq!(with(costs[ZSTD] - costs[NONE] + 1.0), ZSTD);
}

#[test]
fn of_two_that_are_alike_in_size_the_cheaper_is_taken() {
    let mut alike = quiet();
    alike.effects[ZSTD].ratio = alike.effects[LZ4].ratio - 0.01;
    alike.allowance = 1e12;
    assert_eq!(best(&alike), LZ4);
}

#[test]
fn more_misses_never_ask_for_slower_decompression() {
    for idle in [0.0, 0.3, 1.5] {
        for expected_misses in [0.0, 1.0] {
            let mut last = f64::INFINITY;
            for step in 0..60 {
                let missed = 1e6 * 1.4f64.powi(step);
                let situation = Situation { missed, missed_anywhere: missed, idle, expected_misses, ..quiet() };
                let decompress = situation.effects[best(&situation)].decompress_ns;
                assert!(decompress <= last, "{missed} misses, {idle} idle");
                last = decompress;
            }
            assert_eq!(last, 0.0, "read so often, it is left plain");
        }
    }
}

#[test]
fn more_room_never_asks_for_weaker_compression() {
    for missed in [0.0, 1e8, 1e9, 1e10, 1e11] {
        for current in 0..COUNT {
            let mut last = f64::INFINITY;
            for step in 0..40 {
                let idle = f64::from(step) * 0.05;
                let situation = Situation { missed, missed_anywhere: missed, idle, current, ..quiet() };
                let ratio = situation.effects[best(&situation)].ratio;
                assert!(ratio <= last, "{missed} misses, {idle} idle");
                last = ratio;
            }
        }
    }
}

#[test]
fn data_that_no_longer_fit_the_page_cache_are_compressed() {
    let read = Situation { missed: 600e9, missed_anywhere: 600e9, current: NONE, ..quiet() };
    assert_eq!(best(&read), NONE);
    let medium = Medium { slow_share: 0.5, ..REFERENCE_MEDIUM };
    assert_eq!(best(&Situation { medium, ..read.clone() }), ZSTD, "half of them would fit");
    let upper = Situation { medium, missed: 0.0, idle: 0.0, ..read };
    assert_eq!(best(&upper), ZSTD, "readers elsewhere gain by it");
    assert_eq!(best(&Situation { share: 0.0, ..upper }), NONE, "but not by a small level");
}

#[test]
fn whatever_is_measured_there_is_a_verdict() {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e-300, 1e300];
    for a in odd {
        for (i, b) in odd.into_iter().enumerate() {
            let effect = Effect { ratio: a, compress_ns: b, decompress_ns: a };
            let situation = Situation {
                effects: [effect, REFERENCE[1], Effect { ratio: b, compress_ns: a, decompress_ns: b }],
                current: 77,
                written: a,
                coming: b,
                is_burst: i.is_multiple_of(2),
                missed: b,
                expected_misses: a,
                missed_anywhere: b,
                block: a,
                share: b,
                data: a,
                for_files: b,
                unwatched: a,
                seconds: a,
                idle: b,
                cpus: b,
                medium: Medium { write_ns: a, write_wait_ns: b, ahead_ns: a, ahead_wait_ns: b, fast_ns: b, slow_ns: a, slow_share: b },
                allowance: a,
            };
            let verdict = judge(&situation);
            assert!(verdict.best < COUNT && verdict.costs.iter().all(|cost| cost.is_finite()), "{a} {b}: {verdict:?}");
        }
    }
}

#[test]
fn a_change_has_to_be_clear_and_to_last() {
    let verdict = |costs: [f64; COUNT], best| Verdict { best, costs, ratios: [1.0, 0.53, 0.42], allowance: 1.0 };
    let mut standing = Standing::default();
    assert_eq!((standing.chosen, standing.settled), (FIRST, false));
    standing.begin(NONE);
    assert_eq!(standing.chosen, NONE);
    let mut unclear = Standing::default();
    assert!(!unclear.hear(&verdict([100.0, 102.0, 500.0], NONE), PATIENCE), "what is in use is as good");
    assert_eq!((unclear.chosen, unclear.settled), (LZ4, true));
    let useless = Verdict { ratios: [1.0, 0.99, 0.99], ..verdict([100.0, 102.0, 500.0], NONE) };
    assert!(Standing::default().hear(&useless, PATIENCE), "it does nothing for what it costs");
    assert!(standing.hear(&verdict([500.0, 300.0, 100.0], ZSTD), PATIENCE), "the first verdict counts at once");
    standing.begin(NONE);
    assert_eq!(standing.chosen, ZSTD, "and ends the beginning");
    // 5 % more than the least is not worth a change.
    for _ in 0..10 {
        assert!(!standing.hear(&verdict([500.0, 100.0, 105.0], LZ4), PATIENCE));
    }
    let clear = verdict([500.0, 100.0, 150.0], LZ4);
    assert!(!standing.hear(&clear, PATIENCE) && !standing.hear(&clear, PATIENCE));
    assert!(!standing.hear(&verdict([500.0, 200.0, 100.0], ZSTD), PATIENCE), "a verdict for what is in use");
    assert!(!standing.hear(&clear, PATIENCE) && !standing.hear(&clear, PATIENCE), "begins anew");
    assert!(!standing.hear(&verdict([10.0, 100.0, 150.0], NONE), PATIENCE), "another challenger, too");
    assert!(!standing.hear(&clear, PATIENCE) && !standing.hear(&clear, PATIENCE));
    assert!(standing.hear(&clear, PATIENCE));
    assert_eq!(standing.chosen, LZ4);
    // What all codecs cost alike does not make a difference smaller.
    let alike = verdict([9100.0, 9500.0, 9000.0], ZSTD);
    assert!(!standing.hear(&alike, PATIENCE) && !standing.hear(&alike, PATIENCE) && standing.hear(&alike, PATIENCE));
    assert!(standing.hear(&clear, 1), "without patience");
    // Smaller for no more than is allowed: that is clear.
    let smaller = verdict([500.0, 100.0, 100.5], ZSTD);
    assert!(!standing.hear(&smaller, PATIENCE) && !standing.hear(&smaller, PATIENCE) && standing.hear(&smaller, PATIENCE));
}
