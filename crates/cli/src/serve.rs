//! `sinter serve`: a server that speaks Redis's protocol.

use crate::background;
use crate::descriptors;
use crate::ended::{Ended, complain};
use crate::flags::nearest;
use crate::signals::Signals;
use crate::store::{drive_error, place};
use anyhow::anyhow;
use clap::Args;
use sinter_server::command::configuration::{Complaint, Directive, PARAMETERS, Parameter, Refusal, Supervised, all_names, read};
use sinter_server::command::{Configuration, Server};
use sinter_server::keyspace::{Error, Keyspace, MEMORY_MAX, MEMORY_MIN, engine_settings};
use sinter_server::log::{Level, Log, SystemLog};
use sinter_server::net::Net;
use sinter_server::resp::split_words;
use sinter_server::system::random_bytes;
use sinter_storage::place::Place;
use sinter_storage::store::Store;
use sinterdb::internal::settings::{format_bytes, parse_bytes};
use sinterdb::settings::Settings;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The data to serve, and the addresses to serve it on. Ctrl-C, SIGTERM and SHUTDOWN end the server cleanly.
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

/// All names that have an effect, for `--help`.
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

/// Parses a memory budget.
pub fn memory(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    let is_one = (MEMORY_MIN..=MEMORY_MAX).contains(&bytes);
    if is_one { Ok(bytes) } else { Err(format!("allowed {} to {}", format_bytes(MEMORY_MIN), format_bytes(MEMORY_MAX))) }
}

/// Bytes of logs that a start may have to replay: a quarter of the engine's own limit, as clients wait for the restart of a killed server.
/// Also bounds the size of a memtable, approximately.
const LOGS_MAX: u64 = 256 << 20;

/// Settings of the engine. Memtables, block cache and hot keys may take `memory` bytes together; 0: each has its default.
///
/// # Errors
/// A wrong budget is a usage error.
pub fn settings(memory: u64, max_open_files: u64) -> Result<Settings, Ended> {
    let mut settings = engine_settings(memory);
    settings.db.max_open_files = max_open_files;
    settings.db.max_total_wal_size = settings.db.max_total_wal_size.min(LOGS_MAX);
    settings.validate().map_err(|complaints| Ended::usage(complaints.join("; ")))?;
    Ok(settings)
}

/// The error if the data in `dir` cannot be opened; after an interrupted import, with the commands that complete or drop it.
pub fn not_opened(dir: &Path) -> impl FnOnce(Error) -> Ended {
    move |error| match error {
        Error::Unfinished => Ended::Failed(anyhow!(
            "{dir}: an import has not finished; run it again, or drop what it has left with: sinter import --abandon --dir {dir}",
            dir = dir.display()
        )),
        error => failed(error),
    }
}

/// Random seed for the order of keys in a new directory.
pub fn seed() -> io::Result<u64> {
    Ok(random_bytes(8)?.iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte)))
}

/// The name in a configuration file that a flag stands for: a flag may have underscores where most names have dashes.
fn name_of(flag: &str) -> String {
    let dashes = flag.to_ascii_lowercase().replace('_', "-");
    all_names().find(|known| known.replace('_', "-") == dashes).map_or(dashes, str::to_owned)
}

/// A flag without its dashes as a line of a file: `port`, `port=1` or `port 1`, the last one with quotes as in a file.
fn directive(flag: &str) -> Result<Directive, Complaint> {
    let end = flag.find(|end: char| end == '=' || end.is_ascii_whitespace());
    let (name, values) = match end.map(|at| flag.split_at(at)) {
        None => (flag, Some(Vec::new())),
        Some((name, value)) if value.starts_with('=') => (name, Some(vec![value.as_bytes()[1..].to_vec()])),
        Some((name, values)) => (name, split_words(values.as_bytes())),
    };
    let place = format!("--{}", name.replace('_', "-"));
    match values {
        Some(values) => Ok(Directive { place, name: name_of(name), values }),
        None => Err(Complaint { place, text: "quotes are not balanced".into() }),
    }
}

