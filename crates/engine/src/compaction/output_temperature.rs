//! Temperatures of a merge's outputs by key range, if they go by age: young data at some keys must not make outputs at other keys hot. So
//! an output has the age of the newest input that meets it, in steps of the tables of the oldest input, which are most of what is written.
//! A stretch ends where the next step has another temperature.

use super::Input;
use crate::manifest::TableInfo;
use sinter_storage::store::Temperature;
use std::sync::Arc;

/// Keys whose outputs are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Temperature of the outputs.
    pub temperature: Temperature,
    /// Oldest and newest write time of the data that may be in them, unix seconds; 0: unknown.
    pub times: (u64, u64),
}

/// All keys of a merge, divided into stretches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretches {
    /// First keys of all but the first stretch.
    starts: Vec<Vec<u8>>,
    all: Vec<Stretch>,
}

impl Stretches {
    /// One stretch for all keys.
    pub fn one(temperature: Temperature, times: (u64, u64)) -> Stretches {
        Stretches { starts: Vec::new(), all: vec![Stretch { temperature, times }] }
    }

    /// Stretches of a merge of `inputs`, newest first; `temperature` maps the newest write time of data to its temperature.
    pub fn of(inputs: &[Input], temperature: impl Fn(u64) -> Temperature) -> Stretches {
        let steps = inputs.last().map_or(&[][..], |oldest| &oldest.tables);
        let mut stretches = Stretches { starts: Vec::new(), all: Vec::new() };
        for (i, table) in steps.iter().enumerate() {
            let from = Some(table.range.smallest.as_slice()).filter(|_| i > 0);
            let to = steps.get(i + 1).map(|next| next.range.smallest.as_slice());
            let met = || inputs.iter().flat_map(|input| meeting(&input.tables, from, to));
            let times = times(met());
            let stretch = Stretch { temperature: temperature(times.1), times };
            match stretches.all.last_mut() {
                Some(last) if last.temperature == stretch.temperature => last.times = both(last.times, times),
                Some(_) => {
                    stretches.starts.push(table.range.smallest.clone());
                    stretches.all.push(stretch);
                }
                None => stretches.all.push(stretch),
            }
        }
        if stretches.all.is_empty() { Stretches::one(temperature(0), (0, 0)) } else { stretches }
    }

    /// The stretch that `key` lies in.
    pub fn at(&self, key: &[u8]) -> Stretch {
        self.all[self.starts.partition_point(|start| start.as_slice() <= key)]
    }

    /// First keys of all but the first stretch, ascending.
    pub fn starts(&self) -> &[Vec<u8>] {
        &self.starts
    }
}

/// The tables, which are in key order, that have keys from `from` up to but without `to`.
fn meeting<'a>(tables: &'a [Arc<TableInfo>], from: Option<&[u8]>, to: Option<&[u8]>) -> &'a [Arc<TableInfo>] {
    let start = from.map_or(0, |from| tables.partition_point(|table| table.range.ends_before(from)));
    let end = to.map_or(tables.len(), |to| tables.partition_point(|table| table.range.smallest.as_slice() < to));
    &tables[start..end.max(start)]
}

/// Oldest and newest write time of all tables; unknown if that of one is.
pub fn times<'a>(tables: impl Iterator<Item = &'a Arc<TableInfo>>) -> (u64, u64) {
    tables.map(|table| (table.oldest_time, table.newest_time)).reduce(both).unwrap_or((0, 0))
}

fn both(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0.min(b.0), if a.1 == 0 || b.1 == 0 { 0 } else { a.1.max(b.1) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::KeyRange;

    fn input(level: usize, tables: &[(&str, &str, u64)]) -> Input {
        let table = |&(from, to, time): &(&str, &str, u64)| {
            Arc::new(TableInfo { range: KeyRange::closed(from, to), oldest_time: time, newest_time: time, ..TableInfo::default() })
        };
        Input { level, run: 0, tables: tables.iter().map(table).collect() }
    }

    #[test]
    fn only_what_is_met_is_as_young_as_the_newest() {
        use Temperature::{Cold, Hot, Unknown};
        let temperature = |newest: u64| {
            if newest == 0 {
                Unknown
            } else if newest > 50 {
                Hot
            } else {
                Cold
            }
        };
        let old = [("a", "c", 1), ("d", "f", 2), ("g", "i", 3), ("k", "m", 4)];
        let of = |young: &[(&str, &str, u64)]| {
            let stretches = Stretches::of(&[input(0, young), input(1, &old)], temperature);
            let at = |key: &str| stretches.at(key.as_bytes());
            let ends = stretches.starts().iter().map(|start| String::from_utf8_lossy(start).into_owned()).collect::<Vec<_>>();
            (["0", "b", "e", "h", "j", "l", "z"].map(|key| (at(key).temperature, at(key).times.1)), ends.join(" "))
        };
        let cold = (Cold, 4);
        assert_eq!(of(&[]), ([cold; 7], String::new()));
        assert_eq!(of(&[("e", "e", 9)]).0, [(Cold, 9); 7], "not so young");
        let hot = (Hot, 99);
        assert_eq!(of(&[("e", "e", 99)]), ([(Cold, 1), (Cold, 1), hot, cold, cold, cold, cold], "d g".into()));
        assert_eq!(of(&[("0", "00", 99), ("j", "j", 98)]).1, "d g k", "before the first, and behind one");
        assert_eq!(of(&[("a", "z", 99)]), ([hot; 7], String::new()));
        assert_eq!(of(&[("e", "e", 0)]).0[2], (Unknown, 0), "of unknown age");
    }
}
