//! Strings as bits: the first bit is the highest one of the first byte, and what is behind the end is zero.

/// Set bits, counted by words.
pub fn count(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let of_words: u64 = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    of_words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// The bytes that hold the bits from one position up to another (excluded) inside the string, and masks for the bits that count in the
/// first and the last of these bytes.
fn span(bytes: &[u8], from: u64, to: u64) -> Option<(&[u8], u8, u8)> {
    let last = to.checked_sub(1).filter(|last| *last >= from)?;
    let part = bytes.get(usize::try_from(from / 8).ok()?..=usize::try_from(last / 8).ok()?)?;
    Some((part, u8::MAX >> (from % 8), u8::MAX << (7 - last % 8)))
}

/// Set bits from one position up to another (excluded).
pub fn count_between(bytes: &[u8], from: u64, to: u64) -> u64 {
    let Some((part, first, last)) = span(bytes, from, to) else { return 0 };
    let outside = |byte: Option<&u8>, kept: u8| byte.map_or(0, |byte| u64::from((byte & !kept).count_ones()));
    count(part) - outside(part.first(), first) - outside(part.last(), last)
}

/// The first bit that is set, or clear, from one position up to another (excluded).
pub fn find(bytes: &[u8], bit: bool, from: u64, to: u64) -> Option<u64> {
    let (part, first, last) = span(bytes, from, to)?;
    // Flips the bytes so that the wanted bit is a one.
    let flip = if bit { 0 } else { u8::MAX };
    let flipped = |at: usize| {
        let mut byte = part.get(at)? ^ flip;
        if at == 0 {
            byte &= first;
        }
        if at + 1 == part.len() {
            byte &= last;
        }
        Some(byte)
    };
    let place = |at: usize, byte: u8| (from / 8 + at as u64) * 8 + u64::from(byte.leading_zeros());
    match flipped(0)? {
        0 => {}
        byte => return Some(place(0, byte)),
    }
    // Words without the bit are passed over as a whole. The last byte, of which perhaps not all bits count, is looked at by itself.
    let (words, _) = part.get(1..part.len() - 1).unwrap_or_default().as_chunks::<8>();
    let nothing = [flip; 8];
    let passed = words.iter().take_while(|word| **word == nothing).count() * 8;
    (1 + passed..part.len()).find_map(|at| flipped(at).filter(|byte| *byte != 0).map(|byte| place(at, byte)))
}

/// An operation on the bits of two strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Bits set in both strings.
    And,
    /// Bits set in any of the strings.
    Or,
    /// Bits set in exactly one of the strings.
    Xor,
}

/// Combines a string with another one; the shorter one is extended by zeros.
pub fn combine(into: &mut Vec<u8>, other: &[u8], operation: Operation) {
    if into.len() < other.len() {
        into.resize(other.len(), 0);
    }
    // Loops over two slices that do nothing else become vector instructions.
    match operation {
        Operation::And => {
            into.iter_mut().zip(other).for_each(|(a, b)| *a &= b);
            into.get_mut(other.len()..).unwrap_or_default().fill(0);
        }
        Operation::Or => into.iter_mut().zip(other).for_each(|(a, b)| *a |= b),
        Operation::Xor => into.iter_mut().zip(other).for_each(|(a, b)| *a ^= b),
    }
}

/// Treatment of a number that does not fit into its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// Keep the lower bits.
    Wrap,
    /// Take the nearest number that fits.
    Saturate,
    /// Change nothing.
    Fail,
}

/// A number among the bits of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The number is in two's complement.
    pub is_signed: bool,
    /// Width in bits: 1 to 64, without a sign 1 to 63.
    pub bits: u32,
    /// Position of the highest bit in the string.
    pub offset: u64,
}

/// Bytes that a field of 64 bits can touch.
pub const TOUCHED: usize = 9;

impl Field {
    fn first_byte(&self) -> usize {
        usize::try_from(self.start()).unwrap_or(usize::MAX)
    }

    /// The first byte of the string that the field touches.
    pub fn start(&self) -> u64 {
        self.offset / 8
    }

    /// The field relative to its first byte, for use on the bytes from there on.
    pub fn in_window(&self) -> Field {
        Field { offset: self.offset % 8, ..*self }
    }

