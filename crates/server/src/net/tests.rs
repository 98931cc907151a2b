//! Work of a turn, counted: the request of one client must not cost more when many others are connected and silent.
#![expect(clippy::disallowed_methods, reason = "clients on threads of their own")]

mod feed;
mod first_stream;
mod idle;
mod late;
mod removing;
mod replicas;
mod steps;

use super::stream::Stream;
use super::*;
use crate::command::{Configuration, Topic};
use crate::resp::request;
use crate::testing::certificates::Authority;
use crate::testing::{fresh, small_settings};
use crate::tls::{Clients, Settings};
use rustix::net::sockopt;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use sinter_storage::store::{FaultStore, MemoryStore};
use sinterdb::clock::Clock;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Clients, if there are descriptors for them: each needs two here.
const IDLE: usize = 3000;
/// Time within which everything happens that a test waits for, also on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(60);

struct Driven {
    net: Net,
    events: Events,
    now: u64,
}

impl Driven {
    fn new() -> Driven {
        Self::listen(&[false], Server::default())
    }

    /// A server for clients with and without TLS, and a maker of clients' ends of connections.
    fn with_tls() -> (Driven, impl Fn() -> ClientConnection) {
        let (authority, folder) = (Authority::new("authority"), tempfile::tempdir().unwrap());
        let file = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
            folder.path().join(name).display().to_string()
        };
        let (certificate, key) = authority.certify();
        let settings = Settings {
            certificate: file("certificate", &certificate),
            key: file("key", &key),
            clients: Clients::NotAsked,
            ..Settings::default()
        };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let config = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth();
        let config = Arc::new(config);
        let driven = Self::listen(&[false, true], Server { tls: Some(settings.load().unwrap()), ..Server::default() });
        (driven, move || ClientConnection::new(config.clone(), "localhost".try_into().unwrap()).unwrap())
    }

    fn listen(encrypted: &[bool], server: Server) -> Driven {
        Self::over(fresh(), encrypted, server)
    }

    fn over(keyspace: Keyspace, encrypted: &[bool], server: Server) -> Driven {
        let address = "127.0.0.1:0".parse().unwrap();
        let at = |is_encrypted: &bool| Listening { address, may_miss: false, is_encrypted: *is_encrypted };
        let net = Net::listen(&encrypted.iter().map(at).collect::<Vec<_>>(), keyspace, server).unwrap();
        Driven { net, events: Events::with_capacity(EVENTS), now: 1_000_000 }
    }

    /// Number of clients that shake hands, or have not begun to.
    fn strangers(&self) -> usize {
        self.net.event_loop.connections.values().filter(|connection| connection.stream.is_handshaking()).count()
    }

    /// Waits for something to happen; returns the clients that it concerns.
    fn wait(&mut self) -> Vec<u64> {
        self.net.event_loop.poll.poll(&mut self.events, Some(Duration::from_millis(20))).unwrap();
        self.net.event_loop.note(&self.events);
        self.net.event_loop.active.clone()
    }

    fn turn(&mut self) {
        let Net { event_loop, keyspace, server } = &mut self.net;
        event_loop.turn(&mut Data { keyspace, server }, self.now);
    }

    /// Turns until something holds, and fails if that takes too long.
    #[track_caller]
    fn turn_until(&mut self, what: &str, mut holds: impl FnMut(&mut Driven) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
            self.wait();
            self.turn();
        }
    }

    fn patience(&mut self) -> Duration {
        let Net { event_loop, keyspace, server } = &mut self.net;
        event_loop.patience(&Data { keyspace, server })
    }

    /// Turns until nobody has anything to do, nor will have.
    fn settle(&mut self, clients: usize) {
        loop {
            let concerned = self.wait();
            self.turn();
            let event_loop = &self.net.event_loop;
            let is_busy = event_loop.accepts || !event_loop.active.is_empty() || !event_loop.strangers.is_empty();
            if concerned.is_empty() && !is_busy && event_loop.connections.len() >= clients {
                return;
            }
        }
    }

    /// Runs a tick and turns until all its work is done.
    fn tick(&mut self) {
        self.now += 100;
        self.turn();
        let clients = self.net.event_loop.connections.len();
        self.settle(clients);
    }

    fn ask(&mut self, client: &mut TcpStream) -> Vec<u64> {
        client.write_all(b"PING\r\n").unwrap();
        let mut concerned = self.wait();
        // The thread that syncs may have woken the network first.
        while concerned.is_empty() {
            concerned = self.wait();
        }
        self.turn();
        let mut reply = [0; 7];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
        concerned
    }
}

