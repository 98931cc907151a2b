//! Servers to talk to, and a plain client.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod beside;
pub mod certificates;
pub mod commands;
pub mod contents;
pub mod play;
pub mod shapes;

use sinter_server::command::configuration::Listening;
use sinter_server::command::{Server, find};
use sinter_server::keyspace::Keyspace;
use sinter_server::net::{Net, Stopper};
use sinter_storage::store::{MemoryStore, Store};
use sinterdb::settings::Settings;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A SinterDB server, in a thread of this process.
pub struct Served {
    pub address: SocketAddr,
    pub tls_address: Option<SocketAddr>,
    pub stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub fn start() -> Served {
        Self::with(Server::default(), Arc::new(MemoryStore::new()))
    }

    pub fn with(server: Server, store: Arc<dyn Store>) -> Served {
        Self::listen(&[false], server, store)
    }

    /// Starts a server with listeners for clients with TLS, or without, or both.
    pub fn listen(encrypted: &[bool], server: Server, store: Arc<dyn Store>) -> Served {
        let keyspace = Keyspace::open(store, &Settings::default(), 7).unwrap();
        let at = |is_encrypted: &bool| Listening { address: "127.0.0.1:0".parse().unwrap(), may_miss: false, is_encrypted: *is_encrypted };
        let net = Net::listen(&encrypted.iter().map(at).collect::<Vec<_>>(), keyspace, server).unwrap();
        let (address, tls_address, stopper) = (net.address().unwrap(), net.tls_address().unwrap(), net.stopper());
        let thread = std::thread::Builder::new().spawn(move || net.run().unwrap()).unwrap();
        Served { address, tls_address, stopper, thread: Some(thread) }
    }

    pub fn client(&self) -> Client {
        Client::new(self.address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
    }
}

/// A real Redis, as a process.
pub struct Real {
    address: SocketAddr,
    child: Child,
    /// Its directory, if no argument names another one: a server that copies a primary writes a file there, and reads it when it starts.
    _directory: tempfile::TempDir,
}

impl Real {
    /// Starts a server; `None`: there is none of the version whose replies this server has.
    pub fn start() -> Option<Real> {
        Self::with(&["--save", "", "--appendonly", "no"])
    }

    /// Starts a server with arguments beside its address; it has loaded its data on return.
    pub fn with(arguments: &[&str]) -> Option<Real> {
        let version = Command::new("redis-server").arg("--version").output().ok()?;
        if !String::from_utf8_lossy(&version.stdout).contains("v=7.0.") {
            return None;
        }
        // Between the look for a free port and Redis's start somebody else may take it, another test's server for one.
        let started = (0..5).find_map(|_| Self::at_a_free_port(arguments));
        Some(started.expect("redis-server does not listen"))
    }

    /// Starts a server once; `None`: it has ended.
    fn at_a_free_port(arguments: &[&str]) -> Option<Real> {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let child = Command::new("redis-server")
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"])
            .args(["--enable-debug-command", "yes", "--dir", directory.path().to_str().unwrap()])
            .args(arguments)
            // So that strings are sorted by their bytes.
            .env("LC_ALL", "C")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut real = Real { address, child, _directory: directory };
        // As in the displayed form of replies.
        let own = format!("process_id:{}\\r", real.child.id());
        for _ in 0..1500 {
            if real.child.try_wait().unwrap().is_some() {
                return None;
            }
            if TcpStream::connect(address).is_ok()
                && real.client().ask(&[b"PING"]) == Reply::One(b"+PONG".to_vec())
                && real.client().ask(&[b"INFO", b"server"]).to_string().contains(&own)
            {
                return Some(real);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("redis-server does not answer");
    }

    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A reply as it came.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reply {
    /// The bytes of a reply without members, without the end of the line.
    One(Vec<u8>),
    /// The mark and the members of an aggregate.
    Many(u8, Vec<Reply>),
}

impl std::fmt::Display for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reply::One(bytes) => write!(f, "{}", bytes.escape_ascii()),
            Reply::Many(mark, members) => {
                write!(f, "{}{}(", char::from(*mark), members.len())?;
                for member in members {
                    write!(f, "{member} ")?;
                }
                write!(f, ")")
            }
        }
    }
}

impl Reply {
    /// Sorts the members; pairs stay together.
    pub fn sorted(self, pairs: bool) -> Reply {
        match self {
            Reply::Many(mark, members) if pairs => {
                let mut pairs: Vec<Vec<Reply>> = members.chunks(2).map(<[Reply]>::to_vec).collect();
                pairs.sort();
                Reply::Many(mark, pairs.concat())
            }
            Reply::Many(mark, mut members) => {
                members.sort();
                Reply::Many(mark, members)
            }
            one => one,
        }
    }
}

/// Whether a command is newer than Redis 7.0.
pub fn is_newer(name: &[u8]) -> bool {
    let version = |since: &str| since.split('.').take(2).map(|part| part.parse().unwrap()).collect::<Vec<u32>>();
    find(name).is_some_and(|command| version(command.since) > [7, 0].to_vec())
}

/// A request.
pub fn encode(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    request
}

/// A client that sends requests and reads replies.
pub struct Client<S = TcpStream> {
    pub stream: BufReader<S>,
}

impl Client {
    pub fn new(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { stream: BufReader::new(stream) }
    }

    /// The client's writing end, for another thread.
    pub fn sender(&self) -> TcpStream {
        self.stream.get_ref().try_clone().unwrap()
    }

    /// Whether no bytes arrive for so long.
    pub fn is_silent(&mut self, time: Duration) -> bool {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(time)).unwrap();
        let is_silent = self.stream.buffer().is_empty() && self.stream.fill_buf().is_err();
        self.stream.get_ref().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        is_silent
    }
}

impl<S: Read + Write> Client<S> {
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    pub fn ask(&mut self, words: &[&[u8]]) -> Reply {
        self.send(&encode(words));
        self.reply().unwrap()
    }

    /// The next reply; `None`: the connection was closed.
    pub fn reply(&mut self) -> Option<Reply> {
        let mut line = Vec::new();
        if self.stream.read_until(b'\n', &mut line).is_err() || line.is_empty() {
            return None;
        }
        line.truncate(line.len() - 2);
        let length = || std::str::from_utf8(&line[1..]).unwrap().parse::<i64>().unwrap();
        match line[0] {
            b'$' | b'=' if length() >= 0 => {
                let mut bytes = vec![0; usize::try_from(length()).unwrap() + 2];
                self.stream.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Some(Reply::One([&line[..1], &bytes].concat()))
            }
            mark @ (b'*' | b'~' | b'>' | b'%') if length() >= 0 => {
                let members = length() * if mark == b'%' { 2 } else { 1 };
                (0..members).map(|_| self.reply()).collect::<Option<Vec<_>>>().map(|members| Reply::Many(mark, members))
            }
            _ => Some(Reply::One(line)),
        }
    }
}
