//! Confines the process to some processors (affinity), to a share of processor time and to an amount of memory (cgroups of its own, of
//! either version), as far as permitted.

use crate::run::{Confinement, Limits};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The calling thread, and with it the threads that it will start.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// A confined process. Dropping it ends the limits.
pub(super) struct Confined {
    /// Limits that hold, and the reasons why others do not.
    pub confinement: Confinement,
    /// Processors of the thread before it was confined, to be restored.
    cpus: Option<CpuSet>,
    groups: Vec<Group>,
}

/// Confines the calling thread and those that it starts to `limits.cpus`, and the process to the rest of the limits.
pub(super) fn confine(limits: &Limits) -> Confined {
    let mut complaints = Vec::new();
    let cpus = limits.cpus.and_then(|cpus| pin(cpus).map_err(|what| complaints.push(format!("limits.cpus: {what}"))).ok());
    let memory = limits.memory_bytes.map(|bytes| limit_memory(bytes).map_err(|what| format!("limits.memory_bytes: {what}")));
    let quota = limits.cpu_percent.map(|percent| limit_time(percent).map_err(|what| format!("limits.cpu_percent: {what}")));
    let holds = quota.as_ref().is_some_and(Result::is_ok);
    let mut groups = Vec::new();
    for entered in [memory, quota].into_iter().flatten() {
        match entered {
            Ok(group) => groups.extend(group),
            Err(what) => complaints.push(what),
        }
    }
    Confined {
        confinement: Confinement {
            cpus: sched_getaffinity(THIS_THREAD).map_or(0, |set| members(&set).len()),
            memory_bytes: memory_limit(),
            cpu_percent: limits.cpu_percent.filter(|_| holds),
            complaint: (!complaints.is_empty()).then(|| complaints.join("; ")),
        },
        cpus,
        groups,
    }
}

/// Moves the process to a group with `bytes` of memory; `None` if its limit is as low or lower already.
fn limit_memory(bytes: u64) -> Result<Option<Group>, String> {
    Groups::read(&MEMORY)?.enter_below_limit(bytes)
}

/// Moves the process to a group that may use `percent` of a processor; `None`: the group made for the memory limit has got the quota, too.
fn limit_time(percent: u32) -> Result<Option<Group>, String> {
    Groups::read(&TIME)?.enter(u64::from(percent))
}

/// Memory limit of this process from outside, bytes.
pub(super) fn memory_limit() -> Option<u64> {
    Groups::read(&MEMORY).ok()?.limit()
}

/// Removes the cgroups of a dead, perhaps killed, process that this one had started.
pub(super) fn remove_left(process: u32) {
    for groups in [&MEMORY, &TIME].into_iter().filter_map(|versions| Groups::read(versions).ok()) {
        groups.remove_left(process);
    }
}

impl Confined {
    /// Moves this process out of the groups, so that their limits hold for the children alone that it started in them.
    pub fn step_out(&self) {
        self.groups.iter().rev().for_each(Group::step_out);
    }

    /// Number of processes that the kernel killed in the groups because their memory was full.
    pub fn kills(&self) -> u64 {
        let own = self.groups.iter().map(|group| group.own.clone());
        // No group is made where a limit from outside is as low: the kernel then kills in the outer group.
        let outside = || Groups::read(&MEMORY).map(|groups| groups.home).into_iter();
        if self.groups.is_empty() { outside().map(|group| kills(&group)).sum() } else { own.map(|group| kills(&group)).sum() }
    }
}

/// Files that have the number of killed processes of a group, of version 1 and of version 2, and the name of the number in both.
const KILLS: ([&str; 2], &str) = (["memory.oom_control", "memory.events"], "oom_kill ");

/// Number of processes that the kernel killed in a group because its memory was full.
fn kills(group: &Path) -> u64 {
    let (files, name) = KILLS;
    let texts = files.iter().filter_map(|file| fs::read_to_string(group.join(file)).ok());
    texts.filter_map(|text| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())).sum()
}

impl Drop for Confined {
    fn drop(&mut self) {
        if let Some(cpus) = self.cpus {
            let _ = sched_setaffinity(THIS_THREAD, &cpus);
        }
        self.groups.iter().rev().for_each(Group::leave);
    }
}

