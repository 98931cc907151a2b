//! Latency events: operations that took long, and `LATENCY`.

use super::arguments::is;
use super::spec::{ADMIN, LOADING, NOSCRIPT, STALE};
use super::usage::Histogram;
use super::{Command, Context, Failure, Group, Outcome, help, unknown_subcommand};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

/// Samples kept for each kind of event.
const SAMPLES: usize = 160;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new(Group::Server, "latency", -2, latency)
    .subcommands(&["doctor", "graph", "help", "histogram", "history", "latest", "reset"], HELP)
    .flags(ADMIN | LOADING | NOSCRIPT | STALE)
    .since("2.8.13")
    .says("Moments in which something took long", "O(n), n being the number of moments")];

/// A sample: unix seconds, and the duration in milliseconds.
type Sample = (u64, u64);

#[derive(Debug, Default)]
struct Series {
    samples: VecDeque<Sample>,
    /// Longest duration, samples no longer kept included, milliseconds.
    worst: u64,
}

/// Samples of operations longer than `latency-monitor-threshold`, by kind of event.
#[derive(Debug, Default)]
pub(super) struct Monitor {
    events: BTreeMap<&'static str, Series>,
}

impl Monitor {
    /// Adds a sample of `ms` milliseconds. Each second keeps only its longest one.
    pub fn add(&mut self, event: &'static str, at: u64, ms: u64) {
        let series = self.events.entry(event).or_default();
        series.worst = series.worst.max(ms);
        match series.samples.back_mut() {
            Some((last, worst)) if *last == at => *worst = (*worst).max(ms),
            _ => series.samples.push_back((at, ms)),
        }
        if series.samples.len() > SAMPLES {
            series.samples.pop_front();
        }
    }
}

const HELP: &[&str] = &[
    "DOCTOR",
    "    What there is to say about moments that took long.",
    "GRAPH <event>",
    "    The moments of an event as a picture.",
    "HISTOGRAM [<command> ...]",
    "    How many calls of commands took how long.",
    "HISTORY <event>",
    "    The moments of an event: unix seconds and milliseconds.",
    "LATEST",
    "    The newest moment of each event, and the worst.",
    "RESET [<event> ...]",
    "    Forget the moments of these events, or of all.",
];

fn latency(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    let sub = arguments[1];
    match (sub, &arguments[2..]) {
        (_, []) if is(sub, "help") => help(context, "LATENCY", HELP)?,
        (_, []) if is(sub, "doctor") => {
            let report = doctor(context);
            context.reply.verbatim(*b"txt", report.as_bytes());
        }
        (_, [event]) if is(sub, "graph") => {
            let Some((name, series)) = find(context, event) else {
                return Err(Failure::new([b"ERR No samples available for event '", *event, b"'"].concat()));
            };
            let picture = graph(name, series, context.keyspace.now() / 1000);
            context.reply.verbatim(*b"txt", picture.as_bytes());
        }
        (_, [event]) if is(sub, "history") => {
            let samples: Vec<Sample> = find(context, event).map(|(_, series)| series.samples.iter().copied().collect()).unwrap_or_default();
            context.reply.array(samples.len());
            for (at, ms) in samples {
                context.reply.array(2);
                numbers(context, &[at, ms]);
            }
        }
        (_, []) if is(sub, "latest") => latest(context),
        (_, events) if is(sub, "reset") => {
            let before = context.server.records.latency.events.len();
            context.server.records.latency.events.retain(|name, _| !events.is_empty() && !events.contains(&name.as_bytes()));
            context.reply.count(before - context.server.records.latency.events.len());
        }
        (_, names) if is(sub, "histogram") => histograms(context, names),
        _ => return Err(unknown_subcommand(arguments)),
    }
    Ok(())
}

fn numbers(context: &mut Context, numbers: &[u64]) {
    numbers.iter().for_each(|number| context.reply.integer(i64::try_from(*number).unwrap_or(i64::MAX)));
}

fn find<'c>(context: &'c Context, event: &[u8]) -> Option<(&'static str, &'c Series)> {
    context.server.records.latency.events.iter().find(|(name, _)| name.as_bytes() == event).map(|(name, series)| (*name, series))
}

