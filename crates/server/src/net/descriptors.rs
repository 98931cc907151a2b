//! Limits on clients and open files that follow from the limit on the process's descriptors.

use std::fs;

/// Descriptors for the server itself: its listeners, logs and files being written.
const OWN: usize = 24;
/// Tables that the engine can always keep open.
const TABLES_MIN: usize = 8;

/// Largest number of connected clients; `None`: there is no known limit. A quarter of the process's descriptors stays for files, at least
/// [`OWN`] and [`TABLES_MIN`], as the engine could write no table without one.
pub(super) fn clients_max() -> Option<usize> {
    limit().map(clients)
}

fn clients(most: usize) -> usize {
    most.saturating_sub(most.div_ceil(4).max(OWN + TABLES_MIN)).max(1)
}

/// Largest number of tables kept open, out of the quarter of the descriptors for files. 0: no limit.
pub fn files_max() -> u64 {
    limit().map_or(0, tables)
}

fn tables(most: usize) -> u64 {
    (most / 4).saturating_sub(OWN).max(TABLES_MIN) as u64
}

/// The process's soft limit on open files.
fn limit() -> Option<usize> {
    open_files(&fs::read_to_string("/proc/self/limits").unwrap_or_default())
}

/// The soft limit on open files, from the kernel's list of all limits.
fn open_files(limits: &str) -> Option<usize> {
    limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let limits = |files: &str| format!("Limit  Soft Limit  Hard Limit\nMax processes  7  9\nMax open files  {files}  4096  files\n");
        assert_eq!(open_files(&limits("1024")), Some(1024));
        assert_eq!([20, 40, 64, 160, 1024, 1 << 20].map(clients), [1, 8, 32, 120, 768, 3 << 18]);
        assert_eq!([64, 160, 1024, 1 << 20].map(tables), [8, 16, 232, (1 << 18) - 24]);
        assert_eq!((open_files(&limits("unlimited")), open_files("")), (None, None));
    }
}
