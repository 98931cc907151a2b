use super::*;
use std::collections::BTreeMap;

fn spec() -> RunSpec {
    RunSpec {
        version: SPEC_VERSION,
        engine: EngineSpec {
            name: "sinter".into(),
            database: BTreeMap::new(),
            families: vec![FamilySpec { name: "default".into(), settings: BTreeMap::new() }],
            wal: true,
            ..EngineSpec::default()
        },
        medium: Medium { directory: "/tmp".into() },
        workload: named("ycsb-a", 1000, 100, 1).unwrap(),
        seed: 1,
        limits: Limits::default(),
    }
}

#[test]
fn named_workloads_are_valid_and_come_back_from_json() {
    for (name, _) in NAMED {
        let spec = RunSpec { workload: named(name, 1000, 100, 2).unwrap(), ..spec() };
        assert_eq!(spec.validate(), Vec::<String>::new(), "{name}");
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<RunSpec>(&json).unwrap(), spec);
    }
    assert!(named("ycsb-g", 1, 1, 1).is_none());
}

#[test]
fn ranges_cut_the_keys_without_a_gap() {
    for keys in [50, 1000, 999, u64::MAX] {
        let PhaseKind::Run { mixes, .. } = named("mixed-lifetime", keys, 1, 1).unwrap().phases.remove(2).kind else { panic!() };
        let ranges: Vec<_> = mixes.iter().map(|mix| mix.keys(keys)).collect();
        assert_eq!((ranges[0].start, ranges[2].end), (0, keys));
        assert_eq!((ranges[0].end, ranges[1].end), (ranges[1].start, ranges[2].start));
    }
}

fn refused(change: &dyn Fn(&mut RunSpec), complaints: &[&str]) {
    let mut spec = spec();
    change(&mut spec);
    assert_eq!(spec.validate(), complaints);
}

fn run(spec: &mut RunSpec) -> &mut PhaseKind {
    &mut spec.workload.phases[2].kind
}

#[test]
fn every_complaint_names_its_field() {
    refused(&|spec| spec.version = 0, &["version: must be 1, not 0"]);
    refused(&|spec| spec.engine.families.clear(), &["engine.families: must name at least one"]);
    refused(
        &|spec| spec.engine.families[0].name = "a b".into(),
        &["engine.families[0].name: \"a b\" must be printable, without blanks, quotes and brackets"],
    );
    refused(&|spec| (spec.engine.wal, spec.engine.sync) = (false, true), &["engine.sync: needs the write-ahead log (wal)"]);
    let two_lines = |spec: &mut RunSpec| _ = spec.engine.database.insert("a".into(), "1\n[b]".into());
    refused(&two_lines, &["engine: setting \"a\" must be a name and a value of one line, without #"]);
    refused(
        &|spec| (spec.workload.keys, spec.workload.key_size) = (70_000, 2),
        &["workload.keys: keys of 2 bytes have room for 65536, not 70000"],
    );
    refused(&|spec| spec.workload.value_size = ValueSize::Uniform(2, 1), &["workload.value_size.uniform: 2 is more than 1"]);
    refused(&|spec| spec.workload.compression_ratio = f64::NAN, &["workload.compression_ratio: must be 0 to 1, not NaN"]);
    refused(&|spec| spec.workload.phases[1].name = "load".into(), &["workload.phases[1].name: \"load\" is there twice"]);
    refused(
        &|spec| (spec.engine.name, spec.engine.in_place) = ("fjall".into(), Some(InPlace::New)),
        &["engine.in_place: is for sinter alone, without server, tiers and zones"],
    );
}

