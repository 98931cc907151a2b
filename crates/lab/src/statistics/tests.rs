//! Against published values, and where none are published, against SciPy 1.17 and NumPy 2.4. For the bootstrap these are the ends of the
//! exact distribution of resampled means (all resamples, by convolution); tolerances are about five standard deviations of what ten
//! thousand resamples find.

use super::*;

#[track_caller]
fn near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found} is not {expected} +- {tolerance}");
}

/// Efron, Tibshirani, "An Introduction to the Bootstrap" (1993), table 2.1: survival of mice after surgery, days.
const TREATED: [f64; 7] = [94.0, 197.0, 16.0, 38.0, 99.0, 141.0, 23.0];
const CONTROL: [f64; 9] = [52.0, 104.0, 146.0, 10.0, 51.0, 30.0, 40.0, 27.0, 46.0];

/// The greatest sample stands for its side, as if known to be the best.
#[test]
fn the_greatest_stands_for_its_side() {
    let (one, worse, best) = ([9.0, 10.0, 11.0], [1.0, 2.0, 3.0], [19.0, 20.0, 21.0]);
    let found = ratio(Fold::Greatest, &[&one], &[&worse, &best], false, 0.95);
    assert_eq!(found, ratio(Fold::Product, &[&one], &[&best], false, 0.95));
    assert!((found.unwrap().ratio - 0.5).abs() < 1e-12);
    assert_eq!(ratio(Fold::Greatest, &[&one], &[&worse, &[]], false, 0.95), None, "one that was not run might be the best");
}

#[test]
fn the_mice_of_efron_and_tibshirani() {
    let treated = summarise(&TREATED, CONFIDENCE).unwrap();
    let control = summarise(&CONTROL, CONFIDENCE).unwrap();
    near(treated.mean, 86.86, 0.005);
    near(control.mean, 56.22, 0.005);
    near(treated.deviation / 7f64.sqrt(), 25.24, 0.005);
    // The table prints 14.14; its nine values give this.
    near(control.deviation / 9f64.sqrt(), 14.1586, 0.00005);
    assert_eq!((treated.median, control.median), (94.0, 46.0));
    assert_eq!((treated.count, treated.least, treated.most), (7, 16.0, 197.0));
    let ends = |summary: Summary| summary.interval.map(|interval| (interval.low, interval.high)).unwrap();
    let ((low, high), (least, most)) = (ends(treated), ends(control));
    near(low, 32.0, 3.7);
    near(high, 151.57, 5.9);
    near(least, 29.33, 1.6);
    near(most, 92.56, 3.5);
}

/// The bootstrap's own standard error of the mean of the treated mice is 23.36 in the limit (the same book, table 2.2): the deviation
/// with n instead of n - 1, over the root of n.
#[test]
fn resamples_spread_as_published() {
    let mut random = Xoshiro256PlusPlus::new(1);
    let means: Vec<f64> = (0..RESAMPLES).map(|_| resampled_mean(&TREATED, &mut random)).collect();
    near(variance(&means, mean(&means).unwrap()).sqrt(), 23.3635, 0.8);
}

#[test]
fn quantiles_are_those_of_the_tables() {
    for (freedom, t) in [(1.0, 12.706), (2.0, 4.303), (3.0, 3.182), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042), (120.0, 1.980)] {
        near(quantile::student(0.95, freedom), t, 0.0006);
    }
    near(quantile::student(0.99, 4.0), 4.604, 0.0006);
    near(quantile::student(0.998, 2.0), 22.327, 0.002);
    near(quantile::student(0.95, 1e9), 1.962, 0.001);
    for (x, p) in [(0.0, 0.5), (1.0, 0.841_344_7), (-1.96, 0.024_997_9), (-3.0, 0.001_349_9)] {
        near(quantile::normal(x), p, 1e-6);
    }
}

