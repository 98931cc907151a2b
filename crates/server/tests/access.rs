//! Access rules, the table of commands and the configuration, beside a real `redis-server` 7.0: the same lines to both, the same replies,
//! byte for byte but for what cannot be the same (addresses, ages). Skipped, with a word, where there is no such server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Client, Real, Reply, Served};
use std::collections::BTreeMap;

/// A server, and its clients by name.
struct Side<'a> {
    connect: Box<dyn Fn() -> Client + 'a>,
    clients: BTreeMap<String, Client>,
}

impl<'a> Side<'a> {
    fn new(connect: impl Fn() -> Client + 'a) -> Self {
        Side { connect: Box::new(connect), clients: BTreeMap::new() }
    }

    /// What a client is told; `None`: its connection was closed, and the next line of that name is another client's.
    fn ask(&mut self, name: &str, words: &[&[u8]]) -> Option<Reply> {
        let client = self.clients.entry(name.into()).or_insert_with(|| (self.connect)());
        client.send(&common::encode(words));
        let reply = client.reply();
        if reply.is_none() {
            self.clients.remove(name);
        }
        reply
    }
}

/// Runs lines `CLIENT: COMMAND ..` on both servers. `␣` stands for a blank inside a word.
fn compare(lines: &[&str], normalise: impl Fn(&str, Option<Reply>) -> Option<Reply>) {
    let Some(real) = Real::start() else {
        eprintln!("skipped: there is no redis-server 7.0 here to compare with");
        return;
    };
    let served = Served::start();
    let (mut ours, mut theirs) = (Side::new(|| served.client()), Side::new(|| real.client()));
    let mut complaints = Vec::new();
    for line in lines {
        let (name, command) = line.split_once(": ").unwrap();
        let words: Vec<String> = command.split(' ').map(|word| word.replace('␣', " ")).collect();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let (ours, theirs) = (normalise(command, ours.ask(name, &words)), normalise(command, theirs.ask(name, &words)));
        if ours != theirs {
            let shown = |reply: &Option<Reply>| reply.as_ref().map_or("closed".into(), ToString::to_string);
            complaints.push(format!("{line}\n  ours:   {}\n  theirs: {}", shown(&ours), shown(&theirs)));
        }
    }
    assert!(complaints.is_empty(), "{} differences:\n{}", complaints.len(), complaints.join("\n"));
}

/// Commands in rules have no order that would mean anything, and in Redis another one from start to start: those that follow each other are
/// sorted.
fn sort_rules(reply: Reply) -> Reply {
    let sort = |text: Vec<u8>| {
        let mut words: Vec<Vec<u8>> = text.split(|byte| *byte == b' ').map(<[u8]>::to_vec).collect();
        let is_command = |word: &Vec<u8>| matches!(word.as_slice(), [b'+' | b'-', rest @ ..] if rest.first() != Some(&b'@'));
        words.chunk_by_mut(|a, b| is_command(a) && is_command(b)).for_each(<[Vec<u8>]>::sort);
        words.join(&b' ')
    };
    match reply {
        Reply::One(text) => Reply::One(sort(text)),
        Reply::Many(mark, members) => Reply::Many(mark, members.into_iter().map(sort_rules).collect()),
    }
}

/// Replies without what depends on when and from where something came.
fn comparable(command: &str, reply: Option<Reply>) -> Option<Reply> {
    match reply {
        Some(Reply::Many(mark, entries)) if command.starts_with("ACL LOG") => {
            let cut = |entry| match entry {
                Reply::Many(mark, fields) => Reply::Many(mark, fields.into_iter().take(10).collect()),
                one => one,
            };
            Some(Reply::Many(mark, entries.into_iter().map(cut).collect()))
        }
        Some(reply) if command.starts_with("ACL CAT") && command.len() > 7 => Some(reply.sorted(false)),
        Some(reply) if ["ACL LIST", "ACL GETUSER"].iter().any(|start| command.starts_with(start)) => Some(sort_rules(reply)),
        Some(Reply::One(text)) if command == "CLIENT ID" && text.starts_with(b":") => Some(Reply::One(b":".to_vec())),
        Some(Reply::Many(mark, mut fields)) if command.starts_with("HELLO") => {
            let id = fields.iter().position(|field| *field == Reply::One(b"$id".to_vec()));
            id.map(|at| fields.remove(at + 1));
            Some(Reply::Many(mark, fields))
        }
        reply => reply,
    }
}

