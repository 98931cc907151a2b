//! Studies of a workload of one's own.

use super::*;

fn own(json: &str) -> Result<Study, Error> {
    let workload: Workload = serde_json::from_str(json).unwrap();
    catalogue::own_workload(workload, &request(&["sinter"], 2))
}

#[test]
fn a_workload_of_ones_own_meets_many_settings() {
    let study = own(r#"{"name": "mine", "keys": 1000, "key_size": 16, "value_size": {"fixed": 100}, "compression_ratio": 0.5, "phases": [
            {"name": "load", "kind": {"load": {"order": "random", "threads": 1}}},
            {"name": "settled", "kind": "settle"},
            {"name": "work", "kind": {"run": {"operations": 100, "seconds": null, "threads": 1, "pace": "closed", "warm_up_seconds": 0,
              "mixes": [{"name": "a", "weight": 1, "family": "other", "range": [0, 1], "distribution": "uniform",
                         "operations": {"put": 1}, "scan_length": 1}]}}},
            {"name": "paid", "kind": "settle"}]}"#)
    .unwrap();
    assert_eq!(study.cells.len(), 12);
    for cell in &study.cells {
        assert_eq!(cell.measures["all"], ["work", "paid"]);
        assert_eq!(cell.settings.families.iter().map(|family| family.name.as_str()).collect::<Vec<_>>(), ["default", "other"]);
        assert!(matches!(cell.workload.phases[2].kind, PhaseKind::Run { .. }));
    }
    let fake = Fake::new();
    let folder = fake.folder(&study);
    for run in study.runs() {
        let total = if run.cell == "universal, 4 runs" { 200 } else { 400 };
        folder.keep(&run, &record(study.spec(&run).unwrap(), total)).unwrap();
    }
    let rows = table(&study, &Results::read(&study, &folder).unwrap());
    assert_eq!((rows.len(), rows[0].cell.as_str(), rows[0].undominated), (12, "universal, 4 runs", true));
    assert!(rows[1..].iter().all(|row| !row.undominated), "it wrote less and was no worse in anything");
    assert!(own(r#"{"name": "x", "keys": 1, "key_size": 16, "value_size": {"fixed": 1}, "compression_ratio": 1, "phases": []}"#).is_err());
}

/// Phases that leave compactions are followed by one that finishes them, whatever the workload says.
#[test]
fn debts_of_a_workload_of_ones_own_are_paid() {
    let load = r#"{"name": "load", "kind": {"load": {"order": "random", "threads": 1}}}"#;
    let work = r#"{"name": "work", "kind": {"run": {
        "operations": 100, "seconds": null, "threads": 1, "pace": "closed", "warm_up_seconds": 0,
        "mixes": [{"name": "a", "weight": 1, "range": [0, 1], "distribution": "uniform", "operations": {"put": 1}, "scan_length": 1}]}}}"#;
    let compact = r#"{"name": "merged", "kind": "compact"}"#;
    let phases = |list: &[&str]| -> (Vec<String>, Vec<String>) {
        let json = r#"{"name": "mine", "keys": 10, "key_size": 16, "value_size": {"fixed": 9}, "compression_ratio": 1, "phases": [LIST]}"#;
        let cell = own(&json.replace("LIST", &list.join(","))).unwrap().cells[0].clone();
        let names = cell.workload.phases.iter().map(|phase| phase.name.clone()).collect();
        let paid = cell.workload.phases.iter().filter(|phase| phase.name.ends_with("(settled)"));
        assert!(paid.into_iter().all(|phase| phase.kind == PhaseKind::Settle));
        (names, cell.measures["all"].clone())
    };
    let paid = ["load", "load (settled)", "work", "work (settled)"].map(str::to_owned).to_vec();
    assert_eq!(phases(&[load, work]), (paid.clone(), paid[2..].to_vec()));
    assert_eq!(phases(&[load]), (paid[..2].to_vec(), paid[..2].to_vec()));
    assert_eq!(phases(&[work]), (paid[2..].to_vec(), paid[2..].to_vec()));
    assert_eq!(phases(&[load, compact, work, r#"{"name": "end", "kind": "settle"}"#]).0, ["load", "merged", "work", "end"]);
}
