//! Removal of keys that no request asks for: keys whose deadline has passed, and keys beyond `maxdata`.

use super::{Data, EventLoop, ticking};
use crate::command::tell_ended;
use crate::keyspace::{DATABASES, Keyspace, Passed};
use crate::log::Level;

/// Nanoseconds that evictions may take in an iteration, and nanoseconds while the data are larger than after the previous iteration.
const EVICTING_NS: u64 = 1_000_000;
const EVICTING_MOST_NS: u64 = 5_000_000;
/// Part of the limit by which data may grow while they are beyond it. After that, requests that may add data wait until enough keys are
/// evicted.
const GROWTH_PART: u64 = 16;
/// Milliseconds between a failed removal and the next attempt.
const RETRY_MS: u64 = 1000;

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
    /// When evictions failed, unix milliseconds, if they have since they were last tried.
    failed: Option<u64>,
}

/// Whether a removal has failed a short while ago. A clock that goes back ends that.
fn has_failed(failed: Option<u64>, now: u64) -> bool {
    failed.is_some_and(|failed| now.abs_diff(failed) < RETRY_MS)
}

/// Number of all keys.
fn keys(keyspace: &Keyspace) -> u64 {
    (0..DATABASES).map(|db| keyspace.size(db)).sum()
}

impl EventLoop {
    /// Removes keys, and tells clients.
    fn remove_unasked<T>(&mut self, data: &mut Data, remove: impl FnOnce(&mut Keyspace) -> T) -> T {
        if !data.server.is_replica() {
            // The last command may have run during a pause, in which nobody removes ended keys.
            data.keyspace.treat_passed(Passed::Removed);
        }
        let notifies = data.server.configuration.events.is_on();
        if notifies {
            data.keyspace.note_changes(false);
        }
        let removed = remove(&mut *data.keyspace);
        self.cause = data.keyspace.take_needs();
        if notifies {
            tell_ended(data.keyspace, data.server);
        }
        if data.server.tracking.is_on() {
            data.server.invalidate_stale(data.keyspace, None);
        }
        self.deliver(data);
        removed
    }

    /// Removes some keys whose deadline has passed, and returns their number. `None`: it failed, and the iteration is dropped.
    fn expire_some(&mut self, data: &mut Data) -> Option<usize> {
        let remove = if data.server.is_replica() { Keyspace::remove_own_expired } else { Keyspace::remove_expired };
        match self.remove_unasked(data, |keyspace| remove(keyspace, ticking::EXPIRED_AT_ONCE)) {
            Ok(removed) => Some(removed),
            Err(error) => {
                self.ticks.failed = Some(data.keyspace.now());
                data.keyspace.discard();
                self.refuse(data, &error.to_string());
                None
            }
        }
    }

    /// Removes keys whose deadline has passed: with each tick, and sooner while there are more than could be removed. A replica removes
    /// those of its own clients. After an error, the next try is not among requests' writes, so that another error drops no more than its
    /// own.
    pub(super) fn expire(&mut self, data: &mut Data, now: u64) {
        let waits = data.server.keeps_expired || !data.server.pause.is_over(now);
        if !self.ticks.expires(now) || waits || data.keyspace.would_wait() || has_failed(self.ticks.failed, now) {
            return;
        }
        if self.ticks.failed.take().is_some() {
            self.commit(data);
        }
        let begun = data.server.monotonic_ns();
        while self.expire_some(data).is_some_and(|removed| removed >= ticking::EXPIRED_AT_ONCE) {
            if data.server.monotonic_ns().saturating_sub(begun) > ticking::EXPIRING_NS {
                self.ticks.expiry = Some(now + ticking::EXPIRING_PAUSE_MS);
                data.server.statistics.expiry_pauses += 1;
                break;
            }
        }
        data.server.statistics.expiring_ns += data.server.monotonic_ns().saturating_sub(begun);
    }

    /// Evicts keys while the data are beyond `maxdata`, for a limited time in each iteration. An error ends that for [`RETRY_MS`], and
    /// leaves the iteration as it is.
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
        if !is_beyond || has_failed(self.evicting.failed, now) || data.keyspace.would_wait() {
            return;
        }
        self.evicting.failed = None;
        let (begun, mut ns, keys_before) = (data.server.monotonic_ns(), 0, keys(data.keyspace));
        while bytes > limit && data.keyspace.can_evict(policy) {
            if ns > EVICTING_MOST_NS || ns > EVICTING_NS && bytes <= before {
                self.evicting.goes_on = true;
                break;
            }
            let evicted = self.remove_unasked(data, |keyspace| keyspace.evict(policy, samples, limit));
            bytes = data.keyspace.data_bytes().unwrap_or(0);
            ns = data.server.monotonic_ns().saturating_sub(begun);
            if let Err(error) = evicted {
                // Of each key all is removed or nothing, so the iteration's writes are whole.
                data.server.event(Level::Warning, "not_evicted", &[("why", &error)]);
                self.evicting.failed = Some(now);
                break;
            }
        }
        data.server.statistics.evicted += keys_before.saturating_sub(keys(data.keyspace));
        data.server.took("eviction-cycle", now, ns);
        let evicting = &mut self.evicting;
        evicting.before = bytes;
        evicting.least = evicting.least.min(bytes).max(limit);
        evicting.is_behind = evicting.goes_on && bytes > evicting.least.saturating_add(limit / GROWTH_PART);
    }
}