/// `--name value ..` as lines of a configuration file, by Redis's rules: the word behind a name is its value even if it begins with `--`,
/// and only `--save` needs none. The first name may lack the dashes.
fn directives(words: &[String], complaints: &mut Vec<Complaint>) -> Vec<Directive> {
    let mut all: Vec<Directive> = Vec::new();
    let mut needs_value = false;
    for (at, word) in words.iter().enumerate() {
        match (word.strip_prefix("--").filter(|_| !needs_value), all.last_mut()) {
            (Some(flag), _) => {
                needs_value = false;
                match directive(flag) {
                    Err(complaint) => complaints.push(complaint),
                    Ok(mut directive) => {
                        let next = words.get(at + 1);
                        if directive.name == "save" && directive.values.is_empty() && next.is_none_or(|next| next.starts_with("--")) {
                            directive.values.push(Vec::new());
                        }
                        needs_value = directive.values.is_empty();
                        all.push(directive);
                    }
                }
            }
            (None, Some(last)) => {
                last.values.push(word.as_bytes().to_vec());
                needs_value = false;
            }
            (None, None) if all_names().any(|known| known == name_of(word)) => {
                all.push(Directive { place: word.clone(), name: name_of(word), values: Vec::new() });
            }
            (None, None) => complaints.push(Complaint { place: word.clone(), text: "only one file can be given, before all names".into() }),
        }
    }
    all
}

