//! Limits to which a run can be confined on this machine: asked of the kernel before a study is planned, so that nobody finds out after an
//! hour.

use super::limits::{confine, memory_limit};
use crate::result::Machine;
use crate::run::Limits;
use nix::sys::statvfs::statvfs;
use std::path::Path;
use std::thread;

/// Number of processors that this process, and so each run that it starts, may use.
pub fn permitted_processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Largest memory limit of a run, bytes: the memory of the machine, or the limit of this process from outside if that is less. Found only
/// if this process may be limited to `least` bytes, which it is for a moment.
///
/// # Errors
/// The reason why limits are not permitted; one line.
pub fn permitted_memory(least: u64) -> Result<u64, String> {
    let machine = Machine::here(Path::new("/")).memory_bytes;
    let most = memory_limit().map_or(machine, |limit| limit.min(machine));
    let confined = confine(&Limits { memory_bytes: Some(least), ..Limits::default() });
    match &confined.confinement.complaint {
        Some(complaint) => Err(complaint.clone()),
        None => Ok(most),
    }
}

/// Whether a run can be given a quota of processor time.
///
/// # Errors
/// The reason why quotas are not permitted; one line.
pub fn permitted_quota() -> Result<(), String> {
    let confined = confine(&Limits { cpu_percent: Some(100), ..Limits::default() });
    confined.confinement.complaint.clone().map_or(Ok(()), Err)
}

/// Free bytes of the medium below a directory, or below its nearest existing ancestor.
///
/// # Errors
/// The reason why the figure is unknown; one line.
pub fn permitted_disk(directory: &Path) -> Result<u64, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", directory.display());
    let whole = std::path::absolute(directory).map_err(|error| wrong(&error))?;
    let there = whole.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let medium = statvfs(there).map_err(|error| wrong(&error))?;
    Ok(medium.blocks_available().saturating_mul(medium.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Permission depends on the machine; that a refusal has a reason, and that nothing stays behind, does not.
    #[test]
    fn a_refusal_says_why() {
        assert!(permitted_processors() >= 1);
        let first = permitted_memory(1 << 30);
        match &first {
            // More than that would not hold, whatever the machine has.
            Ok(bytes) => assert!(*bytes > 0 && memory_limit().is_none_or(|limit| *bytes <= limit)),
            Err(why) => assert!(why.starts_with("limits.memory_bytes: ") && !why.contains('\n'), "{why}"),
        }
        assert_eq!(permitted_memory(1 << 30).is_ok(), first.is_ok());
        let quota = permitted_quota();
        assert!(quota.as_ref().err().is_none_or(|why| why.starts_with("limits.cpu_percent: ")), "{quota:?}");
        assert_eq!(permitted_quota(), quota);
    }

    #[test]
    fn a_medium_has_room_below_what_is_not_there_yet() {
        let directory = tempfile::tempdir().unwrap();
        assert!(permitted_disk(&directory.path().join("a/b")).unwrap() > 0);
    }
}
