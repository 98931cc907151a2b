//! Limits of this process: the processors it may run on, and the control groups (cgroups(7)) around it with their CPU quota and their
//! memory limit.
//!
//! A group's limits hold for all groups inside it, so all groups up to the root count: the tightest limit decides what may be planned with,
//! and the group nearest to its limit decides what has to be given up. The groups are named in `/proc/self/cgroup`, the directories of
//! their files in `/proc/self/mountinfo`; both versions of the interface may be mounted at once (a "hybrid" system), each with some of the
//! controllers. In a container the path may lead out of what is visible; then the root of the mount stands for it, which is the container's
//! own group where it has a name space of its own.
//!
//! Nothing here fails: a missing file is a limit that is not set. A file that exists and cannot be read or understood counts with its last
//! good text, and is named ([`ProcessLimits::unknown`]). All files are looked for below a root, so that tests can make them up.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

/// Longest file that is read, bytes. `mountinfo` of a machine with thousands of containers is the longest.
const LONGEST: u64 = 4 << 20;
/// Version 1 says "no limit" with the largest multiple of a page.
const NO_LIMIT: u64 = 1 << 60;
/// Nanoseconds of a clock tick in files of processes: the kernel's `USER_HZ` is 100 for programs, however it is built.
const TICK_NS: u64 = 10_000_000;

/// The files with the limits of this process. They are found once and read anew each time: limits change while a process runs.
#[derive(Debug)]
pub struct ProcessLimits {
    root: PathBuf,
    /// Innermost first.
    cpu: Vec<Group>,
    memory: Vec<Group>,
}

/// A control group.
#[derive(Debug)]
struct Group {
    directory: PathBuf,
    unified: bool,
    /// Last good text of each file with limits, by file name.
    last: Mutex<BTreeMap<&'static str, Last>>,
}

/// The last content of a file with a limit.
#[derive(Debug, Default)]
struct Last {
    /// The text when it was last understood; `None`: there was no file.
    text: Option<String>,
    /// The last reading of the file failed.
    is_stale: bool,
    /// Number of failed readings.
    failures: u64,
}

/// A control group with a CPU quota.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuQuota {
    /// The group's directory.
    pub group: PathBuf,
    /// Processors' worth of time that it grants.
    pub cpus: f64,
    /// CPU time that the group used since some moment, nanoseconds.
    pub used_ns: u64,
    /// How many periods ended early because the quota was used up.
    pub throttled: u64,
}

/// A control group with a memory limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The group's directory.
    pub group: PathBuf,
    /// Bytes; beyond it the kernel slows the group's processes down or kills one.
    pub bytes: u64,
    /// Bytes charged to the group without pages of files, which the kernel takes back by itself.
    pub used: u64,
}

/// Ticks of a processor since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTicks {
    /// The processor's number.
    pub cpu: usize,
    /// Ticks of idling or waiting for the medium.
    pub idle: u64,
    /// All ticks.
    pub total: u64,
}

impl ProcessLimits {
    /// Looks below `root`: `/`, or a made-up tree.
    pub fn find(root: &Path) -> Self {
        let mounts = read(&root.join("proc/self/mountinfo")).unwrap_or_default();
        let memberships = read(&root.join("proc/self/cgroup")).unwrap_or_default();
        let groups = |controller: &str| groups(root, &mounts, &memberships, controller);
        ProcessLimits { root: root.to_owned(), cpu: groups("cpu"), memory: groups("memory") }
    }

