//! Bytes of the format, built by hand.

use crate::rdb::crc64;

/// A length in its shortest form.
pub fn length(n: usize) -> Vec<u8> {
    let n = n as u64;
    match n {
        0..64 => vec![n as u8],
        64..16_384 => (n as u16 | 0x4000).to_be_bytes().to_vec(),
        _ => [&[0x81][..], &n.to_be_bytes()].concat(),
    }
}

/// A string as it is.
pub fn string(bytes: &[u8]) -> Vec<u8> {
    [&length(bytes.len())[..], bytes].concat()
}

/// A whole file.
pub fn file(version: u32, body: &[u8]) -> Vec<u8> {
    let mut out = format!("REDIS{version:04}").into_bytes();
    out.extend_from_slice(body);
    out.push(0xff);
    if version >= 5 {
        out.extend(crc64(0, &out).to_le_bytes());
    }
    out
}

/// An entry of a ziplist or a listpack.
#[derive(Debug, Clone)]
pub enum Part {
    Text(Vec<u8>),
    Number(i64),
}

pub fn text(text: &str) -> Part {
    Part::Text(text.into())
}

/// The lower bytes of a number.
fn low(number: i64, width: usize) -> Vec<u8> {
    number.to_le_bytes()[..width].to_vec()
}

fn fits(number: i64, bits: u32) -> bool {
    (-(1i64 << (bits - 1))..1i64 << (bits - 1)).contains(&number)
}

fn listpack_entry(part: &Part) -> Vec<u8> {
    let mut out = match part {
        Part::Number(n @ 0..128) => vec![*n as u8],
        Part::Number(n) if fits(*n, 13) => vec![0xc0 | (n >> 8 & 0x1f) as u8, *n as u8],
        Part::Number(n) if fits(*n, 16) => [&[0xf1][..], &low(*n, 2)].concat(),
        Part::Number(n) if fits(*n, 24) => [&[0xf2][..], &low(*n, 3)].concat(),
        Part::Number(n) if fits(*n, 32) => [&[0xf3][..], &low(*n, 4)].concat(),
        Part::Number(n) => [&[0xf4][..], &low(*n, 8)].concat(),
        Part::Text(text) if text.len() < 64 => [&[0x80 | text.len() as u8][..], text].concat(),
        Part::Text(text) if text.len() < 4096 => [&[0xe0 | (text.len() >> 8) as u8, text.len() as u8][..], text].concat(),
        Part::Text(text) => [&[0xf0][..], &(text.len() as u32).to_le_bytes(), text].concat(),
    };
    let used = out.len();
    let groups = match used {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        _ => 4,
    };
    for n in (0..groups).rev() {
        out.push((used >> (7 * n) & 0x7f) as u8 | if n + 1 == groups { 0 } else { 0x80 });
    }
    out
}

/// A listpack.
pub fn listpack(parts: &[Part]) -> Vec<u8> {
    let entries: Vec<u8> = parts.iter().flat_map(listpack_entry).collect();
    let count = u16::try_from(parts.len()).unwrap_or(u16::MAX);
    [&(entries.len() as u32 + 7).to_le_bytes()[..], &count.to_le_bytes(), &entries, b"\xff"].concat()
}

fn ziplist_entry(part: &Part) -> Vec<u8> {
    match part {
        Part::Number(n @ 0..=12) => vec![0xf1 + *n as u8],
        Part::Number(n) if fits(*n, 8) => [&[0xfe][..], &low(*n, 1)].concat(),
        Part::Number(n) if fits(*n, 16) => [&[0xc0][..], &low(*n, 2)].concat(),
        Part::Number(n) if fits(*n, 24) => [&[0xf0][..], &low(*n, 3)].concat(),
        Part::Number(n) if fits(*n, 32) => [&[0xd0][..], &low(*n, 4)].concat(),
        Part::Number(n) => [&[0xe0][..], &low(*n, 8)].concat(),
        Part::Text(text) if text.len() < 64 => [&[text.len() as u8][..], text].concat(),
        Part::Text(text) if text.len() < 16_384 => [&[0x40 | (text.len() >> 8) as u8, text.len() as u8][..], text].concat(),
        Part::Text(text) => [&[0x80][..], &(text.len() as u32).to_be_bytes(), text].concat(),
    }
}

/// A ziplist.
pub fn ziplist(parts: &[Part]) -> Vec<u8> {
    let (mut entries, mut before, mut last) = (Vec::new(), 0usize, 0);
    for part in parts {
        last = entries.len();
        if before < 254 {
            entries.push(before as u8);
        } else {
            entries.push(0xfe);
            entries.extend((before as u32).to_le_bytes());
        }
        entries.extend(ziplist_entry(part));
        before = entries.len() - last;
    }
    let count = u16::try_from(parts.len()).unwrap_or(u16::MAX);
    let header = [&(entries.len() as u32 + 11).to_le_bytes()[..], &(last as u32 + 10).to_le_bytes(), &count.to_le_bytes()].concat();
    [&header[..], &entries, b"\xff"].concat()
}

/// A set of integers of so many bytes each.
pub fn intset(width: usize, numbers: &[i64]) -> Vec<u8> {
    let mut out = [(width as u32).to_le_bytes(), (numbers.len() as u32).to_le_bytes()].concat();
    numbers.iter().for_each(|number| out.extend(low(*number, width)));
    out
}

/// A zipmap, with so many unused bytes behind each value.
pub fn zipmap(pairs: &[(&[u8], &[u8])], unused: u8) -> Vec<u8> {
    let length = |n: usize| if n < 254 { vec![n as u8] } else { [&[254][..], &(n as u32).to_le_bytes()].concat() };
    let mut out = vec![u8::try_from(pairs.len()).unwrap_or(254).min(254)];
    for (field, value) in pairs {
        out.extend(length(field.len()));
        out.extend_from_slice(field);
        out.extend(length(value.len()));
        out.push(unused);
        out.extend_from_slice(value);
        out.extend(vec![b'?'; usize::from(unused)]);
    }
    out.push(0xff);
    out
}
