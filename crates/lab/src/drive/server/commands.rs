//! The bytes of commands, made from templates: bytes that do not change from one request to the next are one piece.

use crate::run::{Argument, Command, member, template};
use crate::system::Outcome;
use crate::workload::{KeyCoder, Values, Xoshiro256PlusPlus};

/// Smallest score; scores are below ten times of it, so that all have equally many digits.
const LEAST_SCORE: u64 = 100_000;
/// Digits at the end of a member.
const DIGITS: usize = 12;

/// A part of a command's bytes.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    /// Fixed bytes.
    Bytes(Vec<u8>),
    /// The key.
    Key,
    /// A value, with its head and the end of its line.
    Value,
    /// The digits of a score.
    Score,
    /// The digits of one of this many members.
    Member(u64),
}

/// The bytes of a command with holes.
#[derive(Debug)]
pub(super) struct Words {
    pub command: &'static Command,
    pieces: Vec<Piece>,
    /// Bytes of all arguments except values, and the number of values.
    bytes: usize,
    values: usize,
}

impl Words {
    /// The command of an operation of a mix, for keys of `key_size` bytes.
    ///
    /// # Errors
    /// Operations that servers do not have.
    pub fn of(operation: &str, key_size: usize) -> Outcome<Words> {
        let template = template(operation)?;
        let name = template.command.name;
        let mut words = Words { command: template.command, pieces: Vec::new(), bytes: 0, values: 0 };
        words.text(&format!("*{}\r\n${}\r\n{name}\r\n", template.arguments.len() + 1, name.len()));
        for argument in &template.arguments {
            match argument {
                Argument::Text(text) => words.argument(text, text.len(), None),
                Argument::Key => words.argument("", key_size, Some(Piece::Key)),
                Argument::Score => words.argument("", LEAST_SCORE.to_string().len(), Some(Piece::Score)),
                Argument::Member(members) => {
                    let (known, length) = (member(0), member(0).len());
                    words.argument(&known[..length - DIGITS], length, Some(Piece::Member(*members)));
                }
                Argument::Value => {
                    words.pieces.push(Piece::Value);
                    words.values += 1;
                }
            }
        }
        Ok(words)
    }

    /// Adds an argument of `length` bytes: a text, and the piece that fills the rest.
    fn argument(&mut self, text: &str, length: usize, rest: Option<Piece>) {
        self.text(&format!("${length}\r\n{text}"));
        self.pieces.extend(rest);
        self.text("\r\n");
        self.bytes += length;
    }

    fn text(&mut self, text: &str) {
        if let Some(Piece::Bytes(bytes)) = self.pieces.last_mut() {
            bytes.extend_from_slice(text.as_bytes());
        } else {
            self.pieces.push(Piece::Bytes(text.as_bytes().to_vec()));
        }
    }
}

/// Writes commands: values, scores and members for their holes.
pub(super) struct Writer<'a> {
    values: Values<'a>,
    holes: Xoshiro256PlusPlus,
    coder: KeyCoder,
    key: Vec<u8>,
    /// Size of the last value, and the head for that size.
    size: usize,
    head: Vec<u8>,
}

impl<'a> Writer<'a> {
    pub fn new(key_size: usize, values: Values<'a>, holes: Xoshiro256PlusPlus) -> Self {
        let coder = KeyCoder::new(key_size);
        Writer { values, holes, coder, key: coder.buffer(), size: 0, head: head(0) }
    }

