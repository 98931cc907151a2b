//! The library `struct`: values as bytes of a fixed layout, by a format.

use crate::coding::{finish, put};
use crate::lua::{Stack, native};
use crate::number::cut;
use crate::redis::add;
use std::ffi::c_int;

/// Largest size of an integer, bytes.
const INTEGER_MAX: i64 = 32;

/// A format that is read option by option.
struct Format<'a> {
    lua: Stack,
    rest: &'a [u8],
    big: bool,
    alignment: usize,
}

impl<'a> Format<'a> {
    fn new(lua: Stack) -> Format<'a> {
        let text = lua.bytes_argument(1);
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Format { lua, rest: &text[..end], big: cfg!(target_endian = "big"), alignment: 1 }
    }

    /// The next option and the size of its value.
    fn option(&mut self) -> Option<(u8, usize)> {
        let (option, rest) = self.rest.split_first()?;
        self.rest = rest;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.count(1),
            b'i' | b'I' => {
                let size = self.count(4);
                if size > INTEGER_MAX {
                    self.lua.fail(format_args!("integral size {size} is larger than limit of {INTEGER_MAX}"))
                }
                size
            }
            _ => 0,
        };
        Some((*option, size as usize))
    }

    /// A number in the format, up to the largest `int` of C.
    fn count(&mut self, default: i64) -> i64 {
        let mut count = None;
        while let Some((digit, rest)) = self.rest.split_first().filter(|(digit, _)| digit.is_ascii_digit()) {
            let next = count.unwrap_or(0) * 10 + i64::from(digit - b'0');
            if next > i64::from(i32::MAX) {
                self.lua.fail(format_args!("integral size overflow"))
            }
            count = Some(next);
            self.rest = rest;
        }
        count.unwrap_or(default)
    }

    /// Padding before a value at a position, bytes.
    fn padding(&self, at: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.alignment);
        size.wrapping_sub(at & (size - 1)) & (size - 1)
    }

    /// Options that have no value.
    fn control(&mut self, option: u8) {
        match option {
            b' ' => {}
            b'>' => self.big = true,
            b'<' => self.big = false,
            b'!' => {
                let alignment = self.count(8);
                if alignment <= 0 || alignment & (alignment - 1) != 0 {
                    self.lua.fail(format_args!("alignment {alignment} is not a power of 2"))
                }
                self.alignment = alignment as usize;
            }
            _ => {
                let mut message = *b"invalid format option ' '\0";
                message[23] = option;
                self.lua.bad_argument(1, std::ffi::CStr::from_bytes_until_nul(&message).unwrap_or(c""))
            }
        }
    }
}

/// A double as C converts it to 64 bits without a sign, on x86-64.
fn unsigned(number: f64) -> u64 {
    let limit = 9_223_372_036_854_775_808.0;
    if number >= 2.0 * limit {
        0
    } else if number >= limit {
        number as u64
    } else {
        cut(number) as u64
    }
}

fn put_integer(format: &Format, argument: c_int, size: usize) {
    let mut bytes = [0; INTEGER_MAX as usize];
    bytes[..8].copy_from_slice(&unsigned(format.lua.number_argument(argument)).to_le_bytes());
    if format.big {
        bytes[..size].reverse();
    }
    put(format.lua, &bytes[..size]);
}

fn pack(lua: Stack) -> c_int {
    let start = lua.state().text.get().len();
    let mut format = Format::new(lua);
    let (mut total, mut argument) = (0usize, 2);
    // As in Redis, an argument that is missing behind the last one is nil in the error.
    lua.push_nil();
    while let Some((option, mut size)) = format.option() {
        let padding = format.padding(total, option, size);
        total = total.wrapping_add(padding);
        crate::coding::grow(lua, padding);
        lua.state().text.get().extend(std::iter::repeat_n(0, padding));
        argument += 1;
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => put_integer(&format, argument - 1, size),
            b'f' => {
                let number = lua.number_argument(argument - 1) as f32;
                put(lua, &if format.big { number.to_be_bytes() } else { number.to_le_bytes() });
            }
            b'd' => {
                let number = lua.number_argument(argument - 1);
                put(lua, &if format.big { number.to_be_bytes() } else { number.to_le_bytes() });
            }
            b'c' | b's' => {
                let text = lua.bytes_argument(argument - 1);
                if size == 0 {
                    size = text.len();
                }
                let Some(text) = text.get(..size) else { lua.bad_argument(argument, c"string too short") };
                put(lua, text);
                if option == b's' {
                    put(lua, b"\0");
                    size += 1;
                }
            }
            _ => {
                argument -= 1;
                if option == b'x' { put(lua, b"\0") } else { format.control(option) }
            }
        }
        total = total.wrapping_add(size);
    }
    finish(lua, start);
    1
}

