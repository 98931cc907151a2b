//! `sinter study`: runs or resumes a study, and prints its results.

mod print;

use crate::ended::Ended;
use anyhow::anyhow;
use clap::Args;
use print::Watch;
use sinter_lab::drive::{INTERRUPTED, permitted_memory, permitted_processors, permitted_quota, stop_on_signal};
use sinter_lab::report;
use sinter_lab::run::{Limits, Workload};
use sinter_lab::study::archive::archive;
use sinter_lab::study::catalogue;
use sinter_lab::study::conduct::{Conducted, Runner, conduct};
use sinter_lab::study::folder::{Folder, read};
use sinter_lab::study::forecast::Forecast;
use sinter_lab::study::judge::{Results, judge, table};
use sinter_lab::study::plan::{Cell, Permits, Request, Scale, Study};
use sinter_lab::study::servers::Servers;
use sinterdb::internal::settings::parse_bytes;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The engine that this program runs itself; the rivals program runs the others.
const OWN_ENGINE: &str = "sinter";
/// The server that this program can start, too.
const OWN_RIVAL: &str = "redis";
/// The program with the other engines.
const RIVALS: &str = "sinter-rivals";

/// The study to run. `sinter study list` lists the studies.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct StudyFlags {
    /// The study, or `list`.
    #[arg(required_unless_present_any = ["workload", "resume"])]
    name: Option<String>,
    /// Instead of a study: a named workload (ycsb-a to ycsb-f, mixed-lifetime, hot-cold) or one of your own (a JSON file), under many
    /// settings.
    #[arg(long, conflicts_with = "name")]
    workload: Option<PathBuf>,
    /// How large: ci (under a minute), small (minutes; the default), paper (the original's sizes).
    #[arg(long)]
    scale: Option<String>,
    /// Engines side by side: sinter, rocksdb, fjall; in studies of servers sinter, redis.
    #[arg(long, value_delimiter = ',')]
    engine: Vec<String>,
    /// Repeats of everything; the study's own number if not given.
    #[arg(long)]
    repeats: Option<u32>,
    /// FACTOR=VALUE: only cells with this value of a factor, such as part=A. As often as there are some: several values of a factor are
    /// alternatives, several factors have to come together.
    #[arg(long)]
    only: Vec<String>,
    /// Seed of the order of runs and of all keys.
    #[arg(long)]
    seed: Option<u64>,
    /// Folder of the results; by default named after the study, here.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Where the data of the runs lie meanwhile; by default `sinter-study-data` in $TMPDIR, or else here.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Go on with the study in the output folder.
    #[arg(long)]
    resume: bool,
    /// The program with the other engines; by default `sinter-rivals` beside this one.
    #[arg(long)]
    rivals: Option<PathBuf>,
    /// The program of Redis, for studies of servers; by default the `redis-server` that is found first.
    #[arg(long)]
    redis: Option<PathBuf>,
    /// Processors that a run may use.
    #[arg(long)]
    cpus: Option<usize>,
    /// Memory that a run may use, page cache included.
    #[arg(long, value_parser = parse_bytes)]
    memory: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// Wrong names, flags and files; a folder that cannot be written.
