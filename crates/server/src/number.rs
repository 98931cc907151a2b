//! Numbers as Redis reads and writes them.

/// Appends a number in decimal digits.
pub fn put_integer(out: &mut Vec<u8>, number: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        // A digit below ten.
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Decimal digits of a number.
pub fn integer_text(number: i64) -> Vec<u8> {
    let mut out = Vec::with_capacity(20);
    put_integer(&mut out, number);
    out
}

/// Parses an integer in its only valid form: no blanks, no plus, no leading zeros, no more than 64 bits.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    match digits {
        [b'0'] => return (!is_negative).then_some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut number = 0u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // 19 digits fit.
        number = number * 10 + u64::from(digit);
    }
    if is_negative { 0i64.checked_sub_unsigned(number) } else { i64::try_from(number).ok() }
}

/// Powers of two beyond this give no valid number, whatever they are multiplied with.
const POWER_MAX: i64 = 20_000;

/// Parses a hexadecimal number as C's `strtod` reads it behind a sign, such as `0x1.8p-3`, into a number and a power of two as its factor.
/// The lowest bit is set if bits did not fit.
pub fn parse_hexadecimal(text: &[u8]) -> Option<(u128, i64)> {
    let [b'0', b'x' | b'X', rest @ ..] = text else { return None };
    let at = rest.iter().position(|byte| matches!(byte, b'p' | b'P')).unwrap_or(rest.len());
    let (digits, exponent) = rest.split_at(at);
    let mut power: i64 = if exponent.is_empty() { 0 } else { std::str::from_utf8(&exponent[1..]).ok()?.parse().ok()? };
    let (mut number, mut seen, mut is_behind) = (0u128, false, false);
    for byte in digits {
        if *byte == b'.' && !is_behind {
            is_behind = true;
            continue;
        }
        let digit = u128::from(char::from(*byte).to_digit(16)?);
        let fits = number >> 120 == 0;
        number = if fits { number << 4 | digit } else { number | u128::from(digit != 0) };
        power = power.saturating_add(4 * (i64::from(!fits) - i64::from(is_behind)));
        seen = true;
    }
    (seen && power.abs() <= POWER_MAX).then_some((number, power))
}

/// `number * 2^power`, if it is neither too large nor too small.
fn scaled(number: u128, power: i64) -> Option<f64> {
    let power = i32::try_from(power).ok()?;
    // In two steps: a single one might leave the range of a double although the result is inside.
    let half = power / 2;
    let scaled = number as f64 * 2f64.powi(half) * 2f64.powi(power - half);
    if number == 0 { Some(0.0) } else { Some(scaled).filter(|scaled| scaled.is_finite() && *scaled != 0.0) }
}

/// A floating-point number as C's `strtod` reads it, if it takes the whole text, and whether it is in range: neither too large, which gives
/// infinity, nor too small, which gives zero. Leading blanks and NaN are no numbers.
fn read_double(text: &[u8]) -> Option<(f64, bool)> {
    let (is_negative, unsigned) = (text.first() == Some(&b'-'), text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text));
    if let Some((number, power)) = parse_hexadecimal(unsigned) {
        let scaled = scaled(number, power);
        let number = scaled.unwrap_or(if power > 0 { f64::INFINITY } else { 0.0 });
        return Some((if is_negative { -number } else { number }, scaled.is_some()));
    }
    let text = std::str::from_utf8(text).ok()?;
    let number: f64 = text.parse().ok()?;
    let unsigned = text.trim_start_matches(['+', '-']);
    let is_word = unsigned.starts_with(['i', 'I']);
    let significant = unsigned.split(['e', 'E']).next().unwrap_or_default();
    let is_lost = number == 0.0 && significant.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    (!number.is_nan()).then_some((number, (number.is_finite() || is_word) && !is_lost))
}

/// Parses a floating-point number as C's `strtod` reads it: the whole text, no leading blanks, not NaN, and distinguishable from infinity
/// and zero.
pub fn parse_double(text: &[u8]) -> Option<f64> {
    read_double(text).filter(|(_, is_in_range)| *is_in_range).map(|(number, _)| number)
}

/// The text that `strtod` reads: without leading blanks and up to a zero byte. Empty text is zero.
pub fn c_number(text: &[u8]) -> &[u8] {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    if text.is_empty() { b"0" } else { &text[blanks..] }
}

/// Parses the end of a range of scores as `strtod` does: a number that is too large is infinity, and empty text is zero.
pub fn parse_bound(text: &[u8]) -> Option<f64> {
    read_double(c_number(text)).map(|(number, _)| number)
}

