//! Groups runs into cells (repeats of each other) and labels the cells by their differences. A study's plan names its cells and their
//! factors. Runs without a plan are told apart by their specs: each is flattened into parameters, and the parameters that differ within an
//! engine name the cell.

use super::load::{Folder, Run};
use super::text::engine;
use super::words::Words;
use crate::run::RunRecord;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Parameters of a run: path in the spec, or factor of the plan, and value as text.
pub type Parameters = BTreeMap<String, String>;

/// Phases that count together, by the name of the measure.
pub type Parts = BTreeMap<String, Vec<String>>;

/// Value of a parameter that a run does not mention.
const ABSENT: &str = "default";

/// Objects whose keys are names chosen by a user, never the name of an enum variant.
const MAPS: &[&str] = &["settings", "database", "operations"];

/// Fields of a spec that are no parameters: repeats differ in the seed, and cells of a page name engine and workload elsewhere.
const NOT_PARAMETERS: &[&str] = &["version", "seed", "engine.name", "workload.name"];

/// The parameter with the name of the plan's cell.
const CELL: &str = "cell";

/// Parameters of the origin of a run, which are no part of its request.
pub const ORIGIN: &[&str] = &["results", "commit", "engine.version"];

/// Runs with equal parameters.
pub struct Cell<'a> {
    /// The engine's name.
    pub engine: String,
    /// Parameters that differ from the other cells of the workload, such as `universal, wal off`; empty if none does.
    pub label: String,
    /// Candidates for the axes of a sweep: the parameters of the label, or the factors of the plan.
    pub factors: Parameters,
    /// Measures of the cell, each with its phases.
    pub parts: Parts,
    /// Repeats that did not fail.
    pub runs: Vec<&'a Run>,
    /// Parameters in the label.
    parameters: Parameters,
    phrases: Parameters,
    order: usize,
}

impl Cell<'_> {
    /// Engine and label, for people.
    pub fn name(&self) -> String {
        let engine = engine(&self.engine);
        if self.label.is_empty() { engine.into() } else { format!("{engine}: {}", self.label) }
    }

    /// The label without the parameters of [`ORIGIN`]: equal for cells that ran the same request.
    pub fn request(&self) -> String {
        join(self.phrases.iter().filter(|(name, _)| !ORIGIN.contains(&name.as_str())))
    }

    /// Folder of the cell's runs, where several folders are compared.
    pub fn folder(&self) -> Option<&str> {
        self.parameters.get("results").map(String::as_str)
    }
}

fn join<'a>(phrases: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    phrases.map(|(_, phrase)| phrase.as_str()).collect::<Vec<_>>().join(", ")
}

/// All cells of a workload, in the order of the plan or of their parameters.
pub struct Workload<'a> {
    /// Name of the workload, in words.
    pub name: String,
    /// Engines in it, sorted.
    pub engines: Vec<String>,
    /// The cells.
    pub cells: Vec<Cell<'a>>,
}

impl<'a> Workload<'a> {
    /// The cells of an engine.
    pub fn of(&self, engine: &str) -> impl Iterator<Item = &Cell<'a>> {
        self.cells.iter().filter(move |cell| cell.engine == engine)
    }
}

/// A run with the parameters that distinguish it from others.
struct Described<'a> {
    run: &'a Run,
    words: &'a Words,
    parameters: Parameters,
    factors: Option<Parameters>,
    parts: Parts,
    order: usize,
}

/// Parameters of every run by its spec, in order.
pub fn parameters(folders: &[Folder]) -> Vec<(&Folder, &Run, Parameters)> {
    let runs = folders.iter().flat_map(|folder| folder.runs.iter().map(move |run| (folder, run)));
    runs.map(|(folder, run)| {
        let mut parameters = origin(folders, folder, run);
        // A spec always serialises; an empty value would only mean that nothing distinguishes the runs.
        flatten("", &serde_json::to_value(&run.record.spec).unwrap_or_default(), &mut parameters);
        parameters.retain(|name, _| !NOT_PARAMETERS.contains(&name.as_str()));
        (folder, run, parameters)
    })
    .collect()
}

