//! Budgets and bans that no compiler lint covers: sizes of files and functions, left-overs, and files with unsafe code. All complaints come
//! at once, each as `file:line: what`.

use crate::source::{Source, ident, is_word, item_end, skip_blank, words, workspace};

/// Lines of code in a file, at most: blank lines, comments, and test code at the end do not count.
const FILE_LINES: usize = 600;

/// Lines of a function from `fn` to its closing brace, at most.
const FUNCTION_LINES: usize = 70;

/// Characters in a line, at most.
const COLUMNS: usize = 140;

/// Bytes of the results of one study, and of all of docs/results, at most.
const STUDY_BYTES: u64 = 2_600_000;
const RESULTS_BYTES: u64 = 15_000_000;

/// The files that may have unsafe code; each contains the argument for it.
const UNSAFE: &[&str] = &[
    "crates/storage/src/store/sys.rs",
    "crates/storage/src/store/dir/window.rs",
    "crates/storage/src/zoned/sys.rs",
    "crates/engine/src/memtable/arena.rs",
    "crates/engine/src/prefetch.rs",
    "crates/engine/src/table/search.rs",
    "crates/engine/src/slab.rs",
    "crates/script/src/lua.rs",
    "crates/script/src/machine.rs",
    "crates/script/src/state.rs",
];

/// Lines by which a file and its functions together may exceed the budgets. Entries may only shrink; one larger than needed is a complaint,
/// too.
const RATCHET: &[(&str, usize)] = &[];

/// Words that mark unfinished work. Written in two halves, so that this file does not complain about itself.
const LEFT_OVERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];

/// Code that must not be committed. Attributes are matched without blanks.
const BANNED: &[(&str, &str)] = &[
    ("todo!", "unfinished code"),
    ("unimplemented!", "unfinished code"),
    ("dbg!", "debugging output"),
    ("#[allow(", "use #[expect(.., reason = \"..\")]"),
    ("#![allow(", "use #![expect(.., reason = \"..\")]"),
];

/// Words that leave the reader of a doc comment to guess what it is about, if it opens with them.
const UNNAMED: &[&str] = &["That", "Those", "They", "Who", "What", "The same"];

struct Complaints {
    list: Vec<String>,
    /// Lines over the budgets, per file, with the reasons.
    excess: Vec<(String, usize, Vec<String>)>,
}

/// Start, end and name of each function with a body.
fn functions(source: &Source) -> Vec<(usize, usize, String)> {
    let code = &source.code;
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let name = ident(code, skip_blank(code, at + 2));
        let end = item_end(code, at);
        if !name.is_empty() && code[end - 1] == '}' {
            found.push((at, end - 1, name));
        }
    }
    found
}

fn lines_of_code(source: &Source) -> usize {
    let production: String = source.production.iter().collect();
    production.lines().filter(|line| !line.trim().is_empty()).count()
}

fn budgets(source: &Source, complaints: &mut Complaints) {
    let mut over = 0;
    let mut reasons = Vec::new();
    let lines = lines_of_code(source);
    if lines > FILE_LINES {
        over += lines - FILE_LINES;
        reasons.push(format!("{}: {lines} lines of code, at most {FILE_LINES}", source.path));
    }
    for (start, end, name) in functions(source) {
        let (first, last) = (source.line(start), source.line(end));
        let lines = last - first + 1;
        if lines > FUNCTION_LINES {
            over += lines - FUNCTION_LINES;
            reasons.push(format!("{}:{first}: `{name}` has {lines} lines, at most {FUNCTION_LINES}", source.path));
        }
    }
    if over > 0 {
        complaints.excess.push((source.path.clone(), over, reasons));
    }
}

