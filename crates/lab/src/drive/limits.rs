//! Confines the process to some processors (affinity) and some memory (a cgroup of its own, version 2), as far as it may.

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

/// The cgroups that this process is in.
struct Groups {
    /// Where they are mounted.
    mount: PathBuf,
    /// The directory of the innermost.
    home: PathBuf,
}

/// A cgroup made for this run.
struct Group {
    own: PathBuf,
    home: PathBuf,
}

impl Groups {
    fn read() -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::of(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
            .ok_or_else(|| "no cgroup file system of version 2 holds this process".to_owned())
    }

    /// From the texts of proc(5) `mountinfo` and cgroups(7) `cgroup`.
    fn of(mountinfo: &str, cgroup: &str) -> Option<Self> {
        let path = Path::new(cgroup.lines().find_map(|line| line.strip_prefix("0::"))?);
        mountinfo.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            if right.split(' ').next()? != "cgroup2" {
                return None;
            }
            let mut fields = left.split(' ').skip(3);
            let (root, mount) = (fields.next()?, PathBuf::from(fields.next()?));
            // Below a bind mount only a part of the tree is seen.
            let home = mount.join(path.strip_prefix(root).ok()?);
            Some(Groups { mount, home })
        })
    }

    /// The group and those it lies in, up to the mount.
    fn chain(&self) -> impl Iterator<Item = &Path> {
        self.home.ancestors().take_while(|group| group.starts_with(&self.mount))
    }

    /// The smallest `memory.max` of all groups around the process.
    fn limit(&self) -> Option<u64> {
        self.chain().filter_map(|group| fs::read_to_string(group.join("memory.max")).ok()?.trim().parse().ok()).min()
    }

    /// Moves the process to a new group with `memory.max` of so many bytes; `None` if it is limited like that or more already.
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
        }
        let why = first.unwrap_or_default();
        let way = format!("run it as root, or within `systemd-run --user --scope -p MemoryMax={bytes}`");
        Err(format!("no cgroup can be made for it ({why}); {way}"))
    }

    fn enter_below(&self, parent: &Path, bytes: u64) -> io::Result<Group> {
        let control = parent.join("cgroup.subtree_control");
        if !fs::read_to_string(&control)?.split_whitespace().any(|controller| controller == "memory") {
            // Refused while the group itself has processes, unless it is the root.
            fs::write(&control, "+memory")?;
        }
        let group = Group { own: parent.join(format!("sinter-run-{}", std::process::id())), home: self.home.clone() };
        fs::create_dir(&group.own)?;
        let entered = fs::write(group.own.join("memory.max"), bytes.to_string())
            .and_then(|()| fs::write(group.own.join("cgroup.procs"), std::process::id().to_string()));
        // Swap would let it use more; where there is none, there is no such file.
        let _ = fs::write(group.own.join("memory.swap.max"), "0");
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
    }

    #[test]
    fn limits_are_found_and_a_refusal_is_explained() {
        // Files of a directory behave like a cgroup whose controllers cannot be switched on.
        let mount = tempfile::tempdir().unwrap();
        let home = mount.path().join("a/b");
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("memory.max"), "max\n").unwrap();
        fs::write(mount.path().join("a/memory.max"), "4096\n").unwrap();
        let groups = Groups { mount: mount.path().into(), home };
        assert_eq!(groups.limit(), Some(4096));
        assert!(groups.enter(5000).unwrap().is_none(), "it is limited already");
        let refused = groups.enter(4000).err().unwrap();
        assert!(refused.contains("a/b: ") && refused.ends_with("-p MemoryMax=4000`"), "{refused}");
    }
}
