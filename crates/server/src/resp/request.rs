//! Requests, parsed as their bytes arrive.
//!
//! 1. The caller keeps the bytes received and not yet handled in one buffer, which starts with a request, and calls [`Parser::feed`] with
//!    the whole buffer whenever it has grown. The parser notes how far it has looked, so that no byte is looked at twice.
//! 2. When the request is complete, `feed` says how many bytes it takes. Its arguments lie in that buffer; those of an inline request, in
//!    the parser. The caller handles the request, drops its bytes and calls [`Parser::next_request`].
//! 3. An error is final: the bytes behind it cannot be understood. The caller sends the error and closes the connection.
//!
//! 4. A long argument need not wait in the buffer: [`Parser::incoming`] tells of it when its first bytes may come, and after
//!    [`Parser::divert`] the caller takes its bytes out of the buffer as they come ([`Parser::diverted`]). The request then has an empty
//!    argument in its place.
//!
//! A count or length in a header is only compared with a limit, never used to take memory.

use super::inline::{self, Span};
use crate::number::parse_integer;
use std::ops::Range;

/// Longest inline request, and longest line with a count or a length, bytes.
const LINE_MAX: usize = 64 << 10;
/// Most arguments of a request unless the connection has another limit.
const COUNT_MAX: usize = 1 << 20;
/// Longest argument unless the configuration has another limit, bytes.
const BULK_MAX: usize = 512 << 20;
/// Arguments of requests before authentication, and bytes of each: enough for `HELLO 3 AUTH user password SETNAME name`.
const STRICT_COUNT_MAX: usize = 10;
const STRICT_BULK_MAX: usize = 16 << 10;
/// Number of spans for which memory is kept for the next request.
const SPANS_KEPT: usize = 1024;
/// Bytes of decoded inline words for which memory is kept.
const WORDS_KEPT: usize = 4096;

/// Why the bytes that follow cannot be understood. The texts are those of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolError {
    /// An inline request without end.
    InlineTooLong,
    /// An inline request whose quotes are not balanced.
    UnbalancedQuotes,
    /// A line with a count of arguments without end.
    CountLineTooLong,
    /// A count of arguments that is no number or too large.
    InvalidCount,
    /// More arguments than clients may send before they authenticate.
    UnauthenticatedCount,
    /// A line with a length without end.
    LengthLineTooLong,
    /// An argument that does not start with `$`.
    ExpectedBulk(u8),
    /// A length that is no number, negative or too large; or an argument that does not end where it should.
    InvalidLength,
    /// A longer argument than clients may send before they authenticate.
    UnauthenticatedLength,
    /// Another protocol: HTTP, TLS, PROXY. Another program was tricked into sending this here; the only answer is to close the connection.
    Foreign,
}

impl ProtocolError {
    /// The text of the error reply, without its code; `None`: the connection is closed without one.
    pub fn message(self) -> Option<Vec<u8>> {
        let text: &[u8] = match self {
            ProtocolError::InlineTooLong => b"too big inline request",
            ProtocolError::UnbalancedQuotes => b"unbalanced quotes in request",
            ProtocolError::CountLineTooLong => b"too big mbulk count string",
            ProtocolError::InvalidCount => b"invalid multibulk length",
            ProtocolError::UnauthenticatedCount => b"unauthenticated multibulk length",
            ProtocolError::LengthLineTooLong => b"too big bulk count string",
            ProtocolError::ExpectedBulk(got) => return Some([b"Protocol error: expected '$', got '", &[got][..], b"'"].concat()),
            ProtocolError::InvalidLength => b"invalid bulk length",
            ProtocolError::UnauthenticatedLength => b"unauthenticated bulk length",
            ProtocolError::Foreign => return None,
        };
        Some([b"Protocol error: ", text].concat())
    }
}

/// Limits on what a client may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The client has not authenticated, and has to.
    pub strict: bool,
    /// Most arguments of a request.
    pub count_max: usize,
    /// Longest argument, bytes.
    pub bulk_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { strict: false, count_max: COUNT_MAX, bulk_max: BULK_MAX }
    }
}

/// Digits of a number that is read without a search for the end of its line.
const DIGITS: usize = 10;

