//! `sinter bench`: reads the flags, runs the lab, prints and stores the results.

mod flags;
mod progress;
mod settings;

pub use flags::BenchFlags;

use crate::ended::{Ended, complain};
use crate::store::{open_volume, place, require_database};
use anyhow::{Context, anyhow};
use progress::Line;
use sinter_lab::bench::{Bench, Workload, header, print_statistics, print_workload};
use sinter_lab::drive::{Failed, INTERRUPTED, Interrupted, stop_on_signal};
use sinter_lab::result::Machine;
use sinter_lab::run::{EngineSpec, FamilySpec, PhaseRecord, RunRecord};
use sinter_lab::system::{Outcome, SinterOpener};
use sinter_storage::place::{Place, ZonedPlace};
use sinterdb::internal::limits::{MemoryLimit, ProcessLimits};
use sinterdb::internal::settings::confine;
use sinterdb::settings::Settings;
use sinterdb::{Builder, DEFAULT_FAMILY};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the command.
///
/// # Errors
/// Wrong flags, settings or paths; failures of the database; results that cannot be written.
pub fn run(flags: &BenchFlags) -> Result<ExitCode, Ended> {
    let (workloads, config) = flags.plan().map_err(|list| Ended::Usage(list.join("; ")))?;
    let stored = stored_settings(flags)?;
    let chosen = settings::choose(&flags.engine, stored.as_ref()).map_err(|list| Ended::Usage(list.join("; ")))?;
    let json = flags.json.as_deref().map(JsonSink::open).transpose()?;
    let place = Home::choose(flags)?;
    // Notes go to stderr: they are about the flags, not part of the results.
    let memory = MemoryLimit::tightest(&ProcessLimits::find(Path::new("/")).memory());
    let confined = confine(&chosen.database, std::iter::once(&chosen.family), memory);
    chosen.notes.iter().chain(&confined.note).for_each(|note| complain(format_args!("note: {note}")));
    let described = EngineSpec {
        name: "sinter".into(),
        database: settings::listing(&chosen.database.to_toml()),
        families: vec![FamilySpec { name: DEFAULT_FAMILY.into(), settings: settings::listing(&chosen.family.to_toml()) }],
        wal: !flags.switches.disable_wal,
        ..EngineSpec::default()
    };
    let opener = SinterOpener {
        path: place.path.clone(),
        zones: place.zones.clone(),
        disable_wal: flags.switches.disable_wal,
        hide_limits: false,
        database: chosen.database,
        families: vec![(DEFAULT_FAMILY.into(), chosen.family)],
        clock: None,
        slow: chosen.slow,
    };
    let bench = Bench::new(&config, &workloads, described, place.path.clone());
    let json_on_stdout = matches!(json, Some(JsonSink::Stdout));
    let mut out: Box<dyn Write> = if json_on_stdout { Box::new(io::stderr()) } else { Box::new(io::stdout()) };
    header(&bench.spec, &place.machine(), &place.name(), &mut out)?;
    let (mut record, ended) = measure(flags, &bench, &opener, &mut out)?;
    record.machine = place.machine();
    if let Some(json) = json {
        json.write(&record)?;
    }
    place.leave()?;
    ended
}

/// Runs the workloads with a progress line, until they end or Ctrl-C, and prints each.
fn measure(
    flags: &BenchFlags,
    bench: &Bench,
    opener: &SinterOpener,
    out: &mut dyn Write,
) -> Result<(RunRecord, Result<ExitCode, Ended>), Ended> {
    let stop = stop_on_signal().map_err(|failure| Ended::Failed(anyhow!(failure)))?;
    let line = Line::new();
    let each = |workload: Workload, result: Option<&PhaseRecord>| -> Outcome<()> {
        Ok(line.beside(|| {
            print_workload(workload, result, flags.histogram == Some(true), out)?;
            out.flush()
        })?)
    };
    let (record, failed) = bench.run(opener, &stop, &|phase, done, total| line.show(phase, done, total), each);
    line.end();
    let ended = ended(&record, failed);
    if let (true, Ok(_), Some(last)) = (flags.switches.statistics, &ended, record.phases.last()) {
        print_statistics(last, out)?;
    }
    Ok((record, ended))
}

