//! Flushes of the drive. All flushes of an open volume go through one [`Flusher`]: after a failed flush the drive (or the kernel) may have
//! dropped data that were written before, and a later flush would still report success.

use super::failed;
use crate::store::{Result, StoreError};
use crate::zoned::ZonedDevice;
use parking_lot::{Condvar, Mutex};
use std::io;

/// Combines concurrent flushes of the drive into one.
#[derive(Default)]
pub(super) struct Flusher {
    turns: Mutex<Turns>,
    ended: Condvar,
}

#[derive(Default)]
struct Turns {
    begun: u64,
    done: u64,
    running: bool,
    failed: bool,
}

impl Flusher {
    /// Waits for a flush that begins after this call. After a failed flush, all further calls fail.
    pub(super) fn flush(&self, device: &dyn ZonedDevice) -> Result<()> {
        let mut turns = self.turns.lock();
        let mine = turns.begun + 1;
        loop {
            if turns.failed {
                return Err(StoreError::store("flush", io::Error::other("an earlier flush of the drive failed")));
            }
            if turns.done >= mine {
                return Ok(());
            }
            if turns.running {
                self.ended.wait(&mut turns);
                continue;
            }
            turns.begun += 1;
            turns.running = true;
            let number = turns.begun;
            drop(turns);
            let outcome = device.flush();
            turns = self.turns.lock();
            turns.running = false;
            turns.failed |= outcome.is_err();
            turns.done = number;
            self.ended.notify_all();
            return outcome.map_err(|e| failed("flush", e));
        }
    }
}
