//! The machine of a run and the resources used by a process: read from /proc, without any system call of its own.

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::{fmt, fs};

/// Clock ticks per second in /proc: `USER_HZ`, 100 on every Linux that Rust's standard library supports in its first tiers.
const TICKS_PER_SECOND: f64 = 100.0;

/// A machine. Unknown parts are empty or 0: a result is worth having without them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub cpus: usize,
    /// Model of the processors.
    pub cpu_model: String,
    /// Physical memory, bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// File system of the database.
    pub file_system: String,
    /// Device of the file system.
    pub device: String,
}

impl Machine {
    /// Describes the current machine, with the file system of `path`.
    pub fn here(path: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (file_system, device) = mount_of(&read("/proc/self/mountinfo"), &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
        Machine {
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            cpu_model: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default().to_string(),
            memory_bytes: kib(&read("/proc/meminfo"), "MemTotal"),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
            file_system,
            device,
        }
    }

    /// The machine with a volume on `drive` in place of the file system.
    #[must_use]
    pub fn with_volume_on(self, drive: &Path) -> Self {
        Machine { file_system: "zoned volume".into(), device: drive.display().to_string(), ..self }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cpus, cpu_model, memory_bytes, kernel, file_system, device } = self;
        let memory = *memory_bytes as f64 / 1_073_741_824.0;
        write!(f, "{cpus} * {cpu_model}, {memory:.1} GiB, Linux {kernel}, {file_system} on {device}")
    }
}

/// Resources used so far by a process and its children.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Process {
    /// Live processes.
    pub count: usize,
    /// CPU time of all threads and of ended children, user and system, seconds.
    pub cpu_seconds: f64,
    /// Resident set, bytes.
    pub resident_bytes: u64,
    /// Largest resident set since the last [`Process::forget_peak`] (of a child: of its life), bytes.
    pub peak_resident_bytes: u64,
    /// Proportional set size, bytes: pages that several processes share count in parts.
    pub proportional_bytes: u64,
    /// Written pages that one of the children has alone, bytes. For a fork: the pages that it or its parent changed since.
    pub copied_bytes: u64,
    /// Bytes handed to write calls, to files of any kind.
    pub written_bytes: u64,
    /// Bytes returned by read calls, from files of any kind.
    pub read_bytes: u64,
    /// Bytes read from a medium.
    pub medium_read_bytes: u64,
    /// Bytes of files written to a medium, in whole pages.
    pub medium_written_bytes: u64,
}

impl Process {
    /// Reads the figures of the current process without its children: finding these takes a look at every process of the machine.
    pub fn now() -> Self {
        Self::sum(&[std::process::id()])
    }

    /// Reads the figures of a process and its descendants; all are 0 if it has ended.
    pub fn of(process: u32) -> Self {
        Self::sum(&processes(process))
    }

