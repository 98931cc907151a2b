//! Eviction: keys are removed when all data take more bytes than a limit.
//!
//! A *hand* goes around all keys in the order of their hashes, which is as good as random, or around the deadlines, for policies that
//! concern only keys with one. Each time it looks at the next keys, and one in so many of them, the *victims*, may be evicted: those that
//! were idle longest, or used least. So every key is looked at once in a round, and what is evicted comes from the worst part of all keys,
//! as with the pool of candidates of Redis.
//!
//! Uses of keys are known of entries in memory (`hot`). A key whose entry is not there counts as used before all others. Keys that the
//! present turn has written stay, unless the earliest deadline decides: their uses are known only after its commit.

use super::Keyspace;
use super::changes::Change;
use super::due::cut;
use super::entry::Head;
use super::error::Result;
use super::hot::{Counting, Purpose, Use};
use super::layout::{self, Direction, FamilyKind};
use std::ops::ControlFlow;

/// Victims that the hand chooses at once.
const VICTIMS: usize = 16;
/// Bytes of entries that the hand looks at once, at most: entries lie in the engine with their values.
const LOOKED_AT: usize = 256 << 10;
/// Dead entries that the hand passes over at once: with few keys between many of them, the victims would be chosen among too few.
const PATIENCE: usize = 10_000;

/// Order in which keys are evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// The longest idle first.
    Idle,
    /// The least frequently used first.
    Frequency,
    /// In any order.
    Random,
    /// The earliest deadline first.
    Deadline,
}

/// Keys that may be evicted, and their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// No key.
    #[default]
    Never,
    /// All keys.
    All(Rank),
    /// Keys with a deadline.
    Volatile(Rank),
}

impl Policy {
    const ALL: [(Policy, &'static str); 8] = [
        (Policy::Volatile(Rank::Idle), "volatile-lru"),
        (Policy::Volatile(Rank::Frequency), "volatile-lfu"),
        (Policy::Volatile(Rank::Random), "volatile-random"),
        (Policy::Volatile(Rank::Deadline), "volatile-ttl"),
        (Policy::All(Rank::Idle), "allkeys-lru"),
        (Policy::All(Rank::Frequency), "allkeys-lfu"),
        (Policy::All(Rank::Random), "allkeys-random"),
        (Policy::Never, "noeviction"),
    ];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(policy, _)| *policy == self).map_or("", |(_, name)| name)
    }

    /// Reads a name of the configuration.
    pub fn parse(name: &str) -> Option<Policy> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(policy, _)| *policy)
    }

    /// All names.
    pub fn names() -> String {
        Self::ALL.map(|(_, name)| name).join(", ")
    }

    /// Whether the policy goes by uses.
    pub fn is_by_use(self) -> bool {
        matches!(self.rank(), Some(Rank::Idle | Rank::Frequency))
    }

    /// Whether the policy goes by the frequency of uses.
    pub fn is_by_frequency(self) -> bool {
        self.rank() == Some(Rank::Frequency)
    }

    fn rank(self) -> Option<Rank> {
        match self {
            Policy::Never => None,
            Policy::All(rank) | Policy::Volatile(rank) => Some(rank),
        }
    }
}

/// A key that may be evicted.
#[derive(Debug)]
struct Victim {
    /// The larger, the sooner the key is evicted. Under [`Rank::Deadline`], `u64::MAX` minus the deadline.
    weight: u64,
    /// Engine key of its entry.
    place: Vec<u8>,
}

/// Position of the next look at keys, and the keys that were chosen so far.
#[derive(Debug, Default)]
pub(super) struct Hand {
    policy: Policy,
    /// Engine key from which the hand goes on; empty: the first one.
    next: Vec<u8>,
    /// Victims, the one to be evicted first at the end.
    victims: Vec<Victim>,
}

impl Hand {
    /// Notes a deadline that is added at this engine key: a hand that takes the earliest one goes back to it.
    pub fn add_deadline(&mut self, place: &[u8]) {
        if place < self.next.as_slice() && self.policy.rank() == Some(Rank::Deadline) {
            place.clone_into(&mut self.next);
        }
    }
}

impl Keyspace {
    /// Sets how uses of keys are counted.
    pub fn set_counting(&mut self, counting: Counting) {
        self.turn.set_counting(counting);
    }

    /// Whether a policy finds keys that may be evicted.
    pub fn can_evict(&self, policy: Policy) -> bool {
        match policy {
            Policy::Never => false,
            Policy::All(_) => self.counters.keys.iter().any(|count| *count > 0),
            Policy::Volatile(_) => self.counters.deadlines.iter().any(|count| *count > 0),
        }
    }

    /// Evicts some keys, unless all data take no more than `limit` bytes; returns the number of evicted keys. One of so many keys that are
    /// looked at is chosen (`samples`). The work is limited: 0 does not mean that there is no other key.
    ///
    /// # Errors
    /// Errors of the engine. Each key is evicted as a whole or stays, so the turn may go on. A later call passes over a key that cannot be
    /// read.
    pub fn evict(&mut self, policy: Policy, samples: usize, limit: u64) -> Result<u64> {
        let mut evicted = 0;
        self.purpose = Purpose::Removal;
        if self.hand.victims.is_empty() || self.hand.policy != policy {
            self.choose(policy, samples)?;
        }
        while self.data_bytes().is_some_and(|bytes| bytes > limit)
            && let Some(victim) = self.hand.victims.pop()
        {
            evicted += u64::from(self.evict_one(policy, &victim)?);
        }
        Ok(evicted)
    }

