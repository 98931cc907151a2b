//! The head of a page: title, scale, machine, date and commit, and the sentences that say what was found.

use crate::published::{Published, Sentence};
use crate::report::beside::Measured;
use crate::report::cells::commit;
use crate::report::engines::Engines;
use crate::report::load::Folder;
use crate::report::text::{date, engine, escape, range, short};
use crate::run::{Answer, RunRecord};
use crate::study::judge::{Finding, LEAST_RUNS};
use crate::study::plan::Scale;
use std::collections::BTreeSet;

/// Most sentences of a study without published counterpart on single claims.
const CLAIMS: usize = 5;

/// Scale, machine, date, commit and versions, in a paragraph; at the smallest scale another one that it decides nothing.
pub fn origin(folder: &Folder) -> String {
    let all = |of: &dyn Fn(&RunRecord) -> String| folder.runs.iter().map(|run| of(&run.record)).collect::<BTreeSet<String>>();
    let several = |values: BTreeSet<String>| values.into_iter().collect::<Vec<_>>().join(", ");
    let dates = all(&|record| date(record.started_unix));
    let dates: BTreeSet<String> = dates.first().into_iter().chain(dates.last()).cloned().collect();
    let scale = folder.plan.as_ref().and_then(|plan| plan.scale);
    let parts = [
        scale.map_or(String::new(), |scale| format!("scale {}", scale.name())),
        several(all(&|record| record.machine.to_string())),
        dates.into_iter().collect::<Vec<_>>().join(" to "),
        format!("commit {}", several(all(&commit))),
        several(all(&|record| format!("{} {}", engine(&record.spec.engine.name), version(record)))),
    ];
    if folder.runs.is_empty() {
        return String::new();
    }
    let parts: Vec<String> = parts.iter().filter(|part| !part.is_empty()).map(|part| escape(part)).collect();
    let decides =
        if scale == Some(Scale::Ci) { "<p><b>The scale ci shows that everything works. It decides nothing.</b></p>\n" } else { "" };
    format!("<p class=\"origin\">{}</p>\n{decides}", parts.join(" · "))
}

/// The version without the engine's name.
fn version(record: &RunRecord) -> &str {
    record.engine_version.split_once(' ').map_or(record.engine_version.as_str(), |(_, version)| version)
}

/// The section of sentences; empty where nothing was found.
pub fn found(folder: &Folder, published: Option<&Published>) -> String {
    let measured = Measured::of(folder);
    let about = |sentence: &Sentence| told(sentence, folder, measured.as_ref()?);
    let mut sentences: Vec<String> = published.iter().flat_map(|published| &published.found).filter_map(about).collect();
    if sentences.is_empty() {
        sentences = Engines::of(folder).map(|engines| engines.sentences()).unwrap_or_default();
        sentences.extend(counts(&folder.findings));
        sentences.extend(folder.findings.iter().filter(|finding| finding.verdict.verdict != Answer::Undecided).take(CLAIMS).map(decided));
    }
    let list: String = sentences.iter().map(|sentence| format!("<li>{}</li>\n", escape(sentence))).collect();
    if list.is_empty() { list } else { format!("<section><h2>What was found</h2>\n<ul class=\"found\">\n{list}</ul></section>\n") }
}

/// A sentence with the half of its verdict and its values; `None` where the claim was not judged, or a value was not measured.
fn told(sentence: &Sentence, folder: &Folder, measured: &Measured<'_>) -> Option<String> {
    let is_about = |finding: &&Finding| finding.verdict.hypothesis == sentence.claim && finding.verdict.engine == sentence.engine;
    let finding = folder.findings.iter().find(is_about)?;
    let mut fact = sentence.fact.replace("{ratios}", &ratios(finding)?);
    for (name, ours) in &sentence.values {
        let value = measured.value(ours, ours.engine.as_deref().unwrap_or(&sentence.engine))?.mean;
        let (unit, _) = ours.unit();
        fact = fact.replace(&format!("{{{name}}}"), format!("{} {unit}", short(value)).trim_end());
    }
    let half = match finding.verdict.verdict {
        Answer::Accepted => &sentence.accepted,
        Answer::Rejected => &sentence.rejected,
        Answer::Undecided => &sentence.undecided,
    };
    Some(format!("{half}{}: {fact}", few(finding)))
}

/// Number of runs in brackets, where they are too few to decide.
fn few(finding: &Finding) -> String {
    match finding.comparisons.iter().map(|compared| compared.runs).max() {
        Some(1) => " (1 run)".into(),
        Some(runs) if runs < LEAST_RUNS => format!(" ({runs} runs)"),
        _ => String::new(),
    }
}

/// Smallest and largest ratio of a finding.
pub fn ratios(finding: &Finding) -> Option<String> {
    range(finding.comparisons.iter().filter_map(|compared| Some(compared.ratio?.ratio)))
}

fn counts(findings: &[Finding]) -> Option<String> {
    let count = |answer: Answer| findings.iter().filter(|finding| finding.verdict.verdict == answer).count();
    let [accepted, rejected, undecided] = [Answer::Accepted, Answer::Rejected, Answer::Undecided].map(count);
    let all = findings.len();
    (all > 0).then(|| format!("Of {all} verdicts {accepted} are accepted, {rejected} rejected and {undecided} undecided."))
}

fn decided(finding: &Finding) -> String {
    let verdict = &finding.verdict;
    let ratios = ratios(finding).map_or(String::new(), |ratios| format!(": {ratios}"));
    format!("{}, {}: {}{ratios}.", engine(&verdict.engine), verdict.verdict.name(), verdict.hypothesis)
}
