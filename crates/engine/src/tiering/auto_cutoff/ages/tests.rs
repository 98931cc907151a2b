use super::*;

#[test]
fn buckets_are_quarters_of_octaves() {
    assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 8].map(bucket), [0, 0, 4, 6, 8, 9, 10, 11, 12]);
    assert_eq!([bucket(MAX_SEQ), bucket(u64::MAX)], [BUCKETS - 1; 2]);
    // Beyond 52 octaves a double has no room for the last digits.
    for age in (0..52).flat_map(|octave| [1u64 << octave, (1 << octave) + (1 << octave >> 1), (2 << octave) - 1]) {
        let at = bucket(age);
        assert!(start(at) <= age as f64 && (age as f64) < start(at + 1), "{age} in {at}");
    }
}

#[test]
fn spreading_keeps_the_whole() {
    for (from, to) in [(0.0, 1.0), (1.0, 2.0), (3.0, 3.0), (10.0, 10_000.0), (1e6, 1e6 + 1.0), (0.0, 1e18), (1e17, 1e18)] {
        let mut ages = Ages::default();
        ages.spread(from, to, 7.0);
        assert!((ages.total() - 7.0).abs() < 1e-9, "{from} to {to}: {}", ages.total());
    }
    let mut ages = Ages::default();
    ages.spread(100.0, 1100.0, 1000.0);
    for age in [100, 101, 350, 600, 1023, 1024, 1100, 5000] {
        let even = (age as f64 - 100.0).clamp(0.0, 1000.0);
        // Within a bucket that is filled in part it is off by at most what the bucket holds.
        assert!((ages.younger(age) - even).abs() < 80.0, "{age}: {} not {even}", ages.younger(age));
    }
}

#[test]
fn reach_and_least_undo_younger() {
    let mut ages = Ages::default();
    ages.spread(1000.0, 9000.0, 100.0);
    ages.add(u64::MAX, 50.0);
    for weight in [1.0, 10.0, 33.0, 99.0] {
        let (most, least) = (ages.reach(weight), ages.least(weight));
        assert!(ages.younger(most) <= weight + 1e-9, "{weight}: {most}");
        assert!(ages.younger(least) >= weight - 1e-9, "{weight}: {least}");
        assert!(least <= most + 1, "{weight}: {least} {most}");
    }
    assert_eq!(ages.reach(150.0), u64::MAX);
    assert_eq!(ages.reach(f64::INFINITY), u64::MAX);
    assert_eq!(ages.least(151.0), u64::MAX);
    assert_eq!([ages.younger(u64::MAX), ages.younger(0)], [150.0, 0.0]);
    assert_eq!(Ages::default().reach(0.0), u64::MAX, "nothing is held: all of it fits");
}
