//! `appendfsync always`: which clients wait for a sync and which do not, on a medium whose syncs take as long as a test wants.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{Client, Reply, encode};
use sinter_server::command::{Configuration, Fsync, Server};
use sinter_server::keyspace::Keyspace;
use sinter_server::net::{Error, Net, Stopper};
use sinter_storage::store::{Calls, EIO, Fault, FaultStore, MemoryStore, Operation};
use sinterdb::settings::Settings;
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time after which a reply that does not come is taken as held back.
const WHILE: Duration = Duration::from_millis(60);

/// A gate at which syncs wait while it is closed.
#[derive(Default)]
struct Gate {
    /// Whether the gate is closed, and the number of waiting syncs.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, is_closed: bool) {
        self.state.lock().unwrap().0 = is_closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        state = self.changed.wait_while(state, |state| state.0).unwrap();
        state.1 -= 1;
    }

    /// Waits until a sync has come to the gate.
    fn wait(&self) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |state| state.1 == 0).unwrap());
    }
}

/// A server that syncs before it replies, in a thread of this process.
struct Always {
    address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<(), Error>>>,
    gate: Arc<Gate>,
    memory: Arc<MemoryStore>,
    faults: Arc<FaultStore>,
}

impl Always {
    fn start(fsync: Fsync) -> Always {
        let memory = Arc::new(MemoryStore::new());
        let faults = Arc::new(FaultStore::new(memory.clone()));
        let gate = Arc::new(Gate::default());
        let keyspace = Keyspace::open(faults.clone(), &Settings::default(), 7).unwrap();
        let server = Server { configuration: Configuration { fsync, ..Configuration::default() }, ..Server::default() };
        let net = Net::bind("127.0.0.1:0".parse().unwrap(), keyspace, server).unwrap();
        let (address, stopper) = (net.address().unwrap(), net.stopper());
        let thread = Some(std::thread::Builder::new().spawn(move || net.run()).unwrap());
        let always = Always { address, stopper, thread, gate, memory, faults };
        // From now on a write costs one sync, of the log.
        assert_eq!(always.client().ask(&[b"SET", b"old", b"1"]), one("+OK"));
        assert_eq!(always.client().ask(&[b"WAITAOF", b"1", b"0", b"0"]), Reply::Many(b'*', vec![one(":1"), one(":0")]));
        let gate = always.gate.clone();
        let pass = move |_, operation| {
            if operation == Operation::Sync {
                gate.pass();
            }
        };
        always.faults.on_call(Some(Arc::new(pass)));
        always
    }

    fn client(&self) -> Client {
        Client::new(self.address)
    }

    fn close(&self) {
        self.gate.set(true);
    }

    fn open(&self) {
        self.gate.set(false);
    }

    /// Begins a write, and waits until a sync waits for it.
    fn begin(&self, words: &[&str]) -> Client {
        let mut writer = self.client();
        writer.send(&encode(words));
        self.gate.wait();
        writer
    }

