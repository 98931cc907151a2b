//! The bulk of a page, compressed: tables of all cells and the data of charts, which are ten times as large as the rest. The browser's
//! own `DecompressionStream` unpacks it.

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::{self, Write};

/// The script that unpacks the bulk and draws the charts.
const SCRIPT: &str = include_str!("page.js");

/// Element for the tables of all cells.
pub const PLACE: &str = "<noscript><p>Tables of all cells and charts need JavaScript; what stands above does not, nor does the table of \
                         all figures.</p></noscript>\n<div id=\"cells\"></div>\n";

/// Ends the page, behind [`PLACE`]. `html`: sections with an element for every chart of `figures`.
pub fn bulk(html: &str, figures: &[Value]) -> String {
    // An encoder that writes to memory does not fail.
    let data = gzip(&json!({ "html": html, "figures": figures }).to_string()).unwrap_or_default();
    format!("<script type=\"text/plain\" id=\"bulk\">{}</script>\n<script>\n{SCRIPT}</script>\n", base64(&data))
}

/// Compresses without a time stamp, so that equal figures give equal pages.
fn gzip(text: &str) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

/// Base64 by RFC 4648.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = (0..3).fold(0usize, |word, i| (word << 8) | usize::from(three.get(i).copied().unwrap_or(0)));
        for i in 0..4 {
            out.push(if i <= three.len() { DIGITS[(word >> (18 - 6 * i)) & 63].into() } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::base64;

    /// The examples of RFC 4648.
    #[test]
    fn base64_is_that_of_its_rfc() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        cases.iter().for_each(|(plain, text)| assert_eq!(base64(plain.as_bytes()), *text));
        assert_eq!(base64(&[255, 254, 253]), "//79");
    }
}
