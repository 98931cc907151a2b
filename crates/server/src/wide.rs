//! Floating-point numbers with a mantissa of 64 bits, like `long double` on x86, for `INCRBYFLOAT`: the sum of 0.1 and 0.2 is 0.3. Numbers
//! are finite; every operation rounds to the nearest, ties to even.

use crate::number::parse_hexadecimal;
use std::cmp::Ordering;

/// Longest text that is read as a number, bytes, as in Redis: all texts written are shorter.
const TEXT_MAX: usize = 5 * 1024 - 1;
/// Largest power of ten that is read, that of `long double`.
const POWER_MAX: i64 = 4932;
/// Smallest power of two at which a number is too large.
const EXPONENT_MAX: i64 = 16384;
/// Digits behind the point of a printed number.
const DECIMALS: u32 = 17;

/// `mantissa * 2^exponent`; the mantissa has its highest bit set, or is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wide {
    is_negative: bool,
    mantissa: u64,
    exponent: i64,
}

/// A natural number of any size, 32 bits a piece, the lowest first, without zeros at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Natural(Vec<u32>);

impl Natural {
    fn new(mut number: u128) -> Self {
        let mut pieces = Vec::new();
        while number > 0 {
            // The lowest 32 bits.
            pieces.push(number as u32);
            number >>= 32;
        }
        Natural(pieces)
    }

