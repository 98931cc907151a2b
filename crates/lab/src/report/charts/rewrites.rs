//! A run of a server over time, as a picture (SVG) without a script: operations per second, and memory below them on the same axis of time.
//! Rewrites of the log are shaded across both, and what they take beside the data is filled. Colours are those of the page's style sheet.

use crate::report::text::{color, escape, number};
use crate::run::{PhaseRecord, RunRecord, Second};
use std::fmt::Write;

/// Size of the picture, its margins, and the height of a panel and of the space below it, pixels. As wide as a narrow screen nearly shows
/// it, because text shrinks with a picture.
const WIDTH: f64 = 440.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 8.0;
const PANEL: f64 = 130.0;
const BETWEEN: f64 = 16.0;
const BOTTOM: f64 = 40.0;
/// Most points of a line.
const POINTS: usize = 240;
const MIB: f64 = 1_048_576.0;

/// Readings that one point stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Point {
    /// Seconds since the run began: start and end.
    from: f64,
    to: f64,
    /// Operations per second.
    rate: f64,
    /// Largest memory of the server and its children, MiB.
    memory: f64,
    /// Largest sum of copied pages and rewrite buffer, MiB.
    beside: f64,
    /// Whether a rewrite was under way at the end of one of the readings.
    rewriting: bool,
}

