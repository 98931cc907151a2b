//! The log in Redis's format, turn by turn.

use super::{Data, EventLoop};
use crate::append::News;
use crate::command::note_ended;
use crate::log::Level;

impl EventLoop {
    /// Writes the turn, which the engine has, to the log beside, if there is one; after that the turn's replies do not change any more.
    pub(super) fn write_log(&mut self, data: &mut Data) {
        if data.server.append.is_on() {
            // Keys whose deadline has passed since the last request.
            note_ended(data.keyspace, data.server);
        }
        match data.server.append.write(data.keyspace.committed()) {
            Ok(()) => self.settle(data),
            Err(why) => {
                data.server.event(Level::Warning, "append_only_file_failed", &[("why", &why)]);
                self.answer_all(data, &format!("MISCONF The write is done, and is not in the AOF file: {why}"));
            }
        }
    }

    /// Switches the log beside on or off, and begins or ends its bases. Nothing of the turn is left to be committed.
    pub(super) fn turn_log(&mut self, data: &mut Data, now: u64) {
        let growth = data.server.configuration.growth();
        for news in data.server.append.turn(data.keyspace, &growth, now) {
            match news {
                News::Rewritten(bytes) => data.server.event(Level::Notice, "append_only_file_rewritten", &[("base_bytes", &bytes)]),
                News::NotRewritten(why) => data.server.event(Level::Warning, "append_only_file_not_rewritten", &[("why", &why)]),
                News::Failed(why) => data.server.event(Level::Warning, "append_only_file_failed", &[("why", &why)]),
            }
        }
    }
}
