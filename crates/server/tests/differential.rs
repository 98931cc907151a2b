//! Sends random commands to this server and to a real `redis-server`: replies must be equal, byte for byte, in RESP2 and RESP3.
//!
//! Replies that Redis gives in no order are sorted first: members of sets and fields of hashes. Needs `redis-server` 7.0 on the path, and
//! says so where there is none. A failure prints the seed and the last commands.

use crate::common::commands::{Random, command};
use crate::common::{Client, Real, Reply, Served, encode};
use sinter_server::command::{Allowed, Command, Configuration, Group, Server, TABLE};
use sinter_storage::store::MemoryStore;
use std::collections::VecDeque;
use std::sync::Arc;

/// Commands per protocol.
const COMMANDS: usize = 100_000;
/// Largest number of commands sent at once: they are one turn here.
const AT_ONCE: usize = 30;
/// Commands that are printed with a failure.
const SHOWN: usize = 12;
/// Number of differences after which a test stops.
const COMPLAINTS: usize = 12;

/// Commands whose replies come in no order.
fn is_unordered(name: &str) -> bool {
    ["SMEMBERS", "SINTER", "SUNION", "SDIFF", "HKEYS", "HVALS", "HGETALL"].contains(&name)
}

/// Sorts the unordered parts of a reply. Replies to `EXEC` are those of the commands that were `queued`.
fn in_order(name: &str, queued: Option<&[String]>, reply: Reply) -> Reply {
    match (queued, reply) {
        (Some(queued), Reply::Many(mark, replies)) if queued.len() == replies.len() => {
            Reply::Many(mark, queued.iter().zip(replies).map(|(name, reply)| in_order(name, None, reply)).collect())
        }
        (_, reply) if is_unordered(name) => reply.sorted(name == "HGETALL"),
        (_, reply) if name.starts_with('X') => without_times(reply),
        (_, Reply::One(text)) if name == "OBJECT" && is_listpack_later(&text) => Reply::One(b"$listpack".to_vec()),
        (_, reply) => reply,
    }
}

/// Whether Redis 7.0 gives this encoding to a small value that is a listpack from Redis 7.2 on, and here. Values that are listpacks in 7.0
/// are compared in `order`.
fn is_listpack_later(encoding: &[u8]) -> bool {
    encoding == b"$quicklist" || encoding == b"$hashtable"
}

/// Replaces times and figures of Redis's memory by one text: times of today, and times since a delivery of today, cannot be compared.
fn without_times(reply: Reply) -> Reply {
    const LABELS: [&[u8]; 4] = [b"$radix-tree-keys", b"$radix-tree-nodes", b"$idle", b"$seen-time"];
    let any = || Reply::One(b"any".to_vec());
    match reply {
        Reply::Many(mark, members) => {
            let mut members: Vec<Reply> = members.into_iter().map(without_times).collect();
            for n in 1..members.len() {
                if matches!(&members[n - 1], Reply::One(label) if LABELS.contains(&label.as_slice())) {
                    members[n] = any();
                }
            }
            // A pending entry: its id, consumer, time and deliveries.
            if let [Reply::One(_), Reply::One(_), Reply::One(time), Reply::One(deliveries)] = members.as_mut_slice()
                && time.starts_with(b":")
                && deliveries.starts_with(b":")
            {
                members[2] = any();
            }
            Reply::Many(mark, members)
        }
        Reply::One(text) => {
            let number = text.strip_prefix(b":").and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<i64>().ok());
            if number.is_some_and(|number| number > 1_500_000_000_000 && number < 10_000_000_000_000) { any() } else { Reply::One(text) }
        }
    }
}

/// Clients of this server and of Redis that listen to changes of keys, and clients that end the listening with a message of their own.
struct Listening {
    listeners: [Client; 2],
    senders: [Client; 2],
}

impl Listening {
    fn new(clients: impl Fn() -> [Client; 2]) -> Listening {
        let mut all = Listening { listeners: clients(), senders: clients() };
        all.senders.iter_mut().for_each(|sender| drop(sender.ask(&[b"CONFIG", b"SET", b"notify-keyspace-events", b"KAn"])));
        all.listeners.iter_mut().for_each(|listener| drop(listener.ask(&[b"PSUBSCRIBE", b"*"])));
        all
    }

    /// Messages that both listeners have received since the last call.
    fn heard(&mut self) -> [Vec<String>; 2] {
        self.senders.iter_mut().for_each(|sender| drop(sender.ask(&[b"PUBLISH", b"x", b"END"])));
        self.listeners.each_mut().map(|listener| {
            let mut all = Vec::new();
            while all.last().is_none_or(|last: &String| !last.contains("$END")) {
                all.push(listener.reply().map_or_else(|| "$END: closed".into(), |message| message.to_string()));
            }
            all
        })
    }
}

/// Sends equal commands to both servers and compares their replies.
struct Pair {
    ours: Client,
    theirs: Client,
    listening: Option<Listening>,
    shown: VecDeque<String>,
    queued: Option<Vec<String>>,
    complaints: Vec<String>,
}

