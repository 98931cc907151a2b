//! The log in Redis's format, turn by turn.

use super::Net;
use crate::append::News;
use crate::command::note_ended;
use crate::log::Level;

impl Net {
    /// The engine has the turn's writes: they go to the log beside, too, if there is one, and the turn's replies are what they will be.
    pub(super) fn write_log(&mut self) {
        if self.server.append.is_on() {
            // What ended by the clock since the last request.
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

    /// Begins and ends what the log beside needs. Nothing of the turn is left to be committed.
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