#[test]
fn idle_clients_take_no_part_in_turns_and_hold_no_buffers() {
    let mut driven = Driven::new();
    let address = driven.net.address().unwrap();
    let count = IDLE.min(descriptors::clients_max().unwrap_or(IDLE) / 4);
    let mut clients = Vec::new();
    for n in 0..count {
        let mut client = TcpStream::connect(address).unwrap();
        if n % 2 == 0 {
            client.write_all(b"SET a 1\r\nGET a\r\n").unwrap();
        }
        clients.push(client);
        if clients.len() % 50 == 0 {
            driven.settle(clients.len());
        }
    }
    driven.settle(count);
    let concerned = driven.ask(&mut clients[1]);
    assert_eq!((concerned.len(), driven.net.event_loop.connections.len()), (1, count), "a request is one client's matter");
    assert_ne!(driven.net.event_loop.held, 0);
    // All are looked at once in ten ticks, the same number in each.
    let share = (count / ticking::TICKS_PER_ROUND).max(ticking::ROUND_MIN) as u64;
    driven.net.event_loop.looked_at = FIRST_SESSION;
    driven.tick();
    assert_eq!(driven.net.event_loop.looked_at, FIRST_SESSION + share);
    driven.now += ticking::IDLE_MS;
    (0..=ticking::TICKS_PER_ROUND + 1).for_each(|_| driven.tick());
    assert_eq!(driven.net.event_loop.held, 0, "buffers of clients that say nothing are kept");
    assert!(driven.net.server.clients.values().all(|client| client.buffers.held() == 0));
    assert_eq!(driven.ask(&mut clients[count - 1]).len(), 1);
}

/// A client that waits before the handshake, in the middle of it, or with half of it sent, is closed in time; a client that has ended it is
/// not.
#[test]
fn a_handshake_has_to_end_in_time() {
    let (mut driven, session) = Driven::with_tls();
    let address = driven.net.tls_address().unwrap().unwrap();
    let silent = TcpStream::connect(address).unwrap();
    let (mut half, mut begun) = (TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap());
    let mut hello = Vec::new();
    session().write_tls(&mut hello).unwrap();
    half.write_all(&hello[..hello.len() / 2]).unwrap();
    begun.write_all(&hello).unwrap();
    let (mut good, mut socket) = (session(), TcpStream::connect(address).unwrap());
    driven.settle(4);
    socket.set_nonblocking(true).unwrap();
    while good.is_handshaking() {
        // This fails with `WouldBlock` where the server has to go on first.
        let _ = good.complete_io(&mut socket);
        driven.settle(4);
    }
    driven.settle(4);
    assert_eq!(driven.strangers(), 3);
    driven.now += ticking::GREETING_SECONDS * 1000 - 200;
    driven.tick();
    assert_eq!(driven.strangers(), 3);
    driven.now += 1000;
    driven.tick();
    assert_eq!((driven.strangers(), driven.net.event_loop.connections.len()), (0, 1));
    for mut gone in [silent, half, begun] {
        let mut rest = Vec::new();
        gone.read_to_end(&mut rest).unwrap();
    }
    good.writer().write_all(b"PING\r\n").unwrap();
    good.write_tls(&mut socket).unwrap();
    driven.settle(1);
    good.read_tls(&mut socket).unwrap();
    assert_eq!(good.process_new_packets().unwrap().plaintext_bytes_to_read(), 7);
}

