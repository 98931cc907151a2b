//! The page: questions, runs and results. It holds everything it needs (style, script, data) and forbids itself to load anything.

mod asked;
mod bulk;
mod compression;
mod ran;

use super::behind::behind;
use super::cells::{Workload, workloads};
use super::charts::{self, Chart};
use super::engines::Engines;
use super::load::Folder;
use super::measures::{Measure, OfPart, OfPhase, PEAK_MEMORY, SPACE_AMPLIFICATION, WRITE_AMPLIFICATION, latency_p99, rate, titled};
use super::servers::Servers;
use super::tables;
use super::text::escape;
use crate::study::metric::Metric;
use crate::study::plan::Study;
use serde_json::Value;

const STYLE: &str = include_str!("page/page.css");

/// Policy for the browser: it may run the scripts in the page and load nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// Makes the page. `csv`: name of the table beside it.
pub fn page(folders: &[Folder], csv: &str) -> String {
    let workloads = workloads(folders);
    let mut figures = Vec::new();
    let mut body = format!("<header><h1>{}</h1></header>\n", escape(&title(folders)));
    body += &folders.iter().map(|folder| asked::asked(folder, folders.len() > 1)).collect::<String>();
    body += &folders.iter().map(|folder| asked::verdicts(folder, folders.len() > 1)).collect::<String>();
    body += &folders.iter().filter_map(Engines::of).map(|engines| engines.html()).collect::<String>();
    body += &folders.iter().filter_map(Servers::of).map(|servers| servers.html()).collect::<String>();
    body += &folders.iter().map(behind).collect::<String>();
    body += &ran::ran(folders, csv);
    if let [base, _, ..] = folders {
        body += &changes(&workloads, base);
    }
    body += &contents(&workloads);
    if workloads.is_empty() {
        return whole(&title(folders), &body);
    }
    let drawn = wanted(folders, |plan| &plan.drawn);
    let swept = wanted(folders, |plan| &plan.swept);
    let mut sections = sweeps(&workloads, &swept, &mut figures);
    for (place, workload) in workloads.iter().enumerate() {
        sections += &section(place, workload, &drawn, &mut figures);
    }
    whole(&title(folders), &(body + &bulk::bulk(&sections, &figures)))
}

/// Metrics that the studies list, each once.
fn wanted(folders: &[Folder], list: impl Fn(&Study) -> &[Metric]) -> Vec<Metric> {
    let mut wanted = Vec::new();
    for metric in folders.iter().filter_map(|folder| folder.plan.as_ref()).flat_map(list) {
        if !wanted.contains(metric) {
            wanted.push(*metric);
        }
    }
    wanted
}

fn title(folders: &[Folder]) -> String {
    match folders {
        [one] => asked::title(one),
        several => several.iter().map(|folder| folder.name.as_str()).collect::<Vec<_>>().join(" against "),
    }
}

