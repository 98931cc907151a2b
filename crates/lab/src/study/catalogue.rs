//! The list of studies.

use super::plan::{Request, Scale, Study};
use super::{Error, adaptive_compression, aof_rewrite, compaction_wal_waf, large_load, memory_and_limits, own, redis_speed};
use super::{side_by_side, time_aware_tiering, zone_allocation};
use crate::run::{REDIS, SERVERS, Workload, named};

/// A study that comes with the laboratory.
pub struct Entry {
    /// Name of the study on the command line.
    pub name: &'static str,
    /// Question of the study, one line.
    pub asks: &'static str,
    make: fn(Scale, &Request) -> Study,
}

/// All studies.
pub const STUDIES: &[Entry] = &[
    Entry {
        name: compaction_wal_waf::NAME,
        asks: "does the log interact with the compaction style, and can leveled compaction be shaped to write as little as universal?",
        make: compaction_wal_waf::study,
    },
    Entry {
        name: adaptive_compression::NAME,
        asks: "what does a codec for each level cost and save, by processors, memory and skew, and does the engine choose as well?",
        make: adaptive_compression::study,
    },
    Entry {
        name: time_aware_tiering::NAME,
        asks: "what does it cost to keep young data off the last level, which age empties it, and does the engine find a good one?",
        make: time_aware_tiering::study,
    },
    Entry {
        name: memory_and_limits::NAME,
        asks: "what do a compressed part of the cache, moving memory and a look at limits save, and does the engine choose well?",
        make: memory_and_limits::study,
    },
    Entry {
        name: zone_allocation::NAME,
        asks: "which zone should a file be written into, and when should a dead zone be reset, so that little is moved, reset and used?",
        make: zone_allocation::study,
    },
    Entry {
        name: side_by_side::NAME,
        asks: "how fast are engines on db_bench's workloads and YCSB, at which write amplification, space and memory?",
        make: side_by_side::study,
    },
    Entry {
        name: large_load::NAME,
        asks: "how fast do engines take random puts of 25 GB, at which write amplification and space?",
        make: large_load::study,
    },
    Entry {
        name: aof_rewrite::NAME,
        asks: "what does shortening the log cost a server's clients, memory and disk: rewrites by a fork against flushes?",
        make: aof_rewrite::study,
    },
    Entry {
        name: redis_speed::NAME,
        asks: "how many SETs and GETs, and changes and reads of collections, does the server do beside Redis?",
        make: redis_speed::study,
    },
];

/// Smallest memory limit in a study that varies limits, bytes, for which [`Request::permits`] matters; `None` for other studies. If this
/// limit is permitted, larger ones are.
pub fn least_memory(name: &str) -> Option<u64> {
    match name {
        adaptive_compression::NAME => Some(adaptive_compression::LEAST_MEMORY),
        memory_and_limits::NAME => Some(memory_and_limits::LEAST_MEMORY),
        aof_rewrite::NAME => Some(aof_rewrite::LIMIT),
        _ => None,
    }
}

/// Engines that runners support.
const ENGINES: [&str; 3] = ["sinter", "rocksdb", "fjall"];

/// Engines that a study can compare.
pub fn engines(name: &str) -> &'static [&'static str] {
    match name {
        aof_rewrite::NAME | redis_speed::NAME => &SERVERS,
        _ => &ENGINES,
    }
}

/// Whether a study is about servers, so that [`Request::servers`] matters to it.
pub fn has_servers(name: &str) -> bool {
    engines(name) == SERVERS
}

/// The study with this name.
///
/// # Errors
/// Unknown names, and numbers out of range.
pub fn study(name: &str, scale: Scale, request: &Request) -> Result<Study, Error> {
    check(request, engines(name))?;
    if request.engines.iter().any(|engine| engine == REDIS) && request.servers.redis.is_none() {
        return Err(Error::Request("redis-server: no such program; install it, or give --redis".to_string()));
    }
    let entry = STUDIES.iter().find(|entry| entry.name == name);
    let known = || STUDIES.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
    let entry = entry.ok_or_else(|| Error::Request(format!("there is no study {name:?}; there are: {}", known())))?;
    checked((entry.make)(scale, request))
}

/// A study of a user's workload under many settings: which of them writes least, at which space, memory and speed.
///
/// # Errors
/// As [`study`]; a workload in which nothing can be measured.
pub fn own_workload(workload: Workload, request: &Request) -> Result<Study, Error> {
    check(request, &ENGINES)?;
    checked(own::study(workload, request)?)
}

/// A workload of [`NAMED`](crate::run::NAMED), with as many requests as keys, by two threads; `None` for an unknown name.
pub fn named_workload(name: &str, scale: Scale) -> Option<Workload> {
    let keys = match scale {
        Scale::Ci => 10_000,
        Scale::Small => 2_000_000,
        // As on each server in YCSB's paper: 20 GB (Cooper et al., SoCC 2010, section 6).
        Scale::Paper => 20_000_000,
    };
    named(name, keys, keys, 2)
}

/// Validates all specs of a study, so that complaints come before the first run.
fn checked(study: Study) -> Result<Study, Error> {
    let specs = study.runs().into_iter().filter_map(|run| study.spec(&run));
    match specs.map(|spec| spec.validate()).find(|complaints| !complaints.is_empty()) {
        Some(complaints) => Err(Error::Request(complaints.join("; "))),
        None => Ok(study),
    }
}

fn check(request: &Request, known: &[&str]) -> Result<(), Error> {
    let wrong = |what: String| Err(Error::Request(what));
    if let Some(engine) = request.engines.iter().find(|engine| !known.contains(&engine.as_str())) {
        return wrong(format!("engine: there is no {engine:?}; there are: {}", known.join(", ")));
    }
    let twice = |(i, engine): (usize, &String)| request.engines[..i].contains(engine);
    if let Some((_, engine)) = request.engines.iter().enumerate().find(|pair| twice(*pair)) {
        return wrong(format!("engine: {engine} is named twice"));
    }
    if request.engines.is_empty() {
        return wrong("engine: none is named".to_string());
    }
    match request.repeats {
        Some(repeats) if !(1..=1000).contains(&repeats) => wrong(format!("repeats must be 1 to 1000, not {repeats}")),
        _ => Ok(()),
    }
}
