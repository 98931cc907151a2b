//! Numbers as C prints and reads them, without heap allocations: native functions own no memory.

use std::io::Write;

/// Bytes that hold any number printed here.
pub(crate) const NUMBER_MAX: usize = 48;

/// A printed number.
pub(crate) struct Printed {
    bytes: [u8; NUMBER_MAX],
    length: usize,
}

impl Printed {
    /// The text.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn put(&mut self, text: &[u8]) {
        let taken = text.len().min(NUMBER_MAX - self.length);
        self.bytes[self.length..self.length + taken].copy_from_slice(&text[..taken]);
        self.length += taken;
    }

    fn new() -> Printed {
        Printed { bytes: [0; NUMBER_MAX], length: 0 }
    }
}

/// An integer.
pub(crate) fn integer(number: i64) -> Printed {
    let mut digits = [0u8; 20];
    let (mut start, mut rest) = (digits.len(), number.unsigned_abs());
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let mut printed = Printed::new();
    if number < 0 {
        printed.put(b"-");
    }
    printed.put(&digits[start..]);
    printed
}

/// A number as `%.{digits}g`, of at most 17 digits.
pub(crate) fn general(number: f64, digits: usize) -> Printed {
    let whole = number as i64;
    if whole as f64 == number && whole.unsigned_abs() < 10u64.pow(digits.clamp(1, 15) as u32) && (whole != 0 || number.is_sign_positive()) {
        return integer(whole);
    }
    let mut printed = Printed::new();
    if !number.is_finite() {
        printed.put(if number.is_sign_negative() { b"-" } else { b"" });
        printed.put(if number.is_nan() { b"nan" } else { b"inf" });
        return printed;
    }
    let digits = digits.clamp(1, 17);
    let mut text = [0u8; NUMBER_MAX];
    let mut rest = &mut text[..];
    // 17 digits, signs, a point and an exponent of three digits fit.
    let _ = write!(rest, "{:.*e}", digits - 1, number);
    let length = NUMBER_MAX - rest.len();
    let text = &text[..length];
    let (mantissa, exponent) = text.split_at(text.iter().position(|byte| *byte == b'e').unwrap_or(length));
    let exponent: i32 = std::str::from_utf8(exponent.get(1..).unwrap_or(b"")).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let (sign, mantissa) = if mantissa.first() == Some(&b'-') { (&b"-"[..], &mantissa[1..]) } else { (&b""[..], mantissa) };
    let mut significant = [0u8; 17];
    let mut count = 0;
    for digit in mantissa.iter().filter(|byte| byte.is_ascii_digit()).take(17) {
        significant[count] = *digit;
        count += 1;
    }
    while count > 1 && significant[count - 1] == b'0' {
        count -= 1;
    }
    printed.put(sign);
    layout(&mut printed, &significant[..count], exponent, digits as i32);
    printed
}

/// Digits with a point or an exponent, as `%g` chooses.
fn layout(printed: &mut Printed, digits: &[u8], exponent: i32, precision: i32) {
    if exponent < -4 || exponent >= precision {
        printed.put(&digits[..1]);
        if digits.len() > 1 {
            printed.put(b".");
            printed.put(&digits[1..]);
        }
        printed.put(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            printed.put(b"0");
        }
        printed.put(integer(i64::from(exponent.abs())).bytes());
    } else if exponent < 0 {
        printed.put(b"0.");
        (1..-exponent).for_each(|_| printed.put(b"0"));
        printed.put(digits);
    } else {
        let whole = exponent as usize + 1;
        if digits.len() <= whole {
            printed.put(digits);
            (digits.len()..whole).for_each(|_| printed.put(b"0"));
        } else {
            printed.put(&digits[..whole]);
            printed.put(b".");
            printed.put(&digits[whole..]);
        }
    }
}

/// A double as C casts it to 64 bits on x86-64: numbers that do not fit become the smallest.
pub(crate) fn cut(number: f64) -> i64 {
    let limit = 9_223_372_036_854_775_808.0;
    if number >= -limit && number < limit { number as i64 } else { i64::MIN }
}

