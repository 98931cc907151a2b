//! Inline requests: one line, split at blanks, with quotes as in a shell.
//!
//! Double quotes accept `\xHH`, `\n`, `\r`, `\t`, `\b`, `\a`, and a backslash before any other byte stands for that byte; single quotes
//! accept `\'`. A closing quote must be followed by a blank or the end.

/// Start and end of an argument.
pub(super) type Span = (usize, usize);

/// Whether C's `isspace` accepts a byte.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Decodes the bytes behind a backslash in double quotes: the byte that they stand for, and their number.
fn escaped(rest: &[u8]) -> Option<(u8, usize)> {
    match rest {
        [b'x', high, low, ..] => match (hex(*high), hex(*low)) {
            (Some(high), Some(low)) => Some((high << 4 | low, 3)),
            _ => Some((b'x', 1)),
        },
        [b'n', ..] => Some((b'\n', 1)),
        [b'r', ..] => Some((b'\r', 1)),
        [b't', ..] => Some((b'\t', 1)),
        [b'b', ..] => Some((0x08, 1)),
        [b'a', ..] => Some((0x07, 1)),
        [other, ..] => Some((*other, 1)),
        [] => None,
    }
}

/// Appends the text in quotes of kind `quote`, and returns the bytes behind the closing quote; `None`: it is missing or does not end a
/// word.
fn quoted<'a>(mut rest: &'a [u8], quote: u8, out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (&byte, tail) = rest.split_first()?;
        rest = tail;
        if byte == quote {
            return rest.first().is_none_or(|next| is_blank(*next)).then_some(rest);
        }
        match (byte, quote) {
            (b'\\', b'"') => {
                let (byte, used) = escaped(rest)?;
                out.push(byte);
                rest = rest.get(used..)?;
            }
            (b'\\', _) if rest.first() == Some(&b'\'') => {
                out.push(b'\'');
                rest = rest.get(1..)?;
            }
            _ => out.push(byte),
        }
    }
}

/// Splits a line into words, which are appended to `words` one after the other, with a span for each. False: quotes are not balanced.
pub(super) fn split(line: &[u8], words: &mut Vec<u8>, spans: &mut Vec<Span>) -> bool {
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        rest = rest.get(blanks..).unwrap_or_default();
        if rest.is_empty() {
            return true;
        }
        let start = words.len();
        while let Some((&byte, tail)) = rest.split_first() {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => break,
                b'"' | b'\'' => match quoted(tail, byte, words) {
                    Some(behind) => {
                        rest = behind;
                        break;
                    }
                    None => return false,
                },
                _ => {
                    words.push(byte);
                    rest = tail;
                }
            }
        }
        spans.push((start, words.len()));
    }
}

/// The words of a line, split like an inline request; `None`: quotes are not balanced. Lines of configuration files are split in this way,
/// too.
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    let is_balanced = split(line, &mut bytes, &mut spans);
    is_balanced.then(|| spans.iter().map(|(start, end)| bytes.get(*start..*end).unwrap_or_default().to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<Vec<u8>>> {
        split_words(line.as_bytes())
    }

    #[test]
    fn lines_are_split_as_in_a_shell() {
        let good: [(&str, &[&[u8]]); 12] = [
            ("", &[]),
            ("   \t ", &[]),
            ("SET a b", &[b"SET", b"a", b"b"]),
            ("  set \x0b a\t b  ", &[b"set", b"a", b"b"]),
            (r#"set a "b c""#, &[b"set", b"a", b"b c"]),
            (r#"set a 'b "c'"#, &[b"set", b"a", b"b \"c"]),
            (r#"set a "\x41\n\r\t\b\a\q\"""#, &[b"set", b"a", b"A\n\r\t\x08\x07q\""]),
            (r#"set a "\xZZ""#, &[b"set", b"a", b"xZZ"]),
            (r"set a 'it\'s \n'", &[b"set", b"a", br"it's \n"]),
            (r#"set "" ''"#, &[b"set", b"", b""]),
            (r#"set pre"fix" b"#, &[b"set", b"prefix", b"b"]),
            ("ping\0x", &[b"ping\0x"]),
        ];
        for (line, expected) in good {
            assert_eq!(words(line).expect(line), expected, "{line:?}");
        }
        for bad in [r#"set a "b"#, r#"set a "b"c"#, "set a 'b", "set a 'b'c", r#"set a "b\"#, r#"""""#, r"'\'"] {
            assert_eq!(words(bad), None, "{bad:?}");
        }
    }
}
