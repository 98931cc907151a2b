//! A log of commands in Redis's format (a multi-part AOF) beside the engine's own, for users whose tools read that format.
//!
//! Reading order: `location` (which files there are), `files` (what threads share), `base` (the thread that shortens the log), this file.
//! The commands come from [`crate::feed`].
//!
//! The log is a *base*, everything as of a moment as an RDB file, and an *increment*, the commands that came since. To shorten it, a
//! snapshot of the engine is taken between two turns, and a new increment begins there. A thread writes the base of that snapshot. Until
//! the manifest lists both, each turn is written to the old increment and to the new one, so the manifest's files are complete at every
//! moment, and only their last one can end in the middle of a command. Nothing is kept in memory for it, and nothing is forked.
//!
//! The engine's log decides. A turn is written here after the engine has it: if the process is killed in between, this log lacks the turn,
//! and after a power cut it may have turns that the engine has lost. So a server that starts does not continue the old log: it begins a new
//! base. The manifest lists the old files until the new base is complete.
//!
//! When a file cannot be written or synced, it is left as it is, and a new base is begun, which takes its place when it is complete. Until
//! then writes are refused, so that the log has all acknowledged writes. Writes are also refused if the first base of a log fails.

mod base;
mod files;
mod location;
#[cfg(test)]
mod tests;

pub use location::LogLocation;

use crate::feed::{Feed, Reader};
use crate::keyspace::{Beside, Keyspace};
use crate::persist::manifest::replace_manifest;
use base::Task;
use files::{Increment, Shared};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// Milliseconds after a failure before the next attempt.
const RETRY_MS: u64 = 30_000;

/// Result of a thread: the size of the base that it has written, or why it has written none.
type Ending = Result<u64, String>;

/// When the log is rewritten without a request for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// The log has grown by so many percent since its last rewrite; 0: never.
    pub percentage: u64,
    /// The log is larger than so many bytes.
    pub least: u64,
}

/// An event that an operator wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A new base of so many bytes was written.
    Rewritten(u64),
    /// A new base could not be written, for this reason.
    NotRewritten(String),
    /// The log could not be written or synced; writes are refused.
    Failed(String),
}

/// Statistics of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppendFigures {
    /// Bases that were written.
    pub rewrites: u64,
    /// Why the last base was not written, if it was not.
    pub rewrite_failure: Option<String>,
    /// Seconds that the last base took.
    pub seconds: Option<u64>,
    /// When the base began that is being written, unix milliseconds.
    pub since: Option<u64>,
    /// Why the log lacks something, if it does.
    pub failure: Option<String>,
}

/// A base that is being written, and the increment that goes with it.
#[derive(Debug)]
struct Rewriting {
    next: Increment,
    thread: JoinHandle<Ending>,
    stops: Arc<AtomicBool>,
}

/// The manifest lists the new base.
struct Listed;

/// The log, or none.
#[derive(Debug, Default)]
pub struct AppendLog {
    /// Location of the log; `None`: it is off.
    place: Option<LogLocation>,
    /// The log is to be on; takes effect at the end of the turn.
    is_wanted: bool,
    /// The log gets effects.
    is_on: bool,
    /// The highest number given to a file.
    number: u64,
    /// The increment that the manifest lists.
    current: Option<Increment>,
    /// Bytes of the base, and of base and increment together when the base was written.
    base: u64,
    size_at_first: u64,
    rewriting: Option<Rewriting>,
    /// A new base is to be begun, whatever the size of the log.
    is_asked: bool,
    /// No base is begun without a request before this time; and the time of the last turn; unix milliseconds.
    not_before: u64,
    now: u64,
    /// Threads whose results nobody needs. No base is begun while there are any: they may be about to change the manifest.
    leaving: Vec<JoinHandle<Ending>>,
    shared: Arc<Shared>,
    figures: AppendFigures,
}

