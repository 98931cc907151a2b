//! The framed log: one format for the write-ahead log and the manifest.
//!
//! A log file is a header and records. Every record says how many bytes of the file its writer *knew* to be durable (the synced
//! watermark; the idea is Pebble's WAL chunk with a sync offset, 2025). By this a reader tells bit rot from a torn end. If a watermark
//! behind damaged bytes covers them, they had been durable, and the damage is an error. If none does, a crash left a torn end, which is cut
//! and reported. After each sync a marker (a record without payload) carries the new watermark, so only writes after the last sync are ever
//! ambiguous. Checksums are bound to database, file and offset; no byte is used before its checksum was verified. A record behind damage is
//! also recognised up to 64 KiB from where it was written, in case bytes before it were inserted or removed.

mod frame;
mod header;
mod read;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod window;
mod writer;

pub use frame::RECORD_HEADER;
pub use header::{MAX_EXTRA, VERSION};
pub use read::{Log, LogEnd, LogSurvey, parse_log, read_log, survey_file, survey_log, walk_log};
pub use writer::{LogWriter, MAX_LOG};
