//! Small collections that Redis keeps in one string: ziplists, listpacks, sets of integers, zipmaps.
//!
//! All encodings are read from front to back; their fields for walking backwards are checked on the way. A reader yields one entry after
//! the other, so nothing is built in memory.

use crate::number::{integer_text, parse_double, parse_integer};
use sinterdb::internal::coding::Decoder;
use std::borrow::Cow;

/// Description of the damage to a collection.
pub(super) type Damage = &'static str;

const LISTPACK: Damage = "a damaged listpack";
const ZIPLIST: Damage = "a damaged ziplist";
const INTSET: Damage = "a damaged set of integers";
const ZIPMAP: Damage = "a damaged zipmap";

/// An entry: bytes, or a number that stands for its decimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    Bytes(&'a [u8]),
    Integer(i64),
}

impl<'a> Entry<'a> {
    /// The entry as bytes.
    pub fn text(self) -> Cow<'a, [u8]> {
        match self {
            Entry::Bytes(bytes) => Cow::Borrowed(bytes),
            Entry::Integer(number) => Cow::Owned(integer_text(number)),
        }
    }

    /// The entry as a number, if it is one.
    pub fn integer(self) -> Option<i64> {
        match self {
            Entry::Bytes(bytes) => parse_integer(bytes),
            Entry::Integer(number) => Some(number),
        }
    }

    /// The entry as a score, if it is one.
    pub fn score(self) -> Option<f64> {
        match self {
            Entry::Bytes(bytes) => parse_double(bytes),
            // As close as a double gets, as in Redis.
            Entry::Integer(number) => Some(number as f64),
        }
    }
}

/// Reads a number of up to eight bytes, little-endian, with its sign.
fn signed(from: &mut Decoder, width: usize) -> Option<i64> {
    let bytes = from.bytes(width)?;
    let mut wide = [0u8; 8];
    wide.get_mut(8 - width..)?.copy_from_slice(bytes);
    // From the upper end down, which extends the sign.
    Some(i64::from_le_bytes(wide) >> (64 - 8 * width))
}

fn sized<'a>(from: &mut Decoder<'a>, length: u32) -> Option<Entry<'a>> {
    from.bytes(usize::try_from(length).ok()?).map(Entry::Bytes)
}

/// Bytes between a header of `header` bytes and the end mark; `length` is the length of the whole according to the header.
fn inside(bytes: &[u8], header: usize, length: u32, damage: Damage) -> Result<&[u8], Damage> {
    let is_whole = u64::from(length) == bytes.len() as u64;
    match bytes.get(header..).and_then(<[u8]>::split_last) {
        Some((0xff, inside)) if is_whole => Ok(inside),
        _ => Err(damage),
    }
}

/// Checks the number of entries against the two bytes of a header, which has none if there are too many.
#[derive(Debug)]
struct Count {
    claimed: u16,
    seen: u64,
}

impl Count {
    fn end(&self, damage: Damage) -> Result<(), Damage> {
        if self.claimed == u16::MAX || u64::from(self.claimed) == self.seen { Ok(()) } else { Err(damage) }
    }
}

/// A ziplist or a listpack.
#[derive(Debug)]
pub(super) enum Pack<'a> {
    List(Listpack<'a>),
    Zip(Ziplist<'a>),
}

impl<'a> Pack<'a> {
    pub fn listpack(bytes: &'a [u8]) -> Result<Self, Damage> {
        Listpack::new(bytes).map(Pack::List)
    }

    pub fn ziplist(bytes: &'a [u8]) -> Result<Self, Damage> {
        Ziplist::new(bytes).map(Pack::Zip)
    }

    /// The next entry; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Entry<'a>>, Damage> {
        match self {
            Pack::List(pack) => pack.next(),
            Pack::Zip(pack) => pack.next(),
        }
    }

    /// The next two entries.
    pub fn next_pair(&mut self) -> Result<Option<(Entry<'a>, Entry<'a>)>, Damage> {
        let Some(first) = self.next()? else { return Ok(None) };
        let second = self.next()?.ok_or("a field without a value")?;
        Ok(Some((first, second)))
    }
}

/// Layout: `bytes, 4 | entries, 2 | entry .. | 0xff`, an entry being `encoding and bytes | length of these, backwards`.
#[derive(Debug)]
pub(super) struct Listpack<'a> {
    rest: &'a [u8],
    count: Count,
}

