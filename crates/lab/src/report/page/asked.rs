//! The questions of a study, as a part of the page.

use crate::report::load::Folder;
use crate::report::text::escape;
use serde_json::Value;

/// The study's own title, or the folder's name.
pub fn title(folder: &Folder) -> String {
    let text = |name: &str| folder.study.as_ref()?.get(name)?.as_str().map(str::to_owned);
    text("title").or_else(|| text("name")).unwrap_or_else(|| folder.name.clone())
}

/// The questions, and the parts that are not run; empty for results without a study.
pub fn asked(folder: &Folder) -> String {
    let Some(study) = &folder.study else { return String::new() };
    let paragraphs = |name: &str| study.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(escape);
    let questions: String = paragraphs("questions").map(|text| format!("<p>{text}</p>\n")).collect();
    questions + &paragraphs("left_out").map(|what| format!("<p><b>Not run here:</b> {what}.</p>\n")).collect::<String>()
}
