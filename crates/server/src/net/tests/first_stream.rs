//! The first stream of a primary: a thread prepares the engine for it, and waits at a gate for the medium while other things happen.

use super::replicas::{read, receive, receive_all, replica};
use super::steps::ask;
use super::*;
use crate::command::Stage;
use sinter_storage::store::{Calls, EIO, ENOSPC, Fault, Operation};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Sender, channel};

/// Name of the thread that prepares the engine.
const THREAD: &str = "sinter-stream";

/// A primary without a stream, and a client of it. The thread waits before it syncs, until the gate opens.
struct Gated {
    // Dropped first: the event loop waits for the thread when it ends.
    gate: Option<Sender<()>>,
    driven: Driven,
    store: Arc<FaultStore>,
    client: TcpStream,
    /// Calls of the store by the thread, syncs among them, and syncs by the event loop.
    calls: Arc<AtomicUsize>,
    syncs: Arc<AtomicUsize>,
    syncs_of_loop: Arc<AtomicUsize>,
}

impl Gated {
    fn new() -> Gated {
        let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
        let keyspace = Keyspace::open(store.clone(), &small_settings(), 7).unwrap();
        let mut driven = Driven::over(keyspace, &[false], Server::default());
        let client = TcpStream::connect(driven.net.address().unwrap()).unwrap();
        driven.settle(1);
        let (gate, closed) = channel::<()>();
        let (event_loop, closed) = (std::thread::current().id(), Mutex::new(closed));
        let [calls, syncs, syncs_of_loop] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let (counted, counted_syncs, by_loop) = (calls.clone(), syncs.clone(), syncs_of_loop.clone());
        store.on_call(Some(Arc::new(move |_, operation| {
            let is_sync = matches!(operation, Operation::Sync | Operation::SyncNames);
            let thread = std::thread::current();
            if thread.name() == Some(THREAD) {
                counted.fetch_add(1, Ordering::Relaxed);
                if is_sync {
                    counted_syncs.fetch_add(1, Ordering::Relaxed);
                    // Until the other end is dropped.
                    let _ = closed.lock().unwrap().recv();
                }
            } else if is_sync && thread.id() == event_loop {
                by_loop.fetch_add(1, Ordering::Relaxed);
            }
        })));
        Gated { gate: Some(gate), driven, store, client, calls, syncs, syncs_of_loop }
    }

    /// A replica that has asked for all data, and waits.
    fn follower(&mut self) -> TcpStream {
        let before = self.stages().len();
        let mut follower = TcpStream::connect(self.driven.net.address().unwrap()).unwrap();
        follower.write_all(b"PSYNC ? -1\r\n").unwrap();
        self.driven.turn_until("a replica", |driven| driven.net.server.replicas.len() > before);
        follower
    }

    fn stages(&self) -> Vec<Stage> {
        self.driven.net.server.replicas.iter().map(|(_, replica)| replica.stage).collect()
    }

    fn ask(&mut self, line: &str, expected: &str) {
        ask(&mut self.driven, &mut self.client, line, expected);
    }

    /// Lets seconds pass, in which clients are served and the replica waits.
    fn wait_seconds(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.driven.now += 1000;
            self.ask("GET a", "$1\r\n1\r\n");
            self.ask("PING", "+PONG\r\n");
        }
        assert_eq!((self.stages(), self.driven.net.keyspace.stream()), (vec![Stage::Waiting], None));
    }

    /// Opens the gate, and waits until the engine is prepared.
    fn open(&mut self) {
        self.gate = None;
        self.driven.turn_until("the preparation", |driven| driven.net.keyspace.has_stream_families());
    }

    /// Opens the gate after some time: the event loop may be waiting for the engine then.
    fn open_later(&mut self) {
        let gate = self.gate.take();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(gate);
        });
    }
}

#[test]
fn clients_are_served_while_it_is_prepared() {
    let mut gated = Gated::new();
    let mut follower = gated.follower();
    gated.ask("PING", "+PONG\r\n");
    // A second one that comes meanwhile gets data of the same moment, and the same stream.
    let mut second = gated.follower();
    gated.ask("GET none", "$-1\r\n");
    assert_eq!((gated.stages(), gated.driven.net.keyspace.stream()), (vec![Stage::Waiting; 2], None));
    gated.open();
    let (first, second) = (receive_all(&mut gated.driven, &mut follower), receive_all(&mut gated.driven, &mut second));
    assert!(first.0 == second.0 && first.0.ends_with(" 0"), "{} {}", first.0, second.0);
    assert_eq!((gated.syncs_of_loop.load(Ordering::Relaxed), gated.driven.net.server.replicas.syncs), (0, [2, 0, 0]));
    // A write that comes meanwhile waits for one sync, not for one of each family.
    assert_eq!(gated.syncs.load(Ordering::Relaxed), 1);
}

