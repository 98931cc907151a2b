//! The zones as a picture: a cell for each, filled from below with live data (coloured by the zone's class), dead data, and unwritten
//! space; a bar at its left grows with its resets. As SVG alone, or as a self-contained page.

use super::tables::{df, rows};
use super::view::{Class, View, Zone, human};
use std::fmt::Write as _;

/// Size of a cell and the gap between cells, pixels.
const WIDTH: usize = 30;
const HEIGHT: usize = 44;
const GAP: usize = 4;

/// Width of an entry of the legend, pixels.
const LABEL: usize = 110;

/// Width of the bar that shows wear, pixels.
const WEAR: usize = 4;

const DEAD: &str = "#57606a";
const UNWRITTEN: &str = "#eef0f3";
const WORN: &str = "#a40e26";

/// The colour of live data in a zone.
fn colour(class: Class) -> &'static str {
    // From the top of the tree to its bottom: warm to cold.
    const LEVELS: [&str; 8] = ["#e36209", "#d4a72c", "#6f9e1f", "#2da44e", "#1b9e9e", "#218bff", "#0550ae", "#512a97"];
    match class {
        Class::Metadata => "#8250df",
        Class::Conventional => "#afb8c1",
        Class::Empty => UNWRITTEN,
        Class::Broken => "#ff8182",
        Class::Files(0, _) => "#bf8ae8",
        Class::Files(2, _) => "#f2b8c6",
        Class::Files(_, level) => LEVELS[usize::from(level).min(LEVELS.len() - 1)],
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn rect(out: &mut String, (x, y): (usize, usize), (width, height): (usize, usize), fill: &str) {
    if width > 0 && height > 0 {
        let _ = writeln!(out, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>");
    }
}

/// `whole` pixels scaled by `part` of `all`; at least one if `part` is not 0.
fn pixels(part: u64, all: u64, whole: usize) -> usize {
    let scaled = u128::from(part) * whole as u128 / u128::from(all.max(1));
    usize::try_from(scaled).unwrap_or(whole).max(usize::from(part > 0)).min(whole)
}

fn cell(out: &mut String, zone: &Zone, (x, y): (usize, usize), most_resets: u64) {
    let _ = writeln!(out, "<g><title>{}</title>", escape(&zone.describe()));
    rect(out, (x, y), (WIDTH, HEIGHT), if zone.class == Class::Broken { colour(zone.class) } else { UNWRITTEN });
    let (entry, inside) = (&zone.entry, WIDTH - WEAR);
    // All written data of a metadata zone is live, or about to be overwritten as a whole.
    let live = if zone.class == Class::Metadata { entry.written } else { entry.live };
    let live = pixels(live, entry.capacity, HEIGHT);
    let dead = pixels(zone.dead, entry.capacity, HEIGHT).min(HEIGHT - live);
    rect(out, (x + WEAR, y + HEIGHT - live), (inside, live), colour(zone.class));
    rect(out, (x + WEAR, y + HEIGHT - live - dead), (inside, dead), DEAD);
    let worn = pixels(entry.resets, most_resets, HEIGHT);
    rect(out, (x, y + HEIGHT - worn), (WEAR - 1, worn), WORN);
    out.push_str("</g>\n");
}

/// The picture.
pub fn svg(view: &View) -> String {
    // About twice as wide as high.
    let columns = ((view.zones.len() * 3) as f64).sqrt().ceil().clamp(8.0, 128.0) as usize;
    let lines = view.zones.len().div_ceil(columns);
    let classes: Vec<Class> = view.by_class().into_keys().filter(|class| *class != Class::Empty).collect();
    let legend: Vec<(String, &str)> = classes.iter().map(|class| (class.name(), colour(*class))).collect();
    let legend = [legend, vec![("dead".into(), DEAD), ("not written".into(), UNWRITTEN), ("resets".into(), WORN)]].concat();
    let width = (columns * (WIDTH + GAP) + GAP).max(4 * LABEL);
    let per_line = (width / LABEL).max(1);
    let top = 28;
    let bottom = top + lines * (HEIGHT + GAP) + GAP;
    let height = bottom + legend.len().div_ceil(per_line) * 20 + 8;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n"
    );
    rect(&mut out, (0, 0), (width, height), "#ffffff");
    let _ = writeln!(out, "<text x=\"{GAP}\" y=\"18\" fill=\"#24292f\">{}</text>", escape(&view.headline()));
    let most_resets = view.zones.iter().map(|zone| zone.entry.resets).max().unwrap_or(0);
    for (index, zone) in view.zones.iter().enumerate() {
        let at = (GAP + index % columns * (WIDTH + GAP), top + index / columns * (HEIGHT + GAP));
        cell(&mut out, zone, at, most_resets);
    }
    for (index, (name, fill)) in legend.iter().enumerate() {
        let (x, y) = (GAP + index % per_line * LABEL, bottom + index / per_line * 20);
        rect(&mut out, (x, y), (12, 12), fill);
        let _ = writeln!(out, "<text x=\"{}\" y=\"{}\" fill=\"#24292f\">{}</text>", x + 17, y + 11, escape(name));
    }
    out.push_str("</svg>\n");
    out
}

const STYLE: &str = "body{font:14px/1.5 system-ui,sans-serif;color:#24292f;max-width:80rem;margin:2rem auto;padding:0 1rem}\
    h1{font-size:1.3rem}pre{background:#f6f8fa;padding:1rem;overflow-x:auto}table{border-collapse:collapse}\
    td,th{padding:.15rem .6rem;text-align:right;border-bottom:1px solid #d0d7de}td:first-child,th:first-child,td:nth-child(2),\
    th:nth-child(2){text-align:left}svg{max-width:100%;height:auto}";

/// A page with the picture, the use of space, and every zone with files.
pub fn page(view: &View) -> String {
    let title = escape(&view.drive);
    let mut out =
        format!("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\n");
    let _ = writeln!(out, "<body><h1>Zones of {title}</h1>\n{}<h2>Space</h2>\n<pre>{}</pre>", svg(view), escape(&df(view)));
    out.push_str("<h2>Zones with files</h2>\n<table><tr>");
    for name in ["zone", "class", "state", "written", "live", "padding", "dead", "resets", "files"] {
        let _ = write!(out, "<th>{name}</th>");
    }
    out.push_str("</tr>\n");
    for zone in view.zones.iter().filter(|zone| matches!(zone.class, Class::Files(..))) {
        out.push_str("<tr>");
        for text in rows(zone) {
            let _ = write!(out, "<td>{}</td>", escape(&text));
        }
        out.push_str("</tr>\n");
    }
    let _ =
        writeln!(out, "</table>\n<p>{} files, {}. {}.</p>\n</body></html>", view.files.len(), human(view.beneath.zones.live), view.wear());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinter_storage::zoned_store::{Condition, ZoneEntry};

    /// Heights of the rectangles of a colour in a cell.
    fn heights(zone: &Zone, fill: &str) -> usize {
        let mut out = String::new();
        cell(&mut out, zone, (0, 0), 1);
        let lines = out.lines().filter(|line| line.contains(fill));
        lines.map(|line| line.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse::<usize>().unwrap()).sum()
    }

    #[test]
    fn a_cell_is_filled_as_its_zone_is() {
        let zone = |live: u64, dead: u64| {
            let written = live + dead;
            let entry = ZoneEntry {
                zone: 7,
                condition: Condition::Full,
                capacity: 1000,
                written,
                live,
                resets: 0,
                lifetime: 3,
                level: 1,
                writers: 0,
                files: Vec::new(),
            };
            Zone { entry, class: Class::Files(3, 1), live, padding: 0, dead, unwritten: 1000 - written }
        };
        for (live, dead) in [(500, 500), (250, 750), (0, 1000), (1000, 0), (100, 400), (999, 1), (1, 0)] {
            let zone = zone(live, dead);
            let filled = [heights(&zone, colour(zone.class)), heights(&zone, DEAD)];
            let wanted = [live, dead].map(|bytes| HEIGHT as f64 * bytes as f64 / 1000.0);
            assert!(filled.iter().zip(wanted).all(|(filled, wanted)| (*filled as f64 - wanted).abs() <= 1.0), "{filled:?}, {wanted:?}");
            assert!(filled[0] + filled[1] <= HEIGHT && (filled[0] > 0) == (live > 0), "{filled:?}");
        }
    }
}
