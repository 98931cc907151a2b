//! SHA-1 (FIPS 180-4), for digests that are compared with those of Redis. Not used for security.

/// Bytes of a digest.
pub const DIGEST: usize = 20;

const START: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];

fn mix(state: &mut [u32; 5], block: &[u8; 64]) {
    let mut words = [0u32; 80];
    let (given, _) = block.as_chunks::<4>();
    words.iter_mut().zip(given).for_each(|(to, from)| *to = u32::from_be_bytes(*from));
    for at in 16..80 {
        words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (at, word) in words.iter().enumerate() {
        let (choice, constant) = match at / 20 {
            0 => (b & c | !b & d, 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6u32),
        };
        let next = a.rotate_left(5).wrapping_add(choice).wrapping_add(e).wrapping_add(constant).wrapping_add(*word);
        (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
    }
    state.iter_mut().zip([a, b, c, d, e]).for_each(|(to, from)| *to = to.wrapping_add(from));
}

/// The digest of some bytes.
pub fn sha1(bytes: &[u8]) -> [u8; DIGEST] {
    let mut state = START;
    let (blocks, rest) = bytes.as_chunks::<64>();
    blocks.iter().for_each(|block| mix(&mut state, block));
    // A one, zeros, and the length in bits at the end of a block.
    let mut end = rest.to_vec();
    end.push(0x80);
    end.resize((end.len() + 8).next_multiple_of(64) - 8, 0);
    end.extend((bytes.len() as u64).wrapping_mul(8).to_be_bytes());
    let (blocks, _) = end.as_chunks::<64>();
    blocks.iter().for_each(|block| mix(&mut state, block));
    let mut digest = [0; DIGEST];
    digest.iter_mut().zip(state.iter().flat_map(|word| word.to_be_bytes())).for_each(|(to, from)| *to = from);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_digests() {
        let text = |bytes: &[u8]| sha1(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(text(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(text(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(text(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        assert_eq!(text(&[b'a'; 1_000_000]), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    }
}
