//! Commands that wait to be written: those of the request that runs, and those of the turn, for each reader.

use crate::resp::put_request;
use std::ops::Range;

/// Memory that an empty buffer keeps, bytes.
const KEPT: usize = 1 << 20;

/// Bits of the readers, the append log and the replication stream.
pub(super) const LOG: u8 = 1;
pub(super) const STREAM: u8 = 2;
/// Bits of all readers, as in `redis.set_repl`.
pub const ALL: u8 = LOG | STREAM;

/// Bytes of the turn for one reader.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Whether the reader wants the effects of requests.
    pub wants: bool,
    bytes: Vec<u8>,
    /// The engine has the effects of the first `kept` bytes, and the batch of the turn the first `given` ones.
    kept: usize,
    given: usize,
}

impl Turn {
    /// All bytes of the turn.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes that no batch has.
    pub fn fresh(&self) -> &[u8] {
        self.bytes.get(self.given..).unwrap_or_default()
    }

    /// Notes that a batch has all bytes so far.
    pub fn give(&mut self) {
        self.given = self.bytes.len();
    }

    /// Adds bytes as they are.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds a request: a `SELECT` before it, and the parts of it that this reader gets.
    fn end_request<'a>(&mut self, select: &[u8], parts: impl Iterator<Item = &'a [u8]>, is_transaction: bool) {
        if !self.wants {
            return;
        }
        self.bytes.extend_from_slice(select);
        if is_transaction {
            put_request(&mut self.bytes, &[b"MULTI"]);
        }
        parts.for_each(|part| self.bytes.extend_from_slice(part));
        if is_transaction {
            put_request(&mut self.bytes, &[b"EXEC"]);
        }
    }

    /// Says whether the reader wants effects. If not, what it had not got is dropped.
    pub fn want(&mut self, wants: bool) {
        self.wants = wants;
        if !wants {
            self.clear();
        }
    }

    fn keep(&mut self) {
        self.give();
        self.kept = self.given;
    }

    fn discard(&mut self) {
        self.bytes.truncate(self.kept);
        self.given = self.kept;
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        (self.kept, self.given) = (0, 0);
    }
}

/// Effects of a turn, as commands that repeat them.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// Commands of the current request, and the bytes of a `SELECT` before the first of them: as in Redis, it stands before `MULTI`.
    request: Vec<u8>,
    select: usize,
    /// Number of these commands that the append log gets, and that the stream gets.
    commands: [usize; 2],
    /// Commands among them that not all readers get: where they lie, and the bits of the readers.
    limited: Vec<(Range<usize>, u8)>,
    /// The turn's earlier requests for the append log and for the replication stream.
    pub log: Turn,
    pub stream: Turn,
    /// The database that the next command will be about, and the one at the end of the kept bytes; `None`: a `SELECT` has to be written
    /// first.
    selected: Option<usize>,
    kept_selected: Option<usize>,
}

/// The parts of a request, from an offset on, that a reader gets.
fn parts<'a>(request: &'a [u8], mut from: usize, limited: &'a [(Range<usize>, u8)], reader: u8) -> impl Iterator<Item = &'a [u8]> {
    let cuts = limited.iter().filter(move |(_, readers)| readers & reader == 0).map(|(range, _)| (range.start, range.end));
    cuts.chain([(request.len(), request.len())]).map(move |(start, end)| {
        let part = request.get(from..start).unwrap_or_default();
        from = end;
        part
    })
}

impl Journal {
    /// Adds a command of the current request for some readers (bits); with a database, if it depends on one.
    pub fn put(&mut self, db: Option<usize>, words: &[&[u8]], readers: u8) {
        if let Some(number) = db
            && self.selected != db
        {
            put_request(&mut self.request, &["SELECT", &number.to_string()]);
            self.selected = db;
            if self.commands == [0; 2] && self.limited.is_empty() {
                self.select = self.request.len();
            }
        }
        let start = self.request.len();
        put_request(&mut self.request, words);
        if readers != ALL {
            self.limited.push((start..self.request.len(), readers));
        }
        for (number, bit) in self.commands.iter_mut().zip([LOG, STREAM]) {
            *number += usize::from(readers & bit != 0);
        }
    }

    /// Ends the request: if it has several effects, they are one transaction.
    pub fn end_request(&mut self) {
        let [logged, streamed] = self.commands;
        let Journal { request, select, limited, log, stream, .. } = self;
        let before = request.get(..*select).unwrap_or_default();
        log.end_request(before, parts(request, *select, limited, LOG), logged > 1);
        stream.end_request(before, parts(request, *select, limited, STREAM), streamed > 1);
        self.drop_request();
    }

    fn drop_request(&mut self) {
        self.request.clear();
        self.request.shrink_to(KEPT);
        self.select = 0;
        self.limited.clear();
        self.commands = [0; 2];
    }

    /// Marks all commands added so far as those whose effects the engine has.
    pub fn keep(&mut self) {
        self.log.keep();
        self.stream.keep();
        self.kept_selected = self.selected;
    }

    /// Drops the commands whose effects the engine has not got.
    pub fn discard(&mut self) {
        self.drop_request();
        self.log.discard();
        self.stream.discard();
        self.selected = self.kept_selected;
    }

    /// Empties the journal: all of it was written, or never will be.
    pub fn clear(&mut self) {
        self.log.clear();
        self.stream.clear();
        self.kept_selected = self.selected;
    }

