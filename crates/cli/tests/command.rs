//! The command from outside: exit codes, and one clear line for each kind of wrong request.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Output};

fn sinter(args: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    sinter_in(directory.path(), args)
}

fn sinter_in(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinter")).args(args).current_dir(directory).env("TMPDIR", directory).output().unwrap()
}

/// Checks for exit code 2, nothing on stdout, and one line on stderr that contains `part`.
#[track_caller]
fn assert_refused(output: &Output, part: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("sinter: ") && stderr.contains(part), "{part:?} not in {stderr:?}");
    assert!(output.stdout.is_empty());
}

#[test]
fn wrong_flags_are_one_line() {
    let all = "advise, bench, check, export, import, inspect, report, run, serve, study and zones (see sinter --help)";
    assert_refused(&sinter(&[]), &format!("no command given; there are {all}"));
    let all = "backup, check, df, dump, format, map and restore (see sinter zones --help)";
    assert_refused(&sinter(&["zones"]), &format!("no command given; there are {all}"));
    assert_refused(&sinter(&["bnech"]), "did you mean bench?");
    assert_refused(&sinter(&["bench", "--nmu=5"]), "did you mean --num?");
    assert_refused(&sinter(&["bench", "--memtablerep=vector"]), "unknown flag --memtablerep");
    assert_refused(&sinter(&["bench", "--engine=rocksdb"]), "--engine is a flag of other commands, not of this one");
    assert_refused(&sinter(&["bench", "--cache-siez=5"]), "did you mean --cache_size?");
    assert_refused(&sinter(&["bench", "--num=many"]), "--num");
    assert_refused(&sinter(&["bench", "--num"]), "--num");
    assert_refused(&sinter(&["bench", "--sync=maybe"]), "expected true or false");
    assert_refused(&sinter(&["bench", "extra"]), "unexpected argument extra");
    assert_refused(&sinter(&["check", "a", "b"]), "unexpected argument b");
    assert_refused(&sinter(&["inspect", "x", "log", "-1"]), "unexpected argument -1");
    // `--from` is a flag of another command.
    assert!(!String::from_utf8_lossy(&sinter(&["bench", "--foo"]).stderr).contains("did you mean"));
    assert_refused(&sinter(&["inspect", "x", "log", "1", "--form=3"]), "did you mean --from?");
    assert_refused(&sinter(&["inspect"]), "<PATH|--store <STORE>>");
    assert_refused(&sinter(&["inspect", "x", "tabel", "1"]), "tabel");
    assert_refused(&sinter(&["inspect", "x", "table"]), "<NUMBER>");
}

/// A message that cannot be written changes no exit code, and a closed pipe ends a command as its reader wants.
#[test]
fn outputs_that_cannot_be_written_are_no_panic() {
    let directory = tempfile::tempdir().unwrap();
    let closed = || std::io::pipe().unwrap().1;
    let code = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinter"));
        command.args(args).current_dir(directory.path()).stdout(closed()).stderr(closed());
        command.status().unwrap().code()
    };
    let options = "[Version]\nrocksdb_version=9.1.0\n[DBOptions]\nno_such=1\n[CFOptions \"default\"]\n\
                   [TableOptions/BlockBasedTable \"default\"]\n";
    std::fs::write(directory.path().join("options.ini"), options).unwrap();
    assert_eq!(code(&["bench", "--nmu=5"]), Some(2));
    assert_eq!(code(&["bench", "--db=db", "--num=10", "--options_file=options.ini"]), Some(0));
    assert_eq!(code(&["serve", "--prot", "7", "--tmieout", "7"]), Some(2));
}