    fn end(mut self) -> Result<(), Error> {
        self.stopper.stop();
        self.open();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Always {
    fn drop(&mut self) {
        self.open();
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

fn one(text: &str) -> Reply {
    Reply::One(text.as_bytes().to_vec())
}

fn many(texts: &[&str]) -> Reply {
    Reply::Many(b'*', texts.iter().map(|text| one(text)).collect())
}

fn is_refusal(reply: &Reply) -> bool {
    matches!(reply, Reply::One(bytes) if bytes.starts_with(b"-MISCONF "))
}

/// Number of requests that the server has run.
fn commands(client: &mut Client) -> u64 {
    let Reply::One(text) = client.ask(&[b"INFO", b"stats"]) else { panic!("a text") };
    let text = String::from_utf8(text).unwrap();
    text.lines().find_map(|line| line.strip_prefix("total_commands_processed:")).unwrap().trim().parse().unwrap()
}

/// A sync that ends while the client's script runs late is not forgotten.
#[test]
fn the_client_of_a_late_script_gets_replies_that_waited_for_a_sync() {
    let always = Always::start(Fsync::Always);
    let (mut other, script) = (always.client(), "local n = 0 while n < 100000000 do n = n + 1 end return 1");
    assert_eq!(other.ask(&[b"CONFIG", b"SET", b"busy-reply-threshold", b"1"]), one("+OK"));
    always.close();
    let mut client = always.client();
    client.send(&[encode(&["SET", "k", "v"]), encode(&["EVAL", script, "0"])].concat());
    always.gate.wait();
    // The script is late, or has ended on a fast machine.
    while other.ask(&[b"GET", b"late"]) == one("$-1") && client.is_silent(Duration::from_millis(1)) {}
    always.open();
    assert_eq!((client.reply(), client.reply()), (Some(one("+OK")), Some(one(":1"))));
}

#[test]
fn readers_are_answered_while_a_writer_waits_for_its_sync() {
    let always = Always::start(Fsync::Always);
    let (mut reader, mut curious) = (always.client(), always.client());
    always.close();
    let mut writer = always.begin(&["SET", "k", "v"]);
    writer.send(&[encode(&["GET", "old"]), encode(&["PING"])].concat());
    assert_eq!(reader.ask(&[b"GET", b"old"]), one("$1"));
    assert_eq!(reader.ask(&[b"LRANGE", b"none", b"0", b"-1"]), many(&[]));
    assert_eq!(reader.ask(&[b"PING"]), one("+PONG"));
    // What is not durable is shown to nobody, and replies keep their order.
    curious.send(&[encode(&["PING"]), encode(&["GET", "k"])].concat());
    assert!(writer.is_silent(WHILE));
    curious.send(&encode(&["DBSIZE"]));
    assert_eq!(reader.ask(&[b"GET", b"old"]), one("$1"));
    always.open();
    assert_eq!((writer.reply(), writer.reply(), writer.reply()), (Some(one("+OK")), Some(one("$1")), Some(one("+PONG"))));
    assert_eq!((curious.reply(), curious.reply(), curious.reply()), (Some(one("+PONG")), Some(one("$v")), Some(one(":2"))));
    always.end().unwrap();
}

#[test]
fn who_reads_what_is_not_durable_waits_with_its_writer() {
    let always = Always::start(Fsync::Always);
    always.close();
    let mut writer = always.begin(&["MSET", "a", "1", "b", "2"]);
    let mut waiting: Vec<(Client, Reply)> = Vec::new();
    for (words, reply) in [
        (&["GET", "a"][..], one("$1")),
        (&["MGET", "none", "b"], Reply::Many(b'*', vec![one("$-1"), one("$2")])),
        (&["DBSIZE"], one(":3")),
        (&["STRLEN", "b"], one(":1")),
        (&["WAITAOF", "1", "0", "1"], many(&[":1", ":0"])),
    ] {
        let mut client = always.client();
        client.send(&encode(words));
        waiting.push((client, reply));
    }
    for (client, _) in &mut waiting {
        assert!(client.is_silent(WHILE));
    }
    assert!(writer.is_silent(WHILE));
    always.open();
    assert_eq!(writer.reply(), Some(one("+OK")));
    for (mut client, reply) in waiting {
        assert_eq!(client.reply(), Some(reply));
    }
}

#[test]
fn one_sync_serves_all_who_wait() {
    const WRITERS: usize = 20;
    let always = Always::start(Fsync::Always);
    let mut reader = always.client();
    always.close();
    let mut writers = vec![always.begin(&["INCR", "n"])];
    let syncs = always.faults.count(Operation::Sync);
    let before = commands(&mut reader);
    for _ in 0..WRITERS {
        let mut writer = always.client();
        writer.send(&encode(&["INCR", "n"]));
        writers.push(writer);
    }
    // A turn that has run them has committed them before it sends anything.
    let mut asked = 1;
    while commands(&mut reader) < before + WRITERS as u64 + asked {
        asked += 1;
    }
    assert!(writers.iter_mut().all(|writer| writer.is_silent(Duration::from_millis(5))));
    always.open();
    let mut replies: Vec<Reply> = writers.iter_mut().map(|writer| writer.reply().unwrap()).collect();
    replies.sort_by_key(|reply| reply.to_string().trim_start_matches(':').parse::<usize>().unwrap());
    assert_eq!(replies, (1..=WRITERS + 1).map(|n| one(&format!(":{n}"))).collect::<Vec<_>>());
    assert_eq!(always.faults.count(Operation::Sync) - syncs, 1, "one for all that came while the first one ran");
}

#[test]
fn what_was_acknowledged_or_read_survives_a_power_cut() {
    const CLIENTS: usize = 4;
    let always = Always::start(Fsync::Always);
    always.faults.on_call(Some(Arc::new(|_, operation| {
        if operation == Operation::Sync {
            std::thread::sleep(Duration::from_millis(2));
        }
    })));
    let known: Vec<AtomicU64> = (0..CLIENTS).map(|_| AtomicU64::new(0)).collect();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (n, known) in known.iter().enumerate() {
            let (key, mut writer, mut reader, ends) = (format!("n{n}"), always.client(), always.client(), &ends);
            let name = key.clone();
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let reply = writer.ask(&[b"INCR", key.as_bytes()]).to_string();
                    known.fetch_max(reply[1..].parse().unwrap(), Ordering::Release);
                }
            });
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let reply = reader.ask(&[b"GET", name.as_bytes()]).to_string();
                    known.fetch_max(reply[1..].parse().unwrap_or(0), Ordering::Release);
                }
            });
        }
        for seed in 0..30 {
            std::thread::sleep(Duration::from_millis(7));
            let before: Vec<u64> = known.iter().map(|known| known.load(Ordering::Acquire)).collect();
            let after = Arc::new(always.memory.crash_with(seed));
            let mut keyspace = Keyspace::open(after, &Settings::default(), 7).unwrap();
            for (n, before) in before.into_iter().enumerate() {
                let found = keyspace.string(0, format!("n{n}").as_bytes()).unwrap();
                let found: u64 = found.map_or(0, |text| std::str::from_utf8(text).unwrap().parse().unwrap());
                assert!(found >= before, "seed {seed}: n{n} is {found}, and was {before}");
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert!(known.iter().all(|known| known.load(Ordering::Relaxed) > 0));
}

#[test]
fn after_a_failed_sync_nobody_is_told_that_all_is_well() {
    let always = Always::start(Fsync::Always);
    let (mut second, mut reader) = (always.client(), always.client());
    always.close();
    let mut writer = always.begin(&["SET", "k", "v"]);
    writer.send(&encode(&["PING"]));
    second.send(&encode(&["RPUSH", "list", "x"]));
    reader.send(&encode(&["GET", "k"]));
    assert!(writer.is_silent(WHILE) && second.is_silent(WHILE) && reader.is_silent(WHILE));
    // The call that waits is the last one counted: it and all later ones fail.
    let count = always.faults.count(Operation::Sync);
    always.faults.inject(Fault::from(Calls::Only(Operation::Sync), count - 1, EIO));
    always.open();
    for client in [&mut writer, &mut second, &mut reader] {
        let reply = client.reply().unwrap();
        assert!(is_refusal(&reply), "{reply}");
    }
    assert!(is_refusal(&writer.reply().unwrap()), "what came behind is not known to be right");
    // What is durable can be read; what is not cannot, and nothing is written.
    assert_eq!(reader.ask(&[b"GET", b"old"]), one("$1"));
    assert!(is_refusal(&reader.ask(&[b"GET", b"k"])));
    assert!(is_refusal(&second.ask(&[b"SET", b"other", b"1"])));
    assert_eq!(second.ask(&[b"PING"]), one("+PONG"));
    let mut keyspace = Keyspace::open(Arc::new(always.memory.crash_with(5)), &Settings::default(), 7).unwrap();
    assert_eq!(keyspace.string(0, b"old").unwrap(), Some(&b"1"[..]));
    assert!(always.end().is_err(), "closing tells of it, too");
}

#[test]
fn messages_and_those_who_are_served_wait_with_the_writer() {
    let always = Always::start(Fsync::Always);
    let (mut listener, mut other, mut blocked) = (always.client(), always.client(), always.client());
    let (mut writer, mut stranger) = (always.client(), always.client());
    listener.ask(&[b"SUBSCRIBE", b"news"]);
    other.ask(&[b"SUBSCRIBE", b"else"]);
    blocked.send(&encode(&["BLPOP", "list", "0"]));
    assert!(blocked.is_silent(WHILE));
    for (words, reply) in [
        (&[&b"MULTI"[..]][..], "+OK"),
        (&[b"RPUSH", b"list", b"x"], "+QUEUED"),
        (&[b"SET", b"k", b"v"], "+QUEUED"),
        (&[b"PUBLISH", b"news", b"set"], "+QUEUED"),
    ] {
        assert_eq!(writer.ask(words), one(reply));
    }
    always.close();
    writer.send(&encode(&["EXEC"]));
    always.gate.wait();
    assert_eq!(stranger.ask(&[b"PUBLISH", b"else", b"hi"]), one(":1"));
    assert_eq!(other.reply(), Some(many(&["$message", "$else", "$hi"])));
    assert!(writer.is_silent(WHILE) && listener.is_silent(WHILE) && blocked.is_silent(WHILE));
    always.open();
    assert_eq!(writer.reply(), Some(many(&[":1", "+OK", ":1"])));
    assert_eq!(listener.reply(), Some(many(&["$message", "$news", "$set"])));
    assert_eq!(blocked.reply(), Some(many(&["$list", "$x"])));
}

/// A server with a client that tracks keys and has read one, and a writer.
fn tracked(always: &Always) -> Client {
    let mut reader = always.client();
    reader.ask(&[b"HELLO", b"3"]);
    assert_eq!(reader.ask(&[b"CLIENT", b"TRACKING", b"ON"]), one("+OK"));
    assert_eq!(reader.ask(&[b"GET", b"old"]), one("$1"));
    reader
}

fn invalidation(keys: Reply) -> Option<Reply> {
    Some(Reply::Many(b'>', vec![one("$invalidate"), keys]))
}

#[test]
fn invalidations_wait_with_the_writer() {
    let always = Always::start(Fsync::Always);
    let (mut reader, mut broad) = (tracked(&always), always.client());
    broad.ask(&[b"HELLO", b"3"]);
    assert_eq!(broad.ask(&[b"CLIENT", b"TRACKING", b"ON", b"BCAST"]), one("+OK"));
    always.close();
    let mut writer = always.begin(&["SET", "old", "2"]);
    assert!(writer.is_silent(WHILE) && reader.is_silent(WHILE) && broad.is_silent(WHILE));
    always.open();
    assert_eq!(writer.reply(), Some(one("+OK")));
    assert_eq!(reader.reply(), invalidation(many(&["$old"])));
    assert_eq!(broad.reply(), invalidation(many(&["$old"])));
}

/// A write that failed may be found later, and the server has forgotten who has read the key.
#[test]
fn invalidations_lost_with_a_failed_sync_are_made_good_for() {
    let always = Always::start(Fsync::Always);
    let (mut reader, mut writer) = (tracked(&always), always.client());
    always.close();
    writer.send(&encode(&["SET", "old", "2"]));
    always.gate.wait();
    assert!(reader.is_silent(WHILE));
    let count = always.faults.count(Operation::Sync);
    always.faults.inject(Fault::from(Calls::Only(Operation::Sync), count - 1, EIO));
    always.open();
    assert!(is_refusal(&writer.reply().unwrap()));
    assert_eq!(reader.reply(), invalidation(one("_")));
    assert_eq!(reader.ask(&[b"PING"]), one("+PONG"));
}

/// A change that cannot be committed is none; its messages are gone with the replies of the turn.
#[test]
fn invalidations_lost_with_a_failed_commit_are_made_good_for() {
    let always = Always::start(Fsync::EverySecond);
    let (mut reader, mut writer) = (tracked(&always), always.client());
    always.faults.inject(Fault::from(Calls::Mutating, always.faults.mutating_calls(), EIO));
    assert!(is_refusal(&writer.ask(&[b"SET", b"old", b"2"])));
    assert_eq!(reader.reply(), invalidation(one("_")));
    assert_eq!(reader.ask(&[b"PING"]), one("+PONG"));
}

#[test]
fn who_waits_may_go() {
    let always = Always::start(Fsync::Always);
    always.close();
    let mut killed = always.begin(&["SET", "killed", "1"]);
    let mut control = always.client();
    let address = killed.sender().local_addr().unwrap().to_string();
    assert_eq!(control.ask(&[b"CLIENT", b"KILL", b"ADDR", address.as_bytes()]), one(":1"));
    assert_eq!(killed.reply(), None);
    drop(always.begin(&["SET", "gone", "1"]));
    let mut silent = always.begin(&["SET", "silent", "1"]);
    silent.sender().shutdown(Shutdown::Write).unwrap();
    let mut leaving = always.begin(&["SET", "leaving", "1"]);
    leaving.send(&encode(&["QUIT"]));
    assert!(silent.is_silent(WHILE) && leaving.is_silent(WHILE));
    always.open();
    assert_eq!((silent.reply(), silent.reply()), (Some(one("+OK")), None));
    assert_eq!((leaving.reply(), leaving.reply(), leaving.reply()), (Some(one("+OK")), Some(one("+OK")), None));
    assert_eq!(control.ask(&[b"EXISTS", b"killed", b"gone", b"silent", b"leaving"]), one(":4"));
    always.end().unwrap();
}

#[test]
fn at_the_end_who_waits_is_answered() {
    let always = Always::start(Fsync::Always);
    always.close();
    let mut writer = always.begin(&["SET", "k", "v"]);
    let memory = always.memory.clone();
    always.end().unwrap();
    assert_eq!((writer.reply(), writer.reply()), (Some(one("+OK")), None));
    let mut keyspace = Keyspace::open(Arc::new(memory.crash_with(3)), &Settings::default(), 7).unwrap();
    assert_eq!(keyspace.string(0, b"k").unwrap(), Some(&b"v"[..]));
}

#[test]
fn the_mode_is_changed_while_it_runs() {
    let always = Always::start(Fsync::EverySecond);
    let mut client = always.client();
    always.close();
    assert_eq!(client.ask(&[b"SET", b"k", b"1"]), one("+OK"));
    client.send(&[encode(&["CONFIG", "SET", "appendfsync", "always"]), encode(&["SET", "k", "2"])].concat());
    assert!(client.is_silent(WHILE));
    let mut other = always.client();
    assert_eq!(other.ask(&[b"CONFIG", b"SET", b"appendfsync", b"everysec"]), one("+OK"));
    assert_eq!(other.ask(&[b"SET", b"k", b"3"]), one("+OK"));
    // What was held stays so.
    assert!(client.is_silent(WHILE));
    always.open();
    assert_eq!((client.reply(), client.reply()), (Some(one("+OK")), Some(one("+OK"))));
}
