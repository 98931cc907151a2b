//! Processes with few file descriptors: a server, whose clients must not take those that the engine needs, and a database with many more
//! tables than its process may have files open.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sinterdb::settings::{Codec, DbSettings, FamilySettings};
use sinterdb::{Db, Error};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Limit of open files of the server.
const LIMIT: usize = 160;

/// Starts a server under these limits; returns it and its address.
fn start(limits: &str, directory: &Path) -> (Child, String) {
    let mut child = Command::new("sh")
        .args(["-c", &format!("{limits}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_sinter")])
        .args(["serve", "--port", "0", "--enable-debug-command", "yes", "--dir"])
        .arg(directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().rsplit(' ').next().unwrap().to_owned())
}

fn ask(stream: &mut BufReader<TcpStream>, request: &str) -> String {
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    line(stream)
}

fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn clients_leave_descriptors_for_files() {
    clients_leave_descriptors_of(LIMIT);
}

/// A quarter of so few descriptors would not be enough for files.
#[test]
fn clients_leave_descriptors_for_files_of_few() {
    clients_leave_descriptors_of(40);
}

fn clients_leave_descriptors_of(limit: usize) {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, address) = start(&format!("ulimit -n {limit}"), directory.path());
    let mut client = BufReader::new(TcpStream::connect(&address).unwrap());
    assert_eq!(ask(&mut client, "SET a 1\r\n"), "+OK");
    let mut refused = 0;
    let others: Vec<TcpStream> = (0..limit)
        .map(|_| {
            let mut other = TcpStream::connect(&address).unwrap();
            other.write_all(b"PING\r\n").unwrap();
            let mut first = [0; 1];
            // A refused connection may already be closed.
            if other.read(&mut first).unwrap_or(0) == 0 || first == *b"-" {
                refused += 1;
            }
            other
        })
        .collect();
    // Exactly as many are served as `maxclients` says, which the start has lowered.
    assert_eq!(ask(&mut client, "CONFIG GET maxclients\r\n"), "*2");
    let lines: Vec<String> = (0..4).map(|_| line(&mut client)).collect();
    assert_eq!(lines[3], (limit + 1 - refused).to_string());
    assert!((limit / 4..limit).contains(&refused), "{refused} were refused");
    let beyond = format!("CONFIG SET maxclients {}\r\n", limit + 2 - refused);
    let why = format!("The operating system is not able to handle the specified number of clients, try with {}", lines[3]);
    let reply = format!("-ERR CONFIG SET failed (possibly related to argument 'maxclients') - {why}");
    assert_eq!(ask(&mut client, &beyond), reply);
    // Writes a table, and a file with all keys.
    for request in ["SET b 2\r\n", "DEBUG RELOAD\r\n", "SAVE\r\n"] {
        assert_eq!(ask(&mut client, request), "+OK", "{request}");
    }
    drop(others);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The server raises the soft limit of open files to the hard one.
#[test]
fn the_soft_limit_is_raised() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, address) = start(&format!("ulimit -Hn {}; ulimit -Sn {LIMIT}", 4 * LIMIT), directory.path());
    let mut clients: Vec<_> = (0..2 * LIMIT).map(|_| BufReader::new(TcpStream::connect(&address).unwrap())).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(ask(client, "PING\r\n"), "+PONG", "client {at}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Limit of open files of the process with a database.
const FEW: u64 = 64;
/// Environment variable with the directory of the database, for the process that the test starts.
const DATABASE: &str = "SINTER_TEST_FEW_DESCRIPTORS";
const KEYS: u32 = 20_000;

/// A database with hundreds of tables in a process with 64 descriptors: the test program itself, started again.
#[test]
fn a_database_needs_few_descriptors() {
    if let Some(directory) = std::env::var_os(DATABASE) {
        setrlimit(Resource::RLIMIT_NOFILE, FEW, FEW).unwrap();
        return few_descriptors(Path::new(&directory));
    }
    // In memory if possible: hundreds of tables are synced.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "descriptors::a_database_needs_few_descriptors", "--nocapture"])
        .env(DATABASE, directory.path())
        .output()
        .unwrap();
    let (out, errors) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && out.contains("1 passed"), "{out}\n{errors}");
}

