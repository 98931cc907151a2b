//! Decoder of LZF, the compression of long strings in Redis.
//!
//! A byte below 32 is the number, less one, of literal bytes that follow. Any other byte begins a copy of earlier output: its upper three
//! bits are the length less two (7: another byte adds to it), its lower five bits and the last byte are the distance less one.

/// Decodes into `out`, which is emptied first; `None`: the bytes are no LZF, or not of this decoded length.
pub(super) fn decode(mut rest: &[u8], length: usize, out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    while let Some((&control, tail)) = rest.split_first() {
        rest = tail;
        if control < 32 {
            let (plain, tail) = rest.split_at_checked(usize::from(control) + 1)?;
            rest = tail;
            out.extend_from_slice(plain);
        } else {
            let mut count = usize::from(control >> 5) + 2;
            if control >> 5 == 7 {
                let (&more, tail) = rest.split_first()?;
                rest = tail;
                count += usize::from(more);
            }
            let (&low, tail) = rest.split_first()?;
            rest = tail;
            let distance = (usize::from(control & 0x1f) << 8 | usize::from(low)) + 1;
            let start = out.len().checked_sub(distance)?;
            if distance >= count {
                out.extend_from_within(start..start + count);
            } else {
                // The copy may continue into its own output.
                for at in start..start + count {
                    out.push(out[at]);
                }
            }
        }
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut out = b"old".to_vec();
        decode(bytes, length, &mut out).map(|()| out)
    }

    #[test]
    fn runs_and_copies() {
        assert_eq!(decoded(b"\x02abc", 3).as_deref(), Some(&b"abc"[..]));
        // Three bytes, then four from three back.
        assert_eq!(decoded(b"\x02abc\x40\x02", 7).as_deref(), Some(&b"abcabca"[..]));
        // One byte, then 9 + 5 of it.
        assert_eq!(decoded(b"\x00x\xe0\x05\x00", 15), Some(vec![b'x'; 15]));
        assert_eq!(decoded(b"", 0), Some(Vec::new()));
    }

    #[test]
    fn damage_is_noticed() {
        let good = b"\x02abc\x40\x02\x00d";
        assert!(decoded(good, 8).is_some());
        for end in 0..good.len() {
            assert_eq!(decoded(&good[..end], 8), None, "cut at {end}");
        }
        assert_eq!(decoded(good, 7), None);
        assert_eq!(decoded(good, 9), None);
        assert_eq!(decoded(b"\x00a\x20\x01", 4), None, "a copy from before the start");
    }
}
