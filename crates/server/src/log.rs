//! The server's log: a line for each event, `time=.. level=.. event=.. name=value ..`, to standard error or a file, and to the
//! system's log.
//!
//! Values with blanks, quotes or unprintable bytes are quoted with escapes, so that a line is always one event and always splits at its
//! blanks.

use parking_lot::Mutex;
use std::fmt::{Display, Write as _};
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Importance of an event, under Redis's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Details for finding a mistake.
    Debug,
    /// Each client that connects or disconnects.
    Verbose,
    /// Events that an operator wants to know.
    #[default]
    Notice,
    /// Events that an operator should look at.
    Warning,
}

impl Level {
    const ALL: [(Level, &'static str); 4] =
        [(Level::Debug, "debug"), (Level::Verbose, "verbose"), (Level::Notice, "notice"), (Level::Warning, "warning")];

    /// Name of the level in the configuration.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(level, _)| *level == self).map_or("", |(_, name)| name)
    }

    /// Reads the name of a level from the configuration.
    pub fn parse(name: &str) -> Option<Level> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(level, _)| *level)
    }
}

/// Parts of a system that its log distinguishes, with their numbers (RFC 5424, section 6.2.1).
const FACILITIES: [(&str, u8); 9] = [
    ("user", 1),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

/// Part of the system under which the system's log files the server's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facility(u8);

impl Default for Facility {
    fn default() -> Self {
        Facility(16)
    }
}

impl Facility {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        FACILITIES.iter().find(|(_, number)| *number == self.0).map_or("", |(name, _)| name)
    }

    /// Reads a name of the configuration.
    pub fn parse(name: &str) -> Option<Facility> {
        FACILITIES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, number)| Facility(*number))
    }

    /// All names.
    pub fn names() -> String {
        FACILITIES.map(|(name, _)| name).join(", ")
    }
}

/// The system's log: a socket that takes a datagram for each event. The time is the receiver's.
#[derive(Debug)]
pub struct SystemLog {
    path: PathBuf,
    ident: String,
    facility: Facility,
    /// `None`: the socket could not be reached when it was last tried.
    socket: Option<UnixDatagram>,
}

impl SystemLog {
    /// A log behind a socket, `/dev/log` on most systems. Nobody needs to listen there yet.
    pub fn new(path: PathBuf, ident: String, facility: Facility) -> SystemLog {
        SystemLog { path, ident, facility, socket: None }
    }

    fn send(&mut self, level: Level, line: &str) -> io::Result<()> {
        let severity = match level {
            Level::Debug => 7,
            Level::Verbose => 6,
            Level::Notice => 5,
            Level::Warning => 4,
        };
        let priority = self.facility.0 << 3 | severity;
        let text = format!("<{priority}>{}[{}]: {}", self.ident, std::process::id(), line.trim_end());
        if let Some(socket) = &self.socket
            && socket.send(text.as_bytes()).is_ok()
        {
            return Ok(());
        }
        // The receiver may have been started anew, with another socket at the path.
        self.socket = None;
        let socket = UnixDatagram::unbound()?;
        socket.connect(&self.path)?;
        // A receiver that is held up must not hold the server up.
        socket.set_nonblocking(true)?;
        socket.send(text.as_bytes())?;
        self.socket = Some(socket);
        Ok(())
    }
}

/// Target of events.
type Sink = Box<dyn Write + Send>;

#[derive(Default)]
struct Sinks {
    own: Option<Sink>,
    system: Option<SystemLog>,
}

/// Writes events. Clones write to the same place. The default one drops everything.
#[derive(Clone, Default)]
pub struct Log {
    sinks: Arc<Mutex<Sinks>>,
    least: Arc<AtomicU8>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log(from {} on)", self.least.load(Ordering::Relaxed))
    }
}

impl Log {
    /// Writes events of this level and above.
    pub fn new(sink: Sink, system: Option<SystemLog>, least: Level) -> Log {
        let log = Log { sinks: Arc::new(Mutex::new(Sinks { own: Some(sink), system })), least: Arc::default() };
        log.set_level(least);
        log
    }

    /// Events below this level are dropped from now on.
    pub fn set_level(&self, least: Level) {
        self.least.store(least as u8, Ordering::Relaxed);
    }

    /// Writes an event, if its level is high enough. Failures are ignored: there is nobody to tell.
    pub fn event(&self, now: u64, level: Level, event: &str, values: &[(&str, &dyn Display)]) {
        if (level as u8) < self.least.load(Ordering::Relaxed) {
            return;
        }
        let mut sinks = self.sinks.lock();
        if sinks.own.is_none() && sinks.system.is_none() {
            return;
        }
        let line = line(now, level, event, values);
        if let Some(sink) = &mut sinks.own {
            let _ = sink.write_all(line.as_bytes()).and_then(|()| sink.flush());
        }
        if let Some(system) = &mut sinks.system {
            let _ = system.send(level, &line);
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
        let log = Log::new(Box::new(seen.clone()), None, Level::Notice);
        log.event(0, Level::Verbose, "no", &[]);
        log.event(0, Level::Warning, "yes", &[]);
        log.set_level(Level::Debug);
        log.event(0, Level::Debug, "too", &[]);
        let text = String::from_utf8(seen.0.lock().clone()).unwrap();
        assert_eq!(text.lines().map(|line| line.rsplit('=').next().unwrap()).collect::<Vec<_>>(), ["yes", "too"]);
        Log::default().event(0, Level::Warning, "nowhere", &[]);
        assert_eq!(Level::parse("WARNING"), Some(Level::Warning));
    }

    #[test]
    fn the_systems_log_gets_a_datagram_for_each_event() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let system = SystemLog::new(path.clone(), "ours".into(), Facility::parse("LOCAL3").unwrap());
        let log = Log::new(Box::new(io::sink()), Some(system), Level::Verbose);
        log.event(0, Level::Warning, "nobody_listens", &[]);
        let came = |receiver: &UnixDatagram| {
            let mut text = [0; 200];
            let bytes = receiver.recv(&mut text).unwrap();
            String::from_utf8_lossy(&text[..bytes]).into_owned()
        };
        let process = std::process::id();
        for (level, priority) in [(Level::Warning, 156), (Level::Notice, 157), (Level::Verbose, 158)] {
            // Each receiver makes its socket anew, as after a restart.
            let _ = std::fs::remove_file(&path);
            let receiver = UnixDatagram::bind(&path).unwrap();
            log.event(0, level, "one", &[("a", &1)]);
            log.event(0, Level::Debug, "none", &[]);
            log.event(0, level, "two", &[]);
            let start = format!("<{priority}>ours[{process}]: time=1970-01-01T00:00:00.000Z level={} event=", level.name());
            assert_eq!((came(&receiver), came(&receiver)), (format!("{start}one a=1"), format!("{start}two")));
        }
        assert_eq!((Facility::default().name(), Facility::parse("local8")), ("local0", None));
    }
}