const ACCESS: &[&str] = &[
    "admin: ACL WHOAMI",
    "admin: ACL USERS",
    "admin: ACL LIST",
    "admin: ACL GETUSER default",
    "admin: ACL CAT",
    "admin: ACL CAT hash",
    "admin: ACL CAT HyperLogLog",
    "admin: ACL CAT nosuch",
    "admin: ACL SETUSER newuser >passwd1",
    "admin: ACL GETUSER newuser",
    "new: AUTH newuser passwd1",
    "admin: ACL SETUSER newuser on +acl",
    "new: AUTH newuser passwd1",
    "new: ACL WHOAMI",
    "new: PING",
    "new: SET foo bar",
    "admin: ACL SETUSER newuser allkeys +ping␣",
    "admin: ACL SETUSER newuser allkeys +ping",
    "new: PING",
    "admin: ACL LIST",
    "admin: ACL SETUSER newuser >passwd2",
    "new: AUTH newuser passwd2",
    "new: AUTH newuser badpass",
    "admin: ACL SETUSER newuser <passwd1",
    "admin: ACL SETUSER newuser <passwd1",
    "admin: ACL SETUSER newuser #34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4f1",
    "admin: ACL SETUSER newuser #34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4",
    "admin: ACL SETUSER newuser #34344E4D60C2B6D639B7BD22E18F2B0B91BC34BF0AC5F9952744435093CFB4F1",
    "admin: ACL SETUSER newuser !34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4f1",
    "admin: ACL SETUSER newuser !34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4f1",
    "admin: ACL GETUSER newuser",
    "admin: ACL SETUSER newuser nopass",
    "new: AUTH newuser zipzapblabla",
    "new: AUTH newuser",
    "admin: ACL SETUSER newuser allcommands resetkeys ~foo:* ~bar:*",
    "new: SET foo:1 a",
    "new: SET bar:2 b",
    "new: SET zap:3 c",
    "new: MGET foo:1 zap:3",
    "admin: ACL SETUSER newuser ~zap:* allkeys ~foo:*",
    "admin: ACL SETUSER newuser resetkeys %R~r* %W~w* %RW~rw %r~x %X~y",
    "admin: ACL SETUSER newuser %R~r* %W~w* %RW~rw %r~x %wr~b",
    "admin: ACL GETUSER newuser",
    "admin: ACL LIST",
    "new: GET r1",
    "new: SET r1 x",
    "new: SET w1 x",
    "new: SET w1 x GET",
    "new: GETSET w1 x",
    "new: APPEND w1 x",
    "new: LPUSH w2 a",
    "new: RPOP w2",
    "new: STRLEN w1",
    "new: EXISTS zzz",
    "new: EXISTS w1",
    "new: DEL w1",
    "new: COPY r1 w1",
    "new: COPY w1 r1",
    "new: RENAME rw w1",
    "new: RENAME r1 w1",
    "new: SINTERSTORE w1 r1 r2",
    "new: SINTERSTORE w1 r1 w2",
    "new: ZUNIONSTORE w1 2 r1 r2",
    "new: ZUNIONSTORE w1 2 r1 w2",
    "new: ZUNIONSTORE w1 nonsense r1 w2",
    "new: LMPOP 1 w1 LEFT",
    "new: LMPOP 1 rw LEFT",
    "new: OBJECT ENCODING zzz",
    "new: OBJECT ENCODING r1",
    "new: WATCH zzz",
    "new: WATCH r1",
    "new: OBJECT HELP x",
    "admin: ACL LOG",
    "admin: ACL LOG 1",
    "admin: ACL LOG x",
    "admin: ACL LOG -1",
    "admin: ACL LOG RESET",
    "admin: ACL LOG",
    "admin: ACL SETUSER newuser resetkeys ~* -@all +client|id +client|setname +config|get +object|encoding +select|0",
    "admin: ACL GETUSER newuser",
    "new: CLIENT ID",
    "new: CLIENT SETNAME me",
    "new: CLIENT LIST",
    "new: CLIENT NOSUCH",
    "new: CONFIG GET port1",
    "new: CONFIG SET timeout 0",
    "new: CONFIG",
    "new: SELECT 0",
    "new: SELECT 1",
    "new: GET a",
    "admin: ACL SETUSER newuser -client|id",
    "new: CLIENT SETNAME me",
    "admin: ACL SETUSER newuser +client -client|setname",
    "new: CLIENT GETNAME",
    "new: CLIENT SETNAME me",
    "admin: ACL SETUSER newuser +@all -@dangerous",
    "admin: ACL LIST",
    "new: KEYS *",
    "new: DBSIZE",
    "new: FLUSHALL",
    "new: CONFIG GET x",
    "new: CONFIG HELP x",
    "admin: ACL SETUSER newuser -@all +@hash +@connection",
    "new: HSET h a b",
    "new: HGETALL h",
    "new: GET h",
    "new: PING",
    "admin: ACL SETUSER newuser +nosuch",
    "admin: ACL SETUSER newuser +@nosuch",
    "admin: ACL SETUSER newuser -@nosuch",
    "admin: ACL SETUSER newuser -select|0",
    "admin: ACL SETUSER newuser +config|nosuch",
    "admin: ACL SETUSER newuser +config|get|appendonly",
    "admin: ACL SETUSER newuser +select|",
    "admin: ACL SETUSER newuser nonsense",
    "admin: ACL SETUSER newuser ON OFF +GET -Get AllKeys",
    "admin: ACL SETUSER newuser ~a␣b",
    "admin: ACL SETUSER newuser resetkeys ~a␣b",
    "admin: ACL SETUSER newuser &a␣b",
    "admin: ACL SETUSER new␣user on",
    "admin: ACL SETUSER newuser reset",
    "admin: ACL GETUSER newuser",
    "admin: ACL SETUSER newuser on nopass (+get ~a*) (+set ~b*)",
    "admin: ACL GETUSER newuser",
    "admin: ACL LIST",
    "new: GET a1",
    "new: GET b1",
    "new: SET b1 x",
    "new: SET a1 x",
    "new: DEL a1",
    "admin: ACL SETUSER newuser ( +del ~c* )",
    "new: DEL c1",
    "admin: ACL SETUSER newuser (+del",
    "admin: ACL SETUSER newuser (+del ~x) (+nosuch)",
    "admin: ACL SETUSER newuser (on)",
    "admin: ACL SETUSER newuser (%R~a&x)",
    "admin: ACL GETUSER newuser",
    "admin: ACL SETUSER newuser clearselectors &chan* &other",
    "admin: ACL GETUSER newuser",
    "admin: ACL SETUSER newuser allchannels &x",
    "admin: ACL LIST",
    "admin: ACL DRYRUN newuser GET a",
    "admin: ACL DRYRUN default GET a",
    "admin: ACL DRYRUN nobody GET a",
    "admin: ACL DRYRUN newuser nosuch",
    "admin: ACL DRYRUN newuser CONFIG nosuch",
    "admin: ACL DRYRUN newuser GET",
    "admin: ACL SETUSER newuser +@all %R~r*",
    "admin: ACL DRYRUN newuser GET r1",
    "admin: ACL DRYRUN newuser SET r1 x",
    "admin: ACL DRYRUN newuser CONFIG GET x",
    "admin: ACL DELUSER default",
    "admin: ACL DELUSER newuser nobody",
    "new: PING",
    "new: PING",
    "new: ACL WHOAMI",
    "admin: ACL DELUSER newuser",
    "admin: ACL GETUSER newuser",
    "admin: ACL NOSUCH",
    "admin: ACL LIST x",
    "admin: ACL",
    "admin: ACL LOAD",
    "admin: ACL SAVE",
    "admin: ACL GENPASS 0",
    "admin: ACL GENPASS x",
    "admin: ACL GENPASS 4097",
    // A transaction outlives its permissions.
    "admin: ACL SETUSER multi on nopass allkeys +@all",
    "multi: AUTH multi x",
    "multi: MULTI",
    "multi: SET k 1",
    "multi: GET k",
    "admin: ACL SETUSER multi resetkeys ~other -get",
    "multi: EXEC",
    "admin: ACL LOG",
    "multi: MULTI",
    "multi: GET other",
    "multi: EXEC",
    "multi: ACL DELUSER multi",
    "multi: PING",
    // Keys that are found by what is read.
    "admin: RPUSH l 1",
    "admin: SET w_1 5",
    "admin: ACL SETUSER sorter on nopass ~l ~out +sort +sort_ro",
    "sorter: AUTH sorter x",
    "sorter: SORT l",
    "sorter: SORT l BY nosort",
    "sorter: SORT l BY w_*",
    "sorter: SORT l GET w_*",
    "sorter: SORT l GET #",
    "sorter: SORT_RO l BY w_* GET w_*",
    "sorter: SORT l BY w_* NONSENSE",
    "sorter: SORT l STORE out",
    "sorter: SORT l STORE other",
    "sorter: SORT l STORE other STORE out",
    "admin: ACL SETUSER sorter %W~*",
    "sorter: SORT l GET w_*",
    "admin: ACL SETUSER sorter (%R~* +get)",
    "sorter: SORT l GET w_*",
    "admin: ACL SETUSER sorter %R~*",
    "sorter: SORT l BY w_* GET w_*",
    // Keys behind words and numbers.
    "admin: XADD s 1-1 a b",
    "admin: XGROUP CREATE s g 0",
    "admin: GEOADD geo 1 2 x",
    "admin: ACL SETUSER keys on nopass ~a ~d +@all",
    "keys: AUTH keys x",
    "keys: XREAD COUNT 1 STREAMS s 0",
    "keys: XREAD COUNT 1 STREAMS a s 0 0",
    "keys: XREADGROUP GROUP g c STREAMS s >",
    "keys: XREADGROUP GROUP g c COUNT 1 NOACK STREAMS a s > >",
    "keys: XREAD STREAMS a",
    "keys: XGROUP CREATE s h 0",
    "keys: XINFO STREAM s",
    "keys: GEORADIUS a 1 2 3 km STORE e",
    "keys: GEORADIUS a 1 2 3 km STORE d",
    "keys: GEORADIUSBYMEMBER a x 3 km STOREDIST e",
    "keys: GEOSEARCHSTORE d geo FROMLONLAT 1 2 BYRADIUS 3 km",
    "keys: ZUNIONSTORE d 2 a z",
    "keys: ZUNIONSTORE d 3 a a",
    "keys: ZUNIONSTORE d 0 z",
    "keys: SINTERCARD 0 z",
    "keys: BLMPOP 0 2 a z LEFT",
    "keys: BZMPOP 0 nonsense a z MIN",
    "keys: BLPOP a z 0",
    "keys: BITOP NOT d z",
    "keys: MSET a 1 z 2",
    "keys: LCS a z",
    "keys: MEMORY USAGE z",
    "keys: OBJECT ENCODING z",
    "keys: EVAL x 1 z",
    "keys: SWAPDB 0 1",
    "keys: SWAPDB 1 0",
    // Channels.
    "admin: ACL SETUSER hears on nopass &news* +@all",
    "hears: AUTH hears x",
    "hears: PUBLISH other x",
    "hears: PUBLISH news.a x",
    "hears: SPUBLISH other x",
    "hears: PSUBSCRIBE news.*",
    "hears: SSUBSCRIBE other",
    "hears: SUBSCRIBE other",
    "hears: SUBSCRIBE news.a",
    "hears: SUBSCRIBE other",
    "admin: ACL LOG 3",
    "admin: ACL SETUSER hears resetchannels &other",
    "hears: PING",
    // Greetings.
    "hi: HELLO 3 AUTH hears x",
    "hi: ACL WHOAMI",
    "hi: HELLO 2 AUTH nobody x",
    "hi: ACL WHOAMI",
    "hi: HELLO 2 AUTH hears",
    "hi: HELLO 9 AUTH default x",
    "hi: ACL WHOAMI",
    "hi: HELLO 2 SETNAME auth AUTH default x",
    "hi: ACL WHOAMI",
    "hi: CLIENT GETNAME",
    "hi: RESET",
    "hi: ACL WHOAMI",
    // Rules one by one.
    "admin: ACL SETUSER rules",
    "admin: ACL GETUSER rules",
    "admin: ACL SETUSER rules +@all -config -acl|whoami",
    "admin: ACL GETUSER rules",
    "admin: ACL SETUSER rules -@all +config|get +config|set",
    "admin: ACL GETUSER rules",
    "admin: ACL SETUSER rules allcommands nocommands +@string -get",
    "admin: ACL GETUSER rules",
    "admin: ACL SETUSER rules -@all +debug|digest +memory|usage +xgroup|create +select|1 +select|2",
    "admin: ACL GETUSER rules",
    "admin: ACL SETUSER rules sanitize-payload",
    "admin: ACL SETUSER rules skip-sanitize-payload",
    "admin: ACL GETUSER rules",
    "admin: ACL DRYRUN rules SELECT 1",
    "admin: ACL DRYRUN rules SELECT 3",
    "admin: ACL DRYRUN rules XGROUP CREATE a b 0",
    "admin: ACL DRYRUN rules MEMORY DOCTOR",
    "admin: ACL SETUSER rules >",
    "admin: ACL SETUSER rules #",
    "admin: ACL SETUSER rules ~",
    "admin: ACL SETUSER rules &",
    "admin: ACL SETUSER rules +",
    "admin: ACL SETUSER rules -",
    "admin: ACL SETUSER rules +@",
    "admin: ACL SETUSER rules %",
    "admin: ACL SETUSER rules %RW",
    "admin: ACL SETUSER rules %~x",
    "admin: ACL SETUSER rules ()",
    "admin: ACL SETUSER rules (",
    "admin: ACL SETUSER rules )",
    "admin: ACL SETUSER rules ((+get))",
    "admin: ACL GETUSER rules",
    "admin: ACL SETUSER rules allkeys allkeys",
    "admin: ACL SETUSER rules ~*",
    "admin: ACL DELUSER rules keys sorter",
    // The default user's password.
    "admin: CONFIG SET requirepass secret",
    "admin: ACL LIST",
    "late: PING",
    "late: HELLO 2",
    "late: HELLO 2 AUTH default wrong",
    "late: AUTH wrong",
    "late: AUTH secret",
    "late: ACL WHOAMI",
    "late: RESET",
    "late: PING",
    "admin: ACL LOG",
    "admin: CONFIG GET requirepass",
    "admin: CONFIG SET requirepass ␣",
    "admin: CONFIG SET requirepass x timeout nonsense",
    "admin: ACL SETUSER default reset on nopass +@all ~*",
    "later: PING",
    "admin: ACL LIST",
];