/// The picture of a run; `None` for a run that is not of a server, or has fewer than two readings.
pub fn rewrites(record: &RunRecord) -> Option<String> {
    record.spec.engine.server.as_ref()?;
    let points = points(record);
    let [first, .., last] = points.as_slice() else { return None };
    let time = Axis::of(last.to, LEFT, WIDTH - RIGHT);
    let rates = Panel::of(&points, TOP, "operations per second", |point| point.rate);
    let memory = Panel::of(&points, TOP + PANEL + BETWEEN, "memory, MiB", |point| point.memory);
    let height = TOP + 2.0 * PANEL + BETWEEN + BOTTOM;
    let title = format!("{}, {}: operations per second and memory over time", record.engine_version, record.spec.workload.name);
    let title = escape(&title);
    let class = color(&record.spec.engine.name);
    let mut out = format!("<svg class=\"timeline {class}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n");
    for (from, to) in windows(&points) {
        let (x, width) = (time.at(from), (time.at(to) - time.at(from)).max(1.0));
        for top in [rates.top, memory.top] {
            // Writing to a String does not fail.
            let _ = writeln!(out, "<rect class=\"rewrite\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{PANEL}\"/>");
        }
    }
    rates.frame(&time, &mut out);
    memory.frame(&time, &mut out);
    if points.iter().any(|point| point.beside > 0.0) {
        let line = memory.line(&time, &points, |point| point.beside);
        let (start, end, low) = (time.at(first.to), time.at(last.to), memory.bottom());
        let _ = writeln!(out, "<polygon class=\"copied\" points=\"{start:.1},{low:.1} {line} {end:.1},{low:.1}\"/>");
    }
    let _ = writeln!(out, "<polyline class=\"rate\" points=\"{}\"/>", rates.line(&time, &points, |point| point.rate));
    let _ = writeln!(out, "<polyline class=\"memory\" points=\"{}\"/>", memory.line(&time, &points, |point| point.memory));
    if record.killed.is_some() {
        let (x, low) = (time.at(last.to), memory.bottom());
        let _ = writeln!(out, "<line class=\"killed\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{low}\"/>");
    }
    for tick in time.ticks() {
        let (x, y) = (time.at(tick), memory.bottom() + 15.0);
        let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>", tick_text(tick));
    }
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    let _ = writeln!(out, "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">time, seconds</text>", height - 6.0);
    Some(out + "</svg>\n")
}

/// Names of what some pictures hold beside their lines.
pub fn rewrites_key(pictures: &str) -> String {
    let has = |class: &str| pictures.contains(&format!(" class=\"{class}\""));
    let names = [("rewrite", "rewrite of the log"), ("copied", "memory beside the data: copied pages and rewrite buffer")];
    let names = names.into_iter().filter(|(class, _)| has(class));
    let names: String = names.map(|(class, name)| format!("<span><i class=\"{class}\"></i>{name}</span>")).collect();
    let killed = if has("killed") { " A broken line is where the server was killed." } else { "" };
    let rewrites = if has("rewrite") { "" } else { " These records do not say when a log was rewritten." };
    format!("<p class=\"key\">{names}{killed}{rewrites}</p>\n")
}

/// At most [`POINTS`] points of all phases up to the last one with operations, one behind the other; of a killed server also those of its
/// last phase. What follows is the server at rest, which would look like one that serves nobody.
fn points(record: &RunRecord) -> Vec<Point> {
    let works = |phase: &PhaseRecord| phase.operations > 0 || phase.series.iter().any(|second| second.operations > 0);
    let busy = record.phases.iter().rposition(works).map_or(0, |last| last + 1);
    let phases = record.phases[..busy].iter().chain(record.killed.as_ref().map(|killed| &killed.phase));
    let mut readings: Vec<(f64, f64, &Second)> = Vec::new();
    let mut begun = 0.0;
    for phase in phases {
        let mut before = begun;
        for second in &phase.series {
            readings.push((before, begun + second.at, second));
            before = begun + second.at;
        }
        begun = before;
    }
    let each = readings.len().div_ceil(POINTS).max(1);
    readings.chunks(each).filter_map(point).collect()
}

fn point(readings: &[(f64, f64, &Second)]) -> Option<Point> {
    let (from, to) = (readings.first()?.0, readings.last()?.1);
    let most = |of: &dyn Fn(&Second) -> u64| readings.iter().map(|(.., second)| of(second)).max().unwrap_or(0) as f64 / MIB;
    let operations: u64 = readings.iter().map(|(.., second)| second.operations).sum();
    (to > from).then(|| Point {
        from,
        to,
        rate: operations as f64 / (to - from),
        memory: most(&|second| second.proportional_bytes),
        beside: most(&|second| second.copied_bytes.saturating_add(second.rewrite_buffer_bytes.unwrap_or(0))),
        rewriting: readings.iter().any(|(.., second)| second.children > 0),
    })
}

/// Times in which a rewrite was under way: start and end of each, seconds.
fn windows(points: &[Point]) -> Vec<(f64, f64)> {
    let mut windows: Vec<(f64, f64)> = Vec::new();
    let mut before = false;
    for point in points {
        match windows.last_mut().filter(|_| before) {
            Some(window) if point.rewriting => window.1 = point.to,
            _ if point.rewriting => windows.push((point.from, point.to)),
            _ => {}
        }
        before = point.rewriting;
    }
    windows
}

/// An axis from 0.
struct Axis {
    most: f64,
    step: f64,
    start: f64,
    end: f64,
}

impl Axis {
    /// The axis for values up to `most` between two coordinates.
    fn of(most: f64, start: f64, end: f64) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let least = most / 5.0;
        let power = 10f64.powf(least.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= least * 0.999).unwrap_or(least);
        Axis { most, step, start, end }
    }

    fn at(&self, value: f64) -> f64 {
        self.start + (self.end - self.start) * (value / self.most).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (0..=10).map(|n| f64::from(n) * self.step).filter(|tick| *tick <= self.most)
    }
}

/// A tick's figure without digits that are always 0.
fn tick_text(tick: f64) -> String {
    if tick.fract() == 0.0 && tick < 1000.0 { format!("{tick:.0}") } else { number(tick) }
}

/// A panel: its upper edge, its axis and the title of that.
struct Panel {
    top: f64,
    axis: Axis,
    title: &'static str,
}

impl Panel {
    fn of(points: &[Point], top: f64, title: &'static str, of: impl Fn(&Point) -> f64) -> Self {
        let most = points.iter().map(of).fold(0.0, f64::max) * 1.05;
        Panel { top, axis: Axis::of(most, top + PANEL, top), title }
    }

    fn bottom(&self) -> f64 {
        self.top + PANEL
    }

    fn frame(&self, time: &Axis, out: &mut String) {
        for tick in self.axis.ticks() {
            let (y, left) = (self.axis.at(tick), LEFT - 6.0);
            let _ = writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>", WIDTH - RIGHT);
            let _ = writeln!(out, "<text x=\"{left}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", y + 4.0, tick_text(tick));
        }
        let (low, middle) = (self.bottom(), self.top + PANEL / 2.0);
        let _ = writeln!(out, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{low}\" y2=\"{low}\"/>", time.end);
        let title = self.title;
        let _ = writeln!(out, "<text transform=\"translate(14 {middle}) rotate(-90)\" text-anchor=\"middle\">{title}</text>");
    }

