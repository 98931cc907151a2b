//! Peculiarities of a directory: its path, foreign files, direct writes, links across file systems, full file systems.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use sinter_storage::store::{Cause, DirStore, FileId, Hint, Lifetime, Shared, Store};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

const MIB: usize = 1 << 20;

fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn get(store: &dyn Store, id: FileId) -> Vec<u8> {
    let file = store.open(id).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// A second file system, if the machine has one where we can write.
fn elsewhere() -> Option<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").ok()
}

#[test]
fn the_directory_is_made_only_on_request() {
    let home = tempfile::tempdir().unwrap();
    let deep = home.path().join("a/b/c");
    let missing = DirStore::open(&deep, false).unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    assert!(missing.to_string().contains("a/b/c"), "the message names the path: {missing}");
    assert!(!home.path().join("a").exists());
    let store = DirStore::open(&deep, true).unwrap();
    store.create(FileId::log(1), &Hint::new(Cause::Wal)).unwrap().seal().unwrap();
    assert_eq!(store.directory(), Some(deep.as_path()));
    drop(store);
    assert_eq!(DirStore::open(&deep, true).unwrap().list().unwrap(), [(FileId::log(1), 0)]);
}

#[test]
fn a_path_that_is_no_directory_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, b"x").unwrap();
    for create in [false, true] {
        for path in [file.clone(), file.join("below")] {
            let error = DirStore::open(&path, create).unwrap_err();
            assert!(error.to_string().contains("file"), "{error}");
        }
    }
    assert_eq!(fs::read(&file).unwrap(), b"x");
}

#[test]
fn foreign_names_are_not_seen() {
    let home = tempfile::tempdir().unwrap();
    let store = DirStore::open(home.path(), false).unwrap();
    for name in
        ["notes.txt", "1.sst", "0000001.sst", "000001.SST", "000001.sst.bak", "+00001.sst", "LOCK", ".sst", "99999999999999999999.log"]
    {
        fs::write(home.path().join(name), b"x").unwrap();
    }
    fs::create_dir(home.path().join("000002.sst")).unwrap();
    assert_eq!(store.list().unwrap(), []);
    let error = store.open(FileId::table(2)).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::InvalidInput, "a directory is not a table: {error}");
    assert_eq!(error.to_string(), "open 000002.sst: not a regular file");
    fs::write(home.path().join("000003.sst"), b"abc").unwrap();
    fs::write(home.path().join("12345678.manifest"), b"").unwrap();
    let mut files = store.list().unwrap();
    files.sort();
    assert_eq!(files, [(FileId::manifest(12_345_678), 0), (FileId::table(3), 3)]);
}

/// Appends of all sizes around the alignment and the piece, written direct and buffered, with a reader in between.
fn direct_equals_buffered(path: &Path) {
    let store = DirStore::open(path, true).unwrap();
    let all = pattern(3 * MIB + 100);
    let sizes: [&[usize]; 10] = [
        &[],
        &[0, 1],
        &[4095],
        &[4096],
        &[4097, 1, 4094],
        &[MIB - 1, 2],
        &[MIB],
        &[MIB + 1, MIB - 1],
        &[3 * MIB + 77],
        &[1, 511, 512, 513, 70_000, MIB + 5, 3],
    ];
    for (number, sizes) in sizes.iter().enumerate() {
        for (direct, id) in [(true, FileId::table(number as u64)), (false, FileId::table(100 + number as u64))] {
            let hint = Hint { direct, lifetime: Lifetime::Long, ..Hint::new(Cause::Flush) };
            let mut file = store.create(id, &hint).unwrap();
            let mut at = 0;
            for (i, size) in sizes.iter().enumerate() {
                file.append(&all[at..at + size]).unwrap();
                at += size;
                assert_eq!(file.len(), at as u64);
                if i % 2 == 1 {
                    assert!(get(&store, id) == all[..at], "direct {direct}, sizes {sizes:?}: readable after append {i}");
                }
                if i % 3 == 2 {
                    file.sync().unwrap();
                    assert_eq!(fs::metadata(path.join(id.to_string())).unwrap().len(), at as u64);
                }
            }
            file.seal().unwrap();
            assert!(get(&store, id) == all[..at], "direct {direct}, sizes {sizes:?}");
            assert_eq!(fs::metadata(path.join(id.to_string())).unwrap().len(), at as u64);
        }
    }
}

#[test]
fn direct_writes_leave_the_same_bytes() {
    direct_equals_buffered(tempfile::tempdir().unwrap().path());
    if let Some(home) = elsewhere() {
        direct_equals_buffered(home.path());
    }
}

