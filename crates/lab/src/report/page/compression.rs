//! Which compression the engines say that they had, and on which levels data lay at the end: codecs of levels without data do nothing.

use crate::report::load::{Folder, Run};
use crate::report::tables::framed;
use crate::report::text::{escape, number};
use crate::run::PhaseRecord;
use std::collections::{BTreeMap, BTreeSet};

const MIB: f64 = 1_048_576.0;

/// The table; nothing where all runs of an engine had the same, or no engine said what.
pub fn compression(folders: &[Folder]) -> String {
    let mut had: BTreeMap<(&str, String), BTreeMap<String, &Run>> = BTreeMap::new();
    for (folder, run) in folders.iter().flat_map(|folder| folder.runs.iter().map(move |run| (folder, run))) {
        let record = &run.record;
        let Some((_, cell)) = folder.planned(run).filter(|_| record.failure.is_none() && !record.compression.is_empty()) else { continue };
        let text = record.compression.iter().map(|(family, text)| format!("{family}: {text}")).collect::<Vec<_>>().join("; ");
        // The first repeat speaks for the others.
        had.entry((&record.spec.engine.name, cell.name.clone())).or_default().entry(text).or_insert(run);
    }
    let of_cells = had.iter().flat_map(|((engine, _), texts)| texts.keys().map(move |text| (*engine, text)));
    let texts: BTreeSet<(&str, &String)> = of_cells.collect();
    let engines: BTreeSet<&str> = texts.iter().map(|(engine, _)| *engine).collect();
    if texts.len() == engines.len() {
        return String::new();
    }
    let row = |engine: &str, cell: &str, text: &str, run: &Run| {
        let levels = run.record.phases.last().map_or(String::new(), levels);
        let cells = [text, &levels].map(|text| format!("<td class=\"text\">{}</td>", escape(text))).concat();
        format!("<tr><th>{}</th><th>{}</th>{cells}</tr>\n", escape(engine), escape(cell))
    };
    let rows = had.iter().flat_map(|((engine, cell), texts)| texts.iter().map(move |(text, run)| row(engine, cell, text, run)));
    let head = "<th>engine</th><th>settings</th><th>what the engine says it had</th><th>data at the end, MiB by level</th>";
    format!("<details><summary>Compression that the engines had</summary>\n{}</details>\n", framed(head, &rows.collect::<String>()))
}

/// Bytes of each level that has any.
fn levels(phase: &PhaseRecord) -> String {
    let mut bytes: BTreeMap<usize, u64> = BTreeMap::new();
    for level in phase.levels.values().flatten() {
        *bytes.entry(level.level).or_default() += level.bytes;
    }
    let named = bytes.iter().filter(|(_, bytes)| **bytes > 0).map(|(level, bytes)| format!("L{level} {}", number(*bytes as f64 / MIB)));
    named.collect::<Vec<_>>().join(", ")
}