/// A number at the front as C's `strtod` reads it, and its length.
pub(crate) fn scan(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let negative = text.first() == Some(&b'-');
    let signed = |number: f64| if negative { -number } else { number };
    let body = &text[sign..];
    let starts = |word: &[u8]| body.get(..word.len()).is_some_and(|front| front.eq_ignore_ascii_case(word));
    if starts(b"infinity") || starts(b"inf") {
        return Some((signed(f64::INFINITY), sign + if starts(b"infinity") { 8 } else { 3 }));
    }
    if starts(b"nan") {
        let tail = &body[3..];
        let end = tail.iter().position(|byte| *byte == b')').filter(|_| tail.first() == Some(&b'('));
        let inside = end.filter(|end| tail[1..*end].iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_'));
        return Some((signed(f64::NAN), sign + 3 + inside.map_or(0, |end| end + 1)));
    }
    if starts(b"0x")
        && let Some((number, length)) = hexadecimal(&body[2..])
    {
        return Some((signed(number), sign + 2 + length));
    }
    let digits = |at: usize| body[at.min(body.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let fraction = if body.get(whole) == Some(&b'.') { Some(digits(whole + 1)) } else { None };
    if whole + fraction.unwrap_or(0) == 0 {
        return None;
    }
    let mut end = whole + fraction.map_or(0, |fraction| fraction + 1);
    if let Some(b'e' | b'E') = body.get(end) {
        let sign = usize::from(matches!(body.get(end + 1), Some(b'-' | b'+')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    let number: f64 = std::str::from_utf8(&body[..end]).ok()?.parse().ok()?;
    Some((signed(number), sign + end))
}

/// Hexadecimal digits with a point and an exponent to base 2, and their length.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let (mut number, mut scale, mut at, mut digits, mut point) = (0.0f64, 0i32, 0, 0, false);
    loop {
        match text.get(at) {
            Some(b'.') if !point => point = true,
            Some(byte) if byte.is_ascii_hexdigit() => {
                number = number * 16.0 + f64::from((*byte as char).to_digit(16).unwrap_or(0));
                digits += 1;
                scale = scale.saturating_sub(if point { 4 } else { 0 });
            }
            _ => break,
        }
        at += 1;
    }
    if digits == 0 {
        return None;
    }
    if let Some(b'p' | b'P') = text.get(at) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'-' | b'+')));
        let exponent = text[(at + 1 + sign).min(text.len())..].iter().take_while(|byte| byte.is_ascii_digit());
        let (count, value) =
            exponent.fold((0, 0i32), |(count, value), digit| (count + 1, value.saturating_mul(10).saturating_add(i32::from(digit - b'0'))));
        if count > 0 {
            scale = scale.saturating_add(if text.get(at + 1) == Some(&b'-') { -value } else { value });
            at += 1 + sign + count;
        }
    }
    Some((number * f64::powi(2.0, scale.clamp(-3000, 3000)), at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: f64, digits: usize) -> String {
        String::from_utf8_lossy(general(number, digits).bytes()).into_owned()
    }

    #[test]
    fn numbers_are_printed_as_c_does() {
        let cases = [
            (0.1, 17, "0.10000000000000001"),
            (3.0, 17, "3"),
            (1e15, 14, "1e+15"),
            (1e14, 14, "1e+14"),
            (123456789012345678.0, 17, "1.2345678901234568e+17"),
            (12345678901234567.0, 17, "12345678901234568"),
            (-0.0, 14, "-0"),
            (1e-5, 14, "1e-05"),
            (0.0001, 14, "0.0001"),
            (1.5, 14, "1.5"),
            (-1e300, 14, "-1e+300"),
            (f64::NEG_INFINITY, 14, "-inf"),
            (99999999999999.9, 14, "1e+14"),
            (9.7, 1, "1e+01"),
        ];
        for (number, digits, expected) in cases {
            assert_eq!(text(number, digits), expected, "{number} with {digits}");
        }
        assert_eq!(integer(i64::MIN).bytes(), b"-9223372036854775808");
        assert_eq!(cut(f64::NAN), i64::MIN);
        assert_eq!(cut(-2.9), -2);
    }
}