/// Student, "The Probable Error of a Mean" (1908): additional sleep of ten patients, as in R's `t.test(extra)`: group 2 has the mean 2.33
/// and the 95 % interval 0.898 to 3.762. Ten values are resampled here: the expanded percentiles, 0.855 % on each side, are 0.97 and 3.79.
#[test]
fn an_interval_of_ten_values() {
    let sleep = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
    let found = summarise(&sleep, CONFIDENCE).unwrap();
    let interval = found.interval.unwrap();
    near(found.mean, 2.33, 1e-9);
    assert_eq!(interval.method, Method::Bootstrap);
    near(interval.low, 0.97, 0.1);
    near(interval.high, 3.79, 0.12);
    assert_eq!(summarise(&sleep, CONFIDENCE).unwrap(), found, "the resampling is seeded");
}

#[test]
fn few_values_get_wide_intervals_or_none() {
    assert_eq!(summarise(&[], CONFIDENCE), None);
    assert_eq!(summarise(&[5.0], CONFIDENCE).unwrap().interval, None);
    // 4.303 / sqrt(3) times the deviation of 1.
    let three = summarise(&[1.0, 2.0, 3.0], CONFIDENCE).unwrap().interval.unwrap();
    assert_eq!(three.method, Method::Student);
    near(three.high - 2.0, 2.484, 0.001);
    near(2.0 - three.low, 2.484, 0.001);
    let same = summarise(&[2.0, 2.0], CONFIDENCE).unwrap().interval.unwrap();
    assert_eq!((same.low, same.high), (2.0, 2.0));
    assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
}

#[test]
fn ratios_are_of_means() {
    let found = ratio(Fold::Product, &[&TREATED], &[&CONTROL], false, CONFIDENCE).unwrap();
    near(found.ratio, 86.857_142 / 56.222_222, 1e-6);
    let interval = found.interval.unwrap();
    assert_eq!(interval.method, Method::Bootstrap);
    // NumPy, the mean of 300 times ten thousand resamples: the mice decide nothing.
    near(interval.low, 0.501, 0.065);
    near(interval.high, 3.867, 0.33);
    let flat = ratio(Fold::Product, &[&[2.0, 2.0], &[3.0, 3.0]], &[&[4.0, 4.0]], false, CONFIDENCE).unwrap();
    near(flat.ratio, 1.5, 1e-12);
    near(flat.interval.unwrap().low, 1.5, 1e-12);
    assert_eq!(ratio(Fold::Product, &[&[2.0]], &[&[1.0, 1.0, 1.0]], false, CONFIDENCE).unwrap().interval, None);
    assert_eq!(ratio(Fold::Product, &[&[]], &[&[1.0]], false, CONFIDENCE), None);
    let none = ratio(Fold::Product, &[&[0.0, 0.0]], &[&[1.0, 2.0]], false, CONFIDENCE).unwrap();
    assert_eq!((none.ratio, none.interval.map(|interval| (interval.low, interval.high))), (0.0, Some((0.0, 0.0))));
    assert_eq!(ratio(Fold::Product, &[&[0.0]], &[&[1.0, 2.0]], false, CONFIDENCE).unwrap().interval, None);
    assert_eq!(ratio(Fold::Product, &[&[0.0, 0.0]], &[&[0.0, 0.0]], false, CONFIDENCE), None);
}

/// Equal relative spread and numbers on both sides: 2 (n - 1) degrees of freedom, and the reach of the logarithm follows from the table's
/// t(4) = 2.776 with 2 * (0.1 / sqrt(3))^2 as variance.
#[test]
fn a_ratio_of_few_values_is_welchs() {
    let interval = ratio(Fold::Product, &[&[9.0, 10.0, 11.0]], &[&[0.9, 1.0, 1.1]], false, CONFIDENCE).unwrap().interval.unwrap();
    let reach = 2.776 * (2.0 * 0.01f64 / 3.0).sqrt();
    assert_eq!(interval.method, Method::Student);
    near(interval.high, 10.0 * reach.exp(), 0.002);
    near(interval.low, 10.0 * (-reach).exp(), 0.002);
}

