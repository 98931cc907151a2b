//! A user's own workload crossed with the settings that shape a tree.

use super::Error;
use super::plan::{Cell, Request, Study};
use super::settings::{BASE, FAN_OUT, MEMTABLE, Shape, TRIGGER, database, family, settle};
use crate::run::{Distribution, EngineSpec, Mix, Phase, PhaseKind, Workload};
use sinterdb::internal::settings::format_bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Name of the study in result folders.
pub const NAME: &str = "workload";
/// Name of the only measure of each run.
pub const MEASURE: &str = "all";
/// Default number of repeats.
const REPEATS: u32 = 3;

/// A shape to try.
pub struct Tried {
    /// Name of the shape.
    pub name: String,
    /// Factors of the shape with their values.
    pub factors: Vec<(&'static str, String)>,
    /// The shape.
    pub shape: Shape,
}

/// Shapes to try with a memtable of `memtable` bytes.
pub fn shapes(memtable: u64) -> Vec<Tried> {
    let mut shapes = Vec::new();
    for trigger in [TRIGGER, 2 * TRIGGER] {
        let factors = vec![("style", "universal".to_string()), ("runs", trigger.to_string())];
        shapes.push(Tried { name: format!("universal, {trigger} runs"), factors, shape: Shape::Universal { trigger } });
    }
    let factors = vec![("style", "leveled, dynamic".to_string())];
    shapes.push(Tried { name: "leveled, dynamic".to_string(), factors, shape: Shape::Dynamic });
    for base in [BASE / 4, BASE, 2 * BASE] {
        for fan_out in [4, FAN_OUT, 2 * FAN_OUT] {
            let size = format_bytes(base * memtable);
            let factors = vec![("style", "leveled".to_string()), ("base", size.clone()), ("fan-out", fan_out.to_string())];
            shapes.push(Tried {
                name: format!("leveled, base {size}, fan-out {fan_out}"),
                factors,
                shape: Shape::Leveled { base, fan_out },
            });
        }
    }
    shapes
}

/// The settings of a shape for all families of a workload.
pub fn settings(workload: &Workload, shape: Shape, memtable: u64) -> EngineSpec {
    let list = families(workload).iter().map(|name| family(name, shape, memtable)).collect();
    database(list, memtable, true, false)
}

/// Adds settling phases after the loads of a workload, and at its end, where it has none: compactions that a shape defers would otherwise
/// count for another phase, or for none.
pub fn settled(mut workload: Workload) -> Workload {
    let is_paid = |phases: &[Phase]| phases.last().is_none_or(|phase| matches!(phase.kind, PhaseKind::Settle | PhaseKind::Compact));
    let loads = start(&workload);
    for end in [workload.phases.len(), loads] {
        if !is_paid(&workload.phases[..end]) {
            let name = format!("{} (settled)", workload.phases[end - 1].name);
            workload.phases.insert(end, settle(&name));
        }
    }
    workload
}

/// Names of all phases after the initial loads of a workload, or of all phases if there are no others.
pub fn measured(workload: &Workload) -> Vec<String> {
    workload.phases[start(workload)..].iter().map(|phase| phase.name.clone()).collect()
}

/// Index of the first measured phase.
fn start(workload: &Workload) -> usize {
    // Several families are loaded by runs that put each key of a range once.
    let puts_once = |mix: &Mix| mix.distribution == Distribution::Unique && mix.operations.keys().all(|operation| operation == "put");
    let is_load = |kind: &PhaseKind| match kind {
        PhaseKind::Run { mixes, .. } => mixes.iter().all(puts_once),
        PhaseKind::Replay { .. } | PhaseKind::Change { .. } => false,
        _ => true,
    };
    workload.phases.iter().position(|phase| !is_load(&phase.kind)).unwrap_or(0)
}

/// Families named by the mixes, after the first one, which all other mixes use.
fn families(workload: &Workload) -> Vec<String> {
    let mixes = |kind: &PhaseKind| match kind {
        PhaseKind::Run { mixes, .. } => mixes.clone(),
        _ => Vec::new(),
    };
    let named: BTreeSet<String> = workload.phases.iter().flat_map(|phase| mixes(&phase.kind)).filter_map(|mix: Mix| mix.family).collect();
    let others = named.into_iter().filter(|name| name != "default");
    std::iter::once("default".to_string()).chain(others).collect()
}

/// The study of a workload.
pub(super) fn study(workload: Workload, request: &Request) -> Result<Study, Error> {
    if workload.phases.is_empty() {
        return Err(Error::Request("workload: it has no phases".to_string()));
    }
    let workload = settled(workload);
    let measures = BTreeMap::from([(MEASURE.to_string(), measured(&workload))]);
    let cells = shapes(MEMTABLE).into_iter().map(|tried| {
        let factors: Vec<_> = tried.factors.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let settings = settings(&workload, tried.shape, MEMTABLE);
        Cell { measures: measures.clone(), ..Cell::new(tried.name, &factors, settings, workload.clone()) }
    });
    let questions = vec![format!(
        "Which compaction style, base level and fan-out give workload {:?} the least write amplification, at which space, memory \
         and speed? Measured are its phases {:?} together; log on, Snappy, memtables and tables of 64 MiB.",
        workload.name,
        measured(&workload)
    )];
    let title = format!("{}: which settings write least", workload.name);
    Ok(Study { questions, cells: cells.collect(), ..request.study(NAME, &title, None, REPEATS) })
}
