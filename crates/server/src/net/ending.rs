//! The end of the server, which waits for replicas: somebody who lets one of them take over would lose what they have not got.

use super::stopper::EndedBy;
use super::{Data, EventLoop};
use crate::log::Level;
use crate::net::unix_ms;

impl EventLoop {
    /// Whether the server was told to end and waits for nobody: replicas have acknowledged everything, or had their time
    /// (`shutdown-timeout`). Writes wait meanwhile. Nothing of the iteration is left to be committed.
    pub(super) fn ends(&mut self, data: &mut Data) -> bool {
        let server = &mut *data.server;
        if let Some(sender) = self.stopper.take() {
            server.is_ending = true;
            server.ends_now |= match sender {
                EndedBy::Program => false,
                EndedBy::Interrupt => server.configuration.on_interrupt.is_now(),
                EndedBy::Termination => server.configuration.on_termination.is_now(),
            };
        }
        if !server.is_ending {
            return false;
        }
        let (now, timeout) = (unix_ms(), server.configuration.replication.shutdown_seconds.saturating_mul(1000));
        let end = data.keyspace.stream().map_or(0, |position| position.offset);
        let (until, target) = server.ends_at.unwrap_or((now.saturating_add(timeout), end));
        let lacking = server.replicas.that_lack(target);
        if lacking == 0 || server.ends_now || timeout == 0 {
            return true;
        }
        if server.ends_at.is_none() {
            server.ends_at = Some((until, target));
            server.pause.hold_until_end(until);
            server.feed.getack();
            server.event(Level::Notice, "waits_for_replicas", &[("replicas", &lacking)]);
        }
        if now < until {
            return false;
        }
        server.event(Level::Warning, "replicas_lack_writes", &[("replicas", &lacking)]);
        true
    }
}