#[test]
fn access_rules_are_those_of_redis() {
    compare(ACCESS, comparable);
}

const SERVER: &[&str] = &[
    "a: CONFIG GET appendfsync",
    "a: CONFIG GET nosuch",
    "a: CONFIG GET slowlog-* acllog-max-len slowlog-max-len",
    "a: CONFIG SET slowlog-max-len 5 slowlog-log-slower-than -1",
    "a: CONFIG GET slowlog-*",
    "a: CONFIG SET slowlog-max-len 7 slowlog-log-slower-than nonsense",
    "a: CONFIG GET slowlog-*",
    "a: CONFIG SET slowlog-max-len 7 slowlog-max-len 8",
    "a: CONFIG SET slowlog-max-len 7 nosuch 8",
    "a: CONFIG SET slowlog-max-len",
    "a: CONFIG SET slowlog-max-len 7 timeout",
    "a: CONFIG SET slowlog-max-len -1",
    "a: CONFIG SET maxclients 0",
    "a: CONFIG SET appendfsync sometimes",
    "a: CONFIG SET latency-tracking maybe",
    "a: CONFIG REWRITE",
    "a: CONFIG RESETSTAT x",
    "a: CONFIG NOSUCH",
    "a: SLOWLOG LEN",
    "a: SLOWLOG GET x",
    "a: SLOWLOG GET -2",
    "a: SLOWLOG GET",
    "a: SLOWLOG RESET",
    "a: SLOWLOG NOSUCH",
    "a: LATENCY HISTORY command",
    "a: LATENCY LATEST",
    "a: LATENCY RESET",
    "a: LATENCY RESET command",
    "a: LATENCY GRAPH command",
    "a: LATENCY NOSUCH",
    "a: LATENCY HISTOGRAM nosuch",
    "a: MEMORY USAGE nosuch",
    "a: MEMORY USAGE",
    "a: MEMORY USAGE k SAMPLES -1",
    "a: MEMORY USAGE k SAMPLES x",
    "a: MEMORY USAGE k NOSUCH 1",
    "a: MEMORY NOSUCH",
    "a: MEMORY PURGE",
    "a: ROLE",
    "a: READONLY",
    "a: READWRITE",
    "a: ASKING",
    "a: CLUSTER INFO",
    "a: REPLICAOF NO ONE",
    "a: SLAVEOF NO ONE",
    "a: REPLICAOF",
    "a: MODULE LIST",
    "a: SHUTDOWN NOSUCH",
    "a: SHUTDOWN SAVE NOSAVE",
    "a: SHUTDOWN ABORT NOW",
    "a: SHUTDOWN ABORT",
    "a: COMMAND INFO nosuch",
    "a: COMMAND DOCS nosuch",
    "a: COMMAND LIST FILTERBY MODULE nosuch",
    "a: COMMAND LIST FILTERBY NOSUCH x",
    "a: COMMAND LIST NOSUCH",
    "a: COMMAND LIST FILTERBY ACLCAT nosuch",
    "a: COMMAND GETKEYS GET a",
    "a: COMMAND GETKEYS MSET a 1 b 2",
    "a: COMMAND GETKEYS ZUNIONSTORE d 2 a b",
    "a: COMMAND GETKEYS ZUNIONSTORE d 3 a b",
    "a: COMMAND GETKEYS GET",
    "a: COMMAND GETKEYS GET a b",
    "a: COMMAND GETKEYS PING",
    "a: COMMAND GETKEYS NOSUCH a",
    "a: COMMAND GETKEYS CONFIG GET a",
    "a: COMMAND GETKEYS OBJECT ENCODING a",
    "a: COMMAND GETKEYSANDFLAGS SET a b",
    "a: COMMAND GETKEYSANDFLAGS SET a b GET",
    "a: COMMAND GETKEYSANDFLAGS RENAME a b",
    "a: COMMAND GETKEYSANDFLAGS LMPOP 2 a b LEFT",
    "a: COMMAND GETKEYSANDFLAGS EVAL x 2 a b",
    "a: COMMAND GETKEYS XREAD COUNT 1 STREAMS a b 0 0",
    "a: COMMAND GETKEYS XREADGROUP GROUP g c STREAMS a >",
    "a: COMMAND GETKEYSANDFLAGS XREADGROUP GROUP g c STREAMS a >",
    "a: COMMAND GETKEYS XREAD COUNT 1 STREAMS a",
    "a: COMMAND GETKEYS SORT a BY b STORE c",
    "a: COMMAND GETKEYSANDFLAGS SORT a STORE c",
    "a: COMMAND GETKEYS SORT_RO a BY b*",
    "a: COMMAND GETKEYSANDFLAGS GEORADIUS a 1 2 3 km STORE b",
    "a: COMMAND GETKEYS GEORADIUSBYMEMBER a b 3 km",
    "a: COMMAND GETKEYSANDFLAGS GEOSEARCHSTORE a b FROMMEMBER c BYRADIUS 1 km",
    "a: COMMAND GETKEYSANDFLAGS BITFIELD a GET u8 0",
    "a: COMMAND GETKEYSANDFLAGS BITFIELD a SET u8 0 1",
    "a: COMMAND GETKEYSANDFLAGS BITOP AND a b c",
    "a: COMMAND GETKEYSANDFLAGS PFMERGE a b",
    "a: COMMAND GETKEYSANDFLAGS COPY a b",
    "a: COMMAND GETKEYSANDFLAGS BLMOVE a b LEFT LEFT 0",
    "a: COMMAND GETKEYS BLMPOP 0 2 a b LEFT",
    "a: COMMAND GETKEYS SINTERCARD 0 a",
    "a: COMMAND GETKEYS ZUNIONSTORE d 0 a",
    "a: COMMAND GETKEYS ZUNIONSTORE d x a",
    "a: COMMAND GETKEYS EVAL x 0",
    "a: COMMAND GETKEYS MEMORY USAGE a",
    "a: COMMAND GETKEYS XGROUP CREATE a g 0",
    "a: COMMAND GETKEYS XGROUP HELP x y",
    "a: COMMAND GETKEYS OBJECT HELP x",
    "a: COMMAND GETKEYS DEBUG OBJECT a",
    "a: COMMAND GETKEYS LCS a b LEN",
    "a: COMMAND GETKEYS RESTORE a 0 x",
    "a: COMMAND GETKEYS SUBSCRIBE a",
    "a: COMMAND GETKEYS SPUBLISH a b",
    "a: COMMAND GETKEYS MSET a 1 b",
    "a: COMMAND GETKEYS",
    "a: COMMAND GETKEYS SET",
    "a: CONFIG GET dbfilename",
    "a: CONFIG GET hash-max-* zset-max-* set-max-intset-entries hll-sparse-max-bytes stream-node-max-entries",
    "a: CONFIG SET hash-max-ziplist-entries 7",
    "a: CONFIG GET hash-max-listpack-entries",
    "a: CONFIG SET hash-max-listpack-value 1kb",
    "a: CONFIG GET hash-max-ziplist-value",
    "a: CONFIG SET hash-max-listpack-value -1",
    "a: CONFIG SET set-max-intset-entries x",
    "a: CONFIG SET stream-node-max-entries -1",
    "a: CONFIG SET hash-max-listpack-entries 1 hash-max-ziplist-entries 2",
    "a: CONFIG SET timeout 5 hash-max-listpack-entries nonsense",
    "a: CONFIG GET timeout",
    "a: CONFIG SET dir /tmp",
    "a: CONFIG SET dbfilename x.rdb",
    "a: CONFIG SET enable-debug-command yes",
    "a: CONFIG SET notify-keyspace-events KEA",
    "a: CONFIG GET notify-*",
    "a: CONFIG SET notify-keyspace-events Q",
    "a: CONFIG SET maxmemory-clients 1gb",
    "a: CONFIG GET maxmemory-clients",
    "a: CONFIG SET aclfile x",
    "a: CONFIG GET",
    "a: CONFIG GET TIMEOUT [pt]imeout",
    "a: COMMAND NOSUCH",
    "a: COMMAND COUNT x",
    "a: SHUTDOWN NOSAVE",
];

