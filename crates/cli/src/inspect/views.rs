//! The views: each makes text and JSON from one set of data.

use super::{Page, Shown, Stores};
use crate::ended::Ended;
use crate::store::{escape, escape_whole};
use serde_json::{Map, Value, json};
use sinter_storage::store::{FileId, Store, Temperature};
use sinterdb::internal::cache::Cache;
use sinterdb::internal::db::{Operation, Records};
use sinterdb::internal::key::{Kind, Seq, split_timed};
use sinterdb::internal::manifest::{KeyRange, Loaded, ManifestState, TableInfo};
use sinterdb::internal::table::{Table, TableProperties};
use sinterdb::internal::tiering::age::TimeMap;
use sinterdb::internal::wal::{LogEnd, read_log, survey_log, walk_log};
use std::fmt::Write as _;

const MIB: f64 = 1_048_576.0;
/// Bytes shown of an unreadable log record.
const PREVIEW: usize = 48;

/// Appends one line. Writing into a string cannot fail.
macro_rules! line {
    ($out:expr, $($part:tt)*) => {{ let _ = writeln!($out, $($part)*); }};
}

pub(super) fn manifest(store: &dyn Store, loaded: &Loaded, state: &ManifestState) -> Result<Shown, Ended> {
    let mut text = String::new();
    let file = loaded.live.map(|id| id.to_string()).unwrap_or_default();
    line!(text, "manifest    {file}, {} edits, {}", loaded.edits, end_text(&loaded.end));
    line!(text, "database    {}", state.db);
    line!(text, "next number {}, last sequence number {}, next family {}", state.next_number, state.last_seq, state.next_family);
    line!(text, "logs        {:?}", state.logs);
    line!(text, "times       {}", times_text(&state.times));
    for tier in state.tiers.values() {
        line!(text, "tier        {}, known by {}", tier.temperature.name(), FileId::tier(tier.number));
    }
    let tiers: Vec<Value> =
        state.tiers.values().map(|t| json!({ "temperature": t.temperature.name(), "file": FileId::tier(t.number).to_string() })).collect();
    let mut families = Vec::new();
    for family in state.families.values() {
        let tables = family.version.tables().count();
        line!(text, "family {} {:?}: {tables} tables, logs below {} are flushed", family.id, family.name, family.flushed_log);
        families.push(json!({
            "id": family.id, "name": family.name, "operator": family.operator, "tables": tables, "flushed_log": family.flushed_log,
        }));
    }
    let mut records = Vec::new();
    if let Some(id) = loaded.live {
        for (offset, payload) in read_log(store, Some(state.db), id)?.records() {
            line!(text, "record at {offset}: {} bytes", payload.len());
            records.push(json!({ "offset": offset, "bytes": payload.len() }));
        }
    }
    let json = json!({
        "file": file,
        "database": state.db.to_string(),
        "edits": loaded.edits,
        "end": end_json(&loaded.end),
        "next_number": state.next_number,
        "last_seq": state.last_seq,
        "next_family": state.next_family,
        "logs": state.logs,
        "tiers": tiers,
        "families": families,
        "records": records,
        "times": times_json(&state.times),
    });
    Ok(Shown { text, json })
}

