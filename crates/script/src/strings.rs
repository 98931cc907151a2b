//! Functions of the library `string` that could run for long without an instruction of Lua: their loops count steps.

use crate::coding::{finish, grow, put};
use crate::lua::{Kind, Native, Stack, native};
use crate::pattern::Match;
use crate::redis::add;
use std::ffi::c_int;

fn rep(lua: Stack) -> c_int {
    let text = lua.bytes_argument(1);
    let count = usize::try_from(lua.integer_argument(2) as i32).unwrap_or(0);
    let total = text.len().saturating_mul(count);
    grow(lua, total);
    let out = lua.state().text.get();
    let start = out.len();
    if total > 0 {
        out.reserve(total);
        out.extend_from_slice(text);
        while out.len() - start < total {
            let more = (out.len() - start).min(total - (out.len() - start));
            out.extend_from_within(start..start + more);
        }
    }
    finish(lua, start);
    1
}

/// Position of the first occurrence of a text from `start` on.
fn plain(lua: Stack, text: &[u8], wanted: &[u8], start: usize) -> Option<usize> {
    let Some((first, rest)) = wanted.split_first() else { return Some(start) };
    let mut at = start;
    loop {
        let left = text.get(at..)?;
        let found = left.iter().position(|byte| byte == first);
        lua.state().touch(lua, found.unwrap_or(left.len()));
        at += found?;
        let behind = text[at + 1..].iter().zip(rest);
        let same = behind.take_while(|(a, b)| a == b).count();
        if same == rest.len() {
            return Some(at);
        }
        (0..=same / 64).for_each(|_| lua.state().step(lua));
        at += 1;
    }
}

fn find_or_match(lua: Stack, find: bool) -> c_int {
    let (text, pattern) = (lua.bytes_argument(1), lua.bytes_argument(2));
    let start = lua.integer_or(3, 1);
    let start = if start < 0 { start.saturating_add(text.len() as i64 + 1) } else { start };
    let mut at = usize::try_from(start.saturating_sub(1)).unwrap_or(0).min(text.len());
    let end = pattern.iter().position(|byte| *byte == 0).unwrap_or(pattern.len());
    let special = pattern[..end].iter().any(|byte| b"^$*+?.([%-".contains(byte));
    if find && (lua.boolean(4) || !special) {
        return match plain(lua, text, pattern, at) {
            Some(found) => {
                lua.push_number(found as f64 + 1.0);
                lua.push_number((found + pattern.len()) as f64);
                2
            }
            None => {
                lua.push_nil();
                1
            }
        };
    }
    let anchored = pattern.first() == Some(&b'^');
    let mut attempt = Match::new(lua, text, pattern.strip_prefix(b"^").unwrap_or(pattern));
    loop {
        lua.state().step(lua);
        if let Some(end) = attempt.at(at) {
            if !find {
                return attempt.push_all(true, at, end);
            }
            lua.push_number(at as f64 + 1.0);
            lua.push_number(end as f64);
            return 2 + attempt.push_all(false, at, end);
        }
        if at >= text.len() || anchored {
            lua.push_nil();
            return 1;
        }
        at += 1;
    }
}

fn next_match(lua: Stack) -> c_int {
    let text = lua.bytes(Stack::kept(1)).unwrap_or(b"");
    let pattern = lua.bytes(Stack::kept(2)).unwrap_or(b"");
    let mut attempt = Match::new(lua, text, pattern);
    for at in lua.number(Stack::kept(3)) as usize..=text.len() {
        lua.state().step(lua);
        if let Some(end) = attempt.at(at) {
            lua.push_number(if end == at { end + 1 } else { end } as f64);
            lua.replace(Stack::kept(3));
            return attempt.push_all(true, at, end);
        }
    }
    0
}

fn gmatch(lua: Stack) -> c_int {
    lua.bytes_argument(1);
    lua.bytes_argument(2);
    lua.set_top(2);
    lua.push_number(0.0);
    lua.push_native(native(next_match), 3);
    1
}

/// Appends the replacement of a match.
fn replace(lua: Stack, attempt: &Match, text: &[u8], at: usize, end: usize) {
    match lua.kind(3) {
        Kind::Function => {
            let length = lua.state().text.get().len();
            lua.copy(3);
            let count = attempt.push_all(true, at, end);
            lua.call(count, 1);
            lua.state().text.get().truncate(length);
        }
        Kind::Table => {
            let length = lua.state().text.get().len();
            attempt.push(0, at, end);
            lua.get(3);
            lua.state().text.get().truncate(length);
        }
        _ => return replace_by_text(lua, attempt, text, at, end),
    }
    if !lua.boolean(-1) {
        put(lua, &text[at..end]);
    } else if let Some(new) = lua.bytes(-1) {
        put(lua, new);
    } else {
        let kind = lua.type_name(-1);
        lua.fail(format_args!("invalid replacement value (a {kind})"))
    }
    lua.pop(1);
}

fn replace_by_text(lua: Stack, attempt: &Match, text: &[u8], at: usize, end: usize) {
    let mut rest = lua.bytes(3).unwrap_or(b"");
    while let Some(percent) = rest.iter().position(|byte| *byte == b'%') {
        put(lua, &rest[..percent]);
        match rest.get(percent + 1).copied().unwrap_or(0) {
            b'0' => put(lua, &text[at..end]),
            digit @ b'1'..=b'9' => {
                attempt.push(usize::from(digit - b'1'), at, end);
                put(lua, lua.bytes(-1).unwrap_or(b""));
                lua.pop(1);
            }
            other => put(lua, &[other]),
        }
        rest = rest.get(percent + 2..).unwrap_or(b"");
    }
    put(lua, rest);
}

fn gsub(lua: Stack) -> c_int {
    let (text, pattern) = (lua.bytes_argument(1), lua.bytes_argument(2));
    if !matches!(lua.kind(3), Kind::Number | Kind::String | Kind::Function | Kind::Table) {
        lua.bad_argument(3, c"string/function/table expected");
    }
    let most = lua.integer_or(4, text.len() as i64 + 1) as i32;
    lua.set_top(3);
    let anchored = pattern.first() == Some(&b'^');
    let mut attempt = Match::new(lua, text, pattern.strip_prefix(b"^").unwrap_or(pattern));
    let start = lua.state().text.get().len();
    let (mut at, mut count) = (0, 0);
    while count < most {
        lua.state().step(lua);
        let found = attempt.at(at);
        if let Some(end) = found {
            count += 1;
            replace(lua, &attempt, text, at, end);
        }
        match found {
            Some(end) if end > at => at = end,
            _ if at < text.len() => {
                put(lua, &text[at..=at]);
                at += 1;
            }
            _ => break,
        }
        if anchored {
            break;
        }
    }
    put(lua, &text[at..]);
    finish(lua, start);
    lua.push_number(f64::from(count));
    2
}

/// Replaces functions in the table on top.
pub(crate) fn add_to(lua: Stack) {
    let functions: [(&[u8], Native); 6] = [
        (b"rep", native(rep)),
        (b"find", native(|lua: Stack| find_or_match(lua, true))),
        (b"match", native(|lua: Stack| find_or_match(lua, false))),
        (b"gmatch", native(gmatch)),
        (b"gfind", native(gmatch)),
        (b"gsub", native(gsub)),
    ];
    add(lua, &functions);
}
