//! The figures of a published study, redrawn beside ours on the same axes.

use crate::published::{Figure, Form, Ours, Published, Row};
use crate::report::beside::{Measured, Value};
use crate::report::charts::{rewrites, rewrites_key};
use crate::report::drawing::{Axis, Group, Mark, bars, lines};
use crate::report::text::{color, engine, escape, short};

/// Colour of values of the original.
const ORIGINAL: &str = "original";
/// Number of panels from which on a figure is as wide as the page.
const WIDE: usize = 3;
/// Reasons why a row has no value of ours, and why a whole figure has none.
const NOT_RUN: &str = "not run";
const NOT_COUNTED: &str = "not counted";
const NONE_RUN: &str = "not among these runs";
const NONE_COUNTED: &str = "not counted in these runs";

/// Attribute of figures that have values of ours.
pub const WITH_OURS: &str = "data-ours";

/// A panel: its name and its drawing.
type Panel = (String, String);

/// The section with all figures.
pub fn originals(published: &Published, measured: &Measured<'_>) -> String {
    let key = |class: &str, name: &str| format!("<span><i class=\"{class}\"></i>{}</span>", escape(name));
    let engines = measured.plan.engines.iter().map(|name| key(color(name), engine(name)));
    let (mut figures, mut others) = (String::new(), String::new());
    for figure in &published.figures {
        match (&figure.ours, &figure.why) {
            (Some(ours), _) => match drawn(figure, ours, measured) {
                Ok(html) => figures += &html,
                Err(why) => others += &without(figure, why),
            },
            (None, why) => others += &without(figure, why.as_deref().unwrap_or_default()),
        }
    }
    let others = if others.is_empty() { others } else { format!("<p>Not beside ours:</p>\n<ul>{others}</ul>\n") };
    format!(
        "<section><h2>The original's figures and ours</h2>\n<p>Original: {}. {}</p>\n<p class=\"key\">{}{} Thin lines are 95 % intervals, \
         from three repeats on.</p>\n<div class=\"originals\">\n{figures}</div>\n{others}</section>\n",
        escape(&published.source),
        escape(&published.setup),
        key(ORIGINAL, &format!("the original ({})", published.source)),
        engines.collect::<String>(),
    )
}

fn without(figure: &Figure, why: &str) -> String {
    let note = if figure.note.is_empty() { String::new() } else { format!(" {}", escape(&figure.note)) };
    let Figure { id, of, title, .. } = figure;
    format!("<li id=\"{}\">{} ({}): {}.{note}</li>\n", escape(id), escape(title), escape(of), escape(why))
}

