//! Documents show the committed figures, README and the tour of the code stay short, and the tour names files and functions that exist.

use sinter_lab::run::Answer;
use sinter_lab::study::judge::Finding;
use sinter_lab::{published, report};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Words of README, tables and code included, at most, as `wc -w` counts them.
const README_WORDS: usize = 900;
/// Words of the tour of the code, at most.
const TOUR_WORDS: usize = 1500;

/// Results from which the tables are made.
const RESULTS: [&str; 2] = ["docs/results/side-by-side", "docs/results/large-load"];
/// Documents with these tables.
const DOCUMENTS: [(&str, [&str; 3]); 2] =
    [("README.md", ["origin", "brief", "behind, brief"]), ("docs/performance.md", ["origin", "full", "behind"])];
const CHART: &str = "docs/speed.svg";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn figures_in_documents_are_the_committed_ones() {
    let folders = RESULTS.map(|folder| root().join(folder));
    let again =
        format!("sinter report {} --into {} --chart {CHART}", RESULTS.join(" "), DOCUMENTS.map(|(document, _)| document).join(" --into "));
    for (document, blocks) in DOCUMENTS {
        let text = fs::read_to_string(root().join(document)).unwrap();
        for block in blocks {
            assert!(text.contains(&format!("<!-- measured: {block} -->\n")), "{document} has no block {block:?}");
        }
        let filled = report::measured(&folders, &text).unwrap();
        assert!(filled == text, "{document} shows other figures than {RESULTS:?}; make it anew: {again}");
    }
    let chart = report::chart(&folders).unwrap();
    assert!(fs::read_to_string(root().join(CHART)).unwrap() == chart, "{CHART} shows other figures than {RESULTS:?}; {again}");
}

/// A script that prints the table of a results file, the folder of these files, the document that shows the tables, and the name of its
/// blocks.
const TABLES: [(&str, &str, &str, &str); 2] = [
    ("scripts/compare", "docs/results/db_bench", "docs/performance.md", "compared"),
    ("scripts/beside-redis", "docs/results/beside-redis", "docs/results/README.md", "beside"),
];

#[test]
fn tables_of_scripts_are_the_committed_ones() {
    for (script, folder, document, block) in TABLES {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let mut shown = 0;
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let file = entry.unwrap().path();
            let name = file.file_stem().unwrap().to_str().unwrap();
            let output = Command::new(root().join(script)).arg("--table").arg(&file).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let table = String::from_utf8(output.stdout).unwrap();
            let again = format!("{script} --table {folder}/{name}.json --into {document}");
            assert!(
                text.contains(&format!("<!-- {block}: {name} -->\n{table}<!-- end of {block} -->")),
                "{document} shows other figures: {again}"
            );
            shown += 1;
        }
        assert_eq!(text.matches(&format!("<!-- {block}: ")).count(), shown);
    }
}

/// Document with every figure and table of the published studies.
const RESULTS_README: &str = "docs/results/README.md";

/// Folders of a study: ends of their names, and words of links to their pages.
const FOLDERS: [(&str, &str); 2] = [("", "beside it"), ("-paper", "at the original's size")];

/// The committed page of a study, which has each figure, or the reason why it is not drawn; `None` without such a folder.
fn page_of(study: &published::Published, folder: &str, words: &'static str) -> Option<published::Page> {
    let path = format!("{folder}/index.html");
    let page = fs::read_to_string(root().join("docs/results").join(&path)).ok()?;
    let is_drawn = |id: &String| {
        let anchor = format!(" id=\"{id}\"");
        let places: Vec<&str> = page.lines().filter(|line| line.contains(&anchor)).collect();
        let [place] = places.as_slice() else { panic!("{path} has {} places #{id}: make it anew with sinter report", places.len()) };
        place.contains(&format!("{anchor} {}", report::WITH_OURS))
    };
    let drawn = study.figures.iter().map(|figure| figure.id.clone()).filter(is_drawn).collect();
    Some(published::Page { path, words, drawn })
}

/// Each figure of a published study has its counterpart on a committed page, or the reason why there is none. A figure without a line, and
/// a line without a figure on the page, fails.
#[test]
fn figures_of_published_studies_are_listed() {
    let path = root().join(RESULTS_README);
    let text = fs::read_to_string(&path).unwrap();
    let mut filled = text.clone();
    for name in published::names() {
        let (begin, end) = (format!("<!-- published: {name} -->\n"), "<!-- end of published -->");
        let (before, rest) = filled.split_once(&begin).unwrap_or_else(|| panic!("{RESULTS_README} has no block {name:?}"));
        let (_, after) = rest.split_once(end).unwrap();
        let study = published::published(name).unwrap();
        let pages: Vec<_> = FOLDERS.iter().filter_map(|&(tail, words)| page_of(&study, &format!("{name}{tail}"), words)).collect();
        filled = format!("{before}{begin}{}{end}{after}", study.markdown(&pages));
    }
    if std::env::var_os("REWRITE").is_some() {
        fs::write(&path, &filled).unwrap();
    } else {
        assert!(filled == text, "{RESULTS_README}: make it anew with REWRITE=1");
    }
}

