use super::super::alive::Alive;
use super::*;
use crate::run::{FamilySpec, named};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

fn engine() -> EngineSpec {
    let family = |name: &str| FamilySpec { name: name.into(), settings: BTreeMap::new() };
    EngineSpec {
        name: "model".into(),
        database: BTreeMap::new(),
        families: vec![family("default"), family("cold")],
        wal: true,
        ..EngineSpec::default()
    }
}

fn plan(workload: &Workload, phase: usize, seed: u64) -> Plan {
    Plan::of(&workload.phases[phase].kind, workload, &engine(), seed, phase, 0).unwrap()
}

fn take(plan: &Plan, thread: usize, count: usize) -> Vec<Request> {
    let mut requests = plan.requests(thread);
    (0..count).map(|_| requests.next_request()).collect()
}

/// The mixes of the last phase.
fn mixes(workload: &mut Workload) -> &mut Vec<Mix> {
    let Some(PhaseKind::Run { mixes, .. }) = workload.phases.last_mut().map(|phase| &mut phase.kind) else { panic!("no run") };
    mixes
}

#[test]
fn the_same_thread_of_the_same_seed_asks_for_the_same() {
    let workload = named("ycsb-e", 1000, 100, 2).unwrap();
    let first = take(&plan(&workload, 2, 1), 0, 100);
    assert_eq!(first, take(&plan(&workload, 2, 1), 0, 100));
    assert_ne!(first, take(&plan(&workload, 2, 2), 0, 100), "another seed");
    assert_ne!(first, take(&plan(&workload, 2, 1), 1, 100), "another thread");
}

#[test]
fn shares_are_those_of_the_weights() {
    let workload = named("mixed-lifetime", 10_000, 1, 1).unwrap();
    let plan = plan(&workload, 2, 7);
    let kinds: Vec<&str> = plan.kinds().collect();
    assert_eq!(kinds, ["short delete", "short put", "middle put", "long put"]);
    let requests = take(&plan, 0, 100_000);
    for (kind, (share, keys)) in [(0.06, 0..200), (0.54, 0..200), (0.3, 200..2000), (0.1, 2000..10_000)].into_iter().enumerate() {
        let of_kind = requests.iter().filter(|request| request.kind == kind);
        let count = of_kind.clone().count() as f64 / 1e5;
        assert!((count - share).abs() < 0.01, "{}: {count}", kinds[kind]);
        assert!(of_kind.clone().all(|request| matches!(request.key, Key::Loaded(number) if keys.contains(&number))), "{}", kinds[kind]);
    }
}

#[test]
fn a_load_meets_each_key_once() {
    for order in [Order::Sequential, Order::Random] {
        let mut workload = named("ycsb-c", 1001, 1, 3).unwrap();
        workload.phases[0].kind = PhaseKind::Load { order, threads: 3 };
        let plan = plan(&workload, 0, 1);
        let shares = [334, 334, 333];
        let all: Vec<Request> = shares.iter().enumerate().flat_map(|(thread, share)| take(&plan, thread, *share)).collect();
        let keys: BTreeSet<u64> = all.iter().map(|request| if let Key::Loaded(number) = request.key { number } else { panic!() }).collect();
        assert_eq!((all.len(), keys.len()), (1001, 1001));
        let ascending = take(&plan, 0, 334).windows(2).filter(|pair| matches!(pair, [a, b] if number(a) < number(b))).count();
        assert_eq!(ascending == 333, order == Order::Sequential, "{ascending}");
    }
}

fn number(request: &Request) -> u64 {
    match request.key {
        Key::Loaded(number) | Key::Inserted { number, .. } => number,
    }
}

#[test]
fn orders_of_seeds_phases_and_mixes_differ() {
    let mut workload = named("ycsb-c", 1000, 1, 1).unwrap();
    let puts = Mix { distribution: Distribution::Unique, ..mixes(&mut workload)[0].clone() };
    *mixes(&mut workload) = vec![puts.clone(), Mix { name: "other".into(), ..puts }];
    let mut orders = BTreeSet::new();
    for (seed, phase) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)] {
        let plan = Plan::of(&workload.phases[2].kind, &workload, &engine(), seed, phase, 0).unwrap();
        let requests = take(&plan, 0, 200);
        for name in ["all get", "other get"] {
            let of_mix = requests.iter().filter(|request| plan.kinds().nth(request.kind) == Some(name));
            assert!(orders.insert(of_mix.take(50).map(number).collect::<Vec<_>>()), "seed {seed}, phase {phase}, {name}");
        }
    }
}

