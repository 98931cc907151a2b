//! Tests of the client against an invented server, and whole runs of a real one.

use super::*;
use crate::drive::{SinterEngine, execute};
use crate::result::Found;
use crate::run::{Distribution, EngineSpec, FamilySpec, Limits, Medium, Mix, Order, Phase, SPEC_VERSION, ValueSize, Workload};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

fn phase(name: &str, operation: &str, operations: u64) -> Phase {
    Phase::requests(name, vec![Mix::all(Distribution::Uniform, [(operation, 1.0)])], operations, 1)
}

fn load() -> Phase {
    Phase::load("load", Order::Random, 1)
}

fn rest() -> Phase {
    Phase::new("rest", PhaseKind::Settle)
}

/// A spec of Redis over a hundred keys with values of 50 bytes.
fn spec(directory: &Path, settings: &[(&str, &str)], server: ServerSpec, phases: Vec<Phase>) -> RunSpec {
    RunSpec {
        version: SPEC_VERSION,
        engine: EngineSpec {
            name: REDIS.into(),
            database: settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            families: vec![FamilySpec { name: "default".into(), settings: BTreeMap::new() }],
            wal: true,
            server: Some(server),
            ..EngineSpec::default()
        },
        medium: Medium { directory: directory.to_owned() },
        workload: Workload::new("test", 100, (16, 50), phases),
        seed: 1,
        limits: Limits::default(),
    }
}

/// A server that takes one connection after the other and answers each piece of `length` bytes with `reply`, up to `most` of them.
fn made_up(length: usize, reply: &'static str, most: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = move |mut stream: std::net::TcpStream| {
        let mut request = vec![0; length];
        for _ in 0..most {
            if stream.read_exact(&mut request).is_err() || stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    };
    let serve = move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::Builder::new().spawn(move || answer(stream)).unwrap();
        }
    };
    std::thread::Builder::new().spawn(serve).unwrap();
    address
}

/// Runs a client of three connections with five requests at once against a server.
fn ask(address: SocketAddr, phase: &Phase, stop: bool) -> (Outcome<Ran>, Totals) {
    ask_with_patience(address, phase, stop, LOOKS)
}

fn ask_with_patience(address: SocketAddr, phase: &Phase, stop: bool, looks: u32) -> (Outcome<Ran>, Totals) {
    let spec = spec(Path::new("."), &[], ServerSpec::new(3, 5), vec![phase.clone()]);
    let plan = Plan::of(&phase.kind, &spec.workload, &spec.engine, 1, 0, 0).unwrap();
    let gauges = [Gauge::new(1)];
    let client = Client {
        address,
        connections: 3,
        pipeline: 5,
        plan: &plan,
        key_size: 16,
        pool: &ValuePool::new(50, 0.5),
        gauge: &gauges[0],
        clock: &SystemClock::default(),
        stop: &AtomicBool::new(stop),
        looks,
    };
    (client.run(), Totals::of(&gauges))
}

/// `*3 $3 SET $16 key $50 value` with the ends of the lines.
const SET: usize = 4 + 4 + 5 + 5 + 18 + 5 + 52;
/// `*2 $3 GET $16 key`.
const GET: usize = 4 + 4 + 5 + 5 + 18;

#[test]
fn every_request_is_sent_once_and_every_reply_counted() {
    for count in [1, 5, 14, 1001] {
        let (ran, totals) = ask(made_up(SET, "+OK\r\n", usize::MAX), &phase("a", "put", count), false);
        assert!(ran.unwrap().cpu_seconds >= 0.0);
        assert_eq!((totals.operations, totals.done.written), (count, count * 66));
    }
    let (ran, totals) = ask(made_up(GET, "$3\r\nabc\r\n", usize::MAX), &phase("a", "get", 20), false);
    assert_eq!((ran.is_ok(), totals.operations, totals.done.found, totals.done.bytes), (true, 20, 20, 20 * 19));
    let (_, totals) = ask(made_up(GET, "$-1\r\n", usize::MAX), &phase("a", "get", 20), false);
    assert_eq!((totals.done.asked, totals.done.found), (20, 0));
    let (_, totals) = ask(made_up(GET, ":1\r\n", usize::MAX), &phase("a", "delete", 20), false);
    assert_eq!((totals.operations, totals.done.written), (20, 320));
    let (_, totals) = ask(made_up(SET, "+OK\r\n", usize::MAX), &phase("a", "put", 1000), true);
    assert_eq!(totals.operations, 0, "stopped");
}