/// Bytes of files compared with bytes in zones: the result of all writing so far, which the ledger of a running database (`sinter bench`)
/// accounts for by cause.
pub(super) fn zones(stores: &Stores) -> Result<Shown, Ended> {
    let primary = stores.each.first().map(|(_, store)| store);
    let now = primary.and_then(|store| store.beneath()).ok_or_else(|| Ended::usage("the database does not lie on a zoned drive"))?.zones;
    let files = primary.map_or(Ok(Vec::new()), |store| store.list()).map_err(sinterdb::Error::from)?;
    let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    let rows = [
        ("files", bytes),
        ("frame heads and block padding", now.live.saturating_sub(bytes)),
        ("alive", now.live),
        ("dead", now.written.saturating_sub(now.live)),
        ("written", now.written),
        ("can be written", now.capacity),
    ];
    let mut text = String::new();
    line!(text, "{:<30} {:>12}", format!("{} files", files.len()), "MB");
    rows.iter().for_each(|(name, bytes)| line!(text, "{name:<30} {:>12.2}", *bytes as f64 / MIB));
    line!(text, "zones: {} of {} in use, {} broken", now.used(), now.all, now.broken);
    line!(text, "resets: {} in all, {} to {} of a zone", now.wear_total, now.wear_least, now.wear_most);
    let json = json!({
        "files": files.len(), "file_bytes": bytes, "live_bytes": now.live, "written_bytes": now.written, "capacity_bytes": now.capacity,
        "zones": now.all, "used": now.used(), "broken": now.broken,
        "resets": { "least": now.wear_least, "most": now.wear_most, "all": now.wear_total },
    });
    Ok(Shown { text, json })
}

pub(super) fn levels(state: &ManifestState) -> Shown {
    let mut text = String::new();
    let mut families = Vec::new();
    for family in state.families.values() {
        let bytes: u64 = family.version.tables().map(|(_, _, table)| table.bytes).sum();
        line!(text, "family {} {:?}: {} tables, {:.1} MB", family.id, family.name, family.version.tables().count(), bytes as f64 / MIB);
        let mut levels = Vec::new();
        for (level, runs) in family.version.levels.iter().enumerate().filter(|(_, runs)| !runs.is_empty()) {
            line!(text, "  level {level}: {} runs, {:.1} MB", runs.len(), family.version.level_bytes(level) as f64 / MIB);
            let mut shown = Vec::new();
            for run in runs {
                line!(text, "    run {}: {} tables, {:.1} MB", run.number, run.tables.len(), run.bytes() as f64 / MIB);
                run.tables.iter().for_each(|table| line!(text, "      {}", table_line(table)));
                let tables: Vec<Value> = run.tables.iter().map(|table| table_json(table)).collect();
                shown.push(json!({ "number": run.number, "bytes": run.bytes(), "tables": tables }));
            }
            levels.push(json!({ "level": level, "bytes": family.version.level_bytes(level), "runs": shown }));
        }
        families.push(json!({ "id": family.id, "name": family.name, "bytes": bytes, "levels": levels }));
    }
    Shown { text, json: json!({ "families": families }) }
}

pub(super) fn table(store: &dyn Store, state: &ManifestState, number: u64) -> Result<Shown, Ended> {
    let every =
        state.families.values().flat_map(|family| family.version.tables().map(move |(level, run, table)| (family, level, run, table)));
    let Some((family, level, run, info)) = every.into_iter().find(|(.., table)| table.number == number) else {
        return Err(Ended::usage(format!("the manifest names no table {number}")));
    };
    let properties = Table::open(store, state.db, info.clone(), &Cache::new(0))?.properties()?;
    let mut text = String::new();
    line!(text, "{} in family {:?}, level {level}, run {run}", FileId::table(number), family.name);
    line!(text, "{}", table_line(info));
    let mut json = Map::new();
    for (name, value) in property_list(&properties) {
        line!(text, "  {name:<18} {}", value.as_str().map_or_else(|| value.to_string(), |text| escape_whole(text.as_bytes())));
        json.insert(name.into(), value);
    }
    line!(text, "  {:<18} {}", "times", times_text(&properties.times));
    json.insert("times".into(), times_json(&properties.times));
    let json = json!({ "family": family.name, "level": level, "run": run, "table": table_json(info), "properties": json });
    Ok(Shown { text, json })
}

/// Number of time samples, with the first and the last one.
fn times_text(times: &TimeMap) -> String {
    let ends = times.samples().first().zip(times.newest());
    let ends = ends.map(|(old, new)| format!(", seq {} at {} to seq {} at {}", old.0, old.1, new.0, new.1));
    format!("{} samples{}", times.samples().len(), ends.unwrap_or_default())
}

