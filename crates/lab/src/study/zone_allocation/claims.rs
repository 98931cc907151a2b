//! Claims about the results. Rules and bounds are fixed here before anything is run.

use super::cells::{RUN, active, cases, drawn, name, shape};
use super::{LAWS, LIMITS, OWN, SINTER, SLA, SLA_GREEDY, Sizes, TIGHT, UNTOLD, ZENFS, Zone};
use crate::study::metric::Metric;
use crate::study::plan::{Bound, Comparison, Group, Hypothesis, Term, absolute, comparison, each};

/// Bound of "all of it", for shares of a whole.
const ALL: f64 = 0.999;
/// Resets of our policy over the fewest possible, at most.
const RESETS: f64 = 1.02;
/// Zones in use by our policy over the fewest possible, at most.
const ZONES: f64 = 1.15;
/// Bytes written by an engine that knows zones over those of one that does not, at most.
const TOLD: f64 = 1.05;
/// Bound of "about as many".
const ABOUT: f64 = 1.05;
/// Bound between nothing and something, for counts.
const NOTHING: f64 = 0.5;

/// All claims: the original's, then ours.
pub fn claims(sizes: &Sizes) -> Vec<Hypothesis> {
    let mut claims = vec![zenfs_stops()];
    claims.extend(resets());
    claims.extend(moved());
    claims.push(ours_goes_on());
    claims.extend(ours());
    claims.extend(ours_when_full());
    claims.push(any_shape(sizes));
    claims.extend(on_a_real_drive());
    claims
}

fn claim(text: &str, original: Option<&str>, metric: Metric, groups: Vec<Group>) -> Hypothesis {
    Hypothesis { original: original.map(str::to_string), engine: Some(OWN.to_string()), ..Hypothesis::new(text, metric, groups) }
}

fn term(experiment: &str, policy: &str, of: &str) -> Term {
    Term::new(name(experiment, policy, of), RUN)
}

/// Compares two policies in one case.
fn versus(experiment: &str, of: &str, above: &str, below: &str, bound: Bound) -> Comparison {
    comparison(format!("{of}: {above} to {below}"), term(experiment, above, of), term(experiment, below, of), bound)
}

/// The case of the original: no limit of active zones.
fn original() -> String {
    active(LIMITS[0])
}

fn zenfs_stops() -> Hypothesis {
    let of = original();
    claim(
        "A: without a limit of active zones ZenFS finds no zone any more before all is written",
        Some("after about 26 GB of 27, 75.8 % of the capacity"),
        Metric::FinishedShare,
        each([absolute(of.clone(), term("A", ZENFS, &of), Bound::Below(ALL))].into_iter()),
    )
}

fn ours_goes_on() -> Hypothesis {
    let of = original();
    let all = absolute(of.clone(), term("A", SINTER, &of), Bound::Above(ALL));
    claim("A: with our policy all of it finds room", None, Metric::FinishedShare, each([all].into_iter()))
}

fn resets() -> [Hypothesis; 3] {
    let of = original();
    let ratio = |above, below, bound| versus("B", &of, above, below, bound);
    [
        claim(
            "B: grouping by lifetime alone costs more resets than ZenFS",
            Some("5 % more with WLA, 26 % more with SLA"),
            Metric::ZoneResets,
            each(["wla", "sla"].map(|policy| ratio(policy, ZENFS, Bound::Above(1.0))).into_iter()),
        ),
        claim(
            "B: resetting zones of logs only once they are full halves their resets",
            Some("52 % fewer with SLA"),
            Metric::ShortZoneResets,
            each([ratio(SLA, "sla", Bound::Below(0.6))].into_iter()),
        ),
        claim(
            "B: with that, SLA has about as many resets as ZenFS (5 % more at most)",
            Some("about 24.7 % fewer than SLA alone: ZenFS's own count"),
            Metric::ZoneResets,
            each([ratio(SLA, ZENFS, Bound::Below(ABOUT))].into_iter()),
        ),
    ]
}