#[test]
fn a_server_that_goes_away_or_refuses_is_a_failure() {
    let failure = |reply, most| ask(made_up(SET, reply, most), &phase("a", "put", 100), false).0.unwrap_err().to_string();
    assert_eq!(failure("-OOM no\r\n", usize::MAX), "the server answered with an error: OOM no");
    assert_eq!(failure("$1\r\na\r\n", usize::MAX), "the server answered SET with Value(1)");
    assert_eq!(failure("+OK\r\n+OK\r\n", usize::MAX), "the server answered what nobody had asked");
    let silent = ask_with_patience(made_up(SET, "", usize::MAX), &phase("a", "put", 100), false, 2).0.unwrap_err();
    assert_eq!(silent.to_string(), "the server does not answer");
    let gone = failure("+OK\r\n", 3);
    assert!(gone == "the server closed a connection" || gone.contains("reset") || gone.contains("Broken pipe"), "{gone}");
}

#[test]
fn what_a_server_says_of_itself_is_read() {
    let info = "# Server\r\nredis_version:7.0.15\r\naof_rewrites:2\r\naof_last_rewrite_time_sec:-1\r\nused_memory:9\r\nuptime:3\r\n";
    assert_eq!(version("redis", info), "redis 7.0.15");
    assert_eq!(version("sinter", "redis_version:7.0.15\r\nsinterdb_version:0.1.0\r\n"), "sinterdb 0.1.0");
    assert_eq!(version("redis", ""), "redis of an unknown version");
    assert_eq!(kept(info), BTreeMap::from([("aof_rewrites".to_string(), 2), ("used_memory".to_string(), 9)]));
    assert!(!is_shortened(&kept(info)) && !is_shortened(&kept("table_bytes:0\r\n")));
    assert!(is_shortened(&kept("aof_last_rewrite_time_sec:0\r\n")) && is_shortened(&kept("table_bytes:5\r\n")));
}

/// Whether there is a Redis to start; prints a note if not.
fn redis_is_here() -> bool {
    let here = Command::new("redis-server").arg("--version").output().is_ok_and(|output| output.status.success());
    if !here {
        eprintln!("left out: there is no redis-server here");
    }
    here
}

/// The engine is not asked where a spec has a server.
fn go(spec: &RunSpec) -> RunRecord {
    execute(&SinterEngine, spec, &AtomicBool::new(false))
}

#[test]
fn a_run_of_redis_has_all_figures_and_leaves_nothing() {
    if !redis_is_here() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let settings = [
        ("appendonly", "yes"),
        ("appendfsync", "everysec"),
        ("auto-aof-rewrite-percentage", "100"),
        ("auto-aof-rewrite-min-size", "65536"),
    ];
    let phases = vec![load(), phase("updates", "put", 30_000), phase("reads", "get", 1000), rest()];
    let record = go(&spec(directory.path(), &settings, ServerSpec::new(4, 16), phases));
    assert_eq!(record.failure, None);
    assert!(record.engine_version.starts_with("redis ") || record.engine_version.starts_with("valkey "), "{}", record.engine_version);
    assert_eq!(record.written_source, Source::Medium);
    let [load, updates, reads, rest] = record.phases.as_slice() else { panic!("{} phases", record.phases.len()) };
    assert_eq!((load.operations, load.written.user_bytes, load.space.live_keys), (100, 6600, Some(100)));
    assert_eq!((updates.operations, updates.latency.as_ref().unwrap().count, updates.space.live_keys), (30_000, 30_000, Some(100)));
    assert_eq!(reads.found, Some(Found { found: 1000, asked: 1000 }));
    assert!(updates.operations_per_second > 0.0 && updates.client_cpu_seconds > Some(0.0) && updates.cpu_seconds > 0.0);
    assert_eq!(updates.series.iter().map(|second| second.operations).sum::<u64>(), 30_000);
    assert!(updates.series.iter().any(|second| second.longest_ping_ns.is_some()));
    assert!(updates.memory.peak_resident_bytes >= 1 << 20 && rest.proportional_bytes >= 1 << 20);
    assert!(rest.tickers["aof_rewrites"] > 0 && rest.tickers["total_forks"] > 0, "{:?}", rest.tickers);
    // What reaches a medium depends on the file system.
    let (written, disk): (u64, u64) = (record.phases.iter().map(|phase| phase.process_written_bytes).sum(), rest.space.store_bytes);
    assert!(written > 1 << 20 && disk > 0, "{written} {disk}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the run leaves nothing behind");
}

