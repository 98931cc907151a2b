//! Limits of clients: bytes of unsent output by class of client, and memory of all buffers together.

use super::Why;
use super::values::bytes;

/// A class of clients, each with limits of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Clients that get replies only.
    Normal,
    /// Replicas. Their limits count bytes of the stream that are not sent yet.
    Replica,
    /// Clients that listen: to channels, or to all commands (`MONITOR`).
    PubSub,
}

/// Names of classes, in order; the last name of a line is the one that `CONFIG GET` shows.
const CLASSES: [(Class, &[&str]); 3] =
    [(Class::Normal, &["normal"]), (Class::Replica, &["replica", "slave"]), (Class::PubSub, &["pubsub"])];

impl Class {
    /// The name that `CONFIG GET` shows.
    pub fn name(self) -> &'static str {
        CLASSES.iter().find(|(class, _)| *class == self).and_then(|(_, names)| names.last()).copied().unwrap_or_default()
    }
}

/// Unsent bytes at which a client is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimit {
    /// A client with more is closed at once; 0: no such limit.
    pub hard: u64,
    /// A client that has had more for longer than `seconds` is closed; 0: no such limit.
    pub soft: u64,
    /// Seconds for which a client may have more than `soft` unsent bytes.
    pub seconds: u64,
}

/// `client-output-buffer-limit`: the limits of the classes, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits([OutputLimit; 3]);

impl Default for OutputLimits {
    fn default() -> Self {
        let limit = |hard, soft, seconds| OutputLimit { hard, soft, seconds };
        OutputLimits([limit(0, 0, 0), limit(256 << 20, 64 << 20, 60), limit(32 << 20, 8 << 20, 60)])
    }
}

impl OutputLimits {
    /// The limits of a class.
    pub fn of(&self, class: Class) -> OutputLimit {
        self.0[class as usize]
    }

    /// Sets the limits of the classes that the value names: `CLASS HARD SOFT SECONDS ..`. Other classes keep theirs.
    ///
    /// # Errors
    /// The value has another form; nothing is set then.
    pub fn set(&mut self, value: &str) -> Result<(), Why> {
        const FORM: &str = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        let words: Vec<&str> = value.split_ascii_whitespace().collect();
        let mut changed = *self;
        for group in words.chunks(4) {
            let [class, hard, soft, seconds] = group else {
                return Err("Wrong number of arguments in buffer limit configuration.".into());
            };
            let named = |(_, names): &(Class, &[&str])| names.iter().any(|name| name.eq_ignore_ascii_case(class));
            let at = CLASSES.iter().position(named).ok_or("Invalid client class specified in buffer limit configuration.")?;
            let (hard, soft) = (bytes(hard).map_err(|_| FORM)?, bytes(soft).map_err(|_| FORM)?);
            let seconds: i32 = seconds.parse().ok().filter(|seconds| *seconds >= 0).ok_or(FORM)?;
            changed.0[at] = OutputLimit { hard, soft, seconds: seconds.unsigned_abs().into() };
        }
        *self = changed;
        Ok(())
    }

    /// The limits as `CONFIG GET` shows them, class by class.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        CLASSES.iter().map(|(class, _)| {
            let OutputLimit { hard, soft, seconds } = self.of(*class);
            format!("{} {hard} {soft} {seconds}", class.name())
        })
    }
}

/// `maxmemory-clients`: the most that all buffers of clients may take together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientsMemory {
    /// Bytes; 0: no limit.
    Bytes(u64),
    /// Percent of `maxmemory`; without `maxmemory` there is no limit.
    Percent(u8),
}

impl ClientsMemory {
    pub(super) fn parse(value: &str) -> Result<ClientsMemory, Why> {
        let Some(percent) = value.strip_suffix('%') else { return bytes(value).map(ClientsMemory::Bytes) };
        let percent: u64 = percent.parse().map_err(|_| "argument must be a memory or percent value")?;
        let percent = u8::try_from(percent).ok().filter(|percent| *percent <= 100);
        Ok(ClientsMemory::Percent(percent.ok_or("percentage argument must be less or equal to 100")?))
    }

    pub(super) fn text(self) -> String {
        match self {
            ClientsMemory::Bytes(bytes) => bytes.to_string(),
            ClientsMemory::Percent(percent) => format!("{percent}%"),
        }
    }

    /// The limit in bytes, given `maxmemory`; `None`: there is none.
    pub fn limit(self, maxmemory: u64) -> Option<u64> {
        let bytes = match self {
            ClientsMemory::Bytes(bytes) => bytes,
            ClientsMemory::Percent(percent) => maxmemory / 100 * u64::from(percent) + maxmemory % 100 * u64::from(percent) / 100,
        };
        (bytes > 0).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_keep_their_limits_until_they_are_named() {
        let mut limits = OutputLimits::default();
        let shown = |limits: &OutputLimits| limits.lines().collect::<Vec<_>>().join(" ");
        assert_eq!(shown(&limits), "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60");
        assert_eq!(limits.set("pubsub 1mb 2k 5 NORMAL 1 2 3"), Ok(()));
        assert_eq!(shown(&limits), "normal 1 2 3 slave 268435456 67108864 60 pubsub 1048576 2000 5");
        for (value, why) in [
            ("pubsub 1mb 2k", "Wrong number of arguments in buffer limit configuration."),
            ("normal 7 7 7 foo 1 2 3", "Invalid client class specified in buffer limit configuration."),
            ("replica 1 2 x", "Error in hard, soft or soft_seconds setting in buffer limit configuration."),
            ("replica -1 2 3", "Error in hard, soft or soft_seconds setting in buffer limit configuration."),
        ] {
            assert_eq!(limits.set(value), Err(why.into()), "{value}");
        }
        assert_eq!(limits.set(""), Ok(()));
        assert_eq!(limits.set("replica 9 8 7"), Ok(()));
        assert_eq!(shown(&limits), "normal 1 2 3 slave 9 8 7 pubsub 1048576 2000 5");
        assert_eq!(limits.of(Class::PubSub), OutputLimit { hard: 1 << 20, soft: 2000, seconds: 5 });
    }

    #[test]
    fn memory_of_clients_is_bytes_or_a_share() {
        let limit = |value, maxmemory| ClientsMemory::parse(value).map(|memory| (memory.text(), memory.limit(maxmemory)));
        assert_eq!(limit("1g", 5), Ok(("1000000000".into(), Some(1_000_000_000))));
        assert_eq!(limit("0", 5), Ok(("0".into(), None)));
        assert_eq!((limit("5%", 0), limit("5%", 250)), (Ok(("5%".into(), None)), Ok(("5%".into(), Some(12)))));
        assert_eq!(limit("100%", u64::MAX), Ok(("100%".into(), Some(u64::MAX))));
        assert_eq!(limit("101%", 1), Err("percentage argument must be less or equal to 100".into()));
        assert!(limit("x%", 1).is_err() && limit("-1%", 1).is_err());
    }
}