/// Reads a line of a mark and a number of a few digits without leading zeros; returns the number, and the bytes of the line. `None`: the
/// line is another one, or incomplete.
pub(super) fn short_number(input: &[u8]) -> Option<(usize, usize)> {
    match input {
        [_, one @ b'0'..=b'9', b'\r', b'\n', ..] => return Some((usize::from(one - b'0'), 4)),
        [_, ten @ b'1'..=b'9', one @ b'0'..=b'9', b'\r', b'\n', ..] => {
            return Some((10 * usize::from(ten - b'0') + usize::from(one - b'0'), 5));
        }
        _ => {}
    }
    let digits = input.get(1..)?;
    let mut number = 0;
    for (n, byte) in digits.iter().take(DIGITS + 1).enumerate() {
        match byte {
            b'0'..=b'9' if n == 0 || number > 0 => number = 10 * number + usize::from(byte - b'0'),
            b'\r' if n > 0 && digits.get(n + 1) == Some(&b'\n') => return Some((number, n + 3)),
            _ => return None,
        }
    }
    None
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the request.
    Start,
    Inline,
    /// In the line with the number of arguments.
    Count,
    /// In the line with the length of the next argument; `missing` arguments are still to come.
    Length {
        missing: usize,
    },
    /// In an argument of this length.
    Bulk {
        missing: usize,
        length: usize,
    },
    /// In an argument whose bytes the caller takes out of the input; `left` of them are still to come.
    Diverted {
        missing: usize,
        left: usize,
    },
    /// The request is complete.
    Done,
}

/// Finds requests in the bytes that a connection receives.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    state: State,
    /// Bytes of the request that were understood.
    at: usize,
    /// Bytes of the request that were searched for the end of the current line.
    scanned: usize,
    spans: Vec<Span>,
    /// Words of an inline request, decoded; then `spans` refer to these.
    words: Vec<u8>,
    is_inline: bool,
}

impl Default for Parser {
    fn default() -> Self {
        Parser::new(Limits::default())
    }
}

impl Parser {
    /// A parser at the start of a connection.
    pub fn new(limits: Limits) -> Self {
        Parser { limits, state: State::Start, at: 0, scanned: 0, spans: Vec::new(), words: Vec::new(), is_inline: false }
    }

    /// Changes the limits from the next header on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Looks for the end of the request that `input` starts with, and returns the number of its bytes; `None`: more has to be received.
    /// Until the request ends, each call must bring the earlier bytes again and more behind them.
    pub fn feed(&mut self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        loop {
            let goes_on = match self.state {
                State::Start => self.start(input)?,
                State::Inline => self.inline(input)?,
                State::Count => self.count(input)?,
                State::Length { missing } => self.length(input, missing)?,
                State::Bulk { missing, length } => self.bulk(input, missing, length)?,
                State::Diverted { .. } => false,
                State::Done => return Ok(Some(self.at)),
            };
            if !goes_on {
                return Ok(None);
            }
        }
    }

    /// The incomplete argument that is arriving: its number, and its length in bytes.
    pub fn incoming(&self) -> Option<(usize, usize)> {
        match self.state {
            State::Bulk { length, .. } => Some((self.spans.len(), length)),
            _ => None,
        }
    }

    /// Declares that the caller takes the bytes of the arriving argument, from the first one on, out of the input: the argument is empty in
    /// the request.
    pub fn divert(&mut self) {
        if let State::Bulk { missing, length } = self.state {
            self.state = State::Diverted { missing, left: length };
        }
    }

    /// Takes the range, in an input of `input` bytes, of bytes of a diverted argument; the caller takes them out before the next
    /// [`Parser::feed`]. `None`: no argument is diverted.
    pub fn diverted(&mut self, input: usize) -> Option<Range<usize>> {
        let State::Diverted { missing, left } = self.state else { return None };
        let there = left.min(input.saturating_sub(self.at));
        let left = left - there;
        self.state = if left > 0 { State::Diverted { missing, left } } else { State::Bulk { missing, length: 0 } };
        Some(self.at..self.at + there)
    }

    /// Number of arguments of the complete request; 0: an empty request, which needs no reply.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether the complete request has no arguments.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Arguments of the complete request; `input` is that of [`Parser::feed`].
    pub fn arguments<'a>(&'a self, input: &'a [u8]) -> impl ExactSizeIterator<Item = &'a [u8]> {
        let bytes = if self.is_inline { &self.words[..] } else { input };
        self.spans.iter().map(move |&(start, end)| bytes.get(start..end).unwrap_or_default())
    }

    /// Forgets the complete request, whose bytes the caller has dropped.
    pub fn next_request(&mut self) {
        self.state = State::Start;
        self.at = 0;
        self.scanned = 0;
        self.is_inline = false;
        self.spans.clear();
        self.spans.shrink_to(SPANS_KEPT);
        self.words.clear();
        self.words.shrink_to(WORDS_KEPT);
    }

    fn start(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        self.state = match input.first() {
            None => return Ok(false),
            Some(b'*') => State::Count,
            // A TLS handshake. No command starts with this byte.
            Some(0x16) => return Err(ProtocolError::Foreign),
            Some(_) => State::Inline,
        };
        Ok(true)
    }