#[test]
fn wrong_values_are_one_line_too() {
    assert_refused(&sinter(&["bench", "--benchmarks=fillsek"]), "unknown workload \"fillsek\"");
    assert_refused(&sinter(&["bench", "--threads=0", "--key_size=0"]), "key_size must be 1 to 65534, not 0");
    assert_refused(&sinter(&["bench", "--key_size=2", "--num=70000"]), "room for 65536");
    assert_refused(&sinter(&["bench", "--compression_type=brotli"]), "brotli");
    assert_refused(&sinter(&["bench", "--compaction_style=2"]), "compaction_style");
    assert_refused(&sinter(&["bench", "--write_buffer_size=lots"]), "write_buffer_size");
    assert_refused(&sinter(&["bench", "--num_levels=99"]), "num_levels");
    assert_refused(&sinter(&["bench", "--sync", "--disable_wal=1"]), "sync and disable_wal exclude each other");
    assert_refused(&sinter(&["bench", "--benchmark_write_rate_limit=fast"]), "benchmark_write_rate_limit");
    assert_refused(&sinter(&["bench", "--zipf_alpha=1", "--read_random_exp_range=1"]), "exclude each other");
    assert_refused(&sinter(&["bench", "--memory=1GB", "--settings=x"]), "cannot be used with");
}

#[test]
fn wrong_paths_are_one_line_too() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "x").unwrap();
    std::fs::create_dir(directory.path().join("empty")).unwrap();
    let refused = |args: &[&str], part| assert_refused(&sinter_in(directory.path(), args), part);
    refused(&["bench", "--db=file"], "not a directory");
    refused(&["bench", "--db=file/below"], "--db file/below");
    refused(&["bench", "--db=missing", "--use_existing_db"], "missing: no such directory");
    refused(&["bench", "--db=empty", "--use_existing_db"], "empty: no database there");
    refused(&["bench", "--settings=missing.toml"], "missing.toml");
    refused(&["bench", "--options_file=missing.ini"], "missing.ini");
    refused(&["bench", "--json=missing/out.json"], "missing/out.json");
    for command in ["inspect", "check"] {
        refused(&[command, "missing"], "no such directory");
        refused(&[command, "file"], "file is a file, not a database directory");
        refused(&[command, "empty"], "no database there");
    }
    assert!(!directory.path().join("missing").exists(), "a refused request leaves nothing behind");
}

#[test]
fn a_database_in_use_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let db = sinterdb::Db::open(directory.path().join("db")).unwrap();
    db.put(b"k", b"v").unwrap();
    for more in ["--num=10", "--use_existing_db"] {
        let output = sinter_in(directory.path(), &["bench", "--db=db", "--benchmarks=fillseq", more]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains("the database is open elsewhere"), "{stderr}");
    }
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"v");
    db.close().unwrap();
}

#[test]
fn ctrl_c_ends_a_bench_with_a_summary() {
    use std::io::BufRead;
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sinter"))
        .args(["bench", "--db=db", "--json=out.json", "--num=1000", "--reads=1000000000", "--statistics"])
        .arg("--benchmarks=fillseq,readwhilewriting,overwrite")
        .current_dir(directory.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The first workload is done; the second would take hours.
    assert!(lines.any(|line| line.starts_with("fillseq")), "no result");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let rest: Vec<String> = lines.collect();
    let ended = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!((ended.status.code(), stderr.as_ref()), (Some(130), ""), "{rest:?}");
    assert!(rest.iter().any(|line| line == "STATISTICS:"), "{rest:?}");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(directory.path().join("out.json")).unwrap()).unwrap();
    let phases = report["phases"].as_array().unwrap();
    assert_eq!((report["failure"].as_str(), phases[0]["operations"].as_u64()), (Some("interrupted"), Some(1000)));
    assert!(phases.iter().all(|phase| phase["name"] != "overwrite"), "what had not begun does not begin");
    let check = sinter_in(directory.path(), &["check", "db"]);
    assert_eq!(check.status.code(), Some(0), "{}", String::from_utf8_lossy(&check.stdout));
}

#[test]
fn help_and_version_are_not_errors() {
    for args in [&["--help"][..], &["--version"], &["bench", "--help"], &["help", "inspect"]] {
        let output = sinter(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty());
    }
}