fn origin(folders: &[Folder], folder: &Folder, run: &Run) -> Parameters {
    let commit = commit(&run.record);
    let mut origin = Parameters::from([("engine.version".into(), run.record.engine_version.clone()), ("commit".into(), commit)]);
    if folders.len() > 1 {
        origin.insert("results".into(), folder.name.clone());
    }
    origin
}

/// Twelve digits of the commit's hash, and `-dirty` if the sources differed from it.
pub fn commit(record: &RunRecord) -> String {
    let Some(commit) = &record.commit else { return "unknown".into() };
    let (hash, differs) = commit.split_once('-').map_or((commit.as_str(), ""), |(hash, _)| (hash, "-dirty"));
    hash.chars().take(12).chain(differs.chars()).collect()
}

/// Describes runs by the plans of their folders; `None` if one is in no plan.
fn planned(folders: &[Folder]) -> Option<Vec<Described<'_>>> {
    let runs = folders.iter().flat_map(|folder| folder.runs.iter().map(move |run| (folder, run)));
    let described = runs.map(|(folder, run)| {
        let (order, cell) = folder.planned(run)?;
        let mut parameters = origin(folders, folder, run);
        parameters.insert(CELL.into(), cell.name.clone());
        let parts = cell.measures.clone();
        Some(Described { run, words: &folder.words, parameters, factors: Some(cell.factors.clone()), parts, order })
    });
    described.collect()
}

/// Describes runs by their specs.
fn unplanned(folders: &[Folder]) -> Vec<Described<'_>> {
    let described = parameters(folders).into_iter().map(|(folder, run, parameters)| {
        let phases = run.record.phases.iter().map(|phase| phase.name.clone()).collect();
        let parts = Parts::from([("all phases".into(), phases)]);
        Described { run, words: &folder.words, parameters, factors: None, parts, order: 0 }
    });
    described.collect()
}

/// All runs with their parameters and the plan's factors, and the names of those that differ between the runs.
pub fn varied(folders: &[Folder]) -> (BTreeSet<String>, Vec<(&Folder, &Run, Parameters)>) {
    let described = planned(folders).unwrap_or_else(|| unplanned(folders));
    let owners = folders.iter().flat_map(|folder| folder.runs.iter().map(move |_| folder));
    let runs = owners.zip(described).map(|(folder, Described { run, mut parameters, factors, .. })| {
        parameters.remove(CELL);
        let unplanned = || Parameters::from([("workload".into(), run.record.spec.workload.name.clone())]);
        parameters.extend(factors.unwrap_or_else(unplanned));
        (folder, run, parameters)
    });
    let runs: Vec<_> = runs.collect();
    (differing(&runs.iter().map(|(.., parameters)| parameters).collect::<Vec<_>>()), runs)
}

/// The workloads of all runs that did not fail, in the order of the plan or of their names.
pub fn workloads(folders: &[Folder]) -> Vec<Workload<'_>> {
    let mut by_name: BTreeMap<&str, Vec<Described<'_>>> = BTreeMap::new();
    for described in planned(folders).unwrap_or_else(|| unplanned(folders)) {
        if described.run.record.failure.is_none() {
            by_name.entry(&described.run.record.spec.workload.name).or_default().push(described);
        }
    }
    let mut workloads: Vec<Workload<'_>> = by_name.into_iter().map(|(name, runs)| workload(name, runs)).collect();
    workloads.sort_by_key(|workload| workload.cells.iter().map(|cell| cell.order).min());
    workloads
}

