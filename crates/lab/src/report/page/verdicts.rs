//! The verdicts of a study as one table: a row for each claim, a column for each engine. A row says why the claim is rejected, and unfolds
//! to its comparisons, its rule and its statistics.

use super::found::{cause, ratios};
use crate::published::Published;
use crate::report::beside::Measured;
use crate::report::load::Folder;
use crate::report::tables::framed;
use crate::report::text::{engine, escape};
use crate::report::words::Words;
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
    let has_original = folder.findings.iter().any(|finding| finding.original.is_some());
    let original = if has_original { "<th>original</th>" } else { "" };
    let measured = Measured::of(folder);
    let row = |(claim, findings): &(&str, Vec<&Finding>)| {
        let unit = unit(folder, claim);
        row(
            claim,
            findings,
            &Columns { engines: &engines, published, words: &folder.words, measured: measured.as_ref(), has_original, unit },
        )
    };
    let rows: String = claims.iter().map(row).collect();
    let parts = published.map_or(String::new(), |published| parts(published, &claims));
    format!(
        "{head}<p>Ratios, or means with their units, and 95 % intervals in brackets; or the smallest and the largest of several. A row \
         unfolds to its comparisons and its rule.{parts}</p>\n<table class=\"verdicts\"><thead><tr><th>claim</th>{original}{names}</tr>\
         </thead><tbody>\n{rows}</tbody></table></section>\n"
    )
}

/// The parts of the study that claims name, in words: ` A: memory. B: speed.`
fn parts(published: &Published, claims: &[(&str, Vec<&Finding>)]) -> String {
    let is_named = |part: &str| claims.iter().any(|(claim, _)| claim.strip_prefix(part).is_some_and(|rest| rest.starts_with([':', ' '])));
    let named = published.parts.iter().filter(|(part, _)| is_named(part));
    named.map(|(part, words)| format!(" {}: {}.", escape(part), escape(words))).collect()
}

/// The columns of a row.
struct Columns<'a> {
    engines: &'a [&'a str],
    published: Option<&'a Published>,
    words: &'a Words,
    measured: Option<&'a Measured<'a>>,
    /// Whether there is a column of what the original found.
    has_original: bool,
    /// Unit of the figures; empty for ratios.
    unit: &'static str,
}

/// Unit of the figures of a claim that is on means and not on ratios.
fn unit(folder: &Folder, claim: &str) -> &'static str {
    let mut hypotheses = folder.plan.iter().flat_map(|plan| &plan.hypotheses);
    let Some(hypothesis) = hypotheses.find(|hypothesis| hypothesis.claim == claim) else { return "" };
    let is_mean = hypothesis.groups.iter().flat_map(|group| &group.any_of).all(|comparison| comparison.below.is_empty());
    match hypothesis.metric.unit() {
        (unit, 1.0) if is_mean => unit,
        _ => "",
    }
}

