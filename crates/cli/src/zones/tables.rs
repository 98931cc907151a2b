//! `sinter zones df` and `sinter zones dump`: the use of space, and all metadata, as text and as JSON.

use super::view::{Class, Sum, View, Zone, condition_name, human, lifetime_name};
use crate::store::escape;
use serde_json::{Map, Value, json};
use sinter_storage::store::Beneath;
use sinter_storage::zoned::Geometry;
use sinter_storage::zoned_store::{Extent, FileEntry};
use std::fmt::Write as _;

/// A zone with files, as a row of a table.
pub fn rows(zone: &Zone) -> Vec<String> {
    let entry = &zone.entry;
    let bytes = [entry.written, zone.live, zone.padding, zone.dead].map(human);
    let mut columns = vec![entry.zone.to_string(), zone.class.name(), condition_name(entry.condition).into()];
    columns.extend(bytes);
    columns.extend([entry.resets.to_string(), entry.files.len().to_string()]);
    columns
}

/// The use of space by classes of zones, as text.
pub fn df(view: &View) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<14} {:>6} {:>11} {:>11} {:>11} {:>11} {:>11}",
        "class", "zones", "live", "padding", "dead", "not written", "capacity"
    );
    let mut line = |name: &str, sum: &Sum, has_files: bool| {
        let of_files = |bytes: u64| if has_files { human(bytes) } else { "-".into() };
        let _ = writeln!(
            out,
            "{name:<14} {:>6} {:>11} {:>11} {:>11} {:>11} {:>11}",
            sum.zones,
            of_files(sum.live),
            of_files(sum.padding),
            of_files(sum.dead),
            human(sum.unwritten),
            human(sum.capacity)
        );
    };
    let mut all = Sum::default();
    for (class, sum) in view.by_class() {
        let is_ours = matches!(class, Class::Files(..) | Class::Empty | Class::Broken);
        line(&class.name(), &sum, matches!(class, Class::Files(..)));
        if is_ours {
            all.zones += sum.zones;
            all.live += sum.live;
            all.padding += sum.padding;
            all.dead += sum.dead;
            all.unwritten += sum.unwritten;
            all.capacity += sum.capacity;
        }
    }
    line("for files", &all, true);
    let _ = writeln!(out);
    let share = |bytes: u64| 100.0 * bytes as f64 / view.space.all().max(1) as f64;
    for (name, _, bytes) in view.space.parts().into_iter().chain([("the drive", "", view.space.all())]) {
        if bytes > 0 {
            let _ = writeln!(out, "{name:<38} {:>11} {:>5.1} %", human(bytes), share(bytes));
        }
    }
    let conditions: Vec<String> = view.by_condition().into_iter().map(|(name, count)| format!("{count} {name}")).collect();
    let _ = writeln!(out, "\nzones: {}", conditions.join(", "));
    let _ =
        writeln!(out, "free:  {}, dead bytes among them; {} zones more are in reserve for the collector", human(view.free), view.reserve);
    let _ = writeln!(out, "wear:  {}", view.wear());
    if let Some(streams) = view.streams() {
        let _ = writeln!(out, "drive: {streams}");
    }
    out
}

/// The use of space by classes of zones, as JSON.
pub fn df_json(view: &View) -> Value {
    let class = |(class, sum): (Class, Sum)| {
        json!({
            "class": class.name(), "zones": sum.zones, "live": sum.live, "padding": sum.padding, "dead": sum.dead,
            "unwritten": sum.unwritten, "capacity": sum.capacity,
        })
    };
    let classes: Vec<Value> = view.by_class().into_iter().map(class).collect();
    let conditions: Map<String, Value> = view.by_condition().into_iter().map(|(name, count)| (name.into(), count.into())).collect();
    let now = &view.beneath.zones;
    let mut space: Map<String, Value> = view.space.parts().into_iter().map(|(_, name, bytes)| (name.into(), bytes.into())).collect();
    space.insert("all".into(), view.space.all().into());
    json!({
        "drive": view.drive, "volume": view.id.to_string(), "classes": classes, "conditions": conditions, "free": view.free,
        "reserve_zones": view.reserve, "space": space, "storable": view.space.storable,
        "wear": { "least": now.wear_least, "most": now.wear_most, "all": now.wear_total, "metadata_most": now.wear_metadata },
        "write_streams": streams_json(view),
    })
}

