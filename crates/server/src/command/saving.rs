//! Saving all keys in an RDB file, for backups and other servers. The database is durable without it.

use super::arguments::is;
use super::spec::{ADMIN, FAST, LOADING, NO_MULTI, NOSCRIPT, Run, STALE};
use super::{Command, Configuration, Context, Failure, Group, Outcome, SYNTAX, Stage, before_commit};
use crate::append::{Growth, LogLocation};
use crate::keyspace::Keyspace;
use crate::persist::{Contents, save_file};
use sinter_storage::place::Place;
use sinterdb::WriteOptions;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

const fn saving(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Server, name, arity, run).flags(ADMIN | NOSCRIPT)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    saving("bgrewriteaof", 1, bgrewriteaof).says("Shorten the log in Redis's format, if there is one, while others go on", "O(1)"),
    saving("bgsave", -1, bgsave).says("Save all keys in a file, while others go on", "O(1)"),
    saving("lastsave", 1, lastsave).flags(LOADING | STALE | FAST).says("When all keys were saved last", "O(1)"),
    saving("save", 1, save)
        .flags(ADMIN | NOSCRIPT | NO_MULTI)
        .says("Save all keys in a file, while others wait", "O(n), n being the number of elements of all keys"),
];

const IN_PROGRESS: Failure = Failure::fixed("ERR Background save already in progress");

/// State of saving: `SAVE`, `BGSAVE` and their history.
#[derive(Debug, Default)]
pub struct Saving {
    /// `BGSAVE` was requested in this event-loop iteration; it begins when the iteration's writes are in the engine.
    pub is_wanted: bool,
    /// When the running `BGSAVE` began, unix milliseconds; `None`: none is running.
    pub since: Option<u64>,
    /// When the last successful save ended, unix seconds; 0: none since the start.
    pub last: u64,
    /// Number of changes to keys when the last successful save began.
    changes: u64,
    /// Number of changes to keys when the latest save began.
    pub changes_when_begun: u64,
    /// Successful saves since the start.
    pub count: u64,
    /// Duration of the last `BGSAVE`, seconds.
    pub seconds: Option<u64>,
    /// Why the last `BGSAVE` failed, if it did.
    pub failed: Option<String>,
}

impl Saving {
    /// Notes a successful save.
    fn note(&mut self, now: u64) {
        self.changes = self.changes_when_begun;
        self.last = now / 1000;
        self.count += 1;
    }

    /// Notes the end of a `BGSAVE`.
    pub fn ended(&mut self, result: Result<(), String>, now: u64) {
        self.seconds = self.since.take().map(|since| now.saturating_sub(since) / 1000);
        if result.is_ok() {
            self.note(now);
        }
        self.failed = result.err();
    }
}

impl Configuration {
    /// Directory of files beside the database. With a zoned drive, which has no directory, it is the current directory.
    fn directory_of_files(&self) -> PathBuf {
        match Place::of(Path::new(&self.directory)) {
            Ok(Place::Zoned(_)) => PathBuf::from("."),
            Ok(Place::Directory(_)) | Err(_) => PathBuf::from(&self.directory),
        }
    }

    /// Directory and name of the RDB file.
    pub fn dump_file(&self) -> (PathBuf, String) {
        (self.directory_of_files(), self.dump_name.clone())
    }

    /// File of users; `None`: they are part of the configuration.
    pub(super) fn acl_path(&self) -> Option<PathBuf> {
        (!self.acl_file.is_empty()).then(|| self.directory_of_files().join(&self.acl_file))
    }

    /// Directory and names of the AOF.
    pub fn logs(&self, keyspace: &Keyspace) -> LogLocation {
        let directory = self.directory_of_files().join(&self.append_directory);
        LogLocation { directory, name: self.append_name.clone(), mark: keyspace.data_mark() }
    }

    /// Growth at which the AOF is rewritten automatically.
    pub fn growth(&self) -> Growth {
        Growth { percentage: self.rewrite_percentage, least: self.rewrite_min_size }
    }
}

fn save(context: &mut Context, _: &[&[u8]]) -> Outcome {
    if context.server.saving.since.is_some() || context.server.saving.is_wanted {
        return Err(IN_PROGRESS);
    }
    // Commits the event-loop iteration so far, so that the file has its writes and no later failure can drop them.
    before_commit(context.keyspace, context.server);
    context.keyspace.commit(&WriteOptions::default())?;
    context.server.feed.keep();
    context.server.saving.changes_when_begun = context.keyspace.times_changed();
    context.keyspace.syncer().sync()?;
    let (directory, name) = context.server.configuration.dump_file();
    save_file(&context.keyspace.image(), &directory, &name, Contents::default(), &AtomicBool::new(false))?;
    context.server.saving.note(context.keyspace.now());
    context.reply.ok();
    Ok(())
}

