//! A chart of engines side by side as a picture (SVG) for documents: no script, readable on light and dark ground.

use super::documents::Measured;
use super::text::{escape, number};
use std::fmt::Write;

const ROW: usize = 22;
const TOP: usize = 58;
const LEFT: usize = 130;
const WIDTH: usize = 760;
/// Width for the figure behind the longest bar, pixels.
const RIGHT: usize = 60;

const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-size:15px;font-weight:600}.small{font-size:12px}\
                     .ahead{fill:#1f77b4}.behind{fill:#d1495b}.equal{stroke:#57606a;stroke-width:1.5;stroke-dasharray:4 3}\
                     @media(prefers-color-scheme:dark){text{fill:#e6edf3}.ahead{fill:#58a6ff}.behind{fill:#ff7b72}.equal{stroke:#9da7b3}}";

/// Ratio of operations per second of the first engine to the second, a bar for each workload.
pub fn speed(measured: &Measured<'_>) -> String {
    let ratios: Vec<(&str, f64)> = measured
        .rows()
        .filter_map(|row| {
            let figure = |engine| row.median("operations/s", engine).map(|(median, _)| median).filter(|median| *median > 0.0);
            Some((row.workload.as_str(), figure(0)? / figure(1)?))
        })
        .collect();
    // The mark of equality is always visible.
    let most = ratios.iter().map(|(_, ratio)| *ratio).fold(1.2, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) as f64 / most;
    let height = TOP + ROW * ratios.len() + 12;
    let [ours, theirs] = [0, 1].map(|engine| escape(&measured.engine(engine)));
    let title = format!("Operations per second: {ours} for each one of {theirs}");
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n\
         <style>{STYLE}</style>\n<text class=\"title\" x=\"8\" y=\"22\">{title}</text>\n"
    );
    let equal = LEFT as f64 + scale;
    // Writing to a String does not fail.
    let _ = writeln!(out, "<text class=\"small\" x=\"{equal:.0}\" y=\"44\" text-anchor=\"middle\">equal</text>");
    for (place, (workload, ratio)) in ratios.iter().enumerate() {
        let (y, width) = (TOP + place * ROW, ratio * scale);
        let class = if *ratio < 1.0 { "behind" } else { "ahead" };
        let _ = writeln!(out, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", LEFT - 8, y + 13, escape(workload));
        let _ = writeln!(out, "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" rx=\"2\"/>", ROW - 6);
        let _ = writeln!(out, "<text x=\"{:.0}\" y=\"{}\">{}</text>", LEFT as f64 + width + 6.0, y + 13, number(*ratio));
    }
    let _ = writeln!(out, "<line class=\"equal\" x1=\"{equal:.0}\" y1=\"50\" x2=\"{equal:.0}\" y2=\"{}\"/>", height - 8);
    out + "</svg>\n"
}
