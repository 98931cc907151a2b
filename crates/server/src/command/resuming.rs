//! Requests that go on: blocked ones, which are run again or given up, and those that are worked on in steps.

use super::acl::Request;
use super::blocking::Reason;
use super::session::{call, check_writes};
use super::spec::WRITE;
use super::{Alone, Context, Ended, Failure, Server, Session, steps};
use crate::keyspace::{self, Keyspace};
use crate::resp::Writer;

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
    let request = Request::new(server.units, number, &arguments);
    // The user's permissions can have changed since the wait began.
    let allowed = server.allow(keyspace, session, &request).map_err(|refused| refused.failure(request.unit));
    let mut context = Context { keyspace, server, session, late: &mut Alone, reply };
    let ended = match allowed {
        Ok(()) => call(&mut context, number, &arguments),
        Err(failure) => {
            context.refuse(&failure);
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
        context.refuse(&failure);
        // As in Redis, an error counts as an end of the call, and a timeout does not.
        let tracks = context.server.configuration.latency_tracking;
        context.server.records.usage.ended(waiting.number, 0, true, tracks);
    }
    if waiting.is_silent {
        out.truncate(start);
    }
}

/// Works on the session's request in steps until the server's clock reaches `until`, nanoseconds; runs the request again when the task is
/// done.
pub fn work(keyspace: &mut Keyspace, server: &mut Server, session: &mut Session, until: u64, out: &mut Vec<u8>) -> Ended {
    match steps::advance(keyspace, server, session, until) {
        Ok(false) => Ended::Open,
        Ok(true) => run_again(keyspace, server, session, None, out),
        Err(error) => run_again(keyspace, server, session, Some(error), out),
    }
}

/// Runs a request again whose task is done or has failed.
fn run_again(
    keyspace: &mut Keyspace,
    server: &mut Server,
    session: &mut Session,
    failed: Option<keyspace::Error>,
    out: &mut Vec<u8>,
) -> Ended {
    let Some(steps) = &mut session.steps else { return Ended::Open };
    let (number, is_silent, start) = (steps.number, steps.is_silent, out.len());
    let request = std::mem::take(&mut steps.request);
    let arguments: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
    server.start_stopwatch();
    session.is_resumed = true;
    let reply = Writer::new(out, session.protocol);
    let about = Request::new(server.units, number, &arguments);
    let allowed = match failed {
        Some(error) => Err(Failure::from(error)),
        // The user's permissions can have changed since the work began.
        None => server.allow(keyspace, session, &about).map_err(|refused| refused.failure(about.unit)),
    };
    let writes = about.unit.flags & WRITE != 0;
    let allowed = allowed.and_then(|()| if writes { check_writes(server) } else { Ok(()) });
    // The server can have become a replica since.
    let allowed = allowed.and_then(|()| server.check_replica(session, writes));
    let mut context = Context { keyspace, server, session, late: &mut Alone, reply };
    let ended = match allowed {
        Ok(()) => call(&mut context, number, &arguments),
        Err(failure) => {
            context.refuse(&failure);
            if failure.is_engine() { Ended::EngineFailed } else { Ended::Open }
        }
    };
    session.is_resumed = false;
    if is_silent {
        out.truncate(start);
    }
    if !session.is_in_steps() {
        steps::end(keyspace, server, session);
        session.end_caching();
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::super::blocking::null_array;
    use super::super::{Wait, blocking, execute};
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
        blocking::begin(&mut keyspace, &mut waiting, server.units.find(b"exists").unwrap(), false);
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

    /// Like in Redis 7.0, a call is counted when its wait begins, and so counts as one however the wait ends.
    #[test]
    fn a_blocked_request_is_one_call() {
        let (mut keyspace, mut server) = (fresh(), Server::default());
        let mut other = Session::new(2, &server);
        say(&mut keyspace, &mut server, &mut other, "XGROUP CREATE s g $ MKSTREAM");
        for line in [
            "BLPOP k 1",
            "BRPOP k 1",
            "BLMOVE k to LEFT LEFT 1",
            "BRPOPLPUSH k to 1",
            "BLMPOP 1 1 k LEFT",
            "BZPOPMIN z 1",
            "BZPOPMAX z 1",
            "BZMPOP 1 1 z MIN",
            "XREAD BLOCK 1 STREAMS s $",
            "XREADGROUP GROUP g c BLOCK 1 STREAMS s >",
        ] {
            let name = line.split(' ').next().unwrap().to_ascii_lowercase();
            let mut calls = |keyspace: &mut Keyspace, server: &mut Server| {
                let info = say(keyspace, server, &mut other, "INFO commandstats");
                let start = format!("cmdstat_{name}:calls=");
                let found = info.split('|').find_map(|line| line.strip_prefix(&start)?.split(',').next()).map(str::to_owned);
                found.map_or(0, |calls| calls.parse::<u64>().unwrap())
            };
            let mut waiting = Session::new(1, &server);
            for (count, reason) in [(1, Reason::Timeout), (2, Reason::Error)] {
                assert_eq!(say(&mut keyspace, &mut server, &mut waiting, line), "");
                assert_eq!(calls(&mut keyspace, &mut server), count, "{line}");
                // A run that finds nothing is no other call.
                resume(&mut keyspace, &mut server, &mut waiting, None, &mut Vec::new());
                give_up(&mut keyspace, &mut server, &mut waiting, reason, &mut Vec::new());
                assert_eq!((calls(&mut keyspace, &mut server), waiting.is_waiting()), (count, false), "{line}");
            }
        }
        let mut waiting = Session::new(1, &server);
        say(&mut keyspace, &mut server, &mut waiting, "BLPOP k 1");
        say(&mut keyspace, &mut server, &mut other, "RPUSH k x");
        resume(&mut keyspace, &mut server, &mut waiting, Some(b"k"), &mut Vec::new());
        let info = say(&mut keyspace, &mut server, &mut other, "INFO everything");
        let blpop = info.split('|').find(|line| line.starts_with("cmdstat_blpop:calls=3,"));
        assert!(!waiting.is_waiting() && blpop.is_some_and(|line| line.ends_with("failed_calls=1")), "{info}");
        assert!(info.contains("errorstat_UNBLOCKED:count=10|") && info.contains("total_error_replies:10|"), "{info}");
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
}
