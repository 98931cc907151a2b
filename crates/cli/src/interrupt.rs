//! Ctrl-C: the first asks a command to come to an end, the second ends it.

use crate::ended::Ended;
use anyhow::Context;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the shell reports for a command that Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;

/// Raises a flag at the first Ctrl-C; ends the process at the second, for a call that does not return.
///
/// # Errors
/// A process that handles it already.
pub fn stop_on_ctrl_c() -> Result<Arc<AtomicBool>, Ended> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    let handler = move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
    };
    ctrlc::set_handler(handler).context("Ctrl-C cannot be handled").map_err(Ended::Failed)?;
    Ok(stop)
}