#[test]
fn what_operators_ask_is_answered_as_by_redis() {
    compare(SERVER, |command, reply| match reply {
        Some(reply) if command.starts_with("CONFIG GET") => Some(reply.sorted(true)),
        // How long it took to end is not compared.
        reply => reply,
    });
}

/// The members of a reply, in order.
fn members(reply: &Reply) -> Vec<Reply> {
    match reply {
        Reply::Many(_, members) => members.clone(),
        Reply::One(_) => Vec::new(),
    }
}

/// Flags that say something of Redis's own works, or that follow from other fields.
const OTHER_FLAGS: &[&[u8]] = &[
    b"+skip_monitor",
    b"+skip_slowlog",
    b"+no_async_loading",
    b"+allow_busy",
    b"+no_mandatory_keys",
    b"+movablekeys",
    b"+asking",
    b"+may_replicate",
];

/// What `COMMAND INFO` says of a command, but for hints, and notes in specifications of keys.
fn facts(reply: Reply) -> Vec<(&'static str, Reply)> {
    let fields = members(&reply);
    let Some(Reply::Many(_, entry)) = fields.first().cloned() else { return Vec::new() };
    let flags = members(&entry[2]).into_iter().filter(|flag| !matches!(flag, Reply::One(name) if OTHER_FLAGS.contains(&name.as_slice())));
    let without_notes = |spec: &Reply| {
        let pairs: Vec<Reply> = members(spec);
        let kept = pairs.chunks(2).filter(|pair| pair[0] != Reply::One(b"$notes".to_vec())).flatten().cloned().collect();
        Reply::Many(b'*', kept).sorted(true)
    };
    let specs = members(&entry[8]).iter().map(without_notes).collect();
    vec![
        ("name", entry[0].clone()),
        ("arity", entry[1].clone()),
        ("flags", Reply::Many(b'*', flags.collect()).sorted(false)),
        ("keys", Reply::Many(b'*', entry[3..6].to_vec())),
        ("categories", entry[6].clone()),
        ("key specifications", Reply::Many(b'*', specs)),
    ]
}

