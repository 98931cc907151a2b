//! What was asked, and what the study decided.

use crate::report::load::Folder;
use crate::report::text::escape;
use crate::run::Verdict;
use serde_json::Value;

/// The study's own title, or the folder's name.
pub fn title(folder: &Folder) -> String {
    let text = |name: &str| folder.study.as_ref()?.get(name)?.as_str().map(str::to_owned);
    text("title").or_else(|| text("name")).unwrap_or_else(|| folder.name.clone())
}

/// The section; nothing for results without a study.
pub fn asked(folder: &Folder, several: bool) -> String {
    let Some(study) = &folder.study else { return String::new() };
    let paragraphs = |name: &str| study.get(name).and_then(Value::as_array).into_iter().flatten();
    let questions: String = paragraphs("questions").filter_map(Value::as_str).map(|q| format!("<p>{}</p>\n", escape(q))).collect();
    let claims = paragraphs("hypotheses").filter_map(|hypothesis| {
        let claim = hypothesis.get("claim")?.as_str()?;
        let original = hypothesis.get("original").and_then(Value::as_str);
        let original = original.map(|text| format!(" <small>The original: {}</small>", escape(text))).unwrap_or_default();
        Some(format!("<li>{}{original}</li>\n", escape(claim)))
    });
    let claims: String = claims.collect();
    let claims = if claims.is_empty() { claims } else { format!("<h3>Hypotheses</h3>\n<ol>{claims}</ol>\n") };
    let raw = serde_json::to_string_pretty(study).unwrap_or_default();
    format!(
        "<section><h2>What was asked{}</h2>\n{questions}{claims}<details><summary>The whole study</summary>\
         <pre class=\"scroll\" tabindex=\"0\">{}</pre></details></section>\n",
        of(folder, several),
        escape(&raw)
    )
}

/// The section; says so where nothing was decided.
pub fn verdicts(folder: &Folder, several: bool) -> String {
    let head = format!("<section><h2>Verdicts{}</h2>\n", of(folder, several));
    let asked = folder.study.as_ref().and_then(|study| study.get("hypotheses")?.as_array()).is_some_and(|list| !list.is_empty());
    match (folder.verdicts.as_slice(), asked) {
        ([], false) => String::new(),
        ([], true) => head + "<p>None yet: the study has not been judged.</p></section>\n",
        (verdicts, _) => head + &verdicts.iter().map(verdict).collect::<String>() + "</section>\n",
    }
}

fn verdict(verdict: &Verdict) -> String {
    let name = verdict.verdict.name();
    let lines = verdict.statistics.lines().map(|line| format!("<li>{}</li>", escape(line))).collect::<String>();
    format!(
        "<article class=\"verdict {name}\"><p><b>{name}</b> on {}</p>\n<p>{}</p>\n<ul>{lines}</ul>\n<p><small>{}</small></p></article>\n",
        escape(&verdict.engine),
        escape(&verdict.hypothesis),
        escape(&verdict.rule)
    )
}

fn of(folder: &Folder, several: bool) -> String {
    if several { format!(": {}", escape(&folder.name)) } else { String::new() }
}
