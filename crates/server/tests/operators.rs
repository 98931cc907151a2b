//! Requests of operators, beside a real `redis-server` 7.0: the table of commands, the configuration, the slow log, the names in `INFO`.
//! Skipped with a message where there is no such server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::beside::{compare, members};
use crate::common::{Client, Real, Reply, Served, is_newer};
use std::collections::BTreeSet;

const SERVER: &[&str] = &[
    "a: CONFIG GET appendfsync",
    "a: CONFIG GET nosuch",
    "a: CONFIG GET slowlog-* acllog-max-len slowlog-max-len",
    "a: CONFIG SET slowlog-max-len 5 slowlog-log-slower-than -1",
    "a: CONFIG GET slowlog-*",
    "a: CONFIG SET slowlog-max-len 7 slowlog-log-slower-than nonsense",
    "a: CONFIG GET slowlog-*",
    "a: CONFIG SET slowlog-max-len 7 slowlog-max-len 8",
    "a: CONFIG GET key-load-dela*",
    "a: CONFIG GET KEY-load-delay watchdog-perio?",
    "a: CONFIG SET shutdown-on-sigterm nosave␣NOW",
    "a: CONFIG GET shutdown-on-sig*",
    "a: CONFIG SET shutdown-on-sigterm save␣nosave",
    "a: CONFIG SET shutdown-on-sigterm whatever",
    "a: CONFIG SET shutdown-on-sigterm default",
    "a: CONFIG GET shutdown-on-sigterm",
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
    "a: CONFIG SET maxmemory 100mb",
    "a: CONFIG GET maxmemory",
    "a: CONFIG SET maxmemory 1g maxmemory-policy noeviction",
    "a: CONFIG GET maxmemory",
    "a: CONFIG SET maxmemory nonsense",
    "a: CONFIG SET maxmemory 0",
    "a: CONFIG GET maxmemory maxmemory-policy",
    "a: CONFIG SET aclfile x",
    "a: CONFIG GET",
    "a: CONFIG GET TIMEOUT [pt]imeout",
    "a: COMMAND NOSUCH",
    "a: COMMAND COUNT x",
    // The slow log.
    "a: CLIENT KILL ID 1000000 x",
    "a: CLIENT KILL ID x",
    "s: CLIENT SETNAME me",
    "s: SLOWLOG RESET",
    "s: CONFIG SET slowlog-max-len 8 slowlog-log-slower-than 0",
    "s: SET k v",
    "s: NOSUCH command",
    "s: GET",
    "s: LPUSH k x",
    "s: ACL SETUSER nobody >secret",
    "s: AUTH nobody wrong",
    "s: HELLO 2 AUTH nobody wrong",
    "s: RPUSH l 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34",
    "s: GET 12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890\
     12345678901234567890",
    "s: MULTI",
    "s: GET k",
    "s: EXEC",
    "s: EVAL redis.call('get','k')redis.pcall('nosuch')return(redis.call('strlen','k')) 0",
    "s: CONFIG SET slowlog-log-slower-than -1",
    "s: SLOWLOG LEN",
    "s: SLOWLOG GET -1",
    "s: SLOWLOG GET 1",
    "s: CONFIG SET slowlog-max-len 2",
    "s: SLOWLOG GET -1",
    "a: SHUTDOWN NOSAVE",
];

#[test]
fn what_operators_ask_is_answered_as_by_redis() {
    compare(SERVER, |command, reply| match reply {
        Some(reply) if command.starts_with("CONFIG GET") => Some(reply.sorted(true)),
        // Numbers, commands and names of clients are compared, and not when it was, how long it took and from where.
        Some(Reply::Many(mark, entries)) if command.starts_with("SLOWLOG GET") => {
            let kept = |entry: &Reply| {
                let fields = members(entry);
                let kept = [0, 3, 5].iter().filter_map(|at| fields.get(*at).cloned());
                Reply::Many(b'*', kept.collect())
            };
            Some(Reply::Many(mark, entries.iter().map(kept).collect()))
        }
        reply => reply,
    });
}

/// Flags about internals of Redis, or that follow from other fields.
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

/// Reply to `COMMAND INFO` about a command, without hints and without notes in specifications of keys.
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

/// Commands with subcommands in Redis and none here: they only reply that they are not supported.
const WITHOUT_SUBCOMMANDS: &[&str] = &["function", "script"];

/// Commands and subcommands of later versions.
const NEWER: &[&str] = &[
    "client|capa",
    "client|no-touch",
    "client|setinfo",
    "cluster|myshardid",
    "delex",
    "delifeq",
    "digest",
    "msetex",
    "waitaof",
    "xackdel",
    "xdelex",
];

/// Commands that take more arguments in later versions.
const TAKE_MORE: &[&str] = &["zrank", "zrevrank"];

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
        if theirs.is_empty() && !is_newer(name.as_bytes()) && !NEWER.contains(&name.as_str()) {
            complaints.push(format!("{name}: Redis does not know it"));
        }
        for ((field, ours), (_, theirs)) in ours.into_iter().zip(theirs) {
            let is_known = WITHOUT_SUBCOMMANDS.contains(&name.as_str()) || field == "arity" && TAKE_MORE.contains(&name.as_str());
            if ours != theirs && !is_known {
                complaints.push(format!("{name}: {field}\n  ours:   {ours}\n  theirs: {theirs}"));
            }
        }
    }
    assert!(complaints.is_empty(), "{} differences:\n{}", complaints.len(), complaints.join("\n"));
}

