//! Confines the process to some processors (affinity) and some memory (a cgroup of its own, of either version), as far as it may.

use crate::run::{Confinement, Limits};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The calling thread, and with it the threads that it will start.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// A confined process. The limits end when this is dropped.
pub(super) struct Confined {
    /// What holds, and why the rest does not.
    pub confinement: Confinement,
    /// The processors before.
    cpus: Option<CpuSet>,
    group: Option<Group>,
}

/// Confines the calling thread and those that it starts to `limits.cpus`, and the process to `limits.memory_bytes`.
pub(super) fn confine(limits: &Limits) -> Confined {
    let mut complaints = Vec::new();
    let cpus = limits.cpus.and_then(|cpus| pin(cpus).map_err(|what| complaints.push(format!("limits.cpus: {what}"))).ok());
    let groups = Groups::read();
    let group = limits.memory_bytes.and_then(|bytes| {
        let entered = groups.as_ref().map_err(Clone::clone).and_then(|groups| groups.enter(bytes));
        entered.map_err(|what| complaints.push(format!("limits.memory_bytes: {what}"))).ok().flatten()
    });
    Confined {
        confinement: Confinement {
            cpus: sched_getaffinity(THIS_THREAD).map_or(0, |set| members(&set).len()),
            memory_bytes: Groups::read().ok().and_then(|groups| groups.limit()),
            complaint: (!complaints.is_empty()).then(|| complaints.join("; ")),
        },
        cpus,
        group,
    }
}

/// The memory that this process is limited to from outside, bytes.
pub(super) fn memory_limit() -> Option<u64> {
    Groups::read().ok()?.limit()
}

/// Removes the cgroup of a process that is gone, killed perhaps, and was started by this one.
pub(super) fn remove_left(process: u32) {
    if let Ok(groups) = Groups::read() {
        groups.remove_left(process);
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        if let Some(cpus) = self.cpus {
            let _ = sched_setaffinity(THIS_THREAD, &cpus);
        }
        if let Some(group) = &self.group {
            group.leave();
        }
    }
}

fn members(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

/// Takes the first `cpus` of those that the thread may use; all of them, as they were.
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

/// The cgroups that this process is in, of the tree that limits memory.
struct Groups {
    /// Where they are mounted.
    mount: PathBuf,
    /// The directory of the innermost.
    home: PathBuf,
    files: &'static Files,
}

/// The files of a version of the interface.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    limit: &'static str,
    /// Memory and swap together, or swap alone.
    swap: &'static str,
    /// A group has controllers only if the one around it lets it.
    has_control: bool,
}

const VERSION_1: Files = Files { limit: "memory.limit_in_bytes", swap: "memory.memsw.limit_in_bytes", has_control: false };
const VERSION_2: Files = Files { limit: "memory.max", swap: "memory.swap.max", has_control: true };

/// How the cgroups of runs are called; the number of the process follows.
const PREFIX: &str = "sinter-run-";

/// A cgroup made for this run.
struct Group {
    own: PathBuf,
    home: PathBuf,
}

impl Groups {
    fn read() -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::of(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
            .ok_or_else(|| "no cgroup file system that limits memory holds this process".to_owned())
    }

    /// From the texts of proc(5) `mountinfo` and cgroups(7) `cgroup`. Where version 1 limits memory, version 2 cannot.
    fn of(mountinfo: &str, cgroup: &str) -> Option<Self> {
        Self::of_version(mountinfo, cgroup, &VERSION_1).or_else(|| Self::of_version(mountinfo, cgroup, &VERSION_2))
    }

    fn of_version(mountinfo: &str, cgroup: &str, files: &'static Files) -> Option<Self> {
        let has_memory = |names: &str| names.split(',').any(|name| name == "memory");
        let path = cgroup.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (id, names, path) = (fields.next()?, fields.next()?, fields.next()?);
            let is_it = if files.has_control { id == "0" && names.is_empty() } else { has_memory(names) };
            is_it.then(|| Path::new(path))
        })?;
        mountinfo.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut right = right.split(' ');
            let kind = right.next()?;
            let is_it = if files.has_control { kind == "cgroup2" } else { kind == "cgroup" && right.nth(1).is_some_and(has_memory) };
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

    /// The group and those it lies in, up to the mount.
    fn chain(&self) -> impl Iterator<Item = &Path> {
        self.home.ancestors().take_while(|group| group.starts_with(&self.mount))
    }

    /// The smallest limit of all groups around the process.
    fn limit(&self) -> Option<u64> {
        let limit = |group: &Path| fs::read_to_string(group.join(self.files.limit)).ok()?.trim().parse().ok();
        // Version 1 says "none" with the largest multiple of a page.
        self.chain().filter_map(limit).filter(|bytes| *bytes < 1 << 60).min()
    }

    /// Moves the process to a new group with a limit of so many bytes; `None` if it is limited like that or more already.
    fn enter(&self, bytes: u64) -> Result<Option<Group>, String> {
        if self.limit().is_some_and(|limit| limit <= bytes) {
            return Ok(None);
        }
        let mut first = None;
        for parent in self.chain() {
            match self.enter_below(parent, bytes) {
                Ok(group) => return Ok(Some(group)),
                Err(error) => first = first.or(Some(format!("{}: {error}", parent.display()))),
            }
            // A group of version 1 may have processes and groups in it: if it cannot be done here, those around it are not ours.
            if !self.files.has_control {
                break;
            }
        }
        let why = first.unwrap_or_default();
        // Nobody but root is given a part of the tree of version 1.
        let scope = format!(", or within `systemd-run --user --scope -p MemoryMax={bytes}`");
        let scope = if self.files.has_control { scope } else { String::new() };
        Err(format!("no cgroup can be made for it ({why}); run it as root{scope}"))
    }

    /// Removes what a process of this number that is gone had made. One that still has a process in it stays.
    fn remove_left(&self, process: u32) {
        for parent in self.chain() {
            let _ = fs::remove_dir(parent.join(format!("{PREFIX}{process}")));
        }
    }

    fn enter_below(&self, parent: &Path, bytes: u64) -> io::Result<Group> {
        let control = parent.join("cgroup.subtree_control");
        if self.files.has_control && !fs::read_to_string(&control)?.split_whitespace().any(|controller| controller == "memory") {
            // Refused while the group itself has processes, unless it is the root.
            fs::write(&control, "+memory")?;
        }
        let group = Group { own: parent.join(format!("{PREFIX}{}", std::process::id())), home: self.home.clone() };
        // Of a process that had the same number and was killed.
        let _ = fs::remove_dir(&group.own);
        fs::create_dir(&group.own)?;
        let entered = fs::write(group.own.join(self.files.limit), bytes.to_string())
            .and_then(|()| fs::write(group.own.join("cgroup.procs"), std::process::id().to_string()));
        // Swap would let it use more; where there is none, there is no such file.
        let swap = if self.files.has_control { 0 } else { bytes };
        let _ = fs::write(group.own.join(self.files.swap), swap.to_string());
        match entered {
            Ok(()) => Ok(group),
            Err(error) => {
                let _ = fs::remove_dir(&group.own);
                Err(error)
            }
        }
    }
}

