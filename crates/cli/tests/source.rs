//! Reads the project's own source for the layers and tidy tests: every Rust file, with comments and literals blanked and test code told
//! apart. A lexer, not a parser: enough for code that rustfmt has formatted.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// One Rust file.
pub struct Source {
    /// Path from the workspace root, with `/`.
    pub path: String,
    /// The text of the file.
    pub text: String,
    /// The text with each character in its place, but comments blanked and the insides of literals turned into quotes.
    pub code: Vec<char>,
    /// `code` without items under `#[cfg(test)]`.
    pub production: Vec<char>,
}

impl Source {
    /// Analyzes a text.
    pub fn new(path: &str, text: &str) -> Self {
        let code = blank_literals(text);
        let production = blank_tests(&code);
        Source { path: path.to_owned(), text: text.to_owned(), code, production }
    }

    /// Line number of a character position, from 1.
    pub fn line(&self, at: usize) -> usize {
        1 + self.code[..at].iter().filter(|c| **c == '\n').count()
    }

    /// Names of modules that are declared here only for tests.
    pub fn test_modules(&self) -> Vec<String> {
        let declared = |code: &[char]| -> BTreeSet<String> {
            let modules = words(code, "mod").into_iter().map(|at| ident(code, skip_blank(code, at + 3)));
            modules.filter(|name| !name.is_empty()).collect()
        };
        declared(&self.code).difference(&declared(&self.production)).cloned().collect()
    }
}

/// Every Rust file below `crates` and `fuzz` of the workspace, in order of path.
pub fn workspace() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace root is there");
    let mut paths = Vec::new();
    for top in ["crates", "fuzz"] {
        if root.join(top).is_dir() {
            collect(&root.join(top), &mut paths);
        }
    }
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path.strip_prefix(&root).expect("below the root").to_string_lossy().replace('\\', "/");
        Source::new(&name, &text)
    };
    paths.into_iter().map(read).collect()
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    for path in entries.map(|entry| entry.expect("a readable directory").path()) {
        if path.is_dir() {
            // Output of cargo and the fuzzers; a module of such a name lies in a `src` folder and counts.
            let built = ["target", "corpus", "artifacts"].iter().any(|skip| path.ends_with(skip));
            if !built || path.iter().any(|part| part == "src") {
                collect(&path, paths);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            paths.push(path);
        }
    }
}

/// Whether a character can be part of an identifier.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Positions at which `word` is a whole word.
pub fn words(code: &[char], word: &str) -> Vec<usize> {
    let word: Vec<char> = word.chars().collect();
    let whole = |at: usize| (at == 0 || !is_word(code[at - 1])) && !code.get(at + word.len()).is_some_and(|c| is_word(*c));
    (0..code.len().saturating_sub(word.len() - 1)).filter(|&at| code[at] == word[0] && code[at..].starts_with(&word) && whole(at)).collect()
}

/// The first position from `at` on that is no white space.
pub fn skip_blank(code: &[char], at: usize) -> usize {
    at + code[at.min(code.len())..].iter().take_while(|c| c.is_whitespace()).count()
}

/// The identifier at `at`, empty if there is none.
pub fn ident(code: &[char], at: usize) -> String {
    code[at.min(code.len())..].iter().take_while(|c| is_word(**c)).collect()
}

/// Position behind the item or block that starts at `at`: behind its `;`, or behind the brace that matches its first one.
pub fn item_end(code: &[char], at: usize) -> usize {
    let (mut braces, mut others) = (0usize, 0usize);
    for (i, c) in code.iter().enumerate().skip(at) {
        match c {
            '(' | '[' => others += 1,
            ')' | ']' => others = others.saturating_sub(1),
            '{' => braces += 1,
            '}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 && others == 0 {
                    return i + 1;
                }
            }
            ';' if braces == 0 && others == 0 => return i + 1,
            _ => {}
        }
    }
    code.len()
}

fn blank_tests(code: &[char]) -> Vec<char> {
    let mut production = code.to_vec();
    for start in ["#[cfg(test)]", "#[cfg(all(test"] {
        let start: Vec<char> = start.chars().collect();
        let mut at = 0;
        while let Some(found) = production[at..].windows(start.len()).position(|w| w == start) {
            let from = at + found;
            let mut item = skip_blank(&production, attribute_end(&production, from));
            while production.get(item) == Some(&'#') {
                item = skip_blank(&production, attribute_end(&production, item));
            }
            at = item_end(&production, item);
            production[from..at].iter_mut().filter(|c| **c != '\n').for_each(|c| *c = ' ');
        }
    }
    production
}

