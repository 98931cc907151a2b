//! Charts of many points per cell.

use super::{Chart, number, numbers};
use crate::report::cells::{Cell, Workload};
use crate::report::text::{color, engine, escape};
use crate::run::{PhaseRecord, Second};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Most points of a line; in longer series one point stands for several seconds.
const POINTS: usize = 200;
/// Height of a panel, pixels.
const HEIGHT: usize = 200;

const MIB: f64 = 1_048_576.0;

/// Several readings of a series, each of a second or a tenth of one, taken together.
struct Span {
    at: f64,
    length: f64,
    seconds: Vec<Second>,
}

/// A quantity of a series.
struct Quantity {
    id: &'static str,
    title: &'static str,
    /// Rule by which several seconds become one point; a point that is not a number is a gap.
    note: &'static str,
    of: fn(&Span) -> f64,
}

const QUANTITIES: &[Quantity] = &[
    Quantity { id: "operations", title: "Operations per second", note: "mean", of: |s| s.sum(|x| x.operations as f64) / s.length },
    Quantity {
        id: "p99",
        title: "99th percentile of latency, µs",
        note: "greatest",
        of: |s| s.most(|x| x.latency_ns[1].map_or(f64::NAN, |p99| p99 as f64 / 1000.0)),
    },
    Quantity {
        id: "written",
        title: "Bytes written, MiB/s",
        note: "mean",
        of: |s| s.sum(|x| x.written.values().sum::<u64>() as f64) / s.length / MIB,
    },
    Quantity { id: "disk", title: "Bytes of the store, MiB", note: "greatest", of: |s| s.most(|x| x.disk_bytes as f64 / MIB) },
    Quantity {
        id: "memory",
        title: "Memory, proportional set size, MiB",
        note: "greatest",
        of: |s| s.most(|x| x.proportional_bytes as f64 / MIB),
    },
    Quantity {
        id: "pings",
        title: "Longest PING, ms",
        note: "greatest",
        of: |s| s.most(|x| x.longest_ping_ns.map_or(f64::NAN, |ns| ns as f64 / 1e6)),
    },
    Quantity {
        id: "stalls",
        title: "Writers stalled, s/s",
        note: "mean; fjall does not tell",
        of: |s| s.sum(|x| x.stall_ns as f64 / 1e9) / s.length,
    },
];

impl Span {
    fn sum(&self, of: fn(&Second) -> f64) -> f64 {
        self.seconds.iter().map(of).sum()
    }

    fn most(&self, of: fn(&Second) -> f64) -> f64 {
        // NaN loses against any number.
        self.seconds.iter().map(of).fold(f64::NAN, f64::max)
    }
}

/// Splits a series into at most [`POINTS`] spans; also returns the seconds per span.
fn spans(series: &[Second]) -> (Vec<Span>, usize) {
    let each = series.len().div_ceil(POINTS).max(1);
    let mut before = 0.0;
    let span = |seconds: &[Second]| {
        let at = seconds.last().map_or(before, |second| second.at);
        let length = at - before;
        before = at;
        Span { at, length, seconds: seconds.to_vec() }
    };
    let mut spans: Vec<Span> = series.chunks(each).map(span).collect();
    spans.retain(|span| span.length > 0.0);
    (spans, each)
}

/// The repeat with the median throughput (the lower one of two): a mean of series would smooth away the peaks that lines should show.
fn median_run<'a>(cell: &Cell<'a>, name: &str) -> Option<&'a PhaseRecord> {
    let mut phases: Vec<&PhaseRecord> = cell.phases(name).collect();
    phases.sort_by(|a, b| a.operations_per_second.total_cmp(&b.operations_per_second));
    phases.get(phases.len().saturating_sub(1) / 2).copied()
}

/// A line in the panel of its cell, in the colour of its engine; a mark for a single point.
fn line(cell: &Cell<'_>, x: Value, y: Value) -> Value {
    let single = x.as_array().is_some_and(|points| points.len() < 2);
    json!({
        "type": "scatter", "mode": if single { "markers" } else { "lines" }, "name": escape(engine(&cell.engine)),
        "panel": escape(&cell.label), "color": color(&cell.engine), "x": x, "y": y,
    })
}