fn moved() -> [Hypothesis; 2] {
    let cases = LIMITS.map(|limit| drawn(LAWS[0], limit));
    let less = |bound: Bound| {
        let of = |case: &String| ["wla lzr", SLA].map(|policy| versus("C", case, policy, ZENFS, bound));
        each(cases.iter().flat_map(of))
    };
    [
        claim(
            "C: grouping by lifetime moves less than a tenth of what ZenFS moves",
            Some("about 5 GB; 314.8 MB with WLA and LZR, 85.3 MB with SLA and LZR"),
            Metric::ZoneMoved,
            less(Bound::Below(0.1)),
        ),
        claim(
            "C: and has fewer zones in use",
            Some("233 of 256; 211 with WLA and LZR, 203 with SLA and LZR"),
            Metric::ZonesUsed,
            less(Bound::Below(1.0)),
        ),
    ]
}

/// Claims about our policy, against the least possible and against the best published one.
fn ours() -> [Hypothesis; 7] {
    let everywhere = |bound: Bound| each(cases().map(|case| absolute(case.clone(), term("C", SINTER, &case), bound)).into_iter());
    let against = |bound: Bound| each(cases().map(|case| versus("C", &case, SINTER, SLA, bound)).into_iter());
    let untold = versus("C", &drawn(LAWS[0], LIMITS[0]), SINTER, UNTOLD, Bound::Below(TOLD));
    [
        claim("C: our policy has fewer zones in use than SLA with LZR", None, Metric::ZonesUsed, against(Bound::Below(1.0))),
        claim("C: it moves nothing", None, Metric::ZoneMoved, everywhere(Bound::Below(NOTHING))),
        claim("C: it resets no more zones than SLA with LZR (5 % at most)", None, Metric::ZoneResets, against(Bound::Below(ABOUT))),
        claim("C: its resets are within 2 % of the least possible", None, Metric::ZoneResetsOverLeast, everywhere(Bound::Below(RESETS))),
        claim(
            "C: its zones in use are within 15 % of the least possible",
            None,
            Metric::ZonesUsedOverLeast,
            everywhere(Bound::Below(ZONES)),
        ),
        claim("C: it finishes no zone early", None, Metric::ZoneFinishes, everywhere(Bound::Below(NOTHING))),
        claim(
            "C: that compactions go by zones costs 5 % more bytes written at most",
            None,
            Metric::WriteAmplification,
            each([untold].into_iter()),
        ),
    ]
}

/// Claims about drives that live data fill. Against SLA and LZR with our collector: as published they may stop there.
fn ours_when_full() -> [Hypothesis; 2] {
    let [(roomy, _), (tight, _)] = TIGHT;
    [
        claim(
            "E: our policy moves nothing where about 60 % of the capacity live",
            None,
            Metric::ZoneMoved,
            each([absolute(roomy, term("E", SINTER, roomy), Bound::Below(NOTHING))].into_iter()),
        ),
        claim(
            "E: and, where about 85 % do, at most half of what SLA with LZR and our collector moves",
            None,
            Metric::ZoneMoved,
            each([versus("E", tight, SINTER, SLA_GREEDY, Bound::Below(0.5))].into_iter()),
        ),
    ]
}

fn any_shape(sizes: &Sizes) -> Hypothesis {
    let of = |(zone, per_zone): (Zone, f64)| versus("D", &shape(zone, per_zone), SINTER, SLA, Bound::Below(ABOUT));
    claim(
        "D: whatever the sizes of zones and tables, our policy has no more zones in use than SLA with LZR (5 % at most)",
        None,
        Metric::ZonesUsed,
        each(sizes.shapes.iter().copied().map(of)),
    )
}

/// Claims about zones as large as those of real drives: few, and each holds many tables. Against SLA and LZR with our collector: as
/// published they find no zone there.
fn on_a_real_drive() -> [Hypothesis; 2] {
    let case = drawn(LAWS[0], LIMITS[1]);
    let against = |bound: Bound| each([versus("F", &case, SINTER, SLA_GREEDY, bound)].into_iter());
    [
        claim(
            "F: with zones of a real drive, too, it has fewer zones in use than SLA with LZR and our collector",
            None,
            Metric::ZonesUsed,
            against(Bound::Below(1.0)),
        ),
        claim("F: and moves at most half as much", None, Metric::ZoneMoved, against(Bound::Below(0.5))),
    ]
}
