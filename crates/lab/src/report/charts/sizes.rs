//! Speed and memory of servers over numbers and sizes of values, as one picture (SVG) without a script: a column of panels for each size,
//! operations per second above and peak memory below, a line for each server and fate of its log. The page's
//! style sheet has the colours.

use crate::report::text::{escape, number};
use crate::run::SERVERS;
use std::fmt::Write;

/// Width of a panel and the space on its left, height of a panel, pixels.
const PANEL: f64 = 130.0;
const LEFT: f64 = 62.0;
const HEIGHT: f64 = 120.0;
/// Height of the legend with the titles of the columns, and the spaces between and below the panels.
const TOP: f64 = 62.0;
const BETWEEN: f64 = 20.0;
const BOTTOM: f64 = 44.0;
/// Width of the titles of the axes.
const TITLES: f64 = 20.0;

/// Figures of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// Size of the values, such as `10 kB`.
    pub value: String,
    /// Number of SETs, such as `500,000`.
    pub sets: String,
    /// Server and fate of its log.
    pub line: String,
    /// Medians: operations per second, and peak memory in MiB.
    pub figures: [Option<f64>; 2],
    /// Whether the server was killed in some run.
    pub killed: bool,
}

/// The picture; `None` without figures.
pub fn sizes(places: &[Place]) -> Option<String> {
    places.iter().find(|place| place.figures.iter().any(Option::is_some))?;
    let (values, mut lines) = (each(places, |place| &place.value), each(places, |place| &place.line));
    // SinterDB has the first colour, and its rivals' lines share one.
    lines.sort_by_key(|line| !line.starts_with(SERVERS[0]));
    let width = TITLES + (LEFT + PANEL) * values.len() as f64 + 8.0;
    let height = TOP + 2.0 * HEIGHT + BETWEEN + BOTTOM;
    let title = "Operations per second and peak memory by number and size of values";
    let mut out = format!("<svg class=\"sizes\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n");
    legend(&lines, &mut out);
    for (column, value) in values.iter().enumerate() {
        let left = TITLES + (LEFT + PANEL) * column as f64 + LEFT;
        let of_value: Vec<&Place> = places.iter().filter(|place| place.value == **value).collect();
        let middle = left + PANEL / 2.0;
        // Writing to a String does not fail.
        let _ = writeln!(out, "<text x=\"{middle:.0}\" y=\"{}\" text-anchor=\"middle\">values of {}</text>", TOP - 10.0, escape(value));
        for figure in 0..2 {
            panel(&of_value, &lines, figure, left, TOP + (HEIGHT + BETWEEN) * figure as f64, &mut out);
        }
        let counts = each(&of_value, |place| &place.sets);
        for (count, text) in counts.iter().enumerate() {
            let (x, y) = (x(left, count, counts.len()), TOP + 2.0 * HEIGHT + BETWEEN + 15.0);
            let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", escape(&in_thousands(text)));
        }
    }
    let middle = TITLES + LEFT + (width - TITLES - LEFT) / 2.0;
    let _ = writeln!(out, "<text x=\"{middle:.0}\" y=\"{}\" text-anchor=\"middle\">number of SETs, thousands</text>", height - 8.0);
    for (row, title) in ["operations per second", "peak memory, MiB"].iter().enumerate() {
        let y = TOP + (HEIGHT + BETWEEN) * row as f64 + HEIGHT / 2.0;
        let _ = writeln!(out, "<text transform=\"translate(14 {y}) rotate(-90)\" text-anchor=\"middle\">{title}</text>");
    }
    Some(out + "</svg>\n")
}