    /// Length of the shortest string that holds the whole field, bytes.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.bits)).div_ceil(8)
    }

    /// Reads the number.
    pub fn get(&self, bytes: &[u8]) -> i64 {
        let there = bytes.get(self.first_byte()..).unwrap_or_default();
        let mut window = [0u8; 16];
        window.iter_mut().zip(there.iter().take(TOUCHED)).for_each(|(to, from)| *to = *from);
        // The field at the upper end; a signed shift brings its sign along.
        let lifted = u128::from_be_bytes(window) << (self.offset % 8);
        let down = 128 - self.bits;
        if self.is_signed { (lifted.cast_signed() >> down) as i64 } else { (lifted >> down) as i64 }
    }

    /// Writes the lower bits of a number; bits behind the end of the string are dropped.
    pub fn set(&self, bytes: &mut [u8], number: i64) {
        let there = bytes.get_mut(self.first_byte()..).unwrap_or_default();
        let mut window = [0u8; 16];
        window.iter_mut().zip(there.iter().take(TOUCHED)).for_each(|(to, from)| *to = *from);
        let (up, shift) = (128 - self.bits, self.offset % 8);
        let mask = u128::MAX << up >> shift;
        let number = u128::from(number.cast_unsigned()) << up >> shift;
        let window = (u128::from_be_bytes(window) & !mask | number).to_be_bytes();
        there.iter_mut().zip(window).take(TOUCHED).for_each(|(to, from)| *to = from);
    }

    /// The number to write after [`Overflow`] was applied; `None`: nothing is to be changed.
    pub fn fit(&self, number: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) =
            if self.is_signed { (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1) } else { (0, (1i128 << self.bits) - 1) };
        if (min..=max).contains(&number) {
            return i64::try_from(number).ok();
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Saturate => i64::try_from(number.clamp(min, max)).ok(),
            Overflow::Wrap => {
                let lifted = number << (128 - self.bits);
                let down = 128 - self.bits;
                Some(if self.is_signed { (lifted >> down) as i64 } else { (lifted.cast_unsigned() >> down) as i64 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    fn bit(bytes: &[u8], at: u64) -> bool {
        bytes.get((at / 8) as usize).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1)
    }

    #[test]
    fn counting_and_finding_are_what_they_are_bit_by_bit() {
        let mut random = Random(1);
        for _ in 0..3000 {
            // Long runs of the same, or anything.
            let of: &[u8] = if random.below(2) == 0 { b"\0\0\0\0\0\0\0\0\0\x10" } else { b"\xff\xff\xff\xff\xff\xff\xff\xfe" };
            let bytes = random.bytes(70, of);
            let end = bytes.len() as u64 * 8;
            let (from, to) = (random.below(80 * 8) as u64, random.below(70 * 8) as u64);
            let range = from.min(end)..to.min(end).max(from.min(end));
            let set = range.clone().filter(|at| bit(&bytes, *at)).count() as u64;
            assert_eq!(count_between(&bytes, range.start, range.end), set, "{bytes:?} {range:?}");
            for wanted in [true, false] {
                let found = range.clone().find(|at| bit(&bytes, *at) == wanted);
                assert_eq!(find(&bytes, wanted, range.start, range.end), found, "{bytes:?} {wanted} {range:?}");
            }
            assert_eq!(count(&bytes), (0..end).filter(|at| bit(&bytes, *at)).count() as u64);
        }
        // Outside.
        assert_eq!((count_between(b"\xff", 0, 9), find(b"\xff", true, 8, 16), find(b"", false, 0, 0)), (0, None, None));
        assert_eq!((count_between(b"\xff", 5, 5), find(b"\xff", true, u64::MAX, 3)), (0, None));
    }

    #[test]
    fn strings_are_combined_as_if_they_were_of_one_length() {
        for (operation, expected) in
            [(Operation::And, b"\x0c\x00\x00"), (Operation::Or, b"\x3f\x0f\x01"), (Operation::Xor, b"\x33\x0f\x01")]
        {
            for (a, b) in [(&b"\x3c"[..], &b"\x0f\x0f\x01"[..]), (b"\x0f\x0f\x01", b"\x3c")] {
                let mut into = a.to_vec();
                combine(&mut into, b, operation);
                assert_eq!(into, expected, "{operation:?}");
            }
        }
    }

    #[test]
    fn fields_are_where_they_were_put() {
        let field = Field { is_signed: false, bits: 5, offset: 7 };
        let mut bytes = vec![0; 2];
        field.set(&mut bytes, 23);
        assert_eq!(bytes, [0b0000_0001, 0b0111_0000]);
        let mut random = Random(2);
        for _ in 0..3000 {
            let is_signed = random.below(2) == 0;
            let bits = 1 + random.below(if is_signed { 64 } else { 63 }) as u32;
            let field = Field { is_signed, bits, offset: random.below(150) as u64 };
            let mut bytes = vec![0xa5; field.end() as usize];
            let before = bytes.clone();
            let wild = i128::from(((random.below(1 << 31) as u64) << 33 | random.below(1 << 31) as u64).cast_signed());
            let number = field.fit(wild, Overflow::Wrap).unwrap();
            field.set(&mut bytes, number);
            assert_eq!(field.get(&bytes), number, "{field:?}");
            let inside = |at: u64| (field.offset..field.offset + u64::from(bits)).contains(&at);
            assert!((0..bytes.len() as u64 * 8).all(|at| inside(at) || bit(&bytes, at) == bit(&before, at)), "{field:?}");
        }
        let whole = Field { is_signed: true, bits: 64, offset: 3 };
        let mut bytes = vec![0; 9];
        whole.set(&mut bytes, i64::MIN);
        assert_eq!((whole.get(&bytes), bytes[0]), (i64::MIN, 0x10));
        // Behind the end.
        assert_eq!(whole.get(b"\x1f\xff"), -1 << 51);
        whole.set(&mut [], 1);
        assert_eq!(Field { offset: u64::MAX, ..whole }.get(b"abc"), 0);
    }

    #[test]
    fn numbers_that_do_not_fit_wrap_saturate_or_fail() {
        let signed = Field { is_signed: true, bits: 8, offset: 0 };
        let unsigned = Field { is_signed: false, bits: 2, offset: 0 };
        let largest = Field { is_signed: true, bits: 64, offset: 0 };
        for (field, number, wrapped, saturated) in [
            (signed, 128, -128, 127),
            (signed, -129, 127, -128),
            (signed, 1000, -24, 127),
            (unsigned, 4, 0, 3),
            (unsigned, -1, 3, 0),
            (largest, i128::from(i64::MAX) + 1, i64::MIN, i64::MAX),
            (largest, i128::from(i64::MIN) - 1, i64::MAX, i64::MIN),
        ] {
            assert_eq!(field.fit(number, Overflow::Wrap), Some(wrapped), "{field:?} {number}");
            assert_eq!(field.fit(number, Overflow::Saturate), Some(saturated), "{field:?} {number}");
            assert_eq!(field.fit(number, Overflow::Fail), None, "{field:?} {number}");
        }
        assert_eq!((signed.fit(-128, Overflow::Fail), unsigned.fit(3, Overflow::Fail)), (Some(-128), Some(3)));
    }
}