fn row(claim: &str, findings: &[&Finding], columns: &Columns<'_>) -> String {
    let Columns { engines, published, words, measured, has_original, unit } = *columns;
    let rejected = findings.iter().find(|finding| finding.verdict.verdict == Answer::Rejected);
    let cause = rejected.zip(published).zip(measured).map(|((finding, published), measured)| cause(published, finding, measured));
    let cause = cause.map_or(String::new(), |cause| format!("<small>{}</small>\n", escape(&cause)));
    let original = match findings.iter().find_map(|finding| finding.original.as_deref()) {
        Some(said) => format!("<td data-head=\"original\">{}</td>", escape(said)),
        None if has_original => "<td></td>".to_string(),
        None => String::new(),
    };
    let cell = |name: &&str| {
        let Some(finding) = findings.iter().find(|finding| finding.verdict.engine == **name) else { return "<td></td>".into() };
        let answer = finding.verdict.verdict.name();
        let unit = if finding.comparisons.iter().any(|one| one.ratio.is_some()) { unit } else { "" };
        let figure = format!("{} {unit}", figure(finding));
        format!(
            "<td class=\"{answer}\" data-head=\"{}\" data-engine><b>{answer}</b> {}</td>",
            escape(engine(name)),
            escape(figure.trim_end())
        )
    };
    let cells: String = engines.iter().map(cell).collect();
    let details = details(findings, words);
    let claim = escape(claim);
    format!("<tr><td><details name=\"verdict\"><summary>{claim}</summary>\n{details}</details>{cause}</td>{original}{cells}</tr>\n")
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

/// The judgements of a claim, one for each engine. A rule that all of them share stands once, above them.
fn details(findings: &[&Finding], words: &Words) -> String {
    let rule = |finding: &Finding| format!("<p>{}</p>\n", escape(&rule(finding, words)));
    match findings {
        [first, others @ ..] if others.iter().all(|other| other.verdict.rule == first.verdict.rule) => {
            rule(first) + &findings.iter().map(|finding| judgement(finding, "", words)).collect::<String>()
        }
        several => several.iter().map(|finding| judgement(finding, &rule(finding), words)).collect(),
    }
}

/// The rule of a finding with its comparisons in words.
fn rule(finding: &Finding, words: &Words) -> String {
    let names = finding.comparisons.iter().map(|compared| (compared.name.clone(), words.say(&compared.name)));
    Words::from(names.collect::<Vec<_>>()).say(&finding.verdict.rule)
}

/// One judgement, with its rule in HTML.
fn judgement(finding: &Finding, rule: &str, words: &Words) -> String {
    let verdict = &finding.verdict;
    let name = verdict.verdict.name();
    let rows: String = finding.comparisons.iter().map(|one| compared(one, words)).collect();
    let head = "<th>compared</th><th>should lie</th><th>ratio or mean, interval</th><th></th><th>change by cause</th>";
    let table = if rows.is_empty() { rows } else { framed(head, &rows) };
    // The table has the comparisons already.
    let is_compared = |line: &&str| finding.comparisons.iter().any(|one| line.strip_prefix(&one.name).is_some_and(|l| l.starts_with(": ")));
    let statistics: Vec<String> = verdict.statistics.lines().filter(|line| !is_compared(line)).map(escape).collect();
    format!(
        "<article class=\"verdict {name}\"><p><b>{name}</b> on {}</p>\n{rule}{table}<p>{}</p></article>\n",
        escape(engine(&verdict.engine)),
        statistics.join("<br>")
    )
}

fn compared(compared: &Compared, words: &Words) -> String {
    let state = match compared.state {
        State::Holds => "holds",
        State::Refuted => "refuted",
        State::Open => "open",
    };
    let changes = compared.causes.iter().filter(|change| (change.above - change.below).abs() >= LEAST_CHANGE);
    let changes: Vec<String> =
        changes.map(|change| format!("{} {:+.2}", cause_in_words(&change.cause), change.above - change.below)).collect();
    let figure = compared.ratio.map_or("not run".into(), |ratio| compared.figure(ratio.ratio, ratio.interval));
    let cells: String =
        [compared.bound.to_string(), figure, state.into()].iter().map(|text| format!("<td>{}</td>", escape(text))).collect();
    format!("<tr><th>{}</th>{cells}<td class=\"text\">{}</td></tr>\n", escape(&words.say(&compared.name)), escape(&changes.join(", ")))
}

/// A cause of bytes written: `compaction to L3` becomes `merges into level 3`.
fn cause_in_words(cause: &str) -> String {
    match (cause, cause.strip_prefix("compaction to L")) {
        (_, Some(level)) => format!("merges into level {level}"),
        ("wal", _) => "log".to_string(),
        _ => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::engines::tests::{folder_of, study};

    /// Means have their unit and ratios have none. A study of our own has no column for an original.
    #[test]
    fn figures_have_units_and_originals_a_column() {
        let (_directory, mut servers) = folder_of(&study("aof-rewrite", &["sinter", "redis"], 1), |_, _| Some(1.0));
        let plan = servers.plan.clone().unwrap();
        let claim = |word: &str| plan.hypotheses.iter().find(|hypothesis| hypothesis.claim.contains(word)).unwrap();
        assert_eq!(unit(&servers, &claim("no PING waits for 20 ms").claim), "ms");
        assert_eq!(unit(&servers, &claim("its clients wait less").claim), "");
        assert_eq!(unit(&servers, "no claim"), "");
        let finding = |original: Option<&str>| Finding {
            verdict: crate::run::Verdict {
                hypothesis: claim("no PING").claim.clone(),
                engine: "sinter".into(),
                verdict: Answer::Undecided,
                rule: String::new(),
                statistics: String::new(),
            },
            original: original.map(str::to_string),
            comparisons: Vec::new(),
        };
        servers.findings = vec![finding(None)];
        let html = verdicts(&servers, "", None);
        assert!(html.contains("<thead><tr><th>claim</th><th>SinterDB</th></tr></thead>"), "{html}");
        assert!(html.contains("data-head=\"SinterDB\" data-engine><b>undecided</b> not run</td>"), "{html}");
        servers.findings = vec![finding(Some("it waits"))];
        let html = verdicts(&servers, "", None);
        assert!(html.contains("<th>claim</th><th>original</th><th>SinterDB</th>"), "{html}");
        assert!(html.contains("<td data-head=\"original\">it waits</td>"), "on a narrow screen the cell has its head: {html}");
    }

    /// A rule of all engines stands once, and rules that differ stand with their engines.
    #[test]
    fn a_rule_stands_once() {
        let finding = |engine: &str, rule: &str| Finding {
            verdict: crate::run::Verdict {
                hypothesis: "more".into(),
                engine: engine.into(),
                verdict: Answer::Accepted,
                rule: rule.into(),
                statistics: String::new(),
            },
            original: None,
            comparisons: Vec::new(),
        };
        let [ours, theirs, other] = [finding("sinter", "all hold"), finding("rocksdb", "all hold"), finding("redis", "one holds")];
        let html = details(&[&ours, &theirs], &Words::default());
        assert!(html.starts_with("<p>all hold</p>") && html.matches("all hold").count() == 1, "{html}");
        let html = details(&[&ours, &other], &Words::default());
        assert!(html.contains("on SinterDB</p>\n<p>all hold</p>") && html.contains("on Redis</p>\n<p>one holds</p>"), "{html}");
    }
}
