//! `sinter serve`: a server that speaks Redis's protocol.

use crate::descriptors;
use crate::ended::Ended;
use crate::flags::nearest;
use crate::store::{drive_error, place};
use clap::Args;
use sinter_server::command::configuration::{Complaint, Directive, PARAMETERS, Parameter, Refusal, all_names, read};
use sinter_server::command::{Configuration, Server};
use sinter_server::keyspace::{Keyspace, MEMORY_MAX, MEMORY_MIN, engine_settings};
use sinter_server::log::{Level, Log};
use sinter_server::net::Net;
use sinter_server::system::random_bytes;
use sinter_storage::store::{Place, Store};
use sinterdb::internal::settings::{format_bytes, parse_bytes};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// What to serve and where. Ctrl-C, SIGTERM and SHUTDOWN end the server cleanly.
///
/// `sinter serve [FILE] [--name value ...]` takes a configuration file in Redis's form and Redis's names (docs/server/configuration.md),
/// such as `--dir data --port 6379 --requirepass secret --appendfsync always --metrics-port 9121`.
#[derive(Debug, Args)]
#[command(after_help = names())]
pub struct ServeFlags {
    /// A configuration file, and names with values, which override the file.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FILE | --NAME VALUE")]
    words: Vec<String>,
}

/// All names that have effect, for `--help`.
fn names() -> String {
    let defaults = Configuration::default();
    let each = |parameter: &Parameter| {
        let value = parameter.value(&defaults);
        let value = if value.is_empty() { "\"\"".into() } else { value };
        format!("\n  --{} {value}\n          {}", parameter.name, parameter.about)
    };
    ["Names and their defaults:".to_owned()].into_iter().chain(PARAMETERS.iter().map(each)).collect()
}

pub fn failed(error: impl Into<anyhow::Error>) -> Ended {
    Ended::Failed(error.into())
}

/// A budget of memory.
pub fn memory(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    let is_one = (MEMORY_MIN..=MEMORY_MAX).contains(&bytes);
    if is_one { Ok(bytes) } else { Err(format!("allowed {} to {}", format_bytes(MEMORY_MIN), format_bytes(MEMORY_MAX))) }
}

/// Bytes of logs that a start may have to read again: a quarter of the engine's own limit, as a server that was killed is waited for. No
/// memtable grows much larger than this.
const LOGS_MAX: u64 = 256 << 20;

/// Opens the keyspace in a store. Memtables, block cache and hot keys may take so much memory together; 0: each has its default.
///
/// # Errors
/// A budget that is none; those of opening.
pub fn open_keyspace(store: Arc<dyn Store>, memory: u64, max_open_files: u64) -> Result<Keyspace, Ended> {
    let mut settings = engine_settings(memory);
    settings.db.max_open_files = max_open_files;
    settings.db.max_total_wal_size = settings.db.max_total_wal_size.min(LOGS_MAX);
    settings.validate().map_err(|complaints| Ended::usage(complaints.join("; ")))?;
    Keyspace::open(store, &settings, seed()?).map_err(failed)
}

/// What the order of keys in a new directory starts from.
fn seed() -> io::Result<u64> {
    Ok(random_bytes(8)?.iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte)))
}

/// `--name value ..` as lines of a file.
fn directives(words: &[String], complaints: &mut Vec<Complaint>) -> Vec<Directive> {
    let mut all: Vec<Directive> = Vec::new();
    for word in words {
        if let Some(flag) = word.strip_prefix("--") {
            let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            // Flags come with underscores; names have dashes, but for a few.
            let (dashes, given) = (name.replace('_', "-"), format!("--{}", name.replace('_', "-")));
            let name = all_names().find(|known| known.replace('_', "-") == dashes).map_or(dashes, str::to_owned);
            all.push(Directive { place: given, name, values: value.map(|value| value.as_bytes().to_vec()).into_iter().collect() });
        } else if let Some(last) = all.last_mut() {
            last.values.push(word.as_bytes().to_vec());
        } else {
            complaints.push(Complaint { place: word.clone(), text: "only one file can be given, before all names".into() });
        }
    }
    all
}

