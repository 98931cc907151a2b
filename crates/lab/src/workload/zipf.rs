//! Zipf-distributed ranks, exact for every exponent and size. (YCSB's "scrambled" generator is known not to be Zipfian, YCSB issue
//! 1495: it hashes ranks, so that popular ranks collide; here the ranks are exact and [`super::Permutation`] spreads them.)

use super::random::Xoshiro256PlusPlus;

/// Draws rank `r` in `0..n` with probability proportional to `1 / (r + 1)^alpha`, by rejection-inversion: constant time, no table
/// (Hörmann, Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", TOMACS 6(3), 1996).
#[derive(Debug, Clone)]
pub struct Zipf {
    n: f64,
    alpha: f64,
    h_first: f64,
    h_last: f64,
    squeeze: f64,
}

impl Zipf {
    /// Ranks `0..n` (`n` at least 1) with exponent `alpha >= 0`; 0 is uniform.
    pub fn new(n: u64, alpha: f64) -> Self {
        let n = n.max(1) as f64;
        Zipf {
            n,
            alpha,
            h_first: integral(1.5, alpha) - 1.0,
            h_last: integral(n + 0.5, alpha),
            squeeze: 2.0 - inverse(integral(2.5, alpha) - weight(2.0, alpha), alpha),
        }
    }

    /// Changes the range to `0..n`; the exponent stays.
    pub fn resize(&mut self, n: u64) {
        self.n = n.max(1) as f64;
        self.h_last = integral(self.n + 0.5, self.alpha);
    }

    /// The next rank.
    #[inline]
    pub fn draw(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        loop {
            let u = self.h_last + random.unit() * (self.h_first - self.h_last);
            let x = inverse(u, self.alpha);
            let k = x.round().clamp(1.0, self.n);
            if k - x <= self.squeeze || u >= integral(k + 0.5, self.alpha) - weight(k, self.alpha) {
                return k as u64 - 1;
            }
        }
    }
}

/// The hat function `x^-alpha`.
fn weight(x: f64, alpha: f64) -> f64 {
    (-alpha * x.ln()).exp()
}

/// Integral of the hat function: `(x^(1-alpha) - 1) / (1-alpha)`, or `ln x` for `alpha` = 1.
fn integral(x: f64, alpha: f64) -> f64 {
    let log = x.ln();
    let t = (1.0 - alpha) * log;
    log * if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t * 0.5 * (1.0 + t / 3.0 * (1.0 + 0.25 * t)) }
}

/// The inverse of [`integral`].
fn inverse(x: f64, alpha: f64) -> f64 {
    let t = (x * (1.0 - alpha)).max(-1.0);
    let log = if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t * (0.5 - t * (1.0 / 3.0 - 0.25 * t)) };
    (log * x).exp()
}