/// Formats a number like C's `%.17g`; infinities as `inf` and `-inf`.
pub fn format_double(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf".into() } else { "-inf".into() };
    }
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if number == number.trunc() && number.abs() < 1e15 && (number != 0.0 || number.is_sign_positive()) {
        return format!("{number:.0}");
    }
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: String| if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    if !(-4..17).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa.to_owned()), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(16 - exponent).unwrap_or(0);
    trim(format!("{number:.decimals$}"))
}

/// Formats a finite number as a person would write it: at most 17 decimals, no exponent, no trailing zeros.
pub fn plain_double(number: f64) -> String {
    let text = format!("{number:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// Cuts off the decimals. A number outside 64 bits becomes the smallest one inside, as processors do it.
pub fn to_integer(number: f64) -> i64 {
    // Exact: a power of two.
    let limit = 2f64.powi(63);
    if (-limit..limit).contains(&number) { number as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_form() {
        for number in [0, 1, -1, 9, 10, 99, 100, i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1, -100, 1 << 40] {
            assert_eq!(integer_text(number), number.to_string().into_bytes());
            assert_eq!(parse_integer(number.to_string().as_bytes()), Some(number));
        }
        let wrong = ["", "-", "+1", "01", "-0", "00", " 1", "1 ", "1a", "0x1", "9223372036854775808", "-9223372036854775809", "1.0", "--1"];
        for text in wrong.into_iter().chain(["99999999999999999999", "9999999999999999999"]) {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn doubles_are_written_as_c_does() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (3.15, "3.1499999999999999"),
            (0.1, "0.10000000000000001"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (123456789.125, "123456789.125"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "4.9406564584124654e-324"),
        ];
        for (number, text) in cases {
            assert_eq!(format_double(number), text);
        }
    }

    #[test]
    fn doubles_are_read_as_c_does() {
        for (text, number) in
            [("1", 1.0), ("+1.5", 1.5), ("-.5", -0.5), ("1e3", 1000.0), ("5.", 5.0), ("inf", f64::INFINITY), ("-INF", f64::NEG_INFINITY)]
        {
            assert_eq!(parse_double(text.as_bytes()), Some(number), "{text}");
        }
        assert_eq!(parse_double(b"+infinity"), Some(f64::INFINITY));
        assert_eq!(parse_double(b"0e99"), Some(0.0));
        for (text, number) in [
            ("0x10", 16.0),
            ("-0X1p4", -16.0),
            ("+0x.8P+1", 1.0),
            ("0x1.", 1.0),
            ("0x1.fffffffffffff8p0", 2.0),
            ("0x1.000000000000080000000000000000000000000000000001p0", 1.0 + f64::EPSILON),
            ("0x1p-1074", 5e-324),
            ("0x1fffffffffffffp971", f64::MAX),
            ("0x0p9999", 0.0),
        ] {
            assert_eq!(parse_double(text.as_bytes()), Some(number), "{text}");
        }
        for wrong in ["0x", "0xg", "0x.", "0x1p", "0x1p1.5", "0x1p1024", "0x1p-1076", "+-0x1", "--0x1", " 0x1", "0x1 ", "0x1.1.1", "0x-1"] {
            assert_eq!(parse_double(wrong.as_bytes()), None, "{wrong:?}");
        }
        for wrong in ["", " 1", "1 ", "nan", "-nan", "1e400", "-1e400", "1e-400", "a", "1.2.3", "e5", "1x"] {
            assert_eq!(parse_double(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
    #[test]
    fn bounds_are_read_as_c_does() {
        for (text, number) in [
            (&b""[..], 0.0),
            (b" \t7", 7.0),
            (b"1\0x", 1.0),
            (b"1e400", f64::INFINITY),
            (b"-1e400", f64::NEG_INFINITY),
            (b"1e-400", 0.0),
            (b"0x1p1024", f64::INFINITY),
            (b"-0x1p-1076", 0.0),
        ] {
            assert_eq!(parse_bound(text), Some(number), "{text:?}");
        }
        for wrong in [&b" "[..], b"1 ", b"nan", b"x", b"("] {
            assert_eq!(parse_bound(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn plain_doubles_have_no_exponent() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (-1e-20, "0"),
            (1.5, "1.5"),
            (100.0, "100"),
            (13.361389338970184, "13.36138933897018433"),
            (-0.1, "-0.10000000000000001"),
            (1e20, "100000000000000000000"),
        ] {
            assert_eq!(plain_double(number), text);
        }
    }

    #[test]
    fn integers_are_cut_from_doubles() {
        for (number, integer) in [(0.0, 0), (-1.9, -1), (1.9, 1), (1e18, 10i64.pow(18)), (-9223372036854775808.0, i64::MIN)] {
            assert_eq!(to_integer(number), integer);
        }
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 9223372036854775808.0, -1e19] {
            assert_eq!(to_integer(number), i64::MIN);
        }
    }
}
