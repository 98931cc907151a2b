//! What a run can be confined to here: asked of the kernel before a study is planned, so that nobody finds out after an hour.

use super::limits::confine;
use crate::result::Machine;
use crate::run::Limits;
use std::path::Path;
use std::thread;

/// Processors that this process, and so each run that it starts, may use.
pub fn permitted_processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The memory of the machine, bytes, if this process may be limited to `least` bytes, which it is for a moment.
///
/// # Errors
/// Why not; one line.
pub fn permitted_memory(least: u64) -> Result<u64, String> {
    let confined = confine(&Limits { cpus: None, memory_bytes: Some(least) });
    match &confined.confinement.complaint {
        Some(complaint) => Err(complaint.clone()),
        None => Ok(Machine::here(Path::new("/")).memory_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it is permitted depends on the machine; that a refusal says why, and that nothing stays behind, does not.
    #[test]
    fn a_refusal_says_why() {
        assert!(permitted_processors() >= 1);
        let first = permitted_memory(1 << 30);
        match &first {
            Ok(bytes) => assert!(*bytes > 0),
            Err(why) => assert!(why.starts_with("limits.memory_bytes: ") && !why.contains('\n'), "{why}"),
        }
        assert_eq!(permitted_memory(1 << 30).is_ok(), first.is_ok());
    }
}
