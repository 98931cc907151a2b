//! Formats numbers and escapes foreign text for a page.

/// Escapes text for any place in HTML, attributes included.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// An engine's name for people.
pub fn engine(name: &str) -> &str {
    match name {
        "sinter" => "SinterDB",
        "rocksdb" => "RocksDB",
        "redis" => "Redis",
        other => other,
    }
}

/// Name of an engine's colour, which means the engine everywhere on a page.
pub fn color(engine: &str) -> &'static str {
    ["sinter", "rocksdb", "fjall", "redis"].into_iter().find(|known| *known == engine).unwrap_or("other")
}

/// Formats a number like [`number`], without zeros behind the last digit after the point.
pub fn short(x: f64) -> String {
    let text = number(x);
    if text.contains('.') && !text.contains('e') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// The smallest and the largest of some numbers, as text; `None` without numbers.
pub fn range(values: impl Iterator<Item = f64> + Clone) -> Option<String> {
    let (least, most) = (values.clone().reduce(f64::min)?, values.reduce(f64::max)?);
    let (least, most) = (number(least), number(most));
    Some(if least == most { least } else { format!("{least} to {most}") })
}

/// Formats a number like [`number`], with as many more decimals as show on which side of the bounds it lies.
pub fn beside(x: f64, bounds: &[f64]) -> String {
    if !x.is_finite() {
        return number(x);
    }
    let is_told = |text: &String| {
        let read = text.replace(',', "").parse::<f64>();
        read.is_ok_and(|read| bounds.iter().all(|bound| read.partial_cmp(bound) == x.partial_cmp(bound)))
    };
    let longer = (3..=6).map(|places| format!("{x:.places$}"));
    std::iter::once(number(x)).chain(longer).find(is_told).unwrap_or_else(|| number(x))
}

/// Sizes beyond which a number is written with a power of ten.
const PLAIN: std::ops::Range<f64> = 1e-4..1e12;

/// Formats a number with three significant digits, more only before the point; thousands with commas.
pub fn number(x: f64) -> String {
    if !x.is_finite() {
        return "-".into();
    }
    if x != 0.0 && !PLAIN.contains(&x.abs()) {
        return format!("{x:.1e}");
    }
    let places = match x.abs() {
        0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        // The first digit after the point that is not 0, and two more.
        size => (2.0 - size.log10().floor()).min(9.0) as usize,
    };
    let text = format!("{x:.places$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let digits = whole.trim_start_matches('-');
    let mut out: String = whole[..whole.len() - digits.len()].into();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    rest.map_or(out.clone(), |rest| format!("{out}.{rest}"))
}

/// Breaks a label between words (by `<br>`, which charts understand) so that no line but one long word exceeds `width`. The charting
/// library reads a little HTML in labels, so the text is escaped.
pub fn wrap(label: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in label.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines.iter().map(|line| escape(line)).collect::<Vec<_>>().join("<br>")
}

/// Date of a unix time, such as `2026-11-20`, by the civil calendar (Howard Hinnant, "chrono-compatible low-level date algorithms", 2013).
pub fn date(unix_seconds: u64) -> String {
    let z = (unix_seconds / 86_400) as i64 + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    format!("{:04}-{month:02}-{day:02}", year_of_era + era * 400 + i64::from(month <= 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        let cases = [
            (0.0, "0"),
            (1.0, "1.00"),
            (2.34159, "2.34"),
            (31.4159, "31.4"),
            (314.159, "314"),
            (426_439.2, "426,439"),
            (1_000_000.0, "1,000,000"),
            (0.012345, "0.0123"),
            (3.21e-10, "3.2e-10"),
            (1.23e16, "1.2e16"),
            (-1234.5, "-1,234"),
            (f64::NAN, "-"),
        ];
        cases.iter().for_each(|(x, text)| assert_eq!(number(*x), *text));
    }

    #[test]
    fn short_numbers_end_in_a_digit() {
        let cases = [(4.0, "4"), (100.0, "100"), (1.5, "1.5"), (0.48, "0.48"), (0.0, "0"), (20_000.0, "20,000")];
        cases.iter().for_each(|(x, text)| assert_eq!(short(*x), *text));
        assert_eq!(range([0.5, 2.0, 1.0].into_iter()).unwrap(), "0.500 to 2.00");
        assert_eq!(range([0.5001, 0.5].into_iter()).unwrap(), "0.500");
    }

    /// A number beside a bound keeps the digits that tell both apart, and no more.
    #[test]
    fn numbers_are_told_from_bounds() {
        let cases = [(0.94996, "0.94996"), (0.9503, "0.9503"), (0.95, "0.950"), (0.9, "0.900"), (1.25, "1.25"), (12_345.0, "12,345")];
        cases.iter().for_each(|(x, text)| assert_eq!(beside(*x, &[0.95]), *text));
        assert_eq!(beside(1.0004, &[1.0]), "1.0004");
        assert_eq!(beside(f64::NAN, &[1.0]), "-");
    }

    #[test]
    fn foreign_text_is_only_text() {
        assert_eq!(escape("<b a=\"1\" c='2'>&"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
        assert_eq!(wrap("leveled, base 64MiB <x>", 12), "leveled,<br>base 64MiB<br>&lt;x&gt;");
    }

    #[test]
    fn dates_are_civil() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_795_132_800), "2026-11-20");
    }
}