fn open(directory: &Path, read_only: bool) -> Result<Db, Error> {
    let family = FamilySettings {
        write_buffer_size: 64 << 10,
        target_file_size_base: 8 << 10,
        max_bytes_for_level_base: 256 << 10,
        compression: Codec::None.into(),
        max_compaction_bytes: 1 << 20,
        ..FamilySettings::default()
    };
    let settings = DbSettings { cache_size: 64 << 10, ..DbSettings::default() };
    let builder = Db::builder().settings(settings).family("default", family);
    if read_only { Db::builder().read_only().open(directory) } else { builder.open(directory) }
}

fn value(n: u32, round: u32) -> Vec<u8> {
    (n ^ round << 20).wrapping_mul(0x9E37_79B1).to_le_bytes().repeat(25)
}

fn put_all(db: &Db, round: u32) {
    (0..KEYS).for_each(|n| db.put(&n.to_be_bytes(), &value(n, round)).unwrap_or_else(|error| panic!("after {n} puts: {error}")));
}

fn holds(entries: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), Error>>, round: u32) {
    let mut count = 0;
    for (n, entry) in (0u32..).zip(entries) {
        assert!(entry.unwrap() == (n.to_be_bytes().to_vec(), value(n, round)), "{n}");
        count += 1;
    }
    assert_eq!(count, KEYS);
}

/// Opens files until no descriptor is left.
fn take_all() -> Vec<File> {
    let mut taken = Vec::new();
    loop {
        match File::open("/dev/null") {
            Ok(file) => taken.push(file),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(Errno::EMFILE as i32));
                return taken;
            }
        }
    }
}

fn few_descriptors(directory: &Path) {
    let db = open(directory, false).unwrap();
    put_all(&db, 1);
    db.compact_range(&db.default_family(), None, None).unwrap();
    let count = |db: &Db| db.version(&db.default_family()).unwrap().tables().count();
    assert!(count(&db) > 3 * FEW as usize, "{} tables", count(&db));
    assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap().0, FEW, "a library leaves the limit alone");
    db.close().unwrap();

    let db = open(directory, false).unwrap();
    let figure = |name: &str| db.property(&db.default_family(), name).unwrap().parse::<u64>().unwrap();
    assert_eq!(figure("sinterdb.open-files-capacity"), FEW / 2);
    // Tables of the iterator are replaced meanwhile; tables of a read-only opener are deleted.
    let (before, beside) = (db.iter(), open(directory, true).unwrap());
    put_all(&db, 2);
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert!(count(&db) > 3 * FEW as usize, "{} tables", count(&db));
    assert!(figure("sinterdb.open-files") <= FEW / 2);
    holds(before, 1);
    holds(db.iter(), 2);
    match beside.iter().find_map(Result::err) {
        Some(Error::Busy(what)) => assert!(what.contains("a writer has deleted it"), "{what}"),
        other => panic!("{other:?}"),
    }
    drop(beside);

    // Failures for lack of descriptors have no lasting effect.
    let taken = take_all();
    let failed = (0..KEYS).find_map(|n| db.put(&n.to_be_bytes(), &value(n, 2)).err());
    assert!(failed.is_none_or(|error| matches!(error, Error::NoDescriptors(_))));
    drop(taken);
    put_all(&db, 3);
    db.compact_range(&db.default_family(), None, None).unwrap();
    holds(db.iter(), 3);
    assert!(db.damaged_tables().is_empty() && db.verify().unwrap().is_empty());
    db.close().unwrap();
    let named = std::fs::read_dir(directory).unwrap().count();
    let db = open(directory, false).unwrap();
    assert!(named < count(&db) + 10, "{named} files of {} tables", count(&db));
    holds(db.iter(), 3);
}
