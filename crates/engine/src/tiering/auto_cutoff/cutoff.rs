//! One family's automatic choice of the age up to which data stays on the fast tier, and the counts that it follows from. In memory only:
//! the bytes by age come back with the tables when a database is opened, and until something was read or replaced the budget alone decides.

use super::ages::Ages;
use super::choose::{Basis, Standing, Verdict, choose};
use super::heat::Heat;
use super::sample::{Holding, alive};
use crate::key::Seq;
use crate::settings::TierBudget;
use parking_lot::Mutex;
use std::fmt::Write as _;

/// Counts lose half their weight in no fewer writes than this.
const LEAST_HALF_LIFE: u64 = 4096;
/// Counts beyond this are forgotten, so that a long time of reading does not outweigh what comes after it.
const MOST_TOUCHES: f64 = 1_048_576.0;
/// Numbers are kept, not zeroed, up to the age below which so many times the budget lies: a choice can grow into what it can see.
const SEEN: f64 = 2.0;

/// Input of a review.
#[derive(Debug)]
pub struct Observed<'a> {
    /// The newest sequence number in the tables. Entries of memtables are younger and have no bytes yet: counted from their end, an age
    /// would hold less than it will once they are flushed.
    pub now: Seq,
    /// Data that may be kept on the fast tier.
    pub budget: TierBudget,
    /// All tables of the family.
    pub tables: &'a [Holding<'a>],
    /// Seconds since 1970.
    pub unix_seconds: u64,
}

#[derive(Debug, Default)]
struct State {
    reads: Ages,
    replaced: Ages,
    /// Bytes by age that would be left if everything were merged now.
    held: Ages,
    reviewed: Seq,
    reviewed_ns: Option<u64>,
    standing: Standing,
    verdict: Verdict,
    since_unix: u64,
    changes: u64,
}

/// The engine's choice for one family.
#[derive(Debug, Default)]
pub struct Auto {
    heat: Heat,
    state: Mutex<State>,
}

/// Sequence numbers at which compactions separate data by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Borders {
    /// Entries up to this number belong on the last level, newer ones above it; 0: no entry does.
    pub cold: Seq,
    /// Numbers up to this may be zeroed: entries so old cannot be kept by any choice.
    pub zeroed: Seq,
}

impl Auto {
    /// Counts of reads and replaced versions by age.
    pub fn heat(&self) -> &Heat {
        &self.heat
    }

    /// By the monotonic clock, the last review that was asked for was longer ago than `pause` nanoseconds; then this counts as one. Always
    /// true until something was chosen: the first data must not wait.
    pub fn is_due(&self, now_ns: u64, pause: u64) -> bool {
        let mut state = self.state.lock();
        let is_late = state.reviewed_ns.is_none_or(|reviewed| now_ns.saturating_sub(reviewed) >= pause);
        let is_due = is_late || !state.standing.is_settled();
        if is_due {
            state.reviewed_ns = Some(now_ns);
        }
        is_due
    }

    /// Chooses anew from what was counted and what the tables hold.
    pub fn review(&self, seen: &Observed<'_>) {
        let (reads, replaced) = self.heat.take();
        // Before the lock: planners of jobs wait for it, and many tables take their time.
        let held = alive(seen.tables, seen.now);
        let mut state = self.state.lock();
        let state = &mut *state;
        let half_life = state.verdict.fits.min(seen.now).max(LEAST_HALF_LIFE);
        let kept = 0.5f64.powf(seen.now.saturating_sub(state.reviewed) as f64 / half_life as f64);
        state.reviewed = seen.now;
        for (counts, fresh) in [(&mut state.reads, reads), (&mut state.replaced, replaced)] {
            counts.scale(kept);
            counts.add_all(&fresh);
            counts.scale((MOST_TOUCHES / counts.total().max(1.0)).min(1.0));
        }
        state.held = held;
        if state.held.total() < 1.0 {
            // There is nothing to choose. Facts about other data no longer apply.
            state.verdict = Verdict::default();
            return;
        }
        let allowed = seen.budget.of(state.held.total());
        state.verdict = choose(&state.reads, &state.replaced, &state.held, allowed);
        let was_settled = state.standing.is_settled();
        if state.standing.hear(&state.verdict, &state.reads, &state.replaced, &state.held) {
            state.changes += u64::from(was_settled);
            state.since_unix = seen.unix_seconds;
        }
    }

    /// The borders for merges that start at `now`.
    pub fn borders(&self, now: Seq) -> Borders {
        let state = self.state.lock();
        let cold = now.saturating_sub(state.standing.age());
        let seen = state.held.reach(state.verdict.bytes[2] * SEEN);
        Borders { cold, zeroed: now.saturating_sub(seen).min(cold) }
    }

    /// The choice in one line, for people.
    pub fn why(&self, seconds: &dyn Fn(u64) -> Option<u64>) -> String {
        let state = self.state.lock();
        if !state.standing.is_settled() {
            return "auto: nothing is known yet, all is kept".into();
        }
        let age = state.standing.age();
        let Verdict { fits, basis, bytes: [_, _, allowed, total], touched, .. } = state.verdict;
        let held = state.held.younger(age);
        let percent = |part: f64| if total > 0.0 { 100.0 * part / total } else { 0.0 };
        let mut out = format!("auto: keeps {}, {:.1} % of the data; ", describe(age, seconds), percent(held));
        let _ = write!(out, "the budget allows {} ({:.1} %), {}; ", describe(fits, seconds), percent(allowed), size(allowed));
        let (what, counts) = match basis {
            Basis::Reads => ("reads", &state.reads),
            Basis::Replaced => ("replaced versions", &state.replaced),
            Basis::Budget => return out + "too little is read and replaced to say more",
        };
        let share = 100.0 * counts.younger(age) / counts.total();
        let [best, most] = touched.map(|share| 100.0 * share);
        let _ =
            write!(out, "of {:.0} {what}, {share:.1} % are younger, {most:.1} % within the budget, {best:.1} % at best", counts.total());
        out
    }

    /// The choice and what it rests on: the line of [`Auto::why`], then one for each age, a factor of four apart, with the shares of bytes,
    /// reads and replaced versions that are younger. `seconds` tells how long an age in writes is.
    pub fn report(&self, seconds: &dyn Fn(u64) -> Option<u64>) -> String {
        let mut out = self.why(seconds) + "\n";
        let state = self.state.lock();
        let _ = writeln!(out, "{} changes, last at {}", state.changes, state.since_unix);
        let share = |ages: &Ages, age| match ages.total() {
            0.0 => String::from("-"),
            total => format!("{:.1}", 100.0 * ages.younger(age) / total),
        };
        let mut last = String::new();
        for octave in (2..56).step_by(2) {
            let age = 1u64 << octave;
            let [bytes, reads, replaced] = [&state.held, &state.reads, &state.replaced].map(|ages| share(ages, age));
            let shares = format!("{bytes} % of the bytes, {reads} % of the reads, {replaced} % of the replaced versions");
            if shares != last {
                let _ = writeln!(out, "younger than {}: {shares}", describe(age, seconds));
            }
            last = shares;
        }
        out
    }
}

/// An age for people.
fn describe(age: u64, seconds: &dyn Fn(u64) -> Option<u64>) -> String {
    match (age, seconds(age)) {
        (u64::MAX, _) => "everything".into(),
        (age, Some(seconds)) => format!("the newest {age} writes (about {seconds} s)"),
        (age, None) => format!("the newest {age} writes"),
    }
}

fn size(bytes: f64) -> String {
    if bytes.is_finite() { format!("{:.1} MB", bytes / 1e6) } else { "no limit".into() }
}