    /// Frees the memory that is kept for the next requests.
    pub fn give_back(&mut self) {
        self.request.shrink_to_fit();
        self.limited.shrink_to_fit();
        self.log.bytes.shrink_to_fit();
        self.stream.bytes.shrink_to_fit();
    }

    /// The database that is selected at the end; `None`: a `SELECT` comes next.
    pub fn selected(&self) -> Option<usize> {
        self.selected
    }

    /// A reader begins, for which no database is selected yet.
    pub fn begin_reader(&mut self) {
        self.selected = None;
        self.kept_selected = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let mut journal = Journal::default();
        journal.log.wants = true;
        journal
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).replace("\r\n", "|")
    }

    #[test]
    fn several_effects_of_a_request_are_a_transaction() {
        let mut journal = journal();
        journal.put(Some(2), &[b"SET", b"a", b""], ALL);
        journal.end_request();
        journal.end_request();
        assert_eq!(text(journal.log.bytes()), "*2|$6|SELECT|$1|2|*3|$3|SET|$1|a|$0||");
        journal.clear();
        journal.put(Some(2), &[b"DEL", b"a"], ALL);
        journal.put(Some(0), &[b"DEL", b"b"], ALL);
        journal.end_request();
        assert_eq!(text(journal.log.bytes()), "*1|$5|MULTI|*2|$3|DEL|$1|a|*2|$6|SELECT|$1|0|*2|$3|DEL|$1|b|*1|$4|EXEC|");
        assert_eq!(text(journal.stream.bytes()), "");
    }

    /// As in Redis 7.0.
    #[test]
    fn the_database_is_selected_before_a_transaction() {
        let mut journal = journal();
        journal.put(Some(3), &[b"DEL", b"a"], ALL);
        journal.put(Some(3), &[b"DEL", b"b"], ALL);
        journal.put(Some(1), &[b"DEL", b"c"], ALL);
        journal.end_request();
        journal.put(Some(1), &[b"DEL", b"d"], ALL);
        journal.end_request();
        let expected =
            "*2|$6|SELECT|$1|3|*1|$5|MULTI|*2|$3|DEL|$1|a|*2|$3|DEL|$1|b|*2|$6|SELECT|$1|1|*2|$3|DEL|$1|c|*1|$4|EXEC|*2|$3|DEL|$1|d|";
        assert_eq!(text(journal.log.bytes()), expected);
    }

    #[test]
    fn what_is_dropped_leaves_no_database_behind() {
        let mut journal = journal();
        journal.put(Some(1), &[b"DEL", b"a"], ALL);
        journal.end_request();
        journal.keep();
        journal.put(Some(2), &[b"DEL", b"b"], ALL);
        journal.end_request();
        journal.put(Some(3), &[b"DEL", b"c"], ALL);
        journal.discard();
        journal.put(Some(1), &[b"DEL", b"d"], ALL);
        journal.end_request();
        assert_eq!(text(journal.log.bytes()), "*2|$6|SELECT|$1|1|*2|$3|DEL|$1|a|*2|$3|DEL|$1|d|");
        journal.clear();
        journal.put(Some(2), &[b"DEL", b"a"], ALL);
        journal.discard();
        journal.put(Some(1), &[b"DEL", b"a"], ALL);
        journal.end_request();
        assert_eq!(text(journal.log.bytes()), "*2|$3|DEL|$1|a|");
        journal.begin_reader();
        journal.clear();
        journal.put(Some(1), &[b"DEL", b"a"], ALL);
        journal.end_request();
        assert_eq!(text(journal.log.bytes()), "*2|$6|SELECT|$1|1|*2|$3|DEL|$1|a|");
    }

    #[test]
    fn each_reader_gets_what_it_wants() {
        let mut journal = journal();
        journal.stream.wants = true;
        journal.put(None, &[b"PUBLISH", b"c", b"1"], STREAM);
        journal.put(Some(0), &[b"DEL", b"a"], ALL);
        journal.put(Some(0), &[b"DEL", b"b"], LOG);
        journal.put(Some(0), &[b"DEL", b"c"], 0);
        journal.end_request();
        journal.keep();
        journal.stream.add(b"verbatim");
        assert_eq!(text(journal.log.bytes()), "*1|$5|MULTI|*2|$6|SELECT|$1|0|*2|$3|DEL|$1|a|*2|$3|DEL|$1|b|*1|$4|EXEC|");
        let stream = "*1|$5|MULTI|*3|$7|PUBLISH|$1|c|$1|1|*2|$6|SELECT|$1|0|*2|$3|DEL|$1|a|*1|$4|EXEC|verbatim";
        assert_eq!(text(journal.stream.bytes()), stream);
        assert_eq!((text(journal.stream.fresh()).as_str(), journal.log.fresh().len()), ("verbatim", 0));
        journal.stream.give();
        assert_eq!(journal.stream.fresh(), b"", "no batch gets it twice");
        journal.discard();
        assert_eq!(journal.stream.fresh(), b"");
        journal.clear();
        journal.stream.wants = false;
        journal.put(None, &[b"PUBLISH", b"c", b"1"], STREAM);
        journal.end_request();
        assert_eq!((journal.log.bytes().len(), journal.stream.bytes().len()), (0, 0));
        journal.put(Some(0), &[b"DEL", b"a"], ALL);
        journal.end_request();
        assert_eq!((text(journal.log.bytes()).as_str(), journal.stream.bytes().len()), ("*2|$3|DEL|$1|a|", 0));
    }
}
