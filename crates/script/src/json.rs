//! The library `cjson`: JSON, with the settings and the errors' texts of the C library lua-cjson.

use crate::coding::{finish, put};
use crate::lua::{Kind, Stack, native};
use crate::number::{general, scan};
use crate::protected::protect;
use std::ffi::{CStr, c_int};

/// Deepest nesting that is encoded or decoded, whatever the settings say: both recurse on the stack of the process.
const DEPTH_MAX: i32 = 2000;

/// Settings of an instance of the library.
#[derive(Clone, Copy)]
struct Config {
    sparse_convert: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_depth: i32,
    decode_depth: i32,
    /// Treatment of infinity and NaN: 0 refuses them, 1 writes them, 2 writes null.
    encode_invalid: i32,
    decode_invalid: bool,
    keep_buffer: bool,
    precision: i32,
    array_metatable: bool,
}

const DEFAULT: Config = Config {
    sparse_convert: false,
    sparse_ratio: 2,
    sparse_safe: 10,
    encode_depth: 1000,
    decode_depth: 1000,
    encode_invalid: 0,
    decode_invalid: true,
    keep_buffer: true,
    precision: 14,
    array_metatable: false,
};

fn config<'a>(lua: Stack) -> &'a std::cell::Cell<Config> {
    lua.block(Stack::kept(1))
}

/// Checks that there are at most `count` arguments, and fills missing ones with nil.
fn arguments(lua: Stack, count: c_int) -> Config {
    if lua.top() > count {
        lua.bad_argument(count + 1, c"found too many arguments");
    }
    lua.set_top(count);
    config(lua).get()
}

/// Reads an integer setting if the argument is given, and pushes its value.
fn integer(lua: Stack, argument: c_int, value: &mut i32, least: i32, most: i32, range: &CStr) {
    if lua.kind(argument) != Kind::Nil {
        let given = lua.integer_argument(argument);
        match given as i32 {
            given if (least..=most).contains(&given) => *value = given,
            _ => lua.bad_argument(1, range),
        }
    }
    lua.push_number(f64::from(*value));
}

/// Reads a setting with named values, the first two of which are also false and true, and pushes its value.
fn choice(lua: Stack, argument: c_int, value: &mut i32, names: &[&[u8]]) {
    if lua.kind(argument) == Kind::Boolean {
        *value = i32::from(lua.boolean(argument));
    } else if lua.kind(argument) != Kind::Nil {
        let name = lua.bytes_argument(argument);
        match names.iter().position(|known| *known == name) {
            Some(position) => *value = position as i32,
            None => {
                let mut text = [0; 64];
                let mut rest = &mut text[..63];
                for part in [&b"invalid option '"[..], &name[..name.len().min(40)], b"'"] {
                    let _ = std::io::Write::write_all(&mut rest, part);
                }
                lua.bad_argument(argument, CStr::from_bytes_until_nul(&text).unwrap_or(c""))
            }
        }
    }
    if (0..=1).contains(value) { lua.push_boolean(*value == 1) } else { lua.push_bytes(names[*value as usize]) }
}

/// Reads a setting that is on or off, and pushes its value.
fn switch(lua: Stack, argument: c_int, value: &mut bool) {
    let mut number = i32::from(*value);
    choice(lua, argument, &mut number, &[b"off", b"on"]);
    *value = number == 1;
}

fn encode_sparse_array(lua: Stack) -> c_int {
    let mut settings = arguments(lua, 3);
    let range = c"expected integer between 0 and 2147483647";
    switch(lua, 1, &mut settings.sparse_convert);
    config(lua).set(settings);
    integer(lua, 2, &mut settings.sparse_ratio, 0, i32::MAX, range);
    config(lua).set(settings);
    integer(lua, 3, &mut settings.sparse_safe, 0, i32::MAX, range);
    config(lua).set(settings);
    3
}

/// A function that changes one setting.
fn setting(lua: Stack, change: fn(Stack, &mut Config)) -> c_int {
    let mut settings = arguments(lua, 1);
    change(lua, &mut settings);
    config(lua).set(settings);
    1
}

