//! docs/server/configuration.md lists every name of the configuration. The server's own tables generate the lists; `REWRITE=1` writes them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use sinter_server::command::configuration::{ABSENT, FIXED, FREE, PARAMETERS};
use sinter_server::command::{Configuration, Server, metrics};
use sinter_server::keyspace::Keyspace;
use sinter_storage::store::MemoryStore;
use sinterdb::settings::Settings;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

fn code(names: &str) -> String {
    names.split(' ').map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn value(text: &str) -> String {
    if text.is_empty() { "empty".into() } else { format!("`{text}`") }
}

fn tables() -> String {
    let defaults = Configuration::default();
    let mut text = String::from("## Implemented\n\n| name | default | `CONFIG SET` | what it does |\n|---|---|---|---|\n");
    for parameter in PARAMETERS.iter() {
        let changes = if parameter.changes { "yes" } else { "no" };
        let names = code(&parameter.names().collect::<Vec<_>>().join(" "));
        writeln!(text, "| {names} | {} | {changes} | {} |", value(&parameter.value(&defaults)), parameter.about).unwrap();
    }
    text.push_str("\n## Accepted at fixed values\n\n| names | values | why there are no others |\n|---|---|---|\n");
    for fixed in FIXED {
        let values = fixed.values.split('|').map(value).collect::<Vec<_>>().join(" or ");
        writeln!(text, "| {} | {values} | {} |", code(fixed.names), fixed.why).unwrap();
    }
    text.push_str("\n## Stored without effect\n\n`CONFIG GET` returns them.\n\n");
    text.push_str("| names | default | values | why they have no effect |\n|---|---|---|---|\n");
    for free in FREE {
        writeln!(text, "| {} | {} | {} | {} |", code(free.names), value(free.default), free.accepts(), free.why).unwrap();
    }
    text.push_str("\n## Rejected\n\n| names | why |\n|---|---|\n");
    for (names, why) in ABSENT {
        writeln!(text, "| {} | {why} |", code(names)).unwrap();
    }
    text
}

#[test]
fn the_list_of_names_is_the_servers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/server/configuration.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (start, end) = ("<!-- names -->\n", "<!-- end of names -->\n");
    let (before, rest) = text.split_once(start).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let expected = [before, start, &tables(), end, after].concat();
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, expected).unwrap();
    } else {
        assert!(
            text == expected,
            "configuration.md differs from the server; REWRITE=1 cargo test -p sinter-server --test server documentation"
        );
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The lines of a file of systemd without comments.
fn lines_of(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// The files in `dist` name only directives that exist.
#[test]
fn files_that_start_the_server_are_valid() {
    let unit = read("dist/sinterdb.service");
    let lines = lines_of(&unit);
    for section in ["[Unit]", "[Service]", "[Install]"] {
        assert_eq!(lines.iter().filter(|line| *line == section).count(), 1, "{section}");
    }
    assert!(lines.iter().all(|line| line.starts_with('[') || line.split_once('=').is_some_and(|(name, _)| !name.contains(' '))), "{unit}");
    assert!(lines.iter().any(|line| line == "ExecStart=/usr/bin/sinter serve /etc/sinterdb/sinterdb.conf --supervised systemd"), "{unit}");
    // The drop-in replaces the line that starts the server, by one that names another file.
    let started = |file: &str| lines_of(&read(file)).into_iter().filter(|line| line.starts_with("ExecStart=")).collect::<Vec<_>>();
    let (unit, other) = (started("dist/sinterdb.service"), started("dist/replicated.conf"));
    let replaced = unit[0].replace("/etc/sinterdb", "/var/lib/sinterdb");
    assert_eq!(other, ["ExecStart=", &replaced]);
    let mut complaints = Vec::new();
    let file = read("dist/sinterdb.conf");
    let mut configuration = Configuration::default();
    for directive in sinter_server::command::configuration::read_text(file.as_bytes(), "sinterdb.conf", &mut complaints) {
        assert_eq!(configuration.set(&directive.name, &directive.value().unwrap()), Ok(()), "{}", directive.place);
    }
    assert!(complaints.is_empty(), "{complaints:?}");
    let image = read("dist/Dockerfile");
    for (start, count) in [("FROM ", 2), ("ENTRYPOINT ", 1), ("USER ", 1), ("VOLUME ", 1), ("EXPOSE ", 1), ("HEALTHCHECK ", 1)] {
        assert_eq!(image.lines().filter(|line| line.starts_with(start)).count(), count, "{start}");
    }
}

/// A killed server starts fifteen seconds after `down-after-milliseconds` of its Sentinels, on one machine and on three.
#[test]
fn servers_start_after_a_failover() {
    let page = read("docs/server/high-availability.md");
    let says = |line: &str| assert!(page.lines().any(|other| other == line), "{line}");
    says("sentinel down-after-milliseconds sinter $((2500 + 500 * n))");
    says("    sleep 18");
    says("sentinel down-after-milliseconds sinter 5000");
    let waits = "ExecStartPre=/bin/sleep 20";
    assert!(lines_of(&read("dist/replicated.conf")).iter().any(|line| line == waits) && page.contains(waits));
}

/// Metrics that a text names.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let is_end = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    text.match_indices("sinterdb_").filter_map(|(at, _)| text[at..].split(is_end).next()).collect()
}

/// The dashboard shows metrics that the server has, and most of them.
#[test]
fn the_dashboard_names_metrics_that_exist() {
    let (keyspace, server) = (Keyspace::open(Arc::new(MemoryStore::new()), &Settings::default(), 7).unwrap(), Server::default());
    let page = metrics(&server, &keyspace);
    let known: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let dashboard = read("dist/grafana.json");
    let shown = metrics_in(&dashboard);
    let unknown: Vec<&&str> = shown.difference(&known).collect();
    assert!(unknown.is_empty(), "the dashboard names metrics that do not exist: {unknown:?}");
    let missing: Vec<&&str> = known.difference(&shown).collect();
    assert!(missing.is_empty(), "the dashboard does not show {missing:?}");
    let brackets = |open: char, close: char| dashboard.matches(open).count() == dashboard.matches(close).count();
    assert!(brackets('{', '}') && brackets('[', ']') && brackets('(', ')'), "it is no JSON");
}

/// `systemd-analyze` accepts the unit, where it is installed.
#[test]
fn systemd_finds_nothing_wrong() {
    let folder = tempfile::tempdir().unwrap();
    // The program is not installed where the tests run.
    let unit = read("dist/sinterdb.service").replace("/usr/bin/sinter", "/bin/true");
    let path = folder.path().join("sinterdb.service");
    std::fs::write(&path, unit).unwrap();
    let Ok(output) = std::process::Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output() else {
        eprintln!("skipped: there is no systemd-analyze here");
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    let ours: Vec<&str> = text.lines().filter(|line| line.contains("sinterdb.service")).collect();
    assert!(ours.is_empty(), "{text}");
}