impl Group {
    fn leave(&self) {
        let _ = fs::write(self.home.join("cgroup.procs"), std::process::id().to_string());
        let _ = fs::remove_dir(&self.own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_taken_away_and_given_back() {
        let before = sched_getaffinity(THIS_THREAD).unwrap();
        let confined = confine(&Limits { cpus: Some(1), memory_bytes: None });
        assert_eq!((confined.confinement.cpus, &confined.confinement.complaint), (1, &None));
        let inherited = std::thread::scope(|scope| scope.spawn(|| members(&sched_getaffinity(THIS_THREAD).unwrap()).len()).join());
        assert_eq!(inherited.unwrap(), 1);
        drop(confined);
        assert_eq!(sched_getaffinity(THIS_THREAD).unwrap(), before);
        let too_many = confine(&Limits { cpus: Some(100_000), memory_bytes: None }).confinement.clone();
        assert_eq!(too_many.cpus, members(&before).len());
        assert!(too_many.complaint.unwrap().starts_with("limits.cpus: 100000 asked for, and the process may use "));
    }

    #[test]
    fn the_groups_of_a_process_are_found() {
        let of = |mountinfo: &str, cgroup: &str| Groups::of(mountinfo, cgroup).map(|groups| (groups.mount, groups.home));
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
    }

    #[test]
    fn limits_are_found_and_a_refusal_is_explained() {
        // Files of a directory behave like a cgroup whose controllers cannot be switched on.
        let mount = tempfile::tempdir().unwrap();
        let home = mount.path().join("a/b");
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("memory.max"), "max\n").unwrap();
        fs::write(mount.path().join("a/memory.max"), "4096\n").unwrap();
        let groups = Groups { mount: mount.path().into(), home, files: &VERSION_2 };
        assert_eq!(groups.limit(), Some(4096));
        assert!(groups.enter(5000).unwrap().is_none(), "it is limited already");
        let refused = groups.enter(4000).err().unwrap();
        assert!(refused.contains("a/b: ") && refused.ends_with("-p MemoryMax=4000`"), "{refused}");
    }

    #[test]
    fn a_group_of_version_1_is_made_with_its_limit() {
        let mount = tempfile::tempdir().unwrap();
        fs::write(mount.path().join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        let groups = Groups { mount: mount.path().into(), home: mount.path().into(), files: &VERSION_1 };
        assert_eq!(groups.limit(), None);
        let group = groups.enter(4096).unwrap().unwrap();
        let read = |file: &str| fs::read_to_string(group.own.join(file)).unwrap();
        assert_eq!([read("memory.limit_in_bytes"), read("memory.memsw.limit_in_bytes")], ["4096", "4096"]);
        assert_eq!(read("cgroup.procs"), std::process::id().to_string());
        let inside = Groups { mount: mount.path().into(), home: group.own, files: &VERSION_1 };
        assert_eq!(inside.limit(), Some(4096));
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
        let groups = Groups { mount: mount.path().into(), home: home.clone(), files: &VERSION_1 };
        let (ours, inner, outer) = (left(&home, 71), left(&home, 7), left(mount.path(), 7));
        groups.remove_left(7);
        assert!(ours.exists() && !inner.exists() && !outer.exists());
        // The number of this process was another's, which was killed.
        left(&home, std::process::id());
        assert!(groups.enter(4096).unwrap().is_some());
    }

    #[test]
    fn advice_fits_the_version() {
        let nowhere = tempfile::tempdir().unwrap().path().join("gone");
        let groups = Groups { mount: nowhere.clone(), home: nowhere, files: &VERSION_1 };
        let refused = groups.enter(4096).err().unwrap();
        assert!(refused.ends_with("; run it as root"), "{refused}");
    }
}