fn members(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

/// Pins the thread to the first `cpus` of the processors that it may use. Returns all that it could use before.
fn pin(cpus: usize) -> Result<CpuSet, String> {
    let allowed = sched_getaffinity(THIS_THREAD).map_err(|error| format!("the processors are not known: {error}"))?;
    let list = members(&allowed);
    if list.len() < cpus {
        return Err(format!("{cpus} asked for, and the process may use {}", list.len()));
    }
    let mut chosen = CpuSet::new();
    list[..cpus].iter().try_for_each(|cpu| chosen.set(*cpu)).map_err(|error| error.to_string())?;
    sched_setaffinity(THIS_THREAD, &chosen).map_err(|error| format!("not permitted: {error}"))?;
    Ok(allowed)
}

/// The cgroups of this process in the hierarchy of one controller.
struct Groups {
    /// Mount point of the hierarchy.
    mount: PathBuf,
    /// Directory of the innermost cgroup.
    home: PathBuf,
    files: &'static Files,
}

/// File names of one version of the cgroup interface.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    controller: &'static str,
    limit: &'static str,
    /// Name of the limit in systemd.
    property: &'static str,
    /// File that limits memory and swap together (version 1), or swap alone (version 2).
    swap: Option<&'static str>,
    /// Whether a group has controllers only if its parent enables them (version 2).
    has_control: bool,
}

/// Version 1, and version 2: a controller belongs to one of them only, and version 1 comes first.
type Versions = [Files; 2];

const MEMORY_1: Files = Files {
    controller: "memory",
    limit: "memory.limit_in_bytes",
    property: "MemoryMax",
    swap: Some("memory.memsw.limit_in_bytes"),
    has_control: false,
};
const MEMORY_2: Files = Files { limit: "memory.max", swap: Some("memory.swap.max"), has_control: true, ..MEMORY_1 };
const TIME_1: Files = Files { controller: "cpu", limit: "cpu.cfs_quota_us", property: "CPUQuota", swap: None, has_control: false };
const TIME_2: Files = Files { limit: "cpu.max", has_control: true, ..TIME_1 };

static MEMORY: Versions = [MEMORY_1, MEMORY_2];
static TIME: Versions = [TIME_1, TIME_2];

/// The period of a quota, microseconds: the kernel's default, and that of container runtimes.
const PERIOD_US: u64 = 100_000;

impl Files {
    /// Text of a limit, in bytes or percent of a processor, for its file.
    fn text(&self, value: u64) -> String {
        match (self.controller, self.has_control) {
            ("cpu", false) => (value * PERIOD_US / 100).to_string(),
            ("cpu", true) => format!("{} {PERIOD_US}", value * PERIOD_US / 100),
            _ => value.to_string(),
        }
    }
}

/// Prefix of the cgroups of runs; the process id follows.
const PREFIX: &str = "sinter-run-";

/// A cgroup made for this run.
struct Group {
    own: PathBuf,
    home: PathBuf,
}

