//! Parses replies as far as a load needs: the end of each, and whether it is an error or a value.

use crate::system::Outcome;

/// Longest value of a reply, bytes: Redis's own limit.
pub(super) const LONGEST_VALUE: usize = 512 << 20;
/// Longest head of a reply, or error, bytes.
const LONGEST_LINE: usize = 64 << 10;

/// A reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    /// A status, or a number.
    Done,
    /// A value, or several, with their bytes.
    Value(usize),
    /// No such key, or nothing in it.
    Nothing,
    /// An error with its text.
    Error(&'a [u8]),
}

/// Reads the replies of a connection (RESP2), in whatever pieces they come.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// Head of an unfinished reply.
    line: Vec<u8>,
    /// Bytes of a value, and of the end of its line, that are still to come.
    left: usize,
    value: usize,
    /// Members of an array that are still to come.
    open: u64,
    /// Bytes of the values of an array.
    sum: usize,
}

impl Replies {
    /// Calls `seen` with each reply that ends in `bytes`.
    ///
    /// # Errors
    /// Bytes that are no reply; failures of `seen`.
    pub fn read(&mut self, mut bytes: &[u8], seen: &mut impl FnMut(Reply<'_>) -> Outcome<()>) -> Outcome<()> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let taken = self.left.min(bytes.len());
                (self.left, bytes) = (self.left - taken, &bytes[taken..]);
                if self.left == 0 {
                    self.ended(Reply::Value(self.value), seen)?;
                }
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                self.line.extend_from_slice(bytes);
                return if self.line.len() > LONGEST_LINE { Err("the server answered with an endless line".into()) } else { Ok(()) };
            };
            let (head, rest) = bytes.split_at(end + 1);
            bytes = rest;
            if self.line.is_empty() {
                self.head(head, seen)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                self.head(&line, seen)?;
                line.clear();
                self.line = line;
            }
        }
        Ok(())
    }

    fn head(&mut self, line: &[u8], seen: &mut impl FnMut(Reply<'_>) -> Outcome<()>) -> Outcome<()> {
        let line = line.trim_ascii_end();
        let strange = || format!("the server answered {}", line.escape_ascii());
        let (mark, text) = line.split_first().ok_or_else(strange)?;
        let number = || std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
        match mark {
            b'+' | b':' => self.ended(Reply::Done, seen),
            b'-' => self.ended(Reply::Error(text), seen),
            b'$' | b'*' if number() == Some(-1) => self.ended(Reply::Nothing, seen),
            b'$' => {
                let length = number().and_then(|length| usize::try_from(length).ok()).filter(|length| *length <= LONGEST_VALUE);
                self.value = length.ok_or_else(strange)?;
                self.left = self.value + 2;
                Ok(())
            }
            b'*' => match number().and_then(|count| u64::try_from(count).ok()).ok_or_else(strange)? {
                0 => self.ended(Reply::Nothing, seen),
                // A nested array is replaced by its members.
                count => {
                    self.open = self.open.saturating_sub(1).checked_add(count).ok_or_else(strange)?;
                    Ok(())
                }
            },
            _ => Err(strange().into()),
        }
    }

    fn ended(&mut self, reply: Reply<'_>, seen: &mut impl FnMut(Reply<'_>) -> Outcome<()>) -> Outcome<()> {
        if self.open == 0 {
            return seen(reply);
        }
        if let Reply::Value(bytes) = reply {
            self.sum = self.sum.saturating_add(bytes);
        }
        self.open -= 1;
        if self.open == 0 { seen(Reply::Value(std::mem::take(&mut self.sum))) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replies parsed from `text` when it arrives in pieces of `piece` bytes.
    fn read(text: &[u8], piece: usize) -> Result<Vec<String>, String> {
        let (mut replies, mut found) = (Replies::default(), Vec::new());
        for bytes in text.chunks(piece) {
            let mut seen = |reply: Reply<'_>| {
                found.push(format!("{reply:?}"));
                Ok(())
            };
            replies.read(bytes, &mut seen).map_err(|failure| failure.to_string())?;
        }
        Ok(found)
    }

    #[test]
    fn replies_end_where_they_do_in_whatever_pieces_they_come() {
        let text = b"+OK\r\n:12\r\n$5\r\na\r\nbc\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n*3\r\n:1\r\n*2\r\n$1\r\nx\r\n$-1\r\n$2\r\nyz\r\n+OK\r\n";
        let expected = ["Done", "Done", "Value(5)", "Value(0)", "Nothing", "Nothing", "Nothing", "Value(3)", "Done"];
        for piece in 1..text.len() {
            assert_eq!(read(text, piece).unwrap(), expected, "{piece}");
        }
        assert_eq!(read(b"-ERR no\r\n", 2).unwrap(), [format!("{:?}", Reply::Error(b"ERR no"))]);
    }

    #[test]
    fn what_is_no_reply_is_said() {
        for text in ["hello\r\n", "\r\n", "$x\r\n", "$-2\r\n", "$99999999999\r\n", "*-7\r\n"] {
            let said = read(text.as_bytes(), 3).unwrap_err();
            assert!(said.starts_with("the server answered "), "{text:?}: {said}");
        }
        assert!(read(&vec![b'+'; 1 << 20], 4096).unwrap_err().contains("endless"));
    }
}
