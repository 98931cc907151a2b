use super::*;
use crate::command::{Server, Session, execute};
use crate::persist::manifest::read_manifest;
use crate::testing::fresh;
use sinterdb::WriteOptions;
use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

const NEVER: Growth = Growth { percentage: 0, least: 0 };

fn place(folder: &Path) -> LogLocation {
    LogLocation { directory: folder.join("logs"), name: "a".into(), mark: "mine".into() }
}

/// The end of a turn.
fn turn(log: &mut AppendLog, keyspace: &mut Keyspace, now: u64) -> Vec<News> {
    log.turn(keyspace, &mut Feed::default(), &NEVER, now)
}

/// Turns until no base is being written, and no file is being removed.
fn settle(log: &mut AppendLog, keyspace: &mut Keyspace, now: u64) -> Vec<News> {
    let mut news = turn(log, keyspace, now);
    while log.is_rewriting() || !log.leaving.iter().all(JoinHandle::is_finished) {
        std::thread::sleep(Duration::from_millis(1));
        news.extend(turn(log, keyspace, now));
    }
    news
}

fn set(log: &mut AppendLog, keyspace: &mut Keyspace, key: &[u8]) -> Result<(), String> {
    keyspace.set_string(0, key, b"v", None).unwrap();
    keyspace.commit(&WriteOptions::default()).unwrap();
    log.write(&[b"*3\r\n$3\r\nSET\r\n$1\r\n", key, b"\r\n$1\r\nv\r\n"].concat(), keyspace.committed())
}

/// A log with its first base.
fn begun(folder: &Path) -> (AppendLog, Keyspace) {
    let (mut log, mut keyspace) = (AppendLog::default(), fresh());
    log.open(place(folder)).unwrap();
    assert!(matches!(settle(&mut log, &mut keyspace, 1000)[..], [News::Rewritten(_)]));
    (log, keyspace)
}

fn manifest(folder: &Path) -> String {
    let place = place(folder);
    String::from_utf8(read_manifest(&place.path(&place.manifest())).unwrap()).unwrap()
}

/// An increment on a full medium.
fn full() -> Increment {
    Increment { file: Arc::new(OpenOptions::new().append(true).open("/dev/full").unwrap()), bytes: 0 }
}

#[test]
fn what_could_not_be_written_is_in_a_new_base() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, mut keyspace) = begun(folder.path());
    set(&mut log, &mut keyspace, b"a").unwrap();
    assert_eq!(log.beside().sync(), Ok(keyspace.committed()));
    log.current = Some(full());
    assert!(set(&mut log, &mut keyspace, b"b").unwrap_err().contains("No space left"));
    assert!(log.refusal().is_some() && log.beside().sync().is_err());
    // The next turn begins the base that heals it; until that is listed, writes are refused.
    turn(&mut log, &mut keyspace, 2000);
    assert!(log.is_rewriting() && log.refusal().is_some());
    assert!(matches!(settle(&mut log, &mut keyspace, 2000)[..], [News::Rewritten(_)]));
    assert_eq!(log.refusal(), None);
    set(&mut log, &mut keyspace, b"c").unwrap();
    assert_eq!(log.beside().sync(), Ok(keyspace.committed()));
    let expected = "# sinterdb mine\nfile a.2.base.rdb seq 2 type b\nfile a.2.incr.aof seq 2 type i\n";
    assert_eq!(manifest(folder.path()), expected);
    assert_eq!(std::fs::read_dir(place(folder.path()).directory).unwrap().count(), 3);
}

#[test]
fn a_sync_that_failed_is_healed_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, mut keyspace) = begun(folder.path());
    log.shared.lock().failure = Some("lost".into());
    let news = settle(&mut log, &mut keyspace, 2000);
    assert!(matches!(&news[..], [News::Failed(why), News::Rewritten(_)] if why == "lost"), "{news:?}");
    assert!(log.refusal().is_none() && log.beside().sync().is_ok());
}

#[test]
fn a_base_is_given_up_if_its_increment_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, mut keyspace) = begun(folder.path());
    let before = manifest(folder.path());
    assert!(log.rewrite() && !log.rewrite());
    turn(&mut log, &mut keyspace, 2000);
    if let Some(rewriting) = &mut log.rewriting {
        rewriting.next = full();
    }
    set(&mut log, &mut keyspace, b"a").unwrap_or_else(|why| assert!(log.shared.lock().is_swapped, "{why}"));
    if log.refusal().is_none() {
        assert!(log.figures().rewrite_failure.is_some() && log.rewriting.is_none());
        settle(&mut log, &mut keyspace, 2000);
        assert_eq!(manifest(folder.path()), before);
        // Nothing is left of it.
        log.stop();
        assert_eq!(std::fs::read_dir(place(folder.path()).directory).unwrap().count(), 3);
    }
}

