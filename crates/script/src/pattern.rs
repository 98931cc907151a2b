//! Lua's patterns. Each compared byte counts as a step, so that the host can end a match that would take forever. Recursion has a bound.

use crate::lua::Stack;
use std::ffi::c_int;

/// Captures of a pattern, at most.
const CAPTURES_MAX: usize = 32;
/// Recursion of a match, at most.
const DEPTH_MAX: u32 = 1000;

/// Length of a capture, or why it has none: it is still open, or captures a position.
#[derive(Clone, Copy, PartialEq)]
enum Span {
    Open,
    Position,
    Length(usize),
}

/// A match of a pattern in a text.
pub(crate) struct Match<'a> {
    lua: Stack,
    text: &'a [u8],
    pattern: &'a [u8],
    captures: [(usize, Span); CAPTURES_MAX],
    level: usize,
    depth: u32,
}

/// Whether a byte is of the class of a letter behind `%`.
fn in_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 11,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is != class.is_ascii_uppercase()
}

impl<'a> Match<'a> {
    /// Prepares a match. The pattern ends at a zero byte.
    pub(crate) fn new(lua: Stack, text: &'a [u8], pattern: &'a [u8]) -> Match<'a> {
        let end = pattern.iter().position(|byte| *byte == 0).unwrap_or(pattern.len());
        Match { lua, text, pattern: &pattern[..end], captures: [(0, Span::Open); CAPTURES_MAX], level: 0, depth: 0 }
    }

    /// Matches at a position; returns the end of the match.
    pub(crate) fn at(&mut self, start: usize) -> Option<usize> {
        (self.level, self.depth) = (0, 0);
        self.run(start, 0)
    }

    fn pattern_at(&self, p: usize) -> u8 {
        self.pattern.get(p).copied().unwrap_or(0)
    }

    fn run(&mut self, mut s: usize, mut p: usize) -> Option<usize> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.lua.fail(format_args!("pattern too complex"))
        }
        let end = loop {
            match (self.pattern_at(p), self.pattern_at(p + 1)) {
                (0, _) => break Some(s),
                (b'(', b')') => break self.open(s, p + 2, Span::Position),
                (b'(', _) => break self.open(s, p + 1, Span::Open),
                (b')', _) => break self.close(s, p + 1),
                (b'$', 0) => break (s == self.text.len()).then_some(s),
                (b'%', b'b') => match self.balanced(s, p + 2) {
                    Some(end) => (s, p) = (end, p + 4),
                    None => break None,
                },
                (b'%', b'f') => match self.frontier(s, p + 2) {
                    Some(end) => p = end,
                    None => break None,
                },
                (b'%', digit @ b'0'..=b'9') => match self.repeated(s, digit) {
                    Some(end) => (s, p) = (end, p + 2),
                    None => break None,
                },
                _ => {
                    let end = self.class_end(p);
                    let matches = self.single(s, p, end);
                    match self.pattern_at(end) {
                        b'?' => {
                            if matches && let Some(found) = self.run(s + 1, end + 1) {
                                break Some(found);
                            }
                            p = end + 1;
                        }
                        b'*' => break self.most(s, p, end),
                        b'+' => break if matches { self.most(s + 1, p, end) } else { None },
                        b'-' => break self.least(s, p, end),
                        _ if !matches => break None,
                        _ => (s, p) = (s + 1, end),
                    }
                }
            }
        };
        self.depth -= 1;
        end
    }

    fn class_end(&self, p: usize) -> usize {
        let mut at = p + 1;
        match self.pattern[p] {
            b'%' => {
                if at >= self.pattern.len() {
                    self.lua.fail(format_args!("malformed pattern (ends with '%')"))
                }
                at + 1
            }
            b'[' => {
                if self.pattern_at(at) == b'^' {
                    at += 1;
                }
                loop {
                    if at >= self.pattern.len() {
                        self.lua.fail(format_args!("malformed pattern (missing ']')"))
                    }
                    at += 1;
                    if self.pattern[at - 1] == b'%' && at < self.pattern.len() {
                        at += 1;
                    }
                    if self.pattern_at(at) == b']' {
                        return at + 1;
                    }
                }
            }
            _ => at,
        }
    }

    /// Whether a byte is in the set from `p` to its closing bracket.
    fn in_set(&self, byte: u8, mut p: usize, bracket: usize) -> bool {
        let mut sign = true;
        if self.pattern_at(p + 1) == b'^' {
            (sign, p) = (false, p + 1);
        }
        p += 1;
        while p < bracket {
            let first = self.pattern_at(p);
            if first == b'%' {
                p += 1;
                if in_class(byte, self.pattern_at(p)) {
                    return sign;
                }
            } else if self.pattern_at(p + 1) == b'-' && p + 2 < bracket {
                p += 2;
                if (first..=self.pattern_at(p)).contains(&byte) {
                    return sign;
                }
            } else if first == byte {
                return sign;
            }
            p += 1;
        }
        !sign
    }

    fn single(&self, s: usize, p: usize, end: usize) -> bool {
        self.lua.state().step(self.lua);
        let Some(byte) = self.text.get(s).copied() else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern_at(p + 1)),
            b'[' => self.in_set(byte, p, end - 1),
            literal => literal == byte,
        }
    }

    fn balanced(&self, s: usize, p: usize) -> Option<usize> {
        let (open, close) = (self.pattern_at(p), self.pattern_at(p + 1));
        if open == 0 || close == 0 {
            self.lua.fail(format_args!("unbalanced pattern"))
        }
        if self.text.get(s) != Some(&open) {
            return None;
        }
        let mut count = 1;
        for (n, byte) in self.text.iter().enumerate().skip(s + 1) {
            self.lua.state().step(self.lua);
            if *byte == close {
                count -= 1;
                if count == 0 {
                    return Some(n + 1);
                }
            } else if *byte == open {
                count += 1;
            }
        }
        None
    }

    fn frontier(&self, s: usize, p: usize) -> Option<usize> {
        if self.pattern_at(p) != b'[' {
            self.lua.fail(format_args!("missing '[' after '%f' in pattern"))
        }
        let end = self.class_end(p);
        let before = if s == 0 { 0 } else { self.text[s - 1] };
        let after = self.text.get(s).copied().unwrap_or(0);
        (!self.in_set(before, p, end - 1) && self.in_set(after, p, end - 1)).then_some(end)
    }

    fn most(&mut self, s: usize, p: usize, end: usize) -> Option<usize> {
        let mut count = 0;
        while self.single(s + count, p, end) {
            count += 1;
        }
        loop {
            if let Some(found) = self.run(s + count, end + 1) {
                return Some(found);
            }
            count = count.checked_sub(1)?;
        }
    }

    fn least(&mut self, mut s: usize, p: usize, end: usize) -> Option<usize> {
        loop {
            if let Some(found) = self.run(s, end + 1) {
                return Some(found);
            }
            if !self.single(s, p, end) {
                return None;
            }
            s += 1;
        }
    }

    fn open(&mut self, s: usize, p: usize, span: Span) -> Option<usize> {
        if self.level >= CAPTURES_MAX {
            self.lua.fail(format_args!("too many captures"))
        }
        self.captures[self.level] = (s, span);
        self.level += 1;
        let found = self.run(s, p);
        if found.is_none() {
            self.level -= 1;
        }
        found
    }

    fn close(&mut self, s: usize, p: usize) -> Option<usize> {
        let Some(open) = self.captures[..self.level].iter().rposition(|(_, span)| *span == Span::Open) else {
            self.lua.fail(format_args!("invalid pattern capture"))
        };
        self.captures[open].1 = Span::Length(s - self.captures[open].0);
        let found = self.run(s, p);
        if found.is_none() {
            self.captures[open].1 = Span::Open;
        }
        found
    }

    fn repeated(&self, s: usize, digit: u8) -> Option<usize> {
        let capture = usize::from(digit).checked_sub(usize::from(b'1')).and_then(|n| self.captures[..self.level].get(n));
        match capture {
            Some((start, Span::Length(length))) => self.text[s..].starts_with(&self.text[*start..*start + *length]).then_some(s + *length),
            Some((_, Span::Position)) => None,
            _ => self.lua.fail(format_args!("invalid capture index")),
        }
    }

    /// Pushes a capture. In a pattern without captures, the first one is the whole match.
    pub(crate) fn push(&self, n: usize, start: usize, end: usize) {
        match self.captures[..self.level].get(n) {
            Some((from, Span::Length(length))) => self.lua.push_bytes(&self.text[*from..*from + *length]),
            Some((from, Span::Position)) => self.lua.push_number(*from as f64 + 1.0),
            Some((_, Span::Open)) => self.lua.fail(format_args!("unfinished capture")),
            None if n == 0 => self.lua.push_bytes(&self.text[start..end]),
            None => self.lua.fail(format_args!("invalid capture index")),
        }
    }

    /// Pushes all captures, or with `whole` the whole match if there are none; returns how many.
    pub(crate) fn push_all(&self, whole: bool, start: usize, end: usize) -> c_int {
        let count = if self.level == 0 && whole { 1 } else { self.level };
        if !self.lua.reserve(count as c_int + 4) {
            self.lua.fail(format_args!("stack overflow (too many captures)"))
        }
        (0..count).for_each(|n| self.push(n, start, end));
        count as c_int
    }
}
