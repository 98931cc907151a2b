//! Bytes of numbers: little-endian fixed widths and LEB128 varints. Decoding never panics: a reader past its end, or a varint
//! longer than its type, is `None`, which the caller turns into a `Corrupt` error with file and offset.

/// Appends a varint (1 byte below 128, at most 10).
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`put_varint`] uses.
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a varint length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads from the front of a byte slice.
#[derive(Debug, Clone, Copy)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Reads `bytes` from their start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { rest: bytes }
    }

    /// Bytes that have not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// All bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `n` bytes.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n)?;
        self.rest = tail;
        Some(head)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        let (&first, tail) = self.rest.split_first()?;
        self.rest = tail;
        Some(first)
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(*self.bytes(2)?.first_chunk()?))
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.bytes(4)?.first_chunk()?))
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.bytes(8)?.first_chunk()?))
    }

    /// A varint of at most 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        match self.rest {
            [byte @ 0..0x80, tail @ ..] => {
                self.rest = tail;
                Some(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A varint that must fit `usize` and the bytes that are left: a claimed length, checked before memory is taken.
    #[inline]
    pub fn length(&mut self) -> Option<usize> {
        let n = usize::try_from(self.varint()?).ok()?;
        (n <= self.rest.len()).then_some(n)
    }

    /// A length and that many bytes ([`put_bytes`]).
    #[inline]
    pub fn prefixed(&mut self) -> Option<&'a [u8]> {
        let n = self.length()?;
        self.bytes(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_width() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value), "{value}");
                assert_eq!(Decoder::new(&out).varint(), Some(value));
                assert_eq!(Decoder::new(&out[..out.len() - 1]).varint(), None);
            }
        }
        assert_eq!(Decoder::new(&[0xff; 11]).varint(), None);
        assert_eq!(Decoder::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).varint(), None);
    }

    #[test]
    fn claimed_lengths_are_checked() {
        let mut out = Vec::new();
        put_varint(&mut out, u64::MAX);
        assert_eq!(Decoder::new(&out).prefixed(), None);
        let mut out = Vec::new();
        put_bytes(&mut out, b"abc");
        assert_eq!(Decoder::new(&out).prefixed(), Some(&b"abc"[..]));
    }
}
