//! The client: one thread, which sends requests to a server over many connections and counts the replies. It is meant to be lighter than
//! any server: requests are bytes in one buffer per connection, replies are parsed only as far as it takes to find their ends, and nothing
//! is allocated once the buffers have grown.
//!
//! A connection sends as many requests at once as the pipeline is deep, and the next ones when all of their replies are there. The latency
//! of each counts from the moment at which the first of them was sent, as redis-benchmark counts it.

use super::commands::{Words, Writer};
use super::replies::{Replies, Reply};
use crate::drive::gauge::{Done, Gauge};
use crate::drive::requests::{Key, Length, Plan, Requests};
use crate::run::{Command, Effect};
use crate::system::Outcome;
use crate::workload::ValuePool;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Registry, Token};
use nix::sys::resource::{UsageWho, getrusage};
use sinterdb::clock::{Clock, SystemClock};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval between checks of the stop flag when no reply comes.
const LOOK: Duration = Duration::from_millis(100);
const EVENTS: usize = 1024;
/// Bytes per read.
const READ: usize = 256 << 10;

/// A client of a server: connections, requests and their limits.
pub(super) struct Client<'a> {
    pub address: SocketAddr,
    pub connections: usize,
    pub pipeline: usize,
    pub plan: &'a Plan,
    pub key_size: usize,
    pub pool: &'a ValuePool,
    pub gauge: &'a Gauge,
    pub clock: &'a SystemClock,
    pub stop: &'a AtomicBool,
    /// Checks without a reply after which the client gives up ([`LOOKS`](super::line::LOOKS)).
    pub looks: u32,
}

/// End of the warm-up and CPU time of a client that ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ran {
    /// End of the warm-up, on the clock.
    pub warm_ns: u64,
    /// CPU time of the client's thread after the warm-up, seconds.
    pub cpu_seconds: f64,
}

impl Client<'_> {
    /// Makes all requests and reads their replies, unless `stop` is raised.
    ///
    /// # Errors
    /// A server that cannot be reached, closes the connection, does not answer, or answers with an error.
    pub fn run(&self) -> Outcome<Ran> {
        let mut poll = Poll::new()?;
        let open = |token| Connection::open(self.address, token, poll.registry());
        let mut connections = (0..self.connections).map(open).collect::<Outcome<Vec<_>>>()?;
        let (mut events, mut buffer) = (Events::with_capacity(EVENTS), vec![0; READ]);
        let mut cpu_before = cpu_seconds()?;
        let Length { seconds, warm_up, .. } = self.plan.length;
        let mut warming = warm_up > 0.0;
        let start_ns = self.clock.monotonic_ns();
        let after = |seconds: f64| start_ns.saturating_add((seconds * 1e9) as u64);
        let (warm_ns, end_ns) = (after(warm_up), after(seconds));
        let mut asker = Asker::new(self, warm_ns, end_ns)?;
        let mut busy = 0;
        for connection in &mut connections {
            busy += usize::from(connection.begin(&mut asker, start_ns)?);
        }
        let (mut last_ns, mut in_vain) = (start_ns, 0);
        while busy > 0 && !self.stop.load(Ordering::Relaxed) {
            match poll.poll(&mut events, Some(LOOK)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            in_vain = if events.is_empty() { in_vain + 1 } else { 0 };
            if in_vain >= self.looks {
                return Err("the server does not answer".into());
            }
            for event in &events {
                let Some(connection) = connections.get_mut(event.token().0).filter(|connection| !connection.is_idle()) else { continue };
                connection.send()?;
                if let Some(now) = connection.receive(&mut buffer, event.is_read_closed(), self)? {
                    last_ns = now;
                    busy -= usize::from(!connection.begin(&mut asker, now)?);
                }
            }
            if warming && last_ns >= warm_ns {
                (warming, cpu_before) = (false, cpu_seconds()?);
            }
        }
        self.gauge.end(last_ns);
        Ok(Ran { warm_ns, cpu_seconds: cpu_seconds()? - cpu_before })
    }
}

/// CPU time of the calling thread.
fn cpu_seconds() -> Outcome<f64> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// A request that waits for its reply.
#[derive(Debug, Clone, Copy)]
struct Asked {
    kind: usize,
    command: &'static Command,
    /// Bytes of the arguments: keys, members and values.
    bytes: usize,
}

/// Draws requests and writes their bytes.
struct Asker<'a> {
    requests: Requests<'a>,
    writer: Writer<'a>,
    /// The command of each kind of request.
    commands: Vec<Words>,
    pipeline: u64,
    left: u64,
    warm_ns: u64,
    end_ns: u64,
}

