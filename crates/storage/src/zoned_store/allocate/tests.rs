//! Each policy against a table of zones, files and the expected choice.

use super::*;

fn zone(zone: u32, lifetime: u8, level: u8, room: u64) -> ZoneView {
    ZoneView { zone, lifetime, level, room, valid: 100, touched: u64::from(zone), ..ZoneView::default() }
}

fn table(lifetime: u8, level: u8) -> Want {
    Want { lifetime, level, ..Want::default() }
}

fn log() -> Want {
    Want { lifetime: 2, log: true, ..Want::default() }
}

const ROOMY: Resources = Resources { token: true, empty: 50, zones: 100 };
const NO_TOKEN: Resources = Resources { token: false, empty: 50, zones: 100 };
const NO_EMPTY: Resources = Resources { token: true, empty: 0, zones: 100 };

fn check(policy: Allocation, cases: &[(Want, Resources, Choice)], zones: &[ZoneView]) {
    for (number, (want, room, due)) in cases.iter().enumerate() {
        assert_eq!(policy.choose(want, zones, *room), *due, "{}, case {number}", policy.name());
    }
}

#[test]
fn names_lead_back() {
    for policy in Allocation::ALL {
        assert_eq!(Allocation::from_name(policy.name()), Some(policy));
    }
    assert_eq!(Allocation::from_name("best"), None);
}

#[test]
fn zenfs_takes_the_closest_longer_life_and_equal_only_without_a_token() {
    let zones = [zone(1, 3, 0, 10), zone(2, 4, 2, 30), zone(3, 5, 3, 20), zone(4, 4, 2, 40)];
    use Choice::{Finish, Open, Use};
    let with = [
        // Of two at distance 1 the later one.
        (table(3, 1), ROOMY, Use(4)),
        (table(4, 2), ROOMY, Use(3)),
        // Equal is considered worse than new.
        (table(5, 3), ROOMY, Open),
        (table(5, 3), NO_TOKEN, Use(3)),
        (log(), ROOMY, Use(1)),
        // Nothing known matches nothing that is known: the cheapest is finished.
        (table(0, 0), ROOMY, Open),
        (table(0, 0), NO_TOKEN, Finish(1)),
        // Moves take an equal one, and never a new one.
        (Want { moving: true, ..table(5, 3) }, ROOMY, Use(3)),
    ];
    check(Allocation::Zenfs { tokens: true }, &with, &zones);
    let without = [(table(5, 3), ROOMY, Open), (table(5, 3), NO_TOKEN, Finish(1))];
    check(Allocation::Zenfs { tokens: false }, &without, &zones);

    let busy = ZoneView { writers: 1, ..zone(3, 5, 3, 20) };
    let dead = ZoneView { valid: 0, ..zone(5, 5, 3, 20) };
    let cases =
        [(table(4, 2), ROOMY, Open), (table(5, 3), NO_TOKEN, Finish(5)), (Want { moving: true, ..table(5, 3) }, ROOMY, Choice::Nothing)];
    check(Allocation::Zenfs { tokens: true }, &cases, &[busy, dead]);
}

