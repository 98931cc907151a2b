//! Media that refused a file although they reported enough free bytes, for example because the space is fragmented over zones.

use parking_lot::Mutex;
use sinter_storage::store::Temperature;
use std::collections::BTreeMap;

/// Nanoseconds for which jobs on a medium are limited to half the size of the refused one, unless that many bytes become free.
const HOLDS_NS: u64 = 10_000_000_000;

/// The last refusal of each medium.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<BTreeMap<Temperature, Refusal>>);

#[derive(Debug, Clone, Copy)]
struct Refusal {
    /// Most bytes that a job may ask of the medium.
    most: u64,
    /// Free bytes that the medium reported at the refusal; `None`: not known.
    free: Option<u64>,
    until_ns: u64,
}

impl Refusals {
    /// Notes that a medium that reports `free` bytes had no space for a job of `bytes`.
    pub fn add(&self, place: Temperature, bytes: u64, free: Option<u64>, now_ns: u64) {
        let most = (bytes / 2).min(self.most(place, free, now_ns));
        self.0.lock().insert(place, Refusal { most, free, until_ns: now_ns.saturating_add(HOLDS_NS) });
    }

    /// Most bytes that a job may ask of a medium that reports `free` bytes; `u64::MAX`: the medium has refused nothing lately.
    pub fn most(&self, place: Temperature, free: Option<u64>, now_ns: u64) -> u64 {
        let holds = |refusal: &Refusal| match (refusal.free, free) {
            _ if now_ns >= refusal.until_ns => false,
            (Some(then), Some(now)) => now < then.saturating_add(refusal.most),
            (then, now) => then == now,
        };
        self.0.lock().get(&place).filter(|refusal| holds(refusal)).map_or(u64::MAX, |refusal| refusal.most)
    }
}
