use super::*;

/// Weights that are spread evenly over stretches of ages.
fn ages(stretches: &[(u64, u64, f64)]) -> Ages {
    let mut ages = Ages::default();
    stretches.iter().for_each(|(from, to, weight)| ages.spread(*from as f64, *to as f64, *weight));
    ages
}

/// A thousand bytes per write, the oldest a million writes ago.
fn even() -> Ages {
    ages(&[(1, 1_000_000, 1e9)])
}

#[track_caller]
fn near(age: u64, expected: u64) {
    let ratio = age as f64 / expected as f64;
    assert!((0.8..1.25).contains(&ratio), "{age} is not near {expected}");
}

#[test]
fn without_touches_the_budget_decides() {
    let verdict = choose(&Ages::default(), &Ages::default(), &even(), 2.5e8);
    near(verdict.age, 250_000);
    assert_eq!((verdict.age, verdict.basis), (verdict.fits, Basis::Budget));
    assert!(verdict.bytes[0] <= 2.5e8 + 1.0);
    assert_eq!(choose(&Ages::default(), &Ages::default(), &even(), 2e9).age, u64::MAX, "everything fits");
    let few = ages(&[(1, 10, LEAST_TOUCHES - 1.0)]);
    assert_eq!(choose(&few, &few, &even(), 2.5e8).age, verdict.age, "so few say nothing");
}

#[test]
fn what_is_rarely_read_is_not_kept() {
    // Nothing older than 50,000 writes is read, but for a few reads of everything.
    let reads = ages(&[(1, 50_000, 10_000.0), (1, 1_000_000, 50.0)]);
    let verdict = choose(&reads, &Ages::default(), &even(), 2.5e8);
    assert_eq!(verdict.basis, Basis::Reads);
    near(verdict.age, 50_000);
    near(verdict.fits, 250_000);
    assert!(verdict.touched[0] >= verdict.touched[1] * (1.0 - RARE) - 1e-9, "{verdict:?}");
    // Reads that are spread over everything fill the budget.
    let verdict = choose(&even(), &Ages::default(), &even(), 2.5e8);
    near(verdict.age, 250_000);
    // Reads only of old data: what is kept is what the few others need.
    let old = ages(&[(1, 1000, 100.0), (900_000, 1_000_000, 10_000.0)]);
    near(choose(&old, &Ages::default(), &even(), 2.5e8).age, 1000);
}

#[test]
fn replaced_versions_stand_in_for_reads() {
    let (reads, replaced) = (ages(&[(1, 100, 1000.0)]), ages(&[(1, 20_000, 1000.0)]));
    let verdict = choose(&Ages::default(), &replaced, &even(), 2.5e8);
    assert_eq!(verdict.basis, Basis::Replaced);
    near(verdict.age, 20_000);
    // Many reads of what is young do not silence them, nor they many reads of what is older.
    let verdict = choose(&reads, &replaced, &even(), 2.5e8);
    assert_eq!(verdict.basis, Basis::Replaced);
    near(verdict.age, 20_000);
    let verdict = choose(&replaced, &reads, &even(), 2.5e8);
    assert_eq!(verdict.basis, Basis::Reads);
    near(verdict.age, 20_000);
    assert_eq!(choose(&replaced, &replaced, &even(), 2.5e8).basis, Basis::Reads);
    // And a choice that has all of the one is wrong while it has too little of the other.
    let mut standing = Standing::default();
    let young = choose(&reads, &Ages::default(), &even(), 2.5e8);
    assert!(standing.hear(&young, &reads, &Ages::default(), &even()));
    let both = choose(&reads, &replaced, &even(), 2.5e8);
    assert_eq!([(); 3].map(|()| standing.hear(&both, &reads, &replaced, &even())), [false, false, true]);
    near(standing.age(), 20_000);
}

#[test]
fn a_choice_stands_until_it_is_clearly_wrong_three_times() {
    let none = Ages::default();
    let held = even();
    let reads = ages(&[(1, 100_000, 10_000.0)]);
    let mut standing = Standing::default();
    assert_eq!((standing.age(), standing.is_settled()), (u64::MAX, false));
    let hear = |standing: &mut Standing, reads: &Ages, allowed: f64| {
        let verdict = choose(reads, &none, &held, allowed);
        (standing.hear(&verdict, reads, &none, &held), verdict.age)
    };
    let (first, age) = hear(&mut standing, &reads, 2.5e8);
    assert!(first && standing.age() == age, "the first counts at once");
    near(age, 100_000);
    // A little more is read further out: not worth a change.
    let more = ages(&[(1, 100_000, 10_000.0), (100_000, 110_000, 100.0)]);
    for _ in 0..10 {
        assert!(!hear(&mut standing, &more, 2.5e8).0);
    }
    // Much more is: at the third time.
    let much = ages(&[(1, 200_000, 10_000.0)]);
    assert_eq!([(); 3].map(|()| hear(&mut standing, &much, 2.5e8).0), [false, false, true]);
    near(standing.age(), 200_000);
    // Twice, and then not again: it was a burst.
    assert_eq!([&reads, &reads, &much, &reads, &reads].map(|reads| hear(&mut standing, reads, 2.5e8).0), [false; 5]);
    assert!(hear(&mut standing, &reads, 2.5e8).0, "half as large will do");
    near(standing.age(), 100_000);
    // The budget shrinks.
    assert_eq!([(); 3].map(|()| hear(&mut standing, &reads, 5e7).0), [false, false, true]);
    near(standing.age(), 50_000);
    // Nobody reads any more: the choice grows with the budget, so that nothing is unused.
    assert_eq!([(); 3].map(|()| hear(&mut standing, &none, 5e8).0), [false, false, true]);
    near(standing.age(), 500_000);
}