fn streams_json(view: &View) -> Value {
    json!({ "count": view.streams.count, "used": view.streams.used })
}

/// All metadata, as text.
pub fn dump(view: &View) -> String {
    let Geometry { max_open, max_active, conventional, .. } = view.geometry;
    let limit = |limit: Option<u32>| limit.map_or_else(|| "any number".into(), |limit| limit.to_string());
    let mut out = view.headline() + "\n";
    let _ = writeln!(out, "{} zones may be open, {} active; {conventional} are conventional", limit(max_open), limit(max_active));
    let (from, to, clock) = (view.map.metadata.start, view.map.metadata.end, view.map.clock);
    let _ = writeln!(out, "metadata in zones {from} to {}, {clock} bytes written in the volume's life", to.saturating_sub(1));
    for zone in view.zones.iter().filter(|zone| zone.class != Class::Empty || zone.entry.resets > 0) {
        let _ = writeln!(out, "{}", zone.describe());
    }
    for file in &view.files {
        let about = &file.about;
        let _ = write!(
            out,
            "file {}: {} bytes, family {}, level {}, {}, born at {}, expected to die at {}",
            file.id,
            file.length,
            about.family,
            about.level,
            lifetime_name(about.lifetime),
            about.born,
            about.death
        );
        if let Some((smallest, largest)) = &about.keys {
            let _ = write!(out, ", keys {} to {}", escape(smallest), escape(largest));
        }
        out.push('\n');
        for Extent { offset, zone, at, len } in &file.extents {
            let place = zone.map_or_else(|| "lost".into(), |zone| format!("zone {zone} at {at}"));
            let _ = writeln!(out, "  bytes {offset} to {}: {place}", offset + len);
        }
    }
    out
}

/// A zone as JSON. Lengths are bytes.
pub fn zone_json(zone: &Zone) -> Value {
    let entry = &zone.entry;
    let files: Vec<Value> = entry.files.iter().map(|(id, bytes)| json!({ "file": id.to_string(), "bytes": bytes })).collect();
    json!({
        "zone": entry.zone, "condition": condition_name(entry.condition), "class": zone.class.name(),
        "lifetime": lifetime_name(entry.lifetime), "level": entry.level, "capacity": entry.capacity, "written": entry.written,
        "live": zone.live, "padding": zone.padding, "dead": zone.dead, "resets": entry.resets, "files": files,
    })
}

fn file_json(file: &FileEntry) -> Value {
    let about = &file.about;
    let extent = |extent: &Extent| json!({ "offset": extent.offset, "zone": extent.zone, "at": extent.at, "bytes": extent.len });
    let keys = about.keys.as_ref().map(|(smallest, largest)| json!([escape(smallest), escape(largest)]));
    json!({
        "file": file.id.to_string(), "bytes": file.length, "lost": file.lost(), "family": about.family, "level": about.level,
        "lifetime": lifetime_name(about.lifetime), "born": about.born, "death": about.death, "keys": keys,
        "extents": file.extents.iter().map(extent).collect::<Vec<_>>(),
    })
}

/// All metadata, and the work done by opening the volume, as JSON.
pub fn dump_json(view: &View) -> Value {
    let Geometry { block, zones, zone_size, max_open, max_active, conventional } = view.geometry;
    let beneath: &Beneath = &view.beneath;
    let mut written: Map<String, Value> = beneath.lines().into_iter().map(|(cause, bytes)| (cause.into(), bytes.into())).collect();
    written.insert("device".into(), beneath.device().into());
    json!({
        "drive": view.drive,
        "volume": view.id.to_string(),
        "geometry": {
            "block": block, "zones": zones, "zone_size": zone_size, "max_open": max_open, "max_active": max_active,
            "conventional": conventional,
        },
        "write_streams": streams_json(view),
        "metadata_zones": [view.map.metadata.start, view.map.metadata.end],
        "clock": view.map.clock,
        "zones": view.zones.iter().map(zone_json).collect::<Vec<_>>(),
        "files": view.files.iter().map(file_json).collect::<Vec<_>>(),
        "since_opened": { "written": written, "resets": beneath.resets, "finishes": beneath.finishes, "collected": beneath.collected },
    })
}
