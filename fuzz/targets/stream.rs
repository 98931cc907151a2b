//! Bytes that a replica reads of its primary: as the reply to its request, and as the stream, they give a reply, a request or an error.
//! Requests of a stream run without waiting, and whatever they are, they do not take the place of an administrator.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sinter_server::command::{Ended, Server, Session, execute, find};
use sinter_server::keyspace::{DATABASES, Keyspace};
use sinter_server::replication::parse;
use sinter_server::resp::{Limits, Parser};
use sinter_storage::store::MemoryStore;
use sinterdb::settings::{DbSettings, Settings};
use sinterdb_fuzz::seed;
use std::cell::RefCell;
use std::sync::Arc;

/// Digits of a number from which on a request may take much memory.
const DIGITS_MAX: usize = 5;

thread_local! {
    /// Nothing is ever committed to it.
    static KEYSPACE: RefCell<Keyspace> = RefCell::new(keyspace());
}

fn keyspace() -> Keyspace {
    let settings = Settings { db: DbSettings { max_background_jobs: 0, ..DbSettings::default() }, ..Settings::default() };
    Keyspace::open(Arc::new(MemoryStore::new()), &settings, 1).expect("an empty store can be opened")
}

/// Whether a request runs no script, which may take for ever, and has no large number.
fn is_small(arguments: &[&[u8]]) -> bool {
    let digits = |argument: &[u8]| argument.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_large = |argument: &&[u8]| digits(argument) > DIGITS_MAX;
    let runs_scripts = arguments.first().and_then(|name| find(name)).is_some_and(|command| command.runs_scripts());
    !runs_scripts && !arguments.iter().any(is_large)
}

fn stream(keyspace: &mut Keyspace, bytes: &[u8]) {
    let mut server = Server::default();
    let mut session = Session::new(2, &server);
    session.is_primary = true;
    let mut parser = Parser::new(Limits { bulk_max: 1 << 20, ..Limits::default() });
    let mut rest = bytes;
    while let Ok(Some(used)) = parser.feed(rest) {
        let arguments: Vec<&[u8]> = parser.arguments(rest).collect();
        if !arguments.is_empty() && is_small(&arguments) {
            let mut reply = Vec::new();
            let ended = execute(keyspace, &mut server, &mut session, &arguments, &mut reply);
            assert!(!session.is_waiting() && !server.is_ending, "{arguments:?}");
            assert!(session.db < DATABASES && ended != Ended::EngineFailed, "{arguments:?}");
        }
        parser.next_request();
        rest = &rest[used..];
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let replies: [&[u8]; 5] = [
        b"+FULLRESYNC 0123456789abcdef0123456789abcdef01234567 17",
        b"+CONTINUE 0123456789abcdef0123456789abcdef01234567",
        b"+CONTINUE",
        b"$EOF:0123456789abcdef0123456789abcdef01234567",
        b"$100",
    ];
    let streams: [&[u8]; 4] = [
        b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*5\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n$4\r\nPXAT\r\n$4\r\n1000\r\n*1\r\n$4\r\nPING\r\n",
        b"*1\r\n$5\r\nMULTI\r\n*3\r\n$5\r\nRPUSH\r\n$1\r\nl\r\n$1\r\nx\r\n*1\r\n$4\r\nEXEC\r\n",
        b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n*1\r\n$8\r\nSHUTDOWN\r\n",
        b"*3\r\n$5\r\nBLPOP\r\n$4\r\nnone\r\n$1\r\n0\r\n",
    ];
    let of = |mode: u8, all: &[&[u8]]| all.iter().map(|bytes| [&[mode], *bytes].concat()).collect::<Vec<_>>();
    [of(0, &replies), of(1, &streams)].concat()
}

fuzz_target!(init: seed(seeds), |data: &[u8]| {
    match data.split_first() {
        None => {}
        Some((mode, line)) if mode % 2 == 0 => parse(line),
        Some((_, bytes)) => KEYSPACE.with_borrow_mut(|keyspace| {
            stream(keyspace, bytes);
            keyspace.discard();
        }),
    }
});
