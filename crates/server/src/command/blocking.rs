//! Blocking requests: they wait for a key to change, for a sync, or for their timeout.
//!
//! A handler that finds nothing calls [`Session::block`] and writes no reply. From then on the client's further requests wait, and whenever
//! one of the keys has changed (or, without keys, a sync has ended) the blocked request is run again. A run that finds nothing changes
//! nothing and calls [`Session::block`] again, which keeps the client's place in the queue and its deadline. In a transaction no request
//! waits: the timeout is taken as over at once.

use super::acl::Request;
use super::arguments::wide;
use super::session::{call, refused};
use super::spec::Run;
use super::{Alone, Context, Ended, Failure, Outcome, Server, Session};
use crate::keyspace::{Keyspace, Kind};
use crate::number::parse_integer;
use crate::resp::Writer;

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
    number: usize,
    pub(super) request: Vec<Vec<u8>>,
    on_timeout: Run,
    /// The client wants no reply to the request.
    is_silent: bool,
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

/// Runs a blocked request again, because this key has changed, or (`None`) a sync has ended. Afterwards [`Session::is_waiting`] says
/// whether it is still blocked.
pub fn resume(keyspace: &mut Keyspace, server: &mut Server, session: &mut Session, key: Option<&[u8]>, out: &mut Vec<u8>) -> Ended {
    let Some(waiting) = session.waiting.take() else { return Ended::Open };
    let start = out.len();
    let arguments: Vec<&[u8]> = waiting.request.iter().map(Vec::as_slice).collect();
    let number = waiting.number;
    server.start_stopwatch();
    session.woken = key.map(<[u8]>::to_vec);
    session.is_resumed = true;
    let reply = Writer::new(out, session.protocol);
    let request = Request::new(number, &arguments);
    // The user's permissions can have changed since the wait began.
    let allowed = server.allow(keyspace, session, &request).map_err(|refused| refused.failure(request.unit));
    let mut context = Context { keyspace, server, session, late: &mut Alone, reply };
    let ended = match allowed {
        Ok(()) => call(&mut context, number, &arguments),
        Err(failure) => {
            refused(&mut context, &failure);
            Ended::Open
        }
    };
    session.woken = None;
    session.is_resumed = false;
    if session.asks.take().is_some() {
        out.truncate(start);
        session.waiting = Some(waiting);
        return ended;
    }
    keyspace.unwait(session.id);
    session.end_caching();
    if waiting.is_silent {
        out.truncate(start);
    }
    ended
}