/// A flood of handshakes is worked off in shares, and requests are served meanwhile.
#[test]
fn handshakes_keep_nobody_waiting() {
    const FLOOD: usize = 40;
    let (mut driven, session) = Driven::with_tls();
    let (plain, address) = (driven.net.address().unwrap(), driven.net.tls_address().unwrap().unwrap());
    let mut known = TcpStream::connect(plain).unwrap();
    let mut flood: Vec<TcpStream> = (0..FLOOD).map(|_| TcpStream::connect(address).unwrap()).collect();
    driven.settle(1 + FLOOD);
    for stream in &mut flood {
        session().write_tls(stream).unwrap();
    }
    known.write_all(b"PING\r\n").unwrap();
    let mut concerned = driven.wait();
    while concerned.len() < 1 + FLOOD {
        concerned = driven.wait();
    }
    driven.turn();
    let mut reply = [0; 7];
    known.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    assert_eq!(driven.net.event_loop.strangers.len(), FLOOD - HANDSHAKES, "all of the flood but a share waits for the next turn");
    assert_eq!(driven.patience(), Duration::ZERO);
    for turn in 2..=FLOOD / HANDSHAKES {
        driven.turn();
        assert_eq!(driven.net.event_loop.strangers.len(), FLOOD - turn * HANDSHAKES);
    }
    for mut stream in flood {
        let mut answer = [0; 1];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer[0], 0x16, "a handshake");
    }
}

/// Many small requests for long values: no turn makes more replies than it may, and all get theirs.
#[test]
fn replies_of_a_turn_are_bounded() {
    const CLIENTS: usize = 100;
    // The longest value that is sent as a whole.
    const LONG: usize = (1 << 20) - 1;
    let mut driven = Driven::new();
    let address = driven.net.address().unwrap();
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
    clients[0].write_all(format!("SETRANGE k {} x\r\n", LONG - 1).as_bytes()).unwrap();
    driven.settle(CLIENTS);
    clients.iter_mut().for_each(|client| client.write_all(b"GET k\r\n").unwrap());
    let readers: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            std::thread::spawn(move || {
                let mut reply = vec![0; 10 + LONG + 2];
                client.read_exact(&mut reply).unwrap();
            })
        })
        .collect();
    while driven.wait().len() < CLIENTS {}
    driven.turn();
    assert!((TURN_OUTPUT..TURN_OUTPUT + 2 * LONG).contains(&driven.net.event_loop.produced), "{}", driven.net.event_loop.produced);
    assert_eq!(driven.patience(), Duration::ZERO);
    driven.settle(0);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

/// A clock that goes on by a millisecond whenever it is read, as if each request took that.
#[derive(Debug, Default)]
struct SlowRequests(AtomicU64);

impl Clock for SlowRequests {
    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(1_000_000, Ordering::Relaxed)
    }

    fn unix_seconds(&self) -> u64 {
        1_000
    }
}

/// Clients with many slow requests share a turn, so that another client waits for one turn; each gets all its replies, in order.
#[test]
fn slow_requests_keep_nobody_waiting() {
    const REQUESTS: usize = 100;
    let mut driven = Driven::new();
    driven.net.server.set_clock(Arc::new(SlowRequests::default()));
    let address = driven.net.address().unwrap();
    let mut slow: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut other = TcpStream::connect(address).unwrap();
    driven.settle(3);
    for (n, client) in slow.iter_mut().enumerate() {
        client.write_all((0..REQUESTS).map(|k| format!("SET {n}:{k} x\r\nECHO {k}\r\n")).collect::<String>().as_bytes()).unwrap();
    }
    let mut received = vec![Vec::new(); slow.len()];
    let expected: String = (0..REQUESTS).map(|k| format!("+OK\r\n${}\r\n{k}\r\n", k.to_string().len())).collect();
    while driven.net.keyspace.size(0) == 0 {
        driven.wait();
        driven.turn();
    }
    let mut turns = 0;
    while driven.net.keyspace.size(0) < 2 * REQUESTS as u64 {
        turns += 1;
        assert_eq!(driven.patience(), Duration::ZERO);
        let before = driven.net.server.statistics.commands;
        driven.ask(&mut other);
        // Some share for each, and the PING.
        let run = driven.net.server.statistics.commands - before;
        assert!((2..=11).contains(&run), "{run} requests in a turn of 10 ms");
    }
    assert!(turns > REQUESTS / 5, "{turns}");
    driven.settle(3);
    for (client, received) in slow.iter_mut().zip(&mut received) {
        received.resize(expected.len(), 0);
        client.read_exact(received).unwrap();
        assert_eq!(*received, expected.as_bytes());
    }
}

