//! Figures of the system: the time of day, random bytes, this process's memory and processor time.
//!
//! Figures of Linux are read from `/proc` as text. Where they cannot be read, they are 0: they are only reported.

use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Ticks per second in `/proc/self/stat`: Linux shows this unit on every architecture, whatever it counts in.
const TICKS: f64 = 100.0;

/// Microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the one place of the server where the system's time comes in")]
pub fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| u64::try_from(passed.as_micros()).unwrap_or(u64::MAX))
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    unix_us() / 1000
}

/// Unpredictable random bytes.
///
/// # Errors
/// Errors of the system.
pub fn random_bytes(count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Lets other threads go before this one from now on: its work takes long anyway. It still gets a fourth of a processor that it shares with
/// one other thread.
pub fn give_way() {
    // A thread may always become nicer.
    let _ = rustix::process::nice(5);
}

/// Reads a line `Name: 123 kB` of a file, as bytes.
fn kilobytes(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).map_or(0, |kilobytes| kilobytes.saturating_mul(1024))
}

/// Resident memory of this process, bytes.
pub fn resident_bytes() -> u64 {
    kilobytes("/proc/self/status", "VmRSS")
}

/// Resident memory of this process that belongs to no file, bytes.
pub fn anonymous_bytes() -> u64 {
    kilobytes("/proc/self/status", "RssAnon")
}

/// Largest resident memory of this process so far, bytes.
pub fn resident_peak_bytes() -> u64 {
    kilobytes("/proc/self/status", "VmHWM")
}

/// Memory of the machine, bytes.
pub fn memory_bytes() -> u64 {
    kilobytes("/proc/meminfo", "MemTotal")
}

/// Processor time, seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Processor {
    /// Time in the program.
    pub user: f64,
    /// Time in the kernel for the program.
    pub system: f64,
    /// Time in programs of children that have ended.
    pub children_user: f64,
    /// Time in the kernel for these children.
    pub children_system: f64,
}

/// Processor time of a process, or of a thread, from its `stat` file.
fn processor_from(text: &str) -> Option<Processor> {
    // The name of the program is in brackets and may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let seconds = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).map(|ticks| ticks / TICKS);
    Some(Processor { user: seconds(11)?, system: seconds(12)?, children_user: seconds(13)?, children_system: seconds(14)? })
}

/// Processor time of this process.
pub fn processor() -> Processor {
    std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| processor_from(&text)).unwrap_or_default()
}

/// Processor time of this thread.
pub fn processor_of_thread() -> Processor {
    std::fs::read_to_string("/proc/thread-self/stat").ok().and_then(|text| processor_from(&text)).unwrap_or_default()
}

/// Seconds of a processor that the current thread has taken.
pub fn processor_seconds() -> f64 {
    let processor = processor_of_thread();
    processor.user + processor.system
}

/// The operating system, its version and the machine.
pub fn name() -> String {
    let read = |file: &str| std::fs::read_to_string(file).map(|text| text.trim().to_owned()).unwrap_or_default();
    format!("{} {} {}", read("/proc/sys/kernel/ostype"), read("/proc/sys/kernel/osrelease"), std::env::consts::ARCH)
}

/// Replaces a file durably. A crash leaves the old file or the new one: the new file is synced before it takes the place of the old one,
/// and the directory after it.
///
/// # Errors
/// Errors of the system; the old file is still there then.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".tmp-{}", std::process::id()));
    let beside = Path::new(&beside);
    let write = || {
        // The file may hold passwords, or hashes of some: to let others read it, change the permissions of the existing file.
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(beside)?;
        if let Ok(old) = std::fs::metadata(path) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(beside, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::File::open(folder)?.sync_all()
    };
    write().inspect_err(|_| {
        // The file may not exist.
        let _ = std::fs::remove_file(beside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_seen() {
        assert!(resident_bytes() > 1 << 20 && resident_peak_bytes() >= resident_bytes() / 2 && memory_bytes() > resident_bytes());
        assert!(name().starts_with("Linux "), "{}", name());
        let (one, two) = (random_bytes(16).unwrap(), random_bytes(16).unwrap());
        assert!(one.len() == 16 && one != two);
    }

    #[test]
    fn processor_time_stands_behind_a_name_that_may_hold_anything() {
        let text = "12 (a) b c) S 1 2 3 4 5 6 7 8 9 10 150 50 25 5 20 0 1 0 99";
        let expected = Processor { user: 1.5, system: 0.5, children_user: 0.25, children_system: 0.05 };
        assert_eq!(processor_from(text), Some(expected));
        assert_eq!(processor_from("12 (a"), None);
        assert_eq!(processor_from("12 (a) S 1"), None);
    }
}