fn encode_max_depth(lua: Stack) -> c_int {
    setting(lua, |lua, to| integer(lua, 1, &mut to.encode_depth, 1, i32::MAX, c"expected integer between 1 and 2147483647"))
}

fn decode_max_depth(lua: Stack) -> c_int {
    setting(lua, |lua, to| integer(lua, 1, &mut to.decode_depth, 1, i32::MAX, c"expected integer between 1 and 2147483647"))
}

fn encode_number_precision(lua: Stack) -> c_int {
    setting(lua, |lua, to| integer(lua, 1, &mut to.precision, 1, 14, c"expected integer between 1 and 14"))
}

fn encode_invalid_numbers(lua: Stack) -> c_int {
    setting(lua, |lua, to| choice(lua, 1, &mut to.encode_invalid, &[b"off", b"on", b"null"]))
}

/// Raises the error of a value that JSON does not have.
fn refuse(lua: Stack, at: c_int, reason: &str) -> ! {
    let kind = lua.type_name(at);
    lua.fail(format_args!("Cannot serialise {kind}: {reason}"))
}

fn encode_text(lua: Stack, text: &[u8]) {
    put(lua, b"\"");
    let mut rest = text;
    while let Some(plain) = rest.iter().position(|byte| matches!(byte, 0..=31 | b'"' | b'\\' | b'/' | 127)) {
        put(lua, &rest[..plain]);
        let short = match rest[plain] {
            b'"' => b'"',
            b'\\' => b'\\',
            b'/' => b'/',
            8 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            12 => b'f',
            b'\r' => b'r',
            _ => 0,
        };
        if short == 0 {
            let digit = |n: u8| b"0123456789abcdef"[usize::from(n & 15)];
            put(lua, &[b'\\', b'u', b'0', b'0', digit(rest[plain] >> 4), digit(rest[plain])]);
        } else {
            put(lua, &[b'\\', short]);
        }
        rest = &rest[plain + 1..];
    }
    put(lua, rest);
    put(lua, b"\"");
}

fn encode_number(lua: Stack, settings: &Config, at: c_int) {
    let number = lua.number(at);
    match settings.encode_invalid {
        0 if !number.is_finite() => refuse(lua, at, "must not be NaN or Inf"),
        1 if number.is_nan() => put(lua, b"nan"),
        2 if !number.is_finite() => put(lua, b"null"),
        _ => put(lua, general(number, settings.precision as usize).bytes()),
    }
}

/// Number of items of the table on top if it is an array.
fn array_length(lua: Stack, settings: &Config) -> Option<c_int> {
    let (mut max, mut items) = (0i64, 0i64);
    lua.push_nil();
    while lua.next(-2) {
        let key = if lua.kind(-2) == Kind::Number { lua.number(-2) } else { 0.0 };
        lua.pop(1);
        if !(key >= 1.0 && key.floor() == key && key <= f64::from(i32::MAX)) {
            lua.pop(1);
            return None;
        }
        max = max.max(key as i64);
        items += 1;
    }
    let sparse = settings.sparse_ratio > 0 && max > items * i64::from(settings.sparse_ratio) && max > i64::from(settings.sparse_safe);
    if sparse {
        if !settings.sparse_convert {
            refuse(lua, -1, "excessively sparse array")
        }
        return None;
    }
    Some(max as c_int)
}

/// Whether the table on top is marked as an array.
fn is_marked(lua: Stack) -> bool {
    if !lua.metatable(-1) {
        return false;
    }
    let marked = lua.same(-1, Stack::kept(2));
    lua.pop(1);
    marked
}

