//! Scripts after writes of other clients in one event-loop iteration: short ones, and ones that turn late all the same.

use super::*;
use crate::command::Late;
use crate::testing::open;
use std::net::Shutdown;
use std::sync::mpsc::channel;

/// A clock that stands still until it is given a step: then each reading takes so many nanoseconds.
#[derive(Debug, Default)]
pub struct Stepping {
    now: AtomicU64,
    pub step: AtomicU64,
}

impl Clock for Stepping {
    fn monotonic_ns(&self) -> u64 {
        self.now.fetch_add(self.step.load(Ordering::Relaxed), Ordering::Relaxed)
    }

    fn unix_seconds(&self) -> u64 {
        1_000
    }
}

/// A script that writes or not, and then ends or not.
const SCRIPT: &str = "if ARGV[1] == 'write' then redis.call('set', 'mine', 'x') end while ARGV[2] == 'stay' do end return 1";
/// Runs that make the script a short one.
const RUNS: usize = 16;
const BUSY: &str = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n";

fn eval(first: &str, second: &str) -> Vec<u8> {
    request(&["EVAL", SCRIPT, "0", first, second])
}

/// The next line that a client gets.
fn line(client: &mut TcpStream) -> String {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        line.extend(byte);
    }
    String::from_utf8(line).unwrap()
}

fn ask(client: &mut TcpStream, words: &[&str]) -> String {
    client.write_all(&request(words)).unwrap();
    line(client)
}

/// Whether nothing has come for a client.
fn is_silent(client: &TcpStream) -> bool {
    client.set_nonblocking(true).unwrap();
    let peeked = client.peek(&mut [0]);
    client.set_nonblocking(false).unwrap();
    peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// A server whose scripts are late after a millisecond, and three clients: one writes, then one runs a script, and one asks meanwhile.
struct Scene {
    driven: Driven,
    clock: Arc<Stepping>,
    store: Arc<MemoryStore>,
    early: TcpStream,
    script: TcpStream,
    other: TcpStream,
}

impl Scene {
    fn new() -> Scene {
        let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(Stepping::default()));
        let configuration = Configuration { late_ms: 1, ..Configuration::default() };
        let mut driven = Driven::over(open(&store, 42), &[false], Server { configuration, ..Server::default() });
        driven.net.server.set_clock(clock.clone());
        let address = driven.net.address().unwrap();
        let [early, script, other] = [(); 3].map(|()| TcpStream::connect(address).unwrap());
        driven.settle(3);
        Scene { driven, clock, store, early, script, other }
    }

    /// Runs the script until it counts as short.
    fn make_short(&mut self) {
        self.script.write_all(&eval("read", "go").repeat(RUNS)).unwrap();
        self.driven.settle(3);
        (0..RUNS).for_each(|_| assert_eq!(line(&mut self.script), ":1\r\n"));
    }

    /// Sends a write of one client and then a request of another, which are served in the next iteration.
    fn send(&mut self, second: &[u8]) {
        self.early.write_all(&request(&["SET", "early", "1"])).unwrap();
        while self.driven.wait().is_empty() {}
        self.script.write_all(second).unwrap();
        while self.driven.wait().len() < 2 {}
    }

    /// Number of commits for a write of one client and then requests of another, which have these replies.
    fn commits(&mut self, second: &[u8], replies: &[&str]) -> u64 {
        let before = self.driven.net.keyspace.committed();
        self.send(second);
        self.driven.turn();
        assert_eq!(line(&mut self.early), "+OK\r\n");
        replies.iter().for_each(|reply| assert_eq!(line(&mut self.script), *reply));
        self.driven.net.keyspace.committed() - before
    }

    /// Runs an iteration with a write of one client and then a late script of another. `meanwhile` gets the first and the third client
    /// while the server is busy, and ends the script.
    fn run_late(&mut self, what: &str, meanwhile: impl FnOnce(TcpStream, TcpStream) + Send + 'static) {
        self.clock.step.store(1_000_000, Ordering::Relaxed);
        self.send(&eval(what, "stay"));
        let (early, mut other) = (self.early.try_clone().unwrap(), self.other.try_clone().unwrap());
        let thread = std::thread::spawn(move || {
            while ask(&mut other, &["PING"]) != BUSY {}
            meanwhile(early, other);
        });
        self.driven.turn();
        thread.join().unwrap();
        self.driven.settle(0);
    }

    /// Number of keys after a crash now.
    fn keys_after_crash(store: &MemoryStore) -> u64 {
        open(&Arc::new(store.clone_image()), 7).size(0)
    }
}

