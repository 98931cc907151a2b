//! The framed log: one format for the write-ahead log and the manifest.
//!
//! A log file is a header and records. Every record says how much of the file its writer *knew* to be durable (the synced
//! watermark; the idea is Pebble's WAL chunk with a sync offset, 2025), so a reader can tell rot from a torn tail: damage below a
//! watermark found anywhere behind it is an error, damage above all of them is the end that a crash left, and is cut and reported.
//! After each sync a marker (a record without payload) carries the new watermark, so only the newest group is ever ambiguous.
//! Checksums are bound to database, file and offset; nothing is trusted before its checksum was seen. Records behind damage are also
//! recognised where bytes that were inserted or removed have moved them to, up to 64 KiB.

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