/// When more keys than a tick removes end at once, the rest does not wait for further ticks.
#[test]
fn keys_that_end_together_are_removed_soon() {
    const KEYS: u64 = 3000;
    let mut driven = Driven::new();
    for n in 0..KEYS {
        driven.net.keyspace.set_string(0, format!("k{n}").as_bytes(), b"x", Some(driven.now + 500)).unwrap();
    }
    driven.now += 1000;
    for _ in 0..KEYS as usize / ticking::EXPIRED_AT_ONCE {
        driven.turn();
        assert!(driven.net.keyspace.size(0) == 0 || driven.patience() <= Duration::from_millis(ticking::EXPIRING_PAUSE_MS));
        driven.now += ticking::EXPIRING_PAUSE_MS;
    }
    assert_eq!((driven.net.keyspace.size(0), driven.net.keyspace.expired().keys), (0, KEYS));
}

/// While the engine can take no more, requests that write wait, and others do not.
#[test]
fn who_writes_too_much_keeps_nobody_waiting() {
    const VALUES: usize = 60;
    let is_stuck = Arc::new(AtomicBool::new(true));
    let (stuck, own) = (is_stuck.clone(), std::thread::current().id());
    // Logs go on; tables do not.
    let hook = move |_, _| {
        let thread = std::thread::current();
        let logs = thread.id() == own || thread.name().is_some_and(|name| ["sinter-commit", "sinter-sync"].contains(&name));
        while !logs && stuck.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let store = FaultStore::new(Arc::new(MemoryStore::new()));
    store.on_call(Some(Arc::new(hook)));
    let mut settings = small_settings();
    settings.db.max_background_jobs = 2;
    let keyspace = Keyspace::open(Arc::new(store), &settings, 7).unwrap();
    let mut driven = Driven::over(keyspace, &[false], Server::default());
    let address = driven.net.address().unwrap();
    let (mut writer, mut other) = (TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap());
    driven.settle(2);
    let requests: String = (0..VALUES).map(|n| format!("*3\r\n$3\r\nSET\r\n$3\r\nk{n:02}\r\n$9000\r\n{:9000}\r\n", n)).collect();
    let mut sender = writer.try_clone().unwrap();
    let sending = std::thread::spawn(move || sender.write_all(requests.as_bytes()).unwrap());
    while driven.net.event_loop.postponed.is_empty() {
        driven.wait();
        driven.turn();
    }
    assert!(driven.net.event_loop.is_short_of_room && driven.patience() <= Duration::from_millis(ROOM_MS));
    driven.ask(&mut other);
    assert!(!driven.net.event_loop.postponed.is_empty());
    is_stuck.store(false, Ordering::Release);
    writer.set_nonblocking(true).unwrap();
    let mut replies = Vec::new();
    while replies.len() < VALUES * 5 {
        driven.wait();
        driven.turn();
        let mut some = [0; 1000];
        let bytes = writer.read(&mut some).unwrap_or(0);
        replies.extend_from_slice(&some[..bytes]);
    }
    assert_eq!(replies, b"+OK\r\n".repeat(VALUES));
    sending.join().unwrap();
}

/// A subscriber that reads nothing is closed at the hard limit of its class, or above the soft one when its time is over.
#[test]
fn a_subscriber_that_reads_nothing_is_closed() {
    const MESSAGE: usize = 1 << 20;
    // More than the kernel keeps of it.
    const MESSAGES: usize = 24;
    for limits in ["pubsub 8mb 0 0", "normal 1 1 1 pubsub 0 2mb 5"] {
        let mut configuration = Configuration::default();
        configuration.output_limits.set(limits).unwrap();
        let mut driven = Driven::listen(&[false], Server { configuration, ..Server::default() });
        let mut listener = TcpStream::connect(driven.net.address().unwrap()).unwrap();
        listener.write_all(b"SUBSCRIBE c\r\n").unwrap();
        driven.settle(1);
        let mut sent = 0;
        while sent < MESSAGES && driven.net.event_loop.connections.len() == 1 {
            assert_eq!(driven.net.server.hub.publish(Topic::Channel, b"c", &[b'x'; MESSAGE]), 1);
            driven.turn();
            sent += 1;
        }
        let closed = |driven: &Driven| (driven.net.event_loop.connections.len(), driven.net.server.statistics.output_limited);
        if limits.starts_with("pubsub") {
            assert!(sent >= 8 && closed(&driven) == (0, 1), "{sent} messages, {:?}", closed(&driven));
            continue;
        }
        assert_eq!((sent, closed(&driven)), (MESSAGES, (1, 0)));
        driven.now += 5_000;
        driven.tick();
        assert_eq!(closed(&driven), (1, 0));
        driven.now += 1_000;
        driven.tick();
        assert_eq!(closed(&driven), (0, 1));
    }
}

#[test]
fn the_kernel_asks_whether_silent_clients_are_still_there() {
    for (keep_alive, expected) in [(0, None), (60, Some((60, 20, 3))), (2, Some((2, 1, 3))), (u32::MAX, Some((32_767, 10_922, 3)))] {
        let mut driven = Driven::listen(
            &[false],
            Server { configuration: Configuration { keep_alive, ..Configuration::default() }, ..Server::default() },
        );
        let _client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
        driven.settle(1);
        let Some(Stream::Plain(socket)) = driven.net.event_loop.connections.values().next().map(|connection| &connection.stream) else {
            panic!("no client");
        };
        let seconds = |time: rustix::io::Result<Duration>| time.unwrap().as_secs();
        let asks = sockopt::socket_keepalive(socket).unwrap().then(|| {
            let (idle, between) = (seconds(sockopt::tcp_keepidle(socket)), seconds(sockopt::tcp_keepintvl(socket)));
            (idle, between, sockopt::tcp_keepcnt(socket).unwrap())
        });
        assert_eq!(asks, expected);
    }
}

#[test]
fn clients_of_the_unix_socket_are_on_the_same_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let configuration = Configuration { unix_socket: path.display().to_string(), port: 0, ..Configuration::default() };
    let mut driven = Driven::listen(&[], Server { configuration, ..Server::default() });
    assert_eq!((driven.net.path(), driven.net.address().is_err()), (Some(&*path), true));
    let mut client = std::os::unix::net::UnixStream::connect(&path).unwrap();
    client.write_all(b"PING\r\n").unwrap();
    driven.settle(1);
    let mut reply = [0; 7];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    let known = driven.net.server.clients.values().next().unwrap();
    assert!(known.is_unix && known.is_local);
    assert_eq!((known.address.as_str(), known.address == known.local_address), (format!("{}:0", path.display()).as_str(), true));
}