fn encode_table(lua: Stack, settings: &Config, depth: i32) {
    if depth > settings.encode_depth.min(DEPTH_MAX) || !lua.reserve(6) {
        lua.fail(format_args!("Cannot serialise, excessive nesting ({depth})"))
    }
    let marked = is_marked(lua);
    let length = array_length(lua, settings).unwrap_or(if marked { lua.length(-1) as c_int } else { 0 });
    if length > 0 || marked {
        put(lua, b"[");
        for n in 1..=length {
            if n > 1 {
                put(lua, b",");
            }
            lua.raw_get_at(-1, n);
            encode_value(lua, settings, depth);
        }
        return put(lua, b"]");
    }
    put(lua, b"{");
    let mut first = true;
    lua.push_nil();
    while lua.next(-2) {
        if !first {
            put(lua, b",");
        }
        first = false;
        match lua.kind(-2) {
            Kind::Number => {
                put(lua, b"\"");
                encode_number(lua, settings, -2);
                put(lua, b"\":");
            }
            Kind::String => {
                encode_text(lua, lua.bytes(-2).unwrap_or(b""));
                put(lua, b":");
            }
            _ => refuse(lua, -2, "table key must be a number or string"),
        }
        encode_value(lua, settings, depth);
    }
    put(lua, b"}");
}

/// Encodes the value on top and removes it.
fn encode_value(lua: Stack, settings: &Config, depth: i32) {
    lua.state().step(lua);
    match lua.kind(-1) {
        Kind::String => encode_text(lua, lua.bytes(-1).unwrap_or(b"")),
        Kind::Number => encode_number(lua, settings, -1),
        Kind::Boolean => put(lua, if lua.boolean(-1) { b"true" } else { b"false" }),
        Kind::Table => encode_table(lua, settings, depth + 1),
        Kind::Nil => put(lua, b"null"),
        Kind::Light if lua.light(-1).is_null() => put(lua, b"null"),
        _ => refuse(lua, -1, "type not supported"),
    }
    lua.pop(1);
}

fn encode(lua: Stack) -> c_int {
    if lua.top() != 1 {
        lua.bad_argument(1, c"expected 1 argument");
    }
    let start = lua.state().text.get().len();
    encode_value(lua, &config(lua).get(), 0);
    finish(lua, start);
    1
}

/// Token of a text.
#[derive(Clone, Copy, PartialEq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// A string; its text is at the end of the text under construction.
    Text,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Damaged(&'static str),
}

impl Token {
    fn name(self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Text => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Damaged(why) => why,
        }
    }
}

/// A text that is decoded, up to its first zero byte or its end.
struct Parser<'a> {
    lua: Stack,
    data: &'a [u8],
    at: usize,
    /// Position of the last token.
    token_at: usize,
    depth: i32,
    settings: Config,
    /// Length that the text under construction had before the current string.
    start: usize,
}

