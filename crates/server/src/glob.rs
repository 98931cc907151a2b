//! Patterns of `KEYS`, `SCAN MATCH` and the like: `*`, `?`, `[a-z]`, `[^x]`, and a backslash that takes the next byte as it is.
//!
//! Without recursion: a `*` that fails later is tried again one byte further, and only the last one has to be, so that the worst
//! case is the product of both lengths, not a power.

/// Whether the text matches the whole pattern.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Position in pattern and text to go on from if the text behind the last star does not fit.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let advanced = match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some(_) => text.get(t).and_then(|byte| one(&pattern[p..], *byte)),
            None if t == text.len() => return true,
            None => None,
        };
        match (advanced, retry) {
            (Some(used), _) => {
                p += used;
                t += 1;
            }
            (None, Some((behind_star, from))) if from < text.len() => {
                retry = Some((behind_star, from + 1));
                p = behind_star;
                t = from + 1;
            }
            _ => return false,
        }
    }
}

/// Number of bytes of the pattern, which does not start with a star, that match this byte; `None`: no match.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', ..] => class(pattern, byte),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

/// A class in brackets; one that is not closed ends with the pattern.
fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let mut at = 1;
    let is_negated = pattern.get(at) == Some(&b'^');
    at += usize::from(is_negated);
    let mut is_in = false;
    loop {
        match &pattern[at.min(pattern.len())..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                is_in |= *literal == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                is_in |= (*from.min(to)..=*from.max(to)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                is_in |= *literal == byte;
                at += 1;
            }
        }
    }
    (is_in != is_negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("*", "anything"),
            ("a*c", "abbc"),
            ("a*c", "ac"),
            ("*a*b*", "xaybz"),
            ("h?llo", "hello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-c]llo", "hbllo"),
            ("h[c-a]llo", "hbllo"),
            (r"\*", "*"),
            (r"[\]]", "]"),
            ("[abc", "c"),
            ("a**b", "ab"),
            ("*?", "x"),
            (r"a\", r"a\"),
        ] {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("?", ""),
            ("a*c", "abd"),
            ("h[^a]llo", "hallo"),
            ("h[ae]llo", "hillo"),
            (r"\*", "a"),
            ("abc", "ab"),
            ("[]", "]"),
            ("*a", "ab"),
        ] {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern = "a*".repeat(1000) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(20_000).as_bytes()));
    }
}