impl<'a> Listpack<'a> {
    pub fn new(bytes: &'a [u8]) -> Result<Self, Damage> {
        let mut header = Decoder::new(bytes);
        let (length, claimed) = (header.u32().ok_or(LISTPACK)?, header.u16().ok_or(LISTPACK)?);
        Ok(Listpack { rest: inside(bytes, 6, length, LISTPACK)?, count: Count { claimed, seen: 0 } })
    }

    pub fn next(&mut self) -> Result<Option<Entry<'a>>, Damage> {
        if self.rest.is_empty() {
            return self.count.end(LISTPACK).map(|()| None);
        }
        let mut from = Decoder::new(self.rest);
        let entry = Self::entry(&mut from).ok_or(LISTPACK)?;
        let used = self.rest.len() - from.rest().len();
        // Seven bits in a byte, the most significant ones first; all but the first have the upper bit.
        let back = from.bytes(Self::back_bytes(used)).ok_or(LISTPACK)?;
        let said = back.iter().fold(0, |number, byte| number << 7 | usize::from(byte & 0x7f));
        let is_marked = back.iter().enumerate().all(|(n, byte)| (n > 0) == (*byte >= 0x80));
        if said != used || !is_marked {
            return Err(LISTPACK);
        }
        self.rest = from.rest();
        self.count.seen += 1;
        Ok(Some(entry))
    }

    fn back_bytes(entry: usize) -> usize {
        match entry {
            0..=127 => 1,
            128..=16_382 => 2,
            16_383..=2_097_150 => 3,
            2_097_151..=268_435_454 => 4,
            _ => 5,
        }
    }

    fn entry(from: &mut Decoder<'a>) -> Option<Entry<'a>> {
        let first = from.u8()?;
        match first {
            0x00..=0x7f => Some(Entry::Integer(first.into())),
            0x80..=0xbf => sized(from, u32::from(first & 0x3f)),
            0xc0..=0xdf => {
                let number = i64::from(first & 0x1f) << 8 | i64::from(from.u8()?);
                Some(Entry::Integer(if number < 1 << 12 { number } else { number - (1 << 13) }))
            }
            0xe0..=0xef => {
                let low = from.u8()?;
                sized(from, u32::from(first & 0x0f) << 8 | u32::from(low))
            }
            0xf0 => {
                let length = from.u32()?;
                sized(from, length)
            }
            0xf1 => signed(from, 2).map(Entry::Integer),
            0xf2 => signed(from, 3).map(Entry::Integer),
            0xf3 => signed(from, 4).map(Entry::Integer),
            0xf4 => signed(from, 8).map(Entry::Integer),
            _ => None,
        }
    }
}

/// Bytes before the entries of a ziplist.
const ZIPLIST_HEADER: usize = 10;

/// Layout: `bytes, 4 | offset of the last entry, 4 | entries, 2 | entry .. | 0xff`, an entry being
/// `length of the one before | encoding | bytes`.
#[derive(Debug)]
pub(super) struct Ziplist<'a> {
    rest: &'a [u8],
    /// Bytes of the previous entry.
    before: u64,
    /// Bytes from the start of the last entry to the end mark, according to the header.
    last: u64,
    count: Count,
}

impl<'a> Ziplist<'a> {
    pub fn new(bytes: &'a [u8]) -> Result<Self, Damage> {
        let mut header = Decoder::new(bytes);
        let length = header.u32().ok_or(ZIPLIST)?;
        let (last, claimed) = (header.u32().ok_or(ZIPLIST)?, header.u16().ok_or(ZIPLIST)?);
        let rest = inside(bytes, ZIPLIST_HEADER, length, ZIPLIST)?;
        let end = (ZIPLIST_HEADER + rest.len()) as u64;
        let last = end.checked_sub(last.into()).ok_or(ZIPLIST)?;
        Ok(Ziplist { rest, before: 0, last, count: Count { claimed, seen: 0 } })
    }

