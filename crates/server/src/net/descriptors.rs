//! Limits on clients and open files that follow from the limit on the process's descriptors.

use std::fs;

/// Largest number of connected clients: a quarter of the process's descriptors stays for files, as the engine could write no table without
/// one. Unlimited without a known limit.
pub(super) fn clients_max() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    open_files(&limits).map_or(usize::MAX, |most| most / 4 * 3)
}

/// Largest number of tables kept open, out of the quarter of the descriptors for files: a few are for logs, for files being written and for
/// the server itself. 0: no limit.
pub fn files_max() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    open_files(&limits).map_or(0, tables)
}

fn tables(most: usize) -> u64 {
    (most / 4).saturating_sub(24).max(8) as u64
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
        assert_eq!([64, 160, 1024, 1 << 20].map(tables), [8, 16, 232, (1 << 18) - 24]);
        assert_eq!((open_files(&limits("unlimited")), open_files("")), (None, None));
    }
}
