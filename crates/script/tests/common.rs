//! A host that is a map of keys, and a machine around it.

use sinter_script::{Digest, Failure, Host, Machine, Protocol, Settings, Verdict};
use std::collections::BTreeMap;

/// A host that knows GET, SET and a few commands with replies of all types.
#[derive(Default)]
pub struct Map {
    pub keys: BTreeMap<Vec<u8>, Vec<u8>>,
    pub log: Vec<(u8, Vec<u8>)>,
    pub errors: Vec<Vec<u8>>,
    pub replication: Option<u8>,
    /// Looks after which the script is killed.
    pub patience: Option<u32>,
}

impl Host for Map {
    fn call(&mut self, arguments: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>) {
        let bulk = |text: &[u8]| [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat();
        match arguments {
            [b"get", key] => match self.keys.get(*key) {
                Some(value) => reply.extend(bulk(value)),
                None => reply.extend_from_slice(if protocol == Protocol::Resp3 { b"_\r\n" } else { b"$-1\r\n" }),
            },
            [b"set", key, value] => {
                self.keys.insert(key.to_vec(), value.to_vec());
                reply.extend_from_slice(b"+OK\r\n");
            }
            [b"echo", text] => reply.extend(bulk(text)),
            [b"raw", text] => reply.extend_from_slice(text),
            [b"panic"] => panic!("the host panics"),
            [b"get", ..] => reply.extend_from_slice(b"-ERR Wrong number of args calling Redis command from script\r\n"),
            _ => reply.extend_from_slice(b"-ERR Unknown Redis command called from script\r\n"),
        }
    }

    fn may_call(&mut self, arguments: &[&[u8]]) -> Option<bool> {
        match arguments[0] {
            b"get" => Some(true),
            b"set" => Some(false),
            _ => None,
        }
    }

    fn log(&mut self, level: u8, line: &[u8]) {
        self.log.push((level, line.to_vec()));
    }

    fn set_replication(&mut self, targets: u8) {
        self.replication = Some(targets);
    }

    fn interrupt(&mut self) -> Verdict {
        match &mut self.patience {
            Some(0) => Verdict::Kill,
            Some(looks) => {
                *looks -= 1;
                Verdict::Continue
            }
            None => Verdict::Continue,
        }
    }

    fn clock(&mut self) -> f64 {
        1.5
    }

    fn count_error(&mut self, message: &[u8]) {
        self.errors.push(message.to_vec());
    }
}

/// A machine and its host.
pub struct Server {
    pub machine: Machine,
    pub map: Map,
    pub client: Protocol,
}

impl Server {
    pub fn new() -> Server {
        Server::with(64 << 20)
    }

    pub fn with(memory_max: usize) -> Server {
        let machine = Machine::new(Settings { memory_max, ..Settings::default() });
        Server { machine, map: Map::default(), client: Protocol::Resp2 }
    }

    pub fn eval_with(&mut self, code: &[u8], keys: &[&[u8]], arguments: &[&[u8]]) -> Result<Vec<u8>, Failure> {
        let digest = self.machine.load_script(code)?;
        let mut out = Vec::new();
        let ran = self.machine.eval(&digest, keys, arguments, &mut self.map, self.client, &mut out);
        ran.expect("the script was just loaded").map(|()| out)
    }

    /// Encoded reply of a script; an error reply if it fails.
    pub fn eval(&mut self, code: &str) -> String {
        let reply = self.eval_with(code.as_bytes(), &[], &[]);
        let reply = reply.unwrap_or_else(|failure| [b"-", &failure.message[..], b"\r\n"].concat());
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// Text of a script's result, a string, or of its failure.
    pub fn text(&mut self, code: &str) -> String {
        let digest = Digest::of(code.as_bytes());
        let reply = self.eval(code).replace(&String::from_utf8_lossy(digest.bytes()).into_owned(), "SHA");
        match reply.strip_prefix('$') {
            Some(bulk) => bulk.split_once("\r\n").map_or("", |(_, text)| text).trim_end_matches("\r\n").to_owned(),
            None => reply.trim_end_matches("\r\n").to_owned(),
        }
    }
}
