//! Work that requests leave for other clients: messages, keys that clients wait for, waits and connections that are ended.

use super::connection::Handled;
use super::{Data, EventLoop};
use crate::command::Reason;

impl EventLoop {
    /// Does all work that requests have left for other clients, and the work that follows from it.
    pub(super) fn serve_others(&mut self, data: &mut Data) {
        loop {
            self.deliver(data);
            self.end_killed(data);
            for (id, reason) in std::mem::take(&mut data.server.unblocked) {
                self.give_up(data, id, reason);
            }
            match data.keyspace.next_ready() {
                Some((db, key)) => self.serve_key(data, db, &key),
                None if data.server.has_orders() => {}
                None => return,
            }
        }
    }

    /// Marks the connections of killed clients as dead: they are closed at the end of the iteration.
    pub(super) fn end_killed(&mut self, data: &mut Data) {
        for id in std::mem::take(&mut data.server.killed) {
            self.touch(id);
            if let Some(connection) = self.connections.get_mut(id) {
                connection.is_dead = true;
            }
        }
    }

    /// Puts messages into the outputs of their receivers.
    pub(super) fn deliver(&mut self, data: &mut Data) {
        if !data.server.hub.has_posts() {
            return;
        }
        let now = data.keyspace.now();
        for post in data.server.hub.take() {
            self.unsettle(post.to);
            if let Some(connection) = self.connections.get_mut(post.to) {
                connection.post(&post, self.cause, data.server, now);
            }
        }
    }

    /// Sends clients that track keys the invalidations that no request has caused, at the end of the event-loop iteration.
    pub(super) fn end_tracked_iteration(&mut self, data: &mut Data) {
        data.server.end_tracked_iteration(data.keyspace);
        // Any of the iteration's writes may be among the changes.
        self.cause = data.keyspace.position();
        self.deliver(data);
    }

    /// Lets the clients that wait for a key try again, the first one first.
    fn serve_key(&mut self, data: &mut Data, db: usize, key: &[u8]) {
        let mut from = 0;
        loop {
            match data.keyspace.next_waiter(db, key, from) {
                Ok(Some((ticket, id))) => {
                    from = ticket + 1;
                    self.resume(data, id, Some(key));
                    self.deliver(data);
                }
                Ok(None) => return,
                Err(_) => return self.drop_turn(data),
            }
        }
    }

    fn resume(&mut self, data: &mut Data, id: u64, key: Option<&[u8]>) {
        self.unsettle(id);
        match self.connections.get_mut(id) {
            Some(connection) if !connection.is_dead => {
                let handled = connection.resume(key, data.keyspace, data.server);
                self.cause = connection.needs;
                if handled == Handled::EngineFailed {
                    self.drop_turn(data);
                }
            }
            _ => {
                data.keyspace.unwait(id);
            }
        }
    }

