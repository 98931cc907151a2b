//! Tiers from outside: bench makes them, inspect shows them, check verifies them; they have to be named only once.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Output};

fn sinter(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinter")).args(args).current_dir(directory).env("TMPDIR", directory).output().unwrap()
}

/// Output of a command, which must succeed.
#[track_caller]
fn prints(directory: &Path, args: &[&str]) -> String {
    let output = sinter(directory, args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_tiered_database_is_made_shown_and_verified() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let bench = ["bench", "--db=db", "--num=3000", "--tier=cold=slow", "--temperature_ages=cold", "--tier_model=cold=0.1,1000"];
    prints(at, &[&bench[..], &["--benchmarks=fillrandom,flush,waitforcompaction,readrandom"]].concat());
    let json: serde_json::Value = serde_json::from_str(&prints(at, &["inspect", "db", "tiers", "--json"])).unwrap();
    let tiers = json["tiers"].as_array().unwrap();
    assert_eq!((tiers.len(), tiers[0]["tier"].as_str(), tiers[1]["tier"].as_str()), (2, Some("primary"), Some("cold")));
    assert_eq!((tiers[0]["tables"].as_u64(), tiers[0]["other_files"].as_u64().unwrap() > 0), (Some(0), true), "{json}");
    assert!(tiers[1]["tables"].as_u64().unwrap() > 0 && tiers[1]["read_us"]["reads"].as_u64().unwrap() > 0, "{json}");
    assert_eq!(tiers[1]["directory"].as_str(), at.join("slow").canonicalize().unwrap().to_str());
    assert_eq!((json["elsewhere"]["tables"].as_u64(), json["missing"].as_u64()), (Some(0), Some(0)));
    let gets = &tiers[1]["gets"];
    assert!((64..=6000).contains(&gets["answered"].as_u64().unwrap()) && gets["percent"].as_f64() == Some(100.0), "{json}");
    let text = prints(at, &["inspect", "db", "--tiers"]);
    assert!(text.contains("  answered about ") && text.contains(" gets, 100.0 % of those that tables did, "), "{text}");
    assert!(text.starts_with("primary ") && text.contains("\ncold ") && text.contains("written as cold"), "{text}");
    assert!(text.contains("oldest write ") && text.contains("a read of 4096 bytes takes "), "{text}");
    assert!(prints(at, &["inspect", "db", "manifest"]).contains("tier        cold, known by "));
    assert!(prints(at, &["inspect", "db"]).contains(" MB, cold, "), "each table says how warm it is");
    assert!(prints(at, &["inspect", "db", "compression"]).contains("level 0: snappy"), "tables on tiers are found");
    assert!(prints(at, &["check", "db"]).contains("clean"));
    // Overwrites the existing database.
    prints(at, &[&bench[..], &["--benchmarks=fillseq,flush"]].concat());
    assert!(prints(at, &["check", "db"]).contains("clean"));
}

#[test]
fn what_keeps_data_from_the_last_level_is_told() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let told = |age: &str| {
        let (db, age) = (format!("--db={age}"), format!("--preclude_last_level_data_seconds={age}"));
        prints(at, &["bench", &db, &age, "--num=3000", "--last_level_temperature=cold", "--benchmarks=fillrandom,compact"]);
        let db = db.trim_start_matches("--db=");
        let json: serde_json::Value = serde_json::from_str(&prints(at, &["inspect", db, "tiers", "--json"])).unwrap();
        (prints(at, &["inspect", db, "tiers"]), json["kept"].clone())
    };
    let (text, json) = told("auto");
    assert!(text.contains("family \"default\": auto: keeps "), "{text}");
    assert!(json[0]["family"] == "default" && json[0]["kept"].as_str().unwrap().starts_with("auto: keeps "), "{json}");
    assert!(told("3600").0.contains("family \"default\": what is younger than 1h stays above the last level\n"));
    let (text, json) = told("0");
    assert!(!text.contains("family ") && json.as_array().unwrap().is_empty(), "{text}");
}