#[test]
fn logs_ignore_direct() {
    let home = tempfile::tempdir().unwrap();
    let store = DirStore::open(home.path(), false).unwrap();
    let hint = Hint { direct: true, lifetime: Lifetime::Short, ..Hint::new(Cause::Wal) };
    let mut file = store.create(FileId::log(1), &hint).unwrap();
    file.append(b"acknowledged").unwrap();
    // Not through the store: these bytes must be in the kernel, whatever happens to the process.
    let bytes = fs::read(home.path().join("000001.log")).unwrap();
    assert!(bytes.starts_with(b"acknowledged") && bytes[12..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_link_is_the_same_file_and_across_file_systems_a_copy() {
    let home = tempfile::tempdir().unwrap();
    let store = DirStore::open(home.path().join("db"), true).unwrap();
    let id = FileId::table(1);
    let mut file = store.create(id, &Hint::new(Cause::Flush)).unwrap();
    file.append(&pattern(5000)).unwrap();
    file.seal().unwrap();
    let target = DirStore::open(home.path().join("checkpoint"), true).unwrap();
    assert_eq!(store.share(id, &target, &Hint::new(Cause::Checkpoint)).unwrap(), Shared::Linked);
    use std::os::unix::fs::MetadataExt;
    let inode = |at: &str| fs::metadata(home.path().join(at)).unwrap().ino();
    assert_eq!(inode("db/000001.sst"), inode("checkpoint/000001.sst"));

    if let Some(other) = elsewhere() {
        let device = |path: &Path| fs::metadata(path).unwrap().dev();
        let far = DirStore::open(other.path(), false).unwrap();
        let shared = store.share(id, &far, &Hint::new(Cause::Checkpoint)).unwrap();
        let expected = if device(other.path()) == device(home.path()) { Shared::Linked } else { Shared::Copied(5000) };
        assert_eq!(shared, expected);
        assert_eq!(get(&far, id), pattern(5000));
    }
}

/// Checks logs of all sizes on the file systems that are here: a log holds the appended bytes, with zeros behind them until it is sealed.
fn log_equals_appends(path: &Path) {
    let store = DirStore::open(path, true).unwrap();
    let all = pattern(3 * MIB + 100);
    let sizes: [&[usize]; 7] = [
        &[0, 1],
        &[4095, 1, 1],
        &[4096, 16, 17],
        &[MIB - 1, 2],
        &[15, 16, 17, 70_000, MIB + 5, 3],
        &[777; 3000],
        &[100_000, 30, 200_000, 30, 30, 262_144, 262_143, 65_536, 65_535, 4097],
    ];
    for (number, sizes) in (1..).zip(sizes) {
        let id = FileId::log(number);
        let mut file = store.create(id, &Hint { lifetime: Lifetime::Short, ..Hint::new(Cause::Wal) }).unwrap();
        let (mut at, mut synced) = (0, None);
        for (i, size) in sizes.iter().enumerate() {
            file.append(&all[at..at + size]).unwrap();
            at += size;
            assert_eq!(file.len(), at as u64);
            if i % 100 < 3 {
                let bytes = fs::read(path.join(id.to_string())).unwrap();
                assert!(bytes.starts_with(&all[..at]), "{sizes:?}, after append {i}");
                assert!(bytes[at..].iter().all(|byte| *byte == 0) && bytes.len() <= at + 262_144, "{sizes:?}, after append {i}");
            }
            match i % 7 {
                2 => file.sync().unwrap(),
                3 => synced = file.sync_beside(),
                5 => synced.take().map_or(Ok(()), |sync| sync()).unwrap(),
                _ => {}
            }
        }
        file.seal().unwrap();
        assert!(get(&store, id) == all[..at], "{sizes:?}");
    }
    let free = store.create(FileId::log(90), &Hint::new(Cause::Wal)).unwrap();
    drop(free);
    assert_eq!(get(&store, FileId::log(90)), b"", "nothing is written ahead of nothing");
}

#[test]
fn logs_hold_what_was_appended() {
    log_equals_appends(tempfile::tempdir().unwrap().path());
    if let Some(home) = elsewhere() {
        log_equals_appends(home.path());
    }
}

/// A log that is synced record by record, by its writer or beside it, stays as short as its records; one that is not gets larger steps.
#[test]
fn zeros_ahead_of_a_log_are_as_many_as_its_syncs_allow() {
    let home = tempfile::tempdir().unwrap();
    let store = DirStore::open(home.path(), false).unwrap();
    let length = |id: FileId| fs::metadata(home.path().join(id.to_string())).unwrap().len();
    let (mut synced, mut beside, mut loose) = (0, 0, 0);
    let mut files = [1, 2, 3].map(|number| store.create(FileId::log(number), &Hint::new(Cause::Wal)).unwrap());
    for _ in 0..1000 {
        files.iter_mut().for_each(|file| file.append(&[1; 200]).unwrap());
        files[0].sync().unwrap();
        synced = synced.max(length(FileId::log(1)) - files[0].len());
        loose = loose.max(length(FileId::log(2)) - files[1].len());
        // What is appended while the sync runs is not synced by it.
        let sync = files[2].sync_beside().unwrap();
        files[2].append(&[1; 200]).unwrap();
        sync().unwrap();
        beside = beside.max(length(FileId::log(3)) - files[2].len());
    }
    assert!(synced <= 4096, "{synced}");
    assert!(beside <= 4096, "{beside}");
    assert!(loose <= 262_144, "{loose}");
}

#[test]
fn a_log_is_copied_and_not_linked() {
    let home = tempfile::tempdir().unwrap();
    let [store, target] = ["a", "b"].map(|name| DirStore::open(home.path().join(name), true).unwrap());
    let mut log = store.create(FileId::log(1), &Hint::new(Cause::Wal)).unwrap();
    log.append(b"now").unwrap();
    assert!(matches!(store.share(FileId::log(1), &target, &Hint::new(Cause::Checkpoint)).unwrap(), Shared::Copied(_)));
    log.append(b" later").unwrap();
    let copy = get(&target, FileId::log(1));
    assert!(copy.starts_with(b"now") && copy[3..].iter().all(|byte| *byte == 0), "what comes later is not in the copy");
}

/// Whether logs in this directory are written by memory map: zeros stand behind what was appended.
fn maps_logs(path: &Path) -> bool {
    let store = DirStore::open(path, false).unwrap();
    store.create(FileId::log(90), &Hint::new(Cause::Wal)).unwrap().append(b"record").unwrap();
    let length = store.open(FileId::log(90)).unwrap().len();
    store.delete(FileId::log(90)).unwrap();
    length > 6
}

#[test]
fn logs_in_a_tmpfs_are_mapped() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let is_tmpfs = |line: &str| line.split(' ').skip(1).take(2).eq(["/dev/shm", "tmpfs"]);
    if let Some(home) = elsewhere().filter(|_| mounts.lines().any(is_tmpfs)) {
        assert!(maps_logs(home.path()));
    }
}

/// Names the directory of a log that a child process writes.
const CHILD: &str = "SINTER_TEST_LOG";

/// Bytes of the records before the last one, which reaches into a page that somebody has cut off.
const BEFORE: usize = 40_000;

/// The process of a writer whose log is cut by somebody else ends by SIGBUS, as if it had been killed: with the record that it was at, of
/// which no reader sees the start, and no earlier one.
#[test]
fn a_log_that_somebody_cuts_ends_its_writer() {
    if let Some(path) = std::env::var_os(CHILD) {
        return write_while_cut(Path::new(&path));
    }
    let home = elsewhere().unwrap_or_else(|| tempfile::tempdir().unwrap());
    let is_mapped = maps_logs(home.path());
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "directory::a_log_that_somebody_cuts_ends_its_writer"])
        .env(CHILD, home.path())
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.success(), !is_mapped, "{status}");
    if !is_mapped {
        return;
    }
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
    let bytes = fs::read(home.path().join("000001.log")).unwrap();
    assert_eq!(bytes.len(), BEFORE.next_multiple_of(4096));
    assert!(bytes[..BEFORE].iter().all(|byte| *byte == 1), "records before it");
    assert_eq!(bytes[BEFORE..BEFORE + 16], [0; 16], "the start of the record is written last");
}