#[test]
fn wla_and_sla_take_equal_lives_first() {
    let zones = [zone(1, 4, 2, 10), zone(2, 5, 3, 30)];
    use Choice::{Finish, Open, Use};
    let wla = [(table(4, 2), ROOMY, Use(1)), (table(3, 1), ROOMY, Use(1)), (table(5, 4), NO_EMPTY, Use(2))];
    check(Allocation::Wla { tokens: true }, &wla, &zones);
    check(Allocation::Wla { tokens: false }, &wla, &zones);
    let sla = [
        (table(4, 2), ROOMY, Use(1)),
        (table(3, 1), ROOMY, Open),
        (table(3, 1), NO_TOKEN, Finish(1)),
        (Want { moving: true, ..table(3, 1) }, ROOMY, Open),
        (Want { moving: true, ..table(3, 1) }, NO_EMPTY, Use(1)),
    ];
    check(Allocation::Sla { tokens: true }, &sla, &zones);
    // Like ZenFS, they let one file at a time into a zone; only moved files come to others.
    let written = [ZoneView { writers: 1, ..zone(1, 4, 2, 10) }];
    let cases = [(table(4, 2), ROOMY, Open), (Want { moving: true, ..table(4, 2) }, ROOMY, Use(1))];
    check(Allocation::Sla { tokens: true }, &cases, &written);
    check(Allocation::Wla { tokens: true }, &cases, &written);
    let both = [ZoneView { writers: 2, ..zone(9, 4, 2, 10) }, zone(3, 4, 2, 10)];
    check(Allocation::Wla { tokens: true }, &[(table(4, 2), ROOMY, Use(3))], &both);
    // Where no more zones may be active: with ZenFS's rule one is finished, without it nothing is.
    for (tokens, choice) in [(true, Finish(1)), (false, Open)] {
        check(Allocation::Sla { tokens }, &[(table(3, 1), NO_TOKEN, choice), (table(4, 2), NO_TOKEN, Use(1))], &zones);
        check(Allocation::Wla { tokens }, &[(table(0, 0), NO_TOKEN, choice), (table(3, 1), NO_TOKEN, Use(1))], &zones);
    }
}

#[test]
fn per_level_tells_levels_of_one_lifetime_apart() {
    let zones = [zone(1, 5, 3, 10), zone(2, 5, 4, 30), zone(3, 2, 0, 5)];
    use Choice::{Open, Use};
    let cases = [
        (table(5, 4), ROOMY, Use(2)),
        (table(5, 5), ROOMY, Open),
        // Level 0 of tables is not the level 0 of logs.
        (table(3, 0), ROOMY, Open),
        (log(), ROOMY, Use(3)),
        // A manifest keeps away from logs.
        (Want { log: true, ..table(0, 0) }, ROOMY, Open),
    ];
    check(Allocation::PerLevel, &cases, &zones);
}

#[test]
fn sinter_fills_zones_with_what_dies_together() {
    let living = |number: u32, level: u8, life: f64| ZoneView { life, death: 1000.0 + life, ..zone(number, 4, level, 10) };
    let zones = [living(1, 2, 100.0), living(2, 2, 3000.0), living(3, 3, 9000.0)];
    use Choice::{Finish, Nothing, Open, Use};
    let lives = |level: u8, life: u64| Want { now: 1000, death: 1000 + life, life, ..table(4, level) };
    let cases = [
        (lives(2, 110), ROOMY, Use(1)),
        (lives(2, 1000), ROOMY, Use(2)),
        // Of that level, but living much longer; and of another level.
        (lives(2, 50_000), ROOMY, Open),
        (lives(1, 110), ROOMY, Open),
        // If there is nothing else, what dies nearest.
        (lives(2, 50_000), NO_TOKEN, Use(3)),
        (lives(1, 110), NO_EMPTY, Use(1)),
        (Want { moving: true, ..lives(3, 8000) }, ROOMY, Use(3)),
        (log(), ROOMY, Open),
        (log(), NO_TOKEN, Finish(1)),
    ];
    check(Allocation::Sinter, &cases, &zones);
    // What is dead is filled up by what dies soon; by anything before it goes to a zone of others.
    let dead = [ZoneView { valid: 0, ..living(7, 3, 1.0) }, living(1, 2, 100.0)];
    let soon = Want { lifetime: 3, ..lives(1, 9) };
    let manifest = Want { lifetime: 0, ..log() };
    let cases = [
        (log(), ROOMY, Use(7)),
        (soon, ROOMY, Use(7)),
        (lives(4, 9), ROOMY, Open),
        (manifest, ROOMY, Open),
        (lives(4, 9), NO_TOKEN, Use(7)),
        (manifest, Resources { empty: 1, ..ROOMY }, Use(7)),
        (lives(2, 100), ROOMY, Use(1)),
    ];
    check(Allocation::Sinter, &cases, &dead);
    check(Allocation::Sinter, &[(lives(2, 100), NO_EMPTY, Nothing)], &[]);
}