/// Commands fill, change and read collections: requested elements exist, and user bytes are those of all arguments of commands that write.
#[test]
fn commands_of_a_spec_fill_change_and_read_collections() {
    if !redis_is_here() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut fill = phase("fill", "RPUSH {key} {10 of value}", 100);
    if let PhaseKind::Run { mixes, .. } = &mut fill.kind {
        mixes[0].distribution = Distribution::Unique;
    }
    let mut change = phase("change", "LPUSH {key} {value}", 400);
    if let PhaseKind::Run { mixes, .. } = &mut change.kind {
        mixes[0].operations.insert("RPOP {key}".into(), 1.0);
    }
    let read = phase("read", "LRANGE {key} 0 1", 500);
    let score = phase("score", "ZADD z{key} {score} {member of 9}", 300);
    let complaint = spec(directory.path(), &[], ServerSpec::new(4, 16), vec![score]).validate();
    assert!(complaint[0].ends_with("\"z{key}\" is no argument"), "{complaint:?}");
    let phases = vec![fill, change, read, phase("all", "DEL {key}", 1000), phase("score", "ZADD {key} {score} {member of 9}", 300)];
    let record = go(&spec(directory.path(), &[("appendonly", "yes")], ServerSpec::new(4, 16), phases));
    assert_eq!(record.failure, None);
    let [fill, change, read, all, score] = record.phases.as_slice() else { panic!("{} phases", record.phases.len()) };
    assert_eq!((fill.operations, fill.written.user_bytes, fill.space.live_keys), (100, 100 * (16 + 10 * 50), None));
    let [pushes, pops] = ["LPUSH {key} {value}", "RPOP {key}"].map(|name| change.latency_by_operation[&format!("all {name}")].count);
    assert_eq!((pushes + pops, change.written.user_bytes), (400, pushes * 66 + pops * 16));
    assert!(pushes.abs_diff(pops) < 150, "{pushes} {pops}");
    assert_eq!((read.found, read.written.user_bytes), (Some(Found { found: 500, asked: 500 }), 0));
    assert_eq!(read.bytes, 500 * (16 + 2 + 2 * 50));
    assert_eq!((all.written.user_bytes, score.written.user_bytes), (16_000, 300 * (16 + 6 + 20)));
}

#[test]
fn a_log_that_is_to_be_kept_is_kept_or_the_run_fails() {
    if !redis_is_here() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |percentage: &str| {
        let settings = [("appendonly", "yes"), ("auto-aof-rewrite-percentage", percentage), ("auto-aof-rewrite-min-size", "65536")];
        let server = ServerSpec { keeps_log: true, ..ServerSpec::new(4, 16) };
        go(&spec(directory.path(), &settings, server, vec![phase("updates", "put", 30_000), rest()])).failure
    };
    assert_eq!(run("0"), None);
    assert!(run("100").unwrap().ends_with("the log was shortened in a run that was to keep it"));
}