pub fn run(flags: &StudyFlags) -> Result<ExitCode, Ended> {
    if flags.name.as_deref() == Some("list") {
        print::list(catalogue::STUDIES)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (begun, study) = flags.asked()?;
    let (own, rivals) = (Runner::of(std::env::current_exe()?), Runner::of(flags.rivals_program()?));
    let is_own = |engine: &str| [OWN_ENGINE, OWN_RIVAL].contains(&engine);
    let runner = |engine: &str| if is_own(engine) { own.clone() } else { rivals.clone() };
    if study.engines.iter().any(|engine| !is_own(engine)) && !rivals.program.is_file() {
        let program = rivals.program.display();
        return Err(Ended::usage(format!(
            "{program}: no such program; other engines are in {RIVALS} (build crates/rivals, or give --rivals)"
        )));
    }
    let folder = begun.map_or_else(|| Folder::create(&flags.output(&study), &study), Ok)?;
    fs::create_dir_all(&study.medium.directory)
        .map_err(|error| Ended::usage(format!("--directory {}: {error}", study.medium.directory.display())))?;
    print::left_out(&study)?;
    let stop = stop_on_signal().map_err(|failure| Ended::Failed(anyhow!(failure)))?;
    let forecast = Forecast::of(&study, &folder)?;
    print::forecast(&forecast, &study.medium.directory)?;
    let mut watch = Watch::new(&study, forecast);
    let conducted = conduct(&study, &folder, &runner, &stop, &mut |event| watch.see(&event))?;
    watch.end();
    // Another process may have archived finished runs meanwhile.
    let (folder, _) = Folder::open(folder.path())?;
    let results = Results::read(&study, &folder)?;
    let findings = judge(&study, &results);
    folder.conclude(&findings)?;
    if !conducted.interrupted {
        archive(folder.path())?;
    }
    print::findings(&findings)?;
    let page = report::write(folder.path()).map_err(|failure| Ended::Failed(failure.into()))?;
    if study.compares_engines() {
        print::made(&folder.path().join(report::ENGINES))?;
    } else if study.cells.iter().any(|cell| cell.settings.server.is_some()) {
        print::made(&folder.path().join(report::SERVERS))?;
    } else if study.hypotheses.is_empty() {
        print::table(&table(&study, &results))?;
    }
    print::end(&conducted, study.runs().len(), &page, folder.path())?;
    Ok(match conducted {
        Conducted { interrupted: true, .. } => ExitCode::from(INTERRUPTED),
        Conducted { failed: 0, .. } => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

impl StudyFlags {
    /// The requested study, with its folder if it is resumed.
    fn asked(&self) -> Result<(Option<Folder>, Study), Ended> {
        if self.resume { self.go_on().map(|(folder, study)| (Some(folder), study)) } else { Ok((None, self.study()?)) }
    }

    fn output(&self, study: &Study) -> PathBuf {
        self.output.clone().unwrap_or_else(|| default_output(&study.name, study.scale))
    }

    /// Loads the study to resume. Flags that contradict it are errors.
    fn go_on(&self) -> Result<(Folder, Study), Ended> {
        let scale = self.scale()?;
        let named = self.name.as_ref().map(|name| default_output(name, Some(scale.unwrap_or(Scale::Small))));
        let path = self.output.clone().or(named).ok_or_else(|| Ended::usage("--resume needs a study's name or --output"))?;
        let (folder, study) = Folder::open(&path)?;
        let limits = (self.cpus.is_some() || self.memory.is_some()).then(|| self.limits());
        let conflicts = [
            ("name", self.name.as_ref().is_some_and(|name| *name != study.name)),
            ("--scale", scale.is_some_and(|scale| Some(scale) != study.scale)),
            ("--engine", !self.engine.is_empty() && self.engine != study.engines),
            ("--repeats", self.repeats.is_some_and(|repeats| repeats != study.repeats)),
            ("--only", !self.only.is_empty() && sorted(&self.only) != sorted(&study.chosen)),
            ("--seed", self.seed.is_some_and(|seed| seed != study.seed)),
            ("--directory", self.directory.as_ref().is_some_and(|directory| *directory != study.medium.directory)),
            ("--cpus or --memory", limits.is_some_and(|limits| limits != study.limits)),
            ("--workload", self.workload.is_some()),
            ("--redis", self.redis.as_ref().is_some_and(|redis| !study.cells.iter().any(|cell| names(cell, redis)))),
        ];
        match conflicts.iter().find(|(_, differs)| *differs) {
            Some((flag, _)) => Err(Ended::usage(format!("{}: was begun with another {flag}; leave it out to go on", path.display()))),
            None => Ok((folder, study)),
        }
    }

    fn study(&self) -> Result<Study, Ended> {
        let usual = || std::env::var_os("TMPDIR").map_or_else(PathBuf::new, PathBuf::from).join("sinter-study-data");
        let directory = self.directory.clone().unwrap_or_else(usual);
        let request = Request {
            servers: self.servers(&directory)?,
            directory,
            engines: if self.engine.is_empty() { vec![OWN_ENGINE.to_string()] } else { self.engine.clone() },
            repeats: self.repeats,
            seed: self.seed.unwrap_or(1),
            limits: self.limits(),
            permits: self.permits(),
        };
        let scale = self.scale()?;
        if let Some(workload) = &self.workload {
            return Ok(catalogue::own_workload(named_or_read(workload, scale)?, &request)?.only(&self.only)?);
        }
        let name = self.name.as_deref().unwrap_or_default();
        Ok(catalogue::study(name, scale.unwrap_or(Scale::Small), &request)?.only(&self.only)?)
    }

    /// The limits of the kernel, looked up only for studies that depend on them, as it takes cgroups.
    fn permits(&self) -> Permits {
        let least = self.name.as_deref().and_then(catalogue::least_memory);
        least.map_or_else(Permits::all, |least| Permits {
            cpus: permitted_processors(),
            memory: permitted_memory(least),
            quota: permitted_quota(),
        })
    }

    /// The servers on this machine, looked up only for studies of servers.
    fn servers(&self, directory: &Path) -> Result<Servers, Ended> {
        match (self.name.as_deref().is_some_and(catalogue::has_servers), &self.redis) {
            (true, redis) => Servers::here(redis.as_deref(), directory).map_err(|what| Ended::usage(format!("--redis: {what}"))),
            (false, None) => Ok(Servers::all()),
            (false, Some(_)) => Err(Ended::usage("--redis: the study has no servers")),
        }
    }

    fn scale(&self) -> Result<Option<Scale>, Ended> {
        let Some(name) = &self.scale else { return Ok(None) };
        let known = Scale::ALL.map(Scale::name).join(", ");
        let found = Scale::ALL.into_iter().find(|scale| scale.name() == name);
        found.map(Some).ok_or_else(|| Ended::usage(format!("--scale: there is no {name:?}; there are: {known}")))
    }

    fn limits(&self) -> Limits {
        Limits { cpus: self.cpus, memory_bytes: self.memory, cpu_percent: None }
    }

    fn rivals_program(&self) -> Result<PathBuf, Ended> {
        let beside = || std::env::current_exe().map(|own| own.with_file_name(RIVALS));
        Ok(self.rivals.clone().map_or_else(beside, Ok)?)
    }
}

/// The named workload, or one read from a file, which defines its size.
fn named_or_read(workload: &Path, scale: Option<Scale>) -> Result<Workload, Ended> {
    let named = workload.to_str().and_then(|name| catalogue::named_workload(name, scale.unwrap_or(Scale::Small)));
    match (named, scale) {
        (Some(workload), _) => Ok(workload),
        (None, None) => Ok(read(workload)?),
        (None, Some(_)) => Err(Ended::usage(format!("--scale: {} is no named workload, and a file has its own size", workload.display()))),
    }
}

/// Whether a cell's server is the program at this path.
fn names(cell: &Cell, program: &Path) -> bool {
    let whole = std::path::absolute(program).ok();
    cell.settings.server.as_ref().is_some_and(|server| server.program.is_some() && server.program == whole)
}

fn default_output(name: &str, scale: Option<Scale>) -> PathBuf {
    scale.map_or_else(|| name.to_string(), |scale| format!("{name}-{}", scale.name())).into()
}

fn sorted(choices: &[String]) -> Vec<&String> {
    let mut choices: Vec<&String> = choices.iter().collect();
    choices.sort_unstable();
    choices
}
