//! Table of compression: the codecs that the engines report, the levels on which data lay at the end (codecs of levels without data do
//! nothing), and the codecs that a choosing engine had chosen at the end of each phase.

use crate::report::load::{Folder, Run};
use crate::report::tables::framed;
use crate::report::text::{engine as engine_name, escape, number};
use crate::result::codecs_in_short;
use crate::run::PhaseRecord;
use std::collections::{BTreeMap, BTreeSet};

const MIB: f64 = 1_048_576.0;

/// Reports of a cell's runs: the engine's codecs and the codecs that it chose, each pair with a run that reported it.
type Texts<'a> = BTreeMap<(String, String), &'a Run>;

/// The table; empty where all runs of an engine had one compression, or no engine reported any.
pub fn compression(folders: &[Folder]) -> String {
    let mut had: BTreeMap<(&str, String), Texts<'_>> = BTreeMap::new();
    for (folder, run) in folders.iter().flat_map(|folder| folder.runs.iter().map(move |run| (folder, run))) {
        let record = &run.record;
        let Some((_, cell)) = folder.planned(run).filter(|_| record.failure.is_none() && !record.compression.is_empty()) else { continue };
        let text = record.compression.iter().map(|(family, text)| format!("{family}: {text}")).collect::<Vec<_>>().join("; ");
        let chosen = record.phases.iter().map(chosen).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
        // The first repeat stands for all that chose alike.
        had.entry((&record.spec.engine.name, folder.words.say(&cell.name))).or_default().entry((text, chosen)).or_insert(run);
    }
    let of_cells = had.iter().flat_map(|((engine, _), texts)| texts.keys().map(move |text| (*engine, text)));
    let texts: BTreeSet<(&str, &(String, String))> = of_cells.collect();
    let engines: BTreeSet<&str> = texts.iter().map(|(engine, _)| *engine).collect();
    if texts.len() == engines.len() && texts.iter().all(|(_, (_, chosen))| chosen.is_empty()) {
        return String::new();
    }
    let row = |engine: &str, cell: &str, (text, chosen): &(String, String), run: &Run| {
        let levels = run.record.phases.last().map_or(String::new(), levels);
        let cells = [text, &levels, chosen].map(|text| format!("<td class=\"text\">{}</td>", escape(text))).concat();
        format!("<tr><th>{}</th><th>{}</th>{cells}</tr>\n", escape(engine_name(engine)), escape(cell))
    };
    let rows = had.iter().flat_map(|((engine, cell), texts)| texts.iter().map(move |(text, run)| row(engine, cell, text, run)));
    let heads = ["engine", "settings", "what the engine says it had", "data at the end, MiB by level", "codecs it chose, by phase"];
    let head = heads.map(|name| format!("<th>{name}</th>")).concat();
    format!("<details><summary>Compression that the engines had</summary>\n{}</details>\n", framed(&head, &rows.collect::<String>()))
}

/// Codecs that the engine had chosen at the end of a phase; empty if it does not choose.
fn chosen(phase: &PhaseRecord) -> String {
    let families = phase.chosen_codecs.iter().map(|(family, text)| format!("{family} {}", codecs_in_short(text)));
    let families = families.collect::<Vec<_>>().join(", ");
    if families.is_empty() { families } else { format!("{}: {families}", phase.name) }
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