/// The slow medium is a volume on a zoned drive, found again by every opener of the database.
#[test]
fn a_tier_on_a_zoned_drive_is_made_shown_and_verified() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    prints(at, &["zones", "format", "--emulate", "zones.img,64x1MiB"]);
    let bench = ["bench", "--db=db", "--num=3000", "--tier=cold=zoned:zones.img", "--temperature_ages=cold"];
    prints(at, &[&bench[..], &["--benchmarks=fillrandom,flush,waitforcompaction,readrandom"]].concat());
    let json: serde_json::Value = serde_json::from_str(&prints(at, &["inspect", "db", "tiers", "--json"])).unwrap();
    assert!(json["tiers"][1]["tables"].as_u64().unwrap() > 0 && json["tiers"][0]["tables"] == 0, "{json}");
    let text = prints(at, &["inspect", "db", "tiers"]);
    assert!(text.contains(&format!("\ncold zoned:{}: ", at.canonicalize().unwrap().join("zones.img").display())), "{text}");
    assert!(prints(at, &["check", "db"]).contains("clean"));
    // Overwrites the existing database, as slow as a disk.
    prints(at, &[&bench[..], &["--tier_model=cold=0.1,1000", "--benchmarks=fillseq,flush"]].concat());
    assert!(prints(at, &["check", "db"]).contains("clean"));
    prints(at, &["zones", "check", "zones.img"]);
    let other = sinter(at, &["bench", "--db=other", "--num=10", "--tier=cold=zoned:zones.img", "--benchmarks=fillseq"]);
    let said = String::from_utf8_lossy(&other.stderr);
    assert!(!other.status.success() && said.contains("cannot be attached"), "{said}");
}

/// The tier of the last level, as inspect reports it for one tier and an age chosen by the engine.
#[test]
fn the_last_level_of_one_line_is_told() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    prints(
        at,
        &["bench", "--db=db", "--tier=cold=slow", "--preclude_last_level_data_seconds=auto", "--num=3000", "--benchmarks=fillrandom"],
    );
    let text = prints(at, &["inspect", "db", "tiers"]);
    assert!(text.contains("the last level is cold, as the coldest tier: last_level_temperature is not set\n"), "{text}");
}

/// Young data that was compacted into the last level is not promoted for its age, and inspect does not count it as waiting for that.
#[test]
fn what_will_not_move_does_not_wait_to_be_moved() {
    use sinterdb::Db;
    use sinterdb::settings::{DbSettings, FamilySettings, Preclude};
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    std::fs::create_dir(at.join("slow")).unwrap();
    let tiers = format!("cold={}", at.join("slow").display()).parse().unwrap();
    let family = FamilySettings { temperature_ages: "cold".parse().unwrap(), ..FamilySettings::default() };
    let settings = DbSettings { tiers, max_background_jobs: 0, ..DbSettings::default() };
    let db = Db::builder().settings(settings).family("default", family.clone()).open(at.join("db")).unwrap();
    let default = db.default_family();
    db.put(b"key", b"value").unwrap();
    db.compact_range(&default, None, None).unwrap();
    let moves = || db.stats().tickers.iter().find(|(name, _)| *name == "sinterdb.tier.move.count").unwrap().1;
    let sinking = FamilySettings {
        temperature_ages: "hot 1h, cold".parse().unwrap(),
        preclude_last_level_data_seconds: Preclude::Seconds(3600),
        ..family.clone()
    };
    db.change_family_settings(&default, sinking).unwrap();
    db.wait_for_compactions().unwrap();
    assert_eq!(moves(), 0);
    let elsewhere = || {
        let json: serde_json::Value = serde_json::from_str(&prints(at, &["inspect", "db", "tiers", "--json"])).unwrap();
        json["elsewhere"]["tables"].as_u64()
    };
    assert_eq!(elsewhere(), Some(0));
    // Without an age that keeps data above the last level, the table is in the wrong place.
    db.change_family_settings(&default, FamilySettings { temperature_ages: "hot 1h, cold".parse().unwrap(), ..family }).unwrap();
    assert_eq!(elsewhere(), Some(u64::from(moves() == 0)));
}