fn bgsave(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    // No other background work could delay it, so `SCHEDULE` begins it at once, too.
    match arguments {
        [_] => {}
        [_, word] if is(word, "schedule") => {}
        _ => return Err(SYNTAX),
    }
    let saving = &mut context.server.saving;
    if saving.since.is_some() || saving.is_wanted {
        return Err(IN_PROGRESS);
    }
    saving.is_wanted = true;
    context.reply.simple(if context.session.is_in_exec { "Background saving scheduled" } else { "Background saving started" });
    Ok(())
}

fn lastsave(context: &mut Context, _: &[&[u8]]) -> Outcome {
    let seconds = last(context);
    context.reply.integer(i64::try_from(seconds).unwrap_or(i64::MAX));
    Ok(())
}

/// Time of the last save, unix seconds; as in Redis, the start counts as a save.
fn last(context: &Context) -> u64 {
    context.server.saving.last.max(context.server.started / 1000)
}

fn bgrewriteaof(context: &mut Context, _: &[&[u8]]) -> Outcome {
    let append = &mut context.server.append;
    if !append.exists() {
        context.reply.simple("Nothing to rewrite: the log is cut as data are flushed");
        return Ok(());
    }
    if !append.rewrite() {
        return Err(Failure::fixed("ERR Background append only file rewriting already in progress"));
    }
    let is_later = context.session.is_in_exec;
    let text = if is_later { "Background append only file rewriting scheduled" } else { "Background append only file rewriting started" };
    context.reply.simple(text);
    Ok(())
}

/// The lines of `INFO` about the AOF.
pub(super) fn append_info(context: &Context, out: &mut String) -> std::fmt::Result {
    let append = &context.server.append;
    let figures = append.figures();
    let now = context.keyspace.now();
    let status = |failure: &Option<String>| if failure.is_none() { "ok" } else { "err" };
    let seconds = |seconds: Option<u64>| seconds.map_or("-1".to_owned(), |seconds| seconds.to_string());
    write!(out, "aof_enabled:{}\r\n", u8::from(append.exists()))?;
    write!(out, "aof_rewrite_in_progress:{}\r\n", u8::from(append.is_rewriting()))?;
    write!(out, "aof_last_rewrite_time_sec:{}\r\n", seconds(figures.seconds))?;
    let current = figures.since.map(|since| now.saturating_sub(since) / 1000);
    write!(out, "aof_current_rewrite_time_sec:{}\r\n", seconds(current))?;
    write!(out, "aof_rewrites:{}\r\n", figures.rewrites)?;
    write!(out, "aof_last_bgrewrite_status:{}\r\n", status(&figures.rewrite_failure))?;
    write!(out, "aof_last_write_status:{}\r\n", status(&figures.failure))?;
    for (name, failure) in [("aof_last_bgrewrite_error", &figures.rewrite_failure), ("aof_last_write_error", &figures.failure)] {
        if let Some(why) = failure {
            write!(out, "{name}:{}\r\n", line(why))?;
        }
    }
    if append.exists() {
        let (size, first) = append.sizes();
        write!(out, "aof_current_size:{size}\r\naof_base_size:{first}\r\naof_pending_rewrite:0\r\naof_buffer_length:0\r\n")?;
        write!(out, "aof_pending_bio_fsync:0\r\naof_delayed_fsync:0\r\n")?;
    }
    Ok(())
}

/// Replaces control characters, so that the text stays on one line.
fn line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The lines of `INFO` about saving.
pub(super) fn info(context: &Context, out: &mut String) -> std::fmt::Result {
    let saving = &context.server.saving;
    let now = context.keyspace.now();
    let seconds = |seconds: Option<u64>| seconds.map_or("-1".to_owned(), |seconds| seconds.to_string());
    let changes = context.keyspace.times_changed().saturating_sub(saving.changes);
    write!(out, "rdb_changes_since_last_save:{changes}\r\n")?;
    // As in Redis, a replica that gets all data counts, too.
    let is_sent = context.server.replicas.iter().any(|(_, replica)| replica.stage == Stage::Loading);
    write!(out, "rdb_bgsave_in_progress:{}\r\n", u8::from(saving.since.is_some() || saving.is_wanted || is_sent))?;
    write!(out, "rdb_last_save_time:{}\r\n", last(context))?;
    write!(out, "rdb_last_bgsave_status:{}\r\n", if saving.failed.is_none() { "ok" } else { "err" })?;
    if let Some(why) = &saving.failed {
        write!(out, "rdb_last_bgsave_error:{}\r\n", line(why))?;
    }
    write!(out, "rdb_last_bgsave_time_sec:{}\r\n", seconds(saving.seconds))?;
    let current = saving.since.map(|since| now.saturating_sub(since) / 1000);
    write!(out, "rdb_current_bgsave_time_sec:{}\r\n", seconds(current))?;
    write!(out, "rdb_saves:{}\r\n", saving.count)
}
