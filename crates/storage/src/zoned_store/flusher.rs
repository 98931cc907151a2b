//! Flushes of the drive.

use super::failed;
use crate::combined_sync::CombinedSync;
use crate::store::{Result, StoreError};
use crate::zoned::ZonedDevice;
use std::io;

/// Flushes of an open volume: all of them go through one flusher.
#[derive(Default)]
pub(super) struct Flusher(CombinedSync);

impl Flusher {
    /// Waits for a flush that begins after this call. After a failed flush, all further calls fail.
    pub(super) fn flush(&self, device: &dyn ZonedDevice) -> Result<()> {
        let earlier = || StoreError::store("flush", io::Error::other("an earlier flush of the drive failed"));
        self.0.sync(earlier, || device.flush().map_err(|e| failed("flush", e)))
    }
}
