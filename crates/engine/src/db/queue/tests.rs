//! Writers that meet in the queue: every batch is committed exactly once with its own result, one leader at a time, and nobody waits for
//! ever. With real threads, and with all threads under a scheduler that tries many orders (it reports a deadlock by itself).

use super::*;
use crate::error::Error;

#[cfg(shuttle)]
use shuttle::{sync::atomic::AtomicBool, thread::spawn};
#[cfg(not(shuttle))]
use std::sync::atomic::AtomicBool;

/// Record of the leaders' commits.
#[derive(Default)]
struct Log {
    leading: AtomicBool,
    committed: Mutex<Vec<Vec<u8>>>,
    alone: Mutex<usize>,
}

/// The operations of the batch that `writer` leaves as its number `n`.
fn batch(writer: usize, n: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(&[writer as u8, n as u8], b"");
    batch
}

/// Commits, and gives back what its writer must be told: every third batch fails, under its own name.
fn commit(log: &Log, batch: &WriteBatch) -> Result<()> {
    let key = batch.operations().next().unwrap().unwrap().key.to_vec();
    log.committed.lock().push(key.clone());
    if key[1] % 3 == 2 { Err(Error::invalid(format!("{key:?}"))) } else { Ok(()) }
}

fn commit_guests(queue: &WriteQueue, log: &Log) {
    let mut guests = Vec::new();
    // Room for two batches.
    queue.take(&mut guests, 2 * batch(0, 0).bytes());
    for guest in guests {
        let result = commit(log, &guest.batch);
        guest.waiter.finish(result);
    }
}

/// Leads as `Inner::lead` does. The flag is down while the lead may pass to another.
fn lead(queue: &WriteQueue, log: &Log, own: Option<&WriteBatch>) -> Result<()> {
    let enter = || assert!(!log.leading.swap(true, Ordering::SeqCst), "two leaders");
    let leave = |round| {
        log.leading.store(false, Ordering::SeqCst);
        queue.leave(round)
    };
    enter();
    let result = match own {
        Some(batch) => {
            let result = commit(log, batch);
            commit_guests(queue, log);
            result
        }
        None => {
            *log.alone.lock() += 1;
            Ok(())
        }
    };
    let mut round = 0;
    while leave(round) {
        enter();
        round += 1;
        commit_guests(queue, log);
    }
    result
}

fn write(queue: &WriteQueue, log: &Log, writer: usize, count: usize) {
    for n in 0..count {
        let own = batch(writer, n);
        let result = if n % 2 == 0 && queue.try_lead() {
            lead(queue, log, Some(&own))
        } else {
            match queue.join(own, WriteOptions::default()) {
                Joined::Leader(own) => lead(queue, log, Some(&own)),
                Joined::Done(result) => result,
            }
        };
        let told = result.err().map(|error| error.to_string());
        let name = format!("invalid: {:?}", [writer as u8, n as u8]);
        assert_eq!(told, (n % 3 == 2).then_some(name), "the result of another");
    }
}

/// Switches of memtables and changes of families want the lead for themselves.
fn lead_alone(queue: &WriteQueue, log: &Log, count: usize) {
    for _ in 0..count {
        queue.lead();
        lead(queue, log, None).unwrap();
    }
}

fn check(log: &Log, writers: usize, count: usize, alone: usize) {
    let committed = log.committed.lock();
    for writer in 0..writers {
        let mine: Vec<usize> = committed.iter().filter(|k| usize::from(k[0]) == writer).map(|k| usize::from(k[1])).collect();
        assert_eq!(mine, (0..count).collect::<Vec<_>>(), "writer {writer}: lost, twice or out of order");
    }
    assert_eq!(*log.alone.lock(), alone);
}

#[cfg(not(shuttle))]
#[test]
fn every_batch_is_committed_once() {
    let (queue, log) = (WriteQueue::default(), Log::default());
    for _ in 0..50 {
        log.committed.lock().clear();
        *log.alone.lock() = 0;
        std::thread::scope(|scope| {
            (0..4).for_each(|writer| {
                drop(scope.spawn({
                    let (queue, log) = (&queue, &log);
                    move || write(queue, log, writer, 100)
                }))
            });
            scope.spawn(|| lead_alone(&queue, &log, 50));
        });
        check(&log, 4, 100, 50);
    }
}

#[cfg(shuttle)]
mod queue_shuttle {
    use super::*;

    fn race(writers: usize, count: usize, alone: usize) -> impl Fn() + Send + Sync + 'static {
        move || {
            let shared = Arc::new((WriteQueue::default(), Log::default()));
            let mut threads: Vec<_> = (0..writers)
                .map(|writer| {
                    let shared = Arc::clone(&shared);
                    spawn(move || write(&shared.0, &shared.1, writer, count))
                })
                .collect();
            let other = Arc::clone(&shared);
            threads.push(spawn(move || lead_alone(&other.0, &other.1, alone)));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            check(&shared.1, writers, count, alone);
        }
    }

    #[test]
    fn random_schedules() {
        shuttle::check_random(race(3, 3, 1), 6000);
        shuttle::check_random(race(4, 2, 2), 4000);
    }

    #[test]
    fn rare_preemptions() {
        shuttle::check_pct(race(3, 3, 1), 6000, 3);
        shuttle::check_pct(race(2, 4, 2), 4000, 5);
    }
}