/// Commands that hold subcommands in Redis and none here: all that they have is an answer that says so.
const WITHOUT_SUBCOMMANDS: &[&str] = &["cluster", "function", "script"];

/// Commands of later versions.
const NEWER: &[&str] = &["waitaof"];

#[test]
fn every_command_is_described_as_in_redis() {
    let Some(real) = Real::start() else {
        eprintln!("skipped: there is no redis-server 7.0 here to compare with");
        return;
    };
    let served = Served::start();
    let (mut ours, mut theirs) = (served.client(), real.client());
    let names = members(&ours.ask(&[b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", b"*"]));
    assert!(names.len() > 150, "{}", names.len());
    let mut complaints = Vec::new();
    for name in names {
        let Reply::One(name) = name else { panic!("a name") };
        let name = String::from_utf8(name[1..].to_vec()).unwrap();
        let ask = |client: &mut Client| facts(client.ask(&[b"COMMAND", b"INFO", name.as_bytes()]));
        let (ours, theirs) = (ask(&mut ours), ask(&mut theirs));
        if theirs.is_empty() && !NEWER.contains(&name.as_str()) {
            complaints.push(format!("{name}: Redis does not know it"));
        }
        for ((field, ours), (_, theirs)) in ours.into_iter().zip(theirs) {
            if ours != theirs && !WITHOUT_SUBCOMMANDS.contains(&name.as_str()) {
                complaints.push(format!("{name}: {field}\n  ours:   {ours}\n  theirs: {theirs}"));
            }
        }
    }
    assert!(complaints.is_empty(), "{} differences:\n{}", complaints.len(), complaints.join("\n"));
}

/// A real server started by somebody else listens with other addresses; here both must close who is gone.
#[test]
fn whoever_is_gone_is_closed() {
    let served = Served::start();
    let (mut admin, mut alice) = (served.client(), served.client());
    admin.ask(&[b"ACL", b"SETUSER", b"alice", b"on", b"nopass", b"+@all", b"~*"]);
    alice.ask(&[b"AUTH", b"alice", b"x"]);
    assert_eq!(admin.ask(&[b"ACL", b"DELUSER", b"alice"]), Reply::One(b":1".to_vec()));
    assert_eq!(alice.reply(), None);
}