impl Pair {
    /// Sends all commands at once and compares reply by reply.
    fn compare_all(&mut self, commands: &[Vec<String>], what: &str) {
        let requests: Vec<u8> = commands.iter().flat_map(|command| encode(command)).collect();
        self.ours.send(&requests);
        self.theirs.send(&requests);
        let before = self.complaints.len();
        for command in commands {
            let (ours, theirs) = (self.ours.reply(), self.theirs.reply());
            // What comes behind a difference may follow from it.
            if self.complaints.len() == before {
                let (Some(ours), Some(theirs)) = (ours, theirs) else { panic!("{what}: {command:?}: a connection was closed") };
                self.compare(command, (ours, theirs), what);
            }
        }
        let [ours, theirs] = self.listening.as_mut().map(Listening::heard).unwrap_or_default();
        if self.complaints.len() == before && ours != theirs {
            let at = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs).unwrap_or(0);
            self.complaints.push(format!("{what}\n  {commands:?}\nours:   {:?}\ntheirs: {:?}", &ours[at..], &theirs[at..]));
        }
        if self.complaints.len() > before {
            // From here on they may differ in what they hold.
            for client in [&mut self.ours, &mut self.theirs] {
                client.ask(&[b"DISCARD"]);
                client.ask(&[b"UNWATCH"]);
                client.ask(&[b"FLUSHALL"]);
            }
            self.queued = None;
        }
    }

    fn compare(&mut self, command: &[String], (ours, theirs): (Reply, Reply), what: &str) {
        self.shown.push_back(format!("{command:?}"));
        if self.shown.len() > SHOWN {
            self.shown.pop_front();
        }
        let name = command[0].clone();
        let queued = self.queued.clone().filter(|_| name == "EXEC");
        let is_queued = matches!(&theirs, Reply::One(text) if text == b"+QUEUED");
        let (ours, theirs) = (in_order(&name, queued.as_deref(), ours), in_order(&name, queued.as_deref(), theirs));
        if ours != theirs {
            let before = self.shown.iter().cloned().collect::<Vec<_>>().join("\n  ");
            self.complaints.push(format!("{what}\n  {before}\nours:   {ours}\ntheirs: {theirs}"));
            return;
        }
        let ends = name == "EXEC" || name == "DISCARD" && command.len() == 1;
        match &mut self.queued {
            _ if ends => self.queued = None,
            Some(queued) if is_queued => queued.push(name),
            None if name == "MULTI" => self.queued = Some(Vec::new()),
            _ => {}
        }
    }
}

/// A command on sorted sets of thousands of members, `z` by many scores and `lex` by one.
fn command_on_many(random: &mut Random) -> Vec<String> {
    let member = |random: &mut Random| format!("{:05}", random.below(9000));
    let score = |random: &mut Random| format!("{}", random.below(4000) as f64 / 4.0);
    let position = |random: &mut Random| (random.below(9000) as i64 - 4500).to_string();
    let lines = [
        "ZRANK z m",
        "ZREVRANK z m",
        "ZRANK lex m",
        "ZRANK u m",
        "ZREVRANK lex m",
        "ZRANGE z n +",
        "ZRANGE z n + REV WITHSCORES",
        "ZREVRANGE z n +",
        "ZREVRANGE lex n +",
        "ZCOUNT z s s",
        "ZCOUNT z (s +inf",
        "ZCOUNT lex 0 s",
        "ZLEXCOUNT lex [m (m",
        "ZLEXCOUNT lex - [m",
        "ZREMRANGEBYRANK z n +",
        "ZREMRANGEBYRANK lex n +",
        "SORT z BY nosort LIMIT p 5",
        "SORT z BY nosort DESC LIMIT p 5",
        "ZADD z s m s m s m s m s m s m",
        "ZADD z XX s m",
        "ZINCRBY z s m",
        "ZADD lex 0 m 0 m 0 m 0 m",
        "ZREM z m m m",
        "ZREM lex m m",
        "ZPOPMIN z 3",
        "ZPOPMAX lex",
        "ZREMRANGEBYSCORE z s (s",
        "ZREMRANGEBYLEX lex [m [m",
        "COPY z t REPLACE",
        "RENAME t u",
        "DEL t",
        "ZRANGESTORE t z n n",
        "ZUNIONSTORE t 2 z lex",
        "GEOADD t 13.361389 38.115556 m",
        "MULTI",
        "EXEC",
        "DISCARD",
        "WATCH z",
        "UNWATCH",
    ];
    // Ranks are asked for more often than anything is written.
    let line = lines[if random.below(2) == 0 { random.below(14) } else { random.below(lines.len()) }];
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        words.push(match word {
            "m" => member(random),
            "[m" => format!("[{}", member(random)),
            "(m" => format!("({}", member(random)),
            "s" => score(random),
            "(s" => format!("({}", score(random)),
            "n" => position(random),
            "p" => random.below(3000).to_string(),
            // A few behind the position before.
            "+" => (words.last().and_then(|last| last.parse::<i64>().ok()).unwrap_or(0) + random.below(30) as i64).to_string(),
            word => word.to_owned(),
        });
    }
    // Few of them, or there would soon be none.
    match words[0].as_str() {
        "ZREMRANGEBYSCORE" => words[3] = format!("({}", words[2].parse::<f64>().unwrap_or(0.0) + 2.0),
        "ZREMRANGEBYLEX" => words[3] = format!("[{:05}", words[2][1..].parse::<u32>().unwrap_or(0) + 5),
        _ => {}
    }
    words
}

