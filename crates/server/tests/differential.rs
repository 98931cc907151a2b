//! The same random commands to this server and to a real `redis-server`: every reply must be the same, byte for byte, in RESP2 and RESP3.
//!
//! What Redis leaves open is put in order first: members of sets and fields of hashes come in no order. Needs `redis-server` 7.0 on the
//! path, and says so where there is none. A failure prints the seed and the last commands.

mod common;

use common::{Client, Real, Reply, Served, encode, shapes};
use sinter_server::command::{Allowed, Command, Configuration, Group, Server, TABLE};
use sinter_storage::store::MemoryStore;
use std::collections::VecDeque;
use std::sync::Arc;

/// Commands per protocol.
const COMMANDS: usize = 100_000;
/// Most commands that are sent at once: they are one turn here.
const AT_ONCE: usize = 30;
/// Commands that are printed with a failure.
const SHOWN: usize = 12;
/// Differences after which there is no more to be learned.
const COMPLAINTS: usize = 12;

/// State, and the number of the last id of a stream's entry.
struct Random(u64, u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % n.max(1)
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

/// Shapes of commands. A word in small letters that is one of the kinds below stands for a random argument, everything else for itself;
/// a trailing `?` makes a word optional, `...` repeats what is before it.
const SHAPES: &[&str] = &[
    // Strings.
    "GET k",
    "SET k v",
    "SET k v",
    "SET k n",
    "SET k v NX",
    "SET k v XX",
    "SET k v GET",
    "SET k v KEEPTTL",
    "SET k v XX GET",
    "SET k v EX long",
    "SET k v PX long KEEPTTL",
    "SET k v EX e",
    "SETNX k v",
    "SETEX k e v",
    "PSETEX k long v",
    "GETSET k v",
    "GETDEL k",
    "GETEX k",
    "GETEX k PERSIST",
    "GETEX k EX long",
    "MGET k k k",
    "MSET k v k v",
    "MSET k v k",
    "MSETNX k v k n",
    "APPEND k v",
    "STRLEN k",
    "GETRANGE k n n",
    "SUBSTR k n n",
    "SETRANGE k small v",
    "INCR k",
    "DECR k",
    "INCRBY k n",
    "DECRBY k n",
    "INCRBYFLOAT k f",
    // Keys.
    "DEL k",
    "DEL k k k",
    "UNLINK k",
    "EXISTS k k",
    "TYPE k",
    "RENAME k k",
    "RENAMENX k k",
    "EXPIRE k long",
    "EXPIRE k e",
    "PEXPIREAT k at GT",
    "PEXPIREAT k at LT",
    "EXPIRE k long NX",
    "PEXPIREAT k at XX GT",
    "EXPIRE k long NX XX",
    "EXPIRE k x",
    "PERSIST k",
    "COPY k k",
    "COPY k k REPLACE",
    "COPY k k DB 1",
    "MOVE k 1",
    "TOUCH k k",
    "DBSIZE",
    "SWAPDB 0 0",
    "SWAPDB n n",
    "SWAPDB 1 0",
    "TTL none",
    "OBJECT REFCOUNT none",
    "EXPIREAT k 99999999999",
    "EXPIRETIME none",
    "PEXPIREAT k 99999999999000",
    "PEXPIRETIME none",
    // Hashes.
    "HSET k m v",
    "HSET k m v m v",
    "HSET k m v m",
    "HMSET k m v",
    "HSETNX k m v",
    "HGET k m",
    "HMGET k m m m",
    "HDEL k m",
    "HDEL k m m",
    "HLEN k",
    "HSTRLEN k m",
    "HEXISTS k m",
    "HGETALL k",
    "HKEYS k",
    "HVALS k",
    "HINCRBY k m n",
    "HINCRBYFLOAT k m f",
    "HRANDFIELD none 3",
    // Lists.
    "LPUSH k v",
    "RPUSH k v v v",
    "LPUSHX k v",
    "RPUSHX k v",
    "LPOP k",
    "RPOP k",
    "LPOP k small",
    "RPOP k n",
    "LLEN k",
    "LINDEX k n",
    "LSET k n v",
    "LRANGE k n n",
    "LTRIM k n n",
    "LREM k n v",
    "LINSERT k BEFORE v v",
    "LINSERT k AFTER v v",
    "LINSERT k NEAR v v",
    "LPOS k v",
    "LPOS k v RANK n",
    "LPOS k v COUNT small",
    "LPOS k v RANK -1 COUNT 2 MAXLEN small",
    "LMOVE k k LEFT RIGHT",
    "LMOVE k k RIGHT LEFT",
    "RPOPLPUSH k k",
    "LMPOP 2 k k LEFT",
    "LMPOP 1 k RIGHT COUNT small",
    "LMPOP n k LEFT",
    "BLMPOP 0 1 none LEFT COUNT 0",
    "BLPOP k x",
    "BRPOP k k -1",
    "BLMOVE k k LEFT MIDDLE 0",
    "BRPOPLPUSH k k x",
    // Sets.
    "SADD k m",
    "SADD k m m m",
    "SREM k m m",
    "SISMEMBER k m",
    "SMISMEMBER k m m",
    "SCARD k",
    "SMEMBERS k",
    "SMOVE k k m",
    "SINTER k k",
    "SUNION k k k",
    "SDIFF k k",
    "SINTERSTORE k k k",
    "SUNIONSTORE k k k",
    "SDIFFSTORE k k k",
    "SINTERCARD 2 k k",
    "SINTERCARD 2 k k LIMIT small",
    "SINTERCARD n k",
    "SPOP none",
    "SRANDMEMBER none n",
    // Sorted sets.
    "ZADD k f m",
    "ZADD k f m f m f m",
    "ZADD k NX f m",
    "ZADD k XX CH f m",
    "ZADD k GT CH f m",
    "ZADD k LT f m",
    "ZADD k INCR f m",
    "ZADD k XX INCR f m",
    "ZADD k NX GT f m",
    "ZADD k f",
    "ZINCRBY k f m",
    "ZREM k m m",
    "ZSCORE k m",
    "ZMSCORE k m m",
    "ZCARD k",
    "ZRANK k m",
    "ZREVRANK k m",
    "ZRANGE k n n",
    "ZRANGE k n n WITHSCORES",
    "ZRANGE k n n REV WITHSCORES",
    "ZRANGE k s s BYSCORE",
    "ZRANGE k s s BYSCORE WITHSCORES LIMIT small small",
    "ZRANGE k s s BYSCORE REV LIMIT n n",
    "ZRANGE k n n LIMIT 1 1",
    "ZREVRANGE k n n WITHSCORES",
    "ZRANGEBYSCORE k s s",
    "ZREVRANGEBYSCORE k s s WITHSCORES",
    "ZRANGEBYLEX lex r r",
    "ZREVRANGEBYLEX lex r r",
    "ZRANGE lex r r BYLEX",
    "ZLEXCOUNT lex r r",
    "ZREMRANGEBYLEX lex r r",
    "ZADD lex 0 m 0 m",
    "ZCOUNT k s s",
    "ZREMRANGEBYRANK k n n",
    "ZREMRANGEBYSCORE k s s",
    "ZPOPMIN k",
    "ZPOPMAX k small",
    "ZPOPMIN k n",
    "ZMPOP 2 k k MIN",
    "ZMPOP 1 k MAX COUNT small",
    "BZPOPMIN k k -1",
    "BZMPOP 0 2 k k MAX COUNT x",
    "ZUNION 2 k k WITHSCORES",
    "ZINTER 2 k k WITHSCORES",
    "ZDIFF 2 k k WITHSCORES",
    "ZUNIONSTORE k 2 k k WEIGHTS f f",
    "ZINTERSTORE k 2 k k AGGREGATE MAX",
    "ZDIFFSTORE k 2 k k",
    "ZUNIONSTORE k 2 k k AGGREGATE MIN",
    "ZINTERCARD 2 k k",
    "ZUNION 0 k",
    "ZRANGESTORE k k n n",
    "ZRANGESTORE k k s s BYSCORE",
    // Streams.
    "XADD st up m v",
    "XADD st up m v",
    "XADD st up m v",
    "XADD st up m v m v",
    "XADD st up m v m",
    "XADD st id m v",
    "XADD st ms-* m v",
    "XADD k up m v",
    "XADD st NOMKSTREAM up m v",
    "XADD st MAXLEN small up m v",
    "XADD st MAXLEN = n up m v",
    "XADD st MINID id up m v",
    "XADD st MAXLEN ~ n LIMIT n up m v",
    "XADD st NOMKSTREAM MINID ~ 0 up m v",
    "XLEN st",
    "XLEN k",
    "XRANGE st lo hi",
    "XRANGE st lo hi COUNT n",
    "XREVRANGE st hi lo",
    "XREVRANGE st hi lo COUNT small",
    "XRANGE k - +",
    "XDEL st id",
    "XDEL st id id id",
    "XTRIM st MAXLEN small",
    "XTRIM st MAXLEN ~ n",
    "XTRIM st MAXLEN ~ small LIMIT n",
    "XTRIM st MAXLEN small LIMIT n",
    "XTRIM st MINID = id",
    "XTRIM st MINID ~ 0",
    "XTRIM st LIMIT n",
    "XTRIM st MAXLEN 1 MINID id",
    "XSETID st id",
    "XSETID st id ENTRIESADDED small",
    "XSETID st id ENTRIESADDED n MAXDELETEDID x",
    "XSETID st id ENTRIESADDED small MAXDELETEDID id",
    "XREAD STREAMS st id",
    "XREAD STREAMS st st id $",
    "XREAD COUNT n STREAMS st st id id",
    "XREAD COUNT small STREAMS k id",
    "XREAD STREAMS st >",
    "XREAD STREAMS st st id",
    "XREAD GROUP gr co STREAMS st id",
    "XREAD NOACK STREAMS st id",
    "XREAD BLOCK x STREAMS st id",
    "XREAD BLOCK -1 STREAMS st id",
    "XGROUP CREATE st gr id",
    "XGROUP CREATE st gr $ MKSTREAM",
    "XGROUP CREATE st gr 0 MKSTREAM",
    "XGROUP CREATE st gr id ENTRIESREAD n MKSTREAM",
    "XGROUP CREATE st gr id NOSUCH",
    "XGROUP CREATE k gr $",
    "XGROUP SETID st gr id",
    "XGROUP SETID st gr $ ENTRIESREAD n",
    "XGROUP SETID st gr -",
    "XGROUP DESTROY st gr",
    "XGROUP CREATECONSUMER st gr co",
    "XGROUP DELCONSUMER st gr co",
    "XGROUP NOSUCH st",
    "XREADGROUP GROUP gr co STREAMS st >",
    "XREADGROUP GROUP gr co COUNT small STREAMS st >",
    "XREADGROUP GROUP gr co COUNT small STREAMS st st > >",
    "XREADGROUP GROUP gr co NOACK COUNT 1 STREAMS st >",
    "XREADGROUP GROUP gr co COUNT n STREAMS st id",
    "XREADGROUP GROUP gr co STREAMS st st id >",
    "XREADGROUP GROUP gr co STREAMS st $",
    "XREADGROUP NOACK COUNT 1 STREAMS st st > >",
    "XACK st gr id",
    "XACK st gr id id id",
    "XPENDING st gr",
    "XPENDING st gr lo hi n",
    "XPENDING st gr lo hi 10 co",
    "XPENDING st gr IDLE idle lo hi small",
    "XPENDING st gr IDLE idle lo hi",
    "XPENDING k gr",
    "XCLAIM st gr co idle id",
    "XCLAIM st gr co idle id id id",
    "XCLAIM st gr co 0 id TIME 1000",
    "XCLAIM st gr co 0 id id TIME 1000 JUSTID",
    "XCLAIM st gr co idle id IDLE idle RETRYCOUNT n FORCE JUSTID",
    "XCLAIM st gr co 0 id FORCE",
    "XCLAIM st gr co 0 id LASTID id",
    "XCLAIM st gr co 0 id NOSUCH",
    "XAUTOCLAIM st gr co idle lo",
    "XAUTOCLAIM st gr co idle lo COUNT n",
    "XAUTOCLAIM st gr co idle lo COUNT 1 JUSTID",
    "XINFO STREAM st",
    "XINFO STREAM st FULL",
    "XINFO STREAM st FULL COUNT n",
    "XINFO STREAM st COUNT",
    "XINFO STREAM k",
    "XINFO GROUPS st",
    "XINFO CONSUMERS st gr",
    "XINFO NOSUCH st",
    "TYPE st",
    "OBJECT ENCODING st",
    "DEL st",
    "RENAME st st",
    "COPY st st",
    "COPY st k REPLACE",
    "COPY st st REPLACE",
    "COMMAND GETKEYS XREADGROUP GROUP g c STREAMS a b 0 0",
    // The rest.
    "PING",
    "PING x",
    "ECHO x",
    "SELECT 0",
    "WAIT 0 0",
    "WAIT n x",
    "PUBLISH none x",
    "PUBSUB NUMSUB a b",
    "SELECT 99",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH k",
    "UNWATCH",
    "NOSUCH a b",
    "GET",
    "CLIENT SETNAME x",
    "CLIENT GETNAME",
    "CLIENT NOSUCH",
    "CONFIG NOSUCH",
    "OBJECT NOSUCH",
    "FLUSHDB x",
    "SCAN x",
    "SCAN 0 COUNT 0",
    "HSCAN none 0",
    "SSCAN k x",
    "COMMAND GETKEYS MSET a 1 b 2",
    "AUTH x",
    "DISCARD x",
];

fn argument(kind: &str, random: &mut Random) -> String {
    match kind {
        "k" => format!("key{}", random.below(9)),
        "v" => random.of(&["a", "b", "c", "", "hello world", "10", "3.5", "with \"quotes\""]).into(),
        "m" => random.of(&["a", "b", "c", "d", "aa", "", "\u{fc}", "1", "2"]).into(),
        "n" => random.of(&["0", "1", "2", "-1", "-2", "5", "-100", "100", "x", "1.5", "9223372036854775807"]).into(),
        "small" => random.of(&["0", "1", "2", "3", "7"]).into(),
        // Nothing ends while the test runs.
        "e" => random.of(&["0", "-1", "x", "100000", "9223372036854775807"]).into(),
        // Both servers look at the clock, so what is compared with a deadline must not come from there.
        "at" => random.of(&["3000000000000", "4000000000000"]).into(),
        "long" => random.of(&["100000000", "200000000"]).into(),
        "f" => random.of(&["0", "1", "-1", "1.5", "2", "0.1", "3", "-0.25", "1e3", "inf", "-inf", "x", "nan"]).into(),
        "s" => random.of(&["0", "1", "(1", "-inf", "+inf", "(2", "-1", "1.5", "inf", "x"]).into(),
        "r" => random.of(&["-", "+", "[a", "(a", "[b", "(c", "[aa", "x"]).into(),
        "st" => format!("stream{}", random.below(3)),
        "gr" => random.of(&["g", "g", "h", ""]).into(),
        "co" => random.of(&["alice", "bob", ""]).into(),
        // Longer ago or shorter than anything that the test can take.
        "idle" => random.of(&["0", "1000000000", "-1", "x"]).into(),
        "up" => {
            random.1 += 1 + random.below(2) as u64;
            entry_id(random.1)
        }
        "ms-*" => format!("{}-*", random.1 / 4),
        "id" => some_id(random, &["0", "0-0", "x", "1-x", "18446744073709551615-18446744073709551615"]),
        "lo" | "hi" => {
            let edges = ["-", "+", "-", "+", "(", "x", "(18446744073709551615-18446744073709551615", "(0-0", "(0"];
            let open = if random.below(4) == 0 { "(" } else { "" };
            let id = some_id(random, &edges);
            if id.starts_with(|first: char| first.is_ascii_digit()) { [open, &id].concat() } else { id }
        }
        word => shapes::argument(word, &mut |n| random.below(n)),
    }
}

/// Four entries share a millisecond.
fn entry_id(number: u64) -> String {
    format!("{}-{}", number / 4, number % 4)
}

/// An id that was given not long ago, with or without its sequence number, or one of the others.
fn some_id(random: &mut Random, others: &[&str]) -> String {
    let number = random.1.saturating_sub(random.below(24) as u64);
    match random.below(10) {
        0 | 1 => random.of(others).into(),
        2 => (number / 4).to_string(),
        _ => entry_id(number),
    }
}

fn command(random: &mut Random) -> Vec<String> {
    let nth = random.below(SHAPES.len() + shapes::SHAPES.len());
    let shape = SHAPES.get(nth).unwrap_or_else(|| &shapes::SHAPES[nth - SHAPES.len()]);
    shape.split(' ').map(|word| argument(word, random)).collect()
}

/// Commands whose replies come in no order.
fn is_unordered(name: &str) -> bool {
    ["SMEMBERS", "SINTER", "SUNION", "SDIFF", "HKEYS", "HVALS", "HGETALL"].contains(&name)
}

/// Puts what has no order in order. Replies to `EXEC` are those of the commands that were `queued`.
fn in_order(name: &str, queued: Option<&[String]>, reply: Reply) -> Reply {
    match (queued, reply) {
        (Some(queued), Reply::Many(mark, replies)) if queued.len() == replies.len() => {
            Reply::Many(mark, queued.iter().zip(replies).map(|(name, reply)| in_order(name, None, reply)).collect())
        }
        (_, reply) if is_unordered(name) => reply.sorted(name == "HGETALL"),
        (_, reply) if name.starts_with('X') => without_times(reply),
        (_, reply) => reply,
    }
}

/// What the clock says, and what says something of Redis's memory, is the same in both: times of today and times that have passed since
/// a delivery of today cannot be compared.
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

/// Who hears of changes of keys, and ends what is heard with a message of its own; ours and theirs.
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

    /// What both have heard since the last time.
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

/// Sends the same to both and compares.
struct Pair {
    ours: Client,
    theirs: Client,
    listening: Option<Listening>,
    shown: VecDeque<String>,
    queued: Option<Vec<String>>,
    complaints: Vec<String>,
}

impl Pair {
    /// Sends all at once and compares reply by reply.
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
    let mut random = Random(seed, 0);
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

/// What `COMMAND INFO` says: name, arity, flags, places of keys, categories.
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
