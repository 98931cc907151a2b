//! Tests of the choice in made-up situations.

use super::*;

const NONE: usize = PLAIN;
const LZ4: usize = 1;
const ZSTD: usize = 2;

/// A last level that is being written at 100 MB/s, on a machine with nothing else to do, and that nobody reads.
fn quiet() -> Situation {
    Situation {
        effects: REFERENCE,
        current: LZ4,
        rate: 0.1,
        is_merging: false,
        reads: 0.0,
        block: 4096.0,
        spare: 1.9,
        cpus: 2.0,
        medium: REFERENCE_MEDIUM,
        data: 6e9,
        present: 0.53,
        for_files: f64::INFINITY,
        unwatched: 0.0,
    }
}

fn chosen(situation: &Situation) -> usize {
    situation.judge().chosen
}

#[test]
fn cold_data_on_free_processors_is_made_smallest() {
    assert_eq!(chosen(&quiet()), ZSTD);
}

#[test]
fn hot_data_is_left_as_it_is() {
    assert_eq!(chosen(&Situation { reads: 100.0, ..quiet() }), NONE);
}

#[test]
fn without_free_processors_writing_fast_comes_first() {
    let busy = Situation { spare: 0.0, ..quiet() };
    assert_eq!(chosen(&busy), NONE);
    // A medium that is slower than the codec makes up for it.
    let slow = |write_ns| Medium { write_ns, ..REFERENCE_MEDIUM };
    assert_eq!(chosen(&Situation { medium: slow((60.0, 0.0)), ..busy.clone() }), ZSTD);
    let cost = |medium| Situation { medium, ..busy.clone() }.judge().costs[NONE];
    assert!((cost(slow((0.4, 20.0))) - cost(slow((10.4, 0.0)))).abs() < 1e-9, "others work during half of a wait");
}

/// Clients that wait for the medium leave idle time on the average, but are back before the job is done.
#[test]
fn nearly_busy_processors_are_not_free() {
    let near = |spare, cpus, needed, expected: f64| {
        let price = Situation { spare, cpus, ..quiet() }.price(needed);
        assert!((price - expected).abs() < 1e-9, "{price} is not {expected}");
    };
    near(0.4, 2.0, 0.0, 0.6);
    near(1.2, 2.0, 0.2, FREE);
    near(1.0, 2.0, 0.8, 0.4);
    near(1.6, 8.0, 0.8, FREE);
    near(0.2, 1.0, 0.0, 0.6);
    near(0.5, 0.5, 0.1, FREE);
    near(0.0, 0.0, 0.0, 1.0);
}

/// A merge that follows a quiet time takes a processor for as long as it runs, whatever the rate was before.
#[test]
fn a_merge_needs_its_share_of_a_processor() {
    let level = Situation { rate: 0.001, ..quiet() };
    let merging = Situation { is_merging: true, ..level.clone() };
    assert!((level.needed(ZSTD) - 0.0016).abs() < 1e-9);
    assert!((merging.needed(ZSTD) - 1.6 / 2.3).abs() < 1e-9 && merging.needed(NONE) == 0.0);
    assert!((Situation { rate: 1.0, ..merging }.needed(ZSTD) - 1.6).abs() < 1e-9, "several jobs");
}

#[test]
fn what_memory_cannot_hold_is_made_smaller_before_anyone_reads() {
    // Data that were just loaded, with writers that leave no processor.
    let loaded = Situation { spare: 0.0, reads: 1.0, unwatched: 1.0, data: 5e8, current: NONE, present: 1.0, ..quiet() };
    let with = |for_files| chosen(&Situation { for_files, ..loaded.clone() });
    assert_eq!(with(1.1e9), NONE, "they fit, and as much again would");
    assert_eq!(with(6e8), LZ4, "they fit, but a load that has come so far is likely to go on");
    assert_eq!(chosen(&Situation { for_files: 4e8, spare: 2.0, ..loaded.clone() }), ZSTD, "nobody wants the processors");
    assert_eq!(chosen(&Situation { for_files: 6e8, unwatched: 0.0, ..loaded.clone() }), NONE, "nobody waited");
    with(0.0);
}

#[test]
fn data_that_readers_wait_for_are_compressed() {
    let read = Situation { reads: 100.0, current: NONE, present: 1.0, ..quiet() };
    let medium = Medium { slow_share: 0.8, ..REFERENCE_MEDIUM };
    assert_eq!([chosen(&read), chosen(&Situation { medium, ..read.clone() })], [NONE, ZSTD]);
}

#[test]
fn what_does_not_shrink_is_stored_plain() {
    let effects = REFERENCE.map(|effect| Effect { ratio: 0.96, ..effect });
    for spare in [0.0, 8.0] {
        for current in 0..COUNT {
            assert_eq!(chosen(&Situation { effects, spare, current, ..quiet() }), NONE);
        }
    }
}

#[test]
fn more_reads_never_ask_for_slower_decompression() {
    for spare in [0.0, 0.3, 1.5] {
        let of = |step| REFERENCE[Situation { reads: 0.01 * 1.4f64.powi(step), spare, ..quiet() }.judge().best].decompress_ns;
        assert!((0..60).map(of).is_sorted_by(|a, b| a >= b), "{spare} idle");
        assert_eq!(of(60), 0.0, "read so often, it is left plain");
    }
}

#[test]
fn more_idle_processors_never_ask_for_weaker_compression() {
    for reads in [0.0, 0.1, 1.0, 10.0] {
        let of = |step| REFERENCE[Situation { reads, spare: f64::from(step) * 0.05, ..quiet() }.judge().best].ratio;
        assert!((0..40).map(of).is_sorted_by(|a, b| a >= b), "{reads} reads");
    }
}

#[test]
fn a_change_has_to_be_clear() {
    let with = |lz4: f64, current| {
        let mut effects = [REFERENCE[NONE]; COUNT];
        effects[LZ4] = Effect { ratio: lz4, compress_ns: 0.0, decompress_ns: 0.0 };
        Situation { effects, current, ..quiet() }.judge()
    };
    assert_eq!(with(0.945, NONE).chosen, LZ4);
    assert_eq!(with(0.955, NONE).chosen, NONE);
    let mut alike = Situation { current: ZSTD, ..quiet() };
    alike.effects[LZ4].ratio = 0.43;
    alike.effects[LZ4].compress_ns = 1.5;
    let verdict = alike.judge();
    assert_eq!((verdict.best, verdict.chosen), (LZ4, ZSTD), "{verdict:?}");
}
