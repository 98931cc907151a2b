//! Requests of a primary that fail here: they are counted and logged, also inside transactions.

use super::{False, ID, ask, file, linked, of};
use crate::common::{Served, encode};
use crate::replication::{field, until};
use sinter_server::command::{Configuration, Server};
use sinter_server::log::{Level, Log};
use sinter_storage::store::MemoryStore;
use std::io::Write;
use std::sync::{Arc, Mutex};

/// Text that a server has logged.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Logged {
    /// Lines about an event.
    fn about(&self, event: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(&format!(" event={event} "))).map(str::to_owned).collect()
    }
}

#[test]
fn failures_inside_transactions_are_logged() {
    let (primary, logged) = (False::new(), Logged::default());
    let mut configuration = Configuration::default();
    configuration.set("replicaof", &of(primary.0.local_addr().unwrap())).unwrap();
    let log = Log::new(Box::new(logged.clone()), None, Level::Notice);
    let served = Served::with(Server { configuration, log, ..Server::default() }, Arc::new(MemoryStore::new()));
    let data = [format!("+FULLRESYNC {ID} 100\r\n$EOF:{ID}\r\n").as_bytes(), &file(), ID.as_bytes()].concat();
    let (mut stream, _) = primary.serve(&data);
    let mut client = served.client();
    linked(&mut client);
    let transaction = |lines: &[&[&str]]| {
        let all: [&[&[&str]]; 3] = [&[&["MULTI"]], lines, &[&["EXEC"]]];
        all.concat().into_iter().flat_map(encode).collect::<Vec<u8>>()
    };
    let mut all = transaction(&[&["SET", "a", "1"], &["LPUSH", "a", "1"], &["SET", "b", "1"]]);
    all.extend(transaction(&[&["SET", "c", "1"], &["NOSUCH", "x"], &["SET", "d", "1"]]));
    stream.write_all(&all).unwrap();
    until("all of it is applied", || field(&mut client, "slave_repl_offset") == (100 + all.len()).to_string());
    assert_eq!(ask(&mut client, "EXISTS a b c d"), ":2");
    assert_eq!(field(&mut client, "unexpected_error_replies"), "3");
    let (failed, skipped) = (logged.about("primary_request_failed"), logged.about("primary_transaction_skipped"));
    assert!(failed.len() == 1 && failed[0].contains(" command=lpush why=\"WRONGTYPE "), "{failed:?}");
    assert!(skipped.len() == 1 && skipped[0].contains(" command=NOSUCH why=\"ERR unknown command "), "{skipped:?}");
}
