//! Requests that wait for a key to change.
//!
//! A handler that finds nothing calls [`Session::block`] and writes no reply. Whenever one of the keys has changed the same request is run
//! again; a run that finds nothing changes nothing and calls [`Session::block`] again. In a transaction nothing waits: it is as if the time
//! were over at once.

use super::table::Run;
use super::{Context, Failure, Outcome, Session};
use crate::keyspace::Kind;
use crate::number::parse_integer;

/// What a request waits for.
#[derive(Debug)]
pub struct Wait {
    /// A change of any of them runs the request again.
    pub keys: Vec<Vec<u8>>,
    /// Only while the key holds this; `None`: whatever it holds, and also when it is gone.
    pub holding: Option<Kind>,
    /// Milliseconds from now; 0: for ever.
    pub timeout_ms: u64,
    /// What is run again.
    pub request: Vec<Vec<u8>>,
    /// Writes the reply if the time is over. It gets the request's arguments.
    pub on_timeout: Run,
}

impl Session {
    /// The request waits. The caller has written no reply and changed nothing.
    pub fn block(&mut self, wait: Wait) {
        self.asks = Some(wait);
    }

    /// The key whose change has led to this run of a request that waits.
    pub fn woken_by(&self) -> Option<&[u8]> {
        self.woken.as_deref()
    }
}

/// In a transaction: the reply of a command that has asked to wait.
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

/// A request, to be kept.
pub(super) fn kept(arguments: &[&[u8]]) -> Vec<Vec<u8>> {
    arguments.iter().map(|argument| argument.to_vec()).collect()
}

/// A timeout in milliseconds.
pub(super) fn milliseconds(text: &[u8]) -> Result<u64, Failure> {
    let ms = parse_integer(text).ok_or(Failure::fixed("ERR timeout is not an integer or out of range"))?;
    u64::try_from(ms).map_err(|_| Failure::fixed("ERR timeout is negative"))
}