fn times_json(times: &TimeMap) -> Value {
    times.samples().iter().map(|(seq, unix)| json!({ "seq": seq, "unix_seconds": unix })).collect()
}

/// Properties of a table that the manifest does not have.
fn property_list(properties: &TableProperties) -> Vec<(&'static str, Value)> {
    vec![
        ("format_version", properties.format_version.into()),
        ("created_by", properties.created_by.clone().into()),
        ("raw_key_bytes", properties.raw_key_bytes.into()),
        ("raw_value_bytes", properties.raw_value_bytes.into()),
        ("codec", format!("{:?}", properties.codec).to_lowercase().into()),
        ("chosen", properties.chosen.clone().into()),
        ("placed", properties.placed.clone().into()),
        ("dictionary_bytes", properties.dictionary_bytes.into()),
        ("data_blocks", properties.data_blocks.into()),
        ("raw_block_bytes", properties.raw_block_bytes.into()),
        ("largest_raw_block", properties.largest_raw_block.into()),
        ("filter_bits_per_key", (properties.filter_millibits as f64 / 1000.0).into()),
        ("oldest_time", properties.oldest_time.into()),
        ("newest_time", properties.newest_time.into()),
        ("created", properties.created.into()),
        ("zeroed_seq", properties.zeroed_seq.into()),
    ]
}

pub(super) fn log(store: &dyn Store, state: &ManifestState, number: u64, page: Page) -> Result<Shown, Ended> {
    let id = FileId::log(number);
    if !store.list().map_err(sinterdb::Error::from)?.iter().any(|(file, _)| *file == id) {
        let known: Vec<String> = state.logs.iter().map(u64::to_string).collect();
        let known = match known.len() {
            0 => "no log".to_owned(),
            1 => format!("log {}", known[0]),
            _ => format!("logs {}", known.join(", ")),
        };
        return Err(Ended::usage(format!("there is no log {number}; the manifest names {known}")));
    }
    let (log, file) = survey_log(store, Some(state.db), id)?;
    let mut text = String::new();
    let mut records = Vec::new();
    let mut payloads = Records::of(&log);
    let (mut shown, mut next) = (0, None);
    walk_log(&*file, &log, id, u64::MAX, |offset, payload| {
        let operations = payloads.operations(payload);
        if offset < page.from || next.is_some() {
            return Ok(());
        }
        if page.limit > 0 && shown >= page.limit {
            next = Some(offset);
            return Ok(());
        }
        let Some(operations) = operations else {
            let start = escape_whole(&payload[..payload.len().min(PREVIEW)]);
            line!(text, "record at {offset}: {} bytes that are no operations: {start}", payload.len());
            records.push(json!({ "offset": offset, "bytes": payload.len(), "start": start, "operations": null }));
            return Ok(());
        };
        shown += operations.len() as u64;
        line!(text, "record at {offset}: {} bytes, {} operations", payload.len(), operations.len());
        operations.iter().for_each(|(seq, operation)| line!(text, "  {}", operation_line(state, *seq, operation)));
        let operations: Vec<Value> = operations.iter().map(|(seq, operation)| operation_json(state, *seq, operation)).collect();
        records.push(json!({ "offset": offset, "bytes": payload.len(), "operations": operations }));
        Ok(())
    })?;
    let all = log.records;
    line!(text, "{id}: {all} records, {}", end_text(&log.end));
    if page.from > 0 || next.is_some() {
        line!(text, "shown: {} records with {shown} operations", records.len());
    }
    if let Some(offset) = next {
        line!(text, "more with --from={offset}, all with --limit=0");
    }
    Ok(Shown { text, json: json!({ "file": id.to_string(), "records": records, "next": next, "all": all, "end": end_json(&log.end) }) })
}

/// RocksDB's name for a kind of operation.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Delete => "delete",
        Kind::Value => "put",
        Kind::Merge => "merge",
        Kind::RangeDelete | Kind::RangeDeleteFrom => "delete_range",
        Kind::ValueReference => "value_reference",
        Kind::TimedValue => "timed_put",
    }
}

