use super::*;

/// A hash of a key.
fn hash(key: u64) -> u64 {
    (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (key + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31)
}

/// A table of these keys and numbers, a hundred bytes each.
struct Table {
    entries: u64,
    sample: Vec<u8>,
}

impl Table {
    fn new(keys: impl Iterator<Item = (u64, Seq, bool)>) -> Table {
        let mut drawing = Drawing::default();
        let entries = keys.map(|(key, seq, deleted)| drawing.add(hash(key), seq, deleted)).count();
        Table { entries: entries as u64, sample: drawing.encode() }
    }

    fn holding(&self) -> Holding<'_> {
        Holding { bytes: 100 * self.entries, entries: self.entries, seqs: (0, 0), sample: &self.sample }
    }
}

#[track_caller]
fn near(bytes: f64, expected: f64, part: f64) {
    assert!((bytes - expected).abs() <= part * expected, "{bytes} is not near {expected}");
}

#[test]
fn a_small_table_is_its_own_sample() {
    let table = Table::new((0..LEAST as u64).map(|n| (n, 2000 - 10 * n, n == 3)));
    let all = alive(&[table.holding()], 2000);
    near(all.total(), 100.0 * (LEAST - 1) as f64, 1e-9);
    near(all.younger(2), 100.0, 1e-9);
    // Numbers that were zeroed are as old as anything.
    let zeroed = Table::new((0..10).map(|n| (n, 0, false)));
    assert_eq!(alive(&[zeroed.holding()], 1000).younger(800), 0.0);
}

#[test]
fn what_a_newer_table_hides_is_dead() {
    // Ten thousand keys in tables of a thousand each; of every second one a newer version in one large table, tombstones among them.
    let old: Vec<Table> = (0..10).map(|n| Table::new((1000 * n..1000 * n + 1000).map(|key| (key, 1 + key, false)))).collect();
    let newer = Table::new((0..5000u64).map(|n| (2 * n, 20_000 + n, n.is_multiple_of(10))));
    let tables: Vec<Holding<'_>> = old.iter().chain([&newer]).map(Table::holding).collect();
    let ages = alive(&tables, 25_000);
    near(ages.total(), 950_000.0, 0.15);
    near(ages.younger(6000), 450_000.0, 0.2);
    // In whatever order tables come.
    let reversed: Vec<Holding<'_>> = tables.iter().rev().copied().collect();
    assert_eq!(alive(&reversed, 25_000), ages);
    // Alone the old ones are all alive.
    near(alive(&tables[..10], 25_000).total(), 1_000_000.0, 0.15);
}

#[test]
fn shares_hold_for_many_keys_that_are_not_all_looked_at() {
    let tables: Vec<Table> = (0..200).map(|n| Table::new((20_000 * n..20_000 * n + 20_000).map(|key| (key, 1 + key, false)))).collect();
    let holdings: Vec<Holding<'_>> = tables.iter().map(Table::holding).collect();
    let samples: Vec<(Sample, f64)> = tables.iter().filter_map(|table| Some((Sample::decode(&table.sample)?, 1.0))).collect();
    let below: usize = samples.iter().map(|(sample, _)| sample.below(limit(&samples)).len()).sum();
    assert!((LOOKED_AT * 9 / 10..LOOKED_AT * 11 / 10).contains(&below), "{below}");
    let ages = alive(&holdings, 4_000_000);
    near(ages.younger(1_000_000) / ages.total(), 0.25, 0.03);
}

#[test]
fn a_table_without_a_sample_is_even_and_alive() {
    let table = Holding { bytes: 100, entries: 1, seqs: (1001, 2000), sample: &[] };
    let ages = alive(&[table], 2000);
    near(ages.total(), 100.0, 1e-9);
    for age in [100u64, 250, 500, 999] {
        assert!((ages.younger(age) - age as f64 / 10.0).abs() < 3.0, "{age}: {}", ages.younger(age));
    }
    let old = Holding { seqs: (0, 0), ..table };
    near(alive(&[table, old], 2000).total(), 200.0, 1e-9);
    assert_eq!(alive(&[], 7), Ages::default());
}

#[test]
fn damage_is_found() {
    let bytes = Table::new((0..100).map(|n| (n, 1 + n, false))).sample;
    assert!(is_sample(&bytes));
    for n in 0..bytes.len() {
        assert!(!is_sample(&bytes[..n]), "cut at {n}");
    }
    let max = [255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
    // No limit, one above all hashes, more keys than bytes, a hash that overflows.
    let overflow = [&[9, 2][..], &max, &[2], &max, &[2]].concat();
    for hostile in [vec![0, 0], [&max[..], &[0]].concat(), vec![9, 250, 1, 1], overflow] {
        assert!(!is_sample(&hostile), "{hostile:?}");
    }
}