/// Charts of the quantities of a phase over time, a panel for each cell with a line for each engine, or a mark for a phase of one second.
/// Quantities that are always 0 have
/// no chart, nor have phases that last one second everywhere.
pub fn over_time(id: &str, workload: &Workload<'_>, name: &str) -> Vec<Chart> {
    let cells: Vec<(&Cell<'_>, _)> =
        workload.cells.iter().filter_map(|cell| Some((cell, spans(&median_run(cell, name)?.series)))).collect();
    if cells.iter().all(|(_, (spans, _))| spans.len() < 2) {
        return Vec::new();
    }
    let each = cells.iter().map(|(_, (_, each))| *each).max().unwrap_or(1);
    let draw = |quantity: &Quantity| {
        let of = |spans: &[Span]| spans.iter().map(quantity.of).collect::<Vec<f64>>();
        if cells.iter().all(|(_, (spans, _))| of(spans).iter().all(|y| *y == 0.0 || y.is_nan())) {
            return None;
        }
        let lines = cells.iter().filter(|(_, (spans, _))| !spans.is_empty());
        let data = lines.map(|(cell, (spans, _))| {
            let y = of(spans);
            let mut trace = line(cell, numbers(spans.iter().map(|s| s.at)), numbers(y.iter().copied()));
            if y.iter().any(|y| y.is_nan()) {
                // A point between two gaps has no line.
                trace["mode"] = json!("lines+markers");
            }
            trace
        });
        let several = if each > 1 { format!("; a point is the {} of up to {each} readings", quantity.note) } else { String::new() };
        Some(Chart {
            id: format!("{id}-series-{}", quantity.id),
            title: quantity.title.into(),
            note: format!("the repeat with the median throughput{several}"),
            data: data.collect(),
            layout: json!({
                "height": HEIGHT, "showlegend": workload.engines.len() > 1,
                "xaxis": { "title": { "text": "seconds" } },
            }),
        })
    };
    QUANTITIES.iter().filter_map(draw).collect()
}

/// Latency by percentile, all repeats together. The axis is one over the share of longer calls, so that the tail is as wide as it deserves
/// (as HdrHistogram's plots; Tene 2013).
pub fn percentiles(id: String, workload: &Workload<'_>, name: &str) -> Option<Chart> {
    let curves = workload.cells.iter().filter_map(|cell| Some((cell, curve(cell, name)?)));
    let data: Vec<Value> =
        curves.map(|(cell, curve)| line(cell, numbers(curve.iter().map(|point| point.0)), numbers(curve.iter().map(|p| p.1)))).collect();
    let ticks = ["0 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %", "99.99999 %"];
    let layout = json!({
        "height": HEIGHT, "showlegend": workload.engines.len() > 1,
        "xaxis": {
            "type": "log", "title": { "text": "percentile" }, "ticktext": ticks,
            "tickvals": (0..ticks.len()).map(|nines| number(10f64.powi(nines as i32))).collect::<Vec<_>>(),
        },
        "yaxis": { "type": "log", "title": { "text": "µs" } },
    });
    let note = "calls that took no longer; all repeats together".into();
    (!data.is_empty()).then(|| Chart { id, title: "Latency by percentile".into(), note, data, layout })
}

/// Points of a curve: one over the share of longer calls, and microseconds. For the longest call that would be infinite; it stands at one
/// over its own share.
fn curve(cell: &Cell<'_>, name: &str) -> Option<Vec<(f64, f64)>> {
    let latencies = cell.phases(name).filter_map(|phase| phase.latency.as_ref());
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    for (upper, count) in latencies.flat_map(|latency| &latency.buckets) {
        *buckets.entry(*upper).or_default() += count;
    }
    let all: u64 = buckets.values().sum();
    let mut left = all;
    let points = buckets.iter().map(|(upper, count)| {
        left -= count;
        (all as f64 / left.max(1) as f64, *upper as f64 / 1000.0)
    });
    let points: Vec<(f64, f64)> = points.collect();
    (!points.is_empty()).then_some(points)
}
