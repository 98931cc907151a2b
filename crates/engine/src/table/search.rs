//! The machine-specific corner: comparing sixteen tags at once. All unsafe code of the tables is here.

/// A bit per tag that equals `tag`, the first tag's lowest.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn matches(tags: &[u8; 16], tag: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    let (low, high) = halves(tags);
    // SAFETY: these work on registers only and need SSE2, which every x86_64 has. (The two halves become one load.)
    unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_set_epi64x(high as i64, low as i64), _mm_set1_epi8(tag as i8))) as u32 }
}

/// A bit per tag that equals `tag`, the first tag's lowest.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn matches(tags: &[u8; 16], tag: u8) -> u32 {
    matches_portable(tags, tag)
}

/// [`matches`] in two 64-bit words (SIMD within a register; Hacker's Delight 6-1).
#[cfg(any(test, not(target_arch = "x86_64")))]
fn matches_portable(tags: &[u8; 16], tag: u8) -> u32 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let half = |word: u64| {
        let x = word ^ (u64::from(tag) * 0x0101_0101_0101_0101);
        let zero = !(((x & LOW) + LOW) | x | LOW);
        ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    };
    let (low, high) = halves(tags);
    half(low) | half(high) << 8
}

#[inline(always)]
fn halves(tags: &[u8; 16]) -> (u64, u64) {
    let word = u128::from_le_bytes(*tags);
    (word as u64, (word >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_match_one_by_one() {
        let mut seed = 1u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let few = seed >> 60;
            let tags: [u8; 16] = std::array::from_fn(|i| ((seed >> (i * 4)) as u8).wrapping_mul(if few < 8 { 1 } else { 64 }));
            for tag in [0, 1, 0x7f, 0x80, 0xff, tags[3], tags[15]] {
                let expected = (0..16).map(|i| u32::from(tags[i] == tag) << i).sum::<u32>();
                assert_eq!(matches(&tags, tag), expected);
                assert_eq!(matches_portable(&tags, tag), expected);
            }
        }
    }
}