impl Groups {
    fn read(versions: &'static Versions) -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let none = || format!("no cgroup file system with the controller {} holds this process", versions[0].controller);
        Self::of(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"), versions).ok_or_else(none)
    }

    /// Finds the groups in the texts of proc(5) `mountinfo` and cgroups(7) `cgroup`.
    fn of(mountinfo: &str, cgroup: &str, versions: &'static Versions) -> Option<Self> {
        versions.iter().find_map(|files| Self::of_version(mountinfo, cgroup, files))
    }

    fn of_version(mountinfo: &str, cgroup: &str, files: &'static Files) -> Option<Self> {
        let has_it = |names: &str| names.split(',').any(|name| name == files.controller);
        let path = cgroup.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (id, names, path) = (fields.next()?, fields.next()?, fields.next()?);
            let is_it = if files.has_control { id == "0" && names.is_empty() } else { has_it(names) };
            is_it.then(|| Path::new(path))
        })?;
        mountinfo.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut right = right.split(' ');
            let kind = right.next()?;
            let is_it = if files.has_control { kind == "cgroup2" } else { kind == "cgroup" && right.nth(1).is_some_and(has_it) };
            if !is_it {
                return None;
            }
            let mut fields = left.split(' ').skip(3);
            let (root, mount) = (fields.next()?, PathBuf::from(fields.next()?));
            // Below a bind mount only a part of the tree is seen.
            let home = mount.join(path.strip_prefix(root).ok()?);
            Some(Groups { mount, home, files })
        })
    }

    /// The group and its ancestors, up to the mount.
    fn chain(&self) -> impl Iterator<Item = &Path> {
        self.home.ancestors().take_while(|group| group.starts_with(&self.mount))
    }

    /// Smallest memory limit of all groups around the process, bytes.
    fn limit(&self) -> Option<u64> {
        let limit = |group: &Path| fs::read_to_string(group.join(self.files.limit)).ok()?.trim().parse().ok();
        // Version 1 says "none" with the largest multiple of a page.
        self.chain().filter_map(limit).filter(|bytes| *bytes < 1 << 60).min()
    }

    /// Moves the process to a new group with `bytes` of memory; `None` if its limit is as low or lower already.
    fn enter_below_limit(&self, bytes: u64) -> Result<Option<Group>, String> {
        if self.limit().is_some_and(|limit| limit <= bytes) { Ok(None) } else { self.enter(bytes) }
    }

    /// Moves the process to a new group with the limit `value`; `None` if it is in a group of its own already, which then gets this limit,
    /// too.
    fn enter(&self, value: u64) -> Result<Option<Group>, String> {
        let mut first = None;
        for parent in self.chain() {
            match self.enter_below(parent, value) {
                Ok(group) => return Ok(group),
                Err(error) => first = first.or(Some(format!("{}: {error}", parent.display()))),
            }
            // Groups of version 1 may hold processes and groups at once. If none can be made in the innermost group, it is for lack of
            // permission, and the groups around it permit no more.
            if !self.files.has_control {
                break;
            }
        }
        let why = first.unwrap_or_default();
        let unit = if self.files.controller == "cpu" { "%" } else { "" };
        // In version 1, only root can be given a part of the tree.
        let scope = format!(", or within `systemd-run --user --scope -p {}={value}{unit}`", self.files.property);
        let scope = if self.files.has_control { scope } else { String::new() };
        Err(format!("no cgroup can be made for it ({why}); run it as root{scope}"))
    }

    /// Removes the group of a dead process. A group that still has a process in it stays.
    fn remove_left(&self, process: u32) {
        for parent in self.chain() {
            let _ = fs::remove_dir(parent.join(format!("{PREFIX}{process}")));
        }
    }

    fn enter_below(&self, parent: &Path, value: u64) -> io::Result<Option<Group>> {
        let control = parent.join("cgroup.subtree_control");
        if self.files.has_control && !fs::read_to_string(&control)?.split_whitespace().any(|controller| controller == self.files.controller)
        {
            // The kernel refuses this while the group itself has processes, unless it is the root group.
            fs::write(&control, format!("+{}", self.files.controller))?;
        }
        let group = Group { own: parent.join(format!("{PREFIX}{}", std::process::id())), home: self.home.clone() };
        let limit = || fs::write(group.own.join(self.files.limit), self.files.text(value));
        if group.own == self.home {
            return limit().map(|()| None);
        }
        // The group exists if a killed process of the same number has made it.
        let _ = fs::remove_dir(&group.own);
        fs::create_dir(&group.own)?;
        let entered = limit().and_then(|()| fs::write(group.own.join("cgroup.procs"), std::process::id().to_string()));
        // Swap would let the group use more than its limit. Without swap there is no such file.
        let swap = if self.files.has_control { 0 } else { value };
        let _ = self.files.swap.map(|file| fs::write(group.own.join(file), swap.to_string()));
        match entered {
            Ok(()) => Ok(Some(group)),
            Err(error) => {
                let _ = fs::remove_dir(&group.own);
                Err(error)
            }
        }
    }
}