/// A script begins with everything committed until it has had some short runs in a row, also in a transaction.
#[test]
fn short_scripts_share_a_commit_with_other_requests() {
    let mut scene = Scene::new();
    let (write, one) = (eval("write", "go"), [":1\r\n"]);
    assert_eq!(scene.commits(&write, &one), 2, "a new script may take long");
    scene.make_short();
    assert_eq!(scene.commits(&write, &one), 1);
    let transaction = [request(&["MULTI"]), write.clone(), request(&["EXEC"])].concat();
    let replies = ["+OK\r\n", "+QUEUED\r\n", "*1\r\n", ":1\r\n"];
    assert_eq!(scene.commits(&transaction, &replies), 1);
    scene.clock.step.store(1_000_000, Ordering::Relaxed);
    assert_eq!(scene.commits(&write, &one), 1);
    scene.clock.step.store(0, Ordering::Relaxed);
    assert_eq!(scene.commits(&write, &one), 2, "the last run took long");
    assert_eq!(scene.commits(&transaction, &replies), 2);
    scene.make_short();
    assert_eq!(scene.commits(&write, &one), 1);
}

/// Replies of the iteration leave after a late script, those to later requests of the clients behind them, and the writes stay when the
/// script is killed. A client that sends no more gets its replies, too.
#[test]
fn replies_before_a_late_script_are_held_until_it_ends() {
    let mut scene = Scene::new();
    scene.make_short();
    let store = scene.store.clone();
    scene.run_late("read", move |mut early, mut other| {
        early.write_all(&request(&["GET", "early"])).unwrap();
        early.shutdown(Shutdown::Write).unwrap();
        assert_eq!(ask(&mut other, &["PING"]), BUSY);
        assert!(is_silent(&early), "a reply whose write is not committed");
        assert_eq!(Scene::keys_after_crash(&store), 0, "a commit while a script runs");
        assert_eq!(ask(&mut other, &["SCRIPT", "KILL"]), "+OK\r\n");
    });
    assert_eq!((line(&mut scene.early).as_str(), line(&mut scene.early).as_str()), ("+OK\r\n", BUSY));
    let mut rest = Vec::new();
    scene.early.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "{rest:?}");
    let killed = line(&mut scene.script);
    assert!(killed.contains("Script killed by user with SCRIPT KILL"), "{killed}");
    assert_eq!((scene.driven.net.keyspace.size(0), Scene::keys_after_crash(&scene.store)), (1, 1));
}

/// Requests that a client sends while its own script is late are read after the script: the network tells of them only once.
#[test]
fn requests_behind_a_late_script_are_read() {
    let mut scene = Scene::new();
    let mut script = scene.script.try_clone().unwrap();
    scene.run_late("read", move |_, mut other| {
        script.write_all(&request(&["PING"])).unwrap();
        // The server takes note of network events before each of these replies.
        (0..3).for_each(|_| assert_eq!(ask(&mut other, &["PING"]), BUSY));
        assert_eq!(ask(&mut other, &["SCRIPT", "KILL"]), "+OK\r\n");
    });
    assert!(line(&mut scene.script).contains("Script killed by user"));
    scene.script.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(line(&mut scene.script), "+PONG\r\n");
}

/// Replies while a script is late do not add up until nobody is served, not even who would end the script.
#[test]
fn many_replies_do_not_end_the_service_beside_a_late_script() {
    let mut scene = Scene::new();
    scene.other.write_all(&request(&["PING"])).unwrap();
    scene.other.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let net = &mut scene.driven.net;
    net.event_loop.produced = 2 * TURN_OUTPUT;
    // The request arrives within some of these calls.
    for _ in 0..100 {
        Late::serve(&mut net.event_loop, &mut net.keyspace, &mut net.server);
        std::thread::sleep(Duration::from_millis(1));
        if !is_silent(&scene.other) {
            break;
        }
    }
    assert_eq!(line(&mut scene.other), "+PONG\r\n");
}

/// A late script that has written is not killed; a crash while it runs, or the end of the process, drops the iteration.
#[test]
fn the_end_of_the_process_drops_the_iteration_of_a_late_script() {
    let mut scene = Scene::new();
    scene.make_short();
    let (store, (sender, receiver)) = (scene.store.clone(), channel());
    scene.run_late("write", move |early, mut other| {
        let reply = ask(&mut other, &["SCRIPT", "KILL"]);
        assert!(reply.starts_with("-UNKILLABLE"), "{reply}");
        assert!(is_silent(&early) && Scene::keys_after_crash(&store) == 0);
        other.write_all(&request(&["SHUTDOWN", "NOSAVE"])).unwrap();
        sender.send(other).unwrap();
    });
    assert_eq!(line(&mut scene.early), "-MISCONF Nothing was written: the server was told to end\r\n");
    assert!(scene.driven.net.server.is_ending);
    assert_eq!((scene.driven.net.keyspace.size(0), Scene::keys_after_crash(&scene.store)), (0, 0));
    // The connection that has asked for the end waits for it.
    let mut other = receiver.recv().unwrap();
    assert!(is_silent(&other));
    drop(scene);
    let mut rest = Vec::new();
    other.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "{rest:?}");
}