    /// Adds a command for key `number` with values of `size` bytes to `out`. Returns the bytes of its arguments.
    #[inline]
    pub fn write(&mut self, words: &Words, number: u64, size: usize, out: &mut Vec<u8>) -> usize {
        self.coder.write(number, &mut self.key);
        if self.size != size {
            (self.size, self.head) = (size, head(size));
        }
        for piece in &words.pieces {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Key => out.extend_from_slice(&self.key),
                Piece::Value => {
                    out.extend_from_slice(&self.head);
                    out.extend_from_slice(self.values.of_size(size));
                    out.extend_from_slice(b"\r\n");
                }
                Piece::Score => out.extend_from_slice(&digits::<6>(LEAST_SCORE + self.holes.below(9 * LEAST_SCORE))),
                Piece::Member(members) => out.extend_from_slice(&digits::<DIGITS>(self.holes.below(*members))),
            }
        }
        words.bytes + words.values * size
    }
}

/// The head of a value of `size` bytes.
fn head(size: usize) -> Vec<u8> {
    format!("${size}\r\n").into_bytes()
}

/// The last `N` decimal digits of a number.
fn digits<const N: usize>(mut number: u64) -> [u8; N] {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ValuePool;

    /// The command of an operation at key 7 with values of `size` bytes, and the bytes of its arguments.
    fn written(operation: &str, size: usize) -> (String, usize) {
        let (pool, words) = (ValuePool::new(9, 0.5), Words::of(operation, 8).unwrap());
        let mut writer = Writer::new(8, pool.values(), Xoshiro256PlusPlus::new(1));
        let mut out = Vec::new();
        let bytes = writer.write(&words, 0x3030_3030_3030_3037, size, &mut out);
        let value = String::from_utf8(pool.values().of_size(size).to_vec()).unwrap();
        (String::from_utf8(out).unwrap().replace(&value, "VALUE").replace("\r\n", " "), bytes)
    }

    #[test]
    fn commands_are_written_with_all_that_fills_their_holes() {
        assert_eq!(written("get", 9), ("*2 $3 GET $8 00000007 ".into(), 8));
        assert_eq!(written("put", 5), ("*3 $3 SET $8 00000007 $5 VALUE ".into(), 13));
        assert_eq!(written("delete", 9), ("*2 $3 DEL $8 00000007 ".into(), 8));
        assert_eq!(written("LRANGE {key} 0 99", 9), ("*4 $6 LRANGE $8 00000007 $1 0 $2 99 ".into(), 11));
        let set = "*4 $4 HSET $8 00000007 $20 element:000000000000 $4 VALUE ";
        assert_eq!(written("HSET {key} {member of 1} {value}", 4), (set.into(), 32));
        let two = "*4 $4 SADD $8 00000007 $20 element:000000000000 $20 element:000000000001 ";
        assert_eq!(written("SADD {key} {2 of member}", 9), (two.into(), 48));
        let (scored, bytes) = written("ZADD {key} {score} {member of 3}", 9);
        let score: u64 = scored["*4 $4 ZADD $8 00000007 $6 ".len()..][..6].parse().unwrap();
        assert!((LEAST_SCORE..10 * LEAST_SCORE).contains(&score), "{scored}");
        assert_eq!((bytes, scored.len()), (34, "*4 $4 ZADD $8 00000007 $6 123456 $20 element:000000000001 ".len()));
        assert!(Words::of("scan", 8).is_err());
    }

    #[test]
    fn members_are_met_alike_often() {
        let (pool, words) = (ValuePool::new(1, 0.5), Words::of("SADD {key} {member of 16}", 16).unwrap());
        let mut writer = Writer::new(16, pool.values(), Xoshiro256PlusPlus::new(1));
        let mut met = [0; 16];
        for _ in 0..16_000 {
            let mut out = Vec::new();
            writer.write(&words, 0, 1, &mut out);
            let member = std::str::from_utf8(&out[out.len() - 2 - DIGITS..out.len() - 2]).unwrap();
            met[member.parse::<usize>().unwrap()] += 1;
        }
        assert!(met.iter().all(|times| (800..1200).contains(times)), "{met:?}");
    }

    #[test]
    fn numbers_have_all_their_digits() {
        assert_eq!((digits::<4>(37), digits::<2>(137)), (*b"0037", *b"37"));
    }
}