    /// The proportional set makes the kernel walk the page tables: about a millisecond per gigabyte.
    fn sum(processes: &[u32]) -> Self {
        let mut all = Process::default();
        for (place, &process) in processes.iter().enumerate() {
            let stat = read(process, "stat");
            all.count += usize::from(!stat.is_empty());
            let status = read(process, "status");
            all.cpu_seconds += cpu_seconds(&stat);
            all.resident_bytes += kib(&status, "VmRSS");
            all.peak_resident_bytes += kib(&status, "VmHWM");
            let maps = read(process, "smaps_rollup");
            all.proportional_bytes += kib(&maps, "Pss");
            // The first is the process itself.
            all.copied_bytes += if place > 0 { kib(&maps, "Private_Dirty") } else { 0 };
            let io = read(process, "io");
            let bytes = |name: &str| field(&io, name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
            all.written_bytes += bytes("wchar");
            all.read_bytes += bytes("rchar");
            all.medium_read_bytes += bytes("read_bytes");
            all.medium_written_bytes += bytes("write_bytes");
        }
        all
    }

    /// Resets the peak to the current resident set (proc(5), `clear_refs`), where the kernel allows it.
    pub fn forget_peak() {
        let _ = fs::write("/proc/self/clear_refs", "5");
    }
}

/// A process and its descendants. (The list `children` in /proc would be shorter to read, but many kernels are built without it.)
fn processes(root: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pairs: Vec<(u32, u32)> = numbers.filter_map(|process| Some((process, parent(&read(process, "stat"))?))).collect();
    let mut all = vec![root];
    let mut next = 0;
    while next < all.len() {
        all.extend(pairs.iter().filter(|(_, parent)| *parent == all[next]).map(|(process, _)| *process).collect::<Vec<_>>());
        next += 1;
    }
    all
}

/// Reads a file of a process in /proc; empty if the process has ended.
fn read(process: u32, file: &str) -> String {
    fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default()
}

/// Parent of a process: field 4 of proc(5) `stat`.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// User and system time, and that of children that were waited for: fields 14 to 17 of proc(5) `stat`, counted behind the name, which may
/// hold anything. (The kernel adds reads and writes of such children to their parent's `io`.)
fn cpu_seconds(stat: &str) -> f64 {
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = fields.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / TICKS_PER_SECOND
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|start| start.trim() == name))?;
    Some(line.split_once(':')?.1.trim())
}

fn kib(text: &str, name: &str) -> u64 {
    let number = field(text, name).and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

/// File system and device of the deepest mount above `path`; the last one listed hides those before it.
fn mount_of(mountinfo: &str, path: &Path) -> (String, String) {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let point = Path::new(left.split(' ').nth(4)?);
        let mut right = right.split(' ');
        path.starts_with(point).then_some((point.components().count(), (right.next()?.to_string(), right.next()?.to_string())))
    });
    mounts.max_by_key(|(depth, _)| *depth).map(|(_, mount)| mount).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_formats_of_proc() {
        let stat = "77 (a) b ) R 1 77 77 0 -1 4194304 100 0 0 0 250 30 10 10 20 0 1 0 100 1000 1 2";
        assert_eq!(cpu_seconds(stat), 3.0);
        assert_eq!(cpu_seconds(""), 0.0);
        assert_eq!((parent(stat), parent("")), (Some(1), None));
        assert_eq!(kib("VmPeak:\t  9 kB\nVmHWM:\t  12 kB\n", "VmHWM"), 12 << 10);
        assert_eq!(field("processor : 0\nmodel name\t: A CPU @ 2 GHz\n", "model name"), Some("A CPU @ 2 GHz"));
        let mounts =
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /data rw shared:1 - xfs /dev/sdb rw\n3 1 0:5 / /data/tmp rw - tmpfs tmpfs rw\n";
        assert_eq!(mount_of(mounts, Path::new("/data/db")), ("xfs".into(), "/dev/sdb".into()));
        assert_eq!(mount_of(mounts, Path::new("/database")), ("ext4".into(), "/dev/sda1".into()));
    }

    #[test]
    fn the_process_uses_memory() {
        let now = Process::now();
        assert!(now.resident_bytes > 0 && now.peak_resident_bytes >= now.resident_bytes / 2, "{now:?}");
        // Another test may start a child at any moment, so these have no upper bound.
        assert!(now.proportional_bytes > 0, "{now:?}");
        fs::write("/dev/null", vec![0; 100_000]).unwrap();
        assert!(Process::now().written_bytes >= now.written_bytes + 100_000);
        std::io::Read::read_exact(&mut fs::File::open("/dev/zero").unwrap(), &mut [1; 100_000]).unwrap();
        assert!(Process::now().read_bytes >= now.read_bytes + 100_000);
        assert!(now.count >= 1);
        // Process ids are far smaller.
        assert_eq!(Process::of(u32::MAX), Process::default());
    }

    #[test]
    fn children_count_too() {
        // Ends when its input does.
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let all = processes(std::process::id());
        assert!(all.contains(&child.id()) && !all.contains(&1), "{all:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
