//! Several folders on one page, and folders that cannot be drawn.

use super::*;

#[test]
fn runs_without_a_plan_are_told_apart_by_their_specs() {
    let folder = kept("sweep").join("results");
    fixture::write_runs(&folder, &fixture::sweep());
    let page = read(&write(&folder).unwrap());
    let figures = figures(&page);
    let bars = figures.iter().find(|figure| figure["id"] == "w0-0-write").unwrap();
    let labels: Vec<String> = bars["data"][0]["y"].as_array().unwrap().iter().map(|y| y.as_str().unwrap().replace("<br>", " ")).collect();
    assert_eq!(labels.len(), 6);
    assert_eq!(labels[0], "max_bytes_for_level_multiplier 4, write_buffer_size 4194304");
    let sweep = figures.iter().find(|figure| figure["id"] == "sweep-0").unwrap();
    assert_eq!(sweep["data"][0]["x"], serde_json::json!(["4194304", "8388608", "16777216"]));
    assert!(page.contains("12 finished, 1 failed") && page.contains("Runs that failed") && page.contains("results: 0012<"));
    let csv = read(&folder.join("results.csv"));
    assert!(
        csv.lines().next().unwrap().ends_with("max_bytes_for_level_multiplier,engine.families.default.settings.write_buffer_size"),
        "{csv}"
    );
}

#[test]
fn several_folders_are_compared() {
    let folder = kept("comparison");
    let mut study = fixture::study(3);
    study.cells.retain(|cell| cell.name.starts_with("A ") || cell.name.starts_with("C "));
    study.hypotheses.clear();
    let (before, after) = (folder.join("before"), folder.join("after"));
    fixture::write_study(&before, &study, "aaaaaaaaaaaaaaaaaaaa", 1.0);
    fixture::write_study(&after, &study, "bbbbbbbbbbbbbbbbbbbb", 1.5);
    let page = read(&compare(&[before, after], &folder.join("comparison.html")).unwrap());
    assert!(page.contains("<h1>before against after</h1>") && page.contains("What changed against before"));
    let changes = page.split_once("What changed against before").unwrap().1.split_once("</section>").unwrap().0;
    assert!(changes.contains("fillrandom: operations/s"));
    // A row for each cell and engine; headings, one table per workload, begin alike.
    assert_eq!(changes.matches("<tr><th>").count(), study.cells.len() * 2 + changes.matches("<table>").count());
    assert!(changes.contains("<b>+"), "the faster build is clearly faster");
    let csv = read(&folder.join("comparison.csv"));
    assert!(csv.lines().next().unwrap().contains(",results") && csv.contains("aaaaaaaaaaaa") && csv.contains("bbbbbbbbbbbb"));
}

/// A cell of another size is another one, whatever its name.
#[test]
fn only_what_was_asked_alike_is_compared() {
    let folder = kept("sizes");
    let mut study = fixture::study(2);
    study.cells.retain(|cell| cell.name.starts_with("A "));
    study.hypotheses.clear();
    fixture::write_study(&folder.join("before"), &study, "aaaaaaaaaaaaaaaaaaaa", 1.0);
    study.cells[0].settings.families[0].settings.insert("write_buffer_size".into(), "1048576".into());
    study.cells[1].workload.keys /= 2;
    fixture::write_study(&folder.join("after"), &study, "bbbbbbbbbbbbbbbbbbbb", 1.0);
    let page = read(&compare(&[folder.join("before"), folder.join("after")], &folder.join("sizes.html")).unwrap());
    let changes = page.split_once("What changed against before").unwrap().1.split_once("</section>").unwrap().0;
    let rows = |cell: usize| changes.matches(&format!("<th>{}, ", said(&study.name, &study.cells[cell].name))).count();
    assert_eq!([0, 1, 2, 3].map(rows), [0, 0, 2, 2], "{changes}");
}

#[test]
fn folders_of_the_same_name_stay_apart() {
    let folder = kept("twins");
    let paths = ["a/results", "b/results"].map(|path| folder.join(path));
    for (path, commit) in paths.iter().zip(["first", "second"]) {
        let mut records = fixture::sweep();
        records.iter_mut().for_each(|record| record.commit = Some(commit.into()));
        fixture::write_runs(path, &records);
    }
    let page = read(&compare(&paths, &folder.join("comparison.html")).unwrap());
    assert!(page.contains("a/results against ") && page.contains("first") && page.contains("second"));
    let same = [paths[0].clone(), paths[0].clone()];
    let page = read(&compare(&same, &folder.join("same.html")).unwrap());
    assert!(page.contains("results (1) against ") && page.contains("results (2)"));
}

