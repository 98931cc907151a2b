//! A progress line on a terminal, drawn once a second; nothing elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// The line, shared by the thread that draws it and the one that prints results.
pub struct Line {
    bar: ProgressBar,
}

impl Line {
    /// A line on stderr, if that is a terminal.
    pub fn new() -> Self {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::no_length() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{msg:13} {bar:30} {human_pos}/{human_len} {per_sec} eta {eta}") {
            bar.set_style(style);
        }
        Line { bar }
    }

    /// Draws the progress of a phase.
    pub fn show(&self, phase: &str, done: u64, total: u64) {
        if self.bar.is_hidden() {
            return;
        }
        if self.bar.message() != phase {
            self.bar.reset();
            self.bar.set_message(phase.to_string());
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Runs `print` while the line is hidden.
    pub fn beside<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    /// Removes the line.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
