//! The figures of a published study, redrawn beside ours on the same axes.

use crate::published::{Figure, Form, Ours, Published, Row};
use crate::report::beside::{Measured, Value};
use crate::report::drawing::{Axis, Group, Mark, bars, lines};
use crate::report::text::{color, engine, escape, short};

/// Colour of values of the original.
const ORIGINAL: &str = "original";
/// Number of panels from which on a figure is as wide as the page.
const WIDE: usize = 3;

/// The section with all figures.
pub fn originals(published: &Published, measured: &Measured<'_>) -> String {
    let key = |class: &str, name: &str| format!("<span><i class=\"{class}\"></i>{}</span>", escape(name));
    let engines = measured.plan.engines.iter().map(|name| key(color(name), engine(name)));
    let drawn: String = published.figures.iter().filter_map(|figure| Some(drawn(figure, figure.ours.as_ref()?, measured))).collect();
    let without = published.figures.iter().filter_map(|figure| Some(without(figure, figure.why.as_ref()?)));
    let without: String = without.collect();
    let without = if without.is_empty() { without } else { format!("<p>Not beside ours:</p>\n<ul>{without}</ul>\n") };
    format!(
        "<section><h2>The original's figures and ours</h2>\n<p>Original: {}. {}</p>\n<p class=\"key\">{}{} Thin lines are 95 % intervals, \
         from three repeats on.</p>\n<div class=\"originals\">\n{drawn}</div>\n{without}</section>\n",
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

fn drawn(figure: &Figure, ours: &Ours, measured: &Measured<'_>) -> String {
    let mut panels: Vec<(&str, Vec<Group>)> = Vec::new();
    for row in &figure.rows {
        let group = group(row, ours, measured);
        match panels.last_mut().filter(|(name, _)| *name == row.panel) {
            Some((_, groups)) => groups.push(group),
            None => panels.push((&row.panel, vec![group])),
        }
    }
    let run = |group: &Group| group.marks.iter().any(|mark| mark.class != ORIGINAL);
    let is_run = panels.iter().flat_map(|(_, groups)| groups).any(run);
    panels.retain(|(_, groups)| groups.iter().any(|group| if is_run { run(group) } else { !group.marks.is_empty() }));
    let axis = Axis::of(panels.iter().flat_map(|(_, groups)| groups), figure.logarithmic);
    let draw = if figure.form == Form::Lines { lines } else { bars };
    let drawn = panels.iter().zip(axis.iter().cycle()).map(|((name, groups), axis)| {
        let label = format!("{} {name}", figure.title);
        format!("<div><h4>{}</h4>{}</div>\n", escape(name), draw(groups, axis, label.trim()))
    });
    let drawn: String = drawn.collect();
    let missing = if is_run { "" } else { " Not run at this scale." };
    let scale = if figure.logarithmic { ", logarithmic" } else { "" };
    let wide = if panels.len() >= WIDE { " wide" } else { "" };
    format!(
        "<figure class=\"beside{wide}\" id=\"{}\"><figcaption><b>{}</b> <span>{}{scale}. Original: {}. {}{missing}</span></figcaption>\n\
         <div class=\"panels\">{drawn}</div></figure>\n",
        escape(&figure.id),
        escape(&figure.title),
        escape(&figure.axis),
        escape(&figure.of),
        escape(&figure.note),
    )
}

fn group(row: &Row, ours: &Ours, measured: &Measured<'_>) -> Group {
    let ours = ours.of(row);
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
    Group { label: row.label.clone(), marks: original.into_iter().chain(measured.plan.engines.iter().filter_map(mark)).collect() }
}
