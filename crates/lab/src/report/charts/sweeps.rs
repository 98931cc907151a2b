//! Heat maps of cells that form a whole grid over two parameters, all other parameters being equal.

use super::bars::height;
use super::{Chart, LABEL_WIDTH, number};
use crate::report::cells::{Cell, Parameters, Workload, differing, natural, short};
use crate::report::measures::{Measure, SPACE_AMPLIFICATION, WRITE_AMPLIFICATION, titled};
use crate::report::text::{engine, escape, wrap};
use crate::statistics::mean;
use crate::study::factor;
use crate::study::metric::Metric;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Fewest cells of a heat map: two values of two parameters are read better as bars.
const LEAST_CELLS: usize = 6;
/// Characters per line of a column's label.
const COLUMN_WIDTH: usize = 12;
/// Height of a row, pixels.
const ROW: usize = 30;
const TITLE: usize = 20;

/// Cells that differ in two parameters only, one for each pair of values.
struct Grid<'a> {
    across: String,
    down: String,
    /// Values of the other parameters, as text.
    others: String,
    cells: Vec<&'a Cell<'a>>,
}

/// Heat maps for every engine, grid and part: write amplification, space amplification, and the metrics `swept` of the studies.
pub fn sweeps(workloads: &[Workload<'_>], swept: &[Metric]) -> Vec<Chart> {
    let engines: BTreeSet<&String> = workloads.iter().flat_map(|workload| &workload.engines).collect();
    let mut charts = Vec::new();
    for engine in engines {
        for grid in grids(workloads.iter().flat_map(|workload| workload.of(engine)).collect()) {
            for part in grid.parts() {
                let next = |charts: &Vec<Chart>| format!("sweep-{}", charts.len());
                for Measure { name, meaning, of, .. } in [WRITE_AMPLIFICATION, SPACE_AMPLIFICATION] {
                    charts.extend(grid.chart(next(&charts), &part, (name, meaning), |cell| cell.values(&part, of)));
                }
                for metric in swept {
                    let title = titled(*metric);
                    charts.extend(grid.chart(next(&charts), &part, (&title, "phases together"), |cell| cell.figures(&part, *metric)));
                }
            }
        }
    }
    charts
}

/// The whole grids of the pair of parameters whose grids hold the most cells; the parameter with more values goes across.
fn grids<'a>(cells: Vec<&'a Cell<'a>>) -> Vec<Grid<'a>> {
    let factors: Vec<&Parameters> = cells.iter().map(|cell| &cell.factors).collect();
    let varied = differing(&factors);
    let pairs = varied.iter().flat_map(|a| varied.iter().filter(move |b| a < *b).map(move |b| (a, b)));
    let found = pairs.map(|(a, b)| {
        let others: BTreeSet<Vec<Option<&String>>> = cells.iter().map(|cell| rest(cell, &varied, a, b)).collect();
        let facets = others.into_iter().filter_map(|other| {
            let cells: Vec<&Cell<'_>> = cells.iter().copied().filter(|cell| rest(cell, &varied, a, b) == other).collect();
            Grid::whole(cells, &varied, a, b)
        });
        facets.collect::<Vec<_>>()
    });
    let size = |grids: &Vec<Grid<'_>>| grids.iter().map(|grid| grid.cells.len()).sum::<usize>();
    // `max_by_key` takes the last of equals; the first is easier to predict.
    found.reduce(|best, next| if size(&next) > size(&best) { next } else { best }).unwrap_or_default()
}

fn rest<'a>(cell: &'a Cell<'_>, varied: &BTreeSet<String>, a: &String, b: &String) -> Vec<Option<&'a String>> {
    varied.iter().filter(|name| *name != a && *name != b).map(|name| cell.factors.get(name)).collect()
}

fn values(cells: &[&Cell<'_>], name: &str) -> Vec<String> {
    let found: BTreeSet<&String> = cells.iter().filter_map(|cell| cell.factors.get(name)).collect();
    let mut values: Vec<String> = found.into_iter().cloned().collect();
    values.sort_by(|a, b| natural(a, b));
    values
}

impl<'a> Grid<'a> {
    fn whole(cells: Vec<&'a Cell<'a>>, varied: &BTreeSet<String>, a: &str, b: &str) -> Option<Self> {
        let (as_, bs) = (values(&cells, a), values(&cells, b));
        let pairs: BTreeSet<_> = cells.iter().filter_map(|cell| Some((cell.factors.get(a)?, cell.factors.get(b)?))).collect();
        let whole = as_.len() > 1 && bs.len() > 1 && as_.len() * bs.len() == cells.len() && pairs.len() == cells.len();
        if !whole || cells.len() < LEAST_CELLS {
            return None;
        }
        let other = |name: &&String| name.as_str() != a && name.as_str() != b;
        let labels = varied.iter().filter(other);
        let labels = labels.filter_map(|name| Some(factor::label(&short(name, varied), cells.first()?.factors.get(name)?)));
        let others = labels.collect::<Vec<_>>().join(", ");
        let (across, down) = if as_.len() > bs.len() { (a, b) } else { (b, a) };
        Some(Grid { across: across.into(), down: down.into(), others, cells })
    }

    /// Measures that all cells of the grid have.
    fn parts(&self) -> Vec<String> {
        let all = |name: &&String| self.cells.iter().all(|cell| cell.parts.contains_key(*name));
        self.cells.first().map(|cell| cell.parts.keys().filter(all).cloned().collect()).unwrap_or_default()
    }

    /// The heat map of one figure; `None` where no cell has it. `about`: its name and meaning.
    fn chart(&self, id: String, part: &str, about: (&str, &str), values_of: impl Fn(&Cell<'_>) -> Vec<f64>) -> Option<Chart> {
        let (columns, rows) = (values(&self.cells, &self.across), values(&self.cells, &self.down));
        let value = |row: &String, column: &String| {
            let here = |cell: &&&Cell<'_>| cell.factors.get(&self.across) == Some(column) && cell.factors.get(&self.down) == Some(row);
            self.cells.iter().find(here).and_then(|cell| mean(&values_of(cell))).map_or(Value::Null, number)
        };
        let z: Vec<Vec<Value>> = rows.iter().map(|row| columns.iter().map(|column| value(row, column)).collect()).collect();
        if z.iter().flatten().all(Value::is_null) {
            return None;
        }
        let [across, down] = [&self.across, &self.down].map(|name| name.rsplit('.').next().unwrap_or(name));
        let names: Vec<String> = rows.iter().map(|row| wrap(&factor::label(down, row), LABEL_WIDTH)).collect();
        let columns: Vec<String> = columns.iter().map(|column| wrap(column, COLUMN_WIDTH)).collect();
        let layout = json!({
            "height": height(names.iter(), ROW) + TITLE,
            "xaxis": { "title": { "text": escape(&factor::axis(across)) } },
        });
        let data = json!({ "type": "heatmap", "x": columns, "y": names, "z": z });
        let engine = self.cells.first().map_or("", |cell| engine(&cell.engine));
        let others = if self.others.is_empty() { String::new() } else { format!("; {}", self.others) };
        let note = format!("{part}; {}; mean of repeats; {} by {}{others}", about.1, factor::axis(down), factor::axis(across));
        Some(Chart { id, title: format!("{engine}: {}", about.0), note, data: vec![data], layout })
    }
}
