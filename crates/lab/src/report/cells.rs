//! Which runs are repeats of each other, and what tells the others apart. Nothing here knows what a study varies: a run's spec is
//! flattened into parameters, and those that differ within an engine name the cell.

use super::load::{Folder, Run};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Parameters of a run: path in the spec, and value as text.
pub type Parameters = BTreeMap<String, String>;

/// What a parameter says that a run does not mention.
const ABSENT: &str = "default";

/// Objects whose keys are names that a user chose: never the name of a variant.
const MAPS: &[&str] = &["settings", "database", "operations"];

/// What is told elsewhere: repeats differ in their seed, cells of a page in engine and workload.
const NOT_PARAMETERS: &[&str] = &["version", "seed", "engine.name", "workload.name"];

/// Runs with equal parameters.
pub struct Cell<'a> {
    /// The engine's name.
    pub engine: String,
    /// What it differs in from the others of its workload, such as `universal, wal off`; empty if in nothing.
    pub label: String,
    /// The parameters of the label.
    pub parameters: Parameters,
    /// Its repeats that did not fail.
    pub runs: Vec<&'a Run>,
}

impl Cell<'_> {
    /// Engine and label.
    pub fn name(&self) -> String {
        if self.label.is_empty() { self.engine.clone() } else { format!("{}: {}", self.engine, self.label) }
    }
}

/// All cells of a workload, in the order of their parameters.
pub struct Workload<'a> {
    /// Its name.
    pub name: String,
    /// Engines in it, sorted.
    pub engines: Vec<String>,
    /// The cells.
    pub cells: Vec<Cell<'a>>,
}

impl Workload<'_> {
    /// Labels, each once, in the order of the cells.
    pub fn labels(&self) -> Vec<&str> {
        let mut labels: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !labels.contains(&cell.label.as_str()) {
                labels.push(&cell.label);
            }
        }
        labels
    }

    /// The cells of an engine.
    pub fn of<'b>(&'b self, engine: &'b str) -> impl Iterator<Item = &'b Cell<'b>> {
        self.cells.iter().filter(move |cell| cell.engine == engine)
    }
}

/// Parameters of every run, in order, and the folder they are from.
pub fn parameters(folders: &[Folder]) -> Vec<(&Run, Parameters)> {
    let runs = folders.iter().flat_map(|folder| folder.runs.iter().map(move |run| (folder, run)));
    runs.map(|(folder, run)| {
        let mut parameters = Parameters::new();
        // The spec is a tree of numbers and strings by construction; if it were not, there would be nothing to tell runs apart by.
        flatten("", &serde_json::to_value(&run.record.spec).unwrap_or_default(), &mut parameters);
        parameters.retain(|name, _| !NOT_PARAMETERS.contains(&name.as_str()));
        parameters.insert("engine.version".into(), run.record.engine_version.clone());
        parameters.insert("commit".into(), run.record.commit.as_deref().map_or("unknown".into(), |c| c.chars().take(12).collect()));
        if folders.len() > 1 {
            parameters.insert("results".into(), folder.name.clone());
        }
        (run, parameters)
    })
    .collect()
}

/// The workloads of all runs that did not fail.
pub fn workloads(folders: &[Folder]) -> Vec<Workload<'_>> {
    let mut by_name: BTreeMap<&str, Vec<(&Run, Parameters)>> = BTreeMap::new();
    for (run, parameters) in parameters(folders).into_iter().filter(|(run, _)| run.record.failure.is_none()) {
        by_name.entry(&run.record.spec.workload.name).or_default().push((run, parameters));
    }
    by_name.into_iter().map(|(name, runs)| workload(name, &runs)).collect()
}

fn workload<'a>(name: &str, runs: &[(&'a Run, Parameters)]) -> Workload<'a> {
    let engine = |run: &Run| run.record.spec.engine.name.clone();
    let engines: BTreeSet<String> = runs.iter().map(|(run, _)| engine(run)).collect();
    let varied: BTreeSet<&String> = engines.iter().flat_map(|e| differing(runs.iter().filter(|(run, _)| engine(run) == *e))).collect();
    let mut cells: Vec<Cell<'a>> = Vec::new();
    for (run, all) in runs {
        let value = |name: &String| all.get(name).cloned().unwrap_or_else(|| ABSENT.into());
        let parameters: Parameters = varied.iter().map(|name| ((*name).clone(), value(name))).collect();
        match cells.iter_mut().find(|cell| cell.engine == engine(run) && cell.parameters == parameters) {
            Some(cell) => cell.runs.push(run),
            None => {
                let label = parameters.iter().map(|(name, value)| phrase(&short(name, &varied), value)).collect::<Vec<_>>().join(", ");
                cells.push(Cell { engine: engine(run), label, parameters, runs: vec![run] });
            }
        }
    }
    cells.sort_by(|a, b| by_parameters(&a.parameters, &b.parameters).then_with(|| a.engine.cmp(&b.engine)));
    Workload { name: name.into(), engines: engines.into_iter().collect(), cells }
}