/// Each value of a field once, in the order of the places.
fn each<'a, P: std::borrow::Borrow<Place>>(places: &'a [P], of: impl Fn(&'a Place) -> &'a String) -> Vec<&'a String> {
    let mut found = Vec::new();
    for value in places.iter().map(|place| of(place.borrow())) {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// `500,000` as `500`, and `2,500` as `2.5`; other text as it is.
fn in_thousands(count: &str) -> String {
    let plain: String = count.chars().filter(char::is_ascii_digit).collect();
    plain.parse::<f64>().map_or_else(|_| count.to_owned(), |count| (count / 1000.0).to_string())
}

fn legend(lines: &[&String], out: &mut String) {
    let mut x = TITLES + LEFT;
    for (class, line) in lines.iter().enumerate().map(|(place, line)| (place % 4, line)) {
        let _ = writeln!(out, "<line class=\"l{class}\" x1=\"{x:.0}\" x2=\"{:.0}\" y1=\"15\" y2=\"15\"/>", x + 18.0);
        let _ = writeln!(out, "<text x=\"{:.0}\" y=\"19\">{}</text>", x + 22.0, escape(line));
        x += 40.0 + 6.2 * line.len() as f64;
    }
}

fn x(left: f64, place: usize, all: usize) -> f64 {
    left + PANEL * (place as f64 + 0.5) / all.max(1) as f64
}

/// The next greater number with two digits that are not 0; 1 for 0.
fn round_up(x: f64) -> f64 {
    if x <= 0.0 || !x.is_finite() {
        return 1.0;
    }
    let unit = 10f64.powf(x.log10().floor() - 1.0);
    (x / unit).ceil() * unit
}

/// One panel; a killed server is a cross at the upper edge.
fn panel(places: &[&Place], lines: &[&String], figure: usize, left: f64, top: f64, out: &mut String) {
    let most = round_up(places.iter().filter_map(|place| place.figures[figure]).fold(0.0, f64::max));
    let y = |value: f64| top + HEIGHT * (1.0 - value / (1.1 * most));
    for part in [0.0, 0.5, 1.0] {
        let value = most * part;
        let at = y(value);
        let _ = writeln!(out, "<line class=\"grid\" x1=\"{left}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>", left + PANEL);
        let _ = writeln!(out, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", left - 5.0, at + 4.0, number(value));
    }
    let counts = each(places, |place| &place.sets);
    let across = |place: &Place| counts.iter().position(|count| **count == place.sets).map_or(left, |at| x(left, at, counts.len()));
    for (class, line) in lines.iter().enumerate().map(|(place, line)| (place % 4, line)) {
        let of_line = || places.iter().filter(|place| place.line == **line);
        let points: Vec<(f64, f64)> = of_line().filter_map(|place| Some((across(place), y(place.figures[figure]?)))).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(out, "<polyline class=\"l{class}\" points=\"{}\"/>", path.join(" "));
        for (x, y) in points {
            let _ = writeln!(out, "<circle class=\"p{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
        }
        for place in of_line().filter(|place| place.killed) {
            let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">✕ killed</text>", across(place), top + 10.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(value: &str, sets: &str, line: &str, speed: Option<f64>) -> Place {
        let figures = [speed, speed.map(|speed| speed / 100.0)];
        Place { value: value.into(), sets: sets.into(), line: line.into(), figures, killed: speed.is_none() }
    }

    #[test]
    fn every_size_has_two_panels_and_every_server_a_line() {
        let mut places = Vec::new();
        for value in ["1 kB", "100 kB"] {
            for (sets, speed) in [("100,000", 1000.0), ("500,000", 2000.0)] {
                places.push(place(value, sets, "sinter", Some(speed)));
                let is_killed = value == "100 kB" && sets == "500,000";
                places.push(place(value, sets, "redis, <log> shortened", (!is_killed).then_some(speed)));
            }
        }
        let svg = sizes(&places).unwrap();
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count(), svg.matches("killed<").count()), (8, 14, 2), "{svg}");
        for part in
            ["values of 100 kB", "peak memory, MiB", ">operations per second<", "number of SETs, thousands", ">500<", "redis, &lt;log&gt;"]
        {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(sizes(&[place("1 kB", "100,000", "redis", None)]), None);
        assert_eq!([0.0, 135_806.0, 49.0].map(|x| round_up(x).round()), [1.0, 140_000.0, 49.0]);
        assert_eq!((in_thousands("2,500"), in_thousands("1,000,000")), ("2.5".to_string(), "1000".to_string()));
    }
}