/// A figure; the reason where it would hold nothing.
fn drawn(figure: &Figure, ours: &Ours, measured: &Measured<'_>) -> Result<String, &'static str> {
    let (panels, lack) = match figure.form {
        Form::OverTime => (over_time(figure, ours, measured), None),
        Form::Bars | Form::Lines => of_rows(figure, ours, measured),
    };
    if panels.is_empty() {
        let is_run = figure.rows.iter().any(|row| measured.is_run(&ours.of(row, measured.plan.scale)));
        return Err(if is_run { NONE_COUNTED } else { NONE_RUN });
    }
    let drawn: String = panels.iter().map(|(name, html)| format!("<div><h4>{}</h4>{html}</div>\n", escape(name))).collect();
    let wide = if panels.len() >= WIDE || figure.form == Form::OverTime { " wide" } else { "" };
    let with_ours = if lack.is_none() { WITH_OURS } else { "" };
    let key = if figure.form == Form::OverTime { rewrites_key(&drawn) } else { String::new() };
    let note = if figure.note.is_empty() { String::new() } else { format!(" {}", escape(&figure.note)) };
    let lack = lack.map_or(String::new(), |why| format!(" Ours: {why}."));
    Ok(format!(
        "<figure class=\"beside{wide}\" id=\"{}\" {with_ours}><figcaption><b>{}</b> <span>In the original: {}.{note}{lack}</span>\
         </figcaption>\n{key}<div class=\"panels\">{drawn}</div></figure>\n",
        escape(&figure.id),
        escape(&figure.title),
        escape(&figure.of),
    ))
}

/// Panels of bars or lines, and the reason why none has values of ours. A panel without any value is left out.
fn of_rows(figure: &Figure, ours: &Ours, measured: &Measured<'_>) -> (Vec<Panel>, Option<&'static str>) {
    let mut panels: Vec<(&str, Vec<Group>)> = Vec::new();
    for row in &figure.rows {
        let group = group(row, ours, measured);
        match panels.last_mut().filter(|(name, _)| *name == row.panel) {
            Some((_, groups)) => groups.push(group),
            None => panels.push((&row.panel, vec![group])),
        }
    }
    let has_ours = |group: &Group| group.marks.iter().any(|mark| mark.class != ORIGINAL);
    let all = || panels.iter().flat_map(|(_, groups)| groups);
    let lack = if all().any(has_ours) {
        panels.retain(|(_, groups)| groups.iter().any(has_ours));
        None
    } else {
        let is_run = all().any(|group| group.missing != NOT_RUN);
        // The figure says once that nothing of ours is there, and has only rows of the original.
        for (_, groups) in &mut panels {
            groups.retain(|group| !group.marks.is_empty());
            groups.iter_mut().for_each(|group| group.missing.clear());
        }
        panels.retain(|(_, groups)| !groups.is_empty());
        Some(if is_run { NONE_COUNTED } else { NONE_RUN })
    };
    let Some(axis) = Axis::of(panels.iter().flat_map(|(_, groups)| groups), figure.logarithmic) else { return (Vec::new(), lack) };
    let draw = |(name, groups): &(&str, Vec<Group>)| {
        let name = figure.panels.get(*name).cloned().unwrap_or_else(|| measured.words.say(name));
        let label = format!("{} {name}", figure.title);
        let scale = if figure.logarithmic { ", logarithmic" } else { "" };
        let title = format!("<p class=\"axis-title\">{}{scale}</p>", escape(&figure.axis));
        let html = match figure.form {
            Form::Lines => title + &lines(groups, &axis, label.trim(), &figure.across),
            Form::Bars | Form::OverTime => bars(groups, &axis, label.trim()) + &title,
        };
        (name, html)
    };
    (panels.iter().map(draw).collect(), lack)
}

/// A picture of the median run for each row and engine.
fn over_time(figure: &Figure, ours: &Ours, measured: &Measured<'_>) -> Vec<Panel> {
    let pairs = figure.rows.iter().flat_map(|row| measured.plan.engines.iter().map(move |name| (row, name)));
    let picture = |(row, name): (&Row, &String)| {
        let svg = rewrites(measured.median_run(&ours.of(row, measured.plan.scale), name)?)?;
        Some((format!("{}, {}: the repeat with the median speed", engine(name), row.label), svg))
    };
    pairs.filter_map(picture).collect()
}

fn group(row: &Row, ours: &Ours, measured: &Measured<'_>) -> Group {
    let ours = ours.of(row, measured.plan.scale);
    let (unit, _) = ours.unit();
    let with_unit = |text: String, said: &str| {
        let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
        format!("{text}{}{unit}{said}", if unit.is_empty() { "" } else { " " })
    };
    let original = row.original.map(|value| Mark { class: ORIGINAL, value, interval: None, text: with_unit(short(value), &row.said) });
    let mark = |name: &String| {
        let Value { mean, interval, said } = measured.value(&ours, name)?;
        Some(Mark { class: color(name), value: mean, interval, text: with_unit(short(mean), &said) })
    };
    let found: Vec<Mark> = measured.plan.engines.iter().filter_map(mark).collect();
    let missing = missing(&ours, measured, found.is_empty());
    Group { label: row.label.clone(), marks: original.into_iter().chain(found).collect(), missing }
}

/// Why there is no value of ours, or none of an engine whose runs ended before they were through.
fn missing(ours: &Ours, measured: &Measured<'_>, is_empty: bool) -> String {
    let several = measured.plan.engines.len() > 1;
    let ended = measured.plan.engines.iter().filter_map(|name| {
        let why = measured.ended(ours, name).filter(|_| measured.value(ours, name).is_none())?;
        Some(if several { format!("{} {why}", engine(name)) } else { why.to_string() })
    });
    let ended = ended.collect::<Vec<_>>().join("; ");
    match (is_empty && ended.is_empty(), measured.is_run(ours)) {
        (false, _) => ended,
        (true, true) => NOT_COUNTED.to_string(),
        (true, false) => NOT_RUN.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::engines::tests::{folder_of, study};
    use crate::run::Second;
    use serde_json::json;

    /// A run over time stands beside the figure that it repeats, for each server; one that nobody looked at is not counted.
    #[test]
    fn runs_are_drawn_over_time() {
        let ours = json!({
            "cells": ["A 10 kB, {cell} SETs, log shortened"], "measure": "SETs", "metric": "operations_per_second"
        });
        let rows = json!([{ "label": "ten times", "cell": "1,000", "paper": "1,000,000" }]);
        let figure = json!({
            "id": "over-time", "of": "figure 3", "title": "Over time", "axis": "operations per second", "form": "over_time",
            "ours": ours, "rows": rows
        });
        let figure: Figure = serde_json::from_value(figure).unwrap();
        let (_directory, mut folder) = folder_of(&study("aof-rewrite", &["sinter", "redis"], 1), |_, _| Some(1.0));
        let drawn =
            |folder: &crate::report::load::Folder| super::drawn(&figure, figure.ours.as_ref().unwrap(), &Measured::of(folder).unwrap());
        assert_eq!(drawn(&folder), Err(NONE_COUNTED));
        for phase in folder.runs.iter_mut().flat_map(|run| &mut run.record.phases) {
            phase.series = (1..4).map(|at| Second { at: f64::from(at), children: 1, ..Second::default() }).collect();
        }
        let html = drawn(&folder).unwrap();
        assert_eq!(["sinter", "redis"].map(|class| html.matches(&format!("<svg class=\"timeline {class}\"")).count()), [1, 1], "{html}");
        let parts = ["id=\"over-time\" data-ours>", "<h4>SinterDB, ten times: the repeat", "rewrite of the log", "<rect class=\"rewrite\""];
        parts.iter().for_each(|part| assert!(html.contains(part), "{part}: {html}"));
        // A style inside of a picture would be one of the whole page.
        assert!(!html.contains("<style"), "{html}");
        folder.runs.clear();
        assert_eq!(drawn(&folder), Err(NONE_RUN));
    }

    /// A run that found no space is a result and is named as one. A figure without ours has no rows but those of the original.
    #[test]
    fn rows_say_why_they_have_no_value_of_ours() {
        let published = crate::published::published("zone-allocation").unwrap();
        let figure = published.figures.iter().find(|figure| figure.id == "moved").unwrap();
        let (_directory, mut folder) = folder_of(&study("zone-allocation", &["sinter"], 1), |_, _| Some(1.0));
        let drawn = |folder: &crate::report::load::Folder| {
            super::drawn(figure, figure.ours.as_ref().unwrap(), &Measured::of(folder).unwrap()).unwrap()
        };
        let html = drawn(&folder);
        assert!(html.contains("Ours: not counted in these runs.") && !html.contains("SinterDB&#39;s policy"), "{html}");
        let axis = "<p class=\"axis-title\">% of the bytes put, logarithmic</p>";
        assert_eq!(html.matches(axis).count(), 1, "{html}");
        let cells = folder.plan.as_ref().unwrap().clone();
        let numbers = cells.runs();
        for (planned, run) in numbers.iter().zip(&mut folder.runs) {
            let zenfs = planned.cell.starts_with("C zenfs, uniform");
            run.record.out_of_room = zenfs;
            run.record.failure = zenfs.then(|| "no space".to_string());
            for phase in &mut run.record.phases {
                phase.zones = (!zenfs).then(crate::result::Zones::default);
            }
        }
        let html = drawn(&folder);
        assert!(html.contains("ZenFS: stopped, no space was left<") && html.contains("SinterDB&#39;s policy<"), "{html}");
        assert!(html.contains(" data-ours>") && !html.contains("not counted"), "{html}");
    }
}
