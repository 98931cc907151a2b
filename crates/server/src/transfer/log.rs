//! Reader of a log of commands, one after the other.

use crate::resp::{Parser, ProtocolError};
use std::io::{self, Read};

/// Bytes that are read at once.
const READ: usize = 256 << 10;

/// Why reading a log has stopped.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The bytes from here on are no command.
    Damaged(u64, String),
    Medium(io::Error),
}

/// Result of reading on.
#[derive(Debug)]
pub(super) enum Next<'a> {
    /// A command: its position, and its arguments.
    Command(u64, Vec<&'a [u8]>),
    /// The end, behind a complete command.
    End,
    /// The end, inside a command that begins here.
    Cut(u64),
}

/// Reader of a log. Memory is taken for bytes that are there: at most a command and a buffer.
pub(super) struct Log<R> {
    from: R,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were handled.
    start: usize,
    /// Bytes of the command that was returned last.
    given: usize,
    /// Position in the file at which `buffer` starts.
    base: u64,
    parser: Parser,
}

impl<R: Read> Log<R> {
    /// Reads `from` its current position, which is byte `base` of the file.
    pub fn new(from: R, base: u64) -> Self {
        Log { from, buffer: Vec::new(), start: 0, given: 0, base, parser: Parser::default() }
    }

    /// Reads the next command. Lines that start with `#` are comments.
    pub fn next(&mut self) -> Result<Next<'_>, Stopped> {
        if self.given > 0 {
            self.start += self.given;
            self.given = 0;
            self.parser.next_request();
        }
        loop {
            let at = self.base + self.start as u64;
            let damaged = |what: &str| Err(Stopped::Damaged(at, what.into()));
            let rest = self.buffer.get(self.start..).unwrap_or_default();
            match rest.first() {
                Some(b'#') => {
                    if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                        self.start += end + 1;
                        continue;
                    }
                }
                Some(b'*') => match self.parser.feed(rest) {
                    Ok(None) => {}
                    Ok(Some(_)) if self.parser.is_empty() => return damaged("a command without a name"),
                    Ok(Some(used)) => {
                        self.given = used;
                        break;
                    }
                    Err(error) => return damaged(&describe(error)),
                },
                Some(_) => return damaged("no command begins here"),
                None => {}
            }
            if !self.read().map_err(Stopped::Medium)? {
                return Ok(if self.buffer.is_empty() { Next::End } else { Next::Cut(at) });
            }
        }
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        Ok(Next::Command(self.base + self.start as u64, self.parser.arguments(rest).collect()))
    }

    /// Appends more bytes to the buffer; false: there are none.
    fn read(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.start);
        self.base += self.start as u64;
        self.start = 0;
        let read = self.from.by_ref().take(READ as u64).read_to_end(&mut self.buffer)?;
        Ok(read > 0)
    }
}

fn describe(error: ProtocolError) -> String {
    error.message().map_or_else(|| "this is no log".into(), |text| String::from_utf8_lossy(&text).into_owned())
}