/// Interface for the rest of the server.
impl AppendLog {
    /// Switches the log on from the end of the turn.
    ///
    /// # Errors
    /// The directory has the log of other data, or cannot be used.
    pub fn open(&mut self, place: LogLocation) -> Result<(), String> {
        if self.place.is_none() {
            self.number = self.number.max(place.open()?);
            self.place = Some(place);
            self.is_asked = true;
        }
        self.is_wanted = true;
        Ok(())
    }

    /// Switches the log off from the end of the turn. Its files stay.
    pub fn close(&mut self) {
        self.is_wanted = false;
    }

    /// Asks for a new base; false: one is being written.
    pub fn rewrite(&mut self) -> bool {
        !self.is_rewriting() && !std::mem::replace(&mut self.is_asked, true)
    }

    /// Begins a new base at the end of the turn, because all data were replaced without commands. One that is being written is given up.
    pub fn begin_anew(&mut self) {
        if self.is_wanted {
            // If the manifest lists that one already, it is replaced in its turn.
            let _ = self.abandon("all data were replaced");
            self.is_asked = true;
        }
    }

    /// There is a log, or will be at the end of the turn.
    pub fn exists(&self) -> bool {
        self.is_wanted
    }

    /// Why writes are refused, if they are.
    pub fn refusal(&self) -> Option<&str> {
        self.figures.failure.as_deref()
    }

    /// Statistics of the log.
    pub fn figures(&self) -> &AppendFigures {
        &self.figures
    }

    /// A base is being written, or about to be.
    pub fn is_rewriting(&self) -> bool {
        self.rewriting.is_some() || self.is_asked && self.is_wanted
    }

    /// Bytes of base and increment together: now, and when the base was written.
    pub fn sizes(&self) -> (u64, u64) {
        (self.base + self.current.as_ref().map_or(0, |current| current.bytes), self.size_at_first)
    }

    /// The log's files, to be synced together with the engine.
    pub fn beside(&self) -> Arc<dyn Beside> {
        self.shared.clone()
    }
}

