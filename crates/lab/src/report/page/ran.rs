//! The runs of a page: machines, versions, settings, and failures.

use super::compression::compression;
use crate::report::cells::{Parameters, differing, parameters, short};
use crate::report::load::{Folder, Run};
use crate::report::tables::framed;
use crate::report::text::{self, date, engine, escape, number};
use crate::run::{Confinement, RunRecord, Source};
use crate::study::archive::ARCHIVE;
use std::collections::{BTreeMap, BTreeSet};

const GIB: f64 = 1_073_741_824.0;

/// Machines, versions, settings and failures of all runs.
pub fn ran(folders: &[Folder], csv: &str) -> String {
    let runs: Vec<&Run> = folders.iter().flat_map(|folder| &folder.runs).collect();
    let failed = runs.iter().filter(|run| run.record.failure.is_some()).count();
    let all = |of: &dyn Fn(&RunRecord) -> Option<String>| runs.iter().filter_map(|run| of(&run.record)).collect::<BTreeSet<_>>();
    let dates = all(&|r| Some(date(r.started_unix)));
    let rows = [
        ("Runs", BTreeSet::from([format!("{} finished, {failed} failed", runs.len() - failed)])),
        ("Started", dates.first().into_iter().chain(dates.last()).cloned().collect()),
        ("Engines", all(&|r| Some(format!("{}: {}", engine(&r.spec.engine.name), r.engine_version)))),
        ("Commit", all(&|r| Some(r.commit.clone().unwrap_or_else(|| "unknown".into())))),
        ("Machine", all(&|r| Some(r.machine.to_string()))),
        ("Confined to", all(&|r| Some(confinement(&r.confinement)))),
        ("Limits that do not hold", all(&|r| r.confinement.complaint.clone())),
        ("Bytes written are from", all(&|r| Some(source(r)))),
    ];
    let rows = rows.iter().filter(|(_, values)| !values.is_empty()).map(|(name, values)| fact(name, values)).collect::<String>();
    let mixed = [Source::Engine, Source::Process].iter().all(|s| runs.iter().any(|run| run.record.written_source == *s));
    let warning = if mixed { "<p>Bytes written have different sources here and are not the same to a percent.</p>\n" } else { "" };
    format!(
        "<dl>{rows}</dl>\n{warning}<p>Data: <a href=\"{0}\">{0}</a>, and the whole study \
         with the records of its runs (<code>{ARCHIVE}</code>, or <code>runs/*.json</code> while the study \
         runs) in {1}.</p>\n{2}{3}{4}{5}",
        escape(csv),
        folders.iter().map(|folder| format!("<code>{}</code>", escape(&folder.name))).collect::<Vec<_>>().join(", "),
        failures(folders),
        ignored(&runs),
        compression(folders),
        settings(folders),
    )
}

fn fact(name: &str, values: &BTreeSet<String>) -> String {
    format!("<dt>{name}</dt>{}\n", values.iter().map(|value| format!("<dd>{}</dd>", escape(value))).collect::<String>())
}

fn confinement(confinement: &Confinement) -> String {
    let memory = confinement.memory_bytes.map_or("no limit of memory".into(), |bytes| format!("{} GiB", number(bytes as f64 / GIB)));
    let quota = confinement.cpu_percent.map_or(String::new(), |percent| format!(" with {percent} % of one's time"));
    format!("{} processors{quota}, {memory}", confinement.cpus)
}

fn source(record: &RunRecord) -> String {
    let from = match record.written_source {
        Source::Engine => "its own account, by cause",
        Source::Medium => "what files were given by the server and all that it started (write_bytes of /proc/PID/io), whatever the cause",
        Source::Process => "what the process handed to write calls (wchar of /proc/self/io), whatever the cause",
    };
    format!("{}: {from}", engine(&record.spec.engine.name))
}

fn failures(folders: &[Folder]) -> String {
    let runs = folders.iter().flat_map(|folder| folder.runs.iter().map(move |run| (folder, run)));
    let failed = runs.filter_map(|(folder, run)| Some((folder, run, run.record.failure.as_ref()?)));
    let rows = failed.map(|(folder, run, why)| {
        let spec = &run.record.spec;
        let cells = [&format!("{}: {}", folder.name, run.name), &spec.engine.name, &spec.workload.name, why];
        format!("<tr>{}</tr>\n", cells.iter().map(|text| format!("<td class=\"text\">{}</td>", escape(text))).collect::<String>())
    });
    let rows: String = rows.collect();
    if rows.is_empty() {
        return rows;
    }
    let table = framed("<th>run</th><th>engine</th><th>workload</th><th>failure</th>", &rows);
    format!("<h3>Runs that failed</h3>\n<p>They are in none of the figures below.</p>\n{table}")
}

fn ignored(runs: &[&Run]) -> String {
    let mut by_engine: BTreeMap<&str, BTreeSet<&String>> = BTreeMap::new();
    for run in runs {
        by_engine.entry(&run.record.spec.engine.name).or_default().extend(&run.record.ignored_settings);
    }
    let named = by_engine.iter().filter(|(_, settings)| !settings.is_empty()).map(|(engine, settings)| {
        let settings = settings.iter().map(|s| format!("<code>{}</code>", escape(s))).collect::<Vec<_>>().join(", ");
        format!("<p>{} has no counterpart for {settings}.</p>\n", escape(text::engine(engine)))
    });
    let named: String = named.collect();
    if named.is_empty() { named } else { format!("<h3>Ignored settings</h3>\n{named}") }
}

/// Every parameter with its values: first the differing ones, which name the rows and bars below, then those shared by all runs.
fn settings(folders: &[Folder]) -> String {
    let runs = parameters(folders);
    let varied = differing(&runs.iter().map(|(.., parameters)| parameters).collect::<Vec<_>>());
    let mut values: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
    for (name, value) in runs.iter().flat_map(|(.., parameters): &(_, _, Parameters)| parameters) {
        values.entry(name).or_default().insert(value);
    }
    let list = |wanted: bool| {
        let chosen = values.iter().filter(|(name, _)| varied.contains(name.as_str()) == wanted);
        let row = |(name, values): (&&String, &BTreeSet<&String>)| {
            let values = values.iter().map(|v| escape(v)).collect::<Vec<_>>().join("<br>");
            let label = if wanted { escape(&short(name, &varied)) } else { String::new() };
            format!("<tr><th><code>{}</code></th><th>{label}</th><td class=\"text\">{values}</td></tr>\n", escape(name))
        };
        framed("<th>parameter</th><th>called below</th><th>values</th>", &chosen.map(row).collect::<String>())
    };
    let seeds: BTreeSet<u64> = runs.iter().map(|(_, run, _)| run.record.spec.seed).collect();
    let seeds = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "<details><summary>Settings that differ between runs</summary>\n{}</details>\n\
         <details><summary>Settings that all runs share</summary>\n{}<p>Seeds: {seeds}.</p></details>\n",
        list(true),
        list(false)
    )
}
