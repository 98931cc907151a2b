//! Sizes, durations and compression lists as people write them. Every formatter is exact: its output parses back to the same value.

use super::Codecs;
use crate::codec::{Codec, Compression};

/// The word for "no limit", stored as `u64::MAX`.
pub const UNLIMITED: &str = "unlimited";

/// The word for compression that the engine chooses.
const AUTO: &str = "auto";

/// Bytes from text: `4096`, `64MB` (10^6), `64MiB` or `64M` (2^20, as in GNU coreutils), `1.5GiB`, `unlimited`.
///
/// # Errors
/// A sentence that says what is accepted.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case(UNLIMITED) {
        return Ok(u64::MAX);
    }
    let wrong = || format!("`{}` is not a size (examples: 4096, 64MB, 1GiB, {UNLIMITED})", shorten(text));
    let (number, suffix) = split_number(text);
    let unit = byte_unit(suffix.trim()).ok_or_else(wrong)?;
    scaled(number, unit).ok_or_else(wrong)
}

/// Seconds from text: `90`, `45s`, `15m`, `12h`, `30d`, `2w`.
///
/// # Errors
/// A sentence that says what is accepted.
pub fn parse_seconds(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let wrong = || format!("`{}` is not a duration (examples: 90, 45s, 15m, 12h, 30d, 2w)", shorten(text));
    let (number, suffix) = split_number(text);
    let unit = match suffix.trim() {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(wrong()),
    };
    scaled(number, unit).ok_or_else(wrong)
}

/// A count from text: `7`, `1_000`, `unlimited`.
///
/// # Errors
/// A sentence that says what is accepted.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case(UNLIMITED) {
        return Ok(u64::MAX);
    }
    scaled(text, 1).filter(|_| !text.contains('.')).ok_or_else(|| format!("`{}` is not a whole number", shorten(text)))
}

/// Compression from text: `auto`, or per level: entries `codec[:level][:dict=SIZE]`, separated by blanks or commas; the last repeats for
/// deeper levels. Example: `none none lz4 zstd:3:dict=16KiB`.
///
/// # Errors
/// A sentence that says what is accepted.
pub fn parse_compression(text: &str) -> Result<Codecs, String> {
    if text.trim() == AUTO {
        return Ok(Codecs::Auto);
    }
    let pieces = text.split(',');
    if text.contains(',') && pieces.clone().any(|piece| piece.trim().is_empty()) {
        return Err("an entry is empty: each level has a codec, `none` for no compression".into());
    }
    let list: Result<Vec<_>, _> = pieces.flat_map(str::split_whitespace).take(LIST_MAX + 1).map(parse_entry).collect();
    match list {
        Ok(list) if list.len() > LIST_MAX => Err(format!("more than {LIST_MAX} entries, and a tree has no more levels")),
        other => other.map(Codecs::Fixed),
    }
}

/// More levels than this no tree has, so that hostile text cannot ask for a long list.
pub(super) const LIST_MAX: usize = 16;

/// Bytes as text, exact, in the largest binary unit that divides them.
pub fn format_bytes(bytes: u64) -> String {
    if bytes == u64::MAX {
        return UNLIMITED.into();
    }
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes != 0 && bytes.trailing_zeros() >= *shift) {
        Some((shift, name)) => format!("{}{name}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// Seconds as text, exact, in the largest unit that divides them.
pub fn format_seconds(seconds: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "m")];
    match units.iter().find(|(unit, _)| seconds != 0 && seconds.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", seconds / unit),
        None => seconds.to_string(),
    }
}

/// Compression in the short form that [`parse_compression`] reads.
pub fn format_compression(codecs: &Codecs) -> String {
    let Codecs::Fixed(list) = codecs else { return AUTO.into() };
    let entry = |c: &Compression| {
        let level = c.level.map(|l| format!(":{l}")).unwrap_or_default();
        let dictionary = if c.dictionary_bytes == 0 { String::new() } else { format!(":dict={}", format_bytes(c.dictionary_bytes.into())) };
        format!("{}{level}{dictionary}", c.codec.name())
    };
    list.iter().map(entry).collect::<Vec<_>>().join(" ")
}

fn parse_entry(text: &str) -> Result<Compression, String> {
    if text == AUTO {
        return Err(format!("`{AUTO}` is for all levels and stands alone"));
    }
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    let codec = Codec::ALL.into_iter().find(|codec| codec.name() == name).ok_or_else(|| {
        let known = Codec::ALL.map(Codec::name).join(", ");
        format!("`{}` is not a codec (known: {known})", shorten(name))
    })?;
    let (mut entry, mut has_dictionary) = (Compression { codec, level: None, dictionary_bytes: 0 }, false);
    for part in parts {
        if let Some(size) = part.strip_prefix("dict=") {
            if has_dictionary {
                return Err(format!("`{}` has two dictionaries", shorten(text)));
            }
            has_dictionary = true;
            entry.dictionary_bytes =
                parse_bytes(size)?.try_into().map_err(|_| format!("dictionary of `{}` is too large", shorten(size)))?;
        } else {
            let level = part.parse().map_err(|_| format!("`{}` in `{}` is neither a level nor dict=SIZE", shorten(part), shorten(text)))?;
            if entry.level.replace(level).is_some() {
                return Err(format!("`{}` has two levels", shorten(text)));
            }
        }
    }
    Ok(entry)
}

fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    text.split_at(end)
}

fn byte_unit(suffix: &str) -> Option<u64> {
    let lower = suffix.to_ascii_lowercase();
    if lower.is_empty() || lower == "b" {
        return Some(1);
    }
    let mut letters = lower.chars();
    let power = u32::try_from("kmgtp".find(letters.next()?)?).ok()? + 1;
    match letters.as_str() {
        "" | "i" | "ib" => Some(1 << (10 * power)),
        "b" => Some(1000u64.pow(power)),
        _ => None,
    }
}

/// `number * unit` for a decimal number; `None` if it is not one, is longer than any size or does not fit.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let digits = number.replace('_', "");
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    if whole.is_empty() || fraction.len() > 9 || !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    if fraction.is_empty() {
        return Some(whole).filter(|_| !digits.ends_with('.'));
    }
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = fraction.parse::<u128>().ok()? * u128::from(unit) / scale;
    whole.checked_add(u64::try_from(part).ok()?)
}

/// A piece of the user's text that is safe to put into a one-line message.
pub(super) fn shorten(text: &str) -> String {
    let clean: String = text.chars().take(61).map(|c| if c.is_control() { '?' } else { c }).collect();
    if clean.chars().count() > 60 { clean.chars().take(57).collect::<String>() + "..." } else { clean }
}
