//! Checks the spec of a server's run.

use super::spec::{EngineSpec, Mix, Pace, Phase, PhaseKind, RunSpec, ServerSpec, ValueSize};
use super::template::Template;
use std::ops::RangeInclusive;

/// Engine name of SinterDB, which its server shares.
const SINTER: &str = "sinter";
/// Engine name of Redis, which exists as a server only.
pub const REDIS: &str = "redis";
/// Engines that exist as servers.
pub const SERVERS: [&str; 2] = [SINTER, REDIS];

/// Operations of other engines that servers have too, with their commands.
const COMMANDS: [(&str, &str); 3] = [("delete", "DEL {key}"), ("get", "GET {key}"), ("put", "SET {key} {value}")];
/// Largest number of connections: more than servers accept by default.
const MAX_CONNECTIONS: usize = 10_000;
/// Largest pipeline; more is taken for a typing error.
const MAX_PIPELINE: usize = 100_000;
/// Settings that the run itself passes to a server (address, directory, staying in the foreground), so that specs must not.
const RESERVED: [&str; 10] =
    ["appenddirname", "bind", "daemonize", "dir", "logfile", "pidfile", "port", "requirepass", "save", "supervised"];
/// Bytes of the keys of redis-benchmark: `key:` and twelve digits.
const BENCHMARK_KEY: usize = 16;

/// Complaints about the parts of a spec that concern servers; none for a run without one.
pub(super) fn complaints(spec: &RunSpec) -> Vec<String> {
    let mut list = Vec::new();
    let mut that = |good: bool, field: &str, what: &str| {
        if !good {
            list.push(format!("{field}: {what}"));
        }
    };
    let EngineSpec { name, database, families, .. } = &spec.engine;
    let Some(server) = &spec.engine.server else {
        that(name != REDIS, "engine.server", "must be given for redis");
        for mix in spec.workload.phases.iter().flat_map(mixes) {
            for command in mix.operations.keys().filter(|name| Template::parse(name).is_ok()) {
                that(false, &format!("workload.phases.mixes ({})", mix.name), &format!("{command:?} is for servers"));
            }
        }
        return list;
    };
    that(SERVERS.contains(&name.as_str()), "engine.name", &format!("{name:?} is no server; there are {}", SERVERS.join(", ")));
    within(&mut that, server.connections, 1..=MAX_CONNECTIONS, "engine.server.connections");
    within(&mut that, server.pipeline, 1..=MAX_PIPELINE, "engine.server.pipeline");
    that(families.len() == 1 && families[0].settings.is_empty(), "engine.families", "a server has one, without settings");
    that(!spec.engine.hide_limits, "engine.hide_limits", "is not for servers");
    that(spec.engine.operations_per_clock_second.is_none(), "engine.operations_per_clock_second", "is not for servers");
    that(spec.engine.tiers.is_empty(), "engine.tiers", "is not for servers");
    that(spec.engine.zones.is_none(), "engine.zones", "is not for servers");
    for setting in database.keys() {
        let plain = setting.starts_with(|c: char| c.is_ascii_lowercase())
            && setting.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        that(plain, "engine.database", &format!("setting {setting:?} is no name of a server's setting"));
        that(!RESERVED.contains(&setting.as_str()), "engine.database", &format!("{setting} is what the run says itself"));
    }
    for (i, phase) in spec.workload.phases.iter().enumerate() {
        let at = format!("workload.phases[{i}] ({})", phase.name);
        match what_is_wrong(phase) {
            Some(what) => that(false, &at, &format!("servers have no {what}")),
            None => that(server.benchmark.is_none() || fits_benchmark(spec, phase), &at, "is nothing that redis-benchmark does"),
        }
    }
    list
}

fn within(that: &mut impl FnMut(bool, &str, &str), value: usize, bounds: RangeInclusive<usize>, field: &str) {
    that(bounds.contains(&value), field, &format!("must be {} to {}, not {value}", bounds.start(), bounds.end()));
}

/// The mixes of a phase.
fn mixes(phase: &Phase) -> &[Mix] {
    if let PhaseKind::Run { mixes, .. } = &phase.kind { mixes } else { &[] }
}

/// The command for an operation of a mix: an operation of other engines, or a template.
///
/// # Errors
/// The reason why the text is no template.
pub(crate) fn template(operation: &str) -> Result<Template, String> {
    let known = COMMANDS.iter().find(|(name, _)| *name == operation);
    Template::parse(known.map_or(operation, |(_, command)| command))
}

/// Reason why a phase cannot be run against a server.
fn what_is_wrong(phase: &Phase) -> Option<&'static str> {
    match &phase.kind {
        PhaseKind::Load { threads, .. } => (*threads != 1).then_some("threads: their connections are one thread's"),
        PhaseKind::Settle => None,
        PhaseKind::Compact => Some("compact"),
        PhaseKind::Change { .. } => Some("change"),
        PhaseKind::Replay { .. } => Some("replay"),
        PhaseKind::Flush | PhaseKind::Wait | PhaseKind::Empty | PhaseKind::Stats => Some("flush, wait, empty and stats"),
        PhaseKind::Run { threads, pace, writer, mixes, calls, .. } => {
            let known = |mix: &Mix| mix.operations.keys().all(|name| template(name).is_ok());
            [
                (*threads != 1, "threads: their connections are one thread's"),
                (*pace != Pace::Closed, "other pace than closed"),
                (writer.is_some(), "writer"),
                (!calls.is_default(), "calls other than one by one"),
                (!mixes.iter().all(known), "other operations than delete, get, put and templates of commands"),
            ]
            .into_iter()
            .find_map(|(wrong, what)| wrong.then_some(what))
        }
    }
}

/// Whether redis-benchmark can do a phase: a number of gets, or of puts of values of one size, at random keys.
fn fits_benchmark(spec: &RunSpec, phase: &Phase) -> bool {
    let sizes = spec.workload.key_size == BENCHMARK_KEY && matches!(spec.workload.value_size, ValueSize::Fixed(_));
    let one = |mix: &Mix| mix.operations.len() == 1 && mix.operations.keys().all(|name| ["get", "put"].contains(&name.as_str()));
    let whole = |mix: &Mix| mix.range == (0.0, 1.0) && one(mix);
    match &phase.kind {
        PhaseKind::Settle => true,
        PhaseKind::Run { mixes, operations, warm_up_seconds, .. } => {
            sizes && operations.is_some() && *warm_up_seconds == 0.0 && mixes.len() == 1 && mixes.iter().all(whole)
        }
        _ => false,
    }
}

impl ServerSpec {
    /// A spec for the laboratory's own client.
    pub fn new(connections: usize, pipeline: usize) -> Self {
        ServerSpec { connections, pipeline, ..ServerSpec::default() }
    }
}
