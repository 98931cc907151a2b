//! `sinter inspect PATH compression`: the codecs of each level, read from the tables. If the engine chose the codec, a table's properties
//! have the reason; the newest table of a level has the latest one, which is shown.

use super::Shown;
use serde_json::{Value, json};
use sinter_storage::store::Store;
use sinterdb::Error;
use sinterdb::internal::cache::Cache;
use sinterdb::internal::manifest::{ManifestState, TableInfo};
use sinterdb::internal::table::{Table, TableProperties};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Tables of one level and one codec.
#[derive(Debug, Default)]
struct Group {
    tables: u64,
    bytes: u64,
    /// Bytes of data blocks before compression.
    raw_bytes: u64,
}

impl Group {
    fn ratio(&self) -> f64 {
        if self.raw_bytes == 0 { 1.0 } else { self.bytes as f64 / self.raw_bytes as f64 }
    }
}

/// A level: its tables by codec, unreadable tables, and the newest one.
#[derive(Debug, Default)]
struct Level {
    groups: BTreeMap<&'static str, Group>,
    /// Numbers of tables, with the errors.
    unreadable: Vec<(u64, String)>,
    newest: Newest,
}

/// The newest readable table of a level.
#[derive(Debug, Default)]
struct Newest {
    number: u64,
    /// When writing the table began, unix seconds.
    begun: u64,
    chosen: String,
}

impl Level {
    fn add(&mut self, info: &TableInfo, properties: Result<TableProperties, Error>) {
        let properties = match properties {
            Ok(properties) => properties,
            Err(error) => return self.unreadable.push((info.number, error.to_string())),
        };
        let group = self.groups.entry(properties.codec.name()).or_default();
        group.tables += 1;
        group.bytes += info.bytes;
        // A damaged manifest or table may have any number.
        group.raw_bytes = group.raw_bytes.saturating_add(properties.raw_block_bytes);
        if info.number >= self.newest.number {
            self.newest = Newest { number: info.number, begun: properties.created, chosen: properties.chosen };
        }
    }

    fn text(&self, number: usize) -> String {
        let group = |(codec, group): (&&str, &Group)| {
            format!("{codec} {} tables, {:.1} MB, {:.2} of the size before", group.tables, group.bytes as f64 / 1_048_576.0, group.ratio())
        };
        let count = self.unreadable.len();
        let unreadable =
            self.unreadable.first().map(|(table, what)| format!("{count} tables cannot be read, the first is {table}: {what}"));
        let parts: Vec<String> = self.groups.iter().map(group).chain(unreadable).collect();
        let mut out = format!("  level {number}: {}\n", parts.join("; "));
        let Newest { number, begun, chosen } = &self.newest;
        if !chosen.is_empty() {
            let _ = writeln!(out, "    when table {number} was begun ({begun}): {}", crate::store::escape_whole(chosen.as_bytes()));
        }
        out
    }

    fn json(&self, number: usize) -> Value {
        let codec =
            |(name, of): (&&str, &Group)| json!({ "codec": name, "tables": of.tables, "bytes": of.bytes, "raw_bytes": of.raw_bytes });
        let codecs: Vec<Value> = self.groups.iter().map(codec).collect();
        let unreadable: Vec<Value> = self.unreadable.iter().map(|(table, what)| json!({ "table": table, "error": what })).collect();
        let Newest { number: table, begun, chosen } = &self.newest;
        let asked = if chosen.is_empty() { Value::Null } else { json!({ "table": table, "begun_unix": begun }) };
        json!({ "level": number, "codecs": codecs, "unreadable": unreadable, "chosen": chosen, "chosen_for": asked })
    }
}

/// The properties of a table. A damaged or missing table hides only itself.
fn properties(store: &dyn Store, state: &ManifestState, cache: &Arc<Cache>, info: &Arc<TableInfo>) -> Result<TableProperties, Error> {
    Table::open(store, state.db, Arc::clone(info), cache)?.properties()
}

pub(super) fn view(store: &dyn Store, state: &ManifestState) -> Shown {
    let mut text = String::new();
    let mut families = Vec::new();
    let cache = Cache::new(0);
    for family in state.families.values() {
        let setting = family.settings.lines().find_map(|line| line.strip_prefix("compression = ")).unwrap_or_default().trim_matches('"');
        let _ = writeln!(text, "family {} {:?}: compression = {setting}", family.id, family.name);
        let mut levels: BTreeMap<usize, Level> = BTreeMap::new();
        for (level, _, info) in family.version.tables() {
            levels.entry(level).or_default().add(info, properties(store, state, &cache, info));
        }
        levels.iter().for_each(|(number, level)| text.push_str(&level.text(*number)));
        let levels: Vec<Value> = levels.iter().map(|(number, level)| level.json(*number)).collect();
        families.push(json!({ "id": family.id, "name": family.name, "compression": setting, "levels": levels }));
    }
    Shown { text, json: json!({ "families": families }) }
}