    /// The next line, without its line feed; `None`: it is not complete.
    fn line<'a>(&mut self, input: &'a [u8], too_long: ProtocolError) -> Result<Option<&'a [u8]>, ProtocolError> {
        let from = self.scanned.max(self.at);
        let found = input.get(from..).and_then(|rest| rest.iter().position(|byte| *byte == b'\n'));
        // Start of the next line, or the end of the bytes searched.
        self.scanned = found.map_or(input.len(), |n| from + n + 1);
        let length = found.map_or(input.len(), |n| from + n) - self.at;
        if length > LINE_MAX {
            return Err(too_long);
        }
        Ok(found.and_then(|_| input.get(self.at..self.at + length)))
    }

    /// Reads the number in the next line, which starts with a mark; `None`: the line is not complete.
    fn number(&mut self, input: &[u8], too_long: ProtocolError, wrong: ProtocolError) -> Result<Option<i64>, ProtocolError> {
        if let Some((number, bytes)) = input.get(self.at..).and_then(short_number) {
            self.at += bytes;
            return Ok(i64::try_from(number).ok());
        }
        let Some(line) = self.line(input, too_long)? else { return Ok(None) };
        let number = line.strip_suffix(b"\r").and_then(|line| line.get(1..)).and_then(parse_integer).ok_or(wrong)?;
        self.at += line.len() + 1;
        Ok(Some(number))
    }

    fn inline(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        let Some(line) = self.line(input, ProtocolError::InlineTooLong)? else { return Ok(false) };
        self.at += line.len() + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if is_foreign(line) {
            return Err(ProtocolError::Foreign);
        }
        if !inline::split(line, &mut self.words, &mut self.spans) {
            return Err(ProtocolError::UnbalancedQuotes);
        }
        if self.limits.strict && self.spans.len() > STRICT_COUNT_MAX {
            return Err(ProtocolError::UnauthenticatedCount);
        }
        self.is_inline = true;
        self.state = State::Done;
        Ok(true)
    }

    fn count(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        let Some(number) = self.number(input, ProtocolError::CountLineTooLong, ProtocolError::InvalidCount)? else { return Ok(false) };
        // A negative count is an empty request, as zero is.
        let missing = usize::try_from(number).unwrap_or(0);
        if missing > self.limits.count_max {
            return Err(ProtocolError::InvalidCount);
        }
        if self.limits.strict && missing > STRICT_COUNT_MAX {
            return Err(ProtocolError::UnauthenticatedCount);
        }
        self.state = if missing == 0 { State::Done } else { State::Length { missing } };
        Ok(true)
    }

    fn length(&mut self, input: &[u8], missing: usize) -> Result<bool, ProtocolError> {
        match input.get(self.at) {
            None => return Ok(false),
            Some(b'$') => {}
            Some(other) => return Err(ProtocolError::ExpectedBulk(*other)),
        }
        let Some(number) = self.number(input, ProtocolError::LengthLineTooLong, ProtocolError::InvalidLength)? else { return Ok(false) };
        let length = usize::try_from(number).ok().filter(|length| *length <= self.limits.bulk_max).ok_or(ProtocolError::InvalidLength)?;
        if self.limits.strict && length > STRICT_BULK_MAX {
            return Err(ProtocolError::UnauthenticatedLength);
        }
        self.state = State::Bulk { missing, length };
        Ok(true)
    }

    fn bulk(&mut self, input: &[u8], missing: usize, length: usize) -> Result<bool, ProtocolError> {
        let Some(bytes) = input.get(self.at..).and_then(|rest| rest.get(..length + 2)) else { return Ok(false) };
        if !bytes.ends_with(b"\r\n") {
            return Err(ProtocolError::InvalidLength);
        }
        self.spans.push((self.at, self.at + length));
        self.at += length + 2;
        self.state = if missing == 1 { State::Done } else { State::Length { missing: missing - 1 } };
        Ok(true)
    }
}

/// Whether a browser, a proxy or an attacker who uses one of them would send this line: `POST` and `Host:` as in Redis, and every other
/// first line of HTTP or of the PROXY protocol.
fn is_foreign(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return false };
    let last = words.next_back().unwrap_or_default();
    first.eq_ignore_ascii_case(b"post")
        || first.eq_ignore_ascii_case(b"host:")
        || last.starts_with(b"HTTP/")
        || first == b"PROXY" && line.starts_with(b"PROXY TCP")
        || first == b"PROXY" && line.starts_with(b"PROXY UNKNOWN")
}

#[cfg(test)]
impl Parser {
    /// Spans for which memory is taken.
    pub(super) fn spans_capacity(&self) -> usize {
        self.spans.capacity()
    }

    /// Bytes of words for which memory is taken.
    pub(super) fn words_capacity(&self) -> usize {
        self.words.capacity()
    }
}
