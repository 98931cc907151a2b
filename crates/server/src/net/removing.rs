//! Removal of keys that no request asks for: keys whose deadline has passed, and keys beyond `maxdata`.

use super::{Data, EventLoop, ticking};
use crate::command::tell_ended;
use crate::keyspace::{self, Keyspace};

/// Nanoseconds of an event-loop iteration for evictions, and nanoseconds while the iteration has added more bytes than were evicted.
const EVICTING_NS: u64 = 1_000_000;
const EVICTING_MOST_NS: u64 = 5_000_000;
/// Part of the limit by which data may grow while they are beyond it. After that, requests that write wait until enough keys are evicted.
const GROWTH_PART: u64 = 16;

/// Progress of evictions.
#[derive(Debug, Default)]
pub(super) struct Evicting {
    /// The limit, bytes.
    limit: u64,
    /// Bytes of the data after the last iteration.
    before: u64,
    /// Fewest bytes since the data went beyond the limit or the limit was changed; at least the limit.
    least: u64,
    /// The next iteration goes on.
    pub goes_on: bool,
    /// Data grow faster than keys are evicted.
    pub is_behind: bool,
}

impl EventLoop {
    /// Removes keys, and tells clients and statistics. `None`: it failed, and the iteration is dropped.
    fn remove_unasked<T>(&mut self, data: &mut Data, remove: impl FnOnce(&mut Keyspace) -> keyspace::Result<T>) -> Option<T> {
        let notifies = data.server.configuration.events.is_on();
        if notifies {
            data.keyspace.note_changes();
        }
        let before = data.keyspace.expired();
        let removed = remove(&mut *data.keyspace);
        self.cause = data.keyspace.take_needs();
        if notifies {
            tell_ended(data.keyspace, data.server);
        }
        if data.server.tracking.is_on() {
            data.server.invalidate_stale(data.keyspace, None);
        }
        self.deliver(data);
        match removed {
            Ok(removed) => {
                let (expired, statistics) = (data.keyspace.expired(), &mut data.server.statistics);
                statistics.expired += expired.keys - before.keys;
                statistics.expired_fields += expired.fields - before.fields;
                Some(removed)
            }
            Err(error) => {
                data.keyspace.discard();
                self.refuse(data, &error.to_string());
                None
            }
        }
    }

    /// Removes keys whose deadline has passed: with each tick, and sooner while there are more than could be removed.
    pub(super) fn expire(&mut self, data: &mut Data, now: u64) {
        let waits = data.server.keeps_expired || data.server.is_replica() || !data.server.pause.is_over(now);
        if !self.ticks.expires(now) || waits || data.keyspace.would_wait() {
            return;
        }
        let begun = data.server.monotonic_ns();
        while let Some(removed) = self.remove_unasked(data, |keyspace| keyspace.remove_expired(ticking::EXPIRED_AT_ONCE)) {
            if removed < ticking::EXPIRED_AT_ONCE {
                return;
            }
            if data.server.monotonic_ns().saturating_sub(begun) > ticking::EXPIRING_NS {
                self.ticks.expiry = Some(now + ticking::EXPIRING_PAUSE_MS);
                return;
            }
        }
    }

    /// Evicts keys while the data are beyond `maxdata`, for a limited time in each iteration.
    pub(super) fn evict(&mut self, data: &mut Data, now: u64) {
        let configuration = &data.server.configuration;
        let (policy, limit, samples) = (configuration.policy, configuration.data_max, configuration.eviction_samples);
        let is_beyond = data.server.has_excess(data.keyspace);
        data.server.note_excess(is_beyond, now);
        let mut bytes = data.keyspace.data_bytes().unwrap_or(0);
        if !is_beyond || limit != self.evicting.limit {
            self.evicting.least = bytes.max(limit);
        }
        let before = std::mem::replace(&mut self.evicting.before, bytes);
        (self.evicting.limit, self.evicting.goes_on, self.evicting.is_behind) = (limit, false, false);
        if !is_beyond || data.keyspace.would_wait() {
            return;
        }
        let (begun, mut ns) = (data.server.monotonic_ns(), 0);
        while bytes > limit && data.keyspace.can_evict(policy) {
            if ns > EVICTING_MOST_NS || ns > EVICTING_NS && bytes <= before {
                self.evicting.goes_on = true;
                break;
            }
            let Some(evicted) = self.remove_unasked(data, |keyspace| keyspace.evict(policy, samples, limit)) else { return };
            data.server.statistics.evicted += evicted;
            bytes = data.keyspace.data_bytes().unwrap_or(0);
            ns = data.server.monotonic_ns().saturating_sub(begun);
        }
        data.server.took("eviction-cycle", now, ns);
        let evicting = &mut self.evicting;
        evicting.before = bytes;
        evicting.least = evicting.least.min(bytes).max(limit);
        evicting.is_behind = evicting.goes_on && bytes > evicting.least.saturating_add(limit / GROWTH_PART);
    }
}
