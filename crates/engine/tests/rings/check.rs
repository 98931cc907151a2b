//! Compares an open database with the history of its workload: is it some moment of it, not older than what was acknowledged?

use crate::model::{Contents, Model, Progress, marker};
use sinterdb::{Db, DbIterator, Error, Family, ReadOptions, Snapshot};
use std::collections::BTreeMap;

/// The moment of the history that a database shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub batches: [usize; 2],
    pub families: usize,
}

/// Reason why a database shows no moment of the history.
#[derive(Debug)]
pub enum Problem {
    /// A read failed.
    Failed(Error),
    /// All reads work, and the content is wrong.
    Wrong(String),
}

impl Problem {
    pub fn into_error(self) -> Error {
        match self {
            Problem::Failed(error) => error,
            Problem::Wrong(what) => panic!("{what}"),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Problem::Failed(error)
    }
}

type Checked<T> = Result<T, Problem>;

fn wrong<T>(what: impl Into<String>) -> Checked<T> {
    Err(Problem::Wrong(what.into()))
}

fn short(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(24)]).into_owned();
    if bytes.len() > 24 { format!("{text}.. ({} bytes)", bytes.len()) } else { text }
}

/// Everything in a family, read forwards and backwards.
pub fn scan(db: &Db, family: &Family, snapshot: Option<&Snapshot>) -> Checked<Contents> {
    let options = ReadOptions { snapshot: snapshot.cloned(), ..ReadOptions::default() };
    let mut iterator = db.iter_with(family, options)?;
    let mut forward = Contents::new();
    iterator.seek_first()?;
    walk(&mut iterator, DbIterator::advance, |key, value| forward.insert(key, value).is_none())?;
    let mut backward = Contents::new();
    iterator.seek_last()?;
    walk(&mut iterator, DbIterator::retreat, |key, value| backward.insert(key, value).is_none())?;
    if forward != backward {
        return wrong(format!("family {}: backwards there is something else than forwards", family.name()));
    }
    Ok(forward)
}

fn walk(
    iterator: &mut DbIterator,
    step: impl Fn(&mut DbIterator) -> sinterdb::Result<()>,
    mut keep: impl FnMut(Vec<u8>, Vec<u8>) -> bool,
) -> Checked<()> {
    while iterator.valid() {
        if !keep(iterator.key().to_vec(), iterator.value().to_vec()) {
            return wrong(format!("key {} comes twice", short(iterator.key())));
        }
        step(iterator)?;
    }
    Ok(())
}

/// Everything in the database by family name; point reads of all of `keys` must agree with the scans.
pub fn read_all(db: &Db, keys: &[&[u8]]) -> Checked<BTreeMap<String, Contents>> {
    let mut all = BTreeMap::new();
    for family in db.families() {
        let contents = scan(db, &family, None)?;
        let values = db.multi_get(&family, keys, &ReadOptions::default())?;
        for (at, (key, value)) in keys.iter().zip(&values).enumerate() {
            let single = if at % 4 == 0 { db.get_with(&family, key, &ReadOptions::default())? } else { value.clone() };
            if value.as_ref() != contents.get(*key) || single != *value {
                return wrong(format!("family {}: a point read of {} differs from the scan", family.name(), short(key)));
            }
        }
        all.insert(family.name().to_owned(), contents);
    }
    Ok(all)
}

/// Reads everything and finds the moment of the history that it is.
pub fn compare(db: &Db, model: &Model, progress: &Progress) -> Checked<Found> {
    let keys: Vec<&[u8]> = model.keys.iter().map(Vec::as_slice).collect();
    let all = read_all(db, &keys)?;
    moment(&all, model, progress)
}

/// The moment of the history that `all` is.
pub fn moment(all: &BTreeMap<String, Contents>, model: &Model, progress: &Progress) -> Checked<Found> {
    let Some(default) = all.get("default") else { return wrong("the default family is missing") };
    let mut batches = [0; 2];
    for (stream, at) in batches.iter_mut().enumerate() {
        let value = default.get(&marker(stream)).map_or(&b"0"[..], Vec::as_slice);
        let index = std::str::from_utf8(value).ok().and_then(|text| text.parse::<usize>().ok());
        let Some(index) = index else { return wrong(format!("marker {stream} is {}", short(value))) };
        let (floor, started) = (progress.floor[stream], progress.started[stream]);
        if index < floor {
            return wrong(format!("stream {stream} goes back to batch {index}, although {floor} was acknowledged as durable"));
        }
        if index > started {
            return wrong(format!("stream {stream} has batch {index}, but only {started} were begun"));
        }
        *at = index;
    }
    let mut reason = format!("families {:?} are those of no moment", all.keys());
    for families in progress.families..=progress.families_started.min(model.alive.len() - 1) {
        let alive = &model.alive[families];
        if !alive.keys().copied().eq(all.keys().map(String::as_str)) {
            continue;
        }
        match alive.iter().find_map(|(name, family)| differs(name, &all[*name], &model.contents(*family, batches))) {
            None if progress.dropping && families > progress.families && batches[0] < progress.applied[0] => {
                return wrong(format!(
                    "a family is dropped, and batches from {} to {} before that are lost",
                    batches[0], progress.applied[0]
                ));
            }
            None => return Ok(Found { batches, families }),
            Some(difference) => reason = format!("after batches {batches:?}: {difference}"),
        }
    }
    wrong(reason)
}

fn differs(name: &str, found: &Contents, due: &Contents) -> Option<String> {
    if found == due {
        return None;
    }
    let lost = due.iter().find(|(key, _)| !found.contains_key(*key)).map(|(key, _)| format!("{} is lost", short(key)));
    let extra = || found.keys().find(|key| !due.contains_key(*key)).map(|key| format!("{} should not be there", short(key)));
    let other = || {
        let (key, value) = found.iter().find(|(key, value)| due.get(*key) != Some(value))?;
        Some(format!("{} is {} instead of {}", short(key), short(value), short(due.get(key)?)))
    };
    Some(format!("family {name}: {}", lost.or_else(extra).or_else(other).unwrap_or_default()))
}