    fn give_up(&mut self, data: &mut Data, id: u64, reason: Reason) {
        self.unsettle(id);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.give_up(reason, data.keyspace, data.server);
        }
    }

    /// Ends waits whose time is over.
    pub(super) fn end_waits(&mut self, data: &mut Data) {
        while let Some(id) = data.keyspace.next_overdue() {
            self.give_up(data, id, Reason::Timeout);
        }
    }

    /// Lets clients go on that have waited for a sync, if one has ended; replaces their replies by errors if one has failed. The turn has
    /// not begun.
    pub(super) fn end_syncs(&mut self, data: &mut Data) {
        let failure = data.keyspace.take_sync_failure();
        let synced = data.keyspace.synced();
        let (out, back): (Vec<_>, Vec<_>) = std::mem::take(&mut self.missed).into_iter().partition(|(id, _)| self.connections.is_out(*id));
        self.missed = out;
        if failure.is_none() && synced == self.synced && back.is_empty() {
            return;
        }
        self.synced = synced;
        data.keyspace.forget_synced();
        let text = failure.map(|why| format!("MISCONF It is not known what would survive a power cut: {why}"));
        for id in std::mem::take(&mut self.awaiting) {
            if self.connections.is_out(id) {
                // The client whose script runs is told after the script.
                self.missed.push((id, text.clone()));
            } else {
                self.end_sync_of(id, synced, text.as_deref());
            }
        }
        for (id, text) in back {
            self.end_sync_of(id, synced, text.as_deref());
        }
        if text.is_some() {
            // Waiting invalidations are dropped with the replies. The invalidation of all keys does not wait for a commit.
            data.server.invalidate_everything();
            self.cause = 0;
            self.deliver(data);
        }
        for id in data.keyspace.sync_waiters() {
            self.resume(data, id, None);
        }
    }

    /// Lets clients go on that wait for replicas, if one has acknowledged something.
    pub(super) fn end_acknowledged(&mut self, data: &mut Data) {
        if std::mem::take(&mut data.server.replicas.has_news) {
            for id in data.keyspace.sync_waiters() {
                self.resume(data, id, None);
            }
        }
    }

    /// Lets a client's replies leave that have waited for a sync, or replaces them by an error.
    fn end_sync_of(&mut self, id: u64, synced: u64, failure: Option<&str>) {
        self.unsettle(id);
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.release(synced);
        if let Some(text) = failure {
            connection.refuse_awaiting(text.as_bytes());
        }
        connection.is_awaiting = connection.waits_for_sync();
        if connection.is_awaiting {
            self.awaiting.push(id);
        }
    }

    /// Resumes clients whose `MIGRATE` has ended, with or without success. Called before an event-loop iteration begins.
    pub(super) fn end_transfers(&mut self, data: &mut Data) {
        for id in data.server.transfers.take_ended() {
            self.resume(data, id, None);
        }
    }

    /// Checks whether the engine can take more writes. If they would have to wait for a flush, requests that write wait in their clients'
    /// inputs, and the others go on: a wait in the engine would be one for all. While keys are evicted too slowly, requests that may add
    /// data wait.
    pub(super) fn look_for_room(&mut self, data: &mut Data) {
        let is_short = data.keyspace.would_wait();
        self.is_short_of_room = is_short;
        data.server.is_short_of_room = is_short;
        data.server.is_behind_evicting = self.evicting.is_behind;
    }

    /// Lets requests go on that waited for the end of a pause, or for the engine. The primary waits for pauses of clients only. Requests
    /// that wait for evictions are looked at again in each iteration, as others among the postponed ones need not wait for that.
    pub(super) fn end_pause(&mut self, data: &mut Data, now: u64) {
        if self.postponed.is_empty() || self.is_short_of_room {
            return;
        }
        let pause = &data.server.pause;
        let (is_over, primary) = (pause.is_over(now), data.server.upstream.session().filter(|_| !pause.holds_primary(true, now)));
        if !is_over && !primary.and_then(|id| self.connections.get(id)).is_some_and(|connection| connection.is_postponed) {
            return;
        }
        let goes_on = |id: &u64| is_over || Some(*id) == primary;
        let (out, stay): (Vec<u64>, Vec<u64>) = std::mem::take(&mut self.postponed).into_iter().partition(goes_on);
        self.postponed = stay;
        for id in out {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.is_postponed = false;
                self.activate(id);
            }
        }
    }

    /// Closes the clients that hold most memory if all clients together hold too much.
    pub(super) fn shed(&mut self, data: &mut Data) {
        let configuration = &data.server.configuration;
        let Some(most) = configuration.clients_memory.limit(configuration.memory) else { return };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if self.held <= most {
            return;
        }
        let may_go = self.connections.iter().filter(|(_, connection)| !connection.session.stays() && !connection.session.is_replica);
        let mut all: Vec<(usize, u64)> = may_go.map(|(id, connection)| (connection.held, id)).collect();
        all.sort_unstable();
        while let Some((_, id)) = all.pop().filter(|_| self.held > most) {
            data.server.statistics.evicted_clients += 1;
            self.remove(data, id);
        }
    }
}
