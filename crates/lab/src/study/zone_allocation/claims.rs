//! Claims about the results. Rules and bounds are fixed here before anything is run.

use super::cells::{RUN, active, drawn, name, shape, shapes};
use super::{LAWS, LEVEL, LIMITS, OWN, PUBLISHED_SLA, SINTER, SLA, Sizes, TIGHT, UNTOLD, Zone};
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
/// Bound between nothing and something, for counts of bytes.
const NOTHING: f64 = 0.5;

/// All claims.
pub fn claims(sizes: &Sizes) -> Vec<Hypothesis> {
    let mut claims = vec![zenfs_stops(), ours_goes_on()];
    claims.extend(resets());
    claims.extend(moved());
    claims.extend(ours());
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

fn by_limit(of: impl Fn(&str) -> Comparison) -> Vec<Group> {
    each(LIMITS.into_iter().map(|limit| of(&active(limit))))
}

fn zenfs_stops() -> Hypothesis {
    let of = active(None);
    claim(
        "A: without a limit of active zones ZenFS finds no zone any more before all is written",
        Some("after about 26 GB of 27, 75.8 % of the capacity"),
        Metric::FinishedShare,
        each([absolute(of.clone(), term("A", "zenfs", &of), Bound::Below(ALL))].into_iter()),
    )
}

fn ours_goes_on() -> Hypothesis {
    let of = |limit: &str| absolute(limit, term("A", SINTER, limit), Bound::Above(ALL));
    claim("A: with our policy all of it finds room", None, Metric::FinishedShare, by_limit(of))
}

fn resets() -> [Hypothesis; 3] {
    let more = |policy: &'static str| versus("B", &active(None), policy, "zenfs", Bound::Above(1.0));
    [
        claim(
            "B: grouping by lifetime alone costs more resets than ZenFS",
            Some("5 % more with WLA, 26 % more with SLA"),
            Metric::ZoneResets,
            each([more("wla"), more("sla")].into_iter()),
        ),
        claim(
            "B: resetting zones of logs only once they are full halves their resets",
            Some("52 % fewer with SLA"),
            Metric::LogZoneResets,
            by_limit(|limit| versus("B", limit, PUBLISHED_SLA, "sla", Bound::Below(0.6))),
        ),
        claim(
            "B: with that, SLA has about as many resets as ZenFS (5 % more at most)",
            Some("about 24.7 % fewer than SLA alone: ZenFS's own count"),
            Metric::ZoneResets,
            each([versus("B", &active(None), PUBLISHED_SLA, "zenfs", Bound::Below(ABOUT))].into_iter()),
        ),
    ]
}

fn moved() -> [Hypothesis; 2] {
    let cases: Vec<String> = LIMITS.into_iter().map(|limit| drawn(LAWS[0], limit)).collect();
    let less = |metric_bound: Bound, policies: [&'static str; 2]| {
        let of = |case: &String| policies.map(|policy| versus("C", case, policy, "zenfs", metric_bound));
        let each_policy = cases.iter().flat_map(of);
        each(each_policy)
    };
    [
        claim(
            "C: grouping by lifetime moves less than a tenth of what ZenFS moves",
            Some("about 5 GB; 314.8 MB with WLA and LZR, 85.3 MB with SLA and LZR"),
            Metric::ZoneMoved,
            less(Bound::Below(0.1), ["wla lzr", PUBLISHED_SLA]),
        ),
        claim(
            "C: and has fewer zones in use",
            Some("233 of 256; 211 with WLA and LZR, 203 with SLA and LZR"),
            Metric::ZonesUsed,
            less(Bound::Below(1.0), ["wla lzr", PUBLISHED_SLA]),
        ),
    ]
}

/// Claims about our policy.
fn ours() -> [Hypothesis; 7] {
    let everywhere = |bound: Bound| {
        let of = LAWS.into_iter().flat_map(|law| LIMITS.map(|limit| drawn(law, limit)));
        each(of.map(|case| absolute(case.clone(), term("C", SINTER, &case), bound)))
    };
    let against = |policy: &'static str, bound: Bound| {
        let of = LAWS.into_iter().flat_map(|law| LIMITS.map(|limit| drawn(law, limit)));
        each(of.map(|case| versus("C", &case, SINTER, policy, bound)))
    };
    let [(roomy, _), (tight, _)] = TIGHT;
    [
        claim(
            "E: our policy moves nothing where about 60 % of the capacity live",
            None,
            Metric::ZoneMoved,
            each([absolute(roomy, term("E", SINTER, roomy), Bound::Below(NOTHING))].into_iter()),
        ),
        claim(
            "E: and at most half of what SLA with LZR moves where about 85 % do",
            None,
            Metric::ZoneMoved,
            each([versus("E", tight, SINTER, SLA, Bound::Below(0.5))].into_iter()),
        ),
        claim("C: its resets are within 2 % of the least possible", None, Metric::ZoneResetsOverLeast, everywhere(Bound::Below(RESETS))),
        claim(
            "C: its zones in use are within 15 % of the least possible",
            None,
            Metric::ZonesUsedOverLeast,
            everywhere(Bound::Below(ZONES)),
        ),
        claim("C: it has fewer zones in use than SLA with LZR", None, Metric::ZonesUsed, against(SLA, Bound::Below(1.0))),
        claim("C: it finishes no zone early", None, Metric::ZoneFinishes, everywhere(Bound::Below(NOTHING))),
        claim(
            "C: that compactions go by zones costs 5 % more bytes written at most",
            None,
            Metric::WriteAmplification,
            against(UNTOLD, Bound::Below(TOLD)),
        ),
    ]
}

fn any_shape(sizes: &Sizes) -> Hypothesis {
    let of = |(zone, per_zone): (Zone, f64)| {
        let case = shape(zone, per_zone);
        [SLA, LEVEL].map(|policy| versus("D", &case, SINTER, policy, Bound::Below(ABOUT)))
    };
    claim(
        "D: whatever the sizes of zones and tables, our policy has no more zones in use than SLA or the level alone with LZR (5 % at most)",
        None,
        Metric::ZonesUsed,
        each(shapes(sizes).into_iter().flat_map(of)),
    )
}

/// Claims about zones as large as those of real drives: few, and each holds many tables.
fn on_a_real_drive() -> [Hypothesis; 2] {
    let against_sla = |bound: Bound| {
        let of = LAWS.into_iter().flat_map(|law| LIMITS.map(|limit| drawn(law, limit)));
        each(of.map(|case| versus("F", &case, SINTER, SLA, bound)))
    };
    [
        claim(
            "F: with zones of a real drive, too, it has fewer zones in use than SLA with LZR",
            None,
            Metric::ZonesUsed,
            against_sla(Bound::Below(1.0)),
        ),
        claim("F: and moves at most half as much", None, Metric::ZoneMoved, against_sla(Bound::Below(0.5))),
    ]
}
