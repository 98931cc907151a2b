//! The library `cmsgpack`: MessagePack.

use crate::coding::{finish, put};
use crate::lua::{Kind, Stack, native};
use crate::redis::add;
use std::ffi::c_int;

/// Deepest nesting of tables that is encoded; deeper tables become nil.
const ENCODED_MAX: u32 = 16;
/// Deepest nesting that is decoded. Redis is bounded by the size of Lua's stack instead.
const DECODED_MAX: u32 = 1000;

fn put_with(lua: Stack, mark: u8, bytes: &[u8]) {
    put(lua, &[mark]);
    put(lua, bytes);
}

/// Writes the length of a string, an array or a map in the shortest of its forms.
fn put_length(lua: Stack, length: usize, short: (u8, usize), two: u8, four: u8) {
    if length <= short.1 {
        put(lua, &[short.0 | length as u8]);
    } else if let Ok(length) = u16::try_from(length) {
        put_with(lua, two, &length.to_be_bytes());
    } else {
        put_with(lua, four, &(length as u32).to_be_bytes());
    }
}

fn put_bytes(lua: Stack, bytes: &[u8]) {
    match bytes.len() {
        length @ 32..=255 => put(lua, &[0xd9, length as u8]),
        length => put_length(lua, length, (0xa0, 31), 0xda, 0xdb),
    }
    put(lua, bytes);
}

fn put_integer(lua: Stack, n: i64) {
    match n {
        -32..=127 => put(lua, &[n as u8]),
        128..=0xff => put(lua, &[0xcc, n as u8]),
        0x100..=0xffff => put_with(lua, 0xcd, &(n as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => put_with(lua, 0xce, &(n as u32).to_be_bytes()),
        0x1_0000_0000.. => put_with(lua, 0xcf, &n.to_be_bytes()),
        -0x80..=-33 => put(lua, &[0xd0, n as u8]),
        -0x8000..=-0x81 => put_with(lua, 0xd1, &(n as i16).to_be_bytes()),
        -0x8000_0000..=-0x8001 => put_with(lua, 0xd2, &(n as i32).to_be_bytes()),
        _ => put_with(lua, 0xd3, &n.to_be_bytes()),
    }
}

fn put_number(lua: Stack, number: f64) {
    let whole = crate::number::cut(number);
    if number.is_finite() && whole as f64 == number {
        put_integer(lua, whole);
    } else if f64::from(number as f32) == number {
        put_with(lua, 0xca, &(number as f32).to_be_bytes());
    } else {
        put_with(lua, 0xcb, &number.to_be_bytes());
    }
}

/// Whether the keys of the table on top are the numbers from 1 to some n, and the number of keys.
fn is_array(lua: Stack) -> (bool, usize) {
    let (mut array, mut max, mut count) = (true, 0.0, 0usize);
    lua.push_nil();
    while lua.next(-2) {
        lua.pop(1);
        count += 1;
        let number = if lua.kind(-1) == Kind::Number { lua.number(-1) } else { 0.0 };
        array &= number > 0.0 && f64::from(number as i32) == number;
        max = number.max(max);
    }
    (array && max == count as f64, count)
}

/// Encodes the value on top and removes it.
fn encode(lua: Stack, level: u32) {
    lua.state().step(lua);
    match lua.kind(-1) {
        Kind::String => put_bytes(lua, lua.bytes(-1).unwrap_or(b"")),
        Kind::Boolean => put(lua, &[0xc2 | u8::from(lua.boolean(-1))]),
        Kind::Number => put_number(lua, lua.number(-1)),
        Kind::Table if level < ENCODED_MAX => {
            if !lua.reserve(6) {
                lua.fail(format_args!("stack overflow (in function mp_encode_lua_table_as_map)"))
            }
            let (array, count) = is_array(lua);
            if array {
                put_length(lua, count, (0x90, 15), 0xdc, 0xdd);
                for n in 1..=count {
                    lua.raw_get_at(-1, n as c_int);
                    encode(lua, level + 1);
                }
            } else {
                put_length(lua, count, (0x80, 15), 0xde, 0xdf);
                lua.push_nil();
                while lua.next(-2) {
                    lua.copy(-2);
                    encode(lua, level + 1);
                    encode(lua, level + 1);
                }
            }
        }
        _ => put(lua, &[0xc0]),
    }
    lua.pop(1);
}

fn pack(lua: Stack) -> c_int {
    let arguments = lua.top();
    if arguments == 0 {
        lua.bad_argument(0, c"MessagePack pack needs input.");
    }
    let start = lua.state().text.get().len();
    if !lua.reserve(4) {
        lua.bad_argument(0, c"Too many arguments for MessagePack pack.");
    }
    for argument in 1..=arguments {
        lua.copy(argument);
        encode(lua, 0);
    }
    finish(lua, start);
    1
}

/// Why bytes cannot be decoded.
enum Damage {
    Short,
    Unknown,
}

/// Takes bytes from the front.
fn take<'a>(input: &mut &'a [u8], count: usize) -> Result<&'a [u8], Damage> {
    let (taken, rest) = input.split_at_checked(count).ok_or(Damage::Short)?;
    *input = rest;
    Ok(taken)
}

/// Takes a big-endian number from the front.
fn number(input: &mut &[u8], bytes: usize) -> Result<u64, Damage> {
    Ok(take(input, bytes)?.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)))
}

fn push_text(lua: Stack, input: &mut &[u8], length: u64) -> Result<(), Damage> {
    lua.push_bytes(take(input, length as usize)?);
    Ok(())
}