/// Applies one line of a configuration file, or a flag as such a line.
fn apply(configuration: &mut Configuration, directive: &Directive) -> Result<(), String> {
    let name = directive.name.as_str();
    if directive.values.is_empty() {
        return Err(format!("{name} takes a value"));
    }
    if name == "user" {
        configuration.users.push(directive.values.clone());
        return Ok(());
    }
    if name == "rename-command" {
        let [old, new] = &directive.values[..] else { return Err("rename-command takes a command and its new name".into()) };
        return configuration.renames.rename(old, new).map_err(|why| format!("rename-command: {why}"));
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

/// The configuration from a file and flags. The error lists everything that is wrong, one line each.
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
    rest.iter().for_each(complain);
    Err(Ended::usage(last.map(ToString::to_string).unwrap_or_default()))
}

/// The socket of syslog.
const SYSTEM_LOG: &str = "/dev/log";

/// The log: to the configured file or to standard error, and also to syslog if that is configured.
fn open_log(configuration: &Configuration) -> Result<Log, Ended> {
    let Configuration { syslog_ident, syslog_facility, log_level, .. } = configuration;
    let system = configuration.syslog.then(|| SystemLog::new(SYSTEM_LOG.into(), syslog_ident.clone(), *syslog_facility));
    let path = Path::new(&configuration.log_file);
    if path.as_os_str().is_empty() {
        return Ok(Log::new(Box::new(io::stderr()), system, *log_level));
    }
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(|error| Ended::usage(format!("logfile {}: {error}", path.display())))?;
    Ok(Log::new(Box::new(file), system, *log_level))
}

/// The file with the process id, removed when the server ends.
struct PidFile(PathBuf);

impl PidFile {
    fn text() -> String {
        format!("{}\n", std::process::id())
    }

    /// Writes the file, if one is configured. If that fails, the server serves without it, like Redis.
    fn write(path: &str, log: &Log) -> Option<PidFile> {
        if path.is_empty() {
            return None;
        }
        match std::fs::write(path, PidFile::text()) {
            Ok(()) => Some(PidFile(path.into())),
            Err(error) => {
                let values: [(&str, &dyn Display); 2] = [("pidfile", &path), ("error", &error)];
                log.event(sinter_server::net::unix_ms(), Level::Warning, "pidfile_not_written", &values);
                None
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another server may have written its process id there meanwhile.
        if std::fs::read_to_string(&self.0).is_ok_and(|text| text == PidFile::text()) {
            // Others may remove the file at the same time.
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// Opens the store at a path; a missing directory is created.
pub fn open(path: &Path) -> Result<Arc<dyn Store>, Ended> {
    let place = place(path)?;
    place.open(true).map_err(|error| match &place {
        Place::Directory(path) => Ended::usage(format!("{}: {error}", path.display())),
        Place::Zoned(zoned) => drive_error(&zoned.drive, error),
    })
}

/// Refuses a directory with data of a Redis server that was not imported: clients would find no key.
fn check_left(configuration: &Configuration, store: &dyn Store) -> Result<(), Ended> {
    let Configuration { directory, dump_name, append_directory, append_name, .. } = configuration;
    let mut names = [append_directory, append_name, dump_name].into_iter();
    match names.find(|name| Path::new(directory).join(name).exists()) {
        Some(name) if store.list()?.is_empty() => Err(Ended::usage(format!(
            "{directory} holds {name} of a Redis server and no database: `sinter import {directory}/{name} --dir {directory}` takes it over"
        ))),
        _ => Ok(()),
    }
}

/// Logs the result of raising the limit of open files.
fn note_descriptors(log: &Log) {
    let now = sinter_server::net::unix_ms();
    match descriptors::raise() {
        None => {}
        Some(Ok((from, to))) => log.event(now, Level::Notice, "descriptors_raised", &[("from", &from), ("to", &to)]),
        Some(Err(error)) => log.event(now, Level::Warning, "descriptors_not_raised", &[("error", &error)]),
    }
}

/// The server's addresses, for people: `on 127.0.0.1:6379, with TLS on 127.0.0.1:6380`.
fn places(net: &Net) -> io::Result<String> {
    let path = net.path().map(|path| format!("at {}", path.display()));
    let tls = net.tls_address()?;
    let plain = net.address().ok().filter(|address| tls != Some(*address)).map(|address| format!("on {address}"));
    let tls = tls.map(|address| format!("with TLS on {address}"));
    Ok([path, plain, tls].into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// Tells the log, the supervisor and the process that started the server that it serves.
fn announce(net: &Net, directory: &Path, log: &Log, supervised: Supervised, is_background: bool) -> Result<(), Ended> {
    let now = sinter_server::net::unix_ms();
    let (place, process) = (directory.display(), std::process::id());
    let or_none = |name: Option<String>| name.unwrap_or_else(|| "none".into());
    let address = or_none(net.address().ok().map(|address| address.to_string()));
    let tls = or_none(net.tls_address()?.map(|address| address.to_string()));
    let unix = or_none(net.path().map(|path| path.display().to_string()));
    let values: [(&str, &dyn Display); 5] =
        [("dir", &place), ("address", &address), ("tls", &tls), ("unixsocket", &unix), ("process", &process)];
    log.event(now, Level::Notice, "serving", &values);
    if let Some(metrics) = net.metrics_address() {
        log.event(now, Level::Notice, "serving_metrics", &[("address", &metrics)]);
    }
    // Standard output may be full or closed, and the process that started the server may have ended: the server serves without the line.
    let _ = writeln!(io::stdout(), "serving {place} {}", places(net)?);
    if is_background {
        background::leave_terminal()?;
    }
    if let Err(error) = background::tell_ready(supervised) {
        log.event(now, Level::Warning, "supervisor_not_told", &[("supervised", &supervised.name()), ("error", &error)]);
    }
    Ok(())
}

/// Runs the command.
///
/// # Errors
/// A wrong configuration, an address that is not available, a directory that cannot be used or holds something else; failures of the
/// network and of the medium.
pub fn run(flags: &ServeFlags) -> Result<ExitCode, Ended> {
    let configuration = configure(&flags.words)?;
    let supervised = background::supervised(configuration.supervised);
    // As in Redis, a supervised server does not go into the background.
    let is_background = configuration.daemonize && supervised == Supervised::No;
    if is_background && !background::is_started() {
        return background::start();
    }
    if is_background {
        background::leave_session()?;
    }
    let signals = Signals::receive()?;
    let directory = PathBuf::from(&configuration.directory);
    let listening = configuration.listening().map_err(Ended::usage)?;
    let tls = configuration.tls.load_if(configuration.tls_port > 0, configuration.following.is_encrypted).map_err(Ended::usage)?;
    let log = open_log(&configuration)?;
    // Before the data is opened: clients and tables share the descriptors.
    note_descriptors(&log);
    let store = open(&directory)?;
    check_left(&configuration, &*store)?;
    let settings = settings(configuration.budget(), sinter_server::net::files_max())?;
    let keyspace = Keyspace::open(store, &settings, seed()?).map_err(not_opened(&directory))?;
    let run_id = random_bytes(20)?.iter().map(|byte| format!("{byte:02x}")).collect();
    let pid_file = configuration.pid_file.clone();
    let server = Server { configuration, run_id, tls, log: log.clone(), supervised, ..Server::default() };
    let net = Net::listen(&listening, keyspace, server).map_err(failed)?;
    let _pid_file = PidFile::write(&pid_file, &log);
    signals.stop(net.stopper());
    announce(&net, &directory, &log, supervised, is_background)?;
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
    fn the_next_server_keeps_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        let log = Log::default();
        let write = || PidFile::write(path.to_str().unwrap(), &log);
        let ours = write();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), PidFile::text());
        drop(ours);
        assert!(!path.exists());
        let ours = write();
        std::fs::write(&path, "1\n").unwrap();
        drop(ours);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n");
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
            (&["--port", "--timeout", "1"], "--port: port --timeout 1: argument couldn't be parsed into an integer"),
            (&["--requirepass 'a"], "--requirepass: quotes are not balanced"),
            (&["--dbfilename", "x"], "--dbfilename: dbfilename x: must be a file name that ends in .rdb, without a directory"),
            (&["--cluster-enabled", "yes"], "--cluster-enabled: cluster-enabled yes: only no is possible: there is no cluster"),
            (&["--replicaof", "a", "x"], "--replicaof: replicaof a x: Invalid master port"),
            (&["--rename-command", "GET"], "--rename-command: rename-command takes a command and its new name"),
            (&["--rename-command", "GETT", "x"], "--rename-command: rename-command: there is no command GETT"),
            (&["--rename-command", "GET", "set"], "--rename-command: rename-command: there is a command set already"),
            (&["/no/such/file"], "/no/such/file: /no/such/file: No such file or directory (os error 2)"),
        ] {
            assert_eq!(configured(words).map(|_| ()), Err(complaint.to_owned()), "{words:?}");
        }
    }

    /// The rules by which Redis reads its command line, so that lines of services and containers work as they are.
    #[test]
    fn words_are_taken_as_redis_takes_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sinter.conf");
        std::fs::write(&path, "save 900 1\n").unwrap();
        let shown = |words: &[&str], name: &str| {
            let configuration = configured(&[&[path.to_str().unwrap()][..], words].concat()).unwrap();
            let parameter = PARAMETERS.iter().find(|parameter| parameter.name == name);
            parameter.map_or_else(|| configuration.without_effect[name].clone(), |parameter| parameter.value(&configuration))
        };
        for (words, name, value) in [
            (&["--maxmemory 700mb", "--loglevel debug"][..], "maxmemory", "734003200"),
            (&["timeout", "7", "--maxmemory '700mb'"], "maxmemory", "734003200"),
            (&["timeout", "7", "--maxmemory '700mb'"], "timeout", "7"),
            (&["--proc-title-template", "--my--title", "--loglevel", "verbose"], "loglevel", "verbose"),
            (&["--proc-title-template", "--my--title", "--loglevel", "verbose"], "proc-title-template", "--my--title"),
            (&["--save", "100", "100"], "save", "900 1 100 100"),
            (&["--requirepass=a b=c"], "requirepass", "a b=c"),
            (&["--requirepass", "--secret"], "requirepass", "--secret"),
            (
                &["--shutdown-on-sigint", "nosave", "force", "now", "--shutdown-on-sigterm", "nosave force"],
                "shutdown-on-sigint",
                "nosave now force",
            ),
            (
                &["--shutdown-on-sigint", "nosave", "force", "now", "--shutdown-on-sigterm", "nosave force"],
                "shutdown-on-sigterm",
                "nosave force",
            ),
        ] {
            assert_eq!(shown(words, name), value, "{words:?}");
        }
        for words in [&["--save", "--timeout", "7"][..], &["--timeout", "7", "--save"], &["--save", "", "--timeout", "7"]] {
            let configuration = configured(&[&[path.to_str().unwrap()][..], words].concat()).unwrap();
            assert_eq!((configuration.timeout, configuration.without_effect.get("save")), (7, None), "{words:?}");
        }
        let complaint = configured(&["a.conf", "b.conf"]).unwrap_err();
        assert_eq!(complaint, "b.conf: only one file can be given, before all names");
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
        std::fs::write(&path, "port 1\ndatabases 17\n").unwrap();
        let complaint = configured(&[path.to_str().unwrap()]).unwrap_err();
        assert!(complaint.starts_with(&format!("{}:2: databases 17: only 16 is possible: ", path.display())), "{complaint}");
    }
}