    fn multiply_add(&mut self, factor: u32, more: u32) {
        let mut carry = u64::from(more);
        for piece in &mut self.0 {
            let product = u64::from(*piece) * u64::from(factor) + carry;
            *piece = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn bits(&self) -> i64 {
        self.0.last().map_or(0, |last| self.0.len() as i64 * 32 - i64::from(last.leading_zeros()))
    }

    fn shift_left(&mut self, bits: i64) {
        let bits = usize::try_from(bits).unwrap_or(0);
        if self.0.is_empty() {
            return;
        }
        self.multiply_add(1 << (bits % 32), 0);
        let mut shifted = vec![0; bits / 32];
        shifted.append(&mut self.0);
        self.0 = shifted;
    }

    fn compare(&self, other: &Natural) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Subtracts a number that is not larger.
    fn subtract(&mut self, other: &Natural) {
        let mut borrow = 0u64;
        for (at, piece) in self.0.iter_mut().enumerate() {
            let less = u64::from(other.0.get(at).copied().unwrap_or(0)) + borrow;
            let difference = u64::from(*piece).wrapping_sub(less);
            *piece = difference as u32;
            borrow = u64::from(difference >> 32 != 0);
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// Divides by ten and returns the remainder.
    fn divide_by_ten(&mut self) -> u8 {
        let mut rest = 0u64;
        for piece in self.0.iter_mut().rev() {
            let number = rest << 32 | u64::from(*piece);
            *piece = (number / 10) as u32;
            rest = number % 10;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        rest as u8
    }

    fn digits(mut self) -> String {
        let mut digits = Vec::new();
        while !self.0.is_empty() {
            digits.push(char::from(b'0' + self.divide_by_ten()));
        }
        if digits.is_empty() { "0".into() } else { digits.into_iter().rev().collect() }
    }
}

impl Wide {
    /// Zero.
    pub const ZERO: Wide = Wide { is_negative: false, mantissa: 0, exponent: 0 };

    /// `number * 2^exponent`, rounded; `more`: the exact value is a little larger.
    fn round(is_negative: bool, number: u128, exponent: i64, more: bool) -> Option<Wide> {
        if number == 0 {
            return Some(Wide { is_negative, ..Wide::ZERO });
        }
        let excess = 64 - i64::from(number.leading_zeros());
        let (mut mantissa, mut exponent) = (number, exponent);
        if excess > 0 {
            let lost = mantissa & ((1 << excess) - 1);
            let half = 1u128 << (excess - 1);
            mantissa >>= excess;
            exponent += excess;
            if lost > half || lost == half && (more || mantissa & 1 == 1) {
                mantissa += 1;
            }
            if mantissa >> 64 == 1 {
                mantissa >>= 1;
                exponent += 1;
            }
        } else {
            mantissa <<= -excess;
            exponent += excess;
        }
        (exponent + 64 <= EXPONENT_MAX).then_some(Wide { is_negative, mantissa: mantissa as u64, exponent })
    }

    /// Reads a number in decimal digits, or hexadecimal ones behind `0x`, with or without point and exponent.
    pub fn parse(text: &[u8]) -> Option<Wide> {
        if text.len() > TEXT_MAX {
            return None;
        }
        let (is_negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if let Some((number, exponent)) = parse_hexadecimal(unsigned) {
            return Self::round(is_negative, number, exponent, false);
        }
        let at = unsigned.iter().position(|byte| matches!(byte, b'e' | b'E'));
        let (number, power) = match at {
            None => (unsigned, 0),
            Some(at) => (&unsigned[..at], power_of_ten(&unsigned[at + 1..])?),
        };
        let (mut digits, mut seen, mut behind_point, mut is_behind) = (Natural(Vec::new()), false, 0i64, false);
        for byte in number {
            match byte {
                b'0'..=b'9' => {
                    digits.multiply_add(10, u32::from(byte - b'0'));
                    seen = true;
                    behind_point += i64::from(is_behind);
                }
                b'.' if !is_behind => is_behind = true,
                _ => return None,
            }
        }
        if !seen { None } else { Self::from_decimal(is_negative, digits, power - behind_point) }
    }

    /// `digits * 10^power`.
    fn from_decimal(is_negative: bool, mut digits: Natural, power: i64) -> Option<Wide> {
        if digits.0.is_empty() {
            return Some(Wide { is_negative, ..Wide::ZERO });
        }
        let mut divisor = Natural::new(1);
        let scaled = if power < 0 { &mut divisor } else { &mut digits };
        for _ in 0..power.unsigned_abs() {
            scaled.multiply_add(10, 0);
        }
        // Chosen so that the quotient has 96 or 97 bits.
        let shift = 96 - (digits.bits() - divisor.bits());
        if shift > 0 {
            digits.shift_left(shift)
        } else {
            divisor.shift_left(-shift)
        }
        let mut quotient = 0u128;
        for bit in (0..=97).rev() {
            let mut part = divisor.clone();
            part.shift_left(bit);
            quotient <<= 1;
            if part.compare(&digits) != Ordering::Greater {
                digits.subtract(&part);
                quotient |= 1;
            }
        }
        Self::round(is_negative, quotient, -shift, !digits.0.is_empty())
    }

    /// The sum; `None`: too large.
    #[expect(clippy::should_implement_trait, reason = "it can fail")]
    pub fn add(self, other: Wide) -> Option<Wide> {
        if self.mantissa == 0 || other.mantissa == 0 {
            let is_zero = self.mantissa == 0 && other.mantissa == 0;
            let kept = if self.mantissa == 0 { other } else { self };
            return Some(if is_zero { Wide { is_negative: self.is_negative && other.is_negative, ..Wide::ZERO } } else { kept });
        }
        let (high, low) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let distance = high.exponent - low.exponent;
        // At most 62 bits, so that the sum fits.
        let lifted = distance.min(62);
        let wide_high = u128::from(high.mantissa) << lifted;
        let dropped = distance - lifted;
        let (mut wide_low, mut more) = (u128::from(low.mantissa), false);
        if dropped > 0 {
            let kept = if dropped < 64 { wide_low >> dropped } else { 0 };
            more = dropped >= 64 || kept << dropped != wide_low;
            wide_low = kept;
        }
        let exponent = high.exponent - lifted;
        if high.is_negative == low.is_negative {
            return Self::round(high.is_negative, wide_high + wide_low, exponent, more);
        }
        if wide_high >= wide_low {
            // The dropped bits are subtracted, too: one less and a little more.
            let difference = wide_high - wide_low - u128::from(more);
            let is_negative = high.is_negative && difference != 0;
            Self::round(is_negative, difference, exponent, more)
        } else {
            Self::round(low.is_negative, wide_low - wide_high, exponent, false)
        }
    }

    /// A thousand times the number, rounded and then rounded up; `None`: outside of 64 bits with a sign.
    pub fn thousandfold(self) -> Option<i64> {
        let Wide { is_negative, mantissa, exponent } =
            Self::round(self.is_negative, u128::from(self.mantissa) * 1000, self.exponent, false)?;
        if exponent >= 0 {
            // The highest bit of the mantissa is set.
            return (mantissa == 0).then_some(0);
        }
        let whole = u32::try_from(-exponent).ok().and_then(|shift| mantissa.checked_shr(shift)).unwrap_or(0);
        let is_cut = u32::try_from(exponent + 64).is_ok_and(|kept| mantissa << kept != 0) || exponent <= -64 && mantissa != 0;
        let rounded = i64::try_from(whole).ok()?;
        if is_negative { Some(-rounded) } else { rounded.checked_add(i64::from(is_cut)) }
    }

    /// Decimal digits, at most 17 behind the point, without trailing zeros.
    pub fn text(self) -> String {
        let sign = if self.is_negative { "-" } else { "" };
        if self.exponent >= 0 {
            let mut number = Natural::new(u128::from(self.mantissa));
            number.shift_left(self.exponent);
            let digits = number.digits();
            return if digits == "0" { digits } else { format!("{sign}{digits}") };
        }
        // 64 and 57 bits.
        let scaled = u128::from(self.mantissa) * 10u128.pow(DECIMALS);
        let number = match u32::try_from(-self.exponent) {
            Ok(shift) if shift < 128 => {
                let (whole, lost, half) = (scaled >> shift, scaled & ((1 << shift) - 1), 1u128 << (shift - 1));
                whole + u128::from(lost > half || lost == half && whole & 1 == 1)
            }
            _ => 0,
        };
        let one = 10u128.pow(DECIMALS);
        let text = format!("{}.{:017}", number / one, number % one);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if text == "0" { "0".into() } else { format!("{sign}{text}") }
    }
}

fn power_of_ten(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let power: i64 = text.parse().ok()?;
    (power.abs() <= POWER_MAX).then_some(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        Some(Wide::parse(a.as_bytes())?.add(Wide::parse(b.as_bytes())?)?.text())
    }

    /// Sums are those that Redis 7.0.15 replies on x86.
    #[test]
    fn sums_are_those_of_long_doubles() {
        for (a, b, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.5", "0.1", "10.6"),
            ("3", "1.1", "4.1"),
            ("5.0e3", "200", "5200"),
            ("0", "0", "0"),
            ("1", "-1", "0"),
            ("-0.1", "0.1", "0"),
            ("1.5", "-3", "-1.5"),
            ("1e-20", "0", "0"),
            ("123456789012345678", "1", "123456789012345679"),
            ("18446744073709551616", "0", "18446744073709551616"),
            ("1e27", "1", "1000000000000000000000000000"),
            ("-1e18", "0.5", "-999999999999999999.5"),
            ("17", "-0.0", "17"),
            (".5", "1.", "1.5"),
            ("0x10", "0X1.8p-1", "16.75"),
            ("-0x10", "1", "-15"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(expected), "{a} + {b}");
        }
    }

    #[test]
    fn numbers_become_thousandths() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("0.001", Some(1)),
            ("0.0001", Some(1)),
            ("-0.0001", Some(0)),
            ("-0.0011", Some(-1)),
            ("1.5", Some(1500)),
            ("1e-4000", Some(1)),
            ("0x10", Some(16_000)),
            ("9223372036854775.807", Some(i64::MAX)),
            ("9223372036854775.808", None),
            ("1e20", None),
            ("-1e20", None),
            ("1e4932", None),
        ] {
            assert_eq!(Wide::parse(text.as_bytes()).unwrap().thousandfold(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for wrong in ["", "-", ".", "e5", "1e", "1e5000", "1.2.3", " 1", "1 ", "inf", "nan", "0x", "1e99999999999999999999"] {
            assert_eq!(Wide::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
        assert_eq!(sum("1e4932", "9e4932"), None);
        let text = sum("1e4930", "1e4930").unwrap();
        assert_eq!(text.len(), 4931);
        assert_eq!(sum(&text, "0").as_ref(), Some(&text), "what was written is read");
        assert_eq!(Wide::parse("1".repeat(TEXT_MAX + 1).as_bytes()), None);
    }

    /// Sums of doubles that are exact stay exact.
    #[test]
    fn integers_add_up() {
        for (a, b) in [(1i64, 2i64), (1 << 40, -1), (-(1 << 53), 1 << 20), (999_999_999_999, 1), (-5, -7), (1 << 62, 1 << 62)] {
            let expected = i128::from(a) + i128::from(b);
            assert_eq!(sum(&a.to_string(), &b.to_string()), Some(expected.to_string()));
        }
    }
}
