//! The named, portable generator of all workloads, written out so that no library update can change a stream.

/// A bijection on 64 bits with good avalanche (the finaliser of SplitMix64; Steele, Lea, Flood, OOPSLA 2014).
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// xoshiro256++ 1.0 (Blackman, Vigna, 2019; <https://prng.di.unimi.it/xoshiro256plusplus.c>), seeded by SplitMix64 as its authors advise.
#[derive(Debug, Clone)]
pub struct Xoshiro256PlusPlus {
    state: [u64; 4],
}

impl Xoshiro256PlusPlus {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        let mut counter = seed;
        let state = std::array::from_fn(|_| {
            counter = counter.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mix(counter)
        });
        Xoshiro256PlusPlus { state }
    }

    /// The generator of one of many independent streams (threads) of a seed. The stream number is hashed first: neighbours would
    /// otherwise share state words.
    pub fn stream(seed: u64, stream: u64) -> Self {
        Self::new(seed.wrapping_add(mix(stream.wrapping_add(1))))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `0..n` (0 for `n` = 0): the high half of a product, whose bias is below n / 2^64 (Lemire, 2019).
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in `[0, 1)`, 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xoshiro_gives_the_published_vector() {
        let mut random = Xoshiro256PlusPlus { state: [1, 2, 3, 4] };
        let expected = [
            41943041,
            58720359,
            3588806011781223,
            3591011842654386,
            9228616714210784205,
            9973669472204895162,
            14011001112246962877,
            12406186145184390807,
            15849039046786891736,
            10450023813501588000,
        ];
        assert_eq!(std::array::from_fn::<u64, 10, _>(|_| random.next_u64()), expected);
    }

    #[test]
    fn split_mix_gives_the_published_vector() {
        let words = std::array::from_fn::<u64, 3, _>(|i| mix(1234567u64.wrapping_add((i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))));
        assert_eq!(words, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn below_stays_below() {
        let mut random = Xoshiro256PlusPlus::new(1);
        assert!((0..1000).all(|_| random.below(3) < 3 && random.below(1) == 0 && (0.0..1.0).contains(&random.unit())));
    }
}