impl Parser<'_> {
    fn byte(&self, at: usize) -> u8 {
        self.data.get(at).copied().unwrap_or(0)
    }

    fn rest(&self) -> &[u8] {
        self.data.get(self.at..).unwrap_or(b"")
    }

    fn token(&mut self) -> Token {
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.token_at = self.at;
        self.lua.state().step(self.lua);
        let one = match self.byte(self.at) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            0 => return Token::End,
            b'"' => return self.text(),
            b'-' | b'0'..=b'9' if !self.settings.decode_invalid && self.is_invalid() => return Token::Damaged("invalid number"),
            b'-' | b'0'..=b'9' => return self.number(),
            b'f' | b'i' | b'I' | b'n' | b'N' | b't' | b'+' => return self.word(),
            _ => return Token::Damaged("invalid token"),
        };
        self.at += 1;
        one
    }

    fn word(&mut self) -> Token {
        for (word, token) in [(&b"true"[..], Token::Boolean(true)), (b"false", Token::Boolean(false)), (b"null", Token::Null)] {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        if self.settings.decode_invalid && self.is_invalid() { self.number() } else { Token::Damaged("invalid token") }
    }

    /// Whether the next characters are a number in C and none in JSON.
    fn is_invalid(&self) -> bool {
        let rest = self.rest();
        if rest.first() == Some(&b'+') {
            return true;
        }
        let rest = rest.strip_prefix(b"-").unwrap_or(rest);
        match rest {
            [b'0', next, ..] => matches!(next, b'x' | b'X' | b'0'..=b'9'),
            [first, ..] if *first <= b'9' => false,
            _ => rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")),
        }
    }

    fn number(&mut self) -> Token {
        match scan(self.rest()) {
            Some((number, length)) => {
                self.at += length;
                Token::Number(number)
            }
            None => Token::Damaged("invalid number"),
        }
    }

    fn damaged(&mut self, why: &'static str) -> Token {
        self.token_at = self.at;
        Token::Damaged(why)
    }

    fn text(&mut self) -> Token {
        self.at += 1;
        let out = self.lua.state().text.get();
        out.truncate(self.start);
        loop {
            let plain = self.rest().iter().position(|byte| matches!(byte, b'"' | b'\\' | 0)).unwrap_or(self.rest().len());
            out.extend_from_slice(&self.rest()[..plain]);
            self.at += plain;
            match self.byte(self.at) {
                b'"' => {
                    self.at += 1;
                    return Token::Text;
                }
                0 => return self.damaged("unexpected end of string"),
                _ => {}
            }
            let meant = match self.byte(self.at + 1) {
                b'b' => 8,
                b't' => b'\t',
                b'n' => b'\n',
                b'f' => 12,
                b'r' => b'\r',
                byte @ (b'"' | b'\\' | b'/') => byte,
                b'u' => {
                    let Some((character, length)) = self.character() else { return self.damaged("invalid unicode escape code") };
                    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    self.at += length;
                    continue;
                }
                _ => return self.damaged("invalid escape code"),
            };
            out.push(meant);
            self.at += 2;
        }
    }

    /// Decodes an escape or a surrogate pair of them: the character in UTF-8, and the length of the escape.
    fn character(&self) -> Option<(char, usize)> {
        let unit = |at: usize| {
            let digits = self.data.get(at..at + 4)?;
            digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | (*digit as char).to_digit(16)?))
        };
        let first = unit(self.at + 2)?;
        if first & 0xf800 != 0xd800 {
            return char::from_u32(first).map(|character| (character, 6));
        }
        if first & 0x400 != 0 || self.data.get(self.at + 6..self.at + 8) != Some(b"\\u") {
            return None;
        }
        let second = unit(self.at + 8).filter(|second| second & 0xfc00 == 0xdc00)?;
        char::from_u32((((first & 0x3ff) << 10) | (second & 0x3ff)) + 0x10000).map(|character| (character, 12))
    }

    fn fail(&self, expected: &str, found: Token) -> ! {
        let (found, at) = (found.name(), self.token_at + 1);
        self.lua.fail(format_args!("Expected {expected} but found {found} at character {at}"))
    }

    fn push_text(&self) {
        self.lua.push_bytes(&self.lua.state().text.get()[self.start..]);
    }

    fn descend(&mut self) {
        self.depth += 1;
        if self.depth > self.settings.decode_depth.min(DEPTH_MAX) || !self.lua.reserve(6) {
            let (depth, at) = (self.depth, self.at);
            self.lua.fail(format_args!("Found too many nested data structures ({depth}) at character {at}"))
        }
    }

    fn value(&mut self, token: Token) {
        match token {
            Token::Text => self.push_text(),
            Token::Number(number) => self.lua.push_number(number),
            Token::Boolean(truth) => self.lua.push_boolean(truth),
            Token::Null => self.lua.push_light(std::ptr::null_mut()),
            Token::ObjectBegin => self.object(),
            Token::ArrayBegin => self.array(),
            other => self.fail("value", other),
        }
    }

    fn object(&mut self) {
        self.descend();
        self.lua.new_table(0, 0);
        let mut token = self.token();
        while token != Token::ObjectEnd {
            if token != Token::Text {
                self.fail("object key string", token)
            }
            self.push_text();
            match self.token() {
                Token::Colon => {}
                other => self.fail("colon", other),
            }
            let value = self.token();
            self.value(value);
            self.lua.raw_set(-3);
            match self.token() {
                Token::ObjectEnd => break,
                Token::Comma => {}
                other => self.fail("comma or object end", other),
            }
            token = self.token();
            if token == Token::ObjectEnd {
                self.fail("object key string", token)
            }
        }
        self.depth -= 1;
    }

    fn array(&mut self) {
        self.descend();
        self.lua.new_table(0, 0);
        if self.settings.array_metatable {
            self.lua.copy(Stack::kept(2));
            self.lua.set_metatable(-2);
        }
        let mut token = self.token();
        let mut n = 0;
        while token != Token::ArrayEnd || n > 0 {
            self.value(token);
            n += 1;
            self.lua.raw_set_at(-2, n);
            match self.token() {
                Token::ArrayEnd => break,
                Token::Comma => {}
                other => self.fail("comma or array end", other),
            }
            token = self.token();
        }
        self.depth -= 1;
    }
}

