//! What a few repeated measurements allow to be said, and no more.
//!
//! * One value has no interval.
//! * Two to four have Student's interval (for ratios Welch's, on logarithms): resampling so few values only finds their range again, and
//!   such an interval is far too narrow. Student's assumes a normal distribution and pays for small numbers with width.
//! * From five on, intervals are bootstrap percentiles (Efron 1979; Efron, Tibshirani 1993, chapter 13), expanded as Hesterberg advises
//!   for small samples ("What Teachers Should Know About the Bootstrap", The American Statistician 69, 2015, expanded percentile
//!   interval). The resampling is seeded: the same values give the same interval.
//!
//! The effect size is the ratio of means, which is what people mean by "35 % less", with its interval; beside it stands Cliff's delta
//! (1993), which needs no assumption at all: how often a value of one side exceeds one of the other, minus how often it is exceeded.

mod quantile;

#[cfg(test)]
mod tests;

use crate::workload::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// Share of such intervals that hold the true mean.
pub const CONFIDENCE: f64 = 0.95;
/// Fewest values (of each side) that are resampled.
pub const BOOTSTRAP_FROM: usize = 5;
/// Resamples of an interval.
pub const RESAMPLES: usize = 10_000;
/// All resampling follows from it.
const SEED: u64 = 0x5EED;

/// Where a mean or a ratio probably lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Share of such intervals that hold the true value, 0 to 1.
    pub confidence: f64,
    /// How it was found.
    pub method: Method,
}

/// How an interval was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Student's t: fewer than [`BOOTSTRAP_FROM`] values.
    Student,
    /// Expanded bootstrap percentiles.
    Bootstrap,
}

/// Repeated measurements of one thing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their median.
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

/// A ratio of (products of) means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The ratio.
    pub ratio: f64,
    /// Its interval; `None` where some side has only one value.
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

/// Everything about repeated measurements of one thing; `None` without values. `confidence`: see [`CONFIDENCE`].
pub fn summarise(values: &[f64], confidence: f64) -> Option<Summary> {
    let (mean, median) = (mean(values)?, median(values)?);
    let deviation = variance(values, mean).sqrt();
    let interval = match values.len() {
        1 => None,
        n if n < BOOTSTRAP_FROM => {
            let reach = quantile::student(confidence, n as f64 - 1.0) * deviation / (n as f64).sqrt();
            Some(Interval { low: mean - reach, high: mean + reach, confidence, method: Method::Student })
        }
        n => Some(bootstrap(n, confidence, |random| resampled_mean(values, random))),
    };
    let edge = |pick: fn(f64, f64) -> f64| values.iter().copied().fold(mean, pick);
    Some(Summary { count: values.len(), mean, median, deviation, least: edge(f64::min), most: edge(f64::max), interval })
}

/// The product of the means of `above` over that of `below`, each a sample of its own. With one of each it is how many times larger one
/// thing is than another; with two of each, how a ratio itself changes. `None` where a sample is empty or a mean is not positive.
pub fn ratio(above: &[&[f64]], below: &[&[f64]], confidence: f64) -> Option<Ratio> {
    let samples = || above.iter().map(|sample| (1.0, *sample)).chain(below.iter().map(|sample| (-1.0, *sample)));
    let logarithm = |draw: &mut dyn FnMut(&[f64]) -> Option<f64>| {
        samples().map(|(sign, sample)| Some(sign * draw(sample).filter(|mean| *mean > 0.0 && mean.is_finite())?.ln())).sum::<Option<f64>>()
    };
    let ratio = logarithm(&mut mean)?.exp();
    let least = samples().map(|(_, sample)| sample.len()).min()?;
    let interval = match least {
        1 => None,
        n if n < BOOTSTRAP_FROM => Some(welch(&samples().map(|(_, sample)| sample).collect::<Vec<_>>(), ratio.ln(), confidence)),
        n => Some(bootstrap(n, confidence, |random| {
            logarithm(&mut |sample| Some(resampled_mean(sample, random))).map_or(f64::NAN, f64::exp)
        })),
    };
    Some(Ratio { ratio, interval })
}

/// Cliff's delta, -1 to 1: the share of pairs in which the value of `a` is greater, minus the share in which that of `b` is. `None` where
/// a side is empty.
pub fn cliffs_delta(a: &[f64], b: &[f64]) -> Option<f64> {
    let pairs = a.iter().flat_map(|x| b.iter().map(move |y| x.partial_cmp(y).map_or(0.0, |order| f64::from(order as i8))));
    (!a.is_empty() && !b.is_empty()).then(|| pairs.sum::<f64>() / (a.len() * b.len()) as f64)
}

fn variance(values: &[f64], mean: f64) -> f64 {
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    squares / (values.len() as f64 - 1.0).max(1.0)
}

/// Welch's interval of a sum of logarithms of means; their variance by the delta method, degrees of freedom by Satterthwaite.
fn welch(samples: &[&[f64]], logarithm: f64, confidence: f64) -> Interval {
    let parts: Vec<(f64, f64)> = samples
        .iter()
        .filter_map(|sample| {
            let (mean, n) = (mean(sample)?, sample.len() as f64);
            Some((variance(sample, mean) / (n * mean * mean), n - 1.0))
        })
        .collect();
    let all: f64 = parts.iter().map(|(variance, _)| variance).sum();
    let spread: f64 = parts.iter().map(|(variance, freedom)| variance * variance / freedom).sum();
    let freedom = if spread > 0.0 { all * all / spread } else { 1.0 };
    let reach = quantile::student(confidence, freedom) * all.sqrt();
    Interval { low: (logarithm - reach).exp(), high: (logarithm + reach).exp(), confidence, method: Method::Student }
}

/// The interval of what `draw` says of a resample. `n`: values of the smallest sample.
fn bootstrap(n: usize, confidence: f64, mut draw: impl FnMut(&mut Xoshiro256PlusPlus) -> f64) -> Interval {
    let mut random = Xoshiro256PlusPlus::new(SEED);
    let mut drawn: Vec<f64> = (0..RESAMPLES).map(|_| draw(&mut random)).collect();
    drawn.sort_by(f64::total_cmp);
    let n = n as f64;
    let outside = quantile::normal(-(n / (n - 1.0)).sqrt() * quantile::student(confidence, n - 1.0));
    let at = ((outside * RESAMPLES as f64) as usize).min(RESAMPLES / 2 - 1);
    Interval { low: drawn[at], high: drawn[RESAMPLES - 1 - at], confidence, method: Method::Bootstrap }
}

fn resampled_mean(sample: &[f64], random: &mut Xoshiro256PlusPlus) -> f64 {
    let sum: f64 = (0..sample.len()).map(|_| sample[random.below(sample.len() as u64) as usize]).sum();
    sum / sample.len() as f64
}
