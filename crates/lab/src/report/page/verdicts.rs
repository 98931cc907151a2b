//! The verdicts of a study as one table: a row for each claim, a column for each engine. A row says why the claim is rejected, and unfolds
//! to its comparisons, its rule and its statistics.

use super::found::ratios;
use crate::published::Published;
use crate::report::load::Folder;
use crate::report::tables::framed;
use crate::report::text::{engine, escape};
use crate::run::Answer;
use crate::study::judge::{Compared, Finding, LEAST_RUNS, State};

/// Smallest change of write amplification that is reported.
const LEAST_CHANGE: f64 = 0.005;

/// The section of verdicts; says so if there are none.
pub fn verdicts(folder: &Folder, heading: &str, published: Option<&Published>) -> String {
    let asked = folder.study.as_ref().and_then(|study| study.get("hypotheses")?.as_array()).is_some_and(|list| !list.is_empty());
    let mut claims: Vec<(&str, Vec<&Finding>)> = Vec::new();
    let mut engines: Vec<&str> = Vec::new();
    for finding in &folder.findings {
        let (claim, engine) = (finding.verdict.hypothesis.as_str(), finding.verdict.engine.as_str());
        match claims.iter_mut().find(|(other, _)| *other == claim) {
            Some((_, findings)) => findings.push(finding),
            None => claims.push((claim, vec![finding])),
        }
        if !engines.contains(&engine) {
            engines.push(engine);
        }
    }
    let head = format!("<section id=\"verdicts\"><h2>Verdicts{}</h2>\n", escape(heading));
    if claims.is_empty() {
        return if asked { head + "<p>None yet: the study has not been judged.</p></section>\n" } else { String::new() };
    }
    let names: String = engines.iter().map(|name| format!("<th>{}</th>", escape(engine(name)))).collect();
    let rows: String = claims.iter().map(|(claim, findings)| row(claim, findings, &engines, published)).collect();
    format!(
        "{head}<p>Ratios with their 95 % intervals, or the smallest and the largest of several. A row unfolds to its comparisons and its \
         rule.</p>\n<table class=\"verdicts\"><thead><tr><th>claim</th><th>original</th>{names}</tr></thead>\
         <tbody>\n{rows}</tbody></table></section>\n"
    )
}

fn row(claim: &str, findings: &[&Finding], engines: &[&str], published: Option<&Published>) -> String {
    let is_rejected = findings.iter().any(|finding| finding.verdict.verdict == Answer::Rejected);
    let is_original = findings.iter().any(|finding| finding.original.is_some());
    let cause = published.filter(|_| is_rejected).and_then(|published| published.cause(claim, is_original));
    let cause = cause.map_or(String::new(), |cause| format!("<small>{}</small>\n", escape(cause)));
    let original = findings.iter().find_map(|finding| finding.original.as_deref()).unwrap_or_default();
    let cell = |name: &&str| {
        let Some(finding) = findings.iter().find(|finding| finding.verdict.engine == **name) else { return "<td></td>".into() };
        let answer = finding.verdict.verdict.name();
        format!("<td class=\"{answer}\" data-engine=\"{}\"><b>{answer}</b> {}</td>", escape(engine(name)), escape(&figure(finding)))
    };
    let cells: String = engines.iter().map(cell).collect();
    let details: String = findings.iter().map(|finding| details(finding)).collect();
    let claim = escape(claim);
    format!(
        "<tr><td><details name=\"verdict\"><summary>{claim}</summary>\n{details}</details>{cause}</td><td>{}</td>{cells}</tr>\n",
        escape(original)
    )
}

/// The ratio of a finding, or the range of several.
fn figure(finding: &Finding) -> String {
    match finding.comparisons.as_slice() {
        [one] => one.ratio.map_or("not run".into(), |ratio| one.figure(ratio.ratio, ratio.interval)),
        several => {
            let runs = several.iter().map(|compared| compared.runs).max().unwrap_or(0);
            let few = if runs < LEAST_RUNS { format!(", {runs} run{}", if runs == 1 { "" } else { "s" }) } else { String::new() };
            ratios(finding).map_or("not run".into(), |ratios| ratios + &few)
        }
    }
}

fn details(finding: &Finding) -> String {
    let verdict = &finding.verdict;
    let name = verdict.verdict.name();
    let rows: String = finding.comparisons.iter().map(compared).collect();
    let head = "<th>compared</th><th>should lie</th><th>ratio or mean, interval</th><th></th><th>change by cause</th>";
    let table = if rows.is_empty() { rows } else { framed(head, &rows) };
    // The table has the comparisons already.
    let is_compared = |line: &&str| finding.comparisons.iter().any(|one| line.strip_prefix(&one.name).is_some_and(|l| l.starts_with(": ")));
    let statistics: Vec<String> = verdict.statistics.lines().filter(|line| !is_compared(line)).map(escape).collect();
    format!(
        "<article class=\"verdict {name}\"><p><b>{name}</b> on {}</p>\n{table}<p>{}</p>\n<p>{}</p></article>\n",
        escape(engine(&verdict.engine)),
        escape(&verdict.rule),
        statistics.join("<br>")
    )
}

fn compared(compared: &Compared) -> String {
    let state = match compared.state {
        State::Holds => "holds",
        State::Refuted => "refuted",
        State::Open => "open",
    };
    let changes = compared.causes.iter().filter(|change| (change.above - change.below).abs() >= LEAST_CHANGE);
    let changes: Vec<String> = changes.map(|change| format!("{} {:+.2}", change.cause, change.above - change.below)).collect();
    let figure = compared.ratio.map_or("not run".into(), |ratio| compared.figure(ratio.ratio, ratio.interval));
    let cells: String =
        [compared.bound.to_string(), figure, state.into()].iter().map(|text| format!("<td>{}</td>", escape(text))).collect();
    format!("<tr><th>{}</th>{cells}<td class=\"text\">{}</td></tr>\n", escape(&compared.name), escape(&changes.join(", ")))
}