/// The next base is listed, and no turn has seen that.
fn listed(folder: &Path) -> (AppendLog, Keyspace) {
    let (mut log, mut keyspace) = begun(folder);
    assert!(log.rewrite());
    turn(&mut log, &mut keyspace, 2000);
    while log.rewriting.as_ref().is_some_and(|rewriting| !rewriting.thread.is_finished()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(log.shared.lock().is_swapped);
    (log, keyspace)
}

fn replace_next(log: &mut AppendLog, next: Increment) -> Increment {
    log.shared.lock().next = Some(next.file.clone());
    std::mem::replace(&mut log.rewriting.as_mut().unwrap().next, next)
}

/// Turns until writes are not refused.
fn heal(log: &mut AppendLog, keyspace: &mut Keyspace) {
    for _ in 0..10_000 {
        if log.refusal().is_none() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
        turn(log, keyspace, 2000);
    }
    panic!("no base has healed it: {:?}", log.figures());
}

#[test]
fn a_torn_increment_that_is_listed_is_not_healthy() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, mut keyspace) = listed(folder.path());
    let next = replace_next(&mut log, full());
    assert!(set(&mut log, &mut keyspace, b"a").is_err());
    replace_next(&mut log, next);
    assert!(set(&mut log, &mut keyspace, b"b").is_err());
    assert_eq!(log.rewriting.as_ref().unwrap().next.bytes, 0, "nothing is written behind half a command");
    let news = turn(&mut log, &mut keyspace, 2000);
    assert!(matches!(news[..], [News::Rewritten(_), News::Failed(_)]), "{news:?}");
    assert!(log.refusal().is_some() && log.beside().sync().is_err());
    heal(&mut log, &mut keyspace);
    assert_eq!(log.beside().sync(), Ok(keyspace.committed()));
    set(&mut log, &mut keyspace, b"c").unwrap();
}

#[test]
fn a_listed_increment_that_was_not_synced_is_not_healthy() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, mut keyspace) = listed(folder.path());
    let next = replace_next(&mut log, full());
    assert!(log.beside().sync().is_err());
    replace_next(&mut log, next);
    let news = turn(&mut log, &mut keyspace, 2000);
    assert!(matches!(news[..], [News::Rewritten(_), News::Failed(_)]), "{news:?}");
    assert!(log.refusal().is_some());
    heal(&mut log, &mut keyspace);
    assert_eq!(log.beside().sync(), Ok(keyspace.committed()));
}

#[test]
fn without_a_first_base_writes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, mut keyspace) = (AppendLog::default(), fresh());
    log.open(place(folder.path())).unwrap();
    // A directory in the way of the base.
    let in_the_way = place(folder.path()).path("a.1.base.rdb");
    std::fs::create_dir(&in_the_way).unwrap();
    let news = settle(&mut log, &mut keyspace, 1000);
    assert!(matches!(news[..], [News::NotRewritten(_), News::Failed(_)]), "{news:?}");
    assert!(log.refusal().is_some_and(|why| why.starts_with("a.1.base.rdb: ")) && log.beside().sync().is_err());
    std::fs::remove_dir(&in_the_way).unwrap();
    assert!(matches!(settle(&mut log, &mut keyspace, 1000 + RETRY_MS)[..], [News::Rewritten(_)]));
    assert_eq!(log.refusal(), None);
}

#[test]
fn without_a_number_there_is_no_base() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, mut keyspace) = begun(folder.path());
    log.number = u64::MAX;
    assert!(log.rewrite());
    let news = turn(&mut log, &mut keyspace, 2000);
    assert_eq!(news, [News::NotRewritten("no number is left for another file".into())]);
    set(&mut log, &mut keyspace, b"a").unwrap();
}

#[test]
fn bases_that_were_cut_short_are_removed_before_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, mut keyspace) = (AppendLog::default(), fresh());
    let place = place(folder.path());
    place.open().unwrap();
    for file in ["a.1.base.rdb", "a.1.incr.aof", "a.2.base.rdb"] {
        std::fs::write(place.path(file), "").unwrap();
    }
    std::fs::write(place.path(&place.manifest()), place.text(1)).unwrap();
    log.open(place.clone()).unwrap();
    // The next one fails, too.
    std::fs::create_dir(place.path("a.3.base.rdb")).unwrap();
    assert!(matches!(settle(&mut log, &mut keyspace, 1000)[..], [News::NotRewritten(_), News::Failed(_)]));
    let mut left: Vec<_> = std::fs::read_dir(&place.directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["a.1.base.rdb", "a.1.incr.aof", "a.3.base.rdb", "a.manifest"]);
}