/// Sets what a line says.
fn apply(configuration: &mut Configuration, directive: &Directive) -> Result<(), String> {
    let name = directive.name.as_str();
    if directive.values.is_empty() {
        return Err(format!("{name} takes a value"));
    }
    if name == "user" {
        configuration.users.push(directive.values.clone());
        return Ok(());
    }
    let value = directive.value()?;
    configuration.set(name, &value).map_err(|refusal| match refusal {
        Refusal::Wrong(why) => format!("{name} {value}: {why}"),
        Refusal::Unknown => {
            let near = nearest(name, all_names()).map(|near| format!("; did you mean {near}?"));
            format!("unknown parameter {name}{}", near.unwrap_or_default())
        }
    })
}

/// The configuration, from a file and flags. All that is wrong with it is told, each on a line of its own.
fn configure(words: &[String]) -> Result<Configuration, Ended> {
    let mut configuration = Configuration::default();
    let mut complaints = Vec::new();
    let (file, flags) = match words.split_first() {
        Some((file, flags)) if !file.starts_with("--") => (Some(PathBuf::from(file)), flags),
        _ => (None, words),
    };
    let mut all = Vec::new();
    if let Some(file) = &file {
        all = read(file, &mut complaints);
        let whole = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        configuration.file = whole.display().to_string();
    }
    all.extend(directives(flags, &mut complaints));
    for directive in all {
        if let Err(text) = apply(&mut configuration, &directive) {
            complaints.push(Complaint { place: directive.place, text });
        }
    }
    if complaints.is_empty() {
        return Ok(configuration);
    }
    let (last, rest) = complaints.split_last().map_or((None, &[][..]), |(last, rest)| (Some(last), rest));
    rest.iter().for_each(|complaint| eprintln!("sinter: {complaint}"));
    Err(Ended::usage(last.map(ToString::to_string).unwrap_or_default()))
}

/// The log, to the file that the configuration names or to standard error.
fn open_log(configuration: &Configuration) -> Result<Log, Ended> {
    let path = Path::new(&configuration.log_file);
    if path.as_os_str().is_empty() {
        return Ok(Log::new(Box::new(io::stderr()), configuration.log_level));
    }
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(|error| Ended::usage(format!("logfile {}: {error}", path.display())))?;
    Ok(Log::new(Box::new(file), configuration.log_level))
}

/// A file that holds the number of the process, and goes with it.
struct PidFile(PathBuf);