#[track_caller]
fn refused(folder: &Path, parts: &[&str]) {
    match write(folder) {
        Err(Failure::Input(what)) => parts.iter().for_each(|part| assert!(what.contains(part), "{part:?} not in {what:?}")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_drawn_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    refused(&folder.join("none"), &["none: no such directory"]);
    fs::write(folder.join("file"), "").unwrap();
    refused(&folder.join("file"), &["file: not a directory"]);
    refused(folder, &["no results there"]);
    fixture::write_runs(folder, &fixture::sweep()[..2]);
    write(folder).unwrap();
    let good = read(&folder.join("runs/0001.json"));
    fs::write(folder.join("runs/0001.unfinished"), "{").unwrap();
    write(folder).unwrap();
    for (damage, part) in [
        (&good[..good.len() / 2], "runs/0001.json: EOF"),
        ("", "runs/0001.json: EOF"),
        ("[]", "runs/0001.json"),
        (&*good.replacen("\"version\":1", "\"version\":99", 1), "record version 99, this program reads version 1"),
        (&*good.replacen("\"engine_version\"", "\"motor\"", 1), "missing field `engine_version`"),
    ] {
        fs::write(folder.join("runs/0001.json"), damage).unwrap();
        refused(folder, &[part, "0001.json"]);
    }
    fs::write(folder.join("runs/0001.json"), good).unwrap();
    for (file, cut) in [("study.json", "{\"version\":"), ("verdicts.json", "[{\"group\":")] {
        fs::write(folder.join(file), cut).unwrap();
        refused(folder, &[&format!("{file}: EOF")]);
        fs::remove_file(folder.join(file)).unwrap();
    }
    fs::write(folder.join("study.json"), "{\"version\":1}").unwrap();
    refused(folder, &["study.json: missing field"]);
}

#[test]
fn what_is_not_there_yet_is_left_out() {
    let folder = kept("unfinished").join("results");
    Folder::create(&folder, &fixture::study(3)).unwrap();
    let page = read(&write(&folder).unwrap());
    assert!(page.contains("No run has finished yet.") && page.contains("the study has not been judged") && !page.contains("id=\"bulk\""));
    // A study of another version is told in its own words, and its runs are told apart by their specs.
    fs::write(folder.join("study.json"), "{\"version\":99,\"title\":\"From later\",\"questions\":[\"Which?\"]}").unwrap();
    fixture::write_runs(&folder, &fixture::sweep());
    let page = read(&write(&folder).unwrap());
    assert!(page.contains("<h1>From later</h1>") && page.contains("<p>Which?</p>"));
    assert!(visible(&page).contains("w0-0-write"));
}

#[test]
fn a_page_that_cannot_be_written_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    fixture::write_runs(scratch.path(), &fixture::sweep()[..1]);
    let page = scratch.path().join("missing/page.html");
    match compare(&[scratch.path().to_owned()], &page) {
        Err(Failure::Output(what)) => assert!(what.contains("missing/page.html"), "{what}"),
        other => panic!("{other:?}"),
    }
}

/// Runs as loose files, in an archive, and half in each give equal pages and tables.
#[test]
fn archived_runs_are_read_like_loose_ones() {
    let folder = kept("archive").join("results");
    let study = fixture::study(2);
    fixture::write_study(&folder, &study, "aaaaaaaaaaaaaaaaaaaa", 1.0);
    let report = || (read(&write(&folder).unwrap()), read(&folder.join("results.csv")));
    let loose = report();
    let first = fs::read(folder.join("runs/0000.json")).unwrap();
    archive(&folder).unwrap();
    let mut left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["index.html", "results.csv", "runs.jsonl.zst", "verdicts.json"]);
    assert!(report() == loose, "archived");
    // An interrupted archive leaves loose files beside their copies.
    fs::create_dir(folder.join("runs")).unwrap();
    fs::write(folder.join("runs/0000.json"), first).unwrap();
    assert!(report() == loose, "mixed");
    let mut changed = records(&folder).remove(&0).unwrap();
    changed.failure = Some("changed".into());
    fs::write(folder.join("runs/0000.json"), serde_json::to_string_pretty(&changed).unwrap()).unwrap();
    archive(&folder).unwrap();
    assert!(!folder.join("runs").exists() && report().0.contains("<td class=\"text\">changed</td>"), "the loose file is the newer one");
}
