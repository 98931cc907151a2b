//! RocksDB's tickers do not say which level a compaction writes to; its log does, when one begins and when it has finished. The log comes
//! here instead of going to a file.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Compactions that the event log has reported so far.
#[derive(Debug, Default)]
pub struct Events {
    heard: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    /// Bytes of files that finished compactions wrote, by output level.
    finished: BTreeMap<u64, u64>,
    /// Output levels of compactions that have begun, by job.
    running: BTreeMap<u64, u64>,
    /// Finished flushes.
    flushes: u64,
    /// Bytes of compactions by level at the last reading. They only grow.
    told: BTreeMap<Option<u64>, u64>,
}

impl Events {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One line of the log: a text, or an event as JSON behind a marker (logging/event_logger.h).
    pub fn listen(&self, line: &str) {
        if let Some((job, level)) = begun(line) {
            self.heard().running.insert(job, level);
        }
        let Some((_, event)) = line.split_once("EVENT_LOG_v1 ") else { return };
        match string(event, "event") {
            Some("flush_finished") => self.heard().flushes += 1,
            Some("compaction_finished") => self.hear_compaction(event),
            _ => {}
        }
    }

    fn hear_compaction(&self, event: &str) {
        if let (Some(job), Some(level), Some(tables)) =
            (number(event, "job"), number(event, "output_level"), number(event, "total_output_size"))
        {
            let mut heard = self.heard();
            heard.running.remove(&job);
            *heard.finished.entry(level).or_default() += tables + number(event, "total_blob_output_size").unwrap_or(0);
        }
    }

    /// Number of finished flushes.
    pub fn flushes(&self) -> u64 {
        self.heard().flushes
    }

    /// Bytes by level, as counters: `lab.compact.write.bytes.l1` and so on.
    pub fn compacted(&self) -> Vec<(String, u64)> {
        self.heard().finished.iter().map(|(level, bytes)| (format!("lab.compact.write.bytes.l{level}"), *bytes)).collect()
    }

    /// The bytes of all compactions, which `total` reads, as causes: `compaction to L1` and so on by output level, and `compaction` for
    /// what could not be told when it was written. No cause ever shrinks, and their sum is `total`.
    pub fn causes(&self, total: impl FnOnce() -> u64) -> Vec<(String, u64)> {
        let mut heard = self.heard();
        let Heard { finished, running, told, flushes: _ } = &mut *heard;
        let mut new = total().saturating_sub(told.values().sum());
        for (level, bytes) in finished {
            let entry = told.entry(Some(*level)).or_default();
            let missing = bytes.saturating_sub(*entry).min(new);
            *entry += missing;
            new -= missing;
        }
        // The rest is of compactions that go on. Where these have several output levels, it cannot be told yet.
        let mut levels = running.values();
        let level = levels.next().filter(|first| levels.all(|level| level == *first));
        *told.entry(level.copied()).or_default() += new;
        let name = |level: &Option<u64>| level.map_or("compaction".to_string(), |level| format!("compaction to L{level}"));
        told.iter().map(|(level, bytes)| (name(level), *bytes)).collect()
    }
}

/// Job and output level of a compaction that begins: `[default] [JOB 5] Compacting 4@0 + 1@1 files to L1, score 1.00`
/// (db/compaction/compaction_job.cc, `LogCompaction`).
fn begun(line: &str) -> Option<(u64, u64)> {
    let (_, rest) = line.split_once("[JOB ")?;
    let (job, rest) = rest.split_once("] Compacting ")?;
    let (_, level) = rest.split_once(" files to L")?;
    Some((job.parse().ok()?, level.split(',').next()?.parse().ok()?))
}

/// Text behind a member's name. Events are flat where these members stand, and no text in them has quotes.
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

    fn finished(job: u64, level: u64, bytes: u64) -> String {
        format!(
            "(Original Log Time 2026/01/02-03:04:05.678) EVENT_LOG_v1 {{\"time_micros\": 1, \"job\": {job}, \
             \"event\": \"compaction_finished\", \"compaction_time_micros\": 9, \"output_level\": {level}, \"num_output_files\": 2, \
             \"total_output_size\": {bytes}, \"lsm_state\": [0, 2, 1]}}"
        )
    }

    #[test]
    fn finished_compactions_count_at_their_level() {
        let events = Events::default();
        events.listen(&finished(5, 1, 1000));
        events.listen(&finished(6, 6, 70));
        events.listen(&finished(7, 1, 5));
        for other in [
            "EVENT_LOG_v1 {\"time_micros\": 1, \"job\": 3, \"event\": \"flush_finished\", \"output_level\": 1, \"total_output_size\": 8}",
            "EVENT_LOG_v1 {\"event\": \"compaction_finished\", \"output_level\": true}",
            "EVENT_LOG_v1 ",
            "[db/version_set.cc:1] a text with \"output_level\": 3",
        ] {
            events.listen(other);
        }
        let expected = [("lab.compact.write.bytes.l1".to_string(), 1005), ("lab.compact.write.bytes.l6".to_string(), 70)];
        assert_eq!((events.compacted(), events.flushes()), (expected.to_vec(), 1));
    }

    #[test]
    fn bytes_are_told_apart_by_level_and_never_shrink() {
        let events = Events::default();
        let begin =
            |job: u64, level: u64| events.listen(&format!("[hot] [JOB {job}] Compacting 4@0 + 1@{level} files to L{level}, score 1.00"));
        let causes = |total: u64| events.causes(|| total).into_iter().filter(|(_, bytes)| *bytes > 0).collect::<Vec<_>>();
        let told = |name: &str, bytes: u64| (name.to_string(), bytes);
        assert_eq!(causes(0), []);
        begin(1, 1);
        assert_eq!(causes(100), [told("compaction to L1", 100)], "one that goes on");
        events.listen(&finished(1, 1, 150));
        begin(2, 2);
        assert_eq!(causes(170), [told("compaction to L1", 150), told("compaction to L2", 20)], "the rest of one, and the next");
        begin(3, 3);
        let several = [told("compaction", 30), told("compaction to L1", 150), told("compaction to L2", 20)];
        assert_eq!(causes(200), several, "which of two is not known");
        events.listen(&finished(2, 2, 40));
        assert_eq!(causes(200), several, "nor is it told twice");
        events.listen(&finished(3, 3, 60));
        let expected = [told("compaction", 30), told("compaction to L1", 150), told("compaction to L2", 40), told("compaction to L3", 30)];
        assert_eq!(causes(250), expected, "what is written next makes up for it");
    }
}
