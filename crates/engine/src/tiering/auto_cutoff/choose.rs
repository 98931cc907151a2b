//! The rule: up to which age data is kept, and when a choice that stands is given up.
//!
//! 1. The budget says how far it may go: the largest age below which no more bytes lie than are allowed.
//! 2. Touches say how far it needs to go: the smallest age that has all but 1/128 of the touches below the first age. Older data is rarely
//!    touched again, so it may as well lie where it is cheap. A touch is a read of a version or its replacement: a version replaced while
//!    it is kept is never written to the slow tier. Reads and replacements each count if there are enough of them, and the larger age is
//!    taken; without either the budget decides alone.
//! 3. A choice stands until it is clearly wrong and was so several times in a row: over the budget by a twentieth, or short of a hundredth
//!    of the touches, or a third larger than it needs to be. Demoted data is promoted only by a merge, so it must not be demoted by chance.

use super::ages::Ages;

/// Share of touches that may be missed.
const RARE: f64 = 1.0 / 128.0;
/// With fewer touches than this, touches do not count.
pub const LEAST_TOUCHES: f64 = 256.0;
/// A choice that is over the budget by this part is wrong.
const OVER: f64 = 1.05;
/// A choice that misses this part of what the best one has is wrong.
const SHORT: f64 = 0.99;
/// A choice that takes so many times the bytes of the best one is wrong.
const WASTE: f64 = 1.33;
/// Reviews in a row that must find a choice wrong before it is given up.
const PATIENCE: u32 = 3;

/// Reason of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Basis {
    /// Reads by age.
    Reads,
    /// Versions replaced, by age: there are too few reads, or they ask for less.
    Replaced,
    /// Too few of both: the budget alone.
    #[default]
    Budget,
}

/// The best choice by the present counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Verdict {
    /// The age below which data is to be kept, in writes; `u64::MAX`: all of it.
    pub age: u64,
    /// The largest age that the budget allows.
    pub fits: u64,
    /// Reason of `age`.
    pub basis: Basis,
    /// Bytes below `age`, below `fits`, allowed, and in all.
    pub bytes: [f64; 4],
    /// Shares of what is touched below `age` and below `fits`; 0 where nothing is known.
    pub touched: [f64; 2],
}

/// Chooses, from reads and replaced versions by age, the bytes held by age, and how many of these are allowed.
pub fn choose(reads: &Ages, replaced: &Ages, held: &Ages, allowed: f64) -> Verdict {
    let fits = held.reach(allowed);
    let needed = |touches: &Ages| touches.least(touches.younger(fits) * (1.0 - RARE)).min(fits);
    let asked = touches(reads, replaced).map(|(basis, touches)| (needed(touches), basis, Some(touches)));
    let (age, basis, decides) = asked.max_by_key(|(age, ..)| *age).unwrap_or((fits, Basis::Budget, None));
    let share = |age| decides.map_or(0.0, |touches| touches.younger(age) / touches.total());
    let bytes = [held.younger(age), held.younger(fits), allowed, held.total()];
    Verdict { age, fits, basis, bytes, touched: [share(age), share(fits)] }
}

/// The kinds of touches of which there are enough. If both lead to the same age, the later one is the reason.
fn touches<'a>(reads: &'a Ages, replaced: &'a Ages) -> impl Iterator<Item = (Basis, &'a Ages)> {
    [(Basis::Replaced, replaced), (Basis::Reads, reads)].into_iter().filter(|(_, touches)| touches.total() >= LEAST_TOUCHES)
}

/// The choice that stands, and how long another has been asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    chosen: Option<u64>,
    streak: u32,
}

impl Standing {
    /// The age below which data is kept; before the first verdict, all of it.
    pub fn age(&self) -> u64 {
        self.chosen.unwrap_or(u64::MAX)
    }

    /// Something was chosen.
    pub fn is_settled(&self) -> bool {
        self.chosen.is_some()
    }

    /// Takes a verdict into account; true if another age counts from now on. The first verdict counts at once.
    pub fn hear(&mut self, verdict: &Verdict, reads: &Ages, replaced: &Ages, held: &Ages) -> bool {
        let Some(chosen) = self.chosen else {
            self.chosen = Some(verdict.age);
            return true;
        };
        let [best, _, allowed, _] = verdict.bytes;
        let bytes = held.younger(chosen);
        let short = touches(reads, replaced).any(|(_, touches)| touches.younger(chosen) < touches.younger(verdict.age) * SHORT);
        // Without touches the budget itself is what the best choice has.
        let idle = verdict.basis == Basis::Budget && bytes < best / WASTE;
        let wrong = chosen != verdict.age && (bytes > allowed * OVER || bytes > best * WASTE || short || idle);
        self.streak = if wrong { self.streak + 1 } else { 0 };
        if self.streak < PATIENCE {
            return false;
        }
        *self = Standing { chosen: Some(verdict.age), streak: 0 };
        true
    }
}

#[cfg(test)]
mod tests;
