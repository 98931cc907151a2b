//! Programs of servers, and the resources of the machine.

use crate::drive::permitted_disk;
use crate::result::Machine;
use sinterdb::internal::settings::format_bytes;
use std::path::{Path, PathBuf};

/// Programs of servers and the resources of the machine, found before a study is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// The program of Redis, if there is one.
    pub redis: Option<PathBuf>,
    /// Redis's own client, if there is one.
    pub benchmark: Option<PathBuf>,
    /// Memory of the machine, bytes.
    pub memory: u64,
    /// Free space of the medium, bytes.
    pub disk: u64,
}

impl Servers {
    /// A machine without bounds, on which programs are found by their names.
    pub fn all() -> Self {
        Servers { redis: Some(SERVER.into()), benchmark: Some(BENCHMARK.into()), memory: u64::MAX, disk: u64::MAX }
    }

    /// Looks at this machine: `redis`, or the `redis-server` found first, and the client beside it; the free space below `directory`.
    ///
    /// # Errors
    /// A program that is not there; a medium of which nothing is known; one line.
    pub fn here(redis: Option<&Path>, directory: &Path) -> Result<Self, String> {
        let redis = match redis {
            // A study may be resumed from another directory.
            Some(program) if program.is_file() => {
                Some(std::path::absolute(program).map_err(|error| format!("{}: {error}", program.display()))?)
            }
            Some(program) => return Err(format!("{}: no such program", program.display())),
            None => found(SERVER),
        };
        let beside = redis.as_ref().map(|program| program.with_file_name(BENCHMARK)).filter(|program| program.is_file());
        let memory = Machine::here(Path::new("/")).memory_bytes;
        Ok(Servers { redis, benchmark: beside.or_else(|| found(BENCHMARK)), memory, disk: permitted_disk(directory)? })
    }

    /// Resource of which a run needs more than there is, as a complaint.
    pub(super) fn lacks(&self, memory: u64, disk: u64) -> Option<String> {
        let lack = |what: &str, needed: u64, there: u64| {
            let (needed, there) = (format_bytes(needed >> 20 << 20), format_bytes(there >> 20 << 20));
            format!("{needed} of {what} are needed, and there are {there}")
        };
        match () {
            () if memory > self.memory => Some(lack("memory", memory, self.memory)),
            () if disk > self.disk => Some(lack("disk", disk, self.disk)),
            () => None,
        }
    }
}

/// The programs of Redis.
const SERVER: &str = "redis-server";
const BENCHMARK: &str = "redis-benchmark";

/// Path of the program that a shell would find by this name.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_told() {
        let servers = Servers { memory: 1 << 30, disk: 1 << 40, ..Servers::all() };
        assert_eq!(servers.lacks(1 << 30, 1 << 40), None);
        assert_eq!(servers.lacks(3 << 30, 0).unwrap(), "3GiB of memory are needed, and there are 1GiB");
        assert_eq!(servers.lacks(0, 2 << 40).unwrap(), "2TiB of disk are needed, and there are 1TiB");
        let here = Servers::here(Some(Path::new("/bin/sh")), Path::new(".")).unwrap();
        assert!(here.memory > 0 && here.disk > 0 && here.redis.is_some_and(|program| program.ends_with("sh")));
        let relative = Servers::here(Some(Path::new("Cargo.toml")), Path::new(".")).unwrap();
        assert!(relative.redis.is_some_and(|program| program.is_absolute()));
        assert_eq!(Servers::here(Some(Path::new("/nowhere/x")), Path::new(".")).unwrap_err(), "/nowhere/x: no such program");
    }
}
