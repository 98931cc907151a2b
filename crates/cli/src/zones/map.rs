//! `sinter zones map`: the zones as text; `picture` draws them.

use super::picture;
use super::tables::zone_json;
use super::view::{Class, View, Zone, condition_name, human};
use crate::ended::Ended;
use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::json;
use sinter_storage::place::ZonedPlace;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Zones in a line of the overview.
const ROW: usize = 64;

/// Characters of a bar.
const BAR: u64 = 32;

/// The drive to draw, and the form of the drawing.
#[derive(Debug, Args)]
pub struct MapFlags {
    /// The drive, also as zoned:DRIVE with options.
    #[arg(value_parser = super::drive())]
    drive: ZonedPlace,
    /// Text, a picture, a page with the picture and tables, or data; if nothing is said, what the name of the output ends in, or text.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Print data, as --format json does.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write it to this file instead of stdout.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Svg,
    Html,
    Json,
}

impl MapFlags {
    fn format(&self) -> Format {
        let ending = || self.output.as_ref()?.extension()?.to_str().and_then(|ending| Format::from_str(ending, true).ok());
        if self.json { Format::Json } else { self.format.or_else(ending).unwrap_or(Format::Text) }
    }
}

/// Whether a file belongs to a drive.
fn is_of_drive(file: &Path, drive: &Path) -> bool {
    let place = |path: &Path| std::fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
    let mut states = std::fs::canonicalize(drive).unwrap_or_else(|_| drive.to_owned()).into_os_string();
    states.push(".zones");
    place(file).is_some_and(|place_of_file| [drive, Path::new(&states)].iter().any(|part| place(part) == Some(place_of_file)))
}

/// Runs the command.
pub fn run(flags: &MapFlags) -> Result<ExitCode, Ended> {
    if let Some(file) = flags.output.as_deref().filter(|file| is_of_drive(file, &flags.drive.drive)) {
        return Err(Ended::usage(format!("--output {}: that is the drive", file.display())));
    }
    let view = View::of(&flags.drive.drive, &super::open(&flags.drive)?)?;
    let drawn = match flags.format() {
        Format::Text => text(&view),
        Format::Svg => picture::svg(&view),
        Format::Html => picture::page(&view),
        Format::Json => {
            let zones: Vec<_> = view.zones.iter().map(zone_json).collect();
            serde_json::to_string_pretty(&json!({ "drive": view.drive, "volume": view.id.to_string(), "zones": zones }))? + "\n"
        }
    };
    match &flags.output {
        None => io::stdout().lock().write_all(drawn.as_bytes())?,
        Some(file) => std::fs::write(file, drawn).with_context(|| file.display().to_string()).map_err(Ended::Failed)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// An overview with a character for each zone, a legend, and a line for each zone with files.
fn text(view: &View) -> String {
    let mut out = view.headline() + "\n\n";
    for row in view.zones.chunks(ROW) {
        let letters: String = row.iter().map(|zone| zone.class.letter()).collect();
        let _ = writeln!(out, "{:>8}  {letters}", row[0].entry.zone);
    }
    let legend: BTreeMap<char, String> = view.by_class().into_keys().map(|class| (class.letter(), meaning(class))).collect();
    let legend: Vec<String> = legend.into_iter().map(|(letter, meaning)| format!("{letter} {meaning}")).collect();
    let _ = writeln!(out, "\n{}\n", legend.join("   "));
    let _ = writeln!(
        out,
        "{:>8}  {:<12} {:<9} {:>10} {:>10} {:>10} {:>6} {:>5}  # live  + dead  . not written",
        "zone", "class", "state", "written", "live", "dead", "resets", "files"
    );
    for zone in view.zones.iter().filter(|zone| matches!(zone.class, Class::Files(..) | Class::Broken)) {
        let entry = &zone.entry;
        let _ = writeln!(
            out,
            "{:>8}  {:<12} {:<9} {:>10} {:>10} {:>10} {:>6} {:>5}  {}",
            entry.zone,
            zone.class.name(),
            condition_name(entry.condition),
            human(entry.written),
            human(entry.live),
            human(zone.dead),
            entry.resets,
            entry.files.len(),
            bar(zone)
        );
    }
    let _ = writeln!(out, "\n{}", view.wear());
    out
}

/// Meaning of a letter in the overview. Tables of all lifetimes and every tenth level share one.
fn meaning(class: Class) -> String {
    match class {
        Class::Files(3.., _) => format!("tables of level {}", class.letter()),
        other => other.name(),
    }
}

/// A bar of the live, dead and unwritten parts of a zone. A part that is not empty has at least one character.
fn bar(zone: &Zone) -> String {
    let capacity = u128::from(zone.entry.capacity.max(1));
    let part = |bytes: u64| u64::try_from((u128::from(bytes) * u128::from(BAR)).div_ceil(capacity)).unwrap_or(BAR).min(BAR);
    let live = part(zone.entry.live);
    let written = part(zone.entry.written).max(live);
    let dead = (written - live).max(u64::from(zone.dead > 0 && live < BAR));
    let repeat = |mark: &str, times: u64| mark.repeat(usize::try_from(times).unwrap_or(0));
    repeat("#", live) + &repeat("+", dead) + &repeat(".", BAR.saturating_sub(live + dead))
}