fn bans(source: &Source, complaints: &mut Complaints) {
    if let Some(folder) = source.path.strip_suffix("/mod.rs") {
        complaints.list.push(format!("{}: a module with others inside is {folder}.rs", source.path));
    }
    for (i, line) in source.text.lines().enumerate() {
        let at = format!("{}:{}", source.path, i + 1);
        let columns = line.chars().count();
        if columns > COLUMNS {
            complaints.list.push(format!("{at}: {columns} columns, at most {COLUMNS}"));
        }
        for word in LEFT_OVERS {
            let chars: Vec<char> = line.chars().collect();
            if !words(&chars, word).is_empty() {
                complaints.list.push(format!("{at}: {word}: finish it or file it"));
            }
        }
    }
    for (banned, why) in BANNED {
        let pattern: Vec<char> = banned.chars().collect();
        for (at, found) in source.code.windows(pattern.len()).enumerate() {
            if found == pattern && (at == 0 || !is_word(source.code[at - 1])) {
                complaints.list.push(format!("{}:{}: `{banned}`: {why}", source.path, source.line(at)));
            }
        }
    }
    let unsafe_code = words(&source.code, "unsafe");
    match (unsafe_code.first(), UNSAFE.contains(&source.path.as_str())) {
        (Some(&at), false) => {
            complaints.list.push(format!("{}:{}: unsafe code in a file that is not listed for it", source.path, source.line(at)));
        }
        (None, true) => complaints.list.push(format!("{}: listed for unsafe code and has none; take it off the list", source.path)),
        _ => {}
    }
}

/// Doc comments name their subject.
fn openings(source: &Source, complaints: &mut Complaints) {
    let mut goes_on = false;
    for (i, line) in source.text.lines().map(str::trim_start).enumerate() {
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start);
        let opens = |word: &&&str| text.and_then(|text| text.strip_prefix(**word)).is_some_and(|rest| !rest.starts_with(is_word));
        if let Some(word) = UNNAMED.iter().find(|word| !goes_on && opens(word)) {
            complaints.list.push(format!("{}:{}: a doc comment opens with \"{word}\"; name its subject", source.path, i + 1));
        }
        goes_on = text.is_some();
    }
}

fn check(sources: &[Source], ratchet: &[(&str, usize)]) -> Vec<String> {
    let mut complaints = Complaints { list: Vec::new(), excess: Vec::new() };
    for source in sources {
        budgets(source, &mut complaints);
        bans(source, &mut complaints);
        openings(source, &mut complaints);
    }
    let Complaints { mut list, excess } = complaints;
    for (path, over, reasons) in &excess {
        let allowed = ratchet.iter().find(|(file, _)| file == path).map_or(0, |(_, allowed)| *allowed);
        if *over > allowed {
            list.extend(reasons.iter().cloned());
            list.extend((allowed > 0).then(|| format!("{path}: {over} lines over budget, the ratchet allows {allowed}")));
        }
    }
    for (file, allowed) in ratchet {
        let over = excess.iter().find(|(path, ..)| path == file).map_or(0, |(_, over, _)| *over);
        if over < *allowed {
            list.push(format!("{file}: the ratchet allows {allowed} lines over budget and {over} are needed; lower it"));
        }
    }
    list
}

