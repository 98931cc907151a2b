//! Requests as bytes: for other servers, replicas and the append log.

use crate::number::put_integer;

/// Appends a line with a mark and a number.
pub(super) fn put_line(out: &mut Vec<u8>, mark: u8, number: i64) {
    match u8::try_from(number) {
        // Nearly all lengths have one or two digits.
        Ok(small @ 0..10) => out.extend_from_slice(&[mark, b'0' + small, b'\r', b'\n']),
        Ok(small @ 10..100) => out.extend_from_slice(&[mark, b'0' + small / 10, b'0' + small % 10, b'\r', b'\n']),
        _ => {
            out.push(mark);
            put_integer(out, number);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// [`put_line`] with a length.
pub(super) fn put_length(out: &mut Vec<u8>, mark: u8, length: usize) {
    put_line(out, mark, i64::try_from(length).unwrap_or(i64::MAX));
}

/// Appends a request, as clients send it.
pub fn put_request<W: AsRef<[u8]>>(out: &mut Vec<u8>, words: &[W]) {
    out.reserve(words.iter().map(|word| word.as_ref().len() + 16).sum());
    put_length(out, b'*', words.len());
    for word in words {
        let word = word.as_ref();
        put_length(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// A request, as clients send it.
pub fn request<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut out = Vec::new();
    put_request(&mut out, words);
    out
}
