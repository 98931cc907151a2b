//! Memory at rest: when the server's memory has changed much and then not at all for a while, buffers kept for later requests are freed,
//! and the allocator returns its free memory to the kernel.
//!
//! glibc keeps freed pieces of less than 32 MiB: after a value of 128 MiB, 4 to 140 MiB. Returning them at once would cost each large
//! request a system call and pages to fill; under load nothing is returned.

use super::{Data, EventLoop};
use crate::system;
use sinter_storage::store::give_back_free;
use std::thread::JoinHandle;

/// Milliseconds between two checks, and number of checks without a change after which memory is at rest.
const LOOK_MS: u64 = 1000;
const LOOKS: u32 = 2;
/// Change of memory between two checks, bytes, that counts as none.
const STILL: u64 = 256 << 10;
/// Changes since memory was last returned that make it worth returning again: so many bytes, and one part of so many of the resident bytes.
const CHANGES: u64 = 512 << 10;
const PARTS: u64 = 8;

/// Checks of memory since it was last returned.
#[derive(Debug, Default)]
pub(super) struct Rest {
    next: u64,
    /// At the last check: resident bytes of the process, and bytes in use as far as they are counted. `None`: no check yet.
    before: Option<(u64, u64)>,
    /// Sum of all changes of both.
    changes: u64,
    /// Number of checks without a change.
    still: u32,
    /// Thread that returns memory.
    thread: Option<JoinHandle<()>>,
}

impl Rest {
    /// Whether a check is due. A clock that goes back does not stop the checks.
    fn is_due(&mut self, now: u64) -> bool {
        let is_due = now >= self.next || self.next - now > LOOK_MS;
        if is_due {
            self.next = now + LOOK_MS;
        }
        is_due
    }

    /// Checks memory: resident bytes, and bytes in use. True: memory is to be returned.
    fn look(&mut self, resident: u64, used: u64) -> bool {
        let change = self.before.map_or(0, |(r, u)| r.abs_diff(resident).saturating_add(u.abs_diff(used)));
        self.before = Some((resident, used));
        self.changes = self.changes.saturating_add(change);
        self.still = if change > STILL { 0 } else { self.still.saturating_add(1) };
        let gives = self.still >= LOOKS && self.changes >= CHANGES.max(resident / PARTS);
        if gives {
            (self.changes, self.before) = (0, None);
        }
        gives
    }
}

impl EventLoop {
    /// Frees memory that nobody needs, if this is the time for it.
    pub(super) fn rest(&mut self, data: &mut Data, now: u64) {
        if !self.rest.is_due(now) {
            return;
        }
        let works = self.saves.is_running() || data.server.append.is_rewriting();
        if works || data.keyspace.is_underway() || data.keyspace.db().has_running_jobs() {
            // Threads hold memory for their work, and a check would wait for the batch or for a change of the tree.
            self.rest.still = 0;
            return;
        }
        let used = data.keyspace.memory().used().saturating_add(self.held as u64);
        if self.rest.look(system::anonymous_bytes(), used) && self.rest.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            data.keyspace.give_back();
            data.server.feed.give_back();
            // If no thread can be started, the memory stays until the next time.
            self.rest.thread = std::thread::Builder::new().name("sinter-rest".into()).spawn(give_back_free).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Whether memory is given back at each of some looks.
    fn looks(rest: &mut Rest, seen: &[(u64, u64)]) -> Vec<bool> {
        seen.iter().map(|(resident, used)| rest.look(*resident, *used)).collect()
    }

    #[test]
    fn memory_is_given_back_once_it_has_changed_much_and_then_not_at_all() {
        let mut rest = Rest::default();
        let idle = (MIB, 0);
        assert_eq!(looks(&mut rest, &[idle; 5]), [false; 5], "nothing has changed");
        let large = [(200 * MIB, 130 * MIB), (200 * MIB, 130 * MIB), (200 * MIB + STILL, 130 * MIB)];
        assert_eq!(looks(&mut rest, &large), [false, false, true]);
        // The memory that this has returned is no change.
        let after = (150 * MIB, 130 * MIB);
        assert_eq!(looks(&mut rest, &[after; 5]), [false; 5]);
        // Memory that is free and not given back yet is resident as before.
        let freed = (150 * MIB, 0);
        assert_eq!(looks(&mut rest, &[freed; 5]), [false, false, true, false, false]);
    }

    #[test]
    fn memory_is_not_given_back_while_it_grows_and_not_for_little() {
        let mut rest = Rest::default();
        assert!(!rest.look(100 * MIB, 0));
        for look in 1..20 {
            assert!(!rest.look((100 + look) * MIB, 0), "it grows");
        }
        assert_eq!(looks(&mut rest, &[(120 * MIB, 0); 4]), [false, false, true, false]);
        // Changes have to reach an eighth of the resident memory.
        assert_eq!(looks(&mut rest, &[(134 * MIB, 0); 5]), [false; 5]);
        assert_eq!(looks(&mut rest, &[(138 * MIB, 0); 4]), [false, false, true, false]);
    }

    #[test]
    fn looks_are_a_second_apart_whatever_the_clock_does() {
        let mut rest = Rest::default();
        let due: Vec<bool> = [5000, 5100, 5999, 6000, 100, 200, 1100].into_iter().map(|now| rest.is_due(now)).collect();
        assert_eq!(due, [true, false, false, true, true, false, true]);
    }
}
