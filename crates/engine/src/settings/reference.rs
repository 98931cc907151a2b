//! The reference page of all settings, made from the same table that reads and checks them.

use super::field::{DB, FAMILY, Field, Kind, Unit};
use super::{DbSettings, FamilySettings};
use std::fmt::Write as _;

/// All settings as Markdown tables: name, default, unit, allowed values, consequence, RocksDB's name.
/// This is the body of the settings page.
pub fn reference() -> String {
    let mut out = String::from("## Database\n\n");
    rows(&mut out, DB, &DbSettings::default());
    out += "\n## Column family\n\n";
    rows(&mut out, FAMILY, &FamilySettings::default());
    out
}

fn rows<S>(out: &mut String, fields: &[Field<S>], defaults: &S) {
    out.push_str("| setting | default | unit | allowed | consequence | RocksDB |\n|---|---|---|---|---|---|\n");
    for field in fields {
        let unit = match &field.kind {
            Kind::Whole { unit: Unit::Bytes, .. } => "bytes",
            Kind::Whole { unit: Unit::Seconds, .. } => "seconds",
            Kind::Whole { unit: Unit::Count, .. } => "count",
            Kind::Real { .. } => "number",
            Kind::Flag { .. } => "flag",
            Kind::CompressedCache { .. } => "word or share",
            Kind::TierBudget { .. } => "bytes or share",
            Kind::Compression { .. } | Kind::List { .. } => "list",
            Kind::Preclude { .. } => "word or seconds",
            Kind::Word { .. } | Kind::Temperature { .. } => "word",
        };
        let rocksdb = if field.rocksdb.is_empty() { "-".into() } else { format!("`{}`", field.rocksdb) };
        let (name, default, range) = (field.name, field.text(defaults), field.range());
        let _ = writeln!(out, "| `{name}` | `{default}` | {unit} | {range} | {} | {rocksdb} |", field.effect);
    }
}
