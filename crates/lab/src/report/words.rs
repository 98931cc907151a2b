//! Words on a page for the short names of cells, settings and comparisons: `F sinter, 14 active` becomes `zones of a real drive:
//! SinterDB's policy, at most 14 zones active`. The words are data of the study; `results.csv` keeps the short names.

use crate::published::Published;

/// Short names with their words, the longest name first.
#[derive(Debug, Clone, Default)]
pub struct Words {
    names: Vec<(String, String)>,
    /// Names of parts, which count at the beginning of a text only.
    parts: Vec<(String, String)>,
}

/// Whether a character continues a word.
fn continues(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl Words {
    /// Words of a study; none without data.
    pub fn of(published: Option<&Published>) -> Self {
        let Some(published) = published else { return Words::default() };
        let pairs = |map: &std::collections::BTreeMap<String, String>| map.clone().into_iter().collect::<Vec<_>>();
        Words { parts: pairs(&published.parts), ..Words::from(pairs(&published.words)) }
    }

    /// The text with words in place of short names.
    pub fn say(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        if let Some((part, words)) = self.parts.iter().find(|(part, _)| begins(text, part)) {
            let behind = &text[part.len()..];
            let colon = if behind.starts_with(' ') { ":" } else { "" };
            out += words;
            out += colon;
            rest = behind;
        }
        let mut before = None;
        while let Some(first) = rest.chars().next() {
            let found = self.names.iter().find(|(name, _)| before.is_none_or(|c| !continues(c)) && ends(rest, name));
            let taken = found.map_or(first.len_utf8(), |(name, _)| name.len());
            out += found.map_or(&rest[..taken], |(_, words)| words);
            before = rest[..taken].chars().last();
            rest = &rest[taken..];
        }
        out
    }
}

impl From<Vec<(String, String)>> for Words {
    fn from(mut names: Vec<(String, String)>) -> Self {
        names.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        Words { names, parts: Vec::new() }
    }
}

/// Whether a text begins with the name of a part.
fn begins(text: &str, part: &str) -> bool {
    text.strip_prefix(part).is_some_and(|behind| behind.starts_with([' ', ':']))
}

/// Whether a text begins with a name that ends there.
fn ends(text: &str, name: &str) -> bool {
    text.strip_prefix(name).is_some_and(|behind| !behind.starts_with(continues))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        let pair = |(a, b): (&str, &str)| (a.to_string(), b.to_string());
        let names = [("sinter", "our policy"), ("sinter untold", "our policy, untold"), ("0 %", "no age"), ("14 active", "14 zones")];
        Words { parts: vec![pair(("A", "to the end"))], ..Words::from(names.map(pair).to_vec()) }
    }

    /// The longest name counts, at the bounds of words only, and a part at the beginning only.
    #[test]
    fn short_names_become_words() {
        let cases = [
            ("A sinter, 14 active", "to the end: our policy, 14 zones"),
            ("A: sinter untold to sinter", "to the end: our policy, untold to our policy"),
            ("Act A, SinterDB, sinters, 20 %", "Act A, SinterDB, sinters, 20 %"),
            ("0 %: 14 actively", "no age: 14 actively"),
        ];
        cases.iter().for_each(|(short, said)| assert_eq!(words().say(short), *said));
        assert_eq!(Words::of(None).say("A sinter"), "A sinter", "a study without data");
    }
}
