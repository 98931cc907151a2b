//! RocksDB's tickers do not say which level a compaction wrote to; its event log does, when one has finished. The log comes here instead of
//! going to a file.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What the event log has said so far.
#[derive(Debug, Default)]
pub struct Events {
    /// Bytes of tables that finished compactions wrote, by output level.
    compacted: Mutex<BTreeMap<u64, u64>>,
}

impl Events {
    /// One line of the log: a text, or an event as JSON behind a marker (logging/event_logger.h).
    pub fn listen(&self, line: &str) {
        let Some((_, event)) = line.split_once("EVENT_LOG_v1 ") else { return };
        if string(event, "event") != Some("compaction_finished") {
            return;
        }
        if let (Some(level), Some(bytes)) = (number(event, "output_level"), number(event, "total_output_size")) {
            *self.compacted.lock().unwrap_or_else(PoisonError::into_inner).entry(level).or_default() += bytes;
        }
    }

    /// Bytes by level, as counters: `lab.compact.write.bytes.l1` and so on.
    pub fn compacted(&self) -> Vec<(String, u64)> {
        let levels = self.compacted.lock().unwrap_or_else(PoisonError::into_inner);
        levels.iter().map(|(level, bytes)| (format!("lab.compact.write.bytes.l{level}"), *bytes)).collect()
    }
}

/// What stands behind a member's name. Events are flat where these members stand, and no text in them has quotes.
fn member<'a>(event: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = event.split_once(&format!("\"{name}\":"))?;
    Some(rest.trim_start())
}

fn number(event: &str, name: &str) -> Option<u64> {
    member(event, name)?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn string<'a>(event: &'a str, name: &str) -> Option<&'a str> {
    member(event, name)?.strip_prefix('"')?.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_compactions_count_at_their_level() {
        let events = Events::default();
        let finished = |level: u64, bytes: u64| {
            format!(
                "(Original Log Time 2026/01/02-03:04:05.678) EVENT_LOG_v1 {{\"time_micros\": 1, \"job\": 5, \
                 \"event\": \"compaction_finished\", \"compaction_time_micros\": 9, \"output_level\": {level}, \"num_output_files\": 2, \
                 \"total_output_size\": {bytes}, \"lsm_state\": [0, 2, 1]}}"
            )
        };
        events.listen(&finished(1, 1000));
        events.listen(&finished(6, 70));
        events.listen(&finished(1, 5));
        for other in [
            "EVENT_LOG_v1 {\"time_micros\": 1, \"job\": 3, \"event\": \"flush_finished\", \"output_level\": 1, \"total_output_size\": 8}",
            "EVENT_LOG_v1 {\"event\": \"compaction_finished\", \"output_level\": true}",
            "EVENT_LOG_v1 ",
            "[db/version_set.cc:1] a text with \"output_level\": 3",
        ] {
            events.listen(other);
        }
        let expected = [("lab.compact.write.bytes.l1".to_string(), 1005), ("lab.compact.write.bytes.l6".to_string(), 70)];
        assert_eq!(events.compacted(), expected);
    }
}
