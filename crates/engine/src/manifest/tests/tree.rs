//! `Version::apply`, as text: a tree is written `L0 9:[5 a-c] 8:[4 b-d]; L1 0:[2 a-c, 3 e-g]`, a change `+L0/9 5 a-c`, `-L0/9 5` or
//! `L0/9>L1/0 5`. A range that ends with `)` excludes its end.

use super::*;

fn parse_place(text: &str) -> RunLocation {
    let (level, run) = text.strip_prefix('L').unwrap().split_once('/').unwrap();
    RunLocation { level: level.parse().unwrap(), run: run.parse().unwrap() }
}

fn parse_changes(text: &str) -> Vec<Change> {
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = words[1].parse().unwrap();
        if let Some(to) = words[0].strip_prefix('+') {
            let (smallest, largest) = words[2].split_once('-').unwrap();
            let mut info = TableInfo::clone(&table(number, smallest, largest.trim_end_matches(')')));
            info.range.end_exclusive = largest.ends_with(')');
            return Change::Add { to: parse_place(to), table: Arc::new(info) };
        }
        if let Some(from) = words[0].strip_prefix('-') {
            return Change::Remove { from: parse_place(from), number };
        }
        let (from, to) = words[0].split_once('>').unwrap();
        Change::Move { from: parse_place(from), to: parse_place(to), number }
    };
    text.split(';').map(str::trim).filter(|line| !line.is_empty()).map(parse).collect()
}

fn show(version: &Version) -> String {
    let table = |t: &Arc<TableInfo>| {
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let end = if t.range.end_exclusive { ")" } else { "" };
        format!("{} {}-{}{end}", t.number, text(&t.range.smallest), text(&t.range.largest))
    };
    let run = |r: &Run| format!("{}:[{}]", r.number, r.tables.iter().map(table).collect::<Vec<_>>().join(", "));
    let level = |(i, runs): (usize, &LevelRuns)| format!("L{i} {}", runs.iter().map(run).collect::<Vec<_>>().join(" "));
    let some = version.levels.iter().enumerate().filter(|(_, runs)| !runs.is_empty());
    some.map(level).collect::<Vec<_>>().join("; ")
}

const BASE: &str = "+L0/8 4 b-d; +L0/9 5 a-c; +L1/0 2 a-c; +L1/0 3 e-g";

fn after(changes: &str) -> Result<String, String> {
    let base = Version::empty(3).apply(&parse_changes(BASE)).unwrap();
    let before = base.clone();
    let outcome = base.apply(&parse_changes(changes));
    assert_eq!(base, before);
    outcome.map(|version| {
        assert_eq!(version.levels.len(), 3);
        show(&version)
    })
}

#[test]
fn changes_lead_where_they_should() {
    for (changes, tree) in [
        ("", "L0 9:[5 a-c] 8:[4 b-d]; L1 0:[2 a-c, 3 e-g]"),
        ("+L0/10 6 a-z", "L0 10:[6 a-z] 9:[5 a-c] 8:[4 b-d]; L1 0:[2 a-c, 3 e-g]"),
        ("+L0/7 6 a-z", "L0 9:[5 a-c] 8:[4 b-d] 7:[6 a-z]; L1 0:[2 a-c, 3 e-g]"),
        ("+L1/0 6 d-d; +L1/0 7 h-z", "L0 9:[5 a-c] 8:[4 b-d]; L1 0:[2 a-c, 6 d-d, 3 e-g, 7 h-z]"),
        ("-L0/9 5; -L0/8 4", "L1 0:[2 a-c, 3 e-g]"),
        ("-L0/9 5; -L0/8 4; -L1/0 2; -L1/0 3", ""),
        // A flush beside a compaction whose output takes the place of its input.
        ("-L0/9 5; -L0/8 4; -L1/0 2; +L1/0 6 a-b; +L1/0 7 c-d", "L1 0:[6 a-b, 7 c-d, 3 e-g]"),
        ("+L1/0 6 a-b; -L1/0 2", "L0 9:[5 a-c] 8:[4 b-d]; L1 0:[6 a-b, 3 e-g]"),
        ("L1/0>L2/0 2; L1/0>L2/0 3", "L0 9:[5 a-c] 8:[4 b-d]; L2 0:[2 a-c, 3 e-g]"),
        ("L0/9>L1/0 5; L1/0>L2/0 2", "L0 8:[4 b-d]; L1 0:[5 a-c, 3 e-g]; L2 0:[2 a-c]"),
        ("L0/8>L0/8 4", "L0 9:[5 a-c] 8:[4 b-d]; L1 0:[2 a-c, 3 e-g]"),
        // An end that is not included may be the start of the next.
        ("+L1/0 6 d-e)", "L0 9:[5 a-c] 8:[4 b-d]; L1 0:[2 a-c, 6 d-e), 3 e-g]"),
    ] {
        assert_eq!(after(changes).as_deref(), Ok(tree), "{changes}");
    }
}

#[test]
fn changes_that_make_no_sense_are_refused() {
    for (changes, why) in [
        ("-L0/9 4", "not on"),
        ("-L0/7 4", "not on"),
        ("-L5/0 4", "not on"),
        ("-L0/9 77", "not on"),
        ("L1/0>L2/0 4", "not on"),
        ("-L0/9 5; -L0/9 5", "repeats a table"),
        ("-L0/9 5; L0/9>L1/0 5", "repeats a table"),
        ("+L2/0 5 x-y", "repeats a table"),
        ("-L0/9 5; +L2/0 5 x-y", "repeats a table"),
        ("+L2/0 6 x-y; +L2/0 6 a-b", "repeats a table"),
        ("+L3/0 6 x-y", "levels"),
        ("L0/9>L3/0 5", "levels"),
        ("+L1/0 6 c-d", "overlap"),
        ("+L1/0 6 b-b", "overlap"),
        ("+L1/0 6 d-e", "overlap"),
        ("+L1/0 6 a-z", "overlap"),
        ("L0/8>L1/0 4", "overlap"),
        ("L0/8>L0/9 4", "overlap"),
        ("+L2/0 6 b-a", "ends before"),
        ("+L2/0 6 a-a)", "ends before"),
    ] {
        let error = after(changes).expect_err(changes);
        assert!(error.contains(why), "{changes}: {error}");
    }
}

#[test]
fn keys_may_be_empty_or_prefixes_of_each_other() {
    let base = Version::empty(1);
    let keyed = |number, smallest: &[u8], largest: &[u8]| {
        let range = KeyRange::closed(smallest, largest);
        add(0, 1, Arc::new(TableInfo { number, range, ..TableInfo::default() }))
    };
    let fine = [keyed(3, b"a\0", b"aa"), keyed(1, b"", b""), keyed(2, b"\0", b"a"), keyed(4, &[0xff; 9], &[0xff; 10])];
    let version = base.apply(&fine).unwrap();
    assert_eq!(version.levels[0][0].tables.iter().map(|t| t.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(version.apply(&[keyed(5, b"", b"")]).is_err());
    assert!(version.apply(&[keyed(5, &[0xff; 10], &[0xff; 11])]).is_err());
}