    fn line(&self, time: &Axis, points: &[Point], of: impl Fn(&Point) -> f64) -> String {
        let at = |point: &Point| format!("{:.1},{:.1}", time.at(point.to), self.axis.at(of(point)));
        points.iter().map(at).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::engines::tests::{record, study};
    use crate::run::Killed;

    fn second(at: f64, children: u64, copied: u64) -> Second {
        Second { at, operations: 1000, proportional_bytes: 300 << 20, children, copied_bytes: copied << 20, ..Second::default() }
    }

    fn run(series: Vec<Second>) -> RunRecord {
        let study = study("aof-rewrite", &["redis"], 1);
        let phases = vec![PhaseRecord { series, ..PhaseRecord::default() }];
        RunRecord { phases, ..record(study.spec(&study.runs()[0]).unwrap(), 1.0) }
    }

    #[test]
    fn windows_are_merged_and_shaded_in_both_panels() {
        let series = [0, 1, 1, 0, 0, 1, 0].iter().enumerate().map(|(n, children)| second(0.1 * (n + 1) as f64, *children, 20 * children));
        let run = run(series.collect());
        let points = points(&run);
        assert_eq!((points.len(), points[0].rate.round(), points[1].beside), (7, 10_000.0, 20.0));
        let rounded: Vec<_> = windows(&points).into_iter().map(|(from, to)| ((from * 10.0).round(), (to * 10.0).round())).collect();
        assert_eq!(rounded, [(1.0, 3.0), (5.0, 6.0)]);
        let svg = rewrites(&run).unwrap();
        assert_eq!(svg.matches("<rect class=\"rewrite\"").count(), 2 * 2, "{svg}");
        for part in ["time, seconds", ">operations per second<", ">memory, MiB<", "<polygon class=\"copied\"", "class=\"timeline redis\""] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("class=\"killed\""), "{svg}");
    }

    #[test]
    fn phases_follow_each_other_and_a_killed_one_is_the_last() {
        let mut run = run(vec![second(0.1, 0, 0), second(0.2, 0, 0)]);
        let last = PhaseRecord { series: vec![second(0.1, 0, 0)], ..PhaseRecord::default() };
        run.killed = Some(Killed { operations: 3000, seconds: 0.3, memory_bytes: 1, phase: last });
        let points = points(&run);
        assert!((points.last().unwrap().to - 0.3).abs() < 1e-9 && points.len() == 3, "{points:?}");
        let svg = rewrites(&run).unwrap();
        assert!(svg.contains("<line class=\"killed\" x1=\"428.0\"") && !svg.contains("class=\"rewrite\""), "{svg}");
    }

    /// Operations of 0 after the last request are no stall, and are not drawn. The key names what is drawn.
    #[test]
    fn rest_is_not_drawn_and_the_key_names_what_is() {
        let mut run = run(vec![second(0.1, 0, 0), second(0.2, 1, 20)]);
        let still = Second { operations: 0, ..second(0.1, 0, 0) };
        run.phases.push(PhaseRecord { series: vec![still], ..PhaseRecord::default() });
        assert_eq!(points(&run).len(), 2);
        let key = rewrites_key(&rewrites(&run).unwrap());
        assert!(key.contains("rewrite of the log") && key.contains("copied pages") && !key.contains("killed"), "{key}");
        for second in &mut run.phases[0].series {
            (second.children, second.copied_bytes) = (0, 0);
        }
        let key = rewrites_key(&rewrites(&run).unwrap());
        assert_eq!(key, "<p class=\"key\"> These records do not say when a log was rewritten.</p>\n");
    }

    #[test]
    fn long_runs_have_few_points_and_others_have_none() {
        let long = run((1..=5000).map(|n| second(f64::from(n) / 10.0, 0, 0)).collect());
        assert!(points(&long).len() <= POINTS && rewrites(&long).is_some());
        assert!(rewrites(&run(vec![second(0.1, 0, 0)])).is_none());
        let mut other = long;
        other.spec.engine.server = None;
        assert!(rewrites(&other).is_none());
    }
}
