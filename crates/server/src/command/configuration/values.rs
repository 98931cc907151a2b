//! Values of directives as text: numbers, bytes, names.

use super::Why;

pub(super) const INTEGER: &str = "argument couldn't be parsed into an integer";
pub(super) const LOG_NAME: &str = "must begin with a small letter and have only letters, digits, '.', '-' and '_'";

/// An integer from `low` up to `high`.
pub(super) fn number<N: TryFrom<i64> + Copy>(value: &str, low: i64, high: i64) -> Result<N, Why> {
    let number = crate::number::parse_integer(value.as_bytes()).ok_or(INTEGER)?;
    let out = || format!("argument must be between {low} and {high} inclusive");
    if (low..=high).contains(&number) { N::try_from(number).map_err(|_| out()) } else { Err(out()) }
}

pub(super) fn yes_or_no(value: &str) -> Result<bool, Why> {
    match value.to_ascii_lowercase().as_str() {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("argument must be 'yes' or 'no'".into()),
    }
}

pub(super) fn name_of(yes: bool) -> String {
    if yes { "yes" } else { "no" }.into()
}

/// Bytes, in Redis's units (`k` is 1000, `kb` is 1024) and in unambiguous ones (`KiB`).
pub(in crate::command) fn bytes(value: &str) -> Result<u64, Why> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let factor = match value[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" | "kib" => 1 << 10,
        "m" => 1_000_000,
        "mb" | "mib" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" | "gib" => 1 << 30,
        _ => 0,
    };
    let number: Option<u64> = value[..digits].parse().ok().filter(|_| factor > 0);
    number.and_then(|number| number.checked_mul(factor)).ok_or_else(|| "argument must be a memory value".into())
}

/// Bytes, at least `low`.
pub(super) fn memory(value: &str, low: u64) -> Result<u64, Why> {
    let high = i64::MAX.unsigned_abs();
    let out = || format!("argument must be between {low} and {high} inclusive");
    bytes(value).and_then(|bytes| if (low..=high).contains(&bytes) { Ok(bytes) } else { Err(out()) })
}

/// Permissions of a file, in octal.
pub(super) fn permissions(value: &str) -> Result<u32, Why> {
    let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o777 && !value.starts_with('+'));
    mode.ok_or_else(|| "argument couldn't be parsed as an octal number".into())
}

/// A file name that no file of the engine has.
pub(super) fn dump_name(value: &str) -> Result<String, Why> {
    let is_name = value.len() > ".rdb".len() && value.ends_with(".rdb") && !value.contains(['/', '\\', '\0']);
    if is_name { Ok(value.into()) } else { Err("must be a file name that ends in .rdb, without a directory".into()) }
}

/// A file name that no file of the engine has, and that needs no quotes.
pub(super) fn log_name(value: &str) -> Result<String, Why> {
    let is_name = value.starts_with(|first: char| first.is_ascii_lowercase())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    if is_name && value.len() <= 200 { Ok(value.into()) } else { Err(LOG_NAME.into()) }
}

/// A percentile, in thousandths of a percent.
pub(super) fn percentile(word: &str) -> Result<u32, Why> {
    let number: f64 = word.parse().map_err(|_| "Invalid latency-tracking-info-percentiles parameters")?;
    if !(0.0..=100.0).contains(&number) {
        return Err("latency-tracking-info-percentiles parameters should be between 0.0 and 100.0".into());
    }
    Ok((number * 1000.0).round() as u32)
}

/// A percentile as text, without zeros at the end.
pub(in crate::command) fn percentile_text(thousandths: u32) -> String {
    (f64::from(thousandths) / 1000.0).to_string()
}
