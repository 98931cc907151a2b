//! The log in Redis's format, turn by turn.

use super::Net;
use crate::append::News;
use crate::command::note_ended;
use crate::log::Level;

impl Net {
    /// Writes the turn, which the engine has, to the log beside, if there is one; after that the turn's replies do not change any more.
    pub(super) fn write_log(&mut self) {
        if self.server.append.is_on() {
            // Keys whose deadline has passed since the last request.
            note_ended(&mut self.keyspace, &mut self.server);
        }
        match self.server.append.write(self.keyspace.committed()) {
            Ok(()) => self.settle(),
            Err(why) => {
                self.server.event(Level::Warning, "append_only_file_failed", &[("why", &why)]);
                self.answer_all(&format!("MISCONF The write is done, and is not in the AOF file: {why}"));
            }
        }
    }

    /// Switches the log beside on or off, and begins or ends its bases. Nothing of the turn is left to be committed.
    pub(super) fn turn_log(&mut self, now: u64) {
        let growth = self.server.configuration.growth();
        for news in self.server.append.turn(&mut self.keyspace, &growth, now) {
            match news {
                News::Rewritten(bytes) => self.server.event(Level::Notice, "append_only_file_rewritten", &[("base_bytes", &bytes)]),
                News::NotRewritten(why) => self.server.event(Level::Warning, "append_only_file_not_rewritten", &[("why", &why)]),
                News::Failed(why) => self.server.event(Level::Warning, "append_only_file_failed", &[("why", &why)]),
            }
        }
    }
}