    /// Numbers of the processors that the calling thread, and threads that it starts, may run on; `None` if that is not known.
    pub fn affinity(&self) -> Option<Vec<usize>> {
        let status = read(&self.root.join("proc/thread-self/status"))?;
        parse_list(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
    }

    /// All groups with a quota, innermost first.
    pub fn quotas(&self) -> Vec<CpuQuota> {
        let quota = |group: &Group| {
            let cpus = group.quota()?;
            let used_ns = group.cpu_used_ns().unwrap_or_else(|| self.process_ns().unwrap_or(0));
            let throttled = group.value("cpu.stat", "nr_throttled").unwrap_or(0);
            Some(CpuQuota { group: group.directory.clone(), cpus, used_ns, throttled })
        };
        self.cpu.iter().filter_map(quota).collect()
    }

    /// CPU time of this process, nanoseconds.
    fn process_ns(&self) -> Option<u64> {
        let stat = read(&self.root.join("proc/self/stat"))?;
        // The name of the program may hold anything, brackets included; it ends with the last one.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        ticks()?.checked_add(ticks()?)?.checked_mul(TICK_NS)
    }

    /// Ticks of the machine's processors.
    pub fn machine(&self) -> Vec<CpuTicks> {
        let stat = read(&self.root.join("proc/stat")).unwrap_or_default();
        stat.lines().filter_map(parse_cpu).collect()
    }

    /// All groups with a memory limit, innermost first. The tightest limit bounds what this process may plan with; which one is hit first
    /// depends on what others in the same group use.
    pub fn memory(&self) -> Vec<MemoryLimit> {
        let limit = |group: &Group| {
            let (bytes, used) = (group.memory_limit()?, group.memory_used().unwrap_or(0));
            Some(MemoryLimit { group: group.directory.clone(), bytes, used })
        };
        self.memory.iter().filter_map(limit).collect()
    }

    /// Files with limits that are there, but could not be read or understood the last time that they were looked at.
    pub fn unknown(&self) -> Vec<PathBuf> {
        self.cpu.iter().chain(&self.memory).flat_map(Group::unknown).collect()
    }

    /// Number of times that a file with limits could not be read or understood.
    pub fn failures(&self) -> u64 {
        self.cpu.iter().chain(&self.memory).map(|group| group.last.lock().values().map(|last| last.failures).sum::<u64>()).sum()
    }

    /// Memory that the kernel can use to cache files for this process, bytes: the least of what the machine has available and what each of
    /// `limits` leaves.
    pub fn for_files(&self, limits: &[MemoryLimit]) -> Option<u64> {
        let machine = read(&self.root.join("proc/meminfo")).and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?.trim();
            line.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
        });
        machine.into_iter().chain(limits.iter().map(MemoryLimit::left)).min()
    }
}

impl MemoryLimit {
    /// The limit that everything has to fit into, bytes.
    pub fn tightest(limits: &[MemoryLimit]) -> Option<u64> {
        limits.iter().map(|limit| limit.bytes).min()
    }

    /// Memory within the limit that the kernel can use to cache files, bytes.
    fn left(&self) -> u64 {
        self.bytes.saturating_sub(self.used)
    }
}

impl CpuQuota {
    /// Processors' worth of CPU that the group has left over, `passed_ns` nanoseconds after `then`; `None` if no time has passed.
    pub fn left_since(&self, then: &CpuQuota, passed_ns: u64) -> Option<f64> {
        let used = self.used_ns.saturating_sub(then.used_ns);
        (passed_ns > 0).then(|| (self.cpus - used as f64 / passed_ns as f64).max(0.0))
    }
}

impl Group {
    fn text(&self, file: &str) -> Option<String> {
        read(&self.directory.join(file))
    }

    /// A file that holds one number.
    fn number(&self, file: &str) -> Option<u64> {
        self.text(file)?.trim().parse().ok()
    }

    /// A file of lines `key value`.
    fn value(&self, file: &str, key: &str) -> Option<u64> {
        let text = self.text(file)?;
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
    }

    /// The limit that a file sets, by `parse`: `Some(None)` is no limit, `None` a text that the kernel would not write. If the file cannot
    /// be read or understood, the last good text counts: a limit that cannot be read for a moment still holds.
    fn limit<T>(&self, file: &'static str, parse: impl Fn(&str) -> Option<Option<T>>) -> Option<T> {
        let found = try_read(&self.directory.join(file));
        let mut all = self.last.lock();
        let last = all.entry(file).or_default();
        match found {
            Ok(None) => (last.text, last.is_stale) = (None, false),
            Ok(Some(text)) if parse(&text).is_some() => (last.text, last.is_stale) = (Some(text), false),
            Ok(Some(_)) | Err(_) => (last.is_stale, last.failures) = (true, last.failures + 1),
        }
        last.text.as_deref().and_then(parse).flatten()
    }

    fn unknown(&self) -> Vec<PathBuf> {
        let all = self.last.lock();
        all.iter().filter(|(_, last)| last.is_stale).map(|(file, _)| self.directory.join(file)).collect()
    }

    /// Processors' worth of time.
    fn quota(&self) -> Option<f64> {
        let positive = |word: &str| word.parse::<u64>().ok().filter(|number| *number > 0);
        let (quota, period) = if self.unified {
            self.limit("cpu.max", |text| {
                let mut words = text.split_whitespace();
                match words.next()? {
                    "max" => Some(None),
                    quota => Some(Some((positive(quota)?, positive(words.next()?)?))),
                }
            })?
        } else {
            // Any negative number is no quota.
            let quota = self.limit("cpu.cfs_quota_us", |text| match text.trim().parse::<i64>().ok()? {
                0 => None,
                quota => Some(u64::try_from(quota).ok()),
            })?;
            (quota, self.limit("cpu.cfs_period_us", |text| positive(text.trim()).map(Some))?)
        };
        Some(quota as f64 / period as f64)
    }

    /// CPU time that the group used, nanoseconds; `None` if version 1 accounts CPU time in other groups than it limits it in.
    fn cpu_used_ns(&self) -> Option<u64> {
        if self.unified { self.value("cpu.stat", "usage_usec")?.checked_mul(1000) } else { self.number("cpuacct.usage") }
    }

