//! Statistics of a few repeated measurements: only statements that so few values allow.
//!
//! * One value has no interval.
//! * Otherwise intervals are bootstrap percentiles (Efron 1979; Efron, Tibshirani 1993, chapter 13), expanded as Hesterberg advises
//!   for small samples ("What Teachers Should Know About the Bootstrap", The American Statistician 69, 2015, expanded percentile
//!   interval). The resampling is seeded: the same values give the same interval. Where the values of all samples come in blocks, one of
//!   each measured at about the same time with the same keys, whole blocks are drawn (Davison, Hinkley 1997, section 3.8): what a block
//!   does to all alike is no uncertainty of their ratio.
//! * Where fewer than ten resamples would lie beyond an end (up to five values at 95 %, any number at 99.8 %), that end would be the
//!   range of the resamples, whatever the confidence. The interval is then Student's (for ratios Welch's, on logarithms), which assumes
//!   a normal distribution and pays for small numbers with width.
//!
//! The effect size is the ratio of means, which is what people mean by "35 % less", with its interval; beside it stands Cliff's delta
//! (1993), which needs no assumption at all: how often a value of one side exceeds one of the other, minus how often it is exceeded.

mod quantile;

#[cfg(test)]
mod tests;

use crate::workload::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// Confidence of intervals: the share of them that hold the true mean.
pub const CONFIDENCE: f64 = 0.95;
/// Number of resamples for an interval.
pub const RESAMPLES: usize = 10_000;
/// Fewest resamples beyond each end of an interval.
const LEAST_BEYOND: usize = 10;
/// Seed of all resampling.
const SEED: u64 = 0x5EED;

/// Confidence interval of a mean or a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence: the share of such intervals that hold the true value, 0 to 1.
    pub confidence: f64,
    /// Method that gave the interval.
    pub method: Method,
}

/// Method of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Student's t, for a ratio Welch's: used where there are too few values, or the confidence is too high, for the bootstrap.
    Student,
    /// Expanded bootstrap percentiles.
    Bootstrap,
}

/// Repeated measurements of one thing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of values.
    pub count: usize,
    /// Mean of the values.
    pub mean: f64,
    /// Median of the values.
    pub median: f64,
    /// Standard deviation of the sample (n - 1); 0 for one value.
    pub deviation: f64,
    /// Smallest.
    pub least: f64,
    /// Largest.
    pub most: f64,
    /// Interval of the mean; `None` for one value.
    pub interval: Option<Interval>,
}

/// Way in which the means of several samples become one figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fold {
    /// Means are multiplied: two above and two below compare two ratios.
    #[default]
    Product,
    /// Means are added: two above and two below compare two differences, `a - d` and `c - b` in `(a + b) / (c + d)`, as a share of the
    /// whole.
    Sum,
    /// The greatest mean of a side stands for it: one thing against the best of several. The choice of the best counts as certain.
    Greatest,
}

/// A ratio of (products or sums of) means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The ratio.
    pub ratio: f64,
    /// Interval of the ratio; `None` where some side has only one value.
    pub interval: Option<Interval>,
}

/// The mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The middle value, or the mean of the two middle ones; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Summarises repeated measurements of one thing; `None` without values. `confidence`: see [`CONFIDENCE`].
pub fn summarise(values: &[f64], confidence: f64) -> Option<Summary> {
    let (mean, median) = (mean(values)?, median(values)?);
    let deviation = variance(values, mean).sqrt();
    let interval = match (values.len(), beyond(values.len(), confidence)) {
        (1, _) => None,
        (_, Some(at)) => Some(bootstrap(at, confidence, |random| resampled_mean(values, random))),
        (n, None) => {
            let reach = quantile::student(confidence, n as f64 - 1.0) * deviation / (n as f64).sqrt();
            Some(Interval { low: mean - reach, high: mean + reach, confidence, method: Method::Student })
        }
    };
    let edge = |pick: fn(f64, f64) -> f64| values.iter().copied().fold(mean, pick);
    Some(Summary { count: values.len(), mean, median, deviation, least: edge(f64::min), most: edge(f64::max), interval })
}

