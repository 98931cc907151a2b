//! Replies of commands as Lua values, and Lua values as replies, by Redis's rules.

use crate::host::Protocol;
use crate::lua::{Kind, Stack, table_of};
use crate::number::{cut, general, integer};
use std::ffi::c_int;

/// Deepest nesting of a command's reply.
const NESTED_MAX: u32 = 100;
/// Deepest nesting of a script's reply. In Redis the size of Lua's stack is the bound, some thousands.
const DEPTH_MAX: u32 = 1000;
/// Bytes of a script's reply after which no further value is written: a table that contains itself twice would have no end.
const REPLY_MAX: usize = 1 << 30;

/// Pushes an encoded reply. `None` if the bytes are not one, or nested too deeply; values may then be left on the stack.
pub(crate) fn push(lua: Stack, input: &mut &[u8], depth: u32) -> Option<()> {
    if depth > NESTED_MAX || !lua.reserve(6) {
        return None;
    }
    let (mark, line) = line(input)?;
    match mark {
        b':' => lua.push_number(number(line)? as f64),
        b'+' => table_of(lua, b"ok", line),
        b'-' => {
            push_error(lua, line);
            lua.push_boolean(true);
            lua.set_field(-2, b"ignore_error_stats_update");
        }
        b'$' | b'*' if line == b"-1" => lua.push_boolean(false),
        b'$' => lua.push_bytes(bulk(input, line)?),
        b'*' | b'>' => {
            let items = length(line)?;
            // Null is nil in RESP3: the table grows item by item, as in Redis, so that `#` and `unpack` stop where they do there.
            let has_nil = lua.state().protocol.get() == Protocol::Resp3;
            lua.new_table(if has_nil { 0 } else { items.min(input.len()) }, 0);
            for n in 0..items {
                push(lua, input, depth + 1)?;
                lua.raw_set_at(-2, c_int::try_from(n + 1).ok()?);
            }
        }
        b'%' | b'~' => {
            lua.new_table(0, 1);
            lua.push_bytes(if mark == b'%' { b"map" } else { b"set" });
            lua.new_table(0, 0);
            for _ in 0..length(line)? {
                push(lua, input, depth + 1)?;
                if mark == b'%' {
                    push(lua, input, depth + 1)?
                } else {
                    lua.push_boolean(true)
                }
                // Lua has no key nil.
                if lua.kind(-2) == Kind::Nil { lua.pop(2) } else { lua.raw_set(-3) }
            }
            lua.raw_set(-3);
        }
        b'_' => lua.push_nil(),
        b'#' => lua.push_boolean(line == b"t"),
        b',' => {
            lua.new_table(0, 1);
            lua.push_number(std::str::from_utf8(line).ok()?.parse().ok()?);
            lua.set_field(-2, b"double");
        }
        b'(' => table_of(lua, b"big_number", line),
        b'=' => {
            let (format, text) = bulk(input, line)?.split_at_checked(4)?;
            lua.new_table(0, 1);
            lua.push_bytes(b"verbatim_string");
            table_of(lua, b"string", text);
            lua.push_bytes(&format[..3]);
            lua.set_field(-2, b"format");
            lua.raw_set(-3);
        }
        b'|' => {
            for _ in 0..length(line)?.checked_mul(2)? {
                push(lua, input, depth + 1)?;
                lua.pop(1);
            }
            push(lua, input, depth + 1)?;
        }
        _ => return None,
    }
    Some(())
}

fn line<'a>(input: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let end = input.iter().position(|byte| *byte == b'\r')?;
    let (line, rest) = input.split_at(end);
    *input = rest.get(2..)?;
    line.split_first().map(|(mark, line)| (*mark, line))
}

fn number(line: &[u8]) -> Option<i64> {
    let (negative, digits) = if line.first() == Some(&b'-') { (true, &line[1..]) } else { (false, line) };
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0i64, |number, digit| {
        let digit = i64::from(digit.is_ascii_digit().then(|| digit - b'0')?);
        number.checked_mul(10)?.checked_add(if negative { -digit } else { digit })
    })
}