#[test]
fn a_range_of_zero_is_uniform() {
    let mut workload = named("ycsb-c", 1000, 1, 1).unwrap();
    mixes(&mut workload)[0].distribution = Distribution::Exponential(0.0);
    let exponential = take(&plan(&workload, 2, 1), 0, 100);
    mixes(&mut workload)[0].distribution = Distribution::Uniform;
    assert_eq!(exponential, take(&plan(&workload, 2, 1), 0, 100));
}

#[test]
fn what_is_alive_is_counted_until_somebody_asks_to_stop() {
    let workload = named("ycsb-c", 1001, 1, 1).unwrap();
    let plan = plan(&workload, 0, 1);
    for (stop, counted) in [(false, 1001), (true, 0)] {
        let mut alive = Alive::new(2, 1001);
        assert_eq!(alive.replay(&plan, &[1001], &AtomicBool::new(stop)), !stop);
        assert_eq!(alive.keys(), Some(counted));
    }
}

#[test]
fn no_two_inserts_are_alike() {
    let mut workload = named("ycsb-d", 1000, 1, 3).unwrap();
    let mut second = mixes(&mut workload)[0].clone();
    (second.name, second.range) = ("other".into(), (0.5, 1.0));
    mixes(&mut workload).push(second);
    let first = plan(&workload, 2, 1);
    let mut seen = BTreeSet::new();
    let mut insert_all = |plan: &Plan| {
        for thread in 0..3 {
            for request in take(plan, thread, 2000).iter().filter(|request| request.operation == Operation::Insert) {
                assert!(seen.insert(number(request)), "{request:?}");
                let Key::Inserted { neighbour, .. } = request.key else { panic!("{request:?}") };
                let least = if plan.kinds().nth(request.kind) == Some("other insert") { 500 } else { 0 };
                assert!((least..1000).contains(&neighbour), "{request:?}");
            }
        }
    };
    insert_all(&first);
    let next = Plan::of(&workload.phases[2].kind, &workload, &engine(), 1, 3, first.next_insert(2000)).unwrap();
    insert_all(&next);
    assert!(seen.len() > 500, "{}", seen.len());
}

#[test]
fn latest_asks_for_what_its_thread_inserted() {
    let workload = named("ycsb-d", 1000, 1, 2).unwrap();
    let plan = plan(&workload, 2, 1);
    for thread in 0..2 {
        let mut inserted = BTreeSet::new();
        let mut hits = 0;
        for request in take(&plan, thread, 20_000) {
            match (request.operation, request.key) {
                (Operation::Insert, _) => assert!(inserted.insert(number(&request))),
                (_, Key::Inserted { number, .. }) => {
                    assert!(inserted.contains(&number), "{request:?}");
                    hits += 1;
                }
                (_, Key::Loaded(number)) => assert!(number < 1000),
            }
        }
        // A thousand inserts are the younger half of all keys, and by Zipf's law they get most requests.
        assert!(hits > 10_000, "{hits}");
    }
}

#[test]
fn a_mix_has_its_family_and_sizes() {
    let mut workload = named("hot-cold", 1000, 1, 1).unwrap();
    workload.value_size = ValueSize::Uniform(10, 20);
    mixes(&mut workload)[1].family = Some("cold".into());
    mixes(&mut workload)[1].operations = BTreeMap::from([("scan".into(), 1.0)]);
    let plan = plan(&workload, 2, 1);
    for request in take(&plan, 0, 1000) {
        let (family, sizes) = match request.operation {
            Operation::Scan => (1, 1..=100),
            Operation::Put => (0, 10..=20),
            _ => (0, 0..=0),
        };
        assert!(request.family == family && sizes.contains(&request.size), "{request:?}");
    }
    assert_eq!(plan.families(|operation| operation == Operation::Scan).collect::<Vec<_>>(), [1]);
}

#[test]
fn every_operation_of_a_mix_is_one() {
    let all: Vec<Operation> = crate::run::OPERATIONS.iter().filter_map(|name| Operation::named(name)).collect();
    assert_eq!((all.len(), all[5]), (10, Operation::ReadModifyWrite));
}