impl<'a> Asker<'a> {
    fn new(client: &Client<'a>, warm_ns: u64, end_ns: u64) -> Outcome<Self> {
        let command = |operation| Words::of(operation, client.key_size);
        Ok(Asker {
            requests: client.plan.requests(0),
            writer: Writer::new(client.key_size, client.pool.values(), client.plan.holes(0)),
            commands: client.plan.operations().map(command).collect::<Outcome<_>>()?,
            pipeline: client.pipeline as u64,
            left: client.plan.length.count,
            warm_ns,
            end_ns,
        })
    }

    /// Number of requests that a connection sends now.
    fn due(&self, now: u64) -> u64 {
        if now < self.end_ns { self.pipeline.min(self.left) } else { 0 }
    }

    /// Adds the bytes of the next request to `out`.
    #[inline]
    fn add(&mut self, out: &mut Vec<u8>) -> Outcome<Asked> {
        self.left -= 1;
        let request = self.requests.next_request();
        let Key::Loaded(number) = request.key else { return Err("servers are asked for loaded keys only".into()) };
        let words = &self.commands[request.kind];
        let bytes = self.writer.write(words, number, request.size, out);
        Ok(Asked { kind: request.kind, command: words.command, bytes })
    }
}

struct Connection {
    stream: TcpStream,
    /// Bytes of the requests, and how many of these bytes were sent.
    out: Vec<u8>,
    sent: usize,
    /// The requests in `out`, and how many of them were answered.
    asked: Vec<Asked>,
    answered: usize,
    begun_ns: u64,
    warming: bool,
    replies: Replies,
}

impl Connection {
    fn open(address: SocketAddr, token: usize, registry: &Registry) -> Outcome<Self> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        registry.register(&mut stream, Token(token), Interest::READABLE | Interest::WRITABLE)?;
        let (out, asked, replies) = (Vec::new(), Vec::new(), Replies::default());
        Ok(Connection { stream, out, sent: 0, asked, answered: 0, begun_ns: 0, warming: false, replies })
    }

    fn is_idle(&self) -> bool {
        self.answered == self.asked.len()
    }

    /// Sends the next requests when all others are answered; false if there are none.
    fn begin(&mut self, asker: &mut Asker<'_>, now: u64) -> Outcome<bool> {
        self.out.clear();
        self.asked.clear();
        (self.sent, self.answered) = (0, 0);
        (self.begun_ns, self.warming) = (now, now < asker.warm_ns);
        for _ in 0..asker.due(now) {
            self.asked.push(asker.add(&mut self.out)?);
        }
        self.send()?;
        Ok(!self.asked.is_empty())
    }

    fn send(&mut self) -> Outcome<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads available bytes, and the end of the stream if the server `closed` the connection. Returns the time if the last request was
    /// answered.
    fn receive(&mut self, buffer: &mut [u8], closed: bool, client: &Client<'_>) -> Outcome<Option<u64>> {
        loop {
            let count = match self.stream.read(buffer) {
                Ok(0) => return Err("the server closed a connection".into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let now = client.clock.monotonic_ns();
            let latency = now.saturating_sub(self.begun_ns);
            let (asked, answered, warming) = (&self.asked, &mut self.answered, self.warming);
            self.replies.read(&buffer[..count], &mut |reply| {
                let request = asked.get(*answered).ok_or("the server answered what nobody had asked")?;
                client.gauge.record(request.kind, warming, latency, &request.done(reply)?);
                *answered += 1;
                Ok(())
            })?;
            if self.is_idle() {
                return Ok(Some(now));
            }
            // The socket is empty (epoll(7)): later bytes are reported anew. An end that was reported already is not.
            if count < buffer.len() && !closed {
                return Ok(None);
            }
        }
    }
}

impl Asked {
    /// Bytes and keys of the request, now that its reply is known.
    #[inline]
    fn done(&self, reply: Reply<'_>) -> Outcome<Done> {
        let Asked { bytes, command: &Command { name, effect }, .. } = *self;
        match (effect, reply) {
            (_, Reply::Error(text)) => Err(format!("the server answered with an error: {}", text.escape_ascii()).into()),
            (Effect::Read, Reply::Value(length)) => Ok(Done { bytes: (bytes + length) as u64, written: 0, asked: 1, found: 1 }),
            (Effect::Read, Reply::Nothing) => Ok(Done { asked: 1, ..Done::default() }),
            (Effect::Write, Reply::Done) | (Effect::Take, Reply::Value(_) | Reply::Nothing) => {
                Ok(Done { bytes: bytes as u64, written: bytes as u64, ..Done::default() })
            }
            (_, reply) => Err(format!("the server answered {name} with {reply:?}").into()),
        }
    }
}