    fn memory_limit(&self) -> Option<u64> {
        let files: &[&'static str] = if self.unified { &["memory.max", "memory.high"] } else { &["memory.limit_in_bytes"] };
        let limit = |text: &str| match text.trim() {
            "max" => Some(None),
            number => number.parse::<u64>().ok().map(|bytes| (bytes < NO_LIMIT).then_some(bytes)),
        };
        files.iter().filter_map(|file| self.limit(file, limit)).min()
    }

    fn memory_used(&self) -> Option<u64> {
        let (current, prefix) = if self.unified { ("memory.current", "") } else { ("memory.usage_in_bytes", "total_") };
        let files = ["inactive_file", "active_file"].map(|key| self.value("memory.stat", &format!("{prefix}{key}")).unwrap_or(0));
        Some(self.number(current)?.saturating_sub(files[0].saturating_add(files[1])))
    }
}

/// The groups that `controller` may be limited in, innermost first.
fn groups(root: &Path, mounts: &str, memberships: &str, controller: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for unified in [false, true] {
        let path = memberships.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (id, names, path) = (fields.next()?, fields.next()?, fields.next()?);
            let is_it = if unified { id == "0" && names.is_empty() } else { names.split(',').any(|name| name == controller) };
            is_it.then(|| Path::new(path))
        });
        let Some(path) = path else { continue };
        let mounts = mounts.lines().filter_map(|line| parse_mount(line, (!unified).then_some(controller)));
        // A tree may be mounted more than once, and of a bind mount only a part is seen: best is one that shows the group itself.
        let mut chains = mounts.map(|(from, at)| chain(root, path, &from, &at)).filter(|chain| !chain.is_empty());
        let best = chains.next().map(|first| chains.fold(first, |best, next| if next.len() > best.len() { next } else { best }));
        found.extend(best.into_iter().flatten().map(|directory| Group { directory, unified, last: Mutex::default() }));
    }
    found
}

/// The directories of the group at `path` and those around it, as far as the mount of `from` at `at` shows them.
fn chain(root: &Path, path: &Path, from: &Path, at: &Path) -> Vec<PathBuf> {
    let Ok(inside) = at.strip_prefix("/") else { return Vec::new() };
    let mount = root.join(inside);
    let below = path.strip_prefix(from).ok().filter(|below| below.components().all(|part| matches!(part, Component::Normal(_))));
    let home = below.map_or_else(|| mount.clone(), |below| mount.join(below));
    home.ancestors().take_while(|group| group.starts_with(&mount)).filter(|group| group.is_dir()).map(Path::to_owned).collect()
}

/// The mounted part of the tree and its mount point, from a line of proc(5) `mountinfo`; `None` unless it is a mount of version 1 with that
/// controller, or of version 2 if `controller` is `None`.
fn parse_mount(line: &str, controller: Option<&str>) -> Option<(PathBuf, PathBuf)> {
    let (left, right) = line.split_once(" - ")?;
    let mut right = right.split(' ');
    let kind = right.next()?;
    let is_it = match controller {
        Some(name) => kind == "cgroup" && right.nth(1)?.split(',').any(|option| option == name),
        None => kind == "cgroup2",
    };
    let mut left = left.split(' ').skip(3);
    let (from, at) = (left.next()?, left.next()?);
    is_it.then(|| (PathBuf::from(unescape(from)), PathBuf::from(unescape(at))))
}

/// Blanks and backslashes of paths stand in `mountinfo` as three octal digits.
fn unescape(path: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(path.to_owned(), |path, (from, to)| path.replace(from, to))
}

/// A list like `0-3,8`; `None` if it is none.
fn parse_list(text: &str) -> Option<Vec<usize>> {
    /// More processors than any kernel counts.
    const MOST: usize = 1 << 16;
    let mut list = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        list.extend(first..=last);
    }
    Some(list)
}

/// A line `cpu3 ...` of proc(5) `stat`.
fn parse_cpu(line: &str) -> Option<CpuTicks> {
    let (name, ticks) = line.strip_prefix("cpu")?.split_once(' ')?;
    let cpu = name.parse().ok()?;
    // User, nice, system, idle, iowait, irq, softirq, steal; further numbers are counted in the first already.
    let ticks: Vec<u64> = ticks.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    let idle = ticks.get(3)?.saturating_add(*ticks.get(4).unwrap_or(&0));
    Some(CpuTicks { cpu, idle, total: ticks.iter().fold(0, |sum, n| sum.saturating_add(*n)) })
}

/// A file's text; `None` if it does not exist or cannot be read.
fn read(path: &Path) -> Option<String> {
    try_read(path).ok().flatten()
}

/// A file's text; `None` if the file does not exist.
fn try_read(path: &Path) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        // The group was removed between the two calls.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
