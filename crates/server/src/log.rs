//! The server's log: a line for each event, `time=.. level=.. event=.. name=value ..`, to standard error or a file.
//!
//! Values that hold blanks, quotes or what is no printable text are quoted with escapes, so that a line is always one event and always
//! splits at its blanks.

use parking_lot::Mutex;
use std::fmt::{Display, Write as _};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// How much an event matters, under Redis's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// For those who look for a mistake.
    Debug,
    /// Each client that comes and goes.
    Verbose,
    /// What an operator wants to know.
    #[default]
    Notice,
    /// What an operator should look at.
    Warning,
}

impl Level {
    const ALL: [(Level, &'static str); 4] =
        [(Level::Debug, "debug"), (Level::Verbose, "verbose"), (Level::Notice, "notice"), (Level::Warning, "warning")];

    /// As the configuration has it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(level, _)| *level == self).map_or("", |(_, name)| name)
    }

    /// Reads what the configuration has.
    pub fn parse(name: &str) -> Option<Level> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(level, _)| *level)
    }
}

/// Where events are written.
type Sink = Box<dyn Write + Send>;

/// Writes events. Clones write to the same place. The default one drops everything.
#[derive(Clone, Default)]
pub struct Log {
    sink: Arc<Mutex<Option<Sink>>>,
    least: Arc<AtomicU8>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log(from {} on)", self.least.load(Ordering::Relaxed))
    }
}

impl Log {
    /// Writes events of this level and above.
    pub fn new(sink: Sink, least: Level) -> Log {
        let log = Log { sink: Arc::new(Mutex::new(Some(sink))), least: Arc::default() };
        log.set_level(least);
        log
    }

    /// Events below this level are dropped from now on.
    pub fn set_level(&self, least: Level) {
        self.least.store(least as u8, Ordering::Relaxed);
    }

    /// Writes an event, if its level is not too low. What cannot be written is lost: there is nobody to tell.
    pub fn event(&self, now: u64, level: Level, event: &str, values: &[(&str, &dyn Display)]) {
        if (level as u8) < self.least.load(Ordering::Relaxed) {
            return;
        }
        if let Some(sink) = self.sink.lock().as_mut() {
            let _ = sink.write_all(line(now, level, event, values).as_bytes()).and_then(|()| sink.flush());
        }
    }
}

fn line(now: u64, level: Level, event: &str, values: &[(&str, &dyn Display)]) -> String {
    let mut line = format!("time={} level={} event={event}", Time(now), level.name());
    for (name, value) in values {
        let value = value.to_string();
        let is_plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'='));
        // Writing to a string cannot fail.
        let _ = if is_plain { write!(line, " {name}={value}") } else { write!(line, " {name}=\"{}\"", value.escape_default()) };
    }
    line.push('\n');
    line
}

/// Unix milliseconds as RFC 3339 has them.
struct Time(u64);

impl Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (days, rest) = (self.0 / 86_400_000, self.0 % 86_400_000);
        // Years are counted from March on, so that a leap day is the last of its year; 146,097 days are 400 years.
        let days = days.saturating_add(719_468);
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, is_next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year = year + era * 400 + is_next;
        let (hour, minute, second, ms) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line() {
        let text = line(1_709_251_199_123, Level::Notice, "started", &[("address", &"127.0.0.1:1"), ("name", &"a \"b\"\n"), ("none", &"")]);
        assert_eq!(
            text,
            "time=2024-02-29T23:59:59.123Z level=notice event=started address=127.0.0.1:1 name=\"a \\\"b\\\"\\n\" none=\"\"\n"
        );
        for (ms, day) in
            [(0, "1970-01-01"), (951_782_400_000, "2000-02-29"), (4_107_542_400_000, "2100-03-01"), (1_798_761_600_000, "2027-01-01")]
        {
            assert_eq!(Time(ms).to_string(), format!("{day}T00:00:00.000Z"));
        }
    }

    #[test]
    fn levels_are_left_out() {
        #[derive(Clone, Default)]
        struct Shared(Arc<Mutex<Vec<u8>>>);
        impl Write for Shared {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let seen = Shared::default();
        let log = Log::new(Box::new(seen.clone()), Level::Notice);
        log.event(0, Level::Verbose, "no", &[]);
        log.event(0, Level::Warning, "yes", &[]);
        log.set_level(Level::Debug);
        log.event(0, Level::Debug, "too", &[]);
        let text = String::from_utf8(seen.0.lock().clone()).unwrap();
        assert_eq!(text.lines().map(|line| line.rsplit('=').next().unwrap()).collect::<Vec<_>>(), ["yes", "too"]);
        Log::default().event(0, Level::Warning, "nowhere", &[]);
        assert_eq!(Level::parse("WARNING"), Some(Level::Warning));
    }
}
