//! The page: what was found, the original's figures beside ours, verdicts, and folded details. It holds everything it needs (style, script,
//! data) and forbids itself to load anything. Above the details nothing needs the script.

mod asked;
mod bulk;
mod compression;
mod found;
mod original;
mod ran;
mod verdicts;

pub use original::WITH_OURS;

use super::behind::behind;
use super::beside::Measured;
use super::cells::{Workload, workloads};
use super::charts::{self, Chart};
use super::engines::Engines;
use super::load::Folder;
use super::measures::{Measure, OfPart, OfPhase, PEAK_MEMORY, SPACE_AMPLIFICATION, WRITE_AMPLIFICATION, latency_p99, rate, titled};
use super::servers::Servers;
use super::tables;
use super::text::escape;
use crate::published::published;
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
    let mut body = folders.iter().map(|folder| head(folder, folders.len() > 1)).collect::<String>();
    if let [base, _, ..] = folders {
        body = format!("<header><h1>{}</h1></header>\n{}{body}", escape(&title(folders)), changes(&workloads, base));
    }
    body += "<section class=\"details\"><h2>Details</h2>\n";
    for folder in folders {
        let of = if folders.len() > 1 { format!(": {}", folder.name) } else { String::new() };
        body += &folded(PART, "", &format!("What was asked{of}"), &asked::asked(folder));
        let servers = Servers::of(folder).map(|servers| servers.html()).unwrap_or_default();
        body += &folded(PART, "", &format!("All cells of servers{of}"), &servers);
    }
    body += &folded(PART, "", "What was run", &ran::ran(folders, csv));
    if workloads.is_empty() {
        return whole(&title(folders), &(body + "<p>No run has finished yet.</p></section>\n"));
    }
    let drawn = wanted(folders, |plan| &plan.drawn);
    let swept = wanted(folders, |plan| &plan.swept);
    let mut sections = sweeps(&workloads, &swept, &mut figures);
    for (place, workload) in workloads.iter().enumerate() {
        sections += &section(place, workload, &drawn, &mut figures);
    }
    let introduction = "<p>Tables have the median of the repeats and, small beside it, the 95 % interval of their mean. Write \
                        amplification stands beside space amplification: either alone can be had for nothing.</p>\n";
    let all = folded(PARTS, "", "Charts and tables of every workload", &(introduction.to_string() + bulk::PLACE));
    whole(&title(folders), &(body + &all + &bulk::bulk(&sections, &figures) + "</section>\n"))
}

/// The head of a folder's study: what was found, the figures of the original, and verdicts.
fn head(folder: &Folder, several: bool) -> String {
    let (name, of) = if several { (folder.name.clone(), format!(": {}", folder.name)) } else { (asked::title(folder), String::new()) };
    let level = if several { "h2" } else { "h1" };
    let published = folder.plan.as_ref().and_then(|plan| published(&plan.name));
    let mut html = format!("<header><{level}>{}</{level}>\n{}</header>\n", escape(&name), found::origin(folder));
    html += &found::found(folder, published.as_ref());
    let with_figures = published.as_ref().filter(|published| !published.figures.is_empty());
    if let Some((published, measured)) = with_figures.zip(Measured::of(folder)) {
        html += &original::originals(published, &measured);
    }
    html += &Engines::of(folder).map(|engines| engines.html()).unwrap_or_default();
    html + &verdicts::verdicts(folder, &of, published.as_ref()) + &behind(folder)
}

/// Class of parts of the details, and of the part that has one for each workload.
const PART: &str = "part";
const PARTS: &str = "parts";

/// A part of the details that opens by a click and closes the others of its class; nothing where it is empty.
fn folded(class: &str, id: &str, heading: &str, html: &str) -> String {
    if html.is_empty() {
        return String::new();
    }
    let id = if id.is_empty() { String::new() } else { format!(" id=\"{id}\"") };
    format!("<details class=\"{class}\" name=\"{class}\"{id}><summary>{}</summary>\n<div>{html}</div></details>\n", escape(heading))
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
    let mut html = String::new();
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
    folded(PART, &id, &workload.name, &html)
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
    folded(PART, "sweeps", "Sweeps of two parameters", &row(charts::sweeps(workloads, swept), figures))
}