/// Decodes a value and pushes it.
fn decode(lua: Stack, input: &mut &[u8], depth: u32) -> Result<(), Damage> {
    lua.state().step(lua);
    if depth > DECODED_MAX || !lua.reserve(4) {
        lua.fail(format_args!("stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)"))
    }
    let mark = number(input, 1)? as u8;
    match mark {
        0x00..=0x7f => lua.push_number(f64::from(mark)),
        0xe0..=0xff => lua.push_number(f64::from(mark as i8)),
        0xcc => lua.push_number(number(input, 1)? as f64),
        0xcd => lua.push_number(number(input, 2)? as f64),
        0xce => lua.push_number(number(input, 4)? as f64),
        0xd0 => lua.push_number(f64::from(number(input, 1)? as i8)),
        0xd1 => lua.push_number(f64::from(number(input, 2)? as i16)),
        0xd2 => lua.push_number(f64::from(number(input, 4)? as i32)),
        // Numbers from 2^63 on become negative, as in Redis.
        0xcf | 0xd3 => lua.push_number(number(input, 8)? as i64 as f64),
        0xca => lua.push_number(f64::from(f32::from_bits(number(input, 4)? as u32))),
        0xcb => lua.push_number(f64::from_bits(number(input, 8)?)),
        0xc0 => lua.push_nil(),
        0xc2 | 0xc3 => lua.push_boolean(mark == 0xc3),
        0xa0..=0xbf => push_text(lua, input, u64::from(mark & 0x1f))?,
        0xd9..=0xdb => {
            let length = number(input, 1 << (mark - 0xd9))?;
            push_text(lua, input, length)?;
        }
        0x90..=0x9f => array(lua, input, u64::from(mark & 15), depth)?,
        0xdc | 0xdd => {
            let length = number(input, if mark == 0xdc { 2 } else { 4 })?;
            array(lua, input, length, depth)?;
        }
        0x80..=0x8f => map(lua, input, u64::from(mark & 15), depth)?,
        0xde | 0xdf => {
            let length = number(input, if mark == 0xde { 2 } else { 4 })?;
            map(lua, input, length, depth)?;
        }
        _ => return Err(Damage::Unknown),
    }
    Ok(())
}

fn array(lua: Stack, input: &mut &[u8], length: u64, depth: u32) -> Result<(), Damage> {
    // The table grows item by item, as in Redis, so that `#` has the value of Redis if items are nil.
    lua.new_table(0, 0);
    for n in 1..=length {
        decode(lua, input, depth + 1)?;
        lua.raw_set_at(-2, n as c_int);
    }
    Ok(())
}

fn map(lua: Stack, input: &mut &[u8], length: u64, depth: u32) -> Result<(), Damage> {
    // The table grows step by step, as in Redis, so that `pairs` has the order of Redis.
    lua.new_table(0, 0);
    for _ in 0..length {
        decode(lua, input, depth + 1)?;
        decode(lua, input, depth + 1)?;
        lua.raw_set(-3);
    }
    Ok(())
}

fn unpack_some(lua: Stack, limit: i64, offset: i64) -> c_int {
    let data = lua.bytes_argument(1);
    lua.set_top(1);
    let all = limit == 0 && offset == 0;
    if offset < 0 || limit < 0 {
        let (offset, length) = (offset as i32, data.len() as i32);
        lua.fail(format_args!("Invalid request to unpack with offset of {offset} and limit of {length}."))
    }
    let Some(mut input) = usize::try_from(offset).ok().and_then(|offset| data.get(offset..)) else {
        let (offset, length) = (offset as i32, data.len() as i32);
        lua.fail(format_args!("Start offset {offset} greater than input length {length}."))
    };
    let limit = if all { i64::from(i32::MAX) } else { limit };
    let mut count = 0;
    while !input.is_empty() && i64::from(count) < limit {
        match decode(lua, &mut input, 0) {
            Ok(()) => count += 1,
            Err(Damage::Short) => lua.fail(format_args!("Missing bytes in input.")),
            Err(Damage::Unknown) => lua.fail(format_args!("Bad data format in input.")),
        }
    }
    if !all {
        lua.push_number(if input.is_empty() { -1.0 } else { (data.len() - input.len()) as f64 });
        lua.insert(2);
        count += 1;
    }
    count
}

fn unpack_one(lua: Stack) -> c_int {
    let offset = lua.integer_or(2, 0);
    unpack_some(lua, 1, offset)
}

fn unpack_limit(lua: Stack) -> c_int {
    let (limit, offset) = (lua.integer_argument(2), lua.integer_or(3, 0));
    unpack_some(lua, limit, offset)
}

/// Adds the functions to the table on top.
pub(crate) fn add_to(lua: Stack) {
    add(
        lua,
        &[
            (b"pack", native(pack)),
            (b"unpack", native(|lua: Stack| unpack_some(lua, 0, 0))),
            (b"unpack_one", native(unpack_one)),
            (b"unpack_limit", native(unpack_limit)),
        ],
    );
    let texts: [(&[u8], &[u8]); 4] = [
        (b"_NAME", b"cmsgpack"),
        (b"_VERSION", b"lua-cmsgpack 0.4.0"),
        (b"_COPYRIGHT", b"Copyright (C) 2012, Salvatore Sanfilippo"),
        (b"_DESCRIPTION", b"MessagePack C implementation for Lua"),
    ];
    for (name, text) in texts {
        lua.push_bytes(text);
        lua.set_field(-2, name);
    }
}