#[test]
fn without_a_directory_it_is_tried_again_later() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, mut keyspace) = (AppendLog::default(), fresh());
    log.open(place(folder.path())).unwrap();
    std::fs::remove_dir(place(folder.path()).directory).unwrap();
    assert!(matches!(turn(&mut log, &mut keyspace, 1000)[..], [News::NotRewritten(_), News::Failed(_)]));
    assert!(!log.is_on && log.refusal().is_some() && log.exists() && log.beside().sync().is_err());
    assert_eq!(turn(&mut log, &mut keyspace, 1000 + RETRY_MS - 1), []);
    std::fs::create_dir(place(folder.path()).directory).unwrap();
    assert!(matches!(settle(&mut log, &mut keyspace, 1000 + RETRY_MS)[..], [News::Rewritten(_)]));
    assert_eq!((&log.figures().rewrite_failure, log.refusal()), (&None, None));
    log.close();
    assert_eq!(turn(&mut log, &mut keyspace, 5000), []);
    assert!(!log.is_on && log.beside().sync() == Ok(u64::MAX));
    log.stop();
}

#[test]
fn scripts_that_may_write_are_refused_while_writes_are() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, mut keyspace) = (AppendLog::default(), fresh());
    log.open(place(folder.path())).unwrap();
    std::fs::remove_dir(place(folder.path()).directory).unwrap();
    turn(&mut log, &mut keyspace, 1000);
    let mut server = Server { append: log, ..Server::default() };
    let mut session = Session::new(1, &server);
    let mut say = |script: &[u8]| {
        let mut out = Vec::new();
        execute(&mut keyspace, &mut server, &mut session, &[b"EVAL", script, b"0"], &mut out);
        String::from_utf8(out).unwrap()
    };
    let why = "-MISCONF Redis is configured to persist data to AOF, but it's currently unable to persist to disk. Writable scripts are \
               blocked. Use 'no-writes' flag for read only scripts. AOF error: ";
    let refused = say(b"#!lua\nreturn 1");
    assert!(refused.starts_with(why), "{refused}");
    assert_eq!(say(b"#!lua flags=no-writes\nreturn 1"), ":1\r\n");
    server.append.stop();
}

#[test]
fn it_grows_by_a_share_of_what_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, mut keyspace) = begun(folder.path());
    let growth = Growth { percentage: 100, least: 100 };
    log.size_at_first = 1000;
    for (base, percentage, expected) in [(1999, 100, false), (2000, 100, true), (2000, 0, false), (2500, 150, true)] {
        log.base = base;
        assert_eq!(log.is_due(&Growth { percentage, ..growth }, &mut Feed::default()), expected, "{base}");
    }
    assert!(!log.is_due(&Growth { percentage: 1, least: 2500 }, &mut Feed::default()));
    log.not_before = u64::MAX;
    assert!(!log.is_due(&growth, &mut Feed::default()));
    assert!(log.rewrite() && log.is_due(&growth, &mut Feed::default()), "whatever the time");
    log.is_asked = false;
    set(&mut log, &mut keyspace, b"a").unwrap();
    log.stop();
}

/// A base waits for strings that are written in parts: a new increment would lack the parts written so far, and the string would be begun
/// anew, without end if it makes the log grow.
#[test]
fn a_base_waits_for_strings_in_parts_and_they_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, mut keyspace) = begun(folder.path());
    let grows = Growth { percentage: 1, least: 0 };
    let mut feed = Feed::default();
    assert!(feed.begin_parts(1) && feed.begin_parts(2));
    set(&mut log, &mut keyspace, b"a").unwrap();
    let epoch = feed.epoch();
    for asks in [false, true] {
        assert!(!asks || log.rewrite());
        assert!(log.turn(&mut keyspace, &mut feed, &grows, 2000).is_empty() && log.rewriting.is_none());
        assert!(feed.begin_parts(1) && !feed.begin_parts(3), "what has not begun comes later");
    }
    feed.end_parts(1);
    assert!(log.turn(&mut keyspace, &mut feed, &grows, 2000).is_empty() && log.rewriting.is_none() && feed.epoch() == epoch);
    feed.end_parts(2);
    log.turn(&mut keyspace, &mut feed, &grows, 2000);
    assert!(log.is_rewriting() && feed.epoch() > epoch && feed.begin_parts(3));
    settle(&mut log, &mut keyspace, 2000);
    // A base that heals a broken log does not wait.
    log.current = Some(full());
    assert!(set(&mut log, &mut keyspace, b"b").is_err());
    turn(&mut log, &mut keyspace, 3000);
    assert!(log.is_rewriting());
    log.stop();
}