fn workload<'a>(name: &str, runs: Vec<Described<'a>>) -> Workload<'a> {
    let title = runs.first().map_or_else(|| name.to_string(), |described| described.words.say(name));
    let engine = |run: &Run| run.record.spec.engine.name.clone();
    let engines: BTreeSet<String> = runs.iter().map(|described| engine(described.run)).collect();
    let within = |e: &String| differing(runs.iter().filter(|d| engine(d.run) == *e).map(|d| &d.parameters).collect::<Vec<_>>().as_slice());
    let varied: BTreeSet<String> = engines.iter().flat_map(within).collect();
    let mut cells: Vec<Cell<'a>> = Vec::new();
    for Described { run, words, parameters: all, factors, parts, order } in runs {
        let value = |name: &String| all.get(name).cloned().unwrap_or_else(|| ABSENT.into());
        let parameters: Parameters = varied.iter().map(|name| (name.clone(), value(name))).collect();
        match cells.iter_mut().find(|cell| cell.engine == engine(run) && cell.parameters == parameters) {
            Some(cell) => cell.runs.push(run),
            None => {
                let phrases: Parameters =
                    parameters.iter().map(|(name, v)| (name.clone(), said(words, &short(name, &varied), v))).collect();
                let label = join(phrases.iter());
                let in_words = |factors: Parameters| factors.into_iter().map(|(name, value)| (name, words.say(&value))).collect();
                let factors = factors.map_or_else(|| parameters.clone(), in_words);
                cells.push(Cell { engine: engine(run), label, factors, parts, runs: vec![run], parameters, phrases, order });
            }
        }
    }
    cells.sort_by(|a, b| {
        let parameters = by_parameters(&a.parameters, &b.parameters);
        a.order.cmp(&b.order).then(parameters).then_with(|| a.engine.cmp(&b.engine))
    });
    Workload { name: title, engines: engines.into_iter().collect(), cells }
}

/// A parameter in a label; the name of a cell in words.
fn said(words: &Words, name: &str, value: &str) -> String {
    let phrase = phrase(name, value);
    if name == CELL { words.say(&phrase) } else { phrase }
}

/// Names of parameters that differ, or are missing, in some of the runs.
pub fn differing(runs: &[&Parameters]) -> BTreeSet<String> {
    let names: BTreeSet<&String> = runs.iter().flat_map(|parameters| parameters.keys()).collect();
    let values = |name: &String| runs.iter().map(|parameters| parameters.get(name)).collect::<BTreeSet<_>>().len();
    names.into_iter().filter(|name| values(name) > 1).cloned().collect()
}

/// Shortest tail of a path, in whole segments, that no other path of `among` ends with.
pub fn short(path: &str, among: &BTreeSet<String>) -> String {
    let starts = path.rmatch_indices('.').map(|(at, _)| at + 1).chain([0]);
    let unique = |tail: &str| among.iter().all(|other| other == path || !(other == tail || other.ends_with(&format!(".{tail}"))));
    starts.map(|start| &path[start..]).find(|tail| unique(tail)).unwrap_or(path).into()
}

/// A parameter in a label: words speak for themselves, numbers and switches need their name.
pub fn phrase(name: &str, value: &str) -> String {
    match value {
        value if name == CELL => value.into(),
        "true" => format!("{name} on"),
        "false" => format!("{name} off"),
        word if word != ABSENT && word.starts_with(|c: char| c.is_alphabetic()) && !word.contains(' ') => word.into(),
        _ => format!("{name} {value}"),
    }
}

/// Compares values as numbers with units where both are; `default` comes first, then numbers, then words.
pub fn natural(a: &str, b: &str) -> Ordering {
    match (magnitude(a), magnitude(b)) {
        _ if a == ABSENT || b == ABSENT => (b == ABSENT).cmp(&(a == ABSENT)),
        (Some(x), Some(y)) => x.total_cmp(&y),
        (x, y) => y.is_some().cmp(&x.is_some()).then_with(|| a.cmp(b)),
    }
}

/// The number in `16`, `64MiB` or `fixed 1024`.
fn magnitude(text: &str) -> Option<f64> {
    let word = text.split_whitespace().last().filter(|_| text.split_whitespace().count() <= 2)?;
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

/// Collects the leaves of a tree by their paths. Elements of lists go by their names if they have any; a variant with data reads
/// `name data`.
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
        let among: BTreeSet<String> = paths.iter().cloned().collect();
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
