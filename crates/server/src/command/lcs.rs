//! `LCS`: the longest common subsequence of two strings.

use super::arguments::{Rest, is};
use super::spec::READ;
use super::{Command, Context, Failure, Group, Outcome, SYNTAX};
use crate::keyspace::{Kind, LONGEST_STRING as LONGEST};
use crate::resp::Writer;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new(Group::String, "lcs", -3, lcs)
    .keys(1, 2, 1)
    .flags(READ)
    .since("7.0.0")
    .says("The longest common subsequence of two strings", "O(n*m), n and m being their lengths")];

/// Options of `LCS`.
#[derive(Debug, Default)]
struct Request {
    length: bool,
    ranges: bool,
    with_lengths: bool,
    length_min: i64,
}

impl Request {
    fn parse(options: &[&[u8]]) -> Result<Request, Failure> {
        let mut request = Request::default();
        let mut rest = Rest::new(options);
        while let Some(word) = rest.next() {
            match () {
                () if is(word, "idx") => request.ranges = true,
                () if is(word, "len") => request.length = true,
                () if is(word, "withmatchlen") => request.with_lengths = true,
                () if is(word, "minmatchlen") => request.length_min = rest.integer()?,
                () => return Err(SYNTAX),
            }
        }
        if request.length && request.ranges {
            return Err(Failure::fixed("ERR If you want both the length and indexes, please just use IDX."));
        }
        Ok(request)
    }
}

/// Table over all pairs of prefixes of two strings. Instead of the length of each pair's longest common subsequence (LCS), it keeps one
/// bit: which of the two shorter pairs has the longer LCS.
struct Table<'a> {
    a: &'a [u8],
    b: &'a [u8],
    /// Bit per pair: shortening the prefix of `a` by one leaves a longer LCS than shortening that of `b`. Row by row, 64 bits in a word.
    longer_above: Vec<u64>,
    length: u32,
}

impl<'a> Table<'a> {
    /// `traces`: keep the bits that [`Table::trace`] needs.
    fn new(a: &'a [u8], b: &'a [u8], traces: bool) -> Self {
        let words = if traces { (a.len() * b.len()).div_ceil(64) } else { 0 };
        let mut longer_above = vec![0u64; words];
        // Lengths in the row above, which turn into those of this row from the left on.
        let mut row = vec![0u32; b.len() + 1];
        for (i, x) in a.iter().enumerate() {
            let (mut left, mut corner) = (0, 0);
            for (j, (y, cell)) in b.iter().zip(row.iter_mut().skip(1)).enumerate() {
                let above = *cell;
                *cell = if x == y { corner + 1 } else { above.max(left) };
                if x != y && above > left {
                    let bit = i * b.len() + j;
                    if let Some(word) = longer_above.get_mut(bit / 64) {
                        *word |= 1 << (bit % 64);
                    }
                }
                (left, corner) = (*cell, above);
            }
        }
        Table { a, b, longer_above, length: row.last().copied().unwrap_or(0) }
    }

    fn is_longer_above(&self, i: usize, j: usize) -> bool {
        let bit = i * self.b.len() + j;
        self.longer_above.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// The subsequence, and its contiguous pieces in both strings, the last piece first: start in `a`, start in `b`, length.
    fn trace(&self) -> (Vec<u8>, Vec<(usize, usize, usize)>) {
        let (mut text, mut pieces): (Vec<u8>, Vec<(usize, usize, usize)>) = Default::default();
        let (mut i, mut j, mut goes_on) = (self.a.len(), self.b.len(), false);
        while let (Some(x), Some(y)) = (i.checked_sub(1), j.checked_sub(1)) {
            if self.a[x] == self.b[y] {
                text.push(self.a[x]);
                (i, j) = (x, y);
                match pieces.last_mut().filter(|_| goes_on) {
                    Some(piece) => *piece = (x, y, piece.2 + 1),
                    None => pieces.push((x, y, 1)),
                }
                goes_on = true;
                continue;
            }
            goes_on = false;
            if self.is_longer_above(x, y) { i = x } else { j = y }
        }
        text.reverse();
        (text, pieces)
    }
}

fn value(context: &mut Context, key: &[u8]) -> Result<Vec<u8>, Failure> {
    match context.keyspace.find(context.session.db, key)? {
        None => Ok(Vec::new()),
        Some(head) if head.kind == Kind::String => Ok(context.keyspace.found_value()?.to_vec()),
        Some(_) => Err(Failure::fixed("ERR The specified keys must contain string values")),
    }
}

fn lcs(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let (a, b) = (value(context, arguments[1]), value(context, arguments[2]));
    let (a, b) = (a?, b?);
    let request = Request::parse(&arguments[3..])?;
    // Refuses inputs for which Redis's table, four bytes for each pair, would be too large: this bounds the time here.
    let cells = (a.len() as u64 + 1).saturating_mul(b.len() as u64 + 1);
    if cells.saturating_mul(4) > LONGEST {
        return Err(Failure::fixed("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"));
    }
    let table = Table::new(&a, &b, !request.length);
    match () {
        () if request.length => context.reply.integer(table.length.into()),
        () if request.ranges => reply_ranges(&mut context.reply, &request, &table),
        () => context.reply.bulk(&table.trace().0),
    }
    Ok(())
}

fn reply_ranges(reply: &mut Writer, request: &Request, table: &Table) {
    let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let mut pieces = table.trace().1;
    pieces.retain(|(_, _, length)| number(*length) >= request.length_min);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(pieces.len());
    for (a, b, length) in pieces {
        reply.array(2 + usize::from(request.with_lengths));
        for start in [a, b] {
            reply.array(2);
            reply.integer(number(start));
            reply.integer(number(start + length - 1));
        }
        if request.with_lengths {
            reply.integer(number(length));
        }
    }
    reply.bulk(b"len");
    reply.integer(table.length.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn known_subsequences() {
        let table = Table::new(b"ohmytext", b"mynewtext", true);
        assert_eq!((table.length, table.trace()), (6, (b"mytext".to_vec(), vec![(4, 5, 4), (2, 0, 2)])));
        for (a, b) in [(&b""[..], &b""[..]), (b"", b"a"), (b"a", b""), (b"a", b"b")] {
            let table = Table::new(a, b, true);
            assert_eq!((table.length, table.trace()), (0, (Vec::new(), Vec::new())));
        }
    }

    /// The trace is a subsequence of both strings, of the stated length, and its pieces are where it says.
    #[test]
    fn traces_are_what_they_say() {
        let mut random = Random(1);
        for _ in 0..500 {
            let (a, b) = (random.bytes(40, b"abc"), random.bytes(40, b"abcd"));
            let table = Table::new(&a, &b, true);
            let (text, pieces) = table.trace();
            assert_eq!((text.len(), Table::new(&a, &b, false).length), (table.length as usize, table.length));
            let of = |string: &[u8], start: fn(&(usize, usize, usize)) -> usize| {
                pieces.iter().rev().flat_map(|piece| string[start(piece)..][..piece.2].to_vec()).collect::<Vec<u8>>()
            };
            assert_eq!((of(&a, |piece| piece.0), of(&b, |piece| piece.1)), (text.clone(), text));
        }
    }
}
