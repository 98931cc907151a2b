//! `sinter serve`: a server that speaks Redis's protocol.

use crate::ended::Ended;
use crate::store::{drive_error, place};
use clap::Args;
use sinter_server::command::{Allowed, Configuration, Fsync, Server};
use sinter_server::keyspace::Keyspace;
use sinter_server::net::Net;
use sinter_storage::store::{Place, Store};
use sinterdb::settings::{Budgets, Settings, parse_bytes};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Where to serve what. Ends cleanly at Ctrl-C or SIGTERM.
#[derive(Debug, Args)]
pub struct ServeFlags {
    /// Address to listen on. Anything but a loopback address needs a password.
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// Port to listen on; 0: a free one, which is printed.
    #[arg(long, default_value_t = 6379)]
    port: u16,
    /// Directory of the data, created if it is missing, or zoned:DRIVE for a volume on a zoned drive.
    #[arg(long, visible_alias = "store", default_value = "sinter-data")]
    dir: PathBuf,
    /// Password that clients have to give.
    #[arg(long, default_value = "")]
    requirepass: String,
    /// When writes survive the machine: always (before the reply), everysec, no (when the system finds the time).
    #[arg(long, default_value = "everysec", value_parser = fsync)]
    appendfsync: Fsync,
    /// Most clients at the same time.
    #[arg(long, default_value_t = 10_000)]
    maxclients: usize,
    /// Who may use DEBUG: no (nobody), local (clients on this machine), yes (all clients). Tests of clients and servers want it.
    #[arg(long = "enable_debug_command", default_value = "no", value_parser = allowed)]
    enable_debug_command: Allowed,
    /// Memory for memtables and cache together, such as 512MB.
    #[arg(long, value_parser = memory)]
    memory: Option<u64>,
    /// Name of the file that SAVE and BGSAVE write: in the directory of the data; where the server was started, if these lie on a drive.
    #[arg(long, default_value = "dump.rdb", value_parser = dump_name)]
    dbfilename: String,
}

fn fsync(text: &str) -> Result<Fsync, String> {
    Fsync::parse(text).ok_or_else(|| "one of always, everysec, no".into())
}

fn allowed(text: &str) -> Result<Allowed, String> {
    Allowed::parse(text).ok_or_else(|| "one of no, local, yes".into())
}

pub fn memory(text: &str) -> Result<u64, String> {
    parse_bytes(text)
}

/// A name that no file of the engine has.
fn dump_name(text: &str) -> Result<String, String> {
    let is_name = text.len() > ".rdb".len() && text.ends_with(".rdb") && !text.contains(['/', '\\', '\0']);
    if is_name { Ok(text.into()) } else { Err("a file name that ends in .rdb, without a directory".into()) }
}

/// Settings of an engine that may take so much memory.
pub fn settings(memory: Option<u64>) -> Result<Settings, Ended> {
    let settings = Settings::new(Budgets { memory, ..Budgets::default() });
    settings.validate().map_err(|complaints| Ended::usage(complaints.join("; ")))?;
    Ok(settings)
}

/// What the order of keys in a new directory starts from.
pub fn seed() -> io::Result<u64> {
    Ok(u64::from_le_bytes(random()?))
}

pub fn failed(error: impl Into<anyhow::Error>) -> Ended {
    Ended::Failed(error.into())
}

/// So many random bytes, from the system.
fn random<const BYTES: usize>() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Opens the place of the data, which is made if it is a directory that is missing.
pub fn open(path: &Path) -> Result<Arc<dyn Store>, Ended> {
    let place = place(path)?;
    place.open(true).map_err(|error| match &place {
        Place::Directory(path) => Ended::usage(format!("{}: {error}", path.display())),
        Place::Zoned(zoned) => drive_error(&zoned.drive, error),
    })
}

/// The directory of saved files: a drive has none.
fn saves(data: &Path) -> Result<PathBuf, Ended> {
    Ok(match place(data)? {
        Place::Directory(path) => path,
        Place::Zoned(_) => std::env::current_dir()?,
    })
}

/// Runs the command.
///
/// # Errors
/// An address that cannot be had, a directory that is none or holds something else; failures of the network and of the medium.
pub fn run(flags: &ServeFlags) -> Result<ExitCode, Ended> {
    let settings = settings(flags.memory)?;
    let store = open(&flags.dir)?;
    let keyspace = Keyspace::open(store, &settings, seed()?).map_err(failed)?;
    let run_id: [u8; 20] = random()?;
    let server = Server {
        configuration: Configuration {
            bind: flags.bind.to_string(),
            port: flags.port,
            directory: saves(&flags.dir)?.display().to_string(),
            dump_name: flags.dbfilename.clone(),
            password: flags.requirepass.clone(),
            fsync: flags.appendfsync,
            clients_max: flags.maxclients,
            debug_command: flags.enable_debug_command,
            ..Configuration::default()
        },
        run_id: run_id.iter().map(|byte| format!("{byte:02x}")).collect(),
        ..Server::default()
    };
    let net = Net::bind(SocketAddr::new(flags.bind, flags.port), keyspace, server).map_err(failed)?;
    let stopper = net.stopper();
    ctrlc::set_handler(move || stopper.stop()).map_err(failed)?;
    writeln!(io::stdout(), "serving {} on {}", flags.dir.display(), net.address()?)?;
    net.run().map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
