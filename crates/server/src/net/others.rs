//! Work that requests leave for other clients: messages, keys that clients wait for, waits and connections that are ended.

use super::Net;
use super::connection::Handled;
use crate::command::Reason;

impl Net {
    /// Does all work that requests have left for other clients, and the work that follows from it.
    pub(super) fn serve_others(&mut self) {
        loop {
            self.deliver();
            for id in std::mem::take(&mut self.server.killed) {
                self.touch(id);
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.is_dead = true;
                }
            }
            for (id, reason) in std::mem::take(&mut self.server.unblocked) {
                self.give_up(id, reason);
            }
            match self.keyspace.next_ready() {
                Some((db, key)) => self.serve_key(db, &key),
                None if self.server.has_orders() => {}
                None => return,
            }
        }
    }

    /// Puts messages into the outputs of their receivers.
    pub(super) fn deliver(&mut self) {
        if !self.server.hub.has_posts() {
            return;
        }
        let now = self.keyspace.now();
        for post in self.server.hub.take() {
            self.touch(post.to);
            if let Some(connection) = self.connections.get_mut(&post.to) {
                connection.post(&post, self.cause, &mut self.server, now);
            }
        }
    }

    /// Tells clients that track keys of changes that no request has told them of, at the end of the turn.
    pub(super) fn end_tracked_iteration(&mut self) {
        self.server.end_tracked_iteration(&mut self.keyspace);
        // Any of the turn's writes may be among the changes.
        self.cause = self.keyspace.position();
        self.deliver();
    }

    /// Lets the clients that wait for a key try again, the first one first.
    fn serve_key(&mut self, db: usize, key: &[u8]) {
        let mut from = 0;
        loop {
            match self.keyspace.next_waiter(db, key, from) {
                Ok(Some((ticket, id))) => {
                    from = ticket + 1;
                    self.resume(id, Some(key));
                    self.deliver();
                }
                Ok(None) => return,
                Err(_) => return self.drop_turn(),
            }
        }
    }

    fn resume(&mut self, id: u64, key: Option<&[u8]>) {
        self.touch(id);
        match self.connections.get_mut(&id) {
            Some(connection) if !connection.is_dead => {
                let handled = connection.resume(key, &mut self.keyspace, &mut self.server);
                self.cause = connection.needs;
                if handled == Handled::EngineFailed {
                    self.drop_turn();
                }
            }
            _ => {
                self.keyspace.unwait(id);
            }
        }
    }

    fn give_up(&mut self, id: u64, reason: Reason) {
        self.touch(id);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.give_up(reason, &mut self.keyspace, &mut self.server);
        }
    }

    /// Ends waits whose time is over.
    pub(super) fn end_waits(&mut self) {
        while let Some(id) = self.keyspace.next_overdue() {
            self.give_up(id, Reason::Timeout);
        }
    }

    /// Lets clients go on that have waited for a sync, if one has ended; replaces their replies by errors if one has failed. The turn has
    /// not begun.
    pub(super) fn end_syncs(&mut self) {
        let failure = self.keyspace.take_sync_failure();
        let synced = self.keyspace.synced();
        if failure.is_none() && synced == self.synced {
            return;
        }
        self.synced = synced;
        self.keyspace.forget_synced();
        let text = failure.map(|why| format!("MISCONF It is not known what would survive a power cut: {why}"));
        for id in std::mem::take(&mut self.awaiting) {
            self.touch(id);
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.release(synced);
            if let Some(text) = &text {
                connection.refuse_awaiting(text.as_bytes());
            }
            connection.is_awaiting = connection.waits_for_sync();
            if connection.is_awaiting {
                self.awaiting.push(id);
            }
        }
        if text.is_some() {
            // Invalidations that have waited are dropped with the replies. This message tells of no commit.
            self.server.invalidate_everything();
            self.cause = 0;
            self.deliver();
        }
        for id in self.keyspace.sync_waiters() {
            self.resume(id, None);
        }
    }

    /// Lets clients go on whose keys another server has got, or will not get. The turn has not begun.
    pub(super) fn end_transfers(&mut self) {
        for id in self.server.transfers.take_ended() {
            self.resume(id, None);
        }
    }

    /// Checks whether the engine can take more writes. If they would have to wait for a flush, requests that write wait in their clients'
    /// inputs, and the others go on: a wait in the engine would be one for all.
    pub(super) fn look_for_room(&mut self) {
        let is_short = self.keyspace.would_wait();
        self.is_short_of_room = is_short;
        self.server.is_short_of_room = is_short;
    }

    /// Lets requests go on that waited for the end of a pause, or for the engine.
    pub(super) fn end_pause(&mut self, now: u64) {
        if self.postponed.is_empty() || self.is_short_of_room || !self.server.pause.is_over(now) {
            return;
        }
        for id in std::mem::take(&mut self.postponed) {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.is_postponed = false;
                self.activate(id);
            }
        }
    }

    /// Closes the clients that hold most memory if all clients together hold too much.
    pub(super) fn shed(&mut self) {
        let configuration = &self.server.configuration;
        let Some(most) = configuration.clients_memory.limit(configuration.memory) else { return };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if self.held <= most {
            return;
        }
        let may_go = self.connections.iter().filter(|(_, connection)| !connection.session.stays());
        let mut all: Vec<(usize, u64)> = may_go.map(|(id, connection)| (connection.held, *id)).collect();
        all.sort_unstable();
        while let Some((_, id)) = all.pop().filter(|_| self.held > most) {
            self.server.statistics.evicted_clients += 1;
            self.remove(id);
        }
    }
}
