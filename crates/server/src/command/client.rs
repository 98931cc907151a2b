//! Properties of a connection that other clients can ask for.

use super::hub::Topic;
use super::{Server, Session};
use crate::keyspace::Keyspace;
use crate::resp::Protocol;

/// Size of the blocks in which Redis keeps replies, bytes.
const REPLY_BLOCK: usize = 16 << 10;

/// Buffers of a connection, bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Buffers {
    /// Received requests that are not yet handled.
    pub input: usize,
    /// Memory for received requests.
    pub input_memory: usize,
    /// Replies that are not yet sent.
    pub output: usize,
    /// Memory for unsent replies.
    pub output_memory: usize,
    /// Queued commands of an open transaction.
    pub queued: usize,
}

impl Buffers {
    /// Memory of all buffers together.
    pub fn held(&self) -> usize {
        self.input_memory + self.output_memory + self.queued
    }
}

/// Properties of a connection that other clients can ask for.
#[derive(Debug, Clone, Default)]
pub struct Client {
    /// The session's number.
    pub id: u64,
    /// Address of the client.
    pub address: String,
    /// Address of the server that the client connected to.
    pub local_address: String,
    /// File descriptor of the connection.
    pub descriptor: i32,
    /// When the client connected, unix milliseconds.
    pub since: u64,
    /// When the client last sent something, unix milliseconds.
    pub active: u64,
    /// Bytes buffered for the client.
    pub buffers: Buffers,
    /// The client uses the Unix socket.
    pub is_unix: bool,
    /// The client is on the server's machine.
    pub is_local: bool,
    /// A request of the client waits until a pause is over.
    pub is_postponed: bool,
    /// The number of the client's user.
    pub(super) user: u64,
    pub(super) user_name: Vec<u8>,
    pub(super) name: Vec<u8>,
    pub(super) library: [Vec<u8>; 2],
    pub(super) db: usize,
    command: (&'static str, &'static str),
    /// RESP version: 2 or 3.
    protocol: u8,
    is_waiting: bool,
    closes: bool,
    stays: bool,
    leaves_no_trace: bool,
    /// Number of queued commands of an open transaction.
    queued: Option<usize>,
}

/// A command and its subcommand, if it has one, as logs and lists show them: `xinfo|help`.
pub fn request_name((command, subcommand): (&str, &str)) -> String {
    if subcommand.is_empty() { command.to_owned() } else { format!("{command}|{subcommand}") }
}

impl Client {
    /// A client that has just connected.
    pub fn new(id: u64, address: String, local_address: String, descriptor: i32, now: u64) -> Self {
        Client { id, address, local_address, descriptor, since: now, active: now, ..Client::default() }
    }

    /// Copies the state of a session that other clients can ask for.
    pub(super) fn update(&mut self, session: &Session, active: u64) {
        self.id = session.id;
        self.active = active;
        self.db = session.db;
        self.command = (session.last_command, session.last_subcommand);
        self.protocol = if session.protocol == Protocol::Resp3 { 3 } else { 2 };
        self.is_waiting = session.is_waiting();
        self.closes = session.closes;
        self.stays = session.stays;
        self.leaves_no_trace = session.leaves_no_trace;
        self.queued = session.multi.as_ref().map(|multi| multi.commands.len());
        if self.name != session.name {
            self.name.clone_from(&session.name);
        }
        if self.library != session.library {
            self.library.clone_from(&session.library);
        }
    }

    fn flags(&self, keyspace: &Keyspace, server: &Server) -> String {
        let hub = &server.hub;
        let [tracks, is_broken, broadcasts] = server.tracking.flags(self.id);
        let all = [
            ('S', server.replicas.has(self.id)),
            ('M', server.upstream.session() == Some(self.id)),
            ('O', hub.is_monitor(self.id)),
            ('P', hub.is_listening(self.id)),
            ('x', self.queued.is_some()),
            ('b', self.is_waiting || self.is_postponed),
            ('t', tracks),
            ('R', is_broken),
            ('B', broadcasts),
            ('d', keyspace.was_disturbed(self.id)),
            ('c', self.closes),
            ('U', self.is_unix),
            ('e', self.stays),
            ('T', self.leaves_no_trace),
        ];
        let set: String = all.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| *flag).collect();
        if set.is_empty() { "N".into() } else { set }
    }

    /// The line of `CLIENT LIST`.
    pub(super) fn line(&self, keyspace: &Keyspace, server: &Server) -> String {
        let seconds = |since: u64| keyspace.now().saturating_sub(since) / 1000;
        let count = |topic| server.hub.count(self.id, topic);
        let Buffers { input, input_memory, output, output_memory, queued } = self.buffers;
        // Redis has replies beyond a first block in a list of more blocks, and tools take that list for the sign of a slow client.
        let first = output_memory.min(REPLY_BLOCK);
        let more = output_memory - first;
        let blocks = more.div_ceil(REPLY_BLOCK);
        let command = Some(request_name(self.command)).filter(|name| !name.is_empty()).unwrap_or_else(|| "NULL".into());
        format!(
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} qbuf={input} \
             qbuf-free={} argv-mem=0 multi-mem={queued} rbs={first} rbp={first} obl={} oll={blocks} omem={more} \
             tot-mem={} events={} cmd={command} user={} redir={} resp={} lib-name={} \
             lib-ver={}\n",
            self.id,
            self.address,
            self.local_address,
            self.descriptor,
            String::from_utf8_lossy(&self.name),
            seconds(self.since),
            seconds(self.active),
            self.flags(keyspace, server),
            self.db,
            count(Topic::Channel),
            count(Topic::Pattern),
            count(Topic::Shard),
            self.queued.map_or(-1, |queued| i64::try_from(queued).unwrap_or(i64::MAX)),
            input_memory.saturating_sub(input),
            output.min(REPLY_BLOCK),
            self.buffers.held(),
            if output > 0 { "rw" } else { "r" },
            String::from_utf8_lossy(&self.user_name),
            server.tracking.redirect(self.id),
            self.protocol,
            String::from_utf8_lossy(&self.library[0]),
            String::from_utf8_lossy(&self.library[1]),
        )
    }
}