/// Reads an integer as Redis does, overflow of more than 8 bytes included.
fn integer(bytes: &[u8], big: bool, signed: bool) -> f64 {
    let fold = |all: u64, byte: &u8| all << 8 | u64::from(*byte);
    let mut number = if big { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) };
    if !signed {
        return number as f64;
    }
    let mask = u64::MAX.wrapping_shl((bytes.len() as u32 * 8).wrapping_sub(1));
    if number & mask != 0 {
        number |= mask;
    }
    number as i64 as f64
}

fn unpack(lua: Stack) -> c_int {
    let mut format = Format::new(lua);
    let data = lua.bytes_argument(2);
    let position = lua.integer_or(3, 1) as usize;
    if position == 0 {
        lua.bad_argument(3, c"offset must be 1 or greater");
    }
    let (mut at, mut values) = (position - 1, 0);
    lua.set_top(3);
    while let Some((option, mut size)) = format.option() {
        at = at.wrapping_add(format.padding(at, option, size));
        let Some(bytes) = at.checked_add(size).and_then(|end| data.get(at..end)) else { lua.bad_argument(2, c"data string too short") };
        if !lua.reserve(4) {
            lua.fail(format_args!("stack overflow (too many results)"))
        }
        values += 1;
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                lua.push_number(integer(bytes, format.big, option.is_ascii_lowercase()));
            }
            b'f' => {
                let bits = bytes.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
                lua.push_number(f64::from(f32::from_bits(if format.big { bits } else { bits.swap_bytes() })));
            }
            b'd' => {
                let bits = bytes.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
                lua.push_number(f64::from_bits(if format.big { bits } else { bits.swap_bytes() }));
            }
            b'c' if size == 0 => {
                values -= 1;
                if values == 0 || !lua.is_number(-1) {
                    lua.fail(format_args!("format 'c0' needs a previous size"))
                }
                size = unsigned(lua.number(-1)) as usize;
                lua.pop(1);
                match at.checked_add(size).and_then(|end| data.get(at..end)) {
                    Some(text) => lua.push_bytes(text),
                    None => lua.bad_argument(2, c"data string too short"),
                }
            }
            b'c' => lua.push_bytes(bytes),
            b's' => {
                let Some(end) = data[at..].iter().position(|byte| *byte == 0) else { lua.fail(format_args!("unfinished string in data")) };
                lua.push_bytes(&data[at..at + end]);
                size = end + 1;
            }
            _ => {
                values -= 1;
                if option != b'x' {
                    format.control(option);
                }
            }
        }
        at = at.wrapping_add(size);
    }
    // As in Redis, a position that was given as a negative number is one in the result, too.
    lua.push_number(at.wrapping_add(1) as i64 as f64);
    values + 1
}

fn size(lua: Stack) -> c_int {
    let mut format = Format::new(lua);
    let mut total = 0usize;
    while let Some((option, size)) = format.option() {
        total = total.wrapping_add(format.padding(total, option, size));
        match (option, size) {
            (b's', _) => lua.bad_argument(1, c"option 's' has no fixed size"),
            (b'c', 0) => lua.bad_argument(1, c"option 'c0' has no fixed size"),
            _ => {}
        }
        if !option.is_ascii_alphanumeric() {
            format.control(option);
        }
        total = total.wrapping_add(size);
    }
    lua.push_number(total as f64);
    1
}

/// Adds the functions to the table on top.
pub(crate) fn add_to(lua: Stack) {
    add(lua, &[(b"pack", native(pack)), (b"unpack", native(unpack)), (b"size", native(size))]);
}
