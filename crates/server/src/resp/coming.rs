//! Looks ahead at requests that have arrived and are not handled yet.

use crate::number::parse_integer;

/// Digits of a number that is read.
const DIGITS: usize = 10;
/// Elements of a request that is looked at: one that comes in many pieces must not be gone through again with each.
const ELEMENTS: usize = 16;

/// Longest key that is seen ahead: whoever prepares for keys copies them.
const KEY: usize = 1024;

/// The requests that lie complete at the start of some bytes, up to the first that is anything but an array of two to 16 bulk
/// strings, or has a key of more than 1 KiB: for each, its second element, which nearly always is a key, and where the request
/// ends. No more than a guess: the parser decides what a request is.
#[derive(Debug)]
pub struct Coming<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Coming<'a> {
    /// `input` starts where a request starts.
    pub fn of(input: &'a [u8]) -> Self {
        Coming { input, at: 0 }
    }

    /// The number behind a mark, and where its line ends.
    fn number(&self, at: usize, mark: u8) -> Option<(usize, usize)> {
        let line = self.input.get(at..)?;
        let end = line.iter().take(DIGITS + 2).position(|byte| *byte == b'\r')?;
        let number = line.get(1..end).filter(|_| line.first() == Some(&mark)).and_then(parse_integer)?;
        Some((usize::try_from(number).ok()?, at.checked_add(end + 2)?))
    }

    /// The bulk string at a place, and where it ends.
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