#[test]
fn what_is_wrong_with_a_tier_is_one_line() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    prints(at, &["bench", "--db=db", "--num=500", "--tier=cold=slow", "--temperature_ages=cold", "--benchmarks=fillseq,flush"]);
    let failed = |args: &[&str], code: i32, part: &str| {
        let output = sinter(at, args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {part:?} not in {said}");
    };
    failed(&["inspect", "slow"], 2, "this is a tier of a database");
    failed(&["inspect", "db", "levels", "--tiers"], 2, "--tiers is a view of its own");
    let mut files = std::fs::read_dir(at.join("slow")).unwrap().map(|entry| entry.unwrap().path());
    let identity = files.find(|path| path.extension().is_some_and(|end| end == "tier")).unwrap();
    let good = std::fs::read(&identity).unwrap();
    let mut bad = good.clone();
    bad[20] ^= 1;
    std::fs::write(&identity, &bad).unwrap();
    failed(&["check", "db"], 1, identity.file_name().unwrap().to_str().unwrap());
    std::fs::write(&identity, &good).unwrap();
    std::fs::rename(at.join("slow"), at.join("away")).unwrap();
    failed(&["check", "db"], 2, "is its medium mounted?");
    // Readable tiers are shown.
    let output = sinter(at, &["inspect", "db", "tiers"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("cold: cannot be looked at") && text.contains("tables are in none of these; they may lie"),
        "{text}"
    );
    // The loss is reported once.
    assert_eq!((text.matches("slow").count(), text.matches("cold").count(), output.stderr.len()), (1, 1, 0), "{text}");
    let bench = sinter(at, &["bench", "--db=db", "--use_existing_db", "--benchmarks=readseq"]);
    let said = String::from_utf8_lossy(&bench.stderr);
    assert_eq!((said.matches("slow").count(), said.matches("No such file").count()), (1, 1), "{said}");
    let json: serde_json::Value = serde_json::from_slice(&sinter(at, &["inspect", "db", "tiers", "--json"]).stdout).unwrap();
    assert!(json["missing"] == 0 && json["unseen"].as_u64().unwrap() > 0, "what cannot be seen is not missing: {json}");
    std::fs::rename(at.join("away"), at.join("slow")).unwrap();
    prints(at, &["check", "db"]);
}

/// Ages are relative to the database's newest time, which does not go back with the machine's clock.
#[test]
fn ages_go_by_the_newest_time_that_was_noted() {
    use sinterdb::Db;
    use sinterdb::clock::ManualClock;
    use sinterdb::settings::{DbSettings, FamilySettings};
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let clock = std::sync::Arc::new(ManualClock::default());
    let ahead = 4_000_000_000;
    clock.set_unix_seconds(ahead);
    let family = FamilySettings { temperature_ages: "hot 1h, cold".parse().unwrap(), ..FamilySettings::default() };
    let settings = DbSettings { max_background_jobs: 0, ..DbSettings::default() };
    let db = Db::builder().clock(clock.clone()).settings(settings).family("default", family).open(at.join("db")).unwrap();
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    clock.advance_seconds(7200);
    db.put(b"other", b"value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let json: serde_json::Value = serde_json::from_str(&prints(at, &["inspect", "db", "tiers", "--json"])).unwrap();
    let tier = &json["tiers"][0];
    let ages: Vec<_> = tier["by_age"].as_array().unwrap().iter().map(|age| age["age"].as_str().unwrap()).collect();
    assert_eq!((tier["now"].as_u64(), ages), (Some(ahead + 7200), vec!["up to 1m", "up to 1d"]), "{json}");
}

/// While another process writes, a table that was compacted since the manifest was read does not count as missing.
#[test]
fn what_is_being_rewritten_is_not_missing() {
    use sinterdb::Db;
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let db = Db::open(at.join("db")).unwrap();
    let default = db.default_family();
    let inspect = || {
        let json: serde_json::Value = serde_json::from_str(&prints(at, &["inspect", "db", "tiers", "--json"])).unwrap();
        assert_eq!(json["missing"], 0, "{json}");
    };
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| (0..10).for_each(|_| inspect()));
        while !looks.is_finished() {
            db.put(b"key", b"value").unwrap();
            db.flush().unwrap();
            db.compact_range(&default, None, None).unwrap();
        }
    });
}