/// Parameters that do not have one value in all of these runs.
pub fn differing<'a, 'r: 'a>(runs: impl Iterator<Item = &'a (&'r Run, Parameters)> + Clone) -> BTreeSet<&'a String> {
    let names: BTreeSet<&String> = runs.clone().flat_map(|(_, parameters)| parameters.keys()).collect();
    let values = |name: &String| runs.clone().map(|(_, parameters)| parameters.get(name)).collect::<BTreeSet<_>>().len();
    names.into_iter().filter(|name| values(name) > 1).collect()
}

/// As many last segments of a path as tell it from the other paths.
pub fn short(path: &str, among: &BTreeSet<&String>) -> String {
    let starts = path.rmatch_indices('.').map(|(at, _)| at + 1).chain([0]);
    let unique = |tail: &str| among.iter().all(|other| *other == path || !(*other == tail || other.ends_with(&format!(".{tail}"))));
    starts.map(|start| &path[start..]).find(|tail| unique(tail)).unwrap_or(path).into()
}

/// A parameter in a label: words speak for themselves, numbers and switches need their name.
fn phrase(name: &str, value: &str) -> String {
    match value {
        "true" => format!("{name} on"),
        "false" => format!("{name} off"),
        word if word != ABSENT && word.starts_with(|c: char| c.is_alphabetic()) && !word.contains(' ') => word.into(),
        _ => format!("{name} {value}"),
    }
}

/// Compares values as numbers with units where they are such; what is absent comes first, then numbers, then words.
pub fn natural(a: &str, b: &str) -> Ordering {
    match (magnitude(a), magnitude(b)) {
        _ if a == ABSENT || b == ABSENT => (b == ABSENT).cmp(&(a == ABSENT)),
        (Some(x), Some(y)) => x.total_cmp(&y),
        (x, y) => y.is_some().cmp(&x.is_some()).then_with(|| a.cmp(b)),
    }
}

/// The last number in a text, such as `64MiB`, `16` or `fixed 1024`.
fn magnitude(text: &str) -> Option<f64> {
    let word = text.split_whitespace().last()?;
    let digits = word.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).unwrap_or(word.len());
    let (number, unit) = word.split_at(digits);
    let shift = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * f64::from(shift).exp2())
}

fn by_parameters(a: &Parameters, b: &Parameters) -> Ordering {
    let pairs = a.values().zip(b.values());
    pairs.map(|(a, b)| natural(a, b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Leaves of a tree by their path. Elements of lists are called by their name if they have one; a variant with data reads `name data`.
fn flatten(path: &str, value: &Value, found: &mut Parameters) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Null => {}
        Value::Array(list) if list.iter().all(|v| !v.is_object()) => {
            let text = list.iter().map(scalar).collect::<Vec<_>>().join(" to ");
            found.insert(path.into(), text);
        }
        Value::Array(list) => {
            for (i, item) in list.iter().enumerate() {
                let name = item.get("name").and_then(Value::as_str).map_or_else(|| i.to_string(), str::to_owned);
                flatten(&below(&name), item, found);
            }
        }
        Value::Object(map) => match variant(path, map) {
            Some(text) => drop(found.insert(path.into(), text)),
            None => map.iter().for_each(|(name, value)| flatten(&below(name), value, found)),
        },
        leaf => drop(found.insert(path.into(), scalar(leaf))),
    }
}

/// `{"fixed": 100}` as `fixed 100`.
fn variant(path: &str, map: &serde_json::Map<String, Value>) -> Option<String> {
    let is_map = MAPS.iter().any(|name| path == *name || path.ends_with(&format!(".{name}")));
    let (name, value) = map.iter().next().filter(|_| map.len() == 1 && !is_map)?;
    match value {
        Value::Number(_) => Some(format!("{name} {}", scalar(value))),
        Value::Array(list) if list.iter().all(Value::is_number) => {
            Some(format!("{name} {}", list.iter().map(scalar).collect::<Vec<_>>().join(" to ")))
        }
        _ => None,
    }
}

fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_spec_becomes_paths() {
        let mut found = Parameters::new();
        let families = json!([{ "name": "hot", "settings": { "write_buffer_size": "8MiB" } }]);
        flatten("", &json!({ "families": families, "value_size": { "fixed": 100 }, "range": [0.0, 0.5], "none": null }), &mut found);
        let expected = [("families.hot.name", "hot"), ("families.hot.settings.write_buffer_size", "8MiB"), ("range", "0.0 to 0.5")];
        let expected = expected.into_iter().chain([("value_size", "fixed 100")]);
        assert_eq!(found, expected.map(|(a, b)| (a.into(), b.into())).collect());
    }

    #[test]
    fn names_are_as_short_as_they_can_be() {
        let paths = ["families.hot.settings.size", "families.cold.settings.size", "wal"].map(str::to_owned);
        let among: BTreeSet<&String> = paths.iter().collect();
        assert_eq!(short("wal", &among), "wal");
        assert_eq!(short(&paths[0], &among), "hot.settings.size");
    }

    #[test]
    fn values_are_in_the_order_of_their_sizes() {
        let mut values = ["universal", "256MiB", "4096", "1GiB", "default", "64MiB"];
        values.sort_by(|a, b| natural(a, b));
        assert_eq!(values, ["default", "4096", "64MiB", "256MiB", "1GiB", "universal"]);
    }
}