fn write_while_cut(path: &Path) {
    let store = DirStore::open(path, false).unwrap();
    let mut log = store.create(FileId::log(1), &Hint::new(Cause::Wal)).unwrap();
    (0..BEFORE / 1000).for_each(|_| log.append(&[1; 1000]).unwrap());
    let file = fs::OpenOptions::new().write(true).open(path.join("000001.log")).unwrap();
    file.set_len(BEFORE.next_multiple_of(4096) as u64).unwrap();
    log.append(&[2; 5000]).unwrap();
}

#[test]
fn free_space_is_known() {
    let home = tempfile::tempdir().unwrap();
    let store = DirStore::open(home.path(), false).unwrap();
    assert!(store.free_bytes().unwrap().is_some_and(|free| free > 0));
}

/// The store keeps its directory, as when its medium is unmounted while it is open: a directory that takes over the path gets nothing.
#[test]
fn a_directory_stays_the_one_that_was_opened() {
    let home = tempfile::tempdir().unwrap();
    let (path, moved) = (home.path().join("store"), home.path().join("moved"));
    let store = DirStore::open(&path, true).unwrap();
    let put = |number| store.create(FileId::table(number), &Hint::new(Cause::Flush)).unwrap().seal().unwrap();
    put(1);
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    put(2);
    let _lock = store.lock().unwrap();
    store.delete(FileId::table(1)).unwrap();
    assert_eq!(store.list().unwrap(), [(FileId::table(2), 0)]);
    assert!(store.open(FileId::table(2)).is_ok() && moved.join(FileId::table(2).to_string()).exists());
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}

#[test]
fn a_file_reads_the_same_past_the_page_cache() {
    let home = tempfile::tempdir().unwrap();
    let store = DirStore::open(home.path(), false).unwrap();
    let (id, bytes) = (FileId::table(1), pattern(20_000));
    let mut file = store.create(id, &Hint::new(Cause::Flush)).unwrap();
    file.append(&bytes).unwrap();
    file.seal().unwrap();
    // Where the file system takes it.
    let Some(direct) = store.open(id).unwrap().past_cache() else { return };
    for (at, length) in [(0, 4096), (4096, 8192), (1, 1), (4095, 2), (19_999, 1), (0, 20_000), (5, 19_000)] {
        let mut read = vec![0; length];
        direct.read_at(at as u64, &mut read).unwrap();
        assert!(read == bytes[at..at + length], "{length} bytes at {at}");
    }
    assert!(direct.read_at(19_999, &mut [0; 2]).is_err());
}