/// Names in `INFO`, of all sections.
fn names(client: &mut Client) -> BTreeSet<String> {
    let Reply::One(text) = client.ask(&[b"INFO", b"everything"]) else { panic!("a text") };
    let text = String::from_utf8(text).unwrap();
    let mut section = String::new();
    let mut names = BTreeSet::new();
    for line in text.lines() {
        match (line.rsplit_once("# "), line.split_once(':')) {
            (Some((_, title)), _) => section = title.to_lowercase(),
            (None, Some((name, _))) => drop(names.insert(format!("{section}: {name}"))),
            (None, None) => {}
        }
    }
    names
}

/// Fields of `INFO` about internals of Redis, which SinterDB does not have.
const NOT_TOLD: &[&str] = &[
    "server: atomicvar_api",
    "server: gcc_version",
    "server: lru_clock",
    "server: monotonic_clock",
    "server: redis_build_id",
    "server: redis_git_dirty",
    "server: redis_git_sha1",
    "clients: clients_in_timeout_table",
    "memory: allocator_active",
    "memory: allocator_allocated",
    "memory: allocator_frag_bytes",
    "memory: allocator_frag_ratio",
    "memory: allocator_resident",
    "memory: allocator_rss_bytes",
    "memory: allocator_rss_ratio",
    "memory: rss_overhead_bytes",
    "memory: rss_overhead_ratio",
    "persistence: current_save_keys_processed",
    "persistence: current_save_keys_total",
    "persistence: rdb_changes_since_last_save",
    "stats: dump_payload_sanitizations",
    "stats: expire_cycle_cpu_milliseconds",
    "stats: reply_buffer_expands",
    "stats: reply_buffer_shrinks",
    "stats: total_reads_processed",
    "stats: total_writes_processed",
];

#[test]
fn whoever_reads_figures_finds_them_under_their_names() {
    let Some(real) = Real::start() else {
        eprintln!("skipped: there is no redis-server 7.0 here to compare with");
        return;
    };
    let served = Served::start();
    let (mut ours, mut theirs) = (served.client(), real.client());
    for client in [&mut ours, &mut theirs] {
        client.ask(&[b"PING"]);
        client.ask(&[b"SET", b"k", b"v"]);
        client.ask(&[b"GET"]);
        client.ask(&[b"INFO"]); // the real one was asked when it started
    }
    let (ours, theirs) = (names(&mut ours), names(&mut theirs));
    assert!(theirs.len() > 150, "{theirs:?}");
    let missing: Vec<&String> = theirs.difference(&ours).filter(|name| !NOT_TOLD.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// `redis-cli` finds the biggest keys and, under a policy that counts uses, the hot ones.
#[test]
fn the_command_line_client_finds_big_and_hot_keys() {
    let served = Served::start();
    let mut client = served.client();
    let big = "x".repeat(50_000);
    for line in [
        format!("SET big {big}"),
        "SET small 1".into(),
        "RPUSH list 1 2 3".into(),
        "HSET hash a 1 b 2".into(),
        "XADD stream * a b".into(),
        "ZADD zset 1 a".into(),
        "SADD set a b c".into(),
    ] {
        client.ask(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }
    let run = |option: &str| {
        let port = served.address.port().to_string();
        let output = std::process::Command::new("redis-cli").args(["-p", &port, option]).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
    };
    let Some((is_good, text)) = run("--bigkeys") else {
        eprintln!("skipped: there is no redis-cli here");
        return;
    };
    for line in [
        "Sampled 7 keys in the keyspace!",
        "Biggest string found '\"big\"' has 50000 bytes",
        "Biggest   list found '\"list\"' has 3 items",
        "Biggest    set found '\"set\"' has 3 members",
        "Biggest   hash found '\"hash\"' has 2 fields",
        "Biggest stream found '\"stream\"' has 1 entries",
    ] {
        assert!(is_good && text.contains(line), "{line}\n{text}");
    }
    let (is_good, text) = run("--memkeys").unwrap();
    assert!(is_good && text.contains("Biggest string found '\"big\"' has 50"), "{text}");
    let (is_good, text) = run("--hotkeys").unwrap();
    assert!(!is_good && text.contains("An LFU maxmemory policy is not selected"), "{text}");
    client.ask(&[b"CONFIG", b"SET", b"maxmemory-policy", b"allkeys-lfu"]);
    (0..2_000).for_each(|n| _ = client.ask(&[b"GET", if n % 10 == 0 { &b"small"[..] } else { b"big" }]));
    let (is_good, text) = run("--hotkeys").unwrap();
    let found: Vec<&str> = text.lines().filter(|line| line.starts_with("hot key found")).collect();
    assert!(is_good && text.contains("Sampled 7 keys in the keyspace!"), "{text}");
    assert!(found[0].contains("keyname: \"big\"") && found[1].contains("keyname: \"small\""), "{text}");
}