/// The ratio of the folded means of `above` to those of `below`, each a sample of its own. With one sample on each side it tells how many
/// times larger one thing is than another. With `blocks` the values at one index of all samples belong together. `None` where a side is
/// empty or a mean is not positive; but for several values that are all 0 the ratio to others is 0, and certain.
pub fn ratio(fold: Fold, above: &[&[f64]], below: &[&[f64]], blocks: bool, confidence: f64) -> Option<Ratio> {
    if fold == Fold::Greatest {
        return ratio(Fold::Product, &[greatest(above)?], &[greatest(below)?], blocks, confidence);
    }
    let side = |samples: &[&[f64]], draw: &mut dyn FnMut(&[f64]) -> Option<f64>| -> Option<f64> {
        let means = samples.iter().map(|sample| draw(sample).filter(|mean| *mean > 0.0 && mean.is_finite()));
        let folded = match fold {
            Fold::Product | Fold::Greatest => means.product::<Option<f64>>(),
            Fold::Sum => means.sum(),
        };
        folded.filter(|_| !samples.is_empty())
    };
    let least = above.iter().chain(below).map(|sample| sample.len()).min()?;
    let blocks = blocks && above.iter().chain(below).all(|sample| sample.len() == least);
    if fold == Fold::Product && above.iter().any(|sample| sample.iter().all(|value| *value == 0.0)) {
        side(below, &mut mean).filter(|_| least > 0)?;
        let interval = Interval { low: 0.0, high: 0.0, confidence, method: Method::Student };
        return Some(Ratio { ratio: 0.0, interval: (least > 1).then_some(interval) });
    }
    let sides = (side(above, &mut mean)?, side(below, &mut mean)?);
    let ratio = sides.0 / sides.1;
    let interval = match (least, beyond(least, confidence)) {
        (1, _) => None,
        (_, Some(at)) => Some(bootstrap(at, confidence, |random| {
            let drawn: Vec<usize> = if blocks { (0..least).map(|_| random.below(least as u64) as usize).collect() } else { Vec::new() };
            let mut draw = |sample: &[f64]| match drawn.as_slice() {
                [] => Some(resampled_mean(sample, random)),
                drawn => Some(drawn.iter().map(|at| sample[*at]).sum::<f64>() / drawn.len() as f64),
            };
            side(above, &mut draw).zip(side(below, &mut draw)).map_or(f64::NAN, |(above, below)| above / below)
        })),
        (_, None) => {
            let of = |samples: &[&[f64]], sum: f64| samples.iter().map(|sample| part(fold, sample, sum)).collect::<Vec<_>>();
            Some(welch(&[of(above, sides.0), of(below, sides.1)].concat(), ratio.ln(), confidence))
        }
    };
    Some(Ratio { ratio, interval })
}

/// The sample with the greatest mean; `None` if any has no values, since its mean might be greater.
fn greatest<'a>(samples: &[&'a [f64]]) -> Option<&'a [f64]> {
    let means = samples.iter().map(|sample| Some((mean(sample)?, *sample))).collect::<Option<Vec<_>>>()?;
    means.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, sample)| sample)
}

/// Cliff's delta, -1 to 1: the share of pairs in which the value of `a` is greater, minus the share in which that of `b` is greater. `None`
/// where a side is empty.
pub fn cliffs_delta(a: &[f64], b: &[f64]) -> Option<f64> {
    let pairs = a.iter().flat_map(|x| b.iter().map(move |y| x.partial_cmp(y).map_or(0.0, |order| f64::from(order as i8))));
    (!a.is_empty() && !b.is_empty()).then(|| pairs.sum::<f64>() / (a.len() * b.len()) as f64)
}

fn variance(values: &[f64], mean: f64) -> f64 {
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    squares / (values.len() as f64 - 1.0).max(1.0)
}

/// Contribution of a sample to the variance of the logarithm of its side, by the delta method, and its degrees of freedom. `sum`: that of
/// the side.
fn part(fold: Fold, sample: &[f64], sum: f64) -> (f64, f64) {
    let (n, mean) = (sample.len() as f64, mean(sample).unwrap_or(0.0));
    let scale = match fold {
        Fold::Product | Fold::Greatest => mean,
        Fold::Sum => sum,
    };
    (variance(sample, mean) / (n * scale * scale), n - 1.0)
}

/// Welch's interval of a logarithm from the parts of its variance; degrees of freedom by Satterthwaite.
fn welch(parts: &[(f64, f64)], logarithm: f64, confidence: f64) -> Interval {
    let all: f64 = parts.iter().map(|(variance, _)| variance).sum();
    let spread: f64 = parts.iter().map(|(variance, freedom)| variance * variance / freedom).sum();
    let freedom = if spread > 0.0 { all * all / spread } else { 1.0 };
    let reach = quantile::student(confidence, freedom) * all.sqrt();
    Interval { low: (logarithm - reach).exp(), high: (logarithm + reach).exp(), confidence, method: Method::Student }
}

/// Number of resamples of `n` values (of the smallest sample) beyond each end of an expanded percentile interval; `None` if too few for the
/// end to be more than their range.
fn beyond(n: usize, confidence: f64) -> Option<usize> {
    let n = n as f64;
    let outside = quantile::normal(-(n / (n - 1.0)).sqrt() * quantile::student(confidence, n - 1.0));
    let at = ((outside * RESAMPLES as f64) as usize).min(RESAMPLES / 2 - 1);
    (n > 1.0 && at >= LEAST_BEYOND).then_some(at)
}

/// The interval of the figure that `draw` takes from a resample, with `at` resamples beyond each end.
fn bootstrap(at: usize, confidence: f64, mut draw: impl FnMut(&mut Xoshiro256PlusPlus) -> f64) -> Interval {
    let mut random = Xoshiro256PlusPlus::new(SEED);
    let mut drawn: Vec<f64> = (0..RESAMPLES).map(|_| draw(&mut random)).collect();
    drawn.sort_by(f64::total_cmp);
    Interval { low: drawn[at], high: drawn[RESAMPLES - 1 - at], confidence, method: Method::Bootstrap }
}

fn resampled_mean(sample: &[f64], random: &mut Xoshiro256PlusPlus) -> f64 {
    let sum: f64 = (0..sample.len()).map(|_| sample[random.below(sample.len() as u64) as usize]).sum();
    sum / sample.len() as f64
}
