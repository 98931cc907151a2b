//! Commands that wait to be written: those of the request that runs, and those of the turn.

use crate::number::put_integer;

/// Memory that an empty buffer keeps, bytes.
const KEPT: usize = 1 << 20;

/// Effects of a turn, as commands that repeat them.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// Number of commands that the current request has added, and their bytes.
    commands: usize,
    request: Vec<u8>,
    /// Commands of the turn's earlier requests. The engine has the effects of the first `kept` bytes.
    turn: Vec<u8>,
    kept: usize,
    /// The database that the next command will be about, and the one at the end of the kept bytes; `None`: a `SELECT` has to be written
    /// first.
    selected: Option<usize>,
    kept_selected: Option<usize>,
}

fn put_number(out: &mut Vec<u8>, mark: u8, number: usize) {
    out.push(mark);
    put_integer(out, i64::try_from(number).unwrap_or(i64::MAX));
    out.extend_from_slice(b"\r\n");
}

/// Writes a request, as clients send it.
fn put(out: &mut Vec<u8>, words: &[&[u8]]) {
    put_number(out, b'*', words.len());
    for word in words {
        put_number(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

impl Journal {
    /// Adds a command of the current request.
    pub fn put(&mut self, db: usize, words: &[&[u8]]) {
        if self.selected != Some(db) {
            put(&mut self.request, &[b"SELECT", db.to_string().as_bytes()]);
            self.selected = Some(db);
        }
        put(&mut self.request, words);
        self.commands += 1;
    }

    /// Ends the request: if it has several effects, they are one transaction.
    pub fn end_request(&mut self) {
        let is_transaction = self.commands > 1;
        if is_transaction {
            put(&mut self.turn, &[b"MULTI"]);
        }
        self.turn.append(&mut self.request);
        if is_transaction {
            put(&mut self.turn, &[b"EXEC"]);
        }
        self.request.shrink_to(KEPT);
        self.commands = 0;
    }

    /// Marks all commands added so far as those whose effects the engine has.
    pub fn keep(&mut self) {
        self.kept = self.turn.len();
        self.kept_selected = self.selected;
    }

    /// Drops the commands whose effects the engine has not got.
    pub fn discard(&mut self) {
        self.request.clear();
        self.commands = 0;
        self.turn.truncate(self.kept);
        self.selected = self.kept_selected;
    }

    /// The bytes to be written to the log.
    pub fn bytes(&self) -> &[u8] {
        &self.turn
    }

    /// Empties the journal: all of it was written, or never will be.
    pub fn clear(&mut self) {
        self.turn.clear();
        self.turn.shrink_to(KEPT);
        self.kept = 0;
        self.kept_selected = self.selected;
    }

    /// Frees the memory that is kept for the next requests.
    pub fn give_back(&mut self) {
        self.request.shrink_to_fit();
        self.turn.shrink_to_fit();
    }

    /// Begins a file, in which no database is selected yet.
    pub fn begin_file(&mut self) {
        self.selected = None;
        self.kept_selected = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(journal: &Journal) -> String {
        String::from_utf8_lossy(journal.bytes()).replace("\r\n", "|")
    }

    #[test]
    fn several_effects_of_a_request_are_a_transaction() {
        let mut journal = Journal::default();
        journal.put(2, &[b"SET", b"a", b""]);
        journal.end_request();
        journal.end_request();
        assert_eq!(text(&journal), "*2|$6|SELECT|$1|2|*3|$3|SET|$1|a|$0||");
        journal.clear();
        journal.put(2, &[b"DEL", b"a"]);
        journal.put(0, &[b"DEL", b"b"]);
        journal.end_request();
        assert_eq!(text(&journal), "*1|$5|MULTI|*2|$3|DEL|$1|a|*2|$6|SELECT|$1|0|*2|$3|DEL|$1|b|*1|$4|EXEC|");
    }

    #[test]
    fn what_is_dropped_leaves_no_database_behind() {
        let mut journal = Journal::default();
        journal.put(1, &[b"DEL", b"a"]);
        journal.end_request();
        journal.keep();
        journal.put(2, &[b"DEL", b"b"]);
        journal.end_request();
        journal.put(3, &[b"DEL", b"c"]);
        journal.discard();
        journal.put(1, &[b"DEL", b"d"]);
        journal.end_request();
        assert_eq!(text(&journal), "*2|$6|SELECT|$1|1|*2|$3|DEL|$1|a|*2|$3|DEL|$1|d|");
        journal.clear();
        journal.put(2, &[b"DEL", b"a"]);
        journal.discard();
        journal.put(1, &[b"DEL", b"a"]);
        journal.end_request();
        assert_eq!(text(&journal), "*2|$3|DEL|$1|a|");
        journal.begin_file();
        journal.clear();
        journal.put(1, &[b"DEL", b"a"]);
        journal.end_request();
        assert_eq!(text(&journal), "*2|$6|SELECT|$1|1|*2|$3|DEL|$1|a|");
    }
}