/// Each committed page opens with what was found, and has a section of everything in which SinterDB is behind.
#[test]
fn pages_say_what_was_found_and_where_we_are_behind() {
    let folders = fs::read_dir(root().join("docs/results")).unwrap().map(|entry| entry.unwrap().path());
    let pages: Vec<PathBuf> = folders.map(|folder| folder.join("index.html")).filter(|page| page.exists()).collect();
    assert!(!pages.is_empty());
    for path in pages {
        let page = fs::read_to_string(&path).unwrap();
        let (head, rest) = page.split_once("<ul class=\"found\">").unwrap_or_else(|| panic!("{}: nothing was found", path.display()));
        let sentences = rest.split_once("</ul>").unwrap().0.matches("<li>").count();
        assert!((3..=6).contains(&sentences), "{}: {sentences} sentences", path.display());
        assert!(!head.contains("<figure") && !head.contains("<table"), "{}: something stands before what was found", path.display());
        assert_eq!(rest.matches("<section id=\"behind\">").count(), 1, "{}", path.display());
    }
}

/// Each rejected claim of a committed study has its cause, or a sentence which says that it is not known, in the data of the study.
#[test]
fn rejected_claims_have_causes() {
    let mut rejected = 0;
    for folder in fs::read_dir(root().join("docs/results")).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(text) = fs::read_to_string(folder.join("verdicts.json")) else { continue };
        let findings: Vec<Finding> = serde_json::from_str(&text).unwrap();
        let name = folder.file_name().unwrap().to_str().unwrap().trim_end_matches("-paper");
        let causes = published::published(name).map(|study| study.causes).unwrap_or_default();
        for verdict in findings.iter().map(|finding| &finding.verdict).filter(|verdict| verdict.verdict == Answer::Rejected) {
            assert!(causes.contains_key(&verdict.hypothesis), "{name}: no cause of {:?}", verdict.hypothesis);
            rejected += 1;
        }
    }
    assert!(rejected > 0);
}

#[test]
fn documents_stay_short() {
    for (document, most) in [("README.md", README_WORDS), (TOUR, TOUR_WORDS)] {
        let words = fs::read_to_string(root().join(document)).unwrap().split_whitespace().count();
        assert!(words <= most, "{document} has {words} words, at most {most}");
    }
}

const TOUR: &str = "ARCHITECTURE.md";

/// Complaints about the code spans of a tour. A folder below `crates` is where the files named behind it lie: `file.rs`, `folder/`, or
/// `file.rs::function`. `function()` stands in the file that was named last.
fn wrong_names(tour: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut folder, mut file) = (root(), PathBuf::new());
    for span in tour.split('`').skip(1).step_by(2) {
        let (path, function) = match (span.split_once("::"), span.strip_suffix("()")) {
            (_, Some(function)) => ("", Some(function)),
            (Some((path, function)), None) => (path, Some(function)),
            (None, None) => (span, None),
        };
        if path.ends_with('/') || path.ends_with(".rs") {
            let place = if path.starts_with("crates/") { root().join(path) } else { folder.join(path) };
            if !place.exists() {
                wrong.push(format!("{span}: no such file"));
            }
            match path.starts_with("crates/") && path.ends_with('/') {
                true => folder = place,
                false => file = place,
            }
        }
        if let Some(function) = function {
            let text = fs::read_to_string(&file).unwrap_or_default();
            if !["(", "<"].iter().any(|after| text.contains(&format!("fn {function}{after}"))) {
                wrong.push(format!("{span}: no such function in {}", file.display()));
            }
        }
    }
    wrong
}

#[test]
fn the_tour_names_files_and_functions_that_exist() {
    let wrong = wrong_names(&fs::read_to_string(root().join(TOUR)).unwrap());
    assert!(wrong.is_empty(), "{TOUR}:\n{}", wrong.join("\n"));
    let bad = |tour: &str| wrong_names(tour).len();
    assert_eq!(bad("`crates/engine/src/`, `db/`, `db.rs`, `db/write.rs::put`, `put_with()`, `Store`"), 0);
    assert_eq!(bad("`crates/engine/src/`, `none/`, `none.rs`, `db/write.rs::pu`, `pu()`, `crates/none.rs`"), 5);
}