/// A replica that leaves, or is killed, leaves no stream behind; the next one waits for the preparation that runs, or needs none.
#[test]
fn a_replica_leaves_before_it_is_prepared() {
    for (is_killed, comes_late) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut gated = Gated::new();
        let follower = gated.follower();
        if is_killed {
            gated.ask("CLIENT KILL TYPE replica", ":1\r\n");
        }
        let kept = is_killed.then_some(follower);
        gated.driven.turn_until("the end of the replica", |driven| driven.net.server.replicas.is_empty());
        if comes_late {
            gated.open();
            gated.ask("PING", "+PONG\r\n");
            assert!(gated.driven.net.keyspace.stream().is_none() && !gated.driven.net.server.feed.is_on());
            let calls = gated.calls.load(Ordering::Relaxed);
            replica(&mut gated.driven);
            assert_eq!(gated.calls.load(Ordering::Relaxed), calls, "prepared again");
        } else {
            let mut next = gated.follower();
            gated.open();
            receive_all(&mut gated.driven, &mut next);
        }
        assert_eq!(gated.syncs_of_loop.load(Ordering::Relaxed), 0);
        drop(kept);
    }
}

/// A medium that is full is tried again every second, with the replica waiting; one that fails leaves a server that can be read.
#[test]
fn a_preparation_that_fails_is_tried_again() {
    for errno in [ENOSPC, EIO] {
        let mut gated = Gated::new();
        gated.ask("SET a 1", "+OK\r\n");
        gated.store.inject(Fault::from(Calls::Only(Operation::Append), 0, errno));
        gated.gate = None;
        let mut follower = gated.follower();
        gated.wait_seconds(3);
        gated.store.clear();
        if errno == EIO {
            // What a medium has of a write that has failed is not known: the engine takes no more writes.
            gated.wait_seconds(3);
            continue;
        }
        gated.driven.turn_until("a stream once the medium has free space", |driven| {
            driven.now += 100;
            driven.net.keyspace.stream().is_some()
        });
        receive_all(&mut gated.driven, &mut follower);
    }
}

/// A server that becomes a replica has no stream of its own: who waits for one is closed, and asks again.
#[test]
fn the_server_becomes_a_replica_before_it_is_prepared() {
    let mut gated = Gated::new();
    let mut follower = gated.follower();
    gated.ask("REPLICAOF 127.0.0.1 1", "+OK\r\n");
    assert_eq!(read(&mut gated.driven, &mut follower, "never").trim_ascii(), "");
    gated.open();
    gated.ask("PING", "+PONG\r\n");
    assert!(gated.driven.net.keyspace.stream().is_none() && gated.driven.net.server.is_replica());
    follower = TcpStream::connect(gated.driven.net.address().unwrap()).unwrap();
    follower.write_all(b"PSYNC ? -1\r\n").unwrap();
    assert!(read(&mut gated.driven, &mut follower, "\r\n").starts_with("-NOMASTERLINK "));
    gated.ask("REPLICAOF NO ONE", "+OK\r\n");
    replica(&mut gated.driven);
}

/// The data are those of the moment when the stream begins, whatever was done with all of them meanwhile.
#[test]
fn all_data_change_before_it_is_prepared() {
    let mut gated = Gated::new();
    gated.ask("SET before 1", "+OK\r\n");
    let mut follower = gated.follower();
    gated.open_later();
    gated.ask("FLUSHALL", "+OK\r\n");
    gated.ask("SET afterwards 1", "+OK\r\n");
    gated.ask("SWAPDB 0 3", "+OK\r\n");
    let (_, data) = receive_all(&mut gated.driven, &mut follower);
    gated.ask("SET a 1", "+OK\r\n");
    let stream = receive(&mut gated.driven, &mut follower, "the stream", |all| all.ends_with(b"$1\r\na\r\n$1\r\n1\r\n"));
    let all = [&data[..], &stream[..]].concat();
    let text = String::from_utf8_lossy(&all).replace("\r\n", "|");
    let has = |what: &[u8]| all.windows(what.len()).any(|some| some == what);
    let said = |what: &str| text.to_ascii_lowercase().contains(&format!("|{what}|"));
    // Each of the changes is in the data or behind them.
    let are_there = [!has(b"before") || said("flushall"), has(b"afterwards") || said("afterwards"), has(b"\xfe\x03") || said("swapdb")];
    assert_eq!(are_there, [true; 3], "{}", all.escape_ascii());
    assert!(text.ends_with("|SET|$1|a|$1|1|"), "{text}");
}

/// The end of the server waits for the thread, so the data are closed when nobody uses them.
#[test]
fn the_server_ends_before_it_is_prepared() {
    let mut gated = Gated::new();
    let follower = gated.follower();
    gated.open_later();
    let Gated { driven: Driven { net: Net { mut event_loop, mut keyspace, mut server }, .. }, calls, .. } = gated;
    event_loop.stop_replicas(&mut Data { keyspace: &mut keyspace, server: &mut server }, 2_000_000);
    let after = calls.load(Ordering::Relaxed);
    assert!(after > 0 && keyspace.has_stream_families());
    drop((event_loop, follower));
    keyspace.close().unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), after);
}
