//! A progress line on a terminal, drawn four times a second by a thread that reads the workers' counters; nothing elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use sinter_lab::bench::Progress;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The line, shared by the thread that draws it and the one that prints results.
pub struct Line {
    bar: ProgressBar,
    ended: AtomicBool,
}

impl Line {
    /// A line on stderr, if that is a terminal.
    pub fn new() -> Self {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::no_length() } else { ProgressBar::hidden() };
        Line { bar, ended: AtomicBool::new(false) }
    }

    /// Draws until [`Line::end`]. Returns at once if stderr is no terminal.
    pub fn draw(&self, progress: &Progress) {
        let known = ProgressStyle::with_template("{msg:13} {bar:30} {human_pos}/{human_len} {per_sec} eta {eta}");
        let unknown = ProgressStyle::with_template("{msg:13} {spinner} {human_pos} {per_sec}");
        let (Ok(known), Ok(unknown)) = (known, unknown) else { return };
        let mut shown = "";
        while !self.bar.is_hidden() && !self.ended.load(Ordering::Relaxed) {
            let (name, done, total) = progress.now();
            if name != shown {
                shown = name;
                self.bar.reset();
                self.bar.set_style(if total > 0 { known.clone() } else { unknown.clone() });
                self.bar.set_message(name);
            }
            if total > 0 {
                self.bar.set_length(total);
            }
            self.bar.set_position(done);
            std::thread::park_timeout(Duration::from_millis(250));
        }
        self.bar.finish_and_clear();
    }

    /// Runs `print` while the line is hidden.
    pub fn beside<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    /// Ends the drawing.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}
