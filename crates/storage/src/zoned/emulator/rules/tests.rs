//! Every cell of the table of states and events, the limits, and a random walk whose counts are counted again.

use super::*;
use crate::random::Xorshift;
use crate::zoned::ZoneErrorKind as Kind;
use crate::zoned::ZoneState::{self as State, Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen, Offline, ReadOnly};

fn rules(zones: u32, max_open: Option<u32>, max_active: Option<u32>) -> Rules {
    let geometry = Geometry { block: 512, zones, zone_size: 8, max_open, max_active, conventional: 0 };
    Rules::new(&geometry, 4)
}

/// One zone in a state; partly written where the state allows it.
fn zone_in(state: State) -> Rules {
    let mut rules = rules(1, None, None);
    match state {
        Empty => {}
        ImplicitlyOpen => write(&mut rules, 0, 0, 1).unwrap(),
        ExplicitlyOpen => {
            rules.open(0).unwrap();
            write(&mut rules, 0, 0, 1).unwrap();
        }
        Closed => {
            write(&mut rules, 0, 0, 1).unwrap();
            rules.close(0).unwrap();
        }
        Full => write(&mut rules, 0, 0, 4).unwrap(),
        ReadOnly | Offline => {
            write(&mut rules, 0, 0, 1).unwrap();
            rules.damage(0, state);
        }
    }
    assert_eq!(rules.record(0).state, state);
    rules
}

fn write(rules: &mut Rules, zone: u32, at: u64, length: u64) -> Result<()> {
    rules.begin_write(zone, Some(at), length)?;
    rules.advance(zone, length);
    Ok(())
}

type Event = fn(&mut Rules) -> Result<()>;

const WRITE: Event = |rules| {
    let at = rules.record(0).data;
    write(rules, 0, at, 1)
};
const WRITE_ALL: Event = |rules| {
    let record = *rules.record(0);
    write(rules, 0, record.data, (record.capacity - record.data).max(1))
};
const APPEND: Event = |rules| {
    rules.begin_write(0, None, 1)?;
    rules.advance(0, 1);
    Ok(())
};
const OPEN: Event = |rules| rules.open(0);
const CLOSE: Event = |rules| rules.close(0);
const FINISH: Event = |rules| rules.finish(0).map(|_| ());
const RESET: Event = |rules| rules.reset(0).map(|_| ());
const READ: Event = |rules| rules.check_read(0, 0, 8);

const INVALID: Result<State> = Err(Kind::InvalidTransition);
const FULL: Result<State> = Err(Kind::Full);
const READ_ONLY: Result<State> = Err(Kind::ReadOnly);
const OFFLINE: Result<State> = Err(Kind::Offline);

/// New states by event, for old states in the order of `ZoneState::ALL`.
#[rustfmt::skip]
const TABLE: [(&str, Event, [Result<State>; 7]); 8] = [
    ("write", WRITE, [Ok(ImplicitlyOpen), Ok(ImplicitlyOpen), Ok(ExplicitlyOpen), Ok(ImplicitlyOpen), FULL, READ_ONLY, OFFLINE]),
    ("write to capacity", WRITE_ALL, [Ok(Full), Ok(Full), Ok(Full), Ok(Full), FULL, READ_ONLY, OFFLINE]),
    ("append", APPEND, [Ok(ImplicitlyOpen), Ok(ImplicitlyOpen), Ok(ExplicitlyOpen), Ok(ImplicitlyOpen), FULL, READ_ONLY, OFFLINE]),
    ("open", OPEN, [Ok(ExplicitlyOpen), Ok(ExplicitlyOpen), Ok(ExplicitlyOpen), Ok(ExplicitlyOpen), INVALID, INVALID, INVALID]),
    ("close", CLOSE, [INVALID, Ok(Closed), Ok(Closed), Ok(Closed), INVALID, INVALID, INVALID]),
    ("finish", FINISH, [Ok(Full), Ok(Full), Ok(Full), Ok(Full), Ok(Full), INVALID, INVALID]),
    ("reset", RESET, [Ok(Empty), Ok(Empty), Ok(Empty), Ok(Empty), Ok(Empty), INVALID, INVALID]),
    ("read", READ, [Ok(Empty), Ok(ImplicitlyOpen), Ok(ExplicitlyOpen), Ok(Closed), Ok(Full), Ok(ReadOnly), OFFLINE]),
];

#[test]
fn every_event_in_every_state() {
    for (name, event, expected) in TABLE {
        for (state, expected) in State::ALL.into_iter().zip(expected) {
            let mut rules = zone_in(state);
            let before = *rules.record(0);
            let outcome = event(&mut rules).map(|()| rules.record(0).state);
            assert_eq!(outcome, expected, "{name} in {state:?}");
            if outcome.is_err() {
                assert_eq!(*rules.record(0), before, "{name} in {state:?} is refused and changes nothing");
            }
            check_counts(&rules);
        }
    }
}

