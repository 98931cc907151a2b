//! The pages of docs/engine name settings that exist. `REWRITE=1` writes the tables of settings.md from the code.

use super::super::Settings;
use super::super::field::{DB, FAMILY};
use super::super::reference::reference;
use std::path::{Path, PathBuf};

fn pages() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/engine");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension() == Some("md".as_ref()))
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn the_tables_of_settings_are_those_of_the_code() {
    let (path, text) = pages().into_iter().find(|(path, _)| path.ends_with("settings.md")).unwrap();
    let (start, end) = ("<!-- settings -->\n", "<!-- end of settings -->\n");
    let (before, rest) = text.split_once(start).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let expected = [before, start, &reference(), end, after].concat();
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, expected).unwrap();
    } else {
        assert!(text == expected, "docs/engine/settings.md is behind the code; REWRITE=1 cargo test -p sinterdb --lib documentation");
    }
}

#[test]
fn settings_in_tables_exist() {
    let budgets = ["memory", "space_amplification"];
    let known: Vec<&str> = DB.iter().map(|f| f.name).chain(FAMILY.iter().map(|f| f.name)).chain(budgets).collect();
    let mut rows = 0;
    for (path, text) in pages() {
        let mut is_table = false;
        for line in text.lines() {
            let first = line.strip_prefix("| ").and_then(|row| row.split_once(" |")).map(|(cell, _)| cell);
            is_table = first == Some("setting") || is_table && line.starts_with('|');
            let Some(cell) = first.filter(|cell| is_table && *cell != "setting") else { continue };
            for name in cell.split('`').skip(1).step_by(2) {
                let name = name.split_once(" =").map_or(name, |(name, _)| name);
                assert!(known.contains(&name), "{}: there is no setting {name}", path.display());
                rows += 1;
            }
        }
    }
    assert!(rows > known.len(), "settings.md lists all of them, other pages some");
}

#[test]
fn examples_of_settings_are_accepted() {
    let mut examples = 0;
    for (path, text) in pages() {
        for block in text.split("```toml\n").skip(1) {
            let toml = block.split_once("```").unwrap().0;
            assert_eq!(Settings::from_toml(toml).err(), None, "{}:\n{toml}", path.display());
            examples += 1;
        }
    }
    assert!(examples > 0);
}