fn length(line: &[u8]) -> Option<usize> {
    usize::try_from(number(line)?).ok()
}

fn bulk<'a>(input: &mut &'a [u8], line: &[u8]) -> Option<&'a [u8]> {
    let (text, rest) = input.split_at_checked(length(line)?)?;
    *input = rest.get(2..)?;
    Some(text)
}

/// Text without the line breaks at its end.
fn without_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
    &text[..end]
}

/// Pushes the table of an error whose text begins with its code, as error replies do; `ERR` goes before a single word.
pub(crate) fn push_error(lua: Stack, text: &[u8]) {
    let text = without_end(text);
    if text.contains(&b' ') {
        return table_of(lua, b"err", text);
    }
    let buffer = lua.state().text.get();
    let start = buffer.len();
    buffer.extend_from_slice(b"ERR ");
    buffer.extend_from_slice(text);
    table_of(lua, b"err", &buffer[start..]);
    lua.state().text.get().truncate(start);
}

/// Destination and protocol of a script's reply.
pub(crate) struct Output<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    /// Protocol of the client.
    pub(crate) client: Protocol,
    /// Length of `out` at which writing ends.
    pub(crate) end: usize,
}

impl<'a> Output<'a> {
    /// Output that is appended to `out`.
    pub(crate) fn new(out: &'a mut Vec<u8>, client: Protocol) -> Output<'a> {
        let end = out.len().saturating_add(REPLY_MAX);
        Output { out, client, end }
    }

    fn three(&self) -> bool {
        self.client == Protocol::Resp3
    }

    fn line(&mut self, mark: u8, text: &[u8]) {
        self.out.push(mark);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    fn header(&mut self, mark: u8, length: usize) {
        self.line(mark, integer(i64::try_from(length).unwrap_or(i64::MAX)).bytes());
    }

    fn bulk(&mut self, text: &[u8]) {
        self.header(b'$', text.len());
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes a mark and a line of text.
    fn text(&mut self, mark: u8, text: &[u8]) {
        self.out.push(mark);
        self.one_line(text);
    }

    /// Writes text with blanks instead of ends of lines, and the end of the line.
    fn one_line(&mut self, text: &[u8]) {
        self.out.extend(text.iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte }));
        self.out.extend_from_slice(b"\r\n");
    }

    fn null(&mut self) {
        self.out.extend_from_slice(if self.three() { b"_\r\n" } else { b"$-1\r\n" });
    }

    fn double(&mut self, number: f64) {
        let text = general(number, 17);
        if self.three() { self.line(b',', text.bytes()) } else { self.bulk(text.bytes()) }
    }

    fn verbatim(&mut self, text: &[u8], format: &[u8]) {
        if !self.three() {
            return self.bulk(text);
        }
        self.header(b'=', text.len() + 4);
        self.out.extend((0..3).map(|n| format.get(n).copied().unwrap_or(b' ')));
        self.out.push(b':');
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Text up to a zero byte, as C reads it.
fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or(text)
}

/// Writes the value on top as a reply and removes it; false if the reply became too large.
pub(crate) fn write(lua: Stack, output: &mut Output, depth: u32) -> bool {
    lua.state().step(lua);
    if output.out.len() >= output.end {
        return false;
    }
    let done = if depth > DEPTH_MAX || !lua.reserve(6) {
        output.line(b'-', b"ERR reached lua stack limit");
        true
    } else {
        match lua.kind(-1) {
            Kind::String => {
                output.bulk(lua.bytes(-1).unwrap_or(b""));
                true
            }
            Kind::Number => {
                output.line(b':', integer(cut(lua.number(-1))).bytes());
                true
            }
            Kind::Boolean => {
                write_boolean(lua, output);
                true
            }
            Kind::Table => write_table(lua, output, depth),
            _ => {
                output.null();
                true
            }
        }
    };
    lua.pop(1);
    done
}

fn write_boolean(lua: Stack, output: &mut Output) {
    let truth = lua.boolean(-1);
    match (lua.state().protocol.get(), output.client) {
        (Protocol::Resp2, _) if !truth => output.null(),
        (Protocol::Resp3, Protocol::Resp3) => output.line(b'#', if truth { b"t" } else { b"f" }),
        _ => output.line(b':', if truth { b"1" } else { b"0" }),
    }
}

/// Whether the table on top has a field of a kind; if so, pushes the field.
fn has(lua: Stack, name: &[u8], kind: Kind) -> bool {
    lua.field(-1, name);
    let found = lua.kind(-1) == kind;
    if !found {
        lua.pop(1);
    }
    found
}

fn write_table(lua: Stack, output: &mut Output, depth: u32) -> bool {
    if has(lua, b"err", Kind::String) {
        let message = without_end(until_zero(lua.bytes(-1).unwrap_or(b"")));
        write_error(lua, output, message);
    } else if has(lua, b"ok", Kind::String) {
        output.text(b'+', until_zero(lua.bytes(-1).unwrap_or(b"")));
    } else if has(lua, b"double", Kind::Number) {
        output.double(lua.number(-1));
    } else if has(lua, b"big_number", Kind::String) {
        let text = lua.bytes(-1).unwrap_or(b"");
        if output.three() {
            output.text(b'(', text);
        } else {
            output.header(b'$', text.len());
            output.one_line(text);
        }
    } else if has(lua, b"verbatim_string", Kind::Table) {
        if !write_verbatim(lua, output) {
            lua.pop(1);
            return write_others(lua, output, depth);
        }
    } else {
        return write_others(lua, output, depth);
    }
    lua.pop(1);
    true
}

/// Writes an error reply, and has the host count the error unless a command has done so. The error's table is below the top.
fn write_error(lua: Stack, output: &mut Output, message: &[u8]) {
    output.text(b'-', message);
    lua.field(-2, b"ignore_error_stats_update");
    let counted = lua.boolean(-1);
    lua.pop(1);
    if let (false, Some(host)) = (counted, lua.state().host()) {
        host.count_error(message);
    }
}

/// Writes the table on top as a verbatim string if it has the fields of one; returns whether it has.
fn write_verbatim(lua: Stack, output: &mut Output) -> bool {
    lua.field(-1, b"format");
    lua.field(-2, b"string");
    let found = lua.kind(-1) == Kind::String && lua.kind(-2) == Kind::String;
    if found {
        output.verbatim(lua.bytes(-1).unwrap_or(b""), lua.bytes(-2).unwrap_or(b""));
    }
    lua.pop(2);
    found
}

/// Writes a map, a set or an array.
fn write_others(lua: Stack, output: &mut Output, depth: u32) -> bool {
    let map = has(lua, b"map", Kind::Table);
    if map || has(lua, b"set", Kind::Table) {
        let mut count = 0usize;
        lua.push_nil();
        while lua.next(-2) {
            lua.pop(1);
            count += 1;
        }
        match (output.three(), map) {
            (true, true) => output.header(b'%', count),
            (true, false) => output.header(b'~', count),
            (false, true) => output.header(b'*', 2 * count),
            (false, false) => output.header(b'*', count),
        }
        lua.push_nil();
        while lua.next(-2) {
            lua.copy(-2);
            let key = write(lua, output, depth + 1);
            let value = if map && key { write(lua, output, depth + 1) } else { pop(lua, key) };
            if !value {
                return false;
            }
        }
        lua.pop(1);
        return true;
    }
    let mut count: c_int = 0;
    loop {
        lua.raw_get_at(-1, count + 1);
        let end = lua.kind(-1) == Kind::Nil;
        lua.pop(1);
        if end || count == c_int::MAX - 1 {
            break;
        }
        count += 1;
    }
    output.header(b'*', count as usize);
    (1..=count).all(|n| {
        lua.raw_get_at(-1, n);
        write(lua, output, depth + 1)
    })
}

fn pop(lua: Stack, done: bool) -> bool {
    lua.pop(1);
    done
}