/// A line for an operation. Behind the key comes the end of the range or the length of the value.
fn operation_line(state: &ManifestState, seq: Seq, operation: &Operation<'_>) -> String {
    let Operation { family, kind, key, value } = operation;
    let family = state.families.get(family).map_or_else(|| format!("family {family} (dropped)"), |f| format!("{:?}", f.name));
    let rest = match kind {
        Kind::Delete => String::new(),
        Kind::RangeDelete => format!(" to {}", escape(value)),
        Kind::RangeDeleteFrom => " to the end".to_owned(),
        Kind::TimedValue => split_timed(value).map_or_else(String::new, |(time, value)| format!(", {} bytes, of {time}", value.len())),
        _ => format!(", {} bytes", value.len()),
    };
    format!("{seq} {family} {} {}{rest}", kind_name(*kind), escape(key))
}

fn operation_json(state: &ManifestState, seq: Seq, operation: &Operation<'_>) -> Value {
    let Operation { family, kind, key, value } = operation;
    let range_end = (*kind == Kind::RangeDelete).then(|| escape_whole(value));
    let timed = split_timed(value).filter(|_| *kind == Kind::TimedValue);
    let value_bytes = timed.map(|timed| timed.1.len()).or(matches!(kind, Kind::Value | Kind::Merge).then_some(value.len()));
    json!({
        "seq": seq, "family": family, "family_name": state.families.get(family).map(|f| &f.name), "kind": kind_name(*kind),
        "key": escape_whole(key), "range_end": range_end, "value_bytes": value_bytes, "unix_seconds": timed.map(|timed| timed.0),
    })
}

pub(super) fn settings(state: &ManifestState) -> Shown {
    let mut text = format!("# database\n{}\n", state.settings.trim_end());
    let mut families = Map::new();
    for family in state.families.values() {
        line!(text, "\n# family {:?}\n{}", family.name, family.settings.trim_end());
        families.insert(family.name.clone(), family.settings.clone().into());
    }
    Shown { text, json: json!({ "database": state.settings, "families": families }) }
}

fn range_text(range: &KeyRange) -> String {
    let close = if range.end_exclusive { ')' } else { ']' };
    format!("[{} .. {}{close}", escape(&range.smallest), escape(&range.largest))
}

fn table_line(table: &TableInfo) -> String {
    let warmth = if table.temperature == Temperature::Unknown { String::new() } else { format!("{}, ", table.temperature.name()) };
    format!(
        "{} {:.2} MB, {warmth}{} entries ({} deletes, {} range deletes, {} merges), seq {}..{}, {}",
        FileId::table(table.number),
        table.bytes as f64 / MIB,
        table.entries,
        table.tombstones,
        table.range_tombstones,
        table.merges,
        table.min_seq,
        table.max_seq,
        range_text(&table.range)
    )
}

fn table_json(table: &TableInfo) -> Value {
    json!({
        "file": FileId::table(table.number).to_string(), "bytes": table.bytes, "raw_bytes": table.raw_bytes, "entries": table.entries,
        "tombstones": table.tombstones, "range_tombstones": table.range_tombstones, "merges": table.merges, "min_seq": table.min_seq,
        "max_seq": table.max_seq, "smallest": escape(&table.range.smallest), "largest": escape(&table.range.largest),
        "end_exclusive": table.range.end_exclusive, "oldest_time": table.oldest_time, "newest_time": table.newest_time,
        "temperature": table.temperature.name(),
    })
}

fn end_text(end: &LogEnd) -> String {
    match end.cut_bytes {
        0 => format!("{} bytes, {} of them known to be synced", end.good, end.synced),
        cut => format!(
            "{} bytes, {} of them known to be synced; behind them {cut} unsynced bytes that do not count ({} records)",
            end.good, end.synced, end.cut_records
        ),
    }
}

fn end_json(end: &LogEnd) -> Value {
    json!({ "bytes": end.good, "synced": end.synced, "cut_bytes": end.cut_bytes, "cut_records": end.cut_records })
}
