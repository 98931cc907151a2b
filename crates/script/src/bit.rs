//! The library `bit`: operations on 32 bits, with numbers beyond them taken modulo 2^32.

use crate::lua::{Kind, Stack, native};
use crate::redis::add;
use std::ffi::c_int;

/// Argument as 32 bits, rounded to the nearest integer, ties to even.
fn bits(lua: Stack, argument: c_int) -> u32 {
    // The low half of the mantissa of the sum is the number modulo 2^32, as in the C library LuaBitOp.
    (lua.number_argument(argument) + 6_755_399_441_055_744.0).to_bits() as u32
}

fn result(lua: Stack, bits: u32) -> c_int {
    lua.push_number(f64::from(bits as i32));
    1
}

fn fold(lua: Stack, with: fn(u32, u32) -> u32) -> c_int {
    let first = bits(lua, 1);
    let all = (2..=lua.top()).fold(first, |all, at| with(all, bits(lua, at)));
    result(lua, all)
}

fn shift(lua: Stack, with: fn(u32, u32) -> u32) -> c_int {
    let (number, by) = (bits(lua, 1), bits(lua, 2) & 31);
    result(lua, with(number, by))
}

fn tohex(lua: Stack) -> c_int {
    let number = bits(lua, 1);
    let digits = if lua.kind(2) == Kind::None { 8 } else { bits(lua, 2) as i32 };
    let alphabet = if digits < 0 { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let count = digits.unsigned_abs().min(8) as usize;
    let mut text = [0; 8];
    for (n, digit) in text[..count].iter_mut().rev().enumerate() {
        *digit = alphabet[(number >> (4 * n)) as usize & 15];
    }
    lua.push_bytes(&text[..count]);
    1
}

/// Adds the functions to the table on top.
pub(crate) fn add_to(lua: Stack) {
    add(
        lua,
        &[
            (b"tobit", native(|lua: Stack| result(lua, bits(lua, 1)))),
            (b"bnot", native(|lua: Stack| result(lua, !bits(lua, 1)))),
            (b"band", native(|lua: Stack| fold(lua, |a, b| a & b))),
            (b"bor", native(|lua: Stack| fold(lua, |a, b| a | b))),
            (b"bxor", native(|lua: Stack| fold(lua, |a, b| a ^ b))),
            (b"lshift", native(|lua: Stack| shift(lua, |number, by| number << by))),
            (b"rshift", native(|lua: Stack| shift(lua, |number, by| number >> by))),
            (b"arshift", native(|lua: Stack| shift(lua, |number, by| (number as i32 >> by) as u32))),
            (b"rol", native(|lua: Stack| shift(lua, u32::rotate_left))),
            (b"ror", native(|lua: Stack| shift(lua, u32::rotate_right))),
            (b"bswap", native(|lua: Stack| result(lua, bits(lua, 1).swap_bytes()))),
            (b"tohex", native(tohex)),
        ],
    );
}