#[test]
fn the_writer_is_a_thread_of_its_own() {
    let mut workload = named("ycsb-b", 500, 100, 2).unwrap();
    let alone = plan(&workload, 2, 1);
    let Some(PhaseKind::Run { writer, .. }) = workload.phases.last_mut().map(|phase| &mut phase.kind) else { panic!("no run") };
    *writer = Some(Writer { per_second: Some(1.0), distribution: Distribution::Unique });
    let beside = plan(&workload, 2, 1);
    assert_eq!((alone.threads(), alone.clients(), beside.threads(), beside.clients()), (2, 2, 3, 2));
    assert_eq!(beside.kinds().collect::<Vec<_>>(), ["all get", "all put", "writer put"]);
    for thread in 0..2 {
        assert_eq!(take(&alone, thread, 1000), take(&beside, thread, 1000), "clients do not notice it");
    }
    let puts = take(&beside, 2, 500);
    assert!(puts.iter().all(|request| (request.kind, request.operation, request.size) == (2, Operation::Put, 1000)));
    let keys: BTreeSet<_> = puts.iter().map(|request| format!("{:?}", request.key)).collect();
    assert_eq!(keys.len(), 500, "all keys are its own, each once");
}

/// The short way to requests of one kind draws those that are counted again later.
#[test]
fn requests_of_one_kind_are_the_same_by_both_ways() {
    for operation in ["get", "put", "read_modify_write", "scan", "seek"] {
        for distribution in [Distribution::Sequential, Distribution::Unique, Distribution::Uniform, Distribution::Zipf(0.99)] {
            let mut workload = named("ycsb-c", 1000, 1, 2).unwrap();
            workload.value_size = ValueSize::Uniform(10, 20);
            mixes(&mut workload)[0].operations = BTreeMap::from([(operation.to_string(), 1.0)]);
            (mixes(&mut workload)[0].distribution, mixes(&mut workload)[0].range) = (distribution, (0.5, 1.0));
            let plan = plan(&workload, 2, 1);
            let mut requests = plan.requests(1);
            let mut only = requests.only().unwrap();
            for request in take(&plan, 1, 1000) {
                let number = only.number();
                let size = match request.operation {
                    Operation::Scan | Operation::Seek => only.length(),
                    operation if operation.writes_value() => only.value_size(),
                    _ => 0,
                };
                let asked = Request { kind: only.kind, operation: only.operation, family: only.family, key: Key::Loaded(number), size };
                assert_eq!(asked, request, "{distribution:?}");
            }
        }
    }
}

/// FNV-1a (64 bits) of all fields of the first ten thousand requests of the second of two threads.
fn fingerprint(workload: &Workload, seed: u64) -> u64 {
    let fields = |request: &Request| {
        let (number, inserted) = match request.key {
            Key::Loaded(number) => (number, u64::MAX),
            Key::Inserted { neighbour, number } => (neighbour, number),
        };
        [request.kind as u64, request.operation as u64, request.family as u64, number, inserted, request.size as u64]
    };
    let bytes = take(&plan(workload, 2, seed), 1, 10_000).into_iter().flat_map(|request| fields(&request)).flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Computed by a second implementation, in Python. There they stay the same if results of `exp`, `ln`, `exp_m1` and `ln_1p` are off by
/// a unit in the last place at random, so a machine with another C library has the same requests.
#[test]
fn requests_are_the_same_on_all_machines() {
    let ycsb = |name: &str, value_size| Workload { value_size, ..named(name, 100_000, 10_000, 2).unwrap() };
    let fixed = ValueSize::Fixed(1000);
    let pareto = ValueSize::Pareto { scale: 25.45, shape: 0.2615, most: 1 << 20 };
    for (name, value_size, expected) in [
        ("ycsb-a", fixed, [0xccbc_08d2_edef_344e, 0xae0c_7429_c2f7_ba7a]),
        ("ycsb-a", ValueSize::Uniform(10, 200), [0xa1c4_46e3_2c23_782b, 0x83aa_ecc0_918c_a74f]),
        ("ycsb-a", pareto, [0x0972_9afc_9520_ee28, 0x242d_b5ea_d2e9_aec3]),
        ("ycsb-d", fixed, [0x6885_8537_2055_8c14, 0xa780_9f20_dcd9_4eb8]),
        ("ycsb-e", fixed, [0xa64e_8cc4_650b_88a3, 0xf949_4a47_a3d7_9e90]),
        ("mixed-lifetime", fixed, [0xe5c6_2e5a_2aa3_14a3, 0x6f09_b36d_b8bc_3c41]),
    ] {
        let workload = ycsb(name, value_size);
        assert_eq!([1, 2].map(|seed| fingerprint(&workload, seed)), expected, "{name} {value_size:?}");
    }
}