/// Position behind the `]` of the attribute at `at`.
fn attribute_end(code: &[char], at: usize) -> usize {
    let mut depth = 0usize;
    for (i, c) in code.iter().enumerate().skip(at) {
        match c {
            '[' => depth += 1,
            ']' if depth == 1 => return i + 1,
            ']' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn blank_literals(text: &str) -> Vec<char> {
    let mut code: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < code.len() {
        let (end, filler) = match (code[at], code.get(at + 1)) {
            ('/', Some('/')) => (line_comment_end(&code, at), ' '),
            ('/', Some('*')) => (block_comment_end(&code, at), ' '),
            ('"', _) => (string_end(&code, at, raw_hashes(&code, at)), '"'),
            ('\'', _) => (char_end(&code, at), '\''),
            _ => (at + 1, code[at]),
        };
        code[at..end].iter_mut().filter(|c| **c != '\n').for_each(|c| *c = filler);
        at = end;
    }
    code
}

fn line_comment_end(code: &[char], at: usize) -> usize {
    code[at..].iter().position(|c| *c == '\n').map_or(code.len(), |n| at + n)
}

fn block_comment_end(code: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0usize, at);
    while i + 1 < code.len() {
        match (code[i], code[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') if depth == 1 => return i + 2,
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
    }
    code.len()
}

/// For the quote at `at`: the number of hashes of a raw string, or `None` for a string with escapes.
fn raw_hashes(code: &[char], at: usize) -> Option<usize> {
    let hashes = code[..at].iter().rev().take_while(|c| **c == '#').count();
    let prefix: String = code[..at - hashes].iter().rev().take_while(|c| is_word(**c)).collect();
    ["r", "rb", "rc"].contains(&prefix.as_str()).then_some(hashes)
}

fn string_end(code: &[char], at: usize, raw: Option<usize>) -> usize {
    let mut i = at + 1;
    while i < code.len() {
        match (code[i], raw) {
            ('\\', None) => i += 1,
            ('"', None) => return i + 1,
            ('"', Some(hashes)) if code[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes => return i + 1 + hashes,
            _ => {}
        }
        i += 1;
    }
    code.len()
}

/// Position behind a character literal, or behind the quote alone if it starts a lifetime.
fn char_end(code: &[char], at: usize) -> usize {
    match (code.get(at + 1), code.get(at + 2)) {
        (Some('\\'), Some(_)) => code[at + 3..].iter().position(|c| *c == '\'').map_or(code.len(), |n| at + 4 + n),
        (Some(_), Some('\'')) => at + 3,
        _ => at + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_out_of_the_way() {
        let text = r####"
let a = "fn { \" } unsafe"; // fn { unsafe
let b = r#"fn " { unsafe"#; /* fn { /* unsafe */ unsafe */
let c = '{'; let d = '\''; let e = '\u{7b}'; let f: &'static str = b"unsafe";
/// unsafe {
fn g<'a>(x: &'a str) { b'{'; br"\"; }
"####;
        let source = Source::new("x.rs", text);
        let code: String = source.code.iter().collect();
        assert_eq!(code.matches('{').count(), 1, "{code}");
        assert_eq!(code.matches('}').count(), 1, "{code}");
        assert!(!code.contains("unsafe"), "{code}");
        assert_eq!(words(&source.code, "fn").len(), 1, "{code}");
        assert_eq!(source.line(words(&source.code, "fn")[0]), 6);
        assert_eq!(source.text.chars().count(), source.code.len());
        assert_eq!(source.path, "x.rs");
    }

    #[test]
    fn test_items_are_told_apart() {
        let text = "mod a;\n#[cfg(test)]\n#[path = \"x\"]\nmod b;\n#[cfg(test)]\nmod tests {\n fn f() { [0; 3]; }\n}\nfn last() {}\n";
        let source = Source::new("x.rs", text);
        let production: String = source.production.iter().collect();
        let left: Vec<&str> = production.split_whitespace().collect();
        assert_eq!(left, ["mod", "a;", "fn", "last()", "{}"]);
        assert_eq!(source.test_modules(), ["b", "tests"]);
        assert_eq!(ident(&source.code, skip_blank(&source.code, 3)), "a");
    }

    #[test]
    fn the_workspace_is_found() {
        assert!(workspace().iter().any(|source| source.path == "crates/cli/tests/source.rs"));
    }
}