/// The end of the command after a run.
fn ended(record: &RunRecord, failed: Option<Failed>) -> Result<ExitCode, Ended> {
    let Some(Failed { phase, failure }) = failed else { return Ok(ExitCode::SUCCESS) };
    if failure.is::<Interrupted>() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let place = phase.map_or("opening or closing the database", |index| record.spec.workload.phases[index].name.as_str()).to_string();
    Err(match failure.downcast::<sinterdb::Error>() {
        Ok(error) if phase.is_none() => Ended::from(*error),
        Ok(error) => Ended::Failed(anyhow::Error::from(*error).context(place)),
        // An error of the output keeps its type: a closed pipe ends the command without a message.
        Err(other) => match other.downcast::<io::Error>() {
            Ok(error) => Ended::Failed(anyhow::Error::from(*error).context(place)),
            Err(other) => Ended::Failed(anyhow!(other).context(place)),
        },
    })
}

/// Target of the JSON output. Opened before the first workload, so that no results of hours are lost because it cannot be written.
enum JsonSink {
    Stdout,
    File(File, PathBuf),
}

impl JsonSink {
    fn open(path: &Path) -> Result<Self, Ended> {
        if path == Path::new("-") {
            return Ok(JsonSink::Stdout);
        }
        let file = File::create(path).map_err(|error| Ended::Usage(format!("--json {}: {error}", path.display())))?;
        Ok(JsonSink::File(file, path.to_owned()))
    }

    fn write(self, record: &RunRecord) -> Result<(), Ended> {
        let text = serde_json::to_string_pretty(record)? + "\n";
        match self {
            JsonSink::Stdout => Ok(io::stdout().write_all(text.as_bytes())?),
            JsonSink::File(mut file, path) => {
                file.write_all(text.as_bytes()).with_context(|| path.display().to_string()).map_err(Ended::Failed)
            }
        }
    }
}

/// The default path of the database.
fn default_path() -> PathBuf {
    std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("."), PathBuf::from).join("sinter-bench-data")
}

/// Settings of an existing database, which apply unless flags override them.
fn stored_settings(flags: &BenchFlags) -> Result<Option<Settings>, Ended> {
    if !flags.switches.use_existing_db {
        return Ok(None);
    }
    let store = require_database(&flags.db.clone().unwrap_or_else(default_path))?;
    Builder::settings_in(&*store).map_err(Ended::from)
}

/// Location of the database.
struct Home {
    /// The directory, or the drive.
    path: PathBuf,
    zones: Option<ZonedPlace>,
    /// The directory was made by this run under its default name, and is removed at the end.
    remove: bool,
}

impl Home {
    fn choose(flags: &BenchFlags) -> Result<Self, Ended> {
        let path = match place(&flags.db.clone().unwrap_or_else(default_path))? {
            Place::Directory(path) => path,
            Place::Zoned(zoned) => return Self::on_zones(flags, zoned),
        };
        let wrong = |what: &dyn std::fmt::Display| Ended::Usage(format!("--db {}: {what}", path.display()));
        let existed = path.exists();
        if existed && !path.is_dir() {
            return Err(wrong(&"not a directory"));
        }
        if flags.switches.use_existing_db {
            require_database(&path)?;
        }
        fs::create_dir_all(&path).map_err(|error| wrong(&error))?;
        Ok(Home { remove: !existed && flags.db.is_none() && !flags.switches.keep, path, zones: None })
    }

    /// Requires an existing volume: a bench never overwrites other data on a drive.
    fn on_zones(flags: &BenchFlags, zoned: ZonedPlace) -> Result<Self, Ended> {
        let volume = open_volume(&zoned.clone().quiet())?;
        if flags.switches.use_existing_db && volume.files().is_empty() {
            return Err(Ended::Usage(format!("--db {zoned}: no database there")));
        }
        Ok(Home { path: zoned.drive.clone(), zones: Some(zoned), remove: false })
    }

    fn name(&self) -> String {
        self.zones.as_ref().map_or_else(|| self.path.display().to_string(), ZonedPlace::to_string)
    }

    fn machine(&self) -> Machine {
        let here = Machine::here(&self.path);
        if self.zones.is_some() { here.with_volume_on(&self.path) } else { here }
    }

    fn leave(&self) -> Result<(), Ended> {
        if !self.remove {
            return Ok(());
        }
        fs::remove_dir_all(&self.path).with_context(|| format!("removing {}", self.path.display())).map_err(Ended::Failed)
    }
}