    /// Looks at the next keys, and chooses victims among them.
    fn choose(&mut self, policy: Policy, samples: usize) -> Result<()> {
        if self.hand.policy != policy {
            self.hand = Hand { policy, ..Hand::default() };
        }
        let Some(rank) = policy.rank() else { return Ok(()) };
        let is_volatile = matches!(policy, Policy::Volatile(_));
        let generation = self.generation();
        let whole = if is_volatile { generation.deadlines() } else { generation.entries() };
        // Behind the last key comes the first.
        let rest = cut(whole.clone(), &self.hand.next);
        let begin = (whole.0, rest.0.clone());
        // The order of deadlines is the order of the walk.
        let samples = if rank == Rank::Deadline { 1 } else { samples.max(1) };
        let most = VICTIMS.saturating_mul(samples);
        let mut random = self.random();
        let (mut seen, mut bytes, mut looks, mut last, mut walked) = (Vec::new(), 0usize, 0usize, None, Ok(None));
        let fills = self.turn.fill_cache(false);
        let turn = &self.turn;
        for bounds in [rest, begin] {
            walked = turn.walk_some(FamilyKind::Keys, &bounds, Direction::Forward, PATIENCE, &mut |found, value| {
                let (place, deadline) = match layout::split_expiry_key(found).filter(|_| is_volatile) {
                    Some((deadline, place, key)) => (layout::entry_key(self.seed, place, key), deadline),
                    None => (found.to_vec(), 0),
                };
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let weight = match rank {
                    Rank::Idle | Rank::Frequency => self.weight(rank, &place),
                    Rank::Random => random >> 1,
                    Rank::Deadline => u64::MAX - deadline,
                };
                if rank == Rank::Deadline || !turn.is_written(&place) {
                    seen.push(Victim { weight, place });
                }
                looks += 1;
                bytes = bytes.saturating_add(found.len()).saturating_add(value.len());
                if looks < most && bytes < LOOKED_AT {
                    return ControlFlow::Continue(());
                }
                last = Some([found, b"\0"].concat());
                ControlFlow::Break(())
            });
            if last.is_some() || !matches!(walked, Ok(None)) {
                break;
            }
        }
        self.turn.fill_cache(fills);
        // After a failure the hand begins anew, rather than to meet the same place at once.
        let stopped = walked.inspect_err(|_| self.hand.next.clear())?;
        self.hand.next = stopped.or(last).unwrap_or_default();
        seen.sort_by_key(|victim| victim.weight);
        let kept = seen.len().div_ceil(samples);
        seen.drain(..seen.len() - kept);
        self.hand.victims = seen;
        Ok(())
    }

    /// Weight of a key by its uses.
    fn weight(&self, rank: Rank, place: &[u8]) -> u64 {
        let hot = self.turn.hot();
        let used = hot.use_of(place);
        match rank {
            _ if used == Use::NEVER => u64::MAX,
            Rank::Frequency => u64::from(u8::MAX - used.frequency_at(&hot.clock)),
            _ => used.idle_ms(&hot.clock).unwrap_or(u64::MAX),
        }
    }

    /// Evicts a victim, unless it was removed since it was chosen, or used or written, or got another deadline where that decides.
    fn evict_one(&mut self, policy: Policy, victim: &Victim) -> Result<bool> {
        let by_deadline = policy.rank() == Some(Rank::Deadline);
        let by_use = policy.rank().filter(|_| policy.is_by_use());
        let is_used = by_use.is_some_and(|rank| self.weight(rank, &victim.place) < victim.weight);
        if is_used || !by_deadline && self.turn.is_written(&victim.place) {
            return Ok(false);
        }
        let Some((place, key)) = layout::split_place(&victim.place) else { return Ok(false) };
        let db = self.counters.places.database(place);
        self.look_up(db, key)?;
        let is_due = |head: &Head| !by_deadline || head.next_deadline() == Some(u64::MAX - victim.weight);
        let is_free = |head: &Head| matches!(policy, Policy::All(_)) || head.deadline.is_some() && is_due(head);
        let Some(head) = self.known.head.filter(is_free) else { return Ok(false) };
        self.delete_elements(&head);
        self.forget(db, key, &head, Change::Evicted);
        Ok(true)
    }

    /// Use of a key that exists. A key that this turn has written counts as new.
    fn use_of(&self, db: usize, key: &[u8]) -> Use {
        let place = layout::entry_key(self.seed, self.counters.places.of(db), key);
        let used = self.turn.hot().use_of(&place);
        let mut clock = self.turn.hot().clock;
        if used == Use::NEVER && self.turn.is_written(&place) { used.again(&mut clock) } else { used }
    }

    /// Seconds since a key that exists was used; `None`: its last use is not known.
    pub fn idle_seconds(&self, db: usize, key: &[u8]) -> Option<u64> {
        self.use_of(db, key).idle_ms(&self.turn.hot().clock).map(|ms| ms / 1000)
    }

    /// Frequency of the uses of a key that exists, as in Redis from 0 to 255; 0: it is not known.
    pub fn frequency(&self, db: usize, key: &[u8]) -> u8 {
        self.use_of(db, key).frequency_at(&self.turn.hot().clock)
    }
}