/// The kernel ends a server that exceeds the memory of its cgroup, in which the client is not; the record says where.
#[test]
fn a_server_that_needs_more_than_its_memory_is_killed_and_that_is_told() {
    if !redis_is_here() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut limited = spec(directory.path(), &[("appendonly", "no")], ServerSpec::new(4, 16), vec![load(), rest()]);
    (limited.workload.keys, limited.workload.value_size) = (100_000, ValueSize::Fixed(1000));
    limited.limits.memory_bytes = Some(48 << 20);
    let record = go(&limited);
    if let Some(why) = &record.confinement.complaint {
        return eprintln!("left out: {why}");
    }
    let (killed, failure) = (record.killed.unwrap(), record.failure.unwrap());
    assert_eq!(failure, format!("phase load: the server was {killed}"));
    assert!(record.phases.is_empty() && killed.phase.name == "load" && !killed.phase.series.is_empty());
    assert!((1000..100_000).contains(&killed.operations) && killed.seconds > 0.0, "{killed}");
    assert!((10 << 20..64 << 20).contains(&killed.memory_bytes), "{killed}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    // A server that fits is not.
    limited.workload.keys = 1000;
    assert_eq!((go(&limited).failure, go(&limited).killed), (None, None));
}

/// A server may be killed before its memory is looked at for the first time.
#[test]
fn a_killed_server_had_the_memory_that_was_seen_or_all_that_it_may_have() {
    let seen = |bytes: u64| {
        let mut phase = PhaseRecord::default();
        phase.memory.peak_resident_bytes = bytes;
        phase
    };
    assert_eq!(killed_in(&[seen(5), seen(7)], seen(6), Some(48)).memory_bytes, 7);
    assert_eq!(killed_in(&[], seen(0), Some(48)).memory_bytes, 48);
}

#[test]
fn redis_benchmark_can_ask_instead() {
    let program = Command::new("redis-benchmark").arg("--version").output();
    if !redis_is_here() || program.is_err() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = ServerSpec { benchmark: Some("redis-benchmark".into()), ..ServerSpec::new(4, 16) };
    let record = go(&spec(directory.path(), &[("appendonly", "yes")], server, vec![phase("sets", "put", 20_000), rest()]));
    assert_eq!(record.failure, None);
    let sets = &record.phases[0];
    assert_eq!((sets.operations, sets.written.user_bytes, sets.latency.is_none()), (20_000, 20_000 * 66, true));
    assert!(sets.operations_per_second > 0.0 && sets.space.live_keys.is_none());
}

#[test]
fn a_benchmark_that_fails_says_why() {
    if !redis_is_here() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // The shell knows other flags, or none of such a name.
    let server = ServerSpec { benchmark: Some("/bin/sh".into()), ..ServerSpec::new(1, 1) };
    let failure = go(&spec(directory.path(), &[("appendonly", "yes")], server, vec![phase("sets", "put", 1)])).failure.unwrap();
    assert!(failure.contains("/bin/sh: ended with exit status: "), "{failure}");
    assert!(failure.contains("; the last that it said: /bin/sh: "), "{failure}");
}

#[test]
fn a_stopped_run_ends_its_server() {
    if !redis_is_here() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut endless = phase("endless", "put", 1);
    if let PhaseKind::Run { operations, seconds, .. } = &mut endless.kind {
        (*operations, *seconds) = (None, Some(1e6));
    }
    let spec = spec(directory.path(), &[("appendonly", "yes")], ServerSpec::new(4, 16), vec![endless]);
    let stop = AtomicBool::new(false);
    let record = thread::scope(|scope| {
        let run = scope.spawn(|| execute(&SinterEngine, &spec, &stop));
        let noted = || {
            let own = std::fs::read_dir(directory.path()).ok()?.next()?.ok()?;
            std::fs::read_to_string(own.path().join("server.group")).ok()?.parse::<u32>().ok()
        };
        while !run.is_finished() && noted().is_none_or(|process| Process::of(process).cpu_seconds < 0.1) {
            thread::sleep(POLL);
        }
        let process = noted().unwrap();
        stop.store(true, Ordering::Relaxed);
        let record = run.join().unwrap();
        assert_eq!(Process::of(process).resident_bytes, 0, "it is gone");
        record
    });
    assert_eq!(record.failure.as_deref(), Some("interrupted"));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// A test of the other engines would start no server.
#[test]
fn specs_of_servers_make_sense() {
    let whole = spec(Path::new("."), &[("appendonly", "yes")], ServerSpec::new(50, 1), vec![load(), phase("a", "put", 9), rest()]);
    assert_eq!(whole.validate(), [""; 0]);
    let text = serde_json::to_string(&whole).unwrap();
    assert_eq!(serde_json::from_str::<RunSpec>(&text).unwrap(), whole);
    let complaint = |change: &dyn Fn(&mut RunSpec)| {
        let mut spec = whole.clone();
        change(&mut spec);
        spec.validate().join("; ")
    };
    let says = |part: &str, change: &dyn Fn(&mut RunSpec)| {
        let said = complaint(change);
        assert!(said.contains(part), "{part:?} not in {said:?}");
    };
    says("engine.server: must be given for redis", &|spec| spec.engine.server = None);
    says("engine.name: \"fjall\" is no server", &|spec| spec.engine.name = "fjall".into());
    says("engine.server.connections: must be 1 to 10000, not 0", &|spec| spec.engine.server = Some(ServerSpec::new(0, 1)));
    says("engine.server.pipeline: must be 1 to", &|spec| spec.engine.server = Some(ServerSpec::new(1, 0)));
    says("port is what the run says itself", &|spec| drop(spec.engine.database.insert("port".into(), "1".into())));
    says("is no name of a server's setting", &|spec| drop(spec.engine.database.insert("--x".into(), "1".into())));
    says("a server has one, without settings", &|spec| spec.engine.families.clear());
    says("servers have no other operations than delete, get, put", &|spec| spec.workload.phases[1] = phase("a", "scan", 1));
    says("is none of DEL, GET, ", &|spec| spec.workload.phases[1] = phase("a", "FLUSHALL", 1));
    says("a hole does not end", &|spec| spec.workload.phases[1] = phase("a", "GET {key", 1));
    assert_eq!(complaint(&|spec| spec.workload.phases[1] = phase("a", "HSET {key} {member of 9} {value}", 1)), "");
    says("\"HGETALL {key}\" is for servers", &|spec| {
        spec.engine = EngineSpec { name: "sinter".into(), server: None, ..spec.engine.clone() };
        spec.workload.phases[1] = phase("a", "HGETALL {key}", 1);
    });
    says("servers have no compact", &|spec| spec.workload.phases[2].kind = PhaseKind::Compact);
    says("servers have no threads", &|spec| spec.workload.phases[0].kind = PhaseKind::Load { order: Order::Random, threads: 2 });
    let by_benchmark = |spec: &mut RunSpec| spec.engine.server.as_mut().unwrap().benchmark = Some("redis-benchmark".into());
    says("is nothing that redis-benchmark does", &by_benchmark);
    says("is nothing that redis-benchmark does", &|spec| {
        by_benchmark(spec);
        spec.workload.phases = vec![phase("a", "HGETALL {key}", 1)];
    });
}