    pub fn next(&mut self) -> Result<Option<Entry<'a>>, Damage> {
        if self.rest.is_empty() {
            // Without entries, the header's offset of the last entry means nothing.
            let is_last = self.count.seen == 0 || self.before == self.last;
            return if is_last { self.count.end(ZIPLIST).map(|()| None) } else { Err(ZIPLIST) };
        }
        let mut from = Decoder::new(self.rest);
        let before = match from.u8() {
            Some(0xfe) => from.u32().map(u64::from),
            Some(0xff) | None => None,
            Some(short) => Some(short.into()),
        };
        if before != Some(self.before) {
            return Err(ZIPLIST);
        }
        let entry = Self::entry(&mut from).ok_or(ZIPLIST)?;
        self.before = (self.rest.len() - from.rest().len()) as u64;
        self.rest = from.rest();
        self.count.seen += 1;
        Ok(Some(entry))
    }

    fn entry(from: &mut Decoder<'a>) -> Option<Entry<'a>> {
        let first = from.u8()?;
        match first {
            0x00..=0x3f => sized(from, first.into()),
            0x40..=0x7f => {
                let low = from.u8()?;
                sized(from, u32::from(first & 0x3f) << 8 | u32::from(low))
            }
            0x80..=0xbf => {
                // The only number here with its upper byte first.
                let length = from.u32()?.swap_bytes();
                sized(from, length)
            }
            0xc0 => signed(from, 2).map(Entry::Integer),
            0xd0 => signed(from, 4).map(Entry::Integer),
            0xe0 => signed(from, 8).map(Entry::Integer),
            0xf0 => signed(from, 3).map(Entry::Integer),
            0xfe => signed(from, 1).map(Entry::Integer),
            0xf1..=0xfd => Some(Entry::Integer(i64::from(first & 0x0f) - 1)),
            _ => None,
        }
    }
}

/// The numbers of a set of integers, `width, 4 | numbers, 4 | number ..`, which ascend.
pub(super) fn integers(bytes: &[u8]) -> Result<impl Iterator<Item = i64>, Damage> {
    let mut header = Decoder::new(bytes);
    let (width, count) = (header.u32().ok_or(INTSET)?, header.u32().ok_or(INTSET)?);
    let rest = header.rest();
    let width = usize::try_from(width).ok().filter(|width| [2, 4, 8].contains(width)).ok_or(INTSET)?;
    if !rest.len().is_multiple_of(width) || (rest.len() / width) as u64 != u64::from(count) {
        return Err(INTSET);
    }
    let numbers = rest.chunks_exact(width).filter_map(move |number| signed(&mut Decoder::new(number), width));
    if numbers.clone().is_sorted_by(|a, b| a < b) { Ok(numbers) } else { Err(INTSET) }
}

/// Layout: `pairs, 1 | pair .. | 0xff`, a pair being `length, field, length, unused bytes, value, the unused bytes`.
#[derive(Debug)]
pub(super) struct Zipmap<'a> {
    rest: &'a [u8],
    claimed: u8,
    seen: u64,
}

/// A field and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// Count in a header that stands for any number of pairs, as there may be more than fit into a byte.
const ZIPMAP_MANY: u8 = 254;

impl<'a> Zipmap<'a> {
    pub fn new(bytes: &'a [u8]) -> Result<Self, Damage> {
        match bytes {
            [claimed, rest @ .., 0xff] => Ok(Zipmap { rest, claimed: *claimed, seen: 0 }),
            _ => Err(ZIPMAP),
        }
    }

    /// The next field and its value; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Pair<'a>>, Damage> {
        if self.rest.is_empty() {
            let fits = self.claimed == ZIPMAP_MANY || u64::from(self.claimed) == self.seen;
            return if fits { Ok(None) } else { Err(ZIPMAP) };
        }
        let mut from = Decoder::new(self.rest);
        let pair = Self::pair(&mut from).ok_or(ZIPMAP)?;
        self.rest = from.rest();
        self.seen += 1;
        Ok(Some(pair))
    }

    fn pair(from: &mut Decoder<'a>) -> Option<Pair<'a>> {
        let length = Self::length(from)?;
        let field = from.bytes(length)?;
        let length = Self::length(from)?;
        let unused = from.u8()?;
        let value = from.bytes(length)?;
        from.bytes(unused.into())?;
        Some((field, value))
    }

    fn length(from: &mut Decoder) -> Option<usize> {
        match from.u8()? {
            254 => usize::try_from(from.u32()?).ok(),
            255 => None,
            short => Some(short.into()),
        }
    }
}
