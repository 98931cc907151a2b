//! Replies, written straight into a connection's output.
//!
//! Commands say what a reply is (a map, a set, a double); the client's protocol decides its encoding. An aggregate is its header and then
//! its members, so that nothing is built in memory first. Text in errors and statuses cannot end the line: a reply is always exactly one
//! value.

use super::encoding::{put_length, put_line};
use crate::number::{format_double, plain_double, put_integer};

/// The version of the protocol that a client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Protocol {
    /// RESP2, with which every connection starts.
    #[default]
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}

/// Size of a buffer from which on no more text is added to it. Some requests ask for far more than there is memory; at this size the client
/// is certain to be closed instead of getting the reply.
pub const REPLIES_MAX: usize = (1 << 30) + (128 << 20);

/// Writes replies to the end of a buffer, up to [`REPLIES_MAX`].
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
}

impl<'a> Writer<'a> {
    /// Writes to the end of `out`.
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Writer { out, protocol }
    }

    /// Protocol of the replies.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the protocol of the following replies.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// The buffer, to which whole replies may be appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Position in the buffer, for [`Writer::truncate`].
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Removes everything written since `position`.
    pub fn truncate(&mut self, position: usize) {
        self.out.truncate(position);
    }

    /// Appends encoded replies, of the same protocol.
    pub fn raw(&mut self, replies: &[u8]) {
        if !self.is_full() {
            self.out.extend_from_slice(replies);
        }
    }

    fn is_full(&self) -> bool {
        self.out.len() >= REPLIES_MAX
    }

    fn is_three(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    fn line(&mut self, mark: u8, number: i64) {
        put_line(self.out, mark, number);
    }

    fn header(&mut self, mark: u8, length: usize) {
        put_length(self.out, mark, length);
    }

    fn text(&mut self, mark: u8, text: &[u8]) {
        self.out.push(mark);
        self.out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes a status, such as `OK`.
    pub fn simple(&mut self, text: &str) {
        self.text(b'+', text.as_bytes());
    }

    /// Writes the status `OK`.
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// Writes an error: a code in capitals, a blank and the text.
    pub fn error(&mut self, text: &[u8]) {
        self.text(b'-', text);
    }

    /// Writes an integer.
    pub fn integer(&mut self, number: i64) {
        self.line(b':', number);
    }

    /// Writes a count as an integer.
    pub fn count(&mut self, number: usize) {
        self.header(b':', number);
    }

    /// Writes a string of bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.raw(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes the head and end of a string whose bytes follow later; returns their position.
    pub fn bulk_later(&mut self, length: u64) -> usize {
        self.header(b'$', usize::try_from(length).unwrap_or(usize::MAX));
        let place = self.out.len();
        self.out.extend_from_slice(b"\r\n");
        place
    }

    /// Writes a number as a string of bytes.
    pub fn bulk_integer(&mut self, number: i64) {
        let mut text = Vec::with_capacity(20);
        put_integer(&mut text, number);
        self.bulk(&text);
    }

    /// Writes a missing string.
    pub fn null(&mut self) {
        self.out.extend_from_slice(if self.is_three() { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Writes a missing array.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(if self.is_three() { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// Writes a string, or a missing one.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Begins an array of so many replies, which follow.
    pub fn array(&mut self, members: usize) {
        self.header(b'*', members);
    }

    /// Begins a map of so many pairs of replies, which follow.
    pub fn map(&mut self, pairs: usize) {
        if self.is_three() { self.header(b'%', pairs) } else { self.header(b'*', pairs.saturating_mul(2)) }
    }

    /// Begins a set of so many replies, which follow.
    pub fn set(&mut self, members: usize) {
        self.header(if self.is_three() { b'~' } else { b'*' }, members);
    }

    /// Begins a message that no request asked for, of so many replies, which follow.
    pub fn push(&mut self, members: usize) {
        self.header(if self.is_three() { b'>' } else { b'*' }, members);
    }

    /// Writes a floating-point number.
    pub fn double(&mut self, number: f64) {
        let text = format_double(number);
        if self.is_three() {
            self.text(b',', text.as_bytes());
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// Writes a floating-point number without an exponent.
    pub fn plain_double(&mut self, number: f64) {
        let text = plain_double(number);
        if self.is_three() {
            self.text(b',', text.as_bytes());
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// Begins a description of the following reply, as so many pairs of replies; only for RESP3, where clients may ignore it.
    pub fn attribute(&mut self, pairs: usize) {
        self.header(b'|', pairs);
    }

    /// Writes a truth value; 1 or 0 in RESP2.
    pub fn boolean(&mut self, yes: bool) {
        if self.is_three() {
            self.out.extend_from_slice(if yes { b"#t\r\n" } else { b"#f\r\n" });
        } else {
            self.integer(i64::from(yes));
        }
    }

    /// Writes text for people; `format` is `txt` or `mkd`.
    pub fn verbatim(&mut self, format: [u8; 3], text: &[u8]) {
        if self.is_three() {
            self.header(b'=', text.len().saturating_add(4));
            self.out.extend_from_slice(&format);
            self.out.push(b':');
            self.out.extend_from_slice(text);
            self.out.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text);
        }
    }

    /// Writes an integer of any size, given in decimal digits.
    pub fn big_number(&mut self, digits: &str) {
        if self.is_three() { self.text(b'(', digits.as_bytes()) } else { self.bulk(digits.as_bytes()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(write: impl Fn(&mut Writer)) -> (String, String) {
        let text = |protocol| {
            let mut out = Vec::new();
            write(&mut Writer::new(&mut out, protocol));
            String::from_utf8(out).expect("text")
        };
        (text(Protocol::Resp2), text(Protocol::Resp3))
    }

    #[test]
    fn each_reply_in_both_protocols() {
        let expect = |write: &dyn Fn(&mut Writer), two: &str, three: &str| assert_eq!(both(write), (two.into(), three.into()));
        expect(&|w| w.ok(), "+OK\r\n", "+OK\r\n");
        expect(&|w| w.simple("PONG"), "+PONG\r\n", "+PONG\r\n");
        expect(&|w| w.error(b"ERR no"), "-ERR no\r\n", "-ERR no\r\n");
        expect(&|w| w.integer(-7), ":-7\r\n", ":-7\r\n");
        expect(&|w| w.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n");
        expect(&|w| w.bulk_integer(i64::MIN), "$20\r\n-9223372036854775808\r\n", "$20\r\n-9223372036854775808\r\n");
        expect(&|w| w.null(), "$-1\r\n", "_\r\n");
        expect(&|w| w.null_array(), "*-1\r\n", "_\r\n");
        expect(&|w| w.array(2), "*2\r\n", "*2\r\n");
        expect(&|w| w.map(2), "*4\r\n", "%2\r\n");
        expect(&|w| w.set(2), "*2\r\n", "~2\r\n");
        expect(&|w| w.push(3), "*3\r\n", ">3\r\n");
        expect(&|w| w.double(0.5), "$3\r\n0.5\r\n", ",0.5\r\n");
        expect(&|w| w.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
        expect(&|w| w.plain_double(-1e20), "$22\r\n-100000000000000000000\r\n", ",-100000000000000000000\r\n");
        expect(&|w| w.boolean(true), ":1\r\n", "#t\r\n");
        expect(&|w| w.boolean(false), ":0\r\n", "#f\r\n");
        expect(&|w| w.verbatim(*b"txt", b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n");
        expect(&|w| w.big_number("12345678901234567890"), "$20\r\n12345678901234567890\r\n", "(12345678901234567890\r\n");
        expect(&|w| w.bulk_or_null(None), "$-1\r\n", "_\r\n");
    }

    /// However much a request asks for, text beyond the limit is not added: its reply is never sent.
    #[test]
    fn no_text_is_added_to_what_will_not_be_sent() {
        // Zeros that nobody looks at take no memory.
        let mut out = vec![0; REPLIES_MAX - 1];
        let text = vec![b'x'; 1 << 20];
        let mut writer = Writer::new(&mut out, Protocol::Resp2);
        (0..10).for_each(|_| writer.bulk(&text));
        (0..10).for_each(|_| writer.raw(&text));
        assert!(out.len() < REPLIES_MAX + (2 << 20), "{}", out.len());
    }

    #[test]
    fn text_cannot_end_its_line() {
        assert_eq!(both(|w| w.error(b"ERR a\r\n+OK\r\n")).0, "-ERR a  +OK  \r\n");
        assert_eq!(both(|w| w.simple("a\nb")).0, "+a b\r\n");
    }
}
