//! Long strings in a client's output, which are read as the client takes them.
//!
//! The output buffer holds the rest of the reply; `LaterStrings` has a reader of each string and its position in the output. A string of
//! any length takes [`STAGE`] bytes of memory; the next ones are read only when the client has taken these.

use super::stream::Stream;
use crate::command::LaterString;
use crate::keyspace;
use std::collections::VecDeque;
use std::io;

/// Bytes that are read at once.
const STAGE: usize = 256 << 10;

/// Why a string was not sent.
#[derive(Debug)]
pub(super) enum Failed {
    /// Writing to the network failed.
    Stream(io::Error),
    /// Reading the string failed.
    Keyspace(keyspace::Error),
}

/// A string that belongs at a position of the output.
#[derive(Debug)]
struct Later {
    place: usize,
    reader: LaterString,
}

/// Strings that are still to be sent, in the order of their positions.
#[derive(Debug, Default)]
pub(super) struct LaterStrings {
    strings: VecDeque<Later>,
    /// Bytes of the first string that were read, and the number of those that are sent.
    stage: Vec<u8>,
    sent: usize,
}

impl LaterStrings {
    /// Adds strings of replies in the output, which ends at `end`.
    pub fn add(&mut self, strings: impl Iterator<Item = (usize, LaterString)>, end: usize) {
        self.strings.extend(strings.filter(|(place, _)| *place < end).map(|(place, reader)| Later { place, reader }));
    }

    /// Whether no string is to be sent.
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }

    /// Memory of the stage.
    pub fn held(&self) -> usize {
        self.stage.capacity()
    }

    /// Position of the first string, if it is before `until`.
    pub fn next_place(&self, until: usize) -> Option<usize> {
        self.strings.front().map(|first| first.place).filter(|place| *place < until)
    }

    /// Drops the strings behind the new end of the output.
    pub fn truncate(&mut self, end: usize) {
        while self.strings.back().is_some_and(|last| last.place >= end) {
            self.strings.pop_back();
        }
    }

    /// Moves all positions after the output has lost so many bytes at its start.
    pub fn shift(&mut self, bytes: usize) {
        self.strings.iter_mut().for_each(|later| later.place -= bytes);
    }

    /// Sends at most `most` bytes of the first string; returns their number.
    pub fn write(&mut self, stream: &mut Stream, most: usize) -> Result<usize, Failed> {
        let Some(first) = self.strings.front_mut() else { return Ok(0) };
        if self.sent == self.stage.len() {
            self.stage.clear();
            self.sent = 0;
            first.reader.read(STAGE, &mut self.stage).map_err(Failed::Keyspace)?;
        }
        let some = &self.stage[self.sent..];
        let bytes = stream.write(&some[..some.len().min(most)]).map_err(Failed::Stream)?;
        self.sent += bytes;
        if self.sent == self.stage.len() && first.reader.left() == 0 {
            self.strings.pop_front();
            (self.stage, self.sent) = (Vec::new(), 0);
        }
        Ok(bytes)
    }
}