/// Attempts to remove a group, and the time between two of them: a killed process stays in its group for a moment.
const TRIES: usize = 100;
const BETWEEN: Duration = Duration::from_millis(10);

impl Group {
    fn step_out(&self) {
        let _ = fs::write(self.home.join("cgroup.procs"), std::process::id().to_string());
    }

    fn leave(&self) {
        self.step_out();
        let is_busy = || fs::remove_dir(&self.own).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy);
        for _ in 0..TRIES {
            if !is_busy() {
                return;
            }
            thread::sleep(BETWEEN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_taken_away_and_given_back() {
        let before = sched_getaffinity(THIS_THREAD).unwrap();
        let confined = confine(&Limits { cpus: Some(1), ..Limits::default() });
        assert_eq!((confined.confinement.cpus, &confined.confinement.complaint), (1, &None));
        let inherited = std::thread::scope(|scope| scope.spawn(|| members(&sched_getaffinity(THIS_THREAD).unwrap()).len()).join());
        assert_eq!(inherited.unwrap(), 1);
        drop(confined);
        assert_eq!(sched_getaffinity(THIS_THREAD).unwrap(), before);
        let too_many = confine(&Limits { cpus: Some(100_000), ..Limits::default() }).confinement.clone();
        assert_eq!(too_many.cpus, members(&before).len());
        assert!(too_many.complaint.unwrap().starts_with("limits.cpus: 100000 asked for, and the process may use "));
    }

    #[test]
    fn the_groups_of_a_process_are_found() {
        let of = |mountinfo: &str, cgroup: &str| Groups::of(mountinfo, cgroup, &MEMORY).map(|groups| (groups.mount, groups.home));
        let mounts = "24 1 0:21 / /proc rw - proc proc rw\n30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let pair = |mount: &str, home: &str| Some((mount.into(), home.into()));
        assert_eq!(of(mounts, "0::/user.slice/a.scope\n"), pair("/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/a.scope"));
        assert_eq!(of(mounts, "0::/\n"), pair("/sys/fs/cgroup", "/sys/fs/cgroup"));
        let bound = "30 23 0:26 /a /cg rw - cgroup2 cgroup2 rw\n";
        assert_eq!(of(bound, "0::/a/b\n"), pair("/cg", "/cg/b"));
        assert_eq!(of(bound, "0::/c\n"), None, "it is not below the mount");
        assert_eq!(of("24 1 0:21 / /proc rw - proc proc rw\n", "4:memory:/x\n0::/\n"), None);
        assert_eq!(of(mounts, "4:memory:/x\n"), None);
        // Both versions are mounted, and memory is limited by the first.
        let hybrid =
            format!("{mounts}35 31 0:32 / /cg1/memory rw - cgroup cgroup rw,memory\n33 31 0:29 / /cg1/cpu rw - cgroup cgroup rw,cpu\n");
        assert_eq!(of(&hybrid, "4:memory:/x/y\n1:cpu:/z\n0::/\n"), pair("/cg1/memory", "/cg1/memory/x/y"));
        assert_eq!(of(&hybrid, "1:cpu:/z\n0::/a\n"), pair("/sys/fs/cgroup", "/sys/fs/cgroup/a"));
        let of_time = Groups::of(&hybrid, "4:memory:/x/y\n1:cpu:/z\n0::/\n", &TIME).map(|groups| (groups.mount, groups.home));
        assert_eq!(of_time, pair("/cg1/cpu", "/cg1/cpu/z"));
    }

    #[test]
    fn limits_are_found_and_a_refusal_is_explained() {
        // Files of a directory behave like a cgroup whose controllers cannot be switched on.
        let mount = tempfile::tempdir().unwrap();
        let home = mount.path().join("a/b");
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("memory.max"), "max\n").unwrap();
        fs::write(mount.path().join("a/memory.max"), "4096\n").unwrap();
        let groups = Groups { mount: mount.path().into(), home, files: &MEMORY_2 };
        assert_eq!(groups.limit(), Some(4096));
        assert!(groups.enter_below_limit(5000).unwrap().is_none(), "it is limited already");
        let refused = groups.enter_below_limit(4000).err().unwrap();
        assert!(refused.contains("a/b: ") && refused.ends_with("-p MemoryMax=4000`"), "{refused}");
    }

    #[test]
    fn a_group_of_version_1_is_made_with_its_limit() {
        let mount = tempfile::tempdir().unwrap();
        fs::write(mount.path().join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        let groups = Groups { mount: mount.path().into(), home: mount.path().into(), files: &MEMORY_1 };
        assert_eq!(groups.limit(), None);
        let group = groups.enter(4096).unwrap().unwrap();
        let read = |file: &str| fs::read_to_string(group.own.join(file)).unwrap();
        assert_eq!([read("memory.limit_in_bytes"), read("memory.memsw.limit_in_bytes")], ["4096", "4096"]);
        assert_eq!(read("cgroup.procs"), std::process::id().to_string());
        let inside = Groups { mount: mount.path().into(), home: group.own, files: &MEMORY_1 };
        assert_eq!(inside.limit(), Some(4096));
    }

    #[test]
    fn a_quota_is_written_as_its_version_has_it() {
        let mount = tempfile::tempdir().unwrap();
        let (mount, control) = (mount.path(), "cgroup.subtree_control");
        let first = Groups { mount: mount.into(), home: mount.into(), files: &TIME_1 };
        let group = first.enter(150).unwrap().unwrap();
        assert_eq!(fs::read_to_string(group.own.join("cpu.cfs_quota_us")).unwrap(), "150000");
        // Version 2 has one tree: the group that a run has for its memory gets the quota, too.
        fs::remove_dir_all(&group.own).unwrap();
        fs::write(mount.join(control), "memory cpu").unwrap();
        let memory = Groups { mount: mount.into(), home: mount.into(), files: &MEMORY_2 }.enter(4096).unwrap().unwrap();
        let time = Groups { mount: mount.into(), home: memory.own.clone(), files: &TIME_2 };
        assert!(time.enter(50).unwrap().is_none());
        let read = |file: &str| fs::read_to_string(memory.own.join(file)).unwrap();
        assert_eq!([read("memory.max"), read("memory.swap.max"), read("cpu.max")], ["4096", "0", "50000 100000"]);
        let nowhere = Groups { mount: mount.join("gone"), home: mount.join("gone"), files: &TIME_2 };
        let refused = nowhere.enter(50).err().unwrap();
        assert!(refused.ends_with("-p CPUQuota=50%`"), "{refused}");
    }

    #[test]
    fn a_group_of_a_killed_process_is_in_nobodys_way() {
        let mount = tempfile::tempdir().unwrap();
        let home = mount.path().join("a");
        let left = |parent: &Path, process: u32| {
            let group = parent.join(format!("{PREFIX}{process}"));
            fs::create_dir_all(&group).unwrap();
            group
        };
        let groups = Groups { mount: mount.path().into(), home: home.clone(), files: &MEMORY_1 };
        let (ours, inner, outer) = (left(&home, 71), left(&home, 7), left(mount.path(), 7));
        groups.remove_left(7);
        assert!(ours.exists() && !inner.exists() && !outer.exists());
        // The number of this process was another's, which was killed.
        left(&home, std::process::id());
        assert!(groups.enter(4096).unwrap().is_some());
    }

    #[test]
    fn killed_processes_are_counted_in_both_versions() {
        let group = tempfile::tempdir().unwrap();
        assert_eq!(kills(group.path()), 0);
        fs::write(group.path().join("memory.events"), "low 0\noom 4\noom_kill 3\noom_group_kill 1\n").unwrap();
        assert_eq!(kills(group.path()), 3);
        fs::remove_file(group.path().join("memory.events")).unwrap();
        fs::write(group.path().join("memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n").unwrap();
        assert_eq!(kills(group.path()), 2);
    }

    #[test]
    fn advice_fits_the_version() {
        let nowhere = tempfile::tempdir().unwrap().path().join("gone");
        let groups = Groups { mount: nowhere.clone(), home: nowhere, files: &MEMORY_1 };
        let refused = groups.enter(4096).err().unwrap();
        assert!(refused.ends_with("; run it as root"), "{refused}");
    }
}