#[test]
fn the_project_is_tidy() {
    let complaints = check(&workspace(), RATCHET);
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn each_rule_can_fail() {
    let bad = |text: &str| check(&[Source::new("bad.rs", text)], &[]);
    let long = |lines: usize| format!("fn f() {{\n{}}}\n", "    work();\n".repeat(lines - 2));
    assert_eq!(bad(&long(70)), [""; 0]);
    assert_eq!(bad(&long(71)), ["bad.rs:1: `f` has 71 lines, at most 70"]);
    assert_eq!(bad(&format!("mod m {{\n{}}}\n", long(71)))[0], "bad.rs:2: `f` has 71 lines, at most 70");
    assert_eq!(bad(&"const A: u8 = 1;\n".repeat(600)), [""; 0]);
    assert_eq!(bad(&"const A: u8 = 1;\n".repeat(601)), ["bad.rs: 601 lines of code, at most 600"]);
    let with_tests =
        format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", "const A: u8 = 1;\n\n// why\n".repeat(600), "const B: u8 = 1;\n".repeat(99));
    assert_eq!(bad(&with_tests), [""; 0]);
    assert_eq!(bad(&format!("//{}\n", "ä".repeat(138))), [""; 0]);
    assert_eq!(bad(&format!("\n//{}\n", "ä".repeat(139))), ["bad.rs:2: 141 columns, at most 140"]);
    for left_over in LEFT_OVERS {
        assert_eq!(bad(&format!("// {left_over}: later\n")).len(), 1, "{left_over}");
    }
    for (banned, _) in BANNED {
        assert_eq!(bad(&format!("fn f() {{ x(); {banned}) }}\n")).len(), 1, "{banned}");
        assert_eq!(bad(&format!("fn f() {{ x(\"{banned}\") }} // {banned}\n")).len(), 0, "{banned} in a literal");
    }
    assert_eq!(bad("fn f() { unsafe { x() } }"), ["bad.rs:1: unsafe code in a file that is not listed for it"]);
    assert_eq!(bad("#![deny(unsafe_code)]\n// unsafe\n"), [""; 0]);
    assert_eq!(check(&[Source::new(UNSAFE[0], "fn f() {}")], &[]).len(), 1, "a needless permission");
    assert_eq!(check(&[Source::new("a/mod.rs", "")], &[]), ["a/mod.rs: a module with others inside is a.rs"]);
    assert_eq!(bad("/// What it is.\n"), ["bad.rs:1: a doc comment opens with \"What\"; name its subject"]);
    assert_eq!(bad("fn f();\n//! The same as before.\n").len(), 1);
    assert_eq!(bad("/// Whatever the table\n/// That holds.\n// What\n"), [""; 0]);
}

#[test]
fn the_ratchet_only_tightens() {
    let text = format!("fn f() {{\n{}}}\n", "    work();\n".repeat(71));
    let with = |allowed| check(&[Source::new("a.rs", &text)], &[("a.rs", allowed)]);
    assert_eq!(with(3), [""; 0]);
    assert_eq!(with(2).len(), 2, "more than allowed");
    assert_eq!(with(4), ["a.rs: the ratchet allows 4 lines over budget and 3 are needed; lower it"]);
    assert_eq!(check(&[], &[("gone.rs", 1)]).len(), 1);
}

/// Files of tests, as paths, that are neither a program of their crate's manifest nor a module of another file: they would never run.
fn unreached(sources: &[Source], manifest: impl Fn(&str) -> String) -> Vec<&str> {
    let is_reached = |source: &&Source| {
        let Some((package, file)) = source.path.split_once("/tests/").filter(|(package, _)| !package.contains("/src")) else { return true };
        let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
        let declared = format!("mod {};", name.trim_end_matches(".rs"));
        let declares = |other: &Source| {
            let Some(parent) = other.path.strip_prefix(package).and_then(|path| path.strip_prefix("/tests/")) else { return false };
            let may = if folder.is_empty() {
                !parent.contains('/')
            } else {
                parent == format!("{folder}.rs") || parent == format!("{folder}/main.rs")
            };
            may && other.text.lines().any(|line| line.trim_start().trim_start_matches("pub ") == declared)
        };
        let manifest = manifest(package);
        let is_found = folder.is_empty() && !manifest.contains("autotests = false");
        is_found || manifest.contains(&format!("\"tests/{file}\"")) || sources.iter().any(declares)
    };
    sources.iter().filter(|source| !is_reached(source)).map(|source| source.path.as_str()).collect()
}

#[test]
fn every_file_of_tests_is_part_of_a_program() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let manifest = |package: &str| std::fs::read_to_string(format!("{root}/{package}/Cargo.toml")).unwrap_or_default();
    assert_eq!(unreached(&workspace(), manifest), [""; 0]);
    let sources = [("x/tests/main.rs", "mod a;\npub mod b;"), ("x/tests/a.rs", ""), ("x/tests/b.rs", "mod c;"), ("x/tests/b/c.rs", "")];
    let lost = [("x/tests/d.rs", ""), ("x/tests/b/e.rs", ""), ("x/tests/g/main.rs", "mod h;"), ("y/tests/a.rs", "")];
    let sources: Vec<Source> = sources.iter().chain(&lost).map(|(path, text)| Source::new(path, text)).collect();
    let found = unreached(&sources, |_| "autotests = false\npath = \"tests/main.rs\"".to_owned());
    assert_eq!(found, lost.map(|(path, _)| path));
}

#[test]
fn results_are_small() {
    fn bytes(path: &std::path::Path) -> u64 {
        if path.is_file() {
            path.metadata().unwrap().len()
        } else {
            std::fs::read_dir(path).unwrap().map(|e| bytes(&e.unwrap().path())).sum()
        }
    }
    let results = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    let folders = std::fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().path());
    let sizes: Vec<(std::path::PathBuf, u64)> = folders.map(|path| (path.clone(), bytes(&path))).collect();
    for (path, size) in &sizes {
        assert!(*size <= STUDY_BYTES, "{}: {size} bytes, at most {STUDY_BYTES}; `sinter report --archive`", path.display());
    }
    let all: u64 = sizes.iter().map(|(_, size)| size).sum();
    assert!(all <= RESULTS_BYTES, "docs/results: {all} bytes, at most {RESULTS_BYTES}");
}
