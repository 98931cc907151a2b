//! The Redis protocol as bytes: requests are parsed and written, replies are written; no command is known here.
//!
//! * [`Parser`] takes the bytes that a connection has received so far and finds the end of a request. It looks at every byte once, however
//!   the bytes were cut into reads, does not recurse, and takes memory only for bytes that are there.
//! * [`Coming`] looks at complete requests ahead of the parser, for callers that can prepare for them.
//! * [`Writer`] writes replies in RESP2 or RESP3 from the same calls.
//! * [`put_request`] writes requests.

mod coming;
mod encoding;
mod inline;
mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use coming::Coming;
pub use encoding::{put_request, request};
pub use inline::split_words;
pub use reply::{Protocol, REPLIES_MAX, Writer};
pub use request::{Limits, Parser, ProtocolError};
