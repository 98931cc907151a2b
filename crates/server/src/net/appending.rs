//! The log in Redis's format and the replication stream, turn by turn.

use super::{Data, EventLoop};
use crate::append::News;
use crate::log::Level;

impl EventLoop {
    /// Gives the turn, which the engine has, to the log beside and to replicas, if there are any; after that the turn's replies do not
    /// change any more.
    pub(super) fn write_log(&mut self, data: &mut Data) {
        let server = &mut *data.server;
        server.feed.keep();
        let written = server.append.write(server.feed.log_bytes(), data.keyspace.committed());
        if let Some(position) = data.keyspace.stream() {
            server.replication.committed(position.offset, server.feed.stream_bytes());
        }
        server.feed.clear();
        match written {
            Ok(()) => self.release_replies(data),
            Err(why) => {
                data.server.event(Level::Warning, "append_only_file_failed", &[("why", &why)]);
                self.answer_all(data, &format!("MISCONF The write is done, and is not in the AOF file: {why}"));
            }
        }
    }

    /// Switches the log beside on or off, and begins or ends its bases. Nothing of the turn is left to be committed.
    pub(super) fn turn_log(&mut self, data: &mut Data, now: u64) {
        let growth = data.server.configuration.growth();
        let server = &mut *data.server;
        for news in server.append.turn(data.keyspace, &mut server.feed, &growth, now) {
            match news {
                News::Rewritten(bytes) => data.server.event(Level::Notice, "append_only_file_rewritten", &[("base_bytes", &bytes)]),
                News::NotRewritten(why) => data.server.event(Level::Warning, "append_only_file_not_rewritten", &[("why", &why)]),
                News::Failed(why) => data.server.event(Level::Warning, "append_only_file_failed", &[("why", &why)]),
            }
        }
    }
}
