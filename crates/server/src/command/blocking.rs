//! Blocking requests: they wait for a key to change, for a sync, or for their timeout.
//!
//! A handler that finds nothing calls [`Session::block`] and writes no reply. From then on the client's further requests wait, and whenever
//! one of the keys has changed (or, without keys, a sync has ended) the blocked request is run again (`resuming`). A run that finds nothing
//! changes nothing and calls [`Session::block`] again, which keeps the client's place in the queue and its deadline. In a transaction no
//! request waits: the timeout is taken as over at once.

use super::arguments::wide;
use super::spec::Run;
use super::{Context, Failure, Outcome, Session};
use crate::keyspace::{Keyspace, Kind};
use crate::number::parse_integer;

/// A handler's request to wait.
#[derive(Debug)]
pub struct Wait {
    /// Keys of which any change runs the request again; without keys, a sync does.
    pub keys: Vec<Vec<u8>>,
    /// Type that a key has to hold for the request to run again; `None`: any type, or no value at all.
    pub holding: Option<Kind>,
    /// Milliseconds from now; 0: for ever.
    pub timeout_ms: u64,
    /// The request that is run again.
    pub request: Vec<Vec<u8>>,
    /// Writes the reply on timeout. It gets the request's arguments.
    pub on_timeout: Run,
}

/// A blocked request.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The number of the command in `units`; the request has the name that the client sent, which may be one of `rename-command`.
    pub number: usize,
    pub request: Vec<Vec<u8>>,
    pub on_timeout: Run,
    /// The client wants no reply to the request.
    pub is_silent: bool,
}

/// Why a wait ends without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The deadline has passed, or `CLIENT UNBLOCK TIMEOUT`.
    Timeout,
    /// `CLIENT UNBLOCK ERROR`.
    Error,
    /// The server has become a replica: what the client waits for may never come. The client is closed.
    Demoted,
}

impl Session {
    /// Asks for the request to wait. The caller has written no reply and changed nothing.
    pub fn block(&mut self, wait: Wait) {
        self.asks = Some(wait);
    }

    /// Whether a request is blocked; no other may be run before it has its reply.
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// The key whose change has led to this run of a blocked request.
    pub fn woken_by(&self) -> Option<&[u8]> {
        self.woken.as_deref()
    }
}

/// Blocks the request that has just asked for it. `number`: the command in `units`.
pub(super) fn begin(keyspace: &mut Keyspace, session: &mut Session, number: usize, is_silent: bool) {
    let Some(wait) = session.asks.take() else { return };
    let deadline = (wait.timeout_ms > 0).then(|| keyspace.now().saturating_add(wait.timeout_ms));
    keyspace.wait(session.id, session.db, &wait.keys, wait.holding, deadline);
    session.waiting = Some(Waiting { number, request: wait.request, on_timeout: wait.on_timeout, is_silent });
}

/// Writes the reply of a command that has asked to wait in a transaction.
pub(super) fn refuse(context: &mut Context) -> Outcome {
    let Some(wait) = context.session.asks.take() else { return Ok(()) };
    let arguments: Vec<&[u8]> = wait.request.iter().map(Vec::as_slice).collect();
    (wait.on_timeout)(context, &arguments)
}

/// [`Wait::on_timeout`] of most commands.
pub(super) fn null_array(context: &mut Context, _: &[&[u8]]) -> Outcome {
    context.reply.null_array();
    Ok(())
}

/// A copy of a request's arguments.
pub(super) fn kept(arguments: &[&[u8]]) -> Vec<Vec<u8>> {
    arguments.iter().map(|argument| argument.to_vec()).collect()
}

const NEGATIVE: Failure = Failure::fixed("ERR timeout is negative");

/// A timeout in seconds, perhaps with a fraction, as milliseconds. One that exceeds 64 bits, infinity included, counts as negative, as in
/// Redis on x86.
pub(super) fn seconds(text: &[u8]) -> Result<u64, Failure> {
    let seconds = wide(text, Failure::fixed("ERR timeout is not a float or out of range"))?.ok_or(NEGATIVE)?;
    let ms = seconds.thousandfold().ok_or(NEGATIVE)?;
    u64::try_from(ms).map_err(|_| NEGATIVE)
}

/// A timeout in milliseconds.
pub(super) fn milliseconds(text: &[u8]) -> Result<u64, Failure> {
    let ms = parse_integer(text).ok_or(Failure::fixed("ERR timeout is not an integer or out of range"))?;
    u64::try_from(ms).map_err(|_| NEGATIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_redis_does() {
        let read = |text: &str| seconds(text.as_bytes()).map_err(|failure| String::from_utf8_lossy(&failure.text()).into_owned());
        assert_eq!(read("0"), Ok(0));
        assert_eq!(read("0.0001"), Ok(1));
        assert_eq!(read("1.5"), Ok(1500));
        assert_eq!(read("-0"), Ok(0));
        assert_eq!(read("-1"), Err("ERR timeout is negative".into()));
        assert_eq!(read("9223372036854775.807"), Ok(i64::MAX.unsigned_abs()));
        for text in ["9223372036854775.808", "1e20", "1e30", "1e400", "inf", "-inf", "-1e30"] {
            assert_eq!(read(text), Err("ERR timeout is negative".into()), "{text}");
        }
        for text in ["", "x", "nan", "1 ", " 1", "1e5000"] {
            assert_eq!(read(text), Err("ERR timeout is not a float or out of range".into()), "{text}");
        }
        assert_eq!(milliseconds(b"7").ok(), Some(7));
        assert!(milliseconds(b"-7").is_err() && milliseconds(b"1.5").is_err());
    }
}