/// Work at the end of a turn.
impl AppendLog {
    /// Writes the commands of the turn, whose effects the engine has up to commit `committed`.
    ///
    /// # Errors
    /// The commands are not in the log: the turn's clients must not be told that all went well.
    pub fn write(&mut self, commands: &[u8], committed: u64) -> Result<(), String> {
        if !self.is_on {
            return Ok(());
        }
        let result = if commands.is_empty() { Ok(()) } else { self.write_all(commands) };
        match &result {
            Ok(()) => self.shared.lock().written = committed,
            Err(why) => self.fail(why.clone()),
        }
        result
    }

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), String> {
        if let Some(why) = &self.shared.lock().next_failure {
            // The file may end in half a command, behind which nothing may be written.
            return Err(why.clone());
        }
        let current = self.current.as_mut().map_or(Ok(()), |current| current.write(bytes));
        if let Some(rewriting) = &mut self.rewriting
            && let Err(error) = rewriting.next.write(bytes)
        {
            let why = error.to_string();
            if self.abandon(&why).is_err() {
                self.shared.lock().next_failure = Some(why.clone());
                return Err(why);
            }
            if self.current.is_none() {
                return Err(why);
            }
        }
        current.map_err(|error| error.to_string())
    }

    /// Switches the log on or off and begins or ends a base, as requested or due. All effects so far are written, and the engine has all
    /// writes.
    pub fn turn(&mut self, keyspace: &mut Keyspace, feed: &mut Feed, growth: &Growth, now: u64) -> Vec<News> {
        let mut news = Vec::new();
        if self.place.is_none() {
            return news;
        }
        self.now = now;
        if let Some(rewriting) = self.rewriting.take_if(|rewriting| rewriting.thread.is_finished()) {
            news.push(self.end_rewriting(rewriting));
        }
        let failure = self.shared.lock().failure.clone();
        if self.figures.failure.is_none()
            && let Some(why) = failure
        {
            self.fail(why.clone());
            news.push(News::Failed(why));
        }
        if !self.is_wanted {
            self.end(keyspace, feed);
            return news;
        }
        if self.is_due(growth, feed)
            && let Err(why) = self.begin_rewriting(keyspace, feed)
        {
            self.put_off(&why);
            news.push(News::NotRewritten(why));
        }
        if self.is_on && self.current.is_none() && self.rewriting.is_none() {
            // There is no file to write to. The next base will have all effects until then.
            self.stop_noting(keyspace, feed);
        }
        if self.current.is_none()
            && self.rewriting.is_none()
            && self.figures.failure.is_none()
            && let Some(why) = self.figures.rewrite_failure.clone()
        {
            self.fail(why.clone());
            news.push(News::Failed(why));
        }
        news
    }

    fn stop_noting(&mut self, keyspace: &mut Keyspace, feed: &mut Feed) {
        self.is_on = false;
        feed.set_log(false, keyspace);
    }

    /// Whether it is time for a new base.
    fn is_due(&mut self, growth: &Growth, feed: &mut Feed) -> bool {
        self.leaving.retain(|thread| !thread.is_finished());
        feed.stop_waiting(Reader::Log);
        if self.rewriting.is_some() || !self.leaving.is_empty() {
            return false;
        }
        let (size, first) = self.sizes();
        let percentage = u128::from(size) * 100 / u128::from(first.max(1));
        let has_grown = growth.percentage > 0 && size > growth.least && percentage >= 100 + u128::from(growth.percentage);
        let is_due = self.is_asked || self.now >= self.not_before && (has_grown || self.current.is_none());
        // A new increment would lack the parts of long strings so far, which would be written once more for each new base.
        is_due && (self.current.is_none() || feed.may_begin(Reader::Log))
    }

    fn begin_rewriting(&mut self, keyspace: &mut Keyspace, feed: &mut Feed) -> Result<(), String> {
        self.is_asked = false;
        let Some(place) = self.place.clone() else { return Ok(()) };
        self.number = self.number.checked_add(1).ok_or("no number is left for another file")?;
        let (number, name) = (self.number, place.increment(self.number));
        let next = Increment::create(&place.path(&name)).map_err(|error| format!("{name}: {error}"))?;
        // From here on everything is in the new increment.
        self.is_on = true;
        feed.set_log(true, keyspace);
        feed.begin_reader();
        let (shared, stops) = (self.shared.clone(), Arc::new(AtomicBool::new(false)));
        {
            let mut files = shared.lock();
            files.written = keyspace.committed();
            (files.counts_next, files.is_swapped, files.is_abandoned, files.next_failure) = (false, false, false, None);
        }
        let image = keyspace.image().with_ended();
        let task = Task { place, number, image, next: next.file.clone(), shared, stops: stops.clone() };
        let thread = Builder::new().name("sinter-base".into()).spawn(move || task.run()).map_err(|error| error.to_string())?;
        // Set once the thread runs, as nothing is written to the increment otherwise. It is empty so far: no sync has missed any of it.
        self.shared.lock().next = Some(next.file.clone());
        self.figures.since = Some(self.now);
        self.rewriting = Some(Rewriting { next, thread, stops });
        Ok(())
    }

    /// Notes why a new base could not be begun, and puts the next attempt off.
    fn put_off(&mut self, why: &str) {
        self.figures.rewrite_failure = Some(why.into());
        self.not_before = self.now + RETRY_MS;
    }

    /// Takes the result of a thread that has ended, or is about to.
    fn end_rewriting(&mut self, Rewriting { next, thread, .. }: Rewriting) -> News {
        let ending = thread.join().unwrap_or_else(|_| Err("the thread that wrote it has panicked".into()));
        let since = self.figures.since.take();
        let mut files = self.shared.lock();
        files.next = None;
        let is_swapped = std::mem::take(&mut files.is_swapped);
        match ending {
            Ok(bytes) => {
                files.current = Some(next.file.clone());
                // The base ends all earlier failures, but not one of its own increment.
                files.failure = files.next_failure.take();
                drop(files);
                self.base = bytes;
                self.size_at_first = bytes + next.bytes;
                let rewrites = self.figures.rewrites + 1;
                let seconds = since.map(|since| self.now.saturating_sub(since) / 1000);
                self.figures = AppendFigures { rewrites, seconds, ..AppendFigures::default() };
                let old = self.current.replace(next);
                self.clean(old);
                News::Rewritten(bytes)
            }
            Err(why) => {
                drop(files);
                // Closing a deleted file frees its blocks, which takes time.
                self.spawn("sinter-clean", move || {
                    drop(next);
                    Ok(0)
                });
                self.put_off(&why);
                if is_swapped {
                    // Nobody knows which manifest a power cut would leave.
                    self.fail(why.clone());
                }
                News::NotRewritten(why)
            }
        }
    }

    /// Removes files that the manifest does not need any more, in a thread: closing a large deleted file takes time, too.
    fn clean(&mut self, old: Option<Increment>) {
        let (Some(place), number) = (self.place.clone(), self.number) else { return };
        self.spawn("sinter-clean", move || {
            drop(old);
            let cleaned = place.remove_before(number);
            let cleaned = cleaned.and_then(|()| replace_manifest(&place.directory, &place.manifest(), &place.text(number)));
            // Files that are left are removed with the next base.
            cleaned.map(|()| 0).map_err(|error| error.to_string())
        });
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() -> Ending + Send + 'static) {
        // Without a thread the files stay for the next one.
        self.leaving.extend(Builder::new().name(name.into()).spawn(work));
    }

    /// Gives up the base that is being written, so that the manifest will not list it.
    ///
    /// # Errors
    /// The manifest lists the base already, and the rewriting goes on.
    fn abandon(&mut self, why: &str) -> Result<(), Listed> {
        let Some(rewriting) = &self.rewriting else { return Ok(()) };
        {
            let mut files = self.shared.lock();
            if files.is_swapped {
                return Err(Listed);
            }
            files.is_abandoned = true;
            files.next = None;
        }
        rewriting.stops.store(true, Ordering::Release);
        self.leaving.extend(self.rewriting.take().map(|rewriting| rewriting.thread));
        self.figures.since = None;
        self.put_off(why);
        Ok(())
    }

    /// Notes that the current file lacks something, or that it is not known what of it is durable.
    fn fail(&mut self, why: String) {
        self.current = None;
        let mut files = self.shared.lock();
        files.current = None;
        files.failure = Some(why.clone());
        self.figures.failure = Some(why);
    }

    /// Switches the log off; a thread syncs the files it leaves.
    fn end(&mut self, keyspace: &mut Keyspace, feed: &mut Feed) {
        let mut last: Vec<Arc<File>> = self.current.take().into_iter().map(|current| current.file).collect();
        if self.abandon("it is not wanted any more").is_err()
            && let Some(Rewriting { next, thread, .. }) = self.rewriting.take()
        {
            last.push(next.file);
            self.leaving.push(thread);
        }
        self.spawn("sinter-clean", move || {
            last.iter().try_for_each(|file| file.sync_data()).map(|()| 0).map_err(|error| error.to_string())
        });
        {
            let mut files = self.shared.lock();
            (files.current, files.next, files.failure) = (None, None, None);
        }
        self.stop_noting(keyspace, feed);
        (self.place, self.base, self.size_at_first, self.is_asked, self.not_before) = (None, 0, 0, false, 0);
        self.figures = AppendFigures { rewrites: self.figures.rewrites, ..AppendFigures::default() };
    }

    /// Gives up an unfinished base, and waits for all threads. Commands are still written to the log.
    pub fn stop(&mut self) {
        if let Some(rewriting) = self.rewriting.take() {
            rewriting.stops.store(true, Ordering::Release);
            // Nobody is left who would ask how it ended.
            let _ = self.end_rewriting(rewriting);
        }
        for thread in self.leaving.drain(..) {
            // Nobody is left who would ask how it ended.
            let _ = thread.join();
        }
    }
}
