//! Charts of one figure per cell.

use super::{Chart, LABEL_WIDTH, numbers};
use crate::report::cells::{Cell, Workload};
use crate::report::text::{color, engine, escape, wrap};
use crate::statistics::{CONFIDENCE, Summary, summarise};
use crate::study::metric::by_cause;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Height of a bar, pixels.
const BAR: usize = 22;
const LINE: usize = 15;
const AXES: usize = 70;
/// Number of colours for causes.
const CAUSES: usize = 8;

/// One horizontal bar per cell: the mean of its repeats and the interval of that mean; a colour per engine.
pub fn bars(id: String, title: &str, meaning: &str, workload: &Workload<'_>, values: impl Fn(&Cell<'_>) -> Vec<f64>) -> Option<Chart> {
    let plain = workload.cells.iter().all(|cell| cell.label.is_empty());
    let place = |cell: &Cell<'_>| wrap(if plain { engine(&cell.engine) } else { &cell.label }, LABEL_WIDTH);
    let mut data = Vec::new();
    for name in &workload.engines {
        let found: Vec<(String, Summary)> =
            workload.of(name).filter_map(|cell| Some((place(cell), summarise(&values(cell), CONFIDENCE)?))).collect();
        if found.is_empty() {
            continue;
        }
        let up = found.iter().map(|(_, s)| s.interval.map_or(0.0, |i| i.high - s.mean));
        // No figure is below 0, although an interval of few values may reach below.
        let down = found.iter().map(|(_, s)| s.interval.map_or(0.0, |i| s.mean - i.low.max(0.0)));
        data.push(json!({
            "type": "bar", "name": escape(engine(name)), "color": color(name),
            "y": found.iter().map(|(place, _)| place).collect::<Vec<_>>(),
            "x": numbers(found.iter().map(|(_, s)| s.mean)),
            "error_x": { "array": numbers(up), "arrayminus": numbers(down) },
        }));
    }
    let places: BTreeSet<String> = workload.cells.iter().map(place).collect();
    let thick = if plain { BAR } else { BAR * workload.engines.len() };
    let layout = json!({
        "barmode": if plain { "overlay" } else { "group" },
        "height": height(places.iter(), thick),
        "showlegend": !plain && workload.engines.len() > 1,
    });
    let note = format!("{meaning}; mean of repeats, with its 95 % interval");
    (!data.is_empty()).then(|| Chart { id, title: title.into(), note, data, layout })
}

/// Height of a chart with these labels and at least `thick` for each, pixels.
pub fn height<'a>(labels: impl Iterator<Item = &'a String>, thick: usize) -> usize {
    AXES + labels.map(|label| (label.matches("<br>").count() + 1) * LINE).map(|lines| lines.max(thick) + 10).sum::<usize>()
}

/// Write amplification by cause, stacked: the mean of each cause, so that a stack is as long as the mean of its repeats. Compactions are
/// split by their output level.
pub fn causes(id: String, workload: &Workload<'_>, part: &str) -> Option<Chart> {
    let ledgers: Vec<(String, BTreeMap<String, f64>)> =
        workload.cells.iter().filter_map(|cell| Some((cell.name(), ledger(cell, part)?))).collect();
    let mut names: Vec<&String> = ledgers.iter().flat_map(|(_, ledger)| ledger.keys()).collect::<BTreeSet<_>>().into_iter().collect();
    names.sort_by_key(|name| ["wal", "flush"].iter().position(|first| first == name).unwrap_or(2));
    let places: Vec<String> = ledgers.iter().map(|(name, _)| wrap(name, LABEL_WIDTH)).collect();
    let bars = |(place, name): (usize, &&String)| {
        let parts = ledgers.iter().map(|(_, ledger)| ledger.get(*name).copied().unwrap_or(0.0));
        json!({ "type": "bar", "name": escape(name), "color": format!("k{}", place % CAUSES), "y": places, "x": numbers(parts) })
    };
    let layout = json!({
        "barmode": "stack",
        "height": height(places.iter(), BAR),
        "showlegend": true,
    });
    let data: Vec<Value> = names.iter().enumerate().map(bars).collect();
    let note = "bytes written per user byte; mean of repeats".into();
    (!data.is_empty()).then(|| Chart { id, title: "write amplification by cause".into(), note, data, layout })
}

/// Mean write amplification of each cause.
fn ledger(cell: &Cell<'_>, part: &str) -> Option<BTreeMap<String, f64>> {
    let repeats: Vec<BTreeMap<String, f64>> = cell.parts(part).filter_map(|part| by_cause(part.run, part.phases)).collect();
    let mut means = BTreeMap::new();
    for (cause, share) in repeats.iter().flatten() {
        *means.entry(cause.clone()).or_default() += share / repeats.len() as f64;
    }
    (!means.is_empty()).then_some(means)
}
