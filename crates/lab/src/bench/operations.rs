//! The loops that are measured, one per kind of workload, with the semantics of db_bench 7.8. One key buffer, one output buffer and
//! slices of the value pool are used for all operations of a thread.

use super::config::BenchConfig;
use super::probe::{Probe, Tally};
use super::workloads::Workload;
use crate::target::{Outcome, Scan, Session};
use crate::workload::{KeyCoder, KeyStream, Values};

/// One thread's part of a workload.
pub(super) struct Worker<'a, S: Session> {
    session: S,
    keys: KeyStream,
    values: Values<'a>,
    coder: KeyCoder,
    key: Vec<u8>,
    out: Vec<u8>,
    config: &'a BenchConfig,
    probe: Probe<'a>,
}

impl<'a, S: Session> Worker<'a, S> {
    pub fn new(session: S, keys: KeyStream, values: Values<'a>, coder: KeyCoder, config: &'a BenchConfig, probe: Probe<'a>) -> Self {
        Worker { session, keys, values, coder, key: coder.buffer(), out: Vec::with_capacity(config.value_size), config, probe }
    }

    /// Runs the workload to its end. The tally is valid after a failure too: it counts the operations done before.
    pub fn run(mut self, workload: Workload) -> (Tally, Outcome<()>) {
        self.probe.begin();
        let outcome = match workload {
            Workload::FillSeq | Workload::FillRandom | Workload::FillUniqueRandom | Workload::FillSync | Workload::Overwrite => {
                self.write()
            }
            Workload::DeleteRandom | Workload::DeleteSeq => self.delete(),
            Workload::UpdateRandom => self.update(),
            Workload::ReadSeq => self.walk(true),
            Workload::ReadReverse => self.walk(false),
            Workload::ReadRandom | Workload::ReadMissing | Workload::ReadWhileWriting => self.read(),
            Workload::MultiReadRandom => self.multi_read(),
            Workload::SeekRandom | Workload::SeekRandomWhileWriting => self.seek(),
            Workload::ReadRandomWriteRandom => self.mix(),
            Workload::Compact | Workload::Flush | Workload::WaitForCompaction | Workload::Stats | Workload::LevelStats => Ok(()),
        };
        (self.probe.end(), outcome)
    }

    #[inline]
    fn next_key(&mut self) {
        self.coder.write(self.keys.next_key(), &mut self.key);
    }

    fn write(&mut self) -> Outcome<()> {
        let entry = (self.config.key_size + self.config.value_size) as u64;
        while self.probe.more() {
            let batch = self.probe.batch(self.config.batch_size);
            if !self.probe.pace(batch * entry) {
                break;
            }
            if batch == 1 {
                self.next_key();
                self.session.put(&self.key, self.values.next_value())?;
            } else {
                for _ in 0..batch {
                    self.next_key();
                    self.session.stage_put(&self.key, self.values.next_value());
                }
                self.session.commit()?;
            }
            self.probe.done(batch, batch * entry);
        }
        Ok(())
    }

    fn delete(&mut self) -> Outcome<()> {
        while self.probe.more() {
            let batch = self.probe.batch(self.config.batch_size);
            if batch == 1 {
                self.next_key();
                self.session.delete(&self.key)?;
            } else {
                for _ in 0..batch {
                    self.next_key();
                    self.session.stage_delete(&self.key);
                }
                self.session.commit()?;
            }
            self.probe.done(batch, batch * self.key.len() as u64);
        }
        Ok(())
    }

    /// Reads the next random key. Returns the bytes of key and value; 0 if it does not exist.
    #[inline]
    fn get(&mut self) -> Outcome<u64> {
        self.next_key();
        self.probe.tally.asked += 1;
        if !self.session.get(&self.key, &mut self.out)? {
            return Ok(0);
        }
        self.probe.tally.found += 1;
        Ok((self.key.len() + self.out.len()) as u64)
    }

    #[inline]
    fn put_here(&mut self) -> Outcome<u64> {
        let value = self.values.next_value();
        self.session.put(&self.key, value)?;
        Ok((self.key.len() + value.len()) as u64)
    }

    fn read(&mut self) -> Outcome<()> {
        while self.probe.more() {
            let bytes = self.get()?;
            self.probe.done(1, bytes);
        }
        Ok(())
    }

    fn update(&mut self) -> Outcome<()> {
        let entry = (self.config.key_size + self.config.value_size) as u64;
        while self.probe.more() && self.probe.pace(entry) {
            let bytes = self.get()? + self.put_here()?;
            self.probe.done(1, bytes);
        }
        Ok(())
    }

    /// Mixes reads and writes: in each hundred operations, first `readwritepercent` reads, then writes.
    fn mix(&mut self) -> Outcome<()> {
        let mut turn = 0;
        while self.probe.more() {
            let bytes = if turn < self.config.readwritepercent {
                self.get()?
            } else {
                self.next_key();
                self.put_here()?
            };
            turn = if turn == 99 { 0 } else { turn + 1 };
            self.probe.done(1, bytes);
        }
        Ok(())
    }

    fn multi_read(&mut self) -> Outcome<()> {
        let size = self.config.key_size;
        let mut buffers = self.key.repeat(self.config.batch_size as usize);
        let mut spare: Vec<&[u8]> = Vec::with_capacity(self.config.batch_size as usize);
        while self.probe.more() {
            let batch = self.probe.batch(self.config.batch_size);
            for key in buffers.chunks_exact_mut(size).take(batch as usize) {
                self.coder.write(self.keys.next_key(), key);
            }
            let mut keys = recycle(spare);
            keys.extend(buffers.chunks_exact(size).take(batch as usize));
            let (mut found, mut bytes) = (0, 0);
            self.session.multi_get(&keys, |value| {
                found += 1;
                bytes += (size + value.len()) as u64;
            })?;
            spare = recycle(keys);
            self.probe.tally.found += found;
            self.probe.tally.asked += batch;
            self.probe.done(batch, bytes);
        }
        Ok(())
    }

    fn walk(&mut self, forward: bool) -> Outcome<()> {
        let mut scan = self.session.scan()?;
        if forward {
            scan.seek_first()?
        } else {
            scan.seek_last()?
        }
        while self.probe.more() {
            let Some((key, value)) = scan.entry() else { break };
            let bytes = (key.len() + value.len()) as u64;
            if forward {
                scan.advance()?
            } else {
                scan.retreat()?
            }
            self.probe.done(1, bytes);
        }
        Ok(())
    }

    /// A new iterator per operation, as in db_bench. Found: the key sought is the key reached.
    fn seek(&mut self) -> Outcome<()> {
        while self.probe.more() {
            self.next_key();
            let mut scan = self.session.scan()?;
            scan.seek(&self.key)?;
            self.probe.tally.asked += 1;
            self.probe.tally.found += u64::from(scan.entry().is_some_and(|(key, _)| key == self.key));
            let mut bytes = 0;
            for _ in 0..self.config.seek_nexts {
                let Some((key, value)) = scan.entry() else { break };
                bytes += (key.len() + value.len()) as u64;
                self.out.clear();
                self.out.extend_from_slice(value);
                scan.advance()?;
            }
            drop(scan);
            self.probe.done(1, bytes);
        }
        Ok(())
    }
}

/// Empties a list of borrowed keys and keeps its memory for keys with another lifetime: collecting in place allocates nothing.
fn recycle<'b>(mut keys: Vec<&[u8]>) -> Vec<&'b [u8]> {
    keys.clear();
    keys.into_iter().map(|_| -> &'b [u8] { &[] }).collect()
}
