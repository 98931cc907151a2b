//! First lines of scripts and libraries: `#!lua name=... flags=...`.

/// Flags of a script or function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u8);

impl Flags {
    /// The script does not write.
    pub const NO_WRITES: Flags = Flags(1);
    /// The script may run when memory is short.
    pub const ALLOW_OOM: Flags = Flags(2);
    /// The script may run on a stale replica.
    pub const ALLOW_STALE: Flags = Flags(4);
    /// The script does not run in a cluster.
    pub const NO_CLUSTER: Flags = Flags(8);
    /// The script may use keys of several slots.
    pub const ALLOW_CROSS_SLOT_KEYS: Flags = Flags(16);

    /// All flags with their names.
    pub const NAMES: [(&'static str, Flags); 5] = [
        ("no-writes", Flags::NO_WRITES),
        ("allow-oom", Flags::ALLOW_OOM),
        ("allow-stale", Flags::ALLOW_STALE),
        ("no-cluster", Flags::NO_CLUSTER),
        ("allow-cross-slot-keys", Flags::ALLOW_CROSS_SLOT_KEYS),
    ];

    /// Whether all of the other's flags are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(_, flag)| self.has(*flag)).map(|(name, _)| name)
    }

    /// Sets the flag of a name; false if there is none.
    pub(crate) fn set(&mut self, name: &[u8], any_case: bool) -> bool {
        let same = |known: &str| if any_case { name.eq_ignore_ascii_case(known.as_bytes()) } else { name == known.as_bytes() };
        let found = Self::NAMES.into_iter().find(|(known, _)| same(known));
        self.0 |= found.map_or(0, |(_, flag)| flag.0);
        found.is_some()
    }
}

fn error(text: &str, part: &[u8]) -> Vec<u8> {
    [b"ERR ", text.as_bytes(), part].concat()
}

/// Flags that the first line of a script states (`None`: there is no such line), and the code behind that line.
pub(crate) fn script(code: &[u8]) -> Result<(Option<Flags>, &[u8]), Vec<u8>> {
    if !code.starts_with(b"#!") {
        return Ok((None, code));
    }
    let Some(end) = code.iter().position(|byte| *byte == b'\n') else { return Err(error("Invalid script shebang", b"")) };
    let parts = split(&code[..end]).filter(|parts| !parts.is_empty()).ok_or_else(|| error("Invalid engine in script shebang", b""))?;
    if parts[0] != b"#!lua" {
        return Err(error("Unexpected engine in script shebang: ", &parts[0]));
    }
    let mut flags = Flags::default();
    for part in &parts[1..] {
        let Some(names) = part.strip_prefix(b"flags=") else { return Err(error("Unknown lua shebang option: ", part)) };
        for name in names.split(|byte| *byte == b',').filter(|_| !names.is_empty()) {
            if !flags.set(name, false) {
                return Err(error("Unexpected flag in script shebang: ", name));
            }
        }
    }
    Ok((Some(flags), &code[end..]))
}

/// Name of a library, and the code behind the first line.
pub(crate) fn library(code: &[u8]) -> Result<(Vec<u8>, &[u8]), Vec<u8>> {
    if !code.starts_with(b"#!") {
        return Err(error("Missing library metadata", b""));
    }
    let invalid = || error("Invalid library metadata", b"");
    let end = code.iter().position(|byte| *byte == b'\n').ok_or_else(invalid)?;
    let parts = split(&code[..end]).filter(|parts| !parts.is_empty()).ok_or_else(invalid)?;
    let mut name = None;
    for part in &parts[1..] {
        let Some((_, value)) = part.split_at_checked(5).filter(|(key, _)| key.eq_ignore_ascii_case(b"name=")) else {
            return Err(error("Invalid metadata value given: ", part));
        };
        if name.replace(value.to_vec()).is_some() {
            return Err(error("Invalid metadata value, name argument was given multiple times", b""));
        }
    }
    let name = name.ok_or_else(|| error("Library name was not given", b""))?;
    if !is_name(&name) {
        return Err([b"ERR ", NAME_RULE.as_bytes()].concat());
    }
    if !parts[0][2..].eq_ignore_ascii_case(b"lua") {
        return Err([&b"ERR Engine '"[..], &parts[0][2..], b"' not found"].concat());
    }
    Ok((name, &code[end..]))
}

/// Rule for names of libraries and functions, as the text of an error.
pub(crate) const NAME_RULE: &str =
    "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// Whether a library or a function may have the name.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Words of a line, with quotes as in inline commands. `None`: a quote has no end, or ends within a word.
fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let [first, others @ ..] = rest {
            match first {
                b'"' | b'\'' => {
                    rest = quoted(*first, others, &mut word)?;
                    if rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                        return None;
                    }
                }
                blank if blank.is_ascii_whitespace() => break,
                byte => {
                    word.push(*byte);
                    rest = others;
                }
            }
        }
        words.push(word);
    }
}

/// Text up to the closing quote, and the rest behind the quote.
fn quoted<'a>(quote: u8, mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [first, others @ ..] if *first == quote => return Some(others),
            [b'\\', b'x', high, low, others @ ..] if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or(0) as u8;
                word.push(digit(*high) << 4 | digit(*low));
                rest = others;
            }
            [b'\\', byte, others @ ..] if quote == b'"' => {
                let known = [(b'n', b'\n'), (b'r', b'\r'), (b't', b'\t'), (b'b', 8), (b'a', 7)];
                word.push(known.iter().find(|(name, _)| name == byte).map_or(*byte, |(_, meant)| *meant));
                rest = others;
            }
            [b'\\', b'\'', others @ ..] if quote == b'\'' => {
                word.push(b'\'');
                rest = others;
            }
            [first, others @ ..] => {
                word.push(*first);
                rest = others;
            }
        }
    }
}