fn decode(lua: Stack) -> c_int {
    if lua.top() != 1 {
        lua.bad_argument(1, c"expected 1 argument");
    }
    let data = lua.bytes_argument(1);
    if data.len() >= 2 && (data[0] == 0 || data[1] == 0) {
        lua.fail(format_args!("JSON parser does not support UTF-16 or UTF-32"))
    }
    let start = lua.state().text.get().len();
    // A decoded string is no longer than the text.
    crate::coding::grow(lua, data.len());
    let mut parser = Parser { lua, data, at: 0, token_at: 0, depth: 0, settings: config(lua).get(), start };
    let token = parser.token();
    parser.value(token);
    match parser.token() {
        Token::End => {}
        other => parser.fail("the end", other),
    }
    lua.state().text.get().truncate(start);
    1
}

fn new(lua: Stack) -> c_int {
    lua.new_table(0, 16);
    lua.push_block(DEFAULT);
    add(lua);
    1
}

/// Pushes the library; returns the number of its settings in the registry.
pub(crate) fn push(lua: Stack) -> c_int {
    lua.new_table(0, 16);
    lua.push_block(DEFAULT);
    lua.copy(-1);
    let settings = lua.keep();
    add(lua);
    settings
}

/// Gives settings their default values.
pub(crate) fn reset(lua: Stack, settings: c_int) {
    lua.raw_get_at(crate::lua::REGISTRY, settings);
    lua.block::<Config>(-1).set(DEFAULT);
    lua.pop(1);
}

/// Adds the functions to the table below the settings on top, which are taken.
fn add(lua: Stack) {
    let functions: [(&[u8], crate::lua::Native); 11] = [
        (b"encode", native(encode)),
        (b"decode", native(decode)),
        (b"encode_sparse_array", native(encode_sparse_array)),
        (b"encode_max_depth", native(encode_max_depth)),
        (b"decode_max_depth", native(decode_max_depth)),
        (b"encode_number_precision", native(encode_number_precision)),
        (b"encode_keep_buffer", native(|lua: Stack| setting(lua, |lua, to| switch(lua, 1, &mut to.keep_buffer)))),
        (b"encode_invalid_numbers", native(encode_invalid_numbers)),
        (b"decode_invalid_numbers", native(|lua: Stack| setting(lua, |lua, to| switch(lua, 1, &mut to.decode_invalid)))),
        (b"decode_array_with_array_mt", native(|lua: Stack| setting(lua, |lua, to| switch(lua, 1, &mut to.array_metatable)))),
        (b"new", native(new)),
    ];
    // The metatable that marks arrays is the library's, not that of one instance.
    if lua.kind(Stack::kept(2)) == Kind::Table {
        lua.copy(Stack::kept(2));
    } else {
        lua.new_table(0, 0);
        protect(lua, 0);
    }
    for (name, function) in functions {
        lua.copy(-2);
        lua.copy(-2);
        lua.push_native(function, 2);
        lua.set_field(-4, name);
    }
    lua.set_field(-3, b"array_mt");
    lua.pop(1);
    lua.push_light(std::ptr::null_mut());
    lua.set_field(-2, b"null");
    for (name, text) in [(&b"_NAME"[..], &b"cjson"[..]), (b"_VERSION", b"2.1.0")] {
        lua.push_bytes(text);
        lua.set_field(-2, name);
    }
}