#[test]
fn a_write_is_at_the_pointer_and_within_the_capacity() {
    let mut rules = rules(2, None, None);
    assert_eq!(write(&mut rules, 0, 1, 1), Err(Kind::InvalidWrite));
    assert_eq!(write(&mut rules, 0, 0, 5), Err(Kind::Boundary), "within the size and past the capacity");
    assert_eq!(rules.record(0).state, Empty);
    assert_eq!(write(&mut rules, 0, 0, 3), Ok(()));
    assert_eq!(write(&mut rules, 0, 0, 1), Err(Kind::InvalidWrite), "a second time");
    assert_eq!(write(&mut rules, 0, 4, 1), Err(Kind::InvalidWrite), "a gap");
    assert_eq!(write(&mut rules, 0, 3, 2), Err(Kind::Boundary));
    assert_eq!(rules.begin_write(0, None, 2), Err(Kind::Boundary));
    assert_eq!(rules.begin_write(0, None, 1), Ok(3));
    assert_eq!(rules.check_read(0, 0, 8), Ok(()), "up to the size, past the capacity");
    assert_eq!(rules.check_read(0, 7, 2), Err(Kind::Boundary));
    assert_eq!(rules.check_read(0, u64::MAX, 2), Err(Kind::Boundary));
    assert_eq!(rules.report(1), Zone { capacity: 4, written: 0, state: Empty });
    assert_eq!(rules.finish(1), Ok(true));
    assert_eq!(rules.report(1), Zone { capacity: 4, written: 4, state: Full });
    assert_eq!((rules.finish(1), rules.reset(1), rules.reset(1)), (Ok(false), Ok(true), Ok(false)));
    assert_eq!(rules.record(1).resets, 1, "a reset of an empty zone wears nothing");
}

#[test]
fn the_zone_opened_longest_ago_makes_room() {
    let mut rules = rules(8, Some(3), Some(6));
    for zone in 0..3 {
        write(&mut rules, zone, 0, 1).unwrap();
    }
    // Writing on does not make a zone younger.
    write(&mut rules, 0, 1, 1).unwrap();
    write(&mut rules, 3, 0, 1).unwrap();
    assert_eq!((rules.record(0).state, rules.record(3).state), (Closed, ImplicitlyOpen));
    // Being opened again does.
    write(&mut rules, 0, 2, 1).unwrap();
    assert_eq!(rules.record(1).state, Closed);
    rules.open(5).unwrap();
    assert_eq!(rules.record(2).state, Closed, "explicit opening evicts as well");
    rules.open(3).unwrap();
    rules.open(0).unwrap();
    assert_eq!(rules.open(1), Err(Kind::TooManyOpen), "no implicitly opened zone is left");
    assert_eq!(write(&mut rules, 1, 1, 1), Err(Kind::TooManyOpen));
    assert_eq!(rules.record(1).state, Closed);
    rules.close(0).unwrap();
    assert_eq!(write(&mut rules, 1, 1, 1), Ok(()));
    check_counts(&rules);
}

#[test]
fn nothing_makes_room_for_an_active_zone_but_its_end() {
    let mut rules = rules(8, Some(2), Some(3));
    for zone in 0..3 {
        write(&mut rules, zone, 0, 1).unwrap();
        rules.close(zone).unwrap();
    }
    assert_eq!(write(&mut rules, 3, 0, 1), Err(Kind::TooManyActive));
    assert_eq!(rules.open(3), Err(Kind::TooManyActive));
    assert_eq!(rules.record(3).state, Empty);
    rules.finish(0).unwrap();
    assert_eq!(write(&mut rules, 3, 0, 1), Ok(()));
    assert_eq!(rules.open(4), Err(Kind::TooManyActive));
    rules.reset(1).unwrap();
    assert_eq!(rules.open(4), Ok(()));
    assert_eq!(write(&mut rules, 5, 0, 4), Err(Kind::TooManyActive), "even a write that fills the zone at once");
    write(&mut rules, 3, 1, 3).unwrap();
    assert_eq!(write(&mut rules, 5, 0, 4), Ok(()));
    rules.damage(4, ReadOnly);
    check_counts(&rules);
    assert_eq!(rules.active, 1);
    // The eviction comes before the look at the active zones and stays.
    let mut rules = self::rules(4, Some(1), Some(1));
    write(&mut rules, 0, 0, 1).unwrap();
    assert_eq!(write(&mut rules, 1, 0, 1), Err(Kind::TooManyActive));
    assert_eq!(rules.record(0).state, Closed);
}

#[test]
fn a_power_cycle_closes_what_is_open() {
    for state in State::ALL {
        let record = *zone_in(state).record(0);
        let after = record.after_power_cycle();
        assert_eq!(after.state, if state.is_open() { Closed } else { state });
        assert_eq!(ZoneRecord { state, ..after }, record, "nothing else changes");
    }
    let mut rules = rules(1, None, None);
    rules.open(0).unwrap();
    assert_eq!(rules.record(0).after_power_cycle().state, Empty);
}

fn check_counts(rules: &Rules) {
    let count = |is: fn(State) -> bool| rules.records().iter().filter(|record| is(record.state)).count() as u32;
    assert_eq!((rules.open, rules.active), (count(State::is_open), count(State::is_active)));
    assert!(rules.max_open.is_none_or(|max| rules.open <= max) && rules.max_active.is_none_or(|max| rules.active <= max));
}

#[test]
fn the_limits_hold_on_every_walk() {
    for seed in 0..50 {
        let mut random = Xorshift::new(seed);
        let limits = [(Some(2), Some(3)), (Some(1), Some(1)), (None, Some(4)), (Some(3), None), (None, None)];
        let (max_open, max_active) = limits[seed as usize % 5];
        let mut rules = rules(6, max_open, max_active);
        for _ in 0..400 {
            let zone = random.below(6) as u32;
            let _ = match random.below(12) {
                0 => rules.open(zone),
                1 => rules.close(zone),
                2 => rules.finish(zone).map(|_| ()),
                3 | 4 => rules.reset(zone).map(|_| ()),
                n => {
                    let at = (n < 11).then(|| rules.record(zone).data + u64::from(n == 10));
                    let length = 1 + random.below(3);
                    rules.begin_write(zone, at, length).map(|_| rules.advance(zone, length))
                }
            };
            check_counts(&rules);
        }
    }
}