#[test]
fn complaints_about_a_phase_name_it() {
    fn mix(spec: &mut RunSpec) -> &mut Mix {
        let PhaseKind::Run { mixes, .. } = run(spec) else { panic!() };
        &mut mixes[0]
    }
    let at = "workload.phases[2] (run)";
    refused(
        &|spec| {
            let PhaseKind::Run { operations, threads, pace, warm_up_seconds, .. } = run(spec) else { panic!() };
            (*operations, *threads, *pace, *warm_up_seconds) = (None, 0, Pace::Open(0.0), -1.0);
        },
        &[
            &format!("{at}.threads: must be 1 to 1024, not 0"),
            &format!("{at}: one of operations and seconds must be given, and not both"),
            &format!("{at}.warm_up_seconds: must be at least 0 and less than seconds"),
            &format!("{at}.pace.open: must be more than 0, and at most 1000000000 per second"),
        ],
    );
    let call = |batch, untimed, bytes_per_second| Calls { batch, untimed, bytes_per_second, ..Calls::default() };
    refused(
        &|spec| {
            let PhaseKind::Run { calls, pace, .. } = run(spec) else { panic!() };
            (*calls, *pace) = (call(0, true, Some(0)), Pace::Open(1.0));
        },
        &[
            &format!("{at}.calls: batch must be 1 to 1048576, not 0"),
            &format!("{at}.calls: untimed and bytes_per_second need a closed pace"),
            &format!("{at}.calls: bytes_per_second must be at least 1"),
        ],
    );
    refused(
        &|spec| {
            let PhaseKind::Run { calls, mixes, .. } = run(spec) else { panic!() };
            *calls = call(2, false, None);
            mixes[0].operations.insert("walk".into(), 1.0);
        },
        &[
            &format!("{at}.calls: batch needs a phase of one of get, get_missing, put, delete"),
            &format!("{at}.mixes: walk and walk_back are the only operation of a phase"),
        ],
    );
    refused(
        &|spec| {
            let PhaseKind::Run { writer, .. } = run(spec) else { panic!() };
            *writer = Some(Writer { per_second: Some(0.0), distribution: Distribution::Zipf(-1.0) });
        },
        &[
            &format!("{at}.writer.per_second: must be more than 0, and at most 1000000000 per second"),
            &format!("{at}.writer.distribution: the exponent must be 0 to 100"),
        ],
    );
    let mixed = |change: &dyn Fn(&mut Mix), complaint: &str| {
        refused(&|spec| change(mix(spec)), &[&format!("{at}.mixes (all){complaint}")]);
    };
    mixed(&|mix| mix.weight = 0.0, ".weight: must be more than 0, and at most 1000000000");
    mixed(&|mix| mix.weight = 1e308, ".weight: must be more than 0, and at most 1000000000");
    mixed(&|mix| mix.family = Some("hot".into()), ".family: there is no family \"hot\"");
    mixed(&|mix| mix.range = (0.5, 0.50001), ".range: has no key");
    mixed(&|mix| mix.distribution = Distribution::Zipf(-1.0), ".distribution: the exponent must be 0 to 100");
    let infinite = ".operations.get: the weight must be more than 0, and at most 1000000000";
    mixed(&|mix| mix.operations = BTreeMap::from([("get".into(), f64::INFINITY)]), infinite);
    mixed(
        &|mix| mix.operations = BTreeMap::from([("read".into(), 1.0)]),
        ".operations.read: is none of get, get_missing, put, insert, delete, read_modify_write, scan, seek, walk, walk_back",
    );
}

#[test]
fn a_missing_key_is_longer_than_the_others() {
    let complaints = |key_size| {
        let mut spec = spec();
        spec.workload.key_size = key_size;
        let PhaseKind::Run { mixes, .. } = &mut spec.workload.phases[2].kind else { panic!() };
        mixes[0].operations = BTreeMap::from([("get_missing".into(), 1.0)]);
        spec.validate()
    };
    assert_eq!(complaints(65_534), [""; 0]);
    let longer = "needs a key_size of 65534 or less: its keys are longer by one";
    assert_eq!(complaints(65_535), [format!("workload.phases[2] (run).mixes (all).operations.get_missing: {longer}")]);
}

#[test]
fn zones_make_sense() {
    let mut spec = spec();
    let zones = |zone_bytes, zones, max_active, allocation: &str, reset: &str| ZonesSpec {
        zones,
        zone_bytes,
        zone_capacity: None,
        max_active,
        allocation: allocation.into(),
        reset: reset.into(),
        collector: Some("zenfs".into()),
        fallback: true,
        tells: true,
    };
    spec.engine.zones = Some(zones(1 << 20, 64, Some(14), "sinter", "lazy"));
    assert_eq!(spec.validate(), [""; 0]);
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<RunSpec>(&text).unwrap(), spec);
    spec.engine.zones.as_mut().unwrap().zone_capacity = Some(512);
    assert_eq!(spec.validate(), [""; 0]);
    let collector = Some("slow".to_string());
    spec.engine.zones = Some(ZonesSpec { zone_capacity: Some(1024), collector, ..zones(1000, 2, Some(1), "best", "never") });
    let complaints = spec.validate();
    let fields = ["zone_bytes", "zone_capacity", "zones", "max_active", "allocation", "reset", "collector"];
    let fields = fields.map(|field| format!("engine.zones.{field}: "));
    assert_eq!(complaints.len(), fields.len(), "{complaints:?}");
    assert!(complaints.iter().zip(&fields).all(|(complaint, field)| complaint.starts_with(field)), "{complaints:?}");
}

#[test]
fn a_clock_and_tiers_make_sense() {
    let tier = |temperature: &str, seek_ms| TierSpec {
        temperature: temperature.into(),
        directory: None,
        model: Some(MediumModel { read_mb_per_s: 100.0, write_mb_per_s: 0.0, seek_ms }),
    };
    let mut spec = spec();
    spec.engine.operations_per_clock_second = Some(0.0);
    spec.engine.tiers = vec![tier("tepid", 1.0), tier("cold", f64::NAN), TierSpec { model: None, ..tier("cold", 0.0) }];
    let rate = "must be more than 0, and at most 1000000000 per second";
    let expected = [
        format!("engine.operations_per_clock_second: {rate}"),
        "engine.tiers (tepid): is none of hot, warm, cool, cold, ice".to_string(),
        format!("engine.tiers (tepid).model.write_mb_per_s: {rate}"),
        format!("engine.tiers (cold).model.write_mb_per_s: {rate}"),
        "engine.tiers (cold).model.seek_ms: must be 0 to 1000000".to_string(),
        "engine.tiers (cold): is there twice".to_string(),
    ];
    assert_eq!(spec.validate(), expected);
}