/// Ends a wait without a result, and writes the reply for it.
pub fn give_up(keyspace: &mut Keyspace, server: &mut Server, session: &mut Session, reason: Reason, out: &mut Vec<u8>) {
    let Some(waiting) = session.waiting.take() else { return };
    keyspace.unwait(session.id);
    session.end_caching();
    let start = out.len();
    let arguments: Vec<&[u8]> = waiting.request.iter().map(Vec::as_slice).collect();
    let reply = Writer::new(out, session.protocol);
    let mut context = Context { keyspace, server, session, late: &mut Alone, reply };
    let outcome = match reason {
        Reason::Timeout => (waiting.on_timeout)(&mut context, &arguments),
        Reason::Error => Err(Failure::fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK")),
        Reason::Demoted => {
            context.session.closes = true;
            Err(Failure::fixed("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"))
        }
    };
    if let Err(failure) = outcome {
        context.reply.truncate(start);
        context.reply.error(&failure.text());
    }
    if waiting.is_silent {
        out.truncate(start);
    }
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
    use super::super::{execute, units};
    use super::*;
    use crate::testing::fresh;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    fn text(out: &[u8]) -> String {
        String::from_utf8_lossy(out).replace("\r\n", "|")
    }

    fn say(keyspace: &mut Keyspace, server: &mut Server, session: &mut Session, line: &str) -> String {
        let words = words(line);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let mut out = Vec::new();
        execute(keyspace, server, session, &words, &mut out);
        text(&out)
    }

    #[test]
    fn a_request_is_run_again_until_it_finds_something() {
        let (mut keyspace, mut server) = (fresh(), Server::default());
        let (mut waiting, mut other) = (Session::new(1, &server), Session::new(2, &server));
        assert_eq!(say(&mut keyspace, &mut server, &mut waiting, "BLPOP a b 1.5"), "");
        assert!(waiting.is_waiting());
        assert_eq!((keyspace.waiting(), keyspace.next_deadline()), (1, Some(keyspace.now() + 1500)));
        let mut out = b"before ".to_vec();
        keyspace.set_now(keyspace.now() + 1000);
        resume(&mut keyspace, &mut server, &mut waiting, Some(b"a"), &mut out);
        // The place in the queue and the deadline are unchanged.
        assert!(waiting.is_waiting());
        assert_eq!((text(&out), keyspace.next_deadline()), ("before ".into(), Some(keyspace.now() + 500)));
        assert_eq!(say(&mut keyspace, &mut server, &mut other, "RPUSH b x"), ":1|");
        assert_eq!(keyspace.next_ready(), Some((0, b"b".to_vec())));
        resume(&mut keyspace, &mut server, &mut waiting, Some(b"b"), &mut out);
        assert_eq!(text(&out), "before *2|$1|b|$1|x|");
        assert_eq!((waiting.is_waiting(), waiting.woken_by(), keyspace.waiting()), (false, None, 0));
    }

    #[test]
    fn a_request_under_another_name_is_run_again() {
        let (mut keyspace, mut server) = (fresh(), Server::default());
        // The first command has the other one's name.
        for (old, new) in [(&b"BRPOP"[..], &b""[..]), (b"BLPOP", b"BRPOP"), (b"XREAD", b"readon"), (b"WAIT", b"linger")] {
            server.configuration.renames.rename(old, new).unwrap();
        }
        let (mut waiting, mut other) = (Session::new(1, &server), Session::new(2, &server));
        for (request, change, key, reply) in [
            ("BRPOP l 0", "RPUSH l a b", b"l", "*2|$1|l|$1|a|"),
            ("readon BLOCK 0 STREAMS s $", "XADD s 1-1 f v", b"s", "*1|*2|$1|s|*1|*2|$3|1-1|*2|$1|f|$1|v|"),
        ] {
            assert_eq!(say(&mut keyspace, &mut server, &mut waiting, request), "");
            say(&mut keyspace, &mut server, &mut other, change);
            let mut out = Vec::new();
            resume(&mut keyspace, &mut server, &mut waiting, Some(key), &mut out);
            assert_eq!((text(&out).as_str(), waiting.is_waiting(), keyspace.waiting()), (reply, false, 0), "{request}");
        }
        // Without replicas the wait goes on.
        assert_eq!(say(&mut keyspace, &mut server, &mut waiting, "linger 1 0"), "");
        resume(&mut keyspace, &mut server, &mut waiting, None, &mut Vec::new());
        assert_eq!((waiting.is_waiting(), keyspace.waiting()), (true, 1));
    }

    #[test]
    fn who_waits_for_any_change_learns_that_a_key_is_gone() {
        let (mut keyspace, mut server) = (fresh(), Server::default());
        let (mut waiting, mut other) = (Session::new(1, &server), Session::new(2, &server));
        say(&mut keyspace, &mut server, &mut other, "SET k v");
        let request = words("EXISTS k");
        waiting.block(Wait { keys: vec![b"k".to_vec()], holding: None, timeout_ms: 0, request, on_timeout: null_array });
        begin(&mut keyspace, &mut waiting, units::find(b"exists").unwrap(), false);
        say(&mut keyspace, &mut server, &mut other, "FLUSHALL");
        assert_eq!(keyspace.next_ready(), Some((0, b"k".to_vec())));
        assert_eq!(keyspace.next_waiter(0, b"k", 0).unwrap().map(|found| found.1), Some(1));
        let mut out = Vec::new();
        resume(&mut keyspace, &mut server, &mut waiting, Some(b"k"), &mut out);
        assert_eq!(text(&out), ":0|");
    }

    #[test]
    fn a_wait_that_is_given_up_has_its_reply() {
        let (mut keyspace, mut server) = (fresh(), Server::default());
        let mut session = Session::new(1, &server);
        for (reason, reply) in [(Reason::Timeout, "*-1|"), (Reason::Error, "-UNBLOCKED client unblocked via CLIENT UNBLOCK|")] {
            say(&mut keyspace, &mut server, &mut session, "BZPOPMIN a 0");
            let mut out = Vec::new();
            give_up(&mut keyspace, &mut server, &mut session, reason, &mut out);
            assert_eq!((text(&out).as_str(), session.is_waiting(), keyspace.waiting()), (reply, false, 0));
        }
        say(&mut keyspace, &mut server, &mut session, "CLIENT REPLY SKIP");
        say(&mut keyspace, &mut server, &mut session, "BZPOPMIN a 0");
        let mut out = Vec::new();
        give_up(&mut keyspace, &mut server, &mut session, Reason::Timeout, &mut out);
        assert_eq!(text(&out), "");
    }

    #[test]
    fn who_may_not_do_it_any_more_gets_nothing_for_waiting() {
        let (mut keyspace, mut server) = (fresh(), Server::default());
        let (mut admin, mut waiting) = (Session::new(1, &server), Session::new(2, &server));
        say(&mut keyspace, &mut server, &mut admin, "ACL SETUSER alice on nopass ~* +@all");
        for (request, rule, what, why) in [
            ("BLPOP a 0", "-blpop", "RPUSH a x", "-NOPERM this user has no permissions to run the 'blpop' command|"),
            (
                "BLMOVE a b LEFT LEFT 0",
                "resetkeys ~a",
                "RPUSH a x",
                "-NOPERM this user has no permissions to access one of the keys used as arguments|",
            ),
        ] {
            assert_eq!(say(&mut keyspace, &mut server, &mut waiting, "AUTH alice x"), "+OK|");
            assert_eq!(say(&mut keyspace, &mut server, &mut waiting, request), "");
            say(&mut keyspace, &mut server, &mut admin, &format!("ACL SETUSER alice {rule}"));
            say(&mut keyspace, &mut server, &mut admin, what);
            let mut out = Vec::new();
            resume(&mut keyspace, &mut server, &mut waiting, Some(b"a"), &mut out);
            assert_eq!((text(&out).as_str(), waiting.is_waiting(), keyspace.waiting()), (why, false, 0), "{request}");
            assert_eq!(say(&mut keyspace, &mut server, &mut admin, "LRANGE a 0 -1"), "*1|$1|x|", "{request}");
            say(&mut keyspace, &mut server, &mut admin, "DEL a");
        }
    }

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
