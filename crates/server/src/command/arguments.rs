//! Parsing of arguments, with Redis's errors for wrong ones.

use super::{Failure, NOT_FLOAT, NOT_INTEGER, NOT_POSITIVE, SYNTAX};
use crate::number::{parse_double, parse_integer};
use crate::wide::Wide;

/// An integer.
pub(super) fn integer(text: &[u8]) -> Result<i64, Failure> {
    parse_integer(text).ok_or(NOT_INTEGER)
}

/// An integer that is not negative.
pub(super) fn not_negative(text: &[u8]) -> Result<u64, Failure> {
    let number = integer_or(text, NOT_POSITIVE)?;
    u64::try_from(number).map_err(|_| NOT_POSITIVE)
}

/// An integer, or the caller's error.
pub(super) fn integer_or(text: &[u8], failure: Failure) -> Result<i64, Failure> {
    parse_integer(text).ok_or(failure)
}

/// An integer other than `i64::MIN`, so that it can be negated.
pub(super) fn count(text: &[u8]) -> Result<i64, Failure> {
    const SMALLEST: Failure = Failure::fixed("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");
    integer_or(text, NOT_INTEGER).and_then(|number| if number == i64::MIN { Err(SMALLEST) } else { Ok(number) })
}

/// A floating-point number, not NaN.
pub(super) fn double(text: &[u8]) -> Result<f64, Failure> {
    parse_double(text).ok_or(NOT_FLOAT)
}

/// A number for an exact sum; `None`: it is infinite, and so would be the sum. `wrong`: the error if it is no number.
pub(super) fn wide(text: &[u8], wrong: Failure) -> Result<Option<Wide>, Failure> {
    let is_infinite = || parse_double(text).is_some_and(f64::is_infinite);
    Wide::parse(text).map_or_else(|| if is_infinite() { Ok(None) } else { Err(wrong) }, |number| Ok(Some(number)))
}

/// Whether an argument is this word, in capitals or not.
pub(super) fn is(text: &[u8], word: &str) -> bool {
    text.eq_ignore_ascii_case(word.as_bytes())
}

/// The optional arguments of a command, one after the other.
pub(super) struct Rest<'r, 'a> {
    rest: &'r [&'a [u8]],
}

impl<'r, 'a> Rest<'r, 'a> {
    pub fn new(rest: &'r [&'a [u8]]) -> Self {
        Rest { rest }
    }

    /// The next argument.
    pub fn next(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The argument of an option.
    pub fn value(&mut self) -> Result<&'a [u8], Failure> {
        self.next().ok_or(SYNTAX)
    }

    /// The integer argument of an option.
    pub fn integer(&mut self) -> Result<i64, Failure> {
        integer(self.value()?)
    }

    /// The number of elements to take, where nothing but `COUNT n` may follow; 1 without it.
    pub fn take_count(&mut self) -> Result<u64, Failure> {
        const COUNT: Failure = Failure::fixed("ERR count should be greater than 0");
        let mut most = None;
        while let Some(word) = self.next() {
            if !is(word, "count") || most.is_some() {
                return Err(SYNTAX);
            }
            let number = integer_or(self.value()?, COUNT)?;
            most = Some(u64::try_from(number).ok().filter(|number| *number > 0).ok_or(COUNT)?);
        }
        Ok(most.unwrap_or(1))
    }

    /// Number of arguments that are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }
}

/// Arguments up to some index, and those from there on.
pub(super) type Split<'r, 'a> = (&'r [&'a [u8]], &'r [&'a [u8]]);

/// Keys after a number that says how many they are, and the arguments behind them. `too_many`: the error if there are fewer keys.
pub(super) fn numbered_keys<'r, 'a>(arguments: &'r [&'a [u8]], too_many: Failure) -> Result<Split<'r, 'a>, Failure> {
    const NONE: Failure = Failure::fixed("ERR numkeys should be greater than 0");
    let (number, rest) = arguments.split_first().ok_or(SYNTAX)?;
    let number = integer_or(number, NONE)?;
    let number = usize::try_from(number).ok().filter(|number| *number > 0).ok_or(NONE)?;
    rest.split_at_checked(number).ok_or(too_many)
}

/// Turns `start` up to `end` (included), negative ones counted from the end, into a range whose end is excluded; `None`: it is empty.
pub(super) fn span(start: i64, end: i64, length: u64) -> Option<(u64, u64)> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from_end = |position: i64| if position < 0 { position.saturating_add(length) } else { position };
    let start = from_end(start).max(0);
    let end = from_end(end).min(length - 1);
    if start > end || start >= length {
        return None;
    }
    Some((start.unsigned_abs(), end.unsigned_abs() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_cut_to_what_is_there() {
        assert_eq!(span(0, -1, 5), Some((0, 5)));
        assert_eq!(span(-100, 100, 5), Some((0, 5)));
        assert_eq!(span(1, 3, 5), Some((1, 4)));
        assert_eq!(span(-2, -1, 5), Some((3, 5)));
        assert_eq!(span(3, 1, 5), None);
        assert_eq!(span(5, 9, 5), None);
        assert_eq!(span(0, -6, 5), None);
        assert_eq!(span(0, -1, 0), None);
        assert_eq!(span(i64::MIN, i64::MAX, 5), Some((0, 5)));
        assert_eq!(span(i64::MAX, i64::MIN, 5), None);
    }
}
