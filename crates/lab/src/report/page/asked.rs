//! The questions of a study and its findings, as a part of the page.

use crate::report::load::Folder;
use crate::report::tables::framed;
use crate::report::text::{escape, number};
use crate::statistics::Ratio;
use crate::study::judge::{Compared, Finding, State};
use serde_json::Value;

/// Smallest change of write amplification that is reported.
const LEAST_CHANGE: f64 = 0.005;

/// The study's own title, or the folder's name.
pub fn title(folder: &Folder) -> String {
    let text = |name: &str| folder.study.as_ref()?.get(name)?.as_str().map(str::to_owned);
    text("title").or_else(|| text("name")).unwrap_or_else(|| folder.name.clone())
}

/// The section of questions; empty for results without a study.
pub fn asked(folder: &Folder, several: bool) -> String {
    let Some(study) = &folder.study else { return String::new() };
    let paragraphs = |name: &str| study.get(name).and_then(Value::as_array).into_iter().flatten();
    let questions: String = paragraphs("questions").filter_map(Value::as_str).map(|q| format!("<p>{}</p>\n", escape(q))).collect();
    let left_out = paragraphs("left_out").filter_map(Value::as_str).map(|what| format!("<p><b>Not run here:</b> {}.</p>\n", escape(what)));
    let left_out: String = left_out.collect();
    let claims = paragraphs("hypotheses").filter_map(|hypothesis| {
        let claim = hypothesis.get("claim")?.as_str()?;
        let original = hypothesis.get("original").and_then(Value::as_str);
        let original = original.map(|text| format!(" <small>The original: {}</small>", escape(text))).unwrap_or_default();
        Some(format!("<li>{}{original}</li>\n", escape(claim)))
    });
    let claims: String = claims.collect();
    let claims = if claims.is_empty() { claims } else { format!("<h3>Hypotheses</h3>\n<ol>{claims}</ol>\n") };
    format!("<section><h2>What was asked{}</h2>\n{questions}{left_out}{claims}</section>\n", of(folder, several))
}

/// The section of findings; says so if there are none.
pub fn verdicts(folder: &Folder, several: bool) -> String {
    let head = format!("<section><h2>Verdicts{}</h2>\n", of(folder, several));
    let asked = folder.study.as_ref().and_then(|study| study.get("hypotheses")?.as_array()).is_some_and(|list| !list.is_empty());
    match (folder.findings.as_slice(), asked) {
        ([], false) => String::new(),
        ([], true) => head + "<p>None yet: the study has not been judged.</p></section>\n",
        (findings, _) => head + &findings.iter().map(finding).collect::<String>() + "</section>\n",
    }
}

fn finding(finding: &Finding) -> String {
    let verdict = &finding.verdict;
    let name = verdict.verdict.name();
    let rows: String = finding.comparisons.iter().map(compared).collect();
    let head =
        "<th>compared</th><th>should lie</th><th>ratio, mean</th><th>interval</th><th>Cliff's delta</th><th></th><th>change by cause</th>";
    let table = if rows.is_empty() { rows } else { framed(head, &rows) };
    format!(
        "<article class=\"verdict {name}\"><p><b>{name}</b> on {}</p>\n<p>{}</p>\n{table}<details><summary>Rule and statistics</summary>\
         <p>{}</p>\n<p>{}</p></details></article>\n",
        escape(&verdict.engine),
        escape(&verdict.hypothesis),
        escape(&verdict.rule),
        escape(&verdict.statistics).replace('\n', "<br>")
    )
}

fn compared(compared: &Compared) -> String {
    let interval = |ratio: &Ratio| Some(format!("{} – {}", number(ratio.interval?.low), number(ratio.interval?.high)));
    let state = match compared.state {
        State::Holds => "holds",
        State::Refuted => "refuted",
        State::Open => "open",
    };
    let changes = compared.causes.iter().filter(|change| (change.above - change.below).abs() >= LEAST_CHANGE);
    let changes: Vec<String> = changes.map(|change| format!("{} {:+.2}", change.cause, change.above - change.below)).collect();
    let cells = [
        compared.bound.to_string(),
        compared.ratio.map_or("-".into(), |ratio| number(ratio.ratio)),
        compared.ratio.as_ref().and_then(interval).unwrap_or("-".into()),
        compared.cliffs_delta.map_or("-".into(), |delta| format!("{delta:+.2}")),
        state.into(),
    ];
    let cells: String = cells.iter().map(|text| format!("<td>{}</td>", escape(text))).collect();
    let name = escape(&compared.name);
    format!("<tr><th>{name}</th>{cells}<td class=\"text\">{}</td></tr>\n", escape(&changes.join(", ")))
}

fn of(folder: &Folder, several: bool) -> String {
    if several { format!(": {}", escape(&folder.name)) } else { String::new() }
}