fn latest(context: &mut Context) {
    let each = |(name, series): (&&'static str, &Series)| series.samples.back().map(|last| (*name, *last, series.worst));
    let all: Vec<(&str, Sample, u64)> = context.server.records.latency.events.iter().filter_map(each).collect();
    context.reply.array(all.len());
    for (name, (at, ms), worst) in all {
        context.reply.array(4);
        context.reply.bulk(name.as_bytes());
        numbers(context, &[at, ms, worst]);
    }
}

/// A command's name stands for the command and its subcommands; those that never ran are left out.
fn histograms(context: &mut Context, names: &[&[u8]]) {
    let units = context.server.units;
    let wanted: Vec<usize> = if names.is_empty() {
        (0..units.all().len()).collect()
    } else {
        let with_subs = |number: usize| std::iter::once(number).chain(units.get(number).subcommands.clone());
        names.iter().filter_map(|name| units.find(name)).flat_map(with_subs).collect()
    };
    let with_histogram = |number: usize| context.server.records.usage.of(number).histogram.as_deref().map(|histogram| (number, histogram));
    let all: Vec<(usize, &Histogram)> = wanted.into_iter().filter_map(with_histogram).collect();
    context.reply.map(all.len());
    for (number, histogram) in all {
        let integer = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        context.reply.bulk(units.get(number).name.as_bytes());
        context.reply.map(2);
        context.reply.bulk(b"calls");
        context.reply.integer(integer(histogram.total()));
        context.reply.bulk(b"histogram_usec");
        let powers = histogram.by_powers();
        context.reply.map(powers.len());
        for (micros, count) in powers {
            context.reply.integer(integer(micros));
            context.reply.integer(integer(count));
        }
    }
}

fn doctor(context: &Context) -> String {
    let threshold = context.server.configuration.latency_threshold;
    let events = &context.server.records.latency.events;
    let mut report = String::new();
    if threshold == 0 {
        report.push_str("Moments are not noted: latency-monitor-threshold is 0. Set it to the milliseconds from which on they matter.\n");
    } else if events.is_empty() {
        let _ = writeln!(report, "Nothing took longer than {threshold} ms.");
    }
    for (number, (name, series)) in events.iter().enumerate() {
        let count = series.samples.len().max(1) as u64;
        let mean = series.samples.iter().map(|(_, ms)| ms).sum::<u64>() / count;
        let (number, worst) = (number + 1, series.worst);
        let _ = writeln!(report, "{number}. {name}: {count} moments, {mean} ms on average, the worst ever {worst} ms.");
    }
    if events.contains_key("command") {
        report.push_str(
            "SLOWLOG GET says which commands took long. They keep all other clients waiting; LATENCY HISTOGRAM says how often.\n",
        );
    }
    if events.contains_key("commit") {
        report.push_str("Commits took long: the medium is slow or busy. With appendfsync always each of them waits for the medium.\n");
    }
    report
}

/// Levels of height within a line of a picture, low to high.
const ROWS: u64 = 4;
const COLUMNS: usize = 80;

fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The newest samples as columns, and below each its age, from top to bottom.
fn graph(name: &str, series: &Series, now: u64) -> String {
    let shown: Vec<Sample> = series.samples.iter().copied().skip(series.samples.len().saturating_sub(COLUMNS)).collect();
    let high = shown.iter().map(|(_, ms)| *ms).max().unwrap_or(0);
    let low = shown.iter().map(|(_, ms)| *ms).min().unwrap_or(0);
    let mut picture = format!("{name} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n", series.worst, "-".repeat(COLUMNS));
    let height = |ms: u64| (ms.saturating_sub(low) * (ROWS - 1)).checked_div(high - low).unwrap_or(0);
    for row in (0..ROWS).rev() {
        let column = |(_, ms): &Sample| {
            if height(*ms) == row {
                '#'
            } else if height(*ms) > row {
                '|'
            } else {
                ' '
            }
        };
        picture.push_str(shown.iter().map(column).collect::<String>().trim_end());
        picture.push('\n');
    }
    let labels: Vec<Vec<u8>> = shown.iter().map(|(at, _)| ago(now.saturating_sub(*at)).into_bytes()).collect();
    for line in 0..labels.iter().map(Vec::len).max().unwrap_or(0) {
        let letters = labels.iter().map(|label| label.get(line).map_or(' ', |byte| char::from(*byte)));
        picture.push_str(letters.collect::<String>().trim_end());
        picture.push('\n');
    }
    picture
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_a_second_counts() {
        let mut monitor = Monitor::default();
        for (at, ms) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            monitor.add("command", at, ms);
        }
        assert_eq!(monitor.events["command"].samples, [(1, 9), (2, 3)]);
        (0..1000).for_each(|at| monitor.add("command", 10 + at, 1));
        assert_eq!((monitor.events["command"].samples.len(), monitor.events["command"].worst), (SAMPLES, 9));
    }

    #[test]
    fn a_picture_has_a_column_for_each_moment() {
        let mut monitor = Monitor::default();
        for (at, ms) in [(1000, 10), (1001, 40), (4000, 20)] {
            monitor.add("commit", at, ms);
        }
        let lines: Vec<String> = graph("commit", &monitor.events["commit"], 4005).lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "commit - high 40 ms, low 10 ms (all time high 40 ms)");
        assert_eq!(lines[2..], [" #", " |", " |#", "#||", "555", "00s", "mm"]);
        assert!(graph("none", &Series::default(), 0).lines().count() >= 2);
    }
}
