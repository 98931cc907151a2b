//! Looks ahead at requests that have arrived and are not handled yet.

use crate::number::parse_integer;

/// Largest number of digits of a number that is read.
const DIGITS: usize = 10;
/// Largest number of elements of a request that is looked at: a request that comes in many pieces must not be gone through again with each.
const ELEMENTS: usize = 16;

/// Longest key that is looked at, bytes: preparing for keys copies them.
const KEY: usize = 1024;

/// Complete requests at the start of some bytes, up to the first that is anything but an array of two to 16 bulk strings, or has a key of
/// more than 1 KiB: for each, its second element, which nearly always is a key, and the position at which the request ends. Only a guess:
/// the parser decides what a request is.
#[derive(Debug)]
pub struct Coming<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Coming<'a> {
    /// Looks at `input`, which has to start with a request.
    pub fn of(input: &'a [u8]) -> Self {
        Coming { input, at: 0 }
    }

    /// Reads the number behind a mark, and the end of its line.
    fn number(&self, at: usize, mark: u8) -> Option<(usize, usize)> {
        let line = self.input.get(at..)?;
        let end = line.iter().take(DIGITS + 2).position(|byte| *byte == b'\r')?;
        let number = line.get(1..end).filter(|_| line.first() == Some(&mark)).and_then(parse_integer)?;
        Some((usize::try_from(number).ok()?, at.checked_add(end + 2)?))
    }

    /// Reads the bulk string at a position, and its end.
    fn bulk(&self, at: usize) -> Option<(&'a [u8], usize)> {
        let (length, start) = self.number(at, b'$')?;
        let end = start.checked_add(length)?;
        Some((self.input.get(start..end)?, end.checked_add(2).filter(|end| *end <= self.input.len())?))
    }
}

impl<'a> Iterator for Coming<'a> {
    type Item = (&'a [u8], usize);

    fn next(&mut self) -> Option<Self::Item> {
        let (count, at) = self.number(self.at, b'*')?;
        if !(2..=ELEMENTS).contains(&count) {
            return None;
        }
        let (_, at) = self.bulk(at)?;
        let (key, mut at) = self.bulk(at).filter(|(key, _)| key.len() <= KEY)?;
        for _ in 2..count {
            at = self.bulk(at)?.1;
        }
        self.at = at;
        Some((key, at))
    }
}
