//! The server as a script sees it.

/// Version of the Redis protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2.
    Resp2,
    /// RESP3.
    Resp3,
}

/// Whether a script goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The script goes on.
    Continue,
    /// The script ends with an error that it cannot catch.
    Kill,
}

/// The server behind a script: runs its commands and decides how long it may run.
pub trait Host {
    /// Runs a command and appends its reply to `reply`, encoded in `protocol`. A command that is refused has an error reply.
    fn call(&mut self, arguments: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>);

    /// Whether the user of the script may run a command; `None` if there is no such command.
    fn may_call(&mut self, arguments: &[&[u8]]) -> Option<bool>;

    /// Writes a line to the log, at level 0 (debug) to 3 (warning).
    fn log(&mut self, level: u8, line: &[u8]);

    /// Sets where later writes of the script are copied to: bit 0 the append log, bit 1 replicas (`redis.set_repl`).
    fn set_replication(&mut self, targets: u8);

    /// Decides whether the script goes on. Called every 100,000 instructions of Lua, and as often in long native loops.
    fn interrupt(&mut self) -> Verdict;

    /// Processor time in seconds, for `os.clock`.
    fn clock(&mut self) -> f64;

    /// Counts an error that a script returns as its reply, unless a command has counted it. A [`Failure`] is not counted here.
    fn count_error(&mut self, message: &[u8]);
}

/// Failure of a script or of the loading of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Text of the error reply, with its code and without the `-`.
    pub message: Vec<u8>,
    /// Whether the failed command has counted the error. If not, the sender of the reply counts it.
    pub counted: bool,
}

impl Failure {
    /// Failure with an error that is not counted yet.
    pub(crate) fn new(message: impl Into<Vec<u8>>) -> Failure {
        Failure { message: message.into(), counted: false }
    }
}
