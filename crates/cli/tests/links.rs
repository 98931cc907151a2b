//! Every relative link of the Markdown pages leads to an existing file, and every anchor to a heading. Pages named in comments exist.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders without pages of this project.
const SKIPPED: &[&str] = &["target", ".git", "corpus", "artifacts"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace root is there")
}

fn collect(directory: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            if !SKIPPED.iter().any(|name| path.ends_with(name)) {
                collect(&path, endings, found);
            }
        } else if path.extension().is_some_and(|ending| endings.iter().any(|wanted| ending == *wanted)) {
            found.push(path);
        }
    }
}

/// The lines of a page outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let headings = prose(text).filter(|line| line.starts_with('#') && line.trim_start_matches('#').starts_with(' '));
    let slug = |line: &str| -> String {
        let kept = line.trim_start_matches('#').trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings
        .map(slug)
        .map(|slug| {
            let count = seen.entry(slug.clone()).or_default();
            *count += 1;
            if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
        })
        .collect()
}

/// The targets of the links of a page: `[text](target)`.
fn targets(text: &str) -> Vec<String> {
    // A link's text may run over two lines.
    let text = prose(text).collect::<Vec<_>>().join("\n");
    text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// Links of a page that lead nowhere, one line for each.
fn complaints(page: &Path, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for target in targets(text) {
        if target.contains("://") || target.starts_with("mailto:") || target.contains(' ') {
            continue;
        }
        let (file, anchor) = target.split_once('#').map_or((target.as_str(), None), |(file, anchor)| (file, Some(anchor)));
        let is_here = file.is_empty();
        let path = if is_here { page.to_owned() } else { page.parent().expect("a folder").join(file) };
        let other = if is_here { text.to_owned() } else { fs::read_to_string(&path).unwrap_or_default() };
        let is_page = path.extension().is_some_and(|ending| ending == "md");
        if !is_here && !path.exists() {
            complaints.push(format!("{}: {target} does not exist", page.display()));
        } else if anchor.is_some_and(|anchor| is_page && !anchors(&other).iter().any(|known| known == anchor)) {
            complaints.push(format!("{}: {target} is no heading", page.display()));
        } else if anchor.is_some_and(|anchor| target.contains(".html#") && !other.contains(&format!(" id=\"{anchor}\""))) {
            complaints.push(format!("{}: {target} is nothing on that page", page.display()));
        }
    }
    complaints
}

#[test]
fn links_lead_somewhere() {
    let mut pages = Vec::new();
    collect(&root(), &["md"], &mut pages);
    let read = |page: &PathBuf| fs::read_to_string(page).expect("a readable page");
    let wrong: Vec<String> = pages.iter().flat_map(|page| complaints(page, &read(page))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pages_named_in_code_exist() {
    let root = root();
    let mut sources = Vec::new();
    collect(&root, &["rs", "toml", "sh", "py"], &mut sources);
    let mut wrong = Vec::new();
    for source in sources {
        let text = fs::read_to_string(&source).unwrap_or_default();
        for (at, _) in text.match_indices("docs/") {
            let rest = &text[at..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"/-_.".contains(c)).unwrap_or(rest.len());
            let name = rest[..end].trim_end_matches('.');
            if name.ends_with(".md") && !root.join(name).exists() {
                wrong.push(format!("{}: {name} does not exist", source.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_rule_can_fail() {
    let page = root().join("docs").join("page.md");
    let bad = |text: &str| complaints(&page, text).len();
    assert_eq!(bad("# One two\n## `a_b`, c: d\n[x](#one-two) [y](#a_b-c-d) [z](../README.md)\n```\n[q](none.md)\n```\n"), 0);
    assert_eq!(bad("# Twice\n# Twice\n[x](#twice) [y](#twice-1)\n"), 0);
    assert_eq!(bad("[x](#none) [y](none.md) [z](../README.md#no-such-heading)\n"), 3);
}
