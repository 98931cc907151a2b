//! The pages of the laboratory list the flags of its commands and the sizes of its studies. These tests compare them with the program.

use crate::bench::BenchFlags;
use crate::study::StudyFlags;
use clap::{Args, Command};
use sinter_lab::run::Limits;
use sinter_lab::study::catalogue::{STUDIES, engines, study};
use sinter_lab::study::plan::{Permits, Request, Scale};
use sinter_lab::study::servers::Servers;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab").join(name)
}

/// The names in code font in one column of the tables below the heading `## Flags`.
fn listed(text: &str, column: usize) -> BTreeSet<String> {
    let (_, section) = text.split_once("\n## Flags\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cells = section.lines().filter(|line| line.starts_with("| ")).filter_map(|row| row.split('|').nth(column));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(|name| name.trim_start_matches('-').to_owned()).collect()
}

/// The long names of a command's flags.
fn flags<T: Args>() -> BTreeSet<String> {
    let command = T::augment_args(Command::new("any"));
    command.get_arguments().filter_map(|flag| flag.get_long()).map(str::to_owned).collect()
}

#[test]
fn the_flags_of_bench_are_listed() {
    assert_eq!(listed(&std::fs::read_to_string(page("bench.md")).unwrap(), 2), flags::<BenchFlags>());
}

#[test]
fn the_flags_of_study_are_listed() {
    assert_eq!(listed(&std::fs::read_to_string(page("studies.md")).unwrap(), 1), flags::<StudyFlags>());
}

/// Cells and repeats of each study by scale, on a machine that permits everything.
fn scales() -> String {
    let mut table = String::from("| study | engines | cells: ci, small, paper | repeats: ci, small, paper |\n|---|---|---|---|\n");
    for entry in STUDIES {
        let request = Request {
            engines: vec!["sinter".into()],
            repeats: None,
            seed: 1,
            directory: ".".into(),
            limits: Limits::default(),
            permits: Permits::all(),
            servers: Servers::all(),
        };
        let sizes = Scale::ALL.map(|scale| study(entry.name, scale, &request).unwrap());
        let (cells, repeats) = (sizes.each_ref().map(|study| study.cells.len().to_string()), sizes.map(|study| study.repeats.to_string()));
        let name = entry.name;
        writeln!(table, "| [`{name}`](#{name}) | {} | {} | {} |", engines(name).join(", "), cells.join(", "), repeats.join(", ")).unwrap();
    }
    table
}

/// With `REWRITE=1` the test writes the table.
#[test]
fn every_study_is_described_with_its_scales() {
    let path = page("studies.md");
    let text = std::fs::read_to_string(&path).unwrap();
    for entry in STUDIES {
        assert!(text.contains(&format!("\n## `{}`\n", entry.name)), "{}", entry.name);
    }
    let (start, end) = ("<!-- scales -->\n", "<!-- end of scales -->\n");
    let (before, rest) = text.split_once(start).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let expected = [before, start, &scales(), end, after].concat();
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, expected).unwrap();
    } else {
        assert!(text == expected, "studies.md differs from the studies; REWRITE=1 cargo test -p sinter documentation");
    }
}