/// At 99.8 %, of which a claim with 25 comparisons makes 95 %, no number of values leaves ten resamples beyond an end: five values must not
/// get the range of their resamples, which is the same at 95 %. Expected: t(4) = 7.173, and for a ratio of equal spreads t(8) = 4.501.
#[test]
fn a_high_confidence_widens_the_interval_of_five_values() {
    let (values, others) = ([9.0, 9.5, 10.0, 10.5, 11.0], [0.9, 0.95, 1.0, 1.05, 1.1]);
    let interval = summarise(&values, 0.998).unwrap().interval.unwrap();
    assert_eq!(interval.method, Method::Student);
    near(interval.high, 10.0 + 7.173 * (0.625f64 / 5.0).sqrt(), 0.001);
    let interval = ratio(Fold::Product, &[&values], &[&others], false, 0.998).unwrap().interval.unwrap();
    let reach = 4.501 * (2.0 * 0.00625f64 / 5.0).sqrt();
    assert_eq!((interval.method, interval.confidence), (Method::Student, 0.998));
    near(interval.high, 10.0 * reach.exp(), 0.003);
    near(interval.low, 10.0 * (-reach).exp(), 0.003);
    assert_eq!((beyond(5, 0.95), beyond(100, 0.998)), (None, None));
    assert_eq!(beyond(6, 0.95), Some(24));
}

/// A machine that is half as fast in every other repeat says nothing about which of two things is faster.
#[test]
fn blocks_take_out_what_happens_to_all() {
    let speed = |at: usize| if at.is_multiple_of(2) { 100.0 } else { 50.0 };
    let noise = |at: usize| 1.0 + 0.01 * (at % 5) as f64;
    let (fast, slow): (Vec<f64>, Vec<f64>) = (0..20).map(|at| (1.1 * speed(at) * noise(at), speed(at) * noise(at + 2))).unzip();
    let found = |blocks| ratio(Fold::Product, &[&fast], &[&slow], blocks, CONFIDENCE).unwrap();
    let (apart, together) = (found(false), found(true));
    near(apart.ratio, together.ratio, 1e-12);
    let width = |ratio: Ratio| ratio.interval.map(|interval| interval.high - interval.low).unwrap();
    assert!(width(together) * 10.0 < width(apart), "{together:?}, {apart:?}");
    assert!(together.interval.is_some_and(|interval| interval.low < 1.1 && interval.high > 1.09), "{together:?}");
    let uneven = ratio(Fold::Product, &[&fast[1..]], &[&slow], true, CONFIDENCE).unwrap();
    assert_eq!(uneven, ratio(Fold::Product, &[&fast[1..]], &[&slow], false, CONFIDENCE).unwrap(), "no blocks");
}

/// Two styles to which a log adds 1 each: their relative savings differ, their differences do not.
#[test]
fn sums_compare_differences() {
    let (leveled, universal) = (([4.9, 5.0, 5.1], [3.9, 4.0, 4.1]), ([2.9, 3.0, 3.1], [1.9, 2.0, 2.1]));
    let folded = |fold| ratio(fold, &[&leveled.1, &universal.0], &[&leveled.0, &universal.1], false, CONFIDENCE).unwrap();
    near(folded(Fold::Product).ratio, 1.2, 1e-12);
    let found = folded(Fold::Sum);
    near(found.ratio, 1.0, 1e-12);
    // Four equal variances: 8 degrees of freedom, t = 2.306, and four times 0.01 / (3 * 7^2) as variance of the logarithm.
    let reach = 2.306 * (4.0f64 * 0.01 / (3.0 * 49.0)).sqrt();
    near(found.interval.unwrap().high, reach.exp(), 0.0001);
    near(found.interval.unwrap().low, (-reach).exp(), 0.0001);
    assert_eq!(ratio(Fold::Sum, &[], &[&[1.0]], false, CONFIDENCE), None);
}

/// The example in the manual of R's `effsize::cliff.delta`.
#[test]
fn cliffs_delta_of_the_manual() {
    let treatment = [10.0, 10.0, 20.0, 20.0, 20.0, 30.0, 30.0, 30.0, 40.0, 50.0];
    let control = [10.0, 20.0, 30.0, 40.0, 40.0, 50.0];
    near(cliffs_delta(&treatment, &control).unwrap(), -0.25, 1e-12);
    assert_eq!(cliffs_delta(&[2.0], &[1.0]), Some(1.0));
    assert_eq!(cliffs_delta(&[], &[1.0]), None);
}