/// A renamed command has only its new name; a command without a name does not exist for clients.
#[test]
fn commands_are_found_by_the_names_that_they_were_given() {
    let mut configuration = Configuration::default();
    configuration.renames.rename(b"FLUSHALL", b"").unwrap();
    configuration.renames.rename(b"PING", b"PONG").unwrap();
    let mut driven = Driven::listen(&[false], Server { configuration, ..Server::default() });
    let mut client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
    client.write_all(b"pong\r\nFLUSHALL\r\nPING\r\n").unwrap();
    driven.settle(1);
    let expected = "+PONG\r\n-ERR unknown command 'FLUSHALL', with args beginning with: \r\n-ERR unknown command 'PING'";
    let mut reply = vec![0; expected.len()];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(String::from_utf8_lossy(&reply), expected);
}

/// A client's side of a connection that never blocks: as much is sent and received as the server takes and gives in a turn.
struct Peer {
    stream: TcpStream,
    to_send: Vec<u8>,
    received: Vec<u8>,
}

impl Peer {
    fn connect(driven: &Driven) -> Peer {
        let stream = TcpStream::connect(driven.net.address().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        Peer { stream, to_send: Vec::new(), received: Vec::new() }
    }

    fn send(&mut self) {
        let sent = self.stream.write(&self.to_send).unwrap_or(0);
        self.to_send.drain(..sent);
    }

    fn receive(&mut self) {
        let mut some = vec![0; 1 << 20];
        let bytes = self.stream.read(&mut some).unwrap_or(0);
        self.received.extend_from_slice(&some[..bytes]);
    }

    /// Runs turns until the reply is this long. No turn writes more than a share, and the server holds no more of the bytes that pass
    /// through.
    fn exchange(&mut self, driven: &mut Driven, reply: usize) -> usize {
        let mut turns = 0;
        while self.received.len() < reply {
            self.send();
            driven.wait();
            driven.turn();
            self.receive();
            turns += 1;
            assert!(driven.net.event_loop.held < 4 << 20, "{} bytes are held", driven.net.event_loop.held);
        }
        assert_eq!(self.received.len(), reply);
        turns
    }
}

/// Values of many turns come in and go out while another client has a reply in each turn; nobody sees half of one.
#[test]
fn a_huge_value_keeps_nobody_waiting() {
    const HUGE: usize = 4 << 20;
    let mut driven = Driven::new();
    let (mut peer, mut other) = (Peer::connect(&driven), TcpStream::connect(driven.net.address().unwrap()).unwrap());
    driven.settle(2);
    let value: Vec<u8> = (0..HUGE).map(|n| (n % 251) as u8).collect();
    peer.to_send = request::<&[u8]>(&[b"SET", b"k", &value, b"PX", b"1000000"]);
    let mut turns = 0;
    while peer.received.is_empty() {
        peer.send();
        driven.ask(&mut other);
        assert!(driven.net.keyspace.size(0) == 0 || peer.to_send.is_empty());
        assert!(driven.net.event_loop.held < 4 << 20 && driven.net.keyspace.is_committed());
        peer.receive();
        turns += 1;
    }
    assert!(peer.received == b"+OK\r\n" && turns >= HUGE / READ, "{turns}");
    peer.received.clear();
    // The reply stays whole although the value is replaced before half of it is sent.
    let expected = [format!("${HUGE}\r\n").as_bytes(), &value, b"\r\n+PONG\r\n"].concat();
    peer.to_send = [request(&["GET", "k"]), request(&["PING"])].concat();
    peer.send();
    driven.ask(&mut other);
    other.write_all(b"SET k short\r\nSTRLEN k\r\n").unwrap();
    driven.settle(2);
    let mut reply = [0; 9];
    other.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n:5\r\n");
    driven.ask(&mut other);
    assert!(peer.exchange(&mut driven, expected.len()) >= HUGE / (2 << 20));
    assert!(peer.received == expected);
}

/// All commands that take a long value as it comes, or reply with one as it goes.
#[test]
fn long_values_are_whole_whatever_command_has_them() {
    const LONG: usize = (1 << 20) + 7;
    let mut driven = Driven::new();
    let mut peer = Peer::connect(&driven);
    driven.settle(1);
    let value: Vec<u8> = (0..LONG).map(|n| (n % 253) as u8).collect();
    let bulk = |bytes: &[u8]| [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    let steps: Vec<(Vec<&[u8]>, Vec<u8>)> = vec![
        (vec![b"SET", b"k", &value], b"+OK\r\n".to_vec()),
        (vec![b"SET", b"k", &value, b"NX"], b"$-1\r\n".to_vec()),
        (vec![b"SET", b"k", &value, b"XX", b"GET"], bulk(&value)),
        (vec![b"SET", b"k", &value, b"wrong"], b"-ERR syntax error\r\n".to_vec()),
        (vec![b"SETNX", b"k", &value], b":0\r\n".to_vec()),
        (vec![b"GETSET", b"k", &value], bulk(&value)),
        (vec![b"SETEX", b"k", b"0", &value], b"-ERR invalid expire time in 'setex' command\r\n".to_vec()),
        (vec![b"PSETEX", b"k", b"100000000", &value], b"+OK\r\n".to_vec()),
        (vec![b"GETRANGE", b"k", b"3", b"-1"], bulk(&value[3..])),
        (vec![b"GETEX", b"k", b"PERSIST"], bulk(&value)),
        (vec![b"SETRANGE", b"k", b"0", b"\0\x01"], format!(":{LONG}\r\n").into_bytes()),
        (vec![b"APPEND", b"a", &value], format!(":{LONG}\r\n").into_bytes()),
        (vec![b"APPEND", b"a", &value], format!(":{}\r\n", 2 * LONG).into_bytes()),
        (vec![b"GET", b"a"], bulk(&[&value[..], &value].concat())),
        (vec![b"SETRANGE", b"a", b"5", &value], format!(":{}\r\n", 2 * LONG).into_bytes()),
        (vec![b"GETRANGE", b"a", b"0", b"1048600"], bulk(&[&value[..5], &value, &value[5..18]].concat())),
        (vec![b"SETRANGE", b"a", b"0", &value, b"x"], b"-ERR wrong number of arguments for 'setrange' command\r\n".to_vec()),
        (vec![b"SET", b"a", b"short"], b"+OK\r\n".to_vec()),
        (vec![b"SETRANGE", b"a", b"0", &value], format!(":{LONG}\r\n").into_bytes()),
        (vec![b"MSET", b"a", &value, b"b", &value], b"+OK\r\n".to_vec()),
        (vec![b"MGET", b"a", b"b"], [&b"*2\r\n"[..], &bulk(&value), &bulk(&value)].concat()),
        (vec![b"DEL", b"a", b"b"], b":2\r\n".to_vec()),
        (vec![b"COPY", b"k", b"l"], b":1\r\n".to_vec()),
        (vec![b"MGET", b"k", b"none", b"l"], [&b"*3\r\n"[..], &bulk(&value), b"$-1\r\n", &bulk(&value)].concat()),
        (vec![b"MULTI"], b"+OK\r\n".to_vec()),
        (vec![b"SET", b"k", &value], b"+QUEUED\r\n".to_vec()),
        (vec![b"GET", b"k"], b"+QUEUED\r\n".to_vec()),
        (vec![b"LPUSH", b"k", b"x"], b"+QUEUED\r\n".to_vec()),
        (
            vec![b"EXEC"],
            [b"*3\r\n+OK\r\n", &bulk(&value)[..], b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"].concat(),
        ),
        (vec![b"ECHO", &value], bulk(&value)),
        (vec![b"CLIENT", b"REPLY", b"SKIP"], Vec::new()),
        (vec![b"GET", b"k"], Vec::new()),
        (vec![b"GETDEL", b"k"], bulk(&value)),
        (vec![b"DEL", b"l"], b":1\r\n".to_vec()),
        (vec![b"DBSIZE"], b":0\r\n".to_vec()),
    ];
    for (words, reply) in steps {
        let name = String::from_utf8_lossy(words[0]).into_owned();
        peer.to_send.extend(request(&words));
        peer.received.clear();
        peer.exchange(&mut driven, reply.len());
        assert!(peer.received == reply, "{name}: {:?}", String::from_utf8_lossy(&peer.received[..peer.received.len().min(80)]));
    }
}

/// A client that disconnects in the middle of a value leaves the key as it was, and no memory in use.
#[test]
fn half_a_value_is_none() {
    let mut driven = Driven::new();
    let mut other = TcpStream::connect(driven.net.address().unwrap()).unwrap();
    driven.settle(1);
    for is_killed in [false, true] {
        let mut peer = Peer::connect(&driven);
        driven.settle(2);
        peer.to_send = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9000000\r\n".to_vec();
        peer.to_send.resize(1 << 20, b'v');
        while !peer.to_send.is_empty() {
            peer.send();
            driven.ask(&mut other);
        }
        assert!(driven.net.keyspace.has_uploads());
        if is_killed {
            let address = peer.stream.local_addr().unwrap();
            other.write_all(format!("CLIENT KILL ADDR {address}\r\n").as_bytes()).unwrap();
            driven.settle(1);
            let mut reply = [0; 4];
            other.read_exact(&mut reply).unwrap();
            assert_eq!(&reply, b":1\r\n");
        } else {
            drop(peer);
        }
        while driven.net.event_loop.connections.len() > 1 {
            driven.wait();
            driven.turn();
        }
        assert!(!driven.net.keyspace.has_uploads() && driven.net.keyspace.size(0) == 0);
    }
}
