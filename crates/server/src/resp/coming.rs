//! Looks ahead at requests that have arrived and are not handled yet.

use super::request::short_number;

/// Largest number of elements of a request that is looked at: a request that comes in many pieces must not be gone through again with each.
const ELEMENTS: usize = 16;

/// Longest key that is looked at, bytes: preparing for keys copies them.
const KEY: usize = 1024;
/// Commands that run scripts: their second element is a script, their third the number of keys, and then come the keys.
const RUNNERS: [&[u8]; 6] = [b"evalsha", b"eval", b"fcall", b"evalsha_ro", b"eval_ro", b"fcall_ro"];

/// Complete requests at the start of some bytes, up to the first that is anything but an array of two to 16 bulk strings, or has a key of
/// more than 1 KiB: for each, its second element, which nearly always is a key, and the position at which the request ends. Of a request
/// that runs a script it is the first key, or empty if there is none. Only a guess: the parser decides what a request is.
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
        let line = self.input.get(at..).filter(|line| line.first() == Some(&mark))?;
        let (number, bytes) = short_number(line)?;
        Some((number, at + bytes))
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
        let (name, at) = self.bulk(at)?;
        let (mut key, mut at) = self.bulk(at)?;
        let is_runner = matches!(name.first(), Some(b'e' | b'E' | b'f' | b'F')) && RUNNERS.iter().any(|it| name.eq_ignore_ascii_case(it));
        if is_runner {
            key = b"";
        }
        let mut has_keys = false;
        for n in 2..count {
            let (element, end) = self.bulk(at)?;
            match n {
                2 => has_keys = is_runner && element != b"0",
                3 if has_keys => key = element,
                _ => {}
            }
            at = end;
        }
        if key.len() > KEY {
            return None;
        }
        self.at = at;
        Some((key, at))
    }
}