fn whole(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

fn contents(workloads: &[Workload<'_>]) -> String {
    if workloads.is_empty() {
        return "<section><h2>What came out</h2><p>No run has finished yet.</p></section>\n".into();
    }
    let link = |(place, workload): (usize, &Workload<'_>)| format!("<li><a href=\"#w{place}\">{}</a></li>\n", escape(&workload.name));
    let links: String = workloads.iter().enumerate().map(link).collect();
    format!(
        "<section><h2>What came out</h2>\n<p>Tables have the median of the repeats and, small beside it, the 95 % interval of their mean. \
         Write amplification stands beside space amplification: either alone can be had for nothing.</p>\n<ul>{links}</ul></section>\n"
    )
}

fn changes(workloads: &[Workload<'_>], base: &Folder) -> String {
    let changed = workloads
        .iter()
        .filter_map(|workload| Some(format!("<h3>{}</h3>\n{}", escape(&workload.name), tables::changes(workload, &base.name)?)));
    let tables: String = changed.collect();
    let tables = if tables.is_empty() { "<p>No engine ran with the same settings in two of the folders.</p>\n".into() } else { tables };
    format!(
        "<section><h2>What changed against {}</h2>\n\
         <p>Ratios of means with their 95 % intervals; bold where the interval leaves 0 out. Compared is what had the same engine, \
         settings, workload and limits.</p>\n{tables}</section>\n",
        escape(&base.name)
    )
}

/// A row of as many charts as fit the screen; their data goes to `figures`.
fn row(charts: impl IntoIterator<Item = Chart>, figures: &mut Vec<Value>) -> String {
    let mut row = String::new();
    for chart in charts {
        let (title, note) = (escape(&chart.title), escape(&chart.note));
        row += &format!(
            "<figure><figcaption><b>{title}</b> <span>{note}</span></figcaption>\
             <div class=\"chart\" id=\"{}\" role=\"img\" aria-label=\"{title}\"></div></figure>\n",
            escape(&chart.id)
        );
        figures.push(chart.figure());
    }
    if row.is_empty() { row } else { format!("<div class=\"row\">\n{row}</div>\n") }
}

fn section(place: usize, workload: &Workload<'_>, drawn: &[Metric], figures: &mut Vec<Value>) -> String {
    let id = format!("w{place}");
    let mut html = format!("<section id=\"{id}\"><h2>{}</h2>\n", escape(&workload.name));
    for (place, (name, phases)) in workload.parts().iter().enumerate() {
        let id = format!("{id}-{place}");
        let bar = |end: &str, measure: Measure<OfPart>| {
            charts::bars(format!("{id}-{end}"), measure.name, measure.meaning, workload, |cell| cell.values(name, measure.of))
        };
        let amplifications = [bar("write", WRITE_AMPLIFICATION), bar("space", SPACE_AMPLIFICATION)];
        let others = [charts::causes(format!("{id}-causes"), workload, name), bar("memory", PEAK_MEMORY)];
        let phases = phases.iter().map(|phase| escape(phase)).collect::<Vec<_>>().join(", ");
        html += &format!("<h3>{}</h3>\n<p>Phases {phases} together.</p>\n", escape(name));
        let wanted = drawn.iter().enumerate().filter_map(|(place, metric)| {
            let id = format!("{id}-drawn-{place}");
            charts::bars(id, &titled(*metric), "phases together", workload, |cell| cell.figures(name, *metric))
        });
        html += &row(amplifications.into_iter().chain(others).flatten().chain(wanted), figures);
        html += &tables::part(workload, name, drawn);
        html += &tables::ledger(workload, name);
    }
    for (place, name) in workload.phases().iter().enumerate() {
        html += &phase(&format!("{id}-phase-{place}"), workload, name, figures);
    }
    html + "</section>\n"
}

fn phase(id: &str, workload: &Workload<'_>, name: &str, figures: &mut Vec<Value>) -> String {
    let mut html = format!("<h3>Phase {}</h3>\n", escape(name));
    if workload.has_operations(name) {
        let bar = |end: &str, title: &str, meaning: &str, of: OfPhase| {
            charts::bars(format!("{id}-{end}"), title, meaning, workload, |cell| cell.phase_values(name, of))
        };
        let bars = [
            bar("rate", "operations per second", "warm-up left out", rate),
            bar("p99", "99th percentile of latency, µs", "as the client saw it", latency_p99),
            charts::percentiles(format!("{id}-percentiles"), workload, name),
        ];
        html += &row(bars.into_iter().flatten(), figures);
        html += &row(charts::over_time(id, workload, name), figures);
    }
    html + &tables::phase(workload, name)
}

fn sweeps(workloads: &[Workload<'_>], swept: &[Metric], figures: &mut Vec<Value>) -> String {
    let row = row(charts::sweeps(workloads, swept), figures);
    if row.is_empty() { row } else { format!("<section><h2>Sweeps of two parameters</h2>\n{row}</section>\n") }
}