impl PidFile {
    fn write(path: &str) -> Result<Option<PidFile>, Ended> {
        if path.is_empty() {
            return Ok(None);
        }
        let text = format!("{}\n", std::process::id());
        std::fs::write(path, text).map_err(|error| Ended::usage(format!("pidfile {path}: {error}")))?;
        Ok(Some(PidFile(path.into())))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Whoever took it away has done what was to be done.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens the place of the data, which is made if it is a directory that is missing.
pub fn open(path: &Path) -> Result<Arc<dyn Store>, Ended> {
    let place = place(path)?;
    place.open(true).map_err(|error| match &place {
        Place::Directory(path) => Ended::usage(format!("{}: {error}", path.display())),
        Place::Zoned(zoned) => drive_error(&zoned.drive, error),
    })
}

/// Says what became of the limit of open files.
fn note_descriptors(log: &Log) {
    let now = sinter_server::net::unix_ms();
    match descriptors::raise() {
        None => {}
        Some(Ok((from, to))) => log.event(now, Level::Notice, "descriptors_raised", &[("from", &from), ("to", &to)]),
        Some(Err(error)) => log.event(now, Level::Warning, "descriptors_not_raised", &[("error", &error)]),
    }
}

/// Runs the command.
///
/// # Errors
/// A configuration that makes no sense, an address that cannot be had, a directory that is none or holds something else; failures of the
/// network and of the medium.
pub fn run(flags: &ServeFlags) -> Result<ExitCode, Ended> {
    let configuration = configure(&flags.words)?;
    let directory = PathBuf::from(&configuration.directory);
    let listening = configuration.listening().map_err(Ended::usage)?;
    let tls = configuration.tls.load_if(configuration.tls_port > 0).map_err(Ended::usage)?;
    let log = open_log(&configuration)?;
    // Before the data are opened: clients and tables share the descriptors.
    note_descriptors(&log);
    let keyspace = open_keyspace(open(&directory)?, configuration.memory, sinter_server::net::files_max())?;
    let run_id = random_bytes(20)?.iter().map(|byte| format!("{byte:02x}")).collect();
    let pid_file = configuration.pid_file.clone();
    let server = Server { configuration, run_id, tls, log: log.clone(), ..Server::default() };
    let net = Net::listen(&listening, keyspace, server).map_err(failed)?;
    let _pid_file = PidFile::write(&pid_file)?;
    let stopper = net.stopper();
    ctrlc::set_handler(move || stopper.stop()).map_err(failed)?;
    let (address, tls_address) = (net.address()?, net.tls_address()?);
    let now = sinter_server::net::unix_ms();
    let served = match tls_address {
        Some(tls) if tls == address => format!("with TLS on {tls}"),
        Some(tls) => format!("on {address}, with TLS on {tls}"),
        None => format!("on {address}"),
    };
    let tls = tls_address.map_or("none".into(), |tls| tls.to_string());
    let (place, process) = (directory.display(), std::process::id());
    log.event(now, Level::Notice, "serving", &[("dir", &place), ("address", &address), ("tls", &tls), ("process", &process)]);
    if let Some(metrics) = net.metrics_address() {
        log.event(now, Level::Notice, "serving_metrics", &[("address", &metrics)]);
    }
    writeln!(io::stdout(), "serving {place} {served}")?;
    net.run().map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinter_server::command::Allowed;

    fn configured(words: &[&str]) -> Result<Configuration, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).into()).collect();
        configure(&words).map_err(|ended| match ended {
            Ended::Usage(text) => text,
            Ended::Failed(error) => format!("failed: {error}"),
        })
    }

    #[test]
    fn flags_are_names_with_values() {
        let configuration =
            configured(&["--port", "7", "--bind", "127.0.0.1", "-::1", "--slowlog_max_len=9", "--save", "", "--memory", "512MB"]).unwrap();
        assert_eq!((configuration.port, configuration.slowlog_max_len, configuration.memory), (7, 9, 512 << 20));
        assert_eq!(configuration.bind, "127.0.0.1 -::1");
        let configuration = configured(&["--store=zoned:zones.img", "--memory=16MiB", "--enable_debug_command", "local"]).unwrap();
        assert_eq!((configuration.directory.as_str(), configuration.memory), ("zoned:zones.img", 16 << 20));
        assert_eq!(configuration.debug_command, Allowed::Local);
        assert!(names().contains("\n  --appendfsync everysec\n"), "{}", names());
        for (words, complaint) in [
            (&["--prot", "7"][..], "--prot: unknown parameter prot; did you mean port?"),
            (&["--port"], "--port: port takes a value"),
            (&["--dbfilename", "x"], "--dbfilename: dbfilename x: must be a file name that ends in .rdb, without a directory"),
            (
                &["--daemonize", "yes"],
                "--daemonize: daemonize yes: only no is possible: the service manager (systemd, a container) controls the process",
            ),
            (&["--replicaof", "a", "1"], "--replicaof: replicaof a 1: there is no such parameter here: there is no replication"),
            (&["/no/such/file"], "/no/such/file: /no/such/file: No such file or directory (os error 2)"),
        ] {
            assert_eq!(configured(words).map(|_| ()), Err(complaint.to_owned()), "{words:?}");
        }
    }

    #[test]
    fn files_come_before_flags() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sinter.conf");
        std::fs::write(&path, "port 1\ntimeout 3\nuser alice on >secret ~* +@all\nappendonly yes\n").unwrap();
        let configuration = configured(&[path.to_str().unwrap(), "--port", "2"]).unwrap();
        assert_eq!((configuration.port, configuration.timeout, configuration.users.len()), (2, 3, 1));
        assert_eq!(configuration.file, path.display().to_string());
        assert!(configuration.append_only);
        std::fs::write(&path, "port 1\ndaemonize yes\n").unwrap();
        let complaint = configured(&[path.to_str().unwrap()]).unwrap_err();
        assert!(complaint.starts_with(&format!("{}:2: daemonize yes: only no is possible: ", path.display())), "{complaint}");
    }
}
