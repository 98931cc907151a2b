//! The head of a page: title, scale, machine, date and commit, and the sentences that say what was found.

use crate::published::{Ours, Published, Sentence, UNKNOWN};
use crate::report::beside::Measured;
use crate::report::cells::commit;
use crate::report::engines::Engines;
use crate::report::load::Folder;
use crate::report::text::{beside, date, engine, escape, short};
use crate::run::{Answer, RunRecord};
use crate::study::judge::{Finding, LEAST_RUNS, State};
use crate::study::plan::Scale;
use std::collections::{BTreeMap, BTreeSet};

/// Most sentences of a study without published counterpart on single claims.
const CLAIMS: usize = 5;

/// Scale, machine, date, commit and versions, in a paragraph; at the smallest scale another one that it decides nothing.
pub fn origin(folder: &Folder) -> String {
    let all = |of: &dyn Fn(&RunRecord) -> String| folder.runs.iter().map(|run| of(&run.record)).collect::<BTreeSet<String>>();
    let several = |values: BTreeSet<String>| values.into_iter().collect::<Vec<_>>().join(", ");
    let machines = all(&|record| record.machine.to_string()).into_iter().collect::<Vec<_>>().join("; and ");
    let dates = all(&|record| date(record.started_unix));
    let dates: BTreeSet<String> = dates.first().into_iter().chain(dates.last()).cloned().collect();
    let scale = folder.plan.as_ref().and_then(|plan| plan.scale);
    let parts = [
        scale.map_or(String::new(), |scale| format!("scale {}", scale.name())),
        machines,
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
    let about = |published: &Published, sentence: &Sentence| told(published, sentence, folder, measured.as_ref()?);
    let all = published.into_iter().flat_map(|published| published.found.iter().map(move |sentence| (published, sentence)));
    let mut sentences: Vec<String> = all.filter_map(|(published, sentence)| about(published, sentence)).collect();
    if sentences.is_empty() {
        sentences = Engines::of(folder).map(|engines| engines.sentences()).unwrap_or_default();
        sentences.extend(counts(&folder.findings));
        sentences.extend(folder.findings.iter().filter(|finding| finding.verdict.verdict != Answer::Undecided).take(CLAIMS).map(decided));
    }
    let list: String = sentences.iter().map(|sentence| format!("<li>{}</li>\n", escape(sentence))).collect();
    if list.is_empty() { list } else { format!("<section><h2>What was found</h2>\n<ul class=\"found\">\n{list}</ul></section>\n") }
}

/// A sentence with the half of its verdict and its values; `None` where the claim was not judged, or nothing was measured.
fn told(published: &Published, sentence: &Sentence, folder: &Folder, measured: &Measured<'_>) -> Option<String> {
    let is_about = |finding: &&Finding| finding.verdict.hypothesis == sentence.claim && finding.verdict.engine == sentence.engine;
    let finding = folder.findings.iter().find(is_about)?;
    let mut halves = [&sentence.fact, &sentence.otherwise, &sentence.last].into_iter().filter(|half| !half.is_empty());
    let fact = halves.find_map(|half| filled(half, &sentence.values, &sentence.engine, measured))?.replace("{ratios}", &in_words(finding)?);
    let half = match finding.verdict.verdict {
        Answer::Accepted => &sentence.accepted,
        Answer::Rejected => &sentence.rejected,
        Answer::Undecided => &sentence.undecided,
    };
    let is_rejected = finding.verdict.verdict == Answer::Rejected;
    let cause = if is_rejected { format!(" {}", cause(published, finding, measured)) } else { String::new() };
    Some(format!("{half}{}: {fact}{cause}", certainty(finding)))
}

/// Why a rejected claim does not hold, or that this is not known.
pub fn cause(published: &Published, finding: &Finding, measured: &Measured<'_>) -> String {
    let engine = &finding.verdict.engine;
    let told = published.causes.get(&finding.verdict.hypothesis).and_then(|cause| {
        let otherwise = (!cause.otherwise.is_empty()).then(|| cause.otherwise.clone());
        filled(&cause.fact, &cause.values, engine, measured).or(otherwise)
    });
    told.unwrap_or_else(|| UNKNOWN.to_string())
}

/// A text with its values; `None` where one of them was not measured. `engine`: that of values which name none.
fn filled(text: &str, values: &BTreeMap<String, Ours>, engine: &str, measured: &Measured<'_>) -> Option<String> {
    let mut text = text.to_string();
    for (name, ours) in values {
        let place = format!("{{{name}}}");
        if text.contains(&place) {
            let value = measured.value(ours, ours.engine.as_deref().unwrap_or(engine))?;
            let (unit, _) = ours.unit();
            text = text.replace(&place, format!("{} {unit}", short(value.mean)).trim_end());
        }
    }
    Some(text)
}

/// Number of comparisons that decide a claim of several, or of runs where they are too few to decide, in brackets.
fn certainty(finding: &Finding) -> String {
    let all = finding.comparisons.len();
    let count = |state: State| finding.comparisons.iter().filter(|compared| compared.state == state).count();
    match (finding.comparisons.iter().map(|compared| compared.runs).max(), finding.verdict.verdict) {
        (Some(1), _) => " (1 run)".into(),
        (Some(runs), _) if runs < LEAST_RUNS => format!(" ({runs} runs)"),
        (_, Answer::Rejected) if all > 1 => format!(" (not so in {} of {all} comparisons)", count(State::Refuted)),
        (_, Answer::Undecided) if all > 1 => match (count(State::Holds), count(State::Refuted)) {
            (0, 0) => format!(" (in none of {all} comparisons)"),
            (holds, 0) => format!(" (so in {holds} of {all} comparisons, the others are open)"),
            (holds, refuted) => format!(" (so in {holds} of {all} comparisons, not so in {refuted}, the others are open)"),
        },
        _ => String::new(),
    }
}

/// Smallest and largest ratio of a finding, with the digits that tell them from their bounds.
pub fn ratios(finding: &Finding) -> Option<String> {
    let ratios = || finding.comparisons.iter().filter_map(|compared| Some((compared.ratio?.ratio, compared.bound.limits())));
    let least = ratios().min_by(|(a, _), (b, _)| a.total_cmp(b))?;
    let most = ratios().max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    let (least, most) = (beside(least.0, &least.1), beside(most.0, &most.1));
    Some(if least == most { least } else { format!("{least} to {most}") })
}

/// The ratio of a finding with its interval, or the range of several.
fn in_words(finding: &Finding) -> Option<String> {
    match finding.comparisons.as_slice() {
        [one] if one.ratio?.interval.is_some() => one.ratio.map(|ratio| one.figure(ratio.ratio, ratio.interval)),
        _ => ratios(finding),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::engines::tests::{folder_of, study};
    use crate::run::Verdict;
    use crate::statistics::{Interval, Method, Ratio};
    use crate::study::judge::Compared;
    use crate::study::plan::Bound;
    use serde_json::json;

    fn finding(answer: Answer, original: Option<&str>, states: &[State]) -> Finding {
        let verdict =
            Verdict { hypothesis: "more".into(), engine: "sinter".into(), verdict: answer, rule: String::new(), statistics: String::new() };
        let compared = |(place, state): (usize, &State)| Compared {
            group: String::new(),
            name: place.to_string(),
            bound: Bound::Above(1.0),
            ratio: Some(Ratio { ratio: 1.0 + place as f64, interval: None }),
            runs: 5,
            cliffs_delta: None,
            state: *state,
            causes: Vec::new(),
        };
        Finding { verdict, original: original.map(str::to_string), comparisons: states.iter().enumerate().map(compared).collect() }
    }

    /// A rejected claim has its cause, or none is known; several comparisons are counted; a value that is missing leaves the ratios.
    #[test]
    fn sentences_have_causes_counts_and_ratios() {
        let value = json!({ "cells": ["no such cell"], "measure": "run", "metric": "flushes" });
        let mut sentence = json!({
            "claim": "more", "accepted": "There is more", "rejected": "There is not more",
            "undecided": "Whether there is more is not decided", "fact": "{x} of it.", "values": { "x": value },
            "otherwise": "{ratios} times as much."
        });
        let cause = json!({ "fact": "{x} are full.", "otherwise": "It is full.", "values": { "x": value } });
        let mut published: Published = serde_json::from_value(json!({ "figures": [], "causes": { "more": cause } })).unwrap();
        let (_directory, mut folder) = folder_of(&study("compaction-wal-waf", &["sinter"], 1), |_, _| Some(1.0));
        let mut said = |published: &Published, sentence: &serde_json::Value, finding: Finding| {
            folder.findings = vec![finding];
            told(published, &serde_json::from_value(sentence.clone()).unwrap(), &folder, &Measured::of(&folder).unwrap())
        };
        let states = [State::Holds, State::Refuted, State::Open];
        let rejected = said(&published, &sentence, finding(Answer::Rejected, None, &states)).unwrap();
        assert_eq!(rejected, "There is not more (not so in 1 of 3 comparisons): 1.00 to 3.00 times as much. It is full.");
        let undecided = said(&published, &sentence, finding(Answer::Undecided, Some("yes"), &states)).unwrap();
        let counted =
            "Whether there is more is not decided (so in 1 of 3 comparisons, not so in 1, the others are open): 1.00 to 3.00 times";
        assert_eq!(undecided, format!("{counted} as much."));
        let open = said(&published, &sentence, finding(Answer::Undecided, Some("yes"), &states[2..].repeat(2))).unwrap();
        assert_eq!(open, "Whether there is more is not decided (in none of 2 comparisons): 1.00 to 2.00 times as much.");
        let accepted = said(&published, &sentence, finding(Answer::Accepted, Some("yes"), &states[..1])).unwrap();
        assert_eq!(accepted, "There is more: 1.00 times as much.");
        published.causes.clear();
        let unknown = said(&published, &sentence, finding(Answer::Rejected, Some("yes"), &states[1..2])).unwrap();
        assert_eq!(unknown, "There is not more: 1.00 times as much. The cause is not known.");
        let mut certain = finding(Answer::Accepted, None, &states[..1]);
        certain.comparisons[0].ratio =
            Some(Ratio { ratio: 1.5, interval: Some(Interval { low: 1.25, high: 1.75, confidence: 0.95, method: Method::Student }) });
        assert_eq!(said(&published, &sentence, certain).unwrap(), "There is more: 1.50 (1.25 to 1.75) times as much.");
        sentence["last"] = json!("{ratios} times as much at least.");
        sentence["otherwise"] = json!("{x} as well.");
        let last = said(&published, &sentence, finding(Answer::Accepted, None, &states[..1])).unwrap();
        assert_eq!(last, "There is more: 1.00 times as much at least.", "the first half of which all is measured");
        sentence["last"] = json!("");
        assert_eq!(said(&published, &sentence, finding(Answer::Accepted, None, &states)), None);
    }
}
