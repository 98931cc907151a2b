//! Charts as SVG that needs no script: groups of bars, and lines. Lengths along the chart are percentages, so that a chart is as wide as
//! its place and its text keeps its size. Colours are classes of the style sheet, one for each source of values.

use super::text::{escape, short};
use std::fmt::Write;

/// Thickness of a bar, height of a label, and space below a group, pixels.
const BAR: usize = 13;
const LABEL: usize = 15;
const GAP: usize = 5;
/// Height of the line with the ticks, and of the one with the title of the axis, pixels.
const TICKS: usize = 16;
const TITLE: usize = 16;
/// Height of a chart of lines without its ticks, pixels.
const LINES: f64 = 130.0;

/// A value of one source.
pub struct Mark {
    /// Class of its colour: that of the engine, or `original`.
    pub class: &'static str,
    /// Value.
    pub value: f64,
    /// Interval.
    pub interval: Option<(f64, f64)>,
    /// Value for people.
    pub text: String,
}

/// Values of one row of a figure.
pub struct Group {
    /// Name of the row.
    pub label: String,
    /// Values, in the order of sources.
    pub marks: Vec<Mark>,
    /// Reason why there is no value of ours, or none of an engine, such as `not run`; empty if there is nothing to say.
    pub missing: String,
}

/// Axis of values, shared by the panels of a figure.
pub struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Axis {
    /// The axis that holds all groups; `None` without values.
    pub fn of<'a>(groups: impl Iterator<Item = &'a Group>, logarithmic: bool) -> Option<Self> {
        let ends = |mark: &Mark| [mark.value, mark.interval.map_or(mark.value, |(_, high)| high)];
        let values: Vec<f64> = groups.flat_map(|group| &group.marks).flat_map(ends).collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        let least = values.iter().copied().filter(|x| *x > 0.0).fold(most, f64::min);
        if values.is_empty() {
            return None;
        }
        if logarithmic && least > 0.0 {
            return Some(Axis { low: (least / 1.5).log10().floor(), high: most.log10().ceil(), logarithmic });
        }
        Some(Axis { low: 0.0, high: if most > 0.0 { most * 1.02 } else { 1.0 }, logarithmic: false })
    }

    /// Place of a value, 0 to 1.
    fn at(&self, x: f64) -> f64 {
        let x = if self.logarithmic { x.max(f64::MIN_POSITIVE).log10() } else { x };
        ((x - self.low) / (self.high - self.low).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }

    /// Values with a line across the chart.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let (low, high) = (self.low as i32, self.high as i32);
            let step = ((high - low) / 5).max(1) as usize;
            return (low..=high).step_by(step).map(|power| 10f64.powi(power)).collect();
        }
        let least = self.high / 5.0;
        let power = 10f64.powf(least.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= least).unwrap_or(least);
        (0..=5).map(|n| f64::from(n) * step).filter(|x| *x <= self.high).collect()
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// A tick in few characters.
fn tick(x: f64) -> String {
    let (size, unit) = [(1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(size, _)| x >= *size).unwrap_or((1.0, ""));
    format!("{}{unit}", short(x / size))
}

/// A group of lying bars for each row.
pub fn bars(groups: &[Group], axis: &Axis, label: &str) -> String {
    let inner: usize = groups.iter().map(|group| LABEL + BAR * group.marks.len().max(1) + GAP).sum();
    let mut svg = format!("<svg class=\"bars\" height=\"{}\" role=\"img\" aria-label=\"{}\">", inner + TICKS, escape(label));
    for x in axis.ticks() {
        let (at, text) = (percent(axis.at(x)), tick(x));
        // Writing to a String does not fail.
        let _ = write!(svg, "<line class=\"grid\" x1=\"{at}\" x2=\"{at}\" y1=\"0\" y2=\"{inner}\"/>");
        let _ = write!(svg, "<text class=\"tick\" x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{text}</text>", inner + TICKS - 4);
    }
    let mut y = 0;
    for Group { label, marks, missing } in groups {
        let missing = if missing.is_empty() { String::new() } else { format!(": {}", escape(missing)) };
        let _ = write!(svg, "<text x=\"0\" y=\"{}\">{}{missing}</text>", y + LABEL - 4, escape(label));
        y += LABEL;
        for Mark { class, value, interval, text } in marks {
            let (end, middle) = (axis.at(*value), y + BAR / 2);
            let _ = write!(svg, "<rect class=\"{class}\" x=\"0\" y=\"{y}\" width=\"{}\" height=\"{}\"/>", percent(end), BAR - 2);
            let mut after = end;
            if let Some((low, high)) = interval {
                after = end.max(axis.at(*high));
                let (low, high) = (percent(axis.at(*low)), percent(after));
                let _ = write!(svg, "<line class=\"error\" x1=\"{low}\" x2=\"{high}\" y1=\"{middle}\" y2=\"{middle}\"/>");
            }
            let _ = write!(svg, "<text class=\"value\" x=\"{}\" dx=\"5\" y=\"{}\">{}</text>", percent(after), y + BAR - 3, escape(text));
            y += BAR;
        }
        y += if marks.is_empty() { BAR + GAP } else { GAP };
    }
    svg + "</svg>"
}

/// Lines through the rows, one for each class. `across`: title of the axis of rows.
pub fn lines(groups: &[Group], axis: &Axis, label: &str, across: &str) -> String {
    let x = |place: usize| (place as f64 + 0.5) / groups.len().max(1) as f64;
    let y = |value: f64| LINES * (1.0 - axis.at(value));
    let below = LINES as usize + TICKS + 4;
    let height = below + TITLE;
    let mut svg = format!("<svg class=\"lines\" height=\"{height}\" role=\"img\" aria-label=\"{}\">", escape(label));
    for value in axis.ticks() {
        let (at, text) = (y(value), tick(value));
        let _ = write!(svg, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>");
        let _ = write!(svg, "<text class=\"tick\" x=\"-5\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", at + 4.0);
    }
    for (place, group) in groups.iter().enumerate() {
        let at = percent(x(place));
        let _ = write!(svg, "<text class=\"tick\" x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{}</text>", below - 3, escape(&group.label));
    }
    let _ = write!(svg, "<text class=\"tick\" x=\"50%\" y=\"{}\" text-anchor=\"middle\">{}</text>", height - 3, escape(across));
    let mut classes: Vec<&str> = Vec::new();
    for mark in groups.iter().flat_map(|group| &group.marks) {
        if !classes.contains(&mark.class) {
            classes.push(mark.class);
        }
    }
    for class in classes {
        let found = |group: &Group| group.marks.iter().position(|mark| mark.class == class);
        let there = groups.iter().enumerate().filter_map(|(place, group)| Some((place, &group.marks[found(group)?])));
        let points: String = there.clone().map(|(place, mark)| format!("{:.1},{:.1} ", 100.0 * x(place), y(mark.value))).collect();
        // The inner picture is stretched; marks, which must not be, stand outside of it.
        let _ = write!(
            svg,
            "<svg width=\"100%\" height=\"{LINES}\" viewBox=\"0 0 100 {LINES}\" preserveAspectRatio=\"none\">\
             <polyline class=\"{class}\" points=\"{}\"/></svg>",
            points.trim_end()
        );
        for (place, Mark { value, interval, text, .. }) in there {
            let at = percent(x(place));
            if let Some((low, high)) = interval {
                let (low, high) = (y(*low), y(*high));
                let _ = write!(svg, "<line class=\"error\" x1=\"{at}\" x2=\"{at}\" y1=\"{low:.1}\" y2=\"{high:.1}\"/>");
            }
            let title = escape(text);
            let _ = write!(svg, "<circle class=\"{class}\" cx=\"{at}\" cy=\"{:.1}\" r=\"3.5\"><title>{title}</title></circle>", y(*value));
        }
    }
    svg + "</svg>"
}