/// Makes a store with a manifest, a table and a log, without the engine.
fn make_store(directory: &Path) {
    use sinter_storage::store::{Cause, DirStore, FileId, Hint};
    use sinterdb::internal::manifest::{Edit, ManifestLog, ManifestState, NewFamily};
    let store = DirStore::open(directory, true).unwrap();
    let id = sinterdb::internal::checksum::DbId([7; 16]);
    let mut state = ManifestState::new(id);
    let family =
        NewFamily { id: 0, name: "default".into(), settings: "block_size = 4096\n".into(), operator: String::new(), num_levels: 7 };
    state.apply(&Edit { new_families: vec![family], new_logs: vec![2], ..Edit::default() }).unwrap();
    let mut log = sinterdb::internal::wal::LogWriter::create(&store, id, FileId::log(2), &Hint::new(Cause::Wal), &[]).unwrap();
    log.append(b"a record\xff").unwrap();
    log.sync().unwrap();
    ManifestLog::create(&store, 1, &state).unwrap();
}

#[test]
fn inspect_shows_the_parts_of_a_database() {
    let directory = tempfile::tempdir().unwrap();
    make_store(directory.path());
    let inspect = |args: &[&str]| {
        let output = sinter_in(directory.path(), &[&["inspect", "."], args].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(inspect(&[]).contains("family 0 \"default\": 0 tables"));
    assert!(inspect(&["manifest"]).contains("000001.manifest, 0 edits"));
    assert!(inspect(&["settings"]).contains("block_size = 4096"));
    assert!(inspect(&["log", "2"]).contains("9 bytes that are no operations: a record\\xff"));
    for view in [&["levels"][..], &["manifest"], &["settings"], &["log", "2"]] {
        let json: serde_json::Value = serde_json::from_str(&inspect(&[view, &["--json"]].concat())).unwrap();
        assert!(json.is_object(), "{view:?}");
    }
    let refused = |args: &[&str], part| assert_refused(&sinter_in(directory.path(), &[&["inspect", "."], args].concat()), part);
    refused(&["table", "9"], "the manifest names no table 9");
    refused(&["log", "9"], "there is no log 9; the manifest names log 2");
}

#[test]
fn inspect_says_which_codecs_were_chosen_and_why() {
    use sinterdb::internal::settings::parse_compression;
    use sinterdb::settings::{Codecs, FamilySettings};
    let directory = tempfile::tempdir().unwrap();
    let family = |compression| FamilySettings { compression, ..FamilySettings::default() };
    let db = sinterdb::Db::builder().family("default", family(Codecs::Auto)).open(directory.path()).unwrap();
    let side = db.create_family("side", family(parse_compression("zstd").unwrap())).unwrap();
    db.put(b"k", &[7; 10_000]).unwrap();
    db.put_with(&side, b"k", &[7; 10_000], &sinterdb::WriteOptions::default()).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let inspect = |args: &[&str]| String::from_utf8(sinter_in(directory.path(), &[&["inspect", "."], args].concat()).stdout).unwrap();
    let text = inspect(&["compression"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("\"default\": compression = auto") && lines[1].contains("level 0: none 1 tables, 0.0 MB, "), "{text}");
    assert!(lines[2].starts_with("    when table ") && lines[2].ends_with("): auto none: nothing is known yet"), "{text}");
    assert!(lines[3].ends_with("\"side\": compression = zstd") && lines[4].contains("level 0: zstd 1 tables"), "{text}");
    assert_eq!(lines.len(), 5, "{text}");
    let json: serde_json::Value = serde_json::from_str(&inspect(&["compression", "--json"])).unwrap();
    let level = &json["families"][0]["levels"][0];
    assert_eq!((level["codecs"][0]["codec"].as_str(), level["codecs"][0]["tables"].as_u64()), (Some("none"), Some(1)));
    assert_eq!(level["chosen"], "auto none: nothing is known yet");
    // A missing table hides itself, and nothing else.
    let tables = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    tables.filter(|path| path.extension().is_some_and(|end| end == "sst")).for_each(|path| std::fs::remove_file(path).unwrap());
    assert_eq!(inspect(&["compression"]).matches("level 0: 1 tables cannot be read, the first is ").count(), 2);
    let json: serde_json::Value = serde_json::from_str(&inspect(&["compression", "--json"])).unwrap();
    let unreadable = &json["families"][0]["levels"][0]["unreadable"][0];
    assert!(unreadable["table"].is_u64() && unreadable["error"].as_str().is_some_and(|what| !what.is_empty()), "{json}");
}

/// A codec decision is shown with its inputs: without threads, and with reference costs, it is the same every time.
#[test]
fn inspect_says_what_a_settled_verdict_rests_on() {
    use sinterdb::settings::{Codecs, DbSettings, FamilySettings};
    let directory = tempfile::tempdir().unwrap();
    let family = FamilySettings { compression: Codecs::Auto, ..FamilySettings::default() };
    let inline = DbSettings { max_background_jobs: 0, ..DbSettings::default() };
    let db = sinterdb::Db::builder().settings(inline).family("default", family).open(directory.path()).unwrap();
    for round in 0..2u32 {
        (0..4000u32).for_each(|n| db.put(&[n.to_be_bytes(), round.to_be_bytes()].concat(), &[n as u8; 250]).unwrap());
        db.flush().unwrap();
    }
    db.close().unwrap();
    let text = String::from_utf8(sinter_in(directory.path(), &["inspect", ".", "compression"]).stdout).unwrap();
    let reasons = text.lines().find(|line| line.contains(" is best of ")).unwrap_or_else(|| panic!("{text}"));
    for part in
        ["    when table ", "): auto ", " ns/B for 1.00, lz4 ", "(0.58 and 0.08 ns/B, x 1.00), zstd ", "(1.60 and 0.72 ns/B, x 1.00), "]
            .into_iter()
            .chain([" 0.00 reads per byte of 0.0 MB/s; writing 0.40 ns/B and 0.00 of waiting, reading for merges 0.20 and 0.00, "])
            .chain(["single reads 700 ns or 50000 ns (0.0 % of them), waiting x 0.50; 0.00 of 1.00 processors to spare; 1 samples"])
    {
        assert!(reasons.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn inspect_shows_when_entries_were_written() {
    use sinterdb::clock::ManualClock;
    use sinterdb::settings::{DbSettings, FamilySettings};
    let directory = tempfile::tempdir().unwrap();
    let clock = std::sync::Arc::new(ManualClock::default());
    clock.set_unix_seconds(1_700_000_000);
    let family = FamilySettings { preserve_internal_time_seconds: 100, ..FamilySettings::default() };
    let inline = DbSettings { max_background_jobs: 0, ..DbSettings::default() };
    let builder = sinterdb::Db::builder().clock(clock.clone()).settings(inline).family("default", family);
    let db = builder.open(directory.path()).unwrap();
    for key in [b"a", b"b"] {
        db.put(key, b"v").unwrap();
        clock.advance_seconds(10);
    }
    db.flush().unwrap();
    db.close().unwrap();
    let inspect = |args: &[&str]| String::from_utf8(sinter_in(directory.path(), &[&["inspect", "."], args].concat()).stdout).unwrap();
    let tables = std::fs::read_dir(directory.path()).unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let number = tables.filter_map(|name| Some(name.strip_suffix(".sst")?.trim_start_matches('0').to_owned())).next().unwrap();
    let text = inspect(&["table", &number]);
    for expected in ["created            1700000020", "zeroed_seq         0", "3 samples, seq 0 at 1700000000 to seq 2 at 1700000020"] {
        assert!(text.contains(expected), "{expected} not in\n{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&inspect(&["table", &number, "--json"])).unwrap();
    assert_eq!(json["properties"]["times"][1], serde_json::json!({ "seq": 1, "unix_seconds": 1_700_000_010 }));
    assert!(inspect(&["manifest"]).contains("times       3 samples, seq 0 at 1700000000 to seq 2 at 1700000020"));
}

/// Makes a database whose log has every kind of operation; returns the log's number.
fn make_log(directory: &Path) -> u64 {
    use sinterdb::operator::MergeOperator;
    use sinterdb::{Db, WriteBatch};
    #[derive(Debug)]
    struct Last;
    impl MergeOperator for Last {
        fn name(&self) -> &'static str {
            "last"
        }
        fn full_merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
            operands.last().copied().or(base).map(<[u8]>::to_vec)
        }
    }
    let db = Db::builder().merge_operator("default", std::sync::Arc::new(Last)).open(directory).unwrap();
    let side = db.create_family("side", sinterdb::settings::FamilySettings::default()).unwrap();
    let gone = db.create_family("gone", sinterdb::settings::FamilySettings::default()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"a\xff", &[7; 300]);
    batch.delete(b"b");
    batch.merge(b"c", b"+1");
    batch.delete_range_in(&side, b"d", b"e\\");
    batch.put_in(&gone, b"", b"");
    db.write(&mut batch, &sinterdb::WriteOptions::default()).unwrap();
    db.put_with(&side, &[b'k'; 100], b"v", &sinterdb::WriteOptions::default()).unwrap();
    db.put(b"z", b"").unwrap();
    db.put_at(b"zz", b"v", 1_700_000_000).unwrap();
    db.drop_family(&gone).unwrap();
    db.close().unwrap();
    let numbers = std::fs::read_dir(directory).unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    numbers.filter_map(|name| name.strip_suffix(".log")?.parse().ok()).max().unwrap()
}

#[test]
fn inspect_decodes_the_operations_of_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let log = make_log(directory.path()).to_string();
    let inspect = |args: &[&str]| {
        let output = sinter_in(directory.path(), &[&["inspect", ".", "log", &log], args].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = inspect(&[]);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut at = 0;
    for expected in [
        "1 \"default\" put a\\xff, 300 bytes",
        "2 \"default\" delete b",
        "3 \"default\" merge c, 2 bytes",
        "4 \"side\" delete_range d to e\\\\",
        "5 family 2 (dropped) put , 0 bytes",
        &format!("6 \"side\" put {}...(100 bytes)...{}, 1 bytes", "k".repeat(32), "k".repeat(16)),
        "7 \"default\" put z, 0 bytes",
        "8 \"default\" timed_put zz, 1 bytes, of 1700000000",
    ] {
        at += lines[at..].iter().position(|line| *line == expected).unwrap_or_else(|| panic!("{expected} not in order in\n{text}")) + 1;
    }
    assert!(!text.contains("--from="), "nothing is left out:\n{text}");

    let json = |args: &[&str]| serde_json::from_str::<serde_json::Value>(&inspect(&[args, &["--json"]].concat())).unwrap();
    let all = json(&[]);
    let operations = &all["records"][0]["operations"];
    assert_eq!(
        operations[0],
        serde_json::json!({
            "seq": 1, "family": 0, "family_name": "default", "kind": "put", "key": "a\\xff", "range_end": null, "value_bytes": 300,
            "unix_seconds": null,
        })
    );
    assert_eq!(operations[3]["range_end"], "e\\\\");
    assert_eq!(operations[4]["family_name"], serde_json::Value::Null);
    let timed = &all["records"][3]["operations"][0];
    assert_eq!((timed["value_bytes"].as_u64(), timed["unix_seconds"].as_u64()), (Some(1), Some(1_700_000_000)));
    assert_eq!(all["records"][1]["operations"][0]["key"], "k".repeat(100), "programs get keys whole");
    assert_eq!((all["next"].as_u64(), all["all"].as_u64()), (None, Some(4)));

    // Pages have whole records, and the offset of the next one.
    let first = json(&["--limit=1"]);
    assert_eq!((first["records"].as_array().unwrap().len(), first["all"].as_u64()), (1, Some(4)));
    let next = first["next"].to_string();
    assert!(inspect(&["--limit=1"]).contains(&format!("more with --from={next}")));
    let second = json(&["--limit=3", "--from", &next]);
    assert_eq!(second["records"].as_array().unwrap()[..], all["records"].as_array().unwrap()[1..]);
    assert_eq!(second["next"], serde_json::Value::Null);
    assert_eq!(json(&["--limit=0"]), all);
}

#[test]
fn damage_is_one_line_with_file_and_offset() {
    let directory = tempfile::tempdir().unwrap();
    make_store(directory.path());
    let path = directory.path().join("000001.manifest");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let output = sinter_in(directory.path(), &["inspect", "."]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.lines().count() == 1 && stderr.contains("corrupt: 000001.manifest at offset"), "{stderr}");
}
