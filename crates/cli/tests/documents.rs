//! Documents show the committed figures, and README stays short.

use sinter_lab::{published, report};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Words of README, tables and code included, at most, as `wc -w` counts them.
const README_WORDS: usize = 900;

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

/// Tables of `scripts/compare --rival`, in the document that shows them.
const COMPARED: &str = "docs/performance.md";

#[test]
fn tables_beside_db_bench_are_the_committed_ones() {
    let text = fs::read_to_string(root().join(COMPARED)).unwrap();
    let mut shown = 0;
    for entry in fs::read_dir(root().join("docs/results/db_bench")).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap();
        let output = Command::new(root().join("scripts/compare")).arg("--table").arg(&file).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let table = String::from_utf8(output.stdout).unwrap();
        let again = format!("scripts/compare --table docs/results/db_bench/{name}.json --into {COMPARED}");
        assert!(
            text.contains(&format!("<!-- compared: {name} -->\n{table}<!-- end of compared -->")),
            "{COMPARED} shows other figures: {again}"
        );
        shown += 1;
    }
    assert_eq!(text.matches("<!-- compared: ").count(), shown);
}

/// Document with every figure and table of the published studies.
const RESULTS_README: &str = "docs/results/README.md";

/// Each figure of a published study has its counterpart on a committed page, or the reason why there is none.
#[test]
fn figures_of_published_studies_are_listed() {
    let path = root().join(RESULTS_README);
    let text = fs::read_to_string(&path).unwrap();
    let mut filled = text.clone();
    for name in published::names() {
        let (begin, end) = (format!("<!-- published: {name} -->\n"), "<!-- end of published -->");
        let (before, rest) = filled.split_once(&begin).unwrap_or_else(|| panic!("{RESULTS_README} has no block {name:?}"));
        let (_, after) = rest.split_once(end).unwrap();
        let table = published::published(name).unwrap().markdown(&format!("{name}/index.html"));
        filled = format!("{before}{begin}{table}{end}{after}");
    }
    if std::env::var_os("REWRITE").is_some() {
        fs::write(&path, &filled).unwrap();
    } else {
        assert!(filled == text, "{RESULTS_README}: make it anew with REWRITE=1");
    }
}

#[test]
fn readme_stays_short() {
    let words = fs::read_to_string(root().join("README.md")).unwrap().split_whitespace().count();
    assert!(words <= README_WORDS, "README.md has {words} words, at most {README_WORDS}");
}