/// Gives both sorted sets thousands of members.
fn fill_many(random: &mut Random) -> Vec<Vec<String>> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut commands = vec![words("DISCARD"), words("FLUSHALL")];
    for from in (0..6000).step_by(50) {
        let (mut by_score, mut by_name) = (words("ZADD z"), words("ZADD lex"));
        for n in from..from + 50 {
            by_score.extend([format!("{}", random.below(4000) as f64 / 4.0), format!("{n:05}")]);
            by_name.extend(["0".into(), format!("{n:05}")]);
        }
        commands.extend([by_score, by_name]);
    }
    commands
}

/// Cached ranks must be right after every write.
#[test]
fn large_sorted_sets_have_the_ranks_of_redis() {
    let Some(real) = Real::start() else { return };
    let served = Served::start();
    let [ours, theirs] = [served.client(), real.client()];
    let mut pair = Pair { ours, theirs, listening: None, shown: VecDeque::new(), queued: None, complaints: Vec::new() };
    let mut random = Random::new(4);
    for round in 0..2000 {
        let commands = if round % 250 == 0 {
            fill_many(&mut random)
        } else {
            (0..=random.below(AT_ONCE)).map(|_| command_on_many(&mut random)).collect()
        };
        pair.compare_all(&commands, &format!("round {round}"));
        assert!(pair.complaints.is_empty(), "{}", pair.complaints.join("\n\n"));
    }
}

fn run(protocol: &str, seed: u64, listens: bool) {
    let Some(real) = Real::start() else {
        eprintln!("skipped: there is no redis-server 7.0 here to compare with");
        return;
    };
    let configuration = Configuration { debug_command: Allowed::Yes, ..Configuration::default() };
    let served = Served::with(Server { configuration, ..Server::default() }, Arc::new(MemoryStore::new()));
    let clients = || [served.client(), real.client()];
    let [ours, theirs] = clients();
    let listening = listens.then(|| Listening::new(clients));
    let mut pair = Pair { ours, theirs, listening, shown: VecDeque::new(), queued: None, complaints: Vec::new() };
    for client in [&mut pair.ours, &mut pair.theirs] {
        client.ask(&[b"HELLO", protocol.as_bytes()]);
    }
    let mut random = Random::new(seed);
    let (mut sent, mut since_clearing) = (0, 0);
    while sent < COMMANDS && pair.complaints.len() < COMPLAINTS {
        let mut commands: Vec<Vec<String>> = (0..=random.below(AT_ONCE)).map(|_| command(&mut random)).collect();
        if since_clearing > 500 {
            since_clearing = 0;
            commands.extend(["DISCARD", "DBSIZE", "FLUSHALL"].map(|line| vec![line.to_owned()]));
        }
        pair.compare_all(&commands, &format!("RESP{protocol}, seed {seed}, commands from {sent}"));
        sent += commands.len();
        since_clearing += commands.len();
    }
    assert!(pair.complaints.is_empty(), "{} differences:\n\n{}", pair.complaints.len(), pair.complaints.join("\n\n"));
}

#[test]
fn replies_are_those_of_redis_in_resp2() {
    run("2", 1, false);
}

#[test]
fn replies_are_those_of_redis_in_resp3() {
    run("3", 2, false);
}

#[test]
fn changes_of_keys_are_told_as_redis_does() {
    run("2", 3, true);
}

/// Replies to `COMMAND INFO` match: name, arity, flags, positions of keys, categories.
#[test]
fn commands_are_described_as_redis_does() {
    let Some(real) = Real::start() else { return };
    let served = Served::start();
    let (mut ours, mut theirs) = (served.client(), real.client());
    let described = |client: &mut Client, name: &str| -> Vec<Reply> {
        let Reply::Many(_, mut entries) = client.ask(&[b"COMMAND", b"INFO", name.as_bytes()]) else { return Vec::new() };
        let Some(Reply::Many(_, parts)) = entries.pop() else { return Vec::new() };
        parts.into_iter().take(7).map(|part| part.sorted(false)).collect()
    };
    let all = TABLE.iter().flat_map(|family| family.iter());
    let is_meant = |command: &&Command| {
        [Group::Bitmap, Group::HyperLogLog, Group::Geo].contains(&command.group)
            || ["sort", "sort_ro", "lcs", "debug", "lolwut"].contains(&command.name)
    };
    for command in all.filter(is_meant) {
        let (ours, theirs) = (described(&mut ours, command.name), described(&mut theirs, command.name));
        assert!(ours.len() == 7 && ours == theirs, "{}: {ours:?}\n{theirs:?}", command.name);
    }
}
