//! Names of factors for people: titles of axes, and labels of values.

/// A factor: its name in plans, its title, and the unit that its values lack.
struct Factor {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
}

const fn factor(name: &'static str, title: &'static str) -> Factor {
    Factor { name, title, unit: "" }
}

/// Factors of all studies. Plans that are stored with results keep the names of their time.
const FACTORS: &[Factor] = &[
    factor("part", "part"),
    factor("experiment", "experiment"),
    factor("style", "compaction style"),
    factor("shape", "shape of the tree"),
    factor("profile", "profile"),
    factor("value", "size of values"),
    factor("families", "column families"),
    factor("runs", "sorted runs"),
    factor("base", "size of the base level"),
    factor("fan-out", "fan-out"),
    factor("strategy", "list of codecs"),
    factor("codec", "codec"),
    factor("block size", "size of blocks"),
    factor("write buffer", "size of the write buffer"),
    factor("cpus", "processors"),
    factor("memory", "memory"),
    factor("alpha", "alpha"),
    Factor { name: "age, % of a run", title: "age", unit: "% of a run" },
    factor("data from before", "data from before tiering was turned on"),
    factor("compressed", "compressed share of the cache"),
    factor("data", "size of the data"),
    factor("files", "place of the files"),
    factor("memtables:cache", "memory of memtables to cache"),
    factor("limits", "limits of the container"),
    factor("policy", "policy of zones"),
    factor("case", "keys, drive and limit of active zones"),
    factor("of", "keys, drive and limit of active zones"),
    factor("jobs", "background jobs"),
    factor("SETs", "number of SETs"),
    factor("log", "log"),
    factor("from", "length of the log at which it is rewritten"),
];

fn find(name: &str) -> Option<&'static Factor> {
    FACTORS.iter().find(|factor| factor.name == name)
}

/// Title of an axis with values of a factor. A setting, by which runs without a plan differ, has its own name.
pub fn axis(name: &str) -> String {
    match find(name) {
        Some(Factor { title, unit: "", .. }) => title.to_string(),
        Some(Factor { title, unit, .. }) => format!("{title}, {unit}"),
        None => name.to_string(),
    }
}

/// A value of a factor in a label: words speak for themselves, numbers have the title before them and the unit behind.
pub fn label(name: &str, value: &str) -> String {
    match find(name) {
        Some(_) if value.starts_with(char::is_alphabetic) => value.to_string(),
        Some(Factor { title, unit, .. }) => format!("{title} {value} {unit}").trim_end().to_string(),
        None => format!("{name} {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::plan::Scale;
    use crate::study::{catalogue, own, testing};
    use std::collections::BTreeSet;

    /// A name that only the plan's author understands is no title.
    #[test]
    fn every_factor_of_the_studies_has_a_title() {
        let plans = catalogue::STUDIES.iter().flat_map(|study| {
            let request = testing::request(catalogue::engines(study.name), 2);
            Scale::ALL.map(|scale| catalogue::study(study.name, scale, &request).unwrap())
        });
        let of_plans = plans.flat_map(|plan| plan.cells).flat_map(|cell| cell.factors.into_keys());
        let of_own = own::shapes(64 << 20).into_iter().flat_map(|tried| tried.factors).map(|(name, _)| name.to_string());
        let without: BTreeSet<String> = of_plans.chain(of_own).filter(|name| find(name).is_none()).collect();
        assert!(without.is_empty(), "factors without a title: {without:?}");
        let names: BTreeSet<&str> = FACTORS.iter().map(|factor| factor.name).collect();
        assert_eq!(names.len(), FACTORS.len(), "a factor has two titles");
        assert!(FACTORS.iter().all(|factor| factor.title.len() > 2), "a title is a word");
    }

    #[test]
    fn titles_have_units_and_labels_have_values() {
        assert_eq!((axis("case"), axis("of")), (axis("of"), "keys, drive and limit of active zones".to_string()));
        assert_eq!((axis("age, % of a run"), label("age, % of a run", "20")), ("age, % of a run".into(), "age 20 % of a run".into()));
        assert_eq!((label("policy", "sla lzr"), label("cpus", "2")), ("sla lzr".into(), "processors 2".into()));
        assert_eq!((axis("write_buffer_size"), label("wal", "false")), ("write_buffer_size".into(), "wal false".into()));
    }
}
