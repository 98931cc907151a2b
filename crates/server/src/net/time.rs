//! Where the time of day comes in.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the one place of the server where the system's time comes in")]
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| u64::try_from(passed.as_millis()).unwrap_or(u64::MAX))
}
