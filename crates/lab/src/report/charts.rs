//! Charts. Pictures of servers (`rewrites`, `sizes`) need no script. All others are data for the page's script: traces and a layout each,
//! by the names of plotly.js. Colours are names (`color`) of the page's style: one for each engine, and a series for causes.

mod bars;
mod lines;
mod rewrites;
mod sizes;
mod sweeps;

pub use bars::{bars, causes};
pub use lines::{over_time, percentiles};
pub use rewrites::{rewrites, rewrites_key};
pub use sizes::{Place, sizes};
pub use sweeps::sweeps;

use serde_json::{Number, Value, json};

/// Characters per line of a label, which leaves half of a narrow screen to the chart.
const LABEL_WIDTH: usize = 22;

/// A chart.
pub struct Chart {
    /// Id of the chart's element on the page.
    pub id: String,
    /// Quantity shown, with its unit.
    pub title: String,
    /// Help for reading the chart.
    pub note: String,
    /// Traces: horizontal bars, lines or a heat map.
    pub data: Vec<Value>,
    /// Height and axes.
    pub layout: Value,
}

impl Chart {
    /// JSON of the chart for the page's script.
    pub fn figure(&self) -> Value {
        json!({ "id": self.id, "data": self.data, "layout": self.layout })
    }
}

/// Rounds to four digits: more than a chart can show, and pages stay small. A value that is not a number is a gap.
fn number(x: f64) -> Value {
    let rounded = format!("{x:.3e}").parse::<f64>().unwrap_or(x);
    let whole = rounded.fract() == 0.0 && rounded.abs() < 1e15;
    if whole { json!(rounded as i64) } else { Number::from_f64(rounded).map_or(Value::Null, Value::Number) }
}

fn numbers(values: impl IntoIterator<Item = f64>) -> Value {
    values.into_iter().map(number).collect()
}
